"""Laws of the way from points to a regular grid and back."""

import json
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from skop import FieldSet
from skop.data import DataSpec, GridResampler, TargetForm, unit_grid
from skop.exceptions import FieldDataError, ResamplingWarning

KINDS = ("shared", "own", "ragged")


def corners(n_dims):
    """Corners of the unit box."""
    return unit_grid((2,) * n_dims)


def points_of(kind, n_dims=2, n_points=60, seed=0):
    """Points of two samples in the unit box with its corners: one array, one for each, or of different length."""
    generator = np.random.default_rng(seed)
    sizes = (n_points, n_points - 17) if kind == "ragged" else (n_points, n_points)
    points = [np.concatenate([corners(n_dims), generator.random((size, n_dims))]) for size in sizes]
    return points if kind == "ragged" else np.stack(points) if kind == "own" else points[0]


def fields_of(points, function):
    """Two samples with the values of a function ``(P, d) -> (P, c)`` on their points; twice as large in the second."""
    each = [points] * 2 if getattr(points, "ndim", 0) == 2 else points
    values = [factor * function(item) for factor, item in zip((1.0, 2.0), each, strict=True)]
    return FieldSet(points, values if isinstance(points, list) else np.stack(values))


def linear(points):
    """Two channels, linear in all coordinates."""
    return np.stack([1 + points @ np.arange(1, points.shape[-1] + 1), points[:, 0] - 2], axis=-1)


def smooth(points):
    return np.sin(2 * points.sum(axis=-1, keepdims=True))


def grid_values(resampler, fields):
    return np.asarray(resampler.to_grid(fields).values)[..., : fields.n_channels]


