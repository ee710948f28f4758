"""The measurement of the solvers: errors fall with the grid and with the tolerance."""

from benchmarks.__main__ import main
from benchmarks._report import read_report


def test_errors_fall_with_the_grid_and_with_the_tolerance(tmp_path, capsys):
    output = tmp_path / "solvers.md"
    words = ["--dam-sizes", "8", "32", "--pattern-sizes", "12", "--samples", "1"]
    assert main(["pdebench-solvers", *words, "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert numbers["dam, 8 cells"]["error"] > 2 * numbers["dam, 32 cells"]["error"] > 0
    ours, loose, tight = (
        numbers[f"pattern, 12 cells, {name}"]["error"]
        for name in ("tolerance 1e-7 (default)", "RK45, relative tolerance 0.001", "RK45, relative tolerance 1e-06")
    )
    assert 0 < ours < 1e-6
    assert loose > 10 * tight > 0
    assert "Patterns of diffusion and reaction" in capsys.readouterr().out
