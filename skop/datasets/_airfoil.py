"""Data set of transonic flow about airfoils, generated as the airfoil data of Li et al. (2023).

Notation: theta displacements of the eight corners of the design box, h cells along one side of the airfoil, I + 1 and
J + 1 nodes along and away from it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from sklearn.utils import Bunch

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._euler import Euler, dual_grid
from skop.datasets._sampling import (
    RandomState,
    _check_dtype,
    _check_integer,
    _check_least,
    _check_real,
    _check_rows,
    _seed_sequence,
    make_samples,
)
from skop.datasets._structured import AIRFOIL_VARIABLES, check_variables
from skop.exceptions import FieldDataError

#: Thickness of the airfoil and coefficients of NACA's four-digit series; the last closes the trailing edge.
_THICKNESS, _SHAPE = 0.12, (0.2969, -0.126, -0.3516, 0.2843, -0.1036)
#: Residual at which the flow on every other point is good enough to start from: its own error is larger.
_START_RESIDUAL = 1e-2
#: Length and height of the design box.
_BOX = (1.5, 0.2)
#: Cells near the body grow by this ratio, over this part of the nodes; the rest grow at the ratio that fills the mesh.
_NEAR_RATIO, _NEAR_PART = 1.02, 0.75

_DESCR = """Transonic flow about airfoils, from skop.datasets.make_airfoil

