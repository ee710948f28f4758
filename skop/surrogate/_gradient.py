"""Derivatives of the outputs with respect to the global parameters, by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray, IntArray
from skop.data import Batch, DataSpec, FieldLoader, FieldSet
from skop.exceptions import FieldDataError, NonFinitePredictionError
from skop.networks import Outputs
from skop.surrogate._stages import PREDICT_POINTS
from skop.surrogate._surrogate import Surrogate, evaluation

__all__ = ["derivatives", "gradient", "selection"]


def gradient(surrogate: Surrogate, inputs: FieldSet, output: Any) -> FloatArray:
    """Return the derivative of an output with respect to the global parameters.

    Parameters
    ----------
    surrogate : Surrogate
        Fitted operator.
    inputs : FieldSet
        n samples with p global parameters.
    output : int, callable or None
        Output, as in `skop.LaMORegressor.gradient`.

    Returns
    -------
    ndarray of shape (n, p)
        Derivatives, in units of the output per unit of the parameter.

    Raises
    ------
    FieldDataError
        If there are no parameters, a stage has no derivative, or `output` does not match the predictions.
    """
    select = selection(surrogate.spec, inputs, output)
    if not surrogate.refine.is_direct(inputs):
        raise FieldDataError("gradient needs the grid of the fit, but X is on a grid of another spacing.")
    loaders = surrogate.loaders(inputs)

    def values(indices: IntArray, params: torch.Tensor) -> torch.Tensor:
        """The output of some samples."""
        found = select(_mean_outputs(surrogate, loaders, indices, params))
        if surrogate.scalers.learns_logarithms and not torch.isfinite(found).all():
            raise NonFinitePredictionError(
                f"the output is not finite in sample {indices[int(torch.argmin(torch.isfinite(found).int()))]}"
                ": X holds numbers far from those of the training. Check its units."
            )
        return found

    # A function of the field gets samples of one size, with an axis of the samples.
    alone = inputs.is_ragged and callable(output)
    batches = loaders[0].bounded_batches(0 if alone else PREDICT_POINTS)
    with evaluation(surrogate):
        return derivatives(values, inputs.params, (indices for indices, _ in batches))


def derivatives(values: Callable[[Any, torch.Tensor], torch.Tensor], params: Any, batches: Iterable[Any]) -> FloatArray:
    """Return the derivatives of one number of each sample with respect to its global parameters.

    Parameters
    ----------
    values : callable
        Function of the indices of B samples and of their parameters, a tensor ``(B, p)`` in double precision; it
        returns a tensor ``(B,)``.
    params : ndarray of shape (n, p)
        Global parameters.
    batches : iterable of (ndarray of int or slice)
        Indices of the samples of each batch.

    Returns
    -------
    ndarray of shape (n, p)
        Derivatives.

    Raises
    ------
    FieldDataError
        If the numbers have no derivative.
    """
    parts = []
    for indices in batches:
        with torch.inference_mode(False), torch.enable_grad():
            given = torch.tensor(np.asarray(params[indices], dtype=np.float64), requires_grad=True)
            found = values(indices, given)
            if not found.requires_grad:
                raise FieldDataError("output has no gradient; compute it from the field by torch operations.")
            parts.append(torch.autograd.grad(found.sum(), given)[0].numpy())
    return np.concatenate(parts)


def selection(spec: DataSpec, inputs: FieldSet, output: Any) -> Callable[[Outputs], torch.Tensor]:
    """Return the function that computes one number for each sample from outputs in physical units.

    Parameters
    ----------
    spec : DataSpec
        Form and sizes of X and y of the fit.
    inputs : FieldSet
        Samples of which derivatives are asked for.
    output : int, callable or None
        Output, as in `skop.LaMORegressor.gradient`.

    Returns
    -------
    callable
        Function of outputs of B samples that returns a tensor ``(B,)``.

    Raises
    ------
    FieldDataError
        If `output` does not match the predictions, there are no parameters, or samples are resampled to a grid.
    """
    select = _selected(spec, output)
    if inputs.params is None or not spec.n_params:
        raise FieldDataError(
            "gradient needs global parameters: a table X, a FieldSet with params, or params=... beside fields or "
            "meshes; X has none."
        )
    if spec.resampler is not None:
        raise FieldDataError(
            "gradient does not go through the resampling of grid=...; fit on a grid or on points instead."
        )
    return select


def _selected(spec: DataSpec, output: Any) -> Callable[[Outputs], torch.Tensor]:
    """The function of outputs that an output stands for."""
    if callable(output):
        if not spec.n_outputs:
            raise FieldDataError("output is a function, but the estimator predicts scalars; pass an index.")
        if spec.target_points != "inputs":
            raise FieldDataError(
                "gradient of a function of the field needs fields on the points of X, but y of the fit was on "
                "other points; fit with y interpolated to the points of X."
            )
        return lambda outputs: _one_number_each(output(outputs.field), outputs.field)
    number = 0 if output is None and spec.n_scalars == 1 else output
    if not isinstance(number, Integral) or int(number) not in range(spec.n_scalars):
        raise FieldDataError(
            f"output is {output!r}, but the estimator predicts {spec.n_scalars} scalars; pass the number of one, or a "
            "function of the field that gives one number for each sample."
        )
    return lambda outputs: outputs.scalars[:, int(number)]  # type: ignore[index]


def _one_number_each(values: Any, field: torch.Tensor | None) -> torch.Tensor:
    """Check the result of a caller's function: one number for each sample."""
    if field is None or not isinstance(values, torch.Tensor) or values.shape != field.shape[:1]:
        came = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
        raise FieldDataError(
            f"output gives {came}; expected a tensor of shape ({0 if field is None else len(field)},), one number "
            "for each sample, such as field[..., 0].amax(dim=1)."
        )
    return values


