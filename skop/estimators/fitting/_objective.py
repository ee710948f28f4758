"""What the trainer gets of the parameters of an operator: objective and settings; and the errors that judge it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from skop._typing import FloatArray, IntArray
from skop.data import Batch, FieldLoader, FieldScaler, FieldSet, Predictions, Scalers, Targets, iterate_rows
from skop.losses import TrainingLoss, get_loss
from skop.metrics._flat import norms_of_fields, relative_errors, relative_errors_of_scalars, sizes_of_channels
from skop.networks import Outputs
from skop.training import DIRECT_TRAINING, TrainerConfig, TrainingPlan

__all__ = [
    *("AUTOMATIC_LOSSES", "Errors", "Objective", "SampleErrors"),
    *("loss_name", "objective_of", "trainer_config", "validation_error"),
]

#: Meaning of ``loss="auto"`` for fields, and for scalars alone.
AUTOMATIC_LOSSES = ("sobolev", "mse")
#: The same for the steps of a rollout: slopes lower the error of one step, and raise that of ten.
_LOSS_OF_STEPS = "relative_l2"
#: Number of points, and least and largest number of samples, of a mini-batch for ``batch_size="auto"``. On point sets
#: most layers act on single points, so small batches already give gradients of low variance and allow more steps.
_BATCHES = {"grid": (2**13, 8, 16), "structured": (2**12, 1, 8), "points": (2**12, 1, 8)}
#: Lower the least number of samples so that a mini-batch has at most this number of points, to bound the memory.
_LARGEST_BATCH_POINTS = 2**17

#: Errors of samples, of fields and of scalars, (n,).
Errors = tuple[FloatArray | None, FloatArray | None]


class Objective:
    """Loss of the network's outputs on a batch.

    Relative losses are computed in physical units, also where the network learns logarithms. Absolute losses are
    computed on scaled targets, where channels with different units have the same weight. If there are scalars in
    addition to a field, their squared error on scaled targets is added.

    Parameters
    ----------
    loss : str or callable
        Loss, or its name.
    reduction : {"mean", "sum"}
        Reduction over the samples of a batch, for losses given by name.
    scalers : Scalers
        Scalers of the targets.
    spacing : tuple of float or None
        Grid spacing of the target fields, for losses with derivatives.
    scalar_weight : float, default=1.0
        Weight of the loss of scalars that are predicted in addition to a field.
    balanced : bool, default=False
        Whether a relative loss divides each channel by its deviation, instead of using physical units.
    """

    def __init__(
        self,
        loss: str | Callable[..., torch.Tensor],
        reduction: str,
        scalers: Scalers,
        *,
        spacing: tuple[float, ...] | None,
        scalar_weight: float = 1.0,
        balanced: bool = False,
    ) -> None:
        scaler = scalers.scalars if scalers.target is None else scalers.target
        if scaler is None:
            raise ValueError("scalers have neither a field nor scalars to predict; expected at least one.")
        deviations, sizes = scaler.deviations()
        units = np.where(deviations > 0, deviations, scaler.size_) if balanced else scaler.size_.max()
        options: dict[str, Any] = {} if callable(loss) else {"reduction": reduction}
        if loss == "sobolev" and deviations.any():
            options["deviation"] = float(np.linalg.norm(deviations / units) / np.linalg.norm(sizes / units))
        self.loss = get_loss(loss, **options)
        _check_call(self.loss)
        self.scalar_loss = get_loss("mse", reduction=reduction)
        self.scalers, self.scalar_weight = scalers, scalar_weight
        self.spacing = spacing
        self.physical = getattr(self.loss, "physical_units", True)
        # Relative losses do not depend on the unit, but squares of very small or large values under- or overflow in
        # single precision, so values are divided by their size. A user's loss function gets physical units.
        ours = isinstance(self.loss, TrainingLoss) and (scaler.mode, scaler.function) != (None, None)
        self.unit = np.asarray(units) if ours else np.ones(())

    @property
    def reduction(self) -> str | None:
        """Reduction over the samples of a batch; None if it is not known or not the same for fields and scalars."""
        own = getattr(self.loss, "reduction", None) if isinstance(self.loss, TrainingLoss) else None
        return own if own == getattr(self.scalar_loss, "reduction", None) else None

    def __call__(self, outputs: Outputs, batch: Batch) -> torch.Tensor:
        """Return the loss of a network's outputs as a scalar tensor."""
        if batch.target is None and batch.scalars is None:
            raise ValueError("the batch has no targets, which the loss needs; expected a field or scalars.")
        if outputs.field is None:
            return self._loss_of_scalars(outputs.scalars, batch)
        loss = self._loss_of_field(outputs.field, batch)
        if outputs.scalars is None:
            return loss
        if batch.scalars is None or self.scalers.scalars is None:
            raise ValueError("the network gives scalars, but the batch holds none.")
        targets = self.scalers.scalars.standardize(batch.scalars)
        beside = self.scalar_loss(outputs.scalars[:, None], targets[:, None], sample_weight=batch.weight)
        return loss + self.scalar_weight * beside

    def _in_units(
        self, outputs: torch.Tensor, target: torch.Tensor, scaler: FieldScaler
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Convert outputs and targets to the units of the loss."""
        if not self.physical:
            return outputs, scaler.standardize(target)
        unit = torch.as_tensor(self.unit)
        if scaler.function is None:
            values, unit = scaler.restore(outputs), unit.to(outputs)
            return values / unit, target / unit
        # Squares of samples that differ by many orders of magnitude under- or overflow in single precision.
        wide = outputs.dtype if outputs.device.type == "mps" else torch.float64
        shift = unit.log().to(outputs.device, wide)
        return (scaler.destandardize_outputs(outputs.to(wide)) - shift).exp(), (target.to(wide) - shift).exp()

    def _loss_of_field(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Loss of a field ``(B, P, q)`` or packed ``(T, q)``, at query points if the batch has them."""
        if batch.target is None or self.scalers.target is None:
            raise ValueError("the network gives a field, but the batch holds none.")
        prediction, target = self._in_units(outputs, batch.target, self.scalers.target)
        options: dict[str, Any] = {"sample_weight": batch.weight}
        sizes, grid = batch.sizes, batch.grid_shape
        if batch.queries is not None:
            sizes, grid = batch.query_sizes, batch.query_grid
        elif batch.order is not None and grid is not None:
            # The neighbours on a grid are those of the caller's order.
            places = torch.as_tensor(batch.order.argsort(), device=outputs.device)
            prediction, target = (part.flatten(0, 1)[places].view_as(part) for part in (prediction, target))
        if sizes is not None and outputs.ndim == 2:
            prediction, target, options["mask"] = _padded(prediction, target, sizes)
        if batch.neighbours is not None:
            options["neighbours"] = batch.neighbours
        if batch.target_sizes is not None:
            counts = torch.as_tensor(prediction.shape[1] if sizes is None else sizes).to(prediction)
            rows = batch.target_sizes / torch.as_tensor(self.unit).to(prediction)
            options["norm"] = counts.sqrt() * torch.linalg.vector_norm(rows, dim=1)
        found = self.loss(prediction, target, grid_shape=grid, spacing=self.spacing, **options)
        return _checked(found, prediction)

    def _loss_of_scalars(self, outputs: torch.Tensor | None, batch: Batch) -> torch.Tensor:
        """Loss of scalars alone, as the channels of one point ``(B, 1, s)``."""
        if outputs is None or batch.scalars is None or self.scalers.scalars is None:
            raise ValueError("a loss needs outputs of the network, and a batch with targets of the same kind.")
        prediction, target = self._in_units(outputs, batch.scalars, self.scalers.scalars)
        weight = batch.weight
        found = self.loss(prediction[:, None], target[:, None], sample_weight=weight, grid_shape=None, spacing=None)
        return _checked(found, prediction)


def _check_call(loss: Callable[..., torch.Tensor]) -> None:
    """Raise an error if a loss function of the user does not take what it gets."""
    # Modules take any arguments, and pass them on.
    taken = loss.forward if isinstance(loss, torch.nn.Module) else loss
    try:
        inspect.signature(taken).bind(None, None, sample_weight=None, grid_shape=None, spacing=None)
    except TypeError as error:
        raise ValueError(
            f"loss={loss!r} cannot be called as loss(prediction, target, sample_weight=..., grid_shape=..., "
            f"spacing=...): {error}; let it take these, or **options for what it does not use."
        ) from error


def _checked(loss: Any, prediction: torch.Tensor) -> torch.Tensor:
    """Raise an error if a loss function of the user gives no scalar tensor, or one that cannot be differentiated."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise TypeError(f"loss gives {came}; expected a tensor with one number, which torch can differentiate.")
    if prediction.requires_grad and not loss.requires_grad:
        raise TypeError(
            "loss gives a tensor without a gradient; compute it from the prediction by torch operations, without "
            "detach(), numpy or torch.no_grad()."
        )
    return loss


def _padded(
    prediction: torch.Tensor, target: torch.Tensor, sizes: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pad packed samples to a common size, with a mask of the real points, since losses are computed per sample."""
    prediction, target = (pad_sequence(part.split(sizes), batch_first=True) for part in (prediction, target))
    counts = torch.tensor(sizes, device=prediction.device)
    mask = torch.arange(prediction.shape[1], device=prediction.device) < counts[:, None]
    return prediction, target, mask


def loss_name(model: Any, plan: TrainingPlan) -> Any:
    """Return the loss of an operator; for ``"auto"`` the name of that for fields, steps of a rollout, or scalars."""
    if model.loss != "auto":
        return model.loss
    fields, scalars = AUTOMATIC_LOSSES
    if not model.spec_.n_outputs:
        return scalars
    return _LOSS_OF_STEPS if plan.feeds_back else fields


def objective_of(model: Any, spacing: tuple[float, ...] | None, plan: TrainingPlan = DIRECT_TRAINING) -> Objective:
    """Build the training objective from the parameters of an operator."""
    training = model._options("training")
    return Objective(
        loss_name(model, plan),
        training.loss_reduction,
        model.scalers_,
        spacing=spacing,
        scalar_weight=training.scalar_weight,
        balanced=model.loss == "auto" and model.spec_.n_outputs > 1,
    )


def trainer_config(model: Any, points: FieldSet, plan: TrainingPlan) -> TrainerConfig:
    """Convert the parameters of an operator to settings of the trainer, for samples with these points."""
    training, n_samples = model._options("training"), len(points) // plan.group_size
    batch_size = model.batch_size
    if isinstance(batch_size, str):
        # Tables: as scikit-learn's multilayer perceptron. Fields: few enough samples for several steps in an epoch
        # and for the memory.
        together = plan.group_size if plan.grouping == "together" else 1
        n_points = min(int(np.ceil(points.n_points.mean())), training.subsample_points or np.inf)
        n_together, least, largest = _BATCHES[model.geometry_]
        fields = max(int(n_together // n_points), min(least, int(_LARGEST_BATCH_POINTS // n_points)))
        fields = min(largest, fields) // together
        table = model.spec_.has_features
        batch_size = min(200, n_samples) if table else max(1, min(fields, n_samples // 8))
        batch_size = batch_size if table else model._largest_batch(batch_size, points)
    return TrainerConfig(
        max_iter=int(model.max_iter),
        batch_size=int(batch_size),
        learning_rate=float(model.learning_rate_init),
        training=type(training)(**training.values()),
        weight_decay=float(model.weight_decay),
        max_time=None if model.max_time is None else float(model.max_time),
        group_size=plan.group_size,
        grouping=plan.grouping,
        keep_end=model.warm_start,
    )


class SampleErrors:
    """Relative errors of the present weights on some samples, or on runs of frames, for fields and scalars."""

    def __init__(self, model: Any, targets: Targets, loader: FieldLoader, n_frames: int) -> None:
        self.model, self.targets, self.loader, self.n_frames = model, targets, loader, n_frames
        field = targets.field
        pieces = [] if field is None else (values.reshape(-1, field.n_channels) for _, values in iterate_rows(field))
        self.sizes = None if field is None else sizes_of_channels(pieces)

    def __call__(self) -> Errors:
        """Compute them."""
        norms, scalars, field = [], [], self.targets.field

        def compare(indices: IntArray, found: Predictions) -> None:
            """Compare the predictions of some samples with the truth."""
            if found.fields is not None and field is not None:
                part, n_channels = field[indices], field.n_channels
                true, predicted = (np.asarray(held).reshape(-1, n_channels) for held in (part.values, found.fields))
                norms.append(norms_of_fields(true, predicted, part.n_points, self.sizes))
            if found.scalars is not None:
                scalars.append(found.scalars)

        # Without averaging over symmetries, which would multiply the time of every validation.
        self.model.surrogate_.pass_predictions(self.loader, compare)
        of_scalars = None
        if scalars and self.targets.scalars is not None:
            of_scalars = self._of_runs(relative_errors_of_scalars(self.targets.scalars, np.concatenate(scalars)))
        if not norms:
            return None, of_scalars
        error, size = (self._of_runs(np.concatenate(part)) for part in zip(*norms, strict=True))
        return relative_errors([(error, size)]), of_scalars

    def _of_runs(self, errors: FloatArray) -> FloatArray:
        """Root mean square over the frames of each run, whose error is relative to the whole run as in a score."""
        if self.n_frames == 1:
            return errors
        return np.asarray(np.sqrt(np.square(errors).reshape(-1, self.n_frames).mean(axis=1)))


def validation_error(errors: Callable[[], Errors]) -> float:
    """Validation error of the present weights, which is 1 - `score`, from the errors of the samples."""
    fields, scalars = errors()
    means = [] if fields is None else [np.mean(fields)]
    means += [] if scalars is None else [np.sqrt(np.mean(scalars**2))]
    return float(np.mean(means))
