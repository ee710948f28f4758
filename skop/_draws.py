"""Random numbers of a part of a batch: the rows of those that are drawn for the whole batch.

Processes that share a batch have random number generators in the same state. Each draws for all rows and takes its own,
so that the numbers of a sample do not depend on the number of processes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch

__all__ = ["BatchRows", "draw_for_rows", "part_of_draws"]


@dataclass(frozen=True)
class BatchRows:
    """Place of a part of a batch in the whole.

    Attributes
    ----------
    rows : slice
        Successive samples, or points of packed samples, that form the part.
    total : int
        Number of them in the whole batch.
    """

    rows: slice
    total: int

    def __len__(self) -> int:
        return self.rows.stop - self.rows.start


#: The part of the batch that is computed, by samples and, where these are packed, by points.
_parts: ContextVar[tuple[BatchRows, ...]] = ContextVar("parts", default=())


@contextmanager
def part_of_draws(*parts: BatchRows) -> Iterator[None]:
    """Compute a part of a batch within the block.

    Parameters
    ----------
    *parts : BatchRows
        The part, by samples and, where these are packed, by points.

    Yields
    ------
    None
        The block runs.
    """
    token = _parts.set(parts)
    try:
        yield
    finally:
        _parts.reset(token)


def draw_for_rows(draw: Callable[[int], torch.Tensor], n_rows: int) -> torch.Tensor:
    """Draw random numbers for the rows of a tensor.

    Parameters
    ----------
    draw : callable
        Function that draws the numbers of so many rows.
    n_rows : int
        Number of rows: samples, or points of packed samples.

    Returns
    -------
    Tensor of shape (n_rows, ...)
        Those of a part of a batch are rows of the numbers for the whole batch.

    Examples
    --------
    >>> import torch
    >>> from skop._draws import BatchRows, draw_for_rows, part_of_draws
    >>> with part_of_draws(BatchRows(slice(2, 4), 6)):
    ...     draw_for_rows(torch.arange, 2).tolist()
    [2, 3]
    """
    for part in _parts.get():
        if len(part) == n_rows:
            return draw(part.total)[part.rows]
    return draw(n_rows)
