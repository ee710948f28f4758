"""How a training departs from one network call and one loss for each sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from skop.data import Batch
from skop.training._order import Grouping

__all__ = ["DIRECT_TRAINING", "TrainingPlan"]


@dataclass(frozen=True)
class TrainingPlan:
    """What time steppers change in a training.

    Attributes
    ----------
    group_size : int
        Successive samples that belong together, such as the steps of one trajectory. A batch size then counts
        groups.
    grouping : {"together", "spread"}
        A batch holds whole groups; or successive batches visit the members of the same groups, see `epoch_rounds`.
    forward : callable or None
        ``forward(network, batch)`` gives the outputs for the targets of the batch, in training alone; None
        calls the network on the batch.
    """

    group_size: int = 1
    grouping: Grouping = "together"
    forward: Callable[[nn.Module, Batch], Any] | None = None


#: One network call for each batch of independent samples.
DIRECT_TRAINING = TrainingPlan()
