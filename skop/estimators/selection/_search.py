"""The search of AutoRegressor: candidates, their fits on folds within a time, their errors, and their order.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, m models, F folds.
"""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils.validation import has_fit_parameter

from skop._typing import FloatArray, IntArray
from skop.data import DataSpec, FieldSet, Predictions, Targets, TrainingData
from skop.estimators._field import fit_one_of_several
from skop.estimators._reading import checked_by_caller, named_by_caller
from skop.estimators._streams import samples_at_once
from skop.estimators._weights import labels_of_groups, takes_groups
from skop.estimators._wrapper import as_input, as_predictions, fit_estimator, frame_size
from skop.estimators.classical._components import OF_USE, mean_of
from skop.estimators.classical._pod import PODRegressor
from skop.estimators.fitting._base_model import shared_between_fits
from skop.estimators.fitting._comparison import is_better_than_mean
from skop.exceptions import FieldDataError, NonFinitePredictionError
from skop.metrics import channel_sizes
from skop.metrics._flat import norms_of_fields, relative_errors
from skop.surrogate._predictions import each_part, joined
from skop.training import DIRECT_TRAINING, TrainingPlan, in_words

__all__ = ["Candidate", "Samples", "Search", "make_candidates", "make_folds", "told_by_fold"]

#: Part of the time of the search for models without a time limit, if there are operators; a bound for slow ones. The
#: same part of the whole time is that of the search without operators, and that until which each model is tried once.
_MODELS = 0.5
#: An operator with PODRegressor as its base counts as equal to it up to this part above its error: a longer training
#: makes up for it. See docs/decisions.md, "A choice spends less on the search than on the final fit".
_TIE = 0.1
#: Part of the rest of the budget for a second training of the best operator, where a model leads; see the same page.
_AGAIN = 1 / 4
#: Shortest time limit of a training in seconds; a technical bound, since limits must be positive.
_SHORTEST = 0.02
#: Fewest samples on which a model is timed; a technical bound: fits to fewer are soon done, and tell little.
_FEWEST = 100

T = TypeVar("T")
#: A model to fit, and the seconds that its fit may take, where it has no time limit.
_Task = tuple[Any, float | None]


@dataclass(eq=False)
class Candidate:
    """A model that takes part in the search, and what was found about it."""

    name: str
    estimator: Any
    #: Names of its parameters for a time limit in seconds; empty if it has none.
    limits: tuple[str, ...]
    #: Results by fold.
    trials: dict[int, _Trial] = field(default_factory=dict)
    #: What became of it, see `AutoRegressor.leaderboard_`.
    status: str = "not reached"
    reason: str = "the budget was spent before"
    error: float = np.nan
    spread: float = np.nan

    @property
    def may_be_base(self) -> bool:
        """Whether it is a model that operators may have as their base."""
        return isinstance(self.estimator, PODRegressor)

    @property
    def has_base(self) -> bool:
        """Whether it is an operator that has been fitted over a classical model, or is to be, before any fit."""
        if not self.trials:
            return isinstance(base := getattr(self.estimator, "base", None), str) and base in ("auto", "pod")
        return any(trial.has_base for trial in self.trials.values())

    @property
    def is_out(self) -> bool:
        """Whether it was taken out of the search."""
        return self.status in ("failed", "left out")

    def becomes(self, status: str, reason: str = "") -> None:
        """Set what became of it."""
        self.status, self.reason = status, reason

    def for_seconds(self, seconds: float | None) -> Any:
        """Return a copy with a time limit for the whole of its fit, where it has one."""
        if seconds is None or not self.limits:
            return clone(self.estimator)
        # Members of an ensemble are limited one by one.
        share = seconds / getattr(self.estimator, "n_members", 1)
        return clone(self.estimator).set_params(**dict.fromkeys(self.limits, share))

    def row(self) -> dict[str, Any]:
        """Row of the table."""
        costs = [(one.seconds, 1e3 * one.predict_seconds, one.size / 1e6) for one in self.trials.values()]
        means = np.mean(costs or [(np.nan, np.nan, np.nan)], axis=0)
        found: dict[str, Any] = dict(zip(("fit_seconds", "predict_ms", "model_mb"), means.tolist(), strict=True))
        found = {"candidate": self.name, "error": self.error, "spread": self.spread, **found}
        return found | {"status": self.status, "reason": self.reason}


