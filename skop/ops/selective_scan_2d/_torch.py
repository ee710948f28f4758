"""Blocked form of `skop.ops.selective_scan_2d` and `selective_scan_3d` in plain torch, for any device.

The derivation is in the README of this folder. Grids have any number of axes: what is said of rows, the cells
of one place on the first axis, holds of planes.

Notation of the shapes: b batch, H rows, W columns, or more axes, K directions, D channels, N states of a channel,
m samples of a block. Packed means (H, W, b, N or 1, D or 1): a state (N, D) is one contiguous matrix.
"""

from math import prod
from typing import Any

import torch
from torch import Tensor

from skop.ops._arguments import autocast_off
from skop.ops._autograd import differentiable_gradients
from skop.ops._blocked import LOG2_E, Packed, accumulate, accumulate_back, block_numbers, cut, own_share, slices, walk
from skop.ops._selective import Arguments
from skop.ops.selective_scan_2d._naive import oriented, selective_scan_2d_naive

#: Rows of a block; the states of the row before each block are kept for the backward pass.
_ROWS = 8
#: How much larger than a block should be it may become, before the channels are cut, and into parts of how many at
#: least: cutting costs time, as operations then read short pieces of memory.
_LARGEST, _CHANNELS = 8, 16


def selective_scan_2d_torch(given: Arguments) -> tuple[Tensor, None]:
    """Scan in blocks of rows or planes that fit into a cache where they can, in the precision of the arguments."""
    (_, _, A, B, C, D, _, R, *_), x, steps = given, given.x.squeeze(-2), given.steps
    total = torch.zeros_like(x) if D is None else D.sum(0) * x
    for k, direction in enumerate(given.order):
        signal = (x, steps[..., k, :], B[..., k, :], C[..., k, :])
        u, step, b, c = (oriented(values, direction) for values in signal)
        parts = [_BlockedScan.apply(u[..., part], step[..., part], A[k, part], b, c) for part in _channel_parts(u, A)]
        total = total + oriented(torch.cat(parts, -1), direction, back=True)
    if R is not None:
        total = total - x * (steps * own_share(B, C, R)).sum(-2)
    return total.unsqueeze(-2), None


def _channel_parts(u: Tensor, A: Tensor) -> list[slice]:
    """Cut the channels where the smallest block of all of them would take much memory: where planes are large."""
    cells = min(_ROWS, u.shape[1]) * prod(u.shape[2:-1])
    return slices(u.shape[-1], max(_CHANNELS, _LARGEST * block_numbers(u.device) // (cells * A.shape[-1])))


class _BlockedScan(torch.autograd.Function):
    """The scan of one direction, along the last axis first, with a backward pass written out by hand.

    Only the states of the row before each block are kept. Second derivatives go through the reference.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
        """Scan x (b, H, W, D) with steps dt of its shape, A (D, N), B and C (b, H, W, N)."""
        packed = _pack_all(x, dt, A, B, C)
        y = torch.empty_like(packed.inputs)
        states = walk(packed, _ROWS, y=y)
        ctx.save_for_backward(x, dt, A, B, C, states)
        return _unpack(y.squeeze(-2))

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x, dt, A, B and C."""
        with autocast_off(grad_y.device):
            if torch.is_grad_enabled():  # only where a second derivative will be asked for
                return differentiable_gradients(_plain_scan, ctx.saved_tensors[:-1], (grad_y,))
            return _gradients(ctx.saved_tensors, grad_y)


def _plain_scan(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Scan one direction by the reference."""
    u, step, b, c = (values.unsqueeze(-2) for values in (x, dt, B, C))
    direction = tuple(reversed(range(1, x.ndim - 1)))
    given = Arguments(u, step, A.unsqueeze(0), b, c, None, None, None, None, (direction,), softplus=False)
    return selective_scan_2d_naive(given)[0].squeeze(-2)


def _gradients(saved: tuple[Tensor, ...], grad_y: Tensor) -> tuple[Tensor, ...]:
    """Gradients of x, dt, A, B and C from these and the states of the rows before the blocks."""
    x, dt, A, B, C, states = saved
    packed, cotangents = _pack_all(x, dt, A, B, C), _pack(grad_y).unsqueeze(-2)
    grads = Packed(*(torch.empty_like(values) for values in packed))
    grads.rates.zero_()
    carry = torch.zeros_like(states[0])
    blocks, buffers = cut(packed, _ROWS, 3 + len(x.shape[1:-1]))
    for samples, block, rows in reversed(blocks):
        place = (rows, ..., samples, slice(None), slice(None))
        start, rest = states[block, ..., samples, :, :], carry[..., samples, :, :]
        _block_gradients(packed.at(rows, samples), start, cotangents[place], rest, grads.at(rows, samples), buffers)
    grad_v, grad_steps = (_unpack(values.squeeze(-2)) for values in (grads.inputs, grads.steps))
    grad_in, grad_out = (_unpack(values.squeeze(-1)) for values in (grads.maps_in, grads.maps_out))
    return grad_v * dt, grad_steps + grad_v * x, grads.rates.sum(0).mT, grad_in, grad_out


def _block_gradients(
    here: Packed, start: Tensor, grad_y: Tensor, carry: Tensor, grads: Packed, buffers: Tensor
) -> None:
    """Fill in the gradients of a block of rows; the carry (W, m, N, D) moves from below it to above it."""
    decays, grad, grad_logs, *states = here.views(buffers)  # states[axis]: behind the pass along that axis
    here.decays(out=decays)
    torch.mul(here.maps_in, here.inputs, out=states[-1])
    for axis in here.later_axes:
        accumulate(decays.movedim(axis, 0), states[axis].movedim(axis, 0))
        states[axis - 1].copy_(states[axis])
    accumulate(decays, states[0], start)
    torch.mul(here.maps_out, grad_y, out=grad)
    accumulate_back(decays, grad, carry)
    torch.mul(grad[0], start, out=grad_logs[0])
    torch.mul(grad[1:], states[0][:-1], out=grad_logs[1:])
    for axis in reversed(here.later_axes):
        accumulate_back(decays.movedim(axis, 0), grad.movedim(axis, 0))
        logs, grads_here, states_here = (values.movedim(axis, 0) for values in (grad_logs, grad, states[axis]))
        logs[1:].addcmul_(grads_here[1:], states_here[:-1])
    grad_logs *= decays
    here.add_gradients(states[0], grad, grad_logs, grad_y, grads, spare=decays)


def _pack_all(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Packed:
    """Order all that a scan reads by rows, columns and samples."""
    steps, inputs = (_pack(values).unsqueeze(-2) for values in (dt, dt * x))
    maps_in, maps_out = (_pack(values).unsqueeze(-1) for values in (B, C))
    return Packed(steps, inputs, (A.mT * LOG2_E).repeat(x.shape[0], 1, 1), maps_in, maps_out)


def _pack(values: Tensor) -> Tensor:
    """Order (b, H, W, ...) as (H, W, b, ...)."""
    return values.movedim(0, -2).contiguous()


def _unpack(values: Tensor) -> Tensor:
    """Order (H, W, b, ...) as (b, H, W, ...)."""
    return values.movedim(-2, 0)
