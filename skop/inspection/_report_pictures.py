"""Pictures of a report as inline SVG: fields on meshes and grids, curves, and scalars.

Lines and letters take the colour of the text around them, so that a picture fits a light and a dark page. Fields are
pixels within the SVG, so that large meshes make no large files.

Notation: P points of a sample, d space dimensions.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from itertools import count
from typing import Any

import numpy as np
from scipy.spatial import Delaunay, KDTree

from skop._optional import import_optional
from skop._typing import FloatArray, GridShape, IntArray
from skop.inspection._curves import TrainingCurveDisplay
from skop.inspection._display import set_aspect

__all__ = ["SvgPictures", "triangles_of"]

#: Colour that is replaced by that of the text of the page.
_TEXT = "#0a0b0c"
_STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.edgecolor": _TEXT,
    "axes.titlecolor": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.linewidth": 0.6,
    "axes.prop_cycle": "cycler('color', ['#2f7fc1', '#d97a1e', '#3f9c6b', '#a35fb5'])",
    "legend.frameon": False,
    "path.simplify": True,
}
#: Longest edge of a triangle, in units of the distance to the third neighbour, that is no bridge over a hole.
_BRIDGE = 3.5
#: Number of points that are drawn of a cloud in space.
_DRAWN_POINTS = 5000
_PIXELS_PER_INCH = 144


class SvgPictures:
    """Pictures with captions as elements of a page, on which their identifiers do not clash; it needs matplotlib."""

    def __init__(self) -> None:
        self._matplotlib = import_optional("matplotlib", purpose="draw the pictures of the report")
        self._figure = import_optional("matplotlib.figure", purpose="draw the pictures of the report")
        self._numbers = count()

    def _draw(
        self, size: tuple[float, float], title: str, caption: str, draw: Any, projection: str | None = None
    ) -> str:
        """Draw by a function of the axes of a new figure; the title is for readers who do not see the picture."""
        with self._matplotlib.rc_context(_STYLE):
            figure = self._figure.Figure(figsize=size, layout="constrained")
            draw(figure.add_subplot(projection=projection))
            stream = io.StringIO()
            figure.savefig(stream, format="svg", dpi=_PIXELS_PER_INCH, metadata={"Date": None, "Creator": None})
        svg = _inline(stream.getvalue(), f"p{next(self._numbers)}-", title)
        return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"

    def field(
        self,
        points: FloatArray,
        values: FloatArray,
        *,
        triangles: IntArray | None,
        grid_shape: GridShape | None,
        limits: tuple[float, float],
        name: str,
        word: str,
    ) -> str:
        """Draw a channel of a sample in two or three dimensions; triangles may be None, and errors are around white."""
        low, high = limits if limits[0] < limits[1] else (limits[0] - 1, limits[0] + 1)
        colors = "RdBu_r" if word == "error" else "viridis"
        options: dict[str, Any] = {"cmap": colors, "vmin": low, "vmax": high, "rasterized": True}
        in_space = points.shape[1] > 2

        def draw(axes: Any) -> None:
            if in_space:
                drawn = np.random.default_rng(0).permutation(len(points))[:_DRAWN_POINTS]
                artist = axes.scatter(*points[drawn].T, c=values[drawn], s=4, **options)
                axes.set_aspect("equal")
            elif grid_shape is not None and len(grid_shape) == 2 and min(grid_shape) > 1:
                x, y, field = (item.reshape(grid_shape) for item in (points[:, 0], points[:, 1], values))
                artist = axes.pcolormesh(x, y, field, shading="gouraud", **options)
            else:
                mesh = triangles if triangles is not None else _triangulated(points)
                artist = axes.tripcolor(*points.T, values, triangles=mesh, shading="gouraud", **options)
            if not in_space:
                set_aspect(axes, points)
                axes.spines[:].set_visible(False)
                axes.locator_params(nbins=4)
                axes.tick_params(length=2, labelsize=8)
            bar = axes.figure.colorbar(artist, ax=axes, shrink=0.9, aspect=24)
            bar.outline.set_visible(False)
            bar.ax.tick_params(length=2, labelsize=8)

        caption = f"{name}: {word}, predicted − true" if word == "error" else f"{name}: {word}"
        return self._draw((4.0, 3.3), f"{name}: {word}", caption, draw, "3d" if in_space else None)

    def _chart(
        self, size: tuple[float, float], labels: tuple[str, str], title: str, caption: str, plot: Any, legend: bool
    ) -> str:
        """Draw on axes with labels and a grid, by a function of the axes."""

        def draw(axes: Any) -> None:
            plot(axes)
            axes.set(xlabel=labels[0], ylabel=labels[1])
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color="#888888", alpha=0.25, linewidth=0.5)
            if legend:
                axes.legend()

        return self._draw(size, title, caption, draw)

    def lines(self, x: FloatArray, curves: dict[str, FloatArray], label: str, title: str) -> str:
        """Draw curves by their names."""

        def plot(axes: Any) -> None:
            for name, y in curves.items():
                axes.plot(x, y, label=name, linewidth=1.4)

        return self._chart((4.6, 3.2), ("x", label), title, " and ".join(curves), plot, len(curves) > 1)

    def parity(self, truth: FloatArray, predicted: FloatArray, name: str) -> str:
        """Draw predicted over true scalars, both of shape (n,)."""

        def plot(axes: Any) -> None:
            ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
            axes.plot(ends, ends, color="#888888", linewidth=0.8)
            axes.plot(truth, predicted, "o", markersize=4, alpha=0.7)

        labels = f"{name}, true", "predicted"
        return self._chart((3.8, 3.2), labels, f"{name}: predicted over true", name, plot, False)

    def histogram(self, errors: FloatArray) -> str:
        """Draw how relative errors of shape (n,) are distributed over the samples."""

        def plot(axes: Any) -> None:
            axes.hist(100 * errors, bins=min(30, max(5, len(errors) // 4)), alpha=0.85)
            axes.yaxis.get_major_locator().set_params(integer=True)

        labels, title = ("relative L2 error in %", "samples"), "Number of samples by their error"
        return self._chart((4.6, 2.6), labels, title, "Errors of the test samples", plot, False)

    def training_curve(self, estimator: Any, caption: str) -> str:
        """Draw loss and validation error of an estimator over the epochs."""

        def plot(axes: Any) -> None:
            TrainingCurveDisplay.from_estimator(estimator, ax=axes)

        labels, title = ("epoch", "loss and error"), "Training loss and validation error of each epoch"
        return self._chart((5.6, 3.2), labels, title, caption, plot, True)


def _inline(svg: str, prefix: str, title: str) -> str:
    """Turn an SVG file into an element of a page: no header, own identifiers, the colour of the page, any width."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'(href=")#', rf"\1#{prefix}", svg)
    svg = svg.replace("url(#", f"url(#{prefix}").replace(_TEXT, "currentColor")
    # The size is that of the place on the page; the view box keeps the proportions.
    head, body = svg[: svg.index(">") + 1], svg[svg.index(">") + 1 :]
    box = re.search(r'viewBox="[^"]*"', head)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f"{box.group() if box else ''}>"
    )
    return f"{opening}<title>{escape(title, quote=False)}</title>{body.strip()}"


def triangles_of(cells: Sequence[tuple[str, IntArray]] | None, n_points: int) -> IntArray | None:
    """Triangles (m, 3) of a plane mesh; None where there are none, or cells refer to other points."""
    found = []
    for kind, corners in cells or ():
        if kind.startswith("triangle"):
            found.append(np.asarray(corners)[:, :3])
        elif kind.startswith("quad"):
            found += [np.asarray(corners)[:, [0, 1, 2]], np.asarray(corners)[:, [0, 2, 3]]]
    triangles = np.concatenate(found) if found else np.zeros((0, 3), dtype=int)
    return triangles if len(triangles) and triangles.max() < n_points else None


def _triangulated(points: FloatArray) -> IntArray:
    """Triangles between points, without those that bridge holes and bays."""
    triangles = Delaunay(points).simplices
    if len(points) < 8:
        return triangles
    spacing = KDTree(points).query(points, k=4)[0][:, 3]
    corners = points[triangles]
    edges = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    return triangles[edges < _BRIDGE * spacing[triangles].max(axis=1)]
