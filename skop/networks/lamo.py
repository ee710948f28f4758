"""LaMO, the latent Mamba operator, on regular grids.

Tiwari, Dutta, Krishnan and Prathosh, "Latent Mamba Operator for Partial Differential Equations", ICML
2025, section 3. A grid is cut into patches, each patch becomes a token (Remark 3.1), residual blocks
mix the tokens by state-space scans along several paths and their channels by a feed-forward part
(Eq. 11 to 13), and every token is expanded back to the points of its patch.

Letters of the shapes: B batch, P points, d space dimensions, c channels, p parameters, q outputs,
s scalars.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules import (
    CoordinatePosition,
    GridSSDMixer,
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

__all__ = ["LaMOPatchNetwork"]


class LaMOPatchNetwork(nn.Module):
    """LaMO's patch model for regular grids in 1, 2 or 3 dimensions.

    Parameters
    ----------
    n_dims : int
        Space dimensions; coordinates are always input channels.
    n_fields, n_params : int
        Input channels and global parameters; parameters are repeated on every point.
    n_outputs : int
        Output channels; 0 for no field.
    grid_shape : tuple of int
        Training grid; only a learned position table is tied to it.
    n_scalars : int, default=0
        Scalars of a sample, from the mean of its tokens; 0 for none.
    patch_size : int, default=2
        Points of a patch along each axis; the paper uses 2. Axes shorter than this get smaller patches.
    width, depth : int, default=64, 8
        Size of a token and number of blocks (paper, Darcy).
    d_state, expand, n_heads, scan, path_weights, kernel_size, activation, decay_range
        See `skop.modules.GridSSDMixer`.
    mlp_ratio : float, default=4
        Hidden size of the feed-forward part as a multiple of `width`.
    position : {"learned", "coordinates", None}, default="learned"
        Position code of the tokens: the paper's table, a network of the token centres that any
        resolution can use, or none beyond the coordinate channels.
    n_frequencies : int, default=1
        Sines and cosines of each coordinate in the position code ``"coordinates"``: pi, 2 pi, 4 pi, ...
    local_features : int, default=0
        Features of a convolution over neighbouring points before the patches, and of one after them,
        which let points see across the edges of their patch. 0, as in the paper, leaves both out.
    dropout : float, default=0.0
        In the blocks.
    grid_multiple : int, default=1
        Pad the grid to a multiple of this many points, beyond what the patch needs; the public code
        pads Darcy's 85 points to 88, a multiple of 8.
    unit_normal_patches : bool, default=True
        Initialise patch embedding and expansion from N(0, 1), as the public code.

    Raises
    ------
    ValueError
        If a size does not fit, or a grid does not fit a learned position table.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import LaMOPatchNetwork
    >>> network = LaMOPatchNetwork(2, 1, 0, 1, (8, 8), width=16, depth=1, d_state=4)
    >>> network(torch.zeros(64, 2), torch.zeros(3, 64, 1), None, (8, 8)).shape
    torch.Size([3, 64, 1])
    """

    def __init__(
        self,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        grid_shape: GridShape,
        *,
        n_scalars: int = 0,
        patch_size: int = 2,
        width: int = 64,
        depth: int = 8,
        d_state: int = 64,
        expand: int = 2,
        n_heads: int | None = None,
        scan: str = "multidirectional",
        path_weights: str = "own",
        kernel_size: int = 3,
        activation: str = "gelu",
        mlp_ratio: float = 4.0,
        decay_range: Sequence[float] = (1.0, 1.0),
        position: str | None = "learned",
        n_frequencies: int = 1,
        local_features: int = 0,
        dropout: float = 0.0,
        grid_multiple: int = 1,
        unit_normal_patches: bool = True,
    ) -> None:
        super().__init__()
        self.patch_shape = tuple(min(patch_size, size) for size in grid_shape)
        self.grid_multiple = grid_multiple
        # Stands in for the field where there is none. The public code creates it in every case.
        self.placeholder = nn.Parameter(torch.rand(n_dims) / 2)
        channels = n_dims + n_fields + n_params
        self.stem = LocalStem(n_dims, channels, local_features) if local_features else None
        channels += local_features
        self.embedding = PatchEmbedding(channels, width, self.patch_shape, unit_normal=unit_normal_patches)
        self.position = _position_code(position, n_dims, prod(self._token_grid(grid_shape)), width, n_frequencies)
        self.blocks = nn.ModuleList(
            PreNormBlock(
                GridSSDMixer(
                    width,
                    n_dims,
                    d_state=d_state,
                    expand=expand,
                    n_heads=n_heads,
                    scan=scan,
                    path_weights=path_weights,
                    kernel_size=kernel_size,
                    activation=activation,
                    decay_range=decay_range,
                ),
                width,
                int(mlp_ratio * width),
                dropout,
            )
            for _ in range(depth)
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
        grid = join_channels(moved, fields, params).unflatten(1, grid_shape)
        if self.stem is not None:
            grid = self.stem(grid)
        counts = self._token_grid(grid_shape)
        tokens = self.embedding(grid, counts)
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
    if position == "learned":
        return LearnedPosition(n_tokens, width)
    return CoordinatePosition(n_dims, width, n_frequencies) if position == "coordinates" else None
