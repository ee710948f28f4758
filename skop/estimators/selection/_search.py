"""Successive halving of models within a time: their fits, errors, ranks, and the weights of a greedy ensemble.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, m models, F folds.
"""

from __future__ import annotations

import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils.validation import has_fit_parameter

from skop._typing import FloatArray, IntArray
from skop.data import DataSpec, FieldSet, Predictions, Targets, TrainingData
from skop.estimators._field import checked_by_caller, end_if_interrupted, samples_at_once
from skop.estimators._weights import labels_of_groups
from skop.estimators._wrapper import as_input, as_predictions, fit_estimator
from skop.estimators.classical._baselines import OF_USE, PODRegressor
from skop.estimators.fitting._base_model import shared_between_fits
from skop.estimators.fitting._checkpoint import SearchJournal
from skop.exceptions import FieldDataError, NonFinitePredictionError
from skop.metrics import channel_sizes
from skop.training import DIRECT_TRAINING, in_words

__all__ = ["Candidate", "Samples", "Search", "make_candidates", "make_folds", "weighted"]

#: Part of the search time for models without a time limit, if there are others.
_CLASSICAL = 0.5
#: Part of the search time after these models for the last rung, which has two operators.
_LAST = 2 / 3
#: Each rung keeps one of this number of operators, down to two. Few rungs are better than many: each fits base models
#: anew, and a training of a few seconds cannot rank operators.
_KEPT = 4
_FINALISTS = 2
#: Prefer an operator with PODRegressor as its base if its error after a short training is at most this part above that
#: of PODRegressor: a longer training makes up for it.
_TIE = 0.1
#: Largest slope of a learning curve, error over time on two logarithmic scales, for the extrapolation to the final fit.
_STEEPEST = 0.45
#: Largest number of steps of a greedy ensemble.
_ROUNDS = 10
#: Shortest time limit of a training in seconds.
_SHORTEST = 0.02
#: From this number of samples on, time a model without a time limit on parts first; assume that its time grows with the
#: number of samples by a power of at most the second number.
_TIMED_SAMPLES, _HIGHEST_POWER = 200, 3.0
#: Reason in the table for a candidate whose process was killed.
_KILLED = "a process was killed, perhaps for want of memory; which of the fits at that time needed it is not known"


