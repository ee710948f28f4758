"""Checks of files before they are read: what is no data file, and what would take its reader down or elsewhere.

Mesh files and data sets come from other people. scipy (1.17) ends the process on types of numbers that MATLAB does not
have, and VTK (9.7) on extents that descend and where the stated sizes do not fit the memory; readers of meshio (5.3)
wait for ever on FIFOs, allocate as much as the largest number of a node says, and open every file that an XDMF file
names; HDF5 follows links out of a file. Each check reads only as much as it needs.
"""

from __future__ import annotations

import contextlib
import glob
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, NoReturn
from xml.parsers import expat

import numpy as np

from skop._optional import import_optional
from skop.data._vtu import ALWAYS_FINE, MOST_COMPRESSED, check_arrays
from skop.exceptions import FieldDataError, warn

__all__ = [
    "LFS_START",
    "check_gmsh_tags",
    "check_hdf5",
    "check_hdf5_link",
    "check_matlab",
    "check_npz",
    "check_regular_file",
    "check_vtk",
    "check_xml",
    "file_beside",
    "free_memory",
    "hdf5_array",
    "is_hdf5",
    "matches_of",
]

#: Beginning of the text file that Git leaves in place of a file that is stored elsewhere.
LFS_START = b"version https://git-lfs"
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
#: Number of a node of Gmsh up to which an array of this length is no burden, and beyond which it must be explained by
#: the size of the file.
_FINE_TAG = 2**24
#: The same as `MOST_COMPRESSED` where nothing is compressed, as for single digits as text; and the bytes that a point
#: takes whose coordinates are not in the file.
_MOST_IMPLIED, _IMPLICIT_POINT = 8, 8
#: Bytes of a row in a table of blocks.
_BLOCK = 64
#: Files that may name each other: blocks, the pieces of a block, and a piece.
_DEEPEST_FILES = 3
#: Sections of a VTK file whose arrays have an entry for each point, and for each cell; names of numbers of cells.
_OF_POINTS, _OF_CELLS = ("Points", "PPoints", "PointData", "PPointData"), ("CellData", "PCellData")
_CELL_COUNTS = ("NumberOfCells", "NumberOfVerts", "NumberOfLines", "NumberOfStrips", "NumberOfPolys")
#: Bytes of an XML file that are parsed at once.
_CHUNK = 2**20
#: Bytes of the header of a MATLAB file of version 5, and its types of elements: numbers and text, arrays, compressed.
_MATLAB_HEADER = 128
_MATLAB_DATA, _MATLAB_ARRAY, _MATLAB_COMPRESSED = frozenset((1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18)), 14, 15
_MATLAB_TEXT = frozenset((1, 2, 4, 16, 17, 18))
#: Classes of MATLAB arrays: cells, structures and objects, text, sparse arrays, numbers, functions, newer objects.
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _NUMBERS, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, range(6, 16), 16, 17
#: Depth of arrays inside arrays, or of links to links, beyond which a file is refused, and the most parts of one.
_DEEPEST, _MOST_PARTS = 50, 10**6


def check_regular_file(path: Path) -> None:
    """Raise an error for what is no file of data: a FIFO, a device, or a pointer of Git LFS.

    Parameters
    ----------
    path : Path
        Existing path.

    Raises
    ------
    FieldDataError
        If a reader would wait for ever, or finds a pointer in place of the data.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise FieldDataError(
            f"cannot read {path}: it is no regular file, but a pipe, a device or a socket; copy the data to a file."
        )
    with path.open("rb") as file:
        if file.read(len(LFS_START)) == LFS_START:
            raise FieldDataError(
                f"cannot read {path}: it is a pointer of Git LFS, not the data; get them by 'git lfs pull', or "
                "download the file."
            )


def free_memory() -> int:
    """Return the bytes of memory that a new array can have: what is free, all of it, or 64 GiB where nobody tells."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**36
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        words = next(line.split() for line in lines if line.startswith("MemAvailable:"))
        return min(whole, 1024 * int(words[1]))
    return whole


