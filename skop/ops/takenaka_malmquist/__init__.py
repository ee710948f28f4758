"""The Takenaka-Malmquist system: rational orthonormal functions on the unit circle with poles of one's choice.

Notation: a poles in the unit disk, z points of the unit circle, B_k functions of the system, b_k their Taylor
coefficients, x signal, c coefficients; K poles, N points or tokens, E channels.
"""

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

from skop.ops._arguments import autocast_off
from skop.ops.takenaka_malmquist import _torch
from skop.ops.takenaka_malmquist._decomposition import adaptive_fourier_decomposition

__all__ = [
    "adaptive_fourier_decomposition",
    "takenaka_malmquist_basis",
    "takenaka_malmquist_coefficients",
    "takenaka_malmquist_correlation",
    "takenaka_malmquist_responses",
    "takenaka_malmquist_synthesis",
    "takenaka_malmquist_transfer_function",
]


def takenaka_malmquist_basis(
    poles: Tensor, n_points: int, *, orthogonal: bool = True, places: Tensor | None = None
) -> Tensor:
    """Evaluate the Takenaka-Malmquist functions at the roots of unity.

    At ``z_n = exp(2 pi i n / N)``, for k = 1, ..., K, with poles inside the unit disk [1]_, Eq. 6::

        B_k(z) = sqrt(1 - |a_k|²) / (1 - conj(a_k) z)  ·  Π_{j<k} (z - a_j) / (1 - conj(a_j) z)

    The functions are orthonormal on the circle, whatever the poles; with all poles 0 they are ``z^(k-1)``, the Fourier
    series. On the N points they are orthonormal up to an error that falls with N like ``r^N`` for poles of modulus r
    and grows with K. At K = N nothing is left of it unless all poles are 0; a real signal has room for N / 2 functions.

    Parameters
    ----------
    poles : Tensor of shape (..., K, 2)
        Real and imaginary parts of the poles, each pole of modulus below 1. Their order changes the functions, but not
        their span.
    n_points : int
        Number N of points on the circle, at least 1.
    orthogonal : bool, default=True
        Whether the functions are orthogonal. False leaves out the product, which gives normalised Szegő kernels.
    places : int64 Tensor of shape (..., P) or None, default=None
        Numbers n of the points to evaluate at, in [0, N), in any order; None takes all N in theirs. Leading axes are
        broadcast with those of the poles, so that each set of poles can have an order of its own.

    Returns
    -------
    Tensor of shape (..., K, 2, N), or (..., K, 2, P) at `places`
        Real and imaginary parts of the values, in the dtype of the poles, float32 at least.

    Raises
    ------
    ValueError
        If a shape or dtype does not fit; on a CPU also if a pole does not lie inside the disk. On other devices, where
        a look at the values would wait for the device, the functions of such a pole are meaningless.

    References
    ----------
    .. [1] Song and Jiang, "Adaptive Mamba neural operators", section 3.2, Eqs. 5 and 6.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import takenaka_malmquist_basis
    >>> basis = takenaka_malmquist_basis(torch.tensor([[0.5, 0.0], [0.0, 0.3]]), 64)
    >>> values = torch.complex(basis[:, 0], basis[:, 1])
    >>> (values @ values.mH / 64).abs().round(decimals=4)
    tensor([[1., 0.],
            [0., 1.]])
    """
    (poles,) = _in_working_precision(poles=poles)
    _check_poles(poles)
    _check_count("n_points", n_points)
    if places is not None:
        _check_places(places, poles)
    with autocast_off(poles.device):
        return _torch.basis(poles, n_points, orthogonal, places)


