"""A fit that fails leaves the earlier one, or none, in every estimator."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from skop import (
    ConformalRegressor,
    EnsembleRegressor,
    LaMORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
    TrainingOptions,
)
from skop.data import FieldSet
from skop.exceptions import SkopWarning
from skop.training._gradients import Gradients

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


def huge(prediction, target, **options):
    """Loss that asks for more memory than any address space has."""
    return prediction.sum() + torch.empty(2**55, dtype=torch.uint8).sum()


def test_a_step_that_runs_out_of_memory_says_what_to_set():
    X = np.random.default_rng(0).normal(size=(8, 4, 4, 1))
    model = LaMORegressor(width=8, depth=1, max_iter=1, batch_size=4, random_state=0).fit(X, X)
    expected = model.predict(X)
    with pytest.raises(MemoryError, match=r"batch_size=4 ran out of memory \(.*\)\. Set batch_size=2, a smaller width"):
        model.set_params(loss=huge).fit(X, X)
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("said", ["could not create a primitive", "DefaultCPUAllocator: can't allocate memory"])
def test_predictions_and_estimates_of_cost_out_of_memory_say_what_to_do(said, monkeypatch):
    X = np.random.default_rng(0).normal(size=(8, 4, 4, 1))
    model = member(base=None).fit(X, X)

    def fails(*_, **__):
        raise RuntimeError(said)

    monkeypatch.setattr(type(model.module_), "forward", fails)
    with pytest.raises(MemoryError, match=r"a prediction of 128 points at once ran out of memory .*fewer points"):
        model.predict(X)
    with pytest.raises(MemoryError, match=r"training ran out of memory .*smaller batch_size"):
        model.estimate_cost(X, X)
    said += " descriptor"
    if "primitive" in said:
        with pytest.raises(RuntimeError, match="descriptor"):
            model.predict(X)


def ragged(rng):
    coords = [rng.random((int(count), 2)) for count in rng.integers(9, 16, size=8)]
    return FieldSet(coords, [np.sin(4 * points[:, :1]) for points in coords]), [points[:, :1] ** 2 for points in coords]


@pytest.mark.parametrize("kind", ["weighted", "ragged", "summed", "trajectories"])
def test_batches_that_are_too_large_are_taken_in_parts_with_the_same_gradients(kind, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = ragged(rng) if kind == "ragged" else (rng.normal(size=(8, 4, 4, 1)), rng.normal(size=(8, 4, 4, 1)))
    options = {"sample_weight": np.arange(1.0, 9.0)} if kind == "weighted" else {}
    reduction = TrainingOptions(loss_reduction="sum" if kind == "summed" else "mean", ema_decay=0.5)
    model = member(dtype="float64", base=None, batch_size=5, training=reduction)
    if kind == "trajectories":
        y = np.concatenate([y, -y], axis=-1)
        model = RolloutRegressor(model.set_params(batch_size=3), window=1, unroll=2)
    expected = clone(model).fit(X, y, **options)
    outputs_of, largest = Gradients.outputs_of, [0]

    def limited(self, batch):
        if torch.is_grad_enabled():
            if len(batch) > 2:
                of_torch = "DefaultCPUAllocator: can't allocate memory: you tried to allocate much"
                raise RuntimeError("could not create a primitive" if len(batch) == 3 else of_torch)
            largest[0] = max(largest[0], len(batch))
        return outputs_of(self, batch)

    monkeypatch.setattr(Gradients, "outputs_of", limited)
    with pytest.warns(SkopWarning, match="ran out of memory; batches such as .* in up to 4 parts"):
        found = clone(model).fit(X, y, **options)
    assert largest[0] == 2
    fitted, reference = (getattr(held, "estimator_", held) for held in (found, expected))
    np.testing.assert_allclose(fitted.loss_curve_, reference.loss_curve_, rtol=1e-12)
    for name, weights in reference.module_.state_dict().items():
        np.testing.assert_allclose(fitted.module_.state_dict()[name], weights, rtol=0, atol=1e-9, err_msg=name)


def ridge():
    """A classical model that fits in a moment, of its own for each case, which changes its parameters."""
    return PODRegressor(regressor="ridge")


MODELS = {
    "POD": (PODRegressor(regressor=Refuses()), {"regressor": Refuses(1)}, RuntimeError),
    "POD components": (ridge(), {"regressor": Refuses(1)}, RuntimeError),
    "rollout": (RolloutRegressor(ridge(), window=3), {"estimator__regressor": Refuses(1)}, RuntimeError),
    "rollout channels": (RolloutRegressor(ridge(), window=3), {"window": 4}, ValueError),
    "times": (TimeConditionedRegressor(ridge()), {"times": 5}, ValueError),
    "ensemble": (EnsembleRegressor(member(), n_members=1), {"estimator__symmetries": ["typo"]}, ValueError),
    "band": (ConformalRegressor(ridge(), coverage=0.5, random_state=0), {"coverage": 0.999}, ValueError),
    "operator": (member(), {"symmetries": ["typo"]}, ValueError),
}


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_a_fit_that_fails_leaves_the_earlier_fit_whole(subtests):
    for name, (model, changes, error) in MODELS.items():
        with subtests.test(name):
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
