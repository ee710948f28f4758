"""Convert meshes to FieldSets and predictions back to meshes; averaging of cell data; reading of mesh files.

Notation: n meshes, P points of a mesh, U points that belong to cells, D stored coordinates of a point, of which d are
used, c components, m cells of a block, s simplices of a cell, k dimension of a simplex.
"""

import contextlib
import difflib
import glob
import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import factorial
from pathlib import Path
from typing import IO, Any, Literal

import meshio
import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet
from skop.data._vtu import read_vtu
from skop.exceptions import FieldDataError, OptionalDependencyError, warn

__all__ = ["MeshSamples", "attach_predictions", "carry_cell_data", "is_mesh_input", "read_meshes"]

#: Decomposition of cells into simplices, by corners; the corners come first in all cell types of a family.
_SIMPLICES: dict[str, list[tuple[int, ...]]] = {
    "vertex": [(0,)],
    "line": [(0, 1)],
    "triangle": [(0, 1, 2)],
    "quad": [(0, 1, 2), (0, 2, 3)],
    "tetra": [(0, 1, 2, 3)],
    "pyramid": [(0, 1, 2, 4), (0, 2, 3, 4)],
    "wedge": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5)],
    "hexahedron": [(0, 1, 2, 5), (0, 2, 3, 7), (0, 5, 7, 4), (2, 7, 5, 6), (0, 2, 7, 5)],
}


#: Number of file names shown in an error message.
_SHOWN_NAMES = 3
#: Formats whose readers in meshio (5.3) never return on truncated files, and whether the files are binary.
_WAITING_READERS = {
    ".ply": ("ply", True),
    ".off": ("off", False),
    ".msh": ("ansys", True),
    ".mdpa": ("mdpa", True),
    ".dat": ("tecplot", False),
    ".tec": ("tecplot", False),
}
#: Number of empty reads at the end of a file after which it is considered truncated.
_READS_PAST_END = 100
#: VTK formats that meshio (5.3) does not read: files with one data set, and files that refer to other files.
_UNREAD_DATA_SETS = {
    ".vtp": "VTK polygonal data",
    ".vti": "VTK image data",
    ".vtr": "VTK rectilinear grids",
    ".vts": "VTK structured grids",
    ".vtkhdf": "VTKHDF",
}
_UNREAD_COLLECTIONS = {
    ".pvd": "ParaView collections",
    ".vtm": "VTK multi-block data",
    **{f".p{ending}": "parallel VTK data" for ending in ("vtu", "vtp", "vti", "vtr", "vts")},
}
#: Text of the warning of meshio (5.3) about cells that it omits. The points of these cells must not count as unused.
_LEFT_OUT_CELLS = "cells that meshio cannot handle"
#: Key in the info of meshes for which meshio gave this warning.
_USES_ALL_POINTS = "skop: left-out cells may use any point"
#: Extent of a coordinate, relative to the largest extent of the meshes, below which it counts as constant, since a
#: rotated plane is flat only up to rounding errors.
_FLAT = 1e-12


@dataclass(frozen=True)
class MeshSamples:
    """Result of reading meshes: fields, and what is needed to convert predictions back to meshes.

    Attributes
    ----------
    fields : FieldSet
        Points as coordinates, and the named fields as values. Coordinates are shared if all meshes have the same
        points, and ragged if their numbers of points differ. Cells are present if all meshes share them.
    meshes : list of meshio.Mesh
        Meshes with the original points and cells but without data, to which predictions are attached.
    axes : tuple of int
        Indices of the stored coordinates that are used in `fields`.
    components : dict of str to int
        Number of channels of each field, in the order of the channels.
    names : tuple of str
        File name of each mesh, or ``"mesh 0"`` and so on, in the order of the samples.
    used_points : list of (ndarray of shape (U,) or None)
        Indices of the points of each mesh that are points of its sample, in ascending order; None if all are. Points
        that belong to no cell are not part of a sample.
    """

    fields: FieldSet
    meshes: list[meshio.Mesh]
    axes: tuple[int, ...]
    components: dict[str, int]
    names: tuple[str, ...]
    used_points: list[IntArray | None]

    def select(self, fields: str | Sequence[str] | None) -> FieldSet:
        """Return some of the fields that were read, in the given order.

        Parameters
        ----------
        fields : str, sequence of str or None
            Names of the fields; None or an empty sequence gives the geometry alone.

        Returns
        -------
        FieldSet
            The same samples with the channels of these fields only.

        Raises
        ------
        FieldDataError
            If a field was not read.

        Examples
        --------
        >>> import meshio, numpy as np
        >>> from skop.data import read_meshes
        >>> mesh = meshio.Mesh(np.eye(3), [], point_data={"load": np.ones(3), "stress": np.ones(3)})
        >>> read_meshes([mesh], ["load", "stress"]).select("stress").channel_names
        ('stress',)
        """
        wanted = _field_names(fields)
        if missing := [name for name in wanted if name not in self.components]:
            raise FieldDataError(f"field {missing[0]!r} was not read from the meshes; there are {[*self.components]}.")
        values, names = self.fields.values, self.fields.channel_names or ()
        if not wanted or values is None:
            return _as_fieldset(self.meshes, self.used_points, self.axes, None, None)
        starts = dict(zip(self.components, np.cumsum([0, *self.components.values()]), strict=False))
        columns = [starts[name] + k for name in wanted for k in range(self.components[name])]
        return self.fields.with_values(values[..., columns], [names[column] for column in columns])


