"""Files of others: links out of them, pipes, pointers, numbers that take all memory, and damaged MATLAB files."""

import base64
import os
import re
import tracemalloc
from itertools import product

import h5py
import meshio
import numpy as np
import pytest
from scipy.io import loadmat, savemat

from skop import load
from skop.cli import main
from skop.data import read_meshes
from skop.data._file_guards import check_hdf5, check_matlab, check_npz, check_vtk, hdf5_array
from skop.data._vtu import _opened, _vtu_numbers
from skop.exceptions import FieldDataError, ModelFileError

#: Place of the type of the numbers in a MATLAB file that holds one array with a name of one letter.
TYPE_OF_NUMBERS = 128 + 8 + 16 + 16 + 8
POINTS = np.random.default_rng(0).random((9, 3))
MESH = meshio.Mesh(POINTS, [("triangle", np.arange(9).reshape(3, 3))], point_data={"u": np.arange(9.0)})


# ---------------------------------------------------------------------- MATLAB
@pytest.mark.parametrize("compressed", [False, True])
def test_whole_matlab_files_pass(tmp_path, compressed):
    """Numbers, complex and sparse ones, text, cells, structures and nothing are all known."""
    from scipy.sparse import csc_array

    content = {
        "a": np.arange(12.0).reshape(3, 4),
        "z": np.array([1j, 2.0]),
        "s": csc_array(np.eye(3)),
        "text": "some words",
        "cell": np.array([np.arange(3), "x", np.array([[1.0]])], dtype=object),
        "struct": {"x": 1.0, "y": {"z": np.arange(4)}},
        "none": np.zeros((0, 2)),
    }
    savemat(tmp_path / "a.mat", content, do_compression=compressed)
    check_matlab(tmp_path / "a.mat")
    assert set(content) < set(loadmat(tmp_path / "a.mat"))


def test_unknown_types_of_numbers_are_refused_before_scipy_reads_them(tmp_path):
    """Each of these bytes ends the interpreter in scipy's reader."""
    for number in [8, 10, 14, 15, 19, 20, 64, 255]:
        savemat(tmp_path / "a.mat", {"a": np.arange(40.0)})
        content = bytearray((tmp_path / "a.mat").read_bytes())
        assert content[TYPE_OF_NUMBERS] == 9  # double precision
        content[TYPE_OF_NUMBERS] = number
        (tmp_path / "a.mat").write_bytes(content)
        with pytest.raises(FieldDataError, match=f"numbers of the type {number}"):
            check_matlab(tmp_path / "a.mat")


def test_damage_inside_compressed_cells_and_shapes_is_found(tmp_path):
    """The walk goes into compressed elements, cells, and the shapes of text."""
    import zlib

    def written(name, change):
        raw = bytearray(zlib.decompress(content[136:]))
        change(raw)
        packed = zlib.compress(bytes(raw))
        (tmp_path / name).write_bytes(content[:132] + len(packed).to_bytes(4, "little") + packed)
        return tmp_path / name

    savemat(tmp_path / "a.mat", {"c": np.array([np.arange(5.0), "x"], dtype=object)}, do_compression=True)
    content = (tmp_path / "a.mat").read_bytes()
    check_matlab(written("same.mat", lambda raw: None))
    place = zlib.decompress(content[136:]).rindex(b"\x09\x00\x00\x00\x28\x00\x00\x00")
    with pytest.raises(FieldDataError, match="numbers of the type 100"):
        check_matlab(written("type.mat", lambda raw: raw.__setitem__(place, 100)))
    with pytest.raises(FieldDataError, match="shape has 0 bytes"):
        check_matlab(written("shape.mat", lambda raw: raw.__setitem__(28, 0)))


def test_loaders_and_the_command_line_check_matlab_files(tmp_path):
    """Both ways into scipy's reader have the check before them."""
    from skop.data.forms.files import read_arrays
    from skop.datasets import load_darcy

    path = tmp_path / "piececonst_r421_N1024_smooth1.mat"
    savemat(path, {"coeff": np.arange(40.0)})
    content = bytearray(path.read_bytes())
    content[content.index(b"coeff") + 8] = 200
    path.write_bytes(content)
    with pytest.raises(FieldDataError, match="numbers of the type 200"):
        load_darcy(path, subset="train")
    with pytest.raises(FieldDataError, match="numbers of the type 200"):
        read_arrays(path, dict.fromkeys(("x", "y", "coords", "params")), "auto", needs_targets=True)


