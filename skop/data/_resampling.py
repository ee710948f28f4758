"""From the points of samples to one regular grid and back, for networks that need a grid.

Letters of the shapes: n samples, P points of a sample, T points of all samples together, Q points of the grid,
d space dimensions, c channels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.spatial import KDTree

from skop._typing import FloatArray, GridShape
from skop.data._fieldset import FieldSet
from skop.data._grid import unit_grid
from skop.data._interpolation import interpolate_fields
from skop.data._point_rows import point_order
from skop.data._spec import DataSpec
from skop.data._validation import TrainingData
from skop.exceptions import FieldDataError, ResamplingWarning

__all__ = ["GridResampler", "ResampledData", "ResampledSpec"]


@dataclass(frozen=True)
class GridResampler:
    """A regular grid over a box, and the ways of fields from scattered points to it and back.

    To the grid, fields are linear in the Delaunay triangulation of a sample's points (between neighbours in one
    dimension) and that of the nearest point outside their hull; samples that state a rectilinear grid of their own
    go by cubic splines. To the points, fields are multilinear in the cells of the grid. Nothing is extrapolated.

    Attributes
    ----------
    lower, upper : tuple of d floats
        Ends of the box.
    grid_shape : tuple of d ints
        Points of the grid along each axis, at least 2; the first and the last lie on the ends.
    distance : bool, default=False
        Whether the grid gets one more channel, ``r / (1 + r)`` for the distance r, in cells, of each point of the
        grid from the nearest point of the sample: 0 there, and near 1 in holes and outside. It shows the shape of
        samples that differ in their points.
    error : float or None, default=None
        Mean relative L2 error of the targets of a fit after the way to the grid and back; None if they are
        scalars. It does not count when two resamplers are compared.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import FieldSet
    >>> from skop.data import GridResampler
    >>> points = np.random.default_rng(0).random((200, 2))
    >>> fields = FieldSet(points, points[None, :, :1] ** 2)
    >>> resampler = GridResampler.fit(fields, (16, 16))
    >>> resampler.to_grid(fields)
    FieldSet(1 samples, 256 points in 2-D, grid 16x16, 1 channels)
    >>> bool(np.abs(resampler.round_trip(fields).values - fields.values).max() < 0.05)
    True
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    grid_shape: GridShape
    distance: bool = False
    error: float | None = field(default=None, compare=False)

    @classmethod
    def fit(cls, points: FieldSet, grid: Any = "auto", *, distance: bool | None = None) -> Self:
        """Lay a grid over the box of all points.

        Parameters
        ----------
        points : FieldSet
            Samples; only their points count.
        grid : tuple of d ints or "auto", default="auto"
            Points along each axis, or about as many cells as the mean sample has points, as near to cubes as the
            box allows.
        distance : bool or None, default=None
            See the attribute; None is True where samples have points of their own.

        Returns
        -------
        GridResampler
            For this box.

        Raises
        ------
        FieldDataError
            If the points have no extent along some axis, or `grid` does not fit their dimensions.
        """
        coords = np.asarray(points.coords, dtype=np.float64).reshape(-1, points.n_dims)
        lower, upper = coords.min(axis=0), coords.max(axis=0)
        flat = np.flatnonzero(upper <= lower)
        if len(flat):
            raise FieldDataError(
                f"all points have coordinate {flat[0]} = {lower[flat[0]]:g}, so there is no box for a grid; leave this "
                "coordinate out."
            )
        automatic = isinstance(grid, str) and grid == "auto"
        shape = _automatic_shape(upper - lower, points.n_points.mean()) if automatic else grid
        shape = _checked_shape(shape, points.n_dims)
        shows = not points.shared_coords if distance is None else distance
        return cls(tuple(lower.tolist()), tuple(upper.tolist()), shape, shows)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Build from the attributes as JSON gives them back."""
        names = ("lower", "upper", "grid_shape")
        return cls(**(content | {name: tuple(content[name]) for name in names}))

    @property
    def coords(self) -> FloatArray:
        """Points of the grid ``(Q, d)`` in C order."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        unit = unit_grid(self.grid_shape)
        # The weighted form meets both ends to the bit.
        return lower * (1.0 - unit) + upper * unit

    @property
    def spacing(self) -> FloatArray:
        """Lengths of a cell ``(d,)``."""
        return (np.array(self.upper) - np.array(self.lower)) / (np.array(self.grid_shape) - 1)

    def to_grid(self, fields: FieldSet) -> FieldSet:
        """Carry fields to the grid.

        Parameters
        ----------
        fields : FieldSet
            Samples on points of any kind, with or without values; shared points are triangulated once.

        Returns
        -------
        FieldSet
            The samples on the grid, with their global parameters, and with the channel of `distance` as the last.

        Raises
        ------
        FieldDataError
            If the points of a sample span no volume.
        """
        coords, n_samples = self.coords, len(fields)
        places = FieldSet(coords, np.empty((n_samples, len(coords), 0)))
        parts = [interpolate_fields(_in_fixed_order(fields), places)] if fields.n_channels else []
        if self.distance:
            parts.append(self._distances(fields, coords))
        values = np.concatenate(parts, axis=-1) if parts else None
        return FieldSet(coords, values, params=fields.params, grid_shape=self.grid_shape)

    def _distances(self, points: FieldSet, coords: FloatArray) -> FloatArray:
        """The channel of distances ``(n, Q, 1)`` from the nearest point of each sample."""
        spacing = self.spacing
        sets = [points.coords] if points.shared_coords else points.coords_list()
        found = np.stack([KDTree(own / spacing).query(coords / spacing)[0] for own in sets])
        # Bounded, so that empty parts of the box do not rule its scale.
        return np.broadcast_to((found / (1.0 + found))[..., None], (len(points), len(coords), 1))

    def to_points(self, values: FloatArray, points: FieldSet) -> FloatArray:
        """Carry fields from the grid to points.

        Parameters
        ----------
        values : ndarray of shape (n, Q, c)
            Fields on the grid.
        points : FieldSet
            As many samples, whose values do not count. Points outside the box get the value of the nearest point
            of the box, with a `ResamplingWarning` if they are farther out than a cell.

        Returns
        -------
        ndarray of shape (n, P, c), or (T, c) for ragged points
            Fields there, in the order of the points.
        """
        self._warn_outside(points)
        if points.shared_coords:
            found = self._multilinear(np.moveaxis(values, 0, 1).reshape(values.shape[1], -1), points.coords)
            return np.moveaxis(found.reshape(len(found), *values.shape[::2]), 1, 0)
        parts = [self._multilinear(held, own) for held, own in zip(values, points.coords_list(), strict=True)]
        return np.concatenate(parts) if points.is_ragged else np.stack(parts)

    def round_trip(self, fields: FieldSet) -> FieldSet:
        """Return fields as they come back from the grid.

        Parameters
        ----------
        fields : FieldSet
            Samples with values.

        Returns
        -------
        FieldSet
            The same points, with what the grid has kept of the values.
        """
        held = np.asarray(self.to_grid(fields).values)[..., : fields.n_channels]
        return fields.with_values(self.to_points(held, fields), fields.channel_names)

    def _multilinear(self, values: FloatArray, wanted: FloatArray) -> FloatArray:
        """Values ``(P, k)`` at points from values ``(Q, k)`` on the grid."""
        ends = zip(self.lower, self.upper, self.grid_shape, strict=True)
        axes = tuple(np.linspace(*end) for end in ends)
        held = values.astype(np.float64).reshape(*self.grid_shape, -1)
        return RegularGridInterpolator(axes, held)(np.clip(wanted, self.lower, self.upper))

    def _warn_outside(self, points: FieldSet) -> None:
        """Warn of points that are more than a cell outside the box."""
        coords = np.asarray(points.coords).reshape(-1, points.n_dims)
        cells = np.abs(coords - np.clip(coords, self.lower, self.upper)) / self.spacing
        if cells.max() > 1.0:
            warnings.warn(
                f"{np.count_nonzero(cells.max(axis=1) > 1.0)} points lie outside the box of the training points, "
                f"{self.lower} to {self.upper}, by up to {cells.max():.3g} cells of the grid; they get the values of "
                "the edge of the box. Train on samples that cover the whole domain.",
                ResamplingWarning,
                stacklevel=3,
            )


