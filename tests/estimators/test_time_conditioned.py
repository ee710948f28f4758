"""TimeConditionedRegressor: the order of its training, times between frames, and every form of data."""

import pickle
import warnings
from datetime import datetime, timedelta
from functools import cache

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LassoCV, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

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
from skop.exceptions import ExtrapolationWarning, FieldDataError, SkopWarning
from skop.metrics import channel_sizes, neg_relative_l2_scorer, relative_l2_error
from skop.training import Trainer
from skop.training._schedule import schedule_at

GRID = (4, 4)


def network(**changes):
    return LaMORegressor().set_params(
        **({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "base": None, "random_state": 0} | changes)
    )


@pytest.fixture(scope="module")
def fields():
    """Fields that decay, two channels at five times."""
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((12, *GRID, 2)), axis=1)
    decay = np.exp(-np.linspace(0, 1, 5))
    return X, (decay[:, None] * X[..., None, :]).reshape(12, *GRID, 10)


def spied_batches(monkeypatch, model, X, y, **options):
    """Times, targets and learning rates of all batches of a fit."""
    batches, train_step = [], Trainer._train_step

    def spy(self, batch):
        loss = train_step(self, batch)
        rate = self.optimizer.param_groups[0]["lr"]
        batches.append((batch.params[:, -1].numpy().copy(), batch.target.numpy().copy(), rate))
        return loss

    monkeypatch.setattr(Trainer, "_train_step", spy)
    model.fit(X, y, **options)
    return batches


# ---------------------------------------------------------------------- training
def test_the_published_order_of_times(fields, monkeypatch):
    X, y = fields
    options = {"batch_size": 4, "max_iter": 2, "training__schedule": "one_cycle", "scaling__params": None}
    batches = spied_batches(monkeypatch, TimeConditionedRegressor(network(**options), times=5), X, y)
    # 3 batches of 4 trajectories, 5 steps each, twice.
    assert [len(times) for times, _, _ in batches] == [4] * 30
    frames = np.moveaxis(y.reshape(12, 16, 5, 2), 2, 1)
    visits = []
    for start in range(0, 30, 5):
        times = np.stack([batch[0] for batch in batches[start : start + 5]], axis=1)
        targets = np.stack([batch[1] for batch in batches[start : start + 5]], axis=1)
        np.testing.assert_allclose(np.sort(times, axis=1), [np.linspace(0, 1, 5)] * 4, atol=1e-6)
        for own_times, own_targets in zip(times, targets, strict=True):
            order = np.rint(4 * own_times).astype(int)
            sample = np.abs(frames[:, order] - own_targets).sum(axis=(1, 2, 3)).argmin()
            np.testing.assert_allclose(own_targets, frames[sample, order], rtol=1e-5)
            visits.append((sample, tuple(order)))
    assert sorted(sample for sample, _ in visits[:12]) == list(range(12))
    assert len({order for _, order in visits}) > 12
    rates = np.array([rate for _, _, rate in batches]).reshape(6, 5)
    expected = [1e-3 * schedule_at("one_cycle", step, 6).rate for step in range(6)]
    np.testing.assert_allclose(rates / rates.max() * max(expected), np.repeat(expected, 5).reshape(6, 5), rtol=1e-6)


@pytest.mark.parametrize(("grouping", "sizes"), [("together", [20] * 3), ("mixed", [4] * 15)])
def test_other_orders_of_times(fields, monkeypatch, grouping, sizes):
    model = TimeConditionedRegressor(network(batch_size=4, max_iter=1), times=5, grouping=grouping)
    batches = spied_batches(monkeypatch, model, *fields)
    assert [len(times) for times, _, _ in batches] == sizes
    counts = [len(np.unique(times)) for times, _, _ in batches]
    assert counts == [5] * 3 if grouping == "together" else max(counts) < 5


# ---------------------------------------------------------------------- what is learned
def test_a_field_that_is_linear_in_time_is_learned_between_the_frames():
    rng = np.random.default_rng(1)
    params = rng.random((20, 3))
    shapes = rng.standard_normal((2, 16, 3))
    times = np.array([2.0, 3.0, 5.0])

    def truth(at):
        # Linear in the parameters and in time, which a linear map finds.
        return np.stack([params @ shapes[0].T + t * shapes[1].sum(axis=1) for t in at], axis=-1)

    model = TimeConditionedRegressor(PODRegressor(n_components=0.999999999), times=times)
    fitted = model.fit(params, (unit_grid((16,)), truth(times)))
    np.testing.assert_array_equal(fitted.times_, times)
    coords, between = fitted.predict(params, times=[2.5, 4.0, 6.0, 5.0])
    np.testing.assert_allclose(between, truth([2.5, 4.0, 6.0, 5.0]), atol=1e-2)
    np.testing.assert_allclose(fitted.predict(params)[1][..., 2], between[..., 3])
    np.testing.assert_array_equal(coords, unit_grid((16,)))


