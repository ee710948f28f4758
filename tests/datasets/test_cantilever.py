"""The beam generator against a patch test, beam theory, the balance of forces, laws of scale, and its seeds."""

import numpy as np
import pytest
import skfem
from skfem.helpers import eye, sym_grad, trace

from skop.datasets import _cantilever as cantilever
from skop.datasets import make_cantilever
from skop.datasets._finite_elements import assemble_stiffness, displacement_dofs, gradient_operator
from skop.exceptions import FieldDataError

SMALL = {"n_cells": (8, 1, 1), "dtype": np.float64}
BEAM = np.array([0.6, 0.08, 0.1, 0.7, 900.0, 0.8, 25.0])


def beam(n_cells=(8, 1, 1), poisson_ratio=0.33, **changes):
    """Generate one beam, by name."""
    row = dict(zip(cantilever.RANGES, BEAM, strict=True)) | changes
    options = {"n_cells": n_cells, "poisson_ratio": poisson_ratio, "dtype": np.float64}
    return make_cantilever(params=[list(row.values())], **options)


def theory_deflection(length, width, height, load, position, poisson_ratio=0.0):
    """Tip deflection of a straight beam by Timoshenko's theory, with the generator's spread of the load."""
    share = np.linspace(0, 1, 20001)
    weights = np.maximum(0, 1 - ((share - position) / cantilever.LOAD_HALF_WIDTH) ** 2)
    place, force = share * length, load * weights / weights.sum()
    bending = (force * place**2 * (3 * length - place)).sum() / 6 / (70e9 * width * height**3 / 12)
    shear = (force * place).sum() / (70e9 / 2 / (1 + poisson_ratio) * width * height * 5 / 6)
    return bending + shear


class TestSolver:
    def test_patch(self):
        box = cantilever._box((3, 2, 2))
        mesh = box.mesh.translated((0.0, 0.5, 0.5))
        basis = skfem.Basis(mesh, skfem.ElementTetP2(), intorder=2)
        points = basis.doflocs.T
        end = mesh.facets_satisfying(lambda x: x[0] == 1, boundaries_only=True)
        facets = skfem.FacetBasis(mesh, skfem.ElementTetP2(), facets=end, intorder=4)
        load = np.outer(skfem.LinearForm(lambda v, _: v).assemble(facets), [3.0, 0, 0]).ravel()
        elasticity = cantilever._elasticity_matrix(50.0, 0.3)
        displacement = cantilever._solve(basis, elasticity, (points == 0).ravel(), load)
        np.testing.assert_allclose(displacement.reshape(-1, 3), points * [0.06, -0.018, -0.018], atol=1e-12)
        stress = cantilever._nodal_stress(mesh, elasticity, displacement)
        np.testing.assert_allclose(stress, np.broadcast_to(np.diag([3.0, 0, 0]), stress.shape), atol=1e-11)
        np.testing.assert_allclose(cantilever._von_mises(stress), 3, rtol=1e-11)

    def test_stress_at_points_is_the_mean_by_volume(self):
        mesh = skfem.MeshTet.init_tensor(np.array([0, 0.1, 1]), np.array([0, 1]), np.array([0, 0.4, 1]))
        element = skfem.ElementVector(skfem.ElementTetP2())
        basis = skfem.Basis(mesh, element, quadrature=(skfem.ElementTetP2().doflocs.T.copy(), np.full(10, 1 / 60)))
        displacement = np.random.default_rng(2).standard_normal(basis.N)
        strain = sym_grad(basis.interpolate(displacement))
        stress = 1.2 * strain + 0.8 * eye(trace(strain), 3)
        volumes, points = basis.dx.sum(axis=1), skfem.Basis(mesh, skfem.ElementTetP2()).element_dofs
        assert volumes.max() > 5 * volumes.min()
        # Lame's constants are 0.8 and 0.6.
        actual = cantilever._nodal_stress(
            mesh, cantilever._elasticity_matrix(0.6 * (2.4 + 1.2) / 1.4, 2 / 7), displacement
        )
        for point in range(0, len(actual), 7):
            corner, cell = np.nonzero(points == point)
            expected = np.average(stress[:, :, cell, corner], axis=2, weights=volumes[cell])
            np.testing.assert_allclose(actual[point], expected, atol=1e-11)

    def test_elasticity_matrix_is_hookes_law(self):
        gradient = np.random.default_rng(0).standard_normal((3, 3))
        strain = (gradient + gradient.T) / 2
        stress = (cantilever._elasticity_matrix(7.0, 0.2) @ gradient.ravel()).reshape(3, 3)
        inverse = ((1 + 0.2) * stress - 0.2 * np.trace(stress) * np.eye(3)) / 7.0
        np.testing.assert_allclose(inverse, strain, atol=1e-14)

    def test_reactions_balance_the_load(self):
        box = cantilever._box((6, 1, 2))
        values = dict(zip(cantilever.RANGES, BEAM, strict=True))
        mesh = skfem.MeshTet(cantilever._bend(box.mesh.p.T, values).T, box.mesh.t)
        basis = skfem.Basis(mesh, skfem.ElementTetP2(), intorder=2)
        elasticity = cantilever._elasticity_matrix(70e9, 0.33)
        is_fixed = np.repeat(box.points[:, 0] == 0, 3)
        load = cantilever._nodal_load(mesh, box.top, values)
        displacement = cantilever._solve(basis, elasticity, is_fixed, load)
        weights = basis.dx[:, :, None, None] * elasticity
        stiffness = assemble_stiffness(gradient_operator(basis), weights, displacement_dofs(basis))
        held = np.where(is_fixed, stiffness @ displacement - load, 0).reshape(-1, 3)
        force = 900 * np.array([0, np.sin(np.deg2rad(25)), -np.cos(np.deg2rad(25))])
        np.testing.assert_allclose(load.reshape(-1, 3).sum(axis=0), force, atol=1e-9)
        np.testing.assert_allclose(held.sum(axis=0), -force, atol=1e-6)
        moments = [np.cross(basis.doflocs.T, forces).sum(axis=0) for forces in (held, load.reshape(-1, 3))]
        np.testing.assert_allclose(moments[0], -moments[1], atol=1e-6)
        middle = (load.reshape(-1, 3) @ force * basis.doflocs[0]).sum() / 900**2
        assert 0.75 * 0.6 < middle < 0.82 * 0.6


