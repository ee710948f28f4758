"""Lists of meshes, paths and patterns; reading of mesh files."""

import difflib
import glob
import io
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import meshio
import numpy as np

from skop._files import write_in_one_step
from skop._optional import import_optional
from skop.data._file_guards import check_gmsh_tags, check_hdf5, check_regular_file, check_xml, is_hdf5, matches_of
from skop.data._mesh_cells import USES_ALL_POINTS
from skop.data._pyvista import convert_dataset, find_time_steps, is_vtk_object, read_by_vtk
from skop.data._vtu import read_vtu
from skop.data._wkt import read_wkt
from skop.data._xdmf import read_xdmf
from skop.exceptions import FieldDataError, OptionalDependencyError, warn

__all__ = [
    "MESH_SETS",
    "existing_file",
    "find_sources",
    "is_mesh_input",
    "is_on_mesh",
    "is_path",
    "is_time_series",
    "iterate_meshes",
    "named_failures",
    "natural_key",
    "nearby",
    "write_mesh",
]

#: What meshes hold by name besides data.
MESH_SETS = ("point_sets", "cell_sets", "field_data")
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
#: Endings of XML files.
_XML = {
    *(".vtu", ".vtp", ".vti", ".vtr", ".vts", ".vtm", ".vtmb", ".pvtu", ".pvtp", ".pvti", ".pvtr", ".pvts"),
    *(".pvd", ".xdmf", ".xmf", ".xml", ".svg"),
}
#: Number of empty reads at the end of a file after which it is considered truncated.
_READS_PAST_END = 100
#: Endings of VTK formats that meshio (5.3) does not read.
_READ_BY_VTK = {
    *(".vtp", ".vti", ".vtr", ".vts", ".vtm", ".vtmb", ".vtkhdf"),
    *(".pvtu", ".pvtp", ".pvti", ".pvtr", ".pvts"),
}
#: Endings of files of ParaView that list the files of a time series.
_COLLECTIONS = {".pvd", ".series"}
#: Endings of meshes that are written beside and renamed; others, such as .xdmf, may be several files.
_WRITTEN_BESIDE = {".vtu", ".vtk"}
#: Text of the warning of meshio (5.3) about cells that it omits. The points of these cells must not count as unused.
_LEFT_OUT_CELLS = "cells that meshio cannot handle"


def is_mesh_input(X: Any) -> bool:
    """Tell whether X is meshes, or paths of mesh files.

    Parameters
    ----------
    X : object
        Argument of a caller.

    Returns
    -------
    bool
        True for a mesh of meshio or pyvista, a path or pattern, and a list that contains one of these. Also for
        iterators and `MeshSeries`, which `read_meshes` refuses with an explanation.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data._mesh_files import is_mesh_input
    >>> is_mesh_input("runs/*.vtu"), is_mesh_input(["a.vtk", "b.vtk"]), is_mesh_input(np.zeros((3, 2)))
    (True, True, False)
    """
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and X.dtype.kind in "OU" and is_mesh_input(list(X))
    if isinstance(X, list | tuple):
        return any(_is_one(item) for item in X)
    return _is_one(X) or isinstance(X, Iterator)


def is_on_mesh(y: Any) -> bool:
    """Tell whether y is ``(mesh, values)``."""
    return isinstance(y, tuple) and len(y) == 2 and is_mesh_input([y[0]]) and not is_mesh_input([y[1]])


def is_path(source: Any) -> bool:
    """Tell whether meshes came as a path or a pattern; a number as text is neither, unless a folder has this name."""
    if not isinstance(source, str):
        return isinstance(source, os.PathLike)
    try:
        float(source)
    except ValueError:
        return True
    return os.path.exists(source)


# ---------------------------------------------------------------------- lists of meshes and files
def _is_one(item: Any) -> bool:
    """Tell whether an item is a mesh, a path, or a time series of meshes, which `find_sources` refuses."""
    return _is_mesh(item) or is_path(item) or _is_series(item)


def _is_series(item: Any) -> bool:
    """Tell whether an item is a `MeshSeries`, whose module imports this one."""
    return type(item).__name__ == "MeshSeries"


def _is_mesh(item: Any) -> bool:
    """Tell whether an item is a mesh of meshio, pyvista or VTK."""
    return isinstance(item, meshio.Mesh) or is_vtk_object(item)


