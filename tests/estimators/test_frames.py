"""Frames as samples: repeated points, joined values, seeds of the wrapped estimator, meshes, other points."""

import meshio
import numpy as np
import pytest

from skop import EnsembleRegressor, FieldSet, LaMORegressor, PODRegressor, RolloutRegressor, TimeConditionedRegressor
from skop.estimators._frames import join_frames, repeat_samples


def clouds(sizes):
    rng = np.random.default_rng(0)
    places = [rng.random((size, 2)) for size in sizes]
    values = [np.cos(place.sum(axis=1, keepdims=True) * np.arange(1, 3)) for place in places]
    ragged = len(set(sizes)) > 1
    params = np.arange(2.0 * len(sizes)).reshape(-1, 2)
    return (
        FieldSet(places, values, params=params)
        if ragged
        else FieldSet(np.stack(places), np.stack(values), params=params)
    )


@pytest.mark.parametrize("sizes", [(4, 6, 3), (5, 5, 5)])
def test_repeated_samples_stand_in_a_row(sizes):
    fields = clouds(sizes)
    repeated = repeat_samples(fields, 2)
    assert len(repeated) == 6
    for i in range(3):
        for copy in (2 * i, 2 * i + 1):
            np.testing.assert_array_equal(repeated.coords_list()[copy], fields.coords_list()[i])
            np.testing.assert_array_equal(repeated.to_list()[copy], fields.to_list()[i])
            np.testing.assert_array_equal(repeated.params[copy], fields.params[i])


@pytest.mark.parametrize("sizes", [(4, 6, 3), (5, 5, 5)])
def test_joined_frames_lie_on_the_points(sizes):
    points = repeat_samples(clouds(sizes), 2)
    frames = [np.full((size, 1), float(number)) for number, size in enumerate(np.repeat(sizes, 2))]
    joined = join_frames(points, frames)
    assert joined.params is None
    for number in range(6):
        np.testing.assert_array_equal(joined.to_list()[number], frames[number])
        np.testing.assert_array_equal(joined.coords_list()[number], points.coords_list()[number])


def network(**changes):
    return LaMORegressor().set_params(**({"width": 8, "depth": 1, "d_state": 4, "max_iter": 1} | changes))


@pytest.mark.parametrize("wrapper", [RolloutRegressor, TimeConditionedRegressor])
def test_seeds_reach_the_estimator(wrapper):
    frames = np.random.default_rng(0).standard_normal((6, 4, 4, 2))
    options = {"window": 2} if wrapper is RolloutRegressor else {}
    own = wrapper(network(random_state=7), **options).fit(frames, frames)
    assert own.estimator_.random_state == 7
    seeds = [
        wrapper(network(), random_state=1, **options).fit(frames, frames).estimator_.random_state for _ in range(2)
    ]
    assert seeds[0] == seeds[1] not in (None, 1)
    assert wrapper(PODRegressor(), random_state=1, **options).fit(frames, frames).predict(frames).shape == frames.shape


@pytest.mark.parametrize("wrapper", [RolloutRegressor, TimeConditionedRegressor])
def test_meshes_go_in_and_come_out(wrapper):
    rng = np.random.default_rng(0)
    points = np.c_[rng.random((7, 2)), np.zeros(7)]
    cells = [("triangle", np.array([[0, 1, 2], [3, 4, 5], [4, 5, 6]]))]
    frames = rng.standard_normal((5, 7, 3))
    names = ["first", "second", "third"]
    meshes = [
        meshio.Mesh(points, cells, point_data=dict(zip(names, sample.T.copy(), strict=True))) for sample in frames
    ]
    inner = PODRegressor(input_fields=["first"], target_fields=["second", "third"])
    options = {"window": 1} if wrapper is RolloutRegressor else {"times": 2}
    model = wrapper(inner, **options).fit(meshes)
    predicted = model.predict(meshes)
    arrays = wrapper(PODRegressor(), **options).fit(
        FieldSet(points[:, :2], frames[..., :1]), FieldSet(points[:, :2], frames[..., 1:])
    )
    expected = arrays.predict(FieldSet(points[:, :2], frames[..., :1])).values
    for mesh, values in zip(predicted, expected, strict=True):
        found = np.stack([mesh.point_data[name] for name in ("second", "third")], axis=1)
        np.testing.assert_allclose(np.reshape(found, (7, 2)), values, atol=1e-8)
    assert model.score(meshes) == pytest.approx(
        arrays.score(*(FieldSet(points[:, :2], part) for part in (frames[..., :1], frames[..., 1:])))
    )


def test_other_points_and_ensembles():
    rng = np.random.default_rng(1)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 5)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.cumsum(rng.standard_normal((8, 25, 4)), axis=-1)
    X, y = FieldSet(grid, values[..., :2], grid_shape=(5, 5)), FieldSet(grid, values[..., 2:], grid_shape=(5, 5))
    model = RolloutRegressor(PODRegressor(), window=2).fit(X, y)
    whole = model.predict(X)
    np.testing.assert_allclose(model.predict(X, coords=grid[3:9]).values, whole.values[:, 3:9], atol=1e-8)
    mean = EnsembleRegressor(network(), n_members=2, random_state=0)
    inside = RolloutRegressor(mean, window=2).fit(X, y)
    first = inside.estimator_.predict(X).values
    np.testing.assert_allclose(inside.predict(X, n_steps=1).values, first, rtol=1e-6)
