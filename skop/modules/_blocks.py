"""The residual blocks of the two network skeletons, and the heads for scalars."""

from collections.abc import Sequence
from functools import reduce
from itertools import chain

import torch
from torch import nn

from skop._typing import GridShape

__all__ = ["FeedForward", "PointBlock", "PooledHead", "PreNormBlock"]

#: Features and coordinates of the same points.
PointGroup = tuple[torch.Tensor, torch.Tensor]


class FeedForward(nn.Module):
    """Two linear layers with a GELU between: LaMO's channel mixing (Eq. 12).

    Parameters
    ----------
    width : int
        Size of a token.
    hidden : int
        Size of the layer between.
    dropout : float, default=0.0
        Probability of dropping a hidden unit in training.
    out : int or None, default=None
        Size of the output; None is `width`.
    """

    def __init__(self, width: int, hidden: int, dropout: float = 0.0, *, out: int | None = None) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width if out is None else out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mix the channels of tokens ``(..., width)``."""
        return self.fc2(self.dropout(nn.functional.gelu(self.fc1(tokens))))


class PreNormBlock(nn.Module):
    """``u + mixer(norm(u))``, then ``u + mlp(norm(u))``: LaMO's Eq. 11 and 12, on the tokens of a grid.

    Parameters
    ----------
    mixer : TokenMixer
        Token mixer, called as ``mixer(tokens, grid)``.
    width : int
        Size of a token.
    hidden : int
        Size of the hidden layer of the feed-forward part.
    dropout : float, default=0.0
        Dropout inside the feed-forward part and on both branches.
    """

    def __init__(self, mixer: nn.Module, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm_mixer, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixer, self.mlp = mixer, FeedForward(width, hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Transform tokens ``(B, L, width)`` that form a grid."""
        tokens = tokens + self.dropout(self.mixer(self.norm_mixer(tokens), grid))
        return tokens + self.dropout(self.mlp(self.norm_mlp(tokens)))


class PointBlock(nn.Module):
    """Base of the residual blocks of a point network: the points are summarised, and updated from the summary.

    A block states what it does by four methods. `encode` summarises points by tensors that `merge` can combine, so
    that a sample of any size can be read in chunks: sums over the points, or sums with their running maximum for a
    softmax over points. `mix` turns a summary into latent tokens, by a token mixer. `decode` updates points by these
    tokens, points that were part of the summary or others. Pooling by weights, cross-attention to latent tokens and
    linear attention are such blocks; packed samples, query points and inference in bounded memory follow from the four.

    Notes
    -----
    Notation: B samples, P points, T points of all samples of a packed batch, E width, G latent tokens. What a summary
    and the latent tokens are is the block's own; their first axis counts the samples.
    """

    def __init__(self) -> None:
        super().__init__()

    def encode(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None,
        sizes: tuple[int, ...] | None = None,
        grid_shape: GridShape | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Summarise points ``(B, P, E)``, or packed ``(T, E)`` with `sizes`, sample by sample."""
        raise NotImplementedError(f"{type(self).__name__} has to define encode(points, coords, sizes, grid_shape).")

    def merge(self, first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Return the summary of two parts of the same samples: the sums of their tensors, unless overridden."""
        return tuple(a + b for a, b in zip(first, second, strict=True))

    def mix(self, summary: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Return the latent tokens of a summary, ``(B, G, E)`` in general."""
        raise NotImplementedError(f"{type(self).__name__} has to define mix(summary).")

    def decode(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None,
        latents: torch.Tensor,
        sizes: tuple[int, ...] | None = None,
        grid_shape: GridShape | None = None,
    ) -> torch.Tensor:
        """Update points by the latent tokens of their samples; the points need not be part of these."""
        raise NotImplementedError(
            f"{type(self).__name__} has to define decode(points, coords, latents, sizes, grid_shape)."
        )

    def forward(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None = None,
        sizes: tuple[int, ...] | None = None,
        grid_shape: GridShape | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Update points by their own latent tokens.

        Parameters
        ----------
        points : Tensor of shape (B, P, E) or (T, E)
            Features.
        coords : Tensor of shape (P, d), (B, P, d) or (T, d), or None, default=None
            Coordinates.
        sizes : tuple of int or None, default=None
            Points of each packed sample.
        grid_shape : tuple of int or None, default=None
            Points along each axis of a structured mesh.

        Returns
        -------
        points : Tensor of the same shape
            New features.
        latents : Tensor
            Latent tokens, for `decode` on other points.
        """
        latents = self.mix(self.encode(points, coords, sizes, grid_shape))
        return self.decode(points, coords, latents, sizes, grid_shape), latents

    def update_in_place(self, groups: Sequence[PointGroup], chunk_size: int) -> None:
        """Update one sample in its own memory, a chunk of points at a time; for use without gradients.

        Parameters
        ----------
        groups : sequence of pairs of Tensors
            Features ``(1, P, E)``, overwritten, and coordinates ``(1, P, d)``: first of the points that are
            summarised, then of any that are not.
        chunk_size : int
            Most points at a time.
        """
        chunks = [
            list(zip(points.split(chunk_size, dim=1), coords.split(chunk_size, dim=1), strict=True))
            for points, coords in groups
        ]
        latents = self.mix(reduce(self.merge, (self.encode(points, coords) for points, coords in chunks[0])))
        for points, coords in chain(*chunks):
            points.copy_(self.decode(points, coords, latents))


class PooledHead(nn.Module):
    """Scalars of a sample from the mean of its tokens.

    Parameters
    ----------
    width : int
        Size of a token.
    n_outputs : int
        Scalars of a sample.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import PooledHead
    >>> PooledHead(8, 3)(torch.zeros(2, 6, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(self, width: int, n_outputs: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, n_outputs)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return ``(B, n_outputs)`` of tokens ``(B, L, width)``."""
        return self.linear(self.norm(tokens).mean(dim=1))
