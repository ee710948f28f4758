"""The forms in which fields and tables come, their conversion to FieldSets, and the checks of a FieldSet.

Notation: n samples, P points of a sample, d space dimensions, c channels, p global parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape, IntArray
from skop.data._fieldset import FieldSet, iterate_coords, iterate_rows
from skop.data._grid import find_grid, unit_grid
from skop.data._statistics import Extremes, boxes
from skop.data._storage import as_storage, is_lazy
from skop.exceptions import FieldDataError, warn

__all__ = [
    "ROUNDING",
    "SAME_POINT",
    "as_list",
    "carries_points",
    "check_finite",
    "check_names",
    "check_not_empty",
    "check_range",
    "column_names",
    "describe",
    "entry_of",
    "fields_as_set",
    "find_geometry",
    "form_of",
    "grid_array",
    "is_pairs",
    "is_point_sets",
    "is_table",
    "scalar_names",
    "table_inputs",
    "warn_if_ambiguous",
]

#: Largest difference between coordinates that count as equal, as a fraction of the extent of their axis.
SAME_POINT = 1e-6
#: Length of the first axis of a grid up to which it may hold channels; the others are twice as long at least then.
_FEW_CHANNELS = 4
#: Largest size of a number whose square, and sums of many squares, double precision can hold; and the smallest.
LARGEST, SMALLEST = 1e150, 1e-150
#: Largest difference of coordinates by rounding, a few errors in single precision, as a fraction of the coordinates.
ROUNDING = 2.0**-21


# ---------------------------------------------------------------------- detection of the form
def as_list(samples: Any) -> Any:
    """Convert an object array of samples, which scikit-learn makes from a list, back to a list."""
    if isinstance(samples, np.ndarray) and samples.dtype == object and samples.ndim == 1:
        return list(samples) if len(samples) and isinstance(samples[0], np.ndarray | tuple) else samples
    return samples


def is_pairs(samples: Any) -> bool:
    """Whether samples are a list of ``(coords, fields)``, in which fields can be None."""
    return isinstance(samples, list) and bool(samples) and isinstance(samples[0], tuple)


def is_point_sets(samples: Any) -> bool:
    """Whether samples are a list of arrays ``(P_i, k)``; nested lists of numbers and grids are not."""
    return isinstance(samples, list) and bool(samples) and all(getattr(item, "ndim", 0) == 2 for item in samples)


def is_table(X: Any) -> bool:
    """Whether X is a 2-D table, or something invalid for which scikit-learn raises the error."""
    if isinstance(X, FieldSet | tuple):
        return False
    if is_lazy(X):
        return len(as_storage(X, "X").shape) <= 2
    if isinstance(X, list):
        return not X or _axes_of(X[0]) < 2
    return getattr(X, "ndim", 2) <= 2


def _axes_of(sample: Any) -> int:
    """Number of axes of one item of a list; a tuple of (coords, fields) counts as a field."""
    if isinstance(sample, FieldSet) or (isinstance(sample, tuple) and any(_axes_of(part) > 1 for part in sample)):
        return 2
    try:
        return int(sample.ndim) if hasattr(sample, "ndim") else np.ndim(sample)
    except ValueError:
        # For rows of different lengths, scikit-learn raises an error that explains the problem.
        return 1


def carries_points(y: Any) -> bool:
    """Whether y contains points, so that a 2-D X contains global parameters."""
    if y is None or isinstance(y, FieldSet | tuple) or is_pairs(y):
        return y is not None
    if isinstance(y, list) and len({np.shape(item) for item in y if hasattr(item, "shape")}) > 1:
        return True
    # np.ndim would fail on array-likes that implement only __array__.
    return (y.ndim if hasattr(y, "ndim") else np.asarray(y).ndim) > 2


def form_of(samples: Any) -> str:
    """Return the name of the form in which fields were passed."""
    if isinstance(samples, FieldSet):
        return "fieldset"
    if isinstance(samples, tuple):
        return "tuple"
    return "pairs" if is_pairs(samples) else "list" if is_point_sets(samples) else "grid"


def describe(X: Any) -> str:
    """Describe an argument for error messages."""
    return f"it came as {type(X).__name__}" + (f" of shape {tuple(X.shape)}" if hasattr(X, "shape") else "")


# ---------------------------------------------------------------------- tables
def column_names(y: Any) -> tuple[str, ...] | None:
    """Names of the columns of a DataFrame; None where they are numbers or there are none."""
    names = [*getattr(y, "columns", ())]
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def scalar_names(y: Any) -> tuple[str, ...] | None:
    """Names of the columns of a DataFrame, or the name of a Series; None if they are no text."""
    if hasattr(y, "iloc") and y.ndim == 1:
        return (y.name,) if isinstance(y.name, str) else None
    return column_names(y)


def table_inputs(X: FloatArray, coords: FloatArray | None, grid_shape: GridShape | None) -> FieldSet:
    """Convert a table to global parameters of samples on given points, or on a single point."""
    return FieldSet(np.zeros((1, 1)) if coords is None else coords, params=X, grid_shape=grid_shape)


# ---------------------------------------------------------------------- fields
def fields_as_set(X: Any, name: str) -> FieldSet:
    """Convert fields of any form to a FieldSet with finite coordinates."""
    fields = _as_fieldset(X, name)
    _check_finite_coords(fields, name)
    return fields


def _as_fieldset(X: Any, name: str) -> FieldSet:
    """Convert fields of any form to a FieldSet."""
    if isinstance(X, FieldSet):
        return X
    if isinstance(X, tuple):
        if len(X) != 2:
            raise FieldDataError(f"{name} is a tuple of {len(X)} items; expected (coords, fields).")
        return FieldSet(X[0], X[1])
    if is_pairs(X):
        return _join_pairs(X, name)
    return _join_samples(X, None) if is_point_sets(X) else grid_array(X, name)


def _join_pairs(samples: list[Any], name: str) -> FieldSet:
    """Convert a list of (coords, fields), in which fields can be None, to a FieldSet."""
    for i, sample in enumerate(samples):
        if not isinstance(sample, tuple) or len(sample) != 2:
            raise FieldDataError(
                f"sample {i} of {name} is not a tuple (coords, fields) like the first one; pass tuples for all samples."
            )
    coords, values = [pair[0] for pair in samples], [pair[1] for pair in samples]
    missing = [i for i, value in enumerate(values) if value is None]
    if missing and len(missing) < len(samples):
        raise FieldDataError(f"sample {missing[0]} of {name} has no fields, others have; pass fields for all or none.")
    return _join_samples(coords, None if missing else values)


def _join_samples(coords: list[Any], values: list[Any] | None) -> FieldSet:
    """Build a FieldSet of points ``(P_i, d)`` and fields ``(P_i, c)``; shared points are stored once."""
    points = [np.asarray(as_storage(item, f"coords of sample {i}")) for i, item in enumerate(coords)]
    if values is not None:
        values = [np.asarray(as_storage(item, f"fields of sample {i}")) for i, item in enumerate(values)]
    if len({item.shape for item in points}) > 1:
        return FieldSet(points, values)
    if values is None:
        return FieldSet(np.stack(points))
    wrong = next((i for i, item in enumerate(values) if item.shape != values[0].shape), None)
    if wrong is not None:
        raise FieldDataError(
            f"fields of sample {wrong} have shape {values[wrong].shape}; expected {values[0].shape}, as sample 0."
        )
    is_shared = all(np.array_equal(item, points[0]) for item in points[1:])
    return FieldSet(points[0] if is_shared else np.stack(points), np.stack(values))


def warn_if_ambiguous(samples: list[Any], name: str) -> None:
    """Warn about a list of arrays of equal shape, which has another meaning than the stacked array."""
    if len(samples) > 1 and len({item.shape for item in samples}) == 1:
        n_points, width = samples[0].shape
        warn(
            f"{name} is a list of arrays of shape {(n_points, width)}, read as the {width}-D points of a sample each. "
            f"For {width} channels on a 1-D grid pass one array: np.stack({name})."
        )


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
    grid = tuple(int(size) for size in array.shape[1:-1])
    if len(grid) == 1 and grid[0] == array.shape[-1] > 3:
        warn(
            f"{name} of shape {tuple(array.shape)} is read as a 1-D grid of {grid[0]} points with {grid[0]} channels. "
            f"For one channel on a {grid[0]}x{grid[0]} grid, add a channel axis: {name}[..., None]."
        )
    if len(grid) > 1 and grid[0] <= _FEW_CHANNELS and min(*grid[1:], array.shape[-1]) >= 2 * _FEW_CHANNELS:
        shape = "x".join(map(str, grid))
        warn(
            f"{name} of shape {tuple(array.shape)} is read as a {shape} grid with {array.shape[-1]} channels. If its "
            f"channels come first, pass np.moveaxis({name}, 1, -1)."
        )
    if 0 in array.shape:
        what = f"{name} has 0 samples (shape {tuple(array.shape)}); at least one is required"
        if array.shape[0]:
            what = f"{name} has shape {tuple(array.shape)}, in which an axis has length 0; expected points and channels"
        raise FieldDataError(f"{what}.")
    return FieldSet(unit_grid(grid), array, grid_shape=grid)


def find_geometry(fields: FieldSet) -> tuple[FieldSet, str]:
    """Set grid_shape if shared points form a grid in C order, and return the geometry."""
    if fields.grid_shape is None:
        found = find_grid(fields.coords) if fields.shared_coords else None
        if found is None or not np.array_equal(found[1], np.arange(len(found[1]))):
            return fields, "points"
        fields = fields.with_grid(found[0])
        return fields, "grid" if _runs_straight(fields) else "structured"
    if len(fields.grid_shape) != fields.n_dims:
        return fields, "points"
    straight = fields.shared_coords and _runs_straight(fields) and find_grid(fields.coords) is not None
    return fields, "grid" if straight else "structured"


def _runs_straight(fields: FieldSet) -> bool:
    """Whether the grid is rectilinear: each coordinate changes along one axis only; axes may be in any order."""
    shape = fields.grid_shape or ()
    coords = np.asarray(fields.coords, dtype=float)
    points = coords.reshape(*shape, fields.n_dims)
    slack = SAME_POINT * np.ptp(coords, axis=0) if len(coords) else 0.0
    changes = np.array(
        [(np.ptp(points, axis=axis) > slack).any(axis=tuple(range(len(shape) - 1))) for axis in range(len(shape))]
    )
    return bool((changes.sum(axis=0) <= 1).all() and (changes.sum(axis=1) <= 1).all())


# ---------------------------------------------------------------------- checks
def check_names(names: Sequence[str] | None, fitted: Sequence[str] | None, what: str) -> None:
    """Raise an error if the channels have other names than in the fit, or the same names in another order."""
    if names is None or fitted is None or tuple(names) == tuple(fitted):
        return
    remedy = "bring them into this order" if set(names) == set(fitted) else "pass these, or rename channels that are"
    raise FieldDataError(
        f"the channels of {what} are {list(names)}, but those of the fit were {list(fitted)}; {remedy}."
    )


def check_not_empty(fields: FieldSet, name: str) -> None:
    """Raise an error if there are no samples, or a sample has no points."""
    if len(fields) == 0:
        raise FieldDataError(f"{name} has 0 samples; at least one is required.")
    if fields.n_channels == 0 and fields.values is not None:
        raise FieldDataError(f"{name} has fields without channels; pass None for points alone.")
    empty: IntArray = np.flatnonzero(fields.n_points == 0)
    if len(empty):
        raise FieldDataError(f"sample {empty[0]} of {name} has no points; remove it.")


def check_finite(
    fields: FieldSet,
    name: str,
    *,
    fitting: bool = False,
    labels: Sequence[Any] | None = None,
    param_names: Sequence[str] | None = None,
) -> Extremes | None:
    """Raise an error if a value or parameter is NaN, infinite or too large; return statistics of the values.

    Values are read in pieces, and once. In a fit, values and coordinates that are too small are an error too. Labels of
    samples and names of parameters are for the message.
    """
    parts = []
    for start, values in iterate_rows(fields):
        parts.append(Extremes.of(values, fields, start))
        if not parts[-1].are_finite:
            sample, channel = _place_of_first(values, start, fields)
            named = channel if fields.channel_names is None else repr(fields.channel_names[channel])
            raise FieldDataError(
                f"Input {name} contains NaN or infinity, first in sample {sample}, channel {named}; remove the "
                "sample or repair the value."
            )
        _refuse_large(np.stack([parts[-1].low, parts[-1].high]), f"Input {name}", "channel", start)
    if fields.params is not None:
        if not np.isfinite(fields.params).all():
            place = entry_of(fields.params, "parameter", labels, param_names)
            raise FieldDataError(
                f"Input {name} contains NaN or infinity{' in its params' * (fields.values is not None)}, first in "
                f"{place}; remove the sample or repair the value."
            )
        check_range(fields.params, f"params of {name}", "parameter", fitting=fitting)
    found = Extremes.joined(parts) if parts else None
    if fitting and found is not None:
        _refuse_small(found.low.min(axis=0), found.high.max(axis=0), f"Input {name}")
    if fitting and len(fields) and fields.n_dims and fields.n_points.all():
        lower, upper = boxes(fields)
        extent = upper.max(axis=0) - lower.min(axis=0)
        _refuse_small(np.zeros(fields.n_dims), extent, f"Input {name} in its coordinates")
    return found


def entry_of(numbers: FloatArray, kind: str, labels: Sequence[Any] | None, names: Sequence[str] | None) -> str:
    """Name the first entry of numbers ``(n, p)`` that is not finite, by labels and names where there are any."""
    sample, column = np.argwhere(~np.isfinite(numbers))[0].tolist()
    has_label = labels is not None and sample < len(labels) and labels[sample] != sample
    label = f" ({labels[sample]})" if labels is not None and has_label else ""
    return f"sample {sample}{label}, {kind} {column if names is None else repr(names[column])}"


def check_range(numbers: FloatArray, what: str, column: str, *, fitting: bool) -> None:
    """Raise an error if numbers ``(n, p)`` are too large for double precision, or all too small in a fit."""
    _refuse_large(np.asarray(numbers)[np.newaxis], what, column)
    if fitting and len(numbers):
        _refuse_small(np.min(numbers, axis=0), np.max(numbers, axis=0), what)


def _refuse_large(numbers: FloatArray, what: str, column: str, start: int = 0) -> None:
    """Raise an error for the first of the numbers ``(k, n, p)`` whose square is too large."""
    # Integers have no large numbers, and the least one has no absolute value.
    if numbers.dtype.kind == "f" and numbers.size and max(float(numbers.max()), -float(numbers.min())) > LARGEST:
        wrong = np.abs(numbers) > LARGEST
        place, sample, number = np.argwhere(wrong)[0].tolist()
        raise FieldDataError(
            f"{what} contains {numbers[place, sample, number]:g} in sample {start + sample}, {column} {number}, whose "
            f"square is too large for double precision; expected numbers up to {LARGEST:g}. Check its unit and fill "
            "values."
        )


def _refuse_small(low: FloatArray, high: FloatArray, what: str) -> None:
    """Raise an error if numbers that vary, with these extremes, are all too small."""
    largest = float(max(np.max(high, initial=0.0), -np.min(low, initial=0.0)))
    if largest < SMALLEST and (high > low).any():
        raise FieldDataError(
            f"{what} contains numbers up to {largest:g} only, whose squares are too small for double precision; "
            f"expected larger ones than {SMALLEST:g}. Take another unit."
        )


def _check_finite_coords(fields: FieldSet, name: str) -> None:
    """Raise an error if a coordinate is NaN, infinite or too large, before points are compared with others."""
    for start, piece in iterate_coords(fields):
        is_finite = np.isfinite(piece)
        if not is_finite.all():
            *places, axis = np.argwhere(~is_finite)[0].tolist()
            raise FieldDataError(
                f"Input {name} contains NaN or infinity in its coordinates, first in "
                f"{_words_of(fields, start, places)}, coordinate {axis}; leave this point out, or repair it."
            )
        if piece.size and max(float(piece.max()), -float(piece.min())) > LARGEST:
            *places, axis = np.argwhere(np.abs(piece) > LARGEST)[0].tolist()
            raise FieldDataError(
                f"Input {name} contains {piece[(*places, axis)]:g} in its coordinates, first in "
                f"{_words_of(fields, start, places)}, coordinate {axis}, whose square is too large for double "
                f"precision; expected numbers up to {LARGEST:g}. Leave this point out, or take another unit."
            )


def _words_of(fields: FieldSet, start: int, places: list[int]) -> str:
    """Name the sample and the point of an entry of the coordinates, as they are stored from a sample on."""
    if fields.offsets is not None:
        row = places[0] + int(fields.offsets[start])
        sample = int(np.searchsorted(fields.offsets, row, side="right")) - 1
        places = [sample, row - int(fields.offsets[sample])]
    elif len(places) > 1:
        places = [start + places[0], *places[1:]]
    kinds = ("sample", "point")[-len(places) :]
    return ", ".join(f"{kind} {place}" for kind, place in zip(kinds, places, strict=True))


def _place_of_first(values: FloatArray, start: int, fields: FieldSet) -> tuple[int, int]:
    """Return the sample and the channel of the first value that is not finite."""
    place = np.argwhere(~np.isfinite(values))[0]
    offsets = fields[start:].offsets
    if offsets is not None:
        return start + int(np.searchsorted(offsets, place[0], side="right")) - 1, int(place[-1])
    return start + int(place[0]), int(place[-1])
