"""Interpolation of fields to other points, and resampling to a regular grid for networks that need one.

Interpolation is by cubic splines on rectilinear grids, and linear in the Delaunay triangulation of scattered points, or
by the piecewise cubics of Akima on a line and of Clough and Tocher in the plane where these are better at points that
are held out. A `GridResampler` is linear between scattered points. Outside the convex hull of scattered points, a place
has the value of the nearest point of the hull, or of the sample.

Notation: n samples, P points of a sample, T points of all samples together, Q query points or points of the grid,
d space dimensions, c channels, k values at a point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.interpolate import (
    Akima1DInterpolator,
    CloughTocher2DInterpolator,
    LinearNDInterpolator,
    NdBSpline,
    RegularGridInterpolator,
    make_interp_spline,
)
from scipy.sparse import csr_array
from scipy.spatial import Delaunay, KDTree, QhullError
from sklearn.utils import gen_batches

from skop._typing import FloatArray, GridShape, IntArray
from skop.data._checks import SAME_POINT
from skop.data._fieldset import FieldSet, point_order
from skop.data._grid import find_grid, unit_grid
from skop.data._storage import as_storage
from skop.exceptions import FieldDataError, ResamplingWarning, warn

__all__ = ["GridResampler", "are_among", "interpolate_fields", "query_points"]

#: Largest distance of a query point from the box of a sample, as a fraction of its extent.
_OUTSIDE = 1e-6
#: Up to so many pairs of a place outside of a hull and a facet of it, all are compared; else those at some corners.
_ALL_PAIRS, _NEAREST = 2**22, 8
#: Number of these pairs that are compared at once.
_PAIRS = 2**18
#: Parts of the points, of which some are held out to choose an interpolation, until there are so many held-out points.
_PARTS, _ENOUGH = 8, 64
#: Largest number of points of a grid.
_MOST_PLACES = 10**8


def query_points(coords: Any, inputs: FieldSet, reach: tuple[FloatArray, FloatArray] | None = None) -> FieldSet:
    """Read the query points, and interpolate the input fields to them.

    Parameters
    ----------
    coords : FieldSet, array-like of shape (Q, d) or (n, Q, d), or list of n arrays (Q_i, d)
        Query points, shared by all samples or separate for each sample.
    inputs : FieldSet
        Inputs of n samples.
    reach : tuple of two ndarrays of shape (d,) or None, default=None
        Lower and upper corner of a box in which query points may lie too, beside the box of their sample. Input fields
        outside the sample's box are those of its nearest points.

    Returns
    -------
    FieldSet
        Query points with interpolated input fields, if there are any, and global parameters.

    Raises
    ------
    FieldDataError
        If there are no points, their dimensions or the number of samples do not match, or they lie outside a sample's
        box.
    """
    places = _places(coords, inputs)
    _check_inside(places, inputs, reach)
    if inputs.n_channels == 0:
        return places.with_params(inputs.params)
    return places.with_values(interpolate_fields(inputs, places)).with_params(inputs.params)


def _places(coords: Any, inputs: FieldSet) -> FieldSet:
    """Convert query points to a FieldSet without values, with as many samples as the inputs."""
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
                f"{_of_grid(points)}"
            )
        if points.ndim == 3 and not isinstance(coords, FieldSet):
            _warn_of_lines(points, inputs)
    shared = getattr(points, "ndim", 0) == 2
    widths = {item.shape[-1] for item in ([points] if shared else points)}
    if widths != {inputs.n_dims}:
        raise FieldDataError(f"coords has {sorted(widths)} space dimensions, the samples have {inputs.n_dims}.")
    if not shared and len(points) != n_samples:
        raise FieldDataError(
            f"coords holds points of {len(points)} samples, X has {n_samples}; pass one set for each.{_of_grid(points)}"
        )
    if any(len(item) == 0 for item in ([points] if shared else points)):
        raise FieldDataError("coords holds no points for some sample; pass at least one.")
    if isinstance(points, list):
        return FieldSet(points, [np.empty((len(item), 0)) for item in points])
    return FieldSet(points, np.empty((n_samples, points.shape[-2], 0)))


def _of_grid(points: Any) -> str:
    """How the points of a grid are passed, if these may be some: an array of more than two axes."""
    if getattr(points, "ndim", 0) < 3:
        return ""
    return f" The points of a grid, for all samples, are coords.reshape(-1, {points.shape[-1]})."


def _warn_of_lines(points: FloatArray, inputs: FieldSet) -> None:
    """Warn if points (n, Q, d), read as those of n samples that share their nodes, are lines of one grid."""
    n_samples, n_points, n_dims = points.shape
    if not inputs.shared_coords or n_samples != len(inputs) or min(n_samples, n_points, n_dims) < 2:
        return
    slack = SAME_POINT * np.ptp(points, axis=(0, 1))
    # Of a line one coordinate is constant, which goes from line to line in one direction, and the others are shared.
    is_constant = (np.ptp(points, axis=1) <= slack).all(axis=0)
    is_shared = (np.ptp(points, axis=0) <= slack).all(axis=0)
    steps = np.diff(points[:, 0], axis=0)
    goes_on = ((steps > slack).all(axis=0) | (steps < -slack).all(axis=0)) & is_constant
    if goes_on.any() and is_shared[~goes_on].all() and (~is_constant & is_shared).any():
        warn(
            f"coords has shape {points.shape} and is read as {n_points} points for each of the {n_samples} samples, "
            f"but is a grid of {n_samples} x {n_points} points, of which each sample gets a line.{_of_grid(points)} If "
            "the lines are meant, pass them as a list: coords=list(coords)."
        )


def _check_inside(places: FieldSet, inputs: FieldSet, reach: tuple[FloatArray, FloatArray] | None) -> None:
    """Raise an error if a query point is not finite or lies outside the box of its sample, extended by `reach`."""
    pairs = zip(places.coords_list(), inputs.coords_list(), strict=True)
    if places.shared_coords and inputs.shared_coords:
        pairs = zip([places.coords], [inputs.coords], strict=True)
    for sample, (wanted, own) in enumerate(pairs):
        lower, upper = own.min(axis=0), own.max(axis=0)
        if reach is not None:
            lower, upper = np.minimum(lower, reach[0]), np.maximum(upper, reach[1])
        slack = _OUTSIDE * np.maximum(upper - lower, np.finfo(float).tiny)
        inside = (wanted >= lower - slack) & (wanted <= upper + slack)
        if not inside.all():
            point, axis = np.argwhere(~inside)[0]
            raise FieldDataError(
                f"query point {point} of sample {sample} has coordinate {axis} = {wanted[point, axis]:g}, outside the "
                f"sample's {lower[axis]:g} to {upper[axis]:g}; pass points inside it (nothing is extrapolated)."
            )


def are_among(places: FieldSet, nodes: FieldSet | FloatArray) -> bool:
    """Whether all points of all samples are some of the nodes (P, d), or of those of the sample, up to rounding."""
    shared = nodes.coords if isinstance(nodes, FieldSet) and nodes.shared_coords else nodes
    if isinstance(shared, FieldSet):
        pairs = [*zip(places.coords_list(), shared.coords_list(), strict=True)]
    else:
        pairs = [(points, shared) for points in ([places.coords] if places.shared_coords else places.coords_list())]
    for points, own in pairs:
        slack = SAME_POINT * np.ptp(own, axis=0).max()
        is_same = points.shape == own.shape and (np.abs(points - own) <= slack).all()
        if not is_same and (KDTree(own).query(points, p=np.inf)[0] > slack).any():
            return False
    return True


def interpolate_fields(
    fields: FieldSet,
    places: FieldSet,
    *,
    method: Literal["auto", "linear"] = "auto",
    outside: Literal["hull", "point"] = "hull",
) -> FloatArray:
    """Interpolate fields to other points.

    Parameters
    ----------
    fields : FieldSet
        Fields of n samples.
    places : FieldSet
        Points to interpolate to, for n samples; their values are ignored.
    method : {"auto", "linear"}, default="auto"
        Interpolation between scattered points of a line or a plane. ``"linear"`` stays within the values of the
        neighbours. ``"auto"`` takes piecewise cubics for each channel of a sample where these have the smaller error at
        points that are held out: smooth fields have a fraction of the error then. In space it is linear.
    outside : {"hull", "point"}, default="hull"
        Value outside the convex hull of scattered points: that of the nearest point of the hull, which has an error of
        second order on a curved rim of nodes, or that of the nearest point of the sample, which is also taken where a
        facet of the hull spans other points.

    Returns
    -------
    ndarray of shape (n, Q, c), or flat for ragged places
        Interpolated values: exact at the original points; otherwise by cubic splines on a rectilinear grid, and by
        `method` between other points.

    Notes
    -----
    Points of a sample that coincide, such as the two sides of a crack, may have different values. Places that are the
    points of the sample, in their order, get the values of these. Otherwise coinciding places get the values of the
    coinciding points in the order in which both are listed; where one place is listed more or less often than the
    point, the value of the first.

    References
    ----------
    P. Alfeld, "A trivariate Clough-Tocher scheme for tetrahedral data", Computer Aided Geometric Design 1, 1984; of the
    scheme in the plane and the slopes at points, `scipy.interpolate.CloughTocher2DInterpolator` has the details.
    H. Akima, "A new method of interpolation and smooth curve fitting based on local procedures", Journal of the ACM 17,
    1970, with the weights of `scipy.interpolate.Akima1DInterpolator` with ``method="makima"``.
    """
    for name, word, known in (("method", method, ("auto", "linear")), ("outside", outside, ("hull", "point"))):
        if word not in known:
            raise ValueError(f"{name} is {word!r}; expected one of {known}.")
    values = fields.values
    if values is None:
        raise FieldDataError("this FieldSet has coordinates but no values to interpolate.")
    if fields.shared_coords and places.shared_coords:
        # Shared points are triangulated only once.
        wide = np.moveaxis(values, 0, 1).reshape(values.shape[1], -1)
        found = _at(fields.coords, wide, places.coords, fields.grid_shape, method, outside, "the samples")
        return np.moveaxis(found.reshape(len(found), len(fields), -1), 1, 0)
    samples = zip(fields.coords_list(), fields.to_list(), places.coords_list(), strict=True)
    parts = [_at(*arrays, fields.grid_shape, method, outside, f"sample {i}") for i, arrays in enumerate(samples)]
    return np.concatenate(parts) if places.is_ragged else np.stack(parts)


def _at(
    own: FloatArray,
    values: FloatArray,
    wanted: FloatArray,
    grid_shape: GridShape | None,
    method: str,
    outside: str,
    name: str,
) -> FloatArray:
    """Interpolate values ``(P, k)`` from the points of a sample to values ``(Q, k)`` at other points."""
    if own.shape == wanted.shape and (np.abs(wanted - own) <= SAME_POINT * np.ptp(own, axis=0)).all():
        return values.astype(np.float64)
    if method == "auto" and grid_shape is None:
        # Triangles of four points on a circle depend on the order of the points, and the last digits of slopes.
        order = np.lexsort(own.T[::-1])
        own, values = own[order], values[order]
    distance, nearest = _nearest(own, wanted)
    result = values[nearest].astype(np.float64)
    moved = distance > 0
    if len(own) > 1 and moved.any():
        reach = distance[moved] if outside == "hull" else None
        try:
            result[moved] = _between(own, values, wanted[moved], result[moved], reach, grid_shape, method)
        except QhullError:
            # The text of Qhull is a page about its options.
            raise FieldDataError(_why_flat(own, name)) from None
    return result


def _nearest(own: FloatArray, wanted: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distances to the nearest points and their indices; of points that coincide, the k-th copy finds the k-th."""
    distance, nearest = KDTree(own).query(wanted)
    # Copies of a point follow each other, in the order in which they are listed.
    order = np.lexsort(own.T)
    is_first = np.append(True, (np.diff(own[order], axis=0) != 0).any(axis=1))
    if is_first.all():
        return distance, nearest
    starts, place = np.flatnonzero(is_first), np.empty(len(own), dtype=int)
    place[order] = np.cumsum(is_first) - 1
    held = np.bincount(place)
    hits = np.flatnonzero(distance == 0)
    hits = hits[np.argsort(place[nearest[hits]], kind="stable")]
    asked = place[nearest[hits]]
    number = np.arange(len(hits)) - np.searchsorted(asked, asked)
    is_paired = np.bincount(asked, minlength=len(held))[asked] == held[asked]
    nearest[hits] = order[starts[asked] + np.where(is_paired, number, 0)]
    return distance, nearest


