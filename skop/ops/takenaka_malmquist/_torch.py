"""The Takenaka-Malmquist system in plain torch: on the circle by phases, as responses by an FFT or a cascade.

Notation: a poles, g = sqrt(1 - |a|²) gains, z points, w = 1 - conj(a) z, u input and s state of a section, b responses;
K poles, N points, steps or tokens, E channels.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = [
    "basis",
    "coefficients_by_cascade",
    "coefficients_by_fft",
    "coefficients_by_matmul",
    "correlation_by_fft",
    "correlation_by_sums",
    "inner_products",
    "real_synthesis",
    "responses_by_cascade",
    "responses_by_fft",
    "synthesis",
    "transfer_function",
]


def basis(poles: Tensor, n_points: int, orthogonal: bool, places: Tensor | None = None) -> Tensor:
    """Values of the basis at the N-th roots of unity, or those at `places`: poles (..., K, 2) to (..., K, 2, N)."""
    turns = torch.arange(n_points, device=poles.device) if places is None else places.unsqueeze(-2)
    return _Basis.apply(poles, turns, n_points, orthogonal)


class _Basis(torch.autograd.Function):
    """Values of the basis by phases, with a gradient in fewer passes than automatic differentiation takes.

    With B = m exp(i f) and a gradient G of B, the gradients of log m and f are S = Re(conj(G) B) and T = Im(conj(B) G).
    All come from log w = log |w| + i arg w, and d log w = -(z / w) d conj(a).
    """

    @staticmethod
    def forward(ctx: Any, poles: Tensor, turns: Tensor, n_points: int, orthogonal: bool) -> Tensor:
        """Compute the values."""
        w_real, w_imaginary, _, _ = _denominators(poles, turns, n_points)
        gains = (1 - poles.square().sum(-1)).unsqueeze(-1)
        magnitudes = (gains / w_real.square().addcmul_(w_imaginary, w_imaginary)).sqrt_()
        # The real part of w is positive, so that its argument is smooth.
        phases = torch.atan2(w_imaginary, w_real)
        if orthogonal:
            # Multiples of the angles are reduced while they are whole numbers of turns, which is exact.
            orders = torch.arange(poles.shape[-2], device=poles.device).unsqueeze(-1)
            multiples = (2 * math.pi / n_points) * (orders * turns % n_points).double()
            phases = phases.sub(phases.cumsum(-2), alpha=2).add_(multiples.to(poles.dtype))
        else:
            phases = phases.neg_()
        values = torch.stack((phases.cos(), phases.sin_()), dim=-2).mul_(magnitudes.unsqueeze(-2))
        ctx.save_for_backward(poles, turns, values)
        ctx.n_points, ctx.orthogonal = n_points, orthogonal
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        """Compute the gradient of the poles, by operations that can be differentiated again."""
        poles, turns, values = ctx.saved_tensors
        real, imaginary = values.unbind(-2)
        grad_real, grad_imaginary = grad.unbind(-2)
        sizes = (grad_real * real).addcmul(grad_imaginary, imaginary)
        phases = (grad_imaginary * real).addcmul(grad_real, imaginary, value=-1)
        if ctx.orthogonal:
            # The phase of function k contains the arguments of all w_j with j < k twice, and its own once.
            later = phases.sum(-2, keepdim=True) - phases.cumsum(-2)
            phases = -phases.add(later, alpha=2)
        else:
            phases = -phases
        w_real, w_imaginary, cosine, sine = _denominators(poles, turns, ctx.n_points)
        square = w_real.square().addcmul(w_imaginary, w_imaginary)
        # z / w = z conj(w) / |w|²
        ratio_real = (w_real * cosine).addcmul(w_imaginary, sine) / square
        ratio_imaginary = (w_real * sine).addcmul(w_imaginary, cosine, value=-1) / square
        along_real = (sizes * ratio_real).addcmul(phases, ratio_imaginary, value=-1).sum(-1)
        along_imaginary = (sizes * ratio_imaginary).addcmul(phases, ratio_real).sum(-1)
        gains = sizes.sum(-1) / (1 - poles.square().sum(-1))
        grads = torch.stack((along_real, along_imaginary), dim=-1) - poles * gains.unsqueeze(-1)
        return grads.sum_to_size(poles.shape), None, None, None


def _denominators(poles: Tensor, turns: Tensor, n_points: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Real and imaginary part of w = 1 - conj(a) z, and those of the points z."""
    angles = (2 * math.pi / n_points) * turns.double()
    cosine, sine = angles.cos().to(poles.dtype), angles.sin().to(poles.dtype)
    real, imaginary = poles.unsqueeze(-1).unbind(-2)
    w_real = 1 - (real * cosine).addcmul(imaginary, sine)
    return w_real, (imaginary * cosine).addcmul(real, sine, value=-1), cosine, sine


