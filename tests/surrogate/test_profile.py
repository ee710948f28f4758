"""Samples that look like mistakes, or are outside of the ranges of a fit, are named, and sound ones are not."""

import warnings
from dataclasses import replace

import meshio
import numpy as np
import pandas as pd
import pytest

from skop import EnsembleRegressor, FieldSet, LaMORegressor, MeanFieldRegressor, RolloutRegressor
from skop.data import Extremes, iterate_rows, read, unit_grid
from skop.datasets import make_advection, make_darcy, make_european_option, make_navier_stokes
from skop.exceptions import SkopWarning
from skop.inspection import describe_data
from skop.surrogate._domain import SeenRanges
from skop.surrogate._profile import Profile, far_numbers, odd_sizes

N = 12
POINTS = unit_grid((5, 4))
RANDOM = np.random.default_rng(0)
PARAMS = RANDOM.random((N, 2))
FIELDS = RANDOM.standard_normal((N, 20, 2)) * RANDOM.uniform(0.2, 1.0, (N, 1, 1))
TARGET = RANDOM.standard_normal((N, 20, 1))


def changed(array, rows, factor):
    array = np.array(array)
    array[rows] *= factor
    return array


def said(X, y, **options):
    """Problems of data as a fit reads them."""
    return [str(finding) for finding in Profile(read(X, y, **options)).problems()]


def of_call(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(issubclass(item.category, SkopWarning) and item.filename == __file__ for item in caught)
    return [str(item.message) for item in caught]


def test_statistics_of_every_kind_of_number():
    for kind in [np.float16, np.float32, np.longdouble, np.int64, np.uint8, bool]:
        values = np.abs(FIELDS).astype(kind)
        found, expected = (Extremes.of(held, FieldSet(POINTS, FIELDS)) for held in (values, values.astype(float)))
        np.testing.assert_allclose(found.size, expected.size, rtol=1e-6)


def test_statistics_are_those_of_the_samples(monkeypatch):
    sizes = [3, 5, 2, 4]
    values = [RANDOM.standard_normal((size, 2)) for size in sizes]
    ragged = FieldSet([RANDOM.random((size, 2)) for size in sizes], values)
    for fields, samples in ((ragged, values), (FieldSet(POINTS, FIELDS), FIELDS)):
        for chunk in (1, 20, 10**6):
            monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", chunk)
            found = Extremes.joined([Extremes.of(piece, fields, start) for start, piece in iterate_rows(fields)])
            for name, function in (("low", np.min), ("high", np.max), ("mean", np.mean), ("size", root_mean_square)):
                expected = [function(sample, axis=0) for sample in samples]
                np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12)


def root_mean_square(values, axis):
    return np.sqrt(np.mean(values**2, axis=axis))


# ---------------------------------------------------------------- sizes
@pytest.mark.parametrize("factor", [1e3, 1e-6])
def test_a_field_in_another_unit_is_named(factor):
    target = FieldSet(POINTS, changed(TARGET, 3, factor), channel_names=["mises"])
    (message,) = said(FieldSet(POINTS, FIELDS), target)
    assert message.startswith(
        "y of sample 3 is of another size than that of the other samples: its channel 'mises' (root mean square) is"
    )
    inputs = np.array(FIELDS)
    inputs[[4, 7], :, 1] *= factor
    (message,) = said(FieldSet(POINTS, inputs), TARGET)
    assert message.startswith(("X of sample 4 and sample 7", "X of sample 7 and sample 4"))
    assert "channel 1 (root mean square) is" in message


def test_of_many_samples_three_are_named_in_words_and_all_in_the_finding():
    X = FieldSet(POINTS, changed(RANDOM.random((40, 20, 1)), range(20, 25), 1e3))
    (finding,) = Profile(read(X, RANDOM.random((40, 20, 1)))).problems()
    assert finding.text.count("sample 2") == 3
    assert "and 2 more is of another size" in finding.text
    assert sorted(finding.samples) == [20, 21, 22, 23, 24]
    assert finding.value > 100 * finding.highest


def test_a_lone_point_that_all_samples_share_is_of_no_sample():
    coords = np.concatenate([RANDOM.random((40, 2)), [[30.0, 0.5]]])
    found = describe_data(FieldSet(coords, RANDOM.random((12, 41, 1)))).findings
    (lone,) = (finding for finding in found if "far from all others" in finding.text)
    assert (lone.level, lone.samples) == ("problem", ())
    assert "points that all samples share" in lone.text


