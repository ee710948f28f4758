"""EnsembleRegressor: the mean of several fits of one estimator, and their spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import clone
from sklearn.utils import check_random_state

from skop._jobs import workers_for
from skop._sklearn_compat import HasMethods, Interval, fit_context, last_step
from skop._typing import FloatArray
from skop.data import FieldSet, PointSymmetries, Predictions
from skop.estimators._field import FieldRegressor, fit_one_of_several, restored_on_failure
from skop.estimators._parts import by_chunks
from skop.estimators._weights import groups_option
from skop.estimators._wrapper import WrappingRegressor, continued, fit_estimator, goes_on
from skop.estimators.files._file_checks import Held, check_same_outputs, checks
from skop.estimators.fitting._base_model import shared_between_fits
from skop.estimators.fitting._checkpoint import passed_on, require_seed
from skop.estimators.fitting._cost import CostEstimate, MeasuresCost, require_measurable
from skop.exceptions import FieldDataError, each_warning_once
from skop.training import TrainingPlan, warn_of_interrupt

__all__ = ["EnsembleRegressor"]


class EnsembleRegressor(MeasuresCost, WrappingRegressor):
    """Fit an estimator several times from different random states and average the predictions.

    On small training sets, training one network for longer leads to overfitting, while the mean of several short
    trainings improves. The standard deviation over the members shows where they disagree.

    Parameters
    ----------
    estimator : estimator
        Regressor on fields that draws random numbers, such as `LaMORegressor`, or one around it. Its time limit
        `max_time` applies to each member.
    n_members : int, default=5
        Number of members, each of which is one fit of the estimator.
    n_jobs : int or None, default=None
        Number of members that are fitted in parallel, each in a separate process; None means one after the other.
    random_state : int, RandomState instance or None, default=None
        Seed from which the seeds of the members are drawn.

    Attributes
    ----------
    estimators_ : list of estimators
        Fitted members; fewer than `n_members` after an interrupt.
    stopped_ : {"n_members", "interrupted"}
        What has ended the fit.
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
    LaMORegressor : Estimator that is often used as the member.

    Notes
    -----
    Members that are fitted one after the other share the fit of a base model that is given by name, such as
    ``base="auto"``, which does not depend on their random states; in separate processes each fits its own.

    In searches, the name of a parameter of the members is, for example, ``estimator__width``.

    References
    ----------
    B. Lakshminarayanan, A. Pritzel, C. Blundell, "Simple and scalable predictive uncertainty estimation
    using deep ensembles", NeurIPS 2017.

    Examples
    --------
    >>> from skop import EnsembleRegressor, LaMORegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> member = LaMORegressor(width=16, depth=1, max_iter=5)
    >>> model = EnsembleRegressor(member, n_members=2, random_state=0).fit(X[:20], y[:20])
    >>> mean, spread = model.predict(X[20:], return_std=True)
    >>> mean.shape, spread.shape
    ((4, 16, 16, 1), (4, 16, 16, 1))
    """

    _only_passes_on = True
    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"])],
        "n_members": [Interval(Integral, 1, 10000, closed="both")],
        "n_jobs": [Interval(Integral, 1, 4096, closed="both"), Interval(Integral, -4096, -1, closed="both"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self, estimator: Any, *, n_members: int = 5, n_jobs: int | None = None, random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.n_jobs = n_jobs
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
        """Fit all members on the same samples.

        Parameters
        ----------
        X, y : as in the `fit` of the member
            Inputs and targets.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the samples, passed on to the members.
        groups : array-like of shape (n,) or None, default=None
            Labels of groups of samples, passed on to the members, see `LaMORegressor.fit`.
        params : as in the `fit` of the member, default=None
            Global parameters of the runs, passed on to the members.
        checkpoint_dir : path-like or None, default=None
            Folder for checkpoints, passed on to the members, see `LaMORegressor.fit`. It needs an integer as
            `random_state`.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used; a ValueError.
        KeyboardInterrupt
            If the user interrupts in the fit of the first member. Later an interrupt ends the fit with a warning, and
            the members that were fitted before are kept, as are those of a warm start that were not continued yet.
        """
        self._refuse_others(groups)
        kept = passed_on(checkpoint_dir, self.estimator)
        if kept:
            require_seed(self)
        rng = check_random_state(self.random_state)
        seeds = rng.randint(np.iinfo(np.int32).max, size=self.n_members)
        name = _seed_of(self.estimator)
        members = [clone(self.estimator).set_params(**{name: int(seed)}) for seed in seeds]
        earlier = getattr(self, "estimators_", [])[: self.n_members]
        if not earlier or not goes_on(self.estimator, earlier[0]):
            earlier = []
        for number, member in enumerate(earlier):
            members[number] = continued(member, self.estimator).set_params(**{name: member.get_params()[name]})
        given = {"sample_weight": sample_weight, "groups": groups, "params": params}
        options = {name: value for name, value in given.items() if value is not None} | kept
        with restored_on_failure(self), each_warning_once(), shared_between_fits():
            # Not every backend hands members out before all are fitted.
            can_stop = get_active_backend()[0].supports_return_generator
            fitted = Parallel(workers_for(self.n_jobs, self.n_members), return_as="generator" if can_stop else "list")(
                delayed(_fit_member)(member, X, y, self._training_plan, options, is_first=number == 0)
                for number, member in enumerate(members)
            )
            self.estimators_, self.stopped_ = _until_interrupted(fitted, earlier)
            first = self.estimators_[0]
            for name in ("spec_", "coords_", "n_features_in_", "ranges_", "reference_", "mesh_"):
                setattr(self, name, getattr(first, name))
            own = ("split", "date", "seconds")
            self.fit_record_ = {name: value for name, value in first.fit_record_.items() if name not in own}
            # An earlier fit may have been on a table with names.
            self.__dict__.pop("feature_names_in_", None)
            if hasattr(first, "feature_names_in_"):
                self.feature_names_in_ = first.feature_names_in_
        return self

    def _refuse_others(self, groups: Any) -> None:
        """Raise an error for an estimator whose copies would be no ensemble, or take no groups."""
        if not isinstance(self.estimator, FieldRegressor):
            remedy = "take sklearn.ensemble.BaggingRegressor for it"
            if isinstance(last_step(self.estimator), FieldRegressor):
                remedy = "put it around the last step: make_pipeline(..., EnsembleRegressor(...))"
            raise FieldDataError(
                f"EnsembleRegressor fits estimators of skop, but estimator is a {type(self.estimator).__name__}; "
                f"{remedy}."
            )
        if not _seed_of(self.estimator):
            inner = self.estimator
            while hasattr(inner, "estimator") or last_step(inner) is not inner:
                inner = inner.estimator if hasattr(inner, "estimator") else last_step(inner)
            raise FieldDataError(
                f"EnsembleRegressor fits its estimator from different random states, but "
                f"{type(inner).__name__} has no random_state: all members would be the same. Fit it alone."
            )
        groups_option(self.estimator, groups)

    def _facts(self) -> dict[str, Any]:
        """The members, for the model card."""
        return {"holds": self.estimators_}

    def _estimate_cost(self, X: Any, y: Any, sample_weight: Any, *, params: Any = None) -> CostEstimate:
        """Measure one member, for all of them."""
        require_measurable(self.estimator)
        together = min(self.n_members, effective_n_jobs(self.n_jobs))
        options = {} if params is None else {"params": params}
        member: CostEstimate = self.estimator.estimate_cost(X, y, sample_weight, **options)
        return member.times(-(-self.n_members // together), together)

    @by_chunks
    def predict(self, X: Any, coords: Any = None, return_std: bool = False, *, params: Any = None) -> Any:
        """Predict the mean of the members.

        Parameters
        ----------
        X : as in `fit`
            Inputs.
        coords : as in the `predict` of the member, or None, default=None
            Points at which fields are predicted; None gives the points of X, or those of y as for a member.
        return_std : bool, default=False
            Whether to return the standard deviation over the members too. It shows where they disagree, but it is not
            calibrated as an error bar.
        params : as in the `predict` of the member, default=None
            Global parameters beside fields or meshes.

        Returns
        -------
        mean : ndarray, list, FieldSet, (coords, fields), list of meshes, (meshes, scalars), DataFrame or Series
            Mean prediction, in the form of the y of the fit.
        spread : of the same form
            Standard deviation over the members, by their number as the divisor; only if `return_std` is True. Meshes of
            the spread hold the fields ``<field>_spread``, which are written into the meshes of the mean too.
        """
        if not return_std:
            return super().predict(X, coords, params=params)

        def ask(inputs: FieldSet, points: Any) -> tuple[list[Predictions], FieldSet]:
            """Mean of the members and their standard deviation."""
            found, places = self._members_at(inputs, points)
            return [_over_members(found, statistic) for statistic in (np.mean, np.std)], places

        return self._answered(X, coords, params, ask)

    def _members_at(self, inputs: FieldSet, coords: Any) -> tuple[Sequence[Predictions], FieldSet]:
        """Predictions of the members where asked, and their points."""
        found, places = zip(*(member._predict_where_asked(inputs, coords) for member in self.estimators_), strict=True)
        return found, places[0]

    def _predict_with_spread(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, Predictions] | None:
        """Mean of the members and their standard deviation."""
        found, _ = self._members_at(inputs, coords)
        return _over_members(found, np.mean), _over_members(found, np.std)

    def _tokens(self, inputs: FieldSet) -> FloatArray | None:
        """Those of the first member, whose features these are."""
        found: FloatArray | None = self.estimators_[0]._tokens(inputs)
        return found

    def _moving(self) -> PointSymmetries | None:
        """Those of the first member."""
        found: PointSymmetries | None = self.estimators_[0]._moving()
        return found

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Mean of the members in physical units."""
        return _over_members([member._predict_values(inputs) for member in self.estimators_], np.mean)

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Mean of the members at other points."""
        found, places = zip(*(member._predict_at(inputs, coords) for member in self.estimators_), strict=True)
        return _over_members(found, np.mean), places[0]

    @property
    def _series_part(self) -> Any:
        """The first member, if the fit was on time series of meshes."""
        first = getattr(self, "estimators_", [None])[0]
        return first if hasattr(first, "series_") else None

    @property
    def _n_components(self) -> int | None:
        """Number of channels of a frame if the members predict frames; None otherwise."""
        return self.estimators_[0]._n_components


def _seed_of(estimator: Any) -> str:
    """Name of the parameter from which the fit of an estimator has its random numbers; nothing if it has none."""
    has_own = "random_state" in estimator.get_params(deep=False)
    passes_on = getattr(estimator, "_only_passes_on", False) and not getattr(estimator, "noise", False)
    if has_own and not passes_on:
        return "random_state"
    if last_step(estimator) is not estimator:
        part, name = estimator.steps[-1][0], _seed_of(last_step(estimator))
    elif hasattr(estimator, "estimator"):
        part, name = "estimator", _seed_of(estimator.estimator)
    else:
        # Such as that of the regressor of a PODRegressor.
        return next((name for name in estimator.get_params() if name.endswith("__random_state")), "")
    # An ensemble passes its seed on to any depth, and other estimators to their own parts.
    is_passed = has_own and (name == "random_state" or (bool(name) and isinstance(estimator, EnsembleRegressor)))
    return "random_state" if is_passed else f"{part}__{name}" if name else ""


def _fit_member(member: Any, X: Any, y: Any, plan: TrainingPlan, options: dict[str, Any], *, is_first: bool) -> Any:
    """Fit a member, of which the first one alone says how long it will take."""
    params = {} if is_first else member.get_params()
    told = {name: held for name, held in params.items() if name.rpartition("__")[2] == "verbose" and held == "auto"}
    member.set_params(**dict.fromkeys(told, False))
    fit_one_of_several(lambda: fit_estimator(member, X, y, plan, **options))
    return member.set_params(**told)


def _until_interrupted(fitted: Iterable[Any], earlier: Sequence[Any]) -> tuple[list[Any], str]:
    """Members until the end or an interrupt, then earlier ones that are not continued yet; and what ended the fits."""
    members: list[Any] = []
    try:
        for member in fitted:
            members.append(member)
    except KeyboardInterrupt:
        if not members:
            raise
        warn_of_interrupt(f"the members fitted before ({len(members)})")
        return members + list(earlier[len(members) :]), "interrupted"
    return members, "n_members"


def _over_members(predictions: Sequence[Predictions], statistic: Callable[..., Any]) -> Predictions:
    """Compute a statistic of the members' predictions."""
    parts: list[Any] = []
    for name in ("fields", "scalars"):
        held = [getattr(prediction, name) for prediction in predictions]
        parts.append(None if held[0] is None else statistic(np.stack(held), axis=0, dtype=np.float64))
    return Predictions(*parts)


# ---------------------------------------------------------------------- what a file must hold
@checks("EnsembleRegressor")
def _check_ensemble(held: Held) -> None:
    """Check the members from a file."""
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_")
    for member in held.parts("estimators_", "FieldRegressor"):
        check_same_outputs(held, "estimators_", member, spec)
