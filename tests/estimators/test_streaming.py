"""Values in files: never the whole in memory, and the same model as from memory."""

import json
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from skop import (
    AMORegressor,
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    MeanFieldRegressor,
    MNORegressor,
    PODRegressor,
)
from skop.data import unit_grid
from skop.exceptions import FieldDataError, SkopWarning

zarr = pytest.importorskip("zarr")

SMALL = {"width": 8, "depth": 1, "batch_size": 12, "max_iter": 1, "random_state": 0}
KINDS = ("memory map", "HDF5", "Zarr")


# ---------------------------------------------------------------------- less memory than data
@pytest.mark.skipif(sys.platform != "linux", reason="the limit counts what it should on Linux alone")
@pytest.mark.exhaustive
def test_a_set_three_times_larger_than_the_memory(tmp_path):
    """296 MB in a room of 99 MB."""
    script = Path(__file__).with_name("limited_memory.py")
    # A fixed threshold makes the allocator give arrays back to the system when they are freed.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, script, tmp_path, *map(str, (750, 16, 384, 2**20, 4)), "HDF5", "memory map", "Zarr"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["room"] * 3 <= found["size"]
    # The same limit refuses the inputs as a whole, from any kind of file.
    assert all(found[kind]["refused"] for kind in KINDS)
    assert all(found[kind]["numbers"] == found[KINDS[0]]["numbers"] for kind in KINDS)


# ---------------------------------------------------------------------- the same from files as from memory
def problem(n=24, side=8, n_channels=2, own=False):
    """Fields on a grid, or on points of each sample's own, and their targets."""
    rng = np.random.default_rng(0)
    coords = unit_grid((side, side))
    if own:
        coords = coords + rng.uniform(-0.02, 0.02, (n, side * side, 2))
    x = rng.normal(size=(n, side * side, 2)).astype(np.float32)
    y = np.stack([np.cumsum(x[..., 0], axis=1), 1e3 * x[..., 1] ** 2], axis=-1)[..., :n_channels] / side
    return {"coords": coords, "x": x, "y": y}


def in_files(folder, kind, arrays, chunks=3):
    """The same arrays as they are stored in files."""
    if kind == "memory map":
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays}
    if kind == "HDF5":
        with h5py.File(folder / "all.h5", "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array, chunks=(chunks, *array.shape[1:]), compression="gzip")
        file = h5py.File(folder / "all.h5", "r")
        return {name: file[name] for name in arrays}
    for name, array in arrays.items():
        zarr.create_array(folder / f"{name}.zarr", data=array, chunks=(chunks, *array.shape[1:]))
    return {name: zarr.open_array(folder / f"{name}.zarr", mode="r") for name in arrays}


def as_sets(arrays):
    return tuple(FieldSet(arrays["coords"], arrays[name]) for name in "xy")


def weights(model):
    return [parameter.detach().numpy() for parameter in model.module_.parameters()]


def same_model(one, other):
    """Whether two models are equal bit for bit, with all that is said of their training."""
    assert one.loss_curve_ == other.loss_curve_
    assert one.validation_scores_ == other.validation_scores_
    assert (one.base_ is None) == (other.base_ is None)
    for a, b in zip(weights(one), weights(other), strict=True):
        np.testing.assert_array_equal(a, b)


#: Operators, whether each sample has points of its own, and kinds of files.
CASES = {
    "lamo": (LaMORegressor(base=None, early_stopping=True, **SMALL), False, ["HDF5"]),
    "lamo, base": (LaMORegressor(base="auto", **SMALL), False, ["memory map"]),
}
MORE_CASES = {
    "lamo": (LaMORegressor(base=None, early_stopping=True, **SMALL), False, ["memory map", "Zarr"]),
    "lamo, own points": (LaMORegressor(base=None, early_stopping=True, **SMALL), True, KINDS),
    "mno": (MNORegressor(base=None, **SMALL), False, ["HDF5"]),
    "amo": (AMORegressor(base=None, **SMALL), False, ["Zarr"]),
    "geomano": (GeoMaNORegressor(base=None, **SMALL), False, ["memory map"]),
}


def cases(which, marks=()):
    return [
        pytest.param(model, own, kind, id=f"{name}, {kind}", marks=marks)
        for name, (model, own, kinds) in which.items()
        for kind in kinds
    ]


@pytest.mark.parametrize(("model", "own", "kind"), cases(CASES) + cases(MORE_CASES, pytest.mark.exhaustive))
def test_files_give_the_model_of_memory(tmp_path, monkeypatch, model, own, kind):
    # Several pieces, as for large sets, and several batches in a prediction.
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 1000)
    monkeypatch.setattr("skop.surrogate._surrogate.PREDICT_POINTS", 500)
    arrays = problem(own=own)
    X, y = as_sets(arrays)
    stored = as_sets(in_files(tmp_path, kind, arrays))
    held, read = clone(model).fit(X, y), clone(model).fit(*stored)
    same_model(held, read)
    np.testing.assert_array_equal(read.predict(stored[0]).values, held.predict(X).values)
    # A score adds the same numbers in pieces.
    assert read.score(*stored) == pytest.approx(held.score(X, y), abs=1e-12)
    assert read.score_channels(*stored) == pytest.approx(held.score_channels(X, y), abs=1e-12)
    by_slices = np.concatenate([read.predict(stored[0][start : start + 5]) for start in range(0, len(X), 5)])
    np.testing.assert_allclose(by_slices.values, held.predict(X).values, rtol=1e-4, atol=1e-4)


