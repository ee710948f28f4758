"""Fields at other points: exact for what the method represents, and refused outside."""

import warnings

import numpy as np
import pytest
from scipy.spatial import Delaunay, KDTree

from skop import FieldSet
from skop.data import unit_grid
from skop.data._resampling import interpolate_fields, query_points
from skop.exceptions import FieldDataError, SkopWarning


def linear(points):
    """A linear field of two channels."""
    return np.stack([1 + points.sum(axis=-1), points[..., 0] - 2], axis=-1)


def inside(n_dims, count=20, seed=2):
    """Points well within the unit box."""
    return 0.4 + 0.2 * np.random.default_rng(seed).random((count, n_dims))


def scattered(n_dims, sizes=(200, 260)):
    """Random points of each sample in the unit box with its corners."""
    generator = np.random.default_rng(0)
    corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * n_dims, indexing="ij"), axis=-1).reshape(-1, n_dims)
    return [np.concatenate([corners, generator.random((size, n_dims))]) for size in sizes]


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_linear_fields_are_exact_between_scattered_points(n_dims):
    points = scattered(n_dims)
    held = FieldSet(points, [linear_of(item) for item in points])
    places = query_points(inside(n_dims), held)
    np.testing.assert_allclose(places.values, np.stack([linear_of(inside(n_dims))] * 2), rtol=1e-12)


def linear_of(points):
    """One channel, linear in all coordinates."""
    return 1 + (points * np.arange(1, points.shape[-1] + 1)).sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("layout", ["shared", "own", "ragged"])
def test_own_points_give_the_values_to_the_bit(layout):
    points = scattered(2, (50, 60) if layout == "ragged" else (50, 50))
    values = [np.random.default_rng(i).random((len(item), 2)) for i, item in enumerate(points)]
    coords = points[0] if layout == "shared" else points if layout == "ragged" else np.stack(points)
    held = FieldSet(coords, values if layout == "ragged" else np.stack(values))
    np.testing.assert_array_equal(interpolate_fields(held, held), held.values)


def test_cubic_polynomials_are_exact_on_grids():
    points = unit_grid((6, 7))
    cubic = lambda x: (x[:, 0] ** 3 - 2 * x[:, 0] * x[:, 1] ** 2 + x[:, 1] ** 3)[:, None]  # noqa: E731
    held = FieldSet(points, cubic(points)[None], grid_shape=(6, 7))
    places = np.random.default_rng(0).random((30, 2))
    np.testing.assert_allclose(interpolate_fields(held, query_points(places, held))[0], cubic(places), atol=1e-12)


def test_short_grids_are_linear():
    points = unit_grid((2, 3))
    held = FieldSet(points, linear(points)[None], grid_shape=(2, 3))
    places = np.random.default_rng(0).random((9, 2))
    np.testing.assert_allclose(interpolate_fields(held, query_points(places, held))[0], linear(places), atol=1e-12)


WAVE, JUMP, NOISE = range(3)


def channels(points):
    """A smooth field, one with a jump, and noise."""
    phase = 4 * points @ np.arange(1.0, points.shape[-1] + 1)
    noise = np.random.default_rng(4).standard_normal(len(points))
    return np.stack([np.sin(phase), phase > 4, noise], axis=-1)


@pytest.mark.parametrize("n_dims", [1, 2])
def test_smooth_channels_are_curved_and_others_stay_within_their_values(n_dims):
    errors = []
    for size in (500, 500 * 4**n_dims):
        points = scattered(n_dims, (size,))[0]
        held, places = FieldSet(points, channels(points)[None]), FieldSet(inside(n_dims, 200), np.empty((1, 200, 0)))
        curved, straight = (interpolate_fields(held, places, method=method)[0] for method in ("auto", "linear"))
        np.testing.assert_array_equal(curved[:, [JUMP, NOISE]], straight[:, [JUMP, NOISE]])
        truth = channels(inside(n_dims, 200))[:, WAVE]
        errors.append([np.linalg.norm(found[:, WAVE] - truth) for found in (curved, straight)])
        steep = np.exp(8 * np.tanh(20 * (points[:, 0] - 0.5)))  # over seven decades
        found = at(points, steep, inside(n_dims, 200))
        assert steep.min() <= found.min()
        assert found.max() <= steep.max()
    assert all(curved < 0.5 * straight for curved, straight in errors)
    if n_dims == 2:  # slopes of neighbours agree, so that the error falls faster than that of planes
        assert errors[0][0] / errors[1][0] > 1.5 * errors[0][1] / errors[1][1]