@dataclass(frozen=True)
class ResampledSpec(DataSpec):
    """Kinds and sizes of X and y that lie on points, and the grid on which a network sees them.

    Attributes
    ----------
    input_form, role, target_form, n_dims, n_fields, n_params, n_outputs : str or int
        As in `DataSpec`: these describe the caller's data, and not what the network sees.
    grid_shape, target_dtype, channel_names, n_scalars, layout, kept_axes, components : str, int or tuple
        As in `DataSpec` too.
    resampler : GridResampler
        The grid.
    """

    resampler: GridResampler = field(kw_only=True)

    def on_grid(self) -> DataSpec:
        """Return the spec of what the network sees."""
        content = {name: value for name, value in vars(self).items() if name != "resampler"}
        n_fields = self.n_fields + self.resampler.distance
        return replace(DataSpec(**content), layout="grid", grid_shape=self.resampler.grid_shape, n_fields=n_fields)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> DataSpec:
        """Build from what `to_dict` gave, after a trip through JSON."""
        return super().from_dict(content | {"resampler": GridResampler.from_dict(content["resampler"])})


@dataclass(frozen=True)
class ResampledData(TrainingData):
    """X and y of a fit on a grid.

    Attributes
    ----------
    inputs, targets : FieldSet
        As in `TrainingData`, on the grid; scalars alone stay as they are.
    spec : DataSpec
        What the caller's data looked like, and the grid.
    points : FieldSet
        The inputs on the caller's points.
    """

    points: FieldSet


