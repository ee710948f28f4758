"""The void generator: its random shapes, its meshes, the stress around a void, and its promises on seeds."""

import numpy as np
import pytest

from skop.datasets import _elasticity as elasticity
from skop.datasets import make_elasticity
from skop.exceptions import FieldDataError, OptionalDependencyError

SMALL = {"n_points": (40, 7), "dtype": np.float64}
RAGGED = {"n_points": (64, 9), "vary_points": True, "random_state": 1}


def recipe(**changes):
    settings = {
        "n_points": (80, 13),
        "radius_range": (0.2, 0.4),
        "amplitude": 4.0,
        "decay": 3.0,
        "n_modes": 5,
        "moduli": (1.863e5, 9.79e3),
        "traction": (0.0, 100.0),
        "vary_points": False,
        "shuffle_points": False,
    }
    return elasticity._Recipe(**settings | changes)


def solve(coefficients, n_points=(40, 7), **changes):
    return elasticity._solve_cell(np.asarray(coefficients, dtype=float), n_points, recipe(**changes))


def areas(coords, cells):
    """Signed areas of quadrilaterals."""
    diagonals = coords[cells[:, 2]] - coords[cells[:, 0]], coords[cells[:, 3]] - coords[cells[:, 1]]
    return (diagonals[0][:, 0] * diagonals[1][:, 1] - diagonals[0][:, 1] * diagonals[1][:, 0]) / 2


class TestVoid:
    def test_covariance_of_the_logit(self):
        settings = recipe(n_modes=4, amplitude=2.0, decay=1.5)
        rng, angles = np.random.default_rng(0), np.linspace(0, 2 * np.pi, 12, endpoint=False)
        draws = np.array([elasticity._void_radius(rng.standard_normal(9), angles, settings) for _ in range(4000)])
        logit = np.log(0.2 / (draws - 0.2) - 1)
        waves = np.arange(1, 5)
        cosines = np.cos(waves * (angles[:, None] - angles)[..., None])
        expected = 4 / (2 * np.pi) * (1 / 2.25 + 2 * (cosines / (waves**2 + 2.25)).sum(axis=-1))
        assert np.abs(np.cov(logit.T) - expected).max() < 0.08 * expected.max()
        assert np.abs(logit.mean(axis=0)).max() < 0.1

    def test_radius_of_given_coefficients(self):
        coefficients = np.zeros(11)
        coefficients[[0, 3]] = 1.0, 2.0
        gaussian = 4 * (1 / np.sqrt(2 * np.pi) / 3 + 2 * np.cos(2 * 0.4) / np.sqrt(np.pi * 13))
        expected = 0.2 + 0.2 / (1 + np.exp(gaussian))
        np.testing.assert_allclose(elasticity._void_radius(coefficients, np.array([0.4]), recipe()), expected)

    def test_extreme_coefficients_stay_in_range(self):
        radii = elasticity._void_radius(np.full(11, 1e6), np.linspace(0, 6, 20), recipe())
        assert ((radii >= 0.2) & (radii <= 0.4)).all()


class TestMesh:
    @pytest.mark.parametrize("n_points", [(8, 3), (24, 5), (80, 13)])
    def test_points_are_where_the_solver_has_them(self, n_points):
        mesh, place = elasticity._ring(*n_points)
        assert sorted(place) == list(range(n_points[0] * n_points[1]))
        angles = np.pi / 4 + 2 * np.pi * np.arange(n_points[0]) / n_points[0]
        ray, ring = np.divmod(place, n_points[1])
        x, y = mesh.doflocs
        np.testing.assert_allclose(np.cos(np.arctan2(y, x) - angles[ray]), 1, atol=1e-12)
        assert np.abs(np.hypot(x, y) - (1 + ring / 2)).max() < 0.08 * n_points[1] * 40 / n_points[0]

    def test_cells_fill_the_square_around_the_void(self):
        data = make_elasticity(3, n_points=(80, 13), dtype=np.float64, random_state=0, return_X_y=False)
        assert data.cells.shape == (80 * 12, 4)
        for coords, radii in zip(data.coords, data.radii, strict=True):
            cell_areas = areas(coords, data.cells)
            assert (cell_areas > 0).all()
            polygon = np.sin(2 * np.pi / 80) / 2 * (radii * np.roll(radii, 1)).sum()
            assert cell_areas.sum() == pytest.approx(1 - polygon, rel=1e-9)

    def test_first_points_of_the_rays_are_the_void(self):
        data = make_elasticity(2, **SMALL, random_state=3, return_X_y=False)
        rays = data.coords.reshape(2, 40, 7, 2)
        void = np.hypot(*(np.moveaxis(rays[:, :, 0], -1, 0) - 0.5))
        # Rays start at 45 degrees, radii at 0.
        np.testing.assert_allclose(void, np.roll(data.radii, -5, axis=1), rtol=1e-12)
        np.testing.assert_allclose(np.abs(rays[:, :, -1] - 0.5).max(axis=-1), 0.5, rtol=1e-12)