def read_meshes(
    source: Any,
    fields: str | Sequence[str] | None = None,
    *,
    cell_data: Literal["refuse", "to_points"] = "refuse",
    axes: Sequence[int] | None = None,
) -> MeshSamples:
    """Read meshes as samples: points become coordinates, and point data become fields.

    Points that belong to no cell, such as a reference point or the centre of an arc from CAD, are not used, and a
    warning gives their number. A ``"vertex"`` counts as a cell. A mesh without cells is a point cloud, all points of
    which are used.

    Parameters
    ----------
    source : meshio.Mesh, str, Path or list of these
        Meshes; or files, in the order of the list; or a pattern such as ``"runs/*.vtu"``, whose files are sorted so
        that run_2 comes before run_10.
    fields : str, sequence of str or None, default=None
        Names in ``point_data``. A field with several components gives channels ``displacement_0``,
        ``displacement_1`` and so on. None reads the geometry only.
    cell_data : {"refuse", "to_points"}, default="refuse"
        Treatment of a field that exists on cells only: an error, or averaging to the points, see `carry_cell_data`.
    axes : sequence of int or None, default=None
        Indices of the coordinates to use. None uses all coordinates except those that are constant over all meshes,
        such as z of plane meshes. The tolerance is 1e-12 of the largest extent of the meshes, or 2e-6 for points stored
        as float32.

    Returns
    -------
    MeshSamples
        Samples, and the meshes to which predictions can be attached.

    Raises
    ------
    FieldDataError
        If there are no meshes; a file cannot be read; a mesh has no points, lacks a field, or has cells that refer to
        points which do not exist; points or fields contain NaN or infinity; or meshes differ in the components of a
        field or in their number of coordinates.
    OptionalDependencyError
        If the format of a file needs a package that is not installed.

    Warns
    -----
    SkopWarning
        If points are not used, or meshio omits a part of a file.

    Examples
    --------
    >>> import meshio, numpy as np
    >>> from skop.data import read_meshes
    >>> points = np.array([[0.0, 0, 5], [1, 0, 5], [0, 1, 5]])
    >>> mesh = meshio.Mesh(points, [("triangle", [[0, 1, 2]])], point_data={"stress": np.arange(3.0)})
    >>> samples = read_meshes([mesh, mesh], ["stress"])
    >>> samples.fields, samples.axes
    (FieldSet(2 samples, 3 points in 2-D, 1 channels), (0, 1))
    """
    wanted = _field_names(fields)
    if cell_data not in ("refuse", "to_points"):
        raise FieldDataError(f"cell_data is {cell_data!r}; expected 'refuse' or 'to_points'.")
    names: list[str] = []
    templates: list[meshio.Mesh] = []
    used: list[IntArray | None] = []
    rows: list[list[FloatArray]] = []
    for name, mesh in _iterate_meshes(_find_sources(source)):
        template = _template(mesh, name, templates)
        names.append(name)
        templates.append(template)
        used.append(_used_points(template, name))
        _finite_rows(template.points, used[-1], f"points of {name}")
        rows.append([_read_field(mesh, field, name, cell_data == "to_points", used[-1]) for field in wanted])
    _warn_of_unused(names, templates, used)
    components = _common_components(wanted, rows, names)
    kept_axes = _kept_axes(templates, used, axes)
    channels = [name if count == 1 else f"{name}_{k}" for name, count in components.items() for k in range(count)]
    values = [np.concatenate(row, axis=1) for row in rows] if wanted else None
    fields_on_points = _as_fieldset(templates, used, kept_axes, values, channels)
    return MeshSamples(fields_on_points, templates, kept_axes, components, tuple(names), used)


def is_mesh_input(X: Any) -> bool:
    """Tell whether X is meshes, or paths of mesh files.

    Parameters
    ----------
    X : object
        Argument of a caller.

    Returns
    -------
    bool
        True for a `meshio.Mesh`, a path or pattern, a list that contains one of these, and for iterators, which
        `read_meshes` refuses with an explanation.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data import is_mesh_input
    >>> is_mesh_input("runs/*.vtu"), is_mesh_input(["a.vtk", "b.vtk"]), is_mesh_input(np.zeros((3, 2)))
    (True, True, False)
    """
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and X.dtype.kind in "OU" and is_mesh_input(list(X))
    if isinstance(X, list | tuple):
        return any(_is_one(item) for item in X)
    return _is_one(X) or isinstance(X, Iterator)


