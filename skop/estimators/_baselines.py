"""PODRegressor: a classical surrogate model (POD and regression) as a baseline for comparisons."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from scipy.spatial import KDTree
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_predict

from skop._sklearn_compat import HasMethods, Interval, StrOptions, fit_context
from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, Predictions, Targets, TrainingData, interpolate_fields, refuse_mask
from skop.estimators._field import FieldRegressor, restored_on_failure
from skop.estimators._kernel_models import Decomposition, KernelModel, Selection
from skop.estimators._parts import by_chunks
from skop.estimators._persistence import KNOWN
from skop.exceptions import FieldDataError, each_warning_once, warn
from skop.metrics import channel_sizes

__all__ = ["PODRegressor", "groups_of_same_inputs", "merged", "nodes_correspond"]

#: Models with kernels, in the order in which they are tried.
_MODELS = ("mean", "ridge", "polynomial", "rbf", "gaussian_process")
#: Part of the variance that components may leave out where no error tells how many are needed.
_SHARE = 1e-6
#: Part of the error that components may have which are left out of large fields.
_NEGLIGIBLE = 0.01
#: Part of the error of the mean below which a model follows the parameter.
_VARIES = 0.5
#: Smallest positive number.
_TINY = float(np.finfo(float).tiny)
#: Part of the square of a field up to which what its components leave out is rounding, which is no input.
NOTHING_OUTSIDE = 1e-12
#: Relative size of differences that are rounding.
_ROUNDING = 1e-13
#: Parts of the cross-validation of regressors that have no closed form of it.
_FOLDS = 5
#: Neighbours of a node, and the multiple of their distance at which the next node of another sample is torn off.
_NEIGHBOURS, _TORN = 8, 4.0
#: Part of the nodes that may be torn off, and number of points below which nothing can be told.
_MOST_TORN, _FEWEST_POINTS = 0.1, 24


class PODRegressor(FieldRegressor):
    """Proper orthogonal decomposition of inputs and outputs, and a regression between the coefficients.

    Fields are projected onto their principal components. A regressor maps the coefficients of the input, and global
    parameters, to the coefficients of the output, from which the output fields are computed. By default regressor,
    hyperparameters and number of components are those of the smallest leave-one-out error. All samples must share one
    grid, mesh or point set, or have as many points, of which those of the same number are the same node: samples whose
    points are numbered in another order are refused or warned about. Otherwise the
    same data are accepted as by the operator regressors.

    Parameters
    ----------
    regressor : {"auto", "mean", "ridge", "polynomial", "rbf", "gaussian_process"} or regressor, default="auto"
        Regressor between the coefficients:

        - ``"auto"``: the one of the following with the smallest leave-one-out error, or several of them, each for some
          components, where this is much better.
        - ``"mean"``: the mean of the training targets.
        - ``"ridge"``: ridge regression.
        - ``"polynomial"``: least squares with polynomials of degree 1 to 3 in global parameters.
        - ``"rbf"``: polyharmonic radial basis functions; thin plates, and for one parameter natural splines.
        - ``"gaussian_process"``: the mean of a Gaussian process, which is kernel ridge regression, with a squared
          exponential or Matérn kernel and a length scale for each parameter and each of the leading components; with a
          linear part where inputs are fields.
        - any scikit-learn regressor that supports several outputs.
    n_components : "auto", int or float, default="auto"
        Number of principal components of input fields and of outputs, or the fraction of the variance that they must
        explain. ``"auto"``: all of the input fields, and all of the outputs up to the last one that is predicted better
        than by its mean; with a regressor of scikit-learn those that explain all but a millionth of the variance of
        the outputs. Global parameters are never projected.
    input_fields, target_fields : list of str or None, default=None
        Names of the mesh fields that are inputs and targets.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and predicting
        all fields at the centres of the cells, see `skop.data.read_meshes`.

    Attributes
    ----------
    regressor_ : object
        Fitted regressor between the coefficients.
    leave_one_out_error_ : float
        Mean relative L2 error of the training samples, as `score` measures it, each predicted by a fit to all others
        with the same hyperparameters and components; times a factor above 1 where length scales were tuned on few
        samples, see the notes. Not with a regressor of scikit-learn.
        With one parameter on a regular set of samples it is far above the error of new samples between those of the
        fit, since each sample that is left out doubles a gap; the choice among regressors is little affected.
    leave_one_out_errors_ : dict of str to float
        The same error of each regressor that was tried, with the best hyperparameters; ``"mixed"`` is the choice of a
        regressor for each component. With more than 400 samples that of a regressor which is at least 1.2 times worse
        on a part of them has the penalty that is best for this part, and with more than 2,000 fewer inducing samples.
    points_ : ndarray of shape (P, d) or None
        Points of the training samples, if all samples share them.
    input_basis_, output_basis_ : object
        Principal components of input fields and of outputs, as rows of ``components_``, with ``mean_`` and
        ``n_components_``; None without input fields.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.

    See Also
    --------
    LaMORegressor : A neural operator with the same interface.

    Notes
    -----
    All regressors of skop are linear in the targets, so that leave-one-out residuals have a closed form, and no model
    is fitted again: they are the coefficients of the samples divided by the diagonal of the inverse system. Length
    scales are found by the gradient of the leave-one-out error. Modes and length scales fit the training samples better
    than others, so that with fewer than 15 samples for each length scale this error is too small. Then they are found
    again without an eighth of the samples, which this kernel predicts, and so does the one from which the search
    starts; the same with the other eighths, or half of them where these agree. Only if the errors of these samples are
    smaller are length scales of their own taken, and the leave-one-out error is multiplied by a factor that makes it as
    much smaller than that of the start as these errors are. More than 400 samples decide on kernels by a part of them.

    With more than 2,000 samples, kernels are those of 1,500 inducing samples, of which each is the farthest from those
    before it, and ridge regression on these kernels predicts all samples (subset of regressors). Leave-one-out
    residuals keep the inducing samples as they are. To variances comes that of the process given its values at the
    inducing samples (deterministic training conditional). A regressor that is at least 1.2 times worse on some of the
    samples has 400 inducing samples.

    Over one parameter, a sample that is left out doubles the gap in which it is predicted. There the Gaussian process
    of the largest likelihood is taken where its leave-one-out error is at most twice the smallest, and this error is
    much larger than that of new samples between those of the fit.

    The standard deviation of ``predict(X, return_std=True)`` is that of a new observation by a Gaussian process with
    the kernel of the regressor: it grows with the distance from the training samples. Its size is such that the
    leave-one-out residuals of the training samples, divided by their standard deviations, have a mean square of 1.
    It knows nothing of errors that no training sample shows.

    References
    ----------
    J. S. Hesthaven, S. Ubbiali, "Non-intrusive reduced order modeling of nonlinear problems using neural
    networks", J. Comput. Phys. 363 (2018), for regression between POD coefficients.
    S. Rippa, "An algorithm for selecting a good value for the parameter c in radial basis function interpolation",
    Adv. Comput. Math. 11 (1999), and C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning"
    (2006), section 5.4.2, for leave-one-out residuals and section 8.3 for inducing samples.

    Examples
    --------
    >>> from skop import PODRegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = PODRegressor().fit(X[:20], y[:20])
    >>> mean, spread = model.predict(X[20:], return_std=True)
    >>> mean.shape, spread.shape
    ((4, 16, 16, 1), (4, 16, 16, 1))
    >>> sorted(model.leave_one_out_errors_)
    ['gaussian_process', 'mean', 'rbf', 'ridge']
    """

    _parameter_constraints = {
        "regressor": [StrOptions({"auto", *_MODELS}), HasMethods(["fit", "predict"])],
        "n_components": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "input_fields": ["array-like", None],
        "target_fields": ["array-like", None],
        "cell_data": [StrOptions({"refuse", "to_points", "cells"})],
    }

    def __init__(
        self,
        *,
        regressor: Any = "auto",
        n_components: int | float | str = "auto",
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
    def fit(self, X: Any, y: Any = None, *, params: Any = None, groups: Any = None) -> Self:
        """Compute the principal components and fit the regressor.

        Parameters
        ----------
        X, y, params : as in `LaMORegressor.fit`
            Inputs, targets and global parameters.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, such as the frames of a run. Leave-one-out errors then leave out whole groups,
            since the other samples of a group tell too much of one of them. `TimeConditionedRegressor` and
            `RolloutRegressor` pass the trajectories.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used, samples have the same points in another order, or there are fewer than two
            groups; a ValueError.
        """
        with restored_on_failure(self):
            data = self._read(X, y, params=params)
            self._fit(data, None if groups is None else _numbered(groups, len(data.inputs)))
        return self

    def _fit(self, data: TrainingData, groups: IntArray | None = None) -> None:
        """Find the bases and fit the map."""
        _refuse_ragged(data.inputs)
        self._store_spec(data.inputs, data.spec)
        self._store_seen(data.inputs, data.input_extremes)
        self.points_ = data.inputs.coords if data.inputs.shared_coords else None
        self.numbering_ = None
        if not data.inputs.shared_coords:
            self.numbering_ = _Numbering.from_fit(data.inputs.coords)
            self.numbering_.warn_of_other_nodes(data.inputs.coords)
        fields, params = _parts(data.inputs)
        is_auto = self.n_components == "auto"
        count: Any = None if is_auto else self.n_components
        # Global parameters have different units, so each is standardised. The components of fields share one unit, by
        # which they have together as much variance as the parameters.
        self.shift_, spread = params.mean(axis=0), params.std(axis=0)
        rounding = _rounding(data.inputs.params) * np.abs(self.shift_)
        self.scale_ = np.where(spread > rounding, spread, np.where(rounding > 0, np.abs(self.shift_), 1.0))
        self.input_unit_ = _field_units(data.inputs)
        held = Decomposition(fields / self.input_unit_, count) if fields.shape[1] else None
        self.input_basis_ = held.basis() if held is not None else None
        self.input_scale_ = 1.0
        self.has_rest_ = is_auto and self.input_basis_ is not None and not self.input_basis_.is_complete_
        points = self._points(fields, params, None if held is None else held.coefficients)
        size = float(np.sqrt(points[:, params.shape[1] :].var(axis=0).sum()))
        varies = size > _ROUNDING * float(np.linalg.norm(self.input_basis_.mean_)) if self.input_basis_ else False
        self.input_scale_ = size / np.sqrt(max(params.shape[1], 1)) if varies else 1.0
        points[:, params.shape[1] :] /= self.input_scale_

        targets = _Targets(data.targets)
        self.channel_unit_, self.scalar_unit_ = targets.channel_unit, targets.scalar_unit
        is_ours = isinstance(self.regressor, str)
        parts = Decomposition(targets.rows, count if is_ours or not is_auto else 1 - _SHARE)
        if is_ours:
            self._fit_kernels(points, parts, targets, groups)
            return
        self.output_basis_, coefficients = parts.basis(), parts.coefficients
        # Coefficients are divided by the size of the leading one, since penalties expect numbers of order 1.
        self.output_scale_ = coefficients.std(axis=0).max() or 1.0
        self.regressor_ = clone(self.regressor).fit(points, coefficients / self.output_scale_)

    def _fit_kernels(
        self, points: FloatArray, parts: Decomposition, targets: _Targets, groups: IntArray | None
    ) -> None:
        """Choose and fit a model with kernels."""
        weights, error = targets.measure(parts)
        selection = Selection(points, parts.coefficients, weights, error, len(self.shift_), groups)
        names = _MODELS if self.regressor == "auto" else dict.fromkeys(("mean", self.regressor))
        screened = {name: trials[0][0] for name in names if (trials := selection.screen(name))}
        shares = np.sqrt(np.cumsum(parts.variances[::-1])[::-1] / max(parts.variances.sum(), _TINY))
        if parts.is_large and self.n_components == "auto":
            # Components that the mean would predict as well, compared with the error, are left out.
            share = 0.5 * _NEGLIGIBLE * selection.least_screened() / max(screened["mean"], _TINY)
            count = max(int((shares > share).sum()), 1)
            selection.narrow(parts.coefficients[:, :count], targets.measure(parts, count)[1])
        tried = {name: found for name in names if (found := selection.search(name)) is not None}
        for name, item in tried.items():
            if not item.systems and (
                name == self.regressor or item.error < min(other.error for other in tried.values() if other.systems)
            ):
                again = selection.search(name, thorough=True)
                tried[name] = item if again is None else again
        if self.regressor not in ("auto", *tried):
            raise FieldDataError(
                f"regressor={self.regressor!r} needs more samples than {len(points)}, or inputs that are a few global "
                "parameters; use regressor='auto'."
            )
        if self.regressor == "auto":
            whole = [item for item in tried.values() if item.systems]
            found = min(whole, key=lambda item: item.error)
            mixed = selection.mix(whole)
            if mixed.error < found.error:
                tried["mixed"] = found = mixed
        else:
            found = tried[self.regressor]
            if self.regressor == "gaussian_process" and found.error > 0.999 * tried["mean"].error and len(points) > 1:
                warn(
                    "the Gaussian process is no better than the mean of the training samples "
                    f"(leave-one-out error {found.error:.3g}); the inputs tell nothing of the targets that these "
                    "samples could show."
                )
        if self.regressor in ("auto", "gaussian_process") and found.error < _VARIES * tried["mean"].error:
            found = selection.likeliest(found)
        self.leave_one_out_errors_ = {name: item.error for name, item in tried.items()}
        most = None
        if parts.is_large and self.n_components == "auto":
            most = max(int((shares * tried["mean"].error > _NEGLIGIBLE * found.error).sum()), 1)
        self.regressor_ = selection.fit(found, cut=self.n_components == "auto", most=most)
        self.output_basis_ = parts.basis(self.regressor_.left_out.shape[1])
        self.output_scale_ = 1.0
        self.leave_one_out_error_ = found.error
        components = self.output_basis_.components_
        held = parts.variances[: len(components)] @ components**2
        whole = np.einsum("ij,ij->j", parts.centred, parts.centred) / len(points)
        self.rest_variance_ = np.where(whole - held > _ROUNDING * whole, whole - held, 0.0)

    def _points(self, fields: FloatArray, params: FloatArray, coefficients: FloatArray | None = None) -> FloatArray:
        """Inputs of the regressor: standardised parameters, and coefficients of the fields, which may be known."""
        parts = [(params - self.shift_) / self.scale_]
        if self.input_basis_ is not None:
            rows = fields / self.input_unit_
            coefficients = self.input_basis_.transform(rows) if coefficients is None else coefficients
            parts.append(coefficients / self.input_scale_)
            if self.has_rest_:
                # Distances to the training samples count what their components do not hold.
                whole = ((rows - self.input_basis_.mean_) ** 2).sum(axis=1)
                outside = whole - (coefficients**2).sum(axis=1)
                outside = np.where(outside > NOTHING_OUTSIDE * whole, outside, 0.0)
                parts.append(np.sqrt(outside)[:, None] / self.input_scale_)
        return np.concatenate(parts, axis=1)

    def _moved(self, inputs: FieldSet) -> bool:
        """Whether the points differ from those of the fit."""
        if self.points_ is None:
            return False
        if inputs.grid_shape != self.spec_.grid_shape or inputs.coords.shape != self.points_.shape:
            return True
        tolerance = 1e-6 * float(np.ptp(self.points_))
        return not np.allclose(inputs.coords, self.points_, rtol=0, atol=tolerance)

    @by_chunks
    def predict(self, X: Any, coords: Any = None, return_std: bool = False, *, params: Any = None) -> Any:
        """Predict fields or scalars.

        Parameters
        ----------
        X : as in `fit`
            Inputs in the form that the estimator was fitted on, on the same points.
        coords : as in `LaMORegressor.predict`, or None, default=None
            Points at which fields are predicted, by interpolation; None gives the points of X.
        return_std : bool, default=False
            Whether to return the standard deviation of the error too, see the notes of the class.
        params : as in `fit`, default=None
            Global parameters beside fields or meshes.

        Returns
        -------
        mean : ndarray, list, FieldSet, (coords, fields), list of meshes, DataFrame or Series
            Prediction, in the form of the y of the fit.
        spread : of the same form
            Standard deviation; only if `return_std` is True. Meshes of the spread hold the fields ``<field>_spread``,
            which are written into the meshes of the mean too.

        Raises
        ------
        FieldDataError
            If X has another form or other points than in the fit, points in another order, or `return_std` is True
            with a regressor of scikit-learn.
        """
        if not return_std:
            return super().predict(X, coords, params=params)
        with each_warning_once():
            inputs, points, meshes = self._read_query(X, coords, params)
            self._warn_if_outside(inputs)
            predictions, places = self._predict_where_asked(inputs, points)
            spread = self._predict_spread(inputs)
        if points is not None and spread.fields is not None:
            fields = interpolate_fields(inputs.with_values(spread.fields), places)
            # A curve through positive numbers can be negative between them.
            spread = replace(spread, fields=np.maximum(fields, 0.0))
        labels = self._labels(X)
        mean = self._restore(predictions, places, meshes, labels)
        return mean, self._restore_spread(mean, spread, places, meshes, labels)

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Outputs in physical units."""
        fields, params = _parts(inputs)
        count, expected = fields.shape[1] + params.shape[1], len(self.input_unit_) + len(self.shift_)
        if count != expected:
            raise FieldDataError(
                f"X has {count} values per sample, but PODRegressor was fitted with {expected}, and "
                "works on its training points only; interpolate X onto the training points."
            )
        if self._moved(inputs):
            raise FieldDataError(
                "X is given on other points than in the fit, but PODRegressor works on its training points only; "
                "interpolate X onto the training points."
            )
        if self.numbering_ is not None:
            self.numbering_.check(inputs.coords)
        coefficients = np.asarray(self.regressor_.predict(self._points(fields, params))).reshape(len(inputs), -1)
        return self._in_physical_units(self.output_basis_.inverse_transform(coefficients * self.output_scale_))

    def _predict_tensor(self, params: torch.Tensor, inputs: FieldSet | None = None) -> torch.Tensor:
        """Predict from global parameters (n, p) in float64 so that gradients flow to them.

        Fields and scalars are one row for each sample (n, P * c + s) in physical units. Fields of inputs, where the fit
        had any, are those of `inputs`.
        """
        if not isinstance(self.regressor_, KernelModel):
            raise FieldDataError(
                f"gradients are known for the regressors of skop only, and regressor is a "
                f"{type(self.regressor_).__name__}; use regressor='auto'."
            )
        if inputs is not None and self.numbering_ is not None:
            self.numbering_.check(inputs.coords)
        convert = torch.as_tensor
        points = (params - convert(self.shift_)) / convert(self.scale_)
        if inputs is not None and self.input_basis_ is not None:
            held = self._points(*_parts(inputs))[:, len(self.shift_) :]
            points = torch.cat([points, convert(held)], dim=1)
        outputs = self.regressor_.predict(points) @ convert(self.output_basis_.components_)
        mean, n_channels = self.output_basis_.mean_, max(len(self.channel_unit_), 1)
        units = np.tile(self.channel_unit_, (len(mean) - len(self.scalar_unit_)) // n_channels)
        return (outputs + convert(mean)) * convert(np.append(units, self.scalar_unit_))

    def _leave_one_out(self, data: TrainingData) -> Predictions:
        """Predict each sample of the fit by a fit to all others, with the hyperparameters and bases of the whole fit.

        The regressors of skop have a closed form. Others are fitted again on the parts of a cross-validation.
        """
        rows, basis = _Targets(data.targets).rows, self.output_basis_
        coefficients = basis.transform(rows)
        if isinstance(self.regressor_, KernelModel):
            left_out = self.regressor_.left_out
        else:
            points = self._points(*_parts(data.inputs))
            parts = KFold(min(_FOLDS, len(rows)), shuffle=True, random_state=0)
            scaled = coefficients / self.output_scale_
            found = cross_val_predict(self.regressor_, points, scaled, cv=parts)
            left_out = coefficients - found.reshape(coefficients.shape) * self.output_scale_
        # What the components do not hold is predicted by its mean.
        outside = rows - basis.inverse_transform(coefficients)
        predicted = basis.inverse_transform(coefficients - left_out) - outside / max(len(rows) - 1, 1)
        return self._in_physical_units(predicted)

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Prediction and its standard deviation on the points of the inputs; None with a regressor of scikit-learn."""
        if not isinstance(self.regressor_, KernelModel):
            return None
        return self._predict_values(inputs), self._predict_spread(inputs)

    def _predict_spread(self, inputs: FieldSet) -> Predictions:
        """Standard deviations of the errors of a prediction, in physical units."""
        if not isinstance(self.regressor_, KernelModel):
            raise FieldDataError(
                f"a spread is known for the regressors of skop only, and regressor is a "
                f"{type(self.regressor_).__name__}; use regressor='auto', or an EnsembleRegressor."
            )
        model, components = self.regressor_, self.output_basis_.components_
        trained = model.left_out_variances()
        # Residuals of components are correlated, by which the variance of a point differs from the sum of theirs.
        sizes = np.sqrt(trained.mean(axis=0))
        standard = model.left_out / np.sqrt(np.maximum(trained, _TINY))
        together = (((standard * sizes) @ components) ** 2).mean(axis=0)
        apart = sizes**2 @ components**2
        factor = np.divide(together, apart, out=np.ones_like(apart), where=apart > 0)
        n = len(standard)
        variances = factor * (np.maximum(model.variances(self._points(*_parts(inputs))), 0.0) @ components**2)
        return self._in_physical_units(np.sqrt(variances + self.rest_variance_ * (n + 1) / max(n - 1, 1)))

    def _in_physical_units(self, outputs: FloatArray) -> Predictions:
        """Fields and scalars of rows of outputs."""
        n_scalars = self.spec_.n_scalars
        scalars = outputs[:, outputs.shape[1] - n_scalars :] * self.scalar_unit_ if n_scalars else None
        if not self.spec_.n_outputs:
            return Predictions(None, scalars)
        fields = outputs[:, : outputs.shape[1] - n_scalars].reshape(len(outputs), -1, self.spec_.n_outputs)
        return Predictions(fields * self.channel_unit_, scalars)


def nodes_correspond(inputs: FieldSet) -> bool:
    """Tell whether the nodes of samples are the same or correspond, so that PODRegressor can relate them.

    Parameters
    ----------
    inputs : FieldSet
        Samples with the same number of points.

    Returns
    -------
    bool
        False if some samples have their points numbered in another order.
    """
    if inputs.shared_coords:
        return True
    try:
        return _Numbering.from_fit(inputs.coords).is_known
    except FieldDataError:
        return False


def _numbered(groups: Any, n_samples: int) -> IntArray:
    """Numbers of the groups of samples."""
    refuse_mask(groups, "groups")
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise FieldDataError(f"groups has shape {labels.shape}, expected ({n_samples},): one label for each sample.")
    names, numbers = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise FieldDataError("groups has 1 group, and 2 or more are needed to leave one out; pass groups=None.")
    return np.asarray(numbers)


def groups_of_same_inputs(inputs: FieldSet) -> IntArray:
    """Number the samples so that those with the same inputs have the same number.

    The order of the numbers is as good as random, but depends on these inputs only, and not on other samples.

    Parameters
    ----------
    inputs : FieldSet
        n samples with the same number of points.

    Returns
    -------
    ndarray of int, shape (n,)
        Numbers from 0 on.
    """
    parts = [] if inputs.shared_coords else [inputs.coords]
    parts += [np.asarray(part) for part in (inputs.values, inputs.params) if part is not None]
    # A negative zero is a zero.
    rows = (b"".join((np.array(part[i], np.float64) + 0.0).tobytes() for part in parts) for i in range(len(inputs)))
    digests = np.frombuffer(b"".join(hashlib.sha256(row).digest()[:8] for row in rows), dtype="<u8")
    return np.asarray(np.unique(digests, return_inverse=True)[1])


def merged(data: TrainingData) -> tuple[TrainingData, IntArray]:
    """Merge samples with the same inputs into one, with the mean of their targets.

    Parameters
    ----------
    data : TrainingData
        n samples with the same number of points.

    Returns
    -------
    data : TrainingData
        Samples of different inputs; all that came, where either all or none have the same inputs.
    group : ndarray of int, shape (n,)
        Number of the merged sample of each one.
    """
    group = groups_of_same_inputs(data.inputs)
    # Where no input differs, each sample is predicted by the mean of the others.
    if group.max() + 1 in (1, len(group)):
        return data, np.arange(len(group))
    first = np.unique(group, return_index=True)[1]
    targets, fields, scalars = data.targets[first], data.targets.field, data.targets.scalars
    field = None if fields is None or targets.field is None else targets.field.with_values(_means(fields.values, group))
    means = Targets(field, None if scalars is None else _means(scalars, group), targets.elsewhere)
    return TrainingData(data.inputs[first], means, data.spec), group


def _means(values: Any, group: IntArray) -> FloatArray:
    """Means of the rows of each group."""
    counts = np.bincount(group)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, group, np.asarray(values, dtype=np.float64))
    return sums / counts.reshape(-1, *[1] * (sums.ndim - 1))


@dataclass(frozen=True, eq=False)
class _Numbering:
    """How the nodes of samples with points of their own are numbered.

    Attributes
    ----------
    first : ndarray of shape (P, d)
        Points of the first training sample.
    nearest : ndarray of int, shape (P,)
        Nearest node of each one.
    reach : ndarray of shape (P,)
        Distances up to which both remain neighbours in another sample of the same size.
    is_known : bool
        Whether the nodes of all training samples correspond.
    """

    first: FloatArray
    nearest: IntArray
    reach: FloatArray
    is_known: bool

    @classmethod
    def from_fit(cls, coords: FloatArray) -> _Numbering:
        """Describe the nodes of training samples (n, P, d)."""
        first = np.asarray(coords[0], dtype=np.float64)
        distances, near = KDTree(first).query(first, min(_NEIGHBOURS + 1, len(first)))
        distances, near = distances.reshape(len(first), -1), near.reshape(len(first), -1)
        # Points that coincide are listed in any order.
        nearest = np.where(near[:, 0] == np.arange(len(first)), near[:, min(1, near.shape[1] - 1)], near[:, 0])
        found = cls(first, nearest, _TORN * distances[:, -1], True)
        found._refuse_same_points(coords)
        return replace(found, is_known=not (found._torn(coords) > _MOST_TORN).any())

    def warn_of_other_nodes(self, coords: FloatArray) -> None:
        """Warn if the nodes of training samples (n, P, d) do not correspond."""
        if self.is_known:
            return
        torn = np.flatnonzero(self._torn(coords) > _MOST_TORN)
        warn(
            f"the points of {len(torn)} of {len(coords)} samples, such as that of index {torn[0]}, are numbered in "
            "another order than those of the first: nodes that are neighbours there lie far apart here. PODRegressor "
            "takes points of the same number for the same node, so that its predictions will be poor; number the "
            "points alike, interpolate all samples onto common points, or use an operator for points, such as "
            "LaMORegressor."
        )

    def check(self, coords: FloatArray) -> None:
        """Refuse samples (n, P, d) whose points are numbered in another order than those of the fit."""
        self._refuse_same_points(coords)
        if not self.is_known:
            return
        torn = np.flatnonzero(self._torn(coords) > _MOST_TORN)
        if len(torn):
            raise FieldDataError(
                f"the points of the sample of index {torn[0]} are numbered in another order than those of the fit: "
                "nodes that were neighbours lie far apart. PODRegressor takes points of the same number for the same "
                "node; number the points as in the fit, or use an operator for points, such as LaMORegressor."
            )

    def _torn(self, coords: FloatArray) -> FloatArray:
        """Part of the nodes of each sample that lie far from the node that was next to them."""
        if len(self.first) < _FEWEST_POINTS:
            return np.zeros(len(coords))
        size = np.linalg.norm(np.ptp(self.first, axis=0))
        found = np.empty(len(coords))
        for number, sample in enumerate(np.asarray(coords, dtype=np.float64)):
            stretch = np.linalg.norm(np.ptp(sample, axis=0)) / size if size > 0 else 1.0
            apart = np.linalg.norm(sample - sample[self.nearest], axis=1)
            found[number] = (apart > self.reach * max(stretch, _ROUNDING)).mean()
        return found

    def _refuse_same_points(self, coords: FloatArray) -> None:
        """Refuse a sample with the points of the first training sample in another order."""
        tolerance = 1e-6 * float(np.ptp(self.first, axis=0).max(initial=0.0))
        ordered = np.sort(self.first, axis=0)
        for number, sample in enumerate(np.asarray(coords, dtype=np.float64)):
            is_same = np.abs(sample - self.first).max() <= tolerance
            if is_same or np.abs(np.sort(sample, axis=0) - ordered).max() > tolerance:
                continue
            if KDTree(self.first).query(sample)[0].max() <= tolerance:
                raise FieldDataError(
                    f"the sample of index {number} has the same points as the first sample of the fit, but numbered "
                    "in another order. PODRegressor takes points of the same number for the same node; sort the points "
                    "and values of all samples alike, for instance by np.lexsort(coords.T)."
                )


KNOWN[_Numbering.__name__] = _Numbering


class _Targets:
    """Targets as one row per sample, with scalars last, and their errors as `score` measures them."""

    def __init__(self, targets: Targets) -> None:
        scalars = None if targets.scalars is None else np.asarray(targets.scalars, dtype=np.float64)
        self.channel_unit: FloatArray = np.ones(0)
        self.scalar_unit: FloatArray = np.ones(0)
        #: Units over the sizes by which a score divides.
        self.field_ratio: FloatArray = np.ones(0)
        self.scalar_ratio: FloatArray = np.ones(0)
        self.norms: FloatArray | None = None
        parts = []
        if targets.field is not None:
            values = np.asarray(targets.field.values, dtype=np.float64)
            self.channel_unit, sizes = _spreads(values, _rounding(targets.field.values)), _sizes(values)
            rows = (values / self.channel_unit).reshape(len(values), -1)
            self.field_ratio = np.tile(self.channel_unit / sizes, values.shape[1])
            norms = np.sqrt(((rows * self.field_ratio) ** 2).sum(axis=1))
            self.norms = np.where(norms > 0, norms, np.sqrt((norms**2).mean()) or 1.0)
            parts.append(rows)
        if scalars is not None:
            rounding = _rounding(targets.scalars)
            self.scalar_unit, sizes = _spreads(scalars[:, None], rounding), _sizes(scalars[:, None])
            if parts:
                # Each scalar has as much weight as the whole field, so that the components represent both.
                spread = _own_spreads(scalars[:, None], rounding)
                self.scalar_unit = spread / (np.sqrt(parts[0].var(axis=0).sum()) or 1.0)
            parts.append(scalars / self.scalar_unit)
            self.scalar_ratio = self.scalar_unit / sizes
            self.squares = ((scalars / sizes) ** 2).sum(axis=1)
        self.products: FloatArray | None = None
        self.rows = np.concatenate(parts, axis=1)

    def measure(self, parts: Decomposition, kept: int | None = None) -> tuple[FloatArray, Any]:
        """Weights of the samples, and the error of residuals of the leading coefficients of those that are kept."""
        norms, size, n = self.norms, len(self.field_ratio), len(self.rows)
        is_plain = len(self.channel_unit) == 1 and not len(self.scalar_ratio)
        if kept is None:
            self.products = None if is_plain or not size else parts.products(self.field_ratio)
        products = self.products if self.products is None else self.products[:kept, :kept]
        coefficients = parts.coefficients[:, :kept]
        numbers = parts.columns(slice(size, None)) * self.scalar_ratio
        # What the components do not hold is predicted by the mean of the other samples.
        whole = ((parts.centred[:, :size] * self.field_ratio) ** 2).sum(axis=1)
        inside = coefficients if products is None else coefficients @ products
        outside = whole - (inside * coefficients).sum(axis=1)
        outside = np.where(outside > 1e-12 * whole, outside, 0.0) * (n / max(n - 1, 1)) ** 2

        def error(residuals: FloatArray, samples: IntArray) -> float:
            if not np.isfinite(residuals).all():
                return np.inf
            count, errors = residuals.shape[1], []
            if norms is not None:
                weighted = residuals if products is None else residuals @ products[:count, :count]
                squares = np.maximum((weighted * residuals).sum(axis=1), 0.0) + outside[samples]
                errors.append(float((np.sqrt(squares) / norms[samples]).mean()))
            if numbers.shape[1]:
                whole = float(self.squares[samples].sum()) or 1.0
                errors.append(float(np.sqrt(((residuals @ numbers[:count]) ** 2).sum() / whole)))
            return float(np.mean(errors))

        weights = np.full(n, 1.0 / n) if norms is None else 1.0 / (n * norms)
        return weights, error


def _rounding(values: Any) -> float:
    """Relative size of differences that are rounding, in numbers of some precision; in double precision without any."""
    kind = np.dtype(getattr(values, "dtype", np.float64))
    return max(_ROUNDING, 2 * float(np.finfo(kind).eps)) if kind.kind == "f" else _ROUNDING


def _spreads(values: FloatArray, rounding: float) -> FloatArray:
    """Units in which each of several channels (n, P, c) has the same weight; one for a single channel."""
    return np.ones(1) if values.shape[-1] == 1 else _own_spreads(values, rounding)


def _own_spreads(values: FloatArray, rounding: float) -> FloatArray:
    """Standard deviations of channels (n, P, c); the largest value of one that is constant up to rounding, or 1.

    In this unit the rounding stays as small, and predictions are the constant.
    """
    spread, size = values.std(axis=(0, 1)), np.abs(values).max(axis=(0, 1), initial=0.0)
    return np.where(spread > rounding * size, spread, np.where(size > 0, size, 1.0))


def _sizes(values: FloatArray) -> FloatArray:
    """Sizes of several channels by which a score divides; one for a single channel."""
    return channel_sizes(values, kind="field") if values.shape[-1] > 1 and values.any() else np.ones(values.shape[-1])


def _refuse_ragged(inputs: FieldSet) -> None:
    """Refuse samples with different numbers of points."""
    if inputs.is_ragged:
        raise FieldDataError("PODRegressor needs the same points in every sample; interpolate onto common points.")


def _parts(inputs: FieldSet) -> tuple[FloatArray, FloatArray]:
    """Return all values of fields that differ between samples (n, F), and global parameters (n, p)."""
    _refuse_ragged(inputs)
    n = len(inputs)
    parts = [np.zeros((n, 0))] if inputs.shared_coords else [inputs.coords]
    parts += [] if inputs.values is None else [inputs.values]
    fields = np.concatenate([np.asarray(part, dtype=np.float64).reshape(n, -1) for part in parts], axis=1)
    params = np.zeros((n, 0)) if inputs.params is None else np.asarray(inputs.params, dtype=np.float64)
    return fields, params


def _field_units(inputs: FieldSet) -> FloatArray:
    """Units of the values of fields (F,): several channels are divided by their spreads, and so are coordinates."""
    n_places = inputs.n_points[0]
    found = [] if inputs.shared_coords else [np.full(n_places * inputs.n_dims, float(np.std(inputs.coords)) or 1.0)]
    if inputs.values is not None:
        values, rounding = np.asarray(inputs.values, dtype=np.float64), _rounding(inputs.values)
        if found and values.shape[-1] == 1:
            found.append(np.full(n_places, _own_spreads(values, rounding)[0]))
        else:
            found.append(np.tile(_spreads(values, rounding), n_places))
    return np.concatenate(found) if found else np.ones(0)
