"""Residual blocks for networks on grids and on points, and the head that predicts scalars."""

from collections.abc import Sequence
from functools import reduce
from itertools import chain

import torch
from torch import nn

from skop._draws import draw_for_rows
from skop._typing import GridShape
from skop.modules._feature_maps import note_features

__all__ = ["FeedForward", "PointBlock", "PooledHead", "PreNormBlock", "ResidualDropout", "set_drop_path"]

#: Features and coordinates of the same points.
PointGroup = tuple[torch.Tensor, torch.Tensor]


class FeedForward(nn.Module):
    """Feed-forward network: two linear layers with a GELU activation between them (LaMO, Eq. 12).

    Parameters
    ----------
    width : int
        Size of a token.
    hidden : int
        Number of hidden units.
    dropout : float, default=0.0
        Dropout probability of the hidden units.
    out : int or None, default=None
        Size of the output; None gives `width`.
    """

    def __init__(self, width: int, hidden: int, dropout: float = 0.0, *, out: int | None = None) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width if out is None else out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Apply the two layers to each token of ``(..., width)``."""
        return self.fc2(self.dropout(nn.functional.gelu(self.fc1(tokens))))


class ResidualDropout(nn.Dropout):
    """Dropout at the end of a residual branch, and drop path: the whole branch left out for random samples.

    In training, drop path multiplies the branch of each sample by 0 with probability `drop_path`, and otherwise by
    ``1 / (1 - drop_path)``, so that its mean stays the same. With a rate of 0 nothing is drawn.

    Parameters
    ----------
    dropout : float, default=0.0
        Dropout probability of single values.

    Attributes
    ----------
    drop_path : float
        Probability of drop path, in [0, 1); 0 until `set_drop_path` sets it.

    References
    ----------
    G. Huang, Y. Sun, Z. Liu, D. Sedra and K. Weinberger, "Deep networks with stochastic depth", ECCV 2016. There the
    branch is left out for a whole batch; drop path decides for each sample.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import ResidualDropout, set_drop_path
    >>> branch = ResidualDropout()
    >>> set_drop_path(branch, 0.5)
    1
    >>> sorted(set(branch(torch.ones(50, 3, 4)).sum(dim=(1, 2)).tolist()))
    [0.0, 24.0]
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.drop_path = 0.0

    def forward(self, branch: torch.Tensor, sizes: tuple[int, ...] | None = None) -> torch.Tensor:
        """Drop parts of a branch ``(B, L, width)``, or of packed samples ``(T, width)`` or ``(1, T, width)``."""
        branch = super().forward(branch)
        if not self.training or self.drop_path == 0:
            return branch
        n_samples = len(branch) if sizes is None else len(sizes)
        drawn = draw_for_rows(lambda count: torch.rand(count, device=branch.device), n_samples)
        kept = (drawn >= self.drop_path).to(branch.dtype) / (1 - self.drop_path)
        if sizes is None:
            return branch * kept.view(-1, *[1] * (branch.ndim - 1))
        return branch * kept.repeat_interleave(torch.tensor(sizes, device=branch.device)).unsqueeze(-1)


def set_drop_path(network: nn.Module, rate: float) -> int:
    """Set the probability with which a network leaves out residual branches in training.

    Parameters
    ----------
    network : Module
        Network whose blocks have branches that end in `ResidualDropout`.
    rate : float
        Probability, in [0, 1).

    Returns
    -------
    int
        Number of modules `ResidualDropout` in the network; 0 if the rate has no effect on it.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import PreNormBlock, set_drop_path
    >>> set_drop_path(PreNormBlock(torch.nn.Identity(), 4, 8), 0.1)
    1
    """
    found = [module for module in network.modules() if isinstance(module, ResidualDropout)]
    for module in found:
        module.drop_path = rate
    return len(found)


