"""Files of VTK's XML format in all their layouts, against the numbers written; the writer is the test's own."""

import base64
import lzma
import zlib
from itertools import product

import meshio
import numpy as np
import pytest

from skop.data import read_meshes
from skop.data._mesh_cells import average_on_points
from skop.exceptions import FieldDataError

#: VTK's numbers of cell types, their corners, and the order in which meshio names the corners.
KINDS = {
    "vertex": (1, 1, None),
    "line": (3, 2, None),
    "triangle": (5, 3, None),
    "polygon": (7, 5, None),
    "quad": (9, 4, None),
    "tetra": (10, 4, None),
    "hexahedron": (12, 8, None),
    "wedge": (13, 6, [0, 2, 1, 3, 5, 4]),
    "triangle6": (22, 6, None),
}
COMPRESSORS = {
    "vtkZLibDataCompressor": zlib.compress,
    "vtkLZMADataCompressor": lambda data: lzma.compress(data, preset=0),
}


def vtk_type(array):
    return {"f": "Float", "i": "Int", "u": "UInt"}[array.dtype.kind] + str(8 * array.dtype.itemsize)


class Layout:
    """How a file is written."""

    def __init__(
        self, form="raw", header="UInt32", byte_order="LittleEndian", compressor=None, rng=None, block=504, gaps=False
    ):
        self.form, self.header, self.byte_order, self.compressor = form, header, byte_order, compressor
        self.rng, self.block, self.gaps = rng, block, gaps
        self.mark = "<" if byte_order == "LittleEndian" else ">"

    def shuffled(self, items):
        items = list(items)
        return items if self.rng is None else [items[i] for i in self.rng.permutation(len(items))]

    def numbers(self, *values):
        return np.array(values, dtype=f"{self.mark}u{int(self.header[4:]) // 8}").tobytes()

    def encoded(self, array):
        """An array with its header, as bytes or base64."""
        data = array.astype(array.dtype.newbyteorder(self.mark)).tobytes()
        text = bytes if self.form == "raw" else base64.b64encode
        if self.compressor is None:
            return text(self.numbers(len(data)) + data)
        parts = [data[start : start + self.block] for start in range(0, len(data), self.block)]
        packed = [COMPRESSORS[self.compressor](part) for part in parts]
        last = len(parts[-1]) % self.block if parts else 0
        return text(self.numbers(len(parts), self.block, last, *map(len, packed))) + text(b"".join(packed))


def write_vtu(path, pieces, layout):
    """Write pieces, each a dict from section to a dict of arrays."""
    arrays = [array for piece in pieces for section in piece.values() for array in section.values()]
    offsets, blob = {}, b""
    for array in layout.shuffled(arrays):
        if layout.gaps:
            blob += b"\n_A=" * layout.rng.integers(0, 3)
        offsets[id(array)] = len(blob)
        blob += layout.encoded(array)
    body = ""
    for piece in pieces:
        counts = len(piece["Points"]["Points"]), len(piece["Cells"]["types"])
        body += f'<Piece NumberOfPoints="{counts[0]}" NumberOfCells="{counts[1]}">'
        for section in layout.shuffled(piece):
            body += f"<{section}>"
            for name, array in piece[section].items():
                tag = f'<DataArray type="{vtk_type(array)}" Name="{name}"'
                tag += f' NumberOfComponents="{array.shape[1]}"' if array.ndim == 2 else ""
                if layout.form == "ascii":
                    body += f'{tag} format="ascii">{" ".join(map(repr, array.ravel().tolist()))}</DataArray>'
                elif layout.form == "inline":
                    body += f'{tag} format="binary">\n{layout.encoded(array).decode()}\n</DataArray>'
                else:
                    body += f'{tag} format="appended" offset="{offsets[id(array)]}"/>'
            body += f"</{section}>"
        body += "</Piece>"
    head = (
        f'<VTKFile type="UnstructuredGrid" version="0.1" byte_order="{layout.byte_order}" header_type="{layout.header}"'
    )
    head += f' compressor="{layout.compressor}">' if layout.compressor else ">"
    content = f'<?xml version="1.0"?>\n{head}<UnstructuredGrid>{body}</UnstructuredGrid>'.encode()
    if layout.form in ("raw", "base64"):
        content += f'\n  <AppendedData encoding="{layout.form}">\n   _'.encode() + blob + b"\n  </AppendedData>\n"
    path.write_bytes(content + b"</VTKFile>\n")


