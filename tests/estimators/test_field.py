"""What every regressor on fields shares, seen through both estimators: forms of y and the score."""

import meshio
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skop
from skop import ConformalRegressor, FieldSet, LaMORegressor, PODRegressor, TimeConditionedRegressor
from skop.data import unit_grid
from skop.exceptions import FieldDataError

GRID = (4, 6)
GENERATOR = np.random.default_rng(0)
POINTS = unit_grid(GRID)
VALUES = GENERATOR.normal(size=(6, 24, 2)) + 3
TABLE = GENERATOR.normal(size=(6, 3))
FIELDS = FieldSet(POINTS, VALUES, grid_shape=GRID)
GRIDS = VALUES.reshape(6, *GRID, 2)
SETS = FieldSet(POINTS, VALUES[..., :1], grid_shape=GRID, channel_names=["u"])


def lamo():
    return LaMORegressor(width=8, depth=1, batch_size=4, max_iter=1, random_state=0)


@pytest.fixture(params=[lamo, PODRegressor], ids=["lamo", "pod"])
def estimator(request):
    return request.param()


#: A y of each form with points, and how its values are read.
WITH_POINTS = {
    "array": (VALUES[..., :1], lambda found: found),
    "FieldSet": (SETS, lambda found: found.values),
    "tuple": ((POINTS, VALUES[..., :1]), lambda found: found[1]),
    "pairs": ([(POINTS, each) for each in VALUES[..., :1]], lambda found: np.stack([values for _, values in found])),
}


