"""Files of meshes: what counts as meshes, formats there and back, the order of files, and files that cannot be read."""

import contextlib
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import meshio
import numpy as np
import pytest

from skop import FieldSet
from skop.data import _mesh_files, attach_predictions, read_meshes
from skop.data._mesh_cells import average_on_points
from skop.data._mesh_files import is_mesh_input
from skop.exceptions import FieldDataError, OptionalDependencyError, SkopWarning

from .test_meshes import SIDE, plane_mesh, stressed_mesh

SU2 = "NDIME= 2\nNELEM= 2\n5 0 1 2 0\n5 0 2 3 1\nNPOIN= 4\n0 0 0\n1 0 1\n1 1 2\n0 1 3\nNMARK= 0\n"


@pytest.fixture
def folder(tmp_path):
    """Files whose natural order is not their alphabetic one."""
    for number in (10, 2, 1):
        stressed_mesh(scale=number).write(tmp_path / f"run_{number}.vtu")
    (tmp_path / "notes.txt").write_text("not a mesh")
    return tmp_path


# ---------------------------------------------------------------------- what counts as meshes
def test_mesh_inputs():
    for source in [
        "a/*.vtu",
        Path("a.vtk"),
        ["a.vtk"],
        [plane_mesh()],
        plane_mesh(),
        np.array(["a.vtu"]),
        iter(["a.vtu"]),
    ]:
        assert is_mesh_input(source)


def test_other_inputs():
    for source in [
        None,
        3,
        [],
        [1, 2],
        [[1.0]],
        np.zeros((3, 2)),
        (np.eye(2), np.eye(2)),
        FieldSet(np.zeros((1, 2, 2))),
    ]:
        assert not is_mesh_input(source)


# ---------------------------------------------------------------------- formats
def test_formats_there_and_back(tmp_path):
    for with_data, (ending, options) in product(
        [False, True],
        [(".vtu", {}), (".vtk", {}), (".xdmf", {}), (".msh", {"file_format": "gmsh"}), (".inp", {}), (".stl", {})],
    ):
        holds_data = with_data and ending not in (".inp", ".stl")
        mesh = stressed_mesh() if holds_data else plane_mesh()
        mesh.write(tmp_path / f"in{ending}", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            samples = read_meshes(tmp_path / f"in{ending}", ["displacement", "stress"] if holds_data else None)
        stored = samples.meshes[0].points
        # STL stores corners of triangles, so that the reader has to find the points again.
        rows = np.lexsort(stored.T[::-1]) if ending == ".stl" else slice(None)
        np.testing.assert_array_equal(stored[rows], mesh.points)
        np.testing.assert_array_equal(samples.fields.coords.reshape(-1, 2)[rows], mesh.points[:, :2])
        assert samples.fields.coords.dtype.isnative
        if holds_data:
            assert samples.fields.values.dtype == np.dtype(float)
            assert samples.fields.channel_names == ("displacement_0", "displacement_1", "displacement_2", "stress")
            expected = np.column_stack([mesh.point_data["displacement"], mesh.point_data["stress"]])
            np.testing.assert_array_equal(samples.fields.values[0], expected)

        prediction = FieldSet(stored, np.arange(3.0 * SIDE**2).reshape(1, -1, 3), channel_names=["u_0", "u_1", "u_2"])
        (out,) = attach_predictions(samples.meshes, prediction)
        out.write(tmp_path / "out.vtu")
        again = read_meshes(tmp_path / "out.vtu", "u")
        np.testing.assert_array_equal(again.fields.values, prediction.values)
        np.testing.assert_array_equal(again.meshes[0].points, stored)
        np.testing.assert_array_equal(again.meshes[0].cells[0].data, samples.meshes[0].cells[0].data)


def test_su2_has_two_coordinates(tmp_path):
    (tmp_path / "wing.su2").write_text(SU2)
    samples = read_meshes(tmp_path / "wing.su2")
    np.testing.assert_array_equal(samples.fields.coords, [[[0, 0], [1, 0], [1, 1], [0, 1]]])
    (out,) = attach_predictions(samples.meshes, samples.fields.with_values(np.ones((1, 4, 1)), ["p"]))
    out.write(tmp_path / "out.vtu")
    assert read_meshes(tmp_path / "out.vtu", ["p"], axes=samples.axes).fields.shape == (1, 4, 1)


def test_polygons_and_polyhedra_are_point_sets(tmp_path):
    square = meshio.Mesh(np.eye(4)[:, :3], [("polygon", [[0, 1, 2, 3]])], point_data={"s": np.arange(4.0)})
    square.write(tmp_path / "polygon.vtu")
    corners = np.array([[x, y, z] for z in (0.0, 1) for y in (0, 1) for x in (0, 1)])
    faces = [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]]
    cube = meshio.Mesh(corners, [("polyhedron8", [faces])], {"s": np.arange(8.0)}, {"c": [[3.0]]})
    cube.write(tmp_path / "polyhedron.vtu")
    samples = read_meshes([tmp_path / "polygon.vtu", tmp_path / "polyhedron.vtu"], "s")
    assert samples.fields.n_points.tolist() == [4, 8]
    assert [mesh.cells[0].type for mesh in samples.meshes] == ["polygon", "polyhedron8"]
    assert read_meshes([cube, cube], "s").fields.cells is None
    np.testing.assert_array_equal(average_on_points(cube, "c", "the mesh"), np.full((8, 1), 3.0))