def test_a_classical_model_is_chosen_by_runs_that_it_has_not_seen():
    """A bump that spreads: frames next to one that is left out tell nothing of new runs."""
    generator, times, x = np.random.default_rng(0), np.linspace(0, 1, 5), np.linspace(0, 1, 40)[:, np.newaxis]
    runs = generator.uniform([0.3, 0.2, 0.01], [1.5, 0.8, 0.2], (24, 3))
    size, place, spread = runs.T[:, :, np.newaxis, np.newaxis]
    width = 0.01 + spread * times
    y = 1 + 0.2 * size * np.exp(-((x - place) ** 2) / width) * (0.01 / width) ** 0.3
    # Without logarithms, the choice takes a quarter of the time.
    inner = PODRegressor(param_transform=None, target_transform=None)
    model = TimeConditionedRegressor(inner, times=5).fit(runs[:18], FieldSet(x, y[:18]))
    found = model.predict(runs[18:]).values
    error, plain = (relative_l2_error(y[18:], part) for part in (found, np.broadcast_to(y[:18].mean(0), found.shape)))
    assert error < 0.4 * plain
    assert 0.3 * error < model.estimator_.leave_one_out_error_ < 3 * error


def test_fields_between_the_frames_are_no_worse_than_those_drawn_between_them():
    """Whole runs are left out to choose a model, so that these tell nothing of other times."""
    x, k, times = np.linspace(0, 1, 40)[:, np.newaxis], np.random.default_rng(0).uniform(0.5, 1.5, (40, 1)), 5
    every = np.linspace(0, 1, 2 * times - 1)
    waves = {
        "a wave": lambda k, t: np.sin(3 * x - 2 * t * k),
        "decay": lambda k, t: np.exp(-3 * k * t) * np.sin(np.pi * x),
        "a bump": lambda k, t: np.exp(-(((x - 0.2 - 0.5 * k * t) / 0.15) ** 2)),
        "two waves": lambda k, t: np.cos(6 * k * t) * np.sin(np.pi * x) + np.sin(4 * t) * np.cos(2 * np.pi * x),
    }
    for name, wave in waves.items():
        y = wave(k[:, np.newaxis], every)
        model = TimeConditionedRegressor(PODRegressor(), times=every[::2]).fit(k[:20], FieldSet(x, y[:20, :, ::2]))
        found, between = (model.predict(k[20:], times=part).values for part in (every[::2], every[1::2]))
        drawn = (found[..., 1:] + found[..., :-1]) / 2
        errors = [relative_l2_error(y[20:, :, 1::2], part) for part in (between, drawn)]
        assert errors[0] < errors[1], name
        assert relative_l2_error(y[20:, :, ::2], found) < 1e-3, name


class Told(BaseEstimator):
    """Knows a function of the columns of a table, and nothing of the data."""

    def __init__(self, function):
        self.function = function

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.function(X[:, 0], X[:, 1])


@pytest.mark.parametrize("times", [[0.0, 0.5, 1.0, 2.0, 4.0], [4.0, 0.0, 2.0, 1.0, 3.0], [0.0, 1.0]])
def test_between_its_frames_an_estimator_that_errs_there_is_not_believed(times):
    times, X = np.array(times), np.linspace(0.5, 2, 12)[:, np.newaxis]
    charge = lambda a, t: a * (1 - np.exp(-t / a))  # noqa: E731
    # Right at all frames.
    wild = Told(lambda a, t: charge(a, t) + a * np.prod([t - known for known in times], axis=0))
    y = charge(X, times)
    model = TimeConditionedRegressor(wild, times=times).fit(X, y)
    asked = np.sort(np.append(np.linspace(0, times.max(), 21), times))
    order = np.argsort(times)
    drawn = PchipInterpolator(times[order], y[:, order], axis=-1)(asked)
    np.testing.assert_allclose(model.predict(X, times=asked), drawn, atol=1e-12)
    np.testing.assert_allclose(model.predict(X, times=asked[::-1]), drawn[:, ::-1], atol=1e-12)
    assert model.interpolated_.tolist() == [True] * (len(times) - 1)
    # Outside of all frames there is nothing to draw between.
    outside = np.array([-0.1, times.max() + 0.1])
    np.testing.assert_allclose(model.predict(X, times=outside), wild.function(X, outside))


def test_between_its_frames_an_estimator_that_knows_more_is_believed():
    X, times = np.linspace(0, 6, 20)[:, np.newaxis], np.linspace(0, 4, 13)
    # Four frames of a period, between which no curve is near the truth.
    wave = lambda a, t: np.sin(a + 1.5 * np.pi * t)  # noqa: E731
    model = TimeConditionedRegressor(Told(wave), times=times).fit(X, wave(X, times))
    asked = (times[1:] + times[:-1]) / 2
    np.testing.assert_allclose(model.predict(X, times=asked), wave(X, asked))
    drawn = PchipInterpolator(times, wave(X, times), axis=-1)(asked)
    assert relative_l2_error(wave(X, asked), drawn) > 0.05


