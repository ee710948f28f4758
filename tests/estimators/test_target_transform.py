"""Targets that are learnt as logarithms, against fits of the logarithms themselves."""

import pickle
import re

import numpy as np
import pytest
import torch

import skop
from skop import (
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    RolloutRegressor,
    ScalingOptions,
    SymmetryOptions,
    TimeConditionedRegressor,
)
from skop.exceptions import FieldDataError, NonFinitePredictionError
from skop.losses import SobolevLoss
from skop.metrics import relative_l2_score

RANDOM = np.random.default_rng(0)
GRID = (5, 4)
P = RANDOM.normal(size=(8, 3))
FIELD = np.sin(P @ RANDOM.normal(size=(3, 20))).reshape(8, *GRID, 1)
CLOUD = RANDOM.random((8, 15, 2))


def small(target_transform="log", **params):
    sizes = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 2, "random_state": 0}
    return LaMORegressor(scaling=ScalingOptions(target_transform=target_transform)).set_params(**(sizes | params))


def points(values, params=None):
    return FieldSet(CLOUD, values.reshape(8, -1, 1)[:, :15], params=params)


SLICES = {"latents__n_tokens": 4, "latents__n_heads": 2}
LAWS = {
    "scalars": (P, FIELD[:, 0, :2, 0], {}),
    "field on a grid": (FIELD, 3 * FIELD + 1, {"symmetries": ["flip_x"]}),
    "unscaled": (P, FIELD, {"scaling__targets": None}),
    "scaled at each point": (P, FIELD, {"scaling__targets": "point"}),
    "points, with scalars": (points(FIELD, P), points(2 * FIELD, P[:, :2]), SLICES),
}


def exponential(y):
    """Exponential of a target of any form."""
    if not isinstance(y, FieldSet):
        return np.exp(y)
    return y.with_values(np.exp(y.values)).with_params(None if y.params is None else np.exp(y.params))


def test_exponentials_are_learnt_as_their_exponents(subtests):
    """Under the squared error, which is that of the scaled logarithms."""
    for name, (X, y, params) in LAWS.items():
        with subtests.test(name):
            params = {"loss": "mse", "dtype": "float64"} | params
            found = small(**params).fit(X, exponential(y)).predict(X)
            expected = exponential(small(None, **params).fit(X, y).predict(X))
            if isinstance(found, FieldSet):
                if found.params is not None:
                    np.testing.assert_allclose(found.params, expected.params, rtol=1e-10)
                found, expected = found.values, expected.values
            np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("size", [1.0, 1e-60])
def test_values_that_single_precision_does_not_hold_are_learnt(size):
    y = size * np.exp(FIELD)
    params = {"loss": "mse", "max_iter": 3}  # Training amplifies the rounding of the logarithms.
    model, unit = small(**params).fit(P, y), small(**params).fit(P, np.exp(FIELD))
    assert model.dtype_ == "float32"
    np.testing.assert_allclose(model.predict(P) / size, unit.predict(P), rtol=1e-4)


def test_relative_losses_and_scores_are_in_physical_units():
    y = 1e6 * np.exp(2 * FIELD)
    seen = []

    def loss(prediction, target, **options):
        seen.append(target.detach())
        return SobolevLoss()(prediction, target, **options)

    model = small(loss=loss, batch_size=8, max_iter=1).fit(P, y)
    targets = np.sort(torch.cat(seen).flatten().numpy())
    np.testing.assert_allclose(targets, np.sort(y, axis=None), rtol=1e-5)
    auto = small(batch_size=8, max_iter=1, training=None).fit(P, y)
    np.testing.assert_allclose(auto.loss_curve_, model.loss_curve_, rtol=1e-5)
    assert model.score(P, y) == relative_l2_score(y, model.predict(P))


def test_validation_is_in_physical_units():
    y = np.exp(FIELD)
    model = small(early_stopping=True, max_iter=2, training__validation_fraction=0.5).fit(P, y)
    held = np.random.RandomState(0).permutation(8)[:4]
    best = max(model.validation_scores_)
    assert best == pytest.approx(model.score(P[np.sort(held)], y[np.sort(held)]), abs=1e-5)


def test_gradients_are_the_limits_of_differences():
    y = np.exp(FIELD)
    model = small(dtype="float64").fit(P, y)
    found = model.gradient(P, lambda field: field[:, 7, 0])
    for column, step in enumerate(1e-5 * np.eye(3)):
        difference = (model.predict(P + step) - model.predict(P - step)).reshape(8, -1)[:, 7] / 2e-5
        np.testing.assert_allclose(found[:, column], difference, rtol=1e-4, atol=1e-7)


