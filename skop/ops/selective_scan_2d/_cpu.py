"""Fused CPU kernels of `skop.ops.selective_scan_2d`: what they are given, and what becomes of their results.

Letters of the shapes: b batch, H rows, W columns, K directions, D channels, N states of a channel, S splits of
the channels between work items.
"""

from collections.abc import Callable
from math import e, log2

import torch
from torch import Tensor

from skop.ops._cpu_tools import by_channel, pack_states, run_kernel, sum_in_place, unpack_states
from skop.ops._simd import LANES
from skop.ops.selective_scan_2d import _cpu_kernels
from skop.ops.selective_scan_2d._cpu_backward import backward as backward_kernel
from skop.ops.selective_scan_2d._cpu_kernels import CELLS, scratch_bytes
from skop.ops.selective_scan_2d._cpu_kernels import forward as forward_kernel
from skop.ops.selective_scan_2d._naive import Direction

__all__ = ["backward", "forward"]

#: Work items to make at least, by splitting the channels: enough for the threads of a workstation to share.
#: More would cost time and memory, since each split has its own sums for the gradients of B and C; so each has two
#: blocks of channels at least.
_LEAST_ITEMS = 8
#: Blocks of channels that are done together: more would not fit into a second-level cache.
_GROUP = 4
#: Cells of a line that is taken in parts, and cells of a strip of lines, whose states are computed anew together.
_PART, _STRIP = 32, 512


def forward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    directions: tuple[Direction, ...],
    softplus: bool,
    keep: bool,
) -> tuple[Tensor, Tensor | None]:
    """Scan; arguments as in `skop.ops.selective_scan_2d._naive.selective_scan_2d_naive`.

    Parameters
    ----------
    x, dt, A, B, C, D, dt_bias, R, directions, softplus
        x, B and C in float32, float64 or bfloat16, the others in float32 (float64 if x is).
    keep : bool
        Whether to return the checkpoints.

    Returns
    -------
    y : Tensor of shape (b, H, W, D)
        Outputs, summed over the directions, in the dtype of x.
    checkpoints : Tensor or None
        States that enter each tile of the grid, for `backward`.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan_2d._cpu import forward
    >>> one, halving = torch.ones(1, 2, 2, 1, 1), torch.full((1, 1, 1), 0.5).log()
    >>> y, _ = forward(one[..., 0], one, halving, one, one, None, None, None, ((2, 1),), False, False)
    >>> y[0, ..., 0]
    tensor([[1.0000, 1.5000],
            [1.5000, 2.2500]])
    """
    problem = _Problem(x, dt, A, B, C, D, dt_bias, R, directions, softplus)
    y = torch.empty_like(problem.x)
    kept = dt.new_empty(len(x), problem.kept) if keep else None
    problem.run(forward_kernel, Y=y, CHECKPOINTS=kept)
    return y.to(x.dtype), kept


