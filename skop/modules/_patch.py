"""Patch embedding and unembedding: from the points of a grid to tokens, and back."""

from collections.abc import Sequence
from itertools import chain
from math import lcm, prod

import torch
from torch import nn

from skop._typing import GridShape

__all__ = ["PatchEmbedding", "PatchUnembedding", "automatic_patch_size", "token_grid"]

#: Largest number of tokens for ``patch_size="auto"``.
_AUTOMATIC_TOKENS = 64


def token_grid(grid_shape: Sequence[int], patch_shape: Sequence[int], multiple: int = 1) -> GridShape:
    """Return the number of patches along each axis, after padding the grid to a multiple of the patch.

    Parameters
    ----------
    grid_shape, patch_shape : sequence of int
        Number of points along each axis of the grid and of a patch.
    multiple : int, default=1
        Divisor of the padded number of points along each axis that has at least that many points.

    Returns
    -------
    tuple of int
        Number of tokens along each axis.

    Examples
    --------
    >>> from skop.modules import token_grid
    >>> token_grid((85, 85), (2, 2))
    (43, 43)
    """
    counts = []
    for size, patch in zip(grid_shape, patch_shape, strict=True):
        unit = lcm(patch, multiple) if size >= multiple else patch
        counts.append(-(-size // unit) * (unit // patch))
    return tuple(counts)


def _check_init(init: str) -> None:
    """Raise an error unless the name of the distribution is known."""
    if init not in ("default", "normal"):
        raise ValueError(f"init is {init!r}; expected 'default' or 'normal'.")


def automatic_patch_size(patch_size: int | str, grid_shape: GridShape) -> int:
    """Return `patch_size`, or for ``"auto"`` the smallest size of at least 2 that gives at most 64 tokens.

    Parameters
    ----------
    patch_size : int or "auto"
        Number of points of a patch along each axis.
    grid_shape : tuple of int
        Number of points of the grid along each axis.

    Returns
    -------
    int
        Points of a patch along each axis.

    Examples
    --------
    >>> from skop.modules._patch import automatic_patch_size
    >>> automatic_patch_size("auto", (85, 85))
    11
    """
    if not isinstance(patch_size, str):
        # Products of NumPy's small integers overflow.
        return int(patch_size)
    size = 2
    while prod(token_grid(grid_shape, (size,) * len(grid_shape))) > _AUTOMATIC_TOKENS:
        size += 1
    return size


class PatchEmbedding(nn.Module):
    """Linear embedding of non-overlapping patches, then layer normalisation.

    The grid is padded with zeros up to the given number of tokens: by `offset` points at the start of each axis, none
    by default, and by all others at its end.

    Parameters
    ----------
    in_channels : int
        Number of input channels.
    width : int
        Size of a token.
    patch_shape : tuple of int
        Number of points of a patch along each axis (LaMO: (2, 2)).
    init : {"default", "normal"}, default="default"
        Initial distribution of weight and bias: PyTorch's default, or N(0, 1) as in LaMO's public code.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Remark 3.1.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import PatchEmbedding
    >>> PatchEmbedding(3, 8, (2, 2))(torch.zeros(1, 5, 4, 3), (3, 2)).shape
    torch.Size([1, 6, 8])
    """

    def __init__(self, in_channels: int, width: int, patch_shape: GridShape, *, init: str = "default") -> None:
        super().__init__()
        _check_init(init)
        self.patch_shape = tuple(patch_shape)
        self.linear = nn.Linear(in_channels * prod(patch_shape), width)
        self.norm = nn.LayerNorm(width)
        if init == "normal":
            nn.init.normal_(self.linear.weight)
            nn.init.normal_(self.linear.bias)

    def forward(self, grid: torch.Tensor, tokens: GridShape, offset: GridShape | None = None) -> torch.Tensor:
        """Embed fields ``(B, *grid, c)`` as a grid of tokens ``(B, prod(tokens), width)`` in C order."""
        sizes = grid.shape[1:-1]
        starts = offset or (0,) * len(sizes)
        padding = [
            (start, count * patch - size - start)
            for count, patch, size, start in zip(tokens, self.patch_shape, sizes, starts, strict=True)
        ]
        if any(map(any, padding)):
            # F.pad takes the axes from the last to the first: the first pair belongs to the channels and pads nothing.
            grid = nn.functional.pad(grid, [0, 0, *(side for sides in reversed(padding) for side in sides)])
        split = [size for count, patch in zip(tokens, self.patch_shape, strict=True) for size in (count, patch)]
        n_dims = len(sizes)
        blocks = grid.reshape(grid.shape[0], *split, grid.shape[-1])
        order = [0, *range(1, 2 * n_dims, 2), *range(2, 2 * n_dims + 1, 2), 2 * n_dims + 1]
        return self.norm(self.linear(blocks.permute(order).reshape(grid.shape[0], prod(tokens), -1)))


class PatchUnembedding(nn.Module):
    """Linear map from each token to the points of its patch; the patches are put back together into a grid.

    Points of padding are left out, `offset` of which precede the grid along each axis, see `PatchEmbedding`.

    Parameters
    ----------
    width : int
        Size of a token.
    out_channels : int
        Number of output channels.
    patch_shape : tuple of int
        Number of points of a patch along each axis.
    init : {"default", "normal"}, default="default"
        Initial distribution of weights and bias: PyTorch's default weights and a bias of zero, or N(0, 1) for both, as
        in LaMO's public code.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import PatchUnembedding
    >>> PatchUnembedding(8, 1, (2, 2))(torch.zeros(1, 6, 8), (3, 2), (5, 4)).shape
    torch.Size([1, 5, 4, 1])
    """

    def __init__(self, width: int, out_channels: int, patch_shape: GridShape, *, init: str = "default") -> None:
        super().__init__()
        _check_init(init)
        self.patch_shape, self.out_channels = tuple(patch_shape), out_channels
        self.norm = nn.LayerNorm(width)
        self.shift = nn.Parameter(torch.zeros(width))
        self.linear = nn.Linear(width, out_channels * prod(patch_shape), bias=False)
        if init == "normal":
            nn.init.normal_(self.shift)
            nn.init.normal_(self.linear.weight)

    def forward(
        self, tokens: torch.Tensor, counts: GridShape, grid_shape: GridShape, offset: GridShape | None = None
    ) -> torch.Tensor:
        """Expand tokens ``(B, prod(counts), width)`` to ``(B, *grid_shape, out_channels)``, without the padding."""
        n_dims = len(counts)
        blocks = self.linear(self.norm(tokens) + self.shift)
        blocks = blocks.reshape(tokens.shape[0], *counts, *self.patch_shape, self.out_channels)
        pairs = zip(range(1, n_dims + 1), range(n_dims + 1, 2 * n_dims + 1), strict=True)
        order = [0, *chain.from_iterable(pairs), 2 * n_dims + 1]
        full = [count * patch for count, patch in zip(counts, self.patch_shape, strict=True)]
        grid = blocks.permute(order).reshape(tokens.shape[0], *full, self.out_channels)
        starts = offset or (0,) * n_dims
        return grid[(slice(None), *[slice(at, at + size) for at, size in zip(starts, grid_shape, strict=True)])]
