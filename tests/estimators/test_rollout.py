"""RolloutRegressor against matrix powers, gradients by hand and by differences, and its promises on forms of data."""

import pickle
import re
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from skop import (
    DeepONetRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    LawRegressor,
    PODRegressor,
    RolloutRegressor,
    ScalingOptions,
    load,
)
from skop.data import unit_grid
from skop.estimators.fitting import _objective
from skop.estimators.fitting._objective import objective_of
from skop.estimators.temporal._rollout import _one_steps
from skop.exceptions import ExtrapolationWarning, FieldDataError, NonFinitePredictionError, SkopWarning
from skop.metrics import neg_relative_l2_scorer, relative_l2_error
from skop.training import Trainer

from . import pod

GRID = (4, 4)


def network(**changes):
    return LaMORegressor().set_params(
        **({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "base": None, "random_state": 0} | changes)
    )


def exact(**changes):
    return pod(**({"n_components": 1.0 - 1e-12, "regressor": Ridge(1e-10)} | changes))


def trajectories(n_samples=30, n_frames=5, size=6, seed=0):
    """Frames of x -> A x, ``(n, size, n_frames)``, and A."""
    rng = np.random.default_rng(seed)
    matrix = np.linalg.qr(rng.standard_normal((size, size)))[0] * 0.9
    frames = [rng.standard_normal((n_samples, size))]
    for _ in range(n_frames - 1):
        frames.append(frames[-1] @ matrix.T)
    return np.stack(frames, axis=-1), matrix


def on_grid(values, **options):
    return FieldSet(unit_grid(GRID), values.reshape(len(values), 16, -1), grid_shape=GRID, **options)


@pytest.fixture(scope="module")
def fields():
    """Smooth random fields with 3 frames in and 4 out."""
    rng = np.random.default_rng(0)
    frames = np.cumsum(rng.standard_normal((10, *GRID, 7)), axis=-1)
    return frames[..., :3], frames[..., 3:]