# ---------------------------------------------------------------------- HDF5
@pytest.fixture
def linked(tmp_path):
    """A file with an array of its own, and links to one in another folder in every way that HDF5 has."""
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    secret = tmp_path / "out" / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["u"] = np.arange(9.0) + 41
    (np.arange(9.0) + 41).tofile(tmp_path / "out" / "secret.bin")
    with h5py.File(tmp_path / "in" / "data.h5", "w") as file:
        file["own"] = np.arange(9.0)
        file["group/same"] = h5py.SoftLink("/own")
        file["external"] = h5py.ExternalLink(str(secret), "u")
        file["soft"] = h5py.SoftLink("/external")
        file.create_dataset("raw", shape=(9,), dtype="f8", external=[(str(tmp_path / "out" / "secret.bin"), 0, 72)])
        layout = h5py.VirtualLayout((9,), "f8")
        layout[:] = h5py.VirtualSource(str(secret), "u", (9,))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("stated", shape=(400_000_000,), dtype="f8", chunks=(1000,))
    return tmp_path / "in" / "data.h5"


def test_arrays_outside_of_an_hdf5_file_are_refused(linked):
    for key, words in [
        ("external", "a link"),
        ("soft", "a link"),
        ("raw", "other files"),
        ("virtual", "other files"),
        ("stated", "holds 0"),
    ]:
        with h5py.File(linked) as file:
            with pytest.raises(FieldDataError, match=words):
                hdf5_array(file, key, linked)
            with pytest.raises(FieldDataError, match=r"a link|other files|states the shape"):
                check_hdf5(file, linked)
            assert np.array_equal(hdf5_array(file, "group/same", linked), np.arange(9.0))
            assert hdf5_array(file, "nothing/there", linked) is None