# ---------------------------------------------------------------------- order
def test_globs_sort_naturally_and_lists_keep_their_order(folder):
    samples = read_meshes(str(folder / "run_*.vtu"), "stress")
    assert samples.fields.values[:, 0, 0].tolist() == [1, 2, 10]
    assert [Path(name).name for name in samples.names] == ["run_1.vtu", "run_2.vtu", "run_10.vtu"]
    listed = [folder / f"run_{number}.vtu" for number in (2, 10, 2)]
    assert read_meshes(listed, "stress").fields.values[:, 0, 0].tolist() == [2, 10, 2]


def test_names_with_brackets_are_meant_literally(tmp_path):
    stressed_mesh().write(tmp_path / "run[1].vtu")
    assert len(read_meshes(tmp_path / "run[1].vtu", "stress").fields) == 1


# ---------------------------------------------------------------------- what cannot be read
def test_globs_and_files_that_are_not_there(folder):
    with pytest.raises(
        FieldDataError, match=r"no file matches .*run_\*\.vtx.* holds 4 files, such as run_\d+\.vtu, run_"
    ):
        read_meshes(str(folder / "run_*.vtx"))
    with pytest.raises(FieldDataError, match=r"no file .*run_3\.vtu.* 4 files, such as run_"):
        read_meshes([folder / "run_1.vtu", folder / "run_3.vtu"])
    with pytest.raises(FieldDataError, match=r"is a folder; pass a pattern, such as '.*/\*\.vtu'"):
        read_meshes(folder)
    with pytest.raises(FieldDataError, match=r"folder .*nowhere' does not exist"):
        read_meshes(folder / "nowhere" / "*.vtu")


def test_sources_of_the_wrong_kind():
    for source, message in [
        ([], "empty"),
        ([plane_mesh(), "a.vtu"], "item 0 is a Mesh, item 1 is not"),
        ([plane_mesh(), np.zeros(3)], "item 1 is a ndarray"),
        (iter(["a.vtu"]), "order is not known"),
        (3, "came as int"),
    ]:
        with pytest.raises(FieldDataError, match=message):
            read_meshes(source)


def test_a_reader_without_a_reason_is_named_alone(tmp_path):
    (tmp_path / "a.vtu").write_text("<VTKFile>")
    with pytest.raises(FieldDataError, match=r"\(9 bytes\): ReadError\. The file may be truncated"):
        read_meshes(tmp_path / "a.vtu")


