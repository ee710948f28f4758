"""A warm start goes on with the network of the last fit, and refuses parameters and columns that it does not have."""

import copy
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skop
from skop import (
    EnsembleRegressor,
    FieldSet,
    GeoMaNORegressor,
    LaMORegressor,
    RolloutRegressor,
    ScalingOptions,
    TimeConditionedRegressor,
    TrainingOptions,
)
from skop.data import unit_grid
from skop.exceptions import ModelFileError, SkopWarning
from skop.parts import GridSSD, Hydra, Patches

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((6, 6, 5, 2))
Y = X[..., :1] * X[..., 1:]
POINTS = RANDOM.random((7, 2)), RANDOM.standard_normal((6, 7, 2))
SIZES = {"width": 8, "depth": 1, "batch_size": 4, "max_iter": 2, "random_state": 0}

CHANGES = {
    "width": {"width": 16},
    "depth": {"depth": 2},
    "dropout": {"dropout": 0.2},
    "patch size": {"patches__size": 3},
    "precision": {"dtype": "float64"},
    "scaling": {"scaling__targets": None},
    "scaling object": {"scaling": ScalingOptions(inputs=None)},
    "activation": {"scan__activation": "silu"},
    "part": {"patches": Patches(conv_channels=4)},
    "other kind of part": {"scan": Hydra()},
    "geometry": {"geometry": "points"},
    "grid": {"grid": (8, 8)},
}
FREE = {
    "epochs and rate": {"max_iter": 1, "learning_rate_init": 1e-4, "batch_size": 2, "max_time": 60.0},
    "stopping": {"early_stopping": True, "training__n_iter_no_change": 2, "training__validation_fraction": 0.4},
    "training": {"weight_decay": 0.0, "training__ema_decay": None, "training__tol": 0.1},
    "loss": {"loss": "mse"},
    "rest": {"random_state": 7, "verbose": False, "device": "cpu", "refinement": "native", "symmetries": ["flip_x"]},
    "defaults written out": {"patches": Patches(), "scan": GridSSD(), "scaling": ScalingOptions()},
    "same values in other kinds": {"scan__decay_range": [0.05, 1.0], "width": np.int64(8)},
    "options of training": {"training": TrainingOptions(beta_2=0.9)},
}


def fitted(**params):
    return LaMORegressor().set_params(**SIZES, warm_start=True, **params).fit(X, Y)


def test_changed_parameters_of_the_network_are_named(tmp_path, subtests):
    first = fitted(base=None)
    for name, changes in CHANGES.items():
        (parameter,) = changes
        for path in [None, "pickle", "file"] if name in ("activation", "geometry", "scaling") else [None]:
            with subtests.test(name=name, path=path):
                model = copy.deepcopy(first)
                if path == "pickle":
                    model = pickle.loads(pickle.dumps(model))
                if path == "file":
                    model.save(tmp_path / "model.skop")
                    model = skop.load(tmp_path / "model.skop")
                expected = model.predict(X)
                with pytest.raises(ValueError, match=rf"{parameter}.* from .* to .*warm_start=False"):
                    model.set_params(**changes).fit(X, Y)
                np.testing.assert_array_equal(model.predict(X), expected)
                assert model.set_params(warm_start=False).fit(X, Y).n_iter_ == 2


def test_parameters_of_the_training_may_change(subtests):
    first = fitted(base=None)
    for name in FREE:
        with subtests.test(name):
            model = copy.deepcopy(first).set_params(**FREE[name]).fit(X, Y)
            assert model.n_iter_ == 2 + FREE[name].get("max_iter", 2)


def test_parameters_without_effect_on_the_geometry_may_change():
    model = fitted().set_params(latents__n_tokens=8)
    with pytest.warns(skop.exceptions.SkopWarning, match="latents"):
        assert model.fit(X, Y).n_iter_ == 4
    points = LaMORegressor(**SIZES, warm_start=True).fit(POINTS, POINTS[1])
    with pytest.raises(ValueError, match="latents__n_tokens from 32 to 8"):
        points.set_params(latents__n_tokens=8).fit(POINTS, POINTS[1])


def test_values_changed_in_place_are_noticed():
    held = [0.05, 1.0]
    model = fitted(scan__decay_range=held)
    held[0] = 0.5
    with pytest.raises(ValueError, match=r"scan__decay_range from \[0.05, 1.0\] to \[0.5, 1.0\]"):
        model.fit(X, Y)


def test_the_other_operator():
    model = GeoMaNORegressor(width=8, depth=1, max_iter=1, warm_start=True, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="mixer__correction from 'learnable' to None"):
        model.set_params(mixer__correction=None).fit(X, Y)


