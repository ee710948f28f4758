"""European calls and puts: prices by the closed form of Black and Scholes, with a continuous dividend yield.

Notation: S price of the underlying (spot), K strike, T maturity, tau = T - t time to maturity, r interest rate,
q dividend yield, sigma volatility, w = 1 for calls and -1 for puts, Phi and phi the normal distribution and density.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._cantilever import _check_ranges, _draw
from skop.datasets._sampling import RandomState, _check_dtype, _check_integer, _check_real, _check_rows
from skop.exceptions import FieldDataError

#: Lowest and highest value of each drawn parameter; rates and volatility a year, maturity in years.
RANGES = {
    "rate": (0.0, 0.1),
    "volatility": (0.1, 0.6),
    "dividend": (0.0, 0.05),
    "strike": (50.0, 150.0),
    "maturity": (0.1, 2.0),
}
NAMES = (*RANGES, "is_call")
POSITIVE = ("strike", "maturity")
CHANNELS = ("price", "delta", "gamma", "vega", "theta", "rho")


def make_european_option(
    n_samples: int = 100,
    *,
    resolution: int | tuple[int, int] = 64,
    greeks: bool = False,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    call_probability: float = 0.5,
    params: npt.ArrayLike | None = None,
    spot: tuple[float, float] = (1e-3, 300.0),
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float32,
) -> tuple[FloatArray, FieldSet]:
    """Generate European options: six parameters as inputs, the price over spot and time as target.

    The price V(S, t) of a call or put obeys the Black-Scholes equation with a continuous dividend yield,
    ``dV/dt + sigma**2 S**2 / 2 d2V/dS2 + (r - q) S dV/dS - r V = 0``, and is the payoff ``max(S - K, 0)`` or
    ``max(K - S, 0)`` at maturity, with a kink at S = K. Prices come from the closed form, exact to rounding. The
    problem is that of [1]_, which gives neither ranges nor grids nor numbers of samples: all defaults are skop's.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Not used if `params` are given.
    resolution : int or tuple of two ints, default=64
        Points along S and along t, at least 2 each; an int for both.
    greeks : bool, default=False
        Whether to add five channels, derivatives of the price: delta dV/dS, gamma d2V/dS2, vega dV/dsigma, theta dV/dt
        (a year) and rho dV/dr.
    ranges : mapping of str to (low, high), default=None
        Ranges that replace the default ones, by parameter: ``rate`` r (0, 0.1), ``volatility`` sigma (0.1, 0.6) and
        ``dividend`` q (0, 0.05), each a year; ``strike`` K (50, 150); ``maturity`` T (0.1, 2), in years. Strike and
        maturity are above 0, volatility at least 0.
    call_probability : float, default=0.5
        Probability that a sample is a call and not a put, 0 to 1.
    params : array-like of shape (n, 6), default=None
        Parameters of your own, one row per sample: r, sigma, q, K, T, is_call (1 or 0). None draws them uniformly from
        the ranges.
    spot : tuple of two floats, default=(1e-3, 300.0)
        Lowest and highest S, at least 0 and increasing.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The parameters of sample i depend on the seed, i, the ranges and `call_probability` only.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. Prices are computed in float64.

    Returns
    -------
    X : ndarray of shape (n, 6)
        Parameters, with the columns r, sigma, q, K, T, is_call.
    y : FieldSet
        Prices, one channel (six with `greeks`), on a grid of points (S, t / T) that all samples share: S evenly spaced
        in `spot`, and t / T in [0, 1].

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If `params` are not finite, have the wrong shape, or are not possible, or if a result exceeds the range of
        `dtype`.

    See Also
    --------
    make_cantilever : Parameters to fields on a mesh.

    Notes
    -----
    With ``tau = T - t``, ``s = sigma sqrt(tau)``, ``d1 = (log(S / K) + (r - q) tau) / s + s / 2`` and ``d2 = d1 - s``
    the price is ``w (S exp(-q tau) Phi(w d1) - K exp(-r tau) Phi(w d2))``, w = 1 for calls and -1 for puts. At S = 0 it
    is 0 for calls and ``K exp(-r tau)`` for puts. Where s = 0 it is ``max(w (S exp(-q tau) - K exp(-r tau)), 0)``, at
    maturity the payoff. The Greeks are limits in the same way, except at the kink itself, where s = 0 and both terms
    are equal: gamma grows beyond all bounds towards it and is set to 0 there, and so is vega; delta, theta and rho are
    the means of both sides. Gamma is also large near the kink: about 0.4 / (S s) at the money.

    References
    ----------
    .. [1] Song, Jiang, "Adaptive Mamba Neural Operators", section 5.2.

    Examples
    --------
    >>> from skop.datasets import make_european_option
    >>> X, y = make_european_option(3, resolution=(32, 16), random_state=0)
    >>> X.shape, y.to_grid().shape, y.channel_names
    ((3, 6), (3, 32, 16, 1), ('price',))
    >>> _, y = make_european_option(params=[[0.05, 0.2, 0.0, 100, 1, 1]], spot=(0, 200), resolution=3)
    >>> print(y.to_grid()[0, 1, 0, 0])  # a call at the money, a year before its maturity
    10.450583
    """
    shape = resolution if isinstance(resolution, tuple) else (resolution, resolution)
    if len(shape) != 2:
        raise ValueError(f"resolution must be an integer or two, got {resolution!r}.")
    for number in shape:
        _check_integer("resolution", number, 2)
    limits = _check_ranges(ranges, RANGES, POSITIVE)
    if limits["volatility"][0] < 0:
        raise ValueError(f"ranges['volatility'] must be at least 0, got {limits['volatility']!r}.")
    _check_real("call_probability", call_probability)
    if not 0 <= call_probability <= 1:
        raise ValueError(f"call_probability must lie within 0 and 1, got {call_probability!r}.")
    _check_spot(spot)
    _check_dtype(dtype)
    if params is None:
        _check_integer("n_samples", n_samples, 1)
        rows = _draw(limits | {"is_call": (0.0, 1.0)}, list(NAMES), n_samples, random_state)
        rows[:, -1] = rows[:, -1] < call_probability
    else:
        rows = _check_params(params)
    grid = np.meshgrid(np.linspace(*spot, shape[0]), np.linspace(0, 1, shape[1]), indexing="ij")
    values = np.stack([_evaluate(index, row, *grid, greeks, dtype) for index, row in enumerate(rows)])
    names = CHANNELS if greeks else CHANNELS[:1]
    return rows.astype(dtype), FieldSet(np.stack(grid, axis=-1).astype(dtype), values, channel_names=names)


def _check_spot(spot: tuple[float, float]) -> None:
    """Raise ValueError unless the range of S is one."""
    if np.shape(spot) != (2,):
        raise ValueError(f"spot must be a lowest and a highest value, got {spot!r}.")
    for value in spot:
        _check_real("spot", value)
    if not 0 <= spot[0] < spot[1]:
        raise ValueError(f"spot must be at least 0 and increase, got {spot!r}.")


def _check_params(params: npt.ArrayLike) -> FloatArray:
    """Return parameters of the caller as floats, (n, 6); raise FieldDataError if they are not fit."""
    rows = _check_rows(params, len(NAMES), f" for {', '.join(NAMES)}")
    columns = dict(zip(NAMES, rows.T, strict=True))
    for name in POSITIVE:
        if not (columns[name] > 0).all():
            raise FieldDataError(f"params: {name} must be above 0, got {columns[name].min():g}.")
    if not (columns["volatility"] >= 0).all():
        raise FieldDataError(f"params: volatility must be at least 0, got {columns['volatility'].min():g}.")
    if not np.isin(columns["is_call"], (0, 1)).all():
        raise FieldDataError(f"params: is_call must be 0 or 1, got {np.unique(columns['is_call'])}.")
    return rows


def _evaluate(
    index: int, row: FloatArray, spot: FloatArray, share: FloatArray, greeks: bool, dtype: npt.DTypeLike
) -> FloatArray:
    """Price, and the Greeks, of one sample at the points (S, t / T); (*grid, channels)."""
    # Infinite arguments of Phi are its limits; what is not finite in the end is an error.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        values = _black_scholes(row, spot, row[4] * (1 - share))[..., : None if greeks else 1].astype(dtype)
    if not np.isfinite(values).all():
        raise FieldDataError(
            f"Sample {index}: a result is beyond the range of {values.dtype.name}. Bring the parameters closer to the "
            "default ranges."
        )
    return values


def _black_scholes(row: FloatArray, spot: FloatArray, tau: FloatArray) -> FloatArray:
    """Price, delta, gamma, vega, theta and rho along the last axis."""
    rate, sigma, dividend, strike, _, is_call = row
    sign = 2 * is_call - 1
    deviation = sigma * np.sqrt(tau)
    moneyness = np.log(spot / strike) + (rate - dividend) * tau
    # 0 / 0 is the kink of the payoff, in the middle of both sides.
    ratio = np.where(moneyness == 0, 0.0, moneyness / deviation)
    first, second = ratio + deviation / 2, ratio - deviation / 2
    delta = sign * np.exp(-dividend * tau) * ndtr(sign * first)
    cash = sign * strike * np.exp(-rate * tau) * ndtr(sign * second)
    density = np.where(deviation > 0, np.exp(-dividend * tau - first**2 / 2) / np.sqrt(2 * np.pi), 0.0)
    gamma = np.divide(density, spot * deviation, out=np.zeros_like(density), where=density > 0)
    vega = spot * density * np.sqrt(tau)
    theta = dividend * spot * delta - rate * cash - (sigma * spot) ** 2 * gamma / 2
    return np.stack([spot * delta - cash, delta, gamma, vega, theta, tau * cash], axis=-1)
