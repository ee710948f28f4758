"""Directions in which a scan crosses a grid: one vocabulary for every operator.

A direction names the axes of the grid, counted from 1, in the order in which they are run through, the
fastest first; a minus sign runs an axis from its last cell to its first. On a matrix (2, 1) is row by row
from the upper left, (-1, -2) column by column from the lower right.
"""

from functools import lru_cache
from itertools import chain, product
from math import prod

import torch

from skop._typing import GridShape

__all__ = ["DIRECTION_ORDERS", "SCAN_DIRECTIONS", "Direction", "direction_paths", "direction_set"]

Direction = tuple[int, ...]

#: Names of the sets of directions.
SCAN_DIRECTIONS = ("forward", "bidirectional", "cross", "corners", "row_corners", "all")
#: Names of the orders in which a set is listed.
DIRECTION_ORDERS = ("vmamba", "paper")


def direction_set(n_dims: int, name: str = "cross", order: str = "vmamba") -> tuple[Direction, ...]:
    """Return a named set of directions.

    Parameters
    ----------
    n_dims : int
        Axes of the grid, at least 1.
    name : {"forward", "bidirectional", "cross", "corners", "row_corners", "all"}, default="cross"
        ``"forward"``: C order alone. ``"bidirectional"``: C order and its reverse. ``"cross"``: from the first
        cell and from the last one, with each axis in turn the fastest: 2, 4 or 6 directions in 1, 2 or 3
        dimensions; on a matrix the four-way cross-scan of VMamba, LaMO and GeoMaNO. Scans along the axes then
        see two of the four quadrants around a cell. ``"corners"``: once from every corner, from where they see
        all: 2, 4 or 8. ``"row_corners"``: C order from the two pairs of opposite corners that flipping the
        last axis gives, as Remark 3.2 of LaMO's paper words its four paths: 2, 4 or 4. ``"all"``: from every
        corner, with each axis in turn the fastest: 2, 8 or 24.
    order : {"vmamba", "paper"}, default="vmamba"
        ``"vmamba"``: the reverses follow all others: rows, columns, reversed rows, reversed columns.
        ``"paper"``: each reverse follows its own direction, as the paper of GeoMaNO numbers them: rows,
        reversed rows, columns, reversed columns.

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

    K. Tiwari, N. Dutta, N. M. A. Krishnan, A. P. Prathosh, "Latent Mamba Operator for Partial Differential
    Equations", ICML 2025, Remark 3.2.

    Examples
    --------
    >>> from skop.modules import direction_set
    >>> direction_set(2)
    ((2, 1), (1, 2), (-2, -1), (-1, -2))
    >>> direction_set(2, "corners", "paper")
    ((2, 1), (-2, -1), (1, -2), (-1, 2))
    """
    if n_dims < 1:
        raise ValueError(f"n_dims={n_dims}; expected at least 1 axis of the grid.")
    if order not in DIRECTION_ORDERS:
        raise ValueError(f"direction_order is {order!r}; expected one of {DIRECTION_ORDERS}.")
    axes = range(n_dims, 0, -1)
    turns = [tuple((axis - turn - 1) % n_dims + 1 for axis in axes) for turn in range(n_dims)]
    # Of two opposite corners the one at the start of the first axis; the other is that of the reverses.
    corners = [(1, *signs) for signs in product((1, -1), repeat=n_dims - 1)]
    if name in ("forward", "bidirectional"):
        pairs = [(corners[0], turns[0])]
    elif name == "cross":
        pairs = [(corners[0], turn) for turn in turns]
    elif name == "corners":
        pairs = [(corner, turns[number % n_dims]) for number, corner in enumerate(corners)]
    elif name == "row_corners":
        pairs = [(corner, turns[0]) for corner in corners[:2]]
    elif name == "all":
        pairs = list(product(corners, turns))
    else:
        raise ValueError(f"scan_directions is {name!r}; expected one of {SCAN_DIRECTIONS}.")
    ahead = [tuple(corner[axis - 1] * axis for axis in turn) for corner, turn in pairs]
    if name == "forward":
        return tuple(ahead)
    back = [tuple(-axis for axis in direction) for direction in ahead]
    if order == "vmamba":
        return (*ahead, *back)
    return tuple(chain.from_iterable(zip(ahead, back, strict=True)))


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