def test_a_single_field_of_zeros_is_named_where_no_other_is_near_zero():
    zeros = changed(TARGET, 3, 0.0)
    (message,) = said(FieldSet(POINTS, FIELDS), zeros)
    assert message.startswith("y of sample 3 is of another size")
    assert "is 0 times the median" in message
    assert "Check that its run was finished and written, or leave it out." in message
    assert said(FieldSet(POINTS, zeros), TARGET)[0].startswith("X of sample 3 is of another size")
    # A result of zeros is right where the load is 0.
    params = np.array(PARAMS)
    params[3, 0] = 0.0
    assert not said(params, (POINTS, zeros))
    # Levels and ramps that begin at zero, and states that grow from rest.
    for loads in (np.arange(12), np.repeat(np.arange(4), 6)[5:], np.arange(12) ** 2, 1 - np.exp(-0.5 * np.arange(20))):
        assert not len(odd_sizes(np.asarray(loads, dtype=float)))
    assert odd_sizes(np.array([*np.linspace(1, 2, 18), 0, 1e3])).tolist() == [18, 19]
    assert odd_sizes(np.array([*np.linspace(1, 2, 58), 0, 0])).tolist() == [58, 59]
    assert not len(odd_sizes(np.array([*np.linspace(1, 2, 90), *np.zeros(4)])))


def test_sizes_that_loads_explain_are_not_named():
    for scale in (RANDOM.random((100, 1, 1)), RANDOM.lognormal(size=(100, 1, 1))):
        values = scale * RANDOM.standard_normal((100, 20, 1))
        assert not said(FieldSet(POINTS, values), RANDOM.standard_normal((100, 20, 1)))
    no_load = changed(TARGET, [2, 5], 0.0)
    assert not said(FieldSet(POINTS, FIELDS), FieldSet(POINTS, no_load))


def test_numbers_far_from_the_others_are_named():
    right = PARAMS * [20e9, 1.0] + [200e9, 5]
    assert not said(right, (POINTS, TARGET))
    wrong = np.array(right)
    wrong[5, 0] *= 1e3
    (message,) = said(wrong, (POINTS, TARGET))
    assert message.startswith("parameter 0 of X is")
    assert "in sample 5" in message


# ---------------------------------------------------------------- meshes
def plate(scale=1.0, noise=0.0, seed=0, factor=1.0):
    rng = np.random.default_rng(seed)
    points = np.column_stack([rng.uniform(0, 2, 30), rng.uniform(0, 1, 30), noise * rng.standard_normal(30)])
    cells = [("triangle", np.arange(30).reshape(10, 3))]
    data = {"load": rng.random(30), "mises": factor * (1 + rng.random(30))}
    return meshio.Mesh(scale * points, cells, point_data=data)


def files(folder, **odd):
    """Eight meshes, of which number 5 is another."""
    folder.mkdir(exist_ok=True)
    for number in range(8):
        plate(seed=number, **(odd if number == 5 else {})).write(folder / f"run_{number}.vtu")
    return str(folder / "*.vtu")


def mesh_model():
    names = {"input_fields": ["load"], "target_fields": ["mises"]}
    return LaMORegressor(width=8, depth=1, max_iter=1, random_state=0, **names)


def test_odd_meshes_are_named_by_their_file(tmp_path):
    assert not of_call(lambda: mesh_model().set_params(base=None).fit(files(tmp_path / "sound")))
    for odd, words in (
        ({"factor": 1e3}, ("y of ", "run_5.vtu is of another size", "its channel 'mises' (root mean square) is ")),
        (
            {"scale": 1e-3},
            ("the box of ", "run_5.vtu is of another size", "its longest side is"),
        ),
        ({"noise": 1e-9}, ("coordinate 2 of the points varies by", "run_5.vtu", "read as 3-D")),
    ):
        source = files(tmp_path / next(iter(odd)), **odd)
        names = {"input_fields": ["load"], "target_fields": ["mises"]}
        (message,) = said(source, None, **names)
        assert all(word in message for word in words), message
    (message,) = of_call(lambda: mesh_model().set_params(base=None).fit(files(tmp_path / "factor", factor=1e3)))
    assert "run_5.vtu" in message


