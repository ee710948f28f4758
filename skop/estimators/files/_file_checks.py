"""Checks of objects that come out of a model file, before anything is built from them or computed with them.

A file with a correct checksum can still hold anything: the checksum is no signature. Therefore every number, name and
array that a prediction uses is checked for its type and range, and sizes are compared with the arrays in the file. An
invalid file is refused on loading, and takes no more time and memory than its own size allows.

Notation: P points, d space dimensions, c input channels, p global parameters, q output channels, s scalars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import isfinite, prod
from typing import Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skop._sklearn_compat import last_step
from skop.data import FORMS
from skop.exceptions import ModelFileError

__all__ = [
    "Held",
    "check_loaded",
    "check_mesh",
    "check_same_outputs",
    "check_takes",
    "checks",
    "is_array",
    "is_one_of",
    "tried",
]

#: Largest number of channels, points along an axis, frames and the like where no array bounds it.
_MANY = 2**31
#: Largest number of cells over the box of a fit.
_MOST_CELLS = 2**12
_GEOMETRIES = ("grid", "structured", "points")
#: Largest size that an object of scikit-learn may allocate, and number of rows for a trial call. One row would also fit
#: arrays of wrong shapes.
_TRIED, _ROWS = 2**24, 3


class Held:
    """Attributes of an object from a file; each method returns one, or raises an error that names the expected value.

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
        """An array of numbers of a shape, of which None is any length; see `is_array`."""
        value = self.get(name)
        if value is None and optional:
            return None
        text = " x ".join("any" if size is None else str(size) for size in shape)
        what = f"{'' if finite else 'possibly infinite '}{'integers' if whole else 'numbers'}"
        self.need(
            is_array(value, shape, positive=positive, finite=finite, whole=whole),
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


def is_array(
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
    """Raise an error if an object from a file has invalid attributes, or attributes that contradict each other.

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
        if kind.__name__ in CHECKS:
            CHECKS[kind.__name__](held)


def check_mesh(
    points: Any, cells: Any, info: Any = None, point_sets: Any = None, cell_sets: Any = None, field_data: Any = None
) -> None:
    """Raise an error if points and cells from a file make no mesh.

    Parameters
    ----------
    points : object
        Points of the mesh: an array of shape (P, d).
    cells : object
        Its cells: a list of a name and the numbers of the points of each cell.
    info : object, default=None
        Notes of skop: None, or a dictionary of lists of names and of booleans.
    point_sets, cell_sets : object, default=None
        Named sets of points, and of cells by their blocks: None, or a dictionary of their numbers.
    field_data : object, default=None
        Named groups: None, or a dictionary of a number and a dimension for each.

    Raises
    ------
    ModelFileError
        If a part is invalid, or a cell refers to a point that does not exist.
    """
    is_good = is_array(points, (None, None)) and 1 <= points.shape[1] <= 3 and isinstance(cells, list)
    for block in cells if is_good else ():
        is_good &= isinstance(block, list) and len(block) == 2 and isinstance(block[0], str)
        is_good = is_good and _are_cells(block[1], len(points))
    notes = info.values() if isinstance(info, dict) else [] if info is None else [None]
    is_good = is_good and all(isinstance(note, bool | list | tuple) for note in notes)
    for sets in (point_sets or {}, cell_sets or {}, field_data or {}):
        is_good = is_good and isinstance(sets, dict)
    for rows in (point_sets or {}).values() if is_good else ():
        is_good = is_good and _are_cells(rows, len(points))
    for parts in (cell_sets or {}).values() if is_good else ():
        is_good = is_good and isinstance(parts, list) and len(parts) == len(cells)
        pairs = zip(parts, cells, strict=True) if is_good else ()
        is_good = is_good and all(_are_cells(rows, len(block[1])) for rows, block in pairs)
    is_good = is_good and all(is_array(group, (2,), whole=True) for group in (field_data or {}).values())
    if not is_good:
        raise ModelFileError("a mesh in the file has invalid points, cells, notes or sets; fit and save again.")


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
    held.word("container", [form.container for form in FORMS if form.container])
    is_known = re.fullmatch(r"[<>=]?f(2|4|8|12|16)|float(16|32|64|96|128)|longdouble", held.word("dtype"))
    held.need(is_known, "dtype", "the name of a type of real numbers, such as 'float64'")
    for name in ("squeezes_channel", "has_grid_axes", "has_text"):
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
    held.word("input_form", [form.name for form in FORMS if form.name])
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
    held.need(is_array(mean, (None,)) or is_array(mean, (None, None)), "mean_", "finite numbers of channels")
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
        held.need(is_grid and all(is_array(line, (None,)) and len(line) for line in lines), "lines", "grid lines")
    if reach is not None:
        is_box = isinstance(reach, tuple) and len(reach) == 2 and all(is_array(part, (n_dims,)) for part in reach)
        held.need(is_box, "reach", "two corners of a box, or None")
    shapes = held.part("shapes", "Shapes", optional=True)
    held.need(shapes is None or shapes.nodes.shape[-1] == n_dims, "shapes", f"shapes in {n_dims} dimensions")


def _check_shapes(held: Held) -> None:
    n_samples, count, n_dims = held.array("nodes", None, None, None).shape
    held.need(n_samples > 0, "nodes", "one sample or more")
    held.array("centre", count * n_dims)
    held.array("limits", 2, len(held.array("modes", None, count * n_dims)))
    held.number("spread", positive=True)


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
    for name in ("medians", "in_logarithms", "in_levels"):
        found = held.array(name, None, optional=True)
        held.need(found is None or np.shape(found) == np.shape(params)[1:], name, "a number for each parameter")
    held.array("outputs", 2, None, optional=True)
    relations = held.array("relations", None, None, optional=True)
    is_whole = relations is None or (params is not None and np.shape(relations)[1] == np.shape(params)[1] + 1)
    held.need(is_whole, "relations", "a number for each parameter, and one more")
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
    held.flag("has_images")


def tried(held: Held, name: str, function: Callable[[Any], Any], n_inputs: int, *, is_finite: bool = True) -> Any:
    """Result of a part of scikit-learn for rows of zeros, as many rows."""
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(function(np.zeros((_ROWS, n_inputs))), dtype=np.float64)
        except Exception as error:
            raise ModelFileError(f"{name} of {held.kind} in the file cannot predict: {error}") from error
    held.need(not is_finite or np.isfinite(found).all(), name, "a model of finite predictions")
    held.need(found.ndim > 0 and len(found) == _ROWS, name, "a model with a prediction for each sample")
    return found.reshape(_ROWS, -1)


def check_same_outputs(held: Held, name: str, member: Any, spec: Any) -> None:
    """A member must be fitted, and have inputs and outputs of the same sizes."""
    held.need(hasattr(member, "spec_"), name, "fitted estimators")
    sizes = ("n_dims", "n_fields", "n_params", "n_outputs", "n_scalars")
    held.need(
        all(getattr(member.spec_, size) == getattr(spec, size) for size in sizes),
        name,
        "estimators of the same inputs and outputs",
    )


def check_takes(held: Held, name: str, member: Any, spec: Any) -> None:
    """A fitted estimator must take X and predict y: one of skop, also in a Pipeline, or on tables another one."""
    member = last_step(member)
    if is_one_of(member, "FieldRegressor"):
        held.need("spec_" in vars(member), name, "fitted estimators")
        sizes = (member.spec_.n_outputs, member.spec_.n_scalars)
        held.need(sizes == (spec.n_outputs, spec.n_scalars), name, "estimators of the outputs of y")
        return
    is_estimator = isinstance(member, BaseEstimator) and hasattr(member, "predict")
    held.need(is_estimator and spec.has_features, name, "fitted estimators that take such X")


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
    if hasattr(steps[-1][1], "spec_"):
        held.need(all(map(_is_fitted, (step for _, step in steps[:-1]))), "steps", "fitted transformers")
    n_inputs = getattr(steps[0][1], "n_features_in_", None)
    first_names = getattr(steps[0][1], "feature_names_in_", None)
    if n_inputs is None or first_names is not None:
        return
    n_columns = n_inputs
    for _, step in steps[:-1]:
        if step not in ("passthrough", None):
            # The logarithm of the zeros that are tried is not finite.
            has_function = any(isinstance(value, np.ufunc) for value in step.get_params().values())
            n_columns = tried(held, "steps", step.transform, n_columns, is_finite=not has_function).shape[1]
    expected = getattr(steps[-1][1], "n_features_in_", n_columns)
    held.need(n_columns == expected, "steps", f"transformers that give {expected} columns")


def _is_fitted(step: Any) -> bool:
    """Whether a step of a Pipeline can transform."""
    try:
        return step in ("passthrough", None) or check_is_fitted(step) is None
    except NotFittedError:
        return False


def _check_scikit_learn(held: Held) -> None:
    """Check sizes by which an object of scikit-learn allocates memory, and that no array bounds."""
    for name in ("n_features_in_", "n_output_features_", "_n_out_full", "_max_degree", "_min_degree", "degree"):
        value = vars(held.value).get(name)
        if isinstance(value, int | float):
            held.need(0 <= value <= _TRIED, name, f"a number up to {_TRIED}")


#: A function that raises an error about an object that is wrong.
Check = Callable[[Held], None]
#: Checks by the name of the class; files of other classes add theirs by `checks`.
CHECKS: dict[str, Check] = {
    "BaseEstimator": _check_scikit_learn,
    "TargetForm": _check_target_form,
    "DataSpec": _check_spec,
    "GridResampler": _check_resampler,
    "FieldScaler": _check_field_scaler,
    "BoxScaler": _check_box_scaler,
    "Scalers": _check_scalers,
    "Domain": _check_domain,
    "Shapes": _check_shapes,
    "SeenRanges": _check_ranges,
    "Lattice": _check_lattice,
    "Group": _check_group,
    "Reference": _check_reference,
    "Pipeline": _check_pipeline,
}


def checks(name: str) -> Callable[[Check], Check]:
    """Return a decorator of a function that checks objects of the class of this name, and of those derived from it."""

    def register(check: Check) -> Check:
        """Remember the function."""
        CHECKS[name] = check
        return check

    return register
