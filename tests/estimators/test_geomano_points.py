"""GeoMaNORegressor(grid=...): point clouds of every form by way of a grid."""

import pickle
import warnings

import meshio
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import skop
from skop import EnsembleRegressor, FieldSet, GeoMaNORegressor, RolloutRegressor, TimeConditionedRegressor
from skop.data import GridResampler, unit_grid
from skop.estimators.fitting._comparison import Review
from skop.exceptions import FieldDataError, ResamplingWarning
from skop.metrics import relative_l2_error

SIZES = (40, 31, 52, 40, 36, 44)


def small(**params):
    tiny = {"grid": (8, 6), "width": 8, "depth": 1, "batch_size": 4, "max_iter": 1, "random_state": 0, "device": "cpu"}
    return GeoMaNORegressor().set_params(**(tiny | params))


def linear(points, number):
    """A field that a grid keeps to the last digits, and that differs between samples."""
    return 2.0 + number + points @ np.arange(1.0, points.shape[-1] + 1)[:, None]


def ragged(n_dims=2, sizes=SIZES, seed=0):
    """Points, input fields, parameters and target fields of each sample; all clouds fill the unit box."""
    generator = np.random.default_rng(seed)
    ends = unit_grid((2,) * n_dims)
    points = [np.concatenate([ends, generator.random((size, n_dims))]) for size in sizes]
    fields = [np.concatenate([linear(own, i), -own[:, :1]], axis=1) for i, own in enumerate(points)]
    params = generator.normal(size=(len(sizes), 3))
    return points, fields, params, [linear(own, 0.5 * i) for i, own in enumerate(points)]


def shared(n_samples=6, n_dims=2):
    """One set of points, fields and target fields."""
    points = ragged(n_dims)[0][0]
    fields = np.stack([linear(points, i) for i in range(n_samples)])
    return points, fields, 0.5 * fields + 1


def flat(prediction):
    """Numbers of a prediction in one line."""
    if isinstance(prediction, FieldSet):
        return np.ravel(prediction.values)
    if isinstance(prediction, tuple):
        return np.ravel(prediction[1])
    if isinstance(prediction, np.ndarray):
        return np.ravel(prediction)
    if isinstance(prediction[0], meshio.Mesh):
        return np.concatenate([np.ravel(values) for mesh in prediction for values in mesh.point_data.values()])
    return np.concatenate([np.ravel(item[1] if isinstance(item, tuple) else item) for item in prediction])


def meshes(count=6):
    """Meshes with a load and a stress on their points, which are other ones in each."""
    points, fields, _, targets = ragged(sizes=SIZES[:count])
    found = []
    for own, load, stress in zip(points, fields, targets, strict=True):
        places = np.column_stack([own, np.full(len(own), 0.5)])
        data = {"load": load[:, 0], "stress": stress[:, 0]}
        found.append(meshio.Mesh(places, [("vertex", np.arange(len(own))[:, None])], point_data=data))
    return found


def forms():
    """X and y in every form of point data, and further parameters."""
    points, fields, params, targets = ragged()
    pairs = list(zip(points, fields, strict=True))
    one, held, truth = shared()
    own = np.stack([item[:30] for item in points])
    own_truth = np.stack([linear(item, i) for i, item in enumerate(own)])
    line = [item[:, :1] for item in points]
    return {
        "points, list": (points, targets, {}),
        "pairs, pairs": (pairs, list(zip(points, targets, strict=True)), {}),
        "ragged FieldSet, FieldSet": (FieldSet(points, fields, params=params), FieldSet(points, targets), {}),
        "fields and scalars": (FieldSet(points, fields), FieldSet(points, targets, params=params), {}),
        "own FieldSet, tuple": (FieldSet(own, own), (own, own_truth), {}),
        "shared FieldSet, FieldSet": (FieldSet(one, held), FieldSet(one, truth, channel_names=["u"]), {}),
        "parameters, tuple": (params, (one, truth), {}),
        "points, table": (points, params, {}),
        "meshes": (meshes(), None, {"input_fields": ["load"], "target_fields": ["stress"]}),
        "lines": (line, [1 + item for item in line], {"grid": (9,)}),
        "automatic grid": (pairs, targets, {"grid": "auto"}),
        "3-D": (*ragged(3)[::3], {"grid": (4, 5, 3)}),
    }


