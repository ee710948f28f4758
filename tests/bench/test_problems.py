"""The problems of the comparison: sizes and points, tests that stay the same, and solvers."""

import numpy as np
import pytest

from benchmarks._problems import (
    _FIBRE,
    _MATRIX,
    PROBLEMS,
    FibrePlate,
    _plane_stress,
    forced_flow,
    make_burgers,
    random_forcing,
    read_problem,
    read_recipe,
)
from skop import FieldSet
from skop.datasets._hyperelastic import stress_and_tangent
from skop.exceptions import FieldDataError

#: What is made by finite elements, or takes longer.
SLOW = {"cantilever", "elasticity", "elasticity-100", "fibre"} | {row for row in PROBLEMS if row.startswith("darcy")}


def values(part):
    return np.asarray(part.values if isinstance(part, FieldSet) else part)


@pytest.mark.parametrize("row", [pytest.param(row, marks=[pytest.mark.exhaustive] * (row in SLOW)) for row in PROBLEMS])
def test_problems(row):
    recipe = PROBLEMS[row]
    problem = recipe.make(6, 3, 0)
    assert [len(part) for part in (problem.X_train, problem.y_train, problem.X_test, problem.y_test)] == [6, 6, 3, 3]
    assert np.isfinite(values(problem.y_train)).all()
    # Tests differ from all training samples, and from each other; snapshots of a periodic flow, or before a start, may
    # be the same.
    has_same = row in {"wake", "impulsive"}
    train, test = (problem.X_train, problem.X_test) if has_same else (problem.y_train, problem.y_test)
    rows = np.concatenate([values(train).reshape(6, -1), values(test).reshape(3, -1)])
    assert len(np.unique(rows, axis=0)) == 9
    if problem.tables is not None:
        assert [len(table) for table in problem.tables] == [6, 3]
        assert problem.tables[0].ndim == 2
    assert problem.has_own_points is (
        row in {"airfoil-shapes", "hole", "hole-scattered", "elasticity", "elasticity-100"}
    )
    assert problem.has_other_points is (row == "antiderivative-between")
    assert problem.has_other_nodes is (row == "hole-scattered")
    # More training samples leave the tests as they are; times and angles are equally spaced instead.
    more = recipe.make(8, 3, 0)
    if row != "wake":
        np.testing.assert_array_equal(values(more.y_test), values(problem.y_test))
    assert not np.array_equal(values(recipe.make(6, 3, 1).y_test), values(problem.y_test))
    np.testing.assert_array_equal(values(problem.first(2).y_train), values(problem.y_train)[:2])


def test_tables_are_the_numbers_behind_the_samples():
    problem = PROBLEMS["hole"].make(4, 2, 0)
    np.testing.assert_array_equal(problem.tables[0], problem.X_train.params)
    problem = PROBLEMS["antiderivative-between"].make(4, 2, 0)
    np.testing.assert_array_equal(problem.tables[1], problem.X_test.values[..., 0])
    assert PROBLEMS["burgers-16"].make(4, 2, 0).tables is None


def test_burgers_equation():
    viscosity, time, step = 0.03, 0.2, 1e-3
    options = {"viscosity": viscosity, "n_fine": 1024}

    def state(moment):
        return make_burgers(2, 1024, 0, time=moment, **options)[1][..., 0].astype(np.float64)

    u = state(time)
    waves, k = np.fft.rfft(u), 2j * np.pi * np.arange(513)
    slope, curvature = np.fft.irfft(k * waves), np.fft.irfft(k**2 * waves)
    change = (state(time + step) - state(time - step)) / (2 * step)
    size = np.abs(change).max()
    # Single precision of the fields, differentiated twice.
    smooth = np.fft.irfft(np.fft.rfft(change + u * slope - viscosity * curvature)[:, :60], 1024)
    np.testing.assert_allclose(smooth, 0, atol=2e-3 * size)
    np.testing.assert_allclose(u.mean(axis=1), 0, atol=1e-6)


def test_burgers_starts_at_its_input_and_is_one_function_on_all_grids():
    X, y = make_burgers(3, 64, 1, time=0.0)
    np.testing.assert_allclose(y, X, atol=1e-4)
    X, y = make_burgers(3, 64, 1)
    coarse = make_burgers(3, 16, 1)
    np.testing.assert_array_equal(coarse[0], X[:, ::4])
    np.testing.assert_array_equal(coarse[1], y[:, ::4])


def test_forcings_have_the_stated_covariance():
    fields = random_forcing(500, 0, n_points=16)
    waves = np.fft.rfft2(fields) / 16**2
    first, second = np.meshgrid(np.fft.fftfreq(16, 1 / 16), np.arange(9), indexing="ij")
    squares = first**2 + second**2
    found = (np.abs(waves) ** 2).mean(axis=0)
    # A wave exp(ikx) has half the variance of each of the cosine and the sine, of norm 1, and its opposite the other.
    expected = np.where((squares > 0) & (squares <= 32), (9 + squares) ** -4.0 / (4 * np.pi**2), 0.0)
    np.testing.assert_allclose(found, expected, rtol=0.25, atol=1e-20)
    assert found[squares > 0].sum() == pytest.approx(expected.sum(), rel=0.05)


