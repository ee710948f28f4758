"""Training of time steps: teacher forcing, unrolling of several steps, and noise on the inputs.

Notation: B trajectories of a batch, S steps of each, P points, T points of all samples together, W frames of a window,
c channels of a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from skop._draws import draw_for_rows
from skop._typing import FloatArray
from skop.data import Batch
from skop.networks import Outputs

__all__ = ["StepForward"]


@dataclass
class StepForward:
    """Compute the outputs of all time steps of a batch in training, with unrolling and noise.

    A batch contains the S steps of B trajectories in order, as B S samples. Each sample is a window of W frames and the
    frame that follows. Steps 0, unroll, 2 unroll, ... start from the true window. The steps between continue from the
    network's own predictions, and gradients flow through them.

    Attributes
    ----------
    model : OperatorRegressor
        Estimator that is being fitted; its scalers are used during the training.
    n_steps : int
        Number S of steps of a trajectory.
    unroll : int
        Number of steps from one true window to the next.
    noise : float
        Standard deviation of the noise on the windows, in units of that of the field.
    deviation : ndarray of shape (W c,)
        Standard deviation of each channel of the windows in physical units.
    """

    model: Any
    n_steps: int
    unroll: int
    noise: float
    deviation: FloatArray

    def __call__(self, network: nn.Module, batch: Batch) -> Outputs:
        """Return one output for each sample of the batch, ``(B S, P, c)`` or packed ``(T, c)``."""
        if self.noise:
            batch = self._disturbed(batch)
        return network(**batch.inputs()) if self.unroll == 1 else self._unrolled(network, batch)

    def _disturbed(self, batch: Batch) -> Batch:
        """Return the batch with noise on its windows; the windows of tables are global parameters."""
        name = "params" if batch.fields is None else "fields"
        held, scaler = getattr(batch, name), getattr(self.model.scalers_, name)
        size = torch.as_tensor(self.noise * self.deviation / scaler.scale_, dtype=held.dtype, device=held.device)
        options: Any = {"dtype": held.dtype, "device": held.device}
        noise = draw_for_rows(lambda count: torch.randn(count, *held.shape[1:], **options), len(held))
        return replace(batch, **{name: held + size * noise})

    def _unrolled(self, network: nn.Module, batch: Batch) -> Outputs:
        """Run all segments of `unroll` steps in parallel, with one call of the network for each step of a segment."""
        scalers, fields = self.model.scalers_, batch.fields
        if fields is None:
            raise ValueError("unrolling needs windows of fields.")
        steps = np.arange(len(batch)) % self.n_steps
        rows = np.flatnonzero(steps % self.unroll == 0)
        outputs: list[Any] = [None] * len(batch)
        window = _take(fields, rows, batch.sizes)
        while len(rows):
            part = _part(batch, rows, window)
            output = network(**part.inputs()).field
            for row, piece in zip(rows, _pieces(output, part.sizes), strict=True):
                outputs[row] = piece
            goes_on = (steps[rows] + 1 < self.n_steps) & ((steps[rows] + 1) % self.unroll != 0)
            kept = np.flatnonzero(goes_on)
            frame = scalers.target.restore(_take(output, kept, part.sizes))
            past = scalers.fields.inverse_transform(_take(window, kept, part.sizes))
            window = scalers.fields.transform(torch.cat([past[..., frame.shape[-1] :], frame], dim=-1))
            rows = rows[kept] + 1
        return Outputs(torch.cat(outputs) if batch.sizes is not None else torch.stack(outputs))


def _pieces(values: torch.Tensor, sizes: Sequence[int] | None) -> tuple[torch.Tensor, ...]:
    """Split values into samples."""
    return values.unbind() if sizes is None else values.split(list(sizes))


def _take(values: torch.Tensor, rows: Sequence[int] | Any, sizes: Sequence[int] | None) -> torch.Tensor:
    """Select the values of some samples, in the layout of the batch."""
    if sizes is None:
        return values[torch.as_tensor(rows, device=values.device)]
    pieces = _pieces(values, sizes)
    return torch.cat([pieces[row] for row in rows]) if len(rows) else values[:0]


def _part(batch: Batch, rows: Any, window: torch.Tensor) -> Batch:
    """Select some samples of a batch, with new windows."""
    shared = batch.sizes is None and batch.coords.ndim == 2
    return replace(
        batch,
        coords=batch.coords if shared else _take(batch.coords, rows, batch.sizes),
        fields=window,
        params=None if batch.params is None else _take(batch.params, rows, None),
        sizes=None if batch.sizes is None else tuple(batch.sizes[row] for row in rows),
    )
