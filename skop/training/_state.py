"""What a training changes: its network, optimiser and weight average, and the random number generators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from skop.data import FieldLoader
from skop.training._averaging import WeightAverage
from skop.training._config import TrainerConfig
from skop.training._continuation import TrainingEnd
from skop.training._optimizer import make_optimizer

__all__ = ["RandomStates", "TrainingState", "copied"]


@dataclass
class _Copy:
    """Copy of a `TrainingState`: its tensors, its steps, and the number of weights that had moments."""

    tensors: list[torch.Tensor]
    step: int = 0
    average_steps: int = 0
    n_moments: int = 0


class TrainingState:
    """Weights, buffers, moments and weight average of a training: their update, and copies of them to go back to."""

    def __init__(self, network: nn.Module, options: TrainerConfig) -> None:
        training = options.training
        self.network, self.max_grad_norm = network, training.max_grad_norm
        # Walking through the modules of a network takes as long as a small layer.
        self.weights: list[torch.Tensor] = list(network.parameters())
        self.has_buffers = any(True for _ in network.buffers())
        self.optimizer = make_optimizer(
            network,
            training.optimizer,
            learning_rate=options.learning_rate,
            weight_decay=options.weight_decay,
            decay_bias_and_norm=training.decay_bias_and_norm,
            beta_2=training.beta_2,
        )
        self.average = None if training.ema_decay is None else WeightAverage(network, training.ema_decay)
        #: Number of rounds of batches so far, which is the place in the schedule.
        self.step = 0
        self.best: dict[str, Any] | None = None
        self._first: _Copy | None = None
        self._good: _Copy | None = None

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.weights[0].device if self.weights else torch.device("cpu")

    def update(self) -> None:
        """Move the weights against their gradients, which are clipped if that is asked for, and average them."""
        if self.max_grad_norm is not None:
            nn.utils.clip_grad_norm_(self.weights, self.max_grad_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()

    def averaged(self) -> AbstractContextManager[None]:
        """Context in which the network holds the averaged weights, if there are any."""
        return nullcontext() if self.average is None else self.average.swapped()

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Whether all weights are finite; a gradient can overflow even if the loss does not."""
        # A finite norm means finite weights. An infinite one may come from the overflow of a square, so look closer.
        if bool(torch.isfinite(torch.stack(torch._foreach_norm(self.weights)).sum())):
            return True
        return all(bool(torch.isfinite(weight).all()) for weight in self.weights)

    # ------------------------------------------------------------------ copies in memory
    def tensors(self) -> list[torch.Tensor]:
        """List what steps change in place: weights, buffers, averages, and last the moments of the optimiser."""
        buffers = self.network.buffers() if self.has_buffers else ()
        mean = () if self.average is None else self.average.mean
        moments = (value for state in self.optimizer.state.values() for value in state.values())
        return [*self.weights, *buffers, *mean, *moments]

    def begin(self) -> None:
        """Copy the state at the start."""
        self._first, self._good = self._copied(None), None

    def mark(self) -> None:
        """Copy the state as a good one, in place of the last good one."""
        self._good = self._copied(self._good)

    def move_to(self, step: int) -> None:
        """Set the place in the schedule, in the last good state too."""
        self.step = step
        if self._good is not None:
            self._good.step = step

    def go_back(self, *, to_start: bool = False) -> None:
        """Return to the last good state, or to that at the start if there is none or this is asked for."""
        copy = self._first if to_start or self._good is None else self._good
        assert copy is not None
        with torch.no_grad():
            for parameter in list(self.optimizer.state)[copy.n_moments :]:
                del self.optimizer.state[parameter]
            torch._foreach_copy_(self.tensors(), copy.tensors)
        self.step = copy.step
        if self.average is not None:
            self.average.steps = copy.average_steps

    def drop_copies(self) -> None:
        """Free the memory of the copies."""
        self._first = self._good = None

    @torch.no_grad()
    def _copied(self, storage: _Copy | None) -> _Copy:
        """Copy the state, into the storage of an earlier copy where it fits."""
        tensors = self.tensors()
        # The optimiser makes the moments of a weight in the first step in which the weight has a gradient.
        if storage is None or len(storage.tensors) != len(tensors):
            storage = _Copy([tensor.detach().clone() for tensor in tensors])
        else:
            # A single call, so that an interrupt cannot leave half of a copy.
            torch._foreach_copy_(storage.tensors, tensors)
        storage.step, storage.n_moments = self.step, len(self.optimizer.state)
        storage.average_steps = 0 if self.average is None else self.average.steps
        return storage

    def keep_best(self) -> None:
        """Copy the weights and buffers that the network holds now, as the best ones."""
        self.best = copied(dict(self.network.state_dict()))

    def take_best(self) -> bool:
        """Put the final weights into the network: the best ones if there are any, else the averaged or last ones."""
        if self.best is not None:
            self.network.load_state_dict(self.best)
        elif self.average is not None:
            self.average.swap()
        return self.best is not None

    # ------------------------------------------------------------------ checkpoints, and the end
    def state_dict(self) -> dict[str, Any]:
        """Return copies by the names of the parameters, also while the network holds the averaged weights."""
        average = self.average
        with average.swapped() if average is not None and average.is_swapped else nullcontext():
            names: dict[torch.Tensor, str] = {held: name for name, held in self.network.named_parameters()}
            mean = None if average is None else dict(zip(names.values(), average.mean, strict=True))
            return {
                "network": copied(dict(self.network.state_dict())),
                "optimizer": copied({names[held]: moments for held, moments in self.optimizer.state.items()}),
                "average": None if average is None else copied({"mean": mean, "steps": average.steps}),
                "step": self.step,
            }

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint, which is not modified."""
        if (state["average"] is None) != (self.average is None):
            came = "no running average" if state["average"] is None else "a running average"
            now = None if self.average is None else self.average.decay
            raise ValueError(f"the state has {came} of the weights, but ema_decay={now}.")
        self.network.load_state_dict(state["network"])
        self.optimizer.state.clear()
        self._set_moments(state["optimizer"])
        if self.average is not None:
            for (name, _), mean in zip(self.network.named_parameters(), self.average.mean, strict=True):
                mean.copy_(state["average"]["mean"][name])
            self.average.steps = state["average"]["steps"]
        self.step, self.best = state["step"], copied(state["best_weights"])

    def end(self, rate_factor: float) -> TrainingEnd:
        """Return what another training continues, before the final weights are put into the network."""
        state, average = self.state_dict(), self.average
        return TrainingEnd(
            weights=state["network"],
            optimizer=type(self.optimizer).__name__,
            moments=state["optimizer"],
            mean=None if average is None else list(state["average"]["mean"].values()),
            average_steps=0 if average is None else average.steps,
            rate_factor=rate_factor,
        )

    @torch.no_grad()
    def continue_from(self, end: TrainingEnd) -> None:
        """Go on from the end of an earlier training of the network, which is not modified."""
        average = self.average
        # Without an average before or now, the network keeps its weights, and the average starts from them. Another
        # optimiser starts with moments of its own.
        if (average is None) == (end.mean is None):
            self.network.load_state_dict(end.weights)
        if average is not None and end.mean is not None:
            torch._foreach_copy_(average.mean, [mean.to(average.mean[0].device) for mean in end.mean])
            average.steps = end.average_steps
        if type(self.optimizer).__name__ == end.optimizer:
            self._set_moments(end.moments)

    def _set_moments(self, moments: dict[str, dict[str, torch.Tensor]]) -> None:
        """Give the optimiser copies of moments, by the names of the parameters."""
        parameters = dict(self.network.named_parameters())
        for name, own in moments.items():
            # The optimiser counts its steps on the CPU or on the device, as its kernels ask for.
            held = parameters[name]
            self.optimizer.state[held] = {kind: value.to(held.device, copy=True) for kind, value in own.items()}


class RandomStates:
    """Random number generators of a training: of the order of its samples, of torch, and of the loader."""

    def __init__(self, rng: np.random.RandomState, device: torch.device) -> None:
        self.rng, self.device = rng, device
        #: Training samples, which may be changed at random by a generator of their own.
        self.loader: FieldLoader | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return the present states."""
        generator = getattr(self.loader, "generator", None)
        return {
            "numpy": _plain(self.rng.get_state(legacy=False)),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            "loader": None if generator is None else generator.get_state(),
        }

    def load_state_dict(self, states: dict[str, Any]) -> None:
        """Set the generators to what `state_dict` returned."""
        self.rng.set_state(states["numpy"])
        torch.set_rng_state(states["torch"].cpu())
        if states["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(states["cuda"].cpu(), self.device)
        generator = getattr(self.loader, "generator", None)
        if states["loader"] is not None and generator is not None:
            generator.set_state(states["loader"].cpu())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Restore the states after the block."""
        before = self.state_dict()
        try:
            yield
        finally:
            self.load_state_dict(before)


def copied(state: Any) -> Any:
    """Copy nested dicts and lists, including all tensors."""
    if isinstance(state, dict):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, list):
        return list(state)
    return state.detach().clone() if torch.is_tensor(state) else state


def _plain(state: Any) -> Any:
    """Replace the arrays in nested dicts by lists of numbers."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