def make_candidates(given: Any, rng: np.random.RandomState, symmetries: Any, weighs: bool) -> list[Candidate]:
    """Copies of the candidates, with seeds and symmetries where they have none; whether samples differ in weight."""
    candidates, names = [], []
    for item in given:
        is_pair = isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str)
        if not is_pair or not hasattr(item[1], "fit") or not hasattr(item[1], "predict"):
            raise ValueError(f"candidates holds {item!r}; expected pairs (name, estimator with fit and predict).")
        names.append(item[0])
        estimator = clone(item[1])
        params = estimator.get_params()
        # Drawn for each, so that a candidate has the same seed wherever its name stands alone.
        seed = int(rng.randint(np.iinfo(np.int32).max))
        ends = {name: name.rpartition("__")[2] for name in params}
        changes: dict[str, Any] = {}
        changes |= {name: seed for name, end in ends.items() if end == "random_state" and params[name] is None}
        if symmetries is not None:
            own = {name: params[name] for name, end in ends.items() if end == "symmetries"}
            changes |= {
                name: symmetries for name, held in own.items() if not getattr(held, "are_declared", held is not None)
            }
        limits = tuple(name for name, end in ends.items() if end == "max_time")
        candidates.append(Candidate(item[0], estimator.set_params(**changes), limits))
        if weighs and not has_fit_parameter(estimator, "sample_weight"):
            candidates[-1].becomes("left out", "its fit takes no sample_weight, and the samples have different weights")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"candidates are named {names}; expected one or more different names.")
    return candidates


