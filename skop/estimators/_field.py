"""What every regressor on fields shares: reading X and y, giving predictions back in y's form, scoring."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skop._typing import FloatArray
from skop.data import DataSpec, FieldSet, carries_points, is_table, read_inputs, restore_form
from skop.metrics import relative_l2_score

__all__ = ["BaseFieldRegressor"]


class BaseFieldRegressor(RegressorMixin, BaseEstimator):
    """Base of all regressors on fields and tables.

    A subclass fits in its own way, sets `spec_` and `coords_` by `_store_spec`, and defines
    `_predict_values`.
    """

    spec_: DataSpec
    coords_: FloatArray | None

    def _predict_values(self, inputs: FieldSet) -> FloatArray:
        """Outputs ``(n, P, q)`` in physical units."""
        raise NotImplementedError

    def _check_table(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Let scikit-learn check a 2-D X, and a y that is a table too."""
        if not is_table(X):
            return X, y
        if not carries_points(y):
            return validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        return validate_data(self, X, dtype=np.float64), y

    def _store_spec(self, inputs: FieldSet, spec: DataSpec) -> None:
        """Remember what the data looked like."""
        self.spec_ = spec
        if spec.input_form != "table":
            # For a table scikit-learn has set both; an earlier fit on one may have left its names.
            self.n_features_in_ = max(spec.n_fields, 1)
            self.__dict__.pop("feature_names_in_", None)
        self.coords_ = inputs.coords if spec.role == "parameters" else None

    def predict(self, X: Any) -> Any:
        """Predict fields or scalars.

        Parameters
        ----------
        X : as in `fit`
            Inputs of the kind that the estimator was fitted on. Grids may have another number of
            points unless something was tied to the training grid.

        Returns
        -------
        ndarray, FieldSet or (coords, fields)
            The kind of thing that y was in the fit.

        Raises
        ------
        FieldDataError
            If X is of another kind, or its channels or dimensions differ.
        """
        check_is_fitted(self)
        if is_table(X) and self.spec_.input_form == "table":
            X = validate_data(self, X, reset=False, dtype=np.float64)
        inputs = read_inputs(X, self.spec_, self.coords_)
        return restore_form(self._predict_values(inputs), inputs, self.spec_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
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
            1 is perfect, 0 is what a field of zeros gets. For scalars the norm runs over the set.
        """
        predicted = self.predict(X)
        if self.spec_.target_form == "tuple":
            predicted, y = predicted[1], y[1]
        kind: Literal["scalar", "field"] = "scalar" if self.spec_.scalar_output else "field"
        single = self.spec_.target_form.endswith("_single")
        if single:
            predicted, y = predicted[..., None], np.asarray(y)[..., None]
        return float(relative_l2_score(y, predicted, sample_weight=sample_weight, kind=kind))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = True
        return tags
