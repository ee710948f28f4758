"""Every form of X and y is the same data: fits and predictions are those of FieldSets, and the kind of y comes back."""

import itertools
import warnings
from itertools import product
from pathlib import Path

import h5py
import meshio
import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

import skop
from skop import FieldSet, MeanFieldRegressor, PODRegressor
from skop.cli._data import Choice, read_samples
from skop.data import form_of, read_meshes, unit_grid
from skop.data.forms.files import read_csv
from skop.exceptions import FieldDataError, SkopWarning

N, TRAIN = 9, slice(0, 6)
TEST = slice(6, N)
GRID = (5, 4)
pytestmark = pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")


def pod(**options):
    """A model of everything that X holds, which fits at once."""
    return PODRegressor(regressor=LinearRegression(), **options)


def points_of(layout):
    """Points of all samples, in one array or a list."""
    generator = np.random.default_rng(0)
    sizes = generator.integers(8, 15, N)
    layout = "ragged" if layout == "geometry" else layout
    return {
        "grid": lambda: unit_grid(GRID),
        "shared": lambda: generator.random((20, 2)),
        "own": lambda: generator.random((N, 20, 2)),
        "ragged": lambda: [generator.random((size, 2)) for size in sizes],
    }[layout]()


def data_of(layout):
    """X with two channels, y with one, and two scalars of each sample."""
    generator, points = np.random.default_rng(1), points_of(layout)
    load = generator.random((N, 2)) + 0.5
    places = [points] * N if layout in ("grid", "shared") else points
    values = [
        np.column_stack([np.sin(3 * place[:, 0]) * a, a + place[:, 1] * b])
        for place, (a, b) in zip(places, load, strict=True)
    ]
    truth = [np.cos(place[:, :1] * b) * a for place, (a, b) in zip(places, load, strict=True)]
    stack = list if layout in ("ragged", "geometry") else np.stack
    X, y = (
        FieldSet(points, stack(values), channel_names=["p", "q"]),
        FieldSet(points, stack(truth), channel_names=["u"]),
    )
    X = FieldSet(points) if layout == "geometry" else X
    X, y = (part.with_grid(GRID) if layout == "grid" else part for part in (X, y))
    return X, y, np.column_stack([load.sum(axis=1), load[:, 0] ** 2])


def as_objects(items):
    """An object array, as scikit-learn makes of lists."""
    held = np.empty(len(items), dtype=object)
    held[:] = items
    return held


def pairs(fields):
    """A list of (coords, values)."""
    return list(zip(fields.coords_list(), fields.to_list(), strict=True))


def mesh_of(points, **data):
    """A mesh of points in space with fields."""
    cells = [("triangle", [[0, i, i + 1] for i in range(1, len(points) - 1)])]
    return meshio.Mesh(np.pad(points, ((0, 0), (0, 1))), cells, point_data=data)


def meshes(X, y):
    """Meshes that hold X and y."""
    parts = zip(X.coords_list(), X.to_list(), y.to_list(), strict=True)
    return [mesh_of(coords, p=values[:, 0], q=values[:, 1], u=truth[:, 0]) for coords, values, truth in parts]


def files(X, y):
    """Mesh files that hold X and y; the folder is that of the test."""
    names = [str(Path.cwd() / f"run_{number}.vtu") for number in range(len(X))]
    for mesh, name in zip(meshes(X, y), names, strict=True):
        mesh.write(name)
    return names


