"""Samples of a fit that look like mistakes are named, by file where they are meshes, and sound data are not."""

import warnings

import meshio
import numpy as np
import pandas as pd
import pytest

from skop import EnsembleRegressor, FieldSet, LaMORegressor, MeanFieldRegressor, RolloutRegressor
from skop.data import Extremes, iterate_rows, read, unit_grid, warn_of_odd_data
from skop.datasets import make_advection, make_darcy, make_european_option, make_navier_stokes
from skop.exceptions import SkopWarning
from skop.inspection import describe_data

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
    """Messages about data as a fit reads them."""
    return of_call(lambda: warn_of_odd_data(read(X, y, **options)))


def of_call(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(issubclass(item.category, SkopWarning) and item.filename == __file__ for item in caught)
    return [str(item.message) for item in caught]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int64, np.uint8, bool])
def test_statistics_of_every_kind_of_number(kind):
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
    assert message.startswith("y of sample 3 is of another size than that of the other samples: its 'mises' is")
    inputs = np.array(FIELDS)
    inputs[[4, 7], :, 1] *= factor
    (message,) = said(FieldSet(POINTS, inputs), TARGET)
    assert message.startswith(("X of sample 4 and sample 7", "X of sample 7 and sample 4"))
    assert "channel 1 is" in message


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
    assert message.startswith("global parameter 0 of X is")
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
    assert not of_call(lambda: mesh_model().fit(files(tmp_path / "sound")))
    for odd, words in (
        ({"factor": 1e3}, ("y of ", "run_5.vtu is of another size", "its 'mises' is ")),
        ({"scale": 1e-3}, ("the points of ", "run_5.vtu have another scale", "metres among millimetres")),
        ({"noise": 1e-9}, ("coordinate 2 of the meshes varies by", "run_5.vtu", "read as 3-D")),
    ):
        source = files(tmp_path / next(iter(odd)), **odd)
        names = {"input_fields": ["load"], "target_fields": ["mises"]}
        (message,) = said(source, None, **names)
        assert all(word in message for word in words), message
    (message,) = of_call(lambda: mesh_model().fit(files(tmp_path / "factor", factor=1e3)))
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
            assert "the mean of y ('p') is 1" in messages[0]
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
    ):
        rounded = np.array([float(f"{number:.6g}") for number in result])
        (message,) = said(np.stack([PARAMS[:, 0], rounded], axis=1), channels)
        assert message.startswith(f"global parameter 1 of X equals {words} of y in every sample")
    # A load that the largest value follows is none.
    assert not said(PARAMS, FieldSet(POINTS, TARGET * PARAMS[:, :1, None]))


def test_a_column_of_a_table_that_is_a_target_is_named():
    features = RANDOM.random((30, 3))
    numbers = features**2 @ np.ones((3, 2)) + [0.0, 1.0]
    leaking = np.c_[features, np.round(numbers[:, 1], 6)]
    for X, name in ((leaking, "3"), (pd.DataFrame(leaking, columns=["a", "b", "c", "peak"]), "'peak'")):
        (message,) = of_call(lambda X=X: MeanFieldRegressor().fit(X, numbers))
        assert message.startswith(f"column {name} of X equals scalar 1 of y in every sample: it is a result")
        assert "equals scalar 1 in every sample" in str(describe_data(X, numbers))


def test_a_law_of_one_column_and_labels_are_no_results():
    """What is proportional to a column, a power of it, or equal by chance can be what is sought."""
    features = 1 + RANDOM.random((8, 2))
    for target in (2 * features[:, 0], features[:, 0] ** 3, 1 + features[:, 1], features[:, 0] * 1.001):
        assert not said(features, target)
    assert not said(np.c_[features, np.arange(8) % 2], np.arange(8) % 2)


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
