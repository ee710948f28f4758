"""Threads of torch and of BLAS: how idle ones wait for work, and small products that are computed in one thread.

Torch's OpenMP threads spin where cores are free, and sleep where other programs need them.

A thread that spins takes up the next operation at once, but uses its core while it waits. Where another program needs
that core, the system then gives the core to the other program in the middle of an operation, and all threads wait for
this one: with one of two cores busy a fit takes about ten times as long. A thread that sleeps has to be woken, which
takes longer than a small operation: on an idle machine a fit then gains nothing from its second thread.

GNU's OpenMP, which PyTorch's packages for Linux contain, spins for some milliseconds, but lets its threads sleep at
once while it counts more of them than cores. `considerate_waiting` looks at what the cores do, and adds idle threads
while other programs need them. No result changes: as many threads compute as before. The threads of NumPy's and SciPy's
products wait in the same way: `one_thread` does small ones without them.

Importing this module imports torch, by `import_torch`. Every package of skop that needs torch therefore imports this
module before anything else; ``import skop`` alone imports neither.
"""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from threadpoolctl import ThreadpoolController

__all__ = ["considerate_waiting", "gnu_parallel", "import_torch", "one_thread"]

#: What a user may have set about waiting; then nothing is changed.
_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
#: LLVM's and Intel's OpenMP read when they start for how many milliseconds to spin; GNU's does not know the variable.
_ASLEEP = {"KMP_BLOCKTIME": "0"}
_is_set_by_user = any(name in os.environ for name in _VARIABLES)

#: Seconds between two looks at the cores, and cores that other programs may use without being noticed.
_PERIOD, _UNNOTICED = 0.25, 0.2
_STATISTICS = Path("/proc/stat")

_lock = threading.Lock()
_n_blocks = 0
_watch: "_Watch | None" = None
#: Number of blocks of `one_thread` that run, and what ends the limit.
_n_single, _limit = 0, None


def import_torch() -> bool:
    """Import torch so that the threads of LLVM's and Intel's OpenMP (macOS, Windows) sleep when idle.

    Nothing is set if torch is imported already, or if the user has set any of ``OMP_WAIT_POLICY``, ``GOMP_SPINCOUNT``,
    ``KMP_BLOCKTIME`` or ``KMP_LIBRARY``. The variable is set while torch is imported and no longer: programs that
    this one starts do not inherit it.

    Returns
    -------
    bool
        Whether the waiting was set.

    Examples
    --------
    >>> import torch
    >>> from skop._threads import import_torch
    >>> import_torch()
    False
    """
    if "torch" in sys.modules or _is_set_by_user:
        return False
    os.environ.update(_ASLEEP)
    try:
        import torch

        torch.get_num_threads()  # LLVM's OpenMP reads its variables on first use
    finally:
        for name in _ASLEEP:
            del os.environ[name]
    return True


