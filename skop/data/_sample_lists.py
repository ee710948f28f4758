"""Samples that come as a list: points, or pairs of points and fields, one for each sample.

Letters of the shapes: P points of a sample, d space dimensions, c channels.
"""

import warnings
from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.data._fieldset import FieldSet
from skop.data._storage import as_storage
from skop.exceptions import FieldDataError, SkopWarning

__all__ = ["join_samples", "read_pairs", "warn_if_ambiguous"]


def read_pairs(samples: list[Any], name: str) -> FieldSet:
    """Read a list of (coords, fields), fields of None meaning points alone.

    Parameters
    ----------
    samples : list of tuple
        One pair for each sample.
    name : str
        ``"X"`` or ``"y"``, for messages.

    Returns
    -------
    FieldSet
        The samples.

    Raises
    ------
    FieldDataError
        If an item is no pair, only some have fields, or shapes do not fit.
    """
    for i, sample in enumerate(samples):
        if not isinstance(sample, tuple) or len(sample) != 2:
            raise FieldDataError(f"sample {i} of {name} is no tuple (coords, fields), as the first sample is.")
    coords, values = [pair[0] for pair in samples], [pair[1] for pair in samples]
    missing = [i for i, value in enumerate(values) if value is None]
    if missing and len(missing) < len(samples):
        raise FieldDataError(f"sample {missing[0]} of {name} has no fields, others have; pass fields for all or none.")
    return join_samples(coords, None if missing else values)


def warn_if_ambiguous(samples: list[Any], name: str) -> None:
    """Say how a list of arrays of one shape is read: a stack of them would mean something else.

    Parameters
    ----------
    samples : list of ndarray
        Points of each sample.
    name : str
        ``"X"`` or ``"y"``, for the warning.
    """
    if len(samples) > 1 and len({item.shape for item in samples}) == 1:
        n_points, width = samples[0].shape
        warnings.warn(
            f"{name} is a list of arrays of shape {(n_points, width)}, read as the {width}-D points of a sample each. "
            f"For {width} channels on a 1-D grid pass one array: np.stack({name}).",
            SkopWarning,
            stacklevel=5,
        )


def join_samples(coords: list[Any], values: list[Any] | None) -> FieldSet:
    """Make one FieldSet of samples; points that all share are stored once.

    Parameters
    ----------
    coords : list of array-like (P_i, d)
        Points of each sample.
    values : list of array-like (P_i, c) or None
        Fields of each sample.

    Returns
    -------
    FieldSet
        Ragged, with own points, or with shared points.
    """
    points = [np.asarray(as_storage(item, f"coords of sample {i}")) for i, item in enumerate(coords)]
    if values is not None:
        values = [np.asarray(as_storage(item, f"fields of sample {i}")) for i, item in enumerate(values)]
    if len({item.shape for item in points}) > 1:
        return FieldSet(points, values)
    one_shape = values is not None and len({item.shape for item in values}) == 1
    if values is not None and one_shape and all(np.array_equal(item, points[0]) for item in points[1:]):
        return FieldSet(points[0], np.stack(values))
    return _same_size_samples(points, values)


def _same_size_samples(points: list[FloatArray], values: list[FloatArray] | None) -> FieldSet:
    """Samples with as many points each, but at other places."""
    if values is not None and len({item.shape for item in values}) > 1:
        place = next(i for i, item in enumerate(values) if item.shape != values[0].shape)
        raise FieldDataError(
            f"fields of sample {place} have shape {values[place].shape}; expected {values[0].shape}, as sample 0."
        )
    return FieldSet(np.stack(points), None if values is None else np.stack(values))
