"""What all operator regressors share: splits, weights, losses, precision, validation, records of a fit."""

import copy
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skop
import skop.estimators.operators._operator
import skop.surrogate._surrogate
from skop import FieldSet, LaMORegressor, ScalingOptions
from skop.data import Batch, unit_grid
from skop.estimators.fitting._objective import trainer_config
from skop.estimators.operators._operator import OperatorRegressor
from skop.exceptions import FieldDataError, SkopWarning, TrainingDivergedError
from skop.losses import RelativeL2Loss
from skop.metrics import neg_relative_l2_scorer
from skop.training import DIRECT_TRAINING

GRID = (6, 4)


def make_data(n_samples=8, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_samples, *GRID, 2))
    return X, 2 + X[..., :1] * X[..., 1:]


def small(**params):
    return LaMORegressor().set_params(
        **({"width": 8, "depth": 1, "batch_size": 4, "max_iter": 2, "random_state": 0} | params)
    )


@cache
def fitted_once():
    """A fit to the data that tests only read."""
    return small().fit(*make_data())


def zero_network(estimator, bias=0.0):
    """Make the network of a fitted estimator predict a constant, before the scalers."""
    with torch.no_grad():
        for parameter in estimator.module_.parameters():
            parameter.zero_()
        if bias:
            estimator.module_.unembedding.linear.bias.fill_(bias)
    return estimator


# ---------------------------------------------------------------- learning
def test_a_local_map_is_learned():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(64, *GRID, 1))
    y = 1.5 * X + np.roll(X, 1, axis=2)
    estimator = small(width=16, batch_size=12, max_iter=15, learning_rate_init=2e-2, base=None).fit(X[:48], y[:48])
    assert estimator.score(X[48:], y[48:]) > 0.6
    assert estimator.loss_curve_[-1] < 0.5 * estimator.loss_curve_[0]


def test_automatic_batches_shrink_on_large_grids_down_to_eight_samples_where_memory_allows():
    model = small(batch_size="auto", max_iter=1).fit(*make_data())
    for points, samples in ((16**2, 16), (800, 10), (32**2, 8), (85**2, 8), (2**14, 8), (2**15, 4), (2**16, 2)):
        fields = FieldSet(np.zeros((points, 2)), np.zeros((128, points, 0)))
        assert trainer_config(model, fields, DIRECT_TRAINING).batch_size == samples
    few = FieldSet(np.zeros((85**2, 2)), np.zeros((16, 85**2, 0)))
    assert trainer_config(model, few, DIRECT_TRAINING).batch_size == 2


def test_parameters_move_the_predicted_field():
    grid = unit_grid(GRID).reshape(*GRID, 2)
    params = np.linspace(-1, 1, 24)[:, None]
    y = params[:, None, None] * grid[..., :1] + 0.5
    estimator = small(width=16, batch_size=12, max_iter=20, learning_rate_init=2e-2, base=None).fit(params[::2], y[::2])
    assert estimator.score(params[1::2], y[1::2]) > 0.7


def test_a_network_of_zeros_predicts_the_mean_of_the_targets():
    X, y = make_data()
    estimator = zero_network(copy.deepcopy(fitted_once()))
    np.testing.assert_allclose(estimator.predict(X), np.full_like(y, y.mean()), rtol=1e-6)