@cache
def gnu_parallel() -> Callable[[int, int, int, int], None] | None:
    """Return the entry of GNU's OpenMP in the library that torch has loaded, or None where torch has another.

    Returns
    -------
    callable or None
        ``gnu_parallel(function, argument, n_threads, flags)`` calls a C function ``void function(void *argument)``,
        given by its address, in several threads at once.
    """
    import torch

    folder = Path(torch.__file__).parent / "lib"
    for name in ("libtorch_cpu.so", "libtorch.so"):
        try:
            # A symbol is looked up in the library and in all that it depends on.
            function = ctypes.CDLL(str(folder / name)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        function.restype = None
        return function
    return None


@contextmanager
def considerate_waiting(n_threads: int) -> Iterator[None]:
    """Let torch's threads sleep while other programs need the cores, within the block.

    Parameters
    ----------
    n_threads : int
        Threads that compute within the block. Nothing is done for a single thread, which waits for nobody; nor where
        torch has another OpenMP than GNU's, where the system does not count what its cores do, or where the user has
        set one of ``OMP_WAIT_POLICY``, ``GOMP_SPINCOUNT``, ``KMP_BLOCKTIME`` and ``KMP_LIBRARY``.

    Yields
    ------
    None
        The block runs.

    Examples
    --------
    >>> import torch
    >>> from skop._threads import considerate_waiting
    >>> with considerate_waiting(torch.get_num_threads()):
    ...     total = torch.ones(1000, 1000).sum()
    """
    global _n_blocks, _watch
    if n_threads < 2 or _is_set_by_user or gnu_parallel() is None or not _STATISTICS.exists():
        yield
        return
    with _lock:
        _n_blocks += 1
        if _watch is None:
            _watch = _Watch(n_threads)
            _watch.start()
    try:
        yield
    finally:
        with _lock:
            _n_blocks -= 1
            ended, _watch = (_watch, None) if _n_blocks == 0 else (None, _watch)
        if ended is not None:
            ended.stop()


@cache
def _controller() -> ThreadpoolController:
    """The libraries for products of matrices of this process, which are looked up once."""
    return ThreadpoolController()


def _let_any_thread_limit() -> None:
    """Let threadpoolctl obey any thread: from version 3.8 on it obeys only the first one that sets a limit."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which NumPy and SciPy compute products and decompositions of matrices in one thread.

    Systems of up to 2,000 samples, and products of few rows, gain little from several threads, which wait for each
    other after every operation: where another program uses one of the cores, a fit takes ten times as long. The number
    of threads is that of the whole process; the last of several blocks at a time gives it back. One thread also means
    the same last bits on any machine.

    Yields
    ------
    None
        The block runs.

    Examples
    --------
    >>> import numpy as np
    >>> from skop._threads import one_thread
    >>> with one_thread():
    ...     left, sizes, right = np.linalg.svd(np.eye(3))
    """
    global _n_single, _limit
    with _lock:
        if not _n_single:
            _let_any_thread_limit()
            _limit = _controller().limit(limits=1, user_api="blas")
            _let_any_thread_limit()
        _n_single += 1
    try:
        yield
    finally:
        with _lock:
            _n_single -= 1
            if not _n_single and _limit is not None:
                _let_any_thread_limit()
                _limit.restore_original_limits()
                _let_any_thread_limit()


class _Watch(threading.Thread):
    """Look at the cores now and then, and keep idle OpenMP threads while others need them."""

    def __init__(self, n_threads: int) -> None:
        super().__init__(name="skop-cores", daemon=True)
        self._n_threads, self._is_over = n_threads, threading.Event()

    def stop(self) -> None:
        """End, with the idle threads."""
        self._is_over.set()
        self.join()

    def run(self) -> None:
        """Look until it is over."""
        crew, before = None, _seconds()
        while not self._is_over.wait(_PERIOD):
            now = _seconds()
            is_crowded = _others(before, now) + self._n_threads > len(_cores()) + _UNNOTICED
            before = now
            if is_crowded and crew is None:
                crew = _Crew()
                crew.start()
            elif not is_crowded and crew is not None:
                crew.dismiss()
                crew = None
        if crew is not None:
            crew.dismiss()


class _Crew(threading.Thread):
    """Own a team of idle OpenMP threads: with it, there are more threads than cores."""

    def __init__(self) -> None:
        super().__init__(name="skop-crew", daemon=True)
        self._is_dismissed = threading.Event()

    def dismiss(self) -> None:
        """End; OpenMP's threads end with the thread that started them."""
        self._is_dismissed.set()
        self.join()

    def run(self) -> None:
        """Start the team by a call of free(NULL), which does nothing, and wait."""
        parallel = gnu_parallel()
        nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p).value
        if parallel is not None and nothing is not None:
            parallel(nothing, 0, len(_cores()) + 1, 0)
        self._is_dismissed.wait()


def _cores() -> frozenset[int]:
    """Cores that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def _seconds() -> tuple[float, float, float]:
    """Time, work of these cores, and work of this process, in seconds."""
    cores, ticks = _cores(), 0
    for line in _STATISTICS.read_text().splitlines():
        name, *counts = line.split()
        if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in cores:
            # User, nice and system time, interrupts, and what other virtual machines took; not idle or waiting time.
            ticks += sum(int(counts[place]) for place in (0, 1, 2, 5, 6, 7))
    own = os.times()
    return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), own.user + own.system


def _others(before: tuple[float, float, float], now: tuple[float, float, float]) -> float:
    """Cores that other programs used between two looks."""
    elapsed, work, own = (after - earlier for after, earlier in zip(now, before, strict=True))
    return max(0.0, work - own) / elapsed


def _forget() -> None:
    """Begin anew in a forked process, which has none of its parent's threads."""
    global _lock, _n_blocks, _watch
    _lock, _n_blocks, _watch = threading.Lock(), 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

import_torch()
