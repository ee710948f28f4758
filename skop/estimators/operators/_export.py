"""Export of fitted operator regressors, with scalers and base model, to ONNX files and programs of `torch.export`.

The graph maps physical inputs to physical outputs on the points of the fit or of given samples. Scans run in their
plain forms, whose loops are unrolled. The order of shared points is part of the graph. A base model computes in double
precision, since the weights of interpolating kernels are large numbers that nearly cancel.

Notation: B batch, P points, d space dimensions, c input channels, p parameters, q output channels, s scalars.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from skop._files import require_folder, write_in_one_step
from skop._optional import import_optional
from skop._typing import FloatArray, GridShape, PathOrStr
from skop._version import __version__
from skop.data import BoxScaler, FieldScaler, FieldSet
from skop.estimators.classical._input_reader import NOTHING_OUTSIDE, InputReader
from skop.estimators.classical._kernel_models import KernelModel
from skop.estimators.classical._output_models import logarithms_of, order_of
from skop.estimators.classical._pod import OutputModel, PODRegressor
from skop.estimators.fitting._base_model import BaseModel
from skop.exceptions import FieldDataError, SkopError
from skop.modules import sort_points
from skop.networks import Outputs
from skop.ops import traceable_scans
from skop.surrogate._correction import CorrectionNetwork

__all__ = ["export_estimator"]

#: Pass an input in double precision if its mean exceeds this multiple of its standard deviation.
_FAR_FROM_ZERO = 30.0
#: Largest difference between the graph and `predict`, relative to the largest output.
_TOLERANCE = 1e-4
_SUFFIXES = (".onnx", ".pt2")


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
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise ValueError(f"path is {str(path)!r}; expected a name that ends in {' or '.join(map(repr, _SUFFIXES))}.")
    require_folder(target)
    if batch_size is not None and (isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1):
        raise ValueError(f"batch_size is {batch_size!r}; expected an integer of at least 1, or None for any number.")
    is_onnx = target.suffix == ".onnx"
    onnx = _import_onnx_helper() if is_onnx else None
    samples = _samples(estimator, X, params)
    _refuse_what_has_no_graph(estimator, samples)
    graph = _PredictionGraph(estimator, samples, single=is_onnx)
    _require_parity(estimator, graph, samples, single=is_onnx)
    # An axis of length 1 would not be traced as variable.
    rows = np.resize(np.arange(len(samples)), batch_size or 2)
    program = _program(graph, graph.arguments(samples, rows), dynamic=batch_size is None)
    description = {
        "skop": __version__,
        "estimator": type(estimator).__name__,
        "inputs": graph.describe_inputs(batch_size),
        "outputs": graph.describe_outputs(estimator.spec_.target_form, batch_size),
    }
    if onnx is None:
        buffer = io.BytesIO()
        torch.export.save(program, buffer, extra_files={"skop.json": json.dumps(description)})
        write_in_one_step(target, buffer.getvalue())
        return
    model = _onnx_model(program, graph, estimator)
    onnx.set_model_props(
        model, {name: held if isinstance(held, str) else json.dumps(held) for name, held in description.items()}
    )
    model.producer_name, model.producer_version = "skop", __version__
    write_in_one_step(target, model.SerializeToString())


def _import_onnx_helper() -> Any:
    """Import what writes ONNX files."""
    purpose = "write ONNX files"
    import_optional("onnxscript", purpose=purpose)
    return import_optional("onnx.helper", purpose=purpose)


# ---------------------------------------------------------------------- what can be exported
def _samples(estimator: Any, X: Any, params: Any) -> FieldSet:
    """Up to two samples as the network sees their points; made up where X is a table and is not given."""
    if X is None:
        if estimator.spec_.has_fields:
            raise FieldDataError(
                "export needs X, one sample or more in the form of the fit: the graph is for the points of these "
                "samples, which the estimator does not hold."
            )
        scaler = estimator.scalers_.params
        X = scaler.mean_ + scaler.scale_ * np.array([[0.0], [0.5]])
    with warnings.catch_warnings():
        if not estimator.spec_.has_fields:
            # A table without column names, as the graph will get it.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
        inputs, _ = estimator._read_inputs(X, params)
    if inputs.is_ragged:
        sizes = np.unique(inputs.n_points).tolist()
        raise FieldDataError(
            f"a graph is for one number of points, but the samples of X have {sizes[0]} to {sizes[-1]}; pass samples "
            "with as many points as each other, such as X[:1]."
        )
    return inputs.read(slice(0, 2))


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


def _require_parity(estimator: Any, graph: _PredictionGraph, samples: FieldSet, *, single: bool) -> None:
    """Raise an error if the graph gives other numbers than `predict`."""
    expected = estimator.surrogate_.predict(samples)
    with torch.no_grad(), traceable_scans():
        found = graph(*graph.arguments(samples, np.arange(len(samples))))
    truth = [part for part in (expected.fields, expected.scalars) if part is not None]
    for value, true in zip(found, truth, strict=True):
        differences = np.abs(value.double().numpy().reshape(true.shape) - true)
        # A graph of the base alone holds its digits in the field of each sample, and a network those of each channel.
        axes = tuple(range(int(graph.is_base_alone and true.ndim > 2), true.ndim - 1))
        if not (differences.max(axes) <= _TOLERANCE * np.abs(true).max(axes)).all():
            raise FieldDataError(
                f"the graph differs from predict by {differences.max():.1e}"
                + (
                    ": the network depends on the order of the points, which predict sorts for each sample, and a "
                    "graph cannot. Export a fit on points that all samples share, or sort them and set "
                    "point_order='given' in MNORegressor."
                    if graph.has_own_points and estimator.surrogate_.sorts_points
                    else ", which its precision does not explain"
                    + ("; export to a '.pt2' file keeps double precision." if single else "; fit with dtype='float64'.")
                )
            )


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


class _OutputGraph(nn.Module):
    """Predictions of some outputs by a base model."""

    reads: torch.Tensor
    shift: torch.Tensor
    lowest: torch.Tensor
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
            "components": model.basis.components_,
            "mean": model.basis.mean_,
            "unit": model.units,
            "origin": model.spread_out(model.origin),
            "size": model.spread_out(model.size),
        }
        for name, values in held.items():
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        bounds = None if model.bounds is None else torch.tensor(model.bounds, dtype=torch.float64)
        self.register_buffer("bounds", bounds)
        self.register_buffer("reads", torch.tensor(model.reads_logarithms, dtype=torch.bool))

    def forward(
        self, params: torch.Tensor | None, features: list[torch.Tensor]
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Map parameters and coefficients of fields to fields and scalars."""
        points = features
        if params is not None:
            params = params.double()
            turned = logarithms_of(params, self.reads, self.lowest)
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


