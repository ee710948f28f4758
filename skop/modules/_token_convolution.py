"""Depthwise convolution of tokens over their grid, the first step of several mixers."""

from math import prod
from typing import Any

import torch

from skop._typing import GridShape
from skop.modules._grid_convolution import GridConvolution, grid_convolution

__all__ = ["convolve_tokens", "token_convolution"]


def token_convolution(n_dims: int, channels: int, kernel_size: int) -> GridConvolution | None:
    """Build a depthwise convolution that keeps the size of a grid.

    Parameters
    ----------
    n_dims : int
        Number of grid axes, 1 to 3.
    channels : int
        Number of channels, each of which is convolved separately.
    kernel_size : int
        Size of the convolution along each axis, odd.

    Returns
    -------
    GridConvolution or None
        The convolution, or None for ``kernel_size=1``.

    Raises
    ------
    ValueError
        If `kernel_size` is even, or `n_dims` is not 1, 2 or 3.

    Examples
    --------
    >>> from skop.modules._token_convolution import token_convolution
    >>> token_convolution(2, 4, 3).weight.shape
    torch.Size([4, 1, 3, 3])
    """
    return None if kernel_size == 1 else grid_convolution(n_dims, channels, channels, kernel_size, groups=channels)


def convolve_tokens(convolution: GridConvolution | None, tokens: torch.Tensor, grid: GridShape) -> torch.Tensor:
    """Convolve tokens over their grid.

    Parameters
    ----------
    convolution : GridConvolution or None
        Result of `token_convolution`.
    tokens : Tensor of shape (batch, prod(grid), channels)
        Tokens in C order.
    grid : tuple of int
        Number of tokens along each axis.

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
    if prod(grid) == 1 and not convolution.periodic:
        # A single token, as in tables, is multiplied by the middle of the kernel only, which is much faster than
        # calling torch's convolution on it.
        weight: Any = convolution.weight
        middle = weight[(slice(None), 0, *(size // 2 for size in weight.shape[2:]))]
        return torch.addcmul(convolution.bias, tokens, middle)
    image = tokens.transpose(1, 2).reshape(tokens.shape[0], -1, *grid)
    return convolution(image).flatten(2).transpose(1, 2)
