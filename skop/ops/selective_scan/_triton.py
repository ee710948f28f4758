"""GPU form of `skop.ops.selective_scan` in Triton: gradients written out, no autograd.

The steps are those of `skop.ops._triton_tools`.
"""

from typing import Any

from torch import Tensor

from skop.ops._selective import Arguments
from skop.ops._triton_selective import Gradients, flags, pointers, ready
from skop.ops._triton_tools import carry, launch, per_path, power_of_two, sum_paths
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


def forward(given: Arguments, keep: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scan along paths: y, final state, and the states that enter each chunk, if they are to be kept."""
    core = ready(given)
    n_batch, n_states = len(core.dt), core.A.shape[2]
    entering, amounts = _chunk_states(core, core.x, core.B, backward=False)
    start = None if core.initial_state is None else core.initial_state.reshape(n_batch * len(core.A), -1)
    end = carry(entering, amounts, core.A.flatten(1), start)
    y = per_path(core)
    _, programs, options = _blocks(core.dt)
    block_n = power_of_two(n_states)
    arguments = (*pointers(core), core.order, entering, y, *_shape(core, core.x))
    options |= {"BLOCK_N": block_n, "num_warps": _warps(block_n * options["BLOCK_D"])}
    launch(output_kernel, programs, *arguments, **flags(core), **options)
    return sum_paths(core, y), end.view(n_batch, *core.A.shape), entering if keep else None


def backward(
    given: Arguments, checkpoints: Tensor, grad_y: Tensor, grad_final: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients of the tensors that `forward` was given; None for what was None."""
    core, grad_y = ready(given), grad_y.contiguous()
    leaving, amounts = _chunk_states(core, grad_y, core.C, backward=True)
    end = None if grad_final is None else grad_final.reshape(len(leaving), -1)
    start = carry(leaving, amounts, core.A.flatten(1), end, reverse=True)
    n_chunks, programs, options = _blocks(core.dt)
    grads = Gradients.empty(core, n_chunks, -(-core.dt.shape[3] // options["BLOCK_D"]))
    part_D = None if core.D is None else core.A.new_empty(grads.A.shape[:4])
    arguments = (*pointers(core), core.order, checkpoints, leaving, grad_y, *grads[:5])
    parts = (core.A if part is None else part for part in (part_D, grads.R))
    launch(gradient_kernel, programs, *arguments, *parts, *_shape(core, core.x), **flags(core), **options)
    grad_D = None if part_D is None else part_D.sum((0, 2))
    return grads.summed(given, grad_D, None if core.initial_state is None else start.view(core.initial_state.shape))


def _chunk_states(core: Arguments, values: Tensor, maps: Tensor, *, backward: bool) -> tuple[Tensor, Tensor]:
    """What each chunk adds to the state, (sequences, chunks, elements), and its sums of steps, (..., channels)."""
    steps, A = core.dt, core.A
    n_chunks, programs, options = _blocks(steps)
    sequences = len(steps) * len(A)
    states = steps.new_empty(sequences, n_chunks, A[0].numel())
    amounts = steps.new_empty(sequences, n_chunks, A.shape[1])
    arguments = (values, maps, steps, A, core.order, states, amounts, *_shape(core, values))
    launch(chunk_states_kernel, programs, *arguments, BACKWARD=backward, **options)
    return states, amounts


def _shape(core: Arguments, values: Tensor) -> tuple[int, ...]:
    """Shape arguments that all kernels share: length, chunks, paths, paths of the values, channels and states."""
    _, length, n_paths, channels = core.dt.shape
    return length, _blocks(core.dt)[0], n_paths, values.shape[2], channels, core.A.shape[2]


def _blocks(steps: Tensor) -> tuple[int, int, dict[str, Any]]:
    """Chunks, programs and their options for steps (b, L, K, D), from the shape alone so that results repeat."""
    n_batch, length, n_paths, n_channels = steps.shape
    block_d = power_of_two(n_channels, most=_BLOCK_D)
    n_chunks = -(-length // _CHUNK)
    options = {"CHUNK": _CHUNK, "BLOCK_D": block_d, "num_warps": _warps(_CHUNK * block_d)}
    return n_chunks, n_batch * n_paths * n_chunks * -(-n_channels // block_d), options


def _warps(elements: int) -> int:
    """Warps of a program that holds tiles of so many elements."""
    return min(max(elements // (32 * _PER_THREAD), 1), 8)
