"""Meshes through the estimators: files and objects, targets of their own or beside, scores, files, and refusals."""

import warnings

import meshio
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import skop
from skop import AMORegressor, EnsembleRegressor, FieldSet, LaMORegressor, MNORegressor, PODRegressor
from skop.data import read_meshes
from skop.exceptions import FieldDataError, SkopWarning
from skop.parts import GNOT, GalerkinTransformer, OFormer

NAMES = {"input_fields": ["load"], "target_fields": ["stress", "displacement"]}


def small(**params):
    tiny = {
        "width": 8,
        "depth": 1,
        "latents__n_tokens": 4,
        "latents__n_heads": 2,
        "batch_size": 4,
        "max_iter": 1,
        "random_state": 0,
    }
    return LaMORegressor().set_params(**(tiny | NAMES | params))


def amo():
    """AMO, small."""
    sizes = {
        "width": 8,
        "depth": 1,
        "latents__n_tokens": 4,
        "mixer__n_poles": 3,
        "batch_size": 4,
        "max_iter": 1,
        "random_state": 0,
    }
    return AMORegressor().set_params(**sizes, **NAMES, latents__n_heads=2)


def mno():
    """MNO's hosts, small."""
    sizes = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0}
    return [MNORegressor(host=host, **sizes, **NAMES) for host in (GNOT(), GalerkinTransformer(), OFormer())]


def make_mesh(side=4, seed=0, height=0.5, stretch=1.0):
    """Triangles in the plane z = height, whose points form no grid, with fields that follow from the load."""
    x, y = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side), indexing="ij")
    points = np.stack([stretch * (x + 0.1 * y).ravel(), (y + 0.1 * x**2).ravel(), np.full(side**2, height)], axis=1)
    corner = np.arange(side**2).reshape(side, side)[:-1, :-1].ravel()
    triangles = np.concatenate(
        [np.stack([corner, corner + side, corner + side + 1], 1), np.stack([corner, corner + side + 1, corner + 1], 1)]
    )
    load = 1 + np.random.default_rng(seed).random(side**2)
    data = {
        "load": load,
        "stress": 2 * load + points[:, 0],
        "displacement": np.stack([load, -load, 0.1 * load], axis=1) + 1,
    }
    cells = {"pressure": [np.arange(1.0, len(triangles) + 1)]}
    return meshio.Mesh(points, [("triangle", triangles)], point_data=data, cell_data=cells)


def ragged(n_samples=6):
    return [make_mesh(3 + i % 3, i, stretch=1 + 0.1 * i) for i in range(n_samples)]


def shared(n_samples=6):
    return [make_mesh(4, i) for i in range(n_samples)]


@pytest.fixture
def folder(tmp_path):
    for i, mesh in enumerate(ragged()):
        mesh.write(tmp_path / f"run_{i}.vtu")
    return tmp_path


def predicted(mesh):
    """Names of the predicted fields of meshes that held the truth."""
    return [name.removesuffix("_error") for name in mesh.point_data if name.endswith("_error")]


def numbers(meshes):
    """Values of the target fields."""
    names = NAMES["target_fields"]
    return np.concatenate(
        [np.ravel(mesh.point_data[name]) for mesh in meshes for name in names if name in mesh.point_data]
    )


# ---------------------------------------------------------------------- fit and predict
def test_predictions_are_meshes_with_the_target_fields(subtests):
    for make in [ragged, shared]:
        for label, model in zip(["lamo", "amo", "gnot", "galerkin", "oformer"], [small(), amo(), *mno()], strict=True):
            with subtests.test(label, make=make):
                meshes = make()
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warnings.filterwarnings("ignore", "the training loss")
                    prediction = clone(model).set_params(base=None).fit(meshes).predict(meshes)
                assert len(prediction) == len(meshes)
                for found, mesh in zip(prediction, meshes, strict=True):
                    np.testing.assert_array_equal(found.points, mesh.points)
                    np.testing.assert_array_equal(found.cells[0].data, mesh.cells[0].data)
                    assert predicted(found) == NAMES["target_fields"]
                    assert found.point_data["stress"].shape == (len(mesh.points),)
                    assert found.point_data["displacement"].shape == (len(mesh.points), 3)
                    assert np.isfinite(numbers([found])).all()
                # The meshes of the caller stay as they were.
                assert set(meshes[0].point_data) == {"load", "stress", "displacement"}


