"""Arrays outside memory: selecting must not read, and reading must give what NumPy gives."""

import pickle
import re
import shutil
import warnings
from itertools import pairwise, product

import h5py
import numpy as np
import pytest
from sklearn.base import clone

from skop import FieldSet, LaMORegressor
from skop.data import iterate_rows, read, unit_grid
from skop.data._storage import StoredRows, as_storage, is_lazy, read_rows, reshape_rows, select_rows, take_rows
from skop.exceptions import FieldDataError, SkopWarning

N, GRID = 7, (3, 4)
VALUES = np.random.default_rng(0).random((N, *GRID, 2))
FLAT = VALUES.reshape(N, 12, 2)


class Counting:
    """A file-like array that remembers which rows were read, and refuses what HDF5 refuses."""

    chunks = None

    def __init__(self, array):
        self._array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.reads = []

    def __len__(self):
        return len(self._array)

    def __getitem__(self, rows):
        if isinstance(rows, slice):
            assert rows.step is None or rows.step > 0, "files read forwards only"
        else:
            assert np.all(np.diff(rows) > 0), "indices must increase"
        self.reads.append(np.arange(len(self))[rows].tolist())
        return self._array[rows]

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("the whole array was asked for")


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "fields.h5", "w") as opened:
        opened["values"] = VALUES
        opened["flat"] = FLAT
        opened["single"] = FLAT[..., 0]
        opened["scalars"] = VALUES[:, 0, 0, 0]
        opened["coords"] = unit_grid(GRID)
        opened["own"] = np.stack([unit_grid(GRID) + i for i in range(N)])
        opened["chunked"] = opened.create_dataset("c", data=FLAT, chunks=(1, 12, 2), compression="gzip")
        yield opened


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "values.npy", VALUES)
    return np.load(tmp_path / "values.npy", mmap_mode="r")


KEYS = [slice(None), slice(2, 5), slice(None, None, 3), slice(None, None, -2), [5, 0, 3], [2, 2, 0, 2], [], [-1], 4]


# ---------------------------------------------------------------------- reading on demand
def test_selecting_reads_nothing():
    source = Counting(FLAT)
    fields = FieldSet(unit_grid(GRID), source)
    for key in KEYS:
        part = fields[key][:2]
        assert (part.shape[1:], part.n_channels, part.dtype) == ((12, 2), 2, FLAT.dtype)
        assert repr(part)
    assert source.reads == []
    assert not fields.in_memory


def test_only_selected_rows_are_read():
    source = Counting(FLAT)
    fields = FieldSet(unit_grid(GRID), source)
    np.testing.assert_array_equal(fields[[5, 1, 5]].values, FLAT[[5, 1, 5]])
    np.testing.assert_array_equal(fields[1:][::2].values, FLAT[1::2])
    np.testing.assert_array_equal(fields.read([4, 0]).values, FLAT[[4, 0]])
    assert source.reads == [[1, 5], [1, 3, 5], [0, 4]]


def test_hdf5_gives_what_numpy_gives(file):
    for name, key in product(["values", "flat", "chunked"], KEYS):
        fields = FieldSet(unit_grid(GRID), file[name])[key]
        values = fields.values
        assert type(values) is np.ndarray
        np.testing.assert_array_equal(values, FLAT[np.atleast_1d(key) if isinstance(key, int) else key])


def test_hdf5_coordinates(file):
    fields = FieldSet(file["coords"], file["flat"])
    assert fields.shared_coords
    np.testing.assert_array_equal(fields.coords, unit_grid(GRID))
    own = FieldSet(file["own"], file["values"])
    assert own.grid_shape == GRID
    np.testing.assert_array_equal(own[[3, 0]].coords, np.stack([unit_grid(GRID) + i for i in (3, 0)]))
    assert FieldSet(file["coords"], params=file["own"][:, 0]).n_params == 2


def test_hdf5_as_training_data(file):
    X = (unit_grid(GRID), file["flat"])
    for name, form, channels in (
        ("flat", (False, False), 2),
        ("single", (False, True), 1),
        ("values", (True, False), 2),
    ):
        data = read(X, file[name])
        assert (data.spec.target_form.has_grid_axes, data.spec.target_form.squeezes_channel) == form
        assert not data.targets.in_memory
        np.testing.assert_array_equal(data.targets[[3, 1]].field.values, FLAT[[3, 1]][..., :channels])
        assert data.targets.read([3, 1]).in_memory
    data = read(file["values"], file["scalars"])
    assert data.spec.target_form.squeezes_channel
    np.testing.assert_array_equal(data.targets.scalars[:, 0], VALUES[:, 0, 0, 0])
    np.testing.assert_array_equal(data.inputs[2:4].values, FLAT[2:4])


