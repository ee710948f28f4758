"""What the estimators in time share: trajectories cut into frames, and an estimator fitted on these.

Time lies in the channel axis: channel t c + k is component k of frame t.

Letters: n trajectories, S frames of a target, P points, T points of all samples together, c channels of a frame.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import _check_sample_weight

from skop._typing import FloatArray
from skop.data import FieldSet, Predictions, TrainingData, carries_points, is_mesh_input, is_table, read_training_data
from skop.estimators._base import BaseOperatorRegressor
from skop.estimators._field import BaseFieldRegressor
from skop.exceptions import FieldDataError
from skop.metrics import relative_l2_error
from skop.training import TrainingPlan

__all__ = ["BaseFrameRegressor", "join_frames", "repeat_samples"]


class BaseFrameRegressor(MetaEstimatorMixin, BaseFieldRegressor):
    """Base of the estimators that fit another one on single frames.

    A subclass cuts trajectories into frames, calls `_fit_estimator`, and defines `_predict_values`, which collects
    the outputs of `_predict_frame`.
    """

    estimator: Any
    estimator_: Any
    random_state: Any
    n_frames_: int

    # ------------------------------------------------------------------ fit
    def _read_trajectories(self, X: Any, y: Any, *, series: bool) -> TrainingData:
        """X and y as FieldSets; tables as functions where they have one shape, unless they are time series."""
        X, y = self._check_table(X, y)
        if is_table(X) and not is_mesh_input(X) and y is not None and not carries_points(y):
            # One column is never read as a function; the others are further columns of the same kind.
            data = read_training_data(X, np.reshape(y, (len(y), -1))[:, 0] if series else y)
            if data.spec.role == "features":
                targets = np.reshape(y, (len(y), -1))
                form = "vector" if np.ndim(y) == 1 else "table"
                spec = replace(data.spec, target_form=form, n_scalars=targets.shape[1])
                data = TrainingData(_one_point(X), _one_point(targets), spec)
            return data
        data = self._read_training_data(X, y)
        if data.targets.params is not None:
            raise FieldDataError(f"{type(self).__name__} predicts frames; y has scalars (params) beside its field.")
        return data

    def _target_points(self, data: TrainingData) -> FieldSet:
        """Samples on whose points the targets lie: those of the inputs, or scalars on one point."""
        return data.targets if data.spec.scalar_output else data.inputs

    def _fit_estimator(
        self,
        estimator: Any,
        inputs: FieldSet,
        targets: FieldSet,
        data: TrainingData,
        sample_weight: Any,
        plan: TrainingPlan,
    ) -> None:
        """Fit the estimator on single frames, S of them for each trajectory, and remember what the data looked like."""
        X: Any = inputs.values[:, 0] if data.spec.role == "features" else inputs  # type: ignore[index]
        y: Any = targets
        if data.spec.scalar_output:
            values = np.asarray(targets.values)[:, 0]
            y = values[:, 0] if data.spec.target_form == "vector" else values
        options = {}
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, np.empty((len(data.inputs), 1)), dtype=np.float64)
            options["sample_weight"] = np.repeat(weight, len(inputs) // len(data.inputs))
        if isinstance(estimator, BaseOperatorRegressor):
            _fit_with_plan(estimator, X, y, options.get("sample_weight"), plan)
        else:
            estimator.fit(X, y, **options)
        self.estimator_ = estimator
        self._store_spec(data.inputs, data.spec)

    def _seeded_clone(self) -> Any:
        """An unfitted copy of the estimator, with a seed drawn from the random state if there is one."""
        estimator = clone(self.estimator)
        if self.random_state is not None and "random_state" in estimator.get_params():
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            estimator.set_params(random_state=int(seed))
        return estimator

    # ------------------------------------------------------------------ prediction
    def _predict_frame(self, state: FieldSet) -> FloatArray:
        """One frame ``(n, P, c)`` or ``(T, c)`` for each sample."""
        X: Any = state.values[:, 0] if self.spec_.role == "features" else state  # type: ignore[index]
        predicted = self.estimator_.predict(X)
        if isinstance(predicted, FieldSet):
            return np.asarray(predicted.values)
        return np.reshape(predicted, (len(state), 1, -1))

    def _state(self, inputs: FieldSet) -> FieldSet:
        """Inputs of a prediction as fields; the columns of tables are channels of one point."""
        return _one_point(inputs.params) if self.spec_.role == "features" else inputs

    def _as_predictions(self, frames: list[FloatArray]) -> Predictions:
        """Frames joined along the channels, in the kind of output of the fit."""
        values = np.concatenate(frames, axis=-1)
        return Predictions(None, values[:, 0]) if self.spec_.scalar_output else Predictions(values)

    def _with_frames(self, n_frames: int) -> Self:
        """A copy that predicts another number of frames."""
        other, spec = copy.copy(self), self.spec_
        other.n_frames_ = n_frames
        form = {"vector": "table"}.get(spec.target_form, spec.target_form.removesuffix("_single"))
        count = (spec.n_outputs + spec.n_scalars) // self.n_frames_ * n_frames
        sizes = {"n_scalars": count} if spec.scalar_output else {"n_outputs": count}
        other.spec_ = replace(spec, target_form=form, channel_names=None, **sizes)  # type: ignore[arg-type]
        return other

    def _errors_by_frame(self, X: Any, y: Any, sample_weight: Any) -> FloatArray:
        """Mean relative L2 error of each frame on its own, ``(S,)``."""
        ((kind, *pair),) = self._scored_parts(X, y)
        errors = [
            relative_l2_error(*frames, sample_weight=sample_weight, kind=kind)
            for frames in zip(*(_split_frames(samples, self.n_frames_) for samples in pair), strict=True)
        ]
        return np.array(errors)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


@_fit_context(prefer_skip_nested_validation=True)
def _fit_with_plan(
    estimator: BaseOperatorRegressor, X: Any, y: Any, sample_weight: FloatArray | None, plan: TrainingPlan
) -> None:
    """What `BaseOperatorRegressor.fit` does, with another plan."""
    X, y = estimator._check_table(X, y)
    estimator._fit_data(estimator._read_training_data(X, y), X, y, sample_weight, plan)


def _one_point(table: Any) -> FieldSet:
    """The rows of a table as samples of one point, its columns as channels."""
    return FieldSet(np.zeros((1, 1)), np.asarray(table)[:, np.newaxis])


def _split_frames(samples: Any, n_frames: int) -> list[list[FloatArray]]:
    """Fields or scalars of each frame, one array a sample."""
    return [
        list(frame) for frame in zip(*(np.split(np.asarray(item), n_frames, axis=-1) for item in samples), strict=True)
    ]


def repeat_samples(fields: FieldSet, count: int) -> FieldSet:
    """Repeat each sample.

    Parameters
    ----------
    fields : FieldSet
        Samples.
    count : int
        How often each stands in the result, one after the other.

    Returns
    -------
    FieldSet
        As many times the samples.
    """
    return fields[np.repeat(np.arange(len(fields)), count)]


def join_frames(points: FieldSet, frames: list[FloatArray]) -> FieldSet:
    """Put one array of values for each sample on the points of the samples.

    Parameters
    ----------
    points : FieldSet
        Samples whose points count; their values and global parameters do not.
    frames : list of ndarray of shape (P_i, c)
        New values of each sample.

    Returns
    -------
    FieldSet
        Fields on these points.
    """
    return points.with_values(np.concatenate(frames) if points.is_ragged else np.stack(frames))
