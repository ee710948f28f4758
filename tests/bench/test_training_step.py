"""The measurement of a training step: one row for each implementation, run as asked."""

import json

import pytest

from skop.bench.__main__ import main


@pytest.mark.exhaustive
def test_each_backend_is_measured(tmp_path, capsys):
    output = tmp_path / "step.md"
    words = ["training-step", "--resolution", "12", "--batch", "2", "--repeats", "2", "--output", str(output)]
    assert main(words) == 0
    numbers = json.loads(output.with_suffix(".json").read_text())
    assert [found["backend"] for found in numbers.values()] == ["torch", "numba"]
    assert all(found["seconds"] > 0 and found["megabytes"] >= 0 for found in numbers.values())
    assert "| lamo | darcy | 2 x 12 x 12 | 1 | numba |" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_each_operator_and_size_is_measured(capsys):
    words = ["training-step", "--operators", "lamo", "geomano", "--resolution", "6", "10", "--backends", "numba"]
    assert main([*words, "--batch", "2", "--repeats", "1"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "| darcy |" in line]
    found = [tuple(row.split(" | ")[part].strip("| ") for part in (0, 2)) for row in rows]
    assert found == [(name, f"2 x {size} x {size}") for name in ("lamo", "geomano") for size in (6, 10)]
