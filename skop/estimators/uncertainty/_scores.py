"""Statistics of conformal bands: scores of samples that were held out, their masses, quantiles, and bounds.

A score of a calibration sample is its error divided by the scale: the largest one over its nodes (simultaneous), or
that of each node, where each of P nodes counts 1/P (point-wise). Each of n samples has the mass 1/(n + 1), and a new
one the same at infinity; with weights they have these in place of 1. The factor of a band is the quantile of this
distribution at the coverage. For a simultaneous band, a scalar, and a field of one node, it is the k-th smallest score,
k = ceil((n + 1) coverage).

Notation: n samples, P points, T points of all samples together, q output channels, s scalars, m scores of a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skop._typing import FloatArray, IntArray
from skop.data import FieldSet, Predictions, Targets, refuse_containers, refuse_mask
from skop.exceptions import FieldDataError
from skop.surrogate._predictions import combined

__all__ = [
    *("KINDS", "Pool", "bounds_by_factors", "bounds_of_folds", "check_size", "levels_of", "masses", "node_counts"),
    *("share_inside", "starts_of", "units_of"),
]

#: Kinds of outputs.
KINDS = ("fields", "scalars")
#: Keep this number of scores of each model for CV+, and round the others up to these.
_KEPT_SCORES = 1000
#: Join close scores of a channel above this number if they come in many parts; close scores differ in this number of
#: low bits, that is, by 6e-5.
_MOST_SCORES, _JOINED_BITS = 2**18, 38
#: Number of bisections for a bound of CV+, which is then too wide by at most 1e-10 of the band.
_BISECTIONS = 34
#: Differences of probabilities up to this are rounding.
_ROUNDING = 1e-9


def masses(n_samples: int, weight: FloatArray | None, groups: Any) -> tuple[FloatArray, float, float]:
    """Probability of each calibration sample, of a new one that counts as the heaviest, and the weight of that one."""
    weights: FloatArray = np.ones(n_samples) if weight is None else weight
    unit = units_of(n_samples, groups)
    sums, counts = np.bincount(unit, weights), np.bincount(unit)
    of_units = sums / counts
    total = of_units.sum() + of_units.max()
    return weights / counts[unit] / total, float(of_units.max() / total), float(of_units.max())


def units_of(n_samples: int, groups: Any) -> IntArray:
    """Number of the group of each sample; without groups each sample is one."""
    return np.arange(n_samples) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()


def node_counts(targets: Targets, kind: str) -> IntArray:
    """Number of nodes of each sample; that of scalars is one."""
    field = targets.field
    return np.asarray(field.n_points) if kind == "fields" and field is not None else np.ones(len(targets), dtype=int)


def starts_of(counts: IntArray) -> IntArray:
    """Place of the first node of each sample, if the nodes of all samples are listed one sample after the other."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]])


class Pool:
    """Scores of one channel, or scalar, with their masses.

    Where scores come in many parts, as from files, close ones are joined: to the largest of them, with the mass of all.
    Then the mass up to each score that is left is still exact, and a quantile is the true one or slightly larger.
    """

    def __init__(self) -> None:
        self.scores = self.mass = np.empty(0)
        self.counts = np.empty(0, dtype=np.int64)
        self._limit = _MOST_SCORES

    def add(self, scores: FloatArray, mass: FloatArray) -> None:
        """Add scores, at least 0; those of all samples at once are kept as they are."""
        is_first = not len(self.scores)
        self.scores, self.mass = np.concatenate([self.scores, scores]), np.concatenate([self.mass, mass])
        self.counts = np.concatenate([self.counts, np.ones(len(scores), dtype=np.int64)])
        if is_first or len(self.scores) <= self._limit:
            return
        order = np.argsort(self.scores, kind="stable")
        # Numbers of at least 0 are in the order of their bits.
        leading = np.ascontiguousarray(self.scores[order]).view(np.int64) >> _JOINED_BITS
        starts = np.flatnonzero(np.diff(leading, prepend=-1))
        self.scores = self.scores[order][np.append(starts[1:], len(order)) - 1]
        self.mass, self.counts = (np.add.reduceat(part[order], starts) for part in (self.mass, self.counts))
        self._limit = max(_MOST_SCORES, 2 * len(self.scores))

    def quantile(self, coverage: float) -> float:
        """Lowest score up to which the mass is the coverage."""
        order = np.argsort(self.scores, kind="stable")
        place = int(np.searchsorted(np.cumsum(self.mass[order]), coverage - _ROUNDING))
        return float(self.scores[order[min(place, len(order) - 1)]])

    def table(self) -> FloatArray:
        """Sorted scores and the masses up to each, (2, m), at most `_KEPT_SCORES` scores; others are rounded up."""
        order = np.argsort(self.scores, kind="stable")
        counts = np.cumsum(self.counts[order])
        ends = np.linspace(0, counts[-1], min(counts[-1], _KEPT_SCORES) + 1).round().astype(int)[1:]
        places = np.unique(np.searchsorted(counts, ends))
        return np.stack([self.scores[order], np.cumsum(self.mass[order])])[:, places]


def share_inside(inside: NDArray[np.bool_], counts: IntArray, guarantee: str) -> FloatArray:
    """Share of the nodes of each sample at which a condition holds, or whether it holds at all of them, ``(n, q)``."""
    nodes, starts = inside.reshape(-1, inside.shape[-1]).astype(float), starts_of(counts)
    if guarantee == "simultaneous":
        return np.asarray(np.minimum.reduceat(nodes, starts, axis=0))
    return np.asarray(np.add.reduceat(nodes, starts, axis=0) / counts[:, None])