@pytest.mark.parametrize("size", [2, 3, 4, 9])
def test_few_points_of_a_line_are_interpolated(size):
    line = np.linspace(0, 1, size)[:, None] ** 2
    np.testing.assert_allclose(at(line, 2 - line[:, 0], np.array([[0.3], [0.7]])), [1.7, 1.3], rtol=1e-12)


def test_a_line_with_two_values_at_a_place_is_linear():
    line = np.sort(np.append(np.linspace(0, 1, 41), 0.5))
    values = np.sin(3 * line) + (np.arange(42) > 20)
    wanted = np.linspace(0.01, 0.99, 33)
    wanted = wanted[np.abs(wanted - 0.5) > 0.01]
    found = at(line[:, None], values, wanted[:, None])
    np.testing.assert_allclose(found, np.interp(wanted, line, values), rtol=1e-12)


def test_words_that_are_no_choices_are_named():
    held = FieldSet(inside(2), inside(2)[None])
    for words in ({"method": "cubic"}, {"outside": "nan"}):
        with pytest.raises(ValueError, match=r"is '(cubic|nan)'; expected one of \('"):
            interpolate_fields(held, held, **words)


def test_long_cells_at_a_wall_are_curved():
    """Cells of an O-grid with an aspect of 1e5 at the wall, between whose nodes the flow around a cylinder is asked."""

    def nodes(n_across, n_around):
        radius = 1 + 1e-6 * np.expm1(np.linspace(0, 1, n_across) * np.log(2e6 + 1))[:, None]
        angle = 2 * np.pi * np.arange(n_around) / n_around
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1, 2)

    def potential(points):
        return points[:, 0] * (1 + 1 / (points**2).sum(axis=1))

    points, places = nodes(40, 64), nodes(79, 128)
    found = at(points, potential(points), places)
    straight = interpolate_fields(
        FieldSet(points, potential(points)[None, :, None]),
        FieldSet(places, np.empty((1, len(places), 0))),
        method="linear",
    )
    curved, flat = (np.linalg.norm(np.ravel(values) - potential(places)) for values in (found, straight))
    assert curved < 0.5 * flat


@pytest.mark.parametrize("n_dims", [1, 2])
def test_other_channels_and_samples_do_not_change_how_a_channel_is_interpolated(n_dims):
    points = scattered(n_dims, (80,))[0]
    fields, places = channels(points), inside(n_dims)
    missing = np.where(np.arange(len(points)) < 9, np.nan, fields[:, WAVE])
    held = FieldSet(points, np.stack([np.column_stack([fields, missing]), np.column_stack([2 * fields, fields[:, 0]])]))
    found = interpolate_fields(held, FieldSet(places, np.empty((2, len(places), 0))))
    for column in range(4):
        alone = FieldSet(points, np.asarray(held.values)[:1, :, column : column + 1])
        alone = interpolate_fields(alone, FieldSet(places, np.empty((1, len(places), 0))))
        np.testing.assert_array_equal(alone[0, :, 0], found[0, :, column])
    # Powers of two change no digit.
    np.testing.assert_array_equal(found[1, :, :3], 2 * found[0, :, :3])


def test_interpolation_is_linear_in_the_field():
    points = scattered(2)
    first, second = ([np.random.default_rng(s + len(p)).random((len(p), 1)) for p in points] for s in (0, 1))
    both = [2 * one - 3 * other for one, other in zip(first, second, strict=True)]
    places = FieldSet([inside(2), inside(2, 7)], [np.zeros((20, 1)), np.zeros((7, 1))])
    one, other, found = (
        interpolate_fields(FieldSet(points, fields), places, method="linear") for fields in (first, second, both)
    )
    np.testing.assert_allclose(found, 2 * one - 3 * other, atol=1e-12)


def test_permuted_points_give_the_same_field():
    points = scattered(2, (50,))[0]
    values = np.random.default_rng(1).random((len(points), 1))
    order = np.random.default_rng(2).permutation(len(points))
    found = [
        interpolate_fields(held, FieldSet(inside(2), np.zeros((1, 20, 1))))
        for held in (FieldSet(points, values[None]), FieldSet(points[order], values[order][None]))
    ]
    np.testing.assert_allclose(*found, atol=1e-12)