def check_npz(path: Path) -> None:
    """Raise an error if the arrays of an archive do not fit the memory.

    Compression is up to a thousandfold, so that an archive of megabytes can hold gigabytes. What is no archive is left
    to NumPy.

    Parameters
    ----------
    path : Path
        Existing file.

    Raises
    ------
    FieldDataError
        If the sizes that the archive states are together larger than the free memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            stated = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return
    if stated > (free := free_memory()):
        raise FieldDataError(
            f"cannot read {path} ({path.stat().st_size:,} bytes): its arrays take {stated:,} bytes, and {free:,} bytes "
            "of memory are free; save the arrays as .npy files and pass them by numpy.load(path, mmap_mode='r')."
        )


def matches_of(pattern: str) -> list[str]:
    """Return the files that match a pattern, with a warning if it leaves out what matches too.

    Parameters
    ----------
    pattern : str
        Pattern, in which ``**`` is any number of folders.

    Returns
    -------
    list of str
        Files; empty if there are none.
    """
    found = glob.glob(pattern, recursive=True)
    files = [name for name in found if os.path.isfile(name)]
    # Only what is called as a file is: folders of runs may lie beside their files.
    ends = {os.path.splitext(name)[1] for name in files} - {""}
    left = sorted(name for name in found if not os.path.isfile(name) and os.path.splitext(name)[1] in ends)
    if left:
        warn(
            f"{len(left)} of {len(found)} names that match {pattern!r} are no files, but broken links, folders or "
            f"pipes, and are left out, such as {left[0]}; mend or remove them."
        )
    return files


def file_beside(path: Path, name: str) -> Path:
    """Return the file that another file names, which must be in its folder or below.

    Parameters
    ----------
    path : Path
        File that names the other one.
    name : str
        Name as it is written there; a relative name counts from the folder of `path`.

    Returns
    -------
    Path
        Regular file.

    Raises
    ------
    FieldDataError
        If the name leads out of the folder, or to no regular file.
    """
    # With links followed, which archives can carry.
    folder = os.path.realpath(path.parent)
    found = Path(os.path.realpath(os.path.join(folder, name)))
    if not found.is_relative_to(folder):
        raise FieldDataError(
            f"cannot read {path}: it names the file {name!r} outside of its folder; move this file beside it, and "
            "write its name alone."
        )
    if not found.exists():
        raise FieldDataError(f"cannot read {path}: it names the file {name!r}, which does not exist.")
    check_regular_file(found)
    return found


# ---------------------------------------------------------------------- HDF5
def is_hdf5(path: Path) -> bool:
    """Tell by its signature whether a file is HDF5, as MATLAB 7.3 writes too."""
    with path.open("rb") as file:
        start = file.read(512 + len(_HDF5_SIGNATURE))
    return start.startswith(_HDF5_SIGNATURE) or start.endswith(_HDF5_SIGNATURE)


def check_hdf5(group: Any, path: Path) -> None:
    """Raise an error if anything in an HDF5 file leads to another file, or to more than the file can hold.

    Parameters
    ----------
    group : h5py.Group
        Open file, or a group of one.
    path : Path
        File, for messages.

    Raises
    ------
    FieldDataError
        If there is an external link, or an array that is stored elsewhere or is far larger than the file.
    """
    h5py = _h5py(path)
    waiting, seen = [group], set()
    while waiting:
        item = waiting.pop()
        address = h5py.h5o.get_info(item.id).addr
        if address in seen:
            continue
        seen.add(address)
        if isinstance(item, h5py.Dataset):
            _check_array(item, path)
        elif isinstance(item, h5py.Group):
            for name in item:
                check_hdf5_link(item, name, path)
                # What a soft link leads to inside the file has a name of its own there.
                if not isinstance(item.get(name, getlink=True), h5py.SoftLink):
                    waiting.append(item[name])


def hdf5_array(group: Any, key: str, path: Path) -> Any:
    """Return an array of an HDF5 file, after the checks of `check_hdf5` on the way to it.

    Parameters
    ----------
    group, path : as in `check_hdf5`
        The open file, and its path.
    key : str
        Name of the array, with the names of its groups.

    Returns
    -------
    h5py.Dataset or None
        The array; None if there is no such array.
    """
    item = _followed(group, key, path)
    if not isinstance(item, _h5py(path).Dataset):
        return None
    _check_array(item, path)
    return item


def _followed(group: Any, key: str, path: Path, depth: int = 0) -> Any:
    """Entry of a group, by links inside of the file; None if there is none."""
    h5py, item = _h5py(path), group
    for name in filter(None, key.split("/")):
        link = item.get(name, getlink=True) if isinstance(item, h5py.Group) else None
        if link is None or depth > _DEEPEST:
            return None
        check_hdf5_link(item, name, path)
        if isinstance(link, h5py.SoftLink):
            item = _followed(item.file if link.path.startswith("/") else item, link.path, path, depth + 1)
        else:
            item = item[name]
    return item


def check_hdf5_link(group: Any, name: str, path: Path) -> None:
    """Raise an error if an entry of a group is a link to another file.

    Parameters
    ----------
    group, path : as in `check_hdf5`
        The open file or a group of it, and its path.
    name : str
        Name of the entry.

    Raises
    ------
    FieldDataError
        If it is an external link.
    """
    link = group.get(name, getlink=True)
    if isinstance(link, _h5py(path).ExternalLink):
        raise FieldDataError(
            f"cannot read {path}: {name!r} in it is a link to the file {link.filename!r}; copy the data into one file."
        )


def _h5py(path: Path) -> Any:
    """The package h5py."""
    return import_optional("h5py", purpose=f"read {path.name}, an HDF5 file")


def _check_array(item: Any, path: Path) -> None:
    """Refuse an array that is stored in another file, or whose stated size its file cannot hold."""
    if item.external or item.is_virtual:
        raise FieldDataError(
            f"cannot read {path}: the values of {item.name!r} in it are stored in other files; copy the data into one "
            "file."
        )
    # An array without values, such as a null data set, has no size.
    stated = (item.size or 0) * item.dtype.itemsize
    if stated > ALWAYS_FINE + MOST_COMPRESSED * item.id.get_storage_size():
        raise FieldDataError(
            f"cannot read {path}: {item.name!r} in it states the shape {item.shape}, {stated:,} bytes, of which the "
            f"file holds {item.id.get_storage_size():,}; it was not written to the end, or is damaged."
        )


# ---------------------------------------------------------------------- XML and VTK
def check_xml(path: Path) -> None:
    """Raise an error if an XML file declares entities, which can grow without end, or lead to other files.

    Parameters
    ----------
    path : Path
        XML file, in any encoding.

    Raises
    ------
    FieldDataError
        If there is such a declaration before the first element, the only place where XML allows it.
    """
    next(_elements(path), None)


def check_vtk(path: Path, *, depth: int = 1) -> tuple[int, int, int]:
    """Raise an error if a VTK file states sizes on which VTK ends the process, or names what is no file.

    Data of other formats than XML pass.

    Parameters
    ----------
    path : Path
        Existing file.
    depth : int, default=1
        Number of files on the way to this one that name each other, with this one.

    Returns
    -------
    tuple of (int, int, int)
        Bytes of the file and of those that it names, and the numbers of their points and cells.

    Raises
    ------
    FieldDataError
        If an extent descends, a number is negative or no number, the sizes need more memory than the file explains,
        arrays do not pass `check_arrays`, or a file that it names is a pipe, or names too many others in turn.
    """
    held, most = path.stat().st_size, _MOST_IMPLIED
    section, points, cells, has_arrays = "", 0, 0, False
    # Of all pieces, and bytes of an entry of each array.
    whole, widths, stated = np.zeros(2, dtype=object), dict[tuple[str, str], int](), 0
    for tag, attributes in _elements(path):
        name = attributes.get("file", attributes.get("Source"))
        if name is not None or "compressor" in attributes:
            most = MOST_COMPRESSED
        if name and (beside := path.parent / name).exists():
            check_regular_file(beside)
            if depth == _DEEPEST_FILES:
                raise FieldDataError(
                    f"cannot read {path}: {_DEEPEST_FILES} files name each other, and then {name!r}; VTK writes blocks "
                    "that name pieces, which name no others. Pass the files with the data."
                )
            size, *counts = check_vtk(beside, depth=depth + 1)
            held, whole = held + size, whole + counts
        if "WholeExtent" in attributes:
            whole = np.array(_grid_sizes(path, attributes, "WholeExtent"), dtype=object)
        # A table of blocks has as many rows as the largest number of one.
        stated += _BLOCK * _stated(path, attributes, "index", 0)
        if tag == "Piece":
            points = _stated(path, attributes, "NumberOfPoints", 0)
            cells = sum(_stated(path, attributes, count, 0) for count in _CELL_COUNTS)
            if "Extent" in attributes:
                points, cells = _grid_sizes(path, attributes, "Extent")
            elif name is None:
                whole = whole + np.array((points, cells), dtype=object)
            stated += _IMPLICIT_POINT * points
        elif tag in ("DataArray", "PDataArray", "Array"):
            bits = re.search(r"\d+$", attributes.get("type", ""))
            width = _stated(path, attributes, "NumberOfComponents", 1) * (int(bits[0]) // 8 if bits else 1)
            entries = points if section in _OF_POINTS else cells if section in _OF_CELLS else 0
            stated += width * max(entries, _stated(path, attributes, "NumberOfTuples", 1))
            widths[section, attributes.get("Name", "")] = width
        else:
            section = tag
            has_arrays |= "compressor" in attributes or tag in ("Verts", "Lines", "Strips", "Polys", "Cells")
    together = _IMPLICIT_POINT * whole[0]
    for (of, _), width in widths.items():
        together += width * (whole[0] if of in _OF_POINTS else whole[1] if of in _OF_CELLS else 0)
    if (needed := max(stated, together)) > ALWAYS_FINE + most * held:
        raise FieldDataError(
            f"cannot read {path}: the sizes that it states need {needed:,} bytes, which {held:,} bytes of files cannot "
            "hold; it was not written to the end, or is damaged. Write it again."
        )
    if has_arrays:
        check_arrays(path)
    return held, whole[0], whole[1]


def _elements(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the elements of an XML file with their attributes, up to appended data, which need be no XML."""
    found: list[tuple[str, dict[str, str]]] = []

    def refuse(*_: Any) -> None:
        """Refuse a declaration of an entity."""
        raise FieldDataError(
            f"cannot read {path}: it declares XML entities, which mesh files do not need and which can grow without "
            "end; write it again by ParaView or meshio."
        )

    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: found.append((tag, attributes))
    parser.EntityDeclHandler = refuse
    with path.open("rb") as file:
        is_whole = False
        while not is_whole:
            part = file.read(_CHUNK)
            try:
                parser.Parse(part, not part)
            except expat.ExpatError:
                # Its reader says so.
                is_whole = True
            for tag, attributes in found:
                if tag == "AppendedData":
                    return
                yield tag, attributes
            found.clear()
            is_whole |= not part