coords: positions of the points of a C-grid; the first axis runs from the end of the wake over the upper side to the
nose and back over the lower side, the second from the airfoil outwards.
fields: density, velocity along x and y, pressure and Mach number; density and pressure far away are 1.
params: displacements of the corners of the design box, first along its lower side, then back along its upper side.
"""


@dataclass(frozen=True)
class _Recipe:
    """Everything that defines the flow of one sample, but the displacements."""

    n_cells: tuple[int, int, int]
    mach: float
    angle: float
    heat_capacity_ratio: float
    far_radius: float


def make_airfoil(
    n_samples: int = 100,
    *,
    n_cells: tuple[int, int, int] = (50, 120, 50),
    variables: Sequence[str] = ("mach",),
    mach: float = 0.8,
    angle: float = 0.0,
    heat_capacity_ratio: float = 1.4,
    amplitude: float = 0.05,
    params: npt.ArrayLike | None = None,
    far_radius: float = 40.0,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_X_y: bool = True,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Generate meshes about deformed NACA-0012 airfoils, and the steady transonic flow at their points.

    The airfoil is in a box with four corners along its lower and four along its upper side. Seven of them are
    displaced up or down at random and take the airfoil with them. The compressible Euler equations are solved on a
    mesh about it; the shape is known to a model only through the positions of the points. The mesh and the default
    numbers are those of the published data [1]_.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Not used if `params` are given. Published: 1,000 for training and 200 for
        testing.
    n_cells : tuple of three ints, default=(50, 120, 50)
        Number of cells along the wake, an even number of at least 16; around the airfoil, a multiple of 4 of at
        least 40; and outwards, an even number of at least 16. The mesh has ``I + 1 = 2 n_cells[0] + n_cells[1] + 1`` by
        ``J + 1 = n_cells[2] + 1`` points; 221 x 51 by default.
    variables : sequence of str, default=("mach",)
        Channels of y, of ``"density"``, ``"velocity_x"``, ``"velocity_y"``, ``"pressure"`` and ``"mach"``. The papers
        predict the Mach number.
    mach : float, default=0.8
        Mach number far away, above 0 and below 1. Below about 0.2 the solver loses accuracy.
    angle : float, default=0.0
        Angle of attack, degrees.
    heat_capacity_ratio : float, default=1.4
        Ratio of the heat capacities of the gas, above 1.
    amplitude : float, default=0.05
        Largest displacement of a corner of the box, in chords, at least 0. The draws are uniform. The airfoil is 0.12
        thick.
    params : array-like of shape (n, 8), default=None
        Displacements of your own, one row per sample: along the lower side of the box from nose to tail, then along
        its upper side from tail to nose. None draws all but the first, which is 0.
    far_radius : float, default=40.0
        Distance of the outer border from the trailing edge, and x of the end of the wake, in chords, above 1.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The displacements of sample i depend on the seed, i and `amplitude` only.
    n_jobs, verbose, dtype : as in `make_elasticity`
        Number of threads, progress reports and data type of the result, with the same defaults.
    return_X_y : bool, default=True
        Whether to return ``(X, y)``; False returns a Bunch with the displacements and all variables.

    Returns
    -------
    (X, y) : tuple if ``return_X_y=True``
        X is a FieldSet of n samples on a curvilinear grid of (I + 1) x (J + 1), that holds the positions alone, and y
        an ndarray of shape (n, I + 1, J + 1, len(variables)): the same as those of ``load_airfoil``.
    data : :class:`~sklearn.utils.Bunch` if ``return_X_y=False``
        With the keys

        coords : ndarray of shape (n, I + 1, J + 1, 2)
            Positions of the points. The chord, undisplaced, is from (0, 0) to (1, 0). The first axis starts at the end
            of the wake, runs along it to the trailing edge, over the upper side to the nose, and back; points of the
            wake appear twice. The second axis runs from the airfoil (and the wake) outwards.
        fields : ndarray of shape (n, I + 1, J + 1, 5)
            Density, velocity along x and y, pressure, and Mach number. Density and pressure far away are 1.
        variables : list of str
            Their names.
        params : ndarray of shape (n, 8)
            Displacements of the corners of the box.
        DESCR : str
            Description of the data.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If `params` are not finite or have the wrong shape, if a mesh folds, or if no steady flow is found; the message
        names the sample.

    See Also
    --------
    load_airfoil : Read the published files.
    make_joukowski : Flow without compression past an airfoil, exact.

    Notes
    -----
    A vertex-centred finite-volume method of second order: Roe's flux with van Albada's limiter on differences along the
    lines of the mesh, pressure alone at the wall, and waves that leave freely at the outer border. Implicit steps turn
    into Newton's method, until the norm of the residual is below 1e-9. It starts from the flow on every other point,
    where one is found. The published solver limits differences by minmod's function and stops at 1e-6 or 5e-7 (the
    sources differ), so that its shocks are a little wider; how its samples that did not converge were left out is not
    stated.

    The published mesh is coarse at the nose and has jumps in its spacing. Errors of the flow about the stagnation point
    stay in the layer at the wall: the total enthalpy is wrong by up to 2 % there, and the entropy by more. For the
    undisplaced airfoil, the largest Mach number at the wall is 1.17, where the pressure stands for 1.25. A sample of
    the default size takes 20 to 30 s on one core, and 0.7 GB of memory for each of `n_jobs`.

    References
    ----------
    .. [1] Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
       Geometries", JMLR 24, 2023, arXiv:2207.05209.

    Examples
    --------
    >>> from skop.datasets import make_airfoil
    >>> X, y = make_airfoil(1, n_cells=(16, 40, 16), mach=0.5, random_state=0)
    >>> X.grid_shape, X.coords.shape, y.shape
    ((73, 17), (1, 1241, 2), (1, 73, 17, 1))
    >>> data = make_airfoil(params=[[0.0] * 8], n_cells=(16, 40, 16), mach=0.5, return_X_y=False)
    >>> data.coords.shape, data.fields.shape, data.variables[-1]
    ((1, 73, 17, 2), (1, 73, 17, 5), 'mach')
    """
    recipe = _Recipe(n_cells, mach, angle, heat_capacity_ratio, far_radius)
    _check_recipe(recipe)
    channels = check_variables(AIRFOIL_VARIABLES, variables)
    _check_dtype(dtype)
    rows = _draw(n_samples, amplitude, random_state) if params is None else _check_rows(params, 8)
    samples = make_samples(partial(_make_sample, recipe, dtype=dtype), list(rows), n_jobs, verbose)
    coords, fields = (np.stack(arrays) for arrays in zip(*samples, strict=True))
    if return_X_y:
        return FieldSet(coords), fields[..., channels]
    variables = list(AIRFOIL_VARIABLES)
    return Bunch(coords=coords, fields=fields, variables=variables, params=rows.astype(dtype), DESCR=_DESCR)


