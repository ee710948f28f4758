"""Cell data as cells: centres, values, blocks, cells of several dimensions, and predictions back on cells."""

import warnings
from itertools import product

import meshio
import numpy as np
import pytest

from skop import FieldSet
from skop.data import attach_predictions, read_meshes
from skop.exceptions import FieldDataError, SkopWarning

MODULUS = (107952.0, 117116.0)


def two_materials(**data):
    """A strip of quads and triangles in two blocks, with an interface at x = 1, and lines on its lower edge."""
    points = np.array([[x, y, 2.0] for y in (0, 1) for x in (0, 1, 2, 3)])
    cells = [
        ("line", np.array([[0, 1], [1, 2], [2, 3]])),
        ("quad", np.array([[0, 1, 5, 4], [1, 2, 6, 5]])),
        ("triangle", np.array([[2, 3, 7], [2, 7, 6]])),
    ]
    modulus = [np.full(3, np.nan), np.array(MODULUS), np.full(2, MODULUS[1])]
    return meshio.Mesh(points, cells, {"x": points[:, 0]}, {"E": modulus, **data})


def test_values_of_two_materials_are_never_mixed():
    mesh = two_materials()
    samples = read_meshes([mesh], ["E", "x"], cell_data="cells")
    assert samples.axes == (0, 1)
    np.testing.assert_array_equal(samples.fields.values[0, :, 0], [MODULUS[0], *[MODULUS[1]] * 3])
    np.testing.assert_allclose(samples.fields.coords, [[0.5, 0.5], [1.5, 0.5], [8 / 3, 1 / 3], [7 / 3, 2 / 3]])
    # The field on points is the mean over the points of a cell, which for x is the coordinate of the centre.
    np.testing.assert_allclose(samples.fields.values[0, :, 1], samples.fields.coords[:, 0])
    assert samples.used_points[0].tolist() == [3, 4, 5, 6]
    mesh.cell_data["E"][0][:] = 0
    averaged = read_meshes([mesh], "E", cell_data="to_points").fields.values
    assert MODULUS[0] < averaged[0, 1, 0] < MODULUS[1]


def test_predictions_return_block_by_block(tmp_path):
    samples = read_meshes([two_materials()], ["E"], cell_data="cells", keep_data=True)
    prediction = samples.fields.with_values(samples.fields.values + np.arange(1.0, 5).reshape(1, 4, 1), ["E"])
    (out,) = attach_predictions(samples.meshes, prediction)
    assert list(out.point_data) == ["x"]
    out.write(tmp_path / "out.vtu")
    for mesh in (out, meshio.read(tmp_path / "out.vtu")):
        parts = [part.tolist() for part in mesh.cell_data["E_error"]]
        assert np.isnan(parts[0]).all()
        assert parts[1:] == [[1, 2], [3, 4]]
        assert [part.tolist() for part in mesh.cell_data["E"]][1:] == [
            [MODULUS[0] + 1, MODULUS[1] + 2],
            [MODULUS[1] + 3, MODULUS[1] + 4],
        ]
    # Without their info the meshes are on points again.
    assert read_meshes([out], "x").fields.n_points.tolist() == [8]


def test_predictions_of_vectors_and_truth_on_points():
    """A target on points is predicted at centres, where the mean over each cell is the truth."""
    mesh = two_materials()
    mesh.point_data["u"] = mesh.points * [1, 10, 0]
    samples = read_meshes([mesh], ["u"], cell_data="cells", keep_data=True)
    (out,) = attach_predictions(samples.meshes, samples.fields)
    np.testing.assert_allclose(np.concatenate(out.cell_data["u_error"])[3:], 0, atol=1e-12)
    assert [part.shape for part in out.cell_data["u"]] == [(3, 3), (2, 3), (2, 3)]
    np.testing.assert_array_equal(out.point_data["u_true"], mesh.point_data["u"])
    with pytest.raises(FieldDataError, match="mesh 0 has 7 cells, of which 4 are used, its prediction has 8"):
        attach_predictions(samples.meshes, FieldSet(mesh.points, np.ones((1, 8, 1))))


