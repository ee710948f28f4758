"""The model card: the same for the same fit, whatever form the data came in, and that of the model in the file."""

import json

import h5py
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skop
from skop import (
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    MeanFieldRegressor,
    PODRegressor,
    RolloutRegressor,
)
from skop.data import unit_grid
from skop.estimators.files._card import card_of
from skop.estimators.files._persistence import read_card

from . import pod
from .make_model_files import cases_of_0_1_0

pytestmark = pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
TABLE = np.random.default_rng(0).random((40, 2))
SUMS = TABLE.sum(axis=1)
SMALL = {"width": 8, "depth": 1, "max_iter": 1, "random_state": 0}


def cases():
    """Fitted one by one: an estimator of each kind, some around others, and with bands of each kind."""
    yield from (case[1:] for case in cases_of_0_1_0(np.random.default_rng(0)))
    yield LaMORegressor(**SMALL, early_stopping=True), TABLE, SUMS
    yield make_pipeline(StandardScaler(), pod()), TABLE, SUMS
    yield ConformalRegressor(FrozenEstimator(pod().fit(TABLE[:20], SUMS[:20]))), TABLE[20:], SUMS[20:]
    yield ConformalRegressor(Ridge(), method="cv+", random_state=0), TABLE, SUMS
    members = EnsembleRegressor(LaMORegressor(**SMALL, base=None), n_members=2, random_state=0)
    yield ConformalRegressor(members, scale="spread", random_state=0), TABLE, SUMS


def without_times(card):
    """A card without the date and the seconds of its fits."""
    if isinstance(card, dict):
        return {name: without_times(part) for name, part in card.items() if name not in ("date", "seconds")}
    return [without_times(part) for part in card] if isinstance(card, list) else card


def test_the_card_is_that_of_the_model_in_the_file_and_of_the_same_fit(tmp_path, subtests):
    path = tmp_path / "model.skop"
    for estimator, X, y in cases():
        with subtests.test(repr(estimator)):
            skop.save(clone(estimator).fit(X, y), path)
            card = read_card(path)
            versions = card.pop("versions")
            assert {"skop", "python", "numpy", "torch", "scikit-learn"} == versions.keys()
            assert card == json.loads(json.dumps(card_of(skop.load(path))))
            assert ("note" in card) == isinstance(estimator, RolloutRegressor)
            assert card["fit"]["seconds"] > 0
            again = json.loads(json.dumps(card_of(clone(estimator).fit(X, y))))
            assert without_times(again) == without_times(card) != card
            assert len(card["data"]["checksum"]) == 64
            assert card["data"]["samples"] == len(X)
            assert all("range" in column for column in card["data"]["columns"])


def checksum(X, y, **options):
    return MeanFieldRegressor().fit(X, y, **options).fit_record_["checksum"]


def with_change(array, place=-1):
    """A copy with one other number."""
    array = np.array(array)
    array.flat[place] += 1e-9
    return array


def test_each_number_and_the_order_of_samples_count():
    random, sizes = np.random.default_rng(0), {"values": (4, 5, 2), "params": (4, 3), "truth": (4, 5, 1)}
    parts = {name: random.random(size) for name, size in (sizes | {"points": (5, 2), "scalars": (4, 2)}).items()}

    def of(points, values, params, truth, scalars):
        return checksum(FieldSet(points, values, params=params), FieldSet(points, truth, params=scalars))

    changed = [of(**parts | {name: with_change(part)}) for name, part in parts.items()]
    changed.append(of(**{name: part if name == "points" else part[[1, 0, 2, 3]] for name, part in parts.items()}))
    changed.append(of(**parts | {"values": parts["values"][..., ::-1]}))
    changed.append(of(**parts | {"scalars": None}))
    assert len({of(**parts), *changed}) == len(changed) + 1


def test_how_numbers_are_stored_read_and_shared_does_not_count(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    points, values = unit_grid((4, 3)), random.random((6, 12, 2)).astype(np.float32)
    X, y = FieldSet(points, values), values[..., 0].astype(np.float64)
    expected = checksum(X, y)
    with h5py.File(tmp_path / "fields.h5", "w") as file:
        stored = file.create_dataset("a", data=values)
        monkeypatch.setattr("skop.data._fieldset._CHUNK_VALUES", 2 * 24)
        assert checksum(FieldSet(points, stored), y) == expected
    assert checksum(FieldSet(points, values.astype(np.float64)), y.tolist()) == expected
    assert checksum(FieldSet(np.stack([points] * 6), np.asfortranarray(values)), y) == expected
    ragged = FieldSet([points] * 6, list(values))
    assert checksum(ragged, list(y)) == expected
    # A sample without weight is not of the fit.
    assert checksum(X[:5], y[:5]) == checksum(X, y, sample_weight=[1, 1, 1, 1, 1, 0])


def test_samples_of_a_split_add_up(subtests):
    many = np.random.default_rng(0).random((120, 2))
    for params, purposes in [
        ({"base": None}, {"training"}),
        ({"base": None, "early_stopping": True}, {"training", "validation"}),
        ({"base": "pod"}, {"training", "share of the network"}),
        ({"base": None, "max_iter": 8, "X": many}, {"training", "signs of overfitting"}),
    ]:
        with subtests.test(params):
            X = params.pop("X", TABLE)
            split = LaMORegressor(**SMALL | params).fit(X, X.sum(axis=1)).fit_record_["split"]
            assert split.keys() == purposes
            assert sum(split.values()) == len(X)


def test_widths_of_bands_are_those_of_predictions():
    points = np.linspace(0, 1, 5)[:, np.newaxis]
    fields = FieldSet(points, np.sin(3 * TABLE[:, :1, np.newaxis] * points + TABLE[:, 1:, np.newaxis]))
    for scale, method in (("residuals", "split"), ("constant", "split"), ("constant", "cv+")):
        model = ConformalRegressor(
            PODRegressor(regressor="ridge"), scale=scale, method=method, calibration_size=0.6, random_state=0
        ).fit(TABLE, fields)
        _, lower, upper = model.predict_interval(TABLE[:8])
        bands = card_of(model)["bands"]
        half = np.sqrt(np.mean(((upper.values - lower.values) / 2) ** 2))
        # Folds that differ have bands of about this width.
        assert bands["half_width"]["channel 0"] == pytest.approx(half, rel=0.3 if method == "cv+" else 1e-6)
        assert bands["coverage"] == 0.9
        assert bands["calibrated_on"] == model.n_calibration_


def test_a_fit_that_fails_keeps_the_record_of_the_earlier_one():
    model = pod().fit(TABLE, SUMS)
    record = dict(model.fit_record_)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(TABLE, SUMS[:3])
    assert model.fit_record_ == record
