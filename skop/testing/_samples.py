"""Small data sets and assertions for the checks.

Notation: n samples, P points, d space dimensions, c channels, p global parameters.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from skop._typing import FloatArray, GridShape
from skop.data import FieldSet, unit_grid

__all__ = [
    "GRIDS",
    "Samples",
    "configured",
    "make_samples",
    "require",
    "require_close",
    "require_error",
    "require_identical",
    "state_of",
    "takes_weights",
    "values_of",
]

#: A grid with different, mostly odd numbers of points along its axes, for each number of dimensions.
GRIDS: dict[int, GridShape] = {1: (9,), 2: (7, 6), 3: (5, 4, 3)}


@dataclass(frozen=True)
class Samples:
    """Input and output fields on one grid.

    Attributes
    ----------
    X : ndarray of shape (n, *grid, c)
        Inputs.
    y : ndarray of shape (n, *grid, 1)
        Outputs; no sample is zero everywhere.
    grid : tuple of int
        Number of points along each axis.
    """

    X: FloatArray
    y: FloatArray
    grid: GridShape

    @property
    def coords(self) -> FloatArray:
        """Coordinates ``(P, d)`` of the grid of the unit box."""
        return unit_grid(self.grid)

    def flat(self, values: FloatArray) -> FloatArray:
        """Fields ``(n, *grid, c)`` as ``(n, P, c)``."""
        return values.reshape(len(values), len(self.coords), -1)

    def field_set(self, values: FloatArray, **options: Any) -> FieldSet:
        """Fields ``(n, *grid, c)`` as a FieldSet."""
        return FieldSet(self.coords, self.flat(values), grid_shape=self.grid, **options)


def make_samples(
    n_dims: int, *, n_samples: int = 6, n_channels: int = 2, grid: GridShape | None = None, seed: int = 0
) -> Samples:
    """Generate random input fields, and output fields that are a smooth local function of them.

    Parameters
    ----------
    n_dims : int
        Number of space dimensions, 1 to 3.
    n_samples, n_channels : int, default=6, 2
        Number of samples, and of input channels.
    grid : tuple of int or None, default=None
        Number of points along each axis; None takes the grid of `GRIDS`.
    seed : int, default=0
        Seed of the random numbers.

    Returns
    -------
    Samples
        Inputs and outputs in float64.

    Examples
    --------
    >>> from skop.testing._samples import make_samples
    >>> make_samples(2).X.shape, make_samples(2).y.shape
    ((6, 7, 6, 2), (6, 7, 6, 1))
    """
    shape = GRIDS[n_dims] if grid is None else grid
    X = np.random.default_rng(seed).normal(size=(n_samples, *shape, n_channels))
    return Samples(X, 2.0 + np.sin(X.sum(axis=-1, keepdims=True)), shape)


def configured(estimator: Any, **params: Any) -> Any:
    """Clone an estimator with a fixed seed, and set those of the given parameters that it or its parts have."""
    copy, wanted = clone(estimator), {"random_state": 0} | params
    # A part's parameter is called part__name.
    places = {place: place.rpartition("__")[2] for place in copy.get_params()}
    return copy.set_params(**{place: wanted[name] for place, name in places.items() if name in wanted})


def takes_weights(estimator: Any) -> bool:
    """Whether `fit` accepts sample weights."""
    return bool(has_fit_parameter(estimator, "sample_weight"))


def values_of(prediction: Any) -> FloatArray:
    """Return the predicted values from any container."""
    if isinstance(prediction, FieldSet):
        return np.asarray(prediction.values)
    return np.asarray(prediction[1] if isinstance(prediction, tuple) else prediction)


def state_of(estimator: Any) -> bytes:
    """Serialise the whole state of an estimator, weights included, to compare it for equality."""
    return pickle.dumps(vars(estimator))


def require(condition: bool | np.bool_, detail: str) -> None:
    """Raise AssertionError with what was found unless the condition holds."""
    if not condition:
        raise AssertionError(detail)


def require_identical(actual: Any, expected: Any, what: str) -> None:
    """Require two predictions to be equal bit by bit."""
    a, b = values_of(actual).ravel(), values_of(expected).ravel()
    require(a.shape == b.shape, f"{what}: {a.size} numbers and {b.size}")
    require(np.array_equal(a, b), f"{what}: not equal bit by bit, largest difference {np.abs(a - b).max():.3g}")


def require_close(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Require two predictions to differ by no more than a fraction of their largest value."""
    a, b = values_of(actual).ravel(), values_of(expected).ravel()
    require(a.shape == b.shape, f"{what}: {a.size} numbers and {b.size}")
    difference = float(np.abs(a - b).max() / np.abs(b).max())
    require(difference <= tolerance, f"{what}: relative difference {difference:.3g}, allowed is {tolerance:.3g}")


def require_error(call: Callable[[], Any], words: str, what: str, kind: type[Exception] = ValueError) -> None:
    """Require a call to raise an error of a kind whose message contains the words."""
    try:
        call()
    except kind as error:
        require(words in str(error), f"{what}: the message {str(error)!r} does not say {words!r}")
    else:
        raise AssertionError(f"{what}: no {kind.__name__} was raised")
