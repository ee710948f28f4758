"""OperatorRegressor: the scikit-learn contract of the neural operators. Read X and y, fit, predict, score, save.

A concrete operator adds its parameters, their constraints, and the lines that build its network.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, p parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from sklearn.utils import check_random_state

from skop._sklearn_compat import CallbackSupportMixin, Interval, StrOptions, check_sample_weight, fit_context
from skop._typing import FloatArray, IntArray
from skop.data import (
    DataSpec,
    FieldLoader,
    FieldSet,
    GridResampler,
    GridSymmetries,
    Predictions,
    Scalers,
    ScalingOptions,
    Targets,
    TrainingData,
    grid_spacing,
    query_points,
)
from skop.estimators._callbacks import EpochCallbacks
from skop.estimators._field import FieldRegressor
from skop.estimators._objective import Objective
from skop.estimators._options import SymmetryOptions, TrainingOptions
from skop.estimators._refinement import predict_refined, refinement_factors
from skop.estimators._runtime import isolated_randomness, pick_device, pick_dtype, thread_limit
from skop.exceptions import FieldDataError, ResamplingWarning, SkopWarning, warn
from skop.networks import Outputs
from skop.ops import record_backends
from skop.training import DIRECT_TRAINING, History, Trainer, TrainerConfig, TrainingPlan

__all__ = ["OperatorRegressor"]

#: Target number of points per batch for ``batch_size="auto"``. On grids it caps memory; on point sets most layers act
#: per point, so small batches already give a gradient of low variance and allow more steps.
_BATCH_POINTS = {"grid": 2**17, "structured": 2**12, "points": 2**12}
#: Relative error of the way to the grid of `grid` and back from which on a fit warns.
_LARGE_ERROR = 0.02
#: Points that predict sends through the network at once; bounds its memory.
_PREDICT_POINTS = 2**17


@dataclass(kw_only=True, eq=False, repr=False)
class OperatorRegressor(CallbackSupportMixin, FieldRegressor):
    """Base of the operator regressors: fit, predict, score and save over fields and tables.

    A subclass is a keyword-only dataclass: its fields are its parameters, `_parameter_constraints` their ranges,
    and `_build_network` makes its network. Its docstring describes the fields that it adds; those below are
    appended to it. Subclasses can be saved and loaded without being listed anywhere.

    Parameters
    ----------
    geometry : {"auto", "grid", "structured", "points"}, default="auto"
        Reading of the points. ``"grid"``: a rectilinear grid that all samples share; ``"structured"``: a grid that
        is bent, or each sample's own; ``"points"``: points in any order. ``"auto"`` takes the first that fits.
    grid : tuple of int, "auto" or None, default=None
        Grid for samples whose points form none: points along each axis of the box of all training points, or about
        as many cells as the mean sample has points. Fields go to the grid and predictions back by linear
        interpolation; training and validation errors are those on the grid. Samples with points of their own get
        one more input channel, see `skop.data.GridResampler`. Data on a grid are used as they are.
    loss : {"auto", "relative_l2", "relative_l2_gradient", "h1", "mse"} or callable, default="auto"
        Training loss, see `skop.losses`. ``"auto"`` is the relative L2 error for fields and the squared
        error for scalars. Relative losses are taken in physical units, where the channel with the largest numbers
        counts most; ``"auto"`` takes several channels each in units of its size, if targets are scaled. The
        squared error is taken on scaled targets.
    max_iter : int, default=100
        Number of epochs (papers: 500).
    max_time : float or None, default=None
        Seconds of training at most; the learning rate schedule then follows the time, so that the rate has
        fallen when the time is up. Results then depend on the speed of the machine.
    batch_size : int or "auto", default="auto"
        Samples of a training step. ``"auto"``: up to 16, fewer for less than 128 samples, and about 4096 points
        where they form no grid; up to 200 for tables of plain features (papers: 1 to 8).
    learning_rate_init : float, default=0.004
        Peak learning rate of AdamW (papers: 3e-4 to 1e-3).
    early_stopping : bool, default=False
        Whether to hold out a part of the samples, stop when their error no longer falls, and keep the best weights.
    n_iter_no_change : int, default=10
        Epochs without progress after which training stops early.
    symmetries : sequence of str, SymmetryOptions or None, default=None
        Symmetries that hold for the problem, by which training samples are moved at random; see
        `skop.data.GridSymmetries` for their names, and `skop.SymmetryOptions` for vectors and for averaged predictions.
    refinement : {"average", "interpolate", "native"}, default="average"
        Prediction on a grid that is a whole number of times finer than in training: the average over
        readings at the training spacing, one of them interpolated, or the network fed with the fine grid itself.
    input_fields, target_fields : list of str or None, default=None
        Fields of meshes that are inputs and targets, by their names in the meshes.
    cell_data : {"refuse", "to_points"}, default="refuse"
        Treatment of fields that meshes hold on their cells: an error, or averages carried to the points.
    warm_start : bool, default=False
        Whether a fit goes on from the weights of the last one.
    random_state : int, RandomState instance or None, default=None
        Seed of weights, order of the samples and augmentation; with an int two fits on one CPU are bit-equal.
    device : str, default="auto"
        Torch device; ``"auto"`` takes CUDA where there is one, else the CPU.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision. ``"auto"``: float64 for tables of plain features, as scikit-learn; float32 for fields.
    verbose : bool or int, default=False
        Amount of output: 1 shows a progress line on a terminal, 2 prints a line for each epoch.
    training : TrainingOptions or None, default=None
        Further training parameters, such as weight decay and schedule; None takes the defaults of
        `skop.TrainingOptions`. Searches reach them as ``training__weight_decay``.
    scaling : ScalingOptions or None, default=None
        Scaling of the data; None takes the defaults of `skop.ScalingOptions`.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network.
    loss_curve_ : list of float
        Training loss of each epoch.
    validation_scores_ : list of float
        1 minus the validation error after each epoch, when stopping early.
    n_iter_ : int
        Epochs run.
    best_iter_ : int
        Epoch whose weights were kept.
    stopped_ : str
        Why training ended.
    fit_seconds_ : float
        Time of the training.
    n_features_in_ : int
        Columns of a table X, or channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    geometry_ : {"grid", "structured", "points"}
        Reading of the points.
    resampling_error_ : float or None
        Mean relative L2 error of the training targets after their way from points to the grid and back, by which
        even a network without errors on the grid is off; None without such a way. A fit warns above 0.02.
    spec_ : skop.data.DataSpec
        Kinds and sizes of X and y in the fit.
    scalers_ : skop.data.Scalers
        Fitted scalers.
    backend_ : str
        What ran the scans in the fit: ``"numba"`` and ``"triton"`` are the fused kernels for CPU and CUDA,
        ``"mamba_ssm"`` is that package's for CUDA, ``"torch"`` is plain torch; several are joined by commas.
    device_, dtype_ : torch.device, str
        Where and in which precision the network computes.
    """

    geometry: str = "auto"
    grid: Any = None
    loss: Any = "auto"
    max_iter: int = 100
    max_time: float | None = None
    batch_size: int | str = "auto"
    learning_rate_init: float = 4e-3
    early_stopping: bool = False
    n_iter_no_change: int = 10
    symmetries: Any = None
    refinement: str = "average"
    input_fields: Any = None
    target_fields: Any = None
    cell_data: str = "refuse"
    warm_start: bool = False
    random_state: Any = None
    device: str = "auto"
    dtype: str = "auto"
    verbose: bool | int = False
    training: TrainingOptions | None = None
    scaling: ScalingOptions | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "geometry": [StrOptions({"auto", "grid", "structured", "points"})],
        "grid": ["array-like", StrOptions({"auto"}), None],
        "loss": [StrOptions({"auto", "relative_l2", "relative_l2_gradient", "h1", "mse"}), callable],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "early_stopping": ["boolean"],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "symmetries": ["array-like", SymmetryOptions, None],
        "refinement": [StrOptions({"average", "interpolate", "native"})],
        "input_fields": ["array-like", None],
        "target_fields": ["array-like", None],
        "cell_data": [StrOptions({"refuse", "to_points"})],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "device": [str],
        "dtype": [StrOptions({"auto", "float32", "float64"})],
        "verbose": ["verbose"],
        "training": [TrainingOptions, None],
        "scaling": [ScalingOptions, None],
    }
    #: Published configurations by name, each the parameters that differ from the defaults; those of option objects
    #: are dictionaries.
    _presets: ClassVar[dict[str, dict[str, Any]]] = {}
    #: Option objects by the parameter that takes them.
    _option_types: ClassVar[dict[str, type[Any]]] = {
        "training": TrainingOptions,
        "scaling": ScalingOptions,
        "symmetries": SymmetryOptions,
    }
    #: Geometries on which a parameter, such as ``"n_latents"`` or ``"architecture__mixer"``, has an effect; it has
    #: one on all of them where it is not listed.
    _effective_on: ClassVar[dict[str, tuple[str, ...]]] = {"refinement": ("grid",)}
    #: Size of the features, by which a fit chooses its number of threads; operators make it a parameter.
    width = 64  # without an annotation it is no field of the dataclass
    #: Points of each sample in a training step; operators of point sets make it a parameter.
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
            Benchmark of the paper, such as ``"darcy"``; an unknown name raises with the list of those there are.
        **changes
            Parameters to set differently, those of option objects as ``training__weight_decay``.

        Returns
        -------
        estimator
            Unfitted.

        Raises
        ------
        ValueError
            If there is no such preset.

        Examples
        --------
        >>> from skop import LaMORegressor
        >>> LaMORegressor.from_preset("darcy", max_iter=10).width
        64
        """
        if name not in cls._presets:
            raise ValueError(f"{cls.__name__} has no preset {name!r}; choose from {sorted(cls._presets)}.")
        preset = {
            parameter: cls._option_types[parameter](**value) if parameter in cls._option_types else value
            for parameter, value in cls._presets[name].items()
        }
        return cls(**preset).set_params(**changes)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of option objects too.

        Parameters
        ----------
        **params
            Parameters by name; ``training__weight_decay`` is that of the option object ``training``, which is
            made where it is None.

        Returns
        -------
        self
            The estimator.
        """
        for name in self._option_types:
            if any(key.startswith(f"{name}__") for key in params):
                params = {**params, name: self._as_options(name, params.get(name, getattr(self, name)))}
        return super().set_params(**params)

    def _options(self, name: str) -> Any:
        """The option object of a parameter, with the defaults where none was given."""
        return self._as_options(name, getattr(self, name))

    def _as_options(self, name: str, given: Any) -> Any:
        """What was given for an option object as one: None are the defaults, a sequence names symmetries."""
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
        """The declared symmetries, None where there are none."""
        declared: SymmetryOptions = self._options("symmetries")
        return declared if len(declared.names) else None

    def _check_options(self, geometry: str) -> None:
        """Warn of parameters that have no effect on this geometry."""
        idle = self._changed(name for name, geometries in self._effective_on.items() if geometry not in geometries)
        if idle:
            words = ", ".join(f"{name}={value!r}" for name, value in idle.items())
            warn(
                f"{words} has no effect on points read as geometry {geometry!r}; "
                f"{'it acts' if len(idle) == 1 else 'they act'} on "
                f"{' or '.join(sorted({kind for name in idle for kind in self._effective_on[name]}))}.",
                SkopWarning,
            )

    def _changed(self, names: Iterable[str]) -> dict[str, Any]:
        """Those of the named parameters, such as ``"architecture__mixer"``, whose values are not the defaults."""
        parts = {
            "": (self, type(self)()),
            **{key: (self._options(key), kind()) for key, kind in self._option_types.items()},
        }
        changed = {}
        for name in names:
            holder, _, inner = name.rpartition("__")
            value, default = (getattr(part, inner) for part in parts[holder])
            if value is not default and not np.array_equal(value, default):
                changed[name] = value
        return changed

    def _check_mesh_parameters(self, spec: DataSpec) -> None:
        """Warn of parameters of meshes where X is no mesh."""
        changed = self._changed(("input_fields", "target_fields", "cell_data"))
        # Estimators that wrap this one have read the meshes, and pass a FieldSet.
        if changed and spec.kept_axes is None and spec.input_form != "fieldset":
            words = ", ".join(f"{name}={value!r}" for name, value in changed.items())
            warn(f"{words} has no effect, since X holds no meshes; it names fields of meshes.", SkopWarning)

    # ------------------------------------------------------------------ what a subclass gives
    def _build_network(self, spec: DataSpec, geometry: str) -> torch.nn.Module:
        """Build the untrained network for what it sees of the data, `DataSpec.network_spec`, read as this geometry."""
        raise NotImplementedError

    def _choose_geometry(self, spec: DataSpec) -> str:
        """The geometry asked for, where what the network sees has it: ``"grid"``, ``"structured"`` or ``"points"``."""
        if self.geometry == "auto":
            return spec.geometry
        if self.geometry != "points" and (spec.grid_shape is None or len(spec.grid_shape) != spec.n_dims):
            raise FieldDataError(
                f"geometry={self.geometry!r} needs the points of a regular grid in C order, but the {spec.n_dims}-D "
                "points of X form none; use geometry='auto', sort the points of a grid by "
                "skop.data.find_grid(coords)[1], or resample the fields onto one by grid='auto'."
            )
        return self.geometry

    def _network_options(self, spec: DataSpec, geometry: str) -> dict[str, Any]:
        """Sizes of the data, and the parameters of `architecture` that have an effect, by the names of networks."""
        sizes = {name: getattr(spec, name) for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
        parts = self._options("architecture").get_params(deep=False)
        idle = {name.removeprefix("architecture__") for name, on in self._effective_on.items() if geometry not in on}
        return sizes | {name: value for name, value in parts.items() if name not in idle}

    @property
    def resampling_error_(self) -> float | None:
        """Error of the training targets after their way to the grid and back; None without such a way."""
        return None if self.spec_.resampler is None else self.spec_.resampler.error

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "module_")

    # ------------------------------------------------------------------ fit
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the network on samples.

        Parameters
        ----------
        X : array-like, FieldSet, (coords, fields), list, or meshes
            Inputs: an array ``(n, *grid, c)`` of fields on a regular grid of the unit box; a
            `skop.FieldSet`; a tuple of coordinates ``(P, d)`` and fields ``(n, P, c)``; a list of
            ``(coords, fields)`` or of points ``(P_i, d)``, one for each sample; meshes, as a list of
            `meshio.Mesh`, a list of paths or a pattern such as ``"runs/*.vtu"``; or a table
            ``(n, p)``: global parameters when y is a field, features when y is scalars. A function on p
            points of [0, 1] has a channel axis, ``(n, p, 1)``, or is a FieldSet.
        y : array-like, FieldSet, (coords, fields), list, meshes or None, default=None
            Targets: fields on the points of X, with or without a channel axis, or scalars ``(n,)``
            or ``(n, q)``. The `params` of a FieldSet are scalars beside its field. None is for meshes
            that hold their targets themselves.
        sample_weight : array-like of shape (n,) or None, default=None
            Weight of each sample in the loss and in the scalers; samples of weight 0 are left out.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used; a ValueError.
        TrainingDivergedError
            If the loss stays non-finite at lowered rates.
        KeyboardInterrupt
            If the user interrupts before the first whole epoch, or in a fit that another tool has called, such as a
            search, a cross-validation, a pipeline or an ensemble. Otherwise an interrupt ends the training and keeps
            the best weights so far.
        """
        return self._fit_data(X, y, sample_weight)

    def _fit_data(self, X: Any, y: Any, sample_weight: Any, plan: TrainingPlan = DIRECT_TRAINING) -> Self:
        """Read and train by a plan; a fit that fails leaves an earlier one, or none, as it was."""
        before = _fitted_attributes(self)
        try:
            history = self._train(X, y, sample_weight, plan)
        except BaseException:
            # No untrained model is handed out; what callbacks hold must stay for them to be torn down.
            for name in _fitted_attributes(self):
                delattr(self, name)
            self.__dict__.update(before)
            raise
        if history.stopped == "interrupted" and _is_called_by_another_tool():
            # A search or a cross-validation must end too, and not go on with a fold that was cut short.
            raise KeyboardInterrupt("training was interrupted")
        return self

    def _train(self, X: Any, y: Any, sample_weight: Any, plan: TrainingPlan) -> History:
        """Read, prepare, train, and store what the training showed."""
        for name in self._option_types:
            self._options(name)._validate_params()
        data = self._read(X, y)
        weight = _check_weight(sample_weight, len(data.inputs))
        rng = check_random_state(self.random_state)
        points = data.inputs
        data = self._resampled(data, _usable(len(data.inputs), weight), plan)
        usable = data.inputs if weight is None else data.inputs[np.flatnonzero(weight)]
        train, valid = self._split(len(data.inputs), weight, rng, plan.group_size)
        self._prepare(data, points, train, weight, rng)
        loader = self._training_loader(data, train, weight, rng)
        with EpochCallbacks(self, X, y, sample_weight) as callbacks:
            trainer = self._make_trainer(data, usable, valid, rng, callbacks, plan)
            randomness = isolated_randomness(rng, self.device_, self._options("training").deterministic)
            threads = thread_limit(_points_of_a_step(usable, trainer.options, self.subsample_points), self.width)
            with randomness, threads, record_backends() as used:
                history = trainer.run(loader)
        self._record(history)
        self.backend_ = ", ".join(sorted(used)) or "torch"
        return history

    def _split(
        self, n_samples: int, weight: FloatArray | None, rng: np.random.RandomState, group_size: int
    ) -> tuple[IntArray, IntArray | None]:
        """Samples to train on, and to validate on when stopping early; groups of successive samples stay whole."""
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
        """The samples as the network reads them: on a grid, if they form none and `grid` asks for one."""
        if self.grid is None or data.spec.geometry != "points":
            return data
        continues = self.warm_start and hasattr(self, "module_") and self.spec_.n_dims == data.spec.n_dims
        if continues and self.spec_.resampler is not None:
            resampler = self.spec_.resampler
        else:
            # Trainings that feed frames back would take the channel of distances for one of a frame.
            distance = None if plan.forward is None else False
            resampler = GridResampler.fit(data.inputs[usable], self.grid, distance=distance)
        inputs, targets, error = _on_grid(data, resampler, usable)
        if error is not None and error > _LARGE_ERROR:
            _warn_of_error(error, resampler)
        return TrainingData(inputs, targets, replace(data.spec, resampler=replace(resampler, error=error)))

    def _prepare(
        self,
        data: TrainingData,
        points: FieldSet,
        train: IntArray,
        weight: FloatArray | None,
        rng: np.random.RandomState,
    ) -> None:
        """Set spec, scalers, device and network, or keep those of an earlier fit when starting warm."""
        continues = self.warm_start and hasattr(self, "module_")
        geometry = self._choose_geometry(data.spec.network_spec)
        self._check_options(geometry)
        self._check_mesh_parameters(data.spec)
        scaling = self._options("scaling")
        if self.subsample_points is not None and (geometry != "points" or "point" in (scaling.inputs, scaling.targets)):
            raise FieldDataError(
                f"subsample_points={self.subsample_points} needs points that are read as geometry 'points' and scaling "
                f"of whole channels; this fit reads geometry {geometry!r} and scales inputs by {scaling.inputs!r}, "
                f"targets by {scaling.targets!r}. Set subsample_points=None, or geometry='points'."
            )
        if continues and data.spec != self.spec_:
            raise FieldDataError(
                f"warm_start needs data of the same kind: the earlier fit saw {self.spec_}, this one sees {data.spec}."
            )
        self.device_ = pick_device(self.device)
        if continues:
            self.spec_ = data.spec
            self.module_.to(self.device_)
            return
        with isolated_randomness(rng, torch.device("cpu"), False):
            network = self._build_network(data.spec.network_spec, geometry)
        used = np.ones(len(data.inputs)) if weight is None else weight
        scalers = Scalers.fit(data.inputs[train], data.targets[train], used[train], scaling)
        # Nothing is stored before all of it is known to work, so that a failed fit leaves an earlier one whole.
        self._store_spec(points, data.spec)
        self.spacing_, self.geometry_ = _spacing(data.inputs), geometry
        self.dtype_, self.scalers_ = pick_dtype(self.dtype, data.spec.role), scalers
        self.module_: torch.nn.Module = network.to(self.device_, getattr(torch, self.dtype_))
        self.loss_curve_: list[float] = []
        self.validation_scores_: list[float] = []

    def _loader(self, inputs: FieldSet, **options: Any) -> FieldLoader:
        """Batches of samples in this fit's scaling, on its device."""
        options |= {"device": self.device_, "dtype": getattr(torch, self.dtype_)}
        # Statistics of single points are in the order of the fit.
        sorts = self.geometry_ == self.spec_.network_spec.geometry == "points" and not self.scalers_.per_point
        return FieldLoader(inputs, self.scalers_, sort_points=sorts, **options)

    def _training_loader(
        self, data: TrainingData, train: IntArray, weight: FloatArray | None, rng: np.random.RandomState
    ) -> FieldLoader:
        """Batches of the training samples, moved by the declared symmetries."""
        options: dict[str, Any] = {"targets": data.targets[train], "weight": None if weight is None else weight[train]}
        if self._symmetries is not None:
            options["symmetries"] = self._declared_symmetries(data.inputs)
            options["generator"] = torch.Generator().manual_seed(int(rng.randint(2**31)))
        if self.subsample_points is not None:
            options["subsample_points"] = self.subsample_points
            options["generator"] = torch.Generator().manual_seed(int(rng.randint(2**31)))
        return self._loader(data.inputs[train], **options)

    def _declared_symmetries(self, inputs: FieldSet) -> GridSymmetries:
        """The symmetries that the parameters declare, on the grid of these samples."""
        if inputs.grid_shape is None:
            raise FieldDataError("symmetries need samples on one regular grid; set symmetries=None.")
        declared = self._symmetries or SymmetryOptions()
        vectors = (declared.input_vectors, declared.target_vectors)
        return GridSymmetries(list(declared.names), inputs.grid_shape, *vectors, domain=declared.domain)

    def _make_trainer(
        self,
        data: TrainingData,
        usable: FieldSet,
        valid: IntArray | None,
        rng: np.random.RandomState,
        callbacks: EpochCallbacks,
        plan: TrainingPlan,
    ) -> Trainer:
        """The trainer with this estimator's loss, validation and callbacks; usable are the samples with a weight."""
        objective = self._make_loss(_spacing(data.inputs))
        return Trainer(
            self.module_,
            objective,
            self._training_options(usable, plan),
            rng,
            validate=None if valid is None else self._make_validation(data.inputs[valid], data.targets[valid]),
            on_epoch_end=callbacks,
            forward=plan.forward,
        )

    def _training_options(self, inputs: FieldSet, plan: TrainingPlan) -> TrainerConfig:
        """Constructor parameters as the trainer takes them."""
        batch_size, n_samples = self.batch_size, len(inputs) // plan.group_size
        if isinstance(batch_size, str):
            # Tables follow scikit-learn's multilayer perceptron; fields need enough steps an epoch, and memory.
            together = plan.group_size if plan.grouping == "together" else 1
            n_points = min(int(np.ceil(inputs.n_points.mean())), self.subsample_points or np.inf)
            fields = min(16, int(_BATCH_POINTS[self.geometry_] // n_points)) // together
            table = self.spec_.role == "features"
            batch_size = min(200, n_samples) if table else max(1, min(fields, n_samples // 8))
        training = self._options("training")
        return TrainerConfig(
            max_iter=self.max_iter,
            batch_size=batch_size,
            learning_rate=self.learning_rate_init,
            schedule=training.schedule,
            schedule_interval=training.schedule_interval,
            warmup_fraction=training.warmup_fraction,
            weight_decay=training.weight_decay,
            decay_bias_and_norm=training.decay_bias_and_norm,
            beta_2=training.beta_2,
            max_grad_norm=training.max_grad_norm,
            max_time=self.max_time,
            ema_decay=training.ema_decay,
            n_iter_no_change=self.n_iter_no_change if self.early_stopping else None,
            tol=training.tol,
            autocast=None if training.autocast is None else getattr(torch, training.autocast),
            group_size=plan.group_size,
            grouping=plan.grouping,
        )

    def _make_loss(self, spacing: tuple[float, ...] | None) -> Objective:
        """The training objective that the parameters ask for."""
        name = self.loss
        if name == "auto":
            name = "relative_l2" if self.spec_.n_outputs else "mse"
        return Objective(
            name,
            self._options("training").loss_reduction,
            self.scalers_,
            spacing=spacing,
            scalar_weight=self._options("training").scalar_weight,
            balanced=self.loss == "auto" and self.spec_.n_outputs > 1,
        )

    def _make_validation(self, inputs: FieldSet, targets: Targets) -> Callable[[], float]:
        """The validation error of the network as it stands: 1 - `score`."""
        loader = self._loader(inputs)

        def error() -> float:
            """Error of the weights as they are now."""
            # Averaging over symmetries would multiply the time of every epoch by the order of the group.
            predicted = self._predict_batches(loader)
            errors = []
            if predicted.fields is not None and targets.field is not None:
                errors.append(field_error(predicted.fields, targets.field))
            if predicted.scalars is not None and targets.scalars is not None:
                errors.append(set_error(predicted.scalars, targets.scalars))
            return float(np.mean(errors))

        return error

    def _record(self, history: History) -> None:
        """Store what the training showed."""
        self.best_iter_, self.stopped_ = len(self.loss_curve_) + history.best_iter, history.stopped
        self.loss_curve_ = [*self.loss_curve_, *history.loss_curve]
        self.validation_scores_ = [*self.validation_scores_, *(1.0 - error for error in history.validation_errors)]
        self.n_iter_ = len(self.loss_curve_)
        self.fit_seconds_ = history.seconds[-1] if history.seconds else 0.0

    # ------------------------------------------------------------------ prediction
    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Outputs in physical units on the points of the inputs."""
        if self.spec_.resampler is None:
            return self._predict_seen(inputs)
        return self._through_grid(self.spec_.resampler, inputs, inputs)

    def _through_grid(self, resampler: GridResampler, inputs: FieldSet, places: FieldSet) -> Predictions:
        """Outputs of the network on the grid, brought to places."""
        predictions = self._predict_seen(resampler.to_grid(inputs))
        if predictions.fields is None:
            return predictions
        return replace(predictions, fields=resampler.to_points(predictions.fields, places))

    def _predict_seen(self, inputs: FieldSet) -> Predictions:
        """Outputs for samples as the network sees them, on grids of any spacing."""
        if self.geometry_ != "points" and inputs.grid_shape is None:
            raise FieldDataError(
                "the points of X form no regular grid in C order, but the estimator was fitted on one; sort the points "
                "of a grid by skop.data.find_grid(coords)[1], or resample the fields onto a grid."
            )
        factors = self._refinement_factors(inputs)
        if max(factors) == 1:
            return self._predict_averaged(inputs)
        step = max(1, _PREDICT_POINTS // int(inputs.n_points.max()))
        average = self.refinement == "average"
        parts = [
            predict_refined(inputs.read(slice(start, start + step)), factors, self._predict_averaged, average=average)
            for start in range(0, len(inputs), step)
        ]
        return joined(parts)

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Outputs at other points than those of the samples, and these points."""
        if self.spec_.n_outputs and self.spec_.resampler is not None:
            places = query_points(coords, inputs)
            return self._through_grid(self.spec_.resampler, inputs, places), places
        if self.geometry_ != "points" or not self.spec_.n_outputs or self.scalers_.per_point:
            return super()._predict_at(inputs, coords)
        places = query_points(coords, inputs)
        return self._predict_batches(self._loader(inputs, queries=places)), places

    def _refinement_factors(self, inputs: FieldSet) -> tuple[int, ...]:
        """How many times finer than in training the grid is along each axis."""
        usable = self.spacing_ is not None and self.geometry_ == "grid" and inputs.shared_coords
        if self.spacing_ is None or not usable or inputs.grid_shape is None:
            return (1,)
        return refinement_factors(inputs, self.spacing_, native=self.refinement == "native")

    def _predict_averaged(self, inputs: FieldSet) -> Predictions:
        """Outputs on a grid with the training spacing, averaged over the declared symmetries if asked for."""
        found = [self._predict_batches(loader) for loader in self._prediction_loaders(inputs)]
        return found[0] if len(found) == 1 else averaged(found)

    def _prediction_loaders(self, inputs: FieldSet) -> list[FieldLoader]:
        """Loaders whose predictions are averaged: one for each element of the symmetries, if that is asked for."""
        if self._symmetries is None or not self._symmetries.average_predictions:
            return [self._loader(inputs)]
        symmetries = self._declared_symmetries(inputs)
        return [self._loader(inputs, symmetries=symmetries, element=number) for number in range(symmetries.order)]

    def _predict_batches(self, loader: FieldLoader) -> Predictions:
        """Outputs of the network in physical units, a bounded number of points at a time."""
        # Products of matrices are rounded differently for other numbers of rows; one sample at a time is not.
        alone = self._options("training").deterministic or loader.queries is not None
        parts = []
        sizes = loader.inputs.n_points
        n_points = int(sizes.max() if alone else min(sizes.sum(), _PREDICT_POINTS))
        with torch.inference_mode(), thread_limit(n_points, self.width):
            for _, batch in loader.bounded_batches(0 if alone else _PREDICT_POINTS):
                parts.append(self._outputs(self.module_(**batch.inputs()), loader, batch.order))
        places = loader.inputs if loader.queries is None else loader.queries
        return joined(parts, ragged=places.is_ragged)

    def _outputs(self, outputs: Outputs, loader: FieldLoader, order: Any) -> Predictions:
        """Outputs of a batch in physical units and in the caller's order of points."""
        field, scalars = self._in_physical_units(outputs, loader, order)
        return Predictions(*(None if part is None else part.cpu().numpy() for part in (field, scalars)))

    def _in_physical_units(self, outputs: Outputs, loader: FieldLoader, order: Any) -> Outputs:
        """Outputs of a batch in physical units and in the caller's order of points, as tensors."""
        scalars = None
        if outputs.scalars is not None and self.scalers_.scalars is not None:
            scalars = self.scalers_.scalars.inverse_transform(outputs.scalars)
        if outputs.field is None or self.scalers_.target is None:
            return Outputs(None, scalars)
        field = self.scalers_.target.inverse_transform(outputs.field)
        if loader.symmetries is not None and loader.element is not None:
            field = loader.symmetries.undo(field, *loader.symmetries.element(loader.element, len(field)))
        if order is not None and loader.queries is None:
            places = torch.as_tensor(np.argsort(order), device=field.device)
            field = field.reshape(-1, field.shape[-1])[places].reshape(field.shape)
        return Outputs(field, scalars)

    # ------------------------------------------------------------------ derivatives
    def gradient(self, X: Any, output: int | Callable[[torch.Tensor], torch.Tensor] | None = None) -> FloatArray:
        """Return the derivative of an output with respect to the global parameters of each sample.

        It is taken by automatic differentiation through scaling and network, so that optimisers need no finite
        differences, whose small steps vanish in single precision.

        Parameters
        ----------
        X : as in `predict`, with global parameters
            A table of parameters or features, or a FieldSet with `params`, at the resolution of the training.
        output : int, callable or None, default=None
            Scalar output by its number; or a function of the predicted fields, which takes a tensor
            ``(m, P, q)`` of m samples, P points and q channels in physical units and gives a tensor ``(m,)``, such
            as ``lambda field: field[..., 0].amax(dim=1)``. None is the only scalar of a sample.

        Returns
        -------
        ndarray of shape (n, p)
            Derivatives, in units of the output by units of the parameter.

        Raises
        ------
        FieldDataError
            If X has no parameters, its grid is finer than that of the training, samples are resampled by `grid`, or
            `output` does not fit what is predicted.

        See Also
        --------
        predict : The values themselves.

        Examples
        --------
        The design with the least output, by SciPy with the derivative:

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
        inputs, _ = self._read_inputs(X)
        select = self._selection(output)
        if inputs.params is None or self.scalers_.params is None:
            raise FieldDataError("gradient needs global parameters: a table X, or a FieldSet with params; X has none.")
        if self.spec_.resampler is not None:
            raise FieldDataError(
                "gradient does not go through the resampling of grid=...; fit on a grid or on points instead."
            )
        if max(self._refinement_factors(inputs)) > 1:
            raise FieldDataError("gradient needs the resolution of the training, but X lies on a finer grid.")
        loaders, parts = self._prediction_loaders(inputs), []
        for indices, _ in loaders[0].bounded_batches(_PREDICT_POINTS):
            with torch.inference_mode(False), torch.enable_grad():
                params = torch.tensor(np.asarray(inputs.params[indices], dtype=np.float64), requires_grad=True)
                values = select(self._mean_outputs(loaders, indices, params))
                if not values.requires_grad:
                    raise FieldDataError("output does not depend on the predicted field by operations of torch.")
                parts.append(torch.autograd.grad(values.sum(), params)[0].numpy())
        return np.concatenate(parts)

    def _selection(self, output: Any) -> Callable[[Outputs], torch.Tensor]:
        """The function that takes one number of each sample from outputs in physical units."""
        n_scalars = self.spec_.n_scalars
        if callable(output):
            if not self.spec_.n_outputs:
                raise FieldDataError("output is a function of a field, but the estimator predicts scalars; name one.")
            return lambda outputs: _one_number_each(output(outputs.field), outputs.field)
        number = 0 if output is None and n_scalars == 1 else output
        if not isinstance(number, Integral) or int(number) not in range(n_scalars):
            raise FieldDataError(
                f"output is {output!r}, but the estimator predicts {n_scalars} scalars; pass the number of one, or a "
                "function of the field that gives one number for each sample."
            )
        return lambda outputs: outputs.scalars[:, int(number)]  # type: ignore[index]

    def _mean_outputs(self, loaders: list[FieldLoader], indices: IntArray, params: torch.Tensor) -> Outputs:
        """Outputs of samples with other parameters, as differentiable tensors, averaged over the loaders."""
        scaler: Any = self.scalers_.params
        scaled = scaler.transform(params[:, None])[:, 0].to(self.device_, getattr(torch, self.dtype_))
        found = []
        for loader in loaders:
            batch = loader.gather(indices)
            batch.params = scaled
            found.append(self._in_physical_units(self.module_(**batch.inputs()), loader, batch.order))
        return Outputs(
            *(None if part[0] is None else torch.stack(part).mean(dim=0) for part in zip(*found, strict=True))
        )


def _one_number_each(values: Any, field: torch.Tensor | None) -> torch.Tensor:
    """The numbers that a caller's function gives, one for each sample."""
    if field is None or not isinstance(values, torch.Tensor) or values.shape != field.shape[:1]:
        came = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
        raise FieldDataError(
            f"output gives {came}; expected a tensor of shape ({0 if field is None else len(field)},), one number "
            "for each sample, such as field[..., 0].amax(dim=1)."
        )
    return values


#: Packages whose calls of `fit` must not go on after an interrupt.
_TOOLS = {"dask", "hyperopt", "joblib", "optuna", "ray", "scipy", "sklearn", "skopt"}


def _is_called_by_another_tool() -> bool:
    """Whether the fit was called by a search, a cross-validation or the like, and not by the user's own code."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        name = str(frame.f_globals.get("__name__"))
        # scikit-learn's decorator of `fit` stands between every caller and the fit.
        if name.partition(".")[0] in _TOOLS and name != fit_context.__module__:
            return True
    return False


def _fitted_attributes(estimator: Any) -> dict[str, Any]:
    """What a fit has set, by name."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and name[0] != "_"}


def _usable(n_samples: int, weight: FloatArray | None) -> IntArray:
    """Samples with a weight."""
    return np.arange(n_samples) if weight is None else np.flatnonzero(weight)


def _on_grid(data: TrainingData, resampler: GridResampler, usable: IntArray) -> tuple[FieldSet, Targets, float | None]:
    """Inputs and targets on the grid, and what the usable targets lose on the way there and back."""
    field = data.targets.field
    if field is None:
        return resampler.to_grid(data.inputs), data.targets, None
    # One triangulation serves inputs and targets.
    held = [np.asarray(part.values) for part in (data.inputs, field) if part.n_channels]
    both = resampler.to_grid(data.inputs.with_values(np.concatenate(held, axis=-1)))
    n_fields, n_outputs = data.spec.n_fields, data.spec.n_outputs
    values = np.asarray(both.values)
    chosen = np.delete(values, np.s_[n_fields : n_fields + n_outputs], axis=-1)
    inputs = FieldSet(
        both.coords, chosen if chosen.shape[-1] else None, params=data.inputs.params, grid_shape=both.grid_shape
    )
    targets = both.with_values(values[..., n_fields : n_fields + n_outputs], field.channel_names)
    returned = resampler.to_points(np.asarray(targets[usable].values), data.inputs[usable])
    return inputs, Targets(targets, data.targets.scalars), field_error(returned, field[usable])


def _warn_of_error(error: float, resampler: GridResampler) -> None:
    """Say that the grid keeps too little of the targets."""
    shape = "x".join(map(str, resampler.grid_shape))
    warn(
        f"the training targets change by {error:.3g} (mean relative L2 error) on their way from the points to the grid "
        f"of {shape} and back, so that even a network without errors on the grid is off by this; set a finer grid=..., "
        "or use LaMORegressor without grid.",
        ResamplingWarning,
    )


def _spacing(inputs: FieldSet) -> tuple[float, ...] | None:
    """Grid spacing that all samples share, or None."""
    if not inputs.shared_coords or inputs.grid_shape is None or len(inputs.grid_shape) != inputs.n_dims:
        return None
    return grid_spacing(inputs.coords, inputs.grid_shape)


def _check_weight(sample_weight: Any, n_samples: int) -> FloatArray | None:
    """Sample weights as an array, checked by scikit-learn's rules."""
    if sample_weight is None:
        return None
    weight = check_sample_weight(sample_weight, np.empty((n_samples, 1)), dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise FieldDataError("all sample weights are zero; at least one sample needs a positive weight.")
    return weight


def _points_of_a_step(inputs: FieldSet, config: TrainerConfig, drawn: int | None) -> int:
    """Points of a training step's batch, over all its samples."""
    together = config.group_size if config.grouping == "together" else 1
    return config.batch_size * together * int(min(inputs.n_points.mean(), drawn or np.inf))


def joined(parts: list[Predictions], *, ragged: bool = False) -> Predictions:
    """Predictions of successive samples as one, flat for ragged samples."""
    fields = [part.fields for part in parts if part.fields is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    if ragged:
        fields = [values.reshape(-1, values.shape[-1]) for values in fields]
    return Predictions(np.concatenate(fields) if fields else None, np.concatenate(scalars) if scalars else None)


def averaged(parts: list[Predictions]) -> Predictions:
    """Mean of several predictions of the same samples."""
    fields = [part.fields for part in parts if part.fields is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    return Predictions(np.mean(fields, axis=0) if fields else None, np.mean(scalars, axis=0) if scalars else None)


def field_error(predicted: FloatArray, targets: FieldSet) -> float:
    """Mean over samples of the relative L2 error of fields ``(n, P, q)`` or ``(T, q)``: 1 - `score`.

    Several channels are taken in units of their size. A sample of zeros is compared with the root mean square of the
    norms of the set; where all are zero the error is absolute, instead of failing in the middle of a fit.
    """
    truth = np.asarray(targets.values, dtype=np.float64)
    if truth.shape[-1] > 1:
        sizes = _sizes(truth)
        predicted, truth = predicted / sizes, truth / sizes
    starts = np.concatenate([[0], np.cumsum(targets.n_points)])[:-1]
    squares = ((predicted - truth) ** 2, truth**2)
    error, norm = (np.sqrt(np.add.reduceat(part.reshape(-1, part.shape[-1]).sum(axis=-1), starts)) for part in squares)
    whole = np.sqrt(np.mean(norm**2))
    return float(np.mean(error / np.where(norm > 0, norm, whole if whole > 0 else 1.0)))


def _sizes(truth: FloatArray) -> FloatArray:
    """Root mean square of each channel or scalar; zeros have the size of the largest."""
    squares = (truth.reshape(-1, truth.shape[-1]) ** 2).mean(axis=0)
    largest = squares.max() if squares.any() else 1.0
    return np.sqrt(np.where(squares > 0, squares, largest))


def set_error(predicted: FloatArray, truth: FloatArray) -> float:
    """Error of scalars ``(n, s)``, in units of their sizes, relative to their norm over the set: 1 - `score`."""
    truth = np.asarray(truth, dtype=np.float64)
    if truth.shape[-1] > 1:
        sizes = _sizes(truth)
        predicted, truth = predicted / sizes, truth / sizes
    norm = np.linalg.norm(truth)
    return float(np.linalg.norm(predicted - truth) / (norm if norm > 0 else 1.0))


def _share_documentation(estimator: type, base: type) -> None:
    """Append the parameters and attributes that a base documents, and a subclass does not, to those of the subclass."""
    # There are no docstrings under python -OO.
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
    """Entries of a section of a docstring, which ends at the first blank line, by the names that they describe."""
    entries: dict[str, str] = {}
    names = ""
    for line in section.partition("\n\n")[0].rstrip().splitlines(keepends=False):
        if not line.startswith("     "):
            names = line.partition(" : ")[0].strip()
        entries[names] = entries.get(names, "") + line + "\n"
    return entries
