"""AutoRegressor: choose among classical models and operators by cross-validation within one time budget.

Notation: n samples.
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
from skop.data import DataSpec, FieldSet, PointSymmetries, Predictions, TrainingData
from skop.estimators._field import fitted_attributes, restored_on_failure
from skop.estimators._options import SymmetryOptions
from skop.estimators._parts import by_chunks
from skop.estimators._weights import used_samples
from skop.estimators._wrapper import WrappingRegressor
from skop.estimators.classical._copies import groups_of_repeats
from skop.estimators.classical._pod import PODRegressor
from skop.estimators.files._file_checks import Held, check_same_outputs, check_takes, checks, is_one_of, tried
from skop.estimators.fitting._checkpoint import computed_once
from skop.estimators.fitting._fingerprint import described_plan
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
)
from skop.exceptions import FieldDataError, ModelFileError, each_warning_once
from skop.training import in_words, is_watched, join_group

__all__ = ["AutoRegressor", "classical_candidates", "leaderboard"]

#: Part of the budget for the search. The final fit gets the rest: it lowers the error by more in this time than the
#: choice of another operator would. See docs/decisions.md, "A choice spends less on the search than on the final fit".
_SEARCH = 1 / 10
#: Seconds of the search for each default operator: shorter trainings cannot rank operators, see the same page. From
#: this budget on, ``verbose="auto"`` prints the plan.
_SECONDS_EACH = 60.0
#: Number of epochs of the default operators under a time limit, which ends the training sooner; a technical bound.
_MANY_EPOCHS = 10**6


class AutoRegressor(WrappingRegressor):
    """Choose the model for the data, among classical ones and operators, within one time budget.

    Every candidate is fitted to the training part of a cross-validation: first the models without a time limit, then
    the operators, each for the same time. The smallest error on held-out samples wins, with two exceptions. An operator
    with `PODRegressor` as its base counts as equal to `PODRegressor` up to 1.1 times its error, and is then preferred.
    Of operators within 2 % the first is taken. The choice is fitted on all samples for the rest of the budget.

    If a model leads, the best operator is trained once more, for a quarter of the rest of the budget. If its error,
    extrapolated as a power of the time, would lead at the end, it is also trained for half of the rest.

    Parameters
    ----------
    candidates : list of (str, estimator) and "default", or None, default=None
        Models to choose from, by name: any estimators with `fit` and `predict` on FieldSets, or for plain tables on
        arrays, such as scikit-learn regressors and Pipelines, whose steps receive any table unchanged. None takes the
        mean, `PODRegressor`, and operators with ``base="auto"``, one for each minute of the search and each of its
        `n_jobs`, and at least one, in this order: `LaMORegressor`, `AMORegressor`, LaMO with latent tokens on grids,
        `MNORegressor`, `GeoMaNORegressor`, a wide LaMO, and LaMO without a base. ``"default"`` in a list stands for all
        of these, as in ``["default", ("U-Net", UNetRegressor())]``.
    max_time : float or None, default=600
        Budget in seconds for the whole fit. None compares operators after all of their own `max_iter` epochs instead;
        results then repeat exactly, and the duration is not limited.
    cv : int, splitter or list of (train, valid), default=3
        Number of folds with samples drawn at random, at most as many as samples or groups, where samples with the same
        inputs stay in one fold; a splitter of scikit-learn; or the rows of each fold. Under a time limit operators see
        the first fold only.
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
        budget is a minute or more. False or 0: none. True or 1: also a line with the choice.

    Attributes
    ----------
    estimator_ : estimator
        The chosen model, fitted on all samples, as FieldSets or a table of numbers.
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
    leaderboard : The table alone.
    EnsembleRegressor : Several fits of one estimator.

    Notes
    -----
    **Budget.** The search has a tenth of the budget, of which models without a time limit get at most half; where no
    operator has a base, such as for few samples, a quarter of the budget is theirs on the first fold. Such a model is
    first fitted to an eighth, a quarter and a half of many samples, and left out where this tells that a fit to all may
    take too long. Models are fitted on all folds if the time allows, operators on the first one, where their
    errors are measured in the unit of the best model's. The final fit takes the rest of the budget: all of it if an
    operator leads, since it lowers the error by more in this time than another choice would. Where a model leads, which
    would leave the time unused, a quarter goes to a long training of the best operator, because a short one says
    little. A training step, the fit of a model without a time limit, and the fit of a base are never cut short, so they
    can exceed a very small budget.

    **Operators with `PODRegressor` as their base.** Such an operator uses its network only as far as held-out samples
    support it. Its error is therefore at most that of `PODRegressor`, except for the noise of these samples, and its
    training ends early if the network adds nothing. A single operator is not tried in the search, and has the whole
    rest of the budget, if all other candidates are models that it contains, or are out, and one of them is better than
    the mean on held-out samples, beyond chance, or is out; nor is the first of several if there is no time to try any.
    Successive fits to the same samples share one fit of their base.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import AutoRegressor, LaMORegressor, PODRegressor
    >>> X = np.random.default_rng(0).random((30, 2))
    >>> y = np.sin(X[:, :1] + X[:, 1:] * np.linspace(0, 1, 12))[..., None]
    >>> lamo = LaMORegressor(width=8, depth=1, base=None)
    >>> candidates = [("POD", PODRegressor(regressor="gaussian_process")), ("LaMO", lamo)]
    >>> model = AutoRegressor(candidates=candidates, max_time=1, random_state=0)
    >>> model.fit(X, (np.linspace(0, 1, 12)[:, None], y)).results_[0]["candidate"]
    'POD'
    """

    _takes_other_points = True

    _parameter_constraints = {
        "candidates": [SequenceOf(object), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split", "get_n_splits"]), "array-like"],
        "symmetries": [SequenceOf(str), SymmetryOptions, None],
        "input_fields": [SequenceOf(str), None],
        "target_fields": [SequenceOf(str), None],
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
            Weight of each sample in fits and errors; samples of weight 0 are not used. If weights differ, a candidate
            whose `fit` takes none is left out.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, such as runs of one geometry, which no fold of the cross-validation splits.
        params : as in `LaMORegressor.fit`
            Global parameters of the runs beside fields or meshes.
        checkpoint_dir : path-like or None, default=None
            Folder for checkpoints: a final fit that was killed goes on when it is called again with the same arguments.
            A search that was killed begins anew, but for operators with ``max_time=None``, which go on too. It needs an
            integer as `random_state`.

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
            If the user interrupts before the end of the first epoch of the final fit, or one by `n_jobs`; an earlier
            fit is kept. Later an interrupt ends the training with a warning, and the best weights so far are kept.
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
        data, further, search = self._search(X, y, sample_weight, groups, params, start, _SEARCH, checkpoint_dir)
        # A final fit that was killed goes on only with the time limit that it had.
        self.results_, seconds = computed_once(
            checkpoint_dir, self, data, further, lambda: (search.run(), search.final_seconds)
        )
        tried = [f"{row['candidate']} {row['error']:.3g}" for row in self.results_ if np.isfinite(row["error"])]
        self._say(1, "; ".join([*tried[:3], f"{self.results_[0]['candidate']} is fitted on all samples."]))
        self.estimator_ = search.fit_best(self.results_, seconds)
        self._store_data(data)
        return fitted_attributes(self)

    def _moving(self) -> PointSymmetries | None:
        """Those of the estimator that predicts."""
        found: PointSymmetries | None = getattr(self.estimator_, "_moving", lambda: None)()
        return found

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
    ) -> tuple[TrainingData, dict[str, Any], Search]:
        """Read the data, and make the search, which takes a part of the budget; also return weights and groups."""
        read = self._read(X, y, params=params, sample_weight=sample_weight, groups=groups)
        data, weight, groups, used = used_samples(read, sample_weight, groups)
        weight = None if weight is None or np.ptp(weight) == 0 else weight
        rng = check_random_state(self.random_state)
        together = groups
        if groups is None and isinstance(self.cv, Integral):
            together = groups_of_repeats(data.inputs, nearly=True)
        folds = make_folds(self.cv, len(data.inputs), together, rng, used)
        seconds = None if self.max_time is None else part * self.max_time
        # Operators are fitted on the first fold alone before a final fit.
        each = None if seconds is None else seconds / (1 if part < 1 else len(folds))
        candidates = make_candidates(self._candidates(data.spec, each), rng, self.symmetries, weight is not None)
        samples = Samples(
            data.inputs, data.targets, data.spec, weight, checkpoint_dir, groups, self._columns, self._training_plan,
            data.called,
        )  # fmt: skip
        end = None if self.max_time is None else start + self.max_time
        limit = "by epochs, without a time limit"
        if self.max_time is not None and seconds is not None:
            limit = f"{in_words(round(seconds))} for the search of {in_words(self.max_time)} in all"
        self._say(0, f"{len(candidates)} candidates, {len(folds)} folds; {limit}.")
        n_jobs = workers_for(self.n_jobs, len(candidates) * len(folds))
        further = {"groups": groups, "weight": weight, "plan": described_plan(self._training_plan)}
        return data, further, Search(candidates, samples, folds, end, part, n_jobs)

    def _say(self, level: int, words: str) -> None:
        """Write a line for the user, if it is not above the level that `verbose` asks for."""
        if self.verbose == "auto":
            verbose = int((self.max_time or 0.0) >= _SECONDS_EACH and is_watched(sys.stderr))
        else:
            verbose = 2 * int(self.verbose)
        # Under pythonw there is no standard error.
        if verbose > level and sys.stderr is not None:
            print(f"{type(self).__name__}: {words}", file=sys.stderr, flush=True)

    def _candidates(self, spec: DataSpec, seconds: float | None) -> list[Any]:
        """Candidates as they were given, with the default ones, for seconds of one fold, in the place of their word."""
        every: list[Any] = ["default"] if self.candidates is None else list(self.candidates)
        default = _default_candidates(spec, seconds, effective_n_jobs(self.n_jobs))
        parts = [default if isinstance(item, str) and item == "default" else [item] for item in every]
        return [item for part in parts for item in part]

    @property
    def leaderboard_(self) -> Any:
        """Results of the comparison as a DataFrame, the chosen candidate first, then the best.

        Columns: ``candidate``; ``error``, mean relative L2 error on held-out samples (1 minus the score), the same ones
        for all models, that of an operator on fewer folds times the best model's error on all folds over its error on
        these, NaN for an operator that was not tried; ``spread``, the standard deviation of the error over the folds
        that it was fitted on, NaN for a single one; ``fit_seconds`` of one fold; ``predict_ms`` for one sample;
        ``model_mb``, the size of the fitted model in megabytes, as pickled; ``status`` (``"chosen"``, ``"compared"``,
        ``"left out"`` since it cannot take the data or may take too long, ``"failed"``, or ``"not reached"`` within the
        budget); and ``reason``.
        """
        check_is_fitted(self, "results_")
        return _as_table(self.results_)

    # ------------------------------------------------------------------ prediction
    @by_chunks
    def predict(self, X: Any, coords: Any = None, return_std: bool = False, *, params: Any = None) -> Any:
        """Predict by the chosen model.

        Parameters
        ----------
        X : as in `fit`
            Inputs.
        coords : as in `LaMORegressor.predict`, or None, default=None
            Points at which fields are predicted; None gives the points of X, or those of y in the fit.
        return_std : bool, default=False
            Whether to return the standard deviation too, if the chosen model has one.
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
            If X has another form than in the fit, or the chosen model has no standard deviation.
        """
        if not return_std:
            return super().predict(X, coords, params=params)

        def ask(inputs: FieldSet, points: Any) -> tuple[list[Predictions], FieldSet]:
            """Prediction and standard deviation of the chosen model."""
            found = self._with_spread(inputs, points)
            if found is None:
                raise FieldDataError(
                    f"return_std=True needs a spread, but the chosen model is a {type(self.estimator_).__name__} "
                    "without any; fit with candidates that have one, such as EnsembleRegressor."
                )
            return found

        return self._answered(X, coords, params, ask)

    def _with_spread(self, inputs: FieldSet, coords: Any) -> tuple[list[Predictions], FieldSet] | None:
        """Prediction and standard deviation of the chosen model, and their points; None if it has none."""
        if "return_std" not in inspect.signature(self.estimator_.predict).parameters:
            return None
        try:
            return self._asked(inputs, coords, return_std=True)
        except ValueError:
            # Its regressor has none.
            return None

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Prediction and standard deviation of the chosen model; None if it has none."""
        found = self._with_spread(inputs, coords)
        return None if found is None else (found[0][0], found[0][1])

    def __sklearn_tags__(self) -> Any:
        # There is no estimator before the fit whose tags these could be.
        return super(WrappingRegressor, self).__sklearn_tags__()

    def _facts(self) -> dict[str, Any]:
        """The errors of the candidates, for the model card."""
        errors = {row["candidate"]: row["error"] for row in self.results_ if np.isfinite(row["error"])}
        return super()._facts() | {"errors": {"cross-validation": errors}}

    @staticmethod
    def _upgrade(held: dict[str, Any]) -> None:
        """Attributes in files from before the result was a single model."""
        held.pop("ensemble", None)
        if "estimators_" not in held:
            return
        members = held.pop("estimators_")
        held.pop("weights_", None)
        if not isinstance(members, list) or len(members) != 1:
            raise ModelFileError(
                "the file holds an AutoRegressor whose prediction is a weighted mean of several models, which this "
                "version does not have; fit again, or use the version of skop that wrote the file."
            )
        held["estimator_"] = members[0]


