"""LawRegressor: predictions keep to the declared laws, whatever the estimator and the form of the data."""

import pickle

import meshio
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skop
from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    LawRegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.exceptions import ExtrapolationWarning, FieldDataError

from . import pod

pandas = pytest.importorskip("pandas")

RANDOM = np.random.default_rng(0)
POINTS = RANDOM.random((9, 2))
N = 40
#: A direction in degrees, a load of either sign, and a length.
DESIGN = np.c_[
    RANDOM.uniform(0, 360, N), RANDOM.choice([-1, 1], N) * 10 ** RANDOM.uniform(-1, 1, N), RANDOM.uniform(1, 2, N)
]
TURNS, LOADS = np.deg2rad(DESIGN[:, :1]), DESIGN[:, 1:2]
SHAPES = (2 + np.cos(TURNS - 3 * POINTS[:, 0]) * POINTS[:, 1] + DESIGN[:, 2:])[..., None]
FIELDS = LOADS[..., None] * SHAPES + 0.3 * RANDOM.normal(size=SHAPES.shape)
LAWS = {"angles": [0], "proportional_to": 1}
#: The same sample turned once and loaded by three and by minus two times as much, and other rows.
QUERY = np.array([[359.0, 2.0, 1.5], [-1.0, 2.0, 1.5], [719.0, 6.0, 1.5], [359.0, -4.0, 1.5], [120.0, 1.0, 1.2]])


def small(kind=LaMORegressor, **changes):
    return kind(**({"width": 8, "depth": 1, "batch_size": 20, "max_iter": 1, "random_state": 0} | changes))


def as_table(params):
    return pandas.DataFrame(params, columns=["wind", "load", "length"])


def sizes_of(params):
    """Numbers of points of samples that have their own."""
    return 5 + (100 * params[:, 2]).astype(int) % 4


def own_points(params):
    return FieldSet([POINTS[:size] for size in sizes_of(params)], params=params)


#: X of a form for parameters, and y of the fit.
FORMS = {
    "table to scalar": (np.asarray, FIELDS[:, 0, 0]),
    "table to table": (as_table, pandas.DataFrame(FIELDS[:, :2, 0], columns=["drag", "lift"])),
    "table to field": (as_table, (POINTS, FIELDS)),
    "geometry to field": (lambda params: FieldSet(POINTS, params=params), FieldSet(POINTS, FIELDS)),
    "field and scalars": (np.asarray, FieldSet(POINTS, FIELDS, params=FIELDS[:, :2, 0])),
    "fields to field": (
        lambda params: FieldSet(POINTS, np.sin(params[:, 2:] * POINTS[:, 0])[..., None], params=params),
        FieldSet(POINTS, np.float32(FIELDS)),
    ),
    "points of their own": (
        own_points,
        FieldSet(
            [POINTS[:size] for size in sizes_of(DESIGN)],
            [field[:size] for field, size in zip(FIELDS, sizes_of(DESIGN), strict=True)],
        ),
    ),
}
ESTIMATORS = {
    "POD": pod(),
    "LaMO": small(),
    "LaMO alone": small(base=None),
    "MNO": small(MNORegressor),
    "ensemble": EnsembleRegressor(small(base=None), n_members=2, random_state=0),
    "choice": AutoRegressor(
        candidates=[("mean", PODRegressor(regressor="mean")), ("POD", pod())], max_time=None, random_state=0
    ),
    "band": ConformalRegressor(pod(), coverage=0.5, random_state=0),
}
CASES = [(form, "POD") for form in FORMS if form != "points of their own"]
CASES += [("table to field", name) for name in ESTIMATORS if name != "POD"]
CASES += [("table to scalar", "LaMO"), ("fields to field", "LaMO"), ("points of their own", "LaMO alone")]


def numbers(found, row):
    """All predicted numbers of a sample."""
    found = found[1] if isinstance(found, tuple) else found
    if isinstance(found, FieldSet):
        parts = [found.to_list()[row].ravel(), [] if found.params is None else found.params[row]]
        return np.concatenate(parts)
    return np.ravel(np.asarray(found)[row])


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_predictions_keep_to_the_laws(subtests):
    for form, name in CASES:
        with subtests.test(form=form, name=name):
            inputs, y = FORMS[form]
            found = LawRegressor(ESTIMATORS[name], **LAWS).fit(inputs(DESIGN), y).predict(inputs(QUERY))
            once, turned, thrice, minus_twice = (numbers(found, row) for row in range(4))
            np.testing.assert_allclose(turned, once, rtol=1e-6)
            np.testing.assert_allclose(thrice, 3 * once, rtol=1e-6)
            np.testing.assert_allclose(minus_twice, -2 * once, rtol=1e-6)


