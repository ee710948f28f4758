"""A Karman vortex street behind a bluff body in closed form: velocity on scattered nodes, as a function of time.

Notation: U speed of the stream, a distance between the vortices of a row, h distance between the two rows, G
circulation of a vortex, d radius of its core, k = 2 pi / a, c speed at which the street travels, T = a / c its period.
"""

from math import asinh, cosh, pi, sinh

import numpy as np
import numpy.typing as npt

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._sampling import RandomState, _check_dtype, _check_integer, _check_real, _seed_sequence
from skop.exceptions import FieldDataError

#: Distance of the rows over that of the vortices, at which von Karman found the street stable.
ROW_RATIO = asinh(1) / pi


def make_wake(
    n_samples: int = 48,
    *,
    n_points: int = 3000,
    n_periods: float = 2.5,
    times: npt.ArrayLike | None = None,
    velocity: float = 1.0,
    spacing: float = 4.3,
    circulation: float = 1.7,
    core_radius: float = 0.35,
    size: tuple[float, float] = (10.0, 5.0),
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float32,
) -> tuple[FloatArray, FieldSet]:
    """Generate snapshots of a vortex street: the time as input, the velocity on scattered nodes as target.

    Two rows of vortices travel along x: clockwise ones at ``y = h / 2``, counter-clockwise ones half a distance further
    at ``y = -h / 2``, with the ratio ``h / a = asinh(1) / pi`` at which von Karman [1]_ found them stable. The stream
    function is ``U y + psi(x - c t, y - h / 2) - psi(x - c t - a / 2, y + h / 2)`` with
    ``psi(x, y) = G / (4 pi) log(cosh k y - cos k x + (k d)**2 / 2)``, and the velocity
    ``(d/dy, -d/dx)`` of it. It is a smooth function of the time with a period, on nodes that are the same at all times:
    a problem of interpolation, with as many samples as a simulation has snapshots.

    Parameters
    ----------
    n_samples : int, default=48
        Number of samples n, at least 1. Not used if `times` are given.
    n_points : int, default=3000
        Number P of nodes, at least 1, drawn uniformly from the rectangle.
    n_periods : float, default=2.5
        Length of the record over the period T, above 0. Its n times are equally spaced, the first and last included.
    times : array-like of shape (n,), default=None
        Times of your own, such as those of a test between the snapshots. None takes the record's.
    velocity : float, default=1.0
        Speed U of the stream.
    spacing : float, default=4.3
        Distance a of the vortices of a row, above 0; some 4.3 diameters of a cylinder that sheds them.
    circulation : float, default=1.7
        Circulation G of the vortices. The default slows the street to 0.86 U.
    core_radius : float, default=0.35
        Radius d of the cores, above 0: a single vortex turns at ``G r / (2 pi (r**2 + d**2))``.
    size : tuple of two floats, default=(10.0, 5.0)
        Lengths of the rectangle along x, from 0 on, and along y, about 0; above 0.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the nodes. Fewer nodes are the first of more.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. Fields are computed in float64.

    Returns
    -------
    X : ndarray of shape (n, 1)
        Times.
    y : FieldSet
        Velocity, with the channels ``velocity_x`` and ``velocity_y``, at P nodes that all samples share.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the street does not move.
    FieldDataError
        If `times` are not finite or not one-dimensional.

    See Also
    --------
    make_joukowski : Flow past an airfoil, as a function of its angle and shape.

    Notes
    -----
    The street travels at the speed of the fluid in the middle of its vortices,
    ``c = U - G / (2 a) sinh(k h) / (cosh(k h) + 1 + (k d)**2 / 2)``; for points, ``U - G / (2 a) tanh(pi h / a)``.
    The divergence is 0, and so is the vorticity of points outside of their middles; the cores smooth it. Cores are
    carried along without changing, so that this is a model of a wake and no solution of the Navier-Stokes equations.

    References
    ----------
    .. [1] Th. von Karman, "Ueber den Mechanismus des Widerstandes, den ein bewegter Koerper in einer Fluessigkeit
       erfaehrt", Nachr. Ges. Wiss. Goettingen (1911); H. Lamb, "Hydrodynamics", 6th ed. (1932), section 156.

    Examples
    --------
    >>> from skop.datasets import make_wake
    >>> X, y = make_wake(random_state=0)
    >>> X.shape, y.shape, y.channel_names
    ((48, 1), (48, 3000, 2), ('velocity_x', 'velocity_y'))
    >>> X_test, y_test = make_wake(times=(X[1:, 0] + X[:-1, 0]) / 2, random_state=0)  # between the snapshots
    """
    _check_integer("n_points", n_points, 1)
    for name, value in (("velocity", velocity), ("circulation", circulation)):
        _check_real(name, value)
    for name, value in (("n_periods", n_periods), ("spacing", spacing), ("core_radius", core_radius)):
        _check_real(name, value, above=0)
    if np.shape(size) != (2,):
        raise ValueError(f"size must be two lengths, got {size!r}.")
    for value in size:
        _check_real("size", value, above=0)
    _check_dtype(dtype)
    speed = _street_speed(velocity, spacing, circulation, core_radius)
    if times is None:
        _check_integer("n_samples", n_samples, 1)
        if speed == 0:
            raise ValueError("The street does not move, so that it has no period; change velocity or circulation.")
        moments = np.linspace(0, n_periods * abs(spacing / speed), n_samples)
    else:
        moments = np.asarray(times, dtype=np.float64)
        if moments.ndim != 1 or len(moments) == 0 or not np.isfinite(moments).all():
            raise FieldDataError(f"times must be finite, of shape (n,) with n >= 1, got the shape {moments.shape}.")
    draws = np.random.default_rng(_seed_sequence(random_state)).random((n_points, 2))
    nodes = draws * size - [0, size[1] / 2]
    values = np.empty((len(moments), n_points, 2))
    rows = ((0.0, 0.5, -circulation), (0.5, -0.5, circulation))
    for index, moment in enumerate(moments):
        # Whole periods are left out, so that late times cost no digits.
        moved = nodes[:, 0] - (speed * moment) % spacing
        values[index] = [velocity, 0]
        for shift, height, strength in rows:
            across = nodes[:, 1] - height * ROW_RATIO * spacing
            values[index] += _row_velocity(moved - shift * spacing, across, strength, spacing, core_radius)
    names = ("velocity_x", "velocity_y")
    return moments[:, np.newaxis].astype(dtype), FieldSet(
        nodes.astype(dtype), values.astype(dtype), channel_names=names
    )


def _street_speed(velocity: float, spacing: float, circulation: float, core_radius: float) -> float:
    """Speed c of the fluid in the middle of a vortex, which only the other row induces."""
    wavenumber = 2 * pi / spacing
    height = wavenumber * ROW_RATIO * spacing
    core = (wavenumber * core_radius) ** 2 / 2
    return velocity - circulation / (2 * spacing) * sinh(height) / (cosh(height) + 1 + core)


def _row_velocity(
    along: FloatArray, across: FloatArray, circulation: float, spacing: float, core_radius: float
) -> FloatArray:
    """Velocity (P, 2) that a row of vortices induces, at distances from one of them; counter-clockwise ones."""
    wavenumber = 2 * pi / spacing
    # Far away both hyperbolic functions overflow, and their quotient is the sign.
    x, y = wavenumber * along, np.clip(wavenumber * across, -300, 300)
    denominator = np.cosh(y) - np.cos(x) + (wavenumber * core_radius) ** 2 / 2
    return circulation / (2 * spacing) * np.stack([-np.sinh(y), np.sin(x)], axis=1) / denominator[:, np.newaxis]
