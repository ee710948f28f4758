"""Exponential moving average (EMA) of the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["WeightAverage"]


class WeightAverage:
    """Exponential moving average (EMA) of a network's weights.

    In the first steps the decay is smaller, so that the initial weights are soon forgotten: after t steps it is
    ``min(decay, (1 + t) / (10 + t))``.

    Parameters
    ----------
    network : Module
        Network whose parameters are averaged; buffers are not.
    decay : float
        Factor on the average in one step, between 0 and 1.

    Attributes
    ----------
    mean : list of Tensor
        Average of each parameter, in the network's order; while swapped, the current weights.
    steps : int
        Number of updates so far.
    is_swapped : bool
        Whether the network holds the averaged weights at present.

    References
    ----------
    Polyak & Juditsky, "Acceleration of stochastic approximation by averaging", SIAM J. Control Optim. 30 (1992).

    Examples
    --------
    >>> import torch
    >>> from skop.training._averaging import WeightAverage
    >>> layer = torch.nn.Linear(1, 1)
    >>> average = WeightAverage(layer, 0.9)
    >>> average.update()
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay, self.steps, self.is_swapped = decay, 0, False
        self.live: list[torch.Tensor] = list(network.parameters())
        self.mean = [parameter.detach().clone() for parameter in self.live]

    @torch.no_grad()
    def update(self) -> None:
        """Update the average with the current weights."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self.mean, self.live, 1 - decay)
        self.steps += 1

    def swap(self) -> None:
        """Exchange the network's weights and the average, without a copy; a second call reverses it."""
        for number, live in enumerate(self.live):
            live.data, self.mean[number] = self.mean[number], live.data
        self.is_swapped = not self.is_swapped

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Exchange the network's weights and the average within the block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()
