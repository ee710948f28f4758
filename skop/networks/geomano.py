"""GeoMaNO, the geometric Mamba neural operator, on regular grids.

X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
differential equations", 2025, section 4. Every point is lifted, patches become tokens (Eq. 6), residual
blocks mix the tokens by selective scans that cross the grid in several directions, one- or
multi-dimensional and corrected for their overlap (Eqs. 8 to 10, Algorithm 1), and every token is expanded
back to the points of its patch (Eq. 7).

The encoder's softmax of Eq. 6 and the last LayerNorm of Eq. 7 are not taken literally: a softmax over
latents has no grid for a scan to cross, and a normalised scalar field would be constant. The paper's
text, a patch embedding that keeps the geometry and its inverse, is what is built.
"""

from collections.abc import Sequence
from functools import partial

from skop._typing import GridShape
from skop.modules import GeometricScanMixer
from skop.networks._patch_network import PatchNetwork

__all__ = ["GeoMaNONetwork"]


class GeoMaNONetwork(PatchNetwork):
    """GeoMaNO for regular grids in 1, 2 or 3 dimensions.

    Parameters
    ----------
    n_dims : int
        Space dimensions.
    n_fields, n_params : int
        Input channels and global parameters; parameters are repeated on every point.
    n_outputs : int
        Output channels; 0 for no field.
    grid_shape : tuple of int
        Training grid; only a learned position table is tied to it.
    n_scalars : int, default=0
        Scalars of a sample, from the mean of its tokens; 0 for none.
    patch_size : int, default=2
        Points of a patch along each axis; the paper does not say, LaMO uses 2. Axes shorter than this get
        smaller patches; grids that are no multiple of it are padded with zeros.
    width, depth : int, default=64, 8
        Size of a token and number of blocks (paper, Darcy).
    d_state, expand, dt_rank, recurrence, crossing, direction_order, correction, correction_place, \
    kernel_size, activation, own_gate, activate_output, step_range, decay_range
        See `skop.modules.GeometricScanMixer`.
    mlp_ratio : float, default=4
        Hidden size of the feed-forward part as a multiple of `width`.
    position : {"learned", "coordinates", None}, default=None
        Position code of the tokens: a table tied to the training grid, a network of the token corners,
        or none (paper: none for Darcy, one for Navier-Stokes).
    n_frequencies : int, default=1
        Sines and cosines of each coordinate in the position code ``"coordinates"``.
    coordinate_channels : bool, default=True
        Whether coordinates are input channels, as in the skeleton that the paper builds on; its footnote 4
        counts the fields alone.
    lift : int, default=64
        Size to which a feed-forward network lifts every point before the patches; 0 leaves it out.
    local_features : int, default=0
        Features of a convolution over neighbouring points before the patches, and of one after them,
        which let points see across the edges of their patch. 0, as in the paper, leaves both out.
    dropout : float, default=0.0
        In the blocks.

    Raises
    ------
    ValueError
        If an option does not fit, or a grid does not fit a learned position table.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import GeoMaNONetwork
    >>> network = GeoMaNONetwork(2, 1, 0, 1, (8, 6), width=16, depth=1, d_state=4, lift=16, correction="0011")
    >>> network(torch.zeros(48, 2), torch.zeros(3, 48, 1), None, (8, 6)).shape
    torch.Size([3, 48, 1])
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
        d_state: int = 16,
        expand: int = 2,
        dt_rank: int | None = None,
        recurrence: str = "grid",
        crossing: str = "cross",
        direction_order: str = "reverses_last",
        correction: str | None = None,
        correction_place: str = "state",
        kernel_size: int = 3,
        activation: str = "silu",
        own_gate: bool = False,
        activate_output: bool = True,
        step_range: Sequence[float] = (1e-3, 0.1),
        decay_range: Sequence[float] | None = None,
        mlp_ratio: float = 4.0,
        position: str | None = None,
        n_frequencies: int = 1,
        coordinate_channels: bool = True,
        lift: int = 64,
        local_features: int = 0,
        dropout: float = 0.0,
    ) -> None:
        make_mixer = partial(
            GeometricScanMixer,
            width,
            n_dims,
            d_state=d_state,
            expand=expand,
            dt_rank=dt_rank,
            recurrence=recurrence,
            crossing=crossing,
            direction_order=direction_order,
            correction=correction,
            correction_place=correction_place,
            kernel_size=kernel_size,
            activation=activation,
            own_gate=own_gate,
            activate_output=activate_output,
            step_range=step_range,
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
            lift=lift,
            coordinate_channels=coordinate_channels,
        )
