"""Targets on the points of the inputs, on points of their own, or without points.

Notation: n samples, P points of a sample, q output channels, s scalars.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from skop._typing import FloatArray
from skop.data._checks import (
    ROUNDING,
    SAME_POINT,
    check_finite,
    check_not_empty,
    check_range,
    entry_of,
    find_geometry,
    refuse_length,
)
from skop.data._fieldset import FieldSet, piece_length
from skop.data._spec import TargetForm, Targets
from skop.data._statistics import Extremes, boxes
from skop.data._storage import as_storage, reshape_rows
from skop.data.forms import Form
from skop.data.forms.arrays import grid_array
from skop.data.forms.table import read_scalars
from skop.exceptions import FieldDataError, warn

__all__ = [
    "check_targets",
    "field_targets",
    "match_target",
    "may_lie_elsewhere",
    "read_target_fields",
    "warn_if_outside",
]

#: What is said of targets on other points where only the form of X or y forbids them.
_MAY_LIE_ELSEWHERE = " If X and y are FieldSets, or meshes, y may be on points of its own."
#: Largest distance of points that are taken for copies of each other, as a fraction of the mean spacing.
_COPY = 1e-2


# ---------------------------------------------------------------------- reading
def match_target(
    y: Any, kind: Form, inputs: FieldSet, *, listed: bool, elsewhere: bool | None
) -> tuple[Targets, TargetForm]:
    """Read a y of some form on the points of X, or scalars. X may be a list of samples.

    `elsewhere` is whether y may be on other points; None if it may not for other reasons than its form and that of X.
    """
    if kind.carries_points:
        fields = read_target_fields(y, kind)
        if elsewhere and _lies_elsewhere(fields, inputs):
            _check_pairing(fields, inputs)
            targets, form = field_targets(find_geometry(fields)[0], kind)
            return replace(targets, elsewhere=True), form
        _check_same_points(fields, inputs, _MAY_LIE_ELSEWHERE if elsewhere is False else "")
        if fields.is_ragged != inputs.is_ragged and len(fields) == len(inputs):
            values = np.concatenate(fields.to_list())
            whole = values if inputs.is_ragged else values.reshape(*inputs.shape[:2], -1)
            fields = inputs.with_values(whole, fields.channel_names).with_params(fields.params)
        elif fields.grid_shape is None and inputs.grid_shape is not None:
            fields = fields.with_grid(inputs.grid_shape)
        return field_targets(fields, kind)
    if isinstance(y, list) and y and (listed or inputs.is_ragged or not inputs.shared_coords) and np.ndim(y[0]) > 0:
        return _listed_target(y, kind, inputs)
    array = as_storage(y, "y")
    if len(array.shape) <= 2 and inputs.is_ragged:
        return read_scalars(array)
    if inputs.is_ragged or 0 in array.shape:
        expected = (
            "a list of arrays, since the samples of X differ in their points" if inputs.is_ragged else "no empty axis"
        )
        raise FieldDataError(f"y has shape {tuple(array.shape)}; expected {expected}.")
    per_sample, points = tuple(array.shape[1:]), (int(inputs.n_points[0]),)
    grid = inputs.grid_shape or points
    for has_grid_axes, base in ((True, grid), (False, points)):
        if per_sample[:-1] == base:
            return _on_points(inputs, array, kind, has_grid_axes=has_grid_axes, squeezes_channel=False)
        if per_sample == base and per_sample != (1,):
            return _on_points(inputs, array, kind, has_grid_axes=has_grid_axes, squeezes_channel=True)
    if len(array.shape) <= 2:
        return read_scalars(array)
    raise FieldDataError(
        f"y has shape {tuple(array.shape)}, which does not fit the points of X: expected (n, "
        f"{', '.join(map(str, grid))}, channels) for fields on the same grid, or (n,) or (n, q) for scalars."
    )


def read_target_fields(y: Any, kind: Form) -> FieldSet:
    """Read a y that contains points, or an array on a grid."""
    if not kind.carries_points:
        return grid_array(y, "y")
    fields = kind.checked_fields(y, "y")
    if fields.n_channels == 0:
        raise FieldDataError(f"y is a {type(y).__name__} without values; pass the target fields as its values.")
    return fields


def field_targets(fields: FieldSet, kind: Form) -> tuple[Targets, TargetForm]:
    """Return the targets from a FieldSet that was read from a y of some form, and what predictions need of it."""
    dtype = fields.dtype
    form = TargetForm(
        kind.container if kind.carries_points else "array",
        dtype.name if dtype.kind == "f" else "float64",
        has_grid_axes=not kind.carries_points,
        channel_names=fields.channel_names,
    )
    return Targets(fields if fields.params is None else fields.with_params(None), fields.params), form


def _listed_target(y: list[Any], kind: Form, inputs: FieldSet) -> tuple[Targets, TargetForm]:
    """Read a list of arrays, one for each sample, on the points of X."""
    arrays = [np.asarray(as_storage(item, f"y of sample {i}")) for i, item in enumerate(y)]
    refuse_length(inputs, arrays)
    single = arrays[0].ndim == 1
    if single and len({len(item) for item in arrays}) == 1 and len(arrays[0]) != inputs.n_points[0]:
        return read_scalars(np.stack(arrays))
    for i, (item, n_points) in enumerate(zip(arrays, inputs.n_points, strict=True)):
        expected = (int(n_points),) if single else (int(n_points), arrays[0].shape[-1])
        if item.shape != expected:
            raise FieldDataError(f"y of sample {i} has shape {item.shape}; X has {n_points} points there: {expected}.")
    values = np.concatenate([item[:, None] if single else item for item in arrays])
    whole = values if inputs.is_ragged else values.reshape(len(arrays), int(inputs.n_points[0]), -1)
    targets, form = field_targets(inputs.with_values(whole), kind)
    return targets, replace(form, container="list", has_grid_axes=False, squeezes_channel=single)


def _on_points(
    inputs: FieldSet, array: Any, kind: Form, *, has_grid_axes: bool, squeezes_channel: bool
) -> tuple[Targets, TargetForm]:
    """Build target fields on the points of the inputs."""
    refuse_length(inputs, array)
    n_points = int(inputs.n_points[0])
    values = reshape_rows(array, (n_points, 1 if squeezes_channel else int(array.shape[-1])))
    targets, form = field_targets(inputs.with_values(values), kind)
    return targets, replace(form, has_grid_axes=has_grid_axes, squeezes_channel=squeezes_channel)


def check_targets(
    targets: Targets,
    labels: Sequence[Any] | None = None,
    names: Sequence[str] | None = None,
    *,
    fitting: bool = False,
) -> Extremes | None:
    """Raise an error if targets are empty or cannot be used; return statistics of the field.

    Labels of samples, such as the files of meshes, and names of scalars are for the message.
    """
    extremes = None
    if targets.field is not None:
        check_not_empty(targets.field, "y")
        extremes = check_finite(targets.field, "y", fitting=fitting)
    if targets.scalars is not None and not np.isfinite(targets.scalars).all():
        raise FieldDataError(
            f"Input y contains NaN or infinity, first in {entry_of(targets.scalars, 'scalar', labels, names)}; remove "
            "the sample or repair the value."
        )
    if targets.scalars is not None:
        check_range(targets.scalars, "Input y", "scalar", fitting=fitting)
    if len(targets) == 0:
        raise FieldDataError("y has 0 samples; at least one is required.")
    return extremes


# ---------------------------------------------------------------------- points of targets and of inputs
def may_lie_elsewhere(source: Form, y: Any) -> bool:
    """Whether y is a FieldSet, as meshes are when they have been opened, and an X of this form has coordinates.

    An array lies on the unit box for want of coordinates: to take y at its word would shift one against the other.
    """
    return isinstance(y, FieldSet) and not source.lacks_points


def _check_same_points(fields: FieldSet, inputs: FieldSet, remedy: str) -> None:
    """Raise an error if targets are on other points than inputs, or on the same points in another order.

    A difference in the number of samples is not checked here, because it has its own message.
    """
    if len(fields) != len(inputs) or len(fields) == 0:
        return
    if not np.array_equal(fields.n_points, inputs.n_points):
        raise FieldDataError(
            f"y has {_points_of(fields)} points per sample, X has {_points_of(inputs)}; pass both on the same points."
            f"{remedy}"
        )
    if not _are_same_points(fields, inputs):
        raise FieldDataError(
            "y lies on other points than X, or on the same points in another order; sort both in the same way. An "
            "array (n, *grid, c) is on a grid of the unit box: pass (coords, fields) for other coordinates."
            f"{remedy}"
        )


def _are_same_points(fields: FieldSet, inputs: FieldSet) -> bool:
    """Whether two sets of as many samples are on the same points in the same order, up to rounding."""
    if fields.n_dims != inputs.n_dims or not np.array_equal(fields.n_points, inputs.n_points):
        return False
    if fields._coords is inputs._coords and fields._rows is inputs._rows:
        return True
    if not (fields.n_points > 0).any():
        return True
    lower, upper = boxes(inputs)
    slack = SAME_POINT * (upper.max(axis=0) - lower.min(axis=0))
    step = piece_length(inputs, inputs.n_dims)
    is_shared = fields.shared_coords and inputs.shared_coords
    for start in range(0, 1 if is_shared else len(inputs), step):
        theirs, ours = (part[start : start + step] for part in (fields, inputs))
        pairs = [(theirs.coords, ours.coords)]
        if theirs.is_ragged != ours.is_ragged:
            # A selection from ragged samples stays ragged, even if all samples have the same number of points.
            pairs = [(np.concatenate(theirs.coords_list()), np.concatenate(ours.coords_list()))]
        if any((np.abs(one - other) > slack).any() for one, other in pairs):
            return False
    return True


def _lies_elsewhere(fields: FieldSet, inputs: FieldSet) -> bool:
    """Whether targets are on points of their own, which are no copy of those of the inputs in any sample.

    Copies in another order, or rounded more than `_are_same_points` allows, are mistakes and no points of their own.
    """
    if len(fields) != len(inputs) or len(fields) == 0 or fields.n_dims != inputs.n_dims:
        return False
    if (fields.n_points == 0).any() or (inputs.n_points == 0).any() or _are_same_points(fields, inputs):
        return False
    return not any(_is_poor_copy(theirs, ours) for theirs, ours in _pairs_of_points(fields, inputs))


def _pairs_of_points(fields: FieldSet, inputs: FieldSet) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the points of the targets and of the inputs of each sample, or once if all samples share both."""
    if fields.shared_coords and inputs.shared_coords:
        yield np.asarray(fields.coords, dtype=float), np.asarray(inputs.coords, dtype=float)
        return
    step = min(piece_length(part, part.n_dims) for part in (fields, inputs))
    for start in range(0, len(inputs), step):
        rows = slice(start, start + step)
        for theirs, ours in zip(fields[rows].coords_list(), inputs[rows].coords_list(), strict=True):
            yield np.asarray(theirs, dtype=float), np.asarray(ours, dtype=float)