def leaderboard(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    max_time: float | None = 600,
    groups: Any = None,
    params: Any = None,
    **options: Any,
) -> Any:
    """Rank classical models and operators by cross-validation, within one time budget.

    This is the search of `AutoRegressor` without its final fit, with all of the budget, and operators on all folds.
    Take it to choose a kind of model for samples without a test set; to see fully trained models on test samples, with
    an error for each sample, take `skop.inspection.compare_models`, or ``skop compare`` in the shell.

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
    >>> skop.leaderboard(X, X.sum(axis=1), max_time=1, candidates=candidates)[["candidate", "status"]]
      candidate    status
    0     ridge  compared
    1      mean  compared
    """
    start = time.perf_counter()
    import_optional("pandas", purpose="return a table")
    model = AutoRegressor(max_time=max_time, **options)
    model._validate_params()
    group = join_group()

    with each_warning_once(), group.together():
        rows = group.once(lambda: model._search(X, y, sample_weight, groups, params, start, 1.0)[-1].run())
    return _as_table(rows)


# ---------------------------------------------------------------------- candidates
def classical_candidates() -> list[tuple[str, Any]]:
    """Classical models that every comparison has: `PODRegressor`, which chooses among many, and the mean."""
    return [("mean", PODRegressor(regressor="mean")), ("POD", PODRegressor())]


