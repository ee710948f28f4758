"""Checks of FieldSets and of numbers, whatever form they came in, and the arrangement of their points.

Notation: n samples, P points of a sample, d space dimensions, c channels, p global parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet, iterate_coords, iterate_rows
from skop.data._grid import find_grid
from skop.data._statistics import Extremes, boxes, digests_of
from skop.exceptions import FieldDataError

__all__ = [
    "ROUNDING",
    "SAME_POINT",
    "check_extent",
    "check_finite",
    "check_finite_coords",
    "check_names",
    "check_not_empty",
    "check_range",
    "describe",
    "entry_of",
    "find_geometry",
    "refuse_length",
]

#: Largest difference between coordinates that count as equal, as a fraction of the extent of their axis.
SAME_POINT = 1e-6
#: Largest size of a number whose square, and sums of many squares, double precision can hold; and the smallest.
LARGEST, SMALLEST = 1e150, 1e-150
#: Largest difference of coordinates by rounding, a few errors in single precision, as a fraction of the coordinates.
ROUNDING = 2.0**-21


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
def describe(X: Any) -> str:
    """Describe an argument for error messages."""
    return f"it came as {type(X).__name__}" + (f" of shape {tuple(X.shape)}" if hasattr(X, "shape") else "")


def refuse_length(X: Any, y: Any) -> None:
    """Raise an error if X and y have other numbers of samples."""
    if len(X) != len(y):
        raise FieldDataError(
            f"X has {len(X)} samples and y has {len(y)}: inconsistent numbers of samples; one y per sample."
        )


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

    Values are read in pieces, and once. In a fit, values that are too small are an error too, and the statistics hold
    digests. Labels of samples and names of parameters are for the message.
    """
    parts, digests = [], []
    for start, values in iterate_rows(fields):
        parts.append(Extremes.of(values, fields, start))
        digests += [digests_of(values, fields, start)] if fitting else []
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
        found = replace(found, digests=np.concatenate(digests))
        _refuse_small(found.low.min(axis=0), found.high.max(axis=0), f"Input {name}")
    return found


def check_extent(fields: FieldSet, name: str) -> None:
    """Raise an error if the coordinates of a fit are too small."""
    lower, upper = boxes(fields)
    extent = upper.max(axis=0) - lower.min(axis=0)
    _refuse_small(np.zeros(fields.n_dims), extent, f"Input {name} in its coordinates")


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


def check_finite_coords(fields: FieldSet, name: str) -> None:
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
