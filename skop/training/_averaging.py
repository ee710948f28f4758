"""Exponential moving average of weights."""

import torch
from torch import nn

__all__ = ["WeightAverage"]


class WeightAverage:
    """Running average of a network's weights, with a start-up correction.

    The decay grows from 0 towards its value over the first steps, so that early, bad weights are
    forgotten: with t steps taken it is ``min(decay, (1 + t) / (10 + t))``.

    Parameters
    ----------
    network : Module
        Its parameters are followed; buffers are not.
    decay : float
        Between 0 and 1, of one step.

    Attributes
    ----------
    mean : list of Tensor
        The average of each parameter, in the network's order; while swapped, the live weights.
    steps : int
        Updates so far.
    is_swapped : bool
        Whether the network holds the average at present.

    References
    ----------
    Polyak & Juditsky, "Acceleration of stochastic approximation by averaging", SIAM J. Control Optim. 30 (1992).

    Examples
    --------
    >>> import torch
    >>> from skop.training import WeightAverage
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
        """Take the current weights into the average."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self.mean, self.live, 1 - decay)
        self.steps += 1

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the network's weights and the average; calling it again puts them back."""
        for live, mean in zip(self.live, self.mean, strict=True):
            held = live.clone()
            live.copy_(mean)
            mean.copy_(held)
        self.is_swapped = not self.is_swapped
