"""The skeleton of the patch models: patches of a regular grid become tokens, and tokens patches again.

Letters of the shapes: B batch, P points, d space dimensions, c channels, p parameters, q outputs,
s scalars.
"""

from collections.abc import Callable
from math import prod

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules import (
    CoordinatePosition,
    FeedForward,
    LearnedPosition,
    LocalHead,
    LocalStem,
    PatchEmbedding,
    PatchExpansion,
    PooledHead,
    PreNormBlock,
    token_grid,
)
from skop.networks._channels import NetworkOutput, join_channels, join_outputs

__all__ = ["PatchNetwork"]


class PatchNetwork(nn.Module):
    """Encode patches of a grid as tokens, mix them in residual blocks, and expand them to points.

    Parameters
    ----------
    make_mixer : callable
        Makes the token mixer of a block, which is called as ``mixer(tokens, token_grid)``.
    depth : int
        Number of blocks.
    n_dims : int
        Space dimensions.
    n_fields, n_params : int
        Input channels and global parameters; parameters are repeated on every point.
    n_outputs : int
        Output channels; 0 for no field.
    grid_shape : tuple of int
        Training grid; only a learned position table is tied to it.
    n_scalars : int
        Scalars of a sample, from the mean of its tokens; 0 for none.
    patch_size : int
        Points of a patch along each axis; axes shorter than this get smaller patches.
    width : int
        Size of a token.
    mlp_ratio : float
        Hidden size of the feed-forward part as a multiple of `width`.
    position : {"learned", "coordinates", None}
        Position code of the tokens: a table, a network of the token corners that any resolution can
        use, or none beyond the coordinate channels.
    n_frequencies : int
        Sines and cosines of each coordinate in the position code ``"coordinates"``.
    local_features : int
        Features of a convolution over neighbouring points before the patches, and of one after them;
        0 leaves both out.
    dropout : float
        In the blocks.
    grid_multiple : int, default=1
        Pad the grid to a multiple of this many points, beyond what the patch needs.
    unit_normal_patches : bool, default=False
        Initialise patch embedding and expansion from N(0, 1).
    lift : int, default=0
        Size to which a feed-forward network lifts every point before the patches; 0 leaves it out.
    coordinate_channels : bool, default=True
        Whether coordinates are input channels where there are fields or parameters.

    Raises
    ------
    ValueError
        If there is no such position code.
    """

    def __init__(
        self,
        make_mixer: Callable[[], nn.Module],
        depth: int,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        grid_shape: GridShape,
        *,
        n_scalars: int,
        patch_size: int,
        width: int,
        mlp_ratio: float,
        position: str | None,
        n_frequencies: int,
        local_features: int,
        dropout: float,
        grid_multiple: int = 1,
        unit_normal_patches: bool = False,
        lift: int = 0,
        coordinate_channels: bool = True,
    ) -> None:
        super().__init__()
        self.patch_shape = tuple(min(patch_size, size) for size in grid_shape)
        self.grid_multiple = grid_multiple
        # Stands in for the field where there is none. LaMO's public code creates it in every case.
        self.placeholder = nn.Parameter(torch.rand(n_dims) / 2)
        self.skip_coords = not coordinate_channels and n_fields + n_params > 0
        channels = n_fields + n_params + (0 if self.skip_coords else n_dims)
        self.stem = LocalStem(n_dims, channels, local_features) if local_features else None
        channels += local_features
        self.lift = FeedForward(channels, lift, out=lift) if lift else None
        self.embedding = PatchEmbedding(lift or channels, width, self.patch_shape, unit_normal=unit_normal_patches)
        self.position = _position_code(position, n_dims, prod(self._token_grid(grid_shape)), width, n_frequencies)
        self.blocks = nn.ModuleList(
            PreNormBlock(make_mixer(), width, int(mlp_ratio * width), dropout) for _ in range(depth)
        )
        self.head = self.local_head = None
        if n_outputs:
            expanded = local_features or n_outputs
            self.head = PatchExpansion(width, expanded, self.patch_shape, unit_normal=unit_normal_patches)
            if local_features:
                self.local_head = LocalHead(n_dims, channels, local_features, n_outputs)
        self.scalar_head = PooledHead(width, n_scalars) if n_scalars else None

    def forward(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        grid_shape: GridShape,
    ) -> NetworkOutput:
        """Map samples on a grid to fields, scalars, or both.

        Parameters
        ----------
        coords : Tensor of shape (P, d) or (B, P, d)
            Coordinates in C order, scaled to the unit box.
        fields : Tensor of shape (B, P, c) or None
            Input fields.
        params : Tensor of shape (B, p) or None
            Global parameters.
        grid_shape : tuple of int
            Points along each axis; their product is P.

        Returns
        -------
        Tensor of shape (B, P, q), or of shape (B, 1, s), or a tuple of both
            Outputs: a field, the scalars of the samples, or both.
        """
        moved = coords + self.placeholder if fields is None else coords
        points = join_channels(moved, fields, params)[..., coords.shape[-1] if self.skip_coords else 0 :]
        grid = points.unflatten(1, grid_shape)
        if self.stem is not None:
            grid = self.stem(grid)
        counts = self._token_grid(grid_shape)
        tokens = self.embedding(grid if self.lift is None else self.lift(grid), counts)
        if self.position is not None:
            tokens = tokens + self.position(self._corners(coords, grid_shape, counts))
        for block in self.blocks:
            tokens = block(tokens, counts)
        field = None if self.head is None else self.head(tokens, counts, grid_shape)
        if field is not None and self.local_head is not None:
            field = self.local_head(field, grid)
        scalars = None if self.scalar_head is None else self.scalar_head(tokens)
        return join_outputs(None if field is None else field.flatten(1, -2), scalars)

    def _token_grid(self, grid_shape: GridShape) -> GridShape:
        """Tokens along each axis of a grid."""
        return token_grid(grid_shape, self.patch_shape, self.grid_multiple)

    def _corners(self, coords: torch.Tensor, grid_shape: GridShape, counts: GridShape) -> torch.Tensor:
        """Coordinates of the first point of each patch; tokens of padding take the last point of their axis."""
        grid = coords.unflatten(-2, grid_shape)
        for axis, (patch, count, size) in enumerate(zip(self.patch_shape, counts, grid_shape, strict=True)):
            first = (torch.arange(count, device=coords.device) * patch).clamp_max(size - 1)
            grid = grid.index_select(axis - 1 - len(grid_shape), first)
        return grid.flatten(-1 - len(grid_shape), -2)


def _position_code(
    position: str | None, n_dims: int, n_tokens: int, width: int, n_frequencies: int
) -> nn.Module | None:
    """The module of a named position code."""
    if position is None:
        return None
    if position == "learned":
        return LearnedPosition(n_tokens, width)
    if position == "coordinates":
        return CoordinatePosition(n_dims, width, n_frequencies)
    raise ValueError(f"position is {position!r}; expected 'learned', 'coordinates' or None.")
