"""The pipe generator: Poiseuille's flow, mass flux, symmetry, convergence, centrelines, and its promises on seeds."""

import numpy as np
import pytest

from skop.datasets import _pipe as pipe
from skop.datasets import load_pipe, make_pipe
from skop.exceptions import FieldDataError, OptionalDependencyError

SMALL = {"n_points": (33, 17), "viscosity": 0.02, "dtype": np.float64}
HEIGHTS, SLOPES = np.array([0, 0.8, -0.5, 0.3, 1.0]), np.array([0.3, -0.9, 0.4, 0.8, -0.2])


def solve(heights=HEIGHTS, slopes=SLOPES, n_points=(33, 17), viscosity=0.02, length=10.0):
    recipe = pipe._Recipe(n_points, (-2.0, 2.0), (-1.0, 1.0), length, viscosity)
    return pipe._solve_pipe(np.asarray(heights, dtype=float), np.asarray(slopes, dtype=float), recipe)


class TestFlow:
    @pytest.mark.parametrize(("length", "viscosity"), [(10.0, 0.005), (3.0, 2.0)])
    def test_poiseuille_in_the_straight_pipe(self, length, viscosity):
        arrays = solve(np.zeros(5), np.zeros(5), n_points=(17, 9), viscosity=viscosity, length=length)
        x, y = np.moveaxis(arrays["coords"], -1, 0)
        np.testing.assert_allclose(arrays["velocity"][..., 0], 1 - 4 * y**2, atol=1e-10)
        np.testing.assert_allclose(arrays["velocity"][..., 1], 0, atol=1e-10)
        expected = 8 * viscosity * (length - x)
        np.testing.assert_allclose(arrays["pressure"][..., 0], expected, atol=1e-10 * expected.max())

    def test_inlet_walls_and_outlet(self):
        arrays = solve(n_points=(65, 33))
        u, v = np.moveaxis(arrays["velocity"], -1, 0)
        across = np.linspace(-0.5, 0.5, 33)
        np.testing.assert_array_equal(u[0], 1 - 4 * across**2)
        np.testing.assert_array_equal(v[0], 0)
        np.testing.assert_array_equal(arrays["velocity"][:, [0, -1]], 0)
        # The mean of nu du/dx - p is 0 over the outlet. Inflow needs pressure, and it falls along the pipe.
        pressure = arrays["pressure"][..., 0].mean(axis=1)
        assert abs(pressure[-1]) < 0.02 * pressure[0]
        assert pressure[0] > 8 * 0.02 * 10

    @pytest.mark.parametrize("n_points", [(33, 17), (65, 9)])
    def test_mass_flux(self, n_points):
        u = solve(n_points=n_points)["velocity"][..., 0]
        weights = np.ones(n_points[1])
        weights[1:-1:2], weights[2:-1:2] = 4, 2
        flux = u @ weights / (3 * (n_points[1] - 1))
        # On a column of cells the velocity is quadratic along x, and mass is conserved in the mean over each column.
        columns = (flux[:-1:2] + 4 * flux[1::2] + flux[2::2]) / 6
        np.testing.assert_allclose(columns, 2 / 3, rtol=1e-10)
        np.testing.assert_allclose(flux, 2 / 3, rtol=0.05)
        assert np.ptp(flux) > 1e-6

    def test_mirrored_pipe_has_the_mirrored_flow(self):
        one, other = solve(), solve(-HEIGHTS, -SLOPES)
        np.testing.assert_allclose(other["coords"][:, ::-1], one["coords"] * [1, -1], atol=1e-12)
        np.testing.assert_allclose(other["velocity"][:, ::-1], one["velocity"] * [1, -1], atol=1e-8)
        np.testing.assert_allclose(other["pressure"][:, ::-1], one["pressure"], atol=1e-8)
        assert np.abs(one["velocity"][:, ::-1] - one["velocity"] * [1, -1]).max() > 0.05

    def test_converges_with_the_mesh(self):
        grids = []
        for factor in (1, 2, 4):
            arrays = solve(n_points=(32 * factor + 1, 8 * factor + 1), viscosity=0.1)
            grids.append(np.concatenate([arrays["velocity"], arrays["pressure"]], axis=-1)[::factor, ::factor])
        # The pressure is singular where the walls meet the inlet and the outlet.
        errors = [np.sqrt(((grid - grids[2]) ** 2)[2:-2].mean(axis=(0, 1))) for grid in grids[:2]]
        # Of order p, the two differences from the finest solution have the ratio (4^p - 1) / (2^p - 1) = 2^p + 1.
        orders = np.log2(errors[0] / errors[1] - 1)
        assert (orders > [2.7, 2.7, 1.7]).all(), orders

    def test_pressure_is_linear_between_corners(self):
        pressure = solve()["pressure"][..., 0]
        np.testing.assert_allclose(pressure[1::2], (pressure[:-1:2] + pressure[2::2]) / 2, rtol=1e-12)
        np.testing.assert_allclose(pressure[:, 1::2], (pressure[:, :-1:2] + pressure[:, 2::2]) / 2, rtol=1e-12)


