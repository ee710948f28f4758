"""The forced Brusselator: two substances that react, diffuse and oscillate, driven by a random function of time.

Activator ``u`` and inhibitor ``v`` follow

    du/dt = D_u Laplace u + a + f(t) - (1 + b) u + u^2 v,    dv/dt = D_v Laplace v + b u - u^2 v,

on the unit square with no flux through its border. Axis 0 of the results is time, axis 1 is x and axis 2 is y.

Notation: N cells a side of the solver's grid; A, s and w amplitude, decay and frequency of the forcing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.datasets._diffusion_reaction import _Equation, _to_cells, _to_modes
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
from skop.datasets._shallow_water import Coarsening, _check_grid, _coarsen
from skop.exceptions import FieldDataError

_VARIABLES = ("u", "v")
_PARAMETERS = ("amplitude", "decay", "frequency")


@dataclass(frozen=True)
class _Recipe:
    """Everything that defines the distribution of one sample."""

    resolution: int
    solver_resolution: int
    times: tuple[float, ...]
    variables: tuple[int, ...]
    a: float
    b: float
    diffusion: tuple[float, float]
    amplitude: tuple[float, float]
    decay: tuple[float, float]
    frequency: tuple[float, float]
    coarsening: Coarsening
    tolerance: float


def make_brusselator(
    n_samples: int = 100,
    *,
    resolution: int = 28,
    solver_resolution: int | None = None,
    n_times: int = 39,
    frame_interval: float = 0.5,
    inputs: Literal["forcing", "parameters"] = "forcing",
    variables: Sequence[str] = ("u",),
    a: float = 1.0,
    b: float = 3.0,
    diffusion: tuple[float, float] = (1e-2, 1e-3),
    amplitude: tuple[float, float] = (0.2, 1.0),
    decay: tuple[float, float] = (0.0, 0.2),
    frequency: tuple[float, float] = (0.5, 3.0),
    initial: npt.ArrayLike | None = None,
    coarsening: Coarsening = "subsample",
    tolerance: float = 1e-6,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
) -> tuple[FieldSet, FloatArray]:
    """Generate concentrations of an oscillating reaction in space and time, from the function of time that drives it.

    Each sample solves ``du/dt = D_u Laplace u + a + f(t) - (1 + b) u + u**2 v`` and
    ``dv/dt = D_v Laplace v + b u - u**2 v`` on the unit square with no flux through its border. The forcing is
    ``f(t) = A exp(-s t) sin(w t)`` with random A, s and w; the initial state is the same for all samples. The problem
    and the grid, 28 x 28 points at 39 times, are those of the Laplace neural operator [1]_. Forcing, coefficients,
    border and initial state of the published samples are stated neither in their file nor in the program that
    reads it: those here are skop's.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1.
    resolution : int, default=28
        Cells a side of the returned grid, at least 4.
    solver_resolution : int, default=None
        Cells a side of the grid on which the equations are solved, a multiple of `resolution`. None: `resolution`.
    n_times : int, default=39
        Number of times, at least 2, of which the first is 0.
    frame_interval : float, default=0.5
        Time between two of them, above 0. The default ends at time 19.
    inputs : {"forcing", "parameters"}, default="forcing"
        Form of X. ``"forcing"``: the field f(t), repeated over space. ``"parameters"``: A, s and w, as `params` of the
        samples, without a field.
    variables : sequence of str, default=("u",)
        Channels of y, of ``"u"`` and ``"v"``.
    a, b : float, default=1.0 and 3.0
        Constants of the reaction, above 0. The uniform state ``u = a, v = b / a`` oscillates where ``b > 1 + a**2``.
    diffusion : tuple of two floats, default=(1e-2, 1e-3)
        Diffusion coefficients D_u and D_v, at least 0.
    amplitude : tuple of two floats, default=(0.2, 1.0)
        Smallest and largest A, at least 0; uniform draws. Concentrations stay at or above 0 if A is at most `a`.
    decay : tuple of two floats, default=(0.0, 0.2)
        Smallest and largest s, at least 0; uniform draws.
    frequency : tuple of two floats, default=(0.5, 3.0)
        Smallest and largest w, at least 0, in radians per unit of time; uniform draws. X shows frequencies below
        ``pi / frame_interval`` without ambiguity.
    initial : array-like of shape (2, solver_resolution, solver_resolution), default=None
        State u and v at time 0, in the cells of the solver's grid. None: ``u = a`` and
        ``v = b / a * (1 + (cos(pi x) + cos(2 pi x) cos(pi y)) / 3)``.
    coarsening : {"subsample", "average"}, default="subsample"
        How a fine solution comes to the returned grid. ``"subsample"``: every s-th cell. ``"average"``: the mean of
        s x s cells.
    tolerance : float, default=1e-6
        Largest root mean square over the cells of a step's estimated error, above 0. At the default the fields are
        off by about 1e-6 of their norm, and by 2e-3 for the default grid.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The forcing of sample i depends on the seed, i and the three ranges only.
    n_jobs : int, default=None
        Threads of joblib, -1 for all processors. The result is the same, bit for bit.
    verbose : int, default=0
        Progress reports of joblib; 0 prints nothing.
    dtype : dtype, default=numpy.float32
        Of what is returned, float32 or float64. The solver works in float64.

    Returns
    -------
    X : FieldSet of n_samples on a grid of (n_times, resolution, resolution)
        Forcing in one channel, or A, s and w in `params`. `coords` are (t, x, y), the time divided by the last time,
        and the centres of the cells.
    y : ndarray of shape (n_samples, n_times, resolution, resolution, len(variables))
        Concentrations at all times, the initial state included.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the two resolutions do not fit.
    FieldDataError
        If `initial` has another shape or is not finite, or if no time step reaches the tolerance; the message then
        names the sample.

    See Also
    --------
    load_brusselator : Read the published file.
    make_diffusion_reaction : Other reactions, from first frames to those that follow.

    Notes
    -----
    Space: the five-point Laplacian on cell centres, which conserves mass. Time: the exponential Runge-Kutta method of
    `make_diffusion_reaction`, in which diffusion is exact; the forcing is evaluated at the times of the stages.

    References
    ----------
    .. [1] Cao, Goswami, Karniadakis, "Laplace neural operator for solving differential equations", Nature Machine
       Intelligence 6, 2024, arXiv:2303.10528.

    Examples
    --------
    >>> from skop.datasets import make_brusselator
    >>> X, y = make_brusselator(2, resolution=8, n_times=5, random_state=0)
    >>> X.grid_shape, X.shape, y.shape
    ((5, 8, 8), (2, 320, 1), (2, 5, 8, 8, 1))
    >>> X, y = make_brusselator(2, resolution=8, n_times=5, inputs="parameters", variables=("u", "v"), random_state=0)
    >>> X.params.shape, y.shape
    ((2, 3), (2, 5, 8, 8, 2))
    """
    _check_integer("n_samples", n_samples, 1)
    _check_integer("n_times", n_times, 2)
    _check_real("frame_interval", frame_interval, above=0)
    _check_choice("inputs", inputs, ("forcing", "parameters"))
    if isinstance(variables, str) or not len(variables) or not set(variables) <= set(_VARIABLES):
        raise ValueError(f"variables must be a sequence of {', '.join(_VARIABLES)}, got {variables!r}.")
    recipe = _Recipe(
        resolution,
        resolution if solver_resolution is None else solver_resolution,
        tuple(frame_interval * index for index in range(n_times)),
        tuple(_VARIABLES.index(name) for name in variables),
        a,
        b,
        diffusion,
        amplitude,
        decay,
        frequency,
        coarsening,
        tolerance,
    )
    _check_recipe(recipe)
    _check_dtype(dtype)
    start = _initial_state(recipe, initial)
    seeds = _seed_sequence(random_state).spawn(n_samples)
    params = np.stack([_draw_forcing(recipe, seed) for seed in seeds])
    y = np.stack(make_samples(partial(_make_sample, recipe, start=start, dtype=dtype), list(params), n_jobs, verbose))
    coords = _space_time(recipe).astype(dtype)
    if inputs == "parameters":
        return FieldSet(coords, params=params.astype(dtype)), y
    forcing = np.stack([_forcing(np.array(recipe.times), row) for row in params]).astype(dtype)
    fields = np.broadcast_to(forcing[:, :, np.newaxis, np.newaxis, np.newaxis], (*y.shape[:-1], 1))
    return FieldSet(coords, np.ascontiguousarray(fields), channel_names=["forcing"]), y


def _check_recipe(recipe: _Recipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    _check_grid(recipe.resolution, recipe.solver_resolution, recipe.coarsening)
    for name in ("a", "b", "tolerance"):
        _check_real(name, getattr(recipe, name), above=0)
    for name in ("diffusion", *_PARAMETERS):
        values = getattr(recipe, name)
        if np.shape(values) != (2,):
            raise ValueError(f"{name} must be two numbers, got {values!r}.")
        for value in values:
            _check_least(name, value)
        if name in _PARAMETERS and values[0] > values[1]:
            raise ValueError(f"{name} must be a smallest and a largest value, got {values!r}.")


def _initial_state(recipe: _Recipe, initial: npt.ArrayLike | None) -> FloatArray:
    """State at time 0 in the cells of the solver's grid, (2, N, N)."""
    n_cells = recipe.solver_resolution
    if initial is None:
        x = (np.arange(n_cells) + 0.5)[:, np.newaxis] / n_cells
        pattern = np.cos(np.pi * x) + np.cos(2 * np.pi * x) * np.cos(np.pi * x.T)
        return np.stack([np.full_like(pattern, recipe.a), recipe.b / recipe.a * (1 + pattern / 3)])
    state = np.asarray(initial, dtype=np.float64)
    if state.shape != (2, n_cells, n_cells):
        raise FieldDataError(f"initial must have the shape {(2, n_cells, n_cells)}, u and v, got {state.shape}.")
    if not np.isfinite(state).all():
        raise FieldDataError("initial holds values that are not finite.")
    return state


