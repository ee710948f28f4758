"""Time series of meshes: collections, XDMF, folders of files, times, frames as channels, and refusals."""

import json

import meshio
import numpy as np
import pytest

from skop.data import (
    MeshSeries,
    find_runs,
    is_mesh_series,
    order_of_series,
    pair_series,
    read_frames,
    read_mesh_series,
    read_meshes,
)
from skop.data.forms.table import read_design
from skop.exceptions import FieldDataError, SkopWarning

POINTS = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
CELLS = [("triangle", np.array([[0, 1, 2], [0, 2, 3]]))]


def frame(run, time, points=POINTS):
    """A mesh whose fields tell the run, the time and the point."""
    value = 100.0 * run + time + 0.1 * np.arange(len(points))
    return meshio.Mesh(points, CELLS, {"u": value, "v": np.stack([value, -value], axis=1)}, {"c": [value[:2]]})


def series(run, times=(0.0, 0.5, 2.0)):
    return MeshSeries([frame(run, time) for time in times], np.array(times))


def write_xdmf(path, run, times, points=None):
    """A series as meshio writes it, or with the points of each step in it, as FEniCS writes it."""
    if points is None:
        with meshio.xdmf.TimeSeriesWriter(path, data_format="XML") as writer:
            writer.write_points_cells(POINTS, CELLS)
            for time in times:
                writer.write_data(time, point_data=frame(run, time).point_data, cell_data=frame(run, time).cell_data)
        return
    steps = ""
    for k, (time, own) in enumerate(zip(times, points, strict=True)):
        numbers = [" ".join(map(str, np.ravel(item))) for item in (CELLS[0][1], own, frame(run, time).point_data["u"])]
        steps += f'<Grid Name="step_{k}" GridType="Uniform"><Time Value="{time}"/>'
        steps += '<Topology NumberOfElements="2" TopologyType="Triangle" NodesPerElement="3">'
        steps += f'<DataItem Dimensions="2 3" NumberType="Int" Format="XML">{numbers[0]}</DataItem></Topology>'
        steps += '<Geometry GeometryType="XYZ"><DataItem Dimensions="4 3" Precision="8" Format="XML">'
        steps += f'{numbers[1]}</DataItem></Geometry><Attribute Name="u" AttributeType="Scalar" Center="Node">'
        steps += f'<DataItem Dimensions="4" Precision="8" Format="XML">{numbers[2]}</DataItem></Attribute></Grid>'
    path.write_text(
        '<?xml version="1.0"?><Xdmf Version="3.0"><Domain><Grid Name="u" GridType="Collection" '
        f'CollectionType="Temporal">{steps}</Grid></Domain></Xdmf>'
    )


# ---------------------------------------------------------------------- there and back
def test_collections_there_and_back(tmp_path):
    for run in (10, 2):
        series(run).write(tmp_path / "new" / f"run_{run}.pvd")
    found = read_mesh_series(tmp_path / "new" / "run_*.pvd")
    assert [len(item) for item in found] == [3, 3]
    for item, run in zip(found, (2, 10), strict=True):
        np.testing.assert_array_equal(item.times, [0, 0.5, 2])
        for mesh, time in zip(item.meshes, item.times, strict=True):
            np.testing.assert_array_equal(mesh.point_data["v"], frame(run, time).point_data["v"])
            np.testing.assert_array_equal(mesh.cell_data["c"][0], frame(run, time).cell_data["c"][0])


def test_a_shorter_series_leaves_no_frames_of_the_longer_one(tmp_path):
    path, folder = tmp_path / "run.pvd", tmp_path / "run"
    longer = series(1)
    longer.write(path)
    # What the collection does not list, or lists elsewhere, is not its own.
    kept = [folder / "run_0007.vtu", folder / "notes.vtu", tmp_path / "run_0001.vtu"]
    for file in kept:
        frame(1, 0.0).write(file)
    path.write_text(
        path.read_text().replace(
            "</Collection>",
            """
        <DataSet timestep="3" part="0" file="run/notes.vtu"/><DataSet timestep="4" part="0" file="run_0001.vtu"/>
        </Collection>""",
        )
    )
    MeshSeries(longer.meshes[:2], longer.times[:2]).write(path)
    assert {file.name for file in folder.iterdir()} == {"run_0000.vtu", "run_0001.vtu", "run_0007.vtu", "notes.vtu"}
    assert kept[2].exists()
    # A file that is no collection is replaced as well.
    path.write_text("<VTKFile")
    longer.write(path)
    assert [len(found) for found in read_mesh_series(path)] == [3]