def test_a_ring_of_links_ends(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")
        file["group/self"] = file["/"]
        assert hdf5_array(file, "a", tmp_path / "a.h5") is None
        check_hdf5(file, tmp_path / "a.h5")


def test_loaders_do_not_follow_links(linked, tmp_path):
    """A MATLAB 7.3 file whose variable is elsewhere."""
    from skop.datasets import load_darcy

    path = tmp_path / "piececonst_r421_N1024_smooth1.mat"
    with h5py.File(path, "w") as file:
        file["coeff"] = h5py.ExternalLink(str(linked), "own")
    with pytest.raises(FieldDataError, match="'coeff' in it is a link"):
        load_darcy(path, subset="train")


# ---------------------------------------------------------------------- XDMF
def xdmf(folder, item):
    """An XDMF file whose field is given by a data item."""
    return folder / "mesh.xdmf", (
        '<Xdmf Version="3.0"><Domain><Grid Name="g"><Geometry GeometryType="XY"><DataItem DataType="Float" '
        'Dimensions="9 2" Format="XML" Precision="8">0 0 1 0 0 1 2 0 3 0 2 1 4 0 5 0 4 1</DataItem></Geometry>'
        '<Topology TopologyType="Triangle" NumberOfElements="3"><DataItem DataType="Int" Dimensions="3 3" Format="XML" '
        'Precision="8">0 1 2 3 4 5 6 7 8</DataItem></Topology><Attribute Name="u" AttributeType="Scalar" '
        f'Center="Node"><DataItem DataType="Float" Dimensions="9" Precision="8" {item}</DataItem></Attribute></Grid>'
        "</Domain></Xdmf>"
    )


@pytest.mark.parametrize(
    "item",
    [
        'Format="HDF">../out/secret.h5:/u',
        'Format="HDF">{out}/secret.h5:/u',
        'Format="HDF">data.h5:/external',
        'Format="HDF">data.h5:/soft',
        'Format="Binary">../out/secret.bin',
        'Format="Binary">{out}/secret.bin',
        'Format="Binary">pipe',
        'Format="Binary">link/secret.bin',
    ],
)
def test_xdmf_files_do_not_reach_outside_of_their_folder(linked, item):
    """Names and links that lead elsewhere are refused, and a pipe is not waited for."""
    os.mkfifo(linked.parent / "pipe")
    (linked.parent / "link").symlink_to(linked.parent.parent / "out")
    path, text = xdmf(linked.parent, item.format(out=linked.parent.parent / "out"))
    path.write_text(text)
    with pytest.raises(FieldDataError, match=r"outside of its folder|is a link|no regular file"):
        read_meshes([path], "u")


def test_xdmf_reads_files_of_its_folder_from_anywhere(linked, monkeypatch, tmp_path):
    """HDF5 and binary files beside an XDMF file are found, whatever the working directory is."""
    monkeypatch.chdir(tmp_path)
    np.arange(9.0).tofile(linked.parent / "own.bin")
    for item in ('Format="HDF">data.h5:/own', f'Format="HDF">{linked}:/group/same', 'Format="Binary">own.bin'):
        path, text = xdmf(linked.parent, item)
        path.write_text(text)
        assert np.array_equal(read_meshes([path], "u").fields.values[0, :, 0], np.arange(9.0))


# ---------------------------------------------------------------------- files that are no meshes
def test_pipes_and_pointers_are_named(tmp_path):
    """A pipe is not waited for, and a pointer of Git LFS is called one."""
    for ending in [".vtu", ".xdmf", ".wkt", ".pvd"]:
        pipe, pointer = tmp_path / f"pipe{ending}", tmp_path / f"pointer{ending}"
        os.mkfifo(pipe)
        pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
        with pytest.raises(FieldDataError, match="no regular file"):
            read_meshes([pipe])
        with pytest.raises(FieldDataError, match="git lfs pull"):
            read_meshes(str(pointer))
        with pytest.raises(FieldDataError, match="git lfs pull"):
            read_meshes(str(tmp_path / f"*{ending}"))


def test_hdf5_meshes_are_checked(tmp_path):
    meshio.write(tmp_path / "a.med", MESH)
    assert len(read_meshes([tmp_path / "a.med"], "u").fields) == 1
    with h5py.File(tmp_path / "a.med", "a") as file:
        file["more"] = h5py.ExternalLink("/elsewhere.h5", "u")
    with pytest.raises(FieldDataError, match="'more' in it is a link"):
        read_meshes([tmp_path / "a.med"], "u")


# ---------------------------------------------------------------------- VTK
def vtk_text(extent, arrays="", encoding="utf-8"):
    """An image of VTK with an extent."""
    piece = f'<Piece Extent="{extent}"><PointData>{arrays}</PointData></Piece>'
    return (
        f'<VTKFile type="ImageData"><ImageData WholeExtent="{extent}" Origin="0 0 0" Spacing="1 1 1">{piece}'
        "</ImageData></VTKFile>"
    ).encode(encoding)


ARRAY = '<DataArray type="Float64" Name="u" {}format="ascii">1 2 3 4</DataArray>'


def test_sizes_that_would_end_the_process_in_vtk_are_refused(tmp_path):
    """VTK takes stated sizes as they are; files that name each other are held against what they hold together."""
    for content, words in [
        (vtk_text("5 0 5 0 5 0"), "expected the first and last index"),
        (vtk_text("5 0 5 0 5 0", encoding="utf-16"), "expected the first and last index"),
        (vtk_text("0 999 0 999 0 999", ARRAY.format("")), "need 16,000,000,000 bytes"),
        (vtk_text("0 1 0 1 0 0", ARRAY.format('NumberOfComponents="9999999999" ')), "need 3"),
        (b'<VTKFile type="vtkMultiBlockDataSet"><DataSet index="99999999999" file="no.vti"/></VTKFile>', "need 6"),
        (vtk_text("0 1 0 1 0 0", ARRAY.format('NumberOfComponents="-1" ')), "expected a number from 0 on"),
    ]:
        (tmp_path / "a.vti").write_bytes(content)
        (tmp_path / "a.vtm").write_text('<VTKFile type="vtkMultiBlockDataSet"><DataSet file="a.vti"/></VTKFile>')
        for name in ("a.vti", "a.vtm"):
            with pytest.raises(FieldDataError, match=words):
                check_vtk(tmp_path / name)
        (tmp_path / "ring.vtm").write_text('<VTKFile type="vtkMultiBlockDataSet"><DataSet file="ring.vtm"/></VTKFile>')
        with pytest.raises(FieldDataError, match="name each other"):
            check_vtk(tmp_path / "ring.vtm")


@pytest.mark.parametrize("ending", [".vti", ".vtr", ".vts", ".vtp"])
def test_whole_vtk_files_pass(tmp_path, ending):
    """A constant field of up to two million numbers, which is compressed as far as VTK does, is no damage."""
    pyvista = pytest.importorskip("pyvista")
    image = pyvista.ImageData(dimensions=(200, 100, 100) if ending in (".vti", ".vtr") else (40, 50, 100))
    image["u"] = np.zeros(image.n_points)
    data = {".vti": lambda: image, ".vtr": image.cast_to_rectilinear_grid, ".vts": image.cast_to_structured_grid}
    mesh = data.get(ending, lambda: image.cast_to_poly_points(pass_cell_data=False))()
    mesh.save(tmp_path / f"a{ending}")
    held, points, _ = check_vtk(tmp_path / f"a{ending}")
    assert (held, points) == ((tmp_path / f"a{ending}").stat().st_size, image.n_points)


@pytest.mark.parametrize("node", [9, -1])
def test_cells_of_vtk_files_that_name_points_that_are_not_there_are_refused(tmp_path, node):
    """VTK reads such a mesh, and can end the process when it is written for meshio."""
    pyvista = pytest.importorskip("pyvista")
    pyvista.PolyData(POINTS, [3, 0, 1, 2]).save(tmp_path / "a.vtp", binary=False)
    text, count = re.subn(r"\b0 1 2\b", f"0 1 {node}", (tmp_path / "a.vtp").read_text())
    assert count == 1
    (tmp_path / "a.vtp").write_text(text)
    with pytest.raises(FieldDataError, match=f"a cell that names the point {node:,}"):
        read_meshes([tmp_path / "a.vtp"])


def lz4(content):
    """Bytes that are compressed as VTK does it, behind the numbers of blocks and bytes."""
    core = pytest.importorskip("vtkmodules.vtkIOCore")
    space = bytearray(1000)
    size = core.vtkLZ4DataCompressor().Compress(content, len(content), space, len(space))
    head = np.array([1, 2**15, len(content), size], dtype="<i8").tobytes()
    return base64.b64encode(head) + base64.b64encode(bytes(space[:size]))


def test_cells_of_vtk_files_that_end_beyond_their_nodes_are_refused(tmp_path):
    """VTK makes room for as many nodes as the last offset says, and ends the process where there is no room."""
    for end, form in product([10**12, -5, 4], ["ascii", "binary", "appended", "appended, lz4"]):
        form, _, is_lz4 = form.partition(", ")
        compressor = ' compressor="vtkLZ4DataCompressor"' if is_lz4 else ""
        # Data behind their size: two numbers, of which the first is that of bytes.
        encoded = str(end) if form == "ascii" else base64.b64encode(np.array([8, end], dtype="<i8").tobytes()).decode()
        if compressor:
            encoded = lz4(np.array(end, dtype="<i8").tobytes()).decode()
        head = 'type="Int64" Name="offsets"'
        inline = (
            f'<DataArray {head} format="appended" offset="0"/>'
            if form == "appended"
            else (f'<DataArray {head} format="{form}">{encoded}</DataArray>')
        )
        tail = f'<AppendedData encoding="base64">_{encoded}</AppendedData>' if form == "appended" else ""
        (tmp_path / "a.vtp").write_text(
            '<VTKFile type="PolyData" version="1.0" byte_order="LittleEndian" header_type="UInt64"'
            f"{compressor}><PolyData>"
            '<Piece NumberOfPoints="3" NumberOfPolys="1"><Points><DataArray type="Float64" NumberOfComponents="3" '
            'format="ascii">0 0 0 1 0 0 0 1 0</DataArray></Points><Polys><DataArray type="Int64" Name="connectivity" '
            f'format="ascii">0 1 2</DataArray>{inline}</Polys></Piece></PolyData>{tail}</VTKFile>'
        )
        with pytest.raises(FieldDataError, match=f"end at the nodes {end:,} to {end:,} of a list of 3"):
            check_vtk(tmp_path / "a.vtp")
        (tmp_path / "whole.vtp").write_text((tmp_path / "a.vtp").read_text().replace(f">{end}<", ">3<"))
        if form == "ascii":
            check_vtk(tmp_path / "whole.vtp")


@pytest.mark.parametrize("mode", ["Appended", "Binary"])
@pytest.mark.parametrize("compressor", ["LZ4", "ZLib", "LZMA"])
def test_compressed_numbers_of_many_blocks_are_those_that_vtk_wrote(tmp_path, mode, compressor):
    pyvista = pytest.importorskip("pyvista")
    writer = pytest.importorskip("vtkmodules.vtkIOXML").vtkXMLPolyDataWriter()
    triangles = np.insert(np.arange(36000).reshape(-1, 3) % 9, 0, 3, axis=1)
    writer.SetInputData(pyvista.PolyData(POINTS, triangles.ravel()))
    writer.SetFileName(str(tmp_path / "a.vtp"))
    getattr(writer, f"SetCompressorTypeTo{compressor}")()
    getattr(writer, f"SetDataModeTo{mode}")()
    writer.Write()
    root, appended, is_raw = _opened((tmp_path / "a.vtp").read_bytes())
    (tag,) = (tag for tag in root.find(".//Polys").iter("DataArray") if tag.get("Name") == "offsets")
    found = _vtu_numbers(root, tag, appended, is_raw)
    assert root.get("compressor") == f"vtk{compressor}DataCompressor"
    np.testing.assert_array_equal(found, 3 * np.arange(1, 12001))


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, 2**40, "16 bytes expected|bytes expected where the file has"),
        (0, 0, "states 0 blocks of 32768 bytes, the last of 72"),
        (1, 0, "states 1 blocks of 0 bytes, the last of 72"),
        (2, 2**33, "states 1 blocks of 32768 bytes, the last of 8589934592"),
        (3, 2**62, "bytes in 4611686018427387904 compressed ones"),
    ],
)
def test_heads_of_compressed_arrays_that_would_end_the_process_are_refused(tmp_path, place, value, words):
    """VTK makes room for as many blocks and bytes as a head says, and divides by their size."""
    pyvista = pytest.importorskip("pyvista")
    image = pyvista.ImageData(dimensions=(3, 3, 1))
    image["u"] = np.arange(9.0)
    writer = pytest.importorskip("vtkmodules.vtkIOXML").vtkXMLImageDataWriter()
    writer.SetInputData(image)
    writer.SetFileName(str(tmp_path / "a.vti"))
    writer.SetHeaderTypeToUInt64()
    writer.EncodeAppendedDataOff()
    writer.Write()
    content = bytearray((tmp_path / "a.vti").read_bytes())
    head = content.index(b"_", content.index(b"<AppendedData")) + 1
    assert np.frombuffer(content, "<u8", 3, head).tolist() == [1, 2**15, 72]
    check_vtk(tmp_path / "a.vti")
    content[head + 8 * place : head + 8 * place + 8] = value.to_bytes(8, "little")
    (tmp_path / "a.vti").write_bytes(content)
    with pytest.raises(FieldDataError, match=f"cannot be decoded .*({words})"):
        read_meshes([tmp_path / "a.vti"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (">42<", ">42<", None),
        (">17<", ">1000000000000<", "end at 17, and not at 1000000000000"),
        (">4 3 0", ">1000000000000 3 0", "index out of range"),
        (">4 3 0", ">4 -5 0", "a face has -5 nodes"),
        (" 0 2 3<", "<", "end at 17 of 14 numbers"),
        (">0 1 2 3<", ">0 1 2 4<", "names the point 4, but has 4 points"),
    ],
)
def test_faces_of_polyhedra_are_checked_before_vtk_reads_them(tmp_path, old, new, words):
    pytest.importorskip("pyvista")

    def array(kind, name, numbers):
        return f'<DataArray type="{kind}" Name="{name}" format="ascii">{numbers}</DataArray>'

    text = (
        '<VTKFile type="UnstructuredGrid" version="1.0" compressor="vtkLZ4DataCompressor"><UnstructuredGrid>'
        '<Piece NumberOfPoints="4" NumberOfCells="1"><Points><DataArray type="Float64" NumberOfComponents="3" '
        'format="ascii">0 0 0 1 0 0 0 1 0 0 0 1</DataArray></Points><Cells>'
        + array("Int64", "connectivity", "0 1 2 3")
        + array("Int64", "offsets", "4")
        + array("UInt8", "types", "42")
        + array("Int64", "faces", "4 3 0 1 2 3 0 1 3 3 1 2 3 3 0 2 3")
        + array("Int64", "faceoffsets", "17")
        + "</Cells></Piece></UnstructuredGrid></VTKFile>"
    )
    assert text.count(old) == 1
    (tmp_path / "a.vtu").write_text(text.replace(old, new))
    if words is None:
        assert read_meshes([tmp_path / "a.vtu"]).meshes[0].cells[0].type == "polyhedron4"
        return
    with pytest.raises(FieldDataError, match=words):
        read_meshes([tmp_path / "a.vtu"])


