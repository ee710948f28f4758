"""Orders of points along space-filling curves: independence of the listing, locality, ties."""

from itertools import product

import pytest
import torch

from skop.modules import sort_points
from skop.modules._point_order import point_codes

CURVES = ["hilbert", "morton"]


def grid(n_dims, size):
    """Points of a grid, as whole numbers."""
    return torch.tensor(list(product(range(size), repeat=n_dims)), dtype=torch.float64)


def random(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_hilberts_curve_goes_from_neighbour_to_neighbour_and_mortons_jumps():
    for n_dims, size in [(1, 9), (2, 8), (2, 16), (3, 4), (3, 8)]:
        points = grid(n_dims, size)
        steps = {}
        for curve in CURVES:
            visited = points[sort_points(points, curve)]
            assert len(visited.unique(dim=0)) == size**n_dims
            steps[curve] = visited.diff(dim=0).norm(dim=-1)
        assert (steps["hilbert"] == 1).all()
        assert (steps["morton"].max() > 2) == (n_dims > 1)


def test_points_that_are_close_on_hilberts_curve_are_close_in_space():
    """Mean distance of points some places apart, which scans with a fading memory see together."""
    points = random(1024, 2)
    for apart in (1, 4, 16):
        distance = {}
        for curve in CURVES:
            visited = points[sort_points(points, curve)]
            distance[curve] = (visited[apart:] - visited[:-apart]).norm(dim=-1).mean()
        assert distance["hilbert"] < 0.95 * distance["morton"]


def test_the_order_does_not_depend_on_the_listing():
    for curve, n_dims in product(CURVES, [1, 2, 3]):
        # Several points of a cell: the first two differ by less than any cell, the next two not at all.
        points = torch.cat([random(40, n_dims), torch.full((2, n_dims), 0.5), torch.full((2, n_dims), 0.25)])
        points[41, -1] += 1e-14
        expected = points[sort_points(points, curve)]
        for seed in range(3):
            shuffled = points[torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))]
            assert torch.equal(shuffled[sort_points(shuffled, curve)], expected)


@pytest.mark.parametrize("curve", CURVES)
def test_moved_and_scaled_points_keep_their_order(curve):
    points = (random(50, 3) * 64).round()
    assert torch.equal(sort_points(8.0 * points - 256.0, curve), sort_points(points, curve))


def test_samples_of_a_batch_are_sorted_by_themselves():
    for curve, n_dims in product(CURVES, [1, 2, 3]):
        points = random(3, 20, n_dims) * torch.tensor([1.0, 10.0, 0.1])[:, None, None]
        expected = torch.stack([sort_points(own, curve) for own in points])
        assert torch.equal(sort_points(points, curve), expected)


def test_mortons_codes_take_the_bits_in_turn():
    codes = point_codes(grid(2, 4) / 4 * 3 / 2.25, "morton")
    expected = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    assert codes.argsort(stable=True).argsort().tolist() == expected


def test_points_at_one_place_and_single_points_have_an_order():
    assert sort_points(torch.ones(3, 2)).tolist() == [0, 1, 2]
    assert sort_points(torch.ones(1, 3)).tolist() == [0]
    assert sort_points(random(2, 5, 2), "given").tolist() == [[0, 1, 2, 3, 4]] * 2


def test_unknown_curves_and_dimensions_are_refused():
    with pytest.raises(ValueError, match="point_order is 'peano'"):
        sort_points(random(3, 2), "peano")
    with pytest.raises(ValueError, match="points of 4 dimensions"):
        sort_points(random(3, 4))


def test_packed_samples_are_sorted_one_by_one():
    for curve, n_dims in product([*CURVES, "given"], [1, 2, 3]):
        sizes = (7, 1, 12, 2)
        parts = [scale * random(size, n_dims, seed=size) for size, scale in zip(sizes, (1, 1, 9, 0), strict=True)]
        starts = [0, 7, 8, 20]
        expected = [sort_points(own, curve) + start for own, start in zip(parts, starts, strict=True)]
        assert torch.equal(sort_points(torch.cat(parts), curve, sizes), torch.cat(expected))
