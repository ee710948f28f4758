"""Convolution by the low frequencies of a grid, in 1 to 3 dimensions and of any size.

Notation: B samples, c channels, d axes, m frequencies kept along each axis.
"""

import math
from functools import cache
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

__all__ = ["SpectralConvolution"]


class SpectralConvolution(nn.Module):
    """Multiply the low frequencies of a grid by learned matrices, add a linear map of each point, and activate.

    Frequencies that a grid does not have are left out, so that any size of the grid can be used; the remaining keep
    their matrices.

    Parameters
    ----------
    n_dims : int
        Axes of the grid, 1 to 3.
    in_channels, out_channels : int
        Channels.
    n_modes : int
        Frequencies along each axis, in both directions along all but the last.

    References
    ----------
    Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR 2021. S. Cao, "Choose a
    Transformer: Fourier or Galerkin", NeurIPS 2021, for the activation and the initial values.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import SpectralConvolution
    >>> SpectralConvolution(2, 3, 4, n_modes=5)(torch.zeros(1, 7, 6, 3)).shape
    torch.Size([1, 7, 6, 4])
    """

    def __init__(self, n_dims: int, in_channels: int, out_channels: int, n_modes: int) -> None:
        super().__init__()
        self.n_modes, self.axes = n_modes, tuple(range(1, n_dims + 1))
        self.linear = nn.Linear(in_channels, out_channels)
        #: One set of matrices for each sign of the frequencies along all axes but the last, real and imaginary parts.
        self.weight = nn.Parameter(torch.empty(2 ** (n_dims - 1), in_channels, out_channels, *(n_modes,) * n_dims, 2))
        area = 2 * n_modes**n_dims
        gain = (in_channels + out_channels) ** (0.5 * (n_dims > 1)) / (in_channels * out_channels)
        nn.init.normal_(self.weight, std=gain * math.sqrt(2 / (area * (in_channels + out_channels))))

    def forward(self, grid: torch.Tensor) -> torch.Tensor:
        """Map a grid ``(B, *grid, c)`` to one of as many points."""
        shape = [grid.shape[axis] for axis in self.axes]
        with torch.autocast(grid.device.type, enabled=False):
            # Half precision is too coarse for sums over all points of an axis.
            values = grid.to(torch.promote_types(grid.dtype, torch.float32))
            forth, back = zip(*(self._transforms(axis, shape, values) for axis in range(len(shape))), strict=True)
            found = (forth[-1] @ values).unflatten(-2, (2, -1)).movedim(-3, 1)
            for axis in self.axes[:-1]:
                found = _transform(found, forth[axis - 1], axis + 1)
            mixed = _multiply(found, self._matrices(shape).to(values.dtype))
            for axis in self.axes[:-1]:
                mixed = _transform(mixed, back[axis - 1], axis + 1)
            filtered = (back[-1] @ mixed.movedim(1, -3).flatten(-3, -2)).to(grid.dtype)
        return nn.functional.silu(filtered + self.linear(grid))

    def _counts(self, axis: int, size: int) -> tuple[int, int]:
        """How many frequencies from 0 on, and how many below 0, are kept along an axis of so many points."""
        if axis == len(self.axes) - 1:
            return min(self.n_modes, size // 2 + 1), 0
        return min(self.n_modes, (size + 1) // 2), min(self.n_modes, size // 2)

    def _transforms(self, axis: int, shape: list[int], like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Matrices of the transform along an axis to the frequencies that are kept, and of its inverse."""
        is_last = axis == len(shape) - 1
        pair = _fourier_matrices(shape[axis], *self._counts(axis, shape[axis]), is_last)
        forth, back = (torch.from_numpy(matrix).to(like.device, like.dtype) for matrix in pair)
        return forth, back

    def _matrices(self, shape: list[int]) -> torch.Tensor:
        """Matrices (c, out, *frequencies, 2) of the frequencies that a grid has, in the order of the transforms."""
        parts = []
        for number, signs in enumerate(product((False, True), repeat=len(shape) - 1)):
            held = [slice(None), slice(None)]
            for axis, (size, is_negative) in enumerate(zip(shape, (*signs, False), strict=True)):
                count = self._counts(axis, size)[is_negative]
                held.append(slice(self.n_modes - count, self.n_modes) if is_negative else slice(0, count))
            parts.append(self.weight[number][tuple(held)])
        for axis in range(len(shape) - 1, 0, -1):
            parts = [torch.cat(pair, dim=axis + 1) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]


@cache
def _fourier_matrices(
    size: int, n_positive: int, n_negative: int, is_real: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Real matrices of the discrete Fourier transform along an axis to few frequencies, and of its inverse."""
    # For the few lowest frequencies products with them take a fraction of the time of fast transforms to all. Real
    # parts of the frequencies come first, then imaginary ones; so do those of the points, which are real if `is_real`.
    frequencies = np.concatenate([np.arange(n_positive), np.arange(-n_negative, 0)])
    # Whole turns are left out in integers, which is exact.
    angles = 2 * np.pi / size * (np.outer(frequencies, np.arange(size)) % size)
    cosines, sines = np.cos(angles) / math.sqrt(size), np.sin(angles) / math.sqrt(size)
    forth = np.block([[cosines, sines], [-sines, cosines]])
    if not is_real:
        return forth, np.ascontiguousarray(forth.T)
    # A frequency also stands for its conjugate below 0, if that is another one.
    times = np.where(2 * frequencies % size == 0, 1.0, 2.0)
    return np.ascontiguousarray(forth[:, :size]), np.concatenate([times[:, None] * cosines, -times[:, None] * sines]).T


def _transform(values: torch.Tensor, matrix: torch.Tensor, axis: int) -> torch.Tensor:
    """Transform complex values (B, 2, *m, c), as real and imaginary parts, along an axis."""
    lines = values.movedim(axis, 2)
    found = matrix @ lines.flatten(1, 2).flatten(2)
    return found.unflatten(1, (2, -1)).unflatten(-1, lines.shape[3:]).movedim(2, axis)


def _multiply(values: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    """Multiply what samples have at each frequency, (B, 2, *m, c), by the matrix of the frequency, (c, out, *m, 2)."""
    # Matrices that each lie in one piece are multiplied in one call; strided ones would be copied one by one.
    lines = values.movedim((1, 0), (-3, -2))
    own = matrices.movedim((0, -1, 1), (-3, -2, -1)).flatten(-2)
    found = torch.bmm(lines.flatten(0, -4).flatten(1, 2), own.flatten(0, -3))
    # The parts of a sample with the parts of a matrix.
    products = found.view(*lines.shape[:-1], 2, matrices.shape[1])
    (rr, ri), (ir, ii) = (part.unbind(-2) for part in products.unbind(-4))
    return torch.stack([rr - ii, ri + ir], dim=-3).movedim((-3, -2), (1, 0))
