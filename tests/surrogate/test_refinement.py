"""Predictions on finer grids, through stand-ins for the network whose answers are known exactly."""

import warnings
from itertools import product

import numpy as np
import pytest

import skop.surrogate._stages
from skop import FieldSet, LaMORegressor, SymmetryOptions
from skop.data import Predictions, unit_grid
from skop.exceptions import ResolutionWarning
from skop.surrogate._refinement import predict_on_lines, predict_refined, refinement_factors

CASES = [((17,), (2,)), ((16,), (3,)), ((13, 17), (3, 2)), ((10, 5), (2, 1)), ((9, 9, 11), (2, 2, 2))]
#: Points along each axis that leave at least four coarse ones, which a cubic needs.
CUBIC = [((17,), (2,)), ((16,), (3,)), ((13, 17), (3, 2)), ((10, 5), (2, 1)), ((7, 9, 8), (2, 2, 2))]


def read(part):
    """A network that gives its input back."""
    return Predictions(part.values)


def on_grid(grid, function, *, coords=None):
    """One sample of a function of the coordinates."""
    points = unit_grid(grid) if coords is None else coords
    return FieldSet(points, function(points)[None, :, None], grid_shape=grid)


def linear(points):
    return 2.0 + points @ np.array([1.0, -3.0, 0.5])[: points.shape[-1]]


def cubic(points):
    weights = np.array([1.0, -2.0, 0.5])[: points.shape[-1]]
    return np.prod(points**3 - weights * points**2 + 0.3 * points + 1.0, axis=-1)


