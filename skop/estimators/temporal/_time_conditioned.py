"""TimeConditionedRegressor: predict all times of a trajectory from the same inputs, with time as a parameter."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from skop._sklearn_compat import HasMethods, Interval, StrOptions, fit_context
from skop._typing import FloatArray
from skop.data import (
    FieldSet,
    MeshRun,
    Predictions,
    TrainingData,
    find_runs,
    form_of,
    order_of_series,
    read_frames,
    refuse_mask,
)
from skop.data.forms.series import numbers_of_times
from skop.estimators._field import restored_on_failure
from skop.estimators._parts import by_chunks
from skop.estimators._weights import labels_of_groups
from skop.estimators.classical._output_models import NotPositiveError
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.temporal._frames import BaseFrameRegressor, join_frames, repeat_samples
from skop.exceptions import FieldDataError, NonFinitePredictionError, SkopWarning, warn
from skop.training import DIRECT_TRAINING, TrainingPlan

__all__ = ["TimeConditionedRegressor", "are_same_times"]

#: Two times are one up to this part of the gap to the nearest other time. A gap, unlike a range or the times
#: themselves, has the size of what must be told apart, wherever time starts and however many decades it spans. Times in
#: files, of six digits or in single precision, are rounded by less for up to 200 equal steps from 0.
_EQUAL_TIMES = 1e-3
#: Trajectories of the fit, evenly chosen, on which predictions between the frames are judged.
_JUDGES = 32
#: Most points of theirs, and numbers at these in all frames, which bound the memory of this.
_JUDGED_POINTS, _JUDGED_NUMBERS = 10_000, 2**22
#: Interpolation between frames is predicted where the estimator differs from it by this many times its own error.
_FAR = 3.0


class TimeConditionedRegressor(BaseFrameRegressor):
    """Learn the state at any time from the inputs and the time, without time stepping.

    Time is passed to the estimator as an additional global parameter, after those of X. Every pair of a sample and a
    time is one sample of the estimator. Predictions are not fed back, so errors do not accumulate along the trajectory,
    and other times than those of the training can be predicted.

    Parameters
    ----------
    estimator : estimator
        Regressor on fields that takes global parameters, such as `LaMORegressor`.
    times : int, array-like of shape (n_times,) or None, default=None
        Times of the frames of y, in their order: a number of equidistant times in [0, 1], or the times themselves in
        any unit. None takes the times of time series of meshes, which are the only ones that these can have, and every
        channel of another y as a frame.
    grouping : {"spread", "together", "mixed"}, default="spread"
        Order in which the operator regressors of skop visit the frames. ``"spread"``: for a batch of trajectories the
        optimiser takes as many steps as there are times; each step uses one time of every trajectory, in random order,
        and the learning rate is updated once for each batch of trajectories, as published for plasticity.
        ``"together"``: one step for all times of a batch of trajectories. ``"mixed"``: all pairs of a sample and a time
        in random order; `batch_size` then counts pairs instead of trajectories.
    random_state : int, RandomState instance or None, default=None
        Seed of the estimator, if it has a `random_state`; None keeps the estimator's own.

    Attributes
    ----------
    estimator_ : estimator
        Fitted estimator, which predicts one frame.
    times_ : ndarray of shape (n_times,)
        Times of a prediction.
    interpolated_ : ndarray of bool, shape (n_times - 1,)
        Gaps between two neighbouring frames of the fit, in the order of time, in which predictions are interpolated
        between predicted frames, see the notes.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.
    series_ : dict
        Names of the fields, their treatment and times, where the fit was on time series of meshes.

    See Also
    --------
    RolloutRegressor : Predict step by step by autoregressive rollout.

    Notes
    -----
    Time is part of the channel axis of y: channel ``t * c + k`` is component k of frame t. For tables time is an
    additional column. In searches, the name of a parameter of the estimator is, for example, ``estimator__width``.

    Between the frames of the fit nothing tells the estimator how the state goes on. Each inner frame is therefore left
    out of the true ones, and interpolated from the others by piecewise cubic polynomials without overshoots. This
    error, scaled to the gaps beside the frame as that of a line, is taken for the error of an interpolation there. In
    gaps in which the estimator differs from the interpolation of its frames by more than three times as much, this
    interpolation is predicted. With two frames only, where nothing is known of the error, it is a line.

    References
    ----------
    LaMO (Tiwari et al., ICML 2025) and Geo-FNO (Li et al., JMLR 24, 2023, arXiv:2207.05209) for plasticity.
    F. N. Fritsch, J. Butland, "A method for constructing local monotone piecewise cubic interpolants", SIAM J. Sci.
    Stat. Comput. 5 (1984), for interpolation.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import PODRegressor, TimeConditionedRegressor
    >>> X = np.random.default_rng(0).standard_normal((12, 8, 1))
    >>> y = X * np.exp(-np.linspace(0, 1, 5))
    >>> model = TimeConditionedRegressor(PODRegressor(), times=5).fit(X, y)
    >>> model.predict(X).shape, model.predict(X, times=[0.5, 0.55]).shape
    ((12, 8, 5), (12, 8, 2))
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"])],
        "times": [Interval(Integral, 1, 16384, closed="both"), "array-like", None],
        "grouping": [StrOptions({"spread", "together", "mixed"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self, estimator: Any, *, times: Any = None, grouping: str = "spread", random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.times = times
        self.grouping = grouping
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
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
        """Fit the estimator on all times of the trajectories.

        Parameters
        ----------
        X : as in the `fit` of the estimator
            Inputs. Or time series of meshes, as `skop.data.read_mesh_series` reads them, such as ``"run_*.pvd"`` or
            ``"run_*/t_*.vtu"``: inputs are the `input_fields` of the estimator in the first frame of a run, and targets
            the `target_fields` in all frames, which are at the same times in all runs.
        y : fields or table with ``n_times * c`` channels or columns, time series of meshes, or None
            Frames of each trajectory; None if X is time series of meshes.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the trajectories, passed on to the estimator.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of trajectories, such as the runs of one geometry, which are left out and held out as a
            whole, see `LaMORegressor.fit`. The frames of a trajectory always are.
        params : as in the `fit` of the estimator, default=None
            Global parameters of the trajectories, constant in time.
        checkpoint_dir : path-like or None, default=None
            Folder for checkpoints, passed on to the estimator, see `LaMORegressor.fit`. Seeds must be integers.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used, or the channels of y are not whole frames; a ValueError.
        """
        with restored_on_failure(self):
            data, weight = self._read_trajectories(X, y, sample_weight, params, groups)
            self._fit(data, weight, self._fitting(checkpoint_dir, labels_of_groups(groups, len(data.inputs))))
            self.interpolated_ = self._find_poor_gaps(data, weight)
        return self

    def _frame_size(self, data: TrainingData) -> int:
        """Number of channels of a frame of y."""
        return data.spec.n_outputs // len(self._frame_times(data.spec.n_outputs))

    def _fit(self, data: TrainingData, weight: FloatArray | None, fit: Callable[..., Any]) -> None:
        """Fit the estimator on pairs of a sample and a time."""
        outputs, places = self._target_frames(data)
        times = self._frame_times(outputs.n_channels)
        if len(np.unique(times)) < len(times):
            raise FieldDataError(f"times must be different for each frame, got {times.tolist()}.")
        inputs = _with_times(data.inputs, times, table=data.spec.has_features)
        frames = [frame for fields in outputs.to_list() for frame in np.split(fields, len(times), axis=-1)]
        targets = join_frames(repeat_samples(places, len(times)), frames)
        plan = DIRECT_TRAINING
        if self.grouping != "mixed":
            plan = TrainingPlan(group_size=len(times), grouping=self.grouping)  # type: ignore[arg-type]
        self._fit_estimator(self._next_estimator(), inputs, targets, data, weight, plan, fit)
        self.times_, self.n_frames_ = times, len(times)
        assert self.ranges_ is not None
        # Those of earlier fits, where this one goes on from them, count too.
        earlier = self.ranges_.times
        all_times = times if earlier is None else np.append(times, earlier)
        self.ranges_ = replace(self.ranges_, times=np.array([[all_times.min()], [all_times.max()]]))

    def _find_poor_gaps(self, data: TrainingData, weight: FloatArray | None) -> NDArray[np.bool_]:
        """Tell between which frames the estimator is further from their interpolation than this is from the truth."""
        order = np.argsort(self.times_)
        times = self.times_[order]
        if len(times) < 2:
            return np.zeros(0, dtype=bool)
        used = np.arange(len(data.inputs)) if weight is None else np.flatnonzero(weight)
        used = used[np.unique(np.linspace(0, len(used) - 1, _JUDGES).astype(int))]
        outputs, places = (fields[used] for fields in self._target_frames(data))
        parts = [np.split(np.asarray(fields), len(times), axis=-1) for fields in outputs.to_list()]
        # Points in any order, since every so many of them may be a line of a grid.
        count = min(_JUDGED_POINTS, max(_JUDGED_NUMBERS // (len(times) * parts[0][0].shape[-1]), 100))
        rows = np.random.default_rng(0).permutation(sum(len(part[0]) for part in parts))[:count]
        true = np.stack([np.concatenate([part[k] for part in parts])[rows] for k in order])
        state, coords = data.inputs[used], places if data.targets.elsewhere else None
        middles = (times[1:] + times[:-1]) / 2
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SkopWarning)
                asked = (self._frame_at(state, time, coords)[0] for time in [*times, *middles])
                found = np.stack([frame.reshape(-1, true.shape[2])[rows] for frame in asked])
        except NonFinitePredictionError:
            return np.zeros(len(middles), dtype=bool)
        frames, between = np.split(found, [len(times)])
        differences = between - PchipInterpolator(times, frames)(middles)
        unit = true.std(axis=(0, 1))
        unit[unit == 0] = np.inf
        return _size(differences / unit) > _FAR * _in_gaps(times, _size(_errors_left_out(times, true) / unit))

    # ------------------------------------------------------------------ time series of meshes
    def _open_training_series(self, X: Any, y: Any) -> tuple[Any, FieldSet]:
        """Read the inputs in the first frames of all runs as X, and the targets in all frames as y."""
        options = self._series_options()
        own = y is None or y is X
        runs = find_runs(X if own else y)
        cell_data = options["cell_data"]
        order = None if own else order_of_series(X, y, runs)
        targets, samples = read_frames(runs, options["target_fields"], cell_data=cell_data)
        targets = targets if order is None else targets[order]
        self.series_ = options | {
            "axes": samples.axes,
            "components": tuple(samples.components.items()),
            "times": self._series_times(runs),
        }
        if own:
            return self._reread_inputs(runs), targets
        if not form_of(X).on_meshes:
            mesh = samples.meshes[0]
            cells = tuple((block.type, block.data) for block in mesh.cells)
            self.series_["mesh"] = copy.deepcopy({"points": mesh.points, "cells": cells})
            return X, targets
        runs = find_runs(X)
        if len(runs[0].times) > 1:
            self.series_["input_times"] = runs[0].times
        return self._series_inputs(runs), targets

    def _reread_inputs(self, runs: list[MeshRun]) -> FieldSet:
        """Read the inputs of runs that have been read before, with a warning for what is wrong with their meshes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkopWarning)
            return self._series_inputs(runs)

    def _read_inputs(self, X: Any, params: Any = None) -> tuple[FieldSet, list[Any] | None]:
        """Read the X of a prediction, with a warning for a run that has no frame at a time of the fit but the first."""
        inputs, runs = super()._read_inputs(X, params)
        if hasattr(self, "series_") and not hasattr(self, "_knots"):
            times = np.sort(self.times_)
            for run in runs or ():
                places = self._predicted_times(run)[1][1:]
                if len(run.times) > 1 and places and all(place is None for place in places):
                    warn(
                        f"{run.name} has {len(run.times)} frames at times {run.times[0]:g} to {run.times[-1]:g}, but "
                        f"predictions are at {len(times)} times of the fit, {times[0]:g} to {times[-1]:g}, and no "
                        "frame of it is at one of these after the first. If the run is in another unit of time, "
                        "convert it; for predictions at its times, pass times."
                    )
                    break
        return inputs, runs

    def _series_inputs(self, runs: list[MeshRun]) -> FieldSet:
        """Read the inputs in the first frames of runs."""
        for run in runs:
            self._check_start(run)
        return self._frames_of_inputs(runs, 1)

    def _frames_of_inputs(self, runs: list[MeshRun], n_frames: int) -> FieldSet:
        """Read the input fields in the first frames of runs, with the frames as channels."""
        held = self.series_
        options = {"n_frames": n_frames, "cell_data": held["cell_data"], "axes": held["axes"]}
        return read_frames(runs, held["input_fields"], **options)[0]

    def _check_start(self, run: MeshRun) -> None:
        """Raise an error for a run whose inputs change in time, and are those of another time than in the fit."""
        # Inputs in series beside those of the targets can have other times.
        times, names = self.series_.get("input_times", self.series_["times"]), self.series_["input_fields"]
        # The number in the name of a single file need not be a time.
        if len(run.times) == 1 or not names or _places_of(run.times[:1], times, times) == [0]:
            return
        with warnings.catch_warnings(), suppress(FieldDataError):
            warnings.simplefilter("ignore", SkopWarning)
            frames = self._frames_of_inputs([run], len(run.times)).to_list()[0]
            first, *others = np.split(np.asarray(frames), len(run.times), axis=-1)
            if all(np.array_equal(first, other, equal_nan=True) for other in others):
                return
        raise FieldDataError(
            f"{run.name} starts at time {float(run.times[0])}, the runs of the fit at {float(times[0])}. Inputs "
            f"({', '.join(names)}) are taken from the first frame, and are not the same in all frames, so that they "
            "would be those of another time. Pass the run from its start on, at the times of the fit, or the mesh of "
            "its start alone."
        )

    def _open_scored_series(self, X: Any, y: Any) -> tuple[Any, FieldSet]:
        """Read the inputs in the first frames of runs, and the targets in all frames."""
        held, runs = self.series_, find_runs(X if y is None else y)
        options = {"cell_data": held["cell_data"], "axes": held["axes"]}
        order = None if y is None else order_of_series(X, y, runs)
        targets, _ = read_frames(runs, held["target_fields"], n_frames=self.n_frames_, **options)
        targets = targets if order is None else targets[order]
        self._check_times_of(runs)
        if y is not None and not form_of(X).on_meshes:
            return X, targets
        return self._reread_inputs(runs) if y is None else self._series_inputs(find_runs(X)), targets

    def _series_times(self, runs: list[MeshRun]) -> FloatArray:
        """Return the times of the frames of runs, which must be those of `times` where this is set."""
        found, stated = _common_times(runs), self._stated_times()
        if stated is not None and not are_same_times(found, stated):
            given, known = (np.array2string(part, threshold=8) for part in (stated, found))
            raise FieldDataError(
                f"times is {self.times!r}, which puts the frames at {given}, but {runs[0].name} has {len(found)} "
                f"frames at times {known}; leave times out, so that those of the runs are taken."
            )
        return found

    def _check_times_of(self, runs: list[MeshRun]) -> None:
        """Raise an error for runs whose frames are not at the times of a prediction, those of the fit or given ones."""
        where = "the fit" if are_same_times(self.times_, self.series_["times"]) else "times"
        for run in runs:
            _check_equal_times(run, self.times_, where)

    def _predicted_times(self, run: MeshRun) -> tuple[FloatArray, list[int | None]]:
        """Return the times of the prediction, and the numbers of the frames of the run at these times."""
        fitted, times = self.series_["times"], np.sort(self.times_)
        if len(run.times) > 1:
            return times, _places_of(times, run.times, fitted)
        # A single frame counts as the first of a run: the number in the name of its file need not be a time.
        has_truth = _places_of(run.times, fitted, fitted) == [0]
        places = _places_of(times, fitted, fitted)
        return times, [0 if has_truth and place == 0 else None for place in places]

    def _call_for_frames(self, n_frames: int) -> str:
        """Call that gives the errors of another number of frames."""
        return f"error_by_time(X, y, times=...) with the {n_frames} times of y"

    # ------------------------------------------------------------------ times
    def _stated_times(self) -> FloatArray | None:
        """Return the times that the parameter `times` says, if it does."""
        if self.times is None:
            return None
        return np.linspace(0.0, 1.0, int(self.times)) if isinstance(self.times, Integral) else _check_times(self.times)

    def _frame_times(self, n_channels: int) -> FloatArray:
        """Return the times of the frames of y."""
        times = self._stated_times()
        if times is None:
            times = self.series_["times"] if hasattr(self, "series_") else np.linspace(0.0, 1.0, n_channels)
        if n_channels % len(times):
            raise FieldDataError(
                f"y has {n_channels} channels, which cannot be divided into {len(times)} frames; set times to the "
                "number of frames in y, or to their times."
            )
        return times

    @staticmethod
    def _upgrade(held: dict[str, Any]) -> None:
        """Files of earlier versions predict by the estimator between all frames."""
        if "times_" in held:
            held.setdefault("interpolated_", np.zeros(len(held["times_"]) - 1, dtype=bool))

    @by_chunks
    def predict(self, X: Any, coords: Any = None, *, params: Any = None, times: Any = None) -> Any:
        """Predict the frames at all times.

        Parameters
        ----------
        X : as in `fit`
            Inputs.
        coords : as in the `predict` of the estimator, or None, default=None
            Points at which the frames are predicted; None gives the points of X.
        params : as in `fit`
            Global parameters of the trajectories.
        times : array-like of shape (n_times,) or None, default=None
            Times of the frames, in the unit of the fit; None gives the times of the fit. A `skop.data.MeshSeries` has
            its frames in the order of time, whatever the order here.

        Returns
        -------
        ndarray, list, FieldSet, (coords, fields), list of meshes, or list of MeshSeries
            Predictions in the form of the y of the fit, with ``n_times * c`` channels. For time series of meshes one
            `skop.data.MeshSeries` for each run; a mesh of a list counts as the first frame of a run. Files in a folder
            whose names differ in the last number only are the frames of one run, of which the first is used. A run of
            several frames has to start at the time of the fit, unless its inputs are the same in all frames. On other
            meshes a frame at a time of the fit has its names of then. Other frames are called by their time:
            ``"u_0.25"`` where those of the fit are ``"u_0"`` and ``"u_0.5"`` at these times, otherwise
            ``"u_t_0.25"``, by what names such as ``"u_1"`` have in common or by the first of them. If all frames were
            in one field, it has as many components as there are times. If the fields of the fit are no whole frames,
            or a time is given twice, predictions at other times are a FieldSet.

        Raises
        ------
        FieldDataError
            If X has another form than in the fit, or its runs start at another time.
        """
        return super(TimeConditionedRegressor, self._at(times)).predict(X, coords, params=params)

    def check(self, X: Any, *, params: Any = None, times: Any = None) -> Any:
        """List what in X and in the times is outside of what the fit has seen.

        Parameters
        ----------
        X : as in `predict`
            Inputs of a prediction.
        params : as in `predict`
            Global parameters of the trajectories.
        times : array-like of shape (n_times,) or None, default=None
            Times of the frames, in the unit of the fit; None gives the times of the fit.

        Returns
        -------
        pandas.DataFrame
            One row for each number that is outside, as described for `LaMORegressor.check`; that of a time is called
            ``"time"``.
        """
        return super(TimeConditionedRegressor, self._at(times)).check(X, params=params)

    def _at(self, times: Any) -> Self:
        """Return a copy that predicts at given times; this estimator itself for None, or if it is not fitted."""
        if times is None or not hasattr(self, "times_"):
            return self
        wanted = _check_times(times)
        other = self._with_frames(len(wanted), partial(_names_at, fitted=self.times_, times=wanted))
        other.times_, other._knots = wanted, np.sort(self.times_)
        return other

    def _part_of_frames(self, n_steps: Any, times: Any) -> tuple[Self, list[int]]:
        """Return a copy that predicts at some of the times of the fit, and their numbers."""
        if n_steps is not None:
            raise FieldDataError("n_steps was given, but the estimator predicts at times; pass times.")
        other = self._at(times)
        places = _places_of(other.times_, self.times_, self.times_)
        found = [place for place in places if place is not None]
        if len(found) < len(places):
            given, known = (np.array2string(part, threshold=8) for part in (other.times_, self.times_))
            raise FieldDataError(
                f"times are {given}, but those of the calibration {known}: nothing is known of the errors at others. "
                "Choose among these, or calibrate on frames at more times."
            )
        return other, found

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Predict one frame after the other."""
        return self._as_predictions([frame for frame, _ in self._frames(self._state(inputs))])

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Predict at other points: by the estimator if it was trained at such, otherwise by interpolation."""
        if self.spec_.target_points == "inputs":
            return super()._predict_at(inputs, coords)
        found = [*self._frames(inputs, coords)]
        return self._as_predictions([frame for frame, _ in found]), found[0][1]

    def _frames(self, state: FieldSet, coords: Any = None) -> Iterator[tuple[FloatArray, FieldSet]]:
        """Predict the frames at all times, and the points on which they are; in some gaps by interpolation."""
        knots, gaps = getattr(self, "_knots", self.times_), self.interpolated_
        held: dict[float, tuple[FloatArray, FieldSet]] = {}
        for time in self.times_:
            gap = int(np.searchsorted(knots, time)) - 1
            if time in knots or not 0 <= gap < len(gaps) or not gaps[gap]:
                yield self._frame_at(state, time, coords)
                continue
            # Slopes at both ends of the gap are those by a further frame on each side.
            near = knots[max(gap - 1, 0) : gap + 3]
            held = {t: held[t] if t in held else self._frame_at(state, t, coords) for t in near.tolist()}
            frames, places = zip(*held.values(), strict=True)
            yield PchipInterpolator(near, np.stack(frames))(time).astype(frames[0].dtype), places[0]

    def _frame_at(self, state: FieldSet, time: float, coords: Any = None) -> tuple[FloatArray, FieldSet]:
        """Predict one frame on the points of the inputs, or on others that the estimator knows, and these points."""
        timed = _with_times(state, [time], table=self.spec_.has_features)
        try:
            if coords is None:
                return self._predict_frame(timed), state
            predictions, places = self.estimator_._predict_at(timed, coords)
        except NotPositiveError as error:
            if not error.is_last or time > 0:
                raise
            known = getattr(self, "_knots", self.times_)
            raise FieldDataError(
                f"the time {time:.3g} is not positive, but those of the fit, {known.min():.3g} to {known.max():.3g}, "
                "were, and PODRegressor within reads their logarithm; pass positive times, or fit "
                "TimeConditionedRegressor(PODRegressor(param_transform=None))."
            ) from error
        return np.asarray(predictions.fields), places

    def error_by_time(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None, times: Any = None
    ) -> FloatArray:
        """Return the error of each frame.

        Parameters
        ----------
        X, y : as in `fit`
            Test inputs and true frames.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the trajectories.
        params : as in `fit`
            Global parameters of the trajectories.
        times : array-like of shape (n_times,) or None, default=None
            Times of the frames of y, in the unit of the fit and in the order of y, which may be other ones than those
            of the fit; None are the times of the fit. Frames of time series of meshes have to be at these times.

        Returns
        -------
        ndarray of shape (n_times,)
            Mean over the samples of the relative L2 error of each frame.

        Raises
        ------
        FieldDataError
            If y has another number of frames than there are times, or runs have frames at others.
        """
        return self._at(times)._errors_by_frame(X, y, sample_weight, params)


def _size(errors: FloatArray) -> FloatArray:
    """Root mean square of each of several frames of errors."""
    return np.sqrt(np.square(errors).mean(axis=(1, 2)))


def _errors_left_out(times: FloatArray, frames: FloatArray) -> FloatArray:
    """Errors of all inner frames, where each is interpolated from the others."""
    found = []
    for k in range(1, len(times) - 1):
        # Slopes at both ends of the gap are those by a further frame on each side.
        near = [j for j in range(max(k - 2, 0), min(k + 3, len(times))) if j != k]
        found.append(PchipInterpolator(times[near], frames[near])(times[k]) - frames[k])
    return np.reshape(found, (-1, *frames.shape[1:]))


def _in_gaps(times: FloatArray, errors: FloatArray) -> FloatArray:
    """Sizes of errors in the middles of gaps, by those of inner frames that were left out: the smaller of both ends."""
    gaps = np.diff(times)
    if not len(errors):
        return np.zeros(len(gaps))
    # The error of a line is a parabola, whose size is that of the curvature.
    curvatures = errors / (gaps[:-1] * gaps[1:])
    return np.fmin(np.append(np.inf, curvatures), np.append(curvatures, np.inf)) * gaps**2 / 4


def _common_times(runs: list[MeshRun]) -> FloatArray:
    """Return the times of the frames, which must be the same in all runs."""
    for run in runs[1:]:
        _check_equal_times(run, runs[0].times, runs[0].name)
    return runs[0].times


def _check_equal_times(run: MeshRun, times: FloatArray, where: str) -> None:
    """Raise an error if the frames of a run are at other times."""
    if not are_same_times(run.times, times):
        other = ""
        if len(run.times) == len(times):
            k = int(_differ(run.times, times).argmax())
            other = f" (frame {k}, counted from 0: {float(run.times[k])} and {float(times[k])})"
        raise FieldDataError(
            f"{run.name} has {len(run.times)} frames at times {run.times[0]:g} to {run.times[-1]:g}, {where} has "
            f"{len(times)} at {times[0]:g} to {times[-1]:g}{other}; expected the same times. Cut or interpolate the "
            "runs."
        )


def are_same_times(found: FloatArray, times: FloatArray) -> bool:
    """Tell whether times are others up to a small part of their distances."""
    return len(found) == len(times) and not _differ(found, times).any()


def _differ(found: FloatArray, times: FloatArray) -> NDArray[np.bool_]:
    """Tell which of as many times differ by more than rounding."""
    return np.abs(found - times) > np.minimum(_slacks(found), _slacks(times))


def _slacks(times: FloatArray) -> FloatArray:
    """Return the difference up to which another time is the same, for each time; for a single one by its own size."""
    ordered, places = np.unique(times, return_inverse=True)
    gaps = np.diff(ordered)
    nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps)) if len(gaps) else np.abs(ordered)
    return _EQUAL_TIMES * nearest[places]


def _check_times(times: Any) -> FloatArray:
    """Check that times are a vector of finite numbers."""
    refuse_mask(times, "times")
    try:
        array = numbers_of_times(times)
    except FieldDataError:
        raise
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise FieldDataError(f"times must be a list of finite numbers, got {times!r}.")
    return array


def _names_at(names: list[str], fitted: FloatArray, times: FloatArray) -> list[str]:
    """Return the names of a field at some times, by its names at the times of the fit."""
    found = [part for part in (re.fullmatch(r"(.*?)(\d+(?:\.\d+)?)", name) for name in names) if part]
    stem = f"{names[0]}_t_"
    if len(found) == len(names) and len({part[1] for part in found}) == 1 and found[0][1]:
        by_time = are_same_times(np.array([float(part[2]) for part in found]), fitted)
        stem = found[0][1] if by_time else f"{found[0][1].rstrip('_-. ')}_t_"
    held = _places_of(times, fitted, fitted)
    return [f"{stem}{time:.10g}" if k is None else names[k] for time, k in zip(times, held, strict=True)]


def _places_of(times: FloatArray, known: FloatArray, fitted: FloatArray) -> list[int | None]:
    """Return where times are among known ones, none of which stands for two times of the fit; None for others."""
    nearest, nearest_fitted = (np.abs(times[:, np.newaxis] - part).argmin(axis=1) for part in (known, fitted))
    slack = np.minimum(_slacks(known)[nearest], _slacks(fitted)[nearest_fitted])
    is_same = np.abs(times - known[nearest]) <= slack
    return [int(place) if same else None for place, same in zip(nearest, is_same, strict=True)]


def _with_times(inputs: FieldSet, times: Any, *, table: bool) -> FieldSet:
    """Repeat each sample for all times, with time as the last global parameter, or the last column of a table."""
    repeated, column = repeat_samples(inputs, len(times)), np.tile(times, len(inputs))[:, np.newaxis]
    if table:
        return repeated.with_values(np.concatenate([np.asarray(repeated.values), column[:, np.newaxis]], axis=-1))
    params = repeated.params
    return repeated.with_params(column if params is None else np.concatenate([params, column], axis=1))


# ---------------------------------------------------------------------- what a file must hold
@checks("TimeConditionedRegressor")
def _check_gaps(held: Held) -> None:
    """Check the gaps between the times from a file."""
    if "spec_" in vars(held.value):
        gaps, count = held.get("interpolated_"), held.get("n_frames_") - 1
        is_mask = isinstance(gaps, np.ndarray) and gaps.dtype == bool and gaps.shape == (count,)
        held.need(is_mask, "interpolated_", f"an array of {count} truth values")