class TestStress:
    def test_converges_with_the_mesh(self):
        coefficients = np.random.default_rng(4).standard_normal(11)
        fields = []
        for factor in (1, 2, 4):
            arrays = solve(coefficients, (40 * factor, 6 * factor + 1))
            rays = {name: array.reshape(40 * factor, 6 * factor + 1, -1) for name, array in arrays.items()}
            fields.append({name: array[::factor, ::factor] for name, array in rays.items()})
        x, y = np.moveaxis(fields[0]["coords"], -1, 0)
        np.testing.assert_allclose(fields[2]["coords"], fields[0]["coords"], atol=1e-12)
        # The ends of the clamped side are singular.
        smooth = (np.hypot(x, y) > 0.25) & (np.hypot(1 - x, y) > 0.25)
        errors = [np.linalg.norm((f["stress"] - fields[2]["stress"])[smooth]) for f in fields[:2]]
        errors = np.array(errors) / np.linalg.norm(fields[2]["stress"][smooth])
        assert errors[1] < 0.05
        assert errors[0] > 3 * errors[1]

    def test_mirrored_void_gives_mirrored_stress(self):
        coefficients = np.random.default_rng(5).standard_normal(11)
        # x to 1 - x maps theta to pi - theta: cos k theta keeps its sign for even k, sin k theta for odd k.
        mirror = np.array([1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1])
        one, other = solve(coefficients, traction=(30.0, 80.0)), solve(mirror * coefficients, traction=(-30.0, 80.0))
        ray = (10 - np.arange(40)) % 40
        stress, mirrored = (arrays["stress"].reshape(40, 7) for arrays in (one, other))
        coords, displacement = (one[name].reshape(40, 7, 2) for name in ("coords", "displacement"))
        np.testing.assert_allclose(other["coords"].reshape(40, 7, 2)[ray], [1, 0] + [-1, 1] * coords, atol=1e-12)
        np.testing.assert_allclose(mirrored[ray], stress, rtol=1e-6)
        np.testing.assert_allclose(
            other["displacement"].reshape(40, 7, 2)[ray], [-1, 1] * displacement, atol=1e-6 * np.abs(displacement).max()
        )
        assert not np.allclose(mirrored, stress, rtol=0.05)

    def test_a_small_void_concentrates_stress_three_times(self):
        # Kirsch: 3 times the far stress beside a round hole and once it, pressing, above it.
        arrays = solve([0], (160, 41), n_modes=0, radius_range=(0.06, 0.06))
        stress = arrays["stress"].reshape(160, 41)
        beside, above = stress[[60, 140], 0], stress[[20, 100], 0]
        np.testing.assert_allclose(beside, 300, rtol=0.05)
        np.testing.assert_allclose(above, 100, rtol=0.25)

    def test_clamped_below_and_free_elsewhere(self):
        data = make_elasticity(2, **SMALL, random_state=0, return_X_y=False)
        below = data.coords[..., 1] < 1e-9
        assert below.sum() == 2 * 11
        assert not data.displacement[below].any()
        assert (data.displacement[data.coords[..., 1] > 1 - 1e-9][:, 1] > 0).all()
        assert (data.stress >= 0).all()

    def test_proportional_to_small_tractions_only(self):
        low, high, much = (
            make_elasticity(1, **SMALL, random_state=0, traction=(0, size))[1] for size in (50.0, 100.0, 1e5)
        )
        np.testing.assert_allclose(high, 2 * low, rtol=1e-3, atol=1e-3 * high.max())
        assert np.abs(much / (2e3 * low) - 1).max() > 0.2


