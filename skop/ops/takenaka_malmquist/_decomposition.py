"""The adaptive Fourier decomposition: poles chosen one after the other, each the best for what remains of the signal.

It works on Taylor coefficients, in NumPy, and shares nothing with the basis functions of this package, which are
tested against it.

Notation: f function as its M Taylor coefficients per channel (M, E), a pole, c coefficient; K poles, N points,
E channels.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skop._typing import FloatArray

__all__ = ["AdaptiveFourierDecomposition", "adaptive_fourier_decomposition"]

ComplexArray = npt.NDArray[np.complexfloating[Any, Any]]

#: Number of radii of the grid of poles that are tried first.
_N_RADII = 32
#: Most steps of the refinement; each halves the distance of the poles that are tried, which ends below 1e-9.
_MAX_STEPS = 60
_SMALLEST_STEP = 1e-9


class AdaptiveFourierDecomposition(NamedTuple):
    """Result of `adaptive_fourier_decomposition`."""

    poles: FloatArray
    coefficients: FloatArray
    energies: FloatArray


def adaptive_fourier_decomposition(
    signal: npt.ArrayLike, n_poles: int, *, max_radius: float = 0.98
) -> AdaptiveFourierDecomposition:
    """Decompose a signal into Takenaka-Malmquist functions whose poles are chosen greedily for it.

    This is the adaptive Fourier decomposition (AFD) of [1]_: each pole maximises the energy that its function takes
    out of what remains, ``|<f_k, e_a>|² = (1 - |a|²) |f_k(a)|²`` with e_a the normalised Szegő kernel, where f_k is
    the reduced remainder::

        f_1 = f,    c_k = <f_k, e_{a_k}>,    f_{k+1}(z) = (f_k(z) - c_k e_{a_k}(z)) (1 - conj(a_k) z) / (z - a_k)

    Then f is the sum of ``c_k B_k``. For several channels the poles are shared, and the energies are summed [2]_. The
    samples are those of a polynomial in z, whose remainders are polynomials again, so that no step has a quadrature
    error. The maximum is searched on a grid of radii and angles and then refined; it is not certain to be the global
    one, but nearly so.

    The remainder after K poles has a norm of at most ``M / sqrt(K)`` for a function that is a combination of
    normalised kernels whose coefficients have the sum of moduli M: the rate of the orthogonal greedy algorithm [3]_,
    which takes out no more energy in a step.

    Parameters
    ----------
    signal : array-like of shape (N,) or (N, E)
        Samples at ``exp(2 pi i n / N)``. A real signal x is replaced by its analytic half f, with
        ``x = 2 Re f - mean(x)``; complex samples are those of a polynomial f of degree below N.
    n_poles : int
        Number K of poles, at least 1.
    max_radius : float, default=0.98
        Largest modulus of a pole, above 0 and below 1.

    Returns
    -------
    AdaptiveFourierDecomposition
        Named tuple of

        - ``poles``, ndarray of shape (K, 2): Real and imaginary parts of the poles, in the order in which they were
          chosen.
        - ``coefficients``, ndarray of shape (K, 2, E): Real and imaginary parts of the coefficients of the
          Takenaka-Malmquist functions of these poles, which are inner products on the whole circle.
        - ``energies``, ndarray of shape (K + 1,): Mean square on the circle of what remains after 0, 1, ..., K
          functions, summed over the channels; it never increases.

    Raises
    ------
    ValueError
        If the signal has another shape or values that are not finite numbers, or a number is out of its range.

    See Also
    --------
    takenaka_malmquist_coefficients : The coefficients for given poles, differentiable.

    References
    ----------
    .. [1] T. Qian, L. Zhang and Z. Li, "Algorithm of adaptive Fourier decomposition", IEEE Transactions on Signal
       Processing 59(12), 2011, pp. 5899-5906.
    .. [2] Z. Wang, C. M. Wong, A. Rosa, T. Qian and F. Wan, "Adaptive Fourier decomposition for multi-channel signal
       analysis", IEEE Transactions on Signal Processing 70, 2022, pp. 903-918.
    .. [3] R. A. DeVore and V. N. Temlyakov, "Some remarks on greedy algorithms", Advances in Computational Mathematics
       5, 1996, pp. 173-187.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.ops import adaptive_fourier_decomposition
    >>> angles = 2 * np.pi * np.arange(64) / 64
    >>> result = adaptive_fourier_decomposition(1 / (1.25 - np.cos(angles)), 1)  # twice the real part of a kernel
    >>> result.poles.round(3) + 0.0, (result.energies / result.energies[0]).round(6)
    (array([[0.5, 0. ]]), array([1., 0.]))
    """
    f = _taylor_coefficients(signal)
    if not hasattr(n_poles, "__index__") or n_poles < 1:
        raise ValueError(f"n_poles is {n_poles}; expected at least 1, an integer.")
    if not 0 < max_radius < 1:
        raise ValueError(f"max_radius is {max_radius}; expected a number above 0 and below 1.")
    poles, coefficients, energies = [], [], [_energy(f)]
    for _ in range(n_poles):
        a = _refined(f, *_best_of_grid(f, max_radius), max_radius)
        c = np.sqrt(1 - abs(a) ** 2) * _at(f, np.array([a]))[0]
        f = _reduced_remainder(f, a, c)
        poles.append([a.real, a.imag])
        coefficients.append([c.real, c.imag])
        energies.append(_energy(f))
    return AdaptiveFourierDecomposition(np.array(poles), np.array(coefficients), np.array(energies))


def _taylor_coefficients(signal: npt.ArrayLike) -> ComplexArray:
    """Coefficients (M, E) of the polynomial f that has the samples, or whose real part gives them."""
    x = np.asarray(signal)
    if x.ndim not in (1, 2) or 0 in x.shape:
        raise ValueError(f"signal has shape {x.shape}; expected (N,) or (N, E), neither of them 0.")
    if not np.issubdtype(x.dtype, np.number) or not np.isfinite(x).all():
        raise ValueError("signal holds values that are not finite numbers; expected finite numbers only.")
    x = x.reshape(len(x), -1)
    if np.iscomplexobj(x):
        return np.fft.fft(x.astype(np.complex128), axis=0, norm="forward")
    f = np.fft.rfft(x.astype(np.float64), axis=0, norm="forward")
    if len(x) % 2 == 0:
        # 2 Re f counts all but the mean twice, and the highest frequency of an even number of samples is there once.
        f[-1] /= 2
    return f


def _energy(f: ComplexArray) -> float:
    """Mean square on the circle, summed over the channels: Parseval's sum of the coefficients."""
    return float(np.sum(f.real**2 + f.imag**2))


