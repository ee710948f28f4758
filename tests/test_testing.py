"""The suite of field checks catches estimators that break a law, each by the check made for it."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from skop import FieldSet, LaMORegressor
from skop.parts import Patches
from skop.testing import check_field_estimator, parametrize_with_field_checks
from skop.testing._samples import make_samples, state_of
from skop.testing._suite import FieldCheck, yield_field_checks


class Remembers(LaMORegressor):
    """Predict leaves an attribute behind."""

    def predict(self, X):
        self.last_ = np.shape(X)
        return super().predict(X)


class CentresTheBatch(LaMORegressor):
    """Predictions depend on the other samples."""

    def predict(self, X):
        predicted = super().predict(X)
        return predicted - predicted.mean(axis=0) if isinstance(predicted, np.ndarray) else predicted


class SortsSamples(LaMORegressor):
    """Predictions come in an order of their own."""

    def predict(self, X):
        predicted = super().predict(X)
        return predicted[np.argsort(predicted.reshape(len(predicted), -1)[:, 0])]


class IgnoresSeed(LaMORegressor):
    """Every fit differs."""

    def fit(self, X, y, sample_weight=None):
        seed, self.random_state = self.random_state, None
        super().fit(X, y, sample_weight)
        self.random_state = seed
        return self


class SeedsGlobally(LaMORegressor):
    """Fit seeds torch for everybody."""

    def fit(self, X, y, sample_weight=None):
        torch.manual_seed(0)
        return super().fit(X, y, sample_weight)


class IgnoresWeights(LaMORegressor):
    """Weights are taken and dropped."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


class WritesToInputs(LaMORegressor):
    """Fit clips the array that it was given."""

    def fit(self, X, y, sample_weight=None):
        if isinstance(X, np.ndarray) and X.ndim > 2:
            np.clip(X, -0.1, 0.1, out=X)
        return super().fit(X, y, sample_weight)


class KeepsOldLevel(LaMORegressor):
    """A fit remembers the one before."""

    def fit(self, X, y, sample_weight=None):
        self.level_ = getattr(self, "level_", 0.0) + 1.0
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        predicted = super().predict(X)
        return predicted + self.level_ if isinstance(predicted, np.ndarray) else predicted


class ForgetsContainer(LaMORegressor):
    """A FieldSet comes back as an array."""

    def predict(self, X):
        predicted = super().predict(X)
        return predicted.values if isinstance(predicted, FieldSet) else predicted


class RewardsSquares(LaMORegressor):
    """Score is something else."""

    def score(self, X, y, sample_weight=None):
        return super().score(X, y, sample_weight) ** 2


class StartsColdAlways(LaMORegressor):
    """A warm start is accepted and ignored."""

    def fit(self, X, y, sample_weight=None):
        warm, self.warm_start = self.warm_start, False
        super().fit(X, y, sample_weight)
        self.warm_start = warm
        return self


class DrawsOnPickling(LaMORegressor):
    """The weights do not survive pickle."""

    def __setstate__(self, state):
        super().__setstate__(state)
        if hasattr(self, "module_"):
            with torch.no_grad():
                for weights in self.module_.parameters():
                    weights.add_(0.1)


BROKEN = {
    Remembers: "check_predict_keeps_state",
    CentresTheBatch: "check_batch_mates",
    SortsSamples: "check_sample_order",
    IgnoresSeed: "check_fit_repeatable",
    SeedsGlobally: "check_global_randomness",
    IgnoresWeights: "check_weight_repetition",
    WritesToInputs: "check_fit_keeps_inputs",
    KeepsOldLevel: "check_fit_forgets",
    ForgetsContainer: "check_containers",
    RewardsSquares: "check_score",
    StartsColdAlways: "check_warm_start",
    DrawsOnPickling: "check_pickle",
}


def small(kind, **params):
    return kind(width=8, depth=1, batch_size=4, max_iter=2, **params)


def checks_by_name(estimator, **options):
    return {check.name: check for check in yield_field_checks(estimator, **options)}


def test_a_broken_law_is_caught_and_named(subtests):
    for kind, name in BROKEN.items():
        check = checks_by_name(small(kind), n_dims=[2])[name]
        with subtests.test(kind.__name__):
            with pytest.raises(AssertionError) as caught:
                check(small(kind))
            for part in (kind.__name__, name, "2-D", check.law):
                assert part in str(caught.value)


def test_a_claim_of_any_grid_is_held_against_the_estimator():
    tied = small(LaMORegressor).set_params(patches__positional_encoding="learned", refinement="native")
    checks_by_name(tied, n_dims=[2])["check_other_grid"](tied)
    with pytest.raises(AssertionError, match="positional_encoding='learned'"):
        checks_by_name(tied, n_dims=[2], any_grid=True)["check_other_grid"](tied)


def test_a_table_estimator_fails_with_a_law_and_not_with_its_own_error():
    with pytest.raises(AssertionError, match=r"LinearRegression fails check_clone\[2-D\].*it raised ValueError"):
        check_field_estimator(LinearRegression(), n_dims=[2])


def test_which_checks_apply():
    everywhere = [str(check) for check in yield_field_checks(LaMORegressor())]
    assert len(everywhere) == len(set(everywhere))
    assert {check.n_dims for check in yield_field_checks(LaMORegressor())} == {1, 2, 3}
    assert {check.n_dims for check in yield_field_checks(LaMORegressor(), n_dims=[3])} == {3}
    # Laws of optional abilities are not asked of an estimator without them.
    names = {check.name for check in yield_field_checks(LinearRegression())}
    assert "check_warm_start" not in names
    assert "check_weight_repetition" in names


def test_every_check_function_is_in_the_suite():
    from skop.testing import _data_checks, _estimator_checks

    names = {*vars(_data_checks), *vars(_estimator_checks)}
    written = {name for name in names if name.startswith("check_")}
    assert written - {"check_is_fitted"} == set(checks_by_name(LaMORegressor()))


def test_parametrize_gives_one_case_for_each_estimator_and_check():
    estimators = [LaMORegressor(), LaMORegressor(patches=Patches(positional_encoding=None))]
    mark = parametrize_with_field_checks(estimators, n_dims=[1]).mark
    expected = [check for estimator in estimators for check in yield_field_checks(estimator, n_dims=[1])]
    assert [case.values[1].name for case in mark.args[1]] == [check.name for check in expected]
    assert all(isinstance(case.values[1], FieldCheck) for case in mark.args[1])


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_samples_are_odd_and_never_zero(n_dims):
    samples = make_samples(n_dims)
    assert len(set(samples.grid)) == n_dims
    assert np.all(np.abs(samples.y) > 0.5)
    assert samples.coords.shape == (np.prod(samples.grid), n_dims)


def test_the_state_shows_a_change_of_one_weight():
    samples = make_samples(1)
    estimator = small(LaMORegressor, random_state=0).fit(samples.X, samples.y)
    before = state_of(estimator)
    assert state_of(estimator) == before
    with torch.no_grad():
        next(estimator.module_.parameters()).view(-1)[0].add_(1e-3)
    assert state_of(estimator) != before
