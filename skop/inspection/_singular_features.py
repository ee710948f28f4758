"""Plot of a field and of the logarithm of its gradient, where kinks, fronts and singularities show.

Notation: P points, d space dimensions, g axes of a grid, T simplices of a triangulation.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.spatial import Delaunay, QhullError

from skop._typing import FloatArray, GridShape
from skop.exceptions import FieldDataError
from skop.inspection._display import Display
from skop.inspection._fields import FieldErrorDisplay

__all__ = ["SingularFeatureDisplay"]

#: Smallest gradient that the logarithm tells from zero, as a fraction of the largest one of the truth.
_FLOOR = 1e-4


class SingularFeatureDisplay(Display):
    """Plot of truth, prediction and error of a field, and of log10 of the magnitude of its gradient in a second row.

    On a grid, also a curvilinear one, gradients are central differences over the distances between the points,
    one-sided at the border. Of other points they are those of the linear interpolation on Delaunay's triangulation,
    whose mean over the triangles around a point, weighted by area, is taken. Both are exact for linear fields.

    Parameters
    ----------
    coords : ndarray of shape (P, d)
        Coordinates of the points, d from 1 to 3.
    true_values, predicted_values : ndarray of shape (P,)
        One channel of truth and prediction.
    grid_shape : tuple of int or None, default=None
        Number of points along each axis if the points form a grid in C order; needed to draw three dimensions.
    sample : int or None, default=None
        Index of the sample, for the title.
    name : str or None, default=None
        Name of the channel, for the labels.

    Attributes
    ----------
    true_gradient, predicted_gradient : ndarray of shape (P,)
        Magnitudes of the gradients at the points.
    gradient_error : float
        Root mean square of the difference of the logarithms, in powers of ten.
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes, of shape (2, number of panels)
        The panels: the field in the first row, the logarithm of its gradient in the second.
    fields_, gradients_ : FieldErrorDisplay
        The two rows.

    Notes
    -----
    Gradients below 1e-4 of the largest one of the truth count as this value, so that points where a field is flat, as
    in the corners of a box with zeros on its boundary, do not rule the error and the colours. The triangulation fills
    the convex hull of the points: gradients at the edge of a hole or of a concave outline also see the values across
    it.

    References
    ----------
    Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, Fig. 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import unit_grid
    >>> from skop.inspection import SingularFeatureDisplay
    >>> coords = unit_grid((5, 4))
    >>> plane = 3 * coords[:, 0] - 4 * coords[:, 1]
    >>> display = SingularFeatureDisplay(coords, plane, 10 * plane, grid_shape=(5, 4)).plot()
    >>> display.true_gradient.round(6).tolist()[:2], round(display.gradient_error, 6)
    ([5.0, 5.0], 1.0)
    """

    def __init__(
        self,
        coords: FloatArray,
        true_values: FloatArray,
        predicted_values: FloatArray,
        *,
        grid_shape: GridShape | None = None,
        sample: int | None = None,
        name: str | None = None,
    ) -> None:
        self.coords = coords
        self.true_values = true_values
        self.predicted_values = predicted_values
        self.grid_shape = grid_shape
        self.sample = sample
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample: int | str = 0,
        channel: int = 0,
        ax: Any = None,
        cmap: str = "viridis",
        gradient_cmap: str = "magma",
        error_cmap: str = "RdBu_r",
    ) -> Self:
        """Predict one sample and draw it with its gradient.

        Parameters
        ----------
        estimator : estimator
            Estimator, Pipeline or search that was fitted on fields.
        X, y : as in `fit` of the estimator
            Inputs and true fields.
        sample, channel : as in `FieldErrorDisplay.from_estimator`
            Sample and channel of y to draw.
        ax, cmap, gradient_cmap, error_cmap : as in `plot`
            Axes and colour maps.

        Returns
        -------
        SingularFeatureDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError, OptionalDependencyError
            Same errors as `FieldErrorDisplay.from_estimator` and `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> from skop.inspection import SingularFeatureDisplay
        >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
        >>> estimator = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, 2 * X)
        >>> SingularFeatureDisplay.from_estimator(estimator, X, 2 * X, sample="worst").axes_.shape
        (2, 3)
        """
        found = FieldErrorDisplay._predicted(estimator, X, y, sample, channel, 0)
        fields = found.coords, found.true_values, found.predicted_values
        display = cls(*fields, grid_shape=found.grid_shape, sample=found.sample, name=found.name)
        return display.plot(ax=ax, cmap=cmap, gradient_cmap=gradient_cmap, error_cmap=error_cmap)

    @cached_property
    def true_gradient(self) -> FloatArray:
        """Magnitude of the gradient of the truth at the points."""
        return _gradient_magnitude(self.coords, self.true_values, self.grid_shape)

    @cached_property
    def predicted_gradient(self) -> FloatArray:
        """Magnitude of the gradient of the prediction at the points."""
        return _gradient_magnitude(self.coords, self.predicted_values, self.grid_shape)

    @property
    def gradient_error(self) -> float:
        """Root mean square of log10 of the ratio of the gradients: 0 is perfect, 1 is a factor of 10."""
        true, predicted = self._logarithms()
        return float(np.sqrt(np.mean(np.square(predicted - true))))

    def _logarithms(self) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the gradients of truth and prediction, bounded from below."""
        # Of a constant truth the prediction tells the size, and of two constants nothing does.
        largest = self.true_gradient.max() or self.predicted_gradient.max() or 1.0
        true, predicted = (
            np.log10(np.maximum(own, _FLOOR * largest)) for own in (self.true_gradient, self.predicted_gradient)
        )
        return true, predicted

    def plot(
        self,
        *,
        ax: Any = None,
        cmap: str = "viridis",
        gradient_cmap: str = "magma",
        error_cmap: str = "RdBu_r",
    ) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : ndarray of matplotlib Axes or None, default=None
            Axes of the panels in two rows; None opens a new figure.
        cmap, gradient_cmap, error_cmap : str, default="viridis", "magma", "RdBu_r"
            Colour maps of the field, of the logarithm of its gradient, and of both errors.

        Returns
        -------
        SingularFeatureDisplay
            The display itself.

        Raises
        ------
        ValueError
            If `ax` has another number of axes than there are panels.
        FieldDataError
            If the points span no triangulation, or points in three dimensions form no grid.
        OptionalDependencyError
            If matplotlib is not installed.
        """
        on_line = self.coords.shape[1] == 1
        columns, layout = (2, "constrained") if on_line else (3, "compressed")
        options: dict[str, Any] = {"size": (3.3, 3.0), "columns": columns, "layout": layout}
        panels = self._panels(ax, [""] * 2 * columns, what=f", in two rows of {columns}", **options)
        self.axes_ = panels.reshape(2, columns)
        fields, shape = (self.true_values, self.predicted_values), self.grid_shape
        self.fields_ = FieldErrorDisplay(
            self.coords, *fields, grid_shape=shape, sample=self.sample, name=self.name
        ).plot(ax=self.axes_[0], cmap=cmap, error_cmap=error_cmap)
        self.gradients_ = FieldErrorDisplay(
            self.coords, *self._logarithms(), grid_shape=shape, name=r"$\log_{10} |\nabla u|$"
        ).plot(ax=self.axes_[1], cmap=gradient_cmap, error_cmap=error_cmap)
        # A relative error of logarithms would depend on the unit of the field.
        self.axes_[1, -1].set_title(f"error (rms: {self.gradient_error:.2g} powers of ten)", fontsize="medium")
        return self


def _gradient_magnitude(coords: FloatArray, values: FloatArray, grid_shape: GridShape | None) -> FloatArray:
    """Magnitude of the gradient (P,) of values at points (P, d), which form a grid in C order or not."""
    # Centred, so that fields and places far from zero lose no digits.
    points, field = (np.asarray(array, dtype=float) for array in (coords, values))
    points, field = points - points.mean(axis=0), field - field.mean()
    if grid_shape is not None:
        gradient = _differences(points, field, grid_shape)
    elif points.shape[1] == 1:
        order = np.argsort(points[:, 0], kind="stable")
        gradient = np.empty_like(points)
        gradient[order] = _differences(points[order], field[order], (len(field),))
    else:
        gradient = _on_triangles(points, field)
    return np.linalg.norm(gradient, axis=1)


def _differences(points: FloatArray, field: FloatArray, grid_shape: GridShape) -> FloatArray:
    """Gradient (P, d) on a grid, from central differences of coordinates and values along its axes."""
    axes = [axis for axis, size in enumerate(grid_shape) if size > 1]
    both = np.column_stack([points, field]).reshape(*grid_shape, -1)
    if not axes:
        return np.zeros_like(points)
    slopes = np.stack([np.gradient(both, axis=axis) for axis in axes], axis=-2).reshape(len(field), len(axes), -1)
    # Chain rule. The pseudoinverse gives the gradient along a curve or surface, and leaves out coinciding points.
    return (np.linalg.pinv(slopes[..., :-1]) @ slopes[..., -1:])[..., 0]


def _on_triangles(points: FloatArray, field: FloatArray) -> FloatArray:
    """Gradient (P, d) of the linear interpolation on simplices, averaged around each point by their volume."""
    if len(points) <= points.shape[1]:
        raise FieldDataError(f"{len(points)} points in {points.shape[1]}-D span no triangulation to differentiate on.")
    try:
        triangulation = Delaunay(points)
    except QhullError as error:
        raise FieldDataError(
            f"the {len(points)} points in {points.shape[1]}-D span no triangulation to differentiate on, as points on "
            "a line or plane; pass points that fill an area or volume."
        ) from error
    corners = triangulation.simplices
    edges = points[corners[:, 1:]] - points[corners[:, :1]]
    rises = field[corners[:, 1:]] - field[corners[:, :1]]
    volumes = np.abs(np.linalg.det(edges))
    usable = volumes > 0
    corners, volumes = corners[usable], volumes[usable]
    slopes = volumes[:, None] * np.linalg.solve(edges[usable], rises[usable][..., None])[..., 0]
    sums, weights = np.zeros_like(points), np.zeros(len(points))
    for corner in corners.T:
        np.add.at(sums, corner, slopes)
        np.add.at(weights, corner, volumes)
    # Points that coincide with another one belong to no simplex.
    for point, _, nearest in triangulation.coplanar:
        sums[point], weights[point] = sums[nearest], weights[nearest]
    return sums / weights[:, None]
