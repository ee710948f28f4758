"""Read rows of arrays in memory, of memory-mapped arrays, and of arrays in files: HDF5 data sets and Zarr arrays."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np

from skop._optional import import_optional
from skop._typing import FloatArray, IntArray
from skop.data._file_guards import free_memory
from skop.exceptions import FieldDataError, warn

__all__ = [
    "StoredRows",
    "as_storage",
    "in_memory",
    "is_lazy",
    "read_rows",
    "refuse_mask",
    "refuse_repeated_names",
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
        True for objects with ``shape``, ``dtype``, ``chunks`` and indexing that are not NumPy arrays.
    """
    if isinstance(array, np.ndarray):
        return False
    # The class is asked first, since an h5py data set whose file was closed raises errors for its attributes.
    return all(
        hasattr(type(array), name) or hasattr(array, name) for name in ("shape", "dtype", "__getitem__", "chunks")
    )


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
    ndarray or StoredRows
        Array; booleans are converted to float, integers and floats are not converted.

    Raises
    ------
    FieldDataError
        If the values are complex, text or objects, the array is sparse, masked or of unknown length, or its file was
        closed.

    Warns
    -----
    SkopWarning
        If chunks of an array are in no file.
    """
    is_stored = is_lazy(array)
    if is_stored:
        _refuse_closed(array, name)
        if any(size != size for size in array.shape):  # NaN
            raise FieldDataError(
                f"{name} is a dask array of unknown chunk sizes; call {name}.compute_chunk_sizes(), or "
                f"{name}.compute()."
            )
    else:
        array = _as_array(array, name)
    kind = np.dtype(array.dtype).kind
    if kind == "c":
        raise FieldDataError(
            f"{name}: complex data not supported (dtype {array.dtype}); pass real and imaginary parts as two channels."
        )
    if kind in "mM":
        raise FieldDataError(
            f"{name} holds times (dtype {array.dtype}), whose numbers would be counts of a unit; pass numbers of your "
            f"unit, for example seconds: ({name} - {name}.min()) / numpy.timedelta64(1, 's')."
        )
    if kind not in "fiub":
        ragged = " For samples with different numbers of points pass a list of arrays." if kind == "O" else ""
        raise FieldDataError(
            f"{name} has dtype {array.dtype}; expected numbers. Convert it, e.g. .astype(float).{ragged}"
        )
    if isinstance(array, np.memmap):
        return StoredRows(array, name) if kind == "b" else array
    if is_stored:
        if isinstance(array, StoredRows):
            return array
        _refuse_large_parts(array, name)
        _warn_of_missing_parts(array, name)
        return StoredRows(array, name)
    return array.astype(np.float64) if kind == "b" else array


def _refuse_large_parts(array: Any, name: str) -> None:
    """Raise an error if a chunk, which is read as a whole, is stated to be larger than the free memory."""
    chunks = array.chunks
    if not chunks or not all(isinstance(size, Integral) for size in chunks):
        return
    size = math.prod(int(count) for count in chunks) * np.dtype(array.dtype).itemsize
    if size > (free := free_memory()):
        raise FieldDataError(
            f"{name} is stored in chunks of {size:,} bytes in {_place_of(array)}, which are read as a whole, and "
            f"{free:,} bytes of memory are free; store it in smaller chunks, of some samples each."
        )


def _as_array(array: Any, name: str) -> np.ndarray:
    """Convert an array-like to a NumPy array; memory maps are not read."""
    if type(array) in (np.ndarray, np.memmap):
        return array
    if hasattr(array, "toarray"):
        raise FieldDataError(f"{name} is a sparse matrix; pass a dense array: {name}.toarray().")
    refuse_mask(array, name)
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.getdata(array)
    try:
        return np.asarray(array)
    except (ValueError, TypeError, RuntimeError) as error:
        raise FieldDataError(
            f"{name} is not a rectangular array ({error}); for samples with different numbers of points pass a list "
            "of arrays."
        ) from error


def refuse_mask(array: Any, name: str) -> None:
    """Raise where entries are masked, since NumPy would take what lies under the mask, and for tensors it cannot take.

    Parameters
    ----------
    array : object
        Anything; only masked arrays, and lists of them, can have masked entries.
    name : str
        What it is, for messages.

    Raises
    ------
    FieldDataError
        If an entry is masked, or the array is a tensor that is sparse, requires gradients, or is of a type that NumPy
        lacks.
    """
    # By its text, so that torch need not be imported.
    if str(getattr(array, "layout", "torch.strided")) not in ("torch.strided", "torch._mkldnn"):
        raise FieldDataError(f"{name} is a sparse tensor; pass a dense one: {name}.to_dense().")
    parts = array if isinstance(array, list) else [array]
    if any(getattr(part, "requires_grad", None) is True for part in parts):
        raise FieldDataError(f"{name} is a tensor that requires gradients; pass one without: {name}.detach().")
    if hasattr(array, "layout"):
        try:
            np.asarray(array[:0] if array.ndim else array)
        except (TypeError, RuntimeError) as error:
            remedy = "float()" if str(array.device) == "cpu" else "cpu()"
            raise FieldDataError(
                f"{name} is a tensor of {array.dtype} on {array.device}, which NumPy cannot read; pass {name}.{remedy}."
            ) from error
    count = sum(int(np.ma.count_masked(part)) for part in parts if isinstance(part, np.ma.MaskedArray))
    # Rows of a list may hold the constant itself.
    count += sum(item is np.ma.masked for part in parts if isinstance(part, list) for item in part)
    if count:
        remedy = "fill them, e.g. by .filled(0.0), or leave out the samples"
        if name.startswith("coords"):
            # A fill value would be another place.
            remedy = "leave out the points np.ma.getmaskarray(coords).any(axis=-1) in coordinates and values"
        raise FieldDataError(f"{name} has {count} masked entries; {remedy}.")


def refuse_repeated_names(names: Sequence[Any], what: str) -> None:
    """Raise an error if several columns or channels have one name.

    Parameters
    ----------
    names : sequence
        Names.
    what : str
        What has them, and what they name, such as ``"X has {} columns"``.

    Raises
    ------
    FieldDataError
        If a name comes more than once.
    """
    counts = Counter(names)
    if len(counts) < len(names):
        name, count = counts.most_common(1)[0]
        raise FieldDataError(f"{what.format(count)} with the name {name!r}; rename them.")


class StoredRows:
    """Array in a file, of which rows are read when they are asked for.

    Reading keeps the file's chunks in mind: each is read once for a batch. A pickle of HDF5 rows holds the path of the
    file, which is opened again for reading.

    Parameters
    ----------
    array : h5py.Dataset, zarr.Array, memory map, or any lazy array, of shape (n, ...)
        Stored array.
    name : str, default="values"
        Name of the array for error messages.
    row_shape : tuple of int or None, default=None
        New shape of a row; None keeps that of the stored array.

    Examples
    --------
    >>> import tempfile, h5py, numpy as np
    >>> from skop.data._storage import StoredRows
    >>> with tempfile.TemporaryFile() as file, h5py.File(file, "w") as opened:
    ...     opened["values"] = np.arange(12.0).reshape(4, 3)
    ...     StoredRows(opened["values"])[np.array([3, 0])].tolist()
    [[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]]
    """

    def __init__(self, array: Any, name: str = "values", row_shape: tuple[int, ...] | None = None) -> None:
        self._array, self._name = array, name
        self._file: Any = None
        stored = tuple(int(size) for size in array.shape)
        self.shape = stored if row_shape is None else (stored[0], *row_shape)
        dtype = np.dtype(array.dtype)
        self.dtype = np.dtype(float) if dtype.kind == "b" else dtype
        self.ndim, self.chunks = len(self.shape), None

    def __len__(self) -> int:
        return self.shape[0]

    def reshaped(self, row_shape: tuple[int, ...]) -> Self:
        """Return the same array with another shape of its rows."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, shape=(len(self), *row_shape), ndim=1 + len(row_shape))
        return new

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        try:
            part = self._array[rows] if isinstance(rows, slice) else self._scattered(np.asarray(rows))
        except (OSError, RuntimeError, ValueError) as error:
            _refuse_closed(self._array, self._name)
            raise FieldDataError(
                f"{self._name} cannot be read from {_place_of(self._array)} ({type(error).__name__}: {error}); check "
                "that the file is complete and was not changed."
            ) from error
        part = np.asarray(part, dtype=self.dtype)
        return part.reshape(len(part), *self.shape[1:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return np.asarray(self[:], dtype=dtype)

    def _scattered(self, rows: IntArray) -> Any:
        """Read rows in any order, some of them several times."""
        if isinstance(self._array, np.ndarray):
            return self._array[rows]
        # Files require sorted indices without repetitions.
        distinct, inverse = np.unique(rows, return_inverse=True)
        if _is_hdf5(self._array):
            found = _runs_of_rows(self._array, distinct)
        else:
            # Zarr reads the chunks of an orthogonal selection once each, several at a time.
            found = np.asarray(getattr(self._array, "oindex", self._array)[distinct])
        return found if np.array_equal(distinct, rows) else found[inverse]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if not _is_hdf5(self._array):
            return state
        _refuse_closed(self._array, self._name)
        file = self._array.file
        if file.mode != "r" or not Path(file.filename).is_file() or self._array.name is None:
            raise FieldDataError(
                f"{self._name} is in {_place_of(self._array)}, opened in mode {file.mode!r}, and is to be sent to "
                "another process, which can only open files that are open for reading. Open it by "
                "h5py.File(path, 'r'), or set n_jobs=None."
            )
        place = {"path": str(Path(file.filename).resolve()), "dataset": self._array.name}
        return state | {"_array": place, "_file": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not isinstance(self._array, dict):
            return
        path, dataset = self._array["path"], self._array["dataset"]
        h5py = import_optional("h5py", purpose=f"read {path}, an HDF5 file")
        try:
            # The data set keeps no file open by itself.
            self._file = h5py.File(path, "r")
            self._array = self._file[dataset]
            kept = np.dtype(float if self._array.dtype.kind == "b" else self._array.dtype)
            is_same = len(self._array) == len(self) and kept == self.dtype
        except (OSError, KeyError) as error:
            raise FieldDataError(
                f"{self._name} was in {dataset} of the HDF5 file {path}, which cannot be opened again ({error}); keep "
                "it where it was, closed or open for reading."
            ) from error
        if not is_same:
            raise FieldDataError(f"{self._name} was in {dataset} of the HDF5 file {path}, which was changed since.")


def _is_hdf5(array: Any) -> bool:
    """Whether an array is a data set of h5py, which need not be imported to tell."""
    return hasattr(type(array), "read_direct") and hasattr(type(array), "file")


def _refuse_closed(array: Any, name: str) -> None:
    """Raise an error if an array is a data set of an HDF5 file that was closed."""
    held = array._array if isinstance(array, StoredRows) else array
    if _is_hdf5(held) and not held:
        raise FieldDataError(
            f"{name} is a data set of an HDF5 file that was closed; keep the file open as long as {name} is used, "
            "within the block of 'with h5py.File(path, \"r\") as file'."
        )


def _warn_of_missing_parts(array: Any, name: str) -> None:
    """Warn where parts of an array are in no file, which its package reads as one number without a word."""
    if _is_hdf5(array):
        if array.is_virtual or array.external or not array.size:
            return
        if array.chunks is None:
            held, whole = int(array.id.get_storage_size() > 0), 1
        else:
            held = array.id.get_num_chunks()
            whole = math.prod(-(-size // part) for size, part in zip(array.shape, array.chunks, strict=True))
    else:
        held, whole = (getattr(array, count, 0) for count in ("nchunks_initialized", "nchunks"))
    if held < whole:
        filled = getattr(array, "fillvalue", getattr(array, "fill_value", 0))
        warn(
            f"{name} in {_place_of(array)}: {whole - held} of {whole} chunks are not there, and are read as {filled}, "
            "as in a copy or a run that was cut off; check that these values are meant."
        )


def _place_of(array: Any) -> str:
    """Where an array is stored, in words."""
    if _is_hdf5(array):
        return f"{array.name} of the HDF5 file {array.file.filename}"
    return f"{type(array).__module__.partition('.')[0]}'s {array!r}"


def _runs_of_rows(array: Any, rows: IntArray) -> FloatArray:
    """Read increasing rows of an HDF5 data set, those of one chunk at once and each chunk once.

    h5py reads a list of rows many times more slowly than slices.
    """
    found = np.empty((len(rows), *array.shape[1:]), dtype=array.dtype)
    per_chunk = array.chunks[0] if array.chunks else 1
    starts = np.diff(rows) > 1 if per_chunk == 1 else np.diff(rows // per_chunk) > 0
    ends = [0, *(np.flatnonzero(starts) + 1).tolist(), len(rows)]
    for start, stop in pairwise(ends):
        if start == stop:
            continue
        first, last = int(rows[start]), int(rows[stop - 1])
        if last - first + 1 == stop - start:
            array.read_direct(found, np.s_[first : last + 1], np.s_[start:stop])
        else:
            found[start:stop] = array[first : last + 1][rows[start:stop] - first]
    return found


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
    ndarray or StoredRows
        Array of shape ``(n, *row_shape)``.
    """
    if tuple(array.shape[1:]) == row_shape:
        return array
    if isinstance(array, StoredRows):
        return array.reshaped(row_shape)
    # NumPy would copy the whole of a memory map whose rows are not contiguous.
    if is_lazy(array) or (isinstance(array, np.memmap) and not array.flags.c_contiguous):
        return StoredRows(array, row_shape=row_shape)
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
    return (array if isinstance(array, StoredRows) else StoredRows(array))[rows]


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