def test_data_of_another_kind_are_named():
    model = fitted()
    with pytest.raises(ValueError, match="number of channels of X was 2 and is 3"):
        model.fit(np.concatenate([X, Y], axis=-1), Y)
    named = FieldSet(unit_grid((6, 5)), X.reshape(6, 30, 2), channel_names=["a", "b"])
    with pytest.raises(ValueError, match="form of X was 'grid' and is 'fieldset'"):
        model.fit(named, Y)


def test_columns_of_a_table_are_those_of_the_first_fit():
    table = pd.DataFrame(RANDOM.random((8, 3)), columns=["a", "b", "c"])
    model = LaMORegressor(**SIZES, warm_start=True).fit(table, table["a"])
    expected = model.predict(table)
    with pytest.raises(ValueError, match="feature names"):
        model.fit(table[["c", "b", "a"]], table["a"])
    np.testing.assert_array_equal(model.predict(table), expected)
    assert model.fit(table, table["a"]).n_iter_ == 4


@pytest.mark.parametrize("name", ["activation", "geometry", "scaling"])
def test_a_file_is_not_written_for_parameters_that_are_not_those_of_the_fit(name, tmp_path):
    model = fitted().set_params(**CHANGES[name])
    with pytest.raises(ModelFileError, match=next(iter(CHANGES[name]))):
        model.save(tmp_path / "model.skop")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- the training goes on
LINEAR = {"width": 8, "depth": 1, "random_state": 0, "batch_size": 6}


def continued(model, epochs):
    return model.set_params(max_iter=epochs).fit(X, Y)


def with_columns(*columns):
    table = np.random.default_rng(3).random((12, 2))
    return np.column_stack([table[:, 0], *(held(table[:, 1]) for held in columns)])


def test_data_that_the_scaling_of_the_first_fit_does_not_suit(subtests):
    """A parameter that was constant is not scaled, and may have any size when it varies later."""
    for first, later, named in [
        (lambda x: 0 * x + 1e6, lambda x: 1e6 * (1 + x), r"parameter 1 of X \(.*e\+0[56]\)"),
        (lambda x: 0 * x + 1e-6, lambda x: 1e-6 * x, r"parameter 1 of X \(.*e-07\)"),
        (lambda x: x, lambda x: 1e4 * x, r"parameter 1 of X \(.*e\+04\)"),
        (lambda x: 0 * x + 5, lambda x: 5 + x, None),
        (lambda x: 0 * x + 5, lambda x: 0 * x + 5, None),
        (lambda x: x, lambda x: 0 * x + 0.4, None),
        (lambda x: x, lambda x: 0.5 + 1e-4 * x, None),
    ]:
        with subtests.test(first=first, later=later):
            X, X2 = with_columns(first), with_columns(later)
            y = np.stack([X[:, 0], X[:, 0] ** 2], axis=1)[..., None]
            places = np.array([[0.0], [1.0]])
            model = LaMORegressor(width=8, depth=1, max_iter=1, base=None, warm_start=True, random_state=0)
            scale = model.fit(X, (places, y)).scalers_.params.scale_
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.fit(X2, (places, y))
            messages = [str(item.message) for item in caught if "keeps the scaling" in str(item.message)]
            np.testing.assert_array_equal(model.scalers_.params.scale_, scale)
            assert len(messages) == bool(named)
            assert named is None or re.search(named, messages[0])


def test_fields_that_the_scaling_of_the_first_fit_does_not_suit():
    other = Y.copy()
    other[..., 0] = 7.0
    for options in ({}, {"scaling": ScalingOptions(inputs="point", targets="point")}):
        model = LaMORegressor(**SIZES | {"max_iter": 1}, base=None, warm_start=True, **options).fit(X, other)
        with pytest.warns(SkopWarning, match=r"those of channel 0 of y \(.*\) are not") as caught:
            model.fit(X, 7 + 1e4 * Y)
        assert caught[0].filename == __file__