def _grid_sizes(path: Path, attributes: dict[str, str], name: str) -> tuple[int, int]:
    """Numbers of points and cells of a grid whose extent is stated."""
    try:
        ends = [int(number) for number in attributes[name].split()]
    except ValueError:
        ends = []
    steps = [last - first for first, last in zip(ends[::2], ends[1::2], strict=False)]
    # An axis that ends one before its beginning has no points.
    if len(ends) != 6 or min(steps) < -1:
        raise FieldDataError(
            f"cannot read {path}: it states {name}={attributes[name]!r}; expected the first and last index along each "
            "of three axes, such as '0 9 0 9 0 0'. It is damaged; write it again."
        )
    return math.prod(step + 1 for step in steps), math.prod(max(step, 1) for step in steps)


def _stated(path: Path, attributes: dict[str, str], name: str, default: int) -> int:
    """Number in an attribute."""
    text = attributes.get(name, "").strip() or str(default)
    if not re.fullmatch(r"\+?\d{1,18}", text):
        raise FieldDataError(
            f"cannot read {path}: it states {name}={text!r}; expected a number from 0 on. It is damaged; write it "
            "again."
        )
    return int(text)


# ---------------------------------------------------------------------- Gmsh
def check_gmsh_tags(path: Path) -> None:
    """Raise an error if a node of a Gmsh file has a number that is far larger than the file.

    Readers allocate a table up to the largest number. Only the nodes of text files and of binary files of version 4.1
    are looked at; those of version 2.2 are numbered without gaps.

    Parameters
    ----------
    path : Path
        File that begins as one of Gmsh.

    Raises
    ------
    FieldDataError
        If the table would take far more memory than the file explains.
    """
    content = path.read_bytes()
    head = re.match(rb"\$MeshFormat\s+([\d.]+)\s+([01])\s", content)
    begin, end = content.find(b"$Nodes"), content.find(b"$EndNodes")
    if head is None or begin < 0:
        return
    part, largest = content[begin + 6 : end if end > begin else None], 0
    if head[2] == b"0":
        largest = max((int(tag[:19]) for tag in re.findall(rb"(?m)^\s*(\d{8,})(?![\d.eE])", part)), default=0)
    elif head[1].startswith(b"4") and head[1] != b"4.0":
        largest = max(_binary_tags(content[begin:].partition(b"\n")[2]), default=0)
    if largest > max(_FINE_TAG, len(content)):
        raise FieldDataError(
            f"cannot read {path} ({len(content):,} bytes): a node has the number {largest:,}, for which its reader "
            "would make a table of this length; number the nodes from 1 on, or write the mesh again."
        )


