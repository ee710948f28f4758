"""Masked entries are refused wherever numbers come in: NumPy and scikit-learn would use what lies under the mask."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.data import unit_grid
from skop.exceptions import FieldDataError
from skop.metrics import pdebench_rmse, relative_l2_error

TABLE = np.random.default_rng(0).standard_normal((8, 3))
SCALARS = TABLE[:, :2].copy()
FIELDS = TABLE[:, :1, None] * np.linspace(0, 1, 6)[None, :, None]


def masked(array):
    """A copy with a wild number under a mask."""
    array = np.array(array)
    mask = np.arange(array.size).reshape(array.shape) == 4
    array[mask] = 1e6
    return np.ma.masked_array(array, mask)


def lamo():
    return LaMORegressor(width=8, depth=1, batch_size=4, max_iter=1, random_state=0)


MODELS = {
    "operator": lamo(),
    "POD": PODRegressor(n_components=2),
    "band": ConformalRegressor(PODRegressor(n_components=2), coverage=0.5, random_state=0),
    "ensemble": EnsembleRegressor(lamo(), n_members=1),
    "rollout": RolloutRegressor(PODRegressor(n_components=2), window=1, n_steps=1),
    "times": TimeConditionedRegressor(PODRegressor(n_components=2), times=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_masked_entries_are_refused(name, subtests):
    model, unmasked = MODELS[name], np.ma.masked_array(TABLE, False)
    for kind, y in {"scalar": SCALARS[:, 0], "scalars": SCALARS, "fields": FIELDS}.items():
        np.testing.assert_array_equal(model.fit(unmasked, y).predict(unmasked).shape, y.shape)
        for method, data in {
            "fit X": (masked(TABLE), y),
            "fit y": (TABLE, masked(y)),
            "predict": (masked(TABLE),),
            "score": (TABLE, masked(y)),
        }.items():
            words = r"[Xy] has 1 masked entries; fill them"
            with subtests.test(kind, method=method), pytest.raises(FieldDataError, match=words):
                getattr(model, method.partition(" ")[0])(*data)


def test_masked_weights_parameters_and_rows_of_lists():
    model, points = lamo(), unit_grid((3, 2))
    band = ConformalRegressor(PODRegressor(n_components=2), coverage=0.5, random_state=0)
    weighted = clone(band).fit(TABLE, SCALARS, sample_weight=np.ones(8))
    for call in (
        lambda: clone(band).fit(TABLE, SCALARS, groups=masked(np.arange(8))),
        lambda: weighted.predict_interval(TABLE, sample_weight=masked(np.ones(8))),
        lambda: weighted.score_coverage(TABLE, masked(SCALARS)),
        lambda: AutoRegressor(max_time=1).fit(TABLE, SCALARS, groups=masked(np.arange(8))),
        lambda: model.fit(TABLE, SCALARS, sample_weight=masked(np.ones(8))),
        lambda: FieldSet(points, np.zeros((8, 6, 1)), params=masked(TABLE)),
        lambda: model.fit(list(masked(TABLE)), SCALARS),
        lambda: model.fit(TABLE, SCALARS).score(TABLE, SCALARS, sample_weight=masked(np.ones(8))),
    ):
        with pytest.raises(FieldDataError, match="masked entries"):
            call()


@pytest.mark.parametrize("model", [lamo(), PODRegressor(n_components=2)])
def test_masked_parameters_beside_fields(model):
    columns = {"load": TABLE[:, 0], "angle": TABLE[:, 1]}
    records = np.rec.fromarrays(list(columns.values()), names=list(columns))
    hidden = np.ma.masked_array(records)
    hidden["angle"][4] = np.ma.masked
    fitted = clone(model).fit(FIELDS, FIELDS, params=TABLE)
    for call in (
        lambda: clone(model).fit(FIELDS, FIELDS, params=masked(TABLE)),
        lambda: clone(model).fit(FIELDS, FIELDS, params=columns | {"angle": masked(TABLE[:, 1])}),
        lambda: clone(model).fit(FIELDS, FIELDS, params=hidden),
        lambda: fitted.predict(FIELDS, params=masked(TABLE)),
        lambda: fitted.score(FIELDS, FIELDS, params=masked(TABLE)),
        lambda: fitted.novelty(FIELDS, params=masked(TABLE)),
    ):
        with pytest.raises(FieldDataError, match="masked entries; fill them"):
            call()


def test_masked_coordinates_are_to_be_left_out():
    """Filled ones would be other places."""
    places = np.random.default_rng(3).random((8, 6, 2))
    words = "{} has 1 masked entries; leave out the points .* in coordinates and values"
    with pytest.raises(FieldDataError, match=words.format("coords of sample 0")):
        lamo().fit([masked(places[0]), *places[1:]], SCALARS)
    with pytest.raises(FieldDataError, match=words.format("coords")):
        FieldSet(masked(places[0]), np.ones((8, 6, 1)))


def test_masked_times():
    frames = np.concatenate([FIELDS, FIELDS], axis=-1)
    with pytest.raises(FieldDataError, match="times has 1 masked entries"):
        TimeConditionedRegressor(lamo(), times=masked(np.arange(5.0))[3:]).fit(FIELDS, frames)
    fitted = TimeConditionedRegressor(lamo(), times=[0.0, 1.0]).fit(FIELDS, frames)
    with pytest.raises(FieldDataError, match="times has 1 masked entries"):
        fitted.predict(FIELDS, times=masked(np.linspace(0, 1, 6)))


@pytest.mark.parametrize("metric", [relative_l2_error, pdebench_rmse])
def test_metrics_refuse_masked_truths_and_predictions(metric):
    for pair in ((masked(FIELDS), FIELDS), (FIELDS, masked(FIELDS))):
        with pytest.raises(FieldDataError, match=r"y_(true|pred) has 1 masked entries"):
            metric(*pair)
    with pytest.raises(FieldDataError, match="sample 0 of y_true has 1 masked entries"):
        relative_l2_error(list(masked(FIELDS)), list(FIELDS))


@pytest.mark.parametrize("dtype", ["Float64", "float32"])
def test_columns_with_a_value_for_missing_numbers(dtype):
    y = pd.DataFrame(SCALARS).astype(dtype)
    model = lamo().fit(pd.DataFrame(TABLE).astype(dtype), y)
    assert model.score(TABLE, y) == pytest.approx(model.score(TABLE, SCALARS), rel=1e-6)
    with pytest.raises(ValueError, match="NaN"):
        model.score(TABLE, y.mask(y > 1))
