"""OperatorRegressor: base class that makes a neural operator a scikit-learn estimator (fit, predict, score, save).

A subclass adds its own parameters, their constraints, and the method that builds its network.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, p global parameters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import prod
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skop._sklearn_compat import CallbackSupportMixin, fit_context
from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data import DataSpec, FieldSet, PointSymmetries, Predictions, TrainingData
from skop.estimators._field import FieldRegressor, fitted_attributes, restored_on_failure
from skop.estimators._weights import labels_of_groups
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.fitting._base_model import BaseModel
from skop.estimators.fitting._callbacks import EpochCallbacks
from skop.estimators.fitting._checkpoint import FitCheckpoints
from skop.estimators.fitting._cost import CostEstimate, MeasuresCost, cheaper_settings
from skop.estimators.fitting._fingerprint import described_fit
from skop.estimators.fitting._session import FitSession
from skop.estimators.fitting._session_base import why_no_base
from skop.estimators.operators._export import export_estimator
from skop.estimators.operators._parameters import OperatorParameters
from skop.exceptions import FieldDataError, each_warning_once
from skop.surrogate import Surrogate
from skop.surrogate._building import refuse_too_large
from skop.surrogate._correction import CorrectionNetwork, IncrementNetwork
from skop.surrogate._gradient import gradient
from skop.surrogate._images import moving_symmetries, with_exchange
from skop.surrogate._symmetries import periodic_axes
from skop.surrogate._tokens import mean_tokens
from skop.training import DIRECT_TRAINING, Group, History, TrainingPlan, join_group
from skop.training._runtime import isolated_randomness, pick_dtype

__all__ = ["OperatorRegressor"]

#: Try a network without memory first if one of its parameters exceeds this size.
_USUAL_SIZE = 256


class OperatorRegressor(OperatorParameters, CallbackSupportMixin, MeasuresCost, FieldRegressor):
    """Base class of the operator regressors: fit, predict, score and save for fields and tables.

    A subclass states its parameters as fields made by `skop.parts.param`, and `_build_network` builds its network. Its
    documentation gets the sections of parameters and attributes automatically. Subclasses are registered when they are
    defined, so that they can be saved and loaded.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network.
    loss_curve_ : list of float
        Mean training loss of each epoch.
    validation_scores_ : list of float
        1 minus the validation error after each epoch; empty without early stopping.
    n_iter_ : int
        Number of epochs run.
    best_iter_ : int
        Epoch whose weights were kept.
    stopped_ : str
        Reason why training ended: ``"max_iter"``, ``"max_time"``, ``"early_stopping"``, ``"callback"``,
        ``"interrupted"``, or ``"base"`` if the network was of no use over its base, which then predicts alone.
    fit_seconds_ : float
        Duration of the training in seconds.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    geometry_ : {"grid", "structured", "points"}
        Arrangement of the points, see the parameter `geometry`.
    periodic_axes_ : tuple of int
        Axes of the grid along which samples are one period: convolutions, if there are any, wrap around them.
    resampling_error_ : float or None
        Mean relative L2 error of the training targets after interpolation to the grid and back: the error of a network
        without any error on the grid. None without resampling. A fit warns above 0.02.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.
    base_ : object or None
        Fitted base model: its ``estimator``, and the ``error`` of its predictions for samples that it has not seen,
        relative to their variation. None without a base, also if it was dropped because the network was far better.
    backend_ : str
        Implementation of the scans in the fit: ``"numba"`` and ``"triton"`` are the fused kernels for CPU and CUDA,
        ``"mamba_ssm"`` is the kernel of that package for CUDA, ``"torch"`` is plain PyTorch; several are joined by
        commas.
    device_, dtype_ : torch.device, str
        Device and precision of the network.
    fit_record_ : dict
        Samples of the fit, their points, checksum and split, and date and seconds of the call that ended it; `save`
        writes them into the card of the model, which ``skop describe`` shows.
    """

    #: Whether the points of a sample can be drawn at random in training.
    _draws_points: ClassVar[bool] = False
    _takes_other_points = True
    #: Base model of the fit; None without one, and in models of versions without base models.
    base_ = cast("BaseModel | None", None)
    #: First channel of the frame among the inputs to which outputs are added; None without, and in earlier versions.
    last_frame_ = cast("int | None", None)
    #: Duration of the last fit of a base model.
    _base_seconds = 0.0
    #: Size of the features, from which a fit chooses its number of threads; operators make it a parameter.
    width = 64  # without an annotation it is no field of the dataclass

    # ------------------------------------------------------------------ network and geometry
    def _build_network(self, spec: DataSpec, geometry: str) -> torch.nn.Module:
        """Build the untrained network for data of this `DataSpec.network_spec` and geometry."""
        raise NotImplementedError

    def _new_network(self, spec: DataSpec, geometry: str) -> torch.nn.Module:
        """Build the untrained network, over the last frame among its inputs, or over a base with its predictions."""
        wide, learns_rest = spec, self.base_ is not None and self.base_.leaves_rest
        if learns_rest:
            wide = replace(spec, n_fields=spec.n_fields + spec.n_outputs, n_params=spec.n_params + spec.n_scalars)
        network = self._build_network(wide, geometry)
        if self.last_frame_ is not None:
            network = IncrementNetwork(network, self.last_frame_, spec.n_outputs or spec.n_scalars)
        sizes = spec.n_outputs, spec.n_scalars
        return network if self.base_ is None else CorrectionNetwork(network, *sizes, learns_rest)

    def _check_size(self, spec: DataSpec, geometry: str, parameters: dict[str, Any]) -> None:
        """Raise an error if the parameters of the network describe one that this machine has no memory for."""
        sizes: list[Any] = [value for value in parameters.values() if isinstance(value, Real)]
        if max(sizes, default=0) > _USUAL_SIZE:
            item_size = 8 if pick_dtype(self.dtype, spec.role) == "float64" else 4
            with isolated_randomness(np.random.RandomState(0), torch.device("cpu"), False):
                refuse_too_large(lambda: self._new_network(spec, geometry), item_size)

    def _choose_geometry(self, spec: DataSpec) -> str:
        """Return ``"grid"``, ``"structured"`` or ``"points"``; raise an error if the data do not fit `geometry`."""
        if self.geometry == "auto":
            return spec.geometry
        if self.geometry != "points" and (spec.grid_shape is None or len(spec.grid_shape) != spec.n_dims):
            raise FieldDataError(
                f"geometry={self.geometry!r} needs the points of a regular grid in C order, but the {spec.n_dims}-D "
                "points of X form no grid; use geometry='auto', sort the points of a grid by "
                "numpy.lexsort(coords.T[::-1]), or resample the fields onto one by grid='auto'."
            )
        return self.geometry

    @property
    def resampling_error_(self) -> float | None:
        """Relative error of the training targets after interpolation to the grid and back; None without resampling."""
        return None if self.spec_.resampler is None else self.spec_.resampler.error

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "module_")

    @property
    def _continues(self) -> bool:
        """Whether a fit goes on from the last one."""
        return self.warm_start and hasattr(self, "module_")

    # ------------------------------------------------------------------ fit
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        params: Any = None,
        checkpoint_dir: Any = None,
    ) -> Self:
        """Train the network on samples.

        Parameters
        ----------
        X : array-like, FieldSet, (coords, fields), list, or meshes
            Inputs, in one of these forms:

            - an array ``(n, *grid, c)`` of fields on a regular grid of the unit box;
            - a `skop.FieldSet`;
            - a tuple of coordinates ``(P, d)`` and fields ``(n, P, c)``;
            - a list with ``(coords, fields)`` or points ``(P_i, d)`` for each sample;
            - meshes: a list of `meshio.Mesh`, a list of paths, or a pattern such as ``"runs/*.vtu"``;
            - a DataFrame with one column of paths of meshes, whose other columns are global parameters;
            - a table ``(n, p)``: global parameters if y is a field, features if y is scalars. A function on p points of
              [0, 1] needs a channel axis, ``(n, p, 1)``, or a FieldSet.
        y : array-like, FieldSet, (coords, fields), list, meshes, (mesh, values) or None, default=None
            Targets: fields on the points of X, with or without a channel axis, or scalars ``(n,)`` or ``(n, q)``. The
            `params` of a FieldSet are scalars that are predicted in addition to its field, and so are scalars beside
            meshes X with `target_fields`. None is for meshes that contain the targets. Meshes beside a table X are the
            results of its rows, on one mesh or on each run's own; ``(mesh, values)`` are values ``(n, P)`` or
            ``(n, P, c)`` on one mesh or file. A FieldSet and meshes may be on other points than an X with coordinates,
            shared or each sample's own, if the network can be asked at any point: networks on points, DeepONet, and
            MNO's hosts `GNOT` and `OFormer` on grids. The network is then trained at these points.
        sample_weight : array-like of shape (n,) or None, default=None
            Weight of each sample in the loss, the scalers and the base; samples of weight 0 are not used.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, such as the frames of a run or the loads of a geometry. Groups are held out as
            a whole: from the base, whose errors are then those of new groups, for the share of the network, to see
            overfitting, and by `early_stopping`. A base needs at least 10 groups. A warm start with other groups holds
            out other samples. `TimeConditionedRegressor` and `RolloutRegressor` keep trajectories together by
            themselves.
        params : DataFrame, dict of columns, array-like of shape (n, p) or None, default=None
            Global parameters of the runs beside fields or meshes, such as a design of experiments. Rows are matched
            with mesh files by the one column, or the index, that holds their paths, names or stems; without such names
            by their order, which is the natural order of the files for a pattern (a warning says how).
        checkpoint_dir : path-like or None, default=None
            Folder for checkpoints: a fit that was killed and is called again with the same arguments goes on from the
            last one, and ends with the same weights; one that has ended is loaded. Each fit has a folder of its own in
            it, so that all fits can be given the same. It needs an integer as `random_state`. None writes nothing.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used, or y is on other points than X where the network or a parameter needs both on the
            same; a ValueError.
        TrainingDivergedError
            If the loss is still not finite at lower learning rates.
        MemoryError
            If a training step on a single sample runs out of memory; the message says what to set.
        OSError
            If `checkpoint_dir` cannot be written.
        KeyboardInterrupt
            If the user interrupts before the first epoch is complete. Later an interrupt ends the training with a
            warning, and the best weights so far are kept.
        """
        # A fit that fails leaves an earlier one, or none, as it was.
        network = getattr(self, "module_", None)
        kept = network.shares_restored_on_failure() if isinstance(network, CorrectionNetwork) else nullcontext()
        with restored_on_failure(self), kept:
            self._train(X, y, sample_weight, self._training_plan, groups, params, checkpoint_dir)
        return self

    def _train(
        self, X: Any, y: Any, sample_weight: Any, plan: TrainingPlan, groups: Any, params: Any, checkpoint_dir: Any
    ) -> History:
        """Read the data, prepare and train the network, and store the results."""
        self._check_parts()
        group = join_group(self._options("training").distributed)
        with group.together():
            return self._train_in(group, X, y, sample_weight, plan, groups, params, checkpoint_dir)

    def _train_in(
        self,
        group: Group,
        X: Any,
        y: Any,
        sample_weight: Any,
        plan: TrainingPlan,
        groups: Any,
        params: Any,
        checkpoint_dir: Any,
    ) -> History:
        """Read the data, and prepare and train the network together with the other processes of a group."""
        start, continues = time.perf_counter(), self._continues
        if continues:
            self._check_continuation()
        reset = not (continues and self.spec_.is_table)
        data = self._read(X, y, params=params, sample_weight=sample_weight, groups=groups, reset=reset)
        labels = labels_of_groups(groups, len(data.inputs))
        group.require_same(lambda: described_fit(self, data, sample_weight, labels, plan, checkpoint_dir))
        kept = FitCheckpoints.of(checkpoint_dir, self, data, sample_weight, labels, plan, group)
        if (ended := kept.model(self)) is not None:
            for name in (*fitted_attributes(self), "_earlier"):
                self.__dict__.pop(name, None)
            self.__dict__.update(ended)
            return History(stopped=self.stopped_)
        session = FitSession(self, data, sample_weight, plan, kept, start, labels)
        session.prepare()
        told: dict[str, Any] = {"cheaper": cheaper_settings(self, session.points), "is_told": group.is_main}
        with kept.watching():
            with EpochCallbacks(self, X, y, sample_weight, params, **told) as callbacks:
                session.train(callbacks)
            return session.finish()

    def _estimate_cost(
        self, X: Any, y: Any, sample_weight: Any, plan: TrainingPlan = DIRECT_TRAINING, *, params: Any = None
    ) -> CostEstimate:
        """Measure a copy of the estimator by a plan, and copies with cheaper settings."""
        self._check_parts()
        # A plan with a function of its own has it for this object, which is a copy already.
        probe = self._probe() if plan.forward is None else self.set_params(random_state=0)
        data = probe._read(X, y, params=params, sample_weight=sample_weight)
        cost, cheaper = FitSession(probe, data, sample_weight, plan).measure()
        costs = {
            f"{name}={value}": FitSession(self._probe(**{name: value}), data, sample_weight, plan).measure()[0].seconds
            for name, value in cheaper.items()
            if plan.forward is None
        }
        return CostEstimate.of_epochs(cost, self.max_iter, self.max_time, costs, before=probe._base_seconds)

    def _probe(self, **changes: Any) -> Self:
        """Return an unfitted copy with other parameters, which draws nothing from the user's random numbers."""
        return clone(self).set_params(random_state=0, **changes)

    # ------------------------------------------------------------------ what a session asks
    def _check_samples(self, data: TrainingData) -> None:
        """Check samples as the network sees them; a subclass may store what depends on them."""

    def _largest_batch(self, batch_size: int, inputs: FieldSet) -> int:
        """Return an automatic batch size; a subclass may lower it."""
        return batch_size

    def _why_no_base(
        self, data: TrainingData, used: IntArray, plan: TrainingPlan, groups: IntArray | None = None
    ) -> str:
        """Say why the samples cannot have a base model; nothing if they can."""
        return why_no_base(self, data, used, plan, groups)

    def _sorts_points(self) -> bool:
        """Whether the points of a sample are brought into one order before the network sees them."""
        # Statistics of single points are in the order of the fit.
        return self.geometry_ == self.spec_.network_spec.geometry == "points" and not self.scalers_.per_point

    # ------------------------------------------------------------------ prediction
    @property
    def surrogate_(self) -> Surrogate:
        """Fitted model without its estimator."""
        return Surrogate(
            spec=self.spec_,
            geometry=self.geometry_,
            scalers=self.scalers_,
            network=self.module_,
            base=with_exchange(self.base_, self._symmetries, self.spec_.network_spec, self._columns, self.scalers_),
            domain=self.domain_,
            spacing=self.spacing_,
            refinement=self.refinement,
            symmetries=self._symmetries,
            # Declared shifts of a continued fit, and of files of earlier versions, are not among those of the network.
            periodic=tuple({*getattr(self, "periodic_axes_", ()), *periodic_axes(self._symmetries, self.geometry_)}),
            centre=getattr(self, "symmetry_centre_", None),
            columns=self._columns(self.spec_),
            sensors=None,
            sorts_points=self._sorts_points(),
            sees_grid=True,
            is_deterministic=self._options("training").deterministic,
            width=int(self.width),
            device=self.device_,
            dtype=getattr(torch, self.dtype_),
        )

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Predict in physical units on the points of the inputs."""
        return self.surrogate_.predict(inputs)

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Predict at other points than those of the samples; return the outputs and these points."""
        return self.surrogate_.predict_at(inputs, coords)

    def _tokens(self, inputs: FieldSet) -> FloatArray | None:
        """Means ``(n, E)`` over the points of the last tokens of the network, as it sees the samples."""
        of_images = self.reference_ is None or self.reference_.has_images
        return mean_tokens(self.surrogate_, inputs, of_images=of_images)

    def _moving(self) -> PointSymmetries | None:
        """Declared symmetries, as ones that move points."""
        if self._symmetries is None:
            return None
        box, centre = np.stack([self.domain_.lower, self.domain_.upper]), getattr(self, "symmetry_centre_", None)
        return moving_symmetries(self._symmetries, self.spec_, box, self._columns(self.spec_), centre)

    def _facts(self) -> dict[str, Any]:
        """Network, training and errors, for the model card."""
        network: dict[str, Any] = {
            "weights": sum(weight.numel() for weight in self.module_.parameters()),
            "geometry": self.geometry_,
            "periodic_axes": list(getattr(self, "periodic_axes_", ())),
            "precision": self.dtype_,
            "epochs": self.n_iter_,
            "kept_epoch": self.best_iter_,
            "ended_by": self.stopped_,
        }
        if self.last_frame_ is not None:
            network["learned"] = "the change since the last frame, where it is small"
        errors: dict[str, Any] = {"resampling to a grid": self.resampling_error_}
        facts: dict[str, Any] = {"network": network, "errors": errors}
        if self.validation_scores_:
            # The share of a network over a base is chosen after the training.
            whole = "validation" if self.base_ is None else "validation of the network before its share was chosen"
            errors[whole] = 1.0 - max(self.validation_scores_)
        if self.base_ is not None:
            errors["base on unseen samples, relative to the variation of y"] = float(self.base_.error)
            shares = [*self.module_.field_share.tolist(), *self.module_.scalar_share.tolist()]
            network["shares_over_base"] = dict(zip(self.spec_.output_names, shares, strict=True))
            facts["holds"] = [self.base_.estimator]
        return facts

    def _columns(self, spec: DataSpec) -> Sequence[str] | None:
        """Names of the global parameters, if there are any."""
        columns: Sequence[str] = getattr(self, "feature_names_in_", ())
        return columns if len(columns) == spec.n_params else spec.param_names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.scaling is not None and self._options("scaling").target_transform == "log"
        return tags

    # ------------------------------------------------------------------ other runtimes
    def export(self, path: PathOrStr, X: Any = None, *, params: Any = None, batch_size: int | None = None) -> None:
        """Write network, scalers and base as one graph for other runtimes: ONNX, or a program of `torch.export`.

        The graph maps inputs in physical units to outputs in physical units, for one number of points. Scans are
        written in plain operations.

        Parameters
        ----------
        path : path-like
            File to write: ``"model.onnx"`` needs the package onnxscript, ``"model.pt2"`` does not. An existing
            file is replaced when the new one is complete.
        X : as in `predict`, or None, default=None
            Samples on the points for which the graph is; required where the fit was on fields. On points that all
            samples share, their coordinates are part of the graph; otherwise these are an input.
        params : as in `predict`
            Global parameters beside fields or meshes, where the fit had them.
        batch_size : int or None, default=None
            Number of samples of a call; None for any number.

        Raises
        ------
        FieldDataError
            If a prediction is more than one call of base and network (``grid=``, averaged symmetries, finer grids, y on
            other points than X), samples of X differ in their number of points or are on other points than a base, the
            network depends on the order of each sample's own points, or the base is an estimator other than
            `PODRegressor`, or has a regressor that is not of skop; a ValueError.
        ValueError
            If the name of the file ends in something else.
        SkopError
            If PyTorch cannot convert the network to ONNX.
        OptionalDependencyError
            If the packages that write ONNX files are not installed.
        OSError
            If the file cannot be written, before the graph is made.

        See Also
        --------
        save : Write a file that `skop.load` reads.

        Notes
        -----
        Inputs of the graph are, in this order and where the estimator has them: ``coords`` (B, *grid, d), ``fields``
        (B, *grid, c) and ``params`` (B, p); the outputs are ``field`` (B, *grid, q) and ``scalars`` (B, s). Points that
        form no grid have one axis instead of those of the grid. Metadata in the file hold their names, shapes, types
        and channel names, and the version of skop. ONNX graphs compute in single precision. Inputs and outputs whose
        mean is far larger than their variation, exponentials of ``target_transform="log"``, and a base are in double
        precision. Where the share of the network is zero, the graph is the base alone.

        Examples
        --------
        >>> import tempfile, numpy as np, torch
        >>> from skop import LaMORegressor
        >>> X, y = np.random.default_rng(0).random((2, 10, 4, 4, 1))
        >>> model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.export(f"{folder}/model.pt2", X)
        ...     program = torch.export.load(f"{folder}/model.pt2")
        >>> (field,) = program.module()(torch.tensor(X, dtype=torch.float32))
        >>> bool(np.allclose(field.numpy(), model.predict(X), atol=1e-5))
        True
        """
        check_is_fitted(self)
        with each_warning_once():
            export_estimator(self, path, X, params, batch_size)

    # ------------------------------------------------------------------ derivatives
    def gradient(
        self, X: Any, output: int | Callable[[torch.Tensor], torch.Tensor] | None = None, *, params: Any = None
    ) -> FloatArray:
        """Return the derivative of an output with respect to the global parameters of each sample.

        It is computed by automatic differentiation through the scalers and the network. Optimisers then need no finite
        differences, whose small steps are lost in single precision.

        Parameters
        ----------
        X : as in `predict`, with global parameters
            A table of parameters or features, a FieldSet with `params`, or fields or meshes beside `params`, at the
            resolution of the training.
        output : int, callable or None, default=None
            Output to differentiate: the index of a scalar output; or a function that takes the predicted fields, a
            tensor ``(m, P, q)`` of m samples, P points and q channels in physical units, and returns a tensor ``(m,)``,
            such as ``lambda field: field[..., 0].amax(dim=1)``. A large set comes in parts of m < n samples, and
            samples with different numbers of points come one at a time; where the function compares with data of each
            sample, call `gradient` for one sample after the other. None is for estimators that predict a single scalar.
        params : as in `predict`
            Global parameters beside fields or meshes, with respect to which the derivative is taken.

        Returns
        -------
        ndarray of shape (n, p)
            Derivatives, in units of the output per unit of the parameter.

        Raises
        ------
        FieldDataError
            If X has no global parameters, its grid is finer than the training grid, samples are resampled by `grid`, or
            `output` does not match the predictions.

        See Also
        --------
        predict : Predict the outputs.

        Examples
        --------
        Find the design with the smallest output, by SciPy with the derivative:

        >>> import numpy as np
        >>> from scipy.optimize import minimize
        >>> from skop import LaMORegressor
        >>> X = np.random.default_rng(0).random((60, 2))
        >>> y = ((X - [0.3, 0.6]) ** 2).sum(axis=1)
        >>> model = LaMORegressor(width=16, depth=1, max_iter=60, random_state=0).fit(X, y)
        >>> found = minimize(
        ...     lambda p: model.predict(p[None])[0],
        ...     [0.8, 0.2],
        ...     jac=lambda p: model.gradient(p[None])[0],
        ...     bounds=[(0, 1)] * 2,
        ...     method="L-BFGS-B",
        ... )
        >>> bool(np.abs(found.x - [0.3, 0.6]).max() < 0.1)
        True
        """
        with each_warning_once():
            inputs, _ = self._read_inputs(X, params)
            self._warn_if_outside(inputs)
            return gradient(self.surrogate_, inputs, output)


