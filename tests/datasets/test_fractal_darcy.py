"""The fractal variant of the Darcy generator against its random field, its equation and its promises on seeds."""

import numpy as np
import pytest
from scipy import ndimage, sparse
from scipy.fft import dctn
from scipy.sparse.linalg import spsolve

from skop.datasets import _darcy, _fractal_darcy, make_darcy
from skop.exceptions import FieldDataError


def make_fractal(n_samples, **options):
    return make_darcy(n_samples, variant="fractal", **{"dtype": np.float64} | options)


def centers(n_cells):
    return (np.arange(n_cells) + 0.5) / n_cells


def rough_permeability(n_cells, seed=0, decades=3.0):
    return 10 ** (decades * np.random.default_rng(seed).uniform(-1, 1, (n_cells, n_cells)))


def directly_solved(permeability, forcing):
    """Solve face by face with a direct solver: harmonic means between cells, u = 0 half a cell beyond them."""
    n_cells = len(permeability)
    number = np.arange(n_cells**2).reshape(n_cells, n_cells)
    matrix = sparse.lil_array((n_cells**2, n_cells**2))
    for i in range(n_cells):
        for j in range(n_cells):
            for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                if 0 <= k < n_cells and 0 <= m < n_cells:
                    face = 2 / (1 / permeability[i, j] + 1 / permeability[k, m])
                    matrix[number[i, j], number[k, m]] = -face * n_cells**2
                else:
                    face = 2 * permeability[i, j]
                matrix[number[i, j], number[i, j]] += face * n_cells**2
    right_side = np.broadcast_to(forcing, permeability.shape).ravel()
    return spsolve(matrix.tocsc(), right_side).reshape(n_cells, n_cells)


class TestField:
    @pytest.mark.parametrize("hurst", [0.2, 0.7])
    def test_spectrum_falls_with_the_hurst_exponent_up_to_the_band_limit(self, hurst):
        permeability = make_fractal(80, resolution=32, n_modes=24, hurst=hurst, values=(1.0, 1.0), random_state=0)[0]
        power = np.mean(dctn(np.log(permeability[..., 0]), axes=(1, 2), norm="ortho") ** 2, axis=0) / 32**2
        wave_number = np.hypot(*np.indices(power.shape))
        in_band = (wave_number > 0) & (wave_number < 24)
        assert power[~in_band].max() < 1e-25
        slope, _ = np.polyfit(np.log(wave_number[in_band]), np.log(power[in_band]), 1)
        # In two dimensions the power is in proportion to |k|^-(2 H + 2).
        assert slope == pytest.approx(-2 * hurst - 2, abs=0.08)
        assert power.sum() == pytest.approx(1.0, rel=0.1)

    def test_more_modes_add_detail_to_the_same_field(self):
        options = {"resolution": 16, "values": (1.0, 1.0), "random_state": 1}
        few, many = (np.log(make_fractal(1, n_modes=n, **options)[0][0, ..., 0]) for n in (4, 12))
        few, many = dctn(few, norm="ortho"), dctn(many, norm="ortho")
        shared = np.hypot(*np.indices(few.shape)) < 4
        shared[0, 0] = False
        ratio = many[shared] / few[shared]
        np.testing.assert_allclose(ratio, ratio[0])
        assert np.abs(many[~shared]).max() > 0.01 > np.abs(few[~shared]).max()


