"""Panels of `FieldErrorDisplay`: curves in one dimension, maps in two, slices in three.

Notation: P points, d space dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape
from skop.exceptions import FieldDataError

__all__ = ["cell_corners", "draw_lines", "draw_maps", "nearly_square", "panel_titles"]

#: Ratio of length to width above which a map fills its panel instead of having equal units on both axes.
_LONGEST_ASPECT = 4.0


def panel_titles(has_input: bool, on_line: bool, relative_error: float, sample: int | None) -> list[str]:
    """Return the titles of the panels from left to right.

    Parameters
    ----------
    has_input : bool
        Whether there is a panel for the input.
    on_line : bool
        Whether truth and prediction are curves in the same panel.
    relative_error : float
        Relative L2 error of the sample.
    sample : int or None
        Index of the sample.

    Returns
    -------
    list of str
        One title for each panel.

    Examples
    --------
    >>> from skop.inspection._panels import panel_titles
    >>> panel_titles(False, True, 0.0213, None)
    ['truth and prediction', 'error (relative L2: 2.13 %)']
    """
    middle = ["truth and prediction"] if on_line else ["truth", "prediction"]
    titles = [*(["input"] if has_input else []), *middle, f"error (relative L2: {100 * relative_error:.3g} %)"]
    if sample is not None:
        titles[0] = f"{titles[0]}, sample {sample}"
    return titles


def draw_lines(display: Any, axes: Any) -> list[Any]:
    """Draw fields in one dimension as curves.

    Parameters
    ----------
    display : FieldErrorDisplay
        Display to draw.
    axes : sequence of matplotlib Axes
        Panels for the input if there is one, for truth and prediction, and for the error.

    Returns
    -------
    list of list of matplotlib Line2D
        The curves of each panel.
    """
    order = np.argsort(display.coords[:, 0], kind="stable")
    x = display.coords[order, 0]
    *first, middle, last = axes
    drawn = [panel.plot(x, display.input_values[order], color="0.35") for panel in first]
    truth = middle.plot(x, display.true_values[order], color="C0", linewidth=2.5, alpha=0.6, label="truth")
    truth += middle.plot(x, display.predicted_values[order], "--", color="C3", label="prediction")
    middle.legend(frameon=False)
    drawn += [truth, last.plot(x, (display.predicted_values - display.true_values)[order], color="C3")]
    last.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    middle.set_ylabel(display.name or "")
    for panel in axes:
        panel.set_xlabel("x")
        panel.ticklabel_format(axis="y", scilimits=(-2, 4), useMathText=True)
    return drawn


def draw_maps(display: Any, axes: Any, cmaps: tuple[str, str, str]) -> list[Any]:
    """Draw fields in the plane, or the middle slice of a box, as coloured maps with colour bars.

    Parameters
    ----------
    display : FieldErrorDisplay
        Display to draw.
    axes : sequence of matplotlib Axes
        Panels for the input if there is one, the truth, the prediction and the error.
    cmaps : tuple of str
        Colour maps of the input, of truth and prediction, and of the error.

    Returns
    -------
    list of matplotlib artists
        The map of each panel.

    Raises
    ------
    FieldDataError
        If points in three dimensions form no grid.
    """
    picked, shape, place = _plane(display.coords, display.grid_shape)
    coords = display.coords[picked]
    truth, predicted = display.true_values[picked], display.predicted_values[picked]
    error = predicted - truth
    low, high = min(truth.min(), predicted.min()), max(truth.max(), predicted.max())
    # A colour scale needs two different ends, also for an error of zero everywhere.
    largest = float(np.abs(error).max()) or 1.0
    panels = [(truth, cmaps[1], low, high), (predicted, cmaps[1], low, high), (error, cmaps[2], -largest, largest)]
    if display.input_values is not None:
        values = display.input_values[picked]
        panels.insert(0, (values, cmaps[0], values.min(), values.max()))
    maps = [_map(panel, coords, shape, *content) for panel, content in zip(axes, panels, strict=True)]
    _add_color_bars(display.figure_, maps, list(axes), display.name)
    axes[0].set_ylabel("y")
    for panel in axes:
        panel.set_xlabel(f"x{place}")
        # Few ticks, so that the labels of neighbouring maps do not overlap.
        panel.locator_params(axis="x", nbins=3)
        panel.tick_params(left=panel is axes[0], labelleft=panel is axes[0])
        panel.set_aspect("equal" if nearly_square(coords) else "auto")
    return maps


def _plane(coords: FloatArray, grid_shape: GridShape | None) -> tuple[Any, GridShape | None, str]:
    """Return the points to draw, their grid, and a description of the slice."""
    everything = np.arange(len(coords))
    if coords.shape[1] == 2:
        return everything, grid_shape if grid_shape is not None and len(grid_shape) == 2 else None, ""
    if grid_shape is None or len(grid_shape) != 3:
        raise FieldDataError(
            f"the {len(coords)} points in {coords.shape[1]}-D form no grid, so they have no middle slice to draw; "
            "resample them onto a grid, or write them to a file for a 3-D viewer."
        )
    picked = everything.reshape(grid_shape)[:, :, grid_shape[2] // 2].ravel()
    heights = coords[picked, 2]
    is_flat = np.ptp(heights) <= 1e-6 * max(float(np.ptp(coords[:, 2])), np.finfo(float).tiny)
    return picked, grid_shape[:2], f"  (slice z = {heights[0]:.3g})" if is_flat else "  (middle slice)"


def _map(
    panel: Any, coords: FloatArray, shape: GridShape | None, values: FloatArray, cmap: str, low: float, high: float
) -> Any:
    """One map: coloured cells around the points of a grid, or coloured points."""
    options = {"cmap": cmap, "vmin": low, "vmax": high, "rasterized": True}
    x, y = coords[:, 0], coords[:, 1]
    if shape is None or min(shape) < 2:
        return panel.scatter(x, y, c=values, s=max(1.0, 3000 / len(values)), **options)
    # Both coordinates are given for every corner, so either axis of the grid can be x.
    return panel.pcolormesh(
        cell_corners(x.reshape(shape)), cell_corners(y.reshape(shape)), values.reshape(shape), **options
    )


def cell_corners(centres: FloatArray) -> FloatArray:
    """Return the corners of the cells around grid points; points of the border lie inside, too.

    Parameters
    ----------
    centres : ndarray of shape (m, n)
        One coordinate of the points.

    Returns
    -------
    ndarray of shape (m + 1, n + 1)
        The same coordinate of the corners.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection._panels import cell_corners
    >>> cell_corners(np.array([[0.0, 0.0], [1.0, 1.0]]))[:, 0]
    array([-0.5,  0.5,  1.5])
    """
    for axis in (0, 1):
        lines = np.moveaxis(centres, axis, 0)
        beyond = np.concatenate([2 * lines[:1] - lines[1:2], lines, 2 * lines[-1:] - lines[-2:-1]])
        centres = np.moveaxis((beyond[:-1] + beyond[1:]) / 2, 0, axis)
    return centres


def _add_color_bars(figure: Any, maps: list[Any], axes: list[Any], name: str | None) -> None:
    """Add a colour bar for the input, one for truth and prediction together, and one for the error."""
    *first, truth, _, error = maps
    *first_axes, truth_axes, predicted_axes, error_axes = axes
    bars = [figure.colorbar(drawn, ax=panel) for drawn, panel in zip(first, first_axes, strict=True)]
    bars.append(figure.colorbar(truth, ax=[truth_axes, predicted_axes], label=name or ""))
    bars.append(figure.colorbar(error, ax=error_axes))
    for bar in bars:
        bar.formatter.set_powerlimits((-2, 4))
        bar.formatter.set_useMathText(True)
        # By default the power of ten extends to the left of the bar and pushes it away from its panel.
        bar.ax.yaxis.set_offset_position("left")
        bar.outline.set_linewidth(0.5)


def nearly_square(coords: FloatArray) -> bool:
    """Tell whether both axes are of similar extent, so that equal units make a readable map.

    Parameters
    ----------
    coords : ndarray of shape (P, 2)
        Points.

    Returns
    -------
    bool
        Whether the ratio of the extents is small.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection._panels import nearly_square
    >>> nearly_square(np.array([[0.0, 0.0], [1.0, 1.5]])), nearly_square(np.array([[0.0, 0.0], [1.0, 9.0]]))
    (True, False)
    """
    width, height = np.ptp(coords[:, 0]), np.ptp(coords[:, 1])
    return bool(max(width, height) <= _LONGEST_ASPECT * min(width, height))
