"""Poisson's equation around a moving hole: equation, boundary values, exact concentric field, and the points."""

import numpy as np
import pytest

from skop.datasets import make_moving_hole
from skop.datasets._moving_hole import _solve

HOLES = [[0.5, 0.1], [-0.2, 0.4], [1e-9, 0.0], [0.0, 0.0], [-0.6, -0.3]]
EXACT = {"params": HOLES, "random_state": 0, "dtype": np.float64}


def test_poisson_equation():
    step = 2e-3
    for x, y in HOLES:
        z = np.array([0.9j, -0.8 + 0.1j, 0.75 - 0.2j, complex(x, y) + 0.27, complex(x, y) - 0.28j])
        u = [_solve(z + shift, complex(x, y), 0.25, 3.0, 0.7) for shift in step * np.array([1, -1, 1j, -1j, 0])]
        laplacian = (sum(u[:4]) - 4 * u[4]) / step**2
        np.testing.assert_allclose(laplacian, -3, atol=0.02)


@pytest.mark.parametrize("nodes", ["corresponding", "scattered"])
def test_boundary_values(nodes):
    X, y = make_moving_hole(**EXACT, nodes=nodes, n_points=(32, 6), source=5.0, hole_value=-0.4)
    from_hole = np.linalg.norm(y.coords - X[:, None], axis=2)
    from_middle = np.linalg.norm(y.coords, axis=2)
    on_hole, on_border = np.isclose(from_hole, 0.25, atol=1e-9), np.isclose(from_middle, 1, atol=1e-9)
    assert (on_hole.sum(axis=1) == 32).all()
    assert (on_border.sum(axis=1) == 32).all()
    np.testing.assert_allclose(y.values[..., 0][on_hole], -0.4, atol=1e-12)
    np.testing.assert_allclose(y.values[..., 0][on_border], 0, atol=1e-12)
    assert (from_hole > 0.25 - 1e-9).all()
    assert (from_middle < 1 + 1e-9).all()


def test_concentric_field_and_a_hole_that_nearly_is():
    _, y = make_moving_hole(**EXACT | {"params": [[0, 0], [1e-7, 0]]}, n_points=(8, 9), source=4.0, hole_value=1.0)
    size = np.linalg.norm(y.coords[0], axis=1)
    # u = (1 - r^2) + b log r with u(1/4) = 1.
    expected = 1 - size**2 + (1 - (1 - 0.25**2)) / np.log(0.25) * np.log(size)
    np.testing.assert_allclose(y.values[0, :, 0], expected, atol=1e-12)
    np.testing.assert_allclose(y.values[1], y.values[0], atol=1e-6)


def test_turning_the_hole_turns_the_field():
    turn = np.exp(0.7j)
    z = np.array([0.8, -0.5 + 0.5j, 0.1 - 0.9j])
    one, other = _solve(z, 0.4 + 0j, 0.3, 2.0, 1.0), _solve(z * turn, 0.4 * turn, 0.3, 2.0, 1.0)
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_corresponding_nodes_move_smoothly_and_scattered_ones_are_drawn_anew():
    options = EXACT | {"params": [[0.2, 0.0], [0.2, 1e-3]], "n_points": (16, 4)}
    near = make_moving_hole(**options)[1].coords
    assert np.abs(near[0] - near[1]).max() < 1.1e-3
    far = make_moving_hole(**options, nodes="scattered")[1].coords
    assert np.median(np.abs(far[0] - far[1])) > 0.1


def test_scattered_points_cover_the_area_evenly():
    X, y = make_moving_hole(1, nodes="scattered", n_points=(10, 3002), radius=0.4, random_state=3, dtype=np.float64)
    inside = y.coords[0][np.linalg.norm(y.coords[0], axis=1) < 1 - 1e-9]
    left, right = inside[:, 0] < -0.2, inside[:, 0] >= -0.2
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 801)] * 2), axis=-1).reshape(-1, 2)
    grid = grid[(np.linalg.norm(grid, axis=1) < 1) & (np.linalg.norm(grid - X[0], axis=1) > 0.4)]
    share = (grid[:, 0] < -0.2).mean()
    assert left.sum() / (left.sum() + right.sum()) == pytest.approx(share, abs=4 * 0.5 / np.sqrt(30000))


@pytest.mark.parametrize("nodes", ["corresponding", "scattered"])
def test_samples_are_those_of_their_parameters(nodes):
    X, y = make_moving_hole(6, nodes=nodes, n_points=(12, 5), random_state=0)
    assert X.shape == (6, 2)
    assert y.coords.shape == (6, 60, 2)
    assert y.values.dtype == X.dtype == np.float32
    assert (np.linalg.norm(X, axis=1) <= 0.5).all()
    again = make_moving_hole(nodes=nodes, n_points=(12, 5), params=X, random_state=0)[1]
    np.testing.assert_allclose(again.coords, y.coords, atol=1e-6)
