"""European options: every model and limit has its row, and the network of points learns what it is given."""

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks._european_option import _MLP, PointPerceptron
from benchmarks._models import classical_models
from benchmarks._report import read_report
from skop.datasets import make_european_option
from skop.metrics import relative_l2_error

SMALL = ["--resolution", "8", "--train", "12", "--test", "4", "--seeds", "2"]


@pytest.mark.exhaustive
def test_every_model_has_a_row_for_each_limit(tmp_path):
    output = tmp_path / "options.md"
    assert main(["european-option", *SMALL, "--budgets", "0.1", "0.2", "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    classical = list(classical_models())
    trained = [f"{name}, {budget} s" for budget in ("0.1", "0.2") for name in (_MLP, "LaMO", "AMO")]
    assert list(numbers) == [*classical, *(f"{name}, seed {seed}" for name in trained for seed in range(2))]
    assert all(np.isfinite(found["error"]) for found in numbers.values())
    rows = [line.strip("| ").split(" | ") for line in output.read_text().splitlines() if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == [*classical, *trained]
    # The paper has LaMO and AMO only.
    assert [row[-1].strip(" |") for row in rows[-3:]][1:] == ["0.0008", "0.0006"]


@pytest.mark.exhaustive
def test_the_network_of_points_learns_from_parameters_and_places():
    X, y = make_european_option(40, resolution=8, random_state=0)
    model = PointPerceptron(1.5, 0, width=32, depth=2).fit(X[:32], y[:32])
    # The mean surface has an error of about 1. The limits leave room for a busy machine.
    assert relative_l2_error(y[32:], model.predict(X[32:])) < 0.6
    assert relative_l2_error(y[32:], model.predict(X[32:][::-1])) > 0.7
    assert model.module_[0].in_features == 8
    assert model.n_iter_ > 0