#: Forms of an X of fields for the layouts that have them.
OF_X = {
    "FieldSet": lambda X, y: X,
    "selected FieldSet": lambda X, y: X[::-1][np.arange(N)[::-1]],
    "grid": lambda X, y: X.to_grid(),
    "list of grids": lambda X, y: list(X.to_grid()),
    "nested lists": lambda X, y: X.to_grid().tolist(),
    "memory map": lambda X, y: mapped(X.to_grid()),
    "tuple": lambda X, y: (X.coords, X.values),
    "tuple of lists": lambda X, y: (X.coords_list(), X.to_list()),
    "pairs": lambda X, y: pairs(X),
    "object array of pairs": lambda X, y: as_objects(pairs(X)),
    "points": lambda X, y: X.coords_list(),
    "object array of points": lambda X, y: as_objects(X.coords_list()),
    "pairs without fields": lambda X, y: [(coords, None) for coords in X.coords_list()],
    "tuple without fields": lambda X, y: (X.coords_list(), None),
    "meshes": lambda X, y: meshes(X, y),
    "mesh files": lambda X, y: files(X, y),
    "frame of mesh files": lambda X, y: pd.DataFrame({"run": files(X, y)}),
}
#: Forms of y that are fields.
OF_Y = {
    "FieldSet": lambda X, y: y,
    "FieldSet with scalars": lambda X, y: y.with_params(np.column_stack([np.arange(N), np.arange(N) ** 2])),
    "grid": lambda X, y: y.to_grid(),
    "grid without channels": lambda X, y: y.to_grid()[..., 0],
    "points": lambda X, y: y.values,
    "points without channels": lambda X, y: y.values[..., 0],
    "list": lambda X, y: y.to_list(),
    "list without channels": lambda X, y: [values[:, 0] for values in y.to_list()],
    "object array": lambda X, y: as_objects(y.to_list()),
    "tuple": lambda X, y: (y.coords, y.values),
    "tuple of lists": lambda X, y: (y.coords_list(), y.to_list()),
    "pairs": lambda X, y: pairs(y),
    "meshes": lambda X, y: meshes(X, y),
    "in meshes": lambda X, y: None,
}
BARE = {"points", "points without channels", "FieldSet", "tuple"}
LISTED = {"list", "list without channels", "FieldSet", "pairs", "meshes"}
LAYOUTS = {
    "grid": (
        {"grid", "list of grids", "nested lists", "memory map", "FieldSet", "tuple"},
        BARE | {"grid", "grid without channels"},
    ),
    "shared": ({"FieldSet", "selected FieldSet", "tuple", "meshes", "mesh files"}, BARE | {"pairs", "in meshes"}),
    "own": ({"FieldSet", "tuple", "pairs", "meshes"}, BARE | LISTED),
    "ragged": (
        {"FieldSet", "tuple of lists", "pairs", "object array of pairs", "meshes", "mesh files", "frame of mesh files"},
        LISTED | {"object array", "tuple of lists", "in meshes", "FieldSet with scalars"},
    ),
    "geometry": (
        {"FieldSet", "points", "object array of points", "pairs without fields", "tuple without fields"},
        LISTED - {"meshes"},
    ),
}
#: Pairs of forms; y in the meshes of X needs an X of meshes.
CASES = [
    (layout, x, y)
    for layout, forms in LAYOUTS.items()
    for x, y in itertools.product(*map(sorted, forms))
    if ("mesh" in x or "meshes" not in y) and not ("mesh" in x and y == "tuple" and layout == "shared")
]


def each_once(cases):
    """Cases that hold each form of X and of y of a layout; those that are new on both sides come first."""
    chosen, seen = [], set()
    for n_new in (2, 1):
        for case in cases:
            forms = {(case[0], "X", case[1]), (case[0], "y", case[2])}
            if len(forms - seen) >= n_new:
                chosen.append(case)
                seen |= forms
    return chosen


SOME_CASES = each_once(CASES)


def mapped(array):
    """The array in a memory map."""
    np.save("mapped.npy", array)
    return np.load("mapped.npy", mmap_mode="r")


def cut(samples, rows):
    """Some samples in the form of all."""
    return None if samples is None else form_of(samples).cut(samples, rows)


