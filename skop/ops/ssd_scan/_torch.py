"""Chunked matrix form of `skop.ops.ssd_scan` in plain torch, for any device.

The derivation is in the README of this folder.

Notation of the shapes: b batch, c chunks, q tokens of a chunk, h heads, g groups, k = h/g heads of a
group, p head_dim, n d_state. Packed means (b, c, h, q, ...): every head of a chunk is one matrix.
Notation of the maths: l sum of the log-decays from the start of the chunk up to a token, u = dt x,
K = C Bᵀ, S = exp(l_i - l_j) where j comes before i or is i, and 0 elsewhere.
"""

from functools import partial
from itertools import groupby
from math import e, log2
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from skop.ops._arguments import autocast_off
from skop.ops._autograd import differentiable_gradients
from skop.ops._dispatch import is_traced
from skop.ops.ssd_scan._naive import ssd_scan_naive

# Decays are powers of two: torch's exp is several times slower where its result underflows, as
# it does in half of every decay matrix, and exp2 is not.
_LOG2_E = log2(e)

#: Neighbouring heads that scan in the same direction, and whether that is from the last token on.
Run = tuple[slice, bool]


def ssd_scan_torch(*arguments: Any, chunk_size: int, return_final_state: bool) -> tuple[Tensor, Tensor | None]:
    """Scan groups of heads as `ssd_scan_naive` does, which takes the same, in chunks of at most so many tokens."""
    x, dt, A, B, C, *rest = arguments
    length = x.shape[1]
    chunk = chunk_length(length, chunk_size)
    missing = -length % chunk
    if missing:  # a step of size zero leaves the state as it is, in either direction
        x, B, C = (pad(values, (0, 0, 0, 0, 0, missing)) for values in (x, B, C))
        dt = pad(dt, (0, 0, 0, missing))
    scan = _traceable_scan if is_traced() else _ChunkedScan.apply
    y, final_state = scan(chunk, return_final_state, x, dt, A, B, C, *rest)
    return (y[:, :length] if missing else y), final_state


