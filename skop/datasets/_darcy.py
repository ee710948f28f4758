"""Darcy flow on the unit square: the generators of Li et al. (2021), of PDEBench (2022) and of Song and Jiang.

The permeability ``a`` is a thresholded random field, Gaussian or a sum of Gaussian bumps, or the exponential of a
fractal one with channels and inclusions, and the pressure ``u`` solves ``-div(a grad u) = f`` with ``u = 0`` on the
boundary. Axis 0 is x and axis 1 is y.

Notation: n points per side of the solver's grid, h = 1 / (n - 1) their spacing, k = (k1, k2) the cosine
modes, K modes per side, s stride between the solver's points and those returned.
"""

from dataclasses import dataclass
from functools import cache, partial
from math import erf, exp, pi, sqrt
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.fft import dctn, dstn
from scipy.integrate import quad
from scipy.interpolate import make_interp_spline

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._fractal_darcy import LOG_DEVIATION, FluxSystem, draw_factor, draw_sources, fractal_deviations
from skop.datasets._sampling import (
    RandomState,
    _check_choice,
    _check_dtype,
    _check_integer,
    _check_real,
    _seed_sequence,
    make_samples,
)
from skop.exceptions import FieldDataError

Coefficient = Literal["binary", "lognormal"]
Placement = Literal["node", "cell_center"]
Variant = Literal["fno", "pdebench", "fractal"]

#: Relative residual at which the linear solver stops: far below the rounding of float32 results.
RELATIVE_TOLERANCE = 1e-10
#: Preconditioned by sine transforms, a contrast c needs about 12 sqrt(c) iterations: up to some 10,000 are allowed.
MAX_ITERATIONS = 1200
#: Gaussian bumps of a permeability of PDEBench, and the largest of their widths s.
N_BUMPS, LARGEST_WIDTH = 5, 0.5
#: Relative residual, computed afresh from the solution, above which rounding has spoilt a system of fluxes.
LARGEST_RESIDUAL = 1e-8
#: Permeabilities of each variant; factors of the inclusions and of the channels with "fractal".
VALUES = {"fno": (3.0, 12.0), "pdebench": (0.1, 1.0), "fractal": (0.1, 100.0)}
#: Cosine modes per side of each variant's Gaussian field; PDEBench has none.
N_MODES = {"fno": 128, "pdebench": 128, "fractal": 32}
#: Parameters that a variant does not have, with the defaults that they must keep.
FIELD_DEFAULTS: dict[str, Any] = {"coefficient": "binary", "alpha": 2.0, "tau": 3.0, "placement": "node"}
UNUSED: dict[str, dict[str, Any]] = {
    "fno": {"hurst": 0.2},
    "pdebench": FIELD_DEFAULTS | {"n_modes": 128, "hurst": 0.2},
    "fractal": FIELD_DEFAULTS,
}


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
    variant: Variant = "fno"
    hurst: float = 0.2
    n_points: int | None = None

    @property
    def on_cells(self) -> bool:
        """Whether the solver's grid consists of cells, with values at their centres."""
        return self.variant != "fno"

    @property
    def position(self) -> Placement:
        """Position of the values."""
        return "cell_center" if self.on_cells else self.placement

    @property
    def stride(self) -> int:
        """Number of solver intervals between two returned points."""
        if self.on_cells:
            return self.solver_resolution // self.resolution
        return (self.solver_resolution - 1) // (self.resolution - 1)


