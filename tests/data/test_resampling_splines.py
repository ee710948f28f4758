"""How exact fields are carried to other points, for every kind of samples and of points."""

from itertools import permutations, product

import numpy as np
import pytest

from skop import FieldSet
from skop.data import interpolate_fields, query_points, unit_grid
from skop.exceptions import FieldDataError

RANDOM = np.random.default_rng(0)
GRIDS = {1: (9,), 2: (6, 5), 3: (4, 5, 4)}
WANTED = [RANDOM.random((size, 2)) for size in (4, 6, 1)]


def cubic(points):
    """A polynomial of degree three along each axis, with two channels."""
    value = np.prod([axis**3 - 2 * axis**2 + (1 + k) * axis + 1 for k, axis in enumerate(points.T)], axis=0)
    return np.stack([value, 1 - 2 * value], axis=-1)


def linear(points):
    value = points @ np.arange(1.0, points.shape[1] + 1) + 3
    return np.stack([value, -value], axis=-1)


def cloud(n_points, n_dims, seed=0):
    """Points with the corners of the unit box among them, so that their hull is the box."""
    generator = np.random.default_rng(seed)
    return generator.permutation(np.concatenate([unit_grid((2,) * n_dims), generator.random((n_points, n_dims))]))


def at(points, values, wanted, **options):
    """Values of one sample at other points."""
    return query_points(wanted, FieldSet(points, values[None], **options)).values[0]


def test_cubic_polynomials_on_even_and_uneven_grids():
    for power, n_dims in product([1.0, 1.3], [1, 2, 3]):
        points, wanted = unit_grid(GRIDS[n_dims]) ** power, RANDOM.random((50, n_dims))
        found = at(points, cubic(points), wanted, grid_shape=GRIDS[n_dims])
        np.testing.assert_allclose(found, cubic(wanted), rtol=0, atol=1e-11)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_splines_converge_with_the_fourth_power_of_the_spacing(n_dims):
    wanted = RANDOM.random((200, n_dims))
    errors = []
    for size in (11, 21):
        points = unit_grid((size,) * n_dims)
        field = np.sin(3 * points.sum(axis=1))[:, None]
        found = at(points, field, wanted, grid_shape=(size,) * n_dims)
        errors.append(np.abs(found[:, 0] - np.sin(3 * wanted.sum(axis=1))).max())
    assert np.log2(errors[0] / errors[1]) > 3.5


def test_units_of_the_field_do_not_matter():
    for scale, grid in product([1e-12, 1e12], [(7, 7), (9,), None]):
        points = cloud(40, 2) if grid is None else unit_grid(grid)
        values, wanted = RANDOM.normal(size=(len(points), 1)), RANDOM.random((20, points.shape[1]))
        expected = scale * at(points, values, wanted, grid_shape=grid)
        np.testing.assert_allclose(at(points, scale * values, wanted, grid_shape=grid), expected, rtol=1e-9)


@pytest.mark.parametrize("grid", [(7, 6), None])
def test_units_of_the_axes_do_not_matter(grid):
    points = cloud(60, 2) if grid is None else unit_grid(grid)
    wanted, units = RANDOM.random((40, 2)), np.array([1e-6, 1e5])
    values = RANDOM.normal(size=(len(points), 1))
    expected = at(points, values, wanted, grid_shape=grid)
    found = at(points * units, values, wanted * units, grid_shape=grid)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_grid_in_a_plane_of_space():
    plane = np.insert(unit_grid((6, 5)), 1, 4.0, axis=1)
    wanted = np.insert(RANDOM.random((20, 2)), 1, 4.0, axis=1)
    fields = FieldSet(plane, cubic(plane[:, [0, 2]])[None], grid_shape=(6, 1, 5))
    np.testing.assert_allclose(query_points(wanted, fields).values[0], cubic(wanted[:, [0, 2]]), rtol=0, atol=1e-11)


def test_axes_that_run_downwards_or_are_exchanged_do_not_matter():
    """As those of images, whose rows run downwards, and of `numpy.meshgrid` by default."""
    for n_dims in (1, 2, 3):
        shape, wanted = GRIDS[n_dims], RANDOM.random((50, n_dims))
        points = unit_grid(shape).reshape(*shape, n_dims)
        for signs, axes in product(product([1, -1], repeat=n_dims), permutations(range(n_dims))):
            turned = points[tuple(slice(None, None, sign) for sign in signs)].transpose(*axes, n_dims)
            own, grid = turned.reshape(-1, n_dims), turned.shape[:-1]
            np.testing.assert_allclose(at(own, cubic(own), wanted, grid_shape=grid), cubic(wanted), rtol=0, atol=1e-11)


