"""What the Triton kernels of the scans share: launching, and states carried from chunk to chunk.

A scan is cut into chunks that are worked on at once. A first kernel finds what each chunk adds to the
state, `carry` turns that into the state that enters each chunk, and a last kernel scans the chunks.
The decay over a chunk is a power of the sum of its steps, so `carry` needs that sum and the rates. The backward
pass takes the same steps from the end; it needs only the entering states, which are the checkpoints.

bfloat16 and float32 tensors are computed in float32, float64 ones in float64.
No kernel uses atomics, and block sizes depend on shapes alone: results repeat bit by bit.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from skop.ops._triton_kernels import carry_kernel

__all__ = ["carry", "contiguous", "launch", "per_path", "power_of_two", "sum_paths"]

# Chunks that one program walks through one after the other. A longer sequence of chunks is carried in
# two or more levels, because the latency of a step, not its work, is what costs.
_GROUP = 32
# Elements of the state of one program: with 128 threads two loads of each are in flight.
_BLOCK = 256


def power_of_two(size: int, least: int = 1, most: int = 1 << 30) -> int:
    """Smallest power of two that covers a size, between two bounds."""
    return min(max(1 << (size - 1).bit_length(), least), most)


def launch(kernel: Any, programs: int, /, *arguments: Any, **options: Any) -> None:
    """Launch so many programs of a kernel on the device of its first argument."""
    device = arguments[0].device
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        # Fused multiply-adds are asked for by name because Triton's default changes.
        kernel[(programs,)](*arguments, enable_fp_fusion=True, **options)


def contiguous(given: Any) -> Any:
    """Arguments of a scan, made contiguous."""
    return given._make(value.contiguous() if isinstance(value, Tensor) else value for value in given)


def per_path(core: Any) -> Tensor:
    """New memory for outputs or gradients of x, for each path.

    The paths meet the tokens in different orders, so no program could sum them in registers: torch adds them up.
    """
    shape = (*core.dt.shape[:-1], *core.x.shape[core.dt.ndim - 1 :])
    new: Tensor = core.dt.new_empty(shape, dtype=core.dt.dtype if core.shares_x else core.x.dtype)
    return new


def sum_paths(core: Any, values: Tensor) -> Tensor:
    """Add up what `per_path` made, where the paths share x."""
    return values.sum(core.dt.ndim - 2, keepdim=True).to(core.x.dtype) if core.shares_x else values


def carry(
    states: Tensor, amounts: Tensor, rates: Tensor, start: Tensor | None, *, per_path: int = 1, reverse: bool = False
) -> Tensor:
    """Replace what each chunk adds to the state, (sequences, chunks, elements), by the state that enters it.

    The amounts (sequences, chunks, channels) are sums of the steps of each chunk, the rates (paths, n_rates) are in
    base e; the elements are a multiple of both numbers. `start` (sequences, elements) is the state before the first
    chunk, or None. Neighbouring sequences belong to one path: s to (s // per_path) % paths. The result is the state
    after the last chunk walked, which is the first with `reverse`.
    """
    sequences, chunks = states.shape[:2]
    if chunks <= 2 * _GROUP:
        return _walk(states, amounts, rates, start, per_path, reverse, group=chunks, store=True)[:, 0]
    missing = -chunks % _GROUP
    padded = torch.nn.functional.pad(amounts, (0, 0, 0, missing)) if missing else amounts
    group_amounts = padded.view(sequences, -1, _GROUP, amounts.shape[2]).sum(2)
    added = _walk(states, amounts, rates, None, per_path, reverse, group=_GROUP, store=False)
    end = carry(added, group_amounts, rates, start, per_path=per_path, reverse=reverse)
    _walk(states, amounts, rates, added, per_path, reverse, group=_GROUP, store=True)
    return end


def _walk(
    states: Tensor, amounts: Tensor, rates: Tensor, starts: Tensor | None, per_path: int, reverse: bool, *,
    group: int, store: bool,
) -> Tensor:  # fmt: skip
    """Walk through each group of chunks from its own start: states at their ends, (sequences, groups, elements)."""
    sequences, chunks, elements = states.shape
    groups = -(-chunks // group)
    ends = states.new_empty(sequences, groups, elements)
    block = power_of_two(elements, most=_BLOCK)
    starting = states if starts is None else starts.contiguous()
    per_amount, per_rate = elements // amounts.shape[2], elements // rates.shape[1]
    options = {"GROUP": group, "BLOCK": block, "REVERSE": reverse, "HAS_START": starts is not None, "STORE": store}
    pointers = (states, amounts, rates, starting, ends)
    numbers = (chunks, groups, elements, per_amount, per_rate, len(rates), per_path)
    programs, warps = sequences * groups * -(-elements // block), 4 if block >= 128 else 1
    launch(carry_kernel, programs, *pointers, *numbers, num_warps=warps, **options)
    return ends