class TestMakeElasticity:
    def test_shapes_and_types(self):
        X, y = make_elasticity(3, random_state=0)
        assert X.coords.shape == (3, 1040, 2)
        assert (X.n_channels, X.n_params, X.grid_shape) == (0, 0, None)
        assert y.shape == (3, 1040, 1)
        assert X.coords.dtype == y.dtype == np.float32
        assert 100 < y.mean() < 300

    def test_bunch(self):
        data = make_elasticity(3, n_points=(40, 7), n_modes=2, random_state=0, return_X_y=False)
        X, y = make_elasticity(3, n_points=(40, 7), n_modes=2, random_state=0)
        np.testing.assert_array_equal(data.coords, X.coords)
        np.testing.assert_array_equal(data.stress, y)
        ((kind, cells),) = X.cells
        assert kind == "quad"
        np.testing.assert_array_equal(cells, data.cells)
        assert data.displacement.shape == (3, 280, 2)
        assert data.cells.shape == (240, 4)
        assert data.radii.shape == (3, 40)
        assert data.coefficients.shape == (3, 5)
        angles = 2 * np.pi * np.arange(40) / 40
        for radii, coefficients in zip(data.radii, data.coefficients, strict=True):
            expected = elasticity._void_radius(coefficients, angles, recipe(n_modes=2))
            np.testing.assert_allclose(radii, expected, rtol=1e-5)

    def test_void_does_not_depend_on_mesh_or_options(self):
        base = make_elasticity(2, n_points=(80, 5), random_state=6, return_X_y=False).radii
        for options in ({"n_points": (40, 7)}, {"vary_points": True}, {"shuffle_points": True}, {"traction": (0, 1e4)}):
            changed = {"n_points": (80, 5)} | options
            radii = make_elasticity(2, **changed, random_state=6, return_X_y=False).radii
            np.testing.assert_array_equal(radii, base[:, :: 80 // radii.shape[1]])
        more = make_elasticity(2, n_points=(8, 3), n_modes=9, random_state=6, return_X_y=False).coefficients
        fewer = make_elasticity(2, n_points=(8, 3), random_state=6, return_X_y=False).coefficients
        np.testing.assert_array_equal(more[:, :11], fewer)

    @pytest.mark.parametrize("ragged", [False, True])
    def test_shuffled_points_are_the_same_points(self, ragged):
        options = {"n_points": (40, 7), "vary_points": ragged, "random_state": 1, "return_X_y": False}
        plain, shuffled = make_elasticity(3, **options), make_elasticity(3, **options, shuffle_points=True)
        orders = []
        for sample in range(3):
            rows = [
                np.concatenate([d.coords[sample], d.displacement[sample], d.stress[sample]], axis=1)
                for d in (plain, shuffled)
            ]
            order = [int(np.flatnonzero((rows[0] == row).all(axis=1))[0]) for row in rows[1]]
            assert sorted(order) == list(range(len(rows[0])))
            orders.append(order)
            cells = plain.cells[sample] if ragged else plain.cells
            corners = [d.coords[sample][c] for d, c in ((plain, cells), (shuffled, shuffled.cells[sample]))]
            np.testing.assert_array_equal(*corners)
        assert orders[0][:20] != orders[1][:20]
        assert make_elasticity(2, n_points=(8, 3), vary_points=ragged, shuffle_points=True)[0].cells is None

    def test_ragged_samples(self):
        data = make_elasticity(12, **RAGGED, return_X_y=False)
        counts = [len(points) for points in data.coords]
        assert isinstance(data.coords, list)
        assert len(set(counts)) > 3
        assert all(0.5 * 576 <= count <= 1.6 * 576 for count in counts)
        for coords, stress, cells in zip(data.coords, data.stress, data.cells, strict=True):
            assert stress.shape == (len(coords), 1)
            assert (areas(coords, cells) > 0).all()
            assert cells.max() == len(coords) - 1
        X, y = make_elasticity(2, **RAGGED)
        assert X.is_ragged
        for ours, theirs in ((X.coords_list(), data.coords), (y, data.stress)):
            for one, other in zip(ours, theirs, strict=False):
                np.testing.assert_array_equal(one, other)

    def test_failure_names_the_sample(self):
        with pytest.raises(FieldDataError, match=r"Sample 0: no equilibrium was found beyond .*lower the traction"):
            make_elasticity(1, n_points=(16, 3), traction=(0, -5e5), random_state=0)

    def test_missing_package(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "skfem", None)
        with pytest.raises(OptionalDependencyError, match=r"pip install scikit-fem"):
            make_elasticity(1, n_points=(8, 3))
