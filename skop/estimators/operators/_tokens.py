"""What operators share: a parameter of grids, and conditions on centres in space and on grids."""

from typing import Any

from skop._parameters import Choice, param
from skop.data import DataSpec, ScalingOptions
from skop.exceptions import FieldDataError, SkopWarning, warn
from skop.parts import PointTokens

__all__ = [
    "check_centres",
    "geometry_of_tokens",
    "grid_geometry",
    "refuse_scattered_points",
    "warn_of_idle_latents",
]


def grid_geometry() -> Any:
    """Return the parameter `geometry` of an operator that reads grids only."""
    return param(
        Choice("auto", "grid", "structured"),
        default="auto",
        text=(
            'Arrangement of the points of a grid. ``"grid"``: rectilinear, where predictions on finer grids are '
            'possible by `refinement`. ``"structured"``: curvilinear. ``"auto"`` detects which of them it is.'
        ),
    )


def geometry_of_tokens(parts: str) -> Any:
    """Return the parameter `geometry` of an operator with patches, and with latent tokens, which have these parts."""
    return param(
        Choice("auto", "grid", "structured", "points"),
        default="auto",
        text=(
            'Arrangement of the points, and what becomes a token. ``"grid"``: a grid, and its patches. '
            '``"structured"``: a grid, and latent tokens (papers: curvilinear grids). ``"points"``: points in any '
            'order, and latent tokens. ``"auto"``: ``"grid"`` for all grids, but for curvilinear ones and such as '
            f'differ between samples ``"structured"`` if {parts} is given; ``"points"`` otherwise.'
        ),
    )


def check_centres(latents: PointTokens, scaling: ScalingOptions) -> None:
    """Raise an error if latent tokens have centres in the unit box, but coordinates are not scaled to it.

    Parameters
    ----------
    latents : PointTokens
        Latent tokens.
    scaling : ScalingOptions
        Scaling of the data.

    Raises
    ------
    ValueError
        If there are centres and coordinates are not scaled to the unit box.
    """
    if latents.n_centred_heads and scaling.coords != "box":
        raise ValueError(
            f"latents__n_centred_heads={latents.n_centred_heads} needs coordinates that are scaled to the unit box, "
            f"but scaling__coords={scaling.coords!r} does not do that; set scaling__coords='box' or "
            "latents__n_centred_heads=0."
        )


def warn_of_idle_latents(estimator: Any, spec: DataSpec, geometry: str) -> None:
    """Warn of parameters of latent tokens that have no effect on these data or with a single block.

    Parameters
    ----------
    estimator : OperatorRegressor
        Estimator with the parameters `latents`, `depth` and `base`.
    spec : DataSpec
        Sizes of the data.
    geometry : str
        Geometry as which the points are read.
    """
    if geometry == "grid":
        return
    latents = estimator._options("latents")
    # Scalars of a base become global parameters of the network.
    has_parameters = spec.n_params or (spec.n_scalars and estimator.base is not None)
    if latents.parameter_embedding != "channels" and not has_parameters:
        warn(
            f"latents__parameter_embedding={latents.parameter_embedding!r} has no effect without global parameters in "
            "X; leave it out.",
            SkopWarning,
        )
    # In LaMO, "trunc_normal" does not change shared projections, so that with it a single block knows the difference.
    if estimator.depth == 1 and latents.weight_init == "default" and not getattr(latents, "shared", True):
        warn("latents__shared=False has no effect with depth=1; it acts with several blocks.", SkopWarning)


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
            "points of a grid by numpy.lexsort(coords.T[::-1])."
        )