def random_piece(rng, n_points, kinds, widths):
    """A piece of random numbers, whose points are all in cells, and the same cells as meshio has them."""
    connectivity, types, sizes, blocks = [np.arange(n_points)], [np.full(n_points, 1)], [np.full(n_points, 1)], []
    blocks.append(("vertex", np.arange(n_points)[:, None]))
    for kind in kinds:
        number, size, order = KINDS[kind]
        nodes = rng.integers(0, n_points, (rng.integers(1, 9), size))
        connectivity.append(nodes.ravel())
        types.append(np.full(len(nodes), number))
        sizes.append(np.full(len(nodes), size))
        blocks.append((kind, nodes if order is None else nodes[:, order]))
    n_cells = sum(len(nodes) for _, nodes in blocks)
    dtypes = {"f": np.float64, "s": np.float32, "i": np.int32, "c": np.uint8, "l": np.int64}

    def fields(prefix, count):
        return {
            f"{prefix}{name}": (100 * rng.random((count, width) if width else count)).astype(dtypes[name[0]])
            for name, width in widths.items()
        }

    piece = {
        "PointData": fields("p", n_points),
        "CellData": fields("c", n_cells),
        "Points": {"Points": rng.random((n_points, 3))},
        "Cells": {
            "connectivity": np.concatenate(connectivity).astype(rng.choice(["i4", "i8"])),
            "offsets": np.cumsum(np.concatenate(sizes)).astype("i8"),
            "types": np.concatenate(types).astype("u1"),
        },
    }
    return piece, blocks


def expected_mesh(pieces, blocks):
    """What a file of these pieces holds."""
    starts = np.cumsum([0] + [len(piece["Points"]["Points"]) for piece in pieces])
    cells = [(kind, nodes + start) for start, part in zip(starts, blocks, strict=False) for kind, nodes in part]
    points = np.concatenate([piece["Points"]["Points"] for piece in pieces])
    joined = {
        section: {name: np.concatenate([piece[section][name] for piece in pieces]) for name in pieces[0][section]}
        for section in ("PointData", "CellData")
    }
    ends = np.cumsum([len(nodes) for _, nodes in cells])[:-1]
    cell_data = {name: np.split(array, ends) for name, array in joined["CellData"].items()}
    return meshio.Mesh(points, cells, joined["PointData"], cell_data)


def check(path, mesh):
    """The file, as it is read, holds the mesh."""
    names = [*mesh.point_data, *mesh.cell_data]
    samples = read_meshes(path, names, cell_data="to_points")
    (found,) = samples.meshes
    np.testing.assert_array_equal(found.points, mesh.points)
    for name, data in mesh.point_data.items():
        np.testing.assert_array_equal(samples.select(name).values[0], data.reshape(len(mesh.points), -1))
    for name in mesh.cell_data:
        # Blocks that come as one are summed in another order.
        np.testing.assert_allclose(samples.select(name).values[0], average_on_points(mesh, name, "the mesh"), rtol=1e-6)
    nodes = [(block.type, row.tolist()) for block in mesh.cells for row in block.data]
    assert [(block.type, row.tolist()) for block in found.cells for row in block.data] == nodes


def random_case(seed, n_pieces=1, most=400):
    rng = np.random.default_rng(seed)
    kinds = [str(kind) for kind in rng.choice([*KINDS], rng.integers(0, 5))]
    named = rng.permutation(["f", "f_2", "s", "i", "l", "c"])[: rng.integers(1, 7)]
    widths = {str(name): int(rng.choice([0, 1, 2, 3, 9])) for name in named}
    parts = [random_piece(rng, int(rng.integers(1, most + 1)), kinds, widths) for _ in range(n_pieces)]
    pieces, blocks = [piece for piece, _ in parts], [block for _, block in parts]
    return rng, pieces, expected_mesh(pieces, blocks)


# ---------------------------------------------------------------------- layouts
def test_raw_appended_data_in_any_layout(tmp_path):
    for compressor, byte_order, header in product(
        [None, *COMPRESSORS], ["LittleEndian", "BigEndian"], ["UInt32", "UInt64"]
    ):
        for seed in range(12 if compressor is None else 4):
            rng, pieces, mesh = random_case(seed)
            layout = Layout(
                "raw", header, byte_order, compressor, rng, int(8 * rng.integers(40, 400)), gaps=seed % 4 == 0
            )
            write_vtu(tmp_path / "a.vtu", pieces, layout)
            check(tmp_path / "a.vtu", mesh)


