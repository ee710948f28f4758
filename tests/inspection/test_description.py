"""`describe_data` names what is wrong with data, and nothing where nothing is."""

import json

import meshio
import numpy as np
import pytest

from skop import FieldSet
from skop.data import MeshSeries
from skop.exceptions import FieldDataError
from skop.inspection import describe_data

RNG = np.random.default_rng(0)


def problems(description):
    return {finding.text: finding.samples for finding in description.findings if finding.level == "problem"}


def clouds(n_samples=12):
    """Points of their own in the plane, as FieldSets of inputs and targets, with one parameter."""
    coords = [RNG.random((20 + number % 2, 2)) for number in range(n_samples)]
    values = [1 + points[:, :1] for points in coords]
    X = FieldSet(coords, values, params=RNG.random((n_samples, 1)), channel_names=["load"])
    return X, FieldSet(coords, [3 * value for value in values], channel_names=["stress"])


def test_sound_data_have_no_problem_and_true_statistics():
    X = RNG.normal(5, 2, (60, 6, 6, 1))
    found = describe_data(X, X**2)
    assert not problems(found)
    first = found.channels[0]
    assert (first.role, found.n_samples, found.n_points) == ("input", 60, (36, 36, 36))
    for key, value in (("minimum", X.min()), ("mean", X.mean()), ("maximum", X.max()), ("deviation", X.std())):
        assert getattr(first, key) == pytest.approx(value)
    assert found.box == ((0.0, 1.0), (0.0, 1.0))


def spoiled(**changes):
    """Clouds of which the coordinates, inputs, targets or parameters of sample 3 were changed."""
    X, y = clouds()
    coords, values, targets, params = X.coords_list(), X.to_list(), y.to_list(), X.params.copy()
    parts = {"coords": coords, "values": values, "targets": targets, "params": params}
    for name, change in changes.items():
        parts[name][3] = change(parts[name][3].copy())
    X = FieldSet(coords, values, params=params, channel_names=["load"])
    return X, FieldSet(coords, targets, channel_names=["stress"])


def lone_point(points):
    points[5] = [9, 0.5]  # 13 times as far from the centre as most
    return points


def test_the_sample_that_is_unlike_the_others_is_named(subtests):
    for changes, words in [
        ({"targets": lambda item: 1e6 * item}, "y of run_3 is of another size"),
        ({"values": lambda item: item / 1000}, "X of run_3 is of another size"),
        ({"params": lambda item: item + 1e6}, "parameter 0 of X is 1e+06 in run_3"),
        ({"coords": lambda item: 1000 * item}, "the box of run_3 is of another size"),
        ({"coords": lone_point}, "points of run_3 are far from all others"),
        ({"values": lambda item: item * np.nan}, "NaN or infinity"),
        ({"targets": lambda item: item * np.nan}, "NaN or infinity"),
    ]:
        with subtests.test(changes=changes):
            found = problems(describe_data(*spoiled(**changes), names=[f"run_{number}" for number in range(12)]))
            assert [samples for text, samples in found.items() if words in text] == [("run_3",)]


def test_offsets_constants_and_noise_in_a_plane_are_found():
    coords = np.column_stack([RNG.random((30, 2)), 1e-17 * RNG.random(30)])
    values = RNG.random((20, 30, 1))
    y = FieldSet(coords, 1e5 + values)
    found = describe_data(FieldSet(coords, np.concatenate([values, np.full_like(values, 2)], axis=-1)), y)
    texts = [finding.text for finding in found.findings]
    # A coordinate that is exactly constant is dropped by the reader, and nothing to look at.
    flat = coords * [1, 1, 0]
    assert not any("coordinate" in text for text in problems(describe_data(FieldSet(flat, values))))
    assert any("the mean of y (channel 0) is" in text for text in texts)
    assert any("channel 1 of X is 2 everywhere" in text for text in texts)
    assert any("coordinate 2 of the points varies by" in text for text in texts)