@pytest.mark.parametrize(
    ("key", "place", "value", "words"),
    [
        ("Polygons/Offsets", 1, 10**12, "end at the nodes 0 to 1,000,000,000,000 of a list of 6"),
        ("Polygons/Offsets", 1, -5, "end at the nodes -5 to 6"),
        ("Polygons/Offsets", 1, 7, "end at the nodes 0 to 7"),
        ("Polygons/Connectivity", 0, 10**12, "names the point 1,000,000,000,000, but has 6 points"),
        ("Polygons/Connectivity", 5, -1, "names the point -1, but has 6 points"),
    ],
)
@pytest.mark.parametrize("n_blocks", [0, 2])
def test_cells_of_vtkhdf_files_are_checked_before_they_are_used(tmp_path, key, place, value, words, n_blocks):
    """VTK ends the process on most of these, and reads others as another mesh."""
    pyvista = pytest.importorskip("pyvista")
    writer = pytest.importorskip("vtkmodules.vtkIOHDF").vtkHDFWriter()
    mesh = pyvista.PolyData(POINTS[:6], [3, 0, 1, 2, 3, 3, 4, 5])
    writer.SetInputData(pyvista.MultiBlock([mesh] * n_blocks) if n_blocks else mesh)
    writer.SetFileName(str(tmp_path / "a.vtkhdf"))
    writer.Write()
    assert len(read_meshes([tmp_path / "a.vtkhdf"]).meshes[0].points) == 6 * max(n_blocks, 1)
    with h5py.File(tmp_path / "a.vtkhdf", "r+") as file:
        file["VTKHDF/" + ("Block_1/" if n_blocks else "") + key][place] = value
    with pytest.raises(FieldDataError, match=words):
        read_meshes([tmp_path / "a.vtkhdf"])


