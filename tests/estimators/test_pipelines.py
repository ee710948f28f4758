"""Pipelines of scikit-learn: copies, pickles, joblib, and model files."""

import io
import pickle
from itertools import product

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, FastICA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import skop
from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    MeanFieldRegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.exceptions import FieldDataError, ModelFileError

from . import pod

pandas = pytest.importorskip("pandas")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(10, 3))
FRAME = pandas.DataFrame(X, columns=["load", "angle", "depth"])
SCALARS = X @ [1.0, 2.0, 3.0]
FIELDS = (RANDOM.random((7, 2)), np.sin(X @ RANDOM.normal(size=(3, 7)))[..., None])


def small():
    return LaMORegressor(width=8, depth=1, batch_size=4, max_iter=1, random_state=0)


def columns():
    return ColumnTransformer(
        [("scaled", StandardScaler(), ["load", "depth"]), ("kept", "passthrough", ["angle"])], remainder="drop"
    )


#: Steps before the estimator, and their inputs.
STEPS = {
    "StandardScaler": ([StandardScaler()], X),
    "MinMaxScaler, RobustScaler, MaxAbsScaler": ([MinMaxScaler((-1, 1)), RobustScaler(), MaxAbsScaler()], X),
    "PolynomialFeatures, PCA": ([PolynomialFeatures(2), PCA(4)], X),
    "ColumnTransformer by name": ([columns()], FRAME),
    "ColumnTransformer by slice": (
        [ColumnTransformer([("first", PCA(1), slice(0, 2))], remainder=StandardScaler())], X,
    ),
    "Pipeline in a ColumnTransformer": (
        [ColumnTransformer([("all", make_pipeline(StandardScaler(), PolynomialFeatures(2)), [0, 2])])], X,
    ),
    "FunctionTransformer": ([FunctionTransformer(np.tanh), FunctionTransformer(np.exp, inverse_func=np.log)], X),
    "FunctionTransformer of a column": (
        [ColumnTransformer([("log", FunctionTransformer(np.log), [1])], remainder="passthrough")], np.abs(X),
    ),
    "output as a DataFrame": ([StandardScaler().set_output(transform="pandas")], FRAME),
}  # fmt: skip


def predicted(model, inputs):
    found = model.predict(inputs)
    return found[1] if isinstance(found, tuple) else found


def test_pipelines_come_back_bit_for_bit(tmp_path, subtests):
    for name, (steps, inputs) in STEPS.items():
        with subtests.test(name):
            for y in (SCALARS, FIELDS) if name == "StandardScaler" else (SCALARS,):
                model = make_pipeline(*map(clone, steps), small()).fit(inputs, y)
                skop.save(model, tmp_path / "model.skop")
                loaded = skop.load(tmp_path / "model.skop")
                np.testing.assert_array_equal(predicted(loaded, inputs), predicted(model, inputs))
                assert [type(step) for _, step in loaded.steps] == [type(step) for _, step in model.steps]
                assert repr(loaded) == repr(model)


@pytest.mark.parametrize("y", [SCALARS, FIELDS], ids=["scalars", "fields"])
def test_copies_pickles_and_joblib(y):
    model = make_pipeline(columns(), small()).fit(FRAME, y)
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    for copy in (clone(model).fit(FRAME, y), pickle.loads(pickle.dumps(model)), joblib.load(file)):
        np.testing.assert_array_equal(predicted(copy, FRAME), predicted(model, FRAME))


def test_other_estimators_of_skop_can_be_the_last_step(tmp_path):
    for last in (EnsembleRegressor(small(), n_members=2, random_state=0), pod(), make_pipeline(small())):
        model = make_pipeline(StandardScaler(), last).fit(X, SCALARS)
        skop.save(model, tmp_path / "model.skop")
        np.testing.assert_array_equal(skop.load(tmp_path / "model.skop").predict(X), model.predict(X))