# ---------------------------------------------------------------------- dynamics
def waves(growth, n_samples=20, n_frames=30, amplitude=1.0, seed=0):
    """Rotations by a third of a radian a step, ``(n, n_frames, 2)``, whose radius grows or falls."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, (n_samples, 1)) + np.arange(n_frames) / 3
    start = amplitude * rng.uniform(0.2, 1.0, (n_samples, 1))
    radius = start * np.exp(growth * np.arange(n_frames))
    return np.stack([radius * np.cos(phase), radius * np.sin(phase)], axis=-1)


@pytest.mark.parametrize("kind", ["table", "fields"])
@pytest.mark.parametrize(
    ("growth", "amplitude", "leaves"),
    [(0.1, 1.0, True), (0.0, 1.0, False), (-0.1, 1.0, False), pytest.param(0.0, 1.3, False, id="larger")],
)
def test_a_rollout_that_leaves_the_states_of_the_fit_is_named(kind, growth, amplitude, leaves):
    frames, new = waves(growth), waves(growth, amplitude=amplitude, seed=1)

    def given(part):
        rows = part.reshape(len(part), -1)
        # On a grid each state stands at all points.
        return rows if kind == "table" else np.broadcast_to(rows[:, None, None], (len(rows), *GRID, rows.shape[1]))

    model = RolloutRegressor(exact(), window=1).fit(given(frames[:, 0:1]), given(frames[:, 1:9]))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.predict(given(new[:, 0:1]))
        assert not found
        model.predict(given(new[:, 0:1]), n_steps=29)
    assert [item.category for item in found] == [ExtrapolationWarning] * leaves
    if leaves:
        low, high = frames[:, :9].min(axis=(0, 1)), frames[:, :9].max(axis=(0, 1))
        words = re.search(r"step (\d+) of 29 .* have 8 steps: channel (\d) is (\S+),", str(found[0].message))
        step, channel, value = int(words[1]), int(words[2]), float(words[3])
        at_step = new[:, step, channel]
        assert step > 8
        assert value == pytest.approx(at_step.max() if value > 0 else at_step.min(), rel=1e-2)
        assert value < low[channel] or value > high[channel]


def test_linear_dynamics_follow_the_powers_of_the_matrix():
    frames, matrix = trajectories()
    model = RolloutRegressor(exact(), window=1).fit(frames[:20, :, :1], frames[:20, :, 1:])
    start = frames[20:, :, 0]
    expected = [start @ np.linalg.matrix_power(matrix, power).T for power in range(1, 13)]
    predicted = model.predict(frames[20:, :, :1], n_steps=12)
    np.testing.assert_allclose(predicted, np.stack(expected, axis=-1), atol=1e-6)
    np.testing.assert_array_equal(model.predict(frames[20:, :, :1]), predicted[..., :4])
    assert model.n_steps_ == 4


def test_a_window_of_two_learns_a_recurrence_of_second_order():
    # cos((t + 1) w) = 2 cos(w) cos(t w) - cos((t - 1) w), for any phase.
    phase = np.linspace(0, 2 * np.pi, 24)[:, None, None] + np.array([0.0, 1.0, 2.5])[:, None]
    waves = np.cos(phase + 0.7 * np.arange(9))
    model = RolloutRegressor(exact(), window=2).fit(waves[:16, :, :2], waves[:16, :, 2:])
    np.testing.assert_allclose(model.predict(waves[16:, :, :2]), waves[16:, :, 2:], atol=1e-5)
    one = RolloutRegressor(exact(n_components=1), window=1).fit(waves[:16, :, :1], waves[:16, :, 1:])
    assert one.score(waves[16:, :, :1], waves[16:, :, 1:]) < 0.5


class Multiple(RegressorMixin, BaseEstimator):
    """A multiple of the last of `window` frames, of fields or of a table."""

    def __init__(self, factor=1.0, window=2):
        self.factor, self.window = factor, window

    def fit(self, X, y, sample_weight=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        values = np.asarray(X.values if isinstance(X, FieldSet) else X)
        found = self.factor * values[..., -values.shape[-1] // self.window :]
        return X.with_values(found) if isinstance(X, FieldSet) else found


@pytest.mark.parametrize("form", ["fields", "table", "clouds"])
@pytest.mark.parametrize("factor", [0.985, 0.995, 0.95, 1.02])
def test_a_step_that_is_worse_than_the_last_frame_is_named(form, factor):
    """Frames that shrink by 0.98: repeating one has an error of 1 / 0.98 - 1, a multiple one of its own."""
    rng = np.random.default_rng(0)
    frames = rng.uniform(1, 2, (12, 6, 2))[:, :, None] * 0.98 ** np.arange(6)[:, None]
    frames[-3:] = frames[-3:, :, :1] * 1.5 ** np.arange(6)[:, None]
    X, y = frames[:, :, :2].reshape(12, 6, 4), frames[:, :, 2:].reshape(12, 6, 8)
    if form == "table":
        X, y = X[:, 0], y[:, 0]
    elif form == "clouds":
        sizes = rng.integers(3, 7, 12)
        X, y = (
            FieldSet([rng.random((k, 2)) for k in sizes], [v[:k] for v, k in zip(part, sizes, strict=True)])
            for part in (X, y)
        )
        y = X.with_values(y.values)
    model = RolloutRegressor(Multiple(factor), window=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, sample_weight=[1.0] * 9 + [0.0] * 3)
    said = [str(item.message) for item in caught if str(item.message).startswith("one step of")]
    error, change = abs(factor / 0.98 - 1), 1 / 0.98 - 1
    assert len(said) == (error > change)
    if said:
        assert f"one step of Multiple has an error of {error:.2g} on 32 frames of the fit" in said[0]
        assert f"has {change:.2g}: no model" in said[0]
        assert "or PODRegressor" in said[0]


def test_what_is_no_frame_or_hardly_changes_is_not_compared_with_the_last():
    frames = np.random.default_rng(0).uniform(1, 2, (12, 6, 1)) * np.ones(4)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "one step of")
        RolloutRegressor(Multiple(1 + 1e-8, 1), window=1).fit(frames[..., :1], frames[..., 1:])
        RolloutRegressor(Multiple(0.5, 1), window=2, n_steps=1).fit(frames[..., :2], frames[..., 1:])
        RolloutRegressor(Multiple(3.0, 1), window=1).fit(0 * frames[..., :1], 0 * frames[..., 1:])
    with pytest.warns(SkopWarning, match="error of 0.01 on 32 frames of the fit, where .* has 0:"):
        RolloutRegressor(Multiple(0.99, 1), window=1).fit(frames[..., :1], frames[..., 1:])


def test_errors_that_differ_little_are_written_with_as_many_digits_as_tell_them_apart():
    frames = np.ones((12, 4, 1)) * 0.98 ** np.arange(6)
    with pytest.warns(SkopWarning, match=r"error of 0\.0205 on .* has 0\.0204:"):
        RolloutRegressor(Multiple(0.95995, 1), window=1).fit(frames[..., :1], frames[..., 1:])


@pytest.mark.parametrize("form", ["fields", "table"])
def test_a_channel_in_which_a_step_is_worse_than_the_last_frame_is_named(form):
    """The first channel changes its sign in each step, which hides the error in the second one, that shrinks."""
    frames = np.random.default_rng(0).uniform(1, 2, (12, 5, 1, 2)) * np.array([-1, 0.99]) ** np.arange(6)[:, None]
    X, y = frames[:, :, :1].reshape(12, 5, 2), frames[:, :, 1:].reshape(12, 5, 10)
    if form == "table":
        X, y = X[:, 0], y[:, 0]
    with pytest.warns(SkopWarning, match="one step of .* error of 0.091 in channel 1 .* last frame has 0.01:"):
        RolloutRegressor(Multiple(np.array([-1, 0.9]), 1), window=1).fit(X, y)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "one step of|rolled out")
        RolloutRegressor(Multiple(np.array([-1.001, 0.985]), 1), window=1).fit(X, y)


@pytest.mark.parametrize("form", ["fields", "table", "clouds"])
@pytest.mark.parametrize(("factor", "grows"), [(-1.3, True), (-1.01, False)])
def test_rollouts_that_are_worse_than_the_last_frame_are_named(form, factor, grows):
    """A step that is off by 0.3 is nearer than a frame of the other sign, but twelve of them are not."""
    signs = (-1.0) ** np.arange(13)
    X = np.random.default_rng(0).uniform(1, 2, (8, 5, 1))
    y = X * signs[1:]
    errors, repeated = np.abs(np.cumprod(np.full(12, factor)) * signs[1:] - 1).mean(), np.abs(1 - signs[1:]).mean()
    if form == "table":
        X, y = X[:, 0], y[:, 0]
        errors = np.sqrt(np.square(np.abs(factor) ** np.arange(1, 13) - 1).mean())
        repeated = np.sqrt(np.square(1 - signs[1:]).mean())
    elif form == "clouds":
        rng = np.random.default_rng(0)
        X = FieldSet([rng.random((k, 2)) for k in (3, 5, 4, 5)], [v[:k] for v, k in zip(X, (3, 5, 4, 5), strict=False)])
        y = X.with_values(X.values * signs[1:])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RolloutRegressor(Multiple(factor, 1), window=1).fit(X, y)
    said = [str(item.message) for item in caught if "rolled out over the 12 steps" in str(item.message)]
    assert len(said) == grows
    if grows:
        assert f"error of {errors:.2g}, where to repeat the last given frame has {repeated:.2g}" in said[0]


def test_a_rollout_that_overflows_is_named_by_its_step():
    """States double in each step; those of which a further step cannot be computed are not blamed on X."""
    frames = np.random.default_rng(0).uniform(1, 2, (8, 1)) * 2.0 ** np.arange(5)
    model = RolloutRegressor(exact(), window=1).fit(frames[:, :1], frames[:, 1:])
    with pytest.raises(
        NonFinitePredictionError, match=r"too large to go on after step \d+ of 900: the rollout diverges"
    ):
        model.predict(frames[:, :1], n_steps=900)


def test_tables_are_time_series_of_one_point():
    frames, _ = trajectories(size=3)
    table = np.moveaxis(frames, 1, 2).reshape(30, -1)
    model = RolloutRegressor(exact(), window=2).fit(table[:20, :6], table[:20, 6:])
    assert model.n_steps_ == 3
    np.testing.assert_allclose(model.predict(table[20:, :6]), table[20:, 6:], atol=1e-6)
    np.testing.assert_allclose(model.predict(table[20:, :6], n_steps=1), table[20:, 6:9], atol=1e-6)
    assert model.score(table[20:, :6], table[20:, 6:]) > 0.999999


def test_parameters_beside_a_table_are_no_states():
    """Decay at a rate of its own in each run: the refusal says how to pass it, and this predicts new runs."""
    rng = np.random.default_rng(0)
    rates, starts = rng.uniform(0.5, 1.5, (40, 1)), rng.normal(size=(40, 2))
    y = np.concatenate([starts * np.exp(-0.2 * k * rates) for k in range(1, 6)], axis=1)
    model = RolloutRegressor(PODRegressor(regressor="gaussian_process"), window=1)
    with pytest.raises(FieldDataError, match=r"X=FieldSet\(np.zeros\(\(1, 1\)\), np.asarray\(X\)\[:, None\]\)"):
        model.fit(starts[:30], y[:30], params=rates[:30])
    X, y = (FieldSet(np.zeros((1, 1)), np.asarray(part)[:, None]) for part in (starts, y))
    model.fit(X[:30], y[:30], params=rates[:30])
    assert model.n_frames_ == 5
    assert model.score(X[30:], y[30:], params=rates[30:]) > 0.98
    # A single step feeds nothing back, so that parameters are columns as those of any table.
    with pytest.raises(FieldDataError, match="add its columns to X"):
        RolloutRegressor(pod(), window=1, n_steps=1).fit(starts, starts, params=rates)


def test_one_step_is_the_estimator_itself(fields):
    X, y = fields
    for targets in (y, y.sum(axis=(1, 2, 3)), y.mean(axis=(1, 2))):
        model = RolloutRegressor(network(), window=3, n_steps=1).fit(X, targets)
        alone = network().fit(X, targets)
        np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-5)
        with pytest.raises(FieldDataError, match="the y of the fit is not a frame of X with window=3"):
            model.predict(X, n_steps=2)


# ---------------------------------------------------------------------- frames and order
def test_windows_and_frames_stand_in_order(fields):
    X, y = fields
    inputs, targets = (on_grid(part) for part in (X, y))
    history = np.concatenate([X, y], axis=-1).reshape(10, 16, 7)
    windows, frames = _one_steps(inputs, targets, inputs, 4, 1)
    for sample in range(10):
        for step in range(4):
            np.testing.assert_array_equal(windows.values[4 * sample + step], history[sample, :, step : step + 3])
            np.testing.assert_array_equal(frames.values[4 * sample + step, :, 0], history[sample, :, step + 3])


def test_the_steps_of_a_trajectory_share_a_batch(fields, monkeypatch):
    X, y = fields
    batches, train_step = [], Trainer._train_step

    def spy(self, batch):
        batches.append(batch.target.numpy().copy())
        return train_step(self, batch)

    monkeypatch.setattr(Trainer, "_train_step", spy)
    RolloutRegressor(network(batch_size=3, max_iter=1), window=3).fit(X, y)
    assert [len(batch) for batch in batches] == [12, 12, 12, 4]
    seen = np.concatenate(batches).reshape(10, 4, 16)
    trajectories = np.moveaxis(y.reshape(10, 16, 4), 1, 2)
    order = [int(np.abs(trajectories - own).sum(axis=(1, 2)).argmin()) for own in seen]
    assert sorted(order) == list(range(10))
    np.testing.assert_allclose(seen, trajectories[order], rtol=1e-6)


def test_batch_gradient_is_the_sum_over_the_steps(fields):
    X, y = fields
    settings = {"training__loss_reduction": "sum", "dtype": "float64", "max_iter": 1, "batch_size": 10}
    model = RolloutRegressor(network(**settings), window=3).fit(X, y).estimator_
    history = np.concatenate([X, y], axis=-1)
    objective = objective_of(model, None)

    def gradient(windows, frames):
        data = model._read(on_grid(windows), on_grid(frames))
        batch = model.surrogate_.loader(data.inputs, targets=data.targets).gather(np.arange(len(windows)))
        model.module_.zero_grad()
        objective(model.module_(**batch.inputs()), batch).backward()
        return torch.cat([p.grad.flatten() for p in model.module_.parameters() if p.grad is not None])

    parts = [gradient(history[..., step : step + 3], history[..., step + 3 : step + 4]) for step in range(4)]
    windows = np.concatenate([history[..., step : step + 3] for step in range(4)])
    frames = np.concatenate([history[..., step + 3 : step + 4] for step in range(4)])
    torch.testing.assert_close(gradient(windows, frames), sum(parts), rtol=1e-9, atol=1e-12)


def test_steps_that_are_fed_back_are_trained_on_values_alone(fields, monkeypatch):
    X, y = fields
    made, original = [], _objective.Objective

    def noted(name, *given, **options):
        made.append(name)
        return original(name, *given, **options)

    monkeypatch.setattr(_objective, "Objective", noted)
    for loss, frames in (("auto", y), ("auto", y[..., :1]), ("sobolev", y)):
        RolloutRegressor(network(max_iter=1, loss=loss), window=3).fit(X, frames)
    assert made == ["relative_l2", "sobolev", "sobolev"]


# ---------------------------------------------------------------------- increments
@pytest.fixture(scope="module")
def slow_fields():
    """Fields that change by a tenth of their spread, with 3 frames in and 4 out."""
    rng = np.random.default_rng(0)
    frames = rng.standard_normal((10, *GRID, 1)) + np.cumsum(0.1 * rng.standard_normal((10, *GRID, 7)), axis=-1)
    return frames[..., :3], frames[..., 3:]


def zeroed(model):
    """A rollout whose network gives zeros."""
    with torch.no_grad():
        for weight in model.estimator_.module_.parameters():
            weight.zero_()
    return model


@pytest.mark.parametrize(
    ("form", "unroll", "noise"),
    [
        ("grid", 1, 0.1),
        ("grid", 2, 0.0),
        ("points", 1, 0.0),
        ("resampled", 1, 0.0),
        ("ragged", 2, 0.1),
        ("table", 1, 0.0),
    ],
)
def test_a_network_of_zeros_repeats_the_last_frame(form, unroll, noise, tmp_path):
    """Frames have two components on scales of their own, and fields a parameter."""
    rng = np.random.default_rng(0)
    frames = rng.standard_normal((10, 16, 1, 2)) + np.cumsum(0.1 * rng.standard_normal((10, 16, 5, 2)), axis=2)
    frames = [3.0, -500.0] + frames * [1.0, 200.0]
    parts = [frames[:, :, :2].reshape(10, 16, 4), frames[:, :, 2:].reshape(10, 16, 6)]
    if form == "table":
        X, y = (part[:, 0] for part in parts)
        given = X
    else:
        points = unit_grid(GRID) if form == "grid" else rng.random((16, 2))
        if form == "ragged":
            points = [rng.random((size, 2)) for size in range(7, 17)]
            parts = [[part[: len(at)] for at, part in zip(points, values, strict=True)] for values in parts]
        shape = GRID if form == "grid" else None
        X, y = (FieldSet(points, values, grid_shape=shape) for values in parts)
        X = X.with_params(np.arange(10.0)[:, None])
        given = np.concatenate(X.to_list())
    step = network(grid=(5, 5) if form == "resampled" else None)
    model = RolloutRegressor(step, window=2, unroll=unroll, noise=noise).fit(X, y)
    assert model.score(X, y) > 0
    zeroed(model).save(tmp_path / "model.skop")
    for each in (model, load(tmp_path / "model.skop")):
        found = each.predict(X)
        found = found if form == "table" else np.concatenate(found.to_list())
        np.testing.assert_allclose(found, np.tile(given[:, 2:], 3), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("refinement", ["average", "interpolate", "native"])
def test_the_last_frame_is_not_refined(slow_fields, refinement):
    """On finer grids the frame stays as it is, and the changes are predicted through the grid of the fit."""
    model = zeroed(RolloutRegressor(network(refinement=refinement), window=3).fit(*slow_fields))
    for shape in ((7, 7), (8, 8), (6, 4)):
        X = FieldSet(unit_grid(shape), np.random.default_rng(1).normal(size=(2, np.prod(shape), 3)), grid_shape=shape)
        found = np.asarray(model.predict(X)).reshape(2, -1, 4)
        np.testing.assert_allclose(found, np.tile(X.values[..., 2:], 4), rtol=1e-5, atol=1e-5)


def test_at_other_points_the_last_frame_is_that_of_the_samples(slow_fields):
    """The sensors of DeepONet are fewer points."""
    model = RolloutRegressor(DeepONetRegressor(width=8, max_iter=1, n_basis=4, batch_size=4, random_state=0), window=3)
    zeroed(model.fit(*slow_fields))
    shape = (13, 13)
    X = FieldSet(unit_grid(shape), np.random.default_rng(1).normal(size=(2, 169, 3)), grid_shape=shape)
    found = model.estimator_.predict(X, X.coords[::2])
    np.testing.assert_allclose(found.values, X.values[:, ::2, 2:], rtol=1e-5, atol=1e-5)


def test_double_precision_keeps_the_last_frame(slow_fields):
    X, y = (300 + part for part in slow_fields)
    model = zeroed(RolloutRegressor(network(dtype="float64"), window=3).fit(X, y))
    np.testing.assert_allclose(model.predict(X, n_steps=50), np.tile(X[..., 2:], 50), rtol=1e-13)


def test_small_changes_are_learned_far_better_than_frames():
    """A decay by one part in a hundred: after the same epochs a network of the same size has a tenth of the error."""
    start = np.random.default_rng(0).standard_normal((30, *GRID, 1))
    frames = start * 0.99 ** np.arange(6)
    errors = [
        RolloutRegressor(network(max_iter=15), window=1, increments=increments)
        .fit(frames[:20, ..., :1], frames[:20, ..., 1:])
        .error_by_step(frames[20:, ..., :1], frames[20:, ..., 1:])
        for increments in (True, False)
    ]
    assert np.all(errors[0] < 0.1 * errors[1])
    # The last frame again is nearer than frames that are learned, too.
    assert np.all(errors[0] < 0.6 * (0.99 ** -np.arange(1, 6) - 1))


@pytest.mark.parametrize(
    "model",
    [
        RolloutRegressor(network(), window=3, increments=False),
        RolloutRegressor(network(scaling=ScalingOptions(target_transform="log")), window=3),
        RolloutRegressor(network(scaling=ScalingOptions(inputs="point")), window=3),
        RolloutRegressor(LawRegressor(network()), window=3),
        RolloutRegressor(network(), window=3, n_steps=1),
    ],
)
def test_where_frames_are_learned(slow_fields, model):
    X, y = (np.exp(part) for part in slow_fields)
    model = clone(model).fit(X, y[..., :1] if model.n_steps == 1 else y)
    inner = getattr(model.estimator_, "estimator_", model.estimator_)
    assert inner.last_frame_ is None
    assert type(inner.module_) is type(network().fit(X, X).module_)


@pytest.mark.parametrize("part", [0.2, 0.3])
def test_large_changes_are_no_increments(part):
    """A frame is what is left of the one before, and a new part of the same spread, in two channels of other units."""
    rng = np.random.default_rng(0)
    frames = [rng.standard_normal((40, *GRID, 2))]
    # The square of the change is 2 - 2 cos of the angle between both, in units of the spread.
    angle = np.arccos(1 - part**2 / 2)
    for _ in range(4):
        frames.append(np.cos(angle) * frames[-1] + np.sin(angle) * rng.standard_normal((40, *GRID, 2)))
    y = np.concatenate(frames, axis=-1) * np.tile([1.0, 1e5], 5) + 7
    model = RolloutRegressor(network(), window=1).fit(y[..., :2], y[..., 2:])
    assert model.estimator_.last_frame_ == (0 if part < 0.25 else None)


def test_each_channel_is_learned_by_its_own_change(slow_fields):
    """A channel that never changes stays as it is beside one that changes wholly."""
    fast = np.random.default_rng(1).standard_normal((10, *GRID, 7))
    still = np.repeat(slow_fields[0][..., :1], 7, axis=-1)
    constant = np.full_like(fast, 5.0)
    frames = np.stack([fast, still, constant], axis=-1).reshape(10, *GRID, 21)
    model = RolloutRegressor(network(refinement="interpolate"), window=3).fit(frames[..., :9], frames[..., 9:])
    found = model.predict(frames[..., :9])
    np.testing.assert_allclose(found[..., 1::3], still[..., 3:], atol=1e-6)
    np.testing.assert_allclose(found[..., 2::3], 5.0, rtol=1e-6)
    assert model.estimator_.module_.factor[0] == 0
    # On a finer grid, what is between the points of the fit is only in what stays.
    fine = np.random.default_rng(2).standard_normal((2, 7, 4, 9))
    fine[1, ::2] = fine[0, ::2]
    X = FieldSet(unit_grid((7, 4)), fine.reshape(2, 28, 9), grid_shape=(7, 4))
    found = model.estimator_.predict(X).values
    np.testing.assert_allclose(found[0, :, 0], found[1, :, 0], atol=1e-5)
    np.testing.assert_allclose(found[..., 1], X.values[..., 7], atol=1e-5)


def own_patterns(n_samples=12, seed=0):
    """Fields with a pattern of each trajectory's own, which no components of others hold, and one common change."""
    rng = np.random.default_rng(seed)
    change = np.linspace(0, 1, 16).reshape(*GRID, 1) * np.arange(5) * 0.05
    return rng.standard_normal((n_samples, *GRID, 1)) + change


