"""Checks of the handling of data: independence of samples, containers, data types, unusual sizes, roles of a table.

Every check takes an unfitted estimator and the number of space dimensions, and raises an AssertionError that describes
the failure. The first line of its docstring states the law that is checked.
"""

import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape
from skop.data import FieldSet
from skop.exceptions import SkopWarning
from skop.testing._samples import (
    GRIDS,
    configured,
    make_samples,
    require,
    require_close,
    require_error,
    require_identical,
    values_of,
)

__all__ = [
    "check_batch_mates",
    "check_constant_fields",
    "check_containers",
    "check_finite",
    "check_kinds_of_numbers",
    "check_memory_mapped",
    "check_odd_grids",
    "check_one_sample",
    "check_other_grid",
    "check_parameters_to_field",
    "check_sample_order",
    "check_scalar_targets",
    "check_tables_are_scalars",
]

_ODD_GRIDS: dict[int, list[GridShape]] = {
    1: [(1,), (2,), (5,)],
    2: [(1, 1), (1, 5), (4, 1), (3, 2), (5, 8)],
    3: [(1, 1, 1), (1, 3, 1), (2, 3, 5)],
}


def check_batch_mates(estimator: Any, n_dims: int) -> None:
    """Predictions do not depend on the samples that are predicted with them."""
    samples = make_samples(n_dims)
    extreme = np.concatenate([samples.X[:1], 1e3 * samples.X[1:]])
    precisions = {"float32": 1e-6}
    if "dtype" in estimator.get_params(deep=False):
        precisions["float64"] = 1e-12
    for dtype, tolerance in precisions.items():
        fitted = configured(estimator, dtype=dtype).fit(samples.X, samples.y)
        together = values_of(fitted.predict(samples.X))
        alone = np.concatenate([values_of(fitted.predict(samples.X[i : i + 1])) for i in range(len(samples.X))])
        require_close(alone, together, tolerance, f"one by one and together ({dtype})")
        beside = values_of(fitted.predict(extreme))[0]
        require_close(beside, together[0], tolerance, f"beside samples a thousand times larger ({dtype})")


def check_sample_order(estimator: Any, n_dims: int) -> None:
    """Predictions follow the order of the samples."""
    samples = make_samples(n_dims)
    fitted = configured(estimator, dtype="float64").fit(samples.X, samples.y)
    order = np.array([4, 2, 0, 5, 1, 3])
    require_close(fitted.predict(samples.X[order]), fitted.predict(samples.X)[order], 1e-6, "another order")


def check_kinds_of_numbers(estimator: Any, n_dims: int) -> None:
    """Integers, booleans and float32 mean the same numbers as float64."""
    samples = make_samples(n_dims)
    input_types: list[Any] = [np.float32, np.int32, np.uint8, bool]
    for dtype in input_types:
        X = np.abs(3 * samples.X).astype(dtype)
        given = configured(estimator).fit(X, samples.y).predict(X)
        expected = configured(estimator).fit(X.astype(np.float64), samples.y).predict(X.astype(np.float64))
        require_identical(given, expected, f"X of {np.dtype(dtype).name} and of float64")
    target_types: list[Any] = [np.int64, bool]
    for dtype in target_types:
        y = (samples.y > 2).astype(dtype)
        given = configured(estimator).fit(samples.X, y).predict(samples.X)
        expected = configured(estimator).fit(samples.X, y.astype(np.float64)).predict(samples.X)
        require_identical(given, expected, f"y of {np.dtype(dtype).name} and of float64")
        require(given.dtype == np.float64, f"predictions of y of {np.dtype(dtype).name} are {given.dtype}")


def check_memory_mapped(estimator: Any, n_dims: int) -> None:
    """Read-only and memory-mapped arrays give the same predictions as plain ones, without a warning."""
    samples = make_samples(n_dims)
    expected = configured(estimator).fit(samples.X, samples.y).predict(samples.X)
    X, y = samples.X.copy(), samples.y.copy()
    X.flags.writeable = y.flags.writeable = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, warnings.catch_warnings():
        # What is odd about so few samples is no matter of the arrays.
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SkopWarning)
        require_identical(configured(estimator).fit(X, y).predict(X), expected, "read-only")
        X, y = _mapped(X, Path(folder, "X.npy")), _mapped(y, Path(folder, "y.npy"))
        require_identical(configured(estimator).fit(X, y).predict(X), expected, "memory-mapped")
        del X, y


