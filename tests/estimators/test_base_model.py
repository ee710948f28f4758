"""Operators over a base model: what the whole is made of, and that it is not worse than the base."""

import re
import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import skop
from skop import (
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    MeanFieldRegressor,
    MNORegressor,
    PODRegressor,
)
from skop.data import Predictions, Targets
from skop.datasets import make_darcy
from skop.estimators.classical._graph import ClassicalGraph
from skop.estimators.fitting._base_model import BaseModel, standardized
from skop.estimators.fitting._checkpoint import FitCheckpoints
from skop.estimators.fitting._comparison import Comparison, Review, correction_shares
from skop.estimators.fitting._session import FitSession, _together
from skop.estimators.fitting._session_base import SessionBase
from skop.exceptions import FieldDataError, SkopWarning, held_warnings
from skop.metrics import relative_l2_error
from skop.networks import Outputs
from skop.parts import GNOT, Patches
from skop.surrogate._correction import CorrectionNetwork
from skop.training import DIRECT_TRAINING

SIZES = {"width": 8, "depth": 1, "max_iter": 2, "batch_size": 16, "random_state": 0}


def small(**options):
    return LaMORegressor(**(SIZES | options))


@pytest.fixture
def linear_map():
    """Fields that are linear in two parameters, on 12 scattered points, with two channels of different size."""
    rng = np.random.default_rng(0)
    params, coords = rng.normal(size=(40, 2)), rng.random((12, 2))
    waves = np.stack([np.sin(3 * coords), np.cos(2 * coords)])
    fields = np.einsum("np,cqp->nqc", params, waves) * [1.0, 1e3] + [2.0, -5e3]
    return FieldSet(coords, None, params=params), FieldSet(coords, fields)


def shares_of(model):
    return [np.asarray(part) for part in (model.module_.field_share, model.module_.scalar_share)]


def base_of(model, X):
    """Field of the base alone in double precision, in the units of y."""
    return model.scalers_.target.inverse_transform(torch.from_numpy(model.base_.predict(X).fields)).numpy()


def without_network(model):
    """The estimator, whose network can no longer be called."""
    model.module_.network = None
    return model


# ---------------------------------------------------------------------- the whole and its parts
def test_a_linear_map_is_found_by_the_base(linear_map, subtests):
    for base in ["linear", "pod", "auto", PODRegressor(regressor=Ridge(1e-8), n_components=2)]:
        with subtests.test(base=base):
            X, y = linear_map
            model = small(base=base, max_iter=1).fit(X[:30], y[:30])
            assert model.base_.error < 1e-4
            assert model.score(X[30:], y[30:]) > 1 - 1e-3


def test_without_a_share_the_whole_is_the_base(linear_map):
    X, y = linear_map
    model = small(base="pod", dtype="float64", max_iter=1).fit(X[:30], y[:30])
    model.module_.use_base()
    expected = base_of(model, X[30:])
    assert np.array_equal(np.asarray(without_network(model).predict(X[30:]).values), expected)


def test_the_correction_is_added_in_its_units():
    class Constant(torch.nn.Module):
        supports_queries = True

        def forward(self, fields, params, coords):
            assert fields.shape[-1] == 3
            assert params is None
            return Outputs(torch.full((*fields.shape[:-1], 2), 3.0))

    network = CorrectionNetwork(Constant(), 2, 0)
    network.set_sizes(np.array([0.5, 2.0]), None)
    network.set_shares(np.array([1.0, 0.25]), None)
    base = torch.arange(12.0).reshape(1, 6, 2)
    found = network(coords=None, fields=torch.zeros(1, 6, 1), params=None, base=base, base_scalars=None)
    torch.testing.assert_close(found.field, base + torch.tensor([1.5, 1.5]))
    assert network.supports_queries


@pytest.mark.exhaustive
def test_what_a_base_leaves_over_is_learnt():
    rng = np.random.default_rng(1)
    params, x = rng.uniform(-1, 1, (60, 1)), np.linspace(0, 1, 16)
    # A ridge regression finds the first part only.
    y = 5 * params * np.sin(x) + np.abs(params) * np.cos(3 * x)
    fields = FieldSet(x[:, None], y[..., None])
    options = {"max_iter": 40, "width": 16, "batch_size": "auto", "base": "linear"}
    X = FieldSet(x[:, None], None, params=params)
    model = small(**options).fit(X[:50], fields[:50])
    alone = PODRegressor(regressor="ridge").fit(X[:50], fields[:50])
    assert 1 - model.score(X[50:], fields[50:]) < 0.5 * (1 - alone.score(X[50:], fields[50:]))
    assert shares_of(model)[0] > 0.8


def test_the_network_sees_the_base():
    class Recorder(torch.nn.Module):
        def forward(self, **arguments):
            self.seen = arguments
            return Outputs(torch.zeros(1), torch.ones(2, 1))

    network = CorrectionNetwork(recorder := Recorder(), 1, 1)
    network.set_sizes(None, np.array([0.25]))
    fields, base, params, scalars, query_base = (
        torch.rand(shape) for shape in [(2, 3, 1)] * 2 + [(2, 1)] * 2 + [(2, 4, 1)]
    )
    parts = {"fields": fields, "params": params, "base": base, "base_scalars": scalars}
    found = network(**parts, query_coords=torch.zeros(4, 2), query_base=query_base)
    torch.testing.assert_close(recorder.seen["fields"], torch.cat([fields, base], dim=-1))
    torch.testing.assert_close(recorder.seen["params"], torch.cat([params, scalars], dim=-1))
    torch.testing.assert_close(recorder.seen["query_fields"], query_base)
    torch.testing.assert_close(found.field, query_base)
    torch.testing.assert_close(found.scalars, scalars + 0.25)


def test_drawn_points_keep_their_base(linear_map):
    X, y = linear_map
    model = small(base="linear", max_iter=1, dtype="float64").fit(X, y)
    batch = model.surrogate_.loader(
        X, subsample_points=5, base=lambda indices: Predictions(np.tile(X.coords, (len(indices), 1, 1)))
    ).gather(np.array([3, 1]))
    assert batch.base.shape == (2, 5, 2)
    torch.testing.assert_close(model.scalers_.coords.transform(batch.base), batch.coords)


def test_symmetries_turn_the_scalars_of_the_base():
    rng = np.random.default_rng(19)
    params = rng.normal(size=(20, 2)) + 3
    X = FieldSet(rng.random((6, 2)), None, params=params)
    symmetries = skop.SymmetryOptions(names=("flip_x",), param_vectors=[(0, 1)], scalar_vectors=[(0, 1)])
    model = small(base="linear", symmetries=symmetries, dtype="float64", max_iter=1).fit(X, 2 * params)
    moved = model.surrogate_.loader(X, symmetries=model.surrogate_.symmetrise.of(X), element=1).gather(np.arange(20))
    found = model.scalers_.scalars.inverse_transform(moved.base_scalars).numpy()
    np.testing.assert_allclose(found, 2 * params * [-1, 1], rtol=1e-5)


def test_a_correction_that_does_not_help_is_left_out(linear_map):
    X, y = linear_map
    noise = np.random.default_rng(2).normal(size=y.shape) * [0.3, 300]
    noisy = FieldSet(y.coords, np.asarray(y.values) + noise)
    model = small(base="linear", max_iter=8).fit(X, noisy)
    assert shares_of(model)[0].max() < 0.3


@pytest.mark.parametrize("seed", range(3))
def test_the_base_is_what_a_classical_model_alone_would_be(seed):
    """Errors count as `score` measures them, relative to y and not to its deviations from the mean."""
    rng = np.random.default_rng(seed)
    params, nodes = rng.random((25, 2)), np.linspace(0, 1, 16)[:, np.newaxis]  # of fewer a base tells another error
    waves = np.sin((2 + 4 * params[:, :1]) * (1 + nodes[:, 0])) * np.exp(-3 * params[:, 1:] * nodes[:, 0])
    fields = 300 + 40 * waves + 8 * rng.normal(size=(25, 1)) * params[:, :1]
    X, y = FieldSet(nodes, None, params=params), FieldSet(nodes, fields[..., np.newaxis])
    model, alone = small().fit(X, y), PODRegressor().fit(X, y)
    new = FieldSet(nodes, None, params=rng.random((50, 2)))
    np.testing.assert_allclose(base_of(model, new), alone.predict(new).values, rtol=1e-6)
    assert model.base_.estimator.leave_one_out_error_ == pytest.approx(alone.leave_one_out_error_, rel=1e-6)


def test_scalars_have_a_base_too():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    y = X @ [[1.0, 0.0], [2.0, 1.0], [0.0, 100.0]] + [0.0, 7.0]
    model = small(base="auto").fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) > 1 - 1e-4
    assert shares_of(model)[1].shape == (2,)


