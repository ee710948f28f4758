"""AutoRegressor: choose among classical models and operators by cross-validation within one time budget.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, m models, F folds.
"""

from __future__ import annotations

import inspect
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skop._optional import import_optional
from skop._sklearn_compat import HasMethods, Interval, StrOptions, fit_context
from skop._typing import FloatArray, IntArray
from skop.data import DataSpec, FieldSet, Predictions, Targets, TrainingData
from skop.estimators._amo import AMORegressor
from skop.estimators._base import _is_called_by_another_tool
from skop.estimators._baselines import PODRegressor
from skop.estimators._domain import SeenRanges
from skop.estimators._field import FieldRegressor, checked_by_caller, restored_on_failure
from skop.estimators._geomano import GeoMaNORegressor
from skop.estimators._lamo import LaMORegressor
from skop.estimators._mno import MNORegressor
from skop.estimators._options import SymmetryOptions
from skop.exceptions import FieldDataError, NonFinitePredictionError, each_warning_once
from skop.metrics import channel_sizes
from skop.training import in_words

__all__ = ["AutoRegressor", "compare"]

#: Part of the budget for the search. The final fit of an operator takes the rest: its error still falls when the order
#: of the candidates has long been clear.
_SEARCH = 0.4
#: Part of the time of the search for models without a time limit, where there are others. They need seconds or are left
#: out.
_CLASSICAL = 0.3
#: Part of the search, after these models, for the last rung, which fits two operators on every fold.
_LAST = 2 / 3
#: Each rung keeps one operator of this number, down to two.
_KEPT = 3
_FINALISTS = 2
#: Number of models that a greedy ensemble adds at most, and the gain from which ``ensemble="auto"`` takes it.
_ROUNDS, _GAIN = 10, 0.02
#: Number of epochs of the default operators under a time limit, which ends them before.
_MANY_EPOCHS = 10**6
#: Shortest training in seconds that is worth a start.
_SHORTEST = 0.02
#: Number of samples from which a model without a time limit is first timed on parts; and the highest power of it
#: with which the time is taken to grow.
_TIMED_SAMPLES, _HIGHEST_POWER = 200, 3.0
#: Time limit in seconds from which a fit says what it will do.
_LONG = 60.0


