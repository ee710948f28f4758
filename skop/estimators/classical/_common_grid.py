"""Samples as a classical model reads them: on a common regular grid, and numbers of regions as parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, GridResampler, Targets, TrainingData
from skop.estimators.classical._copies import groups_on_same_points
from skop.estimators.classical._nodes import Numbering, keep_their_distances
from skop.exceptions import FieldDataError, ResamplingWarning, warn
from skop.metrics._flat import relative_l2_of_fields

__all__ = [
    "MOST_GRID_AXES",
    "on_grid",
    "readings",
    "reads_points",
    "regions_of",
    "warn_of_resampling",
    "with_regions_as_params",
]

#: Largest number of axes of a grid for scattered points.
MOST_GRID_AXES = 3
#: Warn if the relative error of interpolation to a grid and back exceeds this.
_LARGE_ERROR = 0.02
#: Cells of an automatic grid for each point of a sample.
_CELLS = 8.0
#: Values of a channel that differ by less than this part of the largest one are one number, written at many points.
_SAME_VALUES = 1e-5
#: Relative differences of sums up to this are rounding.
_ROUNDING = 1e-12
#: Largest number of regions of a channel that are tried as parameters, and least number of points of one, on average.
_MOST_REGIONS, _POINTS_OF_REGION = 64, 4


def readings(data: TrainingData, grid: Any, *, is_chosen: bool) -> list[TrainingData]:
    """Samples as a classical model may read them, the simplest one first: at their nodes, or on a common grid.

    Parameters
    ----------
    data : TrainingData
        n samples.
    grid : "auto", int, tuple of int or None
        As in `skop.PODRegressor`.
    is_chosen : bool
        Whether the errors on unseen samples are known, by which one of several is chosen.

    Returns
    -------
    list of TrainingData
        One or two.
    """
    inputs, has_more = data.inputs, data.spec.n_fields or data.spec.n_params
    if grid is None or data.spec.geometry != "points" or data.targets.elsewhere:
        return [data]
    needs_grid = not isinstance(grid, str)
    if not needs_grid:
        if inputs.shared_coords or inputs.n_dims > MOST_GRID_AXES:
            return [data]
        needs_grid = inputs.is_ragged or not (
            Numbering.from_fit(inputs.coords).is_known and keep_their_distances(inputs)
        )
        if not needs_grid and not (has_more and is_chosen and groups_on_same_points(inputs, None) is not None):
            return [data]
    resampler = GridResampler.fit(inputs, grid)
    if isinstance(grid, str):
        finer = _CELLS ** (1 / inputs.n_dims)
        resampler = replace(resampler, grid_shape=tuple(round(finer * (size - 1)) + 1 for size in resampler.grid_shape))
    shaped = on_grid(data, resampler)
    if not needs_grid:
        return [data, _without_distance(shaped) if resampler.distance else shaped]
    # Where points are drawn anew for each sample, their distances are noise.
    return [_without_distance(shaped), shaped] if resampler.distance and has_more and is_chosen else [shaped]


def reads_points(data: TrainingData) -> bool:
    """Return whether a model of samples reads where their points are.

    Parameters
    ----------
    data : TrainingData
        Samples, at their nodes or on a common grid.

    Returns
    -------
    bool
        Whether it does.
    """
    resampler = data.spec.resampler
    return not data.inputs.shared_coords if resampler is None else bool(resampler.distance)


def on_grid(data: TrainingData, resampler: GridResampler, used: IntArray | None = None) -> TrainingData:
    """Interpolate inputs, and targets on the points of these, to a grid.

    Parameters
    ----------
    data : TrainingData
        n samples.
    resampler : GridResampler
        Grid.
    used : ndarray of int or None, default=None
        Indices of the samples that count in the error of the interpolation; None takes all.

    Returns
    -------
    TrainingData
        Samples on the grid; its spec holds the resampler with the error of the targets after the way back.
    """
    inputs, targets, field, error = data.inputs, data.targets, data.targets.field, None
    used = np.arange(len(inputs)) if used is None else used
    if field is None:
        inputs = resampler.to_grid(inputs)
    else:
        # One triangulation serves inputs and targets.
        held = [np.asarray(part.values) for part in (inputs, field) if part.n_channels]
        both = resampler.to_grid(inputs.with_values(np.concatenate(held, axis=-1)))
        n_fields, n_outputs = data.spec.n_fields, data.spec.n_outputs
        values = np.asarray(both.values)
        chosen = np.delete(values, np.s_[n_fields : n_fields + n_outputs], axis=-1)
        inputs = _with_channels(both.with_params(inputs.params), chosen)
        targets = Targets(
            both.with_values(values[..., n_fields : n_fields + n_outputs], field.channel_names), targets.scalars
        )
        returned = resampler.to_points(values[used][..., n_fields : n_fields + n_outputs], data.inputs[used])
        true, n_points = np.asarray(field[used].values).reshape(-1, n_outputs), field[used].n_points
        error = relative_l2_of_fields(true, returned.reshape(-1, n_outputs), n_points)
    return replace(
        data, inputs=inputs, targets=targets, spec=replace(data.spec, resampler=replace(resampler, error=error))
    )


def regions_of(inputs: FieldSet, most: int = _MOST_REGIONS) -> IntArray:
    """Return which values of input fields hold the same number in every sample, as those of a material in its region.

    Parameters
    ----------
    inputs : FieldSet
        n samples of P points and c channels.
    most : int, default=64
        Largest number of such regions of a channel; 1 finds channels that are constant in space.

    Returns
    -------
    ndarray of int, shape (P, c)
        Numbers of the regions, counted through all channels; -1 for channels that are none of regions, and for those
        that are the same in all samples.
    """
    if inputs.values is None or inputs.is_ragged:
        return np.zeros((0, 0), dtype=int)
    values = np.asarray(inputs.values).reshape(len(inputs), -1, inputs.n_channels)
    found, count = np.full(values.shape[1:], -1), 0
    # Points of a region have the same sums over samples, whatever the factors.
    factors = np.random.default_rng(0).uniform(1, 2, len(values))
    for channel, own in enumerate(np.moveaxis(values, -1, 0)):
        labels = np.zeros(own.shape[1], dtype=int)
        if not np.ptp(own, axis=0).any():
            continue
        if _differing(own, labels).any():
            sums = factors @ own.astype(np.float64)
            order = np.argsort(sums, kind="stable")
            labels[order] = np.append(0, np.cumsum(np.diff(sums[order]) > _ROUNDING * np.abs(sums).max()))
        n_regions = labels.max() + 1
        if n_regions > max(1, min(most, len(labels) // _POINTS_OF_REGION)):
            continue
        if not _differing(own, labels).any():
            found[:, channel], count = labels + count, count + n_regions
    return found


def with_regions_as_params(inputs: FieldSet, regions: IntArray) -> FieldSet:
    """Return samples whose channels of regions are global parameters, after those that they have.

    Principal components of such channels would mix the numbers of the regions, so that no regressor could read them one
    by one, or take their logarithms.

    Parameters
    ----------
    inputs : FieldSet
        n samples.
    regions : ndarray of int, shape (P, c)
        Numbers of the regions, from `regions_of` the fit.

    Returns
    -------
    FieldSet
        The samples.

    Raises
    ------
    FieldDataError
        If a region has several numbers in one sample.
    """
    channels = np.flatnonzero((regions >= 0).all(axis=0))
    if not len(channels) or inputs.values is None or regions.shape != (inputs.n_points[0], inputs.n_channels):
        return inputs
    values = np.asarray(inputs.values).reshape(len(inputs), *regions.shape)
    numbers = [] if inputs.params is None else [np.asarray(inputs.params, dtype=np.float64)]
    for channel in channels:
        own, labels = values[..., channel], regions[:, channel] - regions[:, channel].min()
        if (wrong := _differing(own, labels)).any():
            where = "" if not labels.any() else " of one region"
            raise FieldDataError(
                f"channel {channel} of X differs between the points{where} of sample {np.flatnonzero(wrong)[0]}, but "
                f"held one number there in each sample of the fit, which the model reads as a parameter; pass one "
                "number, or add samples in which it varies to the fit."
            )
        sums = [own[:, labels == number].mean(axis=1, dtype=np.float64) for number in range(labels.max() + 1)]
        numbers.append(np.stack(sums, axis=1))
    others = np.delete(np.asarray(inputs.values), channels, axis=-1)
    return _with_channels(inputs.with_params(np.concatenate(numbers, axis=1)), others)


def _differing(values: FloatArray, labels: IntArray) -> Any:
    """Which samples have several numbers in one region, in values of one channel (n, P)."""
    rows, starts = values, np.zeros(1, dtype=int)
    if labels.any():
        order = np.argsort(labels, kind="stable")
        rows, starts = values[:, order], np.searchsorted(labels[order], np.arange(labels.max() + 1))
    spread = np.maximum.reduceat(rows, starts, axis=1) - np.minimum.reduceat(rows, starts, axis=1)
    return spread.max(axis=1) > _SAME_VALUES * np.abs(values).max(axis=1)


def _without_distance(data: TrainingData) -> TrainingData:
    """Samples on a grid without the distances from their points, the last channel there."""
    inputs = _with_channels(data.inputs, np.asarray(data.inputs.values)[..., :-1])
    resampler = data.spec.resampler
    spec = data.spec if resampler is None else replace(data.spec, resampler=replace(resampler, distance=False))
    return replace(data, inputs=inputs, spec=spec)


def _with_channels(inputs: FieldSet, values: FloatArray) -> FieldSet:
    """The same samples with other channels, or none."""
    params = inputs.params
    return FieldSet(inputs.coords, values if values.shape[-1] else None, params=params, grid_shape=inputs.grid_shape)


def warn_of_resampling(resampler: GridResampler | None, otherwise: str) -> None:
    """Warn if a grid, to which points have been interpolated, is too coarse for the targets.

    Parameters
    ----------
    resampler : GridResampler or None
        The grid, with its error.
    otherwise : str
        What to do where a finer one does not help.
    """
    if resampler is None or resampler.error is None or resampler.error <= _LARGE_ERROR:
        return
    shape = "x".join(map(str, resampler.grid_shape))
    warn(
        f"interpolation from the points to the grid of {shape} and back changes the training targets by "
        f"{resampler.error:.3g} (mean relative L2 error), and predictions will hardly have a smaller error; set a "
        f"finer grid=..., or {otherwise}.",
        ResamplingWarning,
    )
