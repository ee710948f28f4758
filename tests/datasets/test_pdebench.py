"""Loaders of PDEBench files, on small files of the same layout."""

import pickle
import re

import h5py
import numpy as np
import pytest

from skop import FieldSet, PODRegressor, RolloutRegressor
from skop.datasets import (
    load_pdebench_darcy,
    load_pdebench_diffusion_reaction,
    load_pdebench_shallow_water,
    make_darcy,
    make_diffusion_reaction,
    make_shallow_water,
)
from skop.exceptions import FieldDataError, OptionalDependencyError

DARCY, WATER, REACTION = "2D_DarcyFlow_beta1.0_Train.hdf5", "2D_rdb_NA_NA.h5", "2D_diff-react_NA_NA.h5"
COUNTS = {"n_train": 5, "n_test": 3}
FRAMES = {"n_input": 2, "n_output": 3}
LOADERS = {
    "water": (load_pdebench_shallow_water, WATER, 1),
    "reaction": (load_pdebench_diffusion_reaction, REACTION, 2),
}


def axis(n_points, half_width):
    return ((np.arange(n_points) + 0.5) * 2 / n_points - 1).astype(np.float32) * half_width


def darcy_arrays(n_samples=9, n_points=8):
    rng = np.random.default_rng(0)
    return {
        "nu": rng.choice([0.1, 1.0], (n_samples, n_points, n_points)).astype(np.float32),
        "tensor": rng.random((n_samples, 1, n_points, n_points), dtype=np.float32),
        "x-coordinate": (axis(n_points, 0.5) + 0.5),
        "y-coordinate": 2 * (axis(n_points, 0.5) + 0.5),
    }


def write_arrays(path, arrays):
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[key] = array


def trajectories(n_components, n_samples=9, n_frames=6, n_points=8):
    shape = (n_samples, n_frames, n_points, n_points, n_components)
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def write_groups(path, data, **options):
    """Write as PDEBench does: a group for each sample, with its settings as an attribute."""
    with h5py.File(path, "w") as file:
        grid = file.create_group("0000/grid")
        grid["x"], grid["y"] = axis(data.shape[2], 2.5), 2 * axis(data.shape[3], 2.5)
        grid["t"] = np.linspace(0, 1, data.shape[1], dtype=np.float32)
        for number, sample in enumerate(data):
            group = file.require_group(f"{number:04d}")
            group.create_dataset("data", data=sample, **options)
            if number:
                group["grid"] = grid
            group.attrs["config"] = "sim:\n  T_bound: 1.0\n"


@pytest.fixture
def darcy(tmp_path):
    write_arrays(tmp_path / DARCY, darcy_arrays())
    return tmp_path / DARCY


@pytest.fixture(params=LOADERS)
def sequence(request, tmp_path):
    """A loader, its file and what the file holds."""
    load, name, n_components = LOADERS[request.param]
    data = trajectories(n_components)
    write_groups(tmp_path / name, data, compression="lzf", chunks=True)
    return load, tmp_path / name, data


def channels(frames):
    """(n, t, x, y, c) as (n, x, y, t c)."""
    return np.moveaxis(frames, 1, 3).reshape(len(frames), *frames.shape[2:4], -1)