def test_columns_of_several_types_are_described_as_numbers():
    """Booleans, numbers that may be missing, and numbers held as objects, as `fit` takes them."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"load": RNG.random(20), "is_open": np.arange(20) % 2 == 0})
    expected = describe_data(table.astype(float), table["load"] ** 2)
    for kind in (bool, "Int64", "boolean", object):
        given = table.astype({"is_open": kind})
        assert describe_data(given, table["load"] ** 2) == expected
        assert describe_data(given, (table["load"] ** 2).astype(object)) == expected
        assert describe_data(given, RNG.random((20, 5, 1))).channels[1] == expected.channels[1]
    given = table.astype({"is_open": "boolean"})
    given.loc[3, "is_open"] = pandas.NA
    found = problems(describe_data(given, table["load"] ** 2))
    assert list(found.values()) == [("sample 3",)]


def test_a_mean_far_from_the_others_is_noticed():
    X = RNG.normal(0, 1, (40, 500, 1))
    X[7] += 1 - X[7].mean()  # 22 standard deviations of the means, but no other size
    far = [finding for finding in describe_data(X, X**2).findings if "in half of the samples" in finding.text]
    assert [(finding.level, finding.samples) for finding in far] == [("notice", ("sample 7",))] * 2
    words = [finding.text.partition(" is ")[0] for finding in far]
    assert words == ["the mean of channel 0 of X", "the mean of channel 0 of y"]
    # Of numbers over three decades half are below a thirtieth of the largest, which are even in logarithms.
    even = np.column_stack([np.geomspace(0.03, 30, 100), np.linspace(0, 1, 100)])
    table = np.concatenate([even, [[1.0, 5.0]]])
    (far,) = (
        finding for finding in describe_data(table, table[:, 0]).findings if "in half of the samples" in finding.text
    )
    assert str(far) == "column 1 of X is 5 in sample 100, but 0.253 to 0.758 in half of the samples. Check it."


def test_a_parameter_that_is_a_result_is_a_problem():
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    points, design = random.random((9, 2)), random.random((20, 2))
    fields = np.sin(3 * design[:, :1] + points[:, 0]) * design[:, 1:]
    table = pandas.DataFrame(design, columns=["load", "length"])
    assert not describe_data(table, FieldSet(points, fields[..., None])).findings[:-1]
    found = describe_data(table.assign(peak=fields.max(axis=1)), FieldSet(points, fields[..., None])).findings[0]
    assert found.level == "problem"
    assert "parameter 'peak' of X equals the largest value of channel 0 of y in every sample: it is a result" in str(
        found
    )


def test_a_channel_of_X_that_is_one_of_y_is_a_problem():
    u = RNG.normal(size=(20, 6, 6, 2))
    problems = [
        [finding.text for finding in describe_data(u, y).findings if finding.level == "problem"]
        for y in (np.concatenate([u.sum(-1, keepdims=True), u[..., 1:]], -1), np.roll(u, 1, 1), u[..., 1:] + 1e-3)
    ]
    # Fields that move have the statistics of those from which they start.
    assert problems[1:] == [[], []]
    assert [text.startswith("channel 1 of X equals channel 1 of y in every sample") for text in problems[0]] == [True]


def test_copies_and_contradictions_are_told_apart():
    X = RNG.random((20, 3))
    X[7], X[12] = X[2], X[5]
    y = X.sum(axis=1)
    y[12] += 1
    found = {finding.samples: finding for finding in describe_data(X, y).findings if finding.samples}
    assert found[("sample 2", "sample 7")].level == "notice"
    assert found[("sample 5", "sample 12")].level == "problem"
    assert "different targets" in found[("sample 5", "sample 12")].text
    # Equal values on other points are another sample.
    coords = [RNG.random((20, 2)) for _ in range(3)]
    fields = FieldSet([coords[0], coords[1], coords[0]], [np.ones((20, 1))] * 3)
    copies = [finding.samples for finding in describe_data(fields).findings if "copies out" in finding.text]
    assert copies == [("sample 0", "sample 2")]


def test_copies_of_many_samples_are_one_finding():
    X = RNG.random((20, 3))
    described = describe_data(np.concatenate([X, X[:10], X[:2]]), np.concatenate([X, X[:10], X[:2]]).sum(axis=1))
    (found,) = [finding for finding in described.findings if "copies out" in finding.text]
    assert found.text.startswith("X is the same in each of 10 groups of samples (sample 0, sample 20 and sample 30; ")
    assert "; and 7 more): keep each group on one side" in found.text
    assert set(found.samples) == {f"sample {row}" for row in [*range(10), *range(20, 32)]}


def test_time_series_are_described_by_run_with_their_times():
    points = RNG.random((15, 2))
    fields = RNG.random((4, 3, 15))
    meshes = [[meshio.Mesh(points, [("vertex", np.arange(15)[:, None])], {"u": u}) for u in run] for run in fields]
    series = [MeshSeries(run, [0.0, 1.0, 2.0]) for run in meshes[:3]] + [MeshSeries(meshes[3][:2], [0.0, 1.5])]
    found = describe_data(series, target_fields="u", names="abcd")
    assert found.form == "4 runs of 2 frames, times 0 to 1, on 15 shared points in 2-D"
    assert (found.channels[0].mean, found.n_points[0]) == (pytest.approx(fields[:, :2].mean()), 15)
    texts = [finding.text for finding in found.findings]
    for words in ("2 to 3 frames; a fit needs as many", "1 to 1.5 apart in time", "times differ between runs"):
        assert any(words in text for text in texts)
    with pytest.raises(FieldDataError, match="need names of fields"):
        describe_data(series)


def test_the_description_prints_and_goes_to_json():
    X, y = spoiled(targets=lambda item: 1e6 * item)
    found = describe_data(X, y, parameter_names=["speed"])
    assert json.loads(json.dumps(found.to_dict()))["channels"][1]["name"] == "speed"
    corners = np.concatenate(X.coords_list())
    np.testing.assert_allclose(np.transpose(found.box), [corners.min(axis=0), corners.max(axis=0)])
    assert found.n_points == (20, 20, 21)
    assert [finding.level for finding in found.findings] == ["problem", "notice"]
    text = str(found)
    assert "12 samples on points of their own, 20 to 21 in 2-D" in text
    assert "problem: y of sample 3 is of another size than that of the other samples: its channel 'stress'" in text
    assert "estimator: LaMORegressor" in text


def test_advice_follows_the_kind_of_the_data():
    table = RNG.random((80, 3))
    assert "Gaussian process" in describe_data(table, table[:, 0]).advice["estimator"]
    assert describe_data(table).advice["samples"].startswith("80; hold out a fifth")
    assert describe_data(table[:49]).advice["samples"].startswith("49 is a start")
    coords = RNG.random((25, 2))
    fixed = describe_data(table, FieldSet(coords, RNG.random((80, 25, 1))))
    assert fixed.advice["estimator"].startswith("PODRegressor")
    mesh = meshio.Mesh(coords, [("vertex", np.arange(25)[:, None])])
    meshes = [meshio.Mesh(coords.copy(), mesh.cells, {"u": u}) for u in RNG.random((80, 25))]
    shared = describe_data(meshes, target_fields="u")
    assert shared.form == "80 samples on 25 shared points in 2-D"
    assert shared.advice["estimator"] == fixed.advice["estimator"]
    large = FieldSet(RNG.random((2, 6000, 2)), RNG.random((2, 6000, 1)))
    drawn = describe_data(large, large).advice["training__subsample_points"]
    assert drawn.startswith("2000: a training step then costs about 3")