def responses_by_fft(poles: Tensor, n_steps: int, orthogonal: bool) -> Tensor:
    """Taylor coefficients by an FFT on a circle inside the disk: poles (..., K, 2) to (..., K, 2, n_steps).

    With n points on the circle of radius r, coefficient m comes with r^(q n) times the coefficients m + q n, and
    rounding errors grow by r^-m. A quarter of the coefficients is kept, so that r^n = eps^(4/5) makes both equal.
    """
    a = torch.view_as_complex(poles.contiguous()).unsqueeze(-1)
    n_points = 1 << (4 * n_steps - 1).bit_length()
    log_radius = 0.8 * math.log(torch.finfo(poles.dtype).eps) / n_points
    angles = torch.arange(n_points, device=poles.device, dtype=torch.float64) * (2 * math.pi / n_points)
    z = torch.polar(torch.full_like(angles, math.exp(log_radius)), angles).to(a.dtype)
    w = 1 - a.conj() * z
    values = _gains(poles).unsqueeze(-1) / w
    if orthogonal:
        product, products = torch.ones_like(w[..., 0, :]), []
        for factor in ((z - a) / w).unbind(-2):
            products.append(product)
            product = product * factor
        values = values * torch.stack(products, dim=-2)
    growth = torch.exp(torch.arange(n_steps, device=poles.device, dtype=torch.float64) * -log_radius)
    damped = torch.fft.fft(values, norm="forward")[..., :n_steps]
    return torch.view_as_real(damped * growth.to(poles.dtype)).transpose(-1, -2)


def responses_by_cascade(poles: Tensor, n_steps: int, orthogonal: bool) -> Tensor:
    """Taylor coefficients by the sections of the filter: poles (..., K, 2) to (..., K, 2, n_steps)."""
    a = torch.view_as_complex(poles.contiguous())
    impulse = torch.zeros(n_steps, 1, dtype=a.dtype, device=a.device)
    impulse[0] = 1
    states = torch.stack([state[..., 0] for state in _states(impulse, a, orthogonal, periodic=False)], dim=-2)
    return torch.view_as_real(_gains(poles).unsqueeze(-1) * states).transpose(-1, -2)


def coefficients_by_matmul(signal: Tensor, poles: Tensor, orthogonal: bool) -> Tensor:
    """Inner products with the basis: signal (..., N, E) and poles (..., K, 2) to (..., K, 2, E)."""
    return inner_products(signal, basis(poles, signal.shape[-2], orthogonal))


def inner_products(signal: Tensor, values: Tensor) -> Tensor:
    """Inner products (..., K, 2, E) of a signal (..., N, E) with values (..., K, 2, N), with the factor 1/N."""
    sums = (values.flatten(-3, -2) @ signal).unflatten(-2, (-1, 2))
    return sums * (sums.new_tensor([[1.0], [-1.0]]) / signal.shape[-2])


def coefficients_by_fft(signal: Tensor, poles: Tensor, orthogonal: bool) -> Tensor:
    """Inner products of the spectra: signal (..., N, E) and poles (..., K, 2) to (..., K, 2, E)."""
    spectrum = torch.fft.fft(signal, dim=-2, norm="forward")
    # N values have N coefficients: those of the function, wrapped around.
    wrapped = torch.fft.fft(torch.complex(*basis(poles, signal.shape[-2], orthogonal).unbind(-2)), norm="forward")
    coefficients = wrapped.conj() @ spectrum
    return torch.stack((coefficients.real, coefficients.imag), dim=-2)


def coefficients_by_cascade(signal: Tensor, poles: Tensor, orthogonal: bool) -> Tensor:
    """Inner products by the sections: signal (..., N, E) and poles (..., K, 2) to (..., K, 2, E).

    The last output of the periodic filter with the response b, fed by the reversed and conjugated spectrum, is the
    conjugate of the sum of X[m] conj(b[m]).
    """
    a = torch.view_as_complex(poles.contiguous())
    spectrum = torch.fft.fft(signal, dim=-2, norm="forward")
    inputs = spectrum.conj().flip(-2)
    last = torch.stack([state[..., -1, :] for state in _states(inputs, a, orthogonal, periodic=True)], dim=-2)
    coefficients = (_gains(poles).unsqueeze(-1) * last).conj()
    return torch.stack((coefficients.real, coefficients.imag), dim=-2)


def correlation_by_fft(signal: Tensor, values: Tensor) -> Tensor:
    """Correlations by a product of spectra: signal (..., N, E) and values (..., K, 2, N) to (..., K, 2, N, E)."""
    spectrum = torch.fft.fft(signal, dim=-2, norm="forward").unsqueeze(-3)
    products = spectrum * torch.fft.fft(torch.complex(*values.unbind(-2))).conj().unsqueeze(-1)
    lags = torch.fft.ifft(products, dim=-2)
    return torch.stack((lags.real, lags.imag), dim=-3)


def correlation_by_sums(signal: Tensor, values: Tensor) -> Tensor:
    """Correlations by the sum for each lag: signal (..., N, E) and values (..., K, 2, N) to (..., K, 2, N, E)."""
    points = torch.arange(signal.shape[-2], device=signal.device)
    shifted = values[..., (points - points.unsqueeze(-1)) % signal.shape[-2]]
    sums = shifted @ signal[..., None, None, :, :]
    return sums * (sums.new_tensor([1.0, -1.0]) / signal.shape[-2]).view(2, 1, 1)


