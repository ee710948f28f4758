"""Data set of tapered cantilever beams under a load: linear elasticity in three dimensions.

The x axis is along the beam from the clamp, y across it, and z upwards. All samples have the same ten-node tetrahedra.

Notation: p parameters, P points, e elements, q quadrature points of an element, lambda and mu Lame's constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from scipy.sparse.linalg import splu
from sklearn.utils import Bunch

from skop._jobs import workers_for
from skop._typing import FloatArray, IntArray
from skop.datasets._finite_elements import (
    assemble_stiffness,
    displacement_dofs,
    gradient_operator,
    import_fem,
    mean_at_points,
)
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

Geometry = Literal["fixed", "varied"]

#: Lowest and highest value of each parameter, in SI units and degrees.
RANGES = {
    "length": (0.4, 0.8),
    "width": (0.06, 0.12),
    "height": (0.06, 0.12),
    "taper": (0.4, 1.0),
    "load": (500.0, 2000.0),
    "position": (0.4, 1.0),
    "angle": (-60.0, 60.0),
}
GEOMETRY_NAMES = ("length", "width", "height", "taper")
#: Half-width of the load, as a fraction of the length.
LOAD_HALF_WIDTH = 0.2
#: Order of the ten points of a tetrahedron after exchanging its first two corners.
_SWAPPED = np.array([1, 0, 2, 3, 4, 6, 5, 8, 7, 9])

_DESCR = """Tapered cantilever beams under a load, from skop.datasets.make_cantilever