class TestShapes:
    def test_factors_of_channels_and_inclusions(self):
        options = {"resolution": 48, "random_state": 2}
        inputs, _ = make_fractal(4, values=(0.1, 100.0), **options)
        plain, _ = make_fractal(4, values=(1.0, 1.0), **options)
        factor = inputs[..., 0] / plain[..., 0]
        assert set(np.unique(factor.round(9))) == {0.1, 1.0, 10.0, 100.0}
        assert (inputs[..., 0] > 0).all()
        np.testing.assert_array_equal(inputs[..., 1], plain[..., 1])

    def test_a_channel_is_narrow_and_has_no_gap(self, monkeypatch):
        monkeypatch.setattr(_fractal_darcy, "N_CHANNELS", 1)
        monkeypatch.setattr(_fractal_darcy, "N_INCLUSIONS", 0)
        # A square three times as wide: a channel that leaves through a corner of the unit square may come back.
        axis = np.arange(-64, 128) / 64 + 1 / 128
        for seed in range(40):
            factor = _fractal_darcy.draw_factor(np.random.default_rng(seed), axis, (0.1, 7.0))
            assert set(np.unique(factor)) == {1.0, 7.0}
            _, n_pieces = ndimage.label(factor == 7.0)
            assert n_pieces == 1
            # The channel crosses the square along a length of 1 (beside a corner) to 3 sqrt(2) and its waves.
            assert 0.02 < (factor == 7.0).sum() / 64**2 < 0.05 * 3 * 2**0.5 * 1.1

    def test_channels_follow_one_direction(self):
        # Gradients of the mask point across the channels: their structure tensor is far from isotropic.
        ratios = []
        for seed in range(20):
            factor = _fractal_darcy.draw_factor(np.random.default_rng(seed), centers(96), (1.0, 2.0))
            along_x, along_y = np.gradient(ndimage.gaussian_filter(factor, 1.5))
            cross = (along_x * along_y).sum()
            low, high = np.linalg.eigvalsh([[(along_x**2).sum(), cross], [cross, (along_y**2).sum()]])
            ratios.append(high / low)
        assert np.median(ratios) > 5

    def test_an_inclusion_is_an_ellipse(self, monkeypatch):
        monkeypatch.setattr(_fractal_darcy, "N_CHANNELS", 0)
        monkeypatch.setattr(_fractal_darcy, "N_INCLUSIONS", 1)
        axis = np.arange(-0.1, 1.1, 1 / 256)
        for seed in range(10):
            factor = _fractal_darcy.draw_factor(np.random.default_rng(seed), axis, (0.25, 3.0))
            assert set(np.unique(factor)) == {0.25, 1.0}
            points = axis[np.argwhere(factor == 0.25)]
            low, high = np.linalg.eigvalsh(np.cov(points.T))
            # The variance of a full ellipse along a semi-axis is a quarter of its square.
            assert 0.018 < 2 * low**0.5 <= 2 * high**0.5 < 0.082
            assert len(points) / 256**2 == pytest.approx(np.pi * 4 * (low * high) ** 0.5, rel=0.03)

    def test_sources_and_sinks(self, monkeypatch):
        monkeypatch.setattr(_fractal_darcy, "N_SOURCES", 1)
        axis = np.arange(-0.5, 1.5, 1 / 100)
        strengths = []
        for seed in range(40):
            source = _fractal_darcy.draw_sources(np.random.default_rng(seed), axis) / 100**2
            strengths.append(source.sum())
            share = source.sum(axis=1) / source.sum()
            middle = share @ axis
            assert 0 < middle < 1
            assert 0.02 <= (share @ (axis - middle) ** 2) ** 0.5 <= 0.05
        assert np.min(np.abs(strengths)) > 0.5
        assert np.max(np.abs(strengths)) < 1.5
        assert 8 < np.sum(np.array(strengths) > 0) < 32

    def test_background(self):
        options = {"resolution": 12, "random_state": 3}
        weak, strong = (make_fractal(2, forcing=value, **options)[0] for value in (0.0, 2.5))
        np.testing.assert_allclose(strong[..., 1] - weak[..., 1], 2.5)
        np.testing.assert_array_equal(strong[..., 0], weak[..., 0])


