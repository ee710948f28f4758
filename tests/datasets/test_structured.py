"""Loaders of airfoil and pipe, on small files of the published layout."""

import numpy as np
import pytest

from skop.datasets import load_airfoil, load_pipe
from skop.exceptions import FieldDataError

KINDS = {"airfoil": (load_airfoil, "NACA_Cylinder", 5), "pipe": (load_pipe, "Pipe", 3)}
COUNTS = {"n_train": 4, "n_test": 3}


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    """Loader, folder, prefix of the file names, and what the files hold."""
    load, prefix, n_variables = KINDS[request.param]
    rng = np.random.default_rng(0)
    shapes = {"X": (1005, 4, 3), "Y": (1005, 4, 3), "Q": (1005, n_variables, 4, 3)}
    arrays = {name: rng.random(shape) for name, shape in shapes.items()}
    (tmp_path / "inner").mkdir()
    for name, array in arrays.items():
        np.save(tmp_path / "inner" / f"{prefix}_{name}.npy", array)
    return load, tmp_path, prefix, arrays


def test_published_split(kind):
    load, folder, prefix, arrays = kind
    data = load(folder, **COUNTS)
    variable = {"Pipe": 0, "NACA_Cylinder": 4}[prefix]
    for name, samples in {"train": slice(0, 4), "test": slice(1000, 1003)}.items():
        expected = np.stack([arrays["X"][samples], arrays["Y"][samples]], axis=-1)
        np.testing.assert_allclose(data[f"X_{name}"].coords, expected.reshape(-1, 12, 2), rtol=1e-6)
        np.testing.assert_allclose(data[f"y_{name}"][..., 0], arrays["Q"][samples, variable], rtol=1e-6)
    assert data.X_train.grid_shape == data.X_test.grid_shape == (4, 3)
    assert data.X_train.n_channels == 0
    assert data.y_train.shape == (4, 4, 3, 1)
    assert data.X_train.coords.dtype == data.y_train.dtype == np.float32
    assert [file.rpartition("_")[2] for file in data.filenames] == ["X.npy", "Y.npy", "Q.npy"]
    assert "2207.05209" in data.DESCR


def test_test_samples_do_not_depend_on_the_training_samples(kind):
    load, folder, _, _ = kind
    few = load(folder, subset="test", n_train=1, n_test=3)
    many = load(folder, n_train=1000, n_test=3)
    np.testing.assert_array_equal(few.X_test.coords, many.X_test.coords)
    assert len(many.X_train) == 1000


def test_chosen_variables(kind):
    load, folder, prefix, arrays = kind
    places = {"Pipe": [2, 1], "NACA_Cylinder": [3, 2]}[prefix]
    data = load(folder, variables=["pressure", "velocity_y"], **COUNTS)
    np.testing.assert_allclose(data.y_train, np.moveaxis(arrays["Q"][:4, places], 1, -1), rtol=1e-6)


def test_one_subset_of_given_files(kind):
    load, folder, prefix, _ = kind
    expected = load(folder, **COUNTS)
    files = [folder / "inner" / f"{prefix}_{name}.npy" for name in "XYQ"]
    X, y = load(files, subset="train", return_X_y=True, **COUNTS)
    np.testing.assert_array_equal(X.coords, expected.X_train.coords)
    np.testing.assert_array_equal(y, expected.y_train)


def test_missing_or_damaged_file(kind):
    load, folder, prefix, _ = kind
    file = folder / "inner" / f"{prefix}_Q.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])
    with pytest.raises(FieldDataError, match=rf"{prefix}_Q.npy.*download it again"):
        load(folder, **COUNTS)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=rf"{prefix}_Q.npy.*drive\.google\.com"):
        load(folder, **COUNTS)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("X", (1005, 4), "3 axes, got the shape"),
        ("Y", (1005, 3, 4), r"do not belong together.*Y \(1005, 3, 4\)"),
        ("Q", (1005, 2, 4, 3), "variables on axis 1, got the shape"),
    ],
)
def test_wrong_shapes(kind, name, shape, message):
    load, folder, prefix, _ = kind
    np.save(folder / "inner" / f"{prefix}_{name}.npy", np.ones(shape))
    with pytest.raises(FieldDataError, match=message):
        load(folder, **COUNTS)


def test_values_that_are_not_finite_count_where_they_are_read(kind):
    load, folder, prefix, arrays = kind
    arrays["X"][1001, 0, 0] = np.nan
    np.save(folder / "inner" / f"{prefix}_X.npy", arrays["X"])
    load(folder, subset="train", **COUNTS)
    with pytest.raises(FieldDataError, match=rf"{prefix}_X.npy holds values that are not finite"):
        load(folder, subset="test", **COUNTS)


def test_unknown_variables(kind):
    for variables in ["pressure", [], ["mass"]]:
        load, folder, _, _ = kind
        with pytest.raises(ValueError, match=r"variables must be a sequence of .*velocity_x, velocity_y, pressure"):
            load(folder, variables=variables, **COUNTS)


def test_too_many_samples(kind):
    load, folder, _, _ = kind
    with pytest.raises(FieldDataError, match="from number 1000 on are for testing; 1001 for training"):
        load(folder, n_train=1001, n_test=2)
    with pytest.raises(FieldDataError, match="200 for testing from number 1000 on were asked for"):
        load(folder)