# ---------------------------------------------------------------------- samples and folds
@dataclass(frozen=True)
class Samples:
    """Inputs and targets of the search, with weights where these differ."""

    inputs: FieldSet
    targets: Targets
    spec: DataSpec
    weight: FloatArray | None = None
    #: Folder for the checkpoints of fits.
    checkpoint_dir: Any = None
    #: Labels of groups of samples; None without any.
    groups: Any = None
    #: Names of the columns of a table X; None without names.
    columns: Any = None
    #: Changes to the training of operators.
    plan: TrainingPlan = DIRECT_TRAINING
    #: Names of the samples; empty where another fit is to name those that are odd, None without names.
    names: tuple[str, ...] | None = None

    def __getitem__(self, rows: Any) -> Samples:
        weight, groups = (None if held is None else held[rows] for held in (self.weight, self.groups))
        names = self.names and tuple(np.array(self.names, dtype=object)[rows])
        samples = replace(self, inputs=self.inputs[rows], targets=self.targets[rows], plan=self.plan_of(rows))
        return replace(samples, weight=weight, groups=groups, names=names)

    def plan_of(self, rows: Any) -> TrainingPlan:
        """The plan for some of the samples; samples are independent where runs are split."""
        numbers, n_steps = np.arange(len(self))[rows], self.plan.n_steps or 1
        whole = (numbers[::n_steps, np.newaxis] // n_steps * n_steps + np.arange(n_steps)).ravel()
        alone = replace(DIRECT_TRAINING, last_frame=self.plan.last_frame)
        return self.plan if np.array_equal(numbers, whole) else alone

    def __len__(self) -> int:
        return len(self.inputs)

    def pieces(self) -> Iterator[tuple[slice, Samples]]:
        """Parts that are small in memory, with their rows: all samples at once unless their fields are in files."""
        is_held = self.inputs.in_memory and self.targets.in_memory
        step = len(self) if is_held else samples_at_once(self.inputs, self.targets)
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            yield rows, self[rows]

    @property
    def y(self) -> Any:
        """Targets as candidates take them."""
        fields, scalars = self.targets.field, self.targets.scalars
        if fields is not None:
            return fields if scalars is None else fields.with_params(scalars)
        values = np.asarray(scalars)
        return values[:, 0] if self.spec.target_form.squeezes_channel else values

    def fit(self, model: Any) -> Any:
        """Fit a model."""
        options: dict[str, Any] = {} if self.weight is None else {"sample_weight": self.weight}
        if self.checkpoint_dir is not None and has_fit_parameter(model, "checkpoint_dir"):
            options["checkpoint_dir"] = self.checkpoint_dir
        if self.groups is not None and len(np.unique(self.groups)) > 1 and takes_groups(model):
            options["groups"] = self.groups
        X = as_input(model, self.inputs, self.spec, self.columns)
        with named_by_caller(self.names):
            return fit_estimator(model, X, self.y, self.plan, **options)

    def fit_one_of_several(self, model: Any) -> Any:
        """Fit a model; an interrupt of its training ends the fits of the others too."""
        return fit_one_of_several(lambda: self.fit(model))

    def mean(self, count: int) -> Predictions:
        """Mean of the targets as predictions of a number of samples."""
        field, scalars = self.targets.field, self.targets.scalars
        held = Predictions(None if field is None else np.asarray(field.values, dtype=np.float64), scalars)
        return each_part(lambda part: np.repeat(mean_of(part, self.weight)[np.newaxis], count, axis=0), held)

    def predicted_by(self, model: Any) -> Predictions:
        """Predictions of a model at the points of the targets."""
        options = {"coords": self.targets.field} if self.targets.elsewhere else {}
        return as_predictions(
            model.predict(as_input(model, self.inputs, self.spec, self.columns), **options), len(self)
        )


def make_folds(
    cv: Any, n_samples: int, groups: Any, rng: np.random.RandomState, used: IntArray | None = None
) -> list[tuple[IntArray, IntArray]]:
    """Rows of the used samples for training and validation in each fold; a list of folds has rows of all samples."""
    labels = labels_of_groups(groups, n_samples)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    splitter = cv
    if not isinstance(cv, Integral) and not hasattr(cv, "split"):
        rows = np.arange(n_samples) if used is None else used
        folds = _listed_folds(cv)
        train, valid = ([fold[side] for fold in folds] for side in (0, 1))
        numbers = [[np.searchsorted(rows, part[np.isin(part, rows)]) for part in parts] for parts in (train, valid)]
        return list(zip(*numbers, strict=True))
    if isinstance(cv, Integral):
        count, what = (n_samples, "sample") if labels is None else (len(np.unique(labels)), "group")
        if count < 2:
            raise FieldDataError(f"cross-validation needs at least 2 {what}s, got {count} {what}; pass more.")
        n_splits = min(int(cv), count)
        # Runs often come in the order of a parameter, and folds in this order would ask for extrapolation.
        splitter = KFold(n_splits, shuffle=True, random_state=seed)
        if labels is not None:
            splitter = GroupKFold(n_splits, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros((n_samples, 1)), None, labels))


def _listed_folds(cv: Any) -> list[tuple[IntArray, IntArray]]:
    """Rows of each fold as arrays; an error if they are invalid."""
    try:
        folds = [tuple(np.asarray(part) for part in fold) for fold in cv]
    except (TypeError, ValueError):
        folds = []
    is_rows = all(
        len(fold) == 2 and all(part.ndim == 1 and part.size and part.dtype.kind in "iu" for part in fold)
        for fold in folds
    )
    if not folds or not is_rows:
        raise FieldDataError(
            f"cv={cv!r} is no list of folds; pass a number of folds, a splitter of scikit-learn, or for each fold the "
            "row numbers of its training and of its validation samples: [(train, valid), ...]."
        )
    return folds  # type: ignore[return-value]


