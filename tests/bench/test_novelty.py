"""The measurement of novelty: its numbers against their definitions, and a run that goes on."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from benchmarks import _novelty
from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop import FieldSet, MeanFieldRegressor


def test_ranks_errors_and_sizes_follow_their_definitions():
    sign, error = np.random.default_rng(0).random((2, 30))
    expected = np.corrcoef(rankdata(sign), rankdata(error))[0, 1]
    assert _novelty._rank(sign, error) == pytest.approx(expected)
    assert _novelty._rank(np.ones(30), error) == 0
    true, found = np.random.default_rng(1).random((2, 4, 6, 1))
    errors = [np.sqrt(((b - a) ** 2).sum() / (a**2).sum()) for a, b in zip(true, found, strict=True)]
    np.testing.assert_allclose(_novelty.sample_errors(true, found), errors)
    sizes = [np.sqrt((b**2).sum() / (a**2).sum()) for a, b in zip(true, found, strict=True)]
    np.testing.assert_allclose(_novelty.sizes_of(FieldSet(np.zeros((6, 1)), found), true), sizes)


def test_the_nearest_sample_is_that_of_standardised_parameters():
    table = np.random.default_rng(2).random((20, 3)) * [1, 10, 100]
    model = MeanFieldRegressor().fit(table[:15], table[:15, 0])
    inputs = model._read_inputs(table)[0]
    scaled = table / table[:15].std(axis=0)
    expected = cdist(scaled[15:], scaled[:15]).min(axis=1)
    np.testing.assert_allclose(_novelty.nearest(model, inputs[:15], inputs[15:]), expected)


@pytest.mark.exhaustive
def test_a_run_writes_its_tables_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setitem(_novelty.PROBLEMS, "option", (_novelty._option, 40))
    path = tmp_path / "page.md"
    command = ["novelty", "--problems", "option", "--epochs", "1", "--test", "5", "--output", str(path)]
    assert main(command) == 0
    text, numbers = path.read_text(), read_report(path)[0]
    assert set(numbers) == {"option, LaMO", "option, POD"}
    assert text.count("| option, POD |") == 1 + 2 + 1
    assert all(-1 <= numbers[row]["all"][sign] <= 1 for row in numbers for sign in _novelty._SIGNS)
    monkeypatch.setattr(_novelty, "measure", None)
    assert main([*command, "--resume"]) == 0
    assert path.read_text().partition("##")[2] == text.partition("##")[2]
