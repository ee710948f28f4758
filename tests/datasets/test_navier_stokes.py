"""The Navier-Stokes generator against exact solutions, conservation laws and its promises on seeds."""

import numpy as np
import pytest
import torch
from scipy.integrate import simpson

from skop.datasets import _navier_stokes, make_navier_stokes
from skop.exceptions import FieldDataError

SMALL = {"n_samples": 3, "resolution": 16, "n_input": 2, "n_output": 2, "random_state": 0, "dtype": np.float64}


def recipe(**changes):
    settings = {
        "viscosity": 1e-3, "resolution": 32, "solver_resolution": 32, "times": (1.0,), "alpha": 2.5, "tau": 7.0,
        "amplitude": 1.0, "forcing": 0.0, "method": "rk4", "time_step": None, "coarsening": "subsample",
    }  # fmt: skip
    return _navier_stokes.FlowRecipe(**(settings | changes))


def equation(**changes):
    return _navier_stokes.VorticityEquation(recipe(**changes), torch.device("cpu"), torch.float64)


def square(n_points):
    return np.meshgrid(*[np.arange(n_points) / n_points] * 2, indexing="ij")


def to_modes(fields):
    return torch.fft.rfft2(torch.as_tensor(fields), norm="forward")


def from_modes(modes, n_points):
    return torch.fft.irfft2(modes, s=(n_points, n_points), norm="forward").numpy()


def wave_numbers(n_points):
    numbers = 2 * np.pi * np.fft.fftfreq(n_points, 1 / n_points)
    return numbers[:, None], numbers[None, :]


def derivative(fields, axis):
    k = wave_numbers(fields.shape[-1])[axis]
    return np.fft.ifft2(1j * k * np.fft.fft2(fields)).real


def stream_function(vorticity):
    k_x, k_y = wave_numbers(vorticity.shape[-1])
    squares = k_x**2 + k_y**2
    squares[0, 0] = np.inf
    return np.fft.ifft2(np.fft.fft2(vorticity) / squares).real


def energy_and_enstrophy(vorticity):
    mean = {"axis": (-2, -1)}
    return (stream_function(vorticity) * vorticity).mean(**mean) / 2, (vorticity**2).mean(**mean) / 2


def random_vorticity(n_points=32, seed=0, **changes):
    modes = _navier_stokes._random_modes(np.random.default_rng(seed), recipe(solver_resolution=n_points, **changes))
    return torch.as_tensor(5 * modes)[None]


class TestEquation:
    @pytest.mark.parametrize("method", ["rk4", "euler"])
    def test_vortices_of_taylor_and_green_decay_exactly(self, method):
        x, y = square(32)
        start = 3 * np.sin(4 * np.pi * x) * np.sin(4 * np.pi * y)[None]
        flow = equation(viscosity=0.01, times=(0.0, 0.5), method=method, time_step=None if method == "rk4" else 1e-3)
        states = [from_modes(state, 32) for state in flow.states(to_modes(start))]
        decay = np.exp(-0.01 * 32 * np.pi**2 * 0.5)
        np.testing.assert_allclose(states[0], start, atol=1e-13)
        np.testing.assert_allclose(states[1], decay * start, atol=1e-12 if method == "rk4" else 1e-4)

    def test_tendency_is_advection_and_forcing(self):
        n_points = 32
        flow, vorticity = equation(forcing=0.3), random_vorticity(n_points)
        actual = from_modes(flow.tendency(flow.velocity(vorticity)), n_points)[0]
        # A grid twice as fine holds all products; what the coarse one cannot hold is then cut off.
        fine = refined(vorticity, 64)
        psi = stream_function(fine)
        advection = derivative(psi, 1) * derivative(fine, 0) - derivative(psi, 0) * derivative(fine, 1)
        x, y = square(64)
        forcing = 0.3 * (np.sin(2 * np.pi * (x + y)) + np.cos(2 * np.pi * (x + y)))
        spectrum = np.fft.fft2(forcing - advection)
        k = np.abs(np.fft.fftfreq(64, 1 / 64))
        spectrum[(k > 10)[:, None] | (k > 10)] = 0
        np.testing.assert_allclose(actual, np.fft.ifft2(spectrum).real[::2, ::2], atol=1e-11)

    @pytest.mark.parametrize(("method", "steps", "order"), [("rk4", (8, 16, 32), 4), ("euler", (64, 128, 256), 1)])
    def test_order_in_the_time_step(self, method, steps, order):
        start = random_vorticity()
        ends = [
            equation(times=(0.5,), forcing=0.5, method=method, time_step=0.5 / n).advance(start, 0.5) for n in steps
        ]
        exact = equation(forcing=0.5, time_step=0.5 / 512).advance(start, 0.5)
        errors = np.array([float((end - exact).abs().square().sum().sqrt()) for end in ends])
        orders = np.log2(errors[:-1] / errors[1:])
        assert np.all(np.abs(orders - order) < 0.2), orders

    def test_inviscid_flow_conserves_energy_and_enstrophy(self):
        start, flow = random_vorticity(), equation(viscosity=0.0, time_step=1e-2)
        end = flow.advance(start, 1.0)
        before, after = (np.array(energy_and_enstrophy(from_modes(modes, 32)[0])) for modes in (start, end))
        np.testing.assert_allclose(after, before, rtol=1e-7)
        assert np.abs(from_modes(end - start, 32)).max() > 0.5

    def test_reflected_flow_turns_the_other_way(self):
        start = from_modes(random_vorticity(), 32)
        flow = equation()
        end, reflected = (
            from_modes(flow.advance(to_modes(field), 1.0), 32) for field in (start, -start.swapaxes(1, 2))
        )
        np.testing.assert_allclose(reflected, -end.swapaxes(1, 2), atol=1e-12)
        assert np.abs(end - end.swapaxes(1, 2)).max() > 0.5

    def test_steps_are_each_samples_own(self):
        slow, fast = random_vorticity(seed=1), 3 * random_vorticity(seed=2)
        flow = equation(forcing=0.1)
        together = flow.advance(torch.cat([slow, fast]), 0.7)
        torch.testing.assert_close(together, torch.cat([flow.advance(slow, 0.7), flow.advance(fast, 0.7)]))
        speed = flow.velocity(fast).abs().sum(1).max()
        assert float(flow._longest_step(flow.velocity(fast))) == pytest.approx(0.8 / 32 / float(speed))