def takenaka_malmquist_responses(
    poles: Tensor, n_steps: int, *, orthogonal: bool = True, method: str = "fft"
) -> Tensor:
    """Compute the Taylor coefficients of the Takenaka-Malmquist functions: responses of stable filters.

    ``B_k(z) = Σ_m b_k[m] z^m`` for m = 0, 1, ...; on the circle ``conj(B_k(z)) = Σ_m conj(b_k[m]) z^-m``, so that
    ``conj(b_k)`` is the impulse response of the causal, stable filter conj(B_k), the transfer function of [1]_, Eqs. 7
    and 8. The filter is a one-pole section behind k - 1 all-pass sections.

    Parameters
    ----------
    poles : Tensor of shape (..., K, 2)
        Real and imaginary parts of the poles, each pole of modulus below 1.
    n_steps : int
        Number of coefficients, at least 1.
    orthogonal : bool, default=True
        Whether the functions are orthogonal. False gives the responses of normalised Szegő kernels, one-pole sections.
    method : {"fft", "cascade"}, default="fft"
        How they are computed. ``"fft"`` evaluates the functions on a circle inside the disk and takes a Fourier
        transform; its error is below 1e-12 in float64 and 1e-5 in float32, whatever the poles. ``"cascade"`` runs the
        sections one after the other, exact to rounding and linear in K and `n_steps`, in some ``K sqrt(n_steps)``
        dependent operations.

    Returns
    -------
    Tensor of shape (..., K, 2, n_steps)
        Real and imaginary parts of ``b_k[m]``, in the dtype of the poles, float32 at least.

    Raises
    ------
    ValueError
        As `takenaka_malmquist_basis`, and if the method is unknown.

    References
    ----------
    .. [1] Song and Jiang, "Adaptive Mamba neural operators", section 3.2, Eqs. 7 and 8.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import takenaka_malmquist_responses
    >>> takenaka_malmquist_responses(torch.tensor([[0.6, 0.0]]), 4, method="cascade")[0, 0]
    tensor([0.8000, 0.4800, 0.2880, 0.1728])
    """
    (poles,) = _in_working_precision(poles=poles)
    _check_poles(poles)
    _check_count("n_steps", n_steps)
    compute = _chosen(method, {"fft": _torch.responses_by_fft, "cascade": _torch.responses_by_cascade})
    with autocast_off(poles.device):
        return compute(poles, n_steps, orthogonal)


def takenaka_malmquist_coefficients(
    signal: Tensor, poles: Tensor, *, orthogonal: bool = True, method: str = "matmul"
) -> Tensor:
    """Compute the inner products of a signal with the Takenaka-Malmquist functions.

    With the tokens as samples at the roots of unity, as in [1]_, Eq. 11, and the factor 1/N of its inner product::

        c_k = (1/N) Σ_n x[n] conj(B_k(z_n))

    All methods give the same up to rounding, and all are differentiable, also twice.

    Parameters
    ----------
    signal : Tensor of shape (..., N, E)
        Real samples of each channel.
    poles : Tensor of shape (..., K, 2)
        Real and imaginary parts of the poles, each pole of modulus below 1. The leading axes of signal and poles are
        broadcast.
    orthogonal : bool, default=True
        Whether the functions are orthogonal; False takes normalised Szegő kernels.
    method : {"matmul", "cascade", "fft"}, default="matmul"
        How they are computed. ``"matmul"`` multiplies by the basis, K N E multiplications, and is the fastest where K
        is some dozens. ``"cascade"`` runs the spectrum of the signal through the sections of the filter, in memory and
        time linear in K, N and E, without the basis. ``"fft"`` sums the product of the spectra of signal and basis.

    Returns
    -------
    Tensor of shape (..., K, 2, E)
        Real and imaginary parts of the coefficients, in the wider dtype of the two, float32 at least.

    Raises
    ------
    ValueError
        If a shape, dtype or device does not fit or the method is unknown; for poles outside the disk as
        `takenaka_malmquist_basis`.

    References
    ----------
    .. [1] Song and Jiang, "Adaptive Mamba neural operators", section 3.2, Eq. 11.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import takenaka_malmquist_coefficients
    >>> cosine = torch.cos(2 * torch.pi * torch.arange(8) / 8).unsqueeze(-1)
    >>> takenaka_malmquist_coefficients(cosine, torch.zeros(3, 2))[:, 0, 0].round(decimals=4).abs()
    tensor([0.0000, 0.5000, 0.0000])
    """
    signal, poles = _in_working_precision(signal=signal, poles=poles)
    _check_signal(signal, poles)
    forms = {
        "matmul": _torch.coefficients_by_matmul,
        "cascade": _torch.coefficients_by_cascade,
        "fft": _torch.coefficients_by_fft,
    }
    compute = _chosen(method, forms)
    with autocast_off(poles.device):
        return compute(signal, poles, orthogonal)


