"""Data set of the stress around a void in a sheet of rubber, generated as the elasticity data of Li et al. (2023).

Notation: r void radius, theta angle about the middle of the cell, g Gaussian random function of theta, k wave number,
P points of a sample.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet
from skop.datasets._finite_elements import import_fem
from skop.datasets._hyperelastic import Sheet, edge_load, von_mises
from skop.datasets._sampling import (
    RandomState,
    _check_dtype,
    _check_integer,
    _check_least,
    _check_pair,
    _check_real,
    _seed_sequence,
    make_samples,
)

#: Largest relative deviation of the numbers of points with `vary_points`.
POINT_VARIATION = 0.25

_DESCR = """Stress around a void in a clamped and stretched sheet, from skop.datasets.make_elasticity

coords: positions of the points of the unit cell at rest.
stress: von Mises stress of the true (Cauchy) stress, Pa.
displacement: in units of the cell's side.
radii: void radius at equally spaced angles from 0 on, about the middle (0.5, 0.5).
coefficients: standard normal numbers that shape the void: constant, cos, sin, cos 2, sin 2 and so on.
cells: quadrilaterals between the points.
"""


@dataclass(frozen=True)
class _Recipe:
    """Everything that defines the distribution of one sample."""

    n_points: tuple[int, int]
    radius_range: tuple[float, float]
    amplitude: float
    decay: float
    n_modes: int
    moduli: tuple[float, float]
    traction: tuple[float, float]
    vary_points: bool
    shuffle_points: bool


def make_elasticity(
    n_samples: int = 100,
    *,
    n_points: tuple[int, int] = (80, 13),
    radius_range: tuple[float, float] = (0.2, 0.4),
    amplitude: float = 4.0,
    decay: float = 3.0,
    n_modes: int = 5,
    moduli: tuple[float, float] = (1.863e5, 9.79e3),
    traction: tuple[float, float] = (0.0, 100.0),
    vary_points: bool = False,
    shuffle_points: bool = False,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_X_y: bool = True,
) -> Bunch | tuple[FieldSet, Any]:
    """Generate meshes of a stretched square with a void, and the stress at their points.

    A unit square of thin, incompressible Rivlin-Saunders rubber is clamped at its bottom and pulled at its top. In its
    middle is a void of radius ``r(theta) = low + (high - low) / (1 + exp(g(theta)))``, where g is a Gaussian random
    function on the circle with zero mean and covariance ``amplitude**2 (-d^2 / dtheta^2 + decay**2)**(-1)``. The void
    is known to a model only through the positions of the points. The default numbers are those of the published data
    [1]_. Needs the package scikit-fem.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Published: 1,000 for training and 200 for testing.
    n_points : tuple of two ints, default=(80, 13)
        Number of points around the void, a multiple of 8, and from the void to the border, an odd number of at least 3.
        Their product is P. Published: 972 points.
    radius_range : tuple of two floats, default=(0.2, 0.4)
        Lowest and highest radius of the void, above 0 and below 0.5. If they are the same, the void is round.
    amplitude : float, default=4.0
        Scale of g, above 0.
    decay : float, default=3.0
        Wave number above which the amplitudes of g decrease, above 0.
    n_modes : int, default=5
        Highest wave number k in g, at least 0; g has ``2 n_modes + 1`` coefficients. Published: 10 coefficients.
    moduli : tuple of two floats, default=(1.863e5, 9.79e3)
        Moduli C1, above 0, and C2, at least 0, of the energy ``C1 (I1 - 3) + C2 (I2 - 3)``, Pa.
    traction : tuple of two floats, default=(0.0, 100.0)
        Force per area at rest on the top, along x and y, Pa. The published 100 Pa stretches the sheet by some 0.01 %,
        so that the stress is nearly proportional to it; at 1e5 Pa the sheet is more than a quarter longer.
    vary_points : bool, default=False
        Whether the two numbers of points vary between samples, by up to a quarter of `n_points`. Arrays are lists then.
    shuffle_points : bool, default=False
        Whether the points of each sample are in random order. Otherwise they are ordered outwards along one ray after
        the other.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The void of sample i depends on the seed, i and the four parameters of r only.
    n_jobs : int, default=None
        Number of threads of joblib, -1 for all processors. The result does not depend on it.
    verbose : int, default=0
        Progress reports of joblib; 0 prints nothing.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. The solver works in float64.
    return_X_y : bool, default=True
        Whether to return ``(X, y)``; False returns a Bunch with the void, the mesh and the displacement too.

    Returns
    -------
    (X, y) : tuple if ``return_X_y=True``
        X is a FieldSet of n_samples that holds the positions alone, with the quadrilaterals where all samples share
        them, and y the stress as below.
    data : :class:`~sklearn.utils.Bunch` if ``return_X_y=False``
        With the keys

        coords : ndarray of shape (n_samples, P, 2), or list of n_samples ndarrays (P_i, 2) with ``vary_points=True``
            Positions of the points at rest, in the unit square.
        stress : ndarray of shape (n_samples, P, 1), or list of ndarrays (P_i, 1)
            Von Mises stress, Pa.
        displacement : ndarray of shape (n_samples, P, 2), or list
            Displacement of the points.
        cells : ndarray of shape (n_cells, 4), (n_samples, n_cells, 4) with ``shuffle_points=True``, or list
            Corners of the quadrilaterals between the points, counter-clockwise.
        radii : ndarray of shape (n_samples, n_points[0])
            Void radius at the angles ``2 pi k / n_points[0]``.
        coefficients : ndarray of shape (n_samples, 2 n_modes + 1)
            Standard normal coefficients of g: the constant, cosine and sine of wave number 1, of 2 and so on.
        DESCR : str
            Description of the data.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FieldDataError
        If a mesh is too coarse for its void, or no equilibrium is found; the message names the sample.
    OptionalDependencyError
        If scikit-fem is not installed.

    See Also
    --------
    make_cantilever : Solids in three dimensions with parameters.
    load_elasticity : Read the published files.

    Notes
    -----
    The published description does not say whether the sheet is thin or held between plates; plane stress is meant
    here. Stress is computed at the 2 x 2 Gauss points of nine-node quadrilaterals, extrapolated to their nodes and
    averaged there. Its error is about proportional to the square of the spacing, except near the ends of the clamped
    side: there the stress is singular, and grows slowly as the mesh is refined.

    References
    ----------
    .. [1] Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
       Geometries", JMLR 24, 2023, arXiv:2207.05209.

    Examples
    --------
    >>> from skop.datasets import make_elasticity
    >>> X, y = make_elasticity(n_samples=2, n_points=(40, 5), random_state=0)
    >>> X.coords.shape, y.shape
    ((2, 200, 2), (2, 200, 1))
    >>> data = make_elasticity(3, n_points=(40, 7), vary_points=True, random_state=1, return_X_y=False)
    >>> [len(points) for points in data.coords], data.radii.shape
    ([336, 224, 224], (3, 40))
    """
    recipe = _Recipe(n_points, radius_range, amplitude, decay, n_modes, moduli, traction, vary_points, shuffle_points)
    _check_recipe(recipe)
    _check_integer("n_samples", n_samples, 1)
    _check_dtype(dtype)
    import_fem()
    seeds = _seed_sequence(random_state).spawn(n_samples)
    samples = make_samples(partial(_make_sample, recipe), seeds, n_jobs, verbose)
    data = _collect(samples, recipe, np.dtype(dtype))
    if not return_X_y:
        return data
    shared = isinstance(data.cells, np.ndarray) and data.cells.ndim == 2
    return FieldSet(data.coords, cells=[("quad", data.cells)] if shared else None), data.stress


def _check_recipe(recipe: _Recipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    for name in ("n_points", "radius_range", "moduli", "traction"):
        _check_pair(name, getattr(recipe, name))
    around, across = recipe.n_points
    _check_integer("n_points[0]", around, 8)
    _check_integer("n_points[1]", across, 3)
    if around % 8 or not across % 2:
        raise ValueError(f"n_points must be a multiple of 8 and an odd number, got {recipe.n_points}.")
    low, high = recipe.radius_range
    _check_real("radius_range", low, above=0)
    _check_real("radius_range", high)
    if not low <= high < 0.5:
        raise ValueError(f"radius_range must be two increasing radii below 0.5, got {recipe.radius_range}.")
    _check_real("amplitude", recipe.amplitude, above=0)
    _check_real("decay", recipe.decay, above=0)
    _check_integer("n_modes", recipe.n_modes, 0)
    _check_real("moduli[0]", recipe.moduli[0], above=0)
    _check_least("moduli[1]", recipe.moduli[1])
    for component in recipe.traction:
        _check_real("traction", component)


def _make_sample(recipe: _Recipe, seed: np.random.SeedSequence) -> dict[str, Any]:
    """Draw one void, solve for the sheet around it, and return its arrays by name."""
    void_rng, mesh_rng = (np.random.default_rng(child) for child in seed.spawn(2))
    coefficients = void_rng.standard_normal(2 * recipe.n_modes + 1)
    around, across = _vary(recipe.n_points, mesh_rng) if recipe.vary_points else recipe.n_points
    arrays = _solve_cell(coefficients, (around, across), recipe)
    cells = _quadrilaterals(around, across)
    if recipe.shuffle_points:
        order = mesh_rng.permutation(around * across)
        arrays = {name: array[order] for name, array in arrays.items()}
        cells = np.argsort(order)[cells]
    angles = 2 * np.pi * np.arange(recipe.n_points[0]) / recipe.n_points[0]
    return arrays | {"cells": cells, "radii": _void_radius(coefficients, angles, recipe), "coefficients": coefficients}


def _vary(n_points: tuple[int, int], rng: np.random.Generator) -> tuple[int, int]:
    """Draw the counts of one mesh: a multiple of 8 and an odd number."""
    around, across = (
        rng.integers(np.ceil((1 - POINT_VARIATION) * count), np.floor((1 + POINT_VARIATION) * count) + 1)
        for count in (n_points[0] / 8, (n_points[1] - 1) / 2)
    )
    return 8 * int(around), 2 * int(across) + 1


def _void_radius(coefficients: FloatArray, angles: FloatArray, recipe: _Recipe) -> FloatArray:
    """Evaluate r at some angles."""
    low, high = recipe.radius_range
    wave_numbers = np.arange(1, recipe.n_modes + 1)
    waves = wave_numbers * angles[:, np.newaxis]
    cosines = np.stack([np.cos(waves), np.sin(waves)], axis=-1) / np.sqrt(np.pi)
    scaled = cosines / np.sqrt(wave_numbers**2 + recipe.decay**2)[:, np.newaxis]
    varying = scaled.reshape(len(angles), -1) @ coefficients[1:]
    gaussian = recipe.amplitude * (coefficients[0] / (np.sqrt(2 * np.pi) * recipe.decay) + varying)
    # 1 / (1 + exp(g)), written so that it cannot overflow.
    return low + (high - low) * (1 - np.tanh(gaussian / 2)) / 2


def _solve_cell(coefficients: FloatArray, n_points: tuple[int, int], recipe: _Recipe) -> dict[str, FloatArray]:
    """Positions, displacement and stress at the points of one cell, along one ray after the other."""
    mesh, place = _ring(*n_points)
    angles = np.pi / 4 + 2 * np.pi * np.arange(n_points[0]) / n_points[0]
    coords = _cell_points(angles, _void_radius(coefficients, angles, recipe), n_points[1])
    mesh = replace(mesh, doflocs=np.ascontiguousarray(coords[place].T))
    sheet = Sheet(mesh, recipe.moduli)
    top = mesh.facets_satisfying(lambda x: x[1] > 1 - 1e-9, boundaries_only=True)
    is_fixed = np.repeat(mesh.doflocs[1] < 1e-9, 2)
    displacement = sheet.solve(is_fixed, edge_load(mesh, top, recipe.traction))
    inverse = np.argsort(place)
    return {
        "coords": coords,
        "displacement": displacement.reshape(-1, 2)[inverse],
        "stress": von_mises(sheet.nodal_stress(displacement))[inverse, np.newaxis],
    }


def _cell_points(angles: FloatArray, radii: FloatArray, n_across: int) -> FloatArray:
    """Points of the rays from the void to the border, (P, 2), ray after ray."""
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    void, border = rays * radii[:, np.newaxis], rays / (2 * np.abs(rays).max(axis=1, keepdims=True))
    part = np.linspace(0, 1, n_across)[:, np.newaxis]
    return (0.5 + (1 - part) * void[:, np.newaxis] + part * border[:, np.newaxis]).reshape(-1, 2)


def _ring(n_around: int, n_across: int) -> tuple[Any, IntArray]:
    """Ring of nine-node quadrilaterals, and the place of each of its points when they run ray after ray."""
    skfem = import_fem()
    n_rays, n_rings = n_around // 2, n_across // 2 + 1
    corners = _quadrilaterals(n_rays, n_rings)
    angles = np.pi / 4 + 2 * np.pi * np.arange(n_rays) / n_rays
    radii = 1.0 + np.arange(n_rings)
    points = np.stack([np.outer(np.cos(angles), radii).ravel(), np.outer(np.sin(angles), radii).ravel()])
    mesh = skfem.MeshQuad2.from_mesh(skfem.MeshQuad(points, np.ascontiguousarray(corners.T)))
    x, y = mesh.doflocs
    ray = np.rint((np.arctan2(y, x) - np.pi / 4) / (np.pi / n_rays)).astype(int)
    # Points between two rays lie on chords of the circles, inside them by this factor.
    radius = np.hypot(x, y) / np.where(ray % 2, np.cos(np.pi / n_rays), 1)
    return mesh, ray % n_around * n_across + np.rint(2 * (radius - 1)).astype(int)


def _quadrilaterals(n_around: int, n_across: int) -> IntArray:
    """Corners of the cells between neighbouring rays, counter-clockwise, (n_cells, 4)."""
    number = np.arange(n_around * n_across).reshape(n_around, n_across)
    after = np.roll(number, -1, axis=0)
    corners = [number[:, :-1], number[:, 1:], after[:, 1:], after[:, :-1]]
    return np.stack([corner.ravel() for corner in corners], axis=-1)


def _collect(samples: list[dict[str, Any]], recipe: _Recipe, dtype: np.dtype[Any]) -> Bunch:
    """Gather the arrays of all samples, stacked where they have one shape."""
    columns = {name: [sample[name] for sample in samples] for name in samples[0]}
    data = Bunch(DESCR=_DESCR)
    for name, arrays in columns.items():
        typed = arrays if name == "cells" else [array.astype(dtype) for array in arrays]
        is_ragged = recipe.vary_points and name not in ("radii", "coefficients")
        data[name] = typed if is_ragged else np.stack(typed)
    if not recipe.vary_points and not recipe.shuffle_points:
        data["cells"] = columns["cells"][0]
    return data