def numbers(found):
    """Values of predicted fields, one after the other."""
    if isinstance(found, FieldSet):
        return np.concatenate([np.ravel(part) for part in (found.values, found.params) if part is not None])
    if isinstance(found, tuple):
        return numbers(found[1])
    if isinstance(found, list):
        held = [item.point_data["u"] if isinstance(item, meshio.Mesh) else item for item in found]
        return np.concatenate([numbers(item) if isinstance(item, tuple) else np.ravel(item) for item in held])
    return np.ravel(found)


def kind(samples):
    """What an object is, with the shapes of its parts."""
    if isinstance(samples, np.ndarray) and samples.dtype == object:
        return kind(list(samples))
    if isinstance(samples, FieldSet):
        names, n_scalars = samples.channel_names, samples.n_params
        return "FieldSet", samples.n_points.tolist(), samples.n_channels, samples.values.dtype, names, n_scalars
    if isinstance(samples, list | tuple):
        return type(samples), [kind(item) for item in samples]
    if isinstance(samples, meshio.Mesh):
        return "mesh", len(samples.points)
    return type(samples).__name__.replace("memmap", "ndarray"), samples.shape


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Files of a test are in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "cases",
    [SOME_CASES, pytest.param([case for case in CASES if case not in SOME_CASES], marks=pytest.mark.exhaustive)],
    ids=["each form", "other pairs of forms"],
)
def test_fields_of_any_form_are_the_same_data(folder, cases):
    references = {}
    for layout, of_x, of_y, make in [(*case, pod) for case in cases] + [
        (*case, MeanFieldRegressor) for case in cases if "FieldSet" in case
    ]:
        X, y, _ = data_of(layout)
        given = OF_X[of_x](X, y), OF_Y[of_y](X, y)
        names = {}
        if "mesh" in of_x:
            # Of several channels the memory has another order, and sums of them other last digits.
            names = {"input_fields": ["p", "q"], "target_fields": ["u"]}
            X = read_meshes(meshes(X, y), ["p", "q", "u"]).select(["p", "q"])
        y = given[1] if of_y == "FieldSet with scalars" else y
        kept = layout, make, "mesh" in of_x, of_y == "FieldSet with scalars"
        if kept not in references:
            reference = make().fit(X[TRAIN], y[TRAIN])
            folds = cross_val_score(make(), X, y, cv=2, error_score="raise")
            references[kept] = reference, reference.predict(X[TEST]), folds
        reference, expected, folds = references[kept]
        model = make(**names).fit(*(cut(part, TRAIN) for part in given))
        test = [cut(part, TEST) for part in given]
        found = model.predict(test[0])
        np.testing.assert_array_equal(numbers(found), numbers(expected))
        assert model.fit_record_["checksum"] == reference.fit_record_["checksum"]
        assert kind(found) == kind(meshes(X[TEST], y[TEST]) if test[1] is None else test[1])
        assert model.score(*test) == reference.score(X[TEST], y[TEST])
        assert [*model.score_channels(*test).values()] == [*reference.score_channels(X[TEST], y[TEST]).values()]
        # Another container of the same inputs; a sample alone; the folds of scikit-learn, which takes no tuples.
        np.testing.assert_array_equal(numbers(model.predict(X[TEST])), numbers(expected))
        if "tuple" not in of_x + of_y:
            assert kind(model.predict(cut(test[0], slice(1)))) == kind(cut(found, slice(1)))
            scores = cross_val_score(make(**names), *given, cv=2, error_score="raise")
            np.testing.assert_allclose(scores, folds, rtol=1e-6 if "mesh" in of_x else 0)
        model.save("model.skop")
        again = skop.load("model.skop").predict(test[0])
        assert kind(again) == kind(found)
        np.testing.assert_array_equal(numbers(again), numbers(found))


