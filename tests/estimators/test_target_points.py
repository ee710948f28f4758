"""Targets on other points than the inputs: what is read as such, laws of the training, predictions, and refusals."""

import pickle
import warnings

import meshio
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

import skop
from skop import (
    AMORegressor,
    EnsembleRegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    MNORegressor,
    PODRegressor,
    RolloutRegressor,
    SymmetryOptions,
    TimeConditionedRegressor,
)
from skop.data import Batch, FieldLoader, Scalers, ScalingOptions, Targets, query_points, read, unit_grid
from skop.data import _targets as reading
from skop.estimators.fitting._objective import Objective
from skop.exceptions import FieldDataError, SkopWarning
from skop.metrics import neg_relative_l2_scorer, relative_l2_error
from skop.parts import GNOT, GalerkinTransformer, OFormer, RotaryAttention
from skop.training import Trainer

RANDOM = np.random.default_rng(0)
N, GRID = 6, (5, 4)
PLACES = unit_grid(GRID)
OTHERS = 0.02 + 0.96 * RANDOM.random((9, 2))
FIELDS = 1 + RANDOM.random((N, 20, 1))
LEVELS = FIELDS.mean(axis=1, keepdims=True)
SIZES, OTHER_SIZES = (7, 12, 5, 9, 12, 8), (3, 8, 8, 1, 12, 6)
CLOUDS = [RANDOM.random((size, 2)) for size in SIZES]
OTHER_CLOUDS = [np.clip(RANDOM.random((size, 2)), 0.1, 0.9) for size in OTHER_SIZES]


def values_at(points):
    """What the samples are at points, (n, P, 1): known from their input and from the place."""
    return LEVELS + points[..., :1] * (1 - points[..., 1:])


X = FieldSet(PLACES, FIELDS)
SHARED = FieldSet(OTHERS, values_at(OTHERS))
OWN_POINTS = 0.02 + 0.96 * RANDOM.random((N, 9, 2))
OWN = FieldSet(OWN_POINTS, values_at(OWN_POINTS))
RAGGED_X = FieldSet(CLOUDS, [1 + cloud[:, :1] for cloud in CLOUDS])
RAGGED = FieldSet(OTHER_CLOUDS, [2 + np.sin(3 * cloud[:, :1]) for cloud in OTHER_CLOUDS])
BOX, SHIFT = (np.zeros(2), np.ones(2)), np.array([0.1, 0.1])
#: Inputs and targets of every layout: shared, of each sample, and ragged on both sides.
LAYOUTS = {
    "shared": (X, SHARED),
    "own": (X, OWN),
    "ragged targets": (X, RAGGED),
    "ragged inputs": (RAGGED_X, SHARED),
    "ragged": (RAGGED_X, RAGGED),
}
KINDS = ("lamo", "amo", "gnot", "oformer", "galerkin")


HOSTS = {"gnot": GNOT, "oformer": OFormer, "galerkin": GalerkinTransformer}


def small(kind="oformer", **changes):
    """An estimator that can be asked anywhere and fits in a moment."""
    sizes = {"width": 8, "depth": 1, "max_iter": 1, "random_state": 0, "dtype": "float64", "batch_size": 4}
    if kind == "lamo":
        sizes |= {"geometry": "points", "latents__n_tokens": 4, "latents__n_heads": 2}
        return LaMORegressor().set_params(**(sizes | changes))
    if kind == "amo":
        sizes |= {"geometry": "points", "latents__n_tokens": 4, "latents__n_heads": 2, "mixer__n_poles": 3}
        return AMORegressor().set_params(**(sizes | changes))
    if kind == "galerkin":
        sizes["host__decoder"] = "pointwise"
    return MNORegressor(host=HOSTS[kind]()).set_params(**(sizes | changes))


def flat(fields):
    """All values of a set, one sample after the other."""
    return np.concatenate([np.asarray(sample) for sample in fields.to_list()])


@pytest.fixture
def untrained(monkeypatch):
    """Training that must not be reached."""
    monkeypatch.setattr(Trainer, "run", lambda *_: pytest.fail("the error came after the start of the training"))


