"""Pictures of a report as inline SVG: fields on meshes and grids, curves, and scalars.

Lines and letters take the colour of the text around them, so that a picture fits a light and a dark page. Fields are
pixels within the SVG, so that large meshes make no large files.

Notation: P points of a sample, d space dimensions.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
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
    """Pictures as SVG elements, whose identifiers do not clash on one page.

    Raises
    ------
    OptionalDependencyError
        If matplotlib is not installed.
    """

    def __init__(self) -> None:
        self._matplotlib = import_optional("matplotlib", purpose="draw the pictures of the report")
        self._figure = import_optional("matplotlib.figure", purpose="draw the pictures of the report")
        self._numbers = count()

    def _draw(self, draw: Any, size: tuple[float, float], title: str) -> str:
        """Draw on axes of a new figure, and return the picture."""
        with self._matplotlib.rc_context(_STYLE):
            figure = self._figure.Figure(figsize=size, layout="constrained")
            draw(figure)
            stream = io.StringIO()
            figure.savefig(stream, format="svg", dpi=_PIXELS_PER_INCH, metadata={"Date": None, "Creator": None})
        return _inline(stream.getvalue(), f"p{next(self._numbers)}-", title)

    def field(
        self,
        points: FloatArray,
        values: FloatArray,
        *,
        triangles: IntArray | None,
        grid_shape: GridShape | None,
        limits: tuple[float, float],
        diverges: bool,
        title: str,
    ) -> str:
        """Draw one channel of a sample in two or three dimensions.

        Parameters
        ----------
        points : ndarray of shape (P, d)
            Points.
        values : ndarray of shape (P,)
            Values.
        triangles : ndarray of shape (m, 3) or None
            Triangles of the mesh; None makes them from the points.
        grid_shape : tuple of int or None
            Number of points along each axis, if the points form a grid.
        limits : tuple of float
            Values at the ends of the colour scale.
        diverges : bool
            Whether the scale is for errors, with white at its centre.
        title : str
            Description for readers who do not see the picture.

        Returns
        -------
        str
            The SVG element.
        """
        low, high = limits if limits[0] < limits[1] else (limits[0] - 1, limits[0] + 1)
        options = {"cmap": "RdBu_r" if diverges else "viridis", "vmin": low, "vmax": high, "rasterized": True}

        def draw(figure: Any) -> None:
            in_space = points.shape[1] > 2
            axes = figure.add_subplot(projection="3d" if in_space else None)
            if in_space:
                drawn = np.random.default_rng(0).permutation(len(points))[:_DRAWN_POINTS]
                artist = axes.scatter(*points[drawn].T, c=values[drawn], s=4, **options)
                axes.set_aspect("equal")
            elif grid_shape is not None and len(grid_shape) == 2 and min(grid_shape) > 1:
                x, y, field = (item.reshape(grid_shape) for item in (points[:, 0], points[:, 1], values))
                artist = axes.pcolormesh(x, y, field, shading="gouraud", **options)
            else:
                mesh = triangles if triangles is not None else _triangulated(points)
                artist = axes.tripcolor(
                    points[:, 0], points[:, 1], values, triangles=mesh, shading="gouraud", **options
                )
            if not in_space:
                set_aspect(axes, points)
                for side in ("top", "right", "left", "bottom"):
                    axes.spines[side].set_visible(False)
                axes.locator_params(nbins=4)
                axes.tick_params(length=2, labelsize=8)
            bar = figure.colorbar(artist, ax=axes, shrink=0.9, aspect=24)
            bar.outline.set_visible(False)
            bar.ax.tick_params(length=2, labelsize=8)

        return self._draw(draw, (4.0, 3.3), title)

    def _chart(
        self, size: tuple[float, float], labels: tuple[str, str], title: str, plot: Any, *, legend: bool = False
    ) -> str:
        """Draw on axes with labels and a grid, by a function of the axes."""

        def draw(figure: Any) -> None:
            axes = figure.add_subplot()
            plot(axes)
            axes.set(xlabel=labels[0], ylabel=labels[1])
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color="#888888", alpha=0.25, linewidth=0.5)
            if legend:
                axes.legend()

        return self._draw(draw, size, title)

    def lines(self, curves: Sequence[tuple[str, FloatArray, FloatArray]], labels: tuple[str, str], title: str) -> str:
        """Draw curves, each with its name.

        Parameters
        ----------
        curves : sequence of (str, ndarray, ndarray)
            Names and coordinates.
        labels : tuple of str
            Labels of the axes.
        title : str
            Description for readers who do not see the picture.

        Returns
        -------
        str
            The SVG element.
        """

        def plot(axes: Any) -> None:
            for name, x, y in curves:
                axes.plot(x, y, label=name, linewidth=1.4)

        return self._chart((4.6, 3.2), labels, title, plot, legend=len(curves) > 1)

    def parity(self, truth: FloatArray, predicted: FloatArray, name: str) -> str:
        """Draw predicted over true scalars, both of shape (n,), and return the SVG element."""

        def plot(axes: Any) -> None:
            ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
            axes.plot(ends, ends, color="#888888", linewidth=0.8)
            axes.plot(truth, predicted, "o", markersize=4, alpha=0.7)

        return self._chart((3.8, 3.2), (f"{name}, true", "predicted"), f"{name}: predicted over true", plot)

    def histogram(self, errors: FloatArray, title: str) -> str:
        """Draw how relative errors of shape (n,) are distributed over the samples, and return the SVG element."""

        def plot(axes: Any) -> None:
            axes.hist(100 * errors, bins=min(30, max(5, len(errors) // 4)), alpha=0.85)
            axes.yaxis.get_major_locator().set_params(integer=True)

        return self._chart((4.6, 2.6), ("relative L2 error in %", "samples"), title, plot)

    def training_curve(self, estimator: Any) -> str:
        """Draw loss and validation error of an estimator over the epochs, and return the SVG element."""

        def plot(axes: Any) -> None:
            TrainingCurveDisplay.from_estimator(estimator, ax=axes)

        title = "Training loss and validation error of each epoch"
        return self._chart((5.6, 3.2), ("epoch", "loss and error"), title, plot, legend=True)


def _inline(svg: str, prefix: str, title: str) -> str:
    """Turn an SVG file into an element of a page: no header, own identifiers, the colour of the page, any width."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
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
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"{opening}<title>{escaped}</title>{body.strip()}"


def triangles_of(cells: Sequence[tuple[str, IntArray]] | None, n_points: int) -> IntArray | None:
    """Triangles of a plane mesh, for drawing.

    Parameters
    ----------
    cells : sequence of (str, ndarray) or None
        Blocks of cells by type, with the indices of their points.
    n_points : int
        Number of points.

    Returns
    -------
    ndarray of shape (m, 3) or None
        Triangles by their corners; None where there are none, or cells refer to other points.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection._report_pictures import triangles_of
    >>> triangles_of([("quad", np.array([[0, 1, 2, 3]]))], 4).tolist()
    [[0, 1, 2], [0, 2, 3]]
    """
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
