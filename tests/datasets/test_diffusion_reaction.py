"""The diffusion-reaction generator against other integrators and exact solutions."""

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from skop.datasets import _diffusion_reaction, make_diffusion_reaction
from skop.exceptions import FieldDataError

SMALL = {"n_samples": 3, "resolution": 12, "n_input": 2, "n_output": 3, "random_state": 0}
EXACT = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12}


def rate(state, spacing, diffusion=(1e-3, 5e-3), k=5e-3):
    """Right-hand side of the equations, with a five-point Laplacian between mirrored cells."""
    padded = np.pad(state, ((0, 0), (1, 1), (1, 1)), mode="edge")
    neighbours = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1] + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2]
    u, v = state
    laplacian = (neighbours - 4 * state) / spacing**2
    return np.reshape(diffusion, (2, 1, 1)) * laplacian + np.stack([u - u**3 - k - v, u - v])


def exact_states(state, times, **constants):
    """Solution at the times by an explicit method with tight tolerances."""
    shape, spacing = state.shape, 2 / state.shape[-1]

    def flat(_, values):
        return rate(values.reshape(shape), spacing, **constants).ravel()

    return solve_ivp(flat, (0, times[-1]), state.ravel(), t_eval=times, **EXACT).y.T.reshape(-1, *shape)


def exact_ode(start, times, k=5e-3):
    """Solution of the reaction alone, (times, 2)."""
    return solve_ivp(
        lambda _, s: [s[0] - s[0] ** 3 - k - s[1], s[0] - s[1]], (0, times[-1]), start, t_eval=times, **EXACT
    ).y.T


def equation(n_cells, diffusion=(1e-3, 5e-3), k=5e-3, tolerance=1e-9):
    return _diffusion_reaction._Equation(n_cells, 2 / n_cells, diffusion, k, tolerance)


def frames_of(arrays):
    """Samples of the generator as (n, frames, 2, N, N)."""
    fields = np.moveaxis(np.concatenate(arrays, axis=-1), -1, 1)
    return fields.reshape(len(fields), -1, 2, *fields.shape[2:])


def relative(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


class TestSolver:
    @pytest.mark.parametrize("n_cells", [7, 16])
    def test_equals_another_integrator(self, n_cells):
        state, times = np.random.default_rng(0).standard_normal((2, n_cells, n_cells)), (0.0, 0.1, 0.2, 0.3)
        actual = np.array(list(equation(n_cells, (0.1, 0.05), 0.2).states(state, times)))
        expected = exact_states(state, times, diffusion=(0.1, 0.05), k=0.2)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-8)
        assert not np.allclose(expected, exact_states(state, times, diffusion=(0.05, 0.1), k=0.2), atol=0.01)

    def test_fourth_order_in_time(self):
        x = np.cos(np.pi * (np.arange(16) + 0.5) / 16)
        state = np.stack([1.5 * x[:, None] * x, x[:, None] ** 2 - x**3])
        expected = exact_states(state, [0, 1.0])[-1]
        errors, estimates = [], []
        for n_steps in (20, 40, 80):
            model = equation(16)
            modes = _diffusion_reaction._to_modes(state)
            reaction = model.reaction(modes)
            for _ in range(n_steps):
                modes, reaction, estimate = model.step(modes, reaction, 1 / n_steps)
            errors.append(np.abs(_diffusion_reaction._to_cells(modes) - expected).max())
            estimates.append(np.abs(estimate).max())
        orders = np.log2(np.array(errors[:-1]) / errors[1:])
        assert ((orders > 3.8) & (orders < 4.4)).all(), orders
        # One order less, plus one for a single step.
        orders = np.log2(np.array(estimates[:-1]) / estimates[1:])
        assert ((orders > 3.7) & (orders < 4.5)).all(), orders
        assert errors[-1] < 1e-7

    @pytest.mark.parametrize("tolerance", [1e-5, 1e-7, 1e-9])
    def test_errors_follow_the_tolerance(self, tolerance):
        state, times = np.random.default_rng(1).standard_normal((2, 16, 16)), 0.05 * np.arange(21)
        actual = np.array(list(equation(16, tolerance=tolerance).states(state, tuple(times))))
        errors = np.sqrt(((actual - exact_states(state, times)) ** 2).mean(axis=(1, 2, 3)))
        assert 0.01 * tolerance < errors.max() < 30 * tolerance

    def test_stiff_diffusion_takes_no_more_steps(self):
        # Diffusion of this strength leaves only the means, and would take explicit methods millions of steps.
        model = equation(64, (1e3, 1e3))
        state = np.random.default_rng(2).standard_normal((2, 64, 64)) + np.array([0.7, -0.2])[:, None, None]
        times = (0.0, 0.5, 1.0)
        taken = []
        step = model.step
        model.step = lambda *arguments: taken.append(1) or step(*arguments)
        end = list(model.states(state, times))[-1]
        assert len(taken) < 300
        assert np.ptp(end, axis=(1, 2)).max() < 1e-6
        np.testing.assert_allclose(end[:, 0, 0], exact_ode(state.mean(axis=(1, 2)), times)[-1], atol=1e-4)

    def test_uniform_data_obey_the_ordinary_differential_equation(self):
        times = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
        state = np.broadcast_to(np.array([1.3, -0.4])[:, None, None], (2, 6, 6))
        actual = np.array(list(equation(6).states(state, times)))
        assert np.ptp(actual, axis=(2, 3)).max() < 1e-14
        np.testing.assert_allclose(actual[:, :, 0, 0], exact_ode([1.3, -0.4], times), atol=1e-7)

    def test_equilibrium_stays(self):
        # u = v and u - u^3 - k - u = 0.
        state = np.full((2, 8, 8), -np.cbrt(5e-3))
        for later in equation(8).states(state, (0.0, 1.0, 2.0)):
            np.testing.assert_allclose(later, state, rtol=1e-13)

    def test_diffusion_alone_keeps_the_means_and_damps_each_mode(self):
        model = equation(12, (0.02, 0.3))
        model.reaction = np.zeros_like
        index = np.arange(12) + 0.5
        mode = np.cos(np.pi * 3 * index[:, None] / 12) * np.cos(np.pi * 2 * index / 12)
        state = np.stack([0.3 + mode, -1.1 + 2 * mode])
        *_, end = model.states(state, (0.0, 0.4, 0.8))
        waves = 4 * (np.sin(3 * np.pi / 24) ** 2 + np.sin(2 * np.pi / 24) ** 2) * 6**2
        decayed = [0.3 + np.exp(-0.02 * 0.8 * waves) * mode, -1.1 + 2 * np.exp(-0.3 * 0.8 * waves) * mode]
        np.testing.assert_allclose(end, decayed, atol=1e-13)
        noise = np.random.default_rng(3).standard_normal((2, 12, 12))
        *_, end = model.states(noise, (0.0, 1.0))
        np.testing.assert_allclose(end.mean(axis=(1, 2)), noise.mean(axis=(1, 2)), atol=1e-15)
        *_, end = model.states(noise, (0.0, 1e4))
        np.testing.assert_allclose(end, noise.mean(axis=(1, 2), keepdims=True) + 0 * noise, atol=1e-14)

    def test_phi_functions(self):
        arguments = -np.array([0.0, 1e-9, 1e-3, 0.4, 0.5, 0.6, 3.0, 50.0, 1e5])
        for order, values in enumerate(_diffusion_reaction._phi_functions(arguments), start=1):
            weight = [1, 1, 2][order - 1]
            for argument, value in zip(arguments[:-1], values, strict=False):

                def kernel(s, z=argument, power=order - 1, weight=weight):
                    return np.exp((1 - s) * z) * s**power / weight

                expected, _ = quad(kernel, 0, 1, epsabs=1e-13)
                assert value == pytest.approx(expected, rel=1e-12, abs=1e-14)
            assert values[-1] == pytest.approx([1e-5, 1e-5, 0.5e-5][order - 1], rel=1e-4)


