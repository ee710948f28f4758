"""Fused CPU kernels of `skop.ops.selective_scan`: each path is one line."""

from torch import Tensor

from skop.ops._cpu_selective import SelectiveScan, Walk
from skop.ops._selective import Arguments

__all__ = ["backward", "forward"]

#: Tokens of a tile of a path.
_TILE = 32


def forward(given: Arguments, keep: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Scan: y, final state, and the checkpoints for `backward` if they are to be kept."""
    return _problem(given).forward(keep)


def backward(
    given: Arguments, checkpoints: Tensor, grad_y: Tensor, grad_final: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients of the tensors that `forward` was given; None for what was None."""
    return _problem(given).backward(checkpoints, grad_y, grad_final)


def _problem(given: Arguments) -> SelectiveScan:
    """The scan in the form that its kernels read."""
    walks = [Walk(given.dt.shape[1], 1, _TILE, 1, 1)] * len(given.order)
    return SelectiveScan(given, given.order, walks, is_grid=False)