def _in_fixed_order(fields: FieldSet) -> FieldSet:
    """The fields with sorted points: where four lie on a circle, the triangulation follows their order."""
    if fields.grid_shape is not None:
        return fields
    held, order = fields.read(slice(None)), point_order(fields)
    coords, values = held.coords, np.asarray(held.values)
    if held.shared_coords:
        return held._replace(_coords=coords[order], _values=values[:, order])
    moved = (array.reshape(-1, array.shape[-1])[order].reshape(array.shape) for array in (coords, values))
    return held._replace(**dict(zip(("_coords", "_values"), moved, strict=True)))


def _automatic_shape(extent: FloatArray, n_cells: float) -> list[int]:
    """Points along each axis for about so many cells, as near to cubes as the extents of the box allow."""
    shape = [0] * len(extent)
    # Short axes first: where they are less than a cell, the others share what is left.
    order = np.argsort(extent, kind="stable")
    for place, axis in enumerate(order):
        rest = extent[order[place:]] / extent[axis]
        count = max(1, round(float((n_cells / np.prod(rest)) ** (1 / len(rest)))))
        n_cells /= count
        shape[axis] = count + 1
    return shape


def _checked_shape(grid: Any, n_dims: int) -> GridShape:
    """The points along each axis, if they can be used."""
    try:
        sizes = list(grid)
    except TypeError:  # one number
        sizes = []
    usable = all(isinstance(size, Integral) and not isinstance(size, bool) and int(size) > 1 for size in sizes)
    if len(sizes) != n_dims or not usable:
        raise FieldDataError(
            f"grid={grid!r} does not fit {n_dims}-D points; expected {n_dims} integers of at least 2, the points along "
            "each axis, or 'auto'."
        )
    return tuple(int(size) for size in sizes)