def test_at_uneven_times_a_classical_model_is_about_as_good_as_a_curve_through_its_frames():
    x, times = np.linspace(0, 1, 12), np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    params = np.random.default_rng(0).uniform([0.5, 50], [2, 100], (50, 2))
    a, size = params.T[:, :, np.newaxis, np.newaxis]
    truths = {
        "charge": lambda t: size * (1 - np.exp(-t / a)) * np.sin(np.pi * x)[:, np.newaxis],
        "spread": lambda t: size * np.exp(-(((x[:, np.newaxis] - 0.5) / 0.2) ** 2) / (1 + a * t)) / np.sqrt(1 + a * t),
    }
    asked = (times[1:] + times[:-1]) / 2
    for name, truth in truths.items():
        y = FieldSet(x[:, np.newaxis], truth(times))
        model = TimeConditionedRegressor(PODRegressor(regressor="gaussian_process"), times=times).fit(
            params[:30], y[:30]
        )
        drawn = PchipInterpolator(times, truth(times), axis=-1)(asked)
        errors = [
            np.sqrt(np.square(part - truth(asked))[30:].mean(axis=(0, 1))).max()
            for part in (model.predict(params, times=asked).values, drawn)
        ]
        assert errors[0] < 3 * errors[1], name


@pytest.mark.parametrize("kind", ["grid", "other points", "ragged"])
def test_frames_are_drawn_through_wherever_they_are(kind):
    rng, times = np.random.default_rng(0), np.array([0.0, 0.2, 0.5, 1.0])
    if kind == "grid":
        X, y = rng.random((6, *GRID, 1)), rng.random((6, *GRID, 8))
    else:
        sizes = [9, 6, 8, 7] if kind == "ragged" else [8] * 4
        places = [rng.random((size, 2)) for size in sizes]
        X = FieldSet(places if kind == "ragged" else np.stack(places), [rng.random((n, 1)) for n in sizes])
        y = FieldSet(rng.random((5, 2)), rng.random((4, 5, 4)))
        if kind == "ragged":
            y = X.with_values(rng.random((sum(sizes), 4)))
    model = TimeConditionedRegressor(network(), times=times).fit(X, y)
    model.interpolated_[:] = [True, False, True]
    asked = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    frames, found = (model.predict(X, times=part) for part in (times, asked))
    if kind != "grid":
        np.testing.assert_array_equal(found.coords, frames.coords)
        frames, found = frames.values, found.values
    split = lambda values, count: np.stack(np.split(values, count, axis=-1))  # noqa: E731
    drawn, found = PchipInterpolator(times, split(frames, 4))(asked), split(found, 5)
    np.testing.assert_allclose(found[[0, 2, 3, 4]], drawn[[0, 2, 3, 4]], rtol=1e-5, atol=1e-6)
    assert not np.allclose(found[1], drawn[1], rtol=1e-5, atol=1e-6)


def test_predictions_far_from_all_frames_are_named_at_other_times():
    x, params = np.zeros((1, 1)), np.linspace(0, 1, 12)[:, np.newaxis]
    y = params[:, np.newaxis] * np.linspace(0.5, 1, 4)
    model = TimeConditionedRegressor(PODRegressor(), times=4).fit(params, FieldSet(x, y))
    model.predict(params, times=[0.1])
    model.estimator_.models_[0].regressor.tails[0][:] += 1e3
    for times in (None, [0.1], [0.1, 0.3, 0.5, 0.7, 0.9]):
        with pytest.warns(ExtrapolationWarning, match="times this range outside"):
            model.predict(params, times=times)


@pytest.mark.parametrize("times", [[0.0, 1.0], [0.0, 0.5, 1.0], [1.0, 2.0]])
def test_between_two_or_three_frames_a_field_that_is_linear_in_time_is_nearly_so(times):
    """No error is known there, and the constant of a kernel, to which predictions could return, may be any number."""
    x, params = np.linspace(0, 1, 16), np.random.default_rng(0).random((45, 2))
    wave = np.exp(0.5 * params[:, :1]) * np.sin(np.pi * x) + params[:, 1:] ** 2 * x
    every = np.linspace(times[0], times[-1], 9)
    y, between = (wave[..., np.newaxis] * (1 + 2 * np.array(part)) for part in (times, every))
    model = TimeConditionedRegressor(PODRegressor(), times=times).fit(params[:15], FieldSet(x[:, np.newaxis], y[:15]))
    found = model.predict(params[15:], times=every).values
    assert relative_l2_error(between[15:], found) < 0.1


def test_frames_of_a_field_that_decays_count_by_the_size_of_their_run():
    """Errors of frames that are as good as zero, relative to these, would outweigh all others."""
    times, runs = np.linspace(0, 1, 9), np.random.default_rng(0).uniform(1, 2, (26, 2))
    x = np.linspace(0, 1, 16)
    start = np.exp(0.5 * runs[:, :1]) * np.sin(np.pi * x) + (runs[:, 1:] - 1) ** 2 * x
    y = start[..., np.newaxis] * np.exp(-20 * times * runs[:, :1, np.newaxis])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="y of shape")
        model = TimeConditionedRegressor(PODRegressor(), times=times).fit(runs[:20], y[:20])
    error = 1 - model.score(runs[20:], y[20:])
    assert error < 3e-4
    assert model.estimator_.leave_one_out_error_ < 10 * error


def test_frames_that_are_zero_up_to_rounding_are_as_good_as_zero():
    """Otherwise the relative errors of such frames, as at sin(pi), choose the model."""
    times, x, k = np.linspace(0, 1, 11), np.linspace(0, 1, 9)[:, np.newaxis], np.linspace(0.5, 2, 12)[:, np.newaxis]
    y = k[:, np.newaxis] * x * np.sin(2 * np.pi * times)
    assert 0 < np.abs(y[..., 5]).max() < 1e-15
    model = TimeConditionedRegressor(PODRegressor(), times=times).fit(k[::2], FieldSet(x, y[::2]))
    np.testing.assert_allclose(model.predict(k[1:-1]).values, y[1:-1], atol=1e-3)
    assert model.error_by_time(k[1:-1], FieldSet(x, y[1:-1])).max() < 1e-3


