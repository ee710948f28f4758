"""The training loop: schedules, weight averaging (EMA), early stopping, checkpoints, continued trainings, progress.

All names are for the other packages of skop; users have `skop.TrainingOptions`.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.training._config import History as History
from skop.training._config import TrainerConfig as TrainerConfig
from skop.training._continuation import EarlierTraining as EarlierTraining
from skop.training._continuation import TrainingEnd as TrainingEnd
from skop.training._continuation import fingerprint as fingerprint
from skop.training._distributed import Group as Group
from skop.training._distributed import join_group as join_group
from skop.training._distributed import local_rank as local_rank
from skop.training._loop import Trainer as Trainer
from skop.training._memory import naming_memory as naming_memory
from skop.training._monitors import Monitor as Monitor
from skop.training._monitors import Validation as Validation
from skop.training._options import TrainingOptions as TrainingOptions
from skop.training._outcome import warn_of_interrupt as warn_of_interrupt
from skop.training._outcome import weights_dropped as weights_dropped
from skop.training._plan import DIRECT_TRAINING as DIRECT_TRAINING
from skop.training._plan import TrainingPlan as TrainingPlan
from skop.training._progress import ProgressLine as ProgressLine
from skop.training._progress import in_words as in_words
from skop.training._progress import is_watched as is_watched
from skop.training._state import copied as copied
from skop.training._timing import EpochCost as EpochCost
from skop.training._timing import measure_epoch as measure_epoch

__all__: list[str] = []