def carry_cell_data(mesh: meshio.Mesh, name: str) -> FloatArray:
    """Average cell data to the points: the value at a point is the weighted mean over the cells around it.

    The weight of a cell is its length, area or volume, computed from its corners. If this is not possible for some cell
    (polyhedra, collapsed cells), all cells have the same weight. In meshes with cells of several dimensions, such as
    triangles and boundary lines, only the cells of the highest dimension at a point are averaged. Points that belong to
    no cell get NaN.

    Parameters
    ----------
    mesh : meshio.Mesh
        Mesh with this cell data.
    name : str
        Name in ``cell_data``.

    Returns
    -------
    ndarray of shape (P, c)
        Values on the points.

    Raises
    ------
    FieldDataError
        If there is no such data, its shape does not match the cells, or cells refer to points which do not exist.

    Examples
    --------
    >>> import meshio, numpy as np
    >>> from skop.data import carry_cell_data
    >>> bar = meshio.Mesh(np.array([[0.0], [1], [4]]), [("line", [[0, 1], [1, 2]])], cell_data={"force": [[2.0, 6.0]]})
    >>> carry_cell_data(bar, "force").ravel()
    array([2., 5., 6.])
    """
    if name not in mesh.cell_data:
        raise FieldDataError(f"the mesh has no cell data {name!r}; it has {_listed(mesh.cell_data)}.")
    return _average_on_points(mesh, name, "the mesh")


def attach_predictions(
    meshes: Sequence[meshio.Mesh], predictions: FieldSet, components: Mapping[str, int] | None = None
) -> list[meshio.Mesh]:
    """Return new meshes with predictions as point data.

    Points that belong to no cell, which `read_meshes` does not use, get NaN.

    Parameters
    ----------
    meshes : sequence of meshio.Mesh
        Meshes with points and cells, see `MeshSamples`.
    predictions : FieldSet
        Predictions, with one sample for each mesh, on all its points or on those that belong to cells.
    components : mapping of str to int or None, default=None
        Names of the fields and their numbers of channels, in order, as in `MeshSamples`. None infers them from the
        channel names: ``u_0, u_1`` become one field ``u``. Without channel names, the field is called ``prediction``.

    Returns
    -------
    list of meshio.Mesh
        New meshes with copied points. Fields of one channel have shape ``(P,)``, others ``(P, c)``.

    Raises
    ------
    FieldDataError
        If the numbers of samples, points or channels do not match.

    Examples
    --------
    >>> import meshio, numpy as np
    >>> from skop.data import FieldSet, attach_predictions
    >>> mesh = meshio.Mesh(np.eye(3), [("triangle", [[0, 1, 2]])])
    >>> predictions = FieldSet(mesh.points, np.ones((1, 3, 2)), channel_names=["u_0", "u_1"])
    >>> attach_predictions([mesh], predictions)[0].point_data["u"].shape
    (3, 2)
    """
    if len(meshes) != len(predictions):
        raise FieldDataError(f"there are {len(meshes)} meshes and predictions for {len(predictions)}; one a mesh.")
    if components is None:
        components = _guess_components(predictions)
    if sum(components.values()) != predictions.n_channels:
        raise FieldDataError(f"predictions have {predictions.n_channels} channels, but components say {components}.")
    finished = []
    for i, (mesh, values) in enumerate(zip(meshes, predictions.to_list(), strict=True)):
        on_points = _on_all_points(values, mesh, f"mesh {i}")
        parts = np.split(on_points, np.cumsum([*components.values()])[:-1], axis=1)
        data = {name: part[:, 0] if part.shape[1] == 1 else part for name, part in zip(components, parts, strict=True)}
        # Points are copied, so that a user who moves the points of one mesh in place does not change the others.
        finished.append(meshio.Mesh(mesh.points.copy(), mesh.cells, point_data=data))
    return finished


def drop_unused_rows(values: Any, meshes: Sequence[meshio.Mesh]) -> Any:
    """Select the rows of points that belong to cells from arrays with one row for each point of a mesh.

    Parameters
    ----------
    values : list of arrays (P,) or (P, c), array of shape (n, P) or (n, P, c), or anything else
        Values that were passed in addition to meshes.
    meshes : sequence of meshio.Mesh
        Meshes, see `MeshSamples`.

    Returns
    -------
    object
        Arrays with U rows: a list, or one array if `values` is an array and U is the same in all meshes. Values that do
        not have one row for each point are returned unchanged.
    """
    if not _are_arrays(values) or [len(item) for item in values] != [len(mesh.points) for mesh in meshes]:
        return values
    used = [_used_points(mesh, f"mesh {i}") for i, mesh in enumerate(meshes)]
    if all(rows is None for rows in used):
        return values
    taken = [
        np.asarray(item) if rows is None else np.asarray(item)[rows] for item, rows in zip(values, used, strict=True)
    ]
    is_array = isinstance(values, np.ndarray) and len({len(item) for item in taken}) == 1
    return np.stack(taken) if is_array else taken


