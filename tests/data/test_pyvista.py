"""Meshes of VTK: the formats that only VTK reads, objects of pyvista, and what is said without pyvista."""

import sys
import warnings

import meshio
import numpy as np
import pytest

from skop import PODRegressor
from skop.data import read_meshes
from skop.data._mesh_files import is_mesh_input
from skop.exceptions import FieldDataError, OptionalDependencyError, SkopWarning

FORMATS = [".vti", ".vtr", ".vts", ".vtp", ".vtm", ".vtkhdf", ".pvtu", ".vtu", ".vtk"]


@pytest.fixture
def pyvista():
    return pytest.importorskip("pyvista")


def image(pyvista, number=0, size=(4, 3, 1)):
    """A regular grid whose fields are linear in the coordinates."""
    grid = pyvista.ImageData(dimensions=size, spacing=(1.0, 2.0, 3.0))
    x, y, z = np.array(grid.points).T
    grid.point_data["load"] = 1 + x + number * y + z
    grid.point_data["u"] = np.stack([x, y, z], axis=1)
    centres = np.array(grid.cell_centers().points)
    grid.cell_data["c"] = centres @ [1.0, 10.0, 100.0]
    return grid


def save(pyvista, grid, path):
    """Write a grid in the format of the ending; .vtu with LZ4, and .vtk as polygons."""
    writers = {
        ".vtu": ("vtkIOXML", "vtkXMLUnstructuredGridWriter"),
        ".pvtu": ("vtkIOParallelXML", "vtkXMLPUnstructuredGridWriter"),
        ".vtkhdf": ("vtkIOHDF", "vtkHDFWriter"),
    }
    kind = path.suffix
    if kind in writers:
        module, name = writers[kind]
        writer = getattr(pytest.importorskip(f"vtkmodules.{module}"), name)()
        writer.SetFileName(str(path))
        writer.SetInputData(grid.cast_to_unstructured_grid())
        if kind == ".vtu":
            writer.SetCompressorTypeToLZ4()
        writer.Write()
        return
    convert = {
        ".vti": lambda: grid,
        ".vtr": grid.cast_to_rectilinear_grid,
        ".vts": grid.cast_to_structured_grid,
        ".vtp": lambda: grid.extract_surface(algorithm="dataset_surface", pass_pointid=False, pass_cellid=False),
        ".vtm": lambda: pyvista.MultiBlock([grid]),
    }
    convert[".vtk"] = convert[".vtp"]
    convert[kind]().save(path)


