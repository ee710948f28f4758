"""What fit, predict and score refuse of ragged samples, with which words, and the odd things that must work."""

import numpy as np
import pytest

from skop import FieldSet, LaMORegressor
from skop.data import unit_grid
from skop.exceptions import FieldDataError

SIZES = (12, 7, 1, 20, 9, 12)


def small(**params):
    tiny = {
        "width": 8,
        "depth": 1,
        "latents__n_tokens": 4,
        "latents__n_heads": 2,
        "max_iter": 1,
        "random_state": 0,
    }
    return LaMORegressor().set_params(**(tiny | params))


def samples(sizes=SIZES, n_channels=2):
    generator = np.random.default_rng(0)
    points = [generator.random((size, 2)) for size in sizes]
    fields = [generator.normal(size=(size, n_channels)) for size in sizes]
    return points, fields, [1 + field[:, :1] for field in fields]


POINTS, FIELDS, TARGETS = samples()
PAIRS = list(zip(POINTS, FIELDS, strict=True))
SINGLE = [target[:, 0] for target in TARGETS]


def replaced(items, place, item):
    return [*items[:place], item, *items[place + 1 :]]


def poisoned(items, place, value=np.nan):
    array = items[place].copy()
    array.flat[-1] = value
    return replaced(items, place, array)


def zipped(points, fields):
    return list(zip(points, fields, strict=True))