class TestMakeDiffusionReaction:
    def test_solves_the_published_equations(self):
        options = SMALL | {"n_samples": 1, "n_output": 99, "dtype": np.float64}
        frames = frames_of(make_diffusion_reaction(**options))[0]
        expected = exact_states(frames[0], 0.05 * np.arange(101))
        assert max(relative(*pair) for pair in zip(frames, expected, strict=True)) < 1e-6

    def test_noise(self):
        X, _ = make_diffusion_reaction(8, resolution=32, n_input=1, n_output=1, random_state=1, dtype=np.float64)
        assert X.mean() == pytest.approx(0, abs=4 / np.sqrt(X.size))
        assert X.var() == pytest.approx(1, abs=4 * np.sqrt(2 / X.size))
        assert abs((X[:, 1:] * X[:, :-1]).mean()) < 4 / np.sqrt(X.size)
        assert abs((X[..., 0] * X[..., 1]).mean()) < 4 / np.sqrt(X.size / 2)
        louder, _ = make_diffusion_reaction(
            8, resolution=32, n_input=1, n_output=1, amplitude=2, random_state=1, dtype=np.float64
        )
        np.testing.assert_array_equal(louder, 2 * X)

    def test_no_noise_and_no_constant_is_a_state_of_rest(self):
        X, y = make_diffusion_reaction(**SMALL, amplitude=0, k=0)
        assert not X.any()
        assert not y.any()

    def test_parameters_reach_the_equation(self):
        options = SMALL | {"n_samples": 1, "frame_interval": 0.2, "dtype": np.float64}
        frames = frames_of(make_diffusion_reaction(**options, diffusion=(0.03, 0.0), k=0.4))[0]
        expected = exact_states(frames[0], 0.2 * np.arange(5), diffusion=(0.03, 0.0), k=0.4)
        assert relative(frames, expected) < 1e-6

    def test_tolerance_out_of_reach(self):
        with pytest.raises(FieldDataError, match=r"Sample 0: no time step between 0 and 0.05 reaches tolerance=1e-300"):
            make_diffusion_reaction(**SMALL, tolerance=1e-300)
        with pytest.raises(FieldDataError, match=r"Sample 0: no time step .*lower amplitude"):
            make_diffusion_reaction(**SMALL, amplitude=1e200, dtype=np.float64)