def test_points_of_a_plane_in_space_are_interpolated_within_it():
    points = np.column_stack([scattered(2, (40,))[0], np.full(44, 3.0)])
    held = FieldSet(points, linear_of(points)[None])
    wanted = np.column_stack([inside(2), np.full(20, 3.0)])
    np.testing.assert_allclose(query_points(wanted, held).values[0], linear_of(wanted), rtol=1e-12)


@pytest.mark.parametrize("n_dims", [2, 3])
def test_points_on_an_oblique_line_span_no_volume(n_dims):
    line = np.linspace(0, 1, 9)[:, None] * np.arange(1.0, n_dims + 1)
    with pytest.raises(FieldDataError, match="on a line that is parallel to no axis, so that nothing can be"):
        query_points(np.full((1, n_dims), 0.3), FieldSet(line, linear(line)[None]))


def test_an_oblique_plane_is_refused_in_words_and_can_be_rotated():
    flat = np.column_stack([scattered(2, (40,))[0], np.zeros(44)])
    places = np.column_stack([inside(2), np.zeros(20)])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    samples = FieldSet([inside(3), flat @ turn], [np.ones((20, 1)), linear_of(flat)[:, :1]])
    words = r"the 44 points of sample 1 lie in a plane that is parallel to no two axes.* the plane is z = constant\.$"
    with pytest.raises(FieldDataError, match=words) as caught:
        interpolate_fields(samples, FieldSet([inside(3), places @ turn], None))
    assert caught.value.__suppress_context__
    np.testing.assert_allclose(query_points(places, FieldSet(flat, linear_of(flat)[None])).values[0], linear_of(places))


def test_two_points_span_no_volume():
    with pytest.raises(FieldDataError, match="the 2 points of the samples lie on a line that is parallel to no axis"):
        query_points(np.array([[0.5, 0.5]]), FieldSet(np.eye(2), np.ones((1, 2, 1))))


def test_duplicates_and_single_points_are_legal():
    points = np.repeat(scattered(2, (20,))[0], 2, axis=0)
    held = FieldSet(points, linear(points)[None])
    np.testing.assert_allclose(query_points(inside(2), held).values[0], linear(inside(2)), rtol=1e-12)
    alone = FieldSet(np.array([[0.5, 0.5]]), np.full((1, 1, 2), 7.0))
    np.testing.assert_array_equal(query_points(np.array([[0.5, 0.5]]), alone).values, alone.values)


def crack(n_dims, n_copies=3):
    """Points of which some coincide with others, listed in any order, and values that differ at every point."""
    points = scattered(n_dims, (40,))[0]
    points = np.concatenate([points] + [points[5:20]] * (n_copies - 1))
    points = np.random.default_rng(3).permutation(points)
    return points, np.arange(2.0 * len(points)).reshape(1, len(points), 2)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_points_that_coincide_keep_their_own_values(n_dims):
    points, values = crack(n_dims)
    held = FieldSet(points, values)
    # All of them; in another order, in which copies come as before; and a part that has all copies of its points.
    for rows in (np.arange(len(points)), np.lexsort(points.T), np.flatnonzero(points[:, 0] > 0.3)):
        places = FieldSet(points[rows], values[:, rows, :0])
        np.testing.assert_array_equal(interpolate_fields(held, places), values[:, rows])
    rounded = points.astype(np.float32).astype(float)
    np.testing.assert_array_equal(interpolate_fields(held, FieldSet(rounded, values[..., :0])), values)


def test_a_place_that_is_asked_for_less_often_than_it_is_listed_has_the_first_value():
    points, values = crack(2)
    places, first = np.unique(points, axis=0, return_index=True)
    found = interpolate_fields(FieldSet(points, values), FieldSet(places, np.zeros((1, len(places), 0))))
    np.testing.assert_array_equal(found, values[:, first])


def at(points, values, wanted):
    """Values of one sample, with one channel, at other points."""
    held = FieldSet(points, values[None, :, None])
    return interpolate_fields(held, FieldSet(wanted, np.zeros((1, len(wanted), 0))))[0, :, 0]


def turned(n_dims):
    """Nodes of a box that is turned, so that its hull leaves corners of the bounding box, and the turn."""
    turn = np.linalg.qr(np.random.default_rng(4).standard_normal((n_dims, n_dims)))[0]
    return unit_grid((5,) * n_dims).reshape(-1, n_dims) @ turn.T, turn


