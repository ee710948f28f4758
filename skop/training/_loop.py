"""The training loop: epochs of mini-batches, monitors, the best weights, checkpoints, recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from skop._typing import IntArray
from skop.data import Batch, FieldLoader
from skop.exceptions import TrainingDivergedError, warn
from skop.training._clock import TrainingClock
from skop.training._config import History, TrainerConfig
from skop.training._continuation import EarlierTraining, TrainingEnd, fingerprint
from skop.training._distributed import Group
from skop.training._gradients import Gradients
from skop.training._memory import keep_freed_memory
from skop.training._monitors import Monitor
from skop.training._order import epoch_rounds
from skop.training._outcome import warn_of_interrupt, warn_of_little_training
from skop.training._resume import Keeper, ResumePoint
from skop.training._state import RandomStates, TrainingState, copied

__all__ = ["Trainer"]

#: Number of times that a diverging training returns to its last good epoch, with half the learning rate each time.
_MAX_ROLLBACKS = 2
#: Parts of a checkpoint; earlier ones have no number of parts of a batch.
_STATE = {"network", "optimizer", "average", "step", "rate_factor", "rollbacks", "history", "best_error"}
_STATE |= {"best_weights", "random", "elapsed", "monitors"}
_NO_TRAINING = EarlierTraining()


class Trainer:
    """Train a network on mini-batches.

    Parameters
    ----------
    network : Module
        Network to train.
    loss : callable
        Function ``loss(outputs, batch)`` that returns a scalar tensor.
    options : TrainerConfig
        Settings of the training.
    rng : numpy.random.RandomState
        Random number generator for the order of the samples.
    monitors : sequence of Monitor, default=()
        What watches the training, in this order, such as a `Validation`.
    forward : callable or None, default=None
        Function ``forward(network, batch)`` that returns the outputs; None calls ``batch.outputs_of(network)``.
    earlier : EarlierTraining, default=EarlierTraining()
        Training of the same network that is continued: the schedule goes on at its place, and so do the weights of its
        last step, the optimiser's moments and the weight average, if `EarlierTraining.end` is given and the network
        still holds the weights with which it ended.
    keeper : object or None, default=None
        Object that writes states of the training to files.
    group : Group or None, default=None
        Processes that share each batch; all of them have the same samples, options and random numbers. None is a single
        process.
    after : callable or None, default=None
        Function without arguments that measures the seconds of what follows the training within the time limit; it is
        called once before the training if there is a limit.

    Attributes
    ----------
    end : TrainingEnd or None
        State after the last step, if `TrainerConfig.keep_end` is set and `run` has returned.

    Examples
    --------
    A training is saved as a checkpoint after an epoch, by a monitor, and resumed by another trainer:

    >>> import numpy as np, torch
    >>> from skop.data import Batch
    >>> from skop.training import Monitor, Trainer, TrainerConfig
    >>> class Checkpoints(Monitor):
    ...     def __init__(self):
    ...         self.states = []
    ...     def epoch(self, trainer):
    ...         self.states.append(trainer.state_dict())
    >>> class Loader:
    ...     device = torch.device("cpu")
    ...     def __len__(self):
    ...         return 4
    ...     def batches(self, size, order):
    ...         yield Batch(torch.zeros(3, 1), torch.ones(len(order), 3, 1), None, (3,), torch.ones(len(order), 3, 1))
    >>> class Network(torch.nn.Linear):
    ...     def forward(self, coords, fields, params, grid_shape):
    ...         return super().forward(fields)
    >>> def make_trainer(checkpoints):
    ...     config = TrainerConfig(max_iter=3, batch_size=4, learning_rate=0.1)
    ...     loss = lambda outputs, batch: ((outputs - batch.target) ** 2).mean()
    ...     return Trainer(Network(1, 1), loss, config, np.random.RandomState(0), monitors=[checkpoints])
    >>> checkpoints = Checkpoints()
    >>> curve = make_trainer(checkpoints).run(Loader()).loss_curve
    >>> second = make_trainer(Checkpoints())
    >>> second.load_state_dict(checkpoints.states[0])
    >>> second.run(Loader()).loss_curve == curve
    True
    """

    loader: FieldLoader

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Any, Batch], torch.Tensor],
        options: TrainerConfig,
        rng: np.random.RandomState,
        *,
        monitors: Sequence[Monitor] = (),
        forward: Callable[[nn.Module, Batch], Any] | None = None,
        earlier: EarlierTraining = _NO_TRAINING,
        keeper: Keeper | None = None,
        group: Group | None = None,
        after: Callable[[], float] | None = None,
    ) -> None:
        self.network, self.options, self.rng, self.after = network, options, rng, after
        self.group = group or Group()
        self.group.listen(lambda: keeper is not None and keeper.is_called_off)
        self.monitors, self.earlier, self.keeper = tuple(monitors), earlier, keeper
        self._step_monitors = [monitor for monitor in self.monitors if monitor.watches_steps]
        self.state = TrainingState(network, options)
        self.optimizer, self.average = self.state.optimizer, self.state.average
        self.gradients = Gradients(network, loss, options, self.group, forward)
        self.clock = TrainingClock(self.state, options, earlier, self.group)
        self.random = RandomStates(rng, self.state.device)
        self.resume_point = ResumePoint(keeper, self.clock, self.random)
        self.history = History()
        self.best_error = np.inf
        self.end: TrainingEnd | None = None
        # Of a checkpoint that was loaded, until the training starts.
        self._loaded_random: dict[str, Any] | None = None

    # ------------------------------------------------------------------ the training as a whole
    def run(self, loader: FieldLoader) -> History:
        """Train until the last epoch, the end of the time limit, or another reason to stop.

        Parameters
        ----------
        loader : FieldLoader
            Training samples.

        Returns
        -------
        History
            Record of the training. The network holds the final weights.

        Raises
        ------
        TrainingDivergedError
            If the loss is still not finite after two returns to the last good epoch at lower learning rates.
        MemoryError
            If the memory of the device is too small for a step on single samples, or with a loss of which it is not
            known how that of a batch follows from those of its samples; the message says what to set.
        KeyboardInterrupt
            If the user interrupts before the first epoch is complete; the network then holds its initial weights. A
            later interrupt raises no error: the weights of the best or the last epoch are kept, and `History.stopped`
            is ``"interrupted"``.

        Warns
        -----
        SkopWarning
            If the loss was not finite, a step ran out of memory, the user interrupted, `max_time` left time for fewer
            than five epochs, or the training loss is no lower than that of predicting the mean field. The last
            condition compares the loss on the first four batches with that of outputs of zero, which is the mean field
            of scaled targets. It is only checked if the mean loss of the last epoch is at least half of that of the
            first step; after fewer than five epochs, if both are at least twice what they are compared with.
        """
        self.gradients.require_shares()
        self.start_on(loader)
        if self._loaded_random is not None:
            self.random.load_state_dict(self._loaded_random)
            self._loaded_random = None
        self.group.make_alike(self.network)
        self.state.begin()
        try:
            with self.gradients.naming_memory():
                keep_freed_memory()
                self._begin()
                self._train()
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt) or not self.history.loss_curve:
                self.state.go_back(to_start=True)
                self.state.drop_copies()
                self.gradients.forget()
                self.network.eval()
                raise
            self.state.go_back()
            self.resume_point.keep(len(self.history.loss_curve), self.state_dict)
            self.history.stopped = "interrupted"
            warn_of_interrupt()
        self.clock.stop()
        self._finish()
        self.gradients.forget()
        for monitor in self.monitors:
            monitor.end(self)
        with self.random.kept():
            compare = partial(self.gradients.losses_beside_mean_field, self.loader)
            warn_of_little_training(self.history, self.options, compare)
        return self.history

    def start_on(self, loader: FieldLoader) -> None:
        """Count the steps of the training, as `run` does at its start.

        Parameters
        ----------
        loader : FieldLoader
            Training samples.
        """
        self.loader = self.random.loader = loader
        self.clock.count(len(loader))

    def _begin(self) -> None:
        """Restore the state of the earlier training, compile kernels where time is limited, and start the clock."""
        if not self.history.loss_curve:  # no checkpoint was loaded
            end = self.earlier.end_of(self.network)
            for monitor in self.monitors:
                monitor.start(self)
            if end is not None:
                self.state.continue_from(end)
                self.clock.rate_factor = end.rate_factor
                self.state.mark()
        if self.options.max_time is not None:
            self._warm_up()
        self.network.train()
        self.clock.begin()

    def _warm_up(self) -> None:
        """Run one forward, backward and validation pass without any effect, so that all kernels are compiled."""
        clock = self.clock
        with self.random.kept():
            order, size = next(self._rounds(np.random.RandomState(0)))
            try:
                self.network.train()
                with clock.timed("step"):
                    self.gradients.set(next(iter(self.loader.batches(size, order))))
                with clock.timed("epoch"):
                    for monitor in self.monitors:
                        monitor.rehearse(self)
                if self.after is not None:
                    self.network.eval()
                    clock.after = self.after()
                if clock.elapsed:  # a run that is resumed has had its pass
                    clock.untimed.clear()
            finally:
                self.gradients.forget()
                self.state.go_back()

    def _train(self) -> None:
        """Train epoch by epoch, until there is a reason to stop."""
        history = self.history
        self.resume_point.mark(len(history.loss_curve))
        while history.stopped == "max_iter" and len(history.loss_curve) < self.options.max_iter:
            mean_loss = self._epoch()
            if self.keeper is not None and self.group.is_called_off:
                self._leave()
            elif not (np.isfinite(mean_loss) and self.state.is_finite()):
                self._roll_back(mean_loss)
            else:
                self.state.mark()
                self._finish_epoch(mean_loss)
                if self.keeper is not None and history.stopped == "max_iter":
                    self.resume_point.mark(len(history.loss_curve))
                    self.keeper.after_epoch(self.state_dict)

    def _finish(self) -> None:
        """Put the final weights into the network, and keep the state after the last step if that is asked for."""
        end = self.state.end(self.clock.rate_factor) if self.options.keep_end else None
        self.state.drop_copies()
        if not self.state.take_best():
            self.history.best_iter = len(self.history.loss_curve)
        self.group.make_alike(self.network)
        self.network.eval()
        self.end = None if end is None else replace(end, fingerprint=fingerprint(self.network))

    # ------------------------------------------------------------------ one epoch
    def _epoch(self) -> float:
        """Train for one epoch, over the samples in random order, and return the mean loss."""
        if not self.network.training:  # a validation or a callback came before
            self.network.train()
        self.group.draw_alike(self.network)
        history, loader, clock = self.history, self.loader, self.clock
        # The sum stays on the device, because copying each loss to the CPU would make a GPU wait in every step.
        total, count = torch.zeros((), device=loader.device, dtype=torch.float64), 0
        for batch in self._batches():
            loss = self._train_step(batch)
            if history.first_loss is None:
                history.first_loss = float(loss)
            total += loss * len(batch)
            count += len(batch)
            for monitor in self._step_monitors:
                monitor.step(clock.part((len(history.loss_curve) + count / len(loader)) / self.options.max_iter))
            if clock.is_over or self.group.is_called_off:
                break
        return float(total) / count

    def _batches(self) -> Iterator[Batch]:
        """Yield the batches of an epoch, and count each round of them."""
        for order, size in self._rounds(self.rng):
            yield from self.loader.batches(size, order)
            self.state.step += 1

    def _rounds(self, rng: np.random.RandomState) -> Iterator[tuple[IntArray, int]]:
        """Yield the samples of each round of an epoch, and the size of its batches."""
        options = self.options
        return epoch_rounds(
            len(self.loader), options.batch_size, rng, group_size=options.group_size, grouping=options.grouping
        )

    def _train_step(self, batch: Batch) -> torch.Tensor:
        """Take one step: learning rate, gradients, update; return the loss."""
        with self.clock.timed("step"):
            self.clock.set_rate()
            loss = self.gradients.set(batch)
            self.state.update()
        return loss

    def _finish_epoch(self, mean_loss: float) -> None:
        """Record an epoch, show it to the monitors, and check the conditions for stopping."""
        history = self.history
        history.loss_curve.append(mean_loss)
        history.seconds.append(self.clock.seconds)
        with self.state.averaged():
            with self.clock.timed("epoch"):
                for monitor in self.monitors:
                    history.stopped = monitor.epoch(self) or history.stopped
            if self.clock.is_over and history.stopped != "callback":
                history.stopped = "max_time"
            if history.stopped == "max_iter" and len(history.loss_curve) < self.options.max_iter:
                self._review()

    def _review(self) -> None:
        """Let the monitors change or end a training that goes on."""
        for monitor in self.monitors:
            found = monitor.review(self)
            if isinstance(found, str):
                self.history.stopped = found
                return
            if found is not None:
                self.start_on(found)
                # As if all epochs had been those of these samples.
                self.state.move_to(len(self.history.loss_curve) * self.clock.epoch_steps)

    @property
    def progress(self) -> float:
        """Completed fraction of the training, by steps or by time, whichever is larger."""
        return self.clock.progress

    def keep_if_best(self, error: float) -> None:
        """Keep the weights that the network holds now as the final ones if no smaller error is known.

        Parameters
        ----------
        error : float
            Validation error of these weights.
        """
        if error < self.best_error or self.state.best is None:
            self.best_error, self.history.best_iter = error, len(self.history.loss_curve)
            self.state.keep_best()

    # ------------------------------------------------------------------ checkpoints
    def state_dict(self) -> dict[str, Any]:
        """Return a checkpoint, from which the training can be resumed: nested dicts of tensors, numbers and strings.

        Call it after an epoch, from a monitor. When `run` has returned, the network holds the final weights (such
        as the averaged ones), from which a training cannot be resumed. ``torch.save`` writes the checkpoint, and
        ``torch.load(weights_only=True)`` reads it.

        Returns
        -------
        dict
            Copies: ``"network"``, ``"optimizer"`` and ``"average"`` by the names of the parameters, ``"step"``,
            ``"rate_factor"``, ``"rollbacks"``, ``"history"``, ``"best_error"``, ``"best_weights"``, ``"random"`` (the
            states of all generators), ``"elapsed"`` (seconds), ``"monitors"`` (their states) and ``"n_parts"`` (parts
            in which batches are taken).
        """
        return {
            **self.state.state_dict(),
            **self.clock.rate_dict(),
            "history": asdict(self.history),
            "best_error": float(self.best_error),
            "best_weights": copied(self.state.best),
            "random": self.random.state_dict(),
            "elapsed": self.clock.seconds,
            "monitors": [monitor.state_dict() for monitor in self.monitors],
            "n_parts": self.gradients.n_parts,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a checkpoint of `state_dict`, from which the next `run` resumes the training.

        The caller has to build the trainer with the same network, loss and options. The random number generators are
        set when `run` starts. A training that had ended for another reason than early stopping continues for as long as
        the options allow.

        Parameters
        ----------
        state : dict
            Result of `state_dict`; it is not modified.

        Raises
        ------
        ValueError
            If a part is missing, or only one of state and trainer has an exponential moving average.
        RuntimeError
            If the network's parameters do not match.
        """
        missing = _STATE - set(state)
        if missing:
            raise ValueError(f"the state of a training needs {sorted(missing)}; pass what Trainer.state_dict returned.")
        self.state.load_state_dict(state)
        self.clock.load_rate_dict(state)
        self.history = History(**{name: copied(value) for name, value in state["history"].items()})
        if self.history.stopped != "early_stopping":
            self.history.stopped = "max_iter"
        self.best_error = state["best_error"]
        self._loaded_random, self.clock.elapsed = state["random"], state["elapsed"]
        self.gradients.n_parts = state.get("n_parts", 1)
        for monitor, held in zip(self.monitors, state["monitors"], strict=True):
            monitor.load_state_dict(held)

    # ------------------------------------------------------------------ back to the last good epoch
    def _leave(self) -> None:
        """Return to the last good epoch, and have its state kept; if the process then goes on, so does the training."""
        self.state.go_back()
        self.resume_point.keep(len(self.history.loss_curve), self.state_dict)
        self.resume_point.leave()

    def _roll_back(self, loss: float) -> None:
        """Return to the last good epoch at half the learning rate, or raise an error after too many returns."""
        epoch = len(self.history.loss_curve) + 1
        self.state.go_back()
        if self.clock.rollbacks == _MAX_ROLLBACKS:
            raise TrainingDivergedError(
                f"the training loss became {loss} in epoch {epoch}, also after the learning rate was halved "
                f"{_MAX_ROLLBACKS} times. Lower learning_rate_init (now {self.options.learning_rate}), set "
                "a lower training__max_grad_norm, or look for extreme values in X and y."
            )
        self.clock.halve_rate()
        warn(
            f"the training loss became {loss} in epoch {epoch}; back to the last good epoch at half the learning rate."
        )
