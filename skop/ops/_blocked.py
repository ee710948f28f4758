"""What the blocked torch forms of the selective scans share.

Notation: N states of a channel, D channels, m independent rows of a block, v = dt x. A state (N, D) is one
contiguous matrix, and where the maps have it, v and the steps have one row and the maps one column.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import e, log, log2, prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from skop.ops._arguments import autocast_off

# Decays are powers of two: torch's exp2 takes a third of the time of its exp.
LOG2_E, LN_2 = log2(e), log(2)

# Numbers in a block: on a CPU few enough that a block stays in a cache between operations.
_BLOCK = {"cpu": 2**19}
_BLOCK_ELSEWHERE = 2**24


class Packed(NamedTuple):
    """What a scan reads, or the gradients of it; (...) are the axes that it walks along."""

    steps: Tensor  # (..., m, 1, D)
    inputs: Tensor  # steps times inputs, (..., m, 1, D)
    rates: Tensor  # of base 2, (m, N, D)
    maps_in: Tensor  # (..., m, N, 1)
    maps_out: Tensor  # (..., m, N, 1)

    def at(self, place: slice, rows: slice) -> "Packed":
        """Views on a block: a part of the first axis, and of the axis before the state."""
        steps, inputs, maps_in, maps_out = (
            values[place, ..., rows, :, :] for values in (self.steps, self.inputs, self.maps_in, self.maps_out)
        )
        return Packed(steps, inputs, self.rates[rows], maps_in, maps_out)

    @property
    def later_axes(self) -> range:
        """Axes behind the first that are walked along, from the last: the passes within a block, in turn."""
        return range(self.steps.ndim - 4, 0, -1)

    def views(self, buffers: Tensor) -> Iterator[Tensor]:
        """Give memory (count, numbers) the shape of the states of a block, (..., m, N, D)."""
        shape = (*self.steps.shape[:-3], *self.rates.shape)
        return (buffer[: prod(shape)].view(shape) for buffer in buffers)

    def decays(self, out: Tensor) -> None:
        """Write the decay of every state, (..., m, N, D)."""
        torch.mul(self.steps, self.rates, out=out).exp2_()

    def add_gradients(
        self, states: Tensor, grad_states: Tensor, grad_logs: Tensor, grad_y: Tensor, into: "Packed", spare: Tensor
    ) -> None:
        """Reduce the gradients of a block to those of what it reads; those of the rates are added.

        Of the states that y is read from, and of the same shape, (..., m, N, D): the gradients of their inputs and
        of their log-decays, and memory to work in. The gradients of the outputs are (..., m, 1, D).
        """
        # In this order, vector times matrix, the product takes a quarter of the time.
        into.maps_out.copy_((grad_y @ states.mT).mT)
        into.maps_in.copy_((self.inputs @ grad_states.mT).mT)
        into.inputs.copy_(self.maps_in.mT @ grad_states)
        into.steps.copy_(torch.mul(grad_logs, self.rates, out=spare).sum(-2, keepdim=True).mul_(LN_2))
        into.rates.add_(torch.mul(grad_logs, self.steps, out=spare).flatten(0, -4).sum(0))


def own_share(B: Tensor, C: Tensor, R: Tensor) -> Tensor:
    """Sum C R B over the states, what y has of dt x by the own token's share R: (..., K, N), (K, D, N), (..., K, D)."""
    return _StateSum.apply(B * C, R)


class _StateSum(torch.autograd.Function):
    """Sum of products over the states; a backward pass under autocast keeps its precision too."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, R: Tensor) -> Tensor:
        """Multiply (..., K, N) by (K, D, N)."""
        ctx.save_for_backward(maps, R)
        return torch.einsum("...kn,kdn->...kd", maps, R)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of both factors."""
        maps, R = ctx.saved_tensors
        with autocast_off(grad.device):
            grad_r = torch.einsum("tkd,tkn->kdn", grad.flatten(0, -3), maps.flatten(0, -3))
            return torch.einsum("...kd,kdn->...kn", grad, R), grad_r


def block_numbers(device: torch.device) -> int:
    """Choose how many numbers one operation treats."""
    return _BLOCK.get(device.type, _BLOCK_ELSEWHERE)


def slices(size: int, most: int) -> list[slice]:
    """Cut a range into parts of nearly even size, none larger than `most`."""
    count = -(-size // most)
    return [slice(size * i // count, size * (i + 1) // count) for i in range(count)]


def cut(packed: Packed, least: int, count: int) -> tuple[list[tuple[slice, int, slice]], Tensor]:
    """Cut the m rows and the first axis, into parts of some places at least: rows, number of the part, places.

    The second result is memory for so many blocks at a time: fresh memory would cost more than the arithmetic.
    """
    length, *across, batch = packed.steps.shape[:-2]
    most, size = block_numbers(packed.rates.device), prod(across) * packed.rates[0].numel()
    rows = min(batch, max(1, most // (least * size)))
    places = min(length, max(least, most // (rows * size)))
    along = list(enumerate(slices(length, places)))
    blocks = [(these, block, place) for these in slices(batch, rows) for block, place in along]
    return blocks, packed.rates.new_empty(count, rows * places * size)


def walk(packed: Packed, least: int, start: Tensor | float = 0.0, y: Tensor | None = None) -> Tensor:
    """Fill in y (..., m, 1, D); the states before the blocks and behind the last, (blocks + 1, ..., m, N, D)."""
    blocks, buffers = cut(packed, least, 2)
    states = packed.rates.new_empty(blocks[-1][1] + 2, *packed.steps.shape[1:-3], *packed.rates.shape)
    states[0] = start
    for rows, block, places in blocks:
        here = packed.at(places, rows)
        decays, path = here.views(buffers)
        here.decays(out=decays)
        torch.mul(here.maps_in, here.inputs, out=path)
        for axis in here.later_axes:
            accumulate(decays.movedim(axis, 0), path.movedim(axis, 0))
        accumulate(decays, path, states[block, ..., rows, :, :])
        states[block + 1, ..., rows, :, :] = path[-1]
        if y is not None:
            y[places, ..., rows, :, :] = here.maps_out.mT @ path
    return states


def accumulate(decays: Tensor, path: Tensor, start: Tensor | None = None) -> None:
    """Run path[t] += decays[t] * path[t - 1] along the first axis, in place, from the state before the first."""
    if start is not None:
        path[0].addcmul_(decays[0], start)
    for (_, before), (decay, state) in pairwise(zip(decays.unbind(), path.unbind(), strict=True)):
        state.addcmul_(decay, before)


def accumulate_back(decays: Tensor, path: Tensor, carry: Tensor | None = None) -> None:
    """Run path[t] += decays[t + 1] * path[t + 1] along the first axis, in place.

    The carry comes from behind the last state, and receives what goes before the first.
    """
    if carry is not None:
        path[-1] += carry
    for (decay, after), (_, grad) in pairwise(zip(decays.unbind()[::-1], path.unbind()[::-1], strict=True)):
        grad.addcmul_(decay, after)
    if carry is not None:
        torch.mul(decays[0], path[0], out=carry)
