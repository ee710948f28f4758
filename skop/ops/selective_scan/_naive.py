"""The recurrence of `skop.ops.selective_scan`, one token after the other.

Slow, but the definition itself: every other implementation is tested against it.
"""

import torch
from torch import Tensor

from skop.ops._selective import Arguments


def selective_scan_naive(given: Arguments) -> tuple[Tensor, Tensor]:
    """Scan token by token along every path, in the precision of the arguments."""
    x, _, A, B, C, D, _, R, initial_state, paths, _ = given
    n_paths = len(paths)
    each, order = torch.arange(n_paths, device=x.device), paths.long().T
    steps = given.steps[:, order, each]
    inputs, maps_in, maps_out = (values.expand(-1, -1, n_paths, -1)[:, order, each] for values in (x, B, C))
    state = x.new_zeros(()) if initial_state is None else initial_state
    outputs = []
    for u, step, b, c in zip(*(values.unbind(1) for values in (inputs, steps, maps_in, maps_out)), strict=True):
        update = (step * u).unsqueeze(-1) * b.unsqueeze(-2)
        state = torch.exp(step.unsqueeze(-1) * A) * state + update
        seen = state if R is None else state - R * update
        outputs.append((seen * c.unsqueeze(-2)).sum(-1))
    y = torch.stack(outputs, dim=1)
    if D is not None:
        y = y + D * inputs
    y = y[:, order.argsort(0), each]
    return (y.sum(2, keepdim=True) if given.shares_x else y), state
