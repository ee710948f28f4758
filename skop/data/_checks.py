"""Checks on the contents of FieldSets: samples, points and finite values."""

from collections.abc import Iterator

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet
from skop.exceptions import FieldDataError

__all__ = ["check_finite", "check_not_empty", "check_same_points", "iterate_rows"]

#: Values read at a time when a set is checked or its statistics are taken.
_CHUNK_VALUES = 2**22
#: How far points may differ and still count as the same, as a part of the extent of their axis.
SAME_POINT = 1e-6


def iterate_rows(fields: FieldSet) -> Iterator[tuple[int, FloatArray]]:
    """Read the values of a set in pieces of bounded size.

    Parameters
    ----------
    fields : FieldSet
        Set with values.

    Yields
    ------
    tuple of (int, ndarray)
        Number of the first sample of the piece, and its values ``(m, P, c)``, or flat when ragged.
    """
    per_sample = max(1, int(np.max(fields.n_points, initial=1)) * max(fields.n_channels, 1))
    step = max(1, _CHUNK_VALUES // per_sample)
    for start in range(0, len(fields), step):
        values = fields[start : start + step].values
        if values is not None:
            yield start, values


def check_not_empty(fields: FieldSet, name: str) -> None:
    """Raise if there is no sample, or one without points.

    Parameters
    ----------
    fields : FieldSet
        What came.
    name : str
        ``"X"`` or ``"y"``, for the message.

    Raises
    ------
    FieldDataError
        If so.
    """
    if len(fields) == 0:
        raise FieldDataError(f"{name} has 0 samples; at least one is required.")
    if fields.n_channels == 0 and fields.values is not None:
        raise FieldDataError(f"{name} has fields without channels; pass None for points alone.")
    empty: IntArray = np.flatnonzero(fields.n_points == 0)
    if len(empty):
        raise FieldDataError(f"sample {empty[0]} of {name} has no points; remove it.")


def check_finite(fields: FieldSet, name: str) -> None:
    """Raise if a value, coordinate or parameter is NaN or infinite; values are read in pieces.

    Parameters
    ----------
    fields : FieldSet
        What came.
    name : str
        ``"X"`` or ``"y"``, for the message.

    Raises
    ------
    FieldDataError
        If so; the message names sample and channel.
    """
    for start, values in iterate_rows(fields):
        if not np.isfinite(values).all():
            sample, channel = _place_of_first(values, start, fields)
            raise FieldDataError(
                f"Input {name} contains NaN or infinity, first in sample {sample}, channel {channel}; remove the "
                "sample or repair the value."
            )
    for what, array in (("coords", fields.coords), ("params", fields.params)):
        if array is not None and not np.isfinite(array).all():
            place = np.argwhere(~np.isfinite(array))[0].tolist()
            words = f"at index {place}"
            if what == "coords" and fields.is_ragged:
                sample = int(np.searchsorted(np.cumsum(fields.n_points), place[0], side="right"))
                words = f"in sample {sample}, coordinate {place[1]}"
            raise FieldDataError(f"Input {name} contains NaN or infinity in its {what}, first {words}.")


def _place_of_first(values: FloatArray, start: int, fields: FieldSet) -> tuple[int, int]:
    """Sample and channel of the first value that is not finite."""
    place = np.argwhere(~np.isfinite(values))[0]
    offsets = fields[start:].offsets
    if offsets is not None:
        return start + int(np.searchsorted(offsets, place[0], side="right")) - 1, int(place[-1])
    return start + int(place[0]), int(place[-1])


def check_same_points(fields: FieldSet, inputs: FieldSet) -> None:
    """Raise if targets lie on other points than inputs, or on the same in another order.

    Parameters
    ----------
    fields, inputs : FieldSet
        y and X. Sets of different length pass: that error has its own message.

    Raises
    ------
    FieldDataError
        If so.
    """
    if len(fields) != len(inputs) or len(fields) == 0:
        return
    if not np.array_equal(fields.n_points, inputs.n_points):
        raise FieldDataError(
            f"y has {_points_of(fields)} points a sample, X has {_points_of(inputs)}; they must be the same points."
        )
    theirs, ours = fields.coords, inputs.coords
    if fields.is_ragged != inputs.is_ragged:
        # Samples that were cut out of a ragged set stay ragged, even if all have as many points.
        theirs, ours = (np.concatenate(part.coords_list()) for part in (fields, inputs))
    if fields.n_dims == inputs.n_dims:
        extent = np.ptp(np.asarray(ours, dtype=float).reshape(-1, inputs.n_dims), axis=0)
        if np.all(np.abs(theirs - ours) <= SAME_POINT * extent):
            return
    raise FieldDataError(
        "y lies on other points than X, or on the same points in another order; bring both into one order. An array "
        "(n, *grid, c) lies on the unit box: pass (coords, fields) for another place."
    )


def _points_of(fields: FieldSet) -> str:
    """Numbers of points a sample, in words."""
    counts = fields.n_points
    return f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else str(counts[0])
