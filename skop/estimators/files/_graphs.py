"""Graphs of fitted estimators for other runtimes: ONNX files and programs of `torch.export`.

A graph maps physical inputs to physical outputs on the points of given samples. Scans run in the forms that can be
traced.

Notation: B batch, P points, d space dimensions, c input channels, p parameters, q output channels, s scalars.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from skop._files import require_writable, write_in_one_step
from skop._optional import import_optional
from skop._typing import FloatArray, GridShape, PathOrStr
from skop._version import __version__
from skop.data import FieldSet, Predictions
from skop.exceptions import FieldDataError, SkopError
from skop.ops import traceable_scans

__all__ = ["ROUNDING", "Graph", "export_graph", "samples_of"]

#: Largest difference between the graph and `predict`, relative to the largest output.
_TOLERANCE = 1e-4
#: Differences below this part of the deviation of an output in the fit are rounding, as where a field is zero.
ROUNDING = 1e-6
_SUFFIXES = (".onnx", ".pt2")


class Graph(nn.Module):
    """A graph for the points of given samples; a subclass maps the inputs by name in `_predicted`.

    Parameters
    ----------
    samples : FieldSet
        Samples on these points.
    given : dict of str to torch.dtype
        Inputs, among ``"coords"``, ``"fields"`` and ``"params"``, with the precisions in which they are given.
    returned : dict of str to (int, torch.dtype)
        Outputs, among ``"field"`` and ``"scalars"``, with their numbers of channels and precisions.
    """

    def __init__(
        self, samples: FieldSet, given: dict[str, torch.dtype], returned: dict[str, tuple[int, torch.dtype]]
    ) -> None:
        super().__init__()
        self.given, self.returned = given, returned
        self.sizes = {"coords": samples.n_dims, "fields": samples.n_channels, "params": samples.n_params}
        self.n_points, self.shown_grid = int(samples.n_points[0]), samples.grid_shape
        #: Whether digits are those of the field of each sample, as of a classical model, and not of a whole channel.
        self.keeps_fields = False
        #: Differences from `predict` that are rounding, for each channel of an output.
        self.rounding: dict[str, FloatArray] = {}
        #: Cause and remedy of a difference from `predict` that is too large.
        self.hint = ", which its precision does not explain; keep to predict, and report it with the file of the model."

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Map physical inputs, in the order of `given`, to physical outputs, in the order of `returned`."""
        flat = {
            name: values if name == "params" else values.reshape(values.shape[0], self.n_points, -1)
            for name, values in zip(self.given, inputs, strict=True)
        }
        field, scalars = self._predicted(flat)
        found = []
        if field is not None:
            found.append(field.reshape(field.shape[0], *self._points_axes(), field.shape[-1]))
        if scalars is not None:
            found.append(scalars)
        return tuple(found)

    def _predicted(self, flat: dict[str, torch.Tensor]) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Physical outputs of physical inputs, whose points have one axis."""
        raise NotImplementedError

    def _points_axes(self) -> GridShape:
        """Axes of the points of fields: those of the grid, if there is one."""
        return self.shown_grid or (self.n_points,)

    def arguments(self, samples: FieldSet, rows: Any) -> tuple[torch.Tensor, ...]:
        """Inputs of the graph for the samples at `rows`."""
        held = {"coords": samples.coords, "fields": samples.values, "params": samples.params}
        shapes = {name: tuple(row["shape"][1:]) for name, row in self.describe_inputs(None).items()}
        return tuple(
            torch.tensor(np.asarray(held[name])[rows].reshape(len(rows), *shapes[name])).to(dtype)
            for name, dtype in self.given.items()
        )

    def describe_inputs(self, batch_size: int | None) -> dict[str, dict[str, Any]]:
        """Names, shapes and types of the inputs."""
        first = "batch" if batch_size is None else batch_size
        return {
            name: {
                "shape": [first, *(() if name == "params" else self._points_axes()), self.sizes[name]],
                "dtype": _name(dtype),
            }
            for name, dtype in self.given.items()
        }

    def describe_outputs(self, form: Any, batch_size: int | None) -> dict[str, dict[str, Any]]:
        """Names, shapes, types and channel names of the outputs."""
        first = "batch" if batch_size is None else batch_size
        names = {"field": form.channel_names, "scalars": form.scalar_names}
        return {
            name: {
                "shape": [first, *(self._points_axes() if name == "field" else ()), width],
                "dtype": _name(dtype),
            }
            | ({} if names[name] is None else {"channels": list(names[name])})
            for name, (width, dtype) in self.returned.items()
        }


def _name(dtype: torch.dtype) -> str:
    """Name of a type as in NumPy."""
    return str(dtype).removeprefix("torch.")


def export_graph(
    estimator: Any,
    path: PathOrStr,
    batch_size: int | None,
    build: Callable[[bool], tuple[FieldSet, Graph]],
    predict: Callable[[FieldSet], Predictions],
) -> None:
    """Write a graph of a fitted estimator, which is compared with its predictions first.

    Parameters
    ----------
    estimator : FieldRegressor
        Fitted estimator.
    path : path-like
        File to write, ``*.onnx`` or ``*.pt2``.
    batch_size : int or None
        Number of samples of a call; None for any.
    build : callable
        Makes samples and the graph for their points, from whether it computes in single precision.
    predict : callable
        Predictions of samples, with which the graph is compared.
    """
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise ValueError(f"path is {str(path)!r}; expected a name that ends in {' or '.join(map(repr, _SUFFIXES))}.")
    require_writable(target)
    if batch_size is not None and (isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1):
        raise ValueError(f"batch_size is {batch_size!r}; expected an integer of at least 1, or None for any number.")
    onnx = _import_onnx_helper() if target.suffix == ".onnx" else None
    samples, graph = build(onnx is not None)
    _require_parity(graph, samples, predict(samples))
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


def samples_of(estimator: Any, X: Any, params: Any, made_up: FloatArray | None) -> FieldSet:
    """Read up to two samples whose points a graph is for.

    Parameters
    ----------
    estimator : FieldRegressor
        Fitted estimator.
    X, params : as in `predict`, or None
        Samples and their global parameters.
    made_up : ndarray of shape (2, p) or None
        Rows that stand for X where the fit was on a table and X is not given.

    Returns
    -------
    FieldSet
        One or two samples.

    Raises
    ------
    FieldDataError
        If X is needed, or its samples differ in their number of points.
    """
    if X is None:
        if estimator.spec_.has_fields or made_up is None:
            raise FieldDataError(
                "export needs X, one sample or more in the form of the fit: the graph is for the points of these "
                "samples, which the estimator does not hold."
            )
        X = made_up
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


def _require_parity(graph: Graph, samples: FieldSet, expected: Predictions) -> None:
    """Raise an error if the graph gives other numbers than `predict`."""
    with torch.no_grad(), traceable_scans():
        found = graph(*graph.arguments(samples, np.arange(len(samples))))
    truth = [part for part in (expected.fields, expected.scalars) if part is not None]
    for name, value, true in zip(graph.returned, found, truth, strict=True):
        differences = np.abs(value.double().numpy().reshape(true.shape) - true)
        axes = tuple(range(int(graph.keeps_fields and true.ndim > 2), true.ndim - 1))
        allowed = np.maximum(_TOLERANCE * np.abs(true).max(axes), graph.rounding.get(name, 0.0))
        if not (differences.max(axes) <= allowed).all():
            raise FieldDataError(f"the graph differs from predict by {differences.max():.1e}{graph.hint}")


# ---------------------------------------------------------------------- tracing
def _program(graph: Graph, arguments: tuple[torch.Tensor, ...], *, dynamic: bool) -> Any:
    """Trace a graph by `torch.export`."""
    shapes = None
    if dynamic:
        batch = torch.export.Dim("batch", min=1)
        shapes = (tuple({0: batch} for _ in arguments),)
    # Networks without gradients treat many points in pieces, whose number would depend on the batch.
    with torch.enable_grad(), traceable_scans(), _quiet():
        return torch.export.export(graph, arguments, dynamic_shapes=shapes, strict=False)


def _onnx_model(program: Any, graph: Graph, estimator: Any) -> Any:
    """Convert a traced program to ONNX."""
    names: dict[str, Any] = {"input_names": list(graph.given), "output_names": list(graph.returned)}
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
            where = f" on geometry {estimator.geometry_!r}" if hasattr(estimator, "geometry_") else ""
            raise SkopError(
                f"PyTorch cannot convert this {type(estimator).__name__}{where} to ONNX ({reason}); export it to a "
                "'.pt2' file instead."
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