def test_each_target_channel_keeps_its_own_scale():
    X, y = make_data()
    y = np.concatenate([y, 1e4 * y + 5e4, 1e-4 * y], axis=-1)
    estimator = zero_network(small().fit(X, y))
    expected = np.broadcast_to(y.mean(axis=(0, 1, 2)), y.shape)
    np.testing.assert_allclose(estimator.predict(X), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the mean of y:skop.exceptions.SkopWarning")
def test_predictions_keep_their_digits_far_from_zero(subtests):
    """A float32 has steps of 8 at 1e8: the network's outputs must be shifted back in double precision."""
    for c in [2e3, 1e6, 1e8]:
        for scalars in [False, True]:
            with subtests.test(c=c, scalars=scalars):
                X, y = make_data(12)
                X, y = (X[:, 0, 0], y[:, 0, 0, 0]) if scalars else (X, y)
                model = small(dtype="float32", base=None, max_iter=1).fit(X, y + c)
                found = model.predict(X)
                assert len(np.unique(found)) == found.size
                scaler = model.scalers_.scalars if scalars else model.scalers_.target
                with torch.inference_mode():
                    batch = next(
                        iter(model.surrogate_.loader(model._read_inputs(X)[0]).batches(len(X), np.arange(len(X))))
                    )
                    raw = model.module_(**batch.inputs())
                raw = (raw.scalars if scalars else raw.field).double().numpy().reshape(found.shape)
                expected = raw * scaler.scale_.item() + (scaler.mean_.item() - c)
                np.testing.assert_allclose(found - c, expected, atol=1e-7 * scaler.scale_.item() + 1e-15 * c)


@pytest.mark.parametrize(("c", "dtype", "warns"), [(1e3, "float32", 0), (1e6, "float32", 1), (1e6, "float64", 0)])
def test_a_fit_warns_of_targets_far_from_zero(c, dtype, warns):
    X, y = make_data()
    # A channel that is constant has no variation to lose.
    y = np.concatenate([y + c, np.full_like(y, 1e9)], axis=-1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        small(dtype=dtype, max_iter=1).fit(X, y)
    said = [item for item in caught if "single precision" in str(item.message)]
    assert len(said) == warns
    assert all(item.filename == __file__ for item in said)


# ---------------------------------------------------------------- records
def test_what_a_fit_records():
    X, y = make_data()
    estimator = small(max_iter=4).fit(X, y)
    assert estimator.n_iter_ == len(estimator.loss_curve_) == estimator.best_iter_ == 4
    assert estimator.validation_scores_ == []
    assert estimator.stopped_ == "max_iter"
    assert estimator.fit_seconds_ > 0
    assert estimator.n_features_in_ == 2
    assert estimator.device_ == torch.device("cpu") or torch.cuda.is_available()
    assert estimator.dtype_ == "float32"
    assert not estimator.module_.training
    assert not [name for name in vars(estimator) if name.endswith("_") and name.startswith("_")]


def test_a_table_after_fields_has_its_own_feature_counts_and_names():
    pandas = pytest.importorskip("pandas")
    X, y = make_data()
    table = pandas.DataFrame(np.random.default_rng(0).normal(size=(8, 3)), columns=["a", "b", "c"])
    estimator = small().fit(table, np.arange(8.0))
    assert estimator.n_features_in_ == 3
    assert list(estimator.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(table[["c", "b", "a"]])
    estimator.fit(X, y)
    assert estimator.n_features_in_ == 2
    assert not hasattr(estimator, "feature_names_in_")


def test_the_first_loss_is_that_of_the_untrained_network():
    X, y = make_data()
    # One batch and one epoch: the recorded loss is the loss before the only step.
    params = {"loss": "relative_l2", "max_iter": 1, "batch_size": 8, "training__ema_decay": None, "dtype": "float64"}
    estimator = small(**params).fit(X, y)
    untrained = small(**params, learning_rate_init=1e-300).fit(X, y).predict(X)
    errors = np.linalg.norm((untrained - y).reshape(8, -1), axis=1) / np.linalg.norm(y.reshape(8, -1), axis=1)
    np.testing.assert_allclose(estimator.loss_curve_, [errors.mean()], rtol=1e-10)
    summed = small(**params, training__loss_reduction="sum").fit(X, y)
    np.testing.assert_allclose(summed.loss_curve_, [errors.sum()], rtol=1e-10)


def test_every_loss_fits(subtests):
    for loss in ["mse", "relative_l2", "relative_l2_gradient", "sobolev", RelativeL2Loss(reduction="sum")]:
        with subtests.test(loss=loss):
            X, y = make_data()
            estimator = small(loss=loss, max_iter=1).fit(X, y)
            assert np.isfinite(estimator.loss_curve_).all()


def test_a_loss_of_ones_own_sees_physical_units_and_the_grid():
    X, y = make_data()
    seen = {}

    def loss(prediction, target, *, sample_weight, grid_shape, spacing):
        seen.update(target=target, grid=grid_shape, spacing=spacing, weight=sample_weight)
        return ((prediction - target) ** 2).mean()

    small(loss=loss, batch_size=8, max_iter=1).fit(X, y, sample_weight=np.full(8, 2.0))
    np.testing.assert_allclose(np.sort(seen["target"].numpy().ravel()), np.sort(y.ravel()), rtol=1e-6)
    assert seen["grid"] == GRID
    np.testing.assert_allclose(seen["spacing"], (1 / 5, 1 / 3))
    assert seen["weight"].tolist() == [2.0] * 8


# ---------------------------------------------------------------- weights and splits
def test_weight_decay_makes_weights_smaller():
    X = np.random.default_rng(0).normal(size=(8, *GRID, 1))
    plain, decayed = (small(weight_decay=decay, learning_rate_init=0.01).fit(X, X).module_ for decay in (0.0, 5.0))
    sizes = [sum(float(part.detach().square().sum()) for part in one.parameters()) for one in (plain, decayed)]
    assert sizes[1] < 0.95 * sizes[0]


def test_early_stopping_keeps_the_best_weights():
    X, y = make_data(24)
    # The score of a network over a base, which has a share, is another one.
    options = {"training__validation_fraction": 0.25, "max_iter": 12, "training__n_iter_no_change": 3}
    estimator = small(early_stopping=True, base=None, **options).fit(X, y)
    scores = estimator.validation_scores_
    assert estimator.best_iter_ == 1 + int(np.argmax(scores))
    assert len(scores) == estimator.n_iter_
    # The six validation samples are the first of a seeded permutation.
    held_out = np.sort(np.random.RandomState(0).permutation(24)[:6])
    np.testing.assert_allclose(estimator.score(X[held_out], y[held_out]), max(scores), rtol=1e-6)


def test_early_stopping_ends_a_fit_that_does_not_improve():
    X, y = make_data(12)
    estimator = small(early_stopping=True, training__n_iter_no_change=2, max_iter=50, training__tol=10.0).fit(X, y)
    assert estimator.stopped_ == "early_stopping"
    assert estimator.n_iter_ == 3


def test_validation_samples_do_not_reach_the_scalers_or_the_loss():
    X, y = make_data(8)
    held_out = np.sort(np.random.RandomState(0).permutation(8)[:2])
    wild = y.copy()
    wild[held_out] *= 1e3
    params = {"early_stopping": True, "training__validation_fraction": 0.25, "max_iter": 1}
    calm, changed = small(**params).fit(X, y), small(**params).fit(X, wild)
    np.testing.assert_array_equal(calm.predict(X), changed.predict(X))
    assert calm.validation_scores_ != changed.validation_scores_


def test_samples_of_weight_zero_are_not_drawn_for_validation():
    X, y = make_data(8)
    weight = np.array([1, 1, 0, 0, 0, 0, 1, 1.0])
    y[2:6] = 1e3
    estimator = small(early_stopping=True, training__validation_fraction=0.5, max_iter=2)
    assert estimator.fit(X, y, sample_weight=weight).validation_scores_ == (
        estimator.fit(X[weight > 0], y[weight > 0]).validation_scores_
    )


def test_validation_on_zero_fields_takes_the_absolute_error():
    X, y = make_data(8)
    estimator = small(early_stopping=True, training__validation_fraction=0.5, loss="mse").fit(X, 0 * y)
    assert np.isfinite(estimator.validation_scores_).all()


def test_scalar_validation_is_the_score_of_the_set():
    X, _ = make_data(12)
    y = X[:, 0, 0, 0]
    estimator = small(base=None, early_stopping=True, training__validation_fraction=0.25, max_iter=4).fit(X, y)
    held_out = np.sort(np.random.RandomState(0).permutation(12)[:3])
    np.testing.assert_allclose(estimator.score(X[held_out], y[held_out]), max(estimator.validation_scores_), rtol=1e-6)


# ---------------------------------------------------------------- predict
def test_the_size_of_the_batches_of_predict_does_not_matter(monkeypatch, subtests):
    X, y = make_data()
    for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-12)):
        estimator = small(dtype=dtype).fit(X, y)
        expected = estimator.predict(X)
        for points in (1, 24, 60, 10**6):
            with subtests.test(dtype=dtype, points=points):
                monkeypatch.setattr(skop.surrogate._surrogate, "PREDICT_POINTS", points)
                found = estimator.predict(X)
                np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_predict_gives_independent_arrays():
    X, _ = make_data()
    estimator = fitted_once()
    first = estimator.predict(X)
    kept = first.copy()
    second = estimator.predict(X)
    first[...] = 0
    np.testing.assert_array_equal(second, kept)


def test_cells_and_own_coordinates_come_back_with_a_field_set():
    X, y = make_data()
    shifted = unit_grid(GRID)[None] + np.arange(8.0)[:, None, None]
    fields = FieldSet(shifted, X.reshape(8, 24, 2), grid_shape=GRID)
    targets = FieldSet(shifted, y.reshape(8, 24, 1), grid_shape=GRID)
    predicted = small().fit(fields, targets).predict(fields)
    np.testing.assert_array_equal(predicted.coords, shifted)
    assert predicted.grid_shape == GRID


def test_the_position_of_a_grid_of_its_own_matters():
    X, y = make_data()
    box = unit_grid(GRID)
    fields = FieldSet(box[None] + np.arange(8.0)[:, None, None], X.reshape(8, 24, 2), grid_shape=GRID)
    estimator = small().fit(fields, y)
    elsewhere = FieldSet(box[None] + np.arange(8.0)[::-1, None, None], X.reshape(8, 24, 2), grid_shape=GRID)
    assert np.abs(estimator.predict(elsewhere) - estimator.predict(fields)).max() > 1e-3


# ---------------------------------------------------------------- precision, symmetries, interruption
@pytest.mark.parametrize(("dtype", "expected"), [("auto", "float32"), ("float32", "float32"), ("float64", "float64")])
def test_precision_of_the_weights(dtype, expected):
    X, y = make_data()
    estimator = small(dtype=dtype, max_iter=1).fit(X, y)
    assert {parameter.dtype for parameter in estimator.module_.parameters()} == {getattr(torch, expected)}


def test_bfloat16_autocast_trains_and_predicts_near_full_precision():
    X, y = make_data()
    low, full = small(training__autocast="bfloat16").fit(X, y), fitted_once()
    assert next(low.module_.parameters()).dtype == torch.float32
    assert low.loss_curve_ != full.loss_curve_
    np.testing.assert_allclose(low.loss_curve_, full.loss_curve_, rtol=0.05)


def test_symmetries_change_the_training_and_are_repeatable():
    X, y = make_data()
    plain, turned, again = (small(symmetries=names).fit(X, y) for names in (None, ["flip_x"], ["flip_x"]))
    assert plain.loss_curve_ != turned.loss_curve_
    assert turned.loss_curve_ == again.loss_curve_


def test_symmetries_leave_a_symmetric_sample_alone():
    X, y = np.ones((4, *GRID, 1)), np.full((4, *GRID, 1), 2.0)
    X[1::2], y[1::2] = 3.0, 5.0
    plain, turned = (
        small(symmetries=names, batch_size=4, max_iter=1).fit(X, y) for names in (["shift_y"], ["flip_x", "shift_y"])
    )
    np.testing.assert_allclose(turned.loss_curve_, plain.loss_curve_, rtol=1e-6)
    # Without shifts, convolutions take zeros outside the grid.
    plain, turned = (small(symmetries=names, batch_size=4, max_iter=1).fit(X, y) for names in (None, ["flip_x"]))
    np.testing.assert_allclose(turned.loss_curve_, plain.loss_curve_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:training was interrupted")
def test_an_interrupted_fit_can_predict():
    X, y = make_data()
    calls = []

    def loss(prediction, target, **options):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return ((prediction - target) ** 2).mean()

    estimator = small(loss=loss, batch_size=8, max_iter=50).fit(X, y)
    assert estimator.stopped_ == "interrupted"
    assert estimator.n_iter_ == 4
    assert np.isfinite(estimator.predict(X)).all()


def test_a_part_that_is_none_has_the_parameters_of_its_usual_one():
    model = LaMORegressor()
    assert model.set_params(**model.get_params()).latents is None
    assert model.set_params(latents=None, latents__n_tokens=64).latents.n_tokens == 64
    with pytest.raises(ValueError, match="Invalid parameter 'n_slices' for estimator LatentTokens"):
        model.set_params(latents=None, latents__n_slices=None)


def test_a_failed_first_fit_leaves_no_half_fitted_estimator():
    X, y = make_data()
    estimator = small(scan__n_heads=3)
    with pytest.raises(ValueError, match="n_heads"):
        estimator.fit(X, y)
    with pytest.raises(Exception, match="not fitted"):
        estimator.predict(X)


def test_a_run_that_diverges_warns_and_then_raises():
    X, y = make_data()

    def loss(prediction, target, **options):
        return prediction.sum() * np.nan

    from skop.exceptions import TrainingDivergedError

    with (
        pytest.warns(SkopWarning, match="half the learning rate"),
        pytest.raises(TrainingDivergedError, match="epoch 1"),
    ):
        small(loss=loss).fit(X, y)


# ---------------------------------------------------------------- scikit-learn around it
def test_in_a_pipeline_with_a_table_and_in_a_search_with_a_scorer_of_fields():
    X, y = make_data()
    table = X.reshape(8, -1)[:, :3]
    pipeline = make_pipeline(StandardScaler(), small()).fit(table, y)
    assert pipeline.predict(table).shape == y.shape
    search = GridSearchCV(small(), {"width": [4, 8]}, scoring=neg_relative_l2_scorer, cv=2).fit(X, y)
    assert search.best_params_["width"] in (4, 8)
    assert search.best_score_ <= 0


def test_score_ranks_like_any_regressor_on_a_table():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 3))
    y = X @ [1.0, -2.0, 0.5]
    # From the mean to an exact law; a network alone, since its base would be exact too.
    network = small(base=None, width=16, batch_size=20, max_iter=30, learning_rate_init=2e-2)
    models = [
        clone(network).set_params(max_iter=1),
        network,
        skop.PODRegressor(regressor="ridge"),
        skop.MeanFieldRegressor(),
    ]
    models = [model.fit(X[:40], y[:40]) for model in models]
    scores = [model.score(X[40:], y[40:]) for model in models]
    expected = [r2_score(y[40:], model.predict(X[40:])) for model in models]
    assert np.argsort(scores).tolist() == np.argsort(expected).tolist() == [3, 0, 1, 2]
    assert scores[1] > 0.8


