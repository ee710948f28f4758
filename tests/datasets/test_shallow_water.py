"""The shallow-water generator against exact solutions and conservation laws."""

import numpy as np
import pytest
from scipy.optimize import brentq

from skop.datasets import _shallow_water, make_shallow_water
from skop.datasets._shallow_water import _ShallowWater
from skop.exceptions import FieldDataError

SMALL = {"n_samples": 3, "resolution": 16, "n_input": 2, "n_output": 3, "frame_interval": 0.1, "random_state": 0}


def centres(n_cells, half_width):
    return (np.arange(n_cells) + 0.5) * (2 * half_width / n_cells) - half_width


def broken_dam(x, left, right, gravity=1.0):
    """Exact depth and velocity at x / t after a dam between two depths breaks (Stoker; Ritter if one is dry)."""
    c_left = np.sqrt(gravity * left)
    if right == 0:
        speed = np.clip(2 * (x + c_left) / 3, 0, 2 * c_left)
        depth = np.clip((2 * c_left - x) / 3, 0, c_left) ** 2 / gravity
        return depth, np.where((x > -c_left) & (depth > 0), speed, 0.0)

    def mismatch(depth):
        shock = (depth - right) * np.sqrt(gravity / 2 * (1 / depth + 1 / right))
        return 2 * (c_left - np.sqrt(gravity * depth)) - shock

    middle = brentq(mismatch, right, left, xtol=1e-14)
    flow = 2 * (c_left - np.sqrt(gravity * middle))
    front = middle * flow / (middle - right)
    regions = [x < -c_left, x < flow - np.sqrt(gravity * middle), x < front]
    fan = (2 * c_left - x) ** 2 / (9 * gravity)
    return np.select(regions, [left, fan, middle], right), np.select(regions, [0, 2 * (x + c_left) / 3, flow], 0)


def simple_wave(x, time, gravity=1.0):
    """Exact depth of a smooth wave that moves right into water of depth 1, before it breaks; and its velocity."""

    def speed_of_sound(position):
        return np.sqrt(gravity) * (1 + 0.1 * np.exp(-((position / 0.25) ** 2)))

    start = x.copy()
    for _ in range(200):
        c = speed_of_sound(start)
        start = x - (2 * (c - np.sqrt(gravity)) + c) * time
    c = speed_of_sound(start)
    return c**2 / gravity, 2 * (c - np.sqrt(gravity))


def radial_dam(radius, time, n_cells=1200):
    """Depth over distance from the centre, by a scheme of second order for the equations in polar coordinates."""
    dr = 2.0 / n_cells
    r = (np.arange(n_cells) + 0.5) * dr
    faces = np.arange(n_cells + 1) * dr
    state = np.stack([np.where(r < radius, 2.0, 1.0), np.zeros(n_cells)])

    def rate(state):
        h, u = state[0], state[1] / state[0]
        p = np.stack([h, u])
        p = np.concatenate([p[:, 1::-1] * [[1], [-1]], p, p[:, -1:], p[:, -1:]], axis=1)
        d = np.diff(p, axis=1)
        slope = np.where(d[:, :-1] * d[:, 1:] > 0, np.sign(d[:, 1:]) * np.minimum(abs(d[:, :-1]), abs(d[:, 1:])), 0)
        (hl, ul), (hr, ur) = (p[:, 1:-1] + slope / 2)[:, :-1], (p[:, 1:-1] - slope / 2)[:, 1:]
        a = np.maximum(abs(ul) + np.sqrt(hl), abs(ur) + np.sqrt(hr))
        mass = (hl * ul + hr * ur - a * (hr - hl)) / 2
        push = (hl * ul**2 + hl**2 / 2 + hr * ur**2 + hr**2 / 2 - a * (hr * ur - hl * ul)) / 2
        flux = np.stack([mass, push]) * faces
        source = np.stack([np.zeros_like(h), h**2 / 2])
        return (flux[:, :-1] - flux[:, 1:]) / (dr * r) + source / r

    n_steps = int(np.ceil(time / (0.2 * dr)))
    for _ in range(n_steps):
        first = state + time / n_steps * rate(state)
        state = (state + first + time / n_steps * rate(first)) / 2
    return r, state[0]


def solve_along_x(depth, velocity, spacing, time, n_across=4):
    state = np.zeros((3, len(depth), n_across))
    state[0], state[1] = depth[:, None], (depth * velocity)[:, None]
    end = _ShallowWater(spacing, 1.0).advance(state, time)
    assert np.ptp(end, axis=2).max() == 0
    assert not end[2].any()
    return end[0, :, 0], end[1, :, 0]


