"""U-Net: convolutions on coarser and coarser grids and back, with connections between grids of the same size.

O. Ronneberger, P. Fischer and T. Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation", MICCAI 2015,
in the form that is used for partial differential equations: residual blocks with group normalisation before the
activation (J. K. Gupta and J. Brandstetter, "Towards Multi-spatiotemporal-scale Generalized PDE Modeling", TMLR 2023),
on grids in one to three dimensions (M. Takamoto et al., "PDEBench", NeurIPS 2022).

Notation: B batch, P points, d space dimensions, c channels.
"""

from math import gcd
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules import PooledHead, grid_convolution
from skop.networks._channels import join_channels
from skop.networks._interface import OperatorNetwork, Outputs

__all__ = ["UNetNetwork"]

_EXPANSIONS: dict[int, Any] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
_POOLS: dict[int, Any] = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}


class UNetNetwork(OperatorNetwork):
    """U-Net for grids in 1 to 3 dimensions of any size.

    Coordinates, fields and global parameters, which are constant over the grid, are the input channels.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions, 1 to 3.
    n_fields, n_params : int
        Number of input channels and of global parameters.
    n_outputs : int
        Number of output channels; 0 for no field.
    n_scalars : int
        Number of scalars, predicted from the mean over the coarsest grid; 0 for none.
    width : int
        Number of channels on the finest grid; each coarser grid has twice as many.
    depth : int
        Number of times that the grid is halved. Grids are padded by their last points to a multiple of ``2**depth``.
    n_groups : int
        Number of groups of channels that are normalised together, or the largest divisor that it shares with the
        number of channels.
    kernel_size : int
        Size of the convolutions along each axis, odd.

    Raises
    ------
    ValueError
        If there are more than 3 dimensions, or the kernel is of an even size.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import UNetNetwork
    >>> network = UNetNetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, width=8, depth=2, n_groups=1, kernel_size=3
    ... )
    >>> network(torch.zeros(35, 2), torch.zeros(3, 35, 1), None, grid_shape=(7, 5)).field.shape
    torch.Size([3, 35, 1])
    """

    needs_grid = True

    def __init__(
        self,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        n_scalars: int,
        width: int,
        depth: int,
        n_groups: int,
        kernel_size: int,
    ) -> None:
        super().__init__()
        self.depth = depth
        widths = [width * 2**level for level in range(depth + 1)]
        options = {"n_groups": n_groups, "kernel_size": kernel_size}
        self.lifting = grid_convolution(n_dims, n_dims + n_fields + n_params, width, kernel_size)
        self.pool = _POOLS[n_dims](2)
        self.encoders = nn.ModuleList(
            _ResidualBlock(n_dims, widths[max(level - 1, 0)], widths[level], **options) for level in range(depth + 1)
        )
        self.head = None
        if n_outputs:
            self.expansions = nn.ModuleList(
                _EXPANSIONS[n_dims](widths[level + 1], widths[level], 2, stride=2) for level in range(depth)
            )
            self.decoders = nn.ModuleList(
                _ResidualBlock(n_dims, 2 * widths[level], widths[level], **options) for level in range(depth)
            )
            self.head = grid_convolution(n_dims, width, n_outputs, 1)
        self.scalar_head = PooledHead(widths[-1], n_scalars) if n_scalars else None

    def forward(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        grid_shape: GridShape | None = None,
        sizes: tuple[int, ...] | None = None,
        query_coords: torch.Tensor | None = None,
        query_fields: torch.Tensor | None = None,
    ) -> Outputs:
        """Map samples on a grid to fields, scalars, or both, see `OperatorNetwork.forward`."""
        self.check_arguments(coords, fields, params, grid_shape, sizes, query_coords, query_fields)
        shape = tuple(grid_shape or ())
        grid = join_channels(coords, fields, params).mT.unflatten(-1, shape)
        # The last axis comes first in the list of paddings.
        missing = [part for size in reversed(shape) for part in (0, -size % 2**self.depth)]
        features = self.lifting(nn.functional.pad(grid, missing, mode="replicate") if any(missing) else grid)
        levels: list[torch.Tensor] = []
        for level, encoder in enumerate(self.encoders):
            features = encoder(self.pool(features) if level else features)
            levels.append(features)
        scalars = None if self.scalar_head is None else self.scalar_head(levels[-1].flatten(2).mT)
        if self.head is None:
            return Outputs(None, scalars)
        for level in reversed(range(self.depth)):
            expanded = self.expansions[level](features)
            features = self.decoders[level](torch.cat([levels[level], expanded], dim=1))
        field = self.head(features)[(..., *(slice(size) for size in shape))]
        return Outputs(field.flatten(2).mT, scalars)


class _ResidualBlock(nn.Module):
    """Two convolutions, each after a normalisation and an activation, beside a linear map of each point."""

    def __init__(self, n_dims: int, inner: int, outer: int, *, n_groups: int, kernel_size: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(gcd(n_groups, channels), channels) for channels in (inner, outer))
        self.convolutions = nn.ModuleList(
            grid_convolution(n_dims, channels, outer, kernel_size) for channels in (inner, outer)
        )
        self.shortcut = nn.Identity() if inner == outer else grid_convolution(n_dims, inner, outer, 1)

    def forward(self, grid: torch.Tensor) -> torch.Tensor:
        """Map a grid ``(B, inner, *grid)`` to ``(B, outer, *grid)``."""
        found = grid
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            found = convolution(nn.functional.gelu(norm(found)))
        return self.shortcut(grid) + found