def test_waves_are_forced_and_decay_exactly():
    """One wave does not carry itself along. More samples than are solved at a time, each with its own forcing."""
    x = 2 * np.pi * np.arange(16) / 16
    wavenumbers, sizes = np.arange(18) % 4 + 1, np.random.default_rng(0).normal(size=(2, 18, 1, 1))
    waves = np.sin(wavenumbers[:, None, None] * (x[:, None] + 2 * x))
    rate = 0.03 * 5 * wavenumbers[:, None, None] ** 2
    expected = (sizes[0] * np.exp(-2 * rate) + sizes[1] * (1 - np.exp(-2 * rate)) / rate) * waves
    found = forced_flow(sizes[0] * waves, sizes[1] * waves, viscosity=0.03, time=2.0, time_step=0.02)
    is_kept = wavenumbers <= 2  # waves longer than a third of the grid
    np.testing.assert_allclose(found[is_kept], expected[is_kept], atol=1e-7)
    np.testing.assert_allclose(found[~is_kept], 0, atol=1e-12)


class TestFibrePlate:
    def test_without_contraction_the_stress_is_the_load(self):
        stress = FibrePlate(5, (2e6, 0.0), (2e6, 0.0)).components(np.zeros((1, 100)))
        np.testing.assert_allclose(stress[..., 0] - [0, 0, 0, 100], 0, atol=1e-8)

    def test_mean_stress_balances_the_load(self):
        """Integrals of the stress are those of the load times 1 and x, whatever the materials."""
        coefficients = np.vstack([np.zeros(100), np.eye(100)[:3]])
        plate = FibrePlate(10)
        stress, (x, y), weights = plate.components(coefficients), plate.places.T, plate.weights
        assert weights.sum() == pytest.approx(1)
        np.testing.assert_allclose(weights @ stress[:, 3], 100)
        np.testing.assert_allclose(weights @ stress[:, 1], 0, atol=1e-9)
        # The integral of x cos(pi l x) over [0, 1] is ((-1)^l - 1) / (pi l)^2.
        waves = np.pi * np.arange(1, 4)
        moments = 50 + 400 * np.sqrt(2 / (waves**2 + 9)) * (np.cos(waves) - 1) / waves**2
        found = (weights * x) @ stress[:, 3] + (weights * y) @ stress[:, 1]
        np.testing.assert_allclose(found, [50, *moments], rtol=1e-4)

    def test_stress_of_the_fibre_is_of_second_order(self):
        def mean(n_cells):
            plate = FibrePlate(n_cells)
            is_fibre = np.hypot(*(plate.places.T - 0.5)) < 0.3
            return np.einsum("q,qij->ij", plate.weights[is_fibre], plate.components(np.eye(100)[:2])[is_fibre])

        coarse, middle, fine = (mean(n_cells) for n_cells in (5, 10, 20))
        assert 3 < np.linalg.norm(coarse - middle) / np.linalg.norm(middle - fine) < 6

    def test_mirrored_loads_have_mirrored_stresses(self):
        plate, load = FibrePlate(5), np.random.default_rng(0).standard_normal((1, 100))
        places = np.random.default_rng(1).random((7, 2))
        found = plate.stress(load * (-1.0) ** np.arange(1, 101), [1, 0] + [-1, 1] * places)
        np.testing.assert_allclose(found, plate.stress(load, places), rtol=1e-6)

    def test_the_matrix_is_rubber_at_small_strain(self):
        _, tangent = stress_and_tangent(np.array([1.0, 0, 0, 1]), (1.863e5, 9.79e3))
        np.testing.assert_allclose(_plane_stress(*_MATRIX), tangent, rtol=1e-12, atol=1e-6)
        # Hooke's law of plane stress: a pull along x narrows the plate by Poisson's ratio.
        pulled = _plane_stress(*_FIBRE) @ [1, 0, 0, -_FIBRE[1]]
        np.testing.assert_allclose(pulled, [_FIBRE[0], 0, 0, 0], atol=1e-6)


def test_files_of_the_user(tmp_path):
    draws = np.random.default_rng(0)
    arrays = {"X_train": draws.random((5, 2)), "X_test": draws.random((3, 2))}
    arrays |= {"y_train": draws.random((5, 7, 1)), "y_test": draws.random((3, 7, 1))}
    np.savez(tmp_path / "mine.npz", **arrays)
    problem = read_problem(tmp_path / "mine.npz")
    np.testing.assert_array_equal(problem.y_test, arrays["y_test"].astype(np.float32))
    np.testing.assert_array_equal(problem.tables[0], arrays["X_train"].astype(np.float32))
    fields = {key: draws.random((4, 8, 8)) for key in ("train16_a", "train16_u", "test16_a", "test16_u")}
    np.savez(tmp_path / "darcy.npz", **fields)
    problem = read_problem(tmp_path / "darcy.npz")
    assert problem.X_train.grid_shape == (8, 8)
    assert problem.X_train.coords.max() == pytest.approx(7 / 8)
    assert problem.has_grid
    # The square is mirrored about its own centre, which is not that of its points.
    assert problem.symmetries.domain == ((0, 1), (0, 1))
    recipe = read_recipe(tmp_path / "darcy.npz")
    assert recipe.words == "permeability to pressure, 8 x 8, the small Darcy set of the neuraloperator project"
    some = recipe.make(3, 2, 1)
    np.testing.assert_array_equal(some.X_train.values, problem.X_train.values[:3])
    np.testing.assert_array_equal(some.y_test.values, problem.y_test.values[:2])
    np.savez(tmp_path / "other.npz", a=1)
    with pytest.raises(FieldDataError, match=r"other.npz holds \['a'\]. Expected \['X_train', "):
        read_problem(tmp_path / "other.npz")
