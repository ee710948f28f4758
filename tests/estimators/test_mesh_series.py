"""Time series of meshes through RolloutRegressor and TimeConditionedRegressor: files in, series out."""

import copy
import warnings

import meshio
import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score

import skop
from skop import (
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.data import MeshSeries, find_runs, read_frames, read_mesh_series
from skop.estimators.files._card import card_of
from skop.exceptions import FieldDataError, SkopWarning

from . import pod

#: A network that is small.
TINY = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0, "base": None}
TIMES = np.array([0.0, 0.5, 1.0, 1.5])
X, Y = np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 3), indexing="ij")
POINTS = np.stack([X.ravel(), (Y + 0.1 * X**2).ravel(), np.ones(12)], axis=1)
CORNER = np.arange(12).reshape(4, 3)[:-1, :-1].ravel()
CELLS = [("quad", CORNER[:, None] + [0, 3, 4, 1])]


def run(number, times=TIMES, stretch=1.0):
    """A field that decays from a start of its own."""
    points = POINTS * [stretch, 1, 1]
    start = np.sin(number + 3 * points[:, 0]) + points[:, 1] * number
    meshes = []
    for time in times:
        u = start * np.exp(-time)
        data = {"u": u, "start": start, "w": np.stack([u, -u], axis=1)}
        on_cells = {"flux": [u[CORNER]], "material": [np.arange(len(CORNER))]}
        meshes.append(meshio.Mesh(points, CELLS, data, on_cells, field_data={"inlet": np.array([7, 1])}))
    return MeshSeries(meshes, np.array(times))


def runs(count=6):
    return [run(number) for number in range(count)]


@pytest.fixture
def folder(tmp_path):
    for number, series in enumerate(runs()):
        series.write(tmp_path / f"run_{number}.pvd")
    return tmp_path


def frames(series, name="u"):
    """Values of all runs, (n, P, T c)."""
    return np.stack([np.concatenate([np.c_[mesh.point_data[name]] for mesh in item.meshes], axis=1) for item in series])


def rollout(**params):
    return RolloutRegressor(pod(target_fields=["u"]), window=2).set_params(**params)


def by_time(**params):
    inner = pod(input_fields=["start"], target_fields=["u"])
    return TimeConditionedRegressor(inner).set_params(**params)


# ---------------------------------------------------------------------- rollout
def test_rollouts_from_files_to_files(folder, tmp_path):
    """A pattern of collections, a pattern of folders of files, and series in memory are the same."""
    model = rollout().fit(str(folder / "run_*.pvd"))
    points = POINTS[:, :2]
    values = frames(runs())
    arrays = RolloutRegressor(pod(), window=2).fit(FieldSet(points, values[..., :2]), FieldSet(points, values[..., 2:]))
    expected = arrays.predict(FieldSet(points, values[..., :2])).values
    patterns = [str(folder / name) for name in ("run_*/run_*_*.vtu", "run_*.pvd")]
    # Files without a collection have the numbers in their names as times.
    for source, times in zip((*patterns, runs()), ([2, 3], [1.0, 1.5], [1.0, 1.5]), strict=True):
        found = rollout().fit(source).predict(source)
        assert [series.times.tolist() for series in found] == [times] * 6
        np.testing.assert_allclose(frames(found), expected, atol=1e-12)
    assert model.score(str(folder / "run_*.pvd")) == pytest.approx(
        arrays.score(FieldSet(points, values[..., :2]), FieldSet(points, values[..., 2:]))
    )
    assert model.error_by_step(runs()).shape == (2,)
    # Where the run holds the frame, the truth and all other data of that time are beside the prediction.
    found[1].write(tmp_path / "out" / "run_1.pvd")
    (again,) = read_mesh_series(tmp_path / "out" / "run_1.pvd")
    mesh, true = again.meshes[1], run(1).meshes[3]
    np.testing.assert_array_equal(mesh.point_data["u_true"], true.point_data["u"])
    np.testing.assert_allclose(mesh.point_data["u_error"], mesh.point_data["u"] - true.point_data["u"])
    np.testing.assert_array_equal(mesh.cell_data["material"][0], true.cell_data["material"][0])


def test_rollouts_go_on_in_time():
    model = rollout().fit(runs())
    short = [run(1, TIMES[:2])]
    (found,) = model.predict(short, n_steps=4)
    assert found.times.tolist() == [1.0, 1.5, 2.0, 2.5]
    assert [list(mesh.point_data) for mesh in found.meshes] == [["u"]] * 4
    # Frames after those of the run have the names of its groups too.
    assert [mesh.field_data["inlet"].tolist() for mesh in found.meshes] == [[7, 1]] * 4
    np.testing.assert_allclose(frames([found])[..., :2], frames(model.predict(runs())[1:2]))
    (known,) = model.predict(runs()[1:2], n_steps=3)
    assert ["u_true" in mesh.point_data for mesh in known.meshes] == [True, True, False]
    first = rollout(window=1).fit(runs()).predict([run(1, TIMES[:1])])
    assert first[0].times.tolist() == [0.5, 1.0, 1.5]
    # Frames as fields on their points still work.
    assert model.predict(FieldSet(POINTS[:, :2], frames(short))).shape == (1, 12, 2)


