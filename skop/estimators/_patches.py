"""The patch size of estimators that make tokens of patches."""

from math import prod

from skop._typing import GridShape
from skop.modules import token_grid

__all__ = ["automatic_patch_size"]

#: Tokens up to which ``patch_size="auto"`` makes patches smaller.
_AUTOMATIC_TOKENS = 64


def automatic_patch_size(patch_size: int | str, grid_shape: GridShape) -> int:
    """Return the size asked for, or the smallest of at least two points that leaves few enough tokens.

    Parameters
    ----------
    patch_size : int or "auto"
        Points of a patch along each axis.
    grid_shape : tuple of int
        Points of the grid along each axis.

    Returns
    -------
    int
        Points of a patch along each axis.

    Examples
    --------
    >>> from skop.estimators._patches import automatic_patch_size
    >>> automatic_patch_size("auto", (85, 85))
    11
    """
    if not isinstance(patch_size, str):
        return patch_size
    size = 2
    while prod(token_grid(grid_shape, (size,) * len(grid_shape))) > _AUTOMATIC_TOKENS:
        size += 1
    return size