def test_the_same_by_hand(fields):
    X, y = fields
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=5).fit(X, y)
    times = np.linspace(0, 1, 5)
    inputs = FieldSet(unit_grid(GRID), np.repeat(X, 5, axis=0).reshape(60, 16, 2), params=np.tile(times, 12)[:, None])
    frames = np.moveaxis(y.reshape(12, 16, 5, 2), 2, 1).reshape(60, 16, 2)
    alone = PODRegressor(regressor="ridge").fit(
        inputs, FieldSet(unit_grid(GRID), frames), groups=np.repeat(np.arange(12), 5)
    )
    expected = np.moveaxis(alone.predict(inputs).values.reshape(12, 5, 16, 2), 1, 2).reshape(12, *GRID, 10)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-10)


def test_time_comes_after_the_parameters_of_x(fields, monkeypatch):
    X, y = fields
    points = FieldSet(unit_grid(GRID), X.reshape(12, 16, 2), params=np.arange(24.0).reshape(12, 2))
    model = TimeConditionedRegressor(network(max_iter=1, scaling__params=None), times=[7.0, 8.0, 9.0, 10.0, 11.0])
    batches = spied_batches(monkeypatch, model, points, points.with_values(y.reshape(12, 16, 10)))
    assert {time for times, _, _ in batches for time in times} == {7.0, 8.0, 9.0, 10.0, 11.0}
    assert model.estimator_.spec_.n_params == 3


# ---------------------------------------------------------------------- forms of data
def test_kinds_of_y_come_back(fields):
    X, y = fields
    points = FieldSet(unit_grid(GRID), X.reshape(12, 16, 2), grid_shape=GRID)
    expected = None
    for inputs, targets, read in (
        (X, y, np.asarray),
        (points, points.with_values(y.reshape(12, 16, 10)), FieldSet.to_grid),
        ((unit_grid(GRID), X.reshape(12, 16, 2)), (unit_grid(GRID), y.reshape(12, 16, 10)), lambda pair: pair[1]),
    ):
        model = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=5).fit(inputs, targets)
        predicted, one = read(model.predict(inputs)), read(model.predict(inputs, times=[0.25]))
        expected = predicted if expected is None else expected
        np.testing.assert_allclose(predicted.reshape(y.shape), expected, atol=1e-10)
        np.testing.assert_allclose(one.reshape(12, *GRID, 2), expected[..., 2:4], atol=1e-10)
        assert model.score_physical(inputs, targets) == pytest.approx(1 - relative_l2_error(y, expected))
        units = channel_sizes(y, n_components=2)
        assert model.score(inputs, targets) == pytest.approx(1 - relative_l2_error(y, expected, units=units))


def test_clouds(subtests):
    for ragged in [False, True]:
        for form in ["fieldset", "pairs"]:
            with subtests.test(ragged=ragged, form=form):
                rng = np.random.default_rng(2)
                sizes = [9, 6, 8, 9, 7, 6] if ragged else [8] * 6
                coords = [rng.random((size, 2)) for size in sizes]
                values, frames = (
                    [np.cos(3 * place) for place in coords],
                    [np.sin(3 * place @ np.ones((2, 4))) for place in coords],
                )
                X: list | FieldSet = list(zip(coords, values, strict=True))
                y: list | FieldSet = list(zip(coords, frames, strict=True))
                if form == "fieldset":
                    X = FieldSet(coords, values) if ragged else FieldSet(np.stack(coords), np.stack(values))
                    y = FieldSet(coords, frames) if ragged else FieldSet(np.stack(coords), np.stack(frames))
                model = TimeConditionedRegressor(network(), times=2).fit(X, y)
                predicted = model.predict(X)
                assert isinstance(predicted, FieldSet if form == "fieldset" else list)
                fields = predicted.to_list() if form == "fieldset" else [field for _, field in predicted]
                assert [field.shape for field in fields] == [(size, 4) for size in sizes]
                assert model.error_by_time(X, y).shape == (2,)


def test_scalars_and_tables(fields):
    X, _ = fields
    sums = X.sum(axis=(1, 2))[:, :1] * np.linspace(1, 2, 4)
    assert TimeConditionedRegressor(network()).fit(X, sums).predict(X).shape == (12, 4)
    table = np.random.default_rng(0).random((9, 3))
    series = np.concatenate([table @ np.ones((3, 2)) + time for time in np.linspace(0, 1, 4)], axis=1)
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=4).fit(table, series)
    np.testing.assert_allclose(model.predict(table), series, atol=1e-4)
    np.testing.assert_allclose(model.predict(table, times=[0.5]), table @ np.ones((3, 2)) + 0.5, atol=1e-4)
    vector = TimeConditionedRegressor(PODRegressor(regressor="ridge")).fit(table, series[:, 0])
    assert vector.predict(table).shape == (9,)
    assert vector.predict(table, times=[0.0, 0.0]).shape == (9, 2)


