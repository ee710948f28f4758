"""Meshes to FieldSets and back: number types, shared storage, cell averages, dropped coordinates, and errors."""

import warnings
from itertools import product

import meshio
import numpy as np
import pytest

from skop import FieldSet
from skop.data import attach_predictions, read_meshes
from skop.data._mesh_cells import average_on_points
from skop.exceptions import FieldDataError, SkopWarning

SIDE = 4


def plane_mesh(shift=0.0, height=0.0, **point_data):
    """Triangles on a square grid in the plane z = height."""
    x, y = np.meshgrid(np.linspace(0, 1, SIDE) + shift, np.linspace(0, 2, SIDE), indexing="ij")
    points = np.stack([x.ravel(), y.ravel(), np.full(SIDE**2, height)], axis=1)
    corner = np.arange(SIDE**2).reshape(SIDE, SIDE)[:-1, :-1].ravel()
    a, b, c, d = corner, corner + SIDE, corner + SIDE + 1, corner + 1
    cells = [("triangle", np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))]
    return meshio.Mesh(points, cells, point_data=point_data)


def stressed_mesh(shift=0.0, scale=1.0):
    """A mesh whose every number is different."""
    values = scale * np.arange(1.0, SIDE**2 + 1)
    return plane_mesh(shift, stress=values, displacement=np.stack([values, -values, 100 + values], axis=1))


def test_odd_types_become_floats_of_this_machine():
    for dtype in [">f8", ">f4", "<f2", "i4", bool]:
        mesh = plane_mesh(s=np.ones(SIDE**2, dtype=dtype))
        mesh.points = mesh.points.astype(">f8")
        fields = read_meshes(mesh, "s").fields
        assert fields.values.dtype in (np.dtype(np.float32), np.dtype(np.float64))
        assert fields.coords.dtype == np.dtype(float)
        np.testing.assert_array_equal(fields.values, 1)


# ---------------------------------------------------------------------- order and storage
def test_equal_points_are_stored_once_to_the_last_bit():
    fields = read_meshes([stressed_mesh(), stressed_mesh(scale=2)], "stress").fields
    assert fields.shared_coords
    assert fields.coords.shape == (SIDE**2, 2)
    assert fields.cells[0][0] == "triangle"
    nudged = stressed_mesh()
    nudged.points[3, 0] = np.nextafter(nudged.points[3, 0], 9)
    fields = read_meshes([stressed_mesh(), nudged], "stress").fields
    assert fields.coords.shape == (2, SIDE**2, 2)
    assert fields.coords[1, 3, 0] == nudged.points[3, 0] != fields.coords[0, 3, 0]
    assert fields.cells is not None


def test_meshes_of_different_sizes_are_ragged(tmp_path):
    small = meshio.Mesh(np.eye(3)[:, [0, 1, 1]] * [1, 1, 0], [], point_data={"stress": np.arange(3.0)})
    samples = read_meshes([stressed_mesh(), small, stressed_mesh(1.0)], "stress")
    assert samples.fields.is_ragged
    assert samples.fields.n_points.tolist() == [SIDE**2, 3, SIDE**2]
    assert samples.fields.cells is None
    out = attach_predictions(samples.meshes, samples.fields)
    np.testing.assert_array_equal(out[1].point_data["stress"], [0, 1, 2])


def test_geometry_alone_has_one_sample_a_mesh():
    assert read_meshes([plane_mesh(), plane_mesh()]).fields.shape == (2, SIDE**2, 0)
    assert read_meshes([plane_mesh(), plane_mesh(1.0)]).fields.shape == (2, SIDE**2, 0)


def test_fields_are_selected_in_the_order_asked_for():
    samples = read_meshes([stressed_mesh(), stressed_mesh(scale=3)], ["displacement", "stress"])
    assert samples.components == {"displacement": 3, "stress": 1}
    stress = samples.select("stress")
    np.testing.assert_array_equal(stress.values[..., 0], np.outer([1, 3], np.arange(1, SIDE**2 + 1)))
    swapped = samples.select(["stress", "displacement"])
    assert swapped.channel_names == ("stress", "displacement_0", "displacement_1", "displacement_2")
    np.testing.assert_array_equal(swapped.values[..., 1:], samples.fields.values[..., :3])
    assert samples.select(None).shape == (2, SIDE**2, 0)
    with pytest.raises(FieldDataError, match="'heat' was not read"):
        samples.select("heat")


