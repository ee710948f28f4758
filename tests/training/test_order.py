"""The order of an epoch: every sample once, groups whole, rounds as they are defined."""

from itertools import product

import numpy as np
import pytest

from skop.training._order import epoch_rounds


def rounds(n_samples, batch_size, seed=0, **options):
    return list(epoch_rounds(n_samples, batch_size, np.random.RandomState(seed), **options))


def test_every_sample_comes_once():
    for grouping, (n_samples, group_size, batch_size) in product(
        ["together", "spread"], [(12, 3, 2), (15, 3, 2), (8, 1, 3), (10, 5, 9)]
    ):
        result = rounds(n_samples, batch_size, group_size=group_size, grouping=grouping)
        assert sorted(np.concatenate([order for order, _ in result])) == list(range(n_samples))
        assert len(result) == -(-n_samples // group_size // batch_size)
        for order, _ in result:
            members, counts = np.unique(order // group_size, return_counts=True)
            assert len(members) <= batch_size
            assert (counts == group_size).all()


def test_single_samples_follow_one_permutation():
    expected = np.random.RandomState(3).permutation(11)
    result = rounds(11, 4, seed=3)
    np.testing.assert_array_equal(np.concatenate([order for order, _ in result]), expected)
    assert [size for _, size in result] == [4, 4, 3]


def test_together_keeps_the_members_in_their_order_and_in_one_batch():
    for order, size in rounds(24, 2, group_size=4):
        assert size == len(order) == 8
        np.testing.assert_array_equal(order.reshape(2, 4) % 4, [np.arange(4)] * 2)


def test_spread_gives_one_member_of_each_group_in_every_batch():
    result = rounds(28, 3, group_size=4, grouping="spread")
    assert [size for _, size in result] == [3, 3, 1]
    visits = []
    for order, size in result:
        batches = order.reshape(4, size)
        assert (batches // 4 == batches[0] // 4).all()
        visits.extend(tuple(own) for own in (batches % 4).T)
    # Each group has an order of its own, and not all the same one.
    assert all(sorted(own) == [0, 1, 2, 3] for own in visits)
    assert len(set(visits)) > 3


def test_orders_repeat_with_the_seed_and_change_within_it():
    options = {"group_size": 2, "grouping": "spread"}
    one, two, other = (rounds(16, 2, seed=seed, **options) for seed in (5, 5, 6))
    flat = [np.concatenate([order for order, _ in result]).tolist() for result in (one, two, other)]
    assert flat[0] == flat[1] != flat[2]


def test_part_groups_are_refused():
    with pytest.raises(ValueError, match="10 samples do not form groups of 4"):
        rounds(10, 2, group_size=4)
