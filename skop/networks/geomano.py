"""GeoMaNO, the geometric Mamba neural operator, on regular grids.

X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
differential equations", 2025, section 4. Every point is lifted, patches become tokens (Eq. 6), residual
blocks mix the tokens by selective scans that cross the grid in several directions, one- or
multi-dimensional and corrected for their overlap (Eqs. 8 to 10, Algorithm 1), and every token is expanded
back to the points of its patch (Eq. 7).

The implementation differs from the printed formulas in these points. The softmax of the encoder (Eq. 6) is omitted,
because a softmax over latent tokens leaves no grid to scan, and the text describes a patch embedding that keeps the
geometry. The softmax of the decoder (Eq. 7) is omitted too. The last LayerNorm comes before the linear layer instead of
after it, because a normalised field of one channel would be constant. The biases and activations of the linear layers
around the scan (section 4.1) are omitted. The default correction is applied at the state, as the text argues; the
formulas print it elsewhere.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from skop.modules import GeometricScanMixer
from skop.networks._patch_network import PatchNetwork

__all__ = ["GeoMaNONetwork"]


class GeoMaNONetwork(PatchNetwork):
    """GeoMaNO for regular grids in 1, 2 or 3 dimensions.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width : int
        Size of a token.
    d_state, expand, dt_rank, recurrence, scan_directions, direction_order, correction, correction_at, kernel_size, \
    activation, separate_gate, activate_output, step_range, decay_range
        See `skop.modules.GeometricScanMixer`.
    **skeleton
        Keyword arguments of `skop.networks.PatchNetwork`.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import GeoMaNONetwork
    >>> network = GeoMaNONetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, grid_shape=(8, 6), patch_size=2, width=16,
    ...     depth=1, mlp_ratio=4.0, lifting_width=16, d_state=4, expand=2, dt_rank=None, recurrence="grid",
    ...     scan_directions="cross", direction_order="paper", correction="0011", correction_at="state", kernel_size=3,
    ...     activation="silu", separate_gate=False, activate_output=True, step_range=(1e-3, 0.1), decay_range=None,
    ... )
    >>> network(torch.zeros(48, 2), torch.zeros(3, 48, 1), None, (8, 6)).field.shape
    torch.Size([3, 48, 1])
    """

    def __init__(
        self,
        *,
        n_dims: int,
        width: int,
        d_state: int,
        expand: int,
        dt_rank: int | None,
        recurrence: str,
        scan_directions: str,
        direction_order: str,
        correction: str | None,
        correction_at: str,
        kernel_size: int,
        activation: str,
        separate_gate: bool,
        activate_output: bool,
        step_range: Sequence[float],
        decay_range: Sequence[float] | None,
        **skeleton: Any,
    ) -> None:
        make_mixer = partial(
            GeometricScanMixer,
            width,
            n_dims,
            d_state=d_state,
            expand=expand,
            dt_rank=dt_rank,
            recurrence=recurrence,
            scan_directions=scan_directions,
            direction_order=direction_order,
            correction=correction,
            correction_at=correction_at,
            kernel_size=kernel_size,
            activation=activation,
            separate_gate=separate_gate,
            activate_output=activate_output,
            step_range=step_range,
            decay_range=decay_range,
        )
        super().__init__(make_mixer, n_dims=n_dims, width=width, **skeleton)
