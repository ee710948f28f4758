"""What operators share: automatic frequencies, and conditions on centres in space and on grids."""

from skop.data import DataSpec
from skop.exceptions import FieldDataError

__all__ = ["AUTOMATIC_FREQUENCIES", "check_centres", "refuse_scattered_points"]

#: Number of frequencies in the sines and cosines of the coordinates for ``n_frequencies="auto"``, by geometry.
AUTOMATIC_FREQUENCIES = {"grid": 1, "structured": 4, "points": 4}


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
    >>> from skop.estimators.operators._tokens import check_centres
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
    >>> from skop.estimators.operators._tokens import refuse_scattered_points
    >>> spec = DataSpec("grid", "fields", TargetForm("array"), 2, 1, 0, 1, (4, 4))
    >>> refuse_scattered_points(spec, "UNetRegressor convolves")
    """
    if spec.geometry == "points":
        raise FieldDataError(
            f"{words} regular grids, but the {spec.n_dims}-D points of X form no grid; set grid='auto' or a shape such "
            "as grid=(64, 64) to resample them, use LaMORegressor, which takes point clouds and meshes, or sort the "
            "points of a grid by skop.data.find_grid(coords)[1]."
        )
