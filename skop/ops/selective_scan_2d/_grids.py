"""The scans over grids of any number of axes: checks of the arguments, and the call of the implementation."""

from collections.abc import Sequence
from numbers import Integral

from torch import Tensor

from skop.ops._checks import autocast_off, expect_axes, expect_floating, expect_mask, expect_one_device, expect_shape
from skop.ops._dispatch import Operation
from skop.ops._selective import prepare, split_correction
from skop.ops.selective_scan_2d._naive import Direction

#: What a direction is, by the number of axes of the grid.
_GROUPS = {2: "pairs of the axes 1 and 2", 3: "triples of the axes 1, 2 and 3"}


def scan_grid(
    operation: Operation,
    axes: str,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    *,
    directions: Sequence[Direction],
    dt_softplus: bool,
    mask: Tensor | None,
    correction: str,
    backend: str | None,
) -> Tensor:
    """Check the arguments of a scan over a grid, make masked cells neutral, and scan.

    Parameters
    ----------
    operation : Operation
        The scan.
    axes : str
        Names of the axes of the grid, separated by commas.
    x, dt, A, B, C, D, dt_bias, R, directions, dt_softplus, mask, correction, backend
        As in `skop.ops.selective_scan_2d`, on a grid of these axes.

    Returns
    -------
    Tensor of shape (batch, *grid, channels)
        Sum of the outputs of all directions, in the dtype of x.

    Raises
    ------
    ValueError
        If a shape, a dtype, a device or an option does not fit.
    """
    _check(axes, x, dt, A, B, C, D, dt_bias, R, mask)
    passes = _passes(directions, dt.shape[-2], x.ndim - 2)
    with autocast_off(x.device):
        given = prepare(x, dt, A, B, C, D, dt_bias, R, None, mask, dt_softplus)
        (*arguments, _), rest = split_correction(given, correction, dt_softplus)
        y = operation.run(backend, *arguments, passes, dt_softplus)
        y = y if rest is None else y - rest
    return y.to(x.dtype)


def _passes(directions: Sequence[Direction], count: int, n_axes: int) -> tuple[Direction, ...]:
    """Directions as a tuple of tuples of int, or ValueError."""
    for direction in directions:
        fits = isinstance(direction, Sequence) and all(isinstance(axis, Integral) for axis in direction)
        if not fits or sorted(map(abs, direction)) != list(range(1, n_axes + 1)):
            raise ValueError(f"directions has {direction!r}; expected {_GROUPS[n_axes]}, each with a sign.")
    if len(directions) != count:
        raise ValueError(f"directions has {len(directions)} entries; expected {count}, as many as dt has.")
    return tuple(tuple(int(axis) for axis in direction) for direction in directions)


def _check(
    axes: str,
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
    expect_axes("x", x, f"batch, {axes}, channels")
    expect_axes("B", B, f"batch, {axes}, n_directions, d_state")
    *grid, channels = x.shape
    count, states = B.shape[-2:]
    maps = (*grid, count, states)
    expect_shape("dt", dt, f"(batch, {axes}, n_directions, channels)", (*grid, count, channels))
    expect_shape("A", A, "(n_directions, channels, d_state)", (count, channels, states))
    expect_shape("B", B, f"(batch, {axes}, n_directions, d_state)", maps)
    expect_shape("C", C, "the shape of B", maps)
    for name, value in (("D", D), ("dt_bias", dt_bias)):
        if value is not None:
            expect_shape(name, value, "(n_directions, channels)", (count, channels))
    if R is not None:
        expect_shape("R", R, "the shape of A", (count, channels, states))
    expect_mask(mask, f"(batch, {axes})", tuple(grid))
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "dt_bias": dt_bias, "R": R}
    expect_floating(given)
    expect_one_device(given | {"mask": mask})
