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

from functools import partial
from typing import Any

from skop.networks._patch_network import PatchNetwork
from skop.parts import GeometricScan

__all__ = ["GeoMaNONetwork"]


class GeoMaNONetwork(PatchNetwork):
    """GeoMaNO for regular grids in 1, 2 or 3 dimensions.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions.
    width : int
        Size of a token.
    mixer : GeometricScan
        Scans over the tokens.
    **skeleton
        Keyword arguments of `skop.networks.PatchNetwork`.

    Examples
    --------
    >>> import torch
    >>> from skop.networks import GeoMaNONetwork
    >>> from skop.parts import GeometricScan, Patches
    >>> network = GeoMaNONetwork(
    ...     n_dims=2, n_fields=1, n_params=0, n_outputs=1, n_scalars=0, grid_shape=(8, 6), width=16, depth=1,
    ...     mlp_ratio=4.0, patches=Patches(size=2, lifting_width=16), mixer=GeometricScan(correction="0011"),
    ... )
    >>> network(torch.zeros(48, 2), torch.zeros(3, 48, 1), None, (8, 6)).field.shape
    torch.Size([3, 48, 1])
    """

    automatic_encoding = None

    def __init__(self, *, n_dims: int, width: int, mixer: GeometricScan, **skeleton: Any) -> None:
        super().__init__(partial(mixer.build, width, n_dims), n_dims=n_dims, width=width, **skeleton)
