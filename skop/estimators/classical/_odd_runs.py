"""Samples that fit none of the others, such as runs that have not converged, which spoil a classical model.

Notation: n samples, g groups, r components, p global parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from skop._typing import FloatArray, IntArray
from skop.data import TrainingData
from skop.estimators._reading import is_named_by_caller
from skop.estimators._weights import samples_with_weight
from skop.estimators.classical._components import TINY
from skop.estimators.classical._kernel_models import KernelModel
from skop.estimators.classical._model_search import Units
from skop.estimators.classical._output_models import OutputModel
from skop.exceptions import FieldDataError, held_warnings, warn

__all__ = ["warn_of_an_odd_run"]

#: A sample, or group, is left out on trial if it has this part of the squared leave-one-out errors, ...
_MOST = 0.6
#: ... and lies no farther outside of the ranges of the others than this part of these, and is named if the
#: leave-one-out error without it is below this part.
_BEYOND, _SPOILT = 0.1, 0.2
#: Fewest samples, or groups, and the relative error up to which errors are rounding.
_FEWEST, _ROUNDING = 12, 1e-6


def warn_of_an_odd_run(
    model: Any,
    data: TrainingData,
    groups: IntArray | None,
    weight: FloatArray | None,
    units: Units | None = None,
    last_frame: Any = None,
) -> None:
    """Warn of a sample, or group, without which the leave-one-out error is far smaller.

    Parameters
    ----------
    model : PODRegressor
        Fitted model.
    data, groups, weight, units, last_frame : as in its `_fit`
        The n samples.
    """
    if not isinstance(model.regressor, str) or is_named_by_caller():
        return
    models, error = model.models_, model.leave_one_out_error_
    labels = np.arange(len(data.inputs)) if groups is None else groups
    found = _odd_group(models, labels) if error > _ROUNDING else None
    if found is None:
        return
    kept = labels != found
    part = samples_with_weight(data, kept)
    numbers = None if groups is None else np.unique(groups[kept], return_inverse=True)[1]
    try:
        with held_warnings():
            again = clone(model)
            own = None if weight is None else weight[kept]
            again._fit(part, numbers, units, own, last_frame=last_frame)
            other = again.leave_one_out_error_
    except FieldDataError:
        return  # what was asked for needs all samples
    if not other < _SPOILT * error:
        return
    rows = np.flatnonzero(~kept)
    # The frames of a run, and the images of a sample, have one name.
    called, *others = dict.fromkeys(data.called[row] for row in rows)
    # A cross-validation passes the samples of a fold, which have no other numbers here.
    called += " of the samples given to fit" * bool(re.fullmatch(r"sample \d+", called))
    if others:
        called = f"the group of {called}, with {len(others) + 1} samples,"
    warn(
        f"{called} fits none of the others: without it the leave-one-out error is {other:.2g} in place of "
        f"{error:.2g}. Look at this run, and leave it out if its solver has not converged. It may be right, as the "
        "only one on a peak or beyond a step: then add samples around it."
    )


def _odd_group(models: Sequence[OutputModel], labels: IntArray) -> int | None:
    """Number of the group, among labels (n,), with most of the leave-one-out errors of a model; None without one."""
    count = labels.max() + 1
    if count < _FEWEST:
        return None
    for model in models:
        regressor = model.regressor
        if not isinstance(regressor, KernelModel):
            return None
        squares = regressor.left_out**2
        # An output that is learned exactly has errors by rounding, of which some sample has most.
        if squares.sum() <= _ROUNDING**2 * np.square(regressor.predict(regressor.points)).sum():
            continue
        found = _most(squares.sum(axis=1), labels)
        if found is None or _is_beyond(regressor.points[:, : len(model.shift)], labels == found):
            continue
        # A sample that is far from all others is expected to have a large error.
        variances = np.maximum(regressor.left_out_variances(), TINY)
        if _most((squares * (variances.mean(axis=0) / variances)).sum(axis=1), labels) == found:
            return found
    return None


def _most(squares: FloatArray, labels: IntArray) -> int | None:
    """The group that has the most of squares (n,), if that is as much as counts."""
    sums = np.bincount(labels, squares)
    return int(sums.argmax()) if sums.max() > max(_MOST * sums.sum(), TINY) else None


def _is_beyond(params: FloatArray, out: Any) -> bool:
    """Whether some samples lie far outside of the ranges of the parameters (n, p) of the others."""
    own, others = params[out], params[~out]
    low, high = others.min(axis=0), others.max(axis=0)
    slack = _BEYOND * (high - low)
    return bool(((own < low - slack) | (own > high + slack)).any())
