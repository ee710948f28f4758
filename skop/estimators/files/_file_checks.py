"""Checks of objects that come out of a model file, before anything is built from them or computed with them.

A file whose checksum is right can still hold anything: the checksum is no signature. Every number, name and array that
a prediction uses is therefore held against what it must be, and sizes against those of the arrays in the file, so that
a wrong file is refused where it is loaded, and takes no more time and memory than its own size allows.

Notation: P points, d space dimensions, c input channels, p global parameters, q output channels, s scalars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import comb, isfinite, prod
from typing import Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator

from skop._sklearn_compat import last_step
from skop.exceptions import ModelFileError

__all__ = ["Held", "check_loaded", "check_mesh"]

#: Largest number of channels, points along an axis, frames and the like that is not compared with an array.
_MANY = 2**31
#: Largest degree of the polynomial tail of a kernel.
_HIGHEST_DEGREE = 8
#: Largest number of cells over the box of a fit.
_MOST_CELLS = 2**12
_FORMS = ("table", "grid", "fieldset", "tuple", "list", "pairs", "meshes")
_GEOMETRIES = ("grid", "structured", "points")
_KERNELS = (
    *("none", "gaussian", "matern32", "matern52"),
    *("linear_spline", "thin_plate", "cubic", "quintic", "septic", "akima"),
)
#: Largest size by which an object of scikit-learn allocates, and number of rows with which it is tried: several, as a
#: single one fits arrays of wrong shapes.
_TRIED, _ROWS = 2**24, 3


class Held:
    """Attributes of an object from a file; each method returns one, or raises an error that says what it must be.

    Parameters
    ----------
    value : object
        Object whose attributes come from a file.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self.kind = type(value).__name__

    def wrong(self, name: str, expected: str) -> NoReturn:
        """Raise an error about an attribute."""
        text = repr(self.get(name))
        text = f"{text[:80]}..." if len(text) > 80 else text
        raise ModelFileError(f"{name} of {self.kind} in the file is {text}; expected {expected}.")

    def need(self, condition: Any, name: str, expected: str) -> None:
        """Raise an error about an attribute unless the condition holds."""
        if not condition:
            self.wrong(name, expected)

    def get(self, name: str) -> Any:
        """An attribute as it is; an error if it is missing."""
        if not hasattr(self.value, name):
            raise ModelFileError(f"{name} of {self.kind} is missing in the file; fit and save again.")
        return getattr(self.value, name)

    def whole(self, name: str, low: int = 0, high: int = _MANY) -> int:
        """An integer in a range."""
        value = self.get(name)
        self.need(
            isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
            name,
            f"an integer from {low} to {high}",
        )
        return int(value)

    def number(self, name: str, *, positive: bool = False, finite: bool = True) -> float:
        """A real number."""
        value = self.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        self.need((is_number and abs(value) < 1e308) or (is_number and not finite), name, "a finite number")
        self.need(not positive or value > 0, name, "a positive number")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or False."""
        value = self.get(name)
        self.need(isinstance(value, bool), name, "True or False")
        return bool(value)

    def word(self, name: str, words: Iterable[str | None] | None = None) -> Any:
        """A string, or one of some values."""
        value = self.get(name)
        if words is None:
            self.need(isinstance(value, str), name, "a string")
        else:
            words = tuple(words)
            self.need((value is None or isinstance(value, str)) and value in words, name, f"one of {words}")
        return value

    def words(self, name: str, count: int | None = None) -> None:
        """A tuple of strings, or None."""
        value = self.get(name)
        if value is None:
            return
        is_names = isinstance(value, tuple | list | np.ndarray) and all(isinstance(item, str) for item in value)
        self.need(
            is_names and count in (None, len(value)), name, f"{'some' if count is None else count} strings or None"
        )

    def array(
        self,
        name: str,
        *shape: int | None,
        optional: bool = False,
        positive: bool = False,
        finite: bool = True,
        whole: bool = False,
    ) -> Any:
        """An array of numbers of a shape, of which None is any length; see `_is_array`."""
        value = self.get(name)
        if value is None and optional:
            return None
        text = " x ".join("any" if size is None else str(size) for size in shape)
        what = f"{'' if finite else 'possibly infinite '}{'integers' if whole else 'numbers'}"
        self.need(
            _is_array(value, shape, positive=positive, finite=finite, whole=whole),
            name,
            f"an array of {text} {'positive ' if positive else ''}{what}{' or None' if optional else ''}",
        )
        return value

    def shape(self, name: str, count: int | None = None, *, optional: bool = True) -> tuple[int, ...] | None:
        """Numbers of points along the axes of a grid, or None."""
        value = self.get(name)
        if value is None and optional:
            return None
        is_shape = (
            isinstance(value, tuple)
            and len(value) > 0
            and all(isinstance(size, int) and not isinstance(size, bool) and 0 < size <= _MANY for size in value)
        )
        self.need(
            is_shape and count in (None, len(value)) and prod(value) <= _MANY,
            name,
            f"{'positive' if count is None else count} numbers of points",
        )
        return tuple(value)

    def part(self, name: str, *kinds: str, optional: bool = False) -> Any:
        """An object of one of some classes, by their names or those of their bases."""
        value = self.get(name)
        if value is None and optional:
            return None
        self.need(is_one_of(value, *kinds), name, f"a {' or '.join(kinds)}{' or None' if optional else ''}")
        return value

    def parts(self, name: str, *kinds: str) -> list[Any]:
        """A list of objects of some classes, at least one."""
        value = self.get(name)
        is_list = isinstance(value, list) and len(value) > 0 and all(is_one_of(item, *kinds) for item in value)
        self.need(is_list, name, f"a list of {' or '.join(kinds)}")
        return list(value)


def is_one_of(value: Any, *kinds: str) -> bool:
    """Whether an object is of one of some classes, by their names or those of their bases."""
    return any(kind.__name__ in kinds for kind in type(value).__mro__)


def _is_array(
    value: Any, shape: tuple[int | None, ...], *, positive: bool = False, finite: bool = True, whole: bool = False
) -> bool:
    """Whether a value is an array of numbers of a shape, of which None is any length."""
    if not isinstance(value, np.ndarray) or value.ndim != len(shape):
        return False
    if value.dtype.kind not in ("iu" if whole else "fiu") or (value.dtype.kind == "f" and value.dtype.itemsize < 4):
        return False
    if any(size not in (None, own) for size, own in zip(shape, value.shape, strict=True)):
        return False
    return bool((not finite or np.isfinite(value).all()) and (not positive or (value > 0).all()))


def check_loaded(value: Any) -> None:
    """Raise an error if an object from a file has attributes that do not go together, or are none of its kind.

    Parameters
    ----------
    value : object
        Object that was filled from a file.

    Raises
    ------
    ModelFileError
        If an attribute is missing, of another type, out of its range, or of another size than the others.
    """
    held = Held(value)
    for kind in reversed(type(value).__mro__):
        if kind.__name__ in _CHECKS:
            _CHECKS[kind.__name__](held)


def check_mesh(points: Any, cells: Any, info: Any = None) -> None:
    """Raise an error if points and cells from a file make no mesh.

    Parameters
    ----------
    points : object
        Points of the mesh: an array of shape (P, d).
    cells : object
        Its cells: a list of a name and the numbers of the points of each cell.
    info : object, default=None
        What skop has noted of it: None, or lists of names and true or false by their keys.

    Raises
    ------
    ModelFileError
        If they are something else, or a cell has a point that is not there.
    """
    is_good = _is_array(points, (None, None)) and 1 <= points.shape[1] <= 3 and isinstance(cells, list)
    for block in cells if is_good else ():
        is_good &= isinstance(block, list) and len(block) == 2 and isinstance(block[0], str)
        is_good = is_good and _are_cells(block[1], len(points))
    notes = info.values() if isinstance(info, dict) else [] if info is None else [None]
    is_good = is_good and all(isinstance(note, bool | list | tuple) for note in notes)
    if not is_good:
        raise ModelFileError("a mesh in the file has points, cells or notes that are none; fit and save again.")


def _are_cells(cells: Any, n_points: int) -> bool:
    """Whether cells of one type have points that exist; polyhedra are nested lists."""
    if isinstance(cells, list):
        return all(_are_cells(item, n_points) for item in cells)
    if isinstance(cells, int):
        return 0 <= cells < n_points
    return (
        isinstance(cells, np.ndarray) and cells.dtype.kind in "iu" and bool(((cells >= 0) & (cells < n_points)).all())
    )


# ---------------------------------------------------------------------- form of the data
def _check_target_form(held: Held) -> None:
    held.word("container", ("array", "list", "pairs", "tuple", "fieldset", "meshes"))
    is_known = re.fullmatch(r"[<>=]?f(2|4|8|12|16)|float(16|32|64|96|128)|longdouble", held.word("dtype"))
    held.need(is_known, "dtype", "the name of a type of real numbers, such as 'float64'")
    for name in ("squeezes_channel", "has_grid_axes"):
        held.flag(name)
    for name in ("channel_names", "scalar_names"):
        held.words(name)
    parts = held.get("components")
    if parts is not None:
        is_list = isinstance(parts, tuple) and all(
            isinstance(part, tuple)
            and len(part) == 2
            and isinstance(part[0], str)
            and isinstance(part[1], int)
            and 0 < part[1] <= _MANY
            for part in parts
        )
        held.need(is_list, "components", "pairs of a name and a number of channels, or None")


def _check_spec(held: Held) -> None:
    held.word("input_form", _FORMS)
    role = held.word("role", ("features", "parameters", "fields"))
    form = held.part("target_form", "TargetForm")
    n_dims = held.whole("n_dims", 1, 16)
    n_fields, n_params, n_outputs, n_scalars = (
        held.whole(name) for name in ("n_fields", "n_params", "n_outputs", "n_scalars")
    )
    held.need(n_outputs or n_scalars, "n_outputs", "at least one output, as n_scalars is 0")
    held.need(role == "fields" or n_params, "n_params", f"at least one, as the role of X is {role!r}")
    held.need(role != "features" or not n_outputs, "n_outputs", "none, as the role of X is 'features'")
    held.need(role == "fields" or not n_fields, "n_fields", f"none, as the role of X is {role!r}")
    held.need((role == "fields") or held.get("input_form") in ("table", "fieldset"), "input_form", f"that of {role}")
    held.shape("grid_shape", n_dims)
    held.shape("target_grid", n_dims)
    held.word("geometry", _GEOMETRIES)
    held.word("target_points", ("inputs", "shared", "own"))
    held.word("cell_data", ("refuse", "to_points", "cells", None))
    axes = held.get("kept_axes")
    held.need(
        axes is None or (isinstance(axes, tuple) and len(axes) == n_dims and all(axis in (0, 1, 2) for axis in axes)),
        "kept_axes",
        f"numbers of {n_dims} coordinates, or None",
    )
    resampler = held.part("resampler", "GridResampler", optional=True)
    if resampler is not None:
        held.need(len(resampler.grid_shape) == n_dims, "resampler", f"a grid of {n_dims} dimensions")
    held.words("channel_names", n_fields)
    held.words("input_fields")
    held.words("param_names", n_params)
    form_held = Held(form)
    form_held.words("channel_names", n_outputs)
    form_held.words("scalar_names", n_scalars)
    held.need(form.channel_names is None or n_outputs, "n_outputs", "at least one, as channels have names")
    held.need(
        form.components is None or sum(count for _, count in form.components) == n_outputs,
        "n_outputs",
        "the number of channels of the fields of meshes",
    )
    held.need(form.container != "meshes" or form.components is not None, "target_form", "names of the fields of meshes")
    held.need(not form.squeezes_channel or 1 in (n_outputs, n_scalars), "target_form", "an axis of the channels")


def _check_resampler(held: Held) -> None:
    shape = held.shape("grid_shape", optional=False) or ()
    for name in ("lower", "upper"):
        corner = held.get(name)
        is_corner = isinstance(corner, tuple) and len(corner) == len(shape)
        held.need(
            is_corner and all(isinstance(number, float) and isfinite(number) for number in corner),
            name,
            f"{len(shape)} finite numbers",
        )
    lower, upper = held.get("lower"), held.get("upper")
    held.need(all(low < high for low, high in zip(lower, upper, strict=True)), "upper", "more than lower")
    held.need(min(shape) >= 2, "grid_shape", "two points along each axis")
    held.flag("distance")
    if held.get("error") is not None:
        held.number("error", finite=False)


# ---------------------------------------------------------------------- scalers and what the fit has seen
def _check_field_scaler(held: Held) -> None:
    held.word("mode", ("channel", "point", None))
    held.word("function", ("log", None))
    mean = held.get("mean_")
    held.need(_is_array(mean, (None,)) or _is_array(mean, (None, None)), "mean_", "finite numbers of channels")
    held.array("scale_", *mean.shape, positive=True)
    held.array("spread_", *mean.shape, optional=True)
    held.array("size_", mean.shape[-1], finite=False)
    held.number("offset_", finite=False)


def _check_box_scaler(held: Held) -> None:
    held.word("mode", ("box", "standard", None))
    lower = held.array("lower_", None)
    held.array("span_", len(lower), positive=True)


def _check_scalers(held: Held) -> None:
    held.part("coords", "BoxScaler")
    for name in ("fields", "params", "target", "scalars"):
        held.part(name, "FieldScaler", optional=True)


def _check_domain(held: Held) -> None:
    n_dims = len(held.array("lower", None))
    held.array("upper", n_dims)
    held.array("points", None, n_dims, optional=True)
    axes, lines, reach = (held.get(name) for name in ("axes", "lines", "reach"))
    held.need((axes is None) == (lines is None), "axes", "None if lines is None, and numbers of coordinates otherwise")
    if axes is not None:
        is_order = isinstance(axes, tuple) and all(isinstance(axis, int) for axis in axes)
        held.need(is_order and sorted(axes) == list(range(n_dims)), "axes", f"an order of {n_dims} coordinates")
        is_grid = isinstance(lines, tuple) and len(lines) == n_dims
        held.need(is_grid and all(_is_array(line, (None,)) and len(line) for line in lines), "lines", "grid lines")
    if reach is not None:
        is_box = isinstance(reach, tuple) and len(reach) == 2 and all(_is_array(part, (n_dims,)) for part in reach)
        held.need(is_box, "reach", "two corners of a box, or None")


def _check_ranges(held: Held) -> None:
    held.whole("n_samples", 1)
    params = held.array("params", 2, None, optional=True)
    tailed = held.array("tailed", None, optional=True)
    held.need(
        (params is None and tailed is None) or np.shape(tailed) == np.shape(params)[1:],
        "tailed",
        "a number for each parameter",
    )
    values = held.array("values", 2, None, optional=True)
    sizes = held.array("sizes", 2, None, optional=True)
    held.need(np.shape(values) == np.shape(sizes), "sizes", "two numbers for each channel")
    for name in ("medians", "in_logarithms"):
        found = held.array(name, None, optional=True)
        held.need(found is None or np.shape(found) == np.shape(params)[1:], name, "a number for each parameter")
    held.array("outputs", 2, None, optional=True)
    held.array("coords", 2, None)
    for name in ("sides", "spacing"):
        held.array(name, 2, 1)
    held.array("times", 2, 1, optional=True)


def _check_lattice(held: Held) -> None:
    n_dims = len(held.array("lower", None))
    held.array("span", n_dims, positive=True)
    counts = held.array("counts", n_dims, whole=True, positive=True)
    held.need(n_dims and prod(counts.tolist()) <= _MOST_CELLS, "counts", f"numbers of at most {_MOST_CELLS} cells")


def _check_group(held: Held) -> None:
    held.word("kind", ("params", "fields", "points", "tokens"))
    mean = held.array("mean", None)
    held.array("unit", len(mean), positive=True)
    held.array("components", None, len(mean))
    held.number("size", positive=True)


def _check_reference(held: Held) -> None:
    held.part("lattice", "Lattice")
    groups = held.parts("groups", "Group")
    held.need(len({group.kind for group in groups}) == len(groups), "groups", "one group of each kind")
    count = sum(len(group.components) + 1 for group in groups)
    points = held.array("points", None, count)
    held.need(len(points), "points", "the features of at least one sample")
    held.array("own", len(points))


# ---------------------------------------------------------------------- classical models
def _check_kernel(held: Held) -> None:
    held.word("name", _KERNELS)
    held.whole("degree", 0, _HIGHEST_DEGREE)
    held.number("linear")
    held.number("handicap")
    scales = held.get("scales")
    if not isinstance(scales, np.ndarray):
        held.number("scales", positive=True)
    else:
        held.need(_is_array(scales, (None,), positive=True), "scales", "positive numbers")


def _check_kernel_model(held: Held) -> None:
    n, d = held.array("points", None, None).shape
    kernels = held.parts("kernels", "Kernel")
    n_targets = len(held.array("penalties", None, finite=False))
    held.array("left_out", n, n_targets)
    held.array("sizes", n_targets, finite=False)
    held.array("groups", n, whole=True, optional=True)
    inducing = held.get("inducing")
    if inducing is None:
        inducing = [None] * len(kernels)
    lists = {name: held.get(name) for name in ("columns", "weights", "tails")} | {"inducing": inducing}
    for name, value in lists.items():
        held.need(isinstance(value, list) and len(value) == len(kernels), name, f"a list of {len(kernels)}")
    for kernel, columns, weights, tail, chosen in zip(kernels, *lists.values(), strict=True):
        held.need(_is_array(columns, (None,), whole=True), "columns", "numbers of targets")
        is_chosen = chosen is None or (
            _is_array(chosen, (None,), whole=True) and bool(((chosen >= 0) & (chosen < n)).all())
        )
        held.need(is_chosen, "inducing", f"numbers below {n}, or None")
        count = n if chosen is None else len(chosen)
        if kernel.name == "akima":
            is_sorted = chosen is not None and d == 1 and bool((np.diff(held.get("points")[chosen, 0]) > 0).all())
            held.need(is_sorted, "inducing", "the order of different points of one input")
            # Values and slopes.
            count *= 2
        if kernel.name != "none" or kernel.linear:
            held.need(_is_array(weights, (count, len(columns))), "weights", "coefficients")
        held.need(
            np.shape(kernel.scales) in ((), (d,)) and (d == 0 or kernel.degree < _HIGHEST_DEGREE),
            "kernels",
            f"kernels of {d} inputs",
        )
        count = comb(d + kernel.degree, d)
        held.need(
            _is_array(tail, (count, len(columns))),
            "tails",
            f"{count} coefficients for a tail of degree {kernel.degree}",
        )
    held.need(
        sorted(np.concatenate(lists["columns"]).tolist()) == list(range(n_targets)), "columns", "each target once"
    )


def _check_basis(held: Held) -> None:
    mean = held.array("mean_", None)
    held.array("components_", None, len(mean))
    held.flag("is_complete_")


def _check_numbering(held: Held) -> None:
    first = held.array("first", None, None)
    nearest = held.array("nearest", len(first), whole=True)
    held.need(bool(((nearest >= 0) & (nearest < len(first))).all()), "nearest", "numbers of nodes")
    held.array("reach", len(first))
    held.flag("is_known")


def _check_field_regressor(held: Held) -> None:
    """What every regressor on fields has."""
    if "spec_" not in vars(held.value):
        # An estimator that is a parameter of another one is not fitted.
        if any(name.endswith("_") for name in vars(held.value)):
            held.get("spec_")
        return
    spec = held.part("spec_", "DataSpec")
    coords = held.get("coords_")
    held.need(
        coords is None or _is_array(coords, (None, spec.n_dims)),
        "coords_",
        f"points in {spec.n_dims} dimensions, or None",
    )
    held.need(
        coords is not None or not (spec.role == "parameters" or spec.target_points == "shared"),
        "coords_",
        "the points of y",
    )
    if spec.role == "parameters" and spec.target_points == "inputs":
        shape = spec.grid_shape
        held.need(shape is None or prod(shape) == len(coords), "coords_", "the points of the grid of y")
    mesh = getattr(held.value, "mesh_", None)
    if mesh is not None:
        held.part("mesh_", "Mesh")
        held.need(coords is None or len(mesh.points) >= len(coords), "mesh_", "a mesh with the points of y")
    if hasattr(held.value, "n_features_in_"):
        # A base model has read its samples from the operator, and counts no columns.
        count = held.whole("n_features_in_")
        held.need(spec.input_form != "table" or count == spec.n_params, "n_features_in_", f"{spec.n_params}")
    if hasattr(held.value, "feature_names_in_"):
        held.words("feature_names_in_", spec.n_params)
    ranges = held.part("ranges_", "SeenRanges", optional=True)
    if ranges is not None:
        _check_ranges_of(held, ranges, spec)
    reference = held.part("reference_", "Reference", optional=True)
    if reference is not None:
        _check_reference_of(held, reference, spec)


def _check_ranges_of(held: Held, ranges: Any, spec: Any) -> None:
    """Whether ranges are those of the inputs of a spec."""
    # A time that an estimator around this one appends to the parameters is in its ranges too.
    sizes = {"params": spec.n_params, "values": spec.n_fields}
    for name, count in sizes.items():
        found = getattr(ranges, name)
        held.need(found is None or found.shape[1] == count, "ranges_", f"ranges of {count} {name}")
    held.need(ranges.coords.shape[1] == spec.n_dims, "ranges_", f"ranges of {spec.n_dims} coordinates")


def _check_reference_of(held: Held, reference: Any, spec: Any) -> None:
    """Whether features of training samples are those of the inputs of a spec."""
    n_cells, n_dims = prod(reference.lattice.counts.tolist()), len(reference.lattice.lower)
    held.need(n_dims == spec.n_dims, "reference_", f"features of points in {spec.n_dims} dimensions")
    sizes = {"params": spec.n_params, "fields": spec.n_fields * (n_cells + 1), "points": n_cells + 2 * n_dims + 1}
    found = {group.kind: len(group.mean) for group in reference.groups}
    expected = {kind: size for kind, size in sizes.items() if size}
    held.need(
        expected == {kind: size for kind, size in found.items() if kind != "tokens"},
        "reference_",
        f"features of {spec.n_params} parameters and {spec.n_fields} channels",
    )


def _check_pod(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_")
    points, numbering = (
        held.array("points_", None, spec.n_dims, optional=True),
        held.part("numbering_", "_Numbering", optional=True),
    )
    held.need(points is not None or numbering is not None, "points_", "the points of the fit")
    own = points if points is not None else numbering.first
    held.need(own.shape[1] == spec.n_dims, "numbering_", f"points in {spec.n_dims} dimensions")
    grid = spec.resampler
    held.need(grid is None or prod(grid.grid_shape) == len(own), "points_", "the points of the common grid")
    width = len(own) * (spec.network_spec.n_fields + (spec.n_dims if points is None else 0))
    held.array("input_unit_", width, positive=True)
    basis = held.part("input_basis_", "Basis", optional=True)
    held.need((basis is None) == (width == 0), "input_basis_", "components of the input fields, if there are any")
    held.need(basis is None or len(basis.mean_) == width, "input_basis_", f"components of {width} values")
    has_rest = held.flag("has_rest_")
    held.number("input_scale_", positive=True)
    places = len(held.get("coords_")) if spec.target_points == "shared" else len(own)
    n_features = 0 if basis is None else len(basis.components_) + has_rest
    models = held.parts("models_", "OutputModel")
    for model in models:
        # Those of files of earlier versions were made of attributes of the estimator.
        check_loaded(model)
    for name, count in (("channels", spec.n_outputs), ("scalars", spec.n_scalars)):
        every = sorted(int(number) for model in models for number in getattr(model, name))
        held.need(every == list(range(count)), "models_", f"models of {count} {name}")
    for model in models:
        _check_outputs_of(held, model, places, spec.n_params, n_features)


def _check_outputs_of(held: Held, model: Any, places: int, n_params: int, n_features: int) -> None:
    """Whether a model of some outputs fits the inputs and the points of an estimator."""
    n_inputs, n_targets, size = n_params + n_features, len(model.basis.components_), len(model.basis.mean_)
    held.need(len(model.shift) == n_params, "models_", f"models of {n_params} parameters")
    n_channels, n_scalars = map(len, model.held)
    held.need(size == places * n_channels + n_scalars, "models_", f"components of {places} points")
    regressor = model.regressor
    if is_one_of(regressor, "KernelModel"):
        held.need(
            regressor.points.shape[1] == n_inputs and len(regressor.penalties) == n_targets,
            "models_",
            f"a model of {n_targets} targets of {n_inputs} inputs",
        )
        held.need(model.rest_variance is not None, "models_", "the variance that the components leave over")
        return
    held.need(hasattr(regressor, "predict"), "models_", "a fitted regressor")
    found = _tried(held, "models_", regressor.predict, n_inputs)
    held.need(found.shape[1] == n_targets, "models_", f"one with {n_targets} targets of {n_inputs}")


def _check_output_model(held: Held) -> None:
    n_params = len(held.array("shift", None))
    held.array("scale", n_params, positive=True)
    reads = held.get("reads_logarithms")
    is_mask = isinstance(reads, np.ndarray) and reads.dtype == bool and reads.shape == (n_params,)
    held.need(is_mask, "reads_logarithms", f"an array of {n_params} truth values")
    held.flag("learns_logarithms")
    own = [held.array(name, None, whole=True) for name in ("channels", "scalars")]
    among = held.get("among")
    are_numbers = isinstance(among, tuple) and len(among) == 2 and all(_is_array(a, (None,), whole=True) for a in among)
    is_part = are_numbers and all(
        set(few.tolist()) <= set(every.tolist()) for few, every in zip(own, among, strict=True)
    )
    held.need(among is None or is_part, "among", "the numbers of channels and scalars of its components")
    n_channels, n_scalars = map(len, own if among is None else among)
    held.array("channel_unit", n_channels, positive=True)
    held.array("scalar_unit", n_scalars, positive=True)
    held.number("output_scale", positive=True)
    basis = held.part("basis", "Basis")
    held.array("rest_variance", len(basis.mean_), finite=False, optional=True)
    bounds = held.array("bounds", 2, len(basis.mean_), optional=True)
    held.need((bounds is not None) == held.get("learns_logarithms"), "bounds", "the range of logarithms")


def _tried(held: Held, name: str, function: Callable[[Any], Any], n_inputs: int, *, is_finite: bool = True) -> Any:
    """Result of a part of scikit-learn for rows of zeros, as many rows."""
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(function(np.zeros((_ROWS, n_inputs))), dtype=np.float64)
        except Exception as error:
            raise ModelFileError(f"{name} of {held.kind} in the file cannot predict: {error}") from error
    held.need(not is_finite or np.isfinite(found).all(), name, "a model of finite predictions")
    held.need(found.ndim > 0 and len(found) == _ROWS, name, "a model with a prediction for each sample")
    return found.reshape(_ROWS, -1)


def _check_mean_field(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_")
    scalars = held.array("mean_scalars_", spec.n_scalars, optional=True)
    field = held.array("mean_field_", None, spec.n_outputs, optional=True)
    points = held.array("points_", None, spec.n_dims, optional=True)
    held.need((scalars is None) == (not spec.n_scalars), "mean_scalars_", f"{spec.n_scalars} numbers")
    held.need((field is None) == (not spec.n_outputs), "mean_field_", f"fields of {spec.n_outputs} channels")
    if field is None:
        return
    held.need(len(field) == (1 if points is None else len(points)), "points_", "the points of the mean field")
    shape = spec.grid_shape if spec.target_points == "inputs" else spec.target_grid
    if points is not None and shape is not None:
        held.need(prod(shape) == len(points), "points_", "the points of the grid")


def _check_base_model(held: Held) -> None:
    held.part("estimator", "FieldRegressor")
    held.need("spec_" in vars(held.get("estimator")), "estimator", "a fitted estimator")
    held.number("error", finite=False)
    held.flag("leaves_rest")
    held.part("nodes", "_Numbering", optional=True)
    n_dims = held.get("estimator").spec_.n_dims
    for points, grid in (("points", "grid_shape"), ("target_points", "target_grid")):
        own = held.array(points, None, n_dims, optional=True)
        shape = held.shape(grid)
        held.need(own is None or shape is None or prod(shape) == len(own), points, "the points of the grid")


# ---------------------------------------------------------------------- operators
def _check_operator(held: Held) -> None:
    """What an operator regressor predicts with, beside its network."""
    if "spec_" not in vars(held.value):
        return
    held.need(isinstance(held.get("module_"), dict), "module_", "the weights of a network")
    spec = held.part("spec_", "DataSpec")
    inner = spec.network_spec
    geometry = held.word("geometry_", _GEOMETRIES)
    held.need(geometry == "points" or inner.grid_shape is not None, "geometry_", "'points', as there is no grid")
    held.word("dtype_", ("float32", "float64"))
    domain = held.part("domain_", "Domain")
    held.need(len(domain.lower) == spec.n_dims, "domain_", f"a box of {spec.n_dims} dimensions")
    lengths = None if domain.lines is None else tuple(len(line) for line in domain.lines)
    held.need(lengths in (None, inner.grid_shape), "domain_", f"lines of the grid {inner.grid_shape}")
    has_lines = spec.resampler is None or geometry != "grid" or lengths is not None
    held.need(has_lines, "domain_", "lines of the grid of the resampling")
    spacing = held.get("spacing_")
    is_spacing = spacing is None or (
        isinstance(spacing, tuple)
        and len(spacing) == spec.n_dims
        and all(isinstance(step, float) and 0 < step < np.inf for step in spacing)
    )
    held.need(is_spacing, "spacing_", f"{spec.n_dims} positive numbers, or None")
    if spacing is not None and lengths is not None and domain.lines is not None:
        # By the spacing a finer grid is recognised: one of another size would make it finer than it is.
        for axis, line in enumerate(domain.lines):
            span = float(np.ptp(line))
            is_known = len(line) < 2 or abs(spacing[axis] * (len(line) - 1) - span) <= 1e-3 * span
            held.need(is_known, "spacing_", "the spacing of the grid lines")
    if hasattr(held.value, "symmetry_centre_"):
        held.array("symmetry_centre_", spec.n_dims, optional=True)
    scalers = held.part("scalers_", "Scalers")
    _check_sizes_of_scalers(held, scalers, inner)
    base = held.part("base_", "BaseModel", optional=True)
    if base is not None:
        theirs = base.estimator.spec_
        held.need(
            (theirs.n_outputs, theirs.n_scalars, theirs.n_dims) == (spec.n_outputs, spec.n_scalars, spec.n_dims),
            "base_",
            "a model of the same outputs",
        )
    parameters = held.get("network_parameters_")
    is_named = isinstance(parameters, dict) and all(isinstance(name, str) for name in parameters)
    held.need(is_named, "network_parameters_", "parameters by name")
    for name in ("n_iter_", "best_iter_"):
        held.whole(name)
    for name in ("stopped_", "backend_"):
        held.word(name)
    held.number("fit_seconds_")
    for name in ("loss_curve_", "validation_scores_"):
        curve = held.get(name)
        is_curve = isinstance(curve, list) and all(isinstance(item, int | float) for item in curve)
        held.need(is_curve, name, "a list of numbers")


def _check_sizes_of_scalers(held: Held, scalers: Any, spec: Any) -> None:
    """Scalers must have the sizes of the data as the network sees them."""
    held.need(len(scalers.coords.lower_) == spec.n_dims, "scalers_", f"a scaler of {spec.n_dims} coordinates")
    sizes = {"fields": spec.n_fields, "params": spec.n_params, "target": spec.n_outputs, "scalars": spec.n_scalars}
    for name, count in sizes.items():
        scaler = getattr(scalers, name)
        held.need(
            (scaler is None) == (count == 0) and (scaler is None or scaler.mean_.shape[-1] == count),
            "scalers_",
            f"a scaler of {count} {name}",
        )
        if scaler is not None and scaler.mean_.ndim == 2:
            places = None if spec.grid_shape is None else prod(spec.grid_shape)
            held.need(name in ("fields", "target"), "scalers_", f"one number for each of {name}")
            held.need(places in (None, len(scaler.mean_)), "scalers_", f"statistics of {places} points")


def _check_deeponet(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_").network_spec
    sensors = held.array("sensors_", None, spec.n_dims, optional=True)
    held.need((sensors is None) == (not spec.n_fields), "sensors_", "the points of the input fields")
    held.need(
        sensors is None or spec.grid_shape is None or prod(spec.grid_shape) == len(sensors),
        "sensors_",
        f"the points of the grid {spec.grid_shape}",
    )


# ---------------------------------------------------------------------- estimators around others
def _check_ensemble(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_")
    for member in held.parts("estimators_", "FieldRegressor"):
        _check_same_outputs(held, "estimators_", member, spec)


def _check_same_outputs(held: Held, name: str, member: Any, spec: Any) -> None:
    """A member must be fitted, and have inputs and outputs of the same sizes."""
    held.need(hasattr(member, "spec_"), name, "fitted estimators")
    sizes = ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")
    held.need(
        all(getattr(member.spec_, size) == getattr(spec, size) for size in sizes),
        name,
        "estimators of the same inputs and outputs",
    )


def _check_auto(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec, members = held.get("spec_"), held.get("estimators_")
    held.need(isinstance(members, list) and members, "estimators_", "a list of fitted estimators")
    for member in members:
        if is_one_of(member, "FieldRegressor"):
            _check_same_outputs(held, "estimators_", member, spec)
        elif is_one_of(last_step(member), "FieldRegressor"):
            _check_takes(held, "estimators_", member, spec)
        else:
            held.need(hasattr(member, "predict"), "estimators_", "fitted estimators")
            found = _tried(held, "estimators_", member.predict, spec.n_params)
            held.need(found.shape[1] == spec.n_scalars, "estimators_", f"estimators of {spec.n_scalars} targets")
    weights = held.array("weights_", len(members))
    held.need(abs(float(weights.sum()) - 1) < 1e-6, "weights_", "weights that sum to 1")
    rows = held.get("results_")
    is_table = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    held.need(is_table, "results_", "rows of a table")


def _check_takes(held: Held, name: str, member: Any, spec: Any) -> None:
    """A fitted estimator must take X and predict y: one of skop, also in a Pipeline, or on tables another one."""
    member = last_step(member)
    if is_one_of(member, "FieldRegressor"):
        held.need("spec_" in vars(member), name, "fitted estimators")
        sizes = (member.spec_.n_outputs, member.spec_.n_scalars)
        held.need(sizes == (spec.n_outputs, spec.n_scalars), name, "estimators of the outputs of y")
        return
    is_estimator = isinstance(member, BaseEstimator) and hasattr(member, "predict")
    held.need(is_estimator and spec.role == "features", name, "fitted estimators that take such X")


def _check_conformal(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec, folds = held.get("spec_"), held.get("fold_estimators_")
    held.need(isinstance(folds, list), "fold_estimators_", "a list of fitted estimators")
    for name, member in [("estimator_", held.get("estimator_")), *(("fold_estimators_", fold) for fold in folds)]:
        _check_takes(held, name, member, spec)
    held.need(0 < held.number("coverage_") < 1, "coverage_", "a number between 0 and 1")
    held.whole("n_calibration_", 1)
    kind = held.word("scale_kind_", ("residuals", "spread", "constant", "learned"))
    points, scales = held.array("points_", None, spec.n_dims, optional=True), held.get("scales_")
    held.need(isinstance(scales, list) and len(scales) == max(1, len(folds)), "scales_", "one for each estimator")
    for scale in scales:
        is_learned = kind == "learned" and scale is not None
        if is_learned:
            _check_takes(held, "scales_", scale, spec)
        is_array = kind == "residuals" and _is_array(scale, (None, spec.n_outputs), positive=True)
        held.need(is_learned or is_array or scale is None, "scales_", f"those of {kind!r}")
        held.need(not is_array or (points is not None and len(points) == len(scale)), "points_", "the nodes of scales_")
    counts = {"fields": spec.n_outputs, "scalars": spec.n_scalars}
    if not folds:
        held.need(_has_parts(held.get("quantiles_"), counts, _is_factor), "quantiles_", "factors of all outputs")
    pools = held.get("pools_")
    # A split of an earlier version has none.
    if folds or pools is not None:
        are_known = isinstance(pools, list) and len(pools) == max(1, len(folds))
        are_known = are_known and all(_has_parts(one, counts, _is_score_table) for one in pools)
        held.need(are_known, "pools_", "scores of all outputs, for each fold")
    if "new_weight_" in vars(held.value):
        held.need(0 < held.number("new_weight_") < np.inf, "new_weight_", "a positive number")
        held.need(0 < held.number("new_mass_") < 1, "new_mass_", "a number between 0 and 1")


def _check_law(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec, laws = held.get("spec_"), held.part("laws_", "_Laws")
    _check_takes(held, "estimator_", held.get("estimator_"), spec)
    numbers = [*laws.angles.tolist(), *([] if laws.factor is None else [laws.factor])]
    are_known = len(set(numbers)) == len(numbers) and all(0 <= number < spec.n_params for number in numbers)
    held.need(are_known, "laws_", f"laws of {spec.n_params} parameters")


def _check_laws(held: Held) -> None:
    count = len(held.array("angles", None, whole=True))
    held.array("periods", count, positive=True)
    held.array("starts", count)
    if held.get("factor") is not None:
        held.whole("factor")
    held.number("offset")


def _has_parts(found: Any, counts: dict[str, int], is_right: Callable[[Any], bool]) -> bool:
    """Whether there is one right part for each channel and scalar."""
    return (
        isinstance(found, dict)
        and found.keys() == counts.keys()
        and all(len(found[kind]) == count and all(map(is_right, found[kind])) for kind, count in counts.items())
    )


def _is_factor(part: Any) -> bool:
    """Whether this is a finite number."""
    return isinstance(part, float) and isfinite(part)


def _is_score_table(part: Any) -> bool:
    """Whether this is a table of finite scores and the masses up to each."""
    return isinstance(part, np.ndarray) and part.ndim == 2 and len(part) == 2 and bool(np.isfinite(part).all())


def _check_frames(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec, estimator = held.get("spec_"), held.get("estimator_")
    n_frames = held.whole("n_frames_", 1)
    held.need((spec.n_outputs + spec.n_scalars) % n_frames == 0, "n_frames_", "a number of frames that y can have")
    held.need(hasattr(estimator, "predict"), "estimator_", "a fitted estimator")
    times = getattr(held.value, "times_", None)
    if hasattr(held.value, "times_"):
        held.array("times_", n_frames)
    inner = getattr(estimator, "spec_", None)
    held.need(inner is not None or not is_one_of(estimator, "FieldRegressor"), "estimator_", "a fitted estimator")
    if inner is not None:
        count = (spec.n_outputs + spec.n_scalars) // n_frames
        held.need(inner.n_outputs + inner.n_scalars == count, "estimator_", f"an estimator of {count} channels")
        held.need(inner.n_dims == spec.n_dims, "estimator_", f"an estimator in {spec.n_dims} dimensions")
        given = inner.n_fields + inner.n_params
        wanted = spec.n_fields + spec.n_params + (times is not None)
        held.need(given == wanted, "estimator_", f"an estimator of {wanted} inputs")


def _check_rollout(held: Held) -> None:
    if "spec_" not in vars(held.value):
        return
    spec = held.get("spec_")
    window = held.whole("window_", 1)
    feeds_back = held.flag("feeds_back_")
    n_channels = (spec.n_outputs + spec.n_scalars) // held.get("n_frames_")
    given = spec.n_params if spec.role == "features" else spec.n_fields
    held.need(not feeds_back or window * n_channels == given, "window_", "the number of frames in X")
    held.need(feeds_back or held.get("n_frames_") == 1, "feeds_back_", "True for several frames")


# ---------------------------------------------------------------------- scikit-learn
def _check_pipeline(held: Held) -> None:
    steps = held.get("steps")
    is_list = isinstance(steps, list) and all(
        isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str) for step in steps
    )
    held.need(is_list and steps, "steps", "names and estimators")
    names = [name for name, _ in steps]
    held.need(len(set(names)) == len(names), "steps", "names that differ")
    for number, (_, step) in enumerate(steps):
        is_last = number == len(steps) - 1
        is_step = hasattr(step, "transform") or step in ("passthrough", None) or (is_last and hasattr(step, "predict"))
        held.need(is_step, "steps", "transformers, and a transformer or regressor at the end")
    n_inputs = getattr(steps[0][1], "n_features_in_", None)
    first_names = getattr(steps[0][1], "feature_names_in_", None)
    if n_inputs is None or first_names is not None:
        return
    n_columns = n_inputs
    for _, step in steps[:-1]:
        if step not in ("passthrough", None):
            # The logarithm of the zeros that are tried is not finite.
            has_function = any(isinstance(value, np.ufunc) for value in step.get_params().values())
            n_columns = _tried(held, "steps", step.transform, n_columns, is_finite=not has_function).shape[1]
    expected = getattr(steps[-1][1], "n_features_in_", n_columns)
    held.need(n_columns == expected, "steps", f"transformers that give {expected} columns")


def _check_scikit_learn(held: Held) -> None:
    """Sizes that an object of scikit-learn allocates by, which no array may hold."""
    for name in ("n_features_in_", "n_output_features_", "_n_out_full", "_max_degree", "_min_degree", "degree"):
        value = vars(held.value).get(name)
        if isinstance(value, int | float):
            held.need(0 <= value <= _TRIED, name, f"a number up to {_TRIED}")


_CHECKS: dict[str, Callable[[Held], None]] = {
    "BaseEstimator": _check_scikit_learn,
    "TargetForm": _check_target_form,
    "DataSpec": _check_spec,
    "GridResampler": _check_resampler,
    "FieldScaler": _check_field_scaler,
    "BoxScaler": _check_box_scaler,
    "Scalers": _check_scalers,
    "Domain": _check_domain,
    "SeenRanges": _check_ranges,
    "Lattice": _check_lattice,
    "Group": _check_group,
    "Reference": _check_reference,
    "Kernel": _check_kernel,
    "KernelModel": _check_kernel_model,
    "Basis": _check_basis,
    "OutputModel": _check_output_model,
    "_Numbering": _check_numbering,
    "BaseModel": _check_base_model,
    "FieldRegressor": _check_field_regressor,
    "PODRegressor": _check_pod,
    "MeanFieldRegressor": _check_mean_field,
    "OperatorRegressor": _check_operator,
    "DeepONetRegressor": _check_deeponet,
    "EnsembleRegressor": _check_ensemble,
    "AutoRegressor": _check_auto,
    "ConformalRegressor": _check_conformal,
    "LawRegressor": _check_law,
    "_Laws": _check_laws,
    "BaseFrameRegressor": _check_frames,
    "RolloutRegressor": _check_rollout,
    "Pipeline": _check_pipeline,
}
