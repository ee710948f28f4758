"""How PODRegressor reads samples: on a common grid where nodes do not correspond, numbers of regions as parameters."""

import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import skop
from skop import AutoRegressor, ConformalRegressor, FieldSet, LaMORegressor, PODRegressor
from skop.data import GridResampler, unit_grid
from skop.estimators.classical._graph import ClassicalGraph
from skop.estimators.classical._input_reader import regions_of
from skop.exceptions import FieldDataError, ModelFileError, ResamplingWarning, SkopWarning
from skop.metrics import relative_l2_score

from . import pod

CORNERS = unit_grid((2, 2)).reshape(-1, 2)


def places(n_samples, seed=0, n_points=40, spread=8):
    """Points drawn anew for each sample, with the corners of the unit square, so that it is their convex hull."""
    rng = np.random.default_rng(seed)
    return [np.concatenate([CORNERS, rng.random((n_points + rng.integers(spread + 1), 2))]) for _ in range(n_samples)]


def planes(coords, params):
    """Two fields that are linear in the coordinates and in the parameters."""
    found = [
        np.stack([p[0] + points @ p[1:3], 2 * points[:, 0] - p[2]], axis=1)
        for points, p in zip(coords, params, strict=True)
    ]
    return FieldSet(coords, found, channel_names=["u", "v"])


def linear_data(n_samples=24, seed=0, **options):
    """Samples of `planes`: inputs and outputs."""
    params = np.random.default_rng(seed + 100).normal(size=(n_samples, 3))
    coords = places(n_samples, seed, **options)
    return FieldSet(coords, params=params), planes(coords, params)


def flat(found):
    """All values of all samples, (T, c)."""
    return np.concatenate(found.to_list())


def test_fields_linear_in_coordinates_and_parameters_are_exact(subtests):
    for label, spread in {"as many points": 0, "ragged": 8}.items():
        for regressor in ["auto", "ridge"]:
            with subtests.test(label, regressor=regressor):
                X, y = linear_data(spread=spread)
                new, truth = linear_data(6, seed=1, spread=spread)
                model = PODRegressor(regressor=regressor).fit(X, y)
                assert model.resampling_error_ < 1e-12
                assert not model.spec_.resampler.distance
                found = model.predict(new)
                assert_allclose(flat(found), flat(truth), atol=1e-5)
                assert found.channel_names == truth.channel_names
                # At any points, by the grid and not by way of the points of X.
                query = places(6, seed=2)
                assert_allclose(flat(model.predict(new, coords=query)), flat(planes(query, new.params)), atol=1e-5)
                mean, deviation = model.predict(new, coords=query, return_std=True)
                assert [part.shape for part in deviation.to_list()] == [part.shape for part in mean.to_list()]
                assert (flat(deviation) >= 0).all()


def test_the_order_of_the_points_of_a_sample_changes_nothing():
    X, y = linear_data()
    y = y.with_values(np.sin(3 * np.asarray(y.values)))
    orders = [np.random.default_rng(i).permutation(count) for i, count in enumerate(X.n_points)]
    turned = [FieldSet([p[o] for p, o in zip(X.coords_list(), orders, strict=True)], params=X.params)]
    turned.append(FieldSet(turned[0].coords_list(), [v[o] for v, o in zip(y.to_list(), orders, strict=True)]))
    one, other = pod().fit(X, y), pod().fit(*turned)
    new, _ = linear_data(4, seed=3)
    assert_allclose(flat(other.predict(new)), flat(one.predict(new)), rtol=1e-9, atol=1e-12)
    found = np.concatenate([v[o] for v, o in zip(one.predict(X).to_list(), orders, strict=True)])
    assert_allclose(flat(one.predict(turned[0])), found, rtol=1e-12, atol=1e-12)