def _binary_tags(nodes: bytes) -> Iterator[int]:
    """Yield the largest number of the nodes of each block of a binary Gmsh file of version 4.1."""
    place = 32
    for _ in range(min(int.from_bytes(nodes[:8], "little"), len(nodes))):
        count = int.from_bytes(nodes[place + 12 : place + 20], "little")
        place += 20
        if 32 * count > len(nodes) - place:
            return
        yield int(np.frombuffer(nodes, "<u8", count, place).max(initial=0))
        place += 32 * count


# ---------------------------------------------------------------------- MATLAB
def check_matlab(path: Path) -> None:
    """Raise an error if a MATLAB file of version 5 has elements that the format does not know.

    scipy reads the type of an element as an index without checking it, which ends the process. Only the headers of the
    elements are looked at; arrays of numbers are not decompressed beyond them.

    Parameters
    ----------
    path : Path
        MATLAB file of any version; others than 5 are not looked at.

    Raises
    ------
    FieldDataError
        If the type of an element is unknown, or arrays are nested without end.

    Notes
    -----
    The format is described in "MAT-File Format", The MathWorks, chapter 1.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_MATLAB_HEADER)
        # Version 4 has a zero among its first four bytes; version 7.3 is HDF5.
        if len(head) < _MATLAB_HEADER or 0 in head[:4] or head[126:128] not in (b"IM", b"MI") or is_hdf5(path):
            return
        order: Literal["little", "big"] = "little" if head[126:128] == b"IM" else "big"
        walk, place = _MatlabWalk(path, order), _MATLAB_HEADER
        while place + 8 <= size:
            file.seek(place)
            kind, count = walk.whole_tag(_Part(file))
            # A file that was cut off, or whose compressed bytes are damaged, is left to scipy, which says so.
            with contextlib.suppress(EOFError, zlib.error):
                if kind == _MATLAB_COMPRESSED:
                    part = _Inflated(file, count)
                    kind, _ = walk.whole_tag(part)
                    walk.array(part, kind, depth=0)
                else:
                    walk.array(_Part(file), kind, depth=0)
            place += 8 + count


class _Part:
    """Bytes of a file that are read or skipped one after the other."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, count: int) -> bytes:
        """Read some bytes; raise EOFError if there are fewer."""
        found = self._file.read(count)
        if len(found) < count:
            raise EOFError
        return found

    def skip(self, count: int) -> None:
        """Leave out some bytes."""
        self._file.seek(count, os.SEEK_CUR)