class _BaseGraph(nn.Module):
    """Predictions of a base model that is a PODRegressor, for the points of given samples."""

    coords: torch.Tensor | None
    input_unit: torch.Tensor
    input_scale: torch.Tensor
    input_mean: torch.Tensor
    input_components: torch.Tensor

    def __init__(self, base: BaseModel, samples: FieldSet, dtype: torch.dtype) -> None:
        super().__init__()
        estimator: Any = base.estimator
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
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        coords = None
        self.reads_fields = basis is not None
        if self.reads_fields and base.points is None and samples.shared_coords:
            # The coordinates are inputs of the base, but not of the graph.
            coords = torch.tensor(samples.coords, dtype=torch.float64)
        self.register_buffer("coords", coords)

    def forward(
        self,
        coords: torch.Tensor | None = None,
        fields: torch.Tensor | None = None,
        params: torch.Tensor | None = None,
    ) -> Outputs:
        """Map physical inputs, with the coordinates where they are inputs, to standardised fields and scalars."""
        if self.coords is not None:
            given: Any = params if fields is None else fields
            coords = self.coords.expand(given.shape[0], -1, -1)
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
        return Outputs(*(None if part is None else part.to(self.dtype) for part in (field, numbers)))


class _PredictionGraph(nn.Module):
    """Scalers, network and base model of an estimator, for the points of given samples."""

    coords: torch.Tensor | None
    order: torch.Tensor | None
    back: torch.Tensor | None

    def __init__(self, estimator: Any, samples: FieldSet, *, single: bool) -> None:
        super().__init__()
        dtype = torch.float32 if single else getattr(torch, estimator.dtype_)
        network = copy.deepcopy(estimator.module_).cpu().eval().requires_grad_(False).to(dtype)
        # The network within, if it is over a base.
        inner: Any = network.network if isinstance(network, CorrectionNetwork) else network
        batch = estimator.surrogate_.loader(samples).gather(np.arange(1))
        self.network, self.grid_shape = network, batch.grid_shape
        self.shown_grid = samples.grid_shape
        self.has_own_points = not samples.shared_coords
        coords, order = (None, None) if self.has_own_points else _fixed_points(batch, inner)
        coords = None if coords is None else coords.to(dtype).contiguous()
        self.register_buffer("coords", coords)
        self.register_buffer("order", order)
        self.register_buffer("back", None if order is None else order.argsort())
        self.scale: Any = nn.ModuleDict()
        scalers = estimator.scalers_
        if self.has_own_points:
            self.scale["coords"] = _shift_of_box(scalers.coords, dtype)
        for name, scaler in (("fields", scalers.fields), ("params", scalers.params)):
            if scaler is not None:
                self.scale[name] = _shift_of(scaler, dtype)
        # Where the shares of the network are zero, there is nothing to compute, and nothing in single precision.
        self.is_base_alone = isinstance(network, CorrectionNetwork) and network.is_base_alone
        within = torch.float64 if self.is_base_alone else dtype
        self.restore: Any = nn.ModuleDict(
            {
                name: _Restore(scaler, *((torch.float64,) * 2 if scaler.needs_double else (within, dtype)))
                for name, scaler in (("field", scalers.target), ("scalars", scalers.scalars))
                if scaler is not None
            }
        )
        self.sizes = {"coords": samples.n_dims, "fields": samples.n_channels, "params": samples.n_params}
        self.n_points = int(samples.n_points[0])
        self.base = None if estimator.base_ is None else _BaseGraph(estimator.base_, samples, within)
        if self.is_base_alone:
            self.network = self.coords = self.order = self.back = None
        if self.base is not None:
            _drop_empty_buffers(self.base)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Map physical inputs, in the order of `scale`, to physical outputs, in the order of `restore`."""
        flat = {
            name: values if name == "params" else values.reshape(values.shape[0], self.n_points, -1)
            for name, values in zip(self.scale, inputs, strict=True)
        }
        base = Outputs() if self.base is None else self.base(**flat)
        field, scalars = base if self.is_base_alone else self._corrected(flat, base)
        found = []
        if field is not None:
            field = self.restore["field"](field)
            found.append(field.reshape(field.shape[0], *self._points_axes(), field.shape[-1]))
        if scalars is not None:
            found.append(self.restore["scalars"](scalars))
        return tuple(found)

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

    def _points_axes(self) -> GridShape:
        """Axes of the points of fields: those of the grid, if there is one."""
        return self.shown_grid or (self.n_points,)

    def arguments(self, samples: FieldSet, rows: Any) -> tuple[torch.Tensor, ...]:
        """Inputs of the graph for the samples at `rows`."""
        held = {"coords": samples.coords, "fields": samples.values, "params": samples.params}
        shapes = {name: tuple(row["shape"][1:]) for name, row in self.describe_inputs(None).items()}
        return tuple(
            torch.tensor(np.asarray(held[name])[rows].reshape(len(rows), *shapes[name])).to(part.given)
            for name, part in self.scale.items()
        )

    def describe_inputs(self, batch_size: int | None) -> dict[str, dict[str, Any]]:
        """Names, shapes and types of the inputs."""
        first = "batch" if batch_size is None else batch_size
        return {
            name: {
                "shape": [first, *(() if name == "params" else self._points_axes()), self.sizes[name]],
                "dtype": _name(part.given),
            }
            for name, part in self.scale.items()
        }

    def describe_outputs(self, form: Any, batch_size: int | None) -> dict[str, dict[str, Any]]:
        """Names, shapes, types and channel names of the outputs."""
        first = "batch" if batch_size is None else batch_size
        names = {"field": form.channel_names, "scalars": form.scalar_names}
        return {
            name: {
                "shape": [first, *(self._points_axes() if name == "field" else ()), part.scale.shape[-1]],
                "dtype": _name(part.dtype),
            }
            | ({} if names[name] is None else {"channels": list(names[name])})
            for name, part in self.restore.items()
        }


def _fixed_points(batch: Any, network: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Points that all samples share in the order in which a network reads them, and this order."""
    coords, order = batch.coords.cpu(), None if batch.order is None else torch.as_tensor(batch.order)
    if batch.grid_shape is None and getattr(network, "point_order", "given") != "given":
        # The points do not change, and their order need not be computed in each call.
        second = sort_points(coords, network.point_order)
        coords, order = coords[second], second if order is None else order[second]
        network.point_order = "given"
    return coords, order


