"""Read X and y in all their forms into FieldSets. Every shape check of the package lives here.

Letters of the shapes: n samples, P points, d space dimensions, c channels, p parameters, q scalars.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape
from skop.data._checks import check_finite, check_not_empty, check_same_points
from skop.data._fieldset import FieldSet
from skop.data._grid import find_grid, unit_grid
from skop.data._spec import DataSpec
from skop.data._storage import as_storage, is_lazy, read_rows, reshape_rows
from skop.exceptions import FieldDataError, SkopWarning

__all__ = ["TrainingData", "carries_points", "is_table", "read_inputs", "read_training_data", "restore_form"]


@dataclass(frozen=True)
class TrainingData:
    """X and y of a fit in one form.

    Attributes
    ----------
    inputs : FieldSet
        Coordinates, fields and parameters.
    targets : FieldSet
        Fields on the same points; scalars are fields of q channels on one point.
    spec : DataSpec
        What they looked like.
    """

    inputs: FieldSet
    targets: FieldSet
    spec: DataSpec


def is_table(X: Any) -> bool:
    """Tell whether X is a 2-D table (or something that scikit-learn must judge), not fields.

    Parameters
    ----------
    X : object
        What a caller passed.

    Returns
    -------
    bool
        False for FieldSets, ``(coords, fields)`` tuples, arrays with more than two axes and lists of arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import is_table
    >>> is_table(np.zeros((3, 2))), is_table(np.zeros((3, 8, 8, 1)))
    (True, False)
    """
    if isinstance(X, FieldSet | tuple) or is_lazy(X):
        return False
    if isinstance(X, list):
        return not X or _axes_of(X[0]) < 2
    return getattr(X, "ndim", 2) <= 2


def _axes_of(sample: Any) -> int:
    """Count the axes of one item of a list; a tuple of (coords, fields) counts as a field."""
    if isinstance(sample, tuple) and any(_axes_of(part) > 1 for part in sample):
        return 2
    try:
        return int(sample.ndim) if hasattr(sample, "ndim") else np.ndim(sample)
    except ValueError:
        # Rows of different lengths: scikit-learn says what is wrong with them.
        return 1


def carries_points(y: Any) -> bool:
    """Tell whether y brings its own points, so that a 2-D X beside it holds global parameters.

    Parameters
    ----------
    y : object
        What a caller passed.

    Returns
    -------
    bool
        True for FieldSets, ``(coords, fields)`` tuples and grid arrays with more than two axes.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import carries_points
    >>> carries_points(np.zeros((3, 8, 8, 1))), carries_points(np.zeros((3, 2)))
    (True, False)
    """
    if y is None or isinstance(y, FieldSet | tuple):
        return y is not None
    # Asking NumPy for the number of axes would fail on array-likes that implement only __array__.
    return (y.ndim if hasattr(y, "ndim") else np.asarray(y).ndim) > 2


def read_training_data(X: Any, y: Any) -> TrainingData:
    """Read X and y of a fit.

    Parameters
    ----------
    X : ndarray (n, p), array (n, *grid, c), FieldSet or (coords, fields)
        Inputs; a 2-D table must have passed scikit-learn's own checks.
    y : ndarray, FieldSet or (coords, fields)
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
    if y is None:
        raise FieldDataError("fitting requires y to be passed, but the target y is None.")
    inputs, targets, names = _read_table(X, y) if is_table(X) else _read_fields(X, y)
    fields, points, form = targets
    if len(inputs) != len(fields):
        raise FieldDataError(
            f"X has {len(inputs)} samples and y has {len(fields)}: inconsistent numbers of samples; one y a sample."
        )
    check_not_empty(inputs, "X")
    check_finite(inputs, "X")
    check_finite(fields, "y")
    dtype = fields.dtype if fields.dtype.kind == "f" else np.dtype(float)
    spec = DataSpec(
        input_form=names[0],
        role=names[1],
        target_form=form,
        n_dims=inputs.n_dims,
        n_fields=inputs.n_channels,
        n_params=inputs.n_params,
        n_outputs=fields.n_channels,
        grid_shape=inputs.grid_shape,
        target_dtype="float64" if points is None else dtype.name,
        channel_names=fields.channel_names,
    )
    return TrainingData(inputs, fields, spec)


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


def restore_form(predictions: FloatArray, inputs: FieldSet, spec: DataSpec) -> Any:
    """Give predictions the form that y had in the fit.

    Parameters
    ----------
    predictions : ndarray of shape (n, P, c)
        Network outputs in physical units, in the caller's order of points.
    inputs : FieldSet
        What was predicted on.
    spec : DataSpec
        What the fit saw.

    Returns
    -------
    ndarray, FieldSet or tuple
        The same kind of thing that y was.
    """
    predictions = predictions.astype(spec.target_dtype, copy=False)
    n_samples = len(predictions)
    grid = inputs.grid_shape or (predictions.shape[1],)
    shapes = {
        "vector": (n_samples,),
        "table": (n_samples, spec.n_outputs),
        "grid": (n_samples, *grid, spec.n_outputs),
        "grid_single": (n_samples, *grid),
        "points": predictions.shape,
        "points_single": predictions.shape[:2],
    }
    if spec.target_form in shapes:
        return predictions.reshape(shapes[spec.target_form])
    if spec.target_form == "tuple":
        return inputs.coords, predictions
    return inputs.with_values(predictions, spec.channel_names)


