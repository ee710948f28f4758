"""Read rows of arrays that may live in memory, in a memory map, or in a file behind an array interface."""

from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.exceptions import FieldDataError

__all__ = [
    "ReshapedRows",
    "as_storage",
    "in_memory",
    "is_lazy",
    "read_rows",
    "reshape_rows",
    "select_rows",
    "take_rows",
]


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
        If the values are complex, text, objects, sparse or masked.
    """
    if not is_lazy(array):
        array = _as_array(array, name)
    kind = np.dtype(array.dtype).kind
    if kind == "c":
        raise FieldDataError(
            f"{name}: complex data not supported (dtype {array.dtype}); pass real and imaginary parts as two channels."
        )
    if kind not in "fiub":
        ragged = " For samples with different numbers of points pass a list of arrays." if kind == "O" else ""
        raise FieldDataError(
            f"{name} has dtype {array.dtype}; expected numbers. Convert it, e.g. .astype(float).{ragged}"
        )
    return array.astype(np.float64) if kind == "b" and not is_lazy(array) else array


def _as_array(array: Any, name: str) -> np.ndarray:
    """Anything array-like as a NumPy array, memory maps as they are."""
    if hasattr(array, "toarray"):
        raise FieldDataError(f"{name} is a sparse matrix; pass a dense array: {name}.toarray().")
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise FieldDataError(
                f"{name} has {int(np.ma.count_masked(array))} masked entries; fill them, e.g. {name}.filled(0.0), or "
                "leave out the samples."
            )
        return np.ma.getdata(array)
    if isinstance(array, np.memmap):
        return array
    try:
        return np.asarray(array)
    except (ValueError, TypeError, RuntimeError) as error:
        raise FieldDataError(
            f"{name} is no rectangular array ({error}); for samples with different numbers of points pass a list "
            "of arrays."
        ) from error


class ReshapedRows:
    """A lazy array whose rows are given another shape when they are read.

    Parameters
    ----------
    array : lazy array of shape (n, ...)
        Storage.
    row_shape : tuple of int
        New shape of a row.
    """

    def __init__(self, array: Any, row_shape: tuple[int, ...]) -> None:
        self._array = array
        self.shape = (int(array.shape[0]), *row_shape)
        self.ndim, self.dtype, self.chunks = len(self.shape), array.dtype, None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        part = np.asarray(self._array[rows])
        return part.reshape(len(part), *self.shape[1:])


def reshape_rows(array: Any, row_shape: tuple[int, ...]) -> Any:
    """Give the rows of an array another shape, without reading what is not in memory.

    Parameters
    ----------
    array : ndarray or lazy array of shape (n, ...)
        Storage.
    row_shape : tuple of int
        New shape of a row.

    Returns
    -------
    ndarray or ReshapedRows
        Of shape ``(n, *row_shape)``.
    """
    if is_lazy(array):
        return array if tuple(array.shape[1:]) == row_shape else ReshapedRows(array, row_shape)
    return array.reshape(len(array), *row_shape)


def select_rows(key: Any, n_rows: int) -> IntArray:
    """Turn what stands in square brackets into an array of row numbers.

    Parameters
    ----------
    key : int, slice, Ellipsis, mask or index array
        Selection along the first axis.
    n_rows : int
        Rows to choose from.

    Returns
    -------
    ndarray of int
        Selected rows, none negative; one for an int.

    Raises
    ------
    IndexError
        If the key is of another kind or reaches beyond the rows.
    """
    positions = np.arange(n_rows)
    if key is Ellipsis or isinstance(key, slice):
        return positions[key]
    index = np.asarray(key)
    if index.size == 0 and index.dtype.kind != "b":
        # NumPy gives an empty list a float type.
        index = index.astype(int)
    if index.dtype.kind not in "biu" or index.ndim > 1 or (index.ndim == 0 and index.dtype.kind == "b"):
        raise IndexError(f"samples are selected by an int, a slice, a mask or a 1-D array of indices, not by {key!r}.")
    return positions[np.atleast_1d(index)]


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
    if isinstance(array, np.ndarray):
        return array[rows]
    if isinstance(rows, slice):
        return np.asarray(array[rows])
    # Files want sorted distinct indices.
    distinct, inverse = np.unique(rows, return_inverse=True)
    return np.asarray(array[distinct])[inverse]


def take_rows(array: Any, rows: IntArray | None) -> FloatArray:
    """Read the selected rows, or all of them, sharing memory where they are evenly spaced.

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
    even = _even_slice(rows)
    # Files read forwards only.
    if even is not None and (even.step > 0 or isinstance(array, np.ndarray)):
        return read_rows(array, even)
    return read_rows(array, rows)


def in_memory(array: FloatArray | None) -> FloatArray | None:
    """Copy an array that lies in a memory map.

    Parameters
    ----------
    array : ndarray or None
        Rows.

    Returns
    -------
    ndarray or None
        The same array if it is in memory.
    """
    return np.array(array) if isinstance(array, np.memmap) else array


def _even_slice(rows: IntArray) -> slice | None:
    """Return the slice that means the same rows, where there is one."""
    if len(rows) == 0:
        return slice(0, 0, 1)
    first, step = int(rows[0]), int(rows[1] - rows[0]) if len(rows) > 1 else 1
    if step == 0 or not np.array_equal(rows, first + step * np.arange(len(rows))):
        return None
    stop = first + step * len(rows)
    return slice(first, stop if stop >= 0 else None, step)
