"""Average data on the cells of a mesh to its points.

Letters of the shapes: P points of a mesh, D coordinates of a point, m cells of a block, s simplices of a cell,
k dimension of a simplex, c components.
"""

import re
from collections.abc import Sequence
from math import factorial
from typing import Any

import meshio
import numpy as np

from skop._typing import FloatArray, IntArray
from skop.exceptions import FieldDataError

__all__ = ["as_columns", "average_on_points"]

#: Simplices that fill a cell, by its corners, which come first in all cells of these families.
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


def as_columns(array: Any, what: str) -> FloatArray:
    """Return data as floats of this machine with one column for each component.

    Parameters
    ----------
    array : ndarray of shape (P,) or (P, ...)
        Data as read from a file, which may have another byte order.
    what : str
        What it is, for the message.

    Returns
    -------
    ndarray of shape (P, c)
        float32 stays float32; all else becomes float64.

    Raises
    ------
    FieldDataError
        If it holds no numbers, or no component.
    """
    array = np.asarray(array)
    if array.dtype.kind not in "fiub" or array.ndim == 0 or 0 in array.shape[1:]:
        raise FieldDataError(f"{what} has dtype {array.dtype} and shape {array.shape}; expected numbers.")
    dtype = np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64
    return array.reshape(len(array), -1 if array.size else 1).astype(dtype, copy=False)


def average_on_points(mesh: meshio.Mesh, name: str, where: str) -> FloatArray:
    """Average cell data over the cells around each point, as `carry_cell_data` documents it.

    Parameters
    ----------
    mesh : meshio.Mesh
        Mesh with this cell data.
    name : str
        Name in ``cell_data``.
    where : str
        What messages call the mesh.

    Returns
    -------
    ndarray of shape (P, c)
        Values on the points.

    Raises
    ------
    FieldDataError
        If the data does not fit the cells, or a point belongs to no cell.
    """
    what = f"cell data {name!r} of {where}"
    data = [as_columns(part, what) for part in mesh.cell_data[name]]
    if [len(part) for part in data] != [len(block) for block in mesh.cells]:
        raise FieldDataError(f"{what} does not have one row for each cell.")
    if len({part.shape[1] for part in data}) != 1:
        raise FieldDataError(f"{what} has different numbers of components in different blocks of cells.")
    totals, weights = np.zeros((len(mesh.points), data[0].shape[1])), np.zeros(len(mesh.points))
    for dimension in sorted({block.dim for block in mesh.cells}, reverse=True):
        chosen = [(block, part) for block, part in zip(mesh.cells, data, strict=True) if block.dim == dimension]
        found_totals, found_weights = _sum_on_points(mesh.points, chosen, where)
        is_open = weights == 0
        totals[is_open], weights[is_open] = found_totals[is_open], found_weights[is_open]
    if alone := int((weights == 0).sum()):
        raise FieldDataError(
            f"{alone} points of {where} belong to no cell, so that {name!r}, which lives on cells, has no value there; "
            "remove them with mesh.remove_orphaned_nodes()."
        )
    return (totals / weights[:, None]).astype(np.result_type(*data), copy=False)


def _sum_on_points(
    points: FloatArray, blocks: Sequence[tuple[meshio.CellBlock, FloatArray]], where: str
) -> tuple[FloatArray, FloatArray]:
    """Weighted sums of cell values and of weights at each point, (P, c) and (P,)."""
    sizes = [_cell_sizes(points, block) for block, _ in blocks]
    if not all((size > 0).all() for size in sizes):
        sizes = [np.ones(len(size)) for size in sizes]
    totals, weights = np.zeros((len(points), blocks[0][1].shape[1])), np.zeros(len(points))
    for (block, values), size in zip(blocks, sizes, strict=True):
        cells, nodes = _cells_and_nodes(block)
        if len(nodes) and not 0 <= nodes.min() <= nodes.max() < len(points):
            raise FieldDataError(f"the cells of {where} name point {nodes.max()}, but it has {len(points)} points.")
        weights += np.bincount(nodes, size[cells], minlength=len(points))
        for component, column in enumerate(values.T):
            totals[:, component] += np.bincount(nodes, (size * column)[cells], minlength=len(points))
    return totals, weights


def _cells_and_nodes(block: meshio.CellBlock) -> tuple[IntArray, IntArray]:
    """Pairs of a cell and one of its points."""
    if isinstance(block.data, np.ndarray):
        return np.repeat(np.arange(len(block.data)), block.data.shape[1]), block.data.ravel()
    nodes = [np.unique(np.concatenate(faces)) for faces in block.data]
    return np.repeat(np.arange(len(nodes)), [len(item) for item in nodes]), np.concatenate(nodes)


def _cell_sizes(points: FloatArray, block: meshio.CellBlock) -> FloatArray:
    """Length, area or volume of each cell, (m,); zeros where it cannot be computed from corners."""
    family = re.match(r"[A-Za-z_]*", block.type)
    simplices = _SIMPLICES.get(family.group() if family else "")
    if block.type == "polygon":
        simplices = [(0, i, i + 1) for i in range(1, block.data.shape[1] - 1)]
    if not simplices:
        return np.zeros(len(block))
    corners = points[block.data[:, simplices]].astype(float)  # (m, s, k + 1, D)
    edges = corners[:, :, 1:] - corners[:, :, :1]
    # The Gram determinant measures a simplex in a space of any dimension.
    gram = np.linalg.det(edges @ np.swapaxes(edges, -1, -2))
    return np.sqrt(np.maximum(gram, 0)).sum(axis=1) / factorial(edges.shape[2])
