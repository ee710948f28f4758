"""The one signature of token mixers, and their registry."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape

__all__ = ["MIXERS", "TokenMixer", "grid_of_tokens"]

#: Registered mixers by name; a class gets here by ``class MyMixer(TokenMixer, name="my_mixer")``.
MIXERS: dict[str, Callable[..., "TokenMixer"]] = {}


class TokenMixer(nn.Module):
    """Base of the modules that mix the tokens of a sample: along a grid, or as a sequence.

    A subclass is called ``Mixer(width, n_dims, **options)``, defines `mix`, and passes ``name=`` in its class
    statement to be found in `skop.modules.MIXERS`. `forward` takes packed sequences apart, so that `mix` always gets
    samples of one length.

    Notes
    -----
    Notation: B samples, L tokens of a sample, T tokens of all samples of a packed batch, E width.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import MIXERS
    >>> sorted(MIXERS)
    ['geometric_scan', 'grid_ssd', 'hydra', 'mamba2']
    >>> mixer = MIXERS["hydra"](16, 1, d_state=4)
    >>> mixer(torch.zeros(3, 12, 16)).shape
    torch.Size([3, 12, 16])
    >>> mixer(torch.zeros(1, 12, 16), sizes=(5, 7)).shape
    torch.Size([1, 12, 16])
    """

    def __init_subclass__(cls, *, name: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if name is not None:
            MIXERS[name] = cls

    def __init__(self) -> None:
        super().__init__()

    def mix(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Mix tokens ``(B, L, E)``, in C order on `grid`, or a sequence where it is None."""
        raise NotImplementedError(f"{type(self).__name__} has to define mix(tokens, grid).")

    def forward(
        self, tokens: torch.Tensor, grid: GridShape | None = None, sizes: tuple[int, ...] | None = None
    ) -> torch.Tensor:
        """Mix the tokens of every sample.

        Parameters
        ----------
        tokens : Tensor of shape (B, L, E), or (1, T, E) with `sizes`
            Tokens.
        grid : tuple of int or None, default=None
            Tokens along each axis of their grid, in C order; None for a sequence.
        sizes : tuple of int or None, default=None
            Lengths of the sequences of a packed batch, which follow each other.

        Returns
        -------
        Tensor of the shape of tokens
            Mixed tokens.
        """
        if sizes is None:
            return self.mix(tokens, grid)
        if grid is not None:
            raise ValueError(
                f"grid={grid} and sizes={sizes} were given; packed sequences have no grid, pass one of them."
            )
        return torch.cat([self.mix(own, None) for own in tokens.split(sizes, dim=1)], dim=1)


def grid_of_tokens(tokens: torch.Tensor, grid: GridShape | None, n_dims: int) -> GridShape:
    """Return the grid of tokens: one line of them where none is given.

    Parameters
    ----------
    tokens : Tensor of shape (B, L, E)
        Tokens.
    grid : tuple of int or None
        Tokens along each axis.
    n_dims : int
        Axes that the mixer was built for.

    Returns
    -------
    tuple of int
        Tokens along each axis.

    Raises
    ------
    ValueError
        If the grid has another number of axes, or of tokens.

    Examples
    --------
    >>> import torch
    >>> from skop.modules._mixer import grid_of_tokens
    >>> grid_of_tokens(torch.zeros(1, 6, 4), None, 1)
    (6,)
    """
    shape = tuple(tokens.shape[1:2]) if grid is None else tuple(grid)
    if len(shape) != n_dims or prod(shape) != tokens.shape[1]:
        raise ValueError(
            f"grid is {grid} for {tokens.shape[1]} tokens, but the mixer was built for n_dims={n_dims}; give the "
            "tokens along each of that many axes."
        )
    return shape