def test_files_paths_and_objects_are_the_same(folder):
    paths = [folder / f"run_{i}.vtu" for i in range(6)]
    expected = numbers(small().fit(ragged()).predict(ragged()))
    for source in (str(folder / "run_*.vtu"), paths, [str(path) for path in paths], np.array(list(map(str, paths)))):
        model = small().fit(source)
        np.testing.assert_array_equal(numbers(model.predict(source)), expected)
    assert len(model.predict(paths[2])) == len(model.predict(str(paths[2]))) == 1
    np.testing.assert_array_equal(numbers(model.predict(ragged()[2])), numbers(model.predict(paths[2])))


def test_predictions_and_scores_take_the_fields_of_the_fit(subtests):
    """Names that are set later hold for the next fit, as every parameter does."""
    for changes in [{"input_fields": ["stress"]}, {"target_fields": ["load"]}]:
        for make in [small, lambda **params: EnsembleRegressor(small(**params), n_members=1)]:
            with subtests.test(changes=changes, make=make):
                model = make().fit(ragged())
                expected, score = numbers(model.predict(ragged())), model.score(ragged())
                prefix = "" if hasattr(model, "input_fields") else "estimator__"
                model.set_params(**{prefix + name: value for name, value in changes.items()})
                np.testing.assert_allclose(numbers(model.predict(ragged())), expected, rtol=1e-12)
                assert [model.score(ragged()), model.score(ragged(), ragged())] == pytest.approx([score] * 2, rel=1e-12)
                assert predicted(model.predict(ragged())[0]) == NAMES["target_fields"]


def test_fields_of_the_fit_outlive_a_model_file(tmp_path):
    model = small().fit(ragged())
    expected = numbers(model.predict(ragged()))
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop").set_params(input_fields=["stress"])
    np.testing.assert_array_equal(numbers(loaded.predict(ragged())), expected)
    with pytest.raises(FieldDataError, match=r"input_fields was \('load',\) and is \('stress',\)"):
        loaded.set_params(warm_start=True).fit(ragged())


def test_a_score_reads_each_file_once(folder, monkeypatch):
    model, read = small().fit(ragged()), []
    parse = skop.data._mesh_files._read_file
    monkeypatch.setattr(skop.data._mesh_files, "_read_file", lambda path: read.append(path.name) or parse(path))
    assert model.score(str(folder / "run_*.vtu")) == pytest.approx(model.score(ragged()))
    assert read == [f"run_{i}.vtu" for i in range(6)]


def test_inputs_need_no_targets_at_prediction():
    model = small().fit(ragged())
    bare = [meshio.Mesh(mesh.points, mesh.cells, point_data={"load": mesh.point_data["load"]}) for mesh in ragged()]
    np.testing.assert_array_equal(numbers(model.predict(bare)), numbers(model.predict(ragged())))


def test_geometry_alone():
    model = small(input_fields=None, target_fields=["stress"]).fit(ragged())
    assert model.spec_.n_fields == 0
    assert predicted(model.predict(ragged())[0]) == ["stress"]
    same_geometry = small(input_fields=None, target_fields=["stress"]).fit(shared()).predict(shared())
    np.testing.assert_array_equal(same_geometry[0].point_data["stress"], same_geometry[1].point_data["stress"])


def test_scalars_of_meshes(subtests):
    for make in [ragged, shared]:
        for input_fields in [None, ["load"]]:
            with subtests.test(make=make, input_fields=input_fields):
                y = np.arange(6.0)
                model = small(input_fields=input_fields, target_fields=None).fit(make(), y)
                assert model.predict(make()).shape == (6,)
                truth, found = y, model.predict(make())
                expected = 1 - np.linalg.norm(found - truth) / np.linalg.norm(truth)
                assert model.score(make(), y) == pytest.approx(expected, rel=1e-6)
                assert small(target_fields=None).fit(make(), np.stack([y, y], 1)).predict(make()).shape == (6, 2)


def test_cell_data_is_carried_to_points_where_asked_for():
    names = {"input_fields": ["pressure"], "target_fields": ["stress"]}
    with pytest.raises(FieldDataError, match="to_points"):
        small(**names).fit(ragged())
    model = small(**names, cell_data="to_points").fit(ragged())
    assert np.isfinite(numbers(model.predict(ragged()))).all()


