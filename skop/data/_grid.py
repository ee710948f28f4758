"""Regular grids: make their coordinates, and recognise one in a list of points."""

from collections.abc import Sequence

import numpy as np

from skop._typing import FloatArray, GridShape, IntArray

__all__ = ["find_grid", "grid_spacing", "unit_grid"]


def unit_grid(grid_shape: Sequence[int]) -> FloatArray:
    """Coordinates of a regular grid of the unit box, end points included.

    Parameters
    ----------
    grid_shape : sequence of int
        Points along each axis; an axis with one point sits at 0.

    Returns
    -------
    ndarray of shape (prod(grid_shape), len(grid_shape))
        Coordinates in C order: the last axis runs fastest.

    Examples
    --------
    >>> from skop.data import unit_grid
    >>> unit_grid((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    axes = [np.linspace(0.0, 1.0, size) for size in grid_shape]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def find_grid(coords: FloatArray, *, tolerance: float = 1e-6) -> tuple[GridShape, IntArray] | None:
    """Recognise a rectilinear grid in a set of points, in whatever order they come.

    Parameters
    ----------
    coords : ndarray of shape (P, d)
        Points.
    tolerance : float, default=1e-6
        How far, as a fraction of the extent of an axis, coordinates of one grid line may differ.

    Returns
    -------
    tuple of (grid_shape, order) or None
        Points along each axis, and the indices that bring the points into C order; None when the
        points form no complete grid.

    Examples
    --------
    >>> from skop.data import find_grid, unit_grid
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
    """Count the grid lines, to tell on which each coordinate lies."""
    order = np.argsort(axis, kind="stable")
    steps = np.diff(axis[order]) > tolerance * max(np.ptp(axis), np.finfo(float).tiny)
    numbers = np.empty(len(axis), dtype=int)
    numbers[order] = np.concatenate([[0], np.cumsum(steps)])
    return numbers


def grid_spacing(coords: FloatArray, grid_shape: GridShape) -> tuple[float, ...]:
    """Mean distance of neighbouring points along each axis of a grid.

    Parameters
    ----------
    coords : ndarray of shape (P, d)
        Points in C order.
    grid_shape : tuple of int
        Points along each axis.

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
    # Distances, and not extents: axis i of the grid need not run along coordinate i.
    steps = [np.linalg.norm(np.diff(points, axis=axis), axis=-1) for axis in range(len(grid_shape))]
    return tuple(float(step.mean()) if step.any() else 1.0 for step in steps)
