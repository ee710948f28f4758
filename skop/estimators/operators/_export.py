"""Export of fitted operator regressors, with scalers and base model, to ONNX files and programs of `torch.export`.

The graph maps physical inputs to physical outputs on the points of the fit or of given samples. The order of shared
points is part of the graph.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from skop._typing import FloatArray, PathOrStr
from skop.data import BoxScaler, FieldScaler, FieldSet
from skop.estimators.classical._graph import ClassicalGraph, drop_empty_buffers
from skop.estimators.classical._kernel_models import KernelModel
from skop.estimators.classical._pod import PODRegressor
from skop.estimators.files._graphs import ROUNDING, Graph, export_graph, samples_of
from skop.estimators.fitting._base_model import BaseModel
from skop.exceptions import FieldDataError
from skop.modules import sort_points
from skop.networks import Outputs
from skop.surrogate._correction import CorrectionNetwork, network_within
from skop.training._runtime import converted

__all__ = ["export_estimator"]

#: Pass an input in double precision if its mean exceeds this multiple of its standard deviation.
_FAR_FROM_ZERO = 30.0


def export_estimator(estimator: Any, path: PathOrStr, X: Any, params: Any, batch_size: int | None) -> None:
    """Write a fitted estimator as one graph, see `OperatorRegressor.export`.

    Parameters
    ----------
    estimator : OperatorRegressor
        Fitted estimator.
    path : path-like
        File to write, ``*.onnx`` or ``*.pt2``.
    X : as in `predict`, or None
        Samples on the points of the graph.
    params : as in `predict`, or None
        Global parameters beside fields or meshes.
    batch_size : int or None
        Number of samples of a call; None for any.
    """

    def build(single: bool) -> tuple[FieldSet, Graph]:
        """Samples, and the graph for their points."""
        scaler = estimator.scalers_.params
        made_up = None if scaler is None else scaler.mean_ + scaler.scale_ * np.array([[0.0], [0.5]])
        samples = samples_of(estimator, X, params, made_up)
        _refuse_what_has_no_graph(estimator, samples)
        return samples, _PredictionGraph(estimator, samples, single=single)

    export_graph(estimator, path, batch_size, build, estimator.surrogate_.predict)


# ---------------------------------------------------------------------- what can be exported
def _refuse_what_has_no_graph(estimator: Any, samples: FieldSet) -> None:
    """Raise an error where a prediction is more than scaling and one call of the network."""
    symmetries = estimator.surrogate_.symmetries
    reasons = {
        **_reasons_of_base(estimator.base_, samples),
        f"grid={estimator.grid!r} interpolates between points and a grid, which has no graph; fit on a grid, or "
        "LaMORegressor, AMORegressor or MNORegressor without grid=": estimator.spec_.resampler is not None,
        "symmetries average predictions; set SymmetryOptions(average_predictions=False)": (
            symmetries is not None and symmetries.average_predictions
        ),
        "y of the fit was on other points than X; fit with y interpolated to the points of X": (
            estimator.spec_.target_points != "inputs"
        ),
        **_reasons_of_sensors(getattr(estimator, "sensors_", None), samples),
    }
    for reason, applies in reasons.items():
        if applies:
            raise FieldDataError(f"export writes scaling and one call of the network, but {reason}.")
    estimator.surrogate_.refine.require_grid(samples)
    if not estimator.surrogate_.refine.is_direct(samples):
        raise FieldDataError(
            "X is on a grid of another spacing than in the fit, where predict interpolates predictions at that of the "
            "fit; pass X on the grid of the fit, or set refinement='native'."
        )


def _reasons_of_base(base: BaseModel | None, samples: FieldSet) -> dict[str, bool]:
    """Reasons why a base model has no graph for the points of the samples, and whether they apply."""
    if base is None:
        return {}
    model = base.estimator
    kind = f"a {type(model).__name__}"
    if isinstance(model, PODRegressor):
        kind = f"PODRegressor(regressor={type(model.models_[0].regressor).__name__}(...))"
    has_graph = isinstance(model, PODRegressor) and isinstance(model.models_[0].regressor, KernelModel)
    return {
        f"the base of this one is {kind}, and only a PODRegressor with a regressor of skop has a graph; fit with "
        "base='pod' or base=None": not has_graph,
        "the predictions of its base are interpolated from the points of the fit to those of X; pass X on the points "
        "of the fit, or fit with base=None": has_graph and not base.has_own_points(samples),
        "its base is on a common grid, between which and the points its predictions are interpolated; fit with "
        "base='pod' or base=None": has_graph and model.spec_.resampler is not None,
        "the nodes of X do not correspond to those of the fit, which its base needs; pass X with the nodes of the fit, "
        "or fit with base=None": has_graph and not base.knows(samples).all(),
    }


def _reasons_of_sensors(sensors: FloatArray | None, samples: FieldSet) -> dict[str, bool]:
    """Reason why a network that reads fields at sensors has no graph for the points of the samples."""
    if sensors is None:
        return {}
    return {
        f"the input fields of X are at {samples.n_points[0]} points, which are not the {len(sensors)} sensors of the "
        "fit, and would be interpolated to these; pass X on the points of the fit, sensors_": (
            not samples.shared_coords or not np.array_equal(samples.coords, sensors)
        )
    }


# ---------------------------------------------------------------------- the graph
class _Shift(nn.Module):
    """Scaling of an input, in the precision in which it is given, followed by that of the network."""

    def __init__(self, shift: FloatArray, scale: FloatArray, given: torch.dtype, dtype: torch.dtype) -> None:
        super().__init__()
        self.given, self.dtype = given, dtype
        self.shift: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("shift", torch.as_tensor(shift, dtype=given))
        self.register_buffer("scale", torch.as_tensor(scale, dtype=given))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Shift and scale."""
        return ((values - self.shift) / self.scale).to(self.dtype)