class TestCentreline:
    def test_cubic_pieces(self):
        coords = solve()["coords"]
        x, y = coords[:, 8, 0], coords[:, 8, 1]
        np.testing.assert_allclose(x, np.linspace(0, 10, 33), atol=1e-12)
        for index in range(4):
            part = np.arange(9) / 8
            square, cube = part**2, part**3
            expected = (
                (1 - 3 * square + 2 * cube) * HEIGHTS[index]
                + (part - 2 * square + cube) * SLOPES[index]
                + (3 * square - 2 * cube) * HEIGHTS[index + 1]
                + (cube - square) * SLOPES[index + 1]
            )
            np.testing.assert_allclose(y[8 * index : 8 * index + 9], expected, atol=1e-12)
        across = np.broadcast_to(np.linspace(-0.5, 0.5, 17), (33, 17))
        np.testing.assert_allclose(coords[..., 1] - y[:, np.newaxis], across, atol=1e-12)

    def test_draws(self):
        options = {"n_points": (9, 3), "viscosity": 1.0, "random_state": 0, "return_X_y": False}
        data = make_pipe(100, **options, height_range=(0.5, 1.5), slope_range=(-0.25, 0.0))
        assert data.heights.shape == data.slopes.shape == (100, 5)
        assert not data.heights[:, 0].any()
        for draws, low, high in ((data.heights[:, 1:], 0.5, 1.5), (data.slopes, -0.25, 0)):
            width = high - low
            assert ((draws >= low) & (draws <= high)).all()
            np.testing.assert_allclose(draws.mean(axis=0), (low + high) / 2, atol=0.12 * width)
            np.testing.assert_allclose(draws.std(axis=0), width / np.sqrt(12), atol=0.06 * width)
        np.testing.assert_allclose(data.coords[:, ::2, 1, 1], data.heights, atol=1e-6)


class TestMakePipe:
    def test_shapes_and_types(self):
        X, y = make_pipe(2, n_points=(17, 9), viscosity=0.1, random_state=0)
        assert X.coords.shape == (2, 153, 2)
        assert (X.n_channels, X.n_params, X.grid_shape) == (0, 0, (17, 9))
        assert y.shape == (2, 17, 9, 1)
        assert X.coords.dtype == y.dtype == np.float32

    def test_bunch(self):
        data = make_pipe(2, **SMALL, random_state=0, return_X_y=False)
        X, y = make_pipe(2, **SMALL, random_state=0)
        np.testing.assert_array_equal(data.coords.reshape(2, -1, 2), X.coords)
        np.testing.assert_array_equal(data.velocity[..., :1], y)
        for sample in range(2):
            for name, array in solve(data.heights[sample], data.slopes[sample]).items():
                np.testing.assert_allclose(data[name][sample], array, atol=1e-12)

    def test_loader_reads_the_same_arrangement(self, tmp_path):
        data = make_pipe(2, n_points=(17, 9), viscosity=0.1, random_state=0, return_X_y=False)
        X, y = make_pipe(2, n_points=(17, 9), viscosity=0.1, random_state=0)
        x_y, q = data.coords, np.concatenate([data.velocity, data.pressure], axis=-1)
        for name, array in {"X": x_y[..., 0], "Y": x_y[..., 1], "Q": np.moveaxis(q, -1, 1)}.items():
            np.save(tmp_path / f"Pipe_{name}.npy", np.concatenate([array, array[:1].repeat(1000, axis=0)]))
        loaded = load_pipe(tmp_path, subset="train", n_train=2, return_X_y=True)
        np.testing.assert_array_equal(loaded[0].coords, X.coords)
        np.testing.assert_array_equal(loaded[1], y)
        assert loaded[0].grid_shape == X.grid_shape
        names = ("velocity_x", "velocity_y", "pressure")
        fields = load_pipe(tmp_path, subset="train", n_train=2, variables=names, return_X_y=True)[1]
        np.testing.assert_array_equal(fields, q)

    def test_centreline_does_not_depend_on_mesh_or_flow(self):
        options = {"n_points": (9, 3), "viscosity": 1.0, "random_state": 6, "return_X_y": False}
        base = make_pipe(2, **options)
        for changes in ({"n_points": (17, 5)}, {"viscosity": 2.0}, {"length": 20.0}):
            other = make_pipe(2, **options | changes)
            np.testing.assert_array_equal(other.heights, base.heights)
            np.testing.assert_array_equal(other.slopes, base.slopes)

    def test_failure_names_the_sample(self):
        with pytest.raises(FieldDataError, match=r"Sample 0: no steady flow was found .*raise viscosity or n_points"):
            make_pipe(1, n_points=(9, 3), viscosity=1e-9, random_state=0)

    def test_missing_package(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "skfem", None)
        with pytest.raises(OptionalDependencyError, match=r"pip install scikit-fem"):
            make_pipe(1, n_points=(9, 3))
