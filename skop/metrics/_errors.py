"""Errors of fields that need no grid.

Notation: n samples, P points, c channels; u the truth, û the prediction, e = û - u.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from skop.exceptions import FieldDataError, warn
from skop.metrics._inputs import (
    FieldPairs,
    FloatArray,
    Kind,
    average_samples,
    check_average,
    check_weights,
    divide_norms,
    norm_of_set,
    pair_fields,
    root_of_squares,
    sizes_of,
)

__all__ = [
    "channel_sizes",
    "max_error",
    "mean_absolute_error",
    "mean_pointwise_relative_error",
    "relative_l2_error",
    "relative_l2_score",
    "root_mean_squared_error",
]

Average = Literal["mean", "none", "channel"]
_AVERAGES = ("mean", "none", "channel")

#: What the published point-wise relative error adds to |u|.
POINTWISE_EPSILON = 1e-9
#: Part of the norm of the set below which samples are small, multiple of the mean of the others above which their
#: relative errors mislead, and mean from which on this matters.
_SMALL, _MISLEADING, _NOTABLE = 0.1, 2.0, 0.01


def relative_l2_error(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    average: Average = "mean",
    kind: Kind | None = None,
    units: Any = None,
    set_norm: float | None = None,
) -> float | FloatArray:
    """Relative L2 error ||û - u|| / ||u||: the number that operator-learning papers print.

    The norms of a sample run over all its points and channels (frames too, if they are channels).

    A small error of a sample that is small itself is a large relative error, and can make most of the mean: see
    `relative_l2_score`, which says so.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        Fields (n, *points_or_grid, c), a list of arrays (P_i, c), or scalars per sample (n,).
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    average : {"mean", "none", "channel"}, default="mean"
        Mean over the samples; the error of each sample; or the norms per channel, then the mean over the
        samples.
    kind : {"field", "scalar"}, optional
        What the rows of a 2-D y are: one-channel fields (the default) or scalars. Beside a 1-D y they are
        scalars. For scalars the norm runs over the set, because a single number has no shape to compare.
    units : array-like of shape (c,), optional
        Positive sizes by which the channels, or scalars, are divided first, so that those with large numbers do
        not hide the others; see `channel_sizes`. None compares them in the units of the data.
    set_norm : float, optional
        Norm that a sample is compared with whose truth is zero everywhere. None takes the root of the mean of the
        squared norms of y_true over the set.

    Returns
    -------
    float, or ndarray of shape (n,) for "none" and (c,) for "channel"
        Relative error; 0 is perfect and 1 is what an all-zero prediction gets.

    Raises
    ------
    FieldDataError
        If shapes, lengths or values cannot be used, or y_true is zero in all samples, and y_pred is not (zero for
        zero counts as error 0).

    References
    ----------
    LaMO (Tiwari et al., ICML 2025); FNO (Li et al., ICLR 2021).

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import relative_l2_error
    >>> u = np.array([[[3.0], [4.0]], [[6.0], [8.0]]])
    >>> relative_l2_error(u, u + [[1.0], [0.0]], average="none").tolist()
    [0.2, 0.1]
    """
    check_average(average, _AVERAGES)
    return _relative_l2(y_true, y_pred, sample_weight, average, kind, units, set_norm, warns=False)


def channel_sizes(
    y_true: Any, *, sample_weight: Any = None, kind: Kind | None = None, n_components: int | None = None
) -> FloatArray:
    """Root mean square of each channel, or scalar, over a set: the `units` in which all of them count alike.

    Parameters
    ----------
    y_true : array-like, list of array-like, or FieldSet
        As for `relative_l2_error`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    kind : {"field", "scalar"}, optional
        What the rows of a 2-D y are.
    n_components : int, optional
        Components of a frame where time lies in the channels: channel ``t * n_components + k`` has the size of
        component k over all frames. None gives each channel a size of its own.

    Returns
    -------
    ndarray of shape (c,)
        Sizes. A channel that is zero everywhere has that of the largest one; all are 1 if there is none.

    Raises
    ------
    FieldDataError
        If y_true cannot be used, or its channels are not whole frames.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import channel_sizes, relative_l2_error
    >>> u = np.array([[[3e6, 0.1], [4e6, 0.1]]])
    >>> v = u * [1.0, 2.0]  # stress in Pa is right, displacement in m is not
    >>> round(relative_l2_error(u, v), 6), round(relative_l2_error(u, v, units=channel_sizes(u)), 3)
    (0.0, 0.707)
    """
    pairs = pair_fields(y_true, y_true, kind)
    weight = check_weights(sample_weight, len(pairs))
    roots, counts = zip(*[(root_of_squares(np.mean, u, axis=0), len(u)) for u, _ in pairs], strict=True)
    sizes = norm_of_set(_collect(list(roots)), weight * counts)
    if n_components is not None:
        if len(sizes) % n_components:
            raise FieldDataError(f"y_true has {len(sizes)} channels, which are not frames of {n_components} each.")
        of_a_frame = root_of_squares(np.mean, sizes.reshape(-1, n_components), axis=0)
        sizes = np.tile(of_a_frame, len(sizes) // n_components)
    return sizes_of(sizes)


def relative_l2_score(
    y_true: Any, y_pred: Any, *, sample_weight: Any = None, kind: Kind | None = None, units: Any = None
) -> float:
    """One minus the mean relative L2 error: what `score` of skop's estimators returns.

    A warning names fields near zero that make the mean: if it is above 0.01, and more than twice what it is without
    those of less than a tenth of the root mean square of the norms.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        As for `relative_l2_error`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    kind : {"field", "scalar"}, optional
        What the rows of a 2-D y are. For scalars the norm runs over the set.
    units : array-like of shape (c,), optional
        As for `relative_l2_error`; the `score` of an estimator with several outputs takes their `channel_sizes`.

    Returns
    -------
    float
        1 is perfect, 0 is what an all-zero prediction gets; not bounded below.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import relative_l2_score
    >>> u = np.ones((2, 5, 1))
    >>> relative_l2_score(u, u), relative_l2_score(u, 0 * u)
    (1.0, 0.0)
    """
    return 1.0 - float(_relative_l2(y_true, y_pred, sample_weight, "mean", kind, units, None, warns=True))


def root_mean_squared_error(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    average: Average = "mean",
    kind: Kind | None = None,
) -> float | FloatArray:
    """Root of the mean squared error, in the unit of the field.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        As for `relative_l2_error`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    average : {"mean", "none", "channel"}, default="mean"
        "mean" takes the root of the mean over everything, each sample counting the same whatever its
        number of points; "none" gives one value per sample, "channel" one per channel.
    kind : {"field", "scalar"}, optional
        What the rows of a 2-D y are; it matters for "channel" only.

    Returns
    -------
    float, or ndarray of shape (n,) or (c,)
        Root mean squared error.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import root_mean_squared_error
    >>> u = np.zeros((2, 2, 1))
    >>> root_mean_squared_error(u, u + 3.0)
    3.0
    """
    check_average(average, _AVERAGES)
    pairs = pair_fields(y_true, y_pred, kind)
    weight = check_weights(sample_weight, len(pairs))
    axis = 0 if average == "channel" else None
    roots = _collect([root_of_squares(np.mean, v - u, axis) for u, v in pairs])
    if average == "none":
        return roots
    over_samples = norm_of_set(roots, weight)
    return over_samples if average == "channel" else float(over_samples)


def mean_absolute_error(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    average: Average = "mean",
    kind: Kind | None = None,
) -> float | FloatArray:
    """Mean of |û - u| over points, channels and samples, in the unit of the field.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        As for `relative_l2_error`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    average : {"mean", "none", "channel"}, default="mean"
        Over everything; one value per sample; or one per channel.
    kind : {"field", "scalar"}, optional
        What the rows of a 2-D y are; it matters for "channel" only.

    Returns
    -------
    float, or ndarray of shape (n,) or (c,)
        Mean absolute error.

    Notes
    -----
    The "RMSE" that MNO (Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space
    Models for PDEs") prints for Darcy flow is this number: its public code hands tensors (batch, points, 1)
    to a metric that expects the channels last after a time axis, so the root is taken of each single
    squared error before the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import mean_absolute_error
    >>> u = np.zeros((2, 2, 1))
    >>> mean_absolute_error(u, u + [[-1.0], [3.0]])
    2.0
    """
    return _mean_over_points(y_true, y_pred, _absolute, sample_weight, average, kind)


def mean_pointwise_relative_error(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    average: Average = "mean",
    kind: Kind | None = None,
) -> float | FloatArray:
    """Mean of |û - u| / (|u| + 1e-9), point by point.

    Points where the truth is close to zero dominate it; use it to compare with published figures, and
    `relative_l2_error` otherwise.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        As for `relative_l2_error`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the samples.
    average : {"mean", "none", "channel"}, default="mean"
        Over everything; one value per sample; or one per channel.
    kind : {"field", "scalar"}, optional
        What the rows of a 2-D y are; it matters for "channel" only.

    Returns
    -------
    float, or ndarray of shape (n,) or (c,)
        Mean relative error of the points.

    Notes
    -----
    The "nRMSE" that MNO (Cheng et al.) prints for Darcy flow is this number, for the reason given at
    `mean_absolute_error`. For one channel and one frame a true nRMSE equals the relative L2 error;
    its Table I lists 0.0485 and 0.0370 for the same model.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import mean_pointwise_relative_error
    >>> u = np.array([[[1.0], [10.0]]])
    >>> round(mean_pointwise_relative_error(u, u + 1.0), 6)
    0.55
    """
    return _mean_over_points(y_true, y_pred, _pointwise_relative, sample_weight, average, kind)


def max_error(
    y_true: Any,
    y_pred: Any,
    *,
    sample_weight: Any = None,
    average: Literal["max", "none", "channel"] = "max",
    kind: Kind | None = None,
) -> float | FloatArray:
    """Largest |û - u|, in the unit of the field.

    Parameters
    ----------
    y_true, y_pred : array-like, list of array-like, or FieldSet
        As for `relative_l2_error`.
    sample_weight : array-like of shape (n,), optional
        Samples with weight 0 are left out; other weights make no difference.
    average : {"max", "none", "channel"}, default="max"
        The largest over the whole set; one value per sample; or one per channel.
    kind : {"field", "scalar"}, optional
        What the rows of a 2-D y are; it matters for "channel" only.

    Returns
    -------
    float, or ndarray of shape (n,) or (c,)
        Largest absolute error.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.metrics import max_error
    >>> u = np.zeros((2, 2, 1))
    >>> max_error(u, u + [[-4.0], [3.0]])
    4.0
    """
    check_average(average, ("max", "none", "channel"))
    pairs = pair_fields(y_true, y_pred, kind)
    weight = check_weights(sample_weight, len(pairs))
    largest = _collect([np.abs(v - u).max(axis=0 if average == "channel" else None) for u, v in pairs])
    if average == "none":
        return largest
    over_samples = largest[weight > 0].max(axis=0)
    return over_samples if average == "channel" else float(over_samples)


def _check_units(units: Any) -> FloatArray | None:
    """Sizes of the channels as an array."""
    if units is None:
        return None
    sizes = np.asarray(units, dtype=np.float64)
    if sizes.ndim != 1 or not np.isfinite(sizes).all() or (sizes <= 0).any():
        raise ValueError(f"units is {units!r}, expected one positive number for each channel.")
    return sizes


def _in_units(field: FloatArray, units: FloatArray | None) -> FloatArray:
    """A field (P, c) in units of its channels."""
    if units is None:
        return field
    if len(units) != field.shape[-1]:
        raise FieldDataError(f"units has {len(units)} numbers for {field.shape[-1]} channels, expected one for each.")
    return field / units


def _relative_l2(
    y_true: Any,
    y_pred: Any,
    sample_weight: Any,
    average: str,
    kind: Kind | None,
    units: Any,
    set_norm: float | None,
    *,
    warns: bool,
) -> float | FloatArray:
    """Relative L2 error as `relative_l2_error` returns it, with the warning of `relative_l2_score` or without."""
    pairs = pair_fields(y_true, y_pred, kind)
    weight = check_weights(sample_weight, len(pairs))
    scale = _check_units(units)
    if pairs.scalar:
        return _relative_l2_of_set(pairs, weight, average, scale, set_norm)
    axis = 0 if average == "channel" else None
    # Both in one pass, since the pairs may be read from files and predicted as they are asked for.
    norms = [[root_of_squares(np.sum, _in_units(part, scale), axis) for part in (v - u, u)] for u, v in pairs]
    errors, truths = (_collect(list(part)) for part in zip(*norms, strict=True))
    whole = norm_of_set(truths, weight) if set_norm is None else set_norm
    quotients = divide_norms(errors, truths, weight, "sample", whole, pairs.rounding)
    if warns:
        _warn_of_small_samples(quotients, (truths > pairs.rounding * whole) & (truths < _SMALL * whole), weight)
    return average_samples(quotients, weight, average)


def _warn_of_small_samples(errors: FloatArray, is_small: Any, weight: FloatArray) -> None:
    """Warn if small samples make most of the mean of relative errors (n,)."""
    others, small = ((weight > 0) & chosen for chosen in (~is_small, is_small))
    if not (others.any() and small.any()):
        return
    mean, without = (np.average(errors[chosen], weights=weight[chosen]) for chosen in (weight > 0, others))
    if mean > max(_MISLEADING * without, _NOTABLE):
        warn(
            f"the mean of the relative errors is {mean:.3g}, and {without:.3g} without the {small.sum()} of "
            f"{len(errors)} samples that have less than a tenth of the usual norm: errors relative to what is nearly "
            "zero are large. relative_l2_error with average='none' has each; root_mean_squared_error has the unit of y."
        )


def _relative_l2_of_set(
    pairs: FieldPairs, weight: FloatArray, average: str, units: FloatArray | None, set_norm: float | None
) -> float | FloatArray:
    """Relative L2 error of scalars per sample, the norms running over the samples."""
    if average == "none":
        raise ValueError(
            "average='none' has no meaning for scalars per sample: their relative error is that of the "
            "whole set. Use mean_absolute_error(..., average='none')."
        )
    rows = list(pairs)
    truth = _in_units(_collect([u[0] for u, _ in rows]), units)
    error = _in_units(_collect([v[0] - u[0] for u, v in rows]), units)
    norms = np.sqrt(weight.sum()) * np.stack([norm_of_set(error, weight), norm_of_set(truth, weight)])
    if average == "mean":
        norms = root_of_squares(np.sum, norms, axis=1)[:, None]
    error_norm, true_norm = norms
    quotient = divide_norms(error_norm, true_norm, np.ones(len(true_norm)), "scalar", set_norm, pairs.rounding)
    return quotient if average == "channel" else float(quotient[0])


def _mean_over_points(
    y_true: Any,
    y_pred: Any,
    function: Callable[[FloatArray, FloatArray], FloatArray],
    sample_weight: Any,
    average: str,
    kind: Kind | None,
) -> float | FloatArray:
    """Mean over the points of each sample of function(u, û), then over the samples."""
    check_average(average, _AVERAGES)
    pairs = pair_fields(y_true, y_pred, kind)
    weight = check_weights(sample_weight, len(pairs))
    axis = 0 if average == "channel" else None
    means = _collect([np.mean(function(u, v), axis=axis) for u, v in pairs])
    return average_samples(means, weight, average)


def _absolute(true: FloatArray, predicted: FloatArray) -> FloatArray:
    """Absolute error of each entry."""
    return np.abs(predicted - true)


def _pointwise_relative(true: FloatArray, predicted: FloatArray) -> FloatArray:
    """Absolute error of each entry over its own truth."""
    return np.abs(predicted - true) / (np.abs(true) + POINTWISE_EPSILON)


def _collect(values: list[Any]) -> FloatArray:
    """Stack one value or row per sample."""
    if len({np.shape(value) for value in values}) > 1:
        raise FieldDataError("samples have different numbers of channels, expected the same for values per channel.")
    return np.stack(values)
