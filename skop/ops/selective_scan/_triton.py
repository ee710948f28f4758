"""GPU form of `skop.ops.selective_scan` in Triton: gradients written out, no autograd.

Three steps, each parallel over nearly everything: what every chunk adds to the state, the states
carried over the chunks, and the outputs of every chunk from the state that enters it. The backward pass
takes the same steps from the end; it needs only the entering states, which are the checkpoints.

bfloat16 and float32 tensors are computed in float32, float64 ones in float64.
"""

from typing import Any

import torch
from torch import Tensor

from skop.ops._selective import step_sizes
from skop.ops._triton_tools import LAUNCH, carry, on_device, power_of_two, step_gradient
from skop.ops.selective_scan._triton_kernels import chunk_states_kernel, gradient_kernel, output_kernel

__all__ = ["backward", "forward"]

# Tokens of a chunk. A warp then holds all of them for its channels, so that the scans of the gradient kernel run
# within a thread, without the other warps; and 65,536 tokens of 64 channels are 8,192 programs. Longer chunks would
# save memory (the states between chunks are d_state / 16 times dt), but take half as many instructions again.
_CHUNK = 16
# Channels of a program: one for each thread of a warp, 128 bytes of float32 side by side in memory.
_BLOCK_D = 32
# Numbers of a tile that one thread holds, which sets the warps of a program; with more, registers spill.
_PER_THREAD = 16


def forward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    softplus: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scan along paths.

    Parameters
    ----------
    x : Tensor of shape (b, L, 1 or K, D)
        Inputs, shared by the paths or one for each: bfloat16, float32 or float64.
    dt : Tensor of shape (b, L, K, D)
        Step sizes, before the softplus if there is one: float32, or float64 if x is; so are the parameters
        A, D, dt_bias and R and the states.
    A : Tensor of shape (K, D, N)
        Decay rates, negative.
    B, C : Tensor of shape (b, L, K, N)
        Input and output maps, in the dtype of x.
    D : Tensor of shape (K, D) or None
        Skip from input to output.
    dt_bias : Tensor of shape (K, D) or None
        Added to dt before the softplus.
    R : Tensor of shape (K, D, N) or None
        Share of the own token's input that is taken off the state before y is read; None means zero.
    initial_state : Tensor of shape (b, K, D, N) or None
        States before the first tokens of the paths; None means zero.
    paths : int32 Tensor of shape (K, L)
        Each row a permutation of the tokens: the order in which the path visits them.
    softplus : bool
        Whether the steps are softplus(dt + dt_bias).
    keep : bool
        Whether to return the checkpoints that `backward` needs.

    Returns
    -------
    y : Tensor of the shape and dtype of x
        Outputs, in the order of the tokens; summed over the paths where they share x.
    final_state : Tensor of shape (b, K, D, N)
        States after the last tokens of the paths.
    checkpoints : Tensor or None
        The states that enter each chunk.
    """
    # The kernels read the steps two to four times; taking the softplus once costs one pass over dt.
    steps = step_sizes(dt, dt_bias, softplus).contiguous()
    x, A, B, C, paths = (tensor.contiguous() for tensor in (x, A, B, C, paths))
    skip, share = (None if tensor is None else tensor.contiguous() for tensor in (D, R))
    n_batch, length, n_paths, n_channels = steps.shape
    n_states = A.shape[2]
    entering, amounts = _chunk_states(x, B, steps, A, paths, backward=False)
    start = None if initial_state is None else initial_state.reshape(n_batch * n_paths, -1)
    end = carry(entering, amounts, A.flatten(1), start)
    # The paths visit the tokens in different orders, so no program could sum them in registers: one output
    # for each path, and torch adds them up.
    shared = x.shape[2] < n_paths
    y = steps.new_empty(steps.shape, dtype=steps.dtype if shared else x.dtype)
    n_chunks, programs, blocks = _blocks(steps)
    block_n = power_of_two(n_states)
    with on_device(x):
        output_kernel[(programs,)](
            *(x, steps, A, B, C, A if skip is None else skip, A if share is None else share, paths, entering, y),
            *(length, n_chunks, n_paths, x.shape[2], n_channels, n_states),
            HAS_D=skip is not None,
            HAS_R=share is not None,
            BLOCK_N=block_n,
            num_warps=_warps(block_n * blocks["BLOCK_D"]),
            **blocks,
            **LAUNCH,
        )
    if shared:
        y = y.sum(2, keepdim=True).to(x.dtype)
    return y, end.view(n_batch, *A.shape), entering if keep else None


def backward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    initial_state: Tensor | None,
    paths: Tensor,
    softplus: bool,
    checkpoints: Tensor,
    grad_y: Tensor,
    grad_final: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Gradients of all arguments of `forward`.

    Parameters
    ----------
    x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus
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
        Gradients of x, dt, A, B, C, D, dt_bias, R and initial_state, in their dtypes; None where the argument
        is None.
    """
    steps = step_sizes(dt, dt_bias, softplus).contiguous()
    x, A, B, C, paths, grad_y = (tensor.contiguous() for tensor in (x, A, B, C, paths, grad_y))
    leaving, amounts = _chunk_states(grad_y, C, steps, A, paths, backward=True)
    end = None if grad_final is None else grad_final.reshape(len(leaving), -1)
    start = carry(leaving, amounts, A.flatten(1), end, reverse=True)
    states = (paths, checkpoints, leaving, grad_y)
    grad_x, grad_steps, part_A, part_B, part_C, part_D, part_R = _gradients((x, steps, A, B, C), D, R, states)
    grad_dt = step_gradient(grad_steps, dt, dt_bias, softplus)
    return (
        grad_x.sum(2, keepdim=True).to(x.dtype) if x.shape[2] < steps.shape[2] else grad_x,
        grad_dt,
        part_A.sum((0, 2)),
        part_B.sum(3).to(x.dtype),
        part_C.sum(3).to(x.dtype),
        None if part_D is None else part_D.sum((0, 2)),
        None if dt_bias is None else grad_dt.sum((0, 1)),
        None if part_R is None else part_R.sum((0, 2)),
        None if initial_state is None else start.view(initial_state.shape),
    )