# ---------------------------------------------------------------------- what is read as points of their own
def test_targets_on_other_points_are_read_where_they_are_allowed(subtests):
    for name, (inputs, y) in LAYOUTS.items():
        with subtests.test(name):
            data = read(inputs, y, other_points=True)
            assert data.targets.elsewhere
            assert data.targets[1:3].elsewhere
            assert data.spec.target_points == ("shared" if y is SHARED else "own")
            np.testing.assert_array_equal(flat(data.targets.field), flat(y))
            for points, expected in zip(data.targets.field.coords_list(), y.coords_list(), strict=True):
                np.testing.assert_array_equal(points, expected)
            with pytest.raises(FieldDataError, match=r"same points|other points"):
                read(inputs, y)


def test_a_grid_of_targets_is_known():
    fine = unit_grid((9, 7))
    data = read(X, FieldSet(fine, values_at(fine)), other_points=True)
    assert (data.spec.grid_shape, data.spec.target_grid) == (GRID, (9, 7))
    again = type(data.spec).from_dict(data.spec.to_dict())
    assert again == data.spec
    # A part of the points of X is points of their own.
    assert read(X, FieldSet(PLACES[::3], FIELDS[:, ::3]), other_points=True).targets.elsewhere


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_the_same_points_stay_the_same_points(offset):
    """Rounded copies are either the points of X, as ever, or an error: never points of their own."""
    exact = offset + PLACES
    for change in (
        lambda x: x,
        lambda x: x + 1e-9,
        lambda x: x.astype(np.float32),
        lambda x: x + 1e-4,
        lambda x: x - 4e-4,
    ):
        y = FieldSet(change(exact), FIELDS)
        try:
            data = read(FieldSet(exact, FIELDS), y, other_points=True)
        except FieldDataError as error:
            assert "other points" in str(error)  # noqa: PT017
        else:
            assert not data.targets.elsewhere
    own = np.stack([exact + i for i in range(N)])
    assert not read(FieldSet(own, FIELDS), FieldSet(own, FIELDS), other_points=True).targets.elsewhere


def test_float32_copies_far_from_the_origin_are_refused():
    exact = 1e6 + PLACES
    with pytest.raises(FieldDataError, match="other points"):
        read(FieldSet(exact, FIELDS), FieldSet(exact.astype(np.float32), FIELDS), other_points=True)


def test_the_same_points_in_another_order_are_refused():
    order = RANDOM.permutation(20)
    for change in (lambda x: x, lambda x: x.astype(np.float32)):
        with pytest.raises(FieldDataError, match="another order"):
            read(X, FieldSet(change(PLACES[order]), FIELDS[:, order]), other_points=True)
    points = [*CLOUDS[:3], CLOUDS[3][::-1], *CLOUDS[4:]]
    with pytest.raises(FieldDataError, match="another order"):
        read(RAGGED_X, FieldSet(points, RAGGED_X.to_list()), other_points=True)
    # Repeated points too.
    twice = np.concatenate([PLACES, PLACES])
    both = FieldSet(twice, np.concatenate([FIELDS, FIELDS], axis=1))
    with pytest.raises(FieldDataError, match="another order"):
        read(both, FieldSet(twice[::-1], both.values[:, ::-1]), other_points=True)


def test_samples_in_another_order_are_refused():
    with pytest.raises(FieldDataError, match=r"sample 0 is on the points that X has in sample 5.*one order"):
        read(RAGGED_X, RAGGED_X[::-1], other_points=True)
    with pytest.warns(SkopWarning, match="sample 0 is on the points that X has in sample 1"):
        assert read(RAGGED_X[:-1], RAGGED_X[1:], other_points=True).targets.elsewhere


def test_only_fieldsets_and_meshes_lie_on_other_points(subtests):
    for label, y in {
        "tuple": (OTHERS, SHARED.values),
        "pairs": [*zip(OWN_POINTS, OWN.values, strict=True)],
        "array": FIELDS[:, :9],
        "grid": FIELDS.reshape(N, 4, 5, 1),
    }.items():
        with subtests.test(label):
            with pytest.raises(FieldDataError) as error:
                small().fit(X, y)
            assert ("If X and y are FieldSets" in str(error.value)) == isinstance(y, tuple | list)


