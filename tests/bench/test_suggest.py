"""The measurement of suggested runs: its choices differ, begin alike, and the space-filling one is as defined."""

import numpy as np
import pytest

from benchmarks import _suggest
from benchmarks.__main__ import main
from benchmarks._report import read_report


def test_a_space_filling_choice_is_the_farthest_each_time():
    rng = np.random.default_rng(0)
    points, rows = rng.random((30, 2)), np.arange(5)
    rest = np.arange(5, 30)
    chosen = _suggest._space_filling(points, rows, rest, 6)
    assert len(set(chosen)) == 6
    for number, place in enumerate(chosen):
        there = points[[*rows, *rest[chosen[:number]]]]
        distances = np.linalg.norm(points[rest][:, np.newaxis] - there, axis=-1).min(axis=1)
        assert distances[place] == distances.max()


@pytest.mark.exhaustive
def test_a_whole_run_writes_its_tables(tmp_path, capsys):
    output = tmp_path / "result.md"
    sizes = ["--pool", "24", "--test", "6", "--start", "8", "--batch", "4", "--end", "16"]
    words = ["--problems", "hole", "burgers-16", "--seeds", "1", *sizes]
    assert main(["suggest", *words, "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert sorted(numbers) == ["burgers-16, pod, seed 0", "hole, pod, seed 0"]
    for errors in numbers.values():
        assert list(errors) == list(_suggest._CHOICES)
        curves = np.array(list(errors.values()))
        assert curves.shape == (4, 3)
        assert np.isfinite(curves).all()
        assert (curves[:, 0] == curves[0, 0]).all()
        assert len(np.unique(curves[:, 1])) > 1
    assert "space-filling" in capsys.readouterr().out


def test_sizes_that_do_not_fit_are_refused(capsys):
    assert main(["suggest", "--start", "20", "--end", "55"]) == 2
    assert "--batch 10" in capsys.readouterr().err