def test_pipes_that_vtk_would_wait_for_are_named(tmp_path):
    os.mkfifo(tmp_path / "pipe.vtu")
    (tmp_path / "a.pvtu").write_text(
        '<VTKFile type="PUnstructuredGrid"><PUnstructuredGrid><Piece Source="pipe.vtu"/></PUnstructuredGrid></VTKFile>'
    )
    with pytest.raises(FieldDataError, match=r"pipe\.vtu: it is no regular file"):
        read_meshes([tmp_path / "a.pvtu"])


def test_archives_and_models_that_do_not_fit_the_memory_are_refused_unread(tmp_path, monkeypatch, capsys):
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((10**4, 100)), y=np.zeros(10**4))
    assert (tmp_path / "bomb.npz").stat().st_size < 10**5
    check_npz(tmp_path / "bomb.npz")
    monkeypatch.setattr("skop.data._file_guards.free_memory", lambda: 10**6)
    monkeypatch.setattr("numpy.load", lambda *_, **__: pytest.fail("it was read"))
    assert main(["describe", str(tmp_path / "bomb.npz")]) == 2
    assert "its arrays take 8,080," in capsys.readouterr().err
    with (tmp_path / "hole.skop").open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(ModelFileError, match="4,398,046,511,104 bytes"):
        load(tmp_path / "hole.skop")


