"""Blocked form of `skop.ops.selective_scan` in plain torch, for any device.

The derivation is in the README of this folder.

Notation of the shapes: b batch, L length, K paths, D channels, N states of a channel, S segments of a
path that are walked side by side, T tokens of a segment, M = S b K rows, q tokens of a block, m rows
of a block. Packed means (T, M, N or 1, D or 1): the state (N, D) of a row is one contiguous matrix.
"""

from math import ceil, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from skop.ops._arguments import autocast_off
from skop.ops._autograd import differentiable_gradients
from skop.ops._blocked import LOG2_E, Packed, accumulate, accumulate_back, block_numbers, cut, own_share, walk
from skop.ops._dispatch import is_traced
from skop.ops._paths import Permutation
from skop.ops._selective import Arguments
from skop.ops.selective_scan._naive import selective_scan_naive

#: Steps of a block; the state before each block is kept for the backward pass.
_STEPS = 16

#: Tokens of a block in a graph for other runtimes: the more, the fewer nodes, and the more memory for their states.
_TRACED_TOKENS = 64

#: A segment is walked twice, so it has to be long to be worth while.
_SHORTEST_SEGMENT = 64


def selective_scan_torch(given: Arguments) -> tuple[Tensor, Tensor]:
    """Scan in blocks that fit into a cache, in the precision of the arguments."""
    paths = given.order
    order, back = paths.long(), paths.long().argsort(1)
    inputs, steps, maps_in, maps_out = (
        Permutation.apply(values.expand(-1, -1, len(paths), -1), order, back)
        for values in (given.x, given.steps, given.B, given.C)
    )
    scan = _traceable_scan if is_traced() else _BlockedScan.apply
    y, final_state = scan(inputs, steps, given.A, maps_in, maps_out, given.initial_state)
    if given.R is not None:
        y = y - steps * inputs * own_share(maps_in, maps_out, given.R)
    if given.D is not None:
        y = y + given.D * inputs
    y = Permutation.apply(y, back, order)
    return (y.sum(2, keepdim=True) if given.shares_x else y), final_state


def _traceable_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Scan as `_BlockedScan` does, without writes in place, in few operations, each of which is some nodes of a graph.

    The segments of a block are walked side by side, from a state of zero. What enters a segment is added afterwards.
    """
    length = x.shape[1]
    n_blocks = ceil(length / _TRACED_TOKENS)
    walked = ceil(sqrt(length / n_blocks))
    segments = ceil(length / (n_blocks * walked))
    # A step of size zero leaves the state as it is.
    missing, sizes = n_blocks * segments * walked - length, (n_blocks, segments, walked)
    parts = (pad(values, (0, 0, 0, 0, 0, missing)).unflatten(1, sizes).unbind(1) for values in (dt * x, dt, B, C))
    state = x.new_zeros(x.shape[0], *A.shape) if initial_state is None else initial_state
    outputs = []
    for inputs, steps, maps_in, maps_out in zip(*parts, strict=True):
        updates, decays = inputs.unsqueeze(-1) * maps_in.unsqueeze(-2), torch.exp(steps.unsqueeze(-1) * A)
        states = _running(decays, updates, torch.zeros_like(updates[:, :, 0]), 2)[1:]
        totals = torch.exp(steps.cumsum(2).unsqueeze(-1) * A)
        *entering, state = _running(totals[:, :, -1], states[-1], state, 1)
        every = torch.stack(states, 2) + totals * torch.stack(entering, 1).unsqueeze(2)
        outputs.append((every * maps_out.unsqueeze(-2)).sum(-1))
    return torch.stack(outputs, 1).flatten(1, 3)[:, :length], state


def _running(decays: Tensor, updates: Tensor, state: Tensor, dim: int) -> list[Tensor]:
    """A state, and what follows by state = decay * state + update along an axis."""
    found = [state]
    for decay, update in zip(decays.unbind(dim), updates.unbind(dim), strict=True):
        found.append(decay * found[-1] + update)
    return found


class _BlockedScan(torch.autograd.Function):
    """The scan of (b, L, K, D) from the first token to the last, with a backward pass written out by hand.

    Only the state before each block is kept. Second derivatives go through the sequential reference.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Scan as `selective_scan_torch` does, without R and D; dt are the steps."""
        segments = _count_segments(x, A)
        packed = _pack_all(x, dt, A, B, C, segments)
        start = 0.0 if initial_state is None else initial_state.mT.flatten(0, 1)
        if segments > 1:
            start = _chain(walk(packed, _STEPS)[-1], _total_decays(packed), start, segments)
        y = torch.empty_like(packed.steps)
        states = walk(packed, _STEPS, start, y)
        ctx.save_for_backward(x, dt, A, B, C, initial_state, states)
        final_state = states[-1].unflatten(0, (segments, x.shape[0], -1))[-1].mT.contiguous()
        return _unpack(y.squeeze(-2), x.shape, segments), final_state

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, grad_final: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x, dt, A, B, C and the initial state."""
        with autocast_off(grad_y.device):
            if torch.is_grad_enabled():  # only where a second derivative will be asked for
                return differentiable_gradients(_sequential_scan, ctx.saved_tensors[:-1], (grad_y, grad_final))
            return _gradients(ctx.saved_tensors, grad_y, grad_final)


