"""Antiderivatives of random smooth functions on [0, 1], exact at any point."""

import numpy as np
import numpy.typing as npt

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._sampling import RandomState, _check_dtype, _check_integer, _check_real, _seed_sequence
from skop.exceptions import FieldDataError

#: Longest correlation length: the functions have the period 2, and longer ones would show it.
_LONGEST = 0.5


def make_antiderivative(
    n_samples: int = 150,
    *,
    n_sensors: int = 100,
    query_points: npt.ArrayLike | None = None,
    length_scale: float = 0.2,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float32,
) -> tuple[FieldSet, FieldSet]:
    """Generate random functions at sensors as input, and their antiderivatives, there or elsewhere, as target.

    Each target solves ``ds/dx = u(x)`` with ``s(0) = 0`` on [0, 1]: the first problem of DeepONet's paper [1]_. The
    functions u are Gaussian random ones with mean 0 and covariance ``exp(-(x - x')**2 / (2 length_scale**2))``, sums of
    sines and cosines of period 2, whose antiderivatives are known in closed form. The map is linear.

    Parameters
    ----------
    n_samples : int, default=150
        Number of samples n, at least 1.
    n_sensors : int, default=100
        Number m of equally spaced sensors, both ends included, at least 2.
    query_points : array-like of shape (P,), default=None
        Points of the target, in [0, 1]; they may lie between the sensors. None takes the sensors.
    length_scale : float, default=0.2
        Correlation length of u, above 0 and at most 0.5.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The function of sample i depends on the seed, i and `length_scale` only.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. Functions are computed in float64.

    Returns
    -------
    X : FieldSet
        Functions u at the sensors, one channel; all samples share them.
    y : FieldSet
        Antiderivatives s at the points, one channel; all samples share them.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If `query_points` are not numbers within 0 and 1 in one dimension.

    See Also
    --------
    make_advection : A linear map on a periodic line.

    Notes
    -----
    The wave of wavenumber k has the variance ``length_scale sqrt(2 pi) exp(-(pi k length_scale)**2 / 2)``, half of it
    for k = 0; waves with less than 1e-16 of the largest variance are left out. The covariance is then the stated one
    plus its copies at distances of 2, of at most ``exp(-1 / (2 length_scale**2))``: 4e-6 by default.

    References
    ----------
    .. [1] L. Lu, P. Jin, G. Pang, Z. Zhang, G. E. Karniadakis, "Learning nonlinear operators via DeepONet based on the
       universal approximation theorem of operators", Nature Machine Intelligence 3 (2021).

    Examples
    --------
    >>> from skop.datasets import make_antiderivative
    >>> X, y = make_antiderivative(150, query_points=[0.003, 0.5, 0.977], random_state=0)
    >>> X.shape, y.shape
    ((150, 100, 1), (150, 3, 1))
    """
    _check_integer("n_samples", n_samples, 1)
    _check_integer("n_sensors", n_sensors, 2)
    _check_real("length_scale", length_scale, above=0)
    if length_scale > _LONGEST:
        raise ValueError(f"length_scale must be at most {_LONGEST}, got {length_scale!r}.")
    _check_dtype(dtype)
    sensors = np.linspace(0, 1, n_sensors)
    points = sensors if query_points is None else np.asarray(query_points, dtype=np.float64)
    # Written so that a NaN is refused too.
    if points.ndim != 1 or len(points) == 0 or not ((points >= 0) & (points <= 1)).all():
        raise FieldDataError(f"query_points must be within 0 and 1, of shape (P,), got the shape {points.shape}.")
    n_waves = int(np.ceil(np.sqrt(2 * np.log(1e16)) / (np.pi * length_scale)))
    frequencies = np.pi * np.arange(1, n_waves + 1)
    deviations = np.sqrt(length_scale * np.sqrt(2 * np.pi) * np.exp(-((frequencies * length_scale) ** 2) / 2))
    constant_deviation = np.sqrt(length_scale * np.sqrt(2 * np.pi) / 2)
    draws = np.stack(
        [
            np.random.default_rng(seed).standard_normal(2 * n_waves + 1)
            for seed in _seed_sequence(random_state).spawn(n_samples)
        ]
    )
    weights = draws * np.concatenate([[constant_deviation], np.repeat(deviations, 2)])
    functions, targets = (weights @ part for part in (_waves(sensors, frequencies), _integrals(points, frequencies)))
    X, y = (
        FieldSet(places[:, np.newaxis].astype(dtype), values[..., np.newaxis].astype(dtype))
        for places, values in ((sensors, functions), (points, targets))
    )
    return X, y


def _waves(points: FloatArray, frequencies: FloatArray) -> FloatArray:
    """Rows 1, cos, sin, cos, sin ... at the points, (2 K + 1, P)."""
    angles = np.outer(frequencies, points)
    pairs = np.stack([np.cos(angles), np.sin(angles)], axis=1).reshape(-1, len(points))
    return np.concatenate([np.ones((1, len(points))), pairs])


def _integrals(points: FloatArray, frequencies: FloatArray) -> FloatArray:
    """Integrals of the same rows from 0 on."""
    angles = np.outer(frequencies, points)
    # 1 - cos as a square, so that it keeps its digits near 0.
    pairs = np.stack([np.sin(angles), 2 * np.sin(angles / 2) ** 2], axis=1) / frequencies[:, np.newaxis, np.newaxis]
    return np.concatenate([points[np.newaxis], pairs.reshape(-1, len(points))])
