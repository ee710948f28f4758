"""Reading of .vtu files, including those that meshio reads wrongly.

meshio (5.3.5) confuses the arrays of raw appended data, because it modifies offsets while it searches by them. From a
file with several pieces it keeps only the cells of the last one. It fails on files without cells, on arrays of text,
and on versions after 1.0, in which recent versions of VTK store polyhedra. Such files are decoded here and passed to
meshio as a single piece with inline data. Source of the format: VTK File Formats,
https://vtk.org/wp-content/uploads/2015/04/file-formats.pdf; the later form of polyhedra as VTK 9.7 writes it.
"""

import base64
import lzma
import re
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import meshio
import numpy as np

from skop._optional import import_optional
from skop.exceptions import FieldDataError, OptionalDependencyError

__all__ = ["ALWAYS_FINE", "MOST_COMPRESSED", "check_arrays", "check_lists", "read_vtu"]

#: VTK's number of the cell type.
_POLYHEDRON = 42
#: Sections with cells, of polygons and of unstructured grids.
_OF_CELLS = frozenset(("Verts", "Lines", "Strips", "Polys", "Cells"))
#: In each section, lists of numbers, the places at which each cell or face ends in them, and what they number.
_LISTS = (
    ("connectivity", "offsets", "point"),
    ("face_connectivity", "face_offsets", "point"),
    ("polyhedron_to_faces", "polyhedron_offsets", "face"),
)
#: Largest size of an array for which its file may take less than a byte for each of these (a bound of zlib is 1032),
#: and the number of bytes that any array may have.
MOST_COMPRESSED, ALWAYS_FINE = 1100, 2**24


def _decompress_lz4(block: Any, size: int) -> bytes:
    """Bytes of a block, by VTK, which alone reads such files."""
    purpose = "read data that are compressed by LZ4"
    compressor = import_optional("vtkmodules.vtkIOCore", purpose=purpose).vtkLZ4DataCompressor()
    found = bytearray(size)
    if compressor.Uncompress(bytes(block), len(block), found, size) != size:
        raise ValueError(f"a block of {len(block)} bytes does not hold the {size} that it states")
    return bytes(found)


#: By name, with the bytes of a block and the number that they stand for.
_DECOMPRESSORS: dict[str, Callable[[Any, int], bytes]] = {
    "vtkZLibDataCompressor": lambda block, _: zlib.decompress(block),
    "vtkLZMADataCompressor": lambda block, _: lzma.decompress(block),
    "vtkLZ4DataCompressor": _decompress_lz4,
}


def read_vtu(path: Path) -> meshio.Mesh:
    """Read a .vtu file.

    Parameters
    ----------
    path : Path
        VTK XML file of an unstructured grid.

    Returns
    -------
    meshio.Mesh
        Points, cells and data of all pieces.

    Raises
    ------
    FieldDataError
        If the file has another type of VTK data. A damaged file can raise other errors.
    """
    content = path.read_bytes()
    head = re.search(rb"<VTKFile\b[^>]*>", content)
    attributes = {} if head is None else _attributes(head.group())
    if attributes.get("type", "UnstructuredGrid") != "UnstructuredGrid":
        raise FieldDataError(
            f"cannot read {path}: it holds VTK {attributes['type']}; expected UnstructuredGrid, to which ParaView and "
            "pyvista (cast_to_unstructured_grid) convert it."
        )
    appended = re.search(rb"<AppendedData\b[^>]*>", content)
    is_raw = appended is not None and _attributes(appended.group()).get("encoding") == "raw"
    pieces = re.findall(rb"<Piece\b[^>]*>", content[: appended.start()] if appended else content)
    has_cells = any(_attributes(piece).get("NumberOfCells", "").strip(" 0") for piece in pieces)
    has_text = re.search(rb"<(Data)?Array\b[^>]*type=[\"']String", content) is not None
    is_early = attributes.get("version", "0.1") in ("0.1", "1.0")
    if is_early and not is_raw and not has_text and (not pieces or (len(pieces) == 1 and has_cells)):
        del content, head, appended  # free the memory before meshio reads the file again
        return meshio.vtu.read(str(path))
    return _mesh_of_vtu(*_opened(content))