def _default_candidates(spec: DataSpec, seconds: float | None, n_workers: int) -> list[tuple[str, Any]]:
    """Models for the kind of the data; of the operators the first ones for which a fold of the search has time."""
    many: dict[str, Any] = {} if seconds is None else {"max_iter": _MANY_EPOCHS}
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
    if not spec.has_fields or spec.geometry == "points" or "geometry" in many:
        # There LaMO has latent tokens anyway.
        operators.pop(2)
    count = len(operators) if seconds is None else max(1, int(n_workers * seconds / _SECONDS_EACH))
    return classical_candidates() + operators[:count]


def _as_table(rows: list[dict[str, Any]]) -> Any:
    """Rows as a DataFrame."""
    pandas = import_optional("pandas", purpose="return a table")
    # Files keep the entries of a row in another order.
    return pandas.DataFrame(rows, columns=list(Candidate("", None, ()).row()))


# ---------------------------------------------------------------------- what a file must hold
@checks("AutoRegressor")
def _check_auto(held: Held) -> None:
    """Check the chosen model from a file."""
    if "spec_" not in vars(held.value):
        return
    spec, member = held.get("spec_"), held.get("estimator_")
    if is_one_of(member, "FieldRegressor"):
        check_same_outputs(held, "estimator_", member, spec)
    elif is_one_of(last_step(member), "FieldRegressor"):
        check_takes(held, "estimator_", member, spec)
    else:
        held.need(hasattr(member, "predict"), "estimator_", "a fitted estimator")
        found = tried(held, "estimator_", member.predict, spec.n_params)
        held.need(found.shape[1] == spec.n_scalars, "estimator_", f"an estimator of {spec.n_scalars} targets")
    rows = held.get("results_")
    is_table = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    held.need(is_table, "results_", "rows of a table")
