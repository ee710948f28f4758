"""The sheet solver against its energy, homogeneous stretches, linear elasticity and the balance of forces."""

from itertools import product

import numpy as np
import pytest
import skfem
from skfem.helpers import ddot, eye, sym_grad, trace

from skop.datasets import _hyperelastic as hyperelastic
from skop.datasets._hyperelastic import Sheet, edge_load
from skop.exceptions import FieldDataError

MODULI = (1.3, 0.4)


def square_mesh(n_cells=3, bend=0.0):
    """Unit square of nine-node cells, bent inside if asked."""
    mesh = skfem.MeshQuad.init_tensor(*[np.linspace(0, 1, n_cells + 1)] * 2)
    mesh = skfem.MeshQuad2.from_mesh(mesh)
    x, y = mesh.doflocs
    bubble = bend * np.sin(np.pi * x) * np.sin(np.pi * y)
    return skfem.MeshQuad2(np.stack([x + bubble, y - bubble * x]), mesh.t)


def side(mesh, axis, value):
    return mesh.facets_satisfying(lambda x: np.isclose(x[axis], value), boundaries_only=True)


def rollers(mesh):
    """Slide along the two axes."""
    return np.stack([np.isclose(mesh.doflocs[0], 0), np.isclose(mesh.doflocs[1], 0)], axis=-1).ravel()


def clamp(mesh):
    return np.repeat(np.isclose(mesh.doflocs[1], 0), 2)


def energy(gradient):
    jacobian = gradient[..., 0] * gradient[..., 3] - gradient[..., 1] * gradient[..., 2]
    squares = (gradient**2).sum(axis=-1)
    first, second = squares + jacobian**-2, jacobian**2 + squares * jacobian**-2
    return MODULI[0] * (first - 3) + MODULI[1] * (second - 3)


def linear_displacement(mesh, is_fixed, load):
    """Small displacements by linear elasticity in plane stress, E = 6 (C1 + C2) and Poisson's ratio 1/2."""
    modulus, ratio = 6 * sum(MODULI), 0.5
    lame = modulus * ratio / (1 - ratio**2), modulus / (2 * (1 + ratio))
    basis = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementQuad2()), intorder=6)

    @skfem.BilinearForm
    def stiffness(u, v, _):
        strain = sym_grad(u)
        return ddot(lame[0] * eye(trace(strain), 2) + 2 * lame[1] * strain, sym_grad(v))

    return skfem.solve(*skfem.condense(stiffness.assemble(basis), load, D=np.flatnonzero(is_fixed)))


class TestMaterial:
    gradient = np.array([1.0, 0, 0, 1]) + 0.25 * np.random.default_rng(0).standard_normal((20, 4))

    def test_invariants_are_those_of_three_dimensions(self):
        for matrix in self.gradient.reshape(-1, 2, 2):
            full = np.zeros((3, 3))
            full[:2, :2], full[2, 2] = matrix, 1 / np.linalg.det(matrix)
            cauchy_green = full.T @ full
            first = np.trace(cauchy_green)
            second = (first**2 - np.trace(cauchy_green @ cauchy_green)) / 2
            expected = MODULI[0] * (first - 3) + MODULI[1] * (second - 3)
            np.testing.assert_allclose(energy(matrix.ravel()), expected, rtol=1e-12)

    def test_stress_and_tangent_are_derivatives(self):
        stress, tangent = hyperelastic.stress_and_tangent(self.gradient, MODULI)
        for direction in range(4):
            step = 1e-6 * np.eye(4)[direction]
            ahead, behind = self.gradient + step, self.gradient - step
            np.testing.assert_allclose((energy(ahead) - energy(behind)) / 2e-6, stress[:, direction], atol=1e-7)
            slopes = [hyperelastic.stress_and_tangent(at, MODULI)[0] for at in (ahead, behind)]
            np.testing.assert_allclose((slopes[0] - slopes[1]) / 2e-6, tangent[..., direction], atol=1e-6)

    def test_a_rotation_turns_the_true_stress(self):
        angle = 0.7
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        turned = (turn @ self.gradient.reshape(-1, 2, 2)).reshape(-1, 4)
        stress = hyperelastic.cauchy_stress(self.gradient, MODULI)
        np.testing.assert_allclose(stress, np.swapaxes(stress, 1, 2), atol=1e-12)
        np.testing.assert_allclose(hyperelastic.cauchy_stress(turned, MODULI), turn @ stress @ turn.T, atol=1e-11)

    def test_von_mises(self):
        stress = np.random.default_rng(1).standard_normal((5, 2, 2))
        stress += np.swapaxes(stress, 1, 2)
        full = np.zeros((5, 3, 3))
        full[:, :2, :2] = stress
        deviator = full - np.trace(full, axis1=1, axis2=2)[:, None, None] * np.eye(3) / 3
        np.testing.assert_allclose(hyperelastic.von_mises(stress), np.sqrt(1.5 * (deviator**2).sum(axis=(1, 2))))