def test_rollouts_refuse_runs_at_another_step(tmp_path, subtests):
    """A model of one step would label its frames by the times of the run, and compare them with other frames."""
    model = rollout().fit(runs())
    model.save(tmp_path / "model.skop")
    band = ConformalRegressor(rollout(), **BAND).fit(runs(20))
    mean = EnsembleRegressor(rollout().set_params(noise=0.1), n_members=2)
    uses = {
        "predict": model.predict,
        "score": model.score,
        "check": model.check,
        "novelty": lambda X: model.novelty(X, level=None),
        "error_by_step": model.error_by_step,
        "loaded": skop.load(tmp_path / "model.skop").predict,
        "band": band.predict_interval,
        "ensemble": mean.fit(runs()).predict,
        "frozen": lambda X: ConformalRegressor(FrozenEstimator(model), **BAND).fit(X * 20),
    }
    cases = {"1": 2 * TIMES, "0.25": TIMES / 2, "0.5 to 2": [0, 0.5, 1, 3]}
    for name, use in uses.items():
        for came, times in cases.items():
            said = rf"frames that are {came} apart in time, the fit has 0\.5;"
            with subtests.test(use=name, came=came), pytest.raises(FieldDataError, match=said):
                use([run(1, times)] if name == "frozen" else [run(0), run(1, times)])
    with subtests.test("window"), pytest.raises(FieldDataError, match=r"1 apart in time, the fit has 0\.5;"):
        model.predict([run(1, 2 * TIMES[:2])])


def test_rollouts_take_steps_that_are_rounded_or_not_used():
    model = rollout().fit(runs())
    for times in (1.004 * TIMES, [0.0, 0.498, 0.999, 1.5], TIMES + 0.5, [*TIMES, 9.0]):
        assert model.predict([run(1, times)])[0].times.tolist() == list(times[2:4])
    uneven = [*TIMES[:3], 9.0]
    assert model.predict([run(1, uneven)], n_steps=1)[0].times.tolist() == [1.0]
    with pytest.raises(FieldDataError, match=r"0\.5 to 8 apart"):
        model.predict([run(1, uneven)])
    # A fit on frames that are not equally far apart has warned, and takes such frames again.
    steps = [0, 0.5, 1, 3]
    with pytest.warns(SkopWarning, match="apart in time; a rollout learns one step"):
        model = rollout().fit([run(number, steps) for number in range(6)])
    assert model.predict([run(1, steps)])[0].times.tolist() == [1, 3]
    with pytest.raises(FieldDataError, match=r"3 apart in time, the fit has 0\.5 to 2;"):
        model.predict([run(1, 6 * TIMES)])
    # A model of an earlier version, which holds no range of steps, predicts what it predicted.
    del model.series_["steps"]
    assert model.predict([run(1, 6 * TIMES)])[0].times.tolist() == [6, 9]
    # Frames after those of the fit are not looked at.
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkopWarning)
        model = rollout(n_steps=1).fit([run(number, uneven) for number in range(6)])
    with pytest.raises(FieldDataError, match=r"1 apart in time, the fit has 0\.5;"):
        model.predict([run(1, 2 * TIMES)])


def test_rollouts_on_meshes_of_their_own_and_vectors(tmp_path):
    """The second case: each run on a mesh of its own, with two fields of which one is a vector."""
    inner = LaMORegressor(target_fields=["w", "u"], width=8, depth=1, max_iter=1, random_state=0)
    series = [run(number, stretch=1 + 0.1 * number) for number in range(4)]
    for mesh in series[1].meshes:
        # One run has a point more, and one that no cell uses.
        mesh.points = np.concatenate([mesh.points, [[0.5, 0.5, 1], [9, 9, 1]]])
        mesh.point_data = {name: np.concatenate([data, data[:1], data[:1]]) for name, data in mesh.point_data.items()}
        mesh.cells, mesh.cell_data = [*mesh.cells, meshio.CellBlock("vertex", np.array([[12]]))], {}
    with pytest.warns(SkopWarning, match="4 points in 4 of 16 meshes") as caught:
        model = RolloutRegressor(inner, window=2).fit(series)
    assert len([item for item in caught if "belong to no cell" in str(item.message)]) == 1
    with pytest.warns(SkopWarning, match="2 points in 2 of 2 meshes"):
        (own,) = model.predict(series[1:2])
    assert np.flatnonzero(np.isnan(own.meshes[0].point_data["u"])).tolist() == [13]
    found = model.predict(series[2:])
    for item, true in zip(found, series[2:], strict=True):
        np.testing.assert_array_equal(item.meshes[0].points, true.meshes[0].points)
        assert [item.meshes[k].point_data["w"].shape for k in range(2)] == [(12, 2), (12, 2)]
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop").set_params(estimator__target_fields=["start"])
    np.testing.assert_array_equal(frames(loaded.predict(series[2:])), frames(found))
    assert loaded.score(series[2:]) == model.score(series[2:])


