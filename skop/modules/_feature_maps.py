"""Hooks for recording intermediate tokens and poles."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from skop._typing import GridShape

__all__ = ["note_features", "observe_features"]

#: Function of the kind of a layer, its tokens, and their grid.
Observer = Callable[[str, torch.Tensor, GridShape | None], None]

_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


def note_features(kind: str, tokens: torch.Tensor, grid: GridShape | None = None) -> torch.Tensor:
    """Pass the tokens after a layer to the observer, and return them unchanged.

    Networks call it on the tokens that enter their first block, and blocks after each residual branch. Mixers that
    choose poles for each sample call it on the poles. Without an observer it does nothing.

    Parameters
    ----------
    kind : {"input", "mixer", "mlp", "latent mixer", "latent mlp", "poles"}
        Source of the tokens. ``"input"``: the part before the first block. ``"mixer"``: an exchange of information
        between tokens. ``"mlp"``: a map of every token by itself. ``"latent mixer"``, ``"latent mlp"``: the same for
        latent tokens that a block does not map back to the points. ``"poles"``: poles of a mixer instead of tokens.
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
