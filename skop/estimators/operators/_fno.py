"""FNORegressor: the Fourier neural operator of the library neuraloperator as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Real
from typing import Any

from skop._parameters import Whole, param
from skop._sklearn_compat import Interval
from skop.data import DataSpec, TrainingData
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.operators._operator import OperatorRegressor
from skop.estimators.operators._tokens import grid_geometry, refuse_scattered_points
from skop.networks import FNONetwork, OperatorNetwork

__all__ = ["FNORegressor"]


class FNORegressor(OperatorRegressor):
    """FNO, the Fourier neural operator, for fields on grids in 1 to 3 dimensions, and on points by resampling.

    Each layer multiplies the low frequencies of its channels by learned matrices and adds a linear map of each point.
    The network is that of the library neuraloperator, a package of its own; coordinates, fields and
    global parameters are its input channels. Outputs are fields, scalars of each sample, or both.

    See Also
    --------
    skop.LaMORegressor : For meshes and point clouds too.

    Notes
    -----
    Frequencies are defined on any grid, so that ``refinement="native"`` applies the network to other grids themselves.
    They are the same on grids of odd and of even size, where those of the library differ.
    Other options of the library have its default values.

    References
    ----------
    Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", ICLR 2021.

    J. Kossaifi et al., "A Library for Learning Neural Operators", 2024.

    Examples
    --------
    >>> from skop import FNORegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = FNORegressor(width=8, depth=2, max_iter=20, random_state=0)
    >>> model.fit(X[:20], y[:20]).predict(X[20:]).shape  # doctest: +SKIP
    (4, 16, 16, 1)
    """

    width: int = param(
        Whole(1, 65536),
        default=32,
        text="Number of channels of the Fourier layers (paper: 64 in 1-D, 32 in 2-D, 20 in 3-D).",
    )
    depth: int = param(
        Whole(1, 256),
        default=4,
        text="Number of Fourier layers (paper: 4).",
    )
    n_modes: int = param(
        Whole(1, 1024),
        default=16,
        text=(
            "Number of frequencies that are kept along each axis, both signs together (paper: 32 in 1-D, 24 in 2-D); "
            "grids with fewer points have fewer."
        ),
    )
    domain_padding: float = param(
        Interval(Real, 0, None, closed="left"),
        default=0.0,
        text="Share of the size of the grid by which it is extended with zeros, for fields that are not periodic.",
    )
    geometry: str = grid_geometry()

    #: Whether frequencies are moved as in the library, which the weights of an earlier version can need.
    library_shifts_ = False

    def _choose_geometry(self, spec: DataSpec) -> str:
        """Return ``"grid"`` or ``"structured"``; raise an error for points without a grid."""
        refuse_scattered_points(spec, "FNORegressor transforms")
        return super()._choose_geometry(spec)

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the network for the data."""
        keywords = self._keywords(spec, "width", "depth", "n_modes", "domain_padding")
        return FNONetwork(**keywords, library_shifts=self.library_shifts_)

    def _check_samples(self, data: TrainingData) -> None:
        """Note for the file that frequencies are not moved; a warm start goes on as it was."""
        if not self._continues:
            self.library_shifts_ = False

    @classmethod
    def _upgrade(cls, held: dict[str, Any]) -> None:
        """Fits of earlier versions on a grid of odd size were trained with moved frequencies."""
        super()._upgrade(held)
        if "spec_" in held and "library_shifts_" not in held:
            shape = held["spec_"].network_spec.grid_shape or ()
            # Nothing is moved along the last axis.
            held["library_shifts_"] = any(size % 2 for size in shape[:-1])


# ---------------------------------------------------------------------- what a file must hold
@checks("FNORegressor")
def _check_fno(held: Held) -> None:
    """Check how the network of a file reads frequencies."""
    held.flag("library_shifts_")
