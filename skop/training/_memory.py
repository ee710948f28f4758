"""Memory that a training step frees, kept for the next step.

Every step allocates the same large arrays. The C library of Linux gives such arrays back to the system when
they are freed, and the system hands out zeroed pages again in the next step, one fault for each 4096 bytes. What
this costs depends on the system: little on an idle machine, much on one whose memory others use too.
"""

import ctypes
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["freed_memory_kept"]

#: Names and values of mallopt(3): what may stay free at the end of the heap, and how many allocations may
#: lie outside it, which are always given back.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_KEEP = {_TRIM_THRESHOLD: 2**31 - 1, _MMAP_MAX: 0}
#: glibc's default number, and the threshold that it moves to by itself in programs with large arrays.
_GIVE_BACK = {_TRIM_THRESHOLD: 64 * 2**20, _MMAP_MAX: 65536}

_lock = threading.Lock()
_users = 0


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory in the process within the block, and give it back after it.

    Works on Linux with glibc; elsewhere nothing happens. The setting is that of the whole process; blocks in
    several threads share it.

    Yields
    ------
    None
        The block runs.

    Examples
    --------
    >>> from skop.training import freed_memory_kept
    >>> with freed_memory_kept():
    ...     _ = bytearray(2**20)
    """
    library = _glibc()
    if library is None:
        yield
        return
    _enter(library)
    try:
        yield
    finally:
        _leave(library)


def _enter(library: Any) -> None:
    """Count a block, and change the setting for the first."""
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _set(library, _KEEP)


def _leave(library: Any) -> None:
    """Change the setting back after the last block, and give back what is free."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _set(library, _GIVE_BACK)
            library.malloc_trim(0)


def _set(library: Any, options: dict[int, int]) -> None:
    """Set options of the allocator."""
    for name, value in options.items():
        library.mallopt(name, value)


@cache
def _glibc() -> Any:
    """The C library, or None if it is not glibc."""
    if platform.libc_ver()[0] != "glibc":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
