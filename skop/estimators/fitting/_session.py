"""A fit of an operator as an object: its samples and their split, the stages, the trainer, and what watches it.

Notation: n samples, P points, q output channels, s scalars.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from skop._typing import FloatArray, IntArray
from skop.data import (
    FieldLoader,
    FieldSet,
    GridResampler,
    PointSymmetries,
    Scalers,
    Targets,
    TrainingData,
    check_positive,
    grid_spacing,
    iterate_rows,
    query_points,
)
from skop.estimators._field import times_since
from skop.estimators._reading import n_referenced
from skop.estimators._weights import check_weight
from skop.estimators.classical._common_grid import MOST_GRID_AXES, on_grid, warn_of_resampling
from skop.estimators.classical._copies import groups_of_same_inputs, linked
from skop.estimators.fitting._callbacks import EpochCallbacks
from skop.estimators.fitting._checkpoint import FitCheckpoints
from skop.estimators.fitting._cost import cheaper_settings
from skop.estimators.fitting._monitors import HELD_OUT, BaseMonitor, OverfittingMonitor
from skop.estimators.fitting._objective import (
    Errors,
    SampleErrors,
    loss_name,
    objective_of,
    trainer_config,
    validation_error,
)
from skop.estimators.fitting._session_base import SessionBase
from skop.exceptions import FieldDataError, SkopWarning, TrainingDivergedError, held_warnings, warn
from skop.losses import SobolevLoss
from skop.modules import set_periodic
from skop.ops import record_backends
from skop.surrogate._domain import Domain
from skop.surrogate._symmetries import (
    axes_around,
    declared_symmetries,
    moves_points,
    periodic_axes,
    require_points_in_domain,
    undeclared_fields,
)
from skop.training import (
    DIRECT_TRAINING,
    EarlierTraining,
    EpochCost,
    History,
    Monitor,
    Trainer,
    TrainerConfig,
    TrainingEnd,
    TrainingPlan,
    Validation,
    fingerprint,
    measure_epoch,
)
from skop.training._runtime import converted, isolated_randomness, pick_device, pick_dtype, thread_limit

__all__ = ["FitSession", "check_logarithms"]

#: Warn of a fit in single precision if the mean of y exceeds this multiple of its standard deviation: it then loses a
#: thousandth of the variation.
_TOO_FAR_FROM_ZERO = 1e4
#: Range of the size of y in single precision, with room for the network's errors.
_IN_SINGLE_PRECISION = (1e-35, 1e35)
#: Check predictions for NaN if any weight exceeds this.
_LARGE_WEIGHT = 100.0
#: Hold out a tenth of the samples to detect overfitting alone, if there are at least 20 samples and 8 epochs.
_LEAST_JUDGED, _LEAST_EPOCHS, _JUDGED = 20, 8, 1 / 10


class FitSession:
    """One fit of an operator.

    Parameters
    ----------
    estimator : OperatorRegressor
        Estimator that is being fitted; its parameters are read, and its fitted attributes set.
    data : TrainingData
        Samples, as they were read.
    sample_weight : array-like of shape (n,) or None
        Weights of the samples.
    plan : TrainingPlan
        Changes to the training loop for data in time.
    kept : FitCheckpoints or None, default=None
        Checkpoints of this fit.
    start : float or None, default=None
        Time at which the fit began; now by default.
    labels : ndarray of shape (n,) or None, default=None
        Labels of groups of samples that belong together; the runs of a plan if these are labels of its frames.

    Attributes
    ----------
    whole, data : TrainingData
        Samples as they were read, and as the network sees them.
    weight : ndarray of shape (n,) or None
        Weights of all samples.
    used : ndarray of int
        Indices of the samples with positive weight.
    n_frames : int
        Number of successive samples that are the frames of one run, and stay together; 1 if samples are independent.
    groups : ndarray of int, shape (n,), or None
        Numbers of the groups of samples that belong together otherwise.
    scaling, training : ScalingOptions, TrainingOptions
        Parts of the estimator that the fit reads.
    points : FieldSet
        Points of these: of the inputs, or of the targets if they have more.
    valid, held : ndarray of int or None
        Indices of the samples that are held out for validation, and of those by which the share of the correction to
        the base is chosen, or a training is judged to overfit.
    base : SessionBase
        Base in this fit.
    loader : FieldLoader
        Training samples.
    """

    data: TrainingData
    points: FieldSet
    valid: IntArray | None
    held: IntArray | None
    loader: FieldLoader
    rng: np.random.RandomState
    trainer: Trainer

    def __init__(
        self,
        estimator: Any,
        data: TrainingData,
        sample_weight: Any,
        plan: TrainingPlan,
        kept: FitCheckpoints | None = None,
        start: float | None = None,
        labels: Any = None,
    ) -> None:
        self.estimator, self.whole, self.plan = estimator, data, plan
        self.n_frames = plan.n_steps or 1
        self.start, self.kept = time.perf_counter() if start is None else start, kept or FitCheckpoints()
        self.group, self.groups = self.kept.group, _groups_of(labels, plan)
        self.scaling, self.training = estimator._options("scaling"), estimator._options("training")
        self.base, self.weight = SessionBase(self), check_weight(sample_weight, len(data.inputs))
        self.used = np.arange(len(data.inputs)) if self.weight is None else np.flatnonzero(self.weight)

    # ------------------------------------------------------------------ the fit as a whole
    def prepare(self) -> None:
        """Split and scale the samples, fit the base, and build the network or keep that of an earlier fit."""
        model, data = self.estimator, self.whole
        if data.targets.elsewhere:
            self._check_other_points(data)
        if self.scaling.target_transform is not None:
            check_logarithms(model, data.targets, self.used)
        rng = check_random_state(model.random_state)
        self.rng = self.group.generator(rng) if model.random_state is None else rng
        self.data = data = self._resampled(data)
        self.points = self._of_used(data.inputs)
        if data.targets.elsewhere and data.targets.field is not None:
            # Batches are as large as the larger of the two sets of points allows.
            self.points = max(self.points, data.targets.field[self.used], key=lambda part: part.n_points.mean())
        train, self.valid = self._split()
        model._check_samples(data)
        self._prepare(train)
        resampler = model.spec_.resampler
        if resampler is not None and not model.surrogate_.has_base_on_points:
            warn_of_resampling(resampler, "use LaMORegressor without grid")
        self.held = self.valid
        n_held = 0 if self.held is None else len(np.unique(self._runs_of(self.held)))
        if self.base.unseen is not None and n_held < HELD_OUT[0]:
            # A validation of few samples does not tell how much of a correction is right.
            train, further = _hold_out(data, train, n_held, self.n_frames, self.groups)
            self.held = further if self.held is None else np.concatenate([self.held, further])
        elif self.held is None and self._needs_judging(len(train)):
            train, self.held = _hold_out_to_judge(data.inputs, train, self.groups)
        self.loader = self.training_loader(train)
        split = {"training": len(train), "validation": 0 if self.valid is None else len(self.valid)}
        purpose = "share of the network" if self.base.unseen is not None else "signs of overfitting"
        split[purpose] = 0 if self.held is None else len(self.held) - split["validation"]
        # A probe of the cost of an epoch has read nothing.
        model.fit_record_ = (model.fit_record_ or {}) | {"split": {name: n for name, n in split.items() if n}}

    def train(self, callbacks: EpochCallbacks) -> None:
        """Train the network."""
        self.trainer = self._make_trainer(callbacks)
        with self._computing(self.trainer), self.group.interruptible(), record_backends() as used:
            self.kept.further = lambda: {"backends": sorted(used)}
            used.update(self.kept.resume(self.trainer).get("backends", ()))
            self.trainer.run(self.loader)
        self.estimator.backend_ = ", ".join(sorted(used)) or "torch"

    def finish(self) -> History:
        """Choose how much of the network is used, and store the results."""
        history = self.trainer.history
        self.base.choose_share(history)
        self._record(history)
        self._store_end(self.trainer)
        self._check_outputs()
        self.estimator._store_reference(self.whole.inputs, self.weight)
        self.estimator.fit_record_ |= times_since(self.start)
        self.kept.finish(self.estimator, history)
        return history

    def measure(self) -> tuple[EpochCost, dict[str, Any]]:
        """Measure an epoch, after which the estimator is of no other use, and say what would make it cheaper."""
        self.prepare()
        trainer = self._make_trainer(None)
        with self._computing(trainer):
            cost = measure_epoch(trainer, self.loader)
        return cost, cheaper_settings(self.estimator, self.points)

    @contextmanager
    def _computing(self, trainer: Trainer) -> Iterator[None]:
        """Context of the steps of a training: seeded random numbers, and threads that suit the problem."""
        model = self.estimator
        randomness = isolated_randomness(self.rng, model.device_, self.training.deterministic)
        n_points = _points_of_a_step(self.points, trainer.options, self.training.subsample_points)
        with randomness, thread_limit(int(n_points), int(model.width)):
            yield

    def _check_outputs(self) -> None:
        """Raise an error if the network predicts nothing finite for a sample of the training.

        The loss of a step is that before it, so that the training does not see what its last steps have done.
        """
        model = self.estimator
        largest = [float(weight.detach().abs().max()) for weight in model.module_.parameters() if weight.numel()]
        if max(largest, default=0.0) <= _LARGE_WEIGHT:
            return
        found = model.surrogate_.predict_batches(self.held_loader(self.used[:1]))
        if not all(part is None or np.isfinite(part).all() for part in (found.fields, found.scalars)):
            raise TrainingDivergedError(
                "the last steps of the training made weights so large that training samples have no finite prediction. "
                f"Lower learning_rate_init (now {model.learning_rate_init}), or set a lower training__max_grad_norm."
            )

    # ------------------------------------------------------------------ samples
    def _of_used(self, part: Any) -> Any:
        """Samples with positive weight."""
        return part if self.weight is None else part[self.used]

    def _check_other_points(self, data: TrainingData) -> None:
        """Raise an error if a parameter needs targets on the points of the inputs, but they are on others."""
        model, scaling, drawn = self.estimator, self.scaling, self.training.subsample_points
        reasons = {
            f"grid={model.grid!r} interpolates X and y to one grid; set grid=None": (
                model.grid is not None and data.spec.geometry == "points"
            ),
            f"scaling__inputs={scaling.inputs!r} with scaling__targets={scaling.targets!r} ties the network to the "
            "points of X; set both to 'channel'": "point" in (scaling.inputs, scaling.targets),
            "symmetries map the points of X onto each other, and not those of y; set symmetries=None": (
                model._symmetries is not None
                and not moves_points(model._symmetries, data.spec, model._choose_geometry(data.spec), data.inputs)
            ),
            f"training__subsample_points={drawn} draws points of X and y together; set it to None": drawn is not None,
        }
        if reason := next((reason for reason, applies in reasons.items() if applies), ""):
            raise FieldDataError(f"{_other_points(data)}, but {reason}.")

    def _split(self) -> tuple[IntArray, IntArray | None]:
        """Split the samples for training and validation; groups and runs are not split."""
        if not self.estimator.early_stopping:
            return self.used, None
        numbers, own = np.unique(self._runs_of(self.used), return_inverse=True)
        n_valid = int(np.ceil(self.training.validation_fraction * len(numbers)))
        if n_valid >= len(numbers):
            what = "samples" if self.groups is None else "groups"
            raise FieldDataError(
                f"early_stopping holds out {n_valid} of {len(numbers)} {what}, and none is left to train on; pass "
                "more, lower training__validation_fraction, or set early_stopping=False."
            )
        order = self.rng.permutation(len(numbers))
        # Of groups, one of most samples is kept to train on.
        order = order if self.groups is None else order[2 * np.bincount(own)[order] <= len(own)]
        is_valid = np.isin(own, order[:n_valid])
        return self.used[~is_valid], self.used[is_valid]

    def _runs_of(self, rows: IntArray) -> IntArray:
        """Numbers of the groups of samples, or of their runs or groups of a plan."""
        return rows // max(self.n_frames, self.plan.group_size) if self.groups is None else self.groups[rows]

    def _resampled(self, data: TrainingData) -> TrainingData:
        """Return the samples as the network sees them: interpolated to a grid if `grid` is set and they have none."""
        model = self.estimator
        if model.grid is None or data.spec.geometry != "points":
            return data
        if data.spec.n_dims > MOST_GRID_AXES:
            raise FieldDataError(
                f"grid={model.grid!r} interpolates points in 1, 2 or 3 dimensions, but X has {data.spec.n_dims}; set "
                "grid=None in an estimator for points, such as LaMORegressor."
            )
        if model._continues and model.spec_.n_dims == data.spec.n_dims and model.spec_.resampler is not None:
            resampler = model.spec_.resampler
        else:
            # Training on the network's own frames would confuse the channel of distances with a channel of a frame.
            distance = None if self.plan.forward is None else False
            resampler = GridResampler.fit(data.inputs[self.used], model.grid, distance=distance)
        return on_grid(data, resampler, self.used)

    def target_places(self, inputs: FieldSet, targets: Targets) -> FieldSet | None:
        """Return the targets' own points as query points, with the inputs interpolated there; None without such."""
        if not targets.elsewhere or targets.field is None:
            return None
        return query_points(targets.field, inputs, self.estimator.domain_.reach).with_grid(targets.field.grid_shape)

    def training_loader(self, train: IntArray) -> FieldLoader:
        """Return a loader of the training samples, with data augmentation by the declared symmetries."""
        model, data, weight = self.estimator, self.data, self.weight
        inputs, targets = data.inputs[train], data.targets[train]
        options: dict[str, Any] = {"targets": targets, "weight": None if weight is None else weight[train]}
        options["queries"] = self.target_places(inputs, targets)
        takes_slopes = loss_name(model, self.plan) == "sobolev"
        options["neighbours"] = takes_slopes or isinstance(model.loss, SobolevLoss)
        if self.n_frames > 1 and takes_slopes and model.loss == "auto" and not model.scalers_.learns_logarithms:
            options["target_sizes"] = _sizes_of_runs(targets, self.n_frames)
        options |= self.base.options(train)
        surrogate, drawn = model.surrogate_, self.training.subsample_points
        if (symmetrise := surrogate.symmetrise) is not None:
            options["symmetries"] = symmetrise.of(data.inputs)
            options["generator"] = torch.Generator().manual_seed(int(self.rng.randint(2**31)))
        if drawn is not None:
            options["subsample_points"] = int(drawn)
            options["generator"] = torch.Generator().manual_seed(int(self.rng.randint(2**31)))
        return surrogate.loader(inputs, **options)

    @property
    def trained_on(self) -> IntArray:
        """Indices of the samples of the training that are not held out."""
        return self.used if self.held is None else np.setdiff1d(self.used, self.held)

    def held_loader(self, rows: IntArray) -> FieldLoader:
        """Return a loader of the inputs of some samples, with predictions of a base that has not seen them."""
        inputs, targets = self.data.inputs[rows], self.data.targets[rows]
        queries = self.target_places(inputs, targets)
        return self.estimator.surrogate_.loader(inputs, queries=queries, **self.base.options(rows))

    # ------------------------------------------------------------------ stages
    def _prepare(self, train: IntArray) -> None:
        """Set spec, scalers, device, base and network, or keep those of an earlier fit when starting warm."""
        model, data, weight = self.estimator, self.data, self.weight
        network_spec = data.spec.network_spec
        geometry = model._choose_geometry(network_spec)
        self._check_parameters(geometry)
        model.device_ = pick_device(model.device)
        if model._continues:
            self._continue(train, geometry)
            return
        used_points = self._of_used(data.inputs)
        moving, centre = self._moving_symmetries(used_points, geometry)
        counts = np.ones(len(data.inputs)) if weight is None else weight
        scalers = self.kept.once(
            "scalers", lambda: Scalers.fit(data.inputs[train], data.targets[train], counts[train], self.scaling, moving)
        )
        self.base.fit(scalers)
        self.base.use_frame(scalers)
        parameters = model._network_parameters()
        model._check_size(network_spec, geometry, parameters)
        with isolated_randomness(self.rng, torch.device("cpu"), False):
            network = model._new_network(network_spec, geometry)
        set_periodic(network, periodic := _periodic_axes(model, data, train, geometry))
        self.base.set_units(network, scalers, train)
        if data.targets.elsewhere and not getattr(network, "supports_queries", False):
            raise FieldDataError(_no_outputs_elsewhere(data, type(model).__name__, geometry))
        dtype = pick_dtype(model.dtype, data.spec.role)
        if dtype == "float32":
            _check_single_precision(scalers)
        # Nothing is stored before all of it is known to work, so that a failed fit leaves an earlier one whole.
        model._store_spec(self.whole.inputs, data.spec)
        model.spacing_, model.geometry_ = _spacing(data.inputs), geometry
        model.domain_ = Domain.from_fit(used_points, geometry, is_tied=scalers.per_point)
        model.symmetry_centre_, model.periodic_axes_ = centre, periodic
        model.network_parameters_, model.dtype_, model.scalers_ = copy.deepcopy(parameters), dtype, scalers
        model.module_ = converted(network, model.device_, getattr(torch, dtype))
        model.loss_curve_, model.validation_scores_ = [], []
        self._store_target_points(self._of_used(data.targets))
        if moving is not None:
            model.domain_ = model.domain_.moved_by(moving, used_points)
        model._store_ranges(replace(data, inputs=self.whole.inputs), weight, None)

    def _check_parameters(self, geometry: str) -> None:
        """Raise an error if parameters do not suit the samples, or a continued fit goes on with other ones."""
        model, data = self.estimator, self.data
        model._check_options(data.spec.network_spec, geometry)
        model._check_mesh_parameters(data.spec)
        scaling, drawn = self.scaling, self.training.subsample_points
        per_point = "point" in (scaling.inputs, scaling.targets)
        if drawn is not None and not model._draws_points:
            raise ValueError(
                f"training__subsample_points={drawn} is for operators with latent tokens (LaMO, AMO, Transolver), "
                f"and {type(model).__name__} reads all points of a sample; set it to None."
            )
        if drawn is not None and (geometry != "points" or per_point):
            raise FieldDataError(
                f"training__subsample_points={drawn} needs points that are read as geometry 'points' and scaling "
                f"of whole channels; this fit reads geometry {geometry!r} and scales inputs by {scaling.inputs!r}, "
                f"targets by {scaling.targets!r}. Set it to None, or geometry='points'."
            )
        if model._continues and data.spec != model.spec_:
            raise FieldDataError(
                f"warm_start goes on with data of the same kind, but {model.spec_.differences(data.spec)}. Set "
                "warm_start=False to fit anew."
            )

    def _continue(self, train: IntArray, geometry: str) -> None:
        """Keep network and scalers of the last fit."""
        model, data = self.estimator, self.data
        model.spec_ = data.spec
        model.module_.to(model.device_)
        model.domain_.check(data.inputs)
        self._declare_later(geometry)
        model._store_ranges(replace(data, inputs=self.whole.inputs), self.weight, model.ranges_)
        self._continue_scaling(train)
        self._store_target_points(data.targets)
        self.base.fit(model.scalers_)
        self.base.use_frame(model.scalers_)

    def _store_target_points(self, targets: Targets) -> None:
        """Store where the targets are, if this is not on the points of the inputs."""
        if not targets.elsewhere or targets.field is None:
            return
        self.estimator.domain_ = self.estimator.domain_.with_targets(targets.field)
        if targets.field.shared_coords:
            self.estimator.coords_ = targets.field.coords

    def _moving_symmetries(
        self, used_points: FieldSet, geometry: str
    ) -> tuple[PointSymmetries | None, FloatArray | None]:
        """Check the declared symmetries; return those that move points, and the centre of the box of all points."""
        model, data, declared = self.estimator, self.data, self.estimator._symmetries
        if declared is None:
            return None, None
        box, centre = Domain.from_fit(used_points, "points"), None
        require_points_in_domain(declared, box.lower, box.upper)
        if model._continues:
            box, centre = model.domain_, getattr(model, "symmetry_centre_", None)
        if centre is None and moves_points(declared, data.spec, geometry, data.inputs):
            centre = (box.lower + box.upper) / 2
        extent, columns = float(np.max(box.upper - box.lower)), model._columns(data.spec)
        points = data.inputs.coords if data.inputs.shared_coords else None
        symmetries = declared_symmetries(declared, data.spec, data.inputs.grid_shape, centre, extent, columns, points)
        if fields := undeclared_fields(data.spec, symmetries):
            warn(
                f"the symmetries mirror or rotate samples, but the components of {', '.join(fields)} are left as they "
                "are; if these are vectors or tensors, name them in SymmetryOptions(input_vectors=..., "
                "target_vectors=..., input_tensors=..., target_tensors=...)."
            )
        return symmetries if isinstance(symmetries, PointSymmetries) else None, centre

    def _declare_later(self, geometry: str) -> None:
        """Check the symmetries of a continued fit; warn where the scaling of the first fit does not suit them."""
        model = self.estimator
        if model._symmetries is None:
            return
        used_points = self._of_used(self.data.inputs)
        moving, model.symmetry_centre_ = self._moving_symmetries(used_points, geometry)
        if moving is not None:
            model.surrogate_.symmetrise.warn_of_unseen(moving, used_points)
            # Moved samples have axes in other directions.
            model.domain_ = replace(model.domain_, shapes=None)

    def _continue_scaling(self, train: IntArray) -> None:
        """Keep the scaling of the first fit for a continued one, and warn where it does not suit its samples."""
        model, data = self.estimator, self.data
        counts = np.ones(len(train)) if self.weight is None else self.weight[train]
        later = Scalers.fit(data.inputs[train], data.targets[train], counts, self.scaling)
        if unsuitable := model.scalers_.unsuitable_for(later):
            warn(
                "warm_start=True keeps the scaling of the first fit, with which values should be about 1 in size, but "
                f"those of {', '.join(unsuitable)} are not, so that the network can hardly learn from them. They did "
                "not vary in the first fit, or had another size. Fit anew by warm_start=False, with the samples of "
                "both fits.",
                SkopWarning,
            )
        model.scalers_ = model.scalers_.continued(later)

    # ------------------------------------------------------------------ training
    def _needs_judging(self, n_samples: int) -> bool:
        """Whether a training without held-out samples needs some, by which it is judged to overfit."""
        model = self.estimator
        return (
            n_samples >= _LEAST_JUDGED
            and model.max_iter >= _LEAST_EPOCHS
            and not model._continues
            and replace(self.plan, last_frame=None) == DIRECT_TRAINING
            and bool(OverfittingMonitor(self).remedies)
        )

    def _make_trainer(self, callbacks: EpochCallbacks | None) -> Trainer:
        """Build the trainer with loss and monitors, and set drop path and the shift of patches."""
        model, data, valid = self.estimator, self.data, self.valid
        OverfittingMonitor(self).begin()
        earlier = self._earlier_training()
        monitors: list[Monitor] = []
        if valid is not None:
            monitors.append(
                Validation(
                    partial(validation_error, self.errors_of(valid)),
                    n_iter_no_change=self.training.n_iter_no_change,
                    tol=self.training.tol,
                    at_start=earlier.has_held_out(valid),
                )
            )
        if callbacks is not None:
            monitors.append(callbacks)
        if self.base.unseen is not None:
            monitors.append(BaseMonitor(self))
        if self.held is not None:
            monitors.append(OverfittingMonitor(self))
        field = data.targets.field
        places = field if data.targets.elsewhere and field is not None else data.inputs
        return Trainer(
            model.module_,
            objective_of(model, _spacing(places), self.plan),
            self._for_the_rest(trainer_config(model, self.points, self.plan)),
            self.rng,
            monitors=monitors,
            forward=self.plan.forward,
            earlier=earlier,
            keeper=self.kept if self.kept.is_on else None,
            group=self.group,
            after=self._seconds_after,
        )

    def _earlier_training(self) -> EarlierTraining:
        """What the fit that was prepared continues; nothing if it does not."""
        model = self.estimator
        if not model.loss_curve_:
            return EarlierTraining()
        earlier: EarlierTraining | None = vars(model).get("_earlier")
        return earlier or EarlierTraining(model.n_iter_, model.fit_seconds_)

    def _for_the_rest(self, config: TrainerConfig) -> TrainerConfig:
        """Return the settings with the time so far, of the base above all, taken off the time limit, up to half of it.

        The base of a fit that is resumed was fitted before.
        """
        if config.max_time is None:
            return config
        spent = self.group.once(lambda: max(time.perf_counter() - self.start, self.estimator._base_seconds))
        return replace(config, max_time=max(config.max_time - spent, config.max_time / 2))

    def _seconds_after(self) -> float:
        """Measure on a batch what the passes after the training take: for novelty, the best weights and the share."""
        inputs, batch_size = self._of_used(self.whole.inputs), self.trainer.options.batch_size
        n_samples = n_referenced(inputs) + (0 if self.held is None else 2 * len(self.held))
        n_points = n_samples * float(inputs.n_points.mean())
        return self.group.once(lambda: n_points * _seconds_a_point(self.estimator, inputs[:batch_size]))

    def errors_of(self, rows: IntArray) -> Callable[[], Errors]:
        """Return a function that computes the current relative error of each run, for fields and scalars, (n,)."""
        return SampleErrors(self.estimator, self.data.targets[rows], self.held_loader(rows), self.n_frames)

    # ------------------------------------------------------------------ results
    def _record(self, history: History) -> None:
        """Store the record of the training in attributes."""
        model = self.estimator
        # A continued training may find no better weights than those from which it started.
        if history.best_iter:
            model.best_iter_ = len(model.loss_curve_) + history.best_iter
        model.stopped_ = history.stopped
        model.loss_curve_ = [*model.loss_curve_, *history.loss_curve]
        scores = (1.0 - error for error in history.validation_errors)
        model.validation_scores_ = [*model.validation_scores_, *scores]
        model.n_iter_ = len(model.loss_curve_)
        model.fit_seconds_ = history.seconds[-1] if history.seconds else 0.0

    def _store_end(self, trainer: Trainer) -> None:
        """Store what a warm start continues, outside of the fitted attributes, which are those of model files."""
        model = self.estimator
        model.__dict__.pop("_earlier", None)
        if model.warm_start:
            seconds, end = trainer.earlier.seconds + model.fit_seconds_, trainer.end
            if end is not None and trainer.network is not model.module_:
                end = _without_base(end, model.module_)
            model._earlier = EarlierTraining(model.n_iter_, seconds, end, self.valid)


