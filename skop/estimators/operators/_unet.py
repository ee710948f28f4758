"""UNetRegressor: U-Net as a scikit-learn estimator."""

from __future__ import annotations

from skop._parameters import Whole, param
from skop.data import DataSpec
from skop.estimators.operators._operator import OperatorRegressor
from skop.estimators.operators._tokens import grid_geometry, refuse_scattered_points
from skop.networks import OperatorNetwork, UNetNetwork

__all__ = ["UNetRegressor"]


class UNetRegressor(OperatorRegressor):
    """U-Net, for fields on grids in 1 to 3 dimensions, and on points by resampling to a grid.

    Residual blocks of convolutions work on the grid, on grids of half its size, and so on, and back; blocks on grids of
    the same size are connected. Coordinates, fields and global parameters are input channels. Grids may be of any size:
    they are padded by their last points. Outputs are fields, scalars of each sample, or both.

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

    width: int = param(
        Whole(1, 65536),
        default=16,
        text="Number of channels on the finest grid; each coarser grid has twice as many (PDEBench: 32, PDEArena: 64).",
    )
    depth: int = param(
        Whole(0, 16),
        default=3,
        text="Number of times that the grid is halved (original, PDEBench: 4).",
    )
    n_groups: int = param(
        Whole(1, 16384),
        default=1,
        text=(
            "Number of groups of channels that are normalised together (PDEArena: 1). Where it is no divisor of a "
            "number of channels, the largest common divisor is used."
        ),
    )
    kernel_size: int = param(
        Whole(1, 1025),
        default=3,
        text="Size of the convolutions along each axis, odd.",
    )
    geometry: str = grid_geometry()

    def _choose_geometry(self, spec: DataSpec) -> str:
        """Return ``"grid"`` or ``"structured"``; raise an error for points without a grid."""
        refuse_scattered_points(spec, "UNetRegressor convolves")
        return super()._choose_geometry(spec)

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the network for the data."""
        return UNetNetwork(**self._keywords(spec, "width", "depth", "n_groups", "kernel_size"))
