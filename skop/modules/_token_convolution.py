"""Depthwise convolution of tokens over their grid, which several mixers begin with."""

from math import prod
from typing import Any

import torch
from torch import nn

from skop._typing import GridShape

__all__ = ["convolve_tokens", "token_convolution"]

_CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def token_convolution(n_dims: int, channels: int, kernel_size: int) -> nn.Module | None:
    """Return a depthwise convolution that keeps the size of a grid.

    Parameters
    ----------
    n_dims : int
        Axes of the grid, 1 to 3.
    channels : int
        Channels, each convolved by itself.
    kernel_size : int
        Points along each axis; 1 needs no convolution.

    Returns
    -------
    Module or None
        The convolution; None for one point.

    Raises
    ------
    ValueError
        If `kernel_size` is even, or there are other than 1 to 3 axes.

    Examples
    --------
    >>> from skop.modules._token_convolution import token_convolution
    >>> token_convolution(2, 4, 3).weight.shape
    torch.Size([4, 1, 3, 3])
    """
    if kernel_size % 2 == 0:
        raise ValueError(f"kernel_size={kernel_size} is even and would shift the tokens; use an odd one.")
    if n_dims not in _CONVOLUTIONS:
        raise ValueError(f"n_dims={n_dims}; expected 1, 2 or 3 axes of the grid.")
    if kernel_size == 1:
        return None
    return _CONVOLUTIONS[n_dims](channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)


def convolve_tokens(convolution: nn.Module | None, tokens: torch.Tensor, grid: GridShape) -> torch.Tensor:
    """Convolve tokens over their grid, zeros outside.

    Parameters
    ----------
    convolution : Module or None
        As `token_convolution` returns it.
    tokens : Tensor of shape (batch, prod(grid), channels)
        Tokens in C order.
    grid : tuple of int
        Tokens along each axis.

    Returns
    -------
    Tensor of shape (batch, prod(grid), channels)
        Tokens.

    Examples
    --------
    >>> import torch
    >>> from skop.modules._token_convolution import convolve_tokens, token_convolution
    >>> convolve_tokens(token_convolution(2, 4, 3), torch.zeros(1, 6, 4), (3, 2)).shape
    torch.Size([1, 6, 4])
    """
    if convolution is None:
        return tokens
    if prod(grid) == 1:
        # A lone token, as tables have, meets the middle of the kernel only; torch takes far longer to find out.
        weight: Any = convolution.weight
        middle = weight[(slice(None), 0, *(size // 2 for size in weight.shape[2:]))]
        return torch.addcmul(convolution.bias, tokens, middle)  # type: ignore[arg-type]
    image = tokens.transpose(1, 2).reshape(len(tokens), -1, *grid)
    return convolution(image).flatten(2).transpose(1, 2)
