"""A fit that fails leaves the earlier one, or none, in every estimator."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from skop import EnsembleRegressor, LaMORegressor, PODRegressor, RolloutRegressor, TimeConditionedRegressor

TABLE = pd.DataFrame(np.random.default_rng(0).random((8, 3)), columns=["a", "b", "c"])
OTHER = pd.DataFrame(np.random.default_rng(1).random((8, 6)), columns=list("uvwxyz"))


class Refuses(RegressorMixin, BaseEstimator):
    """Linear regression that refuses more columns than it is told."""

    def __init__(self, most=20):
        self.most = most

    def fit(self, X, y, sample_weight=None):
        if self.most < 20:
            raise RuntimeError("the solver failed")
        self.inner_ = LinearRegression().fit(X, y)
        return self

    def predict(self, X):
        return self.inner_.predict(X)


def member(**params):
    return LaMORegressor().set_params(width=8, depth=1, max_iter=1, random_state=0, **params)


MODELS = {
    "POD": (PODRegressor(regressor=Refuses()), {"regressor": Refuses(1)}, RuntimeError),
    "POD components": (PODRegressor(), {"regressor": Refuses(1)}, RuntimeError),
    "rollout": (RolloutRegressor(PODRegressor(), window=3), {"estimator__regressor": Refuses(1)}, RuntimeError),
    "rollout channels": (RolloutRegressor(PODRegressor(), window=3), {"window": 4}, ValueError),
    "times": (TimeConditionedRegressor(PODRegressor()), {"times": 5}, ValueError),
    "ensemble": (EnsembleRegressor(member(), n_members=1), {"estimator__symmetries": ["typo"]}, ValueError),
    "operator": (member(), {"symmetries": ["typo"]}, ValueError),
}


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_fails_leaves_the_earlier_fit_whole(name):
    model, changes, error = MODELS[name]
    y = np.stack([TABLE["a"], TABLE["b"] + TABLE["a"], TABLE["c"]], axis=1)
    if name.startswith("rollout"):
        model.set_params(n_steps=3)
    model.fit(TABLE, y)
    expected, before = model.predict(TABLE), dict(vars(model))
    with pytest.raises(error):
        model.set_params(**changes).fit(OTHER, np.tile(y, 2))
    after = dict(vars(model))
    for fitted in (kept for kept in before if kept.endswith("_")):
        assert after[fitted] is before[fitted], fitted
    assert {kept for kept in after if kept.endswith("_")} == {kept for kept in before if kept.endswith("_")}
    np.testing.assert_array_equal(model.predict(TABLE), expected)


def test_a_first_fit_that_fails_leaves_no_fit():
    model = PODRegressor(regressor=Refuses(1))
    with pytest.raises(RuntimeError, match="solver"):
        model.fit(TABLE, TABLE["a"])
    with pytest.raises(NotFittedError):
        model.predict(TABLE)
    assert not hasattr(model, "feature_names_in_")


def test_an_ensemble_forgets_the_names_of_an_earlier_table():
    model = EnsembleRegressor(member(), n_members=1).fit(TABLE, TABLE["a"])
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    model.fit(OTHER.to_numpy(), TABLE["a"])
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 6