def test_paraview_plays_what_is_written(tmp_path):
    """The reader of pyvista, which follows the rules of ParaView."""
    pyvista = pytest.importorskip("pyvista")
    series(1).write(tmp_path / "run.pvd")
    reader = pyvista.get_reader(str(tmp_path / "run.pvd"))
    assert list(reader.time_values) == [0, 0.5, 2]
    reader.set_active_time_value(2.0)
    np.testing.assert_array_equal(reader.read()[0].point_data["u"], frame(1, 2.0).point_data["u"])


def test_collections_of_files_that_only_vtk_reads(tmp_path):
    pyvista = pytest.importorskip("pyvista")
    grid = pyvista.ImageData(dimensions=(3, 2, 1))
    entries = ""
    # Entries may come in any order, and each has the file of its own time.
    for time in (3.0, 1.0):
        grid.point_data["u"] = np.full(6, time)
        grid.save(tmp_path / f"{time:g}.vti")
        entries += f'<DataSet timestep="{time}" part="0" file="{time:g}.vti"/>'
    (tmp_path / "run.pvd").write_text(f'<VTKFile type="Collection"><Collection>{entries}</Collection></VTKFile>')
    (found,) = read_mesh_series(tmp_path / "run.pvd")
    assert found.times.tolist() == [1, 3]
    assert [mesh.point_data["u"][0] for mesh in found.meshes] == [1, 3]


def test_file_series(tmp_path):
    """What ParaView and OpenFOAM write beside numbered files."""
    for name, time in (("a_1.vtu", 0.1), ("a_2.vtu", 0.2)):
        frame(4, time).write(tmp_path / name)
    files = [{"name": "a_2.vtu", "time": 0.2}, {"name": "a_1.vtu", "time": 0.1}]
    (tmp_path / "a.vtu.series").write_text(json.dumps({"file-series-version": "1.0", "files": files}))
    (found,) = read_mesh_series(tmp_path / "a.vtu.series")
    assert found.times.tolist() == [0.1, 0.2]
    np.testing.assert_allclose([mesh.point_data["u"][0] for mesh in found.meshes], [400.1, 400.2])
    (tmp_path / "cut.vtu.series").write_text('{"files": [{"na')
    with pytest.raises(FieldDataError, match=r"cannot read .*cut\.vtu\.series"):
        read_mesh_series(tmp_path / "cut.vtu.series")


@pytest.mark.parametrize("own_points", [False, True])
def test_xdmf_series(tmp_path, own_points):
    times = (0.0, 0.25, 1.0)
    write_xdmf(tmp_path / "run.xdmf", 3, times, [POINTS] * 3 if own_points else None)
    (found,) = read_mesh_series(tmp_path / "run.xdmf")
    np.testing.assert_array_equal(found.times, times)
    for mesh, time in zip(found.meshes, times, strict=True):
        np.testing.assert_array_equal(mesh.points, POINTS)
        np.testing.assert_array_equal(mesh.cells[0].data, CELLS[0][1])
        np.testing.assert_allclose(mesh.point_data["u"], frame(3, time).point_data["u"])


def test_vtkhdf_series(tmp_path):
    """Ten steps of VTK's example, whose field is x plus a part that follows time."""
    pytest.importorskip("pyvista")
    source = pytest.importorskip("vtkmodules.vtkFiltersGeneral").vtkTimeSourceExample()
    source.SetXAmplitude(0)
    source.SetYAmplitude(0)
    writer = pytest.importorskip("vtkmodules.vtkIOHDF").vtkHDFWriter()
    writer.SetFileName(str(tmp_path / "run.vtkhdf"))
    writer.SetInputConnection(source.GetOutputPort())
    writer.SetWriteAllTimeSteps(True)
    writer.Write()
    assert is_mesh_series(tmp_path / "run.vtkhdf")
    (found,) = read_mesh_series(tmp_path / "run.vtkhdf")
    assert len(found) == 10
    for time in (0, 4):
        source.UpdateTimeStep(found.times[time])
        expected = source.GetOutput().GetPointData().GetArray("Point Value")
        values = found.meshes[time].point_data["Point Value"]
        np.testing.assert_allclose(values, [expected.GetValue(i) for i in range(expected.GetNumberOfTuples())])
    assert np.ptp([mesh.point_data["Point Value"][0] for mesh in found.meshes]) > 0
    with pytest.raises(FieldDataError, match=r"run\.vtkhdf: it is a time series of 10 steps"):
        read_meshes(tmp_path / "run.vtkhdf")