def make_darcy(
    n_samples: int = 100,
    *,
    variant: Variant = "fno",
    resolution: int = 64,
    solver_resolution: int | None = None,
    coefficient: Coefficient = "binary",
    values: tuple[float, float] | None = None,
    alpha: float = 2.0,
    tau: float = 3.0,
    forcing: float = 1.0,
    placement: Placement = "node",
    n_modes: int | None = None,
    hurst: float = 0.2,
    n_points: int | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_coords: bool = False,
) -> tuple[Any, Any]:
    """Generate permeabilities and pressures of steady flow through a porous square.

    Each sample solves ``-div(a grad u) = forcing`` on the unit square with ``u = 0`` on its boundary.
    By default the permeability ``a`` comes from a Gaussian random field g with zero mean and covariance
    ``tau**(2 alpha - 2) (-Laplace + tau**2)**(-alpha)``, no flux on the boundary and the constant mode
    removed: g is a sum of cosine modes. The default numbers are those of the published data [1]_. The
    variant of PDEBench [2]_ draws ``a`` from a sum of five Gaussian bumps, and the fractal variant [3]_ varies both a
    rough ``a`` of high contrast and f.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Published: 1,000 for training and 200 for testing; 9,000 and 1,000
        of PDEBench.
    variant : {"fno", "pdebench", "fractal"}, default="fno"
        Benchmark whose recipe is followed. ``"fno"``: Li et al. ``"pdebench"``: ``values[1]`` where the sum of
        ``exp(-|x - m|**2 / s)`` over five bumps, with centres m uniform in the square and s uniform in [0, 1/2],
        exceeds its mean over all x, m and s, and ``values[0]`` elsewhere; values sit at the cell centres
        (i + 1/2) / n, and u is 0 half a cell outside the square: see Notes. It has no `coefficient`, `alpha`, `tau`,
        `placement` and `n_modes`: these must be left out. ``"fractal"``: ``exp(g)`` with a fractional Gaussian field g,
        times ``values[0]`` in 10 elliptic inclusions and ``values[1]`` in 4 narrow channels, and f the sum of `forcing`
        and 8 Gaussian sources and sinks: see Notes. It has no `coefficient`, `alpha`, `tau` and `placement`.
    resolution : int, default=64
        Number of points per side of the returned grid, at least 3. The papers train on 85, and on 64 of PDEBench.
    solver_resolution : int, default=None
        Number of points per side of the grid on which the equation is solved; ``solver_resolution - 1`` must be a
        multiple of ``resolution - 1`` (with the other variants, `solver_resolution` one of `resolution`), and the
        result is every s-th point. None: `resolution`. Published: 421, and 128 of PDEBench. With a permeability that
        jumps, the error of u falls about in proportion to the spacing.
    coefficient : {"binary", "lognormal"}, default="binary"
        Permeability. ``"binary"``: ``values[1]`` where g >= 0 and ``values[0]`` elsewhere. ``"lognormal"``: exp(g).
    values : tuple of two floats, default=None
        The two permeabilities of ``"binary"`` and of ``"pdebench"``, or the factors of ``"fractal"`` in the inclusions
        and in the channels, above 0. None: (3, 12), (0.1, 1) of PDEBench, and (0.1, 100) of ``"fractal"``. Not used by
        ``"lognormal"``.
    alpha : float, default=2.0
        Smoothness of g, above 1 (below that, g is not a function on the plane).
    tau : float, default=3.0
        Inverse length scale of g, above 0: features are about 1 / tau wide.
    forcing : float, default=1.0
        The constant source f on the right-hand side; the beta of PDEBench; the weak background of ``"fractal"``.
    placement : {"node", "cell_center"}, default="node"
        Position of the values. ``"node"``: at i / (n - 1), boundary included, so that u is 0 on the border.
        ``"cell_center"``: as in the published data, whose generator draws ``a`` at the cell centres (i + 1/2) / n,
        interpolates it to the nodes by cubic splines (which overshoot at jumps, at the border even below 0), solves
        there, and interpolates u back, so that u is small but not 0 at the border.
    n_modes : int, default=None
        Number of cosine modes per side in g, at least 2. It does not depend on the grid, so that g is the same field on
        finer grids. The modes are drawn from the longest waves on, so that more modes add detail to the same field.
        None: 128, and 32 of ``"fractal"``, where it is the band limit: waves ``cos(pi k1 x) cos(pi k2 y)`` with
        ``0 < |k| < n_modes``, resolved by solver grids of at least as many cells per side. Published: as many as the
        solver's grid has points (421).
    hurst : float, default=0.2
        Hurst exponent H of the g of ``"fractal"``, above 0 and below 1: small is rough. The other variants have none.
    n_points : int, default=None
        Number of points P drawn at random, without repetition, from the returned grid for each sample, at most
        ``resolution**2``. The result then consists of FieldSets. None: the grid itself.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The field g of sample i depends on the seed, i and the parameters of g only; its bumps, and the
        inclusions, channels and sources of ``"fractal"``, on the seed and i; and its points on the seed, i, `n_points`
        and `resolution`.
    n_jobs : int, default=None
        Number of threads of joblib, -1 for all processors. The result does not depend on it. Several threads pay on
        solver grids of about 200 points per side or more.
    verbose : int, default=0
        Progress reports of joblib; 0 prints nothing.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. The solver works in float64.
    return_coords : bool, default=False
        Whether to return ``((coords, a), u)`` instead of ``(a, u)``. Not with `n_points`, whose FieldSets hold their
        coordinates.

    Returns
    -------
    a : ndarray of shape (n_samples, resolution, resolution, 1), or FieldSet with `n_points`
        Permeability; ``a[i, j, k]`` is sample i at x_j, y_k. With ``variant="fractal"`` a second channel holds f. With
        ``return_coords=True`` the tuple ``(coords, a)``, with coords of shape (resolution, resolution, 2) and
        ``coords[j, k] = (x_j, y_k)``. The FieldSet has n_samples of P points of their own and the same channels.
    u : ndarray of shape (n_samples, resolution, resolution, 1), or FieldSet with `n_points`
        Pressure at the same points.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the two resolutions are not compatible.
    FieldDataError
        If a system cannot be solved to a relative residual of 1e-10, as for extreme `values`; the message names the
        sample.

    See Also
    --------
    load_darcy : Read the published files.
    load_pdebench_darcy : Read the published files of PDEBench.

    Notes
    -----
    The published samples of PDEBench differ in three points. They are relaxed in time to t = 2, which leaves a small
    error where the permeability is low almost everywhere; here the steady equation is solved. Their threshold is the
    mean of the sum over 200 samples that were drawn together; here it is what that mean tends to, so that a sample
    does not depend on the others. And how they extend the permeability half a cell outwards is not stated; here it
    keeps the value of the outermost cell.

    ``"fractal"`` follows the description of [3]_, which gives no numbers: those here are this package's own. g is a sum
    of the cosine modes of `n_modes` with standard deviations in proportion to ``|k|**(-H - 1)``, scaled to a variance
    of 1 over the square. The channels follow one random direction to within 0.2 radians, in waves; they are 0.025 to
    0.05 wide, which leaves no gaps on 64 x 64 cells or finer. The inclusions have semi-axes of 0.02 to 0.08. Sources
    and sinks are equally likely, have standard deviations of 0.02 to 0.05, and give or take 0.5 to 1.5 in all. Values
    sit at the cell centres (i + 1/2) / n. The flux through a face takes the harmonic mean of its two permeabilities,
    so that it is exact at a jump, and u is 0 on the border, half a cell from the outermost centres; each cell's fluxes
    add up to its source. Modified incomplete Cholesky factors precondition conjugate gradients. In [3]_ a model is
    given points alone, which do not determine u; here it is given the permeability and f too. They range over
    decades: a model sees more of the logarithm of the permeability.

    References
    ----------
    .. [1] Li, Kovachki, Azizzadenesheli, Liu, Bhattacharya, Stuart, Anandkumar, "Fourier Neural Operator
       for Parametric Partial Differential Equations", ICLR 2021, arXiv:2010.08895.
    .. [2] Takamoto, Praditia, Leiteritz, MacKinlay, Alesiani, Pflüger, Niepert, "PDEBench: An Extensive Benchmark
       for Scientific Machine Learning", NeurIPS 2022 Datasets and Benchmarks, arXiv:2210.07182.
    .. [3] Song, Jiang, "Adaptive Mamba Neural Operators", appendix B.

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
    >>> a, u = make_darcy(n_samples=2, variant="pdebench", resolution=16, random_state=0)
    >>> bool(a.min() < 0.11), float(a.max())
    (True, 1.0)
    >>> X, y = make_darcy(n_samples=2, variant="fractal", n_points=300, random_state=0)
    >>> X.shape, y.shape, X.channel_names
    ((2, 300, 2), (2, 300, 1), ('permeability', 'forcing'))
    """
    solver_resolution = resolution if solver_resolution is None else solver_resolution
    _check_choice("variant", variant, ("fno", "pdebench", "fractal"))
    recipe = _Recipe(
        resolution,
        solver_resolution,
        coefficient,
        VALUES[variant] if values is None else values,
        alpha,
        tau,
        forcing,
        placement,
        N_MODES[variant] if n_modes is None else n_modes,
        variant,
        hurst,
        n_points,
    )
    _check_recipe(recipe)
    _check_integer("n_samples", n_samples, 1)
    _check_dtype(dtype)
    if n_points is not None and return_coords:
        raise ValueError("n_points gives FieldSets, which hold their coordinates: leave return_coords out.")
    seeds = _seed_sequence(random_state).spawn(n_samples)
    samples = make_samples(partial(_make_sample, recipe, dtype=dtype), seeds, n_jobs, verbose)
    inputs, pressure = (np.stack(fields) for fields in zip(*samples, strict=True))
    if n_points is not None:
        return _at_random_points(inputs, pressure, recipe, seeds, dtype)
    if return_coords:
        return (_grid_coords(recipe).astype(dtype), inputs), pressure
    return inputs, pressure


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
    _check_real("hurst", recipe.hurst, above=0)
    if recipe.hurst >= 1:
        raise ValueError(f"hurst must be below 1, got {recipe.hurst!r}.")
    if len(recipe.values) != 2:
        raise ValueError(f"values must be two permeabilities, got {recipe.values!r}.")
    for value in recipe.values:
        _check_real("values", value, above=0)
    if recipe.n_points is not None:
        _check_integer("n_points", recipe.n_points, 1)
        if recipe.n_points > recipe.resolution**2:
            raise ValueError(f"n_points must be at most resolution**2 = {recipe.resolution**2}, got {recipe.n_points}.")
    for name, default in UNUSED[recipe.variant].items():
        if getattr(recipe, name) != default:
            raise ValueError(f"variant={recipe.variant!r} has no {name}, got {getattr(recipe, name)!r}. Leave it out.")
    _check_grids(recipe)


