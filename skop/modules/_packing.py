"""Samples of different sizes in one call: rows that are as long as the longest sample, filled up with zeros.

Notation: B samples, L tokens of the longest, T tokens of all samples.
"""

from functools import lru_cache
from typing import Any

import torch

__all__ = ["Padding", "group_by_size", "padding_of"]

#: Filled-up tokens of a group at most, which cost about as much as another call of a mixer.
_CALL = 512
#: Tokens of a sample above which the time of a call is small beside that of filling rows.
_LONG = 512


class Padding:
    """Places of the tokens of packed samples in rows that are filled up.

    Parameters
    ----------
    sizes : tuple of int
        Tokens of each sample, at least 1.
    device : torch.device
        Device of the tokens.

    Attributes
    ----------
    counts : int64 Tensor of shape (B,)
        Tokens of each sample.
    is_token : bool Tensor of shape (B, L)
        Whether a place holds a token.

    Examples
    --------
    >>> import torch
    >>> from skop.modules._packing import Padding
    >>> padding = Padding((1, 2), torch.device("cpu"))
    >>> padding.fill(torch.tensor([[[1.0], [2.0], [3.0]]])).squeeze(-1)
    tensor([[1., 0.],
            [2., 3.]])
    >>> padding.take(torch.tensor([[[1.0], [9.0]], [[2.0], [3.0]]])).flatten()
    tensor([1., 2., 3.])
    """

    def __init__(self, sizes: tuple[int, ...], device: torch.device) -> None:
        self.shape = len(sizes), max(sizes)
        self.is_even = min(sizes) == self.shape[1]
        self.counts = torch.tensor(sizes)
        self.is_token = torch.arange(self.shape[1]) < self.counts[:, None]
        self._places = self.is_token.flatten().nonzero().squeeze(1).to(device)
        self.counts, self.is_token = self.counts.to(device), self.is_token.to(device)

    def fill(self, packed: torch.Tensor) -> torch.Tensor:
        """Bring packed samples (1, T, ...) into rows (B, L, ...), with zeros behind the shorter ones."""
        if self.is_even:
            return packed.unflatten(1, self.shape).squeeze(0)
        return _Fill.apply(packed, self._places, self.shape)

    def take(self, rows: torch.Tensor) -> torch.Tensor:
        """Bring rows (B, L, ...) back to packed samples (1, T, ...), without what stands behind the shorter ones."""
        if self.is_even:
            return rows.flatten(0, 1).unsqueeze(0)
        return _Take.apply(rows, self._places)


@lru_cache(maxsize=64)
def padding_of(sizes: tuple[int, ...], device: torch.device) -> Padding:
    """Return the padding of samples; it is kept, because all mixers of a network need the same.

    Parameters
    ----------
    sizes : tuple of int
        Tokens of each sample, at least 1.
    device : torch.device
        Device of the tokens.

    Returns
    -------
    Padding
        Places of the tokens.
    """
    with torch.inference_mode(False):  # what a first call under inference mode makes would bar gradients for ever
        return Padding(sizes, device)


@lru_cache(maxsize=64)
def group_by_size(
    sizes: tuple[int, ...], most_filling: int = _CALL, most_tokens: int | None = _LONG
) -> tuple[tuple[int, ...], ...]:
    """Split samples into groups of similar sizes, of which each is worth a call of its own.

    From the longest sample down, a group ends where its samples would need more filling than another call costs. Large
    samples stay alone.

    Parameters
    ----------
    sizes : tuple of int
        Tokens of each sample.
    most_filling : int, default=512
        Filled-up tokens of a group at most.
    most_tokens : int or None, default=512
        Tokens of a sample above which it stays alone; None lets large samples share calls too.

    Returns
    -------
    tuple of tuple of int
        Numbers of the samples of each group, in ascending order.

    Examples
    --------
    >>> from skop.modules._packing import group_by_size
    >>> group_by_size((100, 2_000, 150))
    ((1,), (0, 2))
    """
    groups: list[list[int]] = []
    filling = longest = 0
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        filling += longest - sizes[number]
        if not groups or filling > most_filling or (most_tokens is not None and longest > most_tokens):
            groups.append([])
            filling, longest = 0, sizes[number]
        groups[-1].append(number)
    return tuple(tuple(sorted(group)) for group in groups)


class _Fill(torch.autograd.Function):
    """Put tokens (1, T, ...) at their places in rows (B, L, ...) of zeros."""

    @staticmethod
    def forward(ctx: Any, packed: torch.Tensor, places: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        """Copy the tokens."""
        ctx.save_for_backward(places)
        rows = packed.new_zeros(shape[0] * shape[1], *packed.shape[2:])
        return rows.index_copy_(0, places, packed[0]).unflatten(0, shape)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Take the gradients of the tokens."""
        return _Take.apply(grad, *ctx.saved_tensors), None, None


class _Take(torch.autograd.Function):
    """Take the tokens (1, T, ...) from their places in rows (B, L, ...)."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Copy the tokens."""
        ctx.save_for_backward(places)
        ctx.shape = rows.shape[:2]
        return rows.flatten(0, 1).index_select(0, places).unsqueeze(0)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Put the gradients at the places of the tokens."""
        return _Fill.apply(grad, *ctx.saved_tensors, ctx.shape), None
