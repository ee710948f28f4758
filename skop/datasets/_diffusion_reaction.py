"""Two substances that diffuse and react: the FitzHugh-Nagumo generator after the recipe of PDEBench (2022).

The activator ``u`` and the inhibitor ``v`` follow

    du/dt = D_u Laplace u + u - u^3 - k - v,    dv/dt = D_v Laplace v + u - v,

on the square [-1, 1]^2 with no flux through its border, from white noise. Axis 0 is x and axis 1 is y.

Notation: N cells a side of the solver's grid, L the eigenvalues of the discrete diffusion at the cosine modes (of the
discrete cosine transform of the second kind, whose modes have no flux at the border), h a time step, R the reaction.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.fft import dctn, idctn

from skop._typing import FloatArray
from skop.datasets._sampling import (
    RandomState,
    _check_dtype,
    _check_integer,
    _check_least,
    _check_real,
    _seed_sequence,
    make_samples,
)
from skop.datasets._shallow_water import Coarsening, _cell_coords, _check_grid, _coarsen, _frame_times
from skop.exceptions import FieldDataError

HALF_WIDTH = 1.0
#: Steps are the frame interval over a power of two; the smallest power that may be needed is found within these.
FIRST_LEVEL, LAST_LEVEL = 6, 30
#: Share of the tolerance below which the next step is doubled: the estimate falls with the fourth power of the step.
DOUBLING_SHARE = 1 / 20
#: Below this size of its argument a phi function is summed as a series of so many terms.
SERIES_LIMIT, SERIES_TERMS = 0.5, 14


@dataclass(frozen=True)
class _Recipe:
    """Everything that defines the distribution of one sample."""

    resolution: int
    solver_resolution: int
    times: tuple[float, ...]
    diffusion: tuple[float, float]
    k: float
    amplitude: float
    coarsening: Coarsening
    tolerance: float


def make_diffusion_reaction(
    n_samples: int = 100,
    *,
    resolution: int = 64,
    solver_resolution: int | None = None,
    n_input: int = 10,
    n_output: int = 91,
    frame_interval: float = 0.05,
    diffusion: tuple[float, float] = (1e-3, 5e-3),
    k: float = 5e-3,
    amplitude: float = 1.0,
    coarsening: Coarsening = "subsample",
    tolerance: float = 1e-7,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_coords: bool = False,
) -> tuple[Any, FloatArray]:
    """Generate patterns of two substances that diffuse and react, as first frames and those that follow.

    Each sample solves the FitzHugh-Nagumo equations ``du/dt = D_u Laplace u + u - u**3 - k - v`` and
    ``dv/dt = D_v Laplace v + u - v`` on ``[-1, 1]**2`` with no flux through the border. At time 0 both are white noise,
    an independent normal number in each cell. The default numbers are those of PDEBench [1]_, but for the resolution.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Published: 900 for training and 100 for testing.
    resolution : int, default=64
        Cells a side of the returned grid, at least 4. Published: 128.
    solver_resolution : int, default=None
        Cells a side of the grid on which the equations are solved, a multiple of `resolution`; its cells are those of
        the noise, so that a finer grid is another problem: finer noise decays faster. None: `resolution`.
    n_input, n_output : int, default=10 and 91
        Frames in X, of which the first is the noise, and frames that follow in y; at least 1 and 1.
    frame_interval : float, default=0.05
        Time between two frames, above 0. The default ends at time 5.
    diffusion : tuple of two floats, default=(1e-3, 5e-3)
        Diffusion coefficients D_u of the activator and D_v of the inhibitor, at least 0.
    k : float, default=5e-3
        Constant of the reaction.
    amplitude : float, default=1.0
        Standard deviation of the noise, at least 0.
    coarsening : {"subsample", "average"}, default="subsample"
        How a fine solution comes to the returned grid. ``"subsample"``: every s-th cell, as users of the published
        data do. ``"average"``: the mean of s x s cells.
    tolerance : float, default=1e-7
        Largest root mean square over the cells of a step's estimated error, above 0. At the default the frames are off
        by 1e-7 (64 cells a side) to 2e-6 (256) of the solution.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The noise of sample i depends on the seed, i, the solver's grid and `amplitude` only.
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
    X : ndarray of shape (n_samples, resolution, resolution, 2 * n_input)
        Activator and inhibitor at the first times; channel ``2 * t`` is the activator of frame t, and ``2 * t + 1`` the
        inhibitor. With ``return_coords=True`` the tuple ``(coords, X)``, with coords of shape
        (resolution, resolution, 2), the centres of the cells.
    y : ndarray of shape (n_samples, resolution, resolution, 2 * n_output)
        Both at the following times.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the two resolutions do not fit.
    FieldDataError
        If no time step reaches the tolerance; the message names the sample.

    See Also
    --------
    load_pdebench_diffusion_reaction : Read the published file.
    skop.RolloutRegressor : Learns such data one frame at a time.

    Notes
    -----
    Space: the five-point Laplacian on cell centres, as published. Time: the exponential Runge-Kutta method of fourth
    order of Krogstad [2]_, in which diffusion is exact, so that the step does not depend on the grid; a method of third
    order with the same stages estimates the error. The published solver is an explicit Runge-Kutta method, whose steps
    shrink with the square of the spacing.

    References
    ----------
    .. [1] Takamoto, Praditia, Leiteritz, MacKinlay, Alesiani, Pflüger, Niepert, "PDEBench: An Extensive Benchmark for
       Scientific Machine Learning", NeurIPS 2022 Datasets and Benchmarks, arXiv:2210.07182.
    .. [2] Krogstad, "Generalized integrating factor methods for stiff PDEs", Journal of Computational Physics 203,
       2005.

    Examples
    --------
    >>> from skop.datasets import make_diffusion_reaction
    >>> X, y = make_diffusion_reaction(2, resolution=16, n_input=3, n_output=4, random_state=0)
    >>> X.shape, y.shape
    ((2, 16, 16, 6), (2, 16, 16, 8))
    >>> bool(X[..., 0].std() > y[..., 0].std())  # diffusion damps the noise
    True
    """
    _check_integer("n_samples", n_samples, 1)
    times = _frame_times(n_input, n_output, frame_interval)
    solver = resolution if solver_resolution is None else solver_resolution
    recipe = _Recipe(resolution, solver, times, diffusion, k, amplitude, coarsening, tolerance)
    _check_recipe(recipe)
    _check_dtype(dtype)
    seeds = _seed_sequence(random_state).spawn(n_samples)
    frames = np.stack(make_samples(partial(_make_sample, recipe, dtype=dtype), seeds, n_jobs, verbose))
    X, y = frames[..., : 2 * n_input], frames[..., 2 * n_input :]
    if return_coords:
        coords = _cell_coords(HALF_WIDTH, solver, resolution, coarsening)
        return (coords.astype(dtype), X), y
    return X, y


def _check_recipe(recipe: _Recipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    _check_grid(recipe.resolution, recipe.solver_resolution, recipe.coarsening)
    if len(recipe.diffusion) != 2:
        raise ValueError(f"diffusion must be two coefficients, got {recipe.diffusion!r}.")
    for name, values in (("diffusion", recipe.diffusion), ("amplitude", (recipe.amplitude,))):
        for value in values:
            _check_least(name, value)
    _check_real("k", recipe.k)
    _check_real("tolerance", recipe.tolerance, above=0)


def _make_sample(recipe: _Recipe, seed: np.random.SeedSequence, dtype: npt.DTypeLike) -> npt.NDArray[np.floating[Any]]:
    """Draw and solve one sample, (resolution, resolution, 2 frames)."""
    n_cells = recipe.solver_resolution
    noise = recipe.amplitude * np.random.default_rng(seed).standard_normal((2, n_cells, n_cells))
    equation = _Equation(n_cells, 2 * HALF_WIDTH / n_cells, recipe.diffusion, recipe.k, recipe.tolerance)
    frames = [
        _coarsen(state, recipe.resolution, recipe.coarsening).astype(dtype)
        for state in equation.states(noise, recipe.times)
    ]
    return np.moveaxis(np.concatenate(frames), 0, -1)


# ---------------------------------------------------------------------- solver
class _Equation:
    """The equations in the space of cosine modes, with their time stepping.

    States are (2, N, N): activator and inhibitor in the cells, or their modes in an orthonormal transform, whose root
    mean square is that of the cells.
    """

    def __init__(self, n_cells: int, spacing: float, diffusion: tuple[float, ...], k: float, tolerance: float) -> None:
        waves = 4 * np.sin(np.pi * np.arange(n_cells) / (2 * n_cells)) ** 2 / spacing**2
        self.decay = -np.array(diffusion)[:, np.newaxis, np.newaxis] * (waves[:, np.newaxis] + waves)
        self.k, self.tolerance = k, tolerance
        self._weights: tuple[float, tuple[Any, ...]] = (0.0, ())

    def states(self, state: FloatArray, times: tuple[float, ...]) -> Iterator[FloatArray]:
        """Yield the cells at evenly spaced times, the first of which is that of the given state."""
        yield state
        modes, level = _to_modes(state), FIRST_LEVEL
        reaction = self.reaction(modes)
        for time, next_time in pairwise(times):
            # The interval is the same up to rounding; one value for all frames lets weights be used again.
            interval, done = times[1] - times[0], 0.0
            while done < 1:
                share = 0.5**level
                after, next_reaction, error = self.step(modes, reaction, share * interval)
                size = np.sqrt(np.mean(error**2))
                if size <= self.tolerance:
                    modes, reaction, done = after, next_reaction, done + share
                    if size <= DOUBLING_SHARE * self.tolerance and level > 0 and done % (2 * share) == 0:
                        level -= 1
                elif level < LAST_LEVEL:
                    level += 1
                else:
                    raise FieldDataError(
                        f"no time step between {time:g} and {next_time:g} reaches tolerance={self.tolerance:g}. "
                        "Raise it, or lower amplitude."
                    )
            yield _to_cells(modes)

    @np.errstate(over="ignore", invalid="ignore")
    def reaction(self, modes: FloatArray) -> FloatArray:
        """Modes of the reaction: u - u^3 - k - v, and u - v."""
        u, v = _to_cells(modes)
        return _to_modes(np.stack([u - u * u * u - self.k - v, u - v]))

    @np.errstate(over="ignore", invalid="ignore")
    def step(self, modes: FloatArray, reaction: FloatArray, length: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Take one step; returns the modes and their reaction after it, and the estimated error of the modes.

        The reaction at the end takes the place of the last stage in the method of third order, and is the first stage
        of the next step.
        """
        half, whole, to_first, from_start, from_first, to_last, last, weights = self._step_weights(length)
        first = self.reaction(half * modes + to_first * reaction)
        second = self.reaction(half * modes + from_start * reaction + from_first * first)
        third = self.reaction(whole * modes + to_last * reaction + last * second)
        start, middle, end = weights
        after = whole * modes + start * reaction + middle * (first + second) + end * third
        reaction_after = self.reaction(after)
        return after, reaction_after, end * (third - reaction_after)

    def _step_weights(self, length: float) -> tuple[Any, ...]:
        """Factors of a step: exp(h L / 2), exp(h L), those of the stages, and those of the result."""
        # Only the weights of the latest length are kept: they take the place of some twenty states.
        if length != self._weights[0]:
            one, two, three = _phi_functions(length * self.decay)
            half_one, half_two, _ = _phi_functions(length / 2 * self.decay)
            factors = (
                np.exp(length / 2 * self.decay),
                np.exp(length * self.decay),
                length / 2 * half_one,
                length * (half_one / 2 - half_two),
                length * half_two,
                length * (one - 2 * two),
                2 * length * two,
                length * np.stack([one - 3 * two + 4 * three, 2 * two - 4 * three, 4 * three - two]),
            )
            self._weights = (length, factors)
        return self._weights[1]


def _to_modes(cells: FloatArray) -> FloatArray:
    """Orthonormal cosine modes of (2, N, N)."""
    return np.asarray(dctn(cells, axes=(1, 2), norm="ortho"))


def _to_cells(modes: FloatArray) -> FloatArray:
    """Cells of the orthonormal cosine modes (2, N, N)."""
    return np.asarray(idctn(modes, axes=(1, 2), norm="ortho"))


def _phi_functions(argument: FloatArray) -> list[FloatArray]:
    """Functions phi_1, phi_2, phi_3 of arguments of at most 0."""
    # phi_0 = exp and phi_j(z) = (phi_{j-1}(z) - 1 / (j - 1)!) / z, which loses digits near 0; there, phi_j is the sum
    # of z^i / (i + j)!.
    is_small = argument > -SERIES_LIMIT
    small, large = np.where(is_small, argument, 0.0), np.where(is_small, -1.0, argument)
    values, current = [], np.exp(large)
    for order in (1, 2, 3):
        current = (current - 1 / factorial(order - 1)) / large
        series = np.zeros_like(argument)
        for power in reversed(range(SERIES_TERMS)):
            series = series * small + 1 / factorial(power + order)
        values.append(np.where(is_small, series, current))
    return values