@pytest.mark.parametrize("estimator", [PODRegressor(), pod()])
def test_classical_models_learn_changes_where_these_are_nearer(estimator):
    frames, new = own_patterns(), own_patterns(seed=1)
    errors = {}
    for increments in (True, False):
        model = RolloutRegressor(clone(estimator), window=1, increments=increments)
        model.fit(frames[..., :1], frames[..., 1:])
        errors[increments] = model.error_by_step(new[..., :1], new[..., 1:]).max()
    assert errors[True] < 1e-6 < 0.1 < errors[False]


def test_classical_models_learn_frames_where_these_are_nearer():
    """Frames with noise are nearer to their mean than to the last frame."""
    rng = np.random.default_rng(0)
    frames = 3 + 0.1 * rng.standard_normal((20, *GRID, 6))
    model = RolloutRegressor(pod(), window=1).fit(frames[..., :1], frames[..., 1:])
    assert model.estimator_.last_frame_ is None


def test_told_errors_of_changes_are_those_of_frames():
    """By the mean of the changes of other trajectories, relative to all frames of a trajectory."""
    rng = np.random.default_rng(0)
    frames = 2 + rng.standard_normal((12, *GRID, 1)) + np.cumsum(0.1 * rng.standard_normal((12, *GRID, 5)), axis=-1)
    model = RolloutRegressor(PODRegressor(regressor="mean"), window=1).fit(frames[..., :1], frames[..., 1:])
    assert model.estimator_.last_frame_ is not None
    changes = np.diff(frames, axis=-1).reshape(12, 16, 4)
    left = np.stack([part - np.delete(changes, k, axis=0).mean(axis=(0, 2))[:, None] for k, part in enumerate(changes)])
    norms = np.sqrt(np.square(frames[..., 1:]).reshape(12, 16, 4).sum(axis=1).mean(axis=1))
    expected = (np.linalg.norm(left, axis=1) / norms[:, None]).mean()
    assert model.estimator_.leave_one_out_error_ == pytest.approx(expected, rel=1e-6)


