"""A common regular grid for samples on points of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, GridResampler, Targets, TrainingData
from skop.exceptions import ResamplingWarning, warn
from skop.metrics._flat import relative_l2_of_fields

__all__ = ["MOST_GRID_AXES", "on_grid", "warn_of_resampling", "without_distance"]

#: Number of axes of a grid for scattered points.
MOST_GRID_AXES = 3
#: Relative error of interpolation to a grid and back from which a fit warns.
_LARGE_ERROR = 0.02


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


def without_distance(data: TrainingData) -> TrainingData:
    """Leave out the channel of distances from the points of each sample, which is the last one on a grid.

    Parameters
    ----------
    data : TrainingData
        Samples on a grid, with this channel.

    Returns
    -------
    TrainingData
        Samples with input fields and global parameters alone, if there are any.
    """
    inputs = _with_channels(data.inputs, np.asarray(data.inputs.values)[..., :-1])
    resampler = data.spec.resampler
    spec = data.spec if resampler is None else replace(data.spec, resampler=replace(resampler, distance=False))
    return replace(data, inputs=inputs, spec=spec)


def _with_channels(inputs: FieldSet, values: FloatArray) -> FieldSet:
    """The same samples on a grid with other channels, or none."""
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
