"""EnsembleRegressor: means and spreads of its members, in every form of y."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor

from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    LawRegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.data import unit_grid
from skop.exceptions import FieldDataError
from skop.metrics import neg_relative_l2_scorer, relative_l2_error

GRID = (6, 4)


def member(**changes):
    return LaMORegressor().set_params(
        **({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 3, "base": None} | changes)
    )


@pytest.fixture(scope="module")
def fields():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, *GRID, 1))
    return X, 1.0 + np.cumsum(X, axis=1) / 6


def test_prediction_is_the_mean_and_spread_the_deviation_of_the_members(fields):
    X, y = fields
    model = EnsembleRegressor(member(), n_members=3, random_state=0).fit(X, y)
    each = np.stack([fitted.predict(X) for fitted in model.estimators_])
    mean, spread = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, each.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(spread, each.std(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), mean)
    assert spread.min() > 0


def test_the_mean_is_no_worse_than_the_members_on_average(fields):
    X, y = fields
    model = EnsembleRegressor(member(), n_members=4, random_state=1).fit(X[:8], y[:8])
    # A norm is convex, so this holds for any members.
    errors = [relative_l2_error(y[8:], fitted.predict(X[8:])) for fitted in model.estimators_]
    assert relative_l2_error(y[8:], model.predict(X[8:])) < np.mean(errors)


def test_seeds_differ_between_members_and_repeat_between_fits(fields):
    X, y = fields
    one, two = (EnsembleRegressor(member(), n_members=3, random_state=5).fit(X, y) for _ in range(2))
    seeds = [fitted.random_state for fitted in one.estimators_]
    assert len(set(seeds)) == 3
    assert seeds == [fitted.random_state for fitted in two.estimators_]
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@pytest.mark.parametrize(("changes", "n_fits"), [({}, 1), ({"early_stopping": True}, 3)])
def test_members_share_a_base_where_it_is_the_same(fields, changes, n_fits, monkeypatch):
    fits, unseen = [], PODRegressor._leave_one_out
    monkeypatch.setattr(PODRegressor, "_leave_one_out", lambda self, *given: fits.append(given) or unseen(self, *given))
    X, y = fields
    model = EnsembleRegressor(member(base="pod", max_iter=1, **changes), n_members=3, random_state=0).fit(X, y)
    # With other samples for the validation the targets are scaled otherwise.
    assert len(fits) == n_fits
    for fitted in model.estimators_:
        alone = member(base="pod", max_iter=1, random_state=fitted.random_state, **changes).fit(X, y)
        np.testing.assert_array_equal(fitted.predict(X), alone.predict(X))
    assert len(fits) == n_fits + 3
    # Other samples have another base.
    model.fit(X[:11], y[:11])
    assert len(fits) == 2 * n_fits + 3


@pytest.mark.exhaustive
def test_processes_do_not_change_the_result(fields):
    X, y = fields
    alone = EnsembleRegressor(member(), n_members=2, random_state=5).fit(X, y)
    together = EnsembleRegressor(member(), n_members=2, random_state=5, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(alone.predict(X), together.predict(X), rtol=1e-5)


def test_the_estimator_passed_stays_unfitted(fields):
    base = member()
    EnsembleRegressor(base, n_members=2).fit(*fields)
    assert not hasattr(base, "module_")
    assert base.random_state is None


def test_kinds_of_y_come_back(fields):
    X, y = fields
    points = FieldSet(unit_grid(GRID), X)
    for inputs, targets, kind in (
        (points, points.with_values(y.reshape(12, 24, 1), channel_names=["p"]), FieldSet),
        (np.ones((12, 2)) * np.arange(12.0)[:, None], (unit_grid(GRID), y), tuple),
        (X, y[..., 0], np.ndarray),
        (X, y.sum(axis=(1, 2, 3)), np.ndarray),
    ):
        mean, spread = EnsembleRegressor(member(), n_members=2).fit(inputs, targets).predict(inputs, return_std=True)
        assert isinstance(mean, kind)
        assert isinstance(spread, kind)
        if kind is FieldSet:
            assert mean.channel_names == ("p",)
            assert spread.shape == mean.shape == (12, 24, 1)
        elif kind is np.ndarray:
            assert mean.shape == spread.shape == targets.shape


def test_weights_reach_the_members(fields):
    X, y = fields
    weight = np.r_[np.ones(6), np.zeros(6)]
    weighted = EnsembleRegressor(member(batch_size=12), n_members=1, random_state=0).fit(X, y, sample_weight=weight)
    fewer = EnsembleRegressor(member(batch_size=12), n_members=1, random_state=0).fit(X[:6], y[:6])
    np.testing.assert_allclose(weighted.predict(X), fewer.predict(X), rtol=1e-4, atol=1e-5)


def test_searches_reach_the_member(fields):
    search = GridSearchCV(
        EnsembleRegressor(member(), n_members=1, random_state=0),
        {"estimator__width": [8, 16]},
        scoring=neg_relative_l2_scorer,
        cv=2,
    ).fit(*fields)
    assert search.best_params_["estimator__width"] in (8, 16)


def test_bad_data_is_refused_in_the_members_words(fields):
    X, y = fields
    with pytest.raises(FieldDataError, match=r"12 samples.*y has 11"):
        EnsembleRegressor(member(), n_members=2).fit(X, y[:11])


def test_an_estimator_without_random_state_is_named(fields):
    X, y = fields
    with pytest.raises(FieldDataError, match="PODRegressor has no random_state: all members would be the same"):
        EnsembleRegressor(PODRegressor()).fit(X, y)
    for passing in (TimeConditionedRegressor(PODRegressor()), LawRegressor(PODRegressor())):
        with pytest.raises(FieldDataError, match="PODRegressor has no random_state: all members would be the same"):
            EnsembleRegressor(passing).fit(X, y)


def test_seeds_reach_the_network_of_an_estimator_without_one():
    rng = np.random.default_rng(0)
    X, y = rng.random((12, 2)), rng.random((12, 3))
    laws = LawRegressor(TimeConditionedRegressor(member(max_iter=1), times=3))
    trees = PODRegressor(regressor=ExtraTreesRegressor(2, max_features=1, max_depth=1))
    nested = EnsembleRegressor(LawRegressor(member(max_iter=1)), n_members=1, random_state=0)
    for inner in (laws, LawRegressor(member(max_iter=1)), TimeConditionedRegressor(trees, times=3), nested):
        ensemble = EnsembleRegressor(inner, n_members=2, random_state=0)
        one, other = ensemble.fit(X, y).estimators_
        assert not np.array_equal(one.predict(X), other.predict(X))
        np.testing.assert_array_equal(ensemble.predict(X), ensemble.fit(X, y).predict(X))
    ensemble = EnsembleRegressor(LawRegressor(member(max_iter=1, warm_start=True)), n_members=2, random_state=0)
    seeds = [[one.get_params()["estimator__random_state"] for one in ensemble.fit(X, y).estimators_] for _ in range(2)]
    assert seeds[0] == seeds[1]


def test_the_score_of_one_rollout_is_that_of_the_rollout():
    """Frames of a decaying trajectory have one unit, also where an ensemble averages them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 4, 4, 4))
    y = np.concatenate([X * 0.1**step for step in range(1, 4)], axis=-1)
    ensemble = EnsembleRegressor(RolloutRegressor(member(max_iter=1), window=2), n_members=1, random_state=0).fit(X, y)
    assert ensemble.score(X, y) == ensemble.estimators_[0].score(X, y)


