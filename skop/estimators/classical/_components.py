"""Principal components of the rows of a matrix, statistics of samples, and samples that are far from each other."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.linalg import eigh, svd
from scipy.spatial.distance import cdist
from scipy.special import ndtr, stdtrit

from skop._threads import one_thread
from skop._typing import FloatArray, IntArray
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.files._persistence import KNOWN

__all__ = [
    "BEYOND_CHANCE",
    "FEW",
    "FEW_INPUTS",
    "MATTERS",
    "MOST_EXACT",
    "OF_USE",
    "PARTS",
    "ROUNDING",
    "TINY",
    "Basis",
    "Decomposition",
    "between_ends",
    "beyond_chance",
    "both_ends",
    "error_of_mean",
    "farthest_points",
    "mean_of",
    "of_others",
    "root_of",
    "turned_inputs",
    "variance_of",
    "within_span",
]

#: Standard errors of many samples that count as beyond chance.
BEYOND_CHANCE = 2.0
#: Up to this number of samples the whole choice is repeated without each, and a test against the mean is of no use.
FEW = 8
#: An addition to a model is of use if it lowers the error on unseen samples below this part: inputs beside none, nodes
#: and shapes beside parameters, a network beside a base, an operator of `AutoRegressor` beside earlier ones.
OF_USE = 0.98
#: Errors from this part of that of the mean on matter.
MATTERS = 0.05
#: Largest number of parts of the samples that judge a search for length scales, or the whole choice.
PARTS = 8
#: Kernels use inducing samples above this number of samples.
MOST_EXACT = 2000
#: Keeps quotients of numbers in any unit finite.
TINY = float(np.finfo(float).tiny)
#: Relative differences up to this are rounding.
ROUNDING = 1e-13
#: Compute distances from differences up to this number of inputs, from products above.
FEW_INPUTS = 32
#: Compute components from products of samples if a decomposition would take more products than this.
_LARGE = 1e9


def mean_of(rows: FloatArray, weight: FloatArray | None, axis: int = 0) -> FloatArray:
    """Mean over samples, with equal weights where there are none."""
    return np.asarray(rows.mean(axis=axis) if weight is None else np.average(rows, axis=axis, weights=weight))


def variance_of(rows: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Variance over samples, with equal weights where there are none."""
    return np.asarray(rows.var(axis=0) if weight is None else mean_of((rows - mean_of(rows, weight)) ** 2, weight))


def root_of(weight: FloatArray | None) -> FloatArray:
    """Roots (n, 1) of weights, by which rows are multiplied; one number, 1, where all weights are equal."""
    return np.ones((1, 1)) if weight is None else np.sqrt(weight)[:, np.newaxis]


