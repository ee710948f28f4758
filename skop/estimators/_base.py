"""The estimator contract: everything that the operator regressors share.

A concrete estimator adds its signature, its constraints and the lines that build its network.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data import (
    DataSpec,
    FieldLoader,
    FieldSet,
    GridSymmetries,
    ScalerModes,
    Scalers,
    TrainingData,
    grid_spacing,
)
from skop.estimators._callbacks import CallbackSupport, EpochCallbacks
from skop.estimators._field import BaseFieldRegressor
from skop.estimators._objective import Objective
from skop.estimators._persistence import save_estimator
from skop.estimators._prediction import NetworkPrediction, field_error, set_error
from skop.estimators._runtime import isolated_randomness, pick_device, pick_dtype
from skop.exceptions import FieldDataError
from skop.ops import record_backends
from skop.training import (
    DIRECT_TRAINING,
    SCHEDULES,
    History,
    Trainer,
    TrainingOptions,
    TrainingPlan,
    freed_memory_kept,
)

__all__ = ["BaseOperatorRegressor"]

#: Points of a batch of automatic size: on grids they bound the memory of a training step; elsewhere every point
#: is a sample of its own for most of the network, so that few samples give as good a gradient, and more steps.
_BATCH_POINTS = {"grid": 2**17, "structured": 2**12, "points": 2**12}


class BaseOperatorRegressor(CallbackSupport, NetworkPrediction, BaseFieldRegressor):
    """Base of the operator regressors: fit, predict, score and save over fields and tables.

    Subclasses define the constructor, which only stores, and `_build_network`.
    """

    module_: torch.nn.Module
    scalers_: Scalers
    spacing_: tuple[float, ...] | None
    loss_curve_: list[float]
    validation_scores_: list[float]
    geometry_: str

    _parameter_constraints: dict[str, list[Any]] = {
        "loss": [StrOptions({"auto", "relative_l2", "relative_l2_gradient", "h1", "mse"}), callable],
        "loss_reduction": [StrOptions({"mean", "sum"})],
        "input_scaler": [StrOptions({"channel", "point"}), None],
        "target_scaler": [StrOptions({"channel", "point"}), None],
        "coord_scaler": [StrOptions({"box", "standard"}), None],
        "param_scaler": [StrOptions({"channel"}), None],
        "scalar_weight": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "schedule": [StrOptions(set(SCHEDULES))],
        "schedule_interval": [StrOptions({"step", "epoch"})],
        "warmup_fraction": [Interval(Real, 0, 1, closed="both")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "decay_vectors": ["boolean"],
        "beta_2": [Interval(Real, 0, 1, closed="left")],
        "clip_norm": [Interval(Real, 0, None, closed="neither"), None],
        "weight_averaging": [Interval(Real, 0, 1, closed="left"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "symmetries": ["array-like", None],
        "domain": ["array-like", None],
        "average_symmetries": ["boolean"],
        "input_vectors": ["array-like", None],
        "target_vectors": ["array-like", None],
        "refinement": [StrOptions({"average", "interpolate", "native"})],
        "draw_points": [Interval(Integral, 1, None, closed="left"), None],
        "input_fields": ["array-like", None],
        "target_fields": ["array-like", None],
        "cell_data": [StrOptions({"refuse", "to_points"})],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "device": [str],
        "dtype": [StrOptions({"auto", "float32", "float64"})],
        "autocast": [StrOptions({"bfloat16"}), None],
        "deterministic": ["boolean"],
        "verbose": ["verbose"],
    }

    # ------------------------------------------------------------------ what a subclass gives
    def _build_network(self, spec: DataSpec, geometry: str) -> torch.nn.Module:
        """Build the untrained network for data of this kind, read as this geometry."""
        raise NotImplementedError

    def _choose_geometry(self, spec: DataSpec) -> str:
        """How the points are read: ``"grid"``, ``"structured"`` or ``"points"``."""
        return spec.layout

    def _as_network_sees(self, data: TrainingData, usable: IntArray, plan: TrainingPlan) -> TrainingData:
        """The samples as the network reads them; usable are those with a weight."""
        return data

    def _on_own_points(self, data: TrainingData) -> FieldSet:
        """The inputs on the caller's points."""
        return data.inputs

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "module_")

    # ------------------------------------------------------------------ fit
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the network on samples.

        Parameters
        ----------
        X : array-like, FieldSet, (coords, fields), list, or meshes
            Inputs: an array ``(n, *grid, c)`` of fields on a regular grid of the unit box; a
            `skop.FieldSet`; a tuple of coordinates ``(P, d)`` and fields ``(n, P, c)``; a list of
            ``(coords, fields)`` or of points ``(P_i, d)``, one for each sample; meshes, as a list of
            `meshio.Mesh`, a list of paths or a pattern such as ``"runs/*.vtu"``; or a table
            ``(n, p)``, whose meaning follows from `y`: global parameters when y is a field, a
            function on p points of [0, 1] when y has the same shape, plain features otherwise.
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
        """
        X, y = self._check_table(X, y)
        return self._fit_data(self._read_training_data(X, y), X, y, sample_weight)

    def _fit_data(
        self, data: TrainingData, X: Any, y: Any, sample_weight: Any, plan: TrainingPlan = DIRECT_TRAINING
    ) -> Self:
        """Train on data that were read; X, y and the plan are what callbacks and time steppers need."""
        weight = _check_weight(sample_weight, len(data.inputs))
        rng = check_random_state(self.random_state)
        data = self._as_network_sees(data, _usable(len(data.inputs), weight), plan)
        usable = data.inputs if weight is None else data.inputs[np.flatnonzero(weight)]
        train, valid = self._split(len(data.inputs), weight, rng, plan.group_size)
        self._prepare(data, train, weight, rng)
        loader = self._training_loader(data, train, weight, rng)
        with EpochCallbacks(self, X, y, sample_weight) as callbacks:
            trainer = self._make_trainer(data, usable, valid, rng, callbacks, plan)
            randomness = isolated_randomness(rng, self.device_, self.deterministic)
            with randomness, freed_memory_kept(), record_backends() as used:
                history = trainer.run(loader)
        self._record(history)
        self.backend_ = ", ".join(sorted(used)) or "torch"
        return self

    def _split(
        self, n_samples: int, weight: FloatArray | None, rng: np.random.RandomState, group_size: int
    ) -> tuple[IntArray, IntArray | None]:
        """Samples to train on, and to validate on when stopping early; groups of successive samples stay whole."""
        usable = _usable(n_samples, weight)
        if not self.early_stopping:
            return usable, None
        groups = usable.reshape(-1, group_size)
        n_valid = int(np.ceil(self.validation_fraction * len(groups)))
        if n_valid >= len(groups):
            raise FieldDataError(
                f"early_stopping needs at least 2 samples to hold some out, got {len(groups)}; pass more or set "
                "early_stopping=False."
            )
        order = rng.permutation(len(groups))
        return groups[np.sort(order[n_valid:])].ravel(), groups[np.sort(order[:n_valid])].ravel()

    def _prepare(
        self, data: TrainingData, train: IntArray, weight: FloatArray | None, rng: np.random.RandomState
    ) -> None:
        """Set spec, scalers, device and network, or keep those of an earlier fit when starting warm."""
        continues = self.warm_start and hasattr(self, "module_")
        geometry = self._choose_geometry(data.spec)
        if self.draw_points is not None and (
            geometry != "points" or "point" in (self.input_scaler, self.target_scaler)
        ):
            raise FieldDataError(
                f"draw_points={self.draw_points} takes random points of each sample, which leaves no grid and needs "
                "the scalers 'channel'; set draw_points=None, or geometry='points' where the estimator has it."
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
            network = self._build_network(data.spec, geometry)
        used = np.ones(len(data.inputs)) if weight is None else weight
        modes = ScalerModes(self.coord_scaler, self.input_scaler, self.param_scaler, self.target_scaler)
        scalers = Scalers.fit(data.inputs[train], data.targets[train], used[train], modes)
        # Nothing is stored before all of it is known to work, so that a failed fit leaves an earlier one whole.
        self._store_spec(self._on_own_points(data), data.spec)
        self.spacing_, self.geometry_ = _spacing(data.inputs), geometry
        self.dtype_, self.scalers_ = pick_dtype(self.dtype, data.spec.role), scalers
        self.module_ = network.to(self.device_, getattr(torch, self.dtype_))
        self.loss_curve_, self.validation_scores_ = [], []

    def _loader(self, inputs: FieldSet, **options: Any) -> FieldLoader:
        """Batches of samples in this fit's scaling, on its device."""
        options |= {"device": self.device_, "dtype": getattr(torch, self.dtype_)}
        # Statistics of single points are in the order of the fit.
        sorts = self.geometry_ == self.spec_.layout == "points" and not self.scalers_.per_point
        return FieldLoader(inputs, self.scalers_, sort_points=sorts, **options)

    def _training_loader(
        self, data: TrainingData, train: IntArray, weight: FloatArray | None, rng: np.random.RandomState
    ) -> FieldLoader:
        """Batches of the training samples, moved by the declared symmetries."""
        options: dict[str, Any] = {"targets": data.targets[train], "weight": None if weight is None else weight[train]}
        if self.symmetries is not None and len(self.symmetries):
            options["symmetries"] = self._declared_symmetries(data.inputs)
            options["generator"] = torch.Generator().manual_seed(int(rng.randint(2**31)))
        if self.draw_points is not None:
            options["draw_points"] = self.draw_points
            options["generator"] = torch.Generator().manual_seed(int(rng.randint(2**31)))
        return self._loader(data.inputs[train], **options)

    def _declared_symmetries(self, inputs: FieldSet) -> GridSymmetries:
        """The symmetries that the parameters declare, on the grid of these samples."""
        if inputs.grid_shape is None:
            raise FieldDataError("symmetries need samples on one regular grid; set symmetries=None.")
        vectors = (self.input_vectors or (), self.target_vectors or ())
        return GridSymmetries(list(self.symmetries), inputs.grid_shape, *vectors, domain=self.domain)

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

    def _training_options(self, inputs: FieldSet, plan: TrainingPlan) -> TrainingOptions:
        """Constructor parameters as the trainer takes them."""
        batch_size, n_samples = self.batch_size, len(inputs) // plan.group_size
        if batch_size == "auto":
            # Tables follow scikit-learn's multilayer perceptron; fields need enough steps an epoch, and memory.
            together = plan.group_size if plan.grouping == "together" else 1
            n_points = min(int(np.ceil(inputs.n_points.mean())), self.draw_points or np.inf)
            fields = min(16, int(_BATCH_POINTS[self.geometry_] // n_points)) // together
            table = self.spec_.role == "features"
            batch_size = min(200, n_samples) if table else max(1, min(fields, n_samples // 8))
        return TrainingOptions(
            max_iter=self.max_iter,
            batch_size=batch_size,
            learning_rate=self.learning_rate_init,
            schedule=self.schedule,
            schedule_interval=self.schedule_interval,
            warmup_fraction=self.warmup_fraction,
            weight_decay=self.weight_decay,
            decay_vectors=self.decay_vectors,
            beta_2=self.beta_2,
            clip_norm=self.clip_norm,
            max_time=self.max_time,
            weight_averaging=self.weight_averaging,
            n_iter_no_change=self.n_iter_no_change if self.early_stopping else None,
            tol=self.tol,
            autocast=None if self.autocast is None else getattr(torch, self.autocast),
            group_size=plan.group_size,
            grouping=plan.grouping,
        )

    def _make_loss(self, spacing: tuple[float, ...] | None) -> Objective:
        """The training objective that the parameters ask for."""
        name, pooled = self.loss, self.spec_.scalar_output
        if name == "auto":
            name = "mse" if pooled else "relative_l2"
        return Objective(
            name,
            self.loss_reduction,
            self.scalers_,
            pooled=pooled,
            spacing=spacing,
            scalar_weight=self.scalar_weight,
            balanced=self.loss == "auto" and self.spec_.n_outputs > 1,
        )

    def _make_validation(self, inputs: FieldSet, targets: FieldSet) -> Callable[[], float]:
        """The validation error of the network as it stands: 1 - `score`."""
        loader, pooled = self._loader(inputs), self.spec_.scalar_output

        def error() -> float:
            """Error of the weights as they are now."""
            # Averaging over symmetries would multiply the time of every epoch by the order of the group.
            predicted = self._predict_batches(loader)
            if pooled:
                return set_error(np.asarray(predicted.scalars), np.asarray(targets.values)[:, 0])
            errors = [field_error(np.asarray(predicted.fields), targets)]
            if predicted.scalars is not None:
                errors.append(set_error(predicted.scalars, np.asarray(targets.params)))
            return float(np.mean(errors))

        return error

    def _record(self, history: History) -> None:
        """Store what the training showed."""
        self.loss_curve_ = [*self.loss_curve_, *history.loss_curve]
        self.validation_scores_ = [*self.validation_scores_, *(1.0 - error for error in history.validation_errors)]
        self.n_iter_ = len(self.loss_curve_)
        self.best_iter_, self.stopped_ = history.best_iter, history.stopped
        self.fit_seconds_ = history.seconds[-1] if history.seconds else 0.0

    # ------------------------------------------------------------------ files
    def save(self, path: PathOrStr) -> None:
        """Write the fitted estimator to one file, without pickle.

        Parameters
        ----------
        path : path-like
            File to write; it is replaced in one step when complete.

        Raises
        ------
        ModelFileError
            If a parameter cannot be written as JSON, such as a custom loss function, or parameters of the
            network were changed after the fit.
        """
        check_is_fitted(self)
        save_estimator(self, path)


def _usable(n_samples: int, weight: FloatArray | None) -> IntArray:
    """Samples with a weight."""
    return np.arange(n_samples) if weight is None else np.flatnonzero(weight)


def _spacing(inputs: FieldSet) -> tuple[float, ...] | None:
    """Grid spacing that all samples share, or None."""
    if not inputs.shared_coords or inputs.grid_shape is None or len(inputs.grid_shape) != inputs.n_dims:
        return None
    return grid_spacing(inputs.coords, inputs.grid_shape)


def _check_weight(sample_weight: Any, n_samples: int) -> FloatArray | None:
    """Sample weights as an array, checked by scikit-learn's rules."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, np.empty((n_samples, 1)), dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise FieldDataError("all sample weights are zero; at least one sample needs a positive weight.")
    return weight
