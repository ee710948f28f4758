"""The training loop and its parts."""

from skop.training._averaging import WeightAverage
from skop.training._loop import History, Trainer, TrainingOptions
from skop.training._memory import freed_memory_kept
from skop.training._order import epoch_rounds
from skop.training._plan import DIRECT_TRAINING, TrainingPlan
from skop.training._progress import ProgressLine
from skop.training._schedule import SCHEDULES, RateAndMomentum, schedule_at

__all__ = [
    "DIRECT_TRAINING",
    "SCHEDULES",
    "History",
    "ProgressLine",
    "RateAndMomentum",
    "Trainer",
    "TrainingOptions",
    "TrainingPlan",
    "WeightAverage",
    "epoch_rounds",
    "freed_memory_kept",
    "schedule_at",
]
