"""What every regressor on fields shares, seen through both estimators: forms of y and the score."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from skop import FieldSet, LaMORegressor, PODRegressor
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
    return LaMORegressor(width=8, depth=1, max_iter=1, random_state=0)


@pytest.fixture(params=[lamo, PODRegressor], ids=["lamo", "pod"])
def estimator(request):
    return request.param()


FORMS = {
    "features, vector": (TABLE, TABLE[:, 0]),
    "features, table": (TABLE, TABLE[:, :2]),
    "features, table of the same shape": (VALUES[:, :, 0], VALUES[:, :, 1]),
    "function": (VALUES[:, :, :1], VALUES[:, :, 1:]),
    "function, no channel axis": (VALUES[:, :, :1], VALUES[:, :, 1]),
    "parameters, grid": (TABLE, GRIDS),
    "grid, vector": (GRIDS, TABLE[:, 0]),
    "grid, table": (GRIDS, TABLE[:, :2]),
    "grid, grid": (GRIDS, GRIDS[..., :1]),
    "grid, no channel axis": (GRIDS, GRIDS[..., 0]),
    "FieldSet, points": (FIELDS, VALUES[..., :1]),
    "FieldSet, points without channels": (FIELDS, VALUES[..., 0]),
    "tuple, vector": ((POINTS, VALUES), TABLE[:, 0]),
}


def test_predictions_have_the_shape_and_type_of_y(estimator, subtests):
    for form, (X, y) in FORMS.items():
        with subtests.test(form):
            predicted = estimator.fit(X, y).predict(X)
            assert isinstance(predicted, np.ndarray)
            assert predicted.shape == y.shape
            assert predicted.dtype == y.dtype
            assert np.isfinite(predicted).all()


def test_a_fieldset_comes_back_as_one(estimator, subtests):
    for label, X in {"table": TABLE, "grid": GRIDS, "FieldSet": FIELDS, "tuple": (POINTS, VALUES)}.items():
        with subtests.test(label):
            predicted = estimator.fit(X, SETS).predict(X)
            assert isinstance(predicted, FieldSet)
            assert predicted.channel_names == ("u",)
            assert predicted.shape == SETS.shape
            np.testing.assert_array_equal(predicted.coords, POINTS)


def test_a_tuple_comes_back_as_one(estimator, subtests):
    for label, X in {"table": TABLE, "FieldSet": FIELDS, "tuple": (POINTS, VALUES)}.items():
        with subtests.test(label):
            coords, fields = estimator.fit(X, (POINTS, VALUES[..., :1])).predict(X)
            np.testing.assert_array_equal(coords, POINTS)
            assert fields.shape == (6, 24, 1)


def test_single_precision_targets_give_single_precision_fields(estimator):
    assert estimator.fit(GRIDS, GRIDS.astype(np.float32)).predict(GRIDS).dtype == np.float32


def test_the_forms_of_x_and_y_do_not_change_the_prediction(estimator):
    expected = estimator.fit(GRIDS, GRIDS[..., :1]).predict(GRIDS).reshape(6, 24)
    for X, y in ((GRIDS, GRIDS[..., 0]), (FIELDS, SETS), ((POINTS, VALUES), (POINTS, VALUES[..., :1]))):
        predicted = estimator.fit(X, y).predict(X)
        predicted = predicted[1] if isinstance(predicted, tuple) else getattr(predicted, "values", predicted)
        np.testing.assert_allclose(predicted.reshape(6, 24), expected, rtol=1e-6, atol=1e-7)


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


def test_the_norm_of_scalars_runs_over_the_set(estimator):
    y = TABLE[:, 0]
    predicted = estimator.fit(GRIDS, y).predict(GRIDS)
    assert estimator.score(GRIDS, y) == pytest.approx(1 - np.linalg.norm(predicted - y) / np.linalg.norm(y))


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


def test_nothing_is_predicted_before_a_fit(estimator):
    with pytest.raises(NotFittedError):
        estimator.predict(GRIDS)
    with pytest.raises(NotFittedError):
        estimator.score(GRIDS, GRIDS)


def test_a_second_fit_forgets_the_kind_of_the_first(estimator):
    estimator.fit(TABLE, GRIDS)
    assert estimator.n_features_in_ == 3
    estimator.fit(GRIDS, GRIDS)
    assert (estimator.n_features_in_, estimator.coords_) == (2, None)
    assert estimator.predict(GRIDS).shape == GRIDS.shape


def test_the_count_of_features_outlives_warm_starts_and_failed_fits(tmp_path):
    fields = np.random.default_rng(0).standard_normal((6, 5, 4, 3))
    model = LaMORegressor(width=8, depth=1, max_iter=1, warm_start=True).fit(fields, fields)
    model.fit(fields, fields)
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="6 samples"):
        model.fit(fields, fields[:5])
    assert model.n_features_in_ == 3
    model.save(tmp_path / "model.skop")


def test_names_of_a_table_are_forgotten_by_a_fit_on_fields():
    table = pd.DataFrame(np.random.default_rng(0).random((6, 2)), columns=["load", "angle"])
    fields = np.random.default_rng(1).standard_normal((6, 5, 4, 3))
    model = LaMORegressor(width=8, depth=1, max_iter=1).fit(table, fields)
    assert list(model.feature_names_in_) == ["load", "angle"]
    model.fit(fields, fields)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3