def _check_recipe(recipe: _Recipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    if not isinstance(recipe.n_cells, Sequence) or len(recipe.n_cells) != 3:
        raise ValueError(f"n_cells must be three integers, got {recipe.n_cells!r}.")
    for number, least, factor in zip(recipe.n_cells, (16, 40, 16), (2, 4, 2), strict=True):
        _check_integer("n_cells", number, least)
        if number % factor:
            raise ValueError(f"n_cells must be multiples of 2, 4 and 2, got {recipe.n_cells}.")
    _check_real("mach", recipe.mach, above=0)
    if recipe.mach >= 1:
        raise ValueError(f"mach must be below 1, got {recipe.mach!r}.")
    _check_real("angle", recipe.angle)
    _check_real("heat_capacity_ratio", recipe.heat_capacity_ratio, above=1)
    _check_real("far_radius", recipe.far_radius, above=1)
    wake, around, outwards = recipe.n_cells
    # The first cells are at most 4 / around long, and those that follow no shorter.
    if max(wake, outwards) * 4 >= around * (recipe.far_radius - 1):
        raise ValueError(
            f"n_cells must leave room for cells that grow outwards, got {recipe.n_cells} within "
            f"far_radius={recipe.far_radius:g}. Take more cells around the airfoil, or a larger far_radius."
        )


def _draw(n_samples: int, amplitude: float, random_state: RandomState) -> FloatArray:
    """Draw displacements, (n, 8), of which the first is 0."""
    _check_integer("n_samples", n_samples, 1)
    _check_least("amplitude", amplitude)
    seeds = _seed_sequence(random_state).spawn(n_samples)
    drawn = np.stack([np.random.default_rng(seed).uniform(-1, 1, 7) for seed in seeds])
    return amplitude * np.pad(drawn, ((0, 0), (1, 0)))


def _make_sample(recipe: _Recipe, displacements: FloatArray, dtype: npt.DTypeLike) -> tuple[FloatArray, FloatArray]:
    """Points (I + 1, J + 1, 2) and variables (I + 1, J + 1, 5) of one sample."""
    wake, around, outwards = recipe.n_cells
    surface = _naca(np.concatenate([[0, 0.25], np.arange(1, around // 2)]) / (around // 2 - 1))
    # The undisplaced airfoil sets the spacing in the wake, so that all samples have the same.
    first = float(np.hypot(*(surface[1] - surface[0])))
    points = c_grid(_displace(surface, displacements), (wake, outwards), (first, 2 / around), recipe.far_radius)
    state = steady_flow(points, wake, recipe.mach, recipe.angle, recipe.heat_capacity_ratio)
    density, u, v, pressure = state
    number = np.hypot(u, v) / np.sqrt(recipe.heat_capacity_ratio * pressure / density)
    return points.astype(dtype), np.stack([*state, number], axis=-1).astype(dtype)


def _naca(x: FloatArray) -> FloatArray:
    """Points of the airfoil from the trailing edge over the upper side to the nose and back, (2 h + 1, 2).

    x are the increasing positions of the h + 1 points of one side, from 0 to 1.
    """
    powers = np.stack([np.sqrt(x), x, x**2, x**3, x**4])
    y = 5 * _THICKNESS * np.asarray(_SHAPE) @ powers
    # Exact, so that both sides end in the same point.
    y[-1] = 0.0
    return np.concatenate([np.stack([x, y], axis=-1)[::-1], np.stack([x, -y], axis=-1)[1:]])


def _displace(points: FloatArray, displacements: FloatArray) -> FloatArray:
    """Displace points (P, 2) along y with the box about them: cubic along x and linear along y."""
    length, height = _BOX
    nodes = 0.5 + length * np.array([-1 / 2, -1 / 6, 1 / 6, 1 / 2])
    others = [np.delete(nodes, index) for index in range(4)]
    shapes = np.stack(
        [np.prod((points[:, :1] - rest) / (node - rest), axis=1) for node, rest in zip(nodes, others, strict=True)]
    )
    upper = 0.5 + points[:, 1] / height
    rise = (1 - upper) * (displacements[:4] @ shapes) + upper * (displacements[:3:-1] @ shapes)
    return points + np.stack([np.zeros_like(rise), rise], axis=-1)


def c_grid(surface: FloatArray, n_cells: tuple[int, int], first: tuple[float, float], far_radius: float) -> FloatArray:
    """C-grid (I + 1, J + 1, 2) about a surface that starts and ends in its trailing edge, as the published one.

    `n_cells` and the lengths of the `first` cells are along the wake and outwards. Grid lines lead straight from the
    surface and the wake to a half circle about (1, 0), and to lines that go on from its ends.
    """
    wake, outwards = n_cells
    along = _spacing(wake, first[0] / (far_radius - 1))[:0:-1, np.newaxis]
    upper_wake = surface[0] * (1 - along) + np.array([far_radius, 0]) * along
    inner = np.concatenate([upper_wake, surface, upper_wake[::-1]])
    angles = np.linspace(np.pi / 2, 3 * np.pi / 2, len(surface))
    circle = np.stack([1 + far_radius * np.cos(angles), far_radius * np.sin(angles)], axis=-1)
    upper_line = np.stack([np.linspace(1, far_radius, wake + 1)[:0:-1], np.full(wake, far_radius)], axis=-1)
    outer = np.concatenate([upper_line, circle, upper_line[::-1] * [1, -1]])
    part = _spacing(outwards, first[1] / far_radius)[:, np.newaxis]
    return inner[:, np.newaxis] * (1 - part) + outer[:, np.newaxis] * part


def _spacing(n_cells: int, first: float) -> FloatArray:
    """Positions of the ends of growing cells from 0 to 1, (n_cells + 1,), with the length of the first one."""
    ratio = _growth(n_cells, first, 1.0)
    if ratio <= _NEAR_RATIO:
        lengths = first * ratio ** np.arange(n_cells)
    else:
        n_near = int(_NEAR_PART * (n_cells + 1)) - 1
        near = first * _NEAR_RATIO ** np.arange(n_near)
        start = near[-1] * _NEAR_RATIO
        n_rest = n_cells - n_near
        rest = start * _growth(n_rest, start, 1 - near.sum()) ** np.arange(n_rest)
        lengths = np.concatenate([near, rest])
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    ends[-1] = 1.0
    return ends


def _growth(n_cells: int, first: float, total: float) -> float:
    """Ratio at which cells grow from the first one's length on to fill a total length."""
    return float(brentq(lambda ratio: first * (ratio ** np.arange(n_cells)).sum() - total, 1.0, total / first))


def steady_flow(
    points: FloatArray, n_wake: int, mach: float, angle: float = 0.0, heat_capacity_ratio: float = 1.4
) -> FloatArray:
    """Density, velocity and pressure of the flow at the points of a C-grid, (4, I + 1, J + 1)."""
    speed, turn = mach * np.sqrt(heat_capacity_ratio), np.deg2rad(angle)
    stream = np.array([1.0, speed * np.cos(turn), speed * np.sin(turn), 1.0])
    coarse, fine = dual_grid(points[::2, ::2], n_wake // 2), dual_grid(points, n_wake)
    guess = None
    # Few cells may have no steady flow.
    with suppress(FieldDataError):
        start = Euler(coarse, stream, heat_capacity_ratio).solve(residual=_START_RESIDUAL)[:, coarse.number]
        for axis in (1, 2):
            start = _refine(start, axis)
        guess = np.empty((4, int(fine.number.max()) + 1))
        guess[:, fine.number] = start
    return Euler(fine, stream, heat_capacity_ratio).solve(guess)[:, fine.number]


def _refine(values: FloatArray, axis: int) -> FloatArray:
    """Put the mean of neighbours between them along an axis."""
    values = np.moveaxis(values, axis, 0)
    fine = np.empty((2 * len(values) - 1, *values.shape[1:]))
    fine[::2], fine[1::2] = values, (values[1:] + values[:-1]) / 2
    return np.moveaxis(fine, 0, axis)
