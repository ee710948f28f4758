"""What analyses share: names and selections of samples, and runs of a network that leave it as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from skop._typing import GridShape
from skop.data import FieldSet
from skop.estimators.operators._operator import OperatorRegressor
from skop.exceptions import FieldDataError
from skop.modules import observe_features
from skop.surrogate._correction import CorrectionNetwork, network_within
from skop.surrogate._surrogate import evaluation

__all__ = ["each_batch", "named", "network_name", "noted", "on_shared_points", "read_samples", "take"]

T = TypeVar("T")

#: Number of points that are evaluated or differentiated at once, which bounds the memory for intermediate results.
_POINTS = 2**14


def named(names: Sequence[str] | None, count: int, kind: str = "sample") -> tuple[str, ...]:
    """Names of samples or channels, or their numbers; FieldDataError unless there is one for each."""
    labels = tuple(f"{kind} {number}" for number in range(count)) if names is None else tuple(names)
    if len(labels) != count:
        raise FieldDataError(f"there are {len(labels)} names for {count} {kind}s; pass one for each.")
    return labels


def take(value: Any, rows: Any) -> Any:
    """Samples of an array, a FieldSet, a DataFrame or a list, in the same form."""
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    return [value[row] for row in rows] if isinstance(value, list) else value[rows]


def on_shared_points(inputs: FieldSet) -> bool:
    """Whether all samples are on the same points, which meshes without fields, for one, repeat for each sample."""
    coords = inputs.coords
    return inputs.shared_coords or (not inputs.is_ragged and bool((coords == coords[:1]).all()))


def read_samples(estimator: Any, X: Any, *, resample: bool = True, on_grid_for: str | None = None) -> FieldSet:
    """Read samples of the spacing of `fit`, and bring them to the grid of the network if it has one of its own.

    An analysis that is named needs points on a grid.
    """
    if not isinstance(estimator, OperatorRegressor):
        raise ValueError(
            f"estimator is a {type(estimator).__name__}, expected a LaMORegressor or another operator; of a "
            "Pipeline, a search or an ensemble pass the fitted operator inside, and X as that one gets it."
        )
    inputs = estimator._read_inputs(X)[0]
    if resample and estimator.spec_.resampler is not None:
        inputs = estimator.spec_.resampler.to_grid(inputs)
    shape = inputs.grid_shape
    if not estimator.surrogate_.refine.is_direct(inputs):
        raise FieldDataError(
            f"X is on a grid of {' x '.join(map(str, shape or ()))} points, where predict interpolates predictions at "
            "the spacing of the fit; pass X on the grid of the fit."
        )
    geometry = estimator.geometry_ if resample else estimator.spec_.geometry
    if on_grid_for and (shape is None or geometry == "points" or len(shape) != inputs.n_dims):
        grid = f"{inputs.n_dims}-D grid in C order"
        lies = f"X lies on points that form no {grid}"
        if shape is not None and len(shape) == inputs.n_dims:
            lies = "the estimator takes its points in any order (geometry 'points')"
        remedy = "resample them with grid='auto'" if resample else "resample the fields onto a grid"
        raise FieldDataError(
            f"{lies}, but a {on_grid_for} needs a {grid}; fit and pass points of a grid (sort them by "
            "numpy.lexsort(coords.T[::-1]), or state grid_shape in a FieldSet) with geometry='auto', or "
            f"{remedy}."
        )
    return inputs


def network_name(network: torch.nn.Module) -> str:
    """Name of the class of a network, of that within if it is over a base or a frame."""
    return type(network_within(network)).__name__


def each_batch(
    estimator: Any, inputs: FieldSet, measure: Callable[[Any, int], T], *, gradients: bool = False
) -> list[T]:
    """Results of a function of (batch, its number of samples) for all batches, without dropout.

    Over a base it is the whole network, whatever its share of the prediction is. All is restored afterwards.
    """
    network = estimator.module_
    shares = (network.field_share, network.scalar_share) if isinstance(network, CorrectionNetwork) else ()
    held = [share.clone() for share in shares]
    surrogate = estimator.surrogate_
    with evaluation(surrogate), torch.inference_mode(not gradients), torch.set_grad_enabled(gradients):
        try:
            for share in shares:
                share.fill_(1.0)
            # Mixers may take packed samples apart, so that one at a time keeps a call of a mixer a layer.
            batches = surrogate.loader(inputs).bounded_batches(0 if inputs.is_ragged else _POINTS)
            return [measure(batch, len(indices)) for indices, batch in batches]
        finally:
            for share, values in zip(shares, held, strict=True):
                share.copy_(values)


def noted(
    estimator: Any,
    inputs: FieldSet,
    kinds: tuple[str, ...],
    measure: Callable[[str, torch.Tensor, GridShape | None, int], T],
    missing: str,
    *,
    matrices: bool = False,
) -> list[list[T]]:
    """Results of a function of (kind, values, grid, number of samples) for what layers note, of each batch.

    Matrices are noted where they are asked for. Layers that note nothing of these kinds are an error, in words with a
    place for the name of the network.
    """

    def each_layer(batch: Any, n_samples: int) -> list[T]:
        found: list[T] = []

        def observer(kind: str, values: torch.Tensor, grid: GridShape | None) -> None:
            if kind in kinds:
                found.append(measure(kind, values, grid, n_samples))

        with observe_features(observer, matrices=matrices):
            estimator.module_(**batch.inputs())
        return found

    parts = each_batch(estimator, inputs, each_layer)
    if not parts[0]:
        raise ValueError(missing.format(network_name(estimator.module_)))
    return parts