def _groups_of(labels: Any, plan: TrainingPlan) -> IntArray | None:
    """Numbers of the groups of samples; None without labels, or if these are the runs of a plan, which stay whole."""
    if labels is None:
        return None
    numbers = np.unique(labels, return_inverse=True)[1]
    are_runs = plan.n_steps is not None and numbers.max() + 1 == len(numbers) / plan.n_steps
    return None if are_runs else numbers


def check_logarithms(model: Any, targets: Targets, used: IntArray) -> None:
    """Raise an error if an operator cannot learn the logarithms of these targets."""
    check_positive(targets, used)
    declared = model._symmetries
    for name in ("target_vectors", "target_tensors", "scalar_vectors") if declared is not None else ():
        if len(getattr(declared, name)):
            raise FieldDataError(
                f"target_transform='log' needs positive values, but symmetries turn the components of {name}, "
                f"which can change their sign; set target_transform=None, or declare no {name}."
            )


def _no_outputs_elsewhere(data: TrainingData, model: str, geometry: str) -> str:
    """What to do where a network has no outputs at the points of y."""
    return (
        f"{_other_points(data)}, but the network of this {model} on geometry {geometry!r} gives outputs at the points "
        "of X only. Set geometry='points' in LaMORegressor, AMORegressor or MNORegressor, take MNORegressor with "
        "host=GNOT() or OFormer() of skop.parts, or interpolate y to the points of X by "
        "skop.data.interpolate_fields."
    )