def test_a_rough_base_is_blended_with_a_network_that_learns_the_whole():
    rng = np.random.default_rng(15)
    X = rng.uniform(-1, 1, (60, 1))
    y = X + 0.2 * np.abs(X) * [1.0, -1.0]
    model = small(base="linear", max_iter=60, width=16, batch_size="auto").fit(X[:50], y[:50])
    assert not model.base_.leaves_rest
    errors = {}
    for name, shares in {"both": shares_of(model)[1], "network": np.ones(2), "base": np.zeros(2)}.items():
        model.module_.set_shares(None, shares)
        errors[name] = 1 - model.score(X[50:], y[50:])
    assert errors["both"] < 1.05 * min(errors["network"], errors["base"])


# ---------------------------------------------------------------------- auto
def test_auto_takes_the_mean_for_a_base_that_is_of_no_use():
    X, y = make_darcy(24, resolution=8, random_state=0)
    rng = np.random.default_rng(4)
    y = rng.permutation(y)
    assert has_mean(small(base="auto", max_iter=1).fit(X, y))


def has_mean(model):
    return model.base_.estimator.regressor == "mean"


def test_noise_is_not_learned_by_heart():
    rng = np.random.default_rng(1)
    X, y = rng.random((200, 5)), rng.normal(size=200)
    plain, model = (small(base=base, max_iter=100).fit(X[:60], y[:60]) for base in (None, "auto"))
    assert 1 - plain.score(X[60:], y[60:]) > 1.1
    np.testing.assert_allclose(model.predict(X), y[:60].mean(), rtol=1e-6)


def test_auto_keeps_a_base_that_is_rough_but_better_than_the_mean_in_one_output():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 4))
    y = np.stack([X[:, 0] + 1.2 * rng.normal(size=80), rng.normal(size=80)], axis=1)
    model = small(base="auto", max_iter=1).fit(X, y)
    assert 0.8 < model.base_.error < 1
    assert has_mean(small(base="auto", max_iter=1).fit(X, rng.permutation(y)))


def test_auto_keeps_a_base_of_targets_over_decades():
    X = np.exp(np.random.default_rng(6).uniform(-3, 3, (40, 3)))
    model = small(base="auto", max_iter=1).fit(X, X[:, 0] ** 2 / X[:, 1] / X[:, 2])
    assert model.base_.error < 1e-6


def test_what_a_base_explains_is_measured_about_the_mean():
    X, y = np.random.default_rng(16).normal(size=(2, 30, 5, 1))
    options = {"scaling": skop.ScalingOptions(targets=None), "max_iter": 1}
    assert has_mean(small(base="auto", **options).fit(X, y + 1e4))


def test_the_error_of_a_base_has_the_factor_for_the_search_for_length_scales():
    X = np.random.default_rng(0).random((30, 6))
    y = np.maximum(X[:, 0] + X[:, 1] - 1, 0) + np.abs(X[:, 2] - 0.3)
    alone = PODRegressor(regressor="gaussian_process").fit(X, y)
    assert alone.models_[0].handicap > 1.2
    base = small(base=PODRegressor(regressor="gaussian_process"), max_iter=1).fit(X, y).base_
    # One is relative to the variation about the mean, the other one to the norm.
    whole = alone.leave_one_out_error_ * np.linalg.norm(y)
    assert base.error * np.linalg.norm(y - y.mean()) == pytest.approx(whole, rel=0.01)


