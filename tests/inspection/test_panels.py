"""The panels put every value where its point is, and no display needs matplotlib before it draws."""

import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from skop.data import unit_grid  # noqa: E402
from skop.exceptions import FieldDataError, OptionalDependencyError  # noqa: E402
from skop.inspection import (  # noqa: E402
    FieldErrorDisplay,
    FrequencyResponseDisplay,
    PhaseErrorDisplay,
    PoleDisplay,
    ReceptiveFieldDisplay,
    SingularFeatureDisplay,
    TrainingCurveDisplay,
)
from skop.inspection._frequency_response import FrequencyResponse  # noqa: E402


def cell_centres(mesh):
    """Middles of the cells that pcolormesh draws, (rows, columns, 2)."""
    corners = np.asarray(mesh.get_coordinates())
    return (corners[:-1, :-1] + corners[1:, :-1] + corners[:-1, 1:] + corners[1:, 1:]) / 4


def test_maps_have_x_to_the_right_and_y_up():
    coords = unit_grid((5, 3))
    field = coords[:, 0] + 10 * coords[:, 1]
    display = FieldErrorDisplay(coords, field, 2 * field, input_values=-field, grid_shape=(5, 3)).plot()
    for artist, factor in zip(display.artists_, [-1, 1, 2, 1], strict=True):
        centres = cell_centres(artist)
        drawn = np.asarray(artist.get_array()).reshape(centres.shape[:2])
        np.testing.assert_allclose(drawn, factor * (centres[..., 0] + 10 * centres[..., 1]), atol=1e-12)
    left, right = display.axes_[1].get_xlim()
    bottom, top = display.axes_[1].get_ylim()
    assert left < right
    assert bottom < top
    assert display.axes_[0].get_ylabel() == "y"
    assert {panel.get_xlabel() for panel in display.axes_} == {"x"}


def test_pixels_of_the_figure_show_the_orientation():
    coords = unit_grid((4, 4))
    bright_at_high_x = (coords[:, 0] > 0.9).astype(float)
    display = FieldErrorDisplay(coords, bright_at_high_x, bright_at_high_x, grid_shape=(4, 4)).plot(cmap="gray")
    display.figure_.canvas.draw()
    pixels = np.asarray(display.figure_.canvas.buffer_rgba())[..., :3].mean(axis=2)

    def brightness(x, y):
        column, row = display.axes_[0].transData.transform((x, y))
        return pixels[len(pixels) - 1 - round(row), round(column)]

    assert brightness(1.0, 0.3) > 250
    assert brightness(0.3, 1.0) < 5


def test_curvilinear_grids_keep_their_shape():
    radius, angle = np.meshgrid([1.0, 2.0, 3.0], np.linspace(0, 1, 6), indexing="ij")
    coords = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1, 2)
    display = FieldErrorDisplay(coords, radius.ravel(), radius.ravel(), grid_shape=(3, 6)).plot()
    centres = cell_centres(display.artists_[0])[1, 1:-1]
    np.testing.assert_allclose(np.linalg.norm(centres, axis=-1), 2.0, rtol=0.02)


def test_truth_and_prediction_share_one_scale_and_one_bar():
    coords = unit_grid((4, 3))
    truth = np.linspace(0, 1, 12)
    predicted = truth - 0.5
    display = FieldErrorDisplay(coords, truth, predicted, input_values=7 * truth, grid_shape=(4, 3)).plot()
    first, true_map, predicted_map, error_map = display.artists_
    assert true_map.get_clim() == predicted_map.get_clim() == (-0.5, 1.0)
    assert first.get_clim() == (0.0, 7.0)
    assert error_map.get_clim() == (-0.5, 0.5)
    n_color_bars = len(display.figure_.axes) - len(display.axes_)
    assert n_color_bars == 3


def test_a_perfect_prediction_has_a_scale_with_two_ends():
    coords = unit_grid((3, 3))
    display = FieldErrorDisplay(coords, np.ones(9), np.ones(9), grid_shape=(3, 3)).plot()
    low, high = display.artists_[-1].get_clim()
    assert low == -high < 0


def test_boxes_show_the_slice_in_the_middle_of_the_last_axis():
    shape = (4, 3, 5)
    coords = unit_grid(shape)
    field = coords @ [1.0, 10.0, 100.0]
    display = FieldErrorDisplay(coords, field, field, grid_shape=shape).plot()
    drawn = np.asarray(display.artists_[0].get_array()).reshape(4, 3)
    np.testing.assert_array_equal(drawn, field.reshape(shape)[:, :, 2])
    assert "z = 0.5" in display.axes_[0].get_xlabel()


def test_points_in_the_plane_are_drawn_as_points():
    points = np.random.default_rng(0).random((20, 2))
    display = FieldErrorDisplay(points, points[:, 0], points[:, 0]).plot()
    np.testing.assert_array_equal(display.artists_[0].get_offsets(), points)
    np.testing.assert_array_equal(display.artists_[0].get_array(), points[:, 0])


def test_points_in_space_without_a_grid_are_refused():
    points = np.random.default_rng(0).random((20, 3))
    with pytest.raises(FieldDataError, match="20 points in 3-D form no grid"):
        FieldErrorDisplay(points, points[:, 0], points[:, 0]).plot()


def test_lines_follow_x_whatever_the_order_of_the_points():
    x = np.array([0.5, 0.0, 1.0])
    display = FieldErrorDisplay(x[:, None], x**2, x**2 + 0.1, input_values=3 * x).plot()
    (first,), (truth, predicted), (error,) = display.artists_
    expected = [(first, [0, 1.5, 3]), (truth, [0, 0.25, 1]), (predicted, [0.1, 0.35, 1.1]), (error, [0.1] * 3)]
    for line, values in expected:
        assert line.get_xdata().tolist() == [0.0, 0.5, 1.0]
        np.testing.assert_allclose(line.get_ydata(), values)
    assert truth.axes is predicted.axes
    assert len(display.axes_) == 3


def test_long_domains_fill_their_panels():
    coords = unit_grid((6, 3)) * [20.0, 1.0]
    display = FieldErrorDisplay(coords, coords[:, 0], coords[:, 0], grid_shape=(6, 3)).plot()
    assert display.axes_[0].get_aspect() == "auto"


def test_matplotlib_is_asked_for_only_when_drawing(monkeypatch, subtests):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    line, grid = np.linspace(0, 1, 4), unit_grid((3, 3))
    for display in (
        FieldErrorDisplay(grid, grid[:, 0], grid[:, 1]),
        FrequencyResponseDisplay(FrequencyResponse(line, ("input", "mixer", "mlp", "mixer"), line, np.ones((4, 4)))),
        PhaseErrorDisplay(np.zeros(3)),
        PoleDisplay([np.zeros((1, 1, 1), complex)]),
        ReceptiveFieldDisplay(np.ones((3, 3)), (1, 1), grid),
        SingularFeatureDisplay(line[:, None], line, line, grid_shape=(4,)),
        TrainingCurveDisplay([1.0]),
    ):
        words = "pip install matplotlib"
        with subtests.test(type(display).__name__), pytest.raises(OptionalDependencyError, match=words):
            display.plot()
