"""Gradients on grids and triangulations are exact for linear fields and independent of the frame and of units."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from sklearn.base import BaseEstimator  # noqa: E402

from skop.data import unit_grid  # noqa: E402
from skop.exceptions import FieldDataError  # noqa: E402
from skop.inspection import FieldErrorDisplay, SingularFeatureDisplay  # noqa: E402


def uneven(*sizes):
    """A straight grid with uneven distances."""
    rng = np.random.default_rng(0)
    lines = [np.cumsum(0.1 + rng.random(size)) for size in sizes]
    return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(sizes))


def sheared():
    x, y = unit_grid((6, 5)).T
    return np.column_stack([x + 0.3 * y**2, 2 * y + 0.2 * np.sin(3 * x)])


def cloud(n_dims, size=60):
    return np.random.default_rng(1).random((size, n_dims)) * [1, 3, 2][:n_dims]


PLACES = {
    "line": (uneven(7), (7,)),
    "points on a line": (cloud(1), None),
    "straight": (uneven(6, 5), (6, 5)),
    "curvilinear": (sheared(), (6, 5)),
    "box": (uneven(4, 3, 5), (4, 3, 5)),
    "points": (cloud(2), None),
    "points in a box": (cloud(3), None),
}


def gradient(coords, values, grid_shape):
    return SingularFeatureDisplay(coords, values, values, grid_shape=grid_shape).true_gradient


def test_linear_fields_have_their_exact_gradient_everywhere(subtests):
    for name in PLACES:
        for offset in [0.0, 1e4]:
            with subtests.test(name=name, offset=offset):
                coords, shape = PLACES[name]
                slope = np.array([3.0, -4.0, 12.0])[: coords.shape[1]]
                found = gradient(coords + offset, offset + coords @ slope, shape)
                np.testing.assert_allclose(found, np.linalg.norm(slope), rtol=1e-12 if offset == 0 else 1e-6)


@pytest.mark.parametrize("name", ["straight", "curvilinear", "points"])
def test_rotations_and_reflections_change_nothing(name):
    coords, shape = PLACES[name]
    values = np.random.default_rng(2).standard_normal(len(coords))
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    expected = gradient(coords, values, shape)
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(gradient(coords @ turn, values, shape), expected, rtol=1e-9)
    np.testing.assert_allclose(gradient(coords * [-1, 1] + [5, 2], values, shape), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["points on a line", "points", "points in a box"])
def test_the_order_of_points_does_not_matter(name):
    coords, _ = PLACES[name]
    values = np.sin(4 * coords).sum(axis=1)
    order = np.random.default_rng(3).permutation(len(coords))
    np.testing.assert_allclose(
        gradient(coords[order], values[order], None), gradient(coords, values, None)[order], rtol=1e-9
    )


def test_grids_have_central_differences_over_true_distances():
    coords = uneven(6, 5)
    values = np.exp(coords[:, 0]) * np.cos(coords[:, 1])
    field, x, y = (array.reshape(6, 5) for array in (values, coords[:, 0], coords[:, 1]))
    along_x = (field[2:, 1:-1] - field[:-2, 1:-1]) / (x[2:, 1:-1] - x[:-2, 1:-1])
    along_y = (field[1:-1, 2:] - field[1:-1, :-2]) / (y[1:-1, 2:] - y[1:-1, :-2])
    found = gradient(coords, values, (6, 5)).reshape(6, 5)
    np.testing.assert_allclose(found[1:-1, 1:-1], np.hypot(along_x, along_y), rtol=1e-10)
    steps = x[1, 0] - x[0, 0], y[0, 1] - y[0, 0]
    corner = (field[1, 0] - field[0, 0]) / steps[0], (field[0, 1] - field[0, 0]) / steps[1]
    assert found[0, 0] == pytest.approx(np.hypot(*corner))


def test_points_have_the_mean_of_their_triangles_by_area():
    # A square of side 2 with a point in its middle but for 0.5: four triangles, whose slopes are known.
    coords = np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1], [0.5, 0]])
    values = np.array([0.0, 0, 0, 0, 3.0])
    # Slopes lead from the opposite sides to the point; areas are half of 2 times the distances 0.5, 1.5, 1, 1.
    slopes, areas = np.array([[-6.0, 0], [2, 0], [0, 3], [0, -3]]), np.array([0.5, 1.5, 1, 1])
    found = gradient(coords, values, None)
    assert found[4] == pytest.approx(np.linalg.norm(areas @ slopes / areas.sum()), abs=1e-12)
    # The corner above on the right: the triangles on the right and above.
    assert found[2] == pytest.approx(np.linalg.norm((0.5 * slopes[0] + slopes[3]) / 1.5))


def test_coinciding_points_and_flat_axes_are_finite():
    coords = np.concatenate([cloud(2), cloud(2)[:3]])
    np.testing.assert_allclose(gradient(coords, coords @ [3.0, 4.0], None), 5)
    # The first and last points of a closed ring coincide; a pole has a whole side of a grid in one point.
    radius, angle = np.meshgrid([0.0, 1.0, 2.0], np.linspace(0, 2 * np.pi, 9), indexing="ij")
    disk = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1, 2)
    found = gradient(disk, disk @ [3.0, 4.0], (3, 9)).reshape(3, 9)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1:], 5)
    np.testing.assert_allclose(gradient(uneven(4, 1), 2 * uneven(4, 1)[:, 0], (4, 1)), 2)


def test_points_on_a_line_of_the_plane_are_refused():
    line = np.linspace(0, 1, 9)[:, None] * [1.0, 2.0]
    with pytest.raises(FieldDataError, match="9 points in 2-D span no triangulation"):
        gradient(line, line[:, 0], None)
    with pytest.raises(FieldDataError, match="2 points in 2-D span no triangulation"):
        gradient(line[:2], line[:2, 0], None)


# ---------------------------------------------------------------------- the error
@pytest.mark.parametrize("name", ["line", "curvilinear", "points"])
def test_the_error_is_in_powers_of_ten_and_has_no_units(name):
    coords, shape = PLACES[name]
    rng = np.random.default_rng(4)
    true, predicted = rng.standard_normal((2, len(coords)))

    def error(coords, true, predicted):
        return SingularFeatureDisplay(coords, true, predicted, grid_shape=shape).gradient_error

    assert error(coords, true, true) == 0
    assert error(coords, true, 5 - 0.01 * true) == pytest.approx(2)
    expected = error(coords, true, predicted)
    assert 0.1 < expected < 2
    assert error(1e3 * coords, 1e-5 * true, 1e-5 * predicted) == pytest.approx(expected)


def test_constants_are_finite():
    coords, values = uneven(4, 4), np.arange(16.0)
    flat = np.full(16, 2.0)
    assert SingularFeatureDisplay(coords, flat, flat, grid_shape=(4, 4)).gradient_error == 0
    # A fraction of 1e-4 of the largest gradient stands for zero.
    line = uneven(5)
    assert SingularFeatureDisplay(line, line[:, 0], line[:, 0] * 0, grid_shape=(5,)).gradient_error == pytest.approx(4)
    assert SingularFeatureDisplay(line, line[:, 0] * 0, line[:, 0], grid_shape=(5,)).gradient_error == pytest.approx(4)
    display = SingularFeatureDisplay(coords, flat, values, grid_shape=(4, 4)).plot()
    display.figure_.canvas.draw()


# ---------------------------------------------------------------------- pictures
def test_the_second_row_shows_the_logarithms():
    coords = sheared()
    true = np.sin(3 * coords[:, 0]) + coords[:, 1] ** 2
    display = SingularFeatureDisplay(coords, true, 1.1 * true, grid_shape=(6, 5), sample=3, name="u").plot()
    assert display.axes_.shape == (2, 3)
    expected = [true, 1.1 * true, 0.1 * true]
    logarithm = np.log10(gradient(coords, true, (6, 5)))
    expected += [logarithm, logarithm + np.log10(1.1), np.full(30, np.log10(1.1))]
    drawn = [*display.fields_.artists_, *display.gradients_.artists_]
    for artist, values in zip(drawn, expected, strict=True):
        np.testing.assert_allclose(np.asarray(artist.get_array()).ravel(), values, atol=1e-9)
    titles = [panel.get_title() for panel in display.axes_.ravel()]
    assert titles[:3] == ["truth, sample 3", "prediction", "error (relative L2: 10 %)"]
    assert titles[3:] == ["truth", "prediction", "error (rms: 0.041 powers of ten)"]
    labels = [axes.get_ylabel() for axes in display.figure_.axes[6:]]
    assert labels == ["u", "", r"$\log_{10} |\nabla u|$", ""]


def test_points_and_lines_are_drawn_too():
    coords = cloud(2)
    display = SingularFeatureDisplay(coords, coords[:, 0] ** 2, coords[:, 1]).plot()
    np.testing.assert_allclose(display.gradients_.artists_[1].get_offsets(), coords)
    line = uneven(7)
    display = SingularFeatureDisplay(line, line[:, 0] ** 2, line[:, 0], grid_shape=(7,)).plot()
    assert display.axes_.shape == (2, 2)
    np.testing.assert_allclose(
        display.gradients_.artists_[0][0].get_ydata(), np.log10(gradient(line, line[:, 0] ** 2, (7,)))
    )


class Scaled(BaseEstimator):
    """Fields times a factor of the sample."""

    def predict(self, X):
        _, fields = X
        return fields * (1 + fields[:, :1])


def test_from_estimator_picks_samples_as_the_display_of_fields_does():
    coords = cloud(2)
    fields = np.random.default_rng(5).random((4, len(coords), 2))
    X = (coords, fields)
    for sample in (2, "worst", "median"):
        display = SingularFeatureDisplay.from_estimator(Scaled(), X, fields, sample=sample, channel=1)
        other = FieldErrorDisplay.from_estimator(Scaled(), X, fields, sample=sample, channel=1)
        assert display.sample == other.sample
        np.testing.assert_array_equal(display.true_values, other.true_values)
        np.testing.assert_array_equal(display.predicted_values, other.predicted_values)
        np.testing.assert_array_equal(display.true_gradient, gradient(coords, other.true_values, None))


def test_given_axes_must_fit():
    coords = sheared()
    display = SingularFeatureDisplay(coords, coords[:, 0], coords[:, 1], grid_shape=(6, 5))
    _, axes = pyplot.subplots(2, 3)
    assert display.plot(ax=axes).figure_ is axes[0, 0].figure
    with pytest.raises(ValueError, match="ax has 4 axes, expected 6, in two rows of 3"):
        display.plot(ax=axes[:, :2])