def test_cells_and_ensembles_and_cross_validation():
    inner = pod(target_fields=["flux"], cell_data="cells")
    found = RolloutRegressor(inner, window=2).fit(runs()).predict(runs())
    for mesh, true in zip(found[2].meshes, run(2).meshes[2:], strict=True):
        np.testing.assert_array_equal(mesh.cell_data["flux_true"][0], true.cell_data["flux"][0])
        assert "flux" not in mesh.point_data
    assert np.isfinite(cross_val_score(rollout(), runs(), cv=2, error_score="raise")).all()
    tiny = LaMORegressor(target_fields=["u"], width=8, depth=1, max_iter=1)
    model = EnsembleRegressor(RolloutRegressor(tiny, window=2), n_members=2, random_state=0).fit(runs())
    mean, spread = model.predict(runs(), return_std=True)
    members = [frames(member.predict(runs())) for member in model.estimators_]
    np.testing.assert_allclose(frames(mean), np.mean(members, axis=0), rtol=1e-5)
    for series in (mean, spread):
        np.testing.assert_allclose(frames(series, "u_spread"), np.std(members, axis=0), rtol=1e-3, atol=1e-6)
    assert np.isfinite(model.score(runs()))


# ---------------------------------------------------------------------- time as a parameter
def test_an_input_that_is_the_first_frame_is_named_and_none_where_it_is_asked_for():
    def said(*names, target="u"):
        inner = pod(input_fields=[*names], target_fields=[target])
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            TimeConditionedRegressor(inner).fit(runs(12))
        return [str(item.message) for item in found if "equals" in str(item.message)]

    (words,) = said("start")
    assert words.startswith("channel 'start' of X equals channel 'u in frame 0' of y in every sample")
    assert said("u") == said("w", target="w") == []
    # Beside it another copy of the first frame is named.
    assert len(said("u", "start")) == 1


def test_time_conditioned_from_files_to_series(folder, tmp_path):
    model = by_time().fit(str(folder / "run_*.pvd"))
    np.testing.assert_array_equal(model.times_, TIMES)
    found = model.predict(str(folder / "run_*.pvd"))
    points, values = POINTS[:, :2], frames(runs())
    start = FieldSet(points, np.stack([np.c_[item.meshes[0].point_data["start"]] for item in runs()]))
    arrays = TimeConditionedRegressor(pod(), times=TIMES).fit(start, FieldSet(points, values))
    np.testing.assert_allclose(frames(found), arrays.predict(start).values, atol=1e-10)
    assert model.score(runs()) == pytest.approx(arrays.score(start, FieldSet(points, values)))
    errors = model.error_by_time(runs())
    assert errors.shape == (4,)
    # Runs whose frames are at other times are evaluated at these, and refused elsewhere.
    firsts = [MeshSeries(item.meshes[:2], item.times[:2]) for item in runs()]
    np.testing.assert_allclose(model.error_by_time(firsts, times=TIMES[:2]), errors[:2])
    with pytest.raises(FieldDataError, match=r"has 4 frames at times 0 to .*, times has 2 at 0 to "):
        model.error_by_time(runs(), times=TIMES[:2])
    np.testing.assert_array_equal(found[1].meshes[2].point_data["u_true"], run(1).meshes[2].point_data["u"])
    # Inputs may be the first frame only, in a list of meshes; other times are predicted with the inputs beside them.
    firsts = [item.meshes[0] for item in runs()]
    np.testing.assert_allclose(frames(model.predict(firsts)), frames(found))
    between = model.predict(firsts, times=[0.25, 0.75])[3]
    assert between.times.tolist() == [0.25, 0.75]
    assert list(between.meshes[0].point_data) == ["u", "start"]
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(frames(skop.load(tmp_path / "model.skop").predict(runs())), frames(found))


def expect_truth(found, number, known):
    """Predictions at some times have the truth of these times, and none where the run has no frame."""
    assert found.times.tolist() == list(known)
    for (time, has_truth), mesh in zip(known.items(), found.meshes, strict=True):
        assert {"u_true", "u_error"} & set(mesh.point_data) == ({"u_true", "u_error"} if has_truth else set())
        if has_truth:
            np.testing.assert_array_equal(mesh.point_data["u_true"], run(number, [time]).meshes[0].point_data["u"])


@pytest.mark.parametrize("inputs", [["u"], ["start", "u"]])
def test_an_input_is_no_truth_at_other_times(folder, inputs):
    """A field that is input and target is the truth of the first frame only, where it was read as an input."""
    model = by_time(estimator__input_fields=inputs).fit(runs())
    for source in (str(folder / "run_1.pvd"), runs()[1:2]):
        (found,) = model.predict(source, times=[0.25, 0.5, 7.0])
        expect_truth(found, 1, {0.25: False, 0.5: True, 7.0: False})
        assert all(("start" in mesh.point_data) == ("start" in inputs) for mesh in found.meshes[::2])
    first = {time: time == 0 for time in TIMES}
    for single in ([run(1).meshes[0]], [run(1, TIMES[:1])], [str(folder / "run_1" / "run_1_0000.vtu")]):
        expect_truth(model.predict(single)[0], 1, first)
    # Frames of rollouts after the last one of the run.
    again = rollout(estimator__input_fields=["u"]).fit(runs()).predict(runs()[1:2], n_steps=3)[0]
    expect_truth(again, 1, {1.0: True, 1.5: True, 2.0: False})