# ---------------------------------------------------------------------- Gmsh, XML, AVS
def gmsh_text(version, tag):
    """A triangle whose last node has a number, as text of Gmsh."""
    if version == "2.2":
        nodes, cells = f"3\n1 0 0 0\n2 1 0 0\n{tag} 0 1 0", f"1\n1 2 2 0 1 1 2 {tag}"
    else:
        nodes = f"1 3 1 {tag}\n2 1 0 3\n1\n2\n{tag}\n0 0 0\n1 0 0\n0 1 0"
        cells = f"1 1 1 1\n2 1 2 1\n1 1 2 {tag}"
    head = f"$MeshFormat\n{version} 0 8\n$EndMeshFormat\n"
    return f"{head}$Nodes\n{nodes}\n$EndNodes\n$Elements\n{cells}\n$EndElements\n"


@pytest.mark.parametrize("version", ["2.2", "4.1"])
def test_numbers_of_nodes_do_not_take_the_memory(tmp_path, version):
    """150 bytes do not make a table of 8 GB; gaps in the numbers are allowed."""
    (tmp_path / "a.msh").write_text(gmsh_text(version, 10**9))
    tracemalloc.start()
    with pytest.raises(FieldDataError, match="a node has the number 1,000,000,000"):
        read_meshes([tmp_path / "a.msh"])
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
    (tmp_path / "a.msh").write_text(gmsh_text(version, 5000))
    assert read_meshes([tmp_path / "a.msh"]).fields.n_points.tolist() == [3]


