"""The measurement of the scans: what is timed is right, what is wrong has no time, and bounds follow the sizes."""

import os
import time
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch

import skop.ops
from benchmarks import _kernel_peers, _kernel_runs, _kernels
from benchmarks.__main__ import main
from benchmarks._kernel_peers import IMPLEMENTATIONS, Implementation
from benchmarks._kernel_runs import Settings, in_new_process, probe, write_reference
from benchmarks._kernel_shapes import CASES, OPERATIONS, Rates, bound, function_name, make_problem, scaling_case
from benchmarks._report import read_report

SETTINGS = Settings("cpu", torch.float32, threads=1, repeats=1, limit=30.0)
KINDS = {(case.op, case.extras): case for case in CASES}.values()
SCAN = next(case for case in CASES if case.op == "selective_scan").small()
GREED = 64 * 2**20


def load_wrong(op):
    """A scan that is off by a thousandth."""
    function = getattr(skop.ops, function_name(op))
    return lambda x, **rest: function(x * 1.001, backend="torch", **rest)


def load_undefined(op):
    """A scan with one gradient that is NaN."""
    function = getattr(skop.ops, function_name(op))
    return lambda A, **rest: function(A=A + 0 * torch.sqrt(A - A), backend="torch", **rest)


def load_greedy(op):
    """A scan that takes more memory than it needs."""
    function = getattr(skop.ops, function_name(op))
    return lambda x, **rest: torch.ones(GREED // 4)[0] * function(x, backend="torch", **rest)


def load_slow(op):
    """A scan that takes more than a second."""

    def scan(**arguments):
        time.sleep(1.1)
        return getattr(skop.ops, function_name(op))(**arguments, backend="torch")

    return scan


def load_broken(op):
    """No scan at all."""
    raise ImportError("a|b")


def run_exactly(function, case):
    """Results of both passes in float64."""
    return _kernel_runs._run_once(function, make_problem(case, "cpu", torch.float64)).results


def naive(case):
    """Reference results of both passes in float64."""
    return run_exactly(lambda **rest: getattr(skop.ops, function_name(case.op))(**rest, backend="naive"), case)


def assert_close(found, expected):
    """Compare y and every gradient."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert (found[name] - value).norm() <= 1e-10 * value.norm(), name


def test_what_is_timed_is_right():
    for case in KINDS:
        case = case.small()
        expected = naive(case)
        timed = {one.name: one for one in IMPLEMENTATIONS if one.takes(case, "cpu")}
        assert {"skop numba", "skop torch", "naive loop"} <= set(timed)
        assert_close(run_exactly(timed["skop torch"].load(case.op), case), expected)


@pytest.mark.parametrize("one", [one for one in IMPLEMENTATIONS if one.package], ids=lambda one: one.name)
def test_peers_are_right(one):
    if find_spec(one.package) is None or "cpu" not in one.devices:
        pytest.skip(f"{one.package} is not installed, or this is for a GPU.")
    for case in KINDS:
        if one.takes(case, "cpu"):
            problem = make_problem(case.small(), "cpu", torch.float32)
            found = _kernel_runs._run_once(one.load(case.op), problem).results
            for name, value in naive(case.small()).items():
                assert (found[name] - value).norm() <= 1e-5 * value.norm(), name


def test_chunked_forms_are_right_beyond_a_chunk_of_chunks():
    for op in OPERATIONS:
        case = next(case for case in CASES if case.op == op and not case.extras).small()
        case = replace(case, grid=(3, 21) if op.endswith("2d") else (23, 13), batch=1)
        forms = _kernel_peers._s6_forms(_kernel_peers._scan_by_chunks)
        forms |= _kernel_peers._ssd_forms(_kernel_peers._ssd_by_chunks)
        assert_close(run_exactly(forms[op], case), naive(case))


@pytest.mark.exhaustive
def test_a_report_has_all_columns(tmp_path, capsys):
    output = tmp_path / "kernels.md"
    words = ["--quick", "--ops", "selective_path_scan", "--shapes", "main", "--repeats", "2"]
    words += ["--only", "skop torch", "naive loop", "--output", str(output)]
    assert main(["kernels", *words]) == 0
    text = output.read_text()
    columns = ("ms", "forward", "backward", "time / skop torch", "of the roofline", "memory / x", "largest error of a")
    assert all(f"| {column}" in text for column in columns)
    assert "float64, token by token" in text
    assert "x, which counts for each of 4 paths" in text
    assert "memory allocator" in text
    assert "multiply-adds a second" in text
    numbers = read_report(output)[0]
    row = numbers["selective_path_scan, main, 1 thread, naive loop"]
    assert set(row["errors"]) == {"y", "x", "dt", "A", "B", "C", "D", "dt_bias"}
    assert 0 < row["forward"] < row["seconds"]
    assert row["calls"] == 2
    assert "| naive loop |" in capsys.readouterr().out


def in_this_process(seconds, function, *arguments):
    """What a new process would send; to start one and to import all that it needs takes seconds."""
    sent = []
    _kernel_runs._answer(SimpleNamespace(send=sent.append), function, arguments)
    return sent[0]


@pytest.fixture
def one_process(monkeypatch):
    """All work in the process of the tests, with its limits of memory and threads, on a machine of known rates."""
    monkeypatch.setattr(_kernels, "in_new_process", in_this_process)
    monkeypatch.setattr(_kernels, "machine_rates", lambda settings: Rates(1e9, 1e10))
    monkeypatch.setattr(_kernel_runs, "_prepare", lambda settings: None)


@pytest.mark.exhaustive
def test_times_are_followed_over_the_length(one_process, tmp_path):
    output = tmp_path / "kernels.md"
    words = ["--quick", "--scaling", "--shapes", "--ops", "ssd_scan", "--repeats", "1", "--only", "skop torch"]
    assert main(["kernels", *words, "--output", str(output)]) == 0
    rows = [line.split("|")[1:-1] for line in output.read_text().splitlines() if line.startswith(("| 16 ", "| 64 "))]
    assert [row[0].strip() for row in rows] == ["16", "64"]
    assert not rows[0][2].strip()
    assert float(rows[1][2]) == pytest.approx(float(rows[1][1]) / float(rows[0][1]), rel=0.05)


@pytest.mark.exhaustive
def test_what_is_wrong_or_broken_has_no_time(one_process, tmp_path, monkeypatch):
    output = tmp_path / "kernels.md"
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    injected = (Implementation("wrong", load_wrong), Implementation("broken", load_broken))
    injected += (Implementation("undefined", load_undefined),)
    monkeypatch.setattr(_kernel_peers, "IMPLEMENTATIONS", injected)
    words = ["--quick", "--ops", "selective_scan", "--shapes", "main", "--output", str(output)]
    assert main(["kernels", *words]) == 0
    text = output.read_text()
    assert "| wrong | error 1e-03 |  |  |  |  |" in text
    assert "| broken | ImportError: a/b |" in text
    assert "| undefined | error nan |" in text
    assert "| nan (A) |" in text
    assert "| memory allocator | MALLOC_ARENA_MAX=7 |" in text
    numbers = read_report(output)[0]
    assert "seconds" not in numbers["selective_scan, main, 1 thread, wrong"]
    assert main(["kernels", *words, "--only", "wrong", "--bound", "0.01", "--repeats", "1"]) == 0
    assert "error 1e-03" not in output.read_text()
    assert "seconds" in read_report(output)[0]["selective_scan, main, 1 thread, wrong"]


@pytest.mark.exhaustive
def test_what_is_slow_runs_once(one_process, tmp_path, monkeypatch):
    output = tmp_path / "kernels.md"
    monkeypatch.setattr(_kernel_peers, "IMPLEMENTATIONS", (Implementation("slow", load_slow),))
    words = ["--quick", "--ops", "selective_scan", "--shapes", "main", "--limit", "1", "--output", str(output)]
    assert main(["kernels", *words]) == 0
    assert "(one call)" in output.read_text()
    numbers = read_report(output)[0]["selective_scan, main, 1 thread, slow"]
    assert numbers["calls"] == 1
    assert numbers["forward"] > 1


@pytest.mark.parametrize("op", ["selective_scan", "ssd_scan"])
def test_the_reference_of_long_sequences_is_right(op, tmp_path, monkeypatch):
    case, path = scaling_case(op, 100), tmp_path / "reference.pt"
    monkeypatch.setattr(_kernel_runs, "_SEGMENT", 32)
    monkeypatch.setattr(_kernel_runs, "_prepare", lambda settings: None)
    assert write_reference(case, SETTINGS._replace(dtype=torch.float64), path) == "token by token"
    assert_close(torch.load(path), naive(case))


def fail(*arguments):
    """Stand in for a reference that the machine has no memory for."""
    raise MemoryError("too much")


@pytest.mark.exhaustive
def test_without_a_reference_there_are_no_times(one_process, tmp_path, monkeypatch):
    output = tmp_path / "kernels.md"
    monkeypatch.setattr(_kernels, "write_reference", fail)
    words = ["--quick", "--ops", "selective_scan", "--shapes", "main", "--only", "skop torch"]
    assert main(["kernels", *words, "--output", str(output)]) == 0
    assert "| skop torch | no reference, MemoryError: too much |" in output.read_text()


@pytest.mark.exhaustive
def test_memory_is_what_a_call_takes(tmp_path):
    reference = tmp_path / "reference.pt"
    assert in_new_process(60.0, write_reference, SCAN, SETTINGS, reference) == "token by token"
    found = in_new_process(60.0, probe, Implementation("greedy", load_greedy), SCAN, SETTINGS, reference)
    assert 0.95 * GREED < found["bytes"] < 1.2 * GREED
    assert max(found["errors"].values()) < 1e-5


@pytest.mark.exhaustive
def test_processes_end_when_told_to():
    began = time.monotonic()
    assert in_new_process(0.5, time.sleep, 600.0) == {"failed": "over 0.5 s"}
    assert in_new_process(60.0, os._exit, 1) == {"failed": "the process died"}
    assert in_new_process(60.0, divmod, 1, 0)["failed"].startswith("ZeroDivisionError: ")
    assert time.monotonic() - began < 300


def threads_are_left():
    """Whether kernels may still use threads."""
    return not import_module("skop.ops._threads")._is_forked


@pytest.mark.exhaustive
def test_processes_can_use_threads():
    assert in_new_process(60.0, threads_are_left) is True


@pytest.mark.parametrize("op", ["selective_scan", "ssd_scan"])
def test_bounds_are_linear_in_the_length(op):
    rates = Rates(1e11, 2e10)
    for rate in (rates, rates._replace(copied=1e5)):
        short, long = (bound(scaling_case(op, length), torch.float32, rate) for length in (1000, 4000))
        assert long == pytest.approx([4 * seconds for seconds in short])


def test_a_bound_is_the_slower_of_arithmetic_and_copies():
    case = scaling_case("selective_scan", 1000)
    states, token = 1000 * 64 * 16, 64 + 64 + 16 + 16
    quick = 1e30
    assert bound(case, torch.float32, Rates(1e9, quick)) == pytest.approx((15e-9 * states, 22e-9 * states))
    forward, backward = bound(case, torch.float32, Rates(quick, 1e9))
    assert forward == pytest.approx(4e-9 * 1000 * (token + 64))
    assert backward == pytest.approx(4e-9 * 1000 * (2 * token + 64))
    # Half of the bytes of all but the steps.
    assert bound(case, torch.bfloat16, Rates(quick, 1e9))[0] == pytest.approx(2e-9 * 1000 * (token + 64 + 64))


def test_each_path_counts():
    one, four = (
        replace(next(case for case in CASES if case.op == "ssd_path_scan"), paths=paths).n_states for paths in (2, 8)
    )
    assert four == 4 * one


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ops", "ssd_path_scan", "--shapes", "long"], "problem named long"),
        (["--ops", "selective_scan_2d", "--shapes", "--scaling"], "has a problem"),
        (["--threads", "1", "0"], "at least 1"),
        pytest.param(
            ["--device", "cuda"],
            "torch finds none",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is"),
        ),
    ],
)
def test_what_cannot_be_measured_is_said(words, message, capsys):
    assert main(["kernels", *words]) == 2
    assert message in capsys.readouterr().err


def test_unknown_words_are_refused():
    for words in [["--ops", "attention"], ["--shapes", "tiny"], ["--dtype", "int8"], ["--only", "x"]]:
        with pytest.raises(SystemExit):
            main(["kernels", *words])