def test_a_single_frame_is_the_first_of_a_run(tmp_path):
    """The number in the name of a single file is no time: here it would name another frame of the fit."""
    times = np.arange(4.0)
    model = by_time().fit([run(number, times) for number in range(6)])
    for number in (0, 2):
        run(1).meshes[0].write(tmp_path / f"case_{number}.vtu")
        (found,) = model.predict([str(tmp_path / f"case_{number}.vtu")])
        expect_truth(found, 1, {time: time == number == 0 for time in times})


def test_frames_of_other_decades_are_no_truth():
    """Neither where the run has a frame nearby, nor where it has none of the early times."""
    times = [0.0, 1e-9, 1e-7, 1e-3, 1.0]
    model = by_time().fit([run(number, times) for number in range(6)])
    asked = {0.0: True, 1e-9: True, 5e-8: False, 1e-7: True, 2e-7: False, 1.0: True}
    expect_truth(model.predict([run(1, times)], times=list(asked))[0], 1, asked)
    few = {0.0: True, 1e-9: False, 1e-3: False, 1.0: True}
    expect_truth(model.predict([run(1, [0.0, 1.0])], times=list(few))[0], 1, few)
    with pytest.raises(FieldDataError, match=r"series 1 has 5 .*\(frame 1, counted from 0: 9e-10 and 1e-09\); expe"):
        by_time().fit([run(0, times), run(1, [0.0, 9e-10, *times[2:]])])


def test_a_run_in_another_unit_of_time_is_named():
    model = by_time().fit(runs())
    other = [run(1, TIMES * 1000)]
    with pytest.warns(SkopWarning, match=r"4 frames at times 0 to 1500, .* 0 to 1\.5, and no frame of it is"):
        found = model.predict(other)
    assert found[0].times.tolist() == TIMES.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for known in (runs()[1:2], [run(1, TIMES[:2])], [run(1, TIMES[:1])], [run(1).meshes[0]]):
            model.predict(known)
        # Given times are meant.
        model.predict([run(1, [0.0, 0.3])], times=[0.3])


def test_the_card_names_fields_and_frames():
    for model, frame_names in ((by_time(), [f"t = {time:g}" for time in TIMES]), (rollout(), ["frame 2", "frame 3"])):
        inner = model.estimator.set_params(target_fields=["u", "w"])
        model.set_params(estimator=inner).fit(runs())
        found = [item for item in card_of(model)["data"]["columns"] if item["role"] == "target"]
        named = [f"{name}, {frame}" for frame in frame_names for name in ("u", "w_0", "w_1")]
        assert [item["name"] for item in found] == named
        u, others = frames(runs()), frames(runs(), "w")
        lows = np.concatenate([u[..., None], others.reshape(*u.shape, 2)], axis=-1).min(axis=(0, 1))
        np.testing.assert_allclose([item["range"][0] for item in found], lows[-len(frame_names) :].ravel())


def test_times_in_single_precision_are_those_in_double():
    """Also beside frames of the other precision: the truth, the score and the names are those of the time."""
    times = np.linspace(0.1, 1.3, 13)
    model = by_time().fit([run(number, times) for number in range(6)])
    single = MeshSeries(run(1, times).meshes, times.astype(np.float32))
    found = model.predict([single])[0]
    for mesh, other in zip(found.meshes, single.meshes, strict=True):
        np.testing.assert_array_equal(mesh.point_data["u_true"], other.point_data["u"])
    assert model.score([single]) == model.score([run(1, times)])
    for wanted in (times[3:4].astype(np.float32), [float(f"{times[3]:.6g}")]):
        assert "u_true" in model.predict([single], times=wanted)[0].meshes[0].point_data


@pytest.mark.parametrize("inputs", [["u"], ["start", "u"]])
@pytest.mark.parametrize("times", [TIMES[2:], TIMES + 0.5])
def test_inputs_of_another_time_are_refused(tmp_path, inputs, times):
    """The first frame of such a run holds other inputs than those of the start, from which the model predicts."""
    model = by_time(estimator__input_fields=inputs).fit(runs())
    band = ConformalRegressor(by_time(estimator__input_fields=inputs), **BAND).fit(runs(20))
    late = run(1, times)
    late.write(tmp_path / "late.pvd")
    message = rf"late\.pvd starts at time {times[0]}, the runs of the fit at 0\.0\. Inputs \({', '.join(inputs)}\)"
    for use in (model.predict, model.check, band.predict, band.predict_interval):
        with pytest.raises(FieldDataError, match=message):
            use(str(tmp_path / "late.pvd"))
    # The mesh of the start alone is enough, at any time of its own.
    found = model.predict([MeshSeries(run(1).meshes[:1], [7.0])])
    np.testing.assert_array_equal(frames(found), frames(model.predict([run(1)])))


