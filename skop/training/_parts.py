"""Parts of mini-batches, for a small memory or several processes; their gradients add up to those of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from skop._draws import BatchRows
from skop._typing import IntArray
from skop.data import Batch

__all__ = ["split_batch"]


def split_batch(
    batch: Batch, n_parts: int, reduction: str, unit: int = 1, *, rank: int = 0, n_ranks: int = 1
) -> Iterator[tuple[Batch, Any, tuple[BatchRows, ...]]]:
    """Yield parts of a batch, the factors with which their losses add up to that of the whole, and their places.

    There are at most `n_parts`; `unit` successive samples stay together. The factor is the share of the samples in a
    mean over all, by their weights, or 1 for a sum. The places are those in the batch, by samples and, where these are
    packed, by points. Of several processes each gets its own parts; where there are fewer units than processes, some
    get a part with the factor 0.
    """
    if n_parts == n_ranks == 1:
        yield batch, 1.0, ()
        return
    whole = None if batch.weight is None else batch.weight.sum()
    units = np.array_split(np.arange(len(batch) // unit), n_ranks)[rank]
    # Every process calls the network and so draws the same random numbers.
    is_empty, units = not len(units), units if len(units) else np.zeros(1, dtype=int)
    ends = np.concatenate([[0], np.cumsum(batch.sizes)]) if batch.sizes is not None else None
    for groups in np.array_split(units, min(n_parts, len(units))):
        rows = slice(int(groups[0]) * unit, (int(groups[-1]) + 1) * unit)
        part = _part(batch, rows)
        share: Any = 0.0 if is_empty else 1.0
        if reduction == "mean" and not is_empty:
            share = len(part) / len(batch)
            if whole is not None and part.weight is not None:
                share = part.weight.sum() / torch.where(whole > 0, whole, 1.0)
        places = [BatchRows(rows, len(batch))]
        if ends is not None:
            places.append(BatchRows(slice(int(ends[rows.start]), int(ends[rows.stop])), int(ends[-1])))
        yield part, share, tuple(places)


def _part(batch: Batch, rows: slice) -> Batch:
    """Some successive samples of a batch."""
    is_packed = batch.sizes is not None
    points = _points_of(rows, batch.sizes)
    asked = _points_of(rows, batch.query_sizes)
    # Points that all samples share have no axis of samples.
    queries = {
        name: held if held is None or (batch.query_sizes is None and held.ndim == 2) else held[asked]
        for name, held in (batch.queries or {}).items()
    }
    return replace(
        batch,
        coords=batch.coords if not is_packed and batch.coords.ndim == 2 else batch.coords[points],
        fields=_rows(batch.fields, points),
        target=_rows(batch.target, points if batch.queries is None else asked),
        base=_rows(batch.base, points),
        params=_rows(batch.params, rows),
        weight=_rows(batch.weight, rows),
        scalars=_rows(batch.scalars, rows),
        base_scalars=_rows(batch.base_scalars, rows),
        sizes=None if batch.sizes is None else batch.sizes[rows],
        queries=None if batch.queries is None else queries,
        query_sizes=None if batch.query_sizes is None else batch.query_sizes[rows],
        order=_order_of(batch, rows, points),
        neighbours=_neighbours_of(batch, rows),
    )


def _order_of(batch: Batch, rows: slice, points: slice) -> IntArray | None:
    """Order of the points of some samples, counted from the first of these."""
    if batch.order is None:
        return None
    if batch.sizes is None:
        n_points = len(batch.order) // len(batch)
        points = slice(rows.start * n_points, rows.stop * n_points)
    return batch.order[points] - points.start


def _neighbours_of(batch: Batch, rows: slice) -> torch.Tensor | None:
    """Neighbours of the points of some samples, without padding that only others needed."""
    held, sizes = batch.neighbours, batch.sizes if batch.queries is None else batch.query_sizes
    if held is None or held.ndim == 2:
        return held
    return held[rows] if sizes is None else held[rows, : max(sizes[rows])]


def _rows(held: torch.Tensor | None, where: slice) -> torch.Tensor | None:
    """Rows of a tensor that may not be there."""
    return None if held is None else held[where]


def _points_of(rows: slice, sizes: tuple[int, ...] | None) -> slice:
    """Rows of the points of samples: those of the samples themselves where these are not packed."""
    if sizes is None:
        return rows
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return slice(int(ends[rows.start]), int(ends[rows.stop]))
