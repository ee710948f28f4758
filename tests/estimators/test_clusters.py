"""Searches, ensembles and predictions on local clusters of Dask and Ray, through the backends of joblib."""

import os
import pickle
import secrets
import sys

import joblib
import meshio
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import skop
from skop.exceptions import FieldDataError

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(10, 6, 5, 2))
Y = X[..., :1] ** 2
#: A set of fields, in whose pickle selections hold their own samples only.
FIELDS = skop.FieldSet(skop.data.unit_grid((6, 5)), X.reshape(10, 30, 2), grid_shape=(6, 5))


def lamo(**params):
    return skop.LaMORegressor(width=8, depth=1, max_iter=2, batch_size=4, dropout=0.2, random_state=0, **params)


class Faulty(skop.MeanFieldRegressor):
    """Raises in a fit."""

    def fit(self, X, y=None, sample_weight=None, *, params=None):
        raise FieldDataError("sample 3 of X is on fire; put it out.")


def report_of_worker(number):
    """Process of a worker, and the numbers of threads there."""
    import torch

    return os.getpid(), torch.get_num_threads(), number


# ---------------------------------------------------------------------- what runs on any cluster
def search():
    return GridSearchCV(lamo(), {"width": [8, 16]}, cv=2).fit(X, Y).cv_results_["mean_test_score"]


def score():
    return cross_val_score(lamo(), FIELDS, Y, cv=2)


def ensemble():
    return skop.EnsembleRegressor(lamo(), n_members=2, random_state=0).fit(X, Y).predict(X)


def band():
    model = skop.ConformalRegressor(lamo(), method="cv+", cv=2, coverage=0.5, random_state=0)
    return np.stack(model.fit(X, Y).predict_interval(X))


def choice():
    candidates = [("mean", skop.MeanFieldRegressor()), ("LaMO", lamo())]
    return skop.AutoRegressor(candidates=candidates, max_time=None, cv=2, random_state=0).fit(X, Y).predict(X)


def table_of_candidates():
    candidates = [("mean", skop.MeanFieldRegressor()), ("LaMO", lamo())]
    table = skop.leaderboard(X, Y, candidates=candidates, max_time=None, cv=2, random_state=0)
    return table["error"].to_numpy()


def parts():
    return skop.predict_in_parts(lamo().fit(FIELDS, Y), FIELDS, part_size=3)


def check_backend(name, calls, tmp_path, **options):
    """Whether a backend gives what one process gives, in other processes, and shows what goes wrong there."""
    expected = [call() for call in calls]
    with joblib.parallel_config(backend=name, **options):
        workers = joblib.Parallel()(joblib.delayed(report_of_worker)(number) for number in range(4))
        found = [call() for call in calls]
        with pytest.raises(FieldDataError, match="sample 3 of X is on fire; put it out"):
            skop.ConformalRegressor(Faulty(), method="cv+", cv=2, coverage=0.5).fit(X, Y)
        files = write_meshes(tmp_path)
        model = lamo(target_fields=["u"]).fit(files)
        written = skop.predict_in_parts(model, files, part_size=2, output=tmp_path / "predicted")
    assert os.getpid() not in {process for process, *_ in workers}
    assert {threads for _, threads, _ in workers} == {1}
    for call, values, others in zip(calls, expected, found, strict=True):
        np.testing.assert_array_equal(others, values, err_msg=call.__name__)
    for file, mesh in zip(written, model.predict(files), strict=True):
        np.testing.assert_allclose(meshio.read(file).point_data["u"], mesh.point_data["u"], rtol=1e-5, atol=1e-6)


def write_meshes(folder):
    """Files of point clouds with a field."""
    files = []
    for number in range(5):
        points = RANDOM.random((12 + number, 3)) * [1, 1, 0]
        cells = [("line", np.stack([np.arange(len(points) - 1), np.arange(1, len(points))], axis=1))]
        files.append(str(folder / f"run_{number}.vtu"))
        meshio.Mesh(points, cells, {"u": points.sum(axis=1)}).write(files[-1])
    return files


# ---------------------------------------------------------------------- Dask
@pytest.fixture
def dask_cluster(tmp_path):
    """Two processes of Dask with one thread each, on local ports."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install distributed")
    dask = pytest.importorskip("dask")
    settings = {"temporary-directory": str(tmp_path)}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.exhaustive
def test_dask(dask_cluster, tmp_path):
    import dask.array as da

    check_backend("dask", (search, score, ensemble, band, choice, table_of_candidates, parts), tmp_path)
    # Arrays: lazy predictions, and fits in workers that read chunks from the cluster.
    lazy, targets = da.from_array(X, chunks=(4, 6, 5, 2)), da.from_array(Y, chunks=(4, 6, 5, 1))
    model = lamo().fit(lazy, targets)
    np.testing.assert_array_equal(model.predict(X), lamo().fit(X, Y).predict(X))
    np.testing.assert_allclose(model.predict(lazy).compute(), model.predict(X), rtol=1e-5, atol=1e-6)
    with joblib.parallel_config(backend="dask"):
        scores = cross_val_score(lamo(), lazy, targets, cv=2)
    np.testing.assert_array_equal(scores, cross_val_score(lamo(), X, Y, cv=2))


# ---------------------------------------------------------------------- Ray
@pytest.fixture
def ray_cluster(tmp_path, monkeypatch):
    """Two processes of Ray on local ports, whose files end with the test."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Workers import this module.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    ray = pytest.importorskip("ray", reason="needs Ray: pip install ray")
    from ray.util.joblib import register_ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
        logging_level="error",
        _node_ip_address="127.0.0.1",
    )
    register_ray()
    yield ray
    ray.shutdown()


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_ray(ray_cluster, tmp_path):
    # Each call starts new processes, which import torch.
    check_backend("ray", (search, ensemble), tmp_path, n_jobs=-1)


# ---------------------------------------------------------------------- what travels
def test_a_fitted_estimator_travels_without_its_samples():
    samples = np.random.default_rng(0).normal(size=(64, 64, 64, 1))
    model = lamo().set_params(max_iter=1, batch_size=32)
    few, many = (clone(model).set_params(base=None).fit(samples[:count], samples[:count]) for count in (16, 64))
    sizes = [len(pickle.dumps(model)) for model in (few, many)]
    assert sizes[1] - sizes[0] < samples[:48].nbytes / 20
    weights = sum(part.nbytes for part in many.module_.state_dict().values())
    assert sizes[1] < 2 * weights + 2**16
    # The base that is taken where none is of use, the mean, has a few fields.
    assert len(pickle.dumps(model.fit(samples, samples))) < sizes[1] + 10 * samples[0].nbytes