def test_copies_of_a_sample_do_not_tell_of_each_other():
    X, y = np.random.default_rng(17).normal(size=(2, 15, 3))
    X, y = np.concatenate([X, X]), np.concatenate([y, y])
    assert small(base="pod", max_iter=1).fit(X, y).base_.error > 0.8
    noise = np.random.default_rng(18).normal(size=y.shape)
    single = small(base="pod", max_iter=1).fit(X[:15], (y + noise)[:15] / 2 + (y + noise)[15:] / 2)
    double = small(base="pod", max_iter=1).fit(X, y + noise)
    scales = double.scalers_.scalars, single.scalers_.scalars
    found, expected = (
        scale.inverse_transform(torch.from_numpy(model.base_.estimator.predict(X))).numpy()
        for scale, model in zip(scales, (double, single), strict=True)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(FieldDataError, match="4 of the 16 samples have different inputs"):
        small(base="pod").fit(np.tile(X[:4], (4, 1)), np.tile(y[:4], (4, 1)))


@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_constant_channels_do_not_count(linear_map, constant):
    X, y = linear_map
    values = np.asarray(y.values)
    y = FieldSet(y.coords, np.concatenate([values, np.full((*values.shape[:2], 1), constant)], axis=-1))
    model = small(base="auto", max_iter=1).fit(X, y)
    assert model.base_.error < 1e-6
    np.testing.assert_allclose(np.asarray(model.predict(X).values)[..., 2], constant, atol=1e-6)


def test_other_estimators_are_no_base(linear_map):
    X, y = linear_map
    with pytest.raises(FieldDataError, match=r"base=PODRegressor\(regressor=Ridge"):
        small(base=Ridge()).fit(X, y)


@pytest.mark.parametrize("kind", ["ragged", "few", "own"])
def test_samples_that_can_have_no_base(kind):
    rng = np.random.default_rng(5)
    sizes = [5, 7] * 6 if kind == "ragged" else [6] * (4 if kind == "few" else 12)
    points = [rng.random((size, 2)) for size in sizes]
    X = [(own, own.sum(axis=1, keepdims=True)) for own in points]
    y = [own[:, :1] for own in points]
    if kind == "own":
        y = FieldSet(np.stack([own[:3] for own in points]), rng.random((12, 3, 1)))
    model = small(base="auto", max_iter=1).fit(X, y)
    assert model.base_ is None
    words = {"ragged": "differ in their number", "few": "4 samples", "own": "each sample's own"}[kind]
    with pytest.raises(FieldDataError, match=words):
        small(base="pod").fit(X, y)


# ---------------------------------------------------------------------- like everything else
@pytest.mark.parametrize("base", ["pod", LaMORegressor(width=8, depth=1, max_iter=1, random_state=1)])
def test_saved_cloned_and_loaded(linear_map, base, tmp_path):
    X, y = (part[:14] for part in linear_map)
    model = small(base=base, max_iter=1).fit(X, y)
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    assert np.array_equal(np.asarray(loaded.predict(X).values), np.asarray(model.predict(X).values))
    again = clone(loaded).fit(X, y)
    assert np.array_equal(np.asarray(again.predict(X).values), np.asarray(model.predict(X).values))


def test_a_warm_start_goes_on_with_the_whole_correction(linear_map, monkeypatch):
    X, y = linear_map
    model = small(base="linear", warm_start=True, learning_rate_init=1e-12).fit(X, y)
    before = model.predict(X)
    model.module_.set_shares(np.zeros(2), None)
    model.fit(X, y)
    np.testing.assert_allclose(np.asarray(model.predict(X).values), np.asarray(before.values), rtol=1e-4)
    with pytest.raises(ValueError, match="base from 'linear' to 'pod'"):
        model.set_params(base="pod").fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(SessionBase, "choose_share", lambda self, history: None)
        model.set_params(base="linear").fit(X, y)
    assert (shares_of(model)[0] == 1).all()
    model = small(base="auto", warm_start=True).fit(X, y)
    expected = np.asarray(model.predict(X).values)
    with pytest.raises(FieldDataError, match=r"warm_start goes on with a network over a base.*there are 5 samples"):
        model.fit(X[:5], y[:5])
    assert np.array_equal(np.asarray(model.predict(X).values), expected)


def test_other_points_get_the_interpolated_base(linear_map):
    X, y = linear_map
    model = small(base="pod", dtype="float64", max_iter=1).fit(X, y)
    model.module_.set_shares(np.zeros(2), None)
    inner = np.array([[0.5, 0.5], *X.coords[:2]])
    found, whole = np.asarray(model.predict(X, coords=inner).values), np.asarray(model.predict(X).values)
    np.testing.assert_allclose(found[:, 1:], whole[:, :2], rtol=1e-10)
    low, high = whole.min(axis=1), whole.max(axis=1)
    assert ((found[:, 0] >= low) & (found[:, 0] <= high)).all()


def test_targets_on_other_points_have_a_base():
    rng = np.random.default_rng(12)
    x, inner = rng.permutation(np.linspace(0, 1, 12))[:, None], rng.permutation(np.linspace(0.1, 0.9, 7))[:, None]
    sizes = rng.normal(size=(30, 1, 1))
    X, y = FieldSet(x, sizes * np.sin(3 * x)), FieldSet(inner, 5 + sizes * np.cos(3 * inner))
    model = small(base="linear", geometry="points").fit(X[:20], y[:20])
    assert model.base_.error < 1e-3
    assert np.asarray(model.predict(X[20:]).values) == pytest.approx(np.asarray(y[20:].values), abs=1e-2)
    assert model.score(X[20:], y[20:]) > 1 - 1e-3
    # Between the points of y the base is interpolated.
    between = np.asarray(model.predict(X[20:], coords=[[0.5], [0.55]]).values)
    assert between == pytest.approx(np.asarray(5 + sizes[20:] * np.cos([[1.5], [1.65]])), abs=5e-2)


def test_a_finer_grid_gets_the_base_of_the_training_grid():
    def sines(n_points):
        x = np.linspace(0, 1, n_points)
        return (np.random.default_rng(7).normal(size=(20, 1)) * np.sin(3 * x))[..., None]

    model = small(base="linear", dtype="float64", patches=Patches(size=1)).fit(sines(9), 2 * sines(9))
    model.module_.set_shares(np.zeros(1), None)
    found = without_network(model).predict(sines(17))
    np.testing.assert_allclose(found, 2 * sines(17), atol=1e-3)
    assert np.array_equal(found[:, ::2], model.predict(sines(9)))


def test_an_even_refinement_gets_the_base_of_the_training_grid():
    # Coarse grids within such a grid end before its last points.
    def sines(n_points, high=1.0):
        x = np.linspace(0, high, n_points)
        fields = (np.random.default_rng(7).normal(size=(20, 1)) * np.sin(3 * x))[..., None]
        return tuple(FieldSet(x[:, None], part, grid_shape=(n_points,)) for part in (fields, 2 * fields))

    model = small(base="linear", dtype="float64", patches=Patches(size=1)).fit(*sines(9))
    assert model.score(*sines(18)) > 1 - 1e-3
    with pytest.raises(FieldDataError, match=r"run from \(0\) to \(0.5\), and those of the fit from \(0\) to \(1\)"):
        model.predict(sines(5, 0.5)[0])


def test_nodes_in_another_order_are_refused():
    rng = np.random.default_rng(15)
    sizes, points = rng.random((24, 1, 1)), rng.random((200, 2))
    coords = points + 0.3 * sizes * np.sin(3 * points)
    X, y = FieldSet(coords, None), FieldSet(coords, np.cos(coords) * (1 + sizes))
    model = small(base="auto").fit(X, y)
    assert model.base_.error < 0.01
    # A shape far beyond those of the fit, moved and magnified, is no other order.
    assert model.predict(FieldSet(7 + 3 * (points + 0.6 * np.sin(3 * points))[None], None)).shape == (1, 200, 2)
    order = rng.permutation(200)
    for part in (coords[:, order], coords[:1, order], coords[:, :7]):
        with pytest.raises(FieldDataError, match=r"in another order|samples of 200 nodes.*has samples of 7;"):
            model.predict(FieldSet(part, None))
    with pytest.raises(FieldDataError, match="in another order"):
        model.base_.estimator.predict(FieldSet(coords[:, order], None))
    # Without nodes that correspond there is no base.
    coords[1] = coords[1, order]
    assert small(base="auto").fit(FieldSet(coords, None), y).base_ is None
    with pytest.raises(FieldDataError, match="do not correspond"):
        small(base="pod").fit(FieldSet(coords, None), y)


def noisy_nodes(n_points=30):
    """Samples whose own points follow a parameter and noise, and fields that follow another one too."""
    rng = np.random.default_rng(16)
    params, points = rng.random((24, 2)), rng.random((n_points, 2))
    coords = points + 0.1 * params[:, None, :1] * np.sin(3 * points) + 0.01 * rng.normal(size=(24, n_points, 2))
    fields = np.cos(3 * points[:, :1] + params[:, None, :1]) * (1 + params[:, None, 1:])
    return FieldSet(coords, None, params=params), FieldSet(coords, fields)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_parameters_alone_predict_samples_with_noisy_nodes(share, tmp_path):
    X, y = noisy_nodes()
    model = small(base="auto", dtype="float64", warm_start=True).fit(X, y)
    # The reference is a model that is not given the points.
    expected = PODRegressor().fit(X.params, FieldSet(X.coords[0], y.values)).predict(X.params)
    np.testing.assert_allclose(base_of(model, X), expected.values, atol=1e-6)
    model.module_.set_shares(np.full(1, share), None)
    found = np.asarray(model.predict(X).values)
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(skop.load(tmp_path / "model.skop").predict(X).values, found)
    assert np.asarray(model.predict(X, coords=[[0.4, 0.5], [0.6, 0.5]]).values).shape == (24, 2, 1)
    for part in (X.coords[:1, :7], X.coords[:1, ::-1]):
        with pytest.raises(FieldDataError, match=r"samples of 30 nodes.*has samples of 7;|in another order"):
            model.predict(FieldSet(part, None, params=X.params[:1]))

    def total(params):
        return np.asarray(model.predict(FieldSet(X.coords[:3], None, params=params)).values)[..., 0].sum(axis=1)

    differences = [total(X.params[:3] + step) - total(X.params[:3] - step) for step in 1e-3 * np.eye(2)]
    gradient = model.gradient(X[:3], lambda field: field[..., 0].sum(dim=1))
    np.testing.assert_allclose(gradient, np.stack(differences, axis=1) / 2e-3, rtol=1e-4)
    graph = ClassicalGraph(model.base_.estimator, model.base_.points, X, torch.float64)
    with torch.no_grad():
        field, _ = graph(coords=torch.from_numpy(X.coords), params=torch.from_numpy(X.params))
    np.testing.assert_allclose(field.numpy(), model.base_.predict(X).fields, rtol=1e-6, atol=1e-6)
    assert np.isfinite(model.fit(X, y).score(X, y))


@pytest.mark.parametrize("seed", [4, 6])
def test_where_points_tell_no_more_than_the_parameters_these_are_taken(seed):
    """Points that are functions of the parameters; with them, errors of unseen samples are smaller by rounding."""
    rng = np.random.default_rng(seed)
    params, nodes = rng.uniform(-1, 1, (30, 2)), rng.random((20, 2))
    coords = nodes + 0.2 * params[:, None] * np.sin(3 * nodes)
    fields = np.exp(-4 * ((nodes - 0.5 - 0.3 * params[:, None]) ** 2).sum(axis=-1, keepdims=True))
    model = small(base="pod").fit(FieldSet(coords, None, params=params), FieldSet(coords, fields))
    assert model.base_.nodes is not None


@pytest.mark.parametrize("learns_scalars", [False, True])
def test_a_network_for_the_whole_predicts_other_meshes_alone(learns_scalars):
    rng = np.random.default_rng(17)
    X, y = noisy_nodes()
    rough = y.values + 0.5 * rng.normal(size=(24, 1, 1)) * y.values
    y = y.with_values(rough).with_params(rough[:, 0] if learns_scalars else None)
    model = small(base="pod", dtype="float64").fit(X, y)
    assert not model.module_.learns_rest
    model.module_.set_shares(np.full(1, 0.5), np.full(1, 0.5) if learns_scalars else None)
    order = rng.permutation(30)
    meshes = [X.coords[0], X.coords[0, order], X.coords[2, :7]]
    given = FieldSet(meshes, None, params=X.params[:3])
    with pytest.warns(skop.exceptions.SkopWarning, match="network alone.*a PODRegressor"):
        found = model.predict(given)
    # Each sample is predicted as it is without the others.
    with pytest.warns(skop.exceptions.SkopWarning, match="network alone"):
        moved = model.predict(FieldSet(X.coords[:1, order], None, params=X.params[1:2]))
    known = model.predict(X[:1])
    fields = np.split(np.asarray(found.values), [30, 60])
    np.testing.assert_allclose(fields[0], known.values[0], rtol=1e-9)
    np.testing.assert_allclose(fields[1], moved.values[0], rtol=1e-9)
    if learns_scalars:
        np.testing.assert_allclose(found.params[:2], np.concatenate([known.params, moved.params]), rtol=1e-9)
    with pytest.warns(skop.exceptions.SkopWarning, match="network alone"):
        at = model.predict(given, coords=[[0.5, 0.5]])
    assert np.isfinite(np.asarray(at.values)).all()
    model.module_.use_whole()
    model.base_ = None
    model.module_ = model.module_.network
    alone = np.split(np.asarray(model.predict(given).values), [30, 60])
    for part, own in zip(fields[1:], alone[1:], strict=True):
        np.testing.assert_allclose(part, own, rtol=1e-9)
    assert not np.allclose(fields[0], alone[0])


@pytest.mark.parametrize("n_points", [3, 10, 30])
def test_random_points_do_not_correspond(n_points):
    rng = np.random.default_rng(n_points)
    coords, one = rng.random((20, n_points, 2)), rng.random((n_points, 2))
    constant = np.ones((20, n_points, 1))
    assert small().fit(FieldSet(coords, None), constant).base_ is None
    bent = one + 0.1 * rng.random((20, 1, 1)) * np.sin(3 * one[:, ::-1])
    assert small().fit(FieldSet(bent, None), constant).base_ is not None


def test_a_model_file_holds_the_numbering_of_the_nodes(tmp_path):
    X, y = noisy_nodes()
    model = PODRegressor().fit(X, y)
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    np.testing.assert_array_equal(loaded.predict(X).values, model.predict(X).values)
    with pytest.raises(FieldDataError, match="in another order"):
        loaded.predict(FieldSet(X.coords[:1, ::-1], None, params=X.params[:1]))


def test_symmetries_turn_the_base_with_its_sample():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(24, 6, 6, 2))
    y = np.stack([3 * X[..., 0], -2 * X[..., 1]], axis=-1)
    symmetries = skop.SymmetryOptions(names=("flip_x",), input_vectors=[(0, 1)], target_vectors=[(0, 1)])
    model = small(base="linear", symmetries=symmetries, dtype="float64").fit(X, y)
    inputs, _ = model._read_inputs(X)
    moving = model.surrogate_.symmetrise.of(inputs)
    plain, moved = (
        model.surrogate_.loader(inputs, symmetries=moving, element=number).gather(np.arange(3)) for number in (0, 1)
    )
    before, after = (
        model.scalers_.target.inverse_transform(batch.base).reshape(3, 6, 6, 2) for batch in (plain, moved)
    )
    expected = model.scalers_.target.inverse_transform(torch.from_numpy(model.base_.predict(inputs[:3]).fields))
    torch.testing.assert_close(before, expected.reshape(3, 6, 6, 2))
    torch.testing.assert_close(after, before.flip(1) * torch.tensor([-1.0, 1.0]))
    with pytest.raises(FieldDataError, match="cannot be averaged over symmetries that the fit of the base did not"):
        model.set_params(symmetries=clone(symmetries).set_params(average_predictions=True)).predict(X)


