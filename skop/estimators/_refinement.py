"""Predict on finer grids than the training grid, without retraining.

A network that mixes patches of points has learned its training spacing: fed a grid of half the spacing it
sees fields that look twice as smooth and half as far apart, and fails. Here it sees only grids with the
training spacing. Of a grid refined r times, every r-th point is such a grid; so is the field read at
points up to r - 1 fine steps away from them, which is as good a sample of the same field. The predictions
from all these readings are averaged, weighted by a hat function of the shift, and carried from the coarse
points to all others by cubic splines. Detail of the input between the coarse points thus counts; detail of
the output below the training spacing is not resolved.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
from scipy.interpolate import make_interp_spline

from skop._typing import FloatArray, GridShape, IntArray
from skop.data import FieldSet, Predictions, grid_spacing
from skop.exceptions import ResolutionWarning, warn

__all__ = ["predict_refined", "refinement_factors"]

#: Spacings that differ from training by more than this factor are warned about.
_FAR_SPACING = 4 / 3


def refinement_factors(inputs: FieldSet, training_spacing: tuple[float, ...], *, native: bool) -> GridShape:
    """Find how many times finer than in training a grid is along each axis.

    Parameters
    ----------
    inputs : FieldSet
        What is to be predicted, on one regular grid.
    training_spacing : tuple of float
        Spacing of the training grid along each axis.
    native : bool
        Whether the network itself will see the fine grid; all factors are then 1.

    Returns
    -------
    tuple of int
        Factors of at least 1; where the spacing that the network sees still differs by more than a
        third from training, a `ResolutionWarning` is issued.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import FieldSet
    >>> from skop.data import unit_grid
    >>> from skop.estimators._refinement import refinement_factors
    >>> fine = FieldSet(unit_grid((31, 16)), np.zeros((1, 31, 16, 1)))
    >>> refinement_factors(fine, (1 / 15, 1 / 15), native=False)
    (2, 1)
    """
    spacing = grid_spacing(inputs.coords, _grid(inputs))
    axes = list(zip(training_spacing, spacing, _grid(inputs), strict=True))
    ratios = [old / new if size > 1 else 1.0 for old, new, size in axes]
    factors = tuple(1 if native else max(1, round(ratio)) for ratio in ratios)
    left = [ratio / factor for ratio, factor in zip(ratios, factors, strict=True)]
    if any(not 1 / _FAR_SPACING <= part <= _FAR_SPACING for part in left):
        warn(
            f"X has grid spacing {_words(spacing)}, but the estimator was fitted at {_words(training_spacing)}; errors "
            "may be large. Check against known samples, or interpolate X onto the training spacing.",
            ResolutionWarning,
        )
    return factors


def _grid(inputs: FieldSet) -> GridShape:
    """The grid of samples that are known to have one."""
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
) -> Predictions:
    """Predict through grids with the training spacing.

    Parameters
    ----------
    inputs : FieldSet
        Samples on one regular grid.
    factors : tuple of int
        How many times finer than in training the grid is along each axis.
    predict : callable
        Gives predictions for a FieldSet on a grid with the training spacing.
    average : bool
        Average over shifted readings of the input, and not take every r-th point alone.

    Returns
    -------
    Predictions
        Fields at all points; scalars are averaged alone.
    """
    grid = _grid(inputs)
    coarse: list[IntArray] = [np.arange(0, size, factor) for size, factor in zip(grid, factors, strict=True)]
    coords = inputs.coords.reshape(*grid, -1)
    points = coords[np.ix_(*coarse)]
    values = None if inputs.values is None else inputs.values.reshape(len(inputs), *grid, -1)
    # Without fields there is nothing to read at shifted points.
    reach = [factor if average and values is not None else 1 for factor in factors]
    total: FloatArray | float = 0.0
    scalars: FloatArray | float = 0.0
    for shift in product(*(range(1 - steps, steps) for steps in reach)):
        weight = np.prod([(steps - abs(step)) / steps**2 for step, steps in zip(shift, reach, strict=True)])
        read = None if values is None else values[np.ix_(np.arange(len(inputs)), *_shifted(coarse, shift, grid))]
        part = FieldSet(points.reshape(-1, points.shape[-1]), read, params=inputs.params, grid_shape=points.shape[:-1])
        found = predict(part)
        total = total if found.fields is None else total + weight * found.fields
        scalars = scalars if found.scalars is None else scalars + weight * found.scalars
    numbers = None if np.ndim(scalars) == 0 else np.asarray(scalars)
    if np.ndim(total) == 0:
        return Predictions(None, numbers)
    fields = np.reshape(total, (len(inputs), *points.shape[:-1], -1))
    for axis, (kept, factor) in enumerate(zip(coarse, factors, strict=True)):
        if factor > 1:
            # The length along a grid line serves grids whose axes run along any coordinate.
            corner = np.moveaxis(coords, axis, 0).reshape(grid[axis], -1, coords.shape[-1])[:, 0]
            steps = np.linalg.norm(np.diff(corner, axis=0), axis=-1)
            line = np.concatenate([[0.0], np.cumsum(steps)])
            fields = _prolong(fields, line[kept], line, axis + 1)
    return Predictions(fields.reshape(len(inputs), int(np.prod(grid)), -1), numbers)


def _shifted(coarse: list[IntArray], shift: tuple[int, ...], grid: GridShape) -> list[IntArray]:
    """Fine points some steps away from the coarse ones, kept inside the grid."""
    return [np.clip(kept + step, 0, size - 1) for kept, step, size in zip(coarse, shift, grid, strict=True)]


def _prolong(values: FloatArray, known: FloatArray, wanted: FloatArray, axis: int) -> FloatArray:
    """Cubic spline between known points along an axis, and straight lines beyond the last of them."""
    if len(known) == 1:
        return np.repeat(values, len(wanted), axis=axis)
    inside = wanted <= known[-1]
    fine = make_interp_spline(known, values, k=min(3, len(known) - 1), axis=axis)(wanted[inside])
    last, before = np.take(values, [-1], axis=axis), np.take(values, [-2], axis=axis)
    slope = (last - before) / (known[-1] - known[-2])
    distance = (wanted[~inside] - known[-1]).reshape([-1 if place == axis else 1 for place in range(values.ndim)])
    return np.concatenate([fine, last + slope * distance], axis=axis)
