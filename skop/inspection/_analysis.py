"""What analyses share: names and selections of samples, and runs of a network that leave it as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from skop._typing import GridShape
from skop.data import FieldSet
from skop.estimators.operators._base import OperatorRegressor
from skop.exceptions import FieldDataError
from skop.modules import observe_features
from skop.surrogate._correction import CorrectionNetwork

__all__ = ["each_batch", "named", "network_name", "noted", "read_samples", "take"]

T = TypeVar("T")


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


def read_samples(estimator: Any, X: Any, *, resample: bool = True) -> FieldSet:
    """Read samples of the spacing of `fit`, and bring them to the grid of the network if it has one of its own."""
    if not isinstance(estimator, OperatorRegressor):
        raise ValueError(
            f"estimator is a {type(estimator).__name__}, expected a LaMORegressor, GeoMaNORegressor, AMORegressor or "
            "MNORegressor; of a Pipeline, a search or an ensemble pass the fitted regressor inside, and X as that one "
            "gets it."
        )
    inputs = estimator._read_inputs(X)[0]
    if resample and estimator.spec_.resampler is not None:
        inputs = estimator.spec_.resampler.to_grid(inputs)
    factors = estimator.surrogate_.refine.factors(inputs)
    if max(factors) > 1:
        raise FieldDataError(
            f"X is {'x'.join(map(str, factors))} times finer than the training grid, where predict joins several "
            "predictions; pass X with the spacing of the training."
        )
    return inputs


def network_name(network: torch.nn.Module) -> str:
    """Name of the class of a network, of that within if it is over a base."""
    return type(network.network if isinstance(network, CorrectionNetwork) else network).__name__


def each_batch(
    estimator: Any, inputs: FieldSet, n_points: int, measure: Callable[[Any, int], T], *, gradients: bool = False
) -> list[T]:
    """Results of a function of (batch, its number of samples) for batches of so many points, without dropout.

    Over a base it is the whole network, whatever its share of the prediction is. All is restored afterwards.
    """
    network = estimator.module_
    modes = [(module, module.training) for module in network.modules()]
    shares = (network.field_share, network.scalar_share) if isinstance(network, CorrectionNetwork) else ()
    held = [share.clone() for share in shares]
    network.eval()
    with torch.inference_mode(not gradients), torch.set_grad_enabled(gradients):
        try:
            for share in shares:
                share.fill_(1.0)
            batches = estimator.surrogate_.loader(inputs).bounded_batches(n_points)
            return [measure(batch, len(indices)) for indices, batch in batches]
        finally:
            for share, values in zip(shares, held, strict=True):
                share.copy_(values)
            for module, training in modes:
                module.training = training


def noted(
    network: torch.nn.Module,
    batch: Any,
    kinds: tuple[str, ...],
    measure: Callable[[str, torch.Tensor, GridShape | None], T],
) -> list[T]:
    """Results of a function of (kind, values, grid) for what the layers note of a batch, where it is of these kinds."""
    found: list[T] = []

    def observer(kind: str, values: torch.Tensor, grid: GridShape | None) -> None:
        if kind in kinds:
            found.append(measure(kind, values, grid))

    with observe_features(observer):
        network(**batch.inputs())
    return found