def _mapped(array: FloatArray, path: Path) -> FloatArray:
    """Write an array to a file and map it read-only."""
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def check_containers(estimator: Any, n_dims: int) -> None:
    """Arrays, FieldSets and (coords, fields) give the same predictions, in the form that y had."""
    samples = make_samples(n_dims)
    X, y, coords = samples.X, samples.y, samples.coords
    expected = configured(estimator).fit(X, y).predict(X)
    require(type(expected) is np.ndarray and expected.shape == y.shape, f"y {y.shape} came back as {_kind(expected)}")
    single = configured(estimator).fit(X, y[..., 0]).predict(X)
    require(single.shape == y.shape[:-1], f"y without channel axis {y.shape[:-1]} came back as {_kind(single)}")
    require_identical(single, expected, "y without channel axis")
    half = configured(estimator).fit(X, y.astype(np.float32)).predict(X)
    require(half.dtype == np.float32, f"y of float32 came back as {half.dtype}")

    fields = samples.field_set(X)
    held = configured(estimator).fit(fields, samples.field_set(y, channel_names=["u"])).predict(fields)
    require(isinstance(held, FieldSet), f"y as a FieldSet came back as {_kind(held)}")
    require(held.channel_names == ("u",), f"channel names ('u',) came back as {held.channel_names}")
    require_identical(held, expected, "FieldSets")

    pair = (coords, samples.flat(X))
    held = configured(estimator).fit(pair, (coords, samples.flat(y))).predict(pair)
    require(isinstance(held, tuple), f"y as (coords, fields) came back as {_kind(held)}")
    require(np.array_equal(held[0], coords), "the coordinates of (coords, fields) came back changed")
    require_identical(held, expected, "(coords, fields)")
    flat = configured(estimator).fit(fields, samples.flat(y)).predict(fields)
    require(flat.shape == (len(y), len(coords), 1), f"y (n, P, c) came back as {_kind(flat)}")
    require_identical(flat, expected, "y as points")


def _kind(prediction: Any) -> str:
    """Class and shape, for messages."""
    return f"{type(prediction).__name__} {getattr(prediction, 'shape', '')}"


def check_scalar_targets(estimator: Any, n_dims: int) -> None:
    """Scalars of a sample come back as (n,) or (n, q), in float64."""
    samples = make_samples(n_dims)
    table = np.random.default_rng(1).normal(size=(6, 3))
    for y in (table[:, 0], table[:, :1], table):
        predicted = configured(estimator).fit(samples.X, y).predict(samples.X[:4])
        expected = (4, *y.shape[1:])
        require(predicted.shape == expected, f"scalars {y.shape} came back as {_kind(predicted)}")
        require(predicted.dtype == np.float64, f"predictions of scalars are {predicted.dtype}")


def check_parameters_to_field(estimator: Any, n_dims: int) -> None:
    """Tables X with a field y are global parameters: predictions are fields on the points of y."""
    samples = make_samples(n_dims)
    params = np.random.default_rng(1).normal(size=(6, 3))
    fitted = configured(estimator).fit(params, samples.y)
    predicted = fitted.predict(params[:4])
    require(predicted.shape == (4, *samples.y.shape[1:]), f"predictions have shape {predicted.shape}")
    moved = fitted.predict(params[:4] + 1.0)
    require(not np.array_equal(moved, predicted), "the parameters make no difference")
    fields = configured(estimator).fit(params, samples.field_set(samples.y)).predict(params)
    require(isinstance(fields, FieldSet), f"y as a FieldSet came back as {_kind(fields)}")
    require(np.array_equal(fields.coords, samples.coords), "the predicted FieldSet lies on other points than y")
    require_error(lambda: fitted.predict(params[:, :2]), "2", "predict with 2 parameters after a fit with 3")


