"""Checks of the estimator interface: parameters, repeatability, state, and use with the tools of scikit-learn.

Every check takes an unfitted estimator and the number of space dimensions, and raises an AssertionError that describes
the failure. The first line of its docstring states the law that is checked.
"""

import io
import pickle
import random
from functools import partial
from typing import Any

import joblib
import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.utils.validation import check_is_fitted

from skop.data import FieldSet
from skop.testing._samples import (
    Samples,
    configured,
    make_samples,
    require,
    require_close,
    require_error,
    require_identical,
    state_of,
    takes_weights,
    values_of,
)

__all__ = [
    "check_channel_count",
    "check_clone",
    "check_dimension_count",
    "check_failed_predict",
    "check_fit_forgets",
    "check_fit_keeps_inputs",
    "check_fit_repeatable",
    "check_global_randomness",
    "check_model_selection",
    "check_pickle",
    "check_predict_keeps_state",
    "check_score",
    "check_unfitted",
    "check_warm_start",
    "check_weight_repetition",
    "check_weight_zero",
]


def check_clone(estimator: Any, n_dims: int) -> None:
    """Clones have the same parameters and nothing learned; set_params(**get_params()) changes nothing."""
    samples = make_samples(n_dims)
    fitted = configured(estimator).fit(samples.X, samples.y)
    copy = clone(fitted)
    before, after = fitted.get_params(), copy.get_params()
    require(list(before) == list(after), "the clone has other parameter names")
    differing = [name for name in before if repr(before[name]) != repr(after[name])]
    require(not differing, f"the clone differs in {differing}")
    require_error(lambda: check_is_fitted(copy), "", "check_is_fitted(clone)", NotFittedError)
    copy.set_params(**before)
    differing = [name for name, value in copy.get_params().items() if value is not before[name]]
    require(not differing, f"set_params(**get_params()) changed {differing}")


def check_unfitted(estimator: Any, n_dims: int) -> None:
    """Predict before fit raises NotFittedError, and fit returns the estimator itself."""
    samples = make_samples(n_dims)
    fresh = configured(estimator)
    require_error(lambda: fresh.predict(samples.X), "", "predict before fit", NotFittedError)
    require(fresh.fit(samples.X, samples.y) is fresh, "fit returned something else")


def check_pickle(estimator: Any, n_dims: int) -> None:
    """Predictions after pickle and after joblib are equal bit by bit."""
    samples = make_samples(n_dims)
    fitted = configured(estimator).fit(samples.X, samples.y)
    expected = fitted.predict(samples.X)
    require_identical(pickle.loads(pickle.dumps(fitted)).predict(samples.X), expected, "pickle")
    with io.BytesIO() as file:
        joblib.dump(fitted, file)
        file.seek(0)
        require_identical(joblib.load(file).predict(samples.X), expected, "joblib")


def check_fit_repeatable(estimator: Any, n_dims: int) -> None:
    """Two fits with the same random_state are equal bit by bit, and fitting again changes nothing."""
    samples = make_samples(n_dims)
    fitted = configured(estimator).fit(samples.X, samples.y)
    expected = fitted.predict(samples.X)
    again = configured(estimator).fit(samples.X, samples.y).predict(samples.X)
    require_identical(again, expected, "a second estimator")
    require_identical(fitted.fit(samples.X, samples.y).predict(samples.X), expected, "a second fit")


def check_fit_forgets(estimator: Any, n_dims: int) -> None:
    """Fits after a fit on data of another kind equal fresh fits."""
    samples, other = make_samples(n_dims), make_samples(n_dims % 3 + 1, n_channels=1, n_samples=4, seed=1)
    expected = configured(estimator).fit(samples.X, samples.y).predict(samples.X)
    reused = configured(estimator).fit(other.X, other.y)
    require_identical(reused.fit(samples.X, samples.y).predict(samples.X), expected, "after fields of other dimensions")
    reused = configured(estimator).fit(np.arange(12.0).reshape(6, 2), np.arange(6.0))
    require_identical(reused.fit(samples.X, samples.y).predict(samples.X), expected, "after a table")


