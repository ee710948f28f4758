"""Data set of a block forged by a die of random profile, generated as the plasticity data of Li et al. (2023).

Notation: L and H length and height of the block, x along it and y up, i points along it and j points across it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline, PPoly
from sklearn.utils import Bunch

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._elastoplastic import Material, Sheet
from skop.datasets._finite_elements import import_fem
from skop.datasets._sampling import (
    RandomState,
    _check_choice,
    _check_dtype,
    _check_integer,
    _check_least,
    _check_pair,
    _check_real,
    _seed_sequence,
    make_samples,
)
from skop.datasets._solid_files import _unit_grid
from skop.exceptions import FieldDataError

Base = Literal["sliding", "clamped"]

#: Where the published file has the top right corner of the block, mm. From there, its points run left and down.
TOP_RIGHT = (0.35, 14.9)

_DESCR = """A block forged by a die, from skop.datasets.make_plasticity

profile: height of the die's lower face above the base of the block when it begins to move, from left to right, mm.
response: positions x and y and displacements along x and y of the points at the times, mm.
coords: positions of the points in units of the block's sides; the first axis runs to the left, the second down.
times: from 0 to 1.
"""


@dataclass(frozen=True)
class _Recipe:
    """Everything that defines the distribution of one sample."""

    n_points: tuple[int, int]
    n_times: int
    size: tuple[float, float]
    n_knots: int
    rise: float
    die_speed: float
    duration: float
    young_modulus: float
    poisson_ratio: float
    yield_stress: float
    hardening: float
    density: float
    base: Base

    @property
    def material(self) -> Material:
        """The material in mm, N and s."""
        return Material(
            self.young_modulus / 1e6,
            self.poisson_ratio,
            self.yield_stress / 1e6,
            self.hardening / 1e6,
            self.density / 1e12,
        )


def make_plasticity(
    n_samples: int = 100,
    *,
    n_points: tuple[int, int] = (101, 31),
    n_times: int = 20,
    size: tuple[float, float] = (50.0, 15.0),
    n_knots: int = 8,
    rise: float = 7.5,
    die_speed: float = 3.0,
    duration: float = 2e-3,
    young_modulus: float = 200e9,
    poisson_ratio: float = 0.3,
    yield_stress: float = 70e6,
    hardening: float = 0.0,
    density: float = 7850.0,
    base: Base = "sliding",
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_X_y: bool = True,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Generate the motion of the points of an elastic-plastic block that a rigid die of random profile strikes.

    The die moves down at a constant speed and does not rub. At time 0 it touches the block, which is at rest. Its
    profile is a cubic spline through equally spaced knots: both ends are `rise` above the lowest point, and the heights
    between are uniform random numbers. Arrays are arranged as in the published file, so that `load_plasticity` and this
    function give the same kind of X and y [1]_. Needs the package scikit-fem.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Published: 900 for training and 80 for testing.
    n_points : tuple of two ints, default=(101, 31)
        Number of points along the block and across it, at least 3 and 2.
    n_times : int, default=20
        Number of times, at least 2. Time k is ``k / n_times * duration``, so that the first is the start.
    size : tuple of two floats, default=(50.0, 15.0)
        Length and height of the block, mm.
    n_knots : int, default=8
        Knots of the spline, at least 3.
    rise : float, default=7.5
        Height of the two ends of the die above its lowest point, mm, above 0.
    die_speed : float, default=3.0
        Speed of the die, m/s, above 0.
    duration : float, default=2e-3
        Time that the times divide, s, above 0. The way of the die in it must be less than the height of the block.
    young_modulus, poisson_ratio : float, default=200e9 and 0.3
        Elastic constants, Pa and 1; above 0, and at least 0 and below 0.5.
    yield_stress, hardening : float, default=70e6 and 0.0
        Stress at which the material yields, Pa, above 0, and how much it grows with the equivalent plastic strain, at
        least 0. The recipe states none.
    density : float, default=7850.0
        Density, kg/m^3, above 0.
    base : {"sliding", "clamped"}, default="sliding"
        Whether the base of the block slides on its support without friction, or does not move.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The shape of the die of sample i depends on the seed, i and `n_knots` only.
    n_jobs, verbose, dtype : as in `make_elasticity`
        Number of threads, progress reports and data type of the result, with the same defaults.
    return_X_y : bool, default=True
        Whether to return ``(X, y)``; False returns a Bunch with arrays as in the published file.

    Returns
    -------
    (X, y) : tuple if ``return_X_y=True``
        X is a FieldSet of n_samples with `profile`, repeated across the block, on the positions `coords`. y is an array
        of shape (n_samples, n_points[0], n_points[1], 4 n_times): channel ``4 t + k`` is quantity k of `response` at
        time t.
    data : :class:`~sklearn.utils.Bunch` if ``return_X_y=False``
        With the keys

        profile : ndarray of shape (n_samples, n_points[0])
            Height of the die above the base of the block at time 0, from left to right, mm.
        response : ndarray of shape (n_samples, n_points[0], n_points[1], n_times, 4)
            Position x and y and displacement along x and y, mm. Point ``[i, j]`` is the i-th from the right and the
            j-th from the top, so that ``profile[i]`` is not above it but above ``[-1 - i, 0]``.
        coords : ndarray of shape (n_points[0], n_points[1], 2)
            ``coords[i, j] = (i / (n_points[0] - 1), j / (n_points[1] - 1))``.
        times : ndarray of shape (n_times,)
            From 0 to 1.
        DESCR : str
            Description of the data.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If a cell turns inside out; the message names the sample.
    OptionalDependencyError
        If scikit-fem is not installed.

    See Also
    --------
    load_plasticity : Read the published file.
    make_elasticity : Stress around a void in rubber.
    skop.TimeConditionedRegressor : Learns such data with the time as a parameter.

    Notes
    -----
    The block is a thin sheet (plane stress) with large strains: logarithmic elastic strain, von Mises' criterion,
    associated flow. Four-node quadrilaterals move by their inertia and the forces on them, in explicit steps of some
    1e-8 s. A sample of default size takes about 90 s on one core, and 20 MB.

    The published description leaves some of this open. Pictures of the file that others made show that the base slides,
    though the description clamps it; that the area of the block in its plane becomes smaller, by 7 % in one sample, as
    in plane stress and not in plane strain; that the ends of the dies are 7.5 mm above their lowest points; and that
    profiles run from left to right while points run from right to left. Eight knots and uniform heights are recalled,
    not confirmed. The published solution is that of a commercial program, whose elements and damping are not stated.

    References
    ----------
    .. [1] Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
       Geometries", JMLR 24, 2023, arXiv:2207.05209.

    Examples
    --------
    >>> from skop.datasets import make_plasticity
    >>> X, y = make_plasticity(n_samples=2, n_points=(11, 4), n_times=3, duration=2e-4, random_state=0)
    >>> X.grid_shape, X.shape, y.shape
    ((11, 4), (2, 44, 1), (2, 11, 4, 12))
    """
    recipe = _Recipe(
        n_points,
        n_times,
        size,
        n_knots,
        rise,
        die_speed,
        duration,
        young_modulus,
        poisson_ratio,
        yield_stress,
        hardening,
        density,
        base,
    )
    _check_recipe(recipe)
    _check_integer("n_samples", n_samples, 1)
    _check_dtype(dtype)
    import_fem()
    seeds = _seed_sequence(random_state).spawn(n_samples)
    samples = make_samples(partial(_make_sample, recipe, dtype=dtype), seeds, n_jobs, verbose)
    profile, response = (np.stack(arrays) for arrays in zip(*samples, strict=True))
    coords = _unit_grid(*n_points, False).astype(dtype)
    if return_X_y:
        X = FieldSet(coords, np.repeat(profile[:, :, np.newaxis, np.newaxis], n_points[1], axis=2))
        return X, response.reshape(n_samples, *n_points, 4 * n_times)
    times = np.linspace(0, 1, n_times, dtype=dtype)
    return Bunch(profile=profile, response=response, coords=coords, times=times, DESCR=_DESCR)


