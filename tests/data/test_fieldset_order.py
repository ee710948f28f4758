"""The fixed order of points within each sample."""

import itertools

import numpy as np
import pytest

from skop import FieldSet
from skop.data._fieldset import point_order

SIZES = np.array([5, 1, 9, 3])


def ragged():
    """Samples with points and an empty field."""
    generator = np.random.default_rng(0)
    points = [generator.random((size, 3)) for size in SIZES]
    return FieldSet(points, [np.zeros((size, 1)) for size in SIZES])


def test_points_are_sorted_within_each_sample():
    fields = ragged()
    order, offsets = point_order(fields), fields.offsets
    assert sorted(order.tolist()) == list(range(SIZES.sum()))
    for start, stop in itertools.pairwise(offsets):
        rows = order[start:stop]
        assert ((rows >= start) & (rows < stop)).all()
        assert (np.diff(fields.coords[rows, 0]) > 0).all()


def test_the_first_coordinate_leads_and_later_ones_break_ties():
    points = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0], [1.0, -1.0]])
    fields = FieldSet(points, np.zeros((2, 4, 1)))
    assert point_order(fields).tolist() == [2, 1, 3, 0]


def test_sorted_points_do_not_depend_on_their_listing():
    fields = ragged()
    generator = np.random.default_rng(1)
    moved = FieldSet([generator.permutation(item) for item in fields.coords_list()], fields.to_list())
    np.testing.assert_array_equal(moved.coords[point_order(moved)], fields.coords[point_order(fields)])


def test_own_points_are_sorted_as_ragged_ones():
    coords = np.random.default_rng(0).random((3, 6, 2))
    order = point_order(FieldSet(coords, np.zeros((3, 6, 1))))
    expected = [6 * i + np.lexsort(item.T[::-1]) for i, item in enumerate(coords)]
    np.testing.assert_array_equal(order, np.concatenate(expected))


def test_selections_count_from_their_own_rows():
    part = ragged()[[2, 0]]
    order = point_order(part)
    assert sorted(order.tolist()) == list(range(14))
    assert (order[:9] < 9).all()


@pytest.mark.parametrize("ragged", [False, True])
def test_points_at_one_place_are_ordered_by_their_fields(ragged):
    generator = np.random.default_rng(0)
    points = [np.repeat(generator.random((4, 2)), 2, axis=0) for _ in range(2)]
    points += [generator.random((3, 2))] if ragged else []
    fields = [generator.normal(size=(len(item), 2)) for item in points]
    sorted_fields = []
    for order in (np.arange(8), generator.permutation(8)):
        given = [[part[0][order], *part[1:]] for part in (points, fields)]
        held = FieldSet(*given) if ragged else FieldSet(np.stack(given[0]), np.stack(given[1]))
        sorted_fields.append(held.values.reshape(-1, 2)[point_order(held)])
    np.testing.assert_array_equal(*sorted_fields)