def restore_unused_rows(values: Any, meshes: Sequence[meshio.Mesh]) -> Any:
    """Extend predictions from the points that belong to cells to all points of a mesh.

    Parameters
    ----------
    values : list of arrays (U,) or (U, c), array of shape (n, U) or (n, U, c), or anything else
        Predictions.
    meshes : sequence of meshio.Mesh
        Meshes, see `MeshSamples`.

    Returns
    -------
    object
        Arrays with P rows, NaN at points that belong to no cell: a list, or one array if `values` is an array and P is
        the same in all meshes. Anything else is returned unchanged.
    """
    if not _are_arrays(values) or [len(item) for item in values] == [len(mesh.points) for mesh in meshes]:
        return values
    spread = [
        _on_all_points(item, mesh, f"mesh {i}") for i, (item, mesh) in enumerate(zip(values, meshes, strict=True))
    ]
    is_array = isinstance(values, np.ndarray) and len({len(item) for item in spread}) == 1
    return np.stack(spread) if is_array else spread


def _are_arrays(values: Any) -> bool:
    """Tell whether these are arrays of values on points, and not a FieldSet or meshes."""
    if isinstance(values, np.ndarray):
        return values.ndim > 1
    return isinstance(values, list) and all(hasattr(item, "__array__") and np.ndim(item) > 0 for item in values)


def _on_all_points(values: FloatArray, mesh: meshio.Mesh, where: str) -> FloatArray:
    """Extend values from the points that belong to cells to all points, with NaN elsewhere."""
    if len(values) == len(mesh.points):
        return values
    used = _used_points(mesh, where)
    if used is None or len(used) != len(values):
        detail = "" if used is None else f", of which {len(used)} belong to cells"
        raise FieldDataError(f"{where} has {len(mesh.points)} points{detail}, its prediction has {len(values)}.")
    spread = np.full((len(mesh.points), *values.shape[1:]), np.nan, np.result_type(values, np.float32))
    spread[used] = values
    return spread


def _guess_components(predictions: FieldSet) -> dict[str, int]:
    """Infer the fields from the channel names: u_0, u_1 are two channels of u."""
    names = predictions.channel_names
    if names is None:
        return {"prediction": predictions.n_channels}
    components: dict[str, int] = {}
    start = 0
    while start < len(names):
        base = names[start].removesuffix("_0")
        count = 0
        while start + count < len(names) and names[start + count] == f"{base}_{count}":
            count += 1
        is_joined = count > 1 and base not in names
        name, width = (base, count) if is_joined else (names[start], 1)
        if name in components:
            raise FieldDataError(f"two fields of the predictions would be called {name!r}; pass components.")
        components[name] = width
        start += width
    return components


# ---------------------------------------------------------------------- contents of one mesh
def _field_names(fields: str | Sequence[str] | None) -> list[str]:
    """Return the names of fields as a list; raise an error for repetitions."""
    names = [fields] if isinstance(fields, str) else [*(fields or ())]
    for name in names:
        if not isinstance(name, str) or names.count(name) > 1:
            raise FieldDataError(f"fields are {names}; expected different names of point data.")
    return names


def _template(mesh: meshio.Mesh, name: str, earlier: Sequence[meshio.Mesh]) -> meshio.Mesh:
    """Return a mesh with the same points and cells but no data; arrays equal to those of the first mesh are shared."""
    points, cells = mesh.points, mesh.cells
    if points.ndim != 2 or 0 in points.shape:
        raise FieldDataError(f"{name} has no points (shape {points.shape}); remove it.")
    if points.dtype.kind not in "fiu":
        raise FieldDataError(f"the points of {name} have dtype {points.dtype}; expected numbers.")
    if earlier:
        first = earlier[0]
        if points.shape[1] != first.points.shape[1]:
            raise FieldDataError(
                f"{name} has {points.shape[1]} coordinates per point, the first mesh has {first.points.shape[1]}; use "
                "the same number in all meshes."
            )
        points = first.points if np.array_equal(points, first.points) else points
        cells = first.cells if _have_same_cells(mesh, first) else cells
    return meshio.Mesh(points, cells, info=mesh.info)


def _used_points(mesh: meshio.Mesh, where: str) -> IntArray | None:
    """Indices of the points that belong to cells, ascending, (U,); None for all points, or if there are no cells."""
    count = len(mesh.points)
    is_used = np.zeros(count, dtype=bool)
    for block in mesh.cells:
        _, nodes = _cells_and_nodes(block)
        if not len(nodes):
            continue
        if nodes.dtype.kind not in "iu":
            raise FieldDataError(
                f"cells of type {block.type!r} in {where} have dtype {nodes.dtype}; expected integers."
            )
        low, high = int(nodes.min()), int(nodes.max())
        if low < 0 or high >= count:
            raise FieldDataError(
                f"cells of type {block.type!r} in {where} refer to point {low if low < 0 else high}; expected 0 to "
                f"{count - 1}, since there are {count} points. The file may be truncated or damaged, or may count from "
                "1; write it again."
            )
        is_used[nodes] = True
    is_every = is_used.all() or not is_used.any() or _USES_ALL_POINTS in (mesh.info or ())
    return None if is_every else np.flatnonzero(is_used)


