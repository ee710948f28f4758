"""Predictions by parts of the samples: in workers of joblib, and by the chunks of dask arrays."""

import warnings

import joblib
import meshio
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from scipy.spatial import Delaunay
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skop
from skop.data import unit_grid
from skop.exceptions import ExtrapolationWarning, FieldDataError

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(11, 6, 5, 2))
Y = np.stack([X[..., 0] ** 2, X.sum(axis=-1)], axis=-1)
TABLE = RANDOM.random((11, 3))
#: Parts have other batches, and sums in single precision another order.
ROUNDING = {"rtol": 1e-5, "atol": 1e-6}


def lamo(**params):
    return skop.LaMORegressor(width=8, depth=1, max_iter=1, batch_size=4, random_state=0, **params)


@pytest.fixture(scope="module")
def on_grids():
    return lamo().fit(X, Y)


def clouds(number):
    return [RANDOM.random((5 + row % 3, 2)) for row in range(number)]


# ---------------------------------------------------------------------- forms
POINTS = clouds(11)
VALUES = [part.sum(axis=1, keepdims=True) for part in POINTS]
GRID = unit_grid((6, 5))
FORMS = {
    "grid": (X, Y),
    "field set": (skop.FieldSet(GRID, X.reshape(11, 30, 2)), skop.FieldSet(GRID, Y.reshape(11, 30, 2))),
    "shared points": ((RANDOM.random((30, 2)), X.reshape(11, 30, 2)), Y.reshape(11, 30, 2)),
    "own points": ((RANDOM.random((11, 30, 2)), X.reshape(11, 30, 2)), Y.reshape(11, 30, 2)),
    "geometry": ((RANDOM.random((11, 30, 2)), None), Y.reshape(11, 30, 2)),
    "point sets": (POINTS, VALUES),
    "pairs": (list(zip(POINTS, VALUES, strict=True)), VALUES),
    "ragged": (skop.FieldSet(POINTS, VALUES), skop.FieldSet(POINTS, VALUES)),
    "table": (TABLE, TABLE.sum(axis=1)),
    "frames": (
        pd.DataFrame(TABLE, columns=list("abc"), index=[f"run {row}" for row in range(11)]),
        pd.DataFrame({"sum": TABLE.sum(axis=1), "product": TABLE.prod(axis=1)}),
    ),
    "table to pairs": (TABLE, (GRID, Y.reshape(11, 30, 2))),
}


def require_close(found, expected):
    """Two predictions have one form and are equal to rounding."""
    assert type(found) is type(expected)
    if isinstance(expected, pd.DataFrame | pd.Series):
        pd.testing.assert_frame_equal(found, expected, rtol=1e-5)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, **ROUNDING)
    elif isinstance(expected, skop.FieldSet):
        require_close(found.to_list(), expected.to_list())
        np.testing.assert_array_equal(found.coords, expected.coords)
    else:
        np.testing.assert_allclose(found, expected, **ROUNDING)


def test_parts_together_are_the_prediction_of_all_samples(subtests):
    for form, (inputs, targets) in FORMS.items():
        with subtests.test(form):
            model = skop.PODRegressor(regressor="ridge") if form == "frames" else lamo()
            model.fit(inputs, targets)
            require_close(skop.predict_in_parts(model, inputs, part_size=4), model.predict(inputs))


def test_points_and_parameters_go_with_their_samples(on_grids):
    places = RANDOM.random((7, 2)) * 0.8 + 0.1
    own = RANDOM.random((11, 7, 2)) * 0.8 + 0.1
    one_set = skop.FieldSet(places, params=np.zeros((1, 1)))
    for coords in (places, own, list(own), one_set, skop.FieldSet(own)):
        expected = on_grids.predict(X, coords)
        require_close(skop.predict_in_parts(on_grids, X, coords=coords, part_size=3), expected)
    model = lamo().fit(X, Y, params=TABLE)
    expected = model.predict(X, params=TABLE)
    require_close(skop.predict_in_parts(model, X, params=TABLE, part_size=3), expected)
    assert not np.allclose(model.predict(X, params=TABLE[::-1]), expected)
    with pytest.raises(FieldDataError, match="params has 10 rows, but X has 11 samples"):
        skop.predict_in_parts(model, X, params=TABLE[1:], part_size=3)
    with pytest.raises(FieldDataError, match="coords has 10 entries, but X has 11 samples"):
        skop.predict_in_parts(on_grids, X, coords=own[1:], part_size=3)


