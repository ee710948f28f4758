"""The measurement on meshes: every row is there, and what POD loses by interpolation is counted."""

import json

import pytest

from skop.bench.__main__ import main

pytest.importorskip("skfem")


@pytest.mark.exhaustive
def test_every_model_is_measured_on_the_same_samples(tmp_path, capsys):
    output = tmp_path / "elasticity.md"
    words = ["--train", "12", "--test", "4", "--budgets", "1", "--seeds", "2", "--grid", "21", "--draw-points", "64"]
    assert main(["elasticity", *words, "--output", str(output)]) == 0
    numbers = json.loads(output.with_suffix(".json").read_text())
    assert set(numbers) == {"mean field", "POD + ridge", "POD + GPR", "LaMO, 1 s, seed 0", "LaMO, 1 s, seed 1"}
    table = capsys.readouterr().out
    assert "12 training and 4 test samples" in table
    there_and_back = float(table.split("to the grid and back | ")[1].split(" ")[0])
    # Nothing on the grid can be better than the grid itself.
    assert 0 < there_and_back < min(numbers[name]["error"] for name in ("mean field", "POD + ridge", "POD + GPR"))
