"""Flow past Joukowski airfoils: potential flow, a wall that is a streamline, Kutta's condition, and the lift."""

from itertools import pairwise

import numpy as np
import pytest

from skop.datasets import make_joukowski

SHAPES = [[5.0, 0.12, 0.02], [-3.0, 0.09, 0.0], [9.0, 0.15, 0.04]]
EXACT = {"geometry": "varied", "params": SHAPES, "dtype": np.float64}


def exact_lift(angle, thickness, camber):
    """Lift coefficient by Kutta and Joukowski, from the formulas of textbooks."""
    left, up = thickness / 1.299038105676658, 2 * camber
    radius = np.hypot(1 + left, up)
    alpha, beta = np.deg2rad(angle), np.arcsin(up / radius)
    return 8 * np.pi * radius * np.sin(alpha + beta) / (3 + 2 * left + 1 / (1 + 2 * left))


def test_force_of_the_pressure_is_the_lift_and_no_drag():
    _, y = make_joukowski(**EXACT, n_points=(4000, 1))
    for (angle, thickness, camber), coords, values in zip(SHAPES, y.coords, y.values, strict=True):
        edges = np.roll(coords, -1, axis=0) - coords
        pressure = (values[:, 0] + np.roll(values[:, 0], -1)) / 2
        # Points run counter-clockwise, so that the outward normal of an edge is (dy, -dx).
        force = -(pressure[:, None] * np.stack([edges[:, 1], -edges[:, 0]], axis=1)).sum(axis=0)
        alpha = np.deg2rad(angle)
        lift, drag = force @ [-np.sin(alpha), np.cos(alpha)], force @ [np.cos(alpha), np.sin(alpha)]
        assert lift == pytest.approx(exact_lift(angle, thickness, camber), abs=2e-4)
        assert drag == pytest.approx(0, abs=2e-4)


def test_the_surface_is_a_streamline_and_bernoulli_holds():
    _, y = make_joukowski(**EXACT, n_points=(2000, 1))
    for coords, values in zip(y.coords, y.values, strict=True):
        tangent = np.roll(coords, -1, axis=0) - np.roll(coords, 1, axis=0)
        across = values[:, 1] * tangent[:, 1] - values[:, 2] * tangent[:, 0]
        size = np.linalg.norm(tangent, axis=1) * np.linalg.norm(values[:, 1:], axis=1)
        # Half a step from the cusp the chord of three points is no tangent.
        assert np.abs(across / size)[2:-2].max() < 2e-2
        np.testing.assert_allclose(values[:, 0], 1 - values[:, 1] ** 2 - values[:, 2] ** 2, atol=1e-12)
        assert values[:, 0].max() == pytest.approx(1, abs=1e-3)  # a stagnation point


def test_kutta_condition():
    """Both sides leave the trailing edge with the same finite velocity; without circulation they would not."""
    gaps = []
    for number in (200, 400, 800):
        values = make_joukowski(**EXACT, n_points=(number, 1))[1].values[..., 1:]
        gaps.append(np.linalg.norm(values[:, 0] - values[:, -1], axis=1))
        assert (np.linalg.norm(values[:, 0], axis=1) < 1.0).all()
    np.testing.assert_allclose(gaps[0] / gaps[2], 4, rtol=0.1)


def test_field_has_no_divergence_and_no_vorticity():
    """Circulation and flux around every cell of the grid, which is finer and finer."""
    worst = []
    for number in (40, 80):
        _, y = make_joukowski(**EXACT, n_points=(4 * number, number), far_radius=3.0)
        coords, velocity = y.coords.reshape(3, 4 * number, number, 2), y.to_grid()[..., 1:]
        corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]

        def corner(array, shift, number=number):
            # From the second circle on: the nose is sharp.
            low = number // 10 + shift[1]
            return np.roll(array, -shift[0], axis=1)[:, :, low : low + number - number // 10 - 1]

        circulation = flux = 0
        for first, second in pairwise(corners):
            edge = corner(coords, second) - corner(coords, first)
            mean = (corner(velocity, second) + corner(velocity, first)) / 2
            circulation = circulation + (edge * mean).sum(axis=-1)
            flux = flux + edge[..., 1] * mean[..., 0] - edge[..., 0] * mean[..., 1]
        worst.append([np.abs(circulation).max(), np.abs(flux).max()])
    worst = np.array(worst)
    # Trapezoidal rules on edges of length h leave h**4 of a smooth field around a cell.
    assert (worst[0] / worst[1] > 8).all(), worst
    assert (worst[1] < 1e-3).all(), worst


def test_far_away_the_stream_is_undisturbed():
    _, y = make_joukowski(**EXACT, n_points=(64, 3), far_radius=1e4)
    alpha = np.deg2rad(np.array(SHAPES)[:, :1])
    far = y.to_grid()[:, :, -1]
    np.testing.assert_allclose(far[..., 1], np.broadcast_to(np.cos(alpha), (3, 64)), atol=1e-3)
    np.testing.assert_allclose(far[..., 2], np.broadcast_to(np.sin(alpha), (3, 64)), atol=1e-3)


def test_geometry():
    _, y = make_joukowski(**EXACT | {"params": [[0, 0.1, 0.0], [0, 0.1, 0.03]]}, n_points=(2000, 1))
    symmetric, cambered = y.coords
    np.testing.assert_allclose(symmetric[:1000], symmetric[:999:-1] * [1, -1], atol=1e-12)
    assert symmetric[:, 0].min() == pytest.approx(0, abs=1e-5)
    assert symmetric[:, 0].max() == pytest.approx(1, abs=1e-5)
    # The thickness is stated to first order.
    assert 2 * symmetric[:, 1].max() == pytest.approx(0.1, rel=0.1)
    thin = make_joukowski(**EXACT | {"params": [[0, 0.01, 0.0]]}, n_points=(2000, 1))[1].coords[0]
    assert 2 * thin[:, 1].max() == pytest.approx(0.01, rel=0.01)
    upper, lower = cambered[:1000], cambered[:999:-1]
    line = (upper[:, 1] + np.interp(upper[::-1, 0], lower[::-1, 0], lower[::-1, 1])[::-1]) / 2
    assert line.max() == pytest.approx(0.03, rel=0.1)
    # Symmetric airfoil without an angle: no lift, equal pressures.
    np.testing.assert_allclose(y.values[0, :1000, 0], y.values[0, :999:-1, 0], atol=1e-12)


def test_fixed_geometry():
    X, y = make_joukowski(4, n_points=(32, 1), random_state=0, dtype=np.float64)
    assert X.shape == (4, 1)
    assert y.coords.shape == (32, 2)
    assert y.channel_names == ("pressure", "velocity_x", "velocity_y")
    middles = np.concatenate([X, np.full((4, 1), 0.12), np.full((4, 1), 0.02)], axis=1)
    same = make_joukowski(geometry="varied", params=middles, n_points=(32, 1), dtype=np.float64)[1]
    np.testing.assert_allclose(same.values, y.values, atol=1e-12)
    assert (make_joukowski(20, n_points=(8, 1), ranges={"angle": (3, 4)})[0] >= 3).all()