class TestDarcy:
    def test_published_split_and_subsampling(self, darcy):
        arrays, data = darcy_arrays(), load_pdebench_darcy(darcy.parent, **COUNTS)
        for letter, fields in (("X", arrays["nu"]), ("y", arrays["tensor"][:, 0])):
            expected = fields[:, ::2, ::2, None]
            np.testing.assert_array_equal(data[f"{letter}_train"].to_grid(), expected[:5])
            np.testing.assert_array_equal(data[f"{letter}_test"].to_grid(), expected[-3:])
        assert data.X_train.dtype == data.coords.dtype == np.float32
        np.testing.assert_array_equal(data.coords[1, 3], [arrays["x-coordinate"][2], arrays["y-coordinate"][6]])
        np.testing.assert_array_equal(data.X_test.coords, data.coords.reshape(-1, 2))
        assert data.filenames == [str(darcy)]
        assert "2210.07182" in data.DESCR

    def test_defaults_are_the_papers(self, tmp_path):
        numbers = np.arange(10_050, dtype=np.float32)
        nu = np.zeros((len(numbers), 2, 2), dtype=np.float32) + numbers[:, None, None]
        arrays = {"nu": nu, "tensor": nu[:, None], "x-coordinate": axis(2, 1), "y-coordinate": axis(2, 1)}
        write_arrays(tmp_path / DARCY, arrays)
        data = load_pdebench_darcy(tmp_path)
        np.testing.assert_array_equal(data.X_train.values.ravel(), numbers[:9000])
        np.testing.assert_array_equal(data.y_test.values.ravel(), numbers[-1000:])

    def test_one_subset(self, darcy):
        X, y = load_pdebench_darcy(darcy, subset="test", subsample=1, return_X_y=True, **COUNTS)
        np.testing.assert_array_equal(X.to_grid()[..., 0], darcy_arrays()["nu"][-3:])
        np.testing.assert_array_equal(y.to_grid()[..., 0], darcy_arrays()["tensor"][-3:, 0])
        assert "X_train" not in load_pdebench_darcy(darcy, subset="test", **COUNTS)

    def test_generated_samples_survive_the_round_trip(self, tmp_path):
        (coords, a), u = make_darcy(4, variant="pdebench", resolution=6, random_state=0, return_coords=True)
        arrays = {"nu": a[..., 0], "tensor": u[:, None, ..., 0]}
        arrays |= {"x-coordinate": coords[:, 0, 0], "y-coordinate": coords[0, :, 1]}
        write_arrays(tmp_path / DARCY, arrays)
        data = load_pdebench_darcy(tmp_path, subsample=1, n_train=3, n_test=1)
        np.testing.assert_array_equal(data.X_train.to_grid(), a[:3])
        np.testing.assert_array_equal(data.y_test.to_grid(), u[3:])
        np.testing.assert_array_equal(data.coords, coords)

    def test_wrong_arrays(self, darcy):
        for change, message in [
            ({"nu": np.ones((9, 8))}, r"'nu' and 'tensor' must have the shapes .*got \(9, 8\) and \(9, 1, 8, 8\)"),
            ({"tensor": np.ones((9, 8, 8))}, r"got \(9, 8, 8\) and \(9, 8, 8\)"),
            ({"tensor": np.ones((8, 1, 8, 8))}, r"got \(9, 8, 8\) and \(8, 1, 8, 8\)"),
            ({"nu": np.full((9, 8, 8), 1j)}, "'nu' must hold real numbers, got complex128"),
            (
                {"y-coordinate": np.ones(9)},
                r"'/y-coordinate' must hold the positions of 8 points, got the shape \(9,\)",
            ),
            ({"nu": np.ones((7, 8, 8)), "tensor": np.ones((7, 1, 8, 8))}, "holds 7 samples, of which .* Lower n_train"),
        ]:
            write_arrays(darcy, darcy_arrays() | change)
            with pytest.raises(FieldDataError, match=message):
                load_pdebench_darcy(darcy, **COUNTS)

    def test_missing_arrays(self, darcy):
        for key in ["nu", "tensor", "x-coordinate", "y-coordinate"]:
            arrays = darcy_arrays()
            del arrays[key]
            write_arrays(darcy, arrays)
            with pytest.raises(
                FieldDataError, match=f"{DARCY} has no array '{key}'; it holds {', '.join(sorted(arrays))}"
            ):
                load_pdebench_darcy(darcy, **COUNTS)