def refined(modes, n_points):
    """The field of modes on a finer grid."""
    coarse = modes[0].numpy()
    fine = np.zeros((n_points, n_points // 2 + 1), dtype=complex)
    rows = np.fft.fftfreq(len(coarse), 1 / len(coarse)).astype(int)
    fine[rows[:, None], np.arange(coarse.shape[1])] = coarse
    return np.fft.irfft2(fine, s=(n_points, n_points), norm="forward")


class TestRandomField:
    @pytest.mark.parametrize("changes", [{}, {"alpha": 3.0}, {"tau": 4.0}])
    def test_spectrum(self, changes):
        settings = {"alpha": 2.5, "tau": 7.0} | changes
        draw = recipe(solver_resolution=16, **changes)
        fields = np.array([_navier_stokes._random_modes(np.random.default_rng([5, i]), draw) for i in range(400)])
        k = np.arange(6) ** 2
        # Variance of a wave exp(i k x): that of its covariance operator.
        expected = (
            settings["tau"] ** (2 * settings["alpha"] - 2)
            * (4 * np.pi**2 * (k[:, None] + k) + settings["tau"] ** 2) ** -settings["alpha"]
        )
        ratios = (np.abs(fields[:, :6, :6]) ** 2).mean(axis=0).ravel()[1:] / expected.ravel()[1:]
        assert np.abs(ratios - 1).max() < 0.3
        assert abs(ratios.mean() - 1) < 0.04
        assert not fields[:, 0, 0].any()

    def test_finer_solver_extends_the_same_field(self):
        coarse, fine = (random_vorticity(n)[0].numpy() for n in (16, 48))
        np.testing.assert_array_equal(coarse[:6, :6], fine[:6, :6])
        np.testing.assert_array_equal(coarse[-5:, :6], fine[-5:, :6])
        assert not coarse[6:11].any()
        assert np.abs(fine[6:11]).max() > 1e-4

    def test_amplitude(self):
        np.testing.assert_allclose(random_vorticity(amplitude=3.0), 3 * random_vorticity(), rtol=1e-14)

    def test_first_frame_at_time_zero_is_the_field(self):
        X, _ = make_navier_stokes(**SMALL, first_time=0)
        seed = np.random.SeedSequence(0).spawn(3)[1]
        modes = _navier_stokes._random_modes(np.random.default_rng(seed), recipe(solver_resolution=16))
        np.testing.assert_allclose(X[1, :, :, 0], np.fft.irfft2(modes, s=(16, 16), norm="forward"), atol=1e-14)


class TestMakeNavierStokes:
    def test_shapes_and_coords(self):
        (coords, X), y = make_navier_stokes(3, resolution=12, n_input=4, n_output=2, random_state=0, return_coords=True)
        assert X.shape == (3, 12, 12, 4)
        assert y.shape == (3, 12, 12, 2)
        assert X.dtype == y.dtype == coords.dtype == np.float32
        np.testing.assert_allclose(coords[3, 5], [3 / 12, 5 / 12], rtol=1e-6)

    def test_frames_follow_each_other(self):
        X, y = make_navier_stokes(**SMALL)
        longer_X, longer_y = make_navier_stokes(**SMALL | {"n_input": 3, "n_output": 1})
        np.testing.assert_array_equal(np.concatenate([X, y], axis=-1), np.concatenate([longer_X, longer_y], axis=-1))
        later, _ = make_navier_stokes(**SMALL, first_time=2.0, frame_interval=2.0)
        np.testing.assert_allclose(later, np.stack([X[..., 1], y[..., 1]], axis=-1), atol=1e-4)

    def test_mean_vorticity_stays_zero(self):
        X, y = make_navier_stokes(**SMALL)
        means = np.concatenate([X, y], axis=-1).mean(axis=(1, 2))
        assert np.abs(means).max() < 1e-15

    def test_budgets_of_energy_and_enstrophy(self):
        options = {"resolution": 32, "viscosity": 2e-3, "n_input": 41, "n_output": 40, "frame_interval": 0.02}
        X, y = make_navier_stokes(2, **options, random_state=3, dtype=np.float64)
        frames = np.moveaxis(np.concatenate([X, y], axis=-1), -1, 1)
        energy, enstrophy = energy_and_enstrophy(frames)
        x, y = square(32)
        forcing = 0.1 * (np.sin(2 * np.pi * (x + y)) + np.cos(2 * np.pi * (x + y)))
        gradients = derivative(frames, 0) ** 2 + derivative(frames, 1) ** 2
        mean = {"axis": (-2, -1)}
        energy_rate = (stream_function(frames) * forcing).mean(**mean) - 2 * 2e-3 * enstrophy
        enstrophy_rate = (frames * forcing).mean(**mean) - 2e-3 * gradients.mean(**mean)
        for held, rate in ((energy, energy_rate), (enstrophy, enstrophy_rate)):
            change = simpson(rate, dx=0.02, axis=1)
            np.testing.assert_allclose(held[:, -1] - held[:, 0], change, rtol=1e-5)
            assert (np.abs(change) > 0.01 * held[:, 0]).all()

    def test_resolution_of_the_solver_does_not_change_the_flow(self):
        options = {"n_samples": 2, "resolution": 16, "random_state": 4, "dtype": np.float64, "coarsening": "truncate"}
        coarse, middle, fine = (
            make_navier_stokes(**options, solver_resolution=n, viscosity=5e-3)[1] for n in (20, 32, 64)
        )
        errors = [np.linalg.norm(field - fine) / np.linalg.norm(fine) for field in (coarse, middle)]
        assert errors[1] < 1e-3
        assert errors[0] > 3 * errors[1]

    def test_coarsening(self):
        options = {**SMALL, "first_time": 0, "solver_resolution": 48}
        whole, _ = make_navier_stokes(**options | {"resolution": 48})
        points, _ = make_navier_stokes(**options)
        np.testing.assert_array_equal(points, whole[:, ::3, ::3])
        waves, _ = make_navier_stokes(**options, coarsening="truncate")
        spectra = [np.fft.fft2(field[0, :, :, 0], norm="forward") for field in (whole, waves, points)]
        np.testing.assert_allclose(spectra[1][:8, :8], spectra[0][:8, :8], atol=1e-14)
        assert np.abs(spectra[1][8]).max() < 1e-14
        # Every third point folds fine waves into coarse ones.
        assert np.abs(spectra[2][:8, :8] - spectra[0][:8, :8]).max() > 1e-6

    def test_batches_change_nothing(self):
        X, y = make_navier_stokes(**SMALL)
        for changes in ({"batch_size": 2}, {"batch_size": 1, "n_jobs": 2}):
            other_X, other_y = make_navier_stokes(**SMALL | changes)
            np.testing.assert_allclose(other_X, X[: len(other_X)], atol=1e-12)
            np.testing.assert_allclose(other_y, y[: len(other_y)], atol=1e-12)
        again_X, again_y = make_navier_stokes(**SMALL)
        np.testing.assert_array_equal(again_X, X)
        np.testing.assert_array_equal(again_y, y)
        assert np.abs(X[0] - X[1]).max() > 0.1

    def test_published_scheme_and_single_precision_agree_with_the_default(self):
        exact = make_navier_stokes(**SMALL)[1]
        euler = [make_navier_stokes(**SMALL, method="euler", time_step=step)[1] for step in (1e-2, 5e-3)]
        errors = [np.abs(field - exact).max() for field in euler]
        assert errors[0] < 0.05
        assert errors[0] / errors[1] == pytest.approx(2, abs=0.2)
        single = make_navier_stokes(**SMALL, precision="float32")[1]
        np.testing.assert_allclose(single, exact, atol=1e-4)
        assert not np.array_equal(single, exact)

    def test_without_forcing_the_flow_decays(self):
        X, y = make_navier_stokes(**SMALL, forcing=0.0)
        norms = np.linalg.norm(np.concatenate([X, y], axis=-1), axis=(1, 2))
        assert (np.diff(norms, axis=1) < 0).all()

    def test_flows_that_run_away_are_refused(self):
        with pytest.raises(FieldDataError, match=r"sample\(s\) .*not finite at time .*Lower time_step \(now 1"):
            make_navier_stokes(**SMALL | {"forcing": 1e4, "time_step": 1.0, "n_output": 8})
        with pytest.raises(FieldDataError, match="more than 1,000,000 time steps, with time_step=1e-07"):
            make_navier_stokes(**SMALL, time_step=1e-7)