def _gradients(
    given: tuple[Tensor, ...], D: Tensor | None, R: Tensor | None, states: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of x for each path and of the steps; those of A, B, C, D and R in parts to be summed."""
    x, steps, A = given[:3]
    n_batch, length, n_paths, n_channels = steps.shape
    n_states = A.shape[2]
    n_chunks, programs, blocks = _blocks(steps)
    # One number for each program that adds to a sum; torch adds them up in a fixed order.
    grad_x = steps.new_empty(steps.shape, dtype=steps.dtype if x.shape[2] < n_paths else x.dtype)
    grad_steps = torch.empty_like(steps)
    part_A = A.new_empty(n_batch, n_paths, n_chunks, n_channels, n_states)
    by_block = (n_batch, length, n_paths, -(-n_channels // blocks["BLOCK_D"]), n_states)
    part_B, part_C = steps.new_empty(by_block), steps.new_empty(by_block)
    part_D = None if D is None else A.new_empty(part_A.shape[:4])
    part_R = None if R is None else torch.empty_like(part_A)
    parts = (part_A, part_B, part_C, part_D, part_R)
    with on_device(x):
        gradient_kernel[(programs,)](
            *given,
            # A kernel needs some pointer where there is no tensor; it is not followed.
            *(A if tensor is None else tensor.contiguous() for tensor in (D, R)),
            *(*states, grad_x, grad_steps),
            *(A if part is None else part for part in parts),
            *(length, n_chunks, n_paths, x.shape[2], n_channels, n_states),
            HAS_D=D is not None,
            HAS_R=R is not None,
            num_warps=_warps(blocks["CHUNK"] * blocks["BLOCK_D"]),
            **blocks,
            **LAUNCH,
        )
    return grad_x, grad_steps, *parts


def _chunk_states(
    values: Tensor, maps: Tensor, steps: Tensor, A: Tensor, paths: Tensor, *, backward: bool
) -> tuple[Tensor, Tensor]:
    """What each chunk adds to the state, (sequences, chunks, elements), and its sums of steps, (..., channels)."""
    n_batch, length, n_paths, n_channels = steps.shape
    n_chunks, programs, blocks = _blocks(steps)
    states = steps.new_empty(n_batch * n_paths, n_chunks, n_channels * A.shape[2])
    amounts = steps.new_empty(n_batch * n_paths, n_chunks, n_channels)
    with on_device(values):
        chunk_states_kernel[(programs,)](
            *(values, maps, steps, A, paths, states, amounts),
            *(length, n_chunks, n_paths, values.shape[2], n_channels, A.shape[2]),
            BACKWARD=backward,
            num_warps=_warps(blocks["CHUNK"] * blocks["BLOCK_D"]),
            **blocks,
            **LAUNCH,
        )
    return states, amounts


def _blocks(steps: Tensor) -> tuple[int, int, dict[str, Any]]:
    """Chunks, programs and block sizes for steps (b, L, K, D), from the shape alone so that results repeat."""
    n_batch, length, n_paths, n_channels = steps.shape
    block_d = power_of_two(n_channels, most=_BLOCK_D)
    n_chunks = -(-length // _CHUNK)
    return n_chunks, n_batch * n_paths * n_chunks * -(-n_channels // block_d), {"CHUNK": _CHUNK, "BLOCK_D": block_d}


def _warps(elements: int) -> int:
    """Warps of a program that holds tiles of so many elements."""
    return min(max(elements // (32 * _PER_THREAD), 1), 8)
