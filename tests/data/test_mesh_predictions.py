"""Predicted meshes: data that they keep, truth, errors and spreads, and their reading as data again."""

import warnings

import meshio
import numpy as np
import pytest

from skop import FieldSet
from skop.data import attach_beside, attach_predictions, read_meshes, write_mesh
from skop.exceptions import SkopWarning

POINTS = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
CELLS = [("triangle", np.array([[0, 1, 2], [0, 2, 3]]))]


def square(**point_data):
    cell_data = {"material": [np.array([1, 2])], "stress": [np.array([3.0, 5.0])]}
    return meshio.Mesh(POINTS, CELLS, point_data, cell_data)


def predictions(*columns, names):
    return FieldSet(POINTS[:, :2], np.stack(columns, axis=1)[None], channel_names=names)


def test_inputs_truth_and_error_are_kept(tmp_path):
    u, load = np.arange(12.0).reshape(4, 3), np.arange(4)
    mesh = square(u=u, load=load)
    samples = read_meshes([mesh], ["u"], keep_data=True)
    found = 2 * u + 1
    (out,) = attach_predictions(samples.meshes, predictions(*found.T, names=["u_0", "u_1", "u_2"]))
    assert list(out.point_data) == ["u", "u_true", "u_error", "load"]
    out.write(tmp_path / "out.vtu")
    again = meshio.read(tmp_path / "out.vtu")
    for name, expected in {"u": found, "u_true": u, "u_error": found - u, "load": load}.items():
        np.testing.assert_array_equal(again.point_data[name], expected)
    np.testing.assert_array_equal(again.cell_data["material"][0], [1, 2])
    # The data of the caller are neither changed nor shared.
    out.point_data["load"] += 1
    np.testing.assert_array_equal(mesh.point_data["load"], np.arange(4))
    assert set(mesh.point_data) == {"u", "load"}
    assert not read_meshes([mesh], ["u"]).meshes[0].point_data


def test_meshes_predicted_twice_keep_the_first_truth():
    mesh = square(p=np.ones(4))
    first = attach_predictions([mesh], predictions(np.full(4, 2.0), names=["p"]))
    attach_beside(first, [predictions(np.full(4, 0.5), names=["p"])])
    (second,) = attach_predictions(first, predictions(np.full(4, 5.0), names=["p"]))
    assert {name: values[0] for name, values in second.point_data.items()} == {"p": 5, "p_true": 1, "p_error": 4}
    # A prediction without the truth at hand does not become the truth of the next one, with or without a file between.
    (blind,) = attach_predictions([square()], predictions(np.full(4, 2.0), names=["p"]))
    assert list(attach_predictions([blind], predictions(np.ones(4), names=["p"]))[0].point_data) == ["p"]
    attach_beside([blind], [predictions(np.full(4, 0.5), names=["p"])])
    plain = meshio.Mesh(blind.points, blind.cells, blind.point_data)
    assert list(attach_predictions([plain], predictions(np.ones(4), names=["p"]))[0].point_data) == ["p"]


def test_truth_on_cells_is_averaged_beside_a_prediction_on_points():
    (out,) = attach_predictions([square()], predictions(np.full(4, 7.0), names=["stress"]))
    np.testing.assert_allclose(out.point_data["stress_true"], [4, 3, 4, 5])
    np.testing.assert_allclose(out.point_data["stress_error"], [3, 4, 3, 2])
    np.testing.assert_array_equal(out.cell_data["stress_true"][0], [3, 5])
    assert "stress" not in out.cell_data


def test_data_that_files_cannot_hold_are_left_out(tmp_path):
    odd = {
        "flag": np.array([True, False, True, True]),
        "half": np.ones(4, dtype="f2"),
        "big": np.ones(4, dtype=">f8"),
        "tensor": np.arange(36.0).reshape(4, 3, 3),
        "label": np.array(list("abcd")),
        "phase": np.ones(4, dtype=complex),
        "p": np.array(list("abcd")),
    }
    (out,) = attach_predictions([square(**odd)], predictions(np.zeros(4), names=["p"]))
    assert set(out.point_data) == {"p", "flag", "half", "big", "tensor"}
    out.write(tmp_path / "out.vtu")
    again = meshio.read(tmp_path / "out.vtu").point_data
    np.testing.assert_array_equal(again["flag"], [1, 0, 1, 1])
    np.testing.assert_array_equal(again["tensor"], np.arange(36.0).reshape(4, 9))