def _warn_of_unused(names: Sequence[str], meshes: Sequence[meshio.Mesh], used: Sequence[IntArray | None]) -> None:
    """Warn about points that belong to no cell."""
    pairs = zip(meshes, used, strict=True)
    counts = [0 if rows is None else len(mesh.points) - len(rows) for mesh, rows in pairs]
    if not any(counts):
        return
    n_meshes = sum(count > 0 for count in counts)
    first = names[next(i for i, count in enumerate(counts) if count)]
    warn(
        f"{sum(counts)} points in {n_meshes} of {len(meshes)} meshes (first in {first}) belong to no cell: they are "
        "not used, and predicted meshes have NaN there. Remove such points by mesh.remove_orphaned_nodes(), or add "
        "cells of type 'vertex' to use them.",
    )


def _finite_rows(values: FloatArray, used: IntArray | None, what: str) -> FloatArray:
    """Select the rows of the points of a sample, (U, c), and raise an error for NaN or infinity."""
    rows = values if used is None else values[used]
    is_bad = ~np.isfinite(rows).all(axis=1)
    if is_bad.any():
        first = int(is_bad.argmax())
        raise FieldDataError(
            f"{what}: NaN or infinity at {int(is_bad.sum())} of {len(rows)} points, first at point "
            f"{first if used is None else used[first]}; expected finite numbers. Repair this mesh or leave it out."
        )
    return rows


def _have_same_cells(mesh: meshio.Mesh, first: meshio.Mesh) -> bool:
    """Tell whether two meshes have the same cells; polyhedra, which are nested lists, never count as equal."""
    return len(mesh.cells) == len(first.cells) and all(
        a.type == b.type and isinstance(a.data, np.ndarray) and np.array_equal(a.data, b.data)
        for a, b in zip(mesh.cells, first.cells, strict=True)
    )


def _read_field(mesh: meshio.Mesh, field: str, name: str, average: bool, used: IntArray | None) -> FloatArray:
    """Read one field on the points of a sample, (U, c)."""
    if field in mesh.point_data:
        what = f"point data {field!r} of {name}"
        return _finite_rows(_as_columns(mesh.point_data[field], what), used, what)
    if field not in mesh.cell_data:
        raise FieldDataError(
            f"{name} has no field {field!r}; its point data are {_listed(mesh.point_data)}, its cell data "
            f"{_listed(mesh.cell_data)}."
        )
    if not average:
        raise FieldDataError(
            f"{field!r} is cell data in {name}, but point data are needed; pass cell_data='to_points' to average it "
            "over the cells around each point."
        )
    values = _average_on_points(mesh, field, name)
    return _finite_rows(values, used, f"cell data {field!r} of {name}, averaged to its points")


def _listed(data: Mapping[str, Any]) -> str:
    """Names in words."""
    return ", ".join(repr(name) for name in data) or "none"


# ---------------------------------------------------------------------- all meshes together
def _common_components(
    wanted: Sequence[str], rows: Sequence[Sequence[FloatArray]], names: Sequence[str]
) -> dict[str, int]:
    """Return the number of components of each field, which must be the same in all meshes."""
    counts = [part.shape[1] for part in rows[0]]
    for row, name in zip(rows, names, strict=True):
        for field, part, count in zip(wanted, row, counts, strict=True):
            if part.shape[1] != count:
                raise FieldDataError(
                    f"field {field!r} has {part.shape[1]} components in {name} and {count} in {names[0]}; expected the "
                    "same number in all meshes."
                )
    return dict(zip(wanted, counts, strict=True))


def _kept_axes(
    meshes: Sequence[meshio.Mesh], used: Sequence[IntArray | None], axes: Sequence[int] | None
) -> tuple[int, ...]:
    """Return the coordinates to use: those that vary, or the given ones if all others are constant."""
    n_stored = meshes[0].points.shape[1]
    points = [mesh.points if rows is None else mesh.points[rows] for mesh, rows in zip(meshes, used, strict=True)]
    low = np.min([item.min(axis=0) for item in points], axis=0).astype(float)
    high = np.max([item.max(axis=0) for item in points], axis=0).astype(float)
    eps = max(float(np.finfo(np.result_type(item.dtype, np.float32)).eps) for item in points)
    slack = np.maximum(max(_FLAT, 16 * eps) * np.max(high - low), eps * np.maximum(np.abs(low), np.abs(high)))
    varies = high - low > slack
    if axes is None:
        return tuple(np.flatnonzero(varies).tolist()) if varies.any() else tuple(range(n_stored))
    kept = tuple(int(axis) for axis in axes)
    if not kept or len(set(kept)) < len(kept) or not set(kept) <= set(range(n_stored)):
        raise FieldDataError(f"axes are {kept}, but the points of the meshes have coordinates 0 to {n_stored - 1}.")
    if dropped := [axis for axis in np.flatnonzero(varies).tolist() if axis not in kept]:
        axis = dropped[0]
        raise FieldDataError(
            f"coordinate {axis} of the meshes runs from {low[axis]:g} to {high[axis]:g}, but only coordinates {kept} "
            "are used, since the others were constant in the fit; pass meshes in the same plane."
        )
    return kept


