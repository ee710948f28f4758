"""The training objective: a loss on a batch, in the units that suit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skop._typing import GridShape
from skop.data import Batch, FieldScaler
from skop.losses import TrainingLoss, get_loss

__all__ = ["Objective"]


class Objective:
    """A loss of network outputs on a batch.

    Relative losses are taken in physical units, absolute ones on scaled targets, so that channels of
    different units count alike.

    Parameters
    ----------
    loss : str or callable
        Name of a loss, or a loss.
    reduction : {"mean", "sum"}
        Over the samples of a batch, for named losses.
    scaler : FieldScaler
        Scaler of the targets.
    pooled : bool
        Whether targets are scalars, which form no grid.
    spacing : tuple of float or None
        Grid spacing, for losses with derivatives.
    """

    def __init__(
        self,
        loss: str | Callable[..., torch.Tensor],
        reduction: str,
        scaler: FieldScaler,
        *,
        pooled: bool,
        spacing: tuple[float, ...] | None,
    ) -> None:
        options: dict[str, Any] = {} if callable(loss) else {"reduction": reduction}
        self.loss = get_loss(loss, **options)
        self.scaler, self.pooled, self.spacing = scaler, pooled, None if pooled else spacing
        self.physical = getattr(self.loss, "physical_units", True)
        # Relative losses have no unit, but their squares under- and overflow in single precision. A
        # caller's own loss gets true physical units.
        ours = isinstance(self.loss, TrainingLoss) and scaler.mode is not None
        self.unit = float(np.max(np.abs(scaler.mean_) + scaler.scale_)) if ours else 1.0

    def __call__(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Return the loss of outputs ``(B, P, q)`` as a scalar tensor."""
        if batch.target is None:
            raise ValueError("a loss needs a batch with targets.")
        if self.physical:
            prediction, target = self.scaler.inverse_transform(outputs) / self.unit, batch.target / self.unit
        else:
            prediction, target = outputs, self.scaler.transform(batch.target)
        grid: GridShape | None = None if self.pooled else batch.grid_shape
        return self.loss(prediction, target, sample_weight=batch.weight, grid_shape=grid, spacing=self.spacing)
