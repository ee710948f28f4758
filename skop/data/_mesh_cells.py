"""Cells of meshes: the points that belong to them, their sizes and centres, and data on them.

Notation: P points of a mesh, C cells of all its blocks, U points or cells that a sample consists of, D coordinates of a
point, c components, m cells of a block, s simplices of a cell, k dimension of a simplex.
"""

import re
from collections.abc import Mapping, Sequence
from math import factorial
from typing import Any

import meshio
import numpy as np

from skop._typing import FloatArray, IntArray
from skop.exceptions import FieldDataError

__all__ = [
    "ON_CELLS",
    "USES_ALL_POINTS",
    "as_columns",
    "average_on_points",
    "cell_centres",
    "count_places",
    "have_same_cells",
    "listed",
    "mean_over_cells",
    "used_cells",
    "used_places",
    "used_points",
    "values_on_cells",
]

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
#: Key in the info of meshes from which meshio has omitted cells. The points of these must not count as unused.
USES_ALL_POINTS = "skop: left-out cells may use any point"
#: Key in the info of meshes whose samples consist of the centres of cells, instead of points.
ON_CELLS = "skop: samples are on cells"


# ---------------------------------------------------------------------- points and cells of a sample
def used_points(mesh: meshio.Mesh, where: str) -> IntArray | None:
    """Indices of the points that belong to cells, ascending, (U,); None for all points, or if there are no cells."""
    count = len(mesh.points)
    is_used = np.zeros(count, dtype=bool)
    for block in mesh.cells:
        _check_width(block, where)
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
    is_every = is_used.all() or not is_used.any() or USES_ALL_POINTS in (mesh.info or ())
    return None if is_every else np.flatnonzero(is_used)


def used_cells(mesh: meshio.Mesh, where: str) -> IntArray | None:
    """Indices of the cells that a sample on cells consists of, counted through all blocks, (U,); None for all cells.

    A cell all of whose points belong to cells of higher dimension, such as a line or a triangle on the boundary, does
    not count: it has no room of its own in which a field could be.
    """
    used_points(mesh, where)  # raises an error for cells that refer to points which do not exist
    is_used = [np.zeros(len(block), dtype=bool) for block in mesh.cells]
    if not sum(map(len, is_used)):
        raise FieldDataError(f"{where} has no cells, whose centres cell_data='cells' needs; use another cell_data.")
    is_covered = np.zeros(len(mesh.points), dtype=bool)
    for dimension in sorted({block.dim for block in mesh.cells}, reverse=True):
        chosen = [number for number, block in enumerate(mesh.cells) if block.dim == dimension]
        pairs = {number: _cells_and_nodes(mesh.cells[number]) for number in chosen}
        for number, (cells, nodes) in pairs.items():
            is_used[number][cells[~is_covered[nodes]]] = True
        for _, nodes in pairs.values():
            is_covered[nodes] = True
    joined = np.concatenate(is_used)
    return None if joined.all() else np.flatnonzero(joined)


def count_places(mesh: meshio.Mesh) -> int:
    """Number of cells of a mesh whose samples are on cells, and of points of another one."""
    return sum(map(len, mesh.cells)) if ON_CELLS in (mesh.info or ()) else len(mesh.points)


def used_places(mesh: meshio.Mesh, where: str) -> IntArray | None:
    """Indices of the cells or points that a sample consists of, (U,); None for all."""
    return used_cells(mesh, where) if ON_CELLS in (mesh.info or ()) else used_points(mesh, where)


def have_same_cells(mesh: meshio.Mesh, first: meshio.Mesh) -> bool:
    """Tell whether two meshes have the same cells; polyhedra, which are nested lists, never count as equal."""
    return len(mesh.cells) == len(first.cells) and all(
        a.type == b.type and isinstance(a.data, np.ndarray) and np.array_equal(a.data, b.data)
        for a, b in zip(mesh.cells, first.cells, strict=True)
    )


