"""The training loop: epochs of batches, a schedule, best weights, recovery from a diverging loss."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from skop.data import Batch, FieldLoader
from skop.exceptions import SkopWarning, TrainingDivergedError
from skop.training._averaging import WeightAverage
from skop.training._order import Grouping, epoch_rounds
from skop.training._schedule import schedule_at

__all__ = ["History", "Trainer", "TrainingOptions"]

#: How often a diverging fit is taken back to its last good epoch, at half the rate each time.
_MAX_ROLLBACKS = 2


@dataclass(frozen=True)
class TrainingOptions:
    """Numbers that steer a training.

    Attributes
    ----------
    max_iter, batch_size : int
        Epochs at most, and samples of a step, or groups of them.
    learning_rate : float
        Peak rate of AdamW.
    schedule : str
        Name of the schedule, see `schedule_at`.
    warmup_fraction : float
        Part of the steps that warm up.
    weight_decay : float
        Of AdamW.
    decay_vectors : bool
        Whether biases, norms and other vectors decay too, and not only matrices.
    beta_2 : float
        Decay of AdamW's mean of squared gradients.
    clip_norm : float or None
        Largest norm of the gradient.
    max_time : float or None
        Seconds at most; the schedule then follows the time.
    weight_averaging : float or None
        Decay of the running average of the weights.
    n_iter_no_change : int or None
        Epochs without progress before stopping early; None never does.
    tol : float
        Fall of the error that counts as progress.
    autocast : torch.dtype or None
        Type of mixed precision.
    schedule_interval : {"step", "epoch"}
        Whether the schedule moves with every step, or stays through an epoch.
    group_size, grouping : int, {"together", "spread"}
        Successive samples that belong together, and how batches take them, see `epoch_rounds`. The schedule moves
        once a round.
    """

    max_iter: int
    batch_size: int
    learning_rate: float
    schedule: str = "cosine"
    warmup_fraction: float = 0.05
    weight_decay: float = 0.0
    decay_vectors: bool = True
    beta_2: float = 0.999
    clip_norm: float | None = None
    max_time: float | None = None
    weight_averaging: float | None = None
    n_iter_no_change: int | None = None
    tol: float = 0.0
    autocast: torch.dtype | None = None
    schedule_interval: Literal["step", "epoch"] = "step"
    group_size: int = 1
    grouping: Grouping = "together"


@dataclass
class History:
    """What happened in a training.

    Attributes
    ----------
    loss_curve : list of float
        Mean training loss of each epoch.
    validation_errors : list of float
        Validation error after each epoch; empty without a validation part.
    seconds : list of float
        Time since the start at the end of each epoch.
    best_iter : int
        Epoch, from 1, whose weights were kept.
    stopped : str
        Why training ended: ``"max_iter"``, ``"max_time"``, ``"early_stopping"``, ``"callback"`` or ``"interrupted"``.
    """

    loss_curve: list[float] = field(default_factory=list)
    validation_errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    best_iter: int = 0
    stopped: str = "max_iter"


class Trainer:
    """Train a network on batches.

    Parameters
    ----------
    network : Module
        What is trained.
    loss : callable
        ``loss(outputs, batch)`` gives a scalar tensor.
    options : TrainingOptions
        Numbers.
    rng : numpy.random.RandomState
        Order of the samples.
    validate : callable or None, default=None
        Gives the validation error of the network as it stands; then the best weights are kept.
    on_epoch_end : callable or None, default=None
        Called with the history and the part of the training that is done; a true return stops.
    forward : callable or None, default=None
        ``forward(network, batch)`` gives the outputs; None is ``network(**batch.inputs())``.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Any, Batch], torch.Tensor],
        options: TrainingOptions,
        rng: np.random.RandomState,
        *,
        validate: Callable[[], float] | None = None,
        on_epoch_end: Callable[[History, float], bool] | None = None,
        forward: Callable[[nn.Module, Batch], Any] | None = None,
    ) -> None:
        self.network, self.loss, self.options, self.rng = network, loss, options, rng
        self.validate, self.on_epoch_end = validate, on_epoch_end
        self.forward = _call_network if forward is None else forward
        self.optimizer = torch.optim.AdamW(
            _decay_groups(network, options), lr=options.learning_rate, betas=(0.9, options.beta_2), fused=True
        )
        decay = options.weight_averaging
        self.average = None if decay is None else WeightAverage(network, decay)
        self.history = History()
        self.step, self.rate_factor, self.rollbacks = 0, 1.0, 0
        self.best_error = np.inf
        self.best_weights: dict[str, Any] | None = None

    # ------------------------------------------------------------------ the whole
    def run(self, loader: FieldLoader) -> History:
        """Train until the last epoch, the end of the time, or a reason to stop.

        Parameters
        ----------
        loader : FieldLoader
            Training samples.

        Returns
        -------
        History
            What happened; the network holds the weights to keep.

        Raises
        ------
        TrainingDivergedError
            If the loss is not finite again after two returns to the last good epoch.
        """
        self.start = time.perf_counter()
        n_groups = len(loader) // self.options.group_size
        self.total_steps = self.options.max_iter * -(-n_groups // self.options.batch_size)
        good = self._snapshot()
        try:
            while len(self.history.loss_curve) < self.options.max_iter:
                mean_loss = self._epoch(loader)
                if not (np.isfinite(mean_loss) and self._weights_finite()):
                    self._roll_back(good, mean_loss)
                    continue
                good = self._snapshot()
                if self._finish_epoch(mean_loss):
                    break
        except KeyboardInterrupt:
            self._restore(good)
            self.history.stopped = "interrupted"
            warnings.warn("training was interrupted; the best weights so far are kept.", SkopWarning, stacklevel=2)
        self._take_best()
        # Gradients of the last step are as large as the network, and a fitted network has no use for them.
        self.network.zero_grad(set_to_none=True)
        return self.history

    def _finish_epoch(self, mean_loss: float) -> bool:
        """Record an epoch, validate, and tell whether to stop."""
        history = self.history
        history.loss_curve.append(mean_loss)
        history.seconds.append(time.perf_counter() - self.start)
        if self.validate is not None:
            history.validation_errors.append(self._validation_error(self.validate))
        if self._out_of_time():
            history.stopped = "max_time"
        elif self._no_progress():
            history.stopped = "early_stopping"
        if self._callback_stops():
            history.stopped = "callback"
        return history.stopped != "max_iter"

    def _callback_stops(self) -> bool:
        """Run the callback on the weights that stopping now would keep, and tell whether it asks to stop."""
        if self.on_epoch_end is None:
            return False
        if self.average is None:
            return self.on_epoch_end(self.history, self._progress())
        self.average.swap()
        try:
            return self.on_epoch_end(self.history, self._progress())
        finally:
            self.average.swap()

    # ------------------------------------------------------------------ an epoch
    def _epoch(self, loader: FieldLoader) -> float:
        """One pass over the samples in random order; returns the mean loss."""
        self.network.train()
        # Sums stay on the device so that a GPU is not made to wait in every step.
        total, count = torch.zeros((), device=loader.device, dtype=torch.float64), 0
        for batch in self._epoch_batches(loader):
            total += self._train_step(batch) * len(batch)
            count += len(batch)
            if self._out_of_time():
                break
        return float(total) / count

    def _epoch_batches(self, loader: FieldLoader) -> Iterator[Batch]:
        """The batches of an epoch; the schedule moves on after each round of them."""
        options = self.options
        groups: dict[str, Any] = {"group_size": options.group_size, "grouping": options.grouping}
        for order, size in epoch_rounds(len(loader), options.batch_size, self.rng, **groups):
            yield from loader.batches(size, order)
            self.step += 1

    def _train_step(self, batch: Batch) -> torch.Tensor:
        """Forward, backward, clip, step; returns the loss."""
        self._set_rate()
        self.optimizer.zero_grad(set_to_none=True)
        autocast = self.options.autocast
        with torch.autocast(batch.coords.device.type, dtype=autocast, enabled=autocast is not None):
            outputs = self.forward(self.network, batch)
        loss = self.loss(outputs if autocast is None else _widened(outputs), batch)
        loss.backward()
        if self.options.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.options.clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        return loss.detach()

    def _set_rate(self) -> None:
        """Put the schedule's rate and momentum into the optimiser."""
        total = self.total_steps
        step = self._progress() * total
        if self.options.schedule_interval == "epoch":
            # Progress is a quotient of integers: what is a rounding below an epoch has reached it.
            total = self.options.max_iter
            step = math.floor(self._progress() * total + 1e-6)
        now = schedule_at(self.options.schedule, step, total, self.options.warmup_fraction)
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate * now.rate * self.rate_factor
            if now.momentum is not None:
                group["betas"] = (now.momentum, group["betas"][1])

    def _progress(self) -> float:
        """Part of the training that is done, by steps or by time, whichever is further."""
        part = self.step / self.total_steps
        if self.options.max_time is not None:
            part = max(part, (time.perf_counter() - self.start) / self.options.max_time)
        return min(part, 1.0)

    def _out_of_time(self) -> bool:
        """Whether the time budget is spent."""
        return self.options.max_time is not None and time.perf_counter() - self.start >= self.options.max_time

    # ------------------------------------------------------------------ best weights
    def _validation_error(self, validate: Callable[[], float]) -> float:
        """Validate, on averaged weights if there are any, and keep the weights if they are the best."""
        self.network.eval()
        if self.average is not None:
            self.average.swap()
        error = validate()
        if error < self.best_error or self.best_weights is None:
            self.best_error, self.history.best_iter = error, len(self.history.loss_curve)
            self.best_weights = copy.deepcopy(self.network.state_dict())
        if self.average is not None:
            self.average.swap()
        return error

    def _no_progress(self) -> bool:
        """Whether the error did not fall by `tol` within the last `n_iter_no_change` epochs."""
        errors, patience = self.history.validation_errors, self.options.n_iter_no_change
        if patience is None or len(errors) <= patience:
            return False
        return min(errors[-patience:]) > min(errors[:-patience]) - self.options.tol

    def _take_best(self) -> None:
        """Leave the weights to keep in the network: best, averaged, or last."""
        if self.best_weights is not None:
            self.network.load_state_dict(self.best_weights)
        else:
            self.history.best_iter = len(self.history.loss_curve)
            if self.average is not None:
                self.average.swap()
        self.network.eval()

    # ------------------------------------------------------------------ recovery
    def _weights_finite(self) -> bool:
        """Whether all weights are finite: a gradient can overflow where the loss does not."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.network.parameters())

    def _changing_tensors(self) -> list[torch.Tensor]:
        """Everything that an epoch changes in place: weights, buffers, averages, moments of the optimiser."""
        moments = [held for state in self.optimizer.state.values() for held in state.values() if torch.is_tensor(held)]
        return [*self.network.state_dict().values(), *(self.average.mean if self.average else []), *moments]

    def _snapshot(self) -> dict[str, Any]:
        """Copy what an epoch changes."""
        steps = 0 if self.average is None else self.average.steps
        return {"tensors": [held.clone() for held in self._changing_tensors()], "step": self.step, "averaged": steps}

    @torch.no_grad()
    def _restore(self, state: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        live = self._changing_tensors()
        if len(live) > len(state["tensors"]):
            # The snapshot is from before the first step, when the optimiser had no moments yet.
            self.optimizer.state.clear()
        for tensor, held in zip(live, state["tensors"], strict=False):
            tensor.copy_(held)
        self.step = state["step"]
        if self.average is not None:
            self.average.steps = state["averaged"]

    def _roll_back(self, good: dict[str, Any], loss: float) -> None:
        """Return to the last good epoch at half the rate, or give up."""
        epoch = len(self.history.loss_curve) + 1
        self._restore(good)
        if self.rollbacks == _MAX_ROLLBACKS:
            raise TrainingDivergedError(
                f"the training loss became {loss} in epoch {epoch}, also after the learning rate was halved "
                f"{_MAX_ROLLBACKS} times. Lower learning_rate_init (now {self.options.learning_rate}), set clip_norm, "
                "or look for extreme values in X and y."
            )
        self.rollbacks += 1
        self.rate_factor /= 2
        warnings.warn(
            f"the training loss became {loss} in epoch {epoch}; back to the last good epoch at half the learning rate.",
            SkopWarning,
            stacklevel=3,
        )


def _call_network(network: nn.Module, batch: Batch) -> Any:
    """One call on the whole batch."""
    return network(**batch.inputs())


def _widened(outputs: Any) -> Any:
    """Outputs of mixed precision in single precision at least."""
    if isinstance(outputs, tuple):
        return tuple(_widened(part) for part in outputs)
    return outputs.to(torch.promote_types(outputs.dtype, torch.float32))


def _decay_groups(network: nn.Module, options: TrainingOptions) -> list[dict[str, Any]]:
    """Parameters that decay, and those that do not."""
    groups: list[list[nn.Parameter]] = [[], []]
    for parameter in network.parameters():
        groups[0 if options.decay_vectors or parameter.ndim > 1 else 1].append(parameter)
    decays = (options.weight_decay, 0.0)
    return [{"params": group, "weight_decay": decay} for group, decay in zip(groups, decays, strict=True) if group]