# ---------------------------------------------------------------------- one fit
@dataclass(frozen=True)
class _Trial:
    """Result of one fit on one fold."""

    predicted: Predictions
    #: Duration of the fit, and of the prediction of one sample.
    seconds: float
    predict_seconds: float
    #: Bytes of the fitted model.
    size: int
    #: Whether it is an operator over the best classical model.
    has_base: bool
    #: Number of channels of a frame, if it predicts frames in time.
    frame_size: int | None


@dataclass(frozen=True)
class _Failure:
    """Reason why a candidate is out; by default that of one whose process was killed."""

    status: str = "failed"
    reason: str = (
        "a process was killed, perhaps for want of memory; which of the fits at that time needed it is not known"
    )


def _attempted(work: Callable[[], T], hidden: type[Warning] = Warning) -> T | _Failure:
    """Result of a call, or the reason why there is none; warnings of a class are hidden. An interrupt goes on."""
    with warnings.catch_warnings(), checked_by_caller():
        warnings.simplefilter("ignore", hidden)
        try:
            return work()
        except Exception as error:
            is_refusal = isinstance(error, FieldDataError)
            is_left_out = is_refusal and not isinstance(error, NonFinitePredictionError)
            words = str(error) if is_refusal else f"{type(error).__name__}: {error}"
            return _Failure("left out" if is_left_out else "failed", words)


def _try(estimator: Any, most: float | None, samples: Samples, train: IntArray, valid: IntArray) -> _Trial | _Failure:
    """Fit on one fold, in any process; within a number of seconds, where it is known that a fit may take longer."""

    def fitted() -> _Trial:
        if most is not None:
            _require_time(estimator, samples[train], most)
        start = time.perf_counter()
        model = samples[train].fit_one_of_several(told_by_fold(estimator))
        seconds, held = time.perf_counter() - start, samples[valid]
        start = time.perf_counter()
        predicted = held.predicted_by(model)
        predict_seconds = (time.perf_counter() - start) / len(held)
        if not all(np.isfinite(part).all() for part in (predicted.fields, predicted.scalars) if part is not None):
            raise NonFinitePredictionError("a prediction of a held-out sample is not finite.")
        base = getattr(getattr(model, "base_", None), "estimator", None)
        has_base = isinstance(base, PODRegressor) and base.regressor == "auto"
        return _Trial(predicted, seconds, predict_seconds, _size(model), has_base, frame_size(model))

    return _attempted(fitted)


def told_by_fold(estimator: Any) -> Any:
    """The estimator, which does not repeat its choice to tell its error."""
    if isinstance(estimator, PODRegressor):
        estimator._tells_error = False
    return estimator


def _fit_on_all(estimator: Any, samples: Samples) -> Any:
    """Fit the chosen model, in any process; an interrupt of its training keeps it."""
    # The noise level of a Gaussian process on data without noise ends at its lower bound; that is correct.
    return _attempted(lambda: samples.fit(estimator), ConvergenceWarning)


def _require_time(estimator: Any, samples: Samples, most: float) -> None:
    """Raise an error if a fit takes too long, as fits to an eighth, a quarter and a half of the samples tell."""
    order = np.random.default_rng(0).permutation(len(samples))
    # No fit with twice as many samples takes more than eight times as long: that is the solution of linear equations.
    before = 0.0
    for halvings in (3, 2, 1):
        count = len(samples) >> halvings
        if count < _FEWEST:
            continue
        start = time.perf_counter()
        samples[np.sort(order[:count])].fit_one_of_several(told_by_fold(clone(estimator)))
        seconds = time.perf_counter() - start
        growth = min(max(seconds / before, 1.0), 8.0) if before else 8.0
        expected = seconds * growth**halvings
        if expected <= most:
            return
        # A single time says little of the next one, since few samples take no time of their own.
        if halvings == 1 or seconds * (growth if before else growth / 2) > most:
            raise FieldDataError(
                f"a fit to {count} of {len(samples)} samples took {in_words(seconds)}, so that one to all may take "
                f"{in_words(expected)}, and there is time for {in_words(most)}; raise max_time."
            )
        before = seconds


