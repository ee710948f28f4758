"""What the Triton kernels of the scans share: launching, and states carried from chunk to chunk.

A scan is cut into chunks that are worked on at once. A first kernel finds what each chunk adds to the
state, `carry` turns that into the state that enters each chunk, and a last kernel scans the chunks.
The decay over a chunk is a power of the sum of its steps, so `carry` needs that sum and the rates.

No kernel uses atomics, and block sizes depend on shapes alone: results repeat bit by bit.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = [
    "LAUNCH",
    "LOG2_E",
    "LOG2_E_VALUE",
    "carry",
    "on_device",
    "power_of_two",
    "recur",
    "scan_and_keep",
    "step_gradient",
]

# Decays are powers of two, which the hardware has; the rates are multiplied by log2(e).
LOG2_E_VALUE = 1.4426950408889634
LOG2_E = tl.constexpr(LOG2_E_VALUE)

#: Options of every launch. Fused multiply-adds are asked for by name because Triton's default changes.
LAUNCH: dict[str, Any] = {"enable_fp_fusion": True}

# Chunks that one program walks through one after the other. A longer sequence of chunks is carried in
# two or more levels, because the latency of a step, not its work, is what costs.
_GROUP = 32
# Elements of the state of one program: with 128 threads two loads of each are in flight.
_BLOCK = 256


def power_of_two(size: int, least: int = 1, most: int = 1 << 30) -> int:
    """Smallest power of two that covers a size, between two bounds."""
    return min(max(1 << (size - 1).bit_length(), least), most)


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Launch on the device of a tensor; nothing to do outside CUDA."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def step_gradient(grad_steps: Tensor, dt: Tensor, dt_bias: Tensor | None, softplus: bool) -> Tensor:
    """Gradient of what the steps were computed from, `dt + dt_bias`."""
    if not softplus:
        return grad_steps
    biased = dt if dt_bias is None else dt + dt_bias
    return torch.ops.aten.softplus_backward(grad_steps, biased, 1.0, 20.0)


def carry(
    states: Tensor, amounts: Tensor, rates: Tensor, start: Tensor | None, *, per_path: int = 1, reverse: bool = False
) -> Tensor:
    """Replace what each chunk adds to the state by the state that enters it.

    Parameters
    ----------
    states : Tensor of shape (sequences, chunks, elements)
        What each chunk adds; overwritten with the entering states.
    amounts : Tensor of shape (sequences, chunks, channels)
        Sum of the steps of each chunk; the elements are a multiple of the channels.
    rates : Tensor of shape (paths, n_rates)
        Decay rates in base e; the elements are a multiple of their number.
    start : Tensor of shape (sequences, elements) or None
        State before the first chunk; None means zero.
    per_path : int, default 1
        Neighbouring sequences of the same path; sequence s belongs to path (s // per_path) % paths.
    reverse : bool, default False
        Whether the chunks are walked from the last to the first.

    Returns
    -------
    Tensor of shape (sequences, elements)
        State after the last chunk walked.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._triton_tools import carry
    >>> states = torch.ones(1, 3, 1, device="cuda")  # doctest: +SKIP
    >>> half = torch.full((1, 1), 0.5, device="cuda").log()  # doctest: +SKIP
    >>> carry(states, torch.ones_like(states), half, None), states.flatten()  # doctest: +SKIP
    (tensor([[1.7500]]), tensor([0.0000, 1.0000, 1.5000]))
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
    states: Tensor,
    amounts: Tensor,
    rates: Tensor,
    starts: Tensor | None,
    per_path: int,
    reverse: bool,
    *,
    group: int,
    store: bool,
) -> Tensor:
    """Walk through each group of chunks from its own start: states at their ends, (sequences, groups, elements)."""
    sequences, chunks, elements = states.shape
    groups = -(-chunks // group)
    ends = states.new_empty(sequences, groups, elements)
    block = power_of_two(elements, most=_BLOCK)
    with on_device(states):
        _carry_kernel[(sequences * groups * -(-elements // block),)](
            states,
            amounts,
            rates,
            states if starts is None else starts.contiguous(),
            ends,
            chunks,
            groups,
            elements,
            elements // amounts.shape[2],
            elements // rates.shape[1],
            rates.shape[0],
            per_path,
            GROUP=group,
            BLOCK=block,
            REVERSE=reverse,
            HAS_START=starts is not None,
            STORE=store,
            num_warps=4 if block >= 128 else 1,
            **LAUNCH,
        )
    return ends


@triton.jit
def _carry_kernel(
    states: tl.tensor,
    amounts: tl.tensor,
    rates: tl.tensor,
    starts: tl.tensor,
    ends: tl.tensor,
    n_chunks: tl.tensor,
    n_groups: tl.tensor,
    n_elements: tl.tensor,
    per_amount: tl.tensor,
    per_rate: tl.tensor,
    n_paths: tl.tensor,
    per_path: tl.tensor,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    REVERSE: tl.constexpr,
    HAS_START: tl.constexpr,
    STORE: tl.constexpr,
) -> None:
    """One program: a block of elements of one sequence through one group of chunks."""
    program = tl.program_id(0)
    n_blocks = tl.cdiv(n_elements, BLOCK)
    group = (program // n_blocks) % n_groups
    sequence = (program // (n_blocks * n_groups)).to(tl.int64)
    element = (program % n_blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = element < n_elements
    path = (sequence // per_path) % n_paths
    rate = tl.load(rates + path * (n_elements // per_rate) + element // per_rate, mask=inside, other=0.0) * LOG2_E
    end = (sequence * n_groups + group) * n_elements + element
    state = tl.zeros_like(rate)
    if HAS_START:
        state = tl.load(starts + end, mask=inside, other=0.0)
    first = group * GROUP
    last = tl.minimum(first + GROUP, n_chunks) - 1
    for step in range(last - first + 1):
        chunk = first + step
        if REVERSE:
            chunk = last - step
        place = sequence * n_chunks + chunk
        amount = tl.load(amounts + place * (n_elements // per_amount) + element // per_amount, mask=inside, other=0.0)
        added = tl.load(states + place * n_elements + element, mask=inside, other=0.0)
        if STORE:
            tl.store(states + place * n_elements + element, state, mask=inside)
        state = tl.exp2(rate * amount) * state + added
    tl.store(ends + end, state, mask=inside)


@triton.jit
def recur(
    first_decay: tl.tensor, first: tl.tensor, second_decay: tl.tensor, second: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Two neighbouring stretches of a recurrence h = a h + u as one: associative, not commutative."""
    return first_decay * second_decay, second_decay * first + second


@triton.jit
def _recur_and_keep(
    first_decay: tl.tensor,
    first: tl.tensor,
    first_kept: tl.tensor,
    second_decay: tl.tensor,
    second: tl.tensor,
    second_kept: tl.tensor,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The same, and what the last step keeps of the steps before it."""
    passed = second_decay * first
    return first_decay * second_decay, passed + second, passed + second_kept


@triton.jit
def scan_and_keep(
    decay: tl.tensor, inputs: tl.tensor, edge: tl.tensor, start: tl.tensor, AXIS: tl.constexpr, REVERSE: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """States h = a h + u along an axis from an edge before its start, and a h apart.

    Where decays are strong, taking u off the state would leave nothing but its rounding error of a h.
    """
    kept = tl.where(start, decay * edge, 0.0)
    _product, states, kept = tl.associative_scan((decay, inputs + kept, kept), AXIS, _recur_and_keep, reverse=REVERSE)
    return states, kept
