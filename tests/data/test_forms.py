"""The forms in which samples come, and the way back to them."""

import numpy as np
import pytest

from skop import FieldSet
from skop.data import Predictions, read
from skop.data._reading import _as_list, _carries_points, _is_pairs, _is_point_sets, _is_table
from skop.exceptions import FieldDataError, SkopWarning


def ragged(sizes=(5, 1, 7)):
    """Points of each sample, and fields of two channels."""
    generator = np.random.default_rng(0)
    points = [generator.random((size, 2)) for size in sizes]
    return points, [generator.random((size, 2)) for size in sizes]


def pairs(points, fields):
    """A list of (coords, fields)."""
    return list(zip(points, fields, strict=True))


def round_trip(X, y):
    """Give the targets of y back in the form of y."""
    data = read(X, y)
    field = data.targets.field
    predictions = Predictions(None if field is None else field.values, data.targets.scalars)
    return data.spec.target_form.restore(predictions, data.inputs)


def assert_same(found, expected):
    """Forms and numbers agree."""
    assert type(found) is type(expected)
    if isinstance(expected, FieldSet):
        assert_same(found.coords_list(), expected.coords_list())
        assert_same(found.to_list(), expected.to_list())
        assert found.channel_names == expected.channel_names
        assert (found.params is None) == (expected.params is None)
        if expected.params is not None:
            np.testing.assert_array_equal(found.params, expected.params)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sizes", [(5, 1, 7), (6, 6, 6)])
@pytest.mark.parametrize("input_form", ["list", "pairs", "pairs of None", "fieldset"])
@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_targets_on_points_come_back_as_they_were(input_form, sizes):
    points, fields = ragged(sizes)
    X = {
        "list": points,
        "pairs": pairs(points, fields),
        "pairs of None": [(item, None) for item in points],
        "fieldset": FieldSet(points, fields),
    }[input_form]
    for y in (
        fields,
        [item[:, 0] for item in fields],
        pairs(points, fields),
        FieldSet(points, fields),
        FieldSet(points, fields, params=np.arange(6.0).reshape(3, 2), channel_names=["a", "b"]),
        [item.astype(np.float32) for item in fields],
        np.arange(3.0),
        np.arange(6.0).reshape(3, 2),
    ):
        assert_same(round_trip(X, y), y)


def test_tuples_of_lists_come_back_as_such():
    points, fields = ragged()
    assert_same(round_trip((points, fields), (points, fields)), (points, fields))


def test_tuples_of_arrays_come_back_as_such():
    generator = np.random.default_rng(0)
    for coords in (generator.random((6, 2)), generator.random((3, 6, 2))):
        y = (coords, generator.random((3, 6, 2)))
        assert_same(round_trip((coords, generator.random((3, 6, 1))), y), y)


def test_arrays_on_shared_points_come_back_as_arrays():
    generator = np.random.default_rng(0)
    X = FieldSet(generator.random((6, 2)), generator.random((3, 6, 1)))
    for y in (generator.random((3, 6, 2)), generator.random((3, 6))):
        assert_same(round_trip(X, y), y)


def test_a_sample_of_lists_comes_alone():
    points, fields = ragged((5,))
    assert_same(round_trip(points, fields), fields)
    assert_same(round_trip(pairs(points, fields), [fields[0][:, 0]]), [fields[0][:, 0]])


def test_predictions_of_other_sizes_come_as_lists_where_y_was_an_array():
    generator = np.random.default_rng(0)
    data = read(FieldSet(generator.random((6, 2)), generator.random((3, 6, 1))), generator.random((3, 6)))
    points, fields = ragged()
    flat = np.concatenate(fields)[:, :1]
    found = data.spec.target_form.restore(Predictions(flat), FieldSet(points, fields))
    assert [item.shape for item in found] == [(5,), (1,), (7,)]


def test_lists_of_one_shape_are_read_as_points_with_a_warning():
    points, fields = ragged((6, 6, 6))
    with pytest.warns(SkopWarning, match="2-D points"):
        data = read(points, fields)
    assert (data.spec.n_fields, data.spec.n_dims, data.spec.geometry) == (0, 2, "points")


def test_sizes_and_scalars_are_counted():
    points, fields = ragged()
    y = FieldSet(points, fields, params=np.ones((3, 4)))
    spec = read(FieldSet(points, fields, params=np.ones((3, 2))), y).spec
    assert (spec.n_fields, spec.n_params, spec.n_outputs, spec.n_scalars) == (2, 2, 2, 4)
    spec = read(points, np.ones((3, 4))).spec
    assert (spec.n_outputs, spec.n_scalars) == (0, 4)


def test_kinds_are_told_apart():
    points, fields = ragged()
    held = np.empty(3, dtype=object)
    held[:] = points
    assert _is_point_sets(_as_list(held))
    assert _is_point_sets(points)
    assert not _is_point_sets(pairs(points, fields))
    assert not _is_point_sets([[1.0, 2.0]])
    assert not _is_point_sets([])
    assert not _is_point_sets([np.zeros((4, 4, 1))])
    assert _is_pairs(pairs(points, fields))
    assert _is_pairs([(points[0], None)])
    assert not _is_pairs(points)
    assert not _is_table(points)
    assert not _is_table(_as_list(held))
    assert not _is_table(pairs(points, fields))
    assert _is_table([[1.0, 2.0]])
    assert _is_table([np.zeros(3)])
    assert _is_table([])
    assert _carries_points(FieldSet(points, fields))
    assert _carries_points(pairs(points, fields))
    assert not _carries_points(None)
    assert not _carries_points(np.zeros(3))


def test_predictions_without_content_are_refused():
    points, _ = ragged()
    with pytest.raises(ValueError, match="neither"):
        read(points, np.ones(3)).spec.target_form.restore(Predictions(None), FieldSet(points))


def test_points_of_y_must_be_those_of_x():
    points, fields = ragged()
    moved = [item + 0.1 for item in points]
    for y in (FieldSet(moved, fields), pairs(moved, fields), (moved, fields)):
        with pytest.raises(FieldDataError, match=r"point|coord"):
            read(points, y)
