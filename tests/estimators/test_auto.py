"""AutoRegressor: the choice, the budget by a clock that passes in fits only, and candidates that fail."""

import os
import pickle
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import skop
from skop import (
    AutoRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
    leaderboard,
)
from skop.data import unit_grid
from skop.datasets import make_antiderivative
from skop.estimators.classical import _few_samples
from skop.estimators.fitting._base_model import BaseModel
from skop.estimators.selection import _auto
from skop.estimators.selection._search import make_candidates
from skop.exceptions import FieldDataError, ModelFileError, TrainingDivergedError
from skop.metrics import relative_l2_error

GRID = (6, 4)
TABLE = np.random.default_rng(0).random((12, 2))


def lamo(**changes):
    return LaMORegressor(**({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1} | changes))


def pod(regressor):
    return PODRegressor(regressor=regressor)


def by_epochs(*candidates, **changes):
    return AutoRegressor(**({"candidates": list(candidates), "max_time": None, "random_state": 0} | changes))


@pytest.fixture(scope="module")
def fields():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, *GRID, 1))
    return X, 1.0 + np.cumsum(X, axis=1) / 6


class Known(RegressorMixin, BaseEstimator):
    """A regressor for tables with a known error, which takes a known time and remembers its fits."""

    #: Error, time limit, rows of the fit, and rows of the last prediction, of all regressors of the class.
    fits = []
    clock = None

    def __init__(self, error=0.1, action=None, seconds=0.0):
        self.error = error
        self.action = action
        self.seconds = seconds

    def fit(self, X, y):
        type(self).fits.append([self.error, getattr(self, "max_time", None), X, None])
        if self.action is not None:
            raise self.action
        if self.clock is not None:
            self.clock.now += self.seconds * len(X) ** 3 + (getattr(self, "max_time", None) or 0.0)
        self.mean_ = np.mean(y, axis=0)
        return self

    def predict(self, X):
        type(self).fits[-1][3] = X
        # The targets of these tests are 1.
        return np.full(len(X), 1.0 + self.error)


class Timed(Known):
    """The same with a time limit, of which it uses all."""

    def __init__(self, error=0.1, max_time=None, action=None):
        super().__init__(error, action)
        self.max_time = max_time


class OtherTimed(Timed):
    """Another kind."""


