"""What a fit will cost, and what would make it cheaper."""

from __future__ import annotations

from typing import Any

from skop.data import FieldSet
from skop.estimators._tokens import automatic_patch_size

__all__ = ["cheaper_settings"]

#: Number of points of a sample below which fewer points in a step save little.
_FEW_POINTS = 100


def cheaper_settings(estimator: Any, inputs: FieldSet) -> dict[str, Any]:
    """Return parameters with other values, each of which makes a training step cheaper on its own.

    Parameters
    ----------
    estimator : OperatorRegressor
        Estimator whose data are read and whose network is built.
    inputs : FieldSet
        Training samples as the network sees them.

    Returns
    -------
    dict of str to int
        A quarter of the points in a step, for networks on points; twice the size of the patches, for networks on
        patches of a grid.
    """
    scaling, grid_shape = estimator._options("scaling"), estimator.spec_.network_spec.grid_shape
    parameters = estimator.get_params(deep=False)
    if "subsample_points" in parameters and estimator.geometry_ == "points":
        n_points = float(min(inputs.n_points.mean(), estimator.subsample_points or float("inf")))
        possible = estimator.spec_.target_points == "inputs" and "point" not in (scaling.inputs, scaling.targets)
        return {"subsample_points": _rounded(n_points / 4)} if possible and n_points >= _FEW_POINTS else {}
    if "patch_size" in parameters and estimator.geometry_ == "grid" and grid_shape is not None:
        larger = 2 * automatic_patch_size(estimator.patch_size, grid_shape)
        return {"patch_size": larger} if 2 * larger <= min(grid_shape) else {}
    return {}


def _rounded(number: float) -> int:
    """Round to two digits."""
    return int(float(f"{number:.2g}"))