TWO = [np.zeros((12, 2)), np.zeros((12, 2))]
# name: (X, y, parameters, words of the message)
REFUSED_BY_FIT = {
    "no points": (
        zipped(replaced(POINTS, 1, np.zeros((0, 2))), replaced(FIELDS, 1, np.zeros((0, 2)))),
        replaced(TARGETS, 1, np.zeros((0, 1))),
        {},
        ["sample 1", "no points"],
    ),
    "no points, no fields": (
        replaced(POINTS, 2, np.zeros((0, 2))),
        replaced(TARGETS, 2, np.zeros((0, 1))),
        {},
        ["sample 2", "no points"],
    ),
    "NaN in fields": (zipped(POINTS, poisoned(FIELDS, 3)), TARGETS, {}, ["X", "NaN", "sample 3", "channel 1"]),
    "NaN in points": (zipped(poisoned(POINTS, 3), FIELDS), TARGETS, {}, ["X", "NaN", "coordinates", "sample 3"]),
    "NaN in points alone": (poisoned(POINTS, 4), TARGETS, {}, ["X", "NaN", "coordinates", "sample 4"]),
    "infinity in y": (PAIRS, poisoned(TARGETS, 5, np.inf), {}, ["y", "infinity", "sample 5", "channel 0"]),
    "NaN in params": (
        FieldSet(POINTS, FIELDS, params=poisoned(list(np.ones((6, 2))), 2)),
        TARGETS,
        {},
        ["X", "NaN", "params", "sample 2, parameter 1"],
    ),
    "NaN in scalars": (PAIRS, [0, 1, np.nan, 3, 4, 5], {}, ["y", "NaN", "sample 2"]),
    "no channels": (zipped(POINTS, [item[:, :0] for item in FIELDS]), TARGETS, {}, ["X", "channels"]),
    "y of no channels": (PAIRS, [item[:, :0] for item in TARGETS], {}, ["y", "channels"]),
    "other channels": (zipped(POINTS, replaced(FIELDS, 2, np.zeros((1, 3)))), TARGETS, {}, ["sample 2", "(1, 3)"]),
    "other dimensions": (zipped(replaced(POINTS, 2, np.zeros((1, 3))), FIELDS), TARGETS, {}, ["sample 2", "(1, 3)"]),
    "other dimensions of points alone": (replaced(POINTS, 2, np.zeros((1, 3))), TARGETS, {}, ["sample 2", "(1, 3)"]),
    "one y too long": (PAIRS, replaced(TARGETS, 4, np.zeros((10, 1))), {}, ["y of sample 4", "(10, 1)", "9 points"]),
    "one y too long, single": (PAIRS, replaced(SINGLE, 4, np.zeros(10)), {}, ["y of sample 4", "(10,)", "9 points"]),
    "one y of other channels": (PAIRS, replaced(TARGETS, 4, np.zeros((9, 2))), {}, ["y of sample 4", "(9, 2)"]),
    "y with and without channels": (PAIRS, replaced(TARGETS, 4, np.zeros(9)), {}, ["y of sample 4", "(9,)"]),
    "one field too long": (
        zipped(POINTS, replaced(FIELDS, 4, np.zeros((10, 2)))),
        TARGETS,
        {},
        ["sample 4", "(10, 2)"],
    ),
    "one y too few": (PAIRS, TARGETS[:5], {}, ["X has 6 samples", "y has 5"]),
    "one scalar too few": (PAIRS, np.arange(5.0), {}, ["X has 6 samples", "y has 5"]),
    "tuples and arrays": (replaced(PAIRS, 3, POINTS[3]), TARGETS, {}, ["sample 3", "tuple"]),
    "arrays and tuples": (replaced(POINTS, 3, PAIRS[3]), TARGETS, {}, ["tuple"]),
    "fields for some": (replaced(PAIRS, 3, (POINTS[3], None)), TARGETS, {}, ["sample 3", "no fields"]),
    "triples": ([(*pair, 0) for pair in PAIRS], TARGETS, {}, ["tuple", "coords, fields"]),
    "vectors as points": ([item[:, 0] for item in POINTS], SINGLE, {}, []),
    "vectors in pairs": ([(place[:, 0], field[:, 0]) for place, field in PAIRS], TARGETS, {}, []),
    "vectors as fields": ([(place, field[:, 0]) for place, field in PAIRS], TARGETS, {}, ["sample 0", "(12,)"]),
    "a vector among the points": (replaced(POINTS, 3, np.zeros(20)), TARGETS, {}, ["shape"]),
    "None among the points": (replaced(POINTS, 3, None), TARGETS, {}, []),
    "grids among pairs": ([(place, field[None]) for place, field in PAIRS], TARGETS, {}, ["sample 0", "(1, 12, 2)"]),
    "text": ([item.astype(str) for item in POINTS], TARGETS, {}, ["sample 0", "numbers"]),
    "text in y": (PAIRS, [item.astype(str) for item in TARGETS], {}, ["y of sample 0", "numbers"]),
    "complex fields": (zipped(POINTS, [field + 1j for field in FIELDS]), TARGETS, {}, ["sample 0", "complex"]),
    "array of fields as y": (PAIRS, np.zeros((6, 12, 1)), {}, ["(6, 12, 1)", "list of arrays"]),
    "grid as y": (PAIRS, np.zeros((6, 4, 3, 1)), {}, ["(6, 4, 3, 1)", "list of arrays"]),
    "no y": (PAIRS, None, {}, ["requires y"]),
    "y on other points": (PAIRS, zipped(replaced(POINTS, 3, POINTS[3][::-1]), TARGETS), {}, ["other points", "order"]),
    "y on other numbers of points": (PAIRS, zipped(POINTS[::-1], TARGETS[::-1]), {}, ["same points"]),
    "y of points alone": (PAIRS, [(item, None) for item in POINTS], {}, ["y", "without values"]),
    "fields of one size, other points": (
        zipped(TWO, [np.zeros((12, 2)), np.zeros((11, 2))]),
        TARGETS[:2],
        {},
        ["sample 1", "(11, 2)"],
    ),
    "a grid": (PAIRS, TARGETS, {"geometry": "grid"}, ["geometry='grid'", "grid"]),
    "a bent grid": (PAIRS, TARGETS, {"geometry": "structured"}, ["geometry='structured'"]),
    "a grid of shared points": (
        (POINTS[0], np.ones((3, 12, 1))),
        np.ones((3, 12, 1)),
        {"geometry": "grid"},
        ["geometry='grid'"],
    ),
    "draws of a grid": (
        np.ones((3, 4, 4, 1)),
        np.ones((3, 4, 4, 1)),
        {"training__subsample_points": 3},
        ["training__subsample_points=3", "points"],
    ),
    "draws of no points": (PAIRS, TARGETS, {"training__subsample_points": 0}, ["subsample_points"]),
    "a scale of each point": (PAIRS, TARGETS, {"scaling__inputs": "point"}, ["'point'", "'channel'"]),
    "symmetries": (PAIRS, TARGETS, {"symmetries": ["x"]}, ["symmetry 'x'", "'flip_x'"]),
    "derivatives": (PAIRS, TARGETS, {"loss": "relative_l2_gradient"}, ["grid"]),
    "a table with ragged y": (np.ones((6, 2)), TARGETS, {}, []),
    "params with ragged pairs": (np.ones((6, 2)), zipped(POINTS, TARGETS), {}, ["share", "FieldSet with params"]),
    "an array with ragged y": (np.ones((6, 5, 5, 1)), TARGETS, {}, []),
    "sets of lists": ([PAIRS[:2], PAIRS[2:4]], TARGETS[:2], {}, []),
    "FieldSets in a list": ([FieldSet(POINTS, FIELDS)] * 2, TARGETS[:2], {}, ["np.concatenate"]),
}