params: one row per sample; columns in param_names. Lengths in m, load in N, angle in degrees.
coords: positions of the points at rest, m.
displacement: m. stress: von Mises stress, Pa.
scalars: peak_stress (Pa, highest value at a point) and tip_deflection (m, length of the tip's mean displacement).
cells: ten-node tetrahedra (tetra10 of meshio), the same for all samples.
"""


@dataclass(frozen=True)
class _Mesh:
    """Tetrahedra of the box [0, 1] x [-1/2, 1/2] x [-1/2, 1/2], which is mapped to each beam."""

    mesh: Any
    top: IntArray
    points: FloatArray
    cells: IntArray


def make_cantilever(
    n_samples: int = 100,
    *,
    geometry: Geometry = "varied",
    ranges: Mapping[str, tuple[float, float]] | None = None,
    params: npt.ArrayLike | None = None,
    n_cells: tuple[int, int, int] = (20, 2, 2),
    young_modulus: float = 70e9,
    poisson_ratio: float = 0.33,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
) -> Bunch:
    """Generate cantilever beams: parameters as inputs; displacement, stress and two scalars as targets.

    A beam of rectangular section is clamped at x = 0. Its height falls linearly to ``taper * height`` at the tip. A
    load is distributed over a part of its top face, around ``position * length`` from the clamp. It points downwards,
    rotated sideways by `angle`. The equations of linear elasticity are solved on ten-node tetrahedra, which are the
    same for every sample. Needs the package scikit-fem.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Not used if `params` are given.
    geometry : {"varied", "fixed"}, default="varied"
        Geometry of the beams. ``"varied"``: all seven parameters vary, so that every sample has its own coordinates.
        ``"fixed"``: only load, position and angle vary; the four dimensions of the beam are the middles of their
        ranges, and all samples share their coordinates.
    ranges : mapping of str to (low, high), default=None
        Ranges that replace the default ones, by parameter: ``length`` (0.4, 0.8), ``width`` (0.06, 0.12) and
        ``height`` (0.06, 0.12) in m; ``taper`` (0.4, 1.0), height of the tip over that of the clamp; ``load``
        (500, 2000) in N; ``position`` (0.4, 1.0), middle of the load over the length; ``angle`` (-60, 60), in degrees.
    params : array-like of shape (n, p), default=None
        Parameters of a design of experiments, one row per sample, with columns in the order above; with
        ``geometry="fixed"`` only load, position and angle. None draws them uniformly from the ranges.
    n_cells : tuple of three ints, default=(20, 2, 2)
        Number of boxes along, across and up the beam, at least 1 each. Each is divided into six tetrahedra, so that
        ``P = (2 n_x + 1) (2 n_y + 1) (2 n_z + 1)``; 1,025 by default.
    young_modulus : float, default=70e9
        Young's modulus, above 0, Pa. The default is aluminium's.
    poisson_ratio : float, default=0.33
        Poisson's ratio, at least 0 and below 0.5.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The parameters of sample i depend on the seed, i, `geometry` and the ranges only.
    n_jobs : int, default=None
        Number of threads of joblib, -1 for all processors. The result does not depend on it.
    verbose : int, default=0
        Progress reports of joblib; 0 prints nothing.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. The solver works in float64.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys

        params : ndarray of shape (n, p)
            Parameters, one row per sample.
        param_names : list of str
            Names of their columns.
        coords : ndarray of shape (n, P, 3), or (P, 3) with ``geometry="fixed"``
            Positions of the points at rest, m.
        displacement : ndarray of shape (n, P, 3)
            Displacement of the points, m.
        stress : ndarray of shape (n, P, 1)
            Von Mises stress at the points, Pa: the mean over the cells around them, weighted by volume.
        scalars : ndarray of shape (n, 2)
            Highest stress at a point, Pa, and length of the tip's mean displacement, m.
        scalar_names : list of str
            ``["peak_stress", "tip_deflection"]``.
        cells : ndarray of shape (n_tetrahedra, 10)
            Points of the tetrahedra: four corners and the middles of the edges 01, 12, 02, 03, 13, 23, as ``tetra10``
            of meshio.
        DESCR : str
            Description of the data.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If `params` are not finite, have the wrong number of columns, or are not possible for a beam, or if a solution
        exceeds the range of `dtype`.
    OptionalDependencyError
        If scikit-fem is not installed.

    See Also
    --------
    make_elasticity : A hyperelastic sheet with a void.

    Notes
    -----
    Displacement and stress are proportional to the load. The stress is singular along the edges of the clamp, so its
    peak grows slowly as the mesh is refined.

    Examples
    --------
    >>> from skop.datasets import make_cantilever
    >>> data = make_cantilever(n_samples=2, n_cells=(8, 1, 1), random_state=0)
    >>> data.params.shape, data.coords.shape, data.displacement.shape, data.stress.shape, data.cells.shape
    ((2, 7), (2, 153, 3), (2, 153, 3), (2, 153, 1), (48, 10))
    >>> data.scalar_names
    ['peak_stress', 'tip_deflection']
    """
    _check_choice("geometry", geometry, ("varied", "fixed"))
    limits = _check_ranges(ranges, RANGES, GEOMETRY_NAMES)
    low, high = limits["position"]
    if low < 0 or high > 1:
        raise ValueError(f"ranges['position'] must lie within 0 and 1, got {limits['position']!r}.")
    _check_solid(n_cells, young_modulus, poisson_ratio)
    _check_dtype(dtype)
    names = [name for name in RANGES if geometry == "varied" or name not in GEOMETRY_NAMES]
    if params is None:
        _check_integer("n_samples", n_samples, 1)
        rows = _draw(limits, names, n_samples, random_state)
    else:
        rows = _check_params(params, names)
    middles = {name: sum(limits[name]) / 2 for name in GEOMETRY_NAMES}
    mesh = _box(n_cells)
    beams = [middles | dict(zip(names, row.tolist(), strict=True)) for row in rows]
    tasks = (delayed(_solve_beam)(mesh, beam, young_modulus, poisson_ratio) for beam in beams)
    solved = Parallel(n_jobs=workers_for(n_jobs, len(beams)), prefer="threads", verbose=verbose)(tasks)
    coords, displacement, stress = (np.stack(arrays) for arrays in zip(*solved, strict=True))
    tip = displacement[:, mesh.points[:, 0] == 1].mean(axis=1)
    scalars = np.stack([stress.max(axis=(1, 2)), np.linalg.norm(tip, axis=1)], axis=1)
    return Bunch(
        params=rows.astype(dtype),
        param_names=names,
        coords=(coords[0] if geometry == "fixed" else coords).astype(dtype),
        displacement=_cast(displacement, dtype),
        stress=_cast(stress, dtype),
        scalars=_cast(scalars, dtype),
        scalar_names=["peak_stress", "tip_deflection"],
        cells=mesh.cells,
        DESCR=_DESCR,
    )


def _cast(values: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
    """Cast results; raise FieldDataError at the first sample that is not finite."""
    with np.errstate(over="ignore"):
        cast = values.astype(dtype)
    lost = ~np.isfinite(cast).all(axis=tuple(range(1, values.ndim)))
    if lost.any():
        raise FieldDataError(
            f"Sample {np.argmax(lost)}: the solution is beyond the range of {cast.dtype.name}. Bring the parameters "
            "and young_modulus closer to 1."
        )
    return cast


def _check_ranges(
    ranges: Mapping[str, tuple[float, float]] | None,
    defaults: Mapping[str, tuple[float, float]],
    positive: tuple[str, ...],
) -> dict[str, tuple[float, float]]:
    """Fill the ranges in with the default ones; raise ValueError at the first that is wrong."""
    unknown = sorted(set(ranges or {}) - set(defaults))
    if unknown:
        raise ValueError(f"ranges must be of {', '.join(defaults)}, got {', '.join(map(repr, unknown))}.")
    limits = {**defaults, **(ranges or {})}
    for name, limit in limits.items():
        if len(limit) != 2:
            raise ValueError(f"ranges[{name!r}] must be a lowest and a highest value, got {limit!r}.")
        for value in limit:
            _check_real(f"ranges[{name!r}]", value, above=0 if name in positive else -np.inf)
        if limit[0] > limit[1]:
            raise ValueError(f"ranges[{name!r}] must not decrease, got {limit!r}.")
    return limits


def _check_solid(n_cells: tuple[int, int, int], young_modulus: float, poisson_ratio: float) -> None:
    """Raise ValueError if the mesh or the material is out of range."""
    if len(n_cells) != 3:
        raise ValueError(f"n_cells must be three integers, got {n_cells!r}.")
    for number in n_cells:
        _check_integer("n_cells", number, 1)
    _check_real("young_modulus", young_modulus, above=0)
    _check_real("poisson_ratio", poisson_ratio)
    if not 0 <= poisson_ratio < 0.5:
        raise ValueError(f"poisson_ratio must be at least 0 and below 0.5, got {poisson_ratio!r}.")


def _check_params(params: npt.ArrayLike, names: list[str]) -> FloatArray:
    """Return parameters of the caller as floats, (n, p); raise FieldDataError if they are not fit."""
    rows = _check_rows(params, len(names), f" for {', '.join(names)}")
    for name, column in zip(names, rows.T, strict=True):
        if name in GEOMETRY_NAMES and not (column > 0).all():
            raise FieldDataError(f"params: {name} must be above 0, got {column.min():g}.")
        if name == "position" and not ((column >= 0) & (column <= 1)).all():
            raise FieldDataError(f"params: position must lie within 0 and 1, got {column.min():g} to {column.max():g}.")
    return rows


def _draw(
    limits: dict[str, tuple[float, float]], names: list[str], n_samples: int, random_state: RandomState
) -> FloatArray:
    """Draw parameters from their ranges, (n, p)."""
    low, high = np.array([limits[name] for name in names], dtype=np.float64).T
    seeds = _seed_sequence(random_state).spawn(n_samples)
    return low + (high - low) * np.stack([np.random.default_rng(seed).random(len(names)) for seed in seeds])


def _box(n_cells: tuple[int, int, int]) -> _Mesh:
    """Cut the box into tetrahedra."""
    skfem = import_fem()
    along, across, up = n_cells
    axes = [np.linspace(0, 1, along + 1), *(np.linspace(-0.5, 0.5, count + 1) for count in (across, up))]
    mesh = skfem.MeshTet.init_tensor(*axes)
    basis = skfem.Basis(mesh, skfem.ElementTetP2(), intorder=1)
    volumes = basis.mapping.detDF(basis.X)[:, 0]
    cells = basis.element_dofs.T
    cells = np.where(volumes[:, np.newaxis] > 0, cells, cells[:, _SWAPPED])
    top = mesh.facets_satisfying(lambda x: x[2] == 0.5, boundaries_only=True)
    return _Mesh(mesh, top, basis.doflocs.T, cells)


def _bend(points: FloatArray, beam: dict[str, float]) -> FloatArray:
    """Carry points (P, 3) of the box to the beam."""
    height = beam["height"] * (1 - (1 - beam["taper"]) * points[:, 0])
    return np.stack([beam["length"] * points[:, 0], beam["width"] * points[:, 1], height * points[:, 2]], axis=-1)


def _solve_beam(
    box: _Mesh, beam: dict[str, float], young_modulus: float, poisson_ratio: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Positions (P, 3), displacement (P, 3) and von Mises stress (P, 1) of one beam."""
    skfem = import_fem()
    mesh = replace(box.mesh, doflocs=np.ascontiguousarray(_bend(box.mesh.p.T, beam).T))
    elasticity = _elasticity_matrix(young_modulus, poisson_ratio)
    basis = skfem.Basis(mesh, skfem.ElementTetP2(), intorder=2)
    is_fixed = np.repeat(box.points[:, 0] == 0, 3)
    displacement = _solve(basis, elasticity, is_fixed, _nodal_load(mesh, box.top, beam))
    stress = _nodal_stress(mesh, elasticity, displacement)
    return basis.doflocs.T, displacement.reshape(-1, 3), _von_mises(stress)[:, np.newaxis]


def _elasticity_matrix(young_modulus: float, poisson_ratio: float) -> FloatArray:
    """Matrix from the displacement gradient to the stress, both row by row, (9, 9)."""
    first = young_modulus * poisson_ratio / ((1 + poisson_ratio) * (1 - 2 * poisson_ratio))
    second = young_modulus / (2 * (1 + poisson_ratio))
    identity = np.eye(3)
    volume = np.einsum("ij,kl->ijkl", identity, identity)
    same, turned = np.einsum("ik,jl->ijkl", identity, identity), np.einsum("il,jk->ijkl", identity, identity)
    return (first * volume + second * (same + turned)).reshape(9, 9)


def _nodal_load(mesh: Any, top: IntArray, beam: dict[str, float]) -> FloatArray:
    """Nodal forces, (3 P,), that add up to the load."""
    skfem = import_fem()
    basis = skfem.FacetBasis(mesh, skfem.ElementTetP2(), facets=top, intorder=4)

    def pressure(v: Any, w: Any) -> Any:
        distance = (w.x[0] / beam["length"] - beam["position"]) / LOAD_HALF_WIDTH
        return np.maximum(0, 1 - distance**2) * v

    shares = skfem.LinearForm(pressure).assemble(basis)
    angle = np.deg2rad(beam["angle"])
    direction = [0, np.sin(angle), -np.cos(angle)]
    return np.outer(beam["load"] * shares / shares.sum(), direction).ravel()


def _solve(basis: Any, elasticity: FloatArray, is_fixed: npt.NDArray[np.bool_], load: FloatArray) -> FloatArray:
    """Displacement, (3 P,), that is 0 where fixed and balances the nodal forces elsewhere."""
    weights = basis.dx[:, :, np.newaxis, np.newaxis]
    stiffness = assemble_stiffness(gradient_operator(basis), weights * elasticity, displacement_dofs(basis))
    free = np.flatnonzero(~is_fixed)
    factors = splu(stiffness[free][:, free], permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    displacement = np.zeros(len(load))
    displacement[free] = factors.solve(load[free])
    return displacement


def _nodal_stress(mesh: Any, elasticity: FloatArray, displacement: FloatArray) -> FloatArray:
    """Stress at the points, (P, 3, 3): the mean over the cells around each, weighted by volume."""
    skfem = import_fem()
    element = skfem.ElementTetP2()
    at_nodes = (np.ascontiguousarray(element.doflocs.T), np.full(10, 1 / 60))
    basis = skfem.Basis(mesh, element, quadrature=at_nodes)
    local = displacement[displacement_dofs(basis)][:, np.newaxis, :, np.newaxis]
    gradient = (gradient_operator(basis) @ local)[..., 0]
    means = mean_at_points(gradient @ elasticity, basis.element_dofs.T, basis.dx.sum(axis=1))
    return means.reshape(-1, 3, 3)


def _von_mises(stress: FloatArray) -> FloatArray:
    """Von Mises stress of (..., 3, 3)."""
    pressure = np.trace(stress, axis1=-2, axis2=-1)[..., np.newaxis, np.newaxis] / 3
    return np.sqrt(1.5 * ((stress - pressure * np.eye(3)) ** 2).sum(axis=(-2, -1)))
