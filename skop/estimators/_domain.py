"""Where the points of a fit lie, and what is said of predictions elsewhere.

A network knows the effect of a place as far as it has seen others: one that was fitted on a single grid has never seen
any of its points elsewhere. Another box or other lines are therefore warned about: values may still be good where the
problem does not depend on the place, and nothing tells whether it does. A grid that is bent, whose axes are exchanged,
or that runs backwards is refused: the network takes places by their number along the axes, so that its values
would belong to other points, and there is a remedy that keeps the meaning.

Notation: m sets of points, P points of a set, d space dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape
from skop.data import FieldSet, PointSymmetries
from skop.exceptions import FieldDataError, ResolutionWarning, warn

__all__ = ["Domain"]

#: How far a point may be off the straight line of its grid, in grid spacings.
_BENT = 0.01
#: How far lines may be off those of a fit with as many lines, in grid spacings.
_SAME_LINE = 0.05
#: How far points may lie outside the box of the fit, as a part of its extent.
_OUTSIDE = 0.05


@dataclass(frozen=True, eq=False)
class Domain:
    """The points of a fit.

    Attributes
    ----------
    lower, upper : ndarray of shape (d,)
        Corners of their box.
    axes : tuple of int or None
        Coordinate along which each axis of the grid runs; None where the samples share no straight grid.
    lines : tuple of ndarray or None
        Values of that coordinate along each axis.
    points : ndarray of shape (P, d) or None
        The points themselves, where predictions must be at these and in their order.
    reach : tuple of two ndarrays of shape (d,) or None
        Corners of the box of the target fields, where these are on points of their own, with a margin.
    """

    lower: FloatArray
    upper: FloatArray
    axes: tuple[int, ...] | None = None
    lines: tuple[FloatArray, ...] | None = None
    points: FloatArray | None = None
    reach: tuple[FloatArray, FloatArray] | None = None

    @classmethod
    def from_fit(cls, inputs: FieldSet, geometry: str, *, is_tied: bool = False) -> Domain:
        """Describe the points of training samples.

        Parameters
        ----------
        inputs : FieldSet
            The samples.
        geometry : {"grid", "structured", "points"}
            Reading of their points; ``"grid"`` for points that are bent has no lines.
        is_tied : bool, default=False
            Whether the model holds statistics of single points, and can predict at these only.

        Returns
        -------
        Domain
            The points.
        """
        points = _as_sets(inputs)
        lower, upper = (extreme(points.reshape(-1, inputs.n_dims), axis=0) for extreme in (np.min, np.max))
        grid = inputs.grid_shape
        if geometry == "points" and is_tied and inputs.shared_coords:
            return cls(lower, upper, points=points[0])
        if geometry != "grid" or grid is None or len(grid) != inputs.n_dims or len(points) > 1:
            return cls(lower, upper)
        axes = _main_coordinates(points, grid)
        if sorted(axes) != list(range(len(grid))) or _is_bent(points, grid, axes).any():
            return cls(lower, upper)
        return cls(lower, upper, axes, tuple(line[0] for line in _lines(points, grid, axes)))

    def with_targets(self, targets: FieldSet) -> Domain:
        """Return the domain of a fit whose target fields are on points of their own, these and earlier ones."""
        points = np.asarray(targets.coords, dtype=np.float64).reshape(-1, targets.n_dims)
        lower, upper = points.min(axis=0), points.max(axis=0)
        slack = _OUTSIDE * (upper - lower)
        lower, upper = lower - slack, upper + slack
        if self.reach is not None:
            lower, upper = np.minimum(lower, self.reach[0]), np.maximum(upper, self.reach[1])
        return replace(self, reach=(lower, upper))

    def moved_by(self, symmetries: PointSymmetries, points: FloatArray) -> Domain:
        """Return the domain of a fit whose samples, at these points, were moved: the boxes of all moved points."""
        moved, reach = symmetries.images(points), self.reach
        if reach is not None:
            corners = symmetries.images(np.stack(reach))
            reach = (corners.min(axis=0), corners.max(axis=0))
        return replace(self, lower=moved.min(axis=0), upper=moved.max(axis=0), reach=reach)

    def check(self, inputs: FieldSet) -> bool:
        """Hold the points of a prediction against those of the fit.

        Parameters
        ----------
        inputs : FieldSet
            Samples, on a grid of as many axes as in the fit where that was on one.

        Returns
        -------
        bool
            Whether a `ResolutionWarning` was issued, as the points lie elsewhere.

        Raises
        ------
        FieldDataError
            If the fit was on a straight grid, and the points are on one that is bent, exchanges axes, or
            runs backwards; or if they are not the points to which a model is tied.
        """
        points = _as_sets(inputs)
        if self.points is not None:
            extent = self.upper - self.lower
            if points.shape[1:] != self.points.shape or (np.abs(points - self.points) > 1e-6 * extent).any():
                raise FieldDataError(
                    "X lies on other points than the fit, or on the same points in another order, but the scaling "
                    "'point' has statistics of each single point; bring X to the points of the fit, or fit with "
                    "scaling of whole channels."
                )
        if self.lines is not None and self.axes is not None and inputs.grid_shape is not None:
            words = self._differences(points, inputs.grid_shape, self.axes, self.lines)
        else:
            words = self._outside(points)
        if words:
            warn(
                f"X {words}; values there are extrapolated. Check against known samples, or bring X to the points of "
                "the fit.",
                ResolutionWarning,
            )
        return bool(words)

    def _differences(
        self, points: FloatArray, grid: GridShape, axes: tuple[int, ...], lines: tuple[FloatArray, ...]
    ) -> str:
        """In which box or on which lines a grid lies other than that of the fit; nothing where it is the same."""
        own = _main_coordinates(points, grid)
        varies = [axis for axis, size in enumerate(grid) if size > 1 and len(lines[axis]) > 1]
        wrong = [axis for axis in varies if own[axis] != axes[axis]]
        if wrong and sorted(own) == list(range(len(grid))):
            raise FieldDataError(
                f"axis {wrong[0]} of the grid of X runs along coordinate {own[wrong[0]]}, but in the fit it ran along "
                f"coordinate {axes[wrong[0]]}; exchange the axes of the grid."
            )
        if wrong or (bent := _is_bent(points, grid, axes)).any():
            sample = 0 if wrong else int(np.argmax(bent))
            raise FieldDataError(
                f"the grid of X is bent, first in sample {sample}, but the estimator was fitted on a straight one of "
                f"{_shape(len(line) for line in lines)} points and knows no other; interpolate X onto a straight grid, "
                "or fit samples on bent grids."
            )
        differs = False
        ours = _lines(points, grid, axes)
        for axis in varies:
            found, line = ours[axis], lines[axis]
            if (np.sign(found[:, -1] - found[:, 0]) != np.sign(line[-1] - line[0])).any():
                raise FieldDataError(
                    f"coordinate {axes[axis]} runs backwards along axis {axis} of the grid of X, from "
                    f"{found[0, 0]:.3g} to {found[0, -1]:.3g}, but in the fit from {line[0]:.3g} to {line[-1]:.3g}; "
                    "reverse this axis."
                )
            places = np.linspace(0.0, len(line) - 1.0, grid[axis])
            expected = np.interp(places, np.arange(len(line)), line)
            spacing = np.abs(np.diff(line)).mean()
            # Grids without end points, such as periodic ones, end elsewhere when they are refined.
            slack = _SAME_LINE * spacing if grid[axis] == len(line) else max(spacing, np.abs(np.diff(found)).mean())
            differs |= bool((np.abs(found - expected) > slack).any())
        if not differs:
            return ""
        here, there = f"{_shape(grid)} points", f"{_shape(len(line) for line in lines)} points"
        box, fitted = _boxes(*_corners(points), self.lower, self.upper)
        if box == fitted:
            return f"lies on a grid of {here} in the box {fitted} of the fit, but its lines are at other places there"
        return f"lies on a grid of {here} in the box {box}, but the fit saw {there} in the box {fitted}"

    def _outside(self, points: FloatArray) -> str:
        """How far points lie outside the box; nothing where they are inside."""
        lower, upper = _corners(points)
        extent = self.upper - self.lower
        slack = _OUTSIDE * np.where(extent > 0, extent, extent.max())
        # Rounding of coordinates whose box has no extent, such as a single point.
        slack = np.maximum(slack, 1e-6 * np.abs([self.lower, self.upper]).max(axis=0))
        if (lower >= self.lower - slack).all() and (upper <= self.upper + slack).all():
            return ""
        box, fitted = _boxes(lower, upper, self.lower, self.upper)
        return f"has points in the box {box}, but those of the fit lie in {fitted}"


def _as_sets(inputs: FieldSet) -> FloatArray:
    """Points ``(m, P, d)``: one set for all samples, or one of each; those of ragged samples are one set."""
    points = np.asarray(inputs.coords, dtype=np.float64)
    return points if points.ndim == 3 else points[np.newaxis]


def _corners(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest coordinates ``(d,)`` of points ``(m, P, d)``."""
    return points.min(axis=(0, 1)), points.max(axis=(0, 1))


