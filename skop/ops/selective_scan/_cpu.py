"""Fused CPU kernels of `skop.ops.selective_scan`: what they are given, and what becomes of their results.

Letters of the shapes: b batch, L length, K paths, D channels of a path, N states of a channel, S splits of the
channels between work items.
"""

from functools import partial
from math import e, log2
from typing import Any

import torch
from torch import Tensor

from skop.ops._cpu_tools import by_channel, pack_states, run_kernel, sum_in_place, unpack_states
from skop.ops._simd import LANES
from skop.ops.selective_scan import _cpu_kernels
from skop.ops.selective_scan._cpu_backward import backward as backward_kernel
from skop.ops.selective_scan._cpu_kernels import CHUNK, scratch_bytes
from skop.ops.selective_scan._cpu_kernels import forward as forward_kernel

__all__ = ["backward", "forward"]

#: Work items to make at least, by splitting the channels: enough for the threads of a workstation to share.
#: More would cost time and memory, since each split has its own sums for the gradients of B and C; so each has two
#: blocks of channels at least.
_LEAST_ITEMS = 8
#: Blocks of channels of a work item at most: the scratch memory of these fits into a second-level cache.
_MOST_BLOCKS = 8


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
    """Scan; arguments as in `skop.ops.selective_scan._naive.selective_scan_naive`.

    Parameters
    ----------
    x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus
        x, B and C in float32, float64 or bfloat16, the others in float32 (float64 if x is).
    keep : bool
        Whether to return the checkpoints.

    Returns
    -------
    y : Tensor of shape (b, L, 1 or K, D)
        Outputs, in the dtype of x.
    final_state : Tensor of shape (b, K, D, N)
        States after the last tokens.
    checkpoints : Tensor or None
        States that enter each chunk, for `backward`.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan._cpu import forward
    >>> one, path = torch.ones(1, 3, 1, 1), torch.tensor([[2, 1, 0]], dtype=torch.int32)
    >>> halving = torch.full((1, 1, 1), 0.5).log()
    >>> y, state, _ = forward(one, one, halving, one, one, None, None, None, None, path, False, False)
    >>> y.flatten(), state.flatten()
    (tensor([1.7500, 1.5000, 1.0000]), tensor([1.7500]))
    """
    problem = _Problem(x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus)
    y = torch.empty_like(problem.x)
    final = dt.new_empty(problem.packed_shape)
    chunks = -(-x.shape[1] // CHUNK)
    kept = dt.new_empty(*problem.packed_shape[:2], chunks, *problem.packed_shape[2:]) if keep else None
    problem.run(forward_kernel, Y=y, FINAL=final, CHECKPOINTS=kept)
    return y.to(x.dtype), unpack_states(final, *A.shape[1:]), kept


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
    """Gradients of what `forward` was given.

    Parameters
    ----------
    x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus
        As given to `forward`.
    checkpoints : Tensor
        From `forward`.
    grad_y : Tensor of shape (b, L, 1 or K, D)
        Gradient of the outputs.
    grad_final : Tensor of shape (b, K, D, N) or None
        Gradient of the final states; None where they have no influence.

    Returns
    -------
    tuple of Tensor or None
        Gradients of x, dt, A, B, C, D, dt_bias, R and initial_state; None for what was None.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan._cpu import backward, forward
    >>> one, path = torch.ones(1, 3, 1, 1), torch.tensor([[0, 1, 2]], dtype=torch.int32)
    >>> halving = torch.full((1, 1, 1), 0.5).log()
    >>> arguments = (one, one, halving, one, one, None, None, None, None, path, False)
    >>> _, _, kept = forward(*arguments, True)
    >>> backward(*arguments, kept, one, None)[0].flatten()
    tensor([1.7500, 1.5000, 1.0000])
    """
    problem = _Problem(x, dt, A, B, C, D, dt_bias, R, initial_state, paths, softplus)
    samples, length, n_paths, channels = dt.shape
    new = partial(torch.empty, dtype=dt.dtype, device=dt.device)
    maps_shape = (problem.splits, samples, length, n_paths, A.shape[-1])
    rows_shape = (samples, n_paths, -(-channels // LANES) * LANES)
    grads: dict[str, Any] = {
        "GRAD_X": torch.empty_like(problem.x),
        "GRAD_DT": new(dt.shape),
        "GRAD_A": new(problem.packed_shape),
        "GRAD_B": new(maps_shape),
        "GRAD_C": new(maps_shape),
        "GRAD_D": None if D is None else new(rows_shape),
        "GRAD_BIAS": None if dt_bias is None else new(rows_shape),
        "GRAD_SHARES": None if R is None else new(problem.packed_shape),
        "GRAD_START": None if initial_state is None else new(problem.packed_shape),
    }
    problem.run(
        backward_kernel,
        CHECKPOINTS=checkpoints,
        GRAD_Y=grad_y.to(problem.x.dtype).contiguous(),
        GRAD_FINAL=None if grad_final is None else pack_states(grad_final),
        **grads,
    )
    grad_x, grad_dt, grad_a, *grad_maps, grad_d, grad_bias, grad_shares, grad_start = grads.values()
    grad_b, grad_c = (sum_in_place(value) for value in grad_maps)
    grad_a = unpack_states(grad_a, *A.shape[1:])
    grad_shares, grad_start = (
        None if value is None else unpack_states(value, *A.shape[1:]) for value in (grad_shares, grad_start)
    )
    grad_d, grad_bias = (None if value is None else value.sum(0)[:, :channels] for value in (grad_d, grad_bias))
    grad_r = None if grad_shares is None else -grad_shares.sum(0)
    maps = (grad_b.to(B.dtype), grad_c.to(C.dtype))
    return grad_x.to(x.dtype), grad_dt, grad_a.sum(0), *maps, grad_d, grad_bias, grad_r, grad_start


class _Problem:
    """One scan in the form that its kernels read."""

    def __init__(
        self,
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
    ) -> None:
        samples, length, n_paths, channels = dt.shape
        blocks = -(-channels // LANES)
        shared = x.shape[2] < n_paths
        # The outputs of the paths are added in full precision and rounded once.
        kind = dt.dtype if shared else x.dtype
        self.x, self.dt = x.to(kind).contiguous(), dt.contiguous()
        items = samples * (1 if shared else n_paths)
        splits = max(-(-_LEAST_ITEMS // items), -(-blocks // _MOST_BLOCKS))
        split_blocks = -(-blocks // min(-(-blocks // 2), splits))
        self.splits = -(-blocks // split_blocks)
        self.n_items, self.scratch_bytes = items * self.splits, scratch_bytes(A.shape[-1], split_blocks)
        rates = pack_states(A * log2(e))
        self.packed_shape = (samples, *rates.shape)
        self.values: dict[str, int | Tensor | None] = {
            "SAMPLES": samples, "LENGTH": length, "N_PATHS": n_paths, "SHARED": shared, "CHANNELS": channels,
            "STATES": A.shape[-1], "SPLITS": self.splits, "SPLIT_BLOCKS": split_blocks, "HAS_SOFTPLUS": softplus,
            "X": self.x, "DT": self.dt, "A": rates,
            "FASTEST": rates.amax(-2), "SLOWEST": rates.amin(-2),
            "B": B.to(kind).contiguous(), "C": C.to(kind).contiguous(),
            "D": by_channel(D, n_paths, channels, dt), "BIAS": by_channel(dt_bias, n_paths, channels, dt),
            "SHARES": None if R is None else pack_states(1 - R),
            "START": None if initial_state is None else pack_states(initial_state), "PATHS": paths.contiguous(),
        }  # fmt: skip

    def run(self, kernel: Any, **more: Tensor | None) -> None:
        """Run a kernel on the problem and what more it needs."""
        values, sizes = self.values | more, {"n_items": self.n_items, "scratch_bytes": self.scratch_bytes}
        run_kernel(kernel, self.x.dtype, _cpu_kernels, values, **sizes)