def test_memory_maps_stay_memory_maps(mapped):
    fields = FieldSet(unit_grid(GRID), mapped)
    assert not fields.in_memory
    assert isinstance(fields[2:4].values, np.memmap)
    assert np.shares_memory(fields[1:].values, mapped)
    assert np.shares_memory(fields[::-2].values, mapped)
    np.testing.assert_array_equal(fields[[4, 4, 0]].values, FLAT[[4, 4, 0]])


@pytest.mark.parametrize("key", [slice(None), slice(1, 3), [0, 4]])
def test_read_detaches_from_the_file(mapped, key):
    own = np.broadcast_to(unit_grid(GRID), (N, 12, 2))
    for fields in (FieldSet(unit_grid(GRID), mapped), FieldSet(own, mapped)):
        part = fields.read(key)
        assert part.in_memory
        assert not np.shares_memory(part.values, mapped)
        np.testing.assert_array_equal(part.values, FLAT[key])
        assert part.grid_shape == GRID


def test_selection_of_a_memory_map_survives_a_pickle(mapped):
    part = FieldSet(unit_grid(GRID), mapped)[[6, 2]]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(part)).values, FLAT[[6, 2]])


def test_streaming_reads_pieces_in_order(monkeypatch):
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 3 * 24)
    source = Counting(FLAT)
    pieces = list(iterate_rows(FieldSet(unit_grid(GRID), source)))
    assert [start for start, _ in pieces] == [0, 3, 6]
    assert source.reads == [[0, 1, 2], [3, 4, 5], [6]]
    np.testing.assert_array_equal(np.concatenate([values for _, values in pieces]), FLAT)


# ---------------------------------------------------------------------- the functions underneath
def test_read_and_take_agree_with_numpy():
    for key in KEYS:
        rows = select_rows(key, N)
        for array in (FLAT, Counting(FLAT)):
            np.testing.assert_array_equal(read_rows(array, rows), FLAT[rows])
            np.testing.assert_array_equal(take_rows(array, rows), FLAT[rows])
        np.testing.assert_array_equal(take_rows(Counting(FLAT), None), FLAT)


def test_reshaped_rows_read_on_demand():
    source = Counting(FLAT)
    grid = reshape_rows(source, (*GRID, 2))
    assert is_lazy(grid)
    assert grid.shape == VALUES.shape
    assert source.reads == []
    np.testing.assert_array_equal(grid[np.array([1, 4])], VALUES[[1, 4]])
    np.testing.assert_array_equal(grid[2:2], VALUES[2:2])
    assert reshape_rows(source, (12, 2)) is source
    assert np.shares_memory(reshape_rows(FLAT, (24,)), FLAT)


def test_arrays_in_memory_are_not_lazy(mapped, file):
    assert not is_lazy(FLAT)
    assert not is_lazy(mapped)
    assert is_lazy(file["flat"])
    assert isinstance(as_storage(file["flat"], "values"), StoredRows)
    assert as_storage(mapped, "values") is mapped


def test_complex_file_is_refused_unread():
    source = Counting(FLAT + 1j)
    with pytest.raises(FieldDataError, match="complex"):
        FieldSet(unit_grid(GRID), source)
    assert source.reads == []


