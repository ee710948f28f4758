"""Scores: all outputs count alike whatever their units, and zeros are compared with the size of the set."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from skop import FieldSet, LaMORegressor, MeanFieldRegressor, PODRegressor, RolloutRegressor, TimeConditionedRegressor
from skop.metrics._flat import relative_errors_of_scalars, relative_l2_of_fields

from . import pod

UNITS = np.array([1e7, 1e-3])


def stress_and_noise(n_samples=30):
    """A field X, and as y one channel that follows from it, and one of noise."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_samples, 3, 3, 1)).repeat(2, axis=1).repeat(2, axis=2)
    return X, np.concatenate([2 + X, generator.normal(size=X.shape)], axis=-1) * UNITS


def validation_error(predicted, targets):
    """What early stopping watches."""
    rows = (part.reshape(-1, part.shape[-1]) for part in (targets.values, predicted.reshape(targets.shape)))
    return relative_l2_of_fields(*rows, targets.n_points)


def test_a_channel_with_small_numbers_is_not_hidden():
    X, y = stress_and_noise()
    model = pod().fit(X[:20], y[:20])
    stress, noise = model.score_channels(X[20:], y[20:]).values()
    assert stress > 0.75
    assert noise < 0.2
    assert model.score_physical(X[20:], y[20:]) == pytest.approx(stress, abs=1e-6)
    assert model.score(X[20:], y[20:]) < 0.6
    one_unit = pod().fit(X[:20], y[:20] / UNITS)
    assert model.score(X[20:], y[20:]) == pytest.approx(one_unit.score(X[20:], y[20:] / UNITS), abs=1e-9)


def test_scalars_count_alike():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 3))
    y = np.column_stack([3 + X @ np.ones(3), generator.normal(size=40)]) * UNITS
    model = pod().fit(X, y)
    errors = [1 - score for score in model.score_channels(X, y).values()]
    assert model.score(X, y) == pytest.approx(1 - np.sqrt(np.mean(np.square(errors))))
    assert model.score_physical(X, y) == pytest.approx(1 - errors[0], abs=1e-6)


def test_a_single_channel_has_one_score():
    X, y = stress_and_noise()
    model = pod().fit(X, y[..., :1])
    assert model.score(X, y[..., :1]) == model.score_physical(X, y[..., :1])
    frames = y[..., :1] * [1.0, 0.1, 0.01]
    model = TimeConditionedRegressor(pod()).fit(X, frames)
    assert model.score(X, frames) == model.score_physical(X, frames)


@pytest.mark.parametrize("n_channels", [1, 2])
def test_early_stopping_watches_the_score(n_channels):
    X, y = stress_and_noise()
    y = y[..., :n_channels]
    model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0, early_stopping=True).fit(X, y)
    targets = FieldSet(np.zeros((36, 2)), y.reshape(30, 36, n_channels))
    error = validation_error(model.predict(X), targets)
    assert 1 - error == pytest.approx(model.score(X, y))
    sums = y.sum(axis=(1, 2))
    model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, sums)
    errors = relative_errors_of_scalars(sums, np.reshape(model.predict(X), sums.shape))
    assert 1 - np.sqrt(np.mean(errors**2)) == pytest.approx(model.score(X, sums))


def test_components_of_frames_share_their_units():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(12, 5, 2)) * UNITS
    y = np.concatenate([X, 0.01 * X], axis=-1) + 1e-4 * UNITS[[0, 1, 0, 1]]
    model = RolloutRegressor(pod(), window=1).fit(X, y)
    units = np.sqrt(np.square(y.reshape(-1, 2)).mean(axis=0))[[0, 1, 0, 1]]
    difference, truth = ((part / units).reshape(12, -1) for part in (model.predict(X) - y, y))
    expected = 1 - np.mean(np.linalg.norm(difference, axis=1) / np.linalg.norm(truth, axis=1))
    assert model.score(X, y) == pytest.approx(expected)


def test_a_sample_of_zeros_is_compared_with_the_set():
    X, y = stress_and_noise()
    y = y[..., :1] / UNITS[0]
    X[3], y[3] = 0, 0
    model = pod(n_components=2).fit(X, y)
    difference = np.linalg.norm((model.predict(X) - y).reshape(30, -1), axis=1)
    norms = np.linalg.norm(y.reshape(30, -1), axis=1)
    size = np.sqrt(np.mean(norms**2))
    assert difference[3] > 0
    assert model.score(X, y) == pytest.approx(1 - np.mean(difference / np.where(norms > 0, norms, size)))
    assert np.isfinite(cross_val_score(pod(), X, y, cv=3)).all()
    assert np.isfinite([*model.score_channels(X, y).values()]).all()
    fields = FieldSet(np.zeros((36, 2)), y.reshape(30, 36, 1))
    assert 1 - validation_error(model.predict(X), fields) == pytest.approx(model.score(X, y))


def test_a_first_frame_of_zeros_is_compared_with_all_frames():
    X, _ = stress_and_noise()
    y = X * np.array([0.0, 1.0, 2.0]) + np.array([0.0, 0.1, 0.1])
    model = TimeConditionedRegressor(PODRegressor(regressor="mean"), times=3, grouping="mixed").fit(X, y)
    errors = model.error_by_time(X, y)
    norms = np.linalg.norm(y.reshape(30, -1, 3), axis=1)
    difference = np.linalg.norm((model.predict(X) - y).reshape(30, -1, 3), axis=1)
    assert errors[0] == pytest.approx(np.mean(difference[:, 0]) / np.sqrt(np.mean(norms**2)))
    np.testing.assert_allclose(errors[1:], np.mean(difference / np.maximum(norms, 1e-300), axis=0)[1:])
    sums = y.sum(axis=(1, 2))
    scalars = TimeConditionedRegressor(PODRegressor(regressor="mean"), times=3).fit(X, sums)
    assert np.isfinite(scalars.error_by_time(X, sums)).all()


def test_channels_of_one_name_keep_their_own_scores():
    """A mesh with a vector "u" and a field "u_1" has two of them."""
    rng = np.random.default_rng(0)
    points, values = rng.random((5, 2)), rng.random((6, 5, 3))
    scores = []
    for names in (["u", "u", "v"], ["a", "b", "v"]):
        y = FieldSet(points, values, channel_names=names)
        scores.append(MeanFieldRegressor().fit(rng.random((6, 2)), y).score_channels(rng.random((6, 2)), y))
    assert [*scores[0]] == ["u (channel 0)", "u (channel 1)", "v"]
    assert [*scores[0].values()] == [*scores[1].values()]