class _Restore(nn.Module):
    """Return of an output to physical units, in one precision, followed by that of the caller."""

    def __init__(self, scaler: FieldScaler, within: torch.dtype, dtype: torch.dtype) -> None:
        super().__init__()
        self.is_logarithm, self.within, self.dtype = scaler.function == "log", within, dtype
        self.shift: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("shift", torch.as_tensor(scaler.mean_, dtype=within))
        spread = scaler.scale_ if scaler.spread_ is None else scaler.spread_
        self.register_buffer("scale", torch.as_tensor(spread, dtype=within))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Scale and shift, and take the exponential where logarithms were learnt."""
        values = values.to(self.within) * self.scale + self.shift
        return (values.exp() if self.is_logarithm else values).to(self.dtype)

    @property
    def rounding(self) -> FloatArray:
        """Differences of each channel that are rounding; none where logarithms have digits in small outputs too."""
        largest = self.scale.reshape(-1, self.scale.shape[-1]).amax(dim=0).numpy()
        return (0.0 if self.is_logarithm else ROUNDING) * np.asarray(largest, dtype=np.float64)


class _PredictionGraph(Graph):
    """Scalers, network and base model of an estimator, for the points of given samples."""

    coords: torch.Tensor | None
    order: torch.Tensor | None
    back: torch.Tensor | None

    def __init__(self, estimator: Any, samples: FieldSet, *, single: bool) -> None:
        dtype = torch.float32 if single else getattr(torch, estimator.dtype_)
        network = converted(copy.deepcopy(estimator.module_).eval().requires_grad_(False), torch.device("cpu"), dtype)
        # Where the shares of the network are zero, there is nothing to compute, and nothing in single precision.
        is_base_alone = isinstance(network, CorrectionNetwork) and network.is_base_alone
        within = torch.float64 if is_base_alone else dtype
        scale, restore = _scale(estimator.scalers_, samples, dtype), _restore(estimator.scalers_, within, dtype)
        super().__init__(
            samples,
            {name: part.given for name, part in scale.items()},
            {name: (part.scale.shape[-1], part.dtype) for name, part in restore.items()},
        )
        self.scale: Any = nn.ModuleDict(scale)
        self.restore: Any = nn.ModuleDict(restore)
        # The network within, if it is over a base or a frame.
        inner = network_within(network)
        batch = estimator.surrogate_.loader(samples).gather(np.arange(1))
        self.network, self.grid_shape = network, batch.grid_shape
        coords, order = _fixed_points(batch, inner) if samples.shared_coords else (None, None)
        coords = None if coords is None else coords.to(dtype).contiguous()
        self.register_buffer("coords", coords)
        self.register_buffer("order", order)
        self.register_buffer("back", None if order is None else order.argsort())
        self.is_base_alone = self.keeps_fields = is_base_alone
        self.rounding = {name: part.rounding for name, part in restore.items() if is_base_alone}
        base = estimator.base_
        self.base = None if base is None else ClassicalGraph(base.estimator, base.points, samples, within)
        if self.is_base_alone:
            self.network = self.coords = self.order = self.back = None
        if self.base is not None:
            drop_empty_buffers(self.base)
        remedy = "export to a '.pt2' file keeps double precision" if single else "fit with dtype='float64'"
        self.hint = f", which its precision does not explain; {remedy}."
        if not samples.shared_coords and estimator.surrogate_.sorts_points:
            self.hint = (
                ": the network depends on the order of the points, which predict sorts for each sample, and a graph "
                "cannot. Export a fit on points that all samples share, or sort them and set point_order='given' in "
                "MNORegressor."
            )

    def _predicted(self, flat: dict[str, torch.Tensor]) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Physical outputs of physical inputs."""
        base = Outputs() if self.base is None else self.base(**flat)
        field, scalars = base if self.is_base_alone else self._corrected(flat, base)
        return (
            None if field is None else self.restore["field"](field),
            None if scalars is None else self.restore["scalars"](scalars),
        )

    def _corrected(self, flat: dict[str, torch.Tensor], base: Outputs) -> Outputs:
        """Outputs of the network, over predictions of the base if there are any, at the points in their given order."""
        given: dict[str, Any] = {"coords": self.coords, "fields": None, "params": None}
        for name, values in flat.items():
            scaled = self.scale[name](values)
            given[name] = scaled if name == "params" or self.order is None else scaled[:, self.order]
        if self.base is not None:
            at_points = base.field if base.field is None or self.order is None else base.field[:, self.order]
            given |= {"base": at_points, "base_scalars": base.scalars}
        field, scalars = self.network(**given, grid_shape=self.grid_shape)
        return Outputs(field if field is None or self.back is None else field[:, self.back], scalars)