def _other_points(data: TrainingData) -> str:
    """Say that the targets are on other points than the inputs."""
    counts = [np.asarray(part.n_points) for part in (data.targets.field, data.inputs) if part is not None]
    ours, theirs = (f"{own.min()} to {own.max()}" if np.ptp(own) else str(own[0]) for own in counts)
    return f"y is on other points than X ({ours} points per sample, X has {theirs})"


def _check_single_precision(scalers: Scalers) -> None:
    """Raise an error if single precision cannot hold the targets, and warn if it holds few digits of them.

    A training would make infinities or zeros of targets that it cannot hold.
    """
    least, most = _IN_SINGLE_PRECISION
    held = [scaler for scaler in (scalers.target, scalers.scalars) if scaler is not None]
    # Logarithms are computed in double precision.
    largest = max([float(scaler.size_.max()) for scaler in held if scaler.function is None], default=0.0)
    if largest > most or 0 < largest < least:
        raise FieldDataError(
            f"y has the size {largest:.1e}, which single precision cannot hold in a training; expected {least:g} to "
            f"{most:g}. Take another unit, set dtype='float64', or check fill values."
        )
    offset = max([scaler.offset_ for scaler in held])
    if offset > _TOO_FAR_FROM_ZERO:
        what = "the logarithm of y" if scalers.learns_logarithms else "y"
        remedy = "set target_transform=None" if scalers.learns_logarithms else "subtract the mean from y"
        warn(
            f"the mean of {what} is {offset:.1e} times its standard deviation, of which single precision keeps few "
            f"digits; {remedy}, or set dtype='float64'."
        )