# ---------------------------------------------------------------------- cell data as cells
CELLS = {"input_fields": ["load", "pressure"], "target_fields": ["flux"], "cell_data": "cells"}


def on_cells(n_samples=6):
    """Meshes with a target on triangles, an input on points and one on triangles, and lines on their boundary."""
    meshes = []
    for mesh in ragged(n_samples):
        triangles = mesh.cells[0].data
        load = mesh.point_data["load"][triangles].mean(axis=1)
        pressure = np.where(load > load.mean(), 3.0, 1.0)
        cell_data = {"pressure": [np.zeros(1), pressure], "flux": [np.full(1, np.nan), load * pressure]}
        cells = [("line", triangles[:1, :2]), ("triangle", triangles)]
        meshes.append(meshio.Mesh(mesh.points, cells, {"load": mesh.point_data["load"]}, cell_data))
    return meshes


def fluxes(meshes):
    return np.concatenate([mesh.cell_data["flux"][1] for mesh in meshes])


def test_cell_data_as_cells(tmp_path):
    model = small(**CELLS).fit(on_cells())
    found = model.predict(on_cells())
    for mesh, true in zip(found, on_cells(), strict=True):
        assert np.isnan(mesh.cell_data["flux"][0]).all()
        np.testing.assert_array_equal(mesh.cell_data["flux_true"][1], true.cell_data["flux"][1])
        np.testing.assert_array_equal(mesh.cell_data["pressure"][1], true.cell_data["pressure"][1])
        assert "flux" not in mesh.point_data
    # The same as a fit on the centres by hand, and the same score.
    samples = read_meshes(on_cells(), ["load", "pressure", "flux"], cell_data="cells")
    X, y = samples.select(["load", "pressure"]), samples.select("flux")
    by_hand = small(input_fields=None, target_fields=None).fit(X, y)
    np.testing.assert_array_equal(fluxes(found), by_hand.predict(X).values[:, 0])
    # Matrix products of other sizes may round in other ways.
    np.testing.assert_allclose(by_hand.predict(X[2:4]).values[:, 0], fluxes(found[2:4]), rtol=2e-6)
    assert model.score(on_cells()) == model.score(on_cells(), on_cells()) == by_hand.score(X, y)
    # The truth beside the meshes has a row for each cell, or for each that is used.
    arrays = [np.concatenate(mesh.cell_data["flux"]) for mesh in on_cells()]
    assert model.score(on_cells(), arrays) == model.score(on_cells())
    assert np.isfinite(cross_val_score(small(**CELLS), on_cells(), cv=2, error_score="raise")).all()
    # What is read is decided by the fit, in a loaded model too.
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop").set_params(cell_data="to_points")
    np.testing.assert_array_equal(fluxes(loaded.predict(on_cells())), fluxes(found))


def test_arrays_beside_cells_and_ensembles():
    arrays = [np.concatenate(mesh.cell_data["flux"]) for mesh in on_cells()]
    of_arrays = small(**(CELLS | {"target_fields": None})).fit(on_cells(), arrays)
    found = of_arrays.predict(on_cells())
    assert [len(item) for item in found] == [len(item) for item in arrays]
    assert all(np.isnan(item[0]) and np.isfinite(item[1:]).all() for item in found)
    ensemble = EnsembleRegressor(small(**CELLS), n_members=2, random_state=0).fit(on_cells())
    mean, spread = ensemble.predict(on_cells(), return_std=True)
    members = [fluxes(member.predict(on_cells())) for member in ensemble.estimators_]
    np.testing.assert_allclose(fluxes(mean), np.mean(members, axis=0), rtol=1e-6)
    for meshes in (mean, spread):
        values = np.concatenate([mesh.cell_data["flux_spread"][1] for mesh in meshes])
        np.testing.assert_allclose(values, np.std(members, axis=0), rtol=1e-3, atol=1e-6)