def test_several_results_and_pipelines_are_joined(on_grids):
    ensemble = skop.EnsembleRegressor(lamo(), n_members=2, random_state=0).fit(X, Y)
    expected = ensemble.predict(X, return_std=True)
    require_close(skop.predict_in_parts(ensemble, X, return_std=True, part_size=4), expected)
    band = skop.ConformalRegressor(skop.PODRegressor(regressor="ridge"), coverage=0.5, random_state=0).fit(TABLE, Y)
    found = skop.predict_in_parts(band, TABLE, method="predict_interval", part_size=4)
    require_close(found, band.predict_interval(TABLE))
    weight = np.linspace(0.5, 1, 11)
    found = skop.predict_in_parts(band, TABLE, method="predict_interval", part_size=4, sample_weight=weight)
    require_close(found, band.predict_interval(TABLE, sample_weight=weight))
    with pytest.raises(FieldDataError, match=r"sample_weight has shape \(4,\)"):
        skop.predict_in_parts(band, TABLE, method="predict_interval", part_size=4, sample_weight=weight[:4])
    found = skop.predict_in_parts(band, TABLE, method="novelty", part_size=4, level=None)
    np.testing.assert_array_equal(found.quantile, band.novelty(TABLE, level=None).quantile)
    steps = make_pipeline(StandardScaler(), skop.PODRegressor(regressor="ridge")).fit(TABLE, Y)
    require_close(skop.predict_in_parts(steps, TABLE, part_size=5), steps.predict(TABLE))


def test_parts_do_not_depend_on_the_number_of_workers(on_grids):
    expected = skop.predict_in_parts(on_grids, X, part_size=3)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        np.testing.assert_array_equal(skop.predict_in_parts(on_grids, X, part_size=3), expected)
        np.testing.assert_array_equal(skop.predict_in_parts(on_grids, X, part_size=3, n_jobs=2), expected)


def test_no_more_workers_are_started_than_there_are_tasks():
    """Joblib starts as many as it is asked for, each a process with a copy of torch."""
    asked = []

    class Asked(joblib.parallel.ThreadingBackend):
        def configure(self, n_jobs=1, parallel=None, **options):
            asked.append(n_jobs)
            return super().configure(min(n_jobs, 4), parallel, **options)

    joblib.register_parallel_backend("asked", Asked)
    with joblib.parallel_config(backend="asked"):
        model = skop.PODRegressor(regressor="ridge").fit(TABLE, Y)
        skop.predict_in_parts(model, TABLE, part_size=4, n_jobs=4096)
        skop.EnsembleRegressor(lamo(), n_members=2, n_jobs=4096, random_state=0).fit(TABLE, Y)
        band = skop.ConformalRegressor(
            skop.PODRegressor(regressor="ridge"), method="cv+", cv=2, coverage=0.5, n_jobs=4096
        )
        band.fit(TABLE, Y)
        skop.datasets.make_darcy(2, resolution=8, random_state=0, n_jobs=4096)
    assert asked == [3, 2, 2, 2]


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float64"},
        {"symmetries": skop.SymmetryOptions(rotations=[((0.5, 0.5), 120)], average_predictions=True)},
    ],
)
def test_arrays_of_a_model_that_workers_share_cannot_be_written(options, tmp_path):
    """Joblib maps large arrays into the memory of its workers, for reading only."""
    model = lamo(**options).fit(POINTS, VALUES)
    joblib.dump(model, tmp_path / "model.joblib")
    shared = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            require_close(shared.predict(POINTS), model.predict(POINTS))
    finally:
        torch.set_warn_always(before)


def test_numbers_of_workers_that_are_none(subtests):
    model = skop.PODRegressor(regressor="ridge").fit(TABLE, Y)
    for n_jobs in [0, 10**6, -(10**6), True, 2.0, "2"]:
        with subtests.test(n_jobs=n_jobs):
            with pytest.raises(ValueError, match=r"n_jobs is .*; expected a number of workers from 1 to 4096"):
                skop.predict_in_parts(model, TABLE, n_jobs=n_jobs)
            with pytest.raises(ValueError, match=r"n_jobs is .*; expected a number of workers from 1 to 4096"):
                skop.datasets.make_darcy(2, resolution=8, random_state=0, n_jobs=n_jobs)


