"""Poisson's equation between a circle and an eccentric round hole, solved by a conformal map and a series.

Notation: z points of the unit disc, c centre and r radius of the hole, d = |c|, w points of the plane in which both
circles have the centre 0, A point of the z plane that is carried to w = 0, a = |A|, rho radius of the hole there, q
source.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._sampling import (
    RandomState,
    _check_choice,
    _check_dtype,
    _check_integer,
    _check_real,
    _check_rows,
    _seed_sequence,
)
from skop.exceptions import FieldDataError

#: Size of the first term of the series that is left out.
_SMALLEST_TERM = 1e-17


def make_moving_hole(
    n_samples: int = 40,
    *,
    nodes: Literal["corresponding", "scattered"] = "corresponding",
    n_points: tuple[int, int] = (64, 12),
    radius: float = 0.25,
    max_offset: float = 0.5,
    source: float = 4.0,
    hole_value: float = 1.0,
    params: npt.ArrayLike | None = None,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float32,
) -> tuple[FloatArray, FieldSet]:
    """Generate fields around a hole that moves: its position as input, the field on a mesh of its own as target.

    Each field solves ``-Laplace u = source`` in the unit disc outside of a round hole, with ``u = 0`` on the disc's
    border and ``u = hole_value`` on the hole's. The solution is exact to rounding. The points move with the hole, in
    two ways that matter to a classical model: with ``"corresponding"`` nodes, as of one mesh that is deformed, node j
    is the same place of the geometry in all samples; with ``"scattered"`` ones, as of a mesher that runs anew for each
    sample, it is not.

    Parameters
    ----------
    n_samples : int, default=40
        Number of samples n, at least 1. Not used if `params` are given.
    nodes : {"corresponding", "scattered"}, default="corresponding"
        Nodes of a sample. ``"corresponding"``: on straight lines from the hole to the border, ordered along the hole.
        ``"scattered"``: at random, evenly over the area and both circles, in random order.
    n_points : tuple of two ints, default=(64, 12)
        Number of points around the hole, at least 3, and from it to the border, at least 2. Their product is the number
        P of points, also of scattered ones, of which as many as stand first lie on each of the circles.
    radius : float, default=0.25
        Radius r of the hole, above 0.
    max_offset : float, default=0.5
        Largest distance of the hole's middle from the disc's, at least 0; the sum with `radius` is below 1.
    source : float, default=4.0
        Source q.
    hole_value : float, default=1.0
        Value on the hole.
    params : array-like of shape (n, 2), default=None
        Positions of your own, one row per sample. None draws them evenly from the disc of radius `max_offset`.
    random_state : int, RandomState, Generator or None, default=None
        Seed. Sample i depends on the seed, i, `nodes`, `n_points`, `radius` and `max_offset` only.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. Fields are computed in float64.

    Returns
    -------
    X : ndarray of shape (n, 2)
        Position of the hole's middle.
    y : FieldSet
        Field u, one channel, at P points of each sample's own.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If `params` are not finite, have the wrong shape, or a hole leaves the disc.

    See Also
    --------
    make_elasticity : Stress around a void of any form.

    Notes
    -----
    The map ``w = (z - A) / (1 - conj(A) z)`` with ``A = a c / d``, ``a = 2 d / (b + sqrt(b**2 - 4 d**2))`` and
    ``b = 1 + d**2 - r**2`` keeps the unit circle and carries the hole to the circle of radius rho about 0 [1]_. There
    ``u = q (1 - |z|**2) / 4 + g``, where g is harmonic, 0 at ``|w| = 1``, and at ``|w| = rho`` a Fourier series whose
    terms fall like ``(a rho)**k``.

    References
    ----------
    .. [1] Z. Nehari, "Conformal Mapping" (1952), chapter V.

    Examples
    --------
    >>> from skop import FieldSet
    >>> from skop.datasets import make_moving_hole
    >>> params, y = make_moving_hole(random_state=0)
    >>> params.shape, y.coords.shape, y.shape
    ((40, 2), (40, 768, 2), (40, 768, 1))
    >>> X = FieldSet(y.coords, params=params)  # what an operator gets: each sample's points and its parameters
    """
    _check_choice("nodes", nodes, ("corresponding", "scattered"))
    if np.shape(n_points) != (2,):
        raise ValueError(f"n_points must be two integers, around the hole and to the border, got {n_points!r}.")
    for number, least in zip(n_points, (3, 2), strict=True):
        _check_integer("n_points", number, least)
    _check_real("radius", radius, above=0)
    for name, value in (("max_offset", max_offset), ("source", source), ("hole_value", hole_value)):
        _check_real(name, value)
    if max_offset < 0 or max_offset + radius >= 1:
        raise ValueError(
            f"max_offset must be at least 0 and its sum with radius below 1, got {max_offset!r} and {radius!r}."
        )
    _check_dtype(dtype)
    if params is None:
        _check_integer("n_samples", n_samples, 1)
        given = None
    else:
        given = _check_params(params, radius)
    seeds = _seed_sequence(random_state).spawn(n_samples if given is None else len(given))
    rows, coords, values = [], [], []
    for index, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        # Drawn in any case, so that given positions leave the points as they are.
        distance, angle = max_offset * np.sqrt(rng.random()), 2 * np.pi * rng.random()
        centre = distance * np.exp(1j * angle) if given is None else complex(*given[index])
        z = _mesh(centre, radius, n_points) if nodes == "corresponding" else _scatter(centre, radius, n_points, rng)
        rows.append([centre.real, centre.imag])
        coords.append(np.stack([z.real, z.imag], axis=-1))
        values.append(_solve(z, centre, radius, source, hole_value)[:, np.newaxis])
    fields = FieldSet(np.stack(coords).astype(dtype), np.stack(values).astype(dtype))
    return np.array(rows).astype(dtype), fields


def _check_params(params: npt.ArrayLike, radius: float) -> FloatArray:
    """Return positions of the caller as floats, (n, 2); raise FieldDataError if they are not fit."""
    rows = _check_rows(params, 2)
    farthest = np.linalg.norm(rows, axis=1).max()
    if farthest + radius >= 1:
        raise FieldDataError(f"params: a hole of radius {radius:g} leaves the unit disc, {farthest:g} from 0.")
    return rows


def _mesh(centre: complex, radius: float, n_points: tuple[int, int]) -> npt.NDArray[np.complexfloating]:
    """Points on lines from the hole to the border, (P,), complex."""
    around = np.exp(2j * np.pi * np.arange(n_points[0]) / n_points[0])[:, np.newaxis]
    outward = np.linspace(0, 1, n_points[1])
    return ((1 - outward) * (centre + radius * around) + outward * around).ravel()


def _scatter(
    centre: complex, radius: float, n_points: tuple[int, int], rng: np.random.Generator
) -> npt.NDArray[np.complexfloating]:
    """Random points on both circles and between them, (P,), complex."""
    n_around, n_inside = n_points[0], n_points[0] * (n_points[1] - 2)
    hole, border = np.exp(2j * np.pi * rng.random((2, n_around)))
    inside = np.empty(0, dtype=complex)
    while len(inside) < n_inside:
        draws = np.sqrt(rng.random(n_inside)) * np.exp(2j * np.pi * rng.random(n_inside))
        inside = np.append(inside, draws[np.abs(draws - centre) > radius])
    return rng.permutation(np.concatenate([centre + radius * hole, border, inside[:n_inside]]))


def _solve(
    z: npt.NDArray[np.complexfloating], centre: complex, radius: float, source: float, hole_value: float
) -> FloatArray:
    """Solution at points z, (P,)."""
    distance = abs(centre)
    direction = centre / distance if distance else 1.0
    b = 1 + distance**2 - radius**2
    shift = 2 * distance / (b + np.sqrt(b**2 - 4 * distance**2))
    inner = (distance + radius - shift) / (1 - shift * (distance + radius))
    # Turned so that the middle of the hole lies on the positive real axis.
    w = (z / direction - shift) / (1 - shift * z / direction)
    size = np.clip(np.abs(w), inner, 1)
    # On the hole |z|^2 = r^2 - d^2 + 2 Re(conj(c) z), where conj(c) z is a geometric series in w.
    mean = hole_value - source / 4 * (1 - radius**2 + distance**2 - 2 * distance * shift)
    harmonic = mean * np.log(size) / np.log(inner)
    decay, rate = shift * inner, source / 2 * distance * (1 - shift**2)
    n_terms = int(np.ceil(np.log(_SMALLEST_TERM) / np.log(decay))) if decay > 0 else 0
    for k in range(1, n_terms + 1):
        # (s^k - s^-k) / (rho^k - rho^-k), written without large powers.
        outwards = (inner / size) ** k * (1 - size ** (2 * k)) / (1 - inner ** (2 * k))
        harmonic += rate * (-shift) ** (k - 1) * inner**k * outwards * np.cos(k * np.angle(w))
    return source / 4 * (1 - np.abs(z) ** 2) + harmonic
