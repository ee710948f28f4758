"""Kernel regression with a polynomial tail: one linear smoother for many classical surrogate models.

The prediction is ``[k(x, X), p(x)] @ W`` with a kernel k, the n training points X and the monomials p up to a degree.
W solves the saddle-point system ``[[K + penalty I, T], [T', 0]] W = [Y, 0]``. The mean is a constant alone; ridge
regression has the linear kernel; kernel ridge regression and the mean of a Gaussian process have a positive definite
one; interpolation by polyharmonic radial functions has a conditionally positive definite one, which for one input is
the natural spline. Leave-one-out residuals of all of them are ``C_i / B_ii``, where C are the coefficients of the
kernel and B is the first block of the inverse of the system, and the variance of a prediction is that of kriging. Where
samples belong to groups, such as the frames of a run, a whole group is left out: its residuals are ``B_gg^-1 C_g``.

Akima's interpolation over one input has the same form, with cubics between neighbours as kernel. Its slopes depend on
the targets, so that it has no closed form of these residuals, but each depends on three neighbours on either side.

Notation: n training points, d inputs, m monomials, r targets (coefficients of modes), q points of a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh, lapack, lstsq, svd
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import ndtr, stdtrit

from skop._typing import FloatArray, IntArray
from skop.estimators.files._file_checks import Held, checks, is_array
from skop.estimators.files._persistence import KNOWN

__all__ = [
    "AkimaSystem",
    "Basis",
    "Decomposition",
    "Found",
    "Kernel",
    "KernelModel",
    "Selection",
    "System",
    "between_ends",
]

#: Penalties that are tried, as parts of the largest eigenvalue of the kernel matrix; the last one leaves the tail.
_PENALTIES = np.append(np.logspace(-14, 1, 16), 1e6)
#: Points are the same below this squared distance. It keeps derivatives of roots and logarithms finite.
_SAME = 1e-30
#: Relative differences up to this are rounding.
_ROUNDING = 1e-13
#: Eigenvalues up to this part of the largest are rounding.
_RANK = 1e-15
#: In Akima's interpolation, changes up to this part of the slopes are rounding; number of neighbours on either side.
_FLAT, _NEIGHBOURS = 1e-9, 3
#: Compute distances from differences up to this number of inputs, from products above.
_FEW_INPUTS = 32
#: Names of positive definite kernels, and the length scales that are tried first, in mean distances of two samples.
_STATIONARY, _SCALES = ("gaussian", "matern52", "matern32"), (0.25, 0.5, 1.0, 2.0, 4.0)
#: Number of leading modes of the input with length scales of their own, and of steps in the search for these.
_OWN_SCALES, _STEPS = 24, 40
#: End this search when the logarithm of the error decreases by less.
_SMALL_STEP = 3e-4
#: Numbers of samples and of leading targets that decide about the kernel; number of kernels in the last round.
_SCREENED, _LEADING, _FINALISTS = 400, 128, 2
#: The last leading targets, in this number, decide for all targets after them.
_LAST = 32
#: Choose penalties for each target alone if this lowers the error below this part.
_BETTER_BY_PENALTIES = 0.93
#: Compute components from products of samples if a decomposition would take more products than this.
_LARGE = 1e9
#: Number of parts of the samples that judge the search for length scales, and their smallest size.
_PARTS, _FEWEST = 8, 2
#: Length scales over one input, in mean distances of two samples.
_DENSE_SCALES = tuple(np.geomspace(0.03, 8.0, 25))
#: Over one input, leave-one-out errors up to this multiple of the smallest are about as good.
_EQUIVALENT = 1.1
#: A model over one input is better than the mean if it gains this number of standard errors, or if its error is below
#: this part of the mean's error.
_BEYOND_CHANCE, _CLEAR = 2.0, 0.3
#: From this number of samples for each length scale on, their search does not spoil leave-one-out errors.
_ENOUGH = 15
#: Above this number of samples, half of them decide where the search for length scales starts.
_HALVED = 200
#: Drop a kernel if its error on some of the samples exceeds this multiple of the smallest.
_WORSE = 1.2
#: On all samples, try penalties within this number of decades of the best one on some samples.
_DECADES = 3.5
#: Above the first number of samples, kernels use the second number of inducing samples.
_MOST_EXACT, _INDUCING = 2000, 1500
#: Residuals are infinite if B is below this part of its largest possible value: a sample then determines itself.
_LEAST_FREE = 1e-9
#: Degree of the polynomial tail that makes a polyharmonic kernel definite.
_POLYHARMONIC = {"linear_spline": 0, "thin_plate": 1, "cubic": 1, "quintic": 2, "septic": 3}


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
            return _cubics(left, right)
        line = self.linear * (left @ right.T)
        if self.name == "none":
            return line
        return self._radial(_squares(left / self.scales, right / self.scales)) + line

    def _radial(self, squares: Any) -> Any:
        """Radial function of squared distances."""
        xp: Any = torch if isinstance(squares, torch.Tensor) else np
        if self.name == "gaussian":
            return xp.exp(-0.5 * squares)
        squares = xp.clip(squares, _SAME, None)
        if self.name == "thin_plate":
            return 0.5 * squares * xp.log(squares)
        if self.name in _POLYHARMONIC:
            power = {"linear_spline": 1, "cubic": 3, "quintic": 5, "septic": 7}[self.name]
            return (1 if power in (3, 7) else -1) * squares ** (0.5 * power)
        if self.name == "matern32":
            distance = xp.sqrt(3 * squares)
            return (1 + distance) * xp.exp(-distance)
        distance = xp.sqrt(5 * squares)
        return (1 + distance + distance**2 / 3) * xp.exp(-distance)

    def slope(self, squares: FloatArray) -> FloatArray:
        """Derivative of the radial function by the squared distance, for kernels with length scales."""
        if self.name == "gaussian":
            return -0.5 * np.exp(-0.5 * squares)
        if self.name == "matern32":
            return -1.5 * np.exp(-np.sqrt(3 * squares))
        distance = np.sqrt(5 * squares)
        return -5 / 6 * (1 + distance) * np.exp(-distance)

    def variance(self, points: FloatArray) -> FloatArray:
        """Value of the kernel between each point and itself."""
        own = 0.0 if self.name == "none" or self.name in _POLYHARMONIC else 1.0
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


def _cubics(points: Any, knots: Any) -> Any:
    """Cubics (q, 2n) at points (q, 1) for values at sorted knots (n, 1), and for slopes; lines beyond the ends."""
    xp: Any = torch if isinstance(points, torch.Tensor) else np
    knots = knots[:, 0]
    apart, gaps = points - knots, knots[1:] - knots[:-1]
    # Beyond the ends, the next knot is infinitely far.
    far = xp.full_like(knots[:1], np.inf)
    part = xp.where(apart < 0, -apart / xp.concatenate([far, gaps]), apart / xp.concatenate([gaps, far]))
    part = xp.clip(part, 0.0, 1.0)
    return xp.concatenate([(1 - part) ** 2 * (1 + 2 * part), (1 - part) ** 2 * apart], 1)


def _slopes(knots: FloatArray, values: FloatArray) -> FloatArray:
    """Slopes (n, r) at sorted knots (n,) of values (n, r), of which all have the same weights.

    H. Akima, "A new method of interpolation and smooth curve fitting based on local procedures", J. ACM 17 (1970), with
    norms over all values in place of the size of one, so that it does not depend on their axes.
    """
    inner = np.diff(values, axis=0) / np.diff(knots)[:, np.newaxis]
    # Two more intervals at either end, of slopes that go on changing as those next to them.
    first, last = inner[0] - inner[1], inner[-1] - inner[-2]
    slopes = np.stack([inner[0] + 2 * first, inner[0] + first, *inner, inner[-1] + last, inner[-1] + 2 * last])
    sizes = np.linalg.norm(slopes, axis=1)
    # Where the slopes on either side are the same but for rounding, both weights are.
    changes = np.linalg.norm(np.diff(slopes, axis=0), axis=1)
    least = _FLAT * (sizes[1:-2] + sizes[2:-1]) + _SAME
    left, right = changes[2:] + least, changes[:-2] + least
    share = (left / (left + right))[:, np.newaxis]
    return share * slopes[1:-2] + (1 - share) * slopes[2:-1]


def _squares(left: Any, right: Any) -> Any:
    """Squared distances between points (q, d) and (n, d)."""
    if isinstance(left, torch.Tensor):
        return ((left[:, None] - right) ** 2).sum(dim=-1)
    if left.shape[1] <= _FEW_INPUTS:
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
    """

    def __init__(
        self,
        kernel: Kernel,
        points: FloatArray,
        inducing: IntArray | None = None,
        groups: IntArray | None = None,
    ) -> None:
        self.kernel, self.points, self.inducing = kernel, points, inducing
        self._parts = _same_sizes(groups)
        self.monomials = kernel.tail(points)
        left, sizes, _ = svd(self.monomials, full_matrices=False, check_finite=False)
        self.tail = left[:, sizes > 1e-10 * sizes[0]]
        is_linear = kernel.name == "none" and (not kernel.linear or points.shape[1] <= len(points) // 4)
        self.is_thin = is_linear or inducing is not None
        if inducing is not None:
            self._decompose_features(inducing)
        elif kernel.name == "none" and not kernel.linear:
            self.vectors, self.values = np.zeros((len(points), 0)), np.zeros(0)
        elif self.is_thin:
            rows = np.sqrt(kernel.linear) * (points - self.tail @ (self.tail.T @ points))
            self.vectors, sizes, _ = svd(rows, full_matrices=False, check_finite=False)
            kept = sizes > 1e-14 * sizes.max(initial=0.0)
            self.vectors, self.values = self.vectors[:, kept], sizes[kept] ** 2
        elif kernel.name == "none" and self._has_orthogonal_inputs():
            self.matrix = kernel.matrix(points, points)
        else:
            self.matrix = kernel.matrix(points, points)
            centred = self.matrix - self.tail @ (self.tail.T @ self.matrix)
            centred = centred - (centred @ self.tail) @ self.tail.T
            # The tail gets the largest eigenvalues, so that its vectors are the last ones.
            shift = 2 * float(np.abs(centred).sum(axis=1).max(initial=0.0)) or 1.0
            values, vectors = eigh(centred + shift * (self.tail @ self.tail.T), check_finite=False, driver="evd")
            count = len(points) - self.tail.shape[1]
            # Where all points are the same, differences of the kernel are rounding.
            size = float(np.abs(self.matrix).max(initial=0.0))
            floor = _ROUNDING * len(points) * size if values[:count].max(initial=0.0) < _ROUNDING * size else 0.0
            self.values, self.vectors = np.maximum(values[:count] - floor, 0.0), vectors[:, :count]
        self.largest = float(self.values.max(initial=0.0)) or 1.0
        self.penalties = self.largest * _PENALTIES
        self._squares = self.vectors**2

    def _decompose_features(self, inducing: IntArray) -> None:
        """Find eigenvectors of the kernel on inducing samples, from features whose products it is."""
        self.inner = System(self.kernel, self.points[inducing])
        is_held = self.inner.values > _RANK * self.inner.largest
        self._root = self.inner.vectors[:, is_held] / np.sqrt(self.inner.values[is_held])
        self.matrix = self.kernel.matrix(self.points, self.inner.points)
        features = self.matrix @ self._root
        features -= self.tail @ (self.tail.T @ features)
        values, turn = eigh(features.T @ features, check_finite=False, driver="evd")
        is_held = values > _RANK * values.max(initial=0.0)
        self.values, self._turn = values[is_held], turn[:, is_held]
        self.vectors = features @ (self._turn / np.sqrt(self.values))
        # Coefficients of the kernel at the inducing samples are these, times those of all samples in the eigenvectors.
        self._back = self._root @ (self._turn * np.sqrt(self.values))

    def _has_orthogonal_inputs(self) -> bool:
        """Take the inputs as the eigenvectors of a linear kernel, if they are: all coefficients of modes."""
        sizes = np.linalg.norm(self.points, axis=0)
        kept = sizes > 1e-14 * sizes.max(initial=0.0)
        if kept.sum() + self.tail.shape[1] != len(self.points):
            return False
        vectors = np.concatenate([self.points[:, kept] / sizes[kept], self.tail], axis=1)
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
        return inside, targets - self.tail @ (self.tail.T @ targets) - self.vectors @ inside

    def diagonal(self, penalties: FloatArray) -> FloatArray:
        """Diagonal of B, one column for each penalty."""
        found = self._squares @ (1.0 / (self.values[:, None] + penalties))
        if self.is_thin:
            outside = 1.0 - self._squares.sum(axis=1) - (self.tail**2).sum(axis=1)
            found = found + np.where(outside > 1e-10, outside, 0.0)[:, None] / penalties
        return found

    def solve(self, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray) -> FloatArray:
        """Coefficients of the kernel (n, r), with one penalty for all targets or one for each."""
        inside, outside = projected
        found = self.vectors @ (inside / (self.values[:, None] + penalties))
        return found if outside is None else found + outside / penalties

    def left_out(
        self, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Coefficients, leave-one-out residuals, and diagonal of B, all (n, r) or with one column.

        Where a sample or a group alone determines a part of the model, its residuals are infinite.
        """
        coefficients, diagonal = self.solve(projected, penalties), self.diagonal(penalties)
        least = _LEAST_FREE / (self.largest + penalties)
        if not self._parts:
            is_free = diagonal > least
            return coefficients, np.where(is_free, coefficients / np.where(is_free, diagonal, 1.0), np.inf), diagonal
        residuals = np.empty_like(coefficients)
        for penalty, own in self._of_equal_penalties(penalties, coefficients.shape[1]):
            for rows in self._parts:
                place = rows[..., np.newaxis], own
                values, vectors = np.linalg.eigh(self._blocks(rows, penalty))
                is_free = (values[:, :1] > _LEAST_FREE / (self.largest + penalty))[..., np.newaxis]
                turned = vectors.mT @ coefficients[place] / np.where(is_free, values[..., np.newaxis], 1.0)
                residuals[place] = np.where(is_free, vectors @ turned, np.inf)
        return coefficients, residuals, diagonal

    def _blocks(self, rows: IntArray, penalty: float) -> FloatArray:
        """Blocks of B (g, s, s) that belong to groups of samples (g, s)."""
        vectors = self.vectors[rows]
        found = (vectors / (self.values + penalty)) @ vectors.mT
        if self.is_thin:
            tail = self.tail[rows]
            found += (np.eye(rows.shape[1]) - vectors @ vectors.mT - tail @ tail.mT) / penalty
        return found

    @staticmethod
    def _of_equal_penalties(penalties: FloatArray, n_targets: int) -> Iterator[tuple[float, IntArray]]:
        """Each penalty, and the targets that have it; one penalty is that of all."""
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
        tail = lstsq(self.monomials, targets - self._times(coefficients), cond=1e-10, check_finite=False)[0]
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
            rows = self.kernel.matrix(points, self.inner.points) - tail @ (inverse @ self.matrix)
            gained = (rows @ self._root @ self._turn) ** 2 @ (1.0 / (self.values[:, None] + penalties))
            fixed = 1 + ((tail @ (inverse @ inverse.T)) * tail).sum(axis=1)
            return self.unexplained(points)[:, None] + penalties * (gained + fixed[:, None])
        own, rows, fitted = self._given_tail(points)
        gained = (rows @ self.vectors) ** 2 @ (1.0 / (self.values[:, None] + penalties))
        return own[:, None] + penalties * (1 + (fitted**2).sum(axis=1)[:, None]) - gained

    def _given_tail(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Variances (q,) of deviations from the tail through the samples, their covariances (q, n), and weights (q, n).

        The weights of the samples reproduce the tail at the points; the best ones differ by a vector of the complement.
        """
        between = self.kernel.matrix(points, self.points)
        fitted = lstsq(self.monomials.T, self.kernel.tail(points).T, cond=1e-10, check_finite=False)[0].T
        across = self._times(fitted.T).T
        own = self.kernel.variance(points) - 2 * (fitted * between).sum(axis=1) + (across * fitted).sum(axis=1)
        return own, between - across, fitted

    def unexplained(self, points: FloatArray) -> FloatArray:
        """Variances (q,) that remain where the values at the inducing samples are known, for a kernel of unit size."""
        own, rows, _ = self.inner._given_tail(points)
        found = own - ((rows @ self._root) ** 2).sum(axis=1)
        return np.where(found > 1e-10 * np.abs(own), found, 0.0)

    def left_out_variances(self, penalties: FloatArray) -> FloatArray:
        """Variances (n, r) of the training samples, each by the fit to all others, for a kernel of unit size."""
        if self._parts:
            found = np.empty((len(self.points), len(penalties)))
            for penalty, own in self._of_equal_penalties(penalties, len(penalties)):
                for rows in self._parts:
                    inverse = np.linalg.pinv(self._blocks(rows, penalty), hermitian=True)
                    found[rows[..., np.newaxis], own] = np.einsum("gii->gi", inverse)[..., np.newaxis]
        else:
            found = 1.0 / np.maximum(self.diagonal(penalties), _SAME)
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
        values, residuals = projected[0][self._order], np.empty_like(projected[0])
        for place, sample in enumerate(self._order):
            near = np.arange(max(place - _NEIGHBOURS, 0), min(place + _NEIGHBOURS + 1, len(values)))
            near = near[near != place]
            knots, own = self._knots[near], values[near]
            cubics = _cubics(self._knots[[[place]]], knots[:, np.newaxis])
            residuals[sample] = values[place] - cubics @ np.concatenate([own, _slopes(knots, own)])
        diagonal = 1 / self.left_out_variances(np.zeros(1))
        return residuals * diagonal, residuals, diagonal

    def weights(
        self, targets: FloatArray, projected: tuple[FloatArray, FloatArray | None], penalties: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Values and slopes (2n, r) at the sorted samples, and a tail of zeros."""
        values = targets[self._order]
        both = np.concatenate([values, _slopes(self._knots, values)])
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
    return 1 / (1 / np.maximum(before, _SAME) + 1 / np.maximum(after, _SAME))


def _system_of(
    kernel: Kernel, points: FloatArray, inducing: IntArray | None = None, groups: IntArray | None = None
) -> System:
    """System of a kernel at training points."""
    return AkimaSystem(kernel, points) if kernel.name == "akima" else System(kernel, points, inducing, groups)


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

    @classmethod
    def fit(
        cls,
        targets: FloatArray,
        system: System,
        penalties: FloatArray,
        groups: IntArray | None = None,
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
        parts = (penalties, [weights], [tail], left_out, sizes, [system.inducing], groups)
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
        """Variances (q, r) of new observations at points (q, d)."""
        found = np.empty((len(points), len(self.penalties)))
        for system, own in zip(self._systems(), self.columns, strict=True):
            found[:, own] = system.variances(points, self.penalties[own])
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
            yield _system_of(kernel, self.points, chosen, self.groups)


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
        return coefficients @ self.components_ + self.mean_


class Decomposition:
    """Singular value decomposition of centred rows, of which components are computed when they are asked for.

    Parameters
    ----------
    rows : ndarray of shape (n, P)
        The rows.
    n_components : int, float or None
        Number of components; those that explain a part of the variance; or all.

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

    def __init__(self, rows: FloatArray, n_components: int | float | None) -> None:
        n, size = rows.shape
        self.mean = rows.mean(axis=0)
        self.centred = rows - self.mean
        is_long = n > _MOST_EXACT and n > size
        self.is_large = is_long or (size > n and n * n * size > _LARGE)
        self._components: FloatArray | None = None
        floor = 1e-7
        if is_long:
            squares, right = eigh(self.centred.T @ self.centred, check_finite=False, driver="evd")
            sizes, right = np.sqrt(np.maximum(squares[::-1], 0.0)), right[:, ::-1]
            left, self._components = self.centred @ right / np.where(sizes > 0, sizes, 1.0), right.T
        elif self.is_large:
            squares, left = eigh(self.centred @ self.centred.T, check_finite=False, driver="evd")
            sizes, left = np.sqrt(np.maximum(squares[::-1], 0.0)), left[:, ::-1]
        else:
            left, sizes, self._components = svd(self.centred, full_matrices=False, check_finite=False)
            floor = 1e-13 * np.sqrt(n)
        rank = max(int((sizes > floor * sizes.max(initial=0.0)).sum()), 1)
        self.is_complete = rank == size
        # NumPy's scalars are no float, but for np.float64, and an integer is a number of modes.
        if isinstance(n_components, Real) and not isinstance(n_components, Integral):
            shares = np.cumsum(sizes**2) / max(float((sizes**2).sum()), np.finfo(float).tiny)
            rank = min(rank, int(np.searchsorted(shares, float(n_components))) + 1)
        elif n_components is not None:
            rank = min(int(n_components), rank)
        self.coefficients = left[:, :rank] * sizes[:rank]
        self.variances = sizes[:rank] ** 2 / n

    def columns(self, place: slice, count: int | None = None) -> FloatArray:
        """Some columns of the leading components."""
        if self._components is not None:
            return self._components[: len(self.variances) if count is None else count, place]
        scaled = self.coefficients[:, :count] / (len(self.centred) * self.variances[:count])
        return scaled.T @ self.centred[:, place]

    def products(self, factors: FloatArray) -> FloatArray:
        """Products (r, r) of the leading columns of the components, times factors."""
        if self._components is not None:
            scaled = self.columns(slice(len(factors))) * factors
            return scaled @ scaled.T
        scaled = self.centred[:, : len(factors)] * factors
        sides = self.coefficients / (len(self.centred) * self.variances)
        return sides.T @ (scaled @ scaled.T) @ sides

    def basis(self, count: int | None = None) -> Basis:
        """The leading components, or all."""
        # A file keeps the order in memory of whole arrays only, on which rounding depends.
        return Basis(self.mean, np.ascontiguousarray(self.columns(slice(None), count)), self.is_complete)


#: Error, kernel and penalty of a trial on some of the samples.
Trial = tuple[float, Kernel, float]
#: Error of leave-one-out residuals (k, s) of the leading s targets, at k samples whose numbers are given.
Error = Callable[[FloatArray, IntArray], float]
#: Error of each output of such residuals of all samples, in any unit.
Each = Callable[[FloatArray], FloatArray]


@dataclass(eq=False)
class Found:
    """What a search has found: a system, and the penalty for each target."""

    error: float
    #: None where the error alone is known.
    system: System | None
    penalties: FloatArray
    #: Error of each leading target by penalty (l, s), and these penalties (l,).
    each: FloatArray
    tried: FloatArray
    #: Least error of each output among these; None for one output.
    least: FloatArray | None = None


class Selection:
    """Search for the kernel and the penalty of the smallest leave-one-out error.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Inputs, of order 1.
    targets : ndarray of shape (n, r)
        Targets in the order of their importance.
    weights : ndarray of shape (n,)
        Weights of the residuals of the samples, in length scales and in the choice for single targets.
    error : callable
        Error of leave-one-out residuals (k, s) of the leading s targets, at k samples whose numbers it is given.
    n_params : int
        Number of leading inputs that are global parameters.
    groups : ndarray of int, shape (n,), or None, default=None
        Numbers of the groups that are left out as a whole; None leaves out one sample at a time.
    each : callable or None, default=None
        Error of each output of residuals (n, s); None for one output.
    """

    def __init__(
        self,
        points: FloatArray,
        targets: FloatArray,
        weights: FloatArray,
        error: Error,
        n_params: int,
        groups: IntArray | None = None,
        each: Each | None = None,
    ) -> None:
        self.points, self.n_params = points, n_params
        self.groups, self.all = groups, np.arange(len(points))
        self._inside = between_ends(points) if groups is None else np.ones(len(points), bool)
        self.weights = np.where(self._inside, weights, 0.0)
        self.narrow(targets, error, each)
        self._trials: dict[str, list[Trial]] = {}
        # Samples in an order that does not depend on the caller's, of which every k-th is taken.
        step = -(-len(points) // _SCREENED)
        self.few = np.sort(np.argsort(_key(points), kind="stable")[::step]) if step > 1 else self.all

    def screen(self, name: str) -> list[Trial]:
        """Errors of the kernels of a kind of model on some of the samples, best first; few where all decide."""
        if name in self._trials:
            return self._trials[name]
        candidates = self._candidates(name)
        if name == "gaussian_process" and len(self.few) > _HALVED:
            half = self.few[np.argsort(_key(self.points[self.few]), kind="stable")[::2]]
            starts = [self._screen(kernel, half) for kernel in candidates]
            candidates = [min((t for t in starts if t[1].name == kind), key=_first)[1] for kind in _STATIONARY]
        trials = [self._screen(kernel, self.few) for kernel in candidates]
        if trials and name == "gaussian_process" and not self._is_line:
            starts = [min((t for t in trials if t[1].name == kind), key=_first) for kind in _STATIONARY]
            tuned = [(start, self._screen(self._optimised(*start[1:], self.few), self.few)) for start in starts]
            handicap = self._handicap(*min(tuned, key=lambda pair: _first(pair[1])))
            if np.isfinite(handicap):
                trials += [(handicap * error, replace(kernel, handicap=handicap), p) for _, (error, kernel, p) in tuned]
        self._trials[name] = sorted(trials, key=_first)
        return self._trials[name]

    @property
    def _is_line(self) -> bool:
        """Whether the input is one number, whose length scales are all tried."""
        return self.points.shape[1] == 1

    def least_screened(self) -> float:
        """Least error of all kernels that were screened."""
        return min((trials[0][0] for trials in self._trials.values() if trials), default=np.inf)

    def narrow(self, targets: FloatArray, error: Error, each: Each | None) -> None:
        """Go on with fewer targets, and the errors of these."""
        self.targets, self._error_of, self._each_of = targets, error, each

    def error(self, residuals: FloatArray, samples: IntArray) -> float:
        """Error of leave-one-out residuals of some of the samples, without those at the ends."""
        inside = self._inside[samples]
        return self._error_of(residuals[inside], samples[inside])

    def each(self, residuals: FloatArray) -> FloatArray | None:
        """Error of each output of such residuals of all samples; None for one output."""
        return None if self._each_of is None else self._each_of(residuals[self._inside])

    def gains(self, found: Found, tried: Iterable[Found]) -> FloatArray:
        """Least error of each output by a model that was tried, in units of that by the model that was found."""
        own = self.each(self._residuals(found.system, found.penalties[:_LEADING]))
        if own is None:
            return np.ones(1)
        least = np.min([item.least for item in tried if item.least is not None], axis=0)
        return np.divide(least, own, out=np.ones_like(own), where=own > 0)

    def search(self, name: str, *, thorough: bool = False) -> Found | None:
        """Choose the kernel of a kind of model, and its penalties; None where the samples do not suffice.

        Of a kernel that is worse on some of the samples than that of another kind, the error alone is computed, unless
        `thorough`: what is found has no system.
        """
        trials = self.screen(name)
        if not trials:
            return None
        if len(self.few) == len(self.all) or name == "akima":
            return min((self._finish(kernel) for _, kernel, _ in trials[:_FINALISTS]), key=lambda found: found.error)
        error, kernel, penalty = trials[0]
        about = penalty * len(self.all) / len(self.few)
        is_small = kernel.name == "none" and self.points.shape[1] <= len(self.all) // 4
        if (
            thorough
            or self.groups is not None
            or is_small
            or not kernel.linear + (kernel.name != "none")
            or error <= _WORSE * self.least_screened()
        ):
            return self._finish(kernel, about)
        return self._rough(kernel, about)

    def _system(self, kernel: Kernel, n_inducing: int) -> System:
        """System of a kernel at all samples, on inducing ones where these are too many for its matrix."""
        is_small = kernel.name == "none" and (not kernel.linear or self.points.shape[1] <= len(self.points) // 4)
        if is_small or len(self.points) <= _MOST_EXACT or kernel.name == "akima":
            return _system_of(kernel, self.points, groups=self.groups)
        inducing = farthest_points(self.points / kernel.scales, n_inducing)
        return System(kernel, self.points, inducing, self.groups)

    def _groups_of(self, samples: IntArray) -> IntArray | None:
        """Groups of some of the samples."""
        return None if self.groups is None else self.groups[samples]

    def _rough(self, kernel: Kernel, penalty: float) -> Found:
        """Error of a kernel on all samples, with one penalty, and where these are too many on few inducing ones."""
        count = self.targets.shape[1]
        empty = np.zeros((0, min(count, _LEADING)))
        found = Found(np.inf, None, np.full(count, penalty), empty, empty[:, 0])
        if len(self.points) > _MOST_EXACT:
            system = self._system(kernel, _SCREENED)
            residuals = system.left_out(system.project(self.targets), found.penalties[:1])[1]
            return replace(found, error=kernel.handicap * self.error(residuals, self.all))
        tail = np.linalg.qr(kernel.tail(self.points))[0]
        ends, matrix = tail @ tail.T, kernel.matrix(self.points, self.points)
        matrix -= tail @ (tail.T @ matrix)
        matrix -= (matrix @ tail) @ tail.T
        matrix[np.diag_indices(len(matrix))] += penalty
        inverse = _inverse(matrix + (1.0 - penalty) * ends) - ends
        residuals = (inverse @ self.targets) / np.maximum(inverse.diagonal(), _SAME)[:, None]
        return replace(found, error=kernel.handicap * self.error(residuals, self.all))

    def likeliest(self, best: Found) -> Found:
        """Process of the largest likelihood over one input among those whose leave-one-out errors are as good.

        A sample that is left out doubles the gap in which it is predicted, so that its error alone favours kernels for
        samples half as dense. The likelihood is that of all targets, with one variance, given the tail. Where the least
        error is not below that of the mean beyond chance, it says nothing, and the likelihood alone decides: it knows
        noise, of which some model seems to predict a few samples by chance.
        """
        if not self._is_line or self.groups is not None or len(self.few) < len(self.all) or best.error == 0:
            return best
        targets, least, likely = self.targets[:, :_LEADING], np.inf, None
        rank = max(int((np.square(targets).sum(axis=0) > 0).sum()), 1)
        is_known = self._is_better_than_mean(best)
        for kernel in self._candidates("gaussian_process"):
            system = System(kernel, self.points)
            projected = system.project(targets)
            squares = np.square(projected[0]).sum(axis=1)
            for penalty in system.penalties[: -1 if is_known else None]:
                sums = system.values + penalty
                size = float((squares / sums).sum()) + _SAME
                value = rank * (len(sums) * np.log(size) + float(np.log(sums).sum()))
                if value < least:
                    error = self.error(system.left_out(projected, np.array([penalty]))[1], self.all)
                    if not is_known or error <= _EQUIVALENT * best.error:
                        least, likely = value, (system, penalty)
        if likely is None:
            return best
        found, penalties = self._finish(likely[0].kernel), np.full(self.targets.shape[1], likely[1])
        return replace(found, error=self._error(found.system, penalties), penalties=penalties)

    def _is_better_than_mean(self, found: Found) -> bool:
        """Whether leave-one-out errors over one input are below those of the mean beyond chance."""
        own = self._residuals(found.system, found.penalties[:_LEADING])
        n = len(own)
        own, mean = own[self._inside], n / max(n - 1, 1) * self.targets[self._inside, :_LEADING]
        if not np.isfinite(own).all():
            return False
        if len(own) < 2 or np.square(own).sum() < _CLEAR**2 * np.square(mean).sum():
            return True
        gains = np.linalg.norm(mean, axis=1) - np.linalg.norm(own, axis=1)
        # As many standard errors as are beyond chance with many samples, by Student's distribution.
        errors = stdtrit(len(gains) - 1, ndtr(_BEYOND_CHANCE))
        return bool(gains.mean() > errors * gains.std(ddof=1) / np.sqrt(len(gains)))

    def _handicap(self, start: Trial, tuned: Trial) -> float:
        """Factor by which a search for length scales makes leave-one-out errors too small; infinite if it is in vain.

        Modes of the input are the axes of the training samples, which have smaller coefficients in the last ones than
        new samples have, and length scales of single modes can make use of it, the more the fewer samples there are for
        each. The leave-one-out error of the kernel from which the search starts is no such minimum. So modes and length
        scales are found again without a part of the samples, which both kernels predict. Where the search lowers the
        error of these, the error after it is that of the start times the quotient of both; where it does not, none of
        its kernels is taken, whatever their leave-one-out errors. Half of the parts decide where all of them agree.
        """
        # Samples, or groups, in an order that does not depend on the caller's.
        labels = np.arange(len(self.few)) if self.groups is None else self.groups[self.few]
        keys, numbers = _key(self.points[self.few]), np.unique(labels, return_inverse=True)[1]
        order = np.argsort(np.bincount(numbers, keys) / np.bincount(numbers), kind="stable")
        n_scales = min(self.points.shape[1], self.n_params + _OWN_SCALES + 1)
        if not _PARTS * _FEWEST <= len(order) < _ENOUGH * n_scales:
            return 1.0
        before: list[float] = []
        after: list[float] = []
        within = self._within_few()
        for part in (*range(1, _PARTS, 2), *range(0, _PARTS, 2)):
            if len(before) == _PARTS // 2 and abs(int(np.sign(np.subtract(after, before)).sum())) == len(before):
                # All parts that were predicted agree.
                break
            out = self.few[np.isin(numbers, order[part::_PARTS])]
            kept = np.setdiff1d(self.few, out)
            points, options = self._turned(within, kept), (self._error_of, self.n_params, self.groups)
            turned = Selection(points, self.targets, self.weights, *options)
            before.append(turned._held_out(start[1], kept, out))
            after.append(turned._held_out(turned._optimised(*start[1:], kept), kept, out))
        if not sum(after) < sum(before):
            return np.inf
        return max(start[0] * sum(after) / (sum(before) * tuned[0]), 1.0) if tuned[0] > 0 else 1.0

    def _held_out(self, kernel: Kernel, kept: IntArray, out: IntArray) -> float:
        """Error of a kernel on some of the samples, with the penalty that others choose, which predict them."""
        targets = self.targets[:, :_LEADING]
        system = System(kernel, self.points[kept], groups=self._groups_of(kept))
        projected, penalties = system.project(targets[kept]), system.penalties[::2]
        errors = [self.error(system.left_out(projected, np.array([p]))[1], kept) for p in penalties]
        weights, tail = system.weights(targets[kept], projected, penalties[[int(np.argmin(errors))]])
        points = self.points[out]
        found = kernel.matrix(points, system.points) @ weights + kernel.tail(points) @ tail
        return self.error(targets[out] - found, out)

    def _within_few(self) -> FloatArray:
        """Inputs whose fields are coordinates in the span of those of some samples, where these are fewer."""
        fields = self.points[:, self.n_params :]
        if fields.shape[1] <= len(self.few):
            return self.points
        fields = fields @ np.linalg.qr(fields[self.few].T)[0]
        return np.concatenate([self.points[:, : self.n_params], fields], axis=1)

    def _turned(self, points: FloatArray, samples: IntArray) -> FloatArray:
        """Inputs with the modes of some of the samples."""
        fields = points[:, self.n_params :]
        if not fields.shape[1]:
            return points
        fields = fields - fields[samples].mean(axis=0)
        axes = eigh(fields[samples].T @ fields[samples], check_finite=False, driver="evd")[1][:, ::-1]
        return np.concatenate([points[:, : self.n_params], fields @ axes], axis=1)

    def _candidates(self, name: str) -> list[Kernel]:
        """Kernels of a kind of model that the samples suffice for."""
        n, d = self.points.shape
        is_few = d == self.n_params
        if name == "mean":
            return [Kernel("none")]
        if name == "ridge":
            found = [Kernel("none", linear=1.0)]
        elif name == "polynomial":
            found = [Kernel("none", degree) for degree in (1, 2, 3)]
        elif name == "rbf":
            found = [Kernel(radial, degree) for radial, degree in _POLYHARMONIC.items()]
        elif name == "akima":
            is_suited = self._is_line and self.groups is None and len(np.unique(self.points)) == n
            found = [Kernel("akima", 1)] if is_suited else []
        else:
            distance = float(np.sqrt(2 * self.points.var(axis=0).sum())) or 1.0
            linear, factors = 0.0 if is_few else 1.0, _DENSE_SCALES if self._is_line else _SCALES
            found = [Kernel(k, 0, distance * factor, linear) for k in _STATIONARY for factor in factors]
        return [k for k in found if not k.degree or (is_few and k.n_monomials(d) <= n // 3)]

    def _screen(self, kernel: Kernel, samples: IntArray) -> Trial:
        """Error and penalty of a kernel on some of the samples."""
        targets = self.targets[samples, :_LEADING]
        system = _system_of(kernel, self.points[samples], groups=self._groups_of(samples))
        projected, penalties = system.project(targets), system.penalties[::2]
        errors = [self.error(system.left_out(projected, np.array([p]))[1], samples) for p in penalties]
        best = int(np.argmin(errors))
        return errors[best], kernel, float(penalties[best])

    def _finish(self, kernel: Kernel, about: float | None = None) -> Found:
        """Choose the penalties on all samples: one for all targets, or one for each where this is better by far.

        Those about a given one are tried, and the one that leaves the tail.
        """
        targets = self.targets[:, :_LEADING]
        system = self._system(kernel, _INDUCING)
        projected, penalties = system.project(targets), system.penalties
        if about is not None:
            is_near = np.abs(np.log10(penalties) - np.log10(about)) < _DECADES
            penalties = penalties[is_near | (penalties == penalties[-1])]
        errors, each, outputs = [], [], []
        for penalty in penalties:
            residuals = system.left_out(projected, np.array([penalty]))[1]
            errors.append(kernel.handicap * self.error(residuals, self.all))
            each.append(kernel.handicap * (self.weights @ np.abs(residuals)))
            if (of_outputs := self.each(residuals)) is not None:
                outputs.append(kernel.handicap * of_outputs)
        chosen = np.full(self.targets.shape[1], penalties[int(np.argmin(errors))])
        least = np.min(outputs, axis=0) if outputs else None
        return self._each_alone(Found(self._error(system, chosen), system, chosen, np.stack(each), penalties, least))

    def _each_alone(self, found: Found) -> Found:
        """Choose the penalty of each target alone, if this is better by far.

        Over one input, few samples near each decide of a target, and all targets are as smooth in it.
        """
        if self._is_line:
            return found
        penalties = found.tried[found.each.argmin(axis=0)]
        # The leading targets decide for themselves, the last ones of these for all others together.
        last = found.tried[int(found.each[:, -_LAST:].sum(axis=1).argmin())]
        n_leading, n_others = len(penalties), self.targets.shape[1] - len(penalties)
        penalties = np.append(penalties, np.full(n_others, last))
        # That of the leading targets alone is not larger, and takes less time.
        for count in (n_leading, len(penalties)) if n_others else (n_leading,):
            error = self._error(found.system, penalties[:count])
            if error >= _BETTER_BY_PENALTIES * found.error:
                return found
        return replace(found, error=error, penalties=penalties)

    def _error(self, system: System | None, penalties: FloatArray) -> float:
        """Error on all samples, of the targets whose penalties are given."""
        return self.error(self._residuals(system, penalties), self.all)

    def _residuals(self, system: System | None, penalties: FloatArray) -> FloatArray:
        """Leave-one-out residuals of the targets whose penalties are given."""
        assert system is not None
        residuals = system.left_out(system.project(self.targets[:, : len(penalties)]), penalties)[1]
        return system.kernel.handicap * residuals

    def fit(self, found: Found, *, cut: bool, most: int | None = None) -> KernelModel:
        """Fit the model that was found to all targets, to the first ones, or `cut` after the last that is no mean."""
        assert found.system is not None
        varies = (found.system.kernel.degree > 0) | (found.penalties < found.tried[-1])
        kept = int(np.flatnonzero(varies).max(initial=0)) + 1 if cut else len(varies)
        kept = kept if most is None else min(kept, most)
        return KernelModel.fit(self.targets[:, :kept], found.system, found.penalties[:kept], self.groups)

    def _optimised(self, kernel: Kernel, penalty: float, samples: IntArray) -> Kernel:
        """Length scales of the smallest leave-one-out error of some samples, by its gradient, from those of a kernel.

        With S the derivative of the error by the kernel matrix, B = A^-1 on the complement of the tail, C = B Y and
        E = C / diag(B): S = B diag(h) B - (B G) C', where G is the derivative by C, and h_i = sum_j G_ij E_ij. Where
        groups are left out, E = D^-1 C with the blocks D of B, and E G' takes the place of diag(h), in these blocks.
        """
        parts = _same_sizes(self._groups_of(samples))
        points, targets, weights = self.points[samples], self.targets[samples, :_LEADING], self.weights[samples]
        n, d = points.shape
        # Each global parameter and each leading mode has a scale of its own; the other modes share one.
        groups = np.minimum(np.arange(d), self.n_params + _OWN_SCALES)
        heads = np.searchsorted(groups, np.arange(groups[-1] + 1))
        tail = np.linalg.qr(kernel.tail(points))[0]
        ends, line = tail @ tail.T, points @ points.T
        is_linear = kernel.linear > 0
        # Distances in the modes that share one scale are computed once.
        n_own = min(d, self.n_params + _OWN_SCALES)
        own, rest = points[:, :n_own], _squares(points[:, n_own:], points[:, n_own:]) if d > n_own else None

        def complement(matrix: FloatArray) -> FloatArray:
            return matrix - tail @ (tail.T @ matrix)

        def objective(logs: FloatArray) -> tuple[float, FloatArray]:
            scales, noise, slope = np.exp(logs[:-2]), np.exp(logs[-2]), is_linear * np.exp(logs[-1])
            scaled = own / scales[:n_own]
            squares = _squares(scaled, scaled)
            if rest is not None:
                squares += rest / scales[-1] ** 2
            system = complement(complement(kernel._radial(squares) + slope * line).T)
            system[np.diag_indices(n)] += noise
            inverse = _inverse(system + (1.0 - noise) * ends) - ends
            coefficients = inverse @ targets
            solve = _left_out_solver(inverse, parts)
            residuals = solve(coefficients)
            norms = np.sqrt((residuals**2).sum(axis=1)) + _SAME
            loss = float(weights @ norms) + _SAME
            by_coefficients = solve((weights / norms)[:, None] * residuals)
            if parts:
                leverage = np.zeros((n, n))
                for rows in parts:
                    place = rows[:, :, np.newaxis], rows[:, np.newaxis]
                    leverage[place] = residuals[rows] @ by_coefficients[rows].mT
                by_matrix = inverse @ leverage @ inverse
            else:
                # A product with its own transpose takes half the time.
                root = inverse * np.sqrt((by_coefficients * residuals).sum(axis=1))
                by_matrix = root @ root.T
            by_matrix -= (inverse @ by_coefficients) @ coefficients.T
            by_matrix = 0.5 * (by_matrix + by_matrix.T)
            flow = by_matrix * kernel.slope(squares)
            by_scales = -4 * (flow.sum(axis=1) @ scaled**2 - ((flow @ scaled) * scaled).sum(axis=0))
            if rest is not None:
                by_scales = np.append(by_scales, -2 * np.vdot(flow, rest) / scales[-1] ** 2)
            others = [noise * np.trace(by_matrix), slope * (by_matrix * line).sum()]
            return np.log(loss), np.append(by_scales, others) / loss

        start = np.log(np.broadcast_to(kernel.scales, d)[heads])
        start = np.append(start, [np.log(max(penalty, 1e-10)), np.log(kernel.linear) if is_linear else 0.0])
        bounds = [(value - 4, value + 5) for value in start[:-2]] + [(np.log(1e-13 * n), np.log(10.0 * n)), (-15, 10)]
        options = {"maxiter": _STEPS, "ftol": _SMALL_STEP}
        logs = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        return replace(kernel, scales=np.exp(logs[:-2])[groups], linear=float(is_linear * np.exp(logs[-1])))


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


def _same_sizes(groups: IntArray | None) -> list[IntArray]:
    """Samples of the groups (g, s) of each size s; none where each sample is one by itself."""
    if groups is None or len(np.unique(groups)) == len(groups):
        return []
    numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    samples = np.split(np.argsort(numbers, kind="stable"), np.cumsum(counts)[:-1])
    return [np.stack([rows for rows in samples if len(rows) == size]) for size in np.unique(counts)]


def _left_out_solver(inverse: FloatArray, parts: list[IntArray]) -> Callable[[FloatArray], FloatArray]:
    """Function that solves (n, r) with the blocks of a matrix that belong to groups, or with its diagonal."""
    if not parts:
        diagonal = np.maximum(inverse.diagonal(), _SAME)[:, np.newaxis]
        return lambda values: values / diagonal
    blocks = [inverse[rows[:, :, np.newaxis], rows[:, np.newaxis]] for rows in parts]
    inverses = [np.linalg.pinv(block, hermitian=True) for block in blocks]

    def solve(values: FloatArray) -> FloatArray:
        found = np.empty_like(values)
        for rows, block in zip(parts, inverses, strict=True):
            found[rows] = block @ values[rows]
        return found

    return solve


def _inverse(matrix: FloatArray) -> FloatArray:
    """Inverse of a positive definite matrix; of one that is not by rounding, the inverse in general."""
    factor, is_failed = lapack.dpotrf(matrix, lower=1)
    if is_failed:
        return np.linalg.pinv(matrix, hermitian=True)
    # Above the diagonal, both are zero.
    half = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    inverse: FloatArray = half + half.T
    np.fill_diagonal(inverse, half.diagonal())
    return inverse


def _key(points: FloatArray) -> FloatArray:
    """Numbers (n,) that put points into an order that is not the caller's."""
    return points[:, 0] if points.shape[1] == 1 else (points**2).sum(axis=1)


def farthest_points(points: FloatArray, count: int) -> IntArray:
    """Indices (up to count) of points (n, d), of which each is the farthest from those before it, from the middle on.

    Distances are those in the inputs that differ most.
    """
    points = points - points.mean(axis=0)
    points = np.ascontiguousarray(points[:, np.argsort(-(points**2).sum(axis=0), kind="stable")[:_FEW_INPUTS]])
    chosen, nearest = [int((points**2).sum(axis=1).argmin())], np.full(len(points), np.inf)
    while len(chosen) < count:
        np.minimum(nearest, cdist(points, points[chosen[-1:]], "sqeuclidean")[:, 0], out=nearest)
        place = int(nearest.argmax())
        # All further points lie on these.
        if nearest[place] == 0:
            break
        chosen.append(place)
    return np.sort(np.array(chosen))


def _first(trial: Trial) -> float:
    """Error of a trial."""
    return trial[0]


# ---------------------------------------------------------------------- what a file must hold
#: Names of kernels, and largest degree of a polynomial tail, that a file may hold.
_KERNELS = (
    *("none", "gaussian", "matern32", "matern52"),
    *("linear_spline", "thin_plate", "cubic", "quintic", "septic", "akima"),
)
_HIGHEST_DEGREE = 8


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
    n, d = held.array("points", None, None).shape
    kernels = held.parts("kernels", "Kernel")
    n_targets = len(held.array("penalties", None, finite=False))
    held.array("left_out", n, n_targets)
    held.array("sizes", n_targets, finite=False)
    held.array("groups", n, whole=True, optional=True)
    inducing = held.get("inducing")
    if inducing is None:
        inducing = [None] * len(kernels)
    lists = {name: held.get(name) for name in ("columns", "weights", "tails")} | {"inducing": inducing}
    for name, value in lists.items():
        held.need(isinstance(value, list) and len(value) == len(kernels), name, f"a list of {len(kernels)}")
    for kernel, columns, weights, tail, chosen in zip(kernels, *lists.values(), strict=True):
        held.need(is_array(columns, (None,), whole=True), "columns", "numbers of targets")
        is_chosen = chosen is None or (
            is_array(chosen, (None,), whole=True) and bool(((chosen >= 0) & (chosen < n)).all())
        )
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
    held.need(
        sorted(np.concatenate(lists["columns"]).tolist()) == list(range(n_targets)), "columns", "each target once"
    )


@checks("Basis")
def _check_basis(held: Held) -> None:
    """Check a basis from a file."""
    mean = held.array("mean_", None)
    held.array("components_", None, len(mean))
    held.flag("is_complete_")


KNOWN.update({kind.__name__: kind for kind in (Basis, Kernel, KernelModel)})