def test_names_of_groups_are_kept_and_written_to_the_format_that_has_them(tmp_path):
    groups, other = {"inlet": np.array([7, 1]), "body": [3, 2]}, {"TimeValue": np.array([0.5]), "note": "text"}
    mesh = meshio.Mesh(POINTS, CELLS, {"p": np.ones(4)}, field_data=groups | other)
    samples = read_meshes([mesh], ["p"], keep_data=True)
    means = attach_predictions(samples.meshes, predictions(np.zeros(4), names=["p"]))
    (alone,) = attach_beside(means, [predictions(np.ones(4), names=["p"])])
    for found in (*means, *alone):
        assert {name: list(held) for name, held in found.field_data.items()} == {"inlet": [7, 1], "body": [3, 2]}
    means[0].write(tmp_path / "out.msh", file_format="gmsh22")
    assert meshio.read(tmp_path / "out.msh").field_data["inlet"].tolist() == [7, 1]


def test_sets_of_points_and_cells_are_kept(tmp_path, capfd):
    cells = [("line", np.array([[0, 1]])), *CELLS]
    sets = {"inlet": [np.array([0]), None], "domain": [np.array([]), np.array([0, 1])]}
    odd = {"gmsh:bounding_entities": [np.array([1, -2]), np.array([1])], "gone": [np.array([7]), None]}
    mesh = meshio.Mesh(POINTS, cells, {"p": np.ones(4)}, point_sets={"corner": np.array([2])}, cell_sets=sets | odd)
    samples = read_meshes([mesh], ["p"], keep_data=True)
    (out,) = attach_predictions(samples.meshes, predictions(np.zeros(4), names=["p"]))
    ((alone,),) = attach_beside([out], [predictions(np.ones(4), names=["p"])])
    for found in (out, alone):
        assert found.point_sets["corner"].tolist() == [2]
        expected = {"inlet": [[0], []], "domain": [[], [0, 1]]}
        assert {name: [part.tolist() for part in parts] for name, parts in found.cell_sets.items()} == expected
    write_mesh(out, tmp_path / "out.vtu")
    assert capfd.readouterr() == ("", "")
    again = meshio.read(tmp_path / "out.vtu")
    assert [part.tolist() for part in again.cell_data["inlet-domain"]] == [[0], [1, 1]]
    assert list(mesh.cell_sets) == [*sets, *odd]


def test_a_field_of_another_shape_has_no_error():
    (out,) = attach_predictions([square(p=np.ones((4, 2)))], predictions(np.zeros(4), names=["p"]))
    assert list(out.point_data) == ["p", "p_true"]


def test_spread_is_beside_the_mean_and_alone():
    mesh = square(p=np.ones(4), load=np.ones(4))
    means = attach_predictions([mesh], predictions(np.full(4, 2.0), names=["p"]))
    ((alone,),) = attach_beside(means, [predictions(np.arange(4.0), names=["p"])])
    assert list(alone.point_data) == ["p_spread"]
    np.testing.assert_array_equal(alone.point_data["p_spread"], np.arange(4))
    np.testing.assert_array_equal(means[0].point_data["p_spread"], np.arange(4))


def test_predictions_that_are_read_as_data_are_named(tmp_path):
    (out,) = attach_predictions([square(p=np.ones(4))], predictions(np.full(4, 2.0), names=["p"]))
    out.write(tmp_path / "out.vtu")
    with pytest.warns(SkopWarning, match=r"field 'p' of .*out\.vtu is a prediction.* the truth is 'p_true'") as caught:
        read_meshes(tmp_path / "out.vtu", ["p"])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_meshes(tmp_path / "out.vtu", ["p_true"]).fields.values[0, 0, 0] == 1
    data = {"p": np.ones(4), "q": np.ones(4), "load": np.ones(4)}
    out = attach_predictions([square(**data)], predictions(np.ones(4), np.ones(4), names=["p", "q"]))
    with pytest.warns(SkopWarning, match=r"fields 'p' and 'q' are predictions.* the truth is 'p_true' and 'q_true'"):
        read_meshes(out, ["p", "q", "load"])
