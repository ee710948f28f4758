"""The selective scan over a grid: along one axis, then along the other.

Letters: x input, dt step, A decay rate, B input map, C output map, D skip, R share of the own cell's
input that y does not see, y output.
"""

from collections.abc import Sequence

from torch import Tensor

from skop.ops._checks import expect_axes, expect_floating, expect_mask, expect_one_device, expect_shape
from skop.ops.selective_scan._prepare import prepare
from skop.ops.selective_scan_2d._naive import Direction
from skop.ops.selective_scan_2d._operation import SELECTIVE_SCAN_2D
from skop.ops.ssd_scan._torch import autocast_off

__all__ = ["selective_scan_2d"]


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
    _check(x, dt, A, B, C, D, dt_bias, R, mask)
    passes = _passes(directions, dt.shape[3])
    with autocast_off(x.device):
        *arguments, _ = prepare(x, dt, A, B, C, D, dt_bias, R, None, mask, dt_softplus)
        y = SELECTIVE_SCAN_2D.run(backend, *arguments, passes, dt_softplus)
    return y.to(x.dtype)


def _passes(directions: Sequence[Direction], count: int) -> tuple[Direction, ...]:
    """Directions as a tuple of pairs of int, or ValueError."""
    for direction in directions:
        if not isinstance(direction, Sequence) or sorted(map(abs, direction)) != [1, 2]:
            raise ValueError(f"directions has {direction}; expected pairs of the axes 1 and 2, each with a sign.")
    if len(directions) != count:
        raise ValueError(f"directions has {len(directions)} entries; expected {count}, as many as dt has.")
    return tuple((int(first), int(second)) for first, second in directions)


def _check(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    mask: Tensor | None,
) -> None:
    """Raise ValueError where shapes, dtypes or devices do not fit together."""
    expect_axes("x", x, "batch, height, width, channels")
    expect_axes("B", B, "batch, height, width, n_directions, d_state")
    *grid, channels = x.shape
    count, states = B.shape[3:]
    maps = (*grid, count, states)
    expect_shape("dt", dt, "(batch, height, width, n_directions, channels)", (*grid, count, channels))
    expect_shape("A", A, "(n_directions, channels, d_state)", (count, channels, states))
    expect_shape("B", B, "(batch, height, width, n_directions, d_state)", maps)
    expect_shape("C", C, "the shape of B", maps)
    for name, value in (("D", D), ("dt_bias", dt_bias)):
        if value is not None:
            expect_shape(name, value, "(n_directions, channels)", (count, channels))
    if R is not None:
        expect_shape("R", R, "the shape of A", (count, channels, states))
    expect_mask(mask, "(batch, height, width)", tuple(grid))
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "dt_bias": dt_bias, "R": R}
    expect_floating(given)
    expect_one_device(given | {"mask": mask})