def test_the_layout_of_vtks_own_writer(tmp_path):
    """Point data come first; a vector and two scalars follow each other."""
    for n_points in (*range(1, 30), 100, 255, 256, 257, 399):
        rng = np.random.default_rng(n_points)
        piece, blocks = random_piece(rng, n_points, ["triangle"], {})
        piece["PointData"] = {
            "U": rng.random((n_points, 3)),
            "p": np.full(n_points, 1.0),
            "T": np.full(n_points, 300.0),
        }
        write_vtu(tmp_path / "a.vtu", [piece], Layout())
        check(tmp_path / "a.vtu", expected_mesh([piece], [blocks]))


def test_pieces_are_joined(tmp_path):
    for form, compressor, n_pieces, seed in product(
        ["ascii", "inline", "base64", "raw"], [None, "vtkZLibDataCompressor"], [1, 3], range(4)
    ):
        rng, pieces, mesh = random_case(100 + seed, n_pieces, most=400 if seed < 2 else 2)
        header = "UInt64" if seed % 2 else "UInt32"
        write_vtu(tmp_path / "a.vtu", pieces, Layout(form, header, "LittleEndian", compressor, rng))
        check(tmp_path / "a.vtu", mesh)


def test_pieces_without_cells_or_points(tmp_path):
    _, pieces, mesh = random_case(1)
    empty = {section: {name: array[:0] for name, array in arrays.items()} for section, arrays in pieces[0].items()}
    write_vtu(tmp_path / "a.vtu", [empty, *pieces, empty], Layout())
    check(tmp_path / "a.vtu", mesh)


@pytest.mark.parametrize("form", ["inline", "raw"])
def test_point_clouds(tmp_path, form):
    _, (piece,), _ = random_case(2)
    piece["Cells"] = {name: array[:0] for name, array in piece["Cells"].items()}
    piece["CellData"] = {}
    write_vtu(tmp_path / "a.vtu", [piece], Layout(form))
    check(tmp_path / "a.vtu", meshio.Mesh(piece["Points"]["Points"], [], piece["PointData"]))


def test_point_clouds_written_by_meshio(tmp_path):
    cloud = meshio.Mesh(np.random.default_rng(0).random((20, 3)), [], {"s": np.arange(20.0)})
    cloud.write(tmp_path / "a.vtu")
    check(tmp_path / "a.vtu", cloud)


def test_polyhedra(tmp_path):
    """A cube and a tetrahedron in its corner, in both forms that VTK writes."""
    for version, form in product(["1.0", "2.3"], ["raw", "inline"]):
        corners = np.array([[x, y, z] for z in (0.0, 1) for y in (0, 1) for x in (0, 1)])
        faces = [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]]
        small = [[0, 1, 2], [0, 1, 4], [0, 2, 4], [1, 2, 4]]
        rows = [[len(own), *(number for face in own for number in (len(face), *face))] for own in (faces, small)]
        early = {"faces": np.concatenate(rows), "faceoffsets": np.cumsum([len(row) for row in rows])}
        late = {
            "face_connectivity": np.concatenate([*faces, *small]),
            "face_offsets": np.cumsum([len(face) for face in (*faces, *small)]),
            "polyhedron_to_faces": np.arange(10),
            "polyhedron_offsets": np.array([6, 10]),
        }
        cells = {
            "connectivity": np.array([*range(8), 0, 1, 2, 4]),
            "offsets": np.array([8, 12]),
            "types": np.array([42, 42], dtype="u1"),
            **(early if version == "1.0" else late),
        }
        piece = {"PointData": {"s": np.arange(8.0)}, "Points": {"Points": corners}, "Cells": cells}
        write_vtu(tmp_path / "a.vtu", [piece], Layout(form))
        content = (tmp_path / "a.vtu").read_bytes().replace(b'version="0.1"', f'version="{version}"'.encode())
        (tmp_path / "a.vtu").write_bytes(content)
        samples = read_meshes(tmp_path / "a.vtu", "s")
        np.testing.assert_array_equal(samples.fields.values[0, :, 0], np.arange(8))
        found = {block.type: [[*map(int, face)] for face in block.data[0]] for block in samples.meshes[0].cells}
        assert found == {"polyhedron8": faces, "polyhedron4": small}


