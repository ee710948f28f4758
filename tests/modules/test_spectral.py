"""Spectral convolutions against sums over frequencies, on grids of any size."""

import itertools
from itertools import product

import pytest
import torch
from torch.nn.functional import silu

from skop.modules import SpectralConvolution


def make(n_dims, n_modes):
    torch.manual_seed(0)
    module = SpectralConvolution(n_dims, 2, 3, n_modes).double()
    torch.nn.init.normal_(module.weight)
    return module


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def filtered(module, grid):
    """The filter as a sum over all frequencies, of the whole transform, with conjugate matrices for conjugate ones."""
    shape = grid.shape[1:-1]
    modes, weight = module.n_modes, torch.view_as_complex(module.weight.detach())
    axes = tuple(range(1, len(shape) + 1))
    found = torch.fft.fftn(grid, dim=axes, norm="ortho")
    mixed = torch.zeros(*found.shape[:-1], 3, dtype=torch.complex128)
    for place in itertools.product(*(range(size // 2 + 1 if axis == len(shape) - 1 else size) for axis, size in
                                     enumerate(shape))):  # fmt: skip
        signs, numbers = 0, []
        for frequency, size in zip(place[:-1], shape[:-1], strict=True):
            negative = frequency >= (size + 1) // 2
            signs = 2 * signs + negative
            numbers.append(modes - (size - frequency) if negative else frequency)
        numbers.append(place[-1])
        if all(0 <= number < modes for number in numbers):
            mixed[(slice(None), *place)] = (
                found[(slice(None), *place)] @ weight[(signs, slice(None), slice(None), *numbers)]
            )
    half = mixed[..., : shape[-1] // 2 + 1, :]
    return torch.fft.irfftn(half, s=shape, dim=axes, norm="ortho")


def test_low_frequencies_are_multiplied_by_their_matrices():
    for shape, n_modes in product([(7,), (8,), (6, 7), (7, 4), (9, 2), (1, 1), (4, 5, 3)], [2, 3, 9]):
        module, grid = make(len(shape), n_modes), random(2, *shape, 2)
        torch.testing.assert_close(module(grid), silu(filtered(module, grid) + module.linear(grid)))


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_smooth_fields_are_mapped_alike_on_every_grid(n_dims):
    module = make(n_dims, 2)
    found = {}
    for size in (5, 6, 10, 15):
        axes = torch.meshgrid(*[torch.arange(size, dtype=torch.float64) / size] * n_dims, indexing="ij")
        phase = 2 * torch.pi * sum(axes)
        found[size] = module(torch.stack([phase.cos(), phase.sin() + 1], dim=-1)[None])
    step = {5: 1, 10: 2, 15: 3}
    for size, stride in step.items():
        coarse = found[size][(0, *[slice(None, None, stride)] * n_dims)]
        torch.testing.assert_close(coarse, found[5][0])


def test_half_precision_is_transformed_in_single():
    module = make(2, 2).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = module(random(1, 5, 7, 2).bfloat16())
    assert found.isfinite().all()


def test_gradients_reach_all_weights_of_a_large_grid():
    module = make(2, 2)
    module(random(1, 6, 6, 2)).square().sum().backward()
    assert (module.weight.grad.abs().amax(dim=(1, 2, 5)) > 0).all()