def test_the_estimator_learns_what_the_laws_leave():
    """Fits of targets of any factor, in any turn, are those of targets with factor 1 in the first turn."""
    inputs = as_table(DESIGN)
    unit = LawRegressor(pod(), **LAWS).fit(inputs.assign(load=1.0), (POINTS, SHAPES))
    turned = inputs.assign(wind=DESIGN[:, 0] + 360 * RANDOM.integers(-2, 3, N))
    model = LawRegressor(pod(), **LAWS, offset=300.0).fit(turned, (POINTS, 300 + LOADS[..., None] * SHAPES))
    expected = 300 + LOADS[..., None] * unit.predict(inputs.assign(load=1.0))[1]
    np.testing.assert_allclose(model.predict(inputs)[1], expected, rtol=1e-6)
    # The offset is where the parameter is zero.
    np.testing.assert_allclose(model.predict(inputs.assign(load=0.0))[1], 300)


def test_a_period_is_that_of_a_model_on_sine_and_cosine():
    turns = np.c_[np.sin(TURNS), DESIGN[:, 1:], np.cos(TURNS)]
    model = LawRegressor(pod(), angles=[0]).fit(DESIGN, FIELDS[:, 0, 0])
    plain = pod().fit(turns, FIELDS[:, 0, 0])
    np.testing.assert_allclose(model.predict(DESIGN), plain.predict(turns), rtol=1e-9)


def test_spreads_and_bands_are_proportional_and_hold_what_they_held():
    inputs, y = as_table(DESIGN), FieldSet(POINTS, FIELDS)
    model = LawRegressor(pod(), **LAWS).fit(inputs, y)
    mean, spread = model.predict(as_table(QUERY), return_std=True)
    assert (spread.values > 0).all()
    np.testing.assert_allclose(spread.values[2:4], spread.values[:1] * [[[3]], [[2]]], rtol=1e-9)
    np.testing.assert_array_equal(mean.values, model.predict(as_table(QUERY)).values)
    band = LawRegressor(ConformalRegressor(pod(), coverage=0.8, random_state=0), **LAWS).fit(inputs, y)
    mean, lower, upper = band.predict_interval(as_table(QUERY))
    assert (lower.values < mean.values).all()
    assert (mean.values < upper.values).all()
    np.testing.assert_allclose(upper.values[2], 3 * upper.values[0], rtol=1e-9)
    np.testing.assert_allclose(upper.values[3], -2 * lower.values[0], rtol=1e-9)
    # A sample is in the band as its quotient is in that of the estimator.
    inner = band.estimator_.predict_interval(band.laws_.read_by_estimator(FieldSet(POINTS, params=DESIGN)))
    _, lower, upper = band.predict_interval(inputs)
    inside = (lower.values <= FIELDS) & (upper.values >= FIELDS)
    quotient = FIELDS / LOADS[..., None]
    np.testing.assert_array_equal(inside, (inner[1].values <= quotient) & (inner[2].values >= quotient))
    assert not hasattr(model, "predict_interval")


def test_ranges_and_novelty_take_an_angle_within_one_turn(subtests):
    """The samples cover 20 degrees, in any turn; the other side of the circle is outside."""
    for center in [0, 100, 350]:
        angles = center + np.linspace(-10, 10, 30) + 360 * RANDOM.integers(-1, 2, 30)
        model = LawRegressor(pod(), angles=[0]).fit(np.c_[angles, RANDOM.random(30)], RANDOM.random(30))
        for turns in [0, 1, -3]:
            with subtests.test(turns=turns, center=center):
                inside, outside = ([[center + offset + 360 * turns, 0.5]] for offset in (0, 180))
                assert len(model.check(inside)) == 0
                assert model.check(outside)["what"].tolist() == ["parameter 0"]
                with pytest.warns(ExtrapolationWarning, match="parameter 0"):
                    model.predict(outside)
                np.testing.assert_allclose(
                    model.novelty(inside, level=None).score, model.novelty([[center, 0.5]], level=None).score
                )
                assert model.novelty(outside, level=None).quantile == 1


def test_a_full_turn_has_no_outside():
    X = np.c_[np.arange(0, 360, 12.0), RANDOM.random(30)]
    model = LawRegressor(pod(), angles=[0]).fit(X, RANDOM.random(30))
    assert len(model.check(np.c_[np.linspace(-1000, 1000, 201), np.full(201, 0.5)])) == 0


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_models_come_back_from_files_and_pickles(tmp_path, subtests):
    for name in ["POD", "LaMO", "band", "choice"]:
        with subtests.test(name):
            X, y = as_table(DESIGN), FieldSet(POINTS, FIELDS)
            model = LawRegressor(ESTIMATORS[name], angles=["wind"], proportional_to="load").fit(X, y)
            model.save(tmp_path / "model.skop")
            for copy in (skop.load(tmp_path / "model.skop"), pickle.loads(pickle.dumps(model))):
                np.testing.assert_array_equal(copy.predict(X).values, model.predict(X).values)
                assert repr(clone(copy)) == repr(clone(model))


