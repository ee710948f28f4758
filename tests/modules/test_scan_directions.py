"""Scan directions: the sets and orders of the paper and of VMamba, and the paths and passes that they name."""

from itertools import combinations, pairwise, product
from math import prod

import numpy as np
import pytest
import torch

import skop.ops
from skop.modules import DIRECTION_ORDERS, SCAN_DIRECTIONS, direction_paths, direction_set

#: Sets that hold the reverse of each of their directions: all but one.
SETS = [name for name in SCAN_DIRECTIONS if name != "forward"]
GRIDS = [(1,), (7,), (1, 1), (3, 5), (4, 4), (1, 6), (2, 3, 4), (3, 1, 2)]
ROWS, COLUMNS = [0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5]


def index_paths(grid, name, order):
    return direction_paths(grid, direction_set(len(grid), name, order)).tolist()


# ---------------------------------------------------------------- explicit lists
@pytest.mark.parametrize(
    ("order", "expected"),
    [
        # VMamba stacks rows and columns, then the reverses of both.
        ("vmamba", [ROWS, COLUMNS, ROWS[::-1], COLUMNS[::-1]]),
        # Section 4.2 of the paper: (1) rows from the upper left, (2) from the lower right, (3) and (4) columns.
        ("paper", [ROWS, ROWS[::-1], COLUMNS, COLUMNS[::-1]]),
    ],
)
def test_the_four_way_cross_scan_by_hand(order, expected):
    assert index_paths((2, 3), "cross", order) == expected


def test_sets_of_directions_of_a_matrix():
    for name, order, expected in [
        ("cross", "vmamba", ((2, 1), (1, 2), (-2, -1), (-1, -2))),
        ("cross", "paper", ((2, 1), (-2, -1), (1, 2), (-1, -2))),
        ("corners", "vmamba", ((2, 1), (1, -2), (-2, -1), (-1, 2))),
        ("corners", "paper", ((2, 1), (-2, -1), (1, -2), (-1, 2))),
        ("all", "vmamba", ((2, 1), (1, 2), (-2, 1), (1, -2), (-2, -1), (-1, -2), (2, -1), (-1, 2))),
        ("all", "paper", ((2, 1), (-2, -1), (1, 2), (-1, -2), (-2, 1), (2, -1), (1, -2), (-1, 2))),
    ]:
        assert direction_set(2, name, order) == expected


def test_a_line_is_run_through_forwards_and_backwards():
    for name, order in product(SETS, DIRECTION_ORDERS):
        assert index_paths((4,), name, order) == [[0, 1, 2, 3], [3, 2, 1, 0]]


def test_every_axis_is_the_fastest_once_from_the_first_corner_of_a_box():
    grid = (2, 3, 4)
    cells = np.arange(24).reshape(grid)
    # Slowest axis first: the last axis fastest, then the middle one, then the first one.
    ahead = [cells.transpose(axes).ravel().tolist() for axes in ((0, 1, 2), (2, 0, 1), (1, 2, 0))]
    assert index_paths(grid, "cross", "vmamba") == [*ahead, *(path[::-1] for path in ahead)]
    assert index_paths(grid, "cross", "paper")[::2] == ahead


def test_forward_is_c_order_and_bidirectional_its_reverse_too():
    for grid in GRIDS:
        ahead = list(range(prod(grid)))
        for order in DIRECTION_ORDERS:
            assert index_paths(grid, "forward", order) == [ahead]
            assert index_paths(grid, "bidirectional", order) == [ahead, ahead[::-1]]


def test_row_corners_are_rows_of_the_grid_and_of_its_mirror_image_by_hand():
    # Remark 3.2 of LaMO's paper: C order from each pair of opposite corners.
    mirrored = [2, 1, 0, 5, 4, 3]
    assert index_paths((2, 3), "row_corners", "paper") == [ROWS, ROWS[::-1], mirrored, mirrored[::-1]]
    cells = np.arange(24).reshape(2, 3, 4)
    ahead = [cells.ravel().tolist(), cells[..., ::-1].ravel().tolist()]
    assert index_paths((2, 3, 4), "row_corners", "paper")[::2] == ahead


# ---------------------------------------------------------------- laws of all sets
def test_every_path_visits_every_cell_once_and_has_its_reverse():
    for grid, name, order in product(GRIDS, SETS, DIRECTION_ORDERS):
        paths = direction_paths(grid, direction_set(len(grid), name, order))
        assert paths.dtype == torch.int64
        assert all(sorted(path) == list(range(prod(grid))) for path in paths.tolist())
        half = len(paths) // 2
        ahead, back = (paths[:half], paths[half:]) if order == "vmamba" else (paths[::2], paths[1::2])
        assert torch.equal(back, ahead.flip(1))


COUNTS = {
    "forward": (1, 1, 1), "bidirectional": (2, 2, 2), "cross": (2, 4, 6), "corners": (2, 4, 8),
    "row_corners": (2, 4, 4), "all": (2, 8, 24),
}  # fmt: skip


def test_every_set_has_its_counts():
    assert tuple(COUNTS) == SCAN_DIRECTIONS


def test_numbers_of_different_directions():
    for name, counts in COUNTS.items():
        for n_dims, count in enumerate(counts, start=1):
            for order in DIRECTION_ORDERS:
                directions = direction_set(n_dims, name, order)
                assert len(directions) == len(set(directions)) == count
                assert all(sorted(map(abs, direction)) == list(range(1, n_dims + 1)) for direction in directions)
            last, following = (set(direction_set(n_dims, name, order)) for order in DIRECTION_ORDERS)
            assert last == following


def corners_of(grid):
    cells = np.arange(prod(grid)).reshape(grid)
    return {int(cells[corner]) for corner in product(*((0, size - 1) for size in grid))}