def test_inputs_that_are_constant_or_on_a_clock_of_their_own_may_start_at_any_time(tmp_path):
    """The first frame of a later run holds the right inputs, if all of its frames hold the same."""
    model = by_time().fit(runs())
    expected = model.predict([run(1)])[0]
    (found,) = model.predict([run(1, TIMES[2:])])
    np.testing.assert_array_equal(frames([found]), frames([expected]))
    assert ["u_true" in mesh.point_data for mesh in found.meshes] == [False, False, True, True]
    table = np.random.default_rng(0).random((6, 2))
    bare = TimeConditionedRegressor(pod(target_fields=["u"])).fit(runs(), params=table)
    later = [run(number, TIMES[1:]) for number in range(6)]
    np.testing.assert_array_equal(frames(bare.predict(later, params=table)), frames(bare.predict(runs(), params=table)))
    # Inputs in series beside those of the targets, which end before these start.
    before = [run(number, TIMES - 5) for number in range(6)]
    model = by_time(estimator__input_fields=["u"]).fit(before, runs())
    model.save(tmp_path / "model.skop")
    for one in (model, skop.load(tmp_path / "model.skop")):
        assert one.predict(before)[0].times.tolist() == TIMES.tolist()
        with pytest.raises(FieldDataError, match=r"series 0 starts at time 0\.0, the runs of the fit at -5\.0"):
            one.predict(runs())


def test_series_are_in_the_order_of_time():
    """Whatever the order of the times that are asked for, as bands and truth are."""
    series, asked = noisy_runs(), [1.5, 0.0, 0.5]
    model = ConformalRegressor(by_time(), **BAND).fit(series)
    for found, expected in zip(
        model.predict_interval(series[:3], times=asked),
        model.predict_interval(series[:3], times=sorted(asked)),
        strict=True,
    ):
        assert [item.times.tolist() for item in found] == [sorted(asked)] * 3
        for one, other in zip(found, expected, strict=True):
            for mesh, true in zip(one.meshes, other.meshes, strict=True):
                assert mesh.point_data.keys() == true.point_data.keys()
                for name, values in true.point_data.items():
                    np.testing.assert_array_equal(mesh.point_data[name], values)
    (found,) = by_time().fit(runs()).predict([run(1).meshes[0]], times=[0.7, 0.0])
    expect_truth(found, 1, {0.0: True, 0.7: False})


@pytest.mark.parametrize("names", [{"target_fields": ["u"]}, {"target_fields": ["flux"], "cell_data": "cells"}])
def test_a_table_beside_time_series(tmp_path, names):
    table = np.random.default_rng(0).random((6, 2))
    model = TimeConditionedRegressor(pod(**names)).fit(table, runs())
    found = model.predict(table[:2])
    values = read_frames(find_runs(runs()), names["target_fields"], cell_data=names.get("cell_data", "refuse"))[0]
    expected = TimeConditionedRegressor(pod(), times=TIMES).fit(table, values)
    for item, true in zip(found, expected.predict(table[:2]).values, strict=True):
        assert item.times.tolist() == TIMES.tolist()
        for k, mesh in enumerate(item.meshes):
            np.testing.assert_array_equal(mesh.points, POINTS)
            np.testing.assert_array_equal(mesh.cells[0].data, CELLS[0][1])
            data = mesh.point_data["u"] if "u" in mesh.point_data else mesh.cell_data["flux"][0]
            np.testing.assert_allclose(data, true[:, k])
    assert model.score(table, runs()) == pytest.approx(expected.score(table, values))
    model.save(tmp_path / "model.skop")
    again = skop.load(tmp_path / "model.skop").predict(table[:2])
    assert [item.meshes[3].point_data.keys() for item in again] == [item.meshes[3].point_data.keys() for item in found]
    assert model.predict(table[:2], times=[0.2])[0].times.tolist() == [0.2]


def test_the_mesh_of_a_fit_stays_where_meshes_of_the_caller_are_moved(tmp_path):
    table, given = np.random.default_rng(0).random((6, 2)), copy.deepcopy(runs())
    model = TimeConditionedRegressor(pod(target_fields=["u"])).fit(table, given)
    for mesh in [*given[0].meshes, *model.predict(table[:1])[0].meshes]:
        mesh.points *= 1000
        mesh.cells[0].data[:] = 0
    model.save(tmp_path / "model.skop")
    for held in (model, skop.load(tmp_path / "model.skop")):
        found = held.predict(table[:1])[0].meshes[0]
        np.testing.assert_array_equal(found.points, POINTS)
        np.testing.assert_array_equal(found.cells[0].data, CORNER[:, None] + [0, 3, 4, 1])


# ---------------------------------------------------------------------- bands
BAND = {"coverage": 0.6, "calibration_size": 0.5, "random_state": 0}