def _draw_forcing(recipe: _Recipe, seed: np.random.SeedSequence) -> FloatArray:
    """Draw A, s and w."""
    low, high = np.transpose([getattr(recipe, name) for name in _PARAMETERS])
    return np.asarray(low + (high - low) * np.random.default_rng(seed).random(len(_PARAMETERS)))


def _forcing(times: Any, params: FloatArray) -> Any:
    """Forcing A exp(-s t) sin(w t) at one or more times."""
    amplitude, decay, frequency = params
    return amplitude * np.exp(-decay * times) * np.sin(frequency * times)


def _make_sample(
    recipe: _Recipe, params: FloatArray, start: FloatArray, dtype: npt.DTypeLike
) -> npt.NDArray[np.floating[Any]]:
    """Solve one sample and return its concentrations, (times, resolution, resolution, variables)."""
    equation = _Brusselator(recipe, params)
    state = np.concatenate([start, np.zeros((1, *start.shape[1:]))])
    frames = [
        _coarsen(later[list(recipe.variables)], recipe.resolution, recipe.coarsening).astype(dtype)
        for later in equation.states(state, recipe.times)
    ]
    return np.moveaxis(np.stack(frames), 1, -1)


def _space_time(recipe: _Recipe) -> FloatArray:
    """Positions (t / T, x, y) of the returned values, (times, resolution, resolution, 3)."""
    n_cells = recipe.resolution if recipe.coarsening == "average" else recipe.solver_resolution
    axis = ((np.arange(n_cells) + 0.5) / n_cells)[:: n_cells // recipe.resolution]
    time = np.array(recipe.times) / recipe.times[-1]
    return np.stack(np.meshgrid(time, axis, axis, indexing="ij"), axis=-1)


class _Brusselator(_Equation):
    """The equations in the space of cosine modes; states are (3, N, N): u, v and the time.

    Time is a third field without diffusion that grows at the rate 1, which makes the equations autonomous. Stages of
    the method then see the forcing at their own times.
    """

    def __init__(self, recipe: _Recipe, params: FloatArray) -> None:
        n_cells = recipe.solver_resolution
        super().__init__(n_cells, 1 / n_cells, (*recipe.diffusion, 0.0), 0.0, recipe.tolerance)
        self.a, self.b, self.params = recipe.a, recipe.b, params

    @np.errstate(over="ignore", invalid="ignore")
    def reaction(self, modes: FloatArray) -> FloatArray:
        """Modes of the reaction with the forcing, and of the rate of time."""
        u, v = _to_cells(modes[:2])
        # The mean of N x N cells is the first orthonormal mode over N.
        n_cells = modes.shape[-1]
        source = self.a + _forcing(modes[2, 0, 0] / n_cells, self.params)
        conversion = self.b * u - u * u * v
        rate = np.zeros_like(modes)
        rate[:2] = _to_modes(np.stack([source - u - conversion, conversion]))
        rate[2, 0, 0] = n_cells
        return rate
