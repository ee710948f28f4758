"""The airfoil generator: laws of the Euler solver, known flows, the published mesh, and its seeds."""

from dataclasses import replace

import numpy as np
import pytest

from skop.datasets import _airfoil as airfoil
from skop.datasets import load_airfoil, make_airfoil
from skop.datasets._euler import RESIDUAL, Euler, dual_grid
from skop.exceptions import FieldDataError

SMALL = {"n_cells": (16, 40, 16), "dtype": np.float64}
MEDIUM = {"n_cells": (24, 60, 24), "dtype": np.float64, "return_X_y": False}
BENT = [0.0, 0.03, -0.02, 0.01, 0.02, -0.01, 0.04, 0.01]
ROUND = [[0.0] * 8]


def stream(mach, angle=0.0):
    """Flow far away, with density and pressure 1."""
    speed = mach * np.sqrt(1.4)
    return np.array([1, speed * np.cos(angle), speed * np.sin(angle), 1])


def parabolic_grid(n, n_wake):
    """Smooth C-grid of 2 n by n cells about a plate, whose first and last cells adjoin behind it."""
    along, away = np.meshgrid(np.linspace(1.2, -1.2, 2 * n + 1), np.linspace(0, 1, n + 1), indexing="ij")
    points = np.stack([along**2 - away**2, 2 * along * away], axis=-1)
    points[-1 - n_wake :, 0] = points[n_wake::-1, 0]
    return points


def distorted(points, n_wake):
    """Move the nodes inside, and those of the wake."""
    points = points + 0.005 * np.random.default_rng(0).uniform(-1, 1, points.shape)
    points[-1 - n_wake :, 0] = points[n_wake::-1, 0]
    return points


def open_border(grid):
    """Make the wall a part of the outer border."""
    joined = tuple(np.concatenate(parts) for parts in zip(grid.far, grid.wall, strict=True))
    return replace(grid, far=joined, wall=tuple(part[:0] for part in grid.wall))


def noise(euler, size=0.05):
    """State about the flow far away."""
    return euler.stream[:, None] + size * np.random.default_rng(1).standard_normal((4, euler.n_nodes))


def forces(data, mach, angle=0.0, sample=0, n_wake=24):
    """Lift and drag coefficients of the pressure at the wall, by the trapezoidal rule."""
    body = slice(n_wake, data.coords.shape[1] - n_wake)
    steps = np.diff(data.coords[sample, body, 0], axis=0)
    pressure = data.fields[sample, body, 0, 3] - 1
    # The wall runs counter-clockwise, so that its outward normal is (dy, -dx), and pressure acts against it.
    means = (pressure[1:] + pressure[:-1]) / 2
    force = (means[:, None] * np.stack([-steps[:, 1], steps[:, 0]], axis=1)).sum(axis=0) / (0.7 * mach**2)
    alpha = np.deg2rad(angle)
    return force @ [-np.sin(alpha), np.cos(alpha)], force @ [np.cos(alpha), np.sin(alpha)]


