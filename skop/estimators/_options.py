"""Option objects: groups of parameters that few users change. Each group is a scikit-learn estimator itself.

They are passed as arguments such as ``training=TrainingOptions(weight_decay=0.01)``. In searches a parameter in them
has a name such as ``training__weight_decay``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from skop._sklearn_compat import Interval, StrOptions
from skop._typing import FloatArray, GridShape
from skop.data import DataSpec, FieldSet, GridSymmetries, PointSymmetries, check_domain, layout_of
from skop.exceptions import FieldDataError
from skop.training import ONE_CYCLE, SCHEDULES

__all__ = [
    "Options",
    "SymmetryOptions",
    "TrainingOptions",
    "declared_symmetries",
    "moves_points",
    "undeclared_fields",
]


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
        "names": ["array-like"],
        "domain": ["array-like", None],
        "mirrors": ["array-like"],
        "rotations": ["array-like"],
        "input_vectors": ["array-like"],
        "target_vectors": ["array-like"],
        "input_tensors": ["array-like"],
        "target_tensors": ["array-like"],
        "param_vectors": ["array-like"],
        "scalar_vectors": ["array-like"],
        "average_predictions": ["boolean"],
    }


# ---------------------------------------------------------------------- from options to symmetries
def moves_points(options: SymmetryOptions, spec: DataSpec, geometry: str, inputs: FieldSet) -> bool:
    """Whether declared symmetries move the points of these samples, instead of mapping them onto each other.

    Points of a straight grid are mapped onto each other, and those of another grid where the symmetries do so.
    """
    is_general = bool(len(options.mirrors) or len(options.rotations) or "rotate" in options.names)
    kind = spec.network_spec.geometry
    if kind == "grid":
        return is_general and geometry == "points"
    if kind == "points" or is_general or inputs.grid_shape is None:
        return True
    try:
        symmetries = GridSymmetries(list(options.names), inputs.grid_shape, domain=options.domain)
        if symmetries.domain is not None:
            return not inputs.shared_coords
        for points in [inputs.coords] if inputs.shared_coords else inputs.coords_list():
            symmetries.check_points(points)
    except FieldDataError:
        return True
    return False


def declared_symmetries(
    options: SymmetryOptions,
    spec: DataSpec,
    grid_shape: GridShape | None,
    centre: FloatArray | None,
    extent: float,
    columns: Sequence[str] | None = None,
) -> GridSymmetries | PointSymmetries:
    """Build the declared symmetries for data of one kind.

    Parameters
    ----------
    options : SymmetryOptions
        Declared symmetries.
    spec : DataSpec
        Sizes and names of the data.
    grid_shape : tuple of int or None
        Number of points along each axis of the samples.
    centre : ndarray of shape (d,) or None
        Centre of the named symmetries where points are moved and no domain is declared; None maps the points of a grid
        onto each other.
    extent : float
        Size of the set of training points.
    columns : sequence of str or None, default=None
        Names of the global parameters.

    Returns
    -------
    GridSymmetries or PointSymmetries
        Symmetries.

    Raises
    ------
    FieldDataError
        If a symmetry, a channel or a domain does not fit the data.
    """
    form = spec.target_form
    inputs = ("X", spec.channel_names, spec.n_fields)
    target = ("y", form.channel_names, spec.n_outputs)
    sources = {
        "input_vectors": inputs,
        "input_tensors": inputs,
        "target_vectors": target,
        "target_tensors": target,
        "param_vectors": ("the global parameters", columns, spec.n_params),
        "scalar_vectors": ("the scalar targets", form.scalar_names, spec.n_scalars),
    }
    parts: dict[str, Any] = {name: [] for name in sources}
    for name, (where, known, _) in sources.items():
        for declared in getattr(options, name):
            channels = _channels(declared, name, where, known)
            vectors, tensors = _in_the_plane(channels, "tensors" in name, spec)
            parts[name] += tensors if "tensors" in name else vectors
            if "tensors" in name:
                parts[name.replace("tensors", "vectors")] += vectors
    if centre is None:
        if grid_shape is None:
            raise FieldDataError("symmetries need samples on one regular grid; set symmetries=None.")
        if len(options.mirrors) or len(options.rotations) or "rotate" in options.names:
            raise FieldDataError(
                "mirrors, rotations and 'rotate' move points to any place, but the network sees values on the points "
                "of a grid; declare flips, transposition and quarter turns by name, or, without grid=..., set "
                "geometry='points' where the estimator has it."
            )
        symmetries = GridSymmetries(list(options.names), grid_shape, domain=options.domain, **parts)
        _check_channels(symmetries, sources)
        return symmetries
    if options.domain is not None:
        centre = check_domain(options.domain, spec.n_dims).mean(axis=1)
    further: dict[str, Any] = {"mirrors": options.mirrors, "rotations": options.rotations, "extent": extent or 1.0}
    found = PointSymmetries(list(options.names), centre, **further, **parts)
    _check_channels(found, sources)
    if options.average_predictions:
        # Raises here, before the training, if they are too many.
        _ = found.order
    return found


def undeclared_fields(spec: DataSpec, symmetries: GridSymmetries | PointSymmetries) -> list[str]:
    """Return the fields of meshes that look like vectors or tensors, but are not declared as such.

    Parameters
    ----------
    spec : DataSpec
        Sizes and names of the data.
    symmetries : GridSymmetries or PointSymmetries
        Declared symmetries.

    Returns
    -------
    list of str
        Names.
    """
    if spec.kept_axes is None or (isinstance(symmetries, GridSymmetries) and symmetries.order == 1):
        return []
    found = []
    for names, declared in (
        (spec.channel_names, [*symmetries.input_vectors, *symmetries.input_tensors]),
        (spec.target_form.channel_names, [*symmetries.target_vectors, *symmetries.target_tensors]),
    ):
        turned = {channel for channels in declared for channel in channels}
        fields: dict[str, list[int]] = {}
        for channel, name in enumerate(names or ()):
            fields.setdefault(re.sub(r"_\d+$", "", name), []).append(channel)
        found += [
            name for name, parts in fields.items() if len(parts) in (2, 3, 6, 9) and not turned.intersection(parts)
        ]
    return found


def _channels(declared: Any, parameter: str, where: str, names: Sequence[str] | None) -> list[int]:
    """Return the channels of a vector or a tensor, which are given by numbers or by names."""
    if not isinstance(declared, str):
        try:
            items = [*declared]
        except TypeError:
            items = [None]
        if not all(isinstance(item, str | Integral) for item in items):
            raise FieldDataError(f"{parameter} has {declared!r}; expected a tuple of channels, or the name of a field.")
        return [channel for item in items for channel in _named(item, parameter, where, names)]
    return _named(declared, parameter, where, names)


def _named(item: Any, parameter: str, where: str, names: Sequence[str] | None) -> list[int]:
    """Return the channels of one number or name; a name may stand for all components of a field."""
    if isinstance(item, Integral):
        return [int(item)]
    if names is None:
        raise FieldDataError(f"{parameter} names {item!r}, but {where} has no names; give the numbers of channels.")
    known = [str(name) for name in names]
    if item in known:
        return [known.index(item)]
    parts = [f"{item}_{number}" for number in range(len(known))]
    found = [known.index(part) for part in parts if part in known]
    if not found:
        raise FieldDataError(f"{parameter} names {item!r}, but {where} has {known}.")
    return found


def _check_channels(symmetries: GridSymmetries | PointSymmetries, sources: dict[str, tuple[str, Any, int]]) -> None:
    """Raise an error if a vector or a tensor names a channel that the data do not have."""
    for name, (where, _, count) in sources.items():
        for channels in getattr(symmetries, name):
            if max(channels) >= count:
                held = f"which run from 0 to {count - 1}" if count else "of which there are none"
                raise FieldDataError(
                    f"{name} names channel {max(channels)}, which is not there among the channels of {where}, {held}."
                )


def _in_the_plane(channels: list[int], is_tensor: bool, spec: DataSpec) -> tuple[list[list[int]], list[list[int]]]:
    """Split a vector or tensor of space on a plane mesh into the vectors and tensors of the plane.

    A component along the coordinate that was left out is a scalar, and so is the normal stress; the two shear stresses
    across the plane are a vector.
    """
    kept = spec.kept_axes
    if kept is None or len(kept) != 2 or len(channels) not in ((6, 9) if is_tensor else (3,)):
        return ([], [channels]) if is_tensor else ([channels], [])
    if not is_tensor:
        return [[channels[axis] for axis in kept]], []
    layout = layout_of(channels, 3)
    (across,) = {0, 1, 2} - set(kept)
    first, second = kept
    plane = [layout[first][first], layout[second][second], layout[first][second]]
    vectors = [[layout[first][across], layout[second][across]]]
    if len(channels) == 9:
        plane = [layout[row][column] for row in kept for column in kept]
        vectors.append([layout[across][first], layout[across][second]])
    return vectors, [plane]
