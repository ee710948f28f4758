"""GPU form of `skop.ops.ssd_scan` in Triton: gradients written out, no autograd.

The steps are those of `skop.ops._triton_tools`. Products of float32 matrices are as exact as float32 unless torch
allows TF32 (`torch.backends.cuda.matmul.allow_tf32`); with bfloat16 tensors they take TF32, whose rounding is finer
than theirs.
"""

from typing import Any

import torch
from torch import Tensor

from skop.ops._triton_tools import carry, contiguous, launch, per_path, power_of_two, sum_paths
from skop.ops.ssd_scan._operation import Arguments
from skop.ops.ssd_scan._triton_kernels import (
    chunk_states_kernel,
    input_gradient_kernel,
    map_gradient_kernel,
    output_kernel,
)

__all__ = ["backward", "forward"]

# Tokens of a chunk. 64 is what a tensor core wants at least, and it balances the products within a chunk (linear
# in it) against the memory of the states (d_state / 64 times that of x).
_CHUNK = 64
# Channels and states of one product. Wider heads are cut into blocks that act as heads of their own, wider states
# are walked through; with more of either, the products of the backward pass spill out of the registers.
_BLOCK_P = 32
_BLOCK_N = 32
_WARPS = 4
# tl.dot wants 16 rows and columns at least.
_LEAST = 16
# Programs that fill a chip. Where chunks alone are more, one program sums the gradients of B and C over the heads.
_PROGRAMS = 512