# ---------------------------------------------------------------------- scores, points elsewhere, files
def test_score_is_that_of_the_named_fields():
    meshes = ragged()
    model = small().fit(meshes)
    errors = []
    for found, mesh in zip(model.predict(meshes), meshes, strict=True):
        pairs = [(found.point_data[name], mesh.point_data[name]) for name in NAMES["target_fields"]]
        error = sum(np.sum((a - b) ** 2) for a, b in pairs)
        errors.append(np.sqrt(error / sum(np.sum(b**2) for _, b in pairs)))
    assert model.score_physical(meshes) == pytest.approx(1 - np.mean(errors), rel=1e-6)
    assert model.score(meshes, meshes) == model.score(meshes)
    scores = model.score_channels(meshes)
    assert list(scores) == ["stress", "displacement_0", "displacement_1", "displacement_2"]
    assert np.isfinite(list(scores.values())).all()
    weights = np.arange(1.0, 7)
    weighted = model.score_physical(meshes, sample_weight=weights)
    assert weighted == pytest.approx(1 - np.average(errors, weights=weights))


def test_points_elsewhere_come_as_a_fieldset():
    model = small().fit(ragged())
    found = model.predict(ragged(), coords=np.array([[0.3, 0.4], [0.5, 0.9]]))
    assert isinstance(found, FieldSet)
    assert found.shape == (6, 2, 4)
    assert found.channel_names == ("stress", "displacement_0", "displacement_1", "displacement_2")
    own = [mesh.points[:, :2] for mesh in ragged()]
    stress = np.concatenate([mesh.point_data["stress"] for mesh in model.predict(ragged())])
    np.testing.assert_allclose(model.predict(ragged(), coords=own).values[:, 0], stress, rtol=1e-5)


# ---------------------------------------------------------------------- points that no cell uses
def with_far_points(meshes, value=np.nan):
    """The same meshes with one or two points far away behind their own, in no cell; every third mesh has none."""
    changed = []
    for i, mesh in enumerate(meshes):
        count = i % 3
        points = np.concatenate([mesh.points, np.full((count, 3), 100.0 + i)])
        data = {
            name: np.concatenate([values, np.full((count, *values.shape[1:]), value)])
            for name, values in mesh.point_data.items()
        }
        changed.append(meshio.Mesh(points, mesh.cells, data, mesh.cell_data))
    return changed


def own_rows(found, mesh):
    """Predicted fields at the points of the mesh without far points; the others must be NaN."""
    for name in NAMES["target_fields"]:
        assert np.isnan(found.point_data[name][len(mesh.points) :]).all()
    return numbers([meshio.Mesh(mesh.points, [], {k: v[: len(mesh.points)] for k, v in found.point_data.items()})])


def test_points_without_cells_change_nothing(subtests):
    for make in [ragged, shared]:
        for value in [np.nan, 7.0]:
            with subtests.test(make=make, value=value):
                far = with_far_points(make(), value)
                clean = small(base=None).fit(make())
                with pytest.warns(SkopWarning) as caught:
                    model = small(base=None).fit(far)
                assert [str(item.message).split(" (")[0] for item in caught] == ["6 points in 4 of 6 meshes"]
                assert caught[0].filename == __file__
                with pytest.warns(SkopWarning, match="6 points in 4 of 6"):
                    found = model.predict(far)
                for mesh, whole, expected in zip(found, make(), clean.predict(make()), strict=True):
                    np.testing.assert_array_equal(own_rows(mesh, whole), numbers([expected]))
                np.testing.assert_array_equal(numbers(model.predict(make())), numbers(clean.predict(make())))


@pytest.mark.filterwarnings("ignore:6 points in 4 of 6 meshes")
def test_scores_do_not_see_points_without_cells(tmp_path):
    far = with_far_points(ragged())
    model = small().fit(far, far)
    score = small().fit(ragged()).score(ragged())
    for i, mesh in enumerate(far):
        mesh.write(tmp_path / f"far_{i}.vtu")
    for X, y in (
        (far, None),
        (far, far),
        (str(tmp_path / "*.vtu"), None),
        (far, str(tmp_path / "*.vtu")),
        (far, ragged()),
    ):
        assert model.score(X, y) == score
    assert model.score_channels(far) == small().fit(ragged()).score_channels(ragged())
    # Meshes that were predicted are targets again, with a warning that they are not the truth.
    with pytest.warns(SkopWarning, match="fields 'stress' and 'displacement' are predictions"):
        assert model.score(far, model.predict(far)) == 1
    scalars = small(target_fields=None).fit(far, np.arange(6.0))
    np.testing.assert_array_equal(
        scalars.predict(far), small(target_fields=None).fit(ragged(), np.arange(6.0)).predict(ragged())
    )


