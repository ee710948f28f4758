"""The running average of weights against its formula."""

import numpy as np
import pytest
import torch
from torch import nn

from skop.training._averaging import WeightAverage


def walk(network, rng):
    """Move the weights somewhere else."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.from_numpy(rng.normal(size=tuple(parameter.shape))))


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_the_average_is_that_of_the_formula(decay):
    rng = np.random.default_rng(0)
    network = nn.Linear(3, 2).double()
    average = WeightAverage(network, decay)
    expected = network.weight.detach().numpy().copy()
    for step in range(200):
        walk(network, rng)
        now = min(decay, (1 + step) / (10 + step))
        expected = now * expected + (1 - now) * network.weight.detach().numpy()
        average.update()
    np.testing.assert_allclose(average.mean[0].numpy(), expected, rtol=1e-12, atol=1e-14)


def test_the_start_is_forgotten():
    # After t updates the start has weight prod min(decay, (1+s)/(10+s)), far less than decay^t.
    network = nn.Linear(1, 1).double()
    with torch.no_grad():
        network.weight.fill_(1e6)
    average = WeightAverage(network, 0.999)
    with torch.no_grad():
        network.weight.fill_(1.0)
    for _ in range(20):
        average.update()
    assert abs(average.mean[0].item() - 1.0) < 1.0


def test_a_constant_is_its_own_average():
    network = nn.Linear(4, 4)
    before = network.weight.detach().clone()
    average = WeightAverage(network, 0.9)
    for _ in range(10):
        average.update()
    assert torch.equal(average.mean[0], before)


def test_swap_puts_the_average_in_and_back():
    network = nn.Linear(3, 2)
    average = WeightAverage(network, 0.9)
    walk(network, np.random.default_rng(0))
    average.update()
    live = [parameter.detach().clone() for parameter in network.parameters()]
    mean = [held.clone() for held in average.mean]
    average.swap()
    assert all(torch.equal(now, held) for now, held in zip(network.parameters(), mean, strict=True))
    average.swap()
    assert all(torch.equal(now, held) for now, held in zip(network.parameters(), live, strict=True))
    assert all(torch.equal(now, held) for now, held in zip(average.mean, mean, strict=True))


def test_averaging_touches_neither_weights_nor_gradients_nor_buffers():
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    network(torch.randn(5, 3, generator=torch.Generator().manual_seed(0))).sum().backward()
    weights = [parameter.detach().clone() for parameter in network.parameters()]
    gradients = [parameter.grad.clone() for parameter in network.parameters()]
    running = network[1].running_mean.clone()
    average = WeightAverage(network, 0.9)
    average.update()
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), weights, strict=True))
    assert all(torch.equal(a.grad, b) for a, b in zip(network.parameters(), gradients, strict=True))
    assert torch.equal(network[1].running_mean, running)
    assert not any(held.requires_grad for held in average.mean)
