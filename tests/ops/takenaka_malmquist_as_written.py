"""The Takenaka-Malmquist system as written: products of Eq. 6 and sums of Eqs. 10 and 11, in complex128.

Slow, and without any of the forms of the package. Poles are complex, of shape (K,); signals are (N, E).
"""

import math

import torch
from torch import Tensor

__all__ = ["basis", "coefficients", "correlation", "responses", "synthesis"]


def basis(poles: Tensor, n_points: int, orthogonal: bool = True) -> Tensor:
    """Values (K, N) at the roots of unity: B_k(z) = sqrt(1 - |a_k|²) / (1 - conj(a_k) z) Π_{j<k} ..., Eq. 6."""
    values = torch.empty(len(poles), n_points, dtype=torch.complex128)
    for n in range(n_points):
        z = complex(math.cos(2 * math.pi * n / n_points), math.sin(2 * math.pi * n / n_points))
        product = torch.tensor(1.0, dtype=torch.complex128)
        for k, a in enumerate(poles):
            values[k, n] = torch.sqrt(1 - a.abs() ** 2) / (1 - a.conj() * z) * product
            if orthogonal:
                product = product * (z - a) / (1 - a.conj() * z)
    return values


def responses(poles: Tensor, n_steps: int, orthogonal: bool = True) -> Tensor:
    """Taylor coefficients (K, n_steps) of the basis, by products of power series."""
    rows = []
    product = torch.zeros(n_steps, dtype=torch.complex128)
    product[0] = 1
    for a in poles:
        geometric = torch.stack([a.conj() ** m if m else torch.ones_like(a) for m in range(n_steps)])
        section = _series_product(product, geometric)
        rows.append(torch.sqrt(1 - a.abs() ** 2) * section)
        if orthogonal:
            product = torch.cat((section.new_zeros(1), section[:-1])) - a * section
    return torch.stack(rows)


def coefficients(signal: Tensor, poles: Tensor, orthogonal: bool = True) -> Tensor:
    """Inner products (K, E) with the factor 1/N: (1/N) Σ_n x[n] conj(B_k(z_n)), Eq. 11."""
    values = basis(poles, len(signal), orthogonal)
    return torch.stack([sum(x * b.conj() for x, b in zip(signal, row, strict=True)) for row in values]) / len(signal)


def correlation(signal: Tensor, poles: Tensor, orthogonal: bool = True) -> Tensor:
    """Correlations (K, N, E) for all lags with the factor 1/N: (1/N) Σ_n x[n] conj(B_k(z_{n-l})), Eq. 10."""
    n_points, values = len(signal), basis(poles, len(signal), orthogonal)
    lags = [
        torch.stack([sum(signal[n] * row[(n - lag) % n_points].conj() for n in range(n_points)) for row in values])
        for lag in range(n_points)
    ]
    return torch.stack(lags, dim=1) / n_points


def synthesis(coefficients: Tensor, poles: Tensor, n_points: int, orthogonal: bool = True) -> Tensor:
    """Values (N, E) of Σ_k c_k B_k(z_n) for the complex coefficients (K, E), Eqs. 12 and 13."""
    values = basis(poles, n_points, orthogonal)
    return torch.stack([sum(c * b for c, b in zip(coefficients, column, strict=True)) for column in values.T])


def _series_product(left: Tensor, right: Tensor) -> Tensor:
    """Product of two power series, cut to their length."""
    return torch.stack([(left[: m + 1] * right[: m + 1].flip(0)).sum() for m in range(len(left))])
