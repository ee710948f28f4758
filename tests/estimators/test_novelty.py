"""Novelty: laws of the score and of its quantile, what it sees, and what comes back from files."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import skop
from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    RolloutRegressor,
)
from skop.estimators import MeanFieldRegressor
from skop.exceptions import ExtrapolationWarning, FieldDataError, NoveltyWarning
from skop.surrogate._novelty import Reference, features
from skop.surrogate._tokens import mean_tokens

from . import pod
from .make_model_files import FOLDER

RNG = np.random.default_rng(0)
TABLE = RNG.random((40, 3))


def small(**options):
    return LaMORegressor(**{"width": 8, "depth": 1, "batch_size": 20, "max_iter": 1, "random_state": 0, **options})


def fields_at(points, seed):
    """Two smooth fields with a random phase and amplitude."""
    phase, size = np.random.default_rng(seed).random(2)
    wave = (1 + size) * np.sin(3 * points @ np.array([1.0, 2.0]) + 2 * np.pi * phase)
    return np.stack([wave, wave**2 + points[:, 0]], axis=1)


def clouds(count, seed, n_points=(150, 250)):
    """Samples on points of their own."""
    rng = np.random.default_rng(seed)
    points = [rng.random((rng.integers(*n_points), 2)) for _ in range(count)]
    return [(own, fields_at(own, [seed, number])) for number, own in enumerate(points)]


CLOUDS = clouds(30, 0)
GRIDS = np.stack(
    [
        fields_at(np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 16)], indexing="ij"), -1).reshape(-1, 2), [9, i])
        for i in range(40)
    ]
).reshape(40, 16, 16, 2)


@pytest.fixture(scope="module")
def on_table():
    return pod().fit(TABLE, TABLE.sum(axis=1))


@pytest.fixture(scope="module")
def on_points():
    return small().fit(CLOUDS, [values[:, :1] for _, values in CLOUDS])


@pytest.fixture(scope="module")
def on_grid():
    return small().fit(GRIDS, GRIDS[..., :1])


def quiet(model, X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoveltyWarning)
        return model.novelty(X, level=None, **options)


# ---------------------------------------------------------------- the definition
def test_the_score_is_the_mean_distance_to_the_nearest_training_samples(on_table):
    X = RNG.random((7, 3))
    inputs, seen = (on_table._read_inputs(part)[0] for part in (X, TABLE))
    distances = np.linalg.norm(features(on_table, inputs)[:, None] - features(on_table, seen), axis=2)
    expected = np.sort(distances, axis=1)[:, :5].mean(axis=1)
    np.testing.assert_allclose(quiet(on_table, X).score, expected, rtol=1e-6)


def test_neighbours_of_each_kind_of_features_are_at_a_distance_of_one(on_points):
    reference, start = on_points.reference_, 0
    assert [group.kind for group in reference.groups] == ["fields", "points", "tokens"]
    for group in reference.groups:
        stop = start + len(group.components) + 1
        part = reference.points[:, start:stop]
        apart = np.sort(np.linalg.norm(part[:, None] - part, axis=2), axis=1)[:, 1:6].mean(axis=1)
        np.testing.assert_allclose(np.median(apart), 1.0, rtol=1e-6)
        start = stop


def test_own_scores_are_those_of_a_fit_without_the_sample():
    """With as many folds as samples; each kind of features keeps its size."""
    whole = MeanFieldRegressor().fit(TABLE[:15], TABLE[:15, 0]).reference_
    for row in range(15):
        rest = np.delete(np.arange(15), row)
        without = MeanFieldRegressor().fit(TABLE[rest], TABLE[rest, 0]).reference_
        points, left_out = without.points, without.features(FieldSet(np.zeros((1, 1)), params=TABLE[[row]]), no_tokens)
        scale = without.groups[0].size / whole.groups[0].size
        expected = scale * np.sort(np.linalg.norm(points - left_out, axis=1))[:5].mean()
        np.testing.assert_allclose(whole.own[row], expected, rtol=1e-9)


def no_tokens(inputs):
    return None


@pytest.mark.parametrize(
    "kind", ["parameters", *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in ("fields", "points"))]
)
def test_quantiles_of_exchangeable_samples_are_uniform(kind):
    found, count = [], 100
    for seed in range(count):
        rng = np.random.default_rng([seed, 7])
        if kind == "parameters":
            inputs = FieldSet(np.zeros((1, 1)), params=rng.lognormal(size=(31, 4)))
        elif kind == "fields":
            # More cells than samples.
            inputs = FieldSet(np.linspace(0, 1, 96)[:, None], np.cumsum(rng.normal(size=(31, 96, 1)), axis=1))
        else:
            inputs = FieldSet(rng.random((31, 50, 2)) * rng.uniform(0.7, 1.0, (31, 1, 2)))
        reference = Reference.from_fit(inputs[:30], no_tokens)
        found.append(reference.novelty(reference.features(inputs[30:], no_tokens)).quantile[0])
    # Ranks from 0 to 30 have equal probabilities; spread evenly within their steps they are uniform.
    ranks = np.round(30 * np.array(found))
    even = (ranks + np.random.default_rng(0).random(count)) / 31
    assert kstest(even, "uniform").pvalue > 1e-3


def test_a_far_sample_has_the_quantile_one(on_table, on_points, on_grid):
    assert quiet(on_table, TABLE[:1] + 5).quantile == 1
    assert quiet(on_grid, GRIDS[:1] * 20).quantile == 1
    (points, values), other = CLOUDS[0], clouds(1, 5)[0]
    assert quiet(on_points, [other]).quantile[0] < 1
    assert quiet(on_points, [(points, 20 * values)]).quantile == 1
    # All points in a corner, with the same values; and a set that is much coarser.
    assert quiet(on_points, [(0.3 * points, values)]).quantile == 1
    assert quiet(on_points, [(points[:12], values[:12])]).quantile == 1


def test_numbers_whose_squares_overflow_are_far():
    model = MeanFieldRegressor().fit(1e-10 * TABLE, TABLE[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = quiet(model, np.concatenate([np.full((1, 3), 1e149), 1e-10 * TABLE[:1]]))
    assert np.isfinite(found.score).all()
    assert found.quantile[0] == 1


def test_parameters_that_never_varied_count():
    X = np.column_stack([TABLE, np.full(40, 7.0)])
    model = pod().fit(X, TABLE.sum(axis=1))
    same, other = X[:5] + 0.01, X[:5] + 0.01
    same[:, 3], other[:, 3] = 7.0, 8.0
    assert (quiet(model, same).quantile < 1).all()
    assert (quiet(model, other).quantile == 1).all()


# ---------------------------------------------------------------- invariance
def test_the_order_of_points_does_not_matter(on_points):
    rng = np.random.default_rng(3)
    new = clouds(4, 6)
    shuffled = [(points[order], values[order]) for points, values in new for order in [rng.permutation(len(points))]]
    np.testing.assert_allclose(quiet(on_points, shuffled).score, quiet(on_points, new).score, rtol=1e-4)


def test_the_order_and_number_of_samples_do_not_matter(on_table, on_grid):
    for model, X in ((on_table, RNG.random((9, 3))), (on_grid, 1.2 * GRIDS[:9])):
        whole, order = quiet(model, X), RNG.permutation(9)
        np.testing.assert_allclose(quiet(model, X[order]).score, whole.score[order], rtol=1e-5)
        np.testing.assert_allclose(quiet(model, X[2:3]).score, whole.score[2:3], rtol=1e-5)


def test_units_do_not_matter():
    rng = np.random.default_rng(4)
    new, factors, shifts = rng.random((6, 3)), np.array([1e-6, 1.0, 1e5]), np.array([3.0, -4.0, 0.0])
    y = TABLE.sum(axis=1)
    here = pod().fit(TABLE, y).novelty(new, level=None)
    there = pod().fit(TABLE * factors + shifts * factors, y).novelty(new * factors + shifts * factors)
    np.testing.assert_allclose(there.score, here.score, rtol=1e-6)
    fields = GRIDS.reshape(40, 256, 2)
    points = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 16)], indexing="ij"), -1).reshape(-1, 2)
    scores = [
        MeanFieldRegressor()
        .fit(FieldSet(sides * points, units * fields[:30]), y[:30])
        .novelty(FieldSet(sides * points, 1.3 * units * fields[30:]), level=None)
        .score
        for sides, units in ((1.0, 1.0), (np.array([1e3, 1e-3]), np.array([1e6, 1e-4])))
    ]
    np.testing.assert_allclose(*scores, rtol=1e-6)


@pytest.mark.parametrize("offset", [1e3, 1e7, 1e10])
def test_a_large_offset_hides_no_differences(offset):
    y = TABLE.sum(axis=1)
    new = np.concatenate([TABLE[:3] + 0.1, TABLE[:3] + 3])
    here, there = (pod().fit(TABLE + by, y).novelty(new + by, level=None) for by in (0.0, offset))
    np.testing.assert_allclose(there.score, here.score, rtol=1e-4)
    fields = GRIDS[..., :1]
    here, there = (
        MeanFieldRegressor().fit(fields + by, y).novelty(3 * fields[:4] + by, level=None) for by in (0.0, offset)
    )
    np.testing.assert_allclose(there.score, here.score, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_of_fields_without_variation_is_no_difference(dtype):
    """Fields that hold one number each, on sets of points whose means round each in its own way."""
    rng = np.random.default_rng(5)
    coords = [points for points, _ in CLOUDS]
    numbers = rng.random(len(coords)) + 0.1

    def constant(noise):
        values = [np.full((len(own), 1), number) for own, number in zip(coords, numbers, strict=True)]
        return FieldSet(coords, [(part * (1 + noise * rng.normal(size=part.shape))).astype(dtype) for part in values])

    model = MeanFieldRegressor().fit(constant(np.finfo(dtype).eps), numbers)
    expected = quiet(model, constant(0.0))
    np.testing.assert_allclose(quiet(model, constant(4 * np.finfo(dtype).eps)).score, expected.score, rtol=1e-3)
    # And what varies within a sample is measured by the size of the field, whatever its unit.
    grid = np.broadcast_to(numbers[:, None, None], (len(numbers), 16, 1)) * np.ones((1, 16, 1))
    wave = 1 + 0.3 * np.sin(np.arange(16))[:, None]
    scores = [
        MeanFieldRegressor().fit(unit * grid, numbers).novelty(unit * wave * grid[:3], level=None).score
        for unit in (1.0, 1e-5, 1e5)
    ]
    np.testing.assert_allclose(scores[1:], [scores[0]] * 2, rtol=1e-6)
    assert scores[0].min() > 5


def test_finer_and_coarser_grids_lie_near_their_own_samples(on_grid):
    fine = np.repeat(np.repeat(GRIDS[:3], 2, axis=1), 2, axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = quiet(on_grid, fine)
    assert np.isfinite(found.score).all()
    assert found.score.shape == found.quantile.shape == (3,)


# ---------------------------------------------------------------- estimators, files and copies
def test_a_large_sample_is_one_sample(on_points):
    """Networks on points run large samples in pieces; tokens are then the mean over all pieces."""
    points, values = clouds(1, 8, (40_000, 40_001))[0]
    inputs, _ = on_points._read_inputs([(points, values)])
    found = mean_tokens(on_points.surrogate_, inputs)
    on_points.module_.chunk_size = 2**20
    try:
        np.testing.assert_allclose(mean_tokens(on_points.surrogate_, inputs), found, rtol=1e-3, atol=1e-4)
    finally:
        del on_points.module_.chunk_size
        on_points.module_.chunk_size = 2**15


def test_saved_pickled_and_copied_models_give_the_same_bits(on_table, on_points, on_grid, tmp_path):
    for model, X in ((on_table, TABLE[:5] + 0.2), (on_points, clouds(3, 7)), (on_grid, 1.1 * GRIDS[:3])):
        expected = quiet(model, X)
        model.save(tmp_path / "model.skop")
        for again in (skop.load(tmp_path / "model.skop"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            for mine, theirs in zip(quiet(again, X), expected, strict=True):
                np.testing.assert_array_equal(mine, theirs)
        assert clone(model).reference_ is None


#: Files of estimators with features, and of a pipeline, which has no such method.
NOT_WITHOUT = {
    "pipeline",
    "conformal_rollout",
    "conformal_folds",
    "conformal_frozen",
    "lamo_novelty",
    "law",
    "pod_akima",
}


def test_files_without_features_say_so(subtests):
    for name in sorted({path.stem for path in FOLDER.glob("*.skop")} - NOT_WITHOUT):
        with subtests.test(name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = skop.load(FOLDER / f"{name}.skop")
            with pytest.raises(FieldDataError, match="holds no features"):
                model.novelty(None)


def test_fits_draw_no_other_random_numbers(on_table):
    """The features of a fit are computed without random numbers."""
    given = np.random.RandomState(3)
    small(random_state=given).fit(TABLE, TABLE.sum(axis=1))
    after = given.randint(2**31)
    other = np.random.RandomState(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LaMORegressor, "_store_reference", lambda self, inputs, weight: None)
        small(random_state=other).fit(TABLE, TABLE.sum(axis=1))
    assert after == other.randint(2**31)


def test_estimators_around_others():
    X, y = TABLE, TABLE.sum(axis=1)
    wrapped = (
        EnsembleRegressor(small(), n_members=2, random_state=0),
        ConformalRegressor(LinearRegression(), random_state=0),
        AutoRegressor(candidates=[("POD", pod())], max_time=None, cv=2, random_state=0),
        MeanFieldRegressor(),
    )
    for model in wrapped:
        found = quiet(model.fit(X, y), np.concatenate([X[:3] + 0.01, X[:1] + 9]))
        assert (found.quantile[:3] < 1).all(), model
        assert found.quantile[3] == 1
    rollout = RolloutRegressor(small(), window=1).fit(GRIDS[..., :1], np.repeat(GRIDS[..., :1], 2, axis=-1))
    assert quiet(rollout, 30 * GRIDS[:1, ..., :1]).quantile == 1
    with pytest.raises(FieldDataError, match="within another estimator"):
        rollout.estimator_.novelty(GRIDS[..., :1])


def test_samples_without_weight_are_none():
    weight = np.r_[np.ones(35), np.zeros(5)]
    X = np.concatenate([TABLE[:35], TABLE[35:] + 9])
    model = small().fit(X, X.sum(axis=1), sample_weight=weight)
    assert (quiet(model, X[35:]).quantile == 1).all()


def test_meshes(tmp_path):
    meshio = pytest.importorskip("meshio")

    def write(sample, name):
        points, values = sample
        solid = np.column_stack([points, np.zeros(len(points))])
        meshio.Mesh(
            solid, [("vertex", np.arange(len(points))[:, None])], {"load": values[:, 0], "u": values[:, 1]}
        ).write(tmp_path / name)
        return tmp_path / name

    files = [write(sample, f"run{number}.vtu") for number, sample in enumerate(CLOUDS[:12])]
    model = small(input_fields=["load"], target_fields=["u"]).fit(files)
    points, values = CLOUDS[13]
    far = write((points, 30 * values), "far.vtu")
    with pytest.warns(NoveltyWarning, match=r"Sample 1 \(.*far\.vtu\)"):
        found = model.novelty([files[0], far])
    assert found.quantile[1] == 1


# ---------------------------------------------------------------- warnings and errors
def test_a_warning_beyond_a_level(on_table):
    X = np.concatenate([TABLE[:3], TABLE[:1] + 9])
    with pytest.warns(NoveltyWarning, match=r"1 of 4 samples .* Sample 3 has the largest score") as caught:
        on_table.novelty(X)
    assert caught[0].filename == __file__
    assert issubclass(NoveltyWarning, ExtrapolationWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_table.novelty(TABLE[:3])
        on_table.novelty(X, level=None)


def test_levels_that_are_none(on_table, subtests):
    for level in [1, 1.5, -0.1, np.nan, "0.9", True]:
        words = "expected a number from 0 up to but not including 1, or None"
        with subtests.test(level=level), pytest.raises(FieldDataError, match=words):
            on_table.novelty(TABLE, level=level)


def test_wrong_inputs_are_refused(on_table, subtests):
    for X in [TABLE[:, :2], TABLE[:, :, None], np.full((2, 3), np.nan), "none"]:
        with subtests.test(X=X), pytest.raises(ValueError, match=r"features|X|NaN|could not"):
            on_table.novelty(X)


def test_unfitted_models_are_refused():
    with pytest.raises(NotFittedError):
        pod().novelty(TABLE)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_training_samples(count):
    model = MeanFieldRegressor().fit(TABLE[:count], TABLE[:count, 0])
    found = quiet(model, TABLE[:count])
    assert np.isfinite(found.score).all()
    assert quiet(model, TABLE[:1] + 99).quantile == 1
