"""Scan paths: permutations in opposite pairs, and the directions that they name."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from skop.modules import SCANS, scan_paths

GRIDS = [(1,), (7,), (1, 1), (3, 5), (4, 4), (1, 6), (2, 3, 4), (3, 1, 2)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("scan", SCANS)
def test_every_path_visits_every_token_once(grid, scan):
    paths = scan_paths(grid, scan)
    assert paths.dtype == torch.int64
    for path in paths.tolist():
        assert sorted(path) == list(range(int(np.prod(grid))))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("scan", [scan for scan in SCANS if scan != "unidirectional"])
def test_paths_come_in_opposite_pairs(grid, scan):
    paths = scan_paths(grid, scan)
    assert len(paths) % 2 == 0
    assert torch.equal(paths[1::2], paths[::2].flip(1))


@pytest.mark.parametrize(
    ("scan", "counts"),
    [
        ("unidirectional", (1, 1, 1)),
        ("bidirectional", (2, 2, 2)),
        ("multidirectional", (2, 4, 6)),
        ("corner", (2, 4, 4)),
    ],
)
def test_number_of_paths_in_each_dimension(scan, counts):
    assert tuple(len(scan_paths(grid, scan)) for grid in ((4,), (4, 3), (4, 3, 2))) == counts


def test_the_four_paths_of_the_public_code_by_hand():
    index = np.arange(6).reshape(2, 3)
    expected = [index.ravel(), index.ravel()[::-1], index.T.ravel(), index.T.ravel()[::-1]]
    assert scan_paths((2, 3), "multidirectional").tolist() == [path.tolist() for path in expected]


def test_corner_paths_start_in_the_four_corners_of_a_plane():
    starts = {int(path[0]) for path in scan_paths((3, 4), "corner")}
    assert starts == {0, 3, 8, 11}


def test_every_axis_runs_fastest_once_in_three_dimensions():
    grid = (2, 3, 4)
    strides = (12, 4, 1)
    steps = [int(path[1] - path[0]) for path in scan_paths(grid, "multidirectional")[::2]]
    assert sorted(steps) == sorted(strides)


def test_neighbours_on_an_axis_follow_each_other_on_one_path():
    grid = (3, 4)
    paths = scan_paths(grid, "multidirectional").tolist()
    after = {pair for path in paths for pair in pairwise(path)}
    index = np.arange(12).reshape(grid)
    for a, b in [
        *zip(index[:, :-1].ravel(), index[:, 1:].ravel(), strict=True),
        *zip(index[:-1].ravel(), index[1:].ravel(), strict=True),
    ]:
        assert {(int(a), int(b)), (int(b), int(a))} <= after


def test_an_unknown_scan_names_those_that_exist():
    with pytest.raises(ValueError, match=r"'spiral'.*multidirectional"):
        scan_paths((2, 2), "spiral")


def test_paths_first_asked_for_in_a_prediction_can_be_trained_on():
    grid = (5, 7, 3)  # no other test asks for this grid
    with torch.inference_mode():
        scan_paths(grid, "multidirectional")
    values = torch.ones(105, requires_grad=True)
    order = scan_paths(grid, "multidirectional")
    assert not order.is_inference()
    (values[order] ** 2).sum().backward()
    assert torch.equal(values.grad, torch.full((105,), 12.0))
