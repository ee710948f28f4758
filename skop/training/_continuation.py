"""Continuing a training that has ended: its place in the schedule, the optimiser's moments and the weight average."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from skop._typing import IntArray
from skop.training._averaging import WeightAverage

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

    @classmethod
    @torch.no_grad()
    def of(
        cls, network: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage | None, rate_factor: float
    ) -> TrainingEnd:
        """Copy the state of a training, before its final weights are put into the network.

        Parameters
        ----------
        network : Module
            Network with the weights of the last step.
        optimizer : Optimizer
            Optimiser of its parameters.
        average : WeightAverage or None
            Average of its parameters.
        rate_factor : float
            Factor on the learning rate.

        Returns
        -------
        TrainingEnd
            The state, without a fingerprint.
        """
        names: dict[torch.Tensor, str] = {held: name for name, held in network.named_parameters()}
        return cls(
            {name: held.detach().clone() for name, held in network.state_dict().items()},
            type(optimizer).__name__,
            {
                names[held]: {kind: value.clone() for kind, value in own.items()}
                for held, own in optimizer.state.items()
            },
            None if average is None else [mean.clone() for mean in average.mean],
            0 if average is None else average.steps,
            rate_factor,
        )

    @torch.no_grad()
    def restore(self, network: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage | None) -> None:
        """Put the state, which is not modified, into a training that has not begun.

        Without an average before or now, the network keeps its weights, and the average starts from them. Another
        optimiser starts with moments of its own.

        Parameters
        ----------
        network : Module
            Network of the same structure.
        optimizer : Optimizer
            Optimiser of its parameters.
        average : WeightAverage or None
            Average of its parameters.
        """
        if (average is None) == (self.mean is None):
            network.load_state_dict(self.weights)
        if average is not None and self.mean is not None:
            torch._foreach_copy_(average.mean, [mean.to(average.mean[0].device) for mean in self.mean])
            average.steps = self.average_steps
        for name, held in network.named_parameters():
            if name in self.moments and type(optimizer).__name__ == self.optimizer:
                # The optimiser counts its steps on the CPU or on the device, as its kernels ask for.
                own: dict[str, Any] = self.moments[name]
                optimizer.state[held] = {kind: value.to(held.device, copy=True) for kind, value in own.items()}


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

    def has_held_out(self, samples: IntArray) -> bool:
        """Whether it was validated on these samples."""
        return self.held_out is not None and np.array_equal(self.held_out, samples)


def fingerprint(network: nn.Module) -> int:
    """Compute a checksum of the weights and buffers of a network.

    Parameters
    ----------
    network : Module
        Any network.

    Returns
    -------
    int
        Checksum, the same on every device.

    Examples
    --------
    >>> import torch
    >>> from skop.training import fingerprint
    >>> layer = torch.nn.Linear(2, 1)
    >>> before = fingerprint(layer)
    >>> with torch.no_grad():
    ...     layer.bias += 1
    >>> fingerprint(layer) == before
    False
    """
    total = 0
    for held in network.state_dict().values():
        total = zlib.crc32(held.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy(), total)
    return total