def test_an_array_of_inputs_has_no_points_that_others_could_be_held_against():
    """Cell centres, for example, are not the points of the unit box that an array is read on."""
    array = FIELDS.reshape(N, *GRID, 1)
    centres = (PLACES * (np.array(GRID) - 1) + 0.5) / GRID
    fitted = small().fit(array, array)
    for y in (FieldSet(centres, FIELDS), SHARED):
        with pytest.raises(FieldDataError, match="If X and y are FieldSets"):
            small().fit(array, y)
        with pytest.raises(FieldDataError, match="If X and y are FieldSets"):
            fitted.score(array, y)


def test_points_of_other_dimensions_are_refused():
    places = np.pad(OTHERS, ((0, 0), (0, 1)))
    with pytest.raises(FieldDataError, match="same points"):
        read(X, FieldSet(places, SHARED.values), other_points=True)


def test_other_units_are_warned_about():
    with pytest.warns(SkopWarning, match=r"y has points in the box .*units"):
        read(X, FieldSet(1000 * OTHERS, SHARED.values), other_points=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(X, FieldSet(PLACES + 1.5 * SHIFT, FIELDS), other_points=True)


# ---------------------------------------------------------------------- batches
def test_a_batch_is_its_samples(tmp_path, subtests):
    """Every batch gives each sample's points, targets and outputs as they are alone, sorted or not."""
    for name in LAYOUTS:
        for lazy in [False, True]:
            with subtests.test(name=name, lazy=lazy):
                inputs, y = LAYOUTS[name]
                if lazy and not inputs.is_ragged:
                    np.save(tmp_path / "x.npy", inputs.values)
                    inputs = FieldSet(inputs.coords, np.load(tmp_path / "x.npy", mmap_mode="r"))
                targets = Targets(y, np.arange(2.0 * N).reshape(N, 2), elsewhere=True)
                scalers = Scalers.fit(inputs, targets, np.ones(N), ScalingOptions())
                options = {
                    "device": torch.device("cpu"),
                    "dtype": torch.float64,
                    "targets": targets,
                    "weight": np.arange(1.0, N + 1),
                }
                loader = FieldLoader(inputs, scalers, queries=query_points(y, inputs, BOX), sort_points=True, **options)
                network = small("lamo").fit(inputs, y.with_params(np.ones((N, 2)))).module_.eval()
                alone = [loader.gather(np.array([i])) for i in range(N)]
                expected = [batch.outputs_of(network) for batch in alone]
                for i, batch in enumerate(alone):
                    np.testing.assert_allclose(batch.target[0], y.to_list()[i])
                    places = batch.queries["query_coords"].numpy() * scalers.coords.span_ + scalers.coords.lower_
                    np.testing.assert_allclose(places.reshape(-1, 2), y.coords_list()[i])
                for rows in (np.array([3, 1, 4]), np.arange(N), np.array([1, 2])):
                    batch = loader.gather(rows)
                    outputs = batch.outputs_of(network)
                    assert outputs.field.shape == batch.target.shape
                    torch.testing.assert_close(
                        outputs.field.reshape(-1, 1), torch.cat([expected[i].field[0] for i in rows])
                    )
                    torch.testing.assert_close(outputs.scalars, torch.cat([expected[i].scalars for i in rows]))
                    torch.testing.assert_close(
                        batch.target.reshape(-1, 1), torch.cat([alone[i].target[0] for i in rows])
                    )
                    assert batch.weight.tolist() == (rows + 1).tolist()


def test_a_batch_without_query_points_calls_the_network_once():
    calls = []
    batch = Batch(torch.zeros(6, 2), None, None, None, sizes=(2, 4))
    batch.outputs_of(lambda **inputs: calls.append(inputs))
    assert calls == [batch.inputs()]


# ---------------------------------------------------------------------- laws of the training
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inputs", [X, RAGGED_X], ids=["grid", "ragged"])
def test_asked_at_the_points_of_the_input_training_is_the_same(kind, inputs, monkeypatch):
    """There a network gives at query points what it gives directly, so that losses and predictions agree."""
    y = inputs.with_values(np.asarray(inputs.values) ** 2)
    usual = small(kind, early_stopping=True).fit(inputs, y)
    monkeypatch.setattr(reading, "_lies_elsewhere", lambda *_: True)
    monkeypatch.setattr(reading, "_check_pairing", lambda *_: None)
    asked = small(kind, early_stopping=True).fit(inputs, y)
    assert (usual.spec_.target_points, asked.spec_.target_points) == ("inputs", "own" if y.is_ragged else "shared")
    np.testing.assert_allclose(asked.loss_curve_, usual.loss_curve_, rtol=1e-6)
    np.testing.assert_allclose(asked.validation_scores_, usual.validation_scores_, rtol=1e-6)
    np.testing.assert_allclose(flat(asked.predict(inputs, coords=inputs)), flat(usual.predict(inputs)), rtol=1e-5)


def test_the_order_of_the_target_points_does_not_matter(subtests):
    for kind in ("lamo", "oformer"):
        with subtests.test(kind=kind):
            order = RANDOM.permutation(9)
            first = small(kind).fit(X, SHARED)
            again = small(kind).fit(X, FieldSet(OTHERS[order], SHARED.values[:, order]))
            np.testing.assert_allclose(again.loss_curve_, first.loss_curve_, rtol=1e-9)
            np.testing.assert_allclose(again.predict(X).values, first.predict(X).values[:, order], rtol=1e-6)


def test_batches_of_one_size_and_of_several_train_alike():
    """Targets of one size in a ragged container are the same targets."""
    listed = FieldSet([*OWN_POINTS, OTHERS[:4]], [*OWN.values, np.zeros((4, 1))])[:N]
    assert listed.is_ragged
    assert not OWN.is_ragged
    curves = [small("lamo", early_stopping=True).fit(X, y).loss_curve_ for y in (OWN, listed)]
    np.testing.assert_allclose(*curves, rtol=1e-9)


@pytest.mark.parametrize("kind", ["lamo", pytest.param("oformer", marks=pytest.mark.exhaustive)])
def test_a_function_of_the_place_is_learned_where_the_targets_are(kind):
    """With the coordinates of the inputs instead of its own, the same target teaches another function."""
    places, others = RANDOM.random((40, 2)), 0.05 + 0.9 * RANDOM.random((40, 2))
    # Others lie within the box of these in any order of the tests, which share the random numbers.
    places[:4] = unit_grid((2, 2))
    levels = 1 + RANDOM.random((8, 1, 1))

    def fields(points):
        return levels * np.sin(3 * points[:, :1] + 2 * points[:, 1:])

    inputs = FieldSet(places, np.broadcast_to(levels, (8, 40, 1)))
    options = {"width": 16, "max_iter": 30, "batch_size": 4, "dtype": "float32"}
    if kind == "oformer":
        options["mixer"] = RotaryAttention()
    right = small(kind, **options).fit(inputs, FieldSet(others, fields(others)))
    wrong = small(kind, **options).fit(inputs, FieldSet(places, fields(others)))
    truth = FieldSet(others, fields(others))
    assert 1 - right.score(inputs, truth) < 0.3 * (1 - wrong.score(inputs, truth))
    # It is a function of the place: as good between the points that it has seen.
    new = 0.1 + 0.8 * RANDOM.random((30, 2))
    assert 1 - right.score(inputs, FieldSet(new, fields(new))) < 0.5 * (1 - wrong.score(inputs, truth))


@pytest.mark.parametrize("loss", ["sobolev", "relative_l2_gradient"])
def test_losses_with_derivatives_take_them_on_the_grid_of_the_targets(loss, monkeypatch):
    fine, seen, call = unit_grid((7, 6)) * [0.8, 0.9], [], Objective.__call__

    def watched(objective, outputs, batch):
        seen.append((objective.spacing, batch.query_grid))
        return call(objective, outputs, batch)

    monkeypatch.setattr(Objective, "__call__", watched)
    model = small(loss=loss).fit(X, FieldSet(fine, values_at(fine)))
    assert np.isfinite(model.loss_curve_).all()
    for spacing, grid in seen:
        assert grid == (7, 6)
        np.testing.assert_allclose(spacing, (0.8 / 6, 0.9 / 5))


def test_the_gradient_of_papers_needs_a_grid_of_targets():
    with pytest.raises(ValueError, match="grid"):
        small(loss="relative_l2_gradient").fit(X, SHARED)


def test_samples_of_weight_zero_are_not_used():
    weight = np.array([1.0, 0.0, 2.0, 1.0, 0.0, 1.0])
    present = weight > 0
    y = FieldSet(OWN_POINTS, OWN.values * np.where(present, 1, 1e6)[:, None, None])
    given = small("lamo").fit(X, y, sample_weight=weight)
    alone = small("lamo").fit(X[present], y[present], sample_weight=weight[present])
    np.testing.assert_allclose(
        given.predict(X, coords=OTHERS).values, alone.predict(X, coords=OTHERS).values, rtol=1e-6
    )


def test_batches_are_as_large_as_the_larger_set_allows(monkeypatch):
    seen = []
    monkeypatch.setattr(Trainer, "run", lambda trainer, _: seen.append(trainer.options.batch_size) or 1 / 0)
    many, few = (FieldSet(points, np.ones((64, len(points), 1))) for points in (RANDOM.random((3000, 2)), PLACES))
    for inputs, y in ((many, few), (few, many), (few, few)):
        with pytest.raises(ZeroDivisionError):
            small("lamo", batch_size="auto").fit(inputs, y)
    assert seen == [1, 1, 8]


def test_targets_are_scaled_by_their_own_points():
    y = FieldSet(OTHERS * [1.0, 0.5] + [0.0, 0.9], 5 + SHARED.values)
    model = small().fit(X, y)
    np.testing.assert_allclose(model.scalers_.target.mean_, y.values.mean(axis=(0, 1)))
    # The box of the inputs, and of the targets where these are outside.
    np.testing.assert_allclose(model.scalers_.coords.lower_, 0)
    np.testing.assert_allclose(model.scalers_.coords.span_, [1, max(1, y.coords[:, 1].max())])


# ---------------------------------------------------------------------- predictions and scores
def test_shared_points_of_the_targets_are_those_of_predictions(subtests):
    for kind in ("lamo", "oformer"):
        with subtests.test(kind=kind):
            model = small(kind).fit(X, SHARED)
            predicted = model.predict(X[:4])
            np.testing.assert_array_equal(predicted.coords, OTHERS)
            np.testing.assert_allclose(predicted.values, model.predict(X[:4], coords=OTHERS).values)
            assert model.score(X, SHARED) == pytest.approx(1 - relative_l2_error(SHARED, model.predict(X)))
            assert neg_relative_l2_scorer(model, X, SHARED) == pytest.approx(model.score(X, SHARED) - 1)
            at_inputs = FieldSet(PLACES, values_at(PLACES))
            asked = model.predict(X, coords=X)
            assert model.score(X, at_inputs) == pytest.approx(1 - relative_l2_error(at_inputs, asked))


def test_predictions_on_a_grid_have_it():
    fine = unit_grid((9, 7))
    model = small().fit(X, FieldSet(fine, values_at(fine), channel_names=["u"]))
    assert model.predict(X).to_grid().shape == (N, 9, 7, 1)
    assert model.predict(X).channel_names == ("u",)
    assert model.predict(X, coords=fine).grid_shape is None


@pytest.mark.parametrize("name", ["own", "ragged targets", "ragged"])
def test_own_points_of_the_targets_have_to_be_said(name):
    inputs, y = LAYOUTS[name]
    model = small("lamo").fit(inputs, y)
    with pytest.raises(FieldDataError, match="coords=X"):
        model.predict(inputs)
    predicted = model.predict(inputs, coords=y)
    assert model.score(inputs, y) == pytest.approx(1 - relative_l2_error(y, predicted))
    assert set(model.score_channels(inputs, y)) == {"channel 0"}
    assert len(model.predict(inputs, coords=inputs)) == N


def test_a_score_on_other_points_is_that_of_the_prediction_there():
    """Whatever the fit was on, and for networks on grids too, whose predictions are interpolated."""
    for model in (small(), LaMORegressor(width=8, depth=1, max_iter=1, random_state=0)):
        model.fit(FIELDS.reshape(N, *GRID, 1), FIELDS.reshape(N, *GRID, 1))
        expected = relative_l2_error(SHARED.values, model.predict(X, coords=OTHERS))
        assert model.score(X, SHARED) == pytest.approx(1 - expected)


def test_values_without_points_are_no_truth():
    """As many values as X has points could belong to either."""
    moved = PLACES + SHIFT
    model = small().fit(X, FieldSet(moved, FIELDS))
    for y in (FIELDS, FIELDS.reshape(N, *GRID, 1), [*FIELDS]):
        with pytest.raises(FieldDataError, match="without points"):
            model.score(X, y)


def test_places_outside_the_box_of_the_inputs():
    outside = PLACES + SHIFT
    model = small().fit(X, FieldSet(outside, FIELDS))
    assert np.isfinite(model.predict(X).values).all()
    with pytest.raises(FieldDataError, match="outside"):
        model.predict(X, coords=outside + SHIFT)
    with pytest.raises(FieldDataError, match="outside"):
        small().fit(X, X).predict(X, coords=outside)


def test_fields_and_scalars():
    y = SHARED.with_params(LEVELS[:, 0])
    model = small("lamo").fit(X, y)
    assert model.predict(X).params.shape == (N, 1)
    assert set(model.score_channels(X, y)) == {"channel 0", "scalar 0"}
    assert model.score(X, y) == pytest.approx(np.mean(list(model.score_channels(X, y).values())))


def test_geometry_and_parameters_as_inputs():
    params = RANDOM.random((N, 2))
    for inputs in (FieldSet(PLACES, params=params), FieldSet(np.stack([PLACES + 0.01 * i for i in range(N)]))):
        for kind in ("lamo", "oformer"):
            assert small(kind).fit(inputs, SHARED).predict(inputs).shape == (N, 9, 1)


def test_searches_and_cross_validation():
    model = small("lamo")
    scores = cross_val_score(model, X, SHARED, cv=2, scoring=neg_relative_l2_scorer, error_score="raise")
    assert np.isfinite(scores).all()
    assert np.isfinite(cross_val_score(model, RAGGED_X, RAGGED, cv=2, error_score="raise")).all()
    np.testing.assert_array_equal(cross_val_predict(model, X, SHARED, cv=2).coords, OTHERS)
    search = GridSearchCV(model, {"width": [8, 16]}, cv=2, error_score="raise").fit(X, SHARED)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    np.testing.assert_array_equal(search.predict(X).coords, OTHERS)
    assert clone(search.best_estimator_).fit(X, OWN).spec_.target_points == "own"


@pytest.mark.parametrize("kind", ["lamo", "oformer"])
def test_saved_models_predict_the_same(kind, tmp_path):
    fine = unit_grid((7, 6)) * [0.8, 0.9]
    model = small(kind).fit(X, FieldSet(fine, values_at(fine)))
    model.save(tmp_path / "model.skop")
    for again in (skop.load(tmp_path / "model.skop"), pickle.loads(pickle.dumps(model))):
        assert again.spec_ == model.spec_
        np.testing.assert_array_equal(again.predict(X).values, model.predict(X).values)
        np.testing.assert_array_equal(again.predict(X).coords, fine)


def test_a_warm_start_goes_on_at_the_points_of_the_new_targets():
    model = small(warm_start=True).fit(X, SHARED)
    moved = FieldSet(OTHERS[:6] * 0.9 + 0.2, SHARED.values[:, :6])
    model.fit(X, moved)
    assert model.n_iter_ == 2
    np.testing.assert_array_equal(model.predict(X).coords, moved.coords)
    with pytest.raises(FieldDataError, match="points of y was 'shared' and is 'own'"):
        model.fit(X, OWN)
    with pytest.raises(FieldDataError, match="points of y was 'shared' and is 'inputs'"):
        model.fit(X, X)
    assert model.n_iter_ == 2


def test_files_and_memory_train_alike(tmp_path):
    np.save(tmp_path / "x.npy", FIELDS)
    np.save(tmp_path / "y.npy", SHARED.values)
    lazy = [np.load(tmp_path / name, mmap_mode="r") for name in ("x.npy", "y.npy")]
    curves = [
        small("lamo").fit(FieldSet(PLACES, fields), FieldSet(OTHERS, values)).loss_curve_
        for fields, values in ((FIELDS, SHARED.values), lazy)
    ]
    np.testing.assert_array_equal(*curves)


def test_finer_grids_have_no_averaged_predictions_at_other_points():
    grid = (9, 7)
    fine = FieldSet(unit_grid(grid), 1 + RANDOM.random((2, 63, 1)))
    model = small().fit(X, SHARED)
    with pytest.raises(FieldDataError, match="refinement='native'"):
        model.predict(fine)
    assert model.set_params(refinement="native").predict(fine).shape == (2, 9, 1)
    # Points have no spacing.
    assert small("lamo").fit(X, SHARED).predict(fine).shape == (2, 9, 1)


def test_derivatives_need_the_points_of_the_inputs():
    inputs = FieldSet(PLACES, params=RANDOM.random((N, 2)))
    model = small("lamo").fit(inputs, SHARED.with_params(LEVELS[:, 0]))
    assert model.gradient(inputs, 0).shape == (N, 2)
    with pytest.raises(FieldDataError, match="points of X"):
        model.gradient(inputs, lambda field: field[..., 0].amax(dim=1))


# ---------------------------------------------------------------------- estimators around others
def test_ensembles_average_their_members():
    model = EnsembleRegressor(small("lamo"), n_members=2, random_state=0).fit(X, SHARED)
    members = [member.predict(X).values for member in model.estimators_]
    predicted, spread = model.predict(X, return_std=True)
    np.testing.assert_allclose(predicted.values, np.mean(members, axis=0))
    np.testing.assert_array_equal(spread.coords, OTHERS)
    assert model.score(X, SHARED) == pytest.approx(1 - relative_l2_error(SHARED, predicted))


def test_time_as_a_parameter():
    frames = SHARED.with_values(np.concatenate([SHARED.values * factor for factor in (1, 2, 3)], axis=-1))
    model = TimeConditionedRegressor(small("lamo"), times=3).fit(X, frames)
    predicted = model.predict(X)
    assert predicted.shape == (N, 9, 3)
    np.testing.assert_array_equal(predicted.coords, OTHERS)
    assert model.score_physical(X, frames) == pytest.approx(1 - relative_l2_error(frames, predicted))
    assert model.error_by_time(X, frames).shape == (3,)
    at_inputs = X.with_values(np.repeat(X.values, 3, axis=-1))
    expected = relative_l2_error(at_inputs, model.predict(X, coords=X))
    assert model.score_physical(X, at_inputs) == pytest.approx(1 - expected)
    np.testing.assert_allclose(model.predict(X, times=[0.5]).values[..., 0], predicted.values[..., 1], rtol=1e-6)


@pytest.mark.parametrize("wrapper", [RolloutRegressor, PODRegressor])
def test_estimators_that_need_one_set_of_points_say_so(wrapper):
    model = PODRegressor() if wrapper is PODRegressor else RolloutRegressor(small(), window=1)
    for y in (SHARED, OWN, RAGGED):
        with pytest.raises(FieldDataError, match="same points"):
            model.fit(X, y)


# ---------------------------------------------------------------------- refusals
REFUSED = {
    "patches": (LaMORegressor(width=8, depth=1), ["9 points", "20", "geometry='points'", "LaMORegressor"]),
    "GeoMaNO": (GeoMaNORegressor(width=8, depth=1), ["GeoMaNORegressor", "'grid'", "MNORegressor"]),
    "a spectral decoder": (small("galerkin", host__decoder="spectral"), ["geometry='points'", "OFormer()"]),
    "scans along axes": (small("gnot", mixer__scan_directions="cross"), ["geometry='points'"]),
    "scales of single points": (small(scaling__inputs="point"), ["scaling__inputs='point'", "'channel'"]),
    "target scales of single points": (small(scaling__targets="point"), ["scaling__targets='point'", "'channel'"]),
    "symmetries": (small(symmetries=["flip_x"]), ["symmetries=None"]),
    "averaged symmetries": (
        small(symmetries=SymmetryOptions(names=["flip_x"], average_predictions=True)),
        ["symmetries=None"],
    ),
    "drawn points": (small("lamo", training__subsample_points=5), ["training__subsample_points=5", "set it to None"]),
}


def test_what_needs_the_points_of_the_inputs_is_refused_before_training(untrained, subtests):
    for name in REFUSED:
        for label, y in {"shared": SHARED, "own": OWN, "ragged": RAGGED}.items():
            with subtests.test(label, name=name):
                model, words = REFUSED[name]
                model = clone(model)
                with pytest.raises(FieldDataError, match="y is on other points than X") as error:
                    model.fit(X, y)
                assert not hasattr(model, "module_")
                for word in words if y is SHARED else []:
                    assert word in str(error.value)


def test_resampling_is_refused_before_training(untrained):
    for model in (small(grid="auto"), GeoMaNORegressor(grid=(8, 8))):
        with pytest.raises(FieldDataError, match=r"y is on other points than X.*grid=None"):
            model.fit(RAGGED_X, RAGGED)


def test_a_failed_fit_leaves_the_earlier_one():
    model = small().fit(X, SHARED)
    expected = model.predict(X).values
    with pytest.raises(FieldDataError):
        model.set_params(symmetries=["flip_x"]).fit(X, OWN)
    np.testing.assert_array_equal(model.set_params(symmetries=None).predict(X).values, expected)


# ---------------------------------------------------------------------- meshes
def mesh(side, seed, field):
    """Triangles of a square, whose points form no grid, with a field."""
    x, y = (axis.ravel() for axis in np.meshgrid(*[np.linspace(0, 1, side)] * 2, indexing="ij"))
    points = np.stack([x + 0.05 * np.sin(9 * y + seed), y + 0.05 * np.cos(7 * x), np.zeros_like(x)], axis=1)
    corner = np.arange(side**2).reshape(side, side)[:-1, :-1].ravel()
    cells = [
        np.stack([corner, *rest], axis=1)
        for rest in ((corner + side, corner + side + 1), (corner + side + 1, corner + 1))
    ]
    cells = np.concatenate(cells)
    return meshio.Mesh(points, [("triangle", cells)], point_data={field: 1 + seed + points[:, 0]})


def test_meshes_of_targets_may_be_others():
    inputs = [mesh(5, seed, "load") for seed in range(4)]
    targets = [mesh(4, seed, "stress") for seed in range(4)]
    model = small("lamo", input_fields=["load"], target_fields=["stress"], geometry="auto").fit(inputs, targets)
    assert model.spec_.target_points == "own"
    with pytest.raises(FieldDataError, match="coords=X"):
        model.predict(inputs)
    places = [item.points[:, :2] for item in targets]
    predicted = model.predict(inputs, coords=places)
    truth = FieldSet(np.stack(places), np.stack([1 + seed + item[:, :1] for seed, item in enumerate(places)]))
    assert model.score(inputs, targets) == pytest.approx(1 - relative_l2_error(truth.values, predicted.values))
    order = np.arange(25)[::-1]
    shuffled = mesh(5, 0, "stress")
    shuffled = meshio.Mesh(
        shuffled.points[order], [("triangle", order[shuffled.cells[0].data])], point_data={"stress": np.ones(25)}
    )
    with pytest.raises(FieldDataError, match="another order"):
        model.fit(inputs[:1], [shuffled])
