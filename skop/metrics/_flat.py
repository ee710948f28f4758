"""The errors of a `score` on flat arrays, without the checks of `relative_l2_error`: for the validation of every epoch.

Notation: n samples, T points of all samples together, c channels, s scalars.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skop.metrics._inputs import divide_norms, norm_of_set, sizes_of

__all__ = [
    "norms_of_fields",
    "relative_errors",
    "relative_errors_of_scalars",
    "relative_l2_of_fields",
    "sizes_of_channels",
]

RealArray = npt.NDArray[np.floating[Any]]


def relative_l2_of_fields(true: RealArray, predicted: RealArray, n_points: npt.NDArray[np.integer[Any]]) -> float:
    """Return the mean relative L2 error over samples, several channels in units of their size.

    A sample of zeros is compared with the root mean square of the norms of the set; where all are zero the error is
    absolute, instead of failing in the middle of a fit.

    Parameters
    ----------
    true, predicted : ndarray of shape (T, c)
        Finite fields, one sample after the other.
    n_points : ndarray of int of shape (n,)
        Points of each sample.

    Returns
    -------
    float
        1 minus the `score`.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics._flat import relative_l2_of_fields
    >>> u = np.array([[3.0], [4.0], [6.0], [8.0]])
    >>> relative_l2_of_fields(u, 1.5 * u, np.array([2, 2]))
    0.5
    """
    sizes = sizes_of_channels([true])
    return float(np.mean(relative_errors([norms_of_fields(true, predicted, n_points, sizes)])))


def sizes_of_channels(pieces: Iterable[RealArray]) -> RealArray | None:
    """Return the root mean square of each channel over fields ``(T, c)`` in pieces; None for a single channel."""
    total: Any = 0.0
    count = 0
    for piece in pieces:
        if piece.shape[-1] == 1:
            return None
        total = total + (np.asarray(piece, dtype=np.float64) ** 2).sum(axis=0)
        count += len(piece)
    return sizes_of(np.sqrt(total / count))


def norms_of_fields(
    true: RealArray, predicted: RealArray, n_points: npt.NDArray[np.integer[Any]], sizes: RealArray | None
) -> tuple[RealArray, RealArray]:
    """Return the norms of the errors and of the true fields of each sample, ``(n,)``.

    Parameters
    ----------
    true, predicted, n_points : as in `relative_l2_of_fields`
        Fields, and points of each sample.
    sizes : ndarray of shape (c,) or None
        Sizes by which the channels are divided, those of `sizes_of_channels`.
    """
    true = np.asarray(true, dtype=np.float64)
    if sizes is not None:
        true, predicted = true / sizes, predicted / sizes
    starts = np.concatenate([[0], np.cumsum(n_points)])[:-1]
    squares = ((predicted - true) ** 2, true**2)
    error, norm = (np.sqrt(np.add.reduceat(part.sum(axis=-1), starts)) for part in squares)
    return error, norm


def relative_errors(norms: Sequence[tuple[RealArray, RealArray]], weight: Any = None) -> RealArray:
    """Return the relative errors of samples ``(n,)``, of which the norms come in pieces of `norms_of_fields`."""
    error, norm = (np.concatenate(part) for part in zip(*norms, strict=True))
    weight = np.ones(len(norm)) if weight is None else weight
    whole = norm_of_set(norm, weight)
    return divide_norms(error, norm, weight, "sample", whole if whole > 0 else 1.0)


def relative_errors_of_scalars(true: RealArray, predicted: RealArray) -> RealArray:
    """Return the errors of scalars ``(n, s)``, whose root mean square over the samples is relative to that of the set.

    Several scalars are in units of their size. The errors are absolute where all scalars are zero.
    """
    true, predicted = _in_units(true, predicted)
    return np.linalg.norm(predicted - true, axis=-1) * len(true) ** 0.5 / (np.linalg.norm(true) or 1.0)


def _in_units(true: RealArray, predicted: RealArray) -> tuple[RealArray, RealArray]:
    """Rows of channels in units of their size, where there are several."""
    true = np.asarray(true, dtype=np.float64)
    if true.shape[-1] == 1:
        return true, predicted
    sizes = sizes_of(np.sqrt((true**2).mean(axis=0)))
    return true / sizes, predicted / sizes