def test_a_base_is_averaged_over_symmetries_with_its_network():
    rng = np.random.default_rng(21)
    loads, half = rng.uniform(0.5, 1, (30, 2)), rng.random((8, 2)) * [0.5, 1]
    points = np.concatenate([half, half * [-1, 1] + [1, 0]])
    bending = np.stack([points[:, 0] * (1 - points[:, 0]), np.cos(points[:, 1])], axis=1)
    truth = bending * (loads * (1 + 0.3 * loads[:, 1:] ** 2))[:, None]
    X, y = FieldSet(points, None, params=loads), FieldSet(points, truth)
    options = {"param_vectors": [(0, 1)], "target_vectors": [(0, 1)], "average_predictions": True}
    symmetries = skop.SymmetryOptions(names=("flip_x",), domain=[(0, 1), (0, 1)], **options)
    # The mirrored loads are far from those of the fit, but not from their images.
    new = FieldSet(points, None, params=loads[:5] * [-1, 1])
    model = small(base="pod", symmetries=symmetries).fit(X, y)
    assert model.base_.images is not None
    np.testing.assert_allclose(model.predict(new).values, np.roll(truth[:5], 8, axis=1) * [-1, 1], atol=1e-3)
    model = small(base="linear", symmetries=symmetries, dtype="float64").fit(X, y)
    for shares in (np.zeros(2), np.array([0.7, 0.0]), np.ones(2)):
        model.module_.set_shares(shares, None)
        found, mirrored = (np.asarray(model.predict(part).values) for part in (X[:5], new))
        np.testing.assert_allclose(np.roll(found, 8, axis=1) * [-1, 1], mirrored, atol=1e-12)
        step, output = np.array([1e-6, 0]), lambda field: field[:, 3, 0]
        ends = [model.predict(X.with_params(loads + sign * step)).values[:, 3, 0] for sign in (1, -1)]
        np.testing.assert_allclose(model.gradient(X, output)[:, 0], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)
    # The network has a part that is seen: the test can fail.
    model.module_.set_shares(np.zeros(2), None)
    assert np.abs(found - model.predict(X[:5]).values).max() > 1e-4
    # Of symmetries that are declared after the fit the base has seen no images.
    pairs = FieldSet(np.concatenate([points, points * [1, -1] + [0, 1]]), None, params=loads)
    bent = FieldSet(pairs.coords, np.concatenate([truth, truth * [1, -1]], axis=1))
    model = small(base="linear", symmetries=symmetries).fit(pairs, bent)
    model.set_params(symmetries=clone(symmetries).set_params(names=("flip_x", "flip_y")))
    with pytest.raises(FieldDataError, match="that the fit of the base did not average over"):
        model.predict(pairs)


@pytest.mark.parametrize("count", [9, 10])
def test_too_few_samples_for_a_base_are_named(count):
    X = np.random.default_rng(3).random((count, 2))
    with held_warnings() as held:
        model = small(base="auto", max_iter=1).fit(X, X.sum(axis=1))
        small(base=None, max_iter=1).fit(X, X.sum(axis=1))
    words = [text for text, _ in held if "no base model, since there are 9 samples" in text]
    assert (model.base_ is None) == bool(words) == (count < 10)
    assert len(words) == (count < 10)


def test_a_sample_with_the_nodes_of_the_others_in_another_order_is_named():
    rng = np.random.default_rng(5)
    loads, points = rng.random((12, 1)), rng.random((30, 2))
    same, others = np.stack([points] * 12), rng.random((12, 30, 2))
    swapped = same.copy()
    swapped[5, [3, 20]] = swapped[5, [20, 3]]

    def said(coords, base="auto"):
        """Warnings of a fit without a base; None of one with a base."""
        X = FieldSet(coords, None, params=loads)
        with held_warnings() as held:
            model = small(base=base, max_iter=1).fit(X, FieldSet(coords, loads[:, None] * coords[..., :1] + 1))
        return [text for text, _ in held if "no base" in text] if model.base_ is None else None

    assert said(same) is None
    (words,) = said(swapped)
    assert "sample 5 has the points of sample 0 in another order. Sort the points and values of all samples" in words
    # Meshes that differ have no order in common, and base=None says that there is to be none.
    assert said(others) == said(swapped, None) == []


@pytest.mark.parametrize("kind", ["fields", "groups", "scalars"])
def test_samples_that_contradict_averaged_symmetries_are_named(kind):
    rng = np.random.default_rng(23)
    loads, half = rng.normal(size=(24, 2)), rng.random((8, 2)) * [0.5, 1]
    points = np.concatenate([half, half * [-1, 1] + [1, 0]])
    along, across = loads.T * [[1], [0.3]] + [[0], [1]]
    force = np.stack([along, across], axis=1) + rng.normal(0, 0.01, (24, 2))
    # A part along x that stays while the load is mirrored.
    wrong = np.array([0.1, 0])
    parts = [("flip_x",), [(0, 1), (0, 1)]]
    options = dict(zip(("names", "domain"), parts, strict=True)) | {"param_vectors": [(0, 1)]}
    vectors = {"scalar_vectors" if kind == "scalars" else "target_vectors": [(0, 1)]}
    symmetries = skop.SymmetryOptions(**options, **vectors, average_predictions=True)
    groups = np.repeat(np.arange(12), 2) if kind == "groups" else None
    X = FieldSet(points, np.ones((24, 16, 1)), params=loads)

    def said(numbers):
        """Warnings of a fit to vectors, or to fields of them."""
        y = numbers if kind == "scalars" else FieldSet(points, numbers[:, None] * np.ones((1, 16, 1)))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            small(base="linear", max_iter=1, symmetries=symmetries).fit(X, y, groups=groups)
        return [str(one.message) for one in found if "samples contradict the symmetries" in str(one.message)]

    assert not said(force)
    assert not said(force + rng.normal(size=force.shape))
    (words,) = said(force + wrong)
    assert float(re.search(r"the base has (\S+) times the error", words)[1]) > 2


def test_a_base_that_cannot_be_averaged_over_symmetries_is_named():
    rng = np.random.default_rng(22)
    X = FieldSet(rng.random((9, 2)), None, params=rng.random((20, 1)))
    y = FieldSet(X.coords, X.params[:, None] * X.coords)
    symmetries = skop.SymmetryOptions(names=("flip_x",), average_predictions=True)
    with pytest.warns(SkopWarning, match="no base model, since predictions are averaged.*average_predictions=False"):
        assert small(base="auto", symmetries=symmetries).fit(X, y).base_ is None
    with pytest.raises(FieldDataError, match="points that these map onto each other"):
        small(base="linear", symmetries=symmetries).fit(X, y)