# ---------------------------------------------------------------------- what a file must hold
@checks("OperatorRegressor")
def _check_operator(held: Held) -> None:
    """What an operator regressor predicts with, beside its network."""
    if "spec_" not in vars(held.value):
        return
    held.need(isinstance(held.get("module_"), dict), "module_", "the weights of a network")
    spec = held.part("spec_", "DataSpec")
    inner = spec.network_spec
    geometry = held.word("geometry_", ("grid", "structured", "points"))
    held.need(geometry == "points" or inner.grid_shape is not None, "geometry_", "'points', as there is no grid")
    held.word("dtype_", ("float32", "float64"))
    domain = held.part("domain_", "Domain")
    held.need(len(domain.lower) == spec.n_dims, "domain_", f"a box of {spec.n_dims} dimensions")
    lengths = None if domain.lines is None else tuple(len(line) for line in domain.lines)
    held.need(lengths in (None, inner.grid_shape), "domain_", f"lines of the grid {inner.grid_shape}")
    has_lines = spec.resampler is None or geometry != "grid" or lengths is not None
    held.need(has_lines, "domain_", "lines of the grid of the resampling")
    _check_spacing(held, domain, spec.n_dims)
    if hasattr(held.value, "symmetry_centre_"):
        held.array("symmetry_centre_", spec.n_dims, optional=True)
    if hasattr(held.value, "periodic_axes_"):
        axes = held.get("periodic_axes_")
        n_axes = len(inner.grid_shape or ())
        is_known = isinstance(axes, tuple) and all(type(axis) is int and axis in range(n_axes) for axis in axes)
        held.need(is_known, "periodic_axes_", "axes of the grid")
    scalers = held.part("scalers_", "Scalers")
    _check_sizes_of_scalers(held, scalers, inner)
    _check_base_or_frame(held, spec)
    parameters = held.get("network_parameters_")
    is_named = isinstance(parameters, dict) and all(isinstance(name, str) for name in parameters)
    held.need(is_named, "network_parameters_", "parameters by name")
    _check_record_of_training(held)


