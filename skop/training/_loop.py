"""The training loop: epochs of batches, a schedule, best weights, checkpoints, recovery from a diverging loss."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from skop.data import Batch, FieldLoader
from skop.exceptions import SkopWarning, TrainingDivergedError, warn
from skop.training._averaging import WeightAverage
from skop.training._order import Grouping, epoch_rounds
from skop.training._schedule import schedule_at

__all__ = ["History", "Trainer", "TrainerConfig"]

#: How often a diverging fit is taken back to its last good epoch, at half the rate each time.
_MAX_ROLLBACKS = 2
#: Fewer epochs than these are too few to learn from.
_FEW_EPOCHS = 5
#: Batches on which a training that hardly lowered its loss is compared with the mean field.
_COMPARED_BATCHES = 4


@dataclass(frozen=True)
class TrainerConfig:
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
    decay_bias_and_norm : bool
        Whether biases, norms and decay rates decay too, and not only matrices. Vectors are taken for such, and
        what a module names in its attribute ``no_weight_decay``, a tuple of the names of parameters of more axes.
    beta_2 : float
        Decay of AdamW's mean of squared gradients.
    max_grad_norm : float or None
        Largest norm of the gradient.
    max_time : float or None
        Seconds at most; the schedule then follows the time. The clock starts after one untimed pass, which compiles
        kernels.
    ema_decay : float or None
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
    decay_bias_and_norm: bool = True
    beta_2: float = 0.999
    max_grad_norm: float | None = None
    max_time: float | None = None
    ema_decay: float | None = None
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
    options : TrainerConfig
        Numbers.
    rng : numpy.random.RandomState
        Order of the samples.
    validate : callable or None, default=None
        Gives the validation error of the network as it stands; then the best weights are kept.
    on_epoch_end : callable or None, default=None
        Called with the history and the part of the training that is done; a true return stops.
    forward : callable or None, default=None
        ``forward(network, batch)`` gives the outputs; None is ``network(**batch.inputs())``.

    Examples
    --------
    A training is saved after an epoch, from `on_epoch_end`, and goes on in another trainer:

    >>> import numpy as np, torch
    >>> from skop.data import Batch
    >>> from skop.training import Trainer, TrainerConfig
    >>> class Loader:
    ...     device = torch.device("cpu")
    ...     def __len__(self):
    ...         return 4
    ...     def batches(self, size, order):
    ...         yield Batch(torch.zeros(3, 1), torch.ones(len(order), 3, 1), None, (3,), torch.ones(len(order), 3, 1))
    >>> class Network(torch.nn.Linear):
    ...     def forward(self, coords, fields, params, grid_shape):
    ...         return super().forward(fields)
    >>> def make_trainer(on_epoch_end=None):
    ...     config = TrainerConfig(max_iter=3, batch_size=4, learning_rate=0.1)
    ...     loss = lambda outputs, batch: ((outputs - batch.target) ** 2).mean()
    ...     return Trainer(Network(1, 1), loss, config, np.random.RandomState(0), on_epoch_end=on_epoch_end)
    >>> states = []
    >>> first = make_trainer(lambda history, part: states.append(first.state_dict()))
    >>> curve = first.run(Loader()).loss_curve
    >>> second = make_trainer()
    >>> second.load_state_dict(states[0])
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
        decay = options.ema_decay
        self.average = None if decay is None else WeightAverage(network, decay)
        self.history = History()
        self.step, self.rate_factor, self.rollbacks = 0, 1.0, 0
        self.best_error = np.inf
        self.best_weights: dict[str, Any] | None = None
        # Seconds of earlier runs, and the start of the present one, if one is under way.
        self.elapsed = 0.0
        self.start: float | None = None
        self.loader: FieldLoader | None = None
        self._random_states: dict[str, Any] | None = None

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
        KeyboardInterrupt
            If the user interrupts before the first whole epoch; the network then holds the weights it came with.
            Later on the weights of the last or the best epoch stay, and `History.stopped` says so.

        Warns
        -----
        SkopWarning
            If the loss was not finite, the user interrupted, `max_time` left fewer than five epochs, or the
            training loss is no lower than that of the mean field. The last is looked at after five epochs or more
            that left more than half of the first epoch's loss: the loss of the trained network on the first four
            batches is compared with the loss of outputs that are zero everywhere, the mean field of scaled targets.
        """
        self.loader = loader
        n_groups = len(loader) // self.options.group_size
        self.total_steps = self.options.max_iter * -(-n_groups // self.options.batch_size)
        self._set_random_states(loader)
        first = good = self._snapshot()
        try:
            if self.options.max_time is not None:
                self._warm_up(loader, good)
            self.start = time.perf_counter()
            while self.history.stopped == "max_iter" and len(self.history.loss_curve) < self.options.max_iter:
                mean_loss = self._epoch(loader)
                if not (np.isfinite(mean_loss) and self._weights_finite()):
                    self._roll_back(good, mean_loss)
                    continue
                good = self._snapshot()
                self._finish_epoch(mean_loss)
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt) or not self.history.loss_curve:
                self._restore(first)
                self.network.zero_grad(set_to_none=True)
                self.network.eval()
                raise
            self._restore(good)
            self.history.stopped = "interrupted"
            warn("training was interrupted; the best weights so far are kept.")
        self.elapsed, self.start = self._seconds(), None
        self._take_best()
        # Gradients of the last step are as large as the network, and a fitted network has no use for them.
        self.network.zero_grad(set_to_none=True)
        self._warn_of_little_training(loader)
        return self.history

    def _finish_epoch(self, mean_loss: float) -> None:
        """Record an epoch, validate, and note a reason to stop."""
        history = self.history
        history.loss_curve.append(mean_loss)
        history.seconds.append(self._seconds())
        if self.validate is not None:
            history.validation_errors.append(self._validation_error(self.validate))
        if self._out_of_time():
            history.stopped = "max_time"
        elif self._no_progress():
            history.stopped = "early_stopping"
        if self._callback_stops():
            history.stopped = "callback"

    def _callback_stops(self) -> bool:
        """Run the callback on the weights that stopping now would keep, and tell whether it asks to stop."""
        if self.on_epoch_end is None:
            return False
        if self.average is None:
            return self.on_epoch_end(self.history, self._progress())
        with self._averages_swapped():
            return self.on_epoch_end(self.history, self._progress())

    # ------------------------------------------------------------------ before and after
    def _warm_up(self, loader: FieldLoader, start: dict[str, Any]) -> None:
        """Pass forward and backward once, and validate once, with no effect: whatever compiles does it now."""
        options = self.options
        groups: dict[str, Any] = {"group_size": options.group_size, "grouping": options.grouping}
        with self._randomness_kept(loader):
            order, size = next(epoch_rounds(len(loader), options.batch_size, np.random.RandomState(0), **groups))
            try:
                self.network.train()
                self._loss_of(next(iter(loader.batches(size, order)))).backward()
                if self.validate is not None:
                    self.network.eval()
                    self.validate()
            finally:
                self.network.zero_grad(set_to_none=True)
                self._restore(start)

    def _warn_of_little_training(self, loader: FieldLoader) -> None:
        """Warn about a training that can hardly have learned."""
        history, options = self.history, self.options
        n_epochs = len(history.loss_curve)
        if n_epochs < _FEW_EPOCHS:
            if history.stopped == "max_time" and n_epochs < options.max_iter:
                warn(
                    f"max_time={options.max_time} ended the training after {n_epochs} epoch{'s' * (n_epochs > 1)}, too "
                    "few to learn much; raise max_time, or make an epoch cheaper by a smaller network or fewer points.",
                )
            return
        if history.stopped in ("callback", "interrupted") or history.loss_curve[-1] < history.loss_curve[0] / 2:
            return
        reached, mean_field = self._compare_with_mean_field(loader)
        if 0 < mean_field <= reached:
            warn(
                f"the training loss ({reached:.3g}) is no lower than that of predicting the mean field "
                f"({mean_field:.3g}): the network has learned nothing yet. Train longer (max_iter, max_time), change "
                "learning_rate_init, or check that y depends on X.",
            )

    @torch.no_grad()
    def _compare_with_mean_field(self, loader: FieldLoader) -> tuple[float, float]:
        """Mean loss on the first batches: of the network as it stands, and of outputs that are zero."""
        total = np.zeros(2)
        size = self.options.batch_size * self.options.group_size
        with self._randomness_kept(loader):
            for batch in islice(loader.batches(size, np.arange(len(loader))), _COMPARED_BATCHES):
                outputs = self._outputs_of(batch)
                zeros = _mapped(torch.zeros_like, outputs)
                total += len(batch) * np.array([float(self.loss(given, batch)) for given in (outputs, zeros)])
        reached, mean_field = total.tolist()
        count = min(len(loader), size * _COMPARED_BATCHES)
        return reached / count, mean_field / count

    @contextmanager
    def _randomness_kept(self, loader: FieldLoader) -> Iterator[None]:
        """Leave all generators after the block as they were before it."""
        before = self._random_state_dict(loader)
        try:
            yield
        finally:
            self._random_states = before
            self._set_random_states(loader)

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
        loss = self._loss_of(batch)
        loss.backward()
        if self.options.max_grad_norm is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.options.max_grad_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        return loss.detach()

    def _loss_of(self, batch: Batch) -> torch.Tensor:
        """Loss of the network on a batch."""
        return self.loss(self._outputs_of(batch), batch)

    def _outputs_of(self, batch: Batch) -> Any:
        """Outputs of the network on a batch, in single precision at least."""
        autocast = self.options.autocast
        with torch.autocast(batch.coords.device.type, dtype=autocast, enabled=autocast is not None):
            outputs = self.forward(self.network, batch)
        return outputs if autocast is None else _mapped(_widened, outputs)

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
            part = max(part, self._seconds() / self.options.max_time)
        return min(part, 1.0)

    def _out_of_time(self) -> bool:
        """Whether the time budget is spent."""
        return self.options.max_time is not None and self._seconds() >= self.options.max_time

    def _seconds(self) -> float:
        """Time of this training, earlier runs of it included."""
        return self.elapsed + (0.0 if self.start is None else time.perf_counter() - self.start)

    # ------------------------------------------------------------------ best weights
    def _validation_error(self, validate: Callable[[], float]) -> float:
        """Validate, on averaged weights if there are any, and keep the weights if they are the best."""
        self.network.eval()
        with self._averages_swapped() if self.average is not None else nullcontext():
            error = validate()
            if error < self.best_error or self.best_weights is None:
                self.best_error, self.history.best_iter = error, len(self.history.loss_curve)
                self.best_weights = _copied(dict(self.network.state_dict()))
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

    # ------------------------------------------------------------------ states
    def _weights_finite(self) -> bool:
        """Whether all weights are finite: a gradient can overflow where the loss does not."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.network.parameters())

    @torch.no_grad()
    def _snapshot(self) -> dict[str, Any]:
        """Copy what an epoch changes: weights and buffers, averages, moments of the optimiser, the step."""
        names: dict[torch.Tensor, str] = {held: name for name, held in self.network.named_parameters()}
        average = self.average
        moments = {names[parameter]: state for parameter, state in self.optimizer.state.items()}
        mean = None if average is None else dict(zip(names.values(), average.mean, strict=True))
        state = {
            "network": dict(self.network.state_dict()),
            "optimizer": moments,
            "average": None if average is None else {"mean": mean, "steps": average.steps},
            "step": self.step,
        }
        return _copied(state)

    @torch.no_grad()
    def _restore(self, state: dict[str, Any]) -> None:
        """Go back to a snapshot, which stays as it is."""
        self.network.load_state_dict(state["network"])
        parameters = dict(self.network.named_parameters())
        self.optimizer.state.clear()
        for name, moments in state["optimizer"].items():
            parameter = parameters[name]
            self.optimizer.state[parameter] = {
                kind: value.to(parameter.device, copy=True) if torch.is_tensor(value) else value
                for kind, value in moments.items()
            }
        self.step = state["step"]
        if self.average is not None:
            for name, mean in zip(parameters, self.average.mean, strict=True):
                mean.copy_(state["average"]["mean"][name])
            self.average.steps = state["average"]["steps"]

    # ------------------------------------------------------------------ checkpoints
    def state_dict(self) -> dict[str, Any]:
        """Return everything that a training needs to go on, as nested dicts of tensors, numbers and strings.

        To be taken after an epoch, from `on_epoch_end`; when `run` is over the network holds the weights to keep,
        which are not those that a training goes on from. ``torch.save`` writes the state, and
        ``torch.load(weights_only=True)`` reads it.

        Returns
        -------
        dict
            Copies: ``"network"``, ``"optimizer"`` and ``"average"`` by the names of the parameters, ``"step"``,
            ``"rate_factor"``, ``"rollbacks"``, ``"history"``, ``"best_error"``, ``"best_weights"``, ``"random"`` (the
            states of all generators) and ``"elapsed"`` (seconds).
        """
        # While a callback runs, the network holds the averaged weights.
        with self._averages_swapped() if self.average is not None and self.average.is_swapped else nullcontext():
            state = self._snapshot()
        return state | {
            "rate_factor": self.rate_factor,
            "rollbacks": self.rollbacks,
            "history": asdict(self.history),
            "best_error": float(self.best_error),
            "best_weights": _copied(self.best_weights),
            "random": self._random_state_dict(self.loader),
            "elapsed": self._seconds(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of `state_dict` with the next `run`.

        The network, the loss and the options are the caller's to make as they were. Generators are set when `run`
        starts. A training that had ended for another reason than `early_stopping` goes on for as long as these
        options allow.

        Parameters
        ----------
        state : dict
            Result of `state_dict`; it is not changed.

        Raises
        ------
        ValueError
            If the state lacks a part, or one of the two has a running average and the other has not.
        RuntimeError
            If the network has other parameters.
        """
        missing = {"network", "optimizer", "average", "step", "rate_factor", "rollbacks", "history", "best_error"}
        missing = (missing | {"best_weights", "random", "elapsed"}) - set(state)
        if missing:
            raise ValueError(f"the state of a training needs {sorted(missing)}; pass what Trainer.state_dict returned.")
        if (state["average"] is None) != (self.average is None):
            came = "no running average" if state["average"] is None else "a running average"
            raise ValueError(f"the state has {came} of the weights, but ema_decay={self.options.ema_decay}.")
        self._restore(state)
        self.rate_factor, self.rollbacks = state["rate_factor"], state["rollbacks"]
        self.history = History(**{name: _copied(value) for name, value in state["history"].items()})
        if self.history.stopped != "early_stopping":
            self.history.stopped = "max_iter"
        self.best_error, self.best_weights = state["best_error"], _copied(state["best_weights"])
        self._random_states, self.elapsed = state["random"], state["elapsed"]

    @contextmanager
    def _averages_swapped(self) -> Iterator[None]:
        """Exchange weights and averages within the block."""
        assert self.average is not None
        self.average.swap()
        try:
            yield
        finally:
            self.average.swap()

    def _random_state_dict(self, loader: FieldLoader | None) -> dict[str, Any]:
        """States of the generators that a training draws from."""
        generator = getattr(loader, "generator", None)
        device = _device_of(self.network)
        return {
            "numpy": _plain(self.rng.get_state(legacy=False)),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
            "loader": None if generator is None else generator.get_state(),
        }

    def _set_random_states(self, loader: FieldLoader) -> None:
        """Set the generators to the states that were read, if any were."""
        states, self._random_states = self._random_states, None
        if states is None:
            return
        self.rng.set_state(states["numpy"])
        torch.set_rng_state(states["torch"].cpu())
        if states["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(states["cuda"].cpu(), _device_of(self.network))
        if states["loader"] is not None and loader.generator is not None:
            loader.generator.set_state(states["loader"].cpu())

    # ------------------------------------------------------------------ recovery
    def _roll_back(self, good: dict[str, Any], loss: float) -> None:
        """Return to the last good epoch at half the rate, or give up."""
        epoch = len(self.history.loss_curve) + 1
        self._restore(good)
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


def _call_network(network: nn.Module, batch: Batch) -> Any:
    """One call on the whole batch."""
    return network(**batch.inputs())


def _mapped(function: Callable[[torch.Tensor], torch.Tensor], outputs: Any) -> Any:
    """Apply a function to every tensor of a network's outputs."""
    if outputs is None:
        return None
    if isinstance(outputs, tuple):  # named, with None for what a network does not give
        return type(outputs)(*(_mapped(function, part) for part in outputs))
    return function(outputs)


def _widened(output: torch.Tensor) -> torch.Tensor:
    """A tensor of mixed precision in single precision at least."""
    return output.to(torch.promote_types(output.dtype, torch.float32))


def _copied(state: Any) -> Any:
    """A copy of nested dicts and lists that shares no tensor."""
    if isinstance(state, dict):
        return {name: _copied(value) for name, value in state.items()}
    if isinstance(state, list):
        return list(state)
    return state.detach().clone() if torch.is_tensor(state) else state


def _plain(state: Any) -> Any:
    """Nested dicts with lists of numbers in place of arrays."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def _device_of(network: nn.Module) -> torch.device:
    """Device of the network's parameters."""
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def _decay_groups(network: nn.Module, options: TrainerConfig) -> list[dict[str, Any]]:
    """Parameters that decay, and those that do not: vectors, and what its module names in `no_weight_decay`."""
    spared = {getattr(module, name) for module in network.modules() for name in getattr(module, "no_weight_decay", ())}
    groups: list[list[nn.Parameter]] = [[], []]
    for parameter in network.parameters():
        decays = options.decay_bias_and_norm or (parameter.ndim > 1 and parameter not in spared)
        groups[0 if decays else 1].append(parameter)
    rates = (options.weight_decay, 0.0)
    return [{"params": group, "weight_decay": rate} for group, rate in zip(groups, rates, strict=True) if group]