def error_of_mean(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Standard error of the mean over samples (n,) or (n, c), with equal weights where there are none."""
    n_samples = len(values)
    if weight is None:
        return np.asarray(values.std(axis=0, ddof=1) / n_samples**0.5)
    parts = (values - mean_of(values, weight)).T * (weight / weight.sum())
    return np.asarray(np.sqrt(np.square(parts).sum(axis=-1) * n_samples / max(n_samples - 1, 1)))


def beyond_chance(n_samples: int) -> float:
    """Standard errors of so many samples that are as improbable as two of many, by Student's distribution."""
    return float(stdtrit(max(n_samples - 1, 1), ndtr(BEYOND_CHANCE)))


def between_ends(points: FloatArray) -> Any:
    """Tell which samples lie between others, where this is known.

    The least and the largest of one input have no neighbour on one side: without them, models extrapolate, and their
    errors say little of new samples between those of the fit.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Inputs.

    Returns
    -------
    ndarray of bool, shape (n,)
        False for the samples at the ends of one input; all True for several inputs, or fewer than two samples between.
    """
    found = np.ones(len(points), bool)
    if points.shape[1] == 1:
        found = (points[:, 0] > points.min()) & (points[:, 0] < points.max())
    # One sample is too few to compare models by.
    return found if found.sum() > 1 else np.ones_like(found)


def both_ends(points: FloatArray, place: int, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points (m, d) with all of the sorted values of an input but the last, and the same with the next one of each."""
    lower = points[points[:, place] < values[-1]]
    higher = lower.copy()
    higher[:, place] = values[np.searchsorted(values, lower[:, place]) + 1]
    return lower, higher


def of_others(n_samples: int, weight: FloatArray | None) -> Any:
    """Factor, or factors (n, 1), by which deviations from the mean become those from the mean of the other samples."""
    if weight is None:
        return n_samples / max(n_samples - 1, 1)
    return (weight.sum() / np.maximum(weight.sum() - weight, np.finfo(float).tiny))[:, np.newaxis]


@dataclass(eq=False)
class Basis:
    """Mean and principal components of rows.

    Attributes
    ----------
    mean_ : ndarray of shape (P,)
        Mean of the rows.
    components_ : ndarray of shape (k, P)
        Orthonormal components in the order of the variance that they explain.
    is_complete_ : bool
        Whether the components of the fit span all rows, those that were not in it too.
    """

    mean_: FloatArray
    components_: FloatArray
    is_complete_: bool

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return len(self.components_)

    def transform(self, rows: FloatArray) -> FloatArray:
        """Coefficients (n, k) of rows (n, P)."""
        return (rows - self.mean_) @ self.components_.T

    def inverse_transform(self, coefficients: FloatArray) -> FloatArray:
        """Rows (n, P) of coefficients (n, k)."""
        rows = coefficients @ self.components_
        rows += self.mean_
        return rows


class Decomposition:
    """Singular value decomposition of centred rows, of which components are computed when they are asked for.

    Parameters
    ----------
    rows : ndarray of shape (n, P)
        The rows.
    n_components : int, float or None
        Number of components; those that explain a part of the variance; or all.
    weight : ndarray of shape (n,) or None, default=None
        Weights of the rows, of mean 1; None if all are equal.

    Attributes
    ----------
    mean : ndarray of shape (P,)
        Mean of the rows.
    coefficients : ndarray of shape (n, r)
        Coefficients of the rows.
    variances : ndarray of shape (r,)
        Mean squares of the coefficients.
    is_large : bool
        Whether eigenvectors of products of samples, or of values, were computed, which takes a small part of the time,
        and finds components down to the square root of the rounding.
    is_complete : bool
        Whether the components span all rows, those of other samples too.
    """

    def __init__(self, rows: FloatArray, n_components: int | float | None, weight: FloatArray | None = None) -> None:
        n, size = rows.shape
        self.mean, self.weight = mean_of(rows, weight), weight
        self.centred = rows - self.mean
        root = None if weight is None else np.sqrt(weight)[:, np.newaxis]
        # The components are those of rows times the roots of their weights.
        scaled = self.centred if root is None else root * self.centred
        is_long = n > MOST_EXACT and n > size
        self.is_large = is_long or (size > n and n * n * size > _LARGE)
        self._components: FloatArray | None = None
        floor = 1e-7
        if is_long:
            squares, right = _eigenvectors(scaled.T @ scaled)
            sizes, right = np.sqrt(np.maximum(squares[::-1], 0.0)), right[:, ::-1]
            left, self._components = scaled @ right / np.where(sizes > 0, sizes, 1.0), right.T
        elif self.is_large:
            squares, left = _eigenvectors(scaled @ scaled.T)
            sizes, left = np.sqrt(np.maximum(squares[::-1], 0.0)), left[:, ::-1]
        else:
            with one_thread():
                # Tall matrices take a third of the time of wide ones.
                right, sizes, left = svd(scaled.T, full_matrices=False, check_finite=False)
            left, self._components, floor = left.T, right.T, 1e-13 * np.sqrt(n)
        if self._components is not None:
            # Rounding would be all of an error where values are fixed, such as those of supports.
            self._components[:, (self.centred == 0).all(axis=0)] = 0.0
        rank = max(int((sizes > floor * sizes.max(initial=0.0)).sum()), 1)
        self.is_complete = rank == size
        # NumPy's scalars are no float, but for np.float64, and an integer is a number of modes.
        if isinstance(n_components, Real) and not isinstance(n_components, Integral):
            shares = np.cumsum(sizes**2) / max(float((sizes**2).sum()), np.finfo(float).tiny)
            rank = min(rank, int(np.searchsorted(shares, float(n_components))) + 1)
        elif n_components is not None:
            rank = min(int(n_components), rank)
        self.coefficients = left[:, :rank] * sizes[:rank]
        if root is not None:
            self.coefficients = self.coefficients / root
        self.variances = sizes[:rank] ** 2 / n

    def columns(self, place: slice, count: int | None = None) -> FloatArray:
        """Some columns of the leading components."""
        if self._components is not None:
            return self._components[: len(self.variances) if count is None else count, place]
        return self._sides(count).T @ self.centred[:, place]

    def products(self, factors: FloatArray) -> FloatArray:
        """Products (r, r) of the leading columns of the components, times factors."""
        if self._components is not None:
            scaled = self.columns(slice(len(factors))) * factors
            return scaled @ scaled.T
        scaled = self.centred[:, : len(factors)] * factors
        sides = self._sides(None)
        return sides.T @ (scaled @ scaled.T) @ sides

    def _sides(self, count: int | None) -> FloatArray:
        """Factors (n, r) of the centred rows in the leading components."""
        sides = self.coefficients[:, :count] / (len(self.centred) * self.variances[:count])
        return sides if self.weight is None else self.weight[:, np.newaxis] * sides

    def basis(self, count: int | None = None) -> Basis:
        """The leading components, or all."""
        # A file keeps the order in memory of whole arrays only, on which rounding depends.
        return Basis(self.mean, np.ascontiguousarray(self.columns(slice(None), count)), self.is_complete)


@one_thread()
def _eigenvectors(products: FloatArray) -> Any:
    """Eigenvalues and eigenvectors of products of samples, which are few, or of values."""
    return eigh(products, check_finite=False, driver="evd")


@checks("Basis")
def _check_basis(held: Held) -> None:
    """Check a basis from a file."""
    mean = held.array("mean_", None)
    held.array("components_", None, len(mean))
    held.flag("is_complete_")


KNOWN[Basis.__name__] = Basis


def within_span(points: FloatArray, n_params: int, samples: IntArray) -> FloatArray:
    """Inputs whose fields are coordinates in the span of those of some samples, where these are fewer."""
    fields = points[:, n_params:]
    if fields.shape[1] <= len(samples):
        return points
    return np.concatenate([points[:, :n_params], fields @ np.linalg.qr(fields[samples].T)[0]], axis=1)


def turned_inputs(points: FloatArray, n_params: int, samples: IntArray, weight: FloatArray | None) -> FloatArray:
    """Inputs with the modes of some of the samples, which have weights."""
    fields = points[:, n_params:]
    if not fields.shape[1]:
        return points
    fields = fields - mean_of(fields[samples], weight)
    root = root_of(weight)
    products = (root * fields[samples]).T @ (root * fields[samples])
    axes = eigh(products, check_finite=False, driver="evd")[1][:, ::-1]
    return np.concatenate([points[:, :n_params], fields @ axes], axis=1)


def farthest_points(points: FloatArray, count: int) -> IntArray:
    """Indices (up to count) of points (n, d), of which each is the farthest from those before it, from the middle on.

    Distances are those in the inputs that differ most.
    """
    points = points - points.mean(axis=0)
    points = np.ascontiguousarray(points[:, np.argsort(-(points**2).sum(axis=0), kind="stable")[:FEW_INPUTS]])
    chosen, nearest = [int((points**2).sum(axis=1).argmin())], np.full(len(points), np.inf)
    while len(chosen) < count:
        np.minimum(nearest, cdist(points, points[chosen[-1:]], "sqeuclidean")[:, 0], out=nearest)
        place = int(nearest.argmax())
        # All further points lie on these.
        if nearest[place] == 0:
            break
        chosen.append(place)
    return np.sort(np.array(chosen))
