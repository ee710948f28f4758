"""Pictures of four samples of each data set, inputs above outputs, as small files of 900 pixels' width."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from skop._optional import import_optional
from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._full_size import FullSize
from skop.inspection._display import draw_map

__all__ = ["PICTURES", "draw_samples"]

_WIDTH, _DPI, _SAMPLES = 9.0, 100, 4
#: Inches of a panel's width, its least and largest height, and the height from which on a colour bar is beside it.
_PANEL, _LOWEST, _HIGHEST, _LOWEST_FOR_BAR = 1.75, 0.35, 2.3, 1.5
#: Colours of a file.
_LEVELS, _GREYS = 100, 28


@dataclass(frozen=True)
class _Row:
    """One quantity of one sample: a curve over points (P,), a map on a grid (m, n, 2), a cloud (P, 2), or a mesh."""

    label: str
    coords: FloatArray
    #: None draws the points themselves.
    values: FloatArray | None = None
    axes: tuple[str, str] = ("x", "y")
    is_space: bool = True
    #: Part of the plane that is shown: x from, to, y from, to.
    window: tuple[float, float, float, float] | None = None
    title: str = ""
    #: Of how many lines of a mesh one is drawn.
    every: int = 1


@dataclass(frozen=True)
class _Picture:
    """How the rows of a sample follow from X and y, and options of the generator where its size is reduced."""

    rows: Callable[[Any, Any], list[_Row]]
    options: dict[str, Any] = field(default_factory=dict)


def _fields(
    labels: tuple[str, str], X: Any, y: Any, *, channels: tuple[int, int] = (0, 0), axes: tuple[str, str] = ("x", "y")
) -> list[_Row]:
    """One channel of the input, and one of the target."""
    rows = []
    if isinstance(X, tuple):
        X, y = ((X[0], values) for values in (X[1], y))
    for label, item, channel in zip(labels, (X, y), channels, strict=True):
        coords, values = (item.coords, np.asarray(item.values)) if isinstance(item, FieldSet) else item
        coords = coords[..., 0] if coords.shape[-1] == 1 else coords
        rows.append(_Row(label, coords, values[0, ..., channel], axes))
    return rows


def _positions(
    label: str, X: FieldSet, y: FloatArray, *, every: int = 1, window: tuple[float, float, float, float] | None = None
) -> list[_Row]:
    """The points of a sample, and a field on them."""
    coords = X.coords.reshape(*(X.grid_shape or (-1,)), 2)
    values = y.reshape(coords.shape[:-1])
    points = "points" if X.grid_shape is None else f"one line of {every} of the mesh"
    return [_Row(points, coords, every=every, window=window), _Row(label, coords, values, window=window)]


def _parameters(
    label: str,
    names: tuple[str, ...],
    X: FloatArray,
    y: FieldSet,
    *,
    channel: int = 0,
    scale: float = 1.0,
    axes: tuple[str, str] = ("x", "y"),
    is_space: bool = True,
) -> list[_Row]:
    """A field below the parameters, which are the title."""
    words = [f"{name} {value:.4g}" for name, value in zip(names, X[0], strict=True)]
    title = "\n".join(", ".join(words[start : start + 2]) for start in range(0, len(words), 2))
    coords = y.coords.reshape(-1, y.n_dims)
    values = np.asarray(y.values).reshape(len(coords), -1)[:, channel] * scale
    if y.n_dims == 3:
        # The side that is seen against the y axis.
        front = coords[:, 1] < coords[:, 1].min() + 1e-6
        coords, values = coords[front][:, [0, 2]], values[front]
    elif y.grid_shape is not None and min(y.grid_shape) > 1:
        coords, values = coords.reshape(*y.grid_shape, 2), values.reshape(y.grid_shape)
    return [_Row(label, coords, values, axes, is_space, title=title)]


def _joukowski(X: FloatArray, y: FieldSet) -> list[_Row]:
    """The airfoil with its angle of attack, and the pressure along it."""
    coords, pressure = y.coords.reshape(-1, 2), np.asarray(y.values)[0, :, 0]
    outline = _Row("points", coords, title=f"angle {X[0, 0]:.1f} degrees")
    return [outline, _Row("pressure coefficient\n(no unit)", coords[:, 0], pressure, ("x", ""))]


def _brusselator(X: FieldSet, y: FloatArray) -> list[_Row]:
    """The forcing over time, and the concentration at a time when it varies in space."""
    grid = X.coords.reshape(*(X.grid_shape or ()), 3)
    times = 19 * grid[:, 0, 0, 0]
    frame = round(7.5 / 0.5)
    forcing = _Row("forcing (no unit)", times, X.to_grid()[0, :, 0, 0, 0], ("time", ""))
    return [forcing, _Row("concentration u at time 7.5\n(no unit)", grid[-1, ..., 1:], y[0, frame, ..., 0])]


def _plasticity(X: FieldSet, y: FloatArray) -> list[_Row]:
    """The profile of the die, and the block at the last time."""
    position, displacement = y[0, ..., -4:-2], y[0, ..., -2:]
    across = (position - displacement)[::-1, 0, 0]
    die = _Row("height of the die\nat time 0 (mm)", across, X.to_grid()[0, :, 0, 0], ("x (mm)", ""))
    length = np.linalg.norm(displacement, axis=-1)
    return [die, _Row("displacement at the last time (mm)", position, length, ("x (mm)", "y (mm)"))]


_DARCY = partial(_fields, ("permeability (no unit)", "pressure (no unit)"))
PICTURES = {
    "advection": _Picture(partial(_fields, ("u at time 0 (no unit)", "u at time 0.25 (no unit)"))),
    "airfoil": _Picture(
        partial(_positions, "Mach number (no unit)", every=3, window=(-0.5, 1.7, -0.9, 0.9)),
        {"n_cells": (30, 80, 30)},
    ),
    "antiderivative": _Picture(partial(_fields, ("u (no unit)", "antiderivative s (no unit)"))),
    "brusselator": _Picture(_brusselator),
    "cantilever": _Picture(
        partial(
            _parameters,
            "von Mises stress on the side (MPa)",
            ("length", "width", "height", "taper", "load", "position", "angle"),
            channel=3,
            scale=1e-6,
            axes=("x (m)", "z (m)"),
        )
    ),
    "darcy": _Picture(_DARCY),
    "diffusion_reaction": _Picture(
        partial(_fields, ("activator u at time 0.45 (no unit)", "u at time 5 (no unit)"), channels=(-2, -2))
    ),
    "elasticity": _Picture(partial(_positions, "von Mises stress (Pa)")),
    "european_option": _Picture(
        partial(
            _parameters,
            "price (currency)",
            ("rate", "volatility", "dividend", "strike", "maturity", "call"),
            axes=("spot S (currency)", "t / T"),
            is_space=False,
        )
    ),
    "joukowski": _Picture(_joukowski),
    "moving_hole": _Picture(partial(_parameters, "u (no unit)", ("hole at x", "y"))),
    "navier_stokes": _Picture(
        partial(_fields, ("vorticity at time 10 (no unit)", "vorticity at time 20 (no unit)"), channels=(-1, -1))
    ),
    "pdebench_darcy": _Picture(_DARCY),
    "pipe": _Picture(partial(_positions, "horizontal velocity (no unit)", every=8)),
    "plasticity": _Picture(_plasticity, {"n_points": (51, 16)}),
    "shallow_water": _Picture(
        partial(_fields, ("depth at time 0 (no unit)", "depth at time 1 (no unit)"), channels=(0, -1))
    ),
    "wake": _Picture(partial(_parameters, "velocity along x (no unit)", ("time",))),
}


def draw_samples(name: str, full: FullSize, path: Path) -> None:
    """Draw the first four samples of a set.

    Parameters
    ----------
    name : str
        The set, one of `PICTURES`.
    full : FullSize
        How its samples are made.
    path : Path
        PNG file to write.
    """
    picture = PICTURES[name]
    X, y = full.make(_SAMPLES, random_state=0, **full.options | picture.options)
    one = [slice(number, number + 1) for number in range(_SAMPLES)]
    inputs = [(X[0], X[1][part]) if isinstance(X, tuple) else X[part] for part in one]
    _draw([picture.rows(x, y[part]) for x, part in zip(inputs, one, strict=True)], path)


def _draw(samples: list[list[_Row]], path: Path) -> None:
    """Draw one column a sample; a row has one scale of colours, and one of lengths."""
    pyplot = import_optional("matplotlib.pyplot", purpose="draw the pictures of data sets")
    windows = [_window(row) for row in zip(*samples, strict=True)]
    heights = [_height(row[0], window) for row, window in zip(zip(*samples, strict=True), windows, strict=True)]
    n_lines = max(row.title.count("\n") + 1 for row in samples[0])
    # Room for labels, titles and a colour bar below low panels.
    below = 0.7 * (heights[-1] <= _LOWEST_FOR_BAR and samples[0][-1].coords.ndim > 1)
    size = (_WIDTH, sum(heights) + 0.55 * len(heights) + 0.15 * n_lines + below)
    figure, axes = pyplot.subplots(
        len(heights), len(samples), figsize=size, layout="constrained", squeeze=False, height_ratios=heights
    )
    figure.get_layout_engine().set(h_pad=0.1)
    with pyplot.rc_context({"font.size": 8}):
        for panels, row, window, height in zip(axes, zip(*samples, strict=True), windows, heights, strict=True):
            drawn = [_panel(panel, item, window, _limits(row, window)) for panel, item in zip(panels, row, strict=True)]
            for panel in panels:
                panel.set_xlabel(row[0].axes[0], fontsize=8)
                panel.tick_params(labelsize=7, labelleft=panel is panels[0])
                panel.locator_params(axis="x", nbins=3)
                panel.locator_params(axis="y", nbins=max(1, min(3, round(3 * height))))
            is_curve = row[0].coords.ndim == 1
            panels[0].set_ylabel(row[0].label if is_curve else row[0].axes[1], fontsize=8)
            if drawn[0] is not None:
                # A label is longer than a low panel is high.
                place = "right" if height > _LOWEST_FOR_BAR else "bottom"
                bar = figure.colorbar(drawn[0], ax=list(panels), location=place, aspect=30, pad=0.01)
                bar.set_label(row[0].label, fontsize=8)
                bar.ax.tick_params(labelsize=7)
                bar.outline.set_linewidth(0.5)
            elif not is_curve and not row[0].title:
                panels[0].set_title(row[0].label, fontsize=8)
        _save(figure, path)
    pyplot.close(figure)


def _window(row: tuple[_Row, ...]) -> tuple[float, float, float, float]:
    """The part of the plane that all samples of a row fill."""
    if row[0].window is not None:
        return row[0].window
    if row[0].coords.ndim == 1:
        parts = [np.stack([item.coords, np.asarray(item.values)], axis=-1) for item in row]
    else:
        parts = [item.coords.reshape(-1, 2) for item in row]
    points = np.concatenate(parts)
    (left, low), (right, high) = points.min(axis=0), points.max(axis=0)
    # Half a cell around the outermost points of a grid.
    margin = 0.5 / (min(row[0].coords.shape[:2]) - 1) if row[0].coords.ndim == 3 else 0.03
    across, up = margin * (right - left), margin * (high - low)
    return left - across, right + across, low - up, high + up


def _height(row: _Row, window: tuple[float, float, float, float]) -> float:
    """Height of a panel in inches."""
    if row.coords.ndim == 1:
        return 1.2
    if not row.is_space:
        return _PANEL
    left, right, low, high = window
    return float(np.clip(_PANEL * (high - low) / (right - left), _LOWEST, _HIGHEST))


def _limits(row: tuple[_Row, ...], window: tuple[float, float, float, float]) -> tuple[float, float]:
    """The range of the values of all samples, in the window."""
    left, right, low, high = window
    seen = []
    for item in row:
        if item.values is not None and item.coords.ndim > 1:
            x, y = item.coords[..., 0], item.coords[..., 1]
            seen.append(item.values[(x >= left) & (x <= right) & (y >= low) & (y <= high)])
    values = np.concatenate(seen) if seen else np.zeros(1)
    return float(values.min()), float(values.max())


def _panel(panel: Any, row: _Row, window: tuple[float, float, float, float], limits: tuple[float, float]) -> Any:
    """Draw one quantity of one sample; what is returned has a scale of colours."""
    panel.set(xlim=window[:2], ylim=window[2:], title=row.title)
    panel.title.set_fontsize(7)
    if row.coords.ndim == 1:
        panel.plot(row.coords, row.values, color="0.2", linewidth=1)
        return None
    if row.is_space:
        panel.set_aspect("equal")
    x, y = row.coords[..., 0], row.coords[..., 1]
    options = {"vmin": limits[0], "vmax": limits[1], "cmap": "viridis"}
    if row.coords.ndim == 3 and row.values is not None:
        return draw_map(panel, x, y, row.values, **options)
    if row.coords.ndim == 3:
        for first, second in ((x[:: row.every], y[:: row.every]), (x.T[:: row.every], y.T[:: row.every])):
            panel.plot(first.T, second.T, color="0.2", linewidth=0.4)
        return None
    # Points about as large as the distance to their neighbours.
    size = 0.8 * 72**2 * _PANEL * _height(row, window) / len(x)
    if row.values is None:
        panel.plot(x, y, ".", color="0.3", markersize=1.5)
        return None
    return panel.scatter(x, y, c=row.values, s=min(size, 12), linewidths=0, **options)


def _save(figure: Any, path: Path) -> None:
    """Write a PNG file whose palette is that of the colour bars, and greys: small, and without bands."""
    image = import_optional("PIL.Image", purpose="write small pictures")
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=_DPI)
    colours = import_optional("matplotlib", purpose="write small pictures").colormaps["viridis"]
    levels = [*colours(np.linspace(0, 1, _LEVELS))[:, :3], *np.linspace([0] * 3, [1] * 3, _GREYS)]
    palette = image.new("P", (1, 1))
    palette.putpalette(np.rint(255 * np.array(levels)).astype(np.uint8).tobytes())
    image.open(stream).convert("RGB").quantize(palette=palette, dither=image.Dither.NONE).save(path, optimize=True)
