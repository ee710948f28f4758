"""AutoRegressor: choose among classical models and operators by cross-validation within one time budget.

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, m models, F folds.
"""

from __future__ import annotations

import inspect
import sys
import time
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skop._jobs import workers_for
from skop._optional import import_optional
from skop._sklearn_compat import HasMethods, Interval, SequenceOf, StrOptions, fit_context, last_step
from skop.data import DataSpec, FieldSet, Predictions, TrainingData, refuse_mask
from skop.estimators._field import FieldRegressor, checked_by_caller, fitted_attributes, restored_on_failure
from skop.estimators._options import SymmetryOptions
from skop.estimators._parts import by_chunks
from skop.estimators._weights import check_weight, samples_with_weight
from skop.estimators._wrapper import as_input, as_predictions
from skop.estimators.classical._baselines import PODRegressor
from skop.estimators.files._file_checks import Held, check_same_outputs, check_takes, checks, is_one_of, tried
from skop.estimators.fitting._checkpoint import SearchJournal
from skop.estimators.operators._amo import AMORegressor
from skop.estimators.operators._geomano import GeoMaNORegressor
from skop.estimators.operators._lamo import LaMORegressor
from skop.estimators.operators._mno import MNORegressor
from skop.estimators.selection._search import (
    Candidate,
    Samples,
    Search,
    make_candidates,
    make_folds,
    weighted,
)
from skop.exceptions import FieldDataError, each_warning_once
from skop.training import is_watched, join_group

__all__ = ["AutoRegressor", "classical_candidates", "compare"]

#: Part of the budget for the search. The final fit gets the rest: it lowers the error by more in this time than the
#: choice of another operator would.
_SEARCH = 1 / 10
#: Word for the default candidates in a list of others.
_DEFAULT = "default"
#: Number of epochs of the default operators under a time limit, which ends the training sooner.
_MANY_EPOCHS = 10**6
#: Seconds of the search for each default operator: shorter trainings cannot rank operators.
_SECONDS_EACH = 60.0
#: Print the plan of the search from this time limit on, in seconds.
_LONG = 60.0