@pytest.mark.parametrize(("y", "read"), WITH_POINTS.values(), ids=WITH_POINTS)
def test_a_single_sample_keeps_its_axis_and_comes_back_in_the_form_of_y(estimator, y, read):
    model = estimator.fit((POINTS, VALUES), y)
    expected = read(model.predict((POINTS, VALUES)))[:1]
    for one in ((POINTS, VALUES[:1]), [(POINTS, VALUES[0])], FIELDS[:1]):
        found = model.predict(one)
        assert type(found) is type(y)
        np.testing.assert_allclose(read(found), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(FieldDataError, match=r"got \(24, 2\); .* or values\[None\] for one sample"):
        model.predict((POINTS, VALUES[0]))


# ---------------------------------------------------------------- points of the model
OWNERS = {
    "POD": PODRegressor(),
    "LaMO": lamo(),
    "LaMO without a base": lamo().set_params(base=None),
    "times": TimeConditionedRegressor(PODRegressor(), times=[0.0, 1.0]),
    "bands": ConformalRegressor(PODRegressor(), coverage=0.5, calibration_size=0.5, random_state=0),
}


def with_mesh(points):
    """Values on one mesh of these points."""
    return meshio.Mesh(np.pad(points, [(0, 0), (0, 1)]), [("vertex", np.arange(24)[:, None])]), VALUES


def move(samples):
    """Move the points of a y or a prediction in place, and change the cells of a mesh; return what they were."""
    held = samples[0] if isinstance(samples, list | tuple) else samples
    points = held if isinstance(held, np.ndarray) else held.points if hasattr(held, "points") else held.coords
    before = points[:, :2].copy()
    points *= 1.3
    if hasattr(held, "points"):
        np.testing.assert_array_equal(held.cells[0].data[:, 0], np.arange(24))
        held.cells[0].data[:] = 0
    return before


def values_of(found):
    """Values of a prediction at given points."""
    return found[1] if isinstance(found, tuple) else found.values


@pytest.mark.parametrize("y_on", [lambda points: (points, VALUES), lambda points: FieldSet(points, VALUES), with_mesh])
@pytest.mark.parametrize("model", OWNERS.values(), ids=OWNERS)
def test_the_points_of_a_model_stay_where_those_of_the_caller_are_moved(model, y_on, tmp_path):
    expected = clone(model).fit(TABLE, y_on(POINTS.copy())).predict(TABLE[:1], coords=POINTS)
    y = y_on(POINTS.copy())
    model = clone(model).fit(TABLE, y)
    move(y)
    move(model.predict(TABLE[:1]))
    model.save(tmp_path / "model.skop")
    for held in (model, skop.load(tmp_path / "model.skop")):
        np.testing.assert_array_equal(move(held.predict(TABLE[:1])), POINTS)
        found = held.predict(TABLE[:1], coords=POINTS)
        np.testing.assert_array_equal(values_of(found), values_of(expected))


@pytest.mark.parametrize("wrap", [lambda inner: inner, lambda inner: TimeConditionedRegressor(inner, times=[0.0, 1.0])])
def test_the_points_of_y_alone_stay_too(wrap):
    y = FieldSet(0.1 + 0.8 * POINTS, VALUES)
    model = wrap(lamo().set_params(geometry="points")).fit(FIELDS, y)
    expected = move(y)
    for _ in range(2):
        np.testing.assert_array_equal(move(model.predict(FIELDS[:1])), expected)


# ---------------------------------------------------------------- score
def test_the_score_of_fields_is_one_minus_the_mean_relative_error(estimator, subtests):
    for label, (X, y) in {
        "grid": (GRIDS, GRIDS[..., :1]),
        "no channel axis": (GRIDS, GRIDS[..., 0]),
        "FieldSet": (FIELDS, SETS),
        "tuple": ((POINTS, VALUES), (POINTS, VALUES)),
        "parameters": (TABLE, GRIDS),
    }.items():
        with subtests.test(label):
            predicted = estimator.fit(X, y).predict(X)
            truth = y
            if isinstance(y, tuple):
                predicted, truth = predicted[1], y[1]
            if isinstance(y, FieldSet):
                predicted, truth = predicted.values, y.values
            for weight in (np.ones(6), np.array([1.0, 0, 2, 0, 0, 3])):
                difference, norm = (np.linalg.norm(part.reshape(6, -1), axis=1) for part in (predicted - truth, truth))
                expected = 1 - np.average(difference / norm, weights=weight)
                assert estimator.score_physical(X, y, sample_weight=weight) == pytest.approx(expected, rel=1e-6)
                squares = np.average(
                    (truth**2).reshape(6, -1, estimator.spec_.n_outputs).mean(axis=1), axis=0, weights=weight
                )
                parts = [
                    (part / np.sqrt(squares).reshape(-1)[: truth.shape[-1]]) for part in (predicted - truth, truth)
                ]
                if estimator.spec_.n_outputs > 1:
                    difference, norm = (np.linalg.norm(part.reshape(6, -1), axis=1) for part in parts)
                expected = 1 - np.average(difference / norm, weights=weight)
                assert estimator.score(X, y, sample_weight=weight) == pytest.approx(expected, rel=1e-6)


# ---------------------------------------------------------------- checks
def test_the_kind_of_x_must_be_that_of_the_fit(estimator):
    estimator.fit(GRIDS, GRIDS)
    with pytest.raises(FieldDataError, match="2-D table"):
        estimator.predict(TABLE)
    with pytest.raises(FieldDataError, match=r"1 channels.*fitted with 2"):
        estimator.predict(GRIDS[..., :1])
    estimator.fit(TABLE, GRIDS)
    with pytest.raises(FieldDataError, match="2-D table"):
        estimator.predict(GRIDS)
    with pytest.raises(ValueError, match="2 features"):
        estimator.predict(TABLE[:, :2])


def test_a_second_fit_forgets_the_kind_of_the_first(estimator):
    estimator.fit(TABLE, GRIDS)
    assert estimator.n_features_in_ == 3
    estimator.fit(GRIDS, GRIDS)
    assert (estimator.n_features_in_, estimator.coords_) == (2, None)
    assert estimator.predict(GRIDS).shape == GRIDS.shape


def test_the_count_of_features_outlives_warm_starts_and_failed_fits(tmp_path):
    fields = np.random.default_rng(0).standard_normal((6, 5, 4, 3))
    model = LaMORegressor(width=8, depth=1, batch_size=4, max_iter=1, warm_start=True).fit(fields, fields)
    model.fit(fields, fields)
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="6 samples"):
        model.fit(fields, fields[:5])
    assert model.n_features_in_ == 3
    model.save(tmp_path / "model.skop")


def test_names_of_a_table_are_forgotten_by_a_fit_on_fields():
    table = pd.DataFrame(np.random.default_rng(0).random((6, 2)), columns=["load", "angle"])
    fields = np.random.default_rng(1).standard_normal((6, 5, 4, 3))
    model = LaMORegressor(width=8, depth=1, batch_size=4, max_iter=1).fit(table, fields)
    assert list(model.feature_names_in_) == ["load", "angle"]
    model.fit(fields, fields)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3
