"""The vortex street against the laws of plane flow: no divergence, circulation, and the speed of its own vortices."""

import numpy as np
import pytest

from skop.datasets import make_wake
from skop.datasets._wake import ROW_RATIO

STREET = {"velocity": 1.2, "spacing": 3.0, "circulation": 1.5, "core_radius": 0.4}
SMALL = STREET | {"n_samples": 5, "n_points": 40, "random_state": 0, "dtype": np.float64}


def velocity_at(points, time=0.0, **options):
    """Velocity at chosen points, through the rows that the generator adds up."""
    from skop.datasets import _wake

    street = STREET | options
    speed = _wake._street_speed(**street)
    shares = np.tile([street["velocity"], 0.0], (len(points), 1))
    sizes = (street["spacing"], street["core_radius"])
    for shift, height, strength in ((0, 0.5, -street["circulation"]), (0.5, -0.5, street["circulation"])):
        across = points[:, 1] - height * ROW_RATIO * sizes[0]
        along = points[:, 0] - speed * time - shift * sizes[0]
        shares += _wake._row_velocity(along, across, strength, *sizes)
    return shares, speed


def test_fields_are_the_sum_of_both_rows_at_the_nodes():
    X, y = make_wake(**SMALL)
    for time, values in zip(X[:, 0], y.values, strict=True):
        np.testing.assert_allclose(values, velocity_at(y.coords, time)[0], atol=1e-12)


def test_no_divergence_and_no_vorticity_outside_of_point_vortices():
    points, step = np.random.default_rng(1).uniform([0, 1.2], [6, 2.5], (50, 2)), 1e-4

    def gradient(axis, **options):
        shift = step * np.eye(2)[axis]
        return (velocity_at(points + shift, **options)[0] - velocity_at(points - shift, **options)[0]) / (2 * step)

    for core in (0.4, 1e-4):
        along, across = gradient(0, core_radius=core), gradient(1, core_radius=core)
        np.testing.assert_allclose(along[:, 0] + across[:, 1], 0, atol=1e-7)
    np.testing.assert_allclose(along[:, 1] - across[:, 0], 0, atol=1e-6)
    assert np.abs(along).max() > 0.01


@pytest.mark.parametrize(("x", "y", "sign"), [(0.0, 0.5, -1), (1.5, -0.5, 1)])
def test_circulation_about_a_vortex(x, y, sign):
    angle = 2 * np.pi * np.arange(200) / 200
    ring = 0.2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    tangent = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    middle = np.array([x, y * ROW_RATIO * 3.0])
    around = velocity_at(middle + ring, core_radius=1e-6)[0]
    assert (around * tangent).sum(axis=1).mean() * 2 * np.pi * 0.2 == pytest.approx(sign * 1.5, rel=1e-6)


@pytest.mark.parametrize("core", [0.4, 1e-3])
def test_vortices_are_carried_by_the_flow_in_their_middle(core):
    middles = np.array([[0, 0.5 * ROW_RATIO * 3], [1.5, -0.5 * ROW_RATIO * 3], [3, 0.5 * ROW_RATIO * 3]])
    found, speed = velocity_at(middles, core_radius=core)
    np.testing.assert_allclose(found, np.broadcast_to([speed, 0], (3, 2)), atol=1e-10)
    if core < 0.1:  # von Karman's speed of points
        assert speed == pytest.approx(1.2 - 1.5 / 6 * np.tanh(np.pi * ROW_RATIO), rel=1e-5)


def test_stream_is_undisturbed_far_away_and_slower_in_the_wake():
    far = velocity_at(np.array([[0.3, 80.0], [0.3, -900.0]]))[0]
    np.testing.assert_allclose(far, [[1.2, 0], [1.2, 0]], atol=1e-12)
    line = np.stack([np.linspace(0, 3, 60, endpoint=False), np.zeros(60)], axis=1)
    # Between point vortices the mean is less by G / a.
    assert velocity_at(line, core_radius=1e-4)[0][:, 0].mean() == pytest.approx(1.2 - 1.5 / 3, abs=1e-6)


def test_the_field_travels_and_has_a_period():
    X, y = make_wake(**SMALL, n_periods=1.0)
    np.testing.assert_allclose(y.values[0], y.values[-1], atol=1e-12)
    np.testing.assert_allclose(np.diff(X[:, 0]), X[-1, 0] / 4)
    assert np.abs(y.values[0] - y.values[1]).max() > 0.1
    later = make_wake(**SMALL, times=X[:, 0] + 1e6 * X[-1, 0])[1]
    np.testing.assert_allclose(later.values, y.values, atol=1e-7)


def test_nodes_are_the_seeds_and_times_change_none_of_them():
    X, y = make_wake(**SMALL, size=(7.0, 2.0))
    assert y.channel_names == ("velocity_x", "velocity_y")
    assert (y.coords.min(axis=0) >= [0, -1]).all()
    assert (y.coords.max(axis=0) <= [7, 1]).all()
    one = make_wake(**SMALL | {"n_points": 9}, size=(7.0, 2.0), times=X[2:3, 0])[1]
    np.testing.assert_array_equal(one.coords, y.coords[:9])
    np.testing.assert_array_equal(one.values[0], y.values[2, :9])
    assert not np.array_equal(make_wake(**SMALL | {"random_state": 1})[1].coords, y.coords)
    assert make_wake(3, n_points=4)[1].values.dtype == np.float32
