"""OperatorRegressor: base class that makes a neural operator a scikit-learn estimator (fit, predict, score, save).

A subclass adds its own parameters, their constraints, and the method that builds its network.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, p global parameters.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skop._sklearn_compat import (
    CallbackSupportMixin,
    HasMethods,
    Interval,
    SequenceOf,
    StrOptions,
    check_sample_weight,
    fit_context,
)
from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data import (
    DataSpec,
    FieldLoader,
    FieldSet,
    GridResampler,
    PointSymmetries,
    Predictions,
    Scalers,
    ScalingOptions,
    Targets,
    TrainingData,
    check_positive,
    grid_spacing,
    iterate_rows,
    query_points,
    refuse_mask,
)
from skop.estimators._base_model import (
    BaseModel,
    Comparison,
    Review,
    remainder_sizes,
    standardized,
    without_base,
)
from skop.estimators._baselines import PODRegressor, groups_of_same_inputs, keep_their_distances, nodes_correspond
from skop.estimators._building import refuse_too_large
from skop.estimators._callbacks import EpochCallbacks, FitSeries
from skop.estimators._checkpoint import FitCheckpoints, described_fit
from skop.estimators._common_grid import MOST_GRID_AXES, on_grid, warn_of_resampling
from skop.estimators._cost import CostEstimate, MeasuresCost, cheaper_settings
from skop.estimators._export import export_estimator
from skop.estimators._field import FieldRegressor, fitted_attributes, restored_on_failure
from skop.estimators._objective import Objective
from skop.estimators._options import SymmetryOptions, TrainingOptions
from skop.exceptions import (
    FieldDataError,
    SkopWarning,
    TrainingDivergedError,
    each_warning_once,
    warn,
)
from skop.losses import SobolevLoss
from skop.metrics._flat import (
    norms_of_fields,
    relative_errors,
    relative_errors_of_scalars,
    sizes_of_channels,
)
from skop.modules import ResidualDropout, set_drop_path
from skop.networks import shift_patches
from skop.ops import record_backends
from skop.surrogate import Surrogate
from skop.surrogate._correction import CorrectionNetwork
from skop.surrogate._domain import Domain
from skop.surrogate._gradient import gradient
from skop.surrogate._predictions import on_grid_of, rows_of
from skop.surrogate._symmetries import declared_symmetries, moves_points, require_points_in_domain, undeclared_fields
from skop.surrogate._tokens import mean_tokens
from skop.training import (
    DIRECT_TRAINING,
    EarlierTraining,
    EpochCost,
    Group,
    History,
    Trainer,
    TrainerConfig,
    TrainingPlan,
    join_group,
    measure_epoch,
)
from skop.training._runtime import isolated_randomness, pick_device, pick_dtype, thread_limit

__all__ = ["OperatorRegressor"]

#: What ``loss="auto"`` stands for, for fields and for scalars alone.
AUTOMATIC_LOSSES = ("sobolev", "mse")
#: Number of points, and least and largest number of samples, of a mini-batch for ``batch_size="auto"``. On point sets
#: most layers act on single points, so small batches already give gradients of low variance and allow more steps.
_BATCHES = {"grid": (2**13, 8, 16), "structured": (2**12, 1, 8), "points": (2**12, 1, 8)}
#: Largest number of points of a mini-batch that is held to the least number of samples, a bound on the memory.
_LARGEST_BATCH_POINTS = 2**17
#: Largest size of a parameter of a network that is not tried without memory first.
_USUAL_SIZE = 256
#: Bytes of data in files, in double precision, up to which ``base="auto"`` reads them for a classical model.
_BASE_BYTES = 2**28
_TOO_LARGE = f"X and y are not in memory and hold more than {_BASE_BYTES >> 20} MiB in double precision"
#: Errors of samples, of fields and of scalars, (n,).
_Errors = tuple[FloatArray | None, FloatArray | None]
#: Mean of y in units of its standard deviation from which a fit in single precision warns: a thousandth of the
#: variation is then lost.
_TOO_FAR_FROM_ZERO = 1e4
#: Sizes of y that single precision can hold with room for the network's errors.
_IN_SINGLE_PRECISION = (1e-35, 1e35)
#: Size of a weight of the network from which a fit looks whether its predictions are finite.
_LARGE_WEIGHT = 100.0
#: Sizes that the largest sample weight may have.
_WEIGHTS = (1e-15, 1e15)
#: Least number of samples for a base model.
_LEAST_SAMPLES = 10
#: Least and largest number of samples by which the share of the correction to a base model is chosen.
_HELD_OUT = (5, 64)
#: Held-out error in units of that at half the time from which a training stalls, and the least number of other samples
#: with which those held out are compared.
_STALLED, _LEAST_COMPARED = 0.8, 32
#: Error of a base on samples that it has seen, in units of that on others, below which it interpolates.
_SEEN = 0.5
#: The rate of drop path with which a training is regularised.
_DROP_PATH = 0.2
#: Least numbers of samples and of epochs from which some samples are held out for this alone, and their part.
_LEAST_JUDGED, _LEAST_EPOCHS, _JUDGED = 100, 8, 1 / 10
#: Parameters of the training and of predictions, which change neither the network nor the scaling of the data.
_FREE_PARAMETERS = frozenset(
    (
        *("loss", "max_iter", "max_time", "batch_size", "learning_rate_init", "early_stopping"),
        *("symmetries", "refinement", "input_fields", "target_fields", "cell_data", "warm_start", "random_state"),
        *("device", "verbose", "training", "subsample_points"),
    )
)


@dataclass
class _Setup:
    """What a training of a prepared estimator needs.

    Attributes
    ----------
    data : TrainingData
        Samples as the network sees them.
    usable : FieldSet
        Points of the samples with positive weight: of the inputs, or of the targets if these have more.
    valid : ndarray of int or None
        Indices of the samples that are held out for validation.
    loader : FieldLoader
        Training samples.
    rng : numpy.random.RandomState
        Random number generator of the fit.
    plan : TrainingPlan
        Changes to the training loop for data in time.
    unseen : Predictions or None
        Standardised predictions of the base model for all samples, each by a fit without it; None without a base.
    held : ndarray of int or None
        Indices of the samples by which the share of the correction to the base model is chosen, or a training is judged
        to overfit.
    weight : ndarray of shape (n,) or None
        Weights of all samples.
    reviewed : Review or None
        Review of the network, and of its base model, in the course of the training.
    trainer : Trainer or None
        The training.
    group : Group
        Processes that train together.
    """

    data: TrainingData
    usable: FieldSet
    valid: IntArray | None
    loader: FieldLoader
    rng: np.random.RandomState
    plan: TrainingPlan
    unseen: Predictions | None = None
    held: IntArray | None = None
    weight: FloatArray | None = None
    reviewed: Review | None = None
    trainer: Trainer | None = None
    group: Group = field(default_factory=Group)


@dataclass(kw_only=True, eq=False, repr=False)
class OperatorRegressor(CallbackSupportMixin, MeasuresCost, FieldRegressor):
    """Base class of the operator regressors: fit, predict, score and save for fields and tables.

    A subclass is a keyword-only dataclass. Its dataclass fields are its parameters, `_parameter_constraints` holds
    their ranges, and `_build_network` builds its network. Its docstring describes only the parameters that it adds;
    those below are appended automatically. Subclasses are registered when they are defined, so that they can be saved
    and loaded.

    Parameters
    ----------
    geometry : {"auto", "grid", "structured", "points"}, default="auto"
        Arrangement of the points. ``"grid"``: a rectilinear grid that all samples share. ``"structured"``: a
        curvilinear grid, or a grid that differs between samples. ``"points"``: points in any order. ``"auto"``: the
        first of these that fits the data.
    grid : tuple of int, "auto" or None, default=None
        Regular grid to which samples without a grid are interpolated: the number of points along each axis of the
        bounding box of all training points, or ``"auto"`` for about as many cells as the mean sample has points. Inputs
        are interpolated to the grid and predictions back to the points, linearly; training and validation errors are
        computed on the grid. A `base` by a word, or a `PODRegressor`, stays on the points where all samples share them,
        but for logarithms of the targets and scaling of single points. If the points differ between samples, there is
        one more input channel, see `skop.data.GridResampler`. None does not resample; data on a grid are never
        resampled.
    base : {"auto", "linear", "pod"}, estimator or None, default="auto"
        Classical model with which the network is combined. ``"pod"`` is `PODRegressor`, ``"linear"`` its linear map;
        ``"auto"`` takes `PODRegressor` if it is better than the mean in samples that it has not seen, and no base
        otherwise; an estimator of skop is taken as it is. If the base leaves less than 2 % of the variation over, the
        network learns the rest, with its predictions as further inputs; otherwise it learns the whole map.
        Some samples are held out to choose the shares of both: half the square root of their number, 5 to 64. By these
        the training ends early where the network is of no use, and goes on without the base, and with these samples,
        where the network is far better. Without the same number of points in all samples there is none; nor in
        `RolloutRegressor` and `TimeConditionedRegressor`.
    loss : {"auto", "relative_l2", "relative_l2_gradient", "sobolev", "mse"} or callable, default="auto"
        Training loss, see `skop.losses`. ``"auto"`` is ``"sobolev"``, the relative L2 error of values and slopes, for
        fields, and ``"mse"`` for scalars. Relative losses are computed in physical units, where the channel with the
        largest values dominates; with ``"auto"`` and scaled targets, several channels are first divided by their sizes.
        The squared error is computed on scaled targets.
    max_iter : int, default=100
        Largest number of epochs (papers: 500).
    max_time : float or None, default=None
        Time limit of the training in seconds. The learning rate schedule then follows the time and is complete when the
        time is up. The fit of a `base` counts. Results depend on the speed of the machine.
    batch_size : int or "auto", default="auto"
        Number of samples in a mini-batch (papers: 1 to 8). ``"auto"``: an eighth of the samples or fewer; on grids up
        to 16 samples of about 8192 points together, but at least 8 if these have at most 131072 points; up to 8 samples
        of about 4096 points together if the points form no grid; up to 200 samples for tables of plain features.
    learning_rate_init : float, default=0.004
        Peak learning rate of the optimiser (papers: 3e-4 to 1e-3).
    early_stopping : bool, default=False
        Whether to hold out a fraction of the samples for validation, to stop when the validation error no longer falls,
        and to keep the weights with the lowest error.
    symmetries : sequence of str, SymmetryOptions or None, default=None
        Symmetries of the problem, used for data augmentation: training samples are transformed at random. See
        `skop.SymmetryOptions` for their names, for vectors and tensors, and for averaged predictions.
    refinement : {"average", "interpolate", "native"}, default="average"
        Method for predicting on a grid that is a whole number of times finer than the training grid (super-resolution).
        ``"average"``: the input is sampled at the training spacing in several shifted ways, and the interpolated
        predictions are averaged. ``"interpolate"``: one such sampling only. ``"native"``: the network is applied to the
        fine grid itself.
    input_fields, target_fields : list of str or None, default=None
        Names of the mesh fields that are inputs and targets; targets also if y is scalars, which are learnt too.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and predicting
        all fields at the centres of the cells, see `skop.data.read_meshes`.
    warm_start : bool, default=False
        Whether a fit continues the training of the last one: with its weights, the moments of the optimiser and the
        average of the weights, and with the learning rate of a single training of the epochs so far and `max_iter` more
        (or the seconds so far and `max_time` more) at its present place. The data must be of the same kind, and
        parameters of the network and the scaling must be those of the last fit; those of the training may change.
        Model files hold the weights only, so that moments and average start anew after `skop.load`.
    random_state : int, RandomState instance or None, default=None
        Seed for the initial weights, the order of the samples and data augmentation. With an int, two fits on one CPU
        give identical results.
    device : str, default="auto"
        PyTorch device; ``"auto"`` is CUDA if available, else the CPU.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision of the network. ``"auto"``: float64 for tables of plain features, as in scikit-learn; float32 for
        fields.
    verbose : "auto", bool or int, default="auto"
        Amount of output on standard error. ``"auto"``: one line if the fit, or all fits of an ensemble together, are
        expected to take more than a minute, unless another tool calls it, such as a search, a cross-validation or a
        pipeline. False or 0: none. True or 1: a progress bar on a terminal, and a line every few seconds elsewhere. 2:
        a line for each epoch.
    training : TrainingOptions or None, default=None
        Further training parameters, such as weight decay, learning rate schedule and gradient clipping; None takes the
        defaults of `skop.TrainingOptions`. In searches their names are, for example, ``training__weight_decay``.
    scaling : ScalingOptions or None, default=None
        Scaling of the data; None takes the defaults of `skop.ScalingOptions`.

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
    base_ : object or None
        Fitted base model: its ``estimator``, and the ``error`` of its predictions for samples that it has not seen,
        relative to their variation. None if there is none, also because the network left it far behind.
    backend_ : str
        Implementation of the scans in the fit: ``"numba"`` and ``"triton"`` are the fused kernels for CPU and CUDA,
        ``"mamba_ssm"`` is the kernel of that package for CUDA, ``"torch"`` is plain PyTorch; several are joined by
        commas.
    device_, dtype_ : torch.device, str
        Where and in which precision the network computes.
    domain_ : object
        Box and grid lines of the training points, by which predictions elsewhere are warned about.
    symmetry_centre_ : ndarray of shape (d,) or None
        Centre of the box of all training points, about which named symmetries move points where no domain is declared;
        None where no points are moved.
    ranges_ : object
        Ranges of the global parameters, input fields and points, by which `check` and predictions judge new data.
    network_parameters_ : dict
        Parameters of the network and the scaling by name, as they were in the fit. A warm start and `save` refuse
        an estimator whose parameters are others now.
    """

    geometry: str = "auto"
    grid: Any = None
    base: Any = "auto"
    loss: Any = "auto"
    max_iter: int = 100
    max_time: float | None = None
    batch_size: int | str = "auto"
    learning_rate_init: float = 4e-3
    early_stopping: bool = False
    symmetries: Any = None
    refinement: str = "average"
    input_fields: Any = None
    target_fields: Any = None
    cell_data: str = "refuse"
    warm_start: bool = False
    random_state: Any = None
    device: str = "auto"
    dtype: str = "auto"
    verbose: bool | int | str = "auto"
    training: TrainingOptions | None = None
    scaling: ScalingOptions | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "geometry": [StrOptions({"auto", "grid", "structured", "points"})],
        "grid": ["array-like", StrOptions({"auto"}), None],
        "base": [StrOptions({"auto", "linear", "pod"}), HasMethods(["fit", "predict"]), None],
        "loss": [StrOptions({"auto", "relative_l2", "relative_l2_gradient", "sobolev", "mse"}), callable],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "early_stopping": ["boolean"],
        "symmetries": [SequenceOf(str), SymmetryOptions, None],
        "refinement": [StrOptions({"average", "interpolate", "native"})],
        "input_fields": ["array-like", None],
        "target_fields": ["array-like", None],
        "cell_data": [StrOptions({"refuse", "to_points", "cells"})],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "device": [str],
        "dtype": [StrOptions({"auto", "float32", "float64"})],
        "verbose": ["verbose", StrOptions({"auto"})],
        "training": [TrainingOptions, None],
        "scaling": [ScalingOptions, None],
    }
    #: Published configurations by name: for each, the parameters that differ from the defaults, with a dictionary for
    #: each option object.
    _presets: ClassVar[dict[str, dict[str, Any]]] = {}
    #: Classes of the option objects, by the names of the parameters that take them.
    _option_types: ClassVar[dict[str, type[Any]]] = {
        "training": TrainingOptions,
        "scaling": ScalingOptions,
        "symmetries": SymmetryOptions,
    }
    #: Geometries on which a parameter, such as ``"n_latents"`` or ``"architecture__mixer"``, has an effect. A parameter
    #: that is not listed has an effect on all of them.
    _effective_on: ClassVar[dict[str, tuple[str, ...]]] = {"refinement": ("grid",)}
    _takes_other_points = True
    #: Base model of the fit; None also in models that were saved before there were any.
    base_ = cast("BaseModel | None", None)
    #: Duration of the last fit of a base model.
    _base_seconds = 0.0
    #: Size of the features, from which a fit chooses its number of threads; operators make it a parameter.
    width = 64  # without an annotation it is no field of the dataclass
    #: Number of points drawn from each sample in a training step; operators on point sets make it a parameter.
    subsample_points = cast("int | None", None)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _share_documentation(cls, cls.__mro__[1])

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return an estimator with a published configuration.

        Parameters
        ----------
        name : str
            Name of a benchmark of the paper, such as ``"darcy"``.
        **changes
            Parameters that differ from the preset; those of option objects as ``training__weight_decay``.

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
        return cls._from_parameters({"base": None} | cls._presets[name]).set_params(**changes)

    @classmethod
    def _from_parameters(cls, preset: dict[str, Any]) -> Self:
        """An estimator with parameters of which those of option objects are dictionaries."""
        return cls(
            **{
                parameter: cls._option_types[parameter](**value) if parameter in cls._option_types else value
                for parameter, value in preset.items()
            }
        )

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including those of option objects.

        Parameters
        ----------
        **params
            Parameters by name. ``training__weight_decay`` belongs to the option object ``training``, which is created
            if it is None.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        base, inner = params.get("base", self.base), next((key for key in params if key.startswith("base__")), None)
        if inner is not None and not hasattr(base, "set_params"):
            raise ValueError(
                f"{inner} is a parameter of an estimator, but base is {base!r}; pass one as the base first, such as "
                "base=PODRegressor()."
            )
        for name in self._option_types:
            if any(key.startswith(f"{name}__") for key in params):
                params = {**params, name: self._as_options(name, params.get(name, getattr(self, name)))}
        return super().set_params(**params)

    def _options(self, name: str) -> Any:
        """Return the option object of a parameter; its defaults if the parameter is None."""
        return self._as_options(name, getattr(self, name))

    def _as_options(self, name: str, given: Any) -> Any:
        """Convert the value of a parameter to an option object: None to the defaults, a sequence to symmetries."""
        kind = self._option_types[name]
        if isinstance(given, kind):
            return given
        if given is None:
            return kind()
        if kind is not SymmetryOptions:
            raise ValueError(f"{name} is {given!r}; expected a skop.{kind.__name__}(...), or None for its defaults.")
        return kind(names=given)

    @property
    def _symmetries(self) -> SymmetryOptions | None:
        """Return the declared symmetries, or None if there are none."""
        declared: SymmetryOptions = self._options("symmetries")
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

    def _changed(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of the named parameters, such as ``"architecture__mixer"``, that differ from the defaults."""
        parts: dict[str, tuple[Any, Any]] = {"": (self, type(self)())}
        changed = {}
        for name in names:
            holder, _, inner = name.rpartition("__")
            if holder not in parts:
                parts[holder] = (self._options(holder), self._option_types[holder]())
            given, usual = parts[holder]
            value, default = getattr(given, inner), getattr(usual, inner)
            if not _are_equal(value, default):
                changed[name] = value
        return changed

    def _network_parameters(self) -> dict[str, Any]:
        """Parameters that describe the network and the scaling, those of option objects by their full names."""
        found = {}
        for name, value in self.get_params(deep=False).items():
            if name in _FREE_PARAMETERS:
                continue
            if name not in self._option_types:
                found[name] = value
                continue
            parts = self._options(name).get_params(deep=False)
            found |= {f"{name}__{part}": held for part, held in parts.items()}
        return found

    def _changed_since_fit(self) -> dict[str, tuple[Any, Any]]:
        """Parameters of the network that are others than in the fit, by name, as they were and as they are."""
        now = self._network_parameters()
        return {
            name: (value, now[name])
            for name, value in self.network_parameters_.items()
            if self.geometry_ in self._effective_on.get(name, (self.geometry_,)) and not _are_equal(value, now[name])
        }

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
        if changed and spec.kept_axes is None and spec.input_form != "fieldset":
            words = ", ".join(f"{name}={value!r}" for name, value in changed.items())
            warn(f"{words} has no effect, since X holds no meshes; it names fields of meshes.", SkopWarning)

    # ------------------------------------------------------------------ network and geometry
    def _build_network(self, spec: DataSpec, geometry: str) -> torch.nn.Module:
        """Build the untrained network for data of this `DataSpec.network_spec` and geometry."""
        raise NotImplementedError

    def _new_network(self, spec: DataSpec, geometry: str) -> torch.nn.Module:
        """Build the untrained network; over a base model it has the predictions of this as further inputs."""
        plain = self._with_python_numbers()
        if self.base_ is None:
            return plain._build_network(spec, geometry)
        wide, learns_rest = spec, self.base_.leaves_rest
        if learns_rest:
            wide = replace(spec, n_fields=spec.n_fields + spec.n_outputs, n_params=spec.n_params + spec.n_scalars)
        return CorrectionNetwork(plain._build_network(wide, geometry), spec.n_outputs, spec.n_scalars, learns_rest)

    def _with_python_numbers(self) -> Self:
        """Return a copy without NumPy's numbers in its parameters, whose products can overflow; itself if none are."""
        held = {name: value for name, value in self.get_params(deep=False).items() if name not in self._option_types}
        options = {name: getattr(self, name) for name in self._option_types}
        if not any(isinstance(value, np.generic) for part in (self, *options.values()) for value in _values_of(part)):
            return self
        plain = copy.copy(self)
        for name, value in held.items():
            setattr(plain, name, value.item() if isinstance(value, np.generic) else value)
        for name, part in options.items():
            if isinstance(part, BaseEstimator):
                numbers = part.get_params(deep=False)
                plain_part = {
                    key: held.item() if isinstance(held, np.generic) else held for key, held in numbers.items()
                }
                setattr(plain, name, type(part)(**plain_part))
        return plain

    def _check_size(self, spec: DataSpec, geometry: str) -> None:
        """Raise an error if the parameters describe a network that this machine has no memory for."""
        sizes: list[Any] = [value for value in self._network_parameters().values() if isinstance(value, Real)]
        if max(sizes, default=0) > _USUAL_SIZE:
            item_size = 8 if pick_dtype(self.dtype, spec.role) == "float64" else 4
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

    def _network_options(self, spec: DataSpec, geometry: str) -> dict[str, Any]:
        """Return the sizes of the data and the effective parameters of `architecture`, as keywords of the network."""
        sizes = {name: getattr(spec, name) for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
        parts = self._options("architecture").get_params(deep=False)
        idle = {name.removeprefix("architecture__") for name, on in self._effective_on.items() if geometry not in on}
        return sizes | {name: value for name, value in parts.items() if name not in idle}

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
            Weight of each sample in the loss and in the scalers; samples of weight 0 are not used.
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
            If the user interrupts before the first epoch is complete, or during a fit that was called by another tool,
            such as a search, a cross-validation, a pipeline or an ensemble. Otherwise an interrupt ends the training,
            and the best weights so far are kept.
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
            history = self._train(X, y, sample_weight, plan, params, checkpoint_dir)
        if history.stopped == "interrupted" and is_called_by_another_tool():
            # The interrupt must also end a search or a cross-validation, which would otherwise go on with a fold that
            # was not trained to the end.
            raise KeyboardInterrupt("training was interrupted")
        return self

    def _train(
        self, X: Any, y: Any, sample_weight: Any, plan: TrainingPlan, params: Any, checkpoint_dir: Any
    ) -> History:
        """Read the data, prepare and train the network, and store the results."""
        self._validate_options()
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
        if self._continues:
            self._check_continuation()
        reset = not (self._continues and self.spec_.input_form == "table")
        data = self._read(X, y, params=params, sample_weight=sample_weight, reset=reset)
        group.require_same(lambda: described_fit(self, data, sample_weight, plan, checkpoint_dir))
        kept = FitCheckpoints.of(checkpoint_dir, self, data, sample_weight, plan, group)
        if (ended := kept.model(self)) is not None:
            for name in (*fitted_attributes(self), "_earlier"):
                self.__dict__.pop(name, None)
            self.__dict__.update(ended)
            return History(stopped=self.stopped_)
        setup = self._set_up(data, sample_weight, plan, kept)
        told: dict[str, Any] = {
            "is_alone": not is_called_by_another_tool(within=FitSeries.run),
            "cheaper": cheaper_settings(self, setup.usable),
            "is_told": group.is_main,
        }
        with kept.watching():
            with EpochCallbacks(self, X, y, sample_weight, params, **told) as callbacks:
                trainer = self._make_trainer(setup, callbacks, kept)
                with self._computing(setup, trainer), group.interruptible(), record_backends() as used:
                    self._resume(kept, setup, trainer, used)
                    history = trainer.run(setup.loader)
            self._choose_share(setup, history)
            self._record(history)
            self._store_end(trainer, setup.valid)
            self.backend_ = ", ".join(sorted(used)) or "torch"
            self._check_outputs(setup)
            self._store_reference(data.inputs, setup.weight)
            kept.finish(self, history)
        return history

    def _resume(self, kept: FitCheckpoints, setup: _Setup, trainer: Trainer, used: set[str]) -> None:
        """Go on from the last checkpoint, if there is one."""
        has_base, reviewed = self.base_ is not None, setup.reviewed

        def further() -> dict[str, Any]:
            """State of the training beside that of the trainer."""
            review = None if reviewed is None else reviewed.state_dict()
            return {"review": review, "drops_base": has_base and self.base_ is None, "backends": sorted(used)}

        kept.further = further
        if not (state := kept.resume(trainer)):
            return
        if reviewed is not None:
            reviewed.load_state_dict(state["review"])
            for remedy in self._remedies[: reviewed.n_remedies]:
                self._regularise(remedy)
        if state["drops_base"]:
            self.base_, setup.unseen = None, None
        is_returned = reviewed is not None and self._returns_held_out(setup, reviewed)
        if is_returned:
            setup.held = setup.valid
        if is_returned or state["drops_base"]:
            setup.loader = self._loader_without_base(setup)
        used.update(state["backends"])

    def _check_outputs(self, setup: _Setup) -> None:
        """Raise an error if the network predicts nothing finite for a sample of the training.

        The loss of a step is that before it, so that the training does not see what its last steps have done.
        """
        largest = [float(weight.detach().abs().max()) for weight in self.module_.parameters() if weight.numel()]
        if max(largest, default=0.0) <= _LARGE_WEIGHT:
            return
        row = _usable(len(setup.data.inputs), setup.weight)[:1]
        queries = self._target_places(setup.data.inputs[row], setup.data.targets[row])
        base = {} if setup.unseen is None else self._unseen_base(setup.data, setup.unseen, row)
        found = self.surrogate_.predict_batches(self.surrogate_.loader(setup.data.inputs[row], queries=queries, **base))
        if not all(part is None or np.isfinite(part).all() for part in (found.fields, found.scalars)):
            raise TrainingDivergedError(
                "the last steps of the training have made the weights so large that predictions of training samples "
                f"are not finite. Lower learning_rate_init (now {self.learning_rate_init}), or set max_grad_norm."
            )

    def _validate_options(self) -> None:
        """Raise an error if a parameter of an option object is invalid."""
        for name in self._option_types:
            if getattr(self, name) is not None:
                self._options(name)._validate_params()

    def _set_up(
        self, data: TrainingData, sample_weight: Any, plan: TrainingPlan, kept: FitCheckpoints | None = None
    ) -> _Setup:
        """Split and scale the samples, and build the network or keep that of an earlier fit."""
        kept = kept or FitCheckpoints()
        weight = check_weight(sample_weight, len(data.inputs))
        if data.targets.elsewhere:
            self._check_other_points(data)
        if self._options("scaling").target_transform is not None:
            self._check_logarithms(data.targets, weight)
        rng = check_random_state(self.random_state)
        rng = kept.group.generator(rng) if self.random_state is None else rng
        whole = data
        data = self._resampled(data, _usable(len(data.inputs), weight), plan)
        usable = data.inputs if weight is None else data.inputs[np.flatnonzero(weight)]
        if data.targets.elsewhere and data.targets.field is not None:
            # Batches are as large as the larger of the two sets of points allows.
            targets = data.targets.field[_usable(len(data.inputs), weight)]
            usable = max(usable, targets, key=lambda part: part.n_points.mean())
        train, valid = self._split(len(data.inputs), weight, rng, plan.group_size)
        unseen = self._prepare(data, whole, train, weight, rng, plan, kept)
        if not self.surrogate_.has_base_on_points:
            warn_of_resampling(self.spec_.resampler, "use LaMORegressor without grid")
        held = valid
        if unseen is not None and (held is None or len(held) < _HELD_OUT[0]):
            # A validation of few samples does not tell how much of a correction is right.
            train, further = _hold_out(data.inputs, train, 0 if held is None else len(held))
            held = further if held is None else np.concatenate([held, further])
        elif held is None and self._needs_judging(len(train), plan):
            train, held = _hold_out_at_random(train)
        loader = self._training_loader(data, train, weight, rng, unseen)
        return _Setup(data, usable, valid, loader, rng, plan, unseen, held, weight, group=kept.group)

    @contextmanager
    def _computing(self, setup: _Setup, trainer: Trainer) -> Iterator[None]:
        """Context of the steps of a training: seeded random numbers, and threads that suit the problem."""
        randomness = isolated_randomness(setup.rng, self.device_, self._options("training").deterministic)
        n_points = _points_of_a_step(setup.usable, trainer.options, self.subsample_points)
        with randomness, thread_limit(int(n_points), int(self.width)):
            yield

    def _estimate_cost(
        self, X: Any, y: Any, sample_weight: Any, plan: TrainingPlan = DIRECT_TRAINING, *, params: Any = None
    ) -> CostEstimate:
        """Measure a copy of the estimator by a plan, and copies with cheaper settings."""
        self._validate_options()
        # A plan with a function of its own has it for this object, which is a copy already.
        probe = self._probe() if plan.forward is None else self.set_params(random_state=0)
        data = probe._read(X, y, params=params, sample_weight=sample_weight)
        cost, cheaper = probe._measure(data, sample_weight, plan)
        costs = {
            f"{name}={value}": self._probe(**{name: value})._measure(data, sample_weight, plan)[0].seconds
            for name, value in cheaper.items()
            if plan.forward is None
        }
        return CostEstimate.of_epochs(cost, self.max_iter, self.max_time, costs, before=probe._base_seconds)

    def _probe(self, **changes: Any) -> Self:
        """Return an unfitted copy with other parameters, which draws nothing from the user's random numbers."""
        return clone(self).set_params(random_state=0, **changes)

    def _measure(self, data: TrainingData, sample_weight: Any, plan: TrainingPlan) -> tuple[EpochCost, dict[str, Any]]:
        """Measure an epoch of this estimator, which is then of no other use, and say what would make it cheaper."""
        setup = self._set_up(data, sample_weight, plan)
        trainer = self._make_trainer(setup, None)
        with self._computing(setup, trainer):
            cost = measure_epoch(trainer, setup.loader)
        return cost, cheaper_settings(self, setup.usable)

    def _check_other_points(self, data: TrainingData) -> None:
        """Raise an error if a parameter needs targets on the points of the inputs, but they are on others."""
        scaling = self._options("scaling")
        reasons = {
            f"grid={self.grid!r} interpolates X and y to one grid; set grid=None": (
                self.grid is not None and data.spec.geometry == "points"
            ),
            f"scaling__inputs={scaling.inputs!r} with scaling__targets={scaling.targets!r} ties the network to the "
            "points of X; set both to 'channel'": "point" in (scaling.inputs, scaling.targets),
            "symmetries map the points of X onto each other, and not those of y; set symmetries=None": (
                self._symmetries is not None
                and not moves_points(self._symmetries, data.spec, self._choose_geometry(data.spec), data.inputs)
            ),
            f"subsample_points={self.subsample_points} draws points of X and y together; set subsample_points=None": (
                self.subsample_points is not None
            ),
        }
        for reason, applies in reasons.items():
            if applies:
                raise FieldDataError(f"{_other_points(data)}, but {reason}.")

    def _check_logarithms(self, targets: Targets, weight: FloatArray | None = None) -> None:
        """Raise an error if the logarithms of the targets cannot be learnt."""
        check_positive(targets, _usable(len(targets), weight))
        turned = ("target_vectors", "target_tensors", "scalar_vectors")
        for name in turned if self._symmetries is not None else ():
            if len(getattr(self._symmetries, name)):
                raise FieldDataError(
                    f"target_transform='log' needs positive values, but symmetries turn the components of {name}, "
                    f"which can change their sign; set target_transform=None, or declare no {name}."
                )

    def _split(
        self, n_samples: int, weight: FloatArray | None, rng: np.random.RandomState, group_size: int
    ) -> tuple[IntArray, IntArray | None]:
        """Split the samples for training and validation; groups of successive samples are not split."""
        usable = _usable(n_samples, weight)
        if not self.early_stopping:
            return usable, None
        groups = usable.reshape(-1, group_size)
        n_valid = int(np.ceil(self._options("training").validation_fraction * len(groups)))
        if n_valid >= len(groups):
            raise FieldDataError(
                f"early_stopping needs at least 2 samples to hold some out, got {len(groups)}; pass more or set "
                "early_stopping=False."
            )
        order = rng.permutation(len(groups))
        return groups[np.sort(order[n_valid:])].ravel(), groups[np.sort(order[:n_valid])].ravel()

    def _resampled(self, data: TrainingData, usable: IntArray, plan: TrainingPlan) -> TrainingData:
        """Return the samples as the network sees them: interpolated to a grid if `grid` is set and they have none."""
        if self.grid is None or data.spec.geometry != "points":
            return data
        if data.spec.n_dims > MOST_GRID_AXES:
            raise FieldDataError(
                f"grid={self.grid!r} interpolates points in 1, 2 or 3 dimensions, but X has {data.spec.n_dims}; set "
                "grid=None in an estimator for points, such as LaMORegressor."
            )
        if self._continues and self.spec_.n_dims == data.spec.n_dims and self.spec_.resampler is not None:
            resampler = self.spec_.resampler
        else:
            # Training on the network's own frames would confuse the channel of distances with a channel of a frame.
            distance = None if plan.forward is None else False
            resampler = GridResampler.fit(data.inputs[usable], self.grid, distance=distance)
        return on_grid(data, resampler, usable)

    def _prepare(
        self,
        data: TrainingData,
        whole: TrainingData,
        train: IntArray,
        weight: FloatArray | None,
        rng: np.random.RandomState,
        plan: TrainingPlan,
        kept: FitCheckpoints,
    ) -> Predictions | None:
        """Set spec, scalers, device, base model and network, or keep those of an earlier fit when starting warm.

        Returns the predictions of the base model for samples that it has not seen, if there is one.
        """
        geometry = self._choose_geometry(data.spec.network_spec)
        self._check_options(data.spec.network_spec, geometry)
        self._check_mesh_parameters(data.spec)
        scaling = self._options("scaling")
        if self.subsample_points is not None and (geometry != "points" or "point" in (scaling.inputs, scaling.targets)):
            raise FieldDataError(
                f"subsample_points={self.subsample_points} needs points that are read as geometry 'points' and scaling "
                f"of whole channels; this fit reads geometry {geometry!r} and scales inputs by {scaling.inputs!r}, "
                f"targets by {scaling.targets!r}. Set subsample_points=None, or geometry='points'."
            )
        if self._continues and data.spec != self.spec_:
            raise FieldDataError(
                f"warm_start goes on with data of the same kind, but {self.spec_.differences(data.spec)}. Set "
                "warm_start=False to fit anew."
            )
        self.device_ = pick_device(self.device)
        if self._continues:
            self._store_ranges(replace(data, inputs=whole.inputs), weight, self.ranges_)
            self.spec_ = data.spec
            self.module_.to(self.device_)
            self.domain_.check(data.inputs)
            self._declare_later(data, geometry, weight)
            self._continue_scaling(data, train, weight)
            self._store_target_points(data.targets)
            return self._fit_base(data, whole, _usable(len(data.inputs), weight), self.scalers_, plan, kept)
        used = np.ones(len(data.inputs)) if weight is None else weight
        used_points = data.inputs if weight is None else data.inputs[np.flatnonzero(weight)]
        moving, centre = self._moving_symmetries(data, used_points, geometry)
        scalers = kept.once(
            "scalers", lambda: Scalers.fit(data.inputs[train], data.targets[train], used[train], scaling, moving)
        )
        unseen = self._fit_base(data, whole, _usable(len(data.inputs), weight), scalers, plan, kept)
        with isolated_randomness(np.random.RandomState(0), torch.device("cpu"), False):
            self._check_size(data.spec.network_spec, geometry)
        with isolated_randomness(rng, torch.device("cpu"), False):
            network = self._new_network(data.spec.network_spec, geometry)
        if isinstance(network, CorrectionNetwork) and unseen is not None:
            network.set_sizes(*remainder_sizes(unseen, standardized(data.targets, scalers), train))
        if data.targets.elsewhere and not getattr(network, "supports_queries", False):
            raise FieldDataError(
                f"{_other_points(data)}, but the network of this {type(self).__name__} on geometry {geometry!r} gives "
                "outputs at the points of X only. Set geometry='points' in LaMORegressor, AMORegressor or "
                "MNORegressor, take MNORegressor with host='gnot' or 'oformer', or interpolate y to the points of X by "
                "skop.data.interpolate_fields."
            )
        if pick_dtype(self.dtype, data.spec.role) == "float32":
            _check_single_precision(scalers)
        offset = max(scaler.offset_ for scaler in (scalers.target, scalers.scalars) if scaler is not None)
        if offset > _TOO_FAR_FROM_ZERO and pick_dtype(self.dtype, data.spec.role) == "float32":
            what = "the logarithm of y" if scalers.learns_logarithms else "y"
            remedy = "set target_transform=None" if scalers.learns_logarithms else "subtract the mean from y"
            warn(
                f"the mean of {what} is {offset:.1e} times its standard deviation, of which single precision keeps few "
                f"digits; {remedy}, or set dtype='float64'."
            )
        # Nothing is stored before all of it is known to work, so that a failed fit leaves an earlier one whole.
        self._store_spec(whole.inputs, data.spec)
        self._store_ranges(replace(data, inputs=whole.inputs), weight, None)
        self.spacing_, self.geometry_ = _spacing(data.inputs), geometry
        self.domain_: Domain = Domain.from_fit(used_points, geometry, is_tied=scalers.per_point)
        self.symmetry_centre_ = centre
        self.network_parameters_ = copy.deepcopy(self._network_parameters())
        self.dtype_ = pick_dtype(self.dtype, data.spec.role)
        self.scalers_: Scalers = scalers
        self.module_: torch.nn.Module = network.to(self.device_, getattr(torch, self.dtype_))
        self.loss_curve_: list[float] = []
        self.validation_scores_: list[float] = []
        self._store_target_points(data.targets if weight is None else data.targets[np.flatnonzero(weight)])
        if moving is not None:
            self.domain_ = self.domain_.moved_by(moving, used_points)
        return unseen

    # ------------------------------------------------------------------ base model
    def _fit_base(
        self,
        data: TrainingData,
        whole: TrainingData,
        used: IntArray,
        scalers: Scalers,
        plan: TrainingPlan,
        kept: FitCheckpoints,
    ) -> Predictions | None:
        """Fit the base model, if there is to be one; return its predictions for samples that it has not seen.

        The classical models need no grid, and on the points of the samples before any resampling they lose nothing.
        Logarithms of interpolated values are not interpolated logarithms, so that these need one place.
        """
        resampler, is_classical = data.spec.resampler, isinstance(self.base, (str, PODRegressor))
        has_one_place = scalers.per_point or scalers.learns_logarithms or not whole.inputs.shared_coords
        if resampler is None or not is_classical or has_one_place:
            resampler, whole = None, data
        earlier: BaseModel | None = self.base_
        self.base_, self._base_seconds = None, 0.0
        if self.base is None or (self._continues and earlier is None):
            return None
        if reason := self._why_no_base(whole, used, plan):
            if self._continues:
                raise FieldDataError(
                    f"warm_start goes on with a network over a base, which cannot be fitted since {reason}; the "
                    "earlier fit is kept. Pass other samples, such as these together with those of the earlier fit, or "
                    "set warm_start=False to fit anew."
                )
            if self.base == "auto":
                if reason == _TOO_LARGE:
                    warn(
                        f"there is no base model, since {reason}, and a classical model would need them there at once. "
                        "Set base=None to say so, or base='pod' if they fit into memory."
                    )
                return None
            raise FieldDataError(f"base={self.base!r} cannot be used, since {reason}; set base=None.")

        def fit() -> tuple[BaseModel, Predictions]:
            """Fit it to the samples, in memory."""
            inputs, targets = whole.inputs, whole.targets
            if not (inputs.in_memory and targets.in_memory):
                inputs, targets = inputs.read(slice(None)), targets.read(slice(None))
            samples = replace(whole, inputs=inputs, targets=standardized(targets, scalers))
            model, unseen = BaseModel.fit(self.base, samples, used, _units_of(scalers))
            return model, unseen if resampler is None else on_grid_of(resampler, unseen, inputs)

        model, unseen, self._base_seconds = kept.base_model(fit)
        if self.base == "auto" and not (model.is_useful or self._continues):
            return None
        self.base_ = model
        if self._continues:
            network = cast("CorrectionNetwork", self.module_)
            model.leaves_rest = network.learns_rest
            network.use_whole()
        return unseen

    def _why_no_base(self, data: TrainingData, used: IntArray, plan: TrainingPlan) -> str:
        """Say why the samples cannot have a base model; nothing if they can."""
        is_auto = self.base == "auto"
        # Each is asked only if those before it do not apply: the last ones read all coordinates.
        reasons: dict[str, Callable[[], bool]] = {
            "samples are parts of trajectories": lambda: plan.n_steps is not None,
            "y is on points of each sample's own": lambda: data.spec.target_points == "own",
            "samples differ in their number of points": lambda: data.inputs.is_ragged,
            f"there are {len(used)} samples, and it needs at least {_LEAST_SAMPLES}": lambda: (
                len(used) < _LEAST_SAMPLES
            ),
            "averaged predictions are to be symmetric, and those of a classical model are not": lambda: (
                self._symmetries is not None and self._symmetries.average_predictions
            ),
            _TOO_LARGE: lambda: is_auto and _is_too_large(data),
            "the nodes of samples with points of their own do not correspond": lambda: (
                not nodes_correspond(data.inputs)
            ),
            "distances between nodes of samples with points of their own differ too much for nodes that correspond": (
                lambda: is_auto and not keep_their_distances(data.inputs)
            ),
        }
        if reason := next((reason for reason, applies in reasons.items() if applies()), ""):
            return reason
        count = len(np.unique(groups_of_same_inputs(data.inputs[used])))
        least = f"it needs at least {_LEAST_SAMPLES} with different inputs"
        return (
            f"{count} of the {len(used)} samples have different inputs, and {least}" if count < _LEAST_SAMPLES else ""
        )

    def _unseen_base(self, data: TrainingData, unseen: Predictions | None, rows: IntArray) -> dict[str, Any]:
        """Return the options of a loader for the predictions of a base model that has not seen these samples."""
        if unseen is None or self.base_ is None:
            return {}
        part = rows_of(unseen, rows)
        at_inputs = self.base_.at(part, data.inputs[rows])
        options: dict[str, Any] = {"base": lambda indices: rows_of(at_inputs, indices)}
        if data.targets.elsewhere and data.targets.field is not None:
            options["query_base"] = lambda indices: rows_of(part, indices)
        return options

    def _compare_with_base(self, setup: _Setup, unseen: Predictions, held: IntArray) -> Comparison:
        """Compare the network with the base model on samples that neither has seen; the same for all processes."""
        return setup.group.once(lambda: self._comparison(setup, unseen, held))

    def _comparison(self, setup: _Setup, unseen: Predictions, held: IntArray) -> Comparison:
        """Compare the network with the base model on samples that neither has seen."""
        data, targets, base = setup.data, setup.data.targets[held], rows_of(unseen, held)
        queries = self._target_places(data.inputs[held], targets)
        loader = self.surrogate_.loader(data.inputs[held], queries=queries, **self._unseen_base(data, unseen, held))
        found = standardized(_as_targets(self.surrogate_.predict_batches(loader), targets), self.scalers_)
        weight = _weight_of_errors(targets) * (1.0 if setup.weight is None else setup.weight[held])
        return Comparison.of(base, found, standardized(targets, self.scalers_), weight)

    def _interpolates_line(self, setup: _Setup) -> bool:
        """Whether samples differ by one number alone, and the base is far better on those that it has seen."""
        inputs, unseen, held = setup.data.inputs, setup.unseen, setup.held
        is_line = inputs.n_channels == 0 and inputs.shared_coords and self.spec_.n_params == 1
        if not is_line or unseen is None or held is None or self.base_ is None:
            return False
        targets = setup.data.targets[held]
        known = _as_targets(self.base_.predict(inputs[held], self._target_places(inputs[held], targets)), targets)
        truth = standardized(targets, self.scalers_)
        return bool(Comparison.of(rows_of(unseen, held), known, truth, _weight_of_errors(targets)).ratio.max() < _SEEN)

    def _review(self, setup: _Setup) -> Callable[[float], str | FieldLoader | None]:
        """Return the function by which a training with held-out samples is reviewed."""
        network = self.module_
        learns_rest = isinstance(network, CorrectionNetwork) and network.learns_rest
        is_line = learns_rest and setup.group.once(lambda: self._interpolates_line(setup))
        setup.reviewed = reviewed = Review(learns_rest, is_line)

        def review(part: float) -> str | FieldLoader | None:
            """End the training if the network is of no use, drop a base that is of none, and regularise the rest."""
            if setup.held is None or not reviewed.is_due(part):
                return None
            network.eval()
            loader = None
            if setup.unseen is not None and reviewed.compares(part):
                winner = reviewed.winner(part, self._compare_with_base(setup, setup.unseen, setup.held))
                if winner == "base":
                    return winner
                if winner == "network":
                    if self.surrogate_.has_base_on_points:
                        warn_of_resampling(self.spec_.resampler, "use LaMORegressor without grid")
                    # The network stays in its CorrectionNetwork until the training has ended.
                    self.base_, setup.unseen = None, None
                    loader = self._loader_without_base(setup)
            reviewed.pass_by(part)
            if reviewed.n_remedies < len(self._remedies):
                overfits, reviewed.unseen = self._overfits(setup, setup.held, part, reviewed.unseen)
                if overfits:
                    self._regularise(self._remedies[reviewed.n_remedies])
                    reviewed.n_remedies += 1
            if self._returns_held_out(setup, reviewed):
                setup.held = setup.valid
                loader = self._loader_without_base(setup)
            return loader

        return review

    def _needs_judging(self, n_samples: int, plan: TrainingPlan) -> bool:
        """Whether a training without held-out samples needs some, by which it is judged to overfit."""
        return (
            bool(self._remedies)
            and n_samples >= _LEAST_JUDGED
            and self.max_iter >= _LEAST_EPOCHS
            and not self._continues
            and plan == DIRECT_TRAINING
        )

    def _returns_held_out(self, setup: _Setup, reviewed: Review) -> bool:
        """Whether samples that are held out, but not for early stopping or for a base, have no use any more."""
        is_judged = reviewed.n_remedies == len(self._remedies) or not reviewed.due
        return setup.unseen is None and setup.held is not setup.valid and is_judged

    def _overfits(
        self, setup: _Setup, held: IntArray, part: float, before: tuple[float, list[float]] | None
    ) -> tuple[bool, tuple[float, list[float]] | None]:
        """Whether held-out errors are above others beyond chance and fall no more; and the errors at this part.

        While they fall, a training gains from what it learns by heart too, and regularisation would slow it down.
        """
        if len(held) < _HELD_OUT[0]:  # too few to tell
            return False, None
        rows = _trained_on(setup)
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max(len(held), _LEAST_COMPARED))).astype(int)]
        unseen, seen = (
            setup.group.once(self._make_errors(setup.data, chosen, setup.unseen)) for chosen in (held, rows)
        )
        pairs = [
            (ours, theirs) for ours, theirs in zip(unseen, seen, strict=True) if ours is not None and theirs is not None
        ]
        means = [float(np.mean(ours)) for ours, _ in pairs]
        if before is None:
            return False, (part, means)
        stalled = _STALLED ** np.log2(part / before[0])
        overfits = any(
            mean > stalled * earlier and mean - 2 * np.std(ours, ddof=1) / len(ours) ** 0.5 > np.mean(theirs)
            for mean, earlier, (ours, theirs) in zip(means, before[1], pairs, strict=True)
        )
        return overfits, (part, means)

    @property
    def _remedies(self) -> list[str]:
        """What is done against overfitting, one after the other."""
        training, modules = self._options("training"), list(self.module_.modules())
        able = {
            "shift_patches": any(getattr(module, "can_shift_patches", False) for module in modules),
            "drop_path": any(isinstance(module, ResidualDropout) for module in modules),
        }
        return [name for name, has_effect in able.items() if has_effect and getattr(training, name) == "auto"]

    def _regularise(self, remedy: str) -> None:
        """Regularise the rest of a training that overfits."""
        if remedy == "shift_patches":
            shift_patches(self.module_, True)
        else:
            set_drop_path(self.module_, _DROP_PATH)

    def _loader_without_base(self, setup: _Setup) -> FieldLoader:
        """Samples that are not held out, for a network without a base from some time of the training on."""
        return self._training_loader(setup.data, _trained_on(setup), setup.weight, setup.rng, None)

    def _choose_share(self, setup: _Setup, history: History) -> None:
        """Choose how much of the network is used, by samples that it has not seen; none where a review ended the fit.

        Where a review has dropped the base model, the network becomes that of a fit without one.
        """
        unseen, held = setup.unseen, setup.held
        network = self.module_
        if isinstance(network, CorrectionNetwork) and self.base_ is None:
            self.module_ = network.network
        elif isinstance(network, CorrectionNetwork) and history.stopped == "base":
            network.use_base()
        elif isinstance(network, CorrectionNetwork) and unseen is not None and held is not None:
            compared = self._compare_with_base(setup, unseen, held)
            network.set_shares(compared.field, compared.scalars)

    def _moving_symmetries(
        self, data: TrainingData, used_points: FieldSet, geometry: str
    ) -> tuple[PointSymmetries | None, FloatArray | None]:
        """Check the declared symmetries; return those that move points, and the centre of the box of all points."""
        if self._symmetries is None:
            return None, None
        box, centre = Domain.from_fit(used_points, "points"), None
        require_points_in_domain(self._symmetries, box.lower, box.upper)
        if self._continues:
            box, centre = self.domain_, getattr(self, "symmetry_centre_", None)
        if centre is None and moves_points(self._symmetries, data.spec, geometry, data.inputs):
            centre = (box.lower + box.upper) / 2
        extent, columns = float(np.max(box.upper - box.lower)), self._columns(data.spec)
        declared = declared_symmetries(self._symmetries, data.spec, data.inputs.grid_shape, centre, extent, columns)
        if fields := undeclared_fields(data.spec, declared):
            warn(
                f"the symmetries mirror or rotate samples, but the components of {', '.join(fields)} are left as they "
                "are; if these are vectors or tensors, name them in SymmetryOptions(input_vectors=..., "
                "target_vectors=..., input_tensors=..., target_tensors=...).",
                SkopWarning,
            )
        return declared if isinstance(declared, PointSymmetries) else None, centre

    def _declare_later(self, data: TrainingData, geometry: str, weight: FloatArray | None) -> None:
        """Check the symmetries of a continued fit; warn where the scaling of the first fit does not suit them."""
        if self._symmetries is None:
            return
        used_points = data.inputs if weight is None else data.inputs[np.flatnonzero(weight)]
        moving, self.symmetry_centre_ = self._moving_symmetries(data, used_points, geometry)
        symmetrise = self.surrogate_.symmetrise
        if moving is not None and symmetrise is not None:
            symmetrise.warn_of_unseen(moving, used_points)

    def _continue_scaling(self, data: TrainingData, train: IntArray, weight: FloatArray | None) -> None:
        """Keep the scaling of the first fit for a continued one, and warn where it does not suit its samples."""
        used = np.ones(len(train)) if weight is None else weight[train]
        later = Scalers.fit(data.inputs[train], data.targets[train], used, self._options("scaling"))
        if unsuitable := self.scalers_.unsuitable_for(later):
            warn(
                "warm_start=True keeps the scaling of the first fit, with which values should be about 1 in size, but "
                f"those of {', '.join(unsuitable)} are not, so that the network can hardly learn from them. They did "
                "not vary in the first fit, or had another size. Fit anew by warm_start=False, with the samples of "
                "both fits.",
                SkopWarning,
            )
        self.scalers_ = self.scalers_.continued(later)

    def _store_target_points(self, targets: Targets) -> None:
        """Store where the targets are, if this is not on the points of the inputs."""
        if not targets.elsewhere or targets.field is None:
            return
        self.domain_ = self.domain_.with_targets(targets.field)
        if targets.field.shared_coords:
            self.coords_ = targets.field.coords

    def _sorts_points(self) -> bool:
        """Whether the points of a sample are brought into one order before the network sees them."""
        # Statistics of single points are in the order of the fit.
        return self.geometry_ == self.spec_.network_spec.geometry == "points" and not self.scalers_.per_point

    def _training_loader(
        self,
        data: TrainingData,
        train: IntArray,
        weight: FloatArray | None,
        rng: np.random.RandomState,
        unseen: Predictions | None,
    ) -> FieldLoader:
        """Return a loader of the training samples, with data augmentation by the declared symmetries."""
        options: dict[str, Any] = {"targets": data.targets[train], "weight": None if weight is None else weight[train]}
        options["queries"] = self._target_places(data.inputs[train], options["targets"])
        options["neighbours"] = isinstance(self.loss, SobolevLoss) or self.loss in ("auto", "sobolev")
        options |= self._unseen_base(data, unseen, train)
        if (symmetrise := self.surrogate_.symmetrise) is not None:
            options["symmetries"] = symmetrise.of(data.inputs)
            options["generator"] = torch.Generator().manual_seed(int(rng.randint(2**31)))
        if self.subsample_points is not None:
            options["subsample_points"] = int(self.subsample_points)
            options["generator"] = torch.Generator().manual_seed(int(rng.randint(2**31)))
        return self.surrogate_.loader(data.inputs[train], **options)

    def _target_places(self, inputs: FieldSet, targets: Targets) -> FieldSet | None:
        """Return the targets' own points as query points, with the inputs interpolated there; None without such."""
        if not targets.elsewhere or targets.field is None:
            return None
        return query_points(targets.field, inputs, self.domain_.reach).with_grid(targets.field.grid_shape)

    def _make_trainer(
        self, setup: _Setup, callbacks: EpochCallbacks | None, kept: FitCheckpoints | None = None
    ) -> Trainer:
        """Build the trainer with loss, validation and callbacks, and set drop path and the shift of patches."""
        drop_path, shifts = self._options("training").drop_path, self._options("training").shift_patches
        if set_drop_path(self.module_, 0.0 if drop_path == "auto" else drop_path) == 0 and drop_path not in ("auto", 0):
            raise ValueError(
                f"training__drop_path={drop_path} leaves out residual branches, and the network of "
                f"{type(self).__name__} has none that can be left out; expected 0."
            )
        is_shifted = shifts != "auto" and bool(shifts)
        if shift_patches(self.module_, is_shifted) == 0 and is_shifted:
            raise ValueError(
                "training__shift_patches=True moves the patches of a grid, and this network has none that can move: it "
                "has no patches, or a learned positional encoding of them; expected False."
            )
        data, valid, plan = setup.data, setup.valid, setup.plan
        field = data.targets.field
        is_reviewed = setup.unseen is not None or (setup.held is not None and bool(self._remedies))
        objective = self._make_loss(_spacing(field if data.targets.elsewhere and field is not None else data.inputs))
        setup.trainer = Trainer(
            self.module_,
            objective,
            self._after_base(self._training_options(setup.usable, plan)),
            setup.rng,
            validate=None if valid is None else self._make_validation(data, valid, setup.unseen),
            on_epoch_end=callbacks if callbacks is not None and callbacks.watches else None,
            on_step=callbacks.on_step if callbacks is not None and callbacks.watches_steps else None,
            forward=plan.forward,
            earlier=(earlier := self._earlier_training()),
            validate_first=valid is not None and earlier.has_held_out(valid),
            review=self._review(setup) if is_reviewed else None,
            keeper=kept if kept is not None and kept.is_on else None,
            group=setup.group,
        )
        return setup.trainer

    def _earlier_training(self) -> EarlierTraining:
        """What the fit that was prepared continues; nothing if it does not."""
        if not self.loss_curve_:
            return EarlierTraining()
        earlier: EarlierTraining | None = vars(self).get("_earlier")
        return earlier or EarlierTraining(self.n_iter_, self.fit_seconds_)

    def _store_end(self, trainer: Trainer, valid: IntArray | None) -> None:
        """Store what a warm start continues, outside of the fitted attributes, which are those of model files."""
        self.__dict__.pop("_earlier", None)
        if self.warm_start:
            seconds, end = trainer.earlier.seconds + self.fit_seconds_, trainer.end
            if end is not None and trainer.network is not self.module_:
                end = without_base(end, self.module_)
            self._earlier = EarlierTraining(self.n_iter_, seconds, end, valid)

    def _after_base(self, config: TrainerConfig) -> TrainerConfig:
        """Return the settings with the time of the fit of the base taken off the time limit, up to half of it."""
        if config.max_time is None:
            return config
        return replace(config, max_time=max(config.max_time - self._base_seconds, config.max_time / 2))

    def _training_options(self, inputs: FieldSet, plan: TrainingPlan) -> TrainerConfig:
        """Convert the parameters of the estimator to settings of the trainer."""
        plain = self._with_python_numbers()
        batch_size, n_samples = plain.batch_size, len(inputs) // plan.group_size
        if isinstance(batch_size, str):
            # Tables: as scikit-learn's multilayer perceptron. Fields: few enough samples for several steps in an epoch
            # and for the memory.
            together = plan.group_size if plan.grouping == "together" else 1
            n_points = min(int(np.ceil(inputs.n_points.mean())), plain.subsample_points or np.inf)
            points, least, largest = _BATCHES[self.geometry_]
            fields = max(int(points // n_points), min(least, int(_LARGEST_BATCH_POINTS // n_points)))
            fields = min(largest, fields) // together
            table = self.spec_.role == "features"
            batch_size = min(200, n_samples) if table else max(1, min(fields, n_samples // 8))
        training = plain._options("training")
        return TrainerConfig(
            max_iter=plain.max_iter,
            batch_size=batch_size,
            learning_rate=plain.learning_rate_init,
            optimizer=training.optimizer,
            schedule=training.schedule,
            schedule_interval=training.schedule_interval,
            warmup_fraction=training.warmup_fraction,
            one_cycle=tuple(training.one_cycle),
            weight_decay=training.weight_decay,
            decay_bias_and_norm=training.decay_bias_and_norm,
            beta_2=training.beta_2,
            max_grad_norm=training.max_grad_norm,
            max_time=plain.max_time,
            ema_decay=training.ema_decay,
            n_iter_no_change=training.n_iter_no_change if self.early_stopping else None,
            tol=training.tol,
            autocast=None if training.autocast is None else getattr(torch, training.autocast),
            group_size=plan.group_size,
            grouping=plan.grouping,
            keep_end=self.warm_start,
        )

    def _make_loss(self, spacing: tuple[float, ...] | None) -> Objective:
        """Build the training objective from the parameters."""
        name = self.loss
        if name == "auto":
            name = AUTOMATIC_LOSSES[0 if self.spec_.n_outputs else 1]
        training = self._options("training")
        return Objective(
            name,
            training.loss_reduction,
            self.scalers_,
            spacing=spacing,
            scalar_weight=training.scalar_weight,
            balanced=self.loss == "auto" and self.spec_.n_outputs > 1,
        )

    def _make_validation(self, data: TrainingData, valid: IntArray, unseen: Predictions | None) -> Callable[[], float]:
        """Return a function that computes the current validation error, which is 1 - `score`."""
        errors = self._make_errors(data, valid, unseen)

        def error() -> float:
            """Validation error of the current weights."""
            fields, scalars = errors()
            means = [] if fields is None else [np.mean(fields)]
            means += [] if scalars is None else [np.sqrt(np.mean(scalars**2))]
            return float(np.mean(means))

        return error

    def _make_errors(self, data: TrainingData, rows: IntArray, unseen: Predictions | None) -> Callable[[], _Errors]:
        """Return a function that computes the current relative error of each sample, for fields and scalars, (n,)."""
        inputs, targets = data.inputs[rows], data.targets[rows]
        queries = self._target_places(inputs, targets)
        loader = self.surrogate_.loader(inputs, queries=queries, **self._unseen_base(data, unseen, rows))

        field = targets.field
        pieces = [] if field is None else (values.reshape(-1, field.n_channels) for _, values in iterate_rows(field))
        sizes = None if field is None else sizes_of_channels(pieces)

        def errors() -> _Errors:
            """Errors of the current weights."""
            norms, scalars = [], []

            def compare(indices: IntArray, found: Predictions) -> None:
                """Compare the predictions of some samples with the truth."""
                if found.fields is not None and field is not None:
                    part, n_channels = field[indices], field.n_channels
                    true, predicted = (np.asarray(held).reshape(-1, n_channels) for held in (part.values, found.fields))
                    norms.append(norms_of_fields(true, predicted, part.n_points, sizes))
                if found.scalars is not None:
                    scalars.append(found.scalars)

            # Without averaging over symmetries, which would multiply the time of every validation.
            self.surrogate_.pass_predictions(loader, compare)
            of_scalars = None
            if scalars and targets.scalars is not None:
                of_scalars = relative_errors_of_scalars(targets.scalars, np.concatenate(scalars))
            return relative_errors(norms) if norms else None, of_scalars

        return errors

    def _record(self, history: History) -> None:
        """Store the record of the training in attributes."""
        # A continued training may find no better weights than those from which it started.
        if history.best_iter:
            self.best_iter_ = len(self.loss_curve_) + history.best_iter
        self.stopped_ = history.stopped
        self.loss_curve_ = [*self.loss_curve_, *history.loss_curve]
        self.validation_scores_ = [*self.validation_scores_, *(1.0 - error for error in history.validation_errors)]
        self.n_iter_ = len(self.loss_curve_)
        self.fit_seconds_ = history.seconds[-1] if history.seconds else 0.0

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


def _other_points(data: TrainingData) -> str:
    """Say that the targets are on other points than the inputs."""
    counts = [np.asarray(part.n_points) for part in (data.targets.field, data.inputs) if part is not None]
    ours, theirs = (f"{own.min()} to {own.max()}" if np.ptp(own) else str(own[0]) for own in counts)
    return f"y is on other points than X ({ours} points per sample, X has {theirs})"


#: Packages that must receive an interrupt when they have called `fit`, so that they stop too.
_TOOLS = {"dask", "hyperopt", "joblib", "optuna", "ray", "scipy", "sklearn", "skopt"}


def is_called_by_another_tool(within: Callable[..., Any] | None = None) -> bool:
    """Whether `fit` was called by a tool such as a search or a cross-validation, not by the user's own code.

    Callers of the function `within` are not looked at.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if within is not None and frame.f_code is within.__code__:
            return False
        name = str(frame.f_globals.get("__name__"))
        # Skip the frame of scikit-learn's decorator of `fit`, which is there for every caller.
        if name.partition(".")[0] in _TOOLS and name != fit_context.__module__:
            return True
    return False


def _are_equal(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same."""
    if isinstance(value, BaseEstimator) and type(value) is type(other):
        mine, theirs = (part.get_params(deep=False) for part in (value, other))
        return all(_are_equal(held, theirs[name]) for name, held in mine.items())
    return value is other or bool(np.array_equal(value, other))


def _values_of(part: Any) -> list[Any]:
    """Values of the parameters of an estimator or an option object; none of anything else."""
    return list(part.get_params(deep=False).values()) if isinstance(part, BaseEstimator) else []


def _check_single_precision(scalers: Scalers) -> None:
    """Raise an error if single precision cannot hold the targets: a training would make infinities or zeros of them."""
    least, most = _IN_SINGLE_PRECISION
    # Logarithms are computed in double precision.
    held = [scaler for scaler in (scalers.target, scalers.scalars) if scaler is not None and scaler.function is None]
    largest = max((float(scaler.size_.max()) for scaler in held), default=0.0)
    if largest > most or 0 < largest < least:
        raise FieldDataError(
            f"y has the size {largest:.1e}, which single precision cannot hold in a training; expected {least:g} to "
            f"{most:g}. Take another unit, set dtype='float64', or check fill values."
        )


def _is_too_large(data: TrainingData) -> bool:
    """Whether samples that are not in memory are too large to be read for a base model that was not asked for."""
    if data.inputs.in_memory and data.targets.in_memory:
        return False
    count = 0
    for part in (data.inputs, data.targets.field):
        if part is not None:
            width = part.n_channels + (0 if part.shared_coords else part.n_dims)
            count += int(part.n_points.sum()) * width
    return 8 * count > _BASE_BYTES


def _usable(n_samples: int, weight: FloatArray | None) -> IntArray:
    """Indices of the samples with positive weight."""
    return np.arange(n_samples) if weight is None else np.flatnonzero(weight)


def _as_targets(found: Predictions, like: Targets) -> Targets:
    """Predictions on the points of targets, as these."""
    return Targets(None if like.field is None else like.field.with_values(found.fields), found.scalars, like.elsewhere)


def _weight_of_errors(targets: Targets) -> FloatArray:
    """Weight of the squared error of each sample in relative errors of fields; equal weights for scalars alone."""
    if targets.field is None:
        return np.ones(len(targets))
    values = np.asarray(targets.field.values, dtype=np.float64)
    size = np.mean(values**2 / np.maximum(np.mean(values**2, axis=(0, 1)), np.finfo(float).tiny), axis=(1, 2))
    # A sample of nearly nothing would outweigh all others.
    return 1 / np.maximum(size, 1e-3)


def _units_of(scalers: Scalers) -> tuple[FloatArray, FloatArray] | None:
    """Shift and factor by which standardised outputs become physical ones; None where these differ between points."""
    held = [scaler for scaler in (scalers.target, scalers.scalars) if scaler is not None]
    if scalers.learns_logarithms or scalers.per_point:
        return None
    shifts, factors = ([getattr(scaler, name) for scaler in held] for name in ("mean_", "scale_"))
    return np.concatenate(shifts), np.concatenate(factors)


def _trained_on(setup: _Setup) -> IntArray:
    """Indices of the samples of a training that are not held out."""
    usable = _usable(len(setup.data.inputs), setup.weight)
    return usable if setup.held is None else np.setdiff1d(usable, setup.held)


def _hold_out(inputs: FieldSet, train: IntArray, n_held: int) -> tuple[IntArray, IntArray]:
    """Hold out some samples, or what is missing of these; those with the same inputs stay together.

    Each of n samples that is missing raises the error by some part of 1 / n, and m samples that choose the share by
    some part of 1 / m, so that the best number grows with the square root of n. Continued fits hold out the same ones,
    which the network has not seen then either.
    """
    group = groups_of_same_inputs(inputs[train])
    count = _HELD_OUT[0] - n_held if n_held else int(np.clip(round(np.sqrt(group.max() + 1) / 2), *_HELD_OUT))
    return train[group >= count], train[group < count]


def _hold_out_at_random(train: IntArray) -> tuple[IntArray, IntArray]:
    """Hold out a part of the samples, by which a training without a base is judged to overfit.

    The same ones for any seed, so that the random numbers of a fit do not depend on it.
    """
    order = np.random.RandomState(0).permutation(len(train))
    count = min(int(_JUDGED * len(train)), _HELD_OUT[1])
    return train[np.sort(order[count:])], train[np.sort(order[:count])]


def _spacing(inputs: FieldSet) -> tuple[float, ...] | None:
    """Grid spacing that all samples share, or None."""
    if not inputs.shared_coords or inputs.grid_shape is None or len(inputs.grid_shape) != inputs.n_dims:
        return None
    return grid_spacing(inputs.coords, inputs.grid_shape)


def check_weight(sample_weight: Any, n_samples: int) -> FloatArray | None:
    """Sample weights as an array, checked by scikit-learn's rules."""
    if sample_weight is None:
        return None
    refuse_mask(sample_weight, "sample_weight")
    weight = check_sample_weight(sample_weight, np.empty((n_samples, 1)), dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise FieldDataError("all sample weights are zero; at least one sample needs a positive weight.")
    least, most = _WEIGHTS
    if not least <= weight.max() <= most:
        raise FieldDataError(
            f"the largest sample weight is {weight.max():.1e}, which single precision cannot hold beside a loss; "
            f"expected {least:g} to {most:g}. Divide the weights by their mean."
        )
    return weight


def _points_of_a_step(inputs: FieldSet, config: TrainerConfig, drawn: int | None) -> int:
    """Number of points in a mini-batch, over all its samples."""
    together = config.group_size if config.grouping == "together" else 1
    return config.batch_size * together * int(min(inputs.n_points.mean(), drawn or np.inf))


def _share_documentation(estimator: type, base: type) -> None:
    """Append the documentation of the base class's parameters and attributes to that of a subclass."""
    # Under `python -OO` there are no docstrings.
    if estimator.__doc__ is None or base.__doc__ is None:
        return
    before, rest = estimator.__doc__, ""
    for section in ("Parameters", "Attributes"):
        head = f"    {section}\n    {'-' * len(section)}\n"
        shared = _entries(base.__doc__.partition(head)[2])
        text, found, after = (before + rest).partition(head)
        own = _entries(after) if found else {}
        _, _, rest = after.partition("\n\n") if found else ("", "", rest)
        text = text if found else f"{before.rstrip()}\n\n"
        entries = "".join({**own, **{names: entry for names, entry in shared.items() if names not in own}}.values())
        before = f"{text}{head}{entries}\n"
    estimator.__doc__ = before + (rest or "    ")


def _entries(section: str) -> dict[str, str]:
    """Split a section of a docstring, up to the first blank line, into its entries by name."""
    entries: dict[str, str] = {}
    names = ""
    for line in section.partition("\n\n")[0].rstrip().splitlines(keepends=False):
        if not line.startswith("     "):
            names = line.partition(" : ")[0].strip()
        entries[names] = entries.get(names, "") + line + "\n"
    return entries