# ---------------------------------------------------------------------- laws of the values
def test_linear_functions_are_exact_both_ways():
    for n_dims, kind in product([1, 2, 3], KINDS):
        fields = fields_of(points_of(kind, n_dims), linear)
        resampler = GridResampler.fit(fields, (5, 7, 4)[:n_dims])
        on_grid = grid_values(resampler, fields)
        expected = linear(resampler.coords)
        np.testing.assert_allclose(on_grid, np.stack([expected, 2 * expected]), rtol=1e-11, atol=1e-11)
        returned = resampler.round_trip(fields)
        np.testing.assert_allclose(returned.values, fields.values, rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(returned.n_points, fields.n_points)


def test_constants_stay_outside_the_hull_too():
    for n_dims, kind in product([1, 2, 3], KINDS):
        points = points_of(kind, n_dims)
        points = [item[2**n_dims :] for item in points] if isinstance(points, list) else points[..., 2**n_dims :, :]
        fields = fields_of(points, lambda item: np.full((len(item), 1), 3.25))
        resampler = GridResampler((-1.0,) * n_dims, (2.0,) * n_dims, (6, 5, 4)[:n_dims])
        on_grid = grid_values(resampler, fields)
        np.testing.assert_allclose(on_grid, np.broadcast_to([[[3.25]], [[6.5]]], on_grid.shape), rtol=1e-12)
        np.testing.assert_allclose(resampler.round_trip(fields).values, fields.values, rtol=1e-12)


def test_the_nearest_point_counts_outside_the_hull():
    fields = FieldSet(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([[[1.0], [2.0], [3.0]]]))
    found = GridResampler((-1.0, -1.0), (3.0, 3.0), (5, 5)).to_grid(fields).to_grid()[0, ..., 0]
    assert found[0, 0] == 1.0  # at (-1, -1)
    assert found[4, 0] == found[4, 1] == 2.0
    assert found[0, 4] == found[1, 4] == 3.0
    assert set(np.unique(found)) == {1.0, 2.0, 3.0}


def test_outputs_lie_between_the_values():
    points = points_of("ragged")
    fields = FieldSet(points, [np.random.default_rng(i).normal(size=(len(item), 1)) for i, item in enumerate(points)])
    resampler = GridResampler.fit(fields, (9, 8))
    for sample, held in zip(grid_values(resampler, fields), fields.to_list(), strict=True):
        assert held.min() - 1e-12 <= sample.min()
        assert sample.max() <= held.max() + 1e-12


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_points_of_the_grid_come_back_exactly(n_dims):
    shape = (6, 5, 4)[:n_dims]
    points = unit_grid(shape) * [3.0, 1.0, 0.5][:n_dims] - 1
    order = np.random.default_rng(0).permutation(len(points))
    values = np.random.default_rng(1).normal(size=(2, len(points), 2))
    fields = FieldSet(points[order], values[:, order])
    resampler = GridResampler.fit(fields, shape)
    np.testing.assert_allclose(resampler.coords, points, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(grid_values(resampler, fields), values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(resampler.round_trip(fields).values, fields.values, rtol=1e-12, atol=1e-12)


def test_the_order_of_points_does_not_matter():
    """Not even where four points lie on a circle, so that the triangulation is not unique."""
    for cocircular, kind in product([False, True], KINDS):
        points = points_of(kind)
        if cocircular:
            bent = unit_grid((8, 8))
            points = {"shared": bent, "own": np.stack([bent, 0.5 * bent]), "ragged": [bent, bent[:-5]]}[kind]
            points = [item[:-1] for item in points] if kind == "ragged" else points[..., :-1, :]
        fields = fields_of(points, smooth)
        resampler = GridResampler.fit(fields, (7, 9))
        generator = np.random.default_rng(1)
        orders = [generator.permutation(int(size)) for size in fields.n_points]
        if kind == "shared":
            mixed = FieldSet(points[orders[0]], np.asarray(fields.values)[:, orders[0]])
            orders[1] = orders[0]
        else:
            pairs = list(zip(fields.coords_list(), fields.to_list(), orders, strict=True))
            stack = list if kind == "ragged" else np.stack
            mixed = FieldSet(stack([own[o] for own, _, o in pairs]), stack([held[o] for _, held, o in pairs]))
        np.testing.assert_array_equal(resampler.to_grid(mixed).values, resampler.to_grid(fields).values)
        returned = zip(
            resampler.round_trip(mixed).to_list(), resampler.round_trip(fields).to_list(), orders, strict=True
        )
        for found, expected, order in returned:
            np.testing.assert_array_equal(found, expected[order])


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_errors_fall_at_second_order(n_dims):
    """Halving the distances of points and the cells quarters the error of a smooth function, grid to points."""
    errors = []
    for size in (5, 9, 17):
        resampler = GridResampler((0.0,) * n_dims, (1.0,) * n_dims, (size,) * n_dims)
        places = FieldSet(points_of("shared", n_dims, 200), np.empty((1, 200 + 2**n_dims, 0)))
        found = resampler.to_points(smooth(resampler.coords)[None], places)
        errors.append(np.sqrt(np.mean((found[0] - smooth(places.coords)) ** 2)))
    ratios = np.array(errors[:-1]) / errors[1:]
    assert (ratios > 3.5).all(), ratios
    assert (ratios < 4.5).all(), ratios


def test_errors_on_the_grid_fall_at_second_order():
    errors = []
    for size in (9, 17, 33):
        # A slanted lattice: its triangles are no half cells of the grid.
        points = unit_grid((size, size)) @ np.array([[1.0, 0.3], [0.0, 1.0]])
        fields = FieldSet(points, smooth(points)[None])
        resampler = GridResampler((0.05, 0.35), (0.95, 0.95), (41, 43))
        errors.append(np.sqrt(np.mean((grid_values(resampler, fields)[0] - smooth(resampler.coords)) ** 2)))
    ratios = np.array(errors[:-1]) / errors[1:]
    assert (ratios > 3.4).all(), ratios


def test_a_finer_grid_keeps_more():
    # Without the corners: triangles between them are long, and wrong far into the cloud.
    fields = fields_of([item[4:] for item in points_of("ragged", n_points=400)], smooth)
    errors = []
    for size in (5, 10, 20, 40):
        returned = GridResampler.fit(fields, (size, size)).round_trip(fields)
        errors.append(np.linalg.norm(returned.values - fields.values) / np.linalg.norm(fields.values))
    assert (np.diff(errors) < 0).all(), errors
    assert errors[-1] < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_samples_do_not_depend_on_their_mates(kind):
    fields = fields_of(points_of(kind), smooth)
    resampler = GridResampler.fit(fields, (6, 6))
    together, returned = resampler.to_grid(fields), resampler.round_trip(fields).to_list()
    for number in range(2):
        one = fields[[number]]
        np.testing.assert_array_equal(resampler.to_grid(one).values[0], together.values[number])
        np.testing.assert_array_equal(resampler.round_trip(one).to_list()[0], returned[number])


def test_units_of_an_axis_do_not_matter():
    points, scale = points_of("shared"), np.array([1e3, 1e-2])
    fields, other = fields_of(points, smooth), FieldSet(points * scale, fields_of(points, smooth).values)
    found = [GridResampler.fit(item, (6, 9)).round_trip(item).values for item in (fields, other)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


# ---------------------------------------------------------------------- the grid
def test_automatic_grids_have_as_many_cells_as_points_and_nearly_cubes():
    """The mean of both samples counts."""
    for extent, n_points, expected in [
        ((2.0,), 50, (51,)),
        ((1.0, 1.0), 100, (11, 11)),
        ((4.0, 1.0), 100, (21, 6)),
        ((1.0, 1e-4), 100, (101, 2)),
        ((1.0, 2.0, 4.0), 64, (3, 5, 9)),
        ((1.0, 1e-6, 1.0), 100, (11, 2, 11)),
        ((1.0, 1.0), 6, (3, 4)),
    ]:
        generator = np.random.default_rng(0)
        points = [generator.random((n_points + extra, len(extent))) * extent for extra in (5, -5)]
        points[0][:2] = np.zeros(len(extent)), extent
        assert GridResampler.fit(FieldSet(points, [item[:, :1] for item in points])).grid_shape == expected


def test_the_grid_meets_the_box():
    points = np.random.default_rng(0).normal(size=(30, 3)) * 0.1 + 0.7
    resampler = GridResampler.fit(FieldSet(points, points[None]), (3, 4, 5))
    np.testing.assert_array_equal(resampler.coords.min(axis=0), points.min(axis=0))
    np.testing.assert_array_equal(resampler.coords.max(axis=0), points.max(axis=0))
    np.testing.assert_allclose(np.diff(resampler.coords[:5, 2]), resampler.spacing[2])
    assert resampler.coords.shape == (60, 3)


def test_shapes_that_do_not_fit_are_named():
    for grid in [(8,), (8, 8, 8), (8, 1), (8, 8.0), (True, 8), (), 8, "fine", None]:
        with pytest.raises(FieldDataError, match="does not fit 2-D points; expected 2 integers of at least 2"):
            GridResampler.fit(fields_of(points_of("shared"), linear), grid)


def test_flat_clouds_are_named():
    points = np.array([[0.0, 1.5], [1.0, 1.5], [2.0, 1.5]])
    with pytest.raises(FieldDataError, match=r"coordinate 1 = 1\.5"):
        GridResampler.fit(FieldSet(points, points[None]))


def test_samples_without_a_volume_are_named():
    points = [corners(2), np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])]
    fields = FieldSet(points, [item[:, :1] for item in points])
    with pytest.raises(FieldDataError, match="the 3 points of sample 1 lie on a line"):
        GridResampler.fit(fields, (4, 4)).to_grid(fields)


def test_points_outside_the_box_get_its_edge_with_a_warning():
    resampler = GridResampler((0.0, 0.0), (1.0, 1.0), (5, 5))
    values = linear(resampler.coords)[None]
    near = FieldSet(np.array([[1.2, 0.5], [0.5, -0.25]]), np.empty((1, 2, 0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(resampler.to_points(values, near)[0], linear(np.array([[1.0, 0.5], [0.5, 0.0]])))
    far = FieldSet(np.array([[1.5, 0.5], [0.5, 0.5]]), np.empty((1, 2, 0)))
    with pytest.warns(ResamplingWarning, match=r"1 points lie outside .* by up to 2 cells"):
        np.testing.assert_allclose(resampler.to_points(values, far)[0], linear(np.array([[1.0, 0.5], [0.5, 0.5]])))


# ---------------------------------------------------------------------- channels, parameters, files
def test_distances_are_those_from_the_nearest_points_in_cells():
    points = [
        np.array([[0.0, 0.0], [4.0, 8.0], [0.0, 8.0]]),
        np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 4.0], [4.0, 8.0]]),
    ]
    fields = FieldSet(points, [item[:, :1] for item in points])
    found = GridResampler.fit(fields, (5, 5)).to_grid(fields)
    assert found.n_channels == 2
    # Cells are 1 by 2.
    channel = found.to_grid()[..., -1]
    distances = channel / (1 - channel)
    assert distances[0, 0, 0] == 0.0
    assert distances[0, 4, 0] == pytest.approx(4.0)
    assert distances[0, 1, 1] == pytest.approx(np.sqrt(2))
    assert distances[1, 0, 0] == pytest.approx(2.0)


@pytest.mark.parametrize(("kind", "expected"), [("shared", False), ("own", True), ("ragged", True)])
def test_distances_come_where_points_differ(kind, expected):
    fields = fields_of(points_of(kind), linear)
    assert GridResampler.fit(fields, (4, 4)).distance is expected
    assert GridResampler.fit(fields, (4, 4), distance=False).to_grid(fields).n_channels == 2
    assert GridResampler.fit(fields, (4, 4), distance=True).to_grid(fields).n_channels == 3


def test_parameters_and_bare_points_go_along():
    points, params = points_of("ragged"), np.arange(4.0).reshape(2, 2)
    resampler = GridResampler.fit(FieldSet(points), (4, 5))
    found = resampler.to_grid(FieldSet(points, params=params))
    np.testing.assert_array_equal(found.params, params)
    assert (found.n_channels, found.grid_shape, found.shared_coords) == (1, (4, 5), True)
    shared = resampler.__class__.fit(FieldSet(points[0], params=params), (4, 5))
    assert shared.to_grid(FieldSet(points[0], params=params)).n_channels == 0


def test_json_gives_an_equal_spec():
    resampler = GridResampler.fit(fields_of(points_of("ragged"), linear), (4, 5))
    own = DataSpec("pairs", "fields", TargetForm("list"), 2, 2, 0, 1, None, geometry="points")
    spec = replace(own, resampler=resampler)
    assert spec != own
    again = DataSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.resampler.error is None
    seen = again.network_spec
    assert (seen.grid_shape, seen.geometry, seen.n_fields, seen.resampler) == ((4, 5), "grid", 3, None)
    other = GridResampler(resampler.lower, resampler.upper, (4, 6), distance=True)
    assert other != resampler
