"""Feature maps: how blocks offer the tokens after each of their layers, and poles, to whoever observes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from skop._typing import GridShape

__all__ = ["note_features", "observe_features"]

#: What an observer is called with: the kind of the layer, its tokens, and their grid.
Observer = Callable[[str, torch.Tensor, GridShape | None], None]

_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


def note_features(kind: str, tokens: torch.Tensor, grid: GridShape | None = None) -> torch.Tensor:
    """Offer the tokens after a layer to an observer, and return them unchanged.

    Networks call it on the tokens that enter their first block, and blocks after each residual branch. Mixers that
    choose poles for each sample call it on those. Without an observer it does nothing.

    Parameters
    ----------
    kind : {"input", "mixer", "mlp", "latent mixer", "latent mlp", "poles"}
        What the tokens come from: the part before the first block, an exchange of information between tokens, or a map
        of every token by itself; the same of latent tokens that are not mapped back to the points in each block; or
        that these are the poles of a mixer instead of tokens.
    tokens : Tensor of shape (B, L, E), or a packed batch of them
        Tokens; for ``"poles"`` a tensor of shape (B, S, K, 2), the real and imaginary parts of K poles in each of S
        sets.
    grid : tuple of int or None, default=None
        Number of tokens along each axis of their grid, in C order; None where the tokens are the points of the sample.

    Returns
    -------
    Tensor
        The tokens.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import note_features
    >>> note_features("mixer", torch.zeros(2, 6, 8), (3, 2)).shape
    torch.Size([2, 6, 8])
    """
    observer = _observer.get()
    if observer is not None:
        observer(kind, tokens, grid)
    return tokens


@contextmanager
def observe_features(observer: Callable[[str, torch.Tensor, GridShape | None], None]) -> Iterator[None]:
    """Call a function with the tokens after every layer of the networks that run within the block.

    Parameters
    ----------
    observer : callable
        Function of the arguments of `note_features`: the kind of the layer, its tokens, and their grid or None. It must
        not change the tokens.

    Yields
    ------
    None

    Examples
    --------
    >>> import torch
    >>> from skop.modules import PreNormBlock, HydraMixer, observe_features
    >>> block, kinds = PreNormBlock(HydraMixer(16, 2), 16, 32), []
    >>> with observe_features(lambda kind, tokens, grid: kinds.append((kind, grid))):
    ...     _ = block(torch.zeros(3, 6, 16), (3, 2))
    >>> kinds
    [('mixer', (3, 2)), ('mlp', (3, 2))]
    """
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)