def _hold_out(
    data: TrainingData, train: IntArray, n_held: int, n_frames: int, groups: IntArray | None
) -> tuple[IntArray, IntArray]:
    """Hold out some runs of frames, or what is missing of these; groups and those with the same inputs stay together.

    Each of n samples that is missing raises the error by some part of 1 / n, and m samples that choose the share by
    some part of 1 / m, so that the best number grows with the square root of n. This part is larger where outputs
    are scalars alone, of which a sample is one number. Continued fits hold out the same ones, which the network has not
    seen then either.
    """
    group = _together(data.inputs, train[::n_frames], groups)
    n_samples = int(group.max()) + 1
    best = np.sqrt(n_samples) / 2 if data.targets.field is not None else min(2 * np.sqrt(n_samples), n_samples / 4)
    count = HELD_OUT[0] - n_held if n_held else int(np.clip(round(best), *HELD_OUT))
    is_held = np.repeat(group < count, n_frames)
    return train[~is_held], train[is_held]


def _together(inputs: FieldSet, rows: IntArray, groups: IntArray | None) -> IntArray:
    """Numbers of the samples or groups that are not held out apart, in an order as good as random."""
    numbers = groups_of_same_inputs(inputs[rows], nearly=True)
    if groups is None:
        return numbers
    found = linked(numbers, np.unique(groups[rows], return_inverse=True)[1])
    least = np.full(found.max() + 1, numbers.max())
    np.minimum.at(least, found, numbers)
    # The least of k numbers is the smaller, the more there are: of those in [0, 1], 1 - (1 - least)^k is uniform.
    counts = np.bincount(np.unique(np.stack([found, numbers]), axis=1)[0])
    place = -np.log1p(-(least + 0.5) / (numbers.max() + 1)) * counts
    # Without a group of most samples there would be few to train on.
    place[2 * counts > counts.sum()] = np.inf
    return np.asarray(place.argsort(kind="stable").argsort()[found])


