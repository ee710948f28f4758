"""Graphs for other runtimes: onnxruntime and `torch.export` against `predict`."""

import json
import sys

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

import skop
from skop import (
    AMORegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    MeanFieldRegressor,
    MNORegressor,
    PODRegressor,
    SymmetryOptions,
)
from skop.data import ScalingOptions, unit_grid
from skop.exceptions import FieldDataError, OptionalDependencyError, SkopError
from skop.surrogate import Surrogate
from skop.surrogate._predictions import each_part

RANDOM = np.random.default_rng(0)
N = 4
GRID = RANDOM.normal(size=(N, 6, 5, 1))
SMALL = RANDOM.normal(size=(N, 4, 3, 1))
CUBE = RANDOM.normal(size=(N, 4, 4, 3, 1))
TABLE = RANDOM.normal(size=(N, 3)) * [1.0, 1e9, 1e-3] + [0.0, 2.1e11, 0.0]
CLOUD = RANDOM.random((11, 2))
VALUES = RANDOM.normal(size=(N, 11, 1))
SHARED = FieldSet(CLOUD, VALUES)
OWN = FieldSet(RANDOM.random((N, 11, 2)), VALUES)
BENT = unit_grid((6, 5)) + 0.05 * np.sin(5 * unit_grid((6, 5))[:, ::-1])
MESHES = FieldSet(np.stack([BENT * (1 + 0.1 * i) for i in range(N)]), GRID.reshape(N, 30, 1), grid_shape=(6, 5))


def tiny(kind, **params):
    return kind(width=8, depth=1, batch_size=4, max_iter=1, random_state=0).set_params(**params)


def given(names, inputs, rows):
    """Inputs of a graph by name, in their types and shapes."""
    held = {"coords": inputs.coords, "fields": inputs.values, "params": inputs.params}
    return [
        np.asarray(held[name])[rows].reshape(len(rows), *shape[1:]).astype(kind)
        for name, (shape, kind) in names.items()
    ]


