"""Meshes with tables of parameters: params=, columns of paths, parameters to fields on meshes, and names of scalars."""

import dataclasses
import pickle
import warnings

import meshio
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skop
from skop import (
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.data import TargetForm, _spec
from skop.exceptions import FieldDataError, SkopWarning
from skop.inspection import FieldErrorDisplay
from skop.metrics import neg_relative_l2_scorer, neg_root_mean_squared_scorer

pytestmark = pytest.mark.filterwarnings(
    "ignore:X has points in the box", "ignore:the training loss", "ignore:latents=.* has no effect"
)
N = 6
#: Rows of the design, in the order of the runs.
TABLE = pd.DataFrame({"load": [1.0, 2.0, 0.5, 3.0, 1.5, 2.5], "t": [0.1, 0.4, 0.2, 0.3, 0.6, 0.5]})
ORDER = [3, 0, 5, 1, 4, 2]


def small(**params):
    """LaMO, as small as it can be."""
    tiny = {"width": 8, "depth": 1, "latents__n_tokens": 4, "batch_size": 4, "max_iter": 1}
    return LaMORegressor().set_params(**(tiny | {"random_state": 0, "target_fields": ["stress"]} | params))


def plate(number, side=3, stretch=1.0):
    """Triangles in a plane, with a stress that follows from the parameters of a run."""
    x, y = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side), indexing="ij")
    points = np.stack([stretch * (x + 0.1 * y).ravel(), (y + 0.1 * x**2).ravel(), np.full(side**2, 0.5)], axis=1)
    corner = np.arange(side**2).reshape(side, side)[:-1, :-1].ravel()
    halves = ([corner, corner + side, corner + side + 1], [corner, corner + side + 1, corner + 1])
    triangles = np.concatenate([np.stack(half, axis=1) for half in halves])
    load, t = TABLE.iloc[number]
    stress = load * (1 + points[:, 0]) + t
    data = {"stress": stress, "frames": np.stack([stress, 2 * stress], axis=1)}
    return meshio.Mesh(points, [("triangle", triangles)], point_data=data)


def own():
    """Each run on its own mesh."""
    return [plate(i, 3 + i % 2, 1 + 0.1 * i) for i in range(N)]


