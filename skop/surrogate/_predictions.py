"""Arithmetic of predictions: a function of each part, of two predictions, and of the predictions of several samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from skop._typing import IntArray
from skop.data import FieldSet, GridResampler, Predictions

__all__ = ["averaged", "combined", "each_part", "joined", "on_grid_of", "rows_of"]


def each_part(function: Callable[[Any], Any], found: Predictions) -> Predictions:
    """Apply a function to the fields and the scalars; infinities are refused where predictions are returned."""
    with np.errstate(divide="ignore", over="ignore"):
        return Predictions(*(None if part is None else function(part) for part in (found.fields, found.scalars)))


def combined(function: Callable[[Any, Any], Any], left: Predictions, right: Predictions) -> Predictions:
    """Apply a function of two arrays to the fields and the scalars of two predictions."""
    pairs = zip((left.fields, left.scalars), (right.fields, right.scalars), strict=True)
    return Predictions(*(None if mine is None else function(mine, theirs) for mine, theirs in pairs))


def joined(parts: list[Predictions], *, ragged: bool = False) -> Predictions:
    """Join the predictions of successive samples; fields of ragged samples are flat."""
    fields = [part.fields for part in parts if part.fields is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    if ragged:
        fields = [values.reshape(-1, values.shape[-1]) for values in fields]
    return Predictions(np.concatenate(fields) if fields else None, np.concatenate(scalars) if scalars else None)


def averaged(parts: list[Predictions]) -> Predictions:
    """Mean of several predictions of the same samples."""
    fields = [part.fields for part in parts if part.fields is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    return Predictions(np.mean(fields, axis=0) if fields else None, np.mean(scalars, axis=0) if scalars else None)


def rows_of(found: Predictions, rows: IntArray | slice) -> Predictions:
    """Predictions of the samples at some indices."""
    return each_part(lambda part: part[rows], found)


def on_grid_of(resampler: GridResampler, found: Predictions, points: FieldSet) -> Predictions:
    """Predictions with fields on points that all samples share, interpolated to the grid."""
    if found.fields is None:
        return found
    bare = FieldSet(points.coords, found.fields)
    return replace(found, fields=np.asarray(resampler.to_grid(bare).values))