#: How a band is calibrated, by `method`, `guarantee` and `scale`.
BANDS = [
    ("split", "pointwise", "residuals"),
    ("split", "simultaneous", "spread"),
    *(
        pytest.param(*case, marks=pytest.mark.exhaustive)
        for case in [
            ("split", "pointwise", "constant"),
            ("split", "simultaneous", "learned"),
            ("cv+", "pointwise", "spread"),
            ("cv+", "simultaneous", "residuals"),
        ]
    ),
]


@pytest.mark.parametrize(("method", "guarantee", "scale"), BANDS)
def test_files_give_the_band_of_memory(tmp_path, monkeypatch, method, guarantee, scale):
    # A piece has three samples.
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 400)
    arrays = problem()
    X, y = as_sets(arrays)
    stored = as_sets(in_files(tmp_path, "HDF5", arrays))
    model = EnsembleRegressor(LaMORegressor(base=None, **SMALL), n_members=2, random_state=0)
    learned = LaMORegressor(base=None, **SMALL)
    band = ConformalRegressor(
        model,
        coverage=0.7,
        method=method,
        guarantee=guarantee,
        scale=learned if scale == "learned" else scale,
        cv=3,
        random_state=0,
    )
    held, read = clone(band).fit(X, y), clone(band).fit(*stored)
    for one, other in zip(held.predict_interval(X), read.predict_interval(stored[0]), strict=True):
        # Predictions of other batches and sums in another order differ by rounding.
        np.testing.assert_allclose(one.values, other.values, rtol=1e-4, atol=1e-4 * np.ptp(one.values))
    for one, other in zip(held.novelty(X[:5]), read.novelty(stored[0][:5]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.parametrize("coverage", [0.3, 0.9])
def test_joined_scores_make_a_band_slightly_wider_and_never_narrower(tmp_path, monkeypatch, coverage):
    arrays = problem(n=60)
    X, y = as_sets(arrays)
    stored = as_sets(in_files(tmp_path, "memory map", arrays))
    weight = np.random.default_rng(1).uniform(0.5, 2, len(X))
    band = ConformalRegressor(FrozenEstimator(MeanFieldRegressor().fit(X, y)), coverage=coverage, random_state=0)
    exact = clone(band).fit(X, y, sample_weight=weight)
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 400)
    monkeypatch.setattr("skop.estimators.uncertainty._scores._MOST_SCORES", 100)
    # Seven binary digits are left, so that there are scores to join.
    monkeypatch.setattr("skop.estimators.uncertainty._scores._JOINED_BITS", 45)
    joined = clone(band).fit(*stored, sample_weight=weight)
    ratio = joined.quantiles_["fields"] / exact.quantiles_["fields"]
    assert np.all((ratio > 1) & (ratio < 1 + 2**-7))
    for one, other in zip(joined.pools_[0]["fields"], exact.pools_[0]["fields"], strict=True):
        # Tables of fewer scores with the same mass.
        assert one[1, -1] == pytest.approx(other[1, -1])
        assert one.shape[1] < other.shape[1]


@pytest.mark.exhaustive
def test_a_band_is_calibrated_in_less_memory_than_the_data_take(tmp_path, monkeypatch):
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 2**14)
    monkeypatch.setattr("skop.surrogate._surrogate.PREDICT_POINTS", 2**10)
    arrays = problem(n=240, side=48)
    model = LaMORegressor(base=None, **(SMALL | {"max_iter": 1})).fit(arrays["x"][:8], arrays["y"][:8])
    stored = in_files(tmp_path, "memory map", arrays)
    X, y = stored["x"], stored["y"]
    calls = {
        "band": lambda: ConformalRegressor(FrozenEstimator(model), guarantee="simultaneous", random_state=0).fit(X, y),
        "scores": lambda: model.score_channels(X, y),
        "novelty": lambda: model.novelty(X),
    }
    for name, call in calls.items():
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # In double precision, of which errors are computed, the targets alone take this.
        assert peak < 8 * y.size / 2, name


