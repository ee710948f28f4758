"""The measurement of large predictions: sizes, memory and slopes are reported."""

import json

import pytest

from skop.bench.__main__ import main


@pytest.mark.exhaustive
def test_each_size_is_measured(tmp_path, capsys):
    output = tmp_path / "points.md"
    assert main(["point-scaling", "--sizes", "200", "2000", "--repeats", "1", "--output", str(output)]) == 0
    numbers = json.loads(output.with_suffix(".json").read_text())
    assert set(numbers) == {"200 points", "2000 points"}
    assert all(found["seconds"] > 0 and found["megabytes"] >= 0 for found in numbers.values())
    assert "slope from the row above" in capsys.readouterr().out