def _at(f: ComplexArray, points: ComplexArray) -> ComplexArray:
    """Values (P, E) at points (P,) of the disk."""
    return points[:, None] ** np.arange(len(f)) @ f


def _gain(f: ComplexArray, points: ComplexArray) -> FloatArray:
    """Energy (P,) that the kernel of each point would take out of f: (1 - |a|²) |f(a)|²."""
    values = _at(f, points)
    return (1 - np.abs(points) ** 2) * np.sum(values.real**2 + values.imag**2, axis=1)


def _best_of_grid(f: ComplexArray, max_radius: float) -> tuple[complex, float]:
    """Best pole of a polar grid, and the distance to its neighbours."""
    # The radii are equidistant in the hyperbolic distance from the origin: near the circle kernels are narrow. The
    # values on each circle are one FFT.
    distances = np.linspace(0, np.arctanh(max_radius), _N_RADII)
    n_angles = 1 << (4 * len(f) - 1).bit_length()
    damped = f * np.tanh(distances)[:, None, None] ** np.arange(len(f))[:, None]
    values = np.fft.ifft(damped, n_angles, axis=1, norm="forward")
    gains = (1 - np.tanh(distances)[:, None] ** 2) * np.sum(values.real**2 + values.imag**2, axis=2)
    row, column = np.unravel_index(np.argmax(gains), gains.shape)
    radius = np.tanh(distances[row])
    spacing = max((1 - radius**2) * distances[1], 2 * np.pi * radius / n_angles)
    return complex(radius * np.exp(2j * np.pi * column / n_angles)), float(spacing)


def _refined(f: ComplexArray, a: complex, step: float, max_radius: float) -> complex:
    """Climb from a pole to the maximum near it, by squares of 5 by 5 poles that become smaller."""
    offsets = np.add.outer(np.arange(-2, 3), 1j * np.arange(-2, 3)).ravel() / 2
    for _ in range(_MAX_STEPS):
        near = a + step * offsets
        points = np.append(a, near[np.abs(near) <= max_radius])
        best = points[np.argmax(_gain(f, points))]
        if abs(best - a) < step:
            step /= 2
        a = complex(best)
        if step < _SMALLEST_STEP:
            break
    return a


def _reduced_remainder(f: ComplexArray, a: complex, c: ComplexArray) -> ComplexArray:
    """Coefficients (M, E) of (f(z) - c e_a(z)) (1 - conj(a) z) / (z - a), by division of polynomials.

    The numerator is zero at a, and the division starts from the highest power, which is stable inside the disk.
    """
    numerator = np.concatenate((f, np.zeros_like(f[:1])))
    numerator[1:] -= np.conj(a) * f
    numerator[0] -= c * np.sqrt(1 - abs(a) ** 2)
    quotient = np.empty_like(f)
    row = np.zeros_like(f[0])
    for m in reversed(range(len(f))):
        row = numerator[m + 1] + a * row
        quotient[m] = row
    return quotient
