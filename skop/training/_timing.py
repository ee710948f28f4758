"""Time and memory of an epoch, measured on a few of its steps.

Notation: n batches of an epoch, m of them that are timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray, IntArray
from skop.data import FieldLoader
from skop.training._loop import Trainer
from skop.training._monitors import Validation

__all__ = ["EpochCost", "measure_epoch"]

#: Number of batches that are timed, spread over all sizes.
_BATCHES = 5
#: Steps that are timed at least, and seconds after which no more are.
_STEPS, _PATIENCE = 3, 10.0
#: Steps between two waits for a GPU, which works while the next step is prepared.
_GPU_STEPS = 8


@dataclass(frozen=True)
class EpochCost:
    """Cost of an epoch.

    Attributes
    ----------
    seconds : float
        Duration, validation included.
    n_steps : int
        Number of optimiser steps.
    memory : int
        Approximate peak memory of the training in bytes: the samples as tensors; weights, gradients, optimiser, average
        and the copies of these; what the largest batch leaves for the backward pass; and twice the largest of these
        tensors, for gradients that pass through. Neither the process nor X and y themselves are in it.
    """

    seconds: float
    n_steps: int
    memory: int


def measure_epoch(trainer: Trainer, loader: FieldLoader, *, seconds: float = 1.0) -> EpochCost:
    """Measure what an epoch will cost, by some steps of a training that has not begun and will not go on.

    After one untimed step, in which kernels are compiled, batches from the smallest to the largest are timed. The time
    of the others is interpolated by their number of points. At least so many seconds are spent on steps, for a mean
    over many short ones. The weights of the training change.
    """
    trainer.start_on(loader)
    trainer.network.train()
    rounds = trainer._rounds(np.random.RandomState(0))
    batches = [order[start : start + size] for order, size in rounds for start in range(0, len(order), size)]
    points = np.array([_n_points(loader, batch) for batch in batches])
    chosen = np.argsort(points, kind="stable")[_spread(len(batches))]
    largest = batches[int(points.argmax())]
    saved = _SavedTensors(trainer.state.weights)
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
        _step(trainer, loader, largest)
    found = _time_steps(trainer, loader, [batches[number] for number in chosen], seconds)
    sizes, of_size = np.unique(points[chosen[: len(found)]], return_inverse=True)
    times = np.bincount(of_size, weights=found) / np.bincount(of_size)
    total = float(np.interp(points, sizes, times).sum()) + _time_of_the_end(trainer)
    return EpochCost(total, trainer.clock.epoch_steps, saved.peak + _held_memory(trainer, loader))


def _n_points(loader: FieldLoader, batch: IntArray) -> int:
    """Number of points of a batch, those at which outputs are computed included."""
    counts = np.minimum(loader.inputs.n_points[batch], loader.subsample_points or np.inf)
    asked = 0 if loader.queries is None else loader.queries.n_points[batch].sum()
    return int(counts.sum() + asked)


def _spread(count: int) -> IntArray:
    """Ranks from the smallest to the largest batch, in the order in which they are timed: the middle and ends first."""
    ranks = np.unique(np.linspace(0, count - 1, min(count, _BATCHES)).round().astype(int))
    ends = [len(ranks) // 2, len(ranks) - 1, 0]
    return ranks[list(dict.fromkeys([*ends, *range(len(ranks))]))]


def _step(trainer: Trainer, loader: FieldLoader, batch: IntArray) -> None:
    """Load a batch and take a step with it."""
    for loaded in loader.batches(len(batch), batch):
        trainer._train_step(loaded)


def _time_steps(trainer: Trainer, loader: FieldLoader, batches: list[IntArray], seconds: float) -> FloatArray:
    """Median time of a step of each batch, or of the first of them if steps take long."""
    times: list[list[float]] = [[] for _ in batches]
    on_gpu = loader.device.type == "cuda"
    repeats, n_timed, start = _GPU_STEPS if on_gpu else 1, 0, time.perf_counter()
    while True:
        for batch, own in zip(batches, times, strict=True):
            passed = time.perf_counter() - start
            if n_timed >= _STEPS and (passed >= _PATIENCE or (n_timed >= len(batches) and passed >= seconds)):
                return np.array([np.median(each) for each in times if each])
            own.append(_duration(partial(_step, trainer, loader, batch), loader.device, repeats))
            n_timed += 1


def _duration(work: Callable[[], Any], device: torch.device, repeats: int = 1) -> float:
    """Mean time of some work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / repeats


def _time_of_the_end(trainer: Trainer) -> float:
    """Time of what follows the steps of an epoch: the check and the copy of the weights, and validation."""
    state, device = trainer.state, trainer.state.device

    def check_and_copy() -> None:
        """What follows the last step."""
        state.is_finite()
        state.mark()

    check_and_copy()
    taken = _duration(check_and_copy, device, _STEPS)
    for monitor in trainer.monitors:
        first = _duration(partial(monitor.rehearse, trainer), device)
        # The first one may have compiled something.
        taken += _duration(partial(monitor.rehearse, trainer), device) if first < _PATIENCE else first
    return taken


def _held_memory(trainer: Trainer, loader: FieldLoader) -> int:
    """Bytes of the samples, and of weights, gradients, moments and averages with their copies."""
    weights, changing = _n_bytes(trainer.state.weights), _n_bytes(trainer.state.tensors())
    average = 0 if trainer.average is None else weights
    # Each of them once, in the copy of the last good epoch, and in that of the start, which has no moments.
    state = 2 * changing + weights + average
    best = weights * any(isinstance(monitor, Validation) for monitor in trainer.monitors)
    ends = changing * trainer.options.keep_end
    return state + weights + best + ends + loader.n_bytes


def _n_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of some tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class _SavedTensors:
    """Sizes of the tensors that a forward pass leaves for the backward pass; weights are not counted."""

    def __init__(self, weights: list[torch.Tensor]) -> None:
        self.weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self.sizes: dict[int, int] = {}

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note the memory of a tensor, once however many of its views are saved."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.weights:
            self.sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    def unpack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Give the tensor back."""
        return tensor

    @property
    def peak(self) -> int:
        """Bytes of all of them, and of two gradients of the size of the largest."""
        return sum(self.sizes.values()) + 2 * max(self.sizes.values(), default=0)
