"""Turn FieldSets into batches of tensors for a network.

Letters of the shapes: B samples of a batch, P points, d space dimensions, c channels, p parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray, GridShape, IntArray
from skop.data._fieldset import FieldSet
from skop.data._scalers import BoxScaler, FieldScaler
from skop.data._symmetry import GridSymmetries
from skop.data._validation import iterate_rows
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
    """The scalers of one fit: coordinates, input fields, parameters, outputs."""

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
    """A field scaler fitted in pieces of bounded size."""

    def chunks() -> Iterator[tuple[FloatArray, FloatArray]]:
        for start, values in iterate_rows(fields):
            yield values, weight[start : start + len(values)]

    return FieldScaler(mode).fit(chunks)


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
    ) -> None:
        self.inputs, self.targets, self.scalers = inputs, targets, scalers
        self.device, self.dtype = device, dtype
        self.symmetries, self.generator = symmetries, generator
        self.weight = None if weight is None else self._tensor(weight)
        coords = self._tensor(inputs.coords) if inputs.shared_coords else None
        self._shared_coords = None if coords is None else scalers.coords.transform(coords)
        held = inputs.in_memory and (targets is None or targets.in_memory)
        self._whole = self._convert(inputs, targets) if held else None
        self._check_points()

    def __len__(self) -> int:
        return len(self.inputs)

    def _check_points(self) -> None:
        """Raise if statistics per point meet another number of points."""
        scaler = self.scalers.fields
        if scaler is not None and scaler.mean_.ndim == 2 and len(scaler.mean_) != self.inputs.shape[1]:
            raise FieldDataError(
                f"the estimator was fitted with one scale for each of {len(scaler.mean_)} points (scaler 'point'); "
                f"X has {self.inputs.shape[1]}. Fit with the scaler 'channel' to change the grid."
            )

    def _tensor(self, array: FloatArray) -> torch.Tensor:
        """An array as a tensor of the right kind; a copy, since arrays may be read-only."""
        return torch.tensor(np.ascontiguousarray(array), dtype=self.dtype, device=self.device)

    def _convert(self, inputs: FieldSet, targets: FieldSet | None) -> dict[str, torch.Tensor | None]:
        """Tensors of samples, unscaled where a symmetry may still move them."""
        return {
            "coords": None if inputs.shared_coords else self.scalers.coords.transform(self._tensor(inputs.coords)),
            "fields": None if inputs.values is None else self._tensor(inputs.values),
            "params": self._scaled_params(inputs),
            "target": None if targets is None else self._tensor(targets.values),
        }

    def _scaled_params(self, inputs: FieldSet) -> torch.Tensor | None:
        """Scaled global parameters of samples."""
        if inputs.params is None or self.scalers.params is None:
            return None
        return self.scalers.params.transform(self._tensor(inputs.params)[:, None])[:, 0]

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
            self._move(parts, len(indices))
        fields = parts["fields"]
        return Batch(
            coords=parts["coords"] if self._shared_coords is None else self._shared_coords,
            fields=None if fields is None or self.scalers.fields is None else self.scalers.fields.transform(fields),
            params=parts["params"],
            grid_shape=self.inputs.grid_shape,
            target=parts["target"],
            weight=None if self.weight is None else self.weight[rows],
        )

    def _move(self, parts: dict[str, torch.Tensor | None], n_samples: int) -> None:
        """Apply one random symmetry to each sample, in place of the parts."""
        symmetries = self.symmetries
        element, sources = symmetries.draw(n_samples, self.generator)
        for name, vectors in (("fields", symmetries.input_vectors), ("target", symmetries.target_vectors)):
            part = parts[name]
            if part is not None and part.shape[1] == sources.shape[1]:
                parts[name] = symmetries.apply(part, element, sources, vectors)

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
