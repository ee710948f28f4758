"""PODRegressor against POD and ridge regression written out in NumPy."""

import pickle
import re
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline, interpn, make_interp_spline
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsRegressor

from skop import (
    FieldSet,
    PODRegressor,
    TimeConditionedRegressor,
    load,
    suggest,
)
from skop.data import unit_grid
from skop.datasets import make_antiderivative, make_joukowski, make_moving_hole, make_wake
from skop.estimators.classical._copies import without_copies
from skop.estimators.classical._kernel_models import KernelModel, System
from skop.estimators.classical._nodes import Numbering
from skop.exceptions import FieldDataError, ModelFileError, SkopWarning
from skop.metrics import channel_sizes, relative_l2_error, relative_l2_score

GRID = (4, 3)
RANDOM = np.random.default_rng(0)


def make_data(n_samples=20, noise=0.1, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_samples, *GRID, 2)) + 1.0
    map_ = generator.normal(size=(24, 12))
    y = (X.reshape(n_samples, -1) @ map_ + 3.0).reshape(n_samples, *GRID, 1)
    return X, y + noise * generator.normal(size=y.shape)


def ridge(inputs, outputs, penalty):
    """Coefficients and intercept of ridge regression by the normal equations."""
    mean_in, mean_out = inputs.mean(axis=0), outputs.mean(axis=0)
    centred = inputs - mean_in
    slope = np.linalg.solve(centred.T @ centred + penalty * np.eye(inputs.shape[1]), centred.T @ (outputs - mean_out))
    return slope, mean_out - mean_in @ slope


def leading(rows, count):
    """Mean and leading right singular vectors of the deviations."""
    mean = rows.mean(axis=0)
    return mean, np.linalg.svd(rows - mean, full_matrices=False)[2][:count]


@pytest.mark.parametrize("count", [1, 3, 6])
def test_pod_and_ridge_written_out(count):
    X, y = make_data()
    # Channels of the input have the same weight.
    rows, targets = (X / X[:15].std(axis=(0, 1, 2))).reshape(20, -1), y.reshape(20, -1)
    mean_in, basis_in = leading(rows[:15], count)
    mean_out, basis_out = leading(targets[:15], count)
    inputs, outputs = (rows[:15] - mean_in) @ basis_in.T, (targets[:15] - mean_out) @ basis_out.T
    found = PODRegressor(regressor="ridge", n_components=count).fit(X[:15], y[:15])
    penalties = found.models_[0].regressor.penalties * found.input_scale_**2
    models = [ridge(inputs, outputs[:, mode], penalties[mode]) for mode in range(len(penalties))]
    slope, shift = (np.stack(part, axis=-1) for part in zip(*models, strict=True))
    basis_out = basis_out[: len(penalties)]
    expected = ((rows[15:] - mean_in) @ basis_in.T @ slope + shift) @ basis_out + mean_out
    np.testing.assert_allclose(found.predict(X[15:]).reshape(5, -1), expected, rtol=1e-8, atol=1e-9)


def test_a_linear_map_is_found_with_enough_components():
    X, y = make_data(60, noise=0.0)
    errors = [1 - PODRegressor(n_components=count).fit(X[:50], y[:50]).score(X[50:], y[50:]) for count in (4, 12, 24)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-5


def test_the_part_of_the_variance_decides_the_number_of_components():
    X, y = make_data(40)
    estimator = PODRegressor(n_components=0.8).fit(X, y)
    for basis, rows in ((estimator.input_basis_, X.reshape(40, -1)), (estimator.models_[0].basis, y.reshape(40, -1))):
        variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
        assert basis.n_components_ == np.searchsorted(np.cumsum(variances) / variances.sum(), 0.8) + 1


def test_the_mean_field():
    X, y = make_data()
    predicted = PODRegressor(regressor="mean").fit(X, y).predict(X[:2])
    np.testing.assert_allclose(predicted, np.broadcast_to(y.mean(axis=0), (2, *GRID, 1)), rtol=1e-12)


def test_a_gaussian_process_follows_a_curve_that_a_line_cannot():
    params = np.linspace(-2, 2, 25)[:, None]
    x = unit_grid((6,))[:, 0]
    y = np.sin(2 * params + x)[..., None]
    scores = {
        kind: PODRegressor(regressor=kind).fit(params[::2], y[::2]).score(params[1::2], y[1::2])
        for kind in ("ridge", "gaussian_process")
    }
    assert scores["gaussian_process"] > 0.95
    assert scores["ridge"] < 0.8


def test_any_regressor_is_cloned_and_used():
    X, y = make_data(60, noise=0.0)
    regressor = LinearRegression()
    estimator = PODRegressor(regressor=regressor, n_components=24).fit(X[:50], y[:50])
    assert isinstance(estimator.models_[0].regressor, LinearRegression)
    assert not hasattr(regressor, "coef_")
    np.testing.assert_allclose(estimator.predict(X[50:]), y[50:], rtol=1e-8)


def test_units_of_parameters_and_fields_do_not_matter():
    X = RANDOM.normal(size=(20, 3))
    y = (X @ RANDOM.normal(size=(3, 5)))[..., None] + 0.1 * RANDOM.normal(size=(20, 5, 1))
    predicted = PODRegressor(n_components=2).fit(X, y).predict(X)
    scaled = PODRegressor(n_components=2).fit(X * [1e-3, 1.0, 1e4] + 5, 1e3 * y).predict(X * [1e-3, 1.0, 1e4] + 5)
    np.testing.assert_allclose(scaled, 1e3 * predicted, rtol=1e-6, atol=1e-6)


def test_a_constant_column_and_a_constant_target_are_no_trouble():
    X = np.column_stack([np.ones(8), np.arange(8.0)])
    y = np.broadcast_to(unit_grid((5,)), (8, 5, 1))
    np.testing.assert_allclose(PODRegressor().fit(X, y).predict(X), y, atol=1e-12)


def test_values_that_are_zero_in_all_samples_are_predicted_as_zero():
    """Such as those of supports: R2 divides by their variance, so that rounding would be all of an error."""
    rng, places = np.random.default_rng(0), np.linspace(0, 1, 21)
    X = rng.random((60, 2))
    y = np.sin(3 * X[:, :1] * places) + X[:, 1:] * places**2
    for targets in (y, y[..., np.newaxis]):
        found = PODRegressor().fit(X, targets).predict(X).reshape(60, 21)
        assert not found[:, 0].any()
        assert r2_score(y, found) > 0.999


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_components_of_noise_are_not_interpolated(noise):
    """The truth has two components; noise at each of 60 points has all others, and hides what a model adds to it."""
    places, errors = np.linspace(0, 1, 60), np.zeros(2)
    law = lambda x: np.sin(3 * x[:, :1] + 3 * places) * (0.5 + x[:, 1:2])  # noqa: E731
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, new = rng.random((100, 3)), rng.random((300, 3))
        noisy = (law(X) + noise * rng.normal(size=(100, 60)))[..., np.newaxis]
        for place, count in enumerate(("auto", 2)):
            found = PODRegressor(n_components=count).fit(X, noisy).predict(new)[..., 0]
            errors[place] += np.linalg.norm(found - law(new))
    assert errors[0] < 1.2 * errors[1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_channel_that_is_constant_up_to_rounding_changes_nothing(dtype):
    params, x = np.random.default_rng(0).uniform(0, 1, (40, 2)), np.linspace(0, 1, 20)
    u = np.sin(3 * params[:, :1] + 4 * x) + params[:, 1:] * x
    constant = (np.sin(u.astype(dtype)) ** 2 + np.cos(u.astype(dtype)) ** 2) * dtype(0.3)
    assert np.ptp(constant) > 0
    one, two = u[..., None].astype(dtype), np.stack([u, constant], axis=-1).astype(dtype)
    new = slice(25, None)
    found = PODRegressor(regressor="ridge").fit(params[:25], two[:25]).predict(params[new])[..., :1]
    alone = PODRegressor(regressor="ridge").fit(params[:25], one[:25]).predict(params[new])
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-5)
    found = PODRegressor(regressor="rbf").fit(two[:25], one[:25]).predict(two[new])
    alone = PODRegressor(regressor="rbf").fit(one[:25], one[:25]).predict(one[new])
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-5)


