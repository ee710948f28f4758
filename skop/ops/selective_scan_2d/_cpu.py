"""Fused CPU kernels of `skop.ops.selective_scan_2d`: what they are given, and what becomes of their results.

Notation: b batch, H rows, W columns, K directions, D channels, N states of a channel, S splits of
the channels between work items.
"""

import torch
from torch import Tensor

from skop.ops._cpu_selective import SelectiveScan, Walk
from skop.ops._cpu_selective_words import TOKENS
from skop.ops.selective_scan_2d._naive import Direction

__all__ = ["backward", "forward"]

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
    problem = _problem(x, dt, A, B, C, D, dt_bias, R, directions, softplus)
    y, _, kept = problem.forward(keep=keep)
    return y.view(x.shape).to(x.dtype), kept


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
    problem = _problem(x, dt, A, B, C, D, dt_bias, R, directions, softplus)
    grad_x, grad_dt, grad_a, grad_b, grad_c, *rest, _ = problem.backward(checkpoints, grad_y.flatten(1, 2), None)
    maps = (grad.view(maps.shape).to(maps.dtype) for grad, maps in ((grad_b, B), (grad_c, C)))
    return grad_x.view(x.shape).to(x.dtype), grad_dt.view(dt.shape), grad_a, *maps, *rest


def _problem(
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
) -> SelectiveScan:
    """The scan in the form that its kernels read: a direction is a path through the cells, line after line."""
    shape = x.shape[1:3]
    cells = torch.arange(shape[0] * shape[1], dtype=torch.int32, device="cpu").view(shape)
    paths, walks = [], []
    for direction in directions:
        along, across = (abs(axis) - 1 for axis in direction)
        turned = cells.flip([abs(axis) - 1 for axis in direction if axis < 0])
        paths.append(turned.permute(across, along).flatten())
        walks.append(_walk(shape[across], shape[along]))
    x, dt, B, C = (value.flatten(1, 2) for value in (x, dt, B, C))
    return SelectiveScan(
        x.unsqueeze(2), dt, A, B, C, D, dt_bias, R, None, torch.stack(paths), walks, softplus, is_grid=True
    )  # fmt: skip


def _walk(height: int, length: int) -> Walk:
    """Tiles of even parts of lines, and strips, of which few states have to be kept."""
    cells = length if length <= TOKENS else _even_part(length, _PART)
    lines = min(height, TOKENS // cells)
    return Walk(
        length, height, cells, lines, lines * _even_part(-(-height // lines), max(1, _STRIP // (cells * lines)))
    )


def _even_part(count: int, most: int) -> int:
    """Size of the fewest parts of equal size."""
    return -(-count // -(-count // most))
