"""Predict on finer grids than the training grid (super-resolution), without retraining.

A network on patches of points has learned the spacing of its training grid. On a grid with half this spacing all fields
look twice as smooth to it, and its predictions are poor. The functions here apply it only to grids with the training
spacing. If a grid is refined by a factor r, every r-th point forms such a grid. Another input on this coarse grid is
obtained by sampling the field at points that are shifted by up to r - 1 fine steps. The predictions for all these
inputs are averaged, with weights that are a hat function of the shift, and interpolated from the coarse points to all
points by cubic splines. Details of the input between the coarse points therefore have an influence, but details of the
output below the training spacing are not resolved.

The average smooths: its inputs have the fields of other points at the coarse ones. Where the input is smooth, every
r-th point holds all of it, and the prediction from these alone is better. Each sample is therefore averaged only where
the splines through its coarse points miss more of it than the average changes it at these points.

Where no whole number of steps leads to the training grid, inputs are brought to it, and predictions back, by cubic
splines. Along the axes around which the network wraps, splines and shifted samplings go around the period.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline, make_interp_spline

from skop._typing import FloatArray, GridShape, IntArray
from skop.data import FieldSet, Predictions, grid_spacing
from skop.exceptions import FieldDataError, ResolutionWarning, warn

__all__ = [
    "over_periods",
    "predict_on_lines",
    "predict_refined",
    "refinement_factors",
    "warn_of_multiples",
    "warn_of_other_shape",
]

#: Warn if one sample takes more predictions than this; a grid that is 16 times finer along two axes takes 961.
_MANY_INPUTS = 1000
#: Warn if the spacing exceeds this multiple of that of the training grid.
_FAR_SPACING = 4 / 3
#: Relative differences of fields in double precision up to this are rounding.
_ROUNDING = 1e-13
#: Part of a period up to which differences of coordinates are rounding.
_SAME = 1e-6


def refinement_factors(
    inputs: FieldSet,
    training_spacing: tuple[float, ...],
    *,
    native: bool,
    quiet: bool = False,
    may_be_finer: bool = False,
) -> GridShape:
    """Find how many times finer than in training a grid is along each axis.

    Parameters
    ----------
    inputs : FieldSet
        Inputs of a prediction, on one regular grid.
    training_spacing : tuple of float
        Spacing of the training grid along each axis.
    native : bool
        Whether the network will be applied to the fine grid itself; all factors are then 1.
    quiet : bool, default=False
        Whether to omit the warning about the spacing, because there was one about the whole grid.
    may_be_finer : bool, default=False
        Whether to omit it where the grid is finer, because the network sees the training grid.

    Returns
    -------
    tuple of int
        Factors of at least 1. If the spacing that the network sees still differs from the training spacing by more than
        a third, a `ResolutionWarning` is issued.

    Raises
    ------
    FieldDataError
        If an axis of the grid is shorter than the spacing of the training.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import FieldSet
    >>> from skop.data import unit_grid
    >>> from skop.surrogate._refinement import refinement_factors
    >>> fine = FieldSet(unit_grid((31, 16)), np.zeros((1, 31, 16, 1)))
    >>> refinement_factors(fine, (1 / 15, 1 / 15), native=False)
    (2, 1)
    """
    grid = _grid(inputs)
    spacing, sizes = grid_spacing(inputs.coords, grid), np.array(grid)
    ratios = np.where(sizes > 1, np.divide(training_spacing, spacing), 1.0)
    factors = np.ones_like(sizes) if native else np.maximum(1, np.rint(ratios)).astype(int)
    if ((factors >= sizes) & (sizes > 1)).any():
        raise FieldDataError(
            f"X has grid spacing {_words(spacing)}, but the estimator was fitted at {_words(training_spacing)}: along "
            "an axis the whole grid lies between two points of the fit. Bring coordinates to the units of the fit."
        )
    left = np.minimum(ratios, 1.0) if may_be_finer else ratios / factors
    if not quiet and (np.maximum(left, 1 / left) > _FAR_SPACING).any():
        warn(
            f"X has grid spacing {_words(spacing)}, but the estimator was fitted at {_words(training_spacing)}; errors "
            "may be large. Check against known samples, or interpolate X onto the training spacing.",
            ResolutionWarning,
        )
    return tuple(factors.tolist())


def warn_of_other_shape(grid: GridShape, training_grid: GridShape) -> None:
    """Warn if grids whose predictions are not refined have far more or fewer points along an axis than in the fit.

    Parameters
    ----------
    grid, training_grid : tuple of int
        Number of points along each axis of the samples, and of those of the fit.
    """
    ratios = np.maximum(np.array(grid) - 1, 1) / np.maximum(np.array(training_grid) - 1, 1)
    if (np.maximum(ratios, 1 / ratios) > _FAR_SPACING).any():
        here, there = (" x ".join(map(str, shape)) for shape in (grid, training_grid))
        warn(
            f"X is on grids of {here} points, but the estimator was fitted on grids of {there} points, which are "
            "curvilinear or differ between samples, and has learned their spacing; errors may be large. Check against "
            "known samples, or interpolate X onto grids of that shape.",
            ResolutionWarning,
        )


def warn_of_multiples(grid: GridShape, training_grid: GridShape, axes: Sequence[int]) -> None:
    """Warn if arrays have a multiple, or a fraction, of the points of the fit, as periodic grids and cells have.

    Parameters
    ----------
    grid, training_grid : tuple of int
        Number of points along each axis of the samples, and of those of the fit.
    axes : sequence of int
        Axes around which the samples of the fit go, where it is known what is meant.
    """
    for axis, pair in enumerate(zip(grid, training_grid, strict=True)):
        fewer, more = sorted(pair)
        if axis in axes or fewer < 2 or fewer == more or more % fewer:
            continue
        warn(
            f"axis {axis} of X has {grid[axis]} points, and {training_grid[axis]} in the fit. Arrays are read as grids "
            f"with a point on each end of the box, so that of both grids only the ends coincide; {fewer} points and "
            f"{more // fewer * (fewer - 1) + 1} would share all {fewer}. If your points lie elsewhere, as those of "
            "periodic grids and centres of cells do, errors are large: fit and predict with coordinates, "
            "FieldSet(coords, values), which are np.arange(n) / n or (np.arange(n) + 0.5) / n on a line. For periodic "
            f"grids symmetries=['shift_{'xyz'[axis]}'] says it too.",
            ResolutionWarning,
        )
        return


def over_periods(
    inputs: FieldSet, lines: Sequence[FloatArray], axes: Sequence[int], may_move: bool = True
) -> tuple[FieldSet, tuple[float, ...]]:
    """Find the axes along which grids are one period, as a shift declares of that of the fit.

    Parameters
    ----------
    inputs : FieldSet
        Samples on one regular grid, whose axes run along the coordinates.
    lines : sequence of ndarray
        Coordinates along each axis of the training grid.
    axes : sequence of int
        Axes of declared shifts.
    may_move : bool, default=True
        Whether the coordinates are those that arrays are given, and tell nothing.

    Returns
    -------
    inputs : FieldSet
        The samples. Points of arrays that end where another number of points of the fit does are brought to as many
        parts of the period.
    periods : tuple of float
        Period along each axis; 0 along those without, and where a grid is not one period long.
    """
    grid, periods = _grid(inputs), [0.0] * len(lines)
    coords = np.array(inputs.coords, dtype=np.float64).reshape(*grid, -1)
    is_changed = False
    for axis in axes:
        size, count, line = grid[axis], len(lines[axis]), np.asarray(lines[axis], dtype=np.float64)
        own = np.moveaxis(coords[..., axis], axis, 0).reshape(size, -1)[:, 0]
        if min(size, count) < 2:
            continue
        period = (line[-1] - line[0]) * count / (count - 1)
        slack = _SAME * abs(period)
        if np.abs(own - np.linspace(own[0], own[-1], size)).max() > slack:
            continue
        if may_move and size != count and max(abs(own[0] - line[0]), abs(own[-1] - line[-1])) <= slack:
            coords[..., axis] = line[0] + (coords[..., axis] - line[0]) * ((size - 1) / size * count / (count - 1))
            is_changed = True
        elif abs((own[-1] - own[0]) * size / (size - 1) - period) > slack:
            continue
        periods[axis] = abs(period)
    if is_changed:
        points = coords.reshape(-1, coords.shape[-1])
        inputs = FieldSet(points, inputs.values, params=inputs.params, grid_shape=grid)
    return inputs, tuple(periods)


def _grid(inputs: FieldSet) -> GridShape:
    """Return the grid of samples that have one."""
    if inputs.grid_shape is None:
        raise ValueError("refinement needs samples on one regular grid.")
    return inputs.grid_shape


def _words(spacing: tuple[float, ...]) -> str:
    """Spacings to three digits."""
    return " x ".join(f"{step:.3g}" for step in spacing)


def predict_refined(
    inputs: FieldSet,
    factors: GridShape,
    predict: Callable[[FieldSet], Predictions],
    *,
    average: bool,
    periods: Sequence[float] = (),
) -> Predictions:
    """Predict on a fine grid by applying the network to grids with the training spacing.

    Parameters
    ----------
    inputs : FieldSet
        Samples on one regular grid.
    factors : tuple of int
        Factors by which the grid is finer than the training grid along each axis.
    predict : callable
        Function that predicts for a FieldSet on a grid with the training spacing.
    average : bool
        Whether to average over shifted samplings of the input, in samples whose coarse points do not hold it; otherwise
        only every r-th point is used.
    periods : sequence of float, default=()
        Period along each axis, 0 for none, from `over_periods`.

    Returns
    -------
    Predictions
        Fields at all points; scalars are averaged, but not interpolated.
    """
    grid = _grid(inputs)
    coarse: list[IntArray] = [np.arange(0, size, factor) for size, factor in zip(grid, factors, strict=True)]
    coords = inputs.coords.reshape(*grid, -1)
    points = coords[np.ix_(*coarse)]
    lines = [_line(coords, axis) for axis in range(len(grid))]
    periods = periods or (0.0,) * len(grid)

    def ask(part: FieldSet, shift: tuple[int, ...]) -> Predictions:
        """Predict from the fine points at a shift from the coarse points."""
        read = None
        if part.values is not None:
            values = part.values.reshape(len(part), *grid, -1)
            read = values[np.ix_(np.arange(len(part)), *_shifted(coarse, shift, grid, periods))]
        flat = points.reshape(-1, points.shape[-1])
        return predict(FieldSet(flat, read, params=part.params, grid_shape=points.shape[:-1]))

    found = ask(inputs, (0,) * len(grid))
    # Without input fields all shifts would give the same input.
    rough = np.flatnonzero(_are_rough(inputs, coarse, factors, lines)) if average and inputs.values is not None else ()
    if len(rough):
        held = {name: np.array(part) for name, part in vars(found).items() if part is not None}
        known = {name: part[rough] for name, part in held.items()}
        for name, mean in _average(inputs[rough], factors, ask, known).items():
            held[name][rough] = mean
        found = replace(found, **held)
    if found.fields is None:
        return found
    fields = np.reshape(found.fields, (len(inputs), *points.shape[:-1], -1))
    for axis, (kept, factor, line) in enumerate(zip(coarse, factors, lines, strict=True)):
        if factor > 1:
            fields = _prolong(fields, line[kept], line, axis + 1, periods[axis])
    return Predictions(fields.reshape(len(inputs), int(np.prod(grid)), -1), found.scalars)


def _line(coords: FloatArray, axis: int) -> FloatArray:
    """Length along a grid line up to each point of an axis, which can run along any coordinate."""
    corner = np.moveaxis(coords, axis, 0).reshape(coords.shape[axis], -1, coords.shape[-1])[:, 0]
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corner, axis=0), axis=-1))])


def _average(
    inputs: FieldSet,
    factors: GridShape,
    ask: Callable[[FieldSet, tuple[int, ...]], Predictions],
    known: dict[str, FloatArray],
) -> dict[str, FloatArray]:
    """Fields and scalars, averaged over all shifts of the input; those of no shift are known."""
    shifts = list(product(*(range(1 - factor, factor) for factor in factors)))
    if len(shifts) > _MANY_INPUTS:
        warn(
            f"X is on a grid {' x '.join(map(str, factors))} times finer than in the fit, so that predictions are an "
            f"average over {len(shifts)} shifted inputs, which takes long; check the units of the coordinates, or set "
            "refinement='interpolate', which uses one input.",
            ResolutionWarning,
        )
    means: dict[str, FloatArray] = {name: part / prod(factors) for name, part in known.items()}
    for shift in filter(any, shifts):
        weight = prod(_hat(step, factor) for step, factor in zip(shift, factors, strict=True))
        found = vars(ask(inputs, shift))
        means = {name: mean + weight * found[name] for name, mean in means.items()}
    return means


def _are_rough(
    inputs: FieldSet, coarse: list[IntArray], factors: GridShape, lines: Sequence[FloatArray]
) -> NDArray[np.bool_]:
    """Whether splines through the coarse points of samples miss more of a field than the average changes it there."""
    grid = _grid(inputs)
    values = np.asarray(inputs.values, dtype=np.float64).reshape(len(inputs), *grid, -1)
    # Beyond the last coarse point nothing is known of a field.
    values = values[(slice(None), *(slice(kept[-1] + 1) for kept in coarse))]
    known = np.ix_(np.arange(len(inputs)), *coarse)
    splines, means = values[known], values
    for axis, (kept, factor, line) in enumerate(zip(coarse, factors, lines, strict=True), 1):
        if factor > 1:
            splines = _prolong(splines, line[kept], line[: kept[-1] + 1], axis)
            shifts = range(1 - factor, factor)
            places = [np.clip(kept + step, 0, kept[-1]) for step in shifts]
            parts = [
                _hat(step, factor) * np.take(means, place, axis) for step, place in zip(shifts, places, strict=True)
            ]
            means = np.sum(parts, axis=0)
    axes = tuple(range(1, values.ndim - 1))
    missed, changed = (splines - values) ** 2, (means - values[known]) ** 2
    # Splines and averages along an axis of equal values differ by rounding.
    rounding = max(_ROUNDING, 2 * float(np.finfo(np.result_type(inputs.values, np.float32)).eps))
    least = (rounding * np.abs(values).max(axis=axes)) ** 2
    return np.asarray((missed.mean(axis=axes) > np.maximum(changed.mean(axis=axes), least)).any(axis=-1))


def _hat(step: int, factor: int) -> float:
    """Weight of a shift by steps along an axis."""
    return (factor - abs(step)) / factor**2


def predict_on_lines(
    inputs: FieldSet,
    lines: Sequence[FloatArray],
    axes: Sequence[int],
    predict: Callable[[FieldSet], Predictions],
    *,
    periods: Sequence[float] = (),
) -> Predictions:
    """Predict on a grid by applying the network to the training grid, with cubic splines between both.

    Parameters
    ----------
    inputs : FieldSet
        Samples on one regular grid.
    lines : sequence of ndarray
        Coordinates along each axis of the training grid, of which each has two points at least.
    axes : sequence of int
        Number of the coordinate along each axis.
    predict : callable
        Function that predicts for a FieldSet on the training grid.
    periods : sequence of float, default=()
        Period along each axis, 0 for none, from `over_periods`.

    Returns
    -------
    Predictions
        Fields at all points of the samples, and scalars.
    """
    grid, shape = _grid(inputs), tuple(len(line) for line in lines)
    periods = periods or (0.0,) * len(grid)
    coords = inputs.coords.reshape(*grid, -1)
    own = [np.moveaxis(coords[..., main], axis, 0).reshape(grid[axis], -1)[:, 0] for axis, main in enumerate(axes)]
    points = np.empty((*shape, len(axes)))
    for main, along in zip(axes, np.meshgrid(*lines, indexing="ij"), strict=True):
        points[..., main] = along
    read = None
    if inputs.values is not None:
        read = inputs.values.reshape(len(inputs), *grid, -1)
        for axis, (known, wanted) in enumerate(zip(own, lines, strict=True)):
            read = _prolong(read, known, wanted, axis + 1, periods[axis])
    found = predict(FieldSet(points.reshape(-1, len(axes)), read, params=inputs.params, grid_shape=shape))
    if found.fields is None:
        return found
    fields = found.fields.reshape(len(inputs), *shape, -1)
    for axis, (known, wanted) in enumerate(zip(lines, own, strict=True)):
        fields = _prolong(fields, known, wanted, axis + 1, periods[axis])
    return Predictions(fields.reshape(len(inputs), prod(grid), -1), found.scalars)


def _shifted(
    coarse: list[IntArray], shift: tuple[int, ...], grid: GridShape, periods: Sequence[float]
) -> list[IntArray]:
    """Indices of the fine points at a shift from the coarse points, around a period or clipped to the grid."""
    return [
        (kept + step) % size if period else np.clip(kept + step, 0, size - 1)
        for kept, step, size, period in zip(coarse, shift, grid, periods, strict=True)
    ]


def _prolong(values: FloatArray, known: FloatArray, wanted: FloatArray, axis: int, period: float = 0.0) -> FloatArray:
    """Cubic spline between known points along an axis, around a period, or linear beyond the first and the last one."""
    if len(known) == 1:
        return np.repeat(values, len(wanted), axis=axis)
    if known[-1] < known[0]:
        known, wanted = -known, -wanted
    if period:
        values = np.concatenate([values, np.take(values, [0], axis)], axis=axis)
        spline = CubicSpline(np.append(known, known[0] + period), values, axis=axis, bc_type="periodic")
        return np.asarray(spline(known[0] + (wanted - known[0]) % period))
    inside = np.clip(wanted, known[0], known[-1])
    found = make_interp_spline(known, values, k=min(3, len(known) - 1), axis=axis)(inside)
    beyond = (wanted - inside).reshape([-1 if place == axis else 1 for place in range(values.ndim)])
    for is_beyond, (here, next_to) in ((beyond < 0, (0, 1)), (beyond > 0, (-1, -2))):
        slope = (np.take(values, [here], axis) - np.take(values, [next_to], axis)) / (known[here] - known[next_to])
        found = found + np.where(is_beyond, beyond, 0.0) * slope
    return found
