"""Waves that travel along a periodic line: smooth mixtures with a weak spike at a high wavenumber.

Notation: N points with spacing 1 / N, k wavenumber (periods in [0, 1]), c speed, nu Courant number of a time step.
"""

from math import ceil
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
)

Solution = Literal["exact", "upwind"]


def make_advection(
    n_samples: int = 100,
    *,
    resolution: int = 1024,
    speed: float = 1.0,
    time: float = 0.25,
    max_wavenumber: int = 20,
    amplitude_spread: float = 0.5,
    spike_wavenumbers: tuple[int, int] = (140, 250),
    spike_amplitude: float = 0.02,
    solution: Solution = "exact",
    cfl: float = 0.5,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float32,
    return_coords: bool = False,
) -> tuple[Any, FloatArray]:
    """Generate waves on a periodic line: at time 0 as input, and moved along at a later time as target.

    Each sample solves ``du/dt + speed du/dx = 0`` on [0, 1), with periodic ends, from a smooth sum of waves
    ``a_k sin(2 pi k x + phi_k)``, k = 1, ..., `max_wavenumber` with a_k about 1 / (1 + k), plus a weak spike
    ``spike_amplitude sin(2 pi k_hi x + phi_hi)``. Phases are uniform. Such data show which wavenumbers a model carries,
    and with what error of phase. The problem is that of [1]_, which gives neither the speed, the time, the grid, the
    amplitudes nor the wavenumbers: all defaults are skop's, but for the Courant number.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples n, at least 1.
    resolution : int, default=1024
        Number N of points, above twice the highest wavenumber.
    speed : float, default=1.0
        Speed c; waves run to the left where it is negative.
    time : float, default=0.25
        Time of y, at least 0. After a time of 1 / speed the exact field is the initial one again.
    max_wavenumber : int, default=20
        Highest wavenumber of the smooth part, at least 1.
    amplitude_spread : float, default=0.5
        Half-width, 0 to 1, of the random factors of the amplitudes: a_k is uniform in
        ``(1 - amplitude_spread, 1 + amplitude_spread) / (1 + k)``.
    spike_wavenumbers : tuple of two ints, default=(140, 250)
        Lowest and highest wavenumber k_hi of the spike, at least 1; each sample's is drawn from all between. The same
        number twice fixes it. In the default range the paper finds errors of phase.
    spike_amplitude : float, default=0.02
        Amplitude of the spike, at least 0.
    solution : {"exact", "upwind"}, default="exact"
        Solution in y. ``"exact"``: the initial field moved by speed * time. ``"upwind"``: the conservative upwind
        scheme of first order on the N points, as in the paper. It damps short waves strongly: see Notes.
    cfl : float, default=0.5
        Largest Courant number ``|speed| * time step * N`` of the upwind scheme, above 0 and at most 1, its limit of
        stability. The time steps are the largest equal ones.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The initial field of sample i depends on the seed, i, and the wavenumbers and amplitudes; it is the same
        function on every grid.
    dtype : dtype, default=numpy.float32
        Data type of the result, float32 or float64. Fields are computed in float64.
    return_coords : bool, default=False
        Whether to return ``((coords, X), y)`` instead of ``(X, y)``.

    Returns
    -------
    X : ndarray of shape (n_samples, resolution, 1)
        Field at time 0, at the points i / N. With ``return_coords=True`` the tuple ``(coords, X)``, with coords of
        shape (resolution, 1).
    y : ndarray of shape (n_samples, resolution, 1)
        Field at `time`, at the same points.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the points are too few for the wavenumbers.

    See Also
    --------
    make_navier_stokes : Flow in a periodic square.

    Notes
    -----
    A step of the upwind scheme with Courant number nu multiplies the wave of wavenumber k by
    ``g(k) = 1 - nu (1 - exp(-2 pi i k / N))``, so that n steps leave ``abs(g(k))**n`` of its amplitude, where
    ``abs(g(k))**2 = 1 - 4 nu (1 - nu) sin(pi k / N)**2``. With the default numbers 79 % is left at k = 10, 38 % at
    k = 20 and 7e-22 at k = 140: the target holds nothing of the spike, and no phase can be measured there. The
    phase of every wave is exact at nu = 1/2, the default Courant number if it gives a whole number of steps.

    References
    ----------
    .. [1] Song, Jiang, "Adaptive Mamba Neural Operators", Appendix B.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.datasets import make_advection
    >>> X, y = make_advection(3, random_state=0)
    >>> X.shape, y.shape
    ((3, 1024, 1), (3, 1024, 1))
    >>> bool(np.allclose(y, np.roll(X, 256, axis=1), atol=1e-5))  # a quarter of the line
    True
    """
    _check_integer("n_samples", n_samples, 1)
    _check_numbers(speed, time, amplitude_spread, spike_amplitude, cfl)
    _check_waves(resolution, max_wavenumber, spike_wavenumbers)
    _check_choice("solution", solution, ("exact", "upwind"))
    _check_dtype(dtype)
    points = np.arange(resolution) / resolution
    draws = [
        _draw_waves(seed, max_wavenumber, amplitude_spread, spike_wavenumbers, spike_amplitude)
        for seed in _seed_sequence(random_state).spawn(n_samples)
    ]
    start = np.stack([_field(points, *draw) for draw in draws])
    if solution == "exact":
        # Whole turns are left out, so that long times cost no digits.
        end = np.stack([_field(points - (speed * time) % 1, *draw) for draw in draws])
    else:
        end = _upwind(start, speed * time, cfl)
    X, y = (fields[..., np.newaxis].astype(dtype) for fields in (start, end))
    return ((points[:, np.newaxis].astype(dtype), X), y) if return_coords else (X, y)


