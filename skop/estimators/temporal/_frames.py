"""Base class of the estimators for data in time, which split trajectories into frames and fit an estimator on these.

Time is part of the channel axis: channel t c + k is component k of frame t.

Notation: n trajectories, S frames of a target, P points, T points of all samples together, c channels of a frame.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import meshio
import numpy as np

from skop._typing import FloatArray
from skop.data import (
    FieldSet,
    MeshRun,
    MeshSeries,
    Predictions,
    Targets,
    TrainingData,
    attach_beside,
    attach_predictions,
    check_order_of_files,
    find_runs,
    form_of,
    is_mesh_series,
    pair_series,
    read_templates,
    split_series,
)
from skop.estimators._field import FieldRegressor
from skop.estimators._reading import checked_by_caller, named_by_caller
from skop.estimators._weights import check_weight, groups_option, weight_option
from skop.estimators._wrapper import WrappingRegressor, fit_estimator, goes_on
from skop.estimators.files._file_checks import Held, checks, is_one_of
from skop.estimators.fitting._checkpoint import passed_on, require_seed
from skop.estimators.fitting._cost import CostEstimate, MeasuresCost, require_measurable
from skop.estimators.fitting._session import check_logarithms
from skop.estimators.operators._operator import OperatorRegressor
from skop.exceptions import FieldDataError, warn
from skop.metrics import relative_l2_error
from skop.surrogate._profile import Finding
from skop.training import TrainingPlan

__all__ = ["BaseFrameRegressor", "join_frames", "repeat_samples"]


class BaseFrameRegressor(MeasuresCost, WrappingRegressor):
    """Base class of the estimators that fit another estimator on single frames.

    A subclass splits trajectories into frames, calls `_fit_estimator`, and defines `_predict_values`, which collects
    the outputs of `_predict_frame`.
    """

    random_state: Any
    n_frames_: int
    _only_passes_on = True
    #: How series of meshes are read and written, if the fit was on such.
    series_: dict[str, Any]

    # ------------------------------------------------------------------ time series of meshes
    def _open_training_series(self, X: Any, y: Any) -> tuple[Any, FieldSet]:
        """Read X and y of a fit on time series of meshes, and set `series_`."""
        raise NotImplementedError

    def _series_inputs(self, runs: list[MeshRun]) -> FieldSet:
        """Read the inputs of runs."""
        raise NotImplementedError

    def _open_scored_series(self, X: Any, y: Any) -> tuple[Any, FieldSet]:
        """Read X and y of a score on time series of meshes."""
        raise NotImplementedError

    def _check_times_of(self, runs: list[MeshRun]) -> None:
        """Raise an error for runs whose times do not go with those of the fit."""
        raise NotImplementedError

    def _predicted_times(self, run: MeshRun) -> tuple[FloatArray, list[int | None]]:
        """Return the times of a prediction, and the numbers of the frames of the run at these times if it has any."""
        raise NotImplementedError

    def _part_of_frames(self, n_steps: Any, times: Any) -> tuple[Self, list[int]]:
        """Return a copy that predicts some of the frames of the fit, and the numbers of these frames."""
        raise NotImplementedError

    def _frame_size(self, data: TrainingData) -> int:
        """Number of channels of a frame of y."""
        raise NotImplementedError

    def _takes_series(self, X: Any, y: Any) -> bool:
        """Whether X or y of a fit is time series of meshes."""
        return is_mesh_series(X) or is_mesh_series(y)

    def _read(
        self, X: Any, y: Any, *, params: Any = None, sample_weight: Any = None, groups: Any = None, **options: Any
    ) -> TrainingData:
        """X and y of a fit."""
        self.__dict__.pop("series_", None)
        runs, targets, design = split_series(X, y, params)
        if self._takes_series(runs, targets):
            is_ordered = sample_weight is not None or groups is not None
            params = pair_series(design, runs, weighted=is_ordered, fitting=True)
            names = [run.label for run in find_runs(runs)] if is_mesh_series(runs) else None
            check_order_of_files(runs, names, sample_weight, "sample_weight")
            check_order_of_files(runs, names, groups, "groups")
            X, y = self._open_training_series(runs, targets)
        return super()._read(X, y, params=params, sample_weight=sample_weight, groups=groups, **options)

    def _problems(
        self, data: TrainingData, columns: Sequence[str] | None, *, has_groups: bool, frame_size: int | None = None
    ) -> list[Finding]:
        """What a fit warns of, with fields of meshes and frames by their names; X may hold the first frame."""
        held, field, inputs = self.__dict__.get("series_"), data.targets.field, data.inputs
        frame_size = None if field is None else self._frame_size(data)
        if held is None or field is None:
            return super()._problems(data, columns, has_groups=has_groups, frame_size=frame_size)
        components = held["components"]
        parts = {name: [name] if count == 1 else [f"{name}_{k}" for k in range(count)] for name, count in components}
        frame = [part for own in parts.values() for part in own]
        n_given, given = getattr(self, "window", 0), held["input_fields"]
        total = n_given + field.n_channels // len(frame)
        names = [f"{name} in frame {number}" for number in range(total) for name in frame]
        own = names[: n_given * len(frame)] or [part for name in given for part in parts.get(name, [name])]
        named = _with_names(field, names[n_given * len(frame) :])
        data = replace(data, inputs=_with_names(inputs, own), targets=replace(data.targets, field=named))
        # An initial value is learned with the other frames, of which it is no copy.
        starts = {
            f"channel {part!r}" for name in given if name in held["target_fields"] for part in parts.get(name, ())
        }
        found = super()._problems(data, columns, has_groups=has_groups, frame_size=frame_size)
        return [finding for finding in found if not (finding.what in starts and " equals " in str(finding))]

    def _read_inputs(self, X: Any, params: Any = None) -> tuple[FieldSet, list[Any] | None]:
        """Read the X of a prediction; also return its runs if it is time series of meshes."""
        if not hasattr(self, "series_"):
            return super()._read_inputs(X, params)
        source, _, design = split_series(X, None, params)
        if form_of(source).on_meshes:
            runs = find_runs(source)
            return super()._read_inputs(self._series_inputs(runs), pair_series(design, source))[0], runs
        inputs, meshes = super()._read_inputs(X, params)
        mesh = copy.deepcopy(self.series_.get("mesh"))
        if mesh is None or not self.spec_.is_table:
            return inputs, meshes
        # All runs of the fit were on one mesh, which has no frames for new parameters.
        frame = meshio.Mesh(mesh["points"], [meshio.CellBlock(kind, nodes) for kind, nodes in mesh["cells"]])
        return inputs, [MeshRun("the mesh of the fit", [("the mesh of the fit", frame)], np.full(1, np.nan))] * len(
            inputs
        )

    def _read_scored(self, X: Any, y: Any, params: Any = None, sample_weight: Any = None) -> tuple[FieldSet, Targets]:
        """Read the X and y of a score."""
        if hasattr(self, "series_"):
            runs, targets, design = split_series(X, y, params)
            if form_of(runs).on_meshes or form_of(targets).on_meshes:
                params = pair_series(design, runs, weighted=sample_weight is not None)
                X, y = self._open_scored_series(runs, None if targets is runs else targets)
        try:
            return super()._read_scored(X, y, params, sample_weight)
        except FieldDataError:
            self._refuse_other_frames(y)
            raise

    def _refuse_other_frames(self, y: Any) -> None:
        """Raise an error for a y of other frames than are predicted, and say what compares it."""
        values = y[1] if isinstance(y, tuple) and len(y) == 2 else y
        is_array = getattr(values, "ndim", 0) > 1
        count = values.shape[-1] if is_array else getattr(values, "n_channels", 0)
        n_frames, rest = divmod(count, self._n_components)
        if n_frames and not rest and n_frames != self.n_frames_:
            raise FieldDataError(
                f"y has {count} channels, which are {n_frames} frames, but {self.n_frames_} frames are predicted; call "
                f"{self._call_for_frames(n_frames)}, or pass a y of as many frames."
            )

    def _call_for_frames(self, n_frames: int) -> str:
        """Call that gives the errors of another number of frames."""
        raise NotImplementedError

    def _restore(self, predictions: Predictions, places: FieldSet, meshes: list[Any] | None, labels: Any = None) -> Any:
        """Convert predictions to the form of y; for time series of meshes one `MeshSeries` for each run."""
        if meshes is None or not hasattr(self, "series_"):
            return super()._restore(predictions, places, meshes, labels)
        held, times = self.series_, [self._predicted_times(run) for run in meshes]
        # An input that is a target too would pass for the truth at times at which the run has no frame.
        inputs = [name for name in held["input_fields"] if name not in held["target_fields"]]
        options = {"cell_data": held["cell_data"], "inputs": inputs}
        templates = [
            mesh
            for run, (_, numbers) in zip(meshes, times, strict=True)
            for mesh in read_templates(run, numbers, **options)
        ]
        found = attach_predictions(templates, self._split(predictions, places), dict(held["components"]))
        return self._as_series(found, [known for known, _ in times])

    def _restore_beside(
        self, mean: Any, others: Sequence[Predictions], places: FieldSet, meshes: list[Any] | None, labels: Any = None
    ) -> list[Any]:
        """Convert a spread, or two bounds, to the form of y; on meshes, also add them to those of the mean."""
        if meshes is None or not hasattr(self, "series_"):
            return super()._restore_beside(mean, others, places, meshes, labels)
        flat = [mesh for series in mean for mesh in series.meshes]
        found = attach_beside(flat, [self._split(part, places) for part in others], dict(self.series_["components"]))
        return [self._as_series(part, [series.times for series in mean]) for part in found]

    def _split(self, predictions: Predictions, places: FieldSet) -> FieldSet:
        """Return predictions with each frame as a sample, in the order of time."""
        fields, count = super()._restore(predictions, places, None), self.n_frames_
        order = np.argsort(getattr(self, "times_", np.arange(count)), kind="stable")
        parts = [np.split(values, count, axis=-1) for values in fields.to_list()]
        frames = [part[k] for part in parts for k in order]
        return join_frames(repeat_samples(fields, count), frames)

    def _as_series(self, meshes: list[Any], times: list[FloatArray]) -> list[MeshSeries]:
        """Group meshes of all frames by runs."""
        count = self.n_frames_
        return [MeshSeries(meshes[i * count : (i + 1) * count], known) for i, known in enumerate(times)]

    def _series_options(self) -> dict[str, Any]:
        """Names of the fields in series of meshes, and the treatment of data on cells, for a fit."""
        options = self._mesh_options
        targets, inputs = options.get("target_fields"), options.get("input_fields")
        if not targets:
            raise FieldDataError(
                f"{type(self).__name__} got time series of meshes, but target_fields of its estimator does not name "
                "the fields; set target_fields=['...'] to names in their point_data."
            )
        named = {"target_fields": targets, "input_fields": inputs or ()}
        parts = {name: (held,) if isinstance(held, str) else tuple(held) for name, held in named.items()}
        return parts | {"cell_data": options.get("cell_data", "refuse")}

    # ------------------------------------------------------------------ fit
    def _read_trajectories(
        self, X: Any, y: Any, sample_weight: Any, params: Any, groups: Any = None
    ) -> tuple[TrainingData, FloatArray | None]:
        """Read X and y as FieldSets, and the weights. Columns of two tables become the channels of a single point."""
        data = self._read(X, y, params=params, sample_weight=sample_weight, groups=groups)
        has_names = hasattr(self, "feature_names_in_")
        self._check_steps(data.spec.is_fieldset or (data.spec.has_features and not has_names), data.spec)
        weight = check_weight(sample_weight, len(data.inputs))
        earlier = self.ranges_ if goes_on(self.estimator, getattr(self, "estimator_", None)) else None
        self._store_seen(data, weight, earlier)
        if data.spec.has_features:
            return replace(data, inputs=_one_point(data.inputs.params)), weight
        if data.targets.field is not None and data.targets.scalars is not None:
            raise FieldDataError(f"{type(self).__name__} predicts frames, but y has params (scalars); remove them.")
        return data, weight

    def _target_frames(self, data: TrainingData) -> tuple[FieldSet, FieldSet]:
        """Return the frames of the targets (scalars as fields on one point), and the samples that hold their points."""
        if data.targets.field is not None:
            return data.targets.field, data.targets.field if data.targets.elsewhere else data.inputs
        scalars = _one_point(data.targets.scalars)
        return scalars, scalars

    def _fit_estimator(
        self,
        estimator: Any,
        inputs: FieldSet,
        targets: FieldSet,
        data: TrainingData,
        weight: FloatArray | None,
        plan: TrainingPlan,
        fit: Callable[..., Any],
    ) -> None:
        """Fit the estimator on single frames, S for each trajectory, and store the form of the data."""
        X: Any = inputs.values[:, 0] if data.spec.has_features else inputs  # type: ignore[index]
        y: Any = targets
        if data.targets.field is None:
            values = np.asarray(targets.values)[:, 0]
            y = values[:, 0] if data.spec.target_form.squeezes_channel else values
        n_steps = len(inputs) // len(data.inputs)
        weights = None if weight is None else np.repeat(weight, n_steps)
        if n_steps > 1 and (len(data.inputs) if weight is None else np.count_nonzero(weight)) == 1:
            warn(
                "there is one run, so that errors of the fit, such as leave_one_out_error_, are those of other frames "
                "of this run. They say nothing of new runs."
            )
        names = tuple(name for name in data.called for _ in range(n_steps))
        with checked_by_caller(), named_by_caller(names):
            if isinstance(estimator, OperatorRegressor) and estimator._options("scaling").target_transform is not None:
                # Errors name the trajectory here, and would name one of all frames in the fit of the estimator.
                used = np.arange(len(data.targets)) if weight is None else np.flatnonzero(weight)
                check_logarithms(estimator, data.targets, used)
            fit(estimator, X, y, weights, replace(plan, n_steps=n_steps))
        self.estimator_ = estimator
        self._store_spec(data.inputs, data.spec)
        if data.spec.target_points == "shared" and data.targets.field is not None:
            self.coords_ = data.targets.field.coords

    def _fit(self, data: TrainingData, weight: FloatArray | None, fit: Callable[..., Any]) -> None:
        """Fit the estimator on single frames by a function of it, X, y, weights and the training plan of operators."""
        raise NotImplementedError

    def _estimate_cost(self, X: Any, y: Any, sample_weight: Any, *, params: Any = None) -> CostEstimate:
        """Measure the fit of the estimator on single frames."""
        require_measurable(self.estimator)
        found: list[CostEstimate] = []

        def measure(estimator: Any, X: Any, y: Any, weight: Any, plan: TrainingPlan) -> None:
            """Measure in place of a fit."""
            if isinstance(estimator, OperatorRegressor):
                estimator._validate_params()
                found.append(estimator._estimate_cost(X, y, weight, plan))
            else:
                found.append(estimator.estimate_cost(X, y, weight))

        # What a fit stores is stored in a copy, and no random numbers of the user's are drawn.
        other = copy.copy(self)
        other.random_state = 0
        other._fit(*other._read_trajectories(X, y, sample_weight, params), measure)
        return found[0]

    def _fitting(self, checkpoint_dir: Any, groups: Any) -> Callable[..., None]:
        """Return the function by which the estimator is fitted, with groups of trajectories and checkpoints if any."""
        groups_option(self.estimator, groups)
        if kept := passed_on(checkpoint_dir, self.estimator):
            require_seed(self, or_none=True)
        return partial(_fit_frames, groups=groups, **kept)

    # ------------------------------------------------------------------ prediction
    def _predict_frame(self, state: FieldSet) -> FloatArray:
        """Predict one frame ``(n, P, c)`` or ``(T, c)`` for each sample."""
        X: Any = state.values[:, 0] if self.spec_.has_features else state  # type: ignore[index]
        with checked_by_caller():
            predicted = self.estimator_.predict(X)
        if isinstance(predicted, FieldSet):
            return np.asarray(predicted.values)
        return np.reshape(predicted, (len(state), 1, -1))

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Predict all frames on the points of the inputs, which are the next ones too, and interpolate to others."""
        return FieldRegressor._predict_at(self, inputs, coords)

    def _state(self, inputs: FieldSet) -> FieldSet:
        """Return the inputs of a prediction as fields; the columns of tables become channels of a single point."""
        return _one_point(inputs.params) if self.spec_.has_features else inputs

    def _as_predictions(self, frames: list[FloatArray]) -> Predictions:
        """Join frames along the channel axis, as a field or as scalars."""
        values = np.concatenate(frames, axis=-1)
        return Predictions(values) if self.spec_.n_outputs else Predictions(None, values[:, 0])

    def _with_frames(self, n_frames: int, names_of: Callable[[list[str]], list[str]]) -> Self:
        """Return a copy that predicts another number of frames.

        The function gives the names of a mesh field in these frames, by its names in the frames of the fit.
        """
        other, spec = copy.copy(self), self.spec_
        size: dict[str, Any] = {"n_outputs" if spec.n_outputs else "n_scalars": self._n_components * n_frames}
        components = self._name_frames(n_frames, names_of)
        channels = (
            None
            if components is None
            else tuple(name if count == 1 else f"{name}_{k}" for name, count in components for k in range(count))
        )
        form = replace(spec.target_form.of_frames(), components=components, channel_names=channels)
        other.spec_ = replace(spec, target_form=form, **size)
        other.n_frames_ = n_frames
        return other

    def _name_frames(
        self, n_frames: int, names_of: Callable[[list[str]], list[str]]
    ) -> tuple[tuple[str, int], ...] | None:
        """Return the mesh fields of other frames, with their numbers of channels; None if they cannot be named."""
        fitted = self.spec_.target_form.components
        if fitted is None:
            return None
        if len(fitted) == 1 < self.n_frames_:
            # Frames are the components of a single field.
            return ((fitted[0][0], self._n_components * n_frames),)
        n_fields = len(fitted) // self.n_frames_
        sizes = [count for _, count in fitted]
        if len(fitted) % self.n_frames_ or sizes != sizes[:n_fields] * self.n_frames_:
            return None
        columns = [names_of([name for name, _ in fitted[k::n_fields]]) for k in range(n_fields)]
        frames = [zip(row, sizes[:n_fields], strict=True) for row in zip(*columns, strict=True)]
        named = tuple(field for frame in frames for field in frame)
        return named if len(dict(named)) == len(named) else None

    @property
    def _n_components(self) -> int:
        """Number of channels of a frame."""
        return (self.spec_.n_outputs + self.spec_.n_scalars) // self.n_frames_

    def _errors_by_frame(self, X: Any, y: Any, sample_weight: Any, params: Any) -> FloatArray:
        """Mean relative L2 error of each frame, ``(S,)``; for frames of zeros relative to the mean over all frames."""
        ((kind, true, found),) = self._scored_parts(X, y, params, sample_weight)
        sample_weight = check_weight(sample_weight, len(true))
        units = self._score_units(kind, true, sample_weight)
        units = None if units is None else units[: self._n_components]
        options: dict[str, Any] = {"sample_weight": sample_weight, "kind": kind, "units": units}
        frames = [_split_frames(samples, self.n_frames_) for samples in (true, found)]
        options["set_norm"] = _norm_of_frames(frames[0], sample_weight, units, scalar=kind == "scalar")
        return np.array([relative_l2_error(*pair, **options) for pair in zip(*frames, strict=True)])


