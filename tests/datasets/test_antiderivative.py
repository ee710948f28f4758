"""Antiderivatives of random functions: their derivative, their value at 0, and the covariance."""

import numpy as np

from skop.datasets import make_antiderivative


def test_the_derivative_of_the_target_is_the_input():
    X, y = make_antiderivative(5, n_sensors=1001, random_state=0, dtype=np.float64)
    u, s, step = X.values[..., 0], y.values[..., 0], 1e-3
    np.testing.assert_array_equal(s[:, 0], 0)
    # Fourth-order differences.
    slope = (8 * (s[:, 3:-1] - s[:, 1:-3]) - (s[:, 4:] - s[:, :-4])) / (12 * step)
    np.testing.assert_allclose(slope, u[:, 2:-2], atol=1e-6)
    assert np.abs(u).max() > 0.5


def test_covariance_is_the_stated_one():
    X, _ = make_antiderivative(20000, n_sensors=6, length_scale=0.3, random_state=0, dtype=np.float64)
    x = np.linspace(0, 1, 6)
    expected = np.exp(-((x[:, None] - x) ** 2) / (2 * 0.3**2))
    found = X.values[..., 0].T @ X.values[..., 0] / 20000
    np.testing.assert_allclose(found, expected, atol=5 / np.sqrt(20000))


def test_points_of_the_target_are_free_and_change_nothing():
    points = [0.0, 0.123, 0.9, 0.5, 1.0]
    X, y = make_antiderivative(3, n_sensors=11, query_points=points, random_state=2, dtype=np.float64)
    np.testing.assert_array_equal(y.coords[:, 0], points)
    Z, z = make_antiderivative(3, n_sensors=11, random_state=2, dtype=np.float64)
    np.testing.assert_array_equal(X.values, Z.values)
    np.testing.assert_allclose(y.values[:, [0, 2, 3, 4]], z.values[:, [0, 9, 5, 10]], atol=1e-13)