def test_bent_grids_are_scattered_points():
    bent = unit_grid((6, 6))
    bent[:, 1] += 0.2 * bent[:, 0] * (1 - bent[:, 0])
    wanted = 0.4 + 0.2 * RANDOM.random((20, 2))
    np.testing.assert_allclose(at(bent, linear(bent), wanted, grid_shape=(6, 6)), linear(wanted), atol=1e-12)


@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_rounding_at_the_edge_of_a_grid(edge):
    points = unit_grid((5, 5))
    wanted = np.array([[edge + (2e-8 * edge - 1e-8), 0.53]])
    found = at(points, cubic(points), wanted, grid_shape=(5, 5))
    np.testing.assert_allclose(found, cubic(np.array([[edge, 0.53]])), atol=1e-11)


def test_repeated_points_on_a_line():
    line = np.array([[0.0], [0.0], [1.0], [1.0], [0.5]])
    np.testing.assert_allclose(at(line, linear(line), np.array([[0.3]])), linear(np.array([[0.3]])), atol=1e-12)


# ---------------------------------------------------------------------- kinds of samples and of points
def ragged():
    points = [cloud(size, 2, seed) for seed, size in enumerate((12, 30, 9))]
    return FieldSet(points, [linear(item) for item in points], params=np.arange(6.0).reshape(3, 2))


def own():
    points = np.stack([cloud(12, 2, seed) for seed in range(3)])
    return FieldSet(points, np.stack([linear(item) for item in points]), params=np.arange(6.0).reshape(3, 2))


def shared():
    points = cloud(12, 2)
    return FieldSet(points, np.stack([linear(points)] * 3), params=np.arange(6.0).reshape(3, 2))


PLACES = {
    "shared": WANTED[0],
    "nested lists": WANTED[0].tolist(),
    "own": np.stack([WANTED[0]] * 3),
    "ragged": WANTED,
    "list of one size": [WANTED[0], 1 - WANTED[0], WANTED[0] ** 2],
    "FieldSet shared": FieldSet(WANTED[0], np.zeros((3, 4, 1))),
    "FieldSet own": FieldSet(np.stack([WANTED[0]] * 3)),
    "FieldSet ragged": FieldSet(WANTED),
}


def test_kinds_of_points():
    for name, make in product(list(PLACES), [ragged, own, shared]):
        inputs = make()[[2, 0, 2]]
        found = query_points(PLACES[name], inputs)
        assert len(found) == 3
        np.testing.assert_array_equal(found.params, inputs.params)
        for points, values in zip(found.coords_list(), found.to_list(), strict=True):
            np.testing.assert_allclose(values, linear(points), rtol=0, atol=1e-12)


def test_fields_of_one_kind_at_places_of_another():
    places = FieldSet(WANTED, [np.empty((len(item), 0)) for item in WANTED])
    expected = linear(np.concatenate(WANTED))
    for make in (ragged, own, shared):
        np.testing.assert_allclose(interpolate_fields(make(), places), expected, rtol=0, atol=1e-12)
    with pytest.raises(FieldDataError, match="no values to interpolate"):
        interpolate_fields(FieldSet(own().coords), places)


BAD = {
    "outside": ([*WANTED[:2], np.array([[0.5, 0.5], [0.5, 1.5]])], ["query point 1", "sample 2", "outside"]),
    "far outside": (np.array([[0.5, 0.5], [-3.0, 0.5]]), ["query point 1", "coordinate 0 = -3"]),
    "mixed dimensions": ([np.zeros((4, 2)), np.zeros((4, 3)), np.zeros((4, 2))], ["[2, 3]", "space dimensions"]),
    "points of two samples": (WANTED[:2], ["2 samples", "X has 3"]),
    "nothing": ([], ["coords"]),
    "four axes": (np.zeros((3, 4, 4, 2)), ["(3, 4, 4, 2)"]),
    "text in a list": ([np.array([["a", "b"]])] * 3, ["coords of sample 0", "numbers"]),
    "a list with a vector in it": ([WANTED[0], np.zeros(2), WANTED[0]], ["coords"]),
    "a list with None in it": ([WANTED[0], None, WANTED[0]], ["coords"]),
    "empty samples of a FieldSet": (FieldSet(WANTED)[:0], ["X has 3"]),
}


def test_refused_points():
    for name, make in product(list(BAD), [ragged, own, shared]):
        coords, words = BAD[name]
        with pytest.raises(FieldDataError) as error:
            query_points(coords, make())
        for word in words:
            assert word in str(error.value)
