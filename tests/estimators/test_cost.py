"""The estimate of the cost of a fit: what it says, and that it leaves everything as it is."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.utils import check_random_state

from skop import (
    AMORegressor,
    EnsembleRegressor,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.estimators import CostEstimate
from skop.exceptions import FieldDataError
from skop.training import EpochCost, measure_epoch

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(8, 8, 8, 1))
POINTS = [RANDOM.random((n, 2)) for n in (150, 120, 180, 240, 100, 130)]
TARGETS = [points[:, :1] for points in POINTS]


@pytest.fixture(autouse=True)
def as_few_steps_as_possible(monkeypatch):
    monkeypatch.setattr("skop.estimators.fitting._session.measure_epoch", partial(measure_epoch, seconds=0.0))


def small(kind=LaMORegressor, **params):
    return kind().set_params(**({"width": 8, "depth": 1, "max_iter": 4} | params))


def test_nothing_changes_and_nothing_is_drawn():
    source = np.random.RandomState(3)
    fitted = small(random_state=source).fit(X, X)
    before, numpy_state, torch_state = (
        pickle.dumps(vars(fitted)),
        check_random_state(None).get_state()[1].copy(),
        torch.get_rng_state(),
    )
    weights, rng = [weight.clone() for weight in fitted.module_.parameters()], source.get_state()[1].copy()
    fitted.estimate_cost(X[:4], X[:4])
    assert pickle.dumps(vars(fitted)) == before
    assert all(torch.equal(*pair) for pair in zip(weights, fitted.module_.parameters(), strict=True))
    np.testing.assert_array_equal(source.get_state()[1], rng)
    fresh = small()  # its random numbers are those of the process
    fresh.estimate_cost(POINTS, TARGETS)
    assert set(vars(fresh)) == set(fresh.get_params(deep=False))
    np.testing.assert_array_equal(check_random_state(None).get_state()[1], numpy_state)
    assert torch.equal(torch.get_rng_state(), torch_state)


@pytest.mark.parametrize("kind", [LaMORegressor, GeoMaNORegressor, AMORegressor])
def test_larger_patches_are_measured_on_grids(kind):
    cost = small(kind, patches__size=2).estimate_cost(X, X)
    assert isinstance(cost, CostEstimate)
    assert set(cost.savings) <= {"patches__size=4"}
    assert cost.n_epochs == 4
    assert cost.total_seconds == 4 * cost.seconds_per_epoch > 0


def test_fewer_points_are_measured_where_they_can_be_drawn(monkeypatch):
    measured = []

    def known(trainer, loader, **options):
        measured.append(loader.subsample_points)
        return EpochCost(10.0 if loader.subsample_points is None else 2.0, 3, 10**6)

    monkeypatch.setattr("skop.estimators.fitting._session.measure_epoch", known)
    cost = small(max_iter=50).estimate_cost(POINTS, TARGETS)
    # A quarter of the mean of 153 points, in two digits.
    assert measured == [None, 38]
    assert cost.savings == {"training__subsample_points=38": 100.0, "max_time=60": 60.0}
    assert str(cost).splitlines()[1:] == [
        "  training__subsample_points=38 would take 1 min 40 s",
        "  max_time=60 would take 1 min, in which there is time for 6 epochs",
    ]
    # Neither a network that has no such parameter, nor data that leave no choice, nor a setting that saves nothing.
    assert set(small(MNORegressor).estimate_cost(POINTS, TARGETS).savings) <= {"max_time=60"}
    tied = small(scaling__targets="point").estimate_cost((POINTS[0], np.ones((6, 150, 1))), np.ones((6, 150, 1)))
    assert not tied.savings
    monkeypatch.setattr(
        "skop.estimators.fitting._session.measure_epoch", lambda *given, **options: EpochCost(1.0, 3, 10**6)
    )
    assert not small().estimate_cost(POINTS, TARGETS).savings


@pytest.mark.parametrize(("max_time", "total", "n_epochs"), [(None, 400.0, 40), (35.0, 35.0, 4), (3600.0, 400.0, 40)])
def test_a_time_limit_is_the_total_if_it_ends_the_fit(max_time, total, n_epochs):
    cost = CostEstimate.of_epochs(EpochCost(10.0, 5, 1), 40, max_time, {"patches__size=4": 9.5})
    assert (cost.total_seconds, cost.n_epochs) == (total, n_epochs)
    assert cost.savings == ({"max_time=60": 60.0} if total > 60 else {})
    # A base is fitted before the epochs, whatever their settings.
    over_base = CostEstimate.of_epochs(EpochCost(10.0, 5, 1), 40, max_time, {"patches__size=4": 4.0}, before=5.0)
    assert over_base.total_seconds == {None: 405.0, 35.0: 35.0, 3600.0: 405.0}[max_time]
    assert over_base.savings.get("patches__size=4") == (None if max_time == 35.0 else 165.0)


def test_a_table_and_early_stopping_and_weights():
    table = RANDOM.random((30, 3))
    cost = small(early_stopping=True).estimate_cost(table, table[:, 0], sample_weight=np.ones(30))
    assert not cost.savings
    assert str(cost).startswith("4 epochs of about ")


def test_members_take_as_long_as_all_of_them():
    ensemble = EnsembleRegressor(small(), n_members=5)
    one = CostEstimate(2.0, 4, 8.0, 10**6, {"patches__size=4": 4.0})
    assert one.times(5) == CostEstimate(2.0, 20, 40.0, 10**6, {"patches__size=4": 20.0})
    assert one.times(3, 2) == CostEstimate(2.0, 12, 24.0, 2 * 10**6, {"patches__size=4": 12.0})
    assert ensemble.estimate_cost(X, X).n_epochs == 20
    assert ensemble.set_params(n_jobs=2).estimate_cost(X, X).n_epochs == 12
    assert not hasattr(ensemble, "estimators_")


@pytest.mark.parametrize(
    "model",
    [
        RolloutRegressor(small(), window=1),
        RolloutRegressor(small(), window=1, unroll=2, random_state=np.random.RandomState(0)),
        TimeConditionedRegressor(small()),
        EnsembleRegressor(TimeConditionedRegressor(small(), grouping="mixed"), n_members=1),
        TimeConditionedRegressor(EnsembleRegressor(small(), n_members=1)),
    ],
)
def test_data_in_time(model):
    before, frames = pickle.dumps(vars(model)), np.repeat(X, 2, axis=-1)
    cost = model.estimate_cost(X, frames)
    assert cost.n_epochs == 4
    assert pickle.dumps(vars(model)) == before


@pytest.mark.parametrize("model", [EnsembleRegressor(PODRegressor()), RolloutRegressor(PODRegressor(), window=1)])
def test_what_has_no_training_steps_says_so(model):
    with pytest.raises(FieldDataError, match="PODRegressor"):
        model.estimate_cost(X, X)


def test_errors_are_those_of_a_fit():
    with pytest.raises(FieldDataError, match="NaN"):
        small().estimate_cost(np.full_like(X, np.nan), X)
    with pytest.raises(ValueError, match="max_iter"):
        small(max_iter=0).estimate_cost(X, X)
    with pytest.raises(ValueError, match="weight_decay"):
        small(weight_decay=-1.0).estimate_cost(X, X)


def test_memory_in_words(subtests):
    for memory, words in [(2_340_000_000, "2.3 GB"), (812_000_000, "812 MB"), (2_340_000, "2.3 MB"), (0, "0.1 MB")]:
        with subtests.test(memory=memory):
            assert (
                str(CostEstimate(0.02, 1, 0.02, memory, {}))
                == f"1 epoch of about 20 ms, 20 ms in all; about {words} of memory"
            )