def check_global_randomness(estimator: Any, n_dims: int) -> None:
    """Fit and predict leave the global random numbers of Python, NumPy and torch as they were."""
    samples = make_samples(n_dims)

    def states() -> list[Any]:
        return [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]  # noqa: NPY002

    before = states()
    configured(estimator).fit(samples.X, samples.y).predict(samples.X)
    changed = [name for name, a, b in zip(("random", "numpy", "torch"), before, states(), strict=True) if a != b]
    require(not changed, f"changed the generator of {changed}")


def check_fit_keeps_inputs(estimator: Any, n_dims: int) -> None:
    """Fit and predict do not write to X, y or the weights."""
    samples = make_samples(n_dims)
    weights = {"sample_weight": np.arange(1.0, 7.0)} if takes_weights(estimator) else {}
    given = {"X": samples.X, "y": samples.y, **weights}
    copies = {name: array.copy() for name, array in given.items()}
    configured(estimator).fit(samples.X, samples.y, **weights).predict(samples.X)
    changed = [name for name, array in given.items() if not np.array_equal(array, copies[name])]
    require(not changed, f"changed {changed}")


def check_predict_keeps_state(estimator: Any, n_dims: int) -> None:
    """Predict and score change no attribute."""
    samples = make_samples(n_dims)
    fitted = configured(estimator).fit(samples.X, samples.y)
    before = state_of(fitted)
    fitted.predict(samples.X[:2])
    require(state_of(fitted) == before, "predict changed an attribute")
    fitted.score(samples.X, samples.y)
    require(state_of(fitted) == before, "score changed an attribute")


def check_failed_predict(estimator: Any, n_dims: int) -> None:
    """Failed predictions change no attribute and spoil no later one."""
    samples = make_samples(n_dims)
    fitted = configured(estimator).fit(samples.X, samples.y)
    before, expected = state_of(fitted), fitted.predict(samples.X)
    broken = samples.X.copy()
    broken[1, ..., 0] = np.nan
    for wrong in (broken, samples.X[..., :1], samples.X[:0], np.zeros(3)):
        require_error(partial(fitted.predict, wrong), "", f"predict on shape {wrong.shape}")
    require(state_of(fitted) == before, "a failed predict changed an attribute")
    require_identical(fitted.predict(samples.X), expected, "predict after failed ones")


def check_channel_count(estimator: Any, n_dims: int) -> None:
    """Predict on other channels than those of the fit raises a ValueError that names both counts."""
    samples = make_samples(n_dims, n_channels=2)
    fitted = configured(estimator).fit(samples.X, samples.y)
    wider = np.concatenate([samples.X] * 2, axis=-1)
    for words in ("4", "2"):
        require_error(lambda: fitted.predict(wider), words, "predict with 4 channels after a fit with 2")


def check_dimension_count(estimator: Any, n_dims: int) -> None:
    """Predict on a grid of other dimensions than those of the fit raises a ValueError."""
    samples, other = make_samples(n_dims), make_samples(n_dims % 3 + 1)
    fitted = configured(estimator).fit(samples.X, samples.y)
    require_error(lambda: fitted.predict(other.X), "dimension", f"predict in {n_dims % 3 + 1}-D after {n_dims}-D")


def check_score(estimator: Any, n_dims: int) -> None:
    """Score is 1 minus the mean relative L2 error; for scalars the norms run over the set."""
    samples = make_samples(n_dims)
    fitted = configured(estimator).fit(samples.X, samples.y)
    error, truth = (samples.flat(part)[..., 0] for part in (fitted.predict(samples.X) - samples.y, samples.y))
    errors = np.linalg.norm(error, axis=1) / np.linalg.norm(truth, axis=1)
    weight = np.arange(6.0)
    expected = [1 - errors.mean(), 1 - weight @ errors / weight.sum()]
    found = [fitted.score(samples.X, samples.y), fitted.score(samples.X, samples.y, sample_weight=weight)]
    require(np.allclose(found, expected, rtol=1e-6), f"score is {found}, expected {expected}")
    scalars = samples.y.mean(axis=tuple(range(1, samples.y.ndim)))
    fitted = configured(estimator).fit(samples.X, scalars)
    error = fitted.predict(samples.X) - scalars
    of_set = 1 - np.linalg.norm(error) / np.linalg.norm(scalars)
    score = fitted.score(samples.X, scalars)
    require(np.isclose(score, of_set, rtol=1e-6), f"score of scalars is {score}, expected {of_set}")