def test_fit_refuses(subtests):
    for name in list(REFUSED_BY_FIT):
        with subtests.test(name):
            X, y, params, words = REFUSED_BY_FIT[name]
            with pytest.raises(ValueError, match=r"\w") as error:
                small(**params).fit(X, y)
            for word in words:
                assert word in str(error.value)
            where = error.traceback[-1].path
            assert "torch" not in str(where)
            assert "skop" in str(where) or "sklearn" in str(where)


@pytest.fixture(scope="module")
def fitted():
    """A model of fields on points of each sample's own."""
    return small().fit(PAIRS, TARGETS)


REFUSED_BY_PREDICT = {
    "other channels": (zipped(POINTS, [field[:, :1] for field in FIELDS]), ["1 channels", "2"]),
    "no channels": (POINTS, ["0 channels", "2"]),
    "other dimensions": (zipped([np.zeros((size, 3)) for size in SIZES], FIELDS), ["3 space dimensions", "2"]),
    "parameters": (FieldSet(POINTS, FIELDS, params=np.ones((6, 1))), ["1 parameters", "0"]),
    "NaN": (zipped(POINTS, poisoned(FIELDS, 3)), ["X", "NaN", "sample 3"]),
    "no points": (zipped(replaced(POINTS, 1, np.zeros((0, 2))), replaced(FIELDS, 1, np.zeros((0, 2)))), ["sample 1"]),
    "no samples": ([], []),
    "no samples of a set": (FieldSet(POINTS, FIELDS)[:0], ["0 samples"]),
    "a table": (np.ones((3, 2)), ["table"]),
    "tuples and arrays": (replaced(PAIRS, 3, POINTS[3]), ["sample 3"]),
    "one pair alone": (PAIRS[0], []),
    "text": ("runs/*.vtu", ["meshes"]),
    "None": (None, []),
}


def test_predict_refuses(fitted, subtests):
    for name in list(REFUSED_BY_PREDICT):
        with subtests.test(name):
            X, words = REFUSED_BY_PREDICT[name]
            with pytest.raises(ValueError, match=r"\w") as error:
                fitted.predict(X)
            for word in words:
                assert word in str(error.value)


REFUSED_BY_SCORE = {
    "no y": (None, ["y"]),
    "too few": (TARGETS[:5], ["5"]),
    "one too long": (replaced(TARGETS, 4, np.ones((10, 1))), ["sample 4"]),
    "NaN": (poisoned(TARGETS, 3), ["sample 3", "NaN"]),
    "other channels": ([np.ones((size, 2)) for size in SIZES], ["2"]),
    "scalars": (np.ones(6), []),
    "an array of fields": (np.ones((6, 12, 1)), ["(6, 12, 1)"]),
}


def test_score_refuses(fitted, subtests):
    for name in list(REFUSED_BY_SCORE):
        for method in ["score", "score_channels"]:
            with subtests.test(name=name, method=method):
                y, words = REFUSED_BY_SCORE[name]
                with pytest.raises(ValueError, match=r"\w") as error:
                    getattr(fitted, method)(PAIRS, y)
                for word in words:
                    assert word in str(error.value)


