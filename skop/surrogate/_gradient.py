"""Derivatives of the outputs with respect to the global parameters, by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray, IntArray
from skop.data import Batch, FieldLoader, FieldSet
from skop.exceptions import FieldDataError, NonFinitePredictionError
from skop.networks import Outputs
from skop.surrogate._stages import PREDICT_POINTS
from skop.surrogate._surrogate import Surrogate

__all__ = ["gradient"]


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
    select = _selection(surrogate, output)
    if inputs.params is None or surrogate.scalers.params is None:
        raise FieldDataError(
            "gradient needs global parameters: a table X, a FieldSet with params, or params=... beside fields or "
            "meshes; X has none."
        )
    if surrogate.spec.resampler is not None:
        raise FieldDataError(
            "gradient does not go through the resampling of grid=...; fit on a grid or on points instead."
        )
    if max(surrogate.refine.factors(inputs)) > 1:
        raise FieldDataError("gradient needs the spacing of the training grid, but X is on a finer grid.")
    loaders, parts = surrogate.loaders(inputs), []
    # A function of the field gets samples of one size, with an axis of the samples.
    alone = inputs.is_ragged and callable(output)
    for indices, _ in loaders[0].bounded_batches(0 if alone else PREDICT_POINTS):
        with torch.inference_mode(False), torch.enable_grad():
            params = torch.tensor(np.asarray(inputs.params[indices], dtype=np.float64), requires_grad=True)
            values = select(_mean_outputs(surrogate, loaders, indices, params))
            if not values.requires_grad:
                raise FieldDataError("output has no gradient; compute it from the field by torch operations.")
            if surrogate.scalers.learns_logarithms and not torch.isfinite(values).all():
                raise NonFinitePredictionError(
                    f"the output is not finite in sample {indices[int(torch.argmin(torch.isfinite(values).int()))]}"
                    ": X holds numbers far from those of the training. Check its units."
                )
            parts.append(torch.autograd.grad(values.sum(), params)[0].numpy())
    return np.concatenate(parts)


def _selection(surrogate: Surrogate, output: Any) -> Callable[[Outputs], torch.Tensor]:
    """Return the function that computes one number for each sample from outputs in physical units."""
    spec = surrogate.spec
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
            # Base models are not combined with averages over symmetries, so that no sample is moved here.
            batch.base, batch.base_scalars = _base_tensors(surrogate, params, loader.inputs[indices], batch)
        outputs = surrogate.network(**batch.inputs())
        if surrogate.scalers.learns_logarithms:
            outputs = surrogate.widened(outputs)
        found.append(surrogate.restored(outputs, loader, batch))
    return Outputs(*(None if part[0] is None else torch.stack(part).mean(dim=0) for part in zip(*found, strict=True)))


def _base_tensors(
    surrogate: Surrogate, params: torch.Tensor, inputs: FieldSet, batch: Batch
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Predictions of the base for a batch, differentiable with respect to the parameters."""
    field, scalars = surrogate.base.predict_tensors(params, inputs)
    if field is not None and batch.order is not None:
        field = field.reshape(-1, field.shape[-1])[torch.as_tensor(batch.order)].reshape(field.shape)
    if surrogate.is_base_alone:
        return field, scalars
    options: Any = (surrogate.device, surrogate.dtype)
    return None if field is None else field.to(*options), None if scalars is None else scalars.to(*options)
