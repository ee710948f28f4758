"""Read rows of arrays in memory, of memory-mapped arrays, and of arrays in files, such as h5py data sets."""

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
    "refuse_mask",
    "reshape_rows",
    "select_rows",
    "take_rows",
]


def is_lazy(array: Any) -> bool:
    """Tell whether an array is lazy, that is, reads its rows from a file when it is indexed.

    Parameters
    ----------
    array : object
        Object to check, such as an h5py data set.

    Returns
    -------
    bool
        True for objects with ``shape``, ``dtype`` and indexing that are not NumPy arrays.
    """
    if isinstance(array, np.ndarray):
        return False
    return all(hasattr(array, name) for name in ("shape", "dtype", "__getitem__", "chunks"))


def as_storage(array: Any, name: str) -> Any:
    """Check that an array contains numbers, and return it without reading files.

    Parameters
    ----------
    array : array-like
        Values of any numeric type.
    name : str
        Name of the array for error messages.

    Returns
    -------
    ndarray or lazy array
        Array; booleans are converted to float, integers and floats are not converted.

    Raises
    ------
    FieldDataError
        If the values are complex, text or objects, or the array is sparse, masked or of unknown length.
    """
    if not is_lazy(array):
        array = _as_array(array, name)
    elif any(size != size for size in array.shape):  # NaN
        raise FieldDataError(
            f"{name} is a dask array of unknown chunk sizes; call {name}.compute_chunk_sizes(), or {name}.compute()."
        )
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
    """Convert an array-like to a NumPy array; memory maps are not read."""
    if hasattr(array, "toarray"):
        raise FieldDataError(f"{name} is a sparse matrix; pass a dense array: {name}.toarray().")
    refuse_mask(array, name)
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.getdata(array)
    if isinstance(array, np.memmap):
        return array
    try:
        return np.asarray(array)
    except (ValueError, TypeError, RuntimeError) as error:
        raise FieldDataError(
            f"{name} is not a rectangular array ({error}); for samples with different numbers of points pass a list "
            "of arrays."
        ) from error


def refuse_mask(array: Any, name: str) -> None:
    """Raise where entries are masked, since NumPy would take what lies under the mask, and for sparse tensors.

    Parameters
    ----------
    array : object
        Anything; only masked arrays, and lists of them, can have masked entries.
    name : str
        What it is, for messages.

    Raises
    ------
    FieldDataError
        If an entry is masked, or the array is a sparse tensor.
    """
    # By its text, so that torch need not be imported.
    if str(getattr(array, "layout", "torch.strided")) not in ("torch.strided", "torch._mkldnn"):
        raise FieldDataError(f"{name} is a sparse tensor; pass a dense one: {name}.to_dense().")
    parts = array if isinstance(array, list) else [array]
    count = sum(int(np.ma.count_masked(part)) for part in parts if isinstance(part, np.ma.MaskedArray))
    # Rows of a list may hold the constant itself.
    count += sum(item is np.ma.masked for part in parts if isinstance(part, list) for item in part)
    if count:
        raise FieldDataError(
            f"{name} has {count} masked entries; fill them, e.g. {name}.filled(0.0), or leave out the samples."
        )


class ReshapedRows:
    """Lazy array whose rows are reshaped when they are read.

    Parameters
    ----------
    array : lazy array of shape (n, ...)
        Stored array.
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
    """Reshape the rows of an array, without reading files.

    Parameters
    ----------
    array : ndarray or lazy array of shape (n, ...)
        Stored array.
    row_shape : tuple of int
        New shape of a row.

    Returns
    -------
    ndarray or ReshapedRows
        Array of shape ``(n, *row_shape)``.
    """
    if is_lazy(array):
        return array if tuple(array.shape[1:]) == row_shape else ReshapedRows(array, row_shape)
    return array.reshape(len(array), *row_shape)


def select_rows(key: Any, n_rows: int) -> IntArray:
    """Convert an index, slice, mask or index array to an array of row indices.

    Parameters
    ----------
    key : int, slice, Ellipsis, mask or index array
        Selection along the first axis.
    n_rows : int
        Number of rows.

    Returns
    -------
    ndarray of int
        Indices of the selected rows, not negative; a single one for an int.

    Raises
    ------
    IndexError
        If the key has another type, or an index is out of range.
    """
    positions = np.arange(n_rows)
    if key is Ellipsis or isinstance(key, slice):
        return positions[key]
    index = np.asarray(key)
    if index.size == 0 and index.dtype.kind != "b":
        # NumPy converts an empty list to a float array.
        index = index.astype(int)
    if index.dtype.kind not in "biu" or index.ndim > 1 or (index.ndim == 0 and index.dtype.kind == "b"):
        raise IndexError(f"samples are selected by an int, a slice, a mask or a 1-D array of indices, not by {key!r}.")
    return positions[np.atleast_1d(index)]


def read_rows(array: Any, rows: slice | IntArray) -> FloatArray:
    """Read rows into memory, in the given order.

    Parameters
    ----------
    array : ndarray or lazy array
        Stored array.
    rows : slice or index array
        Rows to read; indices may repeat and need not be sorted.

    Returns
    -------
    ndarray
        Rows, as a view where NumPy returns one.
    """
    if isinstance(array, np.ndarray):
        return array[rows]
    if isinstance(rows, slice):
        return np.asarray(array[rows])
    # Files, such as h5py data sets, require sorted indices without repetitions.
    distinct, inverse = np.unique(rows, return_inverse=True)
    return np.asarray(array[distinct])[inverse]


def take_rows(array: Any, rows: IntArray | None) -> FloatArray:
    """Read selected rows, or all of them; evenly spaced rows share memory with the array.

    Parameters
    ----------
    array : ndarray or lazy array
        Stored array.
    rows : index array or None
        Rows to read; None reads all.

    Returns
    -------
    ndarray
        Selected rows.
    """
    if rows is None:
        return read_rows(array, slice(None))
    even = _even_slice(rows)
    # Files can be read with a positive step only.
    if even is not None and (even.step > 0 or isinstance(array, np.ndarray)):
        return read_rows(array, even)
    return read_rows(array, rows)


def in_memory(array: FloatArray | None) -> FloatArray | None:
    """Copy an array into memory if it is memory-mapped.

    Parameters
    ----------
    array : ndarray or None
        Array.

    Returns
    -------
    ndarray or None
        Array in memory; the same object if it already was.
    """
    return np.array(array) if isinstance(array, np.memmap) else array


def _even_slice(rows: IntArray) -> slice | None:
    """Return the slice of the same rows, or None if there is none."""
    if len(rows) == 0:
        return slice(0, 0, 1)
    first, step = int(rows[0]), int(rows[1] - rows[0]) if len(rows) > 1 else 1
    if step == 0 or not np.array_equal(rows, first + step * np.arange(len(rows))):
        return None
    stop = first + step * len(rows)
    return slice(first, stop if stop >= 0 else None, step)