class TestSolver:
    @pytest.mark.parametrize("mach", [0.5, 0.9])
    def test_free_stream_is_steady_on_a_distorted_grid(self, mach):
        grid = open_border(dual_grid(distorted(parabolic_grid(8, 4), 4), 4))
        euler = Euler(grid, stream(mach, 0.3), 1.4)
        state = np.repeat(euler.stream[:, None], euler.n_nodes, axis=1)
        assert np.abs(euler.residual(state)).max() < 1e-13
        assert np.abs(euler.residual(noise(euler))).max() > 1e-3

    def test_conservation(self):
        """What leaves the volumes passes the border: all at its outer part, and momentum at the wall too."""
        euler = Euler(dual_grid(distorted(parabolic_grid(8, 4), 4), 4), stream(0.8), 1.4)
        state = noise(euler)
        (wall, normals), (far, _) = euler.grid.wall, euler.grid.far
        expected = euler._far_flux(state[:, far]).sum(axis=1)
        expected[1:3] += state[3, wall] @ normals
        np.testing.assert_allclose(euler.residual(state).sum(axis=1), expected, atol=1e-12)

    def test_supersonic_faces_pass_the_flow_before_them(self):
        """Roe's mean carries the whole difference of the fluxes, so that nothing comes back against the stream."""
        euler = Euler(dual_grid(parabolic_grid(4, 2), 2), stream(0.8), 1.4)
        left, right = np.array([[1.0], [3.9], [1.0], [1.1]]), np.array([[0.8], [4.2], [0.7], [0.9]])
        for angle in (0.0, 0.3):
            normals = 2 * np.array([[np.cos(angle)], [np.sin(angle)]])
            density, u, v, pressure = left
            through = density * (u * normals[0] + v * normals[1])
            energy = 3.5 * pressure / density + (u**2 + v**2) / 2
            push = pressure * normals
            expected = np.stack([through, through * u + push[0], through * v + push[1], through * energy])
            np.testing.assert_allclose(euler._roe(left, right, normals), expected, rtol=1e-12)
            np.testing.assert_allclose(euler._roe(right, left, -normals), -expected, rtol=1e-12)

    def test_derivative(self):
        euler = Euler(dual_grid(distorted(parabolic_grid(6, 3), 3), 3), stream(0.8), 1.4)
        state, change = noise(euler), np.random.default_rng(2).standard_normal((4, euler.n_nodes))
        before, start, end, after = euler.grid.edges.T
        columns = [before, start, end, after] * 2 + [euler.grid.wall[0], euler.grid.far[0]]
        rows = [start] * 4 + [end] * 4 + [euler.grid.wall[0], euler.grid.far[0]]
        product = np.zeros_like(state)
        for block, row, column in zip(euler._derivative(state), rows, columns, strict=True):
            np.add.at(product.T, row, np.einsum("abn,bn->na", block, change[:, column]))
        expected = (euler.residual(state + 1e-6 * change) - euler.residual(state - 1e-6 * change)) / 2e-6
        np.testing.assert_allclose(product, expected, atol=1e-4 * np.abs(expected).max())

    def test_residual_of_an_exact_flow_is_of_second_order(self):
        """A vortex beside the grid, that crosses the wake: residual over area falls with the square of the side."""
        errors = []
        for n in (16, 32, 64):
            points = parabolic_grid(n, n // 2)
            euler = Euler(dual_grid(points, n // 2), stream(0.5), 1.4)
            x, y = points[..., 0] - 0.5, points[..., 1] - 5
            square = x**2 + y**2
            # Isentropic, with the speed 2 / r: the enthalpy 3.5 p / rho + speed^2 / 2 is the same everywhere.
            heat = 1 - 2 / square / 3.5
            values = np.stack([heat**2.5, -2 * y / square, 2 * x / square, heat**3.5])
            state = np.empty((4, euler.n_nodes))
            state[:, euler.grid.number] = values
            density = euler.residual(state)[:, euler.grid.number] * n**2
            # The map is singular at the nose of the plate, and one-sided at the border.
            errors.append(np.abs(density[:, n // 4 : -n // 4, n // 4 : -n // 4]).mean())
            wake = np.abs(density[:, n // 8 : n // 4, 0]).mean()
            assert wake < 10 * errors[-1]
        assert errors[0] / errors[1] > 3.3
        assert errors[1] / errors[2] > 3.3


@pytest.fixture(scope="module")
def two_flows():
    """Two samples, which two workers solve."""
    return make_airfoil(2, **SMALL, mach=0.5, random_state=0, n_jobs=2, return_X_y=False)


class WithoutFirstGuess(Euler):
    """Finds no flow where a rough one is asked for."""

    def solve(self, state=None, residual=RESIDUAL):
        if residual > RESIDUAL:
            raise FieldDataError("no steady flow was found")
        return super().solve(state, residual)


class TestFlow:
    def test_mirrored_airfoils_have_mirrored_flows(self, two_flows):
        one, row = two_flows.fields[1], -two_flows.params[1, ::-1]
        other = make_airfoil(params=[row], mach=0.5, **SMALL, return_X_y=False).fields[0]
        np.testing.assert_allclose(one, other[::-1] * [1, 1, -1, 1, 1], atol=1e-7)
        assert np.abs(one - other).max() > 0.1

    def test_a_flow_is_found_where_the_mesh_of_the_first_guess_has_none(self, two_flows, monkeypatch):
        monkeypatch.setattr(airfoil, "Euler", WithoutFirstGuess)
        found = make_airfoil(params=two_flows.params[:1], mach=0.5, **SMALL, return_X_y=False).fields[0]
        np.testing.assert_allclose(found, two_flows.fields[0], rtol=0, atol=1e-7)

    def test_transonic_flow_of_the_naca_0012(self):
        """Symmetric, without lift, and with a shock about half a chord from the nose at Mach 0.8."""
        data = make_airfoil(params=ROUND, **MEDIUM | {"n_cells": (20, 48, 20)})
        np.testing.assert_allclose(data.fields[0], data.fields[0, ::-1] * [1, 1, -1, 1, 1], atol=1e-7)
        assert forces(data, 0.8, n_wake=20)[0] == pytest.approx(0, abs=1e-9)
        side = slice(20, 20 + 24)
        place, pressure = data.coords[0, side, 0, 0], data.fields[0, side, 0, 3]
        # Plots of the pressure show a shock near half chord from a Mach number of 1.2 to 1.3 (AGARD-AR-211, 1985;
        # Vassberg and Jameson, J. Aircraft 47, 2010), which the pressure of a flow without losses defines.
        mach = np.sqrt(5 * ((1 + 0.2 * 0.8**2) * pressure ** (-1 / 3.5) - 1))
        assert place[mach > 1].max() == pytest.approx(0.5, abs=0.06)
        assert 1.2 < mach.max() < 1.3
        # Outside the layer at the wall only the shock makes entropy.
        entropy = data.fields[0, side, 4:, 3] / data.fields[0, side, 4:, 0] ** 1.4
        np.testing.assert_allclose(entropy[(place > 0.1) & (place < 0.4)], 1, atol=0.01)
        assert entropy.min() > 0.995

    def test_lift_at_low_speed_is_that_of_thin_airfoils_and_drag_falls_with_the_spacing(self):
        """2 pi alpha, times 1 + 0.77 thickness (Abbott and von Doenhoff), over Prandtl and Glauert's root."""
        flow = {"params": ROUND, "mach": 0.4, "angle": 1.0}
        lift, drag = forces(make_airfoil(**flow, **MEDIUM), 0.4, 1.0)
        expected = 2 * np.pi * np.deg2rad(1.0) * (1 + 0.77 * 0.12) / np.sqrt(1 - 0.4**2)
        assert lift == pytest.approx(expected, rel=0.06)
        _, coarse = forces(make_airfoil(**flow, **SMALL, return_X_y=False), 0.4, 1.0, n_wake=16)
        assert 0 < drag < 0.75 * coarse


class TestMakeAirfoil:
    def test_mesh_is_the_published_one(self):
        """Facts of the published recipe, at its size."""
        surface = airfoil._naca(np.concatenate([[0, 0.25], np.arange(1, 60)]) / 59)
        first = np.hypot(*(surface[1] - surface[0]))
        points = airfoil.c_grid(airfoil._displace(surface, np.array(BENT)), (50, 50), (first, 2 / 120), 40.0)
        assert points.shape == (221, 51, 2)
        np.testing.assert_array_equal(points[:51, 0], points[:169:-1, 0])
        np.testing.assert_allclose(points[0], np.stack([np.full(51, 40), points[0, :, 1]], axis=-1), rtol=1e-14)
        np.testing.assert_allclose(np.linalg.norm(points[50:171, 50] - [1, 0], axis=1), 40)
        np.testing.assert_allclose(np.hypot(*(points[0, 1] - points[0, 0])), 2 / 120)
        assert (np.diff(points[50:111, 0, 0]) < 0).all()
        upper, lower = points[80, 0], points[140, 0]
        assert upper[1] > lower[1]
        assert upper[0] == lower[0]
        # Cells grow by 2 % first.
        steps = np.diff(points[0, :, 1])
        np.testing.assert_allclose(steps[1:37] / steps[:36], 1.02)

    def test_corners_of_the_box_go_where_they_are_told(self):
        nodes = 0.5 + 1.5 * np.array([-1 / 2, -1 / 6, 1 / 6, 1 / 2])
        corners = np.stack([np.concatenate([nodes, nodes[::-1]]), np.repeat([-0.1, 0.1], 4)], axis=-1)
        moved = airfoil._displace(corners, np.arange(8.0))
        np.testing.assert_allclose(moved - corners, np.stack([np.zeros(8), np.arange(8)], axis=-1), atol=1e-14)

    def test_same_arrays_as_the_published_files_whatever_n_jobs_and_n_samples(self, two_flows, tmp_path):
        data = two_flows
        X, y = make_airfoil(1, n_cells=(16, 40, 16), mach=0.5, random_state=0, variables=("pressure", "mach"))
        assert data.params[0, 0] == 0
        assert 0.01 < np.abs(data.params).max() <= 0.05
        for name, values in {"X": data.coords[:1, ..., 0], "Y": data.coords[:1, ..., 1]}.items():
            np.save(tmp_path / f"NACA_Cylinder_{name}.npy", np.repeat(values.astype(np.float32), 1001, axis=0))
        published = np.moveaxis(data.fields[:1], -1, 1).astype(np.float32)
        np.save(tmp_path / "NACA_Cylinder_Q.npy", np.repeat(published, 1001, axis=0))
        options = {"n_train": 1, "n_test": 1, "variables": ("pressure", "mach"), "subset": "test", "return_X_y": True}
        X_read, y_read = load_airfoil(tmp_path, **options)
        np.testing.assert_array_equal(X_read.coords, X.coords)
        np.testing.assert_array_equal(y_read, y)
        assert X_read.grid_shape == X.grid_shape == (73, 17)
        assert data.variables == ["density", "velocity_x", "velocity_y", "pressure", "mach"]
        sound = np.sqrt(1.4 * data.fields[..., 3] / data.fields[..., 0])
        np.testing.assert_allclose(data.fields[..., 4], np.hypot(*data.fields.T[1:3]).T / sound, rtol=1e-5)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ([[0.0] * 7], r"params must have the shape \(n, 8\), got \(1, 7\)"),
            ([[np.nan] * 8], "params must be finite"),
            ([[0, 0.5, -0.5, 0.5, 0, 0, 0, 0]], "Sample 0: the mesh about the body folds"),
        ],
    )
    def test_wrong_params(self, params, message):
        with pytest.raises(FieldDataError, match=message):
            make_airfoil(params=params, n_cells=(16, 40, 16))
