"""Predictions back to meshes.

Notation: n meshes, P points or cells of a mesh, U of them that its sample consists of, c components.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import meshio
import numpy as np

from skop._typing import FloatArray
from skop.data._fieldset import FieldSet
from skop.data._mesh_cells import used_points
from skop.exceptions import FieldDataError

__all__ = ["attach_predictions", "drop_unused_rows", "restore_unused_rows"]


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
    used = [used_points(mesh, f"mesh {i}") for i, mesh in enumerate(meshes)]
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
    used = used_points(mesh, where)
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