def test_errors_of_a_base_under_steps_are_those_of_the_model_alone(slow_fields):
    """They do not depend on the units of an operator."""
    X, y = (300 + 5 * part for part in slow_fields)
    alone = RolloutRegressor(PODRegressor(regressor="ridge"), window=3).fit(X, y).estimator_
    base = RolloutRegressor(network(base="linear", dtype="float64"), window=3).fit(X, y).estimator_.base_.estimator
    assert alone.last_frame_ is not None
    assert base.last_frame_ is not None
    assert base.leave_one_out_error_ == pytest.approx(alone.leave_one_out_error_, rel=1e-6)


def test_logarithms_that_are_asked_for_are_those_of_frames(slow_fields):
    X, y = (np.exp(part) for part in slow_fields)
    model = RolloutRegressor(pod(target_transform="log"), window=3).fit(X, y)
    assert model.estimator_.last_frame_ is None
    base = pod(target_transform="log")
    assert RolloutRegressor(network(base=base), window=3).fit(X, y).estimator_.base_.last_frame is None


@pytest.mark.parametrize("is_table", [False, True])
def test_files_graphs_and_gradients_of_changes(is_table, tmp_path):
    frames = own_patterns() ** 3
    X, y = frames[..., :1], frames[..., 1:]
    if is_table:
        # A state of 2 numbers grows by a tenth of its square.
        states = [np.random.default_rng(0).random((30, 2))]
        for _ in range(3):
            states.append(states[-1] + 0.1 * states[-1] ** 2)
        X, y = states[0], np.concatenate(states[1:], axis=1)
    model = RolloutRegressor(PODRegressor(), window=1).fit(X, y)
    step = model.estimator_
    assert step.last_frame_ is not None
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(load(tmp_path / "model.skop").predict(X), model.predict(X))
    given = X if is_table else on_grid(X)
    step.export(tmp_path / "step.pt2", given)
    program = torch.export.load(tmp_path / "step.pt2").module()
    found = step._predict_values(step._read_inputs(given)[0])
    expected = found.scalars if is_table else found.fields
    (written,) = program(torch.tensor(X))
    np.testing.assert_allclose(written.numpy().reshape(expected.shape), expected, rtol=1e-6)
    if is_table:
        slope = step.gradient(X, 0)
        ends = [step.predict(X + np.array([[h, 0.0]]))[:, 0] for h in (-1e-5, 1e-5)]
        np.testing.assert_allclose(slope[:, 0], (ends[1] - ends[0]) / 2e-5, rtol=1e-5)