#: Forms of scalars, of which those with names come back with the labels of X.
SCALARS = {
    "vector": lambda y, labels: y[:, 0],
    "table": lambda y, labels: y,
    "column": lambda y, labels: y[:, :1],
    "list": lambda y, labels: y.tolist(),
    "frame": lambda y, labels: pd.DataFrame(y, columns=["drag", "lift"], index=labels),
    "series": lambda y, labels: pd.Series(y[:, 0], name="drag", index=labels),
}
#: Forms of a table X.
TABLES = {
    "array": lambda X, labels: X,
    "lists": lambda X, labels: X.tolist(),
    "frame": lambda X, labels: pd.DataFrame(X, columns=["a", "b"], index=labels),
    "objects": lambda X, labels: X.astype(object),
}
LABELS = [f"run {number}" for number in range(N)]


def test_scalars_of_any_form_are_the_same_data():
    for of_y, of_x in product(SCALARS, [*TABLES, "grid", "FieldSet", "pairs"]):
        fields, truth, scalars = data_of("ragged" if of_x == "pairs" else "grid")
        table = scalars**0.5 + 1
        X = TABLES[of_x](table, LABELS) if of_x in TABLES else OF_X[of_x](fields, truth)
        y = SCALARS[of_y](scalars, LABELS)
        plain = np.asarray(y)
        expected = pod().fit(cut(table if of_x in TABLES else X, TRAIN), plain[TRAIN])
        model = pod().fit(cut(X, TRAIN), cut(y, TRAIN))
        found, test = model.predict(cut(X, TEST)), cut(table if of_x in TABLES else X, TEST)
        np.testing.assert_array_equal(np.asarray(found), expected.predict(test))
        assert model.fit_record_["checksum"] == expected.fit_record_["checksum"]
        assert model.score(cut(X, TEST), cut(y, TEST)) == expected.score(test, plain[TEST])
        if of_x == "frame" and of_y in ("frame", "series"):
            assert type(found) is type(y)
            assert list(found.index) == LABELS[TEST]
            assert list(getattr(found, "columns", [found.name] if of_y == "series" else [])) == list(
                getattr(y, "columns", ["drag"])
            )
        else:
            assert kind(found) == kind(plain[TEST])


def test_parameters_of_fields_are_the_same_data():
    for of_y, of_x in product(["FieldSet", "grid", "tuple", "on a mesh"], TABLES):
        _, y, scalars = data_of("grid")
        X = TABLES[of_x](scalars, LABELS)
        values = (mesh_of(y.coords), y.values[..., 0])
        reference = pod().fit(scalars[TRAIN], y[TRAIN])
        given = (values[0], values[1][TRAIN]) if of_y == "on a mesh" else cut(OF_Y[of_y](None, y), TRAIN)
        model = pod(target_fields=["u"] if of_y == "on a mesh" else None).fit(cut(X, TRAIN), given)
        found = model.predict(cut(X, TEST))
        np.testing.assert_array_equal(numbers(found), numbers(reference.predict(scalars[TEST])))
        assert model.fit_record_["checksum"] == reference.fit_record_["checksum"]
        assert kind(found) == kind([values[0]] * 3 if of_y == "on a mesh" else cut(OF_Y[of_y](None, y), TEST))


# ---------------------------------------------------------------------- files of arrays and tables
def written(name, **arrays):
    """Write arrays to a file of the ending of its name."""
    if name.endswith(".npz"):
        np.savez(name, **arrays)
    elif name.endswith(".mat"):
        savemat(name, arrays)
    else:
        with h5py.File(name, "w") as file:
            for key, array in arrays.items():
                file[key] = array
    return name