def _check_base_or_frame(held: Held, spec: DataSpec) -> None:
    """A base must be of the same outputs, and a last frame be among the inputs."""
    base, inner = held.part("base_", "BaseModel", optional=True), spec.network_spec
    if base is not None:
        theirs = base.estimator.spec_
        held.need(
            (theirs.n_outputs, theirs.n_scalars, theirs.n_dims) == (spec.n_outputs, spec.n_scalars, spec.n_dims),
            "base_",
            "a model of the same outputs",
        )
    if held.get("last_frame_") is not None:
        first = held.whole("last_frame_")
        given, count = (inner.n_fields, inner.n_outputs) if inner.n_outputs else (inner.n_params, inner.n_scalars)
        is_one = (base is None or not base.leaves_rest) and not (inner.n_outputs and inner.n_scalars)
        held.need(is_one and first + count <= given, "last_frame_", "the first channel of a frame in X")


def _check_record_of_training(held: Held) -> None:
    """What a training says of itself must be numbers and words."""
    for name in ("n_iter_", "best_iter_"):
        held.whole(name)
    for name in ("stopped_", "backend_"):
        held.word(name)
    held.number("fit_seconds_")
    for name in ("loss_curve_", "validation_scores_"):
        curve = held.get(name)
        is_curve = isinstance(curve, list) and all(isinstance(item, int | float) for item in curve)
        held.need(is_curve, name, "a list of numbers")


