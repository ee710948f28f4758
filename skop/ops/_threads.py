"""Share the work of a compiled kernel among threads.

A kernel is a C function of one pointer that takes work items, one after the other, from a counter which
all its threads share. It runs on the threads that torch's own operators run on, so that no two pools
fight for the same cores: torch's OpenMP threads spin for a while after each operator, and a thread of
another pool would start behind one of them.
"""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from skop._threads import gnu_parallel

__all__ = ["run_on_threads"]

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

#: OpenMP's threads do not survive a fork, and calling for them in the child waits for ever.
_is_forked = False


def run_on_threads(kernel: int, arguments: int, n_threads: int) -> None:
    """Call the C function ``void kernel(void *arguments)`` at an address in up to `n_threads` threads at once; wait."""
    if n_threads == 1 or _is_forked:
        _SIGNATURE(kernel)(arguments)
        return
    parallel = gnu_parallel()
    if parallel is not None:
        parallel(kernel, arguments, n_threads, 0)
    else:
        list(_pool(n_threads).map(_SIGNATURE(kernel), [arguments] * n_threads))


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads of Python's, for where torch's cannot be reached."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="skop")


def _note_fork() -> None:
    """Run serially from now on: the parent's threads are not in this process."""
    global _is_forked
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
