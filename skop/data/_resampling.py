"""Fields at other points than their own, and on a regular grid for networks that need one.

Interpolation is linear in the simplices of scattered points, and by cubic splines on grids.

Notation: n samples, P points of a sample, T points of all samples together, Q query points or points of the grid,
d space dimensions, c channels, k values at a point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.interpolate import LinearNDInterpolator, NdBSpline, RegularGridInterpolator, make_interp_spline
from scipy.spatial import KDTree, QhullError

from skop._typing import FloatArray, GridShape
from skop.data._fieldset import FieldSet, point_order
from skop.data._grid import find_grid, unit_grid
from skop.data._storage import as_storage
from skop.exceptions import FieldDataError, ResamplingWarning, warn

__all__ = ["GridResampler", "interpolate_fields", "query_points"]

#: How far outside the box of a sample a query point may lie, as a part of its extent.
_OUTSIDE = 1e-6


def query_points(coords: Any, inputs: FieldSet) -> FieldSet:
    """Read the points where outputs are wanted, and carry the input fields to them.

    Parameters
    ----------
    coords : FieldSet, array-like of shape (Q, d) or (n, Q, d), or list of n arrays (Q_i, d)
        Points, the same for all samples or each sample's own.
    inputs : FieldSet
        Samples with n rows.

    Returns
    -------
    FieldSet
        The points with input fields, if there are any, and global parameters.

    Raises
    ------
    FieldDataError
        If there are no points, their dimensions or number do not fit, or they lie outside a sample's box.
    """
    places = _places(coords, inputs)
    _check_inside(places, inputs)
    if inputs.n_channels == 0:
        return places.with_params(inputs.params)
    return places.with_values(interpolate_fields(inputs, places)).with_params(inputs.params)


def _places(coords: Any, inputs: FieldSet) -> FieldSet:
    """Query points as a FieldSet with as many samples as the inputs, and no channels."""
    n_samples = len(inputs)
    given: Any = coords
    if isinstance(coords, FieldSet):
        given = coords.coords if coords.shared_coords else coords.coords_list()
    if isinstance(given, list) and given and np.ndim(given[0]) == 2:
        arrays = [as_storage(item, f"coords of sample {i}") for i, item in enumerate(given)]
        points: Any = np.stack(arrays) if len({item.shape for item in arrays}) == 1 else arrays
    else:
        points = np.asarray(as_storage(given, "coords"))
        if points.ndim not in (2, 3):
            raise FieldDataError(
                f"coords has shape {points.shape}; expected (Q, d), or (n, Q, d) for {n_samples} samples."
            )
    shared = getattr(points, "ndim", 0) == 2
    widths = {item.shape[-1] for item in ([points] if shared else points)}
    if widths != {inputs.n_dims}:
        raise FieldDataError(f"coords has {sorted(widths)} space dimensions, the samples have {inputs.n_dims}.")
    if not shared and len(points) != n_samples:
        raise FieldDataError(f"coords holds points of {len(points)} samples, X has {n_samples}; pass one set for each.")
    if any(len(item) == 0 for item in ([points] if shared else points)):
        raise FieldDataError("coords holds no points for some sample; pass at least one.")
    if isinstance(points, list):
        return FieldSet(points, [np.empty((len(item), 0)) for item in points])
    return FieldSet(points, np.empty((n_samples, points.shape[-2], 0)))


def _check_inside(places: FieldSet, inputs: FieldSet) -> None:
    """Raise if a query point is not finite or lies outside the box of its sample."""
    pairs = zip(places.coords_list(), inputs.coords_list(), strict=True)
    if places.shared_coords and inputs.shared_coords:
        pairs = zip([places.coords], [inputs.coords], strict=True)
    for sample, (wanted, own) in enumerate(pairs):
        lower, upper = own.min(axis=0), own.max(axis=0)
        slack = _OUTSIDE * np.maximum(upper - lower, np.finfo(float).tiny)
        inside = (wanted >= lower - slack) & (wanted <= upper + slack)
        if not inside.all():
            point, axis = np.argwhere(~inside)[0]
            raise FieldDataError(
                f"query point {point} of sample {sample} has coordinate {axis} = {wanted[point, axis]:g}, outside the "
                f"sample's {lower[axis]:g} to {upper[axis]:g}; the model knows nothing there."
            )


def interpolate_fields(fields: FieldSet, places: FieldSet) -> FloatArray:
    """Carry fields to other points.

    Parameters
    ----------
    fields : FieldSet
        Samples with values.
    places : FieldSet
        As many samples, whose values do not count.

    Returns
    -------
    ndarray of shape (n, Q, c), or flat for ragged places
        Values there: exact at the fields' own points, otherwise cubic splines on a rectilinear grid, linear
        between scattered points, and that of the nearest point outside their hull.
    """
    values = fields.values
    if values is None:
        raise FieldDataError("this FieldSet has coordinates but no values to interpolate.")
    if fields.shared_coords and places.shared_coords:
        # One triangulation serves all samples.
        wide = np.moveaxis(values, 0, 1).reshape(values.shape[1], -1)
        found = _at(fields.coords, wide, places.coords, fields.grid_shape)
        return np.moveaxis(found.reshape(len(found), len(fields), -1), 1, 0)
    samples = zip(fields.coords_list(), fields.to_list(), places.coords_list(), strict=True)
    parts = [_at(own, held, wanted, fields.grid_shape) for own, held, wanted in samples]
    return np.concatenate(parts) if places.is_ragged else np.stack(parts)


def _at(own: FloatArray, values: FloatArray, wanted: FloatArray, grid_shape: GridShape | None) -> FloatArray:
    """Values ``(Q, k)`` at the wanted points from values ``(P, k)`` at a sample's own."""
    distance, nearest = KDTree(own).query(wanted)
    result = values[nearest].astype(np.float64)
    moved = distance > 0
    if len(own) > 1 and moved.any():
        result[moved] = _between(own, values, wanted[moved], result[moved], grid_shape)
    return result