def test_parameters_beside_fields_and_points_of_ones_own_are_inputs():
    coords = np.stack([unit_grid(GRID) * scale for scale in np.linspace(1, 2, 16)])
    y = coords.sum(axis=-1, keepdims=True) * 2
    own = FieldSet(coords, np.ones((16, 12, 1)))
    assert PODRegressor().fit(own[::2], y[::2]).score(own[1::2], y[1::2]) > 0.999
    params = np.linspace(-1, 1, 40)[:, None]
    both = FieldSet(unit_grid(GRID), RANDOM.normal(size=(40, 12, 1)), params=params)
    targets = both.values + 3 * params[:, :, None]
    estimator = PODRegressor(n_components=13).fit(both[::2], targets[::2])
    assert estimator.score(both[1::2], targets[1::2]) > 0.999


def test_another_number_of_points_is_refused_with_advice():
    X, y = make_data()
    estimator = PODRegressor().fit(X, y)
    with pytest.raises(FieldDataError, match=r"16 values per sample.*fitted with 24.*interpolate"):
        estimator.predict(X[:, :, :2])


def test_another_grid_with_as_many_points_is_refused():
    X, y = make_data()
    estimator = PODRegressor().fit(X, y)
    with pytest.raises(FieldDataError, match="points"):
        estimator.predict(X.reshape(20, 3, 4, 2))


def test_points_elsewhere_are_refused():
    X, y = make_data()
    values = X.reshape(20, 12, 2)
    estimator = PODRegressor().fit(FieldSet(unit_grid(GRID), values, grid_shape=GRID), y)
    with pytest.raises(FieldDataError, match="points"):
        estimator.predict(FieldSet(unit_grid(GRID) * 2, values, grid_shape=GRID))


def test_samples_with_different_points_are_refused_with_advice():
    ragged = FieldSet([np.zeros((3, 2)), np.ones((4, 2))], [np.zeros((3, 1)), np.ones((4, 1))])
    for regressor, model in (("auto", "PODRegressor"), ("mean", "the mean of fields")):
        with pytest.raises(FieldDataError, match=rf"{model} needs the same points.*interpolate"):
            PODRegressor(regressor=regressor, grid=None).fit(ragged, np.arange(2.0))


@pytest.mark.parametrize("params", [{"regressor": "lasso"}, {"n_components": 0}, {"n_components": 1.5}])
def test_impossible_parameters_are_refused(params):
    X, y = make_data()
    with pytest.raises(ValueError, match=next(iter(params))):
        PODRegressor(**params).fit(X, y)


def test_the_units_of_channels_do_not_matter():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(30, 3))
    fields = np.stack([np.sin(X @ generator.normal(size=(3, 12))), (X**2) @ generator.normal(size=(3, 12))], axis=-1)
    points, units = generator.random((12, 2)), np.array([1e-6, 1e6])
    plain, scaled = (
        PODRegressor(n_components=4).fit(X, FieldSet(points, fields * unit)).predict(X).values / unit
        for unit in (1.0, units)
    )
    np.testing.assert_allclose(plain, scaled, rtol=1e-8, atol=1e-10)


def test_leave_one_out_predictions_are_those_of_refits_with_the_same_choice():
    generator, n_samples = np.random.default_rng(0), 25  # so many that the choice is not repeated
    X = generator.uniform(-1, 1, (n_samples, 2))
    fields = np.stack(
        [np.sin(X @ generator.normal(size=(2, 7))), 1e3 + np.cos(X @ generator.normal(size=(2, 7)))], axis=-1
    )
    y = FieldSet(generator.random((7, 2)), fields)
    model = PODRegressor(regressor="rbf").fit(X, y)
    data = model._read(X, y)
    found = model._leave_one_out(data)
    points = model.models_[0].scaled(X)
    for sample in (0, 5, 17):
        others = np.arange(n_samples) != sample
        (kernel,) = model.models_[0].regressor.kernels
        # Fields themselves, and not their components, with the penalty of all components.
        assert len(set(model.models_[0].regressor.penalties)) == 1
        refit = KernelModel.fit(
            fields.reshape(n_samples, -1)[others],
            System(kernel, points[others]),
            np.full(14, model.models_[0].regressor.penalties[0]),
        )
        np.testing.assert_allclose(found.fields[sample].ravel(), refit.predict(points[[sample]])[0], rtol=1e-8)
    error = 1 - relative_l2_score(fields, found.fields, units=channel_sizes(fields))
    assert model.leave_one_out_error_ == pytest.approx(error, rel=1e-8)


def bumps(table):
    """Fields ``(n, 20, 1)`` of an amplitude, a place and a width."""
    x = np.linspace(0, 1, 20)
    amplitude, place, width = (column[:, np.newaxis] for column in table.T)
    return (amplitude * np.exp(-(((x - place + 0.5) / width) ** 2)))[..., np.newaxis]


@cache
def error_with_copies(kind, change):
    """Leave-one-out error of a fit to runs and to others that differ from them by this part."""
    X, x = np.random.default_rng(0).random((14, 3)) + 0.5, np.linspace(0, 1, 20)
    steps = np.arange(12 if kind == "often" else 2)
    table = np.concatenate([X * (1 + change * step) for step in steps])
    y = bumps(table)
    if kind == "times":
        y = y * np.exp(-table[:, :1, np.newaxis] * np.linspace(0, 1, 5))
        return TimeConditionedRegressor(PODRegressor(), times=5).fit(table, y).estimator_.leave_one_out_error_
    inputs = np.stack([np.sin(5 * table[:, :1] * x), np.cos(4 * table[:, 1:2] * x) * table[:, 2:]], axis=-1)
    return PODRegressor().fit(inputs if kind == "fields" else table, y).leave_one_out_error_


@pytest.mark.parametrize(
    ("kind", "change"), [("parameters", 1e-8), ("fields", 1e-8), ("times", 1e-7), ("times", 1e-4), ("often", 1e-8)]
)
def test_samples_that_are_nearly_the_same_count_as_copies(kind, change):
    """A run that was started again tells all of the other, and nothing of new ones."""
    found, expected = (error_with_copies(kind, size) for size in (change, 0.0))
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("step", [1e-5, 1e-4])
def test_steps_for_finite_differences_tell_slopes_and_not_each_other(step):
    gains, honest = [], []
    for seed in range(4):
        random = np.random.default_rng(seed)
        X, new = random.random((12, 3)) + 0.5, random.random((200, 3)) + 0.5
        stepped = np.concatenate([X, *(X + step * axis for axis in np.eye(3))])
        # Without logarithms, the choice takes a quarter of the time.
        model = PODRegressor(param_transform=None, target_transform=None)
        found, alone = (clone(model).fit(rows, bumps(rows)) for rows in (stepped, X))
        errors = [relative_l2_error(bumps(new), model.predict(new)) for model in (found, alone)]
        gains.append(errors[0] / errors[1])
        honest.append(errors[0] / found.leave_one_out_error_)
    # The slopes lower errors, and the leave-one-out error does not hide what new runs have.
    assert np.exp(np.mean(np.log(gains))) < 0.6
    assert np.exp(np.mean(np.log(honest))) < 2.5


def test_noise_of_repeated_inputs_is_no_copy():
    rng = np.random.default_rng(0)
    X, noise = np.repeat(rng.random((15, 2)), 4, axis=0), rng.normal(size=60)
    for change in (0.0, 1e-5):
        inputs = X + change * rng.normal(size=X.shape)
        assert len(without_copies(PODRegressor()._read(inputs, noise), None, None)[0].inputs) == 60


def test_copies_count_once_for_a_regressor_without_weights():
    X = np.random.default_rng(0).random((20, 2))
    y = np.sin(X @ [3.0, 2.0])
    model = PODRegressor(regressor=KNeighborsRegressor(2))
    once, some = model.fit(X, y).predict(X), np.append(np.arange(20), np.arange(5))
    np.testing.assert_allclose(clone(model).fit(X[some], y[some]).predict(X), once, rtol=1e-12)
    with pytest.raises(FieldDataError, match="sample_weight was given"):
        model.fit(X, y, sample_weight=np.arange(20.0))


