"""Reading of triangles in well-known text."""

import meshio
import numpy as np
import pytest

from skop.data import read_meshes
from skop.exceptions import FieldDataError

MESH = meshio.Mesh(
    np.array([[0.0, 0, 0], [1, 0, 1e-7], [0, 1, -2.5], [1, 1, 3]]), [("triangle", np.array([[0, 1, 2], [2, 1, 3]]))]
)


def test_triangles_are_those_that_were_written(tmp_path):
    """Points in the order of the triangles, each once; meshio's own reader refuses exponents such as 1e-07."""
    meshio.write(tmp_path / "a.wkt", MESH)
    mesh = read_meshes([tmp_path / "a.wkt"]).meshes[0]
    assert np.array_equal(mesh.points, MESH.points)
    assert np.array_equal(mesh.cells[0].data, MESH.cells[0].data)


def test_every_cut_ends_at_once(tmp_path):
    """Each place at which a file can be cut off is an error; a few hundred bytes took minutes."""
    meshio.write(tmp_path / "a.wkt", MESH)
    text = (tmp_path / "a.wkt").read_text()
    for length in range(1, len(text)):
        (tmp_path / "a.wkt").write_text(text[:length])
        with pytest.raises(FieldDataError, match="cannot read"):
            read_meshes([tmp_path / "a.wkt"])


def test_other_texts_are_refused(tmp_path):
    for text in [
        "TIN (((0 0 0, 1 0 0, 0 1 0, 0 0 1)))",
        "TIN (((0 0 0, 1 0, 0 1 0, 0 0 0)))",
        "TIN (((0 0 0, 1 0 x, 0 1 0, 0 0 0)))",
        "TIN (((0 0 0, 1 0 0, 0 1 0, 0 0 0)) 5 ((0 0 0, 1 0 0, 0 1 0, 0 0 0)))",
        "TIN ()",
        "POLYGON ((0 0, 1 0, 0 1, 0 0))",
    ]:
        (tmp_path / "a.wkt").write_text(text)
        with pytest.raises(FieldDataError, match="cannot read"):
            read_meshes([tmp_path / "a.wkt"])
