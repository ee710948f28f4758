"""Predictions outside of what a fit has seen: one warning that names what and by how much, and a table of all."""

import itertools
import pickle
import warnings
from dataclasses import replace

import meshio
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skop
from skop import (
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    LawRegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.data import MeshSeries, unit_grid
from skop.exceptions import ExtrapolationWarning, FieldDataError, ResolutionWarning
from skop.surrogate._domain import SeenRanges

from . import pod

RANDOM = np.random.default_rng(0)
DESIGN = pd.DataFrame({"E": RANDOM.uniform(190e9, 220e9, 60), "t": RANDOM.uniform(4e-3, 1e-2, 60)})
OUTPUT = DESIGN["E"] * DESIGN["t"] ** 3
POINTS = unit_grid((5, 4))


def fields(n_samples, seed=0, scale=1.0):
    """Two smooth input fields of different sizes, of which one changes its sign."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.5, 1.0, (2, n_samples, 1))
    x, y = POINTS.T
    values = np.stack([scale * a * np.sin(7 * x + a), 1e6 * (1 + b * y)], axis=-1)
    return FieldSet(POINTS, values, channel_names=["u", "k"])


def small(**params):
    return LaMORegressor(width=8, depth=1, batch_size=4, max_iter=1, random_state=0, base=None, **params)


def said_of(call, category=ExtrapolationWarning):
    """Messages of the warnings of a call; all of them must name this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    found = [item for item in caught if item.category is category]
    assert all(item.filename == __file__ for item in found)
    return [str(item.message) for item in found]


@pytest.fixture(scope="module")
def on_table():
    return pod().fit(DESIGN, OUTPUT)


@pytest.mark.parametrize("model", [pod(), LawRegressor(pod()), EnsembleRegressor(small(), n_members=2)], ids=repr)
def test_a_prediction_with_its_spread_says_what_one_without_says(model):
    fitted, far = model.fit(DESIGN, OUTPUT), 7 * DESIGN[:3]
    told = said_of(lambda: fitted.predict(far))
    assert len(told) == 1
    assert said_of(lambda: fitted.predict(far, return_std=True)) == told


@pytest.fixture(scope="module")
def on_fields():
    inputs = fields(20)
    return small().fit(inputs, inputs.with_values(inputs.values[..., :1]))


# ---------------------------------------------------------------- parameters
@pytest.mark.parametrize("levels", [(-1.0, 1.0), (0.0, 1.0), (1.0, 10.0, 100.0)])
@pytest.mark.parametrize("n_params", [2, 3])
@pytest.mark.parametrize("repeats", [1, 2])
def test_a_factorial_design_has_a_known_range_however_few_runs_there_are(levels, n_params, repeats):
    X = np.repeat(list(itertools.product(levels, repeat=n_params)), repeats, axis=0)
    model = PODRegressor(regressor="ridge").fit(X, X.sum(axis=1) ** 2)
    inside, outside = np.full((2, n_params), levels[-1])
    # Half of the range beyond the highest level; of levels over decades a factor of the half of their decades.
    outside[0] = levels[-1] ** 1.5 if len(levels) > 2 else levels[-1] + (levels[-1] - levels[0]) / 2
    assert not len(model.check(X))
    assert not len(model.check([inside, np.mean(X, axis=0)]))
    found = model.check([inside, outside])
    assert found["sample"].tolist() == [1]
    assert found["what"].tolist() == ["parameter 0"]


@pytest.mark.parametrize("relation", ["equal", "mixture", "of three"])
def test_parameters_that_followed_from_each_other_are_named_where_they_do_not(relation):
    rng = np.random.default_rng(4)
    table = pd.DataFrame(rng.uniform(1, 2, (60, 4)), columns=["a", "b", "c", "d"])
    shape = {
        "equal": lambda rows: rows.assign(b=3e6 * rows["a"]),
        "mixture": lambda rows: rows.div(rows.sum(axis=1), axis=0),
        "of three": lambda rows: rows.assign(d=5 + rows["a"] - 2e-3 * rows["b"] + 1e-6 * rows["c"]),
    }[relation]
    seen, new = shape(table[:40]), shape(table[40:])
    model = pod().fit(seen, seen["a"] * seen["c"])
    assert not len(model.check(new))
    # Each value is one that the fit has seen.
    changed = {"equal": "b", "mixture": "a", "of three": "d"}[relation]
    other = new.assign(**{changed: seen[changed].to_numpy()[:20]})
    off = np.abs(other[changed] - new[changed]) > 0.1 * np.ptp(seen[changed])
    found = model.check(other)
    assert set(np.flatnonzero(off)) <= set(found["sample"])
    assert found["what"].str.contains(" beside parameter ").all()
    with pytest.warns(
        ExtrapolationWarning, match=r"parameter '\w' beside .* is .* in sample .*, by their relation in the fit"
    ):
        model.predict(other)


def test_random_designs_have_no_relations():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n_params = 1 + seed % 7
        units = rng.choice([-1, 1], n_params) * 10.0 ** rng.integers(-9, 9, n_params)
        X = rng.random((2 * n_params + 1 + seed % 5, n_params)) ** (1 + seed % 3) * units
        assert SeenRanges.from_fit(FieldSet(np.zeros((1, 1)), None, params=X)).relations is None


def test_a_relation_of_one_fit_is_forgotten_by_a_warm_start_without_it():
    rng = np.random.default_rng(5)
    table = rng.random((30, 2))
    equal = np.column_stack([table[:, 0]] * 2)
    model = LaMORegressor(width=8, depth=1, max_iter=1, base=None, warm_start=True, random_state=0)
    model.fit(equal, table[:, 0])
    # Other samples with the same relation have other deviations.
    other = rng.random((40, 1)) * [0.9, 0.9]
    assert len(model.fit(other, other[:, 0]).check([[0.2, 0.7]])) == 1
    assert not len(model.fit(table, table[:, 0]).check(table))


def test_repeated_runs_of_random_parameters_are_no_design():
    alarms = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X = np.repeat(rng.random((10, 2)), 2, axis=0)
        model = PODRegressor(regressor="mean").fit(X, X.sum(axis=1) + rng.normal(size=20))
        alarms += len(model.check(rng.random((1, 2))))
    assert alarms <= 2


def test_a_unit_mistake_is_named_with_its_parameter_sample_and_distance(on_table):
    wrong = DESIGN.iloc[:4].copy()
    wrong.loc[2, "E"] /= 1e6
    (message,) = said_of(lambda: on_table.predict(wrong))
    low, high = DESIGN["E"].min(), DESIGN["E"].max()
    assert f"parameter 'E' is {wrong.loc[2, 'E']:.3g} in sample 2, in the fit {low:.3g} to {high:.3g}" in message
    assert f"({low / (high - low):.2g} times this range outside)" in message
    assert said_of(lambda: on_table.score(wrong, OUTPUT[:4])) == [message]


@pytest.mark.parametrize("sign", [1, -1])
def test_distances_of_numbers_over_decades_are_those_of_their_logarithms(sign):
    """Six decades below the smallest were 1e-6 times the range outside, and a far larger number came first."""
    values = 10 ** np.linspace(-3, 3, 40)
    model = PODRegressor(regressor="ridge").fit(np.column_stack([sign * values, RANDOM.random(40)]), np.sqrt(values))
    found = model.check([[sign * 1e-9, 0.5], [sign * 1e9, 0.5], [0.0, 0.5]])
    assert found["excess"].tolist() == pytest.approx([1.0, 1.0, np.inf])
    (message,) = said_of(lambda: model.predict([[sign * 1e-9, 0.5], [sign * 1e4, 0.5]]))
    assert f"{sign * 1e-9:.3g} in sample 0" in message
    assert "(1 times this range outside, in logarithms)" in message


def test_a_design_in_another_unit_is_always_seen(on_table, subtests):
    for factor in [1e3, 10.0, 0.1, 1e-3]:
        with subtests.test(factor=factor):
            for column in DESIGN:
                wrong = DESIGN.copy()
                wrong[column] *= factor
                assert said_of(lambda wrong=wrong: on_table.predict(wrong.iloc[:1]))


def test_the_table_has_a_row_for_each_number_outside(on_table):
    wrong = DESIGN.iloc[:4].copy()
    wrong.loc[2, "E"] /= 1e6
    wrong.loc[[0, 3], "t"] = [0.1, 1.0]
    table = on_table.check(wrong)
    assert sorted(zip(table["sample"], table["what"], table["value"], strict=True)) == [
        (0, "parameter 't'", 0.1),
        (2, "parameter 'E'", wrong.loc[2, "E"]),
        (3, "parameter 't'", 1.0),
    ]
    low, high = DESIGN["t"].min(), DESIGN["t"].max()
    row = table[table["sample"] == 3].iloc[0]
    assert (row["lowest"], row["highest"]) == (low, high)
    assert row["excess"] == pytest.approx((1.0 - high) / (high - low))
    assert len(on_table.check(DESIGN)) == 0
    assert list(on_table.check(DESIGN)) == ["sample", "what", "value", "lowest", "highest", "excess"]


@pytest.mark.parametrize(("offset", "size"), [(101325.0, 0.02), (5e5, 0.1), (1.7e9, 60.0)])
def test_a_small_range_beside_a_large_offset_is_a_range(offset, size):
    """Pascals, metres of a map and seconds of a clock have enough digits in double precision."""
    rows = np.random.default_rng(0).random((60, 2))
    model = PODRegressor(regressor="ridge").fit(offset + size * rows, rows[:, 0] + rows[:, 1] ** 2)
    assert said_of(lambda: model.predict(offset + size * np.array([[2.0, 0.5]])))
    assert not said_of(lambda: model.predict(offset + size * rows))
    # In single precision these numbers are rounded.
    coarse = (offset + size * rows).astype(np.float32)
    model = PODRegressor(regressor="ridge").fit(coarse, rows[:, 0])
    assert not said_of(lambda: model.predict(coarse))


def test_a_parameter_that_never_varied_may_not_vary_now(on_table):
    constant = DESIGN.assign(t=0.005)
    model = pod().fit(constant, OUTPUT)
    assert len(model.check(constant)) == 0
    (message,) = said_of(lambda: model.predict(constant.assign(t=0.0051)))
    assert "parameter 't' is 0.0051 in sample 0, in the fit always 0.005" in message


# ---------------------------------------------------------------- fields
@pytest.mark.parametrize("scale", [1e3, 10.0, 1e-3])
def test_a_field_in_another_unit_is_named(on_fields, scale):
    (message,) = said_of(lambda: on_fields.predict(fields(3, seed=1, scale=scale)))
    assert "channel 'u'" in message
    assert "'k'" not in message
    assert ("size of" in message) == (scale < 1)


def test_fields_in_a_file_are_read_in_part_for_a_warning_and_wholly_for_the_table(on_fields, tmp_path):
    inputs = fields(100, seed=1, scale=1.0)
    values = np.array(inputs.values)
    values[1] *= 1e3
    np.save(tmp_path / "values.npy", values)
    on_disk = FieldSet(POINTS, np.load(tmp_path / "values.npy", mmap_mode="r"), channel_names=["u", "k"])
    assert not on_disk.in_memory
    assert set(on_fields.check(on_disk)["sample"]) == {1}
    on_disk = FieldSet(POINTS, np.load(tmp_path / "values.npy", mmap_mode="r")[:2], channel_names=["u", "k"])
    assert "sample 1" in said_of(lambda: on_fields.predict(on_disk))[0]


# ---------------------------------------------------------------- points and times
def meshes(n_samples, scale=1.0, n_points=40):
    """Point sets that are no grid, each of its own in a box of about 2 x 1."""
    rng = np.random.default_rng(3)
    return FieldSet(scale * rng.uniform(0, [2.0, 1.0], (n_samples, n_points, 2)))


def test_points_in_another_unit_are_seen_though_they_lie_in_the_box():
    inputs = meshes(12)
    model = small().fit(inputs, inputs.with_values(np.ones((12, 40, 1))))
    (message,) = said_of(lambda: model.predict(meshes(2, scale=1e-3)))
    assert "longest side is 0.00" in message
    assert "spacing is 0.000" in message
    assert not said_of(lambda: model.predict(meshes(2, n_points=150)))
    # What lies outside the box has a warning of its own, and is in the table too.
    assert not said_of(lambda: model.predict(meshes(2, scale=1e3)))
    assert said_of(lambda: model.predict(meshes(2, scale=1e3)), ResolutionWarning)
    assert {"coordinate 0", "coordinate 1"} <= set(model.check(meshes(2, scale=1e3))["what"])
    assert len(model.check(meshes(2))) == 0


def test_times_outside_of_those_of_the_fit_are_named():
    y = np.cumsum(np.ones((60, 4)), axis=1) * DESIGN["t"].to_numpy()[:, None]
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=[0.0, 0.2, 0.4, 0.8]).fit(DESIGN, y)
    assert not said_of(lambda: model.predict(DESIGN, times=[0.1, 0.8]))
    (message,) = said_of(lambda: model.predict(DESIGN, times=[0.1, 10.0]))
    assert "time is 10, in the fit 0 to 0.8 (11 times this range outside)" in message
    table = model.check(DESIGN, times=[0.1, 10.0])
    assert table["what"].tolist() == ["time"]
    assert table["sample"].isna().all()
    assert len(model.check(DESIGN)) == 0