def test_truth_on_other_points_is_no_truth():
    """A truth whose points come in another order would be compared point by point with the wrong values."""
    model = small().fit(PAIRS, FieldSet(POINTS, TARGETS))
    truth = FieldSet([item[::-1] for item in POINTS], [item[::-1] for item in TARGETS])
    with pytest.raises(FieldDataError, match="points"):
        model.score(PAIRS, truth)


def test_scalars_of_another_shape_are_no_truth():
    """A transposed table has as many numbers, but other ones."""
    y = np.arange(12.0).reshape(6, 2)
    model = small().fit(PAIRS, y)
    for wrong in (y.T, y.ravel(), y[:, :1], y[:5]):
        with pytest.raises(ValueError, match=r"y"):
            model.score(PAIRS, wrong)


def test_grid_model_wants_a_grid():
    X = np.ones((3, 4, 4, 1))
    model = small(patches__size=2).fit(X, X)
    with pytest.raises(FieldDataError, match="no regular grid"):
        model.predict([(place, field[:, :1]) for place, field in PAIRS])


# ---------------------------------------------------------------------- odd but legal
def test_repeated_points_and_single_points():
    points = [np.zeros((5, 2)), np.ones((1, 2)), np.repeat(POINTS[0], 2, axis=0)]
    prediction = small().fit(points, [np.ones((len(item), 1)) for item in points]).predict(points)
    assert all(np.isfinite(item).all() for item in prediction)
    # Equal points without fields are equal inputs. Matrix products may round rows in different ways.
    np.testing.assert_allclose(prediction[0], np.broadcast_to(prediction[0][:1], (5, 1)), atol=2e-6)
    np.testing.assert_allclose(prediction[2][::2], prediction[2][1::2], atol=2e-6)


def test_all_samples_of_one_point():
    points = [np.array([[0.1 * i, 0.3]]) for i in range(5)]
    fields = [np.array([[1.0 + i]]) for i in range(5)]
    model = small().fit([(place, None) for place in points], fields)
    prediction = model.predict([(place, None) for place in points])
    assert [np.shape(item) for item in prediction] == [(1, 1)] * 5


@pytest.mark.parametrize("n_dims", [1, 3])
def test_a_single_sample(n_dims):
    points = [np.random.default_rng(0).random((9, n_dims))]
    prediction = small().fit(points, [points[0][:, :1]]).predict(points)
    assert isinstance(prediction, list)
    assert prediction[0].shape == (9, 1)


def test_other_number_types():
    """Integers, half precision, foreign byte orders, booleans, read-only and strided arrays."""
    expected = small().fit(PAIRS, TARGETS).predict(PAIRS)
    for change in (lambda x: x.astype(">f8"), np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2]):
        pairs = [(change(place), change(field)) for place, field in PAIRS]
        for item in pairs[0]:
            item.flags.writeable = False
        found = small().fit(pairs, [change(item) for item in TARGETS]).predict(pairs)
        for left, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(left, right)
    for dtype in (np.float16, np.float32, int, bool):
        pairs = [(place.astype(np.float32), (10 * field).astype(dtype)) for place, field in PAIRS]
        assert np.isfinite(small().fit(pairs, [item.astype(dtype) for item in TARGETS]).predict(pairs)[0]).all()


def test_large_offsets_of_coordinates():
    """Points in map coordinates: metres, far from the origin."""
    far = [1e3 * item + [4.5e5, 5.6e6] for item in POINTS]
    near = [1e3 * item for item in POINTS]
    expected = small().fit(near, TARGETS).predict(near)
    for left, right in zip(small().fit(far, TARGETS).predict(far), expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4)


def test_grid_read_as_points():
    """A grid may be read as points, and then predicts any points."""
    grid = unit_grid((5, 4))
    values = np.random.default_rng(0).random((4, 20, 1))
    model = small(geometry="points").fit(FieldSet(grid, values, grid_shape=(5, 4)), 1 + values)
    assert model.geometry_ == "points"
    assert model.predict([(place, field[:, :1]) for place, field in PAIRS])[3].shape == (20, 1)
