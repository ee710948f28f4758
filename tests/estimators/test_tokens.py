"""The automatic patch size: few enough tokens, and no larger patches than that takes."""

import math

from skop.modules import automatic_patch_size, token_grid


def test_sizes_by_hand(subtests):
    for grid, patch in [
        ((1,), 2), ((128,), 2), ((129,), 3), ((1000,), 16), ((16, 16), 2), ((17, 16), 3), ((64, 64), 8), ((85, 85), 11),
        ((8, 8, 8), 2), ((9, 8, 8), 3), ((32, 32, 32), 8), ((2, 200), 4), ((1, 1), 2),
    ]:  # fmt: skip
        with subtests.test(grid=grid, patch=patch):
            assert automatic_patch_size("auto", grid) == patch


def test_the_smallest_patch_of_two_points_or_more_that_leaves_64_tokens():
    for grid in [(3,), (700,), (20, 31), (5, 400), (128, 128), (9, 10, 11), (2, 3, 500)]:
        size = automatic_patch_size("auto", grid)
        n_tokens, more = (math.prod(token_grid(grid, (patch,) * len(grid))) for patch in (size, max(size - 1, 1)))
        assert size >= 2, grid
        assert n_tokens <= 64, grid
        assert size == 2 or more > 64, grid


def test_a_size_that_is_given_is_kept():
    assert [automatic_patch_size(size, (500, 500)) for size in (1, 2, 7)] == [1, 2, 7]