def _check_grids(recipe: _Recipe) -> None:
    """Raise ValueError if the returned grid is not part of the solver's."""
    if recipe.on_cells:
        if recipe.solver_resolution % recipe.resolution:
            fitting = -(-recipe.solver_resolution // recipe.resolution) * recipe.resolution
            raise ValueError(
                f"solver_resolution must be a multiple of resolution for variant={recipe.variant!r}, got "
                f"{recipe.solver_resolution} for resolution {recipe.resolution}. Take {fitting}."
            )
        return
    intervals, returned = recipe.solver_resolution - 1, recipe.resolution - 1
    if intervals % returned:
        fitting = max(1, round(intervals / returned)) * returned + 1
        raise ValueError(
            f"solver_resolution - 1 must be a multiple of resolution - 1, got {recipe.solver_resolution} for "
            f"resolution {recipe.resolution}. The nearest solver_resolution that fits is {fitting}."
        )


def _make_sample(recipe: _Recipe, seed: np.random.SeedSequence, dtype: npt.DTypeLike) -> tuple[FloatArray, FloatArray]:
    """Draw one permeability, solve for its pressure, and return both on the coarse grid with a channel axis."""
    rng = np.random.default_rng(seed)
    forcing: FloatArray | float = recipe.forcing
    if recipe.variant == "fractal":
        axis = _axis(recipe.solver_resolution, "cell_center")
        # Everything of a fixed size before the field, so that it does not depend on the number of modes.
        factor, forcing = draw_factor(rng, axis, recipe.values), forcing + draw_sources(rng, axis)
        with np.errstate(over="ignore"):  # reported by the solver
            permeability = np.exp(LOG_DEVIATION * _gaussian_field(rng, recipe)) * factor
    elif recipe.variant == "pdebench":
        excess = _sum_of_bumps(rng, _axis(recipe.solver_resolution, "cell_center")) - _mean_of_bumps()
        permeability = np.where(excess > 0, recipe.values[1], recipe.values[0])
    elif recipe.coefficient == "binary":
        permeability = np.where(_gaussian_field(rng, recipe) >= 0, recipe.values[1], recipe.values[0])
    else:
        permeability = np.exp(_gaussian_field(rng, recipe))
    pressure = _solve_at(permeability, forcing, recipe)
    every = slice(None, None, recipe.stride)
    inputs = [permeability, forcing] if isinstance(forcing, np.ndarray) else [permeability]
    returned = [np.stack(fields, axis=-1)[every, every].astype(dtype) for fields in (inputs, [pressure])]
    return returned[0], returned[1]


def _at_random_points(
    inputs: FloatArray,
    pressure: FloatArray,
    recipe: _Recipe,
    seeds: list[np.random.SeedSequence],
    dtype: npt.DTypeLike,
) -> tuple[FieldSet, FieldSet]:
    """Take the fields at points of the grid that are drawn for each sample."""
    coords = _grid_coords(recipe).reshape(-1, 2).astype(dtype)
    # A seed of their own, so that the points change nothing else.
    points = [
        np.random.default_rng(seed.spawn(1)[0]).choice(len(coords), recipe.n_points, replace=False) for seed in seeds
    ]
    names = ["permeability", "forcing"][: inputs.shape[-1]]
    sets = []
    for fields, channel_names in ((inputs, names), (pressure, ["pressure"])):
        rows = fields.reshape(len(fields), len(coords), -1)
        values = np.stack([row[chosen] for row, chosen in zip(rows, points, strict=True)])
        sets.append(FieldSet(coords[np.stack(points)], values, channel_names=channel_names))
    return sets[0], sets[1]


def _solve_at(permeability: FloatArray, forcing: FloatArray | float, recipe: _Recipe) -> FloatArray:
    """Solve on the nodes, with splines to them and back for values at cell centres; or on cells."""
    if recipe.variant == "fractal":
        return _solve_fluxes(permeability, forcing)
    if recipe.variant == "pdebench":
        return _solve_on_cells(permeability, forcing)
    if recipe.placement == "node":
        return solve_darcy(permeability, forcing)
    nodes, centers = _axis(recipe.solver_resolution, "node"), _axis(recipe.solver_resolution, "cell_center")
    on_nodes = solve_darcy(_resample(permeability, centers, nodes), forcing)
    return _resample(on_nodes, nodes, centers)


def _axis(n_points: int, placement: Placement) -> FloatArray:
    """Positions in [0, 1] of the values along one side."""
    if placement == "node":
        return np.linspace(0.0, 1.0, n_points)
    return (np.arange(n_points) + 0.5) / n_points


def _grid_coords(recipe: _Recipe) -> FloatArray:
    """Positions of the returned points, (resolution, resolution, 2)."""
    axis = _axis(recipe.solver_resolution, recipe.position)[:: recipe.stride]
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)


