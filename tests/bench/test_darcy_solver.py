"""The measurement of the Darcy solver: what it prints, and that errors fall with the spacing."""

import pytest

from benchmarks.__main__ import main
from benchmarks._report import read_report


def test_errors_fall_with_the_spacing(tmp_path, capsys):
    output = tmp_path / "solver.md"
    words = [
        "darcy-solver",
        "--sizes",
        "11",
        "21",
        "41",
        "--samples",
        "3",
        "--reference",
        "121",
        "--output",
        str(output),
    ]
    assert main(words) == 0
    numbers = read_report(output)[0]
    errors = [numbers[f"{size} points"]["error"] for size in (11, 21, 41)]
    assert errors[0] > 1.5 * errors[1] > 1.5**2 * errors[2] > 0
    assert "41 x 41" in capsys.readouterr().out
    assert "difference from 121 x 121" in output.read_text()


def test_the_reference_itself_has_no_error(tmp_path):
    output = tmp_path / "solver.md"
    assert main(["darcy-solver", "--sizes", "21", "--samples", "1", "--reference", "21", "--output", str(output)]) == 0
    assert read_report(output)[0]["21 points"]["error"] == pytest.approx(0, abs=1e-12)


def test_grids_that_are_not_nested_are_refused(capsys):
    with pytest.raises(ValueError, match="resolution"):
        main(["darcy-solver", "--sizes", "20", "--samples", "1", "--reference", "121"])
