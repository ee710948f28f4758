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

from skop.exceptions import FieldDataError

__all__ = ["check_cells", "read_vtu"]

#: VTK's number of the cell type.
_POLYHEDRON = 42
#: Sections with cells, of polygons and of unstructured grids.
_OF_CELLS = frozenset(("Verts", "Lines", "Strips", "Polys", "Cells"))
_DECOMPRESSORS: dict[str, Callable[[Any], bytes]] = {
    "vtkZLibDataCompressor": zlib.decompress,
    "vtkLZMADataCompressor": lzma.decompress,
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


def check_cells(path: Path) -> None:
    """Raise an error if cells of a VTK XML file end beyond their nodes, for which VTK allocates memory without a look.

    Parameters
    ----------
    path : Path
        VTK XML file of polygons or of an unstructured grid.

    Raises
    ------
    FieldDataError
        If the offset of a cell is negative or larger than the number of nodes of all cells. What cannot be decoded
        here is left to VTK.
    """
    try:
        root, appended, is_raw = _opened(path.read_bytes())
        for section in (found for piece in root.iter("Piece") for found in piece if found.tag in _OF_CELLS):
            arrays = {tag.get("Name"): tag for tag in section.findall("DataArray")}
            if not {"connectivity", "offsets"} <= arrays.keys():
                continue
            nodes, ends = (_vtu_numbers(root, arrays[name], appended, is_raw) for name in ("connectivity", "offsets"))
            if ends.size and (ends.min() < 0 or ends.max() > nodes.size):
                wrong = ends.min() if ends.min() < 0 else ends.max()
                raise FieldDataError(
                    f"cannot read {path}: a cell of its {section.tag} ends at node {wrong:,} of a list of "
                    f"{nodes.size:,}; it is damaged. Write it again."
                )
    except FieldDataError:
        raise
    except Exception:
        return


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
    source = (
        appended[int(tag.attrib["offset"]) :] if form == "appended" else memoryview((tag.text or "").strip().encode())
    )
    take = _take_raw if form == "appended" and is_raw else _take_base64
    item = np.dtype(f"{order}u{ {'UInt32': 4, 'UInt64': 8}[root.get('header_type', 'UInt32')] }")
    compressor = root.get("compressor")
    if compressor is None:
        return np.frombuffer(_uncompressed_block(source, item, take), dtype)
    decompress = _DECOMPRESSORS[compressor]
    n_blocks = int(np.frombuffer(take(source, item.itemsize)[0], item)[0])
    header, rest = take(source, (3 + n_blocks) * item.itemsize)
    sizes = np.frombuffer(header, item)[3:].astype(int)
    blocks, _ = take(rest, int(sizes.sum()))
    parts = [decompress(blocks[stop - size : stop]) for size, stop in zip(sizes, np.cumsum(sizes), strict=True)]
    return np.frombuffer(b"".join(parts), dtype)


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