def _resample(values: FloatArray, old: FloatArray, new: FloatArray) -> FloatArray:
    """Interpolate values on a square grid to other positions by cubic splines, with extrapolation at the ends."""
    along_x = make_interp_spline(old, values, k=3, axis=0)(new)
    return np.asarray(make_interp_spline(old, along_x, k=3, axis=1)(new))


def _sum_of_bumps(rng: np.random.Generator, axis: FloatArray) -> FloatArray:
    """Sum of exp(-|x - m|^2 / s) over random bumps, at all pairs of positions of an axis, (n, n)."""
    centers = rng.random((N_BUMPS, 2, 1))
    widths = LARGEST_WIDTH * (1 - rng.random((N_BUMPS, 1, 1)))
    along = np.exp(-((axis - centers) ** 2) / widths)
    return np.asarray((along[:, 0, :, np.newaxis] * along[:, 1, np.newaxis]).sum(axis=0))


@cache
def _mean_of_bumps() -> float:
    """Mean of the sum of bumps over positions, centres and widths."""

    def mean_along_an_axis(s: float) -> float:
        return sqrt(pi * s) * erf(1 / sqrt(s)) - s * (1 - exp(-1 / s))

    total, _ = quad(lambda s: mean_along_an_axis(s) ** 2, 0, LARGEST_WIDTH)
    return N_BUMPS * total / LARGEST_WIDTH


