"""The problems of the comparison: sizes and points, tests that stay the same, and Burgers' equation."""

import numpy as np
import pytest

from benchmarks._problems import PROBLEMS, make_burgers, read_problem, read_recipe
from skop import FieldSet
from skop.exceptions import FieldDataError

#: What is made by finite elements, or takes longer.
SLOW = {"cantilever", "elasticity", "elasticity-100", "darcy-32", "darcy-32-300", "darcy-32-100", "darcy-85"}


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
    recipe = read_recipe(tmp_path / "darcy.npz")
    assert recipe.words == "permeability to pressure, 8 x 8, the small Darcy set of the neuraloperator project"
    some = recipe.make(3, 2, 1)
    np.testing.assert_array_equal(some.X_train.values, problem.X_train.values[:3])
    np.testing.assert_array_equal(some.y_test.values, problem.y_test.values[:2])
    np.savez(tmp_path / "other.npz", a=1)
    with pytest.raises(FieldDataError, match=r"other.npz holds \['a'\]. Expected \['X_train', "):
        read_problem(tmp_path / "other.npz")