def rough_state(n_cells, seed=0, low=0.5):
    """Random depth and velocity in the middle of still water."""
    rng = np.random.default_rng(seed)
    state = np.zeros((3, n_cells, n_cells))
    state[0] = 1.0
    quarter = slice(n_cells // 4, -(n_cells // 4))
    middle = state[:, quarter, quarter]
    middle[0] = rng.uniform(low, 2, middle[0].shape)
    middle[1:] = middle[0] * rng.uniform(-1, 1, middle[1:].shape)
    return state


class TestSolver:
    @pytest.mark.parametrize(("right", "bound", "order"), [(1.0, 0.008, 0.95), (0.1, 0.009, 0.95), (0.0, 0.009, 1.0)])
    def test_dam_between_two_depths(self, right, bound, order):
        errors = []
        for n_cells in (100, 200, 400):
            x = centres(n_cells, 1.0)
            depth, momentum = solve_along_x(np.where(x < 0, 2.0, right), 0 * x, 2 / n_cells, 0.25)
            exact, speed = broken_dam(x / 0.25, 2.0, right)
            errors.append([abs(depth - exact).mean(), abs(momentum - exact * speed).mean()])
        errors = np.array(errors)
        assert errors[0].max() < bound
        assert (np.log2(errors[0] / errors[-1]) / 2 > order).all(), errors

    def test_second_order_where_the_flow_is_smooth(self):
        errors = []
        for n_cells in (50, 100, 200):
            x = centres(n_cells, 1.0)
            depth, _ = solve_along_x(*simple_wave(x, 0.0), 2 / n_cells, 0.3)
            errors.append(abs(depth - simple_wave(x, 0.3)[0]).mean())
        orders = np.log2(np.array(errors[:-1]) / errors[1:])
        assert (orders > 1.85).all(), orders
        assert errors[-1] < 8e-5

    def test_converges_to_the_radial_flow(self):
        r, reference = radial_dam(0.5, 0.6)
        errors = []
        for n_cells in (24, 48, 96):
            fine = centres(8 * n_cells, 2.0)
            dam = np.where(fine[:, None] ** 2 + fine**2 < 0.25, 2.0, 1.0)
            state = np.zeros((3, n_cells, n_cells))
            state[0] = dam.reshape(n_cells, 8, n_cells, 8).mean(axis=(1, 3))
            depth = _ShallowWater(4 / n_cells, 1.0).advance(state, 0.6)[0]
            axis = centres(n_cells, 2.0)
            exact = np.interp(np.hypot(axis[:, None], axis), r, reference)
            errors.append(abs(depth - exact).mean())
        assert errors[-1] < 0.0055
        orders = np.log2(np.array(errors[:-1]) / errors[1:])
        assert (orders > 0.8).all(), (errors, orders)

    def test_symmetries_of_the_square_to_the_bit(self):
        water, state = _ShallowWater(0.1, 1.3), rough_state(20)
        end = water.advance(state, 0.4)
        assert np.ptp(end[0]) > 0.1
        for _ in range(4):
            # A quarter turn: position and velocity (x, y) become (-y, x). Four of them lead back.
            state = np.stack([state[0], -state[2], state[1]])[:, :, ::-1].transpose(0, 2, 1).copy()
            end = np.stack([end[0], -end[2], end[1]])[:, :, ::-1].transpose(0, 2, 1)
            np.testing.assert_array_equal(water.advance(state, 0.4), end)
            swapped = water.advance(state[[0, 2, 1]].transpose(0, 2, 1).copy(), 0.4)
            np.testing.assert_array_equal(swapped, end[[0, 2, 1]].transpose(0, 2, 1))

    @pytest.mark.parametrize(("n_cells", "mirror"), [(14, "face"), (15, "cell")])
    def test_a_mirror_stands_for_the_other_half(self, n_cells, mirror):
        axis = centres(n_cells, 1.0)
        state = np.zeros((3, n_cells, n_cells))
        state[0] = 1 + np.exp(-8 * (axis[:, None] ** 2 + axis**2))
        whole = _ShallowWater(2 / n_cells, 1.0).advance(state, 0.5)
        kept = slice(n_cells // 2, None)
        quadrant = _ShallowWater(2 / n_cells, 1.0, mirror=mirror).advance(state[:, kept, kept].copy(), 0.5)
        np.testing.assert_allclose(quadrant, whole[:, kept, kept], rtol=0, atol=1e-13)

    def test_mass_and_momentum_are_conserved_to_rounding(self):
        state = rough_state(64)
        end = _ShallowWater(0.1, 1.0).advance(state, 0.4)
        assert abs(end - state).max() > 0.1
        # Still water at the border: nothing has come to it.
        np.testing.assert_array_equal(end[:, 0], state[:, 0])
        np.testing.assert_allclose(end.sum(axis=(1, 2)), state.sum(axis=(1, 2)), rtol=0, atol=1e-13 * state[0].sum())

    def test_depth_stays_positive(self):
        for outer in [0.0, 1e-12, 1e-6, 1e-2]:
            rng = np.random.default_rng(1)
            state = np.zeros((3, 24, 24))
            state[0] = np.where(rng.random((24, 24)) < 0.3, rng.uniform(0, 3, (24, 24)), outer)
            # Fast streams in all directions tear the water apart.
            state[1:] = state[0] * rng.uniform(-5, 5, (2, 24, 24))
            water = _ShallowWater(0.1, 1.0, dry_depth=1e-14)
            for _ in range(5):
                state = water.advance(state, 0.05)
                assert state[0].min() >= 0
                assert np.isfinite(state).all()
                assert not state[1:][:, state[0] == 0].any()

    def test_water_runs_over_a_dry_bottom_without_loss(self):
        x = centres(60, 1.0)
        state = np.zeros((3, 60, 60))
        state[0] = np.maximum(0, 0.3 - x[:, None] ** 2 - x**2)
        water, mass = _ShallowWater(2 / 60, 1.0), state[0].sum()
        for _ in range(4):
            state = water.advance(state, 0.08)
            assert state[0].min() >= 0
            assert state[0].sum() == pytest.approx(mass, rel=1e-13)
        assert (state[0] > 1e-4).sum() > 1.2 * (x[:, None] ** 2 + x**2 < 0.3).sum()

    def test_steps_that_prove_too_long_are_taken_again(self, monkeypatch):
        state = rough_state(16)
        expected = _ShallowWater(0.1, 1.0).advance(state, 0.2)
        # Twice the share: every step passes the limit and is halved.
        monkeypatch.setattr(_shallow_water, "COURANT_NUMBER", 2 * _shallow_water.COURANT_NUMBER)
        actual = _ShallowWater(0.1, 1.0).advance(state, 0.2)
        np.testing.assert_allclose(actual, expected, atol=0.01)
        assert not np.array_equal(actual, expected)

    def test_states_that_do_not_change(self):
        water = _ShallowWater(0.1, 9.81)
        still = np.zeros((3, 8, 8))
        still[0] = 0.7
        np.testing.assert_array_equal(water.advance(still, 1.0), still)
        # Streams of different speed side by side keep their edge.
        shear = still.copy()
        shear[2, :4], shear[2, 4:] = 0.3, -0.8
        np.testing.assert_allclose(water.advance(shear, 1.0), shear, rtol=0, atol=1e-13)


class TestMakeShallowWater:
    def test_dams(self):
        X, _ = make_shallow_water(**SMALL)
        assert set(np.unique(X[..., 0])) == {1.0, 2.0}
        # Wider dams hold more water, and the radius is in its range.
        area = (X[..., 0] == 2).sum(axis=(1, 2)) * (5 / 16) ** 2
        assert ((area > np.pi * 0.2**2) & (area < np.pi * 0.9**2)).all()

    def test_defaults_are_the_published_recipe(self):
        X, y = make_shallow_water(1, resolution=8, random_state=0, dtype=np.float64)
        assert X.shape[-1] == 10
        assert y.shape[-1] == 91
        later, _ = make_shallow_water(1, resolution=8, n_input=2, n_output=1, frame_interval=1.0, random_state=0)
        np.testing.assert_allclose(later[..., 1], y[..., -1], atol=5e-3)

    def test_as_many_samples_differ_as_distances_of_centres(self):
        axis = centres(32, 2.5)
        squares = axis[:, np.newaxis] ** 2 + axis**2
        n_dams = len(np.unique(np.round(squares[(squares > 0.3**2) & (squares <= 0.7**2)], 9))) + 1
        X, _ = make_shallow_water(200, resolution=32, n_input=1, n_output=1, frame_interval=1e-3, random_state=0)
        assert len(np.unique(X, axis=0)) == n_dams

    def test_mass_until_waves_reach_the_border(self):
        options = SMALL | {"resolution": 25, "n_output": 60, "dtype": np.float64}
        X, y = make_shallow_water(**options)
        frames = np.concatenate([X, y], axis=-1)
        mass = frames.sum(axis=(1, 2))
        inside = (frames[:, 0] == 1).all(axis=1)
        assert inside[:, :5].all()
        assert not inside[:, -1].any()
        np.testing.assert_allclose(np.where(inside, mass, mass[:, :1]), mass[:, :1] + 0 * mass, rtol=1e-13)
        # Then they leave, and the water settles at the depth around.
        assert (mass[:, -1] < 0.995 * mass[:, 0]).all()
        assert abs(frames[..., -1] - 1).max() < 0.05

    def test_symmetry_of_samples_to_the_bit(self):
        for resolution in (16, 17):
            _, y = make_shallow_water(**SMALL | {"resolution": resolution})
            for other in (y[:, ::-1], y[:, :, ::-1], y.transpose(0, 2, 1, 3)):
                np.testing.assert_array_equal(other, y)

    def test_dry_bottom(self):
        X, y = make_shallow_water(**SMALL | {"outer_depth": 0.0, "dtype": np.float64})
        assert y.min() >= 0
        np.testing.assert_allclose(y.sum(axis=(1, 2))[:, 0], X.sum(axis=(1, 2))[:, 0], rtol=1e-13)

    def test_flows_that_cannot_be_solved(self):
        with pytest.raises(FieldDataError, match="Sample 0: a frame would take more than 1,000,000 time steps"):
            make_shallow_water(**SMALL | {"frame_interval": 1e7})
        with pytest.raises(FieldDataError, match="Sample 0: the flow is not finite"):
            make_shallow_water(**SMALL | {"inner_depth": 1e300, "gravity": 1e300, "dtype": np.float64})