def test_files_are_grouped_by_folder_and_name_and_sorted_by_their_last_number(tmp_path):
    for run in (10, 9):
        (tmp_path / f"run_{run}").mkdir()
        for time in (0.5, 10, 0.25, 2):
            frame(run, time).write(tmp_path / f"run_{run}" / f"t_{time}.vtu")
            frame(run, time).write(tmp_path / f"flat{run}_{time}s.vtu")
    for pattern in ("run_*/t_*.vtu", "flat*.vtu"):
        found = read_mesh_series(str(tmp_path / pattern))
        assert [item.times.tolist() for item in found] == [[0.25, 0.5, 2, 10]] * 2
        firsts = [[mesh.point_data["u"][0] for mesh in item.meshes] for item in found]
        np.testing.assert_allclose(firsts, [[900.25, 900.5, 902, 910], [1000.25, 1000.5, 1002, 1010]])
    assert is_mesh_series(str(tmp_path / "run_*" / "*.vtu"))
    # In one folder, each file may as well be a sample.
    assert not is_mesh_series(str(tmp_path / "flat*.vtu"))


def test_what_is_a_series():
    assert is_mesh_series(series(1))
    assert is_mesh_series([series(1), series(2)])
    for other in (None, 3, [frame(1, 0)], frame(1, 0), np.zeros((2, 3)), "nowhere/*.pvd", []):
        assert not is_mesh_series(other)


# ---------------------------------------------------------------------- frames as channels
def test_frames_become_channels_time_first():
    fields, samples = read_frames(find_runs([series(1), series(2)]), ["v", "u"])
    assert samples.components == {"v": 2, "u": 1}
    assert fields.shared_coords
    assert fields.shape == (2, 4, 9)
    for run in (1, 2):
        for k, time in enumerate((0.0, 0.5, 2.0)):
            data = frame(run, time).point_data
            expected = np.column_stack([data["v"], data["u"]])
            np.testing.assert_array_equal(fields.values[run - 1, :, 3 * k : 3 * k + 3], expected)
    first, _ = read_frames(find_runs([series(1), series(2)]), ["u"], n_frames=2)
    np.testing.assert_array_equal(first.values, fields.values[..., [2, 5]])


def test_runs_on_meshes_of_their_own():
    wide = MeshSeries([frame(2, time, 2 * POINTS) for time in (0.0, 1.0)], [0.0, 1.0])
    more = MeshSeries([frame(3, time, np.concatenate([POINTS, [[0.5, 0.5, 0]]])) for time in (0.0, 1.0)], [0.0, 1.0])
    for mesh in more.meshes:
        mesh.cells.append(meshio.CellBlock("vertex", np.array([[4]])))
    two, _ = read_frames(find_runs([series(1, (0.0, 1.0)), wide]), "u")
    assert two.coords.shape == (2, 4, 2)
    np.testing.assert_array_equal(two.coords[1], 2 * POINTS[:, :2])
    ragged, _ = read_frames(find_runs([wide, more]), "u")
    assert ragged.n_points.tolist() == [4, 5]
    np.testing.assert_array_equal(ragged.to_list()[1][:, 1], more.meshes[1].point_data["u"])
    on_cells, _ = read_frames(find_runs(wide), "c", cell_data="cells")
    np.testing.assert_array_equal(on_cells.values[0, :, 1], wide.meshes[1].cell_data["c"][0])


# ---------------------------------------------------------------------- refusals
def test_meshes_that_move_are_refused(tmp_path):
    moving = MeshSeries([frame(1, 0.0), frame(1, 1.0, POINTS * [1, 1.01, 1])], [0.0, 1.0])
    with pytest.raises(FieldDataError, match=r"mesh of series 1 changes in time: mesh 1 of series 1 has other points"):
        read_frames(find_runs([series(1, (0.0, 1.0)), moving]), "u")
    write_xdmf(tmp_path / "run.xdmf", 1, (0.0, 1.0), [POINTS, 2 * POINTS])
    with pytest.raises(FieldDataError, match=r"run\.xdmf changes in time: .*run\.xdmf, step 1 has other points"):
        read_frames(find_runs(tmp_path / "run.xdmf"), "u")
    # Rounding, as in files of text, is no motion.
    rounded = MeshSeries([frame(1, 0.0), frame(1, 1.0, POINTS * (1 + 1e-9))], [0.0, 1.0])
    np.testing.assert_array_equal(read_frames(find_runs(rounded), "u")[0].coords[0], POINTS[:, :2])


