"""Settings of a training, and its record."""

from __future__ import annotations

from dataclasses import dataclass, field

from skop.training._options import TrainingOptions
from skop.training._order import Grouping

__all__ = ["History", "TrainerConfig"]


@dataclass(frozen=True)
class TrainerConfig:
    """Settings of a training.

    Attributes
    ----------
    max_iter, batch_size : int
        Largest number of epochs, and number of samples (or groups of samples) of a mini-batch.
    learning_rate : float
        Peak learning rate.
    training : TrainingOptions
        Further parameters, with which an estimator shares them.
    weight_decay : float
        Decoupled weight decay.
    max_time : float or None
        Time limit in seconds, in which the last validation and what follows the training are done too; the learning
        rate schedule then follows the time. What one pass before the training takes to compile kernels does not count.
    group_size, grouping : int, {"together", "spread"}
        Number of successive samples that form a group, and the way in which batches are made of groups, see
        `epoch_rounds`. The learning rate is updated once per round.
    keep_end : bool
        Whether `Trainer.end` holds the state after the last step, from which another training can continue. It takes
        up to four times the memory of the weights.
    """

    max_iter: int
    batch_size: int
    learning_rate: float
    training: TrainingOptions = field(default_factory=TrainingOptions)
    weight_decay: float = 0.0
    max_time: float | None = None
    group_size: int = 1
    grouping: Grouping = "together"
    keep_end: bool = False


@dataclass
class History:
    """Record of a training.

    Attributes
    ----------
    loss_curve : list of float
        Mean training loss of each epoch.
    validation_errors : list of float
        Validation error after each epoch; empty without a validation part.
    seconds : list of float
        Time from the start of the training to the end of each epoch.
    best_iter : int
        Epoch, counted from 1, whose weights were kept; 0 if a continued training found no better weights than those
        from which it started.
    stopped : str
        Reason why training ended: ``"max_iter"``, ``"max_time"``, ``"early_stopping"``, ``"callback"``,
        ``"interrupted"``, or what a monitor gave as its reason.
    first_loss : float or None
        Training loss of the first step, of the weights at the start.
    """

    loss_curve: list[float] = field(default_factory=list)
    validation_errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    best_iter: int = 0
    stopped: str = "max_iter"
    first_loss: float | None = None
