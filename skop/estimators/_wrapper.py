"""WrappingRegressor: base class of the estimators around another one, which fit it and ask it for predictions.

Notation: n samples.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from skop._optional import import_optional
from skop._sklearn_compat import final_regressor, has_steps, last_step
from skop.data import DataSpec, FieldSet, Predictions, Targets
from skop.estimators._field import FieldRegressor
from skop.estimators._reading import checked_by_caller
from skop.estimators._weights import takes_groups
from skop.exceptions import FieldDataError, warn
from skop.training import DIRECT_TRAINING, TrainingPlan

__all__ = [
    "WrappingRegressor",
    "as_input",
    "as_predictions",
    "asked",
    "continued",
    "fit_estimator",
    "frame_size",
    "goes_on",
]


class WrappingRegressor(MetaEstimatorMixin, FieldRegressor):
    """Base class of the estimators around another one, which is their parameter `estimator`, or chosen by their fit.

    A subclass defines `fit`, which stores the fitted one as `estimator_`. Where this one gets other samples than X, or
    its predictions are not those of the subclass, it overrides `_asked`.
    """

    estimator: Any
    estimator_: Any
    #: Whether groups and seeds of a fit are of use to the estimator within alone.
    _only_passes_on: ClassVar[bool] = False

    # ------------------------------------------------------------------ fit
    def _check_steps(self, can_pass: bool, spec: DataSpec) -> None:
        """Raise an error if the estimator is a Pipeline, whose steps cannot get X as it came."""
        if not can_pass and has_steps(self.estimator):
            name = type(self).__name__
            raise FieldDataError(
                f"X came as {spec.input_form!r}, which {name} cannot pass on to the steps of its Pipeline as it came; "
                f"put {name} around the last step instead: make_pipeline(..., {name}(...))."
            )

    def _next_estimator(self) -> Any:
        """Return an unfitted copy of the estimator, with a seed drawn from the random state if there is one.

        With a `warm_start` of the estimator it is a copy of that of the last fit instead.
        """
        earlier, random_state = getattr(self, "estimator_", None), getattr(self, "random_state", None)
        if goes_on(self.estimator, earlier):
            return continued(earlier, self.estimator)
        estimator = clone(self.estimator)
        if random_state is not None and "random_state" in estimator.get_params():
            seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
            estimator.set_params(random_state=int(seed))
        return estimator

    @property
    def _takes_other_points(self) -> bool:  # type: ignore[override]
        """Whether y may be on other points than X, as the estimator says."""
        return bool(getattr(self.estimator, "_takes_other_points", False))

    # ------------------------------------------------------------------ prediction
    @property
    def _columns(self) -> Any:
        """Names of the columns of a table that the estimator reads; None without names."""
        return getattr(self, "feature_names_in_", None)

    def _asked(
        self, inputs: FieldSet, coords: Any, method: str = "predict", **options: Any
    ) -> tuple[list[Predictions], FieldSet]:
        """Results of a method of the fitted estimator at points, and these points."""
        return asked(self.estimator_, inputs, coords, self.spec_, self._columns, method, **options)

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Prediction in physical units."""
        return self._asked(inputs, None)[0][0]

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Prediction at other points, and these points."""
        found, places = self._asked(inputs, coords)
        return found[0], places

    @property
    def _n_components(self) -> int | None:
        """Number of channels of a frame if the estimator predicts frames; None otherwise."""
        return frame_size(getattr(self, "estimator_", None))

    def _facts(self) -> dict[str, Any]:
        """The estimator in it, for the model card."""
        return {"holds": [self.estimator_]}

    # ------------------------------------------------------------------ time series of meshes
    @property
    def _series_part(self) -> Any:
        """The part that reads and writes time series of meshes, if the fit was on such; None otherwise."""
        return None

    def _read_inputs(self, X: Any, params: Any = None) -> tuple[FieldSet, list[Any] | None]:
        """Read the X of a prediction; also return its meshes, or its runs if it is time series of them."""
        check_is_fitted(self)
        part = self._series_part
        return super()._read_inputs(X, params) if part is None else part._read_inputs(X, params)

    def _read_scored(self, X: Any, y: Any, params: Any = None, sample_weight: Any = None) -> tuple[FieldSet, Targets]:
        """Read the X and y of a score."""
        check_is_fitted(self)
        reader: Any = super() if (part := self._series_part) is None else part
        return reader._read_scored(X, y, params, sample_weight)

    def _restore(self, predictions: Predictions, places: FieldSet, meshes: list[Any] | None, labels: Any = None) -> Any:
        """Convert predictions to the form of y."""
        writer: Any = super() if (part := self._series_part) is None else part
        return writer._restore(predictions, places, meshes, labels)

    def _restore_beside(
        self, mean: Any, others: Sequence[Predictions], places: FieldSet, meshes: list[Any] | None, labels: Any = None
    ) -> list[Any]:
        """Convert a spread, or two bounds, to the form of y."""
        writer: Any = super() if (part := self._series_part) is None else part
        return writer._restore_beside(mean, others, places, meshes, labels)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        # X is read here first.
        tags.input_tags.sparse = False
        return tags


# ---------------------------------------------------------------------- fits
def fit_estimator(estimator: Any, X: Any, y: Any, plan: TrainingPlan = DIRECT_TRAINING, **options: Any) -> Any:
    """Fit an estimator that another one wraps; say of one of another library which takes no fields what does.

    One that takes groups, such as `PODRegressor`, gets the runs of a plan: steps of a run in the training would tell of
    the others that are left out. So does the last step of a Pipeline, which gets other groups too.
    """
    runs = None if plan.n_steps is None else plan.runs(len(X))
    is_grouped = runs is not None or "groups" in options
    if is_grouped and last_step(estimator) is not estimator and isinstance(last_step(estimator), FieldRegressor):
        head, (_, last) = estimator[:-1], estimator.steps[-1]
        X = head.fit_transform(X, y) if len(head) else X
        # With a memory, they are copies.
        estimator.steps[:-1] = head.steps
        # What the steps make of X may be no frames any more.
        fit_estimator(last, X, y, replace(plan, last_frame=None) if len(head) else plan, **options)
        return estimator
    if runs is not None and takes_groups(estimator):
        weight = options.get("sample_weight")
        # A weight can leave a single run, without which there is no other.
        used = runs if weight is None else runs[np.flatnonzero(weight)]
        options = {"groups": runs if np.ptp(used) else None, **options}
    elif runs is not None and not isinstance(estimator, FieldRegressor):
        _warn_of_frames(last_step(estimator))
    try:
        if isinstance(estimator, FieldRegressor):
            return estimator._fit_by_plan(X, y, plan, **options)
        return estimator.fit(X, y, **options)
    except (TypeError, ValueError) as error:
        parts = [estimator, *(estimator.get_params().values() if hasattr(estimator, "get_params") else ())]
        if not any(isinstance(part, FieldSet) for part in (X, y)) or any(isinstance(p, FieldRegressor) for p in parts):
            raise
        name = type(last_step(estimator)).__name__
        raise FieldDataError(
            f"X or y holds fields, to which {name} could not be fitted; a regressor of tables predicts fields by their "
            f"components: PODRegressor(regressor={name}(...)). Its error: {error}"
        ) from error


def _warn_of_frames(estimator: Any) -> None:
    """Warn of an estimator of another library that judges models by frames, or an estimator of skop in it."""
    parts = estimator.get_params().values() if hasattr(estimator, "get_params") else ()
    judged = [type(part).__name__ for part in parts if isinstance(part, FieldRegressor)]
    if judged or hasattr(estimator, "cv"):
        name, inner = type(estimator).__name__, f", and so does {judged[0]} in it" if judged else ""
        warn(
            f"{name} takes the frames of runs for independent samples{inner}. Its choices and errors say nothing of "
            f"new runs. Put TimeConditionedRegressor or RolloutRegressor into {name} instead, and split by whole runs."
        )


def goes_on(estimator: Any, fitted: Any) -> bool:
    """Whether a fit of an estimator goes on from an earlier one, if there was one: by `warm_start`, also of a part."""
    flags = [value for name, value in estimator.get_params().items() if name.rpartition("__")[2] == "warm_start"]
    return any(flags) and type(fitted) is type(estimator)


def continued(fitted: Any, estimator: Any) -> Any:
    """Copy of a fitted estimator, to go on from it with the parameters of another one, but for its random state."""
    params = clone(estimator).get_params(deep=False)
    params.pop("random_state", None)
    return copy.deepcopy(fitted).set_params(**params)


def frame_size(estimator: Any) -> int | None:
    """Number of channels of a frame if a fitted estimator, or the last one in it, predicts frames; None otherwise."""
    return getattr(final_regressor(estimator)[0], "_n_components", None)


# ---------------------------------------------------------------------- predictions
def as_input(model: Any, inputs: FieldSet, spec: DataSpec, columns: Any = None) -> Any:
    """Inputs as a model takes them: tables of features, else FieldSets; a Pipeline gets any table as it came."""
    is_pipeline = has_steps(model)
    if spec.has_fields or (spec.has_parameters_alone and not is_pipeline):
        return inputs
    table = np.asarray(inputs.params)
    # Names of a fit of the user's, or else those that the caller has seen.
    columns = getattr(model, "feature_names_in_", columns if is_pipeline else None)
    if columns is None:
        return table
    pandas = import_optional("pandas", purpose="pass the names of columns on")
    return pandas.DataFrame(table, columns=columns)


def as_predictions(found: Any, n_samples: int) -> Predictions:
    """What a model has predicted: a FieldSet, with scalars or without, or an array of scalars."""
    if isinstance(found, FieldSet):
        scalars = None if found.params is None else np.asarray(found.params, dtype=np.float64)
        return Predictions(np.asarray(found.values, dtype=np.float64), scalars)
    return Predictions(None, np.asarray(found, dtype=np.float64).reshape(n_samples, -1))


def asked(
    model: Any, inputs: FieldSet, coords: Any, spec: DataSpec, columns: Any, method: str = "predict", **options: Any
) -> tuple[list[Predictions], FieldSet]:
    """Results of a method of a fitted model at points, or at its own for None, and these points."""
    if coords is not None:
        options["coords"] = coords
    with checked_by_caller():
        found = getattr(model, method)(as_input(model, inputs, spec, columns), **options)
    parts = found if isinstance(found, tuple) else (found,)
    is_here = coords is None and spec.target_points == "inputs"
    places = inputs if is_here or not isinstance(parts[0], FieldSet) else parts[0]
    return [as_predictions(part, len(inputs)) for part in parts], places