def test_tables_of_one_shape_are_series_and_functions_have_a_channel_axis():
    table = np.random.default_rng(0).standard_normal((12, 4))
    function = TimeConditionedRegressor(PODRegressor(regressor="ridge")).fit(table[..., None], table)
    assert function.times_.tolist() == [0.0]
    assert function.spec_.role == "fields"
    assert function.predict(table[..., None]).shape == (12, 4)
    default = TimeConditionedRegressor(PODRegressor(regressor="ridge")).fit(table, table)
    np.testing.assert_allclose(default.times_, [0, 1 / 3, 2 / 3, 1])
    series = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=4).fit(table, table)
    np.testing.assert_array_equal(series.predict(table), default.predict(table))
    assert series.spec_.role == "features"
    assert series.predict(table, times=[0.5]).shape == (12, 1)


def test_errors_by_time_are_those_of_each_frame(fields):
    X, y = fields
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge", n_components=1), times=5).fit(X, y)
    truth = y.reshape(12, 16, 5, 2)
    units = np.sqrt((truth**2).mean(axis=(0, 1, 2)))
    difference, truth = (truth - model.predict(X).reshape(truth.shape)) / units, truth / units
    expected = np.sqrt((difference**2).sum(axis=(1, 3)) / (truth**2).sum(axis=(1, 3))).mean(axis=0)
    np.testing.assert_allclose(model.error_by_time(X, y), expected, rtol=1e-10)
    assert expected.min() > 0.01


def test_errors_by_time_at_other_times_than_those_of_the_fit(fields):
    X, y = fields
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge", n_components=1), times=5).fit(X, y[..., ::2])
    times = [0.9, 0.1, 0.5]
    truth = 1.1 * model.predict(X, times=times) + 0.1
    errors = model.error_by_time(X, truth, times=times)
    apart = [model.error_by_time(X, truth[..., [k]], times=[time])[0] for k, time in enumerate(times)]
    np.testing.assert_allclose(errors, apart, rtol=1e-10)
    assert len(np.unique(errors)) == 3
    # At the times of the fit these are the errors without times, and a single one is what `score` counts.
    every = y[..., ::2]
    np.testing.assert_array_equal(model.error_by_time(X, every, times=model.times_), model.error_by_time(X, every))
    single = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=[0.5]).fit(X, every[..., :1])
    assert single.error_by_time(X, every[..., :1], times=[0.5])[0] == pytest.approx(1 - single.score(X, every[..., :1]))
    with pytest.raises(FieldDataError, match=r"y has 5 channels.* 3"):
        model.error_by_time(X, every, times=times)
    assert len(model.error_by_time(X, every)) == 5


# ---------------------------------------------------------------------- scikit-learn's ways
@pytest.mark.exhaustive
def test_clone_search_pickle_and_seeds(fields):
    X, y = fields
    base = TimeConditionedRegressor(network(random_state=None), times=5, random_state=3)
    one, two = (clone(base).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict(X, times=[0.3]), one.predict(X, times=[0.3]))
    assert not hasattr(base.estimator, "module_")
    grid = {"estimator__width": [8, 16], "grouping": ["spread", "mixed"]}
    search = GridSearchCV(base, grid, scoring=neg_relative_l2_scorer, cv=2).fit(X, y)
    assert search.best_params_["grouping"] in ("spread", "mixed")


