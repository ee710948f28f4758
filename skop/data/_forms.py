"""The forms in which X and y come, and predictions go.

Letters of the shapes: n samples, P points, d space dimensions, c channels, q output channels, s scalars.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skop._typing import FloatArray
from skop.data._fieldset import FieldSet
from skop.data._spec import DataSpec
from skop.data._storage import is_lazy

__all__ = ["Predictions", "as_list", "carries_points", "is_pairs", "is_point_sets", "is_table", "restore_form"]


@dataclass(frozen=True)
class Predictions:
    """Outputs of an estimator in physical units, in the caller's order of samples and points.

    Attributes
    ----------
    fields : ndarray of shape (n, P, q), or (T, q) for ragged samples, or None
        Output fields.
    scalars : ndarray of shape (n, s) or None
        Output scalars.
    """

    fields: FloatArray | None
    scalars: FloatArray | None = None


def as_list(samples: Any) -> Any:
    """Return an object array of samples as a list, and anything else as it is.

    Parameters
    ----------
    samples : object
        What a caller passed; scikit-learn makes object arrays of lists here and there.

    Returns
    -------
    object
        A list, or the same object.
    """
    if isinstance(samples, np.ndarray) and samples.dtype == object and samples.ndim == 1:
        return list(samples) if len(samples) and isinstance(samples[0], np.ndarray | tuple) else samples
    return samples


def is_pairs(samples: Any) -> bool:
    """Tell whether samples are a list of ``(coords, fields)``.

    Parameters
    ----------
    samples : object
        What a caller passed.

    Returns
    -------
    bool
        Also for fields of None, which means points alone.
    """
    return isinstance(samples, list) and bool(samples) and isinstance(samples[0], tuple)


def is_point_sets(samples: Any) -> bool:
    """Tell whether samples are a list of arrays ``(P_i, k)``, one for each sample.

    Parameters
    ----------
    samples : object
        What a caller passed.

    Returns
    -------
    bool
        False for nested lists, which are one array written out, and for lists of grids.
    """
    return isinstance(samples, list) and bool(samples) and all(getattr(item, "ndim", 0) == 2 for item in samples)


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
    X = as_list(X)
    if isinstance(X, FieldSet | tuple) or is_lazy(X):
        return False
    if isinstance(X, list):
        return not X or _axes_of(X[0]) < 2
    return getattr(X, "ndim", 2) <= 2


def _axes_of(sample: Any) -> int:
    """Count the axes of one item of a list; a tuple of (coords, fields) counts as a field."""
    if isinstance(sample, FieldSet) or (isinstance(sample, tuple) and any(_axes_of(part) > 1 for part in sample)):
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
        True for FieldSets, ``(coords, fields)`` tuples, lists of them and grid arrays with more than two axes.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import carries_points
    >>> carries_points(np.zeros((3, 8, 8, 1))), carries_points(np.zeros((3, 2)))
    (True, False)
    """
    if y is None or isinstance(y, FieldSet | tuple) or is_pairs(y):
        return y is not None
    if isinstance(y, list) and len({np.shape(item) for item in y if hasattr(item, "shape")}) > 1:
        return True
    # Asking NumPy for the number of axes would fail on array-likes that implement only __array__.
    return (y.ndim if hasattr(y, "ndim") else np.asarray(y).ndim) > 2


def restore_form(predictions: Predictions, points: FieldSet, spec: DataSpec) -> Any:
    """Give predictions the form that y had in the fit.

    Parameters
    ----------
    predictions : Predictions
        Outputs in physical units.
    points : FieldSet
        Where they lie.
    spec : DataSpec
        What the fit saw.

    Returns
    -------
    ndarray, list, FieldSet or tuple
        The same kind of thing that y was; meshes come as a FieldSet. Samples with different numbers of
        points come as a list where y was an array.
    """
    if predictions.fields is None:
        return _scalars_in_form(predictions.scalars, spec)
    values = predictions.fields.astype(spec.target_dtype, copy=False)
    form = spec.target_form
    if form == "tuple":
        ragged = points.is_ragged
        return (points.coords_list(), _samples_in_form(values, points, "list")) if ragged else (points.coords, values)
    if form in ("fieldset", "meshes"):
        fields = points.with_values(values, spec.channel_names)
        scalars = predictions.scalars
        return fields if scalars is None else fields.with_params(scalars.astype(spec.target_dtype, copy=False))
    if form in ("list", "pairs") or points.is_ragged or form == "list_single":
        return _samples_in_form(values, points, form)
    n_samples, n_points = values.shape[:2]
    grid = points.grid_shape or (n_points,)
    shapes = {
        "grid": (n_samples, *grid, spec.n_outputs),
        "grid_single": (n_samples, *grid),
        "points": values.shape,
        "points_single": values.shape[:2],
    }
    return values.reshape(shapes[form])


def _scalars_in_form(scalars: FloatArray | None, spec: DataSpec) -> FloatArray:
    """Scalars as a vector or a table."""
    if scalars is None:
        raise ValueError("predictions hold neither fields nor scalars.")
    scalars = scalars.astype(spec.target_dtype, copy=False)
    return scalars[:, 0] if spec.target_form == "vector" else scalars


def _samples_in_form(values: FloatArray, points: FieldSet, form: str) -> list[Any]:
    """One array, or pair of coordinates and array, for each sample."""
    fields = points.with_values(values).to_list()
    if form == "pairs":
        return list(zip(points.coords_list(), fields, strict=True))
    return [field[:, 0] for field in fields] if form.endswith("_single") else fields