def test_the_base_builds_no_network():
    with pytest.raises(NotImplementedError):
        OperatorRegressor()._build_network(None, "grid")


def test_the_fitted_estimator_shows_itself_without_its_weights():
    estimator = fitted_once()
    assert len(repr(estimator)) < 500
    assert "LaMORegressor" in estimator._repr_html_()
    assert isinstance(pickle.dumps(estimator), bytes)


def test_a_batch_counts_its_samples():
    coords = torch.zeros(24, 2)
    assert len(Batch(coords, torch.zeros(3, 24, 1), None, GRID)) == 3
    assert len(Batch(coords, None, torch.zeros(5, 2), GRID)) == 5
    assert len(Batch(torch.zeros(4, 24, 2), None, None, GRID)) == 4


# ---------------------------------------------------------------- fits that fail
def failing_loss(prediction, target, **_):
    raise RuntimeError("a loss of someone's own")


FAILURES = {
    "symmetry that does not exist": ({"symmetries": ["typo"]}, FieldDataError),
    "loss that raises": ({"loss": failing_loss}, RuntimeError),
    "option out of range": ({"training__beta_2": 2.0}, ValueError),
    "divergence": ({"learning_rate_init": 1e30, "training__max_grad_norm": None}, TrainingDivergedError),
}


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_a_fit_that_fails_leaves_the_earlier_fit_whole(subtests):
    X, y = make_data()
    fitted = small(dropout=0.5).fit(X, y)
    expected, epochs = fitted.predict(X), fitted.n_iter_
    for warm_start in [False, True]:
        for name, (changes, error) in FAILURES.items():
            with subtests.test(warm_start=warm_start, name=name):
                model = copy.deepcopy(fitted)
                with pytest.raises(error):
                    model.set_params(warm_start=warm_start, **changes).fit(X, y)
                np.testing.assert_array_equal(model.predict(X), expected)
                assert (model.n_iter_, len(model.loss_curve_)) == (epochs, epochs)
                assert not model.module_.training


