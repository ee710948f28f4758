"""FieldSets, and fields with their points: ``(coords, fields)``, lists of these, and lists of points.

Notation: n samples, P points of a sample, d space dimensions, c channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.data._fieldset import FieldSet
from skop.data._spec import TargetForm
from skop.data._storage import as_storage
from skop.data.forms._interface import Form, as_samples
from skop.exceptions import FieldDataError, warn

__all__ = ["FIELDSET", "LIST", "PAIRS", "TUPLE"]


class FieldSets(Form):
    """FieldSets."""

    name = container = "fieldset"
    carries_points = True

    def matches(self, given: Any) -> bool:
        """Whether an argument is a FieldSet."""
        return isinstance(given, FieldSet)

    def fields(self, given: Any, what: str) -> FieldSet:
        """Return a FieldSet as it is."""
        return given

    def restore(self, target: TargetForm, values: FloatArray, points: FieldSet) -> Any:
        """FieldSet with the names of the channels of y."""
        return points.with_values(values, target.channel_names)


class _Tuple(Form):
    """``(coords, fields)``, in which fields can be None."""

    name = container = "tuple"
    carries_points = True

    def matches(self, given: Any) -> bool:
        """Whether an argument is a tuple."""
        return isinstance(given, tuple)

    def fields(self, given: Any, what: str) -> FieldSet:
        """Convert (coords, fields) to a FieldSet."""
        if len(given) != 2:
            raise FieldDataError(f"{what} is a tuple of {len(given)} items; expected (coords, fields).")
        return FieldSet(given[0], given[1])

    def restore(self, target: TargetForm, values: FloatArray, points: FieldSet) -> Any:
        """Points and values; lists of both for ragged samples."""
        if points.is_ragged:
            return points.coords_list(), as_samples(values, points, squeezed=False)
        return points.coords, values

    def listed(self, X: Any, design: Any) -> tuple[Any, Any]:
        """Return the parts as they are."""
        return X, design

    def count(self, X: Any) -> int:
        """Number of samples, of which shared points say nothing."""
        lengths = {len(part) for part in X if part is not None and getattr(part, "ndim", 0) != 2}
        return lengths.pop() if len(lengths) == 1 else 0

    def cut(self, X: Any, rows: slice) -> Any:
        """Some samples, with the points that all share."""
        return tuple(part if part is None or getattr(part, "ndim", 0) == 2 else part[rows] for part in X)


class _Pairs(Form):
    """Lists of ``(coords, fields)``, in which fields can be None."""

    name = container = "pairs"
    carries_points = is_listed = True

    def matches(self, given: Any) -> bool:
        """Whether an argument is a list of tuples."""
        return isinstance(given, list) and bool(given) and isinstance(given[0], tuple)

    def fields(self, given: Any, what: str) -> FieldSet:
        """Convert a list of (coords, fields), in which fields can be None, to a FieldSet."""
        return _join_pairs(given, what)

    def restore(self, target: TargetForm, values: FloatArray, points: FieldSet) -> Any:
        """List of (coords, values)."""
        return list(zip(points.coords_list(), as_samples(values, points, squeezed=False), strict=True))


class _List(Form):
    """Lists of points ``(P_i, d)`` of X, or of values ``(P_i, q)`` of y."""

    name = container = "list"
    is_listed = True

    def matches(self, given: Any) -> bool:
        """Whether samples are a list of arrays ``(P_i, k)``; nested lists of numbers and grids are not."""
        return isinstance(given, list) and bool(given) and all(getattr(item, "ndim", 0) == 2 for item in given)

    def fields(self, given: Any, what: str) -> FieldSet:
        """Convert a list of points to a FieldSet."""
        return _join_samples(given, None)

    def warn_if_ambiguous(self, given: Any, what: str) -> None:
        """Warn about a list of arrays of equal shape, which has another meaning than the stacked array."""
        if len(given) > 1 and len({item.shape for item in given}) == 1:
            n_points, width = given[0].shape
            warn(
                f"{what} is a list of arrays of shape {(n_points, width)}, read as the {width}-D points of a sample "
                f"each. For {width} channels on a 1-D grid pass one array: np.stack({what})."
            )

    def restore(self, target: TargetForm, values: FloatArray, points: FieldSet) -> Any:
        """List of values."""
        return as_samples(values, points, squeezed=target.squeezes_channel)


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


FIELDSET, TUPLE, PAIRS, LIST = FieldSets(), _Tuple(), _Pairs(), _List()
