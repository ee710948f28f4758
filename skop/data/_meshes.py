"""Convert meshes to FieldSets.

Notation: n meshes, P points of a mesh, U points or cells of a sample, D stored coordinates of a point, of which d are
used, c components.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import meshio
import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet
from skop.data._mesh_cells import (
    ON_CELLS,
    USES_ALL_POINTS,
    as_columns,
    average_on_points,
    cell_centres,
    have_same_cells,
    listed,
    mean_over_cells,
    used_places,
    used_points,
    values_on_cells,
)
from skop.data._mesh_files import MESH_SETS, find_sources, iterate_meshes
from skop.exceptions import FieldDataError, warn

__all__ = ["MeshSamples", "read_meshes", "read_sources"]

#: Extent of a coordinate, relative to the largest extent of the meshes, below which it counts as constant, since a
#: rotated plane is flat only up to rounding errors.
_FLAT = 1e-12


@dataclass(frozen=True)
class MeshSamples:
    """Result of reading meshes: fields, and what is needed to convert predictions back to meshes.

    Attributes
    ----------
    fields : FieldSet
        Points, or centres of cells, as coordinates, and the named fields as values. Coordinates are shared if all
        meshes have the same, and ragged if their numbers differ. Cells are present if all meshes share them and samples
        are on points.
    meshes : list of meshio.Mesh
        Meshes with the original points and cells, to which predictions are attached; with their data if these are kept.
    axes : tuple of int
        Indices of the stored coordinates that are used in `fields`.
    components : dict of str to int
        Number of channels of each field, in the order of the channels.
    names : tuple of str
        File name of each mesh, or ``"mesh 0"`` and so on, in the order of the samples.
    used_points : list of (ndarray of shape (U,) or None)
        Indices of the points of each mesh that are points of its sample, in ascending order; None if all are. Points
        that belong to no cell are not part of a sample. With ``cell_data="cells"`` the indices of its cells, counted
        through all blocks.
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
            return _geometry(self.fields)
        starts = dict(zip(self.components, np.cumsum([0, *self.components.values()]), strict=False))
        columns = [starts[name] + k for name in wanted for k in range(self.components[name])]
        return self.fields.with_values(values[..., columns], [names[column] for column in columns])


