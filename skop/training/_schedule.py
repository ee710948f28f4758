"""Learning-rate schedules as functions of progress.

A schedule is asked at a step of a total, and the total may be known only as a fraction of a time
budget, so steps are real numbers here.
"""

import math
from dataclasses import dataclass

__all__ = ["SCHEDULES", "RateAndMomentum", "schedule_at"]

SCHEDULES = ("one_cycle", "cosine", "constant")

# PyTorch's defaults of OneCycleLR, which the published scripts use.
_ONE_CYCLE_WARMUP = 0.3
_ONE_CYCLE_START = 1 / 25
_ONE_CYCLE_END = 1 / 25 / 1e4
_ONE_CYCLE_MOMENTA = (0.95, 0.85)


@dataclass(frozen=True)
class RateAndMomentum:
    """What a schedule asks for.

    Attributes
    ----------
    rate : float
        Factor on the peak learning rate.
    momentum : float or None
        First beta of Adam; None leaves it alone.
    """

    rate: float
    momentum: float | None = None


def schedule_at(name: str, step: float, total_steps: float, warmup_fraction: float = 0.05) -> RateAndMomentum:
    """Evaluate a schedule.

    Parameters
    ----------
    name : {"one_cycle", "cosine", "constant"}
        ``"one_cycle"`` equals PyTorch's OneCycleLR with its defaults, momentum included: 30 % of the
        steps from 1/25 up to the peak, then down to 1/250000. ``"cosine"`` warms up linearly and
        falls to zero. ``"constant"`` only warms up.
    step, total_steps : float
        Where training is, from 0 to total_steps - 1.
    warmup_fraction : float, default=0.05
        Part of the steps that ``"cosine"`` and ``"constant"`` warm up for.

    Returns
    -------
    RateAndMomentum
        Factor on the peak rate, and momentum.

    References
    ----------
    Smith & Topin, "Super-Convergence", arXiv:1708.07120.

    Examples
    --------
    >>> from skop.training import schedule_at
    >>> schedule_at("constant", 50, 100).rate
    1.0
    """
    if name == "one_cycle":
        return _one_cycle(step, total_steps)
    warmup = warmup_fraction * total_steps
    if step < warmup:
        return RateAndMomentum((step + 1) / (warmup + 1))
    if name == "constant":
        return RateAndMomentum(1.0)
    part = (step - warmup) / max(total_steps - warmup, 1)
    return RateAndMomentum(0.5 * (1 + math.cos(math.pi * min(part, 1.0))))


def _one_cycle(step: float, total_steps: float) -> RateAndMomentum:
    """Two cosine arcs, up and down."""
    turn = _ONE_CYCLE_WARMUP * total_steps - 1
    high, low = _ONE_CYCLE_MOMENTA
    if step <= turn:
        part = step / turn if turn > 0 else 1.0
        return RateAndMomentum(_arc(_ONE_CYCLE_START, 1.0, part), _arc(high, low, part))
    part = min((step - turn) / max(total_steps - 1 - turn, 1e-9), 1.0)
    return RateAndMomentum(_arc(1.0, _ONE_CYCLE_END, part), _arc(low, high, part))


def _arc(start: float, end: float, part: float) -> float:
    """Half a cosine from start to end."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))
