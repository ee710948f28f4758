"""TransolverRegressor: Transolver as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Real

from skop._parameters import Whole, param
from skop._sklearn_compat import Interval
from skop.data import DataSpec, FieldSet
from skop.estimators.operators._operator import OperatorRegressor
from skop.networks import OperatorNetwork, TransolverNetwork

__all__ = ["TransolverRegressor"]

#: Target number of points of a mini-batch on a grid. Most layers act on single points, so that small batches already
#: give gradients of low variance.
_BATCH_POINTS = 2**12


class TransolverRegressor(OperatorRegressor):
    """Transolver, attention among slices of the points, for fields on grids, meshes and point clouds.

    Each block assigns every point to slices by learned weights, lets the means of the slices attend to each other, and
    updates every point by the slices that it belongs to. On grids and structured meshes the weights are computed by
    convolutions over neighbouring points, on other points from each point alone; samples may then differ in their
    points. The network is that of the paper in a size for a laptop, and agrees with the public code under copied
    weights. Its initial weights are PyTorch's, with which it learns sooner than with the small ones of the public code.

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

    width: int = param(
        Whole(1, 65536),
        default=32,
        text="Size of a point's features (paper: 128, Navier-Stokes 256).",
    )
    depth: int = param(
        Whole(1, 256),
        default=4,
        text="Number of blocks (paper: 8).",
    )
    n_slices: int = param(
        Whole(1, 16384),
        default=32,
        text="Number of slices of a sample (paper: 64, Navier-Stokes 32).",
    )
    n_heads: int = param(
        Whole(1, 4096),
        default=4,
        text="Number of heads, each with weights of its own; a divisor of `width` (paper: 8).",
    )
    mlp_ratio: float = param(
        Interval(Real, 0, 1024, closed="right"),
        default=1.0,
        text="Number of hidden units of the feed-forward networks, as a multiple of `width` (paper: 1, pipe 2).",
    )
    reference_size: int = param(
        Whole(0, 1024),
        default=0,
        text=(
            "Number of points along each axis of a reference grid in the unit box, whose distances from a point are "
            "its input channels instead of the coordinates (paper: 8 for Darcy and Navier-Stokes). Needs "
            '``scaling__coords="box"``. 0 keeps the coordinates (paper: the other problems).'
        ),
    )
    dropout: float = param(
        Interval(Real, 0, 1, closed="left"),
        default=0.0,
        text="Dropout probability in the blocks, in [0, 1).",
    )

    _draws_points = True

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
        names = ("width", "depth", "n_slices", "n_heads", "mlp_ratio", "reference_size", "dropout")
        return TransolverNetwork(structured=geometry != "points", **self._keywords(spec, *names))