def test_scalars_that_are_no_numbers_are_named_by_the_file(tmp_path):
    peaks = np.arange(8.0)
    peaks[3] = np.nan
    with pytest.raises(ValueError, match=r"sample 3 \(.*run_3.vtu\), scalar 0"):
        mesh_model().set_params(target_fields=None).fit(files(tmp_path / "sound"), peaks)


# ---------------------------------------------------------------- offsets
def test_an_offset_that_hides_the_variation_is_named():
    for factor, is_hidden in ((10.0, False), (1e4, True)):
        messages = said(FieldSet(POINTS, FIELDS), FieldSet(POINTS, TARGET + factor, channel_names=["p"]))
        assert len(messages) == is_hidden
        if is_hidden:
            assert "the mean of y (channel 'p') is 1" in messages[0]
            assert "root_mean_squared_error" in messages[0]
    assert "scalar 0" in said(PARAMS, 101325 + PARAMS[:, 0])[0]
    assert not said(PARAMS, np.full(N, 101325.0))


# ---------------------------------------------------------------- equal inputs
def test_equal_inputs_with_different_targets_are_named():
    inputs, target = np.array(FIELDS), np.array(TARGET)
    inputs[9] = inputs[2]
    target[9] = 1.5 * target[2]
    (message,) = said(FieldSet(POINTS, inputs), target)
    assert message.startswith("X is the same in sample 2 and sample 9, but y differs by 33 %")
    target[9] = target[2]
    assert not said(FieldSet(POINTS, inputs), target)
    # The same statistics alone are no equality.
    inputs[9] = inputs[2][::-1]
    target[9] = 1.5 * target[2]
    assert not said(FieldSet(POINTS, inputs), target)
    params = np.array(PARAMS)
    params[[3, 4]] = params[0]
    (message,) = said(params, (POINTS, TARGET))
    assert "3 pairs of samples have" in message or "2 pairs of samples have" in message


@pytest.mark.parametrize("low", [0.0, 200.0])
@pytest.mark.parametrize("way", ["single precision", "text", "units"])
def test_inputs_that_are_equal_up_to_rounding_contradict_each_other(way, low):
    params = low + 10 * np.random.default_rng(3).random((40, 2))
    target = 1 + POINTS[:, :1] * params[:, np.newaxis, :1] / (1 + low)
    single = params.astype(np.float32)
    other = {"single precision": single, "text": [[float(f"{held:.7g}") for held in params[4]]] * 40}
    other["units"] = (single * np.float32(1e-3)) * np.float32(1e3)
    params[31], target[31] = other[way][4], target[4]
    assert not np.array_equal(params[31], params[4])
    same = [text for text in said(params, (POINTS, target)) if text.startswith("X is the same")]
    assert not same
    numbers = target[:, -1, 0].copy()
    target[31] *= 1.1
    numbers[31] += 1.5 * numbers.std()
    for y in ((POINTS, target), numbers):
        (message,) = (text for text in said(params, y) if text.startswith("X is the same"))
        assert message.startswith("X is the same up to rounding in sample 4 and sample 31, but y differs by")


def test_steps_for_differences_and_close_samples_do_not_contradict_each_other():
    rng = np.random.default_rng(4)
    steps = (rng.random((12, 1, 2)) + 1e-7 * np.array([[0, 0], [1, 0], [0, 1]])).reshape(36, 2)
    decades, line = 10 ** rng.uniform(-12, 0, (40, 2)), np.sort(rng.random((2000, 1)), axis=0)
    close = (rng.random((10, 1, 2)) + 1e-4 * rng.random((10, 4, 2))).reshape(40, 2)
    for params in (steps, decades, line, close):
        front = np.tanh(200 * (POINTS[:, :1] - params[:, np.newaxis, :1]))
        for y in ((POINTS, front + POINTS[:, 1:]), np.log(params[:, 0] + 1e-9)):
            assert not any("X is the same" in text for text in said(params, y))
    # By chance, of 2000 values of a parameter some are this near; noise of their targets is no contradiction.
    assert not any("X is the same" in text for text in said(line, rng.standard_normal(2000)))


