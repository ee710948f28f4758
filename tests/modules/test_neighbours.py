"""Interpolation from nearest neighbours: identity at points, means between them, independence of the listing."""

from itertools import product

import pytest
import torch

from skop.modules import find_neighbours


def random(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_values_stay_at_their_own_points():
    for n_dims, n_points in product([1, 2, 3], [1, 3, 30]):
        points, values = random(2, n_points, n_dims), random(2, n_points, 5, seed=1)
        assert torch.equal(find_neighbours(points, points).carry(values), values)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_constants_are_kept_and_values_stay_within_theirs(n_dims):
    points, targets = random(2, 30, n_dims), random(2, 11, n_dims, seed=2)
    found = find_neighbours(points, targets)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(2, 11, dtype=torch.float64))
    assert (found.weights >= 0).all()


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_the_middle_of_a_cell_takes_the_mean_of_its_corners(n_dims):
    axes = torch.meshgrid(*[torch.arange(5.0, dtype=torch.float64)] * n_dims, indexing="ij")
    points = torch.stack([axis.flatten() for axis in axes], dim=-1)[None]
    middle = torch.full((1, 1, n_dims), 1.5, dtype=torch.float64)
    values = random(1, 5**n_dims, 1)
    corners = values[0, ((points - middle).abs() < 1).all(-1)[0]]
    assert len(corners) == 2**n_dims
    torch.testing.assert_close(find_neighbours(points, middle).carry(values)[0], corners.mean(0, keepdim=True))


def test_values_do_not_depend_on_the_listing_nor_on_other_targets():
    points, values, targets = random(1, 30, 2), random(1, 30, 3, seed=1), random(1, 11, 2, seed=2)
    expected = find_neighbours(points, targets).carry(values)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(find_neighbours(points[:, order], targets).carry(values[:, order]), expected)
    assert torch.equal(find_neighbours(points, targets[:, 3:4]).carry(values), expected[:, 3:4])


def test_values_vary_continuously_towards_a_point_and_across_a_change_of_neighbours():
    points, values = random(1, 30, 2), random(1, 30, 1, seed=1)
    start, end = points[:, :1], random(1, 1, 2, seed=3)
    path = start + torch.linspace(0, 1, 2001, dtype=torch.float64)[None, :, None] * (end - start)
    found = find_neighbours(points, path).carry(values)[0, :, 0]
    assert found.diff().abs().max() < 0.02
    assert found.max() - found.min() > 0.1


def test_gradients_are_finite_at_points():
    points = random(1, 10, 2)
    values = random(1, 10, 1, seed=1).requires_grad_()
    targets = torch.cat([points[:, :3], random(1, 3, 2, seed=2)], dim=1).requires_grad_()
    find_neighbours(points, targets).carry(values).square().sum().backward()
    assert targets.grad.isfinite().all()
    assert values.grad.isfinite().all()
