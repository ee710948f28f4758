"""Convolutions that keep the size of a grid, with zeros outside it, or around a period."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

__all__ = ["GridConvolution", "grid_convolution", "set_periodic"]


class GridConvolution(nn.Module):
    """Base class of the convolutions of `grid_convolution`.

    Attributes
    ----------
    periodic : tuple of int
        Axes of the grid along which it wraps around; none until `set_periodic` sets them.
    """

    periodic: tuple[int, ...] = ()
    padding: Any
    weight: Any
    bias: Any
    groups: int

    def forward(self, grid: torch.Tensor) -> torch.Tensor:
        """Map a grid ``(B, in_channels, *grid)`` to ``(B, out_channels, *grid)``."""
        if not self.periodic:
            return super().forward(grid)
        padding = [*self.padding]
        for axis in self.periodic:
            size, reach, padding[axis] = grid.shape[axis + 2], padding[axis], 0
            # The kernel may reach further than around a small grid.
            around = grid if reach <= size else torch.cat([grid] * -(-reach // size), axis + 2)
            before = around.narrow(axis + 2, around.shape[axis + 2] - reach, reach)
            grid = torch.cat([before, grid, around.narrow(axis + 2, 0, reach)], axis + 2)
        convolve: Any = _FUNCTIONS[len(padding)]
        return convolve(grid, self.weight, self.bias, padding=padding, groups=self.groups)


class _Convolution1d(GridConvolution, nn.Conv1d): ...


class _Convolution2d(GridConvolution, nn.Conv2d): ...


class _Convolution3d(GridConvolution, nn.Conv3d): ...


_KINDS: dict[int, Any] = {1: _Convolution1d, 2: _Convolution2d, 3: _Convolution3d}
_FUNCTIONS = {1: nn.functional.conv1d, 2: nn.functional.conv2d, 3: nn.functional.conv3d}


def grid_convolution(
    n_dims: int, in_channels: int, out_channels: int, kernel_size: int = 3, *, groups: int = 1
) -> GridConvolution:
    """Build a convolution that keeps the size of a grid.

    Parameters
    ----------
    n_dims : int
        Number of grid axes, 1 to 3.
    in_channels, out_channels : int
        Numbers of channels.
    kernel_size : int, default=3
        Size of the kernel along each axis, odd.
    groups : int, default=1
        Number of groups of channels that are convolved separately.

    Returns
    -------
    GridConvolution
        Convolution.

    Raises
    ------
    ValueError
        If `n_dims` is not 1, 2 or 3, or the kernel is of an even size.

    Examples
    --------
    >>> import torch
    >>> from skop.modules._grid_convolution import grid_convolution
    >>> grid_convolution(2, 3, 4)(torch.zeros(1, 3, 7, 5)).shape
    torch.Size([1, 4, 7, 5])
    """
    if n_dims not in _KINDS:
        raise ValueError(f"n_dims={n_dims}; expected 1, 2 or 3 axes of the grid.")
    if kernel_size % 2 == 0:
        raise ValueError(f"kernel_size={kernel_size}; expected an odd number, so that the kernel has a middle.")
    found: GridConvolution = _KINDS[n_dims](
        in_channels, out_channels, kernel_size, padding=kernel_size // 2, groups=groups
    )
    return found


def set_periodic(network: nn.Module, axes: Sequence[int]) -> None:
    """Let the convolutions of a network on a grid wrap around, as the fields do in a periodic domain.

    Parameters
    ----------
    network : Module
        Network.
    axes : sequence of int
        Axes of the grid along which the domain is periodic; none stands for zeros outside the grid.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import set_periodic
    >>> from skop.modules._grid_convolution import grid_convolution
    >>> convolution, grid = grid_convolution(1, 1, 1), torch.arange(5.0).reshape(1, 1, 5)
    >>> set_periodic(convolution, [0])
    >>> torch.allclose(convolution(grid.roll(2, -1)), convolution(grid).roll(2, -1))
    True
    """
    for module in network.modules():
        if isinstance(module, GridConvolution):
            module.periodic = tuple(axes)