def test_duplicate_points_are_points():
    mesh = plane_mesh()
    doubled = meshio.Mesh(
        np.concatenate([mesh.points, mesh.points[:1]]), [*mesh.cells, meshio.CellBlock("vertex", [[SIDE**2]])]
    )
    assert read_meshes(doubled).fields.n_points.tolist() == [SIDE**2 + 1]


# ---------------------------------------------------------------------- points that no cell uses
def with_far_points(mesh, places, far=(100.0, 100.0, 50.0)):
    """The same mesh with points that no cell uses before the given points, where all fields are NaN."""
    numbers = np.arange(len(mesh.points)) + np.searchsorted(places, np.arange(len(mesh.points)), side="right")
    points = np.insert(mesh.points, places, far, axis=0)
    data = {name: np.insert(values, places, np.nan, axis=0) for name, values in mesh.point_data.items()}
    cells = [meshio.CellBlock(block.type, numbers[block.data]) for block in mesh.cells]
    return meshio.Mesh(points, cells, data, mesh.cell_data), numbers


def test_points_without_cells_are_left_out():
    whole = [stressed_mesh(), stressed_mesh(1.0), stressed_mesh(2.0)]
    pairs = [(whole[0], np.arange(SIDE**2)), with_far_points(whole[1], [0, 5, 5]), with_far_points(whole[2], [16])]
    names = ["displacement", "stress"]
    with pytest.warns(SkopWarning) as caught:
        samples = read_meshes([mesh for mesh, _ in pairs], names)
    assert [str(item.message).split(":")[0] for item in caught] == [
        "4 points in 2 of 3 meshes (first in mesh 1) belong to no cell"
    ]
    assert caught[0].filename == __file__
    expected = read_meshes(whole, names)
    assert samples.axes == expected.axes == (0, 1)
    np.testing.assert_array_equal(samples.fields.coords, expected.fields.coords)
    np.testing.assert_array_equal(samples.fields.values, expected.fields.values)
    np.testing.assert_array_equal(samples.select(None).coords, expected.fields.coords)
    assert samples.used_points[0] is None
    for rows, (_, numbers) in zip(samples.used_points[1:], pairs[1:], strict=True):
        np.testing.assert_array_equal(rows, numbers)


def test_predictions_have_a_row_for_each_point_of_the_mesh(tmp_path):
    mesh, numbers = with_far_points(stressed_mesh(), [0, 5])
    with pytest.warns(SkopWarning, match="2 points in 1 of 1"):
        samples = read_meshes(mesh, ["displacement", "stress"])
    (out,) = attach_predictions(samples.meshes, samples.fields)
    np.testing.assert_array_equal(out.points, mesh.points)
    assert out.point_data["displacement"].shape == (SIDE**2 + 2, 3)
    np.testing.assert_array_equal(out.point_data["stress"][numbers], stressed_mesh().point_data["stress"])
    assert np.flatnonzero(np.isnan(out.point_data["stress"])).tolist() == [0, 6]
    for ending in (".vtu", ".vtk", ".xdmf"):
        out.write(tmp_path / f"out{ending}")
        with pytest.warns(SkopWarning, match="2 points in 1 of 1"):
            again = read_meshes(tmp_path / f"out{ending}", ["displacement", "stress"])
        np.testing.assert_array_equal(again.fields.values, samples.fields.values)
        np.testing.assert_array_equal(again.fields.coords, samples.fields.coords)
    # Values on all points are taken as they are.
    fields = FieldSet(mesh.points, np.ones((1, len(mesh.points), 1)), channel_names=["p"])
    np.testing.assert_array_equal(attach_predictions([mesh], fields)[0].point_data["p"], 1)
    with pytest.raises(FieldDataError, match="has 18 points, of which 16 belong to cells, its prediction has 3"):
        attach_predictions([mesh], FieldSet(np.eye(3), np.ones((1, 3, 1))))


