"""Directions in which a scan visits the cells of a grid, with the same names for all operators.

A direction lists the axes of the grid, counted from 1, with the axis whose index changes fastest first. A minus sign
means that the axis is visited from its last cell to its first. On a matrix, (2, 1) is row by row from the upper left,
and (-1, -2) column by column from the lower right.
"""

from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
import torch

from skop._typing import GridShape

__all__ = ["DIRECTION_ORDERS", "LINE_DIRECTIONS", "SCAN_DIRECTIONS", "Direction", "direction_paths", "direction_set"]

Direction = tuple[int, ...]

#: Names of the sets of directions.
SCAN_DIRECTIONS = ("forward", "bidirectional", "cross", "corners", "row_corners", "all")
#: Those of the sets that read the cells as one line, whatever their grid.
LINE_DIRECTIONS = ("forward", "bidirectional")
#: Names of the orders in which a set is listed.
DIRECTION_ORDERS = ("vmamba", "paper")


def direction_set(n_dims: int, name: str = "cross", order: str = "vmamba") -> tuple[Direction, ...]:
    """Return a named set of directions.

    Parameters
    ----------
    n_dims : int
        Number of grid axes, at least 1.
    name : {"forward", "bidirectional", "cross", "corners", "row_corners", "all"}, default="cross"
        Name of the set. The numbers of directions are for 1, 2 and 3 dimensions.

        - ``"forward"``: C order only (1 direction).
        - ``"bidirectional"``: C order and its reverse (2 directions).
        - ``"cross"``: from the first cell and from the last cell, with each axis in turn as the fastest (2, 4, 6). On a
          matrix this is the four-way cross-scan of VMamba, LaMO and GeoMaNO. Multi-dimensional scans then cover two of
          the four quadrants around a cell.
        - ``"corners"``: once from every corner (2, 4, 8). Multi-dimensional scans then cover all quadrants.
        - ``"row_corners"``: C order, C order with the last axis flipped, and the reverses of both (2, 4, 4), as Remark
          3.2 of LaMO's paper describes its four paths.
        - ``"all"``: from every corner, with each axis in turn as the fastest (2, 8, 24).
    order : {"vmamba", "paper"}, default="vmamba"
        Order of the directions. ``"vmamba"``: rows, columns, reversed rows, reversed columns. ``"paper"``: rows,
        reversed rows, columns, reversed columns, as GeoMaNO's paper numbers them.

    Returns
    -------
    tuple of tuple of int
        Directions of the set.

    Raises
    ------
    ValueError
        If `n_dims` is below 1, or the set or the order is unknown.

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
    turns = (np.arange(n_dims, 0, -1) - np.arange(n_dims)[:, np.newaxis] - 1) % n_dims + 1
    # One corner of each opposite pair, the one at the start of the first axis; the reverses start from the other.
    corners = np.array(list(product((1,), *[(1, -1)] * (n_dims - 1))))
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
    ahead = np.array([corner[turn - 1] * turn for corner, turn in pairs])
    back = ahead[:0] if name == "forward" else -ahead
    found = np.concatenate([ahead, back]) if order == "vmamba" or not len(back) else np.stack([ahead, back], axis=1)
    return tuple(map(tuple, found.reshape(-1, n_dims).tolist()))


def direction_paths(
    grid_shape: GridShape, directions: tuple[Direction, ...], device: torch.device | None = None
) -> torch.Tensor:
    """Return the sequences in which directions visit the cells of a grid.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of cells along each axis.
    directions : tuple of tuple of int
        Directions; each contains every axis once.
    device : torch.device or None, default=None
        Device of the result.

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
    """Paths of a grid, cached on their device because every batch needs them."""
    # A tensor created in inference mode could not be used in a later training.
    with torch.inference_mode(False):
        cells = torch.arange(prod(grid_shape)).reshape(grid_shape)
        visits = []
        for direction in directions:
            backwards = [abs(axis) - 1 for axis in direction if axis < 0]
            slowest_first = [abs(axis) - 1 for axis in reversed(direction)]
            visits.append(cells.flip(backwards).permute(slowest_first).flatten())
        return torch.stack(visits).to(device)