def _as_fieldset(
    meshes: Sequence[meshio.Mesh],
    used: Sequence[IntArray | None],
    axes: tuple[int, ...],
    values: Sequence[FloatArray] | None,
    channels: Sequence[str] | None,
) -> FieldSet:
    """Build a FieldSet of the values on the used points and coordinates."""
    first, first_rows = meshes[0], used[0]
    is_shared = all(
        mesh.points is first.points and _are_same_rows(rows, first_rows)
        for mesh, rows in zip(meshes, used, strict=True)
    )
    placed = list(zip(meshes[:1], used[:1], strict=True) if is_shared else zip(meshes, used, strict=True))
    points = [_as_columns(mesh.points if rows is None else mesh.points[rows], "points") for mesh, rows in placed]
    # Compare only the used points; meshes may differ in the others.
    is_shared = is_shared or all(np.array_equal(item, points[0]) for item in points)
    points = [item[:, axes] for item in (points[:1] if is_shared else points)]
    cells = _common_cells(meshes, used)
    names = None if values is None else channels
    if len({len(item) for item in points}) > 1:
        return FieldSet(points, values, cells=cells, channel_names=names)
    coords: FloatArray = points[0] if is_shared else np.stack(points)
    if values is None:
        # Coordinates are repeated, because without values only they give the number of samples.
        own = np.broadcast_to(coords, (len(meshes), *points[0].shape))
        return FieldSet(own, cells=cells)
    return FieldSet(coords, np.stack(values), cells=cells, channel_names=names)


def _common_cells(meshes: Sequence[meshio.Mesh], used: Sequence[IntArray | None]) -> list[tuple[str, IntArray]] | None:
    """Cells that all meshes share, with indices of used points; None if cells differ, are missing or are polyhedra."""
    first = meshes[0]
    if not all(mesh.cells is first.cells or _have_same_cells(mesh, first) for mesh in meshes):
        return None
    if not first.cells or not all(isinstance(block.data, np.ndarray) for block in first.cells):
        return None
    # If meshio omitted cells, samples with the same cells can have different points.
    if len({len(mesh.points if rows is None else rows) for mesh, rows in zip(meshes, used, strict=True)}) > 1:
        return None
    rows = used[0]
    if rows is None:
        return [(block.type, block.data) for block in first.cells]
    numbers = np.zeros(len(first.points), dtype=int)
    numbers[rows] = np.arange(len(rows))
    return [(block.type, numbers[block.data]) for block in first.cells]


def _are_same_rows(rows: IntArray | None, others: IntArray | None) -> bool:
    """Tell whether two meshes use the same points."""
    return rows is others or (rows is not None and others is not None and np.array_equal(rows, others))


