"""The measurement of a training step: one row for each implementation, run as asked."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from benchmarks import _training_step as step
from benchmarks.__main__ import main
from benchmarks._report import read_report
from skop.exceptions import FieldDataError


@pytest.mark.exhaustive
def test_each_backend_is_measured(tmp_path, capsys):
    output = tmp_path / "step.md"
    words = ["training-step", "--network", "default", "--resolution", "6", "--batch", "2", "--repeats", "1"]
    assert main([*words, "--output", str(output)]) == 0
    numbers = read_report(output)[0]
    assert [found["backend"] for found in numbers.values()] == ["torch", "numba"]
    assert all(found["seconds"] > 0 and found["megabytes"] >= 0 for found in numbers.values())
    assert "| lamo | default | 2 x 6 x 6 | 1 | numba |" in capsys.readouterr().out


@pytest.fixture
def in_a_thread(monkeypatch):
    """A thread in place of each process, which takes seconds to start: memory and backend are those of the tests."""
    monkeypatch.setattr(step, "ProcessPoolExecutor", lambda count, env: ThreadPoolExecutor(count))
    monkeypatch.setenv("SKOP_BACKEND", "torch")


@pytest.mark.exhaustive
def test_each_operator_and_size_is_measured(in_a_thread, capsys):
    # Operators whose published networks run no scans in plain torch, whose profiles take ten times as long to evaluate.
    words = ["training-step", "--operators", "amo", "mno", "--hosts", "oformer", "--mixers", "linear"]
    assert main([*words, "--resolution", "6", "10", "--backends", "torch", "--batch", "2", "--repeats", "1"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "| darcy |" in line]
    found = [tuple(row.split(" | ")[part].strip("| ") for part in (0, 2)) for row in rows]
    # Once with the time of a step, and once with its shares.
    names = ("amo", "mno oformer linear")
    assert found == 2 * [(name, f"2 x {size} x {size}") for name in names for size in (6, 10)]


@pytest.mark.exhaustive
def test_mno_grows_by_host_and_mixer_and_large_softmax_is_left_out(in_a_thread, tmp_path):
    output = tmp_path / "step.md"
    words = ["--operators", "mno", "--hosts", "gnot", "--mixers", "softmax", "linear"]
    words += ["--network", "default", "--points", "16", "64", "--batch", "1", "--backends", "torch", "--repeats", "1"]
    words += ["--softmax-points", "20", "--output", str(output)]
    assert main(["training-step", *words]) == 0
    times, shares = output.read_text().split("Shares of a step")
    rows = [line.split(" | ") for line in times.splitlines() if line.startswith("| mno")]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (f"| mno gnot {mixer}", "default", size)
        for mixer in ("softmax", "linear")
        for size in ("1 x 4 x 4", "1 x 8 x 8")
    ]
    assert [bool(row[7]) for row in rows] == [False, False, False, True]  # growth
    assert rows[1][5] == "not run: more than 20 points"
    assert shares.count("| mno") == 3
    numbers = read_report(output)[0]
    assert numbers["mno gnot softmax, default, 1 x 8 x 8, torch, 1 threads"] == {"not run": "more than 20 points"}


def options(**given):
    """Options of the command as they are parsed, with some set."""
    parser = argparse.ArgumentParser()
    step.add_command(parser.add_subparsers())
    return argparse.Namespace(**vars(parser.parse_args(["training-step"])) | given)


def test_steps_are_those_asked_for():
    found = step._steps(options())
    assert [(size, one.operator, one.parts, one.preset, one.channels, one.backend) for size, one in found] == [
        (85, "lamo", {}, "darcy", 1, "torch"),
        (85, "lamo", {}, "darcy", 1, "numba"),
    ]
    found = step._steps(options(operators=["mno"], hosts=["gnot"], network="default", points=[1024]))
    # Attention has no scans, and is measured once.
    assert [(size, one.name, one.preset, one.backend) for size, one in found] == [
        (32, "mno gnot linear", None, "torch"),
        (32, "mno gnot softmax", None, "torch"),
        (32, "mno gnot mamba", None, "torch"),
        (32, "mno gnot mamba", None, "numba"),
    ]
    # AMO has none either.
    found = step._steps(options(operators=["amo"]))
    assert [(size, one.name, one.preset, one.backend) for size, one in found] == [(85, "amo", "darcy", "torch")]


def test_growth_is_that_for_four_times_the_points():
    before = 16, {"seconds": 2.0, "megabytes": 3000.0}
    assert step._growth(64, {"seconds": 32.0}, before) == "4.0"  # 16 times the points take 16 times as long
    assert step._growth(32, {"seconds": 32.0}, before) == "16.0"
    assert step._growth(32, {"seconds": 32.0}, None) == step._growth(16, {"seconds": 32.0}, before) == ""


def test_shares_are_those_between_the_first_and_the_last_update():
    def event(name, start, end, own, parent=None):
        time_range = SimpleNamespace(start=start, end=end)
        return SimpleNamespace(name=name, time_range=time_range, self_cpu_time_total=own, cpu_parent=parent)

    first, last = event("Optimizer.step#Muon.step", 0, 10, 5), event("Optimizer.step#Muon.step", 100, 110, 4)
    inner = event("Optimizer.step#AdamW.step", 104, 108, 1, last)
    events = [first, last, inner, event("aten::bmm", 1, 6, 5, first), event("aten::bmm", 105, 108, 3, inner)]
    events += [event("aten::addmm", 20, 45, 25), event("_KernelBackward", 50, 60, 10), event("aten::mul", 60, 70, 8)]
    events += [event("aten::mkldnn_convolution", 70, 72, 2), event("aten::mm", 120, 130, 10)]
    found = step._shares(events)
    assert found.pop("rest") == pytest.approx(0.47)
    assert found == {
        "matrix products": 0.25,
        "scans": 0.1,
        "convolutions": 0.02,
        "normalisation": 0.0,
        "other passes": 0.08,
        "optimiser": 0.08,
    }


def test_what_would_take_too_much_is_left_out():
    (_, linear), (_, softmax), *_ = step._steps(options(operators=["mno"], hosts=["gnot"]))
    before = 16, {"seconds": 2.0, "megabytes": 3000.0}
    reasons = [step._reason_not_to_run(linear, size, before, options(gigabytes=15.0)) for size in (32, 64)]
    assert reasons == ["", "about 48 GB expected"]
    assert step._reason_not_to_run(linear, 256, None, options()) == ""
    assert step._reason_not_to_run(softmax, 128, None, options()) == ""
    assert step._reason_not_to_run(softmax, 256, None, options()) == "more than 16,384 points"


def test_options_that_cannot_be_used_are_refused_before_anything_is_measured():
    with pytest.raises(FieldDataError, match="--points 1000 are not those of a square grid"):
        step._steps(options(points=[1000]))
    with pytest.raises(FieldDataError, match=r"mno has no preset 'navier_stokes' here; choose from \['darcy'\]"):
        step._steps(options(operators=["mno"], presets=["navier_stokes"]))