def _sequential_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Scan (b, L, K, D) in its own order by the reference."""
    order = torch.arange(x.shape[1], device=x.device).expand(x.shape[2], -1)
    return selective_scan_naive(Arguments(x, dt, A, B, C, None, None, None, initial_state, order, softplus=False))


def _gradients(saved: tuple[Any, ...], grad_y: Tensor, grad_final: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of x, dt, A, B, C and the initial state from these and the states before the blocks."""
    x, dt, A, B, C, initial_state, states = saved
    batch, _, n_paths, _ = x.shape
    segments = _count_segments(x, A)
    packed = _pack_all(x, dt, A, B, C, segments)
    grad_rows = _pack(grad_y, segments).unsqueeze(-2)
    carry = grad_final.mT.flatten(0, 1)
    if segments > 1:
        ends = torch.zeros_like(packed.rates)
        _walk_back(packed, states, grad_rows, ends)
        carry = _chain(ends, _total_decays(packed), carry, segments, reverse=True)
    carry = carry.clone()
    grads = Packed(*(torch.empty_like(values) for values in packed))
    grads.rates.zero_()
    _walk_back(packed, states, grad_rows, carry, grads)
    grad_v = _unpack(grads.inputs.squeeze(-2), x.shape, segments)
    grad_steps = _unpack(grads.steps.squeeze(-2), x.shape, segments)
    grad_a = grads.rates.unflatten(0, (-1, n_paths)).sum(0).mT
    grad_in, grad_out = (_unpack(maps.squeeze(-1), x.shape, segments) for maps in (grads.maps_in, grads.maps_out))
    grad_start = None if initial_state is None else carry[: batch * n_paths].unflatten(0, (batch, -1)).mT
    return grad_v * dt, grad_steps + grad_v * x, grad_a, grad_in, grad_out, grad_start


def _walk_back(packed: Packed, states: Tensor, grad_y: Tensor, carry: Tensor, grads: Packed | None = None) -> None:
    """Take the gradient of the last states, `carry`, back before the first, in place; fill in the others."""
    blocks, buffers = cut(packed, _STEPS, 4)
    for rows, block, tokens in reversed(blocks):
        here, cotangents = packed.at(tokens, rows), grad_y[tokens, rows]
        decays, grad_path, path, spare = here.views(buffers)
        here.decays(out=decays)
        torch.mul(here.maps_out, cotangents, out=grad_path)
        accumulate_back(decays, grad_path, carry[rows])
        if grads is not None:
            torch.mul(here.maps_in, here.inputs, out=path)
            accumulate(decays, path, states[block, rows])
            grad_logs = decays.mul_(grad_path)
            grad_logs[0] *= states[block, rows]
            grad_logs[1:] *= path[:-1]
            here.add_gradients(path, grad_path, grad_logs, cotangents, grads.at(tokens, rows), spare)


def _total_decays(packed: Packed) -> Tensor:
    """Decay of every state over its segment: (M, N, D)."""
    return (packed.steps.sum(0) * packed.rates).exp2_()


def _chain(ends: Tensor, decays: Tensor, state: Tensor | float, segments: int, reverse: bool = False) -> Tensor:
    """States (M, N, D) that enter the segments, from those that leave them after entering as zero."""
    entering = []
    for segment in range(segments)[:: -1 if reverse else 1]:
        rows = slice(segment * len(ends) // segments, (segment + 1) * len(ends) // segments)
        entering.append(torch.as_tensor(state).expand_as(ends[rows]))
        state = decays[rows] * state + ends[rows]
    return torch.cat(entering[:: -1 if reverse else 1])


def _count_segments(x: Tensor, A: Tensor) -> int:
    """Choose how many segments of a path are walked side by side: more than one where a step is small."""
    needed = block_numbers(x.device) // _STEPS // (x.shape[0] * A.numel())
    return max(1, min(needed, x.shape[1] // _SHORTEST_SEGMENT))


def _pack_all(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, segments: int) -> Packed:
    """Order all that a scan reads by tokens and rows."""
    steps, inputs, maps_in, maps_out = (_pack(values, segments) for values in (dt, dt * x, B, C))
    rates = (A.mT * LOG2_E).expand(segments * x.shape[0], *A.mT.shape).flatten(0, 1)
    return Packed(
        steps.unsqueeze(-2), inputs.unsqueeze(-2), rates.contiguous(), maps_in.unsqueeze(-1), maps_out.unsqueeze(-1)
    )


def _pack(values: Tensor, segments: int) -> Tensor:
    """Order (b, L, K, ...) as (T, M, ...); steps of size zero fill the last segment up."""
    missing = -values.shape[1] % segments
    values = pad(values, (0, 0, 0, 0, 0, missing)) if missing else values
    return values.unflatten(1, (segments, -1)).permute(2, 1, 0, 3, 4).flatten(1, 3).contiguous()


def _unpack(values: Tensor, shape: torch.Size, segments: int) -> Tensor:
    """Order (T, M, ...) as (b, L, K, ...)."""
    batch, length = shape[:2]
    return values.unflatten(1, (segments, batch, -1)).permute(2, 1, 0, 3, 4).flatten(1, 2)[:, :length]
