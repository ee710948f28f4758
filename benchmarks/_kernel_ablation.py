"""Ablation of the SIMD vector type and of the prefetch queue of the CPU kernels.

The selective scan along a path (forward pass) is compared with the same loops over 16 neighbouring channels in plain
Numba, which LLVM may or may not vectorise. The SSD scan is compared with the same scan without prefetching. Calls
alternate, on one thread, and the smallest CPU time counts.
"""

import argparse
from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks._report import Report

__all__ = ["add_command"]

#: Problems: batch, tokens, channels (heads and channels of a head), states.
_PATH = {"short": (16, 256, 128, 16), "long": (1, 16384, 64, 16)}
_SSD = {"short": (16, 256, 16, 32, 64), "long": (1, 16384, 4, 64, 64)}


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("kernel-ablation", help=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="calls of each, in turns")
    parser.add_argument("--quick", action="store_true", help="tiny problems, to see that everything runs")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _report(Report("The vector type and the prefetch queue", options.output), options)
    finally:
        torch.set_num_threads(threads)


def _report(report: Report, options: argparse.Namespace) -> None:
    """Table of all pairs."""
    rows = []
    for measured, shapes in ((_vectors, _PATH), (_queue, _SSD)):
        for name, shape in shapes.items():
            sizes = (1, 64, *shape[2:]) if options.quick else shape
            words, calls = measured(*sizes)
            times = _least_times(calls, options.repeats)
            report.record(f"{words}, {name}", {"shape": sizes, "with": times[0], "without": times[1]})
            milliseconds = [f"{1e3 * value:.2f}" for value in times]
            rows.append([words, f"{name}, {sizes}", *milliseconds, f"{times[1] / times[0]:.2f}"])
    report.table("CPU time", ["what", "problem", "with, ms", "without, ms", "ratio"], rows)


def _least_times(calls: tuple[Callable[[], Any], ...], repeats: int) -> list[float]:
    """Least CPU time of each call, in turns, after one that does not count."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats + 1):
        for call, found in zip(calls, times, strict=True):
            begin = thread_time()
            call()
            found.append(thread_time() - begin)
    return [min(found[1:]) for found in times]


def _vectors(batch: int, length: int, channels: int, states: int) -> tuple[str, tuple[Callable[[], Any], ...]]:
    """The forward scan along a path, and plain loops; their outputs are the same but for rounding."""
    from skop.ops._selective import Arguments
    from skop.ops.selective_scan._cpu import forward

    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    x, dt = normal(batch, length, 1, channels), torch.rand(batch, length, 1, channels, generator=generator)
    maps, rates = normal(2, batch, length, 1, states), -torch.rand(1, channels, states, generator=generator)
    path = torch.arange(length, dtype=torch.int32)[None]
    given = Arguments(x, dt, rates, maps[0], maps[1], None, None, None, None, path, False)
    plain = _plain_scan()
    arrays = [value.numpy() for value in (x[:, :, 0], dt[:, :, 0], rates[0].T.contiguous(), maps[0, :, :, 0])]
    arrays += [maps[1, :, :, 0].numpy(), np.zeros((batch, length, channels), np.float32)]

    def ours() -> Tensor:
        return forward(given, False)[0]

    plain(*arrays)
    torch.testing.assert_close(torch.from_numpy(arrays[-1]), ours()[:, :, 0], rtol=1e-4, atol=1e-4)
    return "vector type, path, forward", (ours, lambda: plain(*arrays))


def _plain_scan() -> Callable[..., None]:
    """The loops of the kernel without vectors; 2^v by the same steps, so that no call of a library is in the way."""
    from numba import njit

    from skop.ops._simd_vector import KINDS, Vector, types

    a, b, c, d, e = (np.float32(value) for value in KINDS[Vector(types.float32)].power)
    log2_e, rounder = np.float32(np.log2(np.e)), np.float32(1.5 * 2.0**23)

    @njit(fastmath={"contract"})
    def scan(x, dt, rates, maps_in, maps_out, y):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        samples, length, channels = x.shape
        states = rates.shape[0]
        bits = np.empty(16, np.int32)
        scales, decays, h = bits.view(np.float32), np.empty(16, np.float32), np.empty((states, 16), np.float32)
        inputs, outputs = np.empty(16, np.float32), np.empty(16, np.float32)
        for sample in range(samples):
            for first in range(0, channels, 16):
                h[:] = np.float32(0)
                for t in range(length):
                    for lane in range(16):
                        inputs[lane] = dt[sample, t, first + lane] * x[sample, t, first + lane]
                        outputs[lane] = np.float32(0)
                    for n in range(states):
                        b_n, c_n = maps_in[sample, t, n], maps_out[sample, t, n]
                        for lane in range(16):
                            v = max(dt[sample, t, first + lane] * (rates[n, first + lane] * log2_e), np.float32(-126))
                            whole = (v + rounder) - rounder
                            f = v - whole
                            decays[lane] = ((((a * f + b) * f + c) * f + d) * f + e) * f + np.float32(1)
                            bits[lane] = (np.int32(whole) + np.int32(127)) << np.int32(23)
                        for lane in range(16):
                            h[n, lane] = decays[lane] * scales[lane] * h[n, lane] + inputs[lane] * b_n
                            outputs[lane] += h[n, lane] * c_n
                    for lane in range(16):
                        y[sample, t, first + lane] = outputs[lane]

    return scan


def _queue(
    batch: int, length: int, heads: int, channels: int, states: int
) -> tuple[str, tuple[Callable[[], Any], ...]]:
    """The SSD scan, forward and backward, with and without the queue."""
    from skop.ops.ssd_scan import _cpu
    from skop.ops.ssd_scan._operation import Arguments

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, length, 1, heads, channels, generator=generator)
    steps, rates = torch.rand(batch, length, 1, heads, generator=generator), -torch.ones(1, heads)
    maps = torch.randn(2, batch, length, 1, states, generator=generator)
    path = torch.arange(length, dtype=torch.int32)[None]
    given = Arguments(x, steps, rates, maps[0], maps[1], None, None, path)

    def scan(has_queue: bool) -> None:
        forward: Any = _cpu.forward
        backward: Any = _cpu.backward
        _cpu._PREFETCHES = has_queue
        try:
            backward(given, forward(given, True)[-1], x, None)
        finally:
            _cpu._PREFETCHES = True

    return "prefetch queue, SSD, forward and backward", (lambda: scan(True), lambda: scan(False))
