"""MeanFieldRegressor: the mean of the training targets, the error that every model has to be compared with."""

from __future__ import annotations

from math import prod
from typing import Any, Self

import numpy as np

from skop._sklearn_compat import SequenceOf, StrOptions, fit_context
from skop._typing import FloatArray
from skop.data import FieldSet, Predictions, interpolate_fields, query_points
from skop.estimators._field import FieldRegressor, restored_on_failure
from skop.estimators._weights import used_samples
from skop.estimators.classical._components import mean_of
from skop.estimators.files._file_checks import Held, checks

__all__ = ["MeanFieldRegressor"]


class MeanFieldRegressor(FieldRegressor):
    """Mean of the training targets, whatever X is: the floor of every comparison.

    Where all samples of y share their points, the prediction is the mean field, interpolated to the points of X if
    these are others. Where samples have points of their own, which do not correspond, it is the mean of each channel.
    Scalars are predicted by their means.

    Parameters
    ----------
    input_fields, target_fields : list of str or None, default=None
        Names of the mesh fields that are inputs and targets; targets also if y is scalars, which are learnt too.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of mesh fields that are stored on cells: an error, averaging to the points, or reading and predicting
        all fields at the centres of the cells, see `skop.data.read_meshes`.

    Attributes
    ----------
    mean_field_ : ndarray of shape (P, q) or (1, q), or None
        Mean field at `points_`, or mean of each channel; None if y has no field.
    mean_scalars_ : ndarray of shape (s,) or None
        Means of the scalars.
    points_ : ndarray of shape (P, d) or None
        Points of y, if all samples share them.
    n_features_in_ : int
        Number of columns of a table X, or of channels of fields.
    spec_ : skop.data.DataSpec
        Form, sizes and channel names of X and y.
    mesh_ : meshio.Mesh or None
        Mesh that all samples of y shared, for the meshes of predictions, if y was meshes and X was not.

    See Also
    --------
    skop.PODRegressor : A classical surrogate model.

    Examples
    --------
    >>> from skop import MeanFieldRegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> model = MeanFieldRegressor().fit(X[:20], y[:20])
    >>> float(abs(model.predict(X[20:])[0] - y[:20].mean(axis=0)).max()) < 1e-6
    True
    """

    _parameter_constraints = {
        "input_fields": [SequenceOf(str), None],
        "target_fields": [SequenceOf(str), None],
        "cell_data": [StrOptions({"refuse", "to_points", "cells"})],
    }
    _takes_other_points = True

    def __init__(self, *, input_fields: Any = None, target_fields: Any = None, cell_data: str = "refuse") -> None:
        self.input_fields = input_fields
        self.target_fields = target_fields
        self.cell_data = cell_data

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, params: Any = None) -> Self:
        """Compute the means.

        Parameters
        ----------
        X, y, params : as in `LaMORegressor.fit`
            Inputs, targets and global parameters.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the samples in the means; samples of weight 0 are not used.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used; a ValueError.
        """
        with restored_on_failure(self):
            read = self._read(X, y, params=params, sample_weight=sample_weight)
            data, weight, _, _ = used_samples(read, sample_weight)
            self._store_data(data)
            field, scalars = data.targets.field, data.targets.scalars
            self.mean_scalars_: FloatArray | None = (
                None if scalars is None else mean_of(np.asarray(scalars, np.float64), weight)
            )
            self.mean_field_: FloatArray | None = None
            self.points_: FloatArray | None = None
            if field is not None:
                values = np.asarray(field.values, dtype=np.float64)
                self.points_ = np.asarray(field.coords, dtype=np.float64) if field.shared_coords else None
                if self.points_ is None:
                    of_points = None if weight is None else np.repeat(weight, field.n_points)
                    self.mean_field_ = mean_of(values.reshape(-1, field.n_channels), of_points)[np.newaxis]
                else:
                    self.mean_field_ = mean_of(values, weight)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Means at the points of the inputs."""
        scalars = None if self.mean_scalars_ is None else np.tile(self.mean_scalars_, (len(inputs), 1))
        return Predictions(None if self.mean_field_ is None else self._field_at(inputs), scalars)

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Means at other points; return the outputs and the points."""
        reach = None if self.points_ is None else (self.points_.min(axis=0), self.points_.max(axis=0))
        places = query_points(coords, inputs, reach)
        return self._predict_values(places), places

    def _field_at(self, places: FieldSet) -> FloatArray:
        """Mean field at the points of samples, (n, P, q), or flat where they are ragged."""
        mean: FloatArray = np.asarray(self.mean_field_)
        if self.points_ is None:
            points = places.coords.shape[:1] if places.is_ragged else places.shape[:2]
            return np.broadcast_to(mean, (*points, mean.shape[1])).copy()
        grid_shape = self.spec_.grid_shape if self.spec_.target_points == "inputs" else self.spec_.target_grid
        if places.shared_coords:
            # Without an interpolation for each sample.
            one = FieldSet(places.coords, np.empty((1, len(places.coords), 0)))
            found = interpolate_fields(FieldSet(self.points_, mean[None]).with_grid(grid_shape), one)
            return np.repeat(found, len(places), axis=0)
        copies = np.broadcast_to(mean, (len(places), *mean.shape))
        return interpolate_fields(FieldSet(self.points_, copies).with_grid(grid_shape), places)


# ---------------------------------------------------------------------- what a file must hold
@checks("MeanFieldRegressor")
def _check_mean_field(held: Held) -> None:
    """Check a fitted mean field from a file."""
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_")
    scalars = held.array("mean_scalars_", spec.n_scalars, optional=True)
    field = held.array("mean_field_", None, spec.n_outputs, optional=True)
    points = held.array("points_", None, spec.n_dims, optional=True)
    held.need((scalars is None) == (not spec.n_scalars), "mean_scalars_", f"{spec.n_scalars} numbers")
    held.need((field is None) == (not spec.n_outputs), "mean_field_", f"fields of {spec.n_outputs} channels")
    if field is None:
        return
    held.need(len(field) == (1 if points is None else len(points)), "points_", "the points of the mean field")
    shape = spec.grid_shape if spec.target_points == "inputs" else spec.target_grid
    if points is not None and shape is not None:
        held.need(prod(shape) == len(points), "points_", "the points of the grid")
