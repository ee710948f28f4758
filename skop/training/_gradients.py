"""Loss of a network on batches, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from skop._draws import part_of_draws
from skop.data import Batch, FieldLoader
from skop.exceptions import warn
from skop.training._config import TrainerConfig
from skop.training._distributed import Group
from skop.training._memory import is_out_of_memory, naming_memory
from skop.training._parts import split_batch

__all__ = ["Gradients"]

#: Number of batches on which a training is compared with predicting the mean field.
_COMPARED_BATCHES = 4


class Gradients:
    """Compute the gradients of a loss on a batch, in smaller parts where the memory is too small."""

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Any, Batch], torch.Tensor],
        options: TrainerConfig,
        group: Group,
        forward: Callable[[nn.Module, Batch], Any] | None,
    ) -> None:
        self.network, self.loss, self.options, self.group = network, loss, options, group
        self.forward = _call_network if forward is None else forward
        self.weights: list[torch.Tensor] = list(network.parameters())
        #: Number of parts in which batches are taken that are too large for the memory.
        self.n_parts = 1
        #: Reduction of the loss over samples; None if it is not known, as for a user's function.
        self.reduction: str | None = getattr(loss, "reduction", None)
        #: Number of samples of a batch that belong together.
        self.unit = options.group_size if options.grouping == "together" else 1

    def require_shares(self) -> None:
        """Raise an error if processes share the batches, but it is not known how the loss follows from its parts."""
        if self.group.size > 1 and self.reduction is None:
            raise ValueError(
                f"{self.group.size} processes share each batch, but it is not known whether the loss is a mean or a "
                "sum over samples; take a loss by name, or of skop.losses with the reduction of "
                "training__loss_reduction, or set training__distributed=False."
            )

    def naming_memory(self) -> AbstractContextManager[None]:
        """Context in which an error says what makes a step smaller, if its memory is too small."""
        size = self.options.batch_size
        smaller = f"batch_size={size // 2}, " if size > 1 else ""
        advice = f"Set {smaller}a smaller width or depth, or training__subsample_points for point clouds; "
        advice += "estimate_cost(X, y) says how much memory a fit needs"
        return naming_memory(f"a training step with batch_size={size}", advice)

    def set(self, batch: Batch) -> torch.Tensor:
        """Set the gradients of the weights to those on a batch; return the loss."""
        while True:
            self.forget()
            loss = None
            try:
                loss = self._accumulate(batch)
            except (MemoryError, RuntimeError) as error:
                if not (is_out_of_memory(error) and self._can_halve(batch)):
                    raise
            # After the handler, whose error holds the tensors of the step.
            total = self.group.add_up(self.weights, loss)
            if total is not None:
                return total
            self._halve(batch)

    def forget(self) -> None:
        """Drop the gradients of the last step, which take as much memory as the weights."""
        for weight in self.weights:
            weight.grad = None

    def outputs_of(self, batch: Batch) -> Any:
        """Outputs of the network on a batch, in float32 or float64."""
        name = self.options.training.autocast
        autocast = None if name is None else getattr(torch, name)
        with torch.autocast(batch.coords.device.type, dtype=autocast, enabled=autocast is not None):
            outputs = self.forward(self.network, batch)
        return outputs if autocast is None else _mapped(_widened, outputs)

    @torch.no_grad()
    def losses_beside_mean_field(self, loader: FieldLoader) -> tuple[float, float]:
        """Mean loss on the first batches, of the network and of outputs of zero."""
        total = np.zeros(2)
        size = max(1, self.options.batch_size // self.n_parts) * self.options.group_size
        for batch in islice(loader.batches(size, np.arange(len(loader))), _COMPARED_BATCHES):
            outputs = self.outputs_of(batch)
            with torch.enable_grad():  # a user's loss may differentiate the outputs
                both = [_mapped(_as_leaf, given) for given in (outputs, _mapped(torch.zeros_like, outputs))]
                total += len(batch) * np.array([self.loss(given, batch).item() for given in both])
        reached, mean_field = total.tolist()
        count = min(len(loader), size * _COMPARED_BATCHES)
        return reached / count, mean_field / count

    def _accumulate(self, batch: Batch) -> torch.Tensor:
        """Compute the gradients on a batch, or add up those on its parts; return the loss."""
        total: Any = 0.0
        ranks = {"rank": self.group.rank, "n_ranks": self.group.size}
        for part, share, places in split_batch(batch, self.n_parts, self.reduction or "mean", self.unit, **ranks):
            with part_of_draws(*places):
                loss = self.loss(self.outputs_of(part), part) * share
            loss.backward()
            total = total + loss.detach()
        return total

    def _can_halve(self, batch: Batch) -> bool:
        """Whether a batch has more samples, or groups of them, for each process than it is taken in parts."""
        n_units = -(-(len(batch) // self.unit) // self.group.size)
        return self.reduction is not None and self.n_parts < n_units

    def _halve(self, batch: Batch) -> None:
        """Take batches in twice as many parts from now on."""
        self.n_parts *= 2
        self.forget()
        if batch.coords.device.type == "cuda":
            torch.cuda.empty_cache()
        warn(
            f"a training step ran out of memory; batches such as that of {len(batch)} samples are now taken in up to "
            f"{self.n_parts} parts, with the same gradients. A smaller batch_size, width or depth saves this."
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
