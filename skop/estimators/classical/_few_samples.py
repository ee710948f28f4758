"""The error that is told of few samples: the least of many is small by chance, and few large values decide about it.

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
from skop.estimators.classical._components import FEW, MATTERS, OF_USE, PARTS, ROUNDING, TINY, between_ends
from skop.estimators.classical._copies import groups_of_same_inputs, relative
from skop.estimators.classical._kernel_models import in_order
from skop.estimators.classical._target_rows import TargetRows
from skop.exceptions import FieldDataError, held_warnings, warn

if TYPE_CHECKING:
    from skop.estimators.classical._pod import PODRegressor

__all__ = ["tell_error_of_few"]

#: Most samples, or groups and rows of these, for which the choice is repeated: a fit takes two to four times as long.
_MOST, _MOST_GROUPS, _MOST_ROWS = 48, 24, 256
#: The error of a scalar misleads if its squares are as uneven as those of fewer equal samples, and if it is below this
#: part of the errors of the logarithms of all, which are above the last number.
_LARGE, _OF_LOGARITHMS, _SMALL = 3.0, 0.5, 0.01


def tell_error_of_few(
    model: PODRegressor,
    data: TrainingData,
    groups: IntArray | None,
    weight: FloatArray | None,
    last_frame: Any = None,
) -> None:
    """Tell of few samples, or groups, the error of the whole choice repeated without some, if it is the larger one.

    A warning names the scalars whose error is that of a few large values, where it is larger relative to each value.

    Parameters
    ----------
    model : PODRegressor
        Fitted model, whose told errors and standard deviations grow.
    data, groups, weight, last_frame : as in the fit
        The n samples.
    """
    factor = _factor_of_choices(model, data, groups, weight, last_frame)
    if factor > 1:
        # Errors are relative, so that less is rounding.
        told = model.leave_one_out_error_
        error = factor * max(told, ROUNDING)
        errors = model.leave_one_out_errors_
        model.leave_one_out_error_ = error
        model.leave_one_out_errors_ = {name: error if held == told else held for name, held in errors.items()}
        for part in model.models_:
            kernels = [replace(kernel, handicap=factor * kernel.handicap) for kernel in part.regressor.kernels]
            part.regressor = replace(part.regressor, kernels=kernels)
    _warn_of_few_large(model, data, groups, weight, factor)


def _factor_of_choices(
    model: PODRegressor,
    data: TrainingData,
    groups: IntArray | None,
    weight: FloatArray | None,
    last_frame: Any,
) -> float:
    """Factor by which the error of the whole choice is larger than the leave-one-out error; 1 where it is not.

    Of very few samples each is left out. The search for length scales, which takes most of the time, is then not
    repeated: its factor judges it. Of more, where it is what finds a law, it is repeated without each of some parts, if
    the error that is told matters and the model is of use. Which outputs have models of their own, and which logarithms
    are taken, is then kept, since more samples rarely choose these by chance.
    """
    labels = groups_of_same_inputs(data.inputs) if groups is None else groups
    is_known = model._tells_error and isinstance(model.regressor, str) and model.spec_.resampler is None
    most = _MOST if groups is None else _MOST_GROUPS
    if not is_known or not 2 <= labels.max() < most or len(labels) > _MOST_ROWS:
        return 1.0
    told = model.leave_one_out_error_
    searches = labels.max() >= FEW
    if searches:
        if not MATTERS < told / max(model.leave_one_out_errors_["mean"], TINY) < OF_USE:
            return 1.0
        labels = np.argsort(in_order(model._points_of(data.inputs)[0], labels))[labels] % PARTS
    weight = relative(weight)
    try:
        with held_warnings():
            found = _predicted_by_others(model, data, labels, groups, weight, last_frame, searches=searches)
    except FieldDataError:
        return 1.0  # what was asked for needs all samples
    error = _error_of_choices(model, data, labels, groups, weight, found)
    return error / max(told, ROUNDING) if told < error < np.inf else 1.0


def _warn_of_few_large(
    model: PODRegressor, data: TrainingData, groups: IntArray | None, weight: FloatArray | None, factor: float
) -> None:
    """Warn of scalars whose error is that of a few large values, where it is larger relative to each value."""
    n_samples = len(data.targets) if groups is None else groups.max() + 1
    if data.targets.scalars is None or n_samples < FEW or not isinstance(model.regressor, str):
        return
    true = np.asarray(data.targets.scalars, dtype=np.float64)
    squares = np.square(true / np.maximum(np.abs(true).max(axis=0), TINY))
    if groups is not None:
        squares = np.stack([np.bincount(groups, column) for column in squares.T], axis=1)
    # The number of equal samples whose mean is as uncertain (Kish, Survey Sampling, 1965, section 11.7).
    counts = squares.sum(axis=0) ** 2 / np.maximum(np.square(squares).sum(axis=0), TINY)
    places = np.flatnonzero((counts < _LARGE) & (true.min(axis=0) > 0))
    if not len(places):
        return
    found = model._leave_one_out(data, weight, groups).scalars
    assert found is not None
    names = model.spec_.target_form.scalar_names
    for place in places:
        own, y = found[:, place], true[:, place]
        told = factor * np.linalg.norm(own - y) / np.linalg.norm(y)
        # Nothing is predicted below the least value: of what is not positive no error is known.
        each = np.sqrt(np.mean(np.log(np.maximum(own, y.min()) / y) ** 2))
        if each < max(_SMALL, told / _OF_LOGARITHMS):
            continue
        warn(
            f"the values of {names[place] if names else f'scalar {place}'} are {y.min():.2g} to {y.max():.2g}, and its "
            f"leave-one-out error, {told:.2g}, is that of the largest, of about {counts[place]:.0f} of {n_samples} "
            f"samples. Relative to each value errors are {each:.2g} (root mean square of logarithms), as those of new "
            "large values can be. Add samples of large values, or judge errors of np.log(y)."
        )


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
