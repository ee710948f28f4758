"""What estimators share: automatic patch sizes and frequencies, and conditions on centres in space and on grids."""

from math import prod

from skop._typing import GridShape
from skop.data import DataSpec
from skop.exceptions import FieldDataError
from skop.modules import token_grid

__all__ = ["AUTOMATIC_FREQUENCIES", "automatic_patch_size", "check_centres", "refuse_scattered_points"]

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


def refuse_scattered_points(spec: DataSpec, words: str) -> None:
    """Raise an error if the points of X form no grid, but the network needs one.

    Parameters
    ----------
    spec : DataSpec
        Sizes of the data.
    words : str
        Estimator and what it does with a grid, such as ``"UNetRegressor convolves"``.

    Raises
    ------
    FieldDataError
        If the points form no grid.

    Examples
    --------
    >>> from skop.data import DataSpec, TargetForm
    >>> from skop.estimators._tokens import refuse_scattered_points
    >>> spec = DataSpec("grid", "fields", TargetForm("array"), 2, 1, 0, 1, (4, 4))
    >>> refuse_scattered_points(spec, "UNetRegressor convolves")
    """
    if spec.geometry == "points":
        raise FieldDataError(
            f"{words} regular grids, but the {spec.n_dims}-D points of X form no grid; set grid='auto' or a shape such "
            "as grid=(64, 64) to resample them, use LaMORegressor, which takes point clouds and meshes, or sort the "
            "points of a grid by skop.data.find_grid(coords)[1]."
        )
