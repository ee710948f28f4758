"""What the Triton kernels of the selective scans are given, along paths and over grids, and what comes back."""

from typing import NamedTuple

import torch
from torch import Tensor

from skop.ops._selective import Arguments
from skop.ops._triton_tools import contiguous, per_path, sum_paths

__all__ = ["Gradients", "flags", "pointers", "ready"]


def ready(given: Arguments) -> Arguments:
    """Make the arguments contiguous, with the steps in the place of dt.

    The kernels read the steps two to six times; taking the softplus once costs one pass over dt.
    """
    core: Arguments = contiguous(given._replace(dt=given.steps))
    return core


def pointers(core: Arguments) -> tuple[Tensor, ...]:
    """Tensors that the kernels of the outputs and of the gradients begin with."""
    x, steps, A, B, C, D, _, R = core[:8]
    # A kernel needs some pointer where there is no tensor; it is not followed.
    return x, steps, A, B, C, A if D is None else D, A if R is None else R


def flags(core: Arguments) -> dict[str, bool]:
    """Tell these kernels which of the optional tensors there are."""
    return {"HAS_D": core.D is not None, "HAS_R": core.R is not None}


class Gradients(NamedTuple):
    """What a gradient kernel fills in: gradients of x for each path and of the steps, the others in parts to be summed.

    There is one number for each program that adds to a sum; torch adds them up in a fixed order.
    """

    x: Tensor
    steps: Tensor
    A: Tensor
    B: Tensor
    C: Tensor
    R: Tensor | None

    @classmethod
    def empty(cls, core: Arguments, tiles: int, blocks: int) -> "Gradients":
        """New memory for a scan that is cut into tiles of tokens and blocks of channels."""
        steps, A = core.dt, core.A
        part_A = A.new_empty(steps.shape[0], A.shape[0], tiles, *A.shape[1:])
        by_block = (*steps.shape[:-1], blocks, A.shape[2])
        part_B, part_C = steps.new_empty(by_block), steps.new_empty(by_block)
        part_R = None if core.R is None else torch.empty_like(part_A)
        return cls(per_path(core), torch.empty_like(steps), part_A, part_B, part_C, part_R)

    def summed(self, given: Arguments, D: Tensor | None, start: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the arguments, in their dtypes, with those of D and of the initial state."""
        grad_dt = self.steps
        if given.softplus:
            biased = given.dt if given.dt_bias is None else given.dt + given.dt_bias
            grad_dt = torch.ops.aten.softplus_backward(self.steps, biased, 1.0, 20.0)
        return (
            sum_paths(given, self.x),
            grad_dt,
            self.A.sum((0, 2)),
            self.B.sum(-2).to(given.x.dtype),
            self.C.sum(-2).to(given.x.dtype),
            D,
            None if given.dt_bias is None else grad_dt.sum(tuple(range(grad_dt.ndim - 2))),
            None if self.R is None else self.R.sum((0, 2)),
            start,
        )