def synthesis(coefficients: Tensor, values: Tensor) -> Tensor:
    """Sums of c_k B_k: coefficients (..., K, 2, E) and values (..., K, 2, N) to (..., N, E, 2)."""
    c_real, c_imaginary = coefficients.unbind(-2)
    # The imaginary part of a sum is the real part of -i times it.
    turned = torch.stack((c_imaginary, -c_real), dim=-2)
    return torch.stack((real_synthesis(coefficients, values), real_synthesis(turned, values)), dim=-1)


def real_synthesis(coefficients: Tensor, values: Tensor) -> Tensor:
    """Real part (..., N, E) of the sums of c_k B_k."""
    conjugates = coefficients * coefficients.new_tensor([[1.0], [-1.0]])
    return values.flatten(-3, -2).transpose(-1, -2) @ conjugates.flatten(-3, -2)


def transfer_function(poles: Tensor, kernel: bool) -> tuple[Tensor, Tensor]:
    """Coefficients in z^-1 of the numerator and the denominator of conj(B_K): poles (..., K, 2) to (..., K + 1, 2)."""
    a = torch.view_as_complex(poles.contiguous()).unsqueeze(-1)
    ones = torch.ones_like(a[..., 0, :])
    numerator, denominator = ones, ones
    sections = a.unbind(-2)
    for number, pole in enumerate(sections, start=1):
        denominator = pad(denominator, (0, 1)) - pole * pad(denominator, (1, 0))
        if kernel and number == len(sections):
            numerator = pad(_gains(poles)[..., -1:] * numerator, (0, 1))
        else:
            numerator = pad(numerator, (1, 0)) - pole.conj() * pad(numerator, (0, 1))
    return torch.view_as_real(numerator), torch.view_as_real(denominator)


def _gains(poles: Tensor) -> Tensor:
    """Norms sqrt(1 - |a|²) that make the kernels unit vectors: (..., K, 2) to (..., K)."""
    return (1 - poles.square().sum(-1)).sqrt()


def _states(u: Tensor, a: Tensor, orthogonal: bool, periodic: bool) -> Iterator[Tensor]:
    """Give the state of each section for the input u (..., N, E): s_k[m] = conj(a_k) s_k[m-1] + u_k[m]."""
    # One state serves both parts of a section: g_k s_k[m] is the one-pole part, and s_k[m-1] - a_k s_k[m] the all-pass
    # part (z - a_k) / (1 - conj(a_k) z), which is the input of the next section. Without `orthogonal` all sections have
    # the same input.
    u = u.expand(*torch.broadcast_shapes(a.shape[:-1], u.shape[:-2]), *u.shape[-2:])
    for pole in a[..., None, None].unbind(-3):
        state = _first_order(pole.conj(), u, periodic)
        yield state
        if orthogonal:
            before = state.roll(1, -2) if periodic else pad(state[..., :-1, :], (0, 0, 1, 0))
            u = before - pole * state


def _first_order(decay: Tensor, u: Tensor, periodic: bool) -> Tensor:
    """Solve s[m] = decay s[m-1] + u[m] for u (..., N, E) and a decay (..., 1, 1)."""
    # s[-1] is 0, or s[N-1] where the solution is periodic. About sqrt(N) rows of sqrt(N) steps each are solved side by
    # side, and then the last state of each row is carried into the next: linear in N, in 2 sqrt(N) steps.
    n_steps = u.shape[-2]
    if periodic:
        # One more channel is the solution without input that starts from 1: decay^(m+1).
        start = torch.zeros(n_steps, 1, dtype=u.dtype, device=u.device)
        start[0] = 1
        u = torch.cat((u, (decay * start).expand(*u.shape[:-1], 1)), dim=-1)
    width = math.isqrt(n_steps - 1) + 1
    n_rows = -(-n_steps // width)
    rows = pad(u, (0, 0, n_rows * width - n_steps, 0)).unflatten(-2, (n_rows, width))
    states, powers = [rows[..., 0, :]], [decay]
    for column in rows.unbind(-2)[1:]:
        states.append(column + decay * states[-1])
        powers.append(decay * powers[-1])
    carries, power = [torch.zeros_like(states[-1][..., 0, :])], powers[-1][..., 0]
    for last in states[-1].unbind(-2)[:-1]:
        carries.append(last + power * carries[-1])
    carried = torch.stack(powers, dim=-2) * torch.stack(carries, dim=-2).unsqueeze(-2)
    s = (torch.stack(states, dim=-2) + carried).flatten(-3, -2)[..., n_rows * width - n_steps :, :]
    if periodic:
        s, free = s[..., :-1], s[..., -1:]
        s = s + free * (s[..., -1:, :] / (1 - free[..., -1:, :]))
    return s
