"""OperatorRegressor: base class that makes a neural operator a scikit-learn estimator (fit, predict, score, save).

A subclass adds its own parameters, their constraints, and the method that builds its network.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, p global parameters.
"""

from __future__ import annotations

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

from skop._parameters import Choice, HasParts, Whole, are_equal, param
from skop._sklearn_compat import CallbackSupportMixin, HasMethods, Interval, SequenceOf, fit_context
from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data import DataSpec, FieldSet, Predictions, ScalingOptions, TrainingData
from skop.estimators._field import FieldRegressor, fitted_attributes, restored_on_failure
from skop.estimators._options import SymmetryOptions
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.fitting._base_model import BaseModel
from skop.estimators.fitting._callbacks import EpochCallbacks
from skop.estimators.fitting._checkpoint import FitCheckpoints
from skop.estimators.fitting._cost import CostEstimate, MeasuresCost, cheaper_settings
from skop.estimators.fitting._fingerprint import described_fit
from skop.estimators.fitting._session import FitSession
from skop.estimators.fitting._session_base import why_no_base
from skop.estimators.operators._export import export_estimator
from skop.exceptions import FieldDataError, SkopWarning, each_warning_once, warn
from skop.surrogate import Surrogate
from skop.surrogate._building import refuse_too_large
from skop.surrogate._correction import CorrectionNetwork
from skop.surrogate._gradient import gradient
from skop.surrogate._tokens import mean_tokens
from skop.training import DIRECT_TRAINING, Group, History, TrainingOptions, TrainingPlan, join_group
from skop.training._runtime import isolated_randomness, pick_dtype

__all__ = ["OperatorRegressor"]

#: Try a network without memory first if one of its parameters exceeds this size.
_USUAL_SIZE = 256
#: Parameters of the training and of predictions, which change neither the network nor the scaling of the data.
_FREE_PARAMETERS = frozenset(
    (
        *("max_iter", "max_time", "batch_size", "learning_rate_init", "weight_decay", "early_stopping", "loss"),
        *("symmetries", "refinement", "input_fields", "target_fields", "cell_data", "warm_start", "random_state"),
        *("device", "verbose", "training"),
    )
)