def linear_fields(n_samples, seed=0, shape=GRID, n_frames=4):
    """Two modes that decay at rates of their own, and ``cos(pi x)`` as the only functions of x."""
    rng, x = np.random.default_rng(seed), unit_grid(shape)[:, 0].reshape(*shape, 1)
    parts = [
        rng.standard_normal((n_samples, 1, 1, 1)) * np.cos(np.pi * k * x) * rate ** np.arange(n_frames)
        for k, rate in ((1, 0.95), (2, 0.8))
    ]
    return parts[0] + parts[1]


@pytest.mark.parametrize("kind", ["grid", "resampled", "table"])
def test_a_base_under_steps_is_exact_for_linear_dynamics(kind):
    frames, new = linear_fields(20), linear_fields(5, seed=1)
    if kind == "table":
        frames, new = (part[:, 1:3, 0].reshape(len(part), 2 * 4) for part in (frames, new))
        parts = [part.reshape(-1, 2, 4).transpose(0, 2, 1).reshape(-1, 8) for part in (frames, new)]
        (X, y), (X_new, y_new) = ((part[:, :2], part[:, 2:]) for part in parts)
    else:
        (X, y), (X_new, y_new) = ((part[..., :1], part[..., 1:]) for part in (frames, new))
    model = RolloutRegressor(network(max_iter=3, base="auto"), window=1).fit(X, y)
    assert model.estimator_.module_.is_base_alone
    assert model.score(X_new, y_new) > 1 - 1e-5
    if kind == "grid":
        # The last frame is known on a finer grid too, where the change is smooth.
        fine = linear_fields(5, seed=1, shape=(7, 4))
        detail = 0.1 * np.cos(np.pi * np.arange(7)).reshape(7, 1, 1)
        plain, finer = (
            model.estimator_.predict(FieldSet(unit_grid((7, 4)), part.reshape(5, 28, 1), grid_shape=(7, 4))).values
            for part in (fine[..., :1], fine[..., :1] + detail)
        )
        np.testing.assert_allclose(finer - plain, np.broadcast_to(detail, (5, 7, 4, 1)).reshape(5, 28, 1), atol=0.03)


