"""Samples of different points as a classical model reads them, on a common regular grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, GridResampler, Targets, TrainingData
from skop.estimators.classical._copies import groups_on_same_points
from skop.estimators.classical._nodes import Numbering, keep_their_distances
from skop.exceptions import ResamplingWarning, warn
from skop.metrics._flat import relative_l2_of_fields

__all__ = [
    "MOST_GRID_AXES",
    "on_grid",
    "readings",
    "reads_points",
    "warn_of_resampling",
]

#: Largest number of axes of a grid for scattered points.
MOST_GRID_AXES = 3
#: Warn if the relative error of interpolation to a grid and back exceeds this.
_LARGE_ERROR = 0.02
#: Cells of an automatic grid for each point of a sample.
_CELLS = 8.0


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
