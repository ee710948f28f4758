"""How far a training is, and the learning rate that belongs there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from skop.training._config import TrainerConfig
from skop.training._continuation import EarlierTraining
from skop.training._distributed import Group
from skop.training._schedule import schedule_at
from skop.training._state import TrainingState

__all__ = ["TrainingClock"]

#: Larger rates overflow single precision; a training with one of this size diverges all the same.
_LARGEST_RATE = 1e30


class TrainingClock:
    """Say how far a training is, by its steps or by its time, and set the learning rate that belongs there."""

    def __init__(self, state: TrainingState, options: TrainerConfig, earlier: EarlierTraining, group: Group) -> None:
        self.state, self.options, self.earlier, self.group = state, options, earlier, group
        self.epoch_steps = self.total_steps = 0
        # Factor on the learning rate, and number of times that it was halved.
        self.rate_factor, self.rollbacks = 1.0, 0
        # Seconds of earlier runs, and the start time of the current run, if one is in progress.
        self.elapsed = 0.0
        self.start: float | None = None
        # Seconds of the parts of the untimed pass that are still to be counted, and of each part when it last ran.
        self.untimed: dict[str, float] = {}
        self.last = {"step": 0.0, "epoch": 0.0}
        #: Seconds of what follows the training within the time limit.
        self.after = 0.0

    def count(self, n_samples: int) -> None:
        """Count the steps of a training with so many samples."""
        n_groups = n_samples // self.options.group_size
        self.epoch_steps = -(-n_groups // self.options.batch_size)
        self.total_steps = self.options.max_iter * self.epoch_steps

    def begin(self) -> None:
        """Begin a run."""
        self.start = self.group.time()

    def stop(self) -> None:
        """End the run."""
        self.elapsed, self.start = self.seconds, None

    @property
    def seconds(self) -> float:
        """Duration of the training, earlier runs included."""
        # Of several processes the time is that at which they last met.
        return self.elapsed + (0.0 if self.start is None else self.group.time() - self.start)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Note how long a step, or the end of an epoch, takes; before the run it is that of the untimed pass."""
        before = self.group.time()
        yield
        seconds = self.group.time() - before
        if self.start is None:
            self.untimed[part] = seconds
        else:
            # The untimed pass took as long, but for what it compiled, which does not count.
            self.elapsed += min(self.untimed.pop(part, 0.0), seconds)
            self.last[part] = seconds

    @property
    def limit(self) -> float:
        """Seconds for steps: the end of an epoch and what follows the training are left out, up to half of the time."""
        most = math.inf if self.options.max_time is None else self.options.max_time
        return max(most - self.last["epoch"] - self.after, most / 2)

    @property
    def is_over(self) -> bool:
        """Whether another step would end after the time limit."""
        return self.seconds + self.last["step"] > self.limit

    @property
    def progress(self) -> float:
        """Completed fraction of the training, by steps or by time, whichever is larger."""
        return self.part(self.state.step / self.total_steps)

    def part(self, of_epochs: float) -> float:
        """Completed fraction of the epochs, which is given, or of the time limit, whichever is larger."""
        return min(max(of_epochs, self.seconds / self.limit), 1.0)

    def set_rate(self) -> None:
        """Set the learning rate and the momentum of the optimiser by the schedule."""
        options, place = self.options, self._place()
        total = self.earlier.epochs * self.epoch_steps + self.total_steps
        step = place * total
        if options.training.schedule_interval == "epoch":
            # The place is a quotient of integers, so a value that is below a whole epoch by a rounding error has
            # reached it.
            total = self.earlier.epochs + options.max_iter
            step = math.floor(place * total + 1e-6)
        training = options.training
        now = schedule_at(training.schedule, step, total, training.warmup_fraction, training.one_cycle)
        for group in self.state.optimizer.param_groups:
            group["lr"] = min(options.learning_rate * now.rate * self.rate_factor, _LARGEST_RATE)
            if now.momentum is not None:
                if "betas" in group:
                    group["betas"] = (now.momentum, group["betas"][1])
                else:
                    group["momentum"] = now.momentum

    def halve_rate(self) -> None:
        """Halve the learning rate from now on, after the training has gone back."""
        self.rate_factor, self.rollbacks = self.rate_factor / 2, self.rollbacks + 1

    def rate_dict(self) -> dict[str, Any]:
        """Return the factor on the learning rate as part of a checkpoint."""
        return {"rate_factor": self.rate_factor, "rollbacks": self.rollbacks}

    def load_rate_dict(self, state: dict[str, Any]) -> None:
        """Take the factor of a checkpoint."""
        self.rate_factor, self.rollbacks = state["rate_factor"], state["rollbacks"]

    def _place(self) -> float:
        """Place in the schedule, from 0 to 1, which is longer by the earlier training."""
        before = self.earlier
        steps = before.epochs * self.epoch_steps
        part = (steps + self.state.step) / (steps + self.total_steps)
        return min(max(part, (before.seconds + self.seconds) / (before.seconds + self.limit)), 1.0)