class TestTrajectories:
    def test_published_split_and_frames(self, sequence):
        load, file, stored = sequence
        data = load(file.parent, **COUNTS, **FRAMES)
        for letter, frames in (("X", slice(0, 2)), ("y", slice(2, 5))):
            expected = channels(stored[:, frames])
            np.testing.assert_array_equal(data[f"{letter}_train"].to_grid(), expected[:5])
            np.testing.assert_array_equal(data[f"{letter}_test"].to_grid(), expected[-3:])
        np.testing.assert_allclose(data.times, [0, 0.2, 0.4, 0.6, 0.8])
        np.testing.assert_array_equal(data.coords[2, 5], [axis(8, 2.5)[2], 2 * axis(8, 2.5)[5]])
        assert data.X_train.dtype == np.float32
        assert data.filenames == [str(file)]
        assert "2210.07182" in data.DESCR

    def test_defaults_are_the_papers(self, tmp_path):
        data = np.zeros((1003, 101, 2, 2, 1), dtype=np.float32)
        data[:, :, 0, 1, 0] = np.arange(101)
        data[:, :, 1, 0, 0] = np.arange(1003)[:, None]
        write_groups(tmp_path / WATER, data)
        found = load_pdebench_shallow_water(tmp_path)
        assert found.X_train[0].values[0, 1].tolist() == list(range(10))
        assert found.y_test[0].values[0, 1].tolist() == list(range(10, 101))
        np.testing.assert_array_equal(found.X_train.values[:, 2, 0], np.arange(900))
        np.testing.assert_array_equal(found.X_test.values[:, 2, 9], np.arange(903, 1003))

    def test_subsampling_and_one_subset(self, sequence):
        load, file, stored = sequence
        X, y = load(file, subset="train", subsample=4, return_X_y=True, **COUNTS, **FRAMES)
        np.testing.assert_array_equal(X.to_grid(), channels(stored[:5, :2, ::4, ::4]))
        np.testing.assert_array_equal(y.to_grid(), channels(stored[:5, 2:5, ::4, ::4]))
        assert "y_test" not in load(file, subset="train", **COUNTS, **FRAMES)

    def test_other_file_of_arrays(self, sequence):
        load, file, _ = sequence
        write_arrays(file, darcy_arrays())
        with pytest.raises(FieldDataError, match=r"must hold a group for each sample.*got nu, tensor, x-coord"):
            load(file, **COUNTS, **FRAMES)
        write_groups(file, trajectories(3))
        with pytest.raises(FieldDataError, match=r"'0000/data' must have the shape \(frames, .*got \(6, 8, 8, 3\)"):
            load(file, **COUNTS, **FRAMES)

    def test_wrong_groups(self, tmp_path):
        for key, array, message in [
            ("0004/data", None, r"has no array '0004/data'; it holds 0000, 0001, .*, \.\.\."),
            ("0000/grid/t", None, "has no array '0000/grid/t'"),
            ("0000/grid/t", np.ones(3), r"'grid/t' must hold the 6 times .*got \(3,\)"),
            ("0000/grid/x", np.ones(3), "'/0000/grid/x' must hold the positions of 8"),
            ("0003/data", np.ones((5, 8, 8, 1)), r"the same shape, got \(6, .* for '0003'"),
            ("0000/data", np.ones((6, 8, 8)), r"must have the shape .*got \(6, 8, 8\)"),
            ("0000/data", np.full((6, 8, 8, 1), 1j), "must hold real numbers, got complex"),
        ]:
            write_groups(tmp_path / WATER, trajectories(1))
            with h5py.File(tmp_path / WATER, "r+") as file:
                del file[key]
                if array is not None:
                    file[key] = array
            with pytest.raises(FieldDataError, match=message):
                load_pdebench_shallow_water(tmp_path, **COUNTS, **FRAMES)

    def test_too_few_samples_or_frames(self, sequence):
        load, file, _ = sequence
        with pytest.raises(
            FieldDataError, match=r"the samples hold 6 frames, 7 were asked for\. Lower n_input or n_output"
        ):
            load(file, n_input=3, n_output=4, **COUNTS)
        with pytest.raises(FieldDataError, match="9 samples, of which those from number 6 on are for testing; 7 for"):
            load(file, n_train=7, n_test=3, **FRAMES)

    def test_generated_samples_survive_the_round_trip(self, tmp_path):
        for make, (load, name, n_components) in zip(
            (make_shallow_water, make_diffusion_reaction), LOADERS.values(), strict=True
        ):
            X, y = make(3, resolution=8, **FRAMES, random_state=0)
            frames = np.concatenate([X, y], axis=-1).reshape(3, 8, 8, 5, n_components)
            write_groups(tmp_path / name, np.moveaxis(frames, 3, 1))
            data = load(tmp_path, n_train=2, n_test=1, **FRAMES)
            np.testing.assert_array_equal(data.X_train.to_grid(), X[:2])
            np.testing.assert_array_equal(data.y_test.to_grid(), y[2:])


