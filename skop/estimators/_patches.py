"""The automatic choice of the patch size."""

from math import prod

from skop._typing import GridShape
from skop.modules import token_grid

__all__ = ["automatic_patch_size"]

#: Largest number of tokens for ``patch_size="auto"``.
_AUTOMATIC_TOKENS = 64


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
