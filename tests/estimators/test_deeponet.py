"""DeepONetRegressor: sensors, inputs elsewhere, outputs at any point, refusals, files."""

import numpy as np
import pytest

import skop
from skop import DeepONetRegressor, FieldSet
from skop.data import unit_grid
from skop.exceptions import FieldDataError, SkopWarning

RANDOM = np.random.default_rng(0)
GRID = RANDOM.random((6, 5, 4, 1))
CLOUD = RANDOM.random((15, 2))


def small(**changes):
    sizes = {
        "width": 8,
        "branch_depth": 1,
        "trunk_depth": 1,
        "n_basis": 4,
        "batch_size": 4,
        "max_iter": 1,
        "random_state": 0,
    }
    return DeepONetRegressor(**(sizes | {"dtype": "float64"} | changes))


def on_cloud():
    """Fields on points that all samples share, and targets there."""
    X = FieldSet(CLOUD, RANDOM.random((6, 15, 1)))
    return X, X.with_values(2.0 + X.values**2)


def test_antiderivatives_are_learned_at_sensors_and_between():
    sensors = np.linspace(0, 1, 20)[:, None]
    between = (sensors[1:] + sensors[:-1]) / 2
    frequencies = np.linspace(1, 4, 60)[:, None, None]
    X, y = FieldSet(sensors, np.cos(frequencies * sensors)), FieldSet(between, np.sin(frequencies * between))
    model = DeepONetRegressor(width=32, max_iter=60, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.97
    at_sensors = model.predict(X[1::2], coords=sensors).values
    truth = np.sin(frequencies[1::2] * sensors)
    assert np.linalg.norm(at_sensors - truth) < 0.03 * np.linalg.norm(truth)


def test_inputs_on_other_points_are_interpolated_to_the_sensors():
    X, y = on_cloud()
    model = small().fit(X, y)
    np.testing.assert_array_equal(model.sensors_, CLOUD)
    order = RANDOM.permutation(15)
    np.testing.assert_allclose(model.predict(X.with_order(order)).values, model.predict(X).values[:, order], rtol=1e-12)
    # Every second line of a finer grid is the grid of the fit.
    model = small().fit(GRID, GRID)
    fine = skop.data.interpolate_fields(FieldSet(unit_grid((5, 4)), GRID.reshape(6, 20, 1), grid_shape=(5, 4)),
                                        FieldSet(unit_grid((9, 7)), np.empty((6, 63, 0))))  # fmt: skip
    found = model.predict(fine.reshape(6, 9, 7, 1))
    assert found.shape == (6, 9, 7, 1)
    np.testing.assert_allclose(found[:, ::2, ::2], model.predict(GRID), rtol=1e-9)


def test_a_grid_may_be_read_at_scattered_points_of_each_sample():
    X = FieldSet(unit_grid((9, 9)), np.ones((6, 81, 1)) * np.arange(6.0)[:, None, None], grid_shape=(9, 9))
    model = small().fit(X, X)
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    points = [np.concatenate([corners, RANDOM.random((count, 2))]) for count in (30, 40)]
    found = model.predict(FieldSet(points, [np.full((len(own), 1), 3.0) for own in points]))
    expected = model.predict(X[3:4], coords=points[0])
    np.testing.assert_allclose(found.to_list()[0], expected.values[0], rtol=1e-9)


def test_samples_may_differ_in_their_points_where_there_are_no_fields():
    points, params = [RANDOM.random((count, 2)) for count in (5, 9, 7)], np.arange(3.0)[:, None]
    X = FieldSet(points).with_params(params)
    y = FieldSet(points, [1.0 + own[:, :1] * value for own, value in zip(points, (1, 2, 3), strict=True)])
    model = small().fit(X, y)
    assert model.sensors_ is None
    np.testing.assert_allclose(model.predict(X).to_list()[1], model.predict(X[1:2]).to_list()[0], rtol=1e-12)


def test_gradients_of_parameters_are_those_of_differences():
    X, y = on_cloud()
    X = X.with_params(RANDOM.random((6, 2)))
    model = small().fit(X, y)

    def total(moved):
        return model.predict(X.with_params(moved)).values.sum(axis=(1, 2))

    found = model.gradient(X, lambda field: field.sum(dim=(1, 2)))
    steps = 1e-5 * np.eye(2)
    for axis in range(2):
        slope = (total(X.params + steps[axis]) - total(X.params - steps[axis])) / 2e-5
        np.testing.assert_allclose(found[:, axis], slope, rtol=1e-5)


def test_what_has_no_sensors_is_refused():
    points = [RANDOM.random((count, 2)) for count in (5, 9, 7)]
    fields = FieldSet(points, [own[:, :1] for own in points])
    with pytest.raises(FieldDataError, match="samples of X differ in their points; set grid='auto'"):
        small().fit(fields, fields)
    with pytest.raises(FieldDataError, match="X has neither; set grid='auto'"):
        small().fit(FieldSet(points), fields)
    assert small(grid=(4, 4)).fit(fields, fields).predict(fields).to_list()[1].shape == (9, 1)
    X, y = on_cloud()
    with pytest.raises(FieldDataError, match="symmetries move the points of X"):
        small(symmetries=["flip_x"]).fit(X, y)
    with pytest.raises(FieldDataError, match="cannot be interpolated to the sensors"):
        small().fit(X, y).predict(FieldSet(0.5 * CLOUD, X.values))
    model = small(warm_start=True).fit(X, y)
    with pytest.raises(FieldDataError, match="goes on with the sensors of the last fit"):
        model.fit(FieldSet(CLOUD[::-1], X.values), FieldSet(CLOUD[::-1], y.values))
    with pytest.warns(SkopWarning, match="refinement='native' has no effect, since DeepONet"):
        small(refinement="native").fit(X, y)


def test_symmetries_of_a_grid_are_learned():
    fields = RANDOM.random((6, 5, 5, 1))
    model = small(symmetries=skop.SymmetryOptions(names=["flip_x"], average_predictions=True)).fit(fields, fields)
    np.testing.assert_allclose(model.predict(fields[:, ::-1]), model.predict(fields)[:, ::-1], rtol=1e-9)


def test_files_and_programs_predict_as_the_estimator_does(tmp_path):
    torch = pytest.importorskip("torch")
    model = small(dtype="float32").fit(GRID, GRID)
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    fine = RANDOM.random((2, 9, 7, 1))
    np.testing.assert_array_equal(loaded.predict(fine), model.predict(fine))
    model.export(tmp_path / "model.pt2", GRID)
    (field,) = torch.export.load(tmp_path / "model.pt2").module()(torch.tensor(GRID, dtype=torch.float32))
    np.testing.assert_allclose(field.numpy(), model.predict(GRID), atol=1e-5)
