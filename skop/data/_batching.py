"""Turn FieldSets into batches of tensors for a network.

Letters of the shapes: B samples of a batch, P points, T points of all samples of a batch together,
d space dimensions, c channels, p parameters, s scalars, Q query points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray, GridShape, IntArray
from skop.data._fieldset import FieldSet
from skop.data._point_rows import batch_rows, draw_rows, is_uniform, point_order
from skop.data._scalers import FieldScaler
from skop.data._scaling import Scalers
from skop.data._symmetry import GridSymmetries
from skop.exceptions import FieldDataError

__all__ = ["Batch", "FieldLoader"]


@dataclass
class Batch:
    """Tensors of a few samples.

    Samples with different numbers of points are packed: one after the other along one axis of T points.

    Attributes
    ----------
    coords : Tensor of shape (P, d), (B, P, d) or (T, d)
        Scaled coordinates.
    fields : Tensor of shape (B, P, c) or (T, c), or None
        Scaled input fields.
    params : Tensor of shape (B, p) or None
        Scaled global parameters.
    grid_shape : tuple of int or None
        Points along each axis.
    target : Tensor of shape (B, P, q) or (T, q), or None
        Targets in physical units.
    weight : Tensor of shape (B,) or None
        Sample weights.
    sizes : tuple of int or None
        Points of each packed sample; None when all have as many.
    scalars : Tensor of shape (B, 1, s) or None
        Scalar targets beside a field, in physical units.
    order : ndarray of int or None
        Where each point stands in the caller's batch, flattened: point i of the batch is the caller's point
        ``order[i]``. None when the points are in the caller's order.
    queries : dict
        Further arguments of the network: the points where outputs are wanted, and the fields there.
    """

    coords: torch.Tensor
    fields: torch.Tensor | None
    params: torch.Tensor | None
    grid_shape: GridShape | None
    target: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    sizes: tuple[int, ...] | None = None
    scalars: torch.Tensor | None = None
    order: IntArray | None = None
    queries: dict[str, torch.Tensor | None] | None = None

    def inputs(self) -> dict[str, Any]:
        """Return what a network's ``forward`` takes, by name."""
        inputs: dict[str, Any] = {
            "coords": self.coords,
            "fields": self.fields,
            "params": self.params,
            "grid_shape": self.grid_shape,
        }
        if self.sizes is not None:
            inputs["sizes"] = self.sizes
        return inputs | (self.queries or {})

    def __len__(self) -> int:
        if self.sizes is not None:
            return len(self.sizes)
        held = self.fields if self.fields is not None else self.params if self.params is not None else self.coords
        return len(held)


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
        Targets on the same points, with scalars beside them as params.
    weight : ndarray of shape (n,) or None, default=None
        Sample weights.
    device, dtype : torch.device, torch.dtype
        Where tensors go and their precision.
    symmetries : GridSymmetries or None, default=None
        Random transformations of training samples.
    generator : torch.Generator or None, default=None
        Source of randomness for the symmetries and the drawing of points.
    element : int or None, default=None
        Apply this element of the symmetries to every sample, and not a random one.
    sort_points : bool, default=False
        Bring the points of each sample into one fixed order, see `point_order`.
    draw_points : int or None, default=None
        Give this many points of each sample, drawn at random each time; samples with fewer are whole.
    queries : FieldSet or None, default=None
        Points where outputs are wanted, with input fields there; batches then hold one sample.
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
        sort_points: bool = False,
        draw_points: int | None = None,
        queries: FieldSet | None = None,
    ) -> None:
        self.inputs, self.targets, self.scalers = inputs, targets, scalers
        self.device, self.dtype = device, dtype
        self.symmetries, self.generator, self.element = symmetries, generator, element
        self.draw_points, self.queries = draw_points, queries
        self.weight = None if weight is None else self._tensor(weight)
        self._check_points()
        self._check_symmetries()
        self._sizes = inputs.n_points
        self._offsets = np.concatenate([[0], np.cumsum(self._sizes)])
        self._order = point_order(inputs) if sort_points else None
        self._points = self._shared_coords = None
        if inputs.shared_coords:
            points = inputs.coords if self._order is None else inputs.coords[self._order]
            self._points = torch.tensor(np.ascontiguousarray(points, dtype=np.float64), device=device)
            self._shared_coords = scalers.coords.transform(self._points).to(dtype)
        held = inputs.in_memory and (targets is None or targets.in_memory)
        self._whole = self._convert(inputs, targets, self._rank(np.arange(len(inputs)))) if held else None

    def __len__(self) -> int:
        return len(self.inputs)

    def _check_points(self) -> None:
        """Raise if statistics per point meet another number of points."""
        n_points = 0 if self.inputs.is_ragged else self.inputs.shape[1]
        # Scalar targets sit on one point, whatever the grid.
        for what, scaler, fitting in (
            ("input", self.scalers.fields, (n_points,)),
            ("target", self.scalers.target, (n_points, 1)),
        ):
            if scaler is not None and scaler.mean_.ndim == 2 and len(scaler.mean_) not in fitting:
                came = "differing numbers of points" if self.inputs.is_ragged else str(n_points)
                raise FieldDataError(
                    f"the estimator was fitted with one {what} scale for each of {len(scaler.mean_)} points (scaler "
                    f"'point'); X has {came}. Fit with the scaler 'channel' to change the grid."
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

    def _rank(self, indices: IntArray) -> IntArray | None:
        """Where each point of a batch stands in the caller's order, flattened; None when nothing is sorted."""
        if self._order is None:
            return None
        starts = np.repeat(np.cumsum(self._sizes[indices]) - self._sizes[indices], self._sizes[indices])
        if self.inputs.shared_coords:
            return np.tile(self._order, len(indices)) + starts
        rows = batch_rows(self._offsets, indices)
        return self._order[rows] - np.repeat(self._offsets[indices], self._sizes[indices]) + starts

    def _convert(self, inputs: FieldSet, targets: FieldSet | None, rank: IntArray | None) -> dict[str, Any]:
        """Tensors of samples; fields unscaled and in full precision where a symmetry may still move them."""
        scalers, values = self.scalers, _sorted(inputs.values, rank)
        fields: torch.Tensor | None = None
        if values is not None and scalers.fields is not None:
            if self.symmetries is None:
                fields = self._tensor(values, scalers.fields.transform)
            else:
                fields = torch.tensor(np.ascontiguousarray(values, dtype=np.float64), device=self.device)
        target = None if targets is None else targets.values
        if targets is not None and np.array_equal(targets.n_points, inputs.n_points):
            # Scalars of a sample sit on one point and have no order.
            target = _sorted(target, rank)
        coords = None if inputs.shared_coords else _sorted(inputs.coords, rank)
        return {
            "coords": None if coords is None else self._tensor(coords, scalers.coords.transform),
            "fields": fields,
            "params": self._numbers(inputs.params, scalers.params),
            "target": None if target is None else self._tensor(target),
            "scalars": None if targets is None else self._numbers(targets.params, None),
        }

    def _numbers(self, numbers: FloatArray | None, scaler: FieldScaler | None) -> torch.Tensor | None:
        """Global numbers ``(n, p)`` of each sample as a tensor, scaled."""
        if numbers is None:
            return None
        return self._tensor(numbers[:, None], None if scaler is None else scaler.transform)[:, 0]

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
        rank = self._rank(indices)
        if self._whole is None:
            targets = None if self.targets is None else self.targets.read(indices)
            parts = self._convert(self.inputs.read(indices), targets, rank)
        else:
            parts = self._select(self._whole, indices)
        if self.symmetries is not None:
            self._move(parts, len(indices), self.symmetries)
        coords: Any = self._shared_coords if parts["coords"] is None else parts["coords"]
        scalars = parts["scalars"]
        batch = Batch(
            coords=coords,
            fields=parts["fields"],
            params=parts["params"],
            grid_shape=self.inputs.grid_shape,
            target=parts["target"],
            weight=None if self.weight is None else self.weight[torch.as_tensor(indices, device=self.device)],
            scalars=None if scalars is None else scalars[:, None],
            order=rank,
        )
        if self.draw_points is not None:
            _draw_points(batch, self._sizes[indices], self.draw_points, self.generator)
        elif self.inputs.is_ragged:
            _pack(batch, tuple(self._sizes[indices].tolist()))
        if self.queries is not None:
            batch.queries = self._query(self.queries[indices])
        return batch

    def _select(self, whole: dict[str, Any], indices: IntArray) -> dict[str, Any]:
        """Rows of the tensors of all samples."""
        samples = torch.as_tensor(indices, device=self.device)
        points = samples
        if self.inputs.is_ragged:
            points = torch.as_tensor(batch_rows(self._offsets, indices), device=self.device)
        flat = {"coords", "fields"} | ({"target"} if self.targets is not None and self.targets.is_ragged else set())
        return {
            name: None if held is None else held[points if name in flat else samples] for name, held in whole.items()
        }

    def _query(self, queries: FieldSet) -> dict[str, torch.Tensor | None]:
        """Points of one sample where outputs are wanted, as arguments of the network."""
        values, n_points = queries.values, int(queries.n_points[0])
        fields = None
        if values is not None and self.scalers.fields is not None:
            fields = self._tensor(values.reshape(1, n_points, -1), self.scalers.fields.transform)
        coords = self._tensor(queries.coords.reshape(1, n_points, -1), self.scalers.coords.transform)
        return {"query_coords": coords, "query_fields": fields}

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

    def bounded_batches(self, n_points: int) -> Iterator[tuple[IntArray, Batch]]:
        """Yield batches of successive samples that have no more than some points together, at least one sample each.

        Parameters
        ----------
        n_points : int
            Points of a batch; 0 gives one sample at a time.

        Yields
        ------
        tuple of (ndarray of int, Batch)
            Which samples, and their tensors.
        """
        start = 0
        while start < len(self):
            last = np.searchsorted(self._offsets, self._offsets[start] + n_points, side="right") - 1
            stop = max(start + 1, int(last))
            yield (indices := np.arange(start, stop)), self.gather(indices)
            start = stop


def _sorted(array: FloatArray | None, rank: IntArray | None) -> FloatArray | None:
    """Points of samples in another order; flat or with a sample axis."""
    if array is None or rank is None:
        return array
    return array.reshape(-1, array.shape[-1])[rank].reshape(array.shape)


def _pack(batch: Batch, sizes: tuple[int, ...]) -> None:
    """Give flat points a sample axis where all samples have as many, and otherwise state their sizes."""
    if not is_uniform(sizes):
        batch.sizes = sizes
        return
    batch.coords = batch.coords.unflatten(0, (len(sizes), -1))
    batch.fields = None if batch.fields is None else batch.fields.unflatten(0, (len(sizes), -1))
    if batch.target is not None and batch.target.ndim == 2:
        batch.target = batch.target.unflatten(0, (len(sizes), -1))


def _draw_points(batch: Batch, sizes: IntArray, count: int, generator: torch.Generator | None) -> None:
    """Keep a random part of the points of each sample."""
    rows, drawn = draw_rows(sizes, count, generator)
    index = torch.as_tensor(rows, device=batch.coords.device)
    scalar = batch.target is not None and batch.target.shape[:2] == (len(sizes), 1) and batch.target.ndim == 3
    coords = batch.coords
    if len(coords) != sizes.sum() and coords.ndim == 2:
        coords = coords.expand(len(sizes), *coords.shape)
    batch.coords = coords.reshape(-1, coords.shape[-1])[index]
    batch.fields = None if batch.fields is None else batch.fields.reshape(-1, batch.fields.shape[-1])[index]
    if batch.target is not None and not (scalar and sizes.max() > 1):
        batch.target = batch.target.reshape(-1, batch.target.shape[-1])[index]
    batch.order = None if batch.order is None else batch.order[rows]
    batch.grid_shape = None
    _pack(batch, drawn)
