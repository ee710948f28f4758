"""What all training losses share: the call, the checks, masking and the reduction over the batch.

Notation: B samples of a batch, P points of a sample, c channels. Fields are flat
points with channels last, (B, P, c); on a regular grid the points are in C order (last axis
fastest).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from skop._typing import FieldTensor, GridShape, MaskTensor
from skop.exceptions import FieldDataError
from skop.losses._differences import sample_norm

__all__ = ["NORM_FLOOR", "Reduction", "TrainingLoss", "check_gradient_weight", "check_reduction"]

Reduction = Literal["mean", "sum"]

#: Smallest norm of a target that a relative loss divides by.
NORM_FLOOR = 1e-8


class TrainingLoss(ABC):
    """Base of the losses: checks, masking and the reduction over the batch.

    A subclass is a frozen dataclass with a field ``reduction`` and the method ``_per_sample``.

    Notes
    -----
    Masked points contribute nothing: value and gradient are exactly 0 there, whatever the padded
    entries hold. Half-precision tensors are converted to float32 before any sum.
    """

    reduction: Reduction

    @property
    def physical_units(self) -> bool:
        """Whether the loss is meant for fields in physical units (relative) or scaled ones (absolute).

        A relative error after standardisation is relative to the spread of the data and not to the field;
        an absolute error in physical units depends on the unit and lets the largest channel dominate.
        """
        return True

    def __call__(
        self,
        prediction: FieldTensor,
        target: FieldTensor,
        *,
        mask: MaskTensor | None = None,
        sample_weight: Tensor | None = None,
        grid_shape: GridShape | None = None,
        neighbours: Tensor | None = None,
        spacing: Sequence[float] | None = None,
        norm: Tensor | None = None,
    ) -> Tensor:
        """Loss of a batch.

        Parameters
        ----------
        prediction, target : Tensor of shape (B, P, c)
            Predicted and true fields; scalars per sample are fields with P = 1.
        mask : Tensor of bool of shape (B, P), optional
            True where a point is real, False where it is padding. Default: every point is real.
        sample_weight : Tensor of shape (B,), optional
            Non-negative weights. The mean becomes Σ w l / Σ w (0 if all weights are 0) and the sum Σ w l.
        grid_shape : tuple of int, optional
            Points along each axis of a regular grid, with prod(grid_shape) = P.
        neighbours : Tensor of int of shape (B, P, k) or (P, k), optional
            Nearest neighbours of each point among those of its sample, 2 for each dimension of the space. Losses with
            slopes take these where there is no grid.
        spacing : sequence of float, optional
            Distance of neighbouring points along each axis, which functions of users may need; not used, since no loss
            here depends on the units of the coordinates.
        norm : Tensor of shape (B,), optional
            Norms to which errors of the values are relative, such as that of the run of a frame. Default: those of the
            targets. Squared errors are not relative.

        Returns
        -------
        Tensor of shape ()
            Weighted mean or sum of the losses of the samples.

        Raises
        ------
        FieldDataError
            If the shapes do not fit together, or the loss needs a grid, or neighbours, and none are given.
        """
        losses = self.per_sample(prediction, target, mask=mask, grid_shape=grid_shape, neighbours=neighbours, norm=norm)
        if sample_weight is None:
            return losses.mean() if self.reduction == "mean" else losses.sum()
        if sample_weight.shape != losses.shape:
            raise FieldDataError(
                f"sample_weight has shape {tuple(sample_weight.shape)}, expected {tuple(losses.shape)}: "
                "one weight per sample of the batch."
            )
        weight = sample_weight.to(losses)
        total = (weight * losses).sum()
        if self.reduction == "sum":
            return total
        weight_sum = weight.sum()
        return total / torch.where(weight_sum > 0, weight_sum, 1.0)

    def per_sample(
        self,
        prediction: FieldTensor,
        target: FieldTensor,
        *,
        mask: MaskTensor | None = None,
        grid_shape: GridShape | None = None,
        neighbours: Tensor | None = None,
        norm: Tensor | None = None,
    ) -> Tensor:
        """Loss of each sample, before weights and the reduction over the batch.

        Parameters
        ----------
        prediction, target : Tensor of shape (B, P, c)
            Predicted and true fields.
        mask : Tensor of bool of shape (B, P), optional
            True where a point is real.
        grid_shape : tuple of int, optional
            Points along each axis of a regular grid.
        neighbours : Tensor of int of shape (B, P, k) or (P, k), optional
            Nearest neighbours of each point.
        norm : Tensor of shape (B,), optional
            Norms to which errors of the values are relative.

        Returns
        -------
        Tensor of shape (B,)
            One loss per sample.
        """
        _check_shapes(prediction, target, mask, norm)
        if prediction.dtype in (torch.float16, torch.bfloat16):
            prediction = prediction.float()
        if mask is not None:
            # where, not a product: 0 · NaN is NaN, and padding may hold anything.
            prediction = torch.where(mask[..., None], prediction, 0.0)
            target = torch.where(mask[..., None], target, 0.0)
        target = target.to(prediction.dtype)
        norm = (sample_norm(target) if norm is None else norm.to(prediction.dtype)).clamp_min(NORM_FLOOR)
        return self._per_sample(prediction, target, mask, grid_shape, neighbours, norm)

    @abstractmethod
    def _per_sample(
        self,
        prediction: Tensor,
        target: Tensor,
        mask: Tensor | None,
        grid_shape: GridShape | None,
        neighbours: Tensor | None,
        norm: Tensor,
    ) -> Tensor:
        """Loss (B,) of checked tensors whose masked entries are 0, and norms (B,) of the targets."""


def check_reduction(reduction: str) -> None:
    """Refuse an unknown reduction."""
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is {reduction!r}, expected 'mean' or 'sum'.")


def check_gradient_weight(weight: float) -> None:
    """Refuse a negative weight."""
    if not weight >= 0:
        raise ValueError(f"gradient_weight is {weight!r}, expected a number >= 0.")


def _check_shapes(prediction: Tensor, target: Tensor, mask: Tensor | None, norm: Tensor | None) -> None:
    """Refuse shapes that would broadcast to a wrong loss without notice."""
    if prediction.ndim != 3 or prediction.shape != target.shape:
        raise FieldDataError(
            f"prediction has shape {tuple(prediction.shape)} and target {tuple(target.shape)}, expected "
            "(batch, points, channels), the same for both; scalars per sample are (batch, 1, scalars)."
        )
    if mask is not None and (mask.dtype != torch.bool or mask.shape != prediction.shape[:2]):
        raise FieldDataError(
            f"mask has shape {tuple(mask.shape)} and dtype {mask.dtype}, expected "
            f"{tuple(prediction.shape[:2])} and torch.bool, True at the real points."
        )
    if norm is not None and norm.shape != prediction.shape[:1]:
        raise FieldDataError(
            f"norm has shape {tuple(norm.shape)}, expected {tuple(prediction.shape[:1])}: one norm per sample of the "
            "batch."
        )
