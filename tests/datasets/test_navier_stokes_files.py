"""The loader of the published Navier-Stokes file, on small files of the same layout."""

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from skop.datasets import load_navier_stokes
from skop.exceptions import FieldDataError

FILE = "NavierStokes_V1e-5_N1200_T20.mat"
COUNTS = {"n_input": 3, "n_output": 2, "n_train": 5, "n_test": 3}
VORTICITY = np.random.default_rng(0).standard_normal((10, 8, 8, 6)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    savemat(tmp_path / FILE, {"u": VORTICITY, "a": VORTICITY[..., 0], "t": np.arange(1.0, 7.0)})
    return tmp_path


def test_published_split_and_frames(folder):
    data = load_navier_stokes(folder, **COUNTS)
    np.testing.assert_array_equal(data.X_train, VORTICITY[:5, :, :, :3])
    np.testing.assert_array_equal(data.y_train, VORTICITY[:5, :, :, 3:5])
    np.testing.assert_array_equal(data.X_test, VORTICITY[-3:, :, :, :3])
    np.testing.assert_array_equal(data.y_test, VORTICITY[-3:, :, :, 3:5])
    assert data.X_train.dtype == np.float32
    np.testing.assert_allclose(data.coords[2, 5], [2 / 8, 5 / 8])
    assert data.filenames == [str(folder / FILE)]
    assert "2010.08895" in data.DESCR


def test_defaults_are_the_papers(tmp_path):
    vorticity = np.zeros((1250, 2, 2, 20), dtype=np.float32)
    vorticity[:, 0, 0] = np.arange(20)
    vorticity[:, 1, 1] = np.arange(1250)[:, None]
    savemat(tmp_path / FILE, {"u": vorticity})
    data = load_navier_stokes(tmp_path)
    assert data.X_train[0, 0, 0].tolist() == list(range(10))
    assert data.y_test[0, 0, 0].tolist() == list(range(10, 20))
    assert (data.X_train[:, 1, 1, 0] == np.arange(1000)).all()
    assert (data.y_test[:, 1, 1, 9] == np.arange(1050, 1250)).all()


def test_paths_subsets_and_subsampling(folder):
    everything = load_navier_stokes(str(folder), **COUNTS)
    one = load_navier_stokes(folder / FILE, subset="test", **COUNTS)
    np.testing.assert_array_equal(one.X_test, everything.X_test)
    assert "X_train" not in one
    X, y = load_navier_stokes(folder, subset="train", subsample=4, return_X_y=True, **COUNTS)
    np.testing.assert_array_equal(X, VORTICITY[:5, ::4, ::4, :3])
    np.testing.assert_array_equal(y, VORTICITY[:5, ::4, ::4, 3:5])


def test_matlab_7_3(folder):
    with h5py.File(folder / FILE, "w", userblock_size=512) as file:
        file["u"] = VORTICITY.T
    data = load_navier_stokes(folder, **COUNTS)
    np.testing.assert_array_equal(data.y_test, VORTICITY[-3:, :, :, 3:5])


def test_missing_file_says_where_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"{FILE}.*drive\.google\.com.*make_navier_stokes"):
        load_navier_stokes(tmp_path)


def test_wrong_arrays(folder):
    for array, message in [
        (np.ones((10, 8, 8)), r"'u' must have the shape .*got \(10, 8, 8\)"),
        (np.ones((10, 8, 6, 6)), r"'u' must have the shape .*got \(10, 8, 6, 6\)"),
        (np.full((10, 8, 8, 6), 1j), "'u' must hold real numbers, got complex128"),
        (np.ones((10, 8, 8, 4)), "'u' holds 4 frames, 5 were asked for. Lower n_input or n_output"),
        (np.ones((7, 8, 8, 6)), "holds 7 samples; asked for 5 to train and 3 to test. Lower n_train or n_test"),
        (np.full((10, 8, 8, 6), np.inf), "'u' holds values that are not finite"),
    ]:
        savemat(folder / FILE, {"u": array})
        with pytest.raises(FieldDataError, match=message):
            load_navier_stokes(folder, **COUNTS)


def test_argument_errors(folder):
    for options, message in [
        ({"subsample": 0}, "subsample must be an integer of at least 1, got 0"),
        ({"n_output": 0}, "n_output must be an integer of at least 1"),
        ({"subsample": 3}, "subsample=3 must divide the number of points per side, 8"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_navier_stokes(folder, **COUNTS | options)