def test_a_base_under_steps_is_left_out_where_it_is_of_no_use(slow_fields):
    with pytest.raises(FieldDataError, match="noise, or through several steps"):
        RolloutRegressor(network(base="pod"), window=3, noise=0.1).fit(*slow_fields)
    with pytest.raises(FieldDataError, match="frames are learned, and not changes"):
        RolloutRegressor(network(base="pod"), window=3, increments=False).fit(*slow_fields)
    model = RolloutRegressor(network(base="auto", max_iter=2), window=3).fit(*slow_fields)
    assert model.estimator_.last_frame_ == 2


def test_a_warm_start_goes_on_with_what_was_learned(slow_fields):
    model = RolloutRegressor(network(warm_start=True), window=3).fit(*slow_fields)
    model.fit(*slow_fields)
    assert model.estimator_._facts()["network"]["learned"] == "the change since the last frame, where it is small"
    with pytest.raises(ValueError, match="learned the change since the last frame; set increments=True"):
        model.set_params(increments=False).fit(*slow_fields)
    frames = RolloutRegressor(network(warm_start=True), window=3, increments=False).fit(*slow_fields)
    assert frames.set_params(increments=True).fit(*slow_fields).estimator_.last_frame_ is None


def test_members_of_an_ensemble_learn_increments(slow_fields):
    model = RolloutRegressor(EnsembleRegressor(network(), n_members=2), window=3).fit(*slow_fields)
    assert {each.last_frame_ for each in model.estimator_.estimators_} == {2}


