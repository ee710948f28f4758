"""Travelling waves against the shift theorem, and the upwind scheme against its factor for each wave."""

from itertools import product

import numpy as np
import pytest

from skop.datasets import make_advection

SMALL = {
    "n_samples": 3,
    "resolution": 128,
    "max_wavenumber": 6,
    "spike_wavenumbers": (20, 60),
    "random_state": 0,
    "dtype": np.float64,
}


def waves(fields):
    """Complex amplitudes of the waves, (n, k)."""
    return np.fft.rfft(fields[..., 0], axis=1, norm="forward")


class TestExact:
    def test_every_wave_is_shifted(self):
        for speed, time in [(1.0, 0.25), (0.7, 0.33), (-1.3, 0.4), (0.37, 1000000.4)]:
            X, y = make_advection(**SMALL, speed=speed, time=time)
            wavenumbers = np.arange(65)
            turned = waves(X) * np.exp(-2j * np.pi * wavenumbers * (speed * time % 1))
            np.testing.assert_allclose(waves(y), turned, atol=1e-13)
            assert np.abs(y - X).max() > 0.1

    def test_whole_cells_and_whole_turns(self):
        X, y = make_advection(**SMALL, time=5 / 128)
        np.testing.assert_allclose(y, np.roll(X, 5, axis=1), atol=1e-13)
        X, y = make_advection(**SMALL, speed=-0.5, time=4)
        np.testing.assert_allclose(y, X, atol=1e-13)

    def test_no_time_and_no_speed(self):
        for options, solution in product(({"time": 0}, {"speed": 0.0}), ("exact", "upwind")):
            X, y = make_advection(**SMALL, **options, solution=solution)
            np.testing.assert_array_equal(X, y)


class TestUpwind:
    def test_every_wave_has_its_factor(self):
        for speed, time, cfl, n_steps in [
            (1.0, 0.25, 0.5, 64),
            (1.0, 0.25, 0.3, 107),
            (-0.8, 0.21, 0.45, 48),
            (0.1, 0.3, 0.4, 10),
        ]:
            X, y = make_advection(**SMALL, speed=speed, time=time, cfl=cfl, solution="upwind")
            courant = abs(speed) * time * 128 / n_steps
            assert courant <= cfl < abs(speed) * time * 128 / (n_steps - 1)
            turn = np.exp(-2j * np.pi * np.sign(speed) * np.arange(65) / 128)
            np.testing.assert_allclose(waves(y), waves(X) * (1 - courant * (1 - turn)) ** n_steps, atol=1e-14)

    def test_damping_of_the_docstring(self):
        X, y = make_advection(2, solution="upwind", spike_wavenumbers=(140, 140), random_state=0, dtype=np.float64)
        left = np.abs(waves(y)[0] / waves(X)[0])
        assert left[[10, 20]].round(2).tolist() == [0.79, 0.38]
        assert np.abs(waves(X)[0, 140]) == pytest.approx(0.01)
        assert np.abs(waves(y)[0, 140]) < 1e-15
        # At Courant number 1/2 the phases are exact.
        exact = waves(make_advection(2, spike_wavenumbers=(140, 140), random_state=0, dtype=np.float64)[1])[:, 1:21]
        np.testing.assert_allclose(np.angle(waves(y)[:, 1:21] / exact), 0, atol=1e-12)

    def test_first_order(self):
        smooth = SMALL | {"max_wavenumber": 2, "spike_amplitude": 0}
        errors = []
        for resolution in (256, 512, 1024):
            options = smooth | {"resolution": resolution, "time": 0.3}
            errors.append(np.abs(make_advection(**options, solution="upwind")[1] - make_advection(**options)[1]).max())
        orders = np.log2(np.array(errors[:-1]) / errors[1:])
        assert ((orders > 0.9) & (orders < 1.1)).all(), orders
        assert errors[-1] < 0.02

    def test_keeps_the_sum_and_makes_no_new_extremes(self):
        X, y = make_advection(**SMALL, solution="upwind", cfl=0.9)
        np.testing.assert_allclose(y.sum(axis=1), X.sum(axis=1), atol=1e-12)
        assert (y.max(axis=1) < X.max(axis=1)).all()
        assert (y.min(axis=1) > X.min(axis=1)).all()

    def test_is_a_shift_at_courant_number_one(self):
        X, y = make_advection(**SMALL, solution="upwind", cfl=1, time=37 / 128)
        np.testing.assert_allclose(y, np.roll(X, 37, axis=1), atol=1e-13)


class TestFields:
    def test_waves_have_the_stated_amplitudes(self):
        X, _ = make_advection(**SMALL | {"n_samples": 300}, amplitude_spread=0.4, spike_amplitude=0.03)
        amplitudes = 2 * np.abs(waves(X))
        factors = amplitudes[:, 1:7] * (2 + np.arange(6))
        assert ((factors > 0.6 - 1e-12) & (factors < 1.4 + 1e-12)).all()
        np.testing.assert_allclose(factors.mean(axis=0), 1, atol=4 * 0.4 / np.sqrt(3 * 300))
        assert factors.std() == pytest.approx(0.4 / np.sqrt(3), rel=0.05)
        spikes = amplitudes[:, 7:] > 1e-10
        assert (spikes.sum(axis=1) == 1).all()
        np.testing.assert_allclose(amplitudes[:, 7:][spikes], 0.03)
        wavenumbers = 7 + spikes.argmax(axis=1)
        assert (wavenumbers.min(), wavenumbers.max()) == (20, 60)
        assert amplitudes[:, 0].max() < 1e-14
        phases = np.angle(waves(X)[:, 1:7])
        assert np.abs(np.exp(1j * phases).mean(axis=0)).max() < 4 / np.sqrt(300)

    def test_one_spike_and_none(self):
        amplitudes = np.abs(waves(make_advection(**SMALL | {"spike_wavenumbers": (33, 33)})[0]))
        assert (amplitudes[:, 7:].argmax(axis=1) == 26).all()
        assert np.abs(waves(make_advection(**SMALL, spike_amplitude=0)[0]))[:, 7:].max() < 1e-15

    def test_is_the_same_function_on_every_grid(self):
        fine = make_advection(**SMALL | {"resolution": 384})
        for coarse, field in zip(make_advection(**SMALL), fine, strict=True):
            np.testing.assert_allclose(coarse, field[:, ::3], atol=1e-12)

    def test_more_waves_leave_the_spike(self):
        one, more = (waves(make_advection(**SMALL | {"max_wavenumber": number})[0]) for number in (1, 9))
        np.testing.assert_allclose(one[:, 10:], more[:, 10:], atol=1e-14)

    def test_shapes_types_and_coords(self):
        options = SMALL | {"dtype": np.float32}
        (coords, X), y = make_advection(**options, return_coords=True)
        assert X.shape == y.shape == (3, 128, 1)
        assert X.dtype == y.dtype == coords.dtype == np.float32
        np.testing.assert_array_equal(coords, np.arange(128)[:, None] / np.float32(128))
        np.testing.assert_array_equal(make_advection(**options)[0], X)
