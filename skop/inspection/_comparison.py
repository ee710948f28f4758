"""Comparison of models on the same samples, with classical ones that take seconds.

Notation: n samples, P points of a sample, T points of all samples together, c channels.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.multioutput import MultiOutputRegressor

from skop._typing import FloatArray
from skop.data import FieldSet, TrainingData, read
from skop.estimators._field import fit_one_of_several
from skop.estimators._weights import takes_groups
from skop.estimators._wrapper import fit_estimator, frame_size
from skop.estimators.selection._auto import classical_candidates
from skop.exceptions import FieldDataError, SkopError
from skop.inspection._evaluation import Evaluation, evaluate, in_frames

__all__ = ["ModelResult", "compare_models"]

#: Largest number of numbers of which components are computed.
_MOST_NUMBERS = 5 * 10**7
#: Largest number of points on which a model is fitted point by point.
_MOST_POINTS = 10**5


@dataclass(frozen=True)
class ModelResult:
    """Error and cost of one model of a comparison.

    Attributes
    ----------
    name : str
        Name of the model.
    evaluation : Evaluation or None
        Errors on the test samples; None where the model cannot be used.
    fit_seconds : float
        Duration of the fit.
    note : str, default=""
        Reason why the model cannot be used.
    model : estimator or None, default=None
        The fitted model.
    """

    name: str
    evaluation: Evaluation | None
    fit_seconds: float
    note: str = ""
    model: Any = None

    @property
    def error(self) -> float:
        """Mean relative L2 error; NaN where the model cannot be used."""
        return np.nan if self.evaluation is None else self.evaluation.mean_error

    @property
    def predict_seconds(self) -> float:
        """Mean duration of the prediction of a sample."""
        return np.nan if self.evaluation is None else self.evaluation.seconds / len(self.evaluation)


def compare_models(
    models: Mapping[str, Any],
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    *,
    classical: bool = True,
    names: Sequence[str] | None = None,
    groups: Any = None,
) -> list[ModelResult]:
    """Fit models on the same samples and evaluate them on others.

    Take it to see fully trained models on test samples, with an error for each sample; take `skop.leaderboard` to
    choose a kind of model by cross-validation within one time budget, without a test set.

    An interrupt (Ctrl-C) ends the comparison and keeps the results so far.

    Parameters
    ----------
    models : mapping of str to estimator
        Models by name, which are fitted.
    train, test : tuple of (X, y)
        Samples to train on and to test on.
    classical : bool, default=True
        Whether classical models are compared too: the mean, and `PODRegressor` where y is on the points of X. Where
        samples differ in their number of points, or y is on others, the mean value and gradient boosting of the value
        at a point from its coordinates, input fields and parameters.
    names : sequence of str or None, default=None
        Names of the test samples.
    groups : array-like of shape (n,) or None, default=None
        Labels of groups of the samples to train on, for models whose `fit`, or that of the last step of a
        Pipeline, takes them.

    Returns
    -------
    list of ModelResult
        Results in the order of the models, after the classical ones. The note of a model that has no errors begins with
        ``"failed"``, or, after an interrupt, with ``"interrupted"`` or ``"not fitted"``.

    Raises
    ------
    FieldDataError
        If the samples cannot be read, or none of the models that were passed takes them; other errors of SkopError
        and ValueError likewise.
    ValueError
        If `models` is no mapping to estimators, before anything is fitted.

    See Also
    --------
    skop.leaderboard : The table of a cross-validation within one time budget.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection import compare_models
    >>> X = np.random.default_rng(0).random((20, 6, 6, 1))
    >>> [result.name for result in compare_models({}, (X[:15], X[:15]), (X[15:], X[15:]))]
    ['mean', 'POD']
    """
    if not isinstance(models, Mapping) or not all(hasattr(model, "fit") for model in models.values()):
        raise ValueError(f"models is {models!r}; expected a mapping of names to estimators, such as a dict.")
    tasks: list[tuple[str, Any, tuple[Any, Any], tuple[Any, Any], bool]] = []
    if classical:
        data, tested = read(*train), read(*test)
        pairs = (data.inputs, _plain_targets(data)), (tested.inputs, _plain_targets(tested))
        for name, model in _classical_models(data).items():
            # A model to compare can have the name of a classical one, such as a POD by other settings.
            tasks.append((f"{name}, by default" if name in models else name, model, *pairs, True))
    tasks += [(name, model, train, test, False) for name, model in models.items()]
    results: list[ModelResult] = []
    first_error: Exception | None = None
    start = time.perf_counter()
    try:
        for name, model, fitted, tested_on, may_fail in tasks:
            start = time.perf_counter()
            if isinstance(model, str):
                results.append(ModelResult(name, None, 0.0, model))
                continue
            try:
                options = {} if groups is None or not takes_groups(model) else {"groups": groups}
                results.append(_fit_and_evaluate(name, model, fitted, tested_on, names, options, may_fail=may_fail))
            except (SkopError, ValueError) as error:
                # The minutes that other models took must not be lost.
                first_error = first_error or error
                results.append(ModelResult(name, None, 0.0, f"failed: {error}"))
    except KeyboardInterrupt:
        cut, *others = [name for name, *_ in tasks[len(results) :]]
        note = f"interrupted after {time.perf_counter() - start:.0f} s"
        results.append(ModelResult(cut, None, 0.0, note))
        results += [ModelResult(name, None, 0.0, "not fitted, since the comparison was interrupted") for name in others]
    # Frames in time of one field share its unit for all models, if one predicts frames.
    sizes = [size for result in results if (size := frame_size(result.model)) is not None]
    if sizes:
        results = [
            result if result.evaluation is None else replace(result, evaluation=in_frames(result.evaluation, sizes[0]))
            for result in results
        ]
    if first_error is not None and all(result.note.startswith("failed") for result in results[-len(models) :]):
        raise first_error
    return results


def _plain_targets(data: TrainingData) -> Any:
    """Targets as a FieldSet with scalars or without, or as an array of scalars."""
    field, scalars = data.targets.field, data.targets.scalars
    return scalars if field is None else field.with_params(scalars)


def _fit_and_evaluate(
    name: str,
    model: Any,
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    names: Any,
    options: dict[str, Any],
    *,
    may_fail: bool,
) -> ModelResult:
    """Fit one model and measure its error and time."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # The noise level of a Gaussian process on data without noise ends at its lower bound; that is correct.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            # A fit of its own keeps its best model; a comparison with models that were cut short says nothing.
            fit_one_of_several(lambda: fit_estimator(model, *train, **options) if options else model.fit(*train))
        except FieldDataError as error:
            if not may_fail:
                raise
            return ModelResult(name, None, 0.0, str(error))
    seconds = time.perf_counter() - start
    return ModelResult(name, evaluate(model, *test, names=names), seconds, model=model)