def shapes_of(samples):
    """Kinds and shapes of a prediction."""
    if isinstance(samples, FieldSet):
        return samples.n_points.tolist(), samples.n_channels, samples.n_params, samples.channel_names
    if isinstance(samples, tuple | list):
        return [shapes_of(item) if isinstance(item, tuple | meshio.Mesh) else np.shape(item) for item in samples]
    return samples.points.shape if isinstance(samples, meshio.Mesh) else np.shape(samples)


# ---------------------------------------------------------------------- forms
def test_predictions_have_the_form_of_y_and_come_back_from_files(tmp_path, subtests):
    for name, (X, y, changes) in forms().items():
        with subtests.test(name):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = small(**{"base": None} | changes).fit(X, y)
                prediction = model.predict(X)
            expected = meshes() if name == "meshes" else y
            assert type(prediction) is type(expected)
            assert shapes_of(prediction) == shapes_of(expected)
            assert np.isfinite(flat(prediction)).all()
            assert np.isfinite(model.score(X, y))
            assert all(np.isfinite(score) for score in model.score_channels(X, y).values())
            model.save(tmp_path / "model.skop")
            for other in (skop.load(tmp_path / "model.skop"), pickle.loads(pickle.dumps(model))):
                np.testing.assert_array_equal(flat(other.predict(X)), flat(prediction))
                assert (other.spec_, other.resampling_error_) == (model.spec_, model.resampling_error_)
                assert other.score(X, y) == model.score(X, y)


def test_what_a_fit_says_of_itself():
    points, fields, params, targets = ragged()
    model = small().fit(FieldSet(points, fields, params=params), FieldSet(points, targets))
    assert model.geometry_ == "grid"
    # The caller's data, and not those of the network, which has the channel of distances too.
    spec = model.spec_
    assert (spec.geometry, spec.grid_shape, spec.n_fields, spec.n_params) == ("points", None, 2, 3)
    assert spec.resampler == GridResampler((0.0, 0.0), (1.0, 1.0), (8, 6), distance=True)
    assert spec.network_spec.n_fields == 3
    assert model.n_features_in_ == 2
    assert model.resampling_error_ < 1e-10
    one, held, truth = shared()
    model.fit((one, held), truth)
    assert not model.spec_.resampler.distance
    assert model.spec_.network_spec.n_fields == 1
    assert small(grid="auto").fit((one, held), truth).spec_.resampler.grid_shape == (8, 7)


# ---------------------------------------------------------------------- laws
def test_the_order_of_points_is_followed_bit_by_bit():
    points, fields, _, targets = ragged()
    generator = np.random.default_rng(1)
    orders = [generator.permutation(len(item)) for item in points]
    mixed = [[item[order] for item, order in zip(part, orders, strict=True)] for part in (points, fields, targets)]
    model = small().fit(list(zip(points, fields, strict=True)), targets)
    expected = model.predict(list(zip(points, fields, strict=True)))
    for other in (model, small().fit(list(zip(*mixed[:2], strict=True)), mixed[2])):
        found = other.predict(list(zip(*mixed[:2], strict=True)))
        for one, right, order in zip(found, expected, orders, strict=True):
            np.testing.assert_array_equal(one, right[order])


def test_samples_do_not_depend_on_their_mates():
    points, fields, _, targets = ragged()
    pairs = list(zip(points, fields, strict=True))
    model = small(dtype="float64", training__deterministic=True).fit(pairs, targets)
    together = model.predict(pairs)
    for number, pair in enumerate(pairs):
        np.testing.assert_array_equal(model.predict([pair])[0], together[number])


def test_resampled_points_of_a_grid_are_that_grid():
    """A grid whose points are shuffled gives what the grid itself gives."""
    shape, generator = (6, 5), np.random.default_rng(0)
    points = unit_grid(shape)
    X, order = generator.normal(size=(4, 30, 2)), generator.permutation(30)
    y = X[..., :1] + 2
    changes = {"dtype": "float64", "patches__size": 2, "grid": shape}
    on_grid = small(**changes).fit((points, X), y)
    assert on_grid.spec_.geometry == "grid"
    assert on_grid.spec_.resampler is None
    assert on_grid.resampling_error_ is None
    shuffled = small(**changes).fit((points[order], X[:, order]), y[:, order])
    assert shuffled.spec_.geometry == "points"
    expected = on_grid.predict((points, X))
    np.testing.assert_allclose(shuffled.predict((points[order], X[:, order])), expected[:, order], rtol=1e-8)