def _hold_out_to_judge(inputs: FieldSet, train: IntArray, groups: IntArray | None) -> tuple[IntArray, IntArray | None]:
    """Hold out a part of the samples, by which a training without a base is judged to overfit; none of few.

    The same ones for any seed, so that the random numbers of a fit do not depend on it. A sample that comes twice
    counts once, as one of weight 2 does.
    """
    group = _together(inputs, train, groups)
    n_samples = int(group.max()) + 1
    if n_samples < _LEAST_JUDGED:
        return train, None
    count = int(np.clip(int(_JUDGED * n_samples), *HELD_OUT))
    return train[group >= count], train[group < count]


def _sizes_of_runs(targets: Targets, n_frames: int) -> FloatArray | None:
    """Root mean square of each channel (n, q) over all frames of the run of a sample; 1 for a run of zeros.

    A score is relative to whole runs, and frames of a field that decays, or starts from nothing, would outweigh others.
    """
    field = targets.field
    if field is None:
        return None
    sums = []
    for start, values in iterate_rows(field):
        rows = np.square(np.asarray(values, dtype=np.float64)).reshape(-1, field.n_channels)
        ends = np.cumsum(field.n_points[start:])
        sums.append(np.add.reduceat(rows, np.append(0, ends[ends < len(rows)])))
    squares = np.concatenate(sums).reshape(-1, n_frames, field.n_channels).sum(axis=1)
    sizes = np.sqrt(squares / field.n_points.reshape(-1, n_frames).sum(axis=1, keepdims=True))
    sizes[~sizes.any(axis=1)] = 1.0
    return np.repeat(sizes, n_frames, axis=0)


