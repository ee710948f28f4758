"""Read X and y in all their forms into FieldSets. Every shape check of the package lives here.

Letters of the shapes: n samples, P points, d space dimensions, c channels, p parameters, q scalars.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape
from skop.data._checks import SAME_POINT, check_finite, check_not_empty, check_same_points
from skop.data._fieldset import FieldSet
from skop.data._forms import as_list, carries_points, is_pairs, is_point_sets, is_table
from skop.data._grid import find_grid, unit_grid
from skop.data._sample_lists import join_samples, read_pairs, warn_if_ambiguous
from skop.data._spec import DataSpec
from skop.data._storage import as_storage, is_lazy, read_rows, reshape_rows
from skop.exceptions import FieldDataError, SkopWarning

__all__ = ["TrainingData", "read_inputs", "read_training_data", "read_truth"]


@dataclass(frozen=True)
class TrainingData:
    """X and y of a fit in one form.

    Attributes
    ----------
    inputs : FieldSet
        Coordinates, fields and parameters.
    targets : FieldSet
        Fields on the same points, with scalars beside them as `params`; scalars alone are fields of as
        many channels on one point.
    spec : DataSpec
        What they looked like.
    """

    inputs: FieldSet
    targets: FieldSet
    spec: DataSpec


@dataclass(frozen=True)
class _Target:
    """A y that was read: its fields, the name of its form, and whether it is scalars alone."""

    fields: FieldSet
    form: str
    scalar: bool = False


def read_training_data(X: Any, y: Any) -> TrainingData:
    """Read X and y of a fit.

    Parameters
    ----------
    X : ndarray (n, p), array (n, *grid, c), FieldSet, (coords, fields), or list of point sets or of (coords, fields)
        Inputs; a 2-D table must have passed scikit-learn's own checks.
    y : ndarray, FieldSet, (coords, fields), or list of arrays or of (coords, fields)
        Targets.

    Returns
    -------
    TrainingData
        Inputs and targets as FieldSets on grids in C order where the points form one.

    Raises
    ------
    FieldDataError
        If shapes, counts, kinds or values are unusable.
    """
    X, y = as_list(X), as_list(y)
    if y is None:
        raise FieldDataError("fitting requires y to be passed, but the target y is None.")
    inputs, target, (form, role) = _read_table(X, y) if is_table(X) else _read_fields(X, y)
    fields = target.fields
    if len(inputs) != len(fields):
        raise FieldDataError(
            f"X has {len(inputs)} samples and y has {len(fields)}: inconsistent numbers of samples; one y a sample."
        )
    check_not_empty(inputs, "X")
    check_not_empty(fields, "y")
    check_finite(inputs, "X")
    check_finite(fields, "y")
    dtype = fields.dtype if fields.dtype.kind == "f" else np.dtype(float)
    spec = DataSpec(
        input_form=form,
        role=role,
        target_form=target.form,
        n_dims=inputs.n_dims,
        n_fields=inputs.n_channels,
        n_params=inputs.n_params,
        n_outputs=0 if target.scalar else fields.n_channels,
        grid_shape=inputs.grid_shape,
        target_dtype="float64" if target.scalar else dtype.name,
        channel_names=fields.channel_names,
        n_scalars=fields.n_channels if target.scalar else fields.n_params,
        layout=_layout(inputs),
    )
    return TrainingData(inputs, fields, spec)


def _layout(inputs: FieldSet) -> str:
    """Whether the points form a rectilinear grid, a bent one, or none."""
    if inputs.grid_shape is None or len(inputs.grid_shape) != inputs.n_dims:
        return "points"
    if not inputs.shared_coords:
        return "structured"
    return "grid" if find_grid(inputs.coords) is not None and _runs_straight(inputs) else "structured"


def _runs_straight(inputs: FieldSet) -> bool:
    """Whether each coordinate changes along one axis of the stated grid only; axes may be in any order."""
    shape = inputs.grid_shape or ()
    points = inputs.coords.reshape(*shape, inputs.n_dims)
    slack = SAME_POINT * np.ptp(inputs.coords, axis=0)
    changes = np.array(
        [(np.ptp(points, axis=axis) > slack).any(axis=tuple(range(len(shape) - 1))) for axis in range(len(shape))]
    )
    return bool((changes.sum(axis=0) <= 1).all() and (changes.sum(axis=1) <= 1).all())


def read_inputs(X: Any, spec: DataSpec, coords: FloatArray | None) -> FieldSet:
    """Read X of a prediction and hold it against the fit.

    Parameters
    ----------
    X : as in `read_training_data`
        Inputs.
    spec : DataSpec
        What the fit saw.
    coords : ndarray of shape (P, d) or None
        Where parameters are turned into fields; needed when X is a table.

    Returns
    -------
    FieldSet
        Inputs as the network expects them.

    Raises
    ------
    FieldDataError
        If X is of another kind than in the fit, or its channels or dimensions differ.
    """
    table = is_table(X)
    if table != (spec.input_form == "table"):
        came = "a 2-D table" if table else f"fields ({_describe(X)})"
        expected = "a 2-D table" if spec.input_form == "table" else "fields"
        raise FieldDataError(f"X is {came}, but the estimator was fitted on {expected}; pass the same kind.")
    inputs = _table_inputs(np.asarray(X), spec.role, coords, spec.grid_shape) if table else _fields_as_set(X, "X")
    for what, count, fitted in (
        ("channels", inputs.n_channels, spec.n_fields),
        ("parameters", inputs.n_params, spec.n_params),
        ("space dimensions", inputs.n_dims, spec.n_dims),
    ):
        if count != fitted:
            raise FieldDataError(f"X has {count} {what}, but the estimator was fitted with {fitted}; {_describe(X)}.")
    check_not_empty(inputs, "X")
    check_finite(inputs, "X")
    return inputs


def read_truth(y: Any, inputs: FieldSet, spec: DataSpec) -> FieldSet:
    """Read the true fields that predictions are held against.

    Parameters
    ----------
    y : as in `read_training_data`
        Fields on the points of the inputs, with scalars beside them as params.
    inputs : FieldSet
        Inputs of the prediction.
    spec : DataSpec
        What the fit saw.

    Returns
    -------
    FieldSet
        Fields in the order of points of the inputs.

    Raises
    ------
    FieldDataError
        If y lies on other points or has other channels than those of the fit.
    """
    target = _match_target(as_list(y), inputs, listed=spec.input_form in ("list", "pairs"))
    if target.scalar or target.fields.n_channels != spec.n_outputs:
        came = "scalars" if target.scalar else f"{target.fields.n_channels} channels"
        raise FieldDataError(f"y has {came}, but the estimator was fitted on fields of {spec.n_outputs} channels.")
    check_finite(target.fields, "y")
    return target.fields


# ---------------------------------------------------------------------- tables
def _read_table(X: Any, y: Any) -> tuple[FieldSet, _Target, tuple[str, str]]:
    """Read a 2-D X in one of its three meanings, which y decides."""
    X = np.asarray(X)
    if carries_points(y):
        fields, form = _target_fields(y)
        if not fields.shared_coords:
            raise FieldDataError(
                "X holds global parameters, so all samples of y must share their coordinates; for meshes that differ "
                "pass X as a FieldSet with params."
            )
        inputs = _table_inputs(X, "parameters", fields.coords, fields.grid_shape)
        return inputs, _Target(fields, form), ("table", "parameters")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1:] == X.shape[1:] and X.shape[1] > 1:
        inputs = _table_inputs(X, "function", None, None)
        fields = FieldSet(inputs.coords, y[..., None], grid_shape=inputs.grid_shape)
        return inputs, _Target(fields, "grid_single"), ("table", "function")
    return _table_inputs(X, "features", None, None), _scalars(y), ("table", "features")


def _table_inputs(X: FloatArray, role: str, coords: FloatArray | None, grid_shape: GridShape | None) -> FieldSet:
    """Turn a table into a FieldSet: features on one point, a function on [0, 1], or parameters on given points."""
    if role == "function":
        return FieldSet(unit_grid((X.shape[1],)), X[..., None], grid_shape=(X.shape[1],))
    if role == "features":
        return FieldSet(np.zeros((1, 1)), params=X, grid_shape=(1,))
    return FieldSet(coords, params=X, grid_shape=grid_shape)


# ---------------------------------------------------------------------- fields
def _read_fields(X: Any, y: Any) -> tuple[FieldSet, _Target, tuple[str, str]]:
    """Read X given as fields, and a y that lives on its points or is scalar."""
    inputs = _fields_as_set(X, "X")
    check_not_empty(inputs, "X")
    if is_point_sets(X):
        warn_if_ambiguous(X, "X")
    form = _form_of(X)
    return inputs, _match_target(y, inputs, listed=form in ("list", "pairs")), (form, "fields")


def _form_of(samples: Any) -> str:
    """Name of the form of fields."""
    if isinstance(samples, FieldSet):
        return "fieldset"
    if isinstance(samples, tuple):
        return "tuple"
    return "pairs" if is_pairs(samples) else "list" if is_point_sets(samples) else "grid"


def _fields_as_set(X: Any, name: str) -> FieldSet:
    """Fields of any form as a FieldSet, with its grid recognised."""
    X = as_list(X)
    if isinstance(X, FieldSet):
        fields = X
    elif isinstance(X, tuple):
        if len(X) != 2:
            raise FieldDataError(f"{name} is a tuple of {len(X)} items; expected (coords, fields).")
        fields = FieldSet(X[0], X[1])
    elif is_pairs(X):
        fields = read_pairs(X, name)
    elif is_point_sets(X):
        fields = join_samples(X, None)
    else:
        fields = _grid_array(X, name)
    return _with_grid(fields)


def _grid_array(X: Any, name: str) -> FieldSet:
    """Place an array (n, *grid, c) as fields on the unit box."""
    if isinstance(X, list) and any(isinstance(item, FieldSet | tuple) for item in X):
        raise FieldDataError(
            f"{name} is a list of {type(X[0]).__name__}; join FieldSets by np.concatenate(list), and pass tuples "
            "(coords, fields) for all samples or none."
        )
    if isinstance(X, list) and len({np.shape(item) for item in X}) > 1:
        raise FieldDataError(
            f"{name} is a list of {len(X)} arrays of different shapes, for example {np.shape(X[0])} and "
            f"{next(np.shape(item) for item in X if np.shape(item) != np.shape(X[0]))}; a regular grid needs one "
            "shape, and samples on points of their own are pairs (coords, fields) or arrays (points, dimensions)."
        )
    array = as_storage(X, name)
    if not 3 <= array.ndim <= 5:
        raise FieldDataError(
            f"{name} has shape {tuple(array.shape)}; expected (n_samples, *grid, channels) with 1 to 3 grid axes."
        )
    grid = tuple(int(size) for size in array.shape[1:-1])
    if len(grid) == 1 and grid[0] == array.shape[-1] > 3:
        warnings.warn(
            f"{name} of shape {tuple(array.shape)} is read as a 1-D grid of {grid[0]} points with {grid[0]} channels. "
            f"For one channel on a {grid[0]}x{grid[0]} grid, add a channel axis: {name}[..., None].",
            SkopWarning,
            stacklevel=4,
        )
    if 0 in array.shape:
        raise FieldDataError(f"{name} has shape {tuple(array.shape)}: an axis has length 0; nothing to learn from.")
    return FieldSet(unit_grid(grid), array, grid_shape=grid)


def _with_grid(fields: FieldSet) -> FieldSet:
    """Set grid_shape where shared points, in C order already, form a grid."""
    if fields.grid_shape is not None or not fields.shared_coords:
        return fields
    found = find_grid(fields.coords)
    if found is None or not np.array_equal(found[1], np.arange(len(found[1]))):
        return fields
    return fields._replace(_grid_shape=found[0])


# ---------------------------------------------------------------------- targets
def _target_fields(y: Any) -> tuple[FieldSet, str]:
    """Read a y that carries its own points, or a grid array."""
    if not isinstance(y, FieldSet | tuple) and not is_pairs(y):
        return _grid_array(y, "y"), "grid"
    fields = _fields_as_set(y, "y")
    if fields.n_channels == 0:
        raise FieldDataError(f"y is a {type(y).__name__} without values; pass the fields to learn.")
    return fields, _form_of(y)


def _match_target(y: Any, inputs: FieldSet, *, listed: bool) -> _Target:
    """Read a y on the points of X, or scalars; X may be a list of samples."""
    if isinstance(y, FieldSet | tuple) or is_pairs(y):
        fields, form = _target_fields(y)
        check_same_points(fields, inputs)
        if fields.is_ragged != inputs.is_ragged and len(fields) == len(inputs):
            values = np.concatenate(fields.to_list())
            whole = values if inputs.is_ragged else values.reshape(*inputs.shape[:2], -1)
            fields = inputs.with_values(whole, fields.channel_names).with_params(fields.params)
        return _Target(fields, form)
    if isinstance(y, list) and y and (listed or inputs.is_ragged or not inputs.shared_coords) and np.ndim(y[0]) > 0:
        return _listed_target(y, inputs)
    array = as_storage(y, "y")
    if len(array.shape) <= 2 and inputs.is_ragged:
        return _scalars(array)
    if inputs.is_ragged or 0 in array.shape:
        expected = (
            "a list of arrays, since the samples of X differ in their points" if inputs.is_ragged else "no empty axis"
        )
        raise FieldDataError(f"y has shape {tuple(array.shape)}; expected {expected}.")
    per_sample, points = tuple(array.shape[1:]), (int(inputs.n_points[0]),)
    grid = inputs.grid_shape or points
    for place, base in (("grid", grid), ("points", points)):
        if per_sample[:-1] == base:
            return _on_points(inputs, array, place)
        if per_sample == base and per_sample != (1,):
            return _on_points(inputs, array, f"{place}_single")
    if len(array.shape) <= 2:
        return _scalars(array)
    raise FieldDataError(
        f"y has shape {tuple(array.shape)}, which does not fit the points of X: expected (n, "
        f"{', '.join(map(str, grid))}, channels) for fields on the same grid, or (n,) or (n, q) for scalars."
    )


def _listed_target(y: list[Any], inputs: FieldSet) -> _Target:
    """Read a list of arrays, one for each sample, on the points of X."""
    arrays = [np.asarray(as_storage(item, f"y of sample {i}")) for i, item in enumerate(y)]
    if len(arrays) != len(inputs):
        raise FieldDataError(
            f"X has {len(inputs)} samples and y has {len(arrays)}: inconsistent numbers of samples; one y a sample."
        )
    single = arrays[0].ndim == 1
    if single and len({len(item) for item in arrays}) == 1 and len(arrays[0]) != inputs.n_points[0]:
        return _scalars(np.stack(arrays))
    for i, (item, n_points) in enumerate(zip(arrays, inputs.n_points, strict=True)):
        expected = (n_points,) if single else (n_points, arrays[0].shape[-1])
        if item.shape != expected:
            raise FieldDataError(f"y of sample {i} has shape {item.shape}; X has {n_points} points there: {expected}.")
    values = np.concatenate([item[:, None] if single else item for item in arrays])
    whole = values if inputs.is_ragged else values.reshape(len(arrays), int(inputs.n_points[0]), -1)
    return _Target(inputs.with_values(whole), "list_single" if single else "list")


def _on_points(inputs: FieldSet, array: Any, form: str) -> _Target:
    """Target fields on the points of the inputs."""
    n_points = int(inputs.n_points[0])
    n_channels = 1 if form.endswith("_single") else int(array.shape[-1])
    values = reshape_rows(array, (n_points, n_channels))
    coords = inputs.coords if inputs.shared_coords else np.zeros((n_points, inputs.n_dims))
    return _Target(FieldSet(coords, values, grid_shape=inputs.grid_shape), form)


def _scalars(y: FloatArray) -> _Target:
    """Scalars as q channels on one point."""
    y = as_storage(y, "y")
    y = read_rows(y, slice(None)) if is_lazy(y) else y
    if y.ndim not in (1, 2) or 0 in y.shape[1:]:
        raise FieldDataError(f"y has shape {y.shape}; expected (n_samples,) or (n_samples, n_scalars).")
    fields = FieldSet(np.zeros((1, 1)), y.reshape(len(y), 1, -1))
    return _Target(fields, "vector" if y.ndim == 1 else "table", scalar=True)


def _describe(X: Any) -> str:
    """Words for what came."""
    return f"it came as {type(X).__name__}" + (f" of shape {tuple(X.shape)}" if hasattr(X, "shape") else "")