# ---------------------------------------------------------------------- chunks, and other orders of memory
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, None])
@pytest.mark.parametrize("rows", [[5, 1, 6, 1, 0], [3], [], [6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 4, 5]])
def test_each_chunk_of_hdf5_is_read_once(tmp_path, monkeypatch, chunks, rows):
    with h5py.File(tmp_path / "chunks.h5", "w") as file:
        array = file.create_dataset("x", data=FLAT, chunks=None if chunks is None else (chunks, 12, 2))
        touched = []
        for name in ("__getitem__", "read_direct"):
            monkeypatch.setattr(h5py.Dataset, name, _recording(getattr(h5py.Dataset, name), name, touched))
        np.testing.assert_array_equal(read_rows(array, np.array(rows, dtype=int)), FLAT[rows])
    length = chunks or 1
    # A read begins in another chunk than the one before has ended.
    assert all(before[-1] // length < after[0] // length for before, after in pairwise(touched))
    assert {row // length for part in touched for row in part} == {row // length for row in rows}


def _recording(read, name, touched):
    """A way of h5py to read, with a list of the rows that it reads."""

    def recorded(self, *args, **kwargs):
        rows = args[0] if name == "__getitem__" else args[1]
        touched.append(np.arange(len(self))[rows].tolist())
        return read(self, *args, **kwargs)

    return recorded


@pytest.mark.parametrize("key", KEYS)
def test_zarr_gives_what_numpy_gives(tmp_path, key):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(tmp_path / "x.zarr", data=VALUES, chunks=(2, 3, 4, 2))
    fields = FieldSet(unit_grid(GRID), stored)[key]
    assert not fields.in_memory
    np.testing.assert_array_equal(fields.values, FLAT[np.atleast_1d(key) if isinstance(key, int) else key])


def test_chunks_that_were_never_written_are_named_in_x_and_y(tmp_path):
    """A Zarr array without some of its files, and an HDF5 data set that was not filled; whole ones say nothing."""
    zarr = pytest.importorskip("zarr")
    values = np.random.default_rng(1).random((6, *GRID, 1))
    whole = zarr.create_array(tmp_path / "x.zarr", data=values, chunks=(2, *GRID, 1))
    cut = zarr.create_array(tmp_path / "y.zarr", data=values, chunks=(2, *GRID, 1))
    shutil.rmtree(tmp_path / "y.zarr" / "c" / "1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["whole"] = values
        part = file.create_dataset("part", values.shape, values.dtype, chunks=(1, *GRID, 1))
        part[:4] = values[:4]
        empty = file.create_dataset("empty", values.shape, values.dtype)
        with pytest.warns(SkopWarning) as named:
            assert (read(whole, cut).targets.field.values[2:4] == 0).all()
        assert all(
            re.search("y in zarr's .* 1 of 3 chunks are not there, and are read as 0", str(w.message)) for w in named
        )
        for held, words in ((part, "X in /part of .* 2 of 6 chunks"), (empty, "X in /empty of .* 1 of 1 chunks")):
            with pytest.warns(SkopWarning, match=words):
                read(held, file["whole"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read(whole, file["whole"])


def test_rows_that_are_not_contiguous_are_reshaped_when_they_are_read(tmp_path):
    mapped = np.memmap(tmp_path / "columns", dtype=float, mode="w+", shape=VALUES.shape, order="F")
    mapped[:] = VALUES
    rows = reshape_rows(mapped, (12, 2))
    assert isinstance(rows, StoredRows)
    np.testing.assert_array_equal(rows[np.array([4, 1])], FLAT[[4, 1]])
    assert not FieldSet(unit_grid(GRID), rows).in_memory


def test_booleans_in_files_become_numbers(tmp_path):
    with h5py.File(tmp_path / "signs.h5", "w") as file:
        file["x"] = FLAT > 0.5
        assert FieldSet(unit_grid(GRID), file["x"])[1:3].values.dtype == float
    mapped = np.memmap(tmp_path / "signs", dtype=bool, mode="w+", shape=FLAT.shape)
    assert FieldSet(unit_grid(GRID), mapped).values.dtype == float


def test_own_coordinates_stay_in_the_file(file):
    fields = FieldSet(file["own"], FLAT)
    assert not fields.in_memory
    other = fields.with_values(file["values"][:].reshape(FLAT.shape))
    assert isinstance(other._coords, StoredRows)
    assert fields.read([3, 1]).in_memory


def test_rows_that_cannot_be_read_are_named(tmp_path):
    with h5py.File(tmp_path / "cut.h5", "w") as file:
        values = np.random.default_rng(0).random((20, 500, 2))
        file.create_dataset("x", data=values, chunks=(1, 500, 2), compression="gzip")
    size = (tmp_path / "cut.h5").stat().st_size
    with h5py.File(tmp_path / "cut.h5", "r") as file:
        fields = FieldSet(unit_grid((500,)), file["x"])
        with open(tmp_path / "cut.h5", "r+b") as raw:
            raw.truncate(size // 2)
        with pytest.raises(FieldDataError, match="cannot be read from /x of"):
            fields[18:].to_list()


def test_chunks_that_do_not_fit_the_memory_are_refused_unread(tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(tmp_path / "y.zarr", shape=(8, 100), chunks=(4, 100), dtype="f8")
    stored[:] = 1.0
    as_storage(stored, "y")
    monkeypatch.setattr("skop.data._storage.free_memory", lambda: 3000)
    with pytest.raises(FieldDataError, match="chunks of 3,200 bytes"):
        as_storage(stored, "y")


def test_dask_arrays_are_what_numpy_arrays_are():
    dask = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).normal(size=(10, 6, 6, 1))
    y = np.cumsum(X, axis=1)
    model = LaMORegressor(width=8, depth=1, max_iter=2, random_state=0)
    expected = clone(model).fit(X, y)
    lazy = model.fit(dask.from_array(X, chunks=(3, 6, 6, 1)), dask.from_array(y, chunks=(4, 3, 6, 1)))
    np.testing.assert_array_equal(lazy.predict(dask.from_array(X, chunks=4)), expected.predict(X))
    # Its length is known only when the mask is computed.
    rows = dask.from_array(X, chunks=4)
    with pytest.raises(FieldDataError, match="compute_chunk_sizes"):
        model.fit(rows[rows[:, 0, 0, 0] > 0], y)