def test_a_loaded_pipeline_can_be_fitted_and_searched(tmp_path):
    model = make_pipeline(StandardScaler(), small()).fit(X, SCALARS)
    skop.save(model, tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop").set_params(lamoregressor__max_iter=2).fit(X, SCALARS)
    again = model.set_params(lamoregressor__max_iter=2).fit(X, SCALARS)
    np.testing.assert_array_equal(loaded.predict(X), again.predict(X))


def test_estimators_are_saved_as_by_their_own_method(tmp_path):
    model = small().fit(X, SCALARS)
    skop.save(model, tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    assert isinstance(loaded, LaMORegressor)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_saved_is_named(tmp_path, subtests):
    for model, words in [
        (make_pipeline(FastICA(2, random_state=0), small()), r"FastICA.*StandardScaler.*joblib"),
        (make_pipeline(FeatureUnion([("ica", StandardScaler())]), small()), "FeatureUnion"),
        (make_pipeline(FunctionTransformer(np.nan_to_num), small()), r"func=<function nan_to_num.*np\.log.*joblib"),
        (make_pipeline(StandardScaler(), Ridge()), r"ends in Ridge\(\).*joblib"),
        (Ridge(), "is a Ridge"),
    ]:
        with subtests.test(model=model):
            model.fit(np.abs(X), SCALARS)
            with pytest.raises(ModelFileError, match=words):
                skop.save(model, tmp_path / "model.skop")
            assert not list(tmp_path.iterdir())


def test_a_pipeline_that_is_not_fitted(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        skop.save(Pipeline([("model", small())]), tmp_path / "model.skop")


# ---------------------------------------------------------------------- estimators around a Pipeline
def logarithm():
    """Columns in which one is replaced by its logarithm, which depends on no sample."""
    return ColumnTransformer([("log", FunctionTransformer(np.log), ["k"])], remainder="passthrough")


TABLE = pandas.DataFrame(np.exp(RANDOM.normal(size=(24, 2))), columns=["k", "Q"])
LOGARITHMS = np.column_stack([np.log(TABLE["k"]), TABLE["Q"]])
POINTS = RANDOM.random((6, 2))
VALUES = (np.sin(LOGARITHMS @ RANDOM.normal(size=(2, 6))) + 0.1 * RANDOM.normal(size=(24, 6)))[..., None]
TARGETS = {
    "FieldSet": FieldSet(POINTS, VALUES),
    "grid": VALUES.reshape(24, 2, 3, 1),
    "field and scalars": FieldSet(POINTS, VALUES, params=VALUES[:, :2, 0]),
    "scalar": VALUES[:, 0, 0],
    "table": pandas.DataFrame(VALUES[:, :2, 0], columns=["drag", "lift"]),
}


def arrays(prediction):
    """Numbers of a prediction, whatever its form."""
    found = [np.asarray(prediction.values if isinstance(prediction, FieldSet) else prediction)]
    return found if getattr(prediction, "params", None) is None else [*found, prediction.params]


#: A method for each kind of targets, and for fields all of them; the other pairs are for the long run.
SOME_BANDS = [("FieldSet", "split"), ("FieldSet", "cv+"), ("FieldSet", "frozen"), ("grid", "frozen")]
SOME_BANDS += [("field and scalars", "split"), ("scalar", "frozen"), ("table", "cv+")]
ALL_BANDS = product(TARGETS, ["split", "cv+", "frozen"])


@pytest.mark.parametrize(
    "cases",
    [SOME_BANDS, pytest.param([case for case in ALL_BANDS if case not in SOME_BANDS], marks=pytest.mark.exhaustive)],
    ids=["some", "other pairs"],
)
def test_a_band_around_a_pipeline_is_that_of_what_its_steps_give(cases, tmp_path, subtests):
    for name, method in cases:
        with subtests.test(name=name, method=method):
            y, last = TARGETS[name], PODRegressor(regressor="ridge")
            pipeline, options = make_pipeline(logarithm(), last), {"coverage": 0.5, "cv": 3, "random_state": 0}
            if method == "frozen":
                pipeline = FrozenEstimator(pipeline.fit(TABLE, y))
                last = FrozenEstimator(clone(last).fit(LOGARITHMS, y))
            else:
                options["method"] = method
            band = ConformalRegressor(pipeline, **options).fit(TABLE, y)
            expected = ConformalRegressor(last, **options).fit(LOGARITHMS, y)
            coverage, score = expected.score_coverage(LOGARITHMS, y), expected.score(LOGARITHMS, y)
            interval = expected.predict_interval(LOGARITHMS)
            band.save(tmp_path / "band.skop")
            for model in (band, skop.load(tmp_path / "band.skop"), pickle.loads(pickle.dumps(band))):
                assert model.score_coverage(TABLE, y) == pytest.approx(coverage)
                assert model.score(TABLE, y) == pytest.approx(score, rel=1e-10)
                for found, wanted in zip(model.predict_interval(TABLE), interval, strict=True):
                    pairs = zip(arrays(found), arrays(wanted), strict=True)
                    assert all(np.allclose(*pair) for pair in pairs)


def test_bands_around_pipelines_go_through_cross_validation_and_searches():
    band = ConformalRegressor(make_pipeline(logarithm(), pod()), coverage=0.5, random_state=0)
    scores = cross_val_score(band, TABLE, TARGETS["FieldSet"], cv=2, error_score="raise")
    by_hand = ConformalRegressor(pod(), coverage=0.5, random_state=0)
    expected = cross_val_score(by_hand, LOGARITHMS, TARGETS["FieldSet"], cv=2, error_score="raise")
    np.testing.assert_allclose(scores, expected)
    for model in (make_pipeline(logarithm(), pod()), pod()):
        search = GridSearchCV(model, {}, cv=2).fit(TABLE, TARGETS["grid"])
        fitted = ConformalRegressor(FrozenEstimator(search), coverage=0.5).fit(TABLE, TARGETS["grid"])
        np.testing.assert_array_equal(fitted.predict(TABLE), search.predict(TABLE))


@pytest.mark.parametrize("name", ["FieldSet", "table"])
def test_a_pipeline_can_be_a_candidate(name, tmp_path):
    candidates = [("pipeline", make_pipeline(logarithm(), pod())), ("mean", MeanFieldRegressor())]
    y = TARGETS[name]
    model = AutoRegressor(candidates=candidates, max_time=None, cv=2, random_state=0).fit(TABLE, y)
    assert model.leaderboard_["candidate"][0] == "pipeline"
    model.save(tmp_path / "model.skop")
    found = skop.load(tmp_path / "model.skop").predict(TABLE)
    expected = make_pipeline(logarithm(), pod()).fit(TABLE, y).predict(TABLE)
    np.testing.assert_allclose(arrays(found)[0], arrays(expected)[0])


def test_what_cannot_be_passed_on_to_the_steps_is_refused_with_advice(subtests):
    for outer in [EnsembleRegressor, RolloutRegressor, TimeConditionedRegressor, ConformalRegressor]:
        with subtests.test(outer=outer):
            inputs = (TABLE, TARGETS["FieldSet"])
            if outer is ConformalRegressor:
                inputs = (np.ones((24, 4, 4, 1)), np.ones((24, 4, 4, 1)))
            with pytest.raises(
                FieldDataError, match=rf"around the last step.*make_pipeline\(\.\.\., {outer.__name__}\("
            ):
                outer(make_pipeline(FunctionTransformer(), small())).fit(*inputs)