def inside(grid, factors):
    """Points up to the last coarse one along every axis."""
    kept = [np.arange(size) <= (size - 1) // factor * factor for size, factor in zip(grid, factors, strict=True)]
    return np.logical_and.reduce(np.meshgrid(*kept, indexing="ij")).ravel()


# ---------------------------------------------------------------- factors
def test_factors_and_the_warning_about_what_is_left():
    for ratios, factors, warns in [
        ((1.0,), (1,), False),
        ((1.3,), (1,), False),
        ((1.4,), (1,), True),
        ((1.6,), (2,), False),
        ((2.0, 1.0), (2, 1), False),
        ((3.0, 2.0, 1.0), (3, 2, 1), False),
        ((0.8,), (1,), False),
        ((0.7,), (1,), True),
        ((0.5, 1.0), (1, 1), True),
        ((4.2,), (4,), False),
    ]:
        grid = (5,) * len(ratios)
        fine = FieldSet(unit_grid(grid), np.zeros((1, 5 ** len(grid), 1)), grid_shape=grid)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert refinement_factors(fine, tuple(0.25 * ratio for ratio in ratios), native=False) == factors
        assert [item.category for item in caught] == [ResolutionWarning] * warns
        assert all("0.25" in str(item.message) for item in caught)


def test_a_network_that_sees_the_fine_grid_itself_is_warned_about():
    fine = FieldSet(unit_grid((5,)), np.zeros((1, 5, 1)), grid_shape=(5,))
    with pytest.warns(ResolutionWarning, match=r"0\.25.*0\.5"):
        assert refinement_factors(fine, (0.5,), native=True) == (1,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refinement_factors(fine, (0.25,), native=True) == (1,)


def test_an_axis_with_one_point_has_no_spacing():
    fine = FieldSet(unit_grid((9, 1)), np.zeros((1, 9, 1)), grid_shape=(9, 1))
    assert refinement_factors(fine, (0.25, 1.0), native=False) == (2, 1)


# ---------------------------------------------------------------- values
def test_constants_stay_constant():
    for (grid, factors), average in product(CASES, [False, True]):
        values = np.full((2, int(np.prod(grid)), 3), 7.25)
        fine = FieldSet(unit_grid(grid), values, grid_shape=grid)
        found = predict_refined(fine, factors, read, average=average).fields
        np.testing.assert_allclose(found, values, rtol=1e-13)


def test_cubics_are_reproduced_between_the_coarse_points():
    for grid, factors in CUBIC:
        fine = on_grid(grid, cubic)
        found = predict_refined(fine, factors, read, average=False).fields
        within = inside(grid, factors)
        np.testing.assert_allclose(found[:, within], fine.values[:, within], rtol=1e-11, atol=1e-12)


def test_linear_fields_are_reproduced_everywhere():
    for grid, factors in [*CASES, ((4,), (3,)), ((6, 4), (5, 2))]:
        fine = on_grid(grid, linear)
        found = predict_refined(fine, factors, read, average=False).fields
        np.testing.assert_allclose(found, fine.values, rtol=1e-11, atol=1e-12)


def test_beyond_the_last_coarse_point_the_line_goes_on():
    fine = on_grid((6,), lambda points: points[:, 0] ** 2)
    found = predict_refined(fine, (2,), read, average=False).fields[0, :, 0]
    # Coarse points 0, 0.4 and 0.8; the slope of the last two is 1.2.
    np.testing.assert_allclose(found[-1], 0.8**2 + 1.2 * 0.2)


@pytest.mark.parametrize("axis", [0, 1])
def test_descending_coordinates_are_as_good_as_ascending_ones(axis):
    grid, factors = (13, 14), (2, 3)
    points = unit_grid(grid)
    points[:, axis] *= -1
    for function in (linear, cubic):
        fine = on_grid(grid, function, coords=points)
        found = predict_refined(fine, factors, read, average=False).fields
        within = inside(grid, factors) if function is cubic else slice(None)
        np.testing.assert_allclose(found[:, within], fine.values[:, within], rtol=1e-11, atol=1e-12)


def test_a_grid_whose_axes_run_along_other_coordinates():
    grid, factors = (13, 9), (3, 2)
    points = unit_grid(grid)[:, ::-1].copy()
    fine = on_grid(grid, linear, coords=points)
    found = predict_refined(fine, factors, read, average=False).fields
    np.testing.assert_allclose(found, fine.values, rtol=1e-11, atol=1e-12)


# ---------------------------------------------------------------- periods
def waves(n_samples, size, places=None):
    """Samples of two waves around a period, on parts of it, and the same waves shifted by a quarter of their length."""
    weights = np.random.default_rng(0).normal(size=(n_samples, 4))
    angles = 2 * np.pi * np.outer([1, 2], np.arange(size) / size if places is None else places)
    X, y = (
        weights @ np.concatenate([np.cos(angles), np.sin(angles)]),
        weights @ np.concatenate([np.sin(angles), -np.cos(angles)]),
    )
    return X[..., None], y[..., None]


@pytest.mark.parametrize("average", [False, True])
def test_predictions_go_around_a_period(average):
    """Fields that are rolled by coarse points have rolled predictions, whatever lies between these."""
    grid, factors = (12, 9), (3, 1)
    points = unit_grid(grid) * [11 / 12, 1]
    values = np.random.default_rng(1).normal(size=(2, *grid, 1))
    for place, periods in ((0, (1.0, 0.0)), (1, (0.0, 0.0))):
        found = [
            predict_refined(
                FieldSet(points, np.roll(values, shift, axis=1).reshape(2, -1, 1), grid_shape=grid),
                factors,
                read,
                average=average,
                periods=periods,
            ).fields.reshape(values.shape)
            for shift in (0, 3)
        ]
        assert np.allclose(np.roll(found[0], 3, axis=1), found[1], rtol=1e-12, atol=1e-12) == (place == 0)


@pytest.mark.parametrize("shifts", [["shift_x"], None])
def test_arrays_are_one_period_where_a_shift_is_declared_or_fields_go_on(shifts, subtests):
    """They have the predictions of points with coordinates, and errors behind the last point of the fit are no larger.

    Twelve points tell less of the inputs.
    """
    X, y = waves(12, 16)
    options = {"width": 4, "depth": 1, "max_iter": 1, "random_state": 0, "symmetries": shifts}
    points = (np.arange(16)[:, None] + 0.5) / 16
    of_arrays = LaMORegressor(**options).fit(X, y)
    of_points = LaMORegressor(**options).fit(FieldSet(points, X, grid_shape=(16,)), FieldSet(points, y))
    for size, least in ((48, 0.02), (32, 0.02), (24, 0.02), (12, 0.1)):
        with subtests.test(size):
            fine, truth = waves(12, size)
            found = of_arrays.predict(fine)
            coords = np.arange(size)[:, None] / size + 0.5 / 16
            same = of_points.predict(FieldSet(coords, fine, grid_shape=(size,))).values
            np.testing.assert_allclose(found, same, atol=1e-5)
            assert np.abs(found - truth).max() < least * np.abs(truth).max()


@pytest.mark.parametrize(
    ("first", "last", "sizes", "least"),
    # Parts of a period from 0 on, between these points, and centres of cells.
    [
        (lambda n: 0, lambda n: 1 - 1 / n, [32], 0.004),
        (lambda n: 0, lambda n: 15 / 16, [31, 46], 0.02),
        (lambda n: 0.5 / n, lambda n: 1 - 0.5 / n, [24, 32, 48], 0.004),
    ],
)
def test_points_with_coordinates_stay_at_these_where_a_shift_is_declared(first, last, sizes, least):
    def sample(size):
        places = np.linspace(first(size), last(size), size)
        X, y = waves(12, size, places)
        return FieldSet(places[:, None], X, grid_shape=(size,)), FieldSet(places[:, None], y, grid_shape=(size,))

    model = LaMORegressor(width=4, depth=1, max_iter=1, random_state=0, symmetries=["shift_x"]).fit(*sample(16))
    for size in sizes:
        X, y = sample(size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResolutionWarning)
            found = model.predict(X).values
        assert np.abs(found - y.values).max() < least * np.abs(y.values).max()


def test_arrays_of_a_multiple_of_the_points_are_warned_about():
    """Both readings, of points on the ends and of parts of a period, are common, and an array does not tell which."""
    X, y = waves(12, 16)
    # That the samples go on around their ends would tell it.
    alone = SymmetryOptions(periodic=False)
    model = LaMORegressor(width=4, depth=1, max_iter=1, random_state=0, symmetries=alone).fit(X, y)
    for size, points in ((32, "16 points and 31"), (48, "16 points and 46"), (8, "8 points and 15")):
        with pytest.warns(
            ResolutionWarning, match=rf"has {size} points, and 16 in the fit.*; {points} would share all"
        ):
            model.predict(waves(2, size)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (16, 17, 24, 31):
            model.predict(waves(2, size)[0])
        ends = np.linspace(0, 1 + 1e-9, 32)[:, None]
        model.predict(FieldSet(ends, waves(2, 32)[0], grid_shape=(32,)))


# ---------------------------------------------------------------- readings
WIDE = [((25,), (3,)), ((17, 16), (2, 3)), ((17, 9), (2, 1)), ((11, 11, 11), (2, 2, 2))]


def test_shifted_readings_of_a_linear_field_average_to_itself_away_from_the_border():
    for grid, factors in WIDE:
        fine = on_grid(grid, linear)
        found = predict_refined(fine, factors, read, average=True).fields.reshape(grid)
        # At coarse points, which the spline passes through, all of whose readings lie within the grid.
        kept = [
            np.arange(0, size, factor)[factor > 1 : (-1 if factor > 1 else None)]
            for size, factor in zip(grid, factors, strict=True)
        ]
        expected = fine.values.reshape(grid)
        np.testing.assert_allclose(found[np.ix_(*kept)], expected[np.ix_(*kept)], rtol=1e-12, atol=1e-14)


def test_one_reading_by_hand():
    values = np.array([1.0, 4.0, 2.0, 8.0, 6.0])
    fine = FieldSet(unit_grid((5,)), values[None, :, None], grid_shape=(5,))
    found = predict_refined(fine, (2,), read, average=True).fields[0, ::2, 0]
    expected = [(1 + 2 * 1 + 4) / 4, (4 + 2 * 2 + 8) / 4, (8 + 2 * 6 + 6) / 4]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("factors", [(2,), (3,), (2, 3), (3, 1), (2, 2, 2)])
@pytest.mark.parametrize("average", [False, True])
def test_how_often_and_on_what_the_network_is_asked(factors, average):
    grid = tuple(4 * factor + 1 for factor in factors)
    values = np.random.default_rng(0).normal(size=(2, int(np.prod(grid)), 1))
    fine = FieldSet(unit_grid(grid), values, params=np.eye(2), grid_shape=grid)
    seen = []

    def network(part):
        seen.append(part)
        return Predictions(part.values)

    predict_refined(fine, factors, network, average=average)
    assert len(seen) == (np.prod([2 * factor - 1 for factor in factors]) if average else 1)
    for part in seen:
        assert part.grid_shape == (5,) * len(factors)
        np.testing.assert_allclose(part.coords, unit_grid(part.grid_shape))
        np.testing.assert_array_equal(part.params, np.eye(2))


@pytest.mark.parametrize(
    ("grid", "factors"), [((33,), (2,)), ((33,), (4,)), ((32, 31), (2, 3)), ((17, 17, 9), (2, 2, 1))]
)
def test_samples_whose_coarse_points_hold_them_are_not_averaged(grid, factors):
    """The average smooths them; samples of jumps beside them are averaged, as they are alone."""
    x = unit_grid(grid)
    smooth, jump = np.sin(3 * x.sum(axis=1)), np.where(x.sum(axis=1) > 0.43 * x.shape[1], 1.0, -1.0)
    values = np.stack([np.stack([smooth, 0 * smooth + 0.1], axis=1), np.stack([smooth, jump], axis=1)])
    fine = FieldSet(x, values, grid_shape=grid)
    once = predict_refined(fine, factors, read, average=False).fields
    found = predict_refined(fine, factors, read, average=True).fields
    np.testing.assert_array_equal(found[0], once[0])
    assert np.abs(found[1, :, 1] - once[1, :, 1]).max() > 0.1
    alone = predict_refined(fine[1:], factors, read, average=True).fields
    np.testing.assert_array_equal(found[1:], alone)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_of_fields_along_one_axis_is_not_rough(dtype):
    """What varies along an axis that is not refined alone lies in the coarse points."""
    grid = (31, 16)
    x = unit_grid(grid)
    values = np.stack([np.sin(7 * x[:, 0]), np.sin(5 * x[:, 1]) + 0.3, 1 / 3 + 0 * x[:, 0]], axis=1).astype(dtype)
    values[:, 2] *= 1 + np.finfo(dtype).eps * (np.arange(len(values)) % 2)
    fine = FieldSet(x, values[None], grid_shape=grid)
    once = predict_refined(fine, (2, 1), read, average=False).fields
    np.testing.assert_array_equal(predict_refined(fine, (2, 1), read, average=True).fields, once)


def test_parameters_alone_are_asked_for_once():
    grid, calls = (9, 9), []
    fine = FieldSet(unit_grid(grid), params=np.array([[1.0], [2.0]]), grid_shape=grid)

    def network(part):
        calls.append(part)
        return Predictions(part.params[:, :, None] * linear(part.coords)[None, :, None])

    found = predict_refined(fine, (2, 2), network, average=True).fields
    assert len(calls) == 1
    np.testing.assert_allclose(found[..., 0], np.outer([1, 2], linear(unit_grid(grid))), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("average", [False, True])
def test_scalars_are_the_weighted_mean_over_the_readings(average):
    values = np.random.default_rng(0).normal(size=(2, 5, 5))
    fine = FieldSet(unit_grid((5, 5)), values.reshape(2, 25, 1), grid_shape=(5, 5))

    def network(part):
        return Predictions(part.values, part.values.mean(axis=1) ** 2)

    found = predict_refined(fine, (2, 2), network, average=average).scalars
    expected, weights = 0.0, 0.0
    for shift in product((-1, 0, 1), repeat=2) if average else [(0, 0)]:
        rows = [np.clip(np.arange(0, 5, 2) + step, 0, 4) for step in shift]
        weight = np.prod([2 - abs(step) for step in shift])
        expected = expected + weight * values[:, rows[0]][:, :, rows[1]].mean(axis=(1, 2)) ** 2
        weights += weight
    assert found.shape == (2, 1)
    np.testing.assert_allclose(found[:, 0], expected / weights)
    alone = predict_refined(fine, (2, 2), lambda part: Predictions(None, network(part).scalars), average=average)
    assert alone.fields is None
    np.testing.assert_array_equal(alone.scalars, found)


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
@pytest.mark.parametrize("grid", [(7, 9), (12, 5), (8, 6)])
def test_cubics_pass_through_the_grid_of_the_fit(grid, axes):
    """On uneven lines, one of which runs backwards, along either coordinate."""

    def on_lines(lines):
        along = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)[..., list(axes)].reshape(-1, 2)
        return FieldSet(along, cubic(along)[np.newaxis, :, np.newaxis], grid_shape=tuple(map(len, lines)))

    cubic = lambda at: at[:, 0] ** 3 - 2 * at[:, 0] * at[:, 1] ** 2 + at[:, 1] ** 3  # noqa: E731
    lines, own = ([np.linspace(0, 1, n) ** 1.3, 1 - np.linspace(0, 1, m)] for n, m in ((8, 7), grid))
    seen = []

    def network(part):
        seen.append(part)
        return read(part)

    found = predict_on_lines(on_lines(own), lines, axes, network)
    expected = on_lines(lines)
    np.testing.assert_allclose(seen[0].coords, expected.coords, rtol=1e-15)
    np.testing.assert_allclose(seen[0].values, expected.values, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found.fields, on_lines(own).values, rtol=1e-11, atol=1e-12)


# ---------------------------------------------------------------- the estimator
def fitted(X, y, **params):
    settings = {"width": 8, "depth": 1, "max_iter": 1, "random_state": 0}
    return LaMORegressor(dtype="float64").set_params(**(settings | params)).fit(X, y)


def test_pieces_of_a_set_are_predicted_as_the_whole(monkeypatch):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(4, 5, 5, 1))
    estimator = fitted(X, X)
    fine = FieldSet(unit_grid((9, 9)), generator.normal(size=(7, 81, 1)), grid_shape=(9, 9))
    whole = estimator.predict(fine)
    monkeypatch.setattr(skop.surrogate._stages, "PREDICT_POINTS", 200)
    assert whole.shape == (7, 9, 9, 1)
    np.testing.assert_allclose(estimator.predict(fine), whole, rtol=1e-12, atol=1e-13)


def test_the_kinds_of_refinement():
    generator = np.random.default_rng(0)
    X, fine = generator.normal(size=(4, 5, 5, 1)), generator.normal(size=(3, 9, 9, 1))
    estimator = fitted(X, X, refinement="interpolate")
    coarse = estimator.predict(fine[:, ::2, ::2])
    np.testing.assert_allclose(estimator.predict(fine)[:, ::2, ::2], coarse, rtol=1e-11, atol=1e-13)
    assert np.abs(estimator.set_params(refinement="average").predict(fine)[:, ::2, ::2] - coarse).max() > 1e-6
    with pytest.warns(ResolutionWarning):
        native = estimator.set_params(refinement="native").predict(fine)
    assert np.abs(native[:, ::2, ::2] - coarse).max() > 1e-6


@pytest.mark.parametrize("grid", [(7, 9), (9, 8), (12, 8), (5, 8)])
def test_a_network_sees_its_own_grid_alone(grid):
    """Patches of a grid of one point more or less are padded otherwise, and were never in the training."""
    factors = np.random.default_rng(0).normal(size=(6, 2))

    def samples(shape):
        x, y = unit_grid(shape).T
        return (factors @ np.stack([1 + x * y**2 - x**3, x + y**3])).reshape(6, *shape, 1)

    model = fitted(samples((8, 8)), samples((8, 8)) ** 2, base=None)
    known = model.predict(samples((8, 8))).reshape(6, 64, 1)
    # Cubics pass through splines, so that only the way back is left.
    at = FieldSet(unit_grid(grid), np.zeros((6, grid[0] * grid[1], 1)), grid_shape=grid)
    expected = predict_on_lines(at, [np.linspace(0, 1, 8)] * 2, (0, 1), lambda _: Predictions(known)).fields
    np.testing.assert_allclose(model.predict(samples(grid)), expected.reshape(6, *grid, 1), rtol=1e-9, atol=1e-10)
    native = model.set_params(refinement="native").predict(samples(grid))
    assert np.abs(native - expected.reshape(native.shape)).max() > 1e-4


@pytest.mark.parametrize("geometry", ["grid", "structured", "points"])
def test_curvilinear_grids_of_another_spacing_are_warned_about_where_a_network_knows_it(geometry):
    def bent(grid):
        x, y = unit_grid(grid).T
        points = [np.stack([x, y + size * np.sin(3 * x)], axis=1) for size in (0.2, 0.1)]
        return FieldSet(np.stack(points), np.stack([x * y, x + y])[..., None], grid_shape=grid)

    model = fitted(bent((9, 7)), bent((9, 7)), geometry=geometry)
    for grid, is_far in (((9, 7), False), ((10, 8), False), ((17, 7), True), ((5, 7), True)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.predict(bent(grid))
        words = [str(item.message) for item in caught if item.category is ResolutionWarning]
        assert any(f"X is on grids of {grid[0]} x {grid[1]} points" in text for text in words) == (
            is_far and geometry != "points"
        )


@pytest.mark.parametrize(
    ("factors", "average", "warns"), [((17, 16), True, True), ((16, 16), True, False), ((17, 16), False, False)]
)
def test_averages_that_take_long_are_warned_about(factors, average, warns):
    fine = FieldSet(unit_grid((17, 17)), np.random.default_rng(0).normal(size=(1, 17, 17, 1)))

    def predict(inputs):
        return Predictions(inputs.values, None)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predict_refined(fine, factors, predict, average=average)
    assert [str(one.message) for one in caught if "check the units of the coordinates" in str(one.message)][
        warns:
    ] == []
    assert bool(caught) == warns