@pytest.mark.parametrize("ending", [".vtu", ".vtk", ".xdmf", ".msh", ".inp", ".stl"])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.6])
def test_cut_off_files_never_end_the_program(tmp_path, capfd, ending, part):
    path = tmp_path / f"whole{ending}"
    plane_mesh().write(path, **({"file_format": "gmsh"} if ending == ".msh" else {}))
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    if ending in (".inp", ".stl"):
        # Text without counts or an end mark may read as a smaller mesh; nothing but our own error may come out.
        with contextlib.suppress(FieldDataError):
            read_meshes(path)
    else:
        with pytest.raises(FieldDataError, match=r"cannot read .*whole"):
            read_meshes(path)
    assert capfd.readouterr() == ("", "")


def test_readers_that_wait_for_more_are_stopped(tmp_path):
    for ending, size in [(".ply", 43), (".off", 10), (".msh", 16), (".tec", 154), (".dat", 154)]:
        path = tmp_path / f"whole{ending}"
        plane_mesh().write(path)
        np.testing.assert_array_equal(read_meshes(path).meshes[0].points, plane_mesh().points)
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(FieldDataError, match="EOFError: the file ends too early"):
            read_meshes(path)


def test_unknown_kinds_of_files(folder):
    with pytest.raises(FieldDataError, match=r"cannot read .*notes\.txt: there is no reader for files .* '\.txt'"):
        read_meshes(folder / "notes.txt")


def test_time_series_are_named(tmp_path):
    mesh = plane_mesh()
    with meshio.xdmf.TimeSeriesWriter(str(tmp_path / "run.xdmf"), data_format="XML") as writer:
        writer.write_points_cells(mesh.points, mesh.cells)
        for time in (0.0, 1.0):
            writer.write_data(time, point_data={"s": np.full(SIDE**2, time)})
    with pytest.raises(FieldDataError, match=r"run\.xdmf: it is a time series.*RolloutRegressor"):
        read_meshes(tmp_path / "run.xdmf", "s")


def test_formats_that_need_other_packages_say_so(tmp_path, monkeypatch):
    plane_mesh().write(tmp_path / "a.xdmf")
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(OptionalDependencyError, match=r"h5py is needed to read .*xdmf"):
        read_meshes(tmp_path / "a.xdmf")


def test_remarks_of_the_reader_become_warnings(tmp_path):
    (tmp_path / "a.su2").write_text(SU2.replace("NMARK= 0", "NMARK= 1\nMARKER_TAG= wall\nMARKER_ELEMS= 1\n3 0 1"))
    with pytest.warns(SkopWarning, match="tags of string type"):
        read_meshes(tmp_path / "a.su2")


def test_threads_may_read_while_others_print(tmp_path, capsys):
    """Standard output and error, filters of warnings and NumPy's settings are left alone, also by failures."""
    meshes = {"whole.vtk": True, "cut.vtk": False, "cut.vtu": False, "cut.xdmf": False}
    for name, is_whole in meshes.items():
        path = tmp_path / name
        meshio.Mesh(np.eye(3), [("triangle", [[0, 1, 2]])], point_data={"a": np.arange(3.0)}).write(path)
        path.write_bytes(path.read_bytes() if is_whole else path.read_bytes()[:60])
    capsys.readouterr()
    before = sys.stdout, sys.stderr, list(warnings.filters), np.geterr()
    is_over = threading.Event()

    def read(_):
        for name, is_whole in meshes.items():
            with nullcontext() if is_whole else pytest.raises(FieldDataError, match=f"cannot read .*{name}"):
                read_meshes(str(tmp_path / name))

    def write():
        count = 0
        while count < 300 or not is_over.is_set():
            print("line")
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        printed = pool.submit(write)
        for done in [pool.submit(read, number) for number in range(10)]:
            done.result()
        is_over.set()
    assert capsys.readouterr() == ("line\n" * printed.result(), "")
    assert (sys.stdout, sys.stderr, list(warnings.filters), np.geterr()) == before


def test_what_meshio_says_of_a_file_is_a_warning_that_names_it(tmp_path, capsys):
    def read():
        meshio._common.warn("some cells are odd")
        return 7

    path = tmp_path / "mesh.vtk"
    path.write_text("mesh")
    assert _mesh_files.named_failures(path, read) == (7, "Warning: some cells are odd")
    assert capsys.readouterr() == ("", "")
    meshio._common.warn("outside")
    assert capsys.readouterr().err == "Warning: outside\n"