def test_data_on_a_grid_are_used_as_they_are():
    """Whatever grid= says, with bent grids and tables too."""
    X = np.random.default_rng(0).random((4, 8, 9, 1))
    points = unit_grid((8, 9)) @ np.array([[1.0, 0.3], [0.2, 1.0]])
    bent = FieldSet(points, X.reshape(4, 72, 1), grid_shape=(8, 9))
    table = np.random.default_rng(1).random((12, 3))
    for data, y in ((X, X + 1), (bent, bent), (table, table.sum(axis=1))):
        expected = small(grid=None).fit(data, y).predict(data)
        np.testing.assert_array_equal(flat(small(grid=(5, 5)).fit(data, y).predict(data)), flat(expected))


def test_a_network_learns_through_the_grid():
    """A shift of the input is learned far better than the mean of the targets would tell."""
    generator = np.random.default_rng(0)
    points = [np.concatenate([unit_grid((2, 2)), generator.random((60 + i, 2))]) for i in range(24)]
    fields = [generator.normal() + own @ generator.normal(size=(2, 1)) for own in points]
    targets = [field + 3.0 for field in fields]
    X = list(zip(points, fields, strict=True))
    model = small(grid=(6, 6), width=16, max_iter=25, learning_rate_init=1e-2).fit(X[:18], targets[:18])
    mean = np.mean(np.concatenate(targets[:18]))
    error = np.mean([np.linalg.norm(mean - item) / np.linalg.norm(item) for item in targets[18:]])
    assert 1 - model.score(X[18:], targets[18:]) < 0.5 * error


def test_the_shape_of_samples_is_an_input():
    """Clouds of other shapes, without any fields, give other predictions."""
    points, _, _, targets = ragged()
    model = small(dtype="float64").fit(points, targets)
    hollow = [own[(np.abs(own - 0.5).max(axis=1) > 0.3)] for own in points]
    corner = np.zeros((1, 2))
    found = [model.predict([own], coords=corner)[0] for own in (points[0], hollow[0])]
    assert np.abs(found[0] - found[1]).max() > 1e-6


# ---------------------------------------------------------------------- other points
def test_own_points_as_coords_give_the_prediction():
    points, fields, _, targets = ragged()
    pairs = list(zip(points, fields, strict=True))
    model = small().fit(pairs, targets)
    expected = model.predict(pairs)
    for found, right in zip(model.predict(pairs, coords=points), expected, strict=True):
        np.testing.assert_array_equal(found, right)
    inner = [own[4:][::-2] for own in points]
    for found, right in zip(model.predict(pairs, coords=inner), expected, strict=True):
        np.testing.assert_array_equal(found, right[4:][::-2])
    assert [item.shape for item in model.predict(pairs, coords=np.full((3, 2), 0.5))] == [(3, 1)] * 6
    with pytest.raises(FieldDataError, match="outside"):
        model.predict(pairs, coords=np.full((1, 2), 1.5))


def test_coords_between_points_are_multilinear_in_the_grid():
    points, fields, targets = shared()
    model = small(grid=(3, 3)).fit((points, fields), targets)
    corners = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [0.5, 0.5]])
    values = model.predict((points, fields), coords=corners)
    middle = model.predict((points, fields), coords=np.array([[0.25, 0.25]]))
    np.testing.assert_allclose(middle[:, 0], values.mean(axis=1), rtol=1e-6)


def test_scalars_have_no_points():
    points = ragged()[0]
    with pytest.raises(FieldDataError, match="scalars"):
        small().fit(points, np.arange(6.0)).predict(points, coords=points)


def test_samples_on_another_kind_of_points():
    """Fitted on clouds, used on a grid, and on points that all samples share."""
    points, fields, _, targets = ragged()
    model = small().fit(FieldSet(points, fields), FieldSet(points, targets))
    grid = unit_grid((5, 7))
    values = np.stack([np.concatenate([linear(grid, i), -grid[:, :1]], axis=1) for i in range(2)])
    on_grid = model.predict(FieldSet(grid, values, grid_shape=(5, 7)))
    order = np.random.default_rng(0).permutation(35)
    scattered = model.predict(FieldSet(grid[order], values[:, order]))
    np.testing.assert_allclose(scattered.values, np.asarray(on_grid.values)[:, order], rtol=1e-4)


# ---------------------------------------------------------------------- errors and warnings
def test_without_grid_points_are_refused_with_the_way_out():
    points, _, _, targets = ragged()
    with pytest.raises(FieldDataError, match=r"grid='auto'.*grid=\(64, 64\).*LaMORegressor"):
        small(grid=None).fit(points, targets)