class TestSolver:
    @pytest.mark.parametrize("n_cells", [3, 4, 17])
    def test_equals_direct_solver(self, n_cells):
        permeability = rough_permeability(n_cells)
        forcing = np.random.default_rng(1).standard_normal((n_cells, n_cells))
        expected = directly_solved(permeability, forcing)
        actual = _darcy._solve_fluxes(permeability, forcing)
        assert np.abs(actual - expected).max() <= 1e-8 * np.abs(expected).max()

    def test_manufactured_solution(self):
        errors = []
        for n_cells in (16, 32, 64):
            x, y = np.meshgrid(centers(n_cells), centers(n_cells), indexing="ij")
            exact = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
            u_x = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
            u_y = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
            k, k_y = 2 + np.sin(2 * x + y), np.cos(2 * x + y)
            forcing = -(2 * k_y * u_x + k_y * u_y - 5 * np.pi**2 * k * exact)
            errors.append(np.abs(_darcy._solve_fluxes(k, forcing) - exact).max())
        orders = -np.diff(np.log2(errors))
        assert ((orders > 1.85) & (orders < 2.15)).all(), orders

    def test_what_flows_out_is_what_the_sources_give(self):
        inputs, pressure = make_fractal(3, resolution=24, random_state=4)
        for (permeability, forcing), u in zip(np.moveaxis(inputs, -1, 1), pressure[..., 0], strict=True):
            # Through each outer face, half a cell from the centre: k (u - 0) / (h / 2), times the face's h.
            outflow = sum((2 * permeability * u)[side].sum() for side in (0, -1, np.s_[:, 0], np.s_[:, -1]))
            assert outflow == pytest.approx(forcing.mean(), abs=1e-8 * np.abs(forcing).mean())

    def test_flux_through_layers_is_exact(self):
        n_cells, layers = 12, np.where(np.arange(12) < 5, 0.01, 30.0)
        x = centers(n_cells)
        # Without sources u is linear in each layer, with the same flux k u' in both, and 0 at x = 0.
        u = np.where(x < 5 / 12, x / 0.01, 5 / 12 / 0.01 + (x - 5 / 12) / 30.0)
        for turn in (np.asarray, np.transpose):
            system = _fractal_darcy.FluxSystem(turn(np.tile(layers[:, None], n_cells)))
            balance = turn(system.apply(turn(np.tile(u[:, None], n_cells))))
            # The cells beside the three other sides see u = 0 there.
            np.testing.assert_allclose(balance[:-1, 1:-1], 0, atol=1e-12)
            assert np.abs(balance[-1]).min() > 1
        system = _fractal_darcy.FluxSystem(np.tile(layers[:, None], n_cells))
        flux = system.faces_x[1:-1, 0] * np.diff(u) * n_cells
        np.testing.assert_allclose(flux, 1.0)

    def test_transposition_and_linearity(self):
        permeability, random = rough_permeability(10, seed=5), np.random.default_rng(6)
        first, second = random.standard_normal((2, 10, 10))
        u, v = (_darcy._solve_fluxes(permeability, forcing) for forcing in (first, second))
        turned = _darcy._solve_fluxes(permeability.T, first.T)
        np.testing.assert_allclose(turned.T, u, rtol=0, atol=1e-9 * np.abs(u).max())
        both = _darcy._solve_fluxes(permeability, 3 * first - second)
        np.testing.assert_allclose(both, 3 * u - v, rtol=0, atol=1e-8 * np.abs(both).max())
        np.testing.assert_array_equal(_darcy._solve_fluxes(permeability, 0.0), 0)

    @pytest.mark.parametrize("modification", [0.97, 1.0])
    def test_preconditioner(self, modification, monkeypatch):
        monkeypatch.setattr(_fractal_darcy, "MODIFICATION", modification)
        system = _fractal_darcy.FluxSystem(rough_permeability(5, seed=7, decades=0.5))
        columns = np.eye(25).reshape(25, 5, 5)
        matrix = np.array([system.apply(column).ravel() for column in columns])
        inverse = np.array([system.precondition(column).ravel() for column in columns])
        np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
        np.testing.assert_allclose(inverse, inverse.T, rtol=1e-9, atol=1e-12 * np.abs(inverse).max())
        assert np.linalg.eigvalsh(inverse).min() > 0
        # The factors agree with the matrix on its five diagonals but for the pivots, which hold what is dropped: with
        # a modification of 1 the sums of the rows are those of the matrix.
        remainder = np.linalg.inv(inverse) - matrix
        off_diagonal = (matrix != 0) & ~np.eye(25, dtype=bool)
        assert np.abs(remainder[off_diagonal]).max() < 1e-9 * np.abs(matrix).max()
        sums = np.abs(remainder.sum(axis=1)).max() / np.abs(matrix).max()
        if modification == 1.0:
            assert sums < 1e-12
        else:
            assert 1e-4 < sums < 0.03

    def test_few_iterations_at_a_high_contrast(self):
        inputs, _ = make_fractal(1, resolution=64, random_state=8)
        permeability, forcing = np.moveaxis(inputs[0], -1, 0)
        assert permeability.max() / permeability.min() > 1e4
        assert np.isfinite(_darcy._solve_fluxes(permeability, forcing, max_iterations=120)).all()

    def test_no_convergence_is_an_error(self):
        with pytest.raises(FieldDataError, match=r"did not reach .* in 5 iterations"):
            _darcy._solve_fluxes(rough_permeability(20), 1.0, max_iterations=5)

    def test_residual_lost_to_rounding_is_an_error(self, monkeypatch):
        monkeypatch.setattr(_darcy, "LARGEST_RESIDUAL", 1e-18)
        with pytest.raises(FieldDataError, match="lost to rounding"):
            _darcy._solve_fluxes(rough_permeability(8), 1.0)

    def test_failure_names_the_sample(self):
        with pytest.raises(FieldDataError, match="Sample 0: the permeability is not finite and above 0 everywhere"):
            make_fractal(1, resolution=32, values=(1.0, 1.7e308), random_state=0)


