"""Memory of steps: errors by which PyTorch and NumPy say that they are out of it, and what the system keeps of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["first_line", "is_out_of_memory", "keep_freed_memory", "naming_memory"]

#: Bytes of the largest block whose release glibc learns from (32 MiB), with room for what it writes beside a block.
_LEARNED = 2**25 - 2**13


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


def keep_freed_memory() -> None:
    """Have the C library keep what a step frees for the next one; it would give most of it back to the system."""
    # Each page that comes back from the system is a fault, and is filled with zeros. glibc gives back less, up to twice
    # the size, after a large block was freed; nothing is written to this one, so that it costs no memory. A user's
    # MALLOC_TRIM_THRESHOLD_ is left alone, and so are other C libraries.
    torch.empty(_LEARNED, dtype=torch.uint8)


def first_line(error: BaseException) -> str:
    """Beginning of what an error says, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