def test_arrays_of_files_are_x_and_y(tmp_path):
    arrays = {name: part.reshape(24, 8, 8, 2) for name, part in problem().items() if name != "coords"}
    model = LaMORegressor(base=None, **SMALL)
    held = clone(model).fit(*arrays.values())
    for kind in KINDS:
        stored = in_files(tmp_path, kind, arrays)
        read = clone(model).fit(*stored.values())
        same_model(held, read)
        assert read.predict(stored["x"]).shape == (24, 8, 8, 2)
        assert read.score(*stored.values()) == pytest.approx(held.score(*arrays.values()), abs=1e-12)


def test_scalars_beside_fields_in_files(tmp_path):
    arrays = problem()
    X, y = as_sets(arrays)
    peaks = arrays["y"].max(axis=1)
    model = LaMORegressor(base=None, early_stopping=True, **SMALL)
    held = clone(model).fit(X, y.with_params(peaks))
    stored = as_sets(in_files(tmp_path, "HDF5", arrays))
    with_peaks = stored[1].with_params(peaks)
    read = clone(model).fit(stored[0], with_peaks)
    same_model(held, read)
    assert read.score(stored[0], with_peaks) == pytest.approx(held.score(X, y.with_params(peaks)), abs=1e-9)
    # Parameters of a selection do not read its fields.
    part = stored[1][[5, 2]].with_params(peaks[[5, 2]])
    assert not part.in_memory
    np.testing.assert_array_equal(part.params, peaks[[5, 2]])
    np.testing.assert_array_equal(part[[1]].params, peaks[[2]])


# ---------------------------------------------------------------------- the base
def test_no_base_for_large_files_with_a_warning(tmp_path, monkeypatch):
    arrays = problem()
    X, y = as_sets(arrays)
    stored = as_sets(in_files(tmp_path, "HDF5", arrays))
    # 24 samples of 64 points with 2 + 2 channels have 48 KiB in double precision.
    monkeypatch.setattr("skop.estimators.fitting._session_base._BASE_BYTES", 48 * 1024 - 1)
    with pytest.warns(
        SkopWarning, match="no base model, since X and y, which are in files or windows of time steps, hold more than"
    ):
        large = LaMORegressor(**SMALL).fit(*stored)
    same_model(large, LaMORegressor(base=None, **SMALL).fit(X, y))
    monkeypatch.setattr("skop.estimators.fitting._session_base._BASE_BYTES", 48 * 1024)
    same_model(LaMORegressor(**SMALL).fit(*stored), LaMORegressor(**SMALL).fit(X, y))