def check_weight_repetition(estimator: Any, n_dims: int) -> None:
    """Integer weights act as repeated samples when a batch holds everything."""
    samples = make_samples(n_dims)
    model = configured(estimator, batch_size=100, dtype="float64")
    weight = np.array([1, 2, 3, 1, 1, 2])
    weighted = model.fit(samples.X, samples.y, sample_weight=weight).predict(samples.X)
    repeated = model.fit(np.repeat(samples.X, weight, axis=0), np.repeat(samples.y, weight, axis=0)).predict(samples.X)
    require_close(weighted, repeated, 1e-5, "weights and repetition")
    plain = model.fit(samples.X, samples.y).predict(samples.X)
    require(not np.allclose(weighted, plain, rtol=1e-9, atol=0), "weights 1, 2, 3 made no difference")


def check_weight_zero(estimator: Any, n_dims: int) -> None:
    """Weights of 0 leave samples out, whatever their size."""
    samples = make_samples(n_dims)
    X, y = samples.X.copy(), samples.y.copy()
    X[::3], y[::3] = 1e6 * X[::3], -1e6 * y[::3]
    weight = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 1.0])
    present = weight > 0
    model = configured(estimator, batch_size=100)
    with_zeros = model.fit(X, y, sample_weight=weight).predict(samples.X)
    without = model.fit(X[present], y[present], sample_weight=weight[present]).predict(samples.X)
    require_close(with_zeros, without, 1e-6, "weight 0 and absence")
    require_error(lambda: model.fit(X, y, sample_weight=0 * weight), "", "all weights 0")


def check_warm_start(estimator: Any, n_dims: int) -> None:
    """Warm starts go on from the weights and the history of the earlier fit."""
    samples = make_samples(n_dims)
    # A running average of weights still moves after the last step of a training with an ordinary rate.
    options = {"warm_start": True, "early_stopping": False, "learning_rate_init": 1e-12}
    model = configured(estimator, **options).fit(samples.X, samples.y)
    curve, before = list(model.loss_curve_), values_of(model.predict(samples.X))
    epochs = model.n_iter_
    model.set_params(**({"random_state": 1} if "random_state" in model.get_params(deep=False) else {}))
    model.fit(samples.X, samples.y)
    require(model.n_iter_ == 2 * epochs, f"n_iter_ is {model.n_iter_} after two fits of {epochs} epochs")
    require(model.loss_curve_[:epochs] == curve, "the earlier losses are gone from loss_curve_")
    require_close(model.predict(samples.X), before, 1e-4, "a warm start with a vanishing learning rate moved")


def check_model_selection(estimator: Any, n_dims: int) -> None:
    """Cross-validation and searches work on FieldSets and arrays and keep the class of the predictions."""
    samples = make_samples(n_dims)
    model = configured(estimator)
    X, y = samples.field_set(samples.X), samples.field_set(samples.y)
    predicted = cross_val_predict(model, X, y, cv=2)
    require(isinstance(predicted, FieldSet), f"cross_val_predict returned a {type(predicted).__name__}")
    require_identical(predicted, _predicted_by_hand(model, samples), "cross_val_predict and a loop over the folds")
    scores = cross_val_score(model, samples.X, samples.y, cv=2, error_score="raise")
    require(np.isfinite(scores).all(), f"cross_val_score gave {scores}")
    choices = {"random_state": [0, 1]} if "random_state" in model.get_params(deep=False) else {}
    search = GridSearchCV(model, choices, cv=2, error_score="raise").fit(X, y)
    require(isinstance(search.predict(X), FieldSet), f"a search returned a {type(search.predict(X)).__name__}")


def _predicted_by_hand(model: Any, samples: Samples) -> np.ndarray:
    """Predictions of two folds, each by a model fitted on the other."""
    halves = np.array_split(np.arange(len(samples.X)), 2)
    parts = []
    for test, train in (halves, halves[::-1]):
        parts.append(clone(model).fit(samples.X[train], samples.y[train]).predict(samples.X[test]))
    return np.concatenate(parts)
