"""A network and a base compared on samples that neither has seen: shares of the network, and which of them is of use.

Notation: m samples, q output channels, s scalars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data import Predictions, Targets
from skop.estimators.classical._components import (
    BEYOND_CHANCE,
    OF_USE,
    beyond_chance,
    error_of_mean,
    mean_of,
    of_others,
)

__all__ = ["ROUNDING", "Comparison", "Review", "correction_shares", "is_better_than_mean", "pairs", "sums_of"]

#: Compare the network with the base after these parts of the training; earlier ones are for a network that learns the
#: residual, from this number of steps on.
_REVIEWS, _EARLY, _STEPS = (1 / 8, 1 / 4, 1 / 2), (1 / 32, 1 / 16), 100
#: Rounds in which least squares become least norms: after the fifth no share of 26 fits changed by 1e-4.
_ROUNDS = 10
#: Variations below this part of the values are rounding.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Comparison:
    """A network and a base model, compared on samples that neither has seen.

    Attributes
    ----------
    field, scalars : ndarray of shape (q,), (s,), or None
        Shares of the network, see `correction_shares`.
    ratio, blended : ndarray of shape (q + s,)
        Error with the whole correction, and with its shares, in units of that of the base, for each channel and scalar.
    """

    field: FloatArray | None
    scalars: FloatArray | None
    ratio: FloatArray
    blended: FloatArray

    @classmethod
    def of(
        cls,
        unseen: Predictions,
        corrected: Targets,
        truth: Targets,
        weight: FloatArray,
        norms: FloatArray,
        n_frames: int = 1,
        groups: IntArray | None = None,
    ) -> Comparison:
        """Compare m samples.

        Parameters
        ----------
        unseen, corrected, truth, weight, norms, n_frames, groups
            Arguments of `correction_shares`.

        Returns
        -------
        Comparison
            Shares and ratio.
        """
        shares = correction_shares(unseen, corrected, truth, weight, norms, n_frames, groups)
        ratios: list[list[FloatArray]] = [[], []]
        both = pairs(unseen, corrected, n_frames), pairs(unseen, truth, n_frames)
        for share, (base, whole), (_, true), unit in zip(shares, *both, (norms, None), strict=True):
            if base is None:
                continue
            parts = (base, whole, base + share * (whole - base))
            own, *others = (_error(_by_channel(true - part), weight, unit) for part in parts)
            for found, error in zip(ratios, others, strict=True):
                found.append(np.divide(error, own, out=np.full(len(own), np.inf), where=own > 0))
        return cls(*shares, *map(np.concatenate, ratios))

    @property
    def shares(self) -> FloatArray:
        """All shares, of shape (q + s,)."""
        return np.concatenate([held for held in (self.field, self.scalars) if held is not None])


class Review:
    """Repeated comparison of a network with a base model in the course of a training.

    Parameters
    ----------
    learns_rest : bool
        Whether the network learns the residual of the base, and not the whole map.
    is_line : bool, default=False
        Whether samples differ by one number alone, and the base interpolates. Leaving out a sample then doubles a gap:
        the residual is many times that of new samples, and not worth learning.
    """

    def __init__(self, learns_rest: bool, is_line: bool = False) -> None:
        self.learns_rest, self.is_line = learns_rest, is_line
        # On a line nothing speaks for the network, so that one epoch is enough.
        self.due = [0.0] if learns_rest and is_line else [*(_EARLY if learns_rest else ()), *_REVIEWS]
        self.before: tuple[float, Comparison] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return the comparisons so far, as nested dicts and lists of numbers and arrays."""
        before = None if self.before is None else {"part": self.before[0], **vars(self.before[1])}
        return {"due": list(self.due), "before": before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state_dict`."""
        self.due, before = list(state["due"]), state["before"]
        parts = {} if before is None else {name: held for name, held in before.items() if name != "part"}
        self.before = None if before is None else (before["part"], Comparison(**parts))

    def is_due(self, part: float, steps: int) -> bool:
        """Whether a review is due when this fraction of the training, and so many steps, are complete."""
        is_told = part >= _REVIEWS[0] or steps >= _STEPS or self.is_line
        return bool(self.due) and part >= self.due[0] and is_told

    def pass_by(self, part: float) -> None:
        """Mark the reviews up to this fraction of the training as done."""
        self.due = [later for later in self.due if later > part]

    def winner(self, part: float, now: Comparison) -> str | None:
        """Decide whether network or base is of no use for the rest of the training.

        A network that learns the residual learns it early or not at all: it is of no use if it lowers no error by a
        fiftieth in two successive comparisons; or, in the first eighth of the training, none beyond chance. A network
        that learns the whole map is worse than a good base for long. It is of no use if, in addition, its error is
        extrapolated to be so large that it would lower no error by a fiftieth at the end. The extrapolation is the
        power of the time between the last two comparisons. The base is of no use to such a network by the same measure.

        Parameters
        ----------
        part : float
            Completed fraction of the training.
        now : Comparison
            Their comparison at this time.

        Returns
        -------
        str or None
            ``"base"`` or ``"network"``, the one that is left, or None if both are of use.
        """
        self.pass_by(part)
        before, self.before = self.before, (part, now)
        if self.learns_rest and self.is_line:
            return "base"
        # If the errors are independent, the error of both together is sqrt(share) times that of the network.
        if not self.learns_rest and now.shares.min() >= OF_USE**2:
            return "network"
        if before is None or min(now.blended.min(), before[1].blended.min()) < OF_USE:
            return None
        if self.learns_rest:
            is_chance = max(now.shares.max(), before[1].shares.max()) == 0
            return "base" if is_chance or part >= _REVIEWS[0] else None
        # Where the base has no error, the ratio is infinite.
        known = np.isfinite(now.ratio) & np.isfinite(before[1].ratio)
        fallen = np.divide(now.ratio, before[1].ratio, out=np.ones_like(now.ratio), where=known)
        power = np.log(np.minimum(fallen, 1.0)) / np.log(part / before[0])
        at_end = now.ratio * part**-power
        # If the errors are independent, a network with r times the error of the base lowers it to r / sqrt(1 + r²).
        return "base" if np.sin(np.arctan(at_end)).min() > OF_USE else None


def correction_shares(
    unseen: Predictions,
    corrected: Targets,
    truth: Targets,
    weight: FloatArray,
    norms: FloatArray,
    n_frames: int = 1,
    groups: IntArray | None = None,
) -> tuple[FloatArray | None, FloatArray | None]:
    """Shares of a correction that lower the error of samples which the network has not seen.

    Each is the factor of the smallest error minus its standard error over the samples, in [0, 1]; 0 if the factor is
    below twice this error; and at most the smallest factor without any one of the samples. The factor itself is too
    large: leave-one-out errors of a base exceed its errors on new samples between those of the fit. The error of a
    field is the mean of those of the samples, relative to their norms, as in the score: least squares would follow the
    few samples on which the base fails. Errors below their median are squares. That of a scalar is the mean of squares,
    of which few samples can have the most, so that it needs as many standard errors as Student's distribution has.

    Parameters
    ----------
    unseen : Predictions
        Predictions of the base model for m samples.
    corrected, truth : Targets
        The same with the whole correction, and true values.
    weight : ndarray of shape (m / n_frames,)
        Weight of each run.
    norms : ndarray of shape (m / n_frames,)
        Norm of the fields of each run, up to a factor.
    n_frames : int, default=1
        Number of successive samples that are the frames of one run, which count as one sample.
    groups : ndarray of int, shape (m / n_frames,), or None, default=None
        Numbers of the groups of runs that belong together, of which each is one sample of the standard error.

    Returns
    -------
    tuple of (ndarray or None)
        Shares ``(q,)`` of the channels and ``(s,)`` of the scalars.
    """
    shares: list[FloatArray | None] = [None, None]
    both = pairs(unseen, corrected, n_frames), pairs(unseen, truth, n_frames)
    for number, ((base, whole), (_, true), unit) in enumerate(zip(*both, (norms, None), strict=True)):
        if base is not None:
            shares[number] = _share(_by_channel(whole - base), _by_channel(true - base), weight, unit, groups)
    return shares[0], shares[1]


def _by_channel(values: FloatArray) -> FloatArray:
    """Values (m, ..., q) as (m, N, q)."""
    return values.reshape(len(values), -1, values.shape[-1])


def _error(left: FloatArray, weight: FloatArray, norms: FloatArray | None) -> FloatArray:
    """Error for each channel of residuals (m, N, q): mean of those relative to norms, or without these of squares."""
    squares = np.sum(left**2, axis=1)
    return np.sqrt(weight @ squares) if norms is None else (weight / norms) @ np.sqrt(squares)


def sums_of(rows: Any, runs: IntArray) -> Any:
    """Sums of rows (n, ...) over the samples of each run or group; None for None."""
    if rows is None:
        return None
    found = np.zeros((runs.max() + 1, *rows.shape[1:]))
    np.add.at(found, runs, rows)
    return found


def _share(
    step: FloatArray, left: FloatArray, weight: FloatArray, norms: FloatArray | None, groups: IntArray | None
) -> FloatArray:
    """Share for each channel of a correction of residuals, both (m, N, q)."""
    n_channels = left.shape[-1]
    gain, size = (np.sum(step * part, axis=1) for part in (left, step))
    factor = weight[:, np.newaxis]
    if norms is not None:
        factor = _least_norms(gain, size, np.sum(left**2, axis=1), weight, norms)
    gain, size = factor * gain, factor * size
    if groups is not None:
        gain, size = sums_of(gain, groups), sums_of(size, groups)
    total = size.sum(axis=0)
    # In a channel that does not vary, base and truth, or base and network, differ by rounding: nothing is to be added.
    differ = np.minimum(*(np.abs(part).max(axis=(0, 1)) for part in (step, left))) > ROUNDING
    total = np.where(differ, total, 0.0)
    share = np.divide(gain.sum(axis=0), total, out=np.zeros(n_channels), where=total > 0)
    # Variance of a ratio of sums over independent samples; it is unknown for a single sample.
    part = np.divide(size, total, out=np.zeros_like(size), where=total > 0)
    freedom = 1 - np.sum(part**2, axis=0)
    scatter = np.sum((gain - share * size) ** 2, axis=0)
    infinite = np.full(n_channels, np.inf)
    variance = np.divide(scatter, total**2 * freedom, out=infinite, where=(total > 0) & (freedom > ROUNDING))
    deviation = np.sqrt(variance)
    # With noise, a few samples support any factor: one that is not beyond chance is set to 0.
    errors = beyond_chance(len(gain)) if norms is None else BEYOND_CHANCE
    pulled = np.where(share > errors * deviation, share - deviation, 0.0)
    # A sample with a small field has a large weight, and would otherwise decide against all others.
    others = total - size
    without = np.divide(gain.sum(axis=0) - gain, others, out=np.zeros_like(size), where=others > ROUNDING * total)
    return np.clip(np.minimum(pulled, without.min(axis=0)), 0.0, 1.0)


def _least_norms(
    gain: FloatArray, size: FloatArray, left: FloatArray, weight: FloatArray, norms: FloatArray
) -> FloatArray:
    """Factors (m, q) of squares with which least squares are least relative norms, the smaller half as their median.

    Iteratively reweighted least squares: E. Weiszfeld, "Sur le point pour lequel la somme des distances de n points
    donnés est minimum", Tohoku Mathematical Journal 43, 1937. The last step is that of P. J. Huber, "Robust estimation
    of a location parameter", Annals of Mathematical Statistics 35, 1964: least norms alone nearly meet one sample where
    residuals have few patterns, which would decide, and hide the standard error.
    """
    # A sample without any residual would have an infinite factor.
    least = np.maximum(np.finfo(float).eps * left.max(axis=0), np.finfo(float).tiny)
    factor = np.broadcast_to((weight / norms)[:, np.newaxis], gain.shape)
    for _ in range(_ROUNDS):
        total = np.sum(factor * size, axis=0)
        share = np.divide(np.sum(factor * gain, axis=0), total, out=np.zeros_like(total), where=total > 0)
        relative = np.sqrt(np.maximum(left - share * (2 * gain - share * size), least)) / norms[:, np.newaxis]
        factor = (weight / norms**2)[:, np.newaxis] / relative
    median = np.quantile(relative, 0.5, axis=0, weights=weight, method="inverted_cdf")
    return (weight / norms**2)[:, np.newaxis] / np.maximum(relative, median)


def pairs(found: Predictions, targets: Targets, n_frames: int = 1) -> list[tuple[FloatArray | None, Any]]:
    """Predictions and truth of the fields and of the scalars, with successive frames of a run as one sample."""
    field = None if targets.field is None else np.asarray(targets.field.values, dtype=np.float64)
    held = [(found.fields, field), (found.scalars, targets.scalars)]
    return held if n_frames == 1 else [(_as_runs(ours, n_frames), _as_runs(true, n_frames)) for ours, true in held]


def _as_runs(values: Any, n_frames: int) -> Any:
    """Values (n * S, ..., q) of frames as those of runs, (n, ..., q)."""
    return None if values is None else values.reshape(len(values) // n_frames, -1, values.shape[-1])


def is_better_than_mean(
    found: Predictions,
    targets: Targets,
    weight: FloatArray | None,
    runs: IntArray | None,
    means: Predictions | None = None,
) -> bool:
    """Whether predictions of unseen samples have smaller squared errors than the mean of the others, beyond chance.

    Each channel and scalar counts by itself, since a share of the network is chosen for each. The frames of a run
    count as one sample. If nothing varies, the base is taken.

    Parameters
    ----------
    found : Predictions
        Predictions of n samples.
    targets : Targets
        True values.
    weight : ndarray of shape (n,) or None
        Weights of the samples.
    runs : ndarray of int, shape (n,), or None
        Numbers of the runs.
    means : Predictions or None, default=None
        Mean of the samples of the fit of each prediction; None takes that of all other samples.

    Returns
    -------
    bool
        Whether one channel or scalar has.
    """
    n_samples, varies = len(targets), False
    for (own, true), (others, _) in zip(pairs(found, targets), pairs(means or found, targets), strict=True):
        if own is not None:
            by_mean = true - others
            if means is None:
                by_mean = np.multiply((true - mean_of(true, weight)).T, np.ravel(of_others(n_samples, weight))).T
            mean, base = (
                np.square(part).reshape(n_samples, -1, true.shape[-1]).sum(axis=1) for part in (by_mean, true - own)
            )
            each = weight
            if runs is not None:
                mean, base, each = (sums_of(part, runs) for part in (mean, base, weight))
            size = mean_of(mean, each)
            varies = varies or bool((size > ROUNDING**2 * np.square(true).mean()).any())
            is_smaller = mean_of(base, each) < OF_USE**2 * size
            # As a part of both for each sample too, since few large samples can make up all of a difference.
            both = mean + base
            for gain in (mean - base, np.divide(mean - base, both, out=np.zeros_like(both), where=both > 0)):
                is_clear = mean_of(gain, each) > BEYOND_CHANCE * error_of_mean(gain, each)
                if (is_smaller & is_clear).any():
                    return True
    return not varies