# ---------------------------------------------------------------------- other processes, and checkpoints
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["HDF5", "Zarr"])
def test_a_search_over_files_in_two_processes(tmp_path, kind):
    X, y = as_sets(in_files(tmp_path, kind, problem()))
    search = GridSearchCV(PODRegressor(regressor="ridge"), {"n_components": [2, 4]}, cv=2)
    alone = clone(search).fit(X, y)
    both = clone(search).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_allclose(both.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"], rtol=1e-9)


def test_checkpoints_know_the_data_of_files(tmp_path):
    arrays = problem()
    model = LaMORegressor(base=None, **SMALL).fit(*as_sets(arrays), checkpoint_dir=tmp_path / "kept")
    stored = as_sets(in_files(tmp_path, "HDF5", arrays))
    again = LaMORegressor(base=None, **SMALL).fit(*stored, checkpoint_dir=tmp_path / "kept")
    same_model(model, again)
    assert len(list((tmp_path / "kept").iterdir())) == 1


# ---------------------------------------------------------------------- errors
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_in_the_middle_of_a_file_is_named(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 500)
    arrays = problem()
    arrays["x"][17, 3, 1] = np.nan
    stored = as_sets(in_files(tmp_path, kind, arrays))
    with pytest.raises(FieldDataError, match="Input X contains NaN or infinity, first in sample 17, channel 1"):
        LaMORegressor(**SMALL).fit(*stored)
    arrays = problem(own=True)
    arrays["coords"][13, 5, 0] = np.inf
    (tmp_path / "own").mkdir()
    stored = as_sets(in_files(tmp_path / "own", kind, arrays))
    with pytest.raises(FieldDataError, match="in its coordinates, first in sample 13, point 5, coordinate 0"):
        LaMORegressor(**SMALL).fit(*stored)


def test_closed_files_and_other_arrays_are_refused(tmp_path):
    arrays = problem()
    stored = in_files(tmp_path, "HDF5", arrays)
    X, y = as_sets(stored)
    text = h5py.File(tmp_path / "text.h5", "w")
    text["x"] = ["a"] * 24
    with pytest.raises(FieldDataError, match="expected numbers"):
        FieldSet(arrays["coords"], text["x"])
    with pytest.raises(FieldDataError, match="values must have shape"):
        FieldSet(arrays["coords"], text.create_dataset("n", data=np.zeros((24, 64))))
    with pytest.raises(FieldDataError, match=r"y has 24 samples|X has 20 samples"):
        LaMORegressor(**SMALL).fit(X[:20], y)
    stored["x"].file.close()
    for use in (
        lambda: FieldSet(arrays["coords"], stored["x"]),
        lambda: X.values,
        lambda: LaMORegressor(**SMALL).fit(X, y),
        lambda: LaMORegressor(**SMALL).fit(stored["x"], arrays["y"]),
        lambda: PODRegressor().fit(arrays["x"], stored["y"]),
        lambda: pickle.dumps(X),
    ):
        with pytest.raises(FieldDataError, match=r"HDF5 file that was closed; keep the file open"):
            use()


def test_files_that_other_processes_cannot_open(tmp_path):
    with h5py.File(tmp_path / "all.h5", "w") as file:
        file["x"] = problem()["x"]
        X = FieldSet(problem()["coords"], file["x"])
        # In this process a file that is open for writing can be read.
        np.testing.assert_array_equal(X[3:5].values, problem()["x"][3:5])
        with pytest.raises(FieldDataError, match=r"opened in mode 'r\+', and is to be sent to another process"):
            pickle.dumps(X)
    with h5py.File(tmp_path / "all.h5", "r") as file:
        held = pickle.dumps(FieldSet(problem()["coords"], file["x"])[[7, 2]])
    np.testing.assert_array_equal(pickle.loads(held).values, problem()["x"][[7, 2]])
    with h5py.File(tmp_path / "all.h5", "r+") as file:
        del file["x"]
        file["x"] = np.zeros((24, 64, 1))
    (tmp_path / "all.h5").rename(tmp_path / "moved.h5")
    with pytest.raises(FieldDataError, match="cannot be opened again"):
        pickle.loads(held)
