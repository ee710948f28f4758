"""Settings of a training, and its record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch

from skop.training._order import Grouping
from skop.training._schedule import ONE_CYCLE

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
    schedule : str
        Name of the learning rate schedule, see `schedule_at`.
    warmup_fraction : float
        Fraction of the steps in which the learning rate rises to its peak.
    one_cycle : tuple of three floats
        Shape of the schedule ``"one_cycle"``, see `schedule_at`.
    optimizer : {"muon", "adamw"}
        Optimiser, see `make_optimizer`.
    weight_decay : float
        Decoupled weight decay.
    decay_bias_and_norm : bool
        Whether weight decay also applies to biases, normalisations, decay rates and positions. These are all parameters
        of one axis, and those of more axes that a module lists in its attribute ``no_weight_decay``, a tuple of names.
    beta_2 : float
        Decay of AdamW's running mean of squared gradients.
    max_grad_norm : float or None
        Norm to which larger gradients are clipped; None does not clip.
    max_time : float or None
        Time limit in seconds; the learning rate schedule then follows the time. The clock starts after one untimed
        pass, in which kernels are compiled.
    ema_decay : float or None
        Decay of the exponential moving average (EMA) of the weights; None does not average.
    autocast : torch.dtype or None
        Precision of the matrix products in mixed-precision training; None disables it.
    schedule_interval : {"step", "epoch"}
        Interval at which the learning rate is updated.
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
    optimizer: Literal["muon", "adamw"] = "muon"
    schedule: str = "cosine"
    warmup_fraction: float = 0.05
    weight_decay: float = 0.0
    decay_bias_and_norm: bool = True
    beta_2: float = 0.999
    max_grad_norm: float | None = None
    max_time: float | None = None
    ema_decay: float | None = None
    autocast: torch.dtype | None = None
    schedule_interval: Literal["step", "epoch"] = "step"
    one_cycle: tuple[float, ...] = ONE_CYCLE
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