def check_arrays(path: Path) -> None:
    """Raise an error if arrays of a VTK XML file state sizes for which VTK allocates memory without a look.

    Parameters
    ----------
    path : Path
        VTK XML file.

    Raises
    ------
    FieldDataError
        If cells end beyond their nodes or name points that are not there, if compressed blocks do not fit the file, or
        if they or the cells cannot be decoded.
    """
    try:
        root, appended, is_raw = _opened(path.read_bytes())
        if "compressor" in root.attrib:
            for tag in root.iter():
                if tag.tag in ("DataArray", "Array") and tag.get("format") in ("binary", "appended"):
                    _blocks(*_stored(root, tag, appended, is_raw))
        for piece in root.iter("Piece"):
            for section in (found for found in piece if found.tag in _OF_CELLS):
                tags = section.findall("DataArray")
                arrays = {tag.get("Name"): tag for tag in tags}
                if len(arrays) < len(tags):
                    raise ValueError(f"two arrays of its {section.tag} have one name")
                count = int(piece.get("NumberOfPoints", "0"))
                for listed, ending, kind in _LISTS:
                    if arrays.keys() >= {listed, ending}:
                        nodes, ends = (_vtu_numbers(root, arrays[name], appended, is_raw) for name in (listed, ending))
                        check_lists(nodes, ends, count, kind, f"cannot read {path}: its {section.tag}")
                        # Polyhedra are lists of the faces before them.
                        count = ends.size if listed == "face_connectivity" else count
                if arrays.keys() >= {"faces", "faceoffsets"}:
                    _check_early_faces(
                        *(_vtu_numbers(root, arrays[name], appended, is_raw) for name in ("faces", "faceoffsets"))
                    )
    except (FieldDataError, OptionalDependencyError):
        raise
    except Exception as error:
        raise FieldDataError(
            f"cannot read {path} ({path.stat().st_size} bytes): its arrays cannot be decoded ({error}), and VTK can "
            "end the process on such files. The file may be truncated or damaged; write it again by ParaView or meshio."
        ) from error


def _check_early_faces(faces: Any, ends: Any) -> None:
    """Raise ValueError unless polyhedra of VTK up to version 1.0 end where their numbers of faces and nodes say."""
    numbers, place = faces.tolist(), 0
    # Other cells have the end -1.
    for end in ends[ends >= 0].tolist():
        n_faces, place = numbers[place], place + 1
        for _ in range(n_faces):
            if numbers[place] < 0:
                raise ValueError(f"a face has {numbers[place]} nodes")
            place += 1 + numbers[place]
        if place != end:
            raise ValueError(f"the faces of a polyhedron end at {place}, and not at {end}")
    if place > len(numbers):
        raise ValueError(f"the faces of the last polyhedron end at {place} of {len(numbers)} numbers")


def check_lists(nodes: Any, ends: Any, count: int, kind: str, where: str) -> None:
    """Raise an error if cells end beyond their nodes, or name points that are not there.

    Parameters
    ----------
    nodes, ends : ndarray of int
        Points of all cells, and the places in them at which the cells end.
    count : int
        Number of points.
    kind : str
        What the nodes are, such as ``"point"``.
    where : str
        Beginning of messages.

    Raises
    ------
    FieldDataError
        If a number is out of range, or a cell ends before it begins.
    """
    if ends.size and (ends.min() < 0 or ends.max() > nodes.size or (ends[1:] < ends[:-1]).any()):
        raise FieldDataError(
            f"{where} has cells that end at the nodes {ends.min():,} to {ends.max():,} of a list of {nodes.size:,}, or "
            "before they begin; it is damaged, write it again."
        )
    if nodes.size and (nodes.min() < 0 or nodes.max() >= count):
        wrong = nodes.min() if nodes.min() < 0 else nodes.max()
        raise FieldDataError(
            f"{where} has a cell that names the {kind} {wrong:,}, but has {count:,} {kind}s, counted from 0; it is "
            "damaged, write it again."
        )


