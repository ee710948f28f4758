"""Fused CPU kernels of `skop.ops.ssd_scan`: what they are given, and what becomes of their results."""

from math import e, log2, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from skop.ops._cpu_tools import run_parts, sum_in_place
from skop.ops._simd import LANES
from skop.ops.ssd_scan import _cpu_backward, _cpu_kernels, _cpu_rows
from skop.ops.ssd_scan import _cpu_words as words
from skop.ops.ssd_scan._operation import Arguments

__all__ = ["backward", "forward"]

#: Work items to make at least, by splitting the heads: enough for the threads of a workstation to share.
_LEAST_ITEMS = 8
#: Heads of a work item at least, if there are so many: each split computes the products of the maps anew and has its
#: own sums for their gradients.
_LEAST_HEADS = 2
#: States of a work item at most: their memory, thrice in the backward pass, fits into a second-level cache.
_MOST_STATES = 1 << 16
_ALIGNMENT = 64
#: Bytes of a large page of most systems.
_LARGE_PAGE = 1 << 21
#: Whether products of matrices ask for memory that will be needed soon; a benchmark goes without.
_PREFETCHES = True

#: Parts of the kernels, by the words that hold their addresses.
_SHARED = {
    "PRODUCT": _cpu_rows.product_part,
    "TRANSPOSE": _cpu_rows.transpose_part,
    "ASK": _cpu_rows.ask_part,
}
_FORWARD = _SHARED | {
    "WALK": _cpu_kernels.walk_forward,
    "CHUNK_MAPS": _cpu_kernels.forward_maps,
    "HEAD_PART": _cpu_kernels.forward_head,
    "AHEAD_PART": _cpu_kernels.ask_forward,
}
_BACKWARD = _SHARED | {
    "WALK": _cpu_backward.walk_backward,
    "CHUNK_MAPS": _cpu_backward.backward_maps,
    "HEAD_PART": _cpu_backward.backward_head,
    "AHEAD_PART": _cpu_backward.ask_backward,
    "END_CHUNK": _cpu_backward.end_chunk,
    "ADVANCE": _cpu_backward.advance_all,
}


