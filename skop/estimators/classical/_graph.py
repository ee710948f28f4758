"""Graphs of a fitted `PODRegressor`, alone or as the base of an operator, for other runtimes.

They compute in double precision, since the weights of interpolating kernels are large numbers that nearly cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from skop._typing import FloatArray, PathOrStr
from skop.data import FieldSet
from skop.estimators.classical._input_reader import NOTHING_OUTSIDE, InputReader
from skop.estimators.classical._kernel_models import KernelModel
from skop.estimators.classical._output_models import OutputModel, logarithms_of, order_of
from skop.estimators.files._graphs import ROUNDING, Graph, export_graph, samples_of
from skop.exceptions import FieldDataError
from skop.networks import Outputs

__all__ = ["ClassicalGraph", "drop_empty_buffers", "export_pod"]


def export_pod(estimator: Any, path: PathOrStr, X: Any, params: Any, batch_size: int | None) -> None:
    """Write a fitted `PODRegressor` as one graph, see its `export`.

    Parameters
    ----------
    estimator : PODRegressor
        Fitted estimator.
    path, X, params, batch_size : as in `PODRegressor.export`
        File, samples on the points of the graph, and number of samples of a call.
    """

    def build(_single: bool) -> tuple[FieldSet, Graph]:
        """Samples, and the graph for their points, which computes in double precision in both formats."""
        seen = None if estimator.ranges_ is None else estimator.ranges_.params
        made_up = None if seen is None else seen[:1] + np.array([[0.25], [0.75]]) * np.ptp(seen, axis=0)
        _refuse_what_has_no_graph(estimator)
        samples = samples_of(estimator, X, params, made_up)
        return samples, _PODGraph(estimator, samples)

    export_graph(estimator, path, batch_size, build, estimator._predict_values)


def _refuse_what_has_no_graph(estimator: Any) -> None:
    """Raise an error where a prediction is more than components and kernels."""
    regressor = estimator.models_[0].regressor
    reasons = {
        f"regressor={type(regressor).__name__}(...) is one of scikit-learn; fit with a regressor of skop, such as "
        "regressor='auto'": not isinstance(regressor, KernelModel),
        "samples of the fit were interpolated to a common grid and back, which has no graph; fit on points that "
        "correspond, with grid=None": estimator.spec_.resampler is not None,
        "y of the fit was on other points than X; fit with y interpolated to the points of X": (
            estimator.spec_.target_points != "inputs"
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise FieldDataError(f"export writes components and a regressor of skop, but {reason}.")


def _doubles(values: Any) -> torch.Tensor:
    """Tensor of an array, also of one in reverse order, which PyTorch does not take."""
    return torch.from_numpy(np.array(values, dtype=np.float64, order="C"))


class _OutputGraph(nn.Module):
    """Predictions of some outputs by a base model."""

    reads: torch.Tensor
    shift: torch.Tensor
    lowest: torch.Tensor
    least: torch.Tensor
    scale: torch.Tensor
    components: torch.Tensor
    mean: torch.Tensor
    unit: torch.Tensor
    origin: torch.Tensor
    size: torch.Tensor
    bounds: torch.Tensor | None

    def __init__(self, model: OutputModel) -> None:
        super().__init__()
        self.regressor: KernelModel = model.regressor
        every, numbers = model.held
        self.n_channels, self.n_values = len(every), len(model.basis.mean_) - len(numbers)
        self.channels, self.scalars = (
            [list(known).index(own) for own in asked]
            for known, asked in ((every, model.channels), (numbers, model.scalars))
        )
        held = {
            "shift": model.shift,
            "scale": model.scale,
            "lowest": model.turns,
            "least": model.least,
            "components": model.basis.components_,
            "mean": model.basis.mean_,
            "unit": model.units,
            "origin": model.spread_out(model.origin),
            "size": model.spread_out(model.size),
        }
        for name, values in held.items():
            self.register_buffer(name, _doubles(values))
        bounds = None if model.bounds is None else _doubles(model.bounds)
        self.register_buffer("bounds", bounds)
        self.register_buffer("reads", torch.tensor(model.reads_logarithms, dtype=torch.bool))

    def forward(
        self, params: torch.Tensor | None, features: list[torch.Tensor]
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Map parameters and coefficients of fields to fields and scalars."""
        points = features
        if params is not None:
            params = params.double()
            turned = logarithms_of(params, self.reads, self.lowest, self.least)
            points = [(turned - self.shift) / self.scale, *features]
        found = self.regressor.predict(torch.cat(points, dim=1)) @ self.components + self.mean
        if self.bounds is None:
            found = found * self.unit
        else:
            found = ((found.clamp(self.bounds[0], self.bounds[1]) * self.unit).exp() - self.origin) / self.size
        scalars = found[:, self.n_values :][:, self.scalars]
        if not self.channels:
            return None, scalars
        return found[:, : self.n_values].unflatten(1, (-1, self.n_channels))[..., self.channels], scalars


