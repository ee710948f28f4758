"""The recurrence of `skop.ops.ssd_scan`, one token after the other.

Slow, but the definition itself: every other implementation is tested against it.

Notation: h state, t token, x input, y output, A decay rate, B input map, C output map, D skip.
"""

import torch
from torch import Tensor


def ssd_scan_naive(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    initial_state: Tensor | None,
    reverse: tuple[bool, ...],
) -> tuple[Tensor, Tensor]:
    """Scan groups of heads token by token, in the precision of the arguments.

    The arguments have the shapes of `skop.ops.ssd_scan` without paths, but D is (heads, 1) or (heads, head_dim);
    `reverse` tells whether the heads of a group scan from the last token to the first.
    """
    heads, groups = x.shape[2], B.shape[2]
    flipped = torch.tensor(reverse, device=x.device).repeat_interleave(heads // groups)
    inputs = _reorder(torch.einsum("blhp,blhn->blhpn", x * dt.unsqueeze(-1), _per_head(B, heads)), flipped)
    decays = _reorder((dt * A).exp(), flipped)[..., None, None]
    outputs = _reorder(_per_head(C, heads), flipped)
    state = torch.zeros_like(inputs[:, 0]) if initial_state is None else initial_state
    y = []
    for decay, update, output in zip(decays.unbind(1), inputs.unbind(1), outputs.unbind(1), strict=True):
        state = decay * state + update
        y.append(torch.einsum("bhpn,bhn->bhp", state, output))
    result = _reorder(torch.stack(y, dim=1), flipped)
    return (result if D is None else result + D * x), state


def _per_head(maps: Tensor, heads: int) -> Tensor:
    """Repeat group maps for every head of the group: (batch, length, heads, d_state)."""
    return maps.repeat_interleave(heads // maps.shape[2], dim=2)


def _reorder(values: Tensor, flipped: Tensor) -> Tensor:
    """Turn the time axis of the flipped heads around; its own inverse."""
    shape = (1, 1, -1) + (1,) * (values.ndim - 3)
    return torch.where(flipped.view(shape), values.flip(1), values)
