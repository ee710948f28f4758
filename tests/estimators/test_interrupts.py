"""Ctrl-C: a fit keeps its model, and what makes several fits ends, as does a fit before its first epoch."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    LaMORegressor,
    LawRegressor,
    RolloutRegressor,
)
from skop.data import FieldLoader
from skop.exceptions import SkopWarning, held_warnings

X = np.random.default_rng(0).normal(size=(8, 4, 4, 1))


def small(**params):
    sizes = {"width": 8, "depth": 1, "max_iter": 6, "batch_size": 2, "random_state": 0}
    return LaMORegressor(**(sizes | params))


@pytest.fixture
def interrupt_after(monkeypatch):
    """Interrupt when these numbers of batches have been gathered, over all fits."""

    def install(*numbers):
        gather, count = FieldLoader.gather, [0]

        def interrupted(self, indices):
            count[0] += 1
            if count[0] in numbers:
                raise KeyboardInterrupt
            return gather(self, indices)

        monkeypatch.setattr(FieldLoader, "gather", interrupted)
        return count

    return install


def test_a_fit_of_its_own_keeps_the_model(interrupt_after):
    interrupt_after(11)  # in the third epoch of four batches
    with pytest.warns(SkopWarning, match="interrupted"):
        model = small().fit(X, X)
    assert (model.n_iter_, model.stopped_) == (2, "interrupted")
    assert np.isfinite(model.predict(X)).all()


def test_an_interrupt_before_the_first_epoch_raises_and_hands_out_no_model(interrupt_after):
    interrupt_after(2)
    model = small()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_an_interrupt_before_the_first_epoch_leaves_an_earlier_fit_whole(interrupt_after):
    model = small(max_iter=1).fit(X, X)
    expected = model.predict(X)
    count = interrupt_after(10**9)
    count[0] = 10**9 - 2
    with pytest.raises(KeyboardInterrupt):
        model.set_params(random_state=1).fit(X, X)
    np.testing.assert_array_equal(model.predict(X), expected)


WRAPPERS = {
    "rollout": lambda: RolloutRegressor(small(), window=1),
    "law": lambda: LawRegressor(small()),
    "pipeline": lambda: make_pipeline(small()),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_fits_one_estimator_keeps_its_model(name, interrupt_after):
    interrupt_after(11)
    with pytest.warns(SkopWarning, match="interrupted"):
        model = WRAPPERS[name]().fit(X, X)
    assert np.isfinite(model.predict(X)).all()


#: What fits several models for one call.
CALLS = {
    "first member": lambda: EnsembleRegressor(small(), n_members=3, random_state=0),
    "bands of an ensemble": lambda: ConformalRegressor(
        EnsembleRegressor(small(max_iter=1), n_members=3, random_state=0), method="cv+", coverage=0.5, cv=2
    ),
    "ensemble of rollouts": lambda: EnsembleRegressor(RolloutRegressor(small(), window=1), n_members=2),
    "choice": lambda: AutoRegressor(candidates=[("LaMO", small())], max_time=None, cv=2),
    "bands": lambda: ConformalRegressor(small(), method="cv+", coverage=0.5, cv=2),
    "base": lambda: small(base=small()),
}


def test_an_interrupt_inside_another_call_reaches_the_user(interrupt_after, subtests):
    for name in CALLS:
        with subtests.test(name):
            count, model = interrupt_after(9), CALLS[name]()
            with held_warnings() as held, pytest.raises(KeyboardInterrupt):
                model.fit(*[np.concatenate([X, X + 1])] * 2)
            assert not any("weights so far are kept" in text for text, _ in held)
            # Nothing was trained after it: one more batch tells the share of the network, and one what is known.
            assert count[0] <= 11
            with pytest.raises(NotFittedError):
                model.predict(X)


def test_an_interrupted_ensemble_keeps_the_members_that_were_fitted(interrupt_after):
    whole = EnsembleRegressor(small(), n_members=3, random_state=0).fit(X, X)
    assert whole.stopped_ == "n_members"
    count = interrupt_after(2 * 24 + 9)  # in the third epoch of the third member, of six epochs of four batches
    cut = EnsembleRegressor(small(), n_members=3, random_state=0)
    with pytest.warns(SkopWarning, match=r"the members fitted before \(2\) are kept"):
        cut.fit(X, X)
    assert count[0] <= 2 * 24 + 11
    assert (len(cut.estimators_), cut.stopped_) == (2, "interrupted")
    expected = np.mean([member.predict(X) for member in whole.estimators_[:2]], axis=0)
    np.testing.assert_allclose(cut.predict(X), expected, rtol=1e-12)


def test_an_interrupted_warm_start_keeps_the_members_that_were_not_continued(interrupt_after):
    interrupt_after()
    model = EnsembleRegressor(small(warm_start=True), n_members=3, random_state=0).fit(X, X)
    last = model.estimators_[2].predict(X)
    interrupt_after(24 + 9)
    with pytest.warns(SkopWarning, match=r"the members fitted before \(1\) are kept"):
        model.fit(X, X)
    assert len(model.estimators_) == 3
    np.testing.assert_array_equal(model.estimators_[2].predict(X), last)


def test_an_interrupt_of_the_final_fit_of_a_choice_keeps_its_model(interrupt_after):
    candidates = [("LaMO", small(max_iter=10**6))]
    # A lone candidate is not tried. Of a limited time, a pass before the training is one batch more.
    interrupt_after(12)
    model = AutoRegressor(candidates=candidates, max_time=600)
    with pytest.warns(SkopWarning, match="interrupted; the best weights so far are kept"):
        model.fit(X, X)
    assert (model.estimator_.n_iter_, model.estimator_.stopped_) == (2, "interrupted")
    assert model.results_[0]["status"] == "chosen"
    assert np.isfinite(model.predict(X)).all()
    # An estimator around it, which would go on with other fits, ends.
    interrupt_after(12)
    with pytest.raises(KeyboardInterrupt):
        EnsembleRegressor(AutoRegressor(candidates=candidates, max_time=600), n_members=2).fit(X, X)


SEARCHES = {
    "cross-validation": lambda: cross_val_score(small(), X, X, cv=4),
    "search": lambda: GridSearchCV(small(), {"width": [8, 16]}, cv=4).fit(X, X),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_second_interrupt_ends_a_search_of_scikit_learn(name, interrupt_after):
    """The first one ends a fit, as it does for scikit-learn's own networks; the next one comes in its first epoch."""
    interrupt_after(9)
    with pytest.warns(SkopWarning, match="interrupted"):
        SEARCHES[name]()
    count = interrupt_after(9, 9 + 3)
    with pytest.warns(SkopWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        SEARCHES[name]()
    assert count[0] == 9 + 3
