"""Data set of turbulent flow on a periodic square, generated as the Navier-Stokes benchmark of Li et al. (2021).

The vorticity ``w`` of an incompressible flow in two dimensions follows
``dw/dt + u . grad w = viscosity * Laplace w + f`` on the unit square, from a Gaussian random field.
Axis 0 is x and axis 1 is y.

Notation: N points per side of the solver's grid, k = (k_x, k_y) wave vectors times 2 pi, K the largest wave
number kept, B samples of a batch, w vorticity, psi stream function (w = -Laplace psi), (u, v) velocity.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from joblib import Parallel, delayed

from skop._jobs import workers_for
from skop._typing import FloatArray
from skop.datasets._sampling import (
    RandomState,
    _check_choice,
    _check_dtype,
    _check_integer,
    _check_least,
    _check_real,
    _seed_sequence,
)
from skop.exceptions import FieldDataError

Method = Literal["rk4", "euler"]
Coarsening = Literal["subsample", "truncate"]

#: Largest advance of the flow in one Runge-Kutta step, in grid spacings; it is stable up to 1.35.
COURANT_NUMBER = 0.8
#: Time step of the published Euler scheme.
EULER_STEP = 1e-4
#: Number of steps between two frames above which the solution is considered unstable.
MAX_STEPS = 1_000_000


@dataclass(frozen=True)
class FlowRecipe:
    """Everything that defines the distribution of one sample."""

    viscosity: float
    resolution: int
    solver_resolution: int
    times: tuple[float, ...]
    alpha: float
    tau: float
    amplitude: float
    forcing: float
    method: Method
    time_step: float | None
    coarsening: Coarsening

    @property
    def cutoff(self) -> int:
        """Largest wave number kept along an axis: products of two waves then never alias (the 2/3 rule)."""
        return (self.solver_resolution - 1) // 3


def make_navier_stokes(
    n_samples: int = 100,
    *,
    viscosity: float = 1e-3,
    resolution: int = 64,
    solver_resolution: int | None = None,
    n_input: int = 10,
    n_output: int = 10,
    frame_interval: float = 1.0,
    first_time: float | None = None,
    alpha: float = 2.5,
    tau: float = 7.0,
    amplitude: float = 1.0,
    forcing: float = 0.1,
    method: Method = "rk4",
    time_step: float | None = None,
    coarsening: Coarsening = "subsample",
    random_state: RandomState = None,
    device: str = "cpu",
    precision: Literal["float64", "float32"] = "float64",
    batch_size: int = 16,
    n_jobs: int | None = None,
    verbose: int = 0,
    dtype: npt.DTypeLike = np.float32,
    return_coords: bool = False,
) -> tuple[Any, FloatArray]:
    """Generate the vorticity of turbulent flows in a periodic square, as first frames and those that follow.

    Each sample solves ``dw/dt + u . grad w = viscosity * Laplace w + f`` on the unit square, periodic, with
    ``f = forcing * (sin(2 pi (x + y)) + cos(2 pi (x + y)))``. At time 0 the vorticity w is a Gaussian random field
    with mean 0 and covariance ``tau**(2 alpha - 2) (-Laplace + tau**2)**(-alpha)``. The default numbers are those of
    the published data [1]_, but for the viscosity and the solver: see Notes.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1. Published: 1,000 for training and 200 for testing.
    viscosity : float, default=1e-3
        Viscosity, at least 0. Published: 1e-3, 1e-4 and 1e-5; the papers compare on 1e-5. With a smaller viscosity the
        flow has finer structures and is less predictable, and the solver needs a finer grid.
    resolution : int, default=64
        Number of points per side of the returned grid, at least 4, at ``i / resolution``.
    solver_resolution : int, default=None
        Number of points per side of the grid on which the equation is solved, at least `resolution`. None:
        `resolution`. Published: 256. Enough is about 64 for a viscosity of 1e-3, 128 for 1e-4 and 256 for 1e-5.
    n_input, n_output : int, default=10
        Number of frames in X, and of the following frames in y; at least 1 each.
    frame_interval : float, default=1.0
        Time between two frames, above 0.
    first_time : float, default=None
        Time of the first frame, at least 0; 0 is the random field itself. None: `frame_interval`, as published.
    alpha : float, default=2.5
        Smoothness of the random field, above 1.
    tau : float, default=7.0
        Inverse length scale of the random field, above 0.
    amplitude : float, default=1.0
        Factor on the random field, at least 0. Older versions of the published generator draw twice the
        variance: 2 ** 0.5.
    forcing : float, default=0.1
        Amplitude of the forcing; 0 lets the flow decay.
    method : {"rk4", "euler"}, default="rk4"
        ``"rk4"``: Runge-Kutta of fourth order with exact diffusion (an integrating factor). ``"euler"``: as
        published, explicit Euler for advection and forcing and Crank-Nicolson for diffusion, of first order.
    time_step : float, default=None
        Largest time step, above 0. None: for ``"rk4"`` a step in which the flow of each sample advances by 0.8 grid
        spacings; for ``"euler"`` the published 1e-4.
    coarsening : {"subsample", "truncate"}, default="subsample"
        Reduction of the solution to the returned grid. ``"subsample"``: every s-th point, as published;
        `solver_resolution` must be a multiple of `resolution`. ``"truncate"``: only the waves that the returned grid
        can represent, which avoids aliasing of fine structures.
    random_state : int, RandomState, Generator or None, default=None
        Seed. Sample i depends on the seed, i and the recipe only, up to rounding. Its random field is drawn from the
        longest waves on: a finer solver adds detail to the same field.
    device : str, default="cpu"
        Torch device of the solver, such as ``"cuda"``.
    precision : {"float64", "float32"}, default="float64"
        Precision of the solver.
    batch_size : int, default=16
        Number of samples that are solved together; larger batches are more efficient on a GPU.
    n_jobs : int, default=None
        Number of batches that are solved in parallel, in threads of joblib; -1 for all processors.
    verbose : int, default=0
        Progress reports of joblib; 0 prints nothing.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64.
    return_coords : bool, default=False
        Whether to return ``((coords, X), y)`` instead of ``(X, y)``.

    Returns
    -------
    X : ndarray of shape (n_samples, resolution, resolution, n_input)
        Vorticity at the first times, one channel per frame. With ``return_coords=True`` the tuple ``(coords, X)``,
        with coords of shape (resolution, resolution, 2).
    y : ndarray of shape (n_samples, resolution, resolution, n_output)
        Vorticity at the following times.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the two resolutions are not compatible.
    FieldDataError
        If a solution becomes unstable, for example because `time_step` is too long; the message names the samples.

    See Also
    --------
    load_navier_stokes : Read the published files.
    skop.RolloutRegressor : Learns such data one frame at a time.

    Notes
    -----
    The default method is not the published one, because it is much faster at the same error: with steps of 0.005 to 0.1
    the Runge-Kutta method has a smaller error than the published scheme with steps of 1e-4. Both keep the Fourier modes
    up to a third of the grid (the 2/3 rule), for which energy and enstrophy of an inviscid flow are conserved.

    References
    ----------
    .. [1] Li, Kovachki, Azizzadenesheli, Liu, Bhattacharya, Stuart, Anandkumar, "Fourier Neural Operator
       for Parametric Partial Differential Equations", ICLR 2021, arXiv:2010.08895.

    Examples
    --------
    >>> from skop.datasets import make_navier_stokes
    >>> X, y = make_navier_stokes(2, resolution=16, n_input=3, n_output=2, random_state=0)
    >>> X.shape, y.shape
    ((2, 16, 16, 3), (2, 16, 16, 2))
    >>> bool(abs(y.mean()) < 1e-6)
    True
    """
    _check_integer("n_input", n_input, 1)
    _check_integer("n_output", n_output, 1)
    _check_integer("n_samples", n_samples, 1)
    _check_integer("batch_size", batch_size, 1)
    _check_real("frame_interval", frame_interval, above=0)
    first = frame_interval if first_time is None else first_time
    _check_least("first_time", first)
    times = tuple(first + frame_interval * np.arange(n_input + n_output))
    solver = resolution if solver_resolution is None else solver_resolution
    recipe = FlowRecipe(
        viscosity, resolution, solver, times, alpha, tau, amplitude, forcing, method, time_step, coarsening
    )
    _check_recipe(recipe)
    _check_choice("precision", precision, ("float64", "float32"))
    _check_dtype(dtype)
    seeds = _seed_sequence(random_state).spawn(n_samples)
    solver_options = (torch.device(device), getattr(torch, precision))
    starts = range(0, n_samples, batch_size)
    tasks = (
        delayed(_make_batch)(recipe, start, seeds[start : start + batch_size], *solver_options) for start in starts
    )
    frames = np.concatenate(
        Parallel(n_jobs=workers_for(n_jobs, len(starts)), prefer="threads", verbose=verbose)(tasks)
    ).astype(dtype)
    X, y = frames[..., :n_input], frames[..., n_input:]
    if return_coords:
        axis = (np.arange(resolution) / resolution).astype(dtype)
        return (np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1), X), y
    return X, y


def _check_recipe(recipe: FlowRecipe) -> None:
    """Raise ValueError at the first setting outside its range."""
    _check_integer("resolution", recipe.resolution, 4)
    _check_integer("solver_resolution", recipe.solver_resolution, recipe.resolution)
    _check_choice("method", recipe.method, ("rk4", "euler"))
    _check_choice("coarsening", recipe.coarsening, ("subsample", "truncate"))
    _check_least("viscosity", recipe.viscosity)
    _check_least("amplitude", recipe.amplitude)
    _check_real("alpha", recipe.alpha, above=1)
    _check_real("tau", recipe.tau, above=0)
    _check_real("forcing", recipe.forcing)
    if recipe.time_step is not None:
        _check_real("time_step", recipe.time_step, above=0)
    if recipe.coarsening == "subsample" and recipe.solver_resolution % recipe.resolution:
        fitting = -(-recipe.solver_resolution // recipe.resolution) * recipe.resolution
        raise ValueError(
            f"solver_resolution must be a multiple of resolution, got {recipe.solver_resolution} for resolution "
            f"{recipe.resolution}. Take {fitting}, or coarsening='truncate'."
        )


def _make_batch(
    recipe: FlowRecipe, start: int, seeds: list[np.random.SeedSequence], device: torch.device, dtype: torch.dtype
) -> FloatArray:
    """Draw and solve a few samples, (B, resolution, resolution, frames)."""
    modes = np.stack([_random_modes(np.random.default_rng(seed), recipe) for seed in seeds])
    equation = VorticityEquation(recipe, device, dtype)
    vorticity = torch.as_tensor(modes, device=device).to(equation.stretch.dtype.to_complex())
    frames = []
    for time, state in zip(recipe.times, equation.states(vorticity), strict=True):
        lost = ~torch.isfinite(torch.view_as_real(state)).flatten(1).all(1)
        if lost.any():
            numbers = ", ".join(str(start + int(row)) for row in lost.nonzero())
            raise FieldDataError(
                f"the flow of sample(s) {numbers} is not finite at time {time:g}. Lower time_step (now "
                f"{recipe.time_step}), forcing or amplitude."
            )
        frames.append(_on_grid(state, recipe).cpu().numpy())
    return np.stack(frames, axis=-1)


# ---------------------------------------------------------------------- random field
def _random_modes(rng: np.random.Generator, recipe: FlowRecipe) -> npt.NDArray[np.complex128]:
    """Fourier coefficients of the Gaussian random field, (N, N // 2 + 1), scaled so that w = sum of c exp(i k x)."""
    cutoff, n_points = recipe.cutoff, recipe.solver_resolution
    numbers = np.arange(-cutoff, cutoff + 1)
    first, second = np.meshgrid(numbers, numbers, indexing="ij")
    # Square shells from the longest waves on, so that a larger cut-off extends the same field.
    order = np.lexsort((second.ravel(), first.ravel(), np.maximum(abs(first), abs(second)).ravel()))
    noise = np.empty(order.size)
    noise[order] = rng.standard_normal(order.size)
    deviations = recipe.tau ** (recipe.alpha - 1) * (4 * np.pi**2 * (first**2 + second**2) + recipe.tau**2) ** (
        -recipe.alpha / 2
    )
    deviations[cutoff, cutoff] = 0.0
    # One number for each orthonormal wave cos(k x) + sin(k x), which mixes exp(i k x) and exp(-i k x).
    real = recipe.amplitude * deviations * noise.reshape(first.shape)
    mirrored = real[::-1, ::-1]
    coefficients = ((real + mirrored) - 1j * (real - mirrored)) / 2
    modes = np.zeros((n_points, n_points // 2 + 1), dtype=complex)
    modes[numbers[:, np.newaxis], numbers[cutoff:]] = coefficients[:, cutoff:]
    return modes


def _on_grid(modes: torch.Tensor, recipe: FlowRecipe) -> torch.Tensor:
    """Vorticity (B, resolution, resolution) at the returned points."""
    n_points, n_returned = recipe.solver_resolution, recipe.resolution
    if recipe.coarsening == "subsample":
        stride = n_points // n_returned
        return torch.fft.irfft2(modes, s=(n_points, n_points), norm="forward")[:, ::stride, ::stride]
    kept = min(recipe.cutoff, (n_returned - 1) // 2)
    numbers = torch.arange(-kept, kept + 1, device=modes.device)
    coarse = modes.new_zeros(len(modes), n_returned, n_returned // 2 + 1)
    coarse[:, numbers % n_returned, : kept + 1] = modes[:, numbers % n_points, : kept + 1]
    return torch.fft.irfft2(coarse, s=(n_returned, n_returned), norm="forward")


# ---------------------------------------------------------------------- solver
class VorticityEquation:
    """The vorticity equation in Fourier space, with its time stepping.

    States are coefficients (B, N, N // 2 + 1), scaled so that w = sum of c exp(i k x).
    """

    def __init__(self, recipe: FlowRecipe, device: torch.device, dtype: torch.dtype) -> None:
        n_points = recipe.solver_resolution
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        k_x = 2 * torch.pi * torch.fft.fftfreq(n_points, 1 / n_points, **options)[:, None]
        k_y = 2 * torch.pi * torch.fft.rfftfreq(n_points, 1 / n_points, **options)
        squares = k_x**2 + k_y**2
        limit = 2 * torch.pi * (recipe.cutoff + 0.5)
        self.kept = (k_x.abs() < limit) & (k_y < limit)
        self.stretch, self.shear = (k_x**2 - k_y**2) * self.kept, k_x * k_y * self.kept
        inverse = torch.where(squares > 0, 1 / squares.clamp(min=1), 0.0)
        # u = d psi / dy and v = -d psi / dx with psi = w / |k|^2.
        self.to_velocity = torch.stack([1j * k_y * inverse, -1j * k_x * inverse])
        self.damping = recipe.viscosity * squares
        self.forcing = torch.zeros_like(self.to_velocity[0])
        # forcing * (sin + cos)(2 pi (x + y)) = sum of c exp(i k x) with c = forcing (1 - i) / 2 at wave (1, 1).
        self.forcing[1, 1] = torch.tensor(recipe.forcing * (0.5 - 0.5j), dtype=self.forcing.dtype)
        self.recipe, self.n_points = recipe, n_points

    def states(self, modes: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the state at each time of the recipe."""
        now = 0.0
        for time in self.recipe.times:
            if time > now:
                modes = self.advance(modes, time - now)
            now = time
            yield modes

    def advance(self, modes: torch.Tensor, interval: float) -> torch.Tensor:
        """Advance all samples by a time, each in steps of its own length."""
        step = self._runge_kutta_step if self.recipe.method == "rk4" else self._euler_step
        modes, left = modes.clone(), torch.full((len(modes),), interval, dtype=torch.float64, device=modes.device)
        while len(rows := (left > 0).nonzero()[:, 0]):
            velocity = self.velocity(modes[rows])
            n_steps = (left[rows] / self._longest_step(velocity)).ceil()
            if (n_steps > MAX_STEPS).any():
                raise FieldDataError(
                    f"a frame would take more than {MAX_STEPS:,} time steps, with time_step={self.recipe.time_step}. "
                    "Pass a longer one; or if it is None, the flow is too fast: lower forcing or amplitude."
                )
            length = left[rows] / n_steps
            modes[rows] = step(modes[rows], velocity, length.to(self.stretch.dtype)[:, None, None])
            # There is no step length for a flow that is not finite. The loop ends, and the caller raises the error.
            left[rows] = torch.where(n_steps > 1, left[rows] - length, 0.0)
        return modes

    def _longest_step(self, velocity: torch.Tensor) -> torch.Tensor:
        """Largest time step of each sample, (B,)."""
        fixed = self.recipe.time_step
        if fixed is None and self.recipe.method == "euler":
            fixed = EULER_STEP
        if fixed is not None:
            return torch.full((len(velocity),), fixed, dtype=torch.float64, device=velocity.device)
        speed = velocity.abs().sum(1).flatten(1).amax(1).double()
        return COURANT_NUMBER / (self.n_points * speed)

    def velocity(self, modes: torch.Tensor) -> torch.Tensor:
        """Velocity (B, 2, N, N) at the grid points."""
        size = (self.n_points, self.n_points)
        return torch.fft.irfft2(modes[:, None] * self.to_velocity, s=size, norm="forward")

    def tendency(self, velocity: torch.Tensor) -> torch.Tensor:
        """Change of w by advection and forcing: -u . grad w + f.

        For a flow without divergence u . grad w = (d_xx - d_yy) (u v) + d_xy (v^2 - u^2), which takes two
        transforms in place of three.
        """
        u, v = velocity[:, 0], velocity[:, 1]
        products = torch.fft.rfft2(torch.stack([u * v, (v - u) * (v + u)], dim=1), norm="forward")
        return products[:, 0] * self.stretch + products[:, 1] * self.shear + self.forcing

    def _runge_kutta_step(self, modes: torch.Tensor, velocity: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        """One step of the classical method for exp(damping t) w, in which diffusion is exact."""
        half = torch.exp(-self.damping * (length / 2))
        first = self.tendency(velocity)
        second = self.tendency(self.velocity(half * (modes + length / 2 * first)))
        decayed = half * modes
        third = self.tendency(self.velocity(decayed + length / 2 * second))
        fourth = self.tendency(self.velocity(half * (decayed + length * third)))
        return half * (decayed + length / 6 * (half * first + 2 * (second + third))) + length / 6 * fourth

    def _euler_step(self, modes: torch.Tensor, velocity: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        """One step of the published scheme: explicit Euler, and Crank-Nicolson for diffusion."""
        half = length / 2 * self.damping
        return ((1 - half) * modes + length * self.tendency(velocity)) / (1 + half)