def _gaussian_field(rng: np.random.Generator, recipe: _Recipe) -> FloatArray:
    """Draw the Gaussian random field at the solver's points, (n, n)."""
    noise = _modes_from_longest(rng.standard_normal(recipe.n_modes**2))
    if recipe.variant == "fractal":
        amplitudes = noise * fractal_deviations(recipe.n_modes, recipe.hurst)
    else:
        amplitudes = noise * _mode_deviations(recipe.n_modes, recipe.alpha, recipe.tau)
    return _sum_of_cosines(amplitudes, recipe.solver_resolution, recipe.position)


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


def solve_darcy(
    coefficient: FloatArray, forcing: FloatArray | float = 1.0, *, max_iterations: int = MAX_ITERATIONS
) -> FloatArray:
    """Solve ``-div(a grad u) = f`` with u = 0 on the boundary, from values at the nodes of [0, 1]^2."""
    # Five-point scheme, arithmetic means of ``a`` on the faces, conjugate gradients. The preconditioner is the
    # constant-coefficient Laplacian, inverted exactly by sine transforms, so the number of iterations depends on the
    # contrast of ``a`` and not on the grid (24 for a contrast of 4).
    if not np.isfinite(coefficient).all():
        raise FieldDataError("the permeability is not finite everywhere: lower tau or alpha.")
    n_points = len(coefficient)
    system = _FivePointSystem(coefficient)
    source = np.broadcast_to(np.asarray(forcing, dtype=np.float64), coefficient.shape)
    right_side = source[1:-1, 1:-1] / (n_points - 1) ** 2
    solution = np.zeros_like(coefficient, dtype=np.float64)
    solution[1:-1, 1:-1] = _conjugate_gradients(system, right_side, max_iterations)
    return solution