def _drop_empty_buffers(base: _BaseGraph) -> None:
    """Remove tensors without elements, which files of programs take for views of each other, and which have no use."""
    for part in base.modules():
        for name, held in part.named_buffers(recurse=False):
            if not held.numel():
                setattr(part, name, None)


def _name(dtype: torch.dtype) -> str:
    """Name of a type as in NumPy."""
    return str(dtype).removeprefix("torch.")


def _shift_of(scaler: FieldScaler, dtype: torch.dtype) -> _Shift:
    """Scaling of a field or of parameters."""
    given = torch.float64 if scaler.offset_ >= _FAR_FROM_ZERO else dtype
    return _Shift(scaler.mean_, scaler.scale_, given, dtype)


def _shift_of_box(scaler: BoxScaler, dtype: torch.dtype) -> _Shift:
    """Scaling of coordinates."""
    far = np.abs(scaler.lower_ / scaler.span_).max() >= _FAR_FROM_ZERO
    return _Shift(scaler.lower_, scaler.span_, torch.float64 if far else dtype, dtype)


# ---------------------------------------------------------------------- tracing
def _program(graph: _PredictionGraph, arguments: tuple[torch.Tensor, ...], *, dynamic: bool) -> Any:
    """Trace a graph by `torch.export`."""
    shapes = None
    if dynamic:
        batch = torch.export.Dim("batch", min=1)
        shapes = (tuple({0: batch} for _ in arguments),)
    # Networks without gradients treat many points in pieces, whose number would depend on the batch.
    with torch.enable_grad(), traceable_scans(), _quiet():
        return torch.export.export(graph, arguments, dynamic_shapes=shapes, strict=False)


