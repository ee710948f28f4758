"""The choice of a kernel, its length scales and penalties by closed-form leave-one-out errors.

Notation: n training points, d inputs, r targets (coefficients of modes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.linalg import svd

from skop._typing import FloatArray, IntArray
from skop.estimators.classical._components import (
    FEW,
    MOST_EXACT,
    PARTS,
    TINY,
    between_ends,
    beyond_chance,
    both_ends,
    error_of_mean,
    farthest_points,
    mean_of,
    of_others,
    root_of,
    turned_inputs,
    variance_of,
    within_span,
)
from skop.estimators.classical._kernel_models import (
    POLYHARMONIC,
    SAME,
    Kernel,
    KernelModel,
    System,
    in_order,
    inverse_of,
    key_of,
    same_sizes,
    system_of,
)
from skop.estimators.classical._length_scales import ScaleSearch, geometric_mean

__all__ = ["Found", "Selection", "between_values", "on_new_inputs", "told_error"]

#: Number of inducing samples of a kernel where there are more than `MOST_EXACT`.
_INDUCING = 1500
#: Errors (...) of leave-one-out residuals (..., k, s) of the leading s targets, at k samples whose numbers are given.
Error = Callable[[FloatArray, IntArray], FloatArray]
#: Errors (..., outputs) of each output of such residuals of all samples, in any unit.
Each = Callable[[FloatArray], FloatArray]
#: Names of positive definite kernels, and the length scales that are tried first, in mean distances of two samples.
_STATIONARY, _SCALES = ("gaussian", "matern52", "matern32"), (0.25, 0.5, 1.0, 2.0, 4.0)
#: Numbers of samples and of leading targets that decide about the kernel; number of kernels in the last round.
_SCREENED, _LEADING, _FINALISTS = 400, 128, 2
#: The last leading targets, in this number, decide for all targets after them.
_LAST = 32
#: Least number of parts of the samples that judge the search for length scales, and of samples that judge penalties of
#: single targets and the number of these.
_FEWEST_PARTS, _FEWEST = 5, 16
#: How many numbers of leading targets are compared at most.
_COUNTS = 24
#: Length scales over one input, in mean distances of two samples.
_DENSE_SCALES = tuple(np.geomspace(0.03, 8.0, 25))
#: Over one input, and of penalties where inputs are repeated, errors up to this multiple of the smallest are as good.
_EQUIVALENT = 1.1
#: A model is clear if it is better than the mean beyond chance, or if its error is below this part of the mean's: over
#: one input, and over several parameters.
_CLEAR, _CLEAR_OF_SEVERAL = 0.3, 0.7
#: Where no model of several parameters is clear, minus two log-likelihoods of a process must be below those of noise by
#: this.
_LIKELIER = 1.0
#: Above this number of samples, half of them decide where the search for length scales starts.
_HALVED = 200
#: Least number of different values of a parameter: a parabola needs three beside the one that is left out.
_FEWEST_LEVELS = 4
#: A parameter tells of values that are left out if a model that reads it has less than this part of the error of one
#: that does not, on up to this number of samples.
_TELLS, _FEW = 0.8, 100
#: Drop a kernel if its error on some of the samples exceeds this multiple of the smallest.
_WORSE = 1.2
#: On all samples, try penalties within this number of decades of the best one on some samples.
_DECADES = 3.5
#: Numbers of residuals with several penalties that are computed at once: those that a processor's cache holds.
_AT_ONCE = 2**16
#: Error, kernel and penalty of a trial on some of the samples.
Trial = tuple[float, Kernel, float]
#: Eigenvalues (m,) of a kernel, squares (m,) of the targets in its eigenvectors, its penalties, and errors by these.
Spectrum = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
#: Targets as `System.project` returns them.
Projected = tuple[FloatArray, FloatArray | None]


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
    #: Criterion by which it is compared with others, see `Selection`.
    criterion: float = np.inf
    #: The same without the error of the mean, whose unit is another one with logarithms.
    known: float = np.inf


class Selection:
    """Search for the kernel and the penalty of the smallest leave-one-out error.

    Where samples share the values of a parameter, as the levels of a factorial design or the times of all runs, those
    that are left out have neighbours with the same value, and their errors say nothing of new values. The criterion is
    then the geometric mean of this error and those without all samples of a value, of each such parameter, which for
    groups have this error in them too. Between two or three values no error is known, and what predictions bend there
    takes its place.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Inputs, of order 1.
    targets : ndarray of shape (n, r)
        Targets in the order of their importance.
    weights : ndarray of shape (n,)
        Weights of the residuals of the samples, in length scales and in the choice for single targets.
    error : callable
        Errors (...) of leave-one-out residuals (..., k, s) of the leading s targets, at k samples whose numbers it is
        given.
    n_params : int
        Number of leading inputs that are global parameters.
    groups : ndarray of int, shape (n,), or None, default=None
        Numbers of the groups that are left out as a whole; None leaves out one sample at a time.
    each : callable or None, default=None
        Errors (..., outputs) of each output of residuals (..., n, s); None for one output.
    weight : ndarray of shape (n,) or None, default=None
        Weights of the samples in the models, of mean 1; None if all are equal.
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
        weight: FloatArray | None = None,
    ) -> None:
        self.points, self.n_params, self.weight = points, n_params, weight
        self.groups, self.all = groups, np.arange(len(points))
        #: Whether length scales are searched for, from the best one of all inputs on.
        self.tunes_scales = True
        #: Whether what was found is better than the mean beyond chance, which is asked over several parameters.
        self.is_clear = True
        #: Whether the input is one number, whose length scales are all tried.
        self._is_line = points.shape[1] == 1
        self._inside = between_ends(points) if groups is None else np.ones(len(points), bool)
        self.weights = np.where(self._inside, weights, 0.0)
        self.narrow(targets, error, each)
        levels = [np.unique(column, return_inverse=True)[1] for column in points[:, :n_params].T]
        #: Parameters whose values samples share, and the numbers of these values.
        self.shared = {n: held for n, held in enumerate(levels) if 0 < held.max(initial=0) < len(points) // 2}
        # There are two or three values, or enough to leave whole ones out.
        # Two values beside parameters of many are a flag or a category, of which none lies between.
        fewest = 2 if len(self.shared) == points.shape[1] else 3
        self._few_values = [place for place, held in self.shared.items() if fewest <= held.max() + 1 < _FEWEST_LEVELS]
        places = np.unique(points, axis=0, return_inverse=True)[1]
        #: Numbers of the inputs, some of which several samples have; None with groups, or if all differ.
        self.repeats: IntArray | None = places if groups is None and places.max() + 1 < len(points) else None
        self._trials: dict[str, list[Trial]] = {}
        # Samples in an order that does not depend on the caller's, of which every k-th is taken.
        step = -(-len(points) // _SCREENED)
        self.few = np.sort(np.argsort(key_of(points), kind="stable")[::step]) if step > 1 else self.all

    @cached_property
    def _levels(self) -> list[IntArray]:
        """Numbers of the values of each parameter that has enough to leave whole ones out, and tells of new ones."""
        are_many = {place: held for place, held in self.shared.items() if held.max() + 1 >= _FEWEST_LEVELS}
        return [held for place, held in are_many.items() if _tells_of_new_values(self, place)]

    def screen(self, name: str) -> list[Trial]:
        """Errors of the kernels of a kind of model on some of the samples, best first; few where all decide."""
        if name in self._trials:
            return self._trials[name]
        candidates = self._candidates(name)
        if name == "gaussian_process" and len(self.few) > _HALVED:
            half = self.few[np.argsort(key_of(self.points[self.few]), kind="stable")[::2]]
            starts = [self._screen(kernel, half) for kernel in candidates]
            candidates = [min((t for t in starts if t[1].name == kind), key=itemgetter(0))[1] for kind in _STATIONARY]
        trials = [self._screen(kernel, self.few) for kernel in candidates]
        if trials and name == "gaussian_process" and not self._is_line and self.tunes_scales:
            # The criterion of the search has several minima; the least error can be near another than the least one.
            keys = itemgetter(0), lambda trial: self._scale_search(trial[1], self.few).before(trial[2])
            starts = [min((t for t in trials if t[1].name == kind), key=key) for kind in _STATIONARY for key in keys]
            starts = list({id(start): start for start in starts}.values())
            tuned = [(s, self._screen(self._scale_search(s[1], self.few).run(s[2]), self.few)) for s in starts]
            handicap = self._handicap(*min(tuned, key=lambda pair: pair[1][0]))
            if np.isfinite(handicap):
                trials += [(handicap * error, replace(kernel, handicap=handicap), p) for _, (error, kernel, p) in tuned]
        self._trials[name] = sorted(trials, key=itemgetter(0))
        return self._trials[name]

    def least_screened(self) -> float:
        """Least error of all kernels that were screened."""
        return min((trials[0][0] for trials in self._trials.values() if trials), default=np.inf)

    def narrow(self, targets: FloatArray, error: Error, each: Each | None, *, again: bool = False) -> None:
        """Go on with fewer targets and their errors; compare kernels again where the other targets are noise."""
        if again:
            self._trials.clear()
        self.targets, self._error_of, self._each_of = targets, error, each
        self._spectra: dict[tuple[str, float], Spectrum] = {}

    def errors(self, residuals: FloatArray, samples: IntArray) -> FloatArray:
        """Errors (...) of leave-one-out residuals (..., k, s) of some of the samples, without those at the ends."""
        inside = self._inside[samples]
        return self._error_of(np.compress(inside, residuals, axis=-2), samples[inside])

    def error(self, residuals: FloatArray, samples: IntArray) -> float:
        """Error of such residuals (k, s)."""
        return float(self.errors(residuals, samples))

    def each(self, residuals: FloatArray) -> FloatArray | None:
        """Errors (..., outputs) of each output of residuals (..., n, s) of all samples; None for one output."""
        if self._each_of is None:
            return None
        weighted = residuals if self.weight is None else root_of(self.weight) * residuals
        return self._each_of(np.compress(self._inside, weighted, axis=-2))

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
            finalists = (self._finish(kernel) for _, kernel, _ in trials[:_FINALISTS])
            return min(finalists, key=lambda found: found.criterion)
        error, kernel, penalty = trials[0]
        about = penalty * len(self.all) / len(self.few)
        is_small = kernel.name == "none" and (not kernel.linear or self.points.shape[1] <= len(self.all) // 4)
        is_fast = is_small or (self.groups is not None and len(self.points) <= MOST_EXACT)
        if thorough or is_fast or error <= _WORSE * self.least_screened():
            return self._finish(kernel, about)
        return self._rough(kernel, about)

    def _system(self, kernel: Kernel, n_inducing: int) -> System:
        """System of a kernel at all samples, on inducing ones where these are too many for its matrix."""
        is_small = kernel.name == "none" and (not kernel.linear or self.points.shape[1] <= len(self.points) // 4)
        if is_small or len(self.points) <= MOST_EXACT or kernel.name == "akima":
            return system_of(kernel, self.points, groups=self.groups, weight=self.weight)
        inducing = farthest_points(self.points / kernel.scales, n_inducing)
        return System(kernel, self.points, inducing, self.groups, self.weight)

    def _system_of_some(self, kernel: Kernel, samples: IntArray) -> System:
        """System of a kernel at some of the samples."""
        return system_of(kernel, self.points[samples], None, *self._groups_and_weight(samples))

    def _groups_and_weight(self, samples: IntArray) -> list[Any]:
        """Groups and weights of some of the samples; None where there are none."""
        return [None if held is None else held[samples] for held in (self.groups, self.weight)]

    def _rough(self, kernel: Kernel, penalty: float) -> Found:
        """Error of a kernel on all samples, with one penalty, and where these are too many on few inducing ones."""
        empty = np.zeros((0, min(self.targets.shape[1], _LEADING)))
        found = Found(np.inf, None, np.full(self.targets.shape[1], penalty), empty, empty[:, 0])
        if len(self.points) > MOST_EXACT:
            system = self._system(kernel, _SCREENED)
            residuals = system.left_out(system.project(self.targets), found.penalties[:1])[1]
            return replace(found, error=kernel.handicap * self.error(residuals, self.all))
        root = root_of(self.weight)
        tail = np.linalg.qr(root * kernel.tail(self.points))[0]
        ends, matrix = tail @ tail.T, kernel.matrix(self.points, self.points)
        if self.weight is not None:
            matrix *= root * root.T
        matrix -= tail @ (tail.T @ matrix)
        matrix -= (matrix @ tail) @ tail.T
        matrix[np.diag_indices(len(matrix))] += penalty
        inverse = inverse_of(matrix + (1.0 - penalty) * ends)[0] - ends
        residuals = (inverse @ (root * self.targets)) / np.maximum(inverse.diagonal(), SAME)[:, None] / root
        return replace(found, error=kernel.handicap * self.error(residuals, self.all))

    def likeliest(self, best: Found) -> Found:
        """Process of the largest likelihood, over one input among those whose leave-one-out errors are as good.

        A sample that is left out doubles its gap, so that errors favour kernels for samples half as dense, and the
        least of many can be chance: processes are as good as the best by error and likelihood together. Where no error
        is below that of the mean beyond chance, the likelihood alone decides, also over several parameters.
        """
        if self.groups is not None or len(self.few) < len(self.all) or best.error == 0:
            return best
        is_known = _is_better_than_mean(self, best)
        self.is_clear = is_known or self._is_line or len(self.all) <= FEW
        # The mean and ridge regression are no curves through noise.
        is_flat = best.system is not None and best.system.kernel.name == "none"
        if not self._is_line and (self.is_clear or is_flat or self.points.shape[1] > self.n_params):
            return best
        kernels = self._candidates("gaussian_process")
        likelihoods, errors = self._likelihoods(kernels, -1 if is_known else None)
        if is_known:
            least = best.error
            if best.system is not None and best.system.kernel.name in _STATIONARY:
                together = likelihoods + 2 * self._inside.sum() * np.log(errors + TINY)
                least = float(errors.flat[np.argmin(np.where(np.isfinite(together), together, np.inf))])
            likelihoods = np.where(errors <= _EQUIVALENT * least, likelihoods, np.inf)
        number, at = np.unravel_index(np.argmin(likelihoods), likelihoods.shape)
        if not likelihoods[number, at] < np.inf:
            return best
        found = self._finish(kernels[number])
        chosen = np.full(self.targets.shape[1], found.tried[at])
        return replace(found, error=self._error(found.system, chosen), penalties=chosen)

    def _likelihoods(self, kernels: list[Kernel], end: int | None) -> tuple[FloatArray, FloatArray]:
        """Minus two log-likelihoods for each target, given the tail, of one variance, by kernel and penalty; errors."""
        values, each = [], []
        for kernel in kernels:
            spectrum = self._spectra.get((kernel.name, kernel.scales))
            if spectrum is None:
                spectrum = self._spectrum(System(kernel, self.points, weight=self.weight))
            eigenvalues, squares, penalties, errors = spectrum
            sums = eigenvalues + penalties[:end, np.newaxis]
            sizes = (squares / sums).sum(axis=1) + TINY
            values.append(len(eigenvalues) * np.log(sizes) + np.log(sums).sum(axis=1))
            each.append(errors[:end])
        found = np.nan_to_num(np.stack(values), nan=np.inf, posinf=np.inf, neginf=np.inf)
        if not self._is_line:
            found[:, -1] -= _LIKELIER / max(int(self.targets[:, :_LEADING].any(axis=0).sum()), 1)
        return found, np.stack(each)

    def _spectrum(self, system: System) -> Spectrum:
        """What the likelihoods of a kernel at all samples depend on, and its errors."""
        projected, penalties = system.project(self.targets[:, :_LEADING]), system.penalties
        errors = self._errors_by_penalty(system, projected, penalties, self.all)
        return system.values, np.square(projected[0]).sum(axis=1), penalties, errors

    def _handicap(self, start: Trial, tuned: Trial) -> float:
        """Factor by which a search for length scales makes leave-one-out errors too small; infinite if it is in vain.

        Modes of the input are the axes of the training samples, which have smaller coefficients in the last ones than
        new samples have, and length scales of single modes can make use of it, the more the fewer samples there are for
        each. The leave-one-out error of the kernel from which the search starts is no such minimum. So modes and length
        scales are found again without a part of the samples, which both kernels predict. Where the search lowers the
        error of these, the error after it is that of the start times the quotient of both; where it does not, none of
        its kernels is taken, whatever their leave-one-out errors. Half of the parts decide where all of them agree.
        """
        if not (parts := self._parts):
            return 1.0
        before, after = list[float](), list[float]()
        within = within_span(self.points, self.n_params, self.few)
        for out, _ in parts:
            if len(before) == PARTS // 2 and abs(int(np.sign(np.subtract(after, before)).sum())) == len(before):
                # All parts that were predicted agree.
                break
            kept = np.setdiff1d(self.few, out)
            points = turned_inputs(within, self.n_params, kept, self._groups_and_weight(kept)[1])
            options: tuple[Any, ...] = (self._error_of, self.n_params, self.groups, None, self.weight)
            turned = Selection(points, self.targets, self.weights, *options)
            turned._levels = self._levels
            before.append(turned._held_out(start[1], kept, out))
            after.append(turned._held_out(turned._scale_search(start[1], kept).run(start[2]), kept, out))
        if not sum(after) < sum(before):
            return np.inf
        return max(start[0] * sum(after) / (sum(before) * tuned[0]), 1.0) if tuned[0] > 0 else 1.0

    @cached_property
    def _parts(self) -> list[tuple[IntArray, int]]:
        """Parts of some samples in any order, every second one first, and their numbers of groups; none of too few."""
        labels = np.arange(len(self.few)) if self.groups is None else self.groups[self.few]
        numbers = np.unique(labels, return_inverse=True)[1]
        order = in_order(self.points[self.few], numbers)
        count = min(PARTS, len(order))
        if count < _FEWEST_PARTS:
            return []
        parts = [order[part::count] for part in (*range(1, count, 2), *range(0, count, 2))]
        return [(self.few[np.isin(numbers, part)], len(part)) for part in parts]

    def _held_out(self, kernel: Kernel, kept: IntArray, out: IntArray) -> float:
        """Error of a kernel on some of the samples, with the penalty that others choose, which predict them."""
        targets = self.targets[:, :_LEADING]
        system = self._system_of_some(kernel, kept)
        projected, penalties = system.project(targets[kept]), system.penalties[::2]
        errors = self._errors_by_penalty(system, projected, penalties, kept)
        weights, tail = system.weights(targets[kept], projected, penalties[[int(np.argmin(errors))]])
        points = self.points[out]
        found = kernel.matrix(points, system.points) @ weights + kernel.tail(points) @ tail
        return self.error(targets[out] - found, out)

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
            found = [Kernel(radial, degree) for radial, degree in POLYHARMONIC.items()]
        elif name == "akima":
            is_suited = self._is_line and self.groups is None and len(np.unique(self.points)) == n
            found = [Kernel("akima", 1)] if is_suited else []
        else:
            distance = float(np.sqrt(2 * variance_of(self.points, self.weight).sum())) or 1.0
            linear, factors = 0.0 if is_few else 1.0, _DENSE_SCALES if self._is_line else _SCALES
            found = [Kernel(k, 0, distance * factor, linear) for k in _STATIONARY for factor in factors]
        return [k for k in found if not k.degree or (is_few and k.n_monomials(d) <= n // 3)]

    def _screen(self, kernel: Kernel, samples: IntArray) -> Trial:
        """Error and penalty of a kernel on some of the samples."""
        targets = self.targets[samples, :_LEADING]
        system = self._system_of_some(kernel, samples)
        projected, penalties = system.project(targets), system.penalties[::2]
        if self._is_line and len(samples) == len(self.all) and kernel.name in _STATIONARY:
            self._spectra[kernel.name, kernel.scales] = self._spectrum(system)
            errors = self._spectra[kernel.name, kernel.scales][-1][::2]
        else:
            errors = self._errors_by_penalty(system, projected, penalties, samples)
        best = int(np.argmin(errors))
        criterion, _ = self._criterion(float(errors[best]), system, projected, penalties[[best]], samples)
        return criterion, kernel, float(penalties[best])

    def _criterion(
        self, error: float, system: System, projected: Projected, penalties: FloatArray, samples: IntArray
    ) -> tuple[float, float]:
        """Geometric means of a system's errors with and without the mean's errors half-way between few values."""
        errors = [error]
        for parts, inner in self._values_within(samples):
            residuals, factor = system.leaving_out(parts).left_out(projected, penalties)[1], system.kernel.handicap
            errors += [factor * float(self._error_of(residuals[rows], samples[rows])) for rows in inner]
        average = partial(geometric_mean, of_runs=self.groups is not None)
        known = average(errors) if len(errors) > 1 else error
        if not self._few_values:
            return known, known
        mean, bends = self._bends(system, projected, penalties, samples)
        of_all = average([*errors, *(mean + bend for bend in bends)])
        return of_all, known * of_all / average([*errors, *(mean for _ in bends)])

    def _bends(
        self, system: System, projected: Projected, penalties: FloatArray, samples: IntArray
    ) -> tuple[float, list[float]]:
        """Error of the mean, and what predictions differ from a straight line between two or three shared values.

        Nothing tells of errors there: they are taken as both together, since the constant of a kernel, to which
        predictions may return, can be any number.
        """
        points, targets = self.points[samples], self.targets[samples, :_LEADING]
        weights, tail = system.weights(targets, projected, penalties)
        mean, found = float(self._error_of(targets, samples)), list[float]()
        for place in self._few_values:
            values, numbers = np.unique(points[:, place], return_inverse=True)
            rows = np.flatnonzero(numbers < len(values) - 1)
            three = []
            for share in (0.0, 0.5, 1.0) if len(rows) else ():
                moved = points[rows]
                moved[:, place] += share * np.diff(values)[numbers[rows]]
                three.append(system.kernel.matrix(moved, system.points) @ weights + system.kernel.tail(moved) @ tail)
            if three:
                bend = three[1] - 0.5 * (three[0] + three[2])
                found.append(float(self._error_of(bend, samples[rows])))
        return mean, found

    def _values_within(self, samples: IntArray) -> list[tuple[list[IntArray], list[IntArray]]]:
        """Samples of each value, as `same_sizes` groups them, and for each parameter with these those not at the ends.

        Parameters of a run change together, so that their values have the same samples, and only the ends differ.
        """
        found: dict[tuple[bytes, ...], tuple[list[IntArray], list[IntArray]]] = {}
        for numbers in (held[samples] for held in self._levels):
            # Where a few of the samples do not share values, the error without one sample says all.
            inner = np.flatnonzero((numbers > numbers.min()) & (numbers < numbers.max()))
            if len(inner) and (parts := same_sizes(numbers)):
                found.setdefault(_key_of_parts(parts), (parts, []))[1].append(inner)
        return list(found.values())

    def _by_penalty(self, system: System, projected: Projected, penalties: FloatArray) -> Iterator[FloatArray]:
        """Leave-one-out residuals (l, n, r) with each penalty, of as many at once as a cache holds."""
        step = max(1, _AT_ONCE // (len(system.points) * projected[0].shape[1]))
        for start in range(0, len(penalties), step):
            yield system.left_out_by(projected, penalties[start : start + step])

    def _errors_by_penalty(
        self, system: System, projected: Projected, penalties: FloatArray, samples: IntArray
    ) -> FloatArray:
        """Errors (l,) of some of the samples with each penalty."""
        parts = self._by_penalty(system, projected, penalties)
        return np.concatenate([self.errors(residuals, samples) for residuals in parts])

    def _finish(self, kernel: Kernel, about: float | None = None) -> Found:
        """Choose the penalties on all samples: one for all targets, or one for each where this is better.

        Those about a given one are tried, and the one that leaves the tail.
        """
        targets = self.targets[:, :_LEADING]
        system = self._system(kernel, _INDUCING)
        projected, penalties = system.project(targets), system.penalties
        if about is not None:
            is_near = np.abs(np.log10(penalties) - np.log10(about)) < _DECADES
            penalties = penalties[is_near | (penalties == penalties[-1])]
        errors, each, outputs, sizes = [], [], [], []
        for residuals in self._by_penalty(system, projected, penalties):
            errors.append(kernel.handicap * self.errors(residuals, self.all))
            if self.repeats is not None:
                sizes.append(np.square(residuals).sum(axis=2))
            each.append(kernel.handicap * (self.weights @ np.abs(residuals)))
            if (of_outputs := self.each(residuals)) is not None:
                outputs.append(kernel.handicap * of_outputs)
        by_penalty = np.concatenate(errors)
        best = int(np.argmin(by_penalty))
        if self.repeats is not None:
            best = _most_probable(by_penalty, np.concatenate(sizes), system.diagonal(penalties))
        chosen = np.full(self.targets.shape[1], penalties[best])
        least = np.min(np.concatenate(outputs), axis=0) if outputs else None
        found = Found(self._error(system, chosen), system, chosen, np.concatenate(each), penalties, least)
        found = self._each_alone(found)
        if not self._levels and not self._few_values:
            return replace(found, criterion=found.error)
        part, share = system, len(self.few) / len(self.all)
        if share < 1:
            part = self._system_of_some(kernel, self.few)
            projected = part.project(targets[self.few])
        chosen = share * found.penalties[: targets.shape[1]]
        criterion, known = self._criterion(found.error, part, projected, chosen, self.few)
        return replace(found, criterion=criterion, known=known)

    def _each_alone(self, found: Found) -> Found:
        """Choose the penalty of each target alone, if this predicts held-out samples better.

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
            if error >= found.error:
                return found
        assert found.system is not None
        one, each = _errors_of_parts(self, found.system.kernel)[1][:, :, -1].sum(axis=0)
        return replace(found, error=each / one * found.error, penalties=penalties) if each < one else found

    def n_predictable(self) -> int:
        """Number of leading targets without which held-out samples are worse, beyond chance; all of few samples.

        The targets after them are noise, by which models of all targets would be too smooth, or predict chance. Over
        one input, samples that are left out double the gaps, so that the last targets of a wave would look like noise.
        """
        kernel = min((trials[0] for trials in self._trials.values() if trials), key=itemgetter(0))[1]
        counts, errors = ([], np.empty(0)) if self._is_line else _errors_of_parts(self, kernel)
        if not len(errors) or not np.isfinite(errors).all():
            return self.targets.shape[1]
        sums = errors.sum(axis=0)
        penalties, best = np.unravel_index(np.argmin(sums), sums.shape)
        gains = errors[:, np.argmin(sums[:, -1]), -1] - errors[:, penalties, best]
        is_clear = gains.mean() > beyond_chance(len(gains)) * error_of_mean(gains, None)
        return counts[best] if is_clear else self.targets.shape[1]

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
        return KernelModel.fit(self.targets[:, :kept], found.system, found.penalties[:kept], self.groups, self.weight)

    def _scale_search(self, kernel: Kernel, samples: IntArray) -> ScaleSearch:
        """Search for the length scales of the least criterion of some samples, from those of a kernel."""
        numbers, weight = self._groups_and_weight(samples)
        weights = self.weights[samples] / root_of(weight)[:, 0]
        cases = {_key_of_parts(parts := same_sizes(numbers)): (parts, [weights])}
        for parts, inner in self._values_within(samples):
            own = [np.where(np.isin(np.arange(len(samples)), rows), weights, 0.0) for rows in inner]
            cases.setdefault(_key_of_parts(parts), (parts, []))[1].extend(own)
        rows = self.points[samples], self.targets[samples, :_LEADING]
        return ScaleSearch(kernel, *rows, list(cases.values()), self.n_params, weight)


def _key_of_parts(parts: list[IntArray]) -> tuple[bytes, ...]:
    """Key of samples as `same_sizes` groups them."""
    return tuple(rows.tobytes() for rows in parts)


def _errors_of_parts(selection: Selection, kernel: Kernel) -> tuple[list[int], FloatArray]:
    """Numbers (k) of leading targets, and errors (parts, 2, k) of held-out samples with one penalty and one for each.

    Targets are the modes of all samples, which know each of them, so that penalties of single modes lower leave-one-out
    errors and not those of new samples. Here modes and penalties are those of the other samples.
    """
    all_targets, found = selection.targets[:, :_LEADING], []
    counts = sorted({int(count) for count in np.geomspace(1, all_targets.shape[1], _COUNTS)})
    for out, _ in selection._parts if sum(count for _, count in selection._parts) >= _FEWEST else []:
        kept = np.setdiff1d(selection.few, out)
        points, targets, root = selection.points[out], all_targets[kept], root_of(selection._groups_and_weight(kept)[1])
        mean = mean_of(targets, selection._groups_and_weight(kept)[1])
        modes = svd(root * (targets - mean), full_matrices=False, check_finite=False)[2]
        system = selection._system_of_some(kernel, kept)
        turned = (targets - mean) @ modes.T
        projected, penalties = system.project(turned), system.penalties
        residuals = system.left_out_by(projected, penalties)
        best = int(np.argmin(selection.errors(residuals @ modes, kept)))
        left = []
        for chosen in (penalties[[best]], penalties[np.argmin(selection.weights[kept] @ np.abs(residuals), axis=0)]):
            weights, tail = system.weights(turned, projected, chosen)
            values = kernel.matrix(points, system.points) @ weights + kernel.tail(points) @ tail
            left.append([all_targets[out] - mean - values[:, :count] @ modes[:count] for count in counts])
        found.append(selection.errors(np.array(left), out))
    return counts, np.reshape(found, (-1, 2, len(counts)))


def on_new_inputs(selection: Selection, system: System | None, penalties: FloatArray) -> FloatArray:
    """Leave-one-out residuals (n, r) of leading targets, with penalties (r,), without all samples of the same inputs.

    Samples with the same inputs know each other's targets, up to noise, and nothing of other inputs.
    """
    assert system is not None
    targets, parts = selection.targets[:, : len(penalties)], same_sizes(selection.repeats)
    residuals = system.leaving_out(parts).left_out(system.project(targets), penalties)[1]
    return np.where(np.isfinite(residuals), residuals, targets)


def told_error(selection: Selection, found: Found) -> float:
    """Error of new samples, which have other inputs than those of the fit: without all samples of the same inputs."""
    if selection.repeats is None or found.system is None:
        return found.error
    residuals = found.system.kernel.handicap * on_new_inputs(selection, found.system, found.penalties[:_LEADING])
    return selection.error(residuals, selection.all)


def between_values(
    selection: Selection, system: System | None, model: KernelModel, components: FloatArray
) -> list[tuple[int, FloatArray, FloatArray]]:
    """Errors of a model between the values of parameters that samples share.

    Half-way between two values, the errors are those without all samples of a value, in place of those without one
    sample. With two or three values they are the half of what predictions differ between neighbours: a curve that only
    rises, or only falls, is nowhere farther from a straight line.

    Parameters
    ----------
    selection : Selection
        Search that has found the model.
    system : System
        System of the model.
    model : KernelModel
        The model.
    components : ndarray of shape (r, P)
        Rows of which its targets are coefficients.

    Returns
    -------
    list of tuple of (int, ndarray of shape (l,), ndarray of shape (P,))
        Number of each parameter, its values, and the mean squares that come to those of the errors half-way.
    """
    few, points, found = selection.few, selection.points, []
    share = len(few) / len(points)
    assert system is not None
    if share < 1:
        system = selection._system_of_some(system.kernel, few)
    targets = selection.targets[few, : len(model.penalties)]
    for place, numbers in selection.shared.items():
        values = np.unique(points[:, place])
        if len(values) < _FEWEST_LEVELS:
            lower, higher = both_ends(points[few], place, values)
            squares = _mean_squares(0.5 * (model.predict(higher) - model.predict(lower)), components)
        # Without most of the samples, errors are those of few.
        elif parts := [part for part in _within(numbers[few]) if 2 * part.shape[1] < len(few)]:
            rows, penalties = np.concatenate([part.ravel() for part in parts]), share * model.penalties
            residuals = system.leaving_out(parts).left_out(system.project(targets), penalties)[1]
            errors = np.where(np.isfinite(residuals), residuals, targets)[rows]
            squares = _mean_squares(errors, components) - _mean_squares(model.left_out[few][rows], components)
            squares = system.kernel.handicap**2 * np.maximum(squares, 0.0)
        else:
            continue
        found.append((place, values, squares))
    return found


def _mean_squares(errors: FloatArray, components: FloatArray) -> FloatArray:
    """Mean squares (P,) of errors (k, r) of the coefficients of rows."""
    return np.asarray(np.einsum("ij,ij->j", (errors.T @ errors / len(errors)) @ components, components))


def _most_probable(errors: FloatArray, squares: FloatArray, diagonal: FloatArray) -> int:
    """Number of the penalty by which leave-one-out residuals are the most probable, of those whose error is as good.

    Their density is that of C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning" (2006),
    section 5.4.2, with squared residuals (l, n), the diagonal (n, l) of the inverse, and the best size of the kernel.
    """
    sizes = np.mean(squares * diagonal.T, axis=1) + TINY
    values = len(diagonal) * np.log(sizes) - np.log(diagonal + TINY).sum(axis=0)
    is_good = np.isfinite(values) & (errors <= _EQUIVALENT * errors.min())
    return int(np.argmin(np.where(is_good, values, np.inf))) if is_good.any() else int(np.argmin(errors))


def _within(numbers: IntArray) -> list[IntArray]:
    """Samples of each number but the least and the largest, as `same_sizes` groups them."""
    ends = numbers.min(), numbers.max()
    parts = [rows[~np.isin(numbers[rows[:, 0]], ends)] for rows in same_sizes(numbers)]
    return [rows for rows in parts if len(rows)]


def _is_better_than_mean(selection: Selection, found: Found) -> bool:
    """Whether leave-one-out errors are below those of the mean beyond chance."""
    own = selection._residuals(found.system, found.penalties[:_LEADING])
    mean: FloatArray = (of_others(len(own), selection.weight) * selection.targets[:, :_LEADING])[selection._inside]
    own, weight = own[selection._inside], None if selection.weight is None else selection.weight[selection._inside]
    if not np.isfinite(own).all():
        return False
    before, after = (mean_of(np.square(part).sum(axis=1), weight) for part in (mean, own))
    clear = _CLEAR if selection._is_line else _CLEAR_OF_SEVERAL
    if len(own) < 2 or after < clear**2 * before:
        return True
    gains = np.linalg.norm(mean, axis=1) - np.linalg.norm(own, axis=1)
    return bool(mean_of(gains, weight) > beyond_chance(len(gains)) * error_of_mean(gains, weight))


def _tells_of_new_values(selection: Selection, place: int) -> bool:
    """Whether samples tell of values of a parameter that they do not have, as not those of a category by its number.

    A model that reads the parameter then predicts all samples of a value by the others far better than one that does
    not. Values of a run, which has several of these, are known to tell, and most values of a category have several
    samples, where one parameter at a time has one.
    """
    few, points, own = selection.few, selection.points, selection.shared[place]
    others = (held for other, held in selection.shared.items() if other != place)
    is_of_runs = any(len(set(zip(own, held, strict=True))) == own.max() + 1 for held in others)
    if selection.groups is not None or is_of_runs or np.median(np.bincount(own)) < 2:
        return True
    samples = few[np.argsort(key_of(points[few]), kind="stable")[:: -(-len(few) // _FEW)]]
    parts = _within(own[samples])
    if not parts:
        return True
    targets, rows = selection.targets[samples, :_LEADING], np.concatenate([part.ravel() for part in parts])
    distance, least = float(np.sqrt(2 * variance_of(points, selection.weight).sum())) or 1.0, []
    for unit in (np.inf, 1.0):
        errors = []
        for name, factor in product(("gaussian", "matern52"), _SCALES[1:]):
            scales = np.full(points.shape[1], factor * distance)
            scales[place] *= unit
            system = selection._system_of_some(Kernel(name, 0, scales), samples)
            projected, penalties = system.project(targets), system.penalties[::2]
            residuals = system.leaving_out(parts).left_out_by(projected, penalties)[:, rows]
            errors.append(float(np.min(selection._error_of(residuals, samples[rows]))))
        least.append(min(errors))
    return least[1] < _TELLS * least[0]