def test_weights_reach_the_frames(fields):
    X, y = fields
    weight = np.r_[np.ones(6), np.zeros(6)]
    weighted, fewer = (TimeConditionedRegressor(network(batch_size=12), times=5) for _ in range(2))
    weighted.fit(X, y, sample_weight=weight)
    fewer.fit(X[:6], y[:6])
    np.testing.assert_allclose(weighted.predict(X), fewer.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", ["auto", "relative_l2"])
def test_the_automatic_loss_is_relative_to_runs(fields, monkeypatch, loss):
    X, y = fields
    found, train_step = [], Trainer._train_step
    monkeypatch.setattr(Trainer, "_train_step", lambda self, batch: found.append(batch) or train_step(self, batch))
    TimeConditionedRegressor(network(loss=loss), times=5).fit(X, y)
    if loss != "auto":
        assert all(batch.target_sizes is None for batch in found)
        return
    frames = np.moveaxis(y.reshape(12, 16, 5, 2), 2, 1).astype(np.float32)
    for batch in found:
        for target, size in zip(batch.target.numpy(), batch.target_sizes.numpy(), strict=True):
            (run,) = np.flatnonzero((frames == target).all(axis=(2, 3)).any(axis=1))
            np.testing.assert_allclose(size, np.sqrt((frames[run] ** 2).mean(axis=(0, 1))), rtol=1e-5)


def test_fields_that_decay_are_learned():
    """Relative errors of each frame by itself make the last ones, which are nearly nothing, outweigh all others."""
    runs, x, times = np.random.default_rng(0).random((20, 2)), np.linspace(0, 1, 16), np.linspace(0, 1, 9)
    start = np.sin(np.pi * x) * (1 + runs[:, :1]) + np.sin(2 * np.pi * x) * runs[:, 1:]
    y = start[..., np.newaxis] * np.exp(-20 * times)
    model = TimeConditionedRegressor(network(width=16, batch_size=2, max_iter=6), times=times).fit(runs, y)
    assert 1 - model.score(runs, y) < 0.3


@pytest.mark.parametrize("early_stopping", [False, True])
def test_groups_of_trajectories_are_held_out_as_a_whole(fields, monkeypatch, early_stopping):
    X, y = (np.concatenate([part, -part]) for part in fields)
    labels, options = np.arange(24) % 12, {"max_iter": 1, "base": "pod", "early_stopping": early_stopping}
    model = TimeConditionedRegressor(network(**options), times=5)
    seen = spied_batches(monkeypatch, model, X, y, groups=labels)
    rows = {tuple(target.ravel()) for _, targets, _ in seen for target in targets}
    frames = np.moveaxis(y.reshape(24, 16, 5, 2), 2, 1).astype(np.float32)
    counts = np.array([sum(tuple(frame.ravel()) in rows for frame in run) for run in frames])
    assert np.array_equal(counts[:12], counts[12:])
    assert sorted(counts[:12]) == [0] * 5 + [5] * 7


def test_groups_of_one_trajectory_change_nothing(fields):
    X, y = fields
    model = TimeConditionedRegressor(network(base="pod"), times=5)
    alone, grouped = (clone(model).fit(X, y, groups=groups).predict(X) for groups in (None, np.arange(12)))
    assert np.array_equal(alone, grouped)


@pytest.mark.parametrize("base", [None, "pod"])
@pytest.mark.parametrize("grouping", ["spread", "mixed"])
def test_samples_are_held_out_by_whole_trajectories(fields, monkeypatch, grouping, base):
    X, y = fields
    options = {"max_iter": 2, "early_stopping": True, "training__validation_fraction": 0.25, "base": base}
    model = TimeConditionedRegressor(network(**options), times=5, grouping=grouping)
    seen = {tuple(target.ravel()) for _, targets, _ in spied_batches(monkeypatch, model, X, y) for target in targets}
    frames = np.moveaxis(y.reshape(12, 16, 5, 2), 2, 1).astype(np.float32)
    counts = [sum(tuple(frame.ravel()) in seen for frame in run) for run in frames]
    # A validation of three runs is too small to choose a share, and two more are held out.
    assert sorted(counts) == [0] * (5 if base else 3) + [5] * (7 if base else 9)
    assert len(model.estimator_.validation_scores_) == 2


def test_a_base_is_judged_by_runs_that_it_has_not_seen():
    """What is constant in time, and not in the inputs, is told by the other frames of a run alone."""
    rng = np.random.default_rng(0)
    X = rng.random((20, 2))
    unknown = rng.standard_normal((20, 16, 1)) + 0.01 * np.linspace(0, 1, 5)
    model = TimeConditionedRegressor(network(base="auto"), times=5).fit(X, unknown)
    assert model.estimator_.base_.estimator.regressor == "mean"
    assert TimeConditionedRegressor(network(base="pod"), times=5).fit(X, unknown).estimator_.base_.error > 0.9
    # The same of two loads of a geometry, which tell all of each other.
    geometries, loads = np.repeat(X, 2, axis=0), np.repeat(unknown, 2, axis=0)
    X = np.column_stack([geometries, np.tile([0.0, 1.0], 20)])
    for groups, low, high in ((None, 0.0, 0.2), (np.repeat(np.arange(20), 2), 0.9, 9.0)):
        model = TimeConditionedRegressor(network(base="pod"), times=5).fit(X, loads, groups=groups)
        assert low < model.estimator_.base_.error < high


def fitted_to_steps(model, steps, fields):
    """A model of times, or of steps, of runs."""
    X, y = (FieldSet(unit_grid(GRID), values) for values in fields)
    if steps == "times":
        return TimeConditionedRegressor(model, times=5).fit(X, y)
    # In some of these, networks learn frames.
    return RolloutRegressor(model, window=1, increments=False).fit(X, y)


@pytest.fixture(scope="module")
def alone(fields):
    """Operators alone, by their seed and kind of steps, each of which is fitted once."""
    return cache(lambda seed, steps: fitted_to_steps(network(base="auto", random_state=seed), steps, fields))


@pytest.mark.parametrize("steps", ["times", "rollout"])
@pytest.mark.parametrize(
    "wrapped",
    [
        LawRegressor(network(base="auto")),
        EnsembleRegressor(network(base="auto"), n_members=1, random_state=0),
        AutoRegressor(candidates=[("alone", network(base="auto"))], max_time=None, random_state=0),
        LawRegressor(EnsembleRegressor(network(base="auto"), n_members=1, random_state=0)),
        make_pipeline(FunctionTransformer(), network(base="auto")),
        make_pipeline(network(base="auto"), memory="unused"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_operator_within_others_is_fitted_to_runs_as_alone(fields, alone, wrapped, steps):
    X, model = FieldSet(unit_grid(GRID), fields[0]), fitted_to_steps(wrapped, steps, fields)
    inner = model.estimator_
    while not isinstance(inner, LaMORegressor):
        if isinstance(inner, Pipeline):
            inner = inner[-1]
        else:
            inner = inner.estimators_[0] if isinstance(inner, EnsembleRegressor) else inner.estimator_
    expected = alone(inner.random_state, steps)
    assert (inner.base_ is None) == (expected.estimator_.base_ is None)
    np.testing.assert_array_equal(model.predict(X).values, expected.predict(X).values)


def test_units_do_not_matter_to_a_classical_model():
    runs, x, times = np.random.default_rng(0).random((16, 2)) + 0.5, np.linspace(0, 1, 24), np.linspace(0, 1, 6)
    y = runs[:, :1, np.newaxis] * np.exp(-(((x[:, np.newaxis] - times) / runs[:, 1:, np.newaxis]) ** 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model, other = (
            TimeConditionedRegressor(PODRegressor(), times=unit * times).fit(runs * unit, y * unit)
            for unit in (1.0, 1e-9)
        )
    new = np.random.default_rng(1).random((16, 2)) + 0.5
    np.testing.assert_allclose(1e9 * other.predict(1e-9 * new), model.predict(new), rtol=0, atol=1e-4)


def test_who_takes_frames_for_samples_is_named(fields):
    X, y = fields
    search = GridSearchCV(PODRegressor(), {"regressor": ["ridge"]}, cv=2)
    with pytest.warns(SkopWarning, match="GridSearchCV takes the frames of runs .* PODRegressor in it"):
        TimeConditionedRegressor(search, times=5).fit(X, y)
    for name, last in {"GridSearchCV": GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2), "LassoCV": LassoCV(cv=2)}.items():
        flat, scalars = make_pipeline(StandardScaler(), last), y[:, 0, 0, ::2]
        with pytest.warns(SkopWarning, match=f"{name} takes the frames of runs"):
            TimeConditionedRegressor(flat, times=5).fit(X[:, 0, 0], scalars)
    pod = PODRegressor(regressor="ridge")
    for model in (TimeConditionedRegressor(pod, times=5), RolloutRegressor(pod, window=1)):
        with pytest.warns(SkopWarning, match="there is one run"):
            model.fit(X[:1], y[:1])
        # A weight can leave one, too.
        with pytest.warns(SkopWarning, match="there is one run"):
            model.fit(X, y, sample_weight=np.eye(len(X))[0])


def test_a_network_over_a_good_base_is_no_worse():
    runs, x, times = np.random.default_rng(0).random((40, 2)), np.linspace(0, 1, 16), np.linspace(0, 1, 5)
    y = np.sin(3 * x[:, np.newaxis] * (1 + runs[:, :1, np.newaxis]) - times) * np.exp(-times * runs[:, 1:, np.newaxis])
    base, over = (
        TimeConditionedRegressor(model, times=times).fit(runs[:30], y[:30])
        for model in (PODRegressor(), network(base="auto", max_iter=16))
    )
    # The search for length scales of standardised targets ends elsewhere than that of the targets.
    assert 1 - over.score(runs[30:], y[30:]) <= 1.5 * (1 - base.score(runs[30:], y[30:]))


@pytest.mark.parametrize(("start", "unit"), [(0, 1), (-2, 1e6), (1e6, 1e6)])
@pytest.mark.parametrize("steps", [[0, 1e-3, 2e-3, 0.1], [0, 1e-9, 1e-8, 1e-7, 1e-4, 1], np.arange(12) / 7])
def test_the_band_of_a_time_is_its_own_however_many_decades_there_are(start, unit, steps):
    """Times of the fit are told apart, wherever they start; others between them are refused."""
    times = start + unit * np.array(steps)
    rng = np.random.default_rng(0)
    X = rng.random((40, 1))
    y = X + rng.permutation(len(times)) * rng.standard_normal((40, len(times)))
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=times)
    model = ConformalRegressor(model, coverage=0.6, random_state=0).fit(X, y)
    expected = model.predict_interval(X)
    # As they are read again from a file of single precision, if this tells them apart.
    rounded = times.astype(np.float32).astype(float) if start <= 0 else times
    for k, time in enumerate(rounded):
        for found, part in zip(model.predict_interval(X, times=[time]), expected, strict=True):
            np.testing.assert_array_equal(found[:, 0], part[:, k])
    for time in (times[1:] + times[:-1]) / 2:
        with pytest.raises(FieldDataError, match="nothing is known of the errors at others"):
            model.predict_interval(X, times=[time])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (3, "y has 10 channels, which cannot be divided into 3 frames"),
        ([0.0, 1.0, np.nan, 2.0, 3.0], "times must be a list of finite numbers"),
        ([[0.0, 1.0]], "times must be a list of finite numbers"),
        (np.zeros(5), "times must be different for each frame"),
        (np.arange(5).astype("timedelta64[ms]"), r"came as timedelta64, such as .*\(0, ?'ms'\); expected numbers"),
        (np.arange(5).astype("datetime64[D]"), r"came as datetime64.*\(t - start\) / np\.timedelta64"),
        (
            [timedelta(hours=k) for k in range(5)],
            r"came as timedelta, such as datetime\.timedelta\(0\); .*t / np\.timedelta64\(1, 's'\)",
        ),
        ([datetime(2026, 1, 1 + k) for k in range(5)], r"came as datetime, such as datetime.*2026, 1, 1.*; expected"),
        (np.array([0, 1, 2, 3, np.timedelta64(4, "s")], dtype=object), r"came as timedelta64, such as .*\(4, ?'s'\)"),
        (["0", "1", "2", "3", "4"], r"came as str_, such as .*'0'.*; .*float\(t\) for text"),
    ],
)
def test_times_that_do_not_fit(fields, times, message):
    with pytest.raises(FieldDataError, match=message):
        TimeConditionedRegressor(PODRegressor(), times=times).fit(*fields)


@pytest.mark.parametrize(
    "wrap", [LawRegressor, EnsembleRegressor, lambda frames: AutoRegressor(candidates=[("a", frames)])]
)
def test_what_takes_no_times_says_what_does(fields, wrap):
    model = wrap(TimeConditionedRegressor(PODRegressor(), times=5))
    for method, words in [(model.predict, "predict"), (model.check, "check"), (model.novelty, "novelty")]:
        with pytest.raises(
            FieldDataError, match=rf"{words} of .* got times.*TimeConditionedRegressor\(\w+\(\.\.\.\)\)"
        ):
            method(fields[0], times=[0.5])
    frames = TimeConditionedRegressor(PODRegressor(), times=5)
    with pytest.raises(FieldDataError, match=r"got n_steps.*pass times"):
        frames.predict(fields[0], n_steps=2)
    with pytest.raises(TypeError, match="unexpected"):
        frames.predict(fields[0], time=[0.5])


def test_a_score_of_other_frames_names_what_measures_them(fields):
    X, y = fields
    models = [
        (TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=5), "call error_by_time.*the 3 times of y"),
        (RolloutRegressor(PODRegressor(regressor="ridge"), window=1), r"call error_by_step\(X, y, n_steps=3\)"),
    ]
    for model, words in models:
        model.fit(X, y)
        with pytest.raises(FieldDataError, match=f"3 frames, but 5 frames are predicted; {words}"):
            model.score(X, y[..., :6])
        with pytest.raises(FieldDataError, match="y has 7 channels, but the prediction"):
            model.score(X, y[..., :7])


def test_other_refusals(fields):
    X, y = fields
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=5).fit(X, y)
    with pytest.raises(FieldDataError, match=r"times must be a list of finite numbers, got 0\.5"):
        model.predict(X, times=0.5)
    with pytest.raises(FieldDataError, match=r"came as timedelta64, such as .*\(1, ?'s'\)"):
        model.predict(X, times=np.array([1], "timedelta64[s]"))
    points = FieldSet(unit_grid(GRID), X.reshape(12, 16, 2))
    targets = points.with_values(y.reshape(12, 16, 10)).with_params(np.ones((12, 1)))
    with pytest.raises(FieldDataError, match="predicts frames, but y has params"):
        TimeConditionedRegressor(network(), times=5).fit(points, targets)