def _onnx_model(program: Any, graph: _PredictionGraph, estimator: Any) -> Any:
    """Convert a traced program to ONNX."""
    names: dict[str, Any] = {"input_names": list(graph.scale), "output_names": list(graph.restore)}
    with _quiet():
        try:
            written: Any = torch.onnx.export(program, dynamo=True, verbose=False, **names)
            return written.model_proto
        except Exception as error:  # whatever the converter may raise
            values = (node.meta.get("val") for node in program.graph.nodes)
            if any(isinstance(value, torch.Tensor) and value.is_complex() for value in values):
                raise SkopError(
                    f"{type(estimator).__name__} exports to '.pt2' files only, since its network computes with complex "
                    "numbers, which PyTorch cannot convert to ONNX; export it to a '.pt2' file, which PyTorch reads, "
                    "or fit another operator, such as LaMORegressor or UNetRegressor."
                ) from error
            root: BaseException = error
            while root.__cause__ is not None:
                root = root.__cause__
            reason = (str(root).strip() or type(root).__name__).splitlines()[0]
            raise SkopError(
                f"PyTorch cannot convert this {type(estimator).__name__} on geometry {estimator.geometry_!r} to ONNX "
                f"({reason}); export it to a '.pt2' file instead."
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyTorch and its converter from printing about their own parts."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