def test_points_of_a_regular_grid_give_what_a_grid_gives():
    rng, shape = np.random.default_rng(0), (7, 5)
    grid, fields = unit_grid(shape).reshape(-1, 2), rng.normal(size=(30, 35, 1))
    values = np.cumsum(fields, axis=1)
    on_grid = pod().fit(*(FieldSet(grid, part, grid_shape=shape) for part in (fields, values)))
    expected = np.asarray(on_grid.predict(FieldSet(grid, fields[:5], grid_shape=shape)).values)
    # Shared by all samples, and in another order in each of them.
    shared = pod(grid=shape).fit(*(FieldSet(grid, part) for part in (fields, values)))
    assert_allclose(shared.predict(FieldSet(grid, fields[:5])).values, expected, atol=1e-8)
    orders = np.stack([rng.permutation(35) for _ in range(30)])
    own = [FieldSet(grid[orders], np.take_along_axis(part, orders[..., None], 1)) for part in (fields, values)]
    mixed = pod(grid=shape).fit(*own)
    assert not mixed.spec_.resampler.distance
    assert mixed.resampling_error_ < 1e-12
    assert_allclose(mixed.predict(own[0][:5]).values, np.take_along_axis(expected, orders[:5, :, None], 1), atol=1e-8)


def test_nodes_that_correspond_and_grids_stay_as_they_are():
    X, _ = linear_data(spread=0)
    nodes = X.coords[0]
    for coords in (nodes, nodes + 0.05 * X.params[:, None, :1] * np.sin(3 * nodes)):
        fields = np.sin(X.params[:, None, :1] + coords[..., :1])
        inputs = FieldSet(coords, params=X.params)
        model, never = pod().fit(inputs, fields), pod(grid=None).fit(inputs, fields)
        assert model.resampling_error_ is None
        assert_array_equal(model.predict(inputs), never.predict(inputs))


def holes(n_samples, seed, n_points=300):
    """Points around a round hole, and a field that follows its radius."""
    rng, coords = np.random.default_rng(seed), []
    radii = rng.uniform(0.1, 0.4, n_samples)
    for radius in radii:
        points = np.concatenate([CORNERS, rng.random((n_points, 2))])
        coords.append(points[np.linalg.norm(points - 0.5, axis=1) > radius])
    fields = [radius * (1 + points[:, :1]) for points, radius in zip(coords, radii, strict=True)]
    return FieldSet(coords), FieldSet(coords, fields), radii


def test_the_shape_of_samples_is_read_where_nothing_else_tells_it():
    X, y, radii = holes(40, 0)
    new, truth, _ = holes(10, 1)
    errors = {name: 1 - PODRegressor(regressor=name).fit(X, y).score(new, truth) for name in ("auto", "mean")}
    assert errors["auto"] < 0.2 * errors["mean"]
    # So is that of samples whose parameters tell something else.
    noise = np.random.default_rng(2).random((50, 1))
    model = pod().fit(X.with_params(noise[:40]), y)
    assert model.spec_.resampler.distance
    assert 1 - model.score(new.with_params(noise[40:]), truth) < 0.3 * errors["mean"]
    # A parameter that tells all is enough.
    assert not pod().fit(X.with_params(radii[:, None]), y).spec_.resampler.distance
    # Scalars of samples on points of their own, alone and beside fields.
    assert pod().fit(X, radii).score(new, holes(10, 1)[2]) > 0.9
    both = pod().fit(X, y.with_params(radii[:, None])).predict(new)
    assert both.params.shape == (10, 1)


def test_input_fields_are_carried_to_the_grid():
    X, y = linear_data()
    fields = FieldSet(X.coords_list(), [part[:, :1] for part in y.to_list()])
    targets = FieldSet(X.coords_list(), [3 * part[:, :1] - 1 for part in y.to_list()])
    model = pod().fit(fields[:20], targets[:20])
    assert_allclose(flat(model.predict(fields[20:])), flat(targets[20:]), atol=1e-5)


