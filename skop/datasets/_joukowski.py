"""Potential flow past Joukowski airfoils in closed form: pressure and velocity on the surface or around it.

Notation: zeta plane of the circle, z = zeta + 1 / zeta plane of the airfoil before its chord is scaled to 1, zeta_0
centre and R radius of the circle through the trailing edge zeta = 1, alpha angle of attack, beta angle of the trailing
edge below the centre, G clockwise circulation.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._cantilever import _check_ranges, _draw
from skop.datasets._sampling import RandomState, _check_choice, _check_dtype, _check_integer, _check_real, _check_rows
from skop.exceptions import FieldDataError

#: Lowest and highest value of each parameter: degrees, and parts of the chord.
RANGES = {"angle": (-4.0, 12.0), "thickness": (0.08, 0.16), "camber": (0.0, 0.04)}
CHANNELS = ("pressure", "velocity_x", "velocity_y")
#: Thickness over the chord for each unit by which the centre is left of the origin, to first order.
_THICKNESS_RATE, _CAMBER_RATE = 3 * sqrt(3) / 4, 0.5


def make_joukowski(
    n_samples: int = 100,
    *,
    geometry: Literal["fixed", "varied"] = "fixed",
    n_points: tuple[int, int] = (128, 1),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    params: npt.ArrayLike | None = None,
    far_radius: float = 5.0,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float32,
) -> tuple[FloatArray, FieldSet]:
    """Generate flows past airfoils: angle of attack (and shape) as inputs, pressure and velocity as targets.

    The flow past a circle, of speed 1 far away and with the circulation at which it leaves the trailing edge smoothly
    (Kutta's condition), is carried to an airfoil by Joukowski's map ``z = zeta + 1 / zeta`` [1]_. All values are
    exact to rounding. The pressure has a steep peak at the nose, that grows and moves with the angle.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Not used if `params` are given.
    geometry : {"fixed", "varied"}, default="fixed"
        Geometry of the airfoils. ``"fixed"``: only the angle varies; thickness and camber are the middles of their
        ranges, and all samples share their coordinates. ``"varied"``: all three vary, so that every sample has its own
        coordinates.
    n_points : tuple of two ints, default=(128, 1)
        Number of points around the airfoil, at least 8, and from it outwards, at least 1. A single one outwards gives
        the surface alone; more give a grid that fits the airfoil.
    ranges : mapping of str to (low, high), default=None
        Ranges that replace the default ones, by parameter: ``angle`` (-4, 12), in degrees; ``thickness`` (0.08, 0.16),
        above 0, and ``camber`` (0, 0.04), parts of the chord, both to first order.
    params : array-like of shape (n, p), default=None
        Parameters of your own, one row per sample, with the columns angle, thickness, camber; with
        ``geometry="fixed"`` only the angle. None draws them uniformly from the ranges.
    far_radius : float, default=5.0
        Radius of the grid's last circle over that of the first, above 1, in the plane of the circle.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The parameters of sample i depend on the seed, i, `geometry` and the ranges only.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. Flows are computed in float64.

    Returns
    -------
    X : ndarray of shape (n, p)
        Parameters: the angle, or angle, thickness and camber.
    y : FieldSet
        Pressure coefficient ``1 - |velocity|**2`` and velocity, with the channels ``pressure``, ``velocity_x`` and
        ``velocity_y``. Points start behind the trailing edge, (1, 0), run counter-clockwise over the upper side to the
        nose, near (0, 0), and leave out the edge itself. They are shared with ``geometry="fixed"``.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If `params` are not finite, have the wrong shape, or hold a thickness that is not positive.

    See Also
    --------
    make_wake : Flow behind a bluff body, as a function of time.
    make_airfoil : Transonic flows past airfoils.

    Notes
    -----
    The circle has its centre at ``zeta_0 = -e + i m``, with e the thickness over 1.299 and m twice the camber, and
    passes through ``zeta = 1``. Its velocity is ``exp(-i alpha) - R**2 exp(i alpha) / (zeta - zeta_0)**2 + i G /
    (2 pi (zeta - zeta_0))``, with ``G = 4 pi R sin(alpha + beta)``, and that of the airfoil is this over
    ``dz / dzeta = 1 - zeta**-2``. The lift coefficient is ``2 G / chord`` with the chord in the z plane,
    ``3 + 2 e + 1 / (1 + 2 e)``.

    References
    ----------
    .. [1] H. Glauert, "The Elements of Airfoil and Airscrew Theory", 2nd ed. (1947), chapters VI and VII.

    Examples
    --------
    >>> from skop.datasets import make_joukowski
    >>> X, y = make_joukowski(30, random_state=0)
    >>> X.shape, y.shape, y.channel_names
    ((30, 1), (30, 128, 3), ('pressure', 'velocity_x', 'velocity_y'))
    >>> X, y = make_joukowski(5, geometry="varied", n_points=(64, 24), random_state=0)
    >>> X.shape, y.to_grid().shape
    ((5, 3), (5, 64, 24, 3))
    """
    _check_choice("geometry", geometry, ("fixed", "varied"))
    if np.shape(n_points) != (2,):
        raise ValueError(f"n_points must be two integers, around the airfoil and outwards, got {n_points!r}.")
    for number, least in zip(n_points, (8, 1), strict=True):
        _check_integer("n_points", number, least)
    limits = _check_ranges(ranges, RANGES, ("thickness",))
    _check_real("far_radius", far_radius, above=1)
    _check_dtype(dtype)
    names = list(RANGES) if geometry == "varied" else ["angle"]
    if params is None:
        _check_integer("n_samples", n_samples, 1)
        rows = _draw(limits, names, n_samples, random_state)
    else:
        rows = _check_params(params, names)
    middle = np.array([sum(limit) / 2 for limit in limits.values()])
    full = np.concatenate([rows, np.broadcast_to(middle[len(names) :], (len(rows), 3 - len(names)))], axis=1)
    solved = [_flow(row, n_points, far_radius) for row in full]
    coords, values = (np.stack(parts).astype(dtype) for parts in zip(*solved, strict=True))
    if geometry == "fixed":
        coords = coords[0]
    return rows.astype(dtype), FieldSet(coords, values, channel_names=CHANNELS)


def _check_params(params: npt.ArrayLike, names: list[str]) -> FloatArray:
    """Return parameters of the caller as floats, (n, p); raise FieldDataError if they are not fit."""
    rows = _check_rows(params, len(names), f" for {', '.join(names)}")
    if len(names) > 1 and not (rows[:, 1] > 0).all():
        raise FieldDataError(f"params: thickness must be above 0, got {rows[:, 1].min():g}.")
    return rows


def _flow(parameters: FloatArray, n_points: tuple[int, int], far_radius: float) -> tuple[FloatArray, FloatArray]:
    """Coordinates (*grid, 2) and values (*grid, 3) of one airfoil; the surface has one axis."""
    angle, thickness, camber = parameters
    left, alpha = thickness / _THICKNESS_RATE, np.deg2rad(angle)
    centre = complex(-left, camber / _CAMBER_RATE)
    radius, edge = abs(1 - centre), np.angle(1 - centre)
    # Half a step from the trailing edge, where the velocity is a quotient of two zeros.
    around = edge + 2 * np.pi * (np.arange(n_points[0]) + 0.5) / n_points[0]
    outward = far_radius ** (np.arange(n_points[1]) / max(n_points[1] - 1, 1))
    arm = radius * outward * np.exp(1j * around[:, np.newaxis])
    zeta = centre + arm
    circulation = 4 * np.pi * radius * np.sin(alpha - edge)
    on_circle = np.exp(-1j * alpha) - radius**2 * np.exp(1j * alpha) / arm**2 + 0.5j * circulation / np.pi / arm
    velocity = on_circle / (1 - zeta**-2)
    nose = -(1 + 2 * left)
    place = (zeta + 1 / zeta - nose - 1 / nose) / (2 - nose - 1 / nose)
    coords = np.stack([place.real, place.imag], axis=-1)
    values = np.stack([1 - np.abs(velocity) ** 2, velocity.real, -velocity.imag], axis=-1)
    return (coords[:, 0], values[:, 0]) if n_points[1] == 1 else (coords, values)
