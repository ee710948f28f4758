"""The curve of the phase error is that of the metric, from estimators and predictions, for several models."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from sklearn.base import BaseEstimator  # noqa: E402

from skop.exceptions import FieldDataError  # noqa: E402
from skop.inspection import PhaseErrorDisplay  # noqa: E402
from skop.metrics import phase_error  # noqa: E402


class Shift(BaseEstimator):
    """Moves fields by a number of points along their first axis."""

    def __init__(self, shift):
        self.shift = shift

    def predict(self, X):
        return np.roll(X, self.shift, axis=1)


@pytest.mark.parametrize("shape", [(9,), (6, 8)])
def test_an_estimator_is_drawn_as_the_metric_says(shape):
    X = np.random.default_rng(0).standard_normal((3, *shape, 2))
    display = PhaseErrorDisplay.from_estimator(Shift(1), X, X)
    expected = phase_error(X, np.roll(X, 1, axis=1), grid_shape=shape)
    np.testing.assert_allclose(display.line_.get_ydata(), expected)
    np.testing.assert_array_equal(display.line_.get_xdata(), range(len(expected)))
    if len(shape) == 1:
        np.testing.assert_allclose(expected, 2 * np.pi * np.arange(5) / 9, atol=1e-9)
    assert display.ax_.get_legend() is None


def test_models_share_axes_and_have_their_names():
    X = np.random.default_rng(0).standard_normal((2, 12, 1))
    first = PhaseErrorDisplay.from_estimator(Shift(1), X, X, name="one")
    second = PhaseErrorDisplay.from_predictions(X, np.roll(X, 2, axis=1), grid_shape=(12,), name="two", ax=first.ax_)
    assert second.figure_ is first.figure_
    assert [text.get_text() for text in second.ax_.get_legend().get_texts()] == ["one", "two"]
    angles = 2 * np.pi * np.arange(6) / 6
    np.testing.assert_allclose(second.errors[:6], np.minimum(angles, 2 * np.pi - angles), atol=1e-9)


def test_wave_numbers_below_the_threshold_are_gaps():
    x = np.arange(16) / 16
    X = (np.cos(2 * np.pi * x) + 0.01 * np.cos(6 * np.pi * x))[None, :, None]
    display = PhaseErrorDisplay.from_estimator(Shift(0), X, X)
    assert np.flatnonzero(~np.isnan(display.line_.get_ydata())).tolist() == [1, 3]
    display = PhaseErrorDisplay.from_estimator(Shift(0), X, X, threshold=0.1)
    assert np.flatnonzero(~np.isnan(display.line_.get_ydata())).tolist() == [1]


def test_points_in_no_order_are_refused():
    rng = np.random.default_rng(0)
    X, y = (rng.random((10, 2)), rng.random((2, 10, 1))), rng.random((2, 10, 1))
    with pytest.raises(FieldDataError, match="does not tell its grid"):
        PhaseErrorDisplay.from_predictions(y, y)

    class Same(BaseEstimator):
        def predict(self, X):
            return y

    with pytest.raises(FieldDataError, match="does not tell its grid"):
        PhaseErrorDisplay.from_estimator(Same(), X, y)