def test_numbers_of_nodes_in_binary_files(tmp_path):
    meshio.write(tmp_path / "a.msh", MESH, file_format="gmsh")
    content = bytearray((tmp_path / "a.msh").read_bytes())
    place = content.index(b"$Nodes\n") + 7 + 32 + 20
    assert int.from_bytes(content[place : place + 8], "little") == 1
    read_meshes([tmp_path / "a.msh"])
    content[place : place + 8] = (10**9).to_bytes(8, "little")
    (tmp_path / "a.msh").write_bytes(content)
    with pytest.raises(FieldDataError, match="a node has the number 1,000,000,000"):
        read_meshes([tmp_path / "a.msh"])


def test_entities_and_empty_tetgen_files_are_refused(tmp_path):
    """Entities can grow without end; meshio looks for numbers behind the end of TetGen files without any."""
    declared = '<!DOCTYPE a [<!ENTITY a "x">]><VTKFile type="UnstructuredGrid"/>'
    for content in (declared.encode(), declared.encode("utf-16"), f"<!--{'x' * 70_000}-->{declared}".encode()):
        (tmp_path / "a.vtu").write_bytes(content)
        with pytest.raises(FieldDataError, match="declares XML entities"):
            read_meshes([tmp_path / "a.vtu"])
    for name in ("a.node", "a.ele"):
        (tmp_path / name).write_text("# nothing\n\n")
    with pytest.raises(FieldDataError, match=r"a\.node holds no numbers"):
        read_meshes([tmp_path / "a.ele"])


def test_inp_files_of_avs_are_told_from_those_of_abaqus(tmp_path):
    """AVS uses the ending .inp too; its values arrive exactly as the file holds them."""
    meshio.write(tmp_path / "avs.inp", MESH, file_format="avsucd")
    assert np.array_equal(read_meshes([tmp_path / "avs.inp"], "u").fields.values[0, :, 0], np.arange(9.0))
    meshio.write(tmp_path / "abaqus.inp", MESH, file_format="abaqus")
    assert read_meshes([tmp_path / "abaqus.inp"]).fields.n_points.tolist() == [9]


def test_fields_of_avs_whose_names_become_one_are_refused(tmp_path):
    """The file states two fields, of which meshio keeps the last under the name of both."""
    for names, is_refused in ((("a b", "a_b"), True), (("x,y", "x,z"), True), (("a b", "c"), False)):
        fields = {name: np.arange(9.0) + number for number, name in enumerate(names)}
        mesh = meshio.Mesh(POINTS, MESH.cells, point_data=fields, cell_data={"e": [np.ones((3, 2))]})
        meshio.write(tmp_path / "a.avs", mesh)
        if is_refused:
            with pytest.raises(FieldDataError, match="states 2 components of fields on points, but 1 are left"):
                read_meshes([tmp_path / "a.avs"])
        else:
            assert np.array_equal(read_meshes([tmp_path / "a.avs"], "a_b").fields.values[0, :, 0], np.arange(9.0))