def check_size(coverage: float, calibration_size: int, rest: float, what: str) -> None:
    """Raise an error if the calibration samples are too few for the coverage, given the mass of a new one."""
    if rest <= 1 - coverage + _ROUNDING:
        return
    needed = int(np.ceil(coverage / (1 - coverage) - _ROUNDING))
    if calibration_size >= needed:
        raise FieldDataError(
            f"coverage={coverage:g} is too high for these sample weights: a new sample with the largest of them has "
            f"{rest:.3g} of the weight of all {calibration_size} calibration {what} and itself, and more than "
            f"{1 - coverage:.3g} needs an infinite band. Pass more samples, or limit the weights."
        )
    raise FieldDataError(
        f"coverage={coverage:g} needs at least {needed} calibration {what}, but there are {calibration_size}: with "
        "fewer only an infinite band has this coverage. Pass more samples, lower the coverage, or, of a "
        "ConformalRegressor, raise calibration_size or set method='cv+'. Samples of the same inputs, or nearly, are "
        "one group."
    )


def levels_of(sample_weight: Any, n_samples: int, coverage: float, new_mass: float, new_weight: float) -> FloatArray:
    """Mass of calibration samples up to which the scores of each new sample go, by its weight."""
    refuse_containers(sample_weight, "sample_weight")
    refuse_mask(sample_weight, "sample_weight")
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise FieldDataError(
            f"sample_weight of shape {weight.shape} was given for {n_samples} samples; expected one finite number "
            "of at least 0 for each of them."
        )
    held = 1 - new_mass
    with np.errstate(over="ignore"):
        levels: FloatArray = coverage * (held + weight / new_weight * new_mass)
    worst = int(np.argmax(levels))
    if levels[worst] > held + _ROUNDING:
        largest = (1 / coverage - 1) * held * new_weight / new_mass
        raise FieldDataError(
            f"sample_weight[{worst}] is {weight[worst]:.3g}, but with coverage={coverage:g} and these "
            f"calibration samples a weight above {largest:.3g} needs an infinite band. Calibrate with more samples "
            "like it, or lower the coverage."
        )
    return levels


def bounds_by_factors(
    mean: Predictions, scale: Predictions, places: FieldSet, factors: Any, pools: Any, levels: FloatArray | None
) -> tuple[Predictions, Predictions]:
    """Bounds at mean -+ factor * scale, with the factors of all samples, or those of the levels of each."""

    def half_width(kind: str) -> Any:
        """Half the width of the band of the fields, or of the scalars."""
        width = getattr(scale, kind)
        if width is None or levels is None:
            return None if width is None else factors[kind] * width
        level = _for_rows(levels, width, kind, places)
        return np.stack([_factors(table, level) for table in pools[kind]], axis=-1) * width

    halves = Predictions(*map(half_width, KINDS))
    return combined(np.subtract, mean, halves), combined(np.add, mean, halves)


def bounds_of_folds(
    found: list[tuple[Predictions, Predictions, FieldSet]], pools: list[Any], coverage: float, levels: FloatArray | None
) -> tuple[Predictions, Predictions]:
    """Bounds of CV+ and jackknife+ by the means, scales and scores of all folds."""

    def ends(kind: str) -> tuple[Any, Any]:
        """Lower and upper bound of the fields, or of the scalars."""
        means, widths = ([getattr(part[side], kind) for part in found] for side in (0, 1))
        if means[0] is None:
            return None, None
        level: Any = coverage if levels is None else _for_rows(levels, means[0], kind, found[0][2])
        tables = [one[kind] for one in pools]
        lower = -_upper_bounds([-mean for mean in means], widths, tables, level)
        return lower, _upper_bounds(means, widths, tables, level)

    lower, upper = zip(*map(ends, KINDS), strict=True)
    return Predictions(*lower), Predictions(*upper)


def _for_rows(levels: FloatArray, values: FloatArray, kind: str, places: FieldSet) -> FloatArray:
    """Numbers of samples (n,) in a shape that goes with one channel of values (n, P, q), (T, q) or scalars (n, s)."""
    if kind == "scalars":
        return levels
    return levels[:, None] if values.ndim > 2 else np.repeat(levels, places.n_points)


def _factors(table: FloatArray, levels: FloatArray) -> FloatArray:
    """Lowest scores of a `Pool.table` up to which the mass is each of the levels."""
    place = np.searchsorted(table[1], levels - _ROUNDING)
    return np.asarray(table[0, np.minimum(place, table.shape[1] - 1)])


def _upper_bounds(
    means: list[FloatArray], widths: list[FloatArray], pools: list[list[FloatArray]], coverage: Any
) -> FloatArray:
    """Lowest numbers up to which mean + score * scale of all models and scores have the mass of the coverage.

    The coverage is one number, or an array that goes with one channel of the means.
    """
    bounds = np.empty_like(means[0])
    for channel in range(bounds.shape[-1]):
        parts = [(mean[..., channel], width[..., channel]) for mean, width in zip(means, widths, strict=True)]
        tables = [pool[channel] for pool in pools]
        upper = np.max([m + w * table[0, -1] for (m, w), table in zip(parts, tables, strict=True)], axis=0)
        lower = np.min([m for m, _ in parts], axis=0)
        for _ in range(_BISECTIONS):
            middle = lower + (upper - lower) / 2
            mass = np.zeros_like(middle)
            for (m, w), table in zip(parts, tables, strict=True):
                up_to = np.concatenate([[0.0], table[1]])
                mass += up_to[np.searchsorted(table[0], (middle - m) / w, side="right")]
            is_enough = mass >= coverage - _ROUNDING
            upper, lower = np.where(is_enough, middle, upper), np.where(is_enough, lower, middle)
        bounds[..., channel] = upper
    return bounds