class TestBeams:
    @pytest.mark.parametrize("length", [0.5, 2.0])
    def test_deflection_is_timoshenkos(self, length):
        settings = {"length": length, "width": 0.1, "height": 0.1, "load": 100.0, "position": 0.7}
        expected = theory_deflection(**settings)
        errors = [
            abs(beam(cells, 0.0, **settings, taper=1.0, angle=0.0).scalars[0, 1] / expected - 1)
            for cells in ((5, 1, 1), (10, 1, 1), (20, 2, 2))
        ]
        assert errors[2] < errors[1] < errors[0] < 0.03
        assert errors[2] < 1e-3

    def test_bending_stress_is_that_of_the_theory(self):
        data = beam((20, 2, 2), length=2.0, width=0.1, height=0.1, taper=1.0, load=100.0, position=1.0, angle=0.0)
        coords, stress = data.coords[0], data.stress[0, :, 0]
        share = np.linspace(0.8, 1, 2001)
        weights = 1 - ((share - 1) / 0.2) ** 2
        arm = 2 * (share * weights).sum() / weights.sum() - 0.8
        surface = (np.abs(coords[:, 0] - 0.8) < 1e-9) & (np.abs(np.abs(coords[:, 2]) - 0.05) < 1e-9)
        assert surface.sum() == 10
        np.testing.assert_allclose(stress[surface], 6 * 100 * arm / 0.1**3, rtol=0.04)
        neutral = (np.abs(coords[:, 0] - 0.8) < 1e-9) & (np.abs(coords[:, 2]) < 1e-9)
        assert (stress[neutral] < 0.1 * stress[surface].mean()).all()

    def test_tapered_beams_bend_more(self):
        deflections = [beam(taper=taper).scalars[0, 1] for taper in (1.0, 0.7, 0.4)]
        assert deflections[0] < deflections[1] < deflections[2]

    def test_proportional_to_the_load(self):
        one, other = beam(load=900.0), beam(load=-2700.0)
        np.testing.assert_allclose(other.displacement, -3 * one.displacement, rtol=1e-7, atol=1e-16)
        np.testing.assert_allclose(other.stress, 3 * one.stress, rtol=1e-7)
        np.testing.assert_allclose(other.scalars, 3 * one.scalars, rtol=1e-7)

    def test_directions_add_up(self):
        down, aside, between = (beam(angle=angle, load=900.0).displacement for angle in (0.0, 90.0, 30.0))
        expected = np.cos(np.pi / 6) * down + 0.5 * aside
        np.testing.assert_allclose(between, expected, atol=1e-9 * np.abs(expected).max())
        assert (down[0, :, 2].min(), aside[0, :, 1].max()) == pytest.approx(
            (-np.abs(down[..., 2]).max(), np.abs(aside[..., 1]).max())
        )

    def test_law_of_scale(self):
        one, other = beam(), beam(length=1.2, width=0.16, height=0.2)
        np.testing.assert_allclose(other.coords, 2 * one.coords, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(other.displacement, one.displacement / 2, rtol=1e-6, atol=1e-16)
        np.testing.assert_allclose(other.stress, one.stress / 4, rtol=1e-6)

    def test_stiffness_scales_the_displacement_only(self):
        one, other = (make_cantilever(params=[BEAM], **SMALL, young_modulus=size) for size in (70e9, 210e9))
        np.testing.assert_allclose(one.displacement, 3 * other.displacement, rtol=1e-7, atol=1e-16)
        np.testing.assert_allclose(one.stress, other.stress, rtol=1e-7)


class TestMakeCantilever:
    def test_shapes_and_types(self):
        data = make_cantilever(2, random_state=0)
        assert data.params.shape == (2, 7)
        assert data.param_names == ["length", "width", "height", "taper", "load", "position", "angle"]
        assert data.coords.shape == data.displacement.shape == (2, 1025, 3)
        assert data.stress.shape == (2, 1025, 1)
        assert data.scalars.shape == (2, 2)
        for name in ("params", "coords", "displacement", "stress", "scalars"):
            assert data[name].dtype == np.float32
        low, high = np.array(list(cantilever.RANGES.values())).T
        assert ((data.params >= low) & (data.params <= high)).all()

    def test_geometry_follows_the_parameters(self):
        data = make_cantilever(4, **SMALL, random_state=1)
        for coords, (length, width, height, taper, *_) in zip(data.coords, data.params, strict=True):
            np.testing.assert_allclose(np.ptp(coords, axis=0), [length, width, height])
            tip = coords[np.isclose(coords[:, 0], length)]
            np.testing.assert_allclose(np.ptp(tip[:, 2]), taper * height)
        assert (data.displacement[:, data.coords[0, :, 0] == 0] == 0).all()

    def test_cells_are_tetrahedra_of_positive_volume_that_fill_the_beam(self):
        data = make_cantilever(2, **SMALL, random_state=2)
        for coords, (length, width, height, taper, *_) in zip(data.coords, data.params, strict=True):
            corners = coords[data.cells]
            edges = corners[:, 1:4] - corners[:, :1]
            volumes = np.linalg.det(edges) / 6
            assert (volumes > 0).all()
            assert volumes.sum() == pytest.approx(length * width * height * (1 + taper) / 2)
            for middle, pair in zip(range(4, 10), ((0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)), strict=True):
                np.testing.assert_allclose(corners[:, middle], corners[:, pair].mean(axis=1), atol=1e-12)
        assert set(data.cells.ravel()) == set(range(data.coords.shape[1]))

    def test_fixed_geometry_shares_its_coordinates(self):
        data = make_cantilever(3, **SMALL, geometry="fixed", random_state=3, ranges={"length": (1.0, 1.0)})
        assert data.param_names == ["load", "position", "angle"]
        assert data.coords.shape == (153, 3)
        np.testing.assert_allclose(np.ptp(data.coords, axis=0), [1.0, 0.09, 0.09])
        rows = [[1.0, 0.09, 0.09, 0.7, *row] for row in data.params]
        np.testing.assert_allclose(data.displacement, make_cantilever(params=rows, **SMALL).displacement, rtol=1e-9)

    def test_scalars_come_from_the_fields(self):
        data = make_cantilever(3, **SMALL, random_state=4)
        np.testing.assert_array_equal(data.scalars[:, 0], data.stress.max(axis=(1, 2)))
        for sample in range(3):
            tip = np.isclose(data.coords[sample, :, 0], data.params[sample, 0])
            mean = data.displacement[sample, tip].mean(axis=0)
            assert data.scalars[sample, 1] == pytest.approx(np.sqrt((mean**2).sum()))

    def test_own_design(self):
        drawn = make_cantilever(3, **SMALL, random_state=6)
        again = make_cantilever(99, **SMALL, params=drawn.params, random_state=0)
        np.testing.assert_array_equal(again.stress, drawn.stress)

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            (0, -1.0, "length must be above 0, got -1"),
            (5, 1.5, "position must lie within 0 and 1, got 1.5 to 1.5"),
            (4, np.nan, "params must be finite"),
        ],
    )
    def test_wrong_params(self, column, value, message):
        row = BEAM.copy()
        row[column] = value
        with pytest.raises(FieldDataError, match=message):
            make_cantilever(params=[row], n_cells=(2, 1, 1))

    def test_wrong_number_of_params(self):
        with pytest.raises(FieldDataError, match=r"shape \(n, 3\) for load, position, angle, got \(1, 7\)"):
            make_cantilever(params=[BEAM], geometry="fixed")

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    @pytest.mark.parametrize(("column", "value"), [(0, 1e200), (4, 1e300), (4, 1e36)])
    def test_solutions_out_of_range(self, column, value):
        rows = np.stack([BEAM, BEAM])
        rows[1, column] = value
        with pytest.raises(FieldDataError, match=r"Sample 1: the solution is beyond the range of float32"):
            make_cantilever(params=rows, n_cells=(2, 1, 1))