def noisy_runs(count=20, times=TIMES):
    """Runs whose frames a model cannot predict, the less the later they are."""
    rng, series = np.random.default_rng(1), [run(number, times) for number in range(count)]
    for item in series:
        for step, mesh in enumerate(item.meshes):
            mesh.point_data["u"] = mesh.point_data["u"] + 0.1 * step * rng.standard_normal(12)
    return series


def first_and_others(series, window):
    points, values = POINTS[:, :2], frames(series)
    return FieldSet(points, values[..., :window]), FieldSet(points, values[..., window:])


def expect_bounds(found, expected):
    """Bounds on series are those of arrays, and are on the meshes of the prediction too."""
    mean, lower, _ = found
    for series, name, values in zip(found, ("u", "u_lower", "u_upper"), expected, strict=True):
        np.testing.assert_allclose(frames(series, name), values.values, atol=1e-9)
        np.testing.assert_allclose(frames(mean, name), values.values, atol=1e-9)
        assert [item.times.tolist() for item in series] == [item.times.tolist() for item in mean]
    assert [list(mesh.point_data) for mesh in lower[0].meshes] == [["u_lower"]] * len(lower[0].meshes)


def test_bands_of_rollouts_are_those_of_arrays(tmp_path):
    series = noisy_runs()
    model = ConformalRegressor(rollout(), **BAND).fit(series)
    X, y = first_and_others(series, 2)
    arrays = ConformalRegressor(RolloutRegressor(pod(), window=2), **BAND).fit(X, y)
    expected = arrays.predict_interval(X[:3])
    expect_bounds(model.predict_interval(series[:3]), expected)
    np.testing.assert_allclose(frames(model.predict(series[:3])), expected[0].values, atol=1e-9)
    assert model.score(series) == pytest.approx(arrays.score(X, y))
    # A run that has its first frames only.
    short = [MeshSeries(item.meshes[:2], item.times[:2]) for item in series[:3]]
    expect_bounds(model.predict_interval(short), expected)
    model.save(tmp_path / "model.skop")
    expect_bounds(skop.load(tmp_path / "model.skop").predict_interval(series[:3]), expected)
    assert model.novelty(series[:3], level=None).score.shape == (3,)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["rollout", "by time"])
@pytest.mark.parametrize(
    "params", [{"method": "cv+", "cv": 2, "guarantee": "simultaneous"}, {"scale": PODRegressor(regressor="ridge")}]
)
def test_bands_of_vectors_by_folds_and_by_a_learned_scale(kind, params):
    series = noisy_runs(24)
    for item in series:
        for mesh in item.meshes:
            mesh.point_data["w"] = np.stack([mesh.point_data["u"], -2 * mesh.point_data["u"]], axis=1)
    values, points = frames(series, "w"), POINTS[:, :2]
    if kind == "rollout":
        model, X, y = rollout(estimator__target_fields=["w"], window=1), values[..., :2], values[..., 2:]
        arrays = RolloutRegressor(pod(), window=1)
    else:
        model, y = by_time(estimator__target_fields=["w"]), values
        X = np.stack([np.c_[item.meshes[0].point_data["start"]] for item in series])
        arrays = TimeConditionedRegressor(pod(), times=TIMES)
    arrays = ConformalRegressor(arrays, **BAND | params).fit(FieldSet(points, X), FieldSet(points, y))
    found = ConformalRegressor(model, **BAND | params).fit(series).predict_interval(series[:3])
    expected = arrays.predict_interval(FieldSet(points, X[:3]))
    for part, name, values in zip(found, ("w", "w_lower", "w_upper"), expected, strict=True):
        np.testing.assert_allclose(frames(part, name), values.values, atol=1e-9)


def test_bands_of_fewer_steps():
    """The first steps have the band that they have among all steps."""
    series = noisy_runs()
    X, y = first_and_others(series, 1)
    arrays = ConformalRegressor(RolloutRegressor(pod(), window=1), **BAND).fit(X, y)
    expected = [part[..., :2] for part in (values.values for values in arrays.predict_interval(X))]
    for found, part in zip(arrays.predict_interval(X, n_steps=2), expected, strict=True):
        np.testing.assert_array_equal(found.values, part)
    model = ConformalRegressor(rollout(window=1), **BAND).fit(series)
    expect_bounds(model.predict_interval(series, n_steps=2), [FieldSet(POINTS[:, :2], part) for part in expected])
    for estimator, data in ((arrays, X), (model, series)):
        with pytest.raises(FieldDataError, match=r"n_steps=4, but 3 steps were calibrated"):
            estimator.predict_interval(data, n_steps=4)
        with pytest.raises(FieldDataError, match=r"a rollout goes by steps; pass n_steps"):
            estimator.predict_interval(data, times=[0.5])
        with pytest.raises(ValueError, match=r"n_steps must be an integer of at least 1, got 0"):
            estimator.predict_interval(data, n_steps=0)
    with pytest.raises(FieldDataError, match=r"n_steps was given, but the estimator predicts no frames"):
        ConformalRegressor(pod(), **BAND).fit(X, y).predict_interval(X, n_steps=1)


