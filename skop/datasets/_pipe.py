"""Data set of steady flow through bent pipes, generated as the pipe data of Li et al. (2023).

Notation: x along the pipe, eta in [-1/2, 1/2] across it, c(x) height of the centreline, L length, n1 and n2 points
along and across.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicHermiteSpline
from sklearn.utils import Bunch

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet
from skop.datasets._finite_elements import import_fem
from skop.datasets._sampling import (
    RandomState,
    _check_dtype,
    _check_integer,
    _check_pair,
    _check_real,
    _seed_sequence,
    make_samples,
)
from skop.datasets._steady_flow import SteadyFlow

#: Cubic pieces of the centreline.
N_PIECES = 4

_DESCR = """Steady flow through bent pipes of width 1, from skop.datasets.make_pipe

coords: positions of the points; the first axis runs along the pipe, the second across it, upwards.
velocity: horizontal and vertical velocity; the peak at the inlet is 1.
pressure: over the density.
heights, slopes: of the centreline at equally spaced nodes, both ends included; slopes as rise over a piece.
"""


@dataclass(frozen=True)
class _Recipe:
    """Everything that defines the distribution of one sample."""

    n_points: tuple[int, int]
    height_range: tuple[float, float]
    slope_range: tuple[float, float]
    length: float
    viscosity: float


def make_pipe(
    n_samples: int = 100,
    *,
    n_points: tuple[int, int] = (129, 129),
    height_range: tuple[float, float] = (-2.0, 2.0),
    slope_range: tuple[float, float] = (-1.0, 1.0),
    length: float = 10.0,
    viscosity: float = 0.005,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_X_y: bool = True,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Generate meshes of bent pipes, and the horizontal velocity of the flow through them.

    The points of a pipe are ``(x, eta + c(x))`` with x in [0, length] and eta in [-1/2, 1/2]. The centreline c is a
    cubic Hermite spline of four equal pieces with random heights and slopes at its five nodes; the first height is 0.
    The steady incompressible Navier-Stokes equations hold in the pipe, with the velocity ``(1 - 4 eta**2, 0)`` at the
    inlet, no slip at the walls and a free outlet. The bend is known to a model only through the positions of the
    points. Arrays have the arrangement of the published data [1]_. Needs the package scikit-fem.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Published: 1,000 for training and 200 for testing.
    n_points : tuple of two ints, default=(129, 129)
        Number of points along and across the pipe: a multiple of 8 plus 1, and an odd number of at least 3.
    height_range : tuple of two floats, default=(-2.0, 2.0)
        Lowest and highest draw of the four free heights, in widths of the pipe; uniform draws.
    slope_range : tuple of two floats, default=(-1.0, 1.0)
        Lowest and highest draw of the five slopes, as the rise over a piece of the pipe: ``dc/dx`` at a node is the
        draw over ``length / 4``.
    length : float, default=10.0
        Length of the pipe along x in units of its width, above 0.
    viscosity : float, default=0.005
        Kinematic viscosity, above 0: the reciprocal of the Reynolds number of the width and the peak at the inlet.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The centreline of sample i depends on the seed, i and the two ranges only.
    n_jobs, verbose, dtype : as in `make_elasticity`
        Number of threads, progress reports and data type of the result, with the same defaults.
    return_X_y : bool, default=True
        Whether to return ``(X, y)``; False returns a Bunch with both velocities, the pressure and the centreline.

    Returns
    -------
    (X, y) : tuple if ``return_X_y=True``
        X is a FieldSet of n_samples that holds the positions alone, on a curvilinear grid; y the horizontal velocity,
        of shape (n_samples, n1, n2, 1).
    data : :class:`~sklearn.utils.Bunch` if ``return_X_y=False``
        With the keys

        coords : ndarray of shape (n_samples, n1, n2, 2)
            Positions of the points. The first axis runs along the pipe, the second across it, upwards.
        velocity : ndarray of shape (n_samples, n1, n2, 2)
            Horizontal and vertical velocity.
        pressure : ndarray of shape (n_samples, n1, n2, 1)
            Pressure over the density, about 0 at the outlet.
        heights, slopes : ndarray of shape (n_samples, 5)
            Centreline at its nodes ``0, length / 4, ..., length``; slopes as drawn.
        DESCR : str
            Description of the data.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If no steady flow is found; the message names the sample.
    OptionalDependencyError
        If scikit-fem is not installed.

    See Also
    --------
    load_pipe : Read the published files.
    make_elasticity : Stress around a void that only the mesh shows.

    Notes
    -----
    Taylor-Hood elements: every second point each way is a corner of a nine-node quadrilateral, on which the velocity is
    quadratic and the pressure bilinear. The error of the velocity falls with the third power of the spacing, that of
    the pressure with the second, except at the ends of the walls: there the pressure is singular. Newton's method
    starts from the Stokes flow and adds inertia in smaller steps where it does not converge; meshes that are too coarse
    for the flow need many of them, and may have no solution. A sample of 129 x 129 points takes about 2.3 s on one core
    and 0.3 GB a thread.

    Two things of the published set are not certain. Its ranges: the paper's text is quoted with heights in [-2, 2] and
    slopes in [-1, 1], while the authors' program for the design of a pipe takes all nine numbers from [-1, 1], which is
    ``height_range=(-1.0, 1.0)``; slopes are per piece there, as here. And its outlet: free is taken to mean
    ``viscosity * du/dn = p n``.

    References
    ----------
    .. [1] Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
       Geometries", JMLR 24, 2023, arXiv:2207.05209.

    Examples
    --------
    >>> from skop.datasets import make_pipe
    >>> X, y = make_pipe(2, n_points=(33, 17), viscosity=0.02, random_state=0)
    >>> X.grid_shape, X.coords.shape, y.shape
    ((33, 17), (2, 561, 2), (2, 33, 17, 1))
    >>> data = make_pipe(1, n_points=(33, 17), viscosity=0.02, random_state=0, return_X_y=False)
    >>> data.velocity.shape, data.pressure.shape, data.heights.shape
    ((1, 33, 17, 2), (1, 33, 17, 1), (1, 5))
    """
    recipe = _Recipe(n_points, height_range, slope_range, length, viscosity)
    _check_recipe(recipe)
    _check_integer("n_samples", n_samples, 1)
    _check_dtype(dtype)
    import_fem()
    seeds = _seed_sequence(random_state).spawn(n_samples)
    samples = make_samples(partial(_make_sample, recipe, dtype=dtype), seeds, n_jobs, verbose)
    data = Bunch(DESCR=_DESCR, **{name: np.stack([sample[name] for sample in samples]) for name in samples[0]})
    return (FieldSet(data.coords), data.velocity[..., :1].copy()) if return_X_y else data


