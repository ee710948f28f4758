"""Fused CPU kernels of `skop.ops.selective_scan_2d`: a direction is a path through the cells, line after line."""

import torch
from torch import Tensor

from skop.ops._cpu_selective import SelectiveScan, Walk
from skop.ops._cpu_selective_words import TOKENS
from skop.ops._selective import Arguments

__all__ = ["backward", "forward"]

#: Cells of a line that is taken in parts, and cells of a strip of lines, whose states are computed anew together.
_PART, _STRIP = 32, 512


def forward(given: Arguments, keep: bool) -> tuple[Tensor, None, Tensor | None]:
    """Scan: y, and the checkpoints for `backward` if they are to be kept."""
    y, _, kept = _problem(given).forward(keep)
    return y, None, kept


def backward(given: Arguments, checkpoints: Tensor, grad_y: Tensor, grad_final: None) -> tuple[Tensor | None, ...]:
    """Gradients of the tensors that `forward` was given; None for what was None."""
    return _problem(given).backward(checkpoints, grad_y, grad_final)


def _problem(given: Arguments) -> SelectiveScan:
    """The scan in the form that its kernels read."""
    shape = given.x.shape[1:3]
    cells = torch.arange(shape[0] * shape[1], dtype=torch.int32, device="cpu").view(shape)
    paths, walks = [], []
    for direction in given.order:
        along, across = (abs(axis) - 1 for axis in direction)
        turned = cells.flip([abs(axis) - 1 for axis in direction if axis < 0])
        paths.append(turned.permute(across, along).flatten())
        walks.append(_walk(shape[across], shape[along]))
    return SelectiveScan(given, torch.stack(paths), walks, is_grid=True)


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