def test_offsets_with_spaces_and_data_that_looks_like_marks(tmp_path):
    rng = np.random.default_rng(0)
    marks = np.frombuffer(b"\n  </AppendedData>\n</VTKFile>_<Piece>", dtype="u1")
    piece, blocks = random_piece(rng, len(marks), [], {})
    piece["PointData"] = {"marks": marks, "s": rng.random(len(marks))}
    write_vtu(tmp_path / "a.vtu", [piece], Layout())
    content = (tmp_path / "a.vtu").read_bytes().replace(b'offset="0"', b'offset="   0 "')
    # Data may end right before the closing tag.
    (tmp_path / "a.vtu").write_bytes(
        content.replace(b"\n  </AppendedData>\n</VTKFile>\n", b"</AppendedData></VTKFile>")
    )
    check(tmp_path / "a.vtu", expected_mesh([piece], [blocks]))


def test_field_data_and_arrays_of_text_are_passed_over(tmp_path):
    for form, compressor in product(["ascii", "inline", "base64", "raw"], [None, "vtkZLibDataCompressor"]):
        _, pieces, mesh = random_case(3)
        write_vtu(tmp_path / "a.vtu", pieces, Layout(form, compressor=compressor))
        extra = b'<UnstructuredGrid><FieldData><Array type="String" Name="note" format="ascii">65 0</Array></FieldData>'
        (tmp_path / "a.vtu").write_bytes((tmp_path / "a.vtu").read_bytes().replace(b"<UnstructuredGrid>", extra))
        check(tmp_path / "a.vtu", mesh)


# ---------------------------------------------------------------------- files that cannot be read
@pytest.mark.parametrize("compressor", [None, "vtkZLibDataCompressor"])
def test_raw_files_that_were_cut_off(tmp_path, compressor):
    _, pieces, mesh = random_case(4)
    path = tmp_path / "a.vtu"
    write_vtu(path, pieces, Layout(compressor=compressor))
    content = path.read_bytes()
    end = content.rindex(b"\n  </AppendedData>")
    for size in (*range(end - 40, end), *np.linspace(1, end - 50, 60).astype(int)):
        path.write_bytes(content[:size])
        with pytest.raises(FieldDataError, match=r"cannot read .*a\.vtu"):
            read_meshes(path)
    # Nothing is lost with the closing tags.
    path.write_bytes(content[:end])
    check(path, mesh)


def test_wrong_sizes_are_found(tmp_path):
    _, pieces, _ = random_case(5)
    write_vtu(tmp_path / "a.vtu", pieces, Layout())
    (tmp_path / "a.vtu").write_bytes(
        (tmp_path / "a.vtu").read_bytes().replace(b'NumberOfPoints="', b'NumberOfPoints="1')
    )
    with pytest.raises(FieldDataError, match=r"cannot read .*a\.vtu.* holds \d+ numbers; expected 1\d+ times"):
        read_meshes(tmp_path / "a.vtu")


def test_pieces_with_other_fields(tmp_path):
    _, pieces, _ = random_case(6, 2)
    pieces[1]["PointData"] = {"other": np.ones(len(pieces[1]["Points"]["Points"]))}
    write_vtu(tmp_path / "a.vtu", pieces, Layout())
    with pytest.raises(FieldDataError, match=r"piece 1 has point data \['other'\]"):
        read_meshes(tmp_path / "a.vtu")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"UnstructuredGrid"', b'"PolyData"', "holds VTK PolyData; expected UnstructuredGrid"),
    ],
)
@pytest.mark.parametrize("form", ["raw", "inline"])
def test_kinds_without_a_reader_are_named(tmp_path, old, new, message, form):
    _, pieces, _ = random_case(7)
    write_vtu(tmp_path / "a.vtu", pieces, Layout(form))
    (tmp_path / "a.vtu").write_bytes((tmp_path / "a.vtu").read_bytes().replace(old, new))
    with pytest.raises(FieldDataError, match=message) as error:
        read_meshes(tmp_path / "a.vtu")
    assert "damaged" not in str(error.value)
