"""Errors by which PyTorch and NumPy say that they are out of memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["first_line", "is_out_of_memory", "naming_memory"]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be allocated, on a device or on the CPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # oneDNN says no more; of a kind of numbers that it does not have, it could not create a primitive descriptor.
    said = r"can't allocate memory|could not create a primitive(?! descriptor)"
    return isinstance(error, RuntimeError) and re.search(said, str(error)) is not None


@contextmanager
def naming_memory(what: str, advice: str) -> Iterator[None]:
    """Turn the errors by which PyTorch and NumPy say that they are out of memory into one that says what to do.

    Parameters
    ----------
    what : str
        What was being done.
    advice : str
        What to do, as a sentence without a full stop.

    Yields
    ------
    None
        The block runs.

    Raises
    ------
    MemoryError
        If it ran out of memory.

    Examples
    --------
    >>> from skop.training import naming_memory
    >>> with naming_memory("a prediction", "Predict fewer points"):
    ...     raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
    Traceback (most recent call last):
        ...
    MemoryError: a prediction ran out of memory (DefaultCPUAllocator: can't allocate memory). Predict fewer points.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryError(f"{what} ran out of memory ({first_line(error)}). {advice}.") from error


def first_line(error: BaseException) -> str:
    """Beginning of what an error says, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