@dataclass
class Candidate:
    """A model that takes part in the search, and what was found about it.

    Attributes
    ----------
    name : str
        Name in the table.
    estimator : estimator
        Unfitted model, with a seed.
    limits : tuple of str
        Names of its parameters for a time limit in seconds; empty if it has none.
    trials : dict of int to _Trial
        Results of its last rung by fold.
    rung : int
        Number of the last rung that it took part in, from 1.
    status, reason : str
        What became of it, see `AutoRegressor.leaderboard_`.
    error, expected, spread : float
        Error on the folds that the candidates of its last rung share; the error that is expected of the final fit; and
        the standard deviation over the folds.
    rank_error : float
        Error by which operators are ordered: that of their base where it is the same but for noise.
    curve : list of (float, float)
        Time limit and error on the first fold in each rung.
    weight : float
        Weight in the result.
    fitted : estimator or None
        Model fitted on all samples.
    overheads : list of float
        Seconds by which its fits took longer than their time limit, but for the first one of a process, which loads
        and compiles.
    is_slow : bool
        Whether it was left out because a fit would take too long.
    """

    name: str
    estimator: Any
    limits: tuple[str, ...]
    trials: dict[int, _Trial] = field(default_factory=dict)
    rung: int = 0
    status: str = "not reached"
    reason: str = "the budget was spent before"
    error: float = np.nan
    expected: float = np.nan
    spread: float = np.nan
    rank_error: float = np.nan
    curve: list[tuple[float, float]] = field(default_factory=list)
    weight: float = 0.0
    fitted: Any = None
    overheads: list[float] = field(default_factory=list)
    is_slow: bool = False

    @property
    def may_be_base(self) -> bool:
        """Whether it is a model that operators may have as their base."""
        return isinstance(self.estimator, PODRegressor)

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean of the samples, by which the others are judged."""
        return self.may_be_base and self.estimator.regressor == "mean"

    @property
    def has_base(self) -> bool:
        """Whether it is an operator that has been fitted over a classical model, or is to be, before any fit."""
        if not self.trials:
            return isinstance(base := getattr(self.estimator, "base", None), str) and base in ("auto", "pod")
        return any(trial.has_base for trial in self.trials.values())

    @property
    def kind(self) -> str:
        """Class of the model, or of the one that it wraps."""
        return type(getattr(self.estimator, "estimator", self.estimator)).__name__

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self.status == "compared"

    @property
    def is_ranked(self) -> bool:
        """Whether it has come to the end."""
        return self.status in ("chosen", "compared")

    @property
    def is_out(self) -> bool:
        """Whether it was taken out of the search."""
        return self.status in ("failed", "left out", "stopped")

    def drop(self, status: str, reason: str) -> None:
        """Take it out of the search."""
        self.status, self.reason = status, reason

    def for_seconds(self, seconds: float) -> Any:
        """Return a copy with a time limit for the whole of its fit."""
        # Members of an ensemble are limited one by one.
        share = seconds / getattr(self.estimator, "n_members", 1)
        return clone(self.estimator).set_params(**dict.fromkeys(self.limits, share))

    def for_part(self, part: float) -> Any:
        """Return a copy for a part of its epochs."""
        names = [name.removesuffix("max_time") + "max_iter" for name in self.limits]
        params = self.estimator.get_params()
        epochs = {name: max(1, round(part * params[name])) for name in names if name in params}
        return clone(self.estimator).set_params(**epochs)

    def gain(self, seconds: float) -> float:
        """Factor by which the error is expected to fall where a fit takes so many seconds, by the last two rungs."""
        if len(self.curve) < 2 or seconds <= self.curve[-1][0]:
            return 1.0
        (before, error), (now, lower) = self.curve[-2:]
        if not now > before > 0 or not error > lower > 0:
            return 1.0
        # Between times that hardly differ a slope would be noise.
        slope = float(np.log(error / lower) / max(np.log(now / before), np.log(2)))
        return float((seconds / now) ** -min(slope, _STEEPEST))

    @property
    def overhead(self) -> float:
        """Seconds by which a fit is expected to take longer than its time limit."""
        return max(min(self.overheads, default=0.0), 0.0)

    def row(self) -> dict[str, Any]:
        """Row of the table."""
        trials = list(self.trials.values())
        mean = {
            name: float(np.mean([getattr(trial, name) for trial in trials])) if trials else float("nan")
            for name in ("seconds", "predict_seconds", "size")
        }
        return {
            "candidate": self.name,
            "error": self.error,
            "expected": self.expected,
            "spread": self.spread,
            "fit_seconds": mean["seconds"],
            "predict_ms": 1e3 * mean["predict_seconds"],
            "model_mb": mean["size"] / 1e6,
            "rung": self.rung,
            "weight": self.weight,
            "status": self.status,
            "reason": self.reason,
        }


def make_candidates(given: Any, rng: np.random.RandomState, symmetries: Any, weighs: bool) -> list[Candidate]:
    """Copies of the candidates, with seeds and symmetries where they have none.

    Parameters
    ----------
    given : list of (str, estimator)
        Models by name.
    rng : RandomState
        Source of the seeds.
    symmetries : sequence of str, SymmetryOptions or None
        Symmetries of the problem.
    weighs : bool
        Whether samples differ in weight, so that models which take no weights are left out.

    Returns
    -------
    list of Candidate
        The models.
    """
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
            changes |= {name: symmetries for name, end in ends.items() if end == "symmetries" and params[name] is None}
        limits = tuple(name for name, end in ends.items() if end == "max_time")
        candidates.append(Candidate(item[0], estimator.set_params(**changes), limits))
        if weighs and not has_fit_parameter(estimator, "sample_weight"):
            candidates[-1].drop("left out", "its fit takes no sample_weight, and the samples have different weights")
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

    def __getitem__(self, rows: Any) -> Samples:
        weight, groups = (None if held is None else held[rows] for held in (self.weight, self.groups))
        return replace(self, inputs=self.inputs[rows], targets=self.targets[rows], weight=weight, groups=groups)

    def __len__(self) -> int:
        return len(self.inputs)

    def pieces(self) -> Iterator[tuple[slice, Samples]]:
        """Yield parts that are small in memory, with their rows: all samples at once unless their fields are in files.

        Yields
        ------
        tuple of (slice, Samples)
            Rows of a part, and the part.
        """
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
        if self.groups is not None and len(np.unique(self.groups)) > 1 and has_fit_parameter(model, "groups"):
            options["groups"] = self.groups
        return fit_estimator(model, as_input(model, self.inputs, self.spec, self.columns), self.y, **options)

    def predicted_by(self, model: Any) -> Predictions:
        """Predictions of a model at the points of the targets."""
        options = {"coords": self.targets.field} if self.targets.elsewhere else {}
        return as_predictions(
            model.predict(as_input(model, self.inputs, self.spec, self.columns), **options), len(self)
        )


def weighted(parts: Sequence[Predictions], weights: FloatArray) -> Predictions:
    """Weighted mean of predictions."""
    means = []
    for name in ("fields", "scalars"):
        held = [getattr(part, name) for part in parts]
        means.append(None if held[0] is None else sum(w * values for w, values in zip(weights, held, strict=True)))
    return Predictions(*means)


def make_folds(
    cv: Any, n_samples: int, groups: Any, rng: np.random.RandomState, used: IntArray | None = None
) -> list[tuple[IntArray, IntArray]]:
    """Training and validation samples of each fold.

    Parameters
    ----------
    cv : int, splitter or list of (train, valid)
        Number of folds, a splitter of scikit-learn, or the rows of each fold.
    n_samples : int
        Number of samples that are used.
    groups : array-like of shape (n,) or None
        Labels of these samples.
    rng : RandomState
        Source of the order of the samples.
    used : ndarray of int or None, default=None
        Rows of these samples, to which a list of folds refers; None if all are used.

    Returns
    -------
    list of (train, valid)
        Numbers of the used samples in each fold.
    """
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


# ---------------------------------------------------------------------- one fit
@dataclass(frozen=True)
class _Trial:
    """Result of one fit on one fold.

    Attributes
    ----------
    predicted : Predictions
        Predictions of the held-out samples.
    seconds, predict_seconds : float
        Duration of the fit and of the prediction of one sample.
    size : int
        Bytes of the fitted model.
    limit : float or None
        Time limit of the fit in seconds.
    has_base : bool
        Whether it is an operator over the best classical model.
    """

    predicted: Predictions
    seconds: float
    predict_seconds: float
    size: int
    limit: float | None
    has_base: bool


@dataclass(frozen=True)
class _Failure:
    """Reason why a candidate is out, and whether this is the time of its fit."""

    status: str
    reason: str
    is_slow: bool = False


class _TooSlow(Exception):
    """A model would take longer than there is time."""


@dataclass(frozen=True)
class _Task:
    """A fit to do.

    Attributes
    ----------
    estimator : estimator
        Model to fit.
    limit : float or None, default=None
        Time limit in seconds that it has been given.
    most : float or None, default=None
        Seconds that the fit of a model without a time limit may be expected to take.
    """

    estimator: Any
    limit: float | None = None
    most: float | None = None


def _try(task: _Task, samples: Samples, train: IntArray, valid: IntArray) -> _Trial | _Failure:
    """Fit on one fold, in any process."""
    with _Attempt() as attempt:
        if task.most is not None:
            _check_duration(task.estimator, samples[train], task.most)
        model, seconds = _timed_fit(task.estimator, samples[train])
        held = samples[valid]
        start = time.perf_counter()
        predicted = held.predicted_by(model)
        predict_seconds = (time.perf_counter() - start) / len(held)
        if not all(np.isfinite(part).all() for part in (predicted.fields, predicted.scalars) if part is not None):
            raise NonFinitePredictionError("a prediction of a held-out sample is not finite.")
        return _Trial(predicted, seconds, predict_seconds, _size(model), task.limit, _has_base(model))
    return attempt.failure


def _as_result(held: dict[str, Any]) -> _Trial | _Failure:
    """Result of a fit, from what was kept of it."""
    if "predicted" not in held:
        return _Failure(**held)
    return _Trial(**held | {"predicted": Predictions(**held["predicted"])})


def _fit_on_all(estimator: Any, samples: Samples) -> Any:
    """Fit a member of the result, in any process."""
    # The noise level of a Gaussian process on data without noise ends at its lower bound; that is correct.
    with _Attempt(ConvergenceWarning) as attempt:
        return _timed_fit(estimator, samples)[0]
    return attempt.failure


def _timed_fit(estimator: Any, samples: Samples) -> tuple[Any, float]:
    """Fit, and measure the time."""
    start = time.perf_counter()
    model = samples.fit(estimator)
    end_if_interrupted(model)
    return model, time.perf_counter() - start


def _has_base(model: Any) -> bool:
    """Whether a fitted model is an operator over the best classical model."""
    base = getattr(getattr(model, "base_", None), "estimator", None)
    return isinstance(base, PODRegressor) and base.regressor == "auto"


class _Attempt:
    """Context in which an error becomes a reason, and warnings of some class are hidden."""

    def __init__(self, hidden: type[Warning] = Warning) -> None:
        self.failure, self.hidden = _Failure("failed", ""), hidden
        self.contexts = (warnings.catch_warnings(), checked_by_caller())

    def __enter__(self) -> Self:
        for context in self.contexts:
            context.__enter__()
        warnings.simplefilter("ignore", self.hidden)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        for context in reversed(self.contexts):
            context.__exit__(None, None, None)
        # An interrupt ends the search.
        if not isinstance(error, Exception):
            return False
        words = str(error) if isinstance(error, FieldDataError | _TooSlow) else f"{type(error).__name__}: {error}"
        refuses = isinstance(error, FieldDataError | _TooSlow) and not isinstance(error, NonFinitePredictionError)
        self.failure = _Failure("left out" if refuses else "failed", words, isinstance(error, _TooSlow))
        return True


def _check_duration(estimator: Any, samples: Samples, most: float) -> None:
    """Raise an error if a fit will take too long, judged by fits on growing parts of the samples."""
    n_samples = len(samples)
    if n_samples < _TIMED_SAMPLES:
        return
    order = np.random.default_rng(0).permutation(n_samples)
    seconds: list[float] = []
    expected = 0.0
    for part in (16, 8, 4):
        seconds.append(_timed_fit(clone(estimator), samples[np.sort(order[: n_samples // part])])[1])
        # The first fit alone does not tell how the time grows.
        power = _HIGHEST_POWER if len(seconds) == 1 else np.log2(seconds[-1] / max(seconds[-2], 1e-6))
        power = float(np.clip(power, 0.0, _HIGHEST_POWER))
        expected = seconds[-1] * part**power
        if expected <= most:
            return
        # The next part takes up to this factor longer.
        if seconds[-1] * 2**power > most:
            break
    raise _TooSlow(
        f"a fit would take about {in_words(expected)}, and there is time for {in_words(most)}; raise max_time."
    )


class _Counter:
    """A file that counts what is written."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        """Count bytes."""
        count = memoryview(data).nbytes
        self.size += count
        return count


def _size(model: Any) -> int:
    """Bytes of a pickled model; 0 if it cannot be pickled."""
    counter, outside = _Counter(), list[pickle.PickleBuffer]()
    try:
        # Arrays are handed out as buffers instead of being copied.
        pickle.Pickler(counter, protocol=5, buffer_callback=outside.append).dump(model)
    except (pickle.PicklingError, AttributeError, TypeError):
        return 0
    return counter.size + sum(buffer.raw().nbytes for buffer in outside)


# ---------------------------------------------------------------------- errors
class _Residuals:
    """Errors of weighted means of m models on the same samples.

    The residual of a mean is the mean of the residuals, so that their inner products for each sample give the error
    for any weights.

    Parameters
    ----------
    truth : Targets
        True fields and scalars.
    models : sequence of Predictions
        Predictions of each model.
    weight : ndarray of shape (n,) or None
        Weights of the samples, if these differ.
    """

    def __init__(self, truth: Targets, models: Sequence[Predictions], weight: FloatArray | None) -> None:
        self.weight = weight
        #: Inner products (n, m, m), norms of the truth (n,), and the kind of the error.
        self.parts: list[tuple[FloatArray, FloatArray, str]] = []
        if truth.field is not None:
            true = _flat(truth.field.values)
            starts = np.concatenate([[0], np.cumsum(truth.field.n_points)])[:-1]
            self._add(true, [_flat(model.fields) for model in models], starts, "field")
        if truth.scalars is not None:
            true = _flat(truth.scalars)
            self._add(true, [_flat(model.scalars) for model in models], np.arange(len(true)), "scalar")

    def _add(self, true: FloatArray, found: list[FloatArray], starts: IntArray, kind: str) -> None:
        """Inner products of the residuals ``(T, q)``, several channels in units of their sizes as in `score`."""
        counts = np.diff(starts, append=len(true))
        rows = None if self.weight is None else np.repeat(self.weight, counts)
        units = channel_sizes(true, kind="scalar", sample_weight=rows) if true.shape[1] > 1 else np.ones(1)
        residuals = [(predicted - true) / units for predicted in found]
        products = np.empty((len(starts), len(found), len(found)))
        for i, first in enumerate(residuals):
            for j, second in enumerate(residuals[: i + 1]):
                products[:, i, j] = products[:, j, i] = np.add.reduceat((first * second).sum(axis=1), starts)
        self.parts.append((products, np.sqrt(np.add.reduceat(((true / units) ** 2).sum(axis=1), starts)), kind))

    def error(self, weights: FloatArray, gains: FloatArray | None = None) -> float:
        """1 minus the score of the weighted mean, where residuals fall by factors `gains`."""
        weights = weights if gains is None else weights * gains
        errors = []
        for products, norms, kind in self.parts:
            squares: FloatArray = np.maximum(np.einsum("nij,i,j->n", products, weights, weights), 0.0)
            whole = float(np.sqrt(self._mean(norms**2))) or 1.0
            if kind == "scalar":
                errors.append(float(np.sqrt(self._mean(squares))) / whole)
                continue
            # A sample of zeros is compared with the size of the others, as in `score`.
            errors.append(self._mean(np.sqrt(squares) / np.where(norms > 0, norms, whole)))
        return float(np.mean(errors))

    def _mean(self, values: FloatArray) -> float:
        """Mean over the samples."""
        return float(np.mean(values) if self.weight is None else np.average(values, weights=self.weight))


def _flat(values: Any) -> FloatArray:
    """Values of all points or samples as rows."""
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(-1, array.shape[-1])


def _greedy_weights(residuals: _Residuals, gains: FloatArray, members: list[int]) -> FloatArray:
    """Weights by adding some of the models one at a time, with replacement; the best mean on the way."""
    counts = np.zeros(len(gains))
    best, lowest = counts, np.inf
    for number in range(1, _ROUNDS + 1):
        trials = [(counts + one) / number for one in np.eye(len(gains))[members]]
        errors = [residuals.error(weights, gains) for weights in trials]
        chosen = int(np.argmin(errors))
        counts[members[chosen]] += 1
        if errors[chosen] < lowest:
            best, lowest = trials[chosen], errors[chosen]
    return best


# ---------------------------------------------------------------------- search
class Search:
    """Successive halving of candidates within a time.

    Parameters
    ----------
    candidates : list of Candidate
        Models.
    samples : Samples
        Data.
    folds : list of (train, valid)
        Rows of each fold.
    deadline : float or None
        Time at which the search ends, by `time.perf_counter`; None compares by epochs.
    final_seconds : float
        Time for the final fit; 0 if there is none, or no time limit.
    n_jobs : int or None
        Number of fits at a time.
    verbose : int
        0: silent. 1: the plan. 2: also a line after each rung.
    title : str
        Beginning of each line.
    journal : SearchJournal
        Clock, and what the search has done before it was killed.
    """

    def __init__(
        self,
        candidates: list[Candidate],
        samples: Samples,
        folds: list[tuple[IntArray, IntArray]],
        deadline: float | None,
        final_seconds: float,
        n_jobs: int | None,
        verbose: int,
        title: str,
        journal: SearchJournal,
    ) -> None:
        self.candidates, self.samples, self.folds = candidates, samples, folds
        self.deadline, self.final_seconds, self.n_jobs = deadline, final_seconds, n_jobs
        self.verbose, self.title, self.journal = verbose, title, journal
        #: Number of series of fits so far.
        self.n_series = 0
        #: Number of fits of operators so far.
        self.n_timed = 0
        #: Numbers of operators in each rung.
        self.sizes = [sum(bool(candidate.limits) and not candidate.is_out for candidate in candidates)]
        while self.sizes[-1] > _FINALISTS:
            self.sizes.append(max(_FINALISTS, -(-self.sizes[-1] // _KEPT)))
        if len(self.sizes) == 1 and self.sizes[0] and final_seconds:
            # Two trainings of different length tell how the error falls.
            self.sizes *= 2

    def run(self) -> None:
        """Compare all candidates, and rank those of the last rung."""
        with shared_between_fits():
            self._run()

    def _run(self) -> None:
        """Compare all candidates, and rank those of the last rung, where fits on the same samples share their base."""
        taken = [candidate for candidate in self.candidates if not candidate.is_out]
        classical = [candidate for candidate in taken if not candidate.limits]
        timed = [candidate for candidate in taken if candidate.limits]
        n_rungs = len(self.sizes)
        self._start_processes()
        self._fit_classical(classical, _CLASSICAL if timed else 1.0)
        rung, untried = 0, self._untried(classical, timed)
        timed = [] if untried else timed
        self._fit_base(timed)
        for rung in range(1, n_rungs + 1):
            # A final fit within a time limit leaves no time for a training on every fold that would tell something.
            folds = range(len(self.folds) if rung == n_rungs and not self.final_seconds else 1)
            self._fit_timed(timed, folds, self._part(rung), _KEPT ** float(rung - n_rungs))
            timed = [candidate for candidate in timed if candidate.is_alive]
            for candidate in timed:
                candidate.rung = rung
            if rung == n_rungs or (timed and self._left() < self._longest(timed)):
                # Without time for a longer training this one counts.
                break
            self._rank([*(candidate for candidate in classical if candidate.is_alive), *timed])
            timed = self._kept(timed, self.sizes[rung], rung)
            self._tell_rung(rung, timed)
        finalists = [candidate for candidate in (*classical, *timed) if candidate.is_alive]
        if not finalists:
            words = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in self.candidates)
            raise FieldDataError(f"no candidate could be fitted. {words}")
        for candidate in finalists:
            candidate.rung = rung
        self._rank(finalists)
        for candidate in untried:
            candidate.status, candidate.rung = "compared", rung
            candidate.reason = "not tried: it contains the other models, and adds what held-out samples support"
            candidate.expected = min(other.expected for other in finalists if other.may_be_base)
        self.ranked = [*finalists, *untried]
        self._tell_rung(rung, finalists)

    def _untried(self, classical: list[Candidate], timed: list[Candidate]) -> list[Candidate]:
        """The only operator, if it contains all other models: a comparison would only cost time for its training."""
        bases = [candidate for candidate in classical if candidate.may_be_base]
        others = [candidate for candidate in classical if candidate.is_alive and not candidate.may_be_base]
        is_known = any(candidate.is_alive for candidate in bases)
        if len(timed) != 1 or others or not (timed[0].has_base and self.final_seconds and is_known):
            return []
        data, every = TrainingData(self.samples.inputs, self.samples.targets, self.samples.spec), len(self.samples)
        why_not = getattr(timed[0].estimator, "_why_no_base", None)
        if why_not is not None and why_not(data, np.arange(every), DIRECT_TRAINING):
            # Without a base, for example with too few samples, it may be worse than the model.
            return []
        return timed

    def _fit_base(self, timed: list[Candidate]) -> None:
        """Train the first operator over a base for one step, so that this has been fitted for all of them.

        Otherwise the first operator alone would pay for the fit of the base, and for everything that a first fit loads.
        """
        over = next((candidate for candidate in timed if candidate.has_base), None)
        if over is not None and self.deadline is not None and effective_n_jobs(self.n_jobs) == 1:
            self._take(over, 0, _try(_Task(over.for_seconds(_SHORTEST), _SHORTEST), self.samples, *self.folds[0]))

    def _start_processes(self) -> None:
        """Start processes, which takes seconds, and take this time from the search and the final fit alike."""
        n_workers = effective_n_jobs(self.n_jobs)
        if n_workers == 1 or self.deadline is None:
            return
        start, both = time.perf_counter(), self._left() + self.final_seconds
        list(self._parallel()(delayed(_flat)(np.zeros((1, 1))) for _ in range(n_workers)))
        spent = time.perf_counter() - start
        part = self.final_seconds / both
        self.deadline += part * spent
        self.final_seconds -= part * spent

    @staticmethod
    def _longest(timed: list[Candidate]) -> float:
        """Longest time limit of the last fits."""
        return max((candidate.trials[0].limit or 0.0 for candidate in timed), default=0.0)

    def _part(self, rung: int) -> float:
        """Part that a rung has of the time that is left when it begins."""
        if rung == len(self.sizes):
            return 1.0
        each = (1 - _LAST) / (len(self.sizes) - 1)
        return each / (1 - (rung - 1) * each)

    def _left(self, deadline: float | None = None) -> float:
        """Seconds until a deadline, by default that of the search."""
        until = self.deadline if deadline is None else deadline
        return np.inf if until is None else until - self.journal.now()

    # ------------------------------------------------------------------ fits
    def _fit_classical(self, candidates: list[Candidate], part: float) -> None:
        """Fit the models without a time limit on the first fold, and on the others if these count or are soon done."""
        until = None if self.deadline is None else self.journal.now() + part * self._left()
        first_counts = part < 1 and self.final_seconds > 0
        others = range(1, len(self.folds))

        def configure(candidate: Candidate, _: int) -> _Task | None:
            if until is None:
                return _Task(clone(candidate.estimator))
            # As many seconds for a fit as let those on all folds that count end in time.
            most = self._left(until) / (1 if first_counts else len(self.folds))
            return _Task(clone(candidate.estimator), most=most) if most > 0 else None

        self._fit([(candidate, 0) for candidate in candidates], configure)
        alive = [candidate for candidate in candidates if candidate.is_alive]
        seconds = len(others) * sum(candidate.trials[0].seconds for candidate in alive)
        if first_counts and seconds > self._left(until):
            return
        pairs = [(candidate, fold) for candidate in alive for fold in others]
        self._fit(pairs, lambda candidate, _: _Task(clone(candidate.estimator)))

    def _fit_timed(self, candidates: list[Candidate], folds: range, part: float, epochs: float) -> None:
        """Fit operators on folds for a part of the time left, or of their epochs."""
        pairs = [(candidate, fold) for fold in folds for candidate in candidates]
        n_workers, total = effective_n_jobs(self.n_jobs), part * max(self._left(), 0.0)
        until = None if self.deadline is None else self.journal.now() + total
        usual = total / max(-(-len(pairs) // n_workers), 1)
        # The same for all, so that all train for the same time; the first fit of a process has loaded something.
        overhead = float(np.median([candidate.overhead for candidate in candidates])) if candidates else 0.0

        def configure(candidate: Candidate, n_left: int) -> _Task | None:
            if until is None:
                return _Task(candidate.for_part(epochs))
            # A first fit that compiles or loads something takes time from later rungs, not from other candidates.
            share = max(self._left(until) / -(-n_left // n_workers), usual / 2)
            has_result = n_left < len(pairs) or any(other.trials for other in self.candidates)
            if self._left() < share and not candidate.trials and has_result:
                return None
            # A fit that was killed is made again with the same limit.
            seconds = self.journal.once(
                f"limit of {self.n_series} {candidate.name} {n_left}",
                lambda: max(min(share, self._left()) - min(overhead, share / 2), _SHORTEST),
            )
            return _Task(candidate.for_seconds(seconds), limit=seconds)

        self._fit(pairs, configure)

    def _fit(self, pairs: list[tuple[Candidate, int]], configure: Callable[[Candidate, int], _Task | None]) -> None:
        """Fit candidates on folds, each with settings that are made when its turn comes, and store the results."""
        queue = list(pairs)
        started: list[tuple[Candidate, int]] = []
        self.n_series += 1
        series = self.n_series

        def name_of(candidate: Candidate, fold: int) -> str:
            """Name of a fit in the journal."""
            return f"fit of {series} {candidate.name} {fold}"

        def calls() -> Iterator[Any]:
            while queue:
                task = None if queue[0][0].is_out else configure(queue[0][0], len(queue))
                candidate, fold = queue.pop(0)
                if task is not None:
                    started.append((candidate, fold))
                    yield delayed(_try)(task, self.samples, *self.folds[fold])
                elif not candidate.is_out:
                    self.journal.put(name_of(candidate, fold), {})

        # Fits that were made before the search was killed.
        while queue and (queue[0][0].is_out or (held := self.journal.get(name_of(*queue[0]))) is not None):
            candidate, fold = queue.pop(0)
            if not candidate.is_out and held:
                self._take(candidate, fold, _as_result(held))
        while queue:
            try:
                for result in self._parallel()(calls()):
                    candidate, fold = started.pop(0)
                    self.journal.put(name_of(candidate, fold), asdict(result))
                    self._take(candidate, fold, result)
            except BrokenProcessPool:
                while started:
                    started.pop()[0].drop("failed", _KILLED)

    def _take(self, candidate: Candidate, fold: int, result: _Trial | _Failure) -> None:
        """Store the result of a fit."""
        if isinstance(result, _Failure):
            candidate.drop(result.status, result.reason)
            candidate.is_slow = result.is_slow
            return
        if result.limit is not None:
            self.n_timed += 1
            if self.n_timed > effective_n_jobs(self.n_jobs):
                candidate.overheads.append(result.seconds - result.limit)
        if not candidate.is_out:
            candidate.trials[fold] = result
            candidate.status, candidate.reason = "compared", ""

    def _parallel(self) -> Parallel:
        """Run calls by joblib, each made when its turn comes, and give the results in their order."""
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "pre_dispatch": "n_jobs", "batch_size": 1}
        try:
            return Parallel(**options, return_as="generator")
        except ValueError:
            # Backends on a pool of multiprocessing, such as that of Ray, give all results at the end.
            return Parallel(**options)

    # ------------------------------------------------------------------ ranks
    def _rank(self, candidates: list[Candidate]) -> None:
        """Set errors on the folds that candidates share, and spreads over those of each, and store the candidates."""
        folds = [fold for fold in range(len(self.folds)) if all(fold in candidate.trials for candidate in candidates)]
        rows = np.concatenate([self.folds[fold][1] for fold in folds])
        joined = [_joined([candidate.trials[fold].predicted for fold in folds]) for candidate in candidates]
        self.ranked, self.residuals = candidates, self._residuals_of(rows, joined)
        for candidate, one in zip(candidates, np.eye(len(candidates)), strict=True):
            candidate.error = self.residuals.error(one)
            errors = {fold: self._error_on(fold, trial) for fold, trial in candidate.trials.items()}
            candidate.spread = float(np.std(list(errors.values()))) if len(errors) > 1 else np.nan
            limit = candidate.trials[0].limit
            if limit is not None:
                candidate.curve.append((limit, errors[0]))
            candidate.expected = candidate.gain(self.final_seconds) * candidate.error
            candidate.rank_error = candidate.error
        base = min((candidate.error for candidate in candidates if candidate.may_be_base), default=np.inf)
        for candidate in candidates:
            if not candidate.has_base:
                continue
            if abs(candidate.error - base) <= (1 - OF_USE) * base:
                # Its network adds nothing yet. Differences between such operators do not tell which will be the best,
                # so the first one is taken.
                candidate.rank_error = candidate.expected = base
            elif candidate.expected <= (1 + _TIE) * base:
                # After a long training it is not worse than its base.
                candidate.expected = min(candidate.expected, base)

    def _residuals_of(self, rows: IntArray, found: list[Predictions]) -> _Residuals:
        """Residuals of predictions of some of the samples."""
        weight = self.samples.weight
        return _Residuals(self.samples.targets[rows], found, None if weight is None else weight[rows])

    def _error_on(self, fold: int, trial: _Trial) -> float:
        """Error on one fold."""
        return self._residuals_of(self.folds[fold][1], [trial.predicted]).error(np.ones(1))

    def _kept(self, candidates: list[Candidate], count: int, rung: int) -> list[Candidate]:
        """The best, of two kinds if there are, after a rung."""
        order = sorted(candidates, key=lambda candidate: candidate.rank_error)
        kept = order[:count]
        others = [candidate for candidate in order if candidate.kind != order[0].kind]
        if others and count > 1 and all(candidate.kind == order[0].kind for candidate in kept):
            kept[-1] = others[0]
        for candidate in order:
            if candidate not in kept:
                candidate.drop("stopped", f"after rung {rung}")
        return kept

    def fit_members(self, ensemble: str, deadline: float | None) -> None:
        """Choose candidates and fit them on all samples.

        Parameters
        ----------
        ensemble : {"auto", "greedy", "best"}
            Kind of the result.
        deadline : float or None
            Time at which the fits end, by `time.perf_counter`; None fits operators for all of their epochs.
        """
        self._choose(ensemble)
        while True:
            members = [candidate for candidate in self.ranked if candidate.weight > 0]
            # Operators take the time that the others leave.
            members.sort(key=lambda candidate: bool(candidate.limits))
            self._fit_on_all([candidate for candidate in members if candidate.fitted is None], deadline)
            fitted = [candidate for candidate in members if candidate.fitted is not None]
            total = sum(candidate.weight for candidate in fitted)
            for candidate in fitted:
                candidate.weight /= total
            if fitted:
                return
            left = [candidate for candidate in self.ranked if candidate.is_alive]
            if not left:
                words = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in self.ranked)
                raise FieldDataError(f"no candidate could be fitted on all samples. {words}")
            min(left, key=lambda candidate: candidate.expected).weight = 1.0

    def _choose(self, ensemble: str) -> None:
        """Set the weights of the finalists, by the errors that are expected of their final fits."""
        if untried := [candidate for candidate in self.ranked if not candidate.trials]:
            untried[0].weight = 1.0
            return
        over = min((candidate.expected for candidate in self.ranked if candidate.has_base), default=np.inf)
        # The base of an operator needs no weight of its own; a short training would overstate it.
        members = [i for i, one in enumerate(self.ranked) if not (one.may_be_base and over <= one.expected)]
        best = min(members, key=lambda i: (self.ranked[i].expected, self.ranked[i].rank_error))
        weights = np.eye(len(self.ranked))[best]
        # A few held-out samples would support a weight of the mean by chance, which pulls all predictions to it.
        members = [i for i in members if not self.ranked[i].is_mean]
        if ensemble != "best" and best in members:
            # Two operators share the time.
            gains = np.array([candidate.gain(self.final_seconds / _FINALISTS) for candidate in self.ranked])
            mixed = _greedy_weights(self.residuals, gains, members)
            if ensemble == "greedy" or self.residuals.error(mixed, gains) <= OF_USE * self.ranked[best].expected:
                weights = mixed
        for candidate, weight in zip(self.ranked, weights, strict=True):
            candidate.weight = float(weight)

    def _fit_on_all(self, members: list[Candidate], deadline: float | None) -> None:
        """Fit members of the result; one that fails gets no weight."""
        n_workers, growth = effective_n_jobs(self.n_jobs), len(self.samples) / len(self.folds[0][0])

        def calls() -> Iterator[Any]:
            for number, candidate in enumerate(members):
                estimator = clone(candidate.estimator)
                if candidate.limits and deadline is not None:
                    share = self._left(deadline) / -(-(len(members) - number) // n_workers)
                    seconds = self.journal.once(
                        f"final limit of {candidate.name}",
                        partial(max, share - min(growth * candidate.overhead, share / 2), _SHORTEST),
                    )
                    estimator = candidate.for_seconds(seconds)
                yield delayed(_fit_on_all)(estimator, self.samples)

        waiting = list(members)
        try:
            for result in self._parallel()(calls()):
                candidate = waiting.pop(0)
                if isinstance(result, _Failure):
                    candidate.drop("failed", f"in the fit on all samples: {result.reason}")
                else:
                    candidate.fitted, candidate.status = result, "chosen"
        except BrokenProcessPool:
            for candidate in waiting:
                candidate.drop("failed", f"in the fit on all samples: {_KILLED}")
        for candidate in members:
            candidate.weight *= candidate.fitted is not None

    # ------------------------------------------------------------------ words
    def tell_plan(self, max_time: float | None) -> None:
        """Say what will be done."""
        if not self.verbose:
            return
        rungs = f"{len(self.sizes)} rung{'s' * (len(self.sizes) > 1)}"
        limit = "by epochs, without a time limit"
        if max_time is not None:
            seconds = in_words(round(max(self._left(), 0.0)))
            limit = f"{seconds} for this of {in_words(max_time)} in all"
        self._say(f"{len(self.candidates)} candidates in {rungs}, {len(self.folds)} folds; {limit}.")

    def _tell_rung(self, rung: int, candidates: list[Candidate]) -> None:
        """Say who leads after a rung."""
        if self.verbose < 2 or not candidates:
            return
        order = sorted(candidates, key=lambda candidate: candidate.expected)
        best = ", ".join(f"{candidate.name} {candidate.error:.3g}" for candidate in order[:3])
        left = "" if self.deadline is None else f" {in_words(round(max(self._left(), 0.0)))} of the search left."
        self._say(f"rung {rung} of {len(self.sizes)}: {best}.{left}")

    def _say(self, words: str) -> None:
        """Write a line."""
        # Under pythonw there is no standard error.
        if sys.stderr is not None:
            print(f"{self.title}: {words}", file=sys.stderr, flush=True)

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table, first the chosen candidates and then the best of the last rung."""
        order = sorted(
            self.candidates,
            key=lambda one: (
                *(one.status != "chosen", not one.is_ranked, -one.rung),
                *(np.nan_to_num(one.expected, nan=np.inf), one.may_be_base),
            ),
        )
        return [candidate.row() for candidate in order]


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


def _joined(parts: list[Predictions]) -> Predictions:
    """Predictions of successive samples, fields as rows of points."""
    fields = [_flat(part.fields) for part in parts if part.fields is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    return Predictions(np.concatenate(fields) if fields else None, np.concatenate(scalars) if scalars else None)