# ---------------------------------------------------------------------- data on cells
def as_columns(array: Any, what: str) -> FloatArray:
    """Convert data to native floats with one column for each component, (P, c); float32 is kept."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub" or array.ndim == 0 or 0 in array.shape[1:]:
        raise FieldDataError(f"{what} has dtype {array.dtype} and shape {array.shape}; expected numbers.")
    dtype = np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64
    return array.reshape(len(array), -1 if array.size else 1).astype(dtype, copy=False)


def values_on_cells(mesh: meshio.Mesh, name: str, where: str) -> list[FloatArray]:
    """Cell data of each block, (m, c)."""
    what = f"cell data {name!r} of {where}"
    data = [as_columns(part, what) for part in mesh.cell_data[name]]
    if [len(part) for part in data] != [len(block) for block in mesh.cells]:
        raise FieldDataError(f"{what} does not have one row for each cell.")
    if len({part.shape[1] for part in data}) != 1:
        problem = "has different numbers of components in different blocks of cells" if data else "is on no cells"
        raise FieldDataError(f"{what} {problem}.")
    return data


def cell_centres(mesh: meshio.Mesh) -> FloatArray:
    """Centres of the cells of all blocks, which are the means of their points, (C, D)."""
    return mean_over_cells(mesh, mesh.points)


def mean_over_cells(mesh: meshio.Mesh, values: FloatArray) -> FloatArray:
    """Mean of values (P, c) over the points of each cell, for the cells of all blocks, (C, c)."""
    dtype = np.result_type(values.dtype, np.float32) if values.dtype.kind == "f" else np.float64
    parts = [np.zeros((0, values.shape[1]), dtype)]
    for block in mesh.cells:
        cells, nodes = _cells_and_nodes(block)
        if not len(nodes):
            continue
        counts = np.bincount(cells, minlength=len(block))
        # A mean of differences is exact for a constant, so that a plane stays flat.
        first = values[nodes[np.cumsum(counts) - counts]].astype(float)
        columns = (values[nodes] - first[cells]).T
        means = np.stack([np.bincount(cells, column, minlength=len(block)) for column in columns], axis=1)
        parts.append((first + means / counts[:, None]).astype(dtype))
    return np.concatenate(parts)


def average_on_points(mesh: meshio.Mesh, name: str, where: str) -> FloatArray:
    """Average cell data to the points (P, c): the mean over the cells around a point, weighted by their size.

    The size of a cell is its length, area or volume, computed from its corners. If this is not possible for some cell
    (polyhedra, collapsed cells), all cells have the same weight. In meshes with cells of several dimensions, such as
    triangles and boundary lines, only the cells of the highest dimension at a point are averaged. Points that belong to
    no cell get NaN.
    """
    used_points(mesh, where)  # raises an error for cells that refer to points which do not exist
    data = values_on_cells(mesh, name, where)
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


def _check_width(block: meshio.CellBlock, where: str) -> None:
    """Raise an error if cells have fewer points than corners."""
    if not isinstance(block.data, np.ndarray) or not len(block.data):
        return
    least = 1 + max((corner for simplex in _simplices_of(block.type) or () for corner in simplex), default=0)
    if block.data.ndim != 2 or block.data.shape[1] < least:
        raise FieldDataError(
            f"cells of type {block.type!r} in {where} are an array of shape {block.data.shape}; expected at least "
            f"{least} points for each. The file may be truncated or damaged; write it again."
        )


def _simplices_of(kind: str) -> list[tuple[int, ...]] | None:
    """Simplices of the corners of a type of cells; None if they are not known."""
    family = re.match(r"[A-Za-z_]*", kind)
    return _SIMPLICES.get(family.group() if family else "")


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
    simplices = _simplices_of(block.type)
    if block.type == "polygon":
        simplices = [(0, i, i + 1) for i in range(1, block.data.shape[1] - 1)]
    if not simplices or not len(block):
        return np.zeros(len(block))
    corners = points[block.data[:, simplices]].astype(float)  # (m, s, k + 1, D)
    edges = corners[:, :, 1:] - corners[:, :, :1]
    # The Gram determinant gives the size of a simplex in a space of any dimension.
    gram = np.linalg.det(edges @ np.swapaxes(edges, -1, -2))
    return np.sqrt(np.maximum(gram, 0)).sum(axis=1) / factorial(edges.shape[2])


def listed(data: Mapping[str, Any]) -> str:
    """Names in words."""
    return ", ".join(repr(name) for name in data) or "none"
