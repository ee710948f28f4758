"""Measurement of the CPU's rate of fused multiply-adds, with SIMD vectors in registers (for the roofline model)."""

import time
from typing import Any

import numpy as np
from numba import cfunc, types

from skop.ops._simd import LANES, load, pointer, store
from skop.ops._threads import run_on_threads

__all__ = ["multiply_adds_per_second"]

#: Independent chains: enough to hide the latency, few enough for the registers of AVX2.
_CHAINS = 8
_ROUNDS = 400_000
_REPEATS = 50
_SIGNATURE = types.void(types.CPointer(types.int64))


def multiply_adds_per_second(n_threads: int) -> float:
    """Measure the rate as the best of many short runs, which are less affected by other programs than one long run.

    Parameters
    ----------
    n_threads : int
        Number of threads, at least 1.

    Returns
    -------
    float
        Fused multiply-adds of single float32 numbers per second, of all threads together.

    Examples
    --------
    >>> from benchmarks._cpu_roofline import multiply_adds_per_second
    >>> multiply_adds_per_second(1) > 1e8
    True
    """
    numbers = np.full((2 + _CHAINS) * LANES, 0.5, dtype=np.float32)
    table = np.array([_ROUNDS, numbers.ctypes.data], dtype=np.int64)
    kernel: int = cfunc(_SIGNATURE)(_multiply_adds).address  # type: ignore[assignment]
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run_on_threads(kernel, table.ctypes.data, n_threads)
        best = min(best, time.perf_counter() - start)
    return n_threads * _ROUNDS * _CHAINS * LANES / best


def _multiply_adds(table: Any) -> None:
    """Run eight chains of h = a h + b; table holds the number of rounds and the address of a, b and the h."""
    numbers: Any = pointer(table[1], types.float32)
    a, b = load(numbers, 0), load(numbers, LANES)
    h0, h1, h2, h3 = load(numbers, 32), load(numbers, 48), load(numbers, 64), load(numbers, 80)
    h4, h5, h6, h7 = load(numbers, 96), load(numbers, 112), load(numbers, 128), load(numbers, 144)
    for _ in range(table[0]):
        h0, h1, h2, h3 = a * h0 + b, a * h1 + b, a * h2 + b, a * h3 + b
        h4, h5, h6, h7 = a * h4 + b, a * h5 + b, a * h6 + b, a * h7 + b
    # What is not stored need not be computed. All threads store the fixed point of the chains.
    store(numbers, 32, h0 * h1 * h2 * h3 * h4 * h5 * h6 * h7)
