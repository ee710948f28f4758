"""The selective scan over a grid: along one axis, then along the other.

Notation: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the own cell's
input that y does not see, y output.
"""

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from skop.ops._dispatch import Operation
from skop.ops._selective import N_TENSORS, Direction, example
from skop.ops.selective_scan_2d._grids import scan_grid
from skop.ops.selective_scan_2d._naive import selective_scan_2d_naive
from skop.ops.selective_scan_2d._torch import selective_scan_2d_torch

__all__ = ["selective_scan_2d"]

SELECTIVE_SCAN_2D = Operation(
    "selective_scan_2d",
    {"naive": selective_scan_2d_naive, "torch": selective_scan_2d_torch},
    N_TENSORS,
    partial(example, 23, 49, directions=((2, 1), (-1, -2))),  # larger than a tile of any kernel
    small=2**12,
)


def selective_scan_2d(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    *,
    directions: Sequence[Direction] = ((2, 1),),
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    R: Tensor | None = None,
    correction: str = "state",
    mask: Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    """Scan a grid along one axis and then along the other, in several directions, and add the outputs.

    For direction (2, 1), each channel and each state, with i the row, j the column,
    dt' = softplus(dt + dt_bias) or dt + dt_bias, and a = exp(dt' A) in both passes::

        g[i, j] = a[i, j] g[i, j-1] + dt'[i, j] B[i, j] x[i, j]        within each row
        h[i, j] = a[i, j] h[i-1, j] + g[i, j]                          down each column
        y[i, j] = sum over states of C[i, j] (h[i, j] - R dt'[i, j] B[i, j] x[i, j])  +  D x[i, j]

    This is the scan of 2DMamba [1]_ with the correction R of GeoMaNO [2]_ at the state: 1 takes the own
    cell off the state, so that y sees it through D only. A source reaches a cell by one way, along its
    own row and then down the column of the cell, and only the quadrant behind it. Time and memory are
    linear in the number of cells. States and decays are held in float32 at least, under autocast too;
    all gradients are exact.

    Parameters
    ----------
    x : Tensor of shape (batch, height, width, channels)
        Inputs, floating point, shared by all directions.
    dt : Tensor of shape (batch, height, width, n_directions, channels)
        Step sizes: not negative once the bias is added, unless the softplus follows.
    A : Tensor of shape (n_directions, channels, d_state)
        Decay rates, negative.
    B, C : Tensor of shape (batch, height, width, n_directions, d_state)
        Input and output maps of each direction, shared by the channels.
    D : Tensor of shape (n_directions, channels), optional
        Skip from the input to the output; none by default.
    directions : sequence of pairs of int, default ((2, 1),)
        Axes of the first and of the second pass of each direction, counted from 1: 1 from row to row, 2
        from column to column, with a minus sign from the last to the first. GeoMaNO uses
        ``((2, 1), (1, 2), (-2, -1), (-1, -2))``.
    dt_bias : Tensor of shape (n_directions, channels), optional
        Added to dt; none by default.
    dt_softplus : bool, default False
        Whether the steps are the softplus of dt + dt_bias, as in Mamba.
    R : Tensor of shape (n_directions, channels, d_state), optional
        Share of the own cell's input that is taken off the state before y is read, 0 to 1; none by
        default. GeoMaNO takes 1 in two of four directions for Darcy flow.
    correction : {"state", "output", "input"}, default "state"
        What R is a share of. ``"state"`` is the formula above; ``"output"`` takes R dt' B x off each
        term of y, without C, as Eqs. 9 and 10 print it; ``"input"`` takes C R x off, without dt' B, as
        line 24 of Algorithm 2 prints it. Without R it has no effect.
    mask : bool Tensor of shape (batch, height, width), optional
        True at real cells. The others leave the states as they are and their y is 0; what x, dt, B and
        C hold there has no influence. By default all cells are real.
    backend : {None, "naive", "torch", "numba", "triton"}, default None
        As in `selective_scan`.

    Returns
    -------
    Tensor of shape (batch, height, width, channels)
        Sum of the outputs of all directions, in the dtype of x.

    Raises
    ------
    ValueError
        If a shape, a dtype, a device or an option does not fit.

    References
    ----------
    .. [1] J. Zhang et al., "2DMamba: efficient state space model for image representation with
       applications on giga-pixel whole slide image classification", CVPR 2025.
    .. [2] X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for
       partial differential equations", 2025, Eqs. 9 and 10 and Algorithm 2.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import selective_scan_2d
    >>> x, halving = torch.zeros(1, 3, 3, 1), torch.tensor([[[0.5]]]).log()
    >>> x[0, 0, 0] = 1.0
    >>> one = torch.ones(1, 3, 3, 1, 1)
    >>> selective_scan_2d(x, one, halving, one, one)[0, ..., 0]
    tensor([[1.0000, 0.5000, 0.2500],
            [0.5000, 0.2500, 0.1250],
            [0.2500, 0.1250, 0.0625]])
    """
    values = (x, dt, A, B, C, D, dt_bias, R)
    return scan_grid(SELECTIVE_SCAN_2D, "height, width", values, directions, dt_softplus, correction, mask, backend)