@pytest.mark.filterwarnings("ignore:.* belong to no cell")
@pytest.mark.parametrize("make", [ragged, shared])
@pytest.mark.parametrize("n_channels", [0, 2])
def test_arrays_beside_meshes_have_a_row_for_each_point(make, n_channels):
    """Results that came without the mesh, such as those of an Abaqus run with a reference point."""
    points = [np.concatenate([mesh.points, np.full((i % 2 + 1, 3), 9.0)]) for i, mesh in enumerate(make())]
    far = [
        meshio.Mesh(
            places, mesh.cells, {"load": np.append(mesh.point_data["load"], [3.0] * (len(places) - len(mesh.points)))}
        )
        for places, mesh in zip(points, make(), strict=True)
    ]

    def truth(meshes):
        values = [mesh.points[:, 0] + mesh.point_data["load"] for mesh in meshes]
        return values if n_channels == 0 else [np.stack([item] * n_channels, axis=1) for item in values]

    model = small(target_fields=None).fit(far, truth(far))
    clean = small(target_fields=None).fit(make(), truth(make()))
    for found, expected, mesh in zip(model.predict(far), clean.predict(make()), far, strict=True):
        assert len(found) == len(mesh.points)
        np.testing.assert_array_equal(found[: len(expected)], expected)
        assert np.isnan(found[len(expected) :]).all()
    assert model.score(far, truth(far)) == clean.score(make(), truth(make()))
    # Fields that carry their own points keep these.
    pairs = [
        (mesh.points[:, :2], values.reshape(len(values), -1))
        for mesh, values in zip(make(), truth(make()), strict=True)
    ]
    assert model.score(far, pairs) == clean.score(make(), pairs)
    of_pairs = small(target_fields=None).fit(far, pairs).predict(far)
    np.testing.assert_array_equal([len(found[1]) for found in of_pairs], [len(mesh.points) for mesh in make()])
    # Values of the used points alone, as read_meshes gives them, are legal too.
    assert model.score(far, truth(make())) == clean.score(make(), truth(make()))


@pytest.mark.filterwarnings("ignore:.* belong to no cell")
def test_one_array_beside_meshes():
    far = [
        meshio.Mesh(
            np.insert(mesh.points, 0, 9, axis=0),
            [("triangle", mesh.cells[0].data + 1)],
            {"load": np.append(0, mesh.point_data["load"])},
        )
        for mesh in shared()
    ]
    y = np.stack([mesh.point_data["load"] for mesh in far])
    model = small(target_fields=None).fit(far, y)
    found = model.predict(far)
    assert found.shape == y.shape
    assert np.isnan(found[:, 0]).all()
    np.testing.assert_array_equal(found[:, 1:], small(target_fields=None).fit(shared(), y[:, 1:]).predict(shared()))


@pytest.mark.filterwarnings("ignore:.* belong to no cell")
def test_other_estimators_and_points_without_cells():
    far = with_far_points(shared())
    mean, spread = EnsembleRegressor(small(), n_members=2, random_state=0).fit(far).predict(far, return_std=True)
    for mesh, alone, whole in zip(mean, spread, shared(), strict=True):
        assert np.isfinite(own_rows(mesh, whole)).all()
        np.testing.assert_array_equal(np.isfinite(alone.point_data["stress_spread"]), np.arange(len(mesh.points)) < 16)
    # Far points that differ between the meshes leave the others shared.
    model = PODRegressor(**NAMES).fit(with_far_points(shared(12)))
    assert model.score(with_far_points(shared(12))) == PODRegressor(**NAMES).fit(shared(12)).score(shared(12))
    assert np.isfinite(cross_val_score(small(), far, far, cv=2, error_score="raise")).all()


