"""Samples that are the same, which one sample with their weights together stands for.

Notation: n samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, Targets, TrainingData, piece_length
from skop.estimators._weights import samples_with_weight
from skop.exceptions import FieldDataError

__all__ = [
    "groups_of_repeats",
    "groups_of_same_inputs",
    "groups_on_same_points",
    "linked",
    "merged",
    "relative",
    "without_copies",
]

#: Smaller parts of the mean weight count as this one, which is rounding in all sums; rows are divided by its root.
_NO_WEIGHT = 1e-14
#: Inputs at less than this part of the distance to the eighth neighbour are nearly the same, as after a step for finite
#: differences; and targets, if their part is at most so many times that of the inputs.
_NEAR, _NEIGHBOURS, _STEEPEST = 1e-3, 8, 10.0
#: Inputs at less than this part of the deviation of all samples are the same up to rounding, as after a second start of
#: a run: their differences tell no slopes.
_SAME = 1e-6
#: Numbers that stand for a channel, and at most for a sample in the search for neighbours.
_PER_CHANNEL, _PER_SAMPLE = 4, 6
#: Distances below this part of the deviation of all samples are rounding.
_ROUNDING = 1e-12


def groups_of_same_inputs(inputs: FieldSet, *, nearly: bool = False) -> IntArray:
    """Number samples (n,) so that those with the same inputs have the same number, in an order as good as random.

    With `nearly`, also those with nearly the same inputs.
    """
    number = np.unique(_of_pieces(inputs, _digests), return_inverse=True)[1]
    return _joined_where_near(number, inputs) if nearly else np.asarray(number)


def groups_of_repeats(inputs: FieldSet, *, nearly: bool = False) -> IntArray | None:
    """Number samples so, or None where no inputs come twice, or all are the same: one tells the truth of the other."""
    numbers = groups_of_same_inputs(inputs, nearly=nearly)
    return numbers if 0 < numbers.max() < len(numbers) - 1 else None


def _parts_of(samples: FieldSet | None) -> list[Any]:
    """Arrays or lists of what differs between samples."""
    if samples is None:
        return []
    parts: list[Any] = []
    if not samples.shared_coords:
        parts.append(samples.coords_list() if samples.is_ragged else np.asarray(samples.coords))
    if samples.values is not None:
        parts.append(samples.to_list() if samples.is_ragged else np.asarray(samples.values))
    return parts if samples.params is None else [*parts, np.asarray(samples.params)]


def _of_pieces(samples: FieldSet, function: Callable[[list[Any], int], Any]) -> Any:
    """Results of a function of parts and number of samples, for all samples; fields in files are read by pieces."""
    step = piece_length(samples, max(samples.n_channels, samples.n_dims))
    pieces = (samples[start : start + step] for start in range(0, len(samples), step))
    return np.concatenate([function(_parts_of(piece), len(piece)) for piece in pieces])


def _digests(parts: list[Any], n_samples: int) -> IntArray:
    """Checksums (n,) of the parts of samples."""
    # A negative zero is a zero.
    rows = (b"".join((np.array(part[i], np.float64) + 0.0).tobytes() for part in parts) for i in range(n_samples))
    return np.frombuffer(b"".join(hashlib.sha256(row).digest()[:8] for row in rows), dtype="<u8")


def _features(parts: list[Any], n_samples: int) -> FloatArray:
    """Numbers (n, m) that differ little where samples do: parameters, and random sums of each channel of the fields."""
    columns = [np.zeros((n_samples, 0))]
    for part in parts:
        values = np.asarray(part, dtype=np.float64)
        if values.ndim > 2:
            n_points = values[0].size // values.shape[-1]
            sums = np.random.default_rng(0).standard_normal((min(_PER_CHANNEL, n_points), n_points))
            values = sums @ values.reshape(n_samples, n_points, -1)
        columns.append(values.reshape(n_samples, -1))
    return np.concatenate(columns, axis=1)


def _comparable(rows: FloatArray) -> FloatArray:
    """Rows (n, m) over their deviations, with logarithms: small values of a parameter over decades differ too."""
    rows = np.concatenate([rows, np.log(rows[:, (rows > 0).all(axis=0)])], axis=1)
    size = rows.std(axis=0)
    varies = size > _ROUNDING * np.abs(rows).max(axis=0)
    return rows[:, varies] / size[varies]


def _joined_where_near(
    number: IntArray, inputs: FieldSet, targets: Targets | None = None, part: float = _NEAR
) -> IntArray:
    """Numbers (n,) of samples, where those that are nearly the same in inputs, and targets if given, have the same.

    They are within a part of the distance to the eighth neighbour, or the same up to rounding.
    """
    first = np.unique(number, return_index=True)[1]
    n_rows, count = len(first), min(_NEIGHBOURS, len(first) // 2)
    is_ragged = inputs.is_ragged or (targets is not None and targets.field is not None and targets.field.is_ragged)
    if is_ragged or count < 2:
        return number
    rows = _comparable(_of_pieces(inputs, _features)[first])
    if not rows.shape[1]:
        return number
    rows = _shortened(rows)
    near = cKDTree(rows).query(rows, count + 1)[1]
    distance = np.linalg.norm(rows[near] - rows[:, np.newaxis], axis=2)
    scale = distance.max(axis=1, keepdims=True)
    same = distance <= np.maximum(part * scale, _SAME)
    if targets is not None and same.sum() > n_rows:
        others = _shortened(_comparable(_features(_target_parts(targets), len(number))[first]))
        other = np.linalg.norm(others[near] - others[:, np.newaxis], axis=2)
        share = np.divide(distance, scale, out=np.zeros_like(distance), where=scale > 0)
        same &= other <= np.maximum(_STEEPEST * share * other.max(axis=1, keepdims=True), _ROUNDING)
    pairs = np.repeat(np.arange(n_rows), same.sum(axis=1)), near[same]
    graph = coo_array((np.ones(len(pairs[0])), pairs), shape=(n_rows, n_rows))
    label = connected_components(graph, directed=False)[1]
    if label.max() + 1 == n_rows:
        return number
    lowest = np.full(label.max() + 1, n_rows)
    np.minimum.at(lowest, label, np.arange(n_rows))
    return np.asarray(np.unique(lowest[label][number], return_inverse=True)[1])


def _shortened(rows: FloatArray) -> FloatArray:
    """Rows (n, m), or random sums of them, which are as near to each other, where they are long."""
    if rows.shape[1] <= _PER_SAMPLE:
        return rows
    return rows @ (np.random.default_rng(0).standard_normal((rows.shape[1], _PER_SAMPLE)) / np.sqrt(rows.shape[1]))


def _target_parts(targets: Targets) -> list[Any]:
    """Arrays or lists of what differs between targets."""
    return [*([] if targets.scalars is None else [targets.scalars]), *_parts_of(targets.field)]


def without_copies(
    data: TrainingData, weight: FloatArray | None, groups: IntArray | None
) -> tuple[TrainingData, FloatArray | None, IntArray | None]:
    """Samples without those that are the same in inputs, targets and group, whose weights are added to the first one.

    Leaving out a sample of which a copy stays would show no error, nor would leaving out a group: groups of the same
    samples are one. Samples that are nearly the same stay, since they tell slopes, and are a group; but over one
    parameter, where groups exclude some models, and with groups of the caller, they are copies too. Samples that are
    all the same stay.
    """
    parts = [*_target_parts(data.targets), *_parts_of(data.inputs)]
    same = np.asarray(np.unique(_digests(parts, len(data.inputs)), return_inverse=True)[1])
    has_slopes = groups is None and _has_slopes(data.inputs)
    number, near = _same_and_near(same, data, has_slopes)
    groups = groups if near is None else near
    if number.max() + 1 == len(number):
        return data, weight, groups
    if number.max() == 0:
        return data, None, groups
    if groups is not None:
        groups = groups if has_slopes else _joined(groups, number)
        number = np.unique(np.stack([number, groups]), axis=1, return_inverse=True)[1]
    first = np.unique(number, return_index=True)[1]
    is_first = np.isin(np.arange(len(number)), first)
    sums = np.bincount(number, weight)[number[is_first]].astype(np.float64)
    return samples_with_weight(data, is_first), sums, None if groups is None else groups[is_first]


def _has_slopes(inputs: FieldSet) -> bool:
    """Whether samples that are nearly the same tell slopes; over one parameter groups exclude some models."""
    return inputs.n_channels > 0 or inputs.n_params > 1


def _same_and_near(number: IntArray, data: TrainingData, has_slopes: bool) -> tuple[IntArray, IntArray | None]:
    """Numbers (n,) of samples that count as one, and of groups that are nearly the same, or None without any."""
    number = _joined_where_near(number, data.inputs, data.targets, _SAME if has_slopes else _NEAR)
    if not has_slopes or number.max() == 0:
        return number, None
    near = _joined_where_near(number, data.inputs, data.targets)
    return number, near if 0 < near.max() < number.max() else None


def _joined(groups: IntArray, number: IntArray) -> IntArray:
    """Numbers of groups (n,), of which those with the same samples are one."""
    held = [np.unique(number[groups == group]).tobytes() for group in range(groups.max() + 1)]
    names, found = np.unique(np.array(held, dtype=object), return_inverse=True)
    if len(names) < 2:
        raise FieldDataError(
            f"all {len(held)} groups hold the same or nearly the same samples, and 2 that differ are needed; pass "
            "groups=None."
        )
    return np.asarray(found)[groups]


def relative(weight: FloatArray | None) -> FloatArray | None:
    """Weights over their mean; None where all are equal."""
    if weight is None or np.ptp(weight) == 0:
        return None
    return np.maximum(weight / weight.mean(), _NO_WEIGHT)


def linked(numbers: IntArray, others: IntArray) -> IntArray:
    """Number samples (n,) so that those with a number of either kind in common have the same one.

    Both are numbers from 0 on, without gaps; the result is in the order of the first ones.
    """
    count = numbers.max() + 1
    edges = coo_array((np.ones(len(numbers)), (numbers, count + others)), shape=(count + others.max() + 1,) * 2)
    return np.asarray(connected_components(edges, directed=False)[1][numbers])


def groups_on_same_points(inputs: FieldSet, groups: IntArray | None) -> IntArray | None:
    """Number the groups of samples that have their points, or a group, in common.

    Samples on the points of others tell of these points, and nothing of new ones.

    Parameters
    ----------
    inputs : FieldSet
        n samples.
    groups : ndarray of int, shape (n,), or None
        Groups that are known.

    Returns
    -------
    ndarray of int, shape (n,), or None
        Numbers; None where all samples share their points, or these join no groups, or all of them.
    """
    if inputs.shared_coords:
        return None
    own = np.arange(len(inputs)) if groups is None else np.unique(groups, return_inverse=True)[1]
    found = linked(own, groups_of_same_inputs(FieldSet(inputs.coords_list())))
    return found if 0 < found.max() < own.max() else None


def merged(
    data: TrainingData, weight: FloatArray | None = None, *, has_runs: bool = False
) -> tuple[TrainingData, IntArray, FloatArray | None, IntArray | None]:
    """Merge samples with the same inputs into one, with the mean of their targets.

    Parameters
    ----------
    data : TrainingData
        n samples with the same number of points.
    weight : ndarray of shape (n,) or None, default=None
        Weights of the samples; None if all are equal.
    has_runs : bool, default=False
        Whether samples belong to runs or groups; nearly equal ones are then the same.

    Returns
    -------
    data : TrainingData
        Samples of different inputs; all that came, where either all or none have the same inputs.
    group : ndarray of int, shape (n,)
        Number of the merged sample of each one.
    weight : ndarray of shape (n,) or None
        Sums of the weights of the merged samples, or their numbers.
    near : ndarray of int, or None
        Group of each merged sample, where some are nearly the same.
    """
    group, near = _same_and_near(groups_of_same_inputs(data.inputs), data, not has_runs and _has_slopes(data.inputs))
    # Where no input differs, each sample is predicted by the mean of the others.
    if group.max() + 1 in (1, len(group)):
        return data, np.arange(len(group)), weight, near
    first = np.unique(group, return_index=True)[1]
    targets, fields, scalars = data.targets[first], data.targets.field, data.targets.scalars
    field = None
    if fields is not None and targets.field is not None:
        field = targets.field.with_values(_means(fields.values, group, weight))
    means = Targets(field, None if scalars is None else _means(scalars, group, weight), targets.elsewhere)
    sums = np.asarray(np.bincount(group, weight), dtype=np.float64)
    return TrainingData(data.inputs[first], means, data.spec), group, sums, None if near is None else near[first]


def _means(values: Any, group: IntArray, weight: FloatArray | None) -> FloatArray:
    """Means of the rows of each group."""
    counts, rows = np.bincount(group, weight), np.asarray(values, dtype=np.float64)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, group, rows if weight is None else weight.reshape(-1, *[1] * (sums.ndim - 1)) * rows)
    return sums / counts.reshape(-1, *[1] * (sums.ndim - 1))
