"""Points of samples as rows of flat arrays: their fixed order, the rows of a batch, random parts of them.

Letters of the shapes: n samples, P points of a sample, T points of all samples together, d space dimensions.
"""

import numpy as np
import torch

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet

__all__ = ["batch_rows", "draw_rows", "is_uniform", "point_order"]


def point_order(fields: FieldSet) -> IntArray:
    """Return the flat rows that sort the points of each sample by their coordinates.

    Sums over points are rounded in the order in which they run; in this order they are the same for every
    listing of the same points.

    Parameters
    ----------
    fields : FieldSet
        Samples.

    Returns
    -------
    ndarray of shape (P,) for shared points, (T,) otherwise
        Rows of the coordinates, samples one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import FieldSet
    >>> from skop.data._point_rows import point_order
    >>> point_order(FieldSet(np.array([[2.0], [0.0], [1.0]]), np.zeros((1, 3, 1)))).tolist()
    [1, 2, 0]
    """
    points = fields.coords.reshape(-1, fields.n_dims)
    if fields.shared_coords:
        return np.lexsort(points.T[::-1])
    # One sort for all samples: the number of the sample is the leading key.
    keys = (*points.T[::-1], np.repeat(np.arange(len(fields)), fields.n_points))
    order = np.lexsort(keys)
    repeated = np.all([key[order[1:]] == key[order[:-1]] for key in keys], axis=0)
    if not repeated.any() or not fields.in_memory or (values := fields.values) is None:
        return order
    # Points at one place are told apart by their fields.
    return np.lexsort((*values.reshape(len(points), -1).T, *keys))


def batch_rows(offsets: IntArray, indices: IntArray) -> IntArray:
    """Return the flat rows of some samples, one sample after the other.

    Parameters
    ----------
    offsets : ndarray of shape (n + 1,)
        Where each sample begins.
    indices : ndarray of int
        Samples.

    Returns
    -------
    ndarray of int
        Rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data._point_rows import batch_rows
    >>> batch_rows(np.array([0, 2, 5]), np.array([1, 0])).tolist()
    [2, 3, 4, 0, 1]
    """
    parts = [np.arange(offsets[index], offsets[index + 1]) for index in indices]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=int)


def draw_rows(sizes: IntArray, count: int, generator: torch.Generator | None) -> tuple[IntArray, tuple[int, ...]]:
    """Draw some points of each sample at random, without repetition.

    Parameters
    ----------
    sizes : ndarray of int
        Points of each sample.
    count : int
        Points to draw; samples with no more are taken whole.
    generator : torch.Generator or None
        Source of randomness.

    Returns
    -------
    rows : ndarray of int
        Flat rows of the points drawn, in their order within each sample.
    drawn : tuple of int
        Points of each sample that were drawn.
    """
    starts = np.cumsum(sizes) - sizes
    parts = [
        start + np.sort(torch.randperm(int(size), generator=generator)[:count].numpy())
        for start, size in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(parts), tuple(len(part) for part in parts)


def is_uniform(sizes: FloatArray | IntArray | tuple[int, ...]) -> bool:
    """Tell whether all samples have as many points."""
    return len(set(np.asarray(sizes).tolist())) < 2