class TestStreaming:
    def test_only_the_samples_asked_for_are_read(self, sequence, monkeypatch):
        load, file, stored = sequence
        read = []
        monkeypatch.setattr(h5py.Dataset, "__getitem__", _recorded(h5py.Dataset.__getitem__, read))
        data = load(file, **COUNTS, **FRAMES)
        assert not [name for name, _ in read if name.endswith("data")]
        part = data.X_train[[4, 1, 4]]
        np.testing.assert_array_equal(part.to_grid(), channels(stored[:, :2])[[4, 1, 4]])
        assert [name for name, _ in read if name.endswith("data")] == ["/0001/data", "/0004/data"]
        assert {size for name, size in read if name.endswith("data")} == {stored[0, :2].size}
        assert not data.X_train.in_memory
        assert data.X_train[1:3].read(slice(None)).in_memory

    def test_samples_pass_to_other_processes_and_files_stay_closed(self, sequence, darcy):
        load, file, stored = sequence
        data = load(file, **COUNTS, **FRAMES)
        copy = pickle.loads(pickle.dumps(data.y_test[1:]))
        assert len(pickle.dumps(data)) < stored.nbytes / 2
        np.testing.assert_array_equal(copy.to_grid(), channels(stored[-2:, 2:5]))
        fields = load_pdebench_darcy(darcy, **COUNTS)
        # Files that stayed open could not be written.
        for path, held in ((file, data.X_train), (darcy, fields.X_train)):
            held.read([0])
            with h5py.File(path, "a"):
                pass

    def test_values_that_are_not_finite(self, sequence, darcy):
        load, file, _ = sequence
        with h5py.File(file, "r+") as opened:
            opened["0007/data"][3, 1, 1] = np.nan
        data = load(file, **COUNTS, **FRAMES)
        data.X_test.read(slice(None))
        with pytest.raises(FieldDataError, match="sample 7 holds values that are not finite"):
            data.y_test.read(slice(None))

    def test_estimators_learn_from_files(self, sequence, darcy):
        load, file, stored = sequence
        data = load(file, n_input=1, n_output=2, **COUNTS)
        rollout = RolloutRegressor(PODRegressor(n_components=2), window=1).fit(data.X_train, data.y_train)
        predicted = rollout.predict(data.X_test)
        assert isinstance(predicted, FieldSet)
        assert predicted.to_grid().shape == channels(stored[-3:, 1:3]).shape
        data = load_pdebench_darcy(darcy, **COUNTS)
        model = PODRegressor(n_components=2).fit(data.X_train, data.y_train)
        in_memory = PODRegressor(n_components=2).fit(data.X_train.read(slice(None)), data.y_train.read(slice(None)))
        np.testing.assert_array_equal(model.predict(data.X_test).values, in_memory.predict(data.X_test).values)


def _recorded(function, read):
    def getitem(self, *arguments):
        result = function(self, *arguments)
        read.append((self.name, np.size(result)))
        return result

    return getitem


def load_any(file):
    """Load and read a file by the loader for its name."""
    if file.name == DARCY:
        data = load_pdebench_darcy(file, **COUNTS)
    else:
        load = next(load for load, name, _ in LOADERS.values() if name == file.name)
        data = load(file, **COUNTS, **FRAMES)
    for name in ("X_train", "y_train", "X_test", "y_test"):
        data[name].read(slice(None))


def test_truncated_files(sequence, darcy):
    for file in (sequence[1], darcy):
        whole = file.read_bytes()
        for kept in (0.0, 0.001, 0.1, 0.5, 0.9, 0.999):
            file.write_bytes(whole[: int(kept * len(whole))])
            words = rf"{file.name} \([\d,]+ bytes\) cannot be read as an HDF5 file.*again"
            with pytest.raises(FieldDataError, match=words):
                load_any(file)


def test_damaged_data_are_found_when_they_are_read(sequence):
    load, file, _ = sequence
    with h5py.File(file) as opened:
        start = opened["0002/data"].id.get_chunk_info(0).byte_offset
    content = bytearray(file.read_bytes())
    content[start : start + 40] = b"\xff" * 40
    file.write_bytes(content)
    data = load(file, **COUNTS, **FRAMES)
    data.X_train.read([0, 1])
    with pytest.raises(FieldDataError, match=re.escape(file.name)):
        data.X_train.read([2])


def test_pointers_and_other_files(sequence, darcy):
    for file in (sequence[1], darcy):
        file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 6200000000\n")
        with pytest.raises(FieldDataError, match=f"{file.name} is a pointer of Git LFS, not the data.*git lfs pull"):
            load_any(file)
        file.write_text("<html>quota exceeded</html>" * 50)
        with pytest.raises(FieldDataError, match=r"1,350 bytes\) cannot be read as an HDF5 file.*download it again"):
            load_any(file)


def test_missing_files_say_where_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"{DARCY}.*133219 of https://doi\.org.*make_darcy\(variant="):
        load_pdebench_darcy(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"{WATER}.*133021 of https://doi\.org.*make_shallow_water"):
        load_pdebench_shallow_water(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"{REACTION}.*133017 of https://doi\.org.*make_diffusion_reaction"):
        load_pdebench_diffusion_reaction(tmp_path / "nowhere")


def test_without_h5py(darcy, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(OptionalDependencyError, match=rf"h5py is needed to read {DARCY}.*pip install h5py"):
        load_pdebench_darcy(darcy, **COUNTS)


def test_argument_errors(sequence, darcy):
    load, file, _ = sequence
    for loader, path, more in ((load, file, FRAMES), (load_pdebench_darcy, darcy, {})):
        for subsample, message in ((0, "of at least 1, got 0"), (3, "=3 must divide the number of points a side, 8")):
            with pytest.raises(ValueError, match=message):
                loader(path, subsample=subsample, **COUNTS, **more)
    with pytest.raises(ValueError, match="n_output must be an integer of at least 1, got 0"):
        load(file, n_output=0)
