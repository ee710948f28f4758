"""The training loop: mini-batches, learning rate schedule, gradient clipping, early stopping, checkpoints, recovery."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import nn

from skop._draws import part_of_draws
from skop.data import Batch, FieldLoader
from skop.exceptions import SkopWarning, TrainingDivergedError, warn
from skop.training._averaging import WeightAverage
from skop.training._continuation import EarlierTraining, TrainingEnd, fingerprint
from skop.training._distributed import Group
from skop.training._memory import first_line, is_out_of_memory
from skop.training._monitors import Monitor
from skop.training._optimizer import make_optimizer
from skop.training._order import Grouping, epoch_rounds
from skop.training._parts import can_be_split, split_batch
from skop.training._schedule import ONE_CYCLE, schedule_at

__all__ = ["History", "Trainer", "TrainerConfig"]

#: Number of times that a diverging training returns to its last good epoch, with half the learning rate each time.
_MAX_ROLLBACKS = 2
#: Number of epochs below which a training that `max_time` ended gives a warning.
_FEW_EPOCHS = 5
#: Number of batches on which a training is compared with predicting the mean field.
_COMPARED_BATCHES = 4
#: Loss of the last epoch, in units of that of the first step, from which a training has hardly learned, or has diverged
#: if it is as far above that of the mean field.
_HARDLY_FALLEN, _DIVERGED = 0.5, 2.0
_NO_TRAINING = EarlierTraining()


@dataclass(frozen=True)
class TrainerConfig:
    """Settings of a training.

    Attributes
    ----------
    max_iter, batch_size : int
        Largest number of epochs, and number of samples (or groups of samples) of a mini-batch.
    learning_rate : float
        Peak learning rate.
    schedule : str
        Name of the learning rate schedule, see `schedule_at`.
    warmup_fraction : float
        Fraction of the steps in which the learning rate rises to its peak.
    one_cycle : tuple of three floats
        Shape of the schedule ``"one_cycle"``, see `schedule_at`.
    optimizer : {"muon", "adamw"}
        Optimiser, see `make_optimizer`.
    weight_decay : float
        Decoupled weight decay.
    decay_bias_and_norm : bool
        Whether weight decay also applies to biases, normalisations, decay rates and positions. These are all parameters
        of one axis, and those of more axes that a module lists in its attribute ``no_weight_decay``, a tuple of names.
    beta_2 : float
        Decay of AdamW's running mean of squared gradients.
    max_grad_norm : float or None
        Norm to which larger gradients are clipped; None does not clip.
    max_time : float or None
        Time limit in seconds; the learning rate schedule then follows the time. The clock starts after one untimed
        pass, in which kernels are compiled.
    ema_decay : float or None
        Decay of the exponential moving average (EMA) of the weights; None does not average.
    autocast : torch.dtype or None
        Precision of the matrix products in mixed-precision training; None disables it.
    schedule_interval : {"step", "epoch"}
        Interval at which the learning rate is updated.
    group_size, grouping : int, {"together", "spread"}
        Number of successive samples that form a group, and the way in which batches are made of groups, see
        `epoch_rounds`. The learning rate is updated once per round.
    keep_end : bool
        Whether `Trainer.end` holds the state after the last step, from which another training can continue. It takes
        up to four times the memory of the weights.
    """

    max_iter: int
    batch_size: int
    learning_rate: float
    optimizer: Literal["muon", "adamw"] = "muon"
    schedule: str = "cosine"
    warmup_fraction: float = 0.05
    weight_decay: float = 0.0
    decay_bias_and_norm: bool = True
    beta_2: float = 0.999
    max_grad_norm: float | None = None
    max_time: float | None = None
    ema_decay: float | None = None
    autocast: torch.dtype | None = None
    schedule_interval: Literal["step", "epoch"] = "step"
    one_cycle: tuple[float, ...] = ONE_CYCLE
    group_size: int = 1
    grouping: Grouping = "together"
    keep_end: bool = False


@dataclass
class History:
    """Record of a training.

    Attributes
    ----------
    loss_curve : list of float
        Mean training loss of each epoch.
    validation_errors : list of float
        Validation error after each epoch; empty without a validation part.
    seconds : list of float
        Time from the start of the training to the end of each epoch.
    best_iter : int
        Epoch, counted from 1, whose weights were kept; 0 if a continued training found no better weights than those
        from which it started.
    stopped : str
        Reason why training ended: ``"max_iter"``, ``"max_time"``, ``"early_stopping"``, ``"callback"``,
        ``"interrupted"``, or what a monitor gave as its reason.
    first_loss : float or None
        Training loss of the first step, of the weights at the start.
    """

    loss_curve: list[float] = field(default_factory=list)
    validation_errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    best_iter: int = 0
    stopped: str = "max_iter"
    first_loss: float | None = None


@dataclass
class _Kept:
    """A copy of what an epoch changes in place, to go back to.

    Attributes
    ----------
    tensors : list of Tensor
        In the order of `Trainer._changing`.
    step, average_steps, n_moments : int
        Steps of the schedule and of the average, and weights for which the optimiser has moments.
    """

    tensors: list[torch.Tensor]
    step: int = 0
    average_steps: int = 0
    n_moments: int = 0


class _Keeper(Protocol):
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
        keeper: _Keeper | None = None,
        group: Group | None = None,
    ) -> None:
        self.network, self.loss, self.options, self.rng = network, loss, options, rng
        self.group = group or Group()
        self.group.listen(lambda: keeper is not None and keeper.is_called_off)
        # Walking through the modules of a network takes as long as a small layer.
        self.weights: list[torch.Tensor] = list(network.parameters())
        self.has_buffers = any(True for _ in network.buffers())
        self.monitors, self.earlier, self.keeper = tuple(monitors), earlier, keeper
        self._step_monitors = [monitor for monitor in self.monitors if monitor.watches_steps]
        self.forward = _call_network if forward is None else forward
        self.optimizer = make_optimizer(
            network,
            options.optimizer,
            learning_rate=options.learning_rate,
            weight_decay=options.weight_decay,
            decay_bias_and_norm=options.decay_bias_and_norm,
            beta_2=options.beta_2,
        )
        decay = options.ema_decay
        self.average = None if decay is None else WeightAverage(network, decay)
        self.history = History()
        self.step, self.rate_factor, self.rollbacks = 0, 1.0, 0
        # Number of parts in which batches are taken that are too large for the memory.
        self.n_parts = 1
        self.best_error = np.inf
        self.best_weights: dict[str, Any] | None = None
        # Seconds of earlier runs, and the start time of the current run, if one is in progress.
        self.elapsed = 0.0
        self.start: float | None = None
        self.loader: FieldLoader | None = None
        self.end: TrainingEnd | None = None
        self._random_states: dict[str, Any] | None = None
        # What belongs to the last good epoch beside what `_Kept` holds, if there is a keeper.
        self._resume_point: dict[str, Any] = {}
        self._resume_epoch = 0

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
        self._check_loss_is_shared()
        self.start_on(loader)
        self._set_random_states(loader)
        self.group.make_alike(self.network)
        first = self._keep()
        good: _Kept | None = None
        try:
            if self._continue():
                good = self._keep()
            if self.options.max_time is not None:
                self._warm_up(loader, good or first)
            self.network.train()
            self.start = self.group.time()
            self._mark_resume_point()
            while self.history.stopped == "max_iter" and len(self.history.loss_curve) < self.options.max_iter:
                mean_loss = self._epoch(loader)
                if self.keeper is not None and self.group.is_called_off:
                    self._leave(good or first, self.keeper)
                    continue
                if not (np.isfinite(mean_loss) and self._weights_finite()):
                    self._roll_back(good or first, mean_loss)
                    continue
                good = self._keep(good)
                self._finish_epoch(mean_loss)
                loader = self._reviewed(loader)
                good.step = self.step
                if self.keeper is not None and self.history.stopped == "max_iter":
                    self._mark_resume_point()
                    self.keeper.after_epoch(self.state_dict)
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt) or not self.history.loss_curve:
                self._take_back(first)
                self._forget_gradients()
                self.network.eval()
                if is_out_of_memory(error):
                    raise MemoryError(_words_for_memory(self.options, error)) from error
                raise
            self._take_back(good or first)
            self._keep_resume_point()
            self.history.stopped = "interrupted"
            warn("training was interrupted; the best weights so far are kept.")
        self.elapsed, self.start = self._seconds(), None
        self._finish()
        # Free the gradients of the last step, which take as much memory as the weights.
        self._forget_gradients()
        self._warn_of_little_training(loader)
        return self.history

    def _check_loss_is_shared(self) -> None:
        """Raise an error if processes share the batches, but it is not known how the loss follows from its parts."""
        if self.group.size > 1 and self._reduction is None:
            raise ValueError(
                f"{self.group.size} processes share each batch, but it is not known whether the loss is a mean or a "
                "sum over samples; take a loss by name, or of skop.losses with the reduction of "
                "training__loss_reduction, or set training__distributed=False."
            )

    def start_on(self, loader: FieldLoader) -> None:
        """Count the steps of the training, as `run` does at its start.

        Parameters
        ----------
        loader : FieldLoader
            Training samples.
        """
        self.loader = loader
        n_groups = len(loader) // self.options.group_size
        self.epoch_steps = -(-n_groups // self.options.batch_size)
        self.total_steps = self.options.max_iter * self.epoch_steps

    def _continue(self) -> bool:
        """Show the weights at the start, and restore the state of the earlier training; return if there is one."""
        if self.history.loss_curve:  # a checkpoint was loaded
            return False
        end = self.earlier.end
        # The caller may have changed the weights, and then wants to go on from these.
        goes_on = end is not None and end.fingerprint == fingerprint(self.network)
        for monitor in self.monitors:
            monitor.start(self)
        if end is not None and goes_on:
            end.restore(self.network, self.optimizer, self.average)
            self.rate_factor = end.rate_factor
        return goes_on

    def _finish(self) -> None:
        """Put the final weights into the network, and keep the state after the last step if that is asked for."""
        if not self.options.keep_end:
            self._take_best()
            return
        end = TrainingEnd.of(self.network, self.optimizer, self.average, self.rate_factor)
        self._take_best()
        self.end = replace(end, fingerprint=fingerprint(self.network))

    def _finish_epoch(self, mean_loss: float) -> None:
        """Record an epoch, show it to the monitors, and check the conditions for stopping."""
        history = self.history
        history.loss_curve.append(mean_loss)
        history.seconds.append(self._seconds())
        with self._averages_swapped() if self.average is not None else nullcontext():
            for monitor in self.monitors:
                history.stopped = monitor.epoch(self) or history.stopped
        if self._out_of_time() and history.stopped != "callback":
            history.stopped = "max_time"

    def _reviewed(self, loader: FieldLoader) -> FieldLoader:
        """Let the training be reviewed, unless it ends; return the samples with which it goes on."""
        n_epochs = len(self.history.loss_curve)
        if self.history.stopped != "max_iter" or n_epochs == self.options.max_iter:
            return loader
        for monitor in self.monitors:
            with self._averages_swapped() if self.average is not None else nullcontext():
                found = monitor.review(self)
            if isinstance(found, str):
                self.history.stopped = found
                break
            if found is not None:
                loader = found
                self.start_on(loader)
                # As if all epochs had been those of these samples.
                self.step = n_epochs * self.epoch_steps
        return loader

    # ------------------------------------------------------------------ warm-up, and warnings at the end
    def _warm_up(self, loader: FieldLoader, start: _Kept) -> None:
        """Run one forward, backward and validation pass without any effect, so that all kernels are compiled."""
        options = self.options
        groups: dict[str, Any] = {"group_size": options.group_size, "grouping": options.grouping}
        with self._randomness_kept(loader):
            order, size = next(epoch_rounds(len(loader), options.batch_size, np.random.RandomState(0), **groups))
            try:
                self.network.train()
                self._set_gradients(next(iter(loader.batches(size, order))))
                for monitor in self.monitors:
                    monitor.rehearse(self)
            finally:
                self._forget_gradients()
                self._take_back(start)

    def _warn_of_little_training(self, loader: FieldLoader) -> None:
        """Warn about a training that was too short or did not learn."""
        history, options = self.history, self.options
        n_epochs = len(history.loss_curve)
        has_few_epochs = n_epochs < _FEW_EPOCHS
        if has_few_epochs and history.stopped == "max_time" and n_epochs < options.max_iter:
            warn(
                f"max_time left {options.max_time:.3g} s to the training and ended it after {n_epochs} "
                f"epoch{'s' * (n_epochs > 1)}, too few to learn much; raise max_time, or make an epoch cheaper by a "
                "smaller network or fewer points.",
            )
        rise = history.loss_curve[-1] / (history.first_loss or history.loss_curve[0] or 1.0)
        if history.stopped in ("callback", "interrupted") or rise < (_DIVERGED if has_few_epochs else _HARDLY_FALLEN):
            return
        reached, mean_field = self._compare_with_mean_field(loader)
        has_diverged = rise >= _DIVERGED and reached >= _DIVERGED * mean_field
        # A target that does not vary is predicted by its mean, up to rounding.
        if not torch.finfo(torch.float32).eps ** 2 < mean_field <= reached or (has_few_epochs and not has_diverged):
            return
        if has_diverged:
            found = "the training has diverged. Lower learning_rate_init, or set max_grad_norm."
        else:
            found = "the network has learned nothing yet. Train longer (max_iter, max_time), change "
            found += "learning_rate_init, or check that y depends on X."
        warn(
            f"the training loss ({reached:.3g}) is no lower than that of predicting the mean field "
            f"({mean_field:.3g}): {found}"
        )

    @torch.no_grad()
    def _compare_with_mean_field(self, loader: FieldLoader) -> tuple[float, float]:
        """Mean loss on the first batches, of the network and of outputs of zero."""
        total = np.zeros(2)
        size = max(1, self.options.batch_size // self.n_parts) * self.options.group_size
        with self._randomness_kept(loader):
            for batch in islice(loader.batches(size, np.arange(len(loader))), _COMPARED_BATCHES):
                outputs = self._outputs_of(batch)
                with torch.enable_grad():  # a user's loss may differentiate the outputs
                    both = [_mapped(_as_leaf, given) for given in (outputs, _mapped(torch.zeros_like, outputs))]
                    total += len(batch) * np.array([self.loss(given, batch).item() for given in both])
        reached, mean_field = total.tolist()
        count = min(len(loader), size * _COMPARED_BATCHES)
        return reached / count, mean_field / count

    @contextmanager
    def _randomness_kept(self, loader: FieldLoader) -> Iterator[None]:
        """Restore the state of all random number generators after the block."""
        before = self._random_state_dict(loader)
        try:
            yield
        finally:
            self._random_states = before
            self._set_random_states(loader)

    # ------------------------------------------------------------------ one epoch
    def _epoch(self, loader: FieldLoader) -> float:
        """Train for one epoch, over the samples in random order, and return the mean loss."""
        if not self.network.training:  # a validation or a callback came before
            self.network.train()
        self.group.draw_alike(self.network)
        # The sum stays on the device, because copying each loss to the CPU would make a GPU wait in every step.
        total, count = torch.zeros((), device=loader.device, dtype=torch.float64), 0
        for batch in self._epoch_batches(loader):
            loss = self._train_step(batch)
            if self.history.first_loss is None:
                self.history.first_loss = float(loss)
            total += loss * len(batch)
            count += len(batch)
            for monitor in self._step_monitors:
                monitor.step(self._part_done(count / len(loader)))
            if self._out_of_time() or self.group.is_called_off:
                break
        return float(total) / count

    def _epoch_batches(self, loader: FieldLoader) -> Iterator[Batch]:
        """Yield the batches of an epoch, and update the learning rate after each round."""
        options = self.options
        groups: dict[str, Any] = {"group_size": options.group_size, "grouping": options.grouping}
        for order, size in epoch_rounds(len(loader), options.batch_size, self.rng, **groups):
            yield from loader.batches(size, order)
            self.step += 1

    def _train_step(self, batch: Batch) -> torch.Tensor:
        """Take one optimiser step: forward, backward, gradient clipping, update; return the loss."""
        # Of several processes the time is that at which they last met.
        self._set_rate()
        loss = self._set_gradients(batch)
        if self.options.max_grad_norm is not None:
            nn.utils.clip_grad_norm_(self.weights, self.options.max_grad_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        return loss

    def _set_gradients(self, batch: Batch) -> torch.Tensor:
        """Compute the gradients on a batch, in smaller parts where the memory is too small; return the loss."""
        while True:
            self._forget_gradients()
            loss = None
            try:
                loss = self._accumulate_gradients(batch)
            except (MemoryError, RuntimeError) as error:
                if not (is_out_of_memory(error) and self._can_halve(batch)):
                    raise
            # After the handler, whose error holds the tensors of the step.
            total = self.group.add_up(self.weights, loss)
            if total is not None:
                return total
            self._halve(batch)

    def _accumulate_gradients(self, batch: Batch) -> torch.Tensor:
        """Compute the gradients on a batch, or add up those on its parts; return the loss."""
        total: Any = 0.0
        ranks = {"rank": self.group.rank, "n_ranks": self.group.size}
        for part, share, places in split_batch(batch, self.n_parts, self._reduction or "mean", self._unit, **ranks):
            with part_of_draws(*places):
                loss = self._loss_of(part) * share
            loss.backward()
            total = total + loss.detach()
        return total

    @property
    def _reduction(self) -> str | None:
        """Reduction of the loss over samples; None if it is not known, as for a user's function."""
        return getattr(self.loss, "reduction", None)

    @property
    def _unit(self) -> int:
        """Number of samples of a batch that belong together."""
        return self.options.group_size if self.options.grouping == "together" else 1

    def _can_halve(self, batch: Batch) -> bool:
        """Whether a batch can be taken in parts that are half as large."""
        return self._reduction is not None and can_be_split(batch, self.n_parts, self._unit, self.group.size)

    def _halve(self, batch: Batch) -> None:
        """Take batches in twice as many parts from now on."""
        self.n_parts *= 2
        self._forget_gradients()
        if batch.coords.device.type == "cuda":
            torch.cuda.empty_cache()
        warn(
            f"a training step ran out of memory; batches such as that of {len(batch)} samples are now taken in up to "
            f"{self.n_parts} parts, with the same gradients. A smaller batch_size, width or depth saves this."
        )

    def _forget_gradients(self) -> None:
        """Drop the gradients of the last step."""
        for weight in self.weights:
            weight.grad = None

    def _loss_of(self, batch: Batch) -> torch.Tensor:
        """Loss of the network on a batch."""
        return self.loss(self._outputs_of(batch), batch)

    def _outputs_of(self, batch: Batch) -> Any:
        """Outputs of the network on a batch, in float32 or float64."""
        autocast = self.options.autocast
        with torch.autocast(batch.coords.device.type, dtype=autocast, enabled=autocast is not None):
            outputs = self.forward(self.network, batch)
        return outputs if autocast is None else _mapped(_widened, outputs)

    def _set_rate(self) -> None:
        """Set the learning rate and the momentum of the optimiser by the schedule."""
        total = self.earlier.epochs * self.epoch_steps + self.total_steps
        step = self._place() * total
        if self.options.schedule_interval == "epoch":
            # The place is a quotient of integers, so a value that is below a whole epoch by a rounding error has
            # reached it.
            total = self.earlier.epochs + self.options.max_iter
            step = math.floor(self._place() * total + 1e-6)
        now = schedule_at(self.options.schedule, step, total, self.options.warmup_fraction, self.options.one_cycle)
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate * now.rate * self.rate_factor
            if now.momentum is not None:
                if "betas" in group:
                    group["betas"] = (now.momentum, group["betas"][1])
                else:
                    group["momentum"] = now.momentum

    @property
    def progress(self) -> float:
        """Completed fraction of the training, by steps or by time, whichever is larger."""
        return self._limited(self.step / self.total_steps)

    def _part_done(self, part_of_epoch: float) -> float:
        """Completed fraction of the training, within an epoch."""
        return self._limited((len(self.history.loss_curve) + part_of_epoch) / self.options.max_iter)

    def _limited(self, part: float) -> float:
        """Fraction of the epochs, or of the time limit, whichever is larger."""
        if self.options.max_time is not None:
            part = max(part, self._seconds() / self.options.max_time)
        return min(part, 1.0)

    def _place(self) -> float:
        """Place in the schedule, from 0 to 1, which is longer by the earlier training."""
        before, options = self.earlier, self.options
        steps = before.epochs * self.epoch_steps
        part = (steps + self.step) / (steps + self.total_steps)
        if options.max_time is not None:
            part = max(part, (before.seconds + self._seconds()) / (before.seconds + options.max_time))
        return min(part, 1.0)

    def _out_of_time(self) -> bool:
        """Whether the time limit is reached."""
        return self.options.max_time is not None and self._seconds() >= self.options.max_time

    def _seconds(self) -> float:
        """Duration of this training in seconds, earlier runs included."""
        return self.elapsed + (0.0 if self.start is None else self.group.time() - self.start)

    # ------------------------------------------------------------------ best weights
    def keep_if_best(self, error: float) -> None:
        """Keep the weights that the network holds now as the final ones if no smaller error is known.

        Parameters
        ----------
        error : float
            Validation error of these weights.
        """
        if error < self.best_error or self.best_weights is None:
            self.best_error, self.history.best_iter = error, len(self.history.loss_curve)
            self.best_weights = _copied(dict(self.network.state_dict()))

    def _take_best(self) -> None:
        """Put the final weights into the network: the best, the averaged, or the last ones."""
        if self.best_weights is not None:
            self.network.load_state_dict(self.best_weights)
        else:
            self.history.best_iter = len(self.history.loss_curve)
            if self.average is not None:
                self.average.swap()
        self.group.make_alike(self.network)
        self.network.eval()

    # ------------------------------------------------------------------ snapshots in memory
    @torch.no_grad()
    def _weights_finite(self) -> bool:
        """Whether all weights are finite; a gradient can overflow even if the loss does not."""
        # A finite norm means finite weights. An infinite one may come from the overflow of a square, so look closer.
        if bool(torch.isfinite(torch.stack(torch._foreach_norm(self.weights)).sum())):
            return True
        return all(bool(torch.isfinite(weight).all()) for weight in self.weights)

    def _changing(self) -> list[torch.Tensor]:
        """List what an epoch changes in place: weights, buffers, averages, and last the moments of the optimiser."""
        buffers = self.network.buffers() if self.has_buffers else ()
        mean = () if self.average is None else self.average.mean
        moments = (value for state in self.optimizer.state.values() for value in state.values())
        return [*self.weights, *buffers, *mean, *moments]

    @torch.no_grad()
    def _keep(self, storage: _Kept | None = None) -> _Kept:
        """Copy what an epoch changes, into the storage of an earlier copy where it fits."""
        tensors = self._changing()
        # The optimiser makes the moments of a weight in the first step in which the weight has a gradient.
        if storage is None or len(storage.tensors) != len(tensors):
            storage = _Kept([tensor.detach().clone() for tensor in tensors])
        else:
            # A single call, so that an interrupt cannot leave half of a copy.
            torch._foreach_copy_(storage.tensors, tensors)
        storage.step, storage.n_moments = self.step, len(self.optimizer.state)
        storage.average_steps = 0 if self.average is None else self.average.steps
        return storage

    @torch.no_grad()
    def _take_back(self, kept: _Kept) -> None:
        """Restore a copy, which is not modified."""
        for parameter in list(self.optimizer.state)[kept.n_moments :]:
            del self.optimizer.state[parameter]
        torch._foreach_copy_(self._changing(), kept.tensors)
        self.step = kept.step
        if self.average is not None:
            self.average.steps = kept.average_steps

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
        # During a callback the network holds the averaged weights.
        with self._averages_swapped() if self.average is not None and self.average.is_swapped else nullcontext():
            return self._state_as_it_is()

    def _state_as_it_is(self) -> dict[str, Any]:
        """Return the state while the network holds the weights that are trained, and not their averages."""
        names: dict[torch.Tensor, str] = {held: name for name, held in self.network.named_parameters()}
        average = self.average
        mean = None if average is None else dict(zip(names.values(), average.mean, strict=True))
        return {
            "network": _copied(dict(self.network.state_dict())),
            "optimizer": _copied({names[parameter]: moments for parameter, moments in self.optimizer.state.items()}),
            "average": None if average is None else _copied({"mean": mean, "steps": average.steps}),
            "step": self.step,
            "rate_factor": self.rate_factor,
            "rollbacks": self.rollbacks,
            "history": asdict(self.history),
            "best_error": float(self.best_error),
            "best_weights": _copied(self.best_weights),
            "random": self._random_state_dict(self.loader),
            "elapsed": self._seconds(),
            "monitors": [monitor.state_dict() for monitor in self.monitors],
            "n_parts": self.n_parts,
        }

    def _mark_resume_point(self) -> None:
        """Note what belongs to the epoch that has ended, from which a training that is called off is resumed."""
        if self.keeper is not None:
            self._resume_point = {"random": self._random_state_dict(self.loader)}
            self._resume_point |= {"rate_factor": self.rate_factor, "rollbacks": self.rollbacks}
            self._resume_epoch = len(self.history.loss_curve)

    def _keep_resume_point(self) -> None:
        """Have the state after the last good epoch kept, after its copy was taken back."""
        # Between the end of an epoch and that of what follows it the history is ahead of the copy.
        if self.keeper is not None and 0 < self._resume_epoch == len(self.history.loss_curve):
            self.keeper.keep(self.state_dict() | self._resume_point)

    def _leave(self, good: _Kept, keeper: _Keeper) -> None:
        """Return to the last good epoch, and have its state kept; if the process then goes on, so does the training."""
        self._take_back(good)
        self._keep_resume_point()
        keeper.leave()
        point = self._resume_point
        self.rate_factor, self.rollbacks, self._random_states = (
            point["rate_factor"],
            point["rollbacks"],
            point["random"],
        )
        if self.loader is not None:
            self._set_random_states(self.loader)

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
        missing = {"network", "optimizer", "average", "step", "rate_factor", "rollbacks", "history", "best_error"}
        missing = (missing | {"best_weights", "random", "elapsed", "monitors"}) - set(state)
        if missing:
            raise ValueError(f"the state of a training needs {sorted(missing)}; pass what Trainer.state_dict returned.")
        if (state["average"] is None) != (self.average is None):
            came = "no running average" if state["average"] is None else "a running average"
            raise ValueError(f"the state has {came} of the weights, but ema_decay={self.options.ema_decay}.")
        self._restore(state)
        self.step = state["step"]
        self.rate_factor, self.rollbacks = state["rate_factor"], state["rollbacks"]
        self.history = History(**{name: _copied(value) for name, value in state["history"].items()})
        if self.history.stopped != "early_stopping":
            self.history.stopped = "max_iter"
        self.best_error, self.best_weights = state["best_error"], _copied(state["best_weights"])
        self._random_states, self.elapsed = state["random"], state["elapsed"]
        self.n_parts = state.get("n_parts", 1)
        for monitor, held in zip(self.monitors, state["monitors"], strict=True):
            monitor.load_state_dict(held)

    @torch.no_grad()
    def _restore(self, state: dict[str, Any]) -> None:
        """Set weights, moments and averages to those of a state, which is not modified."""
        self.network.load_state_dict(state["network"])
        parameters = dict(self.network.named_parameters())
        self.optimizer.state.clear()
        for name, moments in state["optimizer"].items():
            parameter = parameters[name]
            self.optimizer.state[parameter] = {
                kind: value.to(parameter.device, copy=True) for kind, value in moments.items()
            }
        if self.average is not None:
            for name, mean in zip(parameters, self.average.mean, strict=True):
                mean.copy_(state["average"]["mean"][name])
            self.average.steps = state["average"]["steps"]

    @contextmanager
    def _averages_swapped(self) -> Iterator[None]:
        """Use the averaged weights within the block."""
        assert self.average is not None
        self.average.swap()
        try:
            yield
        finally:
            self.average.swap()

    def _random_state_dict(self, loader: FieldLoader | None) -> dict[str, Any]:
        """States of the random number generators that the training uses."""
        generator = getattr(loader, "generator", None)
        device = _device_of(self.network)
        return {
            "numpy": _plain(self.rng.get_state(legacy=False)),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
            "loader": None if generator is None else generator.get_state(),
        }

    def _set_random_states(self, loader: FieldLoader) -> None:
        """Set the random number generators to the loaded states, if there are any."""
        states, self._random_states = self._random_states, None
        if states is None:
            return
        self.rng.set_state(states["numpy"])
        torch.set_rng_state(states["torch"].cpu())
        if states["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(states["cuda"].cpu(), _device_of(self.network))
        if states["loader"] is not None and loader.generator is not None:
            loader.generator.set_state(states["loader"].cpu())

    # ------------------------------------------------------------------ recovery from a diverging loss
    def _roll_back(self, good: _Kept, loss: float) -> None:
        """Return to the last good epoch at half the learning rate, or raise an error after too many returns."""
        epoch = len(self.history.loss_curve) + 1
        self._take_back(good)
        if self.rollbacks == _MAX_ROLLBACKS:
            raise TrainingDivergedError(
                f"the training loss became {loss} in epoch {epoch}, also after the learning rate was halved "
                f"{_MAX_ROLLBACKS} times. Lower learning_rate_init (now {self.options.learning_rate}), set "
                "max_grad_norm, or look for extreme values in X and y."
            )
        self.rollbacks += 1
        self.rate_factor /= 2
        warnings.warn(
            f"the training loss became {loss} in epoch {epoch}; back to the last good epoch at half the learning rate.",
            SkopWarning,
            stacklevel=3,
        )


def _words_for_memory(options: TrainerConfig, error: BaseException) -> str:
    """Say what makes a step smaller."""
    size = options.batch_size
    smaller = f"batch_size={size // 2}, " if size > 1 else ""
    return (
        f"a training step with batch_size={size} ran out of memory ({first_line(error)}). Set {smaller}a smaller "
        "width or depth, or training__subsample_points for point clouds; estimate_cost(X, y) says how much memory a "
        "fit needs."
    )


def _call_network(network: nn.Module, batch: Batch) -> Any:
    """Call the network on the whole batch."""
    return batch.outputs_of(network)


def _mapped(function: Callable[[torch.Tensor], torch.Tensor], outputs: Any) -> Any:
    """Apply a function to every tensor of a network's outputs."""
    if outputs is None:
        return None
    if isinstance(outputs, tuple):  # a named tuple, whose parts are None if not predicted
        return type(outputs)(*(_mapped(function, part) for part in outputs))
    return function(outputs)


def _as_leaf(output: torch.Tensor) -> torch.Tensor:
    """Return a tensor with respect to which a loss can be differentiated."""
    return output.detach().requires_grad_()


def _widened(output: torch.Tensor) -> torch.Tensor:
    """Convert a half-precision tensor to float32."""
    return output.to(torch.promote_types(output.dtype, torch.float32))


def _copied(state: Any) -> Any:
    """Copy nested dicts and lists, including all tensors."""
    if isinstance(state, dict):
        return {name: _copied(value) for name, value in state.items()}
    if isinstance(state, list):
        return list(state)
    return state.detach().clone() if torch.is_tensor(state) else state


def _plain(state: Any) -> Any:
    """Replace the arrays in nested dicts by lists of numbers."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def _device_of(network: nn.Module) -> torch.device:
    """Device of the network's parameters."""
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
