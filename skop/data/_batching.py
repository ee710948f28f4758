"""Turn FieldSets into batches of tensors for a network.

Letters of the shapes: B samples of a batch, P points, d space dimensions, c channels, p parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray, GridShape, IntArray
from skop.data._checks import iterate_rows
from skop.data._fieldset import FieldSet
from skop.data._scalers import BoxScaler, FieldScaler
from skop.data._symmetry import GridSymmetries
from skop.exceptions import FieldDataError

__all__ = ["Batch", "FieldLoader", "Scalers"]


@dataclass
class Batch:
    """Tensors of a few samples.

    Attributes
    ----------
    coords : Tensor of shape (P, d) or (B, P, d)
        Scaled coordinates.
    fields : Tensor of shape (B, P, c) or None
        Scaled input fields.
    params : Tensor of shape (B, p) or None
        Scaled global parameters.
    grid_shape : tuple of int or None
        Points along each axis.
    target : Tensor of shape (B, P, c) or None
        Targets in physical units.
    weight : Tensor of shape (B,) or None
        Sample weights.
    """

    coords: torch.Tensor
    fields: torch.Tensor | None
    params: torch.Tensor | None
    grid_shape: GridShape | None
    target: torch.Tensor | None = None
    weight: torch.Tensor | None = None

    def inputs(self) -> dict[str, Any]:
        """Return what a network's ``forward`` takes, by name."""
        return {"coords": self.coords, "fields": self.fields, "params": self.params, "grid_shape": self.grid_shape}

    def __len__(self) -> int:
        held = self.fields if self.fields is not None else self.params if self.params is not None else self.coords
        return len(held)


@dataclass
class Scalers:
    """The scalers of one fit.

    Attributes
    ----------
    coords : BoxScaler
        Of the coordinates.
    fields, params : FieldScaler or None
        Of input fields and global parameters, where there are any.
    target : FieldScaler
        Of the outputs.
    """

    coords: BoxScaler
    fields: FieldScaler | None
    params: FieldScaler | None
    target: FieldScaler

    @classmethod
    def fit(
        cls, inputs: FieldSet, targets: FieldSet, weight: FloatArray, input_mode: str | None, target_mode: str | None
    ) -> Scalers:
        """Take all statistics on training samples.

        Parameters
        ----------
        inputs, targets : FieldSet
            Training part.
        weight : ndarray of shape (n,)
            Sample weights.
        input_mode, target_mode : {"channel", "point", None}
            How fields are scaled; parameters are scaled per parameter, coordinates to the unit box.

        Returns
        -------
        Scalers
            Fitted.
        """
        params = inputs.params
        return cls(
            coords=BoxScaler().fit(inputs.coords),
            fields=_fit_fields(inputs, weight, input_mode) if inputs.n_channels else None,
            params=None if params is None else FieldScaler("channel").fit(lambda: iter([(params[:, None], weight)])),
            target=_fit_fields(targets, weight, target_mode),
        )


def _fit_fields(fields: FieldSet, weight: FloatArray, mode: str | None) -> FieldScaler:
    """Fit a field scaler in pieces of bounded size."""

    def chunks() -> Iterator[tuple[FloatArray, FloatArray]]:
        if fields.is_ragged:
            yield from ((values[None], weight[i : i + 1]) for i, values in enumerate(_each(fields)))
            return
        for start, values in iterate_rows(fields):
            yield values, weight[start : start + len(values)]

    return FieldScaler(mode).fit(chunks)


def _each(fields: FieldSet) -> Iterator[FloatArray]:
    """Values of one sample after the other."""
    return (values for sample in fields if (values := sample.values) is not None)


