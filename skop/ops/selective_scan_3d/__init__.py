"""The selective scan over a three-dimensional grid: along one axis after the other.

Notation: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the own cell's
input that y does not see, y output.
"""

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from skop.ops._dispatch import Operation
from skop.ops._selective import N_TENSORS, Direction, example
from skop.ops.selective_scan_2d import SELECTIVE_SCAN_2D
from skop.ops.selective_scan_2d._grids import scan_grid

__all__ = ["selective_scan_3d"]

# The plain forms of the 2-D scan take grids of any number of axes.
SELECTIVE_SCAN_3D = Operation(
    "selective_scan_3d",
    SELECTIVE_SCAN_2D.plain,
    N_TENSORS,
    partial(example, 23, 7, 7, directions=((3, 2, 1), (-1, -3, -2))),
    kernels=(),
)


def selective_scan_3d(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    directions: Sequence[Direction] = ((3, 2, 1),),
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    R: Tensor | None = None,
    correction: str = "state",
    mask: Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    """Scan a three-dimensional grid along its three axes in turn, in several directions, and add the outputs.

    For direction (3, 2, 1), each channel and each state, with i, j, k the places on the axes depth, height
    and width, dt' = softplus(dt + dt_bias) or dt + dt_bias, and a = exp(dt' A) in all passes::

        f[i, j, k] = a[i, j, k] f[i, j, k-1] + dt'[i, j, k] B[i, j, k] x[i, j, k]     along the width
        g[i, j, k] = a[i, j, k] g[i, j-1, k] + f[i, j, k]                             along the height
        h[i, j, k] = a[i, j, k] h[i-1, j, k] + g[i, j, k]                             along the depth
        y[i, j, k] = sum over states of C (h - R dt' B x)  +  D x                     all at [i, j, k]

    This is `selective_scan_2d` with one axis more, which GeoMaNO [1]_ names as future work for problems
    in space and time. A source reaches a cell by one way, along the axes in the order of the passes, and
    only the octant behind it; with a constant decay its weight is the decay to the power of the Manhattan
    distance. Time and memory are linear in the number of cells. States and decays are held in float32 at
    least, under autocast too; all gradients are exact.

    Parameters
    ----------
    x : Tensor of shape (batch, depth, height, width, channels)
        Inputs, floating point, shared by all directions.
    dt : Tensor of shape (batch, depth, height, width, n_directions, channels)
        Step sizes: not negative once the bias is added, unless the softplus follows.
    A : Tensor of shape (n_directions, channels, d_state)
        Decay rates, negative.
    B, C : Tensor of shape (batch, depth, height, width, n_directions, d_state)
        Input and output maps of each direction, shared by the channels.
    D : Tensor of shape (n_directions, channels), optional
        Skip from the input to the output; none by default.
    directions : sequence of triples of int, default ((3, 2, 1),)
        Axes of the first, second and third pass of each direction, counted from 1: 1 along the depth, 2
        along the height, 3 along the width, with a minus sign from the last to the first.
    dt_bias : Tensor of shape (n_directions, channels), optional
        Added to dt; none by default.
    dt_softplus : bool, default False
        Whether the steps are the softplus of dt + dt_bias, as in Mamba.
    R : Tensor of shape (n_directions, channels, d_state), optional
        Share of the own cell's input that is taken off the state before y is read, 0 to 1; none by
        default.
    correction : {"state", "output", "input"}, default "state"
        What R is a share of, as in `selective_scan_2d`. Without R it has no effect.
    mask : bool Tensor of shape (batch, depth, height, width), optional
        True at real cells. The others leave the states as they are and their y is 0; what x, dt, B and
        C hold there has no influence. By default all cells are real.
    backend : {None, "naive", "torch"}, default None
        ``"torch"``, the default on all devices, works in blocks in plain torch; ``"naive"`` is the
        recurrence, slow, for reference. There are no fused kernels. None takes the environment variable
        SKOP_BACKEND first.

    Returns
    -------
    Tensor of shape (batch, depth, height, width, channels)
        Sum of the outputs of all directions, in the dtype of x.

    Raises
    ------
    ValueError
        If a shape, a dtype, a device or an option does not fit.

    References
    ----------
    .. [1] X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for
       partial differential equations", 2025, section 6.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import selective_scan_3d
    >>> x, halving = torch.zeros(1, 2, 2, 2, 1), torch.tensor([[[0.5]]]).log()
    >>> x[0, 0, 0, 0] = 1.0
    >>> one = torch.ones(1, 2, 2, 2, 1, 1)
    >>> selective_scan_3d(x, one, halving, one, one)[0, ..., 0]
    tensor([[[1.0000, 0.5000],
             [0.5000, 0.2500]],
    <BLANKLINE>
            [[0.5000, 0.2500],
             [0.2500, 0.1250]]])
    """
    values = (x, dt, A, B, C, D, dt_bias, R)
    axes = "depth, height, width"
    return scan_grid(SELECTIVE_SCAN_3D, axes, values, directions, dt_softplus, correction, mask, backend)