def _fit_frames(
    estimator: Any, X: Any, y: Any, sample_weight: FloatArray | None, plan: TrainingPlan, groups: Any, **kept: Any
) -> None:
    """Fit an estimator by a plan, with labels of groups of trajectories and checkpoints if there are any."""
    frames = None if groups is None else np.repeat(groups, plan.n_steps or 1)
    options = weight_option(estimator, sample_weight) | groups_option(estimator, frames)
    fit_estimator(estimator, X, y, plan, **options, **kept)


def _one_point(table: Any) -> FieldSet:
    """Convert the rows of a table to samples with a single point, whose channels are the columns."""
    return FieldSet(np.zeros((1, 1)), np.asarray(table)[:, np.newaxis])


def _split_frames(samples: Any, n_frames: int) -> list[list[FloatArray]]:
    """Split samples into frames; each frame is a list with one array per sample."""
    return [
        list(frame) for frame in zip(*(np.split(np.asarray(item), n_frames, axis=-1) for item in samples), strict=True)
    ]


def _norm_of_frames(
    frames: list[list[FloatArray]], sample_weight: Any, units: FloatArray | None, *, scalar: bool
) -> float:
    """Root mean square, over all frames, of the norm of the truth; for scalars the norm is taken over all samples."""
    scale = 1.0 if units is None else units
    squares = np.array(
        [[np.square(np.asarray(item, dtype=np.float64) / scale).sum() for item in row] for row in frames]
    )
    weight = np.ones(squares.shape[1]) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    return float(np.sqrt((squares @ weight / (1.0 if scalar else weight.sum())).mean()))