def _check_numbers(speed: float, time: float, amplitude_spread: float, spike_amplitude: float, cfl: float) -> None:
    """Raise ValueError at the first number outside its range."""
    _check_real("speed", speed)
    for name, value in (("time", time), ("spike_amplitude", spike_amplitude)):
        _check_least(name, value)
    _check_real("amplitude_spread", amplitude_spread)
    if not 0 <= amplitude_spread <= 1:
        raise ValueError(f"amplitude_spread must lie within 0 and 1, got {amplitude_spread!r}.")
    _check_real("cfl", cfl, above=0)
    if cfl > 1:
        raise ValueError(f"cfl must be at most 1, above which the upwind scheme is unstable, got {cfl!r}.")


def _check_waves(resolution: int, max_wavenumber: int, spike_wavenumbers: tuple[int, int]) -> None:
    """Raise ValueError unless the wavenumbers are in order and the points hold them."""
    _check_integer("resolution", resolution, 3)
    _check_integer("max_wavenumber", max_wavenumber, 1)
    if np.shape(spike_wavenumbers) != (2,):
        raise ValueError(f"spike_wavenumbers must be a lowest and a highest one, got {spike_wavenumbers!r}.")
    for number in spike_wavenumbers:
        _check_integer("spike_wavenumbers", number, 1)
    if spike_wavenumbers[0] > spike_wavenumbers[1]:
        raise ValueError(f"spike_wavenumbers must not decrease, got {spike_wavenumbers!r}.")
    highest = max(max_wavenumber, spike_wavenumbers[1])
    if resolution <= 2 * highest:
        raise ValueError(
            f"resolution must be above {2 * highest}, twice the highest wavenumber, got {resolution}. Raise it, "
            "or lower spike_wavenumbers or max_wavenumber."
        )


def _draw_waves(
    seed: np.random.SeedSequence, max_wavenumber: int, spread: float, spike_wavenumbers: tuple[int, int], spike: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw the wavenumbers, amplitudes and phases of one sample; the spike is the last wave."""
    rng = np.random.default_rng(seed)
    smooth = np.arange(1, max_wavenumber + 1)
    # The spike comes first, so that more smooth waves leave it as it is.
    wavenumbers = np.append(smooth, rng.integers(*spike_wavenumbers, endpoint=True)).astype(np.float64)
    last_phase = rng.uniform(0, 2 * np.pi)
    factors, phases = rng.uniform(-1, 1, (max_wavenumber, 2)).T
    amplitudes = np.append((1 + spread * factors) / (1 + smooth), spike)
    return wavenumbers, amplitudes, np.append(np.pi * (1 + phases), last_phase)


def _field(points: FloatArray, wavenumbers: FloatArray, amplitudes: FloatArray, phases: FloatArray) -> FloatArray:
    """Sum of sine waves at the points."""
    return np.asarray(np.sin(2 * np.pi * np.outer(points, wavenumbers) + phases) @ amplitudes)


def _upwind(fields: FloatArray, distance: float, cfl: float) -> FloatArray:
    """Fields (n, N) moved along by the upwind scheme; to the left if the distance is negative."""
    cells = abs(distance) * fields.shape[1]
    # Rounded, so that a last digit adds no step.
    n_steps = ceil(round(cells / cfl, 9))
    upstream = 1 if distance > 0 else -1
    for _ in range(n_steps):
        fields = fields - cells / n_steps * (fields - np.roll(fields, upstream, axis=1))
    return fields