# ---------------------------------------------------------------------- data on cells
def _as_columns(array: Any, what: str) -> FloatArray:
    """Convert data to native floats with one column for each component, (P, c); float32 is kept."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub" or array.ndim == 0 or 0 in array.shape[1:]:
        raise FieldDataError(f"{what} has dtype {array.dtype} and shape {array.shape}; expected numbers.")
    dtype = np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64
    return array.reshape(len(array), -1 if array.size else 1).astype(dtype, copy=False)


def _average_on_points(mesh: meshio.Mesh, name: str, where: str) -> FloatArray:
    """Average cell data over the cells around each point, as `carry_cell_data` documents it."""
    _used_points(mesh, where)  # raises an error for cells that refer to points which do not exist
    what = f"cell data {name!r} of {where}"
    data = [_as_columns(part, what) for part in mesh.cell_data[name]]
    if [len(part) for part in data] != [len(block) for block in mesh.cells]:
        raise FieldDataError(f"{what} does not have one row for each cell.")
    if len({part.shape[1] for part in data}) != 1:
        problem = "has different numbers of components in different blocks of cells" if data else "is on no cells"
        raise FieldDataError(f"{what} {problem}.")
    totals, weights = np.zeros((len(mesh.points), data[0].shape[1])), np.zeros(len(mesh.points))
    for dimension in sorted({block.dim for block in mesh.cells}, reverse=True):
        chosen = [(block, part) for block, part in zip(mesh.cells, data, strict=True) if block.dim == dimension]
        found_totals, found_weights = _sum_on_points(mesh.points, chosen)
        is_open = weights == 0
        totals[is_open], weights[is_open] = found_totals[is_open], found_weights[is_open]
    with np.errstate(invalid="ignore"):
        return (totals / weights[:, None]).astype(np.result_type(*data), copy=False)


def _sum_on_points(
    points: FloatArray, blocks: Sequence[tuple[meshio.CellBlock, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    """Weighted sums of the cell values, and sums of the weights, at each point: (P, c) and (P,)."""
    sizes = [_cell_sizes(points, block) for block, _ in blocks]
    if not all((size > 0).all() for size in sizes):
        sizes = [np.ones(len(size)) for size in sizes]
    totals, weights = np.zeros((len(points), blocks[0][1].shape[1])), np.zeros(len(points))
    for (block, values), size in zip(blocks, sizes, strict=True):
        cells, nodes = _cells_and_nodes(block)
        weights += np.bincount(nodes, size[cells], minlength=len(points))
        for component, column in enumerate(values.T):
            totals[:, component] += np.bincount(nodes, (size * column)[cells], minlength=len(points))
    return totals, weights


def _cells_and_nodes(block: meshio.CellBlock) -> tuple[IntArray, IntArray]:
    """Return all pairs of a cell and one of its points."""
    if isinstance(block.data, np.ndarray):
        if block.data.size == 0:
            return np.zeros(0, dtype=int), np.zeros(0, dtype=int)
        return np.repeat(np.arange(len(block.data)), block.data.shape[1]), block.data.ravel()
    nodes = [np.unique(np.concatenate([np.asarray(face, dtype=int) for face in faces])) for faces in block.data]
    if not nodes:
        return np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    return np.repeat(np.arange(len(nodes)), [len(item) for item in nodes]), np.concatenate(nodes)


def _cell_sizes(points: FloatArray, block: meshio.CellBlock) -> FloatArray:
    """Length, area or volume of each cell, (m,); zero if it cannot be computed from the corners."""
    family = re.match(r"[A-Za-z_]*", block.type)
    simplices = _SIMPLICES.get(family.group() if family else "")
    if block.type == "polygon":
        simplices = [(0, i, i + 1) for i in range(1, block.data.shape[1] - 1)]
    if not simplices:
        return np.zeros(len(block))
    corners = points[block.data[:, simplices]].astype(float)  # (m, s, k + 1, D)
    edges = corners[:, :, 1:] - corners[:, :, :1]
    # The Gram determinant gives the size of a simplex in a space of any dimension.
    gram = np.linalg.det(edges @ np.swapaxes(edges, -1, -2))
    return np.sqrt(np.maximum(gram, 0)).sum(axis=1) / factorial(edges.shape[2])


# ---------------------------------------------------------------------- lists of meshes and files
def _is_one(item: Any) -> bool:
    """Tell whether an item is a mesh or a path."""
    return isinstance(item, meshio.Mesh | str | os.PathLike)


def _find_sources(source: Any) -> list[tuple[str, Any]]:
    """List the meshes or files of a source, each with its name for messages."""
    if isinstance(source, np.ndarray) and source.ndim == 1:
        source = list(source)
    if isinstance(source, meshio.Mesh):
        return [("mesh 0", source)]
    if isinstance(source, str | os.PathLike):
        return [(str(path), path) for path in _matching_files(os.path.expanduser(source))]
    if isinstance(source, Iterator):
        raise FieldDataError(
            f"meshes came as a {type(source).__name__}, whose order is not known; pass a pattern as text, such as "
            "'runs/*.vtu', or a sorted list."
        )
    if not isinstance(source, list | tuple):
        raise FieldDataError(
            f"meshes came as {type(source).__name__}; expected meshio.Mesh objects, paths or a pattern."
        )
    return _list_sources(source)


def _list_sources(items: list[Any] | tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return the items of a list of meshes or paths with their names."""
    if not items:
        raise FieldDataError("the list of meshes is empty; at least one is required.")
    strangers = [f"item {i} is a {type(item).__name__}" for i, item in enumerate(items) if not _is_one(item)]
    if strangers:
        raise FieldDataError(f"{strangers[0]}; expected meshio.Mesh objects only, or paths only.")
    are_meshes = [isinstance(item, meshio.Mesh) for item in items]
    if all(are_meshes):
        return [(f"mesh {i}", item) for i, item in enumerate(items)]
    if any(are_meshes):
        raise FieldDataError(
            f"item 0 is a {type(items[0]).__name__}, item {are_meshes.index(not are_meshes[0])} is not: a list holds "
            "meshio.Mesh objects only, or paths only; read the files with meshio.read first."
        )
    paths = [_existing_file(Path(os.path.expanduser(item))) for item in items]
    return [(str(path), path) for path in paths]


# ---------------------------------------------------------------------- paths and patterns
def _matching_files(pattern: str) -> list[Path]:
    """Files that match a path or a pattern, in natural order."""
    # If a file with exactly this name exists, brackets in the name are no pattern.
    if os.path.exists(pattern) or not glob.has_magic(pattern):
        return [_existing_file(Path(pattern))]
    found = [match for match in glob.glob(pattern, recursive=True) if os.path.isfile(match)]
    if not found:
        raise FieldDataError(f"no file matches {pattern!r}; {_nearby(Path(pattern))}.")
    return [Path(name) for name in sorted(found, key=_natural_key)]


