"""Effective receptive field: the mean absolute gradient of one output point with respect to every input point.

Notation: B samples of a batch, P points, d space dimensions, u units (channels or features).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch

from skop._typing import FloatArray, GridShape
from skop.data import FieldSet
from skop.exceptions import FieldDataError
from skop.inspection._analysis import check_spacing, evaluating, network_name, read_samples

__all__ = ["MeasuredField", "measure_field", "receptive_field"]

#: Number of points that are differentiated at once, which bounds the memory for intermediate results.
_GRADIENT_POINTS = 2**14
#: Tolerance for coordinates outside the grid, as a fraction of its extent.
_SLACK = 1e-6


@dataclass(frozen=True)
class MeasuredField:
    """Receptive field with its point and grid.

    Attributes
    ----------
    field : ndarray of shape grid_shape
        Mean absolute gradient with respect to the input at each point of the grid.
    point : tuple of int
        Output point, as its index along each axis of the grid.
    coords : ndarray of shape (P, d)
        Coordinates of the grid points in C order.
    patch_shape : tuple of int or None
        Number of points of a patch along each axis; None if the network has no patches.
    """

    field: FloatArray
    point: tuple[int, ...]
    coords: FloatArray
    patch_shape: GridShape | None


def receptive_field(estimator: Any, X: Any, *, point: Any = None, layer: int | None = None) -> FloatArray:
    """Return the effective receptive field of one point of the output.

    It is the mean of ``abs(d output(point) / d input(p))`` over samples, output channels and input channels, for every
    point p of the grid. Inputs and outputs are scaled, so that channels are comparable.

    Parameters
    ----------
    estimator : LaMORegressor, GeoMaNORegressor, AMORegressor or MNORegressor
        Estimator that was fitted on fields on a grid; it is not modified.
    X : as in `fit` of the estimator
        Samples to average over, on one grid with the spacing of the training grid; a few dozen are enough.
    point : int, sequence of int, sequence of float, or None, default=None
        Output point. Integers are its indices along the axes of the grid; negative ones count from the end. Floats are
        coordinates, for which the nearest point is used. None is the middle of the grid.
    layer : int or None, default=None
        Index of a block, where -1 is the last. The features of the token of the point's patch after this block are
        differentiated instead of the output. This needs a network on patches, and one gradient for each feature.

    Returns
    -------
    ndarray of shape grid_shape
        Mean absolute gradient with respect to the input at each point of the grid.

    Raises
    ------
    FieldDataError
        If X has no fields, samples do not share a grid, the estimator predicts only scalars and `layer` is None, X is
        finer than the training grid so that several predictions are averaged, or the point does not exist.
    ValueError
        If the estimator is of another class or not fitted, or the layer does not exist.

    See Also
    --------
    ReceptiveFieldDisplay : Plot of a receptive field, with the share on the row and the column of the point.

    Notes
    -----
    The network itself is differentiated, without averaging over symmetries. Over a ``base`` it is the whole network,
    whatever its share of the prediction is, and the predictions of the base, which it may read, are constants.

    References
    ----------
    W. Luo, Y. Li, R. Urtasun and R. Zemel, "Understanding the effective receptive field in deep convolutional
    neural networks", NeurIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import GeoMaNORegressor
    >>> from skop.inspection import receptive_field
    >>> X = np.random.default_rng(0).random((8, 6, 4, 1))
    >>> model = GeoMaNORegressor(width=8, depth=1, d_state=2, max_iter=1, random_state=0).fit(X, 2 * X)
    >>> receptive_field(model, X, point=(0, 3)).shape
    (6, 4)
    """
    return measure_field(estimator, X, point, layer).field


def measure_field(estimator: Any, X: Any, point: Any, layer: int | None) -> MeasuredField:
    """Compute a receptive field, and return it with its point and grid.

    Parameters
    ----------
    estimator, X, point, layer : as in `receptive_field`
        Estimator, samples, output point and layer.

    Returns
    -------
    MeasuredField
        Receptive field, point and grid.

    Raises
    ------
    FieldDataError, ValueError
        Same errors as `receptive_field`.
    """
    inputs = _read_grid(estimator, X, layer)
    coords = _shared_points(inputs)
    index = _find_point(point, coords, _grid_of(inputs))
    field = _mean_gradient(estimator, inputs, index, layer)
    return MeasuredField(field, index, coords, getattr(estimator.module_, "patch_shape", None))


def _read_grid(estimator: Any, X: Any, layer: int | None) -> FieldSet:
    """Read samples for a receptive field."""
    inputs = read_samples(estimator, X)
    if inputs.n_channels == 0:
        raise FieldDataError("X has no input fields, so there is nothing to differentiate by; pass X with fields.")
    if layer is None and not estimator.spec_.n_outputs:
        raise FieldDataError(
            f"the estimator predicts {estimator.spec_.n_scalars} scalars of a sample, which belong to no point; pass "
            "layer=-1 for the features of the point's token after the last block."
        )
    shape = inputs.grid_shape
    if shape is None or estimator.spec_.geometry == "points" or len(shape) != inputs.n_dims:
        who = "X lies" if shape is None else "the estimator was fitted"
        raise FieldDataError(
            f"{who} on points that form no {inputs.n_dims}-D grid in C order, but a receptive field needs one; "
            "resample the fields onto a grid, sort the points by skop.data.find_grid(coords)[1], or state grid_shape "
            "in a FieldSet."
        )
    check_spacing(estimator, inputs)
    return inputs


def _shared_points(inputs: FieldSet) -> FloatArray:
    """Return the points (P, d) of the grid that all samples share."""
    if inputs.shared_coords:
        return inputs.coords
    if not (inputs.coords == inputs.coords[:1]).all():
        raise FieldDataError(
            "the samples of X have different grids, over which a receptive field cannot be averaged; pass samples of "
            "one grid, such as X[[0]]."
        )
    return inputs.coords[0]


def _grid_of(inputs: FieldSet) -> GridShape:
    """Return the shape of the grid of samples that have one."""
    return inputs.grid_shape or ()


def _find_point(point: Any, coords: FloatArray, shape: GridShape) -> tuple[int, ...]:
    """Return the indices of a point along the axes of the grid."""
    if point is None:
        return tuple(size // 2 for size in shape)
    place = np.atleast_1d(np.asarray(point))
    if place.shape != (len(shape),) or place.dtype.kind not in "iuf":
        raise FieldDataError(
            f"point is {point!r}, expected {len(shape)} integers (its place on the grid) or coordinates."
        )
    if place.dtype.kind != "f":
        if any(not -size <= number < size for number, size in zip(place, shape, strict=True)):
            raise FieldDataError(f"point {point!r} is not on the grid {shape}; indices run from 0 along each axis.")
        return tuple(int(number) % size for number, size in zip(place, shape, strict=True))
    low, high = coords.min(axis=0), coords.max(axis=0)
    slack = _SLACK * (high - low)
    if not ((low - slack <= place) & (place <= high + slack)).all():
        raise FieldDataError(f"point {point!r} lies outside the grid, which runs from {low} to {high}.")
    nearest = int(((coords - place) ** 2).sum(axis=1).argmin())
    return tuple(int(number) for number in np.unravel_index(nearest, shape))


def _mean_gradient(estimator: Any, inputs: FieldSet, index: tuple[int, ...], layer: int | None) -> FloatArray:
    """Mean absolute gradient over samples, units and channels, on the grid."""
    network, shape = estimator.module_, _grid_of(inputs)
    row, total, n_terms = int(np.ravel_multi_index(index, shape)), np.zeros(shape), 0
    block = None if layer is None else _check_layer(network, layer)
    with torch.inference_mode(False), torch.enable_grad(), evaluating(network):
        for _, batch in estimator.surrogate_.loader(inputs).bounded_batches(_GRADIENT_POINTS):
            batch.fields = batch.fields.detach().requires_grad_()
            arguments = batch.inputs()
            units = _token_at(network, arguments, index, block) if block else _output_at(network, arguments, row)
            for number in range(units.shape[1]):
                # Samples of a batch are independent, so the gradient of their sum contains the gradient of each.
                kept = number + 1 < units.shape[1]
                (gradient,) = torch.autograd.grad(units[:, number].sum(), batch.fields, retain_graph=kept)
                total += gradient.abs().sum(dim=(0, 2)).cpu().double().numpy().reshape(shape)
            n_terms += units.shape[1] * batch.fields.shape[0] * batch.fields.shape[2]
    return total / n_terms


def _check_layer(network: torch.nn.Module, layer: int) -> torch.nn.Module:
    """Return a block of a network on patches."""
    blocks: Any = getattr(network, "blocks", ())
    if not hasattr(network, "patch_shape"):
        raise ValueError(
            f"layer is {layer}, but the {network_name(network)} has no token for each patch; set layer=None, or fit "
            "on a straight grid."
        )
    if not isinstance(layer, Integral) or not -len(blocks) <= layer < len(blocks):
        raise ValueError(f"layer is {layer!r}, but the network has {len(blocks)} blocks, from 0 to {len(blocks) - 1}.")
    return blocks[layer]


def _forward(network: torch.nn.Module, arguments: dict[str, Any]) -> Any:
    """Run the network with constant weights, so that only gradients of the inputs are computed."""
    parameters = {name: held.detach() for name, held in network.named_parameters()}
    return torch.func.functional_call(network, parameters, (), arguments)


def _output_at(network: torch.nn.Module, arguments: dict[str, Any], row: int) -> torch.Tensor:
    """Output channels (B, u) at a point."""
    outputs = _forward(network, arguments)
    return outputs.field[:, row]


def _token_at(
    network: torch.nn.Module, arguments: dict[str, Any], index: tuple[int, ...], block: torch.nn.Module
) -> torch.Tensor:
    """Features (B, u) after a block of the token whose patch contains a point."""
    seen: list[Any] = []
    handle = block.register_forward_hook(lambda _, received, tokens: seen.append((tokens, received[1])))
    try:
        _forward(network, arguments)
    finally:
        handle.remove()
    ((tokens, counts),) = seen
    patch_shape: Any = network.patch_shape
    place = [number // patch for number, patch in zip(index, patch_shape, strict=True)]
    return tokens[:, int(np.ravel_multi_index(place, counts))]
