"""The Takenaka-Malmquist system: its definition, the laws of an orthonormal system, and the paper's own statements."""

import math
from functools import partial

import numpy as np
import pytest
import takenaka_malmquist_as_written as as_written
import torch
from torch.autograd import gradcheck, gradgradcheck

from skop.ops import (
    adaptive_fourier_decomposition,
    takenaka_malmquist_basis,
    takenaka_malmquist_coefficients,
    takenaka_malmquist_responses,
    takenaka_malmquist_synthesis,
    takenaka_malmquist_transfer_function,
)
from skop.ops.takenaka_malmquist import takenaka_malmquist_correlation

METHODS = ("matmul", "cascade", "fft")
RESPONSES = ("fft", "cascade")
CORRELATIONS = ("fft", "direct")


def some_poles(*shape, radius=0.9, seed=0, dtype=torch.float64):
    """Random poles (*shape, 2), uniform in the disk of a radius."""
    generator = torch.Generator().manual_seed(seed)
    moduli = radius * torch.rand(shape, generator=generator, dtype=torch.float64).sqrt()
    angles = 2 * math.pi * torch.rand(shape, generator=generator, dtype=torch.float64)
    return torch.stack((moduli * angles.cos(), moduli * angles.sin()), dim=-1).to(dtype)


def normal(*shape, seed=1, dtype=torch.float64):
    """Normal random numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def as_complex(values, axis=-2):
    """Complex numbers from real and imaginary parts on an axis."""
    return torch.complex(*values.unbind(axis))


def as_real(values, axis=-2):
    """Real and imaginary parts of complex numbers on a new axis."""
    return torch.stack((values.real, values.imag), dim=axis)


def circle(n_points):
    """Roots of unity."""
    return torch.exp(2j * math.pi * torch.arange(n_points, dtype=torch.float64) / n_points)


def mean_square(f):
    """Energy (E,) of complex samples (N, E)."""
    return f.abs().square().mean(0)


def projection(signal, poles):
    """2 Re Σ c_k B_k with the mean of the signal (N, E) in place of its own."""
    half = takenaka_malmquist_synthesis(takenaka_malmquist_coefficients(signal, poles), poles, len(signal))[..., 0]
    return 2 * (half - half.mean(0)) + signal.mean(0)


def gram(poles, n_points):
    """Discrete inner products (K, K) of the functions."""
    values = as_complex(takenaka_malmquist_basis(poles, n_points))
    return values @ values.mH / n_points


def gram_error(poles, n_points):
    """Largest difference of the discrete inner products from those on the circle."""
    return (gram(poles, n_points) - torch.eye(poles.shape[-2])).abs().max().item()


def aliasing_bound(radius, n_points, n_poles):
    """Largest error of the discrete inner products for poles of modulus up to a radius, from the README."""
    bounds = []
    for t in np.linspace(0.01, 0.99, 99):
        R, r, N = radius**-t, radius, n_points
        growth = ((R - r) / (1 - r * R)) ** (n_poles - 1)
        bounds.append(2 * R**-N / (1 - R**-N) * (1 - r * r) / ((1 - r * R) * (1 - r / R)) * growth)
    return min(bounds)


# -- Definition ------------------------------------------------------------------------------------------------------


def test_all_methods_are_the_definition():
    for orthogonal in [True, False]:
        for radius in [0.0, 0.5, 0.98]:
            poles, signal = some_poles(5, radius=radius), normal(12, 2)
            a = as_complex(poles, -1)
            basis = as_real(as_written.basis(a, 12, orthogonal))
            torch.testing.assert_close(takenaka_malmquist_basis(poles, 12, orthogonal=orthogonal), basis)
            c = as_real(as_written.coefficients(signal, a, orthogonal))
            for method in METHODS:
                found = takenaka_malmquist_coefficients(signal, poles, method=method, orthogonal=orthogonal)
                torch.testing.assert_close(found, c, rtol=1e-12, atol=1e-12)
            lags = as_real(as_written.correlation(signal, a, orthogonal), -3)
            for method in CORRELATIONS:
                found = takenaka_malmquist_correlation(signal, poles, method=method, orthogonal=orthogonal)
                torch.testing.assert_close(found, lags, rtol=1e-12, atol=1e-12)
            sums = as_real(as_written.synthesis(as_complex(c), a, 9, orthogonal), -1)
            torch.testing.assert_close(takenaka_malmquist_synthesis(c, poles, 9, orthogonal=orthogonal), sums)
            responses = as_real(as_written.responses(a, 12, orthogonal))
            for method in RESPONSES:
                found = takenaka_malmquist_responses(poles, 12, method=method, orthogonal=orthogonal)
                torch.testing.assert_close(found, responses, rtol=0, atol=1e-11)


def test_responses_of_any_length():
    for n_steps in [1, 2, 3, 10, 64]:
        poles = some_poles(4)
        expected = as_real(as_written.responses(as_complex(poles, -1), n_steps))
        for method in RESPONSES:
            found = takenaka_malmquist_responses(poles, n_steps, method=method)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


def test_coefficients_of_few_tokens():
    for n_tokens in [1, 2, 5, 7]:
        # The responses are longer than the signal: what wraps around must count too.
        poles, signal = some_poles(3, radius=0.98), normal(n_tokens, 2)
        expected = takenaka_malmquist_coefficients(signal, poles)
        for method in METHODS[1:]:
            torch.testing.assert_close(takenaka_malmquist_coefficients(signal, poles, method=method), expected)


def test_responses_are_taylor_coefficients_at_any_radius_of_the_poles():
    for method in RESPONSES:
        # At a point of the disk the series converges, and Eq. 6 can be evaluated as it stands.
        poles, z = some_poles(32, radius=0.999), torch.tensor(0.5 - 0.6j, dtype=torch.complex128)
        a = as_complex(poles, -1)
        blaschke = torch.cumprod((z - a) / (1 - a.conj() * z), 0)
        expected = (1 - a.abs() ** 2).sqrt() / (1 - a.conj() * z) * torch.cat((blaschke.new_ones(1), blaschke[:-1]))
        powers = z ** torch.arange(256)
        found = as_complex(takenaka_malmquist_responses(poles, 256, method=method)) @ powers
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


def test_responses_wrap_around_to_the_basis():
    poles = some_poles(6)
    responses = as_complex(takenaka_malmquist_responses(poles, 512))
    wrapped = responses.unflatten(-1, (-1, 16)).sum(-2)
    values = torch.fft.ifft(wrapped, norm="forward")
    torch.testing.assert_close(as_real(values), takenaka_malmquist_basis(poles, 16), rtol=0, atol=1e-10)


def test_poles_at_zero_are_the_fourier_series():
    zeros, signal = torch.zeros(5, 2, dtype=torch.float64), normal(16, 3)
    powers = circle(16) ** torch.arange(5).unsqueeze(-1)
    torch.testing.assert_close(as_complex(takenaka_malmquist_basis(zeros, 16)), powers)
    spectrum = torch.fft.fft(signal, dim=0, norm="forward")[:5]
    for method in METHODS:
        found = as_complex(takenaka_malmquist_coefficients(signal, zeros, method=method))
        torch.testing.assert_close(found, spectrum)
    torch.testing.assert_close(takenaka_malmquist_responses(zeros, 5)[:, 0], torch.eye(5, dtype=torch.float64))


def test_leading_axes_are_broadcast():
    poles, signal = some_poles(3, 1, 4), normal(2, 10, 5)
    single = [[as_complex(takenaka_malmquist_coefficients(x, a[0])) for x in signal] for a in poles]
    expected = as_real(torch.stack([torch.stack(row) for row in single]))
    for method in METHODS:
        torch.testing.assert_close(takenaka_malmquist_coefficients(signal, poles, method=method), expected)
    for method in CORRELATIONS:
        lags = takenaka_malmquist_correlation(signal, poles, method=method)
        assert lags.shape == (3, 2, 4, 2, 10, 5)
        torch.testing.assert_close(lags[..., 0, :], expected)
    assert takenaka_malmquist_basis(poles, 7).shape == (3, 1, 4, 2, 7)
    for method in RESPONSES:
        responses = takenaka_malmquist_responses(poles, 7, method=method)
        torch.testing.assert_close(responses[1, 0], takenaka_malmquist_responses(poles[1, 0], 7, method=method))
    sums = takenaka_malmquist_synthesis(expected, poles, 6)
    assert sums.shape == (3, 2, 6, 5, 2)
    torch.testing.assert_close(sums[2, 1], takenaka_malmquist_synthesis(expected[2, 1], poles[2, 0], 6))
    numerator, denominator = takenaka_malmquist_transfer_function(poles)
    assert numerator.shape == denominator.shape == (3, 1, 5, 2)


# -- Gradients and precision -----------------------------------------------------------------------------------------


def test_gradients():
    for orthogonal in [True, False]:
        poles, signal, c = some_poles(2, 3, radius=0.7), normal(5, 2), normal(3, 2, 2)
        for tensor in (poles, signal, c):
            tensor.requires_grad_()
        options = {"orthogonal": orthogonal}
        assert gradcheck(partial(takenaka_malmquist_basis, n_points=6, **options), poles)
        for method in RESPONSES:
            assert gradcheck(partial(takenaka_malmquist_responses, n_steps=6, method=method, **options), poles)
        for method in METHODS:
            assert gradcheck(partial(takenaka_malmquist_coefficients, method=method, **options), (signal, poles))
        for method in CORRELATIONS:
            assert gradcheck(partial(takenaka_malmquist_correlation, method=method, **options), (signal, poles))
        assert gradcheck(partial(takenaka_malmquist_synthesis, n_points=4, **options), (c, poles))


def test_gradients_of_the_transfer_function():
    poles = some_poles(3, radius=0.7).requires_grad_()
    for kernel in (True, False):
        assert gradcheck(partial(takenaka_malmquist_transfer_function, kernel=kernel), poles)


def test_gradients_at_poles_zero():
    zeros, signal = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True), normal(5, 1)
    assert gradcheck(partial(takenaka_malmquist_basis, n_points=6), zeros)
    for method in RESPONSES:
        assert gradcheck(partial(takenaka_malmquist_responses, n_steps=6, method=method), zeros)
    for method in METHODS:
        assert gradcheck(partial(takenaka_malmquist_coefficients, signal, method=method), zeros)


def test_second_derivatives():
    for method in METHODS:
        poles, signal = some_poles(2, radius=0.7).requires_grad_(), normal(4, 1).requires_grad_()
        assert gradgradcheck(partial(takenaka_malmquist_coefficients, method=method), (signal, poles))


def test_float32_is_accurate():
    poles, signal = some_poles(32, radius=0.98), normal(64, 4)

    def relative_error(function, *arguments):
        found = function(*(value.float() for value in arguments))
        assert found.dtype == torch.float32
        exact = function(*(value.float().double() for value in arguments))
        return ((found - exact).abs().max() / exact.abs().max()).item()

    assert relative_error(partial(takenaka_malmquist_basis, n_points=64), poles) < 1e-5
    for method in RESPONSES:
        assert relative_error(partial(takenaka_malmquist_responses, n_steps=64, method=method), poles) < 1e-5
    for method in METHODS:
        assert relative_error(partial(takenaka_malmquist_coefficients, method=method), signal, poles) < 1e-5


def test_the_widest_dtype_wins_and_autocast_is_off():
    poles, signal = some_poles(4, dtype=torch.bfloat16), normal(8, 2, dtype=torch.float64)
    assert takenaka_malmquist_basis(poles, 8).dtype == torch.float32
    assert takenaka_malmquist_coefficients(signal, poles).dtype == torch.float64
    signal = signal.float()
    expected = takenaka_malmquist_coefficients(signal, poles)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(takenaka_malmquist_coefficients(signal, poles), expected)


# -- An orthonormal system -------------------------------------------------------------------------------------------


def test_the_error_of_orthogonality_is_below_the_aliasing_bound():
    for radius, n_poles, n_points in [(0.3, 16, 64), (0.5, 64, 256), (0.9, 4, 256)]:
        # Many poles at one place are the worst case; the bound holds there, and is far from void.
        worst = torch.tensor([[radius, 0.0]], dtype=torch.float64).expand(n_poles, 2)
        bound = aliasing_bound(radius, n_points, n_poles)
        assert bound < 1e-4
        assert 1e-5 * bound < gram_error(worst, n_points) < bound
        assert gram_error(some_poles(n_poles, radius=radius), n_points) < bound


def test_orthogonality_in_the_range_of_the_networks():
    for radius, n_poles, bound in [(0.5, 32, 1e-8), (0.9, 32, 0.05), (0.98, 8, 0.2)]:
        assert max(gram_error(some_poles(n_poles, radius=radius, seed=seed), 64) for seed in range(3)) < bound


def test_as_many_functions_as_points_are_not_orthogonal():
    assert gram_error(some_poles(64, radius=0.5), 64) > 0.3
    assert gram_error(some_poles(64, radius=0.9), 64) > 0.3


def test_kernels_alone_are_normalised_but_not_orthogonal():
    values = as_complex(takenaka_malmquist_basis(some_poles(6), 1024, orthogonal=False))
    products = (values @ values.mH / 1024).abs()
    torch.testing.assert_close(products.diagonal(), torch.ones(6, dtype=torch.float64))
    assert (products - torch.eye(6)).max() > 0.1


def test_signals_of_the_model_space_are_reproduced():
    poles, c = some_poles(6), normal(6, 2, 3)
    f = takenaka_malmquist_synthesis(c, poles, 512)
    parts = [as_complex(takenaka_malmquist_coefficients(part, poles)) for part in f.unbind(-1)]
    torch.testing.assert_close(parts[0] + 1j * parts[1], as_complex(c))
    # Parseval: the energy of the function is that of the coefficients.
    torch.testing.assert_close(mean_square(as_complex(f, -1)), as_complex(c).abs().square().sum(0))


def test_kernels_of_the_poles_are_in_the_model_space():
    # Sums of the kernels and of the functions span the same space, whatever the order of the poles.
    poles, weights = some_poles(5), normal(5, 2, 2)
    f = takenaka_malmquist_synthesis(weights, poles, 512, orthogonal=False)
    for order in ([0, 1, 2, 3, 4], [3, 0, 4, 2, 1]):
        parts = [as_complex(takenaka_malmquist_coefficients(part, poles[order])) for part in f.unbind(-1)]
        again = takenaka_malmquist_synthesis(as_real(parts[0] + 1j * parts[1]), poles[order], 512)
        torch.testing.assert_close(again, f)


def test_the_order_of_the_poles_does_not_change_the_projection():
    poles, signal = some_poles(6), normal(256, 2)
    projected = projection(signal, poles)
    torch.testing.assert_close(projection(signal, poles.flip(0)), projected)
    assert not torch.allclose(
        takenaka_malmquist_basis(poles, 256).flip(0), takenaka_malmquist_basis(poles.flip(0), 256)
    )


def test_bessels_inequality_and_the_energy_of_the_remainder():
    poles, signal = some_poles(20), normal(512, 3)
    c = takenaka_malmquist_coefficients(signal, poles)
    energies = as_complex(c).abs().square().cumsum(0)
    assert (energies[-1] < mean_square(signal)).all()
    f = as_complex(takenaka_malmquist_synthesis(c, poles, 512), -1)
    torch.testing.assert_close(mean_square(signal - f), mean_square(signal) - energies[-1])
    # No other coefficients come nearer.
    other = as_complex(takenaka_malmquist_synthesis(c + 0.01 * normal(20, 2, 3, seed=2), poles, 512), -1)
    assert (mean_square(signal - other) > mean_square(signal - f)).all()


def test_synthesis_is_the_adjoint_of_the_coefficients():
    poles, signal, c = some_poles(4, radius=0.99), normal(9, 2), normal(4, 2, 2, seed=2)
    left = (takenaka_malmquist_coefficients(signal, poles) * c).sum()
    right = (signal * takenaka_malmquist_synthesis(c, poles, 9)[..., 0]).sum() / 9
    torch.testing.assert_close(left, right)


# -- Real signals ----------------------------------------------------------------------------------------------------


def identity_with_the_mean(signal, poles):
    """2 Re Σ c_k B_k - mean(x), which is x where the analytic half of x is in the model space."""
    c = takenaka_malmquist_coefficients(signal, poles)
    return 2 * takenaka_malmquist_synthesis(c, poles, len(signal))[..., 0] - signal.mean(0)


def test_real_signals_whose_analytic_half_is_in_the_model_space_are_reproduced():
    poles = some_poles(5)
    f = as_complex(takenaka_malmquist_synthesis(normal(5, 2, 3), poles, 1024), -1)
    # The constant term of an analytic half is real.
    f = f * f.mean(0).conj() / f.mean(0).abs()
    signal = 2 * f.real - f.real.mean(0)
    torch.testing.assert_close(projection(signal, poles), signal)
    torch.testing.assert_close(identity_with_the_mean(signal, poles), signal)


def test_with_a_pole_at_zero_the_projection_is_the_identity_with_the_mean():
    poles, signal = some_poles(5), normal(512, 2)
    with_zero = torch.cat((poles, torch.zeros(1, 2, dtype=torch.float64)))
    projected = projection(signal, with_zero)
    torch.testing.assert_close(projected, identity_with_the_mean(signal, with_zero))
    torch.testing.assert_close(projection(projected, with_zero), projected)
    # Without it, the mean of the signal is nearer to it than what the identity makes of the mean.
    error = (projection(signal, poles) - signal).square().mean(0)
    assert (error < (identity_with_the_mean(signal, poles) - signal).square().mean(0)).all()


def test_half_as_many_functions_as_points_are_all_of_a_real_signal():
    signal, zeros = normal(64, 2), torch.zeros(64, 2, dtype=torch.float64)
    nyquist = torch.fft.rfft(signal, dim=0, norm="forward")[32].real * (-1.0) ** torch.arange(64).unsqueeze(-1)
    torch.testing.assert_close(projection(signal, zeros[:32]), signal - nyquist)
    assert (projection(signal, zeros) - signal).abs().max() > 0.5


# -- Correlations and filters ----------------------------------------------------------------------------------------


def test_equation_10_is_the_product_of_spectra_and_not_equation_9_as_printed():
    poles, signal = some_poles(4), normal(16, 2)
    lags = as_complex(takenaka_malmquist_correlation(signal, poles, method="direct"), -3)
    samples = as_complex(takenaka_malmquist_basis(poles, 16))
    spectrum = torch.fft.fft(signal, dim=0)
    product = torch.fft.ifft(torch.fft.fft(samples).conj().unsqueeze(-1) * spectrum, dim=-2) / 16
    torch.testing.assert_close(lags, product)
    printed = torch.fft.ifft(samples.conj().unsqueeze(-1) * spectrum, dim=-2) / 16
    assert (printed - lags).abs().max() > 0.1 * lags.abs().max()
    # Printed, it is the periodic convolution with the responses: the filter conj(B_k) along the tokens.
    responses = as_complex(takenaka_malmquist_responses(poles, 512)).unflatten(-1, (-1, 16)).sum(-2).conj()
    turned = signal[(torch.arange(16).unsqueeze(-1) - torch.arange(16)) % 16].to(responses.dtype)
    torch.testing.assert_close(printed * 16, torch.einsum("nqe,kq->kne", turned, responses))


def frequency_response(numerator, denominator, n_points):
    """Values of a filter in z^-1 at the roots of unity."""
    powers = circle(n_points) ** -torch.arange(len(numerator)).unsqueeze(-1)
    return (as_complex(numerator, -1) @ powers) / (as_complex(denominator, -1) @ powers)


def test_the_transfer_function_is_the_conjugate_of_the_last_function():
    for n_poles in [1, 2, 5]:
        poles = some_poles(n_poles)
        numerator, denominator = takenaka_malmquist_transfer_function(poles)
        last = as_complex(takenaka_malmquist_basis(poles, 32))[-1]
        torch.testing.assert_close(frequency_response(numerator, denominator, 32), last.conj())
        # The zeros of the denominator in z are the poles, all of them inside the disk.
        roots = np.roots(as_complex(denominator, -1).numpy())
        expected = as_complex(poles, -1).numpy()
        assert np.abs(roots[:, None] - expected).min(0).max() < 1e-9
        # Long division gives the impulse response.
        impulse, steps = as_complex(numerator, -1).tolist() + [0] * 20, []
        for m in range(20):
            past = sum(d * steps[m - i] for i, d in enumerate(as_complex(denominator, -1).tolist()) if 0 < i <= m)
            steps.append(impulse[m] - past)
        responses = as_complex(takenaka_malmquist_responses(poles, 20, method="cascade"))[-1]
        torch.testing.assert_close(torch.tensor(steps, dtype=torch.complex128), responses.conj())


def test_the_blaschke_product_is_all_pass():
    poles = some_poles(4)
    numerator, denominator = takenaka_malmquist_transfer_function(poles, kernel=False)
    a, z = as_complex(poles, -1).unsqueeze(-1), circle(32)
    expected = ((z - a) / (1 - a.conj() * z)).prod(0).conj()
    torch.testing.assert_close(frequency_response(numerator, denominator, 32), expected)
    torch.testing.assert_close(expected.abs(), torch.ones(32, dtype=torch.float64))
    torch.testing.assert_close(as_complex(numerator, -1), as_complex(denominator, -1).conj().flip(0))


def test_the_printed_example_of_appendix_e_is_unstable():
    p1, p2 = 0.5, -0.3
    printed = [1, -(p1 + p2) / (p1 * p2), 1 / (p1 * p2)]  # 1 + a_1 z^-1 + a_2 z^-2
    assert (np.abs(np.roots(printed)) > 1).all()
    numerator, denominator = takenaka_malmquist_transfer_function(torch.tensor([[p1, 0], [p2, 0]]), kernel=False)
    assert (np.abs(np.roots(denominator[:, 0])) < 1).all()
    # Its fraction is the reciprocal of the stable one.
    np.testing.assert_allclose(np.array(printed) * p1 * p2, numerator[:, 0], rtol=1e-6)


# -- Perturbed poles: the paper's Lemma D.11 and Theorem D.12 --------------------------------------------------------


def pairs_of_poles():
    """Many pairs of poles, near and far from one another and from the circle, and points of the closed disk."""
    a = as_complex(some_poles(20000, radius=0.99), -1)
    b = as_complex(some_poles(20000, radius=0.99, seed=1), -1)
    near = a + 0.5 * (1 - a.abs()) * as_complex(some_poles(20000, radius=1, seed=2), -1)
    b = torch.where(torch.arange(20000) % 2 == 0, b, near)
    z = as_complex(some_poles(20000, radius=1, seed=3), -1)
    z = torch.where(torch.arange(20000) % 3 == 0, z, z / z.abs())
    return a, b, torch.where(torch.arange(20000) % 3 == 1, a / a.abs(), z)


def test_lemma_d11():
    a, b, z = pairs_of_poles()
    margins, distance = (1 - a.abs()) * (1 - b.abs()), (a - b).abs()
    kernels = (1 / (1 - a.conj() * z) - 1 / (1 - b.conj() * z)).abs() * margins / distance  # Eq. 37
    assert 0.9 < kernels.max() <= 1 + 1e-9
    gains = ((1 - a.abs() ** 2).sqrt() - (1 - b.abs() ** 2).sqrt()).abs()  # Eq. 38
    ratio = gains * (1 - torch.maximum(a.abs(), b.abs()) ** 2).sqrt() / distance
    assert 0.9 < ratio.max() <= 1
    factors = [(z - pole) / (1 - pole.conj() * z) for pole in (a, b)]  # Eq. 39
    assert max(factor.abs().max() for factor in factors) <= 1 + 1e-12
    difference = (factors[0] - factors[1]).abs() / distance
    assert 0.9 < (difference * margins).max() <= 4
    # The constant is 2 for one margin only, which is sharper near the circle and what Theorem D.12 needs.
    assert 1.9 < (difference * (1 - torch.maximum(a.abs(), b.abs()))).max() <= 2 + 1e-9


def test_functions_of_perturbed_poles_stay_near():
    # Theorem D.12 with a constant that holds for all poles and all orders i.
    for seed in range(5):
        poles = some_poles(8, radius=0.95, seed=seed)
        margins = 1 - poles.norm(dim=-1)
        shift = 0.5 * margins.unsqueeze(-1) * some_poles(8, radius=1, seed=seed + 100)
        for scale in (1.0, 1e-3):
            functions = [as_complex(takenaka_malmquist_basis(a, 1024)) for a in (poles, poles + scale * shift)]
            change = (functions[0] - functions[1]).abs().square().mean(-1).sqrt()
            bound = (scale * shift.norm(dim=-1) / margins).cumsum(0)
            assert (change <= 4 * bound).all()
            assert (change > 0).all()


# -- Adaptive Fourier decomposition ----------------------------------------------------------------------------------


def kernels(a, n_points):
    """Samples (N, K) of normalised Szegő kernels."""
    a = np.atleast_1d(a)
    z = np.exp(2j * np.pi * np.arange(n_points) / n_points)[:, None]
    return np.sqrt(1 - np.abs(a) ** 2) / (1 - np.conj(a) * z)


def test_the_decomposition_agrees_with_the_functions():
    signal = normal(64, 3)
    result = adaptive_fourier_decomposition(signal, 10)
    poles, found = torch.from_numpy(result.poles), torch.from_numpy(result.coefficients)
    # On the whole circle: the sum over the frequencies of the analytic half.
    half = torch.fft.rfft(signal, dim=0, norm="forward")
    half[-1] /= 2
    responses = as_complex(takenaka_malmquist_responses(poles, 33, method="cascade"))
    torch.testing.assert_close(as_complex(found), responses.conj() @ half)
    # And the remainder, whose energy the decomposition states, by the sum of the functions.
    n_points = 4096
    f = torch.fft.ifft(torch.cat((half, half.new_zeros(n_points - 33, 3))), dim=0, norm="forward")
    remainder = f - as_complex(takenaka_malmquist_synthesis(found, poles, n_points), -1)
    assert mean_square(remainder).sum().item() == pytest.approx(result.energies[-1], rel=1e-9)


def test_the_energy_of_the_remainder_falls_at_every_step():
    result = adaptive_fourier_decomposition(normal(32, 2), 12)
    energies = (result.coefficients**2).sum((1, 2))
    assert (np.diff(result.energies) < 0).all()
    np.testing.assert_allclose(-np.diff(result.energies), energies, rtol=1e-9)


def test_each_pole_is_the_best_one():
    signal = np.fft.ifft(np.fft.fft(np.random.default_rng(0).standard_normal(32))[:16], 32)
    result = adaptive_fourier_decomposition(signal, 1)
    others = some_poles(2000, radius=0.98).numpy() @ [1, 1j]
    f = np.fft.fft(signal, norm="forward")
    gains = (1 - np.abs(others) ** 2) * np.abs(others[:, None] ** np.arange(32) @ f) ** 2
    assert gains.max() <= (result.coefficients**2).sum() * (1 + 1e-9)


def test_the_pole_of_one_kernel_is_found():
    for a in [0.0, 0.3 + 0.2j, -0.6j, 0.9 * np.exp(2j)]:
        result = adaptive_fourier_decomposition(kernels(a, 512), 1)
        assert abs(result.poles[0] @ [1, 1j] - a) < 1e-6
        assert result.energies[1] < 1e-10 * result.energies[0]


def test_a_pole_of_several_real_channels_is_found():
    a, weights = 0.8 * np.exp(1j), np.array([1.0, -2.0, 0.5])
    half = kernels(a, 256) * weights
    # The constant term of an analytic half is real.
    half = half * np.exp(-1j * np.angle(half.mean(0)))
    result = adaptive_fourier_decomposition(2 * half.real - half.real.mean(0), 1)
    assert abs(result.poles[0] @ [1, 1j] - a) < 1e-6
    assert result.energies[1] < 1e-10 * result.energies[0]


def test_the_rate_of_greedy_decompositions():
    # Combinations of kernels whose weights have the sum of moduli M: the remainder is at most M / sqrt(n).
    generator = np.random.default_rng(0)
    for _ in range(2):
        a = some_poles(12, radius=0.93, seed=int(generator.integers(100))).numpy() @ [1, 1j]
        weights = generator.standard_normal(12) + 1j * generator.standard_normal(12)
        result = adaptive_fourier_decomposition(kernels(a, 256) @ weights, 16)
        bounds = np.abs(weights).sum() / np.sqrt(np.arange(1, 17))
        assert (np.sqrt(result.energies[1:]) <= bounds).all()
        # The poles of the function would end it after 12 steps; the greedy choice is not far from that.
        assert result.energies[12] < 1e-2 * result.energies[0]


def test_adaptive_poles_beat_the_fourier_series_near_a_singularity():
    angles = 2 * np.pi * np.arange(512) / 512
    signal = 1 / (1.005 - np.cos(angles - 1)) + 0.3 * np.cos(2 * angles)
    result = adaptive_fourier_decomposition(signal, 6)
    half = np.fft.rfft(signal, norm="forward")
    assert result.energies[-1] < 1e-3 * np.sum(np.abs(half[6:]) ** 2)


# -- Errors ----------------------------------------------------------------------------------------------------------


def test_errors_name_what_came_and_what_was_expected():
    for call, words in [
        (lambda a, x: takenaka_malmquist_basis(a[:, :1], 8), r"\(3, 1\); expected \(..., K, 2\)"),
        (lambda a, x: takenaka_malmquist_basis(a[:0], 8), r"\(0, 2\); expected .* at least one pole"),
        (lambda a, x: takenaka_malmquist_basis(a.long(), 8), "dtype torch.int64; expected a real floating-point"),
        (lambda a, x: takenaka_malmquist_basis(a, 0), "n_points is 0; expected at least 1"),
        (lambda a, x: takenaka_malmquist_basis(a, 4.5), "n_points is 4.5; expected at least 1, an integer"),
        (lambda a, x: takenaka_malmquist_basis(a, 8, places=torch.tensor([0.5])), "places has .* dtype torch.float32"),
        (lambda a, x: takenaka_malmquist_basis(a, 8, places=torch.tensor(3)), r"places has shape \(\)"),
        (
            lambda a, x: takenaka_malmquist_basis(a.expand(3, 3, 2), 8, places=torch.zeros(2, 4, dtype=torch.long)),
            r"places has the leading axes \(2,\) and poles has \(3,\)",
        ),
        (lambda a, x: takenaka_malmquist_basis(a + 1, 8), "modulus of poles is .*; expected all below 1"),
        (lambda a, x: takenaka_malmquist_responses(a, 8, method="matmul"), "'matmul'; expected one of 'fft', 'casc"),
        (lambda a, x: takenaka_malmquist_responses(a, -1), "n_steps is -1"),
        (lambda a, x: takenaka_malmquist_coefficients(x[0], a), r"signal has shape \(2,\); expected \(..., N, E\)"),
        (lambda a, x: takenaka_malmquist_coefficients(x[:0], a), r"signal has shape \(0, 2\).* at least one token"),
        (lambda a, x: takenaka_malmquist_coefficients(x + 0j, a), "signal has dtype torch.complex128"),
        (lambda a, x: takenaka_malmquist_coefficients(x, a, method="naive"), "'matmul', 'cascade', 'fft'"),
        (
            lambda a, x: takenaka_malmquist_coefficients(x.expand(2, 8, 2), a.expand(3, 3, 2)),
            r"\(2,\) and poles has \(3",
        ),
        (lambda a, x: takenaka_malmquist_coefficients(x.to("meta"), a), "signal is on meta; expected cpu"),
        (lambda a, x: takenaka_malmquist_correlation(x, a, method="matmul"), "'fft', 'direct'"),
        (lambda a, x: takenaka_malmquist_synthesis(x, a, 8), r"\(8, 2\); expected \(..., K, 2, E\) with K = 3"),
        (lambda a, x: takenaka_malmquist_synthesis(x.expand(3, 3, 8, 2), a, 8), r"coefficients has shape"),
        (lambda a, x: takenaka_malmquist_transfer_function(a * 10), "modulus of poles"),
        (lambda a, x: adaptive_fourier_decomposition(x[None], 2), r"signal has shape \(1, 8, 2\)"),
        (lambda a, x: adaptive_fourier_decomposition(x * math.nan, 2), "not finite"),
        (lambda a, x: adaptive_fourier_decomposition(x, 0), "n_poles is 0"),
        (lambda a, x: adaptive_fourier_decomposition(x, 1.5), "n_poles is 1.5; expected at least 1, an integer"),
        (lambda a, x: adaptive_fourier_decomposition(x, 1, max_radius=1.0), "max_radius is 1.0"),
    ]:
        with pytest.raises(ValueError, match=words):
            call(some_poles(3), normal(8, 2))


def test_what_is_no_tensor_is_named():
    for poles in [[[0.5, 0.0]], np.array([[0.5, 0.0]])]:
        with pytest.raises(TypeError, match=r"poles is (list|ndarray); expected a tensor: torch\.as_tensor"):
            takenaka_malmquist_basis(poles, 8)


def test_poles_that_are_no_numbers_are_passed_on_so_that_a_training_can_step_back():
    assert takenaka_malmquist_basis(torch.full((3, 2), math.nan), 8).isnan().all()


def test_places_are_points_of_the_circle_in_any_order_for_each_set_of_poles():
    poles = torch.tensor([[[0.5, 0.2], [0.1, -0.7]], [[-0.3, 0.4], [0.0, 0.0]]], dtype=torch.float64)
    places = torch.tensor([[0, 3, 3, 1], [7, 6, 5, 4]])
    whole = takenaka_malmquist_basis(poles, 8)
    expected = torch.stack([own[..., order] for own, order in zip(whole, places, strict=True)])
    torch.testing.assert_close(takenaka_malmquist_basis(poles, 8, places=places), expected)
