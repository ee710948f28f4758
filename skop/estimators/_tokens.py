"""What estimators share about tokens: automatic patch sizes and frequencies, and the condition on centres in space."""

from math import prod

from skop._typing import GridShape
from skop.modules import token_grid

__all__ = ["AUTOMATIC_FREQUENCIES", "automatic_patch_size", "check_centres"]

#: Number of frequencies in the sines and cosines of the coordinates for ``n_frequencies="auto"``, by geometry.
AUTOMATIC_FREQUENCIES = {"grid": 1, "structured": 4, "points": 4}

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
    >>> from skop.estimators._tokens import automatic_patch_size
    >>> automatic_patch_size("auto", (85, 85))
    11
    """
    if not isinstance(patch_size, str):
        return patch_size
    size = 2
    while prod(token_grid(grid_shape, (size,) * len(grid_shape))) > _AUTOMATIC_TOKENS:
        size += 1
    return size


def check_centres(n_centred_heads: int, coords: str | None) -> None:
    """Raise an error if latent tokens have centres in the unit box, but coordinates are not scaled to it.

    Parameters
    ----------
    n_centred_heads : int
        Number of heads whose latent tokens have centres.
    coords : str or None
        Scaling of the coordinates, see `skop.data.ScalingOptions`.

    Raises
    ------
    ValueError
        If there are centres and `coords` is not ``"box"``.

    Examples
    --------
    >>> from skop.estimators._tokens import check_centres
    >>> check_centres(0, None)
    """
    if n_centred_heads and coords != "box":
        raise ValueError(
            f"architecture__n_centred_heads={n_centred_heads} needs coordinates that are scaled to the unit box, but "
            f"scaling__coords={coords!r} does not do that; set scaling__coords='box' or "
            "architecture__n_centred_heads=0."
        )
