"""Convolutions before and after a patch network, at full resolution, across the edges of patches."""

from math import prod
from typing import Any

import torch
from torch import nn

__all__ = ["ConvHead", "ConvStem"]

_CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def _on_channels_first(convolution: nn.Module, grid: torch.Tensor) -> torch.Tensor:
    """Apply a convolution to a grid (B, *grid, c) with channels last."""
    if prod(grid.shape[1:-1]) == 1:
        # A lone point, as tables have, meets the middle of the kernel only.
        weight: Any = convolution.weight
        middle = weight[(..., *(size // 2 for size in weight.shape[2:]))]
        return nn.functional.linear(grid, middle, convolution.bias)  # type: ignore[arg-type]
    return convolution(grid.movedim(-1, 1)).movedim(1, -1)


class ConvStem(nn.Module):
    """Convolution over neighbouring points whose output is appended to the input channels.

    Parameters
    ----------
    n_dims : int
        Number of grid axes, 1 to 3.
    in_channels : int
        Number of input channels.
    features : int
        Number of channels to append.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import ConvStem
    >>> ConvStem(2, 3, 4)(torch.zeros(1, 5, 5, 3)).shape
    torch.Size([1, 5, 5, 7])
    """

    def __init__(self, n_dims: int, in_channels: int, features: int) -> None:
        super().__init__()
        self.convolution = _CONVOLUTIONS[n_dims](in_channels, features, 3, padding=1)

    def forward(self, grid: torch.Tensor) -> torch.Tensor:
        """Extend a grid ``(B, *grid, in_channels)`` to ``(B, *grid, in_channels + features)``."""
        return torch.cat([grid, nn.functional.gelu(_on_channels_first(self.convolution, grid))], dim=-1)


class ConvHead(nn.Module):
    """Convolutions that combine the output of the blocks at each point with the input and the neighbouring points.

    Parameters
    ----------
    n_dims : int
        Number of grid axes, 1 to 3.
    in_channels : int
        Number of input channels.
    features : int
        Number of channels that come from the tokens, and of the hidden layer.
    out_channels : int
        Number of output channels.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import ConvHead
    >>> ConvHead(2, 3, 4, 1)(torch.zeros(1, 5, 5, 4), torch.zeros(1, 5, 5, 3)).shape
    torch.Size([1, 5, 5, 1])
    """

    def __init__(self, n_dims: int, in_channels: int, features: int, out_channels: int) -> None:
        super().__init__()
        self.convolution = _CONVOLUTIONS[n_dims](in_channels + features, features, 3, padding=1)
        self.linear = nn.Linear(features, out_channels)

    def forward(self, expanded: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """Map expanded tokens ``(B, *grid, features)`` and the input grid to ``(B, *grid, out_channels)``."""
        mixed = _on_channels_first(self.convolution, torch.cat([expanded, grid], dim=-1))
        return self.linear(nn.functional.gelu(mixed))