# ---------------------------------------------------------------------- unrolling and noise
def test_unrolled_training_beats_teacher_forcing_on_its_own_loss(fields):
    X, y = fields
    errors = [
        1 - RolloutRegressor(network(max_iter=40, batch_size=10), window=3, unroll=unroll).fit(X, y).score(X, y)
        for unroll in (1, 4)
    ]
    assert errors[1] < errors[0]


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (pod(), "trains a network through several steps, which PODRegressor does not offer; set unroll=1"),
        (EnsembleRegressor(network()), "EnsembleRegressor does not offer"),
        (network(symmetries=["transpose"]), "set symmetries=None in LaMORegressor"),
    ],
)
def test_unrolling_is_refused_where_it_has_no_meaning(fields, estimator, message):
    with pytest.raises(FieldDataError, match=message):
        RolloutRegressor(estimator, window=3, unroll=2).fit(*fields)


def test_wrong_symmetries_of_the_estimator_are_refused(fields):
    model = RolloutRegressor(network(), window=3).set_params(estimator__symmetries__names=10**30)
    with pytest.raises(ValueError, match="'names' parameter of SymmetryOptions must be a sequence of values of type s"):
        model.fit(*fields)


def test_unrolling_needs_fields():
    table = np.random.default_rng(0).random((10, 4))
    with pytest.raises(FieldDataError, match="needs X given as fields, not as a table"):
        RolloutRegressor(network(), window=2, unroll=2).fit(table, table)


def test_noise_is_only_in_the_training(fields):
    X, y = fields
    for base in (network(), pod()):
        clean = RolloutRegressor(base, window=3, random_state=0).fit(X, y)
        noisy, again = (RolloutRegressor(base, window=3, random_state=0, noise=0.3).fit(X, y) for _ in range(2))
        assert np.abs(noisy.predict(X) - clean.predict(X)).max() > 1e-4
        np.testing.assert_array_equal(noisy.predict(X), noisy.predict(X))
        np.testing.assert_array_equal(noisy.predict(X), again.predict(X))


@pytest.mark.parametrize("window", [1, 2])
def test_noise_on_tables(window):
    table = np.random.default_rng(0).random((12, 4))
    targets = table @ np.random.default_rng(1).random((4, 8))
    models = [RolloutRegressor(network(), window=window, noise=noise).fit(table, targets) for noise in (0.0, 0.5)]
    assert np.abs(models[0].predict(table) - models[1].predict(table)).max() > 1e-4


# ---------------------------------------------------------------------- forms of data
def test_kinds_of_y_come_back(fields):
    X, y = fields
    points = on_grid(X)
    named = points.with_values(y.reshape(10, 16, 4), channel_names=["a", "b", "c", "d"])
    results = {}
    for name, (inputs, targets) in {
        "grid": (X, y),
        "fieldset": (points, named),
        "tuple": ((unit_grid(GRID), X.reshape(10, 16, 3)), (unit_grid(GRID), y.reshape(10, 16, 4))),
    }.items():
        model = RolloutRegressor(pod(), window=3).fit(inputs, targets)
        results[name] = model.predict(inputs), model.predict(inputs, n_steps=6)
        assert model.score(inputs, targets) == pytest.approx(1 - relative_l2_error(y, results["grid"][0]))
    grid, longer = results["grid"]
    assert grid.shape == y.shape
    assert longer.shape == (10, *GRID, 6)
    assert results["fieldset"][0].channel_names == ("a", "b", "c", "d")
    assert results["fieldset"][1].channel_names is None
    np.testing.assert_allclose(results["fieldset"][0].to_grid(), grid, atol=1e-10)
    np.testing.assert_allclose(results["tuple"][1][1], longer.reshape(10, 16, 6), atol=1e-10)


