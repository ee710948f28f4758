"""Meshes of VTK and pyvista: conversion to meshio, and files that only VTK reads."""

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import meshio
import numpy as np

from skop._optional import import_optional
from skop.data._file_guards import check_vtk
from skop.data._vtu import check_lists, read_vtu
from skop.exceptions import FieldDataError, warn

__all__ = ["convert_dataset", "find_time_steps", "is_vtk_object", "read_by_vtk"]

#: VTK's numbers of the axis-aligned cell types, those of the general types, and the order of their corners.
_AXIS_ALIGNED = {8: (9, [0, 1, 3, 2]), 11: (12, [0, 1, 3, 2, 4, 5, 7, 6])}
#: VTK's numbers of cell types that meshio does not have.
_UNKNOWN = {2: "poly-vertex", 4: "poly-line", 6: "triangle strip"}


def is_vtk_object(item: Any) -> bool:
    """Tell whether an object is data of VTK or pyvista, without importing either.

    Parameters
    ----------
    item : object
        Any object.

    Returns
    -------
    bool
        True for data sets, multi-block data and other data objects of VTK.
    """
    return any(base.__name__ == "vtkDataObject" for base in type(item).__mro__)


def read_by_vtk(path: Path, step: int | None = None) -> meshio.Mesh:
    """Read a file by pyvista, which uses the readers of VTK.

    Parameters
    ----------
    path : Path
        File in one of VTK's formats.
    step : int or None, default=None
        Number of the time step; None for a file that has no more than one.

    Returns
    -------
    meshio.Mesh
        All blocks and pieces as one mesh.

    Raises
    ------
    FieldDataError
        If the file holds several time steps and none is named, holds data without points, or states sizes that it
        cannot hold.
    OptionalDependencyError
        If pyvista is not installed. If VTK cannot read the file, a ValueError is raised.
    """
    pyvista = import_optional("pyvista", purpose=f"read {path}")
    if path.suffix.lower() not in (".vtk", ".vtkhdf"):
        # What is compressed by LZ4 is decompressed by VTK, which reports damage.
        with _quiet(pyvista):
            check_vtk(path)
    if step is None and (n_steps := len(find_time_steps(path))) > 1:
        raise FieldDataError(
            f"cannot read {path}: it is a time series of {n_steps} steps, but each file has to be one sample here; "
            "write one file for each time step, or use RolloutRegressor or TimeConditionedRegressor, which read time "
            "series."
        )

    def read() -> Any:
        """Read the file, or one step of it."""
        reader = pyvista.get_reader(str(path))
        if step is not None:
            reader.reader.SetStep(step)
        return reader.read()

    return convert_dataset(_call_quietly(pyvista, read), str(path))


def find_time_steps(path: Path) -> list[float]:
    """Return the times of a file in the format VTKHDF.

    Parameters
    ----------
    path : Path
        File in one of VTK's formats.

    Returns
    -------
    list of float
        Times; empty for a file without time steps, and for all other formats.
    """
    if path.suffix.lower() != ".vtkhdf":
        return []
    pyvista = import_optional("pyvista", purpose=f"read {path}")
    pipeline = import_optional(
        "vtkmodules.vtkCommonExecutionModel", purpose=f"read {path}"
    ).vtkStreamingDemandDrivenPipeline

    def read() -> list[float]:
        """Read the times alone."""
        reader = pyvista.get_reader(str(path)).reader
        reader.UpdateInformation()
        return [float(time) for time in reader.GetOutputInformation(0).Get(pipeline.TIME_STEPS()) or ()]

    times: list[float] = _call_quietly(pyvista, read)
    return times


def _call_quietly(pyvista: Any, read: Callable[[], Any]) -> Any:
    """Call a function that reads by VTK; errors that VTK reports become a ValueError, instead of being printed."""
    failure: Exception | None = None
    found = None
    with _quiet(pyvista) as events:
        try:
            found = read()
        except Exception as error:
            failure = error
    if events or failure is not None:
        raise ValueError(f"VTK says {events[0] if events else failure}") from failure
    return found


def convert_dataset(data: Any, where: str) -> meshio.Mesh:
    """Convert data of VTK or pyvista to a mesh of meshio.

    Pixels and voxels become quadrilaterals and hexahedra. Blocks of multi-block data are joined, with the fields that
    all blocks have; points that several blocks share are not merged.

    Parameters
    ----------
    data : pyvista.DataSet, pyvista.MultiBlock, or an object of VTK
        Mesh.
    where : str
        Name of the mesh for messages.

    Returns
    -------
    meshio.Mesh
        Points, cells and data, in the order of VTK.

    Raises
    ------
    FieldDataError
        If the data are no mesh or have no points, or a cell type is not known.
    """
    pyvista = import_optional("pyvista", purpose=f"convert {where}, which is data of VTK")
    data = pyvista.wrap(data)
    if isinstance(data, pyvista.MultiBlock):
        data = _joined(pyvista, data, where)
    if not isinstance(data, pyvista.DataSet):
        raise FieldDataError(f"{where} is a {type(data).__name__} of VTK; expected a mesh.")
    if not data.n_points:
        raise FieldDataError(f"{where} has no points; remove it.")
    _check_cells(pyvista, data, where)
    grid = _with_general_cells(pyvista, data.cast_to_unstructured_grid())
    unknown = sorted({_UNKNOWN[number] for number in set(np.unique(grid.celltypes).tolist()) & set(_UNKNOWN)})
    if unknown:
        raise FieldDataError(
            f"{where} has cells of type {', '.join(unknown)}, which have no counterpart in meshio; convert it by the "
            "method triangulate() of pyvista, or split such cells."
        )
    grid.clear_field_data()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "converted.vtu"
        grid.save(path)
        return read_vtu(path)