def _check_recipe(recipe: _Recipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    for name in ("n_points", "size"):
        _check_pair(name, getattr(recipe, name))
    _check_integer("n_points[0]", recipe.n_points[0], 3)
    _check_integer("n_points[1]", recipe.n_points[1], 2)
    _check_integer("n_times", recipe.n_times, 2)
    _check_integer("n_knots", recipe.n_knots, 3)
    _check_real("size[0]", recipe.size[0], above=0)
    _check_real("size[1]", recipe.size[1], above=0)
    for name in ("rise", "die_speed", "duration", "young_modulus", "yield_stress", "density"):
        _check_real(name, getattr(recipe, name), above=0)
    for name in ("poisson_ratio", "hardening"):
        _check_least(name, getattr(recipe, name))
    if recipe.poisson_ratio >= 0.5:
        raise ValueError(f"poisson_ratio must be below 0.5, got {recipe.poisson_ratio!r}.")
    _check_choice("base", recipe.base, ("sliding", "clamped"))
    way = 1e3 * recipe.die_speed * recipe.duration
    if way >= recipe.size[1]:
        raise ValueError(
            f"die_speed * duration must be less than the height of the block, {recipe.size[1]:g} mm, got {way:g} mm."
        )


def _make_sample(recipe: _Recipe, seed: np.random.SeedSequence, dtype: npt.DTypeLike) -> tuple[FloatArray, FloatArray]:
    """Draw one die and return its profile (i,) and what it does to the block, (i, j, times, 4)."""
    die = _draw_die(recipe, np.random.default_rng(seed))
    try:
        displacement = _forge(recipe, die)
    except FieldDataError as error:
        raise FieldDataError(f"{error}. Raise hardening, or lower duration or die_speed.") from error
    x, y = _axes(recipe)
    start = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)[:, :, np.newaxis]
    # From left to right and from the base up, to right to left and down.
    displacement, start = displacement[::-1, ::-1], start[::-1, ::-1]
    start = start - start[0, 0] + TOP_RIGHT
    return die(x).astype(dtype), np.concatenate([start + displacement, displacement], axis=-1).astype(dtype)


