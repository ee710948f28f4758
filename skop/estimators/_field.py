"""What every regressor on fields shares: reading X and y, giving predictions back in y's form, scoring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skop._typing import FloatArray, PathOrStr
from skop.data import (
    DataSpec,
    FieldSet,
    Predictions,
    TrainingData,
    interpolate_fields,
    query_points,
    read,
    read_inputs,
    read_truth,
)
from skop.estimators._persistence import ESTIMATORS, save_estimator
from skop.exceptions import FieldDataError, warn
from skop.metrics import channel_sizes, relative_l2_score

__all__ = ["FieldRegressor"]


class FieldRegressor(RegressorMixin, BaseEstimator):
    """Base of all regressors on fields and tables.

    A subclass fits in its own way on what `_read` gives, sets `spec_` and `coords_` by
    `_store_spec`, and defines `_predict_values`.
    """

    spec_: DataSpec
    coords_: FloatArray | None
    #: The wrapped estimator of estimators that wrap one.
    estimator: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = ESTIMATORS.get(cls.__name__)
        if known is not None and known.__module__.startswith("skop.") and known.__module__ != cls.__module__:
            warn(
                f"{cls.__name__} is the name of an estimator of skop; models of this class cannot be saved. Rename it."
            )
            return
        ESTIMATORS[cls.__name__] = cls

    # ------------------------------------------------------------------ reading
    def _read(self, X: Any, y: Any) -> TrainingData:
        """X and y of a fit."""
        return read(X, y, estimator=self, **self._mesh_options)

    @property
    def _mesh_options(self) -> dict[str, Any]:
        """Which fields of meshes are read, and how: parameters of this estimator or of the one that it wraps."""
        if hasattr(self, "input_fields"):
            return {name: getattr(self, name) for name in ("input_fields", "target_fields", "cell_data")}
        return getattr(getattr(self, "estimator", None), "_mesh_options", {})

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
        options = {name: value for name, value in self._mesh_options.items() if name != "target_fields"}
        return read_inputs(X, self.spec_, coords=self.coords_, estimator=self, **options)

    # ------------------------------------------------------------------ prediction
    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Outputs in physical units on the points of the inputs."""
        raise NotImplementedError

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Outputs at other points, interpolated between those of the inputs, and these points."""
        if not self.spec_.n_outputs:
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
            return self.spec_.target_form.restore(self._predict_values(inputs), inputs, meshes)
        return self.spec_.target_form.restore(*self._predict_at(inputs, coords))

    # ------------------------------------------------------------------ scoring
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return 1 minus the mean relative L2 error, all output channels counting alike.

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

        Notes
        -----
        Several output channels, or scalars, are divided by their root mean square in y first
        (`skop.metrics.channel_sizes`), so that stress in Pa does not hide displacement in m; `score_physical`
        compares them as they are. A sample of y that is zero everywhere is compared with the root mean square of
        the norms of all samples.
        """
        return self._mean_score(X, y, sample_weight, balanced=True)

    def score_physical(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return 1 minus the mean relative L2 error in the units of y: the number that papers print.

        Parameters
        ----------
        X, y, sample_weight : as in `score`
            Test samples and their truth.

        Returns
        -------
        float
            As `score`, but channels with large numbers count most. The same for a single channel.
        """
        return self._mean_score(X, y, sample_weight, balanced=False)

    @property
    def _n_components(self) -> int | None:
        """Channels of a frame, for estimators whose channels are frames in time; None otherwise."""
        return None

    def _score_units(self, kind: Literal["field", "scalar"], true: Any, sample_weight: Any) -> FloatArray | None:
        """Sizes in which the channels count alike; None where there is one."""
        count = self.spec_.n_outputs if kind == "field" else self.spec_.n_scalars
        if 1 in (count, self._n_components):
            return None
        return channel_sizes(true, sample_weight=sample_weight, kind=kind, n_components=self._n_components)

    def _mean_score(self, X: Any, y: Any, sample_weight: Any, *, balanced: bool) -> float:
        """Mean of the scores of the field and of the scalars."""
        scores = []
        for kind, true, found in self._scored_parts(X, y):
            units = self._score_units(kind, true, sample_weight) if balanced else None
            scores.append(relative_l2_score(true, found, sample_weight=sample_weight, kind=kind, units=units))
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
            NaN where a channel is zero in all samples, which has no relative error.
        """
        scores: dict[str, float] = {}
        for kind, true, found in self._scored_parts(X, y):
            named = self.spec_.target_form.channel_names if kind == "field" else None
            prefix, count = ("channel", self.spec_.n_outputs) if kind == "field" else ("scalar", self.spec_.n_scalars)
            names = named or [f"{prefix} {number}" for number in range(count)]
            for channel, name in enumerate(names):
                parts = [[np.asarray(item)[..., [channel]] for item in samples] for samples in (true, found)]
                defined = any(item.any() for item in parts[0])
                score = relative_l2_score(*parts, sample_weight=sample_weight, kind=kind) if defined else np.nan
                scores[name] = score
        return scores

    def _scored_parts(self, X: Any, y: Any) -> list[tuple[Literal["field", "scalar"], Any, Any]]:
        """Truth and prediction of the fields, and of the scalars, where there are any."""
        inputs, meshes = self._read_inputs(X)
        options = {name: value for name, value in self._mesh_options.items() if name != "input_fields"}
        truth = read_truth(y, inputs, self.spec_, X=X, meshes=meshes, **options)
        predictions = self._predict_values(inputs)
        parts: list[Any] = []
        if truth.field is not None:
            parts.append(("field", truth.field.to_list(), inputs.with_values(predictions.fields).to_list()))
        if truth.scalars is not None:
            parts.append(("scalar", truth.scalars, np.asarray(predictions.scalars)))
        return parts

    # ------------------------------------------------------------------ files
    def save(self, path: PathOrStr) -> None:
        """Write the fitted estimator to one file, without pickle; `skop.load` reads it.

        Parameters
        ----------
        path : path-like
            File to write; it is replaced in one step when complete.

        Raises
        ------
        ModelFileError
            If a parameter cannot be written, such as a custom loss function or a regressor that skop does not
            know, or parameters of the network were changed after the fit.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = True
        return tags