class AutoRegressor(FieldRegressor):
    """Choose the model for the data, among classical ones and operators, within one time budget.

    Candidates are compared by cross-validation. Those that can be stopped at any time, the operators, are compared by
    successive halving: in each rung they are trained for the same time, and the best go on to the next one with more.
    The best candidate, or a weighted ensemble of the best, is then fitted on all samples.

    Parameters
    ----------
    candidates : list of (str, estimator) or None, default=None
        Models to choose from, by name. Any estimator with `fit` and `predict` on FieldSets, or for plain tables on
        arrays, such as a scikit-learn regressor. None takes `PODRegressor` with the mean, ridge regression, a Gaussian
        process and its defaults; `LaMORegressor` with default and with greater width, and with latent tokens on grids;
        `GeoMaNORegressor`, `MNORegressor` and `AMORegressor`.
    max_time : float or None, default=600
        Budget in seconds for the whole fit. None compares by numbers of epochs instead, fractions of each candidate's
        own `max_iter`; results then repeat exactly, and take as long as they take.
    ensemble : {"auto", "greedy", "best"}, default="auto"
        Result of the search. ``"best"``: the candidate with the lowest error. ``"greedy"``: weighted mean of
        candidates, to which one at a time is added, with replacement, so that the error on held-out samples becomes
        lowest. ``"auto"``: this mean if it lowers the error by 2 % or more, else the best.
    cv : int or splitter, default=3
        Number of folds, at most as many as samples or groups, whose samples are drawn at random; or a splitter of
        scikit-learn. Rungs before the last use the first fold only.
    symmetries : sequence of str, SymmetryOptions or None, default=None
        Symmetries of the problem, for every candidate that has this parameter and declares none of its own; see
        `skop.SymmetryOptions`.
    input_fields, target_fields : list of str or None, default=None
        Names of the mesh fields that are inputs and targets.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and predicting
        all fields at the centres of the cells, see `skop.data.read_meshes`.
    n_jobs : int or None, default=None
        Number of fits at a time, by joblib, each in a separate process with its share of the threads; None means one
        after the other. Within ``joblib.parallel_config("dask")`` or ``("ray")`` fits run on that cluster.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of candidates without a seed of their own. With a time budget another speed of the
        machine can still change the choice.
    verbose : "auto", bool or int, default="auto"
        Amount of output on standard error. ``"auto"``: one line about the plan if the budget is a minute or more,
        unless another tool calls the fit. False or 0: none. True or 1: also a line after each rung.

    Attributes
    ----------
    estimators_ : list of estimators
        Members of the result, fitted on all samples, as FieldSets or tables of numbers.
    weights_ : ndarray of shape (n_members,)
        Their weights in the mean; they sum to 1.
    results_ : list of dict
        Rows of `leaderboard_`.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.

    See Also
    --------
    compare : The table alone.
    EnsembleRegressor : Several fits of one estimator.

    Notes
    -----
    The search has 40 % of the budget, of which models without a time limit of their own get at most 30 %: each is first
    timed on parts of the samples, and left out if it would take longer. The final fit takes the rest of the
    budget. One training step, and one fit of a model without a time limit, are never cut short, so a budget below the
    time of a few steps is exceeded.

    Errors of operators in the table are those of their short training on a part of the samples; the final fit is
    longer. The last rung keeps operators of two kinds, because a short training says little about a long one.

    References
    ----------
    K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016,
    for successive halving. R. Caruana, A. Niculescu-Mizil, G. Crew, A. Ksikes, "Ensemble selection from libraries of
    models", ICML 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import AutoRegressor, LaMORegressor, PODRegressor
    >>> X = np.random.default_rng(0).random((30, 2))
    >>> y = np.sin(X[:, :1] + X[:, 1:] * np.linspace(0, 1, 12))[..., None]
    >>> candidates = [("POD", PODRegressor(regressor="gaussian_process")), ("LaMO", LaMORegressor(width=8, depth=1))]
    >>> model = AutoRegressor(candidates=candidates, max_time=1, ensemble="best", random_state=0)
    >>> model.fit(X, (np.linspace(0, 1, 12)[:, None], y)).results_[0]["candidate"]
    'POD'
    """

    _takes_other_points = True

    _parameter_constraints = {
        "candidates": ["array-like", None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "ensemble": [StrOptions({"auto", "greedy", "best"})],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split", "get_n_splits"])],
        "symmetries": ["array-like", SymmetryOptions, None],
        "input_fields": ["array-like", None],
        "target_fields": ["array-like", None],
        "cell_data": [StrOptions({"refuse", "to_points", "cells"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose", StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        candidates: Any = None,
        max_time: float | None = 600,
        ensemble: str = "auto",
        cv: Any = 3,
        symmetries: Any = None,
        input_fields: Any = None,
        target_fields: Any = None,
        cell_data: str = "refuse",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int | str = "auto",
    ) -> None:
        self.candidates = candidates
        self.max_time = max_time
        self.ensemble = ensemble
        self.cv = cv
        self.symmetries = symmetries
        self.input_fields = input_fields
        self.target_fields = target_fields
        self.cell_data = cell_data
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, *, groups: Any = None, params: Any = None) -> Self:
        """Compare the candidates, and fit the best on all samples.

        Parameters
        ----------
        X, y : as in `LaMORegressor.fit`
            Inputs and targets.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, such as runs of one geometry, which no fold of the cross-validation splits.
        params : as in `LaMORegressor.fit`
            Global parameters of the runs beside fields or meshes.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used, there are fewer than two samples or groups, or no candidate takes the data; a
            ValueError.
        KeyboardInterrupt
            If the user interrupts; an earlier fit is kept.
        """
        start = time.perf_counter()
        with restored_on_failure(self), each_warning_once():
            search, data = self._search(X, y, groups, params, start, _SEARCH)
            search.run()
            search.fit_members(self.ensemble, None if self.max_time is None else start + self.max_time)
            self._store_spec(data.inputs, data.spec)
            self.ranges_ = SeenRanges.from_fit(data.inputs, data.input_extremes)
            if data.spec.target_points == "shared" and data.targets.field is not None:
                self.coords_ = data.targets.field.coords
            chosen = [candidate for candidate in search.candidates if candidate.fitted is not None]
            chosen.sort(key=lambda candidate: -candidate.weight)
            self.estimators_ = [candidate.fitted for candidate in chosen]
            self.weights_ = np.array([candidate.weight for candidate in chosen])
            self.results_ = search.rows()
        return self

    def _search(
        self, X: Any, y: Any, groups: Any, params: Any, start: float, part: float
    ) -> tuple[_Search, TrainingData]:
        """Read the data and make the search, which takes a part of the budget."""
        data = self._read(X, y, params=params)
        rng = check_random_state(self.random_state)
        folds = _make_folds(self.cv, len(data.inputs), groups, rng)
        given = _default_candidates(data.spec, self.max_time) if self.candidates is None else self.candidates
        candidates = _checked_candidates(given, rng, self.symmetries)
        verbose = int((self.max_time or 0.0) >= _LONG) if self.verbose == "auto" else 2 * int(self.verbose)
        if self.verbose == "auto" and _is_called_by_another_tool():
            verbose = 0
        samples = _Samples(data.inputs, data.targets, data.spec)
        deadline = None if self.max_time is None else start + part * self.max_time
        search = _Search(candidates, samples, folds, deadline, self.n_jobs, int(verbose), type(self).__name__)
        search.tell_plan(self.max_time)
        return search, data

    @property
    def leaderboard_(self) -> Any:
        """Results of the comparison as a DataFrame, the best candidate first.

        Columns: ``candidate``; ``error``, mean relative L2 error on held-out samples (1 minus the score); ``spread``,
        its standard deviation over the folds; ``fit_seconds`` of one fold; ``predict_ms`` for one sample; ``model_mb``,
        the size of the fitted model in megabytes, as pickled; ``rung``, the last one that it took part in; ``weight``
        in the result; ``status`` (``"chosen"``, ``"compared"`` in the last rung, ``"stopped"`` before, ``"left out"``
        since it cannot take the data or would take too long, ``"failed"``, or ``"not reached"`` within the budget); and
        ``reason``.
        """
        check_is_fitted(self, "results_")
        return _as_table(self.results_)

    # ------------------------------------------------------------------ prediction
    def predict(self, X: Any, coords: Any = None, return_std: bool = False, *, params: Any = None) -> Any:
        """Predict by the chosen model, or the weighted mean of the ensemble.

        Parameters
        ----------
        X : as in `fit`
            Inputs.
        coords : as in `LaMORegressor.predict`, or None, default=None
            Points at which fields are predicted; None gives the points of X, or those of y in the fit.
        return_std : bool, default=False
            Whether to return a standard deviation too: of the members about their mean, and of each member by itself if
            its `predict` has `return_std`. It is not calibrated as an error bar.
        params : as in `fit`
            Global parameters beside fields or meshes.

        Returns
        -------
        mean : ndarray, list, FieldSet, (coords, fields), list of meshes, DataFrame or Series
            Prediction, in the form of the y of the fit.
        spread : of the same form
            Standard deviation; only if `return_std` is True.

        Raises
        ------
        FieldDataError
            If X has another form than in the fit, or there is one member, which has no spread.
        """
        with each_warning_once():
            inputs, points, meshes = self._read_query(X, coords, params)
            self._warn_if_outside(inputs)
            found = self._members_at(inputs, points)
            target, labels = (self._places(inputs, points, found[0][1]), meshes), self._labels(X)
            mean = self._restore(_weighted([part for part, _ in found], self.weights_), *target, labels)
            if not return_std:
                return mean
            spread = self._spread(inputs, points, [part for part, _ in found])
            return mean, self._restore_spread(mean, spread, *target, labels)

    def _members_at(self, inputs: FieldSet, coords: Any) -> list[tuple[Predictions, Any]]:
        """Predictions of the members at points, each also as it came."""
        X = _as_input(inputs, self.spec_)
        options = {} if coords is None else {"coords": coords}
        with checked_by_caller():
            found = [member.predict(X, **options) for member in self.estimators_]
        return [(_as_predictions(part, len(inputs)), part) for part in found]

    def _places(self, inputs: FieldSet, coords: Any, found: Any) -> FieldSet:
        """Points of a prediction."""
        return inputs if coords is None and self.spec_.target_points == "inputs" else found

    def _spread(self, inputs: FieldSet, coords: Any, means: list[Predictions]) -> Predictions:
        """Standard deviation of the mixture of the members."""
        X = _as_input(inputs, self.spec_)
        options = {} if coords is None else {"coords": coords}
        own: list[Predictions | None] = []
        with checked_by_caller():
            for member in self.estimators_:
                own.append(None)
                if "return_std" in inspect.signature(member.predict).parameters:
                    try:
                        found = member.predict(X, return_std=True, **options)[1]
                    except ValueError:
                        # Its regressor has none.
                        continue
                    own[-1] = _as_predictions(found, len(inputs))
        if len(own) == 1 and own[0] is None:
            raise FieldDataError(
                f"return_std=True needs a spread, but the chosen model is one {type(self.estimators_[0]).__name__} "
                "without any; fit with ensemble='greedy', or with candidates such as EnsembleRegressor."
            )
        center = _weighted(means, self.weights_)
        parts: list[Any] = []
        for name in ("fields", "scalars"):
            middle = getattr(center, name)
            if middle is None:
                parts.append(None)
                continue
            total = np.zeros_like(middle)
            for weight, mean, spread in zip(self.weights_, means, own, strict=True):
                total += weight * (getattr(mean, name) - middle) ** 2
                if spread is not None:
                    total += weight * getattr(spread, name) ** 2
            parts.append(np.sqrt(total))
        return Predictions(*parts)

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Weighted mean of the members in physical units."""
        return _weighted([part for part, _ in self._members_at(inputs, None)], self.weights_)

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Weighted mean of the members at other points."""
        found = self._members_at(inputs, coords)
        return _weighted([part for part, _ in found], self.weights_), found[0][1]


def compare(
    X: Any, y: Any = None, *, max_time: float | None = 600, groups: Any = None, params: Any = None, **options: Any
) -> Any:
    """Compare classical models and operators on samples by cross-validation, within one time budget.

    This is the search of `AutoRegressor` without its final fit, with all of the budget.

    Parameters
    ----------
    X, y : as in `LaMORegressor.fit`
        Inputs and targets.
    max_time : float or None, default=600
        Budget in seconds; None compares by numbers of epochs.
    groups : array-like of shape (n,) or None, default=None
        Labels of groups of samples, which no fold splits.
    params : as in `LaMORegressor.fit`, default=None
        Global parameters of the runs beside fields or meshes.
    **options
        Further parameters of `AutoRegressor`, such as `candidates`, `cv` and `symmetries`.

    Returns
    -------
    pandas.DataFrame
        Table with one row for each candidate, the best first, as described for `AutoRegressor.leaderboard_`.

    Raises
    ------
    FieldDataError
        If X or y cannot be used, or no candidate takes the data; a ValueError.
    OptionalDependencyError
        If pandas is not installed.

    See Also
    --------
    AutoRegressor : Also fits the best candidate on all samples.
    skop.inspection.compare_models : Fits given models on given samples, and evaluates them on others.

    Examples
    --------
    >>> import numpy as np, skop
    >>> X = np.random.default_rng(0).random((30, 3))
    >>> candidates = [("mean", skop.PODRegressor(regressor="mean")), ("ridge", skop.PODRegressor(regressor="ridge"))]
    >>> skop.compare(X, X.sum(axis=1), max_time=1, candidates=candidates)[["candidate", "status"]]
      candidate    status
    0     ridge  compared
    1      mean  compared
    """
    start = time.perf_counter()
    import_optional("pandas", extra="data", purpose="return a table")
    model = AutoRegressor(max_time=max_time, **options)
    model._validate_params()
    with each_warning_once():
        search, _ = model._search(X, y, groups, params, start, 1.0)
        search.run()
    return _as_table(search.rows())


# ---------------------------------------------------------------------- candidates
def _default_candidates(spec: DataSpec, max_time: float | None) -> list[tuple[str, Any]]:
    """Models for the kind of the data, the quickest first."""
    many: dict[str, Any] = {} if max_time is None else {"max_iter": _MANY_EPOCHS}
    # Nearly all modes: a fixed share of the variance cuts those that carry a small signal.
    modes: dict[str, Any] = {"n_components": 0.9999}
    found: list[tuple[str, Any]] = [
        ("mean", PODRegressor(regressor="mean")),
        ("POD + ridge", PODRegressor(regressor="ridge", **modes)),
        ("POD + Gaussian process", PODRegressor(regressor="gaussian_process", **modes)),
        ("POD", PODRegressor()),
        ("LaMO", LaMORegressor(**many)),
        ("GeoMaNO", GeoMaNORegressor(grid="auto", **many)),
        ("MNO", MNORegressor(**many)),
        ("AMO", AMORegressor(**many)),
        ("LaMO, wide", LaMORegressor(width=128, **many)),
    ]
    if spec.role == "fields" and spec.geometry != "points":
        found.append(("LaMO, latent tokens", LaMORegressor(geometry="points", **many)))
    return found


@dataclass
class _Candidate:
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
    error, spread : float
        Error over all folds of the last rung, or on the first fold before; and its standard deviation over the folds.
    weight : float
        Weight in the result.
    fitted : estimator or None
        Model fitted on all samples.
    """

    name: str
    estimator: Any
    limits: tuple[str, ...]
    trials: dict[int, _Trial] = field(default_factory=dict)
    rung: int = 0
    status: str = "not reached"
    reason: str = "the budget was spent before"
    error: float = np.nan
    spread: float = np.nan
    weight: float = 0.0
    fitted: Any = None

    @property
    def kind(self) -> str:
        """Class of the model, or of the one that it wraps."""
        return type(getattr(self.estimator, "estimator", self.estimator)).__name__

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self.status == "compared"

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

    @property
    def overhead(self) -> float:
        """Seconds by which its fits took longer than their time limit."""
        return max((trial.seconds - trial.limit for trial in self.trials.values() if trial.limit), default=0.0)

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
            "spread": self.spread,
            "fit_seconds": mean["seconds"],
            "predict_ms": 1e3 * mean["predict_seconds"],
            "model_mb": mean["size"] / 1e6,
            "rung": self.rung,
            "weight": self.weight,
            "status": self.status,
            "reason": self.reason,
        }


def _checked_candidates(given: Any, rng: np.random.RandomState, symmetries: Any) -> list[_Candidate]:
    """Copies of the candidates, with seeds and symmetries where they have none."""
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
        candidates.append(_Candidate(item[0], estimator.set_params(**changes), limits))
    if not names or len(set(names)) < len(names):
        raise ValueError(f"candidates are named {names}; expected one or more different names.")
    return candidates


# ---------------------------------------------------------------------- samples and folds
@dataclass(frozen=True)
class _Samples:
    """Inputs and targets of the search."""

    inputs: FieldSet
    targets: Targets
    spec: DataSpec

    def __getitem__(self, rows: Any) -> _Samples:
        return replace(self, inputs=self.inputs[rows], targets=self.targets[rows])

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def X(self) -> Any:
        """Inputs as candidates take them: a table of features, or a FieldSet."""
        return _as_input(self.inputs, self.spec)

    @property
    def y(self) -> Any:
        """Targets as candidates take them."""
        fields, scalars = self.targets.field, self.targets.scalars
        if fields is not None:
            return fields if scalars is None else fields.with_params(scalars)
        values = np.asarray(scalars)
        return values[:, 0] if self.spec.target_form.squeezes_channel else values

    def predicted_by(self, model: Any) -> Predictions:
        """Predictions of a model at the points of the targets."""
        options = {"coords": self.targets.field} if self.targets.elsewhere else {}
        return _as_predictions(model.predict(self.X, **options), len(self))


def _as_input(inputs: FieldSet, spec: DataSpec) -> Any:
    """Inputs as members take them."""
    return np.asarray(inputs.params) if spec.role == "features" else inputs


def _as_predictions(found: Any, n_samples: int) -> Predictions:
    """What a model has predicted: a FieldSet, with scalars or without, or an array of scalars."""
    if isinstance(found, FieldSet):
        scalars = None if found.params is None else np.asarray(found.params, dtype=np.float64)
        return Predictions(np.asarray(found.values, dtype=np.float64), scalars)
    return Predictions(None, np.asarray(found, dtype=np.float64).reshape(n_samples, -1))


def _weighted(parts: Sequence[Predictions], weights: FloatArray) -> Predictions:
    """Weighted mean of predictions."""
    means = []
    for name in ("fields", "scalars"):
        held = [getattr(part, name) for part in parts]
        means.append(None if held[0] is None else sum(w * values for w, values in zip(weights, held, strict=True)))
    return Predictions(*means)


def _make_folds(cv: Any, n_samples: int, groups: Any, rng: np.random.RandomState) -> list[tuple[IntArray, IntArray]]:
    """Training and validation samples of each fold."""
    labels = None if groups is None else np.asarray(groups)
    if labels is not None and labels.shape != (n_samples,):
        raise FieldDataError(f"groups has shape {labels.shape}, expected ({n_samples},): one label for each sample.")
    seed = int(rng.randint(np.iinfo(np.int32).max))
    splitter = cv
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
    """

    predicted: Predictions
    seconds: float
    predict_seconds: float
    size: int
    limit: float | None


@dataclass(frozen=True)
class _Failure:
    """Reason why a candidate is out."""

    status: str
    reason: str


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


def _try(task: _Task, samples: _Samples, train: IntArray, valid: IntArray) -> _Trial | _Failure:
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
        return _Trial(predicted, seconds, predict_seconds, _size(model), task.limit)
    return attempt.failure


def _fit_on_all(estimator: Any, samples: _Samples) -> Any:
    """Fit a member of the result, in any process."""
    # The noise level of a Gaussian process on data without noise ends at its lower bound; that is correct.
    with _Attempt(ConvergenceWarning) as attempt:
        return _timed_fit(estimator, samples)[0]
    return attempt.failure


def _timed_fit(estimator: Any, samples: _Samples) -> tuple[Any, float]:
    """Fit, and measure the time."""
    start = time.perf_counter()
    return estimator.fit(samples.X, samples.y), time.perf_counter() - start


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
        self.failure = _Failure("left out" if refuses else "failed", words)
        return True


def _check_duration(estimator: Any, samples: _Samples, most: float) -> None:
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
        if seconds[-1] > most / 4:
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
    """

    def __init__(self, truth: Targets, models: Sequence[Predictions]) -> None:
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
        units = channel_sizes(true, kind="scalar") if true.shape[1] > 1 else np.ones(1)
        residuals = [(predicted - true) / units for predicted in found]
        products = np.empty((len(starts), len(found), len(found)))
        for i, first in enumerate(residuals):
            for j, second in enumerate(residuals[: i + 1]):
                products[:, i, j] = products[:, j, i] = np.add.reduceat((first * second).sum(axis=1), starts)
        self.parts.append((products, np.sqrt(np.add.reduceat(((true / units) ** 2).sum(axis=1), starts)), kind))

    def error(self, weights: FloatArray) -> float:
        """Mean relative L2 error of the weighted mean: 1 minus its score."""
        errors = []
        for products, norms, kind in self.parts:
            squares: FloatArray = np.maximum(np.einsum("nij,i,j->n", products, weights, weights), 0.0)
            whole = float(np.sqrt(np.mean(norms**2))) or 1.0
            if kind == "scalar":
                errors.append(float(np.sqrt(squares.mean())) / whole)
                continue
            # A sample of zeros is compared with the size of the others, as in `score`.
            errors.append(float(np.mean(np.sqrt(squares) / np.where(norms > 0, norms, whole))))
        return float(np.mean(errors))


def _flat(values: Any) -> FloatArray:
    """Values of all points or samples as rows."""
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(-1, array.shape[-1])


def _greedy_weights(residuals: _Residuals, n_models: int) -> FloatArray:
    """Weights by adding models one at a time, with replacement; the best mean on the way."""
    counts = np.zeros(n_models)
    best, lowest = counts, np.inf
    for number in range(1, _ROUNDS + 1):
        trials = [(counts + one) / number for one in np.eye(n_models)]
        errors = [residuals.error(weights) for weights in trials]
        chosen = int(np.argmin(errors))
        counts[chosen] += 1
        if errors[chosen] < lowest:
            best, lowest = trials[chosen], errors[chosen]
    return best


# ---------------------------------------------------------------------- search
class _Search:
    """Successive halving of candidates within a time.

    Parameters
    ----------
    candidates : list of _Candidate
        Models.
    samples : _Samples
        Data.
    folds : list of (train, valid)
        Rows of each fold.
    deadline : float or None
        Time at which the search ends, by `time.perf_counter`; None compares by epochs.
    n_jobs : int or None
        Number of fits at a time.
    verbose : int
        0: silent. 1: the plan. 2: also a line after each rung.
    title : str
        Beginning of each line.
    """

    def __init__(
        self,
        candidates: list[_Candidate],
        samples: _Samples,
        folds: list[tuple[IntArray, IntArray]],
        deadline: float | None,
        n_jobs: int | None,
        verbose: int,
        title: str,
    ) -> None:
        self.candidates, self.samples, self.folds = candidates, samples, folds
        self.deadline, self.n_jobs, self.verbose, self.title = deadline, n_jobs, verbose, title
        #: Numbers of operators in each rung.
        self.sizes = [sum(bool(candidate.limits) for candidate in candidates)]
        while self.sizes[-1] > _FINALISTS:
            self.sizes.append(max(_FINALISTS, -(-self.sizes[-1] // _KEPT)))

    def run(self) -> None:
        """Compare all candidates, and rank those of the last rung."""
        classical = [candidate for candidate in self.candidates if not candidate.limits]
        timed = [candidate for candidate in self.candidates if candidate.limits]
        all_folds, n_rungs = list(range(len(self.folds))), len(self.sizes)
        self._fit_classical(classical, _CLASSICAL if timed else 1.0)
        folds, rung = all_folds, 0
        for rung in range(1, n_rungs + 1):
            folds = all_folds if rung == n_rungs else [0]
            self._fit_timed(timed, folds, self._part(rung), _KEPT ** float(rung - n_rungs))
            timed = [candidate for candidate in timed if candidate.is_alive]
            for candidate in timed:
                candidate.rung = rung
            if rung == n_rungs or (timed and self._left() < _SHORTEST):
                # Without time for another rung the result of this one counts.
                break
            self._rank(timed, folds)
            timed = self._kept(timed, self.sizes[rung], rung)
            self._tell_rung(rung, timed)
        finalists = [candidate for candidate in (*classical, *timed) if candidate.is_alive]
        if not finalists:
            words = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in self.candidates)
            raise FieldDataError(f"no candidate could be fitted. {words}")
        for candidate in finalists:
            candidate.rung = rung
        self._rank(finalists, folds)
        self._tell_rung(rung, finalists)

    def _part(self, rung: int) -> float:
        """Part that a rung has of the time that is left when it begins."""
        if rung == len(self.sizes):
            return 1.0
        each = (1 - _LAST) / (len(self.sizes) - 1)
        return each / (1 - (rung - 1) * each)

    def _left(self, deadline: float | None = None) -> float:
        """Seconds until a deadline, by default that of the search."""
        until = self.deadline if deadline is None else deadline
        return np.inf if until is None else until - time.perf_counter()

    # ------------------------------------------------------------------ fits
    def _fit_classical(self, candidates: list[_Candidate], part: float) -> None:
        """Fit the models without a time limit on all folds, one fold first."""
        until = None if self.deadline is None else time.perf_counter() + part * self._left()
        n_folds = len(self.folds)

        def configure(candidate: _Candidate, _: int) -> _Task | None:
            if until is None:
                return _Task(clone(candidate.estimator))
            # As many seconds for a fit as let those on all folds end in time.
            most = self._left(until) / n_folds
            return _Task(clone(candidate.estimator), most=most) if most > 0 else None

        self._fit([(candidate, 0) for candidate in candidates], configure)
        alive = [candidate for candidate in candidates if candidate.is_alive]
        others = [(candidate, fold) for candidate in alive for fold in range(1, n_folds)]
        self._fit(others, lambda candidate, _: _Task(clone(candidate.estimator)))

    def _fit_timed(self, candidates: list[_Candidate], folds: list[int], part: float, epochs: float) -> None:
        """Fit operators on folds for a part of the time left, or of their epochs."""
        until = None if self.deadline is None else time.perf_counter() + part * max(self._left(), 0.0)
        n_workers = effective_n_jobs(self.n_jobs)

        def configure(candidate: _Candidate, n_left: int) -> _Task | None:
            if until is None:
                return _Task(candidate.for_part(epochs))
            seconds = self._left(until) / -(-n_left // n_workers) - candidate.overhead
            if seconds < _SHORTEST and any(other.trials for other in self.candidates) and not candidate.trials:
                return None
            seconds = max(seconds, _SHORTEST)
            return _Task(candidate.for_seconds(seconds), limit=seconds)

        self._fit([(candidate, fold) for fold in folds for candidate in candidates], configure)

    def _fit(self, pairs: list[tuple[_Candidate, int]], configure: Callable[[_Candidate, int], _Task | None]) -> None:
        """Fit candidates on folds, each with settings that are made when its turn comes, and store the results."""
        started: list[tuple[_Candidate, int]] = []

        def calls() -> Iterator[Any]:
            for number, (candidate, fold) in enumerate(pairs):
                task = None if candidate.is_out else configure(candidate, len(pairs) - number)
                if task is not None:
                    started.append((candidate, fold))
                    yield delayed(_try)(task, self.samples, *self.folds[fold])

        run = Parallel(n_jobs=self.n_jobs, pre_dispatch="n_jobs", batch_size=1, return_as="generator")
        for number, result in enumerate(run(calls())):
            candidate, fold = started[number]
            if isinstance(result, _Failure):
                candidate.drop(result.status, result.reason)
            elif not candidate.is_out:
                candidate.trials[fold] = result
                candidate.status, candidate.reason = "compared", ""

    # ------------------------------------------------------------------ ranks
    def _rank(self, candidates: list[_Candidate], folds: list[int]) -> None:
        """Set the errors on folds, and the spreads over them, and store the candidates, the best first."""
        rows = [self.folds[fold][1] for fold in folds]
        truths = [self.samples.targets[part] for part in rows]
        whole = self.samples.targets[np.concatenate(rows)]
        joined = [_joined([candidate.trials[fold].predicted for fold in folds]) for candidate in candidates]
        residuals = _Residuals(whole, joined)
        by_fold = [
            _Residuals(truth, [candidate.trials[fold].predicted for candidate in candidates])
            for truth, fold in zip(truths, folds, strict=True)
        ]
        ones = np.eye(len(candidates))
        for candidate, one in zip(candidates, ones, strict=True):
            candidate.error = residuals.error(one)
            candidate.spread = float(np.std([part.error(one) for part in by_fold])) if len(folds) > 1 else np.nan
        self.ranked, self.residuals = candidates, residuals

    def _kept(self, candidates: list[_Candidate], count: int, rung: int) -> list[_Candidate]:
        """The best, of two kinds if there are, after a rung."""
        order = sorted(candidates, key=lambda candidate: candidate.error)
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
            min(left, key=lambda candidate: candidate.error).weight = 1.0

    def _choose(self, ensemble: str) -> None:
        """Set the weights of the finalists."""
        errors = [candidate.error for candidate in self.ranked]
        weights = np.eye(len(errors))[int(np.argmin(errors))]
        if ensemble != "best":
            mixed = _greedy_weights(self.residuals, len(errors))
            gain = 0.0 if ensemble == "greedy" else _GAIN
            if self.residuals.error(mixed) <= (1 - gain) * min(errors):
                weights = mixed
        for candidate, weight in zip(self.ranked, weights, strict=True):
            candidate.weight = float(weight)

    def _fit_on_all(self, members: list[_Candidate], deadline: float | None) -> None:
        """Fit members of the result; one that fails gets no weight."""
        n_workers, growth = effective_n_jobs(self.n_jobs), len(self.samples) / len(self.folds[0][0])

        def calls() -> Iterator[Any]:
            for number, candidate in enumerate(members):
                estimator = clone(candidate.estimator)
                if candidate.limits and deadline is not None:
                    share = self._left(deadline) / -(-(len(members) - number) // n_workers)
                    estimator = candidate.for_seconds(max(share - growth * candidate.overhead, _SHORTEST))
                yield delayed(_fit_on_all)(estimator, self.samples)

        run = Parallel(n_jobs=self.n_jobs, pre_dispatch="n_jobs", batch_size=1, return_as="generator")
        for candidate, result in zip(members, run(calls()), strict=True):
            if isinstance(result, _Failure):
                candidate.drop("failed", f"in the fit on all samples: {result.reason}")
                candidate.weight = 0.0
            else:
                candidate.fitted, candidate.status = result, "chosen"

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

    def _tell_rung(self, rung: int, candidates: list[_Candidate]) -> None:
        """Say who leads after a rung."""
        if self.verbose < 2 or not candidates:
            return
        order = sorted(candidates, key=lambda candidate: candidate.error)
        best = ", ".join(f"{candidate.name} {candidate.error:.3g}" for candidate in order[:3])
        left = "" if self.deadline is None else f" {in_words(round(max(self._left(), 0.0)))} of the search left."
        self._say(f"rung {rung} of {len(self.sizes)}: {best}.{left}")

    def _say(self, words: str) -> None:
        """Write a line."""
        # Under pythonw there is no standard error.
        if sys.stderr is not None:
            print(f"{self.title}: {words}", file=sys.stderr, flush=True)

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table, the best candidate of the last rung first."""
        order = sorted(
            self.candidates,
            key=lambda one: (one.status not in ("chosen", "compared"), -one.rung, np.nan_to_num(one.error, nan=np.inf)),
        )
        return [candidate.row() for candidate in order]


def _joined(parts: list[Predictions]) -> Predictions:
    """Predictions of successive samples, fields as rows of points."""
    fields = [_flat(part.fields) for part in parts if part.fields is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    return Predictions(np.concatenate(fields) if fields else None, np.concatenate(scalars) if scalars else None)


def _as_table(rows: list[dict[str, Any]]) -> Any:
    """Rows as a DataFrame."""
    pandas = import_optional("pandas", extra="data", purpose="return a table")
    # Files keep the entries of a row in another order.
    return pandas.DataFrame(rows, columns=list(_Candidate("", None, ()).row()))
