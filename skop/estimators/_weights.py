"""Weights of the samples of a fit, and their groups.

Notation: n samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from skop._sklearn_compat import check_sample_weight, last_step
from skop._typing import FloatArray, IntArray
from skop.data import TrainingData, refuse_containers, refuse_mask
from skop.exceptions import FieldDataError

__all__ = [
    "check_weight",
    "counts_as_weight",
    "groups_option",
    "labels_of_groups",
    "samples_with_weight",
    "takes_groups",
    "used_samples",
    "weight_option",
]

#: Allowed range of the largest sample weight.
_WEIGHTS = (1e-15, 1e15)


def check_weight(sample_weight: Any, n_samples: int) -> FloatArray | None:
    """Sample weights as an array, checked by scikit-learn's rules."""
    if sample_weight is None:
        return None
    refuse_containers(sample_weight, "sample_weight")
    refuse_mask(sample_weight, "sample_weight")
    weight = check_sample_weight(sample_weight, np.empty((n_samples, 1)), dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise FieldDataError("all sample weights are zero; at least one sample needs a positive weight.")
    least, most = _WEIGHTS
    if not least <= weight.max() <= most:
        raise FieldDataError(
            f"the largest sample weight is {weight.max():.1e}, which single precision cannot hold beside a loss; "
            f"expected {least:g} to {most:g}. Divide the weights by their mean."
        )
    return weight


def weight_option(estimator: Any, weight: FloatArray | None) -> dict[str, Any]:
    """Return the argument of a fit that weights are, if there are any; refuse them if the fit takes none."""
    if weight is None:
        return {}
    if not has_fit_parameter(estimator, "sample_weight"):
        raise FieldDataError(
            f"sample_weight was given, but the fit of {type(estimator).__name__} takes none; leave it out, or use an "
            "estimator whose fit takes it."
        )
    return {"sample_weight": weight}


def groups_option(estimator: Any, groups: Any) -> dict[str, Any]:
    """Return the argument of a fit that labels of groups are, if there are any; refuse them if the fit takes none."""
    if groups is None:
        return {}
    if not takes_groups(estimator):
        raise FieldDataError(
            f"groups was given, but the fit of {type(_reader_of_groups(estimator)).__name__} takes none; leave it "
            "out, or use an estimator whose fit takes it."
        )
    return {"groups": groups}


def takes_groups(estimator: Any) -> bool:
    """Whether the fit of an estimator, or of the last step of a Pipeline, takes labels of groups."""
    return has_fit_parameter(_reader_of_groups(estimator), "groups")


def _reader_of_groups(estimator: Any) -> Any:
    """Return the part of an estimator that has a use of groups, if any has."""
    last = last_step(estimator)
    return _reader_of_groups(last.estimator) if getattr(last, "_only_passes_on", False) else last


def counts_as_weight(estimator: Any, weight: FloatArray | None, counts: FloatArray | None) -> FloatArray | None:
    """Numbers of copies as weights; none if none were given, and the regressor of the estimator takes none."""
    while not hasattr(estimator, "regressor") and hasattr(estimator, "estimator"):
        estimator = estimator.estimator
    regressor = getattr(estimator, "regressor", estimator)
    takes_weights = isinstance(regressor, str) or has_fit_parameter(regressor, "sample_weight")
    return counts if takes_weights or weight is not None else None


def samples_with_weight(data: TrainingData, sample_weight: Any) -> TrainingData:
    """Return the samples of a fit whose weight is not zero, by their own names; all if the weights are no weights."""
    kept = np.flatnonzero(np.ones(len(data.inputs)) if sample_weight is None else np.asarray(sample_weight))
    if len(kept) in (0, len(data.inputs)) or np.shape(sample_weight) != (len(data.inputs),):
        return data
    names = data.called
    return replace(
        data,
        inputs=data.inputs[kept],
        targets=data.targets[kept],
        input_extremes=None if data.input_extremes is None else data.input_extremes[kept],
        target_extremes=None if data.target_extremes is None else data.target_extremes[kept],
        names=tuple(names[number] for number in kept),
    )


def used_samples(
    data: TrainingData, sample_weight: Any, groups: Any = None
) -> tuple[TrainingData, FloatArray | None, Any, IntArray]:
    """Samples of a fit with positive weight, their weights and labels of groups, and their rows."""
    weight, labels = check_weight(sample_weight, len(data.inputs)), labels_of_groups(groups, len(data.inputs))
    if weight is None:
        return data, None, labels, np.arange(len(data.inputs))
    used = np.flatnonzero(weight)
    return samples_with_weight(data, weight), weight[used], None if labels is None else labels[used], used


def labels_of_groups(groups: Any, n_samples: int) -> Any:
    """Numbers (n,) of groups in the order of their labels, which are neither masked nor missing; None without any."""
    if groups is None:
        return None
    refuse_mask(groups, "groups")
    labels = np.asarray(groups)
    if labels.dtype.kind == "U" and isinstance(groups, list | tuple):
        # NumPy makes texts of numbers among texts, and of NaN.
        labels = np.array([*groups, None], dtype=object)[:-1]
    if labels.shape != (n_samples,):
        raise FieldDataError(f"groups has shape {labels.shape}, expected ({n_samples},): one label for each sample.")
    try:
        # NaN and NaT differ from themselves.
        numbers, is_whole = np.unique(labels, return_inverse=True)[1], bool(np.all(labels == labels))
    except TypeError:
        is_whole = False
    if not is_whole:
        raise FieldDataError(
            "groups has missing labels, such as None or NaN, or both texts and numbers; give each sample a label of "
            "one kind."
        )
    return numbers
