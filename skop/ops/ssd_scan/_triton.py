"""GPU form of `skop.ops.ssd_scan` in Triton: gradients written out, no autograd.

Three steps, each parallel over nearly everything: what every chunk adds to the state, the states
carried over the chunks, and the outputs of every chunk from the state that enters it. The backward pass
takes the same steps from the end; it needs only the entering states, which are the checkpoints.

bfloat16 and float32 tensors are computed in float32, float64 ones in float64. Products of float32
matrices are as exact as float32 unless torch allows TF32 (`torch.backends.cuda.matmul.allow_tf32`);
with bfloat16 tensors they take TF32, whose rounding is finer than theirs.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skop.ops._triton_tools import LAUNCH, carry, on_device, power_of_two
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


@dataclass(frozen=True)
class _Sizes:
    """Shapes of one scan and the blocks it is cut into."""

    batch: int
    length: int
    paths: int
    heads: int
    channels: int
    states: int
    block_p: int
    block_n: int
    precision: str

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Arguments of every kernel: length, chunks and paths."""
        return self.length, self.chunks, self.paths

    @property
    def state(self) -> tuple[int, int, int]:
        """Shape of the state of a path."""
        return self.heads, self.channels, self.states

    @property
    def chunks(self) -> int:
        """Chunks of a path."""
        return -(-self.length // _CHUNK)

    @property
    def sections(self) -> int:
        """Chunks of all paths of the batch."""
        return self.batch * self.paths * self.chunks

    @property
    def parts(self) -> int:
        """Blocks of channels of all heads."""
        return self.heads * -(-self.channels // self.block_p)

    @property
    def state_parts(self) -> int:
        """Blocks of states."""
        return -(-self.states // self.block_n)

    @property
    def splits(self) -> int:
        """Programs that share the sum over the heads."""
        return min(self.parts, -(-_PROGRAMS // self.sections))

    @property
    def options(self) -> dict[str, Any]:
        """Options of a launch."""
        blocks = {"CHUNK": _CHUNK, "BLOCK_P": self.block_p, "BLOCK_N": self.block_n, "PRECISION": self.precision}
        # One stage: copies of the tiles ahead of their use would take the shared memory of a second program.
        return {**blocks, "num_warps": _WARPS, "num_stages": 1, **LAUNCH}


def _sizes(x: Tensor, dt: Tensor, B: Tensor) -> _Sizes:
    """Choose blocks from the shapes alone, so that results repeat on every run and device."""
    batch, length, paths, heads = dt.shape
    channels, states = x.shape[4], B.shape[3]
    if dt.dtype == torch.float64:
        precision = "ieee"
    elif x.dtype == torch.bfloat16 or torch.backends.cuda.matmul.allow_tf32:
        precision = "tf32"
    else:
        # Three products of TF32 parts on tensor cores, as exact as float32: errors of 1e-7. The plain units ("ieee")
        # would need every factor of a product in registers at once, which spill by kilobytes.
        precision = "tf32x3"
    block_p = power_of_two(channels, least=_LEAST, most=_BLOCK_P)
    block_n = power_of_two(states, least=_LEAST, most=_BLOCK_N)
    return _Sizes(batch, length, paths, heads, channels, states, block_p, block_n, precision)


def forward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scan along paths.

    Parameters
    ----------
    x : Tensor of shape (batch, length, 1 or n_paths, heads, head_dim)
        Inputs, shared by the paths or one for each: bfloat16, float32 or float64.
    dt : Tensor of shape (batch, length, n_paths, heads)
        Step sizes, after the softplus: float32, or float64 if x is; so are A, D and the states.
    A : Tensor of shape (n_paths, heads)
        Decay rates, negative.
    B, C : Tensor of shape (batch, length, 1 or n_paths, d_state)
        Input and output maps, in the dtype of x.
    D : Tensor of shape (n_paths, heads, 1 or head_dim) or None
        Skip from input to output.
    initial_state : Tensor of shape (batch, n_paths, heads, head_dim, d_state) or None
        State before the first token; None means zero.
    paths : int32 Tensor of shape (n_paths, length)
        Each row a permutation of the tokens: the order in which the path visits them.
    keep : bool
        Whether to return the checkpoints that `backward` needs.

    Returns
    -------
    y : Tensor of the shape and dtype of x
        Outputs, in the order of the tokens; summed over the paths where they share x.
    final_state : Tensor of shape (batch, n_paths, heads, head_dim, d_state)
        State after the last token of each path.
    checkpoints : Tensor or None
        The state that enters each chunk.
    """
    x, dt, A, B, C, paths = (tensor.contiguous() for tensor in (x, dt, A, B, C, paths))
    sizes, skip = _sizes(x, dt, B), None if D is None else D.contiguous()
    entering, amounts = _chunk_states(x, B, dt, A, paths, sizes, backward=False)
    end = carry(entering, amounts, A, None if initial_state is None else initial_state.flatten(2).flatten(0, 1))
    # The paths visit the tokens in different orders, so no program could sum them in registers: one output
    # for each path, and torch adds them up.
    shared = x.shape[2] < sizes.paths
    y = x.new_empty(*x.shape[:2], sizes.paths, *x.shape[3:], dtype=dt.dtype if shared else x.dtype)
    pointers = (x, dt, A, B, C, A if skip is None else skip, paths, entering, y)
    path_counts = (x.shape[2], sizes.paths, B.shape[2])
    with on_device(x):
        output_kernel[(sizes.sections * sizes.parts,)](
            *pointers, *sizes.tokens, *path_counts, *sizes.state, *_skip_options(skip), **sizes.options
        )
    if shared:
        y = y.sum(2, keepdim=True).to(x.dtype)
    final_state = end.view(sizes.batch, sizes.paths, *sizes.state)
    return y, final_state, entering if keep else None


def backward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    checkpoints: Tensor,
    grad_y: Tensor,
    grad_final: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Gradients of all arguments of `forward`.

    Parameters
    ----------
    x, dt, A, B, C, D, initial_state, paths
        As given to `forward`.
    checkpoints : Tensor
        As returned by `forward`.
    grad_y : Tensor of the shape and dtype of x
        Gradient of the outputs.
    grad_final : Tensor of the shape of the final state, or None
        Gradient of the final state; None means zero.

    Returns
    -------
    tuple of Tensor or None
        Gradients of x, dt, A, B, C, D and initial_state, in their dtypes; None where the argument is None.
    """
    x, dt, A, B, C, paths, grad_y = (tensor.contiguous() for tensor in (x, dt, A, B, C, paths, grad_y))
    sizes, skip = _sizes(x, dt, B), None if D is None else D.contiguous()
    leaving, amounts = _chunk_states(grad_y, C, dt, A, paths, sizes, backward=True)
    end = None if grad_final is None else grad_final.flatten(2).flatten(0, 1)
    start = carry(leaving, amounts, A, end, reverse=True)
    given = (x, dt, A, B, C)
    states = (paths, checkpoints, leaving, grad_y)
    grad_x, grad_dt, grad_A, grad_D = _input_gradients(given, skip, states, sizes)
    return (
        grad_x,
        grad_dt,
        grad_A,
        *_map_gradients(given, states, sizes),
        grad_D,
        None if initial_state is None else start.view(initial_state.shape),
    )


def _input_gradients(
    given: tuple[Tensor, ...], skip: Tensor | None, states: tuple[Tensor, ...], sizes: _Sizes
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of x, dt, A and D."""
    x, dt, A, B, _ = given
    shared = x.shape[2] < sizes.paths
    by_token, by_chunk = (sizes.batch, sizes.length, sizes.paths), (sizes.batch, sizes.paths, sizes.chunks)
    # One number for each program that adds to a sum; torch adds them up in a fixed order.
    grad_x = x.new_empty(*by_token, *x.shape[3:], dtype=dt.dtype if shared else x.dtype)
    blocks = (sizes.heads, sizes.parts // sizes.heads)
    part_dt, part_A = dt.new_empty(*by_token, *blocks), A.new_empty(*by_chunk, *blocks)
    part_D = A if skip is None else A.new_empty(*by_chunk, sizes.heads, sizes.channels)
    pointers = (*given, A if skip is None else skip, *states, grad_x, part_dt, part_A, part_D)
    path_counts = (x.shape[2], sizes.paths, B.shape[2])
    with on_device(x):
        input_gradient_kernel[(sizes.sections * sizes.parts,)](
            *pointers, *sizes.tokens, *path_counts, *sizes.state, *_skip_options(skip), **sizes.options
        )
    if shared:
        grad_x = grad_x.sum(2, keepdim=True).to(x.dtype)
    grad_D = None
    if skip is not None:
        grad_D = part_D.sum((0, 2))
        grad_D = grad_D if skip.shape[2] == sizes.channels else grad_D.sum(2, keepdim=True)
    return grad_x, part_dt.sum(4), part_A.sum((0, 2, 4)), grad_D


def _map_gradients(given: tuple[Tensor, ...], states: tuple[Tensor, ...], sizes: _Sizes) -> tuple[Tensor, Tensor]:
    """Gradients of B and C, summed over the heads, and over the paths where they share the maps."""
    x, dt, _, B, C = given
    shape = (sizes.batch, sizes.length, sizes.paths, sizes.splits, sizes.states)
    part_B, part_C = dt.new_empty(shape), dt.new_empty(shape)
    with on_device(x):
        map_gradient_kernel[(sizes.sections * sizes.splits * sizes.state_parts,)](
            *(*given, *states, part_B, part_C),
            *(*sizes.tokens, x.shape[2], B.shape[2], *sizes.state, sizes.splits),
            **sizes.options,
        )
    axes = 3 if B.shape[2] == sizes.paths else (2, 3)
    return part_B.sum(axes).view(B.shape).to(B.dtype), part_C.sum(axes).view(C.shape).to(C.dtype)


def _skip_options(skip: Tensor | None) -> tuple[int, bool]:
    """Channels of the skip, and whether there is one."""
    return (1, False) if skip is None else (skip.shape[2], True)


def _chunk_states(
    values: Tensor, maps: Tensor, dt: Tensor, A: Tensor, paths: Tensor, sizes: _Sizes, *, backward: bool
) -> tuple[Tensor, Tensor]:
    """What each chunk adds to the state, (sequences, chunks, elements), and its sums of steps, (..., heads)."""
    sequences = sizes.batch * sizes.paths
    states = dt.new_empty(sequences, sizes.chunks, sizes.heads * sizes.channels * sizes.states)
    amounts = dt.new_empty(sequences, sizes.chunks, sizes.heads)
    with on_device(values):
        chunk_states_kernel[(sizes.sections * sizes.parts * sizes.state_parts,)](
            *(values, maps, dt, A, paths, states, amounts),
            *(*sizes.tokens, values.shape[2], maps.shape[2], *sizes.state),
            BACKWARD=backward,
            **sizes.options,
        )
    return states, amounts
