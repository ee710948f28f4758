"""The measurement on meshes: every row is there, and what POD loses by interpolation is counted."""

import pytest

from benchmarks.__main__ import main
from benchmarks._models import classical_models
from benchmarks._report import read_report

pytest.importorskip("skfem")


@pytest.mark.exhaustive
def test_every_model_is_measured_on_the_same_samples(tmp_path, capsys):
    output = tmp_path / "elasticity.md"
    words = ["--train", "12", "--test", "4", "--budgets", "1", "--seeds", "2", "--grid", "21", "--draw-points", "64"]
    assert main(["elasticity", *words, "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert set(numbers) == {*classical_models(), "LaMO, 1 s, seed 0", "LaMO, 1 s, seed 1"}
    table = capsys.readouterr().out
    assert "12 training and 4 test samples" in table
    there_and_back = float(table.split("to the grid and back | ")[1].split(" ")[0])
    # Nothing on the grid can be better than the grid itself.
    assert 0 < there_and_back < min(numbers[name]["error"] for name in classical_models())


@pytest.mark.exhaustive
def test_operators_are_chosen_and_mno_says_which(tmp_path, capsys):
    output = tmp_path / "elasticity.md"
    words = ["--train", "8", "--test", "2", "--budgets", "0.5", "--seeds", "1", "--output", str(output)]
    words += ["--models", "lamo", "geomano", "mno", "amo", "--host", "gnot", "--mixer", "linear"]
    assert main(["elasticity", *words]) == 0
    numbers = read_report(output)[0]
    assert list(numbers) == [f"{name}, 0.5 s, seed 0" for name in ("LaMO", "GeoMaNO", "MNO gnot linear", "AMO")]
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == [
        "| LaMO, 0.5 s",
        "| GeoMaNO, 0.5 s",
        "| MNO gnot linear, 0.5 s",
        "| AMO, 0.5 s",
    ]