class OperatorRegressor(HasParts, CallbackSupportMixin, MeasuresCost, FieldRegressor):
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
    resampling_error_ : float or None
        Mean relative L2 error of the training targets after interpolation to the grid and back: the error of a network
        without any error on the grid. None without resampling. A fit warns above 0.02.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.
    scalers_ : skop.data.Scalers
        Fitted scalers.
    surrogate_ : skop.surrogate.Surrogate
        The fitted model without its estimator: scalers, base, network, and the stages that lead to it.
    base_ : object or None
        Fitted base model: its ``estimator``, and the ``error`` of its predictions for samples that it has not seen,
        relative to their variation. None without a base, also if it was dropped because the network was far better.
    backend_ : str
        Implementation of the scans in the fit: ``"numba"`` and ``"triton"`` are the fused kernels for CPU and CUDA,
        ``"mamba_ssm"`` is the kernel of that package for CUDA, ``"torch"`` is plain PyTorch; several are joined by
        commas.
    device_, dtype_ : torch.device, str
        Device and precision of the network.
    domain_ : object
        Box and grid lines of the training points. Predictions outside of them cause a warning.
    symmetry_centre_ : ndarray of shape (d,) or None
        Centre of the box of all training points, about which named symmetries move points where no domain is declared;
        None where no points are moved.
    ranges_ : object
        Ranges of the global parameters, input fields and points, by which `check` and predictions judge new data.
    network_parameters_ : dict
        Parameters of the network and the scaling by name, as they were in the fit. A warm start and `save` refuse
        an estimator whose parameters are others now.
    """

    max_iter: int = param(
        Whole(1),
        default=100,
        text="Largest number of epochs (papers: 500).",
    )
    max_time: float | None = param(
        Interval(Real, 0, None, closed="neither"),
        None,
        default=None,
        text=(
            "Time limit of the training in seconds. The learning rate schedule then follows the time and is complete "
            "when the time is up. The fit of a `base` counts. Results depend on the speed of the machine."
        ),
    )
    batch_size: int | str = param(
        Choice("auto"),
        Whole(1),
        default="auto",
        text=(
            'Number of samples in a mini-batch (papers: 1 to 8). ``"auto"``: an eighth of the samples or fewer; on '
            "grids up to 16 samples of about 8192 points together, but at least 8 if these have at most 131072 "
            "points; up to 8 samples of about 4096 points together if the points form no grid; up to 200 samples for "
            "tables of plain features."
        ),
    )
    learning_rate_init: float = param(
        Interval(Real, 0, None, closed="neither"),
        default=4e-3,
        text="Peak learning rate of the optimiser (papers: 3e-4 to 1e-3).",
    )
    weight_decay: float = param(
        Interval(Real, 0, None, closed="left"),
        default=0.1,
        text=("Weight decay (decoupled L2 penalty) of the optimiser (papers: 1e-5; 0.05 for LaMO on Navier-Stokes)."),
    )
    early_stopping: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether to hold out a fraction of the samples for validation, to stop when the validation error no "
            "longer falls, and to keep the weights with the lowest error."
        ),
    )
    loss: Any = param(
        Choice("auto", "relative_l2", "relative_l2_gradient", "sobolev", "mse"),
        callable,
        default="auto",
        text=(
            'Training loss, see `skop.losses`. ``"auto"`` is ``"sobolev"``, the relative L2 error of values and '
            'slopes, for fields, ``"relative_l2"`` for the steps of a `skop.RolloutRegressor`, and ``"mse"`` for '
            "scalars. Relative losses are computed in physical units, where the channel with the largest values "
            'dominates; with ``"auto"`` and scaled targets, several channels are first divided by their sizes. The '
            "squared error is computed on scaled targets."
        ),
    )
    base: Any = param(
        Choice("auto", "linear", "pod"),
        HasMethods(["fit", "predict"]),
        None,
        default="auto",
        text=(
            'Classical model with which the network is combined. ``"pod"`` is `PODRegressor`, ``"linear"`` its linear '
            'map; ``"auto"`` takes `PODRegressor` if it is better than the mean on unseen samples, and no base '
            "otherwise; an estimator of skop is taken unchanged. If the error of the base on unseen samples is below "
            "2 % of the variation, the network learns the residual, with the base's predictions as further inputs. "
            "Otherwise it learns the whole map. Some samples, half the square root of their number, 5 to 64, are held "
            "out to choose the share of each. If they show that the network is of no use, the training ends early; if "
            "the network is far better, it goes on without the base and with these samples. Samples with different "
            "numbers of points have no base, nor have `RolloutRegressor` and `TimeConditionedRegressor`."
        ),
    )
    geometry: str = param(
        Choice("auto", "grid", "structured", "points"),
        default="auto",
        text=(
            'Arrangement of the points. ``"grid"``: a rectilinear grid that all samples share. ``"structured"``: a '
            'curvilinear grid, or a grid that differs between samples. ``"points"``: points in any order. ``"auto"``: '
            "the first of these that fits the data."
        ),
    )
    grid: Any = param(
        "array-like",
        Choice("auto"),
        None,
        default=None,
        kind='tuple of int, "auto" or None',
        text=(
            "Regular grid to which samples without a grid are interpolated: the number of points along each axis of "
            'the bounding box of all training points, or ``"auto"`` for about as many cells as the mean sample has '
            "points. Inputs are interpolated to the grid and predictions back to the points, linearly; training and "
            "validation errors are computed on the grid. A `base` given by name, or a `PODRegressor`, stays on the "
            "points if all samples share them, except with logarithms of the targets or scaling of single points. If "
            "the points differ between samples, there is one more input channel, see `skop.data.GridResampler`. None "
            "does not resample; data on a grid are never resampled."
        ),
    )
    symmetries: Any = param(
        SequenceOf(str),
        SymmetryOptions,
        None,
        default=None,
        part=SymmetryOptions,
        text=(
            "Symmetries of the problem, used for data augmentation: training samples are transformed at random. See "
            "`skop.SymmetryOptions` for their names, for vectors and tensors, and for averaged predictions."
        ),
    )
    refinement: str = param(
        Choice("average", "interpolate", "native"),
        default="average",
        text=(
            "Method for predicting on a grid that is a whole number of times finer than the training grid "
            '(super-resolution). ``"average"``: the input is sampled at the training spacing in several shifted ways, '
            'and the interpolated predictions are averaged. ``"interpolate"``: one such sampling only. ``"native"``: '
            "the network is applied to the fine grid itself."
        ),
    )
    input_fields: Any = param(
        SequenceOf(str),
        None,
        default=None,
        kind="list of str or None",
        text="Names of the mesh fields that are inputs.",
    )
    target_fields: Any = param(
        SequenceOf(str),
        None,
        default=None,
        kind="list of str or None",
        text="Names of the mesh fields that are targets, also if y is scalars, which are learnt too.",
    )
    cell_data: str = param(
        Choice("refuse", "to_points", "cells"),
        default="refuse",
        text=(
            "Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and "
            "predicting all fields at the centres of the cells, see `skop.data.read_meshes`."
        ),
    )
    warm_start: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether a fit continues the training of the last one: with its weights, the moments of the optimiser and "
            "the average of the weights, and with the learning rate of a single training of the epochs so far and "
            "`max_iter` more (or the seconds so far and `max_time` more) at its present place. The data must be of "
            "the same kind, and parameters of the network and the scaling must be those of the last fit; those of the "
            "training may change. Model files hold the weights only, so that moments and average start anew after "
            "`skop.load`."
        ),
    )
    random_state: Any = param(
        "random_state",
        default=None,
        text=(
            "Seed for the initial weights, the order of the samples and data augmentation. With an int, two fits on "
            "one CPU give identical results."
        ),
    )
    device: str = param(
        str,
        default="auto",
        text='PyTorch device; ``"auto"`` is CUDA if available, else the CPU.',
    )
    dtype: str = param(
        Choice("auto", "float32", "float64"),
        default="auto",
        text=(
            'Precision of the network. ``"auto"``: float64 for tables of plain features, as in scikit-learn; float32 '
            "for fields."
        ),
    )
    verbose: bool | int | str = param(
        Choice("auto"),
        "verbose",
        default="auto",
        kind='"auto", bool or int',
        text=(
            'Amount of output on standard error. ``"auto"``: one line on a terminal or in a notebook if the fit is '
            "expected to take more than a minute. False or 0: none. True or 1: a progress bar on a terminal, and a "
            "line every few seconds elsewhere. 2: a line for each epoch."
        ),
    )
    training: TrainingOptions | None = param(
        TrainingOptions,
        None,
        default=None,
        part=TrainingOptions,
        text=(
            "Further training parameters, such as the learning rate schedule and gradient clipping; None "
            "takes the defaults of `skop.TrainingOptions`. In searches their names are, for example, "
            "``training__ema_decay``."
        ),
    )
    scaling: ScalingOptions | None = param(
        ScalingOptions,
        None,
        default=None,
        part=ScalingOptions,
        text="Scaling of the data; None takes the defaults of `skop.ScalingOptions`.",
    )
    #: Published configurations by name: for each, the parameters that differ from the defaults.
    _presets: ClassVar[dict[str, dict[str, Any]]] = {}
    #: Whether the points of a sample can be drawn at random in training.
    _draws_points: ClassVar[bool] = False
    #: Geometries on which a parameter, such as ``"latents"`` or ``"host__kernel_size"``, has an effect. A parameter
    #: that is not listed has an effect on all of them.
    _effective_on: ClassVar[dict[str, tuple[str, ...]]] = {"refinement": ("grid",)}
    _takes_other_points = True
    #: Base model of the fit; None without one, and in models of versions without base models.
    base_ = cast("BaseModel | None", None)
    #: Duration of the last fit of a base model.
    _base_seconds = 0.0
    #: Size of the features, from which a fit chooses its number of threads; operators make it a parameter.
    width = 64  # without an annotation it is no field of the dataclass

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return an estimator with a published configuration.

        Parameters
        ----------
        name : str
            Name of a benchmark of the paper, such as ``"darcy"``.
        **changes
            Parameters that differ from the preset; those of parts as ``training__ema_decay``.

        Returns
        -------
        estimator
            Estimator that is not fitted.

        Raises
        ------
        ValueError
            If there is no such preset; the message lists the names of all presets.

        Examples
        --------
        >>> from skop import LaMORegressor
        >>> LaMORegressor.from_preset("darcy", max_iter=10).width
        64
        """
        if name not in cls._presets:
            raise ValueError(f"{cls.__name__} has no preset {name!r}; choose from {sorted(cls._presets)}.")
        # The published models are networks alone.
        return cls._with_own_parts({"base": None} | cls._presets[name]).set_params(**changes)

    @property
    def _symmetries(self) -> SymmetryOptions | None:
        """Return the declared symmetries, or None if there are none."""
        if self.symmetries is None:
            return None
        declared: SymmetryOptions = self._options("symmetries")
        # Estimators around this one ask before its fit checks its parts, and predictions after the user changed them.
        declared._validate_params()
        return declared if len(declared.names) or len(declared.mirrors) or len(declared.rotations) else None

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn about parameters that have no effect on data of this `DataSpec.network_spec` and geometry."""
        idle = self._changed([name for name, geometries in self._effective_on.items() if geometry not in geometries])
        if idle:
            words = ", ".join(f"{name}={value!r}" for name, value in idle.items())
            warn(
                f"{words} has no effect on points read as geometry {geometry!r}; "
                f"{'it acts' if len(idle) == 1 else 'they act'} on "
                f"{' or '.join(sorted({kind for name in idle for kind in self._effective_on[name]}))}.",
                SkopWarning,
            )
        for name in self._usual_parts():
            if geometry in self._effective_on.get(name, (geometry,)):
                for inner, unmet in self._options(name).idle():
                    self._warn_of_idle(f"{name}__{inner}", {f"{name}__{other}": able for other, able in unmet.items()})

    def _warn_of_idle(self, name: str, unmet: dict[str, Sequence[Any]]) -> None:
        """Warn that a parameter has no effect with the values of others, and name the values with which it has."""
        values = self.get_params()
        chosen = " and ".join(f"{other}={values[other]!r}" for other in unmet)
        needed = " and ".join(f"{other}={' or '.join(map(_in_code, able))}" for other, able in unmet.items())
        warn(f"{name}={values[name]!r} has no effect with {chosen}; it acts with {needed}.", SkopWarning)

    def _network_parameters(self) -> dict[str, Any]:
        """Parameters that describe the network and the scaling, those of parts by their full names."""
        found = self._flat_parameters().items()
        return {name: value for name, value in found if name.partition("__")[0] not in _FREE_PARAMETERS}

    def _changed_since_fit(self) -> dict[str, tuple[Any, Any]]:
        """Parameters of the network that are others than in the fit, by name, as they were and as they are."""
        now = self._network_parameters()
        return {
            name: (value, now.get(name))
            for name, value in self.network_parameters_.items()
            if self._is_effective(name) and not are_equal(value, now.get(name))
        }

    def _is_effective(self, name: str) -> bool:
        """Whether a parameter, or the part that it belongs to, has an effect on the geometry of the last fit."""
        names = (name, name.partition("__")[0])
        return all(self.geometry_ in self._effective_on.get(each, (self.geometry_,)) for each in names)

    def _check_continuation(self) -> None:
        """Raise if the network of the last fit is not the one that the parameters describe now."""
        changed = self._changed_since_fit()
        if changed:
            words = ", ".join(f"{name} from {old!r} to {new!r}" for name, (old, new) in changed.items())
            raise ValueError(
                f"warm_start=True goes on with the network of the last fit, but its parameters have changed: {words}. "
                "Set warm_start=False to fit anew, or set them back; parameters of the training may change."
            )

    def _check_mesh_parameters(self, spec: DataSpec) -> None:
        """Warn about parameters for meshes if X holds no meshes."""
        changed = self._changed(("input_fields", "target_fields", "cell_data"))
        # An estimator that wraps this one has already read the meshes and passes a FieldSet.
        if changed and spec.kept_axes is None and not spec.is_fieldset:
            words = ", ".join(f"{name}={value!r}" for name, value in changed.items())
            warn(f"{words} has no effect, since X holds no meshes; it names fields of meshes.", SkopWarning)

    # ------------------------------------------------------------------ network and geometry
    def _build_network(self, spec: DataSpec, geometry: str) -> torch.nn.Module:
        """Build the untrained network for data of this `DataSpec.network_spec` and geometry."""
        raise NotImplementedError

    def _new_network(self, spec: DataSpec, geometry: str) -> torch.nn.Module:
        """Build the untrained network; over a base model it has the predictions of this as further inputs."""
        if self.base_ is None:
            return self._build_network(spec, geometry)
        wide, learns_rest = spec, self.base_.leaves_rest
        if learns_rest:
            wide = replace(spec, n_fields=spec.n_fields + spec.n_outputs, n_params=spec.n_params + spec.n_scalars)
        return CorrectionNetwork(self._build_network(wide, geometry), spec.n_outputs, spec.n_scalars, learns_rest)

    def _keywords(self, spec: DataSpec, *names: str) -> dict[str, Any]:
        """Keywords of a network: the sizes of the data, and parameters, with numbers of NumPy as those of Python."""
        found = {name: getattr(spec, name) for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
        for name in names:
            value = self._options(name) if name in self._usual_parts() else getattr(self, name)
            found[name] = value.item() if isinstance(value, np.generic) else value
        return found

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
                "skop.data.find_grid(coords)[1], or resample the fields onto one by grid='auto'."
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
        self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None, checkpoint_dir: Any = None
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
            MNO's ``"gnot"`` and ``"oformer"`` on grids. The network is then trained at these points.
        sample_weight : array-like of shape (n,) or None, default=None
            Weight of each sample in the loss, the scalers and the base; samples of weight 0 are not used.
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
        return self._fit_data(X, y, sample_weight, params=params, checkpoint_dir=checkpoint_dir)

    def _fit_data(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        plan: TrainingPlan = DIRECT_TRAINING,
        *,
        params: Any = None,
        checkpoint_dir: Any = None,
    ) -> Self:
        """Read and train by a plan; a fit that fails leaves an earlier one, or none, as it was."""
        network = getattr(self, "module_", None)
        kept = network.shares_restored_on_failure() if isinstance(network, CorrectionNetwork) else nullcontext()
        with restored_on_failure(self), kept:
            self._train(X, y, sample_weight, plan, params, checkpoint_dir)
        return self

    def _train(
        self, X: Any, y: Any, sample_weight: Any, plan: TrainingPlan, params: Any, checkpoint_dir: Any
    ) -> History:
        """Read the data, prepare and train the network, and store the results."""
        self._check_parts()
        group = join_group(self._options("training").distributed)
        with group.together():
            return self._train_in(group, X, y, sample_weight, plan, params, checkpoint_dir)

    def _train_in(
        self,
        group: Group,
        X: Any,
        y: Any,
        sample_weight: Any,
        plan: TrainingPlan,
        params: Any,
        checkpoint_dir: Any,
    ) -> History:
        """Read the data, and prepare and train the network together with the other processes of a group."""
        continues = self._continues
        if continues:
            self._check_continuation()
        reset = not (continues and self.spec_.is_table)
        data = self._read(X, y, params=params, sample_weight=sample_weight, reset=reset)
        group.require_same(lambda: described_fit(self, data, sample_weight, plan, checkpoint_dir))
        kept = FitCheckpoints.of(checkpoint_dir, self, data, sample_weight, plan, group)
        if (ended := kept.model(self)) is not None:
            for name in (*fitted_attributes(self), "_earlier"):
                self.__dict__.pop(name, None)
            self.__dict__.update(ended)
            return History(stopped=self.stopped_)
        session = FitSession(self, data, sample_weight, plan, kept)
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

    def _why_no_base(self, data: TrainingData, used: IntArray, plan: TrainingPlan) -> str:
        """Say why the samples cannot have a base model; nothing if they can."""
        return why_no_base(self, data, used, plan)

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
            base=self.base_,
            domain=self.domain_,
            spacing=self.spacing_,
            refinement=self.refinement,
            symmetries=self._symmetries,
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
        return mean_tokens(self.surrogate_, inputs)

    def _columns(self, spec: DataSpec) -> Sequence[str] | None:
        """Names of the global parameters, if there are any."""
        columns: Sequence[str] = getattr(self, "feature_names_in_", ())
        return columns if len(columns) == spec.n_params else spec.param_names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.scaling is not None and self._options("scaling").target_transform == "log"
        return tags

    # ------------------------------------------------------------------ other runtimes
    def export(self, path: PathOrStr, X: Any = None, *, batch_size: int | None = None) -> None:
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
            export_estimator(self, path, X, batch_size)

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
            such as ``lambda field: field[..., 0].amax(dim=1)``. Samples with different numbers of points come one at a
            time. None is for estimators that predict a single scalar.
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


def _in_code(value: Any) -> str:
    """A value, or any part of a class, as code has it."""
    return f"{value.__name__}(...)" if isinstance(value, type) else repr(value)


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
    spacing = held.get("spacing_")
    is_spacing = spacing is None or (
        isinstance(spacing, tuple)
        and len(spacing) == spec.n_dims
        and all(isinstance(step, float) and 0 < step < np.inf for step in spacing)
    )
    held.need(is_spacing, "spacing_", f"{spec.n_dims} positive numbers, or None")
    if spacing is not None and lengths is not None and domain.lines is not None:
        # A wrong spacing would make a grid count as finer or coarser than it is.
        for axis, line in enumerate(domain.lines):
            span = float(np.ptp(line))
            is_known = len(line) < 2 or abs(spacing[axis] * (len(line) - 1) - span) <= 1e-3 * span
            held.need(is_known, "spacing_", "the spacing of the grid lines")
    if hasattr(held.value, "symmetry_centre_"):
        held.array("symmetry_centre_", spec.n_dims, optional=True)
    scalers = held.part("scalers_", "Scalers")
    _check_sizes_of_scalers(held, scalers, inner)
    base = held.part("base_", "BaseModel", optional=True)
    if base is not None:
        theirs = base.estimator.spec_
        held.need(
            (theirs.n_outputs, theirs.n_scalars, theirs.n_dims) == (spec.n_outputs, spec.n_scalars, spec.n_dims),
            "base_",
            "a model of the same outputs",
        )
    parameters = held.get("network_parameters_")
    is_named = isinstance(parameters, dict) and all(isinstance(name, str) for name in parameters)
    held.need(is_named, "network_parameters_", "parameters by name")
    for name in ("n_iter_", "best_iter_"):
        held.whole(name)
    for name in ("stopped_", "backend_"):
        held.word(name)
    held.number("fit_seconds_")
    for name in ("loss_curve_", "validation_scores_"):
        curve = held.get(name)
        is_curve = isinstance(curve, list) and all(isinstance(item, int | float) for item in curve)
        held.need(is_curve, name, "a list of numbers")


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
