"""Radial dam breaks: the shallow-water generator after the recipe of PDEBench (Takamoto et al., 2022).

Depth ``h`` and momenta ``h u``, ``h v`` of a thin layer of water follow

    dh/dt + div(h w) = 0,    d(h w)/dt + div(h w w) + grad(g h^2 / 2) = 0,    w = (u, v),

on the square [-L, L]^2, from a cylinder of deeper water at rest, which bursts at time 0. Axis 0 is x and axis 1 is y.

Notation: N cells a side of the solver's grid, Q = ceil(N / 2) cells a side of the quadrant that is solved, g gravity,
c = sqrt(g h) wave speed, l and r the states on the two sides of a face.
"""

from dataclasses import dataclass
from functools import partial
from math import ceil, isfinite
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skop._typing import FloatArray
from skop.datasets._sampling import (
    RandomState,
    _check_choice,
    _check_dtype,
    _check_integer,
    _check_least,
    _check_real,
    _seed_sequence,
    make_samples,
)
from skop.exceptions import FieldDataError

Coarsening = Literal["subsample", "average"]

#: Largest share of a cell that the fastest waves along x and y together may cross in a step. Along each axis a cell
#: holds the mean of its two face depths, and a face lets out at most its depth times this share: 1/2 empties no cell.
STABILITY_LIMIT = 0.5
#: Share that is aimed at, so that waves that speed up within a step rarely pass the limit.
COURANT_NUMBER = 0.45
#: Depth below which water is at rest, as a share of the largest depth at the start.
DRY_SHARE = 1e-12
#: More steps than this between two frames mean that the flow runs away.
MAX_STEPS = 1_000_000


@dataclass(frozen=True)
class _Recipe:
    """Everything that defines the distribution of one sample."""

    resolution: int
    solver_resolution: int
    times: tuple[float, ...]
    radius: tuple[float, float]
    inner_depth: float
    outer_depth: float
    gravity: float
    half_width: float
    coarsening: Coarsening


