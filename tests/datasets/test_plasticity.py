"""The forging generator: its dies, its arrangement of points, its seeds, and what the block does under a die."""

import sys

import numpy as np
import pytest
from scipy.io import savemat

from skop.datasets import _plasticity as plasticity
from skop.datasets import load_plasticity, make_plasticity
from skop.exceptions import FieldDataError, OptionalDependencyError

SMALL = {"n_points": (13, 5), "n_times": 3, "duration": 1e-4, "dtype": np.float64}


def recipe(**changes):
    settings = {
        "n_points": (21, 7),
        "n_times": 2,
        "size": (50.0, 15.0),
        "n_knots": 8,
        "rise": 7.5,
        "die_speed": 3.0,
        "duration": 2e-3,
        "young_modulus": 200e9,
        "poisson_ratio": 0.3,
        "yield_stress": 70e6,
        "hardening": 0.0,
        "density": 7850.0,
        "base": "sliding",
    }
    return plasticity._Recipe(**settings | changes)


def make(**changes):
    return make_plasticity(**{"n_samples": 2, "random_state": 0, "return_X_y": False} | SMALL | changes)


class TestDie:
    @pytest.mark.parametrize("n_knots", [3, 5, 8])
    def test_the_lowest_point_touches_and_the_ends_are_as_high_as_asked(self, n_knots):
        x = np.linspace(0, 50, 20001)
        for seed in range(20):
            die = plasticity._draw_die(recipe(n_knots=n_knots, rise=4.0), np.random.default_rng(seed))
            assert die(x).min() == pytest.approx(15, abs=1e-5)
            assert die(x).min() >= 15 - 1e-9
            np.testing.assert_allclose(die([0, 50]), 19)

    def test_knots_are_uniform_and_the_curve_is_smooth(self):
        dies = [plasticity._draw_die(recipe(), np.random.default_rng(seed)) for seed in range(400)]
        inner = np.array([die(np.linspace(0, 50, 8)[1:-1]) for die in dies])
        # Undo the scaling: heights relative to the lowest and the ends keep the order of the draws.
        draws = np.array([np.random.default_rng(seed).random(6) for seed in range(400)])
        np.testing.assert_array_equal(np.argsort(inner, axis=1), np.argsort(draws, axis=1))
        inside = np.linspace(0, 50, 8)[1:-1]
        for order in (0, 1, 2):
            np.testing.assert_allclose(dies[0](inside - 1e-9, order), dies[0](inside + 1e-9, order), atol=1e-6)

    def test_beyond_its_ends_the_die_is_straight(self):
        die = plasticity._draw_die(recipe(), np.random.default_rng(0))
        for end, outwards in ((0, -1), (50, 1)):
            np.testing.assert_allclose(die(end + 4.0 * outwards), die(end) + 4 * outwards * die(end, 1))
            np.testing.assert_allclose(die(end + 1e-9 * outwards, 1), die(end - 1e-9 * outwards, 1), atol=1e-6)


class TestBlock:
    def test_points_run_from_the_top_right_to_the_left_and_down(self):
        data = make()
        start = data.response[0, :, :, 0, :2]
        np.testing.assert_allclose(start[0, 0], [0.35, 14.9])
        np.testing.assert_allclose(start[-1, -1], [-49.65, -0.1], atol=1e-12)
        np.testing.assert_allclose(np.diff(start, axis=0), np.broadcast_to([-50 / 12, 0], (12, 5, 2)), atol=1e-12)
        np.testing.assert_allclose(np.diff(start, axis=1), np.broadcast_to([0, -15 / 4], (13, 4, 2)), atol=1e-12)
        np.testing.assert_allclose(
            data.response[..., :2] - data.response[..., 2:], start[:, :, None] + 0 * data.response[..., 2:]
        )

    def test_the_block_is_pressed_below_the_lowest_part_of_the_profile(self):
        data = make(n_points=(41, 5), duration=4e-4, n_times=2)
        for profile, response in zip(data.profile, data.response, strict=True):
            top = response[::-1, 0, -1]
            die = profile - 0.6
            inside = np.interp(top[:, 0] + 49.65, np.linspace(0, 50, 41), die) - top[:, 1] - 0.1
            # Straight between the points of the profile, the die is a little above or below the spline.
            assert inside.min() > -0.05
            pressed = np.argmin(top[:, 3])
            assert abs(pressed - np.argmin(profile)) <= 1
            assert -0.65 < top[pressed, 3] < -0.4

    def test_base(self):
        sliding, clamped = (make(duration=4e-4, base=base).response[..., -1, :, 2:] for base in ("sliding", "clamped"))
        assert not clamped.any()
        assert not sliding[..., 1].any()
        assert sliding[..., 0].any()

    def test_four_times_the_stresses_are_half_the_time(self):
        # Times of motions scale as the length over the root of stress over density.
        one = make(hardening=2e9)
        other = make(hardening=8e9, young_modulus=800e9, yield_stress=280e6, duration=5e-5, die_speed=6.0)
        np.testing.assert_allclose(other.response, one.response, atol=1e-7)
        assert not np.allclose(one.response, make().response, atol=1e-3)


class TestMakePlasticity:
    def test_arrays(self):
        X, y = make_plasticity(2, **SMALL | {"dtype": np.float32}, random_state=0)
        data = make(dtype=np.float32)
        assert X.grid_shape == (13, 5)
        assert X.shape == (2, 65, 1)
        assert y.shape == (2, 13, 5, 12)
        assert y.dtype == X.values.dtype == data.coords.dtype == np.float32
        np.testing.assert_array_equal(y.reshape(data.response.shape), data.response)
        np.testing.assert_array_equal(X.values.reshape(2, 13, 5), np.repeat(data.profile[:, :, None], 5, axis=2))

    def test_the_loader_reads_the_same_from_a_file_of_these_arrays(self, tmp_path):
        data = make(n_samples=3, dtype=np.float32)
        savemat(tmp_path / "plas_N987_T20.mat", {"input": data.profile, "output": data.response})
        loaded = load_plasticity(tmp_path, n_train=2, n_test=1)
        X, y = make_plasticity(3, **SMALL | {"dtype": np.float32}, random_state=0)
        np.testing.assert_array_equal(loaded.X_train.values, X[:2].values)
        np.testing.assert_array_equal(loaded.X_train.coords, X[:2].coords)
        np.testing.assert_array_equal(loaded.y_test, y[2:])
        np.testing.assert_array_equal(loaded.coords, data.coords)
        np.testing.assert_array_equal(loaded.times, data.times)

    def test_neither_jobs_nor_the_number_of_samples_change_a_sample_but_seeds_do(self):
        whole = make(n_samples=3)
        for changes in ({"n_jobs": 2, "n_samples": 3}, {"n_samples": 2}):
            other = make(**changes)
            np.testing.assert_array_equal(other.response, whole.response[: len(other.response)])
            np.testing.assert_array_equal(other.profile, whole.profile[: len(other.profile)])
        assert not np.array_equal(whole.profile[0], whole.profile[1])
        assert not np.array_equal(make(random_state=1).profile, whole.profile[:2])

    def test_a_failure_names_the_sample(self):
        # The die passes a cell before the block can answer.
        with pytest.raises(FieldDataError, match=r"Sample 0: a cell turns inside out. Raise hardening, or lower"):
            make(die_speed=1e4, duration=1e-6)

    def test_missing_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "skfem", None)
        with pytest.raises(OptionalDependencyError, match=r"pip install scikit-fem"):
            make()
