"""GeoMaNORegressor: the geometric Mamba neural operator as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Real

from skop._parameters import Whole, param
from skop._sklearn_compat import Interval
from skop.data import DataSpec
from skop.estimators.operators._operator import OperatorRegressor
from skop.estimators.operators._tokens import grid_geometry, refuse_scattered_points
from skop.estimators.operators.presets import geomano
from skop.networks import GeoMaNONetwork, OperatorNetwork
from skop.parts import GeometricScan, Patches

__all__ = ["GeoMaNORegressor"]


class GeoMaNORegressor(OperatorRegressor):
    """GeoMaNO, the geometric Mamba neural operator, for fields on regular grids, and on points by resampling to a grid.

    Patches of the grid become tokens. Residual blocks mix the tokens by selective state-space scans in several
    directions, along the axes of the grid or along the flattened grid, with a correction for counting tokens several
    times. Every token is then expanded to the points of its patch. Grids have one to three axes of any length. Inputs
    can be fields, global parameters, the geometry alone, or all of them. Outputs are fields on the points of the input,
    scalars of each sample, or both. The default values are chosen for a few hundred samples on a laptop; `from_preset`
    gives the published configurations.

    See Also
    --------
    skop.LaMORegressor : For meshes and point clouds too.
    skop.load : Load a saved estimator.
    skop.metrics.neg_relative_l2_scorer : Scorer for searches.

    Notes
    -----
    Time and memory grow linearly with the number of points. A prediction does not depend on the other samples of its
    batch. On a curvilinear grid the scans follow the grid lines, and the coordinates are input channels.

    References
    ----------
    X. Han, J. Zhang, D. Samaras, F. Hou and H. Qin, "GeoMaNO: geometric Mamba neural operator for partial
    differential equations", 2025.

    Examples
    --------
    >>> from skop import GeoMaNORegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = GeoMaNORegressor(width=16, depth=1, max_iter=20, random_state=0).fit(X[:20], y[:20])
    >>> model.predict(X[20:]).shape
    (4, 16, 16, 1)
    """

    width: int = param(
        Whole(1, 65536), default=64, text="Size of a token (paper: 64 for Darcy, 256 for Navier-Stokes)."
    )
    depth: int = param(Whole(1, 256), default=2, text="Number of blocks (paper: 8).")
    mlp_ratio: float = param(
        Interval(Real, 0, 1024, closed="right"),
        default=2.0,
        text="Number of hidden units of the feed-forward networks, as a multiple of `width` (paper: not stated).",
    )
    dropout: float = param(
        Interval(Real, 0, 1, closed="left"), default=0.0, text="Dropout probability in the blocks, in [0, 1)."
    )
    patches: Patches | None = param(
        Patches,
        None,
        default=None,
        part=Patches,
        text="Patches of a grid, see `skop.parts.Patches`; None takes its defaults.",
    )
    mixer: GeometricScan | None = param(
        GeometricScan,
        None,
        default=None,
        part=GeometricScan,
        text="Scans over the patches, see `skop.parts.GeometricScan`; None takes its defaults.",
    )
    geometry: str = grid_geometry()

    _presets = geomano.PRESETS

    def _choose_geometry(self, spec: DataSpec) -> str:
        """Return ``"grid"`` or ``"structured"``; raise an error for points without a grid."""
        refuse_scattered_points(spec, "GeoMaNORegressor scans")
        return super()._choose_geometry(spec)

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn of parameters that have no effect on these data and this geometry, or with the other choices."""
        super()._check_options(spec, geometry)
        if self._options("patches").positional_encoding == "auto" and self._changed(("patches__n_frequencies",)):
            self._warn_of_idle("patches__n_frequencies", {"patches__positional_encoding": ("coordinates",)})

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the network for the data."""
        keywords = self._keywords(spec, "width", "depth", "mlp_ratio", "dropout", "patches", "mixer")
        return GeoMaNONetwork(grid_shape=spec.grid_shape or (), **keywords)
