"""Images of samples under declared symmetries: of a base, which is averaged over them, and of what a fit has seen.

Notation: n samples, P points, d space dimensions, p global parameters, q output channels, s scalars.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np
import torch

from skop._typing import FloatArray
from skop.data import DataSpec, Extremes, FieldSet, MappedSymmetries, PointSymmetries, Scalers, Targets, with_points
from skop.exceptions import FieldDataError
from skop.surrogate._domain import SeenRanges
from skop.surrogate._novelty import Novelty, features, reference_of
from skop.surrogate._symmetries import declared_symmetries

__all__ = [
    "Exchange",
    "exchange_of",
    "images_of",
    "moving_symmetries",
    "novelty_of_images",
    "with_exchange",
    "with_images",
]

#: Largest number of images whose ranges are computed, and of values of their samples, but at least so many samples.
_KEPT, _VALUES, _LEAST = 16_000, 2**25, 16
#: Largest number of values, and of samples, whose images are compared at once with those of a fit.
_COMPARED, _AT_ONCE = 2**22, 256


def moving_symmetries(
    options: Any, spec: DataSpec, points: FloatArray, columns: Sequence[str] | None, centre: FloatArray | None = None
) -> PointSymmetries:
    """Return the declared symmetries without periodic shifts, as symmetries that move points.

    Parameters
    ----------
    options : SymmetryOptions
        Declared symmetries.
    spec : DataSpec
        Sizes and names of the data.
    points : ndarray of shape (m, d)
        Points, or corners of the box, of the fit.
    columns : sequence of str or None
        Names of the global parameters.
    centre : ndarray of shape (d,) or None, default=None
        Centre of the named symmetries where no domain is declared; None is that of the box of the points.

    Returns
    -------
    PointSymmetries
        Symmetries.
    """
    lower, upper = points.min(axis=0), points.max(axis=0)
    names = [name for name in options.names if not name.startswith("shift")]
    fixed = copy.copy(options).set_params(names=names)
    centre = (lower + upper) / 2 if centre is None else centre
    return cast(
        "PointSymmetries", declared_symmetries(fixed, spec, None, centre, float(np.max(upper - lower)), columns)
    )


# ---------------------------------------------------------------------- a base
@dataclass(frozen=True, eq=False)
class Exchange:
    """Images of samples whose points declared symmetries map onto each other, and means over them.

    Attributes
    ----------
    symmetries : MappedSymmetries
        Symmetries.
    scalers : Scalers
        Scalers of the fit.
    """

    symmetries: MappedSymmetries
    scalers: Scalers

    @property
    def order(self) -> int:
        """Number of images of a sample."""
        return self.symmetries.order

    def params(self, number: int, params: torch.Tensor) -> torch.Tensor:
        """Return global parameters (n, p) of one image, differentiably."""
        drawn = self.symmetries.element(number, len(params))
        return self.symmetries.turn_numbers(params, *drawn, self.symmetries.param_vectors)

    def inputs(self, number: int, inputs: FieldSet) -> FieldSet:
        """Return one image of each sample."""
        held, params, drawn = self.symmetries, inputs.params, self.symmetries.element(number, len(inputs))
        if inputs.values is not None:
            fields = held.apply(_as_tensor(inputs.values), *drawn, held.input_vectors, held.input_tensors)
            inputs = inputs.with_values(fields.numpy(), inputs.channel_names).with_params(params)
        return inputs if params is None else inputs.with_params(self.params(number, _as_tensor(params)).numpy())

    def targets(self, number: int, targets: Targets) -> Targets:
        """Return one image of the targets of each sample."""
        held, drawn, field, scalars = self.symmetries, self.symmetries.element(number, len(targets)), None, None
        if targets.field is not None:
            moved = held.apply(_as_tensor(targets.field.values), *drawn, held.target_vectors, held.target_tensors)
            field = targets.field.with_values(moved.numpy(), targets.field.channel_names)
        if targets.scalars is not None:
            scalars = held.turn_numbers(_as_tensor(targets.scalars), *drawn, held.scalar_vectors).numpy()
        return Targets(field, scalars, targets.elsewhere)

    def mean(
        self, predict: Callable[[int], Sequence[torch.Tensor | None]]
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return the mean of the standardised fields (n, P, q) and scalars (n, s) of the images, each brought back."""
        held, parts = self.symmetries, list[Any]([None, None])
        for number in range(self.order):
            field, scalars = predict(number)
            if field is not None and self.scalers.target is not None:
                field = held.undo(self.scalers.target.destandardize(field), *held.element(number, len(field)))
            if scalars is not None and self.scalers.scalars is not None:
                drawn = held.element(number, len(scalars))
                scalars = self.scalers.scalars.destandardize(scalars)
                scalars = held.turn_numbers(scalars, *drawn, held.scalar_vectors, back=True)
            parts = [own if whole is None else whole + own for whole, own in zip(parts, (field, scalars), strict=True)]
        field, scalars = (
            None if part is None or scaler is None else scaler.standardize(part / self.order)
            for part, scaler in zip(parts, (self.scalers.target, self.scalers.scalars), strict=True)
        )
        return field, scalars


def exchange_of(
    options: Any, spec: DataSpec, points: FloatArray, columns: Sequence[str] | None, scalers: Any
) -> Exchange | None:
    """Return the images over which a base on these points (P, d) is averaged; None if no points are there."""
    try:
        return Exchange(MappedSymmetries(moving_symmetries(options, spec, points, columns), points), scalers)
    except FieldDataError:
        return None