def test_series_that_do_not_fit(tmp_path):
    with pytest.raises(FieldDataError, match="series 0 has 2 frames and series 1 has 3; cut all runs"):
        read_frames(find_runs([series(1, (0.0, 1.0)), series(2)]), "u")
    with pytest.raises(FieldDataError, match="series 0 has 3 frames, but 4 are needed"):
        read_frames(find_runs(series(1)), "u", n_frames=4)
    for times in ([0.0], [1.0, 0.0, 2.0]):
        with pytest.raises(FieldDataError, match="expected one time for each mesh, in ascending order"):
            MeshSeries(series(1).meshes, times)
    for times in (np.arange(3).astype("timedelta64[h]"), np.arange(3).astype("datetime64[s]"), ["0", "1", "2"]):
        with pytest.raises(FieldDataError, match=r"times came as .*expected numbers, all in one unit"):
            MeshSeries(series(1).meshes, times)
    with pytest.raises(FieldDataError, match=r"'.*run\.vtu' does not end in \.pvd"):
        series(1).write(tmp_path / "run.vtu")


def test_collections_that_cannot_be_read(tmp_path):
    path = tmp_path / "run.pvd"
    two = '<DataSet timestep="0" part="0" file="a.vtu"/><DataSet timestep="0" part="1" file="b.vtu"/>'
    for content, message in (
        ("", "the file is empty"),
        ("<VTKFile><Coll", "truncated or damaged"),
        ("<VTKFile><Collection/></VTKFile>", "lists no data sets"),
        (f"<VTKFile><Collection>{two}</Collection></VTKFile>", "several parts of a time step"),
        ('<VTKFile><DataSet timestep="0" file="a.vtu"/></VTKFile>', r"there is no file .*a\.vtu"),
    ):
        path.write_text(content)
        with pytest.raises(FieldDataError, match=message) as error:
            read_mesh_series(path)
        assert "run.pvd" in str(error.value)
    # As a run writes it that was started again.
    write_xdmf(tmp_path / "twice.xdmf", 1, (0.0, 1.0, 1.0, 2.0))
    with pytest.raises(FieldDataError, match=r"cannot read .*twice\.xdmf: it has time 1 in 2 of its steps"):
        find_runs(tmp_path / "twice.xdmf")
    write_xdmf(tmp_path / "none.xdmf", 1, (0.0, np.nan))
    with pytest.raises(FieldDataError, match=r"none\.xdmf: it has a step whose time is no number"):
        find_runs(tmp_path / "none.xdmf")
    (tmp_path / "cut.xdmf").write_text('<Xdmf><Grid CollectionType="Temporal">')
    with pytest.raises(FieldDataError, match=r"cannot read .*cut\.xdmf"):
        read_mesh_series(tmp_path / "cut.xdmf")


# ---------------------------------------------------------------------- tables beside runs
def stored(folder, layout):
    """Source and names of three runs in one of the forms in which they are stored; the second is listed first."""
    names = ["b", "a", "c"]
    for number, name in enumerate(names):
        if layout == "folders":
            for step, mesh in enumerate(series(number).meshes):
                (folder / name / "out").mkdir(parents=True, exist_ok=True)
                mesh.write(folder / name / "out" / f"t_{step}.vtu")
        elif layout == "names":
            for step, mesh in enumerate(series(number).meshes):
                mesh.write(folder / f"{name}_t_{step}.vtu")
        else:
            series(number).write(folder / f"{name}.pvd")
            files = [{"name": f"{name}/{name}_{k:04d}.vtu", "time": k} for k in range(3)]
            (folder / f"{name}.vtu.series").write_text(json.dumps({"files": files}))
    pattern = {"folders": "*/out/t_*.vtu", "names": "*_t_*.vtu"}.get(layout, f"*{layout}")
    return str(folder / pattern)


def test_rows_of_parameters_are_found_by_the_names_of_runs(tmp_path):
    for layout, label in [
        ("folders", "{}"),
        ("folders", "{}/out"),
        ("names", "{}_t"),
        (".pvd", "{}"),
        (".pvd", "{}.pvd"),
        (".vtu.series", "{}"),
        (".vtu.series", "{}.vtu.series"),
    ]:
        source = stored(tmp_path, layout)
        params = {"run": [label.format(name) for name in "cxab"], "load": [3.0, 9.0, 1.0, 2.0]}
        with pytest.warns(SkopWarning, match="1 of 4 rows"):
            paired = pair_series(read_design(params), source, fitting=True)
        assert paired.values.ravel().tolist() == [1.0, 2.0, 3.0]
        with pytest.raises(FieldDataError, match="1 of 3 files have no row"):
            pair_series(read_design({name: column[1:] for name, column in params.items()}), source)