@pytest.mark.parametrize("kind", ["scalars", "field", "points"])
def test_gradients_flow_through_the_base(kind):
    rng = np.random.default_rng(13)
    X = rng.random((30, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    output = None
    if kind != "scalars":
        coords = rng.random((9, 2))
        y = FieldSet(coords, (y[:, None] + coords[:, 0])[..., None])
        X = X if kind == "field" else FieldSet(coords, None, params=X)
        output = lambda field: (field[..., 0] ** 2).sum(dim=1)  # noqa: E731
    model = small(base="pod", dtype="float64", max_iter=1).fit(X, y)
    model.module_.set_shares(*(np.ones(1) if part.size else None for part in shares_of(model)))
    table = X if kind != "points" else X.params

    def value(rows):
        found = model.predict(rows if kind != "points" else FieldSet(X.coords, None, params=rows))
        return found if output is None else (np.asarray(found.values)[..., 0] ** 2).sum(axis=1)

    found = model.gradient(X[:4], output)
    steps = 1e-4 * np.eye(2)
    expected = [(value(table[:4] + step) - value(table[:4] - step)) / 2e-4 for step in steps]
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-4, atol=1e-3)
    model.module_.use_base()
    found = without_network(model).gradient(X[:4], output)
    expected = [(value(table[:4] + step) - value(table[:4] - step)) / 2e-4 for step in steps]
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("base", ["linear", PODRegressor(regressor="mean")])
def test_mixed_precision_keeps_the_precision_of_the_base(base, linear_map):
    X, y = linear_map
    model = small(base=base, training=skop.TrainingOptions(autocast="bfloat16")).fit(X, y)
    assert model.base_.leaves_rest == (base == "linear")
    assert np.isfinite(np.asarray(model.predict(X).values)).all()


def test_early_stopping_measures_the_whole(linear_map):
    X, y = linear_map
    model = small(base="linear", early_stopping=True).fit(X, y)
    assert model.validation_scores_[0] > 1 - 1e-3


def test_continued_fits_hold_out_the_same_samples(linear_map, monkeypatch):
    X, y = linear_map
    held = []
    model = small(base="linear", warm_start=True, max_iter=1)
    monkeypatch.setattr(
        SessionBase,
        "choose_share",
        lambda self, history: held.append(self.session.data.inputs[self.session.held].params),
    )
    for part in (slice(0, 30), slice(29, None, -1), slice(0, 40)):
        model.fit(X[part], y[part])
    assert np.array_equal(np.sort(held[0], axis=0), np.sort(held[1], axis=0))
    # Of more samples no other one of the first is held out.
    known = (held[2][:, None] == np.asarray(X.params)[:30]).all(axis=-1).any(axis=1)
    assert (held[2][known][:, None] == held[0]).all(axis=-1).any(axis=1).all()


@pytest.mark.parametrize("early_stopping", [False, True])
def test_groups_are_held_out_as_a_whole(linear_map, early_stopping):
    X, y = linear_map
    labels, model = np.array([*"ab"] * 20)[np.random.default_rng(1).permutation(40)], small(base="linear")
    labels = np.char.add(labels, (np.arange(40) % 10).astype(str))
    session = FitSession(
        model.set_params(early_stopping=early_stopping), model._read(X, y), None, DIRECT_TRAINING, labels=labels
    )
    session.prepare()
    parts = [session.trained_on, session.held] if session.valid is None else [session.trained_on, session.valid]
    assert set(labels[parts[0]]).isdisjoint(labels[parts[1]])
    assert len(np.unique(labels[session.held])) == 5
    assert sorted(np.concatenate([session.trained_on, session.held])) == list(range(40))


def test_large_groups_are_held_out_no_more_often_than_small_ones():
    n_held = {30: 0, 50: 0}
    for seed in range(60):
        for size in n_held:
            labels = np.append(np.zeros(size, int), 1 + np.repeat(np.arange(19), 2))
            X = np.random.default_rng(seed).random((len(labels), 3))
            numbers = _together(FieldSet(np.zeros((1, 1)), params=X), np.arange(len(labels)), labels)
            assert np.array_equal(np.unique(numbers), np.arange(20))
            n_held[size] += numbers[0] < 5
    # A quarter of the groups is held out, but not one of most samples.
    assert 5 <= n_held[30] <= 28 > n_held[50] == 0


@pytest.mark.parametrize("base", ["auto", "pod"])
def test_samples_that_are_nearly_the_same_leave_none_to_train_on(base):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.random((4, 3)), 3, axis=0) + 1e-9 * rng.random((12, 3))
    if base == "auto":
        assert small(base=base).fit(X, np.sin(X.sum(axis=1))).base_ is None
    else:
        with pytest.raises(FieldDataError, match="4 of the 12 samples have different inputs"):
            small(base=base).fit(X, np.sin(X.sum(axis=1)))


@pytest.mark.parametrize("early_stopping", [False, True])
def test_groups_of_one_sample_change_nothing(linear_map, early_stopping):
    X, y = linear_map
    model = small(early_stopping=early_stopping, max_iter=8)
    alone, grouped = (clone(model).fit(X, y, groups=groups) for groups in (None, np.arange(40)))
    assert np.array_equal(alone.predict(X).values, grouped.predict(X).values)


