"""Read rows of arrays that may live in memory, in a memory map, or in a file behind an array interface."""

from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.exceptions import FieldDataError

__all__ = ["as_storage", "is_lazy", "read_rows", "take_rows"]


def is_lazy(array: Any) -> bool:
    """Tell whether an array reads its rows from somewhere else when it is indexed.

    Parameters
    ----------
    array : object
        Candidate, such as an h5py data set.

    Returns
    -------
    bool
        True for objects with ``shape``, ``dtype`` and indexing that are not NumPy arrays.
    """
    has_interface = all(hasattr(array, name) for name in ("shape", "dtype", "__getitem__"))
    return has_interface and not isinstance(array, np.ndarray) and hasattr(array, "chunks")


def as_storage(array: Any, name: str) -> Any:
    """Return an array as it is kept: numbers only, files left in place.

    Parameters
    ----------
    array : array-like
        Values of any numeric kind.
    name : str
        What the array is, for messages.

    Returns
    -------
    ndarray or lazy array
        Booleans become float; integers and floats stay as they are.

    Raises
    ------
    FieldDataError
        If the values are complex, text, objects or sparse.
    """
    if not is_lazy(array):
        if hasattr(array, "toarray"):
            raise FieldDataError(f"{name} is a sparse matrix; pass a dense array: {name}.toarray().")
        try:
            array = array if isinstance(array, np.ndarray) else np.asarray(array)
        except ValueError as error:
            raise FieldDataError(
                f"{name} is no rectangular array ({error}); for samples with different numbers of points pass a list "
                "of arrays."
            ) from error
    kind = np.dtype(array.dtype).kind
    if kind == "c":
        raise FieldDataError(
            f"{name}: complex data not supported (dtype {array.dtype}); pass real and imaginary parts as two channels."
        )
    if kind not in "fiub":
        raise FieldDataError(f"{name} has dtype {array.dtype}; expected numbers. Convert it, e.g. .astype(float).")
    return array.astype(np.float64) if kind == "b" and not is_lazy(array) else array


def read_rows(array: Any, rows: slice | IntArray) -> FloatArray:
    """Read rows into memory, in the order asked for.

    Parameters
    ----------
    array : ndarray or lazy array
        Storage.
    rows : slice or index array
        Which rows; indices may repeat and need not be sorted.

    Returns
    -------
    ndarray
        The rows; a view where NumPy gives one.
    """
    if isinstance(array, np.ndarray) or isinstance(rows, slice):
        return array[rows]
    # Files want sorted distinct indices.
    distinct, inverse = np.unique(rows, return_inverse=True)
    return np.asarray(array[distinct])[inverse]


def take_rows(array: Any, rows: IntArray | None) -> FloatArray:
    """Read the selected rows, or all of them, sharing memory where the selection is a plain range.

    Parameters
    ----------
    array : ndarray or lazy array
        Storage.
    rows : index array or None
        Selected rows; None means all.

    Returns
    -------
    ndarray
        The rows.
    """
    if rows is None:
        return read_rows(array, slice(None))
    if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return read_rows(array, slice(int(rows[0]), int(rows[-1]) + 1))
    return read_rows(array, rows)
