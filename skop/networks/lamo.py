"""LaMO, the latent Mamba operator, on regular grids.

Tiwari, Dutta, Krishnan and Prathosh, "Latent Mamba Operator for Partial Differential Equations", ICML
2025, section 3. A grid is cut into patches, each patch becomes a token (Remark 3.1), residual blocks
mix the tokens by state-space scans along several paths and their channels by a feed-forward part
(Eq. 11 to 13), and every token is expanded back to the points of its patch.
"""

from collections.abc import Sequence
from functools import partial

from skop._typing import GridShape
from skop.modules import GridSSDMixer
from skop.networks._patch_network import PatchNetwork

__all__ = ["LaMOPatchNetwork"]


class LaMOPatchNetwork(PatchNetwork):
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
        Position code of the tokens: the paper's table, a network of the token corners that any
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
        make_mixer = partial(
            GridSSDMixer,
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
        )
        super().__init__(
            make_mixer,
            depth,
            n_dims,
            n_fields,
            n_params,
            n_outputs,
            grid_shape,
            n_scalars=n_scalars,
            patch_size=patch_size,
            width=width,
            mlp_ratio=mlp_ratio,
            position=position,
            n_frequencies=n_frequencies,
            local_features=local_features,
            dropout=dropout,
            grid_multiple=grid_multiple,
            unit_normal_patches=unit_normal_patches,
        )