def weighted_samples(form, seed=0):
    """Noisy samples, and whole weights of which some are 0."""
    generator, n = np.random.default_rng(seed), 24
    if form == "line":
        X = generator.random((n, 1))
        y = np.sin(9 * X[:, 0])
    elif form == "parameters":
        X = generator.random((n, 2))
        y = np.stack([np.sin(X @ [[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]]), 90 * X[:, :1] + [[0.0, 1.0, 2.0]]], axis=-1)
    elif form == "points":
        X = np.linspace(0, 1, 6)[:, None] + 0.03 * generator.normal(size=(n, 6, 1))
        X, y = FieldSet(X, None), 2 * X
    else:
        X = generator.random((n, 5, 5, 1))
        y = X.cumsum(axis=1)
    return X, y + 0.1 * generator.normal(size=y.shape), generator.integers(0, 4, n)


def test_a_weight_is_a_number_of_copies_of_a_sample(subtests):
    for form in ["line", "parameters", "points", "fields"]:
        with subtests.test(form):
            X, y, weight = weighted_samples(form)
            copies = np.random.default_rng(1).permutation(np.repeat(np.arange(24), weight))
            suited = {"line": ["akima"], "parameters": ["polynomial"]}.get(form, [])
            for regressor in ("auto", "mean", "ridge", "rbf", Ridge(alpha=0.1), *suited):
                models = [
                    PODRegressor(regressor=regressor).fit(*given)
                    for given in (
                        (X, y, weight),
                        (X[copies], y[copies]),
                        (X, y, 3.7 * weight),
                        (X[weight > 0], y[weight > 0]),
                    )
                ]
                same, plain = models[:3], models[3].predict(X)
                weighted, repeated, scaled = (model.predict(X) for model in same)
                np.testing.assert_allclose(repeated, weighted, rtol=1e-7, atol=1e-8)
                np.testing.assert_allclose(scaled, weighted, rtol=1e-7, atol=1e-8)
                if regressor not in ("rbf", "akima"):  # these may go through all samples
                    assert np.abs(plain - weighted).max() > 1e-4
                if isinstance(regressor, str):
                    errors = [model.leave_one_out_error_ for model in same]
                    # Where the choice is repeated, searches for length scales amplify rounding.
                    np.testing.assert_allclose(errors, errors[0], rtol=1e-4)


@pytest.mark.parametrize("form", ["parameters", "fields"])
def test_a_sample_of_hardly_any_weight_is_left_out(form):
    X, y, weight = weighted_samples(form)
    X, y, weight = X.copy(), y.copy(), weight + 1.0
    X[:3], y[:3], weight[:3] = 0.5 + X[:3], -9 * y[:3], [1e-20, 1e-30, 1e-300]
    for regressor in ("mean", "ridge", "rbf"):
        model = PODRegressor(regressor=regressor, n_components=0.99, param_transform=None)
        found, expected = model.fit(X, y, weight).predict(X), model.fit(X[3:], y[3:], weight[3:]).predict(X)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_leave_one_out_predictions_with_weights_are_those_of_refits():
    X, y, weight = weighted_samples("parameters")
    y, weight = y[..., 1:], weight + 0.5
    model = PODRegressor(regressor="gaussian_process", n_components=24).fit(X, FieldSet(unit_grid((3,)), y), weight)
    left_out = model._leave_one_out(model._read(X, FieldSet(unit_grid((3,)), y)), weight).fields
    (kernel,), penalties = model.models_[0].regressor.kernels, model.models_[0].regressor.penalties
    basis, points, relative = model.models_[0].basis, model.models_[0].scaled(X), weight / weight.mean()
    for sample in (0, 11, 23):
        others = np.arange(24) != sample
        system = System(kernel, points[others], weight=relative[others])
        refit = KernelModel.fit(basis.transform(y[..., 0])[others], system, penalties)
        found = basis.inverse_transform(refit.predict(points[[sample]]))[0]
        np.testing.assert_allclose(left_out[sample, :, 0], found, rtol=1e-5)
    error = 1 - relative_l2_score(y, left_out, sample_weight=weight)
    # Penalties of single components can make this error smaller, but not what is told of it.
    assert (1 - 1e-7) * kernel.handicap * error <= model.leave_one_out_error_ < 1.5 * kernel.handicap * error


def test_a_search_for_length_scales_is_not_left_at_a_rough_kernel():
    """From the isotropic kernel of the least error alone, the second set had 0.035."""
    for seed in range(4):
        rng = np.random.default_rng([seed, 40])
        X, new = rng.random((40, 2)), rng.random((500, 2))
        found, true = PODRegressor().fit(X, branin(X)).predict(new), branin(new)
        assert np.linalg.norm(found - true) < 0.01 * np.linalg.norm(true - true.mean())


