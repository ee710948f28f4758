"""Regular grids: their coordinates and spacing, and the detection of a grid in a list of points."""

from collections.abc import Sequence

import numpy as np

from skop._typing import FloatArray, GridShape, IntArray

__all__ = ["find_grid", "grid_spacing", "unit_grid"]


def unit_grid(grid_shape: Sequence[int]) -> FloatArray:
    """Return the coordinates of a regular grid of the unit box, end points included.

    Parameters
    ----------
    grid_shape : sequence of int
        Number of points along each axis; the coordinate along an axis with one point is 0.

    Returns
    -------
    ndarray of shape (prod(grid_shape), len(grid_shape))
        Coordinates in C order: the index of the last axis changes fastest.

    Examples
    --------
    >>> from skop.data import unit_grid
    >>> unit_grid((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    axes = [np.linspace(0.0, 1.0, size) for size in grid_shape]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def find_grid(coords: FloatArray, *, tolerance: float = 1e-6) -> tuple[GridShape, IntArray] | None:
    """Detect a rectilinear grid in a set of points in any order.

    Parameters
    ----------
    coords : ndarray of shape (P, d)
        Coordinates of the points.
    tolerance : float, default=1e-6
        Largest difference between coordinates on the same grid line, as a fraction of the extent of the axis.

    Returns
    -------
    tuple of (grid_shape, order) or None
        Number of points along each axis, and the indices that sort the points into C order; None if the points form no
        complete grid.

    Examples
    --------
    >>> from skop.data import unit_grid
    >>> from skop.data._grid import find_grid
    >>> shape, order = find_grid(unit_grid((3, 2))[::-1])
    >>> shape, order.tolist()
    ((3, 2), [5, 4, 3, 2, 1, 0])
    """
    if len(coords) == 0:
        return None
    lines = [_line_numbers(axis, tolerance) for axis in np.asarray(coords, dtype=float).T]
    shape = tuple(int(numbers.max()) + 1 for numbers in lines)
    if np.prod(shape, dtype=float) != len(coords):
        return None
    place = np.ravel_multi_index(lines, shape)
    if len(np.unique(place)) != len(coords):
        return None
    return shape, np.argsort(place)


def _line_numbers(axis: FloatArray, tolerance: float) -> IntArray:
    """Return the index of the grid line on which each coordinate lies."""
    order = np.argsort(axis, kind="stable")
    steps = np.diff(axis[order]) > tolerance * max(np.ptp(axis), np.finfo(float).tiny)
    numbers = np.empty(len(axis), dtype=int)
    numbers[order] = np.concatenate([[0], np.cumsum(steps)])
    return numbers


def grid_spacing(coords: FloatArray, grid_shape: GridShape) -> tuple[float, ...]:
    """Return the mean distance of neighbouring points along each axis of a grid.

    Parameters
    ----------
    coords : ndarray of shape (P, d)
        Coordinates of the points in C order.
    grid_shape : tuple of int
        Number of points along each axis.

    Returns
    -------
    tuple of float
        Spacings; 1 along an axis with one point or without extent.

    Examples
    --------
    >>> from skop.data import grid_spacing, unit_grid
    >>> grid_spacing(unit_grid((3, 5)), (3, 5))
    (0.5, 0.25)
    """
    points = np.asarray(coords, dtype=float).reshape(*grid_shape, -1)
    # Distances are used instead of extents, because axis i of the grid may run along any coordinate.
    spacing = []
    for axis in range(len(grid_shape)):
        steps = np.linalg.norm(np.diff(points, axis=axis), axis=-1)
        spacing.append(float(steps.mean()) if steps.any() else 1.0)
    return tuple(spacing)
