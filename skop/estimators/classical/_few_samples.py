"""The error that is told of few samples, where the least of many leave-one-out errors is small by chance.

Notation: n samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skop._typing import FloatArray, IntArray
from skop.data import Predictions, TrainingData
from skop.estimators._weights import samples_with_weight
from skop.estimators.classical._components import FEW, MATTERS, OF_USE, PARTS, between_ends
from skop.estimators.classical._copies import groups_of_same_inputs, relative
from skop.estimators.classical._kernel_models import ROUNDING, TINY, in_order
from skop.estimators.classical._target_rows import TargetRows
from skop.exceptions import FieldDataError, held_warnings

if TYPE_CHECKING:
    from skop.estimators.classical._pod import PODRegressor

__all__ = ["tell_error_of_few"]

#: Most samples, or groups and rows of these, for which the choice is repeated: a fit takes two to four times as long.
_MOST, _MOST_GROUPS, _MOST_ROWS = 48, 24, 256


def tell_error_of_few(
    model: PODRegressor,
    data: TrainingData,
    groups: IntArray | None,
    weight: FloatArray | None,
    last_frame: Any = None,
) -> None:
    """Tell of few samples, or groups, the error of the whole choice repeated without some, if it is the larger one.

    Of very few each is left out. The search for length scales, which takes most of the time, is then not repeated: its
    factor judges it. Of more, where it is what finds a law, it is repeated without each of some parts, if the error
    that is told matters and the model is of use. Which outputs have models of their own, and which logarithms are
    taken, is then kept, since more samples rarely choose these by chance.

    Parameters
    ----------
    model : PODRegressor
        Fitted model, whose told errors and standard deviations grow.
    data, groups, weight, last_frame : as in the fit
        The n samples.
    """
    labels = groups_of_same_inputs(data.inputs) if groups is None else groups
    is_known = model._tells_error and isinstance(model.regressor, str) and model.spec_.resampler is None
    most = _MOST if groups is None else _MOST_GROUPS
    if not is_known or not 2 <= labels.max() < most or len(labels) > _MOST_ROWS:
        return
    told, errors = model.leave_one_out_error_, model.leave_one_out_errors_
    searches = labels.max() >= FEW
    if searches:
        if not MATTERS < told / max(errors["mean"], TINY) < OF_USE:
            return
        labels = np.argsort(in_order(model._points_of(data.inputs)[0], labels))[labels] % PARTS
    weight = relative(weight)
    try:
        with held_warnings():
            found = _predicted_by_others(model, data, labels, groups, weight, last_frame, searches=searches)
    except FieldDataError:
        return  # what was asked for needs all samples
    error = _error_of_choices(model, data, labels, groups, weight, found)
    if not told < error < np.inf:
        return
    # Errors are relative, so that less is rounding.
    factor = error / max(told, ROUNDING)
    model.leave_one_out_error_ = error
    model.leave_one_out_errors_ = {name: error if held == told else held for name, held in errors.items()}
    for part in model.models_:
        kernels = [replace(kernel, handicap=factor * kernel.handicap) for kernel in part.regressor.kernels]
        part.regressor = replace(part.regressor, kernels=kernels)


def _predicted_by_others(
    model: PODRegressor,
    data: TrainingData,
    labels: IntArray,
    groups: IntArray | None,
    weight: FloatArray | None,
    last_frame: Any,
    *,
    searches: bool,
) -> Predictions:
    """Predictions of samples, each by a model that was chosen and fitted without those of its label."""
    parts = []
    for number in range(labels.max() + 1):
        kept, again = labels != number, clone(model)
        again._tunes_scales, again._like = searches, model.models_ if searches else None
        own = None if groups is None else np.unique(groups[kept], return_inverse=True)[1]
        rows = None if weight is None else weight[kept]
        again._fit(samples_with_weight(data, kept), own, weight=rows, last_frame=last_frame)
        parts.append(again._predict_values(data.inputs[np.flatnonzero(~kept)]))
    order = np.argsort(np.argsort(labels, kind="stable"))
    columns = [[getattr(part, name) for part in parts] for name in ("fields", "scalars")]
    return Predictions(*(None if held[0] is None else np.concatenate(held)[order] for held in columns))


def _error_of_choices(
    model: PODRegressor,
    data: TrainingData,
    labels: IntArray,
    groups: IntArray | None,
    weight: FloatArray | None,
    found: Predictions,
) -> float:
    """Error of the choice, times the mean factor by which such predictions have larger errors; at most their error.

    The mean over labels is geometric, since a model that others choose can predict a single sample wildly.
    """
    rows, alone = TargetRows(data.targets, weight, groups), model._leave_one_out(data, weight, groups)
    inside = np.ones(len(labels), bool) if groups is not None else between_ends(model._points_of(data.inputs)[0])
    parts = [inside & (labels == number) for number in np.unique(labels[inside])]
    pairs = [[rows.error_of(data.targets, each, part) for each in (alone, found)] for part in parts]
    factor = float(np.exp(np.diff(np.log(np.maximum(pairs, TINY))).mean()))
    return min(factor * rows.error_of(data.targets, alone, inside), rows.error_of(data.targets, found, inside))