@pytest.mark.parametrize("ragged", [False, True])
def test_clouds_keep_their_points_and_parameters(ragged):
    rng = np.random.default_rng(2)
    sizes = [9, 6, 8, 9, 7, 6] if ragged else [8] * 6
    coords = [rng.random((size, 2)) for size in sizes]
    frames = [np.sin(3 * place[:, :1] + np.arange(5)) for place in coords]
    values = [[frame[:, :2] for frame in frames], [frame[:, 2:] for frame in frames]]
    if not ragged:
        coords, values = np.stack(coords), [np.stack(part) for part in values]
    X = FieldSet(coords, values[0], params=rng.random((6, 2)))
    y = FieldSet(coords, values[1])
    model = RolloutRegressor(network(), window=2).fit(X, y)
    predicted = model.predict(X)
    assert predicted.n_channels == 3
    for i, place in enumerate(X.coords_list()):
        np.testing.assert_array_equal(predicted.coords_list()[i], place)
        np.testing.assert_allclose(predicted.to_list()[i], model.predict(X[[i]]).to_list()[0], rtol=1e-4, atol=1e-5)
    state, frames = X, []
    for _ in range(3):
        frames.append(model.estimator_.predict(state))
        joined = [
            np.concatenate(pair, axis=1)[:, 1:] for pair in zip(state.to_list(), frames[-1].to_list(), strict=True)
        ]
        state = X.with_values(np.concatenate(joined) if ragged else np.stack(joined)).with_params(X.params)
    np.testing.assert_allclose(predicted.values, np.concatenate([frame.values for frame in frames], axis=-1), rtol=1e-4)
    assert RolloutRegressor(network(), window=2, unroll=2).fit(X, y).predict(X).n_channels == 3


def test_errors_by_step_are_those_of_each_frame(fields):
    X, y = fields
    model = RolloutRegressor(pod(), window=3).fit(X, y)
    predicted = model.predict(X)
    norms = [
        np.linalg.norm((y - predicted)[i, ..., t]) / np.linalg.norm(y[i, ..., t]) for i in range(10) for t in range(4)
    ]
    expected = np.array(norms).reshape(10, 4)
    np.testing.assert_allclose(model.error_by_step(X, y), expected.mean(axis=0), rtol=1e-10)
    # Trajectories can be shorter or longer than those of the fit.
    few, many = model.error_by_step(X, y[..., :1], n_steps=1), np.concatenate([y, y], axis=-1)
    np.testing.assert_allclose(few, expected[:, :1].mean(axis=0), rtol=1e-10)
    found = model.error_by_step(X, many, n_steps=2 * len(expected.T))
    np.testing.assert_allclose(found[: len(expected.T)], expected.mean(axis=0), rtol=1e-10)
    assert len(found) == 2 * len(expected.T)
    weight = np.arange(10.0)
    weighted = (weight[:, None] * expected).sum(axis=0) / weight.sum()
    np.testing.assert_allclose(model.error_by_step(X, y, sample_weight=weight), weighted, rtol=1e-10)


def test_weights_reach_the_steps(fields):
    X, y = fields
    weight = np.r_[np.ones(6), np.zeros(4)]
    weighted = RolloutRegressor(network(batch_size=12), window=3).fit(X, y, sample_weight=weight)
    fewer = RolloutRegressor(network(batch_size=12), window=3).fit(X[:6], y[:6])
    np.testing.assert_allclose(weighted.predict(X), fewer.predict(X), rtol=1e-3, atol=1e-4)


@pytest.mark.exhaustive
# ---------------------------------------------------------------------- scikit-learn's ways
def test_clone_search_pickle_and_seeds(fields):
    X, y = fields
    base = RolloutRegressor(network(random_state=None), window=3, noise=0.1, random_state=4)
    one, two = (clone(base).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict(X, n_steps=5), one.predict(X, n_steps=5))
    assert not hasattr(base.estimator, "module_")
    search = GridSearchCV(base, {"estimator__width": [8, 16], "unroll": [1, 2]}, scoring=neg_relative_l2_scorer, cv=2)
    assert search.fit(X, y).best_params_["estimator__width"] in (8, 16)
    ensemble = EnsembleRegressor(RolloutRegressor(network(), window=3), n_members=2, random_state=0).fit(X, y)
    assert ensemble.predict(X).shape == y.shape


def test_channels_that_are_no_frames(fields, subtests):
    for options, columns, message in [
        ({"window": 2}, 4, "X has 3 channels, which cannot be divided into window=2 frames"),
        ({"window": 5}, 4, "X has 3 channels, which cannot be divided into window=5 frames"),
        ({"window": 1}, 4, "y has 4 channels, which are not a whole number of frames of 3 channels"),
        ({"window": 3, "n_steps": 3}, 4, "y has 4 channels, which are not n_steps=3 frames of 1 channels"),
    ]:
        with subtests.test(options=options):
            X, y = fields
            with pytest.raises(FieldDataError, match=message):
                RolloutRegressor(pod(), **options).fit(X, y[..., :columns])


def test_other_refusals(fields):
    X, y = fields
    points = on_grid(X)
    with pytest.raises(FieldDataError, match="y has params"):
        RolloutRegressor(network(), window=3).fit(
            points, points.with_values(y.reshape(10, 16, 4)).with_params(X[:, 0, 0])
        )
    model = RolloutRegressor(pod(), window=3).fit(X, y)
    with pytest.raises(ValueError, match="n_steps must be an integer of at least 1, got 0"):
        model.predict(X, n_steps=0)
    broken = RolloutRegressor(network(), window=3).fit(X, y)
    with torch.no_grad():
        for weight in broken.estimator_.module_.parameters():
            weight.fill_(np.nan)
    with pytest.raises(FieldDataError, match="not finite in step 1 of 9: the rollout diverges"):
        broken.predict(X, n_steps=9)
