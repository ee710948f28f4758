"""Predictions back to meshes, beside the data that these hold.

Notation: n meshes, P points or cells of a mesh, U of them that its sample consists of, c components.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import meshio
import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet
from skop.data._mesh_cells import (
    ON_CELLS,
    as_columns,
    average_on_points,
    count_places,
    mean_over_cells,
    used_places,
)
from skop.exceptions import FieldDataError

__all__ = ["attach_beside", "attach_predictions", "drop_unused_rows", "kept_sets", "restore_unused_rows"]

#: Key in the info of predicted meshes, with the names of the predicted fields.
_PREDICTED = "skop: predicted fields"


def attach_predictions(
    meshes: Sequence[meshio.Mesh], predictions: FieldSet, components: Mapping[str, int] | None = None
) -> list[meshio.Mesh]:
    """Return new meshes with predictions as point data, or as cell data if samples are on cells.

    The data and sets of the given meshes are kept. If a mesh holds a predicted field itself, this is the truth: it
    becomes ``<field>_true``, and the prediction minus the truth is ``<field>_error``. If a mesh holds ``<field>_true``
    already, because it was predicted before, that is the truth. Points and cells that are not part of a sample of
    `read_meshes` get NaN.

    Parameters
    ----------
    meshes : sequence of meshio.Mesh
        Meshes with points and cells, see `MeshSamples`.
    predictions : FieldSet
        Predictions, with one sample for each mesh, on all its points or on those that belong to cells. For the meshes
        of ``read_meshes(..., cell_data="cells")`` on its cells.
    components : mapping of str to int or None, default=None
        Names of the fields and their numbers of channels, in order, as in `MeshSamples`. None infers them from the
        channel names: ``u_0, u_1`` become one field ``u``. Without channel names, the field is called ``prediction``.

    Returns
    -------
    list of meshio.Mesh
        New meshes with copied points, data, sets and names of Gmsh's groups. Fields of one channel have shape ``(P,)``,
        others ``(P, c)``. Data that are no real numbers are left out, and so are sets of what the mesh does not have.

    Raises
    ------
    FieldDataError
        If the numbers of samples, points or channels do not match.

    Examples
    --------
    >>> import meshio, numpy as np
    >>> from skop import FieldSet
    >>> from skop.data import attach_predictions
    >>> data = {"u": np.ones((3, 2)), "load": np.ones(3)}
    >>> mesh = meshio.Mesh(np.eye(3), [("triangle", [[0, 1, 2]])], point_data=data)
    >>> predictions = FieldSet(mesh.points, np.full((1, 3, 2), 1.5), channel_names=["u_0", "u_1"])
    >>> (found,) = attach_predictions([mesh], predictions)
    >>> list(found.point_data), found.point_data["u_error"][0]
    (['u', 'u_true', 'u_error', 'load'], array([0.5, 0.5]))
    """
    fields = _fields_of_meshes(meshes, predictions, components)
    return [_finished(mesh, parts, f"mesh {i}") for i, (mesh, parts) in enumerate(zip(meshes, fields, strict=True))]


def attach_beside(
    meshes: Sequence[meshio.Mesh], values: Sequence[FieldSet], components: Mapping[str, int] | None = None
) -> list[list[meshio.Mesh]]:
    """Add a spread, or a lower and an upper bound, to the meshes of `attach_predictions`, as ``<field>_spread``, ..."""
    words = ("spread",) if len(values) == 1 else ("lower", "upper")
    return [_attached(meshes, part, components, word) for part, word in zip(values, words, strict=True)]


def _attached(
    meshes: Sequence[meshio.Mesh], values: FieldSet, components: Mapping[str, int] | None, suffix: str
) -> list[meshio.Mesh]:
    """Add fields with a suffix to meshes, and return new meshes that hold them alone."""
    fields = _fields_of_meshes(meshes, values, components)
    alone = []
    for mesh, parts in zip(meshes, fields, strict=True):
        named = {f"{name}_{suffix}": part for name, part in parts.items()}
        new = meshio.Mesh(mesh.points.copy(), mesh.cells, info=mesh.info, **kept_sets(mesh))
        for target in (mesh, new):
            _set_data(target, {name: part.copy() for name, part in named.items()})
        alone.append(new)
    return alone


def _fields_of_meshes(
    meshes: Sequence[meshio.Mesh], predictions: FieldSet, components: Mapping[str, int] | None
) -> list[dict[str, FloatArray]]:
    """Predicted fields of each mesh by name, on all its points or cells, (P,) or (P, c)."""
    if len(meshes) != len(predictions):
        raise FieldDataError(f"there are {len(meshes)} meshes and predictions for {len(predictions)}; one a mesh.")
    if components is None:
        components = _guess_components(predictions)
    if sum(components.values()) != predictions.n_channels:
        raise FieldDataError(f"predictions have {predictions.n_channels} channels, but components say {components}.")
    found = []
    for i, (mesh, values) in enumerate(zip(meshes, predictions.to_list(), strict=True)):
        everywhere = _on_all_places(values, mesh, f"mesh {i}")
        parts = np.split(everywhere, np.cumsum([*components.values()])[:-1], axis=1)
        named = zip(components, parts, strict=True)
        found.append({name: part[:, 0] if part.shape[1] == 1 else part for name, part in named})
    return found


def _finished(mesh: meshio.Mesh, predicted: Mapping[str, FloatArray], where: str) -> meshio.Mesh:
    """Return a new mesh with predictions, the truth and errors where it holds them, and its other data."""
    on_cells = ON_CELLS in (mesh.info or ())
    kept = _kept_data(mesh)
    own, other = kept["cell" if on_cells else "point"], kept["point" if on_cells else "cell"]
    earlier = (mesh.info or {}).get(_PREDICTED, ())
    shown: dict[str, FloatArray] = {}
    for name, values in predicted.items():
        shown[name] = values
        has_bounds = f"{name}_lower" in own and f"{name}_upper" in own
        is_earlier = name in earlier or f"{name}_spread" in own or has_bounds
        held = own.pop(name, None)
        true = own.pop(f"{name}_true", None if is_earlier else held)
        for stale in ("error", "spread", *(("lower", "upper") if has_bounds else ())):
            own.pop(f"{name}_{stale}", None)
        if true is None and name in other:
            # The truth is on cells and the prediction on points, or the other way round: it is shown on both.
            other[f"{name}_true"] = other.pop(name)
            true = _moved(mesh, name, where, to_cells=on_cells)
        if true is not None and not {f"{name}_true", f"{name}_error"} & set(predicted):
            shown[f"{name}_true"] = true
            columns = true.reshape(len(true), -1).astype(float)
            if columns.shape[1] == (1 if values.ndim == 1 else values.shape[1]):
                shown[f"{name}_error"] = values - columns.reshape(values.shape)
    # Points are copied, so that a user who moves the points of one mesh in place does not change the others.
    info = {_PREDICTED: tuple(predicted)} | ({ON_CELLS: True} if on_cells else {})
    new = meshio.Mesh(mesh.points.copy(), mesh.cells, info=info, **kept_sets(mesh))
    _set_data(new, shown | own)
    _set_data(new, other, on_cells=not on_cells)
    return new


def _kept_data(mesh: meshio.Mesh) -> dict[str, dict[str, Any]]:
    """Copies of the data of a mesh on points and on cells (those of all blocks in one array), if they are numbers."""
    sizes = {"point": len(mesh.points), "cell": sum(map(len, mesh.cells))}
    found: dict[str, dict[str, Any]] = {"point": {}, "cell": {}}
    for name, array in mesh.point_data.items():
        found["point"][name] = _as_numbers(np.asarray(array))
    for name, parts in mesh.cell_data.items():
        arrays = [_as_numbers(np.asarray(part)) for part in parts]
        fits = len({None if part is None else part.shape[1:] for part in arrays} - {None}) == 1
        fits = fits and [-1 if part is None else len(part) for part in arrays] == [len(block) for block in mesh.cells]
        found["cell"][name] = np.concatenate(arrays) if fits else None
    return {
        kind: {name: array for name, array in data.items() if array is not None and len(array) == sizes[kind]}
        for kind, data in found.items()
    }


def _as_indices(rows: Any, count: int) -> IntArray | None:
    """Copy of indices from 0 to count - 1, of which None stands for none; None if they are not."""
    indices = np.array([] if rows is None else rows)
    if not indices.size:
        return np.zeros(0, dtype=int)
    is_valid = indices.ndim == 1 and indices.dtype.kind in "iu" and indices.min() >= 0 and indices.max() < count
    return indices if is_valid else None


def _as_numbers(array: Any) -> Any:
    """Copy of an array in a type that mesh files can hold, (P,) or (P, c); None if it does not hold real numbers."""
    if array.dtype.kind not in "fiub" or array.ndim == 0 or 0 in array.shape[1:]:
        return None
    dtype = {"b": np.dtype(np.int8), "f": np.result_type(array.dtype, np.float32)}.get(array.dtype.kind, array.dtype)
    dtype = np.dtype(np.float64) if dtype.itemsize > 8 else dtype
    return (array.reshape(len(array), -1) if array.ndim > 2 else array).astype(dtype.newbyteorder("="))


def _moved(mesh: meshio.Mesh, name: str, where: str, *, to_cells: bool) -> FloatArray:
    """Move a field from the cells of a mesh to its points, or from its points to its cells, by averaging."""
    if to_cells:
        values = mean_over_cells(mesh, as_columns(mesh.point_data[name], f"point data {name!r} of {where}"))
    else:
        values = average_on_points(mesh, name, where)
    return values[:, 0] if values.shape[1] == 1 else values


def _set_data(mesh: meshio.Mesh, data: Mapping[str, FloatArray], on_cells: bool | None = None) -> None:
    """Add data on the places of the samples of a mesh, or on its cells or points."""
    if ON_CELLS in (mesh.info or ()) if on_cells is None else on_cells:
        ends = np.cumsum([len(block) for block in mesh.cells])[:-1]
        mesh.cell_data |= {name: np.split(values, ends) for name, values in data.items()}
    else:
        mesh.point_data |= data


def drop_unused_rows(values: Any, meshes: Sequence[meshio.Mesh]) -> Any:
    """Select the rows of points that belong to cells from arrays with one row for each point of a mesh."""
    if not _are_arrays(values) or [len(item) for item in values] != [count_places(mesh) for mesh in meshes]:
        return values
    used = [used_places(mesh, f"mesh {i}") for i, mesh in enumerate(meshes)]
    if all(rows is None for rows in used):
        return values
    taken = [
        np.asarray(item) if rows is None else np.asarray(item)[rows] for item, rows in zip(values, used, strict=True)
    ]
    is_array = isinstance(values, np.ndarray) and len({len(item) for item in taken}) == 1
    return np.stack(taken) if is_array else taken


def kept_sets(mesh: meshio.Mesh) -> dict[str, dict[str, Any]]:
    """Return copies of the named sets of points and of cells, if these are indices of what the mesh has, and names.

    Parameters
    ----------
    mesh : meshio.Mesh
        Mesh.

    Returns
    -------
    dict
        ``"point_sets"``, ``"cell_sets"`` and ``"field_data"``, as `meshio.Mesh` takes them. The last has the number and
        the dimension of each of Gmsh's physical groups by its name; other data of this kind, such as a time, belong to
        one mesh.
    """
    n_points, n_cells = len(mesh.points), [len(block) for block in mesh.cells]
    points = {name: _as_indices(rows, n_points) for name, rows in mesh.point_sets.items()}
    cells = {
        name: [_as_indices(rows, count) for rows, count in zip(parts, n_cells, strict=True)]
        for name, parts in mesh.cell_sets.items()
        # Those of Gmsh's geometry are numbers of curves and surfaces.
        if name != "gmsh:bounding_entities" and len(parts) == len(n_cells)
    }
    return {
        "point_sets": {name: rows for name, rows in points.items() if rows is not None},
        "cell_sets": {name: parts for name, parts in cells.items() if all(rows is not None for rows in parts)},
        "field_data": {name: np.array(held) for name, held in mesh.field_data.items() if _is_group(held)},
    }


def _is_group(held: Any) -> bool:
    """Whether field data of a mesh are the number and the dimension of a group."""
    is_row = isinstance(held, list | tuple) or (isinstance(held, np.ndarray) and held.ndim == 1)
    return is_row and len(held) == 2 and all(isinstance(number, int | np.integer) for number in held)


def restore_unused_rows(values: Any, meshes: Sequence[meshio.Mesh]) -> Any:
    """Extend predictions from the points that belong to cells to all points of a mesh."""
    if not _are_arrays(values) or [len(item) for item in values] == [count_places(mesh) for mesh in meshes]:
        return values
    spread = [
        _on_all_places(item, mesh, f"mesh {i}") for i, (item, mesh) in enumerate(zip(values, meshes, strict=True))
    ]
    is_array = isinstance(values, np.ndarray) and len({len(item) for item in spread}) == 1
    return np.stack(spread) if is_array else spread


def _are_arrays(values: Any) -> bool:
    """Tell whether these are arrays of values on points, and not a FieldSet or meshes."""
    if isinstance(values, np.ndarray):
        return values.ndim > 1
    return isinstance(values, list) and all(hasattr(item, "__array__") and np.ndim(item) > 0 for item in values)


def _on_all_places(values: FloatArray, mesh: meshio.Mesh, where: str) -> FloatArray:
    """Extend values from the points or cells of a sample to all of a mesh, with NaN elsewhere."""
    count = count_places(mesh)
    if len(values) == count:
        return values
    used = used_places(mesh, where)
    if used is None or len(used) != len(values):
        kind = "cells" if ON_CELLS in (mesh.info or ()) else "points"
        belong = "are used" if kind == "cells" else "belong to cells"
        detail = "" if used is None else f", of which {len(used)} {belong}"
        raise FieldDataError(f"{where} has {count} {kind}{detail}, its prediction has {len(values)}.")
    spread = np.full((count, *values.shape[1:]), np.nan, np.result_type(values, np.float32))
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