def backward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    dt_bias: Tensor | None,
    R: Tensor | None,
    directions: tuple[Direction, ...],
    softplus: bool,
    checkpoints: Tensor,
    grad_y: Tensor,
) -> tuple[Tensor | None, ...]:
    """Gradients of what `forward` was given.

    Parameters
    ----------
    x, dt, A, B, C, D, dt_bias, R, directions, softplus
        As given to `forward`.
    checkpoints : Tensor
        From `forward`.
    grad_y : Tensor of shape (b, H, W, D)
        Gradient of the outputs.

    Returns
    -------
    tuple of Tensor or None
        Gradients of x, dt, A, B, C, D, dt_bias and R; None for what was None.

    Examples
    --------
    >>> import torch
    >>> from skop.ops.selective_scan_2d._cpu import backward, forward
    >>> one, halving = torch.ones(1, 2, 2, 1, 1), torch.full((1, 1, 1), 0.5).log()
    >>> arguments = (one[..., 0], one, halving, one, one, None, None, None, ((2, 1),), False)
    >>> _, kept = forward(*arguments, True)
    >>> backward(*arguments, kept, one[..., 0])[0][0, ..., 0]
    tensor([[2.2500, 1.5000],
            [1.5000, 1.0000]])
    """
    problem = _Problem(x, dt, A, B, C, D, dt_bias, R, directions, softplus)
    channels, states = A.shape[1:]
    grad_x, grad_dt = torch.empty_like(problem.x), torch.empty_like(problem.dt)
    grad_maps = [dt.new_empty(problem.splits, *B.shape) for _ in range(2)]
    packed_shape = (len(x), *problem.packed_shape)
    grad_a = dt.new_empty(packed_shape)
    grad_shares = None if R is None else torch.empty_like(grad_a)
    rows_shape = (len(x), len(directions), -(-channels // LANES) * LANES)
    grad_d, grad_bias = (None if v is None else dt.new_empty(rows_shape) for v in (D, dt_bias))
    problem.run(
        backward_kernel,
        CHECKPOINTS=checkpoints,
        GRAD_Y=grad_y.to(problem.x.dtype).contiguous(),
        GRAD_X=grad_x,
        GRAD_DT=grad_dt,
        GRAD_A=grad_a,
        GRAD_B=grad_maps[0],
        GRAD_C=grad_maps[1],
        GRAD_D=grad_d,
        GRAD_BIAS=grad_bias,
        GRAD_SHARES=grad_shares,
    )
    grad_b, grad_c = (sum_in_place(value) for value in grad_maps)
    grad_d, grad_bias = (None if value is None else value.sum(0)[:, :channels] for value in (grad_d, grad_bias))
    grad_r = None if grad_shares is None else -unpack_states(grad_shares.sum(0), channels, states)
    return (
        grad_x.to(x.dtype), grad_dt, unpack_states(grad_a.sum(0), channels, states), grad_b.to(B.dtype),
        grad_c.to(C.dtype), grad_d, grad_bias, grad_r,
    )  # fmt: skip


def _tile_shape(height: int, length: int) -> tuple[int, int, int]:
    """Cells and lines of a tile, lines of a strip: even parts, of which few states have to be kept."""
    cells = length if length <= CELLS else _even_part(length, _PART)
    lines = min(height, CELLS // cells)
    return cells, lines, lines * _even_part(-(-height // lines), max(1, _STRIP // (cells * lines)))


def _even_part(count: int, most: int) -> int:
    """Size of the fewest parts of equal size."""
    return -(-count // -(-count // most))


def _walks(shape: tuple[int, int], directions: tuple[Direction, ...], packed: int) -> tuple[list[list[int]], int]:
    """What the kernels know about each direction, and how many numbers are kept for a sample."""
    walks, kept, strides = [], 0, (shape[1], 1)
    for direction in directions:
        axes = [abs(axis) - 1 for axis in direction]
        start = sum(strides[abs(axis) - 1] * (shape[abs(axis) - 1] - 1) for axis in direction if axis < 0)
        ahead, down = (strides[abs(axis) - 1] * (1 if axis > 0 else -1) for axis in direction)
        length, height = (shape[axis] for axis in axes)
        cells, lines, strip = _tile_shape(height, length)
        walks.append([start, ahead, down, length, height, cells, lines, strip, kept])
        kept += ((height - 1) // strip * length + height * (-(-length // cells) - 1)) * packed
    return walks, kept


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
        directions: tuple[Direction, ...],
        softplus: bool,
    ) -> None:
        samples, height, width, channels = x.shape
        n_directions, blocks = len(directions), -(-channels // LANES)
        # The outputs of the directions are added in full precision and rounded once.
        kind = dt.dtype if n_directions > 1 else x.dtype
        self.x, self.dt = x.to(kind).contiguous(), dt.contiguous()
        split_blocks = -(-blocks // min(-(-blocks // 2), -(-_LEAST_ITEMS // max(1, samples))))
        self.splits = -(-blocks // split_blocks)
        rates = pack_states(A * log2(e))
        walks, self.kept = _walks((height, width), directions, rates[0].numel())
        self.packed_shape = rates.shape
        line, strip, cells = (max(walk[place] for walk in walks) for place in (3, 7, 5))
        group, states = min(_GROUP, split_blocks), A.shape[-1]
        strip_size = (strip + 1) * ((states + states % 2) * cells * LANES + 5 * LANES)
        self.n_items = samples * self.splits
        self.scratch_bytes = scratch_bytes(states, group, line, strip, strip_size)
        self.values: dict[str, int | Tensor | None] = {
            "SAMPLES": samples, "CELLS_OF_SAMPLE": height * width, "N_DIRECTIONS": n_directions, "CHANNELS": channels,
            "STATES": states, "SPLITS": self.splits, "SPLIT_BLOCKS": split_blocks, "GROUP": group,
            "HAS_SOFTPLUS": softplus, "LINE": line, "LINES": strip, "STRIP": strip_size, "KEPT": self.kept,
            "DIRECTIONS": torch.tensor(walks, device=dt.device),
            "X": self.x, "DT": self.dt, "A": rates,
            "FASTEST": rates.amax(-2), "SLOWEST": rates.amin(-2),
            "B": B.to(kind).contiguous(), "C": C.to(kind).contiguous(),
            "D": by_channel(D, n_directions, channels, dt), "BIAS": by_channel(dt_bias, n_directions, channels, dt),
            "SHARES": None if R is None else pack_states(1 - R),
        }  # fmt: skip

    def run(self, kernel: Callable[..., None], **more: Tensor | None) -> None:
        """Run a kernel on the problem and what more it needs."""
        values, sizes = self.values | more, {"n_items": self.n_items, "scratch_bytes": self.scratch_bytes}
        run_kernel(kernel, self.x.dtype, _cpu_kernels, values, **sizes)
