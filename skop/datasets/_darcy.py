"""Darcy flow on the unit square: the generator of the benchmark of Li et al. (2021).

The permeability ``a`` is a thresholded Gaussian random field and the pressure ``u`` solves
``-div(a grad u) = f`` with ``u = 0`` on the boundary. Axis 0 is x and axis 1 is y.

Notation: n points a side of the solver's grid, h = 1 / (n - 1) their spacing, k = (k1, k2) the cosine
modes, K modes a side, s stride between the solver's points and those returned.
"""

from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from scipy.fft import dctn, dstn
from scipy.interpolate import make_interp_spline
from sklearn.utils import check_random_state

from skop._typing import FloatArray
from skop.exceptions import FieldDataError

Coefficient = Literal["binary", "lognormal"]
Placement = Literal["node", "cell_center"]
RandomState = int | np.random.RandomState | np.random.Generator | None

#: Relative residual at which the linear solver stops: far below the rounding of float32 results.
RELATIVE_TOLERANCE = 1e-10
#: A contrast c needs about 12 sqrt(c) iterations; this allows contrasts up to some 10,000.
MAX_ITERATIONS = 1200


@dataclass(frozen=True)
class _Recipe:
    """Everything that defines the distribution of one sample."""

    resolution: int
    solver_resolution: int
    coefficient: Coefficient
    values: tuple[float, float]
    alpha: float
    tau: float
    forcing: float
    placement: Placement
    n_modes: int

    @property
    def stride(self) -> int:
        """Number of solver intervals between two returned points."""
        return (self.solver_resolution - 1) // (self.resolution - 1)


def make_darcy(
    n_samples: int = 100,
    *,
    resolution: int = 64,
    solver_resolution: int | None = None,
    coefficient: Coefficient = "binary",
    values: tuple[float, float] = (3.0, 12.0),
    alpha: float = 2.0,
    tau: float = 3.0,
    forcing: float = 1.0,
    placement: Placement = "node",
    n_modes: int = 128,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_coords: bool = False,
) -> tuple[Any, FloatArray]:
    """Generate permeabilities and pressures of steady flow through a porous square.

    Each sample solves ``-div(a grad u) = forcing`` on the unit square with ``u = 0`` on its boundary.
    The permeability ``a`` comes from a Gaussian random field g with zero mean and covariance
    ``tau**(2 alpha - 2) (-Laplace + tau**2)**(-alpha)``, no flux on the boundary and the constant mode
    removed: g is a sum of cosine modes. The default numbers are those of the published data [1]_.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Published: 1,000 for training and 200 for testing.
    resolution : int, default=64
        Points a side of the returned grid, at least 3. The papers train on 85.
    solver_resolution : int, default=None
        Points a side of the grid on which the equation is solved; ``solver_resolution - 1`` must be a
        multiple of ``resolution - 1``, and the result is every s-th point. None: `resolution`.
        Published: 421. With a permeability that jumps, the error of u falls about in proportion to
        the spacing.
    coefficient : {"binary", "lognormal"}, default="binary"
        ``"binary"``: ``values[1]`` where g >= 0 and ``values[0]`` elsewhere. ``"lognormal"``: exp(g).
    values : tuple of two floats, default=(3.0, 12.0)
        The two permeabilities of ``"binary"``, above 0. Not used by ``"lognormal"``.
    alpha : float, default=2.0
        Smoothness of g, above 1 (below that, g is not a function on the plane).
    tau : float, default=3.0
        Inverse length scale of g, above 0: features are about 1 / tau wide.
    forcing : float, default=1.0
        The constant source f on the right-hand side.
    placement : {"node", "cell_center"}, default="node"
        Where values sit. ``"node"``: at i / (n - 1), boundary included, so u is 0 on the border.
        ``"cell_center"``: as in the published data, whose generator draws ``a`` at the cell centres
        (i + 1/2) / n, carries it to the nodes by cubic splines (which overshoot at jumps, at the border
        even to values below 0), solves there, and carries u back: the border of u is small but not 0.
    n_modes : int, default=128
        Cosine modes a side in g, at least 2. Independent of the grid, so that refining the grid converges
        to one field; drawn from the longest waves on, so that more modes add detail to that field.
        Published: as many as points of the solver's grid (421).
    random_state : int, RandomState, Generator or None, default=None
        Seed. The field g of sample i depends on the seed, i and the three parameters of g only.
    n_jobs : int, default=None
        Threads of joblib, -1 for all processors. The result is the same, bit for bit. They help on
        solver grids of some 200 points a side and up.
    verbose : int, default=0
        Progress reports of joblib; 0 prints nothing.
    dtype : dtype, default=numpy.float32
        Of what is returned, float32 or float64. The solver works in float64.
    return_coords : bool, default=False
        Return ``((coords, a), u)`` in place of ``(a, u)``.

    Returns
    -------
    a : ndarray of shape (n_samples, resolution, resolution, 1)
        Permeability; ``a[i, j, k]`` is sample i at x_j, y_k. With ``return_coords=True`` the tuple
        ``(coords, a)``, with coords of shape (resolution, resolution, 2) and ``coords[j, k] = (x_j, y_k)``.
    u : ndarray of shape (n_samples, resolution, resolution, 1)
        Pressure at the same points.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the two resolutions do not fit.
    FieldDataError
        If a system cannot be solved, as for extreme `values`; the message names the sample.

    See Also
    --------
    load_darcy : Read the published files.

    References
    ----------
    .. [1] Li, Kovachki, Azizzadenesheli, Liu, Bhattacharya, Stuart, Anandkumar, "Fourier Neural Operator
       for Parametric Partial Differential Equations", ICLR 2021, arXiv:2010.08895.

    Examples
    --------
    >>> from skop.datasets import make_darcy
    >>> a, u = make_darcy(n_samples=2, resolution=16, random_state=0)
    >>> a.shape, u.shape
    ((2, 16, 16, 1), (2, 16, 16, 1))
    >>> sorted(set(a.ravel().tolist()))
    [3.0, 12.0]
    >>> bool(0.005 < u.max() < 0.03)
    True
    """
    solver_resolution = resolution if solver_resolution is None else solver_resolution
    recipe = _Recipe(resolution, solver_resolution, coefficient, values, alpha, tau, forcing, placement, n_modes)
    _check_recipe(recipe)
    _check_integer("n_samples", n_samples, 1)
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, got {np.dtype(dtype).name}.")
    seeds = _seed_sequence(random_state).spawn(n_samples)
    tasks = (delayed(_make_sample)(recipe, index, seed, dtype) for index, seed in enumerate(seeds))
    # The transforms and array sums release the interpreter lock, so threads scale and copy nothing.
    samples = Parallel(n_jobs=n_jobs, prefer="threads", verbose=verbose)(tasks)
    permeability, pressure = (np.stack(fields)[..., np.newaxis] for fields in zip(*samples, strict=True))
    if return_coords:
        return (_grid_coords(recipe).astype(dtype), permeability), pressure
    return permeability, pressure