def test_grids_that_do_not_fit_are_named(subtests):
    for grid in [(8,), (8, 8, 8), (8, 1), (8.0, 8.0)]:
        with subtests.test(grid=grid):
            points, _, _, targets = ragged()
            with pytest.raises(FieldDataError, match="does not fit 2-D points"):
                small(grid=grid).fit(points, targets)


@pytest.mark.parametrize("grid", ["fine", 8, 0.5])
def test_other_kinds_of_grids_are_refused(grid):
    points, _, _, targets = ragged()
    with pytest.raises(ValueError, match="'grid' parameter of GeoMaNORegressor must be"):
        small(grid=grid).fit(points, targets)


def test_a_coarse_grid_warns_with_its_error():
    # Between the corners of the box, triangles would be long and far from the targets.
    points = [own[4:] for own in ragged(sizes=(300, 280, 310))[0]]
    targets = [np.sin(8 * own[:, :1]) + 1.5 for own in points]
    with pytest.warns(ResamplingWarning, match=r"grid of 4x4 and back .* by 0\.\d+ .*finer grid=.*LaMORegressor"):
        coarse = small(grid=(4, 4)).fit(points, targets)
    data = FieldSet(points, targets)
    returned = coarse.spec_.resampler.round_trip(data).to_list()
    errors = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(returned, targets, strict=True)]
    assert coarse.resampling_error_ == pytest.approx(np.mean(errors), rel=1e-10)
    assert small(grid=(24, 24)).fit(points, targets).resampling_error_ < 0.02 < coarse.resampling_error_


def test_a_base_predicts_the_points_themselves_and_the_grid_has_corrections_only(tmp_path):
    rng = np.random.default_rng(5)
    points, X = ragged()[0][0], rng.uniform(-1, 1, (40, 2))
    # The fields differ between neighbouring points, so that a grid loses them, and are nearly linear in the parameters.
    y = (1.0 + X @ rng.normal(size=(2, len(points))) + 0.05 * X[:, :1] ** 2 * points[:, 0])[..., None]
    model = small(grid=(5, 5), base="linear")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResamplingWarning)
        model.fit(X[:30], (points, y[:30]))
    assert model.resampling_error_ > 0.1
    assert model.score(X[30:], (points, y[30:])) > 0.98
    model.save(tmp_path / "model.skop")
    alone, network, resampler = model.predict(X[30:])[1], model.module_, model.spec_.resampler
    np.testing.assert_array_equal(skop.load(tmp_path / "model.skop").predict(X[30:])[1], alone)
    # At some of the points, the prediction is that on all of them.
    np.testing.assert_allclose(model.predict(X[30:], coords=points[3:9])[1], alone[:, 3:9], rtol=1e-5)
    # A network with a share changes the fields by what is linear between the lines of the grid.
    changes = {}
    for places in (points, resampler.coords):
        network.use_base()
        before = model.predict(X[30:], coords=places)[1]
        network.set_shares(np.ones(1), None)
        changes[len(places)] = model.predict(X[30:], coords=places)[1] - before
    expected = resampler.to_points(changes[25], FieldSet(points, alone))
    assert np.abs(expected).max() > 1e-4
    np.testing.assert_allclose(changes[len(points)], expected, atol=1e-5)


def test_logarithms_and_their_base_are_on_the_same_grid():
    rng = np.random.default_rng(5)
    points, X = ragged()[0][0], rng.uniform(-1, 1, (40, 2))
    y = np.exp(X @ rng.normal(size=(2, len(points))))[..., None]
    model = small(grid=(5, 5), base="pod", scaling=skop.ScalingOptions(target_transform="log"))
    with pytest.warns(ResamplingWarning, match="predictions will hardly have a smaller error"):
        model.fit(X[:30], (points, y[:30]))
    # What is learnt are interpolated fields, not interpolated logarithms.
    returned = model.spec_.resampler.round_trip(FieldSet(points, y[30:]))
    assert relative_l2_error(returned, model.predict(X[30:])[1]) < 0.1


def test_a_resampled_fit_that_drops_its_base_warns_of_the_grid(monkeypatch):
    rng = np.random.default_rng(5)
    points, X = ragged()[0][0], rng.uniform(-1, 1, (20, 2))
    y = ((X @ rng.normal(size=(2, len(points)))) ** 2)[..., None]
    monkeypatch.setattr(Review, "winner", lambda self, part, now: "network")
    with pytest.warns(ResamplingWarning, match="predictions will hardly have a smaller error"):
        small(grid=(5, 5), base="linear", max_iter=4).fit(X, (points, y))