def test_a_base_of_groups_is_judged_by_new_ones():
    rng = np.random.default_rng(0)
    # Each run has a curve of its own, of which the others tell nothing.
    labels, time = np.repeat(np.arange(20), 5), np.tile(np.linspace(0, 1, 5), 20)
    X = np.column_stack([rng.random((20, 2))[labels], time])
    y = np.sin(3 * time + rng.uniform(0, 6, 20)[labels])
    with pytest.warns(UserWarning, match="rows are 20 groups with the same"):
        alone = small(base="pod").fit(X, y)
    grouped = small(base="pod").fit(X, y, groups=labels)
    assert alone.base_.error < 0.3 < 0.8 < grouped.base_.error
    # The names of the groups do not matter, nor does their order.
    renamed = small(base="pod").fit(X, y, groups=rng.permutation(20)[labels].astype(str))
    assert np.array_equal(grouped.predict(X), renamed.predict(X))
    words = "the samples are of 5 different groups, and it needs at least 10"
    with pytest.raises(FieldDataError, match=words):
        small(base="pod").fit(X, y, groups=labels // 4)
    # Groups with a sample in common are one.
    rows, ten = np.append(np.arange(50), 0), np.append(labels[:50], 9)
    small(base="pod").fit(X[:50], y[:50], groups=labels[:50])
    with pytest.raises(FieldDataError, match="the samples are of 9 different groups"):
        small(base="pod").fit(X[rows], y[rows], groups=ten)


def test_a_group_is_one_sample_of_the_standard_error_of_a_share():
    rng = np.random.default_rng(12)
    base, step, noise = rng.normal(size=(3, 20, 6, 1))
    truth, groups = base + 0.5 * step + noise, np.repeat(np.arange(20), 3)
    points = np.linspace(0, 1, 6)[:, np.newaxis]

    def found(rows, groups=None):
        corrected, true = (part[rows] for part in (base + step, truth))
        fields = [Targets(FieldSet(points, part), part[:, 0]) for part in (corrected, true)]
        unseen = Predictions(base[rows], base[rows][:, 0])
        return correction_shares(unseen, *fields, np.ones(len(rows)), np.ones(len(rows)), groups=groups)

    single, copied = found(np.arange(20)), found(groups, groups)
    for one, other, counted in zip(single, copied, found(groups), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
        assert counted > one


@pytest.mark.parametrize("early_stopping", [False, True])
def test_samples_that_decide_the_share_are_not_trained_on(linear_map, early_stopping, monkeypatch):
    X, y = linear_map
    found = {}
    monkeypatch.setattr(SessionBase, "choose_share", lambda self, history: found.update(session=self.session))
    weight = np.arange(12.0)
    small(base="linear", early_stopping=early_stopping, max_iter=1).fit(X[:12], y[:12], sample_weight=weight)
    session = found["session"]
    assert len(session.held) == 5
    assert len(session.loader) == 6
    trained, held = (np.asarray(part.params) for part in (session.loader.inputs, session.data.inputs[session.held]))
    assert not (trained[:, None] == held).all(axis=-1).any()
    assert np.array_equal(session.weight, weight)
    # Predictions of unseen samples are in the places of these.
    expected = standardized(session.data.targets, session.loader.scalers).field.values
    assert not session.base.unseen.fields[0].any()
    np.testing.assert_allclose(session.base.unseen.fields[1:], expected[1:], atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"), [(MNORegressor, {"host": GNOT()}), (skop.AMORegressor, {}), (skop.TransolverRegressor, {})]
)
def test_other_operators_have_a_base_too(kind, options, linear_map):
    X, y = linear_map
    model = kind(width=8, depth=1, max_iter=1, random_state=0, base="pod", **options).fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) > 1 - 1e-3


def test_networks_on_grids_have_a_base_too():
    X = np.random.default_rng(14).normal(size=(24, 4, 4, 1))
    for kind in (skop.GeoMaNORegressor, skop.UNetRegressor):
        model = kind(width=8, max_iter=1, random_state=0, base="linear").fit(X, 3 * X)
        assert model.score(X, 3 * X) > 1 - 1e-3


def test_sensors_have_no_base(linear_map):
    X, y = linear_map
    with pytest.raises(FieldDataError, match="at its sensors only"):
        skop.DeepONetRegressor(base="pod").fit(X, y)


# ---------------------------------------------------------------------- reviews
def test_a_training_ends_where_the_base_is_exact(linear_map, tmp_path):
    X, y = linear_map
    model = small(base="pod", max_iter=16, warm_start=True).fit(X[:30], y[:30])
    assert (model.stopped_, model.n_iter_) == ("base", 4)
    found = np.asarray(model.predict(X[30:]).values)
    assert np.array_equal(found, base_of(model, X[30:]))
    again = small(base="pod", max_iter=16).fit(X[:30], y[:30])
    assert (again.stopped_, again.n_iter_, again.loss_curve_) == ("base", 4, model.loss_curve_)
    model.save(tmp_path / "model.skop")
    loaded = without_network(skop.load(tmp_path / "model.skop"))
    assert np.array_equal(np.asarray(loaded.predict(X[30:]).values), found)
    # A warm start gives the network another chance.
    model.fit(X[:30], y[:30])
    assert (model.stopped_, model.n_iter_) == ("base", 8)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_base_that_the_network_leaves_behind_is_dropped(early_stopping, tmp_path, monkeypatch):
    rng = np.random.default_rng(20)
    X = rng.uniform(-1, 1, (60, 1))
    # The best linear map is a constant.
    y = X[:, 0] ** 2
    goes_on = []
    original = FitSession.training_loader

    def recorded(self, train):
        goes_on.append((original(self, train), self))
        return goes_on[-1][0]

    monkeypatch.setattr(FitSession, "training_loader", recorded)
    options = {"base": "linear", "max_iter": 40, "width": 16, "batch_size": 8}
    options |= {"early_stopping": early_stopping, "warm_start": True, "training": skop.TrainingOptions(drop_path=0.0)}
    weight = np.repeat([0.0, 1.0], [5, 55])
    model = small(**options).fit(X, y, sample_weight=weight)
    # In the second half of the training at the latest, the samples that judged the base are trained on.
    loader, session = goes_on[-1]
    kept = np.arange(5, 60) if session.valid is None else np.setdiff1d(np.arange(5, 60), session.valid)
    assert np.array_equal(loader.inputs.params, session.data.inputs.params[kept])
    assert model.base_ is None
    assert not isinstance(model.module_, CorrectionNetwork)
    assert model.score(X, y) > 0.8
    model.save(tmp_path / "model.skop")
    assert np.array_equal(skop.load(tmp_path / "model.skop").predict(X), model.predict(X))
    # A warm start goes on without a base, from the state at the end.
    assert model._earlier.end.moments.keys() == {name for name, _ in model.module_.named_parameters()}
    model.set_params(learning_rate_init=1e-12, max_iter=1).fit(X, y)
    assert model.base_ is None
    assert model.loss_curve_[-1] < 2 * model.loss_curve_[-2] < 0.1 * model.loss_curve_[0]


def compared(shares, ratio, blended=1.0):
    return Comparison(np.asarray(shares), None, np.asarray(ratio), np.full(len(ratio), blended))


def test_two_reviews_in_which_the_network_lowers_no_error_decide_for_the_base():
    nothing, some = compared([0.0, 0.1], [1.0, 1.2], 0.99), compared([0.0, 0.1], [1.0, 0.9], 0.97)
    for sequence, winners in [
        ((nothing, nothing, nothing), [None, "base", "base"]),
        ((nothing, some, nothing), [None, None, None]),
        ((some, nothing, nothing), [None, None, "base"]),
    ]:
        review, parts = Review(learns_rest=True), (1 / 8, 1 / 4, 1 / 2)
        assert [review.winner(part, now) for part, now in zip(parts, sequence, strict=True)] == winners
    assert [Review(True, is_line).winner(1 / 8, some) for is_line in (True, False)] == ["base", None]
    # On a line the first epoch decides.
    assert [Review(True, is_line).is_due(0.01, 10) for is_line in (True, False)] == [True, False]
    # Before an eighth a network that gains anything beyond chance goes on, and one of few steps is not looked at.
    none, little = compared([0.0, 0.0], [1.0, 1.2], 1.0), compared([0.0, 0.1], [1.0, 1.0], 0.995)
    for early, decided in [((none, none), "base"), ((none, little), None), ((little, none), None)]:
        review = Review(learns_rest=True)
        assert [review.winner(part, now) for part, now in zip((1 / 32, 1 / 16), early, strict=True)] == [None, decided]
    assert [Review(True).is_due(1 / 16, steps) for steps in (99, 100)] == [False, True]
    assert [Review(False).is_due(part, 1000) for part in (1 / 9, 1 / 8)] == [False, True]
    # A whole training in one or two epochs has one review.
    review = Review(learns_rest=True)
    assert review.is_due(0.5, 1)
    assert review.winner(0.5, nothing) is None
    assert not review.is_due(0.9, 1)


def test_a_network_for_the_whole_is_left_time_to_catch_up():
    def winners(ratios, shares=(0.0, 0.0, 0.0)):
        review = Review(learns_rest=False)
        parts = zip((1 / 8, 1 / 4, 1 / 2), ratios, shares, strict=True)
        return [review.winner(part, compared([share], [ratio], 1 - share)) for part, ratio, share in parts]

    # It halves in the rest as often as before: 16 to 4 after a quarter of the first, and 16 to 8 of the second.
    assert winners([32.0, 16.0, 8.0]) == [None, None, None]
    assert winners([16.0 * 2**0.5, 16.0, 8.0]) == [None, "base", None]
    assert winners([8.0, 7.9, 7.9]) == [None, "base", "base"]
    assert winners([8.0, 7.9, 7.9], [0.0, 0.03, 0.0]) == [None, None, None]
    assert winners([2.0, 1.9, 1.9]) == [None, None, None]
    # A base of independent errors that lowers those of the network by less than 2 % is of no use.
    assert winners([1.0, 0.4, 0.2], [0.5, 0.9, 0.97]) == [None, None, "network"]
    assert winners([1.0, 0.4, 0.4], [0.5, 0.85, 0.95]) == [None, None, None]
    # A base without error has no worse network.
    assert winners([np.inf, np.inf, np.inf]) == [None, "base", "base"]
    both = [compared([0.0, 0.0], [np.inf, ratio]) for ratio in (32.0, 16.0)]
    review = Review(learns_rest=False)
    assert [review.winner(part, now) for part, now in zip((1 / 8, 1 / 4), both, strict=True)] == [None, None]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_over_one_parameter_that_the_base_interpolates_a_training_ends(elsewhere):
    params, x = np.linspace(0, 1, 40)[:, None], np.linspace(0, 1, 12)[:, None]
    places = np.linspace(0.02, 0.97, 17)[:, None] if elsewhere else x
    bump = 0.1 * np.exp(-(((params - places.T) / 0.05) ** 2))
    X, y = FieldSet(x, None, params=params), FieldSet(places, (params + bump)[..., None])
    model = small(base="pod", geometry="points", max_iter=16).fit(X, y)
    assert (model.stopped_, model.n_iter_) == ("base", 1)
    assert model.score(X, y) > 0.99


@pytest.mark.exhaustive
@pytest.mark.parametrize(("size", "rest"), [(0.3, True), (5.0, False)])
def test_a_training_goes_on_where_the_network_helps(size, rest):
    rng = np.random.default_rng(1)
    params, x = rng.uniform(-1, 1, (100, 2)), np.linspace(0, 1, 24)
    y = 5 * params[:, :1] * np.sin(x) + params[:, 1:] * x + size * 0.2 * np.abs(params[:, :1]) * np.cos(3 * x)
    X, y = FieldSet(x[:, None], None, params=params), FieldSet(x[:, None], y[..., None])
    model = small(base="linear", width=32, batch_size="auto", max_iter=30).fit(X[:60], y[:60])
    assert model.stopped_ == "max_iter"
    assert model.base_ is None or model.base_.leaves_rest == rest
    error = 1 - model.score(X[60:], y[60:])
    alone = PODRegressor(regressor="ridge").fit(X[:60], y[:60])
    assert error < 0.5 * (1 - alone.score(X[60:], y[60:]))


# ---------------------------------------------------------------------- share of the correction
@pytest.mark.parametrize("kind", ["auto", "linear", MeanFieldRegressor(), PODRegressor(regressor=Ridge(0.1))])
def test_a_weight_in_a_base_is_a_number_of_copies(kind):
    generator = np.random.default_rng(0)
    X, weight = generator.random((20, 2)), generator.integers(0, 4, 20)
    y = np.sin(3 * X @ [1.0, 2.0]) + 0.2 * generator.normal(size=20)
    copies, used = np.repeat(np.arange(20), weight), np.flatnonzero(weight)

    def fit(rows, **options):
        data = PODRegressor()._read(X[rows], y[rows])
        given = used if options else np.arange(len(rows))
        return BaseModel.fit(kind, data, given, **options)

    (weighted, found), (repeated, expected) = fit(slice(None), weight=weight.astype(float)), fit(copies)
    places = weighted.estimator._read_inputs(X)[0]
    np.testing.assert_allclose(weighted.predict(places).scalars, repeated.predict(places).scalars, rtol=1e-6)
    if isinstance(kind, str):  # others have folds
        assert weighted.error == pytest.approx(repeated.error, rel=1e-6)
        np.testing.assert_allclose(found.scalars[copies], expected.scalars, rtol=1e-6)
    plain = fit(used)[0].predict(places).scalars
    assert np.abs(plain - weighted.predict(places).scalars).max() > 1e-3


def share(base, corrected, truth, weight=None):
    weight = np.ones(len(truth)) if weight is None else weight
    corrected, truth = Targets(scalars=corrected), Targets(scalars=truth)
    return correction_shares(Predictions(None, base), corrected, truth, weight, np.ones(len(weight)))[1]


@pytest.mark.parametrize(("count", "of_field", "of_scalars"), [(20, 5, 5), (60, 5, 15), (144, 6, 24)])
def test_more_samples_choose_the_share_of_a_scalar_than_that_of_a_field(count, of_field, of_scalars):
    params = np.random.default_rng(4).random((count, 2))
    for y, expected in ((params @ np.ones((2, 9)), of_field), (params[:, 0] * params[:, 1], of_scalars)):
        y = (np.linspace(0, 1, 9)[:, np.newaxis], y[..., np.newaxis]) if y.ndim == 2 else y
        model = small(base="linear", max_iter=1).fit(params, y)
        assert model.fit_record_["split"] == {"training": count - expected, "share of the network": expected}


def test_the_share_of_a_right_correction_is_one():
    rng = np.random.default_rng(9)
    truth = rng.normal(size=(20, 3))
    np.testing.assert_allclose(share(np.zeros((20, 3)), truth, truth), 1.0)
    # The factor of least squares where the correction is too large, and nothing where it points the other way.
    np.testing.assert_allclose(share(np.zeros((20, 3)), truth * [2.0, 4.0, -1.0], truth), [0.5, 0.25, 0.0], atol=1e-12)


def test_a_share_is_the_factor_of_least_squares_minus_its_standard_error():
    rng = np.random.default_rng(12)
    base, step, noise = rng.normal(size=(3, 40, 1))
    truth, weight = base + 0.5 * step + 0.3 * noise, rng.random(40)
    gain, size = (weight * (step * part)[:, 0] for part in (truth - base, step))
    factor = gain.sum() / size.sum()
    # That of a ratio of sums over independent samples.
    freedom = 1 - np.sum((size / size.sum()) ** 2)
    error = np.sqrt(np.sum((gain - factor * size) ** 2) / freedom) / size.sum()
    np.testing.assert_allclose(share(base, base + step, truth, weight), factor - error, rtol=1e-10)


def field_share(corrected, truth, weight, norms):
    unseen, points = Predictions(np.zeros_like(truth), None), np.linspace(0, 1, truth.shape[1])[:, np.newaxis]
    corrected, truth = (Targets(FieldSet(points, part)) for part in (corrected, truth))
    return correction_shares(unseen, corrected, truth, weight, norms)[0]


def test_the_share_of_a_field_is_a_step_from_the_factor_of_the_smallest_mean_error_minus_its_standard_error():
    rng = np.random.default_rng(12)
    step, noise = rng.normal(size=(2, 40, 6, 1))
    left = 0.5 * step + np.exp(rng.normal(size=(40, 1, 1))) * noise
    weight, norms = rng.random(40), np.exp(rng.normal(size=40))

    def errors(factor):
        return np.linalg.norm(left - factor * step, axis=1)[:, 0] / norms

    found = errors(minimize_scalar(lambda factor: weight @ errors(factor), bounds=(0, 1), options={"xatol": 1e-9}).x)
    order = np.argsort(found)
    median = found[order][np.cumsum(weight[order]) >= weight.sum() / 2][0]
    parts = weight / norms**2 / np.maximum(found, median)
    gain, size = (parts * np.sum(step * part, axis=1)[:, 0] for part in (left, step))
    factor = gain.sum() / size.sum()
    scatter = np.sum((gain - factor * size) ** 2) / (1 - np.sum((size / size.sum()) ** 2))
    expected = factor - np.sqrt(scatter) / size.sum()
    np.testing.assert_allclose(field_share(step, left, weight, norms), expected, rtol=1e-4)


@pytest.mark.parametrize("nearest", [False, True])
def test_steps_for_finite_differences_tell_a_base_slopes_and_not_each_other(nearest):
    def bumps(rows):
        at = np.linspace(0, 1, 20) - rows[:, :1]
        return np.exp(-((at / rows[:, 1:2]) ** 2)) * rows[:, 2:]

    rng = np.random.default_rng(0)
    X, new = rng.random((2, 12, 3)) + 0.5
    stepped = np.concatenate([X, *(X + 1e-4 * axis for axis in np.eye(3))])
    # The second base is compared by folds, and its nearest sample would be one of the steps.
    base = skop.LawRegressor(PODRegressor(regressor=KNeighborsRegressor(1))) if nearest else "pod"
    found, alone = (small(base=base, max_iter=1).fit(rows, bumps(rows)) for rows in (stepped, X))
    assert found.base_.error > 0.1 * alone.base_.error
    if not nearest:
        errors = [relative_l2_error(bumps(new), model.predict(new)) for model in (found, alone)]
        assert errors[0] < 0.7 * errors[1]


def test_samples_are_predicted_by_the_folds_that_have_not_seen_them():
    X = np.random.default_rng(13).uniform(-1, 1, (23, 2))
    base = skop.LawRegressor(PODRegressor(regressor="ridge"))
    # A linear map is found without any of the samples; with predictions of other samples the error would be about 1.
    assert small(base=base, max_iter=1).fit(X, X @ [1.0, 2.0]).base_.error < 1e-3


def test_one_sample_decides_no_share():
    truth = np.array([[1.0], [1e-9], [-2e-9]])
    assert share(np.zeros((1, 1)), truth[:1], truth[:1]) == 0
    assert share(np.zeros((3, 1)), truth, truth) == 0
    assert share(np.zeros((3, 1)), truth, truth, np.array([1e-18, 1.0, 1.0])) == pytest.approx(1)


def test_one_sample_does_not_decide_against_the_others():
    rng = np.random.default_rng(16)
    truth = rng.normal(size=(9, 1))
    corrected = -0.1 * truth
    corrected[0] = truth[0]
    weight = np.ones(9)
    weight[0] = 100.0
    np.testing.assert_array_equal(share(np.zeros((9, 1)), corrected, truth, weight), 0.0)


@pytest.mark.parametrize(("count", "part"), [(5, 0.06), (30, 0.06)])
def test_noise_has_hardly_ever_a_share(count, part):
    rng = np.random.default_rng(10)
    shares = [share(np.zeros((count, 1)), *rng.normal(size=(2, count, 1)))[0] for _ in range(400)]
    right = [share(np.zeros((count, 1)), 2 * noise, noise)[0] for noise in rng.normal(size=(9, count, 1))]
    # Least squares alone has half of them.
    assert np.mean(np.array(shares) > 0) < part
    np.testing.assert_allclose(right, 0.5)


@pytest.mark.parametrize("count", [8, 30])
def test_a_correction_of_one_pattern_hardly_ever_has_a_share_by_chance(count):
    rng, pattern = np.random.default_rng(10), np.sin(np.arange(6.0))[:, np.newaxis]
    drawn = rng.normal(size=(400, 2, count, 1, 1)) * pattern
    shares = [field_share(*parts, np.ones(count), np.ones(count))[0] for parts in drawn]
    # The factor of the smallest mean error nearly meets one sample, which hides its standard error: 0.4 by this alone.
    assert np.mean(np.array(shares) > 0) < 0.2
    np.testing.assert_allclose(field_share(2 * drawn[0, 0], drawn[0, 0], np.ones(count), np.ones(count)), 0.5)


def test_the_share_does_not_depend_on_units_or_on_the_order_of_samples():
    rng = np.random.default_rng(11)
    base, step, truth = rng.normal(size=(3, 25, 2))
    corrected, weight = base + step + 0.5 * (truth - base), rng.random(25)
    expected = share(base, corrected, truth, weight)
    order, unit = rng.permutation(25), np.array([1e3, 1e-4])
    parts = [(part * unit)[order] for part in (base, corrected, truth)]
    np.testing.assert_allclose(share(*parts, weight[order]), expected, rtol=1e-10)


def test_one_mesh_is_predicted_by_a_base_of_many():
    rng = np.random.default_rng(20)
    coords = rng.random((11, 2)) * (1 + 0.1 * rng.random((20, 1, 1)))
    fields = rng.normal(size=(20, 11, 1)).cumsum(axis=1)
    model = small(base="linear", dtype="float64", max_iter=1).fit(
        FieldSet(coords, fields), FieldSet(coords, 2 * fields + coords[..., :1])
    )
    expected = np.asarray(model.predict(FieldSet(coords[:1], fields[:1])).values)
    found = np.asarray(model.predict(FieldSet(coords[0], fields[:1])).values)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_rounding_of_fields_is_no_input_of_a_base():
    rng = np.random.default_rng(21)
    fields = (rng.normal(size=(24, 2)) @ np.sin(np.arange(22.0).reshape(2, 11)))[..., None]
    model = PODRegressor(regressor="ridge").fit(FieldSet(rng.random((11, 2)), fields), fields)
    # Two components, and what they leave out of the training samples.
    assert model.models_[0].regressor.points.shape == (24, 3)
    assert not model.models_[0].regressor.points[:, 2].any()


def test_a_failed_warm_start_keeps_the_shares(linear_map, monkeypatch):
    X, y = linear_map
    model = small(warm_start=True).fit(X, y)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("skop.training.Trainer._train_step", interrupted)
    for share in (0.0, 0.5):
        model.module_.field_share.fill_(share)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        np.testing.assert_array_equal(shares_of(model)[0], share)


def test_the_network_has_no_share_in_a_channel_that_does_not_vary():
    # In double precision the base misses a constant by its last digit, which the network happens to hit.
    unseen = Predictions(np.full((6, 4, 1), 2.2e-16), None)
    still = Targets(FieldSet(np.random.default_rng(0).random((4, 2)), np.zeros((6, 4, 1))), None)
    field, _ = correction_shares(unseen, still, still, np.ones(6), np.ones(6))
    np.testing.assert_array_equal(field, 0.0)
    # Nor does a network that is far from the constant correct the last digit of the base.
    away = Targets(still.field.with_values(np.full((6, 4, 1), -0.01)), None)
    field, _ = correction_shares(unseen, away, still, np.ones(6), np.ones(6))
    np.testing.assert_array_equal(field, 0.0)


@pytest.mark.parametrize(("seconds", "warns"), [(1.5, False), (3.0, True)])
def test_a_base_that_takes_longer_than_the_limit_is_named(seconds, warns, linear_map, monkeypatch):
    monkeypatch.setattr(FitCheckpoints, "base_model", lambda self, fit: (*fit(), seconds))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        small(base="pod", max_time=1.0).fit(*linear_map)
    words = "2.5 s more than max_time leaves it, 1 s: its base took 3 s"
    assert any(words in str(item.message) for item in caught) == warns
    # A search passes on a part of the time, which its user has not set.
    caught = [str(item.message) for item in caught]
    assert not any("max_time=" in text for text in caught)


def test_an_output_without_a_share_keeps_the_digits_of_the_base(tmp_path):
    """Of ten decades between samples, single precision of standardised values leaves the smallest none."""
    rng = np.random.default_rng(0)
    params, coords = rng.uniform([-2, 0], [2, 1], (30, 2)), rng.random((8, 2))
    fields = 10 ** (2.5 * params[:, :1]) * (2 + np.sin(3 * coords[:, 0] + params[:, 1:]))
    fields = np.stack([fields, np.tanh(9 * (coords[:, 0] - params[:, 1:]))], axis=-1)
    model = small(base="pod").fit(params, FieldSet(coords, fields))
    model.module_.set_shares(np.zeros(2), None)
    expected = model.predict(params).values
    np.testing.assert_allclose(expected[..., 0], fields[..., 0], rtol=1e-4)
    # The slope of the mean logarithm is the same everywhere, and a graph holds the digits too.
    slopes = model.gradient(params, lambda field: field[..., 0].log10().mean(dim=1))
    np.testing.assert_allclose(slopes[:, 0], 2.5, rtol=1e-3)
    model.export(tmp_path / "base.pt2")
    graph = torch.export.load(tmp_path / "base.pt2").module()
    found = graph(torch.tensor(params, dtype=torch.float32))[0].numpy()
    np.testing.assert_allclose(found[..., 0], expected[..., 0], rtol=1e-4)
    model.module_.set_shares(np.array([0.0, 1.0]), None)
    found = model.predict(params).values
    np.testing.assert_array_equal(found[..., 0], expected[..., 0])
    assert (found[..., 1] != expected[..., 1]).any()


def test_a_constant_channel_does_not_choose_the_base():
    # The mean of many values 0.1 is not quite 0.1.
    rng = np.random.default_rng(1)
    points, params = rng.random((25, 2)), rng.random((16, 2))
    values = np.sin(3 * points[:, 0] + params[:, :1]) * np.exp(params[:, 1:] * points[:, 1])
    X = FieldSet(points, None, params=params)
    errors = [small(max_iter=1).fit(X, FieldSet(points, values[..., np.newaxis])).base_.error]
    for constant in (0.0, 0.1, 0.3):
        y = FieldSet(points, np.stack([values, np.full_like(values, constant)], axis=-1))
        errors.append(small(max_iter=1).fit(X, y).base_.error)
    np.testing.assert_allclose(errors, errors[0], rtol=1e-6)


@pytest.mark.parametrize("n_nodes", [12, 40])
def test_small_meshes_with_nodes_in_another_order_are_refused(n_nodes):
    rng = np.random.default_rng(0)
    params, points = rng.random((14, 2)), rng.random((n_nodes, 2))
    coords = points * (1 + 0.2 * params[:, np.newaxis])
    fields = np.sin(3 * coords[..., :1] + params[:, np.newaxis, :1])
    X, y = FieldSet(coords, None, params=params), FieldSet(coords, fields)
    model = small(base="pod", max_iter=1).fit(X[:12], y[:12])
    model.module_.use_base()
    assert np.abs(np.asarray(model.predict(X[12:]).values) - fields[12:]).max() < 0.1
    # So few nodes have no neighbours that tell of their order.
    other = FieldSet(coords[12:, rng.permutation(n_nodes)], None, params=params[12:])
    with pytest.raises(FieldDataError, match="index 0 are numbered in another order"):
        model.predict(other)


@pytest.mark.parametrize("learns_rest", [True, False])
def test_a_turned_numbering_is_refused_or_predicted_by_the_network_alone(learns_rest):
    rng = np.random.default_rng(0)
    params = rng.uniform([0.2, 1.0], [0.4, 2.0], (24, 2))
    angles, radius = np.arange(24) * np.pi / 12, params[:, :1, None]
    radii = radius + (1 - radius) * np.linspace(0, 1, 4)[:, None]
    nodes = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1)
    fields = params[:, 1:, None] * (2 + radius / radii * np.cos(angles))
    if not learns_rest:
        fields = fields * (1 + 0.5 * rng.normal(size=(24, 1, 1)))
    X = FieldSet(nodes.reshape(24, 96, 2), None, params=params)
    model = small(base="pod", max_iter=1).fit(X, FieldSet(X.coords, fields.reshape(24, 96, 1)))
    assert model.module_.learns_rest == learns_rest
    model.module_.set_shares(np.full(1, 0.5), None)
    for other in (np.roll(nodes, 2, axis=2), np.roll(nodes, 12, axis=2), nodes[:, :, ::-1]):
        turned = FieldSet(other[1:3].reshape(2, 96, 2), None, params=params[1:3])
        if learns_rest:
            with pytest.raises(FieldDataError, match=r"cannot predict X, since .* are numbered in another order"):
                model.predict(turned)
        else:
            with pytest.warns(skop.exceptions.SkopWarning, match="network alone"):
                model.predict(turned)


def test_classes_and_words_are_no_estimators(linear_map):
    with pytest.raises(FieldDataError, match=r"an estimator is needed: PODRegressor\(\)"):
        small(base=PODRegressor).fit(*linear_map)
    with pytest.raises(ValueError, match="base__n_components is a parameter of an estimator, but base is 'auto'"):
        small().set_params(base__n_components=3)
    assert small().set_params(base=PODRegressor(), base__n_components=3).base.n_components == 3


@pytest.mark.parametrize(
    "base", [LaMORegressor(width=-1), PODRegressor(n_components=-1), EnsembleRegressor(LaMORegressor(depth=0))]
)
def test_a_base_with_parameters_out_of_range_is_refused(base):
    X = np.random.default_rng(0).random((12, 4, 4, 1))
    with pytest.raises(ValueError, match=r"'(width|n_components|depth)' parameter of"):
        LaMORegressor(base=base, width=8, depth=1, max_iter=1).fit(X, X)