def with_exchange(base: Any, options: Any, spec: DataSpec, columns: Callable[..., Any], scalers: Any) -> Any:
    """Return a base, averaged over the images of a sample where predictions are; columns are told of a spec."""
    if base is None or base.images is None or options is None or not options.average_predictions:
        return base
    found = exchange_of(options, spec, base.points, columns(spec), scalers)
    # Symmetries can be declared anew after a fit; one set of points has the same ones wherever matrices are the same.
    own = None if found is None else found.symmetries.matrices
    is_same = own is not None and own.shape == base.images.shape and np.allclose(own, base.images)
    return replace(base, exchange=found if is_same else None)


# ---------------------------------------------------------------------- what a fit has seen
def images_of(symmetries: PointSymmetries, inputs: FieldSet) -> Iterator[FieldSet]:
    """Yield the images of samples in memory under each symmetry but the identity, with 24 angles for any angle."""
    values, params, sizes = inputs.values, inputs.params, inputs.n_points
    for turn, shift in zip(*(part[1:] for part in symmetries.dense), strict=True):
        image = with_points(inputs, (inputs.coords - symmetries.centre) @ turn.T + (symmetries.centre + shift))
        turns = torch.from_numpy(turn).expand(len(inputs), -1, -1)
        if values is not None:
            channels = symmetries.input_vectors, symmetries.input_tensors
            fields = symmetries.apply(_as_tensor(values), turns, *channels, sizes).numpy()
            image = image.with_values(fields, inputs.channel_names).with_params(params)
        if params is not None:
            turned = symmetries.turn_numbers(_as_tensor(params), turns, turns, symmetries.param_vectors)
            image = image.with_params(turned.numpy())
        yield image


def with_images(seen: SeenRanges, symmetries: PointSymmetries, inputs: FieldSet, targets: Targets) -> SeenRanges:
    """Return the ranges of a fit and of the images of its samples, or of some of many.

    Parameters
    ----------
    seen : SeenRanges
        Ranges of the samples.
    symmetries : PointSymmetries
        Declared symmetries.
    inputs : FieldSet
        Samples.
    targets : Targets
        Their targets.

    Returns
    -------
    SeenRanges
        Ranges, and medians of the parameters.
    """
    if len(symmetries.dense[0]) < 2:
        return seen
    size = inputs.n_points.mean() * (inputs.n_dims + inputs.n_channels + targets.n_outputs)
    count = max(min(_KEPT // len(symmetries.dense[0]), int(_VALUES / size)), _LEAST)
    rows = np.unique(np.linspace(0, len(inputs) - 1, count).astype(int))
    inputs, targets = inputs.read(rows), targets.read(rows)
    has_fields = bool(symmetries.input_vectors or symmetries.input_tensors)
    found = [seen]
    for image, outputs in zip(images_of(symmetries, inputs), _outputs_of(symmetries, targets), strict=True):
        extremes = Extremes.of(np.asarray(image.values), image) if has_fields else None
        found.append(SeenRanges.from_fit(image, extremes, *outputs))
    whole = reduce(SeenRanges.joined, found)
    medians = [part.medians for part in found if part.medians is not None]
    return replace(whole, medians=np.median(medians, axis=0)) if medians else whole


def _outputs_of(symmetries: PointSymmetries, targets: Targets) -> Iterator[tuple[Extremes | None, FloatArray | None]]:
    """Statistics of the fields, and scalars, of images of targets; None where nothing of them turns."""
    turns_fields, field = bool(symmetries.target_vectors or symmetries.target_tensors), targets.field
    for turn in symmetries.dense[0][1:]:
        turns, extremes, scalars = torch.from_numpy(turn).expand(len(targets), -1, -1), None, targets.scalars
        if field is not None and (turns_fields or symmetries.scalar_vectors):
            channels = symmetries.target_vectors, symmetries.target_tensors
            values = symmetries.apply(_as_tensor(field.values), turns, *channels, field.n_points).numpy()
            extremes = Extremes.of(values, field)
        if scalars is not None:
            scalars = symmetries.turn_numbers(_as_tensor(scalars), turns, turns, symmetries.scalar_vectors).numpy()
        yield extremes, scalars


def novelty_of_images(estimator: Any, inputs: FieldSet, symmetries: PointSymmetries | None) -> Novelty:
    """Scores and quantiles of samples, each of that image which is nearest to the training samples of an estimator."""
    reference = reference_of(estimator)
    points = features(estimator, inputs)
    found = reference.novelty(points)
    if symmetries is None or not reference.has_images:
        return found
    size = float(np.mean(inputs.n_points)) * max(inputs.n_dims + inputs.n_channels, 1)
    step = max(1, min(_AT_ONCE, int(_COMPARED / max(size, 1.0))))
    for start in range(0, len(inputs), step):
        rows = slice(start, start + step)
        for image in images_of(symmetries, inputs.read(rows)):
            moved = reference.of_image(image, points[rows])
            # Samples may have been moved with the points that they share, or have stayed on them.
            for other in [moved, reference.at_points_of(points[rows], moved)] if image.shared_coords else [moved]:
                for least, own in zip(found, reference.novelty(other), strict=True):
                    np.minimum(least[rows], own, out=least[rows])
    return found


def _as_tensor(numbers: Any) -> torch.Tensor:
    """Copy of numbers in double precision."""
    return torch.from_numpy(np.array(numbers, dtype=np.float64))