def test_saturated_results_of_neighbours_are_not_named():
    loads = np.sort(np.random.default_rng(0).random(40))
    assert not said(loads[:, None], (POINTS, np.minimum(loads, loads[-3])[:, None, None] * (1 + POINTS[:, :1])))


def test_a_field_of_y_that_comes_twice_is_named_unless_inputs_are_the_same():
    target, inputs = np.array(TARGET), np.array(FIELDS)
    target[9] = target[2]
    for X in (PARAMS, FieldSet(POINTS, FIELDS), FieldSet([POINTS + 0.1 * i for i in range(N)], FIELDS, params=PARAMS)):
        y = FieldSet(X.coords_list() if isinstance(X, FieldSet) else POINTS, target)
        (finding,) = Profile(read(X, y)).problems()
        assert finding.text.startswith("y is the same to the last digit in sample 2 and sample 9, but X differs")
        assert finding.samples == (2, 9)
    target[10] = target[2]
    assert "sample 2 and sample 9, and in 1 more, but" in said(PARAMS, (POINTS, target))[0]
    target[9:] = target[2] * (1 + 1e-15), TARGET[10], TARGET[11]
    assert not said(PARAMS, (POINTS, target))
    # Copies of samples, up to rounding.
    target[9], inputs[9] = target[2], inputs[2] * (1 + 1e-9)
    assert not said(FieldSet(POINTS, inputs), target)


