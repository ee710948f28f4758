"""Option objects: parameters that few users change, in groups that are scikit-learn estimators themselves.

An estimator takes them as arguments such as ``training=TrainingOptions(weight_decay=0.01)``; searches reach
into them as ``training__weight_decay``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from skop._sklearn_compat import Interval, StrOptions
from skop.training import SCHEDULES

__all__ = ["Options", "SymmetryOptions", "TrainingOptions"]


class Options(BaseEstimator):
    """Base of the option objects: it lists them by name, so that model files can name them."""

    known: ClassVar[dict[str, type[Options]]] = {}

    _parameter_constraints: ClassVar[dict[str, list[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Options.known[cls.__name__] = cls


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingOptions(Options):
    """How the weights of an operator regressor are trained, beyond epochs, batches and learning rate.

    Parameters
    ----------
    loss_reduction : {"mean", "sum"}, default="mean"
        Reduction of the loss over the samples of a batch (public code of LaMO: sum).
    scalar_weight : float, default=1.0
        Weight of the loss of scalars beside a field, at least 0.
    schedule : {"cosine", "one_cycle", "constant"}, default="cosine"
        Learning rate over the steps, see `skop.training.schedule_at` (papers: one_cycle).
    schedule_interval : {"step", "epoch"}, default="step"
        How often the learning rate changes (public code of LaMO: each epoch for elasticity).
    warmup_fraction : float, default=0.15
        Part of the training, in [0, 1], in which ``"cosine"`` and ``"constant"`` rise to the peak rate.
    weight_decay : float, default=0.1
        Weight decay of AdamW (papers: 1e-5; 0.05 for LaMO on Navier-Stokes).
    decay_bias_and_norm : bool, default=False
        Whether weight decay applies to parameters of one axis too, such as biases and norms (papers: yes).
    beta_2 : float, default=0.99
        Decay of AdamW's mean of squared gradients, in [0, 1) (papers: 0.999).
    max_grad_norm : float or None, default=1.0
        Norm to which larger gradients are clipped; None does not clip (public code of LaMO: 0.1, or None for
        Navier-Stokes).
    ema_decay : float or None, default=0.99
        Decay of the exponential moving average (EMA) of the weights, which validates and predicts; None uses
        the last weights (papers).
    validation_fraction : float, default=0.1
        Part of the samples held out with ``early_stopping=True``, in (0, 1).
    tol : float, default=0.0001
        Fall of the validation error that counts as progress.
    autocast : {"bfloat16"} or None, default=None
        Mixed precision of the matrix products in training; the recurrences stay in float32.
    deterministic : bool, default=False
        Whether torch runs deterministic algorithms, on a GPU too, and predicts one sample at a time, so that a
        prediction is equal to the last bit whatever else is predicted with it.

    Examples
    --------
    >>> from skop import LaMORegressor, TrainingOptions
    >>> LaMORegressor(training=TrainingOptions(ema_decay=None)).set_params(training__tol=0).training.tol
    0
    """

    loss_reduction: str = "mean"
    scalar_weight: float = 1.0
    schedule: str = "cosine"
    schedule_interval: str = "step"
    warmup_fraction: float = 0.15
    weight_decay: float = 0.1
    decay_bias_and_norm: bool = False
    beta_2: float = 0.99
    max_grad_norm: float | None = 1.0
    ema_decay: float | None = 0.99
    validation_fraction: float = 0.1
    tol: float = 1e-4
    autocast: str | None = None
    deterministic: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss_reduction": [StrOptions({"mean", "sum"})],
        "scalar_weight": [Interval(Real, 0, None, closed="left")],
        "schedule": [StrOptions(set(SCHEDULES))],
        "schedule_interval": [StrOptions({"step", "epoch"})],
        "warmup_fraction": [Interval(Real, 0, 1, closed="both")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "decay_bias_and_norm": ["boolean"],
        "beta_2": [Interval(Real, 0, 1, closed="left")],
        "max_grad_norm": [Interval(Real, 0, None, closed="neither"), None],
        "ema_decay": [Interval(Real, 0, 1, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "autocast": [StrOptions({"bfloat16"}), None],
        "deterministic": ["boolean"],
    }


@dataclass(kw_only=True, eq=False, repr=False)
class SymmetryOptions(Options):
    """Symmetries that hold for the problem, on regular grids.

    Parameters
    ----------
    names : sequence of str, default=()
        Symmetries that training samples are moved by at random; see `skop.data.GridSymmetries` for the names.
    domain : array-like of shape (d, 2) or None, default=None
        Ends of the domain about whose centre the symmetries are; None takes the box of the grid.
    input_vectors, target_vectors : sequence of sequence of int, default=()
        Channels that are the d components of a vector and turn with a symmetry, one tuple for each vector.
    average_predictions : bool, default=False
        Whether predictions are averaged over all symmetries but periodic shifts, which multiplies their cost by
        the order of the group.

    Examples
    --------
    >>> from skop import LaMORegressor, SymmetryOptions
    >>> LaMORegressor(symmetries=SymmetryOptions(names=("flip_x",), average_predictions=True)).symmetries.names
    ('flip_x',)
    """

    names: Any = ()
    domain: Any = None
    input_vectors: Any = ()
    target_vectors: Any = ()
    average_predictions: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "names": ["array-like"],
        "domain": ["array-like", None],
        "input_vectors": ["array-like"],
        "target_vectors": ["array-like"],
        "average_predictions": ["boolean"],
    }
