"""What reviewers ask: spectra of known fields, the solver's order, integrals, break-even numbers, and a whole run."""

import math

import numpy as np
import pytest

from benchmarks import _trust
from benchmarks.__main__ import main
from benchmarks._report import read_report
from benchmarks._trust import break_even, compare, on_grid, solve_on

AXIS = np.linspace(0, 1, 33)


def on_square(function):
    """One sample of a function of x and y on 33 x 33 points."""
    return function(*np.meshgrid(AXIS, AXIS, indexing="ij"))[np.newaxis, ..., np.newaxis]


def test_an_error_of_one_wave_is_in_its_band():
    waves = {
        k: on_square(lambda x, y, k=k: np.cos(2 * np.pi * k * x) + np.sin(2 * np.pi * k * y)) for k in (1, 3, 6, 9)
    }
    truth = 2 + sum(waves.values())
    found = compare(np.ones_like(truth), truth, truth + 0.1 * waves[3])["bands"]
    np.testing.assert_allclose(found[:4], [0, 0.1, 0, 0], atol=1e-12)


def test_all_errors_of_a_prediction_in_proportion_to_the_truth_are_the_same():
    truth = on_square(lambda x, y: x * (1 - x**3) * y * (1 - y) * (1 + y))
    found = compare(on_square(lambda x, y: 3 + y), truth, 1.1 * truth)
    assert found.pop("bands")[:4] == pytest.approx([0.1] * 4)
    assert found == pytest.approx(dict.fromkeys(found, 0.1))


def test_the_flux_is_that_of_the_slope_at_the_side():
    # Parabolas of equal slope at x = 0, where differences of second order are exact, and one of another slope where
    # nothing flows.
    truth = on_square(lambda x, y: x - x**2)
    same, elsewhere = on_square(lambda x, y: x + 3 * x**2), on_square(lambda x, y: x - x**2 + x * (y > 0.5))
    assert compare(np.ones_like(truth), truth, same)["flux"] == pytest.approx(0, abs=1e-12)
    assert compare(on_square(lambda x, y: 2.0 * (y <= 0.5)), truth, elsewhere)["flux"] == pytest.approx(0, abs=1e-12)
    assert compare(np.ones_like(truth), truth, elsewhere)["flux"] == pytest.approx(0.5, abs=0.02)


def test_fields_are_carried_to_other_grids_exactly_if_they_are_cubic():
    def cubic(n_points):
        axis = np.linspace(0, 1, n_points)
        return ((1 - 2 * axis[:, None] + axis[:, None] ** 3) * (axis**3 - axis**2 + 0.5))[np.newaxis, ..., np.newaxis]

    np.testing.assert_allclose(on_grid(cubic(6), 11), cubic(11), atol=1e-12)
    np.testing.assert_allclose(on_grid(cubic(11), 6), cubic(6), atol=1e-12)


def test_the_solver_on_coarser_grids_has_its_order():
    def smooth(n_points):
        axis = np.linspace(0, 1, n_points)
        return np.exp(np.outer(np.cos(np.pi * axis), np.cos(np.pi * axis)))[np.newaxis, ..., np.newaxis]

    (truth,), _ = solve_on(smooth(129), (33,))
    errors = []
    for n_points in (9, 17, 33):
        (pressure,), seconds = solve_on(smooth(n_points), (33,))
        errors.append(np.linalg.norm(pressure - truth))
        assert seconds > 0
    # Of second order where the permeability is smooth.
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.25)


@pytest.mark.parametrize(("invested", "surrogate", "solver"), [(90.0, 0.1, 1.0), (60.0, 1e-3, 4e-2)])
def test_both_ways_take_the_same_time_where_a_surrogate_begins_to_pay(invested, surrogate, solver):
    number = break_even(invested, surrogate, solver)
    assert invested + number * surrogate == pytest.approx(number * solver)


@pytest.mark.parametrize("solver", [0.5, 1.0])
def test_a_surrogate_that_is_no_faster_never_pays(solver):
    assert math.isinf(break_even(10.0, 1.0, solver))


@pytest.mark.exhaustive
def test_a_whole_run_with_fno_writes_its_sections_and_goes_on_from_them(tmp_path, monkeypatch, capsys):
    pytest.importorskip("neuralop")
    path = tmp_path / "trust.md"
    command = [
        "trust",
        "--seconds",
        "0.1",
        "--seeds",
        "1",
        "--alone-seeds",
        "1",
        "--train",
        "10",
        "--test",
        "2",
        "--resolution",
        "10",
    ]
    command += ["--grids", "5", "10", "19", "--output", str(path)]
    with pytest.warns(match="too few to learn much"):
        assert main(command) == 0
    text, (numbers, defaults) = path.read_text(), read_report(path)
    assert set(defaults) == {"LaMORegressor", "PODRegressor", "FNORegressor"}
    headings = ["Seeds", "The solver's own time", "From how many", "Spectra", "Integrals", "Derivatives", "Other"]
    for heading in [*headings, "Equal tuning"]:
        assert f"\n## {heading}" in text
    assert all(np.isfinite(row.get("error", 0.0)) for row in numbers.values())

    def fail(*given):
        raise AssertionError("what is measured is not measured again")

    monkeypatch.setattr(_trust, "_fit", fail)
    monkeypatch.setattr(_trust, "solve_darcy", fail)
    assert main(command) == 0
    assert path.read_text() == text