def test_fields_of_y_that_are_the_same_by_their_kind_are_not_named():
    many, constant, labels = np.array(TARGET), np.array(TARGET), RANDOM.integers(0, 2, TARGET.shape)
    many[4:8] = many[3]
    constant[[3, 8]] = 1.0
    labels[9] = labels[2]
    for y in (many, constant, labels):
        assert not said(PARAMS, (POINTS, y))
    assert not said(FieldSet(POINTS, FIELDS), np.arange(N) // 2)


def test_a_table_of_features_may_repeat_itself_and_have_outliers():
    features, numbers = np.repeat(RANDOM.standard_cauchy((20, 3)), 2, axis=0), RANDOM.standard_normal(40)
    assert not said(features, numbers)


def test_a_repetition_in_a_table_that_differs_by_more_than_the_targets_vary_is_named():
    features, numbers = RANDOM.random((30, 3)), RANDOM.random(30)
    features[29], numbers[29] = features[4], numbers[4] + 0.1 * numbers.std()
    assert not said(features, numbers)
    numbers[29] = numbers[4] + 2 * numbers.std()
    (message,) = said(features, numbers)
    assert message.startswith("X is the same in sample 4 and sample 29, but y differs by")


def test_a_parameter_that_is_a_result_is_named():
    channels = FieldSet(POINTS, TARGET, channel_names=["mises"])
    for result, words in (
        (TARGET.max(axis=(1, 2)), "the largest value of channel 'mises'"),
        (TARGET.mean(axis=(1, 2)), "the mean of channel 'mises'"),
        (np.sqrt((TARGET**2).mean(axis=(1, 2))), "the root mean square of channel 'mises'"),
        (np.abs(TARGET).max(axis=(1, 2)), "the largest size of channel 'mises'"),
    ):
        rounded = np.array([float(f"{number:.4g}") for number in result])
        (message,) = said(np.stack([PARAMS[:, 0], rounded], axis=1), channels)
        assert message.startswith(f"parameter 1 of X equals {words} of y in every sample")
    # A load that the largest value follows is none.
    assert not said(PARAMS, FieldSet(POINTS, TARGET * PARAMS[:, :1, None]))


def test_a_parameter_that_is_an_extreme_at_one_node_may_be_prescribed():
    """The wall, whose temperature is prescribed, is shorter in half of the samples."""
    rng, (x, y) = np.random.default_rng(3), POINTS.T
    wall, decay = rng.uniform(300, 400, (N, 1)), rng.uniform(1, 3, (N, 1))
    heat = 20 + (wall - 20) * np.exp(-decay * x) * (1 - 1e-8 * rng.random((N, 20)))
    heat[::2] = np.where((x == 0) & (y > 0.5), 20, heat[::2])
    moving = wall * np.exp(-((x - rng.random((N, 1))) ** 2))
    for target, numbers, what in (
        (heat, wall, "largest value"),
        (-heat, -wall, "smallest value"),
        (-heat, wall, "largest size"),
    ):
        for points in (POINTS, [POINTS] * N):
            X = FieldSet(points, None, params=np.c_[decay, numbers])
            profile = Profile(read(X, FieldSet(points, target[..., None].astype(np.float32))))
            (found,) = [finding for finding in profile.findings() if "in every sample" in finding.text]
            assert found.text.startswith(f"parameter 1 of X equals the {what} of channel 0 of y in every sample, which")
            assert "is at point 0 in all of them. Is it prescribed there" in found.text
            assert found.level == "notice"
            assert not profile.problems()
    for target, numbers in ((moving, moving.max(axis=1)), (heat, heat.mean(axis=1)), (heat[:, :1] + 0 * x, wall)):
        (message,) = said(np.c_[decay, numbers], FieldSet(POINTS, target[..., None]))
        assert "it is a result" in message
    (message,) = said(np.c_[decay, wall], FieldSet(POINTS, heat[..., None], params=wall))
    assert "equals scalar 0 of y in every sample: it is a result" in message


def test_a_column_of_a_table_that_is_a_target_is_named():
    features = RANDOM.random((30, 3))
    numbers = features**2 @ np.ones((3, 2)) + [0.0, 1.0]
    leaking = np.c_[features, np.round(numbers[:, 1], 6)]
    for X, name in ((leaking, "3"), (pd.DataFrame(leaking, columns=["a", "b", "c", "peak"]), "'peak'")):
        (message,) = of_call(lambda X=X: MeanFieldRegressor().fit(X, numbers))
        assert message.startswith(f"column {name} of X equals scalar 1 of y in every sample: it is a result")
        assert "equals scalar 1 of y in every sample" in str(describe_data(X, numbers))


def test_a_law_of_one_column_and_labels_are_no_results():
    """What is proportional to a column, a power of it, or equal by chance can be what is sought."""
    features = 1 + RANDOM.random((8, 2))
    for target in (2 * features[:, 0], features[:, 0] ** 3, 1 + features[:, 1], features[:, 0] * 1.001):
        assert not said(features, target)
    assert not said(np.c_[features, np.arange(8) % 2], np.arange(8) % 2)


# ---------------------------------------------------------------- designs
def one_at_a_time(n_params, values):
    """Rows that differ from a middle one in one parameter at most."""
    rows = np.full((n_params, len(values), n_params), 0.5)
    for k in range(n_params):
        rows[k, :, k] = values
    return np.unique(rows.reshape(-1, n_params), axis=0)


def test_parameters_that_vary_one_at_a_time_are_named():
    for rows in (one_at_a_time(4, np.linspace(0, 1, 5)), one_at_a_time(3, [0.1, 0.2, 0.4, 0.9])):
        (message,) = said(rows, rows.prod(axis=1))
        assert message.startswith("one parameter at a time differs from those of a middle sample")
    rng = np.random.default_rng(1)
    category = np.eye(4)[rng.integers(0, 4, 40)]
    lattice = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)
    for rows in (rng.random((40, 4)), category, np.c_[category, rng.random(40)], lattice, lattice[:, :1] + 1):
        assert not said(rows, rows.sum(axis=1) + rng.random(len(rows)))


def test_parameters_of_two_values_are_named():
    rows = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 4), axis=-1).reshape(-1, 4)
    for numbers in (rows, np.c_[rows, np.ones(16)], 300 + 50 * rows, np.c_[rows[:, :2], rows[:, 2:] > 0]):
        (message,) = said(numbers, np.sin(rows).sum(axis=1))
        assert message.startswith(f"all {(np.ptp(numbers, axis=0) > 0).sum()} parameters that vary have two values")
        # The notice of factorial designs would say it again.
        assert (
            len(Profile(read(numbers, np.sin(rows).sum(axis=1))).findings()) == 1 + (np.ptp(numbers, axis=0) == 0).sum()
        )
    # Flags have nothing between their values, and further values tell of curvature.
    for numbers in (rows > 0, rows[:, :1], np.r_[rows, np.zeros((1, 4))], np.c_[rows, RANDOM.random(16)]):
        assert not said(np.asarray(numbers, float), np.sin(numbers).sum(axis=1))