def make_shallow_water(
    n_samples: int = 100,
    *,
    resolution: int = 64,
    solver_resolution: int | None = None,
    n_input: int = 10,
    n_output: int = 91,
    frame_interval: float = 0.01,
    radius: tuple[float, float] = (0.3, 0.7),
    inner_depth: float = 2.0,
    outer_depth: float = 1.0,
    gravity: float = 1.0,
    half_width: float = 2.5,
    coarsening: Coarsening = "subsample",
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_coords: bool = False,
) -> tuple[Any, FloatArray]:
    """Generate the depth of water after a circular dam breaks, as first frames and those that follow.

    Each sample solves the shallow-water equations over a flat bottom on ``[-half_width, half_width]**2``. At time 0 the
    water is at rest, `inner_depth` deep in a circle of random radius about the origin and `outer_depth` deep
    around it. Waves leave the square freely. The default numbers are those of PDEBench [1]_, but for the resolution.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Published: 900 for training and 100 for testing.
    resolution : int, default=64
        Cells a side of the returned grid, at least 4. Published: 128.
    solver_resolution : int, default=None
        Cells a side of the grid on which the equations are solved, a multiple of `resolution`. None: `resolution`.
        The error falls about in proportion to the spacing, because of the shock. Radii that no centre of a cell
        separates give the same sample: the published range has 81 different ones on 128 x 128 cells, and 1,065 on 512 x
        512.
    n_input, n_output : int, default=10 and 91
        Frames in X, of which the first is the start, and frames that follow in y; at least 1 and 1.
    frame_interval : float, default=0.01
        Time between two frames, above 0. The default ends at time 1.
    radius : tuple of two floats, default=(0.3, 0.7)
        Smallest and largest radius of the dam, above 0 and at most `half_width`; uniform draws.
    inner_depth, outer_depth : float, default=2.0 and 1.0
        Depths in and around the dam; above 0, and at least 0 (a dry bottom).
    gravity : float, default=1.0
        Gravity g, above 0.
    half_width : float, default=2.5
        Half the side L of the square, above 0. Until time 1 no wave of the default dams reaches the border.
    coarsening : {"subsample", "average"}, default="subsample"
        How a fine solution comes to the returned grid. ``"subsample"``: every s-th cell, as users of the published
        data do. ``"average"``: the mean of s x s cells, which conserves the mass.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The radius of sample i depends on the seed, i and the range only.
    n_jobs : int, default=None
        Threads of joblib, -1 for all processors. The result is the same, bit for bit.
    verbose : int, default=0
        Progress reports of joblib; 0 prints nothing.
    dtype : dtype, default=numpy.float32
        Of what is returned, float32 or float64. The solver works in float64.
    return_coords : bool, default=False
        Return ``((coords, X), y)`` in place of ``(X, y)``.

    Returns
    -------
    X : ndarray of shape (n_samples, resolution, resolution, n_input)
        Depth at the first times, one channel a frame. With ``return_coords=True`` the tuple ``(coords, X)``, with
        coords of shape (resolution, resolution, 2), the centres of the cells.
    y : ndarray of shape (n_samples, resolution, resolution, n_output)
        Depth at the following times.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the two resolutions do not fit.
    FieldDataError
        If a frame would take more than a million time steps, or a flow is not finite; the message names the sample.

    See Also
    --------
    load_pdebench_shallow_water : Read the published file.
    make_navier_stokes : Turbulent flow.
    skop.RolloutRegressor : Learns such data one frame at a time.

    Notes
    -----
    A finite-volume method of second order: limited linear reconstruction of depth and velocity (monotonised central
    differences), fluxes of Harten, Lax and van Leer with the shear carried upwind, and strong-stability-preserving
    steps (Heun's) of a length that keeps every depth at or above 0. The flow is symmetric, so a quadrant is solved and
    mirrored. The published solver differs in its flux (Roe's, with an entropy fix).

    References
    ----------
    .. [1] Takamoto, Praditia, Leiteritz, MacKinlay, Alesiani, Pflüger, Niepert, "PDEBench: An Extensive Benchmark for
       Scientific Machine Learning", NeurIPS 2022 Datasets and Benchmarks, arXiv:2210.07182.

    Examples
    --------
    >>> from skop.datasets import make_shallow_water
    >>> X, y = make_shallow_water(2, resolution=16, n_input=3, n_output=4, frame_interval=0.1, random_state=0)
    >>> X.shape, y.shape
    ((2, 16, 16, 3), (2, 16, 16, 4))
    >>> sorted(set(X[..., 0].ravel().tolist()))
    [1.0, 2.0]
    >>> bool(abs(y.mean() - X.mean()) < 1e-6)
    True
    """
    _check_integer("n_samples", n_samples, 1)
    times = _frame_times(n_input, n_output, frame_interval)
    solver = resolution if solver_resolution is None else solver_resolution
    recipe = _Recipe(resolution, solver, times, radius, inner_depth, outer_depth, gravity, half_width, coarsening)
    _check_recipe(recipe)
    _check_dtype(dtype)
    seeds = _seed_sequence(random_state).spawn(n_samples)
    frames = np.stack(make_samples(partial(_make_sample, recipe, dtype=dtype), seeds, n_jobs, verbose))
    X, y = frames[..., :n_input], frames[..., n_input:]
    if return_coords:
        coords = _cell_coords(half_width, solver, resolution, coarsening)
        return (coords.astype(dtype), X), y
    return X, y


def _frame_times(n_input: int, n_output: int, frame_interval: float) -> tuple[float, ...]:
    """Times of the frames, from 0 on; raise ValueError at the first wrong number."""
    _check_integer("n_input", n_input, 1)
    _check_integer("n_output", n_output, 1)
    _check_real("frame_interval", frame_interval, above=0)
    return tuple(frame_interval * index for index in range(n_input + n_output))


