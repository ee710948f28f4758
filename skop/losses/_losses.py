"""The losses themselves, and their names.

Notation: B samples of a batch, P points of a sample, c channels. Fields are flat
points with channels last, (B, P, c); on a regular grid the points are in C order (last axis
fastest). u is the target, û the prediction.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from skop._typing import GridShape
from skop.exceptions import FieldDataError
from skop.losses._differences import (
    check_grid,
    check_neighbours,
    count_entries,
    interior,
    neighbour_difference,
    neighbour_norm,
    one_sided_difference,
    sample_norm,
    zero_padded_difference,
)
from skop.losses._training_loss import NORM_FLOOR, Reduction, TrainingLoss, check_gradient_weight, check_reduction

__all__ = ["GradientRelativeL2Loss", "MSELoss", "RelativeL2Loss", "SobolevLoss", "get_loss"]

#: Slopes of a sample count as far as its values are learned, by this power of that part (docs/decisions.md).
_LEARNED = 4


@dataclass(frozen=True, kw_only=True)
class RelativeL2Loss(TrainingLoss):
    """Relative L2 norm of the error: ||û - u|| / ||u|| per sample, over all points and channels.

    Parameters
    ----------
    reduction : {"mean", "sum"}, default="mean"
        Over the batch. The scripts published with LaMO and Transolver take the sum.

    Notes
    -----
    A target norm below 1e-8 is replaced by 1e-8, so a target of zeros gives a finite (large) loss. The
    gradient at û = u, where the norm has a kink, is 0.

    References
    ----------
    LaMO (Tiwari et al., ICML 2025), appendix on the training configuration.

    Examples
    --------
    >>> import torch
    >>> from skop.losses import RelativeL2Loss
    >>> target = torch.tensor([[[3.0], [4.0]]])
    >>> round(RelativeL2Loss()(1.1 * target, target).item(), 6)
    0.1
    """

    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_reduction(self.reduction)

    def _per_sample(
        self,
        prediction: Tensor,
        target: Tensor,
        mask: Tensor | None,
        grid_shape: GridShape | None,
        neighbours: Tensor | None,
        norm: Tensor,
    ) -> Tensor:
        """||û - u|| / max(||u||, floor)."""
        return sample_norm(prediction - target) / norm


@dataclass(frozen=True, kw_only=True)
class GradientRelativeL2Loss(TrainingLoss):
    """Relative L2 loss plus the relative L2 loss of each partial derivative, on a regular grid.

    l = ||û - u|| / ||u|| + gradient_weight · Σ_a ||∂_a û - ∂_a u|| / ||∂_a u||, the sum running over the axes
    of the grid (one to three).

    Parameters
    ----------
    gradient_weight : float, default=0.1
        Weight of the derivative terms, >= 0; 0.1 is the value of LaMO, GeoMaNO and ONO for Darcy flow.
    boundary : {"zero", "one_sided"}, default="zero"
        How derivatives are taken at the border. "zero" is the published loss for fields that vanish on the
        boundary: central differences with zeros one step outside the domain, after the outermost ring of
        the prediction (never of the target) has been set to 0, for the derivative terms only.
        "one_sided" stays inside the domain with second-order one-sided differences and touches nothing: for
        fields with other boundary values.
    reduction : {"mean", "sum"}, default="mean"
        Over the batch; the published scripts take the sum.

    Notes
    -----
    The spacing of the grid cancels in each quotient and is ignored. A difference whose stencil touches a
    masked point is left out. A target that is constant along an axis has a zero derivative there, and its
    norm is replaced by 1e-8 as in `RelativeL2Loss`; prefer `SobolevLoss` for such fields.

    References
    ----------
    LaMO (Tiwari et al., ICML 2025), appendix on the training configuration; ONO (Xiao et al., "Improved
    operator learning by orthogonal attention", arXiv:2310.12487), where the term comes from.

    Examples
    --------
    >>> import torch
    >>> from skop.losses import GradientRelativeL2Loss
    >>> x = torch.linspace(0, 1, 9)
    >>> bump = (x * (1 - x))[None, :, None]
    >>> round(GradientRelativeL2Loss()(1.1 * bump, bump, grid_shape=(9,)).item(), 6)
    0.11
    """

    gradient_weight: float = 0.1
    boundary: Literal["zero", "one_sided"] = "zero"
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_reduction(self.reduction)
        check_gradient_weight(self.gradient_weight)
        if self.boundary not in ("zero", "one_sided"):
            raise ValueError(f"boundary is {self.boundary!r}, expected 'zero' or 'one_sided'.")

    def _per_sample(
        self,
        prediction: Tensor,
        target: Tensor,
        mask: Tensor | None,
        grid_shape: GridShape | None,
        neighbours: Tensor | None,
        norm: Tensor,
    ) -> Tensor:
        """Relative norm of the error and, weighted, of the error of each partial derivative."""
        grid = check_grid(grid_shape, prediction.shape[1], type(self).__name__)
        loss = sample_norm(prediction - target) / norm
        if self.boundary == "zero":
            prediction = torch.where(interior(grid, prediction.device), prediction, 0.0)
        for axis in range(len(grid)):
            error_slope = self._difference(prediction - target, mask, grid, axis)
            target_slope = self._difference(target, mask, grid, axis)
            loss = loss + self.gradient_weight * _relative_norm(error_slope, target_slope)
        return loss

    def _difference(self, field: Tensor, mask: Tensor | None, grid: GridShape, axis: int) -> Tensor:
        """Differentiate along one axis in units of the spacing, with the border as `boundary` says."""
        if self.boundary == "zero":
            return zero_padded_difference(field, mask, grid, axis)
        return one_sided_difference(field, mask, grid, axis, spacing=1.0)


@dataclass(frozen=True, kw_only=True)
class SobolevLoss(TrainingLoss):
    """Relative L2 error of the values plus that of the slopes, on a grid or at points with their neighbours.

    l = e + gradient_weight · max(1 - e, 0)⁴ · |û - u| / max(|u|, d ||u||), with e = ||û - u|| / (d ||u||), d the
    `deviation` and |v|² = Σ_a ||∂_a v||² over all axes. A slope is the difference of two neighbours over their distance
    in a grid of the unit box; points are taken to lie as dense as those of a grid. The factor (1 - e)⁴ is a number for
    the gradient.

    Parameters
    ----------
    gradient_weight : float, default=1.0
        Weight of the slopes, >= 0; 0 leaves the error of the values.
    deviation : float, default=1.0
        Root mean square of the deviations of the training targets from their mean, as a part of the root mean square of
        the targets: above 0, at most 1. Fits with ``loss="sobolev"``, the default for fields, set it, so that 300 K
        count as 27 °C do.
    reduction : {"mean", "sum"}, default="mean"
        Over the batch.

    Notes
    -----
    Networks learn small structures late. The error of the slopes counts them more than the error of the values does,
    and the sum leaves to both their share, however large slopes are: the H1 norm of a field with fronts or steep slopes
    is that of the slopes alone. Neither depends on the units of the coordinates. Slopes of a field that hardly changes
    are compared with its values. As long as the values of a sample are wrong, its slopes count little: networks that
    had few samples learned neither of the two otherwise. Differences at masked points are left out.

    References
    ----------
    W. M. Czarnecki et al., "Sobolev training for neural networks", NeurIPS 2017; N. Cho, J. Ryu and H. J. Hwang,
    "Sobolev training for operator learning", arXiv:2402.09084.

    Examples
    --------
    >>> import torch
    >>> from skop.losses import SobolevLoss
    >>> x = torch.linspace(0, 1, 5)[None, :, None]
    >>> round(SobolevLoss()(1.1 * x, x, grid_shape=(5,)).item(), 6)
    0.16561
    """

    gradient_weight: float = 1.0
    deviation: float = 1.0
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_reduction(self.reduction)
        check_gradient_weight(self.gradient_weight)
        if not 0 < self.deviation <= 1:
            raise ValueError(f"deviation is {self.deviation!r}, expected a number > 0 and <= 1.")

    def _per_sample(
        self,
        prediction: Tensor,
        target: Tensor,
        mask: Tensor | None,
        grid_shape: GridShape | None,
        neighbours: Tensor | None,
        norm: Tensor,
    ) -> Tensor:
        """Quotients of norms of the error and the target, for the values and for the slopes."""
        if grid_shape is None and neighbours is None:
            raise FieldDataError(
                f"{type(self).__name__} takes slopes, but grid_shape and neighbours are both None. Give the grid, or "
                "the neighbours of each point; 'relative_l2' takes none."
            )
        if grid_shape is None:
            check_neighbours(neighbours, prediction)
        error = prediction - target
        size = (self.deviation * norm).clamp_min(NORM_FLOOR)
        slopes, target_slopes = (_slope_norm(field, mask, grid_shape, neighbours) for field in (error, target))
        values = sample_norm(error) / size
        # A gradient of this factor would raise the error of the values.
        weight = self.gradient_weight * (1 - values.detach()).clamp_min(0) ** _LEARNED
        return values + weight * slopes / torch.maximum(target_slopes, size)


@dataclass(frozen=True, kw_only=True)
class MSELoss(TrainingLoss):
    """Mean squared error over the real points and the channels of each sample.

    Parameters
    ----------
    reduction : {"mean", "sum"}, default="mean"
        Over the batch; the mean over points and channels is taken either way.

    References
    ----------
    The loss of MNO (Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for
    PDEs").

    Examples
    --------
    >>> import torch
    >>> from skop.losses import MSELoss
    >>> MSELoss()(torch.ones(2, 3, 1), torch.zeros(2, 3, 1)).item()
    1.0
    """

    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_reduction(self.reduction)

    @property
    def physical_units(self) -> bool:
        """False: squared errors of channels can be added only after scaling."""
        return False

    def _per_sample(
        self,
        prediction: Tensor,
        target: Tensor,
        mask: Tensor | None,
        grid_shape: GridShape | None,
        neighbours: Tensor | None,
        norm: Tensor,
    ) -> Tensor:
        """Sum of squares divided by the number of real entries."""
        return (prediction - target).square().flatten(1).sum(1) / count_entries(prediction, mask)


_LOSSES: dict[str, type[Any]] = {
    "relative_l2": RelativeL2Loss,
    "relative_l2_gradient": GradientRelativeL2Loss,
    "sobolev": SobolevLoss,
    "mse": MSELoss,
}


def get_loss(loss: str | Callable[..., Tensor], **options: Any) -> Callable[..., Tensor]:
    """Loss from its name; a callable is returned as it is.

    Parameters
    ----------
    loss : {"relative_l2", "relative_l2_gradient", "sobolev", "mse"} or callable
        Name of a loss, or an object with the call signature of `TrainingLoss`.
    **options : dict
        Parameters of the named loss, for example ``reduction="sum"``.

    Returns
    -------
    callable
        The loss.

    Raises
    ------
    ValueError
        If the name is unknown, or options come with a callable.

    Examples
    --------
    >>> from skop.losses import get_loss
    >>> get_loss("relative_l2_gradient", reduction="sum")
    GradientRelativeL2Loss(gradient_weight=0.1, boundary='zero', reduction='sum')
    """
    if isinstance(loss, str) and loss in _LOSSES:
        return _LOSSES[loss](**options)
    if isinstance(loss, str | type) or not callable(loss):
        raise ValueError(f"loss is {loss!r}, expected one of {sorted(_LOSSES)} or a callable object.")
    if options:
        raise ValueError(f"options {sorted(options)} belong to a named loss; set them on the object itself.")
    return loss


def _relative_norm(error: Tensor, target: Tensor) -> Tensor:
    """||error|| / max(||target||, floor) per sample."""
    return sample_norm(error) / sample_norm(target).clamp_min(NORM_FLOOR)


def _slope_norm(field: Tensor, mask: Tensor | None, grid_shape: GridShape | None, neighbours: Tensor | None) -> Tensor:
    """Norm per sample of all slopes in the unit box."""
    if grid_shape is None and neighbours is not None:
        return neighbour_norm(field, mask, neighbours)
    grid = check_grid(grid_shape, field.shape[1], "SobolevLoss", least=1)
    norms = [sample_norm(neighbour_difference(field, mask, grid, axis)) for axis in range(len(grid))]
    return torch.linalg.vector_norm(torch.stack(norms), dim=0)