def test_two_fits_at_a_constant_rate_are_one_long_fit():
    options = {"training__schedule": "constant", "training__warmup_fraction": 0.0, "warm_start": True}
    whole = LaMORegressor(max_iter=4).set_params(**LINEAR, **options).fit(X, Y)
    model = LaMORegressor(max_iter=2).set_params(**LINEAR, **options).fit(X, Y)
    # All samples are one batch, so that only their order differs.
    np.testing.assert_allclose(continued(model, 2).predict(X), whole.predict(X), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(model.loss_curve_, whole.loss_curve_, rtol=1e-5)
    anew = LaMORegressor(max_iter=2).set_params(**LINEAR, **options | {"warm_start": False}).fit(X, Y)
    start = anew.set_params(warm_start=True)
    assert not np.allclose(continued(start, 2).predict(X), whole.predict(X), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("path", [None, "file"])
def test_one_more_epoch_hardly_moves_a_finished_model(path, tmp_path):
    model = LaMORegressor(**SIZES | {"max_iter": 8, "batch_size": 1}, warm_start=True).fit(X, Y)
    if path == "file":
        model.save(tmp_path / "model.skop")
        model = skop.load(tmp_path / "model.skop")
    before, score = model.predict(X), model.score(X, Y)
    continued(model, 1)
    assert model.n_iter_ == 9
    assert np.linalg.norm(model.predict(X) - before) < 0.02 * np.linalg.norm(before)
    assert model.score(X, Y) > score - 0.005


def test_a_pickle_goes_on_as_the_estimator_does_and_a_file_starts_its_moments_anew(tmp_path):
    model = LaMORegressor(**SIZES, warm_start=True).fit(X, Y)
    pickled = pickle.loads(pickle.dumps(model))
    model.save(tmp_path / "model.skop")
    loaded = skop.load(tmp_path / "model.skop")
    cold = LaMORegressor(**SIZES).fit(X, Y)
    cold.save(tmp_path / "cold.skop")
    sizes = [(tmp_path / name).stat().st_size for name in ("model.skop", "cold.skop")]
    assert abs(sizes[0] - sizes[1]) < 100
    expected = continued(model, 2).predict(X)
    np.testing.assert_array_equal(continued(pickled, 2).predict(X), expected)
    assert not np.array_equal(continued(loaded, 2).predict(X), expected)


def test_nothing_is_kept_without_warm_start():
    model = LaMORegressor(**SIZES).fit(X, Y)
    size = len(pickle.dumps(model))
    warm = model.set_params(warm_start=True).fit(X, Y)
    assert len(pickle.dumps(warm)) > 2 * size
    assert len(pickle.dumps(clone(warm))) < size
    assert len(pickle.dumps(warm.set_params(warm_start=False).fit(X, Y))) < 1.1 * size


def test_a_failed_fit_leaves_the_end_of_the_last_one():
    model = LaMORegressor(**SIZES, warm_start=True).fit(X, Y)
    other = pickle.loads(pickle.dumps(model))

    def broken(prediction, target, **options):
        raise RuntimeError("broken loss")

    with pytest.raises(RuntimeError, match="broken loss"):
        model.set_params(loss=broken).fit(X, Y)
    model.set_params(loss="auto")
    np.testing.assert_array_equal(continued(model, 1).predict(X), continued(other, 1).predict(X))


WRAPPERS = {
    "rollout": lambda inner: RolloutRegressor(inner, window=2, unroll=2),
    "times": lambda inner: TimeConditionedRegressor(inner, times=2),
    "ensemble": lambda inner: EnsembleRegressor(inner, n_members=2, random_state=0),
    "ensemble of rollouts": lambda inner: EnsembleRegressor(
        RolloutRegressor(inner, window=2), n_members=2, random_state=0
    ),
}


def innermost(model):
    """The operators of a fitted estimator."""
    if isinstance(model, EnsembleRegressor):
        return [operator for member in model.estimators_ for operator in innermost(member)]
    return innermost(model.estimator_) if hasattr(model, "estimator_") else [model]


@pytest.mark.parametrize("name", [*[*WRAPPERS][:3], pytest.param("ensemble of rollouts", marks=pytest.mark.exhaustive)])
def test_fits_of_estimators_that_wrap_others_go_on(name):
    """Steps of rate zero leave the network as it was; the learning rate and the record are those of one training."""
    frames = np.concatenate([Y, 2 * Y], axis=-1)
    options = SIZES | {"warm_start": True, "training__ema_decay": None}
    model = WRAPPERS[name](LaMORegressor().set_params(**options)).fit(X, frames)
    before, earlier = model.predict(X), innermost(model)
    prefix = next(key for key in model.get_params() if key.endswith("width")).removesuffix("width")
    model.set_params(**{f"{prefix}learning_rate_init": 1e-30}).fit(10 * X, frames)
    assert [operator.n_iter_ for operator in innermost(model)] == [4] * len(earlier)
    assert [operator.n_iter_ for operator in earlier] == [2] * len(earlier)  # what the user still holds
    np.testing.assert_allclose(model.predict(X), before, rtol=1e-5, atol=1e-6)
    assert model.check(np.concatenate([X, 10 * X])).empty
    with pytest.raises(ValueError, match=r"width from 8 to 16"):
        model.set_params(**{f"{prefix}width": 16}).fit(X, frames)
    larger, targets = (np.repeat(part, 2, axis=1) for part in (X, frames))
    with pytest.raises(ValueError, match=r"warm_start goes on with data of the same kind"):
        model.set_params(**{f"{prefix}width": 8}).fit(larger, targets)
    np.testing.assert_allclose(model.predict(X), before, rtol=1e-5, atol=1e-6)
    cold = model.set_params(**{f"{prefix}warm_start": False}).fit(X, frames)
    assert [operator.n_iter_ for operator in innermost(cold)] == [2] * len(earlier)
