"""Option objects: groups of parameters that few users change. Each group is a scikit-learn estimator itself.

They are passed as arguments such as ``training=TrainingOptions(weight_decay=0.01)``. In searches a parameter in them
has a name such as ``training__weight_decay``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from skop._sklearn_compat import Interval, StrOptions
from skop.training import ONE_CYCLE, SCHEDULES

__all__ = ["Options", "SymmetryOptions", "TrainingOptions"]


class Options(BaseEstimator):
    """Base class of the option objects, which registers them by name for model files."""

    known: ClassVar[dict[str, type[Options]]] = {}

    _parameter_constraints: ClassVar[dict[str, list[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Options.known[cls.__name__] = cls


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingOptions(Options):
    """Parameters of the training of an operator regressor, in addition to epochs, batch size and learning rate.

    Parameters
    ----------
    loss_reduction : {"mean", "sum"}, default="mean"
        Reduction of the loss over the samples of a batch (public code of LaMO: sum).
    scalar_weight : float, default=1.0
        Weight of the loss of scalars that are predicted in addition to a field, at least 0.
    schedule : {"cosine", "one_cycle", "constant"}, default="cosine"
        Learning rate schedule, see `skop.training.schedule_at` (papers: ``"one_cycle"``).
    schedule_interval : {"step", "epoch"}, default="step"
        Interval at which the learning rate changes (public code of LaMO for elasticity: ``"epoch"``).
    warmup_fraction : float, default=0.15
        Fraction of the training, in [0, 1], in which ``"cosine"`` and ``"constant"`` rise to the peak learning rate.
    one_cycle : sequence of three floats, default=(0.3, 25.0, 10000.0)
        Shape of ``"one_cycle"``: fraction of the training in which the learning rate rises, in (0, 1), and the factors
        by which it starts below the peak and ends below the start (MNO: 0.2 to 0.3, 1e2 to 1e4, and 1e4 to 1e5).
    weight_decay : float, default=0.1
        Weight decay (decoupled L2 penalty) of AdamW (papers: 1e-5; 0.05 for LaMO on Navier-Stokes).
    decay_bias_and_norm : bool, default=False
        Whether weight decay also applies to biases, normalisations, decay rates, initial states of scans, centres of
        latent tokens and learned positional encodings (papers: yes).
    beta_2 : float, default=0.99
        Decay of AdamW's running mean of squared gradients, in [0, 1) (papers: 0.999).
    max_grad_norm : float or None, default=1.0
        Norm for gradient clipping: larger gradients are scaled down to it. None does not clip (public code of LaMO:
        0.1; None for Navier-Stokes).
    ema_decay : float or None, default=0.99
        Decay of the exponential moving average (EMA) of the weights, which is used for validation and prediction; None
        uses the weights of the last step (papers).
    validation_fraction : float, default=0.1
        Fraction of the samples that is held out for ``early_stopping=True``, in (0, 1).
    tol : float, default=0.0001
        Smallest decrease of the validation error that counts as progress in early stopping.
    autocast : {"bfloat16"} or None, default=None
        Precision of the matrix products in mixed-precision training; the scans stay in float32. None does not use mixed
        precision.
    deterministic : bool, default=False
        Whether to use deterministic algorithms, also on a GPU, and to predict one sample at a time, so that a
        prediction is bit for bit the same whatever other samples are predicted with it.

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
    one_cycle: Any = ONE_CYCLE
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
        "one_cycle": ["array-like"],
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
    """Symmetries of the problem on regular grids, for data augmentation and for averaged predictions.

    Parameters
    ----------
    names : sequence of str, default=()
        Symmetries by which training samples are transformed at random; see `skop.data.GridSymmetries` for the names.
    domain : array-like of shape (d, 2) or None, default=None
        Lower and upper end of the domain along each axis, about whose centre the samples are mirrored and rotated; None
        takes the bounding box of the grid.
    input_vectors, target_vectors : sequence of sequence of int, default=()
        Channels that are the d components of a vector, one tuple for each vector. The components are mirrored and
        rotated too.
    average_predictions : bool, default=False
        Whether predictions are averaged over all symmetries except periodic shifts, which makes them exactly
        equivariant and multiplies their cost by the number of symmetries.

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
