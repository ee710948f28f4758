"""Threads of compiled kernels: how many run, which ones, and what becomes of torch's own."""

import ctypes
import sys
import threading
import time

import pytest
import torch

from skop.ops import _threads
from skop.ops._threads import run_on_threads


@pytest.fixture(params=["openmp", "pool"], autouse=True)
def _kind(request, monkeypatch):
    """Run on torch's threads, and on Python's as where torch's cannot be reached."""
    if request.param == "pool":
        monkeypatch.setattr(_threads, "gnu_parallel", lambda: None)
    elif _threads.gnu_parallel() is None:
        pytest.skip("torch was not built with an OpenMP that can be called")


@pytest.fixture(autouse=True)
def _torch_threads():
    """Give back torch's number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def run(function, count, argument=0):
    """Call a Python function on threads."""
    compiled = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)
    run_on_threads(ctypes.cast(compiled, ctypes.c_void_p).value, argument, count)


def test_so_many_calls_get_the_argument():
    for count in (1, 2, 3, 5):
        seen = []
        run(seen.append, count, 1234)
        assert seen == [1234] * count


def test_calls_run_at_the_same_time():
    barrier = threading.Barrier(3, timeout=30)
    run(lambda _: barrier.wait(), 3)
    assert not barrier.broken


def test_one_call_runs_in_the_calling_thread():
    seen = []
    run(lambda _: seen.append(threading.get_ident()), 1)
    assert seen == [threading.get_ident()]


def test_a_forked_process_runs_one_call_in_the_calling_thread(monkeypatch):
    monkeypatch.setattr(_threads, "_is_forked", True)
    seen = []
    run(lambda _: seen.append(threading.get_ident()), 4)
    assert seen == [threading.get_ident()]


def test_it_returns_when_all_calls_have_ended():
    done, order = [], iter(range(3))

    def work(_):
        time.sleep(0.05 * next(order))
        done.append(None)

    run(work, 3)
    assert len(done) == 3


def test_python_threads_may_call_at_once():
    seen = {name: [] for name in (1, 2, 3)}
    callers = [threading.Thread(target=lambda n=name: [run(seen[n].append, 2, n) for _ in range(20)]) for name in seen]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert seen == {name: [name] * 40 for name in seen}


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_keeps_its_threads(threads):
    torch.set_num_threads(threads)
    values = torch.rand(2**17, dtype=torch.float64)  # enough for torch to share
    expected = values.sort().values
    run(lambda _: None, 4)
    assert torch.get_num_threads() == threads
    assert torch.equal(values.sort().values, expected)
    assert torch.isfinite(values.exp().sum())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads what Linux says of loaded libraries")
def test_no_second_openmp_is_loaded():
    run(lambda _: None, 2)
    with open("/proc/self/maps") as lines:
        libraries = {line.split()[-1] for line in lines if "gomp" in line}
    torchs = {path for path in libraries if "torch" in path}
    assert len(torchs) <= 1
    # Others, such as scikit-learn's, bring their own; none comes from outside of packages for Python.
    assert all("site-packages" in path for path in libraries)
