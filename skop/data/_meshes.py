"""Convert meshes to FieldSets.

Notation: n meshes, P points of a mesh, U points or cells of a sample, D stored coordinates of a point, of which d are
used, c components.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import meshio
import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet
from skop.data._mesh_cells import as_columns, average_on_points, have_same_cells, listed, used_points
from skop.data._mesh_files import find_sources, iterate_meshes
from skop.exceptions import FieldDataError, warn

__all__ = ["MeshSamples", "read_meshes"]

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
    for name, mesh in iterate_meshes(find_sources(source)):
        template = _template(mesh, name, templates)
        names.append(name)
        templates.append(template)
        used.append(used_points(template, name))
        _finite_rows(template.points, used[-1], f"points of {name}")
        rows.append([_read_field(mesh, field, name, cell_data == "to_points", used[-1]) for field in wanted])
    _warn_of_unused(names, templates, used)
    components = _common_components(wanted, rows, names)
    kept_axes = _kept_axes(templates, used, axes)
    channels = [name if count == 1 else f"{name}_{k}" for name, count in components.items() for k in range(count)]
    values = [np.concatenate(row, axis=1) for row in rows] if wanted else None
    fields_on_points = _as_fieldset(templates, used, kept_axes, values, channels)
    return MeshSamples(fields_on_points, templates, kept_axes, components, tuple(names), used)


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
        cells = first.cells if have_same_cells(mesh, first) else cells
    return meshio.Mesh(points, cells, info=mesh.info)


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


def _read_field(mesh: meshio.Mesh, field: str, name: str, average: bool, used: IntArray | None) -> FloatArray:
    """Read one field on the points of a sample, (U, c)."""
    if field in mesh.point_data:
        what = f"point data {field!r} of {name}"
        return _finite_rows(as_columns(mesh.point_data[field], what), used, what)
    if field not in mesh.cell_data:
        raise FieldDataError(
            f"{name} has no field {field!r}; its point data are {listed(mesh.point_data)}, its cell data "
            f"{listed(mesh.cell_data)}."
        )
    if not average:
        raise FieldDataError(
            f"{field!r} is cell data in {name}, but point data are needed; pass cell_data='to_points' to average it "
            "over the cells around each point."
        )
    values = average_on_points(mesh, field, name)
    return _finite_rows(values, used, f"cell data {field!r} of {name}, averaged to its points")


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
    points = [as_columns(mesh.points if rows is None else mesh.points[rows], "points") for mesh, rows in placed]
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
    if not all(mesh.cells is first.cells or have_same_cells(mesh, first) for mesh in meshes):
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