class _Inflated:
    """The same for bytes that are compressed, of which only those are decompressed that are asked for."""

    def __init__(self, file: IO[bytes], count: int) -> None:
        self._file, self._left, self._engine = file, count, zlib.decompressobj()

    def read(self, count: int) -> bytes:
        """Read some bytes; raise EOFError if there are fewer."""
        found = b""
        while len(found) < count:
            source = self._engine.unconsumed_tail
            if not source:
                source = self._file.read(min(self._left, 2**16))
                self._left -= len(source)
            part = self._engine.decompress(source, count - len(found))
            if not part and not source:
                raise EOFError
            found += part
        return found

    def skip(self, count: int) -> None:
        """Leave out some bytes."""
        while count > 0:
            count -= len(self.read(min(count, 2**20)))


class _MatlabWalk:
    """Walk over the elements of a MATLAB file of version 5, with one order of bytes."""

    def __init__(self, path: Path, order: Literal["little", "big"]) -> None:
        self._path, self._order, self._parts = path, order, 0

    def refuse(self, what: str) -> NoReturn:
        """Raise the error of a damaged file."""
        raise FieldDataError(
            f"cannot read {self._path}: it has {what}, so that it is damaged; write or download it again."
        )

    def whole_tag(self, part: _Part | _Inflated) -> tuple[int, int]:
        """Read the type and the number of bytes of an element with a tag of 8 bytes."""
        tag = part.read(8)
        return int.from_bytes(tag[:4], self._order), int.from_bytes(tag[4:], self._order)

    def array(self, part: _Part | _Inflated, kind: int, depth: int) -> None:
        """Check the elements of an array, whose tag has been read."""
        self._parts += 1
        if kind != _MATLAB_ARRAY:
            self.refuse(f"an element of the type {kind} in place of an array")
        if depth > _DEEPEST or self._parts > _MOST_PARTS:
            self.refuse("arrays inside arrays without end")
        flags = int.from_bytes(part.read(16)[8:12], self._order)
        number, is_complex = flags & 0xFF, flags >> 11 & 1
        if number == _OPAQUE:
            for _ in range(3):
                self._skip(part)
            self._inner(part, 1, depth)
            return
        dims = self._content(part)
        if len(dims) < 8 or len(dims) % 4:
            self.refuse(f"an array whose shape has {len(dims)} bytes")
        size = math.prod(int.from_bytes(dims[k : k + 4], self._order, signed=True) for k in range(0, len(dims), 4))
        self._content(part)
        if number == _SPARSE or number in _NUMBERS:
            self._numbers(part, 1 + is_complex + 2 * (number == _SPARSE), depth)
        elif number == _CHAR:
            kind, length, content = self._tag(part)
            if kind not in _MATLAB_TEXT:
                self.refuse(f"text of the type {kind}, which MATLAB does not know")
            if content is None:
                part.skip(length + -length % 8)
        elif number == _FUNCTION:
            self._inner(part, 1, depth)
        elif number in (_CELL, _STRUCT, _OBJECT) and size > _MOST_PARTS:
            self.refuse(f"an array of {size:,} arrays")
        elif number == _CELL:
            self._inner(part, size, depth)
        elif number in (_STRUCT, _OBJECT):
            if number == _OBJECT:
                self._content(part)
            length = max(1, int.from_bytes(self._content(part)[:4], self._order))
            self._inner(part, size * (len(self._content(part)) // length), depth)
        else:
            self.refuse(f"an array of the class {number}")

    def _inner(self, part: _Part | _Inflated, count: int, depth: int) -> None:
        """Check the arrays in an array."""
        if count > _MOST_PARTS:
            self.refuse(f"an array of {count:,} arrays")
        for _ in range(count):
            kind, size = self.whole_tag(part)
            if size or kind != _MATLAB_ARRAY:
                self.array(part, kind, depth + 1)

    def _numbers(self, part: _Part | _Inflated, count: int, depth: int) -> None:
        """Check the types of the numbers of an array; the last ones are not read where nothing follows."""
        for place in range(count):
            kind, size, content = self._tag(part)
            if kind not in _MATLAB_DATA:
                self.refuse(f"numbers of the type {kind}, which MATLAB does not know")
            if content is None and (depth or place < count - 1):
                part.skip(size + -size % 8)

    def _tag(self, part: _Part | _Inflated) -> tuple[int, int, bytes | None]:
        """Read a tag; elements of up to 4 bytes are inside of it."""
        tag = part.read(8)
        first = int.from_bytes(tag[:4], self._order)
        if first >> 16:
            size = first >> 16
            return first & 0xFFFF, size, tag[4 : 4 + size]
        return first, int.from_bytes(tag[4:], self._order), None

    def _content(self, part: _Part | _Inflated) -> bytes:
        """Read a short element, such as a name."""
        _, size, content = self._tag(part)
        if content is not None:
            return content
        if size > ALWAYS_FINE:
            self.refuse(f"a name or shape of {size:,} bytes")
        return part.read(size + -size % 8)[:size]

    def _skip(self, part: _Part | _Inflated) -> None:
        """Leave out an element."""
        _, size, content = self._tag(part)
        if content is None:
            part.skip(size + -size % 8)
