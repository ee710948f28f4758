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

from skop.ops._checks import autocast_off

# Decays are powers of two: torch's exp2 takes a third of the time of its exp.
LOG2_E, LN_2 = log2(e), log(2)

# Numbers in a block: on a CPU few enough that a block stays in a cache between operations.
_BLOCK = {"cpu": 2**19}
_BLOCK_ELSEWHERE = 2**24


class Packed(NamedTuple):
    """What a scan reads, or the gradients of it; (...) are the axes that it walks along.

    Attributes
    ----------
    steps : Tensor of shape (..., m, 1, D)
        Step sizes.
    inputs : Tensor of shape (..., m, 1, D)
        Steps times inputs.
    rates : Tensor of shape (m, N, D)
        Decay rates of base 2.
    maps_in, maps_out : Tensor of shape (..., m, N, 1)
        Input and output maps.
    """

    steps: Tensor
    inputs: Tensor
    rates: Tensor
    maps_in: Tensor
    maps_out: Tensor

    def at(self, place: slice, rows: slice) -> "Packed":
        """Views on a block: a part of the first axis, and some rows.

        Parameters
        ----------
        place : slice
            Part of the first axis.
        rows : slice
            Part of the axis before the state.

        Returns
        -------
        Packed
            The part.
        """
        steps, inputs, maps_in, maps_out = (
            values[place, ..., rows, :, :] for values in (self.steps, self.inputs, self.maps_in, self.maps_out)
        )
        return Packed(steps, inputs, self.rates[rows], maps_in, maps_out)

    def decays(self, out: Tensor) -> None:
        """Write the decay of every state.

        Parameters
        ----------
        out : Tensor of shape (..., m, N, D)
            Receives them.
        """
        torch.mul(self.steps, self.rates, out=out).exp2_()

    def add_gradients(
        self, states: Tensor, grad_states: Tensor, grad_logs: Tensor, grad_y: Tensor, into: "Packed", spare: Tensor
    ) -> None:
        """Reduce the gradients of a block to those of what it reads.

        Parameters
        ----------
        states : Tensor of shape (..., m, N, D)
            States that y is read from.
        grad_states : Tensor of shape (..., m, N, D)
            Gradients of the inputs of the states.
        grad_logs : Tensor of shape (..., m, N, D)
            Gradients of the log-decays.
        grad_y : Tensor of shape (..., m, 1, D)
            Gradients of the outputs.
        into : Packed
            Receives the gradients; those of the rates are added.
        spare : Tensor of shape (..., m, N, D)
            Memory to work in.
        """
        # In this order, vector times matrix, the product takes a quarter of the time.
        into.maps_out.copy_((grad_y @ states.mT).mT)
        into.maps_in.copy_((self.inputs @ grad_states.mT).mT)
        into.inputs.copy_(self.maps_in.mT @ grad_states)
        into.steps.copy_(torch.mul(grad_logs, self.rates, out=spare).sum(-2, keepdim=True).mul_(LN_2))
        into.rates.add_(torch.mul(grad_logs, self.steps, out=spare).flatten(0, -4).sum(0))


def own_share(B: Tensor, C: Tensor, R: Tensor) -> Tensor:
    """Sum C R B over the states: what y has of dt x by the own token's share R.

    Parameters
    ----------
    B, C : Tensor of shape (..., K, N)
        Input and output maps.
    R : Tensor of shape (K, D, N)
        Share of the own token's input.

    Returns
    -------
    Tensor of shape (..., K, D)
        Weights of dt x.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._blocked import own_share
    >>> maps = torch.tensor([[[2.0, 3.0]]])
    >>> own_share(maps, maps, torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    tensor([[[4., 9.]]])
    """
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
    """Choose how many numbers one operation treats.

    Parameters
    ----------
    device : torch.device
        Where the scan runs.

    Returns
    -------
    int
        Numbers in a block.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._blocked import block_numbers
    >>> block_numbers(torch.device("cpu"))
    524288
    """
    return _BLOCK.get(device.type, _BLOCK_ELSEWHERE)


def slices(size: int, most: int) -> list[slice]:
    """Cut a range into parts of nearly even size.

    Parameters
    ----------
    size : int
        Length of the range.
    most : int
        Largest size of a part.

    Returns
    -------
    list of slice
        The parts, in order.

    Examples
    --------
    >>> from skop.ops._blocked import slices
    >>> slices(10, 4)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    count = -(-size // most)
    return [slice(size * i // count, size * (i + 1) // count) for i in range(count)]


def views(buffers: Tensor, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """Give reused memory the shape of a block: fresh memory would cost more than the arithmetic.

    Parameters
    ----------
    buffers : Tensor of shape (count, numbers)
        Memory.
    shape : tuple of int
        Shape of the block, of at most as many numbers.

    Yields
    ------
    Tensor
        A view on the start of each buffer.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._blocked import views
    >>> [view.shape for view in views(torch.empty(2, 10), (2, 4))]
    [torch.Size([2, 4]), torch.Size([2, 4])]
    """
    return (buffer[: prod(shape)].view(shape) for buffer in buffers)


def accumulate(decays: Tensor, path: Tensor, start: Tensor | None = None) -> None:
    """Run path[t] += decays[t] * path[t - 1] along the first axis, in place.

    Parameters
    ----------
    decays : Tensor of shape (length, ...)
        Decays of the states.
    path : Tensor of shape (length, ...)
        What enters the states; becomes the states.
    start : Tensor of shape (...), optional
        State before the first; zero by default.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._blocked import accumulate
    >>> path = torch.ones(3)
    >>> accumulate(torch.full((3,), 0.5), path, torch.tensor(2.0))
    >>> path
    tensor([2., 2., 2.])
    """
    if start is not None:
        path[0].addcmul_(decays[0], start)
    for (_, before), (decay, state) in pairwise(zip(decays.unbind(), path.unbind(), strict=True)):
        state.addcmul_(decay, before)


def accumulate_back(decays: Tensor, path: Tensor, carry: Tensor | None = None) -> None:
    """Run path[t] += decays[t + 1] * path[t + 1] along the first axis, in place.

    Parameters
    ----------
    decays : Tensor of shape (length, ...)
        Decays of the states.
    path : Tensor of shape (length, ...)
        Gradients of what is read from the states; becomes the gradients of the states.
    carry : Tensor of shape (...), optional
        What comes from behind the last state, and receives what goes before the first; none by default.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._blocked import accumulate_back
    >>> path, carry = torch.ones(3), torch.tensor(1.0)
    >>> accumulate_back(torch.full((3,), 0.5), path, carry)
    >>> path, carry
    (tensor([2., 2., 2.]), tensor(1.))
    """
    if carry is not None:
        path[-1] += carry
    for (decay, after), (_, grad) in pairwise(zip(decays.unbind()[::-1], path.unbind()[::-1], strict=True)):
        grad.addcmul_(decay, after)
    if carry is not None:
        torch.mul(decays[0], path[0], out=carry)