def test_the_active_backend_and_its_number_of_jobs_are_used(on_grids):
    """A backend that counts what it is given stands for a cluster."""
    seen = []

    class Counting(joblib.parallel.ThreadingBackend):
        def submit(self, func, callback=None):
            seen.append(func)
            return super().submit(func, callback)

    joblib.register_parallel_backend("counting", Counting)
    with joblib.parallel_config(backend="counting", n_jobs=2):
        joblib.Parallel()(joblib.delayed(abs)(one) for one in range(2))
        usual = len(seen)
        assert usual
        skop.predict_in_parts(on_grids, X, part_size=3)
        assert len(seen) > usual
        for model in (
            skop.EnsembleRegressor(lamo(), n_members=2, random_state=0),
            skop.ConformalRegressor(
                skop.PODRegressor(regressor="ridge"), method="cv+", cv=2, coverage=0.5, random_state=0
            ),
            skop.AutoRegressor(candidates=[("mean", skop.MeanFieldRegressor())], max_time=None, random_state=0),
        ):
            before = len(seen)
            model.fit(TABLE, Y)
            assert len(seen) > before, model


def test_the_first_warning_of_a_class_comes_from_this_line(on_grids):
    far = X.copy()
    far[[4, 7, 10]] *= 1e3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with joblib.parallel_config(backend="threading"):
            skop.predict_in_parts(on_grids, far, part_size=3, n_jobs=2)
    (warning,) = [item for item in caught if item.category is ExtrapolationWarning]
    assert warning.filename == __file__
    assert str(warning.message).startswith("in samples 3 to 5 of X, counted from the first of them: ")
    assert "(2 more of this class in parts of X)" in str(warning.message)


def test_unsuitable_arguments_are_named(on_grids):
    for value in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="part_size must be an integer of at least 1, or None, got"):
            skop.predict_in_parts(on_grids, X, part_size=value)
    for value in (X[:0], None, 3.0):
        with pytest.raises(FieldDataError, match="X has no samples"):
            skop.predict_in_parts(on_grids, value)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        skop.predict_in_parts(skop.PODRegressor(regressor="ridge").fit(TABLE, Y), csr_array(TABLE))
    with pytest.raises(FieldDataError, match="method is 'guess', which is no method of LaMORegressor"):
        skop.predict_in_parts(on_grids, X, method="guess")
    with pytest.raises(FieldDataError, match="output is a folder, but X is no files"):
        skop.predict_in_parts(on_grids, X, output="out")
    with pytest.raises(FieldDataError, match="predictions are no list of meshes: they came as ndarray"):
        skop.predict_in_parts(on_grids, X, output=[f"{row}.vtu" for row in range(11)])


