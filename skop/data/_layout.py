"""Decide how the samples of a FieldSet are laid out: which axes count samples, points and a grid.

Letters of the shapes: n samples, P points of a sample, d space dimensions, c channels, p global parameters.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape
from skop.data._grid import find_grid
from skop.data._storage import as_storage, read_rows, reshape_rows
from skop.exceptions import FieldDataError

__all__ = ["as_params", "checked_values", "is_rectangular", "ragged_state", "uniform_state"]


def is_rectangular(coords: Sequence[Any]) -> bool:
    """Tell whether a list is one array written as nested lists, not samples of different size.

    Parameters
    ----------
    coords : sequence
        What a caller passed.

    Returns
    -------
    bool
        True when all items have one shape, or are too short to be samples.
    """
    shapes = {tuple(np.shape(as_storage(item, f"coords[{i}]"))) for i, item in enumerate(coords)}
    return len(shapes) < 2 or all(len(shape) < 2 for shape in shapes)


def as_params(params: Any) -> FloatArray:
    """Read global parameters.

    Parameters
    ----------
    params : array-like of shape (n, p)
        Numbers.

    Returns
    -------
    ndarray of shape (n, p)
        In memory.

    Raises
    ------
    FieldDataError
        If they are not numbers or have not two axes.
    """
    array = as_storage(params, "params")
    if len(array.shape) != 2:
        raise FieldDataError(f"params must have shape (n_samples, n_params), got {tuple(array.shape)}; add an axis.")
    return read_rows(array, slice(None))


def checked_values(values: Any, points: tuple[int, ...]) -> Any:
    """Read values that must have one row for each point of given samples.

    Parameters
    ----------
    values : array-like of shape (*points, c)
        Values.
    points : tuple of int
        ``(n, P)``, or ``(T,)`` for ragged samples.

    Returns
    -------
    ndarray or lazy array
        As it is kept.

    Raises
    ------
    FieldDataError
        If the shape does not fit.
    """
    stored = as_storage(values, "values")
    if stored.ndim != len(points) + 1 or tuple(stored.shape[:-1]) != points:
        raise FieldDataError(
            f"values has shape {tuple(stored.shape)}; expected ({', '.join(map(str, points))}, channels), one row for "
            "each point."
        )
    return stored


def ragged_state(coords: Sequence[Any], values: Any, grid_shape: Sequence[int] | None) -> dict[str, Any]:
    """Lay out samples with different numbers of points.

    Parameters
    ----------
    coords : sequence of array-like (P_i, d)
        Points of each sample.
    values : sequence of array-like (P_i, c) or None
        Fields of each sample.
    grid_shape : None
        Must not be given.

    Returns
    -------
    dict
        Slots of a FieldSet.

    Raises
    ------
    FieldDataError
        If shapes do not fit together.
    """
    if grid_shape is not None:
        raise FieldDataError("samples with different numbers of points have no common grid; leave out grid_shape.")
    points = _flat_samples(coords, "coords", None)
    fields = None
    if values is not None:
        if not hasattr(values, "__len__"):
            raise FieldDataError(f"values is a {type(values).__name__}; expected one array for each sample.")
        if len(values) != len(points):
            raise FieldDataError(f"coords has {len(points)} samples, values has {len(values)}.")
        fields = np.concatenate(_flat_samples(values, "values", [len(item) for item in points]))
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in points])])
    flat = {"_coords": np.concatenate(points), "_values": fields, "_offsets": offsets}
    return flat | {"_shared": False, "_grid_shape": None}


def _flat_samples(samples: Sequence[Any], name: str, n_points: Sequence[int] | None) -> list[FloatArray]:
    """Read samples as arrays with two axes, the second of one length."""
    arrays = [as_storage(item, f"{name} of sample {i}") for i, item in enumerate(samples)]
    width = arrays[0].shape[-1] if arrays[0].ndim == 2 else "n"
    for i, item in enumerate(arrays):
        rows = "n_points" if n_points is None else n_points[i]
        if item.ndim != 2 or item.shape[1] != width or rows not in ("n_points", len(item)):
            raise FieldDataError(f"{name} of sample {i} has shape {item.shape}; expected ({rows}, {width}).")
    return arrays


def uniform_state(coords: Any, values: Any, grid_shape: Sequence[int] | None, n_params: int | None) -> dict[str, Any]:
    """Lay out samples that all have the same number of points.

    Parameters
    ----------
    coords : ndarray or lazy array
        Points.
    values : array-like or None
        Fields.
    grid_shape : sequence of int or None
        Grid, if stated.
    n_params : int or None
        Rows of the global parameters, if there are any.

    Returns
    -------
    dict
        Slots of a FieldSet.

    Raises
    ------
    FieldDataError
        If shapes do not fit together.
    """
    if len(coords.shape) < 2:
        raise FieldDataError(f"coords must have shape (points, dimensions) at least, got {coords.shape}; add an axis.")
    storage = None if values is None else as_storage(values, "values")
    if storage is None:
        points, shared = _points_alone(coords, grid_shape, n_params)
    else:
        points, shared = _point_axes(tuple(coords.shape), tuple(storage.shape))
    n_dims = int(coords.shape[-1])
    if shared:
        coords = read_rows(coords, slice(None)).reshape(-1, n_dims)
    else:
        coords = reshape_rows(coords, (prod(points), n_dims))
    grid = _checked_grid(points, n_dims, grid_shape)
    return {"_coords": coords, "_values": storage, "_offsets": None, "_shared": shared, "_grid_shape": grid}


def _checked_grid(points: tuple[int, ...], n_dims: int, grid_shape: Sequence[int] | None) -> GridShape | None:
    """Find the grid that is stated, or that the axes of the arrays show."""
    if grid_shape is None:
        return points if len(points) == n_dims > 1 else None
    grid = tuple(int(size) for size in grid_shape)
    if min(grid, default=0) < 0 or prod(grid) != prod(points):
        raise FieldDataError(f"grid_shape {grid} has {prod(grid)} points, the fields have {prod(points)}.")
    if len(points) > 1 and points != grid:
        raise FieldDataError(f"grid_shape is {grid}, but the arrays have the grid axes {points}; leave out grid_shape.")
    return grid


def _points_alone(coords: Any, grid_shape: Sequence[int] | None, n_params: int | None) -> tuple[tuple[int, ...], bool]:
    """Axes that count points, and whether they are shared, when there are no values."""
    axes = tuple(int(size) for size in coords.shape[:-1])
    stated = None if grid_shape is None else tuple(int(size) for size in grid_shape)
    shared_fits, own_fits = n_params is not None, len(axes) > 1 and n_params in (None, axes[0])
    if stated is not None:
        shared_fits, own_fits = shared_fits and prod(axes) == prod(stated), own_fits and prod(axes[1:]) == prod(stated)
    if shared_fits and own_fits and len(axes) == coords.shape[-1]:
        found = find_grid(read_rows(coords, slice(None)).reshape(-1, coords.shape[-1]))
        if found is not None and found[0] == axes:
            raise FieldDataError(
                f"coords of shape {tuple(coords.shape)} may be one grid {axes} or the points of {n_params} samples; "
                "pass grid_shape."
            )
    if own_fits:
        return axes[1:], False
    if shared_fits:
        return axes, True
    if n_params is None:
        raise FieldDataError(
            f"coords of shape {tuple(coords.shape)} is shared by all samples, but neither values nor params say how "
            "many samples there are."
        )
    raise FieldDataError(
        f"coords of shape {tuple(coords.shape)} fit neither {n_params} samples nor the grid_shape {stated}."
    )


def _point_axes(coords: tuple[int, ...], values: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Axes that count points, and whether the coordinates are shared by all samples, from two shapes."""
    if len(values) < 3:
        raise FieldDataError(
            f"values must have shape (n_samples, *points, channels), got {values}; add the missing axes, for "
            "example values[..., None] for one channel."
        )
    points = values[1:-1]
    candidates = [(coords[:-1], True)]
    if len(coords) > 2 and coords[0] == values[0]:
        # First, so that the points of a single sample are not taken for a grid of one row.
        candidates.insert(0, (coords[1:-1], False))
    for axes, shared in sorted(candidates, key=lambda candidate: candidate[0] != points):
        if axes == points or axes == (prod(points),) or (len(points) == 1 and prod(axes) == prod(points)):
            return max(points, axes, key=len), shared
    raise FieldDataError(
        f"coords of shape {coords} do not fit values of shape {values}: expected {(*points, 'd')} (shared) or "
        f"{(values[0], *points, 'd')} (each sample's own)."
    )
