"""The Brusselator generator against other integrators, linear stability and conservation laws."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import simpson, solve_ivp
from scipy.linalg import expm

from skop.datasets import _brusselator, _diffusion_reaction, make_brusselator
from skop.exceptions import FieldDataError

SMALL = {"n_samples": 3, "resolution": 8, "n_times": 4, "random_state": 0}
EXACT = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12}
BOTH = {"variables": ("u", "v"), "dtype": np.float64}
#: Forcing of the tests with one sample: amplitude, decay and frequency.
FORCING = (0.8, 0.1, 2.5)


def solve(initial, times, forcing=FORCING, tolerance=1e-9, **options):
    """Solution at evenly spaced times, (times, 2, N, N), with a given forcing."""
    ranges = {name: (value, value) for name, value in zip(("amplitude", "decay", "frequency"), forcing, strict=True)}
    _, y = make_brusselator(
        1,
        resolution=initial.shape[-1],
        n_times=len(times),
        frame_interval=times[1],
        initial=initial,
        tolerance=tolerance,
        random_state=0,
        **ranges,
        **BOTH,
        **options,
    )
    return np.moveaxis(y[0], -1, 1)


def force(t, forcing=FORCING):
    amplitude, decay, frequency = forcing
    return amplitude * np.exp(-decay * t) * np.sin(frequency * t)


def reaction(u, v, t, a=1.0, b=3.0, forcing=FORCING):
    return np.stack([a + force(t, forcing) - (1 + b) * u + u**2 * v, b * u - u**2 * v])


def exact_states(initial, times, diffusion, **constants):
    """Solution at the times by an explicit method with tight tolerances and mirrored cells at the border."""
    shape = initial.shape

    def rate(t, values):
        state = values.reshape(shape)
        padded = np.pad(state, ((0, 0), (1, 1), (1, 1)), mode="edge")
        neighbours = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1] + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2]
        laplacian = (neighbours - 4 * state) * shape[-1] ** 2
        return (np.reshape(diffusion, (2, 1, 1)) * laplacian + reaction(*state, t, **constants)).ravel()

    return solve_ivp(rate, (0, times[-1]), initial.ravel(), t_eval=times, **EXACT).y.T.reshape(-1, *shape)


def mode(n_cells, along_x, along_y):
    """A cosine mode of the discrete Laplacian without flux, and its eigenvalue."""
    index = np.arange(n_cells) + 0.5
    waves = 4 * (np.sin(np.pi * np.array([along_x, along_y]) / (2 * n_cells)) ** 2).sum() * n_cells**2
    return np.cos(np.pi * along_x * index / n_cells)[:, None] * np.cos(np.pi * along_y * index / n_cells), waves


class TestSolver:
    def test_equals_another_integrator(self):
        initial, times = 1 + np.random.default_rng(0).random((2, 7, 7)), 0.3 * np.arange(6)
        actual = solve(initial, times, diffusion=(0.03, 0.01), a=1.2, b=2.5)
        expected = exact_states(initial, times, (0.03, 0.01), a=1.2, b=2.5)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-8)
        assert not np.allclose(expected, exact_states(initial, times, (0.01, 0.03), a=1.2, b=2.5), atol=0.01)

    def test_uniform_state_obeys_the_ordinary_differential_equations(self):
        times = 0.5 * np.arange(21)
        actual = solve(np.full((2, 4, 4), [[[0.7]], [[2.1]]]), times)
        assert np.ptp(actual, axis=(2, 3)).max() < 1e-12
        expected = solve_ivp(lambda t, s: reaction(*s, t), (0, times[-1]), [0.7, 2.1], t_eval=times, **EXACT).y.T
        np.testing.assert_allclose(actual[:, :, 0, 0], expected, atol=1e-6)

    def test_equilibrium_stays(self):
        # u = a and v = b / a; stable, since b < 1 + a^2.
        initial = np.full((2, 6, 6), [[[2.0]], [[1.5]]])
        for later in solve(initial, (0.0, 1.0, 2.0), forcing=(0, 0, 0), a=2.0, b=3.0):
            np.testing.assert_allclose(later, initial, rtol=1e-12)

    def test_small_perturbations_grow_as_the_linearised_equations_say(self):
        for a, b, diffusion, waves, grows in [
            (1.0, 3.0, (1e-2, 1e-3), (2, 1), True),  # oscillates
            (1.0, 3.0, (1e-2, 1e-3), (6, 5), False),  # the same, damped by diffusion
            (2.0, 4.5, (4e-3, 4e-2), (3, 1), True),  # Turing's instability, which a uniform state does not have
            (2.0, 4.5, (4e-3, 4e-2), (0, 0), False),
        ]:
            pattern, eigenvalue = mode(12, *waves)
            jacobian = np.array([[b - 1, a**2], [-b, -(a**2)]]) - eigenvalue * np.diag(diffusion)
            rates, vectors = np.linalg.eig(jacobian)
            assert (rates.real.max() > 0) == grows
            small = 1e-6 * vectors[:, np.argmax(rates.real)].real
            rest = np.array([a, b / a])[:, None, None]
            times = 0.25 * np.arange(9)
            actual = solve(
                rest + small[:, None, None] * pattern, times, (0, 0, 0), 1e-13, a=a, b=b, diffusion=diffusion
            )
            expected = np.array([expm(jacobian * time) @ small for time in times])
            np.testing.assert_allclose(actual - rest, expected[:, :, None, None] * pattern, atol=1e-4 * 1e-6)

    def test_diffusion_alone_keeps_the_means_and_damps_each_mode(self):
        recipe = _brusselator._Recipe(
            10, 10, (0.0, 0.5), (0, 1), 1, 3, (0.02, 0.3), (0, 0), (0, 0), (0, 0), "average", 1e-9
        )
        model = _brusselator._Brusselator(recipe, np.zeros(3))
        model.reaction = np.zeros_like
        pattern, eigenvalue = mode(10, 3, 2)
        state = np.stack([0.3 + pattern, 1.1 + 2 * pattern, 0 * pattern])
        *_, end = model.states(state, (0.0, 0.4, 0.8))
        damped = np.exp(-0.8 * eigenvalue * np.array([0.02, 0.3]))
        np.testing.assert_allclose(end[:2], [0.3 + damped[0] * pattern, 1.1 + 2 * damped[1] * pattern], atol=1e-13)
        noise = np.random.default_rng(1).random((3, 10, 10))
        *_, end = model.states(noise, (0.0, 1.0))
        np.testing.assert_allclose(end.mean(axis=(1, 2)), noise.mean(axis=(1, 2)), atol=1e-14)

    def test_total_amount_follows_its_balance(self):
        # Conversion and diffusion cancel: the mean of u + v grows by a + f - mean(u).
        times = 0.025 * np.arange(81)
        states = solve(0.5 + np.random.default_rng(2).random((2, 8, 8)), times, diffusion=(0.05, 0.01))
        u, v = states.mean(axis=(2, 3)).T
        assert (u + v)[-1] - (u + v)[0] == pytest.approx(simpson(1 + force(times) - u, x=times), abs=1e-7)

    def test_concentrations_stay_positive(self):
        y = solve(np.zeros((2, 4, 4)), 0.25 * np.arange(40), forcing=(1.0, 0.0, 3.0))
        assert y.min() > -1e-8

    def test_fourth_order_in_time(self):
        x = np.cos(np.pi * (np.arange(10) + 0.5) / 10)
        initial = np.stack([1.5 + x[:, None] * x, 2 + x[:, None] ** 2 - x])
        expected = exact_states(initial, [0, 1.0], (1e-2, 1e-3))[-1]
        recipe = _brusselator._Recipe(
            10, 10, (0.0, 1.0), (0, 1), 1, 3, (1e-2, 1e-3), (0, 0), (0, 0), (0, 0), "average", 1e-9
        )
        errors = []
        for n_steps in (20, 40, 80):
            model = _brusselator._Brusselator(recipe, np.array(FORCING))
            modes = _diffusion_reaction._to_modes(np.concatenate([initial, np.zeros((1, 10, 10))]))
            rate = model.reaction(modes)
            for _ in range(n_steps):
                modes, rate, _ = model.step(modes, rate, 1 / n_steps)
            u, v, time = _diffusion_reaction._to_cells(modes)
            np.testing.assert_allclose(time, 1, rtol=1e-13)
            errors.append(np.abs(np.stack([u, v]) - expected).max())
        orders = np.log2(np.array(errors[:-1]) / errors[1:])
        assert ((orders > 3.7) & (orders < 4.5)).all(), orders

    def test_errors_follow_the_tolerance(self):
        options = SMALL | BOTH | {"n_samples": 1, "n_times": 3}
        _, reference = make_brusselator(**options, tolerance=1e-11)
        for tolerance in (1e-4, 1e-6, 1e-8):
            _, y = make_brusselator(**options, tolerance=tolerance)
            error = np.sqrt(((y - reference) ** 2).mean())
            assert 1e-3 * tolerance < error < 30 * tolerance

    def test_second_order_in_space(self):
        options = SMALL | BOTH | {"n_samples": 1, "coarsening": "average", "diffusion": (0.05, 0.02)}
        fields = [make_brusselator(**options, solver_resolution=n_cells)[1] for n_cells in (8, 16, 32, 64)]
        differences = [np.linalg.norm(first - second) for first, second in pairwise(fields)]
        orders = np.log2(np.array(differences[:-1]) / differences[1:])
        assert ((orders > 1.8) & (orders < 2.2)).all(), orders


class TestMakeBrusselator:
    def test_forcing_as_a_field(self):
        X, y = make_brusselator(**SMALL)
        assert (X.grid_shape, X.shape, y.shape) == ((4, 8, 8), (3, 256, 1), (3, 4, 8, 8, 1))
        assert X.dtype == y.dtype == X.coords.dtype == np.float32
        assert X.channel_names == ("forcing",)
        assert X.shared_coords
        coords = X.coords.reshape(4, 8, 8, 3)
        np.testing.assert_allclose(coords[2, 5, 1], [2 / 3, 5.5 / 8, 1.5 / 8], rtol=1e-6)
        P, same = make_brusselator(**SMALL, inputs="parameters")
        np.testing.assert_array_equal(same, y)
        np.testing.assert_array_equal(P.coords, X.coords)
        assert (P.n_channels, P.grid_shape) == (0, (4, 8, 8))
        times = 0.5 * np.arange(4)
        expected = force(times, P.params.T[:, :, None])
        np.testing.assert_allclose(X.to_grid()[:, :, 3, 6, 0], expected, rtol=1e-5)
        assert np.ptp(X.to_grid(), axis=(2, 3)).max() == 0

    def test_targets_solve_the_equations_from_the_default_state(self):
        P, y = make_brusselator(**SMALL | BOTH | {"n_times": 12}, inputs="parameters")
        x = (np.arange(8) + 0.5) / 8
        pattern = np.cos(np.pi * x)[:, None] + np.cos(2 * np.pi * x)[:, None] * np.cos(np.pi * x)
        initial = np.stack([np.ones((8, 8)), 3 + pattern])
        for forcing, fields in zip(P.params, y, strict=True):
            expected = exact_states(initial, 0.5 * np.arange(12), (1e-2, 1e-3), forcing=forcing)
            np.testing.assert_allclose(np.moveaxis(fields, -1, 1), expected, atol=2e-5)

    def test_variables_and_types(self):
        _, both = make_brusselator(**SMALL | BOTH)
        assert both.dtype == np.float64
        _, v = make_brusselator(**SMALL, variables=("v",), dtype=np.float64)
        np.testing.assert_array_equal(v, both[..., 1:])

    def test_ranges_of_the_forcing(self):
        options = {"n_samples": 100, "resolution": 4, "n_times": 2, "frame_interval": 0.01, "inputs": "parameters"}
        ranges = {"amplitude": (0.1, 0.4), "decay": (1, 3), "frequency": (2, 2)}
        X, _ = make_brusselator(**options, **ranges, random_state=0, dtype=np.float64)
        low, high = np.transpose(list(ranges.values()))
        assert ((X.params >= low) & (X.params <= high)).all()
        np.testing.assert_allclose(X.params.mean(axis=0), (low + high) / 2, atol=0.15)

    def test_coarsening(self):
        _, fine = make_brusselator(**SMALL | BOTH | {"resolution": 16})
        X, subsample = make_brusselator(**SMALL | BOTH, solver_resolution=16)
        M, average = make_brusselator(**SMALL | BOTH, solver_resolution=16, coarsening="average")
        np.testing.assert_array_equal(subsample, fine[:, :, ::2, ::2])
        np.testing.assert_allclose(average[:, :, 1, 2], fine[:, :, 2:4, 4:6].mean(axis=(2, 3)), atol=1e-14)
        np.testing.assert_allclose(X.coords[1], [0, 0.5 / 16, 2.5 / 16])
        np.testing.assert_allclose(M.coords[1], [0, 0.5 / 8, 1.5 / 8])

    def test_tolerance_out_of_reach(self):
        with pytest.raises(FieldDataError, match=r"Sample 0: no time step between 0 and 0.5 reaches tolerance=1e-300"):
            make_brusselator(**SMALL, tolerance=1e-300)
