"""Option objects: groups of parameters that few users change. Each group is a scikit-learn estimator itself.

They are passed as arguments such as ``training=TrainingOptions(weight_decay=0.01)``. In searches a parameter in them
has a name such as ``training__weight_decay``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from skop._sklearn_compat import AllowedValues, Interval, SequenceOf, StrOptions
from skop.training import ONE_CYCLE, OPTIMIZERS, SCHEDULES

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
    optimizer : {"muon", "adamw"}, default="muon"
        Optimiser (papers: ``"adamw"``). ``"muon"`` is for matrices, and leaves all other weights to AdamW; see
        `skop.training.Muon`.
    schedule : {"cosine", "one_cycle", "constant"}, default="cosine"
        Learning rate schedule, see `skop.training.schedule_at` (papers: ``"one_cycle"``).
    schedule_interval : {"step", "epoch"}, default="step"
        Interval at which the learning rate changes (public code of LaMO for elasticity: ``"epoch"``).
    warmup_fraction : float, default=0.05
        Fraction of the training, in [0, 1], in which ``"cosine"`` and ``"constant"`` rise to the peak learning rate.
    one_cycle : sequence of three floats, default=(0.3, 25.0, 10000.0)
        Shape of ``"one_cycle"``: fraction of the training in which the learning rate rises, in (0, 1), and the factors
        by which it starts below the peak and ends below the start (MNO: 0.2 to 0.3, 1e2 to 1e4, and 1e4 to 1e5).
    weight_decay : float, default=0.1
        Weight decay (decoupled L2 penalty) of the optimiser (papers: 1e-5; 0.05 for LaMO on Navier-Stokes).
    decay_bias_and_norm : bool, default=False
        Whether weight decay also applies to biases, normalisations, decay rates, initial states of scans, centres of
        latent tokens and learned positional encodings (papers: yes).
    drop_path : float or "auto", default="auto"
        Probability with which the residual branches of a network's blocks are left out of a training step, drawn for
        each sample and branch, in [0, 1). It regularises, and makes trainings worse that do not overfit (papers: 0).
        ``"auto"`` is 0 at first, and 0.2 from an eighth, a quarter or half of a training on if it overfits then, and no
        patches are left to shift: if the error on samples that were held out, for `early_stopping` or to judge the base
        model, is above that on others by twice its standard error, and has fallen by less than a fifth since half that
        time. Without either, a tenth of 100 samples or more, at most 64, is held out for this in fits of 8 epochs or
        more, and trained on as soon as it is decided. Networks without such blocks (FNO, U-Net, DeepONet) refuse a
        number above 0.
    shift_patches : bool or "auto", default="auto"
        Whether the patches into which an operator cuts a regular grid begin at a random point in each step of training,
        see `skop.networks.shift_patches`. It regularises: what is learned of a patch holds wherever the patch begins,
        and no symmetry of the problem is assumed (papers: no). ``"auto"`` begins with it when a training overfits for
        the first time; where it does again later, ``drop_path="auto"`` follows. It has no effect on
        networks without patches, and is refused with them if True.
    beta_2 : float, default=0.99
        Decay of AdamW's running mean of squared gradients, in (0, 1) (papers: 0.999).
    max_grad_norm : float or None, default=1.0
        Norm for gradient clipping: larger gradients are scaled down to it. None does not clip (public code of LaMO:
        0.1; None for Navier-Stokes).
    ema_decay : float or None, default=0.98
        Decay of the exponential moving average (EMA) of the weights, which is used for validation and prediction; None
        uses the weights of the last step (papers).
    validation_fraction : float, default=0.1
        Fraction of the samples that is held out for ``early_stopping=True``, in (0, 1).
    n_iter_no_change : int, default=10
        Number of epochs without progress after which early stopping ends the training.
    tol : float, default=0.0001
        Smallest decrease of the validation error that counts as progress in early stopping.
    autocast : {"bfloat16"} or None, default=None
        Precision of the matrix products in mixed-precision training; the scans stay in float32. None does not use mixed
        precision.
    deterministic : bool, default=False
        Whether to use deterministic algorithms, also on a GPU, and to predict one sample at a time, so that a
        prediction is bit for bit the same whatever other samples are predicted with it.
    distributed : {"auto", False}, default="auto"
        Whether processes that torchrun has started train one network together, each with its part of every batch.
        ``"auto"`` does where there are several; with False each process fits by itself.

    Examples
    --------
    >>> from skop import LaMORegressor, TrainingOptions
    >>> LaMORegressor(training=TrainingOptions(ema_decay=None)).set_params(training__tol=0).training.tol
    0
    """

    loss_reduction: str = "mean"
    scalar_weight: float = 1.0
    optimizer: str = "muon"
    schedule: str = "cosine"
    schedule_interval: str = "step"
    warmup_fraction: float = 0.05
    one_cycle: Any = ONE_CYCLE
    weight_decay: float = 0.1
    decay_bias_and_norm: bool = False
    drop_path: float | str = "auto"
    shift_patches: bool | str = "auto"
    beta_2: float = 0.99
    max_grad_norm: float | None = 1.0
    ema_decay: float | None = 0.98
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    autocast: str | None = None
    deterministic: bool = False
    distributed: str | bool = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss_reduction": [StrOptions({"mean", "sum"})],
        "scalar_weight": [Interval(Real, 0, None, closed="left")],
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "schedule": [StrOptions(set(SCHEDULES))],
        "schedule_interval": [StrOptions({"step", "epoch"})],
        "warmup_fraction": [Interval(Real, 0, 1, closed="both")],
        "one_cycle": [SequenceOf(Real, 3)],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "decay_bias_and_norm": ["boolean"],
        "drop_path": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "shift_patches": [StrOptions({"auto"}), "boolean"],
        "beta_2": [Interval(Real, 0, 1, closed="neither")],
        "max_grad_norm": [Interval(Real, 0, None, closed="neither"), None],
        "ema_decay": [Interval(Real, 0, 1, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "autocast": [StrOptions({"bfloat16"}), None],
        "deterministic": ["boolean"],
        "distributed": [StrOptions({"auto"}), AllowedValues(bool, {False})],
    }


@dataclass(kw_only=True, eq=False, repr=False)
class SymmetryOptions(Options):
    """Symmetries of the problem, for data augmentation and for averaged predictions.

    On a straight grid that all samples share, the points are mapped onto each other. On point sets, meshes and bent
    grids the points themselves are moved, and fields stay with their points.

    Parameters
    ----------
    names : sequence of str, default=()
        Symmetries about the centre of the domain: ``"flip_x"``, ``"flip_y"``, ``"flip_z"`` mirror a coordinate;
        ``"transpose"`` exchanges the first two; ``"quarter_turn"`` rotates them by 90 degrees, and ``"rotate"`` by any
        angle, not on grids; ``"shift_x"``, ``"shift_y"``, ``"shift_z"`` are periodic shifts, on grids only. Training
        samples are transformed by random combinations of them.
    domain : array-like of shape (d, 2) or None, default=None
        Lower and upper end of the domain along each axis, about whose centre the samples are mirrored and rotated; None
        takes the bounding box of the grid, or that of all training points.
    mirrors : sequence of (point, normal), default=()
        Further symmetries of points that form no grid: mirror planes, lines in 2-D, by one of their points and a normal
        of any length.
    rotations : sequence of (point, angle) or (point, axis, angle), default=()
        The same for rotations about a point in 2-D, or about the axis through a point in 3-D, by an angle in degrees.
        The angle None is any angle, drawn at random in training.
    input_vectors, target_vectors : sequence of sequence of int or str, default=()
        Channels that are the d components of a vector, one tuple for each vector. The components are mirrored and
        rotated too. A str is the name of a mesh field with all its components, or of a channel in a tuple. In a plane
        mesh a vector may have three components.
    input_tensors, target_tensors : sequence of sequence of int or str, default=()
        Channels that are the components of a tensor, one tuple for each tensor: (xx, yy, xy) in 2-D, (xx, yy, zz, xy,
        yz, xz) in 3-D, as VTK orders them, or all components by rows. Pass channels of another order, such as Voigt's,
        in this one. Shear strains must be components of the tensor, which are half of engineering strains.
    param_vectors : sequence of sequence of int or str, default=()
        Global parameters that are the components of a vector, such as the direction of a load; a str is the name of a
        column of a DataFrame.
    scalar_vectors : sequence of sequence of int or str, default=()
        Scalar targets that are the components of a vector, such as drag and lift.
    average_predictions : bool, default=False
        Whether predictions are averaged over all symmetries except periodic shifts, which makes them exactly
        equivariant and multiplies their cost by the number of symmetries. For a rotation by any angle these are eight
        angles, multiples of 45 degrees.

    Examples
    --------
    >>> from skop import LaMORegressor, SymmetryOptions
    >>> LaMORegressor(symmetries=SymmetryOptions(names=("flip_x",), average_predictions=True)).symmetries.names
    ('flip_x',)
    """

    names: Any = ()
    domain: Any = None
    mirrors: Any = ()
    rotations: Any = ()
    input_vectors: Any = ()
    target_vectors: Any = ()
    input_tensors: Any = ()
    target_tensors: Any = ()
    param_vectors: Any = ()
    scalar_vectors: Any = ()
    average_predictions: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "names": [SequenceOf(str)],
        "domain": ["array-like", None],
        "mirrors": [SequenceOf(object)],
        "rotations": [SequenceOf(object)],
        "input_vectors": [SequenceOf(object)],
        "target_vectors": [SequenceOf(object)],
        "input_tensors": [SequenceOf(object)],
        "target_tensors": [SequenceOf(object)],
        "param_vectors": [SequenceOf(object)],
        "scalar_vectors": [SequenceOf(object)],
        "average_predictions": ["boolean"],
    }