def _check_integer(name: str, value: Any, minimum: int) -> None:
    """Raise unless `value` is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")


def _check_real(name: str, value: Any, above: float = -np.inf) -> None:
    """Raise unless `value` is a finite number greater than `above`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value) or value <= above:
        limit = f" above {above:g}" if isfinite(above) else ""
        raise ValueError(f"{name} must be a finite number{limit}, got {value!r}.")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")


def _check_recipe(recipe: _Recipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    _check_integer("resolution", recipe.resolution, 3)
    _check_integer("solver_resolution", recipe.solver_resolution, 3)
    _check_integer("n_modes", recipe.n_modes, 2)
    _check_choice("coefficient", recipe.coefficient, ("binary", "lognormal"))
    _check_choice("placement", recipe.placement, ("node", "cell_center"))
    _check_real("alpha", recipe.alpha, above=1)
    _check_real("tau", recipe.tau, above=0)
    _check_real("forcing", recipe.forcing)
    if len(recipe.values) != 2:
        raise ValueError(f"values must be two permeabilities, got {recipe.values!r}.")
    for value in recipe.values:
        _check_real("values", value, above=0)
    intervals, returned = recipe.solver_resolution - 1, recipe.resolution - 1
    if intervals % returned:
        fitting = max(1, round(intervals / returned)) * returned + 1
        raise ValueError(
            f"solver_resolution - 1 must be a multiple of resolution - 1, got {recipe.solver_resolution} for "
            f"resolution {recipe.resolution}. The nearest solver_resolution that fits is {fitting}."
        )


def _seed_sequence(random_state: RandomState) -> np.random.SeedSequence:
    """Turn any accepted `random_state` into the root from which each sample's seed is spawned."""
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state!r}.")
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    legacy = check_random_state(random_state)
    return np.random.SeedSequence(legacy.randint(2**32, size=4, dtype=np.uint64).tolist())