def _axes(recipe: _Recipe) -> tuple[FloatArray, FloatArray]:
    """Positions of the points along the block and across it."""
    (length, height), (n_along, n_across) = recipe.size, recipe.n_points
    return np.linspace(0, length, n_along), np.linspace(0, height, n_across)


def _draw_die(recipe: _Recipe, rng: np.random.Generator) -> PPoly:
    """Height of the die above the base at time 0; beyond its ends it goes on straight."""
    length, height = recipe.size
    knots, levels = np.linspace(0, length, recipe.n_knots), np.ones(recipe.n_knots)
    levels[1:-1] = rng.random(recipe.n_knots - 2)
    spline = CubicSpline(knots, levels)
    turns = spline.derivative().roots(extrapolate=False)
    lowest = np.nanmin(spline(np.concatenate([turns, knots])))
    spline = CubicSpline(knots, height + recipe.rise * (levels - lowest) / (1 - lowest))
    slopes = spline(knots[[0, -1]], 1)
    left = [0, 0, slopes[0], spline(0) - length * slopes[0]]
    right = [0, 0, slopes[1], spline(length)]
    coefficients = np.column_stack([left, spline.c, right])
    return PPoly(coefficients, np.concatenate([[-length], knots, [2 * length]]))


def _forge(recipe: _Recipe, die: PPoly) -> FloatArray:
    """Displacement of the points at the times, (i, j, times, 2), from left to right and from the base up."""
    mesh = import_fem().MeshQuad.init_tensor(*_axes(recipe))
    # Points in the order [i, j].
    order = np.lexsort((mesh.p[1], mesh.p[0])).reshape(recipe.n_points)
    is_fixed = np.zeros(mesh.p.T.shape, dtype=bool)
    is_fixed[order[:, 0], 1] = True
    is_fixed[order[:, 0], 0] = recipe.base == "clamped"
    sheet = Sheet(mesh, recipe.material, is_fixed, order[:, -1], die)
    states = [sheet.rest()]
    for _ in range(recipe.n_times - 1):
        states.append(sheet.advance(states[-1], 1e3 * recipe.die_speed, recipe.duration / recipe.n_times))
    return np.stack([state.displacement for state in states], axis=1)[order]
