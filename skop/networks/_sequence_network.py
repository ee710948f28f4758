"""The skeleton of the networks whose tokens are the points themselves, in an order.

Notation: B samples, P points, T points of all samples of a packed batch, Q query points, d space dimensions,
c channels, p parameters, q outputs, s scalars, E width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import torch

from skop._typing import GridShape
from skop.modules import Neighbours, PooledHead, Probe, Stream, find_neighbours, sort_points
from skop.networks._channels import add_waves, count_samples
from skop.networks._interface import OperatorNetwork, Outputs
from skop.parts import Host

__all__ = ["Points", "Queries", "SequenceNetwork"]


@dataclass(frozen=True)
class Points:
    """Points of a batch in their order, with what is known there.

    Attributes
    ----------
    coords : Tensor of shape (B, P, d), or (1, T, d) with `sizes`
        Coordinates.
    fields : Tensor of shape (B, P, c), or (1, T, c) with `sizes`, or None
        Input fields.
    params : Tensor of shape (B, p) or None
        Global parameters.
    sizes : tuple of int or None
        Points of each sample of a packed batch.
    grid : tuple of int or None
        Points along each axis, where parts of the network make use of their grid.
    n_frequencies : int
        Frequencies of the sines and cosines that come with the coordinates.
    """

    coords: torch.Tensor
    fields: torch.Tensor | None = None
    params: torch.Tensor | None = None
    sizes: tuple[int, ...] | None = None
    grid: GridShape | None = None
    n_frequencies: int = 0

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Repeat what samples have, ``(B, k)``, at their points: ``(B, P, k)`` or ``(1, T, k)``."""
        if self.sizes is None:
            return values[:, None].expand(-1, self.coords.shape[1], -1)
        counts = torch.tensor(self.sizes, device=values.device)
        return values.repeat_interleave(counts, dim=0, output_size=self.coords.shape[1]).unsqueeze(0)

    def positions(self) -> torch.Tensor:
        """Return coordinates with their sines and cosines."""
        return add_waves(self.coords, self.n_frequencies)

    def channels(self) -> torch.Tensor:
        """Join coordinates with their sines and cosines, fields and repeated parameters."""
        parts = [self.positions(), self.fields, None if self.params is None else self.spread(self.params)]
        return torch.cat([part for part in parts if part is not None], dim=-1)

    def stream(self, tokens: torch.Tensor) -> Stream:
        """Return tokens of these points as a stream that other tokens can read."""
        return Stream(tokens, self.coords, self.sizes)


@dataclass(frozen=True)
class Queries(Points):
    """Other points of a batch, where outputs are wanted.

    Attributes
    ----------
    coords, fields, params, sizes, grid, n_frequencies
        See `Points`.
    neighbours : Neighbours
        Points of the input around each.
    """

    neighbours: Neighbours = field(kw_only=True)

    def carry(self, tokens: torch.Tensor) -> torch.Tensor:
        """Interpolate tokens of the input at these points; at a point of the input they stay as they are."""
        return self.neighbours.carry(tokens)

    @property
    def stands_for(self) -> torch.Tensor:
        """Numbers (B, Q) of the nearest points of the input, whose places these points take."""
        return self.neighbours.places[..., 0]

    def probe(self, tokens: torch.Tensor, references: Sequence[torch.Tensor] = ()) -> Probe:
        """Return tokens of these points as ones that stand in for those of the nearest points of the input."""
        return Probe(tokens, self.coords, self.stands_for, references)


