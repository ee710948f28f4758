"""FNO's network: the library's own outputs, convolutions on grids of any size, real weights, a message without it."""

import copy
import pickle
import sys
from itertools import product

import numpy as np
import pytest
import torch
from scipy.signal import resample

from skop.exceptions import OptionalDependencyError
from skop.networks import FNONetwork

from .problems import coords_of, fields_on

RANDOM = np.random.default_rng(0)
SIZES = {"n_fields": 1, "n_params": 0, "n_outputs": 2, "n_scalars": 0, "width": 4, "depth": 2, "n_modes": 4}


def test_without_the_library_a_message_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "neuralop", None)
    monkeypatch.setitem(sys.modules, "neuralop.models", None)
    with pytest.raises(OptionalDependencyError, match=r"neuralop is needed .* pip install neuraloperator"):
        FNONetwork(n_dims=2, **SIZES)


@pytest.fixture
def models():
    return pytest.importorskip("neuralop.models")


def test_outputs_are_those_of_the_library(models):
    """It moves frequencies along axes of odd size other than the last, as the network does if it is asked to."""
    usual, moved = [(9,), (1,), (6, 7), (2, 6), (8, 4, 5)], [(7, 6), (3, 4), (4, 3, 5)]
    for grid, n_modes in product([*usual, *moved], (4, 5)):
        sizes = SIZES | {"n_modes": n_modes}
        torch.manual_seed(0)
        network = FNONetwork(n_dims=len(grid), library_shifts=grid in moved, **sizes)
        torch.manual_seed(0)
        library = models.FNO(
            n_modes=(n_modes,) * len(grid), in_channels=len(grid) + 1, out_channels=2, hidden_channels=4, n_layers=2,
            positional_embedding=None,
        )  # fmt: skip
        coords, fields = coords_of(grid).float(), fields_on(grid).float()
        channels = torch.cat([coords.expand(2, -1, -1), fields], dim=-1)
        expected = library(channels.mT.unflatten(-1, grid)).flatten(2).mT
        torch.testing.assert_close(network(coords, fields, None, grid).field, expected, rtol=0, atol=0)


def convolution_of(n_dims, n_modes=4):
    """A spectral convolution in double precision."""
    torch.manual_seed(0)
    network = FNONetwork(n_dims=n_dims, **(SIZES | {"n_modes": n_modes})).double()
    return network.fno.fno_blocks.convs[0]


def on_grid(values, grid):
    """A periodic function without a Nyquist frequency, on another grid."""
    for axis, size in enumerate(grid, start=2):
        values = resample(values, size, axis=axis)
    return values


@pytest.mark.parametrize("n_modes", [4, 5])
@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_a_convolution_is_the_same_on_grids_of_any_size(models, n_dims, n_modes):
    convolution = convolution_of(n_dims, n_modes)
    for size in (3, 4, 5, 6, 9):
        # A grid of odd size has no Nyquist frequency.
        given = RANDOM.normal(size=(1, 4, *[size - 1 + size % 2] * n_dims))
        on_fine = [
            on_grid(convolution(torch.tensor(on_grid(given, grid))).detach().numpy(), [12] * n_dims)
            for grid in ([size] * n_dims, [size + 1] * n_dims)
        ]
        np.testing.assert_allclose(*on_fine, rtol=0, atol=1e-12)


@pytest.mark.parametrize("grid", [(9,), (7, 6), (6, 3), (3, 5, 4)])
def test_a_convolution_of_moved_values_is_moved(models, grid):
    convolution, values = convolution_of(len(grid)), torch.tensor(RANDOM.normal(size=(1, 4, *grid)))
    steps, axes = tuple(range(1, len(grid) + 1)), tuple(range(2, len(grid) + 2))
    expected = convolution(values).roll(steps, axes)
    torch.testing.assert_close(convolution(values.roll(steps, axes)), expected, rtol=0, atol=1e-12)


def test_weights_are_real_and_survive_conversion_copies_and_files(models):
    torch.manual_seed(0)
    network, grid = FNONetwork(n_dims=2, **(SIZES | {"n_scalars": 1})), (6, 5)
    assert all(isinstance(held, torch.Tensor) and not held.is_complex() for held in network.state_dict().values())
    inputs = coords_of(grid).float(), fields_on(grid).float(), None, grid
    expected = network(*inputs)
    assert expected.scalars.shape == (2, 1)
    other = FNONetwork(n_dims=2, **(SIZES | {"n_scalars": 1}))
    other.load_state_dict(network.state_dict())
    for same in (other, copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        torch.testing.assert_close(same(*inputs).field, expected.field, rtol=0, atol=0)
    network.double()
    found = network(inputs[0].double(), inputs[1].double(), None, grid)
    assert found.field.dtype == torch.float64
    torch.testing.assert_close(found.field.float(), expected.field, rtol=1e-4, atol=1e-5)
    found.field.sum().backward()
    assert all(held.grad is not None for name, held in network.named_parameters() if "scalar" not in name)


@pytest.mark.parametrize("grid", [(9,), (6, 5)])
def test_convolutions_keep_double_precision(models, grid):
    torch.manual_seed(0)
    network = FNONetwork(n_dims=len(grid), **SIZES).double()
    (convolution, _), (given, change) = network.fno.fno_blocks.convs, torch.randn(2, 3, 4, *grid, dtype=torch.float64)
    start, small, large = (convolution(given + factor * change) for factor in (0, 1e-9, 1))
    # The convolution is linear but for its bias.
    torch.testing.assert_close(1e9 * (small - start), large - start, rtol=1e-4, atol=1e-5)