# ---------------------------------------------------------------------- times without a logarithm
@pytest.mark.parametrize("form", ["fields", "table"])
def test_a_time_without_a_logarithm_is_called_the_time(form):
    # Both over decades, of which the logarithms have no tangents.
    times, sizes = np.geomspace(0.05, 1.6, 6), np.geomspace(1, 100, 14)[:, None]
    model = PODRegressor(regressor="ridge", param_transform="log")
    X = sizes if form == "table" else FieldSet(unit_grid((5,)), np.ones((14, 5, 1)), params=sizes)
    y = sizes * times**-0.5 if form == "table" else X.with_values(np.repeat((sizes * times**-0.5)[:, None], 5, axis=1))
    model = TimeConditionedRegressor(model, times=times).fit(X, y)
    words = r"the time 0 is not positive, but those of the fit, 0.05 to 1.6, .*PODRegressor\(param_transform=None\)"
    with pytest.warns(ExtrapolationWarning, match="time is 0, in"), pytest.raises(FieldDataError, match=words):
        model.predict(X, times=[0.0])
    # Another number without a logarithm is a parameter as before.
    wrong = np.where(np.arange(14)[:, None] == 3, -1.0, sizes)
    wrong = wrong if form == "table" else X.with_params(wrong)
    with pytest.warns(ExtrapolationWarning), pytest.raises(FieldDataError, match="parameter 0 of X is -1 in sample 3"):
        model.predict(wrong, times=[0.1])


@pytest.mark.parametrize("way", ["time", "step"])
def test_the_size_of_a_run_is_that_of_all_its_frames(recwarn, way):
    """A wave that passes through zero in one frame is of the size of others; a run in other units is not."""
    points, times = np.linspace(0, 1, 9), np.arange(8.0)
    phase = np.random.default_rng(0).uniform(0.9, 1.6, 12)
    phase[4] = np.pi / 2 - 5.0 + 1e-4
    waves = np.sin(np.pi * points)[None, :, None] * np.cos(phase[:, None, None] + times)
    model = PODRegressor(regressor="ridge")

    def said(waves):
        recwarn.clear()
        if way == "time":
            TimeConditionedRegressor(model, times=times).fit(phase[:, None], FieldSet(points[:, None], waves))
        else:
            RolloutRegressor(model, window=2).fit(
                *(FieldSet(points[:, None], waves[..., k]) for k in (slice(2), slice(2, None)))
            )
        return [str(w.message) for w in recwarn if "y of" in str(w.message) and "another size" in str(w.message)]

    assert not said(waves)
    waves[7] *= 1000.0
    (message,) = said(waves)
    assert message.startswith(
        "y of sample 7 is of another size than that of the other samples: its channel 0 (root mean"
    )
