"""Directions in which a scan crosses a grid.

A direction names the axes of the grid, counted from 1, in the order in which they are run through, the
fastest first; a minus sign runs an axis from its last cell to its first. On a matrix (2, 1) is row by row
from the upper left, (-1, -2) column by column from the lower right.
"""

from functools import lru_cache
from itertools import chain, product
from math import prod

import torch

from skop._typing import GridShape

__all__ = ["CROSSINGS", "DIRECTION_ORDERS", "Direction", "direction_paths", "scan_directions"]

Direction = tuple[int, ...]

#: Names of the sets of directions.
CROSSINGS = ("cross", "corners", "all")
#: Names of the orders in which a set is listed.
DIRECTION_ORDERS = ("reverses_last", "reverses_next")


def scan_directions(n_dims: int, crossing: str = "cross", order: str = "reverses_last") -> tuple[Direction, ...]:
    """Return a named set of directions.

    Parameters
    ----------
    n_dims : int
        Axes of the grid, at least 1.
    crossing : {"cross", "corners", "all"}, default="cross"
        ``"cross"``: from the first cell and from the last one, with each axis in turn the fastest: 2, 4
        or 6 directions in 1, 2 or 3 dimensions; on a matrix the four-way cross-scan of VMamba and GeoMaNO.
        Scans along the axes then see two of the four quadrants around a cell. ``"corners"``: once from every
        corner, from where they see all: 2, 4 or 8. ``"all"``: from every corner, with each axis in turn the
        fastest: 2, 8 or 24.
    order : {"reverses_last", "reverses_next"}, default="reverses_last"
        ``"reverses_last"``: the reverses follow all others, rows, columns, reversed rows, reversed columns,
        as VMamba stacks them. ``"reverses_next"``: each follows its own, rows, reversed rows, columns,
        reversed columns, as the paper of GeoMaNO lists them.

    Returns
    -------
    tuple of tuple of int
        Directions.

    Raises
    ------
    ValueError
        If there is no axis, or no such set or order.

    References
    ----------
    X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
    differential equations", 2025, section 4.2.

    Examples
    --------
    >>> from skop.modules import scan_directions
    >>> scan_directions(2)
    ((2, 1), (1, 2), (-2, -1), (-1, -2))
    >>> scan_directions(2, "corners", "reverses_next")
    ((2, 1), (-2, -1), (1, -2), (-1, 2))
    """
    if n_dims < 1:
        raise ValueError(f"n_dims={n_dims}; expected at least 1 axis of the grid.")
    axes = range(n_dims, 0, -1)
    turns = [tuple((axis - turn - 1) % n_dims + 1 for axis in axes) for turn in range(n_dims)]
    # Of two opposite corners the one at the start of the first axis; the other is that of the reverses.
    corners = [(1, *signs) for signs in product((1, -1), repeat=n_dims - 1)]
    if crossing == "cross":
        pairs = [(corners[0], turn) for turn in turns]
    elif crossing == "corners":
        pairs = [(corner, turns[number % n_dims]) for number, corner in enumerate(corners)]
    elif crossing == "all":
        pairs = list(product(corners, turns))
    else:
        raise ValueError(f"crossing is {crossing!r}; expected one of {CROSSINGS}.")
    ahead = [tuple(corner[axis - 1] * axis for axis in turn) for corner, turn in pairs]
    back = [tuple(-axis for axis in direction) for direction in ahead]
    if order == "reverses_last":
        return (*ahead, *back)
    if order == "reverses_next":
        return tuple(chain.from_iterable(zip(ahead, back, strict=True)))
    raise ValueError(f"order is {order!r}; expected one of {DIRECTION_ORDERS}.")


def direction_paths(
    grid_shape: GridShape, directions: tuple[Direction, ...], device: torch.device | None = None
) -> torch.Tensor:
    """Return the sequences in which directions visit the cells of a grid.

    Parameters
    ----------
    grid_shape : tuple of int
        Cells along each axis.
    directions : tuple of tuple of int
        Directions, each with every axis once.
    device : torch.device or None, default=None
        Where the result goes.

    Returns
    -------
    Tensor of shape (n_directions, prod(grid_shape)), int64
        Row k lists the cells, numbered in C order, as direction k visits them.

    Examples
    --------
    >>> from skop.modules import direction_paths
    >>> direction_paths((2, 3), ((2, 1), (-1, 2))).tolist()
    [[0, 1, 2, 3, 4, 5], [3, 0, 4, 1, 5, 2]]
    """
    return _paths(tuple(grid_shape), directions, torch.device(device or "cpu"))


@lru_cache(maxsize=256)
def _paths(grid_shape: GridShape, directions: tuple[Direction, ...], device: torch.device) -> torch.Tensor:
    """Paths of a grid, kept on their device because every batch asks for them."""
    # What is made in inference mode could not take part in a later training.
    with torch.inference_mode(False):
        cells = torch.arange(prod(grid_shape)).reshape(grid_shape)
        visits = []
        for direction in directions:
            backwards = [abs(axis) - 1 for axis in direction if axis < 0]
            slowest_first = [abs(axis) - 1 for axis in reversed(direction)]
            visits.append(cells.flip(backwards).permute(slowest_first).flatten())
        return torch.stack(visits).to(device)
