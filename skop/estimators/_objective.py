"""The training objective: a loss on a batch, in the units that suit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from skop._typing import GridShape
from skop.data import Batch, FieldScaler, Scalers
from skop.losses import TrainingLoss, get_loss

__all__ = ["Objective"]

Outputs = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


class Objective:
    """A loss of network outputs on a batch.

    Relative losses are taken in physical units, absolute ones on scaled targets, so that channels of
    different units count alike. Scalars beside a field add their squared error on scaled targets.

    Parameters
    ----------
    loss : str or callable
        Name of a loss, or a loss.
    reduction : {"mean", "sum"}
        Over the samples of a batch, for named losses.
    scalers : Scalers
        Scalers of the targets.
    pooled : bool
        Whether targets are scalars alone, which form no grid.
    spacing : tuple of float or None
        Grid spacing, for losses with derivatives.
    scalar_weight : float, default=1.0
        Weight of the scalars beside a field.
    balanced : bool, default=False
        Count the channels alike in a relative loss, each in units of its size, and not in physical units.
    """

    def __init__(
        self,
        loss: str | Callable[..., torch.Tensor],
        reduction: str,
        scalers: Scalers,
        *,
        pooled: bool,
        spacing: tuple[float, ...] | None,
        scalar_weight: float = 1.0,
        balanced: bool = False,
    ) -> None:
        options: dict[str, Any] = {} if callable(loss) else {"reduction": reduction}
        self.loss = get_loss(loss, **options)
        self.scalar_loss = get_loss("mse", reduction=reduction)
        self.scalers, self.scalar_weight = scalers, scalar_weight
        self.pooled, self.spacing = pooled, None if pooled else spacing
        self.physical = getattr(self.loss, "physical_units", True)
        scaler = scalers.target
        # Relative losses have no unit, but their squares under- and overflow in single precision. A
        # caller's own loss gets true physical units.
        ours = isinstance(self.loss, TrainingLoss) and scaler.mode is not None
        sizes = np.hypot(scaler.mean_, scaler.scale_).reshape(-1, scaler.mean_.shape[-1]).max(axis=0)
        self.unit = (sizes if balanced else sizes.max()) if ours else np.ones(())

    def __call__(self, outputs: Outputs, batch: Batch) -> torch.Tensor:
        """Return the loss of a network's outputs as a scalar tensor."""
        if not isinstance(outputs, tuple):
            return self._field_loss(outputs, batch)
        field, scalars = outputs
        return self._field_loss(field, batch) + self.scalar_weight * self._scalar_loss(scalars, batch)

    def _field_loss(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Loss of a field ``(B, P, q)`` or packed ``(T, q)``, or of scalars alone ``(B, 1, q)``."""
        if batch.target is None:
            raise ValueError("a loss needs a batch with targets.")
        scaler: FieldScaler = self.scalers.target
        if self.physical:
            physical = scaler.inverse_transform(outputs)
            unit = torch.as_tensor(self.unit, dtype=physical.dtype, device=physical.device)
            prediction, target = physical / unit, batch.target / unit
        else:
            prediction, target = outputs, scaler.transform(batch.target)
        mask = None
        if batch.sizes is not None and outputs.ndim == 2:
            prediction, target, mask = _padded(prediction, target, batch.sizes)
        grid: GridShape | None = None if self.pooled else batch.grid_shape
        options: dict[str, Any] = {} if mask is None else {"mask": mask}
        return self.loss(
            prediction, target, sample_weight=batch.weight, grid_shape=grid, spacing=self.spacing, **options
        )

    def _scalar_loss(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Squared error of scaled scalars beside a field."""
        if batch.scalars is None or self.scalers.scalars is None:
            raise ValueError("the network gives scalars, but the batch holds none.")
        return self.scalar_loss(outputs, self.scalers.scalars.transform(batch.scalars), sample_weight=batch.weight)


def _padded(
    prediction: torch.Tensor, target: torch.Tensor, sizes: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Packed samples side by side, and where they are real: losses reduce each sample on its own."""
    prediction, target = (pad_sequence(part.split(sizes), batch_first=True) for part in (prediction, target))
    counts = torch.tensor(sizes, device=prediction.device)
    mask = torch.arange(prediction.shape[1], device=prediction.device) < counts[:, None]
    return prediction, target, mask
