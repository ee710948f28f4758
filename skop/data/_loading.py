"""Loading of mini-batches: FieldSets as scaled tensors for a network.

Notation: B samples of a batch, P points, T points of all samples of a batch together,
d space dimensions, c channels, p parameters, s scalars, Q query points, U query points of all samples together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree
from torch.nn.utils.rnn import pad_sequence

from skop._typing import FloatArray, GridShape, IntArray
from skop.data._fieldset import FieldSet, iterate_coords, point_order
from skop.data._point_symmetry import PointSymmetries
from skop.data._scaling import FieldScaler, Scalers
from skop.data._spec import Predictions, Targets
from skop.data._symmetry import GridSymmetries
from skop.exceptions import FieldDataError

__all__ = ["Batch", "FieldLoader"]

#: Function of the indices of samples that gives the standardised predictions of a base model for them.
BaseOfSamples = Callable[[IntArray], Predictions]
#: Number of samples by which a period is checked.
_N_CHECKED = 16


@dataclass
class Batch:
    """Mini-batch: the tensors of a few samples.

    Samples with different numbers of points are packed, one after the other along a single axis of T points.

    Attributes
    ----------
    coords : Tensor of shape (P, d), (B, P, d) or (T, d)
        Scaled coordinates.
    fields : Tensor of shape (B, P, c) or (T, c), or None
        Scaled input fields.
    params : Tensor of shape (B, p) or None
        Scaled global parameters.
    grid_shape : tuple of int or None
        Number of points along each axis.
    target : Tensor of shape (B, P, q) or (T, q), or (B, Q, q) or (U, q) at query points, or None
        Target fields in physical units, or their logarithms where these are learnt.
    weight : Tensor of shape (B,) or None
        Sample weights.
    sizes : tuple of int or None
        Number of points of each packed sample; None if all samples have the same number.
    scalars : Tensor of shape (B, s) or None
        Scalar targets in physical units, or their logarithms as for `target`.
    order : ndarray of int or None
        Order of the points, over the whole batch: point i of the batch is the caller's point ``order[i]``. None if the
        points are in the caller's order.
    queries : dict or None
        Further arguments of the network: query points and the fields there.
    query_sizes : tuple of int or None
        Number of query points of each sample, which are then packed; None if all samples have the same number.
    query_grid : tuple of int or None
        Number of query points along each axis, if they form a grid.
    base : Tensor of shape (B, P, q) or (T, q), or None
        Standardised predictions of a base model for the target field, at the points of the samples.
    base_scalars : Tensor of shape (B, s) or None
        The same for the scalars.
    neighbours : Tensor of int of shape (B, P, k) or (P, k), or None
        Nearest neighbours of each point of the target among those of its sample; 0 for the padding of smaller samples.
    target_sizes : Tensor of shape (B, q) or None
        Root mean squares to which errors of the target field are relative, in physical units; None for its own.
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
    query_sizes: tuple[int, ...] | None = None
    query_grid: GridShape | None = None
    base: torch.Tensor | None = None
    base_scalars: torch.Tensor | None = None
    neighbours: torch.Tensor | None = None
    target_sizes: torch.Tensor | None = None

    def inputs(self) -> dict[str, Any]:
        """Return the keyword arguments for the ``forward`` of a network."""
        inputs: dict[str, Any] = {
            "coords": self.coords,
            "fields": self.fields,
            "params": self.params,
            "grid_shape": self.grid_shape,
        }
        if self.sizes is not None:
            inputs["sizes"] = self.sizes
        if self.base is not None or self.base_scalars is not None:
            inputs |= {"base": self.base, "base_scalars": self.base_scalars}
        return inputs | (self.queries or {})

    def outputs_of(self, network: Callable[..., Any]) -> Any:
        """Call a network on the batch; one sample at a time where there are query points and samples are packed.

        A network takes either packed samples or query points, and nothing of one sample acts on another.

        Parameters
        ----------
        network : callable
            Network; at query points it returns a named tuple of a field and scalars, either of which can be None.

        Returns
        -------
        Outputs
            What the network returns: fields ``(B, Q, q)`` at query points, or ``(U, q)`` if these are packed.
        """
        if self.queries is None or (self.sizes is None and self.query_sizes is None):
            return network(**self.inputs())
        found = [network(**sample.inputs()) for sample in self._alone()]
        field, scalars = (
            None if parts[0] is None else torch.cat(parts, dim=axis)
            for parts, axis in zip(zip(*found, strict=True), (0 if self.query_sizes is None else 1, 0), strict=True)
        )
        return type(found[0])(field if field is None or self.query_sizes is None else field.squeeze(0), scalars)

    def _alone(self) -> list[Batch]:
        """The arguments of each sample as a batch of its own."""
        count = len(self)
        coords, fields = (_samples_of(part, count, self.sizes) for part in (self.coords, self.fields))
        base = _samples_of(self.base, count, self.sizes)
        params, base_scalars = (
            [None] * count if part is None else part.split(1) for part in (self.params, self.base_scalars)
        )
        queries = {name: _samples_of(part, count, self.query_sizes) for name, part in (self.queries or {}).items()}
        return [
            Batch(
                coords[i],
                fields[i],
                params[i],
                self.grid_shape,
                queries={name: own[i] for name, own in queries.items()},
                base=base[i],
                base_scalars=base_scalars[i],
            )
            for i in range(count)
        ]

    def __len__(self) -> int:
        if self.sizes is not None:
            return len(self.sizes)
        held = self.fields if self.fields is not None else self.params if self.params is not None else self.coords
        return len(held)