def repeat_samples(fields: FieldSet, count: int) -> FieldSet:
    """Repeat each sample, with its copies directly after the other."""
    return fields[np.repeat(np.arange(len(fields)), count)]


def _with_names(fields: FieldSet, names: Sequence[str]) -> FieldSet:
    """Fields with names of their channels, unless they have some, or another number of channels."""
    if fields.channel_names is not None or fields.values is None or fields.n_channels != len(names):
        return fields
    return fields.with_values(fields.values, names).with_params(fields.params)


def join_frames(points: FieldSet, frames: list[FloatArray]) -> FieldSet:
    """Build fields from the points of given samples and new values of each one, (P_i, c)."""
    return points.with_values(np.concatenate(frames) if points.is_ragged else np.stack(frames))


# ---------------------------------------------------------------------- what a file must hold
@checks("BaseFrameRegressor")
def _check_frames(held: Held) -> None:
    """Check a fitted estimator of frames from a file."""
    if "spec_" not in vars(held.value):
        return
    spec, estimator = held.get("spec_"), held.get("estimator_")
    n_frames = held.whole("n_frames_", 1)
    held.need((spec.n_outputs + spec.n_scalars) % n_frames == 0, "n_frames_", "a number of frames that y can have")
    held.need(hasattr(estimator, "predict"), "estimator_", "a fitted estimator")
    times = getattr(held.value, "times_", None)
    if hasattr(held.value, "times_"):
        held.array("times_", n_frames)
    inner = getattr(estimator, "spec_", None)
    held.need(inner is not None or not is_one_of(estimator, "FieldRegressor"), "estimator_", "a fitted estimator")
    if inner is not None:
        count = (spec.n_outputs + spec.n_scalars) // n_frames
        held.need(inner.n_outputs + inner.n_scalars == count, "estimator_", f"an estimator of {count} channels")
        held.need(inner.n_dims == spec.n_dims, "estimator_", f"an estimator in {spec.n_dims} dimensions")
        given = inner.n_fields + inner.n_params
        wanted = spec.n_fields + spec.n_params + (times is not None)
        held.need(given == wanted, "estimator_", f"an estimator of {wanted} inputs")