def test_groups_are_for_members_that_take_them():
    X = np.random.default_rng(0).random((20, 2))[np.arange(24) % 20]
    y, times = np.sin(X[:, :1] + X[:, 1:] * [0.0, 0.5, 1.0]), [0.0, 0.5, 1.0]
    tree = DecisionTreeRegressor(max_depth=2)
    members = EnsembleRegressor(TimeConditionedRegressor(tree, times=times), n_members=2)
    with pytest.raises(FieldDataError, match="groups was given, but the fit of DecisionTreeRegressor takes none"):
        members.fit(X, y, groups=np.arange(24))
    # The inputs that come twice are groups to a band.
    band = ConformalRegressor(members, coverage=0.5, random_state=0).fit(X, y)
    assert band.predict(X).shape == (24, 3)


# ---------------------------------------------------------------------- points between those of the fit
@pytest.mark.parametrize("kind", ["pod", "ensemble", "law", "auto"])
def test_deviations_between_the_points_of_the_fit_lack_the_interpolation_and_say_so(kind):
    """Waves of three points each: exact at the points, and wrong between them by far more than the deviation."""
    rng = np.random.default_rng(0)
    size, nodes = rng.uniform(1, 2, (20, 1)), np.linspace(0, 1, 25)[:, None]
    pod = PODRegressor(regressor="ridge")
    model = {
        "pod": pod,
        "ensemble": EnsembleRegressor(PODRegressor(regressor=ExtraTreesRegressor(9)), n_members=2, random_state=0),
        "law": LawRegressor(pod, proportional_to=0),
        "auto": AutoRegressor(candidates=[("pod", pod)], random_state=0, verbose=False),
    }[kind]
    waves = lambda points: size[:, None] * np.sin(50 * points)  # noqa: E731
    model.fit(size, FieldSet(nodes, waves(nodes)))
    places = np.concatenate([nodes[:5], nodes[:5] + 1 / 50])

    def said(coords):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = model.predict(size, coords=coords, return_std=True)
        return found, [str(item.message) for item in caught if str(item.message).startswith("standard deviations")]

    for coords in (None, nodes, nodes[::-2], nodes[3:5] + 1e-9):
        assert not said(coords)[1]
    (mean, spread), messages = said(places)
    assert len(messages) == 1
    assert "are those at 25 points, but fields are predicted here at 10, some of which are others" in messages[0]
    assert np.abs(mean.values - waves(places))[:, 5:].mean() > 5 * spread.values.mean()
