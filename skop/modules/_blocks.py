"""The residual block that every network stacks, and the pooled head for scalar outputs."""

import torch
from torch import nn

__all__ = ["FeedForward", "PooledHead", "PreNormBlock"]


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
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width if out is None else out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mix the channels of tokens ``(..., width)``."""
        return self.contract(self.dropout(nn.functional.gelu(self.expand(tokens))))


class PreNormBlock(nn.Module):
    """``u + mixer(norm(u))``, then ``u + feed_forward(norm(u))``: LaMO's Eq. 11 and 12.

    Parameters
    ----------
    mixer : Module
        Called as ``mixer(tokens, token_grid)``; mixes tokens.
    width : int
        Size of a token.
    hidden : int
        Size of the hidden layer of the feed-forward part.
    dropout : float, default=0.0
        Dropout inside the feed-forward part and on both branches.
    """

    def __init__(self, mixer: nn.Module, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm_mixer, self.norm_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixer, self.feed = mixer, FeedForward(width, hidden, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor, token_grid: tuple[int, ...]) -> torch.Tensor:
        """Transform tokens ``(B, T, width)`` that form a grid."""
        tokens = tokens + self.dropout(self.mixer(self.norm_mixer(tokens), token_grid))
        return tokens + self.dropout(self.feed(self.norm_feed(tokens)))


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
    torch.Size([2, 1, 3])
    """

    def __init__(self, width: int, n_outputs: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, n_outputs)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return ``(B, 1, n_outputs)``: scalars as one point with as many channels."""
        return self.linear(self.norm(tokens).mean(dim=1, keepdim=True))