def test_bands_by_time(tmp_path):
    series = noisy_runs()
    points, values = POINTS[:, :2], frames(series)
    start = FieldSet(points, np.stack([np.c_[item.meshes[0].point_data["start"]] for item in series]))
    model = ConformalRegressor(by_time(), **BAND).fit(series)
    arrays = ConformalRegressor(TimeConditionedRegressor(pod(), times=TIMES), **BAND)
    expected = arrays.fit(start, FieldSet(points, values)).predict_interval(start[:3])
    expect_bounds(model.predict_interval(series[:3]), expected)
    some = [part.with_values(part.values[..., [1, 3]]) for part in expected]
    expect_bounds(model.predict_interval(series[:3], times=[0.5, 1.5]), some)
    with pytest.raises(
        FieldDataError, match=r"times are \[0\.7\], but those of the calibration \[0\.  0\.5 1\.  1\.5\]"
    ):
        model.predict_interval(series[:3], times=[0.7])
    with pytest.raises(FieldDataError, match=r"predicts at times; pass times"):
        model.predict_interval(series[:3], n_steps=1)
    # A table of parameters has the mesh of the fit.
    table = np.random.default_rng(0).random((20, 2))
    inner = TimeConditionedRegressor(pod(target_fields=["u"]))
    model = ConformalRegressor(inner, **BAND).fit(table, series)
    arrays = arrays.fit(table, FieldSet(points, values))
    model.save(tmp_path / "model.skop")
    for one in (model, skop.load(tmp_path / "model.skop")):
        expect_bounds(one.predict_interval(table[:3]), arrays.predict_interval(table[:3]))


def test_bands_of_fitted_models_and_ensembles():
    series = noisy_runs(24)
    fitted = rollout().fit(series[:8])
    X, y = first_and_others(series, 2)
    of_arrays = RolloutRegressor(pod(), window=2).fit(X[:8], y[:8])
    model, arrays = (ConformalRegressor(FrozenEstimator(one), **BAND) for one in (fitted, of_arrays))
    expected = arrays.fit(X[8:], y[8:]).predict_interval(X[8:10])
    expect_bounds(model.fit(series[8:]).predict_interval(series[8:10]), expected)
    np.testing.assert_array_equal(frames(fitted.predict(series[8:10])), frames(model.predict(series[8:10])))
    # Frames after those that a fitted model predicts are not looked at.
    short = [MeshSeries(item.meshes[:3], item.times[:3]) for item in series]
    band = ConformalRegressor(FrozenEstimator(rollout().fit(short[:8])), **BAND)
    found = [frames(band.fit(part[8:]).predict_interval(short[8:10])[2], "u_upper") for part in (series, short)]
    np.testing.assert_array_equal(*found)
    inner = TimeConditionedRegressor(LaMORegressor(target_fields=["u"], input_fields=["start"], **TINY))
    band = ConformalRegressor(EnsembleRegressor(inner, n_members=2), scale="spread", **BAND).fit(series)
    mean, lower, upper = (
        frames(part, name)
        for part, name in zip(band.predict_interval(series[:2]), ("u", "u_lower", "u_upper"), strict=True)
    )
    assert ((lower < mean) & (mean < upper)).all()
    with pytest.raises(FieldDataError, match=r"has 3 frames"):
        ConformalRegressor(FrozenEstimator(by_time().fit(series)), **BAND).fit(noisy_runs(times=TIMES[:3]))


# ---------------------------------------------------------------------- refusals
def test_series_that_cannot_be_fitted():
    with pytest.raises(FieldDataError, match="series 0 has 4 frames; expected more than window=4"):
        rollout(window=4).fit(runs())
    with pytest.raises(FieldDataError, match="RolloutRegressor got time series of meshes, but target_fields"):
        RolloutRegressor(pod()).fit(runs())
    with pytest.raises(FieldDataError, match="came as MeshSeries, but each mesh has to be one sample"):
        pod(target_fields=["u"]).fit(runs())
    with pytest.raises(FieldDataError, match="leave y out"):
        rollout().fit(runs(), runs()[:3])
    with pytest.raises(FieldDataError, match=r"input_fields are \['start'\].*Leave input_fields out"):
        rollout(estimator__input_fields=["start"]).fit(runs())
    shifted = [run(0), run(1, TIMES + 0.1)]
    with pytest.raises(FieldDataError, match=r"series 1 has 4 frames at times 0\.1 to 1\.6, series 0"):
        by_time().fit(shifted)
    with pytest.raises(FieldDataError, match=r"0\.1 to 1\.6, the fit has 4 at 0 to 1\.5"):
        by_time().fit(runs()).score([run(1, TIMES + 0.1)])
    with pytest.warns(SkopWarning, match=r"0\.5 to 2 apart in time; a rollout learns one step"):
        rollout().fit([run(number, [0, 0.5, 1, 3]) for number in range(6)])


