"""The depthwise convolution of tokens against a sum over neighbours, written out."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from skop.modules import set_periodic
from skop.modules._token_convolution import convolve_tokens, token_convolution


def literal(tokens, grid, weight, bias, periodic=()):
    """Sum over the neighbours of every point of one sample (T, channels), those outside being zero, or on a period."""
    values, half = tokens.reshape(*grid, -1), weight.shape[-1] // 2
    output = np.tile(bias, (*grid, 1))
    for cell in np.ndindex(*grid):
        for offset in np.ndindex(*weight.shape[2:]):
            other = [place + shift - half for place, shift in zip(cell, offset, strict=True)]
            other = tuple(place % grid[axis] if axis in periodic else place for axis, place in enumerate(other))
            if all(0 <= place < size for place, size in zip(other, grid, strict=True)):
                output[cell] += weight[(slice(None), 0, *offset)] * values[other]
    return output.reshape(tokens.shape)


@pytest.mark.parametrize("periodic", [(), (0,), (1,), (0, 1, 2)])
def test_neighbours_are_summed_channel_by_channel(periodic):
    for grid, kernel_size in product([(5,), (1,), (3, 4), (1, 5), (4, 2), (2, 3, 4)], [3, 5]):
        generator = torch.Generator().manual_seed(0)
        convolution = token_convolution(len(grid), 3, kernel_size).double()
        around = tuple(axis for axis in periodic if axis < len(grid))
        set_periodic(convolution, around)
        tokens = torch.randn(2, math.prod(grid), 3, generator=generator, dtype=torch.float64)
        found = convolve_tokens(convolution, tokens, grid).detach()
        weight, bias = (parameter.detach().numpy() for parameter in (convolution.weight, convolution.bias))
        assert weight.shape == (3, 1, *(kernel_size,) * len(grid))
        expected = np.stack([literal(sample, grid, weight, bias, around) for sample in tokens.numpy()])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_one_point_leaves_the_tokens_as_they_are(n_dims):
    tokens = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(0))
    assert token_convolution(n_dims, 3, 1) is None
    assert convolve_tokens(None, tokens, (8,)) is tokens


@pytest.mark.parametrize("n_dims", [0, 4])
def test_other_than_one_to_three_axes_are_refused(n_dims):
    with pytest.raises(ValueError, match=f"n_dims={n_dims}; expected 1, 2 or 3"):
        token_convolution(n_dims, 3, 3)


@pytest.mark.parametrize("kernel_size", [2, 4])
def test_an_even_size_is_refused(kernel_size):
    with pytest.raises(ValueError, match=f"kernel_size={kernel_size}; expected an odd number"):
        token_convolution(2, 3, kernel_size)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_a_lone_token_is_convolved_as_torch_does_it(n_dims):
    torch.manual_seed(0)
    convolution, grid = token_convolution(n_dims, 5, 3).double(), (1,) * n_dims
    tokens = torch.randn(4, 1, 5, dtype=torch.float64, requires_grad=True)
    expected = convolution(tokens.transpose(1, 2).reshape(4, 5, *grid)).flatten(2).transpose(1, 2)
    found = convolve_tokens(convolution, tokens, grid)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)
    inputs = (tokens, convolution.weight, convolution.bias)
    gradients = (torch.autograd.grad((part**2).sum(), inputs) for part in (found, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