@pytest.mark.parametrize("n_dims", [2, 3])
def test_outside_the_hull_a_linear_field_goes_on_along_the_side_and_is_constant_across(n_dims):
    points, turn = turned(n_dims)
    beside = inside(n_dims)
    beside[:, 0] = 1.0
    out = np.random.default_rng(5).uniform(0, 0.05, (20, 1)) * np.eye(n_dims)[0]
    found = at(points, linear_of(points)[:, 0], (beside + out) @ turn.T)
    np.testing.assert_allclose(found, linear_of(beside @ turn.T)[:, 0], rtol=1e-10)


def test_corners_take_what_lies_beyond_them():
    points, turn = turned(2)
    corner = np.flatnonzero((points @ turn > 1 - 1e-12).all(axis=1))
    beyond = np.array([[1.01, 1.02], [1.03, 1.0]]) @ turn.T
    values = np.random.default_rng(6).random(len(points))
    np.testing.assert_allclose(at(points, values, beyond), values[corner].repeat(2), rtol=1e-12)


def ring(count, inner=0.5):
    """Points of a ring, with the given number of them along each circle."""
    radius, angle = np.meshgrid(np.linspace(inner, 1, count // 4), np.arange(count) * 2 * np.pi / count, indexing="ij")
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1, 2)


def test_on_the_rim_of_a_ring_errors_fall_at_second_order():
    angle = np.linspace(0, 2 * np.pi, 1000)
    rim, field = np.stack([np.cos(angle), np.sin(angle)], axis=-1), lambda x: x[:, 0] + np.sin(3 * x[:, 1])
    errors = [np.abs(at(ring(count), field(ring(count)), rim) - field(rim)).max() for count in (24, 48, 96)]
    # The mean order of the largest error; the values of nearest points have an error of first order.
    assert np.log2(errors[0] / errors[-1]) / 2 > 1.8


def test_permuted_points_give_the_same_field_on_a_curved_rim():
    points, rim = ring(32), ring(100, 0.999)
    values, order = points[:, 0] ** 2, np.random.default_rng(2).permutation(len(points))
    on_rim = np.hypot(*rim.T) > 0.9999
    found = [at(points[rows], values[rows], rim[on_rim]) for rows in (np.arange(len(points)), order)]
    np.testing.assert_allclose(*found, atol=1e-12)


def test_parameters_come_along_and_points_alone_carry_no_fields():
    points = scattered(2)
    places = query_points(inside(2), FieldSet(points, [linear(p) for p in points], params=[[1.0], [2.0]]))
    assert places.params.tolist() == [[1.0], [2.0]]
    assert query_points(inside(2), FieldSet(points)).n_channels == 0


def test_points_outside_are_named():
    for value in [1.01, -0.01, np.nan, np.inf]:
        points = scattered(2)
        places = [inside(2), np.vstack([inside(2, 3), [[0.5, value]]])]
        with pytest.raises(FieldDataError, match="point 3 of sample 1 has coordinate 1"):
            query_points(places, FieldSet(points))


def test_rounding_at_the_border_is_not_outside():
    points = scattered(2)
    places = query_points(np.array([[1 + 1e-9, 0.5]]), FieldSet(points, [linear(p) for p in points]))
    assert np.isfinite(places.values).all()


def test_a_channel_of_nan_leaves_the_others_as_they_are():
    rng = np.random.default_rng(8)
    points, places = rng.random((40, 2)), 0.3 + 0.4 * rng.random((20, 2))
    values = np.stack([points @ [1.0, 2.0], np.full(40, np.nan)], axis=1)
    found = interpolate_fields(FieldSet(points, values[None]), FieldSet(places, np.empty((1, 20, 0))))
    np.testing.assert_allclose(found[0, :, 0], places @ [1.0, 2.0], atol=1e-12)
    assert np.isnan(found[0, :, 1]).all()


def outside(points, count=400):
    """Random places in the box of points in the plane, outside of their hull."""
    lower, upper = points.min(axis=0), points.max(axis=0)
    places = lower + np.random.default_rng(9).random((count, 2)) * (upper - lower)
    scale = upper - lower
    return places[Delaunay(points / scale).find_simplex(places / scale) < 0]


@pytest.mark.parametrize("aspect", [1, 20, 1000])
def test_beyond_a_rim_of_nodes_places_have_the_value_of_the_nearest_point_of_the_hull(aspect):
    angle = np.arange(32) * 2 * np.pi / 32
    corners = np.stack([np.cos(angle), np.sin(angle)], axis=1) * [1, 1 / aspect]
    points, places = np.concatenate([corners, 0.5 * corners]), outside(corners)
    along = np.roll(corners, -1, axis=0) - corners
    part = ((places[:, None] - corners) * along).sum(axis=2) / np.square(along).sum(axis=1)
    on_sides = corners + np.clip(part, 0, 1)[..., None] * along
    expected = np.linalg.norm(on_sides - places[:, None], axis=2).min(axis=1)
    found = interpolate_fields(FieldSet(points, points[None]), FieldSet(places, np.empty((1, len(places), 0))))
    assert len(places) > 50
    if aspect == 1:
        np.testing.assert_allclose(np.linalg.norm(found[0] - places, axis=1), expected, atol=1e-12)
    # The inner nodes of a flat one are nearer to some of its sides; those take the nearest node.
    nearest = KDTree(points).query(places)[0]
    distance = np.linalg.norm(found[0] - places, axis=1)
    assert (np.isclose(distance, expected, atol=1e-12) | np.isclose(distance, nearest, atol=1e-12)).all()


def test_of_clouds_without_nodes_on_the_rim_the_hull_is_no_worse_than_the_nearest_points():
    rng = np.random.default_rng(10)
    points = rng.random((1000, 2))
    places = outside(points, 3000)
    for waves in (4, 16):
        values = np.sin(waves * points[:, 0] + 1) * np.cos(waves * points[:, 1])
        truth = np.sin(waves * places[:, 0] + 1) * np.cos(waves * places[:, 1])
        samples = FieldSet(points, values[None, :, None]), FieldSet(places, np.empty((1, len(places), 0)))
        by_hull, by_point = (interpolate_fields(*samples, outside=kind)[0, :, 0] for kind in ("hull", "point"))
        # By facets alone errors are 2.5 and 3 times as large.
        assert np.linalg.norm(by_hull - truth) < 1.1 * np.linalg.norm(by_point - truth)


# ---------------------------------------------------------------------- points of a grid
def grid_of(n_lines, n_points):
    """Points (n_lines, n_points, 2) of a grid, each line along the last coordinate."""
    axes = np.linspace(0.1, 0.9, n_lines), np.linspace(0.2, 0.8, n_points)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def samples(count, coords=None):
    coords = unit_grid((3, 3)) if coords is None else coords
    return FieldSet(coords, np.ones((count, 9, 1)))


def test_points_of_a_grid_that_are_no_samples_say_how_they_are_passed():
    for coords in (grid_of(5, 7), grid_of(5, 7)[None]):
        with pytest.raises(FieldDataError, match=r"points of a grid, for all samples, are coords.reshape\(-1, 2\)"):
            query_points(coords, samples(4))
    with pytest.raises(FieldDataError, match=r"pass one set for each\.$"):
        query_points([line[:k] for k, line in enumerate(grid_of(5, 7), 1)], samples(4))


@pytest.mark.parametrize("turn", [lambda grid: grid, lambda grid: grid[..., ::-1], lambda grid: grid[::-1, ::-1]])
def test_a_grid_of_as_many_lines_as_samples_is_named(turn):
    coords = turn(grid_of(5, 7))
    with pytest.warns(SkopWarning, match=r"\(5, 7, 2\) and is read as 7 points .* grid of 5 x 7 .*reshape\(-1, 2\)"):
        query_points(coords, samples(5))
    space = np.concatenate([coords, np.full((5, 7, 1), 0.5)], axis=-1)
    with pytest.warns(SkopWarning, match=r"coords.reshape\(-1, 3\)"):
        query_points(space, FieldSet(unit_grid((2, 2, 2)), np.ones((5, 8, 1))))


def test_points_of_each_sample_are_no_grid():
    rng, grid = np.random.default_rng(0), grid_of(5, 7)
    own = np.repeat(unit_grid((3, 3))[None], 5, axis=0) * rng.uniform(0.95, 1, (5, 1, 1))
    bent = grid + 0.01 * np.sin(9 * grid[..., ::-1])
    moved = np.concatenate([grid[..., :1], grid[..., 1:] * rng.uniform(0.9, 1, (5, 1, 1))], axis=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for coords in (
            bent,
            moved,
            rng.permutation(grid),
            [*grid],
            rng.uniform(0.1, 0.9, (5, 7, 2)),
            grid[:1].repeat(5, 0),
        ):
            query_points(coords, samples(5))
        query_points(np.clip(grid, 0.2, 0.8), samples(5, own))
        query_points(FieldSet(grid), samples(5))
