"""GridOperatorRegressor: the base of operator regressors that need a grid, and bring points to one."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from skop._typing import IntArray
from skop.data import (
    DataSpec,
    FieldSet,
    GridResampler,
    Predictions,
    ResampledData,
    ResampledSpec,
    TrainingData,
    query_points,
)
from skop.estimators._base import BaseOperatorRegressor
from skop.estimators._prediction import field_error
from skop.exceptions import ResamplingWarning
from skop.training import TrainingPlan

__all__ = ["GridOperatorRegressor", "seen_by_network"]

#: Relative error of the way to the grid and back from which on a fit warns.
_LARGE_ERROR = 0.02


class GridOperatorRegressor(BaseOperatorRegressor):
    """Base of the operator regressors whose networks need a grid.

    With the parameter `grid`, samples whose points form none are resampled before the network and predictions after
    it; all that a subclass knows of it is `seen_by_network`.
    """

    grid: Any

    _parameter_constraints = {
        **BaseOperatorRegressor._parameter_constraints,
        "grid": ["array-like", StrOptions({"auto"}), None],
    }

    @property
    def resampling_error_(self) -> float | None:
        """Error of the training targets after their way to the grid and back; None without such a way."""
        return self.spec_.resampler.error if isinstance(self.spec_, ResampledSpec) else None

    def _as_network_sees(self, data: TrainingData, usable: IntArray, plan: TrainingPlan) -> TrainingData:
        """Points that form no grid on one, if there is to be one."""
        if self.grid is None or data.spec.layout != "points":
            return data
        resampler = self._pick_resampler(data, usable, plan)
        inputs, targets, error = _resampled(data, resampler, usable)
        if error is not None and error > _LARGE_ERROR:
            _warn_of_error(error, resampler)
        spec = ResampledSpec(**vars(data.spec), resampler=replace(resampler, error=error))
        return ResampledData(inputs, targets, spec, data.inputs)

    def _on_own_points(self, data: TrainingData) -> FieldSet:
        """The inputs on the caller's points."""
        return data.points if isinstance(data, ResampledData) else data.inputs

    def _pick_resampler(self, data: TrainingData, usable: IntArray, plan: TrainingPlan) -> GridResampler:
        """The resampler of an earlier fit that goes on, or a new one."""
        continues = self.warm_start and hasattr(self, "module_") and self.spec_.n_dims == data.spec.n_dims
        if continues and isinstance(self.spec_, ResampledSpec):
            return self.spec_.resampler
        # Trainings that feed frames back would take the channel of distances for one of a frame.
        distance = None if plan.forward is None else False
        return GridResampler.fit(data.inputs[usable], self.grid, distance=distance)

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Outputs in physical units on the points of the inputs."""
        if not isinstance(self.spec_, ResampledSpec):
            return super()._predict_values(inputs)
        return self._resampled_prediction(self.spec_.resampler, inputs, inputs)

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Outputs at other points than those of the samples, and these points."""
        if not isinstance(self.spec_, ResampledSpec) or self.spec_.scalar_output:
            return super()._predict_at(inputs, coords)
        places = query_points(coords, inputs)
        return self._resampled_prediction(self.spec_.resampler, inputs, places), places

    def _resampled_prediction(self, resampler: GridResampler, inputs: FieldSet, places: FieldSet) -> Predictions:
        """Outputs of the network on the grid, brought to places."""
        predictions = super()._predict_values(resampler.to_grid(inputs))
        if predictions.fields is None:
            return predictions
        return replace(predictions, fields=resampler.to_points(predictions.fields, places))


def seen_by_network(spec: DataSpec) -> DataSpec:
    """Return what the network sees: the data themselves, unless they are resampled.

    Parameters
    ----------
    spec : DataSpec
        Kinds and sizes of X and y.

    Returns
    -------
    DataSpec
        The same, or that of the grid.
    """
    return spec.on_grid() if isinstance(spec, ResampledSpec) else spec


def _warn_of_error(error: float, resampler: GridResampler) -> None:
    """Say that the grid keeps too little of the targets."""
    shape = "x".join(map(str, resampler.grid_shape))
    warnings.warn(
        f"the training targets change by {error:.3g} (mean relative L2 error) on their way from the points to the grid "
        f"of {shape} and back, so that even a network without errors on the grid is off by this; set a finer grid=..., "
        "or use LaMORegressor, which needs no grid.",
        ResamplingWarning,
        stacklevel=6,
    )


def _resampled(
    data: TrainingData, resampler: GridResampler, usable: IntArray
) -> tuple[FieldSet, FieldSet, float | None]:
    """Inputs and targets on the grid, and what the usable targets lose on the way there and back."""
    if data.spec.scalar_output:
        return resampler.to_grid(data.inputs), data.targets, None
    # One triangulation serves inputs and targets.
    held = [np.asarray(part.values) for part in (data.inputs, data.targets) if part.n_channels]
    both = resampler.to_grid(data.inputs.with_values(np.concatenate(held, axis=-1)))
    n_fields, n_outputs = data.spec.n_fields, data.spec.n_outputs
    values = np.asarray(both.values)
    chosen = np.delete(values, np.s_[n_fields : n_fields + n_outputs], axis=-1)
    inputs = FieldSet(
        both.coords, chosen if chosen.shape[-1] else None, params=data.inputs.params, grid_shape=both.grid_shape
    )
    targets = both.with_values(values[..., n_fields : n_fields + n_outputs], data.targets.channel_names)
    returned = resampler.to_points(np.asarray(targets[usable].values), data.inputs[usable])
    error = field_error(returned, data.targets[usable])
    return inputs, targets.with_params(data.targets.params), error