class AutoRegressor(FieldRegressor):
    """Choose the model for the data, among classical ones and operators, within one time budget.

    Candidates are compared by cross-validation. Operators, whose training can be stopped at any time, are compared by
    successive halving: in each rung they are trained for the same time, and the best go on to the next rung with more
    time. The best candidate, or a weighted ensemble of the best, is then fitted on all samples for the rest of the
    budget.

    Parameters
    ----------
    candidates : list of (str, estimator) and "default", or None, default=None
        Models to choose from, by name: any estimators with `fit` and `predict` on FieldSets, or for plain tables on
        arrays, such as scikit-learn regressors and Pipelines, whose steps receive any table unchanged. None takes the
        mean, `PODRegressor`, and operators with ``base="auto"``, one for each minute of the search and at least one,
        in this order: `LaMORegressor`, `AMORegressor`, LaMO with latent tokens on grids, `MNORegressor`,
        `GeoMaNORegressor`, a wide LaMO, and LaMO without a base. ``"default"`` in a list stands for all of these, as
        in ``["default", ("U-Net", UNetRegressor())]``.
    max_time : float or None, default=600
        Budget in seconds for the whole fit. None compares after fractions of each candidate's own `max_iter` epochs
        instead; results then repeat exactly, and the duration is not limited.
    ensemble : {"auto", "greedy", "best"}, default="auto"
        Result of the search. ``"best"``: the candidate with the lowest expected error. ``"greedy"``: a weighted mean of
        candidates. It is built by adding one candidate at a time, with replacement, the one that lowers the error on
        held-out samples most. ``"auto"``: this mean if it lowers the error by 2 % or more, else the best.
    cv : int, splitter or list of (train, valid), default=3
        Number of folds with samples drawn at random, at most as many as samples or groups; a splitter of scikit-learn;
        or the rows of each fold. Under a time limit operators see the first fold only.
    symmetries : sequence of str, SymmetryOptions or None, default=None
        Symmetries of the problem, for every candidate that has this parameter and declares none of its own; see
        `skop.SymmetryOptions`.
    input_fields, target_fields : list of str or None, default=None
        Names of the mesh fields that are inputs and targets; targets also if y is scalars, which are learnt too.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and predicting
        all fields at the centres of the cells, see `skop.data.read_meshes`.
    n_jobs : int or None, default=None
        Number of fits at a time, by joblib, each in a separate process with its share of the threads; None means one
        after the other. Within ``joblib.parallel_config("dask")`` or ``("ray", n_jobs=-1)`` fits run on that cluster.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of candidates without a seed of their own. With a time budget another speed of the
        machine can still change the choice.
    verbose : "auto", bool or int, default="auto"
        Amount of output on standard error. ``"auto"``: one line about the plan, on a terminal or in a notebook, if the
        budget is a minute or more. False or 0: none. True or 1: also a line after each rung.

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
    **Budget.** The search has a tenth of the budget. Models without a time limit of their own get at most half of it:
    each is first timed on parts of the samples, and left out if it would take longer. They are fitted on all folds if
    the time allows, else on the first one. The final fit takes the rest of the budget. A training step, the fit of a
    model without a time limit, and the fit of a base are never cut short, so they can exceed a very small budget.

    **Operators with `PODRegressor` as their base.** Such an operator uses its network only as far as held-out samples
    support it. Its error is therefore at most that of `PODRegressor`, except for the noise of these samples, and its
    training ends early if the network adds nothing. It is preferred to `PODRegressor` alone unless its error in the
    search is more than 10 % larger; its expected error is then at most that of `PODRegressor`. Operators whose errors
    are within 2 % of that of `PODRegressor` count as equal, and the first one is taken. An ensemble with such an
    operator does not contain `PODRegressor` a second time, and no ensemble contains the mean. A single operator is not
    tried in the search, and has the whole rest of the budget, if all other candidates are models that it contains.
    Successive fits to the same samples share one fit of their base.

    **Expected errors.** The table has the errors of operators after a short training on a part of the samples. The
    final fit is longer. Its error is extrapolated from the last two rungs as a power of the time, with the exponent
    that the two rungs show, at most 0.45. The last rung keeps operators of two kinds, because a short training says
    little about a long one. It uses the first fold alone if a final fit follows within a time limit, and all folds in
    `compare`, which has no final fit.

    **Weights.** Samples of weight 0 are left out before the folds are made; other weights count in fits and errors. If
    weights differ, a candidate whose `fit` takes no `sample_weight` is left out, and the table
    has this reason.

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
    >>> lamo = LaMORegressor(width=8, depth=1, base=None)
    >>> candidates = [("POD", PODRegressor(regressor="gaussian_process")), ("LaMO", lamo)]
    >>> model = AutoRegressor(candidates=candidates, max_time=1, ensemble="best", random_state=0)
    >>> model.fit(X, (np.linspace(0, 1, 12)[:, None], y)).results_[0]["candidate"]
    'POD'
    """

    _takes_other_points = True

    _parameter_constraints = {
        "candidates": [SequenceOf(object), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "ensemble": [StrOptions({"auto", "greedy", "best"})],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split", "get_n_splits"]), "array-like"],
        "symmetries": [SequenceOf(str), SymmetryOptions, None],
        "input_fields": ["array-like", None],
        "target_fields": ["array-like", None],
        "cell_data": [StrOptions({"refuse", "to_points", "cells"})],
        "n_jobs": [Interval(Integral, 1, 4096, closed="both"), Interval(Integral, -4096, -1, closed="both"), None],
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
        """Compare the candidates, and fit the best on all samples.

        Parameters
        ----------
        X, y : as in `LaMORegressor.fit`
            Inputs and targets.
        sample_weight : array-like of shape (n,) or None, default=None
            Weight of each sample in fits and errors; samples of weight 0 are not used.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, such as runs of one geometry, which no fold of the cross-validation splits.
        params : as in `LaMORegressor.fit`
            Global parameters of the runs beside fields or meshes.
        checkpoint_dir : path-like or None, default=None
            Folder for checkpoints: a search that was killed and is called again with the same arguments takes the fits
            that had ended from it, goes on with the others, and counts the time spent before. It needs an integer as
            `random_state`.

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
        group = join_group()
        with restored_on_failure(self), each_warning_once(), group.together():
            # The clock decides what is fitted, and it is another one in each process.
            found = group.once(lambda: self._fit_alone(X, y, sample_weight, groups, params, checkpoint_dir))
            self.__dict__.update(found)
        return self

    def _fit_alone(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, params: Any, checkpoint_dir: Any
    ) -> dict[str, Any]:
        """Search and fit in this process, and return the fitted attributes."""
        start = time.perf_counter()
        search, data = self._search(X, y, sample_weight, groups, params, start, _SEARCH, checkpoint_dir)
        search.run()
        search.fit_members(self.ensemble, None if self.max_time is None else start + self.max_time)
        self._store_spec(data.inputs, data.spec)
        self._store_seen(data)
        if data.spec.target_points == "shared" and data.targets.field is not None:
            self.coords_ = data.targets.field.coords
        chosen = [candidate for candidate in search.candidates if candidate.fitted is not None]
        chosen.sort(key=lambda candidate: -candidate.weight)
        self.estimators_ = [candidate.fitted for candidate in chosen]
        self.weights_ = np.array([candidate.weight for candidate in chosen])
        self.results_ = search.rows()
        return fitted_attributes(self)

    def _search(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        params: Any,
        start: float,
        part: float,
        checkpoint_dir: Any = None,
    ) -> tuple[Search, TrainingData]:
        """Read the data and make the search, which takes a part of the budget."""
        data = self._read(X, y, params=params, sample_weight=sample_weight, groups=groups)
        refuse_mask(groups, "groups")
        weight, used = check_weight(sample_weight, len(data.inputs)), None
        if weight is not None:
            used = np.flatnonzero(weight)
            groups = groups if groups is None or len(groups) != len(weight) else np.asarray(groups)[used]
            data = samples_with_weight(data, weight)
            weight = weight[used] if np.ptp(weight[used]) > 0 else None
        further = {"groups": None if groups is None else np.asarray(groups), "weight": weight}
        journal = SearchJournal.of(checkpoint_dir, self, data, further, start)
        rng = check_random_state(self.random_state)
        folds = make_folds(self.cv, len(data.inputs), groups, rng, used)
        search_seconds = None if self.max_time is None else part * self.max_time
        given = self._candidates(data.spec, search_seconds)
        candidates = make_candidates(given, rng, self.symmetries, weight is not None)
        verbose = 2 * int(self.verbose) if self.verbose != "auto" else 0
        if self.verbose == "auto" and (self.max_time or 0.0) >= _LONG and is_watched(sys.stderr):
            verbose = 1
        columns = getattr(self, "feature_names_in_", None)
        samples = Samples(data.inputs, data.targets, data.spec, weight, checkpoint_dir, further["groups"], columns)
        deadline = None if search_seconds is None else start + search_seconds
        final = 0.0 if self.max_time is None else (1 - part) * self.max_time
        n_jobs = workers_for(self.n_jobs, len(candidates) * len(folds))
        settings = (deadline, final, n_jobs, int(verbose), type(self).__name__)
        search = Search(candidates, samples, folds, *settings, journal)
        search.tell_plan(self.max_time)
        return search, data

    def _candidates(self, spec: DataSpec, search_seconds: float | None) -> list[Any]:
        """Candidates as they were given, with the default ones in the place of their word."""
        every: list[Any] = [_DEFAULT] if self.candidates is None else list(self.candidates)
        default = _default_candidates(spec, search_seconds, effective_n_jobs(self.n_jobs))
        parts = [default if isinstance(item, str) and item == _DEFAULT else [item] for item in every]
        return [item for part in parts for item in part]

    @property
    def leaderboard_(self) -> Any:
        """Results of the comparison as a DataFrame, the chosen candidates first, then the best.

        Columns: ``candidate``; ``error``, mean relative L2 error on held-out samples (1 minus the score), the same ones
        for all of a rung; ``expected``, the error expected of the final fit, which ranks the candidates: lower than
        ``error`` for operators that are to be trained for longer; ``spread``, the standard deviation of the error over
        the folds that it was fitted on, NaN for a single one; ``fit_seconds`` of one fold; ``predict_ms`` for one
        sample; ``model_mb``, the size of the fitted model in megabytes, as pickled; ``rung``, the last one that it took
        part in; ``weight`` in the result; ``status`` (``"chosen"``, ``"compared"`` in the last rung, ``"stopped"``
        before, ``"left out"`` since it cannot take the data or would take too long, ``"failed"``, or ``"not reached"``
        within the budget); and ``reason``.
        """
        check_is_fitted(self, "results_")
        return _as_table(self.results_)

    # ------------------------------------------------------------------ prediction
    @by_chunks
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
        mean : ndarray, list, FieldSet, (coords, fields), list of meshes, (meshes, scalars), DataFrame or Series
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
            is_told = self._warn_if_outside(inputs)
            found = self._members_at(inputs, points)
            target, labels = (self._places(inputs, points, found[0][1]), meshes), self._labels(X)
            whole = weighted([part for part, _ in found], self.weights_)
            self._warn_if_far(whole, is_told=is_told)
            mean = self._restore(whole, *target, labels)
            if not return_std:
                return mean
            spread = self._spread(inputs, points, [part for part, _ in found])
            if spread is None:
                raise FieldDataError(
                    f"return_std=True needs a spread, but the chosen model is one {type(self.estimators_[0]).__name__} "
                    "without any; fit with ensemble='greedy', or with candidates such as EnsembleRegressor."
                )
            return mean, self._restore_spread(mean, spread, *target, labels)

    def _members_at(self, inputs: FieldSet, coords: Any) -> list[tuple[Predictions, Any]]:
        """Predictions of the members at points, each also as it came."""
        options = {} if coords is None else {"coords": coords}
        with checked_by_caller():
            found = [member.predict(self._as_input(member, inputs), **options) for member in self.estimators_]
        return [(as_predictions(part, len(inputs)), part) for part in found]

    def _as_input(self, member: Any, inputs: FieldSet) -> Any:
        """Inputs as a member takes them."""
        return as_input(member, inputs, self.spec_, getattr(self, "feature_names_in_", None))

    def _places(self, inputs: FieldSet, coords: Any, found: Any) -> FieldSet:
        """Points of a prediction."""
        return inputs if coords is None and self.spec_.target_points == "inputs" else found

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Weighted mean of the members, and the standard deviation of their mixture."""
        means = [part for part, _ in self._members_at(inputs, coords)]
        spread = self._spread(inputs, coords, means)
        return None if spread is None else (weighted(means, self.weights_), spread)

    def _spread(self, inputs: FieldSet, coords: Any, means: list[Predictions]) -> Predictions | None:
        """Standard deviation of the mixture of the members; None if the only one has none."""
        options = {} if coords is None else {"coords": coords}
        own: list[Predictions | None] = []
        with checked_by_caller():
            for member in self.estimators_:
                own.append(None)
                if "return_std" in inspect.signature(member.predict).parameters:
                    try:
                        found = member.predict(self._as_input(member, inputs), return_std=True, **options)[1]
                    except ValueError:
                        # Its regressor has none.
                        continue
                    own[-1] = as_predictions(found, len(inputs))
        if len(own) == 1 and own[0] is None:
            return None
        center = weighted(means, self.weights_)
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
        return weighted([part for part, _ in self._members_at(inputs, None)], self.weights_)

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Weighted mean of the members at other points."""
        found = self._members_at(inputs, coords)
        return weighted([part for part, _ in found], self.weights_), found[0][1]


def compare(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    max_time: float | None = 600,
    groups: Any = None,
    params: Any = None,
    **options: Any,
) -> Any:
    """Compare classical models and operators on samples by cross-validation, within one time budget.

    This is the search of `AutoRegressor` without its final fit, with all of the budget. Take it to choose a kind of
    model for samples without a test set; to see fully trained models on test samples, with an error for each sample,
    take `skop.inspection.compare_models`.

    Parameters
    ----------
    X, y, sample_weight : as in `AutoRegressor.fit`
        Inputs, targets and weights.
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
    import_optional("pandas", purpose="return a table")
    model = AutoRegressor(max_time=max_time, **options)
    model._validate_params()
    group = join_group()

    def rows() -> list[dict[str, Any]]:
        """Search, and return what was found."""
        search, _ = model._search(X, y, sample_weight, groups, params, start, 1.0)
        search.run()
        return search.rows()

    with each_warning_once(), group.together():
        return _as_table(group.once(rows))


# ---------------------------------------------------------------------- candidates
def classical_candidates() -> list[tuple[str, Any]]:
    """Classical models that every comparison has: `PODRegressor`, which chooses among many, and the mean.

    Returns
    -------
    list of (str, PODRegressor)
        Models by name, not fitted.
    """
    return [("mean", PODRegressor(regressor="mean")), ("POD", PODRegressor())]


def _default_candidates(spec: DataSpec, search_seconds: float | None, n_workers: int) -> list[tuple[str, Any]]:
    """Models for the kind of the data; of the operators the first ones for which the search has time."""
    many: dict[str, Any] = {} if search_seconds is None else {"max_iter": _MANY_EPOCHS}
    if spec.target_points != "inputs":
        # Patches of a grid have outputs at its own points only.
        many["geometry"] = "points"
    over: dict[str, Any] = {"base": "auto", **many}
    operators: list[tuple[str, Any]] = [
        ("LaMO", LaMORegressor(**over)),
        ("AMO", AMORegressor(**over)),
        ("LaMO, latent tokens", LaMORegressor(**(over | {"geometry": "points"}))),
        ("MNO", MNORegressor(**over)),
        ("GeoMaNO", GeoMaNORegressor(grid="auto", **over)),
        ("LaMO, wide", LaMORegressor(width=128, **over)),
        ("LaMO without a base", LaMORegressor(base=None, **many)),
    ]
    if spec.role != "fields" or spec.geometry == "points" or "geometry" in many:
        # There LaMO has latent tokens anyway.
        operators.pop(2)
    count = len(operators) if search_seconds is None else max(1, int(n_workers * search_seconds / _SECONDS_EACH))
    return classical_candidates() + operators[:count]


def _as_table(rows: list[dict[str, Any]]) -> Any:
    """Rows as a DataFrame."""
    pandas = import_optional("pandas", purpose="return a table")
    # Files keep the entries of a row in another order.
    return pandas.DataFrame(rows, columns=list(Candidate("", None, ()).row()))


# ---------------------------------------------------------------------- what a file must hold
@checks("AutoRegressor")
def _check_auto(held: Held) -> None:
    """Check the chosen models from a file."""
    if "spec_" not in vars(held.value):
        return
    spec, members = held.get("spec_"), held.get("estimators_")
    held.need(isinstance(members, list) and members, "estimators_", "a list of fitted estimators")
    for member in members:
        if is_one_of(member, "FieldRegressor"):
            check_same_outputs(held, "estimators_", member, spec)
        elif is_one_of(last_step(member), "FieldRegressor"):
            check_takes(held, "estimators_", member, spec)
        else:
            held.need(hasattr(member, "predict"), "estimators_", "fitted estimators")
            found = tried(held, "estimators_", member.predict, spec.n_params)
            held.need(found.shape[1] == spec.n_scalars, "estimators_", f"estimators of {spec.n_scalars} targets")
    weights = held.array("weights_", len(members))
    held.need(abs(float(weights.sum()) - 1) < 1e-6, "weights_", "weights that sum to 1")
    rows = held.get("results_")
    is_table = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    held.need(is_table, "results_", "rows of a table")