def test_points_outside_the_training_box_warn():
    points, fields, _, targets = ragged()
    model = small().fit(list(zip(points, fields, strict=True)), targets)
    with pytest.warns(ResamplingWarning, match="outside the box"):
        found = model.predict([(3.0 * points[0], fields[0])])
    assert np.isfinite(found[0]).all()


# ---------------------------------------------------------------------- training options and tools
@pytest.mark.parametrize("early_stopping", [False, True])
def test_weight_zero_is_left_out(early_stopping):
    """Of the box too, which the last sample would make larger."""
    points, fields, _, targets = ragged()
    points[5] = 2 * points[5]
    pairs, weight = list(zip(points, fields, strict=True)), np.array([1.0, 1, 1, 1, 1, 0])
    model = small(early_stopping=early_stopping)
    weighted = clone(model).fit(pairs, targets, sample_weight=weight)
    without = clone(model).fit(pairs[:5], targets[:5])
    assert weighted.spec_ == without.spec_
    np.testing.assert_array_equal(flat(weighted.predict(pairs[:5])), flat(without.predict(pairs[:5])))


def test_warm_start_keeps_the_grid(tmp_path):
    points, _, _, targets = ragged()
    model = small(warm_start=True, grid="auto").fit(points, targets)
    held = model.spec_.resampler
    inner = [0.25 + 0.5 * own for own in points[:4]]
    model.fit(inner, targets[:4])
    assert model.n_iter_ == 2
    assert model.spec_.resampler == held
    assert model.resampling_error_ > held.error
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop").fit(points, targets)
    assert (loaded.n_iter_, loaded.spec_.resampler) == (3, held)
    for X, y in ((ragged(3)[0], targets), (points, np.arange(6.0)), (np.ones((6, 8, 6, 1)), np.ones((6, 8, 6, 1)))):
        with pytest.raises(FieldDataError):
            model.fit(X, y)
    with pytest.raises(ValueError, match="grid from 'auto' to None"):
        model.set_params(grid=None).fit(points, targets)


def test_symmetries_hold_on_the_box_of_the_grid():
    points, fields, targets = shared()
    model = small(symmetries=("flip_x",), symmetries__average_predictions=True, dtype="float64").fit(
        (points, fields), targets
    )
    mirrored = points * [-1, 1] + [1, 0]
    found = model.predict((mirrored, fields))
    np.testing.assert_allclose(found, model.predict((points, fields)), rtol=1e-8)


def test_model_selection_over_field_sets():
    points, fields, _, targets = ragged()
    X, y = FieldSet(points, fields), FieldSet(points, targets)
    assert np.isfinite(cross_val_score(small(max_iter=1), X, y, cv=3, error_score="raise")).all()
    search = GridSearchCV(small(max_iter=1), {"grid": [(6, 6), "auto"]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["grid"] in [(6, 6), "auto"]
    assert shapes_of(search.predict(X)) == shapes_of(y)


def test_rollouts_go_through_the_grid(subtests):
    """Frames are fed back in training without the channel of distances, which is none of them."""
    for noise in [0.0, 0.1]:
        for unroll in [1, 2]:
            with subtests.test(noise=noise, unroll=unroll):
                points, _, _, targets = ragged()
                frames = [np.concatenate([item + k for k in range(4)], axis=1) for item in targets]
                X = FieldSet(points, [item[:, :2] for item in frames])
                y = FieldSet(points, [item[:, 2:] for item in frames])
                model = RolloutRegressor(small(), window=2, noise=noise, unroll=unroll).fit(X, y)
                assert model.estimator_.spec_.resampler.distance is (noise == 0.0 and unroll == 1)
                assert shapes_of(model.predict(X)) == shapes_of(y)
                assert np.isfinite(model.score(X, y))


def test_other_wrappers():
    points, fields, targets = shared()
    X, y = FieldSet(points, fields), FieldSet(points, np.concatenate([targets, targets + 1], axis=-1))
    for model in (EnsembleRegressor(small(), n_members=2), TimeConditionedRegressor(small(), times=2)):
        assert shapes_of(model.fit(X, y).predict(X)) == shapes_of(y)
        assert model.predict(X, coords=points[:3]).n_points.tolist() == [3] * 6