def _size(model: Any) -> int:
    """Bytes of a pickled model; 0 if it cannot be pickled."""
    outside = list[pickle.PickleBuffer]()
    try:
        # Arrays are handed out as buffers instead of being copied.
        held = pickle.dumps(model, protocol=5, buffer_callback=outside.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        return 0
    return len(held) + sum(buffer.raw().nbytes for buffer in outside)


# ---------------------------------------------------------------------- search
class Search:
    """Fits of candidates on folds, and their order; a part of the time until the end, or without a limit."""

    def __init__(
        self,
        candidates: list[Candidate],
        samples: Samples,
        folds: list[tuple[IntArray, IntArray]],
        end: float | None,
        part: float,
        n_jobs: int | None,
    ) -> None:
        self.candidates, self.samples, self.folds = candidates, samples, folds
        self.end, self.n_jobs = end, n_jobs
        #: The clock sets other limits when a search is made again, so that no fit would find its checkpoints.
        self.in_search = replace(samples, names=(), checkpoint_dir=samples.checkpoint_dir if end is None else None)
        #: Whether a final fit follows within the time.
        self.is_before_final = end is not None and part < 1
        if end is not None and effective_n_jobs(n_jobs) > 1:
            # The start of processes takes seconds, from the search and the final fit alike.
            list(self._parallel()(delayed(_size)(None) for _ in range(effective_n_jobs(n_jobs))))
        now = time.perf_counter()
        self.deadline = np.inf if end is None else now + part * (end - now)
        self.middle = np.inf if end is None else now + _MODELS * (end - now)

    @property
    def left(self) -> float:
        """Seconds until the end of the search."""
        return self.deadline - time.perf_counter()

    def run(self) -> list[dict[str, Any]]:
        """Compare all candidates, and return the rows of the table: first those that can be chosen, the best first."""
        taken = [candidate for candidate in self.candidates if candidate.status == "not reached"]
        models = [candidate for candidate in taken if not candidate.limits]
        operators = [candidate for candidate in taken if candidate.limits]
        if self.is_before_final and not operators:
            # Nothing but the fit of one of them on all samples follows.
            self.deadline = self.middle
        with shared_between_fits():
            self._fit_models(models, operators)
            if operators and not (len(operators) == 1 and self._holds(operators[0], models)):
                self._fit_operators(operators)
            ranked = self._ranked(taken)
            left = [one for one in (*ranked, *operators) if one.limits and not one.is_out]
            # Without a trial of any operator, one that contains the models is still the better choice.
            untried = [] if any(one.trials for one in operators) else [one for one in left if self._holds(one, models)]
            if left and not untried and ranked and not ranked[0].limits and self.is_before_final:
                # A short training says little about a long one, and the model that leads leaves the time unused.
                before = left[0].error, *(trial.seconds for trial in left[0].trials.values())
                ranked = self._ranked_again(taken, left[0], _AGAIN)
                if not ranked[0].limits and _may_win(left[0], before, ranked[0].error, self.final_seconds or 0.0):
                    ranked = self._ranked_again(taken, left[0], 2 * _AGAIN)
        if untried:
            words = "not tried: it contains the models that were, and adds what held-out samples support"
            untried[0].becomes("compared", words)
            ranked.insert(0, untried[0])
        if not ranked:
            words = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in self.candidates)
            raise FieldDataError(f"no candidate could be fitted. {words}")
        return [one.row() for one in (*ranked, *(one for one in self.candidates if one not in ranked))]

    def fit_best(self, rows: list[dict[str, Any]], seconds: float | None) -> Any:
        """Fit the best candidate on all samples, or the next one if that fails, and note it in the rows."""
        candidates = {candidate.name: candidate for candidate in self.candidates}
        compared = [row for row in rows if row["status"] == "compared"]
        for row in compared:
            estimator = candidates[row["candidate"]].for_seconds(seconds)
            try:
                (found,) = self._parallel()([delayed(_fit_on_all)(estimator, self.samples)])
            except BrokenProcessPool:
                found = _Failure()
            if not isinstance(found, _Failure):
                row["status"] = "chosen"
                places = ["chosen", "compared"]
                rows.sort(key=lambda one: places.index(one["status"]) if one["status"] in places else len(places))
                return found
            row |= {"status": "failed", "reason": f"in the fit on all samples: {found.reason}"}
            seconds = self.final_seconds
        words = "; ".join(f"{row['candidate']}: {row['reason']}" for row in compared)
        raise FieldDataError(f"no candidate could be fitted on all samples. {words}")

    @property
    def final_seconds(self) -> float | None:
        """Seconds that are left for the final fit; None without a limit."""
        return None if self.end is None else max(self.end - time.perf_counter(), _SHORTEST)

    # ------------------------------------------------------------------ fits
    def _fit_models(self, models: list[Candidate], operators: list[Candidate]) -> None:
        """Fit the models without a time limit on the first fold, and on the others as far as there is time."""
        now, part = time.perf_counter(), _MODELS if operators else 1.0
        until = first = now + part * (self.deadline - now)
        if self.is_before_final and not any(map(self._can_have_base, operators)):
            # No operator makes up for a model that is left out.
            first = now + part * (self.middle - now)
        # Folds on which all candidates are compared: operators before a final fit see the first one alone.
        n_counted = 1 if operators and self.is_before_final else len(self.folds)

        def within_time(candidate: Candidate) -> _Task | None:
            left = (until if candidate.trials else first) - time.perf_counter()
            if 0 in candidate.trials:
                return (clone(candidate.estimator), None) if candidate.trials[0].seconds <= left else None
            if left <= 0 and self._has_result():
                # Many models take less time than those before them, and one that is not tried cannot be chosen.
                left = (self.middle - time.perf_counter()) / len(models)
                if left <= 0:
                    return None
            return clone(candidate.estimator), None if self.end is None else max(left, 0.0) / n_counted

        self._fit(models, range(1), within_time)
        alive = [candidate for candidate in models if candidate.status == "compared"]
        self._fit(alive, range(1, len(self.folds)), within_time)

    def _holds(self, operator: Candidate, models: list[Candidate]) -> bool:
        """Whether an operator contains all other models, so that a comparison would only cost time for its training."""
        rivals = [candidate for candidate in models if candidate.status == "compared"]
        if not self.is_before_final or not rivals:
            return self.is_before_final
        # Without a base, for example with too few samples, it may be worse than the model.
        if not all(candidate.may_be_base for candidate in rivals) or not self._can_have_base(operator):
            return False
        # "auto" takes the mean in place of a model that is no better. Where one takes too long, so does a trial.
        may_drop = operator.estimator.base == "auto" and len(rivals) == len(models)
        return not may_drop or any(self._is_of_use(candidate) for candidate in rivals)

    def _can_have_base(self, operator: Candidate) -> bool:
        """Whether an operator has a base, and the samples allow one."""
        data, every = TrainingData(self.samples.inputs, self.samples.targets, self.samples.spec), len(self.samples)
        why_not = getattr(operator.estimator, "_why_no_base", lambda *_: "")
        return operator.has_base and not why_not(data, np.arange(every), self.samples.plan, self.samples.groups)

    def _is_of_use(self, model: Candidate) -> bool:
        """Whether a model predicts held-out samples better than their mean does, beyond chance, as a base has to."""
        folds = [self.folds[fold] for fold in model.trials]
        rows = np.concatenate([valid for _, valid in folds])
        held, groups = self.samples[rows], self.samples.groups
        labels = np.arange(len(self.samples)) // (self.samples.plan.n_steps or 1) if groups is None else groups
        runs = np.unique(labels[rows], return_inverse=True)[1]
        found = joined([trial.predicted for trial in model.trials.values()])
        means = joined([self.samples[train].mean(len(valid)) for train, valid in folds])
        return is_better_than_mean(found, held.targets, held.weight, runs, means)

    def _fit_operators(self, operators: list[Candidate]) -> None:
        """Fit operators for equal times, before a final fit on the first fold alone, so that each has more time."""
        n_workers = effective_n_jobs(self.n_jobs)
        over = next((candidate for candidate in operators if candidate.has_base), None)
        if over is not None and self.end is not None and self.left > 0 and n_workers == 1:
            # Else the first operator alone would pay for the base, which all share, and for what a first fit loads.
            _try(over.for_seconds(_SHORTEST), None, self.in_search, *self.folds[0])
        folds = range(1 if self.is_before_final else len(self.folds))
        share = self.left / -(-len(operators) * len(folds) // n_workers)

        def for_share(candidate: Candidate) -> _Task | None:
            if self.end is None:
                return clone(candidate.estimator), None
            seconds = min(share, self.left)
            # One that is trained for much less than the others would be judged by that.
            if seconds < share / 2 and self._has_result():
                return None
            return candidate.for_seconds(max(seconds, _SHORTEST)), None

        self._fit(operators, folds, for_share)

    def _ranked_again(self, taken: list[Candidate], operator: Candidate, part: float) -> list[Candidate]:
        """Candidates in order, after a training of an operator for a part of the rest of the time."""
        seconds = part * (self.final_seconds or 0.0)
        self._fit([operator], range(1), lambda one: (one.for_seconds(seconds), None))
        return self._ranked(taken)

    def _has_result(self) -> bool:
        """Whether any candidate has been fitted."""
        return any(candidate.trials for candidate in self.candidates)

    def _fit(
        self, candidates: list[Candidate], folds: Iterable[int], configure: Callable[[Candidate], _Task | None]
    ) -> None:
        """Fit candidates on folds, each with settings that are made when its turn comes, and store the results."""
        queue = [(candidate, fold) for fold in folds for candidate in candidates]
        started: list[tuple[Candidate, int]] = []

        def calls() -> Iterator[Any]:
            while queue:
                candidate, fold = queue.pop(0)
                if not candidate.is_out and (task := configure(candidate)) is not None:
                    started.append((candidate, fold))
                    yield delayed(_try)(*task, self.in_search, *self.folds[fold])

        while queue:
            try:
                for result in self._parallel()(calls()):
                    candidate, fold = started.pop(0)
                    if isinstance(result, _Failure):
                        candidate.becomes(result.status, result.reason)
                    elif not candidate.is_out:
                        candidate.trials[fold] = result
                        candidate.becomes("compared")
            except BrokenProcessPool:
                while started:
                    started.pop()[0].becomes(_Failure().status, _Failure().reason)

    def _parallel(self) -> Parallel:
        """Run calls by joblib, each made when its turn comes, and give the results in their order."""
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "pre_dispatch": "n_jobs", "batch_size": 1}
        try:
            return Parallel(**options, return_as="generator")
        except ValueError:
            # Backends on a pool of multiprocessing, such as that of Ray, give all results at the end.
            return Parallel(**options)

    # ------------------------------------------------------------------ errors
    def _ranked(self, candidates: list[Candidate]) -> list[Candidate]:
        """Candidates that were fitted, in order, with their errors on the folds that the models among them share.

        Operators may have seen fewer. Their errors there are then scaled as that of the best model is.
        """
        fitted = [one for one in candidates if one.status == "compared"]
        for candidate in fitted:
            each = [self._error(candidate, [fold]) for fold in candidate.trials]
            candidate.spread = float(np.std(each)) if len(each) > 1 else np.nan
        models = [one for one in fitted if not one.limits] or fitted
        of_models, of_all = (
            [fold for fold in range(len(self.folds)) if all(fold in one.trials for one in some)]
            for some in (models, fitted)
        )
        for candidate in models:
            candidate.error = self._error(candidate, of_models)
        if len(models) < len(fitted):
            # A single fold may be an easy one, and ranks models by chance.
            best = min(models, key=lambda one: one.error)
            there = self._error(best, of_all)
            for candidate in fitted:
                if candidate not in models:
                    candidate.error = self._error(candidate, of_all) * (best.error / there if there > 0 else 1.0)
        return _in_order(fitted)

    def _error(self, candidate: Candidate, folds: list[int]) -> float:
        """1 minus the score of the predictions on some folds; for all candidates frames of one field share its unit."""
        trials = (trial for one in self.candidates for trial in one.trials.values())
        size = next((trial.frame_size for trial in trials if trial.frame_size is not None), None)
        rows = np.concatenate([self.folds[fold][1] for fold in folds])
        found = [candidate.trials[fold].predicted for fold in folds]
        truth, weight = self.samples.targets[rows], self.samples.weight
        weight = None if weight is None else weight[rows]
        pairs: list[tuple[Any, list[Any], IntArray | None, FloatArray | None]] = []
        if truth.field is not None:
            # The frames of a run have one error, relative to all of them.
            n_frames = self.samples.plan_of(rows).n_steps or 1
            counts = np.asarray(truth.field.n_points).reshape(-1, n_frames).sum(axis=1)
            own = None if weight is None else weight[::n_frames]
            pairs.append((truth.field.values, [part.fields for part in found], counts, own))
        if truth.scalars is not None:
            pairs.append((truth.scalars, [part.scalars for part in found], None, weight))
        errors = [
            _relative_error(_flat(true), np.concatenate([_flat(part) for part in parts]), counts, own, size)
            for true, parts, counts, own in pairs
        ]
        return float(np.mean(errors))


