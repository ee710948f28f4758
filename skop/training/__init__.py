"""The training loop and its parts."""

from skop.training._averaging import WeightAverage
from skop.training._loop import History, Trainer, TrainingOptions
from skop.training._progress import ProgressLine
from skop.training._schedule import SCHEDULES, RateAndMomentum, schedule_at

__all__ = [
    "SCHEDULES",
    "History",
    "ProgressLine",
    "RateAndMomentum",
    "Trainer",
    "TrainingOptions",
    "WeightAverage",
    "schedule_at",
]