def _solve_on_cells(coefficient: FloatArray, forcing: FloatArray | float = 1.0) -> FloatArray:
    """Solve ``-div(a grad u) = f`` on n x n cells, with u = 0 at the centres of the cells next to the outermost ones.

    These centres lie half a cell outside the unit square; the permeability there is that of the outermost cells.
    """
    n_cells = len(coefficient)
    nodes = np.pad(coefficient, 1, mode="edge")
    # The nodes span (n + 1) / n of the unit length, which the solver takes for 1.
    source = np.pad(np.broadcast_to(np.asarray(forcing, dtype=np.float64), coefficient.shape), 1)
    return solve_darcy(nodes, source * ((n_cells + 1) / n_cells) ** 2)[1:-1, 1:-1]


def _solve_fluxes(
    permeability: FloatArray, forcing: FloatArray | float = 1.0, *, max_iterations: int | None = None
) -> FloatArray:
    """Solve ``-div(a grad u) = f`` with u = 0 on the boundary, from values at the centres of n x n cells of [0, 1]^2.

    Five-point scheme, harmonic means of ``a`` on the faces, conjugate gradients: see FluxSystem.
    """
    system = FluxSystem(permeability)
    source = np.broadcast_to(np.asarray(forcing, dtype=np.float64), permeability.shape) / len(permeability) ** 2
    if max_iterations is None:
        max_iterations = max(MAX_ITERATIONS, 4 * len(permeability))  # some n to 2 n are needed
    solution = _conjugate_gradients(system, source, max_iterations)
    # The residual that conjugate gradients update drifts away from the true one where the contrast is extreme.
    imbalance = source - system.apply(solution)
    if not _inner(imbalance, imbalance) <= LARGEST_RESIDUAL**2 * _inner(source, source):
        raise FieldDataError(system.indefinite)
    return solution


class _FivePointSystem:
    """The five-point matrix, times h^2, on interior nodes; and its preconditioner."""

    #: What a direction of negative curvature means.
    indefinite = (
        "the system is not positive definite, since splines through the jumps of the permeability "
        "undershoot 0: bring its values closer together, refine the grid, or use placement='node'."
    )

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


def _conjugate_gradients(
    system: _FivePointSystem | FluxSystem, right_side: FloatArray, max_iterations: int
) -> FloatArray:
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
            raise FieldDataError(system.indefinite)
        step = energy / curvature
        solution += step * direction
        residual -= step * product
        previous = energy
    raise FieldDataError(
        f"the solver did not reach a relative residual of {RELATIVE_TOLERANCE:.1e} in {max_iterations} "
        "iterations. The contrast of the permeability is too high: bring its values closer together."
    )
