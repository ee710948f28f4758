"""Vectors over shape functions against scikit-fem's own assembly."""

import numpy as np
import pytest
import skfem
from skfem.helpers import ddot, grad

from skop.datasets import _finite_elements as finite_elements


@pytest.fixture(params=["quadrilateral", "tetrahedron"])
def basis(request):
    if request.param == "quadrilateral":
        mesh = skfem.MeshQuad.init_tensor(np.linspace(0, 1, 3), np.linspace(0, 2, 4))
        return skfem.Basis(skfem.MeshQuad2.from_mesh(mesh), skfem.ElementQuad2(), intorder=5)
    return skfem.Basis(skfem.MeshTet().refined(), skfem.ElementTetP2(), intorder=4)


def test_gradient_of_a_linear_field(basis):
    n_dims = basis.mesh.dim()
    expected = np.random.default_rng(0).standard_normal((n_dims, n_dims))
    values = (basis.doflocs.T @ expected.T).ravel()
    dofs = finite_elements.displacement_dofs(basis)
    gradient = finite_elements.gradient_operator(basis) @ values[dofs][:, None, :, None]
    np.testing.assert_allclose(gradient[..., 0], np.broadcast_to(expected.ravel(), gradient.shape[:-1]), atol=1e-12)


def test_stiffness_is_that_of_scikit_fem(basis):
    n_dims = basis.mesh.dim()
    vector = skfem.Basis(basis.mesh, skfem.ElementVector(basis.elem), quadrature=(basis.X, basis.W))
    # Vector degrees of freedom of these elements run over components first, as ours do.
    np.testing.assert_array_equal(np.sort(vector.element_dofs.T), np.sort(finite_elements.displacement_dofs(basis)))
    expected = skfem.BilinearForm(lambda u, v, _: ddot(grad(u), grad(v))).assemble(vector)
    tangent = basis.dx[:, :, None, None] * np.eye(n_dims**2)
    operator, dofs = finite_elements.gradient_operator(basis), finite_elements.displacement_dofs(basis)
    actual = finite_elements.assemble_stiffness(operator, tangent, dofs)
    assert abs(actual - expected).max() < 1e-12


def test_mean_at_points():
    values = np.array([[[1.0], [2.0]], [[5.0], [7.0]]])
    means = finite_elements.mean_at_points(values, np.array([[0, 1], [1, 2]]), np.array([1.0, 3.0]))
    np.testing.assert_allclose(means, [[1], [(2 + 3 * 5) / 4], [7]])