def takenaka_malmquist_synthesis(
    coefficients: Tensor, poles: Tensor, n_points: int, *, orthogonal: bool = True
) -> Tensor:
    """Sum Takenaka-Malmquist functions with given coefficients: ``f(z_n) = Σ_k c_k B_k(z_n)``, [1]_, Eq. 13.

    Up to the factor 1/N this is the adjoint of `takenaka_malmquist_coefficients`. A real signal is twice the real part
    less its mean.

    Parameters
    ----------
    coefficients : Tensor of shape (..., K, 2, E)
        Real and imaginary parts of the coefficients of each channel.
    poles : Tensor of shape (..., K, 2)
        Real and imaginary parts of the poles, each pole of modulus below 1. The leading axes of coefficients and poles
        are broadcast.
    n_points : int
        Number N of points, at least 1; it need not be that of the signal from which the coefficients come.
    orthogonal : bool, default=True
        Whether the functions are orthogonal; False takes normalised Szegő kernels.

    Returns
    -------
    Tensor of shape (..., N, E, 2)
        Real and imaginary parts of the sums at ``exp(2 pi i n / N)``.

    Raises
    ------
    ValueError
        If a shape, dtype or device does not fit; for poles outside the disk as `takenaka_malmquist_basis`.

    References
    ----------
    .. [1] Song and Jiang, "Adaptive Mamba neural operators", section 3.2, Eqs. 12 and 13.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import takenaka_malmquist_coefficients, takenaka_malmquist_synthesis
    >>> poles, c = torch.tensor([[0.5, 0.0], [0.0, 0.3]]), torch.tensor([[[1.0], [0.0]], [[0.0], [2.0]]])
    >>> f = takenaka_malmquist_synthesis(c, poles, 64)
    >>> real, imaginary = (takenaka_malmquist_coefficients(part, poles) for part in f.unbind(-1))
    >>> torch.allclose(real[:, 0] - imaginary[:, 1], c[:, 0], atol=1e-5)
    True
    """
    coefficients, poles = _in_working_precision(coefficients=coefficients, poles=poles)
    _check_poles(poles)
    _check_count("n_points", n_points)
    n_poles = poles.shape[-2]
    if coefficients.ndim < 3 or coefficients.shape[-3:-1] != (n_poles, 2):
        raise ValueError(
            f"coefficients has shape {tuple(coefficients.shape)}; expected (..., K, 2, E) with K = {n_poles} poles."
        )
    _check_together("coefficients", coefficients, coefficients.shape[:-3], poles)
    with autocast_off(poles.device):
        return _torch.synthesis(coefficients, _torch.basis(poles, n_points, orthogonal))


def takenaka_malmquist_correlation(
    signal: Tensor, poles: Tensor, *, orthogonal: bool = True, method: str = "fft"
) -> Tensor:
    """Correlate a signal with the Takenaka-Malmquist functions at all lags.

    As in [1]_, Eq. 10, with the factor 1/N of its inner product; lag 0 is `takenaka_malmquist_coefficients`::

        y_k[l] = (1/N) Σ_n x[n] conj(B_k(z_{n-l})),    l = 0, ..., N - 1

    Its spectrum is that of x times the conjugate of that of the samples of B_k. Eq. 9, taken literally, multiplies by
    ``conj(B_k(z_m))`` itself, which is another operation: the filter whose impulse response is
    `takenaka_malmquist_responses`.

    Parameters
    ----------
    signal : Tensor of shape (..., N, E)
        Real samples of each channel.
    poles : Tensor of shape (..., K, 2)
        Real and imaginary parts of the poles, each pole of modulus below 1. The leading axes of signal and poles are
        broadcast.
    orthogonal : bool, default=True
        Whether the functions are orthogonal; False takes normalised Szegő kernels.
    method : {"fft", "direct"}, default="fft"
        Product of the spectra, or the sum for each lag, whose cost grows with the square of N.

    Returns
    -------
    Tensor of shape (..., K, 2, N, E)
        Real and imaginary parts for each lag.

    Raises
    ------
    ValueError
        As `takenaka_malmquist_coefficients`.

    References
    ----------
    .. [1] Song and Jiang, "Adaptive Mamba neural operators", section 3.2, Eqs. 9 and 10.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import takenaka_malmquist_coefficients
    >>> from skop.ops.takenaka_malmquist import takenaka_malmquist_correlation
    >>> signal, poles = torch.randn(16, 3), torch.tensor([[0.5, 0.0], [0.0, 0.3]])
    >>> lags = takenaka_malmquist_correlation(signal, poles)
    >>> lags.shape, torch.allclose(lags[..., 0, :], takenaka_malmquist_coefficients(signal, poles), atol=1e-6)
    (torch.Size([2, 2, 16, 3]), True)
    """
    signal, poles = _in_working_precision(signal=signal, poles=poles)
    _check_signal(signal, poles)
    compute = _chosen(method, {"fft": _torch.correlation_by_fft, "direct": _torch.correlation_by_sums})
    with autocast_off(poles.device):
        return compute(signal, _torch.basis(poles, signal.shape[-2], orthogonal))


