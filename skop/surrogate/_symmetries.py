"""Declared symmetries of a problem as transformations of its data: names to channels, and the choice of what moves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape, IntArray
from skop.data import (
    DataSpec,
    FieldSet,
    GridSymmetries,
    MappedSymmetries,
    PointSymmetries,
    Scalers,
    check_domain,
    layout_of,
)
from skop.exceptions import FieldDataError

__all__ = [
    "axes_around",
    "declared_symmetries",
    "moves_points",
    "periodic_axes",
    "require_all_frames",
    "require_points_in_domain",
    "undeclared_fields",
    "unseen_by_scalers",
]

#: Fields go on around an axis if their bend over its ends, in units of that within, lies in this range.
_BENDS = (0.5, 1.5)
#: Fewest points of an axis, and lines along it, of which fields can be found to go on.
_FEWEST = 8
#: Most values of a set of fields that tell whether these go on around an axis.
_MOST_NUMBERS = 2**21
#: Moved points may leave the box of a fit by this part of its extent.
_OUTSIDE = 0.05
#: Report moved vectors and tensors whose scaled root mean square, 1 in the fit, exceeds this.
_TOO_LARGE = 3.0


def moves_points(options: Any, spec: DataSpec, geometry: str, inputs: FieldSet) -> bool:
    """Whether declared symmetries move the points of these samples, instead of mapping them onto each other.

    Points of a straight grid are mapped onto each other, and those of another grid where the symmetries do so; those of
    a grid that samples share, where planes and rotations by fixed angles do.
    """
    is_general, kind = _is_general(options), spec.network_spec.geometry
    if kind == "grid":
        return is_general and geometry == "points"
    if kind == "points" or inputs.grid_shape is None or (is_general and not inputs.shared_coords):
        return True
    try:
        if is_general:
            planes: dict[str, Any] = {"mirrors": options.mirrors, "rotations": options.rotations}
            centre, extent = _place_of(options, inputs.coords)
            moving = PointSymmetries(list(options.names), centre, extent=extent, **planes)
            return moving.has_any_angle or MappedSymmetries(moving, inputs.coords).order == 1
        symmetries = GridSymmetries(list(options.names), inputs.grid_shape, domain=options.domain)
        if symmetries.domain is not None:
            return not inputs.shared_coords
        for points in [inputs.coords] if inputs.shared_coords else inputs.coords_list():
            symmetries.check_points(points)
    except FieldDataError:
        return True
    return False


def _is_general(options: Any) -> bool:
    """Whether symmetries are declared that move points to any place, and not axes of a grid onto each other."""
    return bool(len(options.mirrors) or len(options.rotations) or "rotate" in options.names)


def periodic_axes(options: Any, geometry: str) -> tuple[int, ...]:
    """Return the axes of a grid around which declared shifts move samples; none for networks on points.

    Parameters
    ----------
    options : SymmetryOptions or None
        Declared symmetries.
    geometry : {"grid", "structured", "points"}
        Geometry of the network.

    Returns
    -------
    tuple of int
        Numbers of the axes.
    """
    names = () if options is None or geometry != "grid" else options.names
    return tuple(axis for axis, name in enumerate(("shift_x", "shift_y", "shift_z")) if name in names)


def axes_around(fields: Sequence[FieldSet], rows: IntArray) -> tuple[int, ...]:
    """Return the axes of a grid around which all fields of samples go on as they do within.

    The bend of a field is its second difference, over one point and over an eighth of the axis. Over the two ends of an
    axis it must not be larger than within, as at a wall, for any channel that changes along the axis. One channel must
    tell so: neighbours are alike, and the two ends are as neighbours are, not the same point twice, nor a place where
    nothing happens.

    Parameters
    ----------
    fields : sequence of FieldSet
        Inputs and outputs on one grid of even spacing.
    rows : ndarray of int
        Samples of a training, of which the first ones are taken if there are many.

    Returns
    -------
    tuple of int
        Numbers of the axes.
    """
    held = [one for one in fields if one.n_channels]
    grids = [one[rows[: max(1, _MOST_NUMBERS // int(np.prod(one.shape[1:])))]].to_grid() for one in held]
    found = []
    for axis in range(grids[0].ndim - 2 if grids else 0):
        bends, tells = (np.concatenate(parts) for parts in zip(*(_ends(grid, axis) for grid in grids), strict=True))
        if tells.any() and bends.max() <= _BENDS[1]:
            found.append(axis)
    return tuple(found)


def _ends(grid: FloatArray, axis: int) -> tuple[FloatArray, FloatArray]:
    """Bends (c, 2) over the ends of an axis, in units of those within, and channels that tell that they go on there."""
    lines = np.moveaxis(grid, axis + 1, 0)
    lines = lines.reshape(len(lines), -1, lines.shape[-1])
    lines = np.asarray(lines[:, :: -(-lines.size // _MOST_NUMBERS)], dtype=np.float64)
    rounding = 16 * float(np.finfo(np.result_type(grid, np.float32)).eps) * np.abs(lines).max(axis=(0, 1))
    changes = np.ptp(lines, axis=0).max(axis=0) > rounding
    lines, rounding, count = lines[..., changes], rounding[changes], len(lines)
    if min(lines.shape[:2]) < _FEWEST or not changes.any():
        return np.zeros((1, 2)), np.zeros(1)
    bends = []
    for step in (1, count // 8):
        squares = np.square(np.roll(lines, step, axis=0) - 2 * lines + np.roll(lines, -step, axis=0)).mean(axis=1)
        within = np.sqrt(squares[step : count - step].mean(axis=0))
        ends = np.sqrt(np.concatenate([squares[:step], squares[count - step :]]).mean(axis=0))
        # Straight lines bend by rounding alone.
        ratio = np.divide(ends, within, out=np.full_like(ends, np.inf), where=within > rounding)
        bends.append(np.where(ends > rounding, ratio, 0.0))
    # Values of a line that have nothing to do with each other differ by twice its variance in the mean square.
    apart = 2 * lines.var(axis=0, ddof=1).mean(axis=0)
    beside, around = (np.square(part).mean(axis=(0, 1)) for part in (np.diff(lines, axis=0), lines[:1] - lines[-1:]))
    is_once = np.abs(lines[0] - lines[-1]).max(axis=0) > rounding
    tells = is_once & (bends[0] >= _BENDS[0]) & (beside <= apart / 2) & (around <= (beside + apart) / 2)
    return np.stack(bends, axis=1), tells


def declared_symmetries(
    options: Any,
    spec: DataSpec,
    grid_shape: GridShape | None,
    centre: FloatArray | None,
    extent: float,
    columns: Sequence[str] | None = None,
    points: FloatArray | None = None,
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
    points : ndarray of shape (P, d) or None, default=None
        Points of a sample, where planes and rotations may map those of a bent grid onto each other.

    Returns
    -------
    GridSymmetries or PointSymmetries
        Symmetries.

    Raises
    ------
    FieldDataError
        If a symmetry, a channel or a domain does not fit the data.
    """
    parts, sources = _declared_channels(options, spec, columns)
    if centre is None:
        if grid_shape is None:
            raise FieldDataError("symmetries need samples on one regular grid; set symmetries=None.")
        if _is_general(options) and points is not None and spec.network_spec.geometry == "structured":
            moving: Any = declared_symmetries(options, spec, None, *_place_of(options, points), columns)
            return MappedSymmetries(moving, points)
        if _is_general(options):
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