def test_a_first_fit_that_fails_leaves_an_unfitted_estimator():
    X, y = make_data()
    model = small(symmetries=["typo"])
    with pytest.raises(FieldDataError):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_the_best_epoch_counts_from_the_first_fit():
    X, y = make_data(12)
    model = small(early_stopping=True, warm_start=True, training__validation_fraction=0.4).fit(X, y).fit(X, y)
    # Both fits hold out the same samples: the weights of the first are kept unless the second finds better ones.
    assert model.validation_scores_[model.best_iter_ - 1] == max(model.validation_scores_)
    assert model.n_iter_ == len(model.validation_scores_) == 4


def test_channels_with_other_names_than_those_of_the_fit_are_refused():
    X, _ = make_data()
    fields = X.reshape(len(X), -1, 2)
    names = (["a", "b"], ["b", "a"], ["a", "c"], None)
    ordered, swapped, other, bare = (FieldSet(unit_grid(GRID), fields, channel_names=each) for each in names)
    model = small(max_iter=1).fit(ordered, ordered)
    for wrong, remedy in ((swapped, "bring them into this order"), (other, "rename channels")):
        with pytest.raises(
            FieldDataError, match=rf"channels of X are .*those of the fit were \['a', 'b'\]; .*{remedy}"
        ):
            model.predict(wrong)
        with pytest.raises(FieldDataError, match="channels of y are"):
            model.score(ordered, wrong)
        with pytest.raises(FieldDataError, match="channels of y_true are"):
            neg_relative_l2_scorer(model, ordered, wrong)
    assert model.score(bare, bare) == model.score(ordered, ordered)
    assert neg_relative_l2_scorer(model, bare, bare) == neg_relative_l2_scorer(model, ordered, ordered)