class TestMakeFractalDarcy:
    def test_solves_the_equation_it_returns(self):
        inputs, u = make_fractal(2, resolution=15, random_state=1)
        assert inputs.shape == (2, 15, 15, 2)
        assert u.shape == (2, 15, 15, 1)
        for sample in range(2):
            expected = directly_solved(*np.moveaxis(inputs[sample], -1, 0))
            np.testing.assert_allclose(u[sample, ..., 0], expected, rtol=0, atol=1e-8 * np.abs(expected).max())

    def test_points_agree_with_the_grid(self):
        options = {"resolution": 12, "solver_resolution": 24, "random_state": 2}
        (coords, inputs), u = make_fractal(3, return_coords=True, **options)
        X, y = make_fractal(3, n_points=40, **options)
        assert X.shape == (3, 40, 2)
        assert y.shape == (3, 40, 1)
        assert X.channel_names == ("permeability", "forcing")
        assert y.channel_names == ("pressure",)
        np.testing.assert_array_equal(X.coords, y.coords)
        on_grid = {tuple(point): index for index, point in enumerate(coords.reshape(-1, 2))}
        for sample in range(3):
            chosen = [on_grid[tuple(point)] for point in X.coords[sample]]
            assert len(set(chosen)) == 40
            np.testing.assert_array_equal(X.values[sample], inputs[sample].reshape(-1, 2)[chosen])
            np.testing.assert_array_equal(y.values[sample], u[sample].reshape(-1, 1)[chosen])
        assert not np.array_equal(X.coords[0], X.coords[1])

    @pytest.mark.parametrize("variant", ["fno", "pdebench"])
    def test_points_of_the_other_variants(self, variant):
        options = {"variant": variant, "resolution": 9, "random_state": 3}
        (coords, a), u = make_darcy(2, return_coords=True, **options)
        X, y = make_darcy(2, n_points=81, **options)
        assert X.channel_names == ("permeability",)
        for sample in range(2):
            order = np.lexsort(X.coords[sample].T[::-1])
            np.testing.assert_array_equal(X.coords[sample][order], coords.reshape(-1, 2))
            np.testing.assert_array_equal(X.values[sample][order], a[sample].reshape(-1, 1))
            np.testing.assert_array_equal(y.values[sample][order], u[sample].reshape(-1, 1))

    def test_points_are_anywhere(self):
        X, _ = make_fractal(40, resolution=8, n_points=16, random_state=4)
        drawn = np.unique((X.coords * 8).astype(int).reshape(-1, 2), axis=0, return_counts=True)[1]
        # Each of the 64 cells is drawn with probability 1/4: 10 times in 40 samples, with a deviation of 2.7.
        assert len(drawn) == 64
        assert drawn.max() < 25

    def test_the_same_sample_on_finer_grids(self):
        # Centres of n cells are centres of 3 n cells.
        coarse, coarse_u = make_fractal(2, resolution=64, random_state=8)
        fine, fine_u = make_fractal(2, resolution=192, random_state=8)
        np.testing.assert_allclose(coarse, fine[:, 1::3, 1::3], rtol=1e-10)
        error = np.linalg.norm(coarse_u - fine_u[:, 1::3, 1::3]) / np.linalg.norm(coarse_u)
        assert 1e-4 < error < 0.15
        inputs, u = make_fractal(2, resolution=64, solver_resolution=192, random_state=8)
        np.testing.assert_array_equal(inputs, fine[:, ::3, ::3])
        np.testing.assert_array_equal(u, fine_u[:, ::3, ::3])
