"""What the analyses of fitted networks share: the samples to analyse, and a network that is left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from skop.data import FieldSet
from skop.estimators.operators._base import OperatorRegressor
from skop.exceptions import FieldDataError
from skop.surrogate._correction import CorrectionNetwork

__all__ = ["check_spacing", "evaluating", "network_name", "read_samples"]


def read_samples(estimator: Any, X: Any) -> FieldSet:
    """Read the samples to analyse an estimator with.

    Parameters
    ----------
    estimator : OperatorRegressor
        Fitted estimator.
    X : as in `fit` of the estimator
        Samples.

    Returns
    -------
    FieldSet
        The samples.

    Raises
    ------
    ValueError
        If the estimator is of another class or not fitted.
    FieldDataError
        If X is not of the form that the estimator was fitted on.
    """
    if not isinstance(estimator, OperatorRegressor):
        raise ValueError(
            f"estimator is a {type(estimator).__name__}, expected a LaMORegressor, GeoMaNORegressor, AMORegressor or "
            "MNORegressor; of a Pipeline, a search or an ensemble pass the fitted regressor inside, and X as that one "
            "gets it."
        )
    return estimator._read_inputs(X)[0]


def check_spacing(estimator: OperatorRegressor, inputs: FieldSet) -> None:
    """Raise FieldDataError if the grid of the samples is finer than what the network sees in a prediction."""
    factors = estimator.surrogate_.refine.factors(inputs)
    if max(factors) > 1:
        raise FieldDataError(
            f"X is {'x'.join(map(str, factors))} times finer than the training grid, where predict joins several "
            "predictions; pass X with the spacing of the training."
        )


def network_name(network: torch.nn.Module) -> str:
    """Name of the class of a network, of that within if it is over a base."""
    return type(network.network if isinstance(network, CorrectionNetwork) else network).__name__


@contextmanager
def evaluating(network: torch.nn.Module) -> Iterator[None]:
    """Switch off dropout within the block, and restore the mode of every module afterwards.

    Over a base it is the whole network, whatever its share of the prediction is.
    """
    modes = [(module, module.training) for module in network.modules()]
    shares = (network.field_share, network.scalar_share) if isinstance(network, CorrectionNetwork) else ()
    held = [share.clone() for share in shares]
    network.eval()
    try:
        for share in shares:
            share.fill_(1.0)
        yield
    finally:
        for share, values in zip(shares, held, strict=True):
            share.copy_(values)
        for module, training in modes:
            module.training = training