def forward(given: Arguments, keep: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scan: y, final state, and the states that enter every second chunk, if they are to be kept for `backward`."""
    problem, dt = _Problem(given), given.dt
    y = _empty(problem.x.shape, problem.x.dtype)
    final = dt.new_empty(problem.state_shape)
    kept = None
    if keep:
        samples, n_paths, *rest = problem.state_shape
        kept = _empty((samples, n_paths, -(-dt.shape[1] // (words.KEPT * words.CHUNK)), *rest), dt.dtype)
    problem.run(_FORWARD, {}, {"Y": y, "FINAL": final, "CHECKPOINTS": kept})
    return y.to(given.x.dtype), final, kept


def backward(
    given: Arguments, checkpoints: Tensor, grad_y: Tensor, grad_final: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients of the tensors that `forward` was given; None for what was None."""
    x, dt, A, B, _, D, *_ = given
    problem = _Problem(given)
    samples, length, n_paths, heads = dt.shape
    channels, n_maps = x.shape[-1], B.shape[2]
    grad_x, grad_dt = _empty(problem.x.shape, problem.x.dtype), torch.empty_like(problem.dt)
    # Items of one path each cannot add to the same rows; items of all paths do.
    rows = n_maps if given.shares_x else n_paths
    grad_maps = [_empty((problem.splits, samples, length, rows, B.shape[3]), dt.dtype) for _ in range(2)]
    grad_a = dt.new_empty(samples, n_paths, heads, dtype=torch.float64)
    rows_shape = (samples, n_paths, heads, -(-channels // LANES) * LANES)
    grad_d = None if D is None else dt.new_empty(rows_shape, dtype=torch.float64)
    grad_start = None if given.initial_state is None else dt.new_empty(problem.state_shape)
    more = {
        "CHECKPOINTS": checkpoints,
        "GRAD_Y": grad_y.to(dt.dtype).contiguous(),
        "GRAD_FINAL": None if grad_final is None else grad_final.contiguous(),
    }
    grads = {"GRAD_X": grad_x, "GRAD_DT": grad_dt, "GRAD_A": grad_a, "GRAD_B": grad_maps[0], "GRAD_C": grad_maps[1]}
    problem.run(_BACKWARD, more, {**grads, "GRAD_D": grad_d, "GRAD_START": grad_start})
    grad_b, grad_c = (_sum_maps(value, n_maps).to(B.dtype) for value in grad_maps)
    if grad_d is not None and D is not None:
        grad_d = grad_d.sum(0)[..., :channels].sum_to_size(D.shape).to(D.dtype)
    return grad_x.to(x.dtype), grad_dt, grad_a.sum(0).to(A.dtype), grad_b, grad_c, grad_d, grad_start


def _empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """New tensor in NumPy's memory."""
    # The first touch of fresh memory costs as much as the kernels. NumPy asks the system for large pages, which cost
    # several times less, and torch does not. What lies before the first or after the last whole page has small ones.
    size = prod(shape) * dtype.itemsize
    alignment = _LARGE_PAGE if size >= 2 * _LARGE_PAGE else _ALIGNMENT
    memory = np.empty((size // alignment + 2) * alignment, dtype=np.uint8)
    first = -memory.ctypes.data % alignment
    return torch.from_numpy(memory[first : first + size]).view(dtype).view(shape)


def _sum_maps(values: Tensor, n_maps: int) -> Tensor:
    """Sum gradients of maps, (splits, b, L, K, N), over the splits, and over the paths where these share maps."""
    total = sum_in_place(values)
    return total if total.shape[2] == n_maps else total.sum(2, keepdim=True)


class _Problem:
    """One scan in the form that its kernels read."""

    def __init__(self, given: Arguments) -> None:
        x, dt, A, B, C, D, initial_state, paths, *_ = given
        samples, length, n_paths, heads = dt.shape
        channels, states = x.shape[4], B.shape[3]
        shared = given.shares_x
        self.x, self.dt, B, C = (value.to(dt.dtype).contiguous() for value in (x, dt, B, C))
        self.state_shape = (samples, n_paths, heads, channels, states)
        items = samples * (1 if shared else n_paths)
        most = max(1, _MOST_STATES // (channels * states))
        wanted = max(_LEAST_HEADS, -(-heads // -(-_LEAST_ITEMS // items)))
        split_heads = min(heads, most, wanted)
        self.splits = -(-heads // split_heads)
        self.n_items = items * self.splits
        wide_channels, wide_states = (-(-size // LANES) * LANES for size in (channels, states))
        self.regions = words.region_sizes(wide_channels, wide_states, split_heads, dt.element_size())
        skips = dt.new_zeros(n_paths, heads, channels) if D is None else D.expand(n_paths, heads, channels)
        start = None if initial_state is None else initial_state.contiguous()
        self.values: dict[str, int | Tensor | None] = {
            "SAMPLES": samples, "LENGTH": length, "N_PATHS": n_paths, "SHARED": shared,
            "SHARED_MAPS": B.shape[2] < n_paths, "HEADS": heads, "CHANNELS": channels, "STATES": states,
            "SPLITS": self.splits, "SPLIT_HEADS": split_heads, "WIDE_CHANNELS": wide_channels,
            "WIDE_STATES": wide_states, "SIZE": wide_channels * wide_states,
            "QUEUE_END": words.QUEUE_SIZE if _PREFETCHES else 0, "HAS_SKIP": D is not None, "X": self.x, "DT": self.dt,
            "A": (A.double() * log2(e)).contiguous(), "B": B, "C": C,
            "D": pad(skips, (0, -channels % LANES)).contiguous(), "START": start, "PATHS": paths.contiguous(),
        }  # fmt: skip

    def run(self, parts: dict[str, Any], more: dict[str, Tensor | None], outputs: dict[str, Tensor | None]) -> None:
        """Run a kernel on the problem and what more it needs."""
        values = self.values | more
        run_parts(_cpu_rows.run, self.dt.dtype, words, values, outputs, parts, self.regions, n_items=self.n_items)
