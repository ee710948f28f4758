"""The loader of the published Brusselator file, on small files of the same layout."""

import numpy as np
import pytest

from skop.datasets import load_brusselator
from skop.exceptions import FieldDataError

FILE = "Brusselator_force_train.npz"
RNG = np.random.default_rng(0)
#: 5 and 3 samples of 6 x 4 points at 7 times.
ARRAYS = {
    "nx": 6,
    "ny": 4,
    "n_samples1": 5,
    "n_samples2": 3,
    "inputs_train": RNG.random((5, 7)),
    "inputs_test": RNG.random((3, 7)),
    "outputs_train": RNG.random((5, 7, 6, 4)),
    "outputs_test": RNG.random((3, 7, 6, 4)),
}


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / FILE, **ARRAYS)
    return tmp_path / FILE


def test_published_protocol(file):
    data = load_brusselator(file.parent)
    assert (data.X_train.grid_shape, data.X_train.shape, data.y_train.shape) == ((7, 3, 2), (5, 42, 1), (5, 7, 3, 2, 1))
    assert data.X_test.dtype == data.y_test.dtype == data.coords.dtype == np.float32
    np.testing.assert_allclose(data.y_test[..., 0], ARRAYS["outputs_test"][:, :, ::2, ::2], rtol=1e-6)
    for x in range(3):
        np.testing.assert_allclose(data.X_train.to_grid()[:, :, x, 1, 0], ARRAYS["inputs_train"], rtol=1e-6)
    # Points keep the places they have among all points.
    np.testing.assert_allclose(data.coords[3, 2, 1], [3 / 6, 4 / 5, 2 / 3], rtol=1e-6)
    np.testing.assert_array_equal(data.X_test.coords, data.coords.reshape(-1, 3))
    np.testing.assert_allclose(data.times, np.linspace(0, 19, 7), rtol=1e-6)
    assert data.filenames == [str(file)]
    assert "2303.10528" in data.DESCR


def test_published_sizes(tmp_path):
    arrays = {"nx": np.array([28]), "ny": np.array([28]), "n_samples1": 2.0, "n_samples2": 1}
    for name, count in {"train": 2, "test": 1}.items():
        # Axes may be merged: the published program reshapes all arrays.
        arrays[f"inputs_{name}"] = np.arange(count * 39.0).reshape(count, 39, 1)
        arrays[f"outputs_{name}"] = np.arange(count * 39.0 * 784).reshape(-1, 784)
    np.savez_compressed(tmp_path / FILE, **arrays)
    data = load_brusselator(tmp_path)
    assert data.X_train.grid_shape == (39, 14, 14)
    assert data.y_train[1, 2, 3, 4, 0] == ((39 + 2) * 28 + 6) * 28 + 8
    assert data.X_train.to_grid()[1, 2, 3, 4, 0] == 39 + 2
    np.testing.assert_allclose(data.times, np.arange(39) / 2)


def test_subsets_and_numbers_of_samples(file):
    data = load_brusselator(file, subsample=1, n_train=2, n_test=1)
    np.testing.assert_allclose(data.y_train[..., 0], ARRAYS["outputs_train"][:2], rtol=1e-6)
    assert len(data.X_train) == 2
    assert len(data.X_test) == len(data.y_test) == 1
    X, y = load_brusselator(file, subset="test", return_X_y=True)
    np.testing.assert_array_equal(X.values[:1], load_brusselator(file, n_test=1).X_test.values)
    assert y.shape == (3, 7, 3, 2, 1)
    # Arrays of the other subset are not read.
    np.savez(file, **{name: array for name, array in ARRAYS.items() if "test" not in name and name != "n_samples2"})
    assert "X_test" not in load_brusselator(file, subset="train")


def test_missing_file_says_where_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"{FILE}.*drive\.google\.com.*make_brusselator"):
        load_brusselator(tmp_path)


def test_damaged_files(file):
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FieldDataError, match=r"is not an \.npz archive.*download it again"):
        load_brusselator(file)
    start = whole.index(b"outputs_train.npy") + 400
    file.write_bytes(whole[:start] + bytes(40) + whole[start + 40 :])
    with pytest.raises(FieldDataError, match=r"cannot be read as an \.npz archive.*CRC"):
        load_brusselator(file)
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 6200000000\n")
    with pytest.raises(FieldDataError, match=f"{FILE} is a pointer of Git LFS, not the data.*git lfs pull"):
        load_brusselator(file)


class Program:
    """Object whose pickle creates a file when it is loaded."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (type(self.target).touch, (self.target,))


def test_objects_are_not_unpickled(file, tmp_path):
    target = tmp_path / "executed"
    objects = np.array([Program(target)], dtype=object)
    np.savez(file, **ARRAYS | {"inputs_train": objects})
    with pytest.raises(FieldDataError, match="'inputs_train' holds Python objects, which skop does not load"):
        load_brusselator(file)
    assert not target.exists()


def test_wrong_arrays(file):
    for change, message in [
        ({"nx": None}, "has no array 'nx'; it holds inputs_test, .*outputs_train"),
        ({"outputs_test": None}, "has no array 'outputs_test'"),
        ({"ny": 4.5}, "'ny' must be a positive integer, got 4.5"),
        ({"n_samples1": [5, 5]}, r"'n_samples1' must be a positive integer, got \[5 5\]"),
        ({"nx": 0}, "'nx' must be a positive integer, got 0"),
        ({"inputs_train": ARRAYS["inputs_train"].T}, r"'inputs_train' must hold 5 samples .*\(7, 5\)"),
        ({"inputs_train": np.ones((5, 1))}, "at two times or more"),
        ({"inputs_train": np.array(["a"] * 5)}, "'inputs_train' must hold real numbers, got <U1"),
        ({"outputs_test": np.ones((3, 7, 4, 6))}, r"must have the shape \(3, 7, 6, 4\), got \(3, 7, 4, 6\)"),
        ({"outputs_test": np.ones((3, 6, 6, 4))}, r"must have the shape \(3, 7, 6, 4\)"),
        ({"inputs_test": np.ones((3, 5)), "outputs_test": np.ones((3, 5, 6, 4))}, "differ in their number of times"),
        ({"outputs_train": np.full((5, 7, 6, 4), np.nan)}, "holds values that are not finite"),
        ({"inputs_test": np.full((3, 7), np.inf)}, "holds values that are not finite"),
    ]:
        np.savez(file, **{name: array for name, array in (ARRAYS | change).items() if array is not None})
        with pytest.raises(FieldDataError, match=message):
            load_brusselator(file)


def test_argument_errors(file):
    for options, message in [
        ({"subsample": 3}, "subsample=3 must divide the numbers of points, 6 and 4"),
        ({"n_train": 6}, "holds 5 samples to train, 6 were asked for. Lower n_train"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_brusselator(file, **options)
