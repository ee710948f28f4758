"""Checks for point sets: independence of the order of points and of other samples, containers, query points.

Every check takes an unfitted estimator and the number of space dimensions, and raises an AssertionError that describes
the failure. The first line of its docstring states the law that is checked.
"""

from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.data import FieldSet
from skop.testing._samples import configured, require, require_close, require_error, require_identical, values_of

__all__ = [
    "check_mates_of_point_sets",
    "check_order_of_points",
    "check_point_set_containers",
    "check_points_elsewhere",
    "check_sizes_of_point_sets",
]

#: Number of points of each sample; a single point is included.
_SIZES = (12, 7, 1, 20, 9, 12)


def _samples(n_dims: int, sizes: tuple[int, ...] = _SIZES, seed: int = 0) -> tuple[list[FloatArray], list[FloatArray]]:
    """Random points of each sample, and a smooth function of them that is never zero everywhere."""
    generator = np.random.default_rng(seed)
    points: list[FloatArray] = [generator.random((size, n_dims)) for size in sizes]
    return points, [2.0 + np.sin(3 * item.sum(axis=1, keepdims=True)) for item in points]


def _flat(prediction: Any) -> FloatArray:
    """Numbers of a list of arrays, one after the other."""
    return np.concatenate([np.ravel(item) for item in prediction])


def check_sizes_of_point_sets(estimator: Any, n_dims: int) -> None:
    """Samples may have any numbers of points, other ones than in the fit too."""
    points, fields = _samples(n_dims)
    fitted = configured(estimator).fit(points, fields)
    for sizes in ((3, 3), (1,), (150, 2)):
        prediction = fitted.predict(_samples(n_dims, sizes, seed=1)[0])
        require(isinstance(prediction, list), f"lists are predicted as {type(prediction).__name__}")
        require(
            [item.shape for item in prediction] == [(size, 1) for size in sizes], f"wrong shapes for {sizes} points"
        )
        require(bool(np.isfinite(_flat(prediction)).all()), f"not finite for {sizes} points")


def check_mates_of_point_sets(estimator: Any, n_dims: int) -> None:
    """Predictions on point sets do not depend on the samples that are predicted with them."""
    points, fields = _samples(n_dims)
    pairs = list(zip(points, fields, strict=True))
    extreme = [pairs[0], *((place, 1e3 * field) for place, field in pairs[1:])]
    for dtype, tolerance in {"float32": 1e-6, "float64": 1e-12}.items():
        fitted = configured(estimator, dtype=dtype).fit(pairs, fields)
        together = fitted.predict(pairs)
        alone = [fitted.predict([pair])[0] for pair in pairs]
        require_close(_flat(alone), _flat(together), tolerance, f"one by one and together ({dtype})")
        beside = fitted.predict(extreme)[0]
        require_close(beside, together[0], tolerance, f"beside samples a thousand times larger ({dtype})")


def check_order_of_points(estimator: Any, n_dims: int) -> None:
    """Predictions follow the order in which points are listed, and a fit does not depend on it."""
    points, fields = _samples(n_dims)
    generator = np.random.default_rng(3)
    orders = [generator.permutation(len(item)) for item in points]
    shuffled = [[item[order] for item, order in zip(part, orders, strict=True)] for part in (points, fields)]
    fitted = configured(estimator, dtype="float64").fit(points, fields)
    expected = [item[order] for item, order in zip(fitted.predict(points), orders, strict=True)]
    require_close(_flat(fitted.predict(shuffled[0])), _flat(expected), 1e-12, "points in another order")
    again = configured(estimator, dtype="float64").fit(*shuffled)
    require_close(_flat(again.predict(shuffled[0])), _flat(expected), 1e-9, "a fit on points in another order")


def check_point_set_containers(estimator: Any, n_dims: int) -> None:
    """Lists of points, of (coords, fields), and FieldSets mean the same, and predictions come as y came."""
    points, fields = _samples(n_dims)
    pairs = [(item, None) for item in points]
    base = configured(estimator).fit(points, fields).predict(points)
    truth: Any
    for inputs, truth in (
        (pairs, fields),
        (FieldSet(points), fields),
        (FieldSet(points), FieldSet(points, fields)),
        (pairs, list(zip(points, fields, strict=True))),
        (points, [field[:, 0] for field in fields]),
    ):
        prediction = configured(estimator).fit(inputs, truth).predict(inputs)
        require(type(prediction) is type(truth), f"{type(truth).__name__} came back as {type(prediction).__name__}")
        if isinstance(prediction, FieldSet):
            require_identical(values_of(prediction), _flat(base), "FieldSets and lists")
            continue
        held = [item[1] if isinstance(item, tuple) else item for item in prediction]
        require_identical(_flat(held), _flat(base), f"{type(inputs).__name__} to {type(truth[0]).__name__}")


def check_points_elsewhere(estimator: Any, n_dims: int) -> None:
    """Fields are predicted at other points too, equal ones at the samples' own, and not outside them."""
    points, fields = _samples(n_dims)
    fitted = configured(estimator, dtype="float64").fit(points, fields)
    own = fitted.predict(points)
    require_close(_flat(fitted.predict(points, coords=points)), _flat(own), 1e-9, "at the samples' own points")
    some = [item[::2] for item in points]
    expected = [item[::2] for item in own]
    require_close(_flat(fitted.predict(points, coords=some)), _flat(expected), 1e-9, "at some of their points")
    far = [item + 10.0 for item in points]
    require_error(lambda: fitted.predict(points, coords=far), "outside", "points outside the samples")
