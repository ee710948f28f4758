"""What TrainingCurveDisplay draws: the right epochs, the right numbers."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from skop import LaMORegressor, TrainingOptions  # noqa: E402
from skop.inspection import TrainingCurveDisplay  # noqa: E402


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).random((12, 6, 6, 1))
    return X, X**2


def fitted(data, **parameters):
    return LaMORegressor(width=8, depth=1, max_iter=4, random_state=0, **parameters).fit(*data)


def test_draws_loss_and_validation_error_of_each_epoch(data):
    estimator = fitted(data, early_stopping=True, training=TrainingOptions(n_iter_no_change=4))
    display = TrainingCurveDisplay.from_estimator(estimator)
    loss, validation = display.lines_
    assert display.ax_.get_yscale() == "log"
    assert loss.get_xdata().tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(loss.get_ydata(), estimator.loss_curve_)
    np.testing.assert_allclose(1 - validation.get_ydata(), estimator.validation_scores_)
    marker = display.ax_.get_lines()[2]
    assert marker.get_xdata() == estimator.best_iter_
    assert marker.get_ydata() == min(validation.get_ydata())


def test_draws_the_loss_alone_without_validation(data):
    display = TrainingCurveDisplay.from_estimator(fitted(data))
    assert len(display.lines_) == len(display.ax_.get_lines()) == 1


def test_draws_into_given_axes(data):
    figure, ax = pyplot.subplots()
    display = TrainingCurveDisplay.from_estimator(fitted(data), ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert pyplot.get_fignums() == [figure.number]


def test_the_axis_has_readable_ticks_when_the_loss_spans_less_than_a_decade():
    display = TrainingCurveDisplay([0.9, 0.5, 0.15]).plot()
    display.figure_.canvas.draw()
    low, high = display.ax_.get_ylim()
    shown = [float(label.get_text()) for label in display.ax_.get_yticklabels()]
    assert sum(low <= value <= high for value in shown) >= 2


def test_asks_for_a_fit_first():
    with pytest.raises(ValueError, match="LaMORegressor has no loss_curve_; fit it first"):
        TrainingCurveDisplay.from_estimator(LaMORegressor())
