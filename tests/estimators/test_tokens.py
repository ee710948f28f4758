"""The automatic patch size: few enough tokens, and no larger patches than that takes."""

import math

import pytest

from skop.modules import automatic_patch_size, token_grid


@pytest.mark.parametrize(
    ("grid", "patch"),
    [
        ((1,), 2), ((128,), 2), ((129,), 3), ((1000,), 16), ((16, 16), 2), ((17, 16), 3), ((64, 64), 8), ((85, 85), 11),
        ((8, 8, 8), 2), ((9, 8, 8), 3), ((32, 32, 32), 8), ((2, 200), 4), ((1, 1), 2),
    ],
)  # fmt: skip
def test_sizes_by_hand(grid, patch):
    assert automatic_patch_size("auto", grid) == patch


@pytest.mark.parametrize("grid", [(3,), (700,), (20, 31), (5, 400), (128, 128), (9, 10, 11), (2, 3, 500)])
def test_the_smallest_patch_of_two_points_or_more_that_leaves_64_tokens(grid):
    def tokens(patch):
        return math.prod(token_grid(grid, (patch,) * len(grid)))

    size = automatic_patch_size("auto", grid)
    assert size >= 2
    assert tokens(size) <= 64
    assert size == 2 or tokens(size - 1) > 64


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_size_that_is_given_is_kept(size):
    assert automatic_patch_size(size, (500, 500)) == size