def chunk_length(length: int, chunk_size: int) -> int:
    """Choose how many tokens the chunks have, without padding where a length near the most allows it.

    That is the length itself if it fits; its largest divisor above half of `chunk_size`, if there is one; else
    `chunk_size`, and the last chunk has to be padded.
    """
    if length <= chunk_size:
        return length
    divisors = (size for size in range(chunk_size, chunk_size // 2, -1) if length % size == 0)
    return next(divisors, chunk_size)


def _traceable_scan(chunk: int, return_final_state: bool, *arguments: Any) -> tuple[Tensor, Tensor | None]:
    """Scan as `_ChunkedScan` does, without shared buffers and writes in place, which exports do not hold."""
    x, dt, A, B, C, D, initial_state, reverse = arguments
    runs, heads = _runs(reverse, x.shape[2]), x.shape[2]
    steps, inputs = _chunks(dt, chunk), _chunks(x * dt.unsqueeze(-1), chunk)
    maps_in, maps_out = (_chunks(maps.repeat_interleave(heads // maps.shape[2], dim=2), chunk) for maps in (B, C))
    logs = _cumulate(steps * (A * _LOG2_E).unsqueeze(-1), runs)
    y = (_decay_matrices(logs, runs) * (maps_out @ maps_in.mT)) @ inputs
    to_end, total = _decays_to_end(logs, runs)
    updates = (to_end * maps_in).mT @ inputs
    start = torch.zeros_like(updates[:, 0]) if initial_state is None else initial_state.mT
    entering, last = [], []
    for part, is_reversed in runs:
        state, found = start[:, part], []
        order = slice(None, None, -1 if is_reversed else 1)
        for update, decay in list(zip(updates[:, :, part].unbind(1), total[:, :, part].unbind(1), strict=True))[order]:
            found.append(state)
            state = decay * state + update
        entering.append(torch.stack(found[order], dim=1))
        last.append(state)
    y = y + (_decays_from_start(logs) * maps_out) @ torch.cat(entering, dim=2)
    y = y.transpose(2, 3).flatten(1, 2)
    return (y if D is None else y + D * x), torch.cat(last, dim=1).mT if return_final_state else None


def _chunks(values: Tensor, chunk: int) -> Tensor:
    """Order (b, length, h, ...) as (b, c, h, q, ...)."""
    return values.unflatten(1, (values.shape[1] // chunk, chunk)).transpose(2, 3)


class _ChunkedScan(torch.autograd.Function):
    """The scan of whole chunks, with a backward pass written out by hand.

    The gradient of every log-decay follows from y, u, the states and their gradients, without another
    pass over the (q, q) matrices. Second derivatives go through the sequential reference.
    """

    @staticmethod
    def forward(ctx: Any, chunk: int, return_final_state: bool, *arguments: Any) -> tuple[Tensor, Tensor | None]:
        """Scan as `ssd_scan_torch` does; the length is a multiple of the chunk."""
        x, dt, A, B, C, D, initial_state, reverse = arguments
        runs = _runs(reverse, x.shape[2])
        steps, maps_in, maps_out = _pack(dt, chunk), _pack(B, chunk), _pack(C, chunk)
        logs = _cumulate(steps * (A * _LOG2_E).unsqueeze(-1), runs)
        u = _pack(x, chunk, dt.unsqueeze(-1))
        decays = _decay_matrices(logs, runs)
        matrices = _scale(decays, maps_out @ maps_in.mT)
        states: Tensor | None = None
        final_state: Tensor | None = None
        if steps.shape[1] > 1 or initial_state is not None or return_final_state:
            to_end, total = _decays_to_end(logs, runs)
            start = None if initial_state is None else initial_state.mT
            scaled = _scale(to_end, maps_in)
            states, final_state = _carry(scaled.mT @ u, total, start, runs)
            y = _scale(_decays_from_start(logs), maps_out, out=scaled) @ states
            y.flatten(0, 2).baddbmm_(matrices.flatten(0, 2), u.flatten(0, 2))
        else:
            y = matrices @ u
        kept = (steps, maps_in, maps_out, logs, u, decays, y, states, final_state)
        ctx.save_for_backward(*arguments[:7], *kept)
        ctx.set_materialize_grads(False)
        ctx.reverse = reverse
        returned = final_state.mT.contiguous() if return_final_state and final_state is not None else None
        return _add_skip(y, x, D), returned

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None, grad_final: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of everything that `forward` was given as a tensor."""
        saved = ctx.saved_tensors  # once: unpacking may recompute them
        inputs, kept = saved[:7], saved[7:]
        with autocast_off(inputs[0].device):
            if torch.is_grad_enabled():  # only where a second derivative will be asked for
                plain = partial(ssd_scan_naive, reverse=ctx.reverse)
                grads = differentiable_gradients(plain, inputs, (grad_y, grad_final))
            else:
                grad_y = torch.zeros_like(inputs[0]) if grad_y is None else grad_y
                grads = _gradients(inputs, kept, _runs(ctx.reverse, inputs[0].shape[2]), grad_y, grad_final)
        return None, None, *grads, None


def _gradients(
    inputs: tuple[Tensor, ...],
    kept: tuple[Tensor, ...],
    runs: list[Run],
    grad_y: Tensor,
    grad_final: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Gradients of x, dt, A, B, C, D and the initial state from what the forward pass kept."""
    x, dt, A, _, _, D, initial_state = inputs
    steps, maps_in, maps_out, logs, u, decays, y, states, final_state = kept
    back = [(heads, not reverse) for heads, reverse in runs]
    g = _pack(grad_y, steps.shape[-1])
    spare = g * y  # Fresh memory costs as much as the arithmetic here: large results share buffers.
    grad_logs = spare.sum(-1)
    matrices = g @ u.mT
    grad_products = _sum_groups(matrices.mul_(decays), maps_in.shape[2])
    grad_in, grad_out = grad_products.mT @ maps_out, grad_products @ maps_in
    grad_u = _scale(decays, maps_out @ maps_in.mT, out=matrices).mT @ g
    grad_initial = end_terms = None
    if states is not None:
        grad_end = None if grad_final is None else grad_final.mT
        packed = (maps_in, maps_out, logs, u, g, states)
        grad_states, grad_start = _add_state_gradients(packed, grad_end, runs, grad_u, grad_in, grad_out)
        end_terms = _end_terms(states, final_state, grad_states, runs).unsqueeze(-1)
        grad_initial = None if initial_state is None else grad_start.mT
    grad_u, spare = _unpack(grad_u), spare.view(x.shape)
    products = torch.mul(x, grad_u, out=spare).sum(-1)
    grad_logs = _cumulate(grad_logs - steps * _pack(products, steps.shape[-1]), back)
    if end_terms is not None:
        grad_logs += end_terms
    grad_a = (grad_logs * steps).sum((0, 1, 3))
    grad_dt = _unpack(grad_logs * A.unsqueeze(-1)).add_(products)
    grad_x = grad_u.mul_(dt.unsqueeze(-1))
    grad_d = None
    if D is not None:
        grad_x.addcmul_(grad_y, D)
        grad_d = torch.mul(grad_y, x, out=spare).sum((0, 1)).sum_to_size(D.shape)
    return grad_x, grad_dt, grad_a, _unpack(grad_in), _unpack(grad_out), grad_d, grad_initial


def _add_state_gradients(
    packed: tuple[Tensor, ...],
    grad_end: Tensor | None,
    runs: list[Run],
    grad_u: Tensor,
    grad_in: Tensor,
    grad_out: Tensor,
) -> tuple[Tensor, Tensor]:
    """Add what passes through the states between chunks to the gradients of u, B and C, in place.

    Returns the gradients of the state that leaves each chunk and of the initial state.
    """
    maps_in, maps_out, logs, u, g, states = packed
    (to_end, total), from_start = _decays_to_end(logs, runs), _decays_from_start(logs)
    # The gradients of the states follow the recurrence of the states, in the other direction.
    back = [(heads, not reverse) for heads, reverse in runs]
    scaled = _scale(from_start, maps_out)
    grad_states, grad_start = _carry(scaled.mT @ g, total, grad_end, back)
    _scale(to_end, maps_in, out=scaled)
    grad_u.flatten(0, 2).baddbmm_(scaled.flatten(0, 2), grad_states.flatten(0, 2))
    _matmul(u, grad_states.mT, out=scaled)
    grad_in += _sum_groups(scaled.mul_(to_end), maps_in.shape[2])
    _matmul(g, states.mT, out=scaled)
    grad_out += _sum_groups(scaled.mul_(from_start), maps_in.shape[2])
    return grad_states, grad_start


def _runs(reverse: tuple[bool, ...], heads: int) -> list[Run]:
    """Cut the heads into runs of one direction."""
    runs, start = [], 0
    for direction, groups in groupby(reverse):
        stop = start + heads // len(reverse) * len(list(groups))
        runs.append((slice(start, stop), direction))
        start = stop
    return runs


def _pack(values: Tensor, chunk: int, factor: Tensor | None = None) -> Tensor:
    """Order (b, length, h, ...), times a factor, as (b, c, h, q, ...), contiguous: one pass."""
    packed = values.unflatten(1, (-1, chunk)).transpose(2, 3)
    if factor is None:
        return packed.contiguous()
    factor = factor.unflatten(1, (-1, chunk)).transpose(2, 3)
    return torch.mul(packed, factor, out=values.new_empty(packed.shape))


def _unpack(values: Tensor) -> Tensor:
    """Order (b, c, h, q, ...) as (b, length, h, ...), contiguous."""
    return values.transpose(2, 3).flatten(1, 2).contiguous()


def _add_skip(y: Tensor, x: Tensor, D: Tensor | None) -> Tensor:
    """Unpack y and add D x: one pass."""
    if D is None:
        return _unpack(y)
    result = x.new_empty(x.shape)
    chunks = (-1, y.shape[3])
    torch.addcmul(y.transpose(2, 3), x.unflatten(1, chunks), D, out=result.unflatten(1, chunks))
    return result


def _scale(per_head: Tensor, per_group: Tensor, out: Tensor | None = None) -> Tensor:
    """Multiply what each head has, (b, c, h, ...), by what its group has, (b, c, g, ...)."""
    groups = (per_group.shape[2], -1)
    result = None if out is None else out.unflatten(2, groups)
    return torch.mul(per_head.unflatten(2, groups), per_group.unsqueeze(3), out=result).flatten(2, 3)


def _matmul(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Write the product of packed matrices into a contiguous buffer."""
    torch.bmm(left.flatten(0, 2), right.flatten(0, 2), out=out.flatten(0, 2))


def _sum_groups(per_head: Tensor, groups: int) -> Tensor:
    """Add up the heads of each group: (b, c, h, ...) to (b, c, g, ...)."""
    return per_head if per_head.shape[2] == groups else per_head.unflatten(2, (groups, -1)).sum(3)


def _cumulate(values: Tensor, runs: list[Run]) -> Tensor:
    """Sum (b, c, h, q) within the chunks in the direction of each head, the own token included."""
    parts = [
        values[:, :, heads].flip(-1).cumsum(-1).flip(-1) if reverse else values[:, :, heads].cumsum(-1)
        for heads, reverse in runs
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _decay_matrices(logs: Tensor, runs: list[Run]) -> Tensor:
    """S of each head, (b, c, h, q, q), from base-2 log-decays (b, c, h, q)."""
    size = logs.shape[-1]
    bar = torch.full((size, size), -torch.inf, dtype=logs.dtype, device=logs.device)
    parts = [bar.tril(-1) if reverse else bar.triu(1) for _, reverse in runs]
    if len(parts) > 1:
        sizes = [heads.stop - heads.start for heads, _ in runs]
        parts = [part.expand(size, -1, -1) for part, size in zip(parts, sizes, strict=True)]
    # Barred before the power is taken: across the diagonal it would overflow.
    return (logs.unsqueeze(-1) - logs.unsqueeze(-2)).add_(torch.cat(parts)).exp2_()


def _decays_from_start(logs: Tensor) -> Tensor:
    """Decay of an entering state up to each token: (b, c, h, q, 1)."""
    return logs.exp2().unsqueeze(-1)


def _decays_to_end(logs: Tensor, runs: list[Run]) -> tuple[Tensor, Tensor]:
    """Decays from each token to the end of its chunk, (b, c, h, q, 1), and over chunks, (b, c, h, 1, 1)."""
    ends = [logs[:, :, heads, :1] if reverse else logs[:, :, heads, -1:] for heads, reverse in runs]
    total = ends[0] if len(ends) == 1 else torch.cat(ends, dim=2)
    return (total - logs).exp2_().unsqueeze(-1), total.exp2().unsqueeze(-1)


def _carry(updates: Tensor, decays: Tensor, start: Tensor | None, runs: list[Run]) -> tuple[Tensor, Tensor]:
    """Carry states from chunk to chunk: the state that enters each, (b, c, h, n, p), and the last."""
    entering, last = torch.empty_like(updates), torch.empty_like(updates[:, 0])
    for heads, reverse in runs:
        order = slice(None, None, -1 if reverse else 1)
        added, kept, path = (values[:, :, heads].unbind(1)[order] for values in (updates, decays, entering))
        path = (*path, last[:, heads])
        if start is None:
            path[0].zero_()
        else:
            path[0].copy_(start[:, heads])
        for before, after, update, decay in zip(path[:-1], path[1:], added, kept, strict=True):
            torch.addcmul(update, decay, before, out=after)
    return entering, last


def _end_terms(states: Tensor, final_state: Tensor, grad_states: Tensor, runs: list[Run]) -> Tensor:
    """Product of the state that leaves each chunk with its gradient: (b, c, h)."""
    terms = states.new_empty(states.shape[:3])
    for heads, reverse in runs:
        here, following, last = slice(None, -1), slice(1, None), -1
        if reverse:
            here, following, last = following, here, 0
        terms[:, here, heads] = (grad_states[:, here, heads] * states[:, following, heads]).sum((-2, -1))
        terms[:, last, heads] = (grad_states[:, last, heads] * final_state[:, heads]).sum((-2, -1))
    return terms