def _seconds_a_point(model: Any, inputs: FieldSet) -> float:
    """Measure a pass of samples through the network for each of their points."""
    with held_warnings():
        model._tokens(inputs[:1])  # compiles what is new without gradients
        start = time.perf_counter()
        model._tokens(inputs)
    return (time.perf_counter() - start) / float(inputs.n_points.sum())


def _spacing(inputs: FieldSet) -> tuple[float, ...] | None:
    """Grid spacing that all samples share, or None."""
    if not inputs.shared_coords or inputs.grid_shape is None or len(inputs.grid_shape) != inputs.n_dims:
        return None
    return grid_spacing(inputs.coords, inputs.grid_shape)


def _periodic_axes(model: Any, data: TrainingData, train: IntArray, geometry: str) -> tuple[int, ...]:
    """Axes of the grid around which convolutions wrap: declared ones, and those around which the samples go on."""
    declared, option = periodic_axes(model._symmetries, geometry), model._options("symmetries").periodic
    is_found = option == "auto" and geometry == "grid" and data.spec.resampler is None
    if not is_found or _spacing(data.inputs) is None:
        return declared
    field = None if data.targets.elsewhere else data.targets.field
    found = axes_around([data.inputs] if field is None else [data.inputs, field], train)
    return tuple(sorted({*declared, *found}))


def _points_of_a_step(inputs: FieldSet, config: TrainerConfig, drawn: int | None) -> int:
    """Number of points in a mini-batch, over all its samples."""
    together = config.group_size if config.grouping == "together" else 1
    return config.batch_size * together * int(min(inputs.n_points.mean(), drawn or np.inf))


def _without_base(end: TrainingEnd, network: torch.nn.Module) -> TrainingEnd:
    """State of the training of a `CorrectionNetwork`, as that of the network in it with its final weights."""

    def own(held: dict[str, Any]) -> dict[str, Any]:
        """Entries of the network, by its own names."""
        prefix = "network."
        return {name.removeprefix(prefix): value for name, value in held.items() if name.startswith(prefix)}

    return replace(end, weights=own(end.weights), moments=own(end.moments), fingerprint=fingerprint(network))