def _opened(content: bytes) -> tuple[ElementTree.Element, memoryview, bool]:
    """Elements of a VTK XML file, its appended data, and whether these are raw."""
    appended = re.search(rb"<AppendedData\b[^>]*>", content)
    if appended is None or _attributes(appended.group()).get("encoding") != "raw":
        root = ElementTree.fromstring(content)
        text = root.findtext("AppendedData") or ""
        return root, memoryview(text.strip()[1:].encode()), False
    start, stop = content.index(b"_", appended.end()) + 1, content.rfind(b"</AppendedData")
    root = ElementTree.fromstring(content[: appended.start()] + b"</VTKFile>")
    return root, memoryview(content)[start : stop if stop >= start else len(content)], True


def _attributes(tag: bytes) -> dict[str, str]:
    """Attributes of an XML tag."""
    return {name.decode(): value.decode() for name, _, value in re.findall(rb"([\w:]+)\s*=\s*([\"'])(.*?)\2", tag)}


def _mesh_of_vtu(root: ElementTree.Element, appended: memoryview, is_raw: bool = False) -> meshio.Mesh:
    """Mesh of all pieces of a file."""
    found = [
        {
            "points": _vtu_arrays(root, piece.find("Points"), piece.attrib["NumberOfPoints"], appended, is_raw),
            "point": _vtu_arrays(root, piece.find("PointData"), piece.attrib["NumberOfPoints"], appended, is_raw),
            "cell": _vtu_arrays(root, piece.find("CellData"), piece.attrib["NumberOfCells"], appended, is_raw),
            "cells": _vtu_arrays(root, piece.find("Cells"), None, appended, is_raw),
        }
        for piece in root.iter("Piece")
    ]
    if not found:
        raise ValueError("the file has no Piece")
    for number, parts in enumerate(found):
        for kind in ("point", "cell"):
            if parts[kind].keys() != found[0][kind].keys():
                raise ValueError(f"piece {number} has {kind} data {[*parts[kind]]}, piece 0 has {[*found[0][kind]]}")
    points = np.concatenate([next(iter(parts["points"].values())) for parts in found])
    joined = {
        kind: {name: np.concatenate([parts[kind][name] for parts in found]) for name in found[0][kind]}
        for kind in ("point", "cell")
    }
    filled = [parts for parts in found if parts["cells"].get("types", np.zeros(0)).size]
    if not filled:
        return meshio.Mesh(points, [], point_data=joined["point"])
    has_polyhedra = any((parts["cells"]["types"] == _POLYHEDRON).any() for parts in filled)
    if len(found) == 1:
        cells = _early_polyhedra(found[0]["cells"]) if has_polyhedra else found[0]["cells"]
    elif has_polyhedra:
        raise ValueError("polyhedra in several pieces; write one piece")
    else:
        cells = _join_pieces(found)
    return _reread_by_meshio(points, cells, joined["point"], joined["cell"])


def _early_polyhedra(cells: dict[str, Any]) -> dict[str, Any]:
    """Convert polyhedra to the format of VTK versions up to 1.0: all faces of a cell in one row of numbers."""
    if "faces" in cells:
        return cells
    faces = np.split(cells["face_connectivity"], cells["face_offsets"][:-1])
    of_cells = np.split(cells["polyhedron_to_faces"], cells["polyhedron_offsets"][:-1])
    rows = [[len(own), *(number for i in own for number in (len(faces[i]), *faces[i]))] for own in of_cells]
    joined = {
        "faces": np.array([number for row in rows for number in row], dtype=np.int64),
        "faceoffsets": np.cumsum([len(row) for row in rows]),
    }
    return {name: cells[name] for name in ("connectivity", "offsets", "types")} | joined