@pytest.mark.parametrize("times", [np.geomspace(0.05, 1.6, 6), np.linspace(0.05, 1.6, 32)])
def test_each_time_before_the_first_frame_or_after_the_last_is_named(times):
    y = np.ones(len(times)) * DESIGN["t"].to_numpy()[:, None]
    model = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=times).fit(DESIGN, y)
    # Times in files have six digits.
    assert not said_of(lambda: model.predict(DESIGN, times=[0.05, 0.0500001, 0.0499999, 0.7, 1.6000001]))
    (message,) = said_of(lambda: model.predict(DESIGN, times=[0.01, 0.7, 0.001, 3.2]))
    for time in ("0.01", "0.001", "3.2"):
        assert f"time is {time}, in the fit 0.05 to 1.6 (" in message
    assert model.check(DESIGN, times=[0.01, 0.7, 0.001, 3.2])["value"].tolist() == [0.001, 0.01, 3.2]


# ---------------------------------------------------------------- other estimators
def test_estimators_that_wrap_others_warn_once_and_of_the_users_data(on_fields):
    inputs = fields(12)
    wrong = fields(2, seed=1, scale=1e3)
    frames = np.tile(np.asarray(inputs.values), 2)
    rollout = RolloutRegressor(small(), window=1).fit(inputs, inputs.with_values(frames))
    ensemble = EnsembleRegressor(small(), n_members=2).fit(inputs, inputs.with_values(inputs.values[..., :1]))
    for model in (rollout, ensemble):
        assert not said_of(lambda model=model: model.predict(fields(2)))
        (message,) = said_of(lambda model=model: model.predict(wrong))
        assert "channel 'u'" in message
        assert set(model.check(wrong)["what"]) == {"channel 'u'"}