def _between(
    own: FloatArray,
    values: FloatArray,
    wanted: FloatArray,
    nearest: FloatArray,
    reach: FloatArray | None,
    grid_shape: GridShape | None,
    method: str,
) -> FloatArray:
    """Interpolate between the points; outside of scattered ones take the nearest, or with its distance the hull."""
    spread = np.ptp(own, axis=0) > 0
    own, wanted = own[:, spread], wanted[:, spread]
    if not own.shape[1]:
        return nearest  # all points of the sample coincide
    found = None if grid_shape is None else find_grid(own)
    if found is not None:
        # Lines can be numbered downwards, or the first axis of the array along the last one of space.
        return _on_grid(own[found[1]], values[found[1]], wanted, found[0])
    curved = np.zeros(values.shape[1], dtype=bool)
    if method == "auto" and own.shape[1] < 3:
        curved = _are_better_curved(own, values)
    straight, cubic, facets = _straight_and_cubic(own, values, wanted, curved)
    outside = np.isnan(straight[:, -1])
    result = np.where(np.isnan(straight[:, :-1]), nearest, straight[:, :-1])
    cubic = np.clip(cubic, values[:, curved].min(axis=0), values[:, curved].max(axis=0))
    result[:, curved] = np.where(np.isnan(cubic), result[:, curved], cubic)
    if reach is not None and outside.any():
        there, moves = _on_hull(own, values, wanted[outside], facets)
        # A place in a gap between simplices, by rounding, is nearer to a point of the sample than to the hull, too.
        result[outside] = np.where((moves <= reach[outside])[:, np.newaxis], there, nearest[outside])
    return result


