"""FieldErrorDisplay: every kind of data gives the same picture, and the sample asked for."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from skop import FieldSet, LaMORegressor  # noqa: E402
from skop.data import unit_grid  # noqa: E402
from skop.exceptions import FieldDataError  # noqa: E402
from skop.inspection import FieldErrorDisplay  # noqa: E402
from skop.metrics import relative_l2_error  # noqa: E402

GRID = (5, 4)


@pytest.fixture
def fields():
    """Inputs, truths and predictions (6, 5, 4, 1); the error of sample i is `levels[i]`."""
    rng = np.random.default_rng(1)
    X, y = rng.random((2, 6, *GRID, 1))
    levels = np.array([0.3, 0.1, 0.5, 0.2, 0.6, 0.4])
    return X, y, y * (1 + levels[:, None, None, None])


def drawn_values(display):
    return [np.asarray(artist.get_array()).ravel() for artist in display.artists_]


class Recorded:
    """An estimator that answers X + 1 and remembers what it was asked."""

    def predict(self, X):
        self.asked = X
        if isinstance(X, FieldSet):
            return X.with_values(X.values + 1)
        return (X[0], X[1] + 1) if isinstance(X, tuple) else np.asarray(X) + 1


def as_kind(kind, fields):
    """The same fields in each of the forms that estimators accept."""
    coords = unit_grid(GRID)
    flat = fields.reshape(len(fields), -1, 1)
    return {
        "array": fields,
        "list": list(fields),
        "FieldSet": FieldSet(coords, flat, grid_shape=GRID),
        "tuple": (coords, flat),
        "own coordinates": (np.repeat(coords[None], len(fields), axis=0), flat),
    }[kind]


@pytest.mark.parametrize("kind", ["array", "FieldSet", "tuple"])
def test_every_kind_of_data_gives_the_same_picture(fields, kind):
    display = FieldErrorDisplay.from_predictions(*(as_kind(kind, part) for part in fields), sample=2)
    X, y, predicted = (part[2].ravel() for part in fields)
    for drawn, expected in zip(drawn_values(display), [X, y, predicted, predicted - y], strict=True):
        np.testing.assert_allclose(drawn, expected)


def test_targets_may_lack_the_channel_axis(fields):
    X, y, predicted = fields
    display = FieldErrorDisplay.from_predictions(X, y[..., 0], predicted[..., 0], sample=1)
    np.testing.assert_allclose(drawn_values(display)[2], predicted[1].ravel())


def test_only_the_sample_asked_for_is_predicted(fields, subtests):
    for kind in ["array", "list", "FieldSet", "tuple", "own coordinates"]:
        with subtests.test(kind):
            X, y, _ = fields
            estimator = Recorded()
            display = FieldErrorDisplay.from_estimator(estimator, as_kind(kind, X), as_kind(kind, y), sample=-2)
            asked = estimator.asked[1] if isinstance(estimator.asked, tuple) else estimator.asked
            assert len(asked) == 1
            assert display.sample == 4
            np.testing.assert_allclose(drawn_values(display)[1], y[4].ravel())
            np.testing.assert_allclose(drawn_values(display)[2], X[4].ravel() + 1)


@pytest.mark.parametrize(("rank", "sample"), [("worst", 4), ("best", 1), ("median", 0)])
def test_samples_are_found_by_their_error(fields, rank, sample):
    display = FieldErrorDisplay.from_predictions(*fields, sample=rank)
    assert display.sample == sample
    X, y, _ = fields
    errors = relative_l2_error(y, X + 1, average="none")
    ranked = FieldErrorDisplay.from_estimator(Recorded(), X, y, sample=rank)
    place = {"best": 0, "median": 2, "worst": 5}[rank]
    assert errors[ranked.sample] == pytest.approx(np.sort(errors)[place])
    np.testing.assert_allclose(drawn_values(ranked)[2], X[ranked.sample].ravel() + 1)


def test_the_title_states_the_relative_error(fields):
    X, y, predicted = fields
    display = FieldErrorDisplay.from_predictions(X, y, predicted, sample=3)
    assert display.relative_error == pytest.approx(relative_l2_error(y[3:4], predicted[3:4])) == pytest.approx(0.2)
    assert "20 %" in display.axes_[-1].get_title()
    assert "sample 3" in display.axes_[0].get_title()


def test_channels_are_chosen_and_named(fields):
    X, y, predicted = (np.concatenate([part, -part], axis=-1) for part in fields)
    coords = unit_grid(GRID)
    names = ("pressure", "speed")
    truth = FieldSet(coords, y.reshape(6, -1, 2), grid_shape=GRID, channel_names=names)
    display = FieldErrorDisplay.from_predictions(X, truth, predicted, channel=1, input_channel=1)
    np.testing.assert_allclose(drawn_values(display)[0], X[0, ..., 1].ravel())
    np.testing.assert_allclose(drawn_values(display)[1], y[0, ..., 1].ravel())
    assert any(axes.get_ylabel() == "speed" for axes in display.figure_.axes)


def test_functions_are_lines():
    X = np.random.default_rng(0).random((4, 7, 1))
    display = FieldErrorDisplay.from_estimator(Recorded(), X, X**2, sample=1)
    np.testing.assert_allclose(display.artists_[1][1].get_ydata(), X[1, :, 0] + 1)
    np.testing.assert_allclose(display.artists_[0][0].get_ydata(), X[1, :, 0])


def test_parameters_have_no_input_panel(fields):
    _, y, predicted = fields
    display = FieldErrorDisplay.from_predictions(np.arange(12.0).reshape(6, 2), y, predicted)
    assert len(display.axes_) == 3


def test_a_zero_truth_has_an_infinite_error_and_still_a_picture(fields):
    X, y, predicted = fields
    y[0] = 0
    assert FieldErrorDisplay.from_predictions(X, y, predicted + 1).relative_error == np.inf
    predicted[0] = 0
    assert FieldErrorDisplay.from_predictions(X, y, predicted).relative_error == 0


def test_a_fitted_pipeline_is_drawn(fields):
    X, y, _ = fields
    pipeline = make_pipeline(
        FunctionTransformer(np.log), LaMORegressor(width=8, depth=1, max_iter=1, random_state=0)
    ).fit(X, y)
    display = FieldErrorDisplay.from_estimator(pipeline, X, y, sample=5)
    np.testing.assert_allclose(drawn_values(display)[2], pipeline.predict(X)[5].ravel(), rtol=1e-4, atol=1e-6)


def test_draws_into_given_axes(fields):
    figure, axes = pyplot.subplots(2, 2)
    opened = pyplot.get_fignums()
    display = FieldErrorDisplay.from_predictions(*fields, ax=axes)
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes.ravel())
    assert pyplot.get_fignums() == opened


def test_wrong_options_are_named(fields, subtests):
    for options, message in [
        ({"sample": 6}, "sample is 6, but there are 6 samples"),
        ({"sample": -7}, "sample is -7"),
        ({"sample": "largest"}, "'worst', 'median', 'best'"),
        ({"channel": 1}, "channel 1 of y does not exist; it has 1"),
        ({"input_channel": 3}, "channel 3 of X does not exist"),
        ({"ax": [None]}, "ax has 1 axes, expected 4: input"),
    ]:
        with subtests.test(options=options), pytest.raises(ValueError, match=message):
            FieldErrorDisplay.from_predictions(*fields, **options)


def test_scalars_are_refused(fields):
    with pytest.raises(FieldDataError, match="1 scalars per sample, expected fields"):
        FieldErrorDisplay.from_predictions(fields[0], np.arange(6.0), np.arange(6.0))
