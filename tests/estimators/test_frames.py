"""Frames as samples: repeated points, joined values, seeds of the wrapped estimator, meshes, other points."""

import meshio
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skop import EnsembleRegressor, FieldSet, LaMORegressor, PODRegressor, RolloutRegressor, TimeConditionedRegressor
from skop.estimators.temporal._frames import join_frames, repeat_samples
from skop.exceptions import FieldDataError

from . import pod


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
    return LaMORegressor().set_params(**({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 1} | changes))


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
    assert wrapper(pod(), random_state=1, **options).fit(frames, frames).predict(frames).shape == frames.shape


@pytest.mark.parametrize("wrapper", [RolloutRegressor, TimeConditionedRegressor])
def test_errors_of_frames_name_wrong_weights(wrapper):
    frames = np.random.default_rng(0).standard_normal((6, 4, 4, 2))
    model = wrapper(pod(), **({"window": 2} if wrapper is RolloutRegressor else {})).fit(frames, frames)
    errors = model.error_by_step if wrapper is RolloutRegressor else model.error_by_time
    with pytest.raises(ValueError, match=r"sample_weight.*\(4,\)"):
        errors(frames, frames, sample_weight=np.ones(4))
    with pytest.raises(ValueError, match="zero"):
        errors(frames, frames, sample_weight=np.zeros(6))


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
    inner = pod(input_fields=["first"], target_fields=["second", "third"])
    options = {"window": 1} if wrapper is RolloutRegressor else {"times": 2}
    model = wrapper(inner, **options).fit(meshes)
    predicted = model.predict(meshes)
    arrays = wrapper(pod(), **options).fit(
        FieldSet(points[:, :2], frames[..., :1]), FieldSet(points[:, :2], frames[..., 1:])
    )
    expected = arrays.predict(FieldSet(points[:, :2], frames[..., :1])).values
    for mesh, values in zip(predicted, expected, strict=True):
        found = np.stack([mesh.point_data[name] for name in ("second", "third")], axis=1)
        np.testing.assert_allclose(np.reshape(found, (7, 2)), values, atol=1e-8)
    assert model.score(meshes) == pytest.approx(
        arrays.score(*(FieldSet(points[:, :2], part) for part in (frames[..., :1], frames[..., 1:])))
    )


def on_meshes(names, values):
    """Meshes whose fields are channels of values (n, 7, c), with names of fields and their numbers of channels."""
    points = np.c_[np.random.default_rng(3).random((7, 2)), np.zeros(7)]
    cells, ends = [("triangle", np.array([[0, 1, 2], [3, 4, 5], [4, 5, 6]]))], np.cumsum([*names.values()])[:-1]
    parts = [zip(names, np.split(sample, ends, axis=1), strict=True) for sample in values]
    return [meshio.Mesh(points, cells, point_data={name: part.copy() for name, part in pairs}) for pairs in parts]