def _joined(pyvista: Any, blocks: Any, where: str) -> Any:
    """Join the blocks of multi-block data to one grid."""
    parts = [block for block in _leaves(pyvista, blocks) if block.n_points]
    if not parts:
        raise FieldDataError(f"{where} has no block with points; remove it.")
    for block in parts:
        _check_cells(pyvista, block, where)
    parts = [block.copy(deep=False) for block in parts]
    for kind in ("point_data", "cell_data"):
        names = [set(getattr(block, kind).keys()) for block in parts]
        for name in set.intersection(*names):
            # VTK leaves out arrays that are of different types in different blocks.
            arrays = [getattr(block, kind)[name] for block in parts]
            if len({array.dtype for array in arrays}) > 1 and all(array.dtype.kind in "fiu" for array in arrays):
                for block, array in zip(parts, arrays, strict=True):
                    getattr(block, kind)[name] = np.asarray(array, dtype=np.float64)
    whole = pyvista.MultiBlock(parts).combine(merge_points=False)
    held = {name for block in parts for name in block.array_names}
    if partial := sorted(held - set(whole.array_names)):
        warn(
            f"{where} has {len(parts)} blocks, of which some do not have the fields {', '.join(partial)}; these are "
            "left out. Pass one block, or add them to all."
        )
    return whole


def _leaves(pyvista: Any, blocks: Any) -> Iterator[Any]:
    """Iterate over the data sets of nested blocks."""
    for block in blocks:
        if isinstance(block, pyvista.MultiBlock):
            yield from _leaves(pyvista, block)
        elif block is not None:
            yield block


def _check_cells(pyvista: Any, data: Any, where: str) -> None:
    """Raise an error if cells end beyond their nodes or name points that are not there: VTK does not look."""
    # Polyhedra have cells of faces, and a list of these; early versions of VTK have neither.
    of_points = ("GetCells", "GetVerts", "GetLines", "GetPolys", "GetStrips", "GetPolyhedronFaces")
    faces = _cell_array(data, "GetPolyhedronFaces")
    n_faces = 0 if faces is None else faces.GetNumberOfCells()
    for name, count, kind in (
        *((name, data.n_points, "point") for name in of_points),
        ("GetPolyhedronFaceLocations", n_faces, "face"),
    ):
        cells = _cell_array(data, name)
        if cells is None:
            continue
        ends, nodes = (
            np.asarray(pyvista.convert_array(array))
            for array in (cells.GetOffsetsArray(), cells.GetConnectivityArray())
        )
        check_lists(nodes, ends, count, kind, where)


def _cell_array(data: Any, name: str) -> Any:
    """Cells of one kind in data of VTK, or None where there are none of this kind."""
    # Grids without lists of cells have a method GetCells, too, which makes such a list.
    is_explicit = data.IsA("vtkUnstructuredGrid") or data.IsA("vtkPolyData")
    return getattr(data, name)() if is_explicit and hasattr(data, name) else None


def _with_general_cells(pyvista: Any, grid: Any) -> Any:
    """Replace pixels and voxels by quadrilaterals and hexahedra."""
    types = np.array(grid.celltypes)
    chosen = {number: np.flatnonzero(types == number) for number in _AXIS_ALIGNED}
    if not any(map(len, chosen.values())):
        return grid
    # Early versions of pyvista have another name for it.
    offsets = np.array(grid.cell_offsets if hasattr(grid, "cell_offsets") else grid.offset)
    cells, starts = np.array(grid.cells), offsets[:-1] + np.arange(1, len(types) + 1)
    for number, (general, order) in _AXIS_ALIGNED.items():
        rows = starts[chosen[number]][:, None]
        cells[rows + np.arange(len(order))] = cells[rows + order]
        types[chosen[number]] = general
    new = pyvista.UnstructuredGrid(cells, types, np.array(grid.points))
    for kind in ("point_data", "cell_data"):
        for name, values in getattr(grid, kind).items():
            getattr(new, kind)[name] = values
    return new


@contextlib.contextmanager
def _quiet(pyvista: Any) -> Iterator[list[Any]]:
    """Collect the errors that VTK reports, instead of printing them."""
    events: list[Any] = []
    logger = logging.getLogger()
    logger.addFilter(_is_not_of_pyvista)
    with (
        contextlib.ExitStack() as stack,
        warnings.catch_warnings(),
        pyvista.vtk_verbosity("off"),
        pyvista.VtkErrorCatcher(send_to_logging=False) as catcher,
    ):
        stack.callback(logger.removeFilter, _is_not_of_pyvista)
        warnings.simplefilter("ignore")
        yield events
        events += [getattr(event, "alert", event) for event in catcher.events]


def _is_not_of_pyvista(record: logging.LogRecord) -> bool:
    """Tell whether a message in the log comes from elsewhere."""
    return "pyvista" not in Path(record.pathname).parts
