"""How torch's idle threads wait, and that a user's own settings about that stay."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from skop import _threads
from skop._threads import considerate_waiting

PROGRAM = """
import json, os, sys
seen = {}
class Watch:
    def find_spec(self, name, *rest):
        if name == "torch":
            seen["KMP_BLOCKTIME"] = os.environ.get("KMP_BLOCKTIME")
sys.meta_path.insert(0, Watch())
if "first" in sys.argv:
    # What it holds does not matter, and the import of the real one takes seconds.
    sys.modules["torch"] = type(sys)("torch")
else:
    from skop import LaMORegressor
import skop._threads
print(json.dumps([seen, os.environ.get("KMP_BLOCKTIME"), skop._threads.import_torch(), skop._threads._is_set_by_user]))
"""
NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def run(*words, **variables):
    """What torch saw when it was imported, and what the process has afterwards."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES} | variables
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_torch_is_imported_with_threads_that_sleep_and_the_variable_does_not_stay():
    assert run() == [{"KMP_BLOCKTIME": "0"}, None, False, False]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES[:3])
def test_a_users_setting_stays(name):
    seen, after, _, is_set = run(**{name: "7"})
    assert seen["KMP_BLOCKTIME"] == after == ("7" if name == "KMP_BLOCKTIME" else None)
    assert is_set


def test_a_torch_that_is_there_already_is_left_alone():
    assert run("first") == [{}, None, False, False]


# ---------------------------------------------------------------- while others need the cores
@pytest.fixture
def others(monkeypatch):
    """Cores that other programs use, as far as the watch knows; it looks often."""
    if _threads.gnu_parallel() is None or not _threads._STATISTICS.exists():
        pytest.skip("needs GNU's OpenMP, and a system that counts what its cores do")
    used = [0.0]
    monkeypatch.setattr(_threads, "_is_set_by_user", False)
    monkeypatch.setattr(_threads, "_PERIOD", 0.01)
    monkeypatch.setattr(_threads, "_others", lambda before, now: used[0])
    return used


def os_threads():
    return {path.name for path in Path("/proc/self/task").iterdir()}


def test_idle_threads_come_and_go_with_the_need_of_others(others):
    n_cores, before = len(os.sched_getaffinity(0)), os_threads()

    def expect_threads(fits):
        """Wait until the number of threads that were not there before fits; those of other tests may end meanwhile."""
        end = time.monotonic() + 30
        while not fits(len(os_threads() - before)):
            assert time.monotonic() < end, os_threads() - before
            time.sleep(0.01)

    with considerate_waiting(n_cores):
        expect_threads(lambda count: count == 1)  # the watch alone
        others[0] = 1.0
        expect_threads(lambda count: count > n_cores)
        others[0] = 0.0
        expect_threads(lambda count: count == 1)
        others[0] = 1.0
        expect_threads(lambda count: count > n_cores)
    expect_threads(lambda count: count == 0)


def test_a_single_thread_is_not_watched(others):
    with considerate_waiting(1):
        assert not any(thread.name == "skop-cores" for thread in threading.enumerate())


def test_blocks_that_overlap_share_one_watch(others):
    def names():
        return [thread.name for thread in threading.enumerate()].count("skop-cores")

    with considerate_waiting(2):
        with considerate_waiting(2):
            assert names() == 1
        assert names() == 1
    assert names() == 0


def test_a_busy_program_is_seen_and_ones_own_work_is_not():
    if not _threads._STATISTICS.exists():
        pytest.skip("needs a system that counts what its cores do")
    (cores, *_), seconds = os.sched_getaffinity(0), 1.0
    before = _threads._seconds()
    with subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{cores}])\nwhile True: pass"]
    ) as busy:
        time.sleep(seconds)
        now = _threads._seconds()
        busy.kill()
    assert _threads._others(before, now) > 0.3
    assert _threads._others((0.0, 5.0, 2.0), (2.0, 9.0, 6.0)) == 0.0
    assert _threads._others((0.0, 5.0, 2.0), (2.0, 9.0, 3.0)) == 1.5


def test_results_do_not_depend_on_how_threads_wait(others):
    values = torch.randn(3, 200_000, generator=torch.Generator().manual_seed(0))
    expected = values.sum(1)
    others[0] = 1.0
    with considerate_waiting(2):
        time.sleep(0.1)
        assert torch.equal(values.sum(1), expected)