def branin(places):
    """Branin's function of the unit square: smooth, and quadratic in its second parameter."""
    x, y = 15 * places[:, 0] - 5, 15 * places[:, 1]
    return (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


def test_weights_for_a_regressor_that_takes_none_are_refused_by_its_name():
    X, y, weight = weighted_samples("line")
    model = PODRegressor(regressor=KNeighborsRegressor())
    with pytest.raises(FieldDataError, match="the fit of KNeighborsRegressor takes none"):
        model.fit(X, y, weight)
    # Equal weights change nothing.
    np.testing.assert_array_equal(model.fit(X, y, np.full(24, 7.0)).predict(X), model.fit(X, y).predict(X))


@pytest.mark.parametrize("y", [np.array([5.73]), np.ones((1, 4, 4, 1))])
def test_one_sample_is_predicted_without_a_word_of_numpy(y):
    X = np.ones((1, 4, 4, 1)) if y.ndim > 1 else np.ones((1, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = PODRegressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), y)


def test_leave_one_out_of_the_mean_and_of_a_regressor_of_scikit_learn():
    X, y = make_data()
    mean = PODRegressor(regressor="mean").fit(X, y)
    others = (y.sum(axis=0) - y) / 19
    np.testing.assert_allclose(mean._leave_one_out(mean._read(X, y)).fields.reshape(y.shape), others, rtol=1e-10)
    model = PODRegressor(regressor=LinearRegression()).fit(X, y)
    left_out = model._leave_one_out(model._read(X, y)).fields.reshape(y.shape)
    assert np.abs(left_out - y).mean() > 2 * np.abs(model.predict(X) - y).mean()


@pytest.mark.parametrize("n_channels", [1, 2])
def test_the_leave_one_out_error_counts_what_few_components_leave_out(n_channels):
    X = RANDOM.normal(size=(25, 3))  # so many that the choice is not repeated
    fields = np.stack([np.sin(X @ RANDOM.normal(size=(3, 8))), 9 * np.cos(X @ RANDOM.normal(size=(3, 8)))], axis=-1)
    fields = fields[..., :n_channels]
    # Without length scales, whose search would add a factor.
    model = PODRegressor(regressor="rbf", n_components=2).fit(X, FieldSet(unit_grid((8,)), fields))
    found = model._leave_one_out(model._read(X, FieldSet(unit_grid((8,)), fields))).fields
    error = 1 - relative_l2_score(fields, found, units=channel_sizes(fields))
    # Deviations of two channels, in other units than those of the components, are not orthogonal to these.
    assert model.leave_one_out_error_ == pytest.approx(error, rel=1e-8 if n_channels == 1 else 0.05)


def test_the_order_of_samples_does_not_matter():
    X = RANDOM.uniform(-1, 1, (30, 2))
    y = np.sin(2 * X @ RANDOM.normal(size=(2, 6)))[..., None]
    order = RANDOM.permutation(30)
    one, other = PODRegressor().fit(X, y), PODRegressor().fit(X[order], y[order])
    new = RANDOM.uniform(-1, 1, (5, 2))
    np.testing.assert_allclose(one.predict(new), other.predict(new), rtol=1e-6, atol=1e-8)


def test_the_best_of_the_models_is_taken():
    X = np.linspace(0, 1, 24)[:, None]
    y = np.sin(9 * X + unit_grid((8,))[:, 0])[..., None]
    model = PODRegressor().fit(X[::2], y[::2])
    # Over one parameter, the likeliest of those with nearly this error.
    assert model.leave_one_out_error_ < 2 * min(model.leave_one_out_errors_.values())
    assert set(model.leave_one_out_errors_) >= {"mean", "ridge", "polynomial", "rbf", "gaussian_process"}
    assert model.score(X[1:-1], y[1:-1]) > 0.999
    noise = np.random.default_rng(1).normal(size=(40, 6, 1))
    assert PODRegressor().fit(np.arange(40.0)[:, None], noise).leave_one_out_error_ < 1.1


def test_few_samples_of_noise_over_one_parameter_are_seldom_a_curve():
    """Predictions of sets of ten samples vary more than the noise in one of twenty; the best of all models does in a
    quarter. A curve is still found."""
    wrong = 0
    for seed in range(40):
        generator = np.random.default_rng([seed, 10, 5])
        X, y = generator.uniform(0, 1, (10, 1)), generator.normal(size=10)
        found = (
            PODRegressor(param_transform=None, target_transform=None).fit(X, y).predict(np.linspace(0, 1, 99)[:, None])
        )
        wrong += np.sqrt((found**2).mean()) > 1.1
    assert wrong <= 4
    for curve in (np.sin, np.abs, np.exp):
        x = np.linspace(-2, 2, 10)[:, None]
        new = 0.5 * (x[1:] + x[:-1])
        errors = PODRegressor().fit(x, curve(x[:, 0])).predict(new) - curve(new[:, 0])
        assert np.abs(errors).max() < 0.12


@pytest.mark.parametrize(("n_samples", "curve", "noise"), [(8, np.sin, 0.1), (8, np.positive, 0.5), (20, np.sin, 0.1)])
def test_no_curve_of_one_noisy_parameter_is_far_off_between_the_samples(n_samples, curve, noise):
    """The least of 1,300 leave-one-out errors can be that of a polynomial through noise, far larger than this."""
    for seed in range(1000, 1016):
        rng = np.random.default_rng(seed)
        x = rng.random(n_samples) if seed % 2 else (np.arange(n_samples) + rng.random(n_samples)) / n_samples
        y, new = curve(6 * x) + noise * rng.normal(size=n_samples), np.linspace(x.min(), x.max(), 200)
        model = PODRegressor(param_transform=None, target_transform=None).fit(x[:, None], y)
        errors = model.predict(new[:, None]) - curve(6 * new)
        assert np.sqrt(np.mean(errors**2)) < 3 * noise


@pytest.mark.filterwarnings("ignore:X is outside")
@pytest.mark.parametrize("n_samples", [4, 5, 6, 7])
def test_of_exact_models_the_one_that_goes_on_beyond_the_samples_is_taken(n_samples):
    x, new = np.linspace(1, 2, n_samples)[:, None], np.array([[0.7], [1.45], [3.0]])
    for law in (lambda x: 2 * x[:, 0] + 1, lambda x: 1e6 - x[:, 0], lambda x: x[:, 0] ** 1.5):
        np.testing.assert_allclose(PODRegressor().fit(x, law(x)).predict(new), law(new), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:X is outside")
def test_few_samples_of_noise_over_several_parameters_are_mostly_their_mean():
    """The least of many leave-one-out errors is that of a model with 1.3 times the error of the mean."""
    ratios = []
    for seed in range(6):
        rng = np.random.default_rng([seed, 77])
        X, new = rng.random((12, 3)), rng.random((300, 3))
        y, true = np.exp(0.3 * rng.normal(size=12)), np.exp(0.3 * rng.normal(size=300))
        model = PODRegressor().fit(X, y)
        ratios.append(np.linalg.norm(model.predict(new) - true) / np.linalg.norm(y.mean() - true))
        if ratios[-1] == pytest.approx(1, abs=1e-6):
            assert model.leave_one_out_error_ == pytest.approx(model.leave_one_out_errors_["mean"], rel=1e-4)
    assert np.exp(np.mean(np.log(ratios))) < 1.15
    assert np.median(ratios) < 1.001


@pytest.mark.filterwarnings("ignore:X is outside")
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize(
    "law", [lambda x: x[:, 0] * x[:, 1], lambda x: ((x - 0.5) ** 2).sum(axis=1), lambda x: (x[:, 0] / x[:, 1]) ** 2]
)
def test_few_samples_of_a_law_are_no_noise(law, noise):
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        X, new = 0.1 + rng.random((12, 2)), 0.1 + rng.random((300, 2))
        true = law(new)
        model = PODRegressor().fit(X, law(X) * np.exp(noise * rng.normal(size=12)))
        assert np.linalg.norm(model.predict(new) - true) < (0.5 if noise else 0.1) * np.linalg.norm(true - true.mean())


def test_a_process_that_finds_nothing_is_told():
    noise = np.random.default_rng(3).normal(size=(12, 4, 1))
    inputs = np.random.default_rng(4).normal(size=(12, 3))
    errors = PODRegressor().fit(inputs, noise).leave_one_out_errors_
    if errors["gaussian_process"] > 0.999 * errors["mean"]:
        with pytest.warns(SkopWarning, match="no better than the mean"):
            PODRegressor(regressor="gaussian_process").fit(inputs, noise)


def test_predictions_are_differentiable_with_respect_to_parameters():
    X = RANDOM.uniform(1, 3, (20, 2)) * [1.0, 1e3]
    y = np.stack([np.sin(X[:, :1] * unit_grid((5,))[:, 0]), X[:, 1:] * unit_grid((5,))[:, 0]], axis=-1)
    model = PODRegressor().fit(X, FieldSet(unit_grid((5,)), y))
    given = torch.tensor(X[:3], requires_grad=True)
    found = model._predict_tensor(given)
    # The weights of a process that interpolates are large, of both signs, and raise rounding errors.
    np.testing.assert_allclose(found.detach(), model.predict(X[:3]).values.reshape(3, -1), rtol=1e-5)
    (slope,) = torch.autograd.grad(found[:, 4].sum(), given)
    step = np.array([1e-3, 0.0])
    moved = [model.predict(X[:3] + sign * step).values.reshape(3, -1)[:, 4] for sign in (1, -1)]
    np.testing.assert_allclose(slope[:, 0], (moved[0] - moved[1]) / 2e-3, rtol=1e-5, atol=1e-6)


def test_the_spread_is_calibrated_on_draws_of_a_process():
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 1, (140, 2))
    distance = ((X[:, None] - X) ** 2).sum(axis=-1)
    draws = np.linalg.cholesky(np.exp(-0.5 * distance / 0.3**2) + 1e-3 * np.eye(140)) @ generator.normal(size=(140, 30))
    y = FieldSet(generator.random((30, 1)), draws[..., None])
    model = PODRegressor(regressor="gaussian_process").fit(X[:70], y[:70])
    mean, spread = model.predict(X[70:], return_std=True)
    standard = (mean.values - y[70:].values) / spread.values
    assert 0.8 < np.sqrt((standard**2).mean()) < 1.25
    # It is larger where samples are far.
    far = model.predict([[3.0, 3.0]], return_std=True)[1].values.mean()
    assert far > 2 * spread.values.mean()


def test_the_spread_of_a_design_with_repeated_runs_is_that_of_the_errors():
    """Repeated runs in the centre show the noise, which a kernel that goes through all samples does not know."""
    corners = np.array(np.meshgrid([-1.0, 1.0], [-1.0, 1.0])).reshape(2, -1).T
    design = np.concatenate([corners, np.sqrt(2) * np.eye(2), -np.sqrt(2) * np.eye(2), np.zeros((5, 2))])
    for seed in range(12):
        rng = np.random.default_rng(seed)
        slopes, curvatures = rng.normal(size=2), rng.normal(size=(2, 2))
        rows = np.concatenate([design, rng.uniform(-1, 1, (200, 2))])
        y = rows @ slopes + 0.5 * ((rows @ curvatures) * rows).sum(axis=1) + 0.3 * np.sin(rows.sum(axis=1))
        y += 0.1 * rng.normal(size=len(rows))
        mean, spread = PODRegressor().fit(design, y[: len(design)]).predict(rows[len(design) :], return_std=True)
        error = np.sqrt(np.mean((mean - y[len(design) :]) ** 2))
        assert 0.2 < np.median(spread) / error < 5


def test_the_spread_of_one_kernel_has_the_size_of_the_left_out_residuals_at_every_point():
    X, y = make_data()
    model = PODRegressor(regressor="mean").fit(X, y)
    mean, spread = model.predict(X, return_std=True)
    np.testing.assert_allclose(spread[0], y.std(axis=0) * np.sqrt(21 / 19), rtol=1e-8)
    assert mean.shape == spread.shape == y.shape


def test_the_spread_holds_what_the_components_leave_out():
    generator = np.random.default_rng(0)
    X, noise = generator.uniform(-1, 1, (20, 1)), generator.normal(size=20)
    seen = np.column_stack([np.ones(20), X])
    noise -= seen @ np.linalg.lstsq(seen, noise)[0]
    y = X * [1.0, 2.0, 0.0, 0.0] + 0.1 * noise[:, np.newaxis] * [0.0, 0.0, 1.0, -2.0]
    model = PODRegressor(regressor="ridge", n_components=1).fit(X, (np.arange(4.0)[:, np.newaxis], y[..., np.newaxis]))
    _, (_, spread) = model.predict(X, return_std=True)
    np.testing.assert_allclose(
        spread[:, 2:, 0] / noise.std(), np.tile([0.1, 0.2], (20, 1)) * np.sqrt(21 / 19), rtol=1e-3
    )


def test_the_spread_at_other_points_lies_between_those_of_the_points():
    X = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    points = np.linspace(0, 1, 6)[:, None]
    y = FieldSet(points, np.sin(X[:, :1] + 3 * points[:, 0])[..., None])
    model = PODRegressor().fit(X, y)
    mean, spread = model.predict(X[:4], return_std=True)
    found = model.predict(X[:4], points[:-1] + 0.1, return_std=True)
    np.testing.assert_array_equal(found[0].values, model.predict(X[:4], points[:-1] + 0.1).values)
    lower, upper = (extreme(spread.values[:, :-1], spread.values[:, 1:]) for extreme in (np.minimum, np.maximum))
    assert (found[1].values >= 0.8 * lower).all()
    assert (found[1].values <= 1.25 * upper).all()
    assert mean.values.shape == (4, 6, 1)


def test_a_spread_of_a_regressor_of_scikit_learn_is_refused():
    X, y = make_data()
    with pytest.raises(FieldDataError, match="LinearRegression"):
        PODRegressor(regressor=LinearRegression()).fit(X, y).predict(X, return_std=True)


@pytest.mark.parametrize("n_copies", [1, 3])
@pytest.mark.parametrize("y", [np.array([5.73]), np.ones((1, 4, 4, 1))])
def test_copies_of_one_sample_tell_no_error(y, n_copies):
    X = np.repeat([[0.2, 0.5]], n_copies, axis=0)
    model = PODRegressor().fit(X, np.repeat(y, n_copies, axis=0))
    assert model.leave_one_out_error_ == model.leave_one_out_errors_["mean"] == np.inf
    with pytest.raises(FieldDataError, match="one sample, or copies of one"):
        model.predict([[0.3, 0.4]], return_std=True)
    candidates = [[0.2, 0.5], [0.9, 0.9], [0.3, 0.5]]
    assert suggest(model, candidates, 1)[0] == 1
    # Equal targets of samples that differ are an error of zero.
    model = PODRegressor().fit(X + np.eye(n_copies, 2) * 0.1, np.repeat(y, n_copies, axis=0))
    if n_copies > 1:
        np.testing.assert_array_equal(model.predict([[0.3, 0.4]], return_std=True)[1], 0.0)


def waves_on_own_points(offsets, angle=0.0):
    """Fields on a moved, bent and turned grid: a wave of the offset at places of the reference."""
    places = unit_grid((9, 7)).reshape(-1, 2)
    bent = np.stack([places + o * np.sin(3 * places[:, ::-1]) for o in offsets])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    values = np.stack([np.sin(5 * places[:, 0] + 4 * o) for o in offsets])[..., np.newaxis]
    return bent @ turn + np.asarray(offsets)[:, np.newaxis, np.newaxis], values


def test_the_same_points_in_another_order_are_refused():
    coords, values = waves_on_own_points(np.zeros(8))
    values = values * np.arange(1, 9)[:, None, None]
    params = np.arange(1.0, 9.0)[:, None]
    for order in (np.random.default_rng(0).permutation(63), np.arange(63)[::-1]):
        mixed = coords.copy()
        mixed[5] = mixed[5, order]
        with pytest.raises(FieldDataError, match="index 5 has the same points as the first"):
            PODRegressor().fit(FieldSet(mixed, params=params), values)
        # A swap of two nodes is enough.
        swapped = coords.copy()
        swapped[5, [3, 30]] = swapped[5, [30, 3]]
        with pytest.raises(FieldDataError, match="in another order"):
            PODRegressor().fit(FieldSet(swapped, params=params), values)


def test_own_points_in_another_order_are_told():
    offsets = np.linspace(0, 0.3, 12)
    coords, values = waves_on_own_points(offsets, angle=0.5)
    order = np.random.default_rng(1).permutation(63)
    X, renumbered = (FieldSet(c, params=offsets[:, None]) for c in (coords, coords[:, order]))
    # Deformed and moved meshes correspond.
    model = PODRegressor().fit(X[1:], values[1:])
    assert relative_l2_score(values, model.predict(X)) > 0.99
    with pytest.raises(FieldDataError, match="index 0 are numbered in another order than those of the fit"):
        model.predict(renumbered[3:5])
    # Where all samples have the same points, nothing is known of others.
    same = FieldSet(np.stack([coords[0]] * 12), params=offsets[:, None])
    model = PODRegressor().fit(same, values)
    np.testing.assert_array_equal(model.predict(same[3:5]), model.predict(same)[3:5])
    with pytest.raises(FieldDataError, match="index 1 has other points than those that all samples of the fit share"):
        model.predict(FieldSet(np.stack([coords[0], coords[5]]), params=offsets[:2, None]))
    mixed = coords.copy()
    mixed[7] = mixed[7, order]
    with pytest.warns(SkopWarning, match="1 of 12 samples, such as that of index 7, are numbered"):
        PODRegressor(grid=None).fit(FieldSet(mixed, params=offsets[:, None]), values)
    with pytest.warns(SkopWarning, match="index 7, .* interpolated to a common grid; number the points alike"):
        assert PODRegressor().fit(FieldSet(mixed, params=offsets[:, None]), values).resampling_error_ > 0


def test_meshes_with_another_number_of_nodes_are_refused_in_words():
    coords, values = waves_on_own_points(np.zeros(8))
    values = values * np.arange(1, 9)[:, None, None]
    params = np.arange(1.0, 9.0)[:, None]
    for moved in (coords, coords + 0.1 * params[..., None] * coords**2):
        model = PODRegressor().fit(FieldSet(moved, params=params), values)
        finer = FieldSet(np.repeat(moved, 2, axis=1), params=params)
        for asked in (finer, finer[:1]):
            with pytest.raises(FieldDataError, match="126 points in 2 dimensions, and the fit had 63"):
                model.predict(asked)
    assert model.predict(FieldSet(moved, params=params), finer.coords).shape == (8, 126, 1)


@pytest.mark.parametrize("size", [1e-6, 1e-3])
def test_noise_of_nodes_is_no_input_beside_parameters(size):
    rng, places = np.random.default_rng(0), unit_grid((6, 5)).reshape(-1, 2)
    params = rng.uniform(1, 2, (44, 2))
    values = (params[:, :1] * np.exp(-params[:, 1:] * places[:, 0]))[..., None]
    noisy = FieldSet(places + size * rng.normal(size=(44, 30, 2)), params=params)
    shared = PODRegressor().fit(params[:24], values[:24])
    model = PODRegressor().fit(noisy[:24], values[:24])
    assert not model.reads_points_
    assert model.leave_one_out_error_ < 1.01 * shared.leave_one_out_error_
    error = relative_l2_error(values[24:], model.predict(noisy[24:]))
    assert error < 1.01 * relative_l2_error(values[24:], shared.predict(params[24:]).reshape(20, 30, 1))


def test_a_stretch_of_the_mesh_that_no_parameter_tells_is_read():
    rng, places = np.random.default_rng(0), unit_grid((6, 5)).reshape(-1, 2)
    params, stretch = rng.uniform(1, 2, (44, 1)), rng.uniform(0.5, 1.5, (44, 1))
    coords = places * np.stack([stretch, np.ones_like(stretch)], axis=-1)
    values = params[..., None] * np.exp(-coords[..., :1])
    model = PODRegressor().fit(FieldSet(coords[:24], params=params[:24]), values[:24])
    assert relative_l2_error(values[24:], model.predict(FieldSet(coords[24:], params=params[24:]))) < 0.01


def test_a_mesh_that_is_read_is_predicted_alone_as_beside_others():
    """A sample alone, and copies of one, share their points, which are inputs all the same."""
    rng = np.random.default_rng(0)
    places = rng.random((30, 2))
    load, stretch = rng.uniform(1, 2, (26, 1, 1)), rng.uniform(0.5, 1.5, (26, 1))
    coords = places * np.stack([stretch, np.ones_like(stretch)], axis=-1)
    fields, values = load * np.ones((26, 30, 1)), load * np.exp(-coords[..., :1])
    model = PODRegressor().fit(FieldSet(coords[:24], fields[:24]), values[:24])
    together = model.predict(FieldSet(coords[24:], fields[24:]))
    for rows in ([24], [25, 25]):
        alone = FieldSet(coords[rows[0]], fields[rows])
        assert alone.shared_coords
        np.testing.assert_allclose(model.predict(alone), together[np.subtract(rows, 24)], rtol=1e-6)


def rings(n_samples, seed, numbered=lambda nodes: nodes, angle=0.0):
    """Holes of random radius in a disc, turned by up to an angle: parameters, nodes of O-grids, and fields on them."""
    rng = np.random.default_rng(seed)
    params = rng.uniform([0.2, 1.0, -1.0], [0.4, 2.0, 1.0], (n_samples, 3))
    angles, samples = np.arange(24) * np.pi / 12, []
    for radius, scale, turn in params:
        radii = radius + (1 - radius) * np.linspace(0, 1, 8)[:, None]
        places = [radii * np.cos(angles + angle * turn), 0.8 * radii * np.sin(angles + angle * turn)]
        samples.append(numbered(np.stack([*places, scale * (2 + (radius / radii) ** 2 * np.cos(angles))], axis=-1)))
    samples = np.reshape(samples, (n_samples, 192, 3))
    return params, samples[..., :2], samples[..., 2:]


RENUMBERED = {
    **{f"turned by {turn} of 24": lambda nodes, turn=turn: np.roll(nodes, turn, axis=1) for turn in (2, 6, 12)},
    "mirrored": lambda nodes: nodes[:, ::-1],
    "inside out": lambda nodes: nodes[::-1],
}


@pytest.mark.parametrize("has_fields", [False, True])
def test_turned_and_mirrored_numberings_are_refused(has_fields, tmp_path, subtests):
    def read(params, coords):
        return FieldSet(coords, np.sin(coords[..., :1]) * params[:, None, 1:2] if has_fields else None, params=params)

    params, coords, values = rings(30, 0)
    PODRegressor().fit(read(params, coords), values).save(tmp_path / "model.skop")
    model = load(tmp_path / "model.skop")
    params, coords, values = rings(5, 1)
    assert relative_l2_score(values, model.predict(read(params, coords))) > 0.999
    for name, numbered in RENUMBERED.items():
        params, coords, _ = rings(5, 1, numbered)
        with subtests.test(name), pytest.raises(FieldDataError, match="index 0 are numbered in another order"):
            model.predict(read(params, 5 + 3 * coords))
    # Where the numbering turns from sample to sample of the fit, no direction is wrong.
    params, coords, values = rings(30, 2, angle=np.pi)
    model = PODRegressor().fit(read(params, coords), values)
    params, coords, _ = rings(5, 3, RENUMBERED["turned by 6 of 24"], angle=np.pi)
    model.predict(read(params, coords))


def squares(n_samples, seed, part):
    """Nodes of a square that is sheared, stretched, bent and turned by random amounts up to a part."""
    rng, places = np.random.default_rng(seed), unit_grid((20, 20))
    samples = []
    for shear, stretch, bend, turn in part * rng.uniform(-1, 1, (n_samples, 4)):
        first = places[:, :1] * (1 + 0.6 * stretch) + 0.6 * shear * places[:, 1:]
        nodes = np.hstack([first, places[:, 1:] + 0.3 * bend * np.sin(3 * first)])
        samples.append(nodes @ [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return np.array(samples)


FAMILIES = {
    "holes": lambda n, seed, part: make_moving_hole(n, random_state=seed, max_offset=0.5 * part)[1].coords,
    "airfoils": lambda n, seed, part: (
        make_joukowski(n, geometry="varied", n_points=(64, 6), random_state=seed)[1].coords
    ),
    "surfaces": lambda n, seed, part: (
        make_joukowski(n, geometry="varied", n_points=(64, 1), random_state=seed)[1].coords
    ),
    "turned bodies": lambda n, seed, part: rings(n, seed, angle=0.5 * part)[1],
    "squares": squares,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_samples", [10, 40])
def test_shapes_of_a_kind_are_numbered_alike(family, n_samples):
    """Also a fifth beyond the range of the fit, where a family has a range."""
    for seed in range(3):
        fitted = Numbering.from_fit(np.asarray(FAMILIES[family](n_samples, seed, 1.0)))
        assert fitted.shapes is not None
        fitted.check(np.asarray(FAMILIES[family](20, seed + 10, 1.2)))


@pytest.mark.parametrize("seed", [0, 1])
def test_length_scales_of_many_modes_do_not_deceive_about_the_error(seed):
    # A linear map of rough functions: the last modes of the training samples are smaller in these than in others.
    X, y = make_antiderivative(120, n_sensors=50, length_scale=0.03, random_state=seed)
    model, ridge = (PODRegressor(regressor=name).fit(X[:60], y[:60]) for name in ("auto", "ridge"))
    error, reference = (1 - found.score(X[60:], y[60:]) for found in (model, ridge))
    assert error < 1.05 * reference
    assert 0.5 * error < model.leave_one_out_error_ < 2 * error


def test_between_snapshots_of_a_flow_the_error_is_small():
    X, y = make_wake(48, random_state=0)
    times = X[0] + (X[-1] - X[0]) * np.linspace(0.05, 0.95, 30)[:, None]
    truth = make_wake(times=times[:, 0], random_state=0)[1]
    assert relative_l2_error(truth.values, PODRegressor().fit(X, y).predict(times).values) < 0.002


PLACES = np.linspace(0, 1, 40)
CURVES = {
    "front": lambda p: np.tanh((PLACES - p) / 0.03),
    "sudden start": lambda p: np.where(p < 0.1, p / 0.1, 1 + 0.3 * np.exp(-(p - 0.1) / 0.05)) * np.sin(3 * PLACES),
    "kink": lambda p: np.abs(p - 0.4 - 0.1 * PLACES),
    "jump": lambda p: (p > 0.5) * np.sin(5 * PLACES) + 0.2 * p,
    "oscillation": lambda p: np.sin(20 * p + 3 * PLACES),
}


def test_over_one_parameter_it_is_near_the_best_interpolation(subtests):
    for kind in CURVES:
        for n_samples in [16, 48]:
            with subtests.test(kind=kind, n_samples=n_samples):
                params, new = np.linspace(0, 1, n_samples)[:, None], np.linspace(0.01, 0.99, 150)[:, None]
                y, truth = (CURVES[kind](rows) for rows in (params, new))
                by_hand = [
                    interpolation(params[:, 0], y)(new[:, 0]) for interpolation in (make_interp_spline, CubicSpline)
                ]
                by_hand.append(make_interp_spline(params[:, 0], y, k=1)(new[:, 0]))
                found = PODRegressor().fit(params, FieldSet(PLACES[:, None], y[..., None])).predict(new).values[..., 0]
                errors = [relative_l2_error(truth[..., None], part[..., None]) for part in (found, *by_hand)]
                assert errors[0] < 1.5 * min(errors[1:])


def akima(params, values):
    """A model by Akima's interpolation."""
    return PODRegressor(regressor="akima").fit(params, FieldSet(PLACES[:, None], values[..., None]))


@pytest.mark.parametrize("sizes", [(20, 4), (12, 5), (4, 4, 4)])
def test_between_the_values_of_a_factorial_design_it_is_better_than_multilinear_interpolation(sizes):
    """A sample that is left out has neighbours with the same value, whose errors say nothing of new values."""
    x, axes = np.linspace(0, 1, 40), [np.linspace(0.1, 1, size) for size in sizes]
    X = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    new = np.random.default_rng(0).uniform(0.1, 1, (200, len(sizes)))
    waves = {
        "a wave": lambda a, b: np.sin(3 * x - 2 * a * b),
        "decay": lambda a, b: np.exp(-3 * a * b) * np.sin(np.pi * x),
        "a bump": lambda a, b: np.exp(-(((x - 0.2 - 0.5 * a * b) / 0.2) ** 2)),
    }
    for name, wave in waves.items():
        (y, true), last = (wave(part[..., :1], part[..., 1:2]) for part in (X, new)), len(sizes) - 1
        model = PODRegressor().fit(X.reshape(-1, last + 1), y.reshape(-1, len(x), 1))
        errors = [relative_l2_error(true, part) for part in (model.predict(new)[..., 0], interpn(axes, y, new))]
        assert errors[0] < errors[1], name


@pytest.mark.parametrize("sizes", [(3, 4, 2), (2, 2, 3), (3, 3, 2)])
def test_between_few_values_of_a_factorial_design_errors_are_of_the_size_of_the_variation(sizes):
    """Nothing tells of values between two or three, but predictions beyond all that was seen are wrong."""
    axes, generator = [np.linspace(-1, 1, size) for size in sizes], np.random.default_rng(0)
    X = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sizes))
    new = generator.uniform(-1, 1, (400, len(sizes)))
    for slopes in generator.normal(size=(8, len(sizes))):

        def curve(points, slopes=slopes):
            return np.exp(0.3 * points @ slopes) * (1 + 0.3 * points[:, 1] ** 2) + 0.5 * points[:, 2] * points[:, 0]

        true, found = curve(new), PODRegressor().fit(X, curve(X)).predict(new)
        assert np.sqrt(np.mean((found - true) ** 2)) < 2 * np.std(true)


def test_runs_with_a_difference_that_no_column_shows_are_named():
    """The leave-one-out error is that of new times of these runs; without whole runs it is that of new ones."""
    generator, times = np.random.default_rng(50), np.linspace(0, 1, 8)
    own, hidden = generator.random((10, 1)), generator.normal(size=(10, 1))
    X = np.stack([np.repeat(own, 8, axis=1), np.broadcast_to(times, (10, 8))], axis=-1).reshape(-1, 2)
    plain = 2 + np.sin(3 * own) * times
    model = PODRegressor()
    with pytest.warns(SkopWarning, match="samples share 10 values of parameter 0, and tell little of others") as record:
        model.fit(X, np.ravel(plain + 0.02 * hidden * times))
    told = float(re.search(r"error is about (\S+), where", str(record[0].message)).group(1))
    groups = PODRegressor().fit(X, np.ravel(plain + 0.02 * hidden * times), groups=X[:, 0])
    assert 0.3 * groups.leave_one_out_error_ < told < 5 * groups.leave_one_out_error_
    assert model.leave_one_out_error_ < 0.01 * told
    # No such run, as for a smooth function; groups, which have this error; and numbers that may be those of categories.
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkopWarning)
        model.fit(X, np.ravel(plain))
        model.fit(X, np.ravel(plain + 0.02 * hidden * times), groups=X[:, 0])
        model.fit(np.stack([X[:, 0].argsort().argsort() // 8, X[:, 1]], axis=1), np.ravel(plain + hidden * times))


def test_three_values_of_a_parameter_tell_nothing_of_a_curve_between_them():
    """A face-centred design has three values of each parameter, which hold every curve through them."""
    corners = np.array(np.meshgrid([-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0])).reshape(3, -1).T
    X = np.concatenate([corners, np.eye(3), -np.eye(3), np.zeros((1, 3))])
    y = 2 + np.exp(X[:, 0]) * (1 + 0.5 * X[:, 1]) + 0.2 * X[:, 2]
    words = "three values of parameter 0, between which predictions are curved"
    with pytest.warns(SkopWarning, match=words):
        model = PODRegressor().fit(X, y)
    new = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    error = model.predict(new)
    error -= 2 + np.exp(new[:, 0]) * (1 + 0.5 * new[:, 1]) + 0.2 * new[:, 2]
    assert np.linalg.norm(error) > 100 * model.leave_one_out_error_ * np.linalg.norm(y) * (200 / 15) ** 0.5
    # Of several outputs, too, each of which has a model of its own.
    with pytest.warns(SkopWarning, match=words):
        PODRegressor().fit(X, np.stack([X.sum(axis=1), y], axis=1))
    materials = np.random.default_rng(1).random((30, 2)) * [1.0, 0.0] + np.arange(30)[:, np.newaxis] % 3 * [0.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkopWarning)
        PODRegressor().fit(X, 2 + X[:, 0] * (1 + 0.5 * X[:, 1]))  # straight lines
        PODRegressor().fit(materials, np.exp(materials[:, 0]) * np.array([1.0, 4.0, 2.0])[np.arange(30) % 3])


def test_interpolation_between_neighbours_meets_samples_and_lines_on_any_axes_of_the_values():
    generator = np.random.default_rng(0)
    params, new = generator.permutation(np.linspace(0, 2, 24) ** 2)[:, None], generator.uniform(0, 4, (60, 1))
    fields = np.abs(params - 1.3 - 0.4 * PLACES)
    model = akima(params, fields)
    np.testing.assert_allclose(model.predict(params).values[..., 0], fields, atol=1e-12)
    beyond = np.array([[0.11], [3.7], [4.5]])
    lines = akima(params, params * np.sin(PLACES) + PLACES).predict(beyond).values[..., 0]
    np.testing.assert_allclose(lines, beyond * np.sin(PLACES) + PLACES, atol=1e-10)
    order, turn = np.argsort(params[:, 0]), np.linalg.qr(generator.normal(size=(40, 40)))[0]
    turned = akima(params[order], fields[order] @ turn).predict(new).values[..., 0]
    np.testing.assert_allclose(turned, model.predict(new).values[..., 0] @ turn, atol=1e-10)


def test_interpolation_between_neighbours_is_of_second_order_beside_a_kink():
    new, errors = np.linspace(0.6, 0.9, 101)[:, None], []
    curve = lambda p: np.maximum(0.4 - p, 0) + np.sin(3 * p + PLACES)  # noqa: E731
    for n_samples in (20, 40, 80, 160):
        params = np.linspace(0, 1, n_samples)[:, None]
        errors.append(np.abs(akima(params, curve(params)).predict(new).values[..., 0] - curve(new)).max())
    assert (np.array(errors[:-1]) / errors[1:] > 4).all()


def test_interpolation_between_neighbours_has_gradients_spreads_and_files(tmp_path):
    params = np.random.default_rng(0).uniform(1, 3, (24, 1))
    model, new = akima(params, np.abs(params - 2 - 0.1 * PLACES)), np.array([[1.3], [2.05], [2.6]])
    given = torch.tensor(new, requires_grad=True)
    found = model._predict_tensor(given)
    np.testing.assert_allclose(found.detach(), model.predict(new).values[..., 0], atol=1e-12)
    (slope,) = torch.autograd.grad(found[:, 7].sum(), given)
    moved = [model.predict(new + sign * 1e-6).values[:, 7, 0] for sign in (1, -1)]
    np.testing.assert_allclose(slope[:, 0], (moved[0] - moved[1]) / 2e-6, rtol=1e-5, atol=1e-7)
    middles = np.sort(params, axis=0)[1:] - np.diff(np.sort(params, axis=0), axis=0) / 2
    at, between = (model.predict(rows, return_std=True)[1].values for rows in (params, middles))
    assert at.max() < 1e-6 * between.min()
    model.save(tmp_path / "model.skop")
    loaded = load(tmp_path / "model.skop")
    for value, expected in zip(
        loaded.predict(middles, return_std=True), model.predict(middles, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(value.values, expected.values)
    # Samples in another order are no knots.
    model.models_[0].regressor.inducing[0] = np.arange(24)
    model.save(tmp_path / "changed.skop")
    with pytest.raises(ModelFileError, match="the order of different points of one input"):
        load(tmp_path / "changed.skop")


@pytest.mark.parametrize(
    "params", [np.arange(5.0)[:, None], np.zeros((8, 2)), np.array([[0], [1], [2], [2], [3], [4], [5.0]])]
)
def test_neighbours_are_those_of_six_different_values_of_one_parameter(params):
    y = np.random.default_rng(0).normal(size=len(params))
    with pytest.raises(FieldDataError, match=f"of one global parameter.*X has {len(params)} samples"):
        PODRegressor(regressor="akima").fit(params, y)


def test_at_a_kink_neighbours_tell_more_than_all_samples():
    params, new = np.linspace(0, 1, 48)[:, None], np.linspace(0, 1, 941)[:, None]
    y, truth = (
        (np.abs(p - 0.43) * np.sin(3 * PLACES) + 0.3 * np.cos(2 * p + PLACES))[..., None] for p in (params, new)
    )
    models = [PODRegressor(regressor=name).fit(params, y) for name in ("auto", "gaussian_process", "rbf")]
    assert [kernel.name for kernel in models[0].models_[0].regressor.kernels] == ["akima"]
    errors = [relative_l2_error(truth, model.predict(new)) for model in models]
    assert errors[0] < 0.5 * min(errors[1:])


def test_many_samples_have_inducing_ones(monkeypatch, tmp_path):
    monkeypatch.setattr("skop.estimators.classical._components.MOST_EXACT", 60)
    for name, value in (("MOST_EXACT", 60), ("_INDUCING", 30), ("_SCREENED", 40)):
        monkeypatch.setattr(f"skop.estimators.classical._kernel_selection.{name}", value)
    places = np.linspace(0, 1, 20)
    fields = lambda params: np.sin(3 * params[:, :1] * places) + params[:, 1:] * places  # noqa: E731
    params, new = (np.random.default_rng(seed).uniform(0, 1, (n, 2)) for seed, n in ((0, 90), (1, 20)))
    model = PODRegressor(regressor="gaussian_process").fit(params, fields(params))
    assert len(model.models_[0].regressor.weights[0]) == 30
    # With the same samples as inducing ones the others add what they know.
    fewer = PODRegressor(regressor="gaussian_process").fit(params[:30], fields(params[:30]))
    errors = [1 - relative_l2_score(fields(new), each.predict(new)) for each in (model, fewer)]
    assert errors[0] < errors[1]
    assert errors[0] < 3 * model.leave_one_out_error_
    with pytest.warns(SkopWarning, match="outside"):
        spread = model.predict(np.array([[0.5, 0.5], [3.0, 0.5]]), return_std=True)[1]
    assert (spread[1] > 10 * spread[0])[1:].all()
    given = torch.tensor(new, requires_grad=True)
    found = model._predict_tensor(given)
    np.testing.assert_allclose(found.detach(), model.predict(new), rtol=1e-6, atol=1e-8)
    (slope,) = torch.autograd.grad(found.sum(), given)
    moved = [model.predict(new + sign * 1e-3 * np.eye(2)[0]).sum(axis=1) for sign in (1, -1)]
    np.testing.assert_allclose(slope[:, 0], (moved[0] - moved[1]) / 2e-3, rtol=1e-3, atol=1e-3)
    model.save(tmp_path / "model.skop")
    for copied in (load(tmp_path / "model.skop"), pickle.loads(pickle.dumps(model))):
        for value, expected in zip(
            copied.predict(new, return_std=True), model.predict(new, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_shares_of_the_variance_may_be_any_scalar_of_numpy(kind):
    X, y = np.random.default_rng(0).random((2, 12, 6, 1))
    found = PODRegressor(n_components=kind(0.5)).fit(X, y)
    expected = PODRegressor(n_components=0.5).fit(X, y)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def slopes_of(value, table, step=1e-3):
    """Central differences of a function of a table of parameters, row by row."""
    ends = [[value(table + sign * part) for part in step * np.eye(table.shape[1])] for sign in (1, -1)]
    return (np.stack(ends[0], axis=1) - np.stack(ends[1], axis=1)) / (2 * step)


@pytest.mark.parametrize("kind", ["table", "named table", "field beside params", "params apart", "own nodes"])
def test_gradients_are_the_limits_of_differences(kind):
    table = np.random.default_rng(0).uniform(1, 2, (40, 2))
    inputs = np.random.default_rng(1).normal(size=(40, *GRID, 1)).cumsum(axis=1)
    y = np.sin(table[:, :1] + 2 * unit_grid(GRID)[:, 0]) * table[:, 1:] ** 2
    fields = (y + ("fields" in kind or "apart" in kind) * 0.1 * inputs.reshape(40, -1)).reshape(40, *GRID, 1)
    if kind == "own nodes":
        nodes = unit_grid(GRID) * (1 + 0.1 * table[:, None, :1] * unit_grid(GRID)[:, :1])
    given = {
        "table": lambda rows: rows,
        "named table": lambda rows: pytest.importorskip("pandas").DataFrame(rows, columns=["load", "length"]),
        "field beside params": lambda rows: FieldSet(
            unit_grid(GRID), inputs[: len(rows)].reshape(len(rows), -1, 1), params=rows, grid_shape=GRID
        ),
        "params apart": lambda rows: inputs[: len(rows)],
        "own nodes": lambda rows: FieldSet(nodes[: len(rows)], params=rows),
    }[kind]
    options = lambda rows: {"params": rows} if kind == "params apart" else {}  # noqa: E731
    model = PODRegressor().fit(
        given(table), fields.reshape(40, -1, 1) if kind == "own nodes" else fields, **options(table)
    )

    def value(rows):
        found = model.predict(given(rows), **options(rows))
        return (np.asarray(getattr(found, "values", found)).reshape(len(rows), -1) ** 2).sum(axis=1)

    rows = table[:6] + 0.01
    found = model.gradient(given(rows), lambda field: (field[..., 0] ** 2).sum(dim=1), **options(rows))
    assert np.abs(found).max() > 1
    np.testing.assert_allclose(found, slopes_of(value, rows), rtol=1e-3, atol=1e-3)


def test_gradients_come_in_parts_of_the_samples(monkeypatch):
    table, sizes = RANDOM.uniform(1, 2, (20, 2)), []
    fields = np.sin(table[:, :1] + table[:, 1:] * unit_grid((5,))[:, 0])[..., None]
    model = PODRegressor().fit(table, fields)

    def output(field):
        sizes.append(len(field))
        return field[:, 2, 0]

    expected = model.gradient(table, output)
    monkeypatch.setattr("skop.estimators.classical._pod.PREDICT_POINTS", 40)
    np.testing.assert_allclose(model.gradient(table, output), expected, rtol=1e-9)
    assert sizes == [20, 8, 8, 4]


def test_what_has_no_gradient_is_named(subtests):
    table, fields = RANDOM.uniform(1, 2, (20, 3)), RANDOM.normal(size=(20, *GRID, 1))
    scattered = [RANDOM.random((20 + number % 2, 2)) for number in range(20)]
    first = lambda field: field[:, 0, 0]  # noqa: E731
    on_points = FieldSet(unit_grid(GRID), fields.reshape(20, -1, 1), params=table)
    cases = [
        ({}, fields, fields, first, "global parameters"),
        ({}, table, fields, None, "output is None"),
        ({}, table, fields[:, 0, :, 0], 3, "output is 3, but the estimator predicts 3 scalars"),
        ({}, table, fields[:, 0, 0, 0], first, "output is a function"),
        ({}, table, fields, lambda field: field[..., 0], r"output gives \(20, 12\)"),
        ({}, table, fields, lambda field: torch.ones(len(field)), "output has no gradient"),
        ({"regressor": Ridge()}, table, fields, first, "regressor is a Ridge; use regressor='auto'"),
        (
            {"grid": (4, 4)}, FieldSet(scattered, params=table), [points[:, :1] for points in scattered], first,
            "resampling of grid=",
        ),
    ]  # fmt: skip
    for options, X, y, output, words in cases:
        with subtests.test(words):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SkopWarning)
                model = PODRegressor(**options).fit(X, y)
            with pytest.raises(FieldDataError, match=words):
                model.gradient(X, output)
    model = PODRegressor().fit(on_points, 2 * fields.reshape(20, -1, 1) + table[:, :1, None])
    moved = FieldSet(0.9 * unit_grid(GRID), on_points.values, params=table)
    with pytest.raises(FieldDataError, match="other points than in the fit"):
        model.gradient(moved, first)
    with pytest.warns(SkopWarning, match="parameter 0"):
        model.gradient(on_points.with_params(np.add(table, [5.0, 0.0, 0.0])), first)
