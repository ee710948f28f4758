"""The training loop: learning rate schedules, weight averaging (EMA), early stopping, checkpoints and progress bar."""

import skop._openmp  # noqa: F401 - before anything that imports torch
from skop.training._averaging import WeightAverage
from skop.training._loop import History, Trainer, TrainerConfig
from skop.training._order import epoch_rounds
from skop.training._plan import DIRECT_TRAINING, TrainingPlan
from skop.training._progress import ProgressLine
from skop.training._schedule import ONE_CYCLE, SCHEDULES, RateAndMomentum, schedule_at

__all__ = [
    "DIRECT_TRAINING",
    "ONE_CYCLE",
    "SCHEDULES",
    "History",
    "ProgressLine",
    "RateAndMomentum",
    "Trainer",
    "TrainerConfig",
    "TrainingPlan",
    "WeightAverage",
    "epoch_rounds",
    "schedule_at",
]
