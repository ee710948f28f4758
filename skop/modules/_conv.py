"""Convolutions over neighbouring points of a grid: around a network on patches, and in blocks on points."""

from math import prod
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._grid_convolution import GridConvolution, grid_convolution

__all__ = ["ConvHead", "ConvStem", "LocalConvolution"]


def _on_channels_first(convolution: GridConvolution, grid: torch.Tensor) -> torch.Tensor:
    """Apply a convolution to a grid (B, *grid, c) with channels last."""
    if prod(grid.shape[1:-1]) == 1 and not convolution.periodic:
        # A lone point, as tables have, meets the middle of the kernel only.
        weight: Any = convolution.weight
        middle = weight[(..., *(size // 2 for size in weight.shape[2:]))]
        return nn.functional.linear(grid, middle, convolution.bias)
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
        self.convolution = grid_convolution(n_dims, in_channels, features)

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
        self.convolution = grid_convolution(n_dims, in_channels + features, features)
        self.linear = nn.Linear(features, out_channels)

    def forward(self, expanded: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """Map expanded tokens ``(B, *grid, features)`` and the input grid to ``(B, *grid, out_channels)``."""
        mixed = _on_channels_first(self.convolution, torch.cat([expanded, grid], dim=-1))
        return self.linear(nn.functional.gelu(mixed))


class LocalConvolution(nn.Module):
    """Depthwise convolution over neighbouring points of a grid, whose output is added to the points.

    Parameters
    ----------
    n_dims : int
        Number of grid axes, 1 to 3.
    width : int
        Size of a point's token.
    kernel_size : int
        Size of the kernel along each axis, odd; 1 leaves the points as they are, without any parameters.

    Raises
    ------
    ValueError
        If the kernel is of an even size.

    References
    ----------
    X. Chu et al., "Conditional Positional Encodings for Vision Transformers", ICLR 2023, with such convolutions between
    the blocks of a transformer.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import LocalConvolution
    >>> LocalConvolution(2, 4, 3)(torch.zeros(1, 35, 4), (7, 5)).shape
    torch.Size([1, 35, 4])
    """

    def __init__(self, n_dims: int, width: int, kernel_size: int) -> None:
        super().__init__()
        self.convolution: Any = None
        if kernel_size != 1:
            self.convolution = grid_convolution(n_dims, width, width, kernel_size, groups=width)

    def forward(self, points: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Add to points ``(B, P, E)`` in C order what the convolution gives."""
        return points if self.convolution is None else points + self._convolve(points, grid)

    def probe(
        self, points: torch.Tensor, others: torch.Tensor, stands_for: torch.Tensor, grid: GridShape | None
    ) -> torch.Tensor:
        """Treat other points ``(B, Q, E)`` as if each took the place of a point, ``stands_for`` of shape ``(B, Q)``."""
        if self.convolution is None:
            return others
        middle = self.convolution.weight[(slice(None), 0, *(size // 2 for size in self.convolution.kernel_size))]
        places = stands_for.unsqueeze(-1).expand(-1, -1, points.shape[-1])
        around = self._convolve(points, grid) - middle * points
        return others + middle * others + around.gather(1, places)

    def _convolve(self, points: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Convolve points (B, P, E) on their grid."""
        if grid is None or prod(grid) != points.shape[1]:
            raise ValueError(f"grid={grid} was given for {points.shape[1]} points; expected the shape of their grid.")
        return self.convolution(points.unflatten(1, grid).movedim(-1, 1)).flatten(2).mT