def test_files_of_arrays_are_what_they_hold(folder):
    """In Python and on the command line, with usual names of the arrays, or by others that are given."""
    for names, ending in product([("X", "y"), ("a", "u"), ("q", "r")], [".npz", ".mat", ".h5"]):
        X, y, _ = data_of("grid")
        arrays = [(X.to_grid()[rows], y.to_grid()[rows]) for rows in (TRAIN, TEST)]
        train, test = (written(f"{k}{ending}", **dict(zip(names, pair, strict=True))) for k, pair in enumerate(arrays))
        expected = pod().fit(*arrays[0])
        chosen = {"input_fields": [names[0]], "target_fields": [names[1]]} if names[0] == "q" else {}
        pod(**chosen).fit(train).save("model.skop")
        model = skop.load("model.skop")
        np.testing.assert_array_equal(model.predict(test), expected.predict(arrays[1][0]))
        assert model.score(Path(test)) == model.score(test, arrays[1][1]) == expected.score(*arrays[1])
        options = Choice(x=names[0], y=names[1]) if chosen else Choice()
        samples = read_samples([train], options)
        np.testing.assert_array_equal(samples.X, arrays[0][0])
        np.testing.assert_array_equal(samples.y, arrays[0][1])


def test_arrays_in_groups_of_a_file_are_chosen_by_their_paths(folder):
    X, y, _ = data_of("grid")
    written("a.h5", **{"in/P": X.to_grid(), "out/deep/u": y.to_grid(), **{f"more/{k}": np.zeros(2) for k in range(30)}})
    expected = pod().fit(X.to_grid(), y.to_grid()).predict(X.to_grid())
    model = pod(input_fields=["in/P"], target_fields=["out/deep/u"]).fit("a.h5")
    np.testing.assert_array_equal(model.predict("a.h5"), expected)
    np.testing.assert_array_equal(read_samples(["a.h5"], Choice(x="in/P", y="out/deep/u")).y, y.to_grid())
    with pytest.raises(FieldDataError, match=r"holds: in/P \(9, 5, 4, .*, more/0 .*, and 12 more"):
        pod(input_fields=["P"], target_fields=["out/deep/u"]).fit("a.h5")
    slashes = pod(input_fields=["/in/P"], target_fields=["/out/deep/u"]).fit("a.h5")
    np.testing.assert_array_equal(slashes.predict("a.h5"), expected)
    # One array beside groups is the one that is meant, and so is one in a group.
    written("beside.h5", **{"u": y.to_grid(), "meta/t": np.zeros(3), "meta/name": np.array([b"a", b"b"])})
    np.testing.assert_array_equal(pod().fit(X.to_grid(), "beside.h5").predict(X.to_grid()), expected)
    written("one.h5", **{"out/u": y.to_grid(), "out/name": np.array([b"a", b"b"])})
    np.testing.assert_array_equal(pod().fit(X.to_grid(), "one.h5").predict(X.to_grid()), expected)


@pytest.mark.parametrize("points", [(30,), (6, 5)])
def test_on_the_points_of_X_any_number_of_channels_is_one(folder, points):
    """20 frames of a field; without X on the same points, an axis of 20 is one of points."""
    rng = np.random.default_rng(0)
    X, y = rng.random((12, *points, 1)), rng.random((12, *points, 20))
    written("frames.npz", X=X, y=y)
    np.testing.assert_array_equal(pod().fit("frames.npz").predict("frames.npz"), pod().fit(X, y).predict(X))
    assert read_samples(["frames.npz"], Choice()).y.shape == y.shape
    assert read_samples(["frames.npz"], Choice(channels="none")).y.shape == (*y.shape, 1)
    written("bare.npz", X=y, y=y)
    assert read_samples(["bare.npz"], Choice()).X.shape == (*y.shape, 1)


def test_files_hold_points_and_parameters_too(folder):
    X, y, scalars = data_of("shared")
    written("a.npz", coords=X.coords, X=X.values, y=y.values, params=scalars)
    given = X.with_params(scalars)
    expected = pod().fit(given, y).predict(given)
    np.testing.assert_array_equal(pod().fit("a.npz").predict("a.npz").values, expected.values)


