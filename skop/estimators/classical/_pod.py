"""PODRegressor: a classical surrogate model (POD and regression) as a baseline for comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from skop._sklearn_compat import HasMethods, Interval, SequenceOf, StrOptions, fit_context
from skop._threads import one_thread
from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data import (
    FieldSet,
    Predictions,
    TrainingData,
    interpolate_fields,
    query_points,
)
from skop.estimators._field import FieldRegressor, fitted_attributes, restored_on_failure
from skop.estimators._parts import by_chunks
from skop.estimators._weights import counts_as_weight, used_samples, weight_option
from skop.estimators.classical._common_grid import on_grid, readings, reads_points, warn_of_resampling
from skop.estimators.classical._components import MATTERS, OF_USE
from skop.estimators.classical._copies import groups_on_same_points, relative, without_copies
from skop.estimators.classical._few_samples import tell_error_of_few
from skop.estimators.classical._graph import export_pod
from skop.estimators.classical._input_reader import InputReader, refuse_ragged, regions_of
from skop.estimators.classical._kernel_models import KernelModel
from skop.estimators.classical._last_frame import LastFrame, check_last_frame
from skop.estimators.classical._model_search import REGRESSORS, ModelSearch, OutputSamples, Units
from skop.estimators.classical._nodes import Numbering
from skop.estimators.classical._odd_runs import warn_of_an_odd_run
from skop.estimators.classical._output_models import OutputModel, check_outputs_of, joined, joined_tensors
from skop.estimators.classical._target_rows import rounding_of
from skop.estimators.files._file_checks import Held, check_loaded, checks
from skop.exceptions import FieldDataError, each_warning_once, held_warnings, warn
from skop.networks import Outputs
from skop.surrogate._gradient import derivatives, selection
from skop.surrogate._stages import PREDICT_POINTS

__all__ = ["PODRegressor", "warn_of_new_values"]

#: Errors at new values of a parameter whose values samples share are named if they are this multiple of the
#: leave-one-out error, and matter.
_LARGER = 10.0
#: Curves between three shared values are named if they bend by this multiple of the leave-one-out errors, and by a part
#: of the deviation of the outputs that matters.
_CURVED = 3.0


class PODRegressor(FieldRegressor):
    """Proper orthogonal decomposition of inputs and outputs, and a regression between the coefficients.

    Fields are projected onto their principal components. A regressor maps the coefficients of the input, and global
    parameters, to the coefficients of the output, from which the output fields are computed. By default regressor,
    hyperparameters and number of components are chosen by the smallest leave-one-out error. Samples share one grid,
    mesh or point set, or have the same number of points, where equal indices are the same node. Places of nodes are
    inputs, beside parameters that differ in all samples only if they lower this error by 2 %. Other samples are
    interpolated to a common grid, and predictions back to the points of each sample, see `grid`.

    Parameters
    ----------
    regressor : {"auto", "mean", "ridge", "polynomial", "rbf", "gaussian_process", "akima"} or regressor, default="auto"
        Regressor between the coefficients:

        - ``"auto"``: that of the smallest leave-one-out error. For one parameter and for noise likelihoods count too.
        - ``"mean"``: the mean of the training targets.
        - ``"ridge"``: ridge regression.
        - ``"polynomial"``: least squares with polynomials of degree 1 to 3 in global parameters.
        - ``"rbf"``: polyharmonic radial basis functions; thin plates, and for one parameter natural splines.
        - ``"gaussian_process"``: the mean of a Gaussian process, which is kernel ridge regression, with a squared
          exponential or Matérn kernel and a length scale for each parameter and each of the leading components; with a
          linear part where inputs are fields.
        - ``"akima"``: cubics between samples of one parameter, with lines beyond the ends. Slopes depend on two
          neighbours on either side, so that a kink or a jump has a local effect only. Needs six samples or more, all
          with different values of the parameter.
        - any scikit-learn regressor that supports several outputs.

        With ``"auto"``, channels and scalars have models of their own if this lowers their errors by a fifth or more.
        An output of pure noise then does not spoil the others.
    n_components : "auto", int or float, default="auto"
        Number of principal components of input fields and of outputs, or the fraction of the variance that they must
        explain. ``"auto"``: all components of the input fields, and those of the outputs that help to predict samples
        that were left out. With a regressor of scikit-learn: as many as explain all but a millionth of the variance of
        the outputs. Global parameters are never projected.
    param_transform, target_transform : {"auto", "log"} or None, default="auto"
        Logarithms that the model reads and predicts. ``"log"``: those of the global parameters that are never negative
        in the fit; those of all targets, which must be positive. None: no logarithms. ``"auto"`` with
        ``regressor="auto"``: logarithms if they lower the leave-one-out error by a fifth. Parameters that are positive
        or span decades are tried together, and those that span decades, which may have zeros, alone. ``"auto"`` with
        another regressor: as None. Power laws, such as that of a load, a length and a modulus, become linear. Below
        the smallest sample logarithms go on by their tangents, but for exact laws and parameters over decades.
    grid : tuple of int, "auto" or None, default="auto"
        Regular grid to which samples without a grid are interpolated, linearly, and from which predictions are: the
        number of points along each axis of the bounding box of all training points. Leave-one-out errors are errors on
        the grid. ``"auto"`` interpolates only if samples differ in their number of points or their nodes do not
        correspond, to a grid with about eight times as many cells as the mean sample has points. None never
        interpolates; data on a grid are never interpolated. The distance of each grid point from the nearest point of a
        sample, which shows its shape, is one more input channel, see `skop.data.GridResampler`. With input fields or
        global parameters, and a regressor of skop, it is used only if it lowers the leave-one-out error by 2 %.
    input_fields, target_fields : list of str or None, default=None
        Names of the mesh fields that are inputs and targets; targets also if y is scalars, which are learnt too.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and predicting
        all fields at the centres of the cells, see `skop.data.read_meshes`.

    Attributes
    ----------
    models_ : list of OutputModel
        One model for all outputs, or several for different ones: each has the numbers of its ``channels`` and
        ``scalars``, the ``basis`` of these with ``components_``, ``mean_`` and ``n_components_``, which holds more
        outputs where ``among`` has the numbers of all, and the fitted ``regressor`` between the coefficients. Whether
        logarithms are taken is in ``reads_logarithms``, for each global parameter, and in ``learns_logarithms``.
    leave_one_out_error_ : float
        Mean relative L2 error of the training samples, as `score` measures it, each predicted by a fit to all others
        with the same hyperparameters and components; times a factor of at least 1 where length scales were tuned, see
        the notes. With up to 48 samples, or 24 groups, regressors are chosen again without some of them. If these have
        larger errors then, the error is multiplied by the geometric mean of the ratios. Infinite for copies of one
        sample. Not with a regressor of scikit-learn. With one parameter it is far above the error of new samples
        between those of the fit, since leaving out a sample doubles a gap. Samples with the same inputs are left out
        together. Where samples share the values of a parameter, it is the error at these values; with `groups` that
        number the values, it is that at others, and relative to the norms of fields in a group.
    leave_one_out_errors_ : dict of str to float
        The same error of each regressor that was tried, with the best hyperparameters; ``"logarithms"`` is that with
        logarithms, and ``"apart"`` that of several models for different outputs, where these are used. The last frame
        with the mean change is ``"mean"`` where a `RolloutRegressor` has changes learned. With more than 400 samples,
        those of far worse regressors are found with less care.
    resampling_error_ : float or None
        Mean relative L2 error of the training targets after interpolation to the common grid and back: the error of a
        model without any error on the grid. None without such a grid. A fit warns above 0.02.
    points_ : ndarray of shape (P, d) or None
        Points of the training samples, if all samples share them, or of the common grid.
    regions_ : ndarray of int, shape (P, c)
        Number of the region to which each value of the input fields belongs: channels that hold one number in each of
        some regions, in every sample, are read as a global parameter for each of these, after those that X has. -1 for
        other channels.
    input_basis_ : object
        Principal components of the other input fields, as rows of ``components_``, with ``mean_`` and
        ``n_components_``; None without such fields.
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
    All regressors of skop but ``"akima"`` are linear in the targets, so that leave-one-out residuals have a closed
    form, and no model is fitted again: they are the coefficients of the samples divided by the diagonal of the inverse
    system. Length scales are found by the gradient of the geometric mean of the leave-one-out error and of an error by
    the likelihood; with `groups`, of the leave-one-out error alone. They and the modes fit the training samples better
    than other samples, so that the leave-one-out error is too small. Therefore modes and length scales are found again
    without each eighth of the samples. This eighth is predicted by the kernel that is found, and by that from which the
    search starts. The former is taken only if its errors on these parts are smaller. The leave-one-out error is then
    multiplied by a factor, so that it is smaller than that of the start in the same ratio as these errors. With more
    than 400 samples, a part of them decides on kernels.

    With more than 2,000 samples, kernels have 1,500 inducing samples, each the farthest from the ones before it, and
    ridge regression on these kernels predicts all samples (subset of regressors). Leave-one-out residuals keep the
    inducing samples. Variances include the variance of the process given its values at the inducing samples
    (deterministic training conditional).

    Over one parameter, the first and the last sample do not count in leave-one-out errors, and all components share one
    regressor and one penalty. The page "How models are chosen" of the user guide has all rules. A slope of Akima's
    interpolation is a weighted mean of the slopes to both neighbours. The weights are norms, over all components, of
    the changes of slope on the other side.

    The standard deviation of ``predict(X, return_std=True)`` is that of a new observation: by a Gaussian process with
    the kernel of the regressor, or with ``"akima"`` by a random walk. It grows with the distance from the training
    samples. It is scaled so that the leave-one-out residuals of the training samples, divided by their standard
    deviations, have a mean square of 1, times the factor of the leave-one-out error. Between the values of a parameter
    that samples share, the error without all samples of a value comes to it, largest half-way; with two or three
    values, half of what predictions differ between neighbours. With `sample_weight` it is that of an observation of
    mean weight: noise is the root of the mean weight over its own times as large in others. It does not include other
    errors that no training sample shows: with 10 to 30 samples, some four of five new values without noise lie within
    two standard deviations.

    References
    ----------
    J. S. Hesthaven, S. Ubbiali, "Non-intrusive reduced order modeling of nonlinear problems using neural
    networks", J. Comput. Phys. 363 (2018), for regression between POD coefficients.
    S. Rippa, "An algorithm for selecting a good value for the parameter c in radial basis function interpolation",
    Adv. Comput. Math. 11 (1999), and C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning"
    (2006), section 5.4.2, for leave-one-out residuals and section 8.3 for inducing samples.
    H. Akima, "A new method of interpolation and smooth curve fitting based on local procedures", J. ACM 17 (1970).

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

    _tunes_scales = True  # whether length scales are searched for
    _like: list[OutputModel] | None = None  # models of which the outputs and logarithms are kept; None chooses these
    _tells_error = True  # whether the choice is repeated where the error of few samples would be too small
    #: The frame among the inputs since which changes are learned; None without one, and in earlier versions.
    last_frame_: LastFrame | None = None
    _parameter_constraints = {
        "regressor": [StrOptions({"auto", *REGRESSORS}), HasMethods(["fit", "predict"])],
        "n_components": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "param_transform": [StrOptions({"auto", "log"}), None],
        "target_transform": [StrOptions({"auto", "log"}), None],
        "grid": [StrOptions({"auto"}), tuple, list, None],
        "input_fields": [SequenceOf(str), None],
        "target_fields": [SequenceOf(str), None],
        "cell_data": [StrOptions({"refuse", "to_points", "cells"})],
    }

    def __init__(
        self,
        *,
        regressor: Any = "auto",
        n_components: int | float | str = "auto",
        param_transform: str | None = "auto",
        target_transform: str | None = "auto",
        grid: Any = "auto",
        input_fields: Any = None,
        target_fields: Any = None,
        cell_data: str = "refuse",
    ) -> None:
        self.regressor = regressor
        self.n_components = n_components
        self.param_transform = param_transform
        self.target_transform = target_transform
        self.grid = grid
        self.input_fields = input_fields
        self.target_fields = target_fields
        self.cell_data = cell_data

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None, groups: Any = None) -> Self:
        """Compute the principal components and fit the regressor.

        Parameters
        ----------
        X, y, params : as in `LaMORegressor.fit`
            Inputs, targets and global parameters.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the samples in means, components, regressions and leave-one-out errors, of which the ratios
            count. The variance of the noise of a sample is divided by its weight; interpolations go through samples of
            any positive weight. Samples with the same inputs and targets count as one of their weights together.
            Samples of weight 0 are not used.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, such as the frames of a run, which leave-one-out errors leave out as a whole.
            `TimeConditionedRegressor` and `RolloutRegressor` pass the trajectories.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used, samples have the same points in another order, there are fewer than two groups, or
            weights are given for a regressor of scikit-learn whose fit takes none; a ValueError.
        """
        with restored_on_failure(self):
            read = self._read(X, y, params=params, sample_weight=sample_weight, groups=groups)
            data, weight, labels, _ = used_samples(read, sample_weight, groups)
            numbers = None if labels is None else _numbered(labels)
            data, counts, numbers = without_copies(data, weight, numbers)
            weight = counts_as_weight(self, weight, counts)
            last_frame = LastFrame.of_plan(self._training_plan, data.targets)
            self._fit(data, numbers, weight=weight, last_frame=last_frame)
            tell_error_of_few(self, data, numbers, weight, last_frame)
            _warn_of_a_fit(self, data, numbers, weight, last_frame)
        return self

    def _fit(
        self,
        data: TrainingData,
        groups: IntArray | None = None,
        units: Units | None = None,
        weight: FloatArray | None = None,
        last_frame: LastFrame | None = None,
    ) -> None:
        """Choose whether frames are learned, or their changes since a last one if it is given; fit to these."""
        _fit_chosen(self, data, groups, units, relative(weight), last_frame)

    def _fit_on_points(
        self, data: TrainingData, groups: IntArray | None, units: Units | None, weight: FloatArray | None
    ) -> None:
        """Fit to samples on shared points, or on nodes that correspond, and choose which regions are parameters."""
        self.spec_, self.numbering_ = data.spec, None
        data = _as_learned(self, data)
        if self.last_frame_ is not None and units is not None:
            units = np.zeros_like(units[0]), units[1]
        self.points_ = data.inputs.coords if data.inputs.shared_coords else None
        if self.points_ is None:
            self.numbering_ = Numbering.from_fit(data.inputs.coords)
            self.numbering_.warn_of_other_nodes(data.inputs.coords)
        constant, every = regions_of(data.inputs, 1), regions_of(data.inputs)
        reader, search = _search(self, constant, data, groups, units, weight)
        if not isinstance(self.regressor, str):
            self.__dict__.update(vars(reader), models_=[search.fit_given()])
            return
        if not np.array_equal(constant, every):
            candidate, other = _search(self, every, data, groups, units, weight)
            if other.least_error() < OF_USE * search.least_error():
                reader, search = candidate, other
        self.__dict__.update(vars(reader))
        self.models_, self.leave_one_out_error_, self.leave_one_out_errors_ = search.run(self._like)

    def _points_of(self, inputs: FieldSet, models: list[OutputModel] | None = None) -> list[FloatArray]:
        """Inputs of the regressor of each model."""
        features, params = InputReader.of(self).transform(inputs)
        return [np.concatenate([model.scaled(params), features], axis=1) for model in models or self.models_]

    @staticmethod
    def _upgrade(held: dict[str, Any]) -> None:
        """Attributes in files from before numbers of regions were parameters, or outputs could have own models."""
        if "spec_" in held:
            held.setdefault("regions_", np.zeros((0, 0), dtype=int))
            held.setdefault("reads_points_", held.get("points_") is None)
        if "regressor_" not in held:
            return
        held["models_"] = [OutputModel.from_earlier(held)]
        held |= {"param_transform": None, "target_transform": None}

    @property
    def resampling_error_(self) -> float | None:
        """Relative error of the training targets after interpolation to a common grid and back; None without one."""
        return None if self.spec_.resampler is None else self.spec_.resampler.error

    def _facts(self) -> dict[str, Any]:
        """Leave-one-out errors, for the model card."""
        found: dict[str, Any] = {"resampling to a grid": self.resampling_error_}
        learned = {} if self.last_frame_ is None else {"learned": "the change since the last frame"}
        if hasattr(self, "leave_one_out_error_"):
            every = {"chosen": self.leave_one_out_error_} | self.leave_one_out_errors_
            # JSON has no number for an error that is not known.
            found["leave-one-out"] = {name: float(error) for name, error in every.items() if np.isfinite(error)}
        return learned | {"errors": found}

    def _on_common_grid(self, inputs: FieldSet) -> FieldSet:
        """Samples as the model reads them, interpolated to the common grid if there is one."""
        return inputs if self.spec_.resampler is None else self.spec_.resampler.to_grid(inputs)

    def _back(self, found: Predictions, places: FieldSet) -> Predictions:
        """Predictions as the model makes them, interpolated from the common grid to points if there is one."""
        if self.spec_.resampler is None or found.fields is None:
            return found
        return replace(found, fields=self.spec_.resampler.to_points(found.fields, places))

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Predict at other points: straight from the common grid, if there is one."""
        if self.spec_.resampler is None or not self.spec_.n_outputs:
            return super()._predict_at(inputs, coords)
        places = query_points(coords, inputs)
        return self._predict_values(inputs, places), places

    @by_chunks
    def predict(self, X: Any, coords: Any = None, return_std: bool = False, *, params: Any = None) -> Any:
        """Predict fields or scalars.

        Parameters
        ----------
        X : as in `fit`
            Inputs in the form that the estimator was fitted on, on the same points.
        coords : as in `LaMORegressor.predict`, or None, default=None
            Points of the predicted fields, interpolated with an error that is not told; None gives the points of X.
        return_std : bool, default=False
            Whether to return the standard deviation of the error too, see the notes of the class.
        params : as in `fit`, default=None
            Global parameters beside fields or meshes.

        Returns
        -------
        mean : ndarray, list, FieldSet, (coords, fields), list of meshes, (meshes, scalars), DataFrame or Series
            Prediction, in the form of the y of the fit.
        spread : of the same form
            Standard deviation; only if `return_std` is True. Meshes of the spread hold the fields ``<field>_spread``,
            which are written into the meshes of the mean too.

        Raises
        ------
        FieldDataError
            If X has another form or other points than in the fit, points in another order, or `return_std` is True
            with a regressor of scikit-learn, or after a fit to one sample or copies of one.
        """
        if not return_std:
            return super().predict(X, coords, params=params)

        def ask(inputs: FieldSet, points: Any) -> tuple[list[Predictions], FieldSet]:
            """Predict with the spread, which is interpolated to other points as the prediction is."""
            found, places = self._predict_where_asked(inputs, points)
            spread = self._predict_spread(inputs, None if points is None else places)
            if points is not None and spread.fields is not None and self.spec_.resampler is None:
                fields = interpolate_fields(inputs.with_values(spread.fields), places)
                # A curve through positive numbers can be negative between them.
                spread = replace(spread, fields=np.maximum(fields, 0.0))
            return [found, spread], places

        return self._answered(X, coords, params, ask)

    @one_thread()
    def _predict_values(self, inputs: FieldSet, places: FieldSet | None = None) -> Predictions:
        """Outputs in physical units, on a common grid also at places of other points."""
        places, seen = inputs if places is None else places, self._on_common_grid(inputs)
        points = self._points_of(seen)
        _refuse_other_points(self, seen)
        found = [model.predict(own) for model, own in zip(self.models_, points, strict=True)]
        outputs = self._back(joined(self.models_, found), places)
        return outputs if self.last_frame_ is None else self.last_frame_.added(outputs, inputs, places)

    def _predict_tensor(self, params: torch.Tensor, inputs: FieldSet | None = None) -> torch.Tensor:
        """Predict from global parameters (n, p) in float64 so that gradients flow to them.

        Fields and scalars are one row for each sample (n, P * c + s) in physical units. Fields of inputs, where the fit
        had any, are those of `inputs`.
        """
        features, frame, given = None, self.last_frame_, params
        if inputs is not None:
            if self.numbering_ is not None:
                self.numbering_.check(inputs.coords)
            rows, known = InputReader.of(self).transform(inputs)
            features, regions = torch.as_tensor(rows), torch.tensor(known[:, params.shape[1] :])
            params = torch.cat([params, regions], dim=1)
        found = joined_tensors(self.models_, params, features)
        if frame is None:
            return found
        last = given if inputs is None or not self.spec_.n_outputs else torch.as_tensor(np.asarray(inputs.values))
        return found + frame.among(last.to(found.dtype)).flatten(1)

    def gradient(
        self, X: Any, output: int | Callable[[torch.Tensor], torch.Tensor] | None = None, *, params: Any = None
    ) -> FloatArray:
        """Return the derivative of an output with respect to the global parameters of each sample.

        Automatic differentiation has none of the rounding of differences, in which weights nearly cancel.

        Parameters
        ----------
        X : as in `predict`, with global parameters
            A table of parameters or features, a FieldSet with `params`, or fields or meshes beside `params`.
        output : int, callable or None, default=None
            Output to differentiate, as in `LaMORegressor.gradient`: the index of a scalar output, or a function of the
            predicted fields ``(m, P, q)`` that returns a tensor ``(m,)``. None is for a single scalar.
        params : as in `predict`
            Global parameters beside fields or meshes, with respect to which the derivative is taken.

        Returns
        -------
        ndarray of shape (n, p)
            Derivatives, in units of the output per unit of the parameter.

        Raises
        ------
        FieldDataError
            If X has no global parameters, samples are interpolated to a common grid, `regressor` is one of
            scikit-learn, or `output` does not match the predictions.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import PODRegressor
        >>> X = np.random.default_rng(0).random((40, 2))
        >>> y = ((X - [0.3, 0.6]) ** 2).sum(axis=1)
        >>> model = PODRegressor().fit(X, y)
        >>> print(model.gradient([[0.5, 0.5]]).round(3))
        [[ 0.4 -0.2]]
        """
        with each_warning_once():
            inputs, _ = self._read_inputs(X, params)
            self._warn_if_outside(inputs)
            return _gradient(self, inputs, output)

    def export(self, path: PathOrStr, X: Any = None, *, params: Any = None, batch_size: int | None = None) -> None:
        """Write components and regressor as one graph for other runtimes: ONNX, or a program of `torch.export`.

        It maps inputs to outputs in physical units and double precision, for one number of points.

        Parameters
        ----------
        path, X, params, batch_size : as in `LaMORegressor.export`
            File to write, ``"model.onnx"`` or ``"model.pt2"``; samples on the points for which the graph is, which are
            required where the fit was on fields; and number of samples of a call.

        Raises
        ------
        FieldDataError
            If samples of the fit were interpolated to a common grid, y was on other points than X, the regressor is one
            of scikit-learn, or X is on other points than those of the fit. Other errors are those of
            `LaMORegressor.export`.

        Examples
        --------
        >>> import tempfile, numpy as np, torch
        >>> from skop import PODRegressor
        >>> X = np.random.default_rng(0).random((20, 2))
        >>> model = PODRegressor().fit(X, np.sin(X @ [[1.0], [2.0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.export(f"{folder}/model.pt2")
        ...     program = torch.export.load(f"{folder}/model.pt2")
        >>> (scalars,) = program.module()(torch.tensor(X))
        >>> bool(np.allclose(scalars.numpy(), model.predict(X)))
        True
        """
        check_is_fitted(self)
        with each_warning_once():
            export_pod(self, path, X, params, batch_size)

    def _leave_one_out(
        self, data: TrainingData, weight: FloatArray | None = None, groups: IntArray | None = None
    ) -> Predictions:
        """Predict each sample of the fit by a fit to all others, with the hyperparameters and bases of the whole fit.

        The regressors of skop have a closed form, which leaves out the groups of the fit. Others are fitted again on
        the parts of a cross-validation.
        """
        seen = _as_learned(self, data if self.spec_.resampler is None else on_grid(data, self.spec_.resampler))
        points = self._points_of(seen.inputs)
        weight = relative(weight)
        found = [m.left_out(seen.targets, own, weight, groups) for m, own in zip(self.models_, points, strict=True)]
        outputs = self._back(joined(self.models_, found), data.inputs)
        return outputs if self.last_frame_ is None else self.last_frame_.added(outputs, data.inputs)

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Prediction and its deviation on the points of the inputs; None of one sample, or with scikit-learn."""
        if not isinstance(self.models_[0].regressor, KernelModel) or self.models_[0].is_of_one_sample:
            return None
        return self._predict_values(inputs), self._predict_spread(inputs)

    @one_thread()
    def _predict_spread(self, inputs: FieldSet, places: FieldSet | None = None) -> Predictions:
        """Standard deviations of the errors of a prediction, in physical units, on a common grid also at places."""
        seen = self._on_common_grid(inputs)
        points, others = self._points_of(seen), self._points_of(seen, [model.going_on() for model in self.models_])
        pairs = zip(self.models_, points, others, strict=True)
        found = joined(self.models_, [model.spread(*both) for model, *both in pairs])
        return self._back(found, inputs if places is None else places)


def _gradient(model: PODRegressor, inputs: FieldSet, output: Any) -> FloatArray:
    """Derivative of an output of a fitted model with respect to the parameters of samples."""
    select, n_outputs = selection(model.spec_, inputs, output), model.spec_.n_outputs

    def values(rows: Any, given: torch.Tensor) -> torch.Tensor:
        # What cannot be predicted has no derivative.
        model._predict_values(inputs[rows])
        found = model._predict_tensor(given, inputs[rows])
        count = found.shape[1] - model.spec_.n_scalars
        field = found[:, :count].unflatten(1, (-1, n_outputs)) if n_outputs else None
        return select(Outputs(field, found[:, count:]))

    size = max(1, PREDICT_POINTS // int(inputs.n_points.max()))
    return derivatives(values, inputs.params, gen_batches(len(inputs), size))


def warn_of_new_values(model: PODRegressor) -> None:
    """Warn where the leave-one-out error says little of new values of a parameter.

    Parameters
    ----------
    model : PODRegressor
        Fitted model.
    """
    if not isinstance(model.regressor, str):
        return
    names = dict(enumerate(getattr(model, "feature_names_in_", model.spec_.param_names or ())))
    told, mean = model.leave_one_out_error_, model.leave_one_out_errors_["mean"]
    bent = {n for part in model.models_ for n, *sizes in part.bends() if sizes[0] >= _CURVED and sizes[1] >= MATTERS}
    if bent:
        warn(
            f"samples share three values of parameter{'s' * (len(bent) > 1)} "
            f"{', '.join(repr(names.get(n, n)) for n in sorted(bent))}, between which predictions are curved. The "
            f"leave-one-out error, {told:.2g}, is that of new samples at these values, and no residual shows the error "
            "between them, which can be far larger. Unless there are no other values, add a few samples between these."
        )
    # The leave-one-out error is that of all outputs, and models of some have others.
    if len(model.models_) > 1:
        return
    for place, values, factor in model.models_[0].at_new_values():
        # Whole numbers may be those of categories, and no parabola can be judged by three values.
        is_counted = len(values) < 4 or np.allclose(values, np.round(values), rtol=1e-9, atol=1e-9)
        if is_counted or factor < _LARGER or factor * told < MATTERS * mean:
            continue
        warn(
            f"samples share {len(values)} values of parameter {names.get(place, place)!r}, and tell little of others: "
            f"without all samples of a value the error is about {factor * told:.2g}, where the leave-one-out error, "
            f"that of new samples at these values, is {told:.2g}, and the mean has {mean:.2g}. If the samples of a "
            "value are one run, with a difference that no column shows, pass groups; else add samples at other values."
        )


def _warn_of_a_fit(
    model: PODRegressor,
    data: TrainingData,
    groups: IntArray | None,
    weight: FloatArray | None,
    last_frame: LastFrame | None,
) -> None:
    """Warn of what spoils the fit of a model, or is not shown by its errors."""
    warn_of_an_odd_run(model, data, groups, weight, last_frame=last_frame)
    warn_of_resampling(model.spec_.resampler, "use an operator for points, such as LaMORegressor")
    warn_of_new_values(model)
    if model.spec_.resampler is not None and model.grid == "auto" and not data.inputs.is_ragged:
        Numbering.from_fit(data.inputs.coords).warn_of_other_nodes(data.inputs.coords, has_grid=True)


def _fit_best(model: PODRegressor, fit: Callable[..., None], candidates: Sequence[Any], *options: Any) -> Any:
    """Fit to one or two candidates, keep the first unless the second predicts unseen samples better, and return it."""
    found = []
    for candidate in candidates:
        fit(candidate, *options)
        found.append(fitted_attributes(model))
    best = int(len(found) > 1 and OF_USE * found[0]["leave_one_out_error_"] > found[1]["leave_one_out_error_"])
    model.__dict__.update(found[best])
    return candidates[best]


def _fit_chosen(
    model: PODRegressor,
    data: TrainingData,
    groups: IntArray | None,
    units: Units | None,
    weight: FloatArray | None,
    last_frame: LastFrame | None,
) -> None:
    """Fit to targets, or to their changes since a last frame where these have smaller leave-one-out errors."""
    is_chosen = isinstance(model.regressor, str)
    if not is_chosen:
        weight_option(model.regressor, weight)
    # Changes can be negative, and have no logarithms that were asked for.
    can_change = is_chosen and last_frame is not None and model.target_transform != "log"
    held: dict[bool, Any] = {}

    def fit(frame: LastFrame | None) -> None:
        """Fit to frames, or to changes."""
        model.last_frame_ = frame
        with held_warnings() as held[frame is None]:
            _fit_to(model, data, groups, units, weight)

    chosen = _fit_best(model, fit, [None, last_frame] if can_change else [None])
    for text, kind in held[chosen is None]:
        warn(text, kind)


def _fit_to(
    model: PODRegressor,
    data: TrainingData,
    groups: IntArray | None,
    units: Units | None,
    weight: FloatArray | None,
) -> None:
    """Find a common grid where it is needed, the bases, and the map; units are those of standardised targets."""
    model._store_spec(data.inputs, data.spec)
    model._store_seen(data)
    candidates = readings(data, model.grid, is_chosen=isinstance(model.regressor, str))
    if candidates[0] is data:
        refuse_ragged(data.inputs, "the mean of fields" if model.regressor == "mean" else "PODRegressor")
    together = None if len(candidates) == 1 else groups_on_same_points(data.inputs, groups)
    if together is not None:
        chosen = _fit_best(model, model._fit_on_points, candidates, together, units, weight)
        if model.leave_one_out_error_ < OF_USE * model.leave_one_out_errors_["mean"]:
            if not reads_points(chosen):
                model._fit_on_points(chosen, groups, units, weight)
            return
    _fit_best(model, model._fit_on_points, candidates, groups, units, weight)
    # Noise is told by no points.
    if together is not None and model.leave_one_out_error_ < OF_USE * model.leave_one_out_errors_["mean"]:
        warn(
            f"the samples are on {together.max() + 1} different sets of points, and those on one do not tell of "
            "those on another: errors of the fit are those of new samples on these points, and predictions on "
            "others can be wrong. Add samples on other points."
        )


def _as_learned(model: PODRegressor, data: TrainingData) -> TrainingData:
    """Samples with the changes since the last frame as targets, if these are learned."""
    frame = model.last_frame_
    return data if frame is None else replace(data, targets=frame.changes(data.inputs, data.targets))


def _search(
    model: PODRegressor,
    regions: IntArray,
    data: TrainingData,
    groups: IntArray | None,
    units: Units | None,
    weight: FloatArray | None,
) -> tuple[InputReader, ModelSearch]:
    """What reads inputs whose numbers of regions are parameters, and the search for models from these."""
    inputs = data.inputs
    count: Any = None if model.n_components == "auto" else model.n_components

    def search(reads_points: bool) -> tuple[InputReader, ModelSearch]:
        """The same, with or without the places of points among the inputs."""
        reader, features, params = InputReader.fit(inputs, regions, count, weight, reads_points=reads_points)
        rounding = max(map(rounding_of, [inputs.params] + [inputs.values] * len(reader.regions)))
        samples = OutputSamples(features, params, rounding, data.targets, groups, units, weight)
        options = model.regressor, count, model.param_transform, model.target_transform
        return reader, ModelSearch(samples, *options, tunes_scales=model._tunes_scales)

    # Points that are the same in all samples of the fit, as in files of one mesh, tell nothing beside other inputs.
    has_others = inputs.n_channels > 0 or inputs.params is not None
    reads_points = model.numbering_ is not None and not (model.numbering_.is_fixed and has_others)
    found = search(reads_points)
    is_chosen = reads_points and inputs.n_channels == 0 and isinstance(model.regressor, str)
    if not is_chosen or inputs.params is None or len(np.unique(inputs.params, axis=0)) < len(inputs):
        return found
    # Nodes of new meshes of one shape differ by noise, which would stand beside the parameters.
    other = search(False)
    return found if found[1].least_error() < OF_USE * other[1].least_error() else other


def _numbered(labels: Any) -> IntArray:
    """Numbers of the groups of samples."""
    names, numbers = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise FieldDataError("groups has 1 group, and 2 or more are needed to leave one out; pass groups=None.")
    return np.asarray(numbers)


def _refuse_other_points(model: PODRegressor, inputs: FieldSet) -> None:
    """Refuse samples on other points than those of the fit, or whose points are numbered in another order."""
    if model.numbering_ is not None:
        model.numbering_.check(inputs.coords)
    known = model.points_
    if known is None:
        return
    is_alike = inputs.grid_shape == model.spec_.network_spec.grid_shape and inputs.coords.shape[-2:] == known.shape
    if not is_alike or not np.allclose(inputs.coords, known, rtol=0, atol=1e-6 * float(np.ptp(known))):
        raise FieldDataError(
            "X is given on other points than in the fit, but PODRegressor works on its training points only; "
            "interpolate X onto the training points."
        )


# ---------------------------------------------------------------------- what a file must hold
@checks("PODRegressor")
def _check_pod(held: Held) -> None:
    """Check a fitted PODRegressor from a file."""
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_")
    points, numbering = (
        held.array("points_", None, spec.n_dims, optional=True),
        held.part("numbering_", "Numbering", optional=True),
    )
    held.need(points is not None or numbering is not None, "points_", "the points of the fit")
    own = points if points is not None else numbering.first
    held.need(own.shape[1] == spec.n_dims, "numbering_", f"points in {spec.n_dims} dimensions")
    grid = spec.resampler
    held.need(grid is None or prod(grid.grid_shape) == len(own), "points_", "the points of the common grid")
    regions, n_fields = held.array("regions_", None, None, whole=True), spec.network_spec.n_fields
    n_regions, is_region = int(regions.max(initial=-1)) + 1, (regions >= 0).all(axis=0)
    held.need(
        (regions.size == 0 or regions.shape == (len(own), n_fields))
        and n_regions <= regions.size
        and np.array_equal(np.unique(regions[:, is_region]), np.arange(n_regions))
        and (regions[:, ~is_region] == -1).all(),
        "regions_",
        f"numbers of regions of {len(own)} points and {n_fields} channels",
    )
    width = len(own) * (n_fields - is_region.sum() + (spec.n_dims if held.flag("reads_points_") else 0))
    held.array("input_unit_", width, positive=True)
    basis = held.part("input_basis_", "Basis", optional=True)
    held.need((basis is None) == (width == 0), "input_basis_", "components of the input fields, if there are any")
    held.need(basis is None or len(basis.mean_) == width, "input_basis_", f"components of {width} values")
    has_rest = held.flag("has_rest_")
    held.number("input_scale_", positive=True)
    if held.part("last_frame_", "LastFrame", optional=True) is not None:
        sizes = (n_fields, spec.n_outputs) if spec.n_outputs else (spec.n_params, spec.n_scalars)
        check_last_frame(held, held.get("last_frame_"), *sizes)
    places = len(held.get("coords_")) if spec.target_points == "shared" else len(own)
    n_features = 0 if basis is None else len(basis.components_) + has_rest
    models = held.parts("models_", "OutputModel")
    for model in models:
        # Those of files of earlier versions were made of attributes of the estimator.
        check_loaded(model)
    for name, count in (("channels", spec.n_outputs), ("scalars", spec.n_scalars)):
        every = sorted(int(number) for model in models for number in getattr(model, name))
        held.need(every == list(range(count)), "models_", f"models of {count} {name}")
    for model in models:
        check_outputs_of(held, model, places, spec.n_params + n_regions, n_features)