class FieldLoader:
    """Batches of a FieldSet, scaled and on the device.

    Sets in memory are converted once; others are read batch by batch.

    Parameters
    ----------
    inputs : FieldSet
        Samples.
    scalers : Scalers
        Fitted scalers.
    targets : FieldSet or None, default=None
        Targets on the same points.
    weight : ndarray of shape (n,) or None, default=None
        Sample weights.
    device, dtype : torch.device, torch.dtype
        Where tensors go and their precision.
    symmetries : GridSymmetries or None, default=None
        Random transformations of training samples.
    generator : torch.Generator or None, default=None
        Source of randomness for the symmetries.
    element : int or None, default=None
        Apply this element of the symmetries to every sample, and not a random one.
    """

    def __init__(
        self,
        inputs: FieldSet,
        scalers: Scalers,
        *,
        targets: FieldSet | None = None,
        weight: FloatArray | None = None,
        device: torch.device,
        dtype: torch.dtype,
        symmetries: GridSymmetries | None = None,
        generator: torch.Generator | None = None,
        element: int | None = None,
    ) -> None:
        if inputs.is_ragged:
            raise FieldDataError(
                "samples with different numbers of points cannot be batched; resample them onto one grid."
            )
        self.inputs, self.targets, self.scalers = inputs, targets, scalers
        self.device, self.dtype = device, dtype
        self.symmetries, self.generator, self.element = symmetries, generator, element
        self.weight = None if weight is None else self._tensor(weight)
        self._points = self._shared_coords = None
        if inputs.shared_coords:
            self._points = torch.tensor(np.ascontiguousarray(inputs.coords, dtype=np.float64), device=device)
            self._shared_coords = scalers.coords.transform(self._points).to(dtype)
        held = inputs.in_memory and (targets is None or targets.in_memory)
        self._check_points()
        self._check_symmetries()
        self._whole = self._convert(inputs, targets) if held else None

    def __len__(self) -> int:
        return len(self.inputs)

    def _check_points(self) -> None:
        """Raise if statistics per point meet another number of points."""
        n_points = self.inputs.shape[1]
        # Scalar targets sit on one point, whatever the grid.
        for what, scaler, fitting in (
            ("input", self.scalers.fields, (n_points,)),
            ("target", self.scalers.target, (n_points, 1)),
        ):
            if scaler is not None and scaler.mean_.ndim == 2 and len(scaler.mean_) not in fitting:
                raise FieldDataError(
                    f"the estimator was fitted with one {what} scale for each of {len(scaler.mean_)} points (scaler "
                    f"'point'); X has {n_points}. Fit with the scaler 'channel' to change the grid."
                )

    def _check_symmetries(self) -> None:
        """Raise if the declared symmetries do not fit the points or the channels."""
        symmetries = self.symmetries
        if symmetries is None:
            return
        if symmetries.domain is not None and not self.inputs.shared_coords:
            raise FieldDataError(
                "symmetries about a domain need coordinates that all samples share; set symmetries=None."
            )
        if self.inputs.shared_coords and symmetries.domain is None:
            symmetries.check_points(self.inputs.coords)
        for fields, vectors in ((self.inputs, symmetries.input_vectors), (self.targets, symmetries.target_vectors)):
            n_channels = np.inf if fields is None else fields.n_channels
            wrong = [vector for vector in vectors if max(vector) >= n_channels]
            if wrong:
                raise FieldDataError(
                    f"vector {wrong[0]} names a channel that is not there: they run from 0 to {n_channels - 1}."
                )

    def _tensor(self, array: FloatArray, scale: Callable[[torch.Tensor], torch.Tensor] | None = None) -> torch.Tensor:
        """Copy an array to a tensor of the right kind; arrays may be read-only."""
        # Scaling comes before the cast: a small signal on a large mean would not survive it. torch knows
        # neither foreign byte orders nor extended precision.
        exact = torch.tensor(np.ascontiguousarray(array, dtype=np.float64))
        return (exact if scale is None else scale(exact)).to(self.device, self.dtype)

    def _convert(self, inputs: FieldSet, targets: FieldSet | None) -> dict[str, Any]:
        """Tensors of samples; fields unscaled and in full precision where a symmetry may still move them."""
        scalers, values = self.scalers, inputs.values
        fields: torch.Tensor | None = None
        if values is not None and scalers.fields is not None:
            if self.symmetries is None:
                fields = self._tensor(values, scalers.fields.transform)
            else:
                fields = torch.tensor(np.ascontiguousarray(values, dtype=np.float64), device=self.device)
        params, target = inputs.params, None if targets is None else targets.values
        return {
            "coords": None if inputs.shared_coords else self._tensor(inputs.coords, scalers.coords.transform),
            "fields": fields,
            "params": None
            if params is None or scalers.params is None
            else self._tensor(params[:, None], scalers.params.transform)[:, 0],
            "target": None if target is None else self._tensor(target),
        }

    def gather(self, indices: IntArray) -> Batch:
        """Return the samples at `indices` as a batch.

        Parameters
        ----------
        indices : ndarray of int
            Samples.

        Returns
        -------
        Batch
            On the device.
        """
        rows = torch.as_tensor(indices, device=self.device)
        if self._whole is not None:
            parts = {name: None if part is None else part[rows] for name, part in self._whole.items()}
        else:
            targets = None if self.targets is None else self.targets.read(indices)
            parts = self._convert(self.inputs.read(indices), targets)
        if self.symmetries is not None:
            self._move(parts, len(indices), self.symmetries)
        coords: Any = self._shared_coords if parts["coords"] is None else parts["coords"]
        return Batch(
            coords=coords,
            fields=parts["fields"],
            params=parts["params"],
            grid_shape=self.inputs.grid_shape,
            target=parts["target"],
            weight=None if self.weight is None else self.weight[rows],
        )

    def _move(self, parts: dict[str, Any], n_samples: int, symmetries: GridSymmetries) -> None:
        """Apply one random symmetry to each sample, in place of the parts."""
        if self.element is None:
            element, sources = symmetries.draw(n_samples, self.generator)
        else:
            element, sources = symmetries.element(self.element, n_samples)
        if symmetries.domain is not None and self._points is not None:
            moved = symmetries.move_points(self._points, element)
            parts["coords"] = self.scalers.coords.transform(moved).to(self.dtype)
        fields, target = parts["fields"], parts["target"]
        if fields is not None and self.scalers.fields is not None:
            moved = symmetries.apply(fields, element, sources, symmetries.input_vectors)
            parts["fields"] = self.scalers.fields.transform(moved).to(self.dtype)
        # Scalars of a sample sit on one point and are the same after any symmetry.
        if target is not None and target.shape[1] == sources.shape[1]:
            parts["target"] = symmetries.apply(target, element, sources, symmetries.target_vectors)

    def batches(self, batch_size: int, order: IntArray | None = None) -> Iterator[Batch]:
        """Yield batches in the given order of samples.

        Parameters
        ----------
        batch_size : int
            Samples of a batch; the last may be smaller.
        order : ndarray of int or None, default=None
            Order of the samples; None keeps theirs.

        Yields
        ------
        Batch
            On the device.
        """
        order = np.arange(len(self)) if order is None else order
        for start in range(0, len(order), batch_size):
            yield self.gather(order[start : start + batch_size])
