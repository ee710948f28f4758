"""suggest: laws of the choice of the next runs, for every kind of estimator and of candidates."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

import skop
from skop import (
    AutoRegressor,
    ConformalRegressor,
    DeepONetRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    MeanFieldRegressor,
    PODRegressor,
)
from skop.estimators.uncertainty._suggest import _uncertainties, select
from skop.exceptions import ExtrapolationWarning, FieldDataError, NonFinitePredictionError


def fields_of(X):
    """A field on 12 nodes for each row of a table."""
    nodes = np.linspace(0, 1, 12)
    return np.sin(3 * X[:, :1] * nodes + X[:, 1:2])[..., np.newaxis] + 2


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    return rng.random((25, 2)), rng.random((40, 2))


@pytest.fixture(scope="module")
def pod(tables):
    return PODRegressor(regressor="gaussian_process").fit(tables[0], fields_of(tables[0]))


@pytest.fixture(scope="module")
def ensemble(tables):
    member = DeepONetRegressor(width=8, n_basis=4, base=None, max_iter=5, batch_size=8)
    return EnsembleRegressor(member, n_members=2, random_state=0).fit(tables[0], fields_of(tables[0]))


@pytest.fixture(scope="module")
def mean(tables):
    return MeanFieldRegressor().fit(tables[0], fields_of(tables[0]))


@pytest.fixture(params=["pod", "ensemble", "mean"])
def model(request):
    return request.getfixturevalue(request.param)


# ---------------------------------------------------------------------- laws
def test_all_candidates_are_chosen_once_if_n_is_their_number(model, tables):
    chosen, scores = skop.suggest(model, tables[1], 40, return_scores=True)
    assert sorted(chosen) == list(range(40))
    assert scores.shape == (40,)
    assert (scores > 0).all()


def test_fewer_are_the_first_of_more(model, tables):
    np.testing.assert_array_equal(skop.suggest(model, tables[1], 7), skop.suggest(model, tables[1], 20)[:7])


def test_a_permutation_of_candidates_permutes_the_choice(model, tables):
    order = np.random.default_rng(1).permutation(40)
    chosen, scores = skop.suggest(model, tables[1], 12, return_scores=True)
    again, others = skop.suggest(model, tables[1][order], 12, return_scores=True)
    np.testing.assert_array_equal(order[again], chosen)
    np.testing.assert_allclose(others, scores, rtol=1e-5)


def test_copies_come_after_all_others_and_the_first_of_them_is_chosen(model, tables):
    candidates = np.concatenate([tables[1][:6], tables[1][:6], tables[1][:6]])
    chosen, scores = skop.suggest(model, candidates, 18, return_scores=True)
    assert sorted(chosen[:6]) == list(range(6))
    np.testing.assert_array_equal(chosen[6:], range(6, 18))
    assert (scores[:6] > 0).all()
    assert not scores[6:].any()


def test_samples_of_the_fit_come_last(model, tables):
    candidates = np.concatenate([tables[0][:5], tables[1][:8]])
    chosen, scores = skop.suggest(model, candidates, 13, return_scores=True)
    assert set(chosen[:8]) == set(range(5, 13))
    np.testing.assert_array_equal(chosen[8:], range(5))
    assert not scores[8:].any()


@pytest.mark.parametrize("make", [lambda: PODRegressor(regressor="gaussian_process"), MeanFieldRegressor])
def test_units_do_not_change_the_choice(make, tables):
    X, candidates = tables
    expected = skop.suggest(make().fit(X, fields_of(X)), candidates, 12)
    unit, zero = np.array([1e6, 1e-3]), np.array([3.0, 273.15])
    again = make().fit(X * unit + zero, 1e5 * fields_of(X))
    np.testing.assert_array_equal(skop.suggest(again, candidates * unit + zero, 12), expected)


def test_a_batch_spreads_more_than_the_most_uncertain_candidates():
    rng = np.random.default_rng(2)
    X = rng.random((30, 2)) * [0.5, 1]
    model = PODRegressor(regressor="gaussian_process").fit(X, fields_of(X))
    candidates = rng.random((200, 2))
    chosen = candidates[skop.suggest(model, candidates, 8)]
    with pytest.warns(ExtrapolationWarning):
        mean, spread = model.predict(candidates, return_std=True)
    spread = np.linalg.norm(spread, axis=(1, 2)) / np.linalg.norm(mean, axis=(1, 2))
    highest = candidates[np.argsort(-spread)[:8]]

    def closest(points):
        apart = np.linalg.norm(points[:, np.newaxis] - points, axis=-1)
        return apart[np.triu_indices(len(points), 1)].min()

    assert closest(chosen) > 3 * closest(highest)
    assert (chosen[:, 0] > 0.5).mean() > 0.5


def test_the_first_score_is_the_relative_spread(pod, tables):
    chosen, scores = skop.suggest(pod, tables[1], 1, return_scores=True)
    mean, spread = (np.asarray(part, np.float64)[chosen[0]] for part in pod.predict(tables[1], return_std=True))
    assert scores[0] == pytest.approx(np.linalg.norm(spread) / np.linalg.norm(mean), rel=1e-9)


def test_without_an_uncertainty_scores_are_distances():
    X = np.linspace(0, 1, 11)[:, np.newaxis]
    model = MeanFieldRegressor().fit(X, X[:, 0])
    chosen, scores = skop.suggest(model, [[0.52], [1.5], [0.0]], 3, return_scores=True)
    np.testing.assert_array_equal(chosen, [1, 0, 2])
    np.testing.assert_allclose(scores / scores[0], [1, 0.02 / 0.5, 0], rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------- the rule
def test_the_rule_is_that_of_its_definition():
    rng = np.random.default_rng(3)
    points, centres, sizes = rng.random((30, 2)), rng.random((4, 2)), rng.random(30)
    apart = np.linalg.norm(points[:, np.newaxis] - centres, axis=-1)
    chosen, scores = select(points, apart.min(axis=1), apart.argmin(axis=1), sizes, 10)
    for number, (index, score) in enumerate(zip(chosen, scores, strict=True)):
        everything = np.concatenate([centres, points[chosen[:number]]])
        distances = np.linalg.norm(points[:, np.newaxis] - everything, axis=-1)
        errors = sizes * distances.min(axis=1) / apart.min(axis=1)
        left = [i for i in range(30) if i not in chosen[:number]]
        cluster = distances.argmin(axis=1)
        sums = [sum(errors[i] ** 2 for i in left if cluster[i] == c) for c in range(len(everything))]
        assert sums[cluster[index]] == pytest.approx(max(sums))
        assert errors[index] == pytest.approx(max(errors[i] for i in left if cluster[i] == cluster[index]))
        assert score == pytest.approx(errors[index])


def test_many_candidates_count_more_than_one_that_is_farther():
    lonely, crowd = [[0.0]], np.linspace(10, 11, 20)[:, np.newaxis]
    distances, nearest = np.array([1.1, *(crowd[:, 0] - 10)]), np.array([0, *[1] * 20])
    chosen, scores = select(np.concatenate([lonely, crowd]), distances, nearest, None, 2)
    np.testing.assert_array_equal(chosen, [20, 0])
    np.testing.assert_allclose(scores, [1, 1.1])


def test_an_uncertainty_of_zero_everywhere_leaves_the_choice_to_the_distances():
    rng = np.random.default_rng(4)
    points = rng.random((20, 3))
    distances, nearest = np.linalg.norm(points, axis=1), np.zeros(20, dtype=int)
    plain = select(points, distances, nearest, None, 20)
    for one, other in zip(plain, select(points, distances, nearest, np.zeros(20), 20), strict=True):
        np.testing.assert_array_equal(one, other)


def test_certain_candidates_come_before_those_that_are_there_already():
    points = np.array([[0.0], [1.0], [2.0], [3.0]])
    chosen, scores = select(points, points[:, 0], np.zeros(4, dtype=int), np.array([1.0, 0, 0, 5]), 4)
    np.testing.assert_array_equal(chosen, [3, 1, 2, 0])
    np.testing.assert_array_equal(scores, [5, 0, 0, 0])


# ---------------------------------------------------------------------- estimators
def test_no_uncertainty_is_asked_of_a_regressor_of_scikit_learn(tables, mean):
    X, candidates = tables
    model = PODRegressor(regressor=Ridge()).fit(X, fields_of(X))
    np.testing.assert_array_equal(skop.suggest(model, candidates, 9), skop.suggest(mean, candidates, 9))


def test_the_chosen_model_of_an_auto_regressor_has_an_uncertainty(tables, mean):
    X, candidates = tables
    options = {"max_time": None, "random_state": 0}
    model = AutoRegressor(candidates=[("pod", PODRegressor(regressor="gaussian_process"))], **options)
    pod = PODRegressor(regressor="gaussian_process").fit(X, fields_of(X))
    found = skop.suggest(model.fit(X, fields_of(X)), candidates, 9)
    np.testing.assert_array_equal(found, skop.suggest(pod, candidates, 9))
    without = AutoRegressor(candidates=[("mean", MeanFieldRegressor())], **options).fit(X, fields_of(X))
    np.testing.assert_array_equal(skop.suggest(without, candidates, 9), skop.suggest(mean, candidates, 9))
    with pytest.raises(FieldDataError, match="needs a spread"):
        without.predict(candidates, return_std=True)


def test_a_conformal_band_is_an_uncertainty_where_it_depends_on_x(pod, tables):
    candidates = tables[1]
    others = np.random.default_rng(5).random((30, 2))
    by_spread = ConformalRegressor(FrozenEstimator(pod), scale="spread").fit(others, fields_of(others))
    inputs, _ = by_spread._read_inputs(candidates)
    widths, spreads = _uncertainties(by_spread, inputs), _uncertainties(pod, pod._read_inputs(candidates)[0])
    np.testing.assert_allclose(widths / spreads, widths[0] / spreads[0], rtol=0.2)
    assert np.corrcoef(widths, spreads)[0, 1] > 0.9
    # A constant width tells nothing, so that the spread of the estimator counts.
    constant = ConformalRegressor(FrozenEstimator(pod), scale="residuals", random_state=0).fit(
        others, fields_of(others)
    )
    np.testing.assert_allclose(_uncertainties(constant, inputs), spreads, rtol=1e-6)


def test_samples_of_a_frozen_estimator_and_those_of_its_calibration_come_last(pod, tables):
    others = np.random.default_rng(5).random((30, 2))
    model = ConformalRegressor(FrozenEstimator(pod), scale="spread").fit(others, fields_of(others))
    candidates = np.concatenate([tables[0][:4], others[:4], tables[1][:6]])
    chosen, scores = skop.suggest(model, candidates, 14, return_scores=True)
    assert set(chosen[:6]) == set(range(8, 14))
    assert not scores[6:].any()


def test_scikit_learn_within_a_band_is_chosen_for_by_distances(tables):
    X, candidates = tables
    model = ConformalRegressor(Ridge(), coverage=0.8, scale="constant", random_state=0).fit(X, X.sum(axis=1))
    mean = MeanFieldRegressor().fit(X, X.sum(axis=1))
    np.testing.assert_array_equal(skop.suggest(model, candidates, 9), skop.suggest(mean, candidates, 9))


# ---------------------------------------------------------------------- kinds of candidates
@pytest.mark.parametrize("kind", ["grid", pytest.param("scattered", marks=pytest.mark.exhaustive), "own points of y"])
def test_fields_and_ragged_points(kind):
    rng = np.random.default_rng(6)
    member = LaMORegressor(width=8, depth=1, max_iter=2, base=None)
    if kind == "grid":
        X = rng.random((16, 8, 8, 1))
        y = X**2
        member = LaMORegressor(width=8, depth=1, max_iter=2, base=None)
    else:
        coords = [rng.random((count, 2)) for count in rng.integers(20, 30, 16)]
        values = [np.sin(points[:, :1] * number) for number, points in enumerate(coords)]
        X, y = FieldSet(coords, values), FieldSet(coords, [part + 1 for part in values])
        if kind == "own points of y":
            places = [rng.random((15, 2)) * 0.5 + 0.25 for _ in coords]
            y = FieldSet(places, [points[:, :1] for points in places])
    model = EnsembleRegressor(member, n_members=2, random_state=0).fit(X[:10], y[:10])
    chosen, scores = skop.suggest(model, X, 16, return_scores=True)
    assert sorted(chosen) == list(range(16))
    assert set(chosen[:6]) == set(range(10, 16))
    assert (scores[:6] > 0).all()
    assert not scores[6:].any()


def test_meshes_with_parameters(tmp_path):
    meshio = pytest.importorskip("meshio")
    rng = np.random.default_rng(7)
    table, paths = rng.random((12, 2)), []
    for number, row in enumerate(table):
        points = np.pad(rng.random((30, 2)), ((0, 0), (0, 1)))
        mesh = meshio.Mesh(points, [("vertex", np.arange(30)[:, None])], point_data={"s": row[0] * points[:, 0]})
        paths.append(str(tmp_path / f"run{number:02}.vtu"))
        mesh.write(paths[-1])
    member = LaMORegressor(width=8, depth=1, max_iter=2, base=None, target_fields=["s"])
    model = EnsembleRegressor(member, n_members=2, random_state=0).fit(paths[:8], params=table[:8])
    chosen = skop.suggest(model, paths, 4, params=table)
    assert set(chosen) == {8, 9, 10, 11}


# ---------------------------------------------------------------------- errors
def test_a_number_that_cannot_be_chosen_is_refused(pod, tables, subtests):
    for n in [0, -1, 41, 2.0, True, "3", None]:
        with subtests.test(n=n), pytest.raises(FieldDataError, match="expected an integer from 1 to 40"):
            skop.suggest(pod, tables[1], n)


def test_candidates_that_cannot_be_read_are_refused(pod, tables):
    for bad, words in (
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros((3, 5)), "5 features"),
        (np.array([[0.0, np.nan]]), "NaN"),
        (np.array([[0.0, np.inf]]), "infinity"),
    ):
        with pytest.raises(ValueError, match=words):
            skop.suggest(pod, bad, 1)


def test_an_uncertainty_that_overflows_is_refused(tables):
    """Without the check the first index came back n times."""
    X, candidates = tables
    model = PODRegressor().fit(X, X.prod(axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NonFinitePredictionError, match="candidate 3, its uncertainty or their squares are not"):
            skop.suggest(model, np.concatenate([candidates[:3], [[1e140, 1e140]]]), 2)


def test_estimators_that_suggest_knows_nothing_of_are_refused(tables):
    with pytest.raises(FieldDataError, match="a Ridge; of a search"):
        skop.suggest(Ridge(), tables[1], 1)
    with pytest.raises(NotFittedError):
        skop.suggest(PODRegressor(), tables[1], 1)


def test_models_without_their_training_samples_are_refused(tables):
    model = PODRegressor().fit(tables[0], fields_of(tables[0]))
    model.reference_ = None
    with pytest.raises(FieldDataError, match="no features of its training samples"):
        skop.suggest(model, tables[1], 1)


def test_a_choice_leaves_the_estimator_as_it_was_and_survives_saving(pod, tables, tmp_path):
    before = skop.suggest(pod, tables[1], 5)
    pod.save(tmp_path / "pod.skop")
    np.testing.assert_array_equal(skop.suggest(skop.load(tmp_path / "pod.skop"), tables[1], 5), before)
    np.testing.assert_array_equal(skop.suggest(pod, tables[1], 5), before)
