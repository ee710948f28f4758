"""Changes to the training loop for data in time, such as several network calls for one trajectory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from skop._typing import IntArray
from skop.data import Batch
from skop.training._order import Grouping

__all__ = ["DIRECT_TRAINING", "TrainingPlan"]


@dataclass(frozen=True)
class TrainingPlan:
    """Settings by which estimators for data in time change the training loop.

    Attributes
    ----------
    group_size : int
        Number of successive samples that form a group, such as the steps of one trajectory. The batch size then counts
        groups.
    grouping : {"together", "spread"}
        Whether a batch holds whole groups, or successive batches visit the samples of the same groups, see
        `epoch_rounds`.
    forward : callable or None
        Function ``forward(network, batch)`` that computes the outputs in training; None calls the network on the batch.
    n_steps : int or None
        Number of successive samples that are parts of one trajectory; None if samples are independent.
    feeds_back : bool
        Whether predictions become inputs of the next step.
    last_frame : int or None
        Number of the first channel of the frame before the targets among those of the inputs, if networks learn the
        change since this frame; None if they learn the targets.
    """

    group_size: int = 1
    grouping: Grouping = "together"
    forward: Callable[[nn.Module, Batch], Any] | None = None
    n_steps: int | None = None
    feeds_back: bool = False
    last_frame: int | None = None

    def runs(self, n_samples: int) -> IntArray | None:
        """Return the number of the run of each sample; None if samples are independent, or all of one run."""
        return None if self.n_steps is None or n_samples <= self.n_steps else np.arange(n_samples) // self.n_steps


#: The usual training: independent samples, and one network call for each batch.
DIRECT_TRAINING = TrainingPlan()
