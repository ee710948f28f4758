"""Derivatives with respect to parameters: against central differences of `predict` in double precision."""

from functools import partial

import meshio
import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from skop import (
    ConformalRegressor,
    FieldSet,
    LaMORegressor,
    LawRegressor,
    PODRegressor,
    ScalingOptions,
    SymmetryOptions,
    TrainingOptions,
)
from skop.data import unit_grid
from skop.exceptions import FieldDataError
from skop.parts import LatentTokens

RANDOM = np.random.default_rng(0)
GRID = (5, 4)
P = RANDOM.normal(size=(8, 3)) * [1.0, 1e4, 1e-3]
FIELD = np.sin((P / [1.0, 1e4, 1e-3]) @ RANDOM.normal(size=(3, 20))).reshape(8, *GRID, 1)
CLOUD = RANDOM.random((15, 2))


def small(**params):
    sizes = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 3, "random_state": 0, "dtype": "float64"}
    return LaMORegressor(**(sizes | params))


def require_close(found, expected):
    """Compare in units of the largest derivative with respect to each parameter."""
    units = np.abs(expected).max(axis=0)
    assert units.all()
    np.testing.assert_allclose(found / units, expected / units, rtol=2e-5, atol=1e-6)


def differences(value, table):
    """Central differences of fourth order of a function of a table, row by row."""
    found = np.empty_like(table)
    for column in range(table.shape[1]):
        step = 1e-3 * np.abs(table[:, column]).max() * np.eye(table.shape[1])[column]
        near, far = (value(table + size * step) - value(table - size * step) for size in (1, 2))
        found[:, column] = (8 * near - far) / (12 * step[column])
    return found