class Clock:
    """Time that passes only in fits."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(Known, "clock", clock)
    for kind in (Known, Timed, OtherTimed, Learning):
        monkeypatch.setattr(kind, "fits", [])
    return clock


@pytest.fixture
def budget(clock, monkeypatch):
    monkeypatch.setattr(_auto.time, "perf_counter", clock)
    return clock


ONES = np.ones(12)


# ---------------------------------------------------------------------- the choice
def test_errors_are_those_of_a_reference_by_loops_and_the_chosen_has_the_lowest(fields):
    X, y = fields
    candidates = [("mean", pod("mean")), ("GP", pod("gaussian_process")), ("ridge", pod("ridge"))]
    folds = KFold(3, shuffle=True, random_state=7)
    model = by_epochs(*candidates, cv=folds).fit(X, y)
    held = {name: np.empty_like(y) for name, _ in candidates}
    for train, valid in folds.split(X):
        for name, estimator in candidates:
            held[name][valid] = clone(estimator).fit(X[train], y[train]).predict(X[valid])
    expected = {name: relative_l2_error(y, found) for name, found in held.items()}
    table = {row["candidate"]: row for row in model.results_}
    for name, error in expected.items():
        assert table[name]["error"] == pytest.approx(error, rel=1e-9)
    assert model.results_[0]["candidate"] == min(expected, key=expected.get)
    assert [row["status"] for row in model.results_] == ["chosen", "compared", "compared"]
    # On all samples it is the candidate itself.
    alone = clone(dict(candidates)[model.results_[0]["candidate"]]).fit(X, y)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-12)


def test_errors_of_scalars_beside_fields_are_those_of_the_score(fields):
    X, y = fields
    inputs = FieldSet(unit_grid(GRID), X)
    targets = inputs.with_values(np.concatenate([y, 100 * X], axis=-1).reshape(12, 24, 2)).with_params(X[:, 0, :2, 0])
    folds = KFold(2)
    model = by_epochs(("ridge", pod("ridge")), cv=folds).fit(inputs, targets)
    errors = [
        1 - pod("ridge").fit(inputs[train], targets[train]).score(inputs[valid], targets[valid])
        for train, valid in folds.split(X)
    ]
    # Sizes of channels are those of each fold, and of all samples in the error.
    assert model.results_[0]["spread"] == pytest.approx(np.std(errors), rel=1e-6)
    assert model.results_[0]["error"] == pytest.approx(np.mean(errors), rel=0.05)


def test_a_model_without_a_spread_has_none():
    model = by_epochs(("b", Known(0.2)), ("a", Known(0.1))).fit(TABLE, ONES)
    assert [(row["candidate"], row["status"]) for row in model.results_] == [("a", "chosen"), ("b", "compared")]
    np.testing.assert_allclose(model.predict(TABLE), 1.1)
    with pytest.raises(FieldDataError, match="return_std=True needs a spread"):
        model.predict(TABLE, return_std=True)


def test_the_spread_is_that_of_the_chosen_model(fields):
    X, y = fields
    model = by_epochs(("two", EnsembleRegressor(lamo(base=None), n_members=2)), cv=2).fit(X, y)
    found = model.predict(X, return_std=True)
    expected = model.estimator_.predict(FieldSet(unit_grid(GRID), X), return_std=True)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.ravel(), other.values.ravel())
    assert found[1].min() > 0


def test_groups_are_not_split():
    X = np.column_stack([TABLE, np.repeat(np.arange(4), 3)])
    by_epochs(("a", Known()), cv=5).fit(X, ONES, groups=X[:, 2])
    by_epochs(("a", Known()), cv=GroupKFold(2)).fit(X, ONES, groups=X[:, 2])
    pairs = [(set(train[:, 2]), set(valid[:, 2])) for _, _, train, valid in Known.fits if valid is not None]
    assert len(pairs) == 4 + 2
    for train, valid in pairs:
        assert not train & valid
        assert train | valid == {0, 1, 2, 3}


def test_samples_with_the_same_inputs_stay_in_one_fold():
    generator = np.random.default_rng(0)
    X, y = generator.random((30, 2)), generator.normal(size=30)
    order = generator.permutation(60) % 30
    model = by_epochs(("nearest", KNeighborsRegressor(1)), cv=5).fit(X[order], y[order])
    assert model.results_[0]["error"] > 0.9
    # Inputs that are all the same tell nothing of any fold.
    assert by_epochs(("mean", DummyRegressor()), cv=5).fit(np.ones((30, 2)), y).results_[0]["error"] > 0.9


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(12), "at least 2 groups, got 1"),
        (np.arange(5), r"groups has shape \(5,\), expected \(12,\)"),
        ([np.nan, *"abcdefghijk"], "groups has missing labels"),
        ([1, 1, *"abcdefghij"], "or both texts and numbers"),
    ],
)
def test_groups_that_cannot_be_used_are_refused(groups, words):
    with pytest.raises(FieldDataError, match=words):
        by_epochs(("a", Known())).fit(TABLE, ONES, groups=groups)


def test_frames_are_judged_by_the_size_of_their_run():
    """Of a field that decays, errors of the last frames would be those of a model that is good at nothing else."""
    rng = np.random.default_rng(1)
    X, x, times = rng.random((24, 2)), np.linspace(0, 1, 8), np.linspace(0, 1, 4)
    y = (1.5 + np.sin(6 * X[:, :1] + 3 * x) * X[:, 1:])[..., np.newaxis] * 10.0 ** (-6 * times)
    X, y = FieldSet(x[:, np.newaxis], None, params=X), FieldSet(x[:, np.newaxis], y)
    kinds = {
        "process": PODRegressor(target_transform=None),
        "powers": PODRegressor(regressor="ridge", target_transform="log"),
    }
    options = {"cv": 3, "max_time": None, "random_state": 0}
    model = skop.TimeConditionedRegressor(AutoRegressor(candidates=list(kinds.items()), **options), times=4).fit(X, y)
    found = {row["candidate"]: row["error"] for row in model.estimator_.results_}
    half = skop.TimeConditionedRegressor(kinds["powers"], times=4).fit(X[:16], y[:16])
    assert found["powers"] == pytest.approx(1 - half.score(X[16:], y[16:]), rel=0.2)
    assert found["process"] < 0.1 * found["powers"]


# ---------------------------------------------------------------------- the budget
@pytest.mark.parametrize("max_time", [10, 200, 3000])
@pytest.mark.parametrize("number", [1, 2, 7])
def test_the_budget_is_used_and_held_and_every_operator_has_the_same_time(budget, number, max_time):
    candidates = [("classical", Known(0.7, seconds=1e-4)), ("other", OtherTimed(0.9))]
    candidates += [(str(error), Timed(error)) for error in np.linspace(0.1, 0.5, number)]
    model = AutoRegressor(candidates=candidates, max_time=max_time, verbose=False).fit(TABLE, ONES)
    assert budget.now == pytest.approx(max_time)
    tried, final = Timed.fits[:-1] + OtherTimed.fits, Timed.fits[-1]
    # On the first fold, in a tenth of the budget but for what the other model takes.
    limits = [limit for _, limit, *_ in tried]
    assert len(limits) == number + 1
    assert np.ptp(limits) < 1e-9
    assert max_time / 20 <= sum(limits) <= max_time / 10
    assert final[:2] == [0.1, pytest.approx(0.9 * max_time)]
    assert model.results_[0]["candidate"] == "0.1"


class Over(Timed):
    """The same over a base model, which its network has improved or not."""

    def fit(self, X, y):
        self.base_ = SimpleNamespace(estimator=PODRegressor())
        return super().fit(X, y)


@pytest.mark.parametrize(("error", "chosen"), [(0.105, "over"), (0.095, "over"), (0.115, "POD")])
def test_an_operator_over_a_base_is_preferred_at_equal_errors(error, chosen):
    class FixedPOD(PODRegressor):
        def predict(self, X):
            return np.full(len(X), 1.1)

    candidates = [("POD", FixedPOD()), ("other", Known(0.3)), ("over", Over(error))]
    model = by_epochs(*candidates).fit(TABLE, ONES)
    assert model.results_[0]["candidate"] == chosen
    assert {row["candidate"]: row["error"] for row in model.results_}["over"] == pytest.approx(error)


class Varying(Known):
    """A regressor whose error is a column of the table."""

    def predict(self, X):
        return 1.0 + X[:, self.error]


def test_models_are_compared_on_all_folds_and_operators_by_the_unit_of_the_best(budget):
    """One is lucky on the first fold, where the other has half of the error that it has elsewhere."""
    rows = np.arange(12)
    folds = [(np.delete(rows, part), part) for part in np.split(rows, 3)]
    lucky, steady = np.repeat([[0.01, 0.05], [0.5, 0.1]], [4, 8], axis=0).T
    candidates = [("lucky", Varying(2)), ("steady", Varying(3)), ("operator", Timed(0.2))]
    model = AutoRegressor(candidates=candidates, max_time=100, cv=folds, verbose=False)
    model.fit(np.column_stack([TABLE, lucky, steady]), ONES)
    errors = {row["candidate"]: row["error"] for row in model.results_}
    of_steady = np.sqrt(np.mean(steady**2))
    expected = {"lucky": np.sqrt(np.mean(lucky**2)), "steady": of_steady, "operator": 0.2 * of_steady / 0.05}
    assert errors == pytest.approx(expected)
    assert model.results_[0]["candidate"] == "steady"


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [((0.1003, 0.0999, 0.1001), "first"), ((0.105, 0.0999, 0.1001), "second"), ((0.1, 0.0999, 0.09), "third")],
)
def test_operators_whose_networks_add_nothing_to_their_base_are_taken_in_their_order(budget, errors, chosen):
    class FixedPOD(PODRegressor):
        def predict(self, X):
            return np.full(len(X), 1.1)

    class OtherOver(Over):
        """Another kind."""

    first, second, third = errors
    others = [("second", OtherOver(second)), ("third", OtherOver(third))]
    candidates = [("POD", FixedPOD()), ("first", Over(first)), *others]
    model = AutoRegressor(candidates=candidates, max_time=120).fit(TABLE, ONES)
    assert model.results_[0]["candidate"] == chosen
    rows = {row["candidate"]: row for row in model.results_}
    assert rows[chosen]["error"] == pytest.approx(dict(zip(("first", "second", "third"), errors, strict=True))[chosen])


@pytest.mark.parametrize("max_time", [None, 3.0])
def test_operators_share_the_base_of_the_same_samples(max_time, fields, monkeypatch):
    X, y = fields
    fitted, original = [], BaseModel._fit.__func__

    def recorded(cls, kind, data, used, *given):
        fitted.append(joblib.hash(np.asarray(data.inputs.values)[used]))
        return original(cls, kind, data, used, *given)

    monkeypatch.setattr(BaseModel, "_fit", classmethod(recorded))
    candidates = [("LaMO", lamo(base="pod", max_iter=2)), ("wide", lamo(base="pod", max_iter=2, width=12))]
    options = {"max_time": max_time, "cv": KFold(2), "random_state": 0}
    AutoRegressor(candidates=candidates, **options).fit(np.concatenate([X, -X]), np.concatenate([y, 2 - y]))
    # Of one fold within a time limit, else of two; and of all samples.
    assert len(fitted) == len(set(fitted)) == (2 if max_time else 3)


def test_a_lone_operator_that_holds_all_other_models_is_not_tried(budget):
    class SlowPOD(PODRegressor):
        def fit(self, X, y):
            budget.now += 2.5
            return self

        def predict(self, X):
            return np.full(len(X), 1.1)

    class Operator(Timed):
        def __init__(self, error=0.1, max_time=None, base="auto"):
            super().__init__(error, max_time)
            self.base = base

    candidates = [("POD", SlowPOD()), ("over", Operator())]
    model = AutoRegressor(candidates=candidates, max_time=60).fit(TABLE, ONES)
    # A fold of POD takes 2.5 of the 6 s, and all of the rest go to the operator.
    assert [limit for _, limit, *_ in Operator.fits] == [57.5]
    row = model.results_[0]
    assert (row["candidate"], row["status"]) == ("over", "chosen")
    assert "not tried" in row["reason"]
    assert np.isnan(row["error"])
    # Nor is it where the base would take too long for the search, as 100 of 400 samples tell.
    Operator.fits.clear()
    slow = ("POD", SlowPOD())
    many = np.random.default_rng(0).random((600, 2))
    model = AutoRegressor(candidates=[("mean", pod("mean")), slow, candidates[1]], max_time=60)
    assert [row["status"] for row in model.fit(many, np.ones(600)).results_] == ["chosen", "compared", "left out"]
    assert len(Operator.fits) == 1
    # Nor without any other model.
    Operator.fits.clear()
    AutoRegressor(candidates=[("over", Operator(base=None))], max_time=60).fit(TABLE, ONES)
    assert [limit for _, limit, *_ in Operator.fits] == [60]
    # Of several, the first has what is left where the model takes all the time of the search.
    Operator.fits.clear()
    several = [candidates[0], ("alone", Operator(base=None)), ("over", Operator()), ("wide", Operator())]
    rows = AutoRegressor(candidates=several, max_time=20).fit(TABLE, ONES).results_
    assert [limit for _, limit, *_ in Operator.fits] == [17.5]
    assert [(row["candidate"], row["status"]) for row in rows[:2]] == [("over", "chosen"), ("POD", "compared")]
    assert {row["status"] for row in rows[2:]} == {"not reached"}
    # One that does not contain it is compared after half of the rest.
    Operator.fits.clear()
    rows = AutoRegressor(candidates=several[:2], max_time=20).fit(TABLE, ONES).results_
    assert [limit for _, limit, *_ in Operator.fits] == [4.375, 13.125]
    assert [(row["candidate"], row["status"]) for row in rows] == [("alone", "chosen"), ("POD", "compared")]
    # However soon a fit of the model is done.
    Operator.fits.clear()
    AutoRegressor(candidates=[("mean", pod("mean")), candidates[1]], max_time=60).fit(TABLE, ONES)
    assert [limit for _, limit, *_ in Operator.fits] == [60]
    # Without a base it is compared, and beside a model that it does not hold.
    for others in ([candidates[0], ("over", Operator(base=None))], [*candidates, ("ridge", Ridge())]):
        Operator.fits.clear()
        AutoRegressor(candidates=others, max_time=60).fit(TABLE, ONES)
        assert len(Operator.fits) > 1
    # Of fewer than 10 samples there is none, and the model may be the better one.
    Operator._why_no_base, Operator._symmetries = LaMORegressor._why_no_base, None
    for count in (9, 12):
        Operator.fits.clear()
        AutoRegressor(candidates=candidates, max_time=60).fit(TABLE[:count], ONES[:count])
        assert (len(Operator.fits) > 1) == (count < 10)


@pytest.mark.parametrize(
    ("wrapper", "options", "n_runs", "is_tried"),
    [
        (RolloutRegressor, {"window": 1}, 12, False),
        (RolloutRegressor, {"window": 1, "increments": False}, 12, True),
        (RolloutRegressor, {"window": 1}, 8, True),
        (TimeConditionedRegressor, {"times": 2}, 12, False),
        (TimeConditionedRegressor, {"times": 2}, 8, True),
    ],
)
def test_a_lone_operator_is_tried_where_runs_have_no_base(budget, wrapper, options, n_runs, is_tried):
    class Operator(Timed):
        _why_no_base, _symmetries = LaMORegressor._why_no_base, None

        def __init__(self, error=0.1, max_time=None, base="auto"):
            super().__init__(error, max_time)
            self.base = base

    rng = np.random.default_rng(0)
    X = rng.random((n_runs, 1))
    y = 0.9 * X * [1, 0.9] + 0.1 + 1e-3 * rng.random((n_runs, 2))
    auto = AutoRegressor(candidates=[("POD", PODRegressor(regressor="ridge")), ("over", Operator())], max_time=60)
    rows = wrapper(auto, **options).fit(X, y).estimator_.results_
    assert np.isfinite(rows[0]["error"]) == is_tried
    assert rows[0]["candidate"] == ("POD" if is_tried else "over")


@pytest.mark.parametrize(("slope", "grouped", "n_fits"), [(0, False, 3), (10, False, 1), (10, True, 1)])
def test_a_lone_operator_is_tried_where_its_base_would_be_no_better_than_the_mean(budget, slope, grouped, n_fits):
    class Operator(Timed):
        def __init__(self, error=0.1, max_time=None, base="auto"):
            super().__init__(error, max_time)
            self.base = base

    rng = np.random.default_rng(11)
    X = rng.random((60, 5))
    y = slope * X[:, 0] + rng.normal(size=60)
    groups = {"groups": np.repeat([f"run {number}" for number in range(30)], 2)} if grouped else {}
    candidates = [("mean", pod("mean")), ("ridge", pod("ridge")), ("over", Operator())]
    rows = AutoRegressor(candidates=candidates, max_time=60, random_state=0).fit(X, y, **groups).results_
    # The fit of its base, a trial, and a longer one where a model leads; or the final fit alone.
    assert len(Operator.fits) == n_fits
    assert (rows[0]["candidate"] == "over") == bool(slope)
    assert ("not tried" in rows[0]["reason"]) == bool(slope)
    # A base that is asked for by name is not dropped.
    Operator.fits.clear()
    candidates[2] = ("over", Operator(base="pod"))
    AutoRegressor(candidates=candidates, max_time=60, random_state=0).fit(X, y)
    assert len(Operator.fits) == 1


def test_weight_zero_is_leaving_out_and_errors_are_weighted():
    y = np.r_[ones := np.ones(8), 2 * ones]
    X, weight = np.random.default_rng(0).random((16, 2)), np.arange(16.0) % 4 * np.repeat([1.0, 3.0], 8)
    cv = KFold(2, shuffle=True, random_state=0)
    candidates = [("ridge", Ridge()), ("nearest", KNeighborsRegressor(1)), ("POD", PODRegressor(regressor="ridge"))]
    model = by_epochs(*candidates, cv=cv).fit(X, y, sample_weight=weight)
    some, whole = weight > 0, (X, y, weight)
    other = clone(model).fit(X[some], y[some], sample_weight=weight[some])
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    rows = {row["candidate"]: row for row in model.results_}
    assert [rows[name]["status"] for name in ("ridge", "nearest", "POD")] == ["chosen", "left out", "compared"]
    assert "takes no sample_weight" in rows["nearest"]["reason"]
    X, y, weight = X[some], y[some], weight[some]
    found = np.empty(len(y))
    for train, valid in cv.split(X):
        found[valid] = Ridge().fit(X[train], y[train], weight[train]).predict(X[valid])
    expected = np.sqrt(np.average((found - y) ** 2, weights=weight) / np.average(y**2, weights=weight))
    assert rows["ridge"]["error"] == pytest.approx(expected, rel=1e-9)
    # The same folds by the rows of all samples.
    places = np.flatnonzero(some)
    folds = [(places[train], places[valid]) for train, valid in cv.split(places)]
    other = clone(model).set_params(cv=folds).fit(*whole)
    assert other.results_[0]["error"] == rows["ridge"]["error"]
    # Weights that are all the same leave nobody out.
    assert {row["status"] for row in clone(model).fit(X, y, 2 * np.ones(len(y))).results_} == {"chosen", "compared"}
    with pytest.raises(FieldDataError, match=r"no candidate could be fitted\. nearest: its fit takes no sample_weight"):
        by_epochs(candidates[1]).fit(X, y, weight)


class Learning(Timed):
    """A model whose error falls as the root of the time."""

    def predict(self, X):
        return np.full(len(X), 1.0 + self.error / np.sqrt(self.max_time))


def test_more_time_is_never_worse_and_a_leading_model_is_compared_with_a_long_training(budget):
    errors, chosen = [], []
    candidates = [("learning", Learning(1.0)), ("late", OtherTimed(5.0)), ("classical", Known(0.05))]
    for max_time in (20, 100, 500, 1000, 1250, 5000):
        start, number = budget.now, len(Learning.fits)
        model = AutoRegressor(candidates=candidates, max_time=max_time, verbose=False).fit(TABLE, ONES)
        errors.append(float(np.mean(model.predict(TABLE))) - 1)
        chosen.append(model.results_[0]["candidate"])
        limits = [limit for _, limit, *_ in Learning.fits[number:]]
        # Half of a tenth, a quarter of the rest, half of what is left then if all of that would be enough, and where it
        # wins the remainder.
        expected, left = [max_time / 20, 0.225 * max_time], 0.675 * max_time
        if 0.225 * max_time < 0.05**-2 < left:
            expected.append(left / 2)
            left /= 2
        expected += [left] * (chosen[-1] == "learning")
        assert limits == pytest.approx(expected)
        assert budget.now - start <= max_time * (1 + 1e-9)
    assert errors == sorted(errors, reverse=True)
    assert chosen == ["classical"] * 4 + ["learning"] * 2


class Linear(Known):
    """The same in a time that is proportional to the number of samples."""

    def fit(self, X, y):
        self.clock.now += self.seconds * (len(X) - len(X) ** 3)
        return super().fit(X, y)


def test_a_model_that_would_take_too_long_is_left_out_within_the_budget(budget):
    X = np.random.default_rng(0).random((1200, 2))
    # 800 samples of a fold would take 51,200 s, as 100 samples tell in 100 s, and 16 s.
    candidates = [("slow", Known(0.01, seconds=1e-4)), ("quick", Known(0.2, seconds=1e-10)), ("timed", Timed(0.3))]
    candidates.insert(0, ("linear", Linear(0.25, seconds=0.02)))
    model = AutoRegressor(candidates=candidates, max_time=3000, verbose=False).fit(X, np.ones(1200))
    rows = {row["candidate"]: row for row in model.results_}
    assert [rows[name]["status"] for name in ("linear", "slow", "quick")] == ["compared", "left out", "chosen"]
    # A fourth of the time is for models, since the operator contains none of them.
    assert "a fit to 200 of 800 samples took 13 min 20 s, so that one to all may take 14 h" in rows["slow"]["reason"]
    assert budget.now < 3000
    # All folds count where no operator is compared: a fit may take more than 10 of 30 s.
    found = leaderboard(
        X[:600], np.ones(600), max_time=30, candidates=[("quick", Known()), ("linear", Linear(0, seconds=0.03))]
    )
    assert list(found["status"]) == ["compared", "left out"]
    # Few samples are soon fitted.
    found = leaderboard(X[:150], np.ones(150), max_time=1, candidates=[("slow", Known(seconds=1e-4))])
    assert list(found["status"]) == ["compared"]


def test_models_wait_for_the_time_of_the_search(budget):
    """A fit of a fold takes 0.9 s, and one of all samples 3 s."""
    candidates = [(str(number), Known(0.1 + number, seconds=3 / 12**3)) for number in range(6)]
    # Half of the time is for the search, where only a fit of one of them follows.
    for max_time, n_compared, n_fits in ((8, 5, 5), (30, 6, 16)):
        start = budget.now
        model = AutoRegressor(candidates=candidates, max_time=max_time).fit(TABLE, ONES)
        statuses = ["chosen", *["compared"] * (n_compared - 1), *["not reached"] * (6 - n_compared)]
        assert [row["status"] for row in model.results_] == statuses
        assert budget.now - start == pytest.approx(n_fits * 3 * (2 / 3) ** 3 + 3)


def test_a_quick_model_is_tried_after_a_slow_one(budget):
    """The slow one takes 3 s of the 6 s of the search, of which 3 s are for models."""
    candidates = [("slow", Known(0.3, seconds=3 / 8**3)), ("quick", Known(0.1, seconds=1e-5)), ("late", Timed(0.2))]
    model = AutoRegressor(candidates=candidates, max_time=60, verbose=False).fit(TABLE, ONES)
    rows = {row["candidate"]: row["status"] for row in model.results_}
    assert rows == {"quick": "chosen", "slow": "compared", "late": "compared"}


def test_targets_of_zeros_have_absolute_errors():
    model = by_epochs(("a", Known(0.2)), ("b", Known(-0.5))).fit(TABLE, 0 * ONES)
    assert [(row["candidate"], row["error"]) for row in model.results_] == [("b", 0.5), ("a", pytest.approx(1.2))]


def test_without_time_for_all_the_rest_is_named(budget):
    class Late(Timed):
        def fit(self, X, y):
            self.clock.now += 100.0
            return super().fit(X, y)

    candidates = [(str(number), Late(0.1 + number)) for number in range(4)]
    model = AutoRegressor(candidates=candidates, max_time=10).fit(TABLE, ONES)
    assert [row["status"] for row in model.results_] == ["chosen", *["not reached"] * 3]
    assert len(Late.fits) == 2


# ---------------------------------------------------------------------- failures
FAILURES = [MemoryError("full"), TrainingDivergedError("NaN"), FieldDataError("no grid"), ValueError("odd")]


def test_candidates_that_fail_are_rows_and_the_others_go_on():
    failing = [(str(number), Timed(0.01, action=error)) for number, error in enumerate(FAILURES)]
    model = by_epochs(*failing, ("works", Known(0.3))).fit(TABLE, ONES)
    table = {row["candidate"]: (row["status"], row["reason"]) for row in model.results_}
    assert table["works"] == ("chosen", "")
    assert table["0"] == ("failed", "MemoryError: full")
    assert table["1"] == ("failed", "TrainingDivergedError: NaN")
    assert table["2"] == ("left out", "no grid")
    assert table["3"] == ("failed", "ValueError: odd")
    assert np.isnan([row["error"] for row in model.results_[1:]]).all()


def test_where_all_fail_the_reasons_are_told():
    with pytest.raises(FieldDataError, match=r"no candidate could be fitted\. a: MemoryError: full; b: no grid"):
        by_epochs(("a", Known(action=FAILURES[0])), ("b", Known(action=FAILURES[2]))).fit(TABLE, ONES)


class FailsOnAll(Known):
    """Fails on all twelve samples."""

    def fit(self, X, y):
        if len(X) == len(ONES):
            raise MemoryError("full")
        return super().fit(X, y)


def test_the_next_best_takes_the_place_of_one_that_fails_on_all_samples():
    model = by_epochs(("a", FailsOnAll(0.1)), ("b", Known(0.2)), ("c", Known(0.3))).fit(TABLE, ONES)
    assert model.estimator_.error == 0.2
    assert [row["status"] for row in model.results_] == ["chosen", "compared", "failed"]
    assert model.results_[2]["reason"] == "in the fit on all samples: MemoryError: full"


def test_the_next_best_has_the_time_that_is_left(budget):
    class Wasting(Timed):
        """Fails on all samples in the end."""

        def fit(self, X, y):
            super().fit(X, y)
            self.clock.now -= 0.5 * self.max_time
            if len(X) == len(ONES):
                raise MemoryError("full")
            return self

    model = AutoRegressor(candidates=[("a", Wasting(0.1)), ("b", OtherTimed(0.2))], max_time=100).fit(TABLE, ONES)
    assert [row["status"] for row in model.results_] == ["chosen", "failed"]
    assert budget.now == pytest.approx(100)


def test_an_interrupt_ends_the_search_and_leaves_an_earlier_fit_whole():
    model = by_epochs(("a", Known(0.2))).fit(TABLE, ONES)
    expected = model.predict(TABLE)
    model.set_params(candidates=[("a", Known(0.2)), ("stop", Known(0.1, KeyboardInterrupt())), ("c", Known(0.3))])
    Known.fits.clear()
    with pytest.raises(KeyboardInterrupt):
        model.fit(TABLE, ONES)
    assert [error for error, *_ in Known.fits] == [0.2, 0.1]
    np.testing.assert_array_equal(model.predict(TABLE), expected)


def test_candidates_that_are_none_are_refused(subtests):
    for given in [[], [1], [("a", Known()), ("a", Known())], [("a", "LaMO")]]:
        with subtests.test(given=given), pytest.raises(ValueError, match=r"candidates (holds|are named)"):
            AutoRegressor(candidates=given).fit(TABLE, ONES)


# ---------------------------------------------------------------------- data, files and tools
def test_points_of_their_own_leave_out_who_needs_common_ones():
    rng = np.random.default_rng(0)
    X = [(rng.random((size, 2)), rng.random((size, 1))) for size in range(8, 14)]
    shared = PODRegressor(regressor="ridge", grid=None)
    model = by_epochs(("POD", shared), ("LaMO", lamo()), cv=2).fit(X, [values for _, values in X])
    assert [row["status"] for row in model.results_] == ["chosen", "left out"]
    assert "same points in every sample" in model.results_[1]["reason"]
    assert [len(part) for part in model.predict(X)] == list(range(8, 14))
    # Points of y elsewhere reach the members that take them.
    points = FieldSet(unit_grid(GRID) + 1e-3 * rng.random((24, 2)), rng.random((6, 24, 1)))
    elsewhere = FieldSet(0.2 + 0.5 * rng.random((5, 2)), rng.random((6, 5, 1)))
    model.fit(points, elsewhere)
    assert model.predict(points).shape == model.predict(points, coords=elsewhere).shape == (6, 5, 1)
    # An array y is on the points of each sample.
    moved = FieldSet(points.coords + 1e-2 * rng.random((12, 24, 2)), None)
    model.set_params(candidates=[("mean", pod("mean"))]).fit(moved, moved.coords[..., :1])
    np.testing.assert_allclose(model.predict(moved), np.tile(moved.coords[..., :1].mean(axis=0), (12, 1, 1)))


def test_default_operators_have_outputs_beside_the_points_of_a_grid():
    data = AutoRegressor()._read(*make_antiderivative(12, n_sensors=8, query_points=[0.3, 0.7], random_state=0))
    found = _auto._default_candidates(data.spec, 600, 1)
    operators = [model for name, model in found if name.startswith(("LaMO", "AMO"))]
    assert {model.geometry for model in operators} == {"points"}


def test_files_pickles_and_copies_predict_the_same(fields, tmp_path):
    X, y = fields
    inputs = FieldSet(unit_grid(GRID), X)
    targets = inputs.with_values(y.reshape(12, 24, 1), channel_names=["p"]).with_params(y.mean(axis=(1, 2)))
    model = by_epochs(("GP", pod("gaussian_process")), ("LaMO", lamo()), cv=2).fit(inputs, targets)
    expected = model.predict(inputs)
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        found = other.predict(inputs)
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.params, expected.params)
    assert found.channel_names == ("p",)
    assert loaded.leaderboard_.equals(model.leaderboard_)
    assert not [name for name in vars(clone(model)) if name.endswith("_")]
    assert not hasattr(model.candidates[1][1], "module_")


def test_a_file_with_several_models_is_refused_with_what_it_holds(tmp_path, monkeypatch):
    # Versions that wrote such files wrote no card.
    monkeypatch.setattr("skop.estimators.files._persistence.card_of", lambda _: {})
    model = by_epochs(("a", pod("mean")), cv=2).fit(TABLE, ONES)
    vars(model).update(estimators_=[vars(model).pop("estimator_")] * 2, weights_=np.full(2, 0.5))
    model.save(tmp_path / "model.skop")
    with pytest.raises(ModelFileError, match="weighted mean of several models"):
        skop.load(tmp_path / "model.skop")
    vars(model).update(estimators_=model.estimators_[:1], weights_=np.ones(1))
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(skop.load(tmp_path / "model.skop").predict(TABLE), 1.0)


def test_symmetries_and_seeds_reach_candidates_without(fields):
    X, y = fields
    rng, own = np.random.RandomState(0), ("own", lamo(symmetries=["flip_y"], random_state=5))
    first, second = (one.estimator for one in make_candidates([("LaMO", lamo()), own], rng, ["flip_x"], False))
    assert first.symmetries == ["flip_x"]
    assert isinstance(first.random_state, int)
    assert (second.symmetries, second.random_state) == (["flip_y"], 5)
    preset = ("darcy", LaMORegressor.from_preset("darcy"))
    assert make_candidates([preset], rng, ["flip_x"], False)[0].estimator.symmetries == ["flip_x"]
    model = by_epochs(("LaMO", lamo()), cv=KFold(2), symmetries=["flip_x"]).fit(X[:8], y[:8])
    assert model.estimator_.symmetries == ["flip_x"]


def test_a_leaderboard_has_no_final_fit():
    pytest.importorskip("pandas")
    table = leaderboard(TABLE, ONES, max_time=None, candidates=[("a", Known(0.2)), ("b", Known(0.1))], cv=4)
    assert list(table.candidate) == ["b", "a"]
    costs = ["fit_seconds", "predict_ms", "model_mb"]
    assert list(table.columns) == ["candidate", "error", "spread", *costs, "status", "reason"]
    np.testing.assert_allclose(table.error, [0.1, 0.2])
    np.testing.assert_allclose(table.spread, 0, atol=1e-12)
    assert len(Known.fits) == 8


def test_a_leaderboard_fits_operators_on_all_folds_with_all_of_the_budget(budget):
    pytest.importorskip("pandas")
    table = leaderboard(TABLE, ONES, max_time=90, candidates=[("a", Timed(0.1)), ("b", OtherTimed(0.2))])
    for kind in (Timed, OtherTimed):
        assert [limit for _, limit, *_ in kind.fits] == [pytest.approx(15)] * 3
    np.testing.assert_allclose(table.spread, 0, atol=1e-12)


def test_words_go_to_those_who_watch(budget, capsys, monkeypatch):
    model = AutoRegressor(candidates=[("a", Timed(0.1)), ("b", Known(0.2))], max_time=120)
    model.fit(TABLE, ONES)
    assert capsys.readouterr().err == ""  # a file
    budget.now = 0.0
    monkeypatch.setattr(_auto, "is_watched", lambda stream: True)
    model.fit(TABLE, ONES)
    plan = "AutoRegressor: 2 candidates, 3 folds; 12 s for the search of 2 min in all.\n"
    assert capsys.readouterr().err == plan
    budget.now = 0.0
    clone(model).set_params(verbose=1).fit(TABLE, ONES)
    assert capsys.readouterr().err == f"{plan}AutoRegressor: a 0.1; b 0.2; a is fitted on all samples.\n"
    clone(model).set_params(verbose=False).fit(TABLE, ONES)
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_default_candidates_take_grids_points_and_tables(fields, monkeypatch):
    monkeypatch.setattr(_auto, "_SECONDS_EACH", 0.001)
    X, y = fields
    sets = {"grid": (X, y), "table": (TABLE, TABLE.sum(axis=1))}
    points = FieldSet(np.random.default_rng(1).random((24, 2)), X.reshape(12, 24, 1))
    sets["points"] = (points, points.with_values(y.reshape(12, 24, 1)))
    for name, (inputs, targets) in sets.items():
        # Hardly more than one step of each operator.
        model = AutoRegressor(max_time=0.5, random_state=0).fit(inputs, targets)
        names = {row["candidate"] for row in model.results_}
        assert {"mean", "POD", "LaMO", "GeoMaNO", "MNO", "AMO", "LaMO without a base"} <= names
        assert ("LaMO, latent tokens" in names) == (name == "grid")
        assert not [row for row in model.results_ if row["status"] in ("failed", "left out")]


def test_the_default_has_an_operator_for_each_minute_of_a_fold_and_a_word_in_lists():
    spec = FieldSet(unit_grid(GRID), np.zeros((2, 24, 1)))
    spec = PODRegressor().fit(spec, spec.values).spec_
    extra = ("extra", Known())
    for seconds, operators in {1.0: ["LaMO"], 180.0: ["LaMO", "AMO", "LaMO, latent tokens"]}.items():
        model = AutoRegressor(candidates=["default", extra])
        assert [name for name, _ in model._candidates(spec, seconds)] == ["mean", "POD", *operators, "extra"]


@pytest.mark.exhaustive
def test_processes_do_not_change_the_result(fields):
    candidates = [("GP", pod("gaussian_process")), ("LaMO", lamo())]
    alone, together = (by_epochs(*candidates, n_jobs=n_jobs).fit(*fields) for n_jobs in (None, 2))
    np.testing.assert_allclose(alone.predict(fields[0]), together.predict(fields[0]), rtol=1e-5)
    assert [row["candidate"] for row in alone.results_] == [row["candidate"] for row in together.results_]


class Killed(Timed):
    """A model whose fit ends the process, as the system does where memory is short."""

    def fit(self, X, y):
        os._exit(1)


@pytest.mark.exhaustive
def test_a_process_that_is_killed_is_a_row():
    candidates = [("works", pod("mean")), ("killed", Killed(max_time=1.0)), ("later", lamo())]
    with parallel_config("loky", n_jobs=2):
        model = by_epochs(*candidates, cv=2).fit(TABLE, TABLE.sum(axis=1))
    table = {row["candidate"]: row for row in model.results_}
    assert table["works"]["status"] == "chosen"
    assert table["killed"]["status"] == "failed"
    assert "a process was killed" in table["killed"]["reason"]


def test_backends_that_give_all_results_at_the_end_serve_too():
    with parallel_config("multiprocessing", n_jobs=2):
        model = by_epochs(("a", Known(0.2)), ("b", Known(0.1)), ("c", Known(action=ValueError("odd")))).fit(TABLE, ONES)
    assert [row["status"] for row in model.results_] == ["chosen", "compared", "failed"]
    assert model.estimator_.error == 0.1


def test_groups_reach_candidates_that_take_them():
    """Copies of a sample tell all of it, so that a model that is chosen by single samples interpolates noise."""
    rng = np.random.default_rng(0)
    X, y = (np.repeat(part, 3, axis=0) for part in (rng.normal(size=(20, 3)), rng.normal(size=(20, 1))))
    X = X + 1e-6 * rng.normal(size=X.shape)
    model = AutoRegressor(candidates=[("pod", PODRegressor())], cv=4, random_state=0).fit(
        X, y, groups=np.arange(60) // 3
    )
    assert model.estimator_.leave_one_out_error_ > 0.9


def test_groups_reach_the_last_step_of_a_pipeline_and_no_member_that_takes_none():
    X, y = np.random.default_rng(0).random((2, 20, 3))
    kinds = {"pipeline": make_pipeline(StandardScaler(), PODRegressor()), "pod": PODRegressor()}
    kinds["ensemble"] = EnsembleRegressor(RolloutRegressor(DecisionTreeRegressor(), window=1), n_members=1)
    options = {"cv": 2, "max_time": None, "random_state": 0}
    model = AutoRegressor(candidates=list(kinds.items()), **options).fit(X, y, groups=np.arange(20) // 2)
    error = {row["candidate"]: row["error"] for row in model.results_}
    assert error["pipeline"] == pytest.approx(error["pod"], rel=1e-6)
    assert np.isfinite(error["ensemble"])
    with pytest.raises(FieldDataError, match="groups was given, but the fit of DecisionTreeRegressor takes none"):
        kinds["ensemble"].fit(X, y, groups=np.arange(20) // 2)


def test_folds_tell_the_errors_of_few_samples_themselves(monkeypatch, choice_repeated):
    """The choice of a classical model is repeated once, in the fit to all samples."""
    asked, repeat = [], _few_samples._predicted_by_others
    monkeypatch.setattr(_few_samples, "_predicted_by_others", lambda *a, **b: asked.append(a) or repeat(*a, **b))
    X = np.random.default_rng(0).random((20, 2))
    candidates = [("POD", PODRegressor(regressor="ridge")), ("mean", PODRegressor(regressor="mean"))]
    AutoRegressor(candidates=candidates, random_state=0).fit(X, X[:, 0] + 0.3 * X[:, 1] ** 2)
    assert len(asked) == 1
