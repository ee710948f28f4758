"""Positional encodings of tokens.

Notation: L tokens, d space dimensions.
"""

import math

import torch
from torch import nn

__all__ = ["CoordinatePositionalEncoding", "LearnedPositionalEncoding"]


class LearnedPositionalEncoding(nn.Module):
    """Learned positional encoding: one vector for each token, initially zero, for a grid of fixed size.

    This is the encoding of LaMO's public code. The network can then be used on its training grid only.

    Parameters
    ----------
    n_tokens : int
        Number of tokens of the grid.
    width : int
        Size of a token.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import LearnedPositionalEncoding
    >>> LearnedPositionalEncoding(6, 8)(torch.zeros(6, 2)).shape
    torch.Size([6, 8])
    """

    #: An offset of each token, as a bias is one of all: weight decay leaves it alone unless it is asked not to.
    no_weight_decay = ("table",)

    def __init__(self, n_tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(n_tokens, width))

    def forward(self, centres: torch.Tensor) -> torch.Tensor:
        """Return the table ``(L, width)``; raise ValueError if the number of token centres is not L."""
        if centres.shape[-2] != len(self.table):
            raise ValueError(
                f"positional_encoding='learned' was fitted for {len(self.table)} tokens and cannot serve "
                f"{centres.shape[-2]}; fit with positional_encoding='coordinates' to predict on other grids."
            )
        return self.table


class CoordinatePositionalEncoding(nn.Module):
    """Positional encoding by a small network of sines and cosines of the token centres, for grids of any resolution.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width : int
        Size of a token.
    n_frequencies : int, default=4
        Number of frequencies pi, 2 pi, 4 pi, ... for each coordinate; coordinates should lie in the unit box.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import CoordinatePositionalEncoding
    >>> CoordinatePositionalEncoding(2, 8)(torch.zeros(6, 2)).shape
    torch.Size([6, 8])
    """

    frequencies: torch.Tensor

    def __init__(self, n_dims: int, width: int, n_frequencies: int = 4) -> None:
        super().__init__()
        self.register_buffer("frequencies", math.pi * 2.0 ** torch.arange(n_frequencies), persistent=False)
        self.hidden = nn.Linear(n_dims * (2 * n_frequencies + 1), width)
        self.out = nn.Linear(width, width)

    def forward(self, centres: torch.Tensor) -> torch.Tensor:
        """Encode token centres ``(..., L, d)`` as ``(..., L, width)``."""
        angles = (centres[..., None] * self.frequencies.to(centres.dtype)).flatten(-2)
        features = torch.cat([centres, angles.sin(), angles.cos()], dim=-1)
        return self.out(nn.functional.gelu(self.hidden(features)))
