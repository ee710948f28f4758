"""Arrays ``(n, *grid, c)``: fields on a regular grid of the unit box.

Notation: n samples, P points of a sample, c channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.data._fieldset import FieldSet
from skop.data._grid import unit_grid
from skop.data._spec import TargetForm
from skop.data._storage import as_storage
from skop.data.forms._interface import Form, as_samples
from skop.exceptions import FieldDataError, warn

__all__ = ["GRID", "grid_array"]

#: Length of the first axis of a grid up to which it may hold channels; the others are twice as long at least then, on a
#: line four times.
_FEW_CHANNELS = 4


class _Grid(Form):
    """Arrays, and whatever no other form has taken: the error says what was expected."""

    name, container = "grid", "array"
    lacks_points = True

    def matches(self, given: Any) -> bool:
        """Any object, since this form is asked last."""
        return True

    def fields(self, given: Any, what: str) -> FieldSet:
        """Convert an array (n, *grid, c) to fields on the unit box."""
        return grid_array(given, what)

    def read(self, given: Any, what: str) -> tuple[FieldSet, str]:
        """Convert an array to fields on the unit box, which are on a grid."""
        return self.fields(given, what), "grid"

    def restore(self, target: TargetForm, values: FloatArray, points: FieldSet) -> Any:
        """Array with the axes that y had; a list if samples have different numbers of points."""
        if points.is_ragged:
            return as_samples(values, points, squeezed=target.squeezes_channel)
        n_samples, n_points, n_channels = values.shape
        axes = (points.grid_shape or (n_points,)) if target.has_grid_axes else (n_points,)
        return values.reshape(n_samples, *axes, *(() if target.squeezes_channel else (n_channels,)))


def grid_array(X: Any, name: str) -> FieldSet:
    """Convert an array (n, *grid, c) to fields on the unit box."""
    if isinstance(X, list) and any(isinstance(item, FieldSet | tuple) for item in X):
        raise FieldDataError(
            f"{name} is a list of {type(X[0]).__name__}; join FieldSets by np.concatenate(list), and pass tuples "
            "(coords, fields) for all samples or none."
        )
    if isinstance(X, list) and len({np.shape(item) for item in X}) > 1:
        raise FieldDataError(
            f"{name} is a list of {len(X)} arrays of different shapes, for example {np.shape(X[0])} and "
            f"{next(np.shape(item) for item in X if np.shape(item) != np.shape(X[0]))}; a regular grid needs one "
            "shape; pass samples with different points as pairs (coords, fields) or arrays (points, dimensions)."
        )
    array = as_storage(X, name)
    if not 3 <= array.ndim <= 5:
        raise FieldDataError(
            f"{name} has shape {tuple(array.shape)}; expected (n_samples, *grid, channels) with 1 to 3 grid axes."
        )
    grid = tuple(map(int, array.shape[1:-1]))
    if len(grid) == 1:
        fewer, more = sorted(map(int, array.shape[1:]))
        # Two axes of about the same length are those of a grid more often than points and channels.
        if fewer == more > 3 or 2 * fewer >= more > fewer >= 2 * _FEW_CHANNELS:
            warn(
                f"{name} of shape {tuple(array.shape)} is read as a 1-D grid of {grid[0]} points with "
                f"{array.shape[-1]} channels. For one channel on a {grid[0]}x{array.shape[-1]} grid, add a channel "
                f"axis: {name}[..., None]."
            )
    # On a line only the number of channels tells, so that it must be larger.
    many = (2 if len(grid) > 1 else 4) * _FEW_CHANNELS
    if grid[0] <= _FEW_CHANNELS and min(array.shape[2:]) >= many:
        shape = "x".join(map(str, grid)) + " grid" if len(grid) > 1 else f"1-D grid of {grid[0]} points"
        warn(
            f"{name} of shape {tuple(array.shape)} is read as a {shape} with {array.shape[-1]} channels. If its "
            f"channels come first, pass np.moveaxis({name}, 1, -1)."
        )
    if 0 in array.shape:
        what = f"{name} has 0 samples (shape {tuple(array.shape)}); at least one is required"
        if array.shape[0]:
            what = f"{name} has shape {tuple(array.shape)}, in which an axis has length 0; expected points and channels"
        raise FieldDataError(f"{what}.")
    return FieldSet(unit_grid(grid), array, grid_shape=grid)


GRID = _Grid()