def test_runs_are_in_the_order_of_a_list(tmp_path):
    """Collections and groups of files may be mixed; rows without names are in the order of the list."""
    series(0).write(tmp_path / "z.pvd")
    for step, mesh in enumerate(series(1).meshes):
        mesh.write(tmp_path / f"t_{step}.vtu")
    files = sorted(tmp_path.glob("t_*.vtu"))
    assert [len(run.frames) for run in find_runs([*files[:2], tmp_path / "z.pvd"])] == [2, 3]
    assert [run.label for run in find_runs([files[0], tmp_path / "z.pvd", files[1]])] == [
        str(tmp_path),
        str(tmp_path / "z.pvd"),
    ]


def test_the_index_of_a_table_orders_the_runs_of_y(tmp_path):
    pandas = pytest.importorskip("pandas")
    source = stored(tmp_path, ".pvd")
    table = pandas.DataFrame({"load": [2.0, 3.0, 1.0]}, index=["b", "c", "a"])
    runs = find_runs(source)
    assert order_of_series(table, source, runs).tolist() == [1, 2, 0]
    assert order_of_series([run.path for run in runs], source, runs) is None
    with pytest.raises(FieldDataError, match="same runs in different order"):
        order_of_series([run.path for run in runs[::-1]], source, runs)
    with pytest.raises(FieldDataError, match="4 rows"):
        order_of_series(np.zeros((4, 1)), source, runs)


# ---------------------------------------------------------------------- times in names
@pytest.mark.parametrize("pattern", ["case{run}.{step:04d}", "run{run}/case{run}.{step:04d}"])
def test_base_names_that_end_in_a_digit(tmp_path, pattern):
    """The number before the dot is that of the run, in one folder as in several."""
    for run in range(4):
        for step in (0, 5, 10):
            path = tmp_path / f"{pattern.format(run=run, step=step)}.vtu"
            path.parent.mkdir(exist_ok=True)
            frame(run, step).write(path)
    found = read_mesh_series(str(tmp_path / pattern[: pattern.index("{run}")]) + ("*/*.vtu" if "/" in pattern else "*"))
    assert [item.times.tolist() for item in found] == [[0, 5, 10]] * 4
    assert [item.meshes[2].point_data["u"][0] for item in found] == [
        frame(run, 10).point_data["u"][0] for run in range(4)
    ]


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (["t_1e-05", "t_5e-05", "t_0.0001", "t_1e+16"], [1e-5, 5e-5, 1e-4, 1e16]),
        (["t_-0.5", "t_-1", "t_0", "t_0.5"], [-0.5, -1, 0, 0.5]),
        (["run-3", "run-20"], [3, 20]),
        (["u_t=2.5s", "u_t=10s"], [2.5, 10]),
        (["t_1000", "t_1e5", "t_2.5E+06"], [1000, 1e5, 2.5e6]),
        (["mesh1e2", "mesh1e10"], [2, 10]),
        # Digits after a dot that count frames, and decimals.
        (["case1.0000", "case1.0001", "case1.0010"], [0, 1, 10]),
        (["run_2.000010", "run_2.000020"], [10, 20]),
        (["t_0.000", "t_0.001", "t_0.012"], [0, 0.001, 0.012]),
        (["t_1.00", "t_1.05"], [1, 1.05]),
        (["t_1.000", "t_2.000", "t_3.000"], [1, 2, 3]),
        (["t_0.000", "t_0.500", "t_1.000", "t_1.500"], [0, 0.5, 1, 1.5]),
        (["t_1.0625", "t_1.09"], [1.0625, 1.09]),
        (["case1.0003"], [1.0003]),
    ],
)
def test_numbers_in_names_are_times_as_python_writes_them(tmp_path, names, times):
    for name, time in zip(names, times, strict=True):
        frame(0, time).write(tmp_path / f"{name}.vtu")
    (run,) = find_runs(str(tmp_path / "*.vtu"))
    assert run.times.tolist() == sorted(times)
    by_time = dict(zip(times, names, strict=True))
    assert [path.stem for _, path in run.frames] == [by_time[time] for time in sorted(times)]