def test_one_layer_of_volumes_is_a_plane():
    """A plane mesh of OpenFOAM is one cell thick."""
    x, y, z = np.meshgrid([0.0, 1, 2], [0.0, 1, 3], [0.1, 0.4], indexing="ij")
    number = np.arange(18).reshape(3, 3, 2)
    corner = number[:-1, :-1, 0].ravel()
    cells = [("hexahedron", corner[:, None] + [0, 6, 8, 2, 1, 7, 9, 3])]
    mesh = meshio.Mesh(np.stack([x, y, z], -1).reshape(-1, 3), cells, cell_data={"p": [np.arange(4.0)]})
    samples = read_meshes(mesh, "p", cell_data="cells")
    assert samples.axes == (0, 1)
    np.testing.assert_allclose(samples.fields.coords, [[0.5, 0.5], [0.5, 2], [1.5, 0.5], [1.5, 2]])


def test_polyhedra_have_centres():
    corners = np.array([[x, y, z] for z in (0.0, 1) for y in (0, 1) for x in (0, 1)])
    faces = [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]]
    cube = meshio.Mesh(corners, [("polyhedron8", [faces])], cell_data={"c": [[3.0]]})
    np.testing.assert_array_equal(read_meshes(cube, "c", cell_data="cells").fields.coords, [[[0.5] * 3]][0])


def test_shells_beside_solids_count_and_boundaries_do_not():
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 2, 2.0]])
    cells = [("triangle", [[0, 1, 2], [1, 2, 4]]), ("tetra", [[0, 1, 2, 3]])]
    mesh = meshio.Mesh(points, cells, cell_data={"s": [np.array([0.0, 5]), np.array([7.0])]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_meshes(mesh, "s", cell_data="cells").fields.values.ravel().tolist() == [5, 7]
    mesh.cell_data["s"][0][0] = 4
    with pytest.warns(SkopWarning, match=r"1 cells in 1 of 1 meshes \(first in mesh 0\) hold data but are not used"):
        read_meshes(mesh, "s", cell_data="cells")


def test_shared_and_ragged_centres():
    mesh = two_materials()
    moved = two_materials()
    moved.points = moved.points * [2, 1, 1]
    other = meshio.Mesh(mesh.points, mesh.cells[1:2], cell_data={"E": mesh.cell_data["E"][1:2]})
    assert read_meshes([mesh, two_materials()], "E", cell_data="cells").fields.shared_coords
    assert read_meshes([mesh, moved], "E", cell_data="cells").fields.coords.shape == (2, 4, 2)
    # The same points with other cells have other centres.
    assert read_meshes([mesh, other], "E", cell_data="cells").fields.n_points.tolist() == [4, 2]


def test_what_has_no_centres_is_refused():
    with pytest.raises(FieldDataError, match="mesh 0 has no cells"):
        read_meshes(meshio.Mesh(np.eye(3), [], {"s": np.ones(3)}), "s", cell_data="cells")
    broken = two_materials()
    broken.cell_data["E"][2][1] = np.nan
    with pytest.raises(FieldDataError, match="data 'E' of mesh 0: NaN or infinity at 1 of 4 cells, first at cell 6"):
        read_meshes(broken, "E", cell_data="cells")
    broken = two_materials()
    broken.points[3, 0] = np.nan
    with pytest.raises(FieldDataError, match="points of mesh 0: NaN"):
        read_meshes(broken, "E", cell_data="cells")


def test_cells_with_too_few_points():
    """Cells without corners, as a cut file has them, raised IndexError; a block without cells is none."""
    for cell_data, shape in product(["refuse", "to_points", "cells"], [(2, 0), (2, 3), (0, 3), (0, 0)]):
        cells = [("triangle", [[0, 1, 2]]), ("quad", np.zeros(shape))]
        mesh = meshio.Mesh(np.eye(4, 3), cells, cell_data={"c": [np.ones(1), np.ones(shape[0])]})
        names = None if cell_data == "refuse" else "c"
        if shape[0]:
            with pytest.raises(FieldDataError, match=r"'quad' in mesh 0 are an array of shape \(2, \d\)"):
                read_meshes([mesh], names, cell_data=cell_data)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert len(read_meshes([mesh], names, cell_data=cell_data).fields) == 1
