"""Kernel regression with a polynomial tail: one linear smoother for many classical surrogate models.

The prediction is ``[k(x, X), p(x)] @ W`` with a kernel k, the n training points X and the monomials p up to a degree.
W solves the saddle-point system ``[[K + penalty I, T], [T', 0]] W = [Y, 0]``. The mean is a constant alone; ridge
regression has the linear kernel; kernel ridge regression and the mean of a Gaussian process have a positive definite
one; interpolation by polyharmonic radial functions has a conditionally positive definite one, which for one input is
the natural spline. Leave-one-out residuals of all of them are ``C_i / B_ii``, where C are the coefficients of the
kernel and B is the first block of the inverse of the system, and the variance of a prediction is that of kriging. Where
samples belong to groups, such as the frames of a run, a whole group is left out: its residuals are ``B_gg^-1 C_g``.

A weight of a sample divides its penalty, as the variance of its noise: with the weights of the samples on the diagonal
of a matrix V, the system holds ``penalty V^-1`` in place of ``penalty I``. It is decomposed as that of samples, targets
and tail times the roots of the weights, and B is that of the samples themselves.

Akima's interpolation over one input has the same form, with cubics between neighbours as kernel. Its slopes depend on
the targets, so that it has no closed form of these residuals, but each depends on three neighbours on either side.

Notation: n training points, d inputs, m monomials, r targets (coefficients of modes), q points of a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh, lapack, lstsq, svd
from scipy.spatial.distance import cdist

from skop._typing import FloatArray, IntArray
from skop.estimators.classical._akima import cubics, residuals_without_each, slopes_at
from skop.estimators.classical._components import FEW_INPUTS, ROUNDING
from skop.estimators.files._file_checks import Held, checks, is_array
from skop.estimators.files._persistence import KNOWN

__all__ = [
    "POLYHARMONIC",
    "SAME",
    "AkimaSystem",
    "Kernel",
    "KernelModel",
    "System",
    "in_order",
    "inverse_of",
    "key_of",
    "left_out_solver",
    "same_sizes",
    "squares_between",
    "system_of",
]

#: Penalties that are tried, as parts of the largest eigenvalue of the kernel matrix; the last one leaves the tail.
_PENALTIES = np.append(np.logspace(-14, 1, 16), 1e6)
#: Points are the same below this squared distance. It keeps derivatives of roots and logarithms finite.
SAME = 1e-30
#: Relative rounding of a number.
_EPSILON = float(np.finfo(float).eps)
#: Eigenvalues up to this part of the largest are rounding.
_RANK = 1e-15
#: Residuals are infinite if B is below this part of its largest possible value: a sample then determines itself.
_LEAST_FREE = 1e-9
#: Degree of the polynomial tail that makes a polyharmonic kernel definite.
POLYHARMONIC = {"linear_spline": 0, "thin_plate": 1, "cubic": 1, "quintic": 2, "septic": 3}
#: Names of kernels, and largest degree of a polynomial tail, that a file may hold.
_KERNELS = (
    *("none", "gaussian", "matern32", "matern52"),
    *("linear_spline", "thin_plate", "cubic", "quintic", "septic", "akima"),
)
_HIGHEST_DEGREE = 8


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel and the tail that goes with it.

    Attributes
    ----------
    name : {"none", "gaussian", "matern32", "matern52", "linear_spline", "thin_plate", "cubic", "quintic", "septic", \
"akima"}
        Radial function; ``"akima"`` is none, but cubics between neighbours, two for each of them.
    degree : int
        Degree of the polynomial tail, or of the polynomials that it holds itself.
    scales : ndarray of shape (d,) or float
        Numbers by which the inputs are divided: length scales.
    linear : float
        Weight of the linear kernel, which is added.
    handicap : float
        Factor of its leave-one-out errors that makes up for the search for its length scales.
    """

    name: str
    degree: int = 0
    scales: Any = 1.0
    linear: float = 0.0
    handicap: float = 1.0

    def matrix(self, left: Any, right: Any) -> Any:
        """Values of the kernel between points (q, d) and (n, d), which are arrays or tensors."""
        if self.name == "akima":
            return cubics(left, right[:, 0])
        line = self.linear * (left @ right.T)
        if self.name == "none":
            return line
        return self.radial(squares_between(left / self.scales, right / self.scales)) + line

    def radial(self, squares: Any) -> Any:
        """Radial function of squared distances."""
        xp: Any = torch if isinstance(squares, torch.Tensor) else np
        if self.name == "gaussian":
            return xp.exp(-0.5 * squares)
        squares = squares.clip(SAME, None) if xp is torch else np.maximum(squares, SAME)
        if self.name == "thin_plate":
            return 0.5 * squares * xp.log(squares)
        if self.name in POLYHARMONIC:
            power = {"linear_spline": 1, "cubic": 3, "quintic": 5, "septic": 7}[self.name]
            return (1 if power in (3, 7) else -1) * squares ** (0.5 * power)
        if self.name == "matern32":
            distance = xp.sqrt(3 * squares)
            return (1 + distance) * xp.exp(-distance)
        distance = xp.sqrt(5 * squares)
        return (1 + distance + distance**2 / 3) * xp.exp(-distance)

    def radial_and_slope(self, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Radial function and its derivative by the squared distance, for kernels with length scales."""
        if self.name == "gaussian":
            values = np.exp(-0.5 * squares)
            return values, -0.5 * values
        # In place, since memory for a matrix costs as much as its numbers.
        distance = (3 if self.name == "matern32" else 5) * squares
        np.sqrt(distance, out=distance)
        decay = -distance
        np.exp(decay, out=decay)
        first = distance + 1
        first *= decay
        if self.name == "matern32":
            decay *= -1.5
            return first, decay
        distance *= distance
        distance *= decay
        distance /= 3
        distance += first
        first *= -5 / 6
        return distance, first

    def variance(self, points: FloatArray) -> FloatArray:
        """Value of the kernel between each point and itself."""
        own = 0.0 if self.name == "none" or self.name in POLYHARMONIC else 1.0
        return own + self.linear * (points**2).sum(axis=1)

    def tail(self, points: Any) -> Any:
        """Monomials of points (q, d): an array or tensor (q, m)."""
        scaled = points / self.scales
        columns = [0.0 * scaled[:, 0] + 1.0]
        for degree in range(1, self.degree + 1):
            for factors in combinations_with_replacement(range(points.shape[1]), degree):
                column = columns[0]
                for number in factors:
                    column = column * scaled[:, number]
                columns.append(column)
        return torch.stack(columns, dim=1) if isinstance(points, torch.Tensor) else np.stack(columns, axis=1)

    def n_monomials(self, n_inputs: int) -> int:
        """Number of monomials of the tail."""
        count = 1
        for degree in range(self.degree):
            count = count * (n_inputs + degree + 1) // (degree + 1)
        return count


def squares_between(left: Any, right: Any) -> Any:
    """Squared distances between points (q, d) and (n, d)."""
    if isinstance(left, torch.Tensor):
        return ((left[:, None] - right) ** 2).sum(dim=-1)
    if left.shape[1] <= FEW_INPUTS:
        return cdist(left, right, "sqeuclidean")
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * (left @ right.T)
    return np.maximum(squares, 0.0)


class System:
    """The saddle-point system of one kernel, decomposed so that it is solved for any penalty.

    With V the eigenvectors of K on the complement of the tail and s their eigenvalues, B = V diag(1 / (s + penalty))
    V'.
    A linear kernel has few eigenvectors; on the rest of the complement, s = 0. So has a kernel on inducing samples Z,
    k(x, Z) C^-1 k(Z, y), where C is the kernel matrix of these samples on the complement of their own tail: the
    prediction is ridge regression in the features k(x, Z) C^-1/2. With all samples as inducing ones it is the kernel.
    J. Quiñonero-Candela, C. E. Rasmussen, "A unifying view of sparse approximate Gaussian process regression", JMLR 6
    (2005): subset of regressors for the mean, deterministic training conditional for the variance.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    points : ndarray of shape (n, d)
        Training points.
    inducing : ndarray of int or None, default=None
        Indices of the inducing samples, or None for the kernel itself.
    groups : ndarray of int, shape (n,), or None, default=None
        Numbers of the groups that are left out as a whole; None leaves out one sample at a time.
    weight : ndarray of shape (n,) or None, default=None
        Weights of the samples, of mean 1; None if all are equal.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: FloatArray,
        inducing: IntArray | None = None,
        groups: IntArray | None = None,
        weight: FloatArray | None = None,
    ) -> None:
        self.kernel, self.points, self.inducing = kernel, points, inducing
        self._parts = same_sizes(groups)
        self._root = None if weight is None else np.sqrt(weight)[:, np.newaxis]
        self.monomials = self._rooted(kernel.tail(points))
        left, sizes, _ = svd(self.monomials, full_matrices=False, check_finite=False)
        self.tail = left[:, sizes > 1e-10 * sizes[0]]
        is_linear = kernel.name == "none" and (not kernel.linear or points.shape[1] <= len(points) // 4)
        self.is_thin = is_linear or inducing is not None
        self._rounding = 0.0
        if inducing is not None:
            self._decompose_features(inducing)
        elif kernel.name == "none" and not kernel.linear:
            self.vectors, self.values = np.zeros((len(points), 0)), np.zeros(0)
        elif self.is_thin:
            scaled = self._rooted(points)
            rows = np.sqrt(kernel.linear) * (scaled - self.tail @ (self.tail.T @ scaled))
            self.vectors, sizes, _ = svd(rows, full_matrices=False, check_finite=False)
            kept = sizes > 1e-14 * sizes.max(initial=0.0)
            self.vectors, self.values = self.vectors[:, kept], sizes[kept] ** 2
        elif kernel.name == "none" and self._has_orthogonal_inputs():
            self.matrix = kernel.matrix(points, points)
        else:
            self.matrix = kernel.matrix(points, points)
            matrix = self.matrix if self._root is None else self._root * self.matrix * self._root.T
            centred = matrix - self.tail @ (self.tail.T @ matrix)
            centred = centred - (centred @ self.tail) @ self.tail.T
            # The tail gets the largest eigenvalues, so that its vectors are the last ones.
            shift = 2 * float(np.abs(centred).sum(axis=1).max(initial=0.0)) or 1.0
            values, vectors = eigh(centred + shift * (self.tail @ self.tail.T), check_finite=False, driver="evd")
            count = len(points) - self.tail.shape[1]
            # Where all points are the same, differences of the kernel are rounding.
            size = float(np.abs(matrix).max(initial=0.0))
            floor = ROUNDING * len(points) * size if values[:count].max(initial=0.0) < ROUNDING * size else 0.0
            # Predictions have the rounding of the kernel without weights.
            self._rounding = _EPSILON * float(np.abs(self.matrix).max()) * np.sqrt(len(points))
            self.values, self.vectors = np.maximum(values[:count] - floor, 0.0), vectors[:, :count]
        self.largest = float(self.values.max(initial=0.0)) or 1.0
        self.penalties = self.largest * _PENALTIES
        # With these, B and the coefficients are those of the samples, and not of the samples times the roots.
        self.vectors, self.tail = self._rooted(self.vectors), self._rooted(self.tail)
        self._squares = self.vectors**2

    def _rooted(self, rows: Any) -> Any:
        """Rows of samples times the roots of their weights."""
        return rows if self._root is None else self._root * rows

    def _unrooted(self, rows: Any) -> Any:
        """Rows of samples over the roots of their weights."""
        return rows if self._root is None else rows / self._root

    def _decompose_features(self, inducing: IntArray) -> None:
        """Find eigenvectors of the kernel on inducing samples, from features whose products it is."""
        self.inner = System(self.kernel, self.points[inducing])
        is_held = self.inner.values > max(_RANK * self.inner.largest, self.inner._rounding)
        self._half = self.inner.vectors[:, is_held] / np.sqrt(self.inner.values[is_held])
        self.matrix = self.kernel.matrix(self.points, self.inner.points)
        features = self._rooted(self.matrix @ self._half)
        features -= self.tail @ (self.tail.T @ features)
        values, turn = eigh(features.T @ features, check_finite=False, driver="evd")
        is_held = values > _RANK * values.max(initial=0.0)
        self.values, self._turn = values[is_held], turn[:, is_held]
        self.vectors = features @ (self._turn / np.sqrt(self.values))
        # Coefficients of the kernel at the inducing samples are these, times those of all samples in the eigenvectors.
        self._back = self._half @ (self._turn * np.sqrt(self.values))

    def _has_orthogonal_inputs(self) -> bool:
        """Take the inputs as the eigenvectors of a linear kernel, if they are: all coefficients of modes."""
        points = self._rooted(self.points)
        sizes = np.linalg.norm(points, axis=0)
        kept = sizes > 1e-14 * sizes.max(initial=0.0)
        if kept.sum() + self.tail.shape[1] != len(points):
            return False
        vectors = np.concatenate([points[:, kept] / sizes[kept], self.tail], axis=1)
        if np.abs(vectors.T @ vectors - np.eye(len(vectors))).max() > 1e-11:
            return False
        self.vectors, self.values = (
            np.ascontiguousarray(vectors[:, : kept.sum()]),
            self.kernel.linear * sizes[kept] ** 2,
        )
        return True

    def project(self, targets: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Targets in the eigenvectors, and what neither these nor the tail hold."""
        inside = self.vectors.T @ targets
        if not self.is_thin:
            return inside, None
        whole = self._rooted(self._rooted(targets))
        return inside, whole - self.tail @ (self.tail.T @ targets) - self.vectors @ inside

    def diagonal(self, penalties: FloatArray) -> FloatArray:
        """Diagonal of B, one column for each penalty."""
        found = self._squares @ (1.0 / (self.values[:, None] + penalties))
        if self.is_thin:
            weight: Any = 1.0 if self._root is None else self._root[:, 0] ** 2
            outside = weight - self._squares.sum(axis=1) - (self.tail**2).sum(axis=1)
            found = found + np.where(outside > 1e-10 * weight, outside, 0.0)[:, None] / penalties
        return found

    def solve(self, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray) -> FloatArray:
        """Coefficients of the kernel (n, r), with one penalty for all targets or one for each."""
        inside, outside = projected
        found = self.vectors @ (inside / (self.values[:, None] + penalties))
        return found if outside is None else found + outside / penalties

    def leaving_out(self, parts: list[IntArray]) -> System:
        """The same system, whose residuals are those of groups (g, s) of each size s; of other samples they are 0."""
        other = copy(self)
        other._parts = parts
        return other

    def left_out(
        self, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Coefficients, leave-one-out residuals, and diagonal of B, all (n, r) or with one column.

        Where a sample or a group alone determines a part of the model, its residuals are infinite.
        """
        coefficients, diagonal = self.solve(projected, penalties), self.diagonal(penalties)
        least = _LEAST_FREE / (self.largest + penalties)
        if not self._parts:
            is_free = diagonal > self._rooted(self._rooted(np.ones((len(self.points), 1)))) * least
            divisors = self._rounded(np.where(is_free, diagonal, 1.0))
            return coefficients, np.where(is_free, coefficients / divisors, np.inf), diagonal
        residuals, rooted = np.zeros_like(coefficients), self._unrooted(coefficients)
        for penalty, own in self._of_equal_penalties(penalties, coefficients.shape[1]):
            for rows in self._parts:
                place = rows[..., np.newaxis], own
                values, vectors = np.linalg.eigh(self._blocks(rows, penalty))
                is_free = (values[:, :1] > _LEAST_FREE / (self.largest + penalty))[..., np.newaxis]
                turned = vectors.mT @ rooted[place] / self._rounded(np.where(is_free, values[..., np.newaxis], 1.0))
                residuals[place] = np.where(is_free, vectors @ turned, np.inf)
        return coefficients, self._unrooted(residuals), diagonal

    def _rounded(self, divisors: FloatArray) -> FloatArray:
        """Numbers that turn coefficients into residuals, with the error of predictions by the rounding of the kernel.

        It is that of a number times the norm of the coefficients, which long length scales make huge.
        """
        return divisors / np.hypot(1.0, self._rounding * divisors)

    def left_out_by(self, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray) -> FloatArray:
        """Leave-one-out residuals (l, n, r) with each of several penalties (l,) for all targets."""
        if self._parts:
            return np.stack([self.left_out(projected, penalties[[place]])[1] for place in range(len(penalties))])
        return self.left_out(projected, penalties[:, np.newaxis, np.newaxis])[1]

    def _blocks(self, rows: IntArray, penalty: float) -> FloatArray:
        """Blocks (g, s, s) of B that belong to groups of samples (g, s), over the roots of their weights."""
        vectors = self._unrooted(self.vectors)[rows]
        found = (vectors / (self.values + penalty)) @ vectors.mT
        if self.is_thin:
            tail = self._unrooted(self.tail)[rows]
            found += (np.eye(rows.shape[1]) - vectors @ vectors.mT - tail @ tail.mT) / penalty
        return found

    @staticmethod
    def _of_equal_penalties(penalties: FloatArray, n_targets: int) -> Iterator[tuple[float, IntArray]]:
        """Each penalty, and the targets that have it; one penalty is that of all."""
        if np.size(penalties) == 1:
            yield float(np.ravel(penalties)[0]), np.arange(n_targets)
            return
        each = np.broadcast_to(penalties, n_targets)
        for penalty in np.unique(each):
            yield float(penalty), np.flatnonzero(each == penalty)

    def weights(
        self, targets: FloatArray, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Coefficients by which the kernel (n, r) and the tail (m, r) predict.

        Those on the rest of the complement are left out, where the kernel is zero. With inducing samples, the kernel is
        that between these and a point, with as many coefficients.
        """
        if self.inducing is None:
            coefficients = self.solve((projected[0], None), penalties)
        else:
            coefficients = self._back @ (projected[0] / (self.values[:, None] + penalties))
        rest = self._rooted(targets - self._times(coefficients))
        tail = lstsq(self.monomials, rest, cond=1e-10, check_finite=False)[0]
        return coefficients, tail

    def _times(self, vectors: FloatArray) -> FloatArray:
        """The kernel matrix times vectors."""
        if self.is_thin and self.inducing is None:
            return self.kernel.linear * (self.points @ (self.points.T @ vectors))
        return self.matrix @ vectors

    def variances(self, points: FloatArray, penalties: FloatArray) -> FloatArray:
        """Variances (q, r) of new observations by kriging, for a kernel of unit size.

        Those on inducing samples are of the deterministic training conditional: to the variance of the ridge regression
        comes that of the kernel given its values at the inducing samples, so that it is as large far from them.
        """
        if self.inducing is not None:
            # Without weights of all samples, of which there are many.
            tail, inverse = self.kernel.tail(points), np.linalg.pinv(self.monomials, rcond=1e-10)
            rows = self.kernel.matrix(points, self.inner.points) - tail @ (inverse @ self._rooted(self.matrix))
            gained = (rows @ self._half @ self._turn) ** 2 @ (1.0 / (self.values[:, None] + penalties))
            fixed = 1 + ((tail @ (inverse @ inverse.T)) * tail).sum(axis=1)
            return self.unexplained(points)[:, None] + penalties * (gained + fixed[:, None])
        own, rows, fitted = self._given_tail(points)
        gained = (rows @ self.vectors) ** 2 @ (1.0 / (self.values[:, None] + penalties))
        return own[:, None] + penalties * (1 + (fitted**2).sum(axis=1)[:, None]) - gained

    def _given_tail(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Variances (q,) of deviations from the tail through the samples, their covariances (q, n), and factors (q, n).

        The factors of the samples reproduce the tail at the points; the best ones differ by a vector of the complement.
        """
        between = self.kernel.matrix(points, self.points)
        fitted = lstsq(self.monomials.T, self.kernel.tail(points).T, cond=1e-10, check_finite=False)[0].T
        whole = self._rooted(fitted.T).T
        across = self._times(whole.T).T
        own = self.kernel.variance(points) - 2 * (whole * between).sum(axis=1) + (across * whole).sum(axis=1)
        return own, between - across, fitted

    def unexplained(self, points: FloatArray) -> FloatArray:
        """Variances (q,) that remain where the values at the inducing samples are known, for a kernel of unit size."""
        own, rows, _ = self.inner._given_tail(points)
        found = own - ((rows @ self._half) ** 2).sum(axis=1)
        return np.where(found > 1e-10 * np.abs(own), found, 0.0)

    def left_out_variances(self, penalties: FloatArray) -> FloatArray:
        """Variances (n, r) of the training samples, each by the fit to all others, for a kernel of unit size."""
        if self._parts:
            found = np.empty((len(self.points), len(penalties)))
            for penalty, own in self._of_equal_penalties(penalties, len(penalties)):
                for rows in self._parts:
                    inverse = np.linalg.pinv(self._blocks(rows, penalty), hermitian=True)
                    found[rows[..., np.newaxis], own] = np.einsum("gii->gi", inverse)[..., np.newaxis]
            found = self._unrooted(self._unrooted(found))
        else:
            found = 1.0 / np.maximum(self.diagonal(penalties), SAME)
        return found if self.inducing is None else found + self.unexplained(self.points)[:, None]


class AkimaSystem(System):
    """Akima's interpolation over one input, in place of the system of a kernel; it has no penalty.

    Variances are those of a random walk through the samples: they grow with the distance from these.

    Parameters
    ----------
    kernel : Kernel
        The kernel of this name.
    points : ndarray of shape (n, 1)
        Different training points.
    """

    def __init__(self, kernel: Kernel, points: FloatArray) -> None:
        # Coefficients belong to the samples in the order of the input.
        self.kernel, self.points, self.penalties = kernel, points, np.zeros(1)
        self.inducing = self._order = np.argsort(points[:, 0])
        self._knots = points[self._order, 0]

    def project(self, targets: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Targets as they are."""
        return targets, None

    def left_out(
        self, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Residuals of interpolations without one sample, after these over their variances and before one over them."""
        residuals = np.empty_like(projected[0])
        residuals[self._order] = residuals_without_each(self._knots, projected[0][self._order])
        diagonal = 1 / self.left_out_variances(np.zeros(1))
        return residuals * diagonal, residuals, diagonal

    def left_out_by(self, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray) -> FloatArray:
        """Leave-one-out residuals (1, n, r)."""
        return self.left_out(projected, penalties)[1][np.newaxis]

    def weights(
        self, targets: FloatArray, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Values and slopes (2n, r) at the sorted samples, and a tail of zeros."""
        values = targets[self._order]
        both = np.concatenate([values, slopes_at(self._knots, values)])
        return both, np.zeros((self.kernel.n_monomials(1), targets.shape[1]))

    def variances(self, points: FloatArray, penalties: FloatArray) -> FloatArray:
        """Variances (q, r) of new observations."""
        place = np.searchsorted(self._knots, points[:, 0])
        ends = np.concatenate([[-np.inf], self._knots, [np.inf]])
        return np.broadcast_to(
            _bridge(points[:, 0] - ends[place], ends[place + 1] - points[:, 0])[:, np.newaxis],
            (len(points), len(penalties)),
        )

    def left_out_variances(self, penalties: FloatArray) -> FloatArray:
        """Variances (n, r) of the samples, each given all others."""
        gaps = np.concatenate([[np.inf], np.diff(self._knots), [np.inf]])
        found = np.empty((len(self.points), len(penalties)))
        found[self._order] = _bridge(gaps[:-1], gaps[1:])[:, np.newaxis]
        return found


def _bridge(before: FloatArray, after: FloatArray) -> FloatArray:
    """Variance of a random walk between two points that are known, given the distances from these; one is finite."""
    return 1 / (1 / np.maximum(before, SAME) + 1 / np.maximum(after, SAME))


def system_of(
    kernel: Kernel,
    points: FloatArray,
    inducing: IntArray | None = None,
    groups: IntArray | None = None,
    weight: FloatArray | None = None,
) -> System:
    """System of a kernel at training points; Akima's interpolation goes through samples of any weight."""
    return AkimaSystem(kernel, points) if kernel.name == "akima" else System(kernel, points, inducing, groups, weight)


@dataclass(eq=False)
class KernelModel:
    """Fitted kernel regressions, one for each target, which share a kernel.

    Attributes
    ----------
    points : ndarray of shape (n, d)
        Training points.
    kernels : list of Kernel
        The kernel; files of earlier versions may have several.
    columns : list of ndarray of int
        Targets of each kernel.
    penalties : ndarray of shape (r,)
        Penalty of each target.
    weights, tails : list of ndarray of shape (n or number of inducing points, r_k) and (m_k, r_k)
        Coefficients of each kernel and of its tail; with ``"akima"`` values, followed by as many slopes.
    left_out : ndarray of shape (n, r)
        Leave-one-out residuals, by groups where there are such.
    sizes : ndarray of shape (r,)
        Mean squares of the leave-one-out residuals, divided by their variances for a kernel of unit size.
    inducing : list of (ndarray of int or None), or None
        Indices of the training points to which the coefficients of each kernel belong; None is all of them.
    groups : ndarray of int, shape (n,), or None
        Numbers of the groups of samples that are left out as a whole.
    weight : ndarray of shape (n,) or None
        Weights of the samples, of mean 1; None if all are equal.
    """

    points: FloatArray
    kernels: list[Kernel]
    columns: list[IntArray]
    penalties: FloatArray
    weights: list[FloatArray]
    tails: list[FloatArray]
    left_out: FloatArray
    sizes: FloatArray
    inducing: list[IntArray | None] | None = None
    groups: IntArray | None = None
    weight: FloatArray | None = None

    @classmethod
    def fit(
        cls,
        targets: FloatArray,
        system: System,
        penalties: FloatArray,
        groups: IntArray | None = None,
        weight: FloatArray | None = None,
    ) -> KernelModel:
        """Solve the system of a kernel with given penalties.

        Parameters
        ----------
        targets : ndarray of shape (n, r)
            Training targets.
        system : System
            System of the kernel at the training points.
        penalties : ndarray of shape (r,)
            Penalty of each target.
        groups : ndarray of int, shape (n,), or None, default=None
            Groups of the system.
        weight : ndarray of shape (n,) or None, default=None
            Weights of the system.

        Returns
        -------
        KernelModel
            The fitted model.
        """
        projected = system.project(targets)
        coefficients, residuals, diagonal = system.left_out(projected, penalties)
        # Without other samples there is no prediction, which then is that of the mean.
        left_out = np.where(np.isfinite(residuals), residuals, targets)
        is_known = np.isfinite(residuals) & (diagonal > 0)
        known = np.where(is_known, residuals, 0.0)
        squares = known * coefficients
        if system.inducing is not None:
            squares = known**2 / system.left_out_variances(penalties)
        sizes = squares.sum(axis=0) / np.maximum(np.sum(is_known, axis=0), 1)
        # A file keeps the order in memory of whole arrays, on which rounding depends.
        weights, tail = map(np.ascontiguousarray, system.weights(targets, projected, penalties))
        columns: list[IntArray] = [np.arange(targets.shape[1])]
        parts = (penalties, [weights], [tail], left_out, sizes, [system.inducing], groups, weight)
        return cls(system.points, [system.kernel], columns, *parts)

    def predict(self, points: Any) -> Any:
        """Predict targets (q, r) at points (q, d): arrays, or tensors through which gradients flow."""
        is_tensor = isinstance(points, torch.Tensor)
        convert: Callable[[Any], Any] = torch.as_tensor if is_tensor else np.asarray
        found = []
        for kernel, weights, tail, chosen in zip(self.kernels, self.weights, self.tails, self._chosen, strict=True):
            kernel = replace(kernel, scales=convert(np.asarray(kernel.scales)))
            values = kernel.tail(points) @ convert(tail)
            if kernel.name != "none" or kernel.linear:
                centres = convert(self.points if chosen is None else self.points[chosen])
                values = values + kernel.matrix(points, centres) @ convert(weights)
            found.append(values)
        order = np.argsort(np.concatenate(self.columns))
        return torch.cat(found, dim=1)[:, order] if is_tensor else np.concatenate(found, axis=1)[:, order]

    def variances(self, points: FloatArray) -> FloatArray:
        """Variances (q, r) of new observations at points (q, d), with the factors of leave-one-out errors."""
        found = np.empty((len(points), len(self.penalties)))
        for system, own in zip(self._systems(), self.columns, strict=True):
            found[:, own] = system.kernel.handicap**2 * system.variances(points, self.penalties[own])
        return found * self.sizes

    def left_out_variances(self) -> FloatArray:
        """Variances (n, r) of the training samples, each by the fit to all others."""
        found = np.empty(self.left_out.shape)
        for system, own in zip(self._systems(), self.columns, strict=True):
            found[:, own] = system.left_out_variances(self.penalties[own])
        return found * self.sizes

    @property
    def _chosen(self) -> list[IntArray | None]:
        """Inducing points of each kernel."""
        return [None] * len(self.kernels) if self.inducing is None else self.inducing

    def _systems(self) -> Iterator[System]:
        """Systems of the kernels."""
        for kernel, chosen in zip(self.kernels, self._chosen, strict=True):
            yield system_of(kernel, self.points, chosen, self.groups, self.weight)


def same_sizes(groups: IntArray | None) -> list[IntArray]:
    """Samples of the groups (g, s) of each size s, in their order; none where each sample is one by itself."""
    if groups is None or len(np.unique(groups)) == len(groups):
        return []
    numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    samples = sorted(np.split(np.argsort(numbers, kind="stable"), np.cumsum(counts)[:-1]), key=itemgetter(0))
    return [np.stack([rows for rows in samples if len(rows) == size]) for size in np.unique(counts)]


def left_out_solver(inverse: FloatArray, parts: list[IntArray]) -> Callable[[FloatArray], FloatArray]:
    """Function that solves (n, r) with the blocks of a matrix that belong to groups, or with its diagonal.

    For samples in none of the groups it returns 0.
    """
    if not parts:
        diagonal = np.maximum(inverse.diagonal(), SAME)[:, np.newaxis]
        return lambda values: values / diagonal
    blocks = [inverse[rows[:, :, np.newaxis], rows[:, np.newaxis]] for rows in parts]
    inverses = [np.linalg.pinv(block, hermitian=True) for block in blocks]

    def solve(values: FloatArray) -> FloatArray:
        found = np.zeros_like(values)
        for rows, block in zip(parts, inverses, strict=True):
            found[rows] = block @ values[rows]
        return found

    return solve


def inverse_of(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Inverse and log-determinant of a positive definite matrix, which this may overwrite; else the pseudo-inverse."""
    factor, is_failed = lapack.dpotrf(matrix, lower=1)
    if is_failed:
        return np.linalg.pinv(matrix, hermitian=True), float(np.linalg.slogdet(matrix)[1])
    log_determinant = 2 * float(np.log(factor.diagonal()).sum())
    # Above the diagonal, both are zero.
    half = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    np.add(half, half.T, out=matrix)
    np.fill_diagonal(matrix, half.diagonal())
    return matrix, log_determinant


def key_of(points: FloatArray) -> FloatArray:
    """Numbers (n,) that put points into an order that is not the caller's."""
    return points[:, 0] if points.shape[1] == 1 else (points**2).sum(axis=1)


def in_order(points: FloatArray, groups: IntArray) -> IntArray:
    """Numbers of groups of points in this order, by the means of their points."""
    return np.argsort(np.bincount(groups, key_of(points)) / np.bincount(groups), kind="stable")


@checks("Kernel")
def _check_kernel(held: Held) -> None:
    """Check a kernel from a file."""
    held.word("name", _KERNELS)
    held.whole("degree", 0, _HIGHEST_DEGREE)
    held.number("linear")
    held.number("handicap")
    scales = held.get("scales")
    if not isinstance(scales, np.ndarray):
        held.number("scales", positive=True)
    else:
        held.need(is_array(scales, (None,), positive=True), "scales", "positive numbers")


@checks("KernelModel")
def _check_kernel_model(held: Held) -> None:
    """Check a model of kernels from a file."""
    n, _ = held.array("points", None, None).shape
    kernels = held.parts("kernels", "Kernel")
    n_targets = len(held.array("penalties", None, finite=False))
    held.array("left_out", n, n_targets)
    held.array("sizes", n_targets, finite=False)
    held.array("groups", n, whole=True, optional=True)
    held.array("weight", n, positive=True, optional=True)
    inducing = held.get("inducing")
    if inducing is None:
        inducing = [None] * len(kernels)
    lists = {name: held.get(name) for name in ("columns", "weights", "tails")} | {"inducing": inducing}
    for name, value in lists.items():
        held.need(isinstance(value, list) and len(value) == len(kernels), name, f"a list of {len(kernels)}")
    for kernel, columns, weights, tail, chosen in zip(kernels, *lists.values(), strict=True):
        _check_kernel_weights(held, kernel, columns, weights, tail, chosen)
    held.need(
        sorted(np.concatenate(lists["columns"]).tolist()) == list(range(n_targets)), "columns", "each target once"
    )


def _check_kernel_weights(held: Held, kernel: Any, columns: Any, weights: Any, tail: Any, chosen: Any) -> None:
    """Check targets, coefficients and inducing points of one of the kernels of a model."""
    n, d = held.get("points").shape
    held.need(is_array(columns, (None,), whole=True), "columns", "numbers of targets")
    is_chosen = chosen is None or (is_array(chosen, (None,), whole=True) and bool(((chosen >= 0) & (chosen < n)).all()))
    held.need(is_chosen, "inducing", f"numbers below {n}, or None")
    count = n if chosen is None else len(chosen)
    if kernel.name == "akima":
        is_sorted = chosen is not None and d == 1 and bool((np.diff(held.get("points")[chosen, 0]) > 0).all())
        held.need(is_sorted, "inducing", "the order of different points of one input")
        # Values and slopes.
        count *= 2
    if kernel.name != "none" or kernel.linear:
        held.need(is_array(weights, (count, len(columns))), "weights", "coefficients")
    held.need(
        np.shape(kernel.scales) in ((), (d,)) and (d == 0 or kernel.degree < _HIGHEST_DEGREE),
        "kernels",
        f"kernels of {d} inputs",
    )
    count = comb(d + kernel.degree, d)
    held.need(
        is_array(tail, (count, len(columns))),
        "tails",
        f"{count} coefficients for a tail of degree {kernel.degree}",
    )


KNOWN.update({kind.__name__: kind for kind in (Kernel, KernelModel)})
