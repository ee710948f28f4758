"""FieldSet: container of fields sampled on points, with the sample axis first.

Notation: n samples, P points of a sample, d space dimensions, c channels,
p global parameters, T points of all samples together.

The class has two layouts. If every sample has the same number of points, coordinates are ``(P, d)`` (stored once) or
``(n, P, d)``, and values are ``(n, P, c)``. Otherwise (ragged samples) the samples are concatenated, without padding:
coordinates are ``(T, d)``, values ``(T, c)``, and offsets ``(n + 1,)`` mark where each sample begins. A selection of
samples refers to the original arrays and stores the indices of its rows, so that splitting a memory-mapped set copies
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape, IntArray
from skop.data._grid import find_grid
from skop.data._storage import as_storage, in_memory, read_rows, reshape_rows, select_rows, take_rows
from skop.exceptions import FieldDataError

__all__ = ["FieldSet", "iterate_coords", "iterate_rows", "piece_length", "point_order", "with_own_points"]

#: Number of values read at once when a set is checked or its statistics are computed.
_CHUNK_VALUES = 2**20


class FieldSet:
    """Fields sampled on points: coordinates, values and global parameters of n samples.

    A FieldSet is immutable and behaves like an array along its sample axis, so that the splitters, searches and
    parallel tools of scikit-learn accept it and return FieldSets.

    Parameters
    ----------
    coords : array-like of shape (P, d), (*grid, d), (n, P, d), (n, *grid, d), or list of (P_i, d)
        Coordinates of the points, shared by all samples or separate for each sample. A list is for samples with
        different numbers of points.
    values : array-like of shape (n, P, c) or (n, *grid, c), list of (P_i, c), or None, default=None
        Values of the fields, with channels last. Memory maps, HDF5 data sets (`h5py.Dataset`) and Zarr arrays are read
        only when they are needed, as are coordinates that are separate for each sample. None is for geometry or global
        parameters alone.
    params : array-like of shape (n, p) or None, default=None
        Global parameters of each sample, such as a load or a Reynolds number.
    grid_shape : tuple of int or None, default=None
        Number of points along each axis if the points form a grid in C order. None infers it if coordinates or values
        have one axis for each space dimension.
    cells : list of (str, ndarray) or None, default=None
        Cells of the mesh in the format of meshio, shared by all samples, for drawing and for writing meshes.
    channel_names : sequence of str or None, default=None
        Names of the channels.

    Attributes
    ----------
    shape : tuple of int
        ``(n, P, c)``, or ``(n,)`` for ragged samples; scikit-learn uses it as the shape of X or y.
    is_ragged : bool
        Whether samples may differ in their number of points.
    shared_coords : bool
        Whether all samples share one set of coordinates.
    in_memory : bool
        Whether values and coordinates are plain arrays in memory, not memory-mapped or read from a file.
    n_dims, n_channels, n_params : int
        Numbers d of space dimensions, c of channels (0 without values), and p of global parameters.
    n_points : ndarray of shape (n,)
        Number of points of each sample.
    grid_shape : tuple of int or None
        Number of points along each axis if the points form a grid in C order, else None.
    params : ndarray of shape (n, p) or None
        Global parameters.
    cells : list of (str, ndarray) or None
        Cells of the mesh in the format of meshio.
    channel_names : tuple of str or None
        Names of the channels.

    Raises
    ------
    FieldDataError
        If shapes are inconsistent; the message states the shapes and what was expected.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import FieldSet
    >>> x = np.linspace(0, 1, 5)[:, None]
    >>> fields = FieldSet(x, np.zeros((3, 5, 2)))
    >>> fields.shape, len(fields[1:]), fields[[0, 2]].n_channels
    ((3, 5, 2), 2, 2)
    """

    shape: tuple[int, ...]
    is_ragged: bool
    shared_coords: bool
    in_memory: bool
    n_dims: int
    n_channels: int
    n_params: int
    n_points: IntArray
    grid_shape: GridShape | None
    params: FloatArray | None
    cells: list[tuple[str, IntArray]] | None
    channel_names: tuple[str, ...] | None
    #: Stored arrays, where samples begin in ragged ones, and the rows of a selection; None for all rows.
    _coords: Any
    _values: Any
    _offsets: Any
    _rows: IntArray | None

    def __init__(
        self,
        coords: Any,
        values: Any = None,
        *,
        params: Any = None,
        grid_shape: Sequence[int] | None = None,
        cells: Sequence[tuple[str, IntArray]] | None = None,
        channel_names: Sequence[str] | None = None,
    ) -> None:
        parameters = None if params is None else _as_params(params)
        if isinstance(coords, (list, tuple)) and not _is_rectangular(coords):
            state = _ragged_state(coords, values, grid_shape)
        else:
            count = None if parameters is None else len(parameters)
            state = _uniform_state(as_storage(coords, "coords"), values, grid_shape, count)
        self._set(
            **state,
            _rows=None,
            params=parameters,
            cells=None if cells is None else list(cells),
            channel_names=None if channel_names is None else tuple(map(str, channel_names)),
        )
        self._check_consistency()

    def _set(self, **state: Any) -> None:
        """Store arrays, and what they say of the samples: a FieldSet does not change, and is asked again and again."""
        coords, values, params = state["_coords"], state["_values"], state["params"]
        n_channels = 0 if values is None else int(values.shape[-1])
        is_ragged, n_samples = state["_offsets"] is not None, len(state["n_points"])
        # Shared coordinates are in memory always.
        holds_coords = state["shared_coords"] or type(coords) is np.ndarray
        self.__dict__.update(
            state,
            shape=(n_samples,) if is_ragged else (n_samples, int(coords.shape[-2]), n_channels),
            is_ragged=is_ragged,
            in_memory=holds_coords and (values is None or type(values) is np.ndarray),
            n_dims=int(coords.shape[-1]),
            n_channels=n_channels,
            n_params=0 if params is None else int(params.shape[1]),
        )

    def _replace(self, **changes: Any) -> FieldSet:
        """Return a FieldSet with some attributes replaced, without checking again."""
        new = object.__new__(type(self))
        new._set(**{**self.__dict__, **changes})
        return new

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"FieldSet is immutable: build a new one instead of setting {name!r}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"FieldSet is immutable: {name!r} cannot be deleted.")

    def __getstate__(self) -> dict[str, Any]:
        # A pickled selection contains only its own samples. Memory maps are kept, because joblib sends just their file
        # name.
        held = self.read(slice(None)) if self._rows is not None and self.in_memory else self
        return dict(held.__dict__)

    def _check_consistency(self) -> None:
        """Raise an error if the numbers of parameters or names do not match the samples and channels."""
        if self.params is not None and len(self.params) != self.shape[0]:
            raise FieldDataError(
                f"params has {len(self.params)} rows but there are {self.shape[0]} samples; pass one row for each "
                "sample."
            )
        if self.channel_names is not None and len(self.channel_names) != self.n_channels:
            raise FieldDataError(f"channel_names has {len(self.channel_names)} names for {self.n_channels} channels.")

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Length of `shape`."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the values in storage; float64 without values."""
        return np.dtype(float) if self._values is None else np.dtype(self._values.dtype)

    @property
    def coords(self) -> FloatArray:
        """Coordinates: ``(P, d)`` if shared, ``(n, P, d)`` if separate, ``(T, d)`` if ragged."""
        if self.shared_coords:
            return self._coords
        return self._read_ragged(self._coords) if self.is_ragged else take_rows(self._coords, self._rows)

    @property
    def values(self) -> FloatArray | None:
        """Values ``(n, P, c)``, or ``(T, c)`` when ragged, read into memory; None without values."""
        if self._values is None:
            return None
        if self.is_ragged:
            return self._read_ragged(self._values)
        return take_rows(self._values, self._rows).reshape(self.shape)

    @property
    def offsets(self) -> IntArray | None:
        """Index of the first row of each sample in flat arrays, shape (n + 1,); None if not ragged."""
        return np.concatenate([[0], np.cumsum(self.n_points)]) if self.is_ragged else None

    def _read_ragged(self, flat: Any) -> FloatArray:
        """Read the rows of the selected samples from a flat array."""
        if self._rows is None:
            return read_rows(flat, slice(None))
        offsets, rows = self._offsets, self._rows
        if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
            return read_rows(flat, slice(offsets[rows[0]], offsets[rows[-1] + 1]))
        parts = [read_rows(flat, slice(offsets[row], offsets[row + 1])) for row in rows]
        return np.concatenate(parts) if parts else read_rows(flat, slice(0, 0))

    def read(self, indices: Any) -> FieldSet:
        """Return the samples at `indices` with their values in memory.

        Parameters
        ----------
        indices : int, slice, mask or index array
            Indices of the samples.

        Returns
        -------
        FieldSet
            Selected samples, independent of any file.
        """
        part = self[indices]
        return part._replace(
            _coords=part._coords if part.shared_coords else in_memory(part.coords),
            _values=in_memory(part.values),
            params=in_memory(part.params),
            _offsets=part.offsets,
            _rows=None,
        )

    def to_list(self) -> list[FloatArray]:
        """Return the values of each sample as a list of ``(P_i, c)`` arrays.

        Returns
        -------
        list of ndarray
            One array per sample.
        """
        values = self._held_values()
        return list(values) if self.offsets is None else np.split(values, self.offsets[1:-1])

    def _held_values(self) -> FloatArray:
        """Return the values, or raise an error if there are none."""
        values = self.values
        if values is None:
            raise FieldDataError("this FieldSet has no values; pass values when building it.")
        return values

    def coords_list(self) -> list[FloatArray]:
        """Return the points of each sample as a list of ``(P_i, d)`` arrays.

        Returns
        -------
        list of ndarray
            One array per sample; with shared coordinates the same array for all samples.
        """
        coords, offsets = self.coords, self.offsets
        if self.shared_coords:
            return [coords] * len(self)
        return list(coords) if offsets is None else np.split(coords, offsets[1:-1])

    def to_grid(self) -> FloatArray:
        """Return the values with one axis for each space dimension.

        Returns
        -------
        ndarray of shape (n, *grid, c)
            Values on the grid.
        """
        if self.grid_shape is None:
            raise FieldDataError("the points of this FieldSet form no grid; pass grid_shape when building it.")
        return self._held_values().reshape(len(self), *self.grid_shape, -1)

    def with_values(self, values: Any, channel_names: Sequence[str] | None = None) -> FieldSet:
        """Return a FieldSet on the same points with other values and without global parameters.

        Parameters
        ----------
        values : array-like of shape (n, P, c), or (T, c) when ragged
            New values.
        channel_names : sequence of str or None, default=None
            Names of the new channels.

        Returns
        -------
        FieldSet
            Fields on the same points.
        """
        expected = self.shape[:2] if not self.is_ragged else (int(self.n_points.sum()),)
        # Coordinates in a file are not read.
        is_kept = self.shared_coords or self._rows is None
        new = self._replace(
            _coords=self._coords if is_kept else self.coords,
            _values=_checked_values(values, expected),
            _offsets=self.offsets,
            _rows=None,
            params=None,
            channel_names=None if channel_names is None else tuple(channel_names),
        )
        new._check_consistency()
        return new

    def with_params(self, params: Any) -> FieldSet:
        """Return a FieldSet with the same fields and other global parameters.

        Parameters
        ----------
        params : array-like of shape (n, p) or None
            New global parameters.

        Returns
        -------
        FieldSet
            The same fields.
        """
        new = self._replace(params=None if params is None else _as_params(params))
        new._check_consistency()
        return new

    def with_grid(self, grid_shape: GridShape | None) -> FieldSet:
        """Return a FieldSet with the same fields whose points are marked as a grid in C order.

        Parameters
        ----------
        grid_shape : tuple of int or None
            Number of points along each axis; None removes the grid.

        Returns
        -------
        FieldSet
            The same fields, on a grid.
        """
        if grid_shape is None:
            return self._replace(grid_shape=None)
        if self.is_ragged or np.prod(grid_shape) != self._coords.shape[-2]:
            raise FieldDataError(f"grid_shape {grid_shape} does not fit the points of {self!r}.")
        return self._replace(grid_shape=tuple(grid_shape))

    def with_order(self, order: IntArray) -> FieldSet:
        """Return a FieldSet with the points of each sample in another order, in memory and without a grid.

        Parameters
        ----------
        order : ndarray of int
            Indices of the points in their new order: of shape (P,) for shared points; otherwise the rows of the points
            of all samples, one sample after the other.

        Returns
        -------
        FieldSet
            The same fields.
        """
        held = self.read(slice(None))
        coords, values = held.coords, held._held_values()
        if held.shared_coords:
            return held._replace(_coords=coords[order], _values=values[:, order], grid_shape=None)
        moved = (array.reshape(-1, array.shape[-1])[order].reshape(array.shape) for array in (coords, values))
        return held._replace(**dict(zip(("_coords", "_values"), moved, strict=True)), grid_shape=None)

    def __getitem__(self, key: Any) -> FieldSet:
        if isinstance(key, tuple):
            # scikit-learn indexes arrays as X[rows, ...]. Only the sample axis can be indexed.
            whole = (part is Ellipsis or (isinstance(part, slice) and part == slice(None)) for part in key[1:])
            if len(key) == 0 or not all(whole):
                raise IndexError("a FieldSet is indexed along its sample axis only: use fs[rows] or fs[rows, ...].")
            key = key[0]
        selected = select_rows(key, self.shape[0])
        return self._replace(
            _rows=selected if self._rows is None else self._rows[selected],
            n_points=self.n_points[selected],
            params=None if self.params is None else take_rows(self.params, selected),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[FieldSet]) -> FieldSet:
        """Concatenate FieldSets along the sample axis, as ``np.concatenate(parts)`` also does.

        Parameters
        ----------
        parts : sequence of FieldSet
            FieldSets that are either all ragged or all have the same number of points, with the same channels and
            parameters.

        Returns
        -------
        FieldSet
            All samples, in memory.

        Raises
        ------
        FieldDataError
            If `parts` is empty, or they differ in points, dimensions, channels, names, parameters or grid.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import FieldSet
        >>> a = FieldSet(np.zeros((4, 1)), np.ones((3, 4, 1)))
        >>> len(FieldSet.concatenate([a, a[:1]])), len(np.concatenate([a, a[:1]]))
        (4, 4)
        """
        parts = list(parts)
        _check_joinable(parts)
        first = parts[0]
        joined: dict[str, Any] = {}
        for own, name in (("params", "params"), ("_values", "values"), ("n_points", "n_points")):
            held = [getattr(part, name) for part in parts]
            joined[own] = None if held[0] is None else np.concatenate(held)
        shared = all(part.shared_coords and np.array_equal(part.coords, first.coords) for part in parts)
        coords = first.coords if shared else np.concatenate([_own_coords(part) for part in parts])
        offsets = np.concatenate([[0], np.cumsum(joined["n_points"])]) if first.is_ragged else None
        return first._replace(_coords=coords, _offsets=offsets, shared_coords=shared, _rows=None, **joined)

    def __iter__(self) -> Iterator[FieldSet]:
        return (self[index] for index in range(len(self)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Refuse to become an array: NumPy would make one of its samples, and say little about why it cannot."""
        raise TypeError(
            f"{self!r} came where an array is expected, as in tools of scikit-learn that change single columns. Pass "
            "its values, to_grid() or params, or use a tool that selects samples only."
        )

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Support ``np.concatenate``, with which scikit-learn joins the predictions of folds."""
        if func is not np.concatenate:
            return NotImplemented
        if len(args) > 1 or any(kwargs.get(name) for name in ("axis", "out", "dtype")):
            raise FieldDataError("FieldSets are joined along their sample axis only: np.concatenate(parts).")
        return self.concatenate(args[0])

    def __repr__(self) -> str:
        size = "ragged" if self.is_ragged else f"{self._coords.shape[-2]} points"
        grid = "" if self.grid_shape is None else f", grid {'x'.join(map(str, self.grid_shape))}"
        extra = f", {self.n_params} params" if self.n_params else ""
        return f"FieldSet({len(self)} samples, {size} in {self.n_dims}-D{grid}, {self.n_channels} channels{extra})"


def iterate_rows(fields: FieldSet) -> Iterator[tuple[int, FloatArray]]:
    """Read the values of a FieldSet in pieces of bounded size.

    Parameters
    ----------
    fields : FieldSet
        FieldSet with values.

    Yields
    ------
    tuple of (int, ndarray)
        Index of the first sample of a piece, and the values of the piece, ``(m, P, c)``, or flat if ragged.
    """
    step, count = piece_length(fields, fields.n_channels), len(fields)
    for start in range(0, count, step):
        part = fields if step >= count else fields[start : start + step]
        values = part.values
        if values is not None:
            yield start, values


def iterate_coords(fields: FieldSet) -> Iterator[tuple[int, FloatArray]]:
    """Read the coordinates of a FieldSet in pieces of bounded size.

    Parameters
    ----------
    fields : FieldSet
        FieldSet.

    Yields
    ------
    tuple of (int, ndarray)
        Index of the first sample of a piece, and its coordinates: ``(m, P, d)``, ``(T, d)`` if ragged, or all of them
        at once, ``(P, d)``, if samples share them.
    """
    if fields.shared_coords:
        yield 0, fields.coords
        return
    step = piece_length(fields, fields.n_dims)
    for start in range(0, len(fields), step):
        yield start, fields[start : start + step].coords


def piece_length(fields: FieldSet, n_numbers: int) -> int:
    """Return how many samples are read at once, with some numbers at each point.

    Parameters
    ----------
    fields : FieldSet
        Samples.
    n_numbers : int
        Numbers at each point.

    Returns
    -------
    int
        Number of samples, at least 1.
    """
    per_sample = max(1, int(np.max(fields.n_points, initial=1)) * max(n_numbers, 1))
    return max(1, _CHUNK_VALUES // per_sample)


def _check_joinable(parts: Sequence[Any]) -> None:
    """Raise an error unless the parts can be concatenated."""
    strangers = [type(part).__name__ for part in parts if not isinstance(part, FieldSet)]
    if strangers or not parts:
        came = f"a {strangers[0]} among the parts" if strangers else "nothing"
        raise FieldDataError(f"only FieldSets can be joined to FieldSets, got {came}.")
    for what in ("is_ragged", "n_dims", "n_channels", "n_params", "grid_shape", "channel_names"):
        found = [getattr(part, what) for part in parts]
        if any(item != found[0] for item in found):
            raise FieldDataError(f"cannot join FieldSets whose {what} differ: {found}.")
    if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
        raise FieldDataError(f"cannot join FieldSets of shapes {[part.shape for part in parts]}.")


def _own_coords(part: FieldSet) -> FloatArray:
    """Coordinates with a sample axis, also if they are shared."""
    return np.broadcast_to(part.coords, (len(part), *part.coords.shape)) if part.shared_coords else part.coords


def with_own_points(fields: FieldSet) -> FieldSet:
    """Return the same fields with a copy of the points that all samples share; separate points are not copied."""
    return fields._replace(_coords=np.array(fields.coords)) if fields.shared_coords else fields


def with_points(fields: FieldSet, coords: FloatArray) -> FieldSet:
    """Return fields in memory with other points: shared (P, d), of each sample (n, P, d), or flat (T, d) if ragged."""
    return fields._replace(_coords=coords)


def point_order(fields: FieldSet) -> IntArray:
    """Return the indices that sort the points of each sample by their coordinates.

        The rounding of a sum over points depends on their order. In this order it is the same however the points are
        listed.

    Parameters
    ----------
    fields : FieldSet
        Samples.

    Returns
    -------
    ndarray of shape (P,) for shared points, (T,) otherwise
        Rows of the coordinates, one sample after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import FieldSet
    >>> from skop.data._fieldset import point_order
    >>> point_order(FieldSet(np.array([[2.0], [0.0], [1.0]]), np.zeros((1, 3, 1)))).tolist()
    [1, 2, 0]
    """
    points = fields.coords.reshape(-1, fields.n_dims)
    if fields.shared_coords:
        return np.lexsort(points.T[::-1])
    # All samples are sorted at once, with the index of the sample as the first key.
    keys = (*points.T[::-1], np.repeat(np.arange(len(fields)), fields.n_points))
    order = np.lexsort(keys)
    repeated = np.all([key[order[1:]] == key[order[:-1]] for key in keys], axis=0)
    if not repeated.any() or not fields.in_memory or (values := fields.values) is None:
        return order
    # Coinciding points are ordered by their field values.
    return np.lexsort((*values.reshape(len(points), -1).T, *keys))


# ---------------------------------------------------------------------- layout: axes of samples, points and grids
def _is_rectangular(coords: Sequence[Any]) -> bool:
    """Tell whether a list is one array written as nested lists, and not a list of samples of different size."""
    shapes = {tuple(np.shape(as_storage(item, f"coords[{i}]"))) for i, item in enumerate(coords)}
    return len(shapes) < 2 or all(len(shape) < 2 for shape in shapes)


def _as_params(params: Any) -> FloatArray:
    """Convert global parameters (n, p) to an array in memory."""
    array = as_storage(params, "params")
    if len(array.shape) != 2:
        raise FieldDataError(f"params must have shape (n_samples, n_params), got {tuple(array.shape)}; add an axis.")
    return read_rows(array, slice(None))


def _checked_values(values: Any, points: tuple[int, ...]) -> Any:
    """Check that values (*points, c) have one row for each point: (n, P), or (T,) for ragged samples."""
    stored = as_storage(values, "values")
    if stored.ndim != len(points) + 1 or tuple(stored.shape[:-1]) != points:
        raise FieldDataError(
            f"values has shape {tuple(stored.shape)}; expected ({', '.join(map(str, points))}, channels), one row for "
            "each point."
        )
    return stored


def _ragged_state(coords: Sequence[Any], values: Any, grid_shape: Sequence[int] | None) -> dict[str, Any]:
    """Build the attributes of a FieldSet of samples with different numbers of points, which have no grid."""
    if grid_shape is not None:
        raise FieldDataError("samples with different numbers of points have no common grid; leave out grid_shape.")
    points = _flat_samples(coords, "coords", None)
    _refuse_no_dimensions(points[0])
    fields = None
    if values is not None:
        if not hasattr(values, "__len__"):
            raise FieldDataError(f"values is a {type(values).__name__}; expected one array for each sample.")
        if len(values) != len(points):
            raise FieldDataError(f"coords has {len(points)} samples, values has {len(values)}.")
        fields = np.concatenate(_flat_samples(values, "values", [len(item) for item in points]))
    offsets = np.concatenate([[0], np.cumsum([len(item) for item in points])])
    flat = {"_coords": np.concatenate(points), "_values": fields, "_offsets": offsets, "n_points": np.diff(offsets)}
    return flat | {"shared_coords": False, "grid_shape": None}


def _flat_samples(samples: Sequence[Any], name: str, n_points: Sequence[int] | None) -> list[FloatArray]:
    """Convert samples to arrays with two axes, of which the second has the same length for all."""
    arrays = [as_storage(item, f"{name} of sample {i}") for i, item in enumerate(samples)]
    width = arrays[0].shape[-1] if arrays[0].ndim == 2 else "n"
    for i, item in enumerate(arrays):
        rows = "n_points" if n_points is None else n_points[i]
        if item.ndim != 2 or item.shape[1] != width or rows not in ("n_points", len(item)):
            raise FieldDataError(f"{name} of sample {i} has shape {item.shape}; expected ({rows}, {width}).")
    return arrays


def _uniform_state(coords: Any, values: Any, grid_shape: Sequence[int] | None, n_params: int | None) -> dict[str, Any]:
    """Build the attributes of a FieldSet of samples that all have the same number of points."""
    if len(coords.shape) < 2:
        raise FieldDataError(f"coords must have shape (points, dimensions) at least, got {coords.shape}; add an axis.")
    _refuse_no_dimensions(coords)
    storage = None if values is None else as_storage(values, "values")
    if storage is None:
        points, shared = _points_alone(coords, grid_shape, n_params)
    else:
        points, shared = _point_axes(tuple(coords.shape), tuple(storage.shape))
    n_dims = int(coords.shape[-1])
    if shared:
        coords = read_rows(coords, slice(None)).reshape(-1, n_dims)
    else:
        coords = reshape_rows(coords, (prod(points), n_dims))
    grid = _checked_grid(points, n_dims, grid_shape)
    n_samples = n_params if storage is None and shared else len(coords if storage is None else storage)
    counts = np.full(n_samples or 0, prod(points))
    held = {"_coords": coords, "_values": storage, "_offsets": None, "n_points": counts}
    return held | {"shared_coords": shared, "grid_shape": grid}


def _refuse_no_dimensions(coords: Any) -> None:
    """Raise an error if points have no coordinates."""
    if coords.shape[-1] == 0:
        raise FieldDataError(f"coords have 0 dimensions (shape {tuple(coords.shape)}); expected at least 1.")


def _checked_grid(points: tuple[int, ...], n_dims: int, grid_shape: Sequence[int] | None) -> GridShape | None:
    """Return the given grid, or the grid according to the axes of the arrays."""
    if grid_shape is None:
        return points if len(points) == n_dims > 1 else None
    grid = tuple(map(int, grid_shape))
    if min(grid, default=0) < 0 or prod(grid) != prod(points):
        raise FieldDataError(f"grid_shape {grid} has {prod(grid)} points, the fields have {prod(points)}.")
    if len(points) > 1 and points != grid:
        raise FieldDataError(f"grid_shape is {grid}, but the arrays have the grid axes {points}; leave out grid_shape.")
    return grid


def _points_alone(coords: Any, grid_shape: Sequence[int] | None, n_params: int | None) -> tuple[tuple[int, ...], bool]:
    """Return the axes of the points, and whether the points are shared, if there are no values."""
    axes = tuple(int(size) for size in coords.shape[:-1])
    stated = None if grid_shape is None else tuple(int(size) for size in grid_shape)
    shared_fits, own_fits = n_params is not None, len(axes) > 1 and n_params in (None, axes[0])
    if stated is not None:
        shared_fits, own_fits = shared_fits and prod(axes) == prod(stated), own_fits and prod(axes[1:]) == prod(stated)
    if shared_fits and own_fits and len(axes) == coords.shape[-1]:
        found = find_grid(read_rows(coords, slice(None)).reshape(-1, coords.shape[-1]))
        if found is not None and found[0] == axes:
            raise FieldDataError(
                f"coords of shape {tuple(coords.shape)} may be one grid {axes} or the points of {n_params} samples; "
                "pass grid_shape."
            )
    if own_fits:
        return axes[1:], False
    if shared_fits:
        return axes, True
    if n_params is None:
        raise FieldDataError(
            f"coords of shape {tuple(coords.shape)} is shared by all samples, but neither values nor params give their "
            "number; pass one of them, or coords of shape (n, P, d)."
        )
    raise FieldDataError(
        f"coords of shape {tuple(coords.shape)} fit neither {n_params} samples nor the grid_shape {stated}."
    )


def _point_axes(coords: tuple[int, ...], values: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Return the axes of the points, and whether all samples share the coordinates, from the shapes of the arrays."""
    if len(values) < 3:
        raise FieldDataError(
            f"values must have shape (n_samples, *points, channels), got {values}; add the missing axes, for "
            "example values[..., None] for one channel, or values[None] for one sample."
        )
    points = values[1:-1]
    candidates = [(coords[:-1], True)]
    if len(coords) > 2 and coords[0] == values[0]:
        # This case comes first, so that the points of a single sample are not read as a grid of one row.
        candidates.insert(0, (coords[1:-1], False))
    for axes, shared in sorted(candidates, key=lambda candidate: candidate[0] != points):
        if axes == points or axes == (prod(points),) or (len(points) == 1 and prod(axes) == prod(points)):
            return max(points, axes, key=len), shared
    raise FieldDataError(
        f"coords of shape {coords} do not fit values of shape {values}: expected {(*points, 'd')} (shared) or "
        f"{(values[0], *points, 'd')} (each sample's own)."
    )