class _Sizes:
    """Shapes of one scan, and the blocks it is cut into: from these alone, so that results repeat everywhere."""

    def __init__(self, core: Arguments) -> None:
        x, dt = core.x, core.dt
        self.batch, self.length, self.paths, self.heads = dt.shape
        self.channels, self.states = x.shape[4], core.B.shape[3]
        if dt.dtype == torch.float64:
            precision = "ieee"
        elif x.dtype == torch.bfloat16 or torch.backends.cuda.matmul.allow_tf32:
            precision = "tf32"
        else:
            # Three products of TF32 parts on tensor cores, as exact as float32: errors of 1e-7. The plain units
            # ("ieee") would need every factor of a product in registers at once, which spill by kilobytes.
            precision = "tf32x3"
        block_p = power_of_two(self.channels, least=_LEAST, most=_BLOCK_P)
        block_n = power_of_two(self.states, least=_LEAST, most=_BLOCK_N)
        self.chunks = -(-self.length // _CHUNK)
        self.tokens = self.length, self.chunks, self.paths  # arguments of every kernel
        self.state = self.heads, self.channels, self.states  # shape of the state of a path
        self.sections = self.batch * self.paths * self.chunks  # chunks of all paths of the batch
        self.parts = self.heads * -(-self.channels // block_p)  # blocks of channels of all heads
        self.state_parts = -(-self.states // block_n)
        self.splits = min(self.parts, -(-_PROGRAMS // self.sections))  # programs that share the sum over the heads
        blocks = {"CHUNK": _CHUNK, "BLOCK_P": block_p, "BLOCK_N": block_n, "PRECISION": precision}
        # One stage: copies of the tiles ahead of their use would take the shared memory of a second program.
        self.options: dict[str, Any] = {**blocks, "num_warps": _WARPS, "num_stages": 1}


def forward(given: Arguments, keep: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scan along paths: y, final state, and the states that enter each chunk, if they are to be kept."""
    core: Arguments = contiguous(given)
    x, dt, A, B, C, D, start, paths, *_ = core
    sizes = _Sizes(core)
    entering, amounts = _chunk_states(core, x, B, sizes, backward=False)
    end = carry(entering, amounts, A, None if start is None else start.flatten(2).flatten(0, 1))
    y = per_path(core)
    pointers = (x, dt, A, B, C, A if D is None else D, paths, entering, y)
    launch(output_kernel, sizes.sections * sizes.parts, *pointers, *_shape(core, sizes), **sizes.options)
    return sum_paths(core, y), end.view(sizes.batch, sizes.paths, *sizes.state), entering if keep else None


def backward(
    given: Arguments, checkpoints: Tensor, grad_y: Tensor, grad_final: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients of the tensors that `forward` was given; None for what was None."""
    core: Arguments = contiguous(given)
    grad_y = grad_y.contiguous()
    sizes = _Sizes(core)
    leaving, amounts = _chunk_states(core, grad_y, core.C, sizes, backward=True)
    end = None if grad_final is None else grad_final.flatten(2).flatten(0, 1)
    start = carry(leaving, amounts, core.A, end, reverse=True)
    states = (core.paths, checkpoints, leaving, grad_y)
    grad_x, grad_dt, grad_A, grad_D = _input_gradients(core, states, sizes)
    grad_start = None if core.initial_state is None else start.view(core.initial_state.shape)
    return grad_x, grad_dt, grad_A, *_map_gradients(core, states, sizes), grad_D, grad_start


def _input_gradients(
    core: Arguments, states: tuple[Tensor, ...], sizes: _Sizes
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of x, dt, A and D."""
    x, dt, A, B, C, D, *_ = core
    by_chunk = (sizes.batch, sizes.paths, sizes.chunks)
    # One number for each program that adds to a sum; torch adds them up in a fixed order.
    grad_x = per_path(core)
    blocks = (sizes.heads, sizes.parts // sizes.heads)
    part_dt, part_A = dt.new_empty(*dt.shape[:3], *blocks), A.new_empty(*by_chunk, *blocks)
    part_D = A if D is None else A.new_empty(*by_chunk, sizes.heads, sizes.channels)
    pointers = (x, dt, A, B, C, A if D is None else D, *states, grad_x, part_dt, part_A, part_D)
    launch(input_gradient_kernel, sizes.sections * sizes.parts, *pointers, *_shape(core, sizes), **sizes.options)
    grad_D = None
    if D is not None:
        grad_D = part_D.sum((0, 2))
        grad_D = grad_D if D.shape[2] == sizes.channels else grad_D.sum(2, keepdim=True)
    return sum_paths(core, grad_x), part_dt.sum(4), part_A.sum((0, 2, 4)), grad_D


def _map_gradients(core: Arguments, states: tuple[Tensor, ...], sizes: _Sizes) -> tuple[Tensor, Tensor]:
    """Gradients of B and C, summed over the heads, and over the paths where they share the maps."""
    x, dt, A, B, C, *_ = core
    shape = (sizes.batch, sizes.length, sizes.paths, sizes.splits, sizes.states)
    part_B, part_C = dt.new_empty(shape), dt.new_empty(shape)
    pointers = (x, dt, A, B, C, *states, part_B, part_C)
    numbers = (*sizes.tokens, x.shape[2], B.shape[2], *sizes.state, sizes.splits)
    programs = sizes.sections * sizes.splits * sizes.state_parts
    launch(map_gradient_kernel, programs, *pointers, *numbers, **sizes.options)
    axes = 3 if B.shape[2] == sizes.paths else (2, 3)
    return part_B.sum(axes).view(B.shape).to(B.dtype), part_C.sum(axes).view(C.shape).to(C.dtype)


def _shape(core: Arguments, sizes: _Sizes) -> tuple[Any, ...]:
    """Shape arguments of a kernel that reads all tensors: numbers of tokens and paths, of a state, and of the skip."""
    skip = (1, False) if core.D is None else (core.D.shape[2], True)
    return *sizes.tokens, core.x.shape[2], sizes.paths, core.B.shape[2], *sizes.state, *skip


def _chunk_states(
    core: Arguments, values: Tensor, maps: Tensor, sizes: _Sizes, *, backward: bool
) -> tuple[Tensor, Tensor]:
    """What each chunk adds to the state, (sequences, chunks, elements), and its sums of steps, (..., heads)."""
    sequences = sizes.batch * sizes.paths
    states = core.dt.new_empty(sequences, sizes.chunks, sizes.heads * sizes.channels * sizes.states)
    amounts = core.dt.new_empty(sequences, sizes.chunks, sizes.heads)
    pointers = (values, maps, core.dt, core.A, core.paths, states, amounts)
    numbers = (*sizes.tokens, values.shape[2], maps.shape[2], *sizes.state)
    programs = sizes.sections * sizes.parts * sizes.state_parts
    launch(chunk_states_kernel, programs, *pointers, *numbers, BACKWARD=backward, **sizes.options)
    return states, amounts