def test_parameters_of_the_estimator_are_searched_and_score_is_that_of_physical_units():
    X, y = as_table(DESIGN), FieldSet(POINTS, FIELDS)
    model = LawRegressor(pod(), angles=["wind"], proportional_to="load")
    search = GridSearchCV(model, {"estimator__regressor": ["mean", "auto"]}, cv=3).fit(X, y)
    assert search.best_params_ == {"estimator__regressor": "auto"}
    fitted = search.best_estimator_
    error = np.linalg.norm((fitted.predict(X).values - FIELDS)[..., 0], axis=1) / np.linalg.norm(FIELDS[..., 0], axis=1)
    assert fitted.score(X, y) == pytest.approx(1 - error.mean())


def test_steps_of_a_pipeline_get_the_names_of_what_is_read():
    X = as_table(DESIGN)
    steps = make_pipeline(StandardScaler(), pod())
    model = LawRegressor(steps, angles=["wind"], proportional_to="load").fit(X, FieldSet(POINTS, FIELDS))
    names = ["sine of wind", "load", "length", "cosine of wind"]
    assert model.estimator_[0].feature_names_in_.tolist() == names
    plain = LawRegressor(Ridge(), angles=["wind"]).fit(X, DESIGN[:, 2])
    assert plain.predict(X).shape == (N,)


def test_frames_of_trajectories_are_proportional_too():
    frames = np.concatenate([FIELDS, 2 * FIELDS], axis=-1)
    inner = TimeConditionedRegressor(pod(), times=2)
    model = LawRegressor(inner, **LAWS).fit(DESIGN, FieldSet(POINTS, frames))
    found = model.predict(QUERY).values
    np.testing.assert_allclose(found[2], 3 * found[0], rtol=1e-9)


REFUSED = {
    "another name": ({"angles": ["angle"]}, "'angle' is declared .* these are 'wind', 'load', 'length'"),
    "another number": ({"proportional_to": 3}, "3 is declared"),
    "a period of zero": ({"angles": ["wind"], "period": [0.0]}, "period is .*, expected positive numbers"),
    "too many periods": ({"angles": ["wind"], "period": [360, 24]}, "period has 2 numbers for 1 angles"),
    "twice": ({"angles": ["wind"], "proportional_to": 0}, "declared twice"),
    "an offset alone": ({"offset": 1.0}, "no effect without proportional_to"),
    "weights that the estimator does not take": ({"weight": True}, "the fit of KNeighborsRegressor takes none"),
}


def test_refusals(subtests):
    for case, (changes, message) in REFUSED.items():
        with subtests.test(case):
            changes = dict(changes)
            options = {"sample_weight": np.ones(N)} if changes.pop("weight", False) else {}
            model = LawRegressor(KNeighborsRegressor() if options else pod(), **changes)
            with pytest.raises(FieldDataError, match=message):
                model.fit(as_table(DESIGN), DESIGN[:, 2], **options)


def test_a_load_of_zero_tells_nothing_of_the_law():
    X = as_table(DESIGN)
    X.loc[7, "load"] = 0
    with pytest.raises(FieldDataError, match=r"parameter 'load' is 0 in sample 7.*leave this sample out"):
        LawRegressor(pod(), proportional_to="load").fit(X, FieldSet(POINTS, FIELDS))
    with pytest.raises(FieldDataError, match="X has no global parameters"):
        LawRegressor(pod(), proportional_to=0).fit(FIELDS, FIELDS)


def test_a_factor_of_frames_that_a_rollout_joins_is_refused():
    frames = FieldSet(POINTS, FIELDS[..., :1], params=DESIGN)
    model = LawRegressor(RolloutRegressor(PODRegressor(regressor="ridge"), window=1), proportional_to=1)
    with pytest.raises(FieldDataError, match="proportional_to=1 divides the frames of y, but not the frames of X"):
        model.fit(frames, np.repeat(FIELDS, 2, axis=-1))
    model.set_params(proportional_to=None, angles=[0]).fit(frames, np.repeat(FIELDS, 2, axis=-1))


def test_series_are_for_the_estimator_of_frames_around_the_laws():
    points, rng = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.random.default_rng(0)
    angles, cells = rng.uniform(0, 360, (12, 1)), [("triangle", [[0, 1, 2]])]
    runs = [
        skop.data.MeshSeries(
            [meshio.Mesh(points, cells, {"u": time + points[:, 0] * np.sin(np.deg2rad(angle))}) for time in (0.0, 1.0)],
            np.array([0.0, 1.0]),
        )
        for angle in angles[:, 0]
    ]
    laws = LawRegressor(pod(target_fields=["u"]), angles=[0])
    with pytest.raises(FieldDataError, match=r"TimeConditionedRegressor\(LawRegressor\(\.\.\.\)\)"):
        LawRegressor(skop.TimeConditionedRegressor(laws.estimator), angles=[0]).fit(runs, params=angles)
    model = skop.TimeConditionedRegressor(laws).fit(runs, params=angles)
    turned = [part.meshes[1].point_data["u"] for part in model.predict(runs, params=angles + 360)]
    np.testing.assert_allclose(turned, [part.meshes[1].point_data["u"] for part in runs], atol=1e-3)