def _check_spacing(held: Held, domain: Any, n_dims: int) -> None:
    """The spacing of the grid must be that of its lines."""
    spacing = held.get("spacing_")
    is_spacing = spacing is None or (
        isinstance(spacing, tuple)
        and len(spacing) == n_dims
        and all(isinstance(step, float) and 0 < step < np.inf for step in spacing)
    )
    held.need(is_spacing, "spacing_", f"{n_dims} positive numbers, or None")
    if spacing is not None and domain.lines is not None:
        # A wrong spacing would make a grid count as finer or coarser than it is.
        for axis, line in enumerate(domain.lines):
            span = float(np.ptp(line))
            is_known = len(line) < 2 or abs(spacing[axis] * (len(line) - 1) - span) <= 1e-3 * span
            held.need(is_known, "spacing_", "the spacing of the grid lines")


def _check_sizes_of_scalers(held: Held, scalers: Any, spec: Any) -> None:
    """Scalers must have the sizes of the data as the network sees them."""
    held.need(len(scalers.coords.lower_) == spec.n_dims, "scalers_", f"a scaler of {spec.n_dims} coordinates")
    sizes = {"fields": spec.n_fields, "params": spec.n_params, "target": spec.n_outputs, "scalars": spec.n_scalars}
    for name, count in sizes.items():
        scaler = getattr(scalers, name)
        held.need(
            (scaler is None) == (count == 0) and (scaler is None or scaler.mean_.shape[-1] == count),
            "scalers_",
            f"a scaler of {count} {name}",
        )
        if scaler is not None and scaler.mean_.ndim == 2:
            places = None if spec.grid_shape is None else prod(spec.grid_shape)
            held.need(name in ("fields", "target"), "scalers_", f"one number for each of {name}")
            held.need(places in (None, len(scaler.mean_)), "scalers_", f"statistics of {places} points")