def _classical_models(data: TrainingData) -> dict[str, Any]:
    """Classical models that are not fitted, by name; a string is the reason why a model is left out."""
    inputs, n_samples = data.inputs, len(data.inputs)
    models: dict[str, Any] = dict(classical_candidates())
    widths = [inputs.n_channels + (0 if inputs.shared_coords else inputs.n_dims), data.targets.n_outputs]
    numbers = n_samples * int(inputs.n_points.max()) * max(widths)
    if numbers > _MOST_NUMBERS:
        models = dict.fromkeys(models, f"left out: {numbers:.0e} numbers are too many for a quick fit")
    if not (inputs.is_ragged or data.targets.elsewhere):
        return models
    boosting = HistGradientBoostingRegressor(random_state=0)
    return {
        "mean value": _PointwiseRegressor(DummyRegressor()),
        "gradient boosting, point by point": _PointwiseRegressor(MultiOutputRegressor(boosting)),
        "POD": "needs y on the points of X" if data.targets.elsewhere else models["POD"],
    }


class _PointwiseRegressor(BaseEstimator):
    """Regression of the values at a point from its coordinates, the input fields there, and the parameters."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: FieldSet, y: Any) -> Self:
        """Fit the regressor of all channels on all points, or on a random part of them."""
        if not isinstance(y, FieldSet):
            raise FieldDataError("a regression point by point needs fields as targets.")
        if y.n_params:
            raise FieldDataError("a regression point by point predicts fields, and y has scalars too.")
        rows, values = _point_rows(X), np.concatenate(y.to_list())
        if len(rows) > _MOST_POINTS:
            drawn = np.random.default_rng(0).choice(len(rows), _MOST_POINTS, replace=False)
            rows, values = rows[drawn], values[drawn]
        self.regressor_ = clone(self.regressor).fit(rows, values)
        return self

    def predict(self, X: FieldSet) -> FieldSet:
        """Predict the fields on the points of X."""
        rows = _point_rows(X)
        values = self.regressor_.predict(rows).reshape(len(rows), -1)
        return X.with_values(values if X.is_ragged else values.reshape(len(X), int(X.n_points[0]), -1))


def _point_rows(X: FieldSet) -> FloatArray:
    """Coordinates, input fields and parameters of each point of all samples, (T, d + c + p)."""
    parts = [np.concatenate(X.coords_list())]
    if X.n_channels:
        parts.append(np.concatenate(X.to_list()))
    if X.params is not None:
        parts.append(np.repeat(X.params, X.n_points, axis=0))
    return np.concatenate(parts, axis=1).astype(float)