def test_the_users_line_is_named_through_tools_of_scikit_learn(on_table):
    split = [(np.arange(40), np.arange(40, 60))]
    wrong = DESIGN.copy()
    wrong.iloc[40:] *= 100
    assert len(said_of(lambda: cross_val_score(pod(), wrong, OUTPUT, cv=split))) == 1
    pipeline = make_pipeline(FunctionTransformer(), pod()).fit(DESIGN, OUTPUT)
    assert len(said_of(lambda: pipeline.predict(wrong))) == 1


def test_a_loop_prints_the_same_warning_once(on_table):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            on_table.predict(DESIGN * 100)
    assert [item.category for item in caught] == [ExtrapolationWarning]


def test_samples_without_weight_are_not_seen():
    weight = np.ones(60)
    weight[:30] = 0
    wrong = DESIGN.copy()
    wrong.iloc[:30] *= 100
    model = small().fit(wrong, OUTPUT, sample_weight=weight)
    assert set(model.check(wrong)["sample"]) == set(range(30))


@pytest.mark.parametrize(
    "model",
    [RolloutRegressor(small(), window=1, noise=0.5, random_state=0), TimeConditionedRegressor(small(), random_state=0)],
)
def test_trajectories_without_weight_are_as_if_they_were_not_there(model):
    """In the ranges, in the size of the noise, and in the warnings about odd data."""
    frames, weight = np.random.default_rng(0).standard_normal((12, 4, 4, 3)), np.ones(12)
    weight[:2], frames[:2] = 0, 1000.0 * frames[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(frames[..., :1], frames[..., 1:], sample_weight=weight)
    odd = np.where(np.arange(12)[:, None, None, None] == 5, 1e4, 1.0) * frames
    with pytest.warns(skop.exceptions.SkopWarning, match="X of sample 5 is of another size"):
        clone(model).fit(odd[..., :1], frames[..., 1:], sample_weight=weight)
    assert set(model.check(frames[..., :1])["sample"]) == {0, 1}
    predicted = model.predict(frames[2:, ..., :1])
    model.fit(frames[2:, ..., :1], frames[2:, ..., 1:], sample_weight=weight[2:])
    np.testing.assert_allclose(model.predict(frames[2:, ..., :1]), predicted, rtol=1e-5)
    warnings.simplefilter("ignore")
    for wrong, words in ((-weight, "sample_weight"), (0 * weight, "zero")):
        with pytest.raises(ValueError, match=words):
            model.fit(frames[..., :1], frames[..., 1:], sample_weight=wrong)


@pytest.mark.parametrize("wrap", [lambda inner: inner, TimeConditionedRegressor])
def test_parameters_beside_fields_have_their_names(wrap):
    model = wrap(small()).fit(
        np.ones((60, 4, 4, 1)), np.ones((60, 4, 4, 1)) * DESIGN["t"].to_numpy()[:, None, None, None], params=DESIGN
    )
    found = model.check(np.ones((60, 4, 4, 1)), params=DESIGN.assign(E=DESIGN["E"] * 1e-9))
    assert set(found["what"]) == {"parameter 'E'"}


def test_a_warm_start_adds_to_what_was_seen():
    model = small(warm_start=True).fit(DESIGN, OUTPUT)
    assert len(model.check(DESIGN * 10)) == 120
    model.fit(DESIGN * 10, OUTPUT)
    assert len(model.check(DESIGN * 10)) == len(model.check(DESIGN)) == 0


# ---------------------------------------------------------------- files
def test_ranges_are_saved_and_pickled(on_fields, on_table, tmp_path):
    for model, wrong in ((on_fields, fields(2, seed=1, scale=1e3)), (on_table, DESIGN * 100)):
        model.save(tmp_path / "model.skop")
        expected = model.check(wrong)
        assert len(expected)
        for copy in (skop.load(tmp_path / "model.skop"), pickle.loads(pickle.dumps(model))):
            pd.testing.assert_frame_equal(copy.check(wrong), expected)


def test_a_model_of_an_earlier_version_predicts_without_a_check(on_table, tmp_path):
    old = pickle.loads(pickle.dumps(on_table))
    del old.ranges_
    old.save(tmp_path / "old.skop")
    loaded = skop.load(tmp_path / "old.skop")
    assert not said_of(lambda: loaded.predict(DESIGN * 100))
    with pytest.raises(FieldDataError, match="saved by an earlier version of skop"):
        loaded.check(DESIGN)


def test_a_prediction_far_outside_of_y_is_named_whatever_x_is():
    params = np.linspace(0, 1, 30)[:, None]
    inner = PODRegressor(regressor="polynomial").fit(params, 1 + params**3)
    assert not said_of(lambda: inner.predict([[0.5], [1.04]]))
    inner.ranges_ = replace(inner.ranges_, params=10 * inner.ranges_.params)  # so that nothing is said of X
    (message,) = said_of(lambda: inner.predict([[4.0], [0.5]]))
    assert message.startswith(
        "a prediction of scalar 0 is 65, but y of the fit was 1 to 2 (63 times this range outside)"
    )


# ---------------------------------------------------------------- samples from files
def run_files(folder, loads):
    """Files with a field that is a load, and at two times."""
    paths = []
    for number, load in enumerate(loads):
        points = np.c_[POINTS, np.zeros(len(POINTS))]
        mesh = meshio.Mesh(
            points, [("vertex", np.arange(20)[:, None])], {"q": load + points[:, 0], "u": load * points[:, 1]}
        )
        paths.append(folder / f"run_{number:02d}.vtu")
        mesh.write(paths[-1])
        MeshSeries([mesh, mesh], np.arange(2.0)).write(folder / f"series_{number:02d}.pvd")
    return paths


def test_files_are_named(tmp_path):
    (tmp_path / "fit").mkdir()
    (tmp_path / "new").mkdir()
    run_files(tmp_path / "fit", np.linspace(1, 2, 12))
    paths = run_files(tmp_path / "new", [1.2, 1.4, 40.0])
    place = f"in sample 2 ({paths[2]})"
    model = pod(input_fields=["q"], target_fields=["u"])
    files = sorted(map(str, (tmp_path / "fit").glob("run_*.vtu")))
    model.fit(files, params={"load": np.linspace(1, 2, 12)})
    params = {"load": [1.2, 1.4, 1.6]}
    column = pd.DataFrame({"file": map(str, paths), **params}, index=[7, 8, 9])
    for source, options in (
        (str(tmp_path / "new" / "run_*.vtu"), {"params": pd.DataFrame(params, index=[p.stem for p in paths])}),
        (paths, {"params": params}),
        (column, {}),
    ):
        for call in (model.predict, model.score):
            (said,) = said_of(lambda call=call, source=source, options=options: call(source, **options))
            assert said.count(place) == said.count("sample 2") > 0
        table = model.check(source, **options)
        assert set(zip(table["sample"], table["file"], strict=True)) == {(2, str(paths[2]))}
    (said,) = said_of(lambda: model.predict(paths[:1], params={"load": [9.0]}))
    assert f"parameter 'load' is 9 in sample 0 ({paths[0]})" in said
    assert "file" not in model.check([meshio.read(path) for path in paths], params=params)
    # Of time series it is the file or the folder of the run, as there are several files.
    series = RolloutRegressor(pod(target_fields=["u"]), window=1).fit(str(tmp_path / "fit" / "*.pvd"))
    for pattern, name in (("*.pvd", "series_02.pvd"), ("series_*/*.vtu", "series_02")):
        (said,) = said_of(lambda pattern=pattern: series.predict(str(tmp_path / "new" / pattern)))
        assert f"in sample 2 ({tmp_path / 'new' / name})" in said
