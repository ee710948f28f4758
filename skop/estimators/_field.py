"""What every regressor on fields shares: reading X and y, giving predictions back in y's form, scoring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skop._typing import FloatArray
from skop.data import (
    DataSpec,
    FieldSet,
    MeshSamples,
    Predictions,
    TrainingData,
    attach_predictions,
    carries_points,
    interpolate_fields,
    is_mesh_input,
    is_table,
    query_points,
    read_inputs,
    read_meshes,
    read_training_data,
    read_truth,
    restore_form,
)
from skop.exceptions import FieldDataError
from skop.metrics import relative_l2_score

__all__ = ["BaseFieldRegressor"]


class BaseFieldRegressor(RegressorMixin, BaseEstimator):
    """Base of all regressors on fields and tables.

    A subclass fits in its own way on what `_read_training_data` gives, sets `spec_` and `coords_` by
    `_store_spec`, and defines `_predict_values`.
    """

    spec_: DataSpec
    coords_: FloatArray | None
    #: Of estimators that wrap another.
    estimator: Any

    # ------------------------------------------------------------------ reading
    def _check_table(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Let scikit-learn check a 2-D X, and a y that is a table too."""
        if is_mesh_input(X) or not is_table(X):
            return X, y
        if not carries_points(y):
            return validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        return validate_data(self, X, dtype=np.float64), y

    def _read_training_data(self, X: Any, y: Any) -> TrainingData:
        """X and y of a fit, from meshes too."""
        if not is_mesh_input(X):
            return read_training_data(X, y)
        own = y is None or y is X
        inputs = self._mesh_options.input_fields
        samples = self._open_meshes(X, dict.fromkeys([*(inputs or ()), *(self._named_targets() if own else ())]))
        targets = None
        if own or is_mesh_input(y):
            targets = samples if own else self._open_meshes(y, self._named_targets(), samples.axes)
        data = read_training_data(
            samples.select(inputs), y if targets is None else targets.select(self._named_targets())
        )
        spec = replace(data.spec, input_form="meshes", kept_axes=samples.axes)
        if targets is not None:
            components = tuple((name, targets.components[name]) for name in self._named_targets())
            spec = replace(spec, target_form="meshes", components=components)
        return replace(data, spec=spec)

    @property
    def _mesh_options(self) -> Any:
        """The estimator whose parameters name the fields of meshes: this one, or the one that it wraps."""
        return self if hasattr(self, "input_fields") else self.estimator._mesh_options

    def _named_targets(self) -> list[str]:
        """Names of the target fields of meshes."""
        if self._mesh_options.target_fields is None:
            raise FieldDataError(
                "the targets are fields of meshes, but target_fields does not name them; set target_fields=['...'] "
                "to names in their point_data."
            )
        return list(self._mesh_options.target_fields)

    def _open_meshes(self, meshes: Any, fields: Any, axes: tuple[int, ...] | None = None) -> MeshSamples:
        """Meshes with some of their fields."""
        names = None if fields is None else list(fields)
        return read_meshes(meshes, names, cell_data=self._mesh_options.cell_data, axes=axes)

    def _store_spec(self, inputs: FieldSet, spec: DataSpec) -> None:
        """Remember what the data looked like."""
        self.spec_ = spec
        if spec.input_form != "table":
            # For a table scikit-learn has set both; an earlier fit on one may have left its names.
            self.n_features_in_ = max(spec.n_fields, 1)
            self.__dict__.pop("feature_names_in_", None)
        self.coords_ = inputs.coords if spec.role == "parameters" else None

    def _read_inputs(self, X: Any) -> tuple[FieldSet, list[Any] | None]:
        """X of a prediction, and the meshes that predictions go back to, if it came as meshes."""
        check_is_fitted(self)
        if is_mesh_input(X):
            if self.spec_.kept_axes is None:
                raise FieldDataError(
                    f"X is meshes, but the estimator was fitted on X as {self.spec_.input_form!r}; pass the same "
                    "kind, or read the meshes by skop.data.read_meshes."
                )
            samples = self._open_meshes(X, self._mesh_options.input_fields, self.spec_.kept_axes)
            return read_inputs(samples.fields, self.spec_, None), samples.meshes
        if is_table(X) and self.spec_.input_form == "table":
            X = validate_data(self, X, reset=False, dtype=np.float64)
        return read_inputs(X, self.spec_, self.coords_), None

    # ------------------------------------------------------------------ prediction
    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Outputs in physical units on the points of the inputs."""
        raise NotImplementedError

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Outputs at other points, interpolated between those of the inputs, and these points."""
        if self.spec_.scalar_output:
            raise FieldDataError("coords asks for values at points, but the estimator predicts scalars of a sample.")
        places = query_points(coords, inputs)
        predictions = self._predict_values(inputs)
        fields = inputs.with_values(predictions.fields)
        return replace(predictions, fields=interpolate_fields(fields, places)), places

    def predict(self, X: Any, coords: Any = None) -> Any:
        """Predict fields or scalars.

        Parameters
        ----------
        X : as in `fit`
            Inputs of the kind that the estimator was fitted on. Grids may have another number of
            points unless something was tied to the training grid.
        coords : FieldSet, array-like of shape (Q, d) or (n, Q, d), list of arrays (Q_i, d), or None, default=None
            Points where fields are wanted, within the box of each sample; None is the points of X.

        Returns
        -------
        ndarray, list, FieldSet, (coords, fields), or list of meshes
            The kind of thing that y was in the fit; a FieldSet for meshes at other points.

        Raises
        ------
        FieldDataError
            If X is of another kind, its channels or dimensions differ, or a point lies outside.
        """
        inputs, meshes = self._read_inputs(X)
        if coords is None:
            return self._in_form(self._predict_values(inputs), inputs, meshes)
        return self._in_form(*self._predict_at(inputs, coords), None)

    def _in_form(self, predictions: Predictions, points: FieldSet, meshes: list[Any] | None) -> Any:
        """Predictions as the kind of thing that y was."""
        result = restore_form(predictions, points, self.spec_)
        if meshes is None or self.spec_.components is None or not isinstance(result, FieldSet):
            return result
        return attach_predictions(meshes, result, dict(self.spec_.components))

    # ------------------------------------------------------------------ scoring
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return 1 minus the mean relative L2 error.

        Parameters
        ----------
        X, y : as in `fit`
            Test samples and their truth.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the samples.

        Returns
        -------
        float
            1 is perfect, 0 is what a field of zeros gets. For scalars the norm runs over the set; with
            scalars beside a field it is the mean of the two scores.
        """
        scores = [
            relative_l2_score(true, found, sample_weight=sample_weight, kind=kind)
            for kind, true, found in self._scored_parts(X, y)
        ]
        return float(np.mean(scores))

    def score_channels(self, X: Any, y: Any = None, sample_weight: Any = None) -> dict[str, float]:
        """Return the score of each output channel and scalar on its own.

        Parameters
        ----------
        X, y, sample_weight : as in `score`
            Test samples and their truth.

        Returns
        -------
        dict of str to float
            1 minus the mean relative L2 error by name; unnamed ones are ``"channel 0"``, ``"scalar 0"``, ...
            NaN where a channel is zero everywhere in some sample, which has no relative error.
        """
        scores: dict[str, float] = {}
        for kind, true, found in self._scored_parts(X, y):
            named = self.spec_.channel_names if kind == "field" else None
            prefix, count = ("channel", self.spec_.n_outputs) if kind == "field" else ("scalar", self.spec_.n_scalars)
            names = named or [f"{prefix} {number}" for number in range(count)]
            for channel, name in enumerate(names):
                parts = [[np.asarray(item)[..., [channel]] for item in samples] for samples in (true, found)]
                defined = kind == "scalar" or all(item.any() for item in parts[0])
                score = relative_l2_score(*parts, sample_weight=sample_weight, kind=kind) if defined else np.nan
                scores[name] = score
        return scores

    def _scored_parts(self, X: Any, y: Any) -> list[tuple[Literal["field", "scalar"], Any, Any]]:
        """Truth and prediction of the fields, and of the scalars, where there are any."""
        inputs, meshes = self._read_inputs(X)
        if meshes is not None and (y is None or is_mesh_input(y)):
            y = self._open_meshes(X if y is None else y, self._named_targets(), self.spec_.kept_axes).fields
        if y is None:
            raise FieldDataError("scoring requires the truth y, but it is None.")
        predictions = self._predict_values(inputs)
        if predictions.fields is None:
            found, true = np.asarray(predictions.scalars), np.asarray(y)
            if true.shape != found.shape and (true.shape != found.shape[:1] or found.shape[1] > 1):
                raise FieldDataError(f"y has shape {true.shape}; expected {found.shape}, one row for each sample.")
            return [("scalar", true.reshape(found.shape), found)]
        truth = read_truth(y, inputs, self.spec_)
        parts: list[Any] = [("field", truth.to_list(), inputs.with_values(predictions.fields).to_list())]
        if predictions.scalars is not None:
            if truth.n_params != self.spec_.n_scalars:
                raise FieldDataError(
                    f"the estimator predicts {self.spec_.n_scalars} scalars beside the field, but y holds "
                    f"{truth.n_params}; pass a FieldSet whose params they are."
                )
            parts.append(("scalar", truth.params, predictions.scalars))
        return parts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = True
        return tags
