"""Find and read mesh files, and say clearly what is wrong with those that cannot be read."""

import contextlib
import difflib
import glob
import io
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import meshio
import numpy as np

from skop.exceptions import FieldDataError, OptionalDependencyError, SkopWarning

__all__ = ["find_sources", "is_mesh_input", "iterate_meshes"]

#: File names shown in an error message.
_SHOWN_NAMES = 3
#: Formats whose readers in meshio (5.3) wait for ever on files that were cut off, and whether they are read as bytes.
_WAITING_READERS = {
    ".ply": ("ply", True),
    ".off": ("off", False),
    ".msh": ("ansys", True),
    ".mdpa": ("mdpa", True),
    ".dat": ("tecplot", False),
    ".tec": ("tecplot", False),
}
#: Empty reads at the end of a file before it counts as cut off.
_READS_PAST_END = 100


def is_mesh_input(X: Any) -> bool:
    """Tell whether X names or holds meshes.

    Parameters
    ----------
    X : object
        What a caller passed.

    Returns
    -------
    bool
        True for a `meshio.Mesh`, a path or glob, a list with one of these in it, and for iterators, which
        `read_meshes` refuses with a hint.

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


def _is_one(item: Any) -> bool:
    """Tell whether an item is a mesh or a path."""
    return isinstance(item, meshio.Mesh | str | os.PathLike)


def find_sources(source: Any) -> list[tuple[str, Any]]:
    """List the meshes of a source, each with the name that messages give it.

    Parameters
    ----------
    source : meshio.Mesh, str, Path or list of these
        Meshes, paths in the order wanted, or a glob, whose files are sorted so that run_2 comes before run_10.

    Returns
    -------
    list of (str, meshio.Mesh or Path)
        Name and mesh, or name and file.

    Raises
    ------
    FieldDataError
        If there are none, a file does not exist, or the kinds are mixed.
    """
    if isinstance(source, np.ndarray) and source.ndim == 1:
        source = list(source)
    if isinstance(source, meshio.Mesh):
        return [("mesh 0", source)]
    if isinstance(source, str | os.PathLike):
        return [(str(path), path) for path in _matching_files(os.path.expanduser(source))]
    if isinstance(source, Iterator):
        raise FieldDataError(
            f"meshes came as a {type(source).__name__}, whose order is not known; pass a glob as text, such as "
            "'runs/*.vtu', or a sorted list."
        )
    if not isinstance(source, list | tuple):
        raise FieldDataError(f"meshes came as {type(source).__name__}; expected meshio.Mesh objects, paths or a glob.")
    return _list_sources(source)


def _list_sources(items: list[Any] | tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Name the items of a list of meshes or of a list of paths."""
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


# ---------------------------------------------------------------------- files
def _matching_files(pattern: str) -> list[Path]:
    """Files that a path or a glob names, in natural order."""
    # A file whose own name has brackets in it is meant literally.
    if os.path.exists(pattern) or not glob.has_magic(pattern):
        return [_existing_file(Path(pattern))]
    found = [match for match in glob.glob(pattern, recursive=True) if os.path.isfile(match)]
    if not found:
        raise FieldDataError(f"no file matches {pattern!r}; {_nearby(Path(pattern))}.")
    return [Path(name) for name in sorted(found, key=_natural_key)]


def _natural_key(name: str) -> list[Any]:
    """Sort key that compares runs of digits as numbers."""
    parts = re.split(r"(\d+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)] + [name]


def _existing_file(path: Path) -> Path:
    """Return the path of a file, or say what lies there instead."""
    if path.is_dir():
        endings = [item.suffix for item in path.iterdir() if item.suffix]
        ending = max(endings, key=endings.count, default=".vtu")
        raise FieldDataError(f"{str(path)!r} is a folder; pass a glob instead, such as {str(path / ('*' + ending))!r}.")
    if not path.exists():
        raise FieldDataError(f"there is no file {str(path)!r}; {_nearby(path)}.")
    return path


def _nearby(path: Path) -> str:
    """Words for what the folder of a path holds."""
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


# ---------------------------------------------------------------------- reading
def iterate_meshes(sources: list[tuple[str, Any]]) -> Iterator[tuple[str, meshio.Mesh]]:
    """Read meshes one at a time.

    Parameters
    ----------
    sources : list of (str, meshio.Mesh or Path)
        From `find_sources`.

    Yields
    ------
    tuple of (str, meshio.Mesh)
        Name and mesh.

    Raises
    ------
    FieldDataError
        If a file cannot be read.
    OptionalDependencyError
        If reading its format needs a package that is not installed.
    """
    for name, item in sources:
        yield name, item if isinstance(item, meshio.Mesh) else _read_file(item)


def _read_file(path: Path) -> meshio.Mesh:
    """Read one file; whatever goes wrong inside meshio becomes one error that names the file."""
    if path.stat().st_size == 0:
        raise FieldDataError(f"cannot read {path}: the file is empty; remove it or write it again.")
    said = io.StringIO()
    try:
        # meshio prints what it could not read, then leaves with SystemExit.
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            mesh = _parse(path)
    except ModuleNotFoundError as error:
        raise OptionalDependencyError(
            f"{error.name} is needed to read {path}, but it is not installed. Install it with: pip install {error.name}"
        ) from error
    except (Exception, SystemExit) as error:
        reason = _one_line(said.getvalue()) or f"{type(error).__name__}: {_one_line(str(error))}"
        raise FieldDataError(
            f"cannot read {path} ({path.stat().st_size} bytes): {reason}. The file may be cut off or damaged, or of a "
            "kind that meshio does not read; write it as .vtu, .vtk or .xdmf, or remove it."
        ) from error
    if message := _one_line(said.getvalue()):
        warnings.warn(f"while reading mesh files: {message}", SkopWarning, stacklevel=2)
    return mesh


def _parse(path: Path) -> meshio.Mesh:
    """Let meshio read a file, with an end that its readers notice."""
    if path.suffix.lower() not in _WAITING_READERS:
        return meshio.read(path)
    with open(path, "rb") as file:
        is_gmsh = file.read(1) == b"$"
    if is_gmsh:
        return meshio.read(path, file_format="gmsh")
    file_format, is_binary = _WAITING_READERS[path.suffix.lower()]
    with open(path, "rb" if is_binary else "r") as file:
        return meshio.read(_EndingFile(file), file_format=file_format)


class _EndingFile:
    """A file that raises EOFError when it is read past its end again and again."""

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
    """Text on one line, shortened, without a full stop at its end."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= limit else line[:limit] + " ..."
