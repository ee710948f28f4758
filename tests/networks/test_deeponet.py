"""DeepONet's network against its formula, and on shared points, own points, packed samples and query points."""

import pytest
import torch
from torch.nn.functional import gelu

from skop.networks import DeepONetNetwork

SENSORS = 5


def make_network(**changes):
    torch.manual_seed(0)
    sizes = {
        "n_dims": 2, "n_fields": 2, "n_params": 1, "n_outputs": 2, "n_scalars": 3, "n_sensors": SENSORS, "width": 4,
        "branch_depth": 2, "trunk_depth": 1, "n_basis": 3,
    }  # fmt: skip
    network = DeepONetNetwork(**(sizes | changes)).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def random(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense(layers, values, number):
    """Apply a linear layer by its weights."""
    return values @ layers[number].weight.T + layers[number].bias


def test_outputs_are_sums_of_products_of_branch_and_trunk():
    network = make_network()
    coords, fields, params = random(SENSORS, 2), random(2, SENSORS, 2, seed=2), random(2, 1, seed=3)
    outputs = network(coords, fields, params)
    first, second = (gelu(dense(network.trunk[0], coords, 0)), 2)
    basis = gelu(dense(network.trunk[0], first, second))
    for sample in range(2):
        hidden = torch.cat([fields[sample].reshape(-1), params[sample]])
        for number in (0, 2):
            hidden = gelu(dense(network.branch, hidden, number))
        found = dense(network.branch, hidden, 4)
        for point in range(SENSORS):
            for channel in range(2):
                total = network.bias[channel]
                for k in range(3 * channel, 3 * channel + 3):
                    total = total + found[k] * basis[point, k]
                torch.testing.assert_close(outputs.field[sample, point, channel], total)
        torch.testing.assert_close(outputs.scalars[sample], found[6:])


def test_own_points_shared_points_and_query_points_agree():
    network = make_network(n_frequencies=1)
    coords, fields, params = random(SENSORS, 2), random(2, SENSORS, 2, seed=2), random(2, 1, seed=3)
    shared = network(coords, fields, params)
    own = network(coords.expand(2, -1, -1), fields, params)
    torch.testing.assert_close(own.field, shared.field)
    places = random(7, 2, seed=4)
    queries = {"query_coords": torch.cat([places, coords]), "query_fields": random(2, 12, 2)}
    found = network(coords, fields, params, **queries)
    torch.testing.assert_close(found.field[:, 7:], shared.field)
    torch.testing.assert_close(found.scalars, shared.scalars)


def test_packed_samples_of_parameters_are_as_each_by_itself():
    network = make_network(n_fields=0)
    coords, params = random(9, 2), random(2, 1, seed=3)
    packed = network(coords, None, params, sizes=(2, 7))
    alone = [network(part, None, own) for part, own in zip(coords.split((2, 7)), params.split(1), strict=True)]
    torch.testing.assert_close(packed.field, torch.cat([own.field[0] for own in alone]))
    torch.testing.assert_close(packed.scalars, torch.cat([own.scalars for own in alone]))


def test_what_it_cannot_read_is_refused():
    with pytest.raises(ValueError, match="leave the branch network without input"):
        make_network(n_fields=0, n_params=0)
    with pytest.raises(ValueError, match="input fields at 4 points, but was built for 5 sensors"):
        make_network()(random(4, 2), random(2, 4, 2), random(2, 1))
    with pytest.raises(ValueError, match="packed samples, which it does not support"):
        make_network()(random(5, 2), random(5, 2), random(2, 1), sizes=(2, 3))
