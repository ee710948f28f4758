"""The elastic-plastic sheet against closed forms, its energy, an elastic wave, and balances of momentum and energy."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import skfem
from scipy.interpolate import PPoly

from skop.datasets import _elastoplastic as elastoplastic
from skop.datasets._elastoplastic import Flow, Material, Sheet, nominal_stress, return_mapping
from skop.exceptions import FieldDataError

STEEL = Material(200e3, 0.3, 70.0, 0.0, 7.85e-9)
HARDENING = Material(200e3, 0.3, 70.0, 5e3, 7.85e-9)
MATERIALS = pytest.mark.parametrize("material", [STEEL, HARDENING], ids=["perfect", "hardening"])
BOTH = (slice(None), slice(None))


def virgin(n_points=1):
    return Flow(np.outer([1.0, 0.0, 1.0], np.ones(n_points)), np.zeros(n_points))


def as_matrices(components):
    """(4, N) in the order 11, 21, 12, 22 to (N, 2, 2)."""
    return components.T.reshape(-1, 2, 2).transpose(0, 2, 1)


def as_components(matrices):
    return matrices.transpose(0, 2, 1).reshape(-1, 4).T


def follow(gradients, material):
    """Stress at the end of a path of F (2, 2), and the plastic state."""
    flow = virgin()
    for gradient in gradients:
        stress, flow = nominal_stress(as_components(np.asarray(gradient)[np.newaxis]), flow, material)
    return as_matrices(stress)[0], flow


def uniaxial(strain, material):
    """Closed form of uniaxial stress along y: F, Kirchhoff stress and plastic strain at a logarithmic strain."""
    size, sign = abs(strain), np.sign(strain)
    plastic = max(0, material.young_modulus * size - material.yield_stress) / (
        material.young_modulus + material.hardening
    )
    stress = material.young_modulus * (size - plastic)
    lateral = -sign * (material.poisson_ratio * (size - plastic) + plastic / 2)
    return np.diag(np.exp([lateral, strain])), sign * stress, plastic


def energy(mean, shear, equivalent, material):
    """Elastic energy plus what yielding costs."""
    s, d, after = return_mapping(mean, shear, equivalent, material)
    k_s, k_d = material.moduli
    cost = material.yield_stress * after + material.hardening * after**2 / 2
    return s**2 / (4 * k_s) + d**2 / (4 * k_d) + cost


def flat(height):
    return PPoly(np.array([[0.0], [height]]), np.array([-100.0, 100.0]))


def bump(height, bend=0.1, middle=0.0):
    """A parabola that touches `height` at the middle."""
    return PPoly(np.array([[bend], [-200 * bend], [1e4 * bend + height]]), np.array([middle - 100.0, middle + 100.0]))


def block(n_cells, size, die, material=STEEL, *, hold=BOTH):
    """Sheet whose base is held along y, and whose points in `hold` are held along x; with the order of its points."""
    mesh = skfem.MeshQuad.init_tensor(*(np.linspace(0, s, n + 1) for s, n in zip(size, n_cells, strict=True)))
    order = np.lexsort((mesh.p[1], mesh.p[0])).reshape(n_cells[0] + 1, -1)
    is_fixed = np.zeros((mesh.p.shape[1], 2), dtype=bool)
    is_fixed[order[:, 0], 1] = True
    is_fixed[order[hold].ravel(), 0] = True
    return Sheet(mesh, material, is_fixed, order[:, -1], die), order


FREE = (slice(0), slice(None))


@pytest.fixture(scope="module")
def pressed():
    """A free block beneath a bump: sheet, order of its points, die, speed of the die, and the state afterwards."""
    die, speed = bump(5.0, middle=4.0), 5000.0
    sheet, order = block((20, 10), (10.0, 5.0), die, hold=FREE)
    return sheet, order, die, speed, sheet.advance(sheet.rest(), speed, 1e-4)


class TestMaterial:
    rng = np.random.default_rng(0)
    mean, shear = rng.standard_normal((2, 200)) * 10 ** rng.uniform(-5, -1, (2, 200))
    equivalent = rng.uniform(0, 0.1, 200)

    @MATERIALS
    def test_the_yield_criterion_holds(self, material):
        s, d, after = return_mapping(self.mean, self.shear, self.equivalent, material)
        first, second = (s + d) / 2, (s - d) / 2
        von_mises = np.sqrt(first**2 - first * second + second**2)
        limit = material.yield_stress + material.hardening * after
        yields = after > self.equivalent
        assert 20 < yields.sum() < 180
        np.testing.assert_allclose(von_mises[yields], limit[yields], rtol=1e-12)
        assert (von_mises[~yields] <= limit[~yields]).all()

    @MATERIALS
    def test_stress_is_the_derivative_of_the_energy(self, material):
        # That is so only if the return is to the closest point: the flow is associated.
        s, d, _ = return_mapping(self.mean, self.shear, self.equivalent, material)
        step = 1e-7
        for expected, (along_mean, along_shear) in ((s, (step, 0)), (d, (0, step))):
            ahead, behind = (
                energy(self.mean + sign * along_mean, self.shear + sign * along_shear, self.equivalent, material)
                for sign in (1, -1)
            )
            np.testing.assert_allclose((ahead - behind) / step, expected, atol=2e-3 * 70)

    @MATERIALS
    @pytest.mark.parametrize("strain", [3.4e-4, -3.4e-4, -3.6e-4, 0.02, -0.3])
    def test_uniaxial_stress(self, material, strain):
        gradient, expected, plastic = uniaxial(strain, material)
        stress, flow = follow([gradient], material)
        # The nominal stress is the Kirchhoff stress over the stretch.
        np.testing.assert_allclose(stress, np.diag([0, expected / np.exp(strain)]), atol=1e-8)
        np.testing.assert_allclose(flow.equivalent, plastic, atol=1e-12)

    def test_shear_yields_at_the_yield_stress_over_root_3(self):
        shear = 1.5 * 70 / np.sqrt(3) / 200e3 * 1.3 * 2
        s, d, _ = return_mapping(np.zeros(1), np.array([shear]), np.zeros(1), STEEL)
        assert s[0] == 0
        assert d[0] / 2 == pytest.approx(70 / np.sqrt(3))

    @MATERIALS
    def test_a_proportional_path_does_not_depend_on_its_steps(self, material):
        def path(n_steps):
            turn = np.array([[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]])
            parts = np.linspace(0, 1, n_steps + 1)[1:]
            return [turn @ uniaxial(-0.2 * part, material)[0] @ turn.T for part in parts]

        (one, one_flow), (other, other_flow) = follow(path(1), material), follow(path(64), material)
        np.testing.assert_allclose(other, one, atol=1e-7)
        np.testing.assert_allclose(other_flow.equivalent, one_flow.equivalent, rtol=1e-9)

    @MATERIALS
    def test_a_rotation_turns_the_stress_and_nothing_else(self, material):
        gradients = np.eye(2) + 0.1 * np.random.default_rng(1).standard_normal((30, 2, 2))
        _, flow = nominal_stress(as_components(gradients), virgin(30), material)
        turn = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]])
        moved = gradients + 1e-3 * np.random.default_rng(2).standard_normal((30, 2, 2))
        (plain, after), (turned, turned_after) = (
            nominal_stress(as_components(rotation @ moved), flow, material) for rotation in (np.eye(2), turn)
        )
        np.testing.assert_allclose(as_matrices(turned), turn @ as_matrices(plain), atol=1e-8)
        for one, other in zip(after, turned_after, strict=True):
            np.testing.assert_allclose(other, one, atol=1e-12)
        # The moment of the stress vanishes: P F^T is symmetric.
        kirchhoff = as_matrices(plain) @ moved.transpose(0, 2, 1)
        np.testing.assert_allclose(kirchhoff, kirchhoff.transpose(0, 2, 1), atol=1e-9)

    def test_unloading_is_elastic(self):
        flow = follow([uniaxial(-0.1, STEEL)[0]], STEEL)[1]
        gradient = uniaxial(-0.1, STEEL)[0]
        # Back by half the yield strain: half the yield stress is left, and nothing flows.
        back = gradient @ np.diag(np.exp(35 / 200e3 * np.array([-0.3, 1.0])))
        stress, after = nominal_stress(as_components(back[np.newaxis]), flow, STEEL)
        np.testing.assert_allclose(as_matrices(stress)[0] @ back.T, np.diag([0, -35.0]), atol=1e-7)
        assert after.equivalent[0] == flow.equivalent[0]

    def test_a_cell_inside_out_is_refused(self):
        with pytest.raises(FieldDataError, match="a cell turns inside out"):
            nominal_stress(as_components(np.diag([-1.0, 1.0])[np.newaxis]), virgin(), STEEL)


class TestSheet:
    def test_mass_and_homogeneous_strain_on_a_distorted_mesh(self):
        mesh = skfem.MeshQuad.init_tensor(np.linspace(0, 3, 4), np.linspace(0, 2, 4))
        x, y = mesh.p
        inside = (x > 0) & (x < 3) & (y > 0) & (y < 2)
        mesh = skfem.MeshQuad(mesh.p + 0.2 * inside * np.random.default_rng(0).uniform(-1, 1, mesh.p.shape), mesh.t)
        sheet = Sheet(mesh, STEEL, np.zeros((16, 2), dtype=bool), np.arange(1), flat(10.0))
        assert sheet.mass.sum() == pytest.approx(6 * 7.85e-9)
        gradient = np.array([[1.2, 0.1], [-0.3, 0.8]])
        displacement = mesh.p.T @ (gradient - np.eye(2)).T
        components = sheet.gradient(displacement)
        np.testing.assert_allclose(as_matrices(components), np.broadcast_to(gradient, (36, 2, 2)), atol=1e-12)
        stress, _ = nominal_stress(components, virgin(36), STEEL)
        # The patch test: a homogeneous stress leaves no force inside, and its forces do the work of the stress.
        forces = sheet.forces(stress)
        np.testing.assert_allclose(forces[inside], 0, atol=1e-10)
        np.testing.assert_allclose(forces.sum(axis=0), 0, atol=1e-10)
        np.testing.assert_allclose(forces.T @ mesh.p.T / 6, as_matrices(stress)[0], atol=1e-10)

    def test_free_flight(self):
        sheet, _ = block((3, 2), (3.0, 2.0), flat(50.0), hold=FREE)
        start = sheet.rest()
        drift = np.tile([700.0, 0.0], (12, 1))
        end = sheet.advance(replace(start, velocity=drift), 0.0, 1e-4)
        np.testing.assert_allclose(end.displacement, drift * 1e-4, rtol=1e-9, atol=1e-12)
        assert not end.flow.equivalent.any()
        assert not end.impulse.any()

    def test_an_elastic_wave_below_a_flat_die(self):
        # d'Alembert: until the echo from the base is back, the die bears density * wave speed * speed.
        speed, size = 1000.0, (1.0, 20.0)
        errors = []
        for n_across in (50, 100, 200):
            sheet, _ = block((1, n_across), size, flat(20.0))
            time = 20.0 / STEEL.wave_speed
            state = sheet.advance(sheet.rest(), speed, time)
            assert not state.flow.equivalent.any()
            errors.append(abs(-state.impulse[1] / (7.85e-9 * STEEL.wave_speed * speed * time) - 1))
        assert errors[2] < 0.01
        assert all(coarse > 1.8 * fine for coarse, fine in pairwise(errors))

    @MATERIALS
    def test_slow_compression_between_flat_dies_reaches_the_closed_form(self, material):
        sheet, _ = block((2, 2), (1.0, 1.0), flat(1.0), material, hold=(0, slice(None)))
        state = sheet.rest()
        forces = []
        for _ in range(10):
            before = state
            state = sheet.advance(state, 200.0, 4e-6)
            forces.append(-(state.impulse - before.impulse)[1] / 4e-6)
        # In the middle of the last interval.
        strain = np.log(1 - 9.5 * 8e-4)
        gradient, stress, plastic = uniaxial(strain, material)
        assert forces[-1] == pytest.approx(-stress / gradient[1, 1], rel=0.03)
        np.testing.assert_allclose(state.flow.equivalent, plastic, rtol=0.1)

    def test_balances_of_momentum_and_energy(self, pressed):
        sheet, _, _, speed, state = pressed
        # Nothing but the die acts along x.
        assert abs(state.impulse[0]) > 1e-7
        assert sheet.mass @ state.velocity[:, 0] == pytest.approx(state.impulse[0], rel=1e-9)
        # The die works with its speed; what is not dissipated is motion and, at most, elastic energy at the yield.
        work = -state.impulse[1] * speed
        motion = sheet.mass @ (state.velocity**2).sum(axis=1) / 2
        dissipated = 70.0 * sheet.weights @ state.flow.equivalent
        stored = 70.0**2 / (2 * 200e3) / 0.7 * 50
        assert dissipated > 0.9 * work
        assert -0.01 * work < work - dissipated - motion < stored + 0.01 * work

    def test_no_point_enters_the_die(self, pressed):
        _, order, die, _, state = pressed
        top = order[:, -1]
        x, y = np.linspace(0, 10, 21) + state.displacement[top, 0], 5.0 + state.displacement[top, 1]
        gap = die(x) - state.travel - y
        assert state.travel == pytest.approx(0.5)
        assert gap.min() > -1e-6
        assert 3 <= (gap < 1e-6).sum() <= 12

    def test_the_mirrored_die_gives_the_mirrored_motion(self):
        motions = []
        for middle in (3.5, 6.5):
            sheet, order = block((20, 8), (10.0, 4.0), bump(4.0, middle=middle), hold=FREE)
            motions.append(sheet.advance(sheet.rest(), 10000.0, 3e-5).displacement[order])
        np.testing.assert_allclose(motions[1][::-1], motions[0] * [-1, 1], atol=1e-7)
        assert np.abs(motions[0]).max() > 0.25

    def test_converges_with_the_mesh(self):
        motions = []
        for factor in (1, 2, 4):
            sheet, order = block((8 * factor, 4 * factor), (10.0, 5.0), bump(5.0, middle=4.0), hold=(slice(None), 0))
            motions.append(sheet.advance(sheet.rest(), 10000.0, 3e-5).displacement[order][::factor, ::factor])
        errors = [np.linalg.norm(motion - motions[2]) / np.linalg.norm(motions[2]) for motion in motions[:2]]
        assert errors[0] > 1.8 * errors[1]
        assert errors[1] < 0.1

    def test_a_motion_of_too_many_steps_is_refused(self, monkeypatch):
        monkeypatch.setattr(elastoplastic, "MAX_STEPS", 3)
        sheet, _ = block((2, 2), (1.0, 1.0), flat(1.0))
        with pytest.raises(FieldDataError, match="took more than 3 steps"):
            sheet.advance(sheet.rest(), 1.0, 1e-3)
