"""Samples that are the same, which one sample with their weights together stands for.

Notation: n samples.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, Targets, TrainingData, piece_length
from skop.estimators._weights import samples_with_weight
from skop.exceptions import FieldDataError

__all__ = ["groups_of_repeats", "groups_of_same_inputs", "merged", "relative", "without_copies"]

#: Smaller parts of the mean weight count as this one, which is rounding in all sums; rows are divided by its root.
_NO_WEIGHT = 1e-14


def groups_of_same_inputs(inputs: FieldSet) -> IntArray:
    """Number samples (n,) so that those with the same inputs have the same number, in an order as good as random."""
    # Fields in files may be more than the memory holds.
    step = piece_length(inputs, max(inputs.n_channels, inputs.n_dims))
    pieces = (inputs[start : start + step] for start in range(0, len(inputs), step))
    digests = [_digests(_parts_of(piece), len(piece)) for piece in pieces]
    return np.asarray(np.unique(np.concatenate(digests), return_inverse=True)[1])


def groups_of_repeats(inputs: FieldSet) -> IntArray | None:
    """Number samples so, or None where no inputs come twice, or all are the same: one tells the truth of the other."""
    numbers = groups_of_same_inputs(inputs)
    return numbers if 0 < numbers.max() < len(numbers) - 1 else None


def _parts_of(samples: FieldSet | None) -> list[Any]:
    """Arrays or lists of what differs between samples."""
    if samples is None:
        return []
    parts: list[Any] = [] if samples.shared_coords else [samples.coords_list()]
    parts += [] if samples.values is None else [samples.to_list() if samples.is_ragged else np.asarray(samples.values)]
    return parts if samples.params is None else [*parts, np.asarray(samples.params)]


def _numbers_of_same(parts: list[Any], n_samples: int) -> IntArray:
    """Number samples by their parts, in an order that is as good as random."""
    return np.asarray(np.unique(_digests(parts, n_samples), return_inverse=True)[1])


def _digests(parts: list[Any], n_samples: int) -> IntArray:
    """Checksums (n,) of the parts of samples."""
    # A negative zero is a zero.
    rows = (b"".join((np.array(part[i], np.float64) + 0.0).tobytes() for part in parts) for i in range(n_samples))
    return np.frombuffer(b"".join(hashlib.sha256(row).digest()[:8] for row in rows), dtype="<u8")


def without_copies(
    data: TrainingData, weight: FloatArray | None, groups: IntArray | None
) -> tuple[TrainingData, FloatArray | None, IntArray | None]:
    """Samples without those that are the same in inputs, targets and group, whose weights are added to the first one.

    Leaving out a sample of which a copy stays would show no error, nor would leaving out a group: groups of the same
    samples are one. Samples that are all the same stay.
    """
    parts: list[Any] = [] if data.targets.scalars is None else [data.targets.scalars]
    for part in (data.targets.field, data.inputs):
        parts += _parts_of(part)
        number = _numbers_of_same(parts, len(data.inputs))
        # Inputs are not looked at where targets tell all samples apart.
        if number.max() + 1 == len(number):
            return data, weight, groups
    if number.max() == 0:
        return data, None, groups
    if groups is not None:
        groups = _joined(groups, number)
        number = np.unique(np.stack([number, groups]), axis=1, return_inverse=True)[1]
    first = np.unique(number, return_index=True)[1]
    is_first = np.isin(np.arange(len(number)), first)
    sums = np.bincount(number, weight)[number[is_first]].astype(np.float64)
    return samples_with_weight(data, is_first), sums, None if groups is None else groups[is_first]


def _joined(groups: IntArray, number: IntArray) -> IntArray:
    """Numbers of groups (n,), of which those with the same samples are one."""
    held = [np.unique(number[groups == group]).tobytes() for group in range(groups.max() + 1)]
    names, found = np.unique(np.array(held, dtype=object), return_inverse=True)
    if len(names) < 2:
        raise FieldDataError(
            f"all {len(held)} groups hold the same samples, and 2 that differ are needed to leave one out; pass "
            "groups=None."
        )
    return np.asarray(found)[groups]


def relative(weight: FloatArray | None) -> FloatArray | None:
    """Weights over their mean; None where all are equal."""
    if weight is None or np.ptp(weight) == 0:
        return None
    return np.maximum(weight / weight.mean(), _NO_WEIGHT)


def merged(data: TrainingData, weight: FloatArray | None = None) -> tuple[TrainingData, IntArray, FloatArray | None]:
    """Merge samples with the same inputs into one, with the mean of their targets.

    Parameters
    ----------
    data : TrainingData
        n samples with the same number of points.
    weight : ndarray of shape (n,) or None, default=None
        Weights of the samples; None if all are equal.

    Returns
    -------
    data : TrainingData
        Samples of different inputs; all that came, where either all or none have the same inputs.
    group : ndarray of int, shape (n,)
        Number of the merged sample of each one.
    weight : ndarray of shape (n,) or None
        Sums of the weights of the merged samples, or their numbers.
    """
    group = groups_of_same_inputs(data.inputs)
    # Where no input differs, each sample is predicted by the mean of the others.
    if group.max() + 1 in (1, len(group)):
        return data, np.arange(len(group)), weight
    first = np.unique(group, return_index=True)[1]
    targets, fields, scalars = data.targets[first], data.targets.field, data.targets.scalars
    field = None
    if fields is not None and targets.field is not None:
        field = targets.field.with_values(_means(fields.values, group, weight))
    means = Targets(field, None if scalars is None else _means(scalars, group, weight), targets.elsewhere)
    sums = np.asarray(np.bincount(group, weight), dtype=np.float64)
    return TrainingData(data.inputs[first], means, data.spec), group, sums


def _means(values: Any, group: IntArray, weight: FloatArray | None) -> FloatArray:
    """Means of the rows of each group."""
    counts, rows = np.bincount(group, weight), np.asarray(values, dtype=np.float64)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, group, rows if weight is None else weight.reshape(-1, *[1] * (sums.ndim - 1)) * rows)
    return sums / counts.reshape(-1, *[1] * (sums.ndim - 1))
