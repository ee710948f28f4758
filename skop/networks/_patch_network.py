"""Base class of the networks on regular grids, which turn patches into tokens, and tokens back into patches.

Notation: B batch, P points, d space dimensions, c channels, p global parameters, q output channels, s scalars.
"""

from collections.abc import Callable
from math import prod
from operator import add
from typing import ClassVar

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules import (
    ConvHead,
    ConvStem,
    CoordinatePositionalEncoding,
    FeedForward,
    LearnedPositionalEncoding,
    PatchEmbedding,
    PatchUnembedding,
    PooledHead,
    PreNormBlock,
    note_features,
    token_grid,
)
from skop.networks._channels import join_channels
from skop.networks._interface import OperatorNetwork, Outputs
from skop.parts import Patches

__all__ = ["PatchNetwork", "shift_patches"]


class PatchNetwork(OperatorNetwork):
    """Network on grids: patches are embedded as tokens, mixed in residual blocks, and expanded to points again.

    Sizes have no default values.

    Parameters
    ----------
    make_mixer : callable
        Function without arguments that returns the token mixer of a block, see `skop.modules.TokenMixer`.
    n_dims : int
        Number of space dimensions, 1 to 3.
    n_fields, n_params : int
        Number of input channels and of global parameters, which are repeated at every point.
    n_outputs : int
        Number of output channels; 0 for no field.
    n_scalars : int
        Number of scalars, predicted from the mean of a sample's tokens; 0 for none.
    grid_shape : tuple of int
        Shape of the training grid. With a learned positional encoding, no other grid can be used. Along axes that are
        shorter than a patch, patches are smaller.
    patches : Patches
        Size of the patches, and the layers between points and patches. Grids are padded with zeros to a multiple of the
        size.
    width : int
        Size of a token.
    depth : int
        Number of blocks.
    mlp_ratio : float
        Number of hidden units of the feed-forward networks, as a multiple of `width`.
    dropout : float, default=0.0
        Dropout probability in the blocks.

    Attributes
    ----------
    automatic_encoding : {"coordinates", None}
        Positional encoding that ``"auto"`` stands for, of the class.

    Examples
    --------
    >>> import torch
    >>> from functools import partial
    >>> from skop.modules import HydraMixer
    >>> from skop.networks import PatchNetwork
    >>> from skop.parts import Patches
    >>> sizes = {"n_dims": 2, "n_fields": 1, "n_params": 0, "n_outputs": 1, "n_scalars": 2, "grid_shape": (8, 6)}
    >>> sizes |= {"width": 16, "depth": 1, "mlp_ratio": 2.0}
    >>> network = PatchNetwork(partial(HydraMixer, 16, 2), patches=Patches(size=2), **sizes)
    >>> outputs = network(torch.zeros(48, 2), torch.zeros(3, 48, 1), None, grid_shape=(8, 6))
    >>> outputs.field.shape, outputs.scalars.shape
    (torch.Size([3, 48, 1]), torch.Size([3, 2]))
    """

    needs_grid = True
    automatic_encoding: ClassVar[str | None] = "coordinates"

    def __init__(
        self,
        make_mixer: Callable[[], nn.Module],
        /,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        n_scalars: int,
        grid_shape: GridShape,
        patches: Patches,
        width: int,
        depth: int,
        mlp_ratio: float,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        patches._validate_params()
        stem_channels, head_channels = patches.convolutions(n_outputs, width)
        lifting_width = int(patches.lifting_width)
        self.patch_shape = patches.shape(grid_shape)
        self.pad_to_multiple, self.shifts_patches = int(patches.pad_to_multiple), False
        # Learned input that replaces the fields where there are none. It is always created, as in LaMO's public code.
        self.placeholder = nn.Parameter(torch.rand(n_dims) / 2)
        self.skip_coords = not patches.coordinate_channels and n_fields + n_params > 0
        channels = n_fields + n_params + (0 if self.skip_coords else n_dims)
        self.conv_stem = ConvStem(n_dims, channels, stem_channels) if stem_channels else None
        channels += stem_channels
        self.lifting = FeedForward(channels, lifting_width, out=lifting_width) if lifting_width else None
        self.embedding = PatchEmbedding(lifting_width or channels, width, self.patch_shape, init=patches.init)
        n_tokens = prod(self._token_grid(grid_shape))
        encoding = patches.positional_encoding
        self.positional_encoding: nn.Module | None = None
        if encoding == "learned":
            self.positional_encoding = LearnedPositionalEncoding(n_tokens, width)
        elif (self.automatic_encoding if encoding == "auto" else encoding) == "coordinates":
            self.positional_encoding = CoordinatePositionalEncoding(n_dims, width, int(patches.n_frequencies))
        self.blocks = nn.ModuleList(
            PreNormBlock(make_mixer(), width, int(mlp_ratio * width), dropout) for _ in range(depth)
        )
        self.unembedding = self.conv_head = None
        if n_outputs:
            expanded = head_channels or n_outputs
            self.unembedding = PatchUnembedding(width, expanded, self.patch_shape, init=patches.init)
            if head_channels:
                self.conv_head = ConvHead(n_dims, channels, head_channels, n_outputs)
        self.scalar_head = PooledHead(width, n_scalars) if n_scalars else None

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
        moved = coords + self.placeholder if fields is None else coords
        points = join_channels(moved, fields, params)[..., coords.shape[-1] if self.skip_coords else 0 :]
        grid = points.unflatten(1, shape)
        if self.conv_stem is not None:
            grid = self.conv_stem(grid)
        offset = self._draw_offset()
        counts = self._token_grid(tuple(map(add, shape, offset)))
        tokens = self.embedding(grid if self.lifting is None else self.lifting(grid), counts, offset)
        if self.positional_encoding is not None:
            tokens = tokens + self.positional_encoding(self._corners(coords, shape, counts, offset))
        note_features("input", tokens, counts)
        for block in self.blocks:
            tokens = block(tokens, counts)
        field = None if self.unembedding is None else self.unembedding(tokens, counts, shape, offset)
        if field is not None and self.conv_head is not None:
            field = self.conv_head(field, grid)
        scalars = None if self.scalar_head is None else self.scalar_head(tokens)
        return Outputs(None if field is None else field.flatten(1, -2), scalars)

    def _token_grid(self, grid_shape: GridShape) -> GridShape:
        """Number of tokens along each axis of a grid."""
        return token_grid(grid_shape, self.patch_shape, self.pad_to_multiple)

    @property
    def can_shift_patches(self) -> bool:
        """Whether patches can begin elsewhere: they have several points, and the number of tokens is not fixed."""
        return max(self.patch_shape) > 1 and not isinstance(self.positional_encoding, LearnedPositionalEncoding)

    def _draw_offset(self) -> GridShape:
        """Number of points by which the patches begin before the grid, along each axis."""
        if not (self.training and self.shifts_patches):
            return (0,) * len(self.patch_shape)
        return tuple(int(torch.randint(patch, ())) for patch in self.patch_shape)

    def _corners(
        self, coords: torch.Tensor, grid_shape: GridShape, counts: GridShape, offset: GridShape
    ) -> torch.Tensor:
        """Coordinates of the first point of each patch; outside the grid, of the nearest one of it along the axis."""
        grid = coords.unflatten(-2, grid_shape)
        for axis, (patch, count, size) in enumerate(zip(self.patch_shape, counts, grid_shape, strict=True)):
            first = (torch.arange(count, device=coords.device) * patch - offset[axis]).clamp(0, size - 1)
            grid = grid.index_select(axis - 1 - len(grid_shape), first)
        return grid.flatten(-1 - len(grid_shape), -2)


def shift_patches(network: nn.Module, shifts: bool) -> int:
    """Set whether the patches of a network begin at a random point in each step of a training.

    The points before the grid are padding, of 0 to p - 1 points for patches of p points along an axis, drawn for each
    batch. In predictions the patches begin with the grid.

    Parameters
    ----------
    network : Module
        Network with parts that are a `PatchNetwork`.
    shifts : bool
        Whether they do.

    Returns
    -------
    int
        Number of networks with patches that can begin elsewhere; 0 if this has no effect. With a learned positional
        encoding, whose number of tokens is fixed, they cannot.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import shift_patches
    >>> shift_patches(torch.nn.Linear(2, 3), True)
    0
    """
    found = [module for module in network.modules() if isinstance(module, PatchNetwork) and module.can_shift_patches]
    for module in found:
        module.shifts_patches = shifts
    return len(found)