def test_meshes_that_differ_in_unused_points_share_the_others():
    pairs = [with_far_points(stressed_mesh(), [3], far) for far in ([9.0, 9, 9], [7.0, 7, 7])]
    with pytest.warns(SkopWarning, match="2 points in 2 of 2"):
        fields = read_meshes([mesh for mesh, _ in pairs], "stress").fields
    assert fields.shared_coords
    ((kind, nodes),) = fields.cells
    assert kind == "triangle"
    np.testing.assert_array_equal(nodes, plane_mesh().cells[0].data)


def test_every_point_of_a_cloud_counts():
    for cells in ([], [("triangle", np.zeros((0, 3), dtype=int))]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            samples = read_meshes(meshio.Mesh(np.eye(3), cells, {"s": np.arange(3.0)}), "s")
        assert samples.used_points == [None]
        assert samples.fields.n_points.tolist() == [3]


def test_cells_that_meshio_leaves_out_use_points(tmp_path):
    """A voxel, which meshio does not know, beside a tetrahedron."""
    points = np.array([[x, y, z] for z in (0.0, 1) for y in (0, 1) for x in (0, 1)])
    mesh = meshio.Mesh(points, [("hexahedron", [[*range(8)]]), ("tetra", [[0, 1, 2, 4]])], {"s": np.arange(8.0)})
    mesh.write(tmp_path / "a.vtk", binary=False)
    text = (tmp_path / "a.vtk").read_text()
    assert "CELL_TYPES 2\n12\n" in text
    (tmp_path / "a.vtk").write_text(text.replace("CELL_TYPES 2\n12\n", "CELL_TYPES 2\n11\n"))
    with pytest.warns(SkopWarning, match=r"a\.vtk: .*cells that meshio cannot handle"):
        samples = read_meshes(tmp_path / "a.vtk", "s")
    np.testing.assert_array_equal(samples.fields.values[0, :, 0], np.arange(8))
    assert samples.used_points == [None]
    # Nor do four rows count as a prediction for the corners of the tetrahedron.
    with pytest.raises(FieldDataError, match="mesh 0 has 8 points, its prediction has 4"):
        attach_predictions(samples.meshes, FieldSet(np.zeros((4, 3)), np.ones((1, 4, 1))))


# ---------------------------------------------------------------------- dropped coordinates
def test_constant_coordinates_are_dropped_and_come_back():
    mesh = plane_mesh(height=5.0, s=np.ones(SIDE**2))
    mesh.points = mesh.points[:, [0, 2, 1]]
    samples = read_meshes([mesh], "s")
    assert samples.axes == (0, 2)
    np.testing.assert_array_equal(samples.fields.coords, mesh.points[:, [0, 2]])
    (out,) = attach_predictions(samples.meshes, samples.fields)
    np.testing.assert_array_equal(out.points, mesh.points)


def test_rounding_does_not_make_a_coordinate():
    mesh = plane_mesh()
    mesh.points[:, 2] = 1e-17 * np.arange(SIDE**2)
    assert read_meshes(mesh).axes == (0, 1)
    mesh.points[:, 2] = 1e-9 * np.arange(SIDE**2)
    assert read_meshes(mesh).axes == (0, 1, 2)


def test_noise_is_measured_by_the_size_of_the_mesh():
    for size, height, (dtype, noise, relief) in product(
        [1e-3, 1.0, 1e6], [0.0, 3.0], [("f8", 3e-16, 1e-10), ("f4", 2e-7, 1e-4)]
    ):
        rng = np.random.default_rng(0)
        mesh = plane_mesh(height=height)
        for scale, axes in ((noise, (0, 1)), (relief, (0, 1, 2))):
            points = mesh.points + scale * rng.standard_normal((SIDE**2, 1)) * [0, 0, 1]
            noisy = meshio.Mesh((size * points).astype(dtype), mesh.cells)
            assert read_meshes(noisy).axes == axes
            assert read_meshes(noisy, axes=axes).fields.n_dims == len(axes)


def test_a_plane_that_was_turned_and_turned_back_is_flat():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    mesh = plane_mesh()
    mesh.points = 7.3 * mesh.points @ turn @ turn.T
    assert np.ptp(mesh.points[:, 2]) > 1e-16
    assert read_meshes(mesh).axes == (0, 1)


def test_relief_far_from_the_origin_counts():
    """Coordinates of a map in float32: x and y are large, heights are small."""
    mesh = plane_mesh()
    mesh.points[:, 2] = np.linspace(0, 1, SIDE**2)
    mesh.points = (1000 * mesh.points * [1, 1, 0.02] + [5e5, 5e6, 0]).astype("f4")
    assert read_meshes(mesh).axes == (0, 1, 2)


def test_a_coordinate_counts_if_it_differs_between_meshes():
    assert read_meshes([plane_mesh(), plane_mesh(height=1.0)]).axes == (0, 1, 2)
    assert read_meshes([meshio.Mesh(np.ones((1, 3)), [])]).axes == (0, 1, 2)


def test_predictions_keep_the_axes_of_the_fit():
    assert read_meshes(plane_mesh(height=7.0), axes=(0, 1)).fields.n_dims == 2
    assert read_meshes(plane_mesh(), axes=(0, 1, 2)).fields.n_dims == 3
    with pytest.raises(FieldDataError, match=r"coordinate 2 .* 0 to 1"):
        read_meshes([plane_mesh(), plane_mesh(height=1.0)], axes=(0, 1))
    with pytest.raises(FieldDataError, match="coordinates 0 to 2"):
        read_meshes(plane_mesh(), axes=(0, 3))


# ---------------------------------------------------------------------- cell data
@pytest.mark.parametrize("kind", ["triangle", "hexahedron"])
def test_cell_means_are_exact_for_linear_fields_inside_uniform_meshes(kind):
    if kind == "triangle":
        mesh = plane_mesh()
    else:
        number = np.arange(64).reshape(4, 4, 4)
        corner = number[:-1, :-1, :-1].ravel()
        offsets = [0, 16, 20, 4, 1, 17, 21, 5]
        points = np.stack(np.meshgrid(*[np.linspace(0, 1, 4)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
        mesh = meshio.Mesh(points, [(kind, corner[:, None] + offsets)])
    slope = np.array([[2.0, -1.0], [0.5, 3.0], [4.0, 1.0]])
    centres = mesh.points[mesh.cells[0].data].mean(axis=1)
    mesh.cell_data["flux"] = [1 + centres @ slope]
    low, high = mesh.points.min(axis=0), mesh.points.max(axis=0)
    flat = low == high
    inside = np.all((mesh.points > low) & (mesh.points < high) | flat, axis=1)
    assert inside.sum() >= 4
    found = average_on_points(mesh, "flux", "the mesh")
    np.testing.assert_allclose(found[inside], (1 + mesh.points @ slope)[inside], atol=1e-12)


CORNERS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]])


def test_cells_weigh_by_their_size():
    for kind, corners, beside, ratio in [
        ("line", [0, 1], "line", 1),
        ("quad", [0, 1, 2, 3], "triangle", 2),
        ("polygon", [0, 1, 2, 3], "triangle", 2),
        ("pyramid", [0, 1, 2, 3, 4], "tetra", 2),
        ("wedge", [0, 1, 3, 4, 5, 7], "tetra", 3),
        ("hexahedron", [*range(8)], "tetra", 6),
    ]:
        # A part of the unit cube and a simplex behind the origin, stretched to twice its size, share one point.
        simplex = -2 * CORNERS[[1, 3, 4][: {"line": 1, "triangle": 2, "tetra": 3}[beside]]]
        simplex[1:] //= 2
        count = len(corners)
        cells = [(kind, [[*range(count)]]), (beside, [[0, *range(count, count + len(simplex))]])]
        mesh = meshio.Mesh(
            np.concatenate([CORNERS[corners], simplex]).astype(float), cells, cell_data={"s": [[3.0], [0]]}
        )
        np.testing.assert_allclose(average_on_points(mesh, "s", "the mesh")[0, 0], 3 * ratio / (ratio + 2))


def test_boundary_lines_do_not_count_beside_triangles():
    mesh = plane_mesh()
    cells = [*mesh.cells, meshio.CellBlock("line", np.array([[0, 1], [1, 2]]))]
    mixed = meshio.Mesh(mesh.points, cells, cell_data={"s": [np.ones(len(mesh.cells[0])), np.full(2, 99.0)]})
    np.testing.assert_allclose(average_on_points(mixed, "s", "the mesh"), 1)


def test_collapsed_cells_make_all_cells_weigh_the_same():
    points = np.array([[0.0, 0], [1, 0], [0, 3], [2, 0]])
    mesh = meshio.Mesh(points, [("triangle", [[0, 1, 2], [0, 1, 3]])], cell_data={"s": [[2.0, 4.0]]})
    np.testing.assert_allclose(average_on_points(mesh, "s", "the mesh").ravel(), [3, 3, 2, 4])


def test_cell_data_is_used_only_when_asked_for():
    mesh = plane_mesh()
    mesh.cell_data["heat"] = [np.full(len(mesh.cells[0]), 4.0)]
    with pytest.raises(FieldDataError, match="cell_data='to_points'"):
        read_meshes(mesh, "heat")
    np.testing.assert_allclose(read_meshes(mesh, "heat", cell_data="to_points").fields.values, 4)
    with pytest.raises(FieldDataError, match="expected 'refuse', 'to_points' or 'cells'"):
        read_meshes(mesh, "heat", cell_data="points")
    with pytest.raises(FieldDataError, match="cold"):
        read_meshes(mesh, "cold", cell_data="to_points")


def test_cell_data_and_points_without_cells():
    mesh = plane_mesh()
    mesh.cell_data["heat"] = [np.arange(1.0, len(mesh.cells[0]) + 1)]
    orphaned, numbers = with_far_points(mesh, [0, 7])
    expected = read_meshes(mesh, "heat", cell_data="to_points").fields.values
    with pytest.warns(SkopWarning, match="2 points in 1 of 1"):
        found = read_meshes(orphaned, "heat", cell_data="to_points").fields.values
    np.testing.assert_array_equal(found, expected)
    carried = average_on_points(orphaned, "heat", "the mesh")
    np.testing.assert_array_equal(carried[numbers], expected[0])
    assert np.flatnonzero(np.isnan(carried[:, 0])).tolist() == [0, 8]


def test_cells_with_points_that_are_not_there(tmp_path):
    for point, cell_data in product([-1, SIDE**2, 10**6], ["refuse", "to_points"]):
        mesh = stressed_mesh()
        mesh.cell_data["heat"] = [np.ones(len(mesh.cells[0]))]
        mesh.cells[0].data[2, 1] = point
        mesh.write(tmp_path / "cut.vtu")
        message = (
            rf"cells of type 'triangle' in (mesh 0|.*cut\.vtu) refer to point {point}; expected 0 to 15, .* 16 points"
        )
        field = "stress" if cell_data == "refuse" else "heat"
        for source in (mesh, tmp_path / "cut.vtu"):
            with pytest.raises(FieldDataError, match=message):
                read_meshes(source, field, cell_data=cell_data)
        with pytest.raises(FieldDataError, match=f"in the mesh refer to point {point}"):
            average_on_points(mesh, "heat", "the mesh")


def test_polyhedra_with_points_that_are_not_there():
    faces = [np.array(face) for face in ([0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 9])]
    mesh = meshio.Mesh(np.eye(4)[:, :3], [("polyhedron4", [faces])])
    with pytest.raises(FieldDataError, match="'polyhedron4' in mesh 0 refer to point 9; expected 0 to 3"):
        read_meshes(mesh)
    with pytest.raises(FieldDataError, match="'triangle' in mesh 0 have dtype float64; expected integers"):
        read_meshes(meshio.Mesh(np.eye(3), [("triangle", [[0.0, 1, 2]])]))


# ---------------------------------------------------------------------- predictions
def test_vectors_are_joined_and_others_left():
    mesh = plane_mesh()
    names = ["u_0", "u_1", "p_0", "q_1", "v", "v_0", "v_1"]
    values = np.arange(7.0 * SIDE**2).reshape(1, -1, 7)
    data = attach_predictions([mesh], FieldSet(mesh.points, values, channel_names=names))[0].point_data
    assert {name: item.shape[1:] for name, item in data.items()} == {
        "u": (2,),
        **dict.fromkeys(["p_0", "q_1", "v", "v_0", "v_1"], ()),
    }
    np.testing.assert_array_equal(data["u"], values[0, :, :2])
    np.testing.assert_array_equal(data["v_1"], values[0, :, 6])


def test_components_say_what_belongs_together():
    mesh = plane_mesh()
    predictions = FieldSet(mesh.points, np.ones((1, SIDE**2, 3)), channel_names=["u_0", "u_1", "w"])
    data = attach_predictions([mesh], predictions, {"u_0": 1, "u_1": 1, "w": 1})[0].point_data
    assert [*data] == ["u_0", "u_1", "w"]
    nameless = FieldSet(mesh.points, np.ones((1, SIDE**2, 3)))
    assert attach_predictions([mesh], nameless)[0].point_data["prediction"].shape == (SIDE**2, 3)
    with pytest.raises(FieldDataError, match="3 channels"):
        attach_predictions([mesh], predictions, {"u": 2})


def test_warping_one_mesh_leaves_the_others():
    samples = read_meshes([stressed_mesh(), stressed_mesh()], "displacement")
    first, second = attach_predictions(samples.meshes, samples.fields)
    first.points += first.point_data["displacement"]
    np.testing.assert_array_equal(second.points, plane_mesh().points)
    np.testing.assert_array_equal(samples.meshes[0].points, plane_mesh().points)


def test_predictions_must_fit_the_meshes():
    fields = read_meshes([stressed_mesh()] * 2, "stress").fields
    with pytest.raises(FieldDataError, match="1 meshes and predictions for 2"):
        attach_predictions([plane_mesh()], fields)
    with pytest.raises(FieldDataError, match="mesh 0 has 3 points, its prediction has 16"):
        attach_predictions([meshio.Mesh(np.eye(3), [])] * 2, fields)


# ---------------------------------------------------------------------- errors
def test_fields_that_do_not_fit():
    bare = plane_mesh(heat=np.ones(SIDE**2))
    with pytest.raises(FieldDataError, match="mesh 1 has no field 'stress'; its point data are 'heat'"):
        read_meshes([stressed_mesh(), bare], ["stress"])
    scalar = plane_mesh(displacement=np.ones(SIDE**2))
    with pytest.raises(FieldDataError, match="'displacement' has 1 components in mesh 1 and 3 in mesh 0"):
        read_meshes([stressed_mesh(), scalar], "displacement")
    with pytest.raises(FieldDataError, match="expected different names"):
        read_meshes(bare, ["heat", "heat"])
    with pytest.raises(FieldDataError, match=r"point data 'label' of mesh 0 has dtype <U1"):
        read_meshes(plane_mesh(label=np.array(["a"] * SIDE**2)), "label")


def test_points_that_do_not_fit():
    with pytest.raises(FieldDataError, match="mesh 0 has no points"):
        read_meshes(meshio.Mesh(np.zeros((0, 3)), []))
    flat = meshio.Mesh(np.zeros((2, 2)), [])
    with pytest.raises(FieldDataError, match="mesh 1 has 2 coordinates per point, the first mesh has 3"):
        read_meshes([plane_mesh(), flat])
    with pytest.raises(FieldDataError, match="dtype complex128"):
        read_meshes(meshio.Mesh(np.zeros((2, 3), dtype=complex), []))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_names_the_mesh_and_the_field(tmp_path, bad):
    mesh = stressed_mesh()
    mesh.point_data["displacement"][5, 1] = bad
    mesh.point_data["stress"][[7, 9]] = bad
    mesh.cell_data["heat"] = [np.ones(len(mesh.cells[0]))]
    mesh.cell_data["heat"][0][0] = bad
    mesh.write(tmp_path / "run_3.vtu")
    for source, name in ((tmp_path / "run_3.vtu", r".*run_3\.vtu"), ([plane_mesh(), mesh][1:], "mesh 0")):
        assert read_meshes(source).fields.n_dims == 2
        for field, words in (
            (
                "displacement",
                f"point data 'displacement' of {name}: NaN or infinity at 1 of 16 points, first at point 5",
            ),
            ("stress", f"point data 'stress' of {name}: NaN or infinity at 2 of 16 points, first at point 7"),
            ("heat", f"cell data 'heat' of {name}, averaged to its points: NaN or infinity at 3 of 16"),
        ):
            with pytest.raises(FieldDataError, match=words):
                read_meshes(source, field, cell_data="to_points")
    mesh.points[3, 2] = bad
    with pytest.raises(FieldDataError, match="points of mesh 0: NaN or infinity at 1 of 16 points, first at point 3"):
        read_meshes(mesh)
