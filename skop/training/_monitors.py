"""Monitors of a training: they are told of its steps and epochs, and may end it or change its samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skop.data import FieldLoader

if TYPE_CHECKING:
    from skop.training._loop import Trainer

__all__ = ["Monitor", "Validation"]


class Monitor:
    """What watches a training; a subclass defines the methods that it needs.

    A trainer calls its monitors in their order. In `epoch` and `review` the network holds the averaged weights, if
    there are any. Processes that train together call each monitor alike.

    Attributes
    ----------
    watches_steps : bool
        Whether `step` is called.
    """

    watches_steps: bool = False

    def start(self, trainer: Trainer) -> None:
        """Look at the weights before the first epoch.

        Parameters
        ----------
        trainer : Trainer
            Training.
        """

    def rehearse(self, trainer: Trainer) -> None:
        """Do the work of an epoch without any effect, so that what it needs is compiled.

        Parameters
        ----------
        trainer : Trainer
            Training.
        """

    def step(self, part: float) -> None:
        """Take note of a step.

        Parameters
        ----------
        part : float
            Completed fraction of the training, from 0 to 1.
        """

    def epoch(self, trainer: Trainer) -> str | None:
        """Look at the training after an epoch.

        Parameters
        ----------
        trainer : Trainer
            Training.

        Returns
        -------
        str or None
            Reason to end the training, such as ``"early_stopping"``; of several the last one counts. The end of the
            time limit comes before all of them but ``"callback"``.
        """
        return None

    def review(self, trainer: Trainer) -> str | FieldLoader | None:
        """Change a training that goes on; called after `epoch`, but not after the last one.

        Parameters
        ----------
        trainer : Trainer
            Training.

        Returns
        -------
        str, FieldLoader or None
            Reason to end the training, the samples with which it goes on, or None where nothing changes. With other
            samples the learning rate stays at its place in the schedule.
        """
        return None

    def end(self, trainer: Trainer) -> None:
        """Look at the final weights, which the network holds now, and may put others in their place.

        Parameters
        ----------
        trainer : Trainer
            Training.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed training needs, as nested dicts and lists of numbers and arrays."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned.

        Parameters
        ----------
        state : dict
            State.
        """


class Validation(Monitor):
    """Validate after each epoch, keep the best weights, and end a training that makes no progress.

    Parameters
    ----------
    error : callable
        Function without arguments that returns the validation error of the current weights.
    n_iter_no_change : int or None, default=None
        Number of epochs without progress after which training stops early; None does not stop it.
    tol : float, default=0.0
        Smallest decrease of the error that counts as progress.
    at_start : bool, default=False
        Whether the weights at the start are validated too, and kept if no epoch has a smaller error.
    """

    def __init__(
        self,
        error: Callable[[], float],
        *,
        n_iter_no_change: int | None = None,
        tol: float = 0.0,
        at_start: bool = False,
    ) -> None:
        self.error, self.n_iter_no_change, self.tol, self.at_start = error, n_iter_no_change, tol, at_start
        #: Error of the weights at the start, where these are validated.
        self.before: list[float] = []

    def start(self, trainer: Trainer) -> None:
        """Validate the weights at the start, if this is asked for."""
        if self.at_start:
            self.before = [self._validate(trainer)]

    def rehearse(self, trainer: Trainer) -> None:
        """Validate once."""
        trainer.network.eval()
        trainer.group.once(self.error)

    def epoch(self, trainer: Trainer) -> str | None:
        """Validate, and stop if the error did not fall by `tol` within the last `n_iter_no_change` epochs."""
        trainer.history.validation_errors.append(self._validate(trainer))
        errors, patience = [*self.before, *trainer.history.validation_errors], self.n_iter_no_change
        if patience is None or len(errors) <= patience:
            return None
        stalls = min(errors[-patience:]) > min(errors[:-patience]) - self.tol
        return "early_stopping" if stalls else None

    def _validate(self, trainer: Trainer) -> float:
        """Return the error of the weights, and have them kept if they are the best so far."""
        trainer.network.eval()
        error = trainer.group.once(self.error)
        trainer.keep_if_best(error)
        return error

    def state_dict(self) -> dict[str, Any]:
        """Return the error of the weights at the start."""
        return {"before": list(self.before)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from this error."""
        self.before = list(state["before"])