class TestSheet:
    def test_uniaxial_stretch(self):
        for bend, traction in product([0.0, 0.08], [2.5, -0.8]):
            mesh = square_mesh(bend=bend)
            sheet = Sheet(mesh, MODULI)
            displacement = sheet.solve(rollers(mesh), edge_load(mesh, side(mesh, 1, 1), (0, traction)))
            stretch = 1 + displacement[1::2][np.isclose(mesh.doflocs[1], 1)]
            np.testing.assert_allclose(stretch, stretch[0], rtol=1e-8)
            # The closed form of uniaxial tension: P = 2 (C1 + C2 / s) (s - 1 / s^2), true stress s P.
            stretch = stretch[0]
            assert 2 * (MODULI[0] + MODULI[1] / stretch) * (stretch - stretch**-2) == pytest.approx(traction, rel=1e-7)
            moved = np.stack([mesh.doflocs[0] * (stretch**-0.5 - 1), mesh.doflocs[1] * (stretch - 1)], axis=-1)
            np.testing.assert_allclose(displacement.reshape(-1, 2), moved, atol=1e-7)
            expected = np.broadcast_to([[0, 0], [0, stretch * traction]], (len(moved), 2, 2))
            np.testing.assert_allclose(sheet.nodal_stress(displacement), expected, atol=1e-6)

    def test_equibiaxial_stretch(self):
        mesh = square_mesh()
        load = edge_load(mesh, side(mesh, 0, 1), (1.5, 0)) + edge_load(mesh, side(mesh, 1, 1), (0, 1.5))
        displacement = Sheet(mesh, MODULI).solve(rollers(mesh), load)
        stretch = 1 + displacement.max()
        stress = 2 * (stretch - stretch**-5) * (MODULI[0] + MODULI[1] * stretch**2)
        assert stress == pytest.approx(1.5, rel=1e-7)

    def test_small_loads_give_linear_elasticity(self):
        mesh = square_mesh(4, bend=0.05)
        load = edge_load(mesh, side(mesh, 1, 1), (1e-5, 3e-5))
        displacement = Sheet(mesh, MODULI).solve(clamp(mesh), load)
        expected = linear_displacement(mesh, clamp(mesh), load)
        assert np.abs(displacement - expected).max() < 1e-4 * np.abs(expected).max()

    def test_reactions_balance_the_load(self):
        mesh = square_mesh(4)
        sheet, is_fixed = Sheet(mesh, MODULI), clamp(mesh)
        load = edge_load(mesh, side(mesh, 1, 1), (0.3, 0.9))
        np.testing.assert_allclose(load.reshape(-1, 2).sum(axis=0), [0.3, 0.9])
        displacement = sheet.solve(is_fixed, load)
        forces = sheet.reaction(displacement)
        np.testing.assert_allclose(forces.reshape(-1, 2).sum(axis=0), 0, atol=1e-12)
        held = np.where(is_fixed, forces - load, 0).reshape(-1, 2)
        np.testing.assert_allclose(held.sum(axis=0), [-0.3, -0.9], rtol=1e-7)
        # Moments about the origin balance in the deformed sheet.
        place = mesh.doflocs.T + displacement.reshape(-1, 2)
        moment = place[:, 0] * (held + load.reshape(-1, 2))[:, 1] - place[:, 1] * (held + load.reshape(-1, 2))[:, 0]
        assert abs(moment.sum()) < 1e-7

    def test_a_large_load_is_reached_in_steps(self, monkeypatch):
        mesh = square_mesh()
        load = edge_load(mesh, side(mesh, 1, 1), (0, 20.0))
        monkeypatch.setattr(hyperelastic, "MAX_ITERATIONS", 5)
        displacement = Sheet(mesh, MODULI).solve(rollers(mesh), load)
        stretch = 1 + displacement.max()
        assert 2 * (MODULI[0] + MODULI[1] / stretch) * (stretch - stretch**-2) == pytest.approx(20, rel=1e-7)

    def test_no_equilibrium(self, monkeypatch):
        mesh = square_mesh()
        load = edge_load(mesh, side(mesh, 1, 1), (0, 20.0))
        monkeypatch.setattr(hyperelastic, "MAX_ITERATIONS", 2)
        monkeypatch.setattr(hyperelastic, "MAX_STEPS", 4)
        with pytest.raises(FieldDataError, match=r"no equilibrium was found beyond 0.0% of the load"):
            Sheet(mesh, MODULI).solve(rollers(mesh), load)

    def test_folded_mesh(self):
        with pytest.raises(FieldDataError, match="folds over itself"):
            Sheet(square_mesh(bend=2.0), MODULI)
