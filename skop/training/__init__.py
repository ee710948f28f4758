"""The training loop: schedules, weight averaging (EMA), early stopping, checkpoints, continued trainings, progress."""

import skop._openmp  # noqa: F401 - before anything that imports torch
from skop.training._averaging import WeightAverage
from skop.training._continuation import EarlierTraining, TrainingEnd, fingerprint
from skop.training._distributed import Group, join_group, local_rank
from skop.training._loop import History, Trainer, TrainerConfig, naming_memory
from skop.training._monitors import Monitor, Validation
from skop.training._optimizer import OPTIMIZERS, Muon, make_optimizer, orthogonalized
from skop.training._order import epoch_rounds
from skop.training._parts import can_be_split, split_batch
from skop.training._plan import DIRECT_TRAINING, TrainingPlan
from skop.training._progress import ProgressLine, in_words
from skop.training._schedule import ONE_CYCLE, SCHEDULES, RateAndMomentum, schedule_at
from skop.training._timing import EpochCost, measure_epoch

__all__ = [
    "DIRECT_TRAINING",
    "ONE_CYCLE",
    "OPTIMIZERS",
    "SCHEDULES",
    "EarlierTraining",
    "EpochCost",
    "Group",
    "History",
    "Monitor",
    "Muon",
    "ProgressLine",
    "RateAndMomentum",
    "Trainer",
    "TrainerConfig",
    "TrainingEnd",
    "TrainingPlan",
    "Validation",
    "WeightAverage",
    "can_be_split",
    "epoch_rounds",
    "fingerprint",
    "in_words",
    "join_group",
    "local_rank",
    "make_optimizer",
    "measure_epoch",
    "naming_memory",
    "orthogonalized",
    "schedule_at",
    "split_batch",
]
