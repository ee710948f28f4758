"""Errors of fields on regular grids: slopes, frequency bands and phases.

Notation: n samples, P points, c channels; u the truth, û the prediction, e = û - u; k a wave number in
cycles per box.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from skop.exceptions import FieldDataError
from skop.metrics._inputs import (
    ROUNDING,
    FloatArray,
    GridShape,
    average_samples,
    check_average,
    check_weights,
    divide_norms,
    norm_of_set,
    pair_fields,
    root_of_squares,
)

__all__ = ["h1_error", "phase_error", "spectral_error"]

#: Second-order differences at the border of a grid need three points along an axis.
MIN_POINTS_PER_AXIS = 3


def h1_error(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    average: Literal["mean", "none"] = "mean",
    grid_shape: Sequence[int] | None = None,
    spacing: Sequence[float] | None = None,
    gradient_weight: float = 1.0,
) -> float | FloatArray:
    """Relative Sobolev H1 error: wrong values and wrong slopes together.

    ||e||_H1 / ||u||_H1 per sample with ||v||²_H1 = ||v||² + gradient_weight · Σ_a ||∂_a v||² and second-order
    differences, one-sided at the border.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        Fields (n, *grid, c) with two or three grid axes, a FieldSet on a grid, or flat points (n, P, c)
        together with `grid_shape`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    average : {"mean", "none"}, default="mean"
        Mean over the samples, or the error of each.
    grid_shape : sequence of int, optional
        Points along each axis, at least 3. Needed where the arrays do not show it, also for one
        grid axis: (P,).
    spacing : sequence of float, optional
        Distance of neighbouring points along each axis. Default: an even grid that fills the unit box.
    gradient_weight : float, default=1.0
        Weight of the derivatives, >= 0; 0 gives `relative_l2_error`.

    Returns
    -------
    float, or ndarray of shape (n,) for "none"
        Relative error.

    Raises
    ------
    FieldDataError
        If no grid is known or it does not fit the fields.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import h1_error
    >>> u = np.random.default_rng(0).normal(size=(2, 4, 5, 1))
    >>> round(h1_error(u, 1.1 * u), 6)
    0.1
    """
    check_average(average, ("mean", "none"))
    if not gradient_weight >= 0:
        raise ValueError(f"gradient_weight is {gradient_weight!r}, expected a number >= 0.")
    pairs = pair_fields(y_true, y_pred)
    weight = check_weights(sample_weight, len(pairs))
    norms = np.empty((2, len(pairs)))
    for index, (u, v) in enumerate(pairs):
        grid = (pairs.even_grid if spacing is None else pairs.grid)(index, _as_shape(grid_shape))
        steps = _check_steps(spacing, grid)
        norms[:, index] = [_h1_norm(field, grid, steps, gradient_weight) for field in (v - u, u)]
    whole = norm_of_set(norms[1], weight)
    quotients = divide_norms(norms[0], norms[1], weight, "sample", whole, pairs.rounding)
    return average_samples(quotients, weight, average)


def spectral_error(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    average: Literal["mean", "none"] = "mean",
    grid_shape: Sequence[int] | None = None,
    bands: Sequence[float] = (4, 12),
) -> FloatArray:
    """Root mean squared error split into bands of the spatial frequency.

    Band b holds the Fourier modes with bands[b - 1] <= |k| < bands[b], |k| being the Euclidean length of the
    wave vector in cycles per box. The squares of the bands add up to the square of
    `root_mean_squared_error` (Parseval's identity).

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        Fields (n, *grid, c) with two or three grid axes, a FieldSet on a grid, or flat points (n, P, c)
        together with `grid_shape`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    average : {"mean", "none"}, default="mean"
        Root of the mean over the samples, or one row per sample.
    grid_shape : sequence of int, optional
        Points along each axis. Needed where the arrays do not show it, also for one grid axis: (P,).
    bands : sequence of float, default=(4, 12)
        Increasing positive edges between the bands; the default is PDEBench's low, middle and high.

    Returns
    -------
    ndarray of shape (len(bands) + 1,), or (n, len(bands) + 1) for "none"
        Error of each band from low to high frequency, in the unit of the field.

    Notes
    -----
    PDEBench's fRMSE has the same default edges, but divides by the number of shells in a band, so its
    numbers depend on the band's width and do not add up to the total.

    References
    ----------
    PDEBench (Takamoto et al., NeurIPS 2022 Datasets and Benchmarks).

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import spectral_error
    >>> x = np.arange(32) / 32
    >>> u = np.zeros((1, 32, 1))
    >>> wave = np.sqrt(2) * np.cos(2 * np.pi * 5 * x)
    >>> spectral_error(u, u + wave[:, None], grid_shape=(32,)).round(6).tolist()
    [0.0, 1.0, 0.0]
    """
    check_average(average, ("mean", "none"))
    edges = np.asarray(bands, dtype=np.float64)
    if edges.ndim != 1 or (edges <= 0).any() or (np.diff(edges) <= 0).any():
        raise ValueError(f"bands is {bands!r}, expected increasing positive wave numbers.")
    pairs = pair_fields(y_true, y_pred)
    weight = check_weights(sample_weight, len(pairs))
    grids = [pairs.even_grid(index, _as_shape(grid_shape)) for index in range(len(pairs))]
    errors = np.stack([_band_errors(v - u, grid, edges) for (u, v), grid in zip(pairs, grids, strict=True)])
    return errors if average == "none" else norm_of_set(errors, weight)


def phase_error(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    average: Literal["mean", "none"] = "mean",
    grid_shape: Sequence[int] | None = None,
    threshold: float = 1e-6,
) -> FloatArray:
    """Error of the phase of the Fourier modes at each wave number: waves that run ahead or lag behind.

    The error of a mode is the angle between its coefficients in û and u, from 0 to π. It says nothing about the
    amplitude: a positive multiple of the truth has no phase error, its negative has π, and the truth moved by a
    fraction s of the box has 2π|k·s|, brought into the range from 0 to π.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        Fields (n, *grid, c) with two or three grid axes, a FieldSet on a grid, or flat points (n, P, c)
        together with `grid_shape`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    average : {"mean", "none"}, default="mean"
        Mean over the samples that have modes above the threshold, or one row per sample.
    grid_shape : sequence of int, optional
        Points along each axis. Needed where the arrays do not show it, also for one grid axis: (P,).
    threshold : float, default=1e-6
        Amplitude, as a fraction of the largest of the truth in the same sample and channel, up to which a mode is left
        out, >= 0 and < 1. The default is above the rounding of single precision.

    Returns
    -------
    ndarray of shape (K,), or (n, K) for "none"
        Phase error in radians at the wave numbers 0 to K - 1 in cycles per box; K - 1 is half the number of points
        along the shortest axis with more than one, rounded down. NaN where all modes are left out.

    Raises
    ------
    FieldDataError
        If no grid is known or it does not fit the fields, or samples differ in K.
    ValueError
        If `threshold` is out of range, or there is no such `average`.

    Notes
    -----
    On grids with several axes, |k| is the Euclidean length of the wave vector, rounded to the nearest integer. The
    error is the mean over the modes of a wave number and over the channels, each mode counting the same.

    A mode that the truth has and the prediction has not, up to 1e-13 of the prediction's largest amplitude, counts as
    π/2. This is also the mean for a phase drawn at random, so values near π/2 mean that a prediction knows nothing of
    these waves.

    The mean of a field, and the mode that changes its sign from point to point on an even grid, are real: their phase
    error is 0 or π. The transform takes points for equally spaced and fields for periodic; of a grid with points on
    both ends of a period, leave out the last ones.

    References
    ----------
    Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, Fig. 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import phase_error
    >>> x = np.arange(8) / 8
    >>> def waves(x):
    ...     return (1 + np.cos(2 * np.pi * x) + np.cos(4 * np.pi * x))[None, :, None]
    >>> phase_error(waves(x), waves(x - 0.1), grid_shape=(8,)).round(3).tolist()
    [0.0, 0.628, 1.257, nan, nan]
    """
    check_average(average, ("mean", "none"))
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold is {threshold!r}, expected a number >= 0 and < 1.")
    pairs = pair_fields(y_true, y_pred)
    weight = check_weights(sample_weight, len(pairs))
    grids = [pairs.even_grid(index, _as_shape(grid_shape)) for index in range(len(pairs))]
    counts = sorted({_n_wave_numbers(grid) for grid in grids})
    if len(counts) > 1:
        raise FieldDataError(
            f"the grids of the samples hold from {counts[0]} to {counts[-1]} wave numbers, expected as many in each; "
            "compare samples on grids of one size."
        )
    errors = np.stack([_phase_errors(u, v, grid, threshold) for (u, v), grid in zip(pairs, grids, strict=True)])
    if average == "none":
        return errors
    # Samples without modes at a wave number take no part in its mean.
    shares = weight[:, None] * ~np.isnan(errors)
    return _divide((shares * np.nan_to_num(errors)).sum(axis=0), shares.sum(axis=0))


def _as_shape(grid_shape: Sequence[int] | None) -> GridShape | None:
    """Tuple of the grid's sizes, if given."""
    return None if grid_shape is None else tuple(grid_shape)


def _check_steps(spacing: Sequence[float] | None, grid: GridShape) -> Sequence[float]:
    """Distance of neighbours along each axis; the unit box by default."""
    if min(grid) < MIN_POINTS_PER_AXIS:
        raise FieldDataError(f"the grid is {grid}, expected at least {MIN_POINTS_PER_AXIS} points along each axis.")
    if spacing is None:
        return [1.0 / (size - 1) for size in grid]
    if len(spacing) != len(grid) or not all(step > 0 for step in spacing):
        raise FieldDataError(f"spacing is {spacing!r}, expected {len(grid)} positive numbers, one per grid axis.")
    return spacing


def _h1_norm(field: FloatArray, grid: GridShape, steps: Sequence[float], gradient_weight: float) -> float:
    """Discrete H1 norm of one sample (P, c), as a plain sum over the points."""
    on_grid = field.reshape(*grid, -1)
    parts = [root_of_squares(np.sum, field)]
    for axis, step in enumerate(steps):
        slope = np.gradient(on_grid, step, axis=axis, edge_order=2)
        parts.append(np.sqrt(gradient_weight) * root_of_squares(np.sum, slope))
    return float(root_of_squares(np.sum, np.array(parts)))


def _band_errors(error: FloatArray, grid: GridShape, edges: FloatArray) -> FloatArray:
    """Root mean square of one sample's error (P, c), split by the length of the wave vector."""
    axes = tuple(range(len(grid)))
    # norm="forward" divides by P, so that the squared moduli add up to the mean square.
    modes = np.fft.fftn(error.reshape(*grid, -1), axes=axes, norm="forward")
    sizes = root_of_squares(np.mean, np.abs(modes), axis=-1).ravel()
    band = np.searchsorted(edges, _wave_lengths(grid).ravel(), side="right")
    return np.stack([root_of_squares(np.sum, sizes[band == number]) for number in range(len(edges) + 1)])


def _wave_lengths(grid: GridShape) -> FloatArray:
    """Length of the wave vector of each mode in cycles per box, in the order of the transform."""
    # Rounded: the wave numbers are integers and must not slip over the edge of a band.
    frequencies = np.meshgrid(*[np.rint(np.fft.fftfreq(size) * size) for size in grid], indexing="ij")
    return np.sqrt(sum(np.square(frequency) for frequency in frequencies))


def _n_wave_numbers(grid: GridShape) -> int:
    """Number of wave numbers that the grid holds in every direction; axes with a single point hold none."""
    return min((size for size in grid if size > 1), default=1) // 2 + 1


def _phase_errors(u: FloatArray, v: FloatArray, grid: GridShape, threshold: float) -> FloatArray:
    """Mean angle between the modes of two samples (P, c) at each wave number."""
    axes = tuple(range(len(grid)))
    true, predicted = (np.fft.fftn(field.reshape(*grid, -1), axes=axes).reshape(u.shape) for field in (u, v))
    sizes, predicted_sizes = np.abs(true), np.abs(predicted)
    counted = sizes > threshold * sizes.max(axis=0)
    difference = np.abs(np.angle(predicted) - np.angle(true))
    angles = np.minimum(difference, 2 * np.pi - difference)
    # Modes so small are rounding of the transform.
    angles[predicted_sizes <= ROUNDING * predicted_sizes.max(axis=0)] = np.pi / 2
    shell = np.rint(_wave_lengths(grid)).astype(int).ravel()
    n_shells, n_all = _n_wave_numbers(grid), int(shell.max()) + 1
    sums, counts = (
        np.bincount(shell, weights=values.sum(axis=1), minlength=n_all)[:n_shells].astype(np.float64)
        for values in (np.where(counted, angles, 0.0), counted)
    )
    return _divide(sums, counts)


def _divide(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Quotient, NaN where the divisor is zero."""
    return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
