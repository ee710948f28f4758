"""TransolverRegressor: Transolver as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from skop._sklearn_compat import Interval
from skop.data import DataSpec, FieldSet
from skop.estimators.operators._base import OperatorRegressor
from skop.networks import OperatorNetwork, TransolverNetwork

__all__ = ["TransolverRegressor"]

#: Target number of points of a mini-batch on a grid. Most layers act on single points, so that small batches already
#: give gradients of low variance.
_BATCH_POINTS = 2**12


@dataclass(kw_only=True, eq=False, repr=False)
class TransolverRegressor(OperatorRegressor):
    """Transolver, attention among slices of the points, for fields on grids, meshes and point clouds.

    Each block assigns every point to slices by learned weights, lets the means of the slices attend to each other, and
    updates every point by the slices that it belongs to. On grids and structured meshes the weights are computed by
    convolutions over neighbouring points, on other points from each point alone; samples may then differ in their
    points. The network is that of the paper in a size for a laptop, and agrees with the public code under copied
    weights. Its initial weights are PyTorch's, with which it learns sooner than with the small ones of the public code.

    Parameters
    ----------
    width : int, default=32
        Size of a point's features (paper: 128, Navier-Stokes 256).
    depth : int, default=4
        Number of blocks (paper: 8).
    n_slices : int, default=32
        Number of slices of a sample (paper: 64, Navier-Stokes 32).
    n_heads : int, default=4
        Number of heads, each with weights of its own; a divisor of `width` (paper: 8).
    mlp_ratio : float, default=1.0
        Number of hidden units of the feed-forward networks, as a multiple of `width` (paper: 1, pipe 2).
    reference_size : int, default=0
        Number of points along each axis of a reference grid in the unit box, whose distances from a point are its input
        channels instead of the coordinates (paper: 8 for Darcy and Navier-Stokes). Needs ``scaling__coords="box"``. 0
        keeps the coordinates (paper: the other problems).
    dropout : float, default=0.0
        Dropout probability in the blocks, in [0, 1).
    subsample_points : int or None, default=None
        Number of points drawn at random from each sample in every training step, for points that form no grid; None
        uses all.

    See Also
    --------
    skop.LaMORegressor : The same exchange between points and latent tokens, with scans instead of attention.

    Notes
    -----
    Time and memory grow linearly with the number of points, and with the square of the number of slices. A prediction
    does not depend on the other samples of its batch. Global parameters are input channels of every point. A batch of
    automatic size holds about 4096 points on grids too.

    References
    ----------
    H. Wu, H. Luo, H. Wang, J. Wang and M. Long, "Transolver: A Fast Transformer Solver for PDEs on General Geometries",
    ICML 2024.

    Examples
    --------
    >>> from skop import TransolverRegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = TransolverRegressor(width=16, depth=1, max_iter=20, random_state=0).fit(X[:20], y[:20])
    >>> model.predict(X[20:]).shape
    (4, 16, 16, 1)
    """

    width: int = 32
    depth: int = 4
    n_slices: int = 32
    n_heads: int = 4
    mlp_ratio: float = 1.0
    reference_size: int = 0
    dropout: float = 0.0
    subsample_points: int | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OperatorRegressor._parameter_constraints,
        "width": [Interval(Integral, 1, 65536, closed="both")],
        "depth": [Interval(Integral, 1, 256, closed="both")],
        "n_slices": [Interval(Integral, 1, 16384, closed="both")],
        "n_heads": [Interval(Integral, 1, 4096, closed="both")],
        "mlp_ratio": [Interval(Real, 0, 1024, closed="right")],
        "reference_size": [Interval(Integral, 0, 1024, closed="both")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "subsample_points": [Interval(Integral, 1, None, closed="left"), None],
    }

    def _largest_batch(self, batch_size: int, inputs: FieldSet) -> int:
        """Return an automatic batch size on grids that is as small as on points."""
        if self.geometry_ != "grid":
            return batch_size
        return max(1, min(batch_size, _BATCH_POINTS // int(inputs.n_points.max())))

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the network for the data."""
        if self.reference_size and self._options("scaling").coords != "box":
            raise ValueError(
                f"reference_size={self.reference_size} needs coordinates that are scaled to the unit box, but "
                f"scaling__coords={self._options('scaling').coords!r}; set scaling__coords='box' or reference_size=0."
            )
        sizes = {name: getattr(spec, name) for name in ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")}
        return TransolverNetwork(
            structured=geometry != "points",
            width=self.width,
            depth=self.depth,
            n_slices=self.n_slices,
            n_heads=self.n_heads,
            mlp_ratio=self.mlp_ratio,
            reference_size=self.reference_size,
            dropout=self.dropout,
            **sizes,
        )