def test_predictions_between_points_are_positive_and_those_of_the_logarithms():
    params = {"dtype": "float64", "loss": "mse"}
    X = FIELD.repeat(2, axis=1)[:, :9].repeat(2, axis=2)[:, :, :7]
    y = 3 * FIELD
    log, plain = small(**params).fit(FIELD, np.exp(y)), small(None, **params).fit(FIELD, y)
    np.testing.assert_allclose(log.predict(X), np.exp(plain.predict(X)), rtol=1e-10)
    places = RANDOM.random((6, 2))
    np.testing.assert_allclose(log.predict(FIELD, coords=places), np.exp(plain.predict(FIELD, coords=places)), 1e-10)


def test_resampled_points_are_positive():
    y = points(np.exp(3 * FIELD))
    assert (small(grid=(6, 6)).fit(points(FIELD), y).predict(points(FIELD)).values > 0).all()


def test_files_pickles_and_warm_starts_keep_the_transform(tmp_path):
    y = np.exp(FIELD)
    model = small().fit(P, y)
    model.save(tmp_path / "model.skop")
    for copy in (skop.load(tmp_path / "model.skop"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict(P), model.predict(P))
    model.set_params(warm_start=True, max_iter=1).fit(P, y)
    assert model.n_iter_ == 3
    with pytest.raises(ValueError, match="target_transform"):
        model.set_params(scaling__target_transform=None).fit(P, y)


def test_ensembles_and_frames():
    X, frames = np.exp(0.2 * FIELD), np.exp(0.2 * np.concatenate([FIELD, FIELD], axis=-1))
    mean, spread = EnsembleRegressor(small(), n_members=2, random_state=0).fit(P, X).predict(P, return_std=True)
    assert (mean > 0).all()
    assert (spread >= 0).all()
    for model in (
        RolloutRegressor(small(), window=1),
        RolloutRegressor(small(), window=1, unroll=2),
        TimeConditionedRegressor(small(), times=2),
    ):
        assert (model.fit(X, frames).predict(X) > 0).all()


ZEROS = np.exp(FIELD)
ZEROS[5, 2, 1] = 0.0
FRAMES = np.exp(np.concatenate([FIELD, FIELD], axis=-1))
FRAMES[3, 1, 1, 1] = -2.5


def test_values_without_a_logarithm_are_named(subtests):
    for model, X, y, words in [
        (small(), P, ZEROS, "y is 0 in sample 5, channel 0"),
        (small(), points(FIELD), points(ZEROS), "y is 0 in sample 5, channel 0"),
        (small(early_stopping=True), P, FIELD[:, 0, :2, 0] - 9, "y is -8.7.* in sample 0, scalar 0"),
        (RolloutRegressor(small(), window=1), FIELD, FRAMES, "y is -2.5 in sample 3, channel 1"),
        (TimeConditionedRegressor(small(), times=2), FIELD, FRAMES, "y is -2.5 in sample 3, channel 1"),
        (
            small(symmetries=SymmetryOptions(names=["flip_x"], target_vectors=[(0, 1)])),
            FIELD, np.exp(FRAMES), "symmetries turn the components of target_vectors",
        ),
    ]:  # fmt: skip
        with subtests.test(model=model), pytest.raises(FieldDataError, match=words):
            model.fit(X, y)


def test_samples_of_no_weight_may_be_zero():
    weight = np.ones(8)
    weight[5] = 0
    assert (small().fit(P, ZEROS, sample_weight=weight).predict(P) > 0).all()
    with pytest.raises(FieldDataError, match="sample 5"):
        small().fit(P, ZEROS, sample_weight=1 - 0.5 * weight)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exponentials_that_overflow_are_refused(dtype):
    """Also those that only the precision of y does not hold."""
    wild = {"float32": 300.0, "float64": 3000.0}[dtype]
    y = np.exp(FIELD).astype(dtype)
    model = small().fit(P, y)
    model.scalers_.target.mean_ += wild
    with pytest.raises(NonFinitePredictionError, match="sample 0"):
        model.predict(P)
    model.scalers_.target.mean_ += 3000.0
    with pytest.raises(NonFinitePredictionError, match="sample 0"):
        model.gradient(P, lambda field: field[:, 0, 0])
    with pytest.raises(ValueError, match=re.compile("NaN|infin", re.IGNORECASE)):
        model.score(P, y)


def test_estimators_tell_that_they_need_positive_targets():
    assert small().__sklearn_tags__().target_tags.positive_only
    assert not small(None).__sklearn_tags__().target_tags.positive_only