def test_files_copies_groups_and_bands(tmp_path):
    X, y = linear_data(20)
    y = y.with_values(np.sin(2 * np.asarray(y.values)))
    model = pod().fit(X, y, groups=np.arange(20) // 2)
    path = tmp_path / "model.skop"
    model.save(path)
    loaded = skop.load(path)
    assert loaded.resampling_error_ == model.resampling_error_ > 0
    assert_array_equal(flat(loaded.predict(X)), flat(model.predict(X)))
    assert_array_equal(flat(clone(model).fit(X, y, groups=np.arange(20) // 2).predict(X)), flat(model.predict(X)))
    model.points_ = model.points_[:-1]
    model.save(path)
    with pytest.raises(ModelFileError, match="points of the common grid"):
        skop.load(path)
    band = ConformalRegressor(pod(), coverage=0.8, random_state=0).fit(X, y)
    _, lower, upper = band.predict_interval(X)
    assert (flat(upper) >= flat(lower)).all()
    assert len(loaded.check(X)) == 0
    assert loaded.novelty(X).score.shape == (20,)


def test_what_cannot_be_and_what_costs_much_is_told():
    X, y = linear_data()
    with pytest.raises(FieldDataError, match=r"grid=\(4, 4, 4\) does not fit 2-D points"):
        pod(grid=(4, 4, 4)).fit(X, y)
    with pytest.raises(FieldDataError, match=r"has 1e\+12 points, and at most 1e\+08"):
        pod(grid=(10**6, 10**6)).fit(X, y)
    with pytest.raises(FieldDataError, match="grid='auto'"):
        pod(grid=None).fit(X, y)
    rough = y.with_values(np.sin(40 * np.asarray(y.values)))
    with pytest.warns(ResamplingWarning, match=r"grid of 4x4 .* by \d\.?\d*.*operator for points"):
        pod(grid=(4, 4)).fit(X, rough)
    model = pod().fit(X, y)
    with pytest.warns(ResamplingWarning, match="outside the box"):
        model.predict(FieldSet([3 * points for points in X.coords_list()], params=X.params))
    four = [np.random.default_rng(i).random((9 + i % 2, 4)) for i in range(6)]
    with pytest.raises(FieldDataError, match="up to 3 dimensions"):
        pod().fit(FieldSet(four, params=np.arange(6.0)[:, None]), [points[:, :1] for points in four])


def test_automatic_grids_are_those_of_the_operators_with_eight_times_the_cells():
    X, y = linear_data()
    resampler = pod().fit(X, y).spec_.resampler
    assert resampler.grid_shape == tuple(round(8**0.5 * (n - 1)) + 1 for n in GridResampler.fit(X).grid_shape)


def test_a_base_on_a_grid_has_no_graph(tmp_path):
    X, _ = linear_data(spread=0)
    nodes = X.coords[0] + 0.05 * X.params[:, None, :1] * np.sin(3 * X.coords[0])
    inputs, fields = FieldSet(nodes, params=X.params), np.sin(X.params[:, None, :1] + nodes[..., :1])
    model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0, base=pod(grid=(12, 12)))
    model.fit(inputs, fields)
    assert model.predict(inputs).shape == fields.shape
    with pytest.raises(FieldDataError, match="without a grid of the base"):
        model.gradient(inputs[:2], lambda field: field.mean())
    with pytest.raises(FieldDataError, match="its base is on a common grid"):
        model.export(tmp_path / "model.pt2", inputs[:2])
    # A base by a word, or without a grid, stays on the nodes.
    assert model.set_params(base="pod").fit(inputs, fields).base_.estimator.spec_.resampler is None


def test_it_is_a_candidate_of_the_automatic_choice():
    X, y = linear_data(30)
    candidates = [("mean", PODRegressor(regressor="mean")), ("POD", pod())]
    model = AutoRegressor(candidates=candidates, max_time=None, cv=2, random_state=0).fit(X[:24], y[:24])
    assert {row["candidate"]: row["status"] for row in model.results_} == {"POD": "chosen", "mean": "compared"}
    assert model.score(X[24:], y[24:]) > 0.999


@pytest.mark.parametrize("kind", ["lattices", "graded", "scattered"])
def test_samples_on_a_few_sets_of_points_do_not_tell_of_these_alone(kind):
    """Where each set has many samples, those that stay tell of the points of the one that is left out."""
    lines = [(np.arange(count) + 0.5) / count for count in ((14, 14, 14) if kind == "graded" else (12, 13, 14))]
    if kind == "graded":
        lines[:2] = lines[0] ** 1.4, 1 - lines[1] ** 1.4
    points = [np.stack(np.meshgrid(line, np.sort(lines[2]), indexing="ij"), axis=-1).reshape(-1, 2) for line in lines]
    rng = np.random.default_rng(0)
    if kind == "scattered":
        points = [rng.random((count, 2)) for count in (200, 220, 210)]
    law = lambda at, p: np.sin(4 * at[:, :1] * p[0] + 3 * at[:, 1:] + 2 * p[1])  # noqa: E731
    params, new = rng.uniform(0.5, 1.5, (30, 2)), rng.uniform(0.6, 1.4, (10, 2))
    places = [points[number % 2] for number in range(30)]
    fields = [law(at, p) for at, p in zip(places, params, strict=True)]
    X, y = FieldSet(places, None, params=params), FieldSet(places, fields)
    others = [points[2]] * 10 + points[:2]
    found = PODRegressor().fit(X, y).predict(FieldSet(others, None, params=np.concatenate([new, new[:2]])))
    for at, p, values in zip(others[:10], new, found.to_list()[:10], strict=True):
        # With these points known by their other samples, it was 0.2 to 1.
        assert np.linalg.norm(values - law(at, p)) < 0.12 * np.linalg.norm(law(at, p))


def test_points_of_which_others_tell_nothing_are_named():
    rng = np.random.default_rng(0)
    points, params = [rng.random((30, 2)), rng.random((33, 2))], rng.random((24, 2))
    places = [points[number % 2] for number in range(24)]
    # What grows with the parameters on one falls on the other.
    signs = [1 if len(at) == 30 else -1 for at in places]
    fields = [sign * (p[0] - p[1]) * np.sin(3 * at[:, :1]) for at, p, sign in zip(places, params, signs, strict=True)]
    X, y = FieldSet(places, None, params=params), FieldSet(places, fields)
    with pytest.warns(SkopWarning, match="on 2 different sets of points, and those on one do not tell"):
        model = PODRegressor().fit(X, y)
    assert model.score(X, y) > 0.8
    # Noise is no matter of the points.
    noise = FieldSet(places, [np.random.default_rng(n).normal(size=(len(at), 1)) for n, at in enumerate(places)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PODRegressor().fit(X, noise)
    assert not [item for item in caught if "different sets of points" in str(item.message)]


@pytest.mark.parametrize("regressor", ["auto", "polynomial", "rbf"])
def test_copies_of_one_set_of_points_are_shared_points(regressor, tmp_path):
    """Files of one mesh have each its points, which tell nothing."""
    rng = np.random.default_rng(0)
    points, X = rng.random((20, 2)), rng.random((40, 3))
    y = (np.sin(3 * X[:, :1] * points[:, 0] + X[:, 1:2]) + X[:, 2:] * points[:, 1])[..., np.newaxis]
    fields = {"shared": points, "copies": [points] * 30}
    models = {
        name: PODRegressor(regressor=regressor).fit(FieldSet(own, None, params=X[:30]), FieldSet(own, y[:30]))
        for name, own in fields.items()
    }
    assert models["copies"].leave_one_out_errors_ == models["shared"].leave_one_out_errors_
    models["copies"].save(tmp_path / "m.skop")
    models["loaded"] = skop.load(tmp_path / "m.skop")
    new = [FieldSet(own, None, params=X[30:]) for own in (points, [points] * 10)]
    expected = models["shared"].predict(new[0]).values
    for model in models.values():
        for asked in new:
            assert_allclose(model.predict(asked).values, expected, rtol=1e-12)
        with pytest.raises(FieldDataError, match="other points"):
            model.predict(FieldSet([points + 0.1] * 10, None, params=X[30:]))


def test_copies_of_one_set_of_points_beside_fields_and_alone():
    rng = np.random.default_rng(0)
    points, X, a = rng.random((20, 2)), rng.random((30, 3)), rng.random((30, 1, 1)) * rng.random((1, 20, 1))
    y = a * np.sin(3 * X[:, :1, np.newaxis]) + points[:, :1]
    copies = FieldSet([points] * 30, a, params=X)
    model = pod().fit(copies, FieldSet([points] * 30, y))
    for asked in (copies, FieldSet(points, a, params=X)):
        graph = ClassicalGraph(model, model.points_, asked, torch.float64)
        given = None if asked.shared_coords else torch.as_tensor(asked.coords)
        found = graph(given, torch.as_tensor(a), torch.as_tensor(X)).field.numpy()
        assert_allclose(found, model.predict(asked).values, atol=1e-9)
    # Without any other input they are all that there is.
    with pytest.warns(SkopWarning, match="X is the same in"):
        alone = pod().fit(FieldSet([points] * 30), FieldSet([points] * 30, y))
    assert np.isfinite(alone.predict(FieldSet([points] * 2)).values).all()


def channels_of_regions(model):
    """Channels that a model reads as parameters."""
    return np.flatnonzero((model.regions_ >= 0).all(axis=0))


def with_constants(params, shape, dtype=float):
    """A channel for each parameter, written at all points of a grid, after one that varies between them."""
    x = np.linspace(0, 1, np.prod(shape)).reshape(shape)
    varying = np.sin(3 * x + params[:, 0].reshape(-1, *[1] * len(shape)))[..., np.newaxis]
    constant = np.broadcast_to(params.reshape(len(params), *[1] * len(shape), -1), (*varying.shape[:-1], 3))
    return varying.astype(dtype), np.concatenate([varying, constant], axis=-1).astype(dtype)


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_constant_channels_are_parameters(tmp_path, dtype):
    params = np.random.default_rng(0).random((40, 3)).astype(dtype) + dtype(0.1)
    varying, fields = with_constants(params, (5, 4), dtype)
    # A law of powers of a parameter, and a step of another, along the axes of the parameters.
    y = varying * params[:, 1, None, None, None] ** -2 + np.where(params[:, 2] > 0.6, 1.0, 0.0)[:, None, None, None]
    known, model = pod().fit(varying[:30], y[:30], params=params[:30]), pod().fit(fields[:30], y[:30])
    assert_array_equal(channels_of_regions(model), [1, 2, 3])
    # Length scales end where they change the error by rounding.
    precision = 1e-5 if dtype == np.float32 else 1e-7
    assert_allclose(model.predict(fields), known.predict(varying, params=params), rtol=precision, atol=precision)
    assert model.leave_one_out_error_ == pytest.approx(known.leave_one_out_error_, rel=precision)
    for one, other in zip(
        model.predict(fields, return_std=True), known.predict(varying, params=params, return_std=True), strict=True
    ):
        assert_allclose(one, other, rtol=1e3 * precision, atol=precision)
    model.save(tmp_path / "model.skop")
    assert_array_equal(skop.load(tmp_path / "model.skop").predict(fields), model.predict(fields))
    # Channels beside parameters: these come first, and gradients are those of them alone.
    both = pod().fit(fields[:30, ..., :3], y[:30], params=params[:30, 2:])
    assert_array_equal(channels_of_regions(both), [1, 2])
    swapped = pod().fit(varying[:30], y[:30], params=params[:30, [2, 0, 1]])
    place = {"output": lambda found: found[:, 3, 0]}
    found = both.gradient(fields[..., :3], params=params[:, 2:], **place)
    wanted = swapped.gradient(varying, params=params[:, [2, 0, 1]], **place)
    assert_allclose(found, wanted[:, :1], rtol=1e3 * precision, atol=1e3 * precision * np.abs(wanted).max())
    fields[35, 2, 1, 2] += 0.1
    with pytest.raises(FieldDataError, match="channel 2 of X differs between the points of sample 35"):
        model.predict(fields)
    # A channel that varies in one sample is a field, and one that never changes says nothing.
    fields[35, ..., 2] = varying[0, ..., 0]
    assert_array_equal(channels_of_regions(pod().fit(fields, y)), [1, 3])
    fields[..., 1] = 2.0
    assert_array_equal(channels_of_regions(pod().fit(fields[:30], y[:30])), [2, 3])


def test_constant_channels_on_points_of_their_own_are_parameters():
    X, y = linear_data(n_points=60, spread=0)
    fields = X.with_params(None).with_values(np.broadcast_to(X.params[:, None], (24, 64, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResamplingWarning)
        known, model = pod().fit(X, y), pod().fit(fields, y)
        assert_array_equal(channels_of_regions(model), [0, 1, 2])
        assert_allclose(flat(model.predict(fields)), flat(known.predict(X)), rtol=1e-6, atol=1e-6)
        # Rows of a table are samples of one point.
        table = pod().fit(FieldSet(np.zeros((1, 1)), X.params[:, None]), X.params[:, 0] * X.params[:, 1])
    assert_array_equal(channels_of_regions(table), [0, 1, 2])


def blocks(n_samples, counts, shape, seed=0):
    """Numbers of blocks between a hundredth and one, and the field on a grid that has them."""
    numbers = 10 ** np.random.default_rng(seed).uniform(-2, 0, (n_samples, *counts))
    return numbers, np.kron(numbers, np.ones((1, *shape)))[..., np.newaxis]


def test_numbers_of_regions_are_parameters(tmp_path):
    numbers, fields = blocks(60, (2, 1), (3, 8))
    params, x = numbers.reshape(60, 2), np.linspace(0, 1, 48).reshape(6, 8)
    y = (1 / params[:, :1, None] + x * np.sqrt(params[:, 1:, None]))[..., np.newaxis]
    known = pod().fit(params[:40], y[:40])
    for inputs in (fields, np.concatenate([fields, np.sin(fields), 0 * fields + x[..., None]], axis=-1)):
        model = pod().fit(inputs[:40], y[:40])
        assert set(channels_of_regions(model)) == set(range(min(inputs.shape[-1], 2)))
    model = pod().fit(fields[:40], y[:40])
    # Regions count in the order of their sums, and components of the field leave 0.3 over.
    assert_allclose(model.predict(fields), known.predict(params), rtol=1e-5)
    assert model.leave_one_out_error_ == pytest.approx(known.leave_one_out_error_, rel=0.01)
    model.save(tmp_path / "model.skop")
    assert_array_equal(skop.load(tmp_path / "model.skop").predict(fields), model.predict(fields))
    fields[50, 1, 3] *= 2
    with pytest.raises(FieldDataError, match="channel 0 of X differs between the points of one region of sample 50"):
        model.predict(fields)
    # A smooth profile along an axis is predicted better by its components.
    profile = np.sin(4 * x[None] * params[:, :1, None] + params[:, 1:, None])[:, :, :1] + 0 * x[None]
    found = PODRegressor().fit(profile[:40, ..., None], np.cos(profile[:40])[..., None])
    assert not len(channels_of_regions(found))


def test_borders_that_move_are_no_regions():
    x = np.linspace(0, 1, 200)
    edges = np.random.default_rng(0).permutation(x[40:160])[:60]
    fields = np.where(x < edges[:, np.newaxis], 2.0, 1.0)[..., np.newaxis]
    # Forty edges are the borders of 41 regions in the fit, which others cross in new samples.
    for repeats in (1, 2):
        assert (regions_of(FieldSet(x[:, np.newaxis], np.repeat(fields[:40], repeats, axis=0))) == -1).all()
    y = np.tanh(10 * (x - edges[:, np.newaxis]))
    assert relative_l2_score(y[40:], pod().fit(fields[:40], y[:40]).predict(fields[40:])) > 0.9
    _, fields = blocks(10, (2, 2), (10, 10))
    assert regions_of(FieldSet(unit_grid((20, 20)), fields.reshape(10, -1, 1))).max() == 3
