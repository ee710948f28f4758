"""FieldSet: fields sampled on points, sample axis first.

Letters of the shapes: n samples, P points of a sample, d space dimensions, c channels,
p global parameters, T points of all samples together.

Two layouts share one class. When every sample has the same number of points, coordinates are
``(P, d)`` (stored once) or ``(n, P, d)`` and values are ``(n, P, c)``. Otherwise everything is flat,
``(T, d)`` and ``(T, c)``, with offsets ``(n + 1,)``: nothing is ever padded in storage. A selection
of samples keeps the arrays it came from and remembers which rows it means, so that a split of a
memory-mapped set copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skop._typing import FloatArray, GridShape, IntArray
from skop.data._joining import concatenate
from skop.data._layout import as_params, checked_values, is_rectangular, ragged_state, uniform_state
from skop.data._storage import as_storage, in_memory, read_rows, select_rows, take_rows
from skop.exceptions import FieldDataError

__all__ = ["FieldSet"]


class FieldSet:
    """Fields sampled on points: coordinates, values and global parameters of n samples.

    A FieldSet is immutable and behaves like an array along its sample axis, so that the splitters,
    searches and parallel tools of scikit-learn accept it and hand back FieldSets.

    Parameters
    ----------
    coords : array-like of shape (P, d), (*grid, d), (n, P, d), (n, *grid, d), or list of (P_i, d)
        Point coordinates, shared by all samples or each sample's own. A list gives samples with
        different numbers of points.
    values : array-like of shape (n, P, c) or (n, *grid, c), list of (P_i, c), or None, default=None
        Field values, channels last. Memory-mapped and HDF5-backed arrays stay where they are until
        rows are read. None means geometry or global parameters only.
    params : array-like of shape (n, p) or None, default=None
        Global numbers of each sample, such as a load or a Reynolds number.
    grid_shape : tuple of int or None, default=None
        Points along each axis when the points form a grid in C order. Inferred when coordinates or
        values have one axis for each space dimension.
    cells : list of (str, ndarray) or None, default=None
        Connectivity as meshio stores it, for drawing and for writing meshes; shared by all samples.
    channel_names : sequence of str or None, default=None
        Names of the c channels.

    Raises
    ------
    FieldDataError
        If shapes do not fit together; the message says which and what was expected.

    Examples
    --------
    >>> import numpy as np
    >>> from skop import FieldSet
    >>> x = np.linspace(0, 1, 5)[:, None]
    >>> fields = FieldSet(x, np.zeros((3, 5, 2)))
    >>> fields.shape, len(fields[1:]), fields[[0, 2]].n_channels
    ((3, 5, 2), 2, 2)
    """

    __slots__ = (
        "_cells",
        "_channel_names",
        "_coords",
        "_grid_shape",
        "_offsets",
        "_params",
        "_rows",
        "_shared",
        "_values",
    )

    _coords: Any
    _values: Any
    _params: Any
    _offsets: Any
    _rows: IntArray | None
    _shared: bool
    _grid_shape: GridShape | None
    _cells: list[tuple[str, IntArray]] | None
    _channel_names: tuple[str, ...] | None

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
        parameters = None if params is None else as_params(params)
        if isinstance(coords, (list, tuple)) and not is_rectangular(coords):
            state = ragged_state(coords, values, grid_shape)
        else:
            count = None if parameters is None else len(parameters)
            state = uniform_state(as_storage(coords, "coords"), values, grid_shape, count)
        state |= {
            "_params": parameters,
            "_rows": None,
            "_cells": None if cells is None else list(cells),
            "_channel_names": None if channel_names is None else tuple(map(str, channel_names)),
        }
        self.__setstate__(state)
        self._check_consistency()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"FieldSet is immutable: build a new one instead of setting {name!r}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"FieldSet is immutable: {name!r} cannot be deleted.")

    def __getstate__(self) -> dict[str, Any]:
        # A pickled selection carries its own samples only; memory maps are left to joblib, which sends their file.
        held = self.read(slice(None)) if self._rows is not None and self.in_memory else self
        return held._slots()

    def _slots(self) -> dict[str, Any]:
        """Contents of all slots."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def _replace(self, **changes: Any) -> FieldSet:
        """Return a FieldSet with some slots replaced, without checking again."""
        new = object.__new__(type(self))
        new.__setstate__(self._slots() | changes)
        return new

    def _check_consistency(self) -> None:
        """Raise if parameters or names do not fit the samples and channels."""
        if self._params is not None and len(self._params) != self._base_length():
            raise FieldDataError(
                f"params has {len(self._params)} rows but there are {self._base_length()} samples; pass one row for "
                "each sample."
            )
        if self._channel_names is not None and len(self._channel_names) != self.n_channels:
            raise FieldDataError(f"channel_names has {len(self._channel_names)} names for {self.n_channels} channels.")

    def _base_length(self) -> int:
        """Count the samples of the underlying arrays, before any selection."""
        if self._offsets is not None:
            return len(self._offsets) - 1
        if self._values is not None:
            return int(self._values.shape[0])
        return len(self._coords) if not self._shared else len(self._params)

    def __len__(self) -> int:
        return self._base_length() if self._rows is None else len(self._rows)

    @property
    def is_ragged(self) -> bool:
        """Whether samples may differ in their number of points."""
        return self._offsets is not None

    @property
    def shared_coords(self) -> bool:
        """Whether one set of coordinates serves all samples."""
        return bool(self._shared)

    @property
    def grid_shape(self) -> GridShape | None:
        """Points along each axis when the points form a grid in C order, else None."""
        return self._grid_shape

    @property
    def cells(self) -> list[tuple[str, IntArray]] | None:
        """Connectivity as meshio stores it, or None."""
        return self._cells

    @property
    def channel_names(self) -> tuple[str, ...] | None:
        """Names of the channels, or None."""
        return self._channel_names

    @property
    def n_dims(self) -> int:
        """Space dimensions d."""
        return int(self._coords.shape[-1])

    @property
    def n_channels(self) -> int:
        """Channels c of the values; 0 without values."""
        return 0 if self._values is None else int(self._values.shape[-1])

    @property
    def n_params(self) -> int:
        """Global parameters p of a sample."""
        return 0 if self._params is None else int(self._params.shape[1])

    @property
    def n_points(self) -> IntArray:
        """Number of points of each sample, shape (n,)."""
        if self._offsets is None:
            return np.full(len(self), self._coords.shape[-2])
        counts = np.diff(self._offsets)
        return counts if self._rows is None else counts[self._rows]

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, P, c)``, or ``(n,)`` for ragged samples: what scikit-learn reads as the shape."""
        return (len(self),) if self.is_ragged else (len(self), int(self._coords.shape[-2]), self.n_channels)

    @property
    def ndim(self) -> int:
        """Length of `shape`."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values as they are stored; float64 without values."""
        return np.dtype(float) if self._values is None else np.dtype(self._values.dtype)

    @property
    def in_memory(self) -> bool:
        """Whether the values are a plain array in memory, not memory-mapped or behind a file."""
        return self._values is None or type(self._values) is np.ndarray

    @property
    def coords(self) -> FloatArray:
        """Coordinates: ``(P, d)`` shared, ``(n, P, d)`` each sample's own, ``(T, d)`` ragged."""
        if self._shared:
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
    def params(self) -> FloatArray | None:
        """Global parameters ``(n, p)`` or None."""
        return None if self._params is None else take_rows(self._params, self._rows)

    @property
    def offsets(self) -> IntArray | None:
        """Where each sample begins in flat arrays, shape (n + 1,); None when not ragged."""
        return np.concatenate([[0], np.cumsum(self.n_points)]) if self.is_ragged else None

    def _read_ragged(self, flat: Any) -> FloatArray:
        """Flat rows of the selected samples, in order."""
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
            Which samples.

        Returns
        -------
        FieldSet
            The selection, detached from files.
        """
        part = self[indices]
        coords = part._coords if part._shared else in_memory(part.coords)
        return part._replace(
            _coords=coords,
            _values=in_memory(part.values),
            _params=in_memory(part.params),
            _offsets=part.offsets,
            _rows=None,
        )

    def to_list(self) -> list[FloatArray]:
        """Return the values of each sample as a list of ``(P_i, c)`` arrays.

        Returns
        -------
        list of ndarray
            One array a sample.
        """
        values = self._held_values()
        return list(values) if self.offsets is None else np.split(values, self.offsets[1:-1])

    def _held_values(self) -> FloatArray:
        """The values, or an error where there are none."""
        values = self.values
        if values is None:
            raise FieldDataError("this FieldSet has coordinates but no values.")
        return values

    def coords_list(self) -> list[FloatArray]:
        """Return the points of each sample as a list of ``(P_i, d)`` arrays.

        Returns
        -------
        list of ndarray
            One array a sample; one and the same array for all where they share it.
        """
        coords, offsets = self.coords, self.offsets
        if self._shared:
            return [coords] * len(self)
        return list(coords) if offsets is None else np.split(coords, offsets[1:-1])

    def to_grid(self) -> FloatArray:
        """Return the values with one axis for each space dimension.

        Returns
        -------
        ndarray of shape (n, *grid, c)
            The values on the grid.
        """
        if self._grid_shape is None:
            raise FieldDataError("the points of this FieldSet form no grid: pass grid_shape when building it.")
        return self._held_values().reshape(len(self), *self._grid_shape, -1)

    def with_values(self, values: Any, channel_names: Sequence[str] | None = None) -> FieldSet:
        """Return the same samples and points with other values and no global parameters.

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
        new = self._replace(
            _coords=self._coords if self._shared else self.coords,
            _values=checked_values(values, expected),
            _offsets=self.offsets,
            _params=None,
            _rows=None,
            _channel_names=None if channel_names is None else tuple(channel_names),
        )
        new._check_consistency()
        return new

    def with_params(self, params: Any) -> FieldSet:
        """Return the same samples with other global parameters.

        Parameters
        ----------
        params : array-like of shape (n, p) or None
            New parameters.

        Returns
        -------
        FieldSet
            The same fields.
        """
        held = self if self._rows is None else self.read(slice(None))
        (new := held._replace(_params=None if params is None else as_params(params)))._check_consistency()
        return new

    def __getitem__(self, key: Any) -> FieldSet:
        if isinstance(key, tuple):
            # scikit-learn indexes arrays as X[rows, ...]; nothing but the sample axis may be selected.
            whole = (part is Ellipsis or (isinstance(part, slice) and part == slice(None)) for part in key[1:])
            if len(key) == 0 or not all(whole):
                raise IndexError("a FieldSet is indexed along its sample axis only: use fs[rows] or fs[rows, ...].")
            key = key[0]
        selected = select_rows(key, len(self))
        return self._replace(_rows=selected if self._rows is None else self._rows[selected])

    def __iter__(self) -> Iterator[FieldSet]:
        return (self[index] for index in range(len(self)))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Support ``np.concatenate``, which scikit-learn uses to join predictions of folds."""
        if func is not np.concatenate:
            return NotImplemented
        if len(args) > 1 or any(kwargs.get(name) for name in ("axis", "out", "dtype")):
            raise FieldDataError("FieldSets are joined along their sample axis only: np.concatenate(parts).")
        return concatenate(args[0])

    def __repr__(self) -> str:
        size = "ragged" if self.is_ragged else f"{self._coords.shape[-2]} points"
        grid = "" if self._grid_shape is None else f", grid {'x'.join(map(str, self._grid_shape))}"
        extra = f", {self.n_params} params" if self.n_params else ""
        return f"FieldSet({len(self)} samples, {size} in {self.n_dims}-D{grid}, {self.n_channels} channels{extra})"