def _may_win(operator: Candidate, before: tuple[float, ...], least: float, seconds: float) -> bool:
    """Whether an operator would have less than an error after some seconds, by the power of the time of its fall.

    Two trainings tell: the error and the duration of the earlier one are given.
    """
    if len(before) != 2 or operator.is_out or not operator.trials:
        return False
    error, now = before[0], operator.trials[0].seconds
    if not 0 < operator.error < error or not 0 < before[1] < now < seconds:
        return False
    power = np.log(error / operator.error) / np.log(now / before[1])
    return bool(operator.error * (seconds / now) ** -power < least)


def _flat(values: Any) -> FloatArray:
    """Values of all points or samples as rows."""
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(-1, array.shape[-1])


def _relative_error(
    true: FloatArray, found: FloatArray, counts: IntArray | None, weight: FloatArray | None, size: int | None
) -> float:
    """Relative L2 error of values ``(T, q)`` as in `score`: of fields with numbers of points, or of scalars."""
    n_points = np.ones(len(true), dtype=int) if counts is None else counts
    rows = None if weight is None else np.repeat(weight, n_points)
    units = None
    if true.shape[1] > 1:
        units = channel_sizes(true, kind="scalar", sample_weight=rows, n_components=size)
    norms = norms_of_fields(true, found, n_points, units)
    if counts is not None:
        return float(np.average(relative_errors([norms], weight), weights=weight))
    # The error of targets that are all zero is not relative.
    error, norm = (float(np.sqrt(np.average(part**2, weights=weight))) for part in norms)
    return error / (norm or 1.0)


def _in_order(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates by their errors, the one to choose first; see `AutoRegressor` for the rule."""
    base = min((one.error for one in candidates if one.may_be_base), default=np.inf)
    value = {
        one: min(one.error, base) if one.has_base and one.error <= (1 + _TIE) * base else one.error
        for one in candidates
    }
    operators = [one for one in candidates if one.limits]
    if operators:
        least = min(one.error for one in operators)
        first = next(one for one in operators if OF_USE * one.error <= least)
        value[first] = min(value[one] for one in operators)
        # Sorting keeps the order of equal candidates.
        candidates = [first, *(one for one in candidates if one is not first)]
    return sorted(candidates, key=lambda one: value[one])