# ---------------------------------------------------------------------- tables
def _read_table(X: Any, y: Any) -> tuple[FieldSet, tuple[FieldSet, GridShape | None, str], tuple[str, str]]:
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
        return inputs, (fields, fields.grid_shape or (), form), ("table", "parameters")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1:] == X.shape[1:] and X.shape[1] > 1:
        inputs = _table_inputs(X, "function", None, None)
        fields = FieldSet(inputs.coords, y[..., None], grid_shape=inputs.grid_shape)
        return inputs, (fields, inputs.grid_shape, "grid_single"), ("table", "function")
    return _table_inputs(X, "features", None, None), _scalars(y), ("table", "features")


def _table_inputs(X: FloatArray, role: str, coords: FloatArray | None, grid_shape: GridShape | None) -> FieldSet:
    """Turn a table into a FieldSet: features on one point, a function on [0, 1], or parameters on given points."""
    if role == "function":
        return FieldSet(unit_grid((X.shape[1],)), X[..., None], grid_shape=(X.shape[1],))
    if role == "features":
        return FieldSet(np.zeros((1, 1)), params=X, grid_shape=(1,))
    return FieldSet(coords, params=X, grid_shape=grid_shape)


# ---------------------------------------------------------------------- fields
def _read_fields(X: Any, y: Any) -> tuple[FieldSet, tuple[FieldSet, GridShape | None, str], tuple[str, str]]:
    """Read X given as fields, and a y that lives on its points or is scalar."""
    inputs = _fields_as_set(X, "X")
    check_not_empty(inputs, "X")
    form = "fieldset" if isinstance(X, FieldSet) else "tuple" if isinstance(X, tuple) else "grid"
    return inputs, _match_target(y, inputs), (form, "fields")


def _fields_as_set(X: Any, name: str) -> FieldSet:
    """Fields of any form as a FieldSet, with its grid recognised."""
    if isinstance(X, FieldSet):
        fields = X
    elif isinstance(X, tuple):
        if len(X) != 2:
            raise FieldDataError(f"{name} is a tuple of {len(X)} items; expected (coords, fields).")
        fields = FieldSet(X[0], X[1])
    else:
        fields = _grid_array(X, name)
    return _with_grid(fields)


def _grid_array(X: Any, name: str) -> FieldSet:
    """Place an array (n, *grid, c) as fields on the unit box."""
    if isinstance(X, list) and any(isinstance(item, FieldSet | tuple) for item in X):
        raise FieldDataError(
            f"{name} is a list of {type(X[0]).__name__}; pass one FieldSet instead: FieldSet([coords, ...], [fields, "
            "...]), or np.concatenate of FieldSets."
        )
    if isinstance(X, list) and len({np.shape(item) for item in X}) > 1:
        raise FieldDataError(
            f"{name} is a list of {len(X)} arrays of different shapes, for example {np.shape(X[0])} and "
            f"{next(np.shape(item) for item in X if np.shape(item) != np.shape(X[0]))}; a regular grid needs one shape."
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


def _target_fields(y: Any) -> tuple[FieldSet, str]:
    """Read a y that carries its own points, or a grid array."""
    if not isinstance(y, FieldSet | tuple):
        return _grid_array(y, "y"), "grid"
    fields = _fields_as_set(y, "y")
    if fields.n_channels == 0:
        raise FieldDataError(f"y is a {type(y).__name__} without values; pass the fields to learn.")
    return fields, "fieldset" if isinstance(y, FieldSet) else "tuple"


def _match_target(y: Any, inputs: FieldSet) -> tuple[FieldSet, GridShape | None, str]:
    """Read a y on the points of X, or scalars."""
    if isinstance(y, FieldSet | tuple):
        fields, form = _target_fields(y)
        check_same_points(fields, inputs)
        return fields, inputs.grid_shape or (), form
    array = as_storage(y, "y")
    if len(array.shape) <= 2 and inputs.is_ragged:
        return _scalars(array)
    if inputs.is_ragged or 0 in array.shape:
        expected = "a FieldSet, since the samples of X differ in their points" if inputs.is_ragged else "no empty axis"
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


def _on_points(inputs: FieldSet, array: Any, form: str) -> tuple[FieldSet, GridShape | None, str]:
    """Target fields on the points of the inputs."""
    n_points = int(inputs.n_points[0])
    n_channels = 1 if form.endswith("_single") else int(array.shape[-1])
    values = reshape_rows(array, (n_points, n_channels))
    coords = inputs.coords if inputs.shared_coords else np.zeros((n_points, inputs.n_dims))
    return FieldSet(coords, values, grid_shape=inputs.grid_shape), inputs.grid_shape or (), form


def _scalars(y: FloatArray) -> tuple[FieldSet, None, str]:
    """Scalars as q channels on one point."""
    y = as_storage(y, "y")
    y = read_rows(y, slice(None)) if is_lazy(y) else y
    if y.ndim not in (1, 2) or 0 in y.shape[1:]:
        raise FieldDataError(f"y has shape {y.shape}; expected (n_samples,) or (n_samples, n_scalars).")
    return FieldSet(np.zeros((1, 1)), y.reshape(len(y), 1, -1)), None, "vector" if y.ndim == 1 else "table"


def _describe(X: Any) -> str:
    """Words for what came."""
    return f"it came as {type(X).__name__}" + (f" of shape {tuple(X.shape)}" if hasattr(X, "shape") else "")
