"""The recurrence of `skop.ops.selective_scan_2d` and `selective_scan_3d`, cell by cell along one axis after the other.

Slow, but the definition itself: every other implementation is tested against it. Grids have any number of axes.
"""

import torch
from torch import Tensor

from skop.ops._selective import Arguments, Direction


def selective_scan_2d_naive(given: Arguments) -> tuple[Tensor, None]:
    """Scan along one axis of the grid after the other, in the precision of the arguments."""
    (_, _, A, B, C, D, _, R, *_), x, steps = given, given.x.squeeze(-2), given.steps
    total = torch.zeros_like(x) if D is None else D.sum(0) * x
    for k, direction in enumerate(given.order):
        u, step, b, c = (oriented(values, direction) for values in (x, steps[..., k, :], B[..., k, :], C[..., k, :]))
        decays = torch.exp(step.unsqueeze(-1) * A[k])
        updates = (step * u).unsqueeze(-1) * b.unsqueeze(-2)
        states = updates
        for dim in reversed(range(1, x.ndim - 1)):
            states = _accumulate(decays, states, dim)
        seen = states if R is None else states - R[k] * updates
        total = total + oriented((seen * c.unsqueeze(-2)).sum(-1), direction, back=True)
    return total.unsqueeze(-2), None


def oriented(values: Tensor, direction: Direction, back: bool = False) -> Tensor:
    """Turn a grid so that the first pass runs along its last axis, the next along the one before, all forwards.

    The values (b, H, W, ...) have as many axes after the first as the direction; `back` undoes the turn.
    """
    places, axes = tuple(range(1, len(direction) + 1)), tuple(map(abs, reversed(direction)))
    backwards = [-axis for axis in direction if axis < 0]
    if back:
        values = values.movedim(places, axes)
        return values.flip(backwards) if backwards else values
    values = values.flip(backwards) if backwards else values
    return values.movedim(axes, places)


def _accumulate(decays: Tensor, updates: Tensor, dim: int) -> Tensor:
    """Run state = decay * state + update along an axis, from a state of zero."""
    state, states = torch.zeros_like(updates.select(dim, 0)), []
    for decay, update in zip(decays.unbind(dim), updates.unbind(dim), strict=True):
        state = decay * state + update
        states.append(state)
    return torch.stack(states, dim)