def test_each_array_may_have_a_file(folder):
    X, y, _ = data_of("grid")
    np.save("x.npy", X.to_grid())
    np.save("y.npy", y.to_grid())
    expected = pod().fit(X.to_grid(), y.to_grid())
    model = pod().fit("x.npy", "y.npy")
    np.testing.assert_array_equal(model.predict("x.npy"), expected.predict(X.to_grid()))
    assert model.score("x.npy", "y.npy") == expected.score(X.to_grid(), y.to_grid())


def test_tables_in_files_are_frames(folder):
    """Columns of numbers other than the targets are inputs, in the fit and after it."""
    _, _, scalars = data_of("grid")
    table = pd.DataFrame(scalars, columns=["drag", "lift"]).assign(
        name=LABELS, a=scalars[:, 0] + 1, b=scalars[:, 1] ** 0.5
    )
    table.to_csv("table.csv", index=False)
    table[["b", "name", "a"]].to_csv("new.csv", index=False)
    read = pd.read_csv("table.csv")
    for targets, inputs in ((["drag"], None), (["lift", "drag"], ["b", "a"])):
        others = inputs or [name for name in ("lift", "a", "b") if name not in targets]
        expected = pod().fit(read[others], read[targets])
        model = pod(input_fields=inputs, target_fields=targets).fit("table.csv")
        assert list(model.feature_names_in_) == others
        np.testing.assert_array_equal(model.predict("table.csv"), expected.predict(read[others]))
        assert model.score("table.csv") == expected.score(read[others], read[targets])
    np.testing.assert_array_equal(model.predict("new.csv"), expected.predict(read[others]))


