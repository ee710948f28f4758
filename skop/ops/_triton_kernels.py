"""Triton functions that the kernels of the scans share, and the kernel that carries states from chunk to chunk."""

import triton
import triton.language as tl

# Decays are powers of two, which the hardware has; the rates are multiplied by log2(e).
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def carry_kernel(
    states, amounts, rates, starts, ends, n_chunks, n_groups, n_elements, per_amount, per_rate, n_paths, per_path,
    GROUP: tl.constexpr, BLOCK: tl.constexpr, REVERSE: tl.constexpr, HAS_START: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
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
def recur(first_decay, first, second_decay, second):
    """Two neighbouring stretches of a recurrence h = a h + u as one: associative, not commutative."""
    return first_decay * second_decay, second_decay * first + second


@triton.jit
def _recur_and_keep(first_decay, first, first_kept, second_decay, second, second_kept):
    """The same, and what the last step keeps of the steps before it."""
    passed = second_decay * first
    return first_decay * second_decay, passed + second, passed + second_kept


@triton.jit
def scan_and_keep(decay, inputs, edge, start, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    """States h = a h + u along an axis from an edge before its start, and a h apart.

    Where decays are strong, taking u off the state would leave nothing but its rounding error of a h.
    """
    kept = tl.where(start, decay * edge, 0.0)
    _product, states, kept = tl.associative_scan((decay, inputs + kept, kept), AXIS, _recur_and_keep, reverse=REVERSE)
    return states, kept