def _join_pieces(found: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Join the cells of several pieces, with indices into the points of all pieces."""
    joined: dict[str, list[Any]] = {"connectivity": [], "offsets": [], "types": []}
    first_point = first_node = 0
    for parts in found:
        cells = parts["cells"]
        if cells and cells["types"].size:
            joined["connectivity"].append(cells["connectivity"].astype(np.int64) + first_point)
            joined["offsets"].append(cells["offsets"].astype(np.int64) + first_node)
            joined["types"].append(cells["types"])
            first_node += cells["connectivity"].size
        first_point += len(next(iter(parts["points"].values())))
    return {name: np.concatenate(parts) for name, parts in joined.items()}


def _reread_by_meshio(points: Any, cells: Any, point_data: Any, cell_data: Any) -> meshio.Mesh:
    """Pass decoded arrays through meshio as inline data of one piece, so that cells are ordered as usual in meshio."""
    root = ElementTree.Element("VTKFile", type="UnstructuredGrid", version="1.0", byte_order="LittleEndian")
    root.set("header_type", "UInt64")
    counts = {"NumberOfPoints": str(len(points)), "NumberOfCells": str(len(cells["types"]))}
    piece = ElementTree.SubElement(ElementTree.SubElement(root, "UnstructuredGrid"), "Piece", counts)
    parts = {"Points": {"Points": points}, "Cells": cells, "PointData": point_data, "CellData": cell_data}
    for section, arrays in parts.items():
        parent = ElementTree.SubElement(piece, section)
        for name, array in arrays.items():
            kind = {"f": "Float", "i": "Int", "u": "UInt"}[array.dtype.kind] + str(8 * array.dtype.itemsize)
            tag = ElementTree.SubElement(parent, "DataArray", type=kind, Name=name, format="binary")
            if array.ndim == 2:
                tag.set("NumberOfComponents", str(array.shape[1]))
            data = array.astype(array.dtype.newbyteorder("<")).tobytes()
            tag.text = base64.b64encode(np.array(len(data), dtype="<u8").tobytes() + data).decode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decoded.vtu"
        ElementTree.ElementTree(root).write(path)
        return meshio.vtu.read(str(path))


def _vtu_arrays(
    root: ElementTree.Element,
    section: ElementTree.Element | None,
    count: str | None,
    appended: memoryview,
    is_raw: bool,
) -> dict[str, Any]:
    """Read the arrays of a section by name, (count,) or (count, c)."""
    arrays = {}
    for tag in () if section is None else section.findall("DataArray"):
        if tag.get("type") == "String":
            continue
        name = tag.get("Name", "Points")
        array = _vtu_numbers(root, tag, appended, is_raw)
        components = (tag.get("NumberOfComponents") or "").strip()
        width = int(components or 1)
        if count is not None and array.size != int(count) * width:
            raise ValueError(f"array {name!r} holds {array.size} numbers; expected {count} times {width}")
        # Cells are lists of numbers, whatever number of components is stated.
        arrays[name] = array.reshape(-1, width) if components and count is not None else array
    return arrays


def _vtu_numbers(root: ElementTree.Element, tag: ElementTree.Element, appended: memoryview, is_raw: bool) -> Any:
    """Read the numbers of one array."""
    order = ">" if root.get("byte_order") == "BigEndian" else "<"
    kind = re.fullmatch(r"(Float|Int|UInt)(8|16|32|64)", tag.get("type", ""))
    if kind is None:
        raise ValueError(f"array {tag.get('Name')!r} has type {tag.get('type')!r}")
    dtype = np.dtype(f"{order}{ {'Float': 'f', 'Int': 'i', 'UInt': 'u'}[kind[1]] }{int(kind[2]) // 8}")
    form = tag.get("format", "ascii")
    if form == "ascii":
        return np.array((tag.text or "").split(), dtype=dtype)
    if form not in ("binary", "appended"):
        raise ValueError(f"array {tag.get('Name')!r} has format {form!r}")
    source, item, take = _stored(root, tag, appended, is_raw)
    compressor = root.get("compressor")
    if compressor is None:
        return np.frombuffer(_uncompressed_block(source, item, take), dtype)
    decompress = _DECOMPRESSORS[compressor]
    sizes, rest = _blocks(source, item, take)
    blocks, _ = take(rest, sum(size for size, _ in sizes))
    parts, stop = [], 0
    for size, count in sizes:
        stop += size
        parts.append(decompress(blocks[stop - size : stop], count))
    return np.frombuffer(b"".join(parts), dtype)


def _stored(
    root: ElementTree.Element, tag: ElementTree.Element, appended: memoryview, is_raw: bool
) -> tuple[memoryview, np.dtype[Any], Any]:
    """What follows the beginning of an array, the type of the sizes in it, and the function that takes its bytes."""
    order = ">" if root.get("byte_order") == "BigEndian" else "<"
    item = np.dtype(f"{order}u{ {'UInt32': 4, 'UInt64': 8}[root.get('header_type', 'UInt32')] }")
    if tag.get("format") != "appended":
        return memoryview((tag.text or "").strip().encode()), item, _take_base64
    offset = int(tag.attrib["offset"])
    if not 0 <= offset < len(appended):
        raise ValueError(f"array {tag.get('Name')!r} begins at {offset} of {len(appended)} bytes")
    return appended[offset:], item, _take_raw if is_raw else _take_base64


def _blocks(source: memoryview, item: np.dtype[Any], take: Any) -> tuple[list[tuple[int, int]], memoryview]:
    """Sizes of compressed blocks in the file and in memory, and what follows them; an error if they do not fit it."""
    n_blocks, whole, last = np.frombuffer(take(source, 3 * item.itemsize)[0], item).tolist()
    header, rest = take(source, (3 + n_blocks) * item.itemsize)
    sizes = np.frombuffer(header, item)[3:].tolist()
    # Only the last block may be a part of one.
    stated = [*[whole] * (n_blocks - 1), *[last or whole][:n_blocks]]
    if last > whole or (n_blocks and not whole) or (last and not n_blocks):
        raise ValueError(f"an array states {n_blocks} blocks of {whole} bytes, the last of {last}")
    if sum(stated) > ALWAYS_FINE + MOST_COMPRESSED * sum(sizes) or sum(sizes) > len(rest):
        raise ValueError(f"an array states {sum(stated)} bytes in {sum(sizes)} compressed ones, and {len(rest)} follow")
    return list(zip(sizes, stated, strict=True)), rest


def _uncompressed_block(source: memoryview, item: np.dtype[Any], take: Any) -> bytes:
    """Read a block of bytes that begins with its size."""
    size = int(np.frombuffer(take(source, item.itemsize)[0], item)[0])
    if take is _take_base64 and bytes(source[: 4 * -(-item.itemsize // 3)]).endswith(b"=" * (-item.itemsize % 3)):
        # In base64 the size is encoded separately from the data.
        return bytes(take(take(source, item.itemsize)[1], size)[0])
    return bytes(take(source, item.itemsize + size)[0][item.itemsize :])


def _take_raw(source: memoryview, size: int) -> tuple[Any, memoryview]:
    """Return the first bytes and the remaining ones."""
    if len(source) < size:
        raise EOFError(f"{size} bytes expected where the file has {len(source)}")
    return source[:size], source[size:]


def _take_base64(source: memoryview, size: int) -> tuple[Any, memoryview]:
    """Decode the first bytes of base64 text; also return the remaining text."""
    width = 4 * -(-size // 3)
    return _take_raw(memoryview(base64.b64decode(source[:width])), size)[0], source[width:]