def takenaka_malmquist_transfer_function(poles: Tensor, *, kernel: bool = True) -> tuple[Tensor, Tensor]:
    """Expand the filter of the last Takenaka-Malmquist function into a ratio of polynomials in z^-1.

    On the circle conj(B_K) is the causal, stable filter::

        H(z) = sqrt(1 - |a_K|²) / (1 - a_K z^-1)  ·  Π_{j<K} (z^-1 - conj(a_j)) / (1 - a_j z^-1)

    with the poles a_j. This is the form of [1]_, Appendix E, whose printed example is the reciprocal, unstable for
    poles in the disk, and lacks the kernel and the conjugates. Polynomials of many poles are sensitive to rounding: for
    filtering, `takenaka_malmquist_responses` is the better way.

    Parameters
    ----------
    poles : Tensor of shape (..., K, 2)
        Real and imaginary parts of the poles, each pole of modulus below 1.
    kernel : bool, default=True
        Whether the last pole gives the kernel. False gives the pure Blaschke product of all K all-pass factors, whose
        modulus on the circle is 1.

    Returns
    -------
    numerator, denominator : Tensor of shape (..., K + 1, 2)
        Real and imaginary parts of the coefficients of ``z^0, z^-1, ..., z^-K``. The denominator starts with 1.

    Raises
    ------
    ValueError
        As `takenaka_malmquist_basis`.

    References
    ----------
    .. [1] Song and Jiang, "Adaptive Mamba neural operators", Appendix E, Eqs. 43 to 45.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import takenaka_malmquist_transfer_function
    >>> numerator, denominator = takenaka_malmquist_transfer_function(torch.tensor([[0.5, 0.0], [0.6, 0.0]]))
    >>> numerator[:, 0], denominator[:, 0]
    (tensor([-0.4000,  0.8000,  0.0000]), tensor([ 1.0000, -1.1000,  0.3000]))
    """
    (poles,) = _in_working_precision(poles=poles)
    _check_poles(poles)
    return _torch.transfer_function(poles, kernel)


def _chosen(method: str, forms: dict[str, Callable[..., Tensor]]) -> Callable[..., Tensor]:
    """Give the form of a method; ValueError where there is none."""
    if method not in forms:
        raise ValueError(f"method is {method!r}; expected one of {', '.join(map(repr, forms))}.")
    return forms[method]


def _check_poles(poles: Tensor) -> None:
    """Raise ValueError unless there are poles, as pairs of real numbers, inside the disk where that costs no wait."""
    if poles.ndim < 2 or poles.shape[-1] != 2 or poles.shape[-2] == 0:
        raise ValueError(
            f"poles has shape {tuple(poles.shape)}; expected (..., K, 2), at least one pole, real and imaginary part."
        )
    if poles.device.type == "cpu" and poles.numel() and not torch.compiler.is_compiling():
        largest = poles.detach().square().sum(-1).max().sqrt().item()
        # Poles that are no numbers are passed on, so that a training sees a loss that is none, and steps back.
        if largest >= 1:
            raise ValueError(
                f"the largest modulus of poles is {largest:.6g}; expected all below 1, for example by a map onto the "
                f"disk such as 0.95 a / sqrt(1 + |a|²)."
            )


def _check_signal(signal: Tensor, poles: Tensor) -> None:
    """Raise ValueError unless a signal has tokens and channels and fits its poles, which are checked too."""
    _check_poles(poles)
    if signal.ndim < 2 or signal.shape[-2] == 0:
        raise ValueError(f"signal has shape {tuple(signal.shape)}; expected (..., N, E), at least one token.")
    _check_together("signal", signal, signal.shape[:-2], poles)


def _check_places(places: Tensor, poles: Tensor) -> None:
    """Raise ValueError unless places are integers along an axis, with leading axes and a device that fit the poles."""
    if places.ndim == 0 or places.is_floating_point() or places.is_complex():
        raise ValueError(
            f"places has shape {tuple(places.shape)} and dtype {places.dtype}; expected (..., P), numbers of points."
        )
    _check_together("places", places, places.shape[:-1], poles)


def _check_together(name: str, value: Tensor, batch: torch.Size, poles: Tensor) -> None:
    """Raise ValueError unless the leading axes of a tensor and of its poles broadcast, on one device."""
    try:
        torch.broadcast_shapes(batch, poles.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"{name} has the leading axes {tuple(batch)} and poles has {tuple(poles.shape[:-2])}; expected axes that "
            f"broadcast."
        ) from None
    if value.device != poles.device:
        raise ValueError(f"{name} is on {value.device}; expected {poles.device}, where poles is.")


def _check_count(name: str, count: int) -> None:
    """Raise ValueError unless a number of points or steps is a positive integer."""
    # A fraction would pass as a number of points, at angles that are not those of the roots of unity.
    if not hasattr(count, "__index__") or count < 1:
        raise ValueError(f"{name} is {count}; expected at least 1, an integer.")


def _in_working_precision(**tensors: Tensor) -> list[Tensor]:
    """Bring real tensors to the widest of their precisions and float32; an error for what is none."""
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} is {type(value).__name__}; expected a tensor: torch.as_tensor({name}).")
        if not value.is_floating_point():
            raise ValueError(f"{name} has dtype {value.dtype}; expected a real floating-point dtype.")
    dtype = reduce(torch.promote_types, (value.dtype for value in tensors.values()), torch.float32)
    return [value.to(dtype) for value in tensors.values()]