# ---------------------------------------------------------------------- scikit-learn's tools and other estimators
def test_pod_on_meshes_that_share_points():
    model = PODRegressor(**NAMES).fit(shared(12))
    prediction = model.predict(shared(12))
    assert predicted(prediction[0]) == NAMES["target_fields"]
    # Targets are linear in the load, of which 12 samples show most.
    assert model.score_physical(shared(12)) > 0.95
    assert model.score(shared(12)) > 0.93
    assert set(model.score_channels(shared(12))) >= {"stress", "displacement_2"}
    mean, spread = model.predict(shared(12)[:2], return_std=True)
    np.testing.assert_array_equal(mean[0].point_data["stress_spread"], spread[0].point_data["stress_spread"])
    assert (spread[0].point_data["stress_spread"] > 0).all()
    with pytest.raises(FieldDataError, match="same points in every sample"):
        PODRegressor(grid=None, **NAMES).fit(ragged())
    with pytest.raises(FieldDataError, match="points"):
        model.predict([make_mesh(4, stretch=2.0)])


def test_pod_on_meshes_of_other_nodes():
    model = PODRegressor(**NAMES).fit(ragged(12))
    mean, spread = model.predict(ragged(3), return_std=True)
    for mesh, found, size in zip(ragged(3), mean, spread, strict=True):
        np.testing.assert_array_equal(found.cells[0].data, mesh.cells[0].data)
        np.testing.assert_array_equal(found.points, mesh.points)
        np.testing.assert_array_equal(found.point_data["stress_spread"], size.point_data["stress_spread"])
        assert found.point_data["displacement"].shape == mesh.points.shape
    assert model.score_physical(ragged(12)) > 0.8


