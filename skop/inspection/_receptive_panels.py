"""Plot of an effective receptive field.

Notation: P points, d space dimensions.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, Self

import numpy as np

from skop._optional import import_optional
from skop._typing import FloatArray, GridShape, IntArray
from skop.inspection._panels import cell_corners, nearly_square
from skop.inspection._receptive_field import measure_field

__all__ = ["ReceptiveFieldDisplay"]

#: Lower end of the logarithmic scale, as a fraction of the largest value.
_FLOOR = 1e-4


class ReceptiveFieldDisplay:
    """Plot of the effective receptive field of one point.

    It is drawn as a curve in one dimension, as a map in two, and as the planes through the point in three.

    Parameters
    ----------
    field : ndarray of shape grid_shape
        Result of `receptive_field`.
    point : tuple of int
        Output point, as its index along each axis of the grid.
    coords : ndarray of shape (P, d)
        Coordinates of the grid points in C order, d from 1 to 3.
    patch_shape : tuple of int or None, default=None
        Number of points of a patch along each axis, which is the width of rows and columns for the shares. None is one
        point.
    layer : int or None, default=None
        Block whose features were differentiated, for the title; None is the output.

    Attributes
    ----------
    own_share : float
        Fraction of the field on the patch of the point.
    cross_share : float
        Fraction of the field on the rows and columns of patches through the point, including its own patch.
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        The panels from left to right: three in a box, otherwise one.
    artists_ : list
        Contents of the panels: maps, or a list of lines.

    References
    ----------
    X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
    differential equations", 2025, section E: scans along rows and columns leave a cross in the field.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import unit_grid
    >>> from skop.inspection import ReceptiveFieldDisplay
    >>> display = ReceptiveFieldDisplay(np.ones((4, 5)), (1, 2), unit_grid((4, 5))).plot(log_scale=False)
    >>> display.own_share, display.cross_share
    (0.05, 0.4)
    """

    def __init__(
        self,
        field: FloatArray,
        point: tuple[int, ...],
        coords: FloatArray,
        *,
        patch_shape: GridShape | None = None,
        layer: int | None = None,
    ) -> None:
        self.field = field
        self.point = point
        self.coords = coords
        self.patch_shape = patch_shape
        self.layer = layer

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        point: Any = None,
        layer: int | None = None,
        ax: Any = None,
        log_scale: bool = True,
        cmap: str = "viridis",
    ) -> Self:
        """Compute and draw the receptive field of a fitted estimator.

        Parameters
        ----------
        estimator, X, point, layer : as in `receptive_field`
            Estimator, samples, output point and layer.
        ax : matplotlib Axes, sequence of them, or None, default=None
            Axes of the panels; None opens a new figure.
        log_scale : bool, default=True
            Whether the colour scale is logarithmic. It ends at 1e-4 of the largest value; smaller values look the same.
        cmap : str, default="viridis"
            Colour map.

        Returns
        -------
        ReceptiveFieldDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError
            Same errors as `receptive_field` and `plot`.
        OptionalDependencyError
            If matplotlib is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> from skop.inspection import ReceptiveFieldDisplay
        >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
        >>> model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, 2 * X)
        >>> display = ReceptiveFieldDisplay.from_estimator(model, X, point=(0.4, 0.6))
        >>> display.point, display.own_share < display.cross_share <= 1
        ((2, 3), True)
        """
        found = measure_field(estimator, X, point, layer)
        number = None if layer is None else layer % len(estimator.module_.blocks)
        display = cls(found.field, found.point, found.coords, patch_shape=found.patch_shape, layer=number)
        return display.plot(ax=ax, log_scale=log_scale, cmap=cmap)

    @property
    def own_share(self) -> float:
        """Fraction of the field on the patch of the point; NaN if the field is zero."""
        return self._share(0)

    @property
    def cross_share(self) -> float:
        """Fraction of the field on the rows and columns of patches through the point; NaN if the field is zero."""
        return self._share(1)

    def _share(self, n_axes: int) -> float:
        """Fraction of the field on patches that differ from the point's patch along at most `n_axes` axes."""
        sizes, patches = self.field.shape, self.patch_shape or (1,) * self.field.ndim
        apart: IntArray = np.zeros(sizes, dtype=int)
        for axis, (size, patch, place) in enumerate(zip(sizes, patches, self.point, strict=True)):
            beside = np.arange(size) // patch != place // patch
            apart += beside.reshape(-1, *(1,) * (self.field.ndim - 1 - axis))
        total = float(self.field.sum())
        return float(self.field[apart <= n_axes].sum()) / total if total > 0 else float("nan")

    def plot(self, *, ax: Any = None, log_scale: bool = True, cmap: str = "viridis") -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib Axes, sequence of them, or None, default=None
            Axes of the panels; None opens a new figure.
        log_scale : bool, default=True
            Whether the colour scale is logarithmic. It ends at 1e-4 of the largest value; smaller values look the same.
        cmap : str, default="viridis"
            Colour map.

        Returns
        -------
        ReceptiveFieldDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` has another number of axes than there are panels.
        OptionalDependencyError
            If matplotlib is not installed.
        """
        pyplot = import_optional("matplotlib.pyplot", purpose="draw receptive fields")
        # Axes with a single point are not drawn.
        drawn = [axis for axis, size in enumerate(self.field.shape) if size > 1]
        planes = list(combinations(drawn, 2))
        n_panels = max(len(planes), 1)
        if ax is None:
            _, ax = pyplot.subplots(1, n_panels, figsize=(3.6 * n_panels + 0.6, 3.4), layout="constrained")
        self.axes_ = np.asarray(ax, dtype=object).reshape(-1)
        if len(self.axes_) != n_panels:
            raise ValueError(f"ax has {len(self.axes_)} axes, expected {n_panels}, one for each panel.")
        self.figure_ = self.axes_[0].figure
        if planes:
            self._draw_maps(planes, log_scale, cmap)
        else:
            self._draw_line(drawn[0] if drawn else 0, log_scale)
        self.axes_[0].set_title(self._title(), fontsize="medium")
        return self

    def _title(self) -> str:
        """Title: the contents, and the share of the cross."""
        what = "receptive field" if self.layer is None else f"receptive field, block {self.layer}"
        shown = self.field.ndim > 1 and self.field.any()
        return f"{what} ({100 * self.cross_share:.3g} % on the cross)" if shown else what

    def _section(self, *axes: int) -> tuple[list[str], FloatArray, FloatArray]:
        """Names and values of the coordinates, and the field, on a line or plane through the point."""
        picked = tuple(slice(None) if axis in axes else place for axis, place in enumerate(self.point))
        points = self.coords.reshape(*self.field.shape, -1)[picked]
        # Any coordinate may run along any axis of the grid.
        extents = np.ptp(points.reshape(-1, points.shape[-1]), axis=0)
        kept = sorted(np.argsort(-extents, kind="stable")[: len(axes)])
        return ["xyz"[number] for number in kept], points[..., kept], self.field[picked]

    def _draw_line(self, axis: int, log_scale: bool) -> None:
        """Draw the field on a line as a curve."""
        (name,), points, values = self._section(axis)
        panel, largest = self.axes_[0], float(values.max())
        self.artists_ = [panel.plot(points[:, 0], values)]
        panel.axvline(points[self.point[axis], 0], color="0.6", linewidth=0.8, zorder=0)
        panel.set(xlabel=name, ylabel="mean |gradient|")
        if log_scale and largest > 0:
            panel.set(yscale="log", ylim=(_FLOOR * largest, 2 * largest))

    def _draw_maps(self, planes: list[tuple[int, int]], log_scale: bool, cmap: str) -> None:
        """Draw the field on planes as coloured maps with one colour bar."""
        colors = import_optional("matplotlib.colors", purpose="draw receptive fields")
        # A colour scale needs two different ends, also for a field of zeros.
        largest = float(self.field.max()) or 1.0
        norm = colors.LogNorm(_FLOOR * largest, largest, clip=True) if log_scale else colors.Normalize(0.0, largest)
        self.artists_ = []
        for panel, plane in zip(self.axes_, planes, strict=True):
            names, points, values = self._section(*plane)
            corners = [cell_corners(points[..., number]) for number in (0, 1)]
            self.artists_.append(panel.pcolormesh(*corners, values, norm=norm, cmap=cmap, rasterized=True))
            place = points[tuple(self.point[axis] for axis in plane)]
            # A black marker with a white edge is visible on every colour.
            panel.plot(*place, "+", color="white", markersize=9, markeredgewidth=2.5)
            panel.plot(*place, "+", color="black", markersize=8, markeredgewidth=1.0)
            panel.set(xlabel=names[0], ylabel=names[1])
            panel.set_aspect("equal" if nearly_square(points.reshape(-1, 2)) else "auto")
        self.figure_.colorbar(self.artists_[-1], ax=list(self.axes_), label="mean |gradient|")