def shared():
    """All runs on one mesh."""
    return [plate(i) for i in range(N)]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Folders with files of both kinds, below the working directory."""
    monkeypatch.chdir(tmp_path)
    for folder, meshes in (("own", own()), ("shared", shared())):
        (tmp_path / folder).mkdir()
        for i, mesh in enumerate(meshes):
            mesh.write(tmp_path / folder / f"run_{i + 5}.vtu")
    return tmp_path


def names(folder="own", order=range(N)):
    """Paths of the files."""
    return [f"{folder}/run_{i + 5}.vtu" for i in order]


def stress(meshes):
    """Predicted stresses one after the other."""
    return np.concatenate([mesh.point_data["stress"] for mesh in meshes])


# ---------------------------------------------------------------------- meshes and parameters
def test_every_way_to_pass_meshes_with_parameters_is_the_same(runs):
    fields = FieldSet([mesh.points[:, :2] for mesh in own()], params=TABLE.to_numpy())
    truth = FieldSet([mesh.points[:, :2] for mesh in own()], [mesh.point_data["stress"][:, None] for mesh in own()])
    by_hand = small().fit(fields, truth)
    expected = by_hand.predict(fields).values[:, 0]
    moved = TABLE.assign(file=names(order=range(N))).iloc[ORDER]
    frame = TABLE.assign(file=names())
    ways = [
        (("own/*.vtu",), {"params": moved}),
        (("own/*.vtu",), {"params": moved.set_index("file")}),
        ((own(),), {"params": TABLE}),
        ((frame,), {}),
        ((frame.to_numpy(dtype=object),), {}),
    ]
    for given, options in ways:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SkopWarning)
            model = small().fit(*given, **options)
        np.testing.assert_array_equal(stress(model.predict(*given, **options)), expected)
        assert model.score(*given, **options) == by_hand.score(fields, truth)
    # Targets in the other half of a pair, as paths or meshes.
    for y in (names(), frame[["file"]]):
        assert small().fit(frame, y).score(frame, y) == by_hand.score(fields, truth)


def test_fields_of_any_form_take_parameters():
    points = np.random.default_rng(0).random((5, 2))
    fields, params = np.random.default_rng(1).random((N, 5, 1)), TABLE.to_numpy()
    expected = small(target_fields=None).fit(FieldSet(points, fields, params=params), fields)
    model = small(target_fields=None).fit((points, fields), fields, params=TABLE)
    found = model.predict((points, fields), params=TABLE)
    np.testing.assert_array_equal(found, expected.predict(FieldSet(points, fields, params=params)))
    assert model.spec_.param_names == ("load", "t")


def test_columns_are_those_of_the_fit():
    model = small().fit(own(), params=TABLE)
    for table, words in (
        (TABLE[["t", "load"]], "in another order"),
        (TABLE[["load"]], "lacks t"),
        (TABLE.rename(columns={"t": "h"}), "lacks t and it has also h"),
        (None, r"fitted with 2 \(load, t\); pass params"),
        (TABLE.iloc[:2], "2 rows, but there are 6 runs"),
    ):
        with pytest.raises(FieldDataError, match=words):
            model.predict(own(), params=table)
    with pytest.warns(SkopWarning, match="no column names"):
        found = model.predict(own(), params=TABLE.to_numpy())
    np.testing.assert_array_equal(stress(found), stress(model.predict(own(), params=TABLE)))


@pytest.mark.parametrize("y", ["meshes", "values"])
def test_named_sets_of_the_shared_mesh_are_in_predictions_and_in_the_file(tmp_path, y):
    points, cells = (
        np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]),
        [("line", [[0, 1]]), ("triangle", [[0, 1, 2], [0, 2, 3]])],
    )
    sets = {"point_sets": {"fixed": np.array([0, 3])}, "cell_sets": {"inlet": [np.array([0]), None]}}
    sets["field_data"] = {"inlet": np.array([5, 1])}
    table = np.random.default_rng(0).random((12, 2))
    meshes = [meshio.Mesh(points, cells, {"u": row @ points.T}, **sets) for row in table]
    values = np.stack([mesh.point_data["u"] for mesh in meshes])
    model = PODRegressor(target_fields=["u"]).fit(table, meshes if y == "meshes" else (meshes[0], values))
    model.save(tmp_path / "model.skop")
    for fitted in (model, skop.load(tmp_path / "model.skop")):
        (found,) = fitted.predict(table[:1])
        assert found.point_sets["fixed"].tolist() == [0, 3]
        assert [part.tolist() for part in found.cell_sets["inlet"]] == [[0], []]
        assert found.field_data["inlet"].tolist() == [5, 1]


def test_one_mesh_for_many_rows(runs):
    model = small().fit(own(), params=TABLE)
    expected = stress(model.predict([own()[0]] * N, params=TABLE))
    for mesh in (own()[0], names()[0]):
        np.testing.assert_array_equal(stress(model.predict(TABLE, coords=mesh)), expected)
    # Beside params the rows may be all runs, of which one is asked for.
    whole = TABLE.set_axis(names())
    # One sample alone is rounded otherwise than among others.
    np.testing.assert_allclose(
        stress(model.predict(names()[2], params=whole)), stress(model.predict(names(), params=whole)[2:3]), rtol=1e-5
    )
    for mesh in (own()[0], names()[0]):
        with pytest.raises(FieldDataError, match=r"6 rows, but there is 1 run .*predict\(params, coords=mesh\)"):
            model.predict(mesh, params=TABLE)
    # A pattern was meant to match one file for each row.
    with pytest.raises(FieldDataError, match="there is 1 run"):
        model.predict(TABLE, coords="own/run_5*.vtu")


REFUSED = {
    "params beside a table": (lambda: (TABLE, TABLE["t"]), {"params": TABLE}, "add its columns to X"),
    "params beside columns": (lambda: (TABLE.assign(file=names()),), {"params": TABLE}, "pass one"),
    "params beside params": (
        lambda: (FieldSet(np.zeros((4, 1)), np.ones((N, 4, 1)), params=TABLE), np.ones((N, 4, 1))),
        {"params": TABLE},
        "FieldSet with 2 params",
    ),
    "names beside meshes": (lambda: (own(),), {"params": TABLE.assign(file=names())}, "pass paths as X"),
    "another order of labels": (
        lambda: (pd.Series(names()),),
        {"params": TABLE.iloc[ORDER]},
        r"params.loc\[X.index\]",
    ),
    "other runs in X and y": (lambda: (names(), names(order=ORDER)), {}, "same runs in different order"),
    "weights of rows that move": (
        lambda: ("own/*.vtu", None, np.arange(1.0, N + 1)),
        {"params": TABLE.assign(file=names()).iloc[ORDER]},
        "in which sample_weight or groups must be",
    ),
    "a table and one mesh": (lambda: (TABLE, names()[0]), {}, r"y=\(mesh, values\)"),
    "a table and too few meshes": (lambda: (TABLE, names()[:4]), {}, "6 rows, but there are 4 runs"),
    "values of another mesh": (lambda: (TABLE, (names()[0], np.ones((N, 7)))), {}, r"\(n, 9\) or \(n, 9, channels\)"),
    "values on a mesh as X": (lambda: ((names()[0], np.ones((N, 9))), np.ones(N)), {}, "is a form of y"),
    "several meshes with values": (lambda: (TABLE, ("own/*.vtu", np.ones((N, 9)))), {}, "with 6 meshes"),
}


def test_refused(runs, subtests):
    for name, (make, options, words) in REFUSED.items():
        with subtests.test(name), pytest.raises(FieldDataError, match=words):
            small().fit(*make(), **options)


def test_a_series_beside_a_pattern_is_matched_by_name(runs):
    peaks = TABLE["load"].set_axis(names())
    model = small(target_fields=None).fit("own/*.vtu", peaks.iloc[ORDER])
    expected = small(target_fields=None).fit(names(), TABLE["load"].to_numpy())
    np.testing.assert_array_equal(model.predict(names()), expected.predict(names()))
    assert model.score("own/*.vtu", peaks.iloc[ORDER]) == expected.score(names(), TABLE["load"])
    # An index of numbers that are those in the file names, as after a selection.
    numbers = TABLE["load"].set_axis(np.arange(N) + 5).iloc[ORDER]
    assert model.score("own/*.vtu", numbers) == expected.score(names(), TABLE["load"])
    with pytest.raises(FieldDataError, match="neither file names nor"):
        model.score("own/*.vtu", TABLE["load"].set_axis(np.arange(N) + 40))


@pytest.mark.parametrize("what", ["groups", "sample_weight"])
def test_labels_beside_a_pattern_are_in_the_order_of_the_files(runs, what):
    values = TABLE["load"].abs().set_axis(names())
    small().fit("own/*.vtu", **{what: values})
    with pytest.raises(FieldDataError, match=f"row 0 of {what} is .* by its index, but file 0 of X is "):
        small().fit("own/*.vtu", **{what: values.iloc[ORDER]})
    numbers = values.set_axis(np.arange(N) + 5)
    small().fit("own/*.vtu", **{what: numbers})
    with pytest.raises(FieldDataError, match=f"row 0 of {what} is [0-9]* by its index"):
        small().fit("own/*.vtu", **{what: numbers.iloc[ORDER]})
    # Rows that were shuffled, and names that are written otherwise.
    for index in (np.arange(N), [f"{number + 5:03d}" for number in range(N)]):
        with pytest.raises(FieldDataError, match=f"row 0 of {what} is [0-9]* by its index"):
            small().fit("own/*.vtu", **{what: values.set_axis(index).iloc[ORDER]})
    # Numbers that are in no names tell nothing, and those of a list of files are in its order.
    small().fit("own/*.vtu", **{what: numbers.iloc[ORDER].set_axis(np.arange(N) + 40)})
    files = [names()[number] for number in ORDER]
    for index in (np.arange(N), np.arange(N) + 5):
        small().fit(files, **{what: values.set_axis(index)})
    with pytest.raises(FieldDataError, match=f"row 0 of {what} is .* by its index"):
        small().fit(files, **{what: values})
    small().fit("own/*.vtu", **{what: values.iloc[ORDER].to_numpy()})


def test_tools_of_scikit_learn_split_a_column_of_paths(runs):
    frame = TABLE.assign(file=names())
    train, test = train_test_split(frame, random_state=0)
    model = small().fit(train)
    assert np.isfinite(model.score(test))
    rows = np.arange(N)
    halves = [(rows[:3], rows[3:]), (rows[3:], rows[:3])]
    scores = cross_val_score(small(), frame, cv=halves, error_score="raise")
    expected = [small().fit(frame.iloc[a]).score(frame.iloc[b]) for a, b in halves]
    np.testing.assert_array_equal(scores, expected)
    grid, pipeline = {"lamoregressor__latents__n_tokens": [2, 4]}, make_pipeline("passthrough", small())
    search = GridSearchCV(pipeline, grid, cv=halves, error_score="raise").fit(frame)
    assert "stress_error" in search.predict(test)[0].point_data
    scores = cross_val_score(small(target_fields=None), frame, TABLE["load"], cv=halves, error_score="raise")
    assert np.isfinite(scores).all()


def test_one_mesh_for_many_rows_lends_no_results_of_its_own_run():
    """They would pass for the truth of each design."""
    on_shared = PODRegressor(target_fields=["stress"]).fit(TABLE, shared())
    for model, kept in (
        (on_shared, set()),
        (small().fit(own(), params=TABLE), set()),
        (small(input_fields=["frames"]).fit(own(), params=TABLE), {"frames"}),
    ):
        mesh = shared()[0] if model is on_shared else own()[0]
        for count in (1, 2):
            for one in model.predict(TABLE[:count], coords=mesh):
                assert set(one.point_data) == {"stress"} | kept
            for one in model.predict(TABLE[:count], coords=[mesh] * count):
                np.testing.assert_array_equal(one.point_data["stress_true"], mesh.point_data["stress"])
        # The caller's mesh keeps its fields.
        assert set(mesh.point_data) == {"stress", "frames"}


# ---------------------------------------------------------------------- parameters to fields on meshes
def test_parameters_to_fields_on_one_mesh(runs, tmp_path):
    truth = np.stack([mesh.point_data["stress"] for mesh in shared()])
    coords = shared()[0].points[:, :2]
    expected = small(target_fields=None).fit(TABLE, (coords, truth[..., None])).predict(TABLE)[1][..., 0]
    labelled = TABLE.iloc[ORDER].set_axis([names("shared")[i] for i in ORDER])
    for X, y in (
        (labelled, "shared/*.vtu"),
        (TABLE, names("shared")),
        (TABLE, shared()),
        (TABLE, pd.Series(names("shared"))),
        (TABLE, (names("shared")[0], truth)),
        (TABLE, (shared()[0], truth[..., None])),
    ):
        model = small().fit(X, y)
        found = model.predict(TABLE)
        if X is TABLE:
            np.testing.assert_array_equal([mesh.point_data["stress"] for mesh in found], expected)
        np.testing.assert_array_equal(found[0].cells[0].data, shared()[0].cells[0].data)
        np.testing.assert_array_equal(found[0].points, shared()[0].points)
        assert model.score(X, y) == pytest.approx(model.score(TABLE, truth[..., None]), rel=1e-6)
    model.save(tmp_path / "model.skop")
    for other in (skop.load(tmp_path / "model.skop"), pickle.loads(pickle.dumps(model))):
        again = other.predict(TABLE)[2]
        np.testing.assert_array_equal(again.point_data["stress"], found[2].point_data["stress"])
        np.testing.assert_array_equal(again.points, found[2].points)
        assert again.cells[0].type == "triangle"
        assert other.mesh_.point_data == {}
    with pytest.warns(SkopWarning, match=r"natural order.*Give X an index"):
        small().fit(TABLE, "shared/*.vtu")


def test_values_on_a_mesh_get_names_and_leave_unused_points_out():
    mesh = shared()[0]
    far = meshio.Mesh(np.insert(mesh.points, 0, 9.0, axis=0), [("triangle", mesh.cells[0].data + 1)])
    values = np.stack([item.point_data["frames"] for item in shared()])
    padded = np.insert(values, 0, np.nan, axis=1)
    with pytest.warns(SkopWarning, match="belong to no cell"):
        found = small(target_fields=["a", "b"]).fit(TABLE, (far, padded)).predict(TABLE)[1]
    clean = small(target_fields=None).fit(TABLE, (mesh, values)).predict(TABLE)[1].point_data["prediction"]
    assert np.isnan(found.point_data["a"][0])
    np.testing.assert_array_equal(np.stack([found.point_data[name][1:] for name in "ab"], axis=1), clean)
    with pytest.raises(FieldDataError, match="names 3 fields"):
        small(target_fields=["a", "b", "c"]).fit(TABLE, (mesh, values))


def test_polyhedra_are_kept_in_model_files(tmp_path):
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = [[[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]]
    mesh = meshio.Mesh(points, [("polyhedron4", faces)])
    model = small(target_fields=None).fit(TABLE, (mesh, np.outer(TABLE["load"], [1.0, 2, 3, 4])))
    model.save(tmp_path / "model.skop")
    cells = skop.load(tmp_path / "model.skop").predict(TABLE)[0].cells
    assert [[list(face) for face in cell] for cell in cells[0].data] == faces


def test_parameters_to_fields_on_the_mesh_of_each_run(runs):
    expected = small().fit(own(), params=TABLE)
    labelled = TABLE.iloc[ORDER].set_axis([f"run_{i + 5}" for i in ORDER])
    model = small().fit(TABLE, names())
    for coords in (names(), own()):
        np.testing.assert_array_equal(
            stress(model.predict(TABLE, coords=coords)), stress(expected.predict(own(), params=TABLE))
        )
    assert model.score(TABLE, names()) == expected.score(own(), params=TABLE)
    assert small().fit(labelled, "own/*.vtu").spec_ == model.spec_
    assert model.score(labelled, "own/*.vtu") == pytest.approx(model.score(TABLE, names()), rel=1e-6)
    with pytest.raises(FieldDataError, match=r"predict\(X, coords=meshes\)"):
        model.predict(TABLE)


@pytest.mark.exhaustive
def test_cross_validation_of_parameters_to_meshes(runs):
    for y in (names("shared"), names(), pd.Series(names())):
        assert np.isfinite(cross_val_score(small(), TABLE, y, cv=2, error_score="raise")).all()


def test_cells_that_differ_on_the_same_points():
    meshes = shared()
    meshes[1] = meshio.Mesh(meshes[1].points, [("triangle", meshes[1].cells[0].data[::-1])], meshes[1].point_data)
    with pytest.warns(SkopWarning, match="not their cells"):
        model = small().fit(TABLE, meshes)
    assert model.predict(TABLE)[0].cells == []


# ---------------------------------------------------------------------- points of a prediction
def test_meshes_as_points_of_a_prediction(runs):
    fine = plate(0, side=5)
    fine.write("fine.vtu")
    model = small().fit(TABLE, shared())
    expected = model.predict(TABLE, coords=fine.points[:, :2]).values[..., 0]
    for coords in (fine, "fine.vtu", "fin*.vtu", ["fine.vtu"] * N, [fine] * N):
        found = model.predict(TABLE, coords=coords)
        np.testing.assert_allclose([mesh.point_data["stress"] for mesh in found], expected, rtol=1e-6)
        np.testing.assert_array_equal(found[0].cells[0].data, fine.cells[0].data)
    of_arrays = small(target_fields=None).fit(TABLE, (fine.points[:, :2], np.ones((N, 25, 1))))
    coords, values = of_arrays.predict(TABLE, coords="fine.vtu")
    assert (np.shape(coords), values.shape) == ((25, 2), (N, 25, 1))
    with pytest.raises(FieldDataError, match="2 meshes, but X has 6 samples"):
        model.predict(TABLE, coords=[fine, fine])


def test_points_of_a_plane_may_have_three_coordinates():
    model = small().fit(TABLE, shared())
    points = np.array([[0.3, 0.4, 0.5], [0.6, 0.2, 0.5]])
    expected = model.predict(TABLE, coords=points[:, :2]).values
    for coords in (points, points.tolist(), np.stack([points] * N), [points] * N, FieldSet(points[None])):
        if isinstance(coords, FieldSet):
            np.testing.assert_array_equal(model.predict(TABLE[:1], coords=coords).values, expected[:1])
        else:
            np.testing.assert_array_equal(model.predict(TABLE, coords=coords).values, expected)
    with pytest.raises(FieldDataError, match=r"coordinate 2 of coords runs from 0\.5 to 0\.7"):
        model.predict(TABLE, coords=points + np.array([[0, 0, 0], [0, 0, 0.2]]))


# ---------------------------------------------------------------------- other estimators
@pytest.mark.parametrize(
    "model",
    [
        PODRegressor(target_fields=["frames"]),
        EnsembleRegressor(small(target_fields=["frames"]), n_members=2, random_state=0),
        TimeConditionedRegressor(small(target_fields=["frames"])),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_around_or_beside(model, tmp_path):
    model.fit(TABLE, shared()).save(tmp_path / "model.skop")
    found = model.predict(TABLE)
    assert found[0].point_data["frames"].shape == (9, 2)
    np.testing.assert_array_equal(
        skop.load(tmp_path / "model.skop").predict(TABLE)[1].point_data["frames"], found[1].point_data["frames"]
    )
    assert model.score(TABLE, shared()) > -9
    if isinstance(model, PODRegressor):
        # The stress is linear in the parameters.
        assert model.score(TABLE, shared()) > 0.9
        return
    model.fit(own(), params=TABLE)
    np.testing.assert_array_equal(
        model.predict(own(), params=TABLE)[1].point_data["frames"],
        model.predict(TABLE, coords=own())[1].point_data["frames"],
    )
    assert model.score(own(), params=TABLE) == model.score(TABLE, own())


def test_a_rollout_takes_parameters():
    model = RolloutRegressor(small(input_fields=["stress"], target_fields=["frames"]), window=1)
    model.fit(own(), params=TABLE)
    assert model.predict(own(), params=TABLE)[0].point_data["frames"].shape == (9, 2)
    assert model.error_by_step(own(), params=TABLE).shape == (2,)
    with pytest.raises(FieldDataError, match="pass params"):
        model.predict(own())


# ---------------------------------------------------------------------- names of scalars
def test_scalars_keep_their_names(runs):
    y = pd.DataFrame({"drag": TABLE["load"] * 2, "lift": TABLE["t"]})
    X = TABLE.set_axis([10, 11, 12, 13, 14, 15])
    model = small(target_fields=None).fit(X, y)
    found = model.predict(X.iloc[ORDER])
    assert isinstance(found, pd.DataFrame)
    assert (list(found.columns), list(found.index)) == (["drag", "lift"], list(X.index[ORDER]))
    assert list(model.score_channels(X, y)) == ["drag", "lift"]
    values = model.predict(X.to_numpy()[ORDER]) if not hasattr(model, "feature_names_in_") else None
    assert values is None
    series = small(target_fields=None).fit(X, y["drag"]).predict(X)
    assert isinstance(series, pd.Series)
    assert (series.name, list(series.index)) == ("drag", list(X.index))
    # Files are labels too; arrays have none, and neither have arrays a name.
    model = small(target_fields=None).fit("own/*.vtu", y)
    assert list(model.predict("own/*.vtu").index) == list(model.predict(names()).index) == names()
    assert isinstance(model.predict(own()), np.ndarray)
    assert isinstance(small(target_fields=None).fit(X, y.to_numpy()).predict(X), np.ndarray)
    assert isinstance(small(target_fields=None).fit(X.to_numpy(), y).predict(X.to_numpy()), np.ndarray)


def test_names_of_scalars_outlive_a_model_file(tmp_path):
    model = PODRegressor().fit(TABLE, TABLE[["t"]])
    model.save(tmp_path / "model.skop")
    pd.testing.assert_frame_equal(skop.load(tmp_path / "model.skop").predict(TABLE), model.predict(TABLE))


def test_tools_of_scikit_learn_take_named_scalars():
    y = TABLE["load"] * 2
    member = PODRegressor(regressor="ridge")
    plain = cross_val_predict(member, TABLE, y.to_numpy(), cv=3)
    np.testing.assert_array_equal(cross_val_predict(member, TABLE, y, cv=3), plain)
    np.testing.assert_array_equal(
        cross_val_score(member, TABLE, y, cv=3, scoring="r2"),
        cross_val_score(member, TABLE, y.to_numpy(), cv=3, scoring="r2"),
    )
    for tool in (
        VotingRegressor([("pod", member), ("ridge", Ridge())]),
        StackingRegressor([("pod", member)], cv=2),
        make_pipeline(StandardScaler(), member),
    ):
        found, expected = (tool.fit(TABLE, truth).predict(TABLE) for truth in (y, y.to_numpy()))
        np.testing.assert_array_equal(found, expected)
    both = TABLE[["t", "load"]]
    found, expected = (
        MultiOutputRegressor(member).fit(TABLE, truth).predict(TABLE) for truth in (both, both.to_numpy())
    )
    np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------------- scorers and pictures
def test_scorers_read_meshes(runs):
    model = small().fit(names())
    for X, y in (("own/*.vtu", None), (names(), names()), (own(), None)):
        assert neg_relative_l2_scorer(model, X, y) == pytest.approx(model.score(own()) - 1, rel=1e-12)
        error = np.concatenate([found.point_data["stress"] for found in model.predict(own())]) - stress(own())
        ends = np.cumsum([len(mesh.points) for mesh in own()])[:-1]
        expected = np.sqrt(np.mean([np.mean(part**2) for part in np.split(error, ends)]))
        assert neg_root_mean_squared_scorer(model, X, y) == pytest.approx(-expected, rel=1e-6)
    search = GridSearchCV(
        small(), {"latents__n_tokens": [2, 4]}, scoring={"rms": neg_root_mean_squared_scorer}, refit="rms", cv=2
    ).fit(names())
    assert np.isfinite(search.cv_results_["mean_test_rms"]).all()
    frame = TABLE.assign(file=names())
    scores = cross_val_score(small(), frame, cv=2, scoring=neg_relative_l2_scorer, error_score="raise")
    np.testing.assert_allclose(scores, cross_val_score(small(), frame, cv=2) - 1, rtol=1e-12)
    of_params, given = small().fit(names(), params=TABLE), {"params": TABLE}
    assert neg_relative_l2_scorer(of_params, names(), **given) == of_params.score(names(), **given) - 1
    weight = np.arange(1.0, N + 1)
    assert neg_relative_l2_scorer(model, names(), None, sample_weight=weight) == pytest.approx(
        model.score(names(), sample_weight=weight) - 1
    )


def test_errors_on_meshes_are_drawn(runs):
    pytest.importorskip("matplotlib")
    model = small().fit(names())
    for X, y, sample in ((names(), None, "worst"), ("own/run_7.vtu", "own/run_7.vtu", 0)):
        display = FieldErrorDisplay.from_estimator(model, X, y, sample=sample)
        number = 2 if sample != "worst" else int(np.argmin([model.score([mesh]) for mesh in own()]))
        np.testing.assert_array_equal(display.true_values, own()[number].point_data["stress"])
        assert display.name == "stress"
        assert display.relative_error == pytest.approx(1 - model.score([own()[number]]), rel=1e-5)
    on_table = FieldErrorDisplay.from_estimator(small().fit(TABLE, shared()), TABLE, shared(), sample=1)
    np.testing.assert_array_equal(on_table.true_values, shared()[1].point_data["stress"])


# ---------------------------------------------------------------------- messages
def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing' to save .*model.skop"):
        PODRegressor().fit(TABLE, TABLE["t"]).save(tmp_path / "missing" / "model.skop")


def test_no_samples_are_called_so():
    X = np.random.default_rng(0).random((4, 6, 6, 1))
    model = small(target_fields=None).fit(X, X)
    with pytest.raises(FieldDataError, match=r"^X has 0 samples \(shape \(0, 6, 6, 1\)\); at least one is required\.$"):
        model.predict(X[:0])


def test_every_part_of_a_spec_has_words():
    """Otherwise a warm start would be refused without a reason."""
    held = set(vars(PODRegressor().fit(TABLE, TABLE["t"]).spec_))
    assert held - {"target_form"} == set(_spec._SPEC_WORDS)
    form = {part.name for part in dataclasses.fields(TargetForm) if part.compare}
    assert form == set(_spec._FORM_WORDS)


def test_a_warm_start_says_what_differs():
    X = np.random.default_rng(0).random((4, 6, 6, 1))
    model = small(target_fields=None, warm_start=True).fit(X, X)
    with pytest.raises(FieldDataError, match=r"but the grid was 6 x 6 and is 5 x 4\. Set warm_start=False"):
        model.fit(X[:, :5, :4], X[:, :5, :4])


# ---------------------------------------------------------------------- the order of y
def mean_stress(order=range(N)):
    """A scalar of each run that only its mesh tells, with the names of the runs."""
    return pd.Series({f"run_{i + 5}": plate(i).point_data["stress"].mean() for i in order}, name="mean")


def from_stress():
    return PODRegressor(input_fields=["stress"])


def test_a_series_of_scalars_finds_the_files_of_a_list(runs):
    files = names("shared")
    expected = from_stress().fit(files, mean_stress().to_numpy()).predict(files)
    model = from_stress().fit(files, mean_stress(ORDER))
    np.testing.assert_array_equal(model.predict(files).to_numpy(), expected)
    assert model.score(files, mean_stress(ORDER)) == model.score(files, mean_stress())
    # Files that are there twice, as in a bootstrap, and labels that name no files, are in the order of the list.
    twice = files[:2] + files[:2]
    again = mean_stress().iloc[[0, 1, 0, 1]]
    np.testing.assert_array_equal(
        from_stress().fit(twice, again).predict(twice), from_stress().fit(twice, again.to_numpy()).predict(twice)
    )
    other = mean_stress().rename(lambda name: name.replace("run", "case"))
    np.testing.assert_array_equal(from_stress().fit(files, other).predict(files).to_numpy(), expected)
    with pytest.raises(FieldDataError, match="1 of 6 files have no row"):
        from_stress().fit(files, mean_stress(ORDER).rename({"run_7": "run_77"}))


def test_a_y_without_names_beside_a_pattern_may_be_in_the_order_of_the_alphabet(runs):
    """Files are run_5 to run_10, of which the last is the first in the order of the alphabet."""
    y = mean_stress().to_numpy()
    for values in (y, pd.Series(y)):
        with pytest.warns(SkopWarning, match="run_5.vtu is sample 0; .* it would be shared/run_10.vtu"):
            model = from_stress().fit("shared/*.vtu", values)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkopWarning)
        from_stress().fit("shared/run_?.vtu", y[:5])
        from_stress().fit("shared/*.vtu", mean_stress(ORDER))
        assert model.score(names("shared"), y) > 0.99


def test_values_on_the_cells_of_one_mesh(runs, tmp_path):
    """A closed surface, which has as many quadrilaterals as points."""
    i, j = np.divmod(np.arange(25), 5)
    s, t = 0.4 * np.pi * i, 0.4 * np.pi * j
    points = np.stack([(3 + np.cos(t)) * np.cos(s), (3 + np.cos(t)) * np.sin(s), np.sin(t)], axis=1)
    right, above = (i + 1) % 5, (j + 1) % 5
    torus = meshio.Mesh(points, [("quad", 5 * np.stack([i, right, right, i], 1) + np.stack([j, j, above, above], 1))])
    values = TABLE["load"].to_numpy()[:, None] * np.arange(25)
    new = PODRegressor(target_fields=["stress"], cell_data="cells")
    model = new.fit(TABLE, (torus, values))
    truth = [meshio.Mesh(points, torus.cells, cell_data={"stress": [row]}) for row in values]
    on_meshes = PODRegressor(target_fields=["stress"], cell_data="cells").fit(TABLE, truth)
    model.save(tmp_path / "model.skop")
    for fitted in (model, skop.load(tmp_path / "model.skop")):
        for mesh, expected in zip(fitted.predict(TABLE), on_meshes.predict(TABLE), strict=True):
            assert not mesh.point_data
            np.testing.assert_array_equal(mesh.cell_data["stress"][0], expected.cell_data["stress"][0])
    assert model.score(TABLE, (torus, values)) == on_meshes.score(TABLE, truth)
    with pytest.raises(FieldDataError, match="25 cells, which cell_data='cells' asks for"):
        new.fit(TABLE, (torus, values[:, :24]))


def test_predictions_for_a_table_are_in_the_order_of_its_rows(runs):
    """Also on the meshes of a pattern, which the index names: a row without a mesh is an error."""
    table = TABLE.set_axis([f"run_{i + 5}" for i in range(N)]).iloc[ORDER]
    model = small().fit(table, "own/*.vtu")
    found = model.predict(table, coords="own/*.vtu")
    expected = model.predict(table.reset_index(drop=True), coords=names(order=ORDER))
    np.testing.assert_array_equal(stress(found), stress(expected))
    with pytest.raises(FieldDataError, match="2 of 6 rows of X have no file"):
        model.predict(table, coords=names(order=ORDER)[:4])
    # The same after a fit on one mesh, at whose points all runs are known.
    model = small().fit(table, "shared/*.vtu")
    for i in range(N):
        plate(i, 4 + i % 2).write(runs / f"run_{i + 5}.vtu")
    found = model.predict(table, coords="run_*.vtu")
    expected = model.predict(table.reset_index(drop=True), coords=[f"run_{i + 5}.vtu" for i in ORDER])
    np.testing.assert_array_equal(stress(found), stress(expected))
    model = small(input_fields=["stress"]).fit(names())
    with pytest.raises(FieldDataError, match=r"run_5.vtu in X and .*run_10.vtu in coords"):
        model.predict(names(), coords=names(order=range(N - 1, -1, -1)))
