"""DeepONetRegressor: DeepONet as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import ClassVar

import numpy as np

from skop._parameters import Whole, param
from skop._typing import FloatArray, IntArray
from skop.data import DataSpec, TrainingData
from skop.estimators.files._file_checks import Held, checks
from skop.estimators.operators._operator import OperatorRegressor
from skop.exceptions import FieldDataError, SkopWarning, warn
from skop.networks import DeepONetNetwork, OperatorNetwork
from skop.surrogate import Surrogate
from skop.surrogate._stages import Sensors
from skop.surrogate._symmetries import moves_points
from skop.training import TrainingPlan

__all__ = ["DeepONetRegressor"]


class DeepONetRegressor(OperatorRegressor):
    """DeepONet, for functions at fixed sensors, global parameters, or both, and fields at any point.

    A branch network maps the input fields at the sensors and the global parameters to coefficients; a trunk network
    maps coordinates to basis functions; the output field is the sum of their products. The sensors are the points of X
    in the fit, which all samples must share where there are input fields. Input fields on other points are interpolated
    to the sensors: by splines from a grid, linearly from scattered points. Without input fields samples may differ in
    their points. Outputs are computed at any points, those of X or others, without interpolation.

    Attributes
    ----------
    sensors_ : ndarray of shape (P, d) or None
        Points at which the input fields are read; None where there are no input fields.

    See Also
    --------
    skop.PODRegressor : Coefficients of modes that are computed from the data.
    skop.MNORegressor : Another operator that can be asked at any point.

    Notes
    -----
    The number of weights grows with the number of sensors, and inputs near each other have nothing in common for the
    branch network: fields on fine grids need many samples. `refinement` has no effect, since the trunk network is
    asked at the points of X themselves. Geometry alone is no input of the branch network; with ``grid=`` the distance
    from the points is one.

    References
    ----------
    L. Lu, P. Jin, G. Pang, Z. Zhang and G. E. Karniadakis, "Learning nonlinear operators via DeepONet based on the
    universal approximation theorem of operators", Nature Machine Intelligence 3, 2021.

    Examples
    --------
    The antiderivative of functions at 30 sensors, asked at other points:

    >>> import numpy as np
    >>> from skop import DeepONetRegressor, FieldSet
    >>> sensors, frequencies = np.linspace(0, 1, 30)[:, None], np.random.default_rng(0).uniform(1, 3, (40, 1, 1))
    >>> X = FieldSet(sensors, np.cos(frequencies * sensors))
    >>> y = FieldSet(sensors, np.sin(frequencies * sensors) / frequencies)
    >>> model = DeepONetRegressor(width=32, max_iter=50, random_state=0).fit(X, y)
    >>> model.predict(X, coords=np.array([[0.123], [0.456]])).values.shape
    (40, 2, 1)
    """

    width: int = param(
        Whole(1, 65536),
        default=128,
        text="Number of units of a hidden layer (paper: 40 and more).",
    )
    branch_depth: int = param(
        Whole(0, 256),
        default=3,
        text="Number of hidden layers of the branch network (paper: 1 to 2).",
    )
    trunk_depth: int = param(
        Whole(0, 256),
        default=3,
        text="Number of hidden layers of the trunk network (paper: 2 to 3).",
    )
    n_basis: int = param(
        Whole(1, 65536),
        default=64,
        text="Number of basis functions of each output channel.",
    )
    n_frequencies: int = param(
        Whole(0, 64),
        default=0,
        text=(
            "Number of frequencies pi, 2 pi, 4 pi, ... of the sines and cosines of the coordinates that are further "
            "inputs of the trunk network (paper: 0)."
        ),
    )

    _effective_on: ClassVar[dict[str, tuple[str, ...]]] = {}

    def _build_network(self, spec: DataSpec, geometry: str) -> OperatorNetwork:
        """Build the network for the data and the sensors."""
        keywords = self._keywords(spec, "width", "branch_depth", "trunk_depth", "n_basis", "n_frequencies")
        return DeepONetNetwork(n_sensors=0 if self.sensors_ is None else len(self.sensors_), **keywords)

    def _check_options(self, spec: DataSpec, geometry: str) -> None:
        """Warn about parameters that have no effect."""
        super()._check_options(spec, geometry)
        if self._changed(["refinement"]):
            warn(
                f"refinement={self.refinement!r} has no effect, since DeepONet gives outputs at any point.", SkopWarning
            )

    # ------------------------------------------------------------------ sensors
    def _check_samples(self, data: TrainingData) -> None:
        """Check that fields are on shared points that no symmetry moves, and store these as the sensors."""
        inputs = data.inputs
        if not inputs.n_channels and not inputs.n_params:
            raise FieldDataError(
                "DeepONetRegressor reads input fields and global parameters, but X has neither; set grid='auto' to "
                "read the distance from the points, or use LaMORegressor, which reads the points themselves."
            )
        if inputs.n_channels and not inputs.shared_coords:
            raise FieldDataError(
                "DeepONetRegressor reads input fields at sensors, the same points for all samples, but the samples of "
                "X differ in their points; set grid='auto' to resample point sets, or bring the fields to shared "
                "points by skop.data.interpolate_fields."
            )
        sensors = np.array(inputs.coords, dtype=np.float64) if inputs.n_channels else None
        if self._continues and not _are_same(sensors, self.sensors_):
            raise FieldDataError(
                "warm_start goes on with the sensors of the last fit, but X has its fields on other points; set "
                "warm_start=False to fit anew, or bring X to the points of the last fit."
            )
        geometry = self._choose_geometry(data.spec.network_spec)
        declared = self._symmetries
        if sensors is not None and declared is not None and moves_points(declared, data.spec, geometry, inputs):
            raise FieldDataError(
                "the symmetries move the points of X, but DeepONetRegressor reads input fields at sensors that do not "
                "move; set symmetries=None, or fit fields on a grid that the symmetries map onto itself."
            )
        self.sensors_: FloatArray | None = sensors

    def _why_no_base(
        self, data: TrainingData, used: IntArray, plan: TrainingPlan, groups: IntArray | None = None
    ) -> str:
        """Say why there is no base model: its predictions would be input fields on points that are no sensors."""
        return "DeepONetRegressor reads input fields at its sensors only"

    @property
    def surrogate_(self) -> Surrogate:
        """Fitted model without its estimator."""
        return replace(super().surrogate_, sensors=Sensors(self.sensors_, self.spec_.network_spec.grid_shape))


def _are_same(points: FloatArray | None, others: FloatArray | None) -> bool:
    """Whether two sets of points are equal, in the same order."""
    if points is None or others is None:
        return points is others
    return points.shape == others.shape and bool(np.array_equal(points, others))


# ---------------------------------------------------------------------- what a file must hold
@checks("DeepONetRegressor")
def _check_deeponet(held: Held) -> None:
    """Check the sensors from a file."""
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_").network_spec
    sensors = held.array("sensors_", None, spec.n_dims, optional=True)
    held.need((sensors is None) == (not spec.n_fields), "sensors_", "the points of the input fields")
    held.need(
        sensors is None or spec.grid_shape is None or prod(spec.grid_shape) == len(sensors),
        "sensors_",
        f"the points of the grid {spec.grid_shape}",
    )