def test_a_factorial_design_is_mentioned():
    """Leave-one-out errors are those at its values: of 81 combinations 0, of new samples 2 %."""
    rows = np.stack(np.meshgrid(*[np.linspace(0, 1, 3)] * 4), axis=-1).reshape(-1, 4)
    (finding,) = Profile(read(rows, np.sin(rows).sum(axis=1))).findings()
    assert finding.level == "notice"
    assert str(finding).startswith("samples are a factorial design of 3 x 3 x 3 x 3 values of the parameters")
    rows = RANDOM.random((81, 4))
    assert not Profile(read(rows, np.sin(rows).sum(axis=1))).findings()


def test_rows_of_one_run_are_named_unless_groups_are_given():
    """Errors of rows whose run is in the fit say nothing of new runs."""
    rng = np.random.default_rng(1)
    runs, times = rng.random((20, 3)), np.linspace(0, 1, 6)
    for beside in (np.tile(times, 20)[:, None], rng.random((120, 2))):
        rows = np.c_[np.repeat(runs, 6, axis=0), beside][rng.permutation(120)]
        data = read(rows, np.sin(rows).sum(axis=1))
        (message,) = map(str, Profile(data).problems())
        assert message.startswith("rows are 20 groups with the same column 0, column 1 and column 2, such as those of")
        assert not Profile(data, has_groups=True).problems()
    # Properties of a few materials change together, too; levels of a design do not; and runs that are repeated are left
    # out together anyway.
    materials = np.c_[rng.random((4, 3))[rng.integers(0, 4, 120)], rng.random((120, 2))]
    levels = np.c_[rng.integers(0, 12, (120, 2)), rng.random(120)]
    for rows in (materials, levels, rng.random((120, 4))):
        assert not said(rows, np.sin(rows).sum(axis=1))
    repeated = np.repeat(runs, 4, axis=0)
    assert not said(repeated, np.sin(repeated).sum(axis=1) + 0.1 * rng.standard_normal(80))


# ---------------------------------------------------------------- sound data, and estimators that wrap others
def test_data_of_the_library_are_sound():
    for X, y in (
        make_darcy(12, resolution=8, random_state=0),
        make_navier_stokes(8, resolution=8, n_input=2, n_output=2, random_state=0),
        make_advection(12, resolution=512, random_state=0),
        make_european_option(30, random_state=0),
    ):
        assert not said(X, y)


def test_wrappers_say_it_once():
    wrong = FieldSet(POINTS, changed(FIELDS, 3, 1e3))
    small = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0)
    for model in (EnsembleRegressor(small, n_members=2), RolloutRegressor(small, window=2)):
        assert len(of_call(lambda model=model: model.fit(wrong, FieldSet(POINTS, TARGET)))) == 1


def test_a_fit_and_a_description_name_the_same_problems():
    X = FieldSet(POINTS, changed(FIELDS, 3, 1e3), params=changed(PARAMS, 5, 1e4))
    y = 1e4 + FieldSet(POINTS, TARGET).values
    expected = said(X, y)
    found = [finding.text for finding in describe_data(X, y).findings if finding.level == "problem"]
    assert len(expected) == 3
    assert found == expected


def test_repeated_measurements_are_no_contradictions_and_copies_are_noticed():
    features = np.repeat(RANDOM.random((20, 3)), 2, axis=0)
    found = describe_data(features, features.sum(axis=1) + 1e-2 * RANDOM.standard_normal(40)).findings
    assert {finding.level for finding in found} == {"notice"}
    (copies,) = [finding for finding in found if "copies" in finding.text]
    assert "20 groups of samples" in copies.text
    assert len(copies.samples) == 40


@pytest.mark.parametrize("size", [1.0, 101325.0])
def test_rounding_of_single_precision_is_no_variation(size):
    constant = (size * (1 + 2e-7 * RANDOM.standard_normal((N, 20, 1)))).astype(np.float32)
    assert not said(FieldSet(POINTS, FIELDS), FieldSet(POINTS, constant))