class SequenceNetwork(OperatorNetwork):
    """Bring points into an order, let a subclass map them as sequences, and give its outputs in the caller's order.

    Points of a grid keep their C order; others are sorted along a space-filling curve, so that it does not matter in
    which order they are listed. The skeleton also packs samples of different sizes, finds the points of the input
    around query points, and pools tokens for scalars. A subclass states in `transform` what becomes of the sorted
    points; all mixers among its blocks are called with what `Points` holds, and at query points probed. Sizes have no
    default values.

    Parameters
    ----------
    pooled_width : int
        Size of the tokens that are pooled for scalars.
    on_grid : bool
        Whether a part of the network needs all points of a regular grid. There are then no query points.
    host : Host
        Order of the points, size of the convolutions by which blocks combine neighbouring points of a grid, and number
        of frequencies of the coordinates, see `skop.parts.Host`; without ``"auto"``.
    n_dims : int
        Space dimensions, 1 to 3.
    n_fields, n_params : int
        Input channels and global parameters.
    n_outputs : int
        Output channels; 0 for no field.
    n_scalars : int
        Scalars of a sample, from the mean of its tokens; 0 for none.

    Raises
    ------
    ValueError
        If there are other than 1 to 3 dimensions.

    Notes
    -----
    A query point takes the place of the nearest point of the input in the sequence, with its own coordinates, and with
    what is interpolated there where mixers pair tokens; nothing reads it. Its value hence does not depend on the other
    query points, and at a point of the input it is the value there.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from skop.modules import S6Mixer
    >>> from skop.networks import SequenceNetwork
    >>> from skop.parts import Host
    >>> class ScanNetwork(SequenceNetwork):
    ...     def __init__(self, *, width, host, **skeleton):
    ...         super().__init__(width, False, host, **skeleton)
    ...         self.lifting, self.mixer, self.head = nn.Linear(3, width), S6Mixer(width), nn.Linear(width, 1)
    ...     def transform(self, inputs, queries):
    ...         tokens = self.mixer(self.lifting(inputs.channels()), sizes=inputs.sizes)
    ...         return self.head(tokens if queries is None else queries.carry(tokens)), tokens
    >>> sizes = {"n_dims": 2, "n_fields": 1, "n_params": 0, "n_outputs": 1, "n_scalars": 2}
    >>> network = ScanNetwork(width=8, host=Host(kernel_size=1, n_frequencies=0), **sizes)
    >>> outputs = network(torch.rand(12, 2), torch.rand(12, 1), None, sizes=(5, 7))
    >>> outputs.field.shape, outputs.scalars.shape
    (torch.Size([12, 1]), torch.Size([2, 2]))
    """

    def __init__(
        self,
        pooled_width: int,
        on_grid: bool,
        host: Host,
        /,
        *,
        n_dims: int,
        n_fields: int,
        n_params: int,
        n_outputs: int,
        n_scalars: int,
    ) -> None:
        super().__init__()
        host._validate_params()
        if open_ := [name for name, value in host.values().items() if value == "auto"]:
            raise ValueError(
                f"{type(host).__name__} has {open_[0]}='auto', which depends on how the points lie; pass a copy for a "
                "geometry, such as host.on('grid'), host.on('structured') or host.on('points')."
            )
        if n_dims not in (1, 2, 3):
            raise ValueError(f"n_dims={n_dims}; expected points in 1, 2 or 3 dimensions.")
        self.needs_grid = on_grid or host.kernel_size > 1
        self.supports_packed, self.supports_queries = not self.needs_grid, not on_grid
        self.n_params = n_params
        self.n_outputs, self.point_order, self.n_frequencies = n_outputs, host.point_order, int(host.n_frequencies)
        #: Channels of a point's coordinates with their sines and cosines.
        self.n_positions = n_dims * (1 + 2 * self.n_frequencies)
        self.scalar_head = PooledHead(pooled_width, n_scalars) if n_scalars else None

    def transform(self, inputs: Points, queries: Queries | None) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Map samples to outputs, and to tokens that are pooled for scalars.

        Parameters
        ----------
        inputs : Points
            Points with fields and parameters.
        queries : Queries or None
            Other points, where the outputs are wanted; None asks for those of the input.

        Returns
        -------
        field : Tensor of shape (B, P, q), (B, Q, q) or (1, T, q), or None
            Outputs; None where the network was built with ``n_outputs=0``.
        tokens : Tensor of shape (B, P, E) or (1, T, E)
            Tokens of the points of the input.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define transform(inputs, queries).")

    def forward(
        self,
        coords: torch.Tensor,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        grid_shape: GridShape | None = None,
        sizes: tuple[int, ...] | None = None,
        query_coords: torch.Tensor | None = None,
        query_fields: torch.Tensor | None = None,
    ) -> Outputs:
        """Map samples on points to fields, scalars, or both, see `OperatorNetwork.forward`."""
        self.check_arguments(coords, fields, params, grid_shape, sizes, query_coords, query_fields)
        if (given := 0 if params is None else params.shape[-1]) != self.n_params:
            raise ValueError(f"{type(self).__name__} got {given} global parameters; expected n_params={self.n_params}.")
        is_grid = grid_shape is not None and sizes is None and prod(grid_shape) == coords.shape[-2]
        order = None if is_grid else self._order(coords, sizes)
        grid = tuple(grid_shape) if self.needs_grid and grid_shape is not None else None
        samples = 1 if sizes else count_samples(coords, fields, params)
        values = None
        if fields is not None:
            values = _sorted(fields.unsqueeze(0) if sizes else fields, order, samples)
        inputs = Points(_sorted(coords, order, samples), values, params, sizes, grid, self.n_frequencies)
        queries = None
        if query_coords is not None:
            places = query_coords.expand(samples, *query_coords.shape[-2:])
            # Samples that share both sets of points share their neighbours too.
            own = slice(1 if coords.ndim == query_coords.ndim == 2 else None)
            found = find_neighbours(inputs.coords[own], places[own])
            found = Neighbours(*(part.expand(samples, -1, -1) for part in found))
            queries = Queries(places, None, params, n_frequencies=self.n_frequencies, neighbours=found)
        field, tokens = self.transform(inputs, queries)
        scalars = None if self.scalar_head is None else self._pool(self.scalar_head, tokens, sizes)
        if field is None or queries is not None:
            return Outputs(field, scalars)
        field = _sorted(field, None if order is None else order.argsort(dim=-1), field.shape[0])
        return Outputs(field.squeeze(0) if sizes else field, scalars)

    def _order(self, coords: torch.Tensor, sizes: tuple[int, ...] | None) -> torch.Tensor | None:
        """Order of points (P, d), (B, P, d) or (T, d); None keeps theirs."""
        if self.point_order == "given":
            return None
        return sort_points(coords, self.point_order, sizes)

    @staticmethod
    def _pool(head: PooledHead, tokens: torch.Tensor, sizes: tuple[int, ...] | None) -> torch.Tensor:
        """Scalars of the samples, (B, s)."""
        return head(tokens) if sizes is None else torch.cat([head(own) for own in tokens.split(sizes, dim=1)])


def _sorted(values: torch.Tensor, order: torch.Tensor | None, samples: int) -> torch.Tensor:
    """Values (P, k) or (B, P, k) of the points in an order (P,) or (B, P), with an axis of samples."""
    values = values.expand(samples, *values.shape[-2:])
    if order is None:
        return values
    if order.ndim == 1:
        return values[:, order]
    return values.gather(1, order.unsqueeze(-1).expand(-1, -1, values.shape[-1]))