def _declared_channels(
    options: Any, spec: DataSpec, columns: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Numbers of the channels of declared vectors and tensors, and where these are: name, channels and their number."""
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
    return parts, sources


def _place_of(options: Any, points: FloatArray) -> tuple[FloatArray, float]:
    """Centre of the named symmetries of points (P, d), and their extent."""
    lower, upper = np.min(points, axis=0), np.max(points, axis=0)
    ends = np.stack([lower, upper], axis=1) if options.domain is None else check_domain(options.domain, len(lower))
    return ends.mean(axis=1), float(np.max(upper - lower))


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


def unseen_by_scalers(
    symmetries: PointSymmetries, scalers: Scalers, points: FloatArray, lower: FloatArray, upper: FloatArray
) -> list[str]:
    """Return what leaves the range of a fit when samples are moved by symmetries that the fit did not have.

    Parameters
    ----------
    symmetries : PointSymmetries
        Symmetries that are declared now.
    scalers : Scalers
        Scalers of the fit.
    points : ndarray of shape (..., d)
        Points of the samples that are moved.
    lower, upper : ndarray of shape (d,)
        Box of the points of the fit.

    Returns
    -------
    list of str
        Descriptions in words; none where the scaling suits moved samples too.
    """
    found, slack = [], _OUTSIDE * np.max(upper - lower)
    images = symmetries.images(points)
    if np.any(images < lower - slack) or np.any(images > upper + slack):
        beyond = np.maximum(lower - images, images - upper).max() / np.max(upper - lower)
        found.append(f"points lie up to {beyond:.2g} times the extent of its box outside")
    for name, scaler, vectors, tensors in (
        ("input_vectors and input_tensors", scalers.fields, symmetries.input_vectors, symmetries.input_tensors),
        ("target_vectors and target_tensors", scalers.target, symmetries.target_vectors, symmetries.target_tensors),
        ("param_vectors", scalers.params, symmetries.param_vectors, []),
        ("scalar_vectors", scalers.scalars, symmetries.scalar_vectors, []),
    ):
        if scaler is None or scaler.mode != "channel" or not (vectors or tensors):
            continue
        # The mean, and a standard deviation of each channel, turned by every symmetry.
        probes = np.concatenate([scaler.mean_[None], np.diag(scaler.scale_)])[None]
        turned = np.concatenate([*symmetries.all_turned(probes, vectors, tensors)])
        square = (turned[:, 0] - scaler.mean_) ** 2 + (turned[:, 1:] ** 2).sum(axis=1)
        largest = float(np.sqrt(square.max(axis=0) / scaler.scale_**2).max())
        if largest > _TOO_LARGE:
            found.append(f"{name} have scaled values of about {largest:.2g} in place of 1")
    return found


def require_points_in_domain(options: Any, lower: FloatArray, upper: FloatArray) -> None:
    """Raise an error if the declared domain does not hold the box of the training points, as in other units.

    Parameters
    ----------
    options : SymmetryOptions
        Declared symmetries.
    lower, upper : ndarray of shape (d,)
        Box of the points.
    """
    if options.domain is None:
        return
    ends = check_domain(options.domain, len(lower))
    slack = _OUTSIDE * np.ptp(ends, axis=1).max()
    if np.any(lower < ends[:, 0] - slack) or np.any(upper > ends[:, 1] + slack):
        raise FieldDataError(
            f"domain of the symmetries is {ends.tolist()}, but the points of X lie in the box from {lower.tolist()} to "
            f"{upper.tolist()}, outside of it; pass the ends of the domain in the units of the points."
        )


def require_all_frames(options: Any, n_frames: int, n_channels: int) -> None:
    """Raise an error if vectors or tensors of a rollout are not declared in each frame of its window.

    Parameters
    ----------
    options : SymmetryOptions
        Symmetries of the estimator of one step.
    n_frames : int
        Number of frames of the window.
    n_channels : int
        Number of channels of a frame.
    """
    for kind in ("vectors", "tensors"):
        given, target = getattr(options, f"input_{kind}"), getattr(options, f"target_{kind}")
        if not (isinstance(given, Sequence) and isinstance(target, Sequence)):
            continue
        if any(np.ndim(item) != 1 or any(isinstance(part, str) for part in item) for item in (*given, *target)):
            # Names of channels, and mistakes, which the estimator itself names.
            continue
        expected = [
            tuple(int(part) + frame * n_channels for part in item) for frame in range(n_frames) for item in target
        ]
        if sorted(expected) != sorted(tuple(map(int, item)) for item in given):
            raise FieldDataError(
                f"symmetries have input_{kind}={given!r} and target_{kind}={target!r}, but in a rollout the {n_frames} "
                f"frames of X have the {n_channels} channels of y each, and turn as these do; declare "
                f"input_{kind}={expected} for these target_{kind}."
            )


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
    """Raise an error if a vector or a tensor names a channel that the data do not have, or that another one has."""
    taken: dict[str, set[int]] = {where: set() for where, _, _ in sources.values()}
    for name, (where, _, count) in sources.items():
        for channels in getattr(symmetries, name):
            if shared := taken[where].intersection(channels):
                raise FieldDataError(
                    f"{name} names channel {min(shared)} of {where}, which another vector or tensor holds too; "
                    "declare each channel once."
                )
            taken[where].update(channels)
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
