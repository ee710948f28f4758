"""The measurement of rollouts: every model and step is there, and errors are those of the definition."""

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks._navier_stokes import _errors
from benchmarks._report import read_report


def test_errors_by_hand():
    truth = np.array([[[3.0, 0.0], [4.0, 2.0]]])  # one sample, two points, two frames
    predicted = truth + np.array([[[0.0, 1.0], [5.0, 0.0]]])
    np.testing.assert_allclose(_errors(predicted, truth), [np.sqrt(26 / 29), 1.0, 0.5])


@pytest.mark.exhaustive
def test_every_model_is_measured(tmp_path, capsys):
    output = tmp_path / "flow.md"
    words = ["--train", "4", "--test", "2", "--resolution", "8", "--solver-resolution", "16", "--budget", "1"]
    assert main(["navier-stokes", *words, "--noise", "0", "0.1", "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert set(numbers) == {"LaMO, 1 s, seed 0", "LaMO, 1 s, noise 0.1, seed 0"}
    assert all(len(found["errors"]) == 11 for found in numbers.values())
    table = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")] == [
        "model",
        "the last frame again",
        "POD + ridge",
        "LaMO, 1 s",
        "LaMO, 1 s, noise 0.1",
    ]
    assert float(table.split("the last frame again | ")[1].split(" ")[0]) == pytest.approx(1, abs=1)