@pytest.mark.parametrize("make", [ragged, shared])
def test_ensembles_of_mesh_models(make):
    model = EnsembleRegressor(small(), n_members=2, random_state=0).fit(make())
    mean, spread = model.predict(make(), return_std=True)
    members = [member.predict(make()) for member in model.estimators_]
    for i, mesh in enumerate(mean):
        both = np.stack([member[i].point_data["stress"] for member in members])
        np.testing.assert_allclose(mesh.point_data["stress"], both.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(spread[i].point_data["stress_spread"], both.std(axis=0), rtol=1e-3, atol=1e-6)
    assert np.isfinite(model.score(make()))
    assert np.isfinite(model.score(make(), make()))
    assert isinstance(model.predict(make(), coords=np.array([[0.5, 0.5]])), FieldSet)


# ---------------------------------------------------------------------- refusals
def without(mesh, name):
    data = {key: value for key, value in mesh.point_data.items() if key != name}
    return meshio.Mesh(mesh.points, mesh.cells, point_data=data)


def with_nan(mesh, name):
    values = np.array(mesh.point_data[name])
    values[5] = np.nan
    return meshio.Mesh(mesh.points, mesh.cells, point_data=dict(mesh.point_data) | {name: values})


def with_nan_point(mesh):
    points = mesh.points.copy()
    points[7, 1] = np.nan
    return meshio.Mesh(points, mesh.cells, point_data=mesh.point_data)


REFUSED_BY_FIT = {
    "no target fields": (ragged(), None, {"target_fields": None}, ["target_fields"]),
    "an unknown input": ([*ragged()[:2], without(ragged()[2], "load")], None, {}, ["mesh 2", "'load'", "'stress'"]),
    "an unknown target": (ragged(), None, {"target_fields": ["strain"]}, ["mesh 0", "'strain'", "'stress'"]),
    "NaN in an input": ([ragged()[0], with_nan(ragged()[1], "load")], None, {}, ["'load' of mesh 1", "NaN", "point 5"]),
    "NaN in a target": (
        [ragged()[0], with_nan(ragged()[1], "stress")],
        None,
        {},
        ["'stress' of mesh 1", "NaN", "point 5"],
    ),
    "NaN in the points": ([ragged()[0], with_nan_point(ragged()[1])], None, {}, ["points of mesh 1", "NaN", "point 7"]),
    "another number of targets": (ragged(), ragged()[:5], {}, ["X has 6 samples", "y has 5"]),
    "targets on other points, of which some are drawn": (
        shared(2),
        [make_mesh(4), make_mesh(4, stretch=2.0)],
        {"training__subsample_points": 5},
        ["other points", "training__subsample_points=5", "set it to None"],
    ),
    "targets in another order": (ragged(3), ragged(3)[::-1], {}, ["sample 0", "sample 2", "one order"]),
    "meshes and arrays": ([ragged()[0], np.zeros((3, 2))], None, {}, ["item 1", "ndarray"]),
    "no file": ("/nowhere/run_*.vtu", None, {}, ["/nowhere"]),
    "too few scalars": (ragged(), np.arange(5.0), {}, ["X has 6 samples", "y has 5"]),
    "an array of fields": (ragged(), np.zeros((6, 9, 1)), {}, ["(6, 9, 1)", "list of arrays"]),
    "a grid": (ragged(), None, {"geometry": "grid"}, ["geometry='grid'"]),
    "a bent grid": (ragged(), None, {"geometry": "structured"}, ["geometry='structured'"]),
    "a scale for each point": (ragged(), None, {"scaling__targets": "point"}, ["'point'", "'channel'"]),
}


def test_fit_refuses(subtests):
    for name, (X, y, params, words) in REFUSED_BY_FIT.items():
        with subtests.test(name):
            with pytest.raises(FieldDataError) as error:
                small(**params).fit(X, y)
            for word in words:
                assert word in str(error.value)


def cut_off(folder):
    """A file whose end is missing, among whole ones."""
    path = folder / "run_2.vtu"
    path.write_bytes(path.read_bytes()[:-200])
    return path


def wide():
    return meshio.Mesh(make_mesh().points, [], point_data={"load": np.ones((16, 2))})


REFUSED_BY_PREDICT = {
    "the field is missing": (lambda folder: [without(ragged()[0], "load")], ["mesh 0", "'load'"]),
    "one file was cut off": (lambda folder: [cut_off(folder)], ["run_2.vtu"]),
    "a file was cut off": (lambda folder: cut_off(folder) and str(folder / "*.vtu"), ["run_2.vtu"]),
    "NaN": (lambda folder: [ragged()[1], with_nan(ragged()[0], "load")], ["'load' of mesh 1", "NaN", "point 5"]),
    "no points": (lambda folder: [meshio.Mesh(np.zeros((0, 3)), [], point_data={"load": np.zeros(0)})], ["no points"]),
    "other components": (lambda folder: [wide()], ["2 channels", "1"]),
    "nothing": (lambda folder: [], []),
    "no file": (lambda folder: folder / "missing.vtu", ["missing.vtu"]),
    "a folder": (lambda folder: folder, ["folder", "*.vtu"]),
    "a table": (lambda folder: np.zeros((2, 3)), ["table"]),
    "points alone": (lambda folder: [make_mesh().points[:, :2]], ["0 channels", "1"]),
    "points of another dimension": (lambda folder: [(make_mesh().points, np.ones((16, 1)))], ["3 space dimensions"]),
    "meshes and paths": (lambda folder: [make_mesh(), str(folder / "run_1.vtu")], ["meshes only, or paths only"]),
}


def test_predict_refuses(folder, subtests):
    for name, (make, words) in REFUSED_BY_PREDICT.items():
        with subtests.test(name):
            with pytest.raises(ValueError, match=r"\w") as error:
                small().fit(ragged()).predict(make(folder))
            for word in words:
                assert word in str(error.value)


def test_arrays_and_points_of_the_plane_are_legal():
    model = small().fit(ragged())
    plane = meshio.Mesh(make_mesh().points[:, :2], [], point_data={"load": make_mesh().point_data["load"]})
    np.testing.assert_allclose(numbers(model.predict([plane])), numbers(model.predict([make_mesh()])), rtol=1e-6)
    pairs = [(make_mesh().points[:, :2], make_mesh().point_data["load"][:, None])]
    assert model.predict(pairs).values.shape == (1, 16, 4)


def test_a_mesh_off_the_plane_is_refused():
    tilted = make_mesh()
    tilted.points[:, 2] += tilted.points[:, 0]
    with pytest.raises(FieldDataError, match="plane"):
        small().fit(ragged()).predict([tilted])


def test_meshes_for_a_model_of_arrays():
    X = np.random.default_rng(0).random((4, 5, 5, 1))
    with pytest.raises(FieldDataError, match="meshes"):
        small().fit(X, X).predict(ragged())


def test_fields_of_meshes_beside_a_table():
    """Read by hand, they come back as a FieldSet."""
    fields = read_meshes(shared(6), ["stress"]).select(["stress"])
    assert small(max_iter=1).fit(np.arange(12.0).reshape(6, 2), fields).predict(np.zeros((1, 2))).shape == (1, 16, 1)