def _straight_and_cubic(
    own: FloatArray, values: FloatArray, wanted: FloatArray, curved: npt.NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Linear interpolation ``(Q, k + 1)``, cubics of the curved columns, NaN where there are none, and the hull."""
    # The ones tell where a place is outside, also where a value is NaN.
    wide = np.column_stack([values, np.ones(len(own))])
    cubic = np.full((len(wanted), np.count_nonzero(curved)), np.nan)
    if own.shape[1] == 1:
        order = np.argsort(own[:, 0], kind="stable")
        line, place = own[order, 0], wanted[:, 0]
        # A place with several values has a jump.
        if len(line) > 1 and curved.any() and (np.diff(line) > 0).all():
            cubic = Akima1DInterpolator(line, values[order][:, curved], method="makima", extrapolate=False)(place)
        return np.stack([np.interp(place, line, column[order]) for column in wide.T], axis=-1), cubic, order[[0, -1]]
    middle, size = own.mean(axis=0), np.ptp(own, axis=0)
    size[size == 0] = 1.0
    triangles, wanted = Delaunay((own - middle) / size), (wanted - middle) / size
    if curved.any():
        cubic = CloughTocher2DInterpolator(triangles, values[:, curved])(wanted)
    return LinearNDInterpolator(triangles, wide)(wanted), cubic, triangles.convex_hull


def _are_better_curved(own: FloatArray, values: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether cubics have less error than linear interpolation at points that are held out, for each column."""
    known = np.asarray(np.isfinite(values).all(axis=0))
    order = np.random.default_rng(0).permutation(len(own))
    sizes, count = np.zeros((2, values.shape[1])), 0
    for part in range(_PARTS):
        is_out = np.zeros(len(own), dtype=bool)
        is_out[order[part::_PARTS]] = True
        try:
            straight, cubic, _ = _straight_and_cubic(own[~is_out], values[~is_out], own[is_out], known)
        except QhullError:  # too few points
            break
        errors = np.abs(np.stack([straight[:, :-1][:, known], cubic]) - values[is_out][:, known])
        # Nothing is said of points outside the hull of the others. Squares would be those of a few points in slivers.
        sizes[:, known] += np.where(np.isnan(errors).any(axis=0), 0.0, errors).sum(axis=1)
        count += int(is_out.sum())
        if count >= _ENOUGH:
            break
    return np.asarray(sizes[1] < sizes[0])


def _why_flat(own: FloatArray, name: str) -> str:
    """Say why the points of a sample cannot be triangulated."""
    sizes = np.linalg.svd(own - own.mean(axis=0), compute_uv=False)
    if own.shape[1] == 2 or sizes[1] <= 1e-9 * sizes[0]:
        where, remedy = "on a line that is parallel to no axis", "the line is along x"
    else:
        where, remedy = "in a plane that is parallel to no two axes", "the plane is z = constant"
    return (
        f"the {len(own)} points of {name} lie {where}, so that nothing can be interpolated between them; rotate the "
        f"meshes such that {remedy}."
    )


def _on_hull(
    own: FloatArray, values: FloatArray, wanted: FloatArray, facets: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Values at the nearest points of the convex hull, and their distances; facets (F, d) have corners among `own`.

    The distance is infinite where another point than the corners of the facet is nearer to it. In space a point that is
    projected onto a facet beyond its edges is near the nearest one, and of many facets those at the nearest corners are
    asked.
    """
    number, chosen = _pairs(own, wanted, facets)
    used, chosen = np.unique(chosen, return_inverse=True)
    first, edges = own[facets[used, 0]], own[facets[used, 1:]] - own[facets[used, :1]]
    # Facets of points on a line have no inverse.
    inverses, best = np.linalg.pinv(edges), []
    for piece in gen_batches(len(number), _PAIRS):
        rows, facet = number[piece], chosen[piece]
        parts = np.einsum("fdk,fd->fk", inverses[facet], wanted[rows] - first[facet])
        parts = np.maximum(np.column_stack([1 - parts.sum(axis=1), parts]), 0.0)
        parts /= parts.sum(axis=1, keepdims=True)
        held = facets[used][facet]
        places = np.einsum("fk,fkd->fd", parts, own[held])
        best.append(_nearest_of_each(rows, np.linalg.norm(places - wanted[rows], axis=1), places, parts, held))
    _, distance, places, parts, held = _nearest_of_each(*map(np.concatenate, zip(*best, strict=True)))
    # A facet that spans other points, as of a cloud without any on its rim, says less than the nearest of these.
    is_rim = (KDTree(own).query(places)[1][:, np.newaxis] == held).any(axis=1)
    return np.einsum("fk,fkc->fc", parts, values[held]), np.where(is_rim, distance, np.inf)


def _nearest_of_each(rows: IntArray, distance: FloatArray, *others: Any) -> tuple[Any, ...]:
    """What belongs to the least distance of each row."""
    order = np.lexsort((distance, rows))
    order = order[np.unique(rows[order], return_index=True)[1]]
    return tuple(part[order] for part in (rows, distance, *others))


def _pairs(own: FloatArray, wanted: FloatArray, facets: IntArray) -> tuple[IntArray, IntArray]:
    """Numbers of places and of facets on which the nearest points of these may lie."""
    n_facets = len(facets)
    if len(wanted) * n_facets <= _ALL_PAIRS:
        return np.repeat(np.arange(len(wanted)), n_facets), np.tile(np.arange(n_facets), len(wanted))
    corners, places = np.unique(facets, return_inverse=True)
    shape = len(corners), n_facets
    ones = np.ones(facets.size), (places.ravel(), np.repeat(np.arange(n_facets), facets.shape[1]))
    at = KDTree(own[corners]).query(wanted, k=range(1, min(_NEAREST, len(corners)) + 1))[1]
    found = csr_array(ones, shape=shape)[at.ravel()]
    return np.repeat(np.arange(at.size) // at.shape[1], np.diff(found.indptr)), found.indices


def _on_grid(own: FloatArray, values: FloatArray, wanted: FloatArray, grid_shape: GridShape) -> FloatArray:
    """Interpolate by cubic splines along the axes of a rectilinear grid; the degree is lower for short axes."""
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


# ---------------------------------------------------------------------- resampling to a grid and back
@dataclass(frozen=True)
class GridResampler:
    """Regular grid over a box, with interpolation of fields from scattered points to the grid and back.

    Fields are interpolated to the grid linearly in the Delaunay triangulation of a sample's points (in one dimension
    between neighbours); outside the convex hull, the value of the nearest point is used. Samples that have a
    rectilinear grid are interpolated by cubic splines. From the grid to points, interpolation is multilinear. Nothing
    is extrapolated.

    Attributes
    ----------
    lower, upper : tuple of d floats
        Lower and upper end of the box along each axis.
    grid_shape : tuple of d ints
        Number of grid points along each axis, at least 2; the first and the last lie on the ends of the box.
    distance : bool, default=False
        Whether the fields on the grid get an additional channel ``r / (1 + r)``, where r is the distance of a grid
        point from the nearest point of the sample, in cells. It is 0 at the points of the sample and near 1 in holes
        and outside, so it shows the shape of samples whose points differ.
    error : float or None, default=None
        Mean relative L2 error of the training targets after interpolation to the grid and back; None if they are
        scalars. It is ignored when two resamplers are compared.

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
        """Build a grid over the bounding box of all points.

        Parameters
        ----------
        points : FieldSet
            Samples whose points are used.
        grid : tuple of d ints or "auto", default="auto"
            Number of grid points along each axis; ``"auto"`` gives about as many cells as the mean sample has points,
            which are as close to cubes as the box allows.
        distance : bool or None, default=None
            Whether to add the channel of distances, see the attribute; None adds it if the points differ between
            samples.

        Returns
        -------
        GridResampler
            Resampler for this box.

        Raises
        ------
        FieldDataError
            If the points have no extent along some axis, or `grid` does not match their dimensions.
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
        """Build the object from attributes that were read from JSON."""
        names = ("lower", "upper", "grid_shape")
        return cls(**(content | {name: tuple(content[name]) for name in names}))

    @property
    def coords(self) -> FloatArray:
        """Coordinates of the grid points ``(Q, d)`` in C order."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        unit = unit_grid(self.grid_shape)
        # This weighted form gives exactly the lower and the upper end.
        return lower * (1.0 - unit) + upper * unit

    @property
    def spacing(self) -> FloatArray:
        """Size of a cell along each axis, ``(d,)``."""
        return (np.array(self.upper) - np.array(self.lower)) / (np.array(self.grid_shape) - 1)

    def to_grid(self, fields: FieldSet) -> FieldSet:
        """Interpolate fields to the grid.

        Parameters
        ----------
        fields : FieldSet
            Samples on any points, with or without values; shared points are triangulated once.

        Returns
        -------
        FieldSet
            Samples on the grid, with their global parameters, and with the channel of `distance` as the last.

        Raises
        ------
        FieldDataError
            If the points of a sample cannot be triangulated.
        """
        coords, n_samples = self.coords, len(fields)
        places = FieldSet(coords, np.empty((n_samples, len(coords), 0)))
        parts = []
        if fields.n_channels:
            parts.append(interpolate_fields(_in_fixed_order(fields), places, method="linear", outside="point"))
        if self.distance:
            parts.append(self._distances(fields, coords))
        values = np.concatenate(parts, axis=-1) if parts else None
        return FieldSet(coords, values, params=fields.params, grid_shape=self.grid_shape)

    def _distances(self, points: FieldSet, coords: FloatArray) -> FloatArray:
        """Compute the channel of distances ``(n, Q, 1)`` from the nearest point of each sample."""
        spacing = self.spacing
        sets = [points.coords] if points.shared_coords else points.coords_list()
        found = np.stack([KDTree(own / spacing).query(coords / spacing)[0] for own in sets])
        # The channel is bounded, so that empty parts of the box do not dominate its scaling.
        return np.broadcast_to((found / (1.0 + found))[..., None], (len(points), len(coords), 1))

    def to_points(self, values: FloatArray, points: FieldSet) -> FloatArray:
        """Interpolate fields from the grid to points.

        Parameters
        ----------
        values : ndarray of shape (n, Q, c)
            Fields on the grid.
        points : FieldSet
            Points of n samples; their values are ignored. Points outside the box get the value of the nearest point of
            the box, with a `ResamplingWarning` if they are outside by more than a cell.

        Returns
        -------
        ndarray of shape (n, P, c), or (T, c) for ragged points
            Interpolated fields, in the order of the points.
        """
        self._warn_outside(points)
        if points.shared_coords:
            found = self._multilinear(np.moveaxis(values, 0, 1).reshape(values.shape[1], -1), points.coords)
            return np.moveaxis(found.reshape(len(found), *values.shape[::2]), 1, 0)
        parts = [self._multilinear(held, own) for held, own in zip(values, points.coords_list(), strict=True)]
        return np.concatenate(parts) if points.is_ragged else np.stack(parts)

    def round_trip(self, fields: FieldSet) -> FieldSet:
        """Interpolate fields to the grid and back to their points.

        Parameters
        ----------
        fields : FieldSet
            Samples with values.

        Returns
        -------
        FieldSet
            Fields on the same points after both interpolations.
        """
        held = np.asarray(self.to_grid(fields).values)[..., : fields.n_channels]
        return fields.with_values(self.to_points(held, fields), fields.channel_names)

    def _multilinear(self, values: FloatArray, wanted: FloatArray) -> FloatArray:
        """Interpolate values ``(Q, k)`` from the grid to values ``(P, k)`` at points."""
        ends = zip(self.lower, self.upper, self.grid_shape, strict=True)
        axes = tuple(np.linspace(*end) for end in ends)
        held = values.astype(np.float64).reshape(*self.grid_shape, -1)
        return RegularGridInterpolator(axes, held)(np.clip(wanted, self.lower, self.upper))

    def _warn_outside(self, points: FieldSet) -> None:
        """Warn about points that are more than a cell outside the box."""
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
    """Sort the points, because the triangulation depends on their order where four points lie on a circle."""
    if fields.grid_shape is not None:
        return fields
    return fields.with_order(point_order(fields))


def _automatic_shape(extent: FloatArray, n_cells: float) -> list[int]:
    """Return the numbers of grid points that give about `n_cells` cells as close to cubes as the box allows."""
    shape = [0] * len(extent)
    # Short axes come first: if one is shorter than a cell, the remaining cells are distributed over the others.
    order = np.argsort(extent, kind="stable")
    for place, axis in enumerate(order):
        rest = extent[order[place:]] / extent[axis]
        count = max(1, round(float((n_cells / np.prod(rest)) ** (1 / len(rest)))))
        n_cells /= count
        shape[axis] = count + 1
    return shape


def _checked_shape(grid: Any, n_dims: int) -> GridShape:
    """Check the numbers of grid points along each axis."""
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
    if (count := prod(map(int, sizes))) > _MOST_PLACES:
        raise FieldDataError(
            f"grid={grid!r} has {count:.3g} points, and at most {_MOST_PLACES:.0e} fit into memory; set fewer."
        )
    return tuple(int(size) for size in sizes)
