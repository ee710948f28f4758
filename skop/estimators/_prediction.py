"""How an operator regressor predicts: batches of bounded size, symmetries, other spacings, other points.

Letters of the shapes: n samples, P points, T points of all samples together, q output channels, s scalars.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray
from skop.data import DataSpec, FieldLoader, FieldSet, GridSymmetries, Predictions, Scalers, query_points
from skop.estimators._refinement import predict_refined, refinement_factors
from skop.exceptions import FieldDataError

__all__ = ["NetworkPrediction", "field_error", "set_error"]

#: Points that predict sends through the network at once; bounds its memory.
_PREDICT_POINTS = 2**17


class NetworkPrediction:
    """The part of `BaseOperatorRegressor` that predicts with the trained network."""

    module_: torch.nn.Module
    scalers_: Scalers
    spec_: DataSpec
    spacing_: tuple[float, ...] | None
    geometry_: str
    refinement: str
    symmetries: Any
    average_symmetries: bool
    deterministic: bool

    def _loader(self, inputs: FieldSet, **options: Any) -> FieldLoader:
        """Batches of samples in this fit's scaling, on its device."""
        raise NotImplementedError

    def _declared_symmetries(self, inputs: FieldSet) -> GridSymmetries:
        """The symmetries that the parameters declare, on the grid of these samples."""
        raise NotImplementedError

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Outputs in physical units, on grids of any spacing."""
        if self.geometry_ != "points" and inputs.grid_shape is None:
            raise FieldDataError(
                "the points of X form no regular grid in C order, but the estimator was fitted on one; sort the points "
                "of a grid by skop.data.find_grid(coords)[1], or resample the fields onto a grid."
            )
        factors = self._refinement_factors(inputs)
        if max(factors) == 1:
            return self._predict_averaged(inputs)
        step = max(1, _PREDICT_POINTS // int(inputs.n_points.max()))
        average = self.refinement == "average"
        parts = [
            predict_refined(inputs.read(slice(start, start + step)), factors, self._predict_averaged, average=average)
            for start in range(0, len(inputs), step)
        ]
        return joined(parts)

    def _predict_at(self, inputs: FieldSet, coords: Any) -> tuple[Predictions, FieldSet]:
        """Outputs at other points than those of the samples, and these points."""
        if self.geometry_ != "points" or self.spec_.scalar_output or self.scalers_.per_point:
            return super()._predict_at(inputs, coords)  # type: ignore[misc]
        places = query_points(coords, inputs)
        return self._predict_batches(self._loader(inputs, queries=places)), places

    def _refinement_factors(self, inputs: FieldSet) -> tuple[int, ...]:
        """How many times finer than in training the grid is along each axis."""
        usable = self.spacing_ is not None and self.geometry_ == "grid" and inputs.shared_coords
        if self.spacing_ is None or not usable or inputs.grid_shape is None:
            return (1,)
        return refinement_factors(inputs, self.spacing_, native=self.refinement == "native")

    def _predict_averaged(self, inputs: FieldSet) -> Predictions:
        """Outputs on a grid with the training spacing, averaged over the declared symmetries if asked for."""
        if not self.average_symmetries or self.symmetries is None or not len(self.symmetries):
            return self._predict_batches(self._loader(inputs))
        symmetries = self._declared_symmetries(inputs)
        loaders = (self._loader(inputs, symmetries=symmetries, element=number) for number in range(symmetries.order))
        return averaged([self._predict_batches(loader) for loader in loaders])

    def _predict_batches(self, loader: FieldLoader) -> Predictions:
        """Outputs of the network in physical units, a bounded number of points at a time."""
        # Products of matrices are rounded differently for other numbers of rows; one sample at a time is not.
        alone = self.deterministic or loader.queries is not None
        parts = []
        with torch.inference_mode():
            for _, batch in loader.bounded_batches(0 if alone else _PREDICT_POINTS):
                parts.append(self._outputs(self.module_(**batch.inputs()), loader, batch.order))
        places = loader.inputs if loader.queries is None else loader.queries
        return joined(parts, ragged=places.is_ragged)

    def _outputs(self, outputs: Any, loader: FieldLoader, order: Any) -> Predictions:
        """Outputs of a batch in physical units and in the caller's order of points."""
        field, scalars = outputs if isinstance(outputs, tuple) else (outputs, None)
        field = self.scalers_.target.inverse_transform(field)
        if self.spec_.scalar_output:
            return Predictions(None, field[:, 0].cpu().numpy())
        if loader.symmetries is not None and loader.element is not None:
            field = loader.symmetries.undo(field, *loader.symmetries.element(loader.element, len(field)))
        values = field.cpu().numpy()
        if order is not None and loader.queries is None:
            unsorted = np.empty_like(values).reshape(-1, values.shape[-1])
            unsorted[order] = values.reshape(-1, values.shape[-1])
            values = unsorted.reshape(values.shape)
        if scalars is not None and self.scalers_.scalars is not None:
            return Predictions(values, self.scalers_.scalars.inverse_transform(scalars)[:, 0].cpu().numpy())
        return Predictions(values)


def joined(parts: list[Predictions], *, ragged: bool = False) -> Predictions:
    """Predictions of successive samples as one, flat for ragged samples."""
    fields = [part.fields for part in parts if part.fields is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    if ragged:
        fields = [values.reshape(-1, values.shape[-1]) for values in fields]
    return Predictions(np.concatenate(fields) if fields else None, np.concatenate(scalars) if scalars else None)


def averaged(parts: list[Predictions]) -> Predictions:
    """Mean of several predictions of the same samples."""
    fields = [part.fields for part in parts if part.fields is not None]
    scalars = [part.scalars for part in parts if part.scalars is not None]
    return Predictions(np.mean(fields, axis=0) if fields else None, np.mean(scalars, axis=0) if scalars else None)


def field_error(predicted: FloatArray, targets: FieldSet) -> float:
    """Mean over samples of the relative L2 error of fields ``(n, P, q)`` or ``(T, q)``.

    Zeros have no relative error; their absolute one is taken instead of failing in the middle of a fit.
    """
    truth = np.asarray(targets.values, dtype=np.float64)
    starts = np.concatenate([[0], np.cumsum(targets.n_points)])[:-1]
    squares = ((predicted - truth) ** 2, truth**2)
    error, norm = (np.sqrt(np.add.reduceat(part.reshape(-1, part.shape[-1]).sum(axis=-1), starts)) for part in squares)
    return float(np.mean(error / np.where(norm > 0, norm, 1.0)))


def set_error(predicted: FloatArray, truth: FloatArray) -> float:
    """Error of scalars ``(n, s)`` relative to their norm over the set."""
    truth = np.asarray(truth, dtype=np.float64)
    norm = np.linalg.norm(truth)
    return float(np.linalg.norm(predicted - truth) / (norm if norm > 0 else 1.0))
