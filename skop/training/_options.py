"""Parameters of a training that few users change."""

from __future__ import annotations

from numbers import Real
from typing import Any

from skop._parameters import Choice, Part, Whole, param
from skop._sklearn_compat import AllowedValues, Interval, SequenceOf
from skop.training._optimizer import OPTIMIZERS
from skop.training._schedule import ONE_CYCLE, SCHEDULES

__all__ = ["TrainingOptions"]


class TrainingOptions(Part):
    """Parameters of the training of an operator regressor, beside epochs, batch size, learning rate and weight decay.

    Examples
    --------
    >>> from skop import LaMORegressor, TrainingOptions
    >>> LaMORegressor(training=TrainingOptions(ema_decay=None)).set_params(training__tol=0).training.tol
    0
    """

    loss_reduction: str = param(
        Choice("mean", "sum"),
        default="mean",
        text="Reduction of the loss over the samples of a batch (public code of LaMO: sum).",
    )
    scalar_weight: float = param(
        Interval(Real, 0, None, closed="left"),
        default=1.0,
        text="Weight of the loss of scalars that are predicted in addition to a field, at least 0.",
    )
    optimizer: str = param(
        Choice(*OPTIMIZERS),
        default="muon",
        text=(
            'Optimiser (papers: ``"adamw"``). ``"muon"`` moves matrices by their momentum with all singular values set '
            "to one, and leaves all other weights to AdamW."
        ),
    )
    schedule: str = param(
        Choice(*SCHEDULES),
        default="cosine",
        text=(
            'Learning rate schedule (papers: ``"one_cycle"``). ``"cosine"``: linear warm-up, then a cosine that falls '
            'to zero. ``"constant"``: linear warm-up, then the peak rate. ``"one_cycle"``: PyTorch\'s OneCycleLR, '
            "momentum included."
        ),
    )
    schedule_interval: str = param(
        Choice("step", "epoch"),
        default="step",
        text='Interval at which the learning rate changes (public code of LaMO for elasticity: ``"epoch"``).',
    )
    warmup_fraction: float = param(
        Interval(Real, 0, 1, closed="both"),
        default=0.05,
        text=(
            'Fraction of the training, in [0, 1], in which ``"cosine"`` and ``"constant"`` rise to the peak learning '
            "rate."
        ),
    )
    one_cycle: Any = param(
        SequenceOf(Real, 3),
        default=ONE_CYCLE,
        text=(
            'Shape of ``"one_cycle"``: fraction of the training in which the learning rate rises, in (0, 1), and the '
            "factors by which it starts below the peak and ends below the start (MNO: 0.2 to 0.3, 1e2 to 1e4, and 1e4 "
            "to 1e5)."
        ),
    )
    decay_bias_and_norm: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether weight decay also applies to biases, normalisations, decay rates, initial states of scans, "
            "centres of latent tokens and learned positional encodings (papers: yes)."
        ),
    )
    drop_path: float | str = param(
        Choice("auto"),
        Interval(Real, 0, 1, closed="left"),
        default="auto",
        text=(
            "Probability with which the residual branches of a network's blocks are left out of a training step, "
            "drawn for each sample and branch, in [0, 1). It regularises, and makes trainings worse that do not "
            'overfit (papers: 0). ``"auto"`` is 0 at first. It becomes 0.2 after an eighth, a quarter or half of a '
            "training that overfits then and has no patches left to shift. A training overfits if the error on "
            "held-out samples is above that on others by twice its standard error, and has fallen by less than a "
            "fifth since half that time. The held-out samples are those of `early_stopping`, or those that judge the "
            "base. Without either, a tenth of 20 samples or more (5 to 64) is held out in fits of 8 epochs or more, "
            "and trained on as soon as it is decided, but not in continued fits, and not of runs in time. Networks "
            "without such blocks (FNO, U-Net, DeepONet) refuse a number above 0."
        ),
    )
    shift_patches: bool | str = param(
        Choice("auto"),
        "boolean",
        default="auto",
        text=(
            "Whether the patches into which an operator cuts a regular grid begin at a random point in each step of "
            "training, see `skop.networks.shift_patches`. It regularises: what is learned of a patch holds wherever "
            'the patch begins, and no symmetry of the problem is assumed (papers: no). ``"auto"`` begins with it when '
            'a training overfits for the first time; where it does again later, ``drop_path="auto"`` follows. Networks '
            "without patches ignore it, and refuse True."
        ),
    )
    beta_2: float = param(
        Interval(Real, 0, 1, closed="neither"),
        default=0.99,
        text="Decay of AdamW's running mean of squared gradients, in (0, 1) (papers: 0.999).",
    )
    max_grad_norm: float | None = param(
        Interval(Real, 0, None, closed="neither"),
        None,
        default=1.0,
        text=(
            "Norm for gradient clipping: larger gradients are scaled down to it. None does not clip (public code of "
            "LaMO: 0.1; None for Navier-Stokes)."
        ),
    )
    ema_decay: float | None = param(
        Interval(Real, 0, 1, closed="left"),
        None,
        default=0.98,
        text=(
            "Decay of the exponential moving average (EMA) of the weights, which is used for validation and "
            "prediction; None uses the weights of the last step (papers)."
        ),
    )
    validation_fraction: float = param(
        Interval(Real, 0, 1, closed="neither"),
        default=0.1,
        text="Fraction of the samples that is held out for ``early_stopping=True``, in (0, 1).",
    )
    n_iter_no_change: int = param(
        Whole(1),
        default=10,
        text="Number of epochs without progress after which early stopping ends the training.",
    )
    tol: float = param(
        Interval(Real, 0, None, closed="left"),
        default=1e-4,
        text="Smallest decrease of the validation error that counts as progress in early stopping.",
    )
    subsample_points: int | None = param(
        Whole(1),
        None,
        default=None,
        text=(
            "Number of points drawn at random from each sample in every training step, for points that form no grid; "
            "None uses all. It saves time and memory on large point sets, where fields vary little between "
            "neighbouring points. It is for operators with latent tokens: LaMO, AMO and Transolver."
        ),
    )
    autocast: str | None = param(
        Choice("bfloat16"),
        None,
        default=None,
        text=(
            "Precision of the matrix products in mixed-precision training; the scans stay in float32. None does not "
            "use mixed precision."
        ),
    )
    deterministic: bool = param(
        "boolean",
        default=False,
        text=(
            "Whether to use deterministic algorithms, also on a GPU, and to predict one sample at a time, so that a "
            "prediction is bit for bit the same whatever other samples are predicted with it."
        ),
    )
    distributed: str | bool = param(
        Choice("auto"),
        AllowedValues(bool, {False}),
        default="auto",
        text=(
            "Whether processes that torchrun has started train one network together, each with its part of every "
            'batch. ``"auto"`` does where there are several; with False each process fits by itself.'
        ),
    )