# ---------------------------------------------------------------------- files
@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folder of plates that differ in their points, and a model of their stress under a load."""
    folder = tmp_path_factory.mktemp("runs")
    for number in range(7):
        points = RANDOM.random((20 + number, 2))
        data = {"stress": (1 + number) * points.sum(axis=1)}
        cells = [("triangle", Delaunay(points).simplices)]
        meshio.Mesh(np.column_stack([points, np.zeros(len(points))]), cells, data).write(folder / f"run_{number}.vtu")
    loads = pd.DataFrame({"run": [f"run_{number}" for number in range(7)], "load": np.arange(1.0, 8)})
    model = lamo(target_fields=["stress"])
    return folder, loads, model.fit(str(folder / "run_*.vtu"), params=loads)


def test_workers_write_the_predicted_meshes(runs, tmp_path):
    folder, loads, model = runs
    shuffled = loads.sample(frac=1, random_state=0)
    pattern = str(folder / "run_*.vtu")
    expected = model.predict(pattern, params=shuffled)
    found = skop.predict_in_parts(model, pattern, params=shuffled, part_size=3)
    options = {"params": shuffled, "part_size": 2, "output": tmp_path / "new" / "folder"}
    with joblib.parallel_config(backend="threading", n_jobs=2):
        files = skop.predict_in_parts(model, pattern, **options)
    assert [file.name for file in files] == [f"run_{number}.vtu" for number in range(7)]
    for mesh, file, whole in zip(found, files, expected, strict=True):
        written = meshio.read(file)
        for name in ("stress", "stress_true", "stress_error"):
            np.testing.assert_allclose(mesh.point_data[name], whole.point_data[name], **ROUNDING)
            np.testing.assert_allclose(written.point_data[name], whole.point_data[name], **ROUNDING)
    on_own = skop.predict_in_parts(model, pattern, params=loads, coords=pattern, part_size=3)
    assert [len(mesh.points) for mesh in on_own] == list(range(20, 27))


def test_files_are_not_overwritten_by_each_other_or_over_inputs(runs, tmp_path):
    folder, loads, model = runs
    pattern = str(folder / "run_*.vtu")
    with pytest.raises(FieldDataError, match=r"the prediction would overwrite its input .*run_0\.vtu"):
        skop.predict_in_parts(model, pattern, params=loads, output=folder)
    with pytest.raises(FieldDataError, match="2 predictions would be written to"):
        skop.predict_in_parts(model, pattern, params=loads, output=[tmp_path / f"{row % 6}.vtu" for row in range(7)])
    with pytest.raises(FieldDataError, match="output has 1 files for 7 samples"):
        skop.predict_in_parts(model, pattern, params=loads, output=[tmp_path / "a.vtu"])


def test_an_error_of_a_worker_names_the_file(runs, tmp_path):
    folder, _, model = runs
    (tmp_path / "run_9.vtu").write_text("<VTKFile")
    files = [folder / "run_0.vtu", tmp_path / "run_9.vtu"]
    with pytest.raises(FieldDataError, match=r"run_9\.vtu"):
        skop.predict_in_parts(model, files, params=[[1.0], [2.0]], part_size=1)


def test_time_series_are_refused(runs):
    frames = skop.data.MeshSeries([meshio.Mesh(np.zeros((2, 2)), [])], [0.0])
    with pytest.raises(FieldDataError, match="time series of meshes"):
        skop.predict_in_parts(runs[2], [frames])


# ---------------------------------------------------------------------- dask arrays
@pytest.fixture
def da():
    dask = pytest.importorskip("dask", reason="needs dask: pip install dask")
    array = pytest.importorskip("dask.array", reason="needs dask: pip install dask")
    with dask.config.set(scheduler="synchronous"):
        yield array


def counted(da, values, size):
    """A dask array of values, and the list of the chunks that were computed."""
    seen = []

    def pass_on(block):
        seen.append(len(block))
        return block

    lazy = da.from_array(values, chunks=(size, *[2] * (values.ndim - 1)))
    whole = lazy.rechunk((size, *values.shape[1:]))
    return whole.map_blocks(pass_on, dtype=values.dtype, meta=values[:0]), seen


def test_predictions_of_dask_arrays_are_lazy_and_computed_by_chunks(da, on_grids):
    lazy, seen = counted(da, X, 4)
    found = on_grids.predict(lazy)
    assert isinstance(found, da.Array)
    assert seen == []
    expected = on_grids.predict(X)
    assert (found.shape, found.dtype, found.chunks[0]) == (expected.shape, expected.dtype, (4, 4, 3))
    np.testing.assert_allclose(found[:3].compute(), expected[:3], **ROUNDING)
    assert seen == [4]
    np.testing.assert_array_equal(
        found.compute(), np.concatenate([on_grids.predict(X[start : start + 4]) for start in (0, 4, 8)])
    )
    # Chunks along other axes are joined first, and those of unknown size computed as they come, also if empty.
    np.testing.assert_allclose(on_grids.predict(da.from_array(X, chunks=(4, 2, 5, 1))).compute(), expected, **ROUNDING)
    unknown = da.from_array(X, chunks=4)
    unknown = unknown[da.from_array(np.arange(11) >= 4, chunks=4)]
    np.testing.assert_allclose(on_grids.predict(unknown).compute(), expected[4:], **ROUNDING)
    with pytest.raises(FieldDataError, match=r"unknown chunk sizes.*compute_chunk_sizes"):
        on_grids.predict(unknown, coords=RANDOM.random((11, 4, 2)))


def test_a_fit_in_between_does_not_change_lazy_predictions(da):
    model = lamo(warm_start=True, base=None).fit(X, Y)
    found, expected = model.predict(da.from_array(X, chunks=11)), model.predict(X)
    model.fit(X, Y)
    assert not np.array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(found.compute(), expected)


def test_every_method_that_predicts_takes_dask_arrays(da):
    lazy, table = da.from_array(X, chunks=(4, 6, 5, 2)), da.from_array(TABLE, chunks=(4, 3))
    ensemble = skop.EnsembleRegressor(lamo(), n_members=2, random_state=0).fit(X, Y)
    found = ensemble.predict(lazy, return_std=True)
    assert all(isinstance(part, da.Array) for part in found)
    require_close(tuple(part.compute() for part in found), ensemble.predict(X, return_std=True))
    band = skop.ConformalRegressor(skop.PODRegressor(regressor="ridge"), coverage=0.5, random_state=0).fit(TABLE, Y)
    require_close(tuple(part.compute() for part in band.predict_interval(table)), band.predict_interval(TABLE))
    pod = skop.PODRegressor(regressor="gaussian_process").fit(TABLE, TABLE.sum(axis=1))
    require_close(
        tuple(part.compute() for part in pod.predict(table, return_std=True)), pod.predict(TABLE, return_std=True)
    )
    rollout = skop.RolloutRegressor(lamo(), window=1).fit(X[..., :1], X)
    one = da.from_array(X[..., :1], chunks=(4, 6, 5, 1))
    require_close(rollout.predict(one, n_steps=3).compute(), rollout.predict(X[..., :1], n_steps=3))
    timed = skop.TimeConditionedRegressor(lamo(), times=[0.0, 1.0]).fit(X[..., :1], X)
    require_close(timed.predict(one, times=[0.5]).compute(), timed.predict(X[..., :1], times=[0.5]))
    auto = skop.AutoRegressor(
        candidates=[("POD", skop.PODRegressor(regressor="ridge"))], max_time=None, random_state=0
    ).fit(TABLE, Y)
    require_close(auto.predict(table).compute(), auto.predict(TABLE))
    model = lamo().fit(X, Y, params=TABLE)
    require_close(model.predict(lazy, params=TABLE).compute(), model.predict(X, params=TABLE))
    places = RANDOM.random((11, 4, 2)) * 0.8 + 0.1
    require_close(ensemble.predict(lazy, coords=places).compute(), ensemble.predict(X, coords=places))


def test_what_does_not_fit_the_model_is_found_before_anything_is_computed(da, on_grids):
    lazy, seen = counted(da, X, 4)
    with pytest.raises(FieldDataError, match="X has 1 channels, but the estimator was fitted with 2"):
        on_grids.predict(lazy[..., :1])
    by_points = lamo().fit(X, skop.FieldSet(GRID, Y.reshape(11, 30, 2)))
    with pytest.raises(FieldDataError, match="predictions come as FieldSet"):
        by_points.predict(lazy)
    with pytest.raises(FieldDataError, match="samples along the first of several axes"):
        on_grids.predict(lazy[:, 0, 0, 0])
    with pytest.raises(FieldDataError, match=r"call estimator\.predict"):
        skop.predict_in_parts(on_grids, lazy)
    with pytest.raises(NotFittedError):
        lamo().predict(lazy)
    assert seen == []


def test_fit_and_score_read_dask_arrays_by_batches(da):
    lazy, seen = counted(da, X, 4)
    targets = da.from_array(Y, chunks=(3, 2, 5, 1))
    expected = lamo().fit(X, Y)
    model = lamo().fit(lazy, targets)
    assert max(seen) == 4
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.score(lazy, targets) == expected.score(X, Y)
    table, sums = da.from_array(TABLE, chunks=4), da.from_array(TABLE.sum(axis=1), chunks=4)
    expected = skop.PODRegressor(regressor="ridge").fit(TABLE, TABLE.sum(axis=1))
    model = skop.PODRegressor(regressor="ridge").fit(table, sums)
    np.testing.assert_array_equal(model.predict(TABLE), expected.predict(TABLE))
    assert model.score(table, sums) == expected.score(TABLE, TABLE.sum(axis=1))
    model = lamo().fit(table, targets)
    np.testing.assert_array_equal(model.predict(TABLE), lamo().fit(TABLE, Y).predict(TABLE))
    with pytest.raises(FieldDataError, match=r"X is a dask array of unknown chunk sizes; call X.compute_chunk_sizes"):
        lamo().fit(lazy[lazy[:, 0, 0, 0] > 0], targets)
