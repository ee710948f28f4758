"""Fields at other points than their own: linear in the simplices of scattered points, cubic splines on grids.

Letters of the shapes: n samples, P points, Q query points, d space dimensions, k values at a point.
"""

from typing import Any

import numpy as np
from scipy.interpolate import LinearNDInterpolator, NdBSpline, make_interp_spline
from scipy.spatial import KDTree, QhullError

from skop._typing import FloatArray, GridShape
from skop.data._fieldset import FieldSet
from skop.data._grid import find_grid
from skop.data._storage import as_storage
from skop.exceptions import FieldDataError

__all__ = ["interpolate_fields", "query_points"]

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
