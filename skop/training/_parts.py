"""Mini-batches that are too large for the memory: taken in parts, whose gradients add up to those of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from skop.data import Batch

__all__ = ["can_be_split", "split_batch"]


def can_be_split(batch: Batch, n_parts: int, unit: int = 1) -> bool:
    """Tell whether a batch can be taken in more parts than so many.

    Parameters
    ----------
    batch : Batch
        Mini-batch.
    n_parts : int
        Number of parts.
    unit : int, default=1
        Number of successive samples that stay together.

    Returns
    -------
    bool
        Whether there are more units, and targets are at the points of the inputs.
    """
    return batch.queries is None and n_parts < len(batch) // unit


def split_batch(batch: Batch, n_parts: int, reduction: str, unit: int = 1) -> Iterator[tuple[Batch, Any]]:
    """Yield parts of a batch, and the factors with which their losses add up to that of the whole.

    Parameters
    ----------
    batch : Batch
        Mini-batch of B samples.
    n_parts : int
        Largest number of parts.
    reduction : {"mean", "sum"}
        Reduction of the loss over the samples.
    unit : int, default=1
        Number of successive samples that stay together.

    Yields
    ------
    tuple of (Batch, float or Tensor)
        A part, and the share of its samples in a mean over all, by their weights; 1 for a sum.

    Examples
    --------
    >>> import torch
    >>> from skop.data import Batch
    >>> from skop.training import split_batch
    >>> batch = Batch(torch.zeros(3, 1), torch.zeros(4, 3, 2), None, None)
    >>> [(len(part), share) for part, share in split_batch(batch, 2, "mean")]
    [(2, 0.5), (2, 0.5)]
    """
    whole = None if batch.weight is None else batch.weight.sum()
    for groups in np.array_split(np.arange(len(batch) // unit), min(n_parts, len(batch) // unit)):
        rows = slice(int(groups[0]) * unit, (int(groups[-1]) + 1) * unit)
        part = _part(batch, rows)
        share: Any = 1.0
        if reduction == "mean":
            share = len(part) / len(batch)
            if whole is not None and part.weight is not None:
                share = part.weight.sum() / torch.where(whole > 0, whole, 1.0)
        yield part, share


def _part(batch: Batch, rows: slice) -> Batch:
    """Some successive samples of a batch."""
    points = rows
    if batch.sizes is not None:
        ends = np.concatenate([[0], np.cumsum(batch.sizes)])
        points = slice(int(ends[rows.start]), int(ends[rows.stop]))
    shared = batch.sizes is None and batch.coords.ndim == 2

    def of(held: torch.Tensor | None, where: slice) -> torch.Tensor | None:
        """The same of a tensor."""
        return None if held is None else held[where]

    return replace(
        batch,
        coords=batch.coords if shared else batch.coords[points],
        fields=of(batch.fields, points),
        target=of(batch.target, points),
        base=of(batch.base, points),
        params=of(batch.params, rows),
        weight=of(batch.weight, rows),
        scalars=of(batch.scalars, rows),
        base_scalars=of(batch.base_scalars, rows),
        sizes=None if batch.sizes is None else batch.sizes[rows],
        order=None,
    )