def _natural_key(name: str) -> list[Any]:
    """Sort key that compares digits in names as numbers."""
    parts = re.split(r"(\d+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)] + [name]


def _existing_file(path: Path) -> Path:
    """Return the path of a file; raise an error if it is a folder or does not exist."""
    if path.is_dir():
        endings = [item.suffix for item in path.iterdir() if item.suffix]
        ending = max(endings, key=endings.count, default=".vtu")
        raise FieldDataError(f"{str(path)!r} is a folder; pass a pattern, such as {str(path / ('*' + ending))!r}.")
    if not path.exists():
        raise FieldDataError(f"there is no file {str(path)!r}; {_nearby(path)}.")
    return path


def _nearby(path: Path) -> str:
    """Describe the contents of the folder of a path, for error messages."""
    folder = path.parent
    if glob.has_magic(str(folder)):
        return "no folder that the pattern names holds such files"
    if not folder.is_dir():
        return f"the folder {str(folder)!r} does not exist"
    names = sorted((item.name for item in folder.iterdir() if item.is_file()), key=_natural_key)
    if not names:
        return f"the folder {str(folder)!r} holds no files"
    nearest = difflib.get_close_matches(path.name, names, n=_SHOWN_NAMES, cutoff=0.3) or names[:_SHOWN_NAMES]
    return f"the folder {str(folder)!r} holds {len(names)} files, such as {', '.join(nearest)}"


# ---------------------------------------------------------------------- reading of files
def _iterate_meshes(sources: list[tuple[str, Any]]) -> Iterator[tuple[str, meshio.Mesh]]:
    """Read the meshes one at a time, with their names."""
    for name, item in sources:
        yield name, item if isinstance(item, meshio.Mesh) else _read_file(item)


def _read_file(path: Path) -> meshio.Mesh:
    """Read one file; any failure is turned into an error that names the file."""
    if path.stat().st_size == 0:
        raise FieldDataError(f"cannot read {path}: the file is empty; remove it or write it again.")
    _refuse_unread_formats(path)
    said = io.StringIO()
    try:
        # If meshio cannot read a file, it prints a message and raises SystemExit.
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            mesh = _parse(path)
    except ModuleNotFoundError as error:
        raise OptionalDependencyError(
            f"{error.name} is needed to read {path}, but it is not installed. Install it with: pip install {error.name}"
        ) from error
    except FieldDataError:
        raise
    except (Exception, SystemExit) as error:
        reason = _one_line(said.getvalue()) or f"{type(error).__name__}: {_one_line(str(error))}"
        raise FieldDataError(
            f"cannot read {path} ({path.stat().st_size} bytes): {reason}. The file may be truncated or damaged, or "
            "have contents that meshio does not read; write it again, as .vtu, .vtk or .xdmf, or remove it."
        ) from error
    message = _one_line(said.getvalue())
    if message:
        warn(f"while reading {path}: {message}")
    if _LEFT_OUT_CELLS in " ".join(said.getvalue().split()):
        mesh.info = {_USES_ALL_POINTS: True}
    return mesh


def _refuse_unread_formats(path: Path) -> None:
    """Raise an error for formats without a reader."""
    ending = path.suffix.lower()
    if ending in _UNREAD_DATA_SETS:
        raise FieldDataError(
            f"cannot read {path}: there is no reader for {_UNREAD_DATA_SETS[ending]} ({ending}). Convert it to .vtu, "
            f"in ParaView or by pyvista.read({path.name!r}).cast_to_unstructured_grid().save({path.stem + '.vtu'!r})."
        )
    if ending in _UNREAD_COLLECTIONS:
        raise FieldDataError(
            f"cannot read {path}: there is no reader for {_UNREAD_COLLECTIONS[ending]} ({ending}), which list other "
            "files. Pass those files if they are .vtu, or write one .vtu for each sample, for example in ParaView."
        )
    known = meshio.extension_to_filetypes
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not any("".join(suffixes[start:]) in known for start in range(len(suffixes))):
        raise FieldDataError(
            f"cannot read {path}: there is no reader for files that end in {ending!r}. Write it as .vtu, .vtk or "
            ".xdmf, or leave it out."
        )


def _parse(path: Path) -> meshio.Mesh:
    """Read a file by meshio, such that its readers cannot wait for ever at the end of a truncated file."""
    ending = path.suffix.lower()
    if ending == ".vtu":
        return read_vtu(path)
    if ending in (".xdmf", ".xmf"):
        _refuse_time_series(path)
    if ending not in _WAITING_READERS:
        return meshio.read(path)
    with open(path, "rb") as file:
        is_gmsh = file.read(1) == b"$"
    if is_gmsh:
        return meshio.read(path, file_format="gmsh")
    file_format, is_binary = _WAITING_READERS[ending]
    with open(path, "rb" if is_binary else "r") as file:
        return meshio.read(_EndingFile(file), file_format=file_format)


def _refuse_time_series(path: Path) -> None:
    """Raise an error for XDMF files with several time steps."""
    if re.search(rb"CollectionType\s*=\s*[\"']Temporal", path.read_bytes()):
        raise FieldDataError(
            f"cannot read {path}: it is a time series, but each file has to be one sample; write one file for each "
            "time step."
        )


class _EndingFile:
    """File wrapper that raises EOFError when it is repeatedly read beyond its end."""

    def __init__(self, file: IO[Any]) -> None:
        self._file, self._empty_reads = file, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)

    def read(self, size: int = -1) -> Any:
        """Read as the file does."""
        return self._watched(self._file.read(size))

    def readline(self, size: int = -1) -> Any:
        """Read a line as the file does."""
        return self._watched(self._file.readline(size))

    def _watched(self, content: Any) -> Any:
        """Count empty reads."""
        self._empty_reads += not content
        if self._empty_reads > _READS_PAST_END:
            raise EOFError("the file ends too early")
        return content


def _one_line(text: str, limit: int = 300) -> str:
    """Shorten a text to one line, without a full stop at the end."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= limit else line[:limit] + " ..."