def said_of(table, **options):
    """Inputs of a fit on a file with this table, and the warnings in one text."""
    table.to_csv("t.csv", **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pod(target_fields=["drag"]).fit("t.csv")
    read = read_samples(["t.csv"], Choice(targets=("drag",))).X
    assert list(model.feature_names_in_) == list(read.columns)
    return list(read.columns), " ".join(str(warning.message) for warning in caught)


def table_with(**columns):
    """A table with the target `drag`, the input `a`, and further columns."""
    generator = np.random.default_rng(0)
    return pd.DataFrame({"a": generator.random(N), "drag": np.sort(generator.random(N))} | columns)


def test_the_index_in_a_file_is_no_input(folder):
    """In a table that is sorted by the target, it would tell the target."""
    order = np.random.default_rng(1).permutation(N)
    for index in (np.arange(N), np.arange(N) + 1, order, 3 * order):
        inputs, said = said_of(table_with().set_axis(index))
        assert inputs == ["a"]
        assert "'Unnamed: 0', a column without a name, only numbers the rows, and is left out" in said
        chosen = pod(input_fields=["Unnamed: 0"], target_fields=["drag"]).fit("t.csv")
        assert list(chosen.feature_names_in_) == ["Unnamed: 0"]
    # Measurements may lack a name too.
    for index in (order / 2 + 0.1, order // 2):
        assert said_of(table_with().set_axis(index)) == (["Unnamed: 0", "a"], "")


def test_columns_that_count_rows_are_inputs_with_a_warning(folder):
    counter, loads = np.arange(N) + 1, np.arange(N) ** 2
    inputs, said = said_of(table_with(run=counter), index=False)
    assert inputs == ["a", "run"]
    assert "'run' only counts the rows, but is an input; name the columns to use by input_fields" in said
    assert said_of(table_with(run=loads), index=False) == (["a", "run"], "")
    assert said_of(table_with(run=counter)[["run", "drag"]], index=False) == (["run"], "")
    # In memory all columns are inputs, as scikit-learn has it.
    table = table_with(**{"Unnamed: 0": counter})
    with pytest.warns(SkopWarning, match=r"'Unnamed: 0' of X has no name .*read_csv\(path, index_col=0\)"):
        assert pod().fit(table.drop(columns="drag"), table["drag"]).n_features_in_ == 2


def test_columns_of_text_are_left_out_with_a_warning(folder):
    answers = ["yes", "no", "no"] * 3
    inputs, said = said_of(table_with(cooled=answers, material=[*"abcabcabc"]), index=False)
    assert inputs == ["a"]
    assert "columns of text are left out: cooled, material" in said
    # Numbers as some programs write them.
    for form in ("{:.3f}D+00", "1,{:07.3f}", "1'{:07.3f}", "<{:.3f}", "{:.3f} [mm]", '{:.3f}"'):
        inputs, said = said_of(table_with(load=[form.format(3.7 * k) for k in range(N)]), index=False)
        assert inputs == ["a"]
        assert "columns of text are left out: load (such as" in said
    # Dates differ in each row, and are no names.
    for form in ("2026-01-{:02}", "2026/1/{} 8:00", "{:02}/02/2026", "{}.02.26", "{}:30"):
        inputs, said = said_of(table_with(when=[form.format(k + 1) for k in range(N)]), index=False)
        assert inputs == ["a"]
        assert "columns of text are left out: when (such as" in said
        assert "dates as numbers of days" in said
    # Names of files and runs, and text that is the same everywhere, are nothing to learn from.
    for names in (LABELS, [f"{k}.vtu" for k in range(N)], [f"{k:03}a" for k in range(N)], ["steel"] * N, ["5 mm"] * N):
        assert said_of(table_with(name=names), index=False) == (["a"], "")


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_table_in_another_encoding_is_named(folder, encoding):
    Path("t.csv").write_text("height [µm],y\n1,2\n3,4\n", encoding=encoding)
    with pytest.raises(FieldDataError, match=r"no text in UTF-8 .* save it as CSV UTF-8"):
        read_csv("t.csv")


#: Text of a table, and the names and numbers that it holds.
HEADERS = {
    "fields that end in commas": ("a,b\n1,2,\n3,4,\n", ["a", "b"], [[1, 2], [3, 4]]),
    "a header too": ("a,b,\n1,2,\n3,4,\n", ["a", "b"], [[1, 2], [3, 4]]),
    "one column": ("load\n1\n2\n", ["load"], [[1], [2]]),
    "a name of two words": ("load case\n1\n2\n", ["load case"], [[1], [2]]),
    "words and commas": ("angle of attack, load\n1, 2\n", ["angle of attack", "load"], [[1, 2]]),
    "a mark of byte order": ("\ufeffa,b\n1,2\n", ["a", "b"], [[1, 2]]),
    "semicolons": ("a;b\n1;2\n", ["a", "b"], [[1, 2]]),
    "tabs": ("a\tb\n1\t2\n", ["a", "b"], [[1, 2]]),
    "spaces": ("a b\n1 2\n3 4\n", ["a", "b"], [[1, 2], [3, 4]]),
    "separators in quotes": ('"a, b",c\n1,2\n', ["a, b", "c"], [[1, 2]]),
    "numbers of columns": ("0,1\n5,6\n", ["0", "1"], [[5, 6]]),
    "empty lines": ("\na,b\n\n1,2\n", ["a", "b"], [[1, 2]]),
}


@pytest.mark.parametrize("case", HEADERS)
def test_tables_have_the_columns_of_their_header(case, folder):
    text, names, numbers = HEADERS[case]
    Path("t.csv").write_text(text, encoding="utf-8")
    table = read_csv("t.csv")
    assert list(table.columns) == names
    np.testing.assert_array_equal(table.to_numpy(), numbers)


ARRAYS, NUMBERS = np.ones((4, 3)), np.ones(4)
#: What a file holds (arrays, columns, bytes or nothing), the names that are asked for, and words of the message.
REFUSED_FILES = {
    "no targets": ({"X": ARRAYS}, {}, "no array of targets by a known name; choose by target_fields"),
    "no inputs": ({"y": NUMBERS}, {}, "no array of inputs by a known name; choose by input_fields"),
    "two inputs": ({"X": ARRAYS, "a": ARRAYS, "y": NUMBERS}, {}, "holds X and a; say which by input_fields"),
    "another name": ({"X": ARRAYS, "y": NUMBERS}, {"input_fields": ["q"]}, "no array 'q'; it holds: X"),
    "several names": ({"X": ARRAYS}, {"input_fields": ["X", "y"]}, "one array of X and one of y"),
    "lengths": ({"X": ARRAYS, "y": np.ones(5)}, {}, "X has 4 and y 5"),
    "a number": ({"X": ARRAYS, "y": np.float64(3)}, {}, "y is a single number"),
    "no target column": ("a,b\n1,2\n", {}, "target_fields is missing; the columns of file are: a, b"),
    "another column": ("a,b\n1,2\n", {"target_fields": ["c"]}, "no column 'c'; its columns are: a, b"),
    "text": ("a,b\n1,x\n2,3\n", {"target_fields": ["b"]}, "column 'b' of file holds text, such as 'x'"),
    "a unit": (
        "a,b\n1.5 mm,2\n-.6e-3mm,3\n2,4\n",
        {"target_fields": ["b"]},
        "'a' of file holds .* the unit 'mm', such as",
    ),
    "per cent": ("a,b\n15%,2\n20%,3\n", {"target_fields": ["b"]}, "'a' of file .* '%', such as '15%'.* plain numbers"),
    "a unit of targets": (
        "a,b\n1,2 m/s2\n2,3 m/s2\n",
        {"target_fields": ["b"]},
        "'b' of file holds .* the unit 'm/s2'",
    ),
    "a surplus field": (
        "a,b\n1,2\n1,2,3\n",
        {"target_fields": ["b"]},
        "row 1, counted from 0 .* has 3 fields, but",
    ),
    "no header": ("1.5,2\n3,4\n", {"target_fields": ["2"]}, "first row holds numbers .1.5, 2. where names"),
    "damaged": (b"numbers", {}, "cannot read file"),
    "nothing": (None, {}, "there is no file 'file.npz'"),
}


@pytest.mark.parametrize("case", REFUSED_FILES)
def test_files_that_do_not_tell_what_is_asked_for_are_refused(case, folder):
    content, names, words = REFUSED_FILES[case]
    path = Path("file.csv" if isinstance(content, str) else "file.npz")
    if isinstance(content, dict):
        np.savez(path, **content)
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FieldDataError, match=words.replace("file", path.name, 1) if "of file" in words else words):
        MeanFieldRegressor(**names).fit(path)


def test_a_file_is_not_predicted_in_parts(folder):
    np.savez("f.npz", X=np.arange(12.0).reshape(4, 3), y=np.arange(4.0))
    with pytest.raises(FieldDataError, match="read whole"):
        skop.predict_in_parts(pod().fit("f.npz"), "f.npz")


@pytest.mark.parametrize(
    ("shape", "warns"),
    [
        *[((30, 3, 64), True), ((30, 1, 32), True), ((30, 4, 16), True), ((30, 3, 24, 24), True)],
        *[((30, 64, 3), False), ((30, 5, 8), False), ((30, 5, 64), False), ((30, 4, 8), False), ((30, 3, 15), False)],
        *[((30, 3, 24, 2), False), ((30, 24, 24, 3), False)],
    ],
)
def test_channels_that_come_first_are_told(shape, warns):
    with warnings.catch_warnings(record=True) as held:
        warnings.simplefilter("always")
        found = form_of(np.zeros(shape)).fields(np.ones(shape), "X")
    assert found.grid_shape == shape[1:-1]
    said = [str(warning.message) for warning in held if "channels come first" in str(warning.message)]
    assert bool(said) == warns
    if warns:
        axes = f"1-D grid of {shape[1]} points with" if len(shape) == 3 else f"{shape[1]}x{shape[2]} grid with"
        assert f"{axes} {shape[-1]} channels. If its channels come first, pass np.moveaxis(X, 1, -1)." in said[0]