def _main_coordinates(points: FloatArray, grid: GridShape) -> tuple[int, ...]:
    """Coordinate that changes most along each axis, in units of its extent; axes of one point take what is left."""
    table = points.reshape(len(points), *grid, -1)
    extent = np.ptp(points, axis=(0, 1))
    changes = [
        np.ptp(table, axis=axis + 1).reshape(-1, points.shape[-1]).max(axis=0) / np.where(extent > 0, extent, 1.0)
        for axis in range(len(grid))
    ]
    found = [int(np.argmax(change)) if grid[axis] > 1 else -1 for axis, change in enumerate(changes)]
    left = iter(sorted(set(range(len(grid))) - set(found)))
    return tuple(coordinate if coordinate >= 0 else next(left) for coordinate in found)


def _lines(points: FloatArray, grid: GridShape, axes: tuple[int, ...]) -> list[FloatArray]:
    """Values ``(m, P_i)`` of the coordinate of each axis along it, from the first point of the grid."""
    table = points.reshape(len(points), *grid, -1)
    return [
        np.moveaxis(table, axis + 1, 1).reshape(len(points), grid[axis], -1, points.shape[-1])[:, :, 0, coordinate]
        for axis, coordinate in enumerate(axes)
    ]


def _is_bent(points: FloatArray, grid: GridShape, axes: tuple[int, ...]) -> Any:
    """Whether each set ``(m,)`` has points off the lines: a coordinate must change along its own axis alone."""
    table = points.reshape(len(points), *grid, -1)
    found = np.zeros(len(points), dtype=bool)
    for axis, (coordinate, line) in enumerate(zip(axes, _lines(points, grid, axes), strict=True)):
        shape = [len(points), *(grid[axis] if place == axis else 1 for place in range(len(grid)))]
        off = np.abs(table[..., coordinate] - line.reshape(shape)).reshape(len(points), -1).max(axis=1)
        spacing = np.abs(np.diff(line, axis=1)).mean(axis=1) if grid[axis] > 1 else np.inf
        found |= off > _BENT * spacing
    return found


def _shape(sizes: Any) -> str:
    """Points along the axes in words."""
    return " x ".join(map(str, sizes))


def _boxes(*corners: FloatArray) -> list[str]:
    """Boxes in words, from their lowest and highest corners in turn, to the same digits."""
    extents = corners[-1] - corners[-2]
    largest = np.abs(corners).max(axis=0)
    # Three digits of the last box; coordinates far from the origin need more than small ones.
    ratio = largest / np.where(extents > 0, extents, np.maximum(largest, 1.0))
    digits = np.minimum(3 + np.ceil(np.log10(np.maximum(ratio, 1.0))), 15).astype(int)
    words = [[f"{number:.{count}g}" for number, count in zip(corner, digits, strict=True)] for corner in corners]
    return [
        " x ".join(f"[{low}, {high}]" for low, high in zip(lower, upper, strict=True))
        for lower, upper in zip(words[::2], words[1::2], strict=True)
    ]
