"""UNetRegressor: U-Net as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

from skop._sklearn_compat import Interval, StrOptions
from skop.data import DataSpec
from skop.estimators.operators._base import OperatorRegressor
from skop.estimators.operators._tokens import refuse_scattered_points
from skop.networks import OperatorNetwork, UNetNetwork

__all__ = ["UNetRegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class UNetRegressor(OperatorRegressor):
    """U-Net, for fields on grids in 1 to 3 dimensions, and on points by resampling to a grid.

    Residual blocks of convolutions work on the grid, on grids of half its size, and so on, and back; blocks on grids of
    the same size are connected. Coordinates, fields and global parameters are input channels. Grids may be of any size:
    they are padded by their last points. Outputs are fields, scalars of each sample, or both.

    Parameters
    ----------
    geometry : {"auto", "grid", "structured"}, default="auto"
        Arrangement of the points of a grid. ``"grid"``: rectilinear, where predictions on finer grids are possible by
        `refinement`. ``"structured"``: curvilinear. ``"auto"`` detects which of them it is.
    width : int, default=16
        Number of channels on the finest grid; each coarser grid has twice as many (PDEBench: 32, PDEArena: 64).
    depth : int, default=3
        Number of times that the grid is halved (original, PDEBench: 4).
    n_groups : int, default=1
        Number of groups of channels that are normalised together (PDEArena: 1). Where it is no divisor of a number of
        channels, the largest common divisor is used.
    kernel_size : int, default=3
        Size of the convolutions along each axis, odd.

    See Also
    --------
    skop.LaMORegressor : For meshes and point clouds too.

    Notes
    -----
    Convolutions have a reach in cells, so that predictions on other grids need `refinement`. Each sample is normalised
    by itself, and a prediction does not depend on the other samples of its batch.

    References
    ----------
    O. Ronneberger, P. Fischer and T. Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation", MICCAI
    2015.

    J. K. Gupta and J. Brandstetter, "Towards Multi-spatiotemporal-scale Generalized PDE Modeling", TMLR 2023, for
    residual blocks and group normalisation.

    Examples
    --------
    >>> from skop import UNetRegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = UNetRegressor(width=8, depth=2, max_iter=20, random_state=0).fit(X[:20], y[:20])
    >>> model.predict(X[20:]).shape
    (4, 16, 16, 1)
    """

    width: int = 16
    depth: int = 3
    n_groups: int = 1
    kernel_size: int = 3

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OperatorRegressor._parameter_constraints,
        "geometry": [StrOptions({"auto", "grid", "structured"})],
        "width": [Interval(Integral, 1, 65536, closed="both")],
        "depth": [Interval(Integral, 0, 16, closed="both")],
        "n_groups": [Interval(Integral, 1, 16384, closed="both")],
        "kernel_size": [Interval(Integral, 1, 1025, closed="both")],
    }

    def _choose_geometry(self, spec: DataSpec) -> str:
        """Return ``"grid"`` or ``"structured"``; raise an error for points without a grid."""
        refuse_scattered_points(spec, "UNetRegressor convolves")
        return super()._choose_geometry(spec)

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the network for the data."""
        sizes = {name: getattr(spec, name) for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
        sizes |= {name: getattr(self, name) for name in ("width", "depth", "n_groups", "kernel_size")}
        return UNetNetwork(**sizes)