def _check_recipe(recipe: _Recipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    for name in ("n_points", "height_range", "slope_range"):
        _check_pair(name, getattr(recipe, name))
    along, across = recipe.n_points
    _check_integer("n_points[0]", along, 9)
    _check_integer("n_points[1]", across, 3)
    if along % 8 != 1 or across % 2 != 1:
        raise ValueError(f"n_points must be a multiple of 8 plus 1 and an odd number, got {recipe.n_points}.")
    for name in ("height_range", "slope_range"):
        low, high = getattr(recipe, name)
        _check_real(name, low)
        _check_real(name, high)
        if low > high:
            raise ValueError(f"{name} must be two increasing numbers, got {(low, high)}.")
    _check_real("length", recipe.length, above=0)
    _check_real("viscosity", recipe.viscosity, above=0)


def _make_sample(recipe: _Recipe, seed: np.random.SeedSequence, dtype: npt.DTypeLike) -> dict[str, FloatArray]:
    """Draw one centreline, solve for the flow, and return its arrays by name."""
    rng = np.random.default_rng(seed)
    heights = np.append(0.0, rng.uniform(*recipe.height_range, N_PIECES))
    slopes = rng.uniform(*recipe.slope_range, N_PIECES + 1)
    arrays = _solve_pipe(heights, slopes, recipe)
    arrays |= {"heights": heights, "slopes": slopes}
    return {name: array.astype(dtype) for name, array in arrays.items()}


def _solve_pipe(heights: FloatArray, slopes: FloatArray, recipe: _Recipe) -> dict[str, FloatArray]:
    """Positions, velocity and pressure at the points of one pipe, on its grid."""
    shape = recipe.n_points
    mesh, place = _straight_mesh(shape, recipe.length)
    x, across = mesh.doflocs
    nodes = np.linspace(0, recipe.length, N_PIECES + 1)
    centreline = CubicHermiteSpline(nodes, heights, slopes * N_PIECES / recipe.length)
    mesh = replace(mesh, doflocs=np.stack([x, across + centreline(x)]))

    row, column = np.unravel_index(place, shape)
    is_inlet, is_wall = row == 0, (column == 0) | (column == shape[1] - 1)
    start = np.zeros((len(place), 2))
    start[:, 0] = np.where(is_inlet & ~is_wall, 1 - 4 * across**2, 0)
    flow = SteadyFlow(mesh, recipe.viscosity)
    velocity, pressure = flow.solve(start.ravel(), np.repeat(is_inlet | is_wall, 2), np.zeros(start.size))

    inverse = np.argsort(place)
    corners = np.empty(((shape[0] + 1) // 2, (shape[1] + 1) // 2))
    corners[row[: len(pressure)] // 2, column[: len(pressure)] // 2] = pressure
    return {
        "coords": mesh.doflocs.T[inverse].reshape(*shape, 2),
        "velocity": velocity.reshape(-1, 2)[inverse].reshape(*shape, 2),
        "pressure": _halve(_halve(corners).T).T[..., np.newaxis],
    }


def _straight_mesh(shape: tuple[int, int], length: float) -> tuple[Any, IntArray]:
    """Straight pipe of nine-node quadrilaterals, and the place of each of its points on the grid, corners first."""
    skfem = import_fem()
    edges = [np.linspace(low, high, (n + 1) // 2) for low, high, n in zip((0, -0.5), (length, 0.5), shape, strict=True)]
    mesh = skfem.MeshQuad2.from_mesh(skfem.MeshQuad.init_tensor(*edges))
    x, across = mesh.doflocs
    row, column = np.rint(x / length * (shape[0] - 1)), np.rint((across + 0.5) * (shape[1] - 1))
    return mesh, (row * shape[1] + column).astype(int)


def _halve(values: FloatArray) -> FloatArray:
    """Values on a grid of half the spacing along the first axis: linear between those given."""
    fine = np.repeat(values, 2, axis=0)[:-1]
    fine[1::2] = (values[:-1] + values[1:]) / 2
    return fine
