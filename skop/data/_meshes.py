"""Meshes to FieldSets and predictions back to meshes.

Letters of the shapes: n meshes, P points of a mesh, D coordinates a point is stored with, d of them kept, c components.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import meshio
import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet
from skop.data._mesh_cells import as_columns, average_on_points
from skop.data._mesh_files import find_sources, iterate_meshes
from skop.exceptions import FieldDataError

__all__ = ["MeshSamples", "attach_predictions", "carry_cell_data", "read_meshes"]


@dataclass(frozen=True)
class MeshSamples:
    """Meshes as samples.

    Attributes
    ----------
    fields : FieldSet
        Points as coordinates and the named fields as values. Coordinates are shared when all meshes have the same
        points, and ragged when their numbers differ; cells are there when all meshes share them.
    meshes : list of meshio.Mesh
        Points as they were stored, and cells, without data: what predictions are attached to.
    axes : tuple of int
        Which of the stored coordinates are kept in `fields`.
    components : dict of str to int
        Number of channels of each field, in the order of the channels.
    names : tuple of str
        File of each mesh, or ``"mesh 0"`` and so on, in the order of the samples.
    """

    fields: FieldSet
    meshes: list[meshio.Mesh]
    axes: tuple[int, ...]
    components: dict[str, int]
    names: tuple[str, ...]

    def select(self, fields: str | Sequence[str] | None) -> FieldSet:
        """Return some of the fields that were read, in the order asked for.

        Parameters
        ----------
        fields : str, sequence of str or None
            Names of fields; None or an empty sequence gives geometry only.

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
            return _as_fieldset(self.meshes, self.axes, None, None)
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
    """Read meshes as samples: points are coordinates, data on points are fields.

    Parameters
    ----------
    source : meshio.Mesh, str, Path or list of these
        Meshes; or files, kept in the order of the list; or a glob such as ``"runs/*.vtu"``, whose files are sorted so
        that run_2 comes before run_10.
    fields : str, sequence of str or None, default=None
        Names in ``point_data``. A field with several components gives channels ``displacement_0``,
        ``displacement_1`` and so on. None reads the geometry only.
    cell_data : {"refuse", "to_points"}, default="refuse"
        What to do with a field that lives on cells only: raise, or average it as `carry_cell_data` does.
    axes : sequence of int or None, default=None
        Coordinates to keep. None drops those that are the same, up to rounding, for all points of all meshes, as z is
        for plane meshes. Predictions pass the axes of the fit.

    Returns
    -------
    MeshSamples
        The samples, and meshes that take up predictions.

    Raises
    ------
    FieldDataError
        If there are no meshes, a file cannot be read, a mesh has no points or lacks a field, or meshes differ in the
        components of a field or in their number of coordinates.
    OptionalDependencyError
        If the format of a file needs a package that is not installed.

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
    rows: list[list[FloatArray]] = []
    for name, mesh in iterate_meshes(find_sources(source)):
        names.append(name)
        templates.append(_template(mesh, name, templates))
        rows.append([_read_field(mesh, field, name, cell_data == "to_points") for field in wanted])
    components = _common_components(wanted, rows, names)
    kept = _kept_axes(templates, axes)
    channels = [name if count == 1 else f"{name}_{k}" for name, count in components.items() for k in range(count)]
    values = [np.concatenate(row, axis=1) for row in rows] if wanted else None
    return MeshSamples(_as_fieldset(templates, kept, values, channels), templates, kept, components, tuple(names))


def carry_cell_data(mesh: meshio.Mesh, name: str) -> FloatArray:
    """Carry data on cells to the points: each point takes the mean of the cells around it.

    Cells weigh by their length, area or volume, measured on their corners. Where a cell has none (polyhedra, collapsed
    cells), all cells weigh the same. In meshes that mix dimensions, such as triangles with boundary lines, a point
    looks at its cells of the highest dimension only.

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
        If there is no such data, it does not fit the cells, or a point belongs to no cell.

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
    return average_on_points(mesh, name, "the mesh")


