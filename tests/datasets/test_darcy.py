"""The Darcy generator against its equation, its random field and its promises on seeds."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve

from skop.datasets import _darcy, make_darcy
from skop.exceptions import FieldDataError


def random_coefficient(n_points, seed=0, low=3.0, high=12.0):
    return np.where(np.random.default_rng(seed).random((n_points, n_points)) < 0.5, low, high)


def assembled_solution(coefficient, forcing):
    """Solve the five-point scheme face by face, with a direct solver."""
    n_points = len(coefficient)
    number = np.full(coefficient.shape, -1)
    number[1:-1, 1:-1] = np.arange((n_points - 2) ** 2).reshape(n_points - 2, n_points - 2)
    rows, columns, entries = [], [], []
    for i in range(1, n_points - 1):
        for j in range(1, n_points - 1):
            for neighbour in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                face = (coefficient[i, j] + coefficient[neighbour]) / 2 * (n_points - 1) ** 2
                rows.append(number[i, j])
                columns.append(number[i, j])
                entries.append(face)
                if number[neighbour] >= 0:
                    rows.append(number[i, j])
                    columns.append(number[neighbour])
                    entries.append(-face)
    matrix = sparse.csr_array((entries, (rows, columns)))
    solution = np.zeros(coefficient.shape)
    right_side = np.broadcast_to(forcing, coefficient.shape)[1:-1, 1:-1].ravel()
    solution[1:-1, 1:-1] = spsolve(matrix, right_side).reshape(n_points - 2, n_points - 2)
    return solution


def manufactured_error(n_points):
    """Largest error for a = 2 + sin(2x + y), u = sin(pi x) sin(2 pi y)."""
    x, y = np.meshgrid(*[np.linspace(0, 1, n_points)] * 2, indexing="ij")
    exact = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
    u_x = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
    u_y = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
    a, a_y = 2 + np.sin(2 * x + y), np.cos(2 * x + y)
    forcing = -(2 * a_y * u_x + a_y * u_y - 5 * np.pi**2 * a * exact)
    return np.abs(_darcy.solve_darcy(a, forcing) - exact).max()


def sample_noise(n_samples, **changes):
    """Cosine amplitudes of many generated fields, found again by projecting them on the modes."""
    settings = {"alpha": 2.0, "tau": 3.0} | changes
    recipe = _darcy._Recipe(33, 33, "binary", (3.0, 12.0), **settings, forcing=1.0, placement="cell_center", n_modes=6)
    centers = (np.arange(33) + 0.5) / 33
    modes = np.cos(np.pi * np.arange(6)[:, None] * centers) * np.where(np.arange(6) > 0, np.sqrt(2), 1)[:, None]
    fields = [_darcy._gaussian_field(np.random.default_rng([7, i]), recipe) for i in range(n_samples)]
    return np.einsum("ki,nij,lj->nkl", modes, np.array(fields), modes) / 33**2


class TestSolver:
    def test_second_order(self):
        errors = np.array([manufactured_error(n) for n in (17, 33, 65, 129)])
        orders = np.log2(errors[:-1] / errors[1:])
        assert np.all((orders > 1.9) & (orders < 2.1)), orders

    @pytest.mark.parametrize("n_points", [3, 4, 12, 29])
    def test_equals_direct_solver(self, n_points):
        coefficient = random_coefficient(n_points)
        forcing = np.random.default_rng(1).standard_normal((n_points, n_points))
        expected = assembled_solution(coefficient, forcing)
        actual = _darcy.solve_darcy(coefficient, forcing)
        assert np.abs(actual - expected).max() <= 1e-8 * np.abs(expected).max()

    def test_transposed_coefficient_gives_transposed_solution(self):
        coefficient = random_coefficient(21)
        actual = _darcy.solve_darcy(coefficient.T)
        np.testing.assert_allclose(actual, _darcy.solve_darcy(coefficient).T, rtol=0, atol=1e-11)
        assert not np.allclose(actual, actual.T, rtol=1e-3)

    def test_linear_in_the_forcing(self):
        coefficient, rng = random_coefficient(21), np.random.default_rng(2)
        first, second = rng.standard_normal((2, 21, 21))
        together = _darcy.solve_darcy(coefficient, 2 * first - 3 * second)
        apart = 2 * _darcy.solve_darcy(coefficient, first) - 3 * _darcy.solve_darcy(coefficient, second)
        np.testing.assert_allclose(together, apart, rtol=0, atol=1e-9 * np.abs(together).max())

    def test_scaling_of_the_coefficient(self):
        coefficient = random_coefficient(21)
        scaled = _darcy.solve_darcy(7 * coefficient)
        np.testing.assert_allclose(scaled, _darcy.solve_darcy(coefficient) / 7, rtol=0, atol=1e-11)

    def test_maximum_principle_and_monotone_compliance(self):
        coefficient = random_coefficient(40)
        pressure = _darcy.solve_darcy(coefficient)
        assert (pressure[1:-1, 1:-1] > 0).all()
        # With f = 1 the sum of u is the compliance, which falls wherever a grows.
        assert pressure.sum() < _darcy.solve_darcy(np.full((40, 40), 3.0)).sum()
        assert pressure.sum() > _darcy.solve_darcy(np.full((40, 40), 12.0)).sum()

    def test_zero_forcing(self):
        assert not _darcy.solve_darcy(random_coefficient(9), 0.0).any()

    def test_iterations_do_not_grow_with_the_grid(self):
        for n_points in (33, 129):
            _darcy.solve_darcy(random_coefficient(n_points), max_iterations=30)

    def test_no_convergence(self):
        with pytest.raises(FieldDataError, match=r"residual of 1.0e-10 in 4 iterations.*contrast"):
            _darcy.solve_darcy(random_coefficient(33), max_iterations=4)

    def test_not_positive_definite(self):
        with pytest.raises(FieldDataError, match="not positive definite"):
            _darcy.solve_darcy(-np.ones((9, 9)))


class TestGaussianField:
    @pytest.mark.parametrize("settings", [{}, {"alpha": 2.5}, {"tau": 5.0}])
    def test_spectrum(self, settings):
        amplitudes = sample_noise(400, **settings)
        alpha, tau = settings.get("alpha", 2.0), settings.get("tau", 3.0)
        squares = np.arange(6) ** 2
        variance = tau ** (2 * alpha - 2) * (np.pi**2 * (squares[:, None] + squares) + tau**2) ** -alpha
        ratios = (amplitudes**2).mean(axis=0).ravel()[1:] / variance.ravel()[1:]
        # Each ratio is chi-squared with 400 degrees of freedom over 400: deviation 0.07, of the mean 0.012.
        # An alpha off by 0.05 or a tau off by 0.1 shifts the mean by more.
        assert np.abs(ratios - 1).max() < 0.3
        assert abs(ratios.mean() - 1) < 0.04
        assert np.abs(amplitudes[:, 0, 0]).max() < 1e-15

    def test_deviations_of_modes(self):
        # The published coefficients: 3 / (pi^2 |k|^2 + 9).
        published = _darcy._mode_deviations(4, 2.0, 3.0)
        assert published[0, 0] == 0
        np.testing.assert_allclose(published[[1, 0, 2], [0, 1, 3]], 3 / (np.pi**2 * np.array([1, 1, 13]) + 9))
        other = _darcy._mode_deviations(4, 3.0, 2.0)
        np.testing.assert_allclose(other[2, 3], 4 / (np.pi**2 * 13 + 4) ** 1.5)

    def test_modes_are_independent(self):
        amplitudes = sample_noise(400).reshape(400, 36)[:, 1:]
        correlation = np.corrcoef(amplitudes.T) - np.eye(35)
        assert np.abs(correlation).max() < 0.25

    def test_transform_equals_sum_of_cosines(self):
        for placement, (n_points, n_modes) in product(
            ["node", "cell_center"], [(5, 9), (9, 9), (10, 9), (6, 23), (31, 4)]
        ):
            amplitudes = np.random.default_rng(3).standard_normal((n_modes, n_modes))
            x = np.linspace(0, 1, n_points) if placement == "node" else (np.arange(n_points) + 0.5) / n_points
            modes = np.cos(np.pi * np.arange(n_modes) * x[:, None])
            modes[:, 1:] *= np.sqrt(2)
            actual = _darcy._sum_of_cosines(amplitudes, n_points, placement)
            np.testing.assert_allclose(actual, modes @ amplitudes @ modes.T, atol=1e-12)

    def test_more_modes_extend_the_same_field(self):
        draws = np.arange(49.0)
        large = _darcy._modes_from_longest(draws)
        assert sorted(large.ravel()) == draws.tolist()
        for size in range(1, 7):
            np.testing.assert_array_equal(large[:size, :size], _darcy._modes_from_longest(draws[: size**2]))

    @pytest.mark.parametrize("placement", ["node", "cell_center"])
    def test_spline_is_exact_for_cubics(self, placement):
        other = {"node": "cell_center", "cell_center": "node"}[placement]
        old, new = _darcy._axis(9, placement), _darcy._axis(9, other)
        cubic = [(1 + x**3)[:, None] * (x - 2 * x**2) for x in (old, new)]
        np.testing.assert_allclose(_darcy._resample(cubic[0], old, new), cubic[1], atol=1e-12)


class TestMakeDarcy:
    def test_shapes_values_and_boundary(self):
        (coords, a), u = make_darcy(4, resolution=20, random_state=0, return_coords=True)
        assert a.shape == u.shape == (4, 20, 20, 1)
        assert a.dtype == u.dtype == coords.dtype == np.float32
        assert set(np.unique(a)) == {3.0, 12.0}
        border = np.ones((20, 20), dtype=bool)
        border[1:-1, 1:-1] = False
        assert not u[:, border].any()
        assert (u[:, ~border] > 0).all()
        peaks = u.max(axis=(1, 2, 3))
        assert ((peaks > 0.005) & (peaks < 0.03)).all()
        np.testing.assert_allclose(coords[3, 5], [3 / 19, 5 / 19], rtol=1e-6)

    def test_solves_the_equation_it_returns(self):
        a, u = make_darcy(2, resolution=15, random_state=1, forcing=2.5, dtype=np.float64)
        for sample in range(2):
            expected = assembled_solution(a[sample, ..., 0], 2.5)
            np.testing.assert_allclose(u[sample, ..., 0], expected, rtol=0, atol=1e-8 * expected.max())

    def test_values_follow_the_sign_of_the_field(self):
        options = {"n_samples": 3, "resolution": 12, "random_state": 4}
        binary, _ = make_darcy(**options, values=(1.0, 5.0))
        smooth, _ = make_darcy(**options, coefficient="lognormal")
        np.testing.assert_array_equal(binary, np.where(np.log(smooth) >= 0, 5.0, 1.0))
        assert len(np.unique(smooth)) > 100

    def test_field_does_not_depend_on_the_grid(self):
        options = {"n_samples": 2, "coefficient": "lognormal", "random_state": 6, "dtype": np.float64}
        coarse, _ = make_darcy(resolution=9, **options)
        fine, _ = make_darcy(resolution=33, **options)
        np.testing.assert_allclose(coarse, fine[:, ::4, ::4], rtol=1e-12)

    def test_refinement_converges(self):
        options = {"n_samples": 4, "resolution": 9, "random_state": 7, "dtype": np.float64}
        solutions = [make_darcy(**options, solver_resolution=8 * k + 1)[1] for k in (1, 4, 32)]
        errors = [np.linalg.norm(u - solutions[-1]) / np.linalg.norm(solutions[-1]) for u in solutions[:-1]]
        assert errors[0] > 2 * errors[1]
        assert errors[1] < 0.05

    def test_cell_centers(self):
        options = {"n_samples": 3, "placement": "cell_center", "random_state": 8, "dtype": np.float64}
        (coords, a), u = make_darcy(resolution=21, solver_resolution=41, return_coords=True, **options)
        np.testing.assert_allclose(coords[2, 5], [4.5 / 41, 10.5 / 41])
        assert set(np.unique(a)) == {3.0, 12.0}
        border = np.abs(u[:, 0]).max()
        assert 0 < border < 0.3 * u.max()
        # The same field at the nodes, read between the nodes, gives nearly the same pressure.
        nodes = make_darcy(3, resolution=165, random_state=8, dtype=np.float64)[1][..., 0]
        axis = coords[:, 0, 0]
        for sample in range(3):
            expected = _darcy._resample(nodes[sample], np.linspace(0, 1, 165), axis)
            error = np.linalg.norm(u[sample, ..., 0] - expected) / np.linalg.norm(expected)
            assert error < 0.05

    def test_failure_names_the_sample(self):
        with pytest.raises(FieldDataError, match=r"Sample \d: the system is not positive definite"):
            make_darcy(3, resolution=33, placement="cell_center", values=(1e-4, 1e4), random_state=0)


def assembled_on_cells(coefficient, forcing):
    """Solve face by face with a direct solver; ghost cells beyond the border hold u = 0 and the nearest coefficient."""
    n_cells = len(coefficient)
    ghosts = np.pad(coefficient, 1, mode="edge")
    number = np.full(ghosts.shape, -1)
    number[1:-1, 1:-1] = np.arange(n_cells**2).reshape(n_cells, n_cells)
    rows, columns, entries = [], [], []
    for i in range(1, n_cells + 1):
        for j in range(1, n_cells + 1):
            for neighbour in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                face = (ghosts[i, j] + ghosts[neighbour]) / 2 * n_cells**2
                rows.append(number[i, j])
                columns.append(number[i, j])
                entries.append(face)
                if number[neighbour] >= 0:
                    rows.append(number[i, j])
                    columns.append(number[neighbour])
                    entries.append(-face)
    matrix = sparse.csr_array((entries, (rows, columns)))
    right_side = np.broadcast_to(forcing, coefficient.shape).ravel()
    return spsolve(matrix, right_side).reshape(n_cells, n_cells)


class TestPDEBenchSolver:
    @pytest.mark.parametrize("n_cells", [3, 4, 17])
    def test_equals_direct_solver(self, n_cells):
        coefficient = random_coefficient(n_cells, low=0.1, high=1.0)
        forcing = np.random.default_rng(1).standard_normal((n_cells, n_cells))
        expected = assembled_on_cells(coefficient, forcing)
        actual = _darcy._solve_on_cells(coefficient, forcing)
        assert np.abs(actual - expected).max() <= 1e-8 * np.abs(expected).max()

    def test_manufactured_solution(self):
        errors = {}
        for n_cells in (16, 32, 64):
            centers, spacing = (np.arange(n_cells) + 0.5) / n_cells, 1 / n_cells
            # u is 0 half a cell outside the square, on a square of side 1 + h.
            side = 1 + spacing
            x, y = np.meshgrid((centers + spacing / 2) / side, (centers + spacing / 2) / side, indexing="ij")
            exact = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
            forcing = 0.3 * 5 * np.pi**2 / side**2 * exact
            errors[n_cells] = np.abs(_darcy._solve_on_cells(np.full(x.shape, 0.3), forcing) - exact).max()
        orders = np.log2([errors[16] / errors[32], errors[32] / errors[64]])
        assert ((orders > 1.85) & (orders < 2.15)).all(), orders

    def test_converges_to_the_flow_on_the_unit_square(self):
        def permeability(x):
            return 1 + 0.5 * np.sin(3 * x[:, None]) * np.cos(2 * x)

        nodes = np.linspace(0, 1, 193)
        reference = _darcy.solve_darcy(permeability(nodes))
        errors = []
        for n_cells in (8, 16, 32):
            centers = (np.arange(n_cells) + 0.5) / n_cells
            expected = _darcy._resample(reference, nodes, centers)
            errors.append(np.abs(_darcy._solve_on_cells(permeability(centers)) - expected).max())
        # The border is half a cell off: first order.
        assert np.all(np.diff(np.log2(errors)) < -0.85), errors
        assert errors[-1] < 0.1 * reference.max()

    def test_what_flows_out_is_what_the_sources_give(self):
        coefficient = random_coefficient(20, low=0.1, high=1.0)
        forcing = np.random.default_rng(2).random((20, 20))
        pressure = _darcy._solve_on_cells(coefficient, forcing)
        # Through each outer face, from the pressure in the cell to 0 a spacing away: a (u - 0) / h, times the face's h.
        outflow = sum((coefficient * pressure)[side].sum() for side in (0, -1, np.s_[:, 0], np.s_[:, -1]))
        assert outflow == pytest.approx(forcing.sum() / 20**2, rel=1e-8)


class TestPDEBenchVariant:
    def test_shapes_values_and_coords(self):
        (coords, a), u = make_darcy(6, variant="pdebench", resolution=20, random_state=0, return_coords=True)
        assert a.shape == u.shape == (6, 20, 20, 1)
        assert set(np.unique(a)) == {np.float32(0.1), 1.0}
        np.testing.assert_allclose(coords[3, 5], [3.5 / 20, 5.5 / 20], rtol=1e-6)
        assert (u > 0).all()
        # Between those of a = 1 and of a = 0.1 everywhere.
        peak = _darcy._solve_on_cells(np.ones((20, 20))).max()
        assert peak < u.max() < 10 * peak

    def test_solves_the_equation_it_returns(self):
        a, u = make_darcy(2, variant="pdebench", resolution=15, random_state=1, forcing=2.5, dtype=np.float64)
        for sample in range(2):
            expected = assembled_on_cells(a[sample, ..., 0], 2.5)
            np.testing.assert_allclose(u[sample, ..., 0], expected, rtol=0, atol=1e-8 * expected.max())

    def test_bumps(self):
        draws, axis = np.random.default_rng(0), (np.arange(8) + 0.5) / 8
        actual = _darcy._sum_of_bumps(draws, axis)
        again = np.random.default_rng(0)
        centers, widths = again.random((5, 2)), 0.5 * (1 - again.random(5))
        expected = [
            [
                sum(np.exp(-((x - m) ** 2 + (y - n) ** 2) / s) for (m, n), s in zip(centers, widths, strict=True))
                for y in axis
            ]
            for x in axis
        ]
        np.testing.assert_allclose(actual, expected, rtol=1e-13)

    def test_threshold_is_the_mean_of_the_bumps(self):
        axis = (np.arange(16) + 0.5) / 16
        means = [_darcy._sum_of_bumps(np.random.default_rng([3, i]), axis).mean() for i in range(2000)]
        error = np.std(means) / np.sqrt(len(means))
        assert abs(np.mean(means) - _darcy._mean_of_bumps()) < 4 * error < 0.05

    def test_draws_do_not_depend_on_the_grid(self):
        options = {"variant": "pdebench", "random_state": 5}
        a, u = make_darcy(5, **options, resolution=8, solver_resolution=24)
        whole_a, whole_u = make_darcy(5, **options, resolution=24)
        np.testing.assert_array_equal(a, whole_a[:, ::3, ::3])
        np.testing.assert_array_equal(u, whole_u[:, ::3, ::3])
