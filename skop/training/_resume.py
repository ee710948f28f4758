"""Training that a process which ends leaves behind, and another one resumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skop.training._clock import TrainingClock
from skop.training._state import RandomStates

__all__ = ["Keeper", "ResumePoint"]


class Keeper(Protocol):
    """What keeps the states of a training, so that it can be resumed when the process has ended.

    Attributes
    ----------
    is_called_off : bool
        Whether the training is to leave the epoch that it is in and to call `leave`.
    """

    is_called_off: bool

    def after_epoch(self, state: Callable[[], dict[str, Any]]) -> None:
        """Keep the state that the function returns, if it is time to; called after each epoch but the last."""

    def keep(self, state: dict[str, Any]) -> None:
        """Keep the state after the last complete epoch of a training that ends before its time."""

    def leave(self) -> None:
        """End the process; the training goes on if this returns."""


class ResumePoint:
    """End of the last complete epoch, from which a training that is called off is resumed; without a keeper nothing."""

    def __init__(self, keeper: Keeper | None, clock: TrainingClock, random: RandomStates) -> None:
        self.keeper, self.clock, self.random = keeper, clock, random
        # What belongs to the epoch beside the copy of the state, and its number.
        self.beside: dict[str, Any] = {}
        self.n_epochs = 0

    def mark(self, n_epochs: int) -> None:
        """Note that so many epochs are complete."""
        if self.keeper is not None:
            self.beside = self.clock.rate_dict() | {"random": self.random.state_dict()}
            self.n_epochs = n_epochs

    def keep(self, n_epochs: int, state: Callable[[], dict[str, Any]]) -> None:
        """Have the state after the last good epoch kept, to which the training has gone back."""
        # Between the end of an epoch and that of what follows it the history is ahead of the copy.
        if self.keeper is not None and 0 < self.n_epochs == n_epochs:
            self.keeper.keep(state() | self.beside)

    def leave(self) -> None:
        """End the process; if it goes on, the training does so from here."""
        if self.keeper is not None:
            self.keeper.leave()
            self.clock.load_rate_dict(self.beside)
            self.random.load_state_dict(self.beside["random"])