def attach_predictions(
    meshes: Sequence[meshio.Mesh], predictions: FieldSet, components: Mapping[str, int] | None = None
) -> list[meshio.Mesh]:
    """Return meshes that carry predictions as point data.

    Parameters
    ----------
    meshes : sequence of meshio.Mesh
        Points and cells, as `read_meshes` returns them.
    predictions : FieldSet
        One sample for each mesh, on its points.
    components : mapping of str to int or None, default=None
        Names of the fields and their numbers of channels, in order, as in `MeshSamples`. None reads them off the
        channel names: ``u_0, u_1`` become one field ``u``. Without names, the field is called ``prediction``.

    Returns
    -------
    list of meshio.Mesh
        New meshes with their own points; fields of one channel are ``(P,)``, others ``(P, c)``.

    Raises
    ------
    FieldDataError
        If numbers of samples, points or channels do not fit.

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
        if len(mesh.points) != len(values):
            raise FieldDataError(f"mesh {i} has {len(mesh.points)} points, its prediction has {len(values)}.")
        parts = np.split(values, np.cumsum([*components.values()])[:-1], axis=1)
        data = {name: part[:, 0] if part.shape[1] == 1 else part for name, part in zip(components, parts, strict=True)}
        # Points are copied: to warp a mesh in place by its displacement must not warp the others.
        finished.append(meshio.Mesh(mesh.points.copy(), mesh.cells, point_data=data))
    return finished


def _guess_components(predictions: FieldSet) -> dict[str, int]:
    """Fields that the channel names come from: u_0, u_1 are two channels of u."""
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
    """Names of fields as a list without repetitions."""
    names = [fields] if isinstance(fields, str) else [*(fields or ())]
    for name in names:
        if not isinstance(name, str) or names.count(name) > 1:
            raise FieldDataError(f"fields are {names}; expected different names of point data.")
    return names


def _template(mesh: meshio.Mesh, name: str, earlier: Sequence[meshio.Mesh]) -> meshio.Mesh:
    """Points and cells of a mesh; arrays equal to those of the first mesh are stored once."""
    points, cells = mesh.points, mesh.cells
    if points.ndim != 2 or 0 in points.shape:
        raise FieldDataError(f"{name} has no points (shape {points.shape}); remove it.")
    if points.dtype.kind not in "fiu":
        raise FieldDataError(f"the points of {name} have dtype {points.dtype}; expected numbers.")
    if earlier:
        first = earlier[0]
        if points.shape[1] != first.points.shape[1]:
            raise FieldDataError(
                f"{name} has {points.shape[1]} coordinates a point, the first mesh has {first.points.shape[1]}; bring "
                "all meshes to one dimension."
            )
        points = first.points if np.array_equal(points, first.points) else points
        cells = first.cells if _have_same_cells(mesh, first) else cells
    return meshio.Mesh(points, cells)


def _have_same_cells(mesh: meshio.Mesh, first: meshio.Mesh) -> bool:
    """Tell whether two meshes have equal cells; polyhedra, which are nested lists, never count as equal."""
    return len(mesh.cells) == len(first.cells) and all(
        a.type == b.type and isinstance(a.data, np.ndarray) and np.array_equal(a.data, b.data)
        for a, b in zip(mesh.cells, first.cells, strict=True)
    )


def _read_field(mesh: meshio.Mesh, field: str, name: str, average: bool) -> FloatArray:
    """One field on the points of a mesh, (P, c)."""
    if field in mesh.point_data:
        return as_columns(mesh.point_data[field], f"point data {field!r} of {name}")
    if field not in mesh.cell_data:
        raise FieldDataError(
            f"{name} has no field {field!r}; its point data are {_listed(mesh.point_data)}, its cell data "
            f"{_listed(mesh.cell_data)}."
        )
    if not average:
        raise FieldDataError(
            f"{field!r} is cell data in {name}, and fields live on points; pass cell_data='to_points' to average it "
            "over the cells around each point."
        )
    return average_on_points(mesh, field, name)


def _listed(data: Mapping[str, Any]) -> str:
    """Names in words."""
    return ", ".join(repr(name) for name in data) or "none"


# ---------------------------------------------------------------------- all meshes together
def _common_components(
    wanted: Sequence[str], rows: Sequence[Sequence[FloatArray]], names: Sequence[str]
) -> dict[str, int]:
    """Components of each field, which must be the same in all meshes."""
    counts = [part.shape[1] for part in rows[0]]
    for row, name in zip(rows, names, strict=True):
        for field, part, count in zip(wanted, row, counts, strict=True):
            if part.shape[1] != count:
                raise FieldDataError(
                    f"field {field!r} has {part.shape[1]} components in {name} and {count} in {names[0]}; they must "
                    "be the same in all meshes."
                )
    return dict(zip(wanted, counts, strict=True))


def _kept_axes(meshes: Sequence[meshio.Mesh], axes: Sequence[int] | None) -> tuple[int, ...]:
    """Coordinates to keep: those that vary, or those asked for if all others are constant."""
    n_stored = meshes[0].points.shape[1]
    low = np.min([mesh.points.min(axis=0) for mesh in meshes], axis=0).astype(float)
    high = np.max([mesh.points.max(axis=0) for mesh in meshes], axis=0).astype(float)
    dtype = np.result_type(*{mesh.points.dtype for mesh in meshes}, np.float32)
    rounding = np.finfo(dtype).eps * np.maximum(np.nanmax(high - low), np.abs(high))
    # Written so that NaN counts as varying and reaches the check of values.
    varies = ~(high - low <= rounding)
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
    axes: tuple[int, ...],
    values: Sequence[FloatArray] | None,
    channels: Sequence[str] | None,
) -> FieldSet:
    """Place values on the kept coordinates of the points."""
    first = meshes[0]
    is_shared = all(mesh.points is first.points for mesh in meshes)
    has_cells = all(mesh.cells is first.cells or _have_same_cells(mesh, first) for mesh in meshes)
    cells: list[tuple[str, IntArray]] | None = None
    if has_cells and first.cells and all(isinstance(block.data, np.ndarray) for block in first.cells):
        cells = [(block.type, block.data) for block in first.cells]
    points = [as_columns(mesh.points, "points")[:, axes] for mesh in ([first] if is_shared else meshes)]
    names = None if values is None else channels
    if len({len(item) for item in points}) > 1:
        return FieldSet(points, values, cells=cells, channel_names=names)
    coords: FloatArray = points[0] if is_shared else np.stack(points)
    if values is None:
        # Nothing but the coordinates says how many samples there are.
        own = np.broadcast_to(coords, (len(meshes), *points[0].shape))
        return FieldSet(own, cells=cells)
    return FieldSet(coords, np.stack(values), cells=cells, channel_names=names)
