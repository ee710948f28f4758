"""The measurement of large predictions: sizes, memory and slopes are reported."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks import _point_scaling as point_scaling
from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop.parts import LatentAttention


@pytest.mark.exhaustive
def test_each_size_is_measured(tmp_path, capsys):
    output = tmp_path / "points.md"
    assert main(["point-scaling", "--sizes", "200", "2000", "--repeats", "1", "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert set(numbers) == {"200 points", "2000 points"}
    assert all(found["seconds"] > 0 and found["megabytes"] >= 0 for found in numbers.values())
    assert "slope from the row above" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_training_and_other_models_have_tables_of_their_own(tmp_path, monkeypatch):
    # Threads in place of processes, which take seconds to start: the memory is then that of the tests.
    monkeypatch.setattr(point_scaling, "ProcessPoolExecutor", ThreadPoolExecutor)
    output = tmp_path / "points.md"
    words = ["--models", "lamo", "amo-once", "--sizes", "100", "--dimensions", "2", "--repeats", "1", "--steps", "1"]
    assert main(["point-scaling", *words, "--batch", "2", "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    names = [point_scaling._MODELS[kind][0] for kind in ("lamo", "amo-once")]
    assert set(numbers) == {f"{name}: {what}100 points" for name in names for what in ("", "training, ")}
    assert output.read_text().count("## ") == 4
    # The time of a step on two samples of 100 points, in microseconds a point.
    step = numbers["LaMO: training, 100 points"]["seconds"]
    assert f"| 100 | {step:.2f} s | {1e6 * step / 200:.2f} |" in output.read_text()


def test_the_models_with_latent_tokens_are_those_named():
    once = point_scaling._make("amo-once", batch_size=3)
    assert (type(once.latents), once.latents.n_tokens, once.batch_size) == (LatentAttention, 64, 3)
    assert point_scaling._make("amo").latents is None