# ---------------------------------------------------------------- false alarms and misses
#: Twenty kinds of parameters by functions of a generator and a size.
KINDS = {
    "uniform": lambda rng, size: rng.random(size),
    "uniform away from zero": lambda rng, size: 1 + 2 * rng.random(size),
    "uniform about zero": lambda rng, size: -2 + 7 * rng.random(size),
    "uniform in a short range": lambda rng, size: 2e11 + 1e10 * rng.random(size),
    "uniform and small": lambda rng, size: 1e-3 * rng.random(size),
    "log-uniform over three decades": lambda rng, size: 10 ** (3 * rng.random(size) - 1.5),
    "log-uniform over a decade": lambda rng, size: 10 ** rng.random(size),
    "negative log-uniform": lambda rng, size: -(10 ** (2 * rng.random(size))),
    "five levels": lambda rng, size: rng.integers(0, 5, size) / 4,
    "two levels": lambda rng, size: 1.0 * rng.integers(0, 2, size),
    "integers": lambda rng, size: 1.0 * rng.integers(1, 9, size),
    "powers of ten": lambda rng, size: 10.0 ** rng.integers(-2, 3, size),
    "normal": lambda rng, size: rng.standard_normal(size),
    "normal and positive": lambda rng, size: 10 + rng.standard_normal(size),
    "lognormal": lambda rng, size: rng.lognormal(size=size),
    "narrow lognormal": lambda rng, size: rng.lognormal(sigma=0.3, size=size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "gamma": lambda rng, size: rng.gamma(2.0, size=size),
    "beta": lambda rng, size: rng.beta(2, 5, size=size),
    "Weibull": lambda rng, size: rng.weibull(2, size=size),
}


def test_new_samples_of_the_same_kind_are_inside():
    """Of 200 predictions of 50 samples each, at most 6 % warn."""
    for kind in KINDS:
        rng, warned = np.random.default_rng(1), 0
        for _ in range(200):
            seen = SeenRanges.from_fit(FieldSet(np.zeros((1, 1)), params=KINDS[kind](rng, (100, 3))), None)
            warned += bool(seen.findings(FieldSet(np.zeros((1, 1)), params=KINDS[kind](rng, (50, 3))), every=False))
        assert warned <= 12


@pytest.mark.parametrize(("n_samples", "most"), [(8, 0.06), (12, 0.1), (30, 0.04)])
def test_ranges_of_few_samples_are_seldom_wrong(n_samples, most):
    """Of 20 predictions of 50 samples for each kind."""
    rng, warned = np.random.default_rng(5), []
    for draw in KINDS.values():
        for _ in range(20):
            seen, new = (FieldSet(np.zeros((1, 1)), params=draw(rng, (count, 1))) for count in (n_samples, 50))
            warned.append(bool(SeenRanges.from_fit(seen).findings(new, every=False)))
    assert np.mean(warned) <= most


def test_sizes_of_fields_may_differ_and_those_in_other_units_are_named():
    """Of 30 samples of one shape; a field that is too small changes no range of values."""
    rng, warned, missed = np.random.default_rng(6), [], []
    for kind in ("uniform", "uniform away from zero", "lognormal", "exponential", "log-uniform over three decades"):
        for _ in range(40):
            sizes = KINDS[kind](rng, (80, 1, 1))
            fields = FieldSet(np.array([[0.0], [1.0]]), sizes * [[1.0], [-1.0]])
            seen = SeenRanges.from_fit(fields[:30], Extremes.of(fields[:30].values, fields))
            warned.append(bool(seen.findings(fields[30:], every=False)))
            missed.append(not seen.findings(fields[[30]].with_values(1e-3 * fields[[30]].values)))
    assert np.mean(warned) <= 0.08
    assert np.mean(missed) <= 0.4


def test_what_lies_far_outside_is_named_for_every_kind():
    """A mistake of a factor 1,000 always, a third of an even range, and a factor of 3 over decades."""
    rng = np.random.default_rng(2)
    even = [kind for kind in KINDS if "uniform" in kind and "log" not in kind] + ["five levels", "two levels"]
    for kind, draw in KINDS.items():
        params = draw(rng, (100, 1))
        seen = SeenRanges.from_fit(FieldSet(np.zeros((1, 1)), params=params), None)
        low, high = params.min(), params.max()
        further = [1000 * max(low, high, key=abs)]
        further += [low - 0.35 * (high - low), high + 0.35 * (high - low)] if kind in even else []
        further += [3 * high, low / 3] if "log-uniform over" in kind else []
        for value in further:
            assert seen.findings(FieldSet(np.zeros((1, 1)), params=np.array([[value]]))), (kind, value)


def test_three_times_the_largest_number_over_decades_is_named():
    """By chance few of the designs look as if they had tails: at most 5 % of 300."""
    rng, silent = np.random.default_rng(7), 0
    for _ in range(300):
        params = KINDS["log-uniform over three decades"](rng, (120, 1))
        seen = SeenRanges.from_fit(FieldSet(np.zeros((1, 1)), params=params), None)
        silent += not seen.findings(FieldSet(np.zeros((1, 1)), params=np.array([[100.0]])))
    assert silent <= 15


def test_the_corner_of_a_unit_cube_is_inside():
    design = np.random.default_rng(0).random((100, 2))
    seen = SeenRanges.from_fit(FieldSet(np.zeros((1, 1)), params=design), None)
    assert not seen.findings(FieldSet(np.zeros((1, 1)), params=np.array([[0.0, 1.0], [1.0, 0.0]])))
    assert seen.findings(FieldSet(np.zeros((1, 1)), params=np.array([[-0.2, 0.5]])))


#: Rules for single numbers with the largest rates of false alarms and of missed factors of 1000, over all kinds.
RULES = {
    "problem": (lambda numbers: far_numbers(numbers, "problem"), 0.01, 0.12),
    "notice": (lambda numbers: far_numbers(numbers, "notice"), 0.01, 0.25),
    "size": (lambda numbers: odd_sizes(np.abs(numbers)), 0.015, 0.25),
}


def test_rules_for_odd_numbers_are_seldom_wrong():
    """A number of a set is in another unit, or none is, in 40 sets of each kind."""
    for rule, n_samples in [(rule, count) for rule in RULES for count in (6, 12, 30) if (rule, count) != ("notice", 6)]:
        rng, (find, most_false, most_missed) = np.random.default_rng(3), RULES[rule]
        false, missed = [], []
        for draw in KINDS.values():
            for _ in range(40):
                numbers, row = np.asarray(draw(rng, n_samples), dtype=float), rng.integers(n_samples)
                false.append(len(find(numbers)) > 0)
                if numbers[row]:
                    numbers[row] *= 1000
                    missed.append(row not in find(numbers))
        assert np.mean(false) <= most_false
        assert np.mean(missed) <= most_missed


def test_new_fields_of_the_same_kind_are_inside():
    rng = np.random.default_rng(2)
    many = rng.lognormal(size=(400, 30, 1)) * rng.uniform(0.5, 1.0, (400, 1, 1))
    inputs = FieldSet(np.linspace(0, 1, 30)[:, None], many)
    extremes, warned = Extremes.of(many, inputs), 0
    for _ in range(200):
        order = rng.permutation(400)
        seen = SeenRanges.from_fit(inputs[order[:100]], extremes[order[:100]])
        warned += bool(seen.findings(inputs[order[100:150]], every=False))
    assert warned < 4


def test_few_samples_say_little():
    seen = SeenRanges.from_fit(FieldSet(np.zeros((1, 1)), params=np.linspace(1, 2, 20)[:, None]), None)
    few = replace(seen, n_samples=5)
    asked = FieldSet(np.zeros((1, 1)), params=np.array([[2.9]]))
    assert seen.findings(asked)
    assert not few.findings(asked)
    assert few.findings(asked.with_params(np.array([[29.0]])))


def test_five_samples_are_enough_for_a_problem_and_ten_for_what_is_unusual():
    numbers = np.append(np.linspace(1, 2, 9), 1e3)
    assert far_numbers(numbers[-5:], "problem").tolist() == [4]
    assert not len(far_numbers(numbers[-4:], "problem"))
    assert far_numbers(numbers, "notice").tolist() == [9]
    assert not len(far_numbers(numbers[-9:], "notice"))
    assert odd_sizes(np.array([1.0, 2.0, 1000.0, 0.0, 1.5, 1.2])).tolist() == [2]
    # Half of these numbers lie within 0.5 of each other.
    even = np.linspace(0, 1, 101)
    for level, ratio in (("notice", 6), ("problem", 100)):
        assert far_numbers(np.append(even, 0.5 + 0.52 * ratio), level).tolist() == [101]
        assert not len(far_numbers(np.append(even, 0.5 - 0.48 * ratio), level))