CASES = {
    "scalar": ({}, FIELD.sum(axis=(1, 2, 3)), None, lambda predicted: predicted),
    "one of several scalars": ({}, FIELD[:, 0, :3, 0], 2, lambda predicted: predicted[:, 2]),
    "field on a grid": (
        {},
        FIELD,
        lambda field: (field[..., 0] ** 2).mean(dim=1),
        lambda predicted: (predicted**2).mean(axis=(1, 2, 3)),
    ),
    "field on points": (
        {"latents": LatentTokens(n_heads=2)},
        (CLOUD, FIELD.reshape(8, -1, 1)[:, :15]),
        lambda field: field[:, 3, 0],
        lambda predicted: predicted[1][:, 3, 0],
    ),
    "unscaled": (
        {"scaling": ScalingOptions(params=None)}, FIELD, lambda field: field[:, 7, 0],
        lambda predicted: predicted.reshape(8, -1)[:, 7],
    ),
    "averaged over symmetries": (
        {"symmetries": SymmetryOptions(names=["flip_x"], average_predictions=True)},
        FIELD, lambda field: field[:, 2, 0], lambda predicted: predicted.reshape(8, -1)[:, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_limits_of_differences(name):
    params, y, output, value = CASES[name]
    model = small(**params).fit(P, y)
    found = model.gradient(P, output)
    expected = differences(lambda table: value(model.predict(table)), P)
    require_close(found, expected)


def test_parameters_beside_fields():
    X = FieldSet(unit_grid(GRID), RANDOM.normal(size=(8, 20, 1)), params=P, grid_shape=GRID)
    model = small().fit(X, FIELD)
    found = model.gradient(X, lambda field: field[:, 1, 0])
    expected = differences(lambda table: model.predict(X.with_params(table)).reshape(8, -1)[:, 1], P)
    require_close(found, expected)


def test_parameters_apart_from_arrays():
    X = RANDOM.normal(size=(8, *GRID, 1))
    model = small().fit(X, FIELD, params=P)
    found = model.gradient(X, lambda field: field[:, 1, 0], params=P)
    require_close(found, differences(lambda table: model.predict(X, params=table).reshape(8, -1)[:, 1], P))
    with pytest.raises(FieldDataError, match="pass params="):
        model.gradient(X, lambda field: field[:, 1, 0])


@pytest.mark.parametrize("sizes", [[9] * 4, [9, 12, 7, 9]])
def test_parameters_apart_from_meshes(sizes):
    """Meshes of one size or of several, whose rows of parameters are matched by their order."""
    meshes = []
    for n in sizes:
        nodes = np.arange(n - 2)[:, None] + np.arange(3)
        points, data = np.c_[RANDOM.random((n, 2)), np.zeros(n)], {"a": RANDOM.random(n), "b": RANDOM.random(n)}
        meshes.append(meshio.Mesh(points, [("triangle", nodes)], point_data=data))
    table = P[:4]
    model = small(input_fields=["a"], target_fields=["b"]).fit(meshes, params=table)
    found = model.gradient(meshes, lambda field: (field[..., 0] ** 2).sum(dim=1), params=table)
    require_close(
        found,
        differences(
            lambda rows: np.array([(mesh.point_data["b"] ** 2).sum() for mesh in model.predict(meshes, params=rows)]),
            table,
        ),
    )


@pytest.mark.exhaustive
def test_a_gradient_optimiser_leaves_its_start_in_single_precision():
    designs = np.random.default_rng(1).random((60, 2))
    fields = np.stack([np.full(6, ((design - [0.3, 0.6]) ** 2).sum()) for design in designs])[..., None]
    model = LaMORegressor(width=16, depth=1, max_iter=60, random_state=0, training=TrainingOptions(tol=0))
    model.fit(designs, (np.linspace(0, 1, 6)[:, None], fields))
    assert model.dtype_ == "float32"
    found = minimize(
        lambda design: float(model.predict(design[None])[1].max()),
        [0.8, 0.2],
        jac=lambda design: model.gradient(design[None], lambda field: field[..., 0].amax(dim=1))[0],
        bounds=[(0, 1)] * 2,
        method="L-BFGS-B",
    )
    np.testing.assert_allclose(found.x, [0.3, 0.6], atol=0.1)


def test_what_has_no_gradient_is_named(subtests):
    for X, y, output, words in [
        (FIELD, FIELD, lambda field: field[:, 0, 0], "global parameters"),
        (P, FIELD, None, "output is None"),
        (P, FIELD[:, 0, :3, 0], 3, "output is 3, but the estimator predicts 3 scalars"),
        (P, FIELD[:, 0, 0, 0], lambda field: field[:, 0, 0], "output is a function"),
        (P, FIELD, lambda field: field[..., 0], r"output gives \(8, 20\)"),
        (P, FIELD, lambda field: 1.0, "output gives float"),
    ]:
        with subtests.test(output=output):
            model = small(max_iter=1).fit(X, y)
            with pytest.raises(FieldDataError, match=words):
                model.gradient(X, output)


@pytest.mark.parametrize("wrap", [LawRegressor, partial(ConformalRegressor, coverage=0.5, random_state=0)])
def test_estimators_in_others_take_tables_with_their_points(wrap):
    rng = np.random.default_rng(3)
    table, coords = rng.uniform(1, 2, (30, 2)), np.linspace(0, 1, 5)[:, None]
    fields = np.sin(table[:, :1, None] * (1 + coords)) * table[:, 1:, None]
    inner = wrap(PODRegressor(regressor="rbf")).fit(table, FieldSet(coords, fields)).estimator_
    for ask in [inner.predict, lambda X: inner.gradient(X, first)]:
        with pytest.raises(
            FieldDataError, match=r"fitted on points with 2 parameters; .* FieldSet\(coords, params=X\)"
        ):
            ask(table)
    found = inner.gradient(FieldSet(coords, params=table[:3]), lambda field: field[..., 0].sum(dim=1))
    for column in range(2):
        step = 1e-5 * np.eye(2)[column]
        high, low = (
            inner.predict(FieldSet(coords, params=table[:3] + move)).values.sum(axis=(1, 2)) for move in (step, -step)
        )
        np.testing.assert_allclose(found[:, column], (high - low) / 2e-5, rtol=1e-5)


def first(field):
    return field[:, 0, 0]


def test_nothing_changes_in_the_model():
    model = small().fit(P, FIELD)
    expected = model.predict(P)
    model.gradient(P, lambda field: field[:, 0, 0])
    assert all(parameter.grad is None for parameter in model.module_.parameters())
    assert torch.is_grad_enabled()
    np.testing.assert_array_equal(model.predict(P), expected)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_callers_may_have_switched_gradients_off(mode):
    model = small().fit(P, FIELD[:, 0, 0, 0])
    expected = model.gradient(P)
    with mode():
        np.testing.assert_array_equal(model.gradient(P), expected)


def test_an_output_without_derivative_is_named():
    model = small(max_iter=1).fit(P, FIELD)
    with pytest.raises(FieldDataError, match="output has no gradient"):
        model.gradient(P, lambda field: torch.ones(len(field)))
