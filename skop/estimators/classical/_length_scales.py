"""Length scales of a kernel by the gradient of leave-one-out errors and of the likelihood.

Notation: n training points, d inputs, r targets (coefficients of modes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from scipy.optimize import minimize

from skop._typing import FloatArray, IntArray
from skop.estimators.classical._components import TINY, root_of
from skop.estimators.classical._kernel_models import Kernel, inverse_of, left_out_solver, squares_between

__all__ = ["OWN_SCALES", "ScaleSearch", "geometric_mean"]

#: Number of leading modes of the input with length scales of their own.
OWN_SCALES = 24
#: Number of steps of the search; it ends when the logarithm of the error decreases by less.
_STEPS, _SMALL_STEP = 40, 3e-4
#: Below this part of the sum of all errors of a criterion, one of them is as good as zero.
_AS_GOOD_AS_ZERO = 1e-3
#: Smaller errors count as this one, of which the square has an inverse.
_LEAST = 1e-150


class ScaleSearch:
    """Search for the length scales of the least geometric mean of leave-one-out errors and of an error by likelihood.

    With S the derivative of the error by the kernel matrix, B = A^-1 on the complement of the tail, C = B Y and E = C /
    diag(B): S = B diag(h) B - (B G) C', where G is the derivative by C, and h_i = sum_j G_ij E_ij. Where groups are
    left out, E = D^-1 C with the blocks D of B, and E G' takes the place of diag(h), in these blocks. Samples, targets
    and tail are multiplied by the roots of the weights, where there are such.

    Where samples are left out one by one, the root of Y' B Y det(A)^(1/m), m the dimension of the complement, is the
    other error: that of each sample given those before it, as the likelihood with the best size of the kernel has it
    (C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, section 5.4). It decides by
    fewer samples than leave-one-out errors need.

    Parameters
    ----------
    kernel : Kernel
        Kernel from which the search starts.
    points : ndarray of shape (n, d)
        Inputs.
    targets : ndarray of shape (n, r)
        Targets.
    cases : sequence of (list of ndarray of int, sequence of (ndarray of shape (n,)))
        Groups that are left out, as `same_sizes` has them, and the weights of the residuals in each error of these. The
        first error is that of new samples.
    n_params : int
        Number of leading inputs that are global parameters.
    weight : ndarray of shape (n,) or None, default=None
        Weights of the samples, of mean 1; None if all are equal.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: FloatArray,
        targets: FloatArray,
        cases: Sequence[tuple[list[IntArray], Sequence[FloatArray]]],
        n_params: int,
        weight: FloatArray | None = None,
    ) -> None:
        self.kernel, self.points, self.n_params = kernel, points, n_params
        self.cases = [(parts, np.stack(weights)) for parts, weights in cases]
        self.root = None if weight is None else root_of(weight)
        self.targets = root_of(weight) * targets
        d = points.shape[1]
        # Each global parameter and each leading mode has a scale of its own; the other modes share one, and distances
        # in these are computed once.
        self.scale_of = np.minimum(np.arange(d), n_params + OWN_SCALES)
        n_own = min(d, n_params + OWN_SCALES)
        self.own = points[:, :n_own]
        self.rest = squares_between(points[:, n_own:], points[:, n_own:]) if d > n_own else None
        self.tail = np.linalg.qr(root_of(weight) * kernel.tail(points))[0]
        self.ends, self.line = self.tail @ self.tail.T, points @ points.T

    def run(self, penalty: float) -> Kernel:
        """Search from the length scales of the kernel and a penalty.

        Parameters
        ----------
        penalty : float
            Penalty.

        Returns
        -------
        Kernel
            The kernel with the length scales, and the weight of its linear part, that were found.
        """
        kernel, n, is_linear = self.kernel, len(self.points), self.kernel.linear > 0
        start, low = self._start(penalty)
        # A parameter that does not matter counts up to the rounding of the system, also with a large scale.
        bounds = [(max(value - 4, least), value + 12) for value, least in zip(start[:-2], low, strict=True)]
        bounds += [(np.log(1e-13 * n), np.log(10.0 * n)), (-15, 10)]
        options = {"maxiter": _STEPS, "ftol": _SMALL_STEP}
        # The search ends by steps relative to the value where this is above 1, and so by the unit of the targets.
        first = self.objective(start)

        def gained(logs: FloatArray) -> tuple[float, FloatArray]:
            """Objective in excess of that of the start, and its gradient."""
            value, gradient = first if np.array_equal(logs, start) else self.objective(logs)
            return value - first[0], gradient

        logs = minimize(gained, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        return replace(kernel, scales=np.exp(logs[:-2])[self.scale_of], linear=float(is_linear * np.exp(logs[-1])))

    def before(self, penalty: float) -> float:
        """Objective from which a search starts at the length scales of the kernel and a penalty."""
        return self.objective(self._start(penalty)[0])[0]

    def _start(self, penalty: float) -> tuple[FloatArray, FloatArray]:
        """Logarithms from which the search starts, and the least ones of length scales."""
        heads = np.searchsorted(self.scale_of, np.arange(self.scale_of[-1] + 1))
        start = np.log(np.broadcast_to(self.kernel.scales, self.points.shape[1])[heads])
        start = np.append(start, np.log([max(penalty, 1e-10), self.kernel.linear or 1.0]))
        # Samples that are left out share the values of others in groups and grids, so that no error tells of a scale
        # below the spacing, at which nothing would be known between these values.
        spacings = [_spacing(column) for column in self.points[:, : self.n_params].T]
        low = np.append(np.log(np.maximum(spacings, TINY)), np.full(len(heads) - self.n_params, -np.inf))
        start[:-2] = np.maximum(start[:-2], low)
        return start, low

    def objective(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """Return the logarithm of the mean error, of both kinds, and its gradient.

        Parameters
        ----------
        logs : ndarray
            Logarithms of the length scales, of the penalty, and of the weight of the linear part.

        Returns
        -------
        tuple of (float, ndarray)
            Value and gradient.
        """
        kernel, root, rest, is_linear = self.kernel, self.root, self.rest, self.kernel.linear > 0
        scales, noise, slope = np.exp(logs[:-2]), np.exp(logs[-2]), is_linear * np.exp(logs[-1])
        scaled = self.own / scales[: self.own.shape[1]]
        squares = squares_between(scaled, scaled)
        if rest is not None:
            squares += rest / scales[-1] ** 2
        system, slopes = kernel.radial_and_slope(squares)
        if is_linear:
            system += slope * self.line
        if root is not None:
            system *= root * root.T
        self._to_complement(system, noise)
        inverse, log_determinant = inverse_of(system)
        inverse -= self.ends
        value, by_matrix = self._by_matrix(inverse, log_determinant)
        by_noise = by_matrix.trace()
        if root is not None:
            by_matrix *= root * root.T
        flow = np.multiply(by_matrix, slopes, out=slopes)
        by_scales = -4 * (flow.sum(axis=1) @ scaled**2 - ((flow @ scaled) * scaled).sum(axis=0))
        by_rest = [] if rest is None else [-2 * np.vdot(flow, rest) / scales[-1] ** 2]
        by_slope = slope * np.vdot(by_matrix, self.line) if is_linear else 0.0
        return value, np.array([*by_scales, *by_rest, noise * by_noise, by_slope])

    def _to_complement(self, matrix: FloatArray, noise: float) -> None:
        """Replace a kernel matrix by its part on the complement of the tail with noise, and by 1 on the tail."""
        across = matrix @ self.tail
        across -= 0.5 * self.tail @ (self.tail.T @ across + (1.0 - noise) * np.eye(self.tail.shape[1]))
        matrix -= np.concatenate([across, self.tail], axis=1) @ np.concatenate([self.tail, across], axis=1).T
        matrix.flat[:: len(matrix) + 1] += noise

    def _by_matrix(self, inverse: FloatArray, log_determinant: float) -> tuple[float, FloatArray]:
        """Logarithm of the mean error, of both kinds, and its derivative by the kernel matrix."""
        coefficients = inverse @ self.targets
        found = [_left_out(inverse, coefficients, *case) for case in self.cases]
        errors, every_residual, slopes = zip(*found, strict=True)
        value, shares = _mean_logarithm(np.concatenate(errors), of_runs=bool(self.cases[0][0]))
        has_likelihood = not self.cases[0][0]
        # Where there are two kinds, the value is the mean of their logarithms.
        shares *= 0.5 if has_likelihood else 1.0
        ends = list(accumulate(len(held) for held in errors))
        parts_of_shares = (shares[end - len(held) : end] for end, held in zip(ends, errors, strict=True))
        every_held = [slope(share) for slope, share in zip(slopes, parts_of_shares, strict=True)]
        by_coefficients = every_held[0] if len(every_held) == 1 else sum(every_held)
        if len(self.cases) == 1 and has_likelihood:
            # A product with its own transpose takes half the time.
            half = inverse * np.sqrt((by_coefficients * every_residual[0]).sum(axis=1))
            by_matrix = half @ half.T
        else:
            half = np.zeros_like(inverse)
            for (parts, _), residuals, held in zip(self.cases, every_residual, every_held, strict=True):
                for rows in parts or [np.arange(len(inverse))[:, np.newaxis]]:
                    half[rows] += (residuals[rows] @ held[rows].mT) @ inverse[rows]
            by_matrix = inverse @ half
            by_matrix = 0.5 * (by_matrix + by_matrix.T)
        across = inverse @ (0.5 * by_coefficients)
        if has_likelihood:
            m = max(len(inverse) - self.tail.shape[1], 1)
            squares = max(float(np.vdot(self.targets, coefficients)), _LEAST)
            value = 0.5 * value + 0.25 * (np.log(squares) + log_determinant / m)
            inverse *= 0.25 / m
            by_matrix += inverse
            across += 0.125 * coefficients / squares
        outer = across @ coefficients.T
        by_matrix -= outer
        by_matrix -= outer.T
        return value, by_matrix


def _left_out(inverse: FloatArray, coefficients: FloatArray, parts: list[IntArray], weights: FloatArray) -> Any:
    """Errors (k,) by weights (k, n), residuals, and the derivative of a sum of the errors by the coefficients."""
    solve = left_out_solver(inverse, parts)
    residuals = solve(coefficients)
    norms = np.sqrt((residuals**2).sum(axis=1)) + TINY
    # A sample without an error has no slope, and may have a large weight.
    slopes = np.divide(weights, norms, out=np.zeros_like(weights), where=norms > _LEAST)

    def by_coefficients(shares: FloatArray) -> FloatArray:
        largest = float(np.abs(shares).max()) or 1.0
        return largest * solve(((shares / largest) @ slopes)[:, None] * residuals)

    return [float(own @ norms) + TINY for own in weights], residuals, by_coefficients


def geometric_mean(errors: Sequence[float], *, of_runs: bool) -> float:
    """Return the geometric mean of errors, each with a small part of their sum.

    Parameters
    ----------
    errors : sequence of float
        Error of new samples, and those of new values of parameters.
    of_runs : bool
        Whether samples are left out by runs. Other samples of its run tell of a value that is left out, so that a new
        run at a new value has both errors.

    Returns
    -------
    float
        Mean.
    """
    return float(np.exp(_mean_logarithm(errors, of_runs=of_runs)[0]))


def _mean_logarithm(errors: Sequence[float] | FloatArray, *, of_runs: bool) -> tuple[float, FloatArray]:
    """Logarithm of this mean, and its derivative by each error."""
    held = np.maximum(errors, _LEAST)
    if len(held) == 1:
        return float(np.log(held[0])), np.where(np.isfinite(held), 1 / held, 0.0)
    totals = np.append(held[0], np.hypot(held[0] if of_runs else 0.0, held[1:]))
    sums = totals + _AS_GOOD_AS_ZERO * totals.sum()
    value = float(np.mean(np.log(sums / (1 + _AS_GOOD_AS_ZERO))))
    if not np.isfinite(value):
        return value, np.zeros(len(held))
    by_total = (1 / sums + _AS_GOOD_AS_ZERO * (1 / sums).sum()) / len(held)
    slopes = by_total[1:] / totals[1:]
    return value, np.append(by_total[0] + of_runs * held[0] * slopes.sum(), held[1:] * slopes)


def _spacing(values: FloatArray) -> float:
    """Median distance of neighbours among different values; 0 for one value."""
    gaps = np.diff(np.unique(values))
    return float(np.median(gaps)) if len(gaps) else 0.0