def check_tables_are_scalars(estimator: Any, n_dims: int) -> None:
    """Two tables of one shape are features and scalars; a function on points has a channel axis."""
    samples = make_samples(1, n_channels=1)
    X, y = samples.X[..., 0], samples.y[..., 0]
    fitted = configured(estimator).fit(X, y)
    require(fitted.predict(X).shape == y.shape, f"predictions have shape {fitted.predict(X).shape}, not {y.shape}")
    require_error(lambda: fitted.predict(samples.X), "table", "predict a function after a fit on tables")
    function = configured(estimator).fit(samples.X, y).predict(samples.X)
    require(function.shape == y.shape, f"a function without a channel axis came back with shape {function.shape}")
    require_identical(function, configured(estimator).fit(samples.X, samples.y).predict(samples.X)[..., 0], "fields")


def check_constant_fields(estimator: Any, n_dims: int) -> None:
    """Constant inputs and constant outputs give finite predictions, of finite size."""
    samples = make_samples(n_dims)
    for X, y in ((0 * samples.X, samples.y), (0 * samples.X + 7, 0 * samples.y + 3), (samples.X, 0 * samples.y)):
        predicted = values_of(configured(estimator).fit(X, y).predict(X))
        require(np.isfinite(predicted).all(), "predictions are not finite")
        require(np.abs(predicted).max() < 1e6, f"predictions reach {np.abs(predicted).max():.3g}")


def check_one_sample(estimator: Any, n_dims: int) -> None:
    """One sample is enough for a fit and for a prediction."""
    samples = make_samples(n_dims, n_samples=1)
    predicted = configured(estimator).fit(samples.X, samples.y).predict(samples.X)
    require(predicted.shape == samples.y.shape, f"predictions have shape {predicted.shape}")
    require(np.isfinite(predicted).all(), "predictions are not finite")


def check_odd_grids(estimator: Any, n_dims: int) -> None:
    """Any numbers of points along the axes work, down to a single point, for fields and for scalars."""
    for grid in _ODD_GRIDS[n_dims]:
        samples = make_samples(n_dims, grid=grid, n_samples=4)
        for y in (samples.y, np.arange(8.0).reshape(4, 2)):
            predicted = configured(estimator).fit(samples.X, y).predict(samples.X)
            require(predicted.shape == y.shape, f"on a grid {grid} predictions have shape {predicted.shape}")
            require(np.isfinite(predicted).all(), f"on a grid {grid} predictions are not finite")


def check_other_grid(estimator: Any, n_dims: int, must_work: bool = False) -> None:
    """Predict on another grid gives fields on that grid, or a ValueError where the model is tied to one."""
    samples = make_samples(n_dims)
    fitted = configured(estimator).fit(samples.X, samples.y)
    for grid in (tuple(2 * size - 1 for size in GRIDS[n_dims]), tuple(size + 1 for size in GRIDS[n_dims])):
        other = make_samples(n_dims, grid=grid, n_samples=2)
        try:
            predicted = fitted.predict(other.X)
        except ValueError as error:
            require(not must_work, f"predict on {grid} after a fit on {GRIDS[n_dims]} raised: {error}")
        else:
            require(predicted.shape == other.y.shape, f"predictions on {grid} have shape {predicted.shape}")
            require(np.isfinite(predicted).all(), f"predictions on {grid} are not finite")


def check_finite(estimator: Any, n_dims: int) -> None:
    """NaN and infinity in X or y raise a ValueError that names their position."""
    samples = make_samples(n_dims)
    fitted = configured(estimator).fit(samples.X, samples.y)
    for value in (np.nan, np.inf):
        X, y = samples.X.copy(), samples.y.copy()
        X[4, ..., 1], y[3] = value, value
        for words in ("NaN", "sample 4", "channel 1"):
            require_error(partial(fitted.predict, X), words, f"predict on {value}")
            require_error(partial(configured(estimator).fit, X, samples.y), words, f"fit on {value} in X")
        require_error(partial(configured(estimator).fit, samples.X, y), "sample 3", f"fit on {value} in y")
