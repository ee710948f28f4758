"""The loader of the tissue measurements, on small files of the published layout."""

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from skop.datasets import load_tissue
from skop.exceptions import FieldDataError

FILE, TRAIN, TEST = "TVAL001_noave_byset.mat", "train_indexes_tissue.txt", "test_indexes_tissue.txt"
#: 9 samples of 4 x 4 points; the components are stacked along axis 1.
U = np.random.default_rng(0).random((9, 8, 4)) + 1
LISTS = {TRAIN: [9, 2, 4, 7, 1], TEST: [3, 8, 5]}


@pytest.fixture
def folder(tmp_path):
    savemat(tmp_path / FILE, {"u": U})
    for name, numbers in LISTS.items():
        np.savetxt(tmp_path / name, numbers, fmt="%d")
    return tmp_path


def fields(number):
    """Displacement of a sample, numbered from 1 on, with components last."""
    return np.stack([U[number - 1, :4], U[number - 1, 4:]], axis=-1)


def test_published_protocol(folder):
    data = load_tissue(folder)
    assert (data.X_train.grid_shape, data.X_train.shape, data.y_test.shape) == ((4, 4), (5, 16, 2), (3, 4, 4, 2))
    assert data.X_train.dtype == data.y_train.dtype == data.coords.dtype == np.float32
    assert data.X_train.channel_names == ("boundary_x", "boundary_y")
    for name, numbers in {"train": LISTS[TRAIN], "test": LISTS[TEST]}.items():
        np.testing.assert_array_equal(data[f"index_{name}"] + 1, numbers)
        expected = np.stack([fields(number) for number in numbers])
        np.testing.assert_allclose(data[f"y_{name}"], expected, rtol=1e-6)
        ring = np.ones((4, 4, 1))
        ring[1:3, 1:3] = 0
        np.testing.assert_allclose(data[f"X_{name}"].to_grid(), expected * ring, rtol=1e-6)
    np.testing.assert_allclose(data.coords[2, 1], [5.5 * 2 / 3, 5.5 / 3], rtol=1e-6)
    np.testing.assert_array_equal(data.X_test.coords, data.coords.reshape(-1, 2))
    assert data.filenames == [str(folder / name) for name in (FILE, TRAIN, TEST)]
    assert "2204.00205" in data.DESCR


def test_previous_displacement(folder):
    data = load_tissue(folder, previous=True, sequence_starts=(0, 3, 6))
    # The samples number 1, 4 and 7 have none.
    assert (data.index_train + 1).tolist() == [9, 2]
    assert (data.index_test + 1).tolist() == [3, 8, 5]
    X = data.X_test.to_grid()
    np.testing.assert_allclose(X[..., 2:], [fields(2), fields(7), fields(4)], rtol=1e-6)
    np.testing.assert_array_equal(X[..., :2], load_tissue(folder).X_test.to_grid())
    assert data.X_test.channel_names[2:] == ("previous_x", "previous_y")


def test_subsets_layouts_and_versions(folder):
    X, y = load_tissue([folder / name for name in (FILE, TRAIN, TEST)], subset="test", n_test=2, return_X_y=True)
    np.testing.assert_allclose(y, [fields(3), fields(8)], rtol=1e-6)
    assert len(X) == 2
    assert "X_test" not in load_tissue(folder, subset="train", n_train=4)
    savemat(folder / FILE, {"u": U.reshape(9, 32)})
    np.testing.assert_array_equal(load_tissue(folder).y_test[:2], y)
    with h5py.File(folder / FILE, "w") as file:
        file["u"] = U.T
    np.testing.assert_array_equal(load_tissue(folder).y_test[:2], y)


def test_studies_by_measurement(tmp_path):
    numbers = np.arange(26523, dtype=np.int16)[:, None]
    savemat(tmp_path / FILE, {"u": np.repeat(numbers, 18, axis=1)})
    bounds = [(0, 3921), (3921, 7718), (7718, 11257), (11257, 15270), (15270, 19445), (19445, 26523)]
    # Which of the first five measurements train, and whether the last two do.
    for study, training in {2: (0, 1, 3), 3: (0, 5), 4: (1, 2, 3, 4, 5)}.items():
        train = np.concatenate([np.arange(*bounds[index]) for index in training])
        data = load_tissue(tmp_path / FILE, study=study, n_train=len(train))
        np.testing.assert_array_equal(data.index_train, train)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, data.index_test])), numbers[:, 0])
        np.testing.assert_array_equal(data.y_test[:, 0, 0, 1], data.index_test)


def test_missing_files(folder):
    with pytest.raises(FieldDataError, match="holds 9 samples; study=2 needs the published 26523"):
        load_tissue(folder, study=2)
    (folder / TEST).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{TEST}, not found.*drive\.google\.com.*IFNO-tissue"):
        load_tissue(folder)


def test_wrong_lists(folder):
    for numbers, message in [
        ("0\n2\n", "list different samples by whole numbers from 1 to 9"),
        ("2\n10\n", "belongs to another file"),
        ("2\n2\n", "list different samples"),
        ("2.5\n", "whole numbers"),
        ("2 4\n6 8\n", "one a line"),
        ("<html>\n", "must hold one number a line"),
        ("2\n3\n", rf"{TRAIN} and .*{TEST} share 1 samples, the first number 3"),
    ]:
        (folder / TRAIN).write_text(numbers)
        with pytest.raises(FieldDataError, match=message):
            load_tissue(folder)


def test_wrong_arrays(folder):
    for array, message in [
        (np.ones((9, 8, 5)), r"'u' must hold real numbers in the shape .*got float64 of shape \(9, 8, 5\)"),
        (np.ones((9, 33)), r"of shape \(9, 33\)"),
        (np.ones((9, 4, 2)), "with 3 points a side or more"),
        (np.ones((9, 8, 4, 2)), r"of shape \(9, 8, 4, 2\)"),
        (np.full((9, 8, 4), 1j), "got complex128"),
        (np.full((9, 8, 4), np.nan), "holds values that are not finite"),
    ]:
        savemat(folder / FILE, {"u": array})
        with pytest.raises(FieldDataError, match=message):
            load_tissue(folder)


def test_argument_errors(folder):
    for options, message in [
        ({"study": 5}, "study must be 1, 2, 3 or 4, got 5"),
        ({"n_test": 4}, "the split has 3 samples to test, 4 were asked for. Lower n_test"),
        ({"previous": True}, "previous=True and sequence_starts need each other"),
        ({"sequence_starts": [0]}, "previous=True and sequence_starts need each other"),
        ({"previous": True, "sequence_starts": [1, 4]}, "must be rising integers from 0 to at most 8, the first 0"),
        ({"previous": True, "sequence_starts": [0, 4, 4]}, "must be rising integers"),
        ({"previous": True, "sequence_starts": np.array([0, 9], dtype=np.uint8)}, "must be rising integers"),
        ({"previous": True, "sequence_starts": range(9)}, "the split has 0 samples to train, at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_tissue(folder, **options)