def test_corners_where_paths_start():
    for grid, name in product([(4,), (3, 5), (2, 3, 4)], SETS):
        starts = [path[0] for path in index_paths(grid, name, "vmamba")]
        if name in ("bidirectional", "cross"):
            assert set(starts) == {0, prod(grid) - 1}
        elif name == "row_corners":
            assert len(set(starts)) == len(starts) == min(4, 2 ** len(grid))
            assert set(starts) <= corners_of(grid)
        else:
            assert set(starts) == corners_of(grid)
            counts = {starts.count(corner) for corner in starts}
            assert counts == {1 if name == "corners" else len(grid)}


def test_quadrants_that_a_cell_sees():
    for name, seen in [
        ("forward", 1),
        ("bidirectional", 2),
        ("cross", 2),
        ("corners", 4),
        ("row_corners", 4),
        ("all", 4),
    ]:
        # A quadrant is seen where both axes run towards the cell from there.
        quadrants = {tuple(np.sign(sorted(direction, key=abs))) for direction in direction_set(2, name)}
        assert len(quadrants) == seen


@pytest.mark.parametrize("n_dims", [2, 3])
def test_one_path_from_every_corner_still_runs_along_every_axis(n_dims):
    fastest = {abs(direction[0]) for direction in direction_set(n_dims, "corners")}
    assert fastest == set(range(1, n_dims + 1))


def test_neighbours_on_an_axis_follow_each_other_on_a_path_of_the_cross():
    grid = (3, 4)
    after = {pair for path in index_paths(grid, "cross", "paper") for pair in pairwise(path)}
    cells = np.arange(12).reshape(grid)
    neighbours = [
        *np.stack([cells[:, :-1], cells[:, 1:]], -1).reshape(-1, 2),
        *np.stack([cells[:-1], cells[1:]], -1).reshape(-1, 2),
    ]
    for a, b in neighbours:
        assert {(int(a), int(b)), (int(b), int(a))} <= after


# ---------------------------------------------------------------- the passes of the scans of a grid
def scan_inputs(grid, states=2, channels=3):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    shape = (1, *grid, 1)
    return (
        normal(1, *grid, channels), normal(*shape, channels).exp(), -normal(1, channels, states).exp(),
        normal(*shape, states), normal(*shape, states),
    )  # fmt: skip


def signed(n_dims):
    """All directions of a grid with so many axes."""
    turns = set(direction_set(n_dims, "all"))
    turns |= {tuple(direction[i] for i in (1, 0, 2)[:n_dims]) for direction in turns}
    return sorted(turns)


def test_on_a_line_the_scan_of_a_grid_is_that_of_the_path():
    for grid in [(1, 6), (6, 1), (1, 1, 5), (1, 5, 1), (5, 1, 1)]:
        n_dims = len(grid)
        x, dt, A, B, C = scan_inputs(grid)
        scan = getattr(skop.ops, f"selective_scan_{n_dims}d")
        directions = signed(n_dims)
        assert len(directions) == {2: 8, 3: 48}[n_dims]
        for direction in directions:
            found = scan(x, dt, A, B, C, directions=(direction,)).flatten(1, -2)
            flat = [values.flatten(1, n_dims) for values in (x, dt, B, C)]
            expected = skop.ops.selective_scan(*flat[:2], A, *flat[2:], paths=direction_paths(grid, (direction,)))
            torch.testing.assert_close(found, expected)


def test_the_scan_of_a_grid_reaches_the_cells_that_lie_ahead_on_both_axes():
    for direction in signed(2):
        grid = (3, 4)
        x, dt, A, B, C = scan_inputs(grid)
        x = x.requires_grad_()
        outputs = skop.ops.selective_scan_2d(x, dt, A, B, C, directions=(direction,)).flatten(1, 2)
        cells = list(product(range(3), range(4)))
        (path,) = direction_paths(grid, (direction,)).tolist()
        place = {cells[cell]: number for number, cell in enumerate(path)}
        for number, target in enumerate(cells):
            (gradient,) = torch.autograd.grad(outputs[0, number].sum(), x, retain_graph=True)
            reached = gradient[0].abs().amax(-1) > 0
            for source in cells:
                # Eq. 23: the sum runs over the cells before the target on both axes.
                behind = all((target[abs(axis) - 1] - source[abs(axis) - 1]) * axis >= 0 for axis in direction)
                assert reached[source] == behind
                # A path has passed all of them.
                assert not behind or place[source] <= place[target]


# ---------------------------------------------------------------- errors and the cache
def test_unknown_names_are_refused_with_those_that_exist():
    with pytest.raises(ValueError, match=r"scan_directions is 'spiral'.*'cross', 'corners', 'row_corners', 'all'"):
        direction_set(2, "spiral")
    with pytest.raises(ValueError, match=r"order is 'random'.*'vmamba', 'paper'"):
        direction_set(2, "cross", "random")


def test_a_grid_has_an_axis():
    for name in SETS:
        with pytest.raises(ValueError, match="n_dims=0; expected at least 1 axis"):
            direction_set(0, name)


def test_sizes_of_a_grid_are_not_mixed_up():
    for grid, other in combinations([(2, 6), (6, 2), (3, 4), (4, 3)], 2):
        assert index_paths(grid, "cross", "vmamba") != index_paths(other, "cross", "vmamba")


def test_paths_first_asked_for_in_a_prediction_can_be_trained_on():
    grid, directions = (5, 11, 2), direction_set(3)  # no other test asks for this grid
    with torch.inference_mode():
        direction_paths(grid, directions)
    values = torch.ones(110, requires_grad=True)
    order = direction_paths(grid, directions)
    assert not order.is_inference()
    (values[order] ** 2).sum().backward()
    assert torch.equal(values.grad, torch.full((110,), 12.0))
