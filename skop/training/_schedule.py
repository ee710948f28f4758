"""Learning-rate schedules as functions of progress.

A schedule gives the learning rate at a step out of a total number of steps. With a time limit, progress is measured as
a fraction of the time, so steps are real numbers here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ONE_CYCLE", "SCHEDULES", "RateAndMomentum", "schedule_at"]

SCHEDULES = ("one_cycle", "cosine", "constant")

#: PyTorch's defaults of OneCycleLR, which most published scripts use: part of the steps that rise, and the factors by
#: which the rate starts below the peak and ends below the start.
ONE_CYCLE = (0.3, 25.0, 1e4)
_ONE_CYCLE_MOMENTA = (0.95, 0.85)


@dataclass(frozen=True)
class RateAndMomentum:
    """Learning rate and momentum at one step of a schedule.

    Attributes
    ----------
    rate : float
        Factor by which the peak learning rate is multiplied.
    momentum : float or None
        First beta of Adam; None does not change it.
    """

    rate: float
    momentum: float | None = None


def schedule_at(
    name: str,
    step: float,
    total_steps: float,
    warmup_fraction: float = 0.05,
    one_cycle: Sequence[float] = ONE_CYCLE,
) -> RateAndMomentum:
    """Evaluate a learning rate schedule.

    Parameters
    ----------
    name : {"one_cycle", "cosine", "constant"}
        Name of the schedule. ``"one_cycle"``: PyTorch's OneCycleLR, momentum included; by default, the rate rises from
        1/25 of the peak to the peak in 30 % of the steps, then falls to 1/250000. ``"cosine"``: linear warm-up, then a
        cosine that falls to zero. ``"constant"``: linear warm-up, then the peak rate.
    step, total_steps : float
        Current step, from 0 to total_steps - 1, and number of steps.
    warmup_fraction : float, default=0.05
        Fraction of the steps in which ``"cosine"`` and ``"constant"`` rise to the peak.
    one_cycle : sequence of three floats, default=(0.3, 25.0, 10000.0)
        Fraction of the steps in which ``"one_cycle"`` rises, in (0, 1), and the factors, at least 1, by which it starts
        below the peak and ends below the start.

    Returns
    -------
    RateAndMomentum
        Factor on the peak rate, and momentum.

    Raises
    ------
    ValueError
        If `one_cycle` is needed and holds other numbers.

    References
    ----------
    Smith & Topin, "Super-Convergence", arXiv:1708.07120.

    Examples
    --------
    >>> from skop.training._schedule import schedule_at
    >>> schedule_at("constant", 50, 100).rate
    1.0
    """
    if name == "one_cycle":
        return _one_cycle(step, total_steps, one_cycle)
    warmup = warmup_fraction * total_steps
    if step < warmup:
        return RateAndMomentum((step + 1) / (warmup + 1))
    if name == "constant":
        return RateAndMomentum(1.0)
    part = (step - warmup) / max(total_steps - warmup, 1)
    return RateAndMomentum(0.5 * (1 + math.cos(math.pi * min(part, 1.0))))


def _one_cycle(step: float, total_steps: float, shape: Sequence[float]) -> RateAndMomentum:
    """Rise and fall along two halves of a cosine."""
    if len(shape) != 3 or not 0 < shape[0] < 1 or min(shape[1:]) < 1:
        raise ValueError(
            f"one_cycle is {tuple(shape)}; expected the part of the steps that rise, in (0, 1), and two factors of at "
            "least 1, such as (0.3, 25, 1e4)."
        )
    warmup, divisor, final_divisor = shape
    start = 1 / divisor
    turn = warmup * total_steps - 1
    high, low = _ONE_CYCLE_MOMENTA
    if step <= turn:
        part = step / turn if turn > 0 else 1.0
        return RateAndMomentum(_arc(start, 1.0, part), _arc(high, low, part))
    part = min((step - turn) / max(total_steps - 1 - turn, 1e-9), 1.0)
    return RateAndMomentum(_arc(1.0, start / final_divisor, part), _arc(low, high, part))


def _arc(start: float, end: float, part: float) -> float:
    """Value on half a cosine from `start` to `end`."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))