# Fields of the fit and their channels; steps or times that are asked for; fields of these, None for a FieldSet.
ASKED = [
    (dict.fromkeys(["u_07", "u_08", "u_09"], 1), 5, ["u_07", "u_08", "u_09", "u_10", "u_11"]),
    (dict.fromkeys(["u_0.8", "u_0.9"], 1), 3, ["u_0.8", "u_0.9", "u_1.0"]),
    (dict.fromkeys(["after", "later"], 1), 1, ["after"]),
    (dict.fromkeys(["after", "later"], 1), 3, ["after", "later", "later_step_3"]),
    ({"p1": 1, "v1": 2, "p2": 1, "v2": 2}, 3, ["p1", "v1", "p2", "v2", "p3", "v3"]),
    ({"u": 3}, 4, ["u"]),
    ({"p": 1, "v": 2, "q": 1}, 3, None),
    (dict.fromkeys(["u_1", "u_2", "u_3"], 1), [0.5, 0.25], ["u_2", "u_t_0.25"]),
    (dict.fromkeys(["u_0", "u_0.5", "u_1"], 1), [0.25, 0.5, 2.0], ["u_0.25", "u_0.5", "u_2"]),
    (dict.fromkeys(["first", "last"], 1), [0.0, 0.25], ["first", "first_t_0.25"]),
    (dict.fromkeys(["first", "last"], 1), [0.25, 0.25], None),
    ({"u": 3}, [0.25], ["u"]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::skop.exceptions.ExtrapolationWarning")
def test_other_numbers_of_frames_are_named_on_meshes(tmp_path, subtests):
    """The values are those of the same fit on a FieldSet, in the order of the names."""
    for fields, asked, expected in ASKED:
        with subtests.test(fields=fields, asked=asked):
            size = {"p1": 3}.get(next(iter(fields)), 1)
            values = np.random.default_rng(0).standard_normal((5, 7, size + sum(fields.values())))
            meshes = on_meshes({"start": size, **fields}, values)
            for number, mesh in enumerate(meshes):
                mesh.write(tmp_path / f"{number}.vtu")
            files, points = f"{tmp_path}/*.vtu", meshes[0].points[:, :2]
            inner, option = PODRegressor(regressor="ridge", input_fields=["start"], target_fields=[*fields]), "n_steps"
            model = RolloutRegressor(inner, window=1)
            if isinstance(asked, list):
                option, model = "times", TimeConditionedRegressor(inner, times=3 if "last" not in fields else 2)
            X, y = (FieldSet(points, part) for part in np.split(values, [size], axis=-1))
            arrays = (
                clone(model)
                .set_params(estimator=PODRegressor(regressor="ridge"))
                .fit(X, y)
                .predict(X, **{option: asked})
            )
            predicted = model.fit(files).predict(files, **{option: asked})
            if expected is None:
                found = predicted.values
                assert isinstance(predicted, FieldSet)
            else:
                new = [name for name in predicted[0].point_data if not name.endswith(("_true", "_error"))][
                    : len(expected)
                ]
                assert new == expected
                found = np.stack(
                    [np.concatenate([m.point_data[n].reshape(7, -1) for n in new], axis=1) for m in predicted]
                )
            # Files round the points, and sums over other numbers of samples are rounded otherwise.
            np.testing.assert_allclose(found, arrays.values, atol=1e-6)


@pytest.mark.parametrize(("wrapper", "n_steps"), [(TimeConditionedRegressor, 3), (RolloutRegressor, 3)])
def test_trajectories_are_groups_of_a_model_that_takes_them(wrapper, n_steps):
    class Grouped(PODRegressor):
        def fit(self, X, y=None, *, groups=None):
            self.groups_, self.first_ = groups, np.asarray(y.values)[:, 0, 0]
            return super().fit(X, y)

    rng = np.random.default_rng(0)
    X, y = rng.random((4, 6, 1)), rng.random((4, 6, n_steps))
    options = {"window": 1} if wrapper is RolloutRegressor else {}
    model = wrapper(Grouped(regressor="ridge"), **options)
    of_geometries = clone(model).fit(X, y, groups=[*"baba"]).estimator_.groups_
    np.testing.assert_array_equal(of_geometries, np.repeat([1, 0, 1, 0], n_steps))
    fitted = model.fit(X, y).estimator_
    np.testing.assert_array_equal(fitted.groups_, np.repeat(np.arange(4), n_steps))
    # Samples of a group are the frames of one trajectory.
    np.testing.assert_array_equal(fitted.first_.reshape(4, n_steps), y[:, 0])
    with pytest.raises(FieldDataError, match="fit of Ridge takes none"):
        wrapper(Ridge(), **options).fit(X[:, 0], y[:, 0], groups=[*"baba"])
    # A single trajectory has no groups that a cross-validation could separate.
    assert wrapper(Grouped(regressor="mean"), **options).fit(X[:1], y[:1]).estimator_.groups_ is None


def test_other_points_and_ensembles():
    rng = np.random.default_rng(1)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 5)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.cumsum(rng.standard_normal((8, 25, 4)), axis=-1)
    X, y = FieldSet(grid, values[..., :2], grid_shape=(5, 5)), FieldSet(grid, values[..., 2:], grid_shape=(5, 5))
    model = RolloutRegressor(pod(), window=2).fit(X, y)
    whole = model.predict(X)
    np.testing.assert_allclose(model.predict(X, coords=grid[3:9]).values, whole.values[:, 3:9], atol=1e-8)
    mean = EnsembleRegressor(network(), n_members=2, random_state=0)
    inside = RolloutRegressor(mean, window=2).fit(X, y)
    first = inside.estimator_.predict(X).values
    np.testing.assert_allclose(inside.predict(X, n_steps=1).values, first, rtol=1e-6)