class FieldLoader:
    """Load mini-batches of a FieldSet, scaled and on the device.

    FieldSets in memory are converted to tensors once; if any of them is in a file, all are read batch by batch.

    Parameters
    ----------
    inputs : FieldSet
        Inputs of the samples.
    scalers : Scalers
        Fitted scalers.
    targets : Targets or None, default=None
        Targets: fields on the same points, or on the query points if there are any, scalars, or both.
    weight : ndarray of shape (n,) or None, default=None
        Sample weights.
    device, dtype : torch.device, torch.dtype
        Device and precision of the tensors.
    symmetries : GridSymmetries, PointSymmetries or None, default=None
        Symmetries for data augmentation: random transformations of the samples.
    generator : torch.Generator or None, default=None
        Random number generator for the symmetries and the choice of points.
    element : int or None, default=None
        Index of the symmetry that is applied to every sample; None draws a random one.
    sort_points : bool, default=False
        Whether the points of each sample are sorted, see `point_order`.
    subsample_points : int or None, default=None
        Number of points drawn at random from each sample every time; samples with fewer points are used whole.
    queries : FieldSet or None, default=None
        Query points with input fields, at which outputs are computed. They keep their order.
    base, query_base : callable or None, default=None
        Functions of the indices of samples that return standardised `Predictions` of a base model for them, at their
        points and at the query points.
    neighbours : bool, default=False
        Whether batches hold the nearest neighbours of the points of target fields without a grid, 2 for each dimension
        of the space, by scaled coordinates.
    target_sizes : ndarray of shape (n, q) or None, default=None
        Root mean squares to which errors of the target field are relative, in physical units; None for its own.
    """

    def __init__(
        self,
        inputs: FieldSet,
        scalers: Scalers,
        *,
        targets: Targets | None = None,
        weight: FloatArray | None = None,
        device: torch.device,
        dtype: torch.dtype,
        symmetries: GridSymmetries | PointSymmetries | None = None,
        generator: torch.Generator | None = None,
        element: int | None = None,
        sort_points: bool = False,
        subsample_points: int | None = None,
        queries: FieldSet | None = None,
        base: BaseOfSamples | None = None,
        query_base: BaseOfSamples | None = None,
        neighbours: bool = False,
        target_sizes: FloatArray | None = None,
    ) -> None:
        self.inputs, self.targets, self.scalers = inputs, targets, scalers
        self.base, self.query_base = base, query_base
        self.device, self.dtype = device, dtype
        self.symmetries, self.generator, self.element = symmetries, generator, element
        self.subsample_points, self.queries = subsample_points, queries
        self.weight, self.target_sizes = (
            None if held is None else self._tensor(held) for held in (weight, target_sizes)
        )
        places = inputs if queries is None else queries
        on_grid = places.grid_shape is not None and subsample_points is None
        self._places = places if neighbours and not on_grid else None
        self._sorts_points = sort_points
        self._neighbours: dict[int, torch.Tensor] = {}
        self._check_points()
        self._check_symmetries()
        self._sizes = inputs.n_points
        self._offsets = np.concatenate([[0], np.cumsum(self._sizes)])
        held = inputs.in_memory and (targets is None or targets.in_memory)
        # Points in a file are sorted batch by batch.
        self._sorts_batches = sort_points and not held and not inputs.shared_coords
        self._order = point_order(inputs) if sort_points and not self._sorts_batches else None
        target = None if targets is None else targets.field
        self._target_offsets = None if target is None else target.offsets
        self._points = self._shared_coords = None
        if inputs.shared_coords:
            points = inputs.coords if self._order is None else inputs.coords[self._order]
            self._points = torch.tensor(np.ascontiguousarray(points, dtype=np.float64), device=device)
            self._shared_coords = scalers.coords.transform(self._points).to(dtype)
        self._whole = self._convert(inputs, targets, self._rank(np.arange(len(inputs)))) if held else None

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def n_bytes(self) -> int:
        """Memory of the samples that are held as tensors; 0 for samples that are read batch by batch."""
        held = [self._points, self._shared_coords, *(self._whole or {}).values(), *self._neighbours.values()]
        return sum(tensor.numel() * tensor.element_size() for tensor in held if tensor is not None)

    def _check_points(self) -> None:
        """Raise an error if scalers with statistics for each point get another number of points."""
        n_points = 0 if self.inputs.is_ragged else self.inputs.shape[1]
        for what, scaler in (("input", self.scalers.fields), ("target", self.scalers.target)):
            if scaler is not None and scaler.mean_.ndim == 2 and len(scaler.mean_) != n_points:
                came = "differing numbers of points" if self.inputs.is_ragged else str(n_points)
                raise FieldDataError(
                    f"the estimator was fitted with one {what} scale for each of {len(scaler.mean_)} points (scaler "
                    f"'point'); X has {came}. Fit with the scaler 'channel' to change the grid."
                )

    def _check_symmetries(self) -> None:
        """Raise an error if the declared symmetries do not match the points or the channels."""
        symmetries = self.symmetries
        if symmetries is None:
            return
        if isinstance(symmetries, GridSymmetries):
            if symmetries.domain is not None and not self.inputs.shared_coords:
                raise FieldDataError(
                    "symmetries about a domain need coordinates that all samples share; set symmetries=None."
                )
            if self.targets is not None and symmetries.shift_axes:
                some = slice(0, _N_CHECKED)
                parts = [self.inputs, *([] if self.targets.field is None else [self.targets.field])]
                symmetries.check_period(part.read(some).values for part in parts if part.n_channels)
            if symmetries.domain is None:
                for _, piece in iterate_coords(self.inputs):
                    for points in piece if piece.ndim == 3 else [piece]:
                        symmetries.check_points(points)
        checked = [
            ("input", self.inputs.n_channels, symmetries.input_vectors, symmetries.input_tensors),
            ("parameter", self.inputs.n_params, symmetries.param_vectors, []),
        ]
        if self.targets is not None:
            n_outputs, n_scalars = self.targets.n_outputs, self.targets.n_scalars
            checked += [
                ("target", n_outputs, symmetries.target_vectors, symmetries.target_tensors),
                ("scalar", n_scalars, symmetries.scalar_vectors, []),
            ]
        for what, count, vectors, tensors in checked:
            for kind, channels in [*(("vector", own) for own in vectors), *(("tensor", own) for own in tensors)]:
                if max(channels) >= count:
                    held = f"they run from 0 to {count - 1}" if count else "there are none"
                    raise FieldDataError(f"{what} {kind} {channels} names a channel that is not there: {held}.")

    def _tensor(self, array: FloatArray, scale: Callable[[torch.Tensor], torch.Tensor] | None = None) -> torch.Tensor:
        """Copy an array, which may be read-only, to a tensor of the right type and device."""
        # Scale before the conversion to the precision of the network, in which small variations about a large mean
        # would be lost. torch supports neither foreign byte orders nor extended precision.
        exact = torch.from_numpy(np.array(array, dtype=np.float64, order="C"))
        return (exact if scale is None else scale(exact)).to(self.device, self.dtype)

    def _rank(self, indices: IntArray) -> IntArray | None:
        """Indices of the points of a batch in the caller's order; None if the points are not sorted."""
        if self._order is None:
            return None
        starts = np.repeat(np.cumsum(self._sizes[indices]) - self._sizes[indices], self._sizes[indices])
        if self.inputs.shared_coords:
            return np.tile(self._order, len(indices)) + starts
        rows = batch_rows(self._offsets, indices)
        return self._order[rows] - np.repeat(self._offsets[indices], self._sizes[indices]) + starts

    def _convert(self, inputs: FieldSet, targets: Targets | None, rank: IntArray | None) -> dict[str, Any]:
        """Convert samples to tensors. If a symmetry will be applied, fields stay unscaled and in full precision."""
        scalers, values = self.scalers, _sorted(inputs.values, rank)
        fields: torch.Tensor | None = None
        if values is not None and scalers.fields is not None:
            if self.symmetries is None:
                fields = self._tensor(values, scalers.fields.transform)
            else:
                fields = torch.tensor(np.ascontiguousarray(values, dtype=np.float64), device=self.device)
        target = None if targets is None or targets.field is None else targets.field.values
        target = target if self.queries is not None else _sorted(target, rank)
        scalars = None if targets is None else targets.scalars
        coords = None if inputs.shared_coords else _sorted(inputs.coords, rank)
        return {
            "coords": None if coords is None else self._points_of(coords),
            "fields": fields,
            "params": self._params_of(inputs.params),
            # Logarithms are taken in full precision, which holds values that single precision does not.
            "target": None if target is None else self._tensor(target, _compression(scalers.target)),
            "scalars": None if scalars is None else self._tensor(scalars, _compression(scalers.scalars)),
        }

    def _points_of(self, coords: FloatArray) -> torch.Tensor:
        """Convert coordinates to a scaled tensor; those that will be moved stay unscaled and in full precision."""
        if isinstance(self.symmetries, PointSymmetries):
            return torch.tensor(np.ascontiguousarray(coords, dtype=np.float64), device=self.device)
        return self._tensor(coords, self.scalers.coords.transform)

    def _params_of(self, params: FloatArray | None) -> torch.Tensor | None:
        """Convert global parameters ``(n, p)`` to a scaled tensor; those that will be turned stay unscaled."""
        if params is None:
            return None
        if self.symmetries is not None and self.symmetries.param_vectors:
            return torch.tensor(np.ascontiguousarray(params, dtype=np.float64), device=self.device)
        return self._tensor(params, None if self.scalers.params is None else self.scalers.params.transform)

    def gather(self, indices: IntArray) -> Batch:
        """Return the samples at `indices` as a batch.

        Parameters
        ----------
        indices : ndarray of int
            Indices of the samples.

        Returns
        -------
        Batch
            Tensors on the device.
        """
        rank = self._rank(indices)
        if self._whole is None:
            targets = None if self.targets is None else self.targets.read(indices)
            inputs = self.inputs.read(indices)
            rank = point_order(inputs) if self._sorts_batches else rank
            parts = self._convert(inputs, targets, rank)
        else:
            parts = self._select(self._whole, indices)
        parts |= self._base_of(indices, rank)
        drawn = None if self.symmetries is None else self._move(parts, indices, self.symmetries)
        coords: Any = self._shared_coords if parts["coords"] is None else parts["coords"]
        rows = torch.as_tensor(indices, device=self.device)
        batch = Batch(
            coords=coords,
            fields=parts["fields"],
            params=parts["params"],
            grid_shape=self.inputs.grid_shape,
            target=parts["target"],
            weight=None if self.weight is None else self.weight[rows],
            target_sizes=None if self.target_sizes is None else self.target_sizes[rows],
            scalars=parts["scalars"],
            order=rank,
            base=parts["base"],
            base_scalars=parts["base_scalars"],
        )
        if self._places is not None and batch.target is not None and self.subsample_points is None:
            batch.neighbours = self._neighbours_of(self._places, indices)
        if self.queries is not None:
            return self._with_queries(batch, self._sizes[indices], self.queries[indices], drawn, parts["query_base"])
        if self.subsample_points is not None:
            _subsample_points(batch, self._sizes[indices], self.subsample_points, self.generator)
            if self._places is not None:
                points = batch.coords if batch.sizes is None else batch.coords.split(batch.sizes)
                batch.neighbours = pad_sequence([_nearest(own) for own in points], batch_first=True).long()
        elif self.inputs.is_ragged:
            _pack(batch, tuple(self._sizes[indices].tolist()))
        return batch

    def _neighbours_of(self, places: FieldSet, indices: IntArray) -> torch.Tensor:
        """Return the neighbours of the points of the targets of some samples, for each sample or shared by all."""
        own = [0] if places.shared_coords else indices.tolist()
        found = [self._neighbours[index] if index in self._neighbours else self._search(places, index) for index in own]
        if places.shared_coords or places.in_memory:
            self._neighbours |= dict(zip(own, found, strict=True))
        return found[0].long() if places.shared_coords else pad_sequence(found, batch_first=True).long()

    def _search(self, places: FieldSet, index: int) -> torch.Tensor:
        """Search the neighbours of the points of a sample, in the order in which its batch has the points."""
        sample = places.read(np.array([index]))
        points = sample.coords.reshape(-1, places.n_dims)
        if self._sorts_points and self.queries is None:
            points = points[point_order(sample)]
        return _nearest(self._tensor(points, self.scalers.coords.transform))

    def _base_of(self, indices: IntArray, rank: IntArray | None) -> dict[str, torch.Tensor | None]:
        """Return the predictions of the base model for samples, in double precision and the order of the points."""
        found = Predictions(None) if self.base is None else self.base(indices)
        at_queries = Predictions(None) if self.query_base is None else self.query_base(indices)
        parts = {
            "base": _sorted(found.fields, rank),
            "base_scalars": found.scalars,
            "query_base": at_queries.fields,
        }
        if self.symmetries is None:
            return {name: None if held is None else self._tensor(held) for name, held in parts.items()}
        return {
            name: None if held is None else torch.tensor(np.ascontiguousarray(held, dtype=np.float64)).to(self.device)
            for name, held in parts.items()
        }

    def _select(self, whole: dict[str, Any], indices: IntArray) -> dict[str, Any]:
        """Select rows from the tensors of all samples."""
        samples = torch.as_tensor(indices, device=self.device)
        rows = dict.fromkeys(whole, samples)
        if self.inputs.is_ragged:
            points = torch.as_tensor(batch_rows(self._offsets, indices), device=self.device)
            rows |= {"coords": points, "fields": points}
        if self._target_offsets is not None:
            if self.queries is None:
                rows["target"] = rows["coords"]
            else:
                rows["target"] = torch.as_tensor(batch_rows(self._target_offsets, indices), device=self.device)
        return {name: None if held is None else held[rows[name]] for name, held in whole.items()}

    def _with_queries(
        self, batch: Batch, sizes: IntArray, queries: FieldSet, drawn: Any, base: torch.Tensor | None
    ) -> Batch:
        """Add the query points of its samples, moved by the drawn symmetries, to a batch; its target is there."""
        target, counts = batch.target, tuple(queries.n_points.tolist())
        if self.inputs.is_ragged:
            batch.target = None
            _pack(batch, tuple(sizes.tolist()))
        shape = (-1,) if (is_packed := not is_uniform(counts)) else (len(counts), counts[0])
        symmetries, scalers = self.symmetries, self.scalers
        moves = isinstance(symmetries, PointSymmetries)

        def as_points(points: torch.Tensor) -> torch.Tensor:
            """Scaled query points, moved with their sample."""
            if isinstance(symmetries, PointSymmetries):
                points = symmetries.move_points(points, drawn[0], drawn[1], queries.n_points)
            return scalers.coords.transform(points)

        def as_fields(held: torch.Tensor) -> torch.Tensor:
            """Scaled fields at the query points, turned with their sample."""
            if isinstance(symmetries, PointSymmetries):
                parts = (symmetries.input_vectors, symmetries.input_tensors)
                held = symmetries.apply(held, drawn[0], *parts, queries.n_points)
            return held if scalers.fields is None else scalers.fields.transform(held)

        values, fields = queries.values, None
        if values is not None and scalers.fields is not None:
            fields = self._tensor(values.reshape(*shape, values.shape[-1]), as_fields)
        coords = self._tensor(queries.coords, as_points)
        if moves or not queries.shared_coords or len(counts) == 1:
            coords = coords.reshape(*shape, queries.n_dims)
        further = {} if base is None else {"query_base": base.reshape(*shape, base.shape[-1])}
        return replace(
            batch,
            target=None if target is None else target.reshape(*shape, target.shape[-1]),
            queries={"query_coords": coords, "query_fields": fields, **further},
            query_sizes=counts if is_packed else None,
            query_grid=queries.grid_shape,
        )

    def _move(self, parts: dict[str, Any], indices: IntArray, symmetries: GridSymmetries | PointSymmetries) -> Any:
        """Apply one random symmetry to each sample, and replace its tensors; return the symmetries."""
        n_samples, sizes, fields, target = len(indices), self._sizes[indices], parts["fields"], parts["target"]
        if self.element is None:
            drawn = symmetries.draw(n_samples, self.generator)
        else:
            drawn = symmetries.element(self.element, n_samples)
        inputs = (symmetries.input_vectors, symmetries.input_tensors)
        targets = (symmetries.target_vectors, symmetries.target_tensors)
        moved: torch.Tensor | None = None
        if isinstance(symmetries, PointSymmetries):
            points = self._points if parts["coords"] is None else parts["coords"]
            moved = None if points is None else symmetries.move_points(points, *drawn, sizes)
            fields = None if fields is None else symmetries.apply(fields, drawn[0], *inputs, sizes)
            if target is not None:
                counts = sizes if self.queries is None else self.queries.n_points[indices]
                parts["target"] = symmetries.apply(target, drawn[0], *targets, counts)
        else:
            if symmetries.domain is not None and self._points is not None:
                moved = symmetries.move_points(self._points, drawn[0])
            fields = None if fields is None else symmetries.apply(fields, *drawn, *inputs)
            if target is not None:
                parts["target"] = symmetries.apply(target, *drawn, *targets)
        self.move_base(parts, indices, drawn)
        if moved is not None:
            parts["coords"] = self.scalers.coords.transform(moved).to(self.dtype)
        if fields is not None and self.scalers.fields is not None:
            parts["fields"] = self.scalers.fields.transform(fields).to(self.dtype)
        if parts["params"] is not None and symmetries.param_vectors:
            parts["params"] = self._scaled_params(
                symmetries.turn_numbers(parts["params"], *drawn, symmetries.param_vectors)
            )
        if parts["scalars"] is not None:
            parts["scalars"] = symmetries.turn_numbers(parts["scalars"], *drawn, symmetries.scalar_vectors)
        return drawn

    def move_base(self, parts: dict[str, Any], indices: IntArray, drawn: tuple[torch.Tensor, torch.Tensor]) -> None:
        """Apply the symmetries of a batch to the predictions of the base model, in the units of the targets.

        Parameters
        ----------
        parts : dict
            Standardised predictions, in double precision: ``base``, ``base_scalars`` and ``query_base``; replaced.
        indices : ndarray of int
            Indices of the samples.
        drawn : tuple of Tensor
            Symmetry of each sample.
        """
        symmetries: Any = self.symmetries
        channels = (symmetries.target_vectors, symmetries.target_tensors)
        for name in ("base", "query_base"):
            values, scaler = parts[name], self.scalers.target
            if values is None or scaler is None:
                continue
            values = scaler.destandardize(values)
            if isinstance(symmetries, PointSymmetries):
                is_asked = name == "query_base" and self.queries is not None
                counts = self.queries.n_points[indices] if is_asked else self._sizes[indices]  # type: ignore[union-attr]
                values = symmetries.apply(values, drawn[0], *channels, counts)
            else:
                values = symmetries.apply(values, *drawn, *channels)
            parts[name] = scaler.standardize(values).to(self.dtype)
        numbers, scaler = parts["base_scalars"], self.scalers.scalars
        if numbers is not None and scaler is not None:
            numbers = symmetries.turn_numbers(scaler.destandardize(numbers), *drawn, symmetries.scalar_vectors)
            parts["base_scalars"] = scaler.standardize(numbers).to(self.dtype)

    def _scaled_params(self, params: torch.Tensor) -> torch.Tensor:
        """Scale global parameters ``(n, p)``, and convert them to the precision of the network."""
        scaler = self.scalers.params
        return (params if scaler is None else scaler.transform(params)).to(self.device, self.dtype)

    def as_params(self, params: torch.Tensor) -> torch.Tensor:
        """Turn and scale global parameters as those of the samples, differentiably.

        Parameters
        ----------
        params : Tensor of shape (n, p)
            Global parameters in physical units, in double precision.

        Returns
        -------
        Tensor of shape (n, p)
            Parameters as the network takes them; turned only by a fixed symmetry (`element`).
        """
        if self.symmetries is not None and self.element is not None:
            drawn = self.symmetries.element(self.element, len(params))
            params = self.symmetries.turn_numbers(params, *drawn, self.symmetries.param_vectors)
        return self._scaled_params(params)

    def undo(
        self, field: torch.Tensor | None, scalars: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Turn the outputs for samples moved by a fixed symmetry (`element`) back to the samples as they came.

        Parameters
        ----------
        field : Tensor of shape (B, P, q) or (T, q), or None
            Output field in physical units.
        scalars : Tensor of shape (B, s) or None
            Output scalars in physical units.

        Returns
        -------
        tuple of (Tensor or None)
            Field and scalars.
        """
        symmetries = self.symmetries
        if symmetries is None or self.element is None:
            return field, scalars
        if scalars is not None:
            drawn = symmetries.element(self.element, len(scalars))
            scalars = symmetries.turn_numbers(scalars, *drawn, symmetries.scalar_vectors, back=True)
        if field is None:
            return None, scalars
        if isinstance(symmetries, GridSymmetries):
            return symmetries.undo(field, *symmetries.element(self.element, len(field))), scalars
        # One symmetry for all samples, packed or not.
        turn = symmetries.element(self.element, len(field) if field.ndim == 3 else 1)[0]
        return symmetries.apply(field, turn.mT, symmetries.target_vectors, symmetries.target_tensors), scalars

    def batches(self, batch_size: int, order: IntArray | None = None) -> Iterator[Batch]:
        """Yield batches in the given order of samples.

        Parameters
        ----------
        batch_size : int
            Number of samples in a batch; the last batch may be smaller.
        order : ndarray of int or None, default=None
            Indices of the samples in the order of the batches; None keeps the order of the FieldSet.

        Yields
        ------
        Batch
            Tensors on the device.
        """
        order = np.arange(len(self)) if order is None else order
        for start in range(0, len(order), batch_size):
            yield self.gather(order[start : start + batch_size])

    def bounded_batches(self, n_points: int) -> Iterator[tuple[IntArray, Batch]]:
        """Yield batches of successive samples with a bounded number of points, but at least one sample each.

        Parameters
        ----------
        n_points : int
            Largest number of points in a batch; 0 gives one sample at a time.

        Yields
        ------
        tuple of (ndarray of int, Batch)
            Indices of the samples, and their tensors.
        """
        start, count = 0, len(self.inputs)
        while start < count:
            last = np.searchsorted(self._offsets, self._offsets[start] + n_points, side="right") - 1
            stop = max(start + 1, int(last))
            yield (indices := np.arange(start, stop)), self.gather(indices)
            start = stop


def _compression(scaler: FieldScaler | None) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """The function of the targets that a scaler applies first; None where it applies none."""
    return None if scaler is None or scaler.function is None else scaler.compress


def _samples_of(part: torch.Tensor | None, count: int, sizes: tuple[int, ...] | None) -> list[Any]:
    """Split an argument of a network into samples, each with a first axis of length one; shared points stay shared."""
    if part is None:
        return [None] * count
    if sizes is not None:
        return [own.unsqueeze(0) for own in part.split(sizes)]
    return [part] * count if part.ndim == 2 else list(part.split(1))


def _sorted(array: FloatArray | None, rank: IntArray | None) -> FloatArray | None:
    """Reorder the points of samples, flat or with a sample axis."""
    if array is None or rank is None:
        return array
    return array.reshape(-1, array.shape[-1])[rank].reshape(array.shape)


def _pack(batch: Batch, sizes: tuple[int, ...]) -> None:
    """Add a sample axis to flat points if all samples have the same number of points; otherwise store their sizes."""
    if not is_uniform(sizes):
        batch.sizes = sizes
        return
    batch.coords = batch.coords.unflatten(0, (len(sizes), -1))
    batch.fields = None if batch.fields is None else batch.fields.unflatten(0, (len(sizes), -1))
    if batch.base is not None and batch.base.ndim == 2:
        batch.base = batch.base.unflatten(0, (len(sizes), -1))
    if batch.target is not None and batch.target.ndim == 2:
        batch.target = batch.target.unflatten(0, (len(sizes), -1))


def _nearest(points: torch.Tensor) -> torch.Tensor:
    """Numbers (P, k) of the nearest neighbours of each point, 2 for each dimension of the space."""
    places = points.cpu().double().numpy()
    # A point that has too few others is a neighbour of itself, with no slope.
    near = np.tile(np.arange(len(places), dtype=np.int32)[:, None], 2 * places.shape[1])
    if count := min(near.shape[1], len(places) - 1):
        near[:, :count] = KDTree(places).query(places, k=[*range(2, count + 2)])[1]
    return torch.from_numpy(near).to(points.device)


def _subsample_points(batch: Batch, sizes: IntArray, count: int, generator: torch.Generator | None) -> None:
    """Keep a random selection of the points of each sample."""
    rows, drawn = draw_rows(sizes, count, generator)
    index = torch.as_tensor(rows, device=batch.coords.device)
    coords = batch.coords
    if len(coords) != sizes.sum() and coords.ndim == 2:
        coords = coords.expand(len(sizes), *coords.shape)
    batch.coords = coords.reshape(-1, coords.shape[-1])[index]
    batch.fields = None if batch.fields is None else batch.fields.reshape(-1, batch.fields.shape[-1])[index]
    if batch.target is not None:
        batch.target = batch.target.reshape(-1, batch.target.shape[-1])[index]
    if batch.base is not None:
        batch.base = batch.base.reshape(-1, batch.base.shape[-1])[index]
    batch.order = None if batch.order is None else batch.order[rows]
    batch.grid_shape = None
    _pack(batch, drawn)


# ---------------------------------------------------------------------- rows of points
def batch_rows(offsets: IntArray, indices: IntArray) -> IntArray:
    """Return the rows of some samples in flat arrays, one sample after the other.

    Parameters
    ----------
    offsets : ndarray of shape (n + 1,)
        Index of the first row of each sample.
    indices : ndarray of int
        Indices of the samples.

    Returns
    -------
    ndarray of int
        Indices of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data._loading import batch_rows
    >>> batch_rows(np.array([0, 2, 5]), np.array([1, 0])).tolist()
    [2, 3, 4, 0, 1]
    """
    parts = [np.arange(offsets[index], offsets[index + 1]) for index in indices]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=int)


def draw_rows(sizes: IntArray, count: int, generator: torch.Generator | None) -> tuple[IntArray, tuple[int, ...]]:
    """Draw points of each sample at random, without replacement.

    Parameters
    ----------
    sizes : ndarray of int
        Number of points of each sample.
    count : int
        Number of points to draw; samples with fewer points are used whole.
    generator : torch.Generator or None
        Random number generator.

    Returns
    -------
    rows : ndarray of int
        Rows of the drawn points in flat arrays, in their order within each sample.
    drawn : tuple of int
        Number of points drawn from each sample.
    """
    starts = np.cumsum(sizes) - sizes
    parts = [
        start + np.sort(torch.randperm(int(size), generator=generator)[:count].numpy())
        for start, size in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(parts), tuple(len(part) for part in parts)


def is_uniform(sizes: FloatArray | IntArray | tuple[int, ...]) -> bool:
    """Tell whether all samples have the same number of points."""
    return len(set(np.asarray(sizes).tolist())) < 2
