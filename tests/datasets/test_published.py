"""Loaders of published files, on small files of the same layout."""

from inspect import signature
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from skop.datasets import load_darcy, make_darcy
from skop.datasets._fetching import _LOADERS
from skop.datasets._published import PROTOCOLS
from skop.datasets._published_arrays import Selection
from skop.exceptions import FieldDataError

TRAIN, TEST = "piececonst_r421_N1024_smooth1.mat", "piececonst_r421_N1024_smooth2.mat"
COUNTS = {"n_train": 5, "n_test": 3}


def fields(seed, n_samples=8, n_points=21):
    rng = np.random.default_rng(seed)
    coeff = rng.choice([3.0, 12.0], (n_samples, n_points, n_points)).astype(np.float32)
    return {"coeff": coeff, "sol": rng.random((n_samples, n_points, n_points), dtype=np.float32)}


def save_hdf5(path, variables):
    """Write as MATLAB 7.3 does: a text header, then HDF5 with the axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in variables.items():
            file[name] = array.T
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512))


@pytest.fixture
def folder(tmp_path):
    extra = {"Kcoeff": np.zeros((2, 3))}
    inner = tmp_path / "Darcy_421"
    inner.mkdir()
    savemat(inner / TRAIN, fields(0) | extra)
    savemat(inner / TEST, fields(1) | extra, do_compression=True)
    return inner


def test_published_split_and_subsampling(folder):
    data = load_darcy(folder, **COUNTS)
    train, test = fields(0), fields(1)
    np.testing.assert_array_equal(data.X_train, train["coeff"][:5, ::5, ::5, None])
    np.testing.assert_array_equal(data.y_train, train["sol"][:5, ::5, ::5, None])
    np.testing.assert_array_equal(data.X_test, test["coeff"][:3, ::5, ::5, None])
    np.testing.assert_array_equal(data.y_test, test["sol"][:3, ::5, ::5, None])
    assert data.X_train.shape == (5, 5, 5, 1)
    assert all(data[key].dtype == np.float32 for key in ("X_train", "y_train", "X_test", "y_test", "coords"))
    np.testing.assert_allclose(data.coords[1, 3], [0.25, 0.75])
    assert data.filenames == [str(folder / TRAIN), str(folder / TEST)]
    assert "2010.08895" in data.DESCR


def test_defaults_are_the_papers(tmp_path):
    coeff = np.ones((1001, 6, 6), dtype=np.float32)
    coeff[1000] = 2
    savemat(tmp_path / TRAIN, {"coeff": coeff, "sol": coeff})
    savemat(tmp_path / TEST, {"coeff": coeff, "sol": coeff})
    data = load_darcy(tmp_path)
    assert data.X_train.shape == (1000, 2, 2, 1)
    assert data.X_test.shape == (200, 2, 2, 1)
    assert data.X_train.max() == 1


def test_every_kind_of_path(folder):
    expected = load_darcy(folder, **COUNTS)
    for path in (str(folder), folder.parent, (folder / TRAIN, str(folder / TEST))):
        np.testing.assert_array_equal(load_darcy(path, **COUNTS).X_test, expected.X_test)
    one = load_darcy(folder / TEST, subset="test", **COUNTS)
    np.testing.assert_array_equal(one.X_test, expected.X_test)


def test_one_subset_needs_one_file(folder):
    (folder / TRAIN).unlink()
    data = load_darcy(folder, subset="test", **COUNTS)
    assert "X_train" not in data
    X, y = load_darcy(folder, subset="test", return_X_y=True, **COUNTS)
    np.testing.assert_array_equal(X, data.X_test)
    np.testing.assert_array_equal(y, data.y_test)


def test_matlab_7_3(folder):
    expected = load_darcy(folder, **COUNTS)
    save_hdf5(folder / TRAIN, fields(0))
    data = load_darcy(folder, **COUNTS)
    np.testing.assert_array_equal(data.X_train, expected.X_train)
    np.testing.assert_array_equal(data.y_train, expected.y_train)


def test_generated_samples_survive_the_round_trip(tmp_path):
    a, u = make_darcy(3, resolution=21, placement="cell_center", n_modes=21, random_state=0)
    savemat(tmp_path / TRAIN, {"coeff": a[..., 0], "sol": u[..., 0]})
    X, y = load_darcy(tmp_path, subset="train", subsample=1, n_train=3, return_X_y=True)
    np.testing.assert_array_equal(X, a)
    np.testing.assert_array_equal(y, u)


def test_missing_file_says_where_to_get_it(folder):
    (folder / TEST).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{TEST}.*drive\.google\.com"):
        load_darcy(folder, **COUNTS)
    with pytest.raises(ValueError, match="a folder or 2 file"):
        load_darcy(folder / TRAIN)


@pytest.mark.parametrize("save", [savemat, save_hdf5])
def test_missing_variable_lists_those_found(folder, save):
    save(folder / TRAIN, {"coeff": fields(0)["coeff"], "pressure": np.zeros((2, 2))})
    with pytest.raises(FieldDataError, match="no variable 'sol'; it holds coeff, pressure"):
        load_darcy(folder, subset="train", **COUNTS)


def test_truncated_file(folder):
    for kept, kind in product([0.0, 0.001, 0.1, 0.4, 0.6, 0.9, 0.999], ["plain", "compressed", "hdf5"]):
        path = folder / TRAIN
        if kind == "hdf5":
            save_hdf5(path, fields(0))
        else:
            savemat(path, fields(0), do_compression=kind == "compressed")
        whole = path.read_bytes()
        path.write_bytes(whole[: int(kept * len(whole))])
        with pytest.raises(FieldDataError, match=TRAIN):
            load_darcy(folder, subset="train", **COUNTS)


def test_not_a_matlab_file(folder):
    (folder / TRAIN).write_text("<html>quota exceeded</html>" * 50)
    with pytest.raises(FieldDataError, match=r"1,350 bytes.*cannot be read as a MATLAB file.*download it again"):
        load_darcy(folder, subset="train", **COUNTS)


def test_wrong_arrays(folder):
    for change, message in [
        ({"coeff": np.ones((8, 21))}, r"'coeff' must have the shape .*got \(8, 21\)"),
        ({"sol": np.ones((8, 21, 16))}, r"'sol' must have the shape .*got \(8, 21, 16\)"),
        ({"sol": np.ones((8, 16, 16))}, "'coeff' and 'sol' must have the same shape"),
        ({"coeff": np.ones((4, 21, 21))}, "holds 4 samples, 5 were asked for. Lower n_train"),
        ({"coeff": np.ones((8, 20, 20))}, "subsample=5 must divide the number of intervals per side, 19"),
        ({"coeff": np.full((8, 21, 21), 1j)}, "'coeff' must hold real numbers, got complex128"),
        ({"sol": np.full((8, 21, 21), np.nan)}, "'sol' holds values that are not finite"),
    ]:
        savemat(folder / TRAIN, fields(0) | change)
        with pytest.raises(FieldDataError, match=message):
            load_darcy(folder, **COUNTS)


def test_files_of_different_grids(folder):
    savemat(folder / TEST, fields(1, n_points=11))
    with pytest.raises(FieldDataError, match=r"differ in grid: \(5, 5\) and \(3, 3\)"):
        load_darcy(folder, **COUNTS)


@pytest.mark.parametrize("name", _LOADERS)
def test_wrong_selections_and_folders_are_refused_by_every_loader(name):
    load = _LOADERS[name]
    # Loaders of trajectories hold a part of the points against their file first.
    known = set(signature(load).parameters) - ({"subsample"} if name.startswith("pdebench_") else set())
    for options, message in [
        ({"subset": "valid"}, "subset must be 'all', 'train' or 'test', got 'valid'"),
        ({"return_X_y": True}, "return_X_y=True needs subset"),
        ({"n_train": 2.5}, "n_train must be an integer of at least 1, got 2.5"),
        ({"n_test": 0}, "n_test must be an integer of at least 1, got 0"),
        ({"subsample": 0}, "subsample must be an integer of at least 1, got 0"),
    ]:
        if set(options) <= known:
            with pytest.raises(ValueError, match=message):
                load("nowhere", **options)
    page = "darus" if name.startswith("pdebench") else "tissue" if name == "tissue" else r"drive\.google\.com"
    with pytest.raises(FileNotFoundError, match=rf"nowhere does not exist; looked for .*{page}"):
        load("nowhere")


#: Samples in the published file, and the first that tests where it is not the first of the last ones.
PUBLISHED = {
    "airfoil": (2490, 1000), "elasticity": (2000, None), "navier_stokes": (1200, None), "pdebench_darcy": (10000, None),
    "pdebench_diffusion_reaction": (1000, None), "pdebench_shallow_water": (1000, None), "pipe": (2310, 1000),
    "plasticity": (987, None),
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_split_of_the_protocol_is_that_of_the_defaults(name):
    split, defaults = PROTOCOLS[name]["split"], signature(_LOADERS[name]).parameters
    counts = {key: defaults[f"n_{key}"].default for key in ("train", "test")}
    if split is None:
        assert set(counts.values()) == {None}, "the files hold the split, of which all samples are read"
        return
    assert {key: len(rows) for key, rows in split.items()} == counts
    if name != "darcy":  # a file each
        n_samples, first = PUBLISHED[name]
        slices = Selection("all", *counts.values(), False, first).slices(n_samples, Path("file"))
        assert {key: range(n_samples)[rows] for key, rows in slices.items()} == split


def test_each_loader_has_a_protocol_of_its_own(folder):
    assert PROTOCOLS.keys() == _LOADERS.keys()
    data = load_darcy(folder, **COUNTS)
    assert data.protocol == PROTOCOLS["darcy"]
    assert data.protocol["scaling"] == {"LaMO": {"X": "scalar", "y": "scalar"}}
    data.protocol["scaling"].clear()
    assert PROTOCOLS["darcy"]["scaling"]