def _mean_outputs(surrogate: Surrogate, loaders: list[FieldLoader], indices: IntArray, params: torch.Tensor) -> Outputs:
    """Outputs for given global parameters as differentiable tensors, averaged over the loaders."""
    # The identity is the first symmetry.
    scaled, found = loaders[0].as_params(params), []
    for loader in loaders:
        batch = loader.gather(indices)
        turns = loader.symmetries is not None and loader.symmetries.param_vectors
        batch.params = loader.as_params(params) if turns else scaled
        if surrogate.base is not None:
            batch.base, batch.base_scalars = _base_tensors(surrogate, params, loader, indices, batch)
        outputs = surrogate.network(**batch.inputs())
        if surrogate.scalers.learns_logarithms:
            outputs = surrogate.widened(outputs)
        found.append(surrogate.restored(outputs, loader, batch))
    return Outputs(*(None if part[0] is None else torch.stack(part).mean(dim=0) for part in zip(*found, strict=True)))


def _base_tensors(
    surrogate: Surrogate, params: torch.Tensor, loader: FieldLoader, indices: IntArray, batch: Batch
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Predictions of the base for a batch, moved with its samples, and differentiable by the parameters."""
    field, scalars = surrogate.base.predict_tensors(params, loader.inputs[indices])
    if loader.symmetries is not None and loader.element is not None:
        parts = {"base": field, "base_scalars": scalars, "query_base": None}
        loader.move_base(parts, indices, loader.symmetries.element(loader.element, len(indices)))
        field, scalars = parts["base"], parts["base_scalars"]
    if field is not None and batch.order is not None:
        field = field.reshape(-1, field.shape[-1])[torch.as_tensor(batch.order)].reshape(field.shape)
    if surrogate.is_base_alone:
        return field, scalars
    options: Any = (surrogate.device, surrogate.dtype)
    return None if field is None else field.to(*options), None if scalars is None else scalars.to(*options)