class ClassicalGraph(nn.Module):
    """Predictions of a PODRegressor, alone or of standardised targets as a base, for the points of given samples.

    Parameters
    ----------
    estimator : PODRegressor
        Fitted estimator.
    points : ndarray of shape (P, d) or None
        Points of its inputs; None if samples have points of their own.
    samples : FieldSet
        Samples on the points of the graph.
    dtype : torch.dtype
        Precision of the outputs.
    """

    coords: torch.Tensor | None
    input_unit: torch.Tensor
    input_scale: torch.Tensor
    input_mean: torch.Tensor
    input_components: torch.Tensor

    def __init__(self, estimator: Any, points: FloatArray | None, samples: FieldSet, dtype: torch.dtype) -> None:
        super().__init__()
        self.outputs = nn.ModuleList([_OutputGraph(model) for model in estimator.models_])
        self.orders = [order_of(estimator.models_, name).tolist() for name in ("channels", "scalars")]
        reader = InputReader.of(estimator)
        self.dtype, self.has_rest, basis = dtype, reader.has_rest_, reader.input_basis_
        self.regions, self.others = [places.tolist() for places in reader.regions], reader.others.tolist()
        held = {}
        if basis is not None:
            held = {
                "input_unit": reader.input_unit_,
                "input_scale": reader.input_scale_,
                "input_mean": basis.mean_,
                "input_components": basis.components_,
            }
        for name, values in held.items():
            self.register_buffer(name, _doubles(values))
        self.frame = estimator.last_frame_
        coords = None
        self.reads_fields, self.reads_points = basis is not None, reader.reads_points_
        if self.reads_fields and self.reads_points and points is None and samples.shared_coords:
            # The coordinates are inputs of the model, but not of the graph.
            coords = _doubles(samples.coords)
        self.register_buffer("coords", coords)

    def forward(
        self,
        coords: torch.Tensor | None = None,
        fields: torch.Tensor | None = None,
        params: torch.Tensor | None = None,
    ) -> Outputs:
        """Map physical inputs, with the coordinates where they are inputs, to the fields and scalars of the fit."""
        given: Any = params if fields is None else fields
        frame = None if self.frame is None else self.frame.among(given.double())
        if self.coords is not None:
            coords = self.coords.expand(given.shape[0], -1, -1)
        coords = coords if self.reads_points else None
        if self.regions and fields is not None:
            values = fields.double().flatten(1)
            constants = torch.stack([values[:, places].mean(dim=1) for places in self.regions], dim=1)
            params = constants if params is None else torch.cat([params.double(), constants], dim=1)
            fields = fields[..., self.others] if self.others else None
        held = [part.double().flatten(1) for part in (coords, fields) if part is not None]
        features = []
        if held and self.reads_fields:
            rows = torch.cat(held, dim=1) / self.input_unit - self.input_mean
            coefficients = rows @ self.input_components.T
            features.append(coefficients / self.input_scale)
            if self.has_rest:
                whole = (rows**2).sum(dim=1)
                outside = whole - (coefficients**2).sum(dim=1)
                outside = torch.where(outside > NOTHING_OUTSIDE * whole, outside, torch.zeros_like(outside))
                features.append(outside.sqrt()[:, None] / self.input_scale)
        found = [graph(params, features) for graph in self.outputs]
        channels, scalars = self.orders
        field = torch.cat([part for part, _ in found if part is not None], dim=-1)[..., channels] if channels else None
        numbers = torch.cat([part for _, part in found], dim=-1)[..., scalars] if scalars else None
        parts = [part if part is None or frame is None else part + frame for part in (field, numbers)]
        return Outputs(*(None if part is None else part.to(self.dtype) for part in parts))


class _PODGraph(Graph):
    """A PODRegressor alone, in double precision."""

    def __init__(self, estimator: Any, samples: FieldSet) -> None:
        held = {
            "coords": None if samples.shared_coords else samples.coords,
            "fields": samples.values,
            "params": samples.params,
        }
        counts = {"field": estimator.spec_.n_outputs, "scalars": estimator.spec_.n_scalars}
        super().__init__(
            samples,
            {name: torch.float64 for name, values in held.items() if values is not None},
            {name: (count, torch.float64) for name, count in counts.items() if count},
        )
        self.keeps_fields = True
        self.rounding = {name: np.zeros(count) for name, count in counts.items() if count}
        for model in estimator.models_:
            units = model.channel_unit, model.scalar_unit
            for name, held, own, unit in zip(counts, model.held, model.outputs, units, strict=True):
                # Logarithms have digits in small outputs too.
                if len(own) and model.bounds is None:
                    self.rounding[name][own] = ROUNDING * np.broadcast_to(unit, len(held))[np.isin(held, own)]
        self.model = ClassicalGraph(estimator, estimator.points_, samples, torch.float64)
        drop_empty_buffers(self.model)

    def _predicted(self, flat: dict[str, torch.Tensor]) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Physical outputs of physical inputs."""
        return self.model(**flat)


def drop_empty_buffers(graph: ClassicalGraph) -> None:
    """Remove tensors without elements, which files of programs take for views of each other, and which have no use.

    Parameters
    ----------
    graph : ClassicalGraph
        Graph that loses them.
    """
    for part in graph.modules():
        for name, held in part.named_buffers(recurse=False):
            if not held.numel():
                setattr(part, name, None)