def read_meshes(
    source: Any,
    fields: str | Sequence[str] | None = None,
    *,
    cell_data: Literal["refuse", "to_points", "cells"] = "refuse",
    axes: Sequence[int] | None = None,
    keep_data: bool = False,
) -> MeshSamples:
    """Read meshes as samples: points become coordinates, and point data become fields.

    Points that belong to no cell, such as a reference point or the centre of an arc from CAD, are not used, and a
    warning gives their number. A ``"vertex"`` counts as a cell. A mesh without cells is a point cloud, all points of
    which are used.

    With ``cell_data="cells"`` the centres of the cells become coordinates, and cell data become fields. Every value is
    that of one cell, so that values on both sides of a material interface are never mixed. Cells all of whose points
    belong to cells of higher dimension, such as lines on the boundary of triangles, are not used.

    Parameters
    ----------
    source : meshio.Mesh, str, Path or list of these
        Meshes; or files, in the order of the list; or a pattern such as ``"runs/*.vtu"``, whose files are sorted so
        that run_2 comes before run_10.
    fields : str, sequence of str or None, default=None
        Names in ``point_data``. A field with several components gives channels ``displacement_0``,
        ``displacement_1`` and so on. None reads the geometry only.
    cell_data : {"refuse", "to_points", "cells"}, default="refuse"
        Treatment of fields on cells. ``"refuse"`` is an error for a field that exists on cells only. ``"to_points"``
        averages it to the points. ``"cells"`` reads all fields at the centres of the cells,
        which are the means of their points; a field that exists on points only is averaged over the points of a cell.
    axes : sequence of int or None, default=None
        Indices of the coordinates to use. None uses all coordinates except those that are constant over all meshes,
        such as z of plane meshes. The tolerance is 1e-12 of the largest extent of the meshes, or 2e-6 for points stored
        as float32.
    keep_data : bool, default=False
        Whether the resulting meshes keep the point and cell data, so that predicted meshes hold them too.

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
        If points are not used, meshio omits a part of a file, a field is the prediction in a mesh that also holds the
        truth, or cells that are not used hold data.

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
    return read_sources(find_sources(source), fields, cell_data=cell_data, axes=axes, keep_data=keep_data)


def read_sources(
    sources: list[tuple[str, Any]],
    fields: str | Sequence[str] | None,
    *,
    cell_data: str,
    axes: Sequence[int] | None = None,
    keep_data: bool = False,
) -> MeshSamples:
    """Read meshes from pairs of a name and a mesh, a file, or a function that reads a mesh, as `read_meshes` does."""
    wanted = _field_names(fields)
    if cell_data not in ("refuse", "to_points", "cells"):
        raise FieldDataError(f"cell_data is {cell_data!r}; expected 'refuse', 'to_points' or 'cells'.")
    names: list[str] = []
    templates: list[meshio.Mesh] = []
    used: list[IntArray | None] = []
    places: list[FloatArray] = []
    rows: list[list[FloatArray]] = []
    predicted: dict[str, str] = {}
    left_out: dict[str, int] = {}
    for name, mesh in iterate_meshes(sources):
        template = _template(mesh, name, templates, on_cells=cell_data == "cells")
        names.append(name)
        used.append(used_places(template, name))
        templates.append(template)
        if len(templates) > 1 and _are_same_places(template, templates[0], used):
            places.append(places[0])
        else:
            found = _places(template, used, name)
            places.append(places[0] if places and np.array_equal(found, places[0]) else found)
        rows.append([_read_field(mesh, field, name, cell_data, used[-1]) for field in wanted])
        predicted |= {field: name for field in wanted if field not in predicted and _is_predicted(mesh, field)}
        if cell_data == "cells":
            left_out[name] = _count_left_out(mesh, wanted, used[-1])
        if keep_data:
            template.point_data, template.cell_data = dict(mesh.point_data), dict(mesh.cell_data)
        for kind in MESH_SETS if keep_data or len(templates) == 1 else ():
            setattr(template, kind, dict(getattr(mesh, kind)))
    if cell_data == "cells":
        _warn_of_left_out(left_out)
    else:
        _warn_of_unused(names, templates, used)
    _warn_of_predictions(predicted)
    components = _common_components(wanted, rows, names)
    kept_axes = _kept_axes(places, axes)
    channels = [name if count == 1 else f"{name}_{k}" for name, count in components.items() for k in range(count)]
    values = [np.concatenate(row, axis=1) for row in rows] if wanted else None
    cells = None if cell_data == "cells" else _common_cells(templates, used)
    fieldset = _as_fieldset(places, kept_axes, values, channels, cells)
    return MeshSamples(fieldset, templates, kept_axes, components, tuple(names), used)


# ---------------------------------------------------------------------- contents of one mesh
def _field_names(fields: str | Sequence[str] | None) -> list[str]:
    """Return the names of fields as a list; raise an error for repetitions."""
    names = [fields] if isinstance(fields, str) else [*(fields or ())]
    for name in names:
        if not isinstance(name, str) or names.count(name) > 1:
            raise FieldDataError(f"fields are {names}; expected different names of point data.")
    return names


def _template(mesh: meshio.Mesh, name: str, earlier: Sequence[meshio.Mesh], *, on_cells: bool) -> meshio.Mesh:
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
    info = {key: True for key in (USES_ALL_POINTS,) if key in (mesh.info or ())} | (
        {ON_CELLS: True} if on_cells else {}
    )
    return meshio.Mesh(points, cells, info=info or None)


def _places(template: meshio.Mesh, used: Sequence[IntArray | None], name: str) -> FloatArray:
    """Points, or centres of cells, that a sample consists of, (U, D)."""
    if ON_CELLS not in (template.info or ()):
        return _finite_rows(template.points, used[-1], f"points of {name}")
    _finite_rows(template.points, used_points(template, name), f"points of {name}")
    centres = cell_centres(template)
    return centres if used[-1] is None else centres[used[-1]]


def _are_same_places(template: meshio.Mesh, first: meshio.Mesh, used: Sequence[IntArray | None]) -> bool:
    """Tell whether a mesh is known to have the same points, or centres, as the first one, without comparing them."""
    if template.points is not first.points or not _are_same_rows(used[-1], used[0]):
        return False
    if ON_CELLS not in (template.info or ()):
        return True
    return len(template.cells) == len(first.cells) and all(
        block.data is other.data for block, other in zip(template.cells, first.cells, strict=True)
    )


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


def _count_left_out(mesh: meshio.Mesh, wanted: Sequence[str], used: IntArray | None) -> int:
    """Number of cells that are not used although they hold a value other than zero or NaN in one of the fields."""
    if used is None:
        return 0
    is_left_out = np.ones(sum(map(len, mesh.cells)), dtype=bool)
    is_left_out[used] = False
    held = [np.concatenate(values_on_cells(mesh, field, "the mesh")) for field in wanted if field in mesh.cell_data]
    return int(np.any([(np.nan_to_num(values) != 0).any(axis=1) & is_left_out for values in held], axis=0).sum())


def _warn_of_left_out(left_out: Mapping[str, int]) -> None:
    """Warn about cells that hold data but are not used."""
    counts = {name: count for name, count in left_out.items() if count}
    if counts:
        warn(
            f"{sum(counts.values())} cells in {len(counts)} of {len(left_out)} meshes (first in {next(iter(counts))}) "
            "hold data but are not used, since all their points belong to cells of higher dimension; predicted meshes "
            "have NaN there. Read such cells separately, as a mesh without the cells of higher dimension."
        )


def _is_predicted(mesh: meshio.Mesh, field: str) -> bool:
    """Tell whether a field is a prediction, whose truth and error `attach_predictions` has written beside it."""
    return any({f"{field}_true", f"{field}_error"} <= set(data) for data in (mesh.point_data, mesh.cell_data))


def _warn_of_predictions(predicted: Mapping[str, str]) -> None:
    """Warn about fields that are predictions."""
    if not predicted:
        return
    field, name = next(iter(predicted.items()))
    if len(predicted) == 1:
        words = f"field {field!r} of {name} is a prediction, since '{field}_true' and '{field}_error' are beside it"
    else:
        words = (
            f"fields {' and '.join(map(repr, predicted))} are predictions, since each has its truth and error beside "
            f"it, as {field!r} of {name} has '{field}_true' and '{field}_error'"
        )
    warn(f"{words}; the truth is {' and '.join(repr(f'{field}_true') for field in predicted)}.")


def _finite_rows(values: FloatArray, used: IntArray | None, what: str, kind: str = "point") -> FloatArray:
    """Select the rows of the points or cells of a sample, (U, c), and raise an error for NaN or infinity."""
    rows = values if used is None else values[used]
    is_bad = ~np.isfinite(rows).all(axis=1)
    if is_bad.any():
        first = int(is_bad.argmax())
        raise FieldDataError(
            f"{what}: NaN or infinity at {int(is_bad.sum())} of {len(rows)} {kind}s, first at {kind} "
            f"{first if used is None else used[first]}; expected finite numbers. Repair this mesh or leave it out."
        )
    return rows


def _read_field(mesh: meshio.Mesh, field: str, name: str, cell_data: str, used: IntArray | None) -> FloatArray:
    """Read one field on the points or cells of a sample, (U, c)."""
    on_points, on_cells = f"point data {field!r} of {name}", f"cell data {field!r} of {name}"
    if field not in mesh.point_data and field not in mesh.cell_data:
        raise FieldDataError(
            f"{name} has no field {field!r}; its point data are {listed(mesh.point_data)}, its cell data "
            f"{listed(mesh.cell_data)}."
        )
    if cell_data == "cells":
        if field in mesh.cell_data:
            return _finite_rows(np.concatenate(values_on_cells(mesh, field, name)), used, on_cells, "cell")
        values = mean_over_cells(mesh, as_columns(mesh.point_data[field], on_points))
        return _finite_rows(values, used, f"{on_points}, averaged to the centres of its cells", "cell")
    if field in mesh.point_data:
        return _finite_rows(as_columns(mesh.point_data[field], on_points), used, on_points)
    if cell_data == "refuse":
        raise FieldDataError(
            f"{field!r} is cell data in {name}, but point data are needed; pass cell_data='cells' to read it at the "
            "centres of the cells, or cell_data='to_points' to average it over the cells around each point."
        )
    return _finite_rows(average_on_points(mesh, field, name), used, f"{on_cells}, averaged to its points")


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


def _kept_axes(places: Sequence[FloatArray], axes: Sequence[int] | None) -> tuple[int, ...]:
    """Return the coordinates to use: those that vary, or the given ones if all others are constant."""
    n_stored, points = places[0].shape[1], places
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
    places: Sequence[FloatArray],
    axes: tuple[int, ...],
    values: Sequence[FloatArray] | None,
    channels: Sequence[str] | None,
    cells: list[tuple[str, IntArray]] | None,
) -> FieldSet:
    """Build a FieldSet of the values on the points or centres, with the coordinates that are used."""
    is_shared = all(item is places[0] for item in places)
    points = [as_columns(item, "points")[:, axes] for item in (places[:1] if is_shared else places)]
    names = None if values is None else channels
    if len({len(item) for item in points}) > 1:
        return FieldSet(points, values, cells=cells, channel_names=names)
    coords: FloatArray = points[0] if is_shared else np.stack(points)
    if values is None:
        # Coordinates are repeated, because without values only they give the number of samples.
        own = np.broadcast_to(coords, (len(places), *points[0].shape))
        return FieldSet(own, cells=cells)
    return FieldSet(coords, np.stack(values), cells=cells, channel_names=names)


def _geometry(fields: FieldSet) -> FieldSet:
    """Return the samples without their values."""
    if fields.values is None:
        return fields
    if fields.is_ragged:
        return FieldSet(fields.coords_list(), cells=fields.cells)
    n_points = int(fields.n_points[0])
    return FieldSet(np.broadcast_to(fields.coords, (len(fields), n_points, fields.n_dims)), cells=fields.cells)


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
    return [(block.type, numbers[np.asarray(block.data, dtype=int)]) for block in first.cells]


def _are_same_rows(rows: IntArray | None, others: IntArray | None) -> bool:
    """Tell whether two meshes use the same points."""
    return rows is others or (rows is not None and others is not None and np.array_equal(rows, others))