def find_sources(source: Any) -> list[tuple[str, Any]]:
    """List the meshes or files of a source, each with its name for messages."""
    if isinstance(source, np.ndarray) and source.ndim == 1:
        source = list(source)
    if _is_series(source) or (isinstance(source, list | tuple) and any(_is_series(item) for item in source)):
        raise FieldDataError(
            "meshes came as MeshSeries, but each mesh has to be one sample here; use RolloutRegressor or "
            "TimeConditionedRegressor, or pass the list in its attribute meshes."
        )
    if _is_mesh(source):
        return [("mesh 0", source)]
    if is_path(source):
        return [(str(path), path) for path in _matching_files(os.path.expanduser(source))]
    if isinstance(source, Iterator):
        raise FieldDataError(
            f"data came as a {type(source).__name__}, whose order is not known; pass an array, or for meshes a pattern "
            "as text, such as 'runs/*.vtu', or a sorted list."
        )
    if not isinstance(source, list | tuple):
        raise FieldDataError(
            f"meshes came as {type(source).__name__}; expected meshes of meshio or pyvista, paths or a pattern."
        )
    return _list_sources(source)


def _list_sources(items: list[Any] | tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return the items of a list of meshes or paths with their names."""
    if not items:
        raise FieldDataError("the list of meshes is empty; at least one is required.")
    strangers = [f"item {i} is a {type(item).__name__}" for i, item in enumerate(items) if not _is_one(item)]
    if strangers:
        raise FieldDataError(f"{strangers[0]}; expected meshes of meshio or pyvista only, or paths only.")
    are_meshes = [_is_mesh(item) for item in items]
    if all(are_meshes):
        return [(f"mesh {i}", item) for i, item in enumerate(items)]
    if any(are_meshes):
        raise FieldDataError(
            f"item 0 is a {type(items[0]).__name__}, item {are_meshes.index(not are_meshes[0])} is not: a list holds "
            "meshes only, or paths only; read the files with meshio.read first."
        )
    paths = [existing_file(Path(os.path.expanduser(item))) for item in items]
    return [(str(path), path) for path in paths]


# ---------------------------------------------------------------------- paths and patterns
def _matching_files(pattern: str) -> list[Path]:
    """Files that match a path or a pattern, in natural order."""
    # If a file with exactly this name exists, brackets in the name are no pattern.
    if os.path.exists(pattern) or not glob.has_magic(pattern):
        return [existing_file(Path(pattern))]
    found = matches_of(pattern)
    if not found:
        raise FieldDataError(f"no file matches {pattern!r}; {nearby(Path(pattern))}.")
    return [Path(name) for name in sorted(found, key=natural_key)]


def natural_key(name: str) -> list[Any]:
    """Sort key that compares digits in names as numbers."""
    parts = re.split(r"(\d+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)] + [name]


def existing_file(path: Path) -> Path:
    """Return the path of a file; raise an error if it is a folder or does not exist."""
    if path.is_dir():
        endings = [item.suffix for item in path.iterdir() if item.suffix]
        ending = max(endings, key=endings.count, default=".vtu")
        raise FieldDataError(f"{str(path)!r} is a folder; pass a pattern, such as {str(path / ('*' + ending))!r}.")
    if not path.exists():
        raise FieldDataError(f"there is no file {str(path)!r}; {nearby(path)}.")
    # Before anything else is read from it.
    check_regular_file(path)
    return path


def nearby(path: Path) -> str:
    """Describe the contents of the folder of a path, for error messages."""
    folder = path.parent
    if glob.has_magic(str(folder)):
        return "no folder that the pattern names holds such files"
    if not folder.is_dir():
        return f"the folder {str(folder)!r} does not exist"
    names = sorted((item.name for item in folder.iterdir() if item.is_file()), key=natural_key)
    if not names:
        return f"the folder {str(folder)!r} holds no files"
    nearest = difflib.get_close_matches(path.name, names, n=_SHOWN_NAMES, cutoff=0.3) or names[:_SHOWN_NAMES]
    return f"the folder {str(folder)!r} holds {len(names)} files, such as {', '.join(nearest)}"


# ---------------------------------------------------------------------- reading of files
def iterate_meshes(sources: list[tuple[str, Any]]) -> Iterator[tuple[str, meshio.Mesh]]:
    """Read the meshes one at a time, with their names."""
    for name, item in sources:
        if isinstance(item, meshio.Mesh):
            yield name, item
        elif is_vtk_object(item):
            yield name, convert_dataset(item, name)
        else:
            yield name, item() if callable(item) else _read_file(item)


def _read_file(path: Path) -> meshio.Mesh:
    """Read one file."""
    _refuse_unread_formats(path)
    mesh, said = named_failures(path, lambda: _parse(path))
    if said:
        warn(f"while reading {path}: {said}")
    if _LEFT_OUT_CELLS in said:
        mesh.info = {USES_ALL_POINTS: True}
    return mesh


def named_failures(path: Path, read: Callable[[], Any]) -> tuple[Any, str]:
    """Read a file; any failure is turned into an error that names the file.

    Parameters
    ----------
    path : Path
        File.
    read : callable
        Function that reads the file.

    Returns
    -------
    object
        What the function has returned.
    str
        What it has printed, in one line.

    Raises
    ------
    FieldDataError
        If the file is empty or cannot be read.
    OptionalDependencyError
        If a package is missing.
    """
    check_regular_file(path)
    if path.stat().st_size == 0:
        raise FieldDataError(f"cannot read {path}: the file is empty; remove it or write it again.")
    said = io.StringIO()
    try:
        # Readers warn of numbers that overflow by NumPy's settings, which each thread has of its own.
        with _messages_to(said), np.errstate(all="ignore"):
            return read(), _one_line(said.getvalue())
    except ModuleNotFoundError as error:
        raise OptionalDependencyError(
            f"{error.name} is needed to read {path}, but it is not installed. Install it with: pip install {error.name}"
        ) from error
    except (FieldDataError, OptionalDependencyError):
        raise
    except (Exception, SystemExit) as error:  # some readers of meshio exit
        reason = _one_line(said.getvalue()) or ": ".join(filter(None, (type(error).__name__, _one_line(str(error)))))
        raise FieldDataError(
            f"cannot read {path} ({path.stat().st_size} bytes): {reason}. The file may be truncated or damaged, or "
            "have contents that its reader does not know; write it again, as .vtu, .vtk or .xdmf, or remove it."
        ) from error


#: Text that takes the messages of meshio in a thread that reads.
_reading = threading.local()
_Console = meshio._common.Console


def _console(**options: Any) -> Any:
    """Console for a message of meshio: standard error, or the text of the thread that reads."""
    said = getattr(_reading, "said", None)
    return _Console(**options) if said is None else _Console(file=said)


# Meshio prints. To redirect the standard streams would take the output of other threads, too, and two threads that do
# so at once leave them redirected.
meshio._common.Console = _console


@contextmanager
def _messages_to(said: io.StringIO) -> Iterator[None]:
    """Keep what meshio says in this thread."""
    outer = getattr(_reading, "said", None)
    _reading.said = said
    try:
        yield
    finally:
        _reading.said = outer


def write_mesh(mesh: meshio.Mesh, path: Path) -> None:
    """Write a mesh without what meshio prints, such as that sets become cell data; .vtu and .vtk in one step.

    Parameters
    ----------
    mesh : meshio.Mesh
        Mesh.
    path : Path
        File, whose ending is that of its format.
    """
    with _messages_to(io.StringIO()):
        if path.suffix.lower() in _WRITTEN_BESIDE:
            write_in_one_step(path, mesh.write)
        else:
            mesh.write(path)


def _refuse_unread_formats(path: Path) -> None:
    """Raise an error for formats without a reader."""
    known = meshio.extension_to_filetypes.keys() | _READ_BY_VTK | _COLLECTIONS
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not any("".join(suffixes[start:]) in known for start in range(len(suffixes))):
        raise FieldDataError(
            f"cannot read {path}: there is no reader for files that end in {path.suffix.lower()!r}. Write it as .vtu, "
            ".vtk or .xdmf, or leave it out."
        )


def _parse(path: Path) -> meshio.Mesh:
    """Read a file by meshio, such that its readers cannot wait for ever at the end of a truncated file, or by VTK."""
    ending = path.suffix.lower()
    _check_contents(path)
    if ending in _READ_BY_VTK or _needs_vtk(path):
        return read_by_vtk(path)
    if ending == ".vtu":
        return read_vtu(path)
    if ending == ".wkt":
        return read_wkt(path)
    if is_time_series(path):
        raise FieldDataError(
            f"cannot read {path}: it is a time series, but each file has to be one sample here; write one file for "
            "each time step, or use RolloutRegressor or TimeConditionedRegressor, which read time series."
        )
    if ending in (".xdmf", ".xmf"):
        return read_xdmf(path)
    if ending == ".avs" or (ending == ".inp" and _is_avs(path)):
        return _read_avs(path)
    if ending not in _WAITING_READERS:
        return _read_by_name(path)
    with open(path, "rb") as file:
        is_gmsh = file.read(1) == b"$"
    if is_gmsh:
        check_gmsh_tags(path)
        return meshio.gmsh.read(str(path))
    file_format, is_binary = _WAITING_READERS[ending]
    with open(path, "rb" if is_binary else "r") as file:
        return meshio.read(_EndingFile(file), file_format=file_format)


def _check_contents(path: Path) -> None:
    """Raise an error for contents that would lead a reader out of the file, or let it wait or grow for ever."""
    if is_hdf5(path):
        h5py = import_optional("h5py", purpose=f"read {path.name}, an HDF5 file")
        with h5py.File(path, "r") as opened:
            check_hdf5(opened, path)
        return
    ending = path.suffix.lower()
    if ending in (".ele", ".node"):
        # meshio (5.3) looks for the first number behind the end of files that hold none.
        for part in (path.with_suffix(".node"), path.with_suffix(".ele")):
            existing_file(part)
            with part.open(errors="replace") as lines:
                if not any(line.strip() and not line.startswith("#") for line in map(str.strip, lines)):
                    raise FieldDataError(
                        f"cannot read {path}: {part.name} holds no numbers; TetGen meshes need nodes and tetrahedra."
                    )
    if ending in _XML:
        check_xml(path)


def _is_avs(path: Path) -> bool:
    """Tell whether an .inp file is one of AVS: it begins with five numbers, and those of Abaqus with a keyword."""
    with open(path, errors="replace") as file:
        first = next((line for line in file if line.strip() and not line.startswith("#")), "")
    return re.fullmatch(r"\s*(\d+\s+){4}\d+\s*", first[:200]) is not None


def _read_avs(path: Path) -> meshio.Mesh:
    """Read a file of AVS; meshio (5.3) replaces blanks in names, and keeps only the last of fields with one name."""
    mesh = meshio.avsucd.read(str(path))
    with open(path) as file:
        head = next(line for line in file if line.strip() and not line.startswith("#")).split()
    cell_data = {name: blocks[0] for name, blocks in mesh.cell_data.items() if name != "avsucd:material" and blocks}
    for kind, stated, data in (("points", head[2], mesh.point_data), ("cells", head[3], cell_data)):
        held = sum(1 if values.ndim == 1 else values.shape[1] for values in data.values())
        if held != int(stated):
            raise FieldDataError(
                f"cannot read {path}: it states {stated} components of fields on {kind}, but {held} are left under the "
                f"names {', '.join(map(repr, data))}, since several fields have one name when blanks are replaced and "
                "what follows a comma is left out; rename them."
            )
    return mesh


def _read_by_name(path: Path) -> meshio.Mesh:
    """Read a file by the readers that meshio has for its ending; `meshio.read` prints and exits where they fail."""
    endings = ["".join(path.suffixes[start:]).lower() for start in reversed(range(len(path.suffixes)))]
    formats = [name for ending in endings for name in meshio.extension_to_filetypes.get(ending, ())]
    failures = []
    for name in formats:
        if (read := meshio._helpers.reader_map.get(name)) is None:
            raise meshio.ReadError(f"meshio only writes {name}")
        try:
            return read(str(path))
        except meshio.ReadError as error:
            failures.append(_one_line(str(error)))
    raise meshio.ReadError(". ".join([*filter(None, failures), f"it is no {' or '.join(formats)} file"]))


def _needs_vtk(path: Path) -> bool:
    """Tell whether a .vtu or .vtk file has contents that only VTK reads: LZ4 compression, or polygonal data."""
    mark = {".vtu": rb"<VTKFile\b[^>]*vtkLZ4DataCompressor", ".vtk": rb"(?m)^DATASET\s+POLYDATA"}.get(
        path.suffix.lower()
    )
    if mark is None:
        return False
    with open(path, "rb") as file:
        return re.search(mark, file.read(4096)) is not None


def is_time_series(path: Path) -> bool:
    """Tell whether a file is a ParaView collection or file series, or an XDMF or VTKHDF file with several time steps.

    Parameters
    ----------
    path : Path
        Existing file.

    Returns
    -------
    bool
        Whether `read_mesh_series` reads this file.
    """
    ending = path.suffix.lower()
    if ending in (".vtkhdf", ".xdmf", ".xmf", ".pvd"):
        _check_contents(path)
    if ending == ".vtkhdf":
        return len(named_failures(path, lambda: find_time_steps(path))[0]) > 1
    if ending not in (".xdmf", ".xmf"):
        return ending in _COLLECTIONS
    return re.search(rb"CollectionType\s*=\s*[\"']Temporal", path.read_bytes()) is not None


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
