"""Continuing a training that has ended: its place in the schedule, the optimiser's moments and the weight average."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from skop._typing import IntArray

__all__ = ["EarlierTraining", "TrainingEnd", "fingerprint"]


@dataclass(frozen=True)
class TrainingEnd:
    """State of a training after its last step, from which another training continues; all tensors are copies.

    Attributes
    ----------
    weights : dict of str to Tensor
        Weights and buffers after the last step, by name. The network itself may hold averaged or earlier weights.
    optimizer : str
        Class of the optimiser.
    moments : dict of str to dict
        State of the optimiser for each parameter that has one, by its name.
    mean : list of Tensor or None
        Exponential moving average (EMA) of the parameters; None if there was none.
    average_steps : int
        Number of updates of the average.
    rate_factor : float
        Factor on the learning rate, which is smaller than 1 after a diverging loss.
    fingerprint : int
        Checksum of the final weights of the network, see `fingerprint`.
    """

    weights: dict[str, torch.Tensor]
    optimizer: str
    moments: dict[str, dict[str, torch.Tensor]]
    mean: list[torch.Tensor] | None
    average_steps: int
    rate_factor: float
    fingerprint: int = 0


@dataclass(frozen=True)
class EarlierTraining:
    """What a training continues: the same network's training so far.

    Attributes
    ----------
    epochs : int
        Number of epochs so far. The learning rate schedule is that of a single training of these epochs and those that
        follow, at its present place.
    seconds : float
        Duration so far. With a time limit, the schedule is that of these seconds and those that follow.
    end : TrainingEnd or None
        State after the last step; None starts from the weights of the network, with new moments and a new average.
    held_out : ndarray of int or None
        Indices of the samples on which it was validated.
    """

    epochs: int = 0
    seconds: float = 0.0
    end: TrainingEnd | None = None
    held_out: IntArray | None = None

    def end_of(self, network: nn.Module) -> TrainingEnd | None:
        """State from which a network goes on; None if the caller has changed its weights, and goes on from these."""
        goes_on = self.end is not None and self.end.fingerprint == fingerprint(network)
        return self.end if goes_on else None

    def has_held_out(self, samples: IntArray) -> bool:
        """Whether it was validated on these samples."""
        return self.held_out is not None and np.array_equal(self.held_out, samples)


def fingerprint(network: nn.Module) -> int:
    """Compute a checksum of the weights and buffers of a network, which is the same on every device."""
    total = 0
    for held in network.state_dict().values():
        total = zlib.crc32(held.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy(), total)
    return total