@pytest.mark.filterwarnings("ignore::skop.exceptions.SkopWarning")
def test_columns_of_a_truth_have_the_names_of_the_fit(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(8, 3))
    y = pandas.DataFrame(X[:, :2] * [1, 100], columns=["drag", "lift"])
    model = small(max_iter=1, warm_start=True).fit(X, y)
    model.save(tmp_path / "model.skop")
    for each in (model, skop.load(tmp_path / "model.skop")):
        with pytest.raises(FieldDataError, match=r"channels of y are \['lift', 'drag'\]"):
            each.score(X, y[["lift", "drag"]])
        assert each.score(X, y) == each.score(X, y.to_numpy())
    assert model.fit(X, y.to_numpy()).n_iter_ == 2


@pytest.mark.parametrize("part", ["inputs", "targets"])
def test_statistics_of_single_points_hold_for_the_points_of_the_fit(part):
    generator = np.random.default_rng(0)
    points, fields, order = generator.random((12, 2)), generator.normal(size=(6, 12, 1)), generator.permutation(12)
    model = small(scaling=ScalingOptions(**{part: "point"}), latents__n_tokens=4).fit((points, fields), fields)
    expected = model.predict((points, fields))
    np.testing.assert_array_equal(model.predict(FieldSet(np.stack([points] * 6), fields)), expected)
    for moved in ((points[order], fields[:, order]), (points + 0.1, fields)):
        with pytest.raises(FieldDataError, match="statistics of each single point"):
            model.predict(moved)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("ragged", [False, True])
def test_predictions_that_are_not_finite_are_refused(ragged):
    """The default fill value of netCDF files, 9.97e36, is finite in the input and no more in the network."""
    generator = np.random.default_rng(0)
    X = [(generator.random((5 + i % ragged_by, 2)), generator.normal(size=(5 + i % ragged_by, 1)))
         for ragged_by in (2 if ragged else 1,) for i in range(6)]  # fmt: skip
    model = small(latents__n_tokens=4).fit(X, [values for _, values in X])
    X[3] = (X[3][0], np.full_like(X[3][1], 9.97e36))
    with pytest.raises(FieldDataError, match="not finite in sample 3"):
        model.predict(X)
    assert np.isfinite(np.concatenate(model.predict(X[:3]))).all()
