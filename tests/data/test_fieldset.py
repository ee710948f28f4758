"""FieldSet: contents, indexing, sharing of memory, pickling, and joining."""

import copy
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import torch

from skop import FieldSet
from skop.exceptions import FieldDataError

N, P, D, C = 6, 12, 2, 3
SIZES = [4, 1, 7, 3]


@pytest.fixture
def arrays():
    """Irregular shared points and fields whose every number is different."""
    rng = np.random.default_rng(0)
    return rng.random((P, D)), np.arange(N * P * C, dtype=float).reshape(N, P, C)


@pytest.fixture
def shared(arrays):
    return FieldSet(*arrays, params=np.arange(2.0 * N).reshape(N, 2), channel_names=list("uvp"))


@pytest.fixture
def own(arrays):
    coords, values = arrays
    return FieldSet(coords + np.arange(N)[:, None, None], values)


@pytest.fixture
def ragged():
    rng = np.random.default_rng(1)
    coords = [rng.random((size, D)) for size in SIZES]
    return FieldSet(coords, [np.full((size, C), float(i)) for i, size in enumerate(SIZES)], params=np.eye(4))


def firsts(fields):
    """The number of each sample of `arrays`, read off its first value."""
    return [int(values[0, 0]) // (P * C) for values in fields.to_list()]


# ---------------------------------------------------------------------- construction
def test_shared_coordinates_are_stored_once(shared, arrays):
    assert shared.shape == (N, P, C)
    assert shared.ndim == 3
    assert len(shared) == N
    assert (shared.n_dims, shared.n_channels, shared.n_params) == (D, C, 2)
    assert shared.shared_coords
    assert not shared.is_ragged
    assert shared.grid_shape is None
    assert shared.offsets is None
    assert shared.channel_names == ("u", "v", "p")
    assert shared.coords.shape == (P, D)
    np.testing.assert_array_equal(shared.n_points, [P] * N)
    np.testing.assert_array_equal(shared.values, arrays[1])


def test_own_coordinates_follow_their_samples(own, arrays):
    assert not own.shared_coords
    assert own.coords.shape == (N, P, D)
    np.testing.assert_array_equal(own[[4, 1]].coords, arrays[0] + np.array([4, 1])[:, None, None])


def test_ragged_lists_are_flat_with_offsets(ragged):
    assert ragged.is_ragged
    assert ragged.shape == (len(SIZES),)
    assert ragged.values.shape == (sum(SIZES), C)
    assert ragged.coords.shape == (sum(SIZES), D)
    np.testing.assert_array_equal(ragged.offsets, [0, 4, 5, 12, 15])
    np.testing.assert_array_equal(ragged.n_points, SIZES)
    picked = ragged[[2, 0]]
    np.testing.assert_array_equal(picked.offsets, [0, 7, 11])
    assert [item.shape for item in picked.to_list()] == [(7, C), (4, C)]
    assert [item[0, 0] for item in picked.to_list()] == [2.0, 0.0]
    np.testing.assert_array_equal(picked.coords, np.concatenate([ragged[2].coords, ragged[0].coords]))
    np.testing.assert_array_equal(picked.params, np.eye(4)[[2, 0]])


def test_lists_of_equal_arrays_are_one_array(arrays):
    coords, values = arrays
    fields = FieldSet([coords] * N, list(values))
    assert not fields.is_ragged
    assert fields.shape == (N, P, C)
    assert FieldSet(coords.tolist(), values.tolist()).shared_coords
    assert FieldSet(pd.DataFrame(coords), torch.from_numpy(values)).shape == (N, P, C)


def test_parameters_alone_and_geometry_alone(arrays):
    coords = arrays[0]
    fields = FieldSet(coords, params=np.eye(5))
    assert fields.shape == (5, P, 0)
    assert fields.values is None
    assert fields.dtype == np.float64
    assert fields[[4]].params.tolist() == [[0, 0, 0, 0, 1]]
    geometry = FieldSet(np.stack([coords] * 3))
    assert geometry.shape == (3, P, 0)
    assert geometry.n_params == 0
    shapes = FieldSet([coords, coords[:3]])
    assert shapes.values is None
    np.testing.assert_array_equal(shapes.n_points, [P, 3])
    with pytest.raises(FieldDataError, match="no values"):
        geometry.to_list()


# ---------------------------------------------------------------------- immutability, copies, pickles
def test_a_fieldset_cannot_be_changed(shared):
    for name in ("values", "_values", "anything"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(shared, name, 1)
    with pytest.raises(AttributeError, match="immutable"):
        del shared._values
    with pytest.raises(TypeError):
        shared[0] = shared[1]
    assert shared.values is not None


@pytest.mark.parametrize("kind", ["shared", "own", "ragged"])
@pytest.mark.parametrize("passage", [copy.copy, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_copies_and_pickles_are_equal(kind, passage, request):
    fields = request.getfixturevalue(kind)
    for item in (fields, fields[1:3], fields[[3, 0, 0]], fields[:0]):
        again = passage(item)
        assert type(again) is FieldSet
        assert again.shape == item.shape
        assert again.channel_names == item.channel_names
        np.testing.assert_array_equal(again.coords, item.coords)
        np.testing.assert_array_equal(again.values, item.values)
        np.testing.assert_array_equal(again.n_points, item.n_points)
        assert (again.params is None) == (item.params is None)
        if item.params is not None:
            np.testing.assert_array_equal(again.params, item.params)


def test_pickle_of_a_selection_holds_the_selection_only():
    fields = FieldSet(np.zeros((50, 1)), np.random.default_rng(0).random((200, 50, 1)))
    assert len(pickle.dumps(fields[:2])) < len(pickle.dumps(fields)) / 20


@pytest.mark.parametrize("kind", ["shared", "own", "ragged"])
def test_sets_hold_memory_maps_as_joblib_sends_them(kind, request, tmp_path):
    fields = request.getfixturevalue(kind)
    joblib.dump([fields[1:3], fields[[2, 0]]], tmp_path / "sent")
    for held, sent in zip(joblib.load(tmp_path / "sent", mmap_mode="r"), (fields[1:3], fields[[2, 0]]), strict=True):
        assert total(held) == total(sent)
        assert total(held[[1]]) == total(sent[[1]])


def total(fields):
    """Sum of everything in a set, computed in a worker."""
    return type(fields).__name__, float(fields.values.sum() + fields.coords.sum()), len(fields)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["shared", "own", "ragged"])
def test_sets_pass_through_worker_processes(kind, request):
    fields = request.getfixturevalue(kind)
    parts = [fields, fields[1:3], fields[[2, 0]]]
    # max_nbytes=1 sends every array as a memory map, as joblib does with large ones.
    workers = joblib.Parallel(n_jobs=2, backend="loky", max_nbytes=1)
    assert workers(joblib.delayed(total)(part) for part in parts) == [total(part) for part in parts]


# ---------------------------------------------------------------------- indexing
KEYS = {
    "slice": slice(1, 4),
    "step": slice(None, None, 2),
    "reversed": slice(None, None, -1),
    "backwards": slice(4, None, -2),
    "nothing": slice(3, 3),
    "beyond": slice(4, 99),
    "all": Ellipsis,
    "mask": np.array([True, False, True, True, False, False]),
    "mask_list": [True, False, True, True, False, False],
    "mask_none": np.zeros(N, bool),
    "indices": np.array([5, 0, 3]),
    "unsigned": np.array([5, 0, 3], np.uint8),
    "negative": [-1, 0, -6],
    "repeated": [2, 2, 1],
    "empty_list": [],
    "empty_array": np.zeros(0, int),
    "series": pd.Series([4, 1]),
    "tuple_ellipsis": (np.array([4, 1]), Ellipsis),
    "tuple_slices": (slice(0, 2), slice(None), slice(None)),
    "ellipsis_first": (Ellipsis, slice(None)),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("again", [None, slice(None, None, 2), [0, 0]])
@pytest.mark.parametrize("kind", ["shared", "own"])
def test_selections_are_those_of_numpy(kind, key, again, request):
    fields = request.getfixturevalue(kind)
    numbers = np.arange(N)[KEYS[key][0] if isinstance(KEYS[key], tuple) else KEYS[key]]
    part = fields[KEYS[key]]
    if again is not None and len(numbers):
        part, numbers = part[again], numbers[again]
    assert type(part) is FieldSet
    assert part.shape == (len(numbers), P, C)
    np.testing.assert_array_equal(part.values, fields.values[numbers])
    np.testing.assert_array_equal(part.coords, fields.coords if fields.shared_coords else fields.coords[numbers])
    if fields.params is not None:
        np.testing.assert_array_equal(part.params, fields.params[numbers])


def test_one_sample_keeps_its_axis(shared):
    for number in [0, -1, 3, np.int64(2), np.array(4)]:
        for part in (shared[number], shared[number, ...]):
            assert part.shape == (1, P, C)
            np.testing.assert_array_equal(part.values[0], shared.values[number])


def test_other_keys_are_index_errors(shared):
    for key in [
        N,
        -N - 1,
        [0, N],
        "u",
        1.5,
        [0.5],
        None,
        True,
        np.bool_(False),
        [[0, 1]],
        np.ones((2, 2), bool),
        np.ones(N - 1, bool),
        (),
        (0, 1),
        (0, [0, 1]),
        ([0], np.array([0, 1])),
        (Ellipsis, 0),
        (slice(None), None),
    ]:
        with pytest.raises(IndexError):
            shared[key]


@pytest.mark.parametrize("kind", ["shared", "own", "ragged"])
def test_iteration_gives_each_sample_once(kind, request):
    fields = request.getfixturevalue(kind)
    parts = list(fields)
    assert [len(part) for part in parts] == [1] * len(fields)
    np.testing.assert_array_equal(np.concatenate([part.values.ravel() for part in parts]), fields.values.ravel())


def test_slices_share_memory(own):
    for key in [slice(None), slice(1, 4), slice(None, None, 2), slice(4, 1, -1), 3, slice(2, 3)]:
        part = own[key]
        assert np.shares_memory(part.values, own.values)
        assert np.shares_memory(part.coords, own.coords)


def test_slices_of_slices_and_of_ragged_sets_share_memory(shared, ragged):
    assert np.shares_memory(shared[1:][1:3].values, shared.values)
    assert np.shares_memory(shared[::2].params, shared.params)
    assert np.shares_memory(shared[[0, 3, 4]].coords, shared.coords)
    assert np.shares_memory(ragged[1:3].values, ragged.values)
    assert np.shares_memory(ragged[2].coords, ragged.coords)


def test_construction_copies_nothing(arrays):
    fields = FieldSet(*arrays)
    assert np.shares_memory(fields.values, arrays[1])
    assert np.shares_memory(fields.coords, arrays[0])


def test_new_values_on_the_same_points(shared, own, ragged):
    for fields in (shared, own[[3, 1]], ragged[[2, 0]]):
        size = len(fields.values) if fields.is_ragged else fields.shape[:2]
        new = fields.with_values(np.ones((*np.atleast_1d(size), 1)), ["q"])
        assert new.shape[:2] == fields.shape[:2]
        assert new.channel_names == ("q",)
        assert new.params is None
        np.testing.assert_array_equal(new.coords, fields.coords)
        np.testing.assert_array_equal(new.n_points, fields.n_points)


def test_new_values_of_another_size_are_refused(shared):
    for shape in [(N + 1, P, 1), (N, P - 1, 1), (N, P), (P, N, 1)]:
        with pytest.raises(FieldDataError, match=r"expected \(6, 12, channels\)"):
            shared.with_values(np.zeros(shape))


def test_no_grid_is_made_up(shared):
    with pytest.raises(FieldDataError, match="form no grid"):
        shared.to_grid()


def test_repr_says_what_is_inside(shared, ragged):
    assert repr(shared) == "FieldSet(6 samples, 12 points in 2-D, 3 channels, 2 params)"
    assert "ragged" in repr(ragged)


# ---------------------------------------------------------------------- joining
@pytest.mark.parametrize("kind", ["shared", "own", "ragged"])
def test_joining_undoes_splitting(kind, request):
    fields = request.getfixturevalue(kind)
    joined = np.concatenate([fields[:1], fields[1:3], fields[3:]])
    assert type(joined) is FieldSet
    assert joined.shared_coords == fields.shared_coords
    assert joined.channel_names == fields.channel_names
    np.testing.assert_array_equal(joined.values, fields.values)
    np.testing.assert_array_equal(joined.coords, fields.coords)
    np.testing.assert_array_equal(joined.n_points, fields.n_points)
    if fields.params is not None:
        np.testing.assert_array_equal(joined.params, fields.params)


def test_sets_on_different_shared_points_become_own(arrays):
    coords, values = arrays
    joined = FieldSet.concatenate([FieldSet(coords, values[:2]), FieldSet(coords + 1, values[2:5])])
    assert not joined.shared_coords
    np.testing.assert_array_equal(joined.coords, np.concatenate([[coords] * 2, [coords + 1] * 3]))
    np.testing.assert_array_equal(joined.values, values[:5])


def test_what_differs_cannot_be_joined(shared, ragged, arrays):
    coords, values = arrays
    plain, grid = FieldSet(coords, values), FieldSet(coords, values, grid_shape=(3, 4))
    others = [shared, ragged, grid, FieldSet(coords[:, :1], values), FieldSet(coords, values[..., :1]), values,
              FieldSet(coords[:5], values[:, :5]), FieldSet(coords, values, channel_names=list("abc"))]  # fmt: skip
    for other in others:
        with pytest.raises(FieldDataError, match="join"):
            np.concatenate([plain, other])
    with pytest.raises(FieldDataError, match="grid_shape"):
        np.concatenate([grid, FieldSet(coords, values, grid_shape=(4, 3))])
    with pytest.raises(FieldDataError, match="n_channels"):
        np.concatenate([ragged, FieldSet([coords, coords[:2]], [coords, coords[:2]], params=np.eye(4)[:2])])
    with pytest.raises(FieldDataError, match="nothing"):
        FieldSet.concatenate([])
    with pytest.raises(FieldDataError, match="sample axis"):
        np.concatenate([plain, plain], axis=1)
    with pytest.raises(TypeError):
        np.mean(plain)