def _make_sample(
    recipe: _Recipe, index: int, seed: np.random.SeedSequence, dtype: npt.DTypeLike
) -> tuple[FloatArray, FloatArray]:
    """Draw one permeability, solve for its pressure, and return both on the coarse grid."""
    field = _gaussian_field(np.random.default_rng(seed), recipe)
    if recipe.coefficient == "binary":
        permeability = np.where(field >= 0, recipe.values[1], recipe.values[0])
    else:
        permeability = np.exp(field)
    try:
        pressure = _solve_at(permeability, recipe)
    except FieldDataError as error:
        raise FieldDataError(f"Sample {index}: {error}") from error
    every = slice(None, None, recipe.stride)
    return permeability[every, every].astype(dtype), pressure[every, every].astype(dtype)


def _solve_at(permeability: FloatArray, recipe: _Recipe) -> FloatArray:
    """Solve on the nodes, by way of splines when the permeability sits at cell centres."""
    if recipe.placement == "node":
        return _solve_darcy(permeability, recipe.forcing)
    nodes, centers = _axis(recipe.solver_resolution, "node"), _axis(recipe.solver_resolution, "cell_center")
    on_nodes = _solve_darcy(_resample(permeability, centers, nodes), recipe.forcing)
    return _resample(on_nodes, nodes, centers)


def _axis(n_points: int, placement: Placement) -> FloatArray:
    """Positions in [0, 1] of the values along one side."""
    if placement == "node":
        return np.linspace(0.0, 1.0, n_points)
    return (np.arange(n_points) + 0.5) / n_points


def _grid_coords(recipe: _Recipe) -> FloatArray:
    """Positions of the returned points, (resolution, resolution, 2)."""
    axis = _axis(recipe.solver_resolution, recipe.placement)[:: recipe.stride]
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)


def _resample(values: FloatArray, old: FloatArray, new: FloatArray) -> FloatArray:
    """Carry a square of values from one axis to another by cubic splines, extrapolating at the ends."""
    along_x = make_interp_spline(old, values, k=3, axis=0)(new)
    return np.asarray(make_interp_spline(old, along_x, k=3, axis=1)(new))


def _gaussian_field(rng: np.random.Generator, recipe: _Recipe) -> FloatArray:
    """Draw the Gaussian random field at the solver's points, (n, n)."""
    noise = _modes_from_longest(rng.standard_normal(recipe.n_modes**2))
    amplitudes = noise * _mode_deviations(recipe.n_modes, recipe.alpha, recipe.tau)
    return _sum_of_cosines(amplitudes, recipe.solver_resolution, recipe.placement)


def _mode_deviations(n_modes: int, alpha: float, tau: float) -> FloatArray:
    """Return tau^(alpha - 1) (pi^2 |k|^2 + tau^2)^(-alpha / 2), and 0 for the constant mode."""
    squares = np.arange(n_modes) ** 2
    eigenvalues = np.pi**2 * (squares[:, np.newaxis] + squares) + tau**2
    deviations = tau ** (alpha - 1) * eigenvalues ** (-alpha / 2)
    deviations[0, 0] = 0.0
    return deviations


def _modes_from_longest(draws: FloatArray) -> FloatArray:
    """Place K^2 numbers in a K x K array so that the first M^2 fill its M x M corner, for every M."""
    n_modes = round(len(draws) ** 0.5)
    first, second = np.indices((n_modes, n_modes))
    shell = np.maximum(first, second)
    # Shell m starts after the m^2 numbers of the smaller square; its row comes before its column.
    return draws[shell**2 + np.where(first == shell, second, shell + 1 + first)]