class PreNormBlock(nn.Module):
    """Residual block on tokens: ``u + mixer(norm(u))``, then ``u + mlp(norm(u))`` (LaMO, Eq. 11 and 12).

    Parameters
    ----------
    mixer : TokenMixer
        Token mixer, called as ``mixer(tokens, grid)``.
    width : int
        Size of a token.
    hidden : int
        Number of hidden units of the feed-forward network.
    dropout : float, default=0.0
        Dropout probability inside the feed-forward network and at the end of both residual branches.
    are_latents : bool, default=False
        Whether the tokens are latent tokens, whose feature maps are not those of the sample's points or patches.
    """

    def __init__(
        self, mixer: nn.Module, width: int, hidden: int, dropout: float = 0.0, *, are_latents: bool = False
    ) -> None:
        super().__init__()
        self.prefix = "latent " if are_latents else ""
        self.norm_mixer, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixer, self.mlp = mixer, FeedForward(width, hidden, dropout)
        self.dropout = ResidualDropout(dropout)

    def forward(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Transform tokens ``(B, L, width)`` that form a grid."""
        tokens = note_features(
            f"{self.prefix}mixer", tokens + self.dropout(self.mixer(self.norm_mixer(tokens), grid)), grid
        )
        return note_features(f"{self.prefix}mlp", tokens + self.dropout(self.mlp(self.norm_mlp(tokens))), grid)


class PointBlock(nn.Module):
    """Base class of the residual blocks of a point network.

    Such a block first summarises all points of a sample, then updates each point from the summary. A subclass defines
    four methods:

    - `encode` summarises points in tensors of fixed size, such as sums over the points, or sums with a running maximum
      for a softmax over points;
    - `merge` combines the summaries of two parts of a sample, so that large samples can be processed in chunks of
      points;
    - `mix` computes latent tokens from a summary, usually with a token mixer;
    - `decode` updates points from the latent tokens. These can be the points of the summary or other ones.

    Weighted pooling, cross-attention to latent tokens and linear attention can be written in this form. Packed samples,
    query points and inference in bounded memory then work without further code.

    Notes
    -----
    Notation: B samples, P points, T points of all samples of a packed batch, E width, G latent tokens. Each subclass
    chooses the shapes of its summary and latent tokens; only their first axis is fixed and counts the samples.
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
        """Summarise each sample of points ``(B, P, E)``, or of packed points ``(T, E)`` with `sizes`."""
        raise NotImplementedError(f"{type(self).__name__} has to define encode(points, coords, sizes, grid_shape).")

    def merge(self, first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Combine the summaries of two parts of the same samples: by default, add their tensors."""
        return tuple(a + b for a, b in zip(first, second, strict=True))

    def mix(self, summary: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Compute latent tokens, usually ``(B, G, E)``, from a summary."""
        raise NotImplementedError(f"{type(self).__name__} has to define mix(summary).")

    def decode(
        self,
        points: torch.Tensor,
        coords: torch.Tensor | None,
        latents: torch.Tensor,
        sizes: tuple[int, ...] | None = None,
        grid_shape: GridShape | None = None,
    ) -> torch.Tensor:
        """Update points from the latent tokens of their samples; they need not be the summarised points."""
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
        """Update all points of a batch: encode, mix and decode.

        Parameters
        ----------
        points : Tensor of shape (B, P, E) or (T, E)
            Features of the points.
        coords : Tensor of shape (P, d), (B, P, d) or (T, d), or None, default=None
            Coordinates of the points.
        sizes : tuple of int or None, default=None
            Number of points of each sample of a packed batch.
        grid_shape : tuple of int or None, default=None
            Number of points along each axis of a structured mesh.

        Returns
        -------
        points : Tensor of the same shape
            Updated features.
        latents : Tensor
            Latent tokens, for `decode` on other points.
        """
        latents = self.mix(self.encode(points, coords, sizes, grid_shape))
        return self.decode(points, coords, latents, sizes, grid_shape), latents

    def update_in_place(self, groups: Sequence[PointGroup], chunk_size: int) -> None:
        """Update one sample in place, a chunk of points at a time; only for use without gradients.

        Parameters
        ----------
        groups : sequence of pairs of Tensors
            Features ``(1, P, E)``, which are overwritten, and coordinates ``(1, P, d)``. The first pair holds the
            points that are summarised; further pairs hold points that are only updated.
        chunk_size : int
            Largest number of points processed at once.
        """
        chunks = [
            list(zip(points.split(chunk_size, dim=1), coords.split(chunk_size, dim=1), strict=True))
            for points, coords in groups
        ]
        latents = self.mix(reduce(self.merge, (self.encode(points, coords) for points, coords in chunks[0])))
        for points, coords in chain(*chunks):
            points.copy_(self.decode(points, coords, latents))


class PooledHead(nn.Module):
    """Head that predicts scalars of a sample from the mean of its tokens.

    Parameters
    ----------
    width : int
        Size of a token.
    n_outputs : int
        Number of scalars to predict.

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
        """Predict scalars ``(B, n_outputs)`` from tokens ``(B, L, width)``."""
        return self.linear(self.norm(tokens).mean(dim=1))
