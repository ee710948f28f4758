"""Grids: coordinates of the unit box, and recognition of grids in lists of points."""

import numpy as np

from skop.data import grid_spacing, unit_grid
from skop.data._grid import find_grid

SHAPES = [(5,), (1,), (4, 3), (3, 3), (5, 1), (2, 3, 4)]


def test_unit_grid_runs_in_c_order():
    for shape in SHAPES:
        coords = unit_grid(shape)
        assert coords.shape == (np.prod(shape), len(shape))
        for number, index in enumerate(np.ndindex(*shape)):
            expected = [i / (size - 1) if size > 1 else 0.0 for i, size in zip(index, shape, strict=True)]
            np.testing.assert_allclose(coords[number], expected, rtol=0, atol=1e-15)


def stretched(shape, dtype=float):
    """A grid with uneven lines, far from the unit box."""
    axes = [100.0 * (axis + 1) + np.cumsum(1.0 + np.arange(size) % 3) for axis, size in enumerate(shape)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape)).astype(dtype)


def test_a_shuffled_grid_is_put_in_order():
    for shape in SHAPES:
        for make in [unit_grid, stretched, lambda shape: stretched(shape, np.float32)]:
            coords = make(shape)
            shuffled = coords[np.random.default_rng(0).permutation(len(coords))]
            found, order = find_grid(shuffled)
            assert found == shape
            np.testing.assert_array_equal(shuffled[order], coords)
            np.testing.assert_array_equal(find_grid(coords)[1], np.arange(len(coords)))


def test_rounding_does_not_hide_a_grid():
    coords = stretched((6, 5))
    noisy = coords + 1e-8 * np.random.default_rng(0).normal(size=coords.shape)
    found, order = find_grid(noisy)
    assert found == (6, 5)
    np.testing.assert_array_equal(order, np.arange(30))
    assert find_grid(coords + 1e-3 * np.random.default_rng(0).normal(size=coords.shape)) is None
    assert find_grid(noisy, tolerance=1e-12) is None


def test_what_is_no_grid_is_not_taken_for_one():
    coords = unit_grid((4, 4))
    assert find_grid(coords[:-1]) is None
    assert find_grid(np.concatenate([coords[:-1], coords[:1]])) is None
    assert find_grid(np.random.default_rng(0).random((16, 2))) is None
    assert find_grid(np.zeros((3, 2))) is None
    assert find_grid(np.zeros((0, 2))) is None
    turned = coords @ np.array([[0.8, -0.6], [0.6, 0.8]])
    assert find_grid(turned) is None


def test_spacing_is_that_of_each_axis():
    assert grid_spacing(unit_grid((3, 5)) * [4.0, 8.0], (3, 5)) == (2.0, 2.0)
    assert grid_spacing(unit_grid((3, 1)), (3, 1)) == (0.5, 1.0)
    assert grid_spacing(np.zeros((6, 2)), (2, 3)) == (1.0, 1.0)
    # NumPy's default order of a mesh grid: axis 0 runs along y.
    exchanged = np.stack(np.meshgrid([0.0, 1.0, 2.0], [0.0, 5.0, 10.0, 15.0]), axis=-1)
    assert grid_spacing(exchanged.reshape(-1, 2), (4, 3)) == (5.0, 1.0)
