"""Hooks for recording intermediate tokens, poles, and matrices by which tokens are mixed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from skop._typing import GridShape

__all__ = ["note_features", "note_mixing", "observe_features"]

#: Function of the kind of a layer, its tokens, and their grid.
Observer = Callable[[str, torch.Tensor, GridShape | None], None]

#: The observer, and whether it wants matrices.
_observer: ContextVar[tuple[Observer, bool] | None] = ContextVar("observer", default=None)


def note_features(kind: str, tokens: torch.Tensor, grid: GridShape | None = None) -> torch.Tensor:
    """Pass the tokens after a layer to the observer, and return them unchanged.

    Networks call it on the tokens that enter their first block, and blocks after each residual branch. Mixers that
    choose poles for each sample call it on the poles. Without an observer it does nothing.

    Parameters
    ----------
    kind : {"input", "mixer", "mlp", "latent mixer", "latent mlp", "mixed", "poles"}
        Source of the tokens. ``"input"``: the part before the first block. ``"mixer"``: an exchange of information
        between tokens. ``"mlp"``: a map of every token by itself. ``"latent mixer"``, ``"latent mlp"``: the same for
        latent tokens that a block does not map back to the points. ``"mixed"``: what a mixer returns, points, patches
        or latent tokens. ``"poles"``: poles of a mixer instead of tokens.
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
    observed = _observer.get()
    if observed is not None:
        observed[0](kind, tokens, grid)
    return tokens


def note_mixing(mix: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor, axis: int = 1) -> torch.Tensor:
    """Mix the values of tokens by a map that is affine in them; an observer of matrices gets that of this map.

    A mixer calls it on what exchanges information between its tokens for the maps that it has chosen: a scan with its
    steps and maps, or attention with its queries and keys. The observer gets, as a layer of kind ``"matrix"``, the mean
    absolute weight ``(B, T, S)`` with which each of T tokens takes up the value of each of S, over channels and heads.
    Of a map that mixes channels too, the weight of a channel is the sum over those that it takes up.

    Parameters
    ----------
    mix : callable
        Map of values to what the T tokens take up, with their tokens on `axis`, and further axes of any kind.
    values : Tensor of shape (B, S, ...), or with the S tokens on another axis
        Values of the tokens that are read.
    axis : int, default=1
        Axis of the tokens.

    Returns
    -------
    Tensor
        ``mix(values)``.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import note_mixing, observe_features
    >>> weights, found = torch.tensor([[1.0, 0.0], [-0.5, 0.5]]), []
    >>> with observe_features(lambda kind, matrix, grid: found.append(matrix), matrices=True):
    ...     _ = note_mixing(lambda values: weights @ values + 1, torch.rand(1, 2, 8))
    >>> found[0].tolist()
    [[[1.0, 0.0], [0.5, 0.5]]]
    """
    # A graph that is compiled has no observer, whose look-up would break it apart.
    observed = None if torch.compiler.is_compiling() else _observer.get()
    if observed is not None and observed[1]:
        observed[0]("matrix", _matrix_of(mix, values, axis), None)
    return mix(values)


def _matrix_of(mix: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor, axis: int) -> torch.Tensor:
    """Mean absolute weights (B, T, S) of a map that is affine in values: what it makes of one in place of each."""
    zeros = torch.zeros_like(values)
    rest, columns = mix(zeros), []
    for number in range(values.shape[axis]):
        unit = zeros.clone()
        unit.select(axis, number).fill_(1.0)
        columns.append((mix(unit) - rest).abs().movedim(axis, 1).flatten(2).mean(dim=2))
    return torch.stack(columns, dim=2)


@contextmanager
def observe_features(
    observer: Callable[[str, torch.Tensor, GridShape | None], None], *, matrices: bool = False
) -> Iterator[None]:
    """Call a function with the tokens after every layer of the networks that run within the block.

    Parameters
    ----------
    observer : callable
        Function of the arguments of `note_features`: the kind of the layer, its tokens, and their grid or None. It must
        not change the tokens.
    matrices : bool, default=False
        Whether mixers compute the matrices by which they mix, see `note_mixing`. They mix as often as they have tokens
        for it.

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
    [('mixed', (3, 2)), ('mixer', (3, 2)), ('mlp', (3, 2))]
    """
    token = _observer.set((observer, matrices))
    try:
        yield
    finally:
        _observer.reset(token)
