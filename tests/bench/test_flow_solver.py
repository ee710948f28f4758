"""The measurement of the Navier-Stokes solver: errors fall with the grid, and the published scheme is close."""

from benchmarks.__main__ import main
from benchmarks._report import read_report


def test_errors_fall_with_the_grid_and_with_the_step(tmp_path, capsys):
    output = tmp_path / "flow.md"
    words = ["--viscosities", "1e-2", "--sizes", "8", "16", "--samples", "1", "--euler-step", "0.02"]
    assert main(["flow-solver", *words, "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    errors = [numbers[f"0.01, {size} points"]["error"] for size in (8, 16)]
    assert errors[0] > 5 * errors[1] > 0
    assert 0 < numbers["published scheme"]["error"] < 0.1
    assert "The published scheme" in capsys.readouterr().out
