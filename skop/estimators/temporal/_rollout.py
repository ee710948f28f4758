"""RolloutRegressor: learn one time step, and predict many steps by autoregressive rollout."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from skop._sklearn_compat import HasMethods, Interval, final_regressor, fit_context
from skop._typing import FloatArray
from skop.data import FieldSet, MeshRun, Predictions, TrainingData, find_runs, form_of, read_frames
from skop.estimators._field import restored_on_failure
from skop.estimators._parts import by_chunks
from skop.estimators._weights import labels_of_groups
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.operators._operator import OperatorRegressor
from skop.estimators.temporal._frames import BaseFrameRegressor, join_frames
from skop.estimators.temporal._unrolling import StepForward
from skop.exceptions import FieldDataError, NonFinitePredictionError, held_warnings, warn
from skop.metrics import channel_sizes, relative_l2_error
from skop.surrogate._domain import SeenRanges
from skop.surrogate._profile import ROUNDING
from skop.surrogate._symmetries import require_all_frames
from skop.training import TrainingPlan

__all__ = ["RolloutRegressor"]

#: Relative difference of time steps that counts as rounding of the times in files.
_EQUAL_STEPS = 1e-2
#: Frames of the fit, evenly chosen among all, on which a step is compared with the last frame.
_JUDGED = 32


class RolloutRegressor(BaseFrameRegressor):
    """Learn the next frame from the last frames, and predict trajectories by autoregressive rollout.

    The estimator learns the map from a window of frames to the next frame, at every position in the training
    trajectories (teacher forcing). In a prediction, each predicted frame is appended to the window, and the oldest
    frame is dropped.

    Parameters
    ----------
    estimator : estimator
        Regressor on fields that learns one step, such as `LaMORegressor`. With the operator regressors of skop, all
        steps of a trajectory are in one mini-batch, and `batch_size` counts trajectories.
    window : int, default=10
        Number of frames that a step uses: X has `window` frames of c channels each (papers: 10).
    n_steps : int or None, default=None
        Number of frames of y; None computes it from the channels of X and y. With 1 the predictions are not fed back,
        and y can be anything that the estimator learns.
    unroll : int, default=1
        Number of steps that are unrolled in training. 1 is teacher forcing, as published. With more, every `unroll`-th
        step starts from true frames, the steps between use the network's own predictions, and gradients flow through
        them. This is slower, but more stable over long rollouts. Only for the operator regressors of skop, without
        `symmetries` and `training__subsample_points`.
    noise : float, default=0.0
        Standard deviation of Gaussian noise that is added to the windows in training, in units of the standard
        deviation of each channel, so that the model learns to correct small errors. No noise is added in predictions.
    increments : bool, default=True
        Whether the networks of skop learn the change since the last frame, to which it is added, in channels where this
        is up to a quarter of the spread of the frames, and `PODRegressor` where this lowers its leave-one-out error
        (papers: False, the next frame). They learn the next frame too where `n_steps` is 1, with logarithms of the
        targets, with scaling for each point, within a `LawRegressor`, after other steps of a Pipeline, and in searches
        of scikit-learn; estimators of others always do, also as the regressor of a `PODRegressor`.
    random_state : int, RandomState instance or None, default=None
        Seed of the noise, and of the estimator if it has a `random_state`; None keeps the estimator's own.

    Attributes
    ----------
    estimator_ : estimator
        Fitted estimator of one step, which predicts c channels from ``window * c``.
    n_steps_ : int
        Number of frames of a prediction.
    window_ : int
        Number of frames of X.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.
    series_ : dict
        Names of the fields and their treatment, where the fit was on time series of meshes.

    See Also
    --------
    TimeConditionedRegressor : Predict all times from the same inputs, with time as a parameter.
    EnsembleRegressor : Fit several of these estimators and average their predictions.
    skop.datasets.make_navier_stokes : Generate data of this kind.

    Notes
    -----
    Time is part of the channel axis of X and y: channel ``t * c + k`` is component k of frame t. Global parameters of a
    FieldSet X are constant along a trajectory. A table X is a time series, whose columns are the channels of a single
    point. In searches, the name of a parameter of the estimator is, for example, ``estimator__width``. With
    ``increments=False`` and ``loss_reduction="sum"`` the training is that published for the Navier-Stokes benchmark
    [1]_: the errors of all steps are added, and the optimiser takes one step for each batch of trajectories.

    References
    ----------
    .. [1] Li, Kovachki, Azizzadenesheli, Liu, Bhattacharya, Stuart, Anandkumar, "Fourier Neural Operator
       for Parametric Partial Differential Equations", ICLR 2021, arXiv:2010.08895.
    .. [2] A. Sanchez-Gonzalez et al., "Learning to Simulate Complex Physics with Graph Networks", ICML 2020,
       for noise in training.

    Examples
    --------
    >>> from skop import PODRegressor, RolloutRegressor
    >>> from skop.datasets import make_navier_stokes
    >>> X, y = make_navier_stokes(12, resolution=16, n_input=2, n_output=3, random_state=0)
    >>> model = RolloutRegressor(PODRegressor(), window=2).fit(X[:10], y[:10])
    >>> model.predict(X[10:]).shape, model.predict(X[10:], n_steps=5).shape
    ((2, 16, 16, 3), (2, 16, 16, 5))
    >>> model.error_by_step(X[10:], y[10:]).shape
    (3,)
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"])],
        "window": [Interval(Integral, 1, 16384, closed="both")],
        "n_steps": [Interval(Integral, 1, 1048576, closed="both"), None],
        "unroll": [Interval(Integral, 1, 16384, closed="both")],
        "noise": [Interval(Real, 0, None, closed="left")],
        "increments": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        window: int = 10,
        n_steps: int | None = None,
        unroll: int = 1,
        noise: float = 0.0,
        increments: bool = True,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.window = window
        self.n_steps = n_steps
        self.unroll = unroll
        self.noise = noise
        self.increments = increments
        self.random_state = random_state

    _takes_other_points = False

    @property
    def n_steps_(self) -> int:
        """Number of frames of a prediction."""
        return self.n_frames_

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
        """Fit the estimator on all steps of the trajectories.

        Parameters
        ----------
        X : fields as in the `fit` of the estimator, with ``window * c`` channels, or a table with as many columns
            First frames of each trajectory. Or time series of meshes, as `skop.data.read_mesh_series` reads them, such
            as ``"run_*.pvd"`` or ``"run_*/t_*.vtu"``, with all frames: the first `window` of a run are its inputs, and
            the others the targets. The fields are those in `target_fields` of the estimator.
        y : fields or table with ``n_steps * c`` channels or columns, or None
            Frames that follow; None for time series of meshes.
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
            If X or y cannot be used, or their channels are not whole frames; a ValueError.

        Warns
        -----
        SkopWarning
            If one step from frames of the fit, or a rollout of its trajectories, has a larger error than the last
            frame again, also in a single channel.
        """
        with restored_on_failure(self):
            data, weight = self._read_trajectories(X, y, sample_weight, params, groups)
            self._fit(data, weight, self._fitting(checkpoint_dir, labels_of_groups(groups, len(data.inputs))))
            _warn_if_worse_than_last(self, data, weight)
        return self

    def _frame_size(self, data: TrainingData) -> int:
        """Number of channels of a frame of y; the fit refuses channels that are no whole frames."""
        return data.spec.n_outputs if self.n_steps == 1 else max(data.inputs.n_channels // self.window, 1)

    def _fit(self, data: TrainingData, weight: FloatArray | None, fit: Callable[..., Any]) -> None:
        """Fit the estimator on windows and the frames that follow them."""
        frames, places = self._target_frames(data)
        n_steps, n_channels = self._count_steps(data.inputs.n_channels, frames.n_channels)
        estimator = self._next_estimator()
        if self.unroll > 1:
            _check_unrolling(estimator, has_fields=data.spec.has_fields)
        symmetries = getattr(estimator, "_symmetries", None)
        if symmetries is not None and self.window * n_channels == data.inputs.n_channels:
            require_all_frames(symmetries, self.window, n_channels)
        inputs, targets = _one_steps(data.inputs, frames, places, n_steps, n_channels)
        scalars = not data.spec.n_outputs and not data.spec.has_features
        self.feeds_back_ = self.window * n_channels == data.inputs.n_channels and not scalars
        plan, inputs = self._plan(estimator, inputs, n_steps, weight)
        if self.increments and self.feeds_back_ and self.n_steps != 1 and not data.targets.elsewhere:
            plan = replace(plan, last_frame=data.inputs.n_channels - n_channels)
        self._fit_estimator(estimator, inputs, targets, data, weight, plan, fit)
        self.n_frames_, self.window_ = n_steps, self.window

    def _read(self, X: Any, y: Any, *, params: Any = None, **options: Any) -> TrainingData:
        """X and y of a fit; columns of a table are states, and constants among them would become states too."""
        if params is not None and self.n_steps != 1 and form_of(X).is_table:
            raise FieldDataError(
                "X is a table, whose columns are states of a rollout, and params is given too; pass states as fields "
                "on one point: X=FieldSet(np.zeros((1, 1)), np.asarray(X)[:, None]), y in the same way, and params."
            )
        return super()._read(X, y, params=params, **options)

    # ------------------------------------------------------------------ time series of meshes
    def _takes_series(self, X: Any, y: Any) -> bool:
        """Whether X is time series of meshes: files of which no fields are named as inputs hold one frame each."""
        options = self._mesh_options
        has_no_inputs = options.get("input_fields") in (None, (), [], options.get("target_fields"))
        is_frames = self.n_steps != 1 and has_no_inputs and (y is None or y is X)
        return super()._takes_series(X, y) or (is_frames and form_of(X).on_meshes)

    def _open_training_series(self, X: Any, y: Any) -> tuple[Any, FieldSet]:
        """Read the first frames of all runs as X, and those that follow as y."""
        options = self._series_options()
        self._refuse_other_series(y, X, options)
        runs = find_runs(X)
        n_frames = None if self.n_steps is None else self.window + self.n_steps
        frames, samples = read_frames(runs, options["target_fields"], n_frames=n_frames, cell_data=options["cell_data"])
        count = sum(samples.components.values())
        if frames.n_channels <= self.window * count:
            raise FieldDataError(
                f"{runs[0].name} has {frames.n_channels // count} frames; expected more than window={self.window}, "
                "since the others are predicted."
            )
        steps = _steps_between([run.times[:n_frames] for run in runs])
        self.series_ = options | {
            "axes": samples.axes,
            "components": tuple(samples.components.items()),
            "step": float(np.median(steps)),
            "steps": (float(steps.min()), float(steps.max())),
        }
        return self._cut(frames, self.window * count)

    def _refuse_other_series(self, y: Any, X: Any, options: dict[str, Any]) -> None:
        """Raise an error for series whose frames are not all in X, or that have inputs beside the frames."""
        if y is not None and y is not X:
            raise FieldDataError("a rollout takes all frames of time series of meshes from X; leave y out.")
        if options["input_fields"] not in ((), options["target_fields"]):
            raise FieldDataError(
                f"input_fields are {list(options['input_fields'])} and target_fields "
                f"{list(options['target_fields'])}; a rollout on time series of meshes uses the same fields for both. "
                "Leave input_fields out."
            )

    def _cut(self, frames: FieldSet, n_channels: int) -> tuple[FieldSet, FieldSet]:
        """Return the first channels of trajectories, and the others."""
        samples = frames.to_list()
        parts = [[values[:, :n_channels] for values in samples], [values[:, n_channels:] for values in samples]]
        first, others = (join_frames(frames, part) for part in parts)
        return first, others

    def _series_inputs(self, runs: list[MeshRun]) -> FieldSet:
        """Read the first frames of runs."""
        held = self.series_
        self._check_times_of(runs)
        options = {"n_frames": self.window_, "cell_data": held["cell_data"], "axes": held["axes"]}
        return read_frames(runs, held["target_fields"], **options)[0]

    def _open_scored_series(self, X: Any, y: Any) -> tuple[Any, FieldSet]:
        """Read the first frames of runs, and those that follow."""
        held, runs = self.series_, find_runs(X)
        self._refuse_other_series(y, X, held)
        self._check_times_of(runs)
        options = {"n_frames": self.window_ + self.n_frames_, "cell_data": held["cell_data"], "axes": held["axes"]}
        frames, samples = read_frames(runs, held["target_fields"], **options)
        return self._cut(frames, self.window_ * sum(samples.components.values()))

    def _check_times_of(self, runs: list[MeshRun]) -> None:
        """Raise an error for runs whose frames are not as far apart in time as those of the fit."""
        # Models of earlier versions hold no range, and predict what they predicted.
        lowest, highest = self.series_.get("steps", (0.0, np.inf))
        for run in runs:
            steps = np.diff(run.times[: self.window_ + self.n_frames_])
            if len(steps) and (_is_longer(steps.max(), highest) or _is_longer(lowest, steps.min())):
                raise FieldDataError(
                    f"{run.name} has frames that are {_in_words(steps.min(), steps.max())} apart in time, the fit has "
                    f"{_in_words(lowest, highest)}; a rollout predicts frames at the step of its fit. Store or "
                    "interpolate the frames of the run at this step, or fit on runs with the other."
                )

    def _predicted_times(self, run: MeshRun) -> tuple[FloatArray, list[int | None]]:
        """Return the times that follow the window, and the numbers of the frames of the run at these times."""
        numbers = range(self.window_, self.window_ + self.n_frames_)
        known = run.times[self.window_ : self.window_ + self.n_frames_]
        step = float(run.times[-1] - run.times[-2]) if len(run.times) > 1 else self.series_["step"]
        further = run.times[-1] + step * np.arange(1, self.n_frames_ - len(known) + 1)
        return np.concatenate([known, further]), [i if i < len(run.times) else None for i in numbers]

    def _call_for_frames(self, n_frames: int) -> str:
        """Call that gives the errors of another number of frames."""
        return f"error_by_step(X, y, n_steps={n_frames})"

    def _facts(self) -> dict[str, Any]:
        """What the errors of the estimator in it are, for the model card."""
        note = "errors of the estimator are those of one step from true frames; those of a rollout grow with its steps"
        return super()._facts() | {"note": note}

    # ------------------------------------------------------------------ steps
    def _count_steps(self, n_inputs: int, n_targets: int) -> tuple[int, int]:
        """Return the number of frames of y, and of channels of a frame."""
        if self.n_steps == 1:
            return 1, n_targets
        frame = n_inputs // self.window
        if frame == 0 or n_inputs % self.window:
            raise FieldDataError(
                f"X has {n_inputs} channels, which cannot be divided into window={self.window} frames; set window to "
                "the number of frames in X."
            )
        if n_targets % frame or self.n_steps not in (None, n_targets // frame):
            wanted = f"n_steps={self.n_steps}" if self.n_steps else "a whole number of"
            raise FieldDataError(
                f"y has {n_targets} channels, which are not {wanted} frames of {frame} channels; a frame of X has "
                f"{frame} (window={self.window})."
            )
        return n_targets // frame, frame

    def _plan(
        self, estimator: Any, inputs: FieldSet, n_steps: int, weight: FloatArray | None
    ) -> tuple[TrainingPlan, FieldSet]:
        """Return the training plan and the windows. Estimators of other packages get windows with noise added once."""
        used = inputs if weight is None else inputs[np.flatnonzero(np.repeat(weight, n_steps))]
        values = np.zeros((1, 1)) if used.values is None else used.values
        deviation = values.reshape(-1, values.shape[-1]).std(axis=0)
        if isinstance(estimator, OperatorRegressor):
            forward = None
            if self.noise or self.unroll > 1:
                forward = StepForward(estimator, n_steps, self.unroll, self.noise, deviation)
            return TrainingPlan(group_size=n_steps, forward=forward, feeds_back=n_steps > 1), inputs
        if self.noise and inputs.values is not None:
            rng = check_random_state(self.random_state)
            values = inputs.values
            disturbed = values + self.noise * deviation * rng.standard_normal(values.shape)
            inputs = inputs.with_values(disturbed.astype(values.dtype)).with_params(inputs.params)
        return TrainingPlan(group_size=n_steps, feeds_back=n_steps > 1), inputs

    @by_chunks
    def predict(self, X: Any, coords: Any = None, *, params: Any = None, n_steps: int | None = None) -> Any:
        """Predict the frames that follow X by autoregressive rollout.

        Parameters
        ----------
        X : as in `fit`
            First frames of trajectories; of time series of meshes the first `window` frames are used.
        coords : as in the `predict` of the estimator, or None, default=None
            Points at which the frames are predicted; None gives the points of X.
        params : as in `fit`
            Global parameters of the trajectories.
        n_steps : int or None, default=None
            Number of frames to predict; None gives the number of frames in the y of the fit. A warning names the first
            further step in which the states leave the range of those of the fit.

        Returns
        -------
        ndarray, list, FieldSet, (coords, fields), list of meshes, or list of MeshSeries
            Predictions in the form of the y of the fit, with ``n_steps * c`` channels. For time series of meshes one
            `skop.data.MeshSeries` for each run, at the times of its frames; times after the last frame go on with its
            last step. On other meshes further frames are further fields: after ``"u_1"`` and ``"u_2"`` comes
            ``"u_3"``, and after names that do not count comes the last one with ``"_step_3"`` and so on. If all frames
            were in one field, it has more components. If the fields of the fit are no whole frames, predictions of
            another number of frames are a FieldSet.

        Raises
        ------
        FieldDataError
            If X has another form or another time step than in the fit, or the predictions become NaN or infinite.
        """
        if n_steps is None or not hasattr(self, "n_frames_"):
            return super().predict(X, coords, params=params)
        return super(RolloutRegressor, self._with_steps(n_steps)).predict(X, coords, params=params)

    def _with_steps(self, n_steps: Any) -> Self:
        """Return a copy that predicts another number of frames."""
        if isinstance(n_steps, bool) or not isinstance(n_steps, Integral) or n_steps < 1:
            raise ValueError(f"n_steps must be an integer of at least 1, got {n_steps!r}.")
        if int(n_steps) > 1 and not self.feeds_back_:
            raise FieldDataError(
                f"n_steps={n_steps} needs predictions that can be used as input, but the y of the fit is not a frame "
                f"of X with window={self.window_}; set n_steps=1."
            )
        return self._with_frames(int(n_steps), partial(_names_of_steps, n_steps=int(n_steps)))

    def _part_of_frames(self, n_steps: Any, times: Any) -> tuple[Self, list[int]]:
        """Return a copy that predicts the first steps, and their numbers."""
        if times is not None:
            raise FieldDataError("times was given, but a rollout goes by steps; pass n_steps.")
        other = self._with_steps(n_steps)
        if other.n_frames_ > self.n_frames_:
            raise FieldDataError(
                f"n_steps={n_steps}, but {self.n_frames_} steps were calibrated: nothing is known of the errors of "
                "later ones. Ask for these at most, or calibrate on trajectories with more steps."
            )
        return other, [*range(other.n_frames_)]

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Predict all frames of a rollout."""
        return self._as_predictions(self._roll_out(self._state(inputs)))

    def _roll_out(self, state: FieldSet) -> list[FloatArray]:
        """Predict all frames that follow the windows of a state."""
        frames = list[FloatArray]()
        for step in range(self.n_frames_):
            if step:
                held: Any = np.concatenate([np.asarray(state.values), frames[-1]], axis=-1)
                state = state.with_values(held[..., frames[-1].shape[-1] :]).with_params(state.params)
            try:
                # Overflows of a rollout that diverges are told by the error.
                with np.errstate(over="ignore", invalid="ignore"):
                    frames.append(self._predict_frame(state))
            except FieldDataError as error:
                is_refused = not isinstance(error, NonFinitePredictionError)
                # The first windows are those of X; what is refused later are frames of the rollout.
                if is_refused and not step:
                    raise
                what = f"too large to go on after step {step}" if is_refused else f"not finite in step {step + 1}"
                raise NonFinitePredictionError(
                    f"the prediction is {what} of {self.n_frames_}: the rollout diverges. Train with noise, such as "
                    "noise=0.001, or with unroll or a shorter window, or predict fewer steps."
                ) from error
        return frames

    def _warn_of_outputs(self, found: Predictions, ranges: SeenRanges) -> bool:
        """Warn if a prediction is far outside of the range of y, or leaves the states of the fit in further steps."""
        is_told = self.feeds_back_ and ranges.warn_of_states(found, self.n_frames_)
        return is_told or super()._warn_of_outputs(found, ranges)

    def error_by_step(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None, n_steps: int | None = None
    ) -> FloatArray:
        """Return the error of each predicted frame, which shows how it grows along the rollout.

        Parameters
        ----------
        X, y : as in `fit`
            Test trajectories: inputs and true frames.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the trajectories.
        params : as in `fit`
            Global parameters of the trajectories.
        n_steps : int or None, default=None
            Number of frames of y, which may be more or fewer than in the fit; None is the number of the fit.

        Returns
        -------
        ndarray of shape (n_steps,)
            Mean over the samples of the relative L2 error of each frame.
        """
        model = self if n_steps is None or not hasattr(self, "n_frames_") else self._with_steps(n_steps)
        return model._errors_by_frame(X, y, sample_weight, params)


def _names_of_steps(names: list[str], n_steps: int) -> list[str]:
    """Return the names of a field in the first steps of a rollout, by its names in the steps of the fit."""
    found = [part for part in (re.fullmatch(r"(.*?)(\d+(?:\.\d+)?)", name) for name in names) if part]
    further = range(len(names) + 1, n_steps + 1)
    # Decimal numbers, such as times, keep their digits.
    numbers = [Decimal(part[2]) for part in found]
    steps = {after - before for before, after in pairwise(numbers)} or {Decimal(1)}
    step = min(steps)
    if len(found) == len(names) and len({part[1] for part in found}) == len(steps) == 1 and step > 0:
        stem, digits = found[-1].groups()
        new = [f"{stem}{numbers[-1] + step * (k - len(names)):0{len(digits)}}" for k in further]
    else:
        new = [f"{names[-1]}_step_{k}" for k in further]
    return names[:n_steps] + new


def _check_unrolling(estimator: Any, *, has_fields: bool) -> None:
    """Raise an error unless the estimator can be trained through several steps."""
    name = type(estimator).__name__
    if not isinstance(estimator, OperatorRegressor):
        raise FieldDataError(
            f"unroll > 1 trains a network through several steps, which {name} does not offer; set unroll=1, or wrap an "
            "operator regressor of skop itself, such as LaMORegressor, and that into others."
        )
    if not has_fields:
        raise FieldDataError("unroll > 1 needs X given as fields, not as a table; set unroll=1.")
    for parameter, is_set in (
        ("symmetries", estimator._symmetries is not None),
        ("training__subsample_points", estimator._options("training").subsample_points is not None),
    ):
        if is_set:
            raise FieldDataError(
                f"unroll > 1 needs the same points in all steps of a trajectory, but {parameter} transforms or draws "
                f"them separately for each step; set {parameter}=None in {name}, or unroll=1."
            )


def _steps_between(times: list[FloatArray]) -> FloatArray:
    """Return the times between two frames of all runs, with a warning if they are not always the same."""
    steps = np.concatenate([np.diff(known) for known in times])
    if _is_longer(steps.max(), steps.min()):
        warn(
            f"the frames of the runs are {_in_words(steps.min(), steps.max())} apart in time; a rollout learns one "
            "step, whatever its length. Use frames with equal steps, or TimeConditionedRegressor."
        )
    return steps


def _is_longer(step: float, other: float) -> bool:
    """Tell whether a time step is longer than another by more than rounding."""
    return step > (1 + _EQUAL_STEPS) * other


def _in_words(lowest: float, highest: float) -> str:
    """Write a range of time steps, or one step if they are equal up to rounding."""
    return f"{lowest:g} to {highest:g}" if _is_longer(highest, lowest) else f"{highest:g}"


def _warn_if_worse_than_last(model: RolloutRegressor, data: TrainingData, weight: FloatArray | None) -> None:
    """Warn if steps from true frames of the fit, or rollouts of its runs, are further off than the last frames."""
    if not model.feeds_back_:
        return
    n_steps, is_table = model.n_frames_, data.spec.has_features
    used = np.arange(len(data.inputs)) if weight is None else np.flatnonzero(weight)
    numbers = np.unique(np.linspace(0, len(used) * n_steps - 1, _JUDGED).astype(int))
    runs, rows = np.unique(used[numbers // n_steps], return_inverse=True)
    outputs, places = (fields[runs] for fields in model._target_frames(data))
    size = outputs.n_channels // n_steps
    rows = rows * n_steps + numbers % n_steps
    windows, true = _one_steps(data.inputs[runs], outputs, places, n_steps, size, rows)
    try:
        with held_warnings():
            found = windows.with_values(model._predict_frame(windows))
    except NonFinitePredictionError:
        # A prediction says so.
        return
    last = windows.with_values(np.asarray(windows.values)[..., -size:])
    name = type(final_regressor(model.estimator_)[0]).__name__
    if worse := _worse_than(last, found, true, is_table=is_table):
        other = "more time for the fit, or PODRegressor, which learns small changes"
        other = "or a longer window" if name == "PODRegressor" else other
        error, change, where = worse
        warn(
            f"one step of {name} has an error of {error}{where} on {len(numbers)} frames of the fit, where to "
            f"repeat the last frame has {change}: no model at all would be better at it, on new trajectories too. "
            f"Take larger steps, such as every fifth frame, {other}."
        )
    elif n_steps > 1:
        few = np.unique(np.linspace(0, len(runs) - 1, max(_JUDGED // n_steps, 1)).astype(int))
        rows = (few[:, np.newaxis] * n_steps + np.arange(n_steps)).ravel()
        windows, true = _one_steps(data.inputs[runs], outputs, places, n_steps, size, rows)
        _warn_of_rollouts(model, windows, true, is_table=is_table)


def _warn_of_rollouts(model: RolloutRegressor, windows: FieldSet, true: FieldSet, *, is_table: bool) -> None:
    """Warn if rollouts over all steps of some runs of the fit are further off than their last given frames."""
    n_steps, size, fault = model.n_frames_, true.n_channels, ""
    starts = np.arange(0, len(windows), n_steps)
    last = [values[:, -size:] for values in windows[np.repeat(starts, n_steps)].to_list()]
    try:
        with held_warnings():
            rolled = model._roll_out(windows[starts])
    except NonFinitePredictionError as refusal:
        fault = f"fails ({str(refusal).split(':')[0]})"
    else:
        steps = zip(*(windows[starts].with_values(frame).to_list() for frame in rolled), strict=True)
        found = [frame for run in steps for frame in run]
        if worse := _worse_than(join_frames(true, last), join_frames(true, found), true, is_table=is_table):
            error, change, where = worse
            fault = f"has an error of {error}{where}, where to repeat the last given frame has {change}"
    if fault:
        warn(
            f"rolled out over the {n_steps} steps of the fit, from the first frames of {len(starts)} of its "
            f"trajectories, the model {fault}, although one step is nearer than the last frame: errors grow where "
            "predictions are fed back, on new trajectories too. Train with noise, such as noise=0.001, or with unroll "
            "or a shorter window, or predict fewer steps; error_by_step on other trajectories shows how many are of "
            "use."
        )


def _worse_than(last: FieldSet, found: FieldSet, true: FieldSet, *, is_table: bool) -> tuple[str, str, str] | None:
    """Errors of frames found and of last ones, where the first is larger, in all channels together or in one of them.

    They are words, and the third item names this channel.
    """
    if not np.any(true.values):
        return None
    error, change = (_mean_error(part, true, is_table=is_table) for part in (found, last))
    if error > max(change, ROUNDING):
        return *_told_apart(error, change), ""
    size = true.n_channels
    values, *others = (np.asarray(part.values, dtype=float).reshape(-1, size) for part in (true, found, last))
    norms = np.linalg.norm(values, axis=0)
    norms[norms == 0] = np.inf
    errors, changes = (np.linalg.norm(other - values, axis=0) / norms for other in others)
    # The last frame is exact in a channel that does not change, in which small errors are no fault.
    is_worse = errors > np.maximum(changes, max(error, ROUNDING))
    if size == 1 or not is_worse.any():
        return None
    k = int(np.where(is_worse, errors, 0).argmax())
    return *_told_apart(errors[k], changes[k]), f" in channel {k} of a frame (counted from 0)"


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Write two different numbers with two digits, or as many as tell them apart."""
    found = ((f"{one:.{digits}g}", f"{other:.{digits}g}") for digits in range(2, 18))
    return next(pair for pair in found if pair[0] != pair[1])


def _mean_error(found: FieldSet, true: FieldSet, *, is_table: bool) -> float:
    """Mean relative L2 error of frames, of which channels count alike; states of a table are relative to all states."""
    kind: Any = "scalar" if is_table else "field"
    one, other = (np.asarray(part.values)[:, 0] if is_table else part.to_list() for part in (true, found))
    units = channel_sizes(one, kind=kind) if true.n_channels > 1 else None
    return float(relative_l2_error(one, other, kind=kind, units=units))


def _one_steps(
    inputs: FieldSet, targets: FieldSet, places: FieldSet, n_steps: int, n_channels: int, rows: Any = None
) -> tuple[FieldSet, FieldSet]:
    """Return the windows and the frames that follow them, with all steps of a trajectory directly after each other.

    Numbers of rows choose some of these.
    """
    if n_steps == 1:
        return inputs, join_frames(places, targets.to_list())
    width = inputs.n_channels
    histories = [np.concatenate(pair, axis=-1) for pair in zip(inputs.to_list(), targets.to_list(), strict=True)]
    rows = np.arange(len(inputs) * n_steps) if rows is None else rows
    chosen = [(histories[row // n_steps], row % n_steps * n_channels) for row in rows]
    windows = [history[:, start : start + width] for history, start in chosen]
    nexts = [history[:, start + width : start + width + n_channels] for history, start in chosen]
    points, places = inputs[rows // n_steps], places[rows // n_steps]
    return join_frames(points, windows).with_params(points.params), join_frames(places, nexts)


# ---------------------------------------------------------------------- what a file must hold
@checks("RolloutRegressor")
def _check_rollout(held: Held) -> None:
    """Check the window from a file."""
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_")
    window = held.whole("window_", 1)
    feeds_back = held.flag("feeds_back_")
    n_channels = (spec.n_outputs + spec.n_scalars) // held.get("n_frames_")
    given = spec.n_params if spec.has_features else spec.n_fields
    held.need(not feeds_back or window * n_channels == given, "window_", "the number of frames in X")
    held.need(feeds_back or held.get("n_frames_") == 1, "feeds_back_", "True for several frames")
