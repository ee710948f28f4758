"""The estimator contract: everything that the operator regressors share.

A concrete estimator adds its signature, its constraints and the lines that build its network.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data import (
    Batch,
    DataSpec,
    FieldLoader,
    FieldSet,
    GridSymmetries,
    Scalers,
    TrainingData,
    carries_points,
    is_table,
    read_inputs,
    read_training_data,
    restore_form,
)
from skop.estimators._callbacks import CallbackSupport, EpochCallbacks
from skop.estimators._runtime import isolated_randomness, pick_device, pick_dtype
from skop.exceptions import FieldDataError
from skop.losses import get_loss
from skop.metrics import relative_l2_score
from skop.training import SCHEDULES, History, Trainer, TrainingOptions

__all__ = ["BaseOperatorRegressor"]

#: Points that predict sends through the network at once; bounds its memory.
_PREDICT_POINTS = 2**17


class BaseOperatorRegressor(CallbackSupport, RegressorMixin, BaseEstimator):
    """Base of the operator regressors: fit, predict, score and save over fields and tables.

    Subclasses define the constructor, which only stores, and `_build_network`.
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "loss": [StrOptions({"auto", "relative_l2", "relative_l2_gradient", "h1", "mse"}), callable],
        "loss_reduction": [StrOptions({"mean", "sum"})],
        "input_scaler": [StrOptions({"channel", "point"}), None],
        "target_scaler": [StrOptions({"channel", "point"}), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "schedule": [StrOptions(set(SCHEDULES))],
        "warmup_fraction": [Interval(Real, 0, 1, closed="both")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "clip_norm": [Interval(Real, 0, None, closed="neither"), None],
        "weight_averaging": [Interval(Real, 0, 1, closed="left"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "symmetries": ["array-like", None],
        "input_vectors": ["array-like", None],
        "target_vectors": ["array-like", None],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "device": [str],
        "dtype": [StrOptions({"auto", "float32", "float64"})],
        "autocast": [StrOptions({"bfloat16"}), None],
        "deterministic": ["boolean"],
        "verbose": ["verbose"],
    }

    # ------------------------------------------------------------------ what a subclass gives
    def _build_network(self, spec: DataSpec) -> torch.nn.Module:
        """Build the untrained network for data of this kind."""
        raise NotImplementedError

    # ------------------------------------------------------------------ fit
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network on samples.

        Parameters
        ----------
        X : array-like, FieldSet or (coords, fields)
            Inputs: an array ``(n, *grid, c)`` of fields on a regular grid of the unit box; a
            `skop.FieldSet`; a tuple of coordinates ``(P, d)`` and fields ``(n, P, c)``; or a table
            ``(n, p)``, whose meaning follows from `y`: global parameters when y is a field, a
            function on p points of [0, 1] when y has the same shape, plain features otherwise.
        y : array-like, FieldSet or (coords, fields)
            Targets: fields on the points of X, with or without a channel axis, or scalars ``(n,)``
            or ``(n, q)``.
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
        data = read_training_data(X, y)
        weight = _check_weight(sample_weight, X, len(data.inputs))
        rng = check_random_state(self.random_state)
        train, valid = self._split(len(data.inputs), weight, rng)
        self._prepare(data, train, weight, rng)
        loader = self._loader(data.inputs[train], data.targets[train], None if weight is None else weight[train], rng)
        with EpochCallbacks(self) as callbacks:
            trainer = self._make_trainer(data, valid, rng, callbacks)
            with isolated_randomness(rng, self.device_, self.deterministic):
                history = trainer.run(loader)
        self._record(history)
        return self

    def _check_table(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Let scikit-learn check a 2-D X, and a y that is a table too."""
        if not is_table(X):
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            return X, y
        if not carries_points(y):
            return validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        return validate_data(self, X, dtype=np.float64), y

    def _split(
        self, n_samples: int, weight: FloatArray | None, rng: np.random.RandomState
    ) -> tuple[IntArray, IntArray | None]:
        """Samples to train on, and to validate on when stopping early."""
        usable = np.arange(n_samples) if weight is None else np.flatnonzero(weight)
        if not self.early_stopping:
            return usable, None
        n_valid = int(np.ceil(self.validation_fraction * len(usable)))
        if n_valid >= len(usable):
            raise FieldDataError(
                f"early_stopping needs at least 2 samples to hold some out, got {len(usable)}; pass more or set "
                "early_stopping=False."
            )
        order = rng.permutation(usable)
        return np.sort(order[n_valid:]), np.sort(order[:n_valid])

    def _prepare(
        self, data: TrainingData, train: IntArray, weight: FloatArray | None, rng: np.random.RandomState
    ) -> None:
        """Set spec, scalers, device and network, or keep those of an earlier fit when starting warm."""
        continues = self.warm_start and hasattr(self, "module_")
        if continues and data.spec != self.spec_:
            raise FieldDataError(
                f"warm_start needs data of the same kind: the earlier fit saw {self.spec_}, this one sees {data.spec}."
            )
        self.device_, self.backend_ = pick_device(self.device), "torch"
        if continues:
            self.module_.to(self.device_)
            return
        self.spec_ = data.spec
        self.n_features_in_ = getattr(self, "n_features_in_", None) or max(data.spec.n_fields, 1)
        self.coords_ = data.inputs.coords if data.spec.role == "parameters" else None
        self.dtype_ = pick_dtype(self.dtype, data.spec.role)
        used = np.ones(len(data.inputs)) if weight is None else weight
        self.scalers_ = Scalers.fit(
            data.inputs[train], data.targets[train], used[train], self.input_scaler, self.target_scaler
        )
        with isolated_randomness(rng, torch.device("cpu"), False):
            network = self._build_network(data.spec)
        self.module_ = network.to(self.device_, getattr(torch, self.dtype_))
        self.loss_curve_, self.validation_scores_ = [], []

    def _loader(
        self,
        inputs: FieldSet,
        targets: FieldSet | None = None,
        weight: FloatArray | None = None,
        rng: np.random.RandomState | None = None,
    ) -> FieldLoader:
        """Batches of samples; with the declared symmetries when randomness is given."""
        symmetries = None
        if rng is not None and self.symmetries is not None and len(self.symmetries):
            if inputs.grid_shape is None or not inputs.shared_coords:
                raise FieldDataError("symmetries need one regular grid shared by all samples; set symmetries=None.")
            symmetries = GridSymmetries(
                list(self.symmetries), inputs.grid_shape, self.input_vectors or (), self.target_vectors or ()
            )
        generator = None if symmetries is None else torch.Generator().manual_seed(int(rng.randint(2**31)))
        return FieldLoader(
            inputs, self.scalers_, targets=targets, weight=weight, device=self.device_,
            dtype=getattr(torch, self.dtype_), symmetries=symmetries, generator=generator,
        )

    def _make_trainer(
        self, data: TrainingData, valid: IntArray | None, rng: np.random.RandomState, callbacks: EpochCallbacks
    ) -> Trainer:
        """The trainer with this estimator's loss, validation and callbacks."""
        return Trainer(
            self.module_, self._make_loss(), self._training_options(len(data.inputs)), rng,
            validate=None if valid is None else self._make_validation(data.inputs[valid], data.targets[valid]),
            on_epoch_end=callbacks,
        )

    def _training_options(self, n_samples: int) -> TrainingOptions:
        """Constructor parameters as the trainer takes them."""
        batch_size = self.batch_size
        if batch_size == "auto":
            # Tables follow scikit-learn's multilayer perceptron; fields need enough steps an epoch.
            batch_size = min(200, n_samples) if self.spec_.role == "features" else min(16, max(1, n_samples // 8))
        return TrainingOptions(
            max_iter=self.max_iter, batch_size=batch_size, learning_rate=self.learning_rate_init, schedule=self.schedule,
            warmup_fraction=self.warmup_fraction, weight_decay=self.weight_decay, clip_norm=self.clip_norm,
            max_time=self.max_time, weight_averaging=self.weight_averaging,
            n_iter_no_change=self.n_iter_no_change if self.early_stopping else None, tol=self.tol,
            autocast=None if self.autocast is None else getattr(torch, self.autocast),
        )

    def _make_loss(self) -> Callable[[torch.Tensor, Batch], torch.Tensor]:
        """The loss on a batch: relative losses in physical units, absolute ones on scaled targets."""
        name = self.loss
        if name == "auto":
            name = "mse" if self.spec_.scalar_output else "relative_l2"
        options = {} if callable(name) else {"reduction": self.loss_reduction}
        loss, scaler = get_loss(name, **options), self.scalers_.target
        physical = getattr(loss, "physical_units", True)
        pooled = self.spec_.scalar_output

        def on_batch(prediction: torch.Tensor, batch: Batch) -> torch.Tensor:
            target = batch.target
            if physical:
                prediction = scaler.inverse_transform(prediction)
            else:
                target = scaler.transform(target)
            grid = None if pooled else batch.grid_shape
            return loss(prediction, target, sample_weight=batch.weight, grid_shape=grid)

        return on_batch

    def _make_validation(self, inputs: FieldSet, targets: FieldSet) -> Callable[[], float]:
        """The validation error of the network as it stands: 1 - `score`."""
        kind = "scalar" if self.spec_.scalar_output else "field"
        truth = targets.values[:, 0] if kind == "scalar" else targets.values

        def error() -> float:
            prediction = self._predict_values(inputs)
            return 1.0 - float(relative_l2_score(truth, prediction[:, 0] if kind == "scalar" else prediction, kind=kind))

        return error

    def _record(self, history: History) -> None:
        """Store what the training showed."""
        self.loss_curve_ = [*self.loss_curve_, *history.loss_curve]
        self.validation_scores_ = [*self.validation_scores_, *(1.0 - error for error in history.validation_errors)]
        self.n_iter_ = len(self.loss_curve_)
        self.best_iter_, self.stopped_ = history.best_iter, history.stopped
        self.fit_seconds_ = history.seconds[-1] if history.seconds else 0.0

    # ------------------------------------------------------------------ predict and score
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

    def _predict_values(self, inputs: FieldSet) -> FloatArray:
        """Outputs ``(n, P, q)`` in physical units, a bounded number of points at a time."""
        loader = self._loader(inputs)
        step = max(1, _PREDICT_POINTS // int(inputs.n_points.max()))
        parts = []
        with torch.inference_mode():
            for batch in loader.batches(step):
                outputs = self.module_(**batch.inputs())
                parts.append(self.scalers_.target.inverse_transform(outputs).cpu().numpy())
        return np.concatenate(parts)

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
        kind = "scalar" if self.spec_.scalar_output else "field"
        single = self.spec_.target_form.endswith("_single")
        if single:
            predicted, y = predicted[..., None], np.asarray(y)[..., None]
        return float(relative_l2_score(y, predicted, sample_weight=sample_weight, kind=kind))

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
            If a parameter cannot be written as JSON, such as a custom loss function.
        """
        from skop.estimators._persistence import save_estimator

        check_is_fitted(self)
        save_estimator(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = True
        return tags


def _check_weight(sample_weight: Any, X: Any, n_samples: int) -> FloatArray | None:
    """Sample weights as an array, checked by scikit-learn's rules."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, np.empty((n_samples, 1)), dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise FieldDataError("all sample weights are zero; at least one sample needs a positive weight.")
    return weight