def run_onnx(path, inputs, rows):
    session = pytest.importorskip("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    names = {part.name: (part.shape, kinds[part.type]) for part in session.get_inputs()}
    found = session.run(None, dict(zip(names, given(names, inputs, rows), strict=True)))
    return dict(zip([part.name for part in session.get_outputs()], found, strict=True))


def run_program(path, inputs, rows):
    files = {"skop.json": ""}
    program = torch.export.load(path, extra_files=files)
    description = json.loads(files["skop.json"])
    names = {name: (part["shape"], part["dtype"]) for name, part in description["inputs"].items()}
    found = program.module()(*map(torch.tensor, given(names, inputs, rows)))
    return dict(zip(description["outputs"], (part.numpy() for part in found), strict=True))


def require_parity(model, X, path, counts=(N, 1), tolerance=1e-5):
    """The graph gives the numbers of `predict`, for any number of samples."""
    run = run_onnx if path.suffix == ".onnx" else run_program
    inputs, _ = model._read_inputs(X)
    predicted = model._predict_values(inputs)
    for count in counts:
        found = run(str(path), inputs, np.arange(count))
        expected = {"field": predicted.fields, "scalars": predicted.scalars}
        assert list(found) == [name for name, part in expected.items() if part is not None]
        for name, part in found.items():
            true = expected[name]
            difference = np.abs(part.reshape(true[:count].shape) - true[:count]).max()
            assert difference <= tolerance * np.abs(true).max(), name


@pytest.mark.exhaustive
def test_onnx_of_parameters_to_fields(tmp_path):
    """On scattered points, whose order is in the graph; parameters and a field far from zero keep their digits."""
    y = FieldSet(CLOUD, 1e5 + VALUES, channel_names=["p"])
    model = tiny(LaMORegressor).fit(TABLE, y)
    model.export(tmp_path / "model.onnx")
    require_parity(model, TABLE, tmp_path / "model.onnx", tolerance=1e-10)
    onnx = pytest.importorskip("onnx")
    metadata = {row.key: row.value for row in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert metadata["skop"] == skop.__version__
    assert metadata["estimator"] == "LaMORegressor"
    assert json.loads(metadata["inputs"]) == {"params": {"shape": ["batch", 3], "dtype": "float64"}}
    assert json.loads(metadata["outputs"]) == {
        "field": {"shape": ["batch", 11, 1], "dtype": "float64", "channels": ["p"]}
    }


LOGARITHMS = {"scaling": ScalingOptions(target_transform="log")}
VECTORS = RANDOM.normal(size=(N, 11, 3))
TURNS = {"domain": [(0, 1), (0, 1)], "names": ["flip_x"], "rotations": [((0.5, 0.5), 120)]}
MOVED = SymmetryOptions(**TURNS, input_vectors=[(0, 1)], target_vectors=[(2, 0)])
LOADS = SymmetryOptions(**TURNS, param_vectors=[(0, 2)], target_vectors=[(2, 0)])
PROGRAMS = {
    "LaMO, symmetries of own points": (
        LaMORegressor, FieldSet(OWN.coords, VECTORS), FieldSet(OWN.coords, VECTORS), {"symmetries": MOVED},
    ),
    "LaMO, symmetries and logarithms": (
        LaMORegressor, FieldSet(OWN.coords, VECTORS), FieldSet(OWN.coords, np.exp(VALUES)),
        {"symmetries": SymmetryOptions(**TURNS, input_vectors=[(0, 1)]), **LOGARITHMS},
    ),
    "AMO, symmetries of loads": (AMORegressor, TABLE, FieldSet(CLOUD, VECTORS), {"symmetries": LOADS}),
    "MNO, symmetries of shared points": (
        MNORegressor, FieldSet(CLOUD, VECTORS), FieldSet(CLOUD, VECTORS), {"symmetries": MOVED},
    ),
    "LaMO, logarithms beside scalars": (
        LaMORegressor, SHARED, FieldSet(CLOUD, 1e9 * np.exp(5 * VALUES), params=np.exp(VALUES[:, :2, 0])), LOGARITHMS,
    ),
    "LaMO, scalars beside a field": (
        LaMORegressor, SHARED, FieldSet(CLOUD, VALUES, params=np.exp(VALUES[:, :2, 0])), {},
    ),
    "LaMO, own points": (LaMORegressor, OWN, OWN, {}),
    "LaMO, scaled at each point": (
        LaMORegressor, SHARED, SHARED, {"scaling": ScalingOptions(inputs="point", targets="point")},
    ),
    "LaMO, table": (LaMORegressor, TABLE, TABLE[:, :2], {}),
    "GeoMaNO, volume": (GeoMaNORegressor, CUBE, CUBE, {}),
    "MNO, grid": (MNORegressor, SMALL, SMALL, {}),
    "AMO, own structured meshes": (AMORegressor, MESHES, MESHES, {}),
    "AMO, logarithms": (AMORegressor, TABLE, np.exp(GRID), LOGARITHMS),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_numbers_of_predict(name, tmp_path):
    kind, X, y, params = PROGRAMS[name]
    model = tiny(kind, **params).fit(X, y)
    model.export(tmp_path / "model.pt2", None if X is TABLE else X)
    require_parity(model, X, tmp_path / "model.pt2")


GRAPHS = {
    "LaMO, own meshes": (LaMORegressor, MESHES, MESHES, {}),
    "GeoMaNO, grid": (GeoMaNORegressor, SMALL, SMALL, {}),
    "MNO, grid": (MNORegressor, SMALL, SMALL, {}),
    "MNO, points": (MNORegressor, SHARED, SHARED, {}),
    "AMO, points": (AMORegressor, SHARED, SHARED, {}),
    "AMO, logarithms of a table": (AMORegressor, TABLE, np.exp(TABLE[:, :2] * [1.0, 1e-11]), LOGARITHMS),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", GRAPHS)
def test_onnx_gives_the_numbers_of_predict(name, tmp_path):
    kind, X, y, params = GRAPHS[name]
    model = tiny(kind, **params).fit(X, y)
    model.export(tmp_path / "model.onnx", None if X is TABLE else X)
    require_parity(model, X, tmp_path / "model.onnx")


def test_a_program_of_a_grid_gives_the_numbers_of_predict(tmp_path):
    model = tiny(LaMORegressor).fit(GRID, GRID)
    model.export(tmp_path / "model.pt2", GRID[:1])
    require_parity(model, GRID, tmp_path / "model.pt2")


def test_a_program_takes_parameters_beside_fields(tmp_path):
    model = tiny(LaMORegressor).fit(GRID, GRID, params=TABLE)
    with pytest.raises(FieldDataError, match=r"fitted with 3; pass params="):
        model.export(tmp_path / "model.pt2", GRID)
    model.export(tmp_path / "model.pt2", GRID, params=TABLE)
    both = FieldSet(unit_grid((6, 5)), GRID.reshape(N, 30, 1), params=TABLE, grid_shape=(6, 5))
    require_parity(model, both, tmp_path / "model.pt2")


def test_a_number_of_samples_can_be_fixed(tmp_path):
    model = tiny(LaMORegressor).fit(TABLE, TABLE[:, :2])
    model.export(str(tmp_path / "model.pt2"), batch_size=2)
    require_parity(model, TABLE, tmp_path / "model.pt2", counts=(2,))
    with pytest.raises(Exception, match=r"2"):
        require_parity(model, TABLE, tmp_path / "model.pt2", counts=(3,))


LOADS_2D = RANDOM.random((24, 2))
WAVES = np.sin(3 * LOADS_2D[:, :1] + CLOUD[:, 0]) + LOADS_2D[:, 1:] * CLOUD[:, 1]
OF_LOADS = FieldSet(CLOUD, np.stack([WAVES, 1e3 * WAVES**2], axis=-1))
FIELDS = (RANDOM.normal(size=(24, 2)) @ np.sin(np.arange(22.0).reshape(2, 11)))[..., None]
CONSTANTS = np.concatenate([np.repeat(LOADS_2D[:, 1:, None], 11, axis=1), FIELDS], axis=-1)
HALVES = np.repeat(np.exp(LOADS_2D), 15, axis=1)[..., None]
REGIONS = FieldSet(BENT, np.concatenate([HALVES, LOADS_2D[:, :1, None] * BENT[:, :1]], axis=-1))
NODES = CLOUD + 0.1 * LOADS_2D[:, None] * np.sin(3 * CLOUD)


SHARED_FIELDS = FieldSet(CLOUD, FIELDS)
SMALL_FIELDS = (RANDOM.normal(size=(24, 2)) @ np.sin(np.arange(24.0).reshape(2, 12))).reshape(24, 4, 3, 1)


def over_base(X, y, base="pod", share=0.0, kind=LaMORegressor, **params):
    """An estimator whose network has a share of the prediction over its base."""
    model = tiny(kind, base=base, **params).fit(X, y)
    sizes = (len(part) for part in (model.module_.field_share, model.module_.scalar_share))
    model.module_.set_shares(*(np.full(size, share) if size else None for size in sizes))
    return model


def test_a_graph_holds_base_and_network(tmp_path):
    X, y = FieldSet(CLOUD, FIELDS, params=LOADS_2D), FieldSet(CLOUD, np.tanh(FIELDS), params=LOADS_2D[:, 1:])
    model = over_base(X, y, share=0.7, base="linear")
    for share, name in ((0.7, "both.pt2"), (0.0, "base.pt2")):
        model.module_.set_shares(np.full(1, share), np.full(1, share))
        model.export(tmp_path / name, X)
        require_parity(model, X, tmp_path / name, counts=(24, 1), tolerance=1e-6)
    both, alone = ((tmp_path / name).stat().st_size for name in ("both.pt2", "base.pt2"))
    assert alone < both / 2


BASES = {
    "mean": (LOADS_2D, OF_LOADS, {"base": PODRegressor(regressor="mean")}),
    "polynomials": (LOADS_2D, OF_LOADS, {"base": PODRegressor(regressor="polynomial")}),
    "radial basis functions": (LOADS_2D, OF_LOADS, {"base": PODRegressor(regressor="rbf")}),
    "splines": (LOADS_2D[:, :1], FieldSet(CLOUD, np.sin(5 * LOADS_2D[:, :1, None] + CLOUD[:, 1:])), {}),
    "Gaussian process": (LOADS_2D, OF_LOADS, {"base": PODRegressor(regressor="gaussian_process")}),
    "neighbours": (LOADS_2D[:, :1], OF_LOADS, {"base": PODRegressor(regressor="akima")}),
    "fields to fields": (FieldSet(CLOUD, FIELDS), FieldSet(CLOUD, np.tanh(FIELDS)), {"base": "auto"}),
    "a constant channel beside fields": (FieldSet(CLOUD, CONSTANTS, params=LOADS_2D[:, :1]), OF_LOADS, {}),
    "constant channels": (FieldSet(CLOUD, CONSTANTS[..., :1]), OF_LOADS, {}),
    "regions": (REGIONS, FieldSet(BENT, 1 / HALVES + BENT[:, :1]), {}),
    "table to scalars": (LOADS_2D, np.sin(3 * LOADS_2D), {"base": "auto"}),
    "coordinates of samples": (FieldSet(NODES, None), FieldSet(NODES, np.cos(3 * NODES)), {"base": "auto"}),
    "parameters alone": (
        FieldSet(NODES + 0.02 * RANDOM.normal(size=NODES.shape), None, params=LOADS_2D), OF_LOADS.values, {}
    ),
    "logarithms at each point": (
        LOADS_2D, FieldSet(CLOUD, np.exp(OF_LOADS.values[..., :1])),
        {"scaling": ScalingOptions(target_transform="log", targets="point")},
    ),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BASES)
def test_onnx_of_a_base_gives_the_numbers_of_predict(name, tmp_path):
    X, y, params = BASES[name]
    model = over_base(X, y, **params)
    model.export(tmp_path / "model.onnx", None if isinstance(X, np.ndarray) else X)
    require_parity(model, X, tmp_path / "model.onnx", counts=(24, 1), tolerance=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [AMORegressor, MNORegressor])
def test_onnx_of_base_and_network_on_scattered_points(kind, tmp_path):
    model = over_base(LOADS_2D, OF_LOADS, kind=kind, share=0.5)
    model.export(tmp_path / "model.onnx")
    require_parity(model, LOADS_2D, tmp_path / "model.onnx", counts=(24, 1), tolerance=1e-6)


def pod(X, y, **params):
    return PODRegressor(**params).fit(X, y)


PODS = {
    "table to scalars": (LOADS_2D, np.sin(3 * LOADS_2D), {}),
    "table to fields and scalars": (
        LOADS_2D, FieldSet(CLOUD, OF_LOADS.values, params=1e6 * LOADS_2D[:, :1], channel_names=["u", "v"]), {},
    ),
    "grid to grid": (SMALL_FIELDS, np.tanh(SMALL_FIELDS), {}),
    "logarithms": (1 + LOADS_2D, np.exp(5 * LOADS_2D[:, :1]) * (1 + LOADS_2D), {
        "param_transform": "log", "target_transform": "log",
    }),
    "regions beside parameters": (REGIONS, FieldSet(BENT, 1 / HALVES + BENT[:, :1]), {}),
    "coordinates of samples": (FieldSet(NODES, None), FieldSet(NODES, np.cos(3 * NODES)), {"grid": None}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
@pytest.mark.parametrize("name", PODS)
def test_programs_of_pod_give_the_numbers_of_predict(name, tmp_path):
    X, y, params = PODS[name]
    model = pod(X, y, **params)
    model.export(tmp_path / "model.pt2", None if X is LOADS_2D else X)
    require_parity(model, X, tmp_path / "model.pt2", counts=(24, 1), tolerance=1e-6)


@pytest.mark.parametrize("run", [run_program, run_onnx])
def test_programs_of_pod_have_no_number_where_predict_refuses(run, tmp_path):
    """An exact law of powers reads 0 and no negative number; one over decades has no value at 0."""
    path, wrong = str(tmp_path / ("model.pt2" if run is run_program else "model.onnx")), [[-1e-9], [0.0], [0.5]]
    for loads, law, at_zero in (
        (np.linspace(1, 2, 12), lambda x: x**1.5, 0.0), (np.logspace(-3, 3, 12), lambda x: 1 / x, np.nan),
    ):  # fmt: skip
        model = pod(loads[:, np.newaxis], law(loads[:, np.newaxis]))
        for refused in wrong[: 1 + np.isnan(at_zero)]:
            with pytest.raises(FieldDataError, match="positive"):
                model.predict([refused])
        model.export(path)
        found = run(path, model._read_inputs(wrong)[0], np.arange(3))["scalars"]
        np.testing.assert_allclose(found.ravel(), [np.nan, at_zero, law(0.5)], rtol=1e-6, atol=1e-9)


def test_a_sample_whose_field_is_zero_may_stand_for_the_points(tmp_path):
    loads = np.concatenate([np.zeros((1, 2)), LOADS_2D])
    y = FieldSet(CLOUD, (np.sin(3 * loads) @ CLOUD.T)[..., np.newaxis])
    for name, model in {"pod": pod(loads, y), "base": over_base(loads, y)}.items():
        assert np.abs(model.predict(loads[:1]).values).max() < 1e-4
        model.export(tmp_path / f"{name}.pt2", loads[:1])


def test_components_of_many_samples_have_a_graph(tmp_path):
    """Their vectors are in reverse order in memory."""
    X = np.random.default_rng(0).random((2200, 2))
    y = np.sin(X[:, :1] + X[:, 1:] ** 2)[..., None] * np.ones((1, 5, 1))
    model = PODRegressor(regressor="ridge").fit(X, y)
    model.export(tmp_path / "model.pt2")
    require_parity(model, X, tmp_path / "model.pt2", counts=(24, 1), tolerance=1e-6)


def test_onnx_of_pod_gives_the_numbers_of_predict(tmp_path):
    X, y, _ = PODS["table to fields and scalars"]
    model = pod(X, y)
    model.export(tmp_path / "model.onnx")
    require_parity(model, X, tmp_path / "model.onnx", counts=(24, 1), tolerance=1e-6)
    metadata = {row.key: row.value for row in pytest.importorskip("onnx").load(tmp_path / "model.onnx").metadata_props}
    assert metadata["estimator"] == "PODRegressor"
    assert json.loads(metadata["outputs"])["field"] == {
        "shape": ["batch", 11, 2], "dtype": "float64", "channels": ["u", "v"],
    }  # fmt: skip


REFUSALS = {
    "POD with another regressor": (
        lambda: pod(LOADS_2D, OF_LOADS, regressor=Ridge()), "m.pt2", None, r"regressor=Ridge\(\.\.\.\).*'auto'",
    ),
    "POD on a common grid": (
        lambda: pod(SHARED_FIELDS, SHARED_FIELDS, grid=(4, 4)), "m.pt2", SHARED_FIELDS, "common grid.*grid=None",
    ),
    "POD on other points": (
        lambda: pod(SHARED_FIELDS, SHARED_FIELDS), "m.pt2", FieldSet(NODES[0], FIELDS[:2]), "other points than in the",
    ),
    "POD without samples": (lambda: pod(SHARED_FIELDS, SHARED_FIELDS), "m.pt2", None, "export needs X"),
    "a base with another regressor": (
        lambda: over_base(LOADS_2D, OF_LOADS, base=PODRegressor(regressor=Ridge())), "m.onnx", None,
        r"PODRegressor\(regressor=Ridge\(\.\.\.\)\).*base=None",
    ),
    "another base": (
        lambda: over_base(LOADS_2D, OF_LOADS, base=MeanFieldRegressor()), "m.pt2", None, "a MeanField.*base=None",
    ),
    "other points than the base": (
        lambda: over_base(FieldSet(CLOUD, FIELDS), FieldSet(CLOUD, FIELDS)), "m.pt2",
        FieldSet(NODES[0], FIELDS[:2]), "interpolated from the points of the fit.*base=None",
    ),
    "no samples": (lambda: tiny(LaMORegressor).fit(GRID, GRID), "m.pt2", None, "export needs X"),
    "another suffix": (lambda: tiny(LaMORegressor).fit(GRID, GRID), "m.pt", GRID, "'.onnx' or '.pt2'"),
    "finer grid": (
        lambda: tiny(LaMORegressor).fit(GRID, GRID), "m.pt2", GRID.repeat(2, axis=1)[:, :11], "of another spacing",
    ),
    "resampled points": (
        lambda: tiny(LaMORegressor, grid=(4, 4)).fit(SHARED, SHARED), "m.pt2", SHARED, "interpolates between points",
    ),
    "averages": (
        lambda: tiny(LaMORegressor, symmetries=SymmetryOptions(names=["flip_x"], average_predictions=True)).fit(
            GRID, GRID
        ),
        "m.pt2", GRID, "symmetries average",
    ),
    "averages of moved points": (
        lambda: tiny(LaMORegressor, symmetries=SymmetryOptions(**TURNS, average_predictions=True)).fit(OWN, OWN),
        "m.onnx", OWN, r"symmetries average predictions; set SymmetryOptions\(average_predictions=False\)",
    ),
    "points of several numbers": (
        lambda: tiny(LaMORegressor).fit(SHARED, SHARED), "m.pt2", [(CLOUD, VALUES[0]), (CLOUD[:7], VALUES[1, :7])],
        "7 to 11",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_what_has_no_graph_is_named(tmp_path, subtests):
    for name, (make, file, X, words) in REFUSALS.items():
        with subtests.test(name):
            with pytest.raises(ValueError, match=words):
                make().export(tmp_path / file, X)
            assert not list(tmp_path.iterdir())


def test_a_graph_that_gives_other_numbers_is_not_written(tmp_path, monkeypatch):
    model = tiny(LaMORegressor).fit(OWN, OWN)
    truth = model.surrogate_.predict
    monkeypatch.setattr(Surrogate, "predict", lambda self, inputs: each_part(lambda part: 1.001 * part, truth(inputs)))
    with pytest.raises(FieldDataError, match="differs from predict"):
        model.export(tmp_path / "model.pt2", OWN)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named_before_the_graph_is_made(tmp_path, monkeypatch):
    model = tiny(LaMORegressor).fit(TABLE, TABLE[:, 0])
    monkeypatch.setattr(Surrogate, "predict", lambda *given: pytest.fail("the graph was made"))
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*none'.*make it first"):
        model.export(tmp_path / "none" / "model.pt2")


def test_a_missing_package_and_a_failing_conversion_are_named(tmp_path, monkeypatch):
    model = tiny(LaMORegressor).fit(TABLE, TABLE[:, 0])

    def fails(*args, **kwargs):
        raise RuntimeError("no operator of this name")

    monkeypatch.setattr(torch.onnx, "export", lambda program, *, dynamo, **kwargs: fails())
    with pytest.raises(SkopError, match=r"no operator of this name.*'\.pt2'"):
        model.export(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(OptionalDependencyError, match="pip install onnxscript"):
        model.export(tmp_path / "model.onnx")
