"""The scans over grids of any number of axes: checks of the arguments, and the call of the implementation."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from torch import Tensor

from skop.ops._arguments import check
from skop.ops._dispatch import Operation
from skop.ops._selective import Arguments, Direction, axes, scan

#: What a direction is, by the number of axes of the grid.
_GROUPS = {2: "pairs of the axes 1 and 2", 3: "triples of the axes 1, 2 and 3"}


def scan_grid(
    operation: Operation,
    grid: str,
    values: tuple[Any, ...],
    directions: Sequence[Direction],
    softplus: bool,
    correction: str,
    mask: Tensor | None,
    backend: str | None,
) -> Tensor:
    """Scan a grid with named axes, after checks; the values are x, dt, A, B, C, D, dt_bias and R."""
    given = Arguments._make((*values, None, (), softplus))
    check(given, mask, axes(grid, "n_directions"))
    order = _passes(directions, given.dt.shape[-2], given.x.ndim - 2)
    given = given._replace(x=given.x.unsqueeze(-2), order=order)
    return scan(operation, backend, given, correction, mask)[0].squeeze(-2)


def _passes(directions: Sequence[Direction], count: int, n_axes: int) -> tuple[Direction, ...]:
    """Directions as a tuple of tuples of int, or ValueError."""
    for direction in directions:
        fits = isinstance(direction, Sequence) and all(isinstance(axis, Integral) for axis in direction)
        if not fits or sorted(map(abs, direction)) != list(range(1, n_axes + 1)):
            raise ValueError(f"directions has {direction!r}; expected {_GROUPS[n_axes]}, each with a sign.")
    if len(directions) != count:
        raise ValueError(f"directions has {len(directions)} entries; expected {count}, as many as dt has.")
    return tuple(tuple(int(axis) for axis in direction) for direction in directions)