def _check_grid(resolution: int, solver_resolution: int, coarsening: str) -> None:
    """Raise ValueError unless the cells of the returned grid are made of whole cells of the solver's."""
    _check_integer("resolution", resolution, 4)
    _check_integer("solver_resolution", solver_resolution, resolution)
    _check_choice("coarsening", coarsening, ("subsample", "average"))
    if solver_resolution % resolution:
        fitting = -(-solver_resolution // resolution) * resolution
        raise ValueError(
            f"solver_resolution must be a multiple of resolution, got {solver_resolution} for resolution "
            f"{resolution}. Take {fitting}."
        )


def _check_recipe(recipe: _Recipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    _check_grid(recipe.resolution, recipe.solver_resolution, recipe.coarsening)
    for name in ("inner_depth", "gravity", "half_width"):
        _check_real(name, getattr(recipe, name), above=0)
    _check_least("outer_depth", recipe.outer_depth)
    if len(recipe.radius) != 2:
        raise ValueError(f"radius must be a smallest and a largest value, got {recipe.radius!r}.")
    for value in recipe.radius:
        _check_real("radius", value, above=0)
    if not recipe.radius[0] <= recipe.radius[1] <= recipe.half_width:
        raise ValueError(
            f"radius must not decrease and be at most half_width={recipe.half_width:g}, got {recipe.radius!r}."
        )


def _make_sample(recipe: _Recipe, seed: np.random.SeedSequence, dtype: npt.DTypeLike) -> npt.NDArray[np.floating[Any]]:
    """Draw a dam, let it break, and return the depth on the coarse grid, (resolution, resolution, frames)."""
    low, high = recipe.radius
    radius = low + (high - low) * np.random.default_rng(seed).random()
    axis = _cell_axis(recipe.half_width, recipe.solver_resolution)[recipe.solver_resolution // 2 :]
    inside = axis[:, np.newaxis] ** 2 + axis**2 <= radius**2
    state = np.zeros((3, *inside.shape))
    state[0] = np.where(inside, recipe.inner_depth, recipe.outer_depth)
    water = _ShallowWater(
        2 * recipe.half_width / recipe.solver_resolution,
        recipe.gravity,
        mirror="cell" if recipe.solver_resolution % 2 else "face",
        dry_depth=DRY_SHARE * max(recipe.inner_depth, recipe.outer_depth),
    )
    frames = []
    for number, time in enumerate(recipe.times):
        if number:
            state = water.advance(state, time - recipe.times[number - 1])
        depth = _unfold(state[0], recipe.solver_resolution)
        frames.append(_coarsen(depth, recipe.resolution, recipe.coarsening).astype(dtype))
    return np.stack(frames, axis=-1)


def _cell_axis(half_width: float, n_cells: int) -> FloatArray:
    """Centres of the cells of [-L, L] along one axis, exactly symmetric."""
    return (2 * np.arange(n_cells) + 1 - n_cells) * (half_width / n_cells)


def _cell_coords(half_width: float, n_cells: int, resolution: int, coarsening: str) -> FloatArray:
    """Centres of the returned cells, (resolution, resolution, 2)."""
    if coarsening == "average":
        axis = _cell_axis(half_width, resolution)
    else:
        axis = _cell_axis(half_width, n_cells)[:: n_cells // resolution]
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)


def _coarsen(values: FloatArray, resolution: int, coarsening: str) -> FloatArray:
    """Bring cells (..., N, N) to the returned grid, (..., resolution, resolution)."""
    stride = values.shape[-1] // resolution
    if coarsening == "subsample" or stride == 1:
        return values[..., ::stride, ::stride]
    return values.reshape(*values.shape[:-2], resolution, stride, resolution, stride).mean(axis=(-3, -1))


def _unfold(quadrant: FloatArray, n_cells: int) -> FloatArray:
    """Mirror the quadrant x, y >= 0, (Q, Q), to the whole square, (N, N)."""
    index = np.arange(n_cells)
    # Cell i and cell N - 1 - i are mirror images.
    folded = np.maximum(index, n_cells - 1 - index) - n_cells // 2
    return quadrant[folded[:, np.newaxis], folded]


# ---------------------------------------------------------------------- solver
class _ShallowWater:
    """The shallow-water equations on square cells, with their time stepping.

    States are (3, n_x, n_y): depth and the momenta along x and y. Their sides are open, so that waves leave; with a
    `mirror`, the low sides of both axes mirror the flow, in the first cell's outer face or in its centre.
    """

    def __init__(
        self, spacing: float, gravity: float, *, mirror: Literal["face", "cell"] | None = None, dry_depth: float = 0.0
    ) -> None:
        self.spacing, self.gravity, self.mirror, self.dry_depth = spacing, gravity, mirror, dry_depth

    @np.errstate(over="ignore", invalid="ignore")
    def advance(self, state: FloatArray, interval: float) -> FloatArray:
        """Advance the flow by a time, in steps of Heun's method, a mean of the state and two Euler steps on.

        Each Euler step keeps the depth at or above 0 if it is short enough for the waves that it meets.
        """
        left, n_taken = interval, 0
        while left > 0:
            rate, speed = self._rate(state)
            n_steps = max(1, ceil(left * speed / (COURANT_NUMBER * self.spacing)))
            if n_steps + n_taken > MAX_STEPS:
                raise FieldDataError(
                    f"a frame would take more than {MAX_STEPS:,} time steps. Lower frame_interval, the depths, gravity "
                    "or solver_resolution, or raise half_width."
                )
            length, is_last = left / n_steps, n_steps == 1
            euler = self._settle(state + length * rate)
            euler_rate, speed = self._rate(euler)
            while length * speed > STABILITY_LIMIT * self.spacing:
                length, is_last = length / 2, False
                euler = self._settle(state + length * rate)
                euler_rate, speed = self._rate(euler)
            state = self._settle((state + (euler + length * euler_rate)) / 2)
            left, n_taken = 0.0 if is_last else left - length, n_taken + 1
        return state

    def _settle(self, state: FloatArray) -> FloatArray:
        """Take away depths below 0, which are of the size of rounding, and the momentum where there is no water."""
        np.maximum(state[0], 0.0, out=state[0])
        state[1:] *= state[0] > self.dry_depth
        return state

    def _rate(self, state: FloatArray) -> tuple[FloatArray, float]:
        """Rate of change of the state, and the sum of the fastest wave speeds along x and y."""
        wet = state[0] > self.dry_depth
        # Depth and velocity: limiting these keeps the velocity at a face within those of the cells around it.
        primitive = np.concatenate([state[:1], state[1:] * wet / np.where(wet, state[0], 1.0)])
        along_x, speed_x = self._fluxes(primitive)
        # Along y the two axes and the two velocities change places.
        along_y, speed_y = self._fluxes(primitive[[0, 2, 1]].transpose(0, 2, 1))
        along_y = along_y[[0, 2, 1]].transpose(0, 2, 1)
        rate = (along_x[:, :-1] - along_x[:, 1:]) + (along_y[:, :, :-1] - along_y[:, :, 1:])
        if not isfinite(speed_x + speed_y):
            raise FieldDataError("the flow is not finite. Bring the depths and gravity closer to 1.")
        return rate / self.spacing, speed_x + speed_y

    def _fluxes(self, cells: FloatArray) -> tuple[FloatArray, float]:
        """Fluxes through the faces across axis 1, (3, n + 1, m), and the fastest wave speed there.

        `cells` (3, n, m) holds depth, normal and tangential velocity.
        """
        cells = self._with_ghosts(cells)
        change = np.diff(cells, axis=1)
        before, after = change[:, :-1], change[:, 1:]
        # Monotonised central differences: at most the change to either neighbour, so no depth below 0.
        half_slope = np.minimum(np.minimum(abs(before), abs(after)), abs(before + after) / 4)
        half_slope *= (np.sign(before) + np.sign(after)) / 2
        lower, upper = cells[:, 1:-1] - half_slope, cells[:, 1:-1] + half_slope
        return self._hll(upper[:, :-1], lower[:, 1:])

    def _with_ghosts(self, cells: FloatArray) -> FloatArray:
        """Add two cells on each end of axis 1."""
        first, last = np.repeat(cells[:, :1], 2, axis=1), np.repeat(cells[:, -1:], 2, axis=1)
        if self.mirror is not None:
            first = cells[:, 1::-1] if self.mirror == "face" else cells[:, 2:0:-1]
            first = first * np.array([1.0, -1.0, 1.0])[:, np.newaxis, np.newaxis]
        return np.concatenate([first, cells, last], axis=1)

    def _hll(self, below: FloatArray, above: FloatArray) -> tuple[FloatArray, float]:
        """Flux of Harten, Lax and van Leer between two states (3, ...) of depth, normal and tangential velocity."""
        # The wave speeds bound those of the exact solution (Toro's two-rarefaction estimate, and 2 c at a dry front),
        # and both velocities lie between them, which keeps the depth at or above 0. The shear wave moves with the
        # water.
        (h_l, u_l, v_l), (h_r, u_r, v_r) = below, above
        h_l, h_r = np.maximum(h_l, 0.0), np.maximum(h_r, 0.0)
        c_l, c_r = np.sqrt(self.gravity * h_l), np.sqrt(self.gravity * h_r)
        u_star = (u_l + u_r) / 2 + (c_l - c_r)
        c_star = np.maximum((c_l + c_r) / 2 + (u_l - u_r) / 4, 0.0)
        front_l, front_r = np.where(h_l > 0, 0.0, 2 * c_r), np.where(h_r > 0, 0.0, 2 * c_l)
        slowest = np.minimum(np.minimum(u_l - c_l, u_r - np.maximum(c_r, front_l)), u_star - c_star)
        fastest = np.maximum(np.maximum(u_l + np.maximum(c_l, front_r), u_r + c_r), u_star + c_star)
        slowest, fastest = np.minimum(slowest, 0.0), np.maximum(fastest, 0.0)
        spread = fastest - slowest
        # Without any wave there is no flux: the numerators are 0.
        spread = np.where(spread > 0, spread, 1.0)
        product = fastest * slowest
        q_l, q_r = h_l * u_l, h_r * u_r
        mass = ((fastest * q_l - slowest * q_r) + product * (h_r - h_l)) / spread
        push_l, push_r = (h * u * u + self.gravity / 2 * h * h for h, u in ((h_l, u_l), (h_r, u_r)))
        normal = ((fastest * push_l - slowest * push_r) + product * (q_r - q_l)) / spread
        tangential = mass * np.where(mass > 0, v_l, v_r)
        return np.stack([mass, normal, tangential]), float(np.maximum(fastest, -slowest).max())