def _fixed_points(batch: Any, network: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Points that all samples share in the order in which a network reads them, and this order."""
    coords, order = batch.coords.cpu(), None if batch.order is None else torch.as_tensor(batch.order)
    if batch.grid_shape is None and getattr(network, "point_order", "given") != "given":
        # The points do not change, and their order need not be computed in each call.
        second = sort_points(coords, network.point_order)
        coords, order = coords[second], second if order is None else order[second]
        network.point_order = "given"
    return coords, order


def _scale(scalers: Any, samples: FieldSet, dtype: torch.dtype) -> dict[str, Any]:
    """Scaling of each input by name, in the order of the graph."""
    found = {} if samples.shared_coords else {"coords": _shift_of_box(scalers.coords, dtype)}
    parts = (("fields", scalers.fields), ("params", scalers.params))
    return found | {name: _shift_of(scaler, dtype) for name, scaler in parts if scaler is not None}


def _restore(scalers: Any, within: torch.dtype, dtype: torch.dtype) -> dict[str, Any]:
    """Return to physical units of each output by name."""
    return {
        name: _Restore(scaler, *((torch.float64,) * 2 if scaler.needs_double else (within, dtype)))
        for name, scaler in (("field", scalers.target), ("scalars", scalers.scalars))
        if scaler is not None
    }


def _shift_of(scaler: FieldScaler, dtype: torch.dtype) -> _Shift:
    """Scaling of a field or of parameters."""
    given = torch.float64 if scaler.offset_ >= _FAR_FROM_ZERO else dtype
    return _Shift(scaler.mean_, scaler.scale_, given, dtype)


def _shift_of_box(scaler: BoxScaler, dtype: torch.dtype) -> _Shift:
    """Scaling of coordinates."""
    far = np.abs(scaler.lower_ / scaler.span_).max() >= _FAR_FROM_ZERO
    return _Shift(scaler.lower_, scaler.span_, torch.float64 if far else dtype, dtype)
