"""PODRegressor: a classical surrogate model (POD and regression) as a baseline for comparisons."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import RidgeCV

from skop._sklearn_compat import HasMethods, Interval, StrOptions, fit_context
from skop._typing import FloatArray
from skop.data import FieldSet, Predictions, Targets, TrainingData
from skop.estimators._domain import SeenRanges
from skop.estimators._field import FieldRegressor, restored_on_failure
from skop.exceptions import FieldDataError

__all__ = ["PODRegressor"]


class PODRegressor(FieldRegressor):
    """Proper orthogonal decomposition of inputs and outputs, and a regression between the coefficients.

    Fields are projected onto their leading principal components (PCA). A scikit-learn regressor maps the coefficients
    of the input to those of the output, from which the output fields are computed. All samples must share one grid,
    mesh or point set; otherwise the same data are accepted as by the operator regressors.

    Parameters
    ----------
    regressor : {"ridge", "gaussian_process", "mean"} or regressor, default="ridge"
        Regressor between the coefficients: ridge regression with its penalty chosen by leave-one-out cross-validation,
        a Gaussian process with a Matérn kernel, the mean of the training targets, or any scikit-learn regressor that
        supports several outputs.
    n_components : int or float, default=0.99
        Number of principal components of inputs and of outputs, or the fraction of the variance that they must explain.
    input_fields, target_fields : list of str or None, default=None
        Names of the mesh fields that are inputs and targets.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and predicting
        all fields at the centres of the cells, see `skop.data.read_meshes`.

    Attributes
    ----------
    regressor_ : regressor
        Fitted regressor between the coefficients.
    points_ : ndarray of shape (P, d) or None
        Points of the training samples, if all samples share them.
    input_basis_, output_basis_ : sklearn.decomposition.PCA
        Principal components of inputs and outputs.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.

    See Also
    --------
    LaMORegressor : A neural operator with the same interface.

    References
    ----------
    J. S. Hesthaven, S. Ubbiali, "Non-intrusive reduced order modeling of nonlinear problems using neural
    networks", J. Comput. Phys. 363 (2018), for regression between POD coefficients.

    Examples
    --------
    >>> from skop import PODRegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> PODRegressor().fit(X[:20], y[:20]).predict(X[20:]).shape
    (4, 16, 16, 1)
    """

    _parameter_constraints = {
        "regressor": [StrOptions({"ridge", "gaussian_process", "mean"}), HasMethods(["fit", "predict"])],
        "n_components": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="neither")],
        "input_fields": ["array-like", None],
        "target_fields": ["array-like", None],
        "cell_data": [StrOptions({"refuse", "to_points", "cells"})],
    }

    def __init__(
        self,
        *,
        regressor: Any = "ridge",
        n_components: int | float = 0.99,
        input_fields: Any = None,
        target_fields: Any = None,
        cell_data: str = "refuse",
    ) -> None:
        self.regressor = regressor
        self.n_components = n_components
        self.input_fields = input_fields
        self.target_fields = target_fields
        self.cell_data = cell_data

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the principal components and fit the regressor.

        Parameters
        ----------
        X, y : as in `LaMORegressor.fit`
            Inputs and targets.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used; a ValueError.
        """
        with restored_on_failure(self):
            self._fit(self._read(X, y))
        return self

    def _fit(self, data: TrainingData) -> None:
        """Find the bases and fit the map."""
        self._store_spec(data.inputs, data.spec)
        self.ranges_ = SeenRanges.from_fit(data.inputs, data.input_extremes)
        rows = _rows(data.inputs)
        targets, self.channel_unit_, self.scalar_unit_ = _matrix(data.targets)
        self.points_ = data.inputs.coords if data.inputs.shared_coords else None
        # Global parameters have different units, so each is standardised. Fields are only centred.
        self.shift_ = rows.mean(axis=0)
        spread = rows[:, rows.shape[1] - data.inputs.n_params :].std(axis=0)
        self.scale_ = np.ones(rows.shape[1])
        self.scale_[rows.shape[1] - data.inputs.n_params :] = np.where(spread > 0, spread, 1.0)
        # With a single sample PCA divides by zero when it computes variances, which are not used here.
        with np.errstate(invalid="ignore", divide="ignore"):
            self.input_basis_ = PCA(self._components(rows)).fit(self._scaled(rows))
            self.output_basis_ = PCA(self._components(targets)).fit(targets)
        inputs = self.input_basis_.transform(self._scaled(rows))
        outputs = self.output_basis_.transform(targets)
        # Coefficients are divided by the size of the leading one, since kernels and penalties expect numbers of order
        # 1.
        self.units_ = tuple(side.std(axis=0).max() or 1.0 for side in (inputs, outputs))
        with np.errstate(invalid="ignore", divide="ignore"):
            self.regressor_ = self._make_regressor(inputs / self.units_[0]).fit(
                inputs / self.units_[0], outputs / self.units_[1]
            )

    def _components(self, rows: FloatArray) -> int | float:
        """Number of components, at most as many as the samples allow."""
        if isinstance(self.n_components, Integral):
            return min(int(self.n_components), *rows.shape)
        return self.n_components if len(rows) > 1 and np.ptp(rows, axis=0).any() else 1

    def _make_regressor(self, inputs: FloatArray) -> RegressorMixin:
        """Return the regressor between the coefficients, not fitted."""
        if self.regressor == "ridge":
            return RidgeCV(np.logspace(-6, 4, 21))
        if self.regressor == "gaussian_process":
            # The optimisation of the length scale starts at the mean distance of two samples.
            distance = max(float(np.sqrt(2 * inputs.var(axis=0).sum())), 1e-3)
            kernel = ConstantKernel(1.0) * Matern(distance, (0.1 * distance, 100 * distance), nu=2.5) + WhiteKernel(
                1e-3, (1e-8, 1e1)
            )
            return GaussianProcessRegressor(kernel)
        return DummyRegressor() if self.regressor == "mean" else clone(self.regressor)

    def _scaled(self, rows: FloatArray) -> FloatArray:
        """Return the rows of the input, shifted and scaled."""
        return (rows - self.shift_) / self.scale_

    def _moved(self, inputs: FieldSet) -> bool:
        """Whether the points differ from those of the fit."""
        if self.points_ is None:
            return False
        if inputs.grid_shape != self.spec_.grid_shape or inputs.coords.shape != self.points_.shape:
            return True
        tolerance = 1e-6 * float(np.ptp(self.points_))
        return not np.allclose(inputs.coords, self.points_, rtol=0, atol=tolerance)

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Outputs in physical units."""
        rows = _rows(inputs)
        if rows.shape[1] != len(self.shift_):
            raise FieldDataError(
                f"X has {rows.shape[1]} values per sample, but PODRegressor was fitted with {len(self.shift_)}, and "
                "works on its training points only; interpolate X onto the training points."
            )
        if self._moved(inputs):
            raise FieldDataError(
                "X is given on other points than in the fit, but PODRegressor works on its training points only; "
                "interpolate X onto the training points."
            )
        coefficients = self.regressor_.predict(self.input_basis_.transform(self._scaled(rows)) / self.units_[0])
        coefficients = np.asarray(coefficients).reshape(len(rows), -1) * self.units_[1]
        outputs = self.output_basis_.inverse_transform(coefficients)
        n_scalars = self.spec_.n_scalars
        scalars = outputs[:, outputs.shape[1] - n_scalars :] * self.scalar_unit_ if n_scalars else None
        if not self.spec_.n_outputs:
            return Predictions(None, scalars)
        fields = outputs[:, : outputs.shape[1] - n_scalars].reshape(len(rows), -1, self.spec_.n_outputs)
        return Predictions(fields * self.channel_unit_, scalars)


def _matrix(targets: Targets) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the targets as one row per sample, with scalars last, and the units of channels and scalars."""
    values = targets.scalars[:, None] if targets.field is None else targets.field.values  # type: ignore[index]
    values = np.asarray(values, dtype=np.float64)
    # Several channels or scalars are divided by their sizes, so that each has the same weight.
    spread = values.std(axis=(0, 1))
    units = np.where(spread > 0, spread, 1.0) if len(spread) > 1 else np.ones(1)
    if targets.field is None:
        return values[:, 0] / units, np.ones(0), units
    fields = (values / units).reshape(len(values), -1)
    if targets.scalars is None:
        return fields, units, np.ones(0)
    # Each scalar has as much weight as the whole field, so that the components represent both.
    numbers = np.asarray(targets.scalars, dtype=np.float64)
    total, varies = np.sqrt(fields.var(axis=0).sum()) or 1.0, numbers.std(axis=0)
    scalar_units = np.where(varies > 0, varies, 1.0) / total
    return np.concatenate([fields, numbers / scalar_units], axis=1), units, scalar_units


def _rows(inputs: FieldSet) -> FloatArray:
    """Return all input values that differ between samples, as one row per sample."""
    if inputs.is_ragged:
        raise FieldDataError("PODRegressor needs the same points in every sample; interpolate onto common points.")
    parts = [] if inputs.shared_coords else [inputs.coords]
    parts += [part for part in (inputs.values, inputs.params) if part is not None]
    return np.concatenate([np.asarray(part, dtype=np.float64).reshape(len(inputs), -1) for part in parts], axis=1)