def _is_poor_copy(theirs: FloatArray, ours: FloatArray) -> bool:
    """Whether points are those of the inputs in another order, or rounded too much to count as the same."""
    if theirs.shape != ours.shape or not (np.isfinite(theirs).all() and np.isfinite(ours).all()):
        return False
    extent = np.ptp(ours, axis=0)
    if np.all(np.abs(theirs - ours) <= SAME_POINT * extent):
        return False
    spacing = extent.max() / len(ours) ** (1 / ours.shape[1])
    slack = max(_COPY * spacing, ROUNDING * float(np.abs(ours).max()))
    # A few points tell most sets apart.
    searches = ((ours, theirs[:16]), (ours, theirs), (theirs, ours))
    return all(bool((KDTree(held).query(asked)[0] <= slack).all()) for held, asked in searches)


def _check_pairing(fields: FieldSet, inputs: FieldSet) -> None:
    """Raise an error if targets are on the points of the inputs, but samples are in another order; warn if some are."""
    if fields.shared_coords or inputs.shared_coords:
        return
    theirs: list[bytes] = []
    ours: list[bytes] = []
    for pair in _pairs_of_points(fields, inputs):
        for digests, points in zip((theirs, ours), pair, strict=True):
            digests.append(sha256(np.asarray(points, dtype=np.float32).tobytes()).digest())
    places = dict(zip(ours, range(len(ours)), strict=True))
    moved = [i for i, points in enumerate(theirs) if points != ours[i] and points in places]
    if not moved:
        return
    words = f"y of sample {moved[0]} is on the points that X has in sample {places[theirs[moved[0]]]}"
    if Counter(theirs) == Counter(ours):
        raise FieldDataError(f"{words}, and all of y is on points of X; bring the samples of both into one order.")
    warn(f"{words}; check that the samples of X and y are in the same order.")


def warn_if_outside(fields: FieldSet, inputs: FieldSet) -> None:
    """Warn if targets are further outside the box of the points of X than neighbouring points are apart."""
    for number, (theirs, ours) in enumerate(_pairs_of_points(fields, inputs)):
        lower, upper = ours.min(axis=0), ours.max(axis=0)
        along = min(inputs.grid_shape) if inputs.grid_shape else len(ours) ** (1 / ours.shape[1])
        slack = (upper - lower) / max(along - 1, 1)
        low, high = theirs.min(axis=0), theirs.max(axis=0)
        if (low < lower - slack).any() or (high > upper + slack).any():
            warn(
                f"y has points in the box {_box(low, high)}, but those of X are in {_box(lower, upper)}, first in "
                f"sample {number}. Input fields outside the box of X are those of its nearest points; if the units of "
                "the coordinates differ, bring both to the same."
            )
            return


def _box(lower: FloatArray, upper: FloatArray) -> str:
    """A box in words."""
    return " x ".join(f"[{low:.4g}, {high:.4g}]" for low, high in zip(lower, upper, strict=True))


def _points_of(fields: FieldSet) -> str:
    """Describe the numbers of points per sample."""
    counts = fields.n_points
    return f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else str(counts[0])
