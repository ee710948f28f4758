"""The error measures of PDEBench, with the layout of the axes said explicitly.

Notation: n samples, P points, t frames, c channels; u the truth, û the prediction, e = û - u.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skop.exceptions import FieldDataError
from skop.metrics._errors import relative_l2_error
from skop.metrics._inputs import FloatArray, average_samples, check_weights, pair_fields, root_of_squares, unmasked

__all__ = ["pdebench_nrmse", "pdebench_rl2", "pdebench_rmse"]

#: What PDEBench adds to the root mean square of the truth before dividing by it.
NRMSE_EPSILON = 1e-9


def pdebench_rmse(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    time_axis: int | None = None,
    n_copied_frames: int = 0,
) -> float:
    """RMSE of PDEBench: the root over space of each sample, frame and channel, then the mean of the roots.

    It is never larger than `root_mean_squared_error`, which takes one root of the mean over everything.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n, *space, c)
        Fields; one of the axes between the first and the last may be time.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    time_axis : int, optional
        Which axis is time: -2 for PDEBench's (n, *space, t, c). Default: no time axis.
    n_copied_frames : int, default=0
        Frames beside those given that count in the mean as free of error: 10 deflates the error of 91 predicted
        frames to 91/101 of it, as published tables do.

    Returns
    -------
    float
        Mean over samples, frames and channels of sqrt(mean over space of e²).

    Raises
    ------
    FieldDataError
        If the arrays do not fit each other or `time_axis`, or `n_copied_frames` is negative.

    Notes
    -----
    PDEBench's rollouts, and MNO (Cheng et al.) after them, score all frames with the given first
    ones copied from the truth: 10 of 101 frames without error lower the mean by 91/101. Pass the predicted
    frames alone, and their number as `n_copied_frames` only to compare with such a table.

    References
    ----------
    PDEBench (Takamoto et al., NeurIPS 2022 Datasets and Benchmarks).

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import pdebench_rmse
    >>> u = np.zeros((1, 4, 2, 1))  # 4 points, 2 frames
    >>> pdebench_rmse(u, u + [[1.0], [3.0]], time_axis=-2)
    2.0
    """
    true, predicted = _frames_of_both(y_true, y_pred, time_axis)
    roots = _root_mean_square(predicted - true)
    mean = average_samples(roots.mean(axis=(1, 2)), check_weights(sample_weight, len(true)), "mean")
    return float(mean) * _part_predicted(true.shape[2], n_copied_frames)


def pdebench_nrmse(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    time_axis: int | None = None,
    n_copied_frames: int = 0,
) -> float:
    """Normalised RMSE of PDEBench: each sample, frame and channel divided by its own size.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n, *space, c)
        Fields; one of the axes between the first and the last may be time.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    time_axis : int, optional
        Which axis is time: -2 for PDEBench's (n, *space, t, c). Default: no time axis.
    n_copied_frames : int, default=0
        Frames beside those given that count in the mean as free of error: 10 deflates the error of 91 predicted
        frames to 91/101 of it, as published tables do.

    Returns
    -------
    float
        Mean over samples, frames and channels of sqrt(mean e²) / (sqrt(mean u²) + 1e-9), the inner means
        running over space. For one frame and one channel it is the relative L2 error.

    References
    ----------
    PDEBench (Takamoto et al., NeurIPS 2022 Datasets and Benchmarks).

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import pdebench_nrmse
    >>> u = np.ones((1, 4, 2, 1))
    >>> round(pdebench_nrmse(u, u + [[1.0], [3.0]], time_axis=-2), 6)
    2.0
    """
    true, predicted = _frames_of_both(y_true, y_pred, time_axis)
    quotient = _root_mean_square(predicted - true) / (_root_mean_square(true) + NRMSE_EPSILON)
    mean = average_samples(quotient.mean(axis=(1, 2)), check_weights(sample_weight, len(true)), "mean")
    return float(mean) * _part_predicted(true.shape[2], n_copied_frames)


def pdebench_rl2(y_true: Any, y_pred: Any, *, sample_weight: Any = None, time_axis: int | None = None) -> float:
    """Relative L2 error over space, frames and channels jointly, as MNO reports it.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n, *space, c)
        Fields; one of the axes between the first and the last may be time.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    time_axis : int, optional
        Which axis is time. It is checked only: the norm runs over all axes but the first.

    Returns
    -------
    float
        Mean over samples of ||e|| / ||u||.

    References
    ----------
    MNO (Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for PDEs").

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import pdebench_rl2
    >>> u = np.ones((1, 4, 2, 1))
    >>> pdebench_rl2(u, 0.5 * u, time_axis=-2)
    0.5
    """
    true, predicted = _frames_of_both(y_true, y_pred, time_axis)
    flat = true.reshape(len(true), -1, 1), predicted.reshape(len(true), -1, 1)
    return float(relative_l2_error(*flat, sample_weight=sample_weight))


def _frames_of_both(y_true: Any, y_pred: Any, time_axis: int | None) -> tuple[FloatArray, FloatArray]:
    """Truth and prediction, (n, P, t, c) each; refuses shapes that would broadcast, and empty sets."""
    pairs = pair_fields(y_true, y_pred)
    true, predicted = _frames(pairs.true, "y_true", time_axis), _frames(pairs.predicted, "y_pred", time_axis)
    flat = [fields.reshape(len(fields), -1, *fields.shape[-2:]) for fields in (true, predicted)]
    stated = (pairs.grid_shape, true), (pairs.predicted_grid, predicted)
    grids = [grid or (fields.shape[1:-2] if fields.ndim > 4 else None) for grid, fields in stated]
    if flat[0].shape != flat[1].shape or flat[0].size == 0 or (None not in grids and grids[0] != grids[1]):
        raise FieldDataError(
            f"y_true is (n, points or grid, frames, channels) {true.shape} and y_pred {predicted.shape}, on grids "
            f"{grids[0]} and {grids[1]}; expected the same and not empty."
        )
    return flat[0], flat[1]


def _frames(samples: Any, name: str, time_axis: int | None) -> FloatArray:
    """Fields as (n, *space, t, c) in float64, with one frame where there is no time axis."""
    if isinstance(samples, Sequence) and len({np.shape(sample) for sample in samples}) > 1:
        raise FieldDataError(f"{name} has samples of different shapes, expected fields on the same points.")
    array = np.asarray(unmasked(samples, name))
    if array.dtype.kind not in "biuf":
        raise FieldDataError(f"{name} has dtype {array.dtype}, expected real numbers.")
    array = array.astype(np.float64, copy=False)
    n_needed = 3 if time_axis is None else 4
    if array.ndim < n_needed:
        raise FieldDataError(
            f"{name} has shape {array.shape}, expected (n, *space, c)"
            f"{'' if time_axis is None else ' with a time axis'}: at least {n_needed} axes."
        )
    if not np.isfinite(array).all():
        raise FieldDataError(f"{name} holds NaN or infinite values, expected finite ones.")
    if time_axis is None:
        return array[..., None, :]
    if 0 < time_axis % array.ndim < array.ndim - 1 and -array.ndim <= time_axis < array.ndim:
        return np.moveaxis(array, time_axis, -2)
    raise FieldDataError(
        f"time_axis is {time_axis}, but in {name} axis 0 is the samples and axis {array.ndim - 1} the "
        "channels: expected an axis between them."
    )


def _part_predicted(n_frames: int, n_copied_frames: int) -> float:
    """Part of all frames that was predicted."""
    if n_copied_frames < 0:
        raise FieldDataError(f"n_copied_frames is {n_copied_frames}, expected 0 or more.")
    return n_frames / (n_frames + n_copied_frames)


def _root_mean_square(field: FloatArray) -> FloatArray:
    """Root of the mean square over the points: (n, t, c)."""
    return root_of_squares(np.mean, field, axis=1)