def _sum_of_cosines(amplitudes: FloatArray, n_points: int, placement: Placement) -> FloatArray:
    """Evaluate a sum of orthonormal cosine modes on the grid by a fast transform.

    It needs as many points as modes: a coarse grid is embedded in one an integer factor finer.
    """
    n_modes = len(amplitudes)
    if placement == "node":
        factor = -(-n_modes // (n_points - 1))
        n_fine, kind, offset = (n_points - 1) * factor + 1, 1, 0
    else:
        factor = -(-n_modes // n_points)
        factor += 1 - factor % 2  # a centre is a centre of the finer grid only for odd factors
        n_fine, kind, offset = n_points * factor, 3, factor // 2
    # Modes are sqrt(2) cos(pi k x) for k > 0; both transforms double the terms with k > 0.
    scale = np.full(n_modes, np.sqrt(0.5))
    scale[0] = 1.0
    fine = dctn(amplitudes * scale * scale[:, np.newaxis], type=kind, s=(n_fine, n_fine))
    return fine[offset::factor, offset::factor]


def _solve_darcy(
    coefficient: FloatArray, forcing: FloatArray | float = 1.0, *, max_iterations: int = MAX_ITERATIONS
) -> FloatArray:
    """Solve ``-div(a grad u) = f`` with u = 0 on the boundary, from values at the nodes of [0, 1]^2.

    Five-point scheme, arithmetic means of ``a`` on the faces, conjugate gradients. The preconditioner is
    the constant-coefficient Laplacian, inverted exactly by sine transforms, so the number of iterations
    depends on the contrast of ``a`` and not on the grid (24 for a contrast of 4).
    """
    if not np.isfinite(coefficient).all():
        raise FieldDataError("the permeability is not finite everywhere: lower tau or alpha.")
    n_points = len(coefficient)
    system = _FivePointSystem(coefficient)
    source = np.broadcast_to(np.asarray(forcing, dtype=np.float64), coefficient.shape)
    right_side = source[1:-1, 1:-1] / (n_points - 1) ** 2
    solution = np.zeros_like(coefficient, dtype=np.float64)
    solution[1:-1, 1:-1] = _conjugate_gradients(system, right_side, max_iterations)
    return solution


class _FivePointSystem:
    """The five-point matrix, times h^2, on interior nodes; and its preconditioner."""

    def __init__(self, coefficient: FloatArray) -> None:
        columns, rows = coefficient[:, 1:-1], coefficient[1:-1, :]
        self.faces_x = (columns[1:] + columns[:-1]) / 2
        self.faces_y = (rows[:, 1:] + rows[:, :-1]) / 2
        self.diagonal = self.faces_x[1:] + self.faces_x[:-1] + self.faces_y[:, 1:] + self.faces_y[:, :-1]
        n_points = len(coefficient)
        eigenvalues = 4 * np.sin(np.pi * np.arange(1, n_points - 1) / (2 * (n_points - 1))) ** 2
        self.laplacian_eigenvalues = eigenvalues[:, np.newaxis] + eigenvalues

    def apply(self, u: FloatArray) -> FloatArray:
        """Multiply the matrix by a grid of interior values."""
        product = self.diagonal * u
        inner_x, inner_y = self.faces_x[1:-1], self.faces_y[:, 1:-1]
        product[1:] -= inner_x * u[:-1]
        product[:-1] -= inner_x * u[1:]
        product[:, 1:] -= inner_y * u[:, :-1]
        product[:, :-1] -= inner_y * u[:, 1:]
        return product

    def precondition(self, residual: FloatArray) -> FloatArray:
        """Solve the same system with a = 1; the orthonormal sine transform is its own inverse."""
        spectrum = dstn(residual, type=1, norm="ortho")
        spectrum /= self.laplacian_eigenvalues
        return dstn(spectrum, type=1, norm="ortho", overwrite_x=True)


def _inner(left: FloatArray, right: FloatArray) -> float:
    """Sum of products, in an order that does not depend on the number of threads, as BLAS's does."""
    return float(np.sum(left * right))


def _conjugate_gradients(system: _FivePointSystem, right_side: FloatArray, max_iterations: int) -> FloatArray:
    """Preconditioned conjugate gradients from a zero start."""
    solution = np.zeros(right_side.shape)
    residual = right_side.copy()
    target = RELATIVE_TOLERANCE**2 * _inner(right_side, right_side)
    direction, previous = np.zeros_like(residual), 1.0
    for _ in range(max_iterations):
        if _inner(residual, residual) <= target:
            return solution
        correction = system.precondition(residual)
        energy = _inner(residual, correction)
        direction *= energy / previous
        direction += correction
        product = system.apply(direction)
        curvature = _inner(direction, product)
        if not curvature > 0:
            raise FieldDataError(
                "the system is not positive definite, since splines through the jumps of the permeability "
                "undershoot 0: bring its values closer together, refine the grid, or use placement='node'."
            )
        step = energy / curvature
        solution += step * direction
        residual -= step * product
        previous = energy
    raise FieldDataError(
        f"the solver did not reach a relative residual of {RELATIVE_TOLERANCE:.1e} in {max_iterations} "
        "iterations. The contrast of the permeability is too high: bring its values closer together."
    )