@pytest.mark.parametrize("ending", FORMATS)
def test_formats_of_vtk(tmp_path, pyvista, ending, capfd):
    path = tmp_path / f"run{ending}"
    save(pyvista, image(pyvista, 2), path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples = read_meshes(path, ["load", "u"])
        on_cells = read_meshes(path, "c", cell_data="cells").fields
    x, y = samples.fields.coords.T
    np.testing.assert_allclose(samples.fields.values[0, :, 0], 1 + x + 2 * y)
    np.testing.assert_allclose(samples.fields.values[0, :, 1:3], samples.fields.coords)
    assert sorted(zip(x.tolist(), y.tolist(), strict=True)) == [(i, 2.0 * j) for i in range(4) for j in range(3)]
    np.testing.assert_allclose(on_cells.values[0, :, 0], on_cells.coords @ [1.0, 10.0])
    assert {block.type for block in samples.meshes[0].cells} == {"quad"}
    assert capfd.readouterr() == ("", "")


def test_voxels_become_hexahedra(pyvista):
    grid = image(pyvista, size=(3, 3, 2))
    samples = read_meshes(grid, "c", cell_data="cells")
    (block,) = samples.meshes[0].cells
    assert block.type == "hexahedron"
    expected = grid.cast_to_structured_grid().cast_to_unstructured_grid().cell_connectivity.reshape(-1, 8)
    np.testing.assert_array_equal(block.data, expected)
    # The single layer is a plane, at z = 1.5.
    np.testing.assert_allclose(samples.fields.values[0, :, 0], 150 + samples.fields.coords @ [1.0, 10.0])


def test_objects_of_pyvista_through_an_estimator(tmp_path, pyvista):
    grids = [image(pyvista, number) for number in range(4)]
    names = {"input_fields": ["load"], "target_fields": ["u"]}
    model = PODRegressor(**names).fit(grids)
    for number, grid in enumerate(grids):
        grid.save(tmp_path / f"run_{number}.vti")
    found = model.predict(grids)
    from_files = model.predict(str(tmp_path / "*.vti"))
    assert all(isinstance(mesh, meshio.Mesh) for mesh in found)
    np.testing.assert_array_equal(found[1].point_data["u"], from_files[1].point_data["u"])
    np.testing.assert_array_equal(found[1].point_data["u_true"], grids[1].point_data["u"])
    np.testing.assert_array_equal(found[1].point_data["load"], grids[1].point_data["load"])
    # One mesh, of pyvista or of VTK itself, and meshio's beside it.
    assert is_mesh_input(grids[0])
    assert not is_mesh_input(pyvista)
    np.testing.assert_array_equal(model.predict(grids[2])[0].point_data["u"], found[2].point_data["u"])
    mixed = read_meshes([grids[0], found[0]], ["load"]).fields
    np.testing.assert_array_equal(mixed.values[0], mixed.values[1])
    found[0].write(tmp_path / "out.vtu")
    assert pyvista.read(tmp_path / "out.vtu").point_data["u_error"].shape == (12, 3)


def test_blocks_are_joined_and_partial_fields_named(pyvista):
    first, second = image(pyvista), image(pyvista).translate((10.0, 0, 0))
    second.point_data["load"] = np.asarray(second.point_data["load"], dtype=np.float32)
    del second.point_data["u"]
    blocks = pyvista.MultiBlock([first, pyvista.MultiBlock([second, None])])
    with pytest.warns(SkopWarning, match="mesh 0 has 2 blocks, of which some do not have the fields u"):
        fields = read_meshes(blocks, "load").fields
    assert fields.n_points.tolist() == [24]
    with pytest.warns(SkopWarning), pytest.raises(FieldDataError, match="mesh 0 has no field 'u'"):
        read_meshes(blocks, "u")


def test_what_is_no_mesh(pyvista):
    for data, message in (
        (pyvista.Table({"a": np.ones(3)}), "mesh 0 is a Table of VTK; expected a mesh"),
        (pyvista.PolyData(), "mesh 0 has no points"),
        (pyvista.MultiBlock([None]), "mesh 0 has no block with points"),
        (pyvista.Spline(np.eye(3), 5), "cells of type poly-line"),
    ):
        with pytest.raises(FieldDataError, match=message):
            read_meshes(data)


@pytest.mark.parametrize("ending", [".vti", ".vtp", ".vtkhdf", ".vtu"])
def test_damaged_files_are_named_and_nothing_is_printed(tmp_path, pyvista, ending, capfd):
    path = tmp_path / f"run{ending}"
    save(pyvista, image(pyvista), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FieldDataError, match=rf"cannot read .*run\{ending} .*(VTK says|truncated)"):
        read_meshes(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("ending", [".vtp", ".VTI", ".vtm", ".vtkhdf", ".pvtu", ".vtu", ".vtk"])
def test_without_pyvista_the_package_is_named(tmp_path, monkeypatch, ending):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    heads = {
        ".vtu": '<VTKFile type="UnstructuredGrid" compressor="vtkLZ4DataCompressor">',
        ".vtk": "# vtk DataFile Version 5.1\na\nASCII\nDATASET POLYDATA\n",
    }
    path = tmp_path / f"run{ending}"
    path.write_text(heads.get(ending, "<VTKFile></VTKFile>"))
    with pytest.raises(OptionalDependencyError) as error:
        read_meshes(path)
    assert f"pyvista is needed to read {path}" in str(error.value)
    assert "pip install pyvista" in str(error.value)
    assert "damaged" not in str(error.value)


def test_collections_are_time_series(tmp_path):
    (tmp_path / "run.pvd").write_text("<VTKFile/>")
    with pytest.raises(FieldDataError, match=r"run\.pvd: it is a time series"):
        read_meshes(tmp_path / "run.pvd")