@pytest.mark.parametrize("times", [4, 3, [0.0, 0.5, 1.0, 2.0], [5.0]])
def test_times_that_disagree_with_those_of_the_runs(times):
    """Frames would be learned at one time and compared with frames at another, even at an equal start and end."""
    table, said = np.random.default_rng(0).random((20, 2)), r"leave times out.*are taken"
    with pytest.raises(FieldDataError, match=rf"times is .* but series 0 has 4 frames at times \[0\.  0\.5 .*{said}"):
        by_time(times=times).fit(runs())
    with pytest.raises(FieldDataError, match=said):
        by_time(times=times).fit(table, runs(20))
    with pytest.raises(FieldDataError, match=said):
        ConformalRegressor(by_time(times=times), **BAND).fit(runs(20))


def test_times_that_agree_with_those_of_the_runs():
    equal = [run(number, np.linspace(0, 1, 4)) for number in range(6)]
    expected = frames(by_time().fit(equal).predict(equal))
    for times in (4, [0, 1 / 3, 2 / 3, 1]):
        model = by_time(times=times).fit(equal)
        np.testing.assert_array_equal(frames(model.predict(equal)), expected)
        with pytest.raises(FieldDataError, match="expected the same times"):
            model.score(runs())


def test_another_fit_forgets_the_series():
    model = rollout().fit(runs())
    values = frames(runs())
    model.fit(FieldSet(POINTS[:, :2], values[..., :2]), FieldSet(POINTS[:, :2], values[..., 2:]))
    assert not hasattr(model, "series_")


# ---------------------------------------------------------------------- parameters of runs
def loaded_runs(folder, loads):
    """Files whose fields are a load times a field of the mesh, that decays in time."""
    for name, load in loads.items():
        fields = [(1 + POINTS[:, 0]) * load * np.exp(-time) for time in TIMES]
        meshes = [meshio.Mesh(POINTS, CELLS, {"u": field, "start": POINTS[:, 0]}) for field in fields]
        MeshSeries(meshes, TIMES).write(folder / f"{name}.pvd")
    return str(folder / "*.pvd")


@pytest.mark.parametrize("kind", ["by_time", "rollout"])
def test_parameters_of_series_are_matched_by_name(tmp_path, kind):
    """In another order than the files, as a column beside the files, and with one run of a design asked for."""
    pandas = pytest.importorskip("pandas")
    loads = dict(zip("abcdefgh", [5.0, 2.0, 3.0, 7.0, 1.0, 6.0, 4.0, 8.0], strict=True))
    source = loaded_runs(tmp_path, loads)
    new = {"by_time": by_time, "rollout": rollout}[kind]
    table = pandas.DataFrame({"load": list(loads.values())}, index=list(loads))
    shuffled = table.sort_values("load")
    expected = new().fit(source, params=table)
    model = new().fit(source, params=shuffled)
    np.testing.assert_array_equal(
        frames(model.predict(source, params=shuffled)), frames(expected.predict(source, params=table))
    )
    assert model.score(source, params=shuffled) == expected.score(source, params=table) > 0.5
    column = shuffled.assign(run=[str(tmp_path / f"{name}.pvd") for name in shuffled.index])
    again = new().fit(column)
    assert again.score(column) == pytest.approx(model.score(source, params=shuffled))
    one = str(tmp_path / "c.pvd")
    of_all = frames(model.predict(source, params=table))
    np.testing.assert_allclose(frames(model.predict(one, params=shuffled)), of_all[2:3], rtol=1e-7)
    with pytest.raises(FieldDataError, match="1 of 8 files have no row"):
        new().fit(source, params=shuffled[1:])
    with pytest.raises(FieldDataError, match=r"row 0 of groups is c by its index, but file 0 of X is .*a\.pvd"):
        new().fit(source, groups=pandas.Series([*"aabbccdd"], index=[*"cdbaefgh"]))
    with pytest.raises(FieldDataError, match="in which sample_weight or groups must be"):
        new().fit(source, params=shuffled, groups=[*"aabbccdd"])
    with pytest.raises(FieldDataError, match="in which sample_weight or groups must be"):
        new().fit(source, params=shuffled, sample_weight=np.ones(8))


def test_the_index_of_a_table_finds_the_series(tmp_path):
    pandas = pytest.importorskip("pandas")
    loads = dict(zip("abcdef", [5.0, 2.0, 3.0, 7.0, 1.0, 6.0], strict=True))
    source = loaded_runs(tmp_path, loads)
    table = pandas.DataFrame({"load": list(loads.values())}, index=list(loads)).sort_values("load")
    files = [str(tmp_path / f"{name}.pvd") for name in table.index]
    new = TimeConditionedRegressor(pod(target_fields=["u"]))
    expected = new.fit(table.reset_index(drop=True), files).predict(table)
    model = new.fit(table, source)
    np.testing.assert_array_equal(frames(model.predict(table)), frames(expected))
    assert model.score(table, source) == model.score(table.reset_index(drop=True), files)
    with pytest.raises(FieldDataError, match="2 of 6 rows"):
        model.score(table, files[:4])