def _between(
    own: FloatArray, values: FloatArray, wanted: FloatArray, nearest: FloatArray, grid_shape: GridShape | None
) -> FloatArray:
    """Values between a sample's points; those of the nearest point outside their hull."""
    spread = np.ptp(own, axis=0) > 0
    own, wanted = own[:, spread], wanted[:, spread]
    found = None if grid_shape is None else find_grid(own)
    if found is not None and np.array_equal(found[1], np.arange(len(own))):
        return _on_grid(own, values, wanted, found[0])
    if own.shape[1] == 1:
        order = np.argsort(own[:, 0], kind="stable")
        return np.stack([np.interp(wanted[:, 0], own[order, 0], column[order]) for column in values.T], axis=-1)
    try:
        linear = LinearNDInterpolator(own, values, rescale=True)(wanted)
    except QhullError as error:
        raise FieldDataError(
            f"the {len(own)} points of a sample span no volume, so nothing can be interpolated between them: {error}"
        ) from error
    return np.where(np.isnan(linear), nearest, linear)


def _on_grid(own: FloatArray, values: FloatArray, wanted: FloatArray, grid_shape: GridShape) -> FloatArray:
    """Cubic splines along the axes of a rectilinear grid in C order, of a lower degree where an axis is too short."""
    points = own.reshape(*grid_shape, -1)
    # The first line of points along each axis of the grid.
    axes = [np.moveaxis(points[..., axis], axis, 0).reshape(size, -1)[:, 0] for axis, size in enumerate(grid_shape)]
    coefficients, knots, degrees = values.astype(np.float64).reshape(*grid_shape, -1), [], []
    for axis, line in enumerate(axes):
        spline = make_interp_spline(line, coefficients, k=min(3, len(line) - 1), axis=axis)
        coefficients = np.moveaxis(spline.c, 0, axis)
        knots.append(spline.t)
        degrees.append(spline.k)
    clipped = np.clip(wanted, [line[0] for line in axes], [line[-1] for line in axes])
    return NdBSpline(tuple(knots), coefficients, degrees)(clipped)


# ---------------------------------------------------------------------- to a grid and back
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
            warn(
                f"{np.count_nonzero(cells.max(axis=1) > 1.0)} points lie outside the box of the training points, "
                f"{self.lower} to {self.upper}, by up to {cells.max():.3g} cells of the grid; they get the values of "
                "the edge of the box. Train on samples that cover the whole domain.",
                ResamplingWarning,
            )


def _in_fixed_order(fields: FieldSet) -> FieldSet:
    """The fields with sorted points: where four lie on a circle, the triangulation follows their order."""
    if fields.grid_shape is not None:
        return fields
    return fields.with_order(point_order(fields))


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
