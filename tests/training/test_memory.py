"""Freed memory is kept within a block, and given back after it."""

import subprocess
import sys
import threading

import pytest

from skop.training import _memory, freed_memory_kept

linux = pytest.mark.skipif(_memory._glibc() is None, reason="needs glibc")

PROGRAM = """
import resource
import numpy as np
from skop.training import freed_memory_kept

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        arrays = [np.ones(2**21) for _ in range(3)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

outside = faults()
with freed_memory_kept():
    faults()
    inside = faults()
    kept = resident()
print(outside, inside, kept, resident())
"""


@linux
def test_pages_are_reused_within_the_block_and_given_back_after_it():
    words = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    outside, inside, kept, left = map(int, words.split())
    assert inside < outside / 20
    assert left < kept - 2**24


class FakeLibrary:
    def __init__(self):
        self.calls = []

    def mallopt(self, name, value):
        self.calls.append((name, value))

    def malloc_trim(self, pad):
        self.calls.append("trim")


@pytest.fixture
def library(monkeypatch):
    fake = FakeLibrary()
    monkeypatch.setattr(_memory, "_glibc", lambda: fake)
    return fake


def test_blocks_share_one_setting(library):
    inner_done = threading.Event()

    def other():
        with freed_memory_kept():
            pass
        inner_done.set()

    with freed_memory_kept():
        opened = len(library.calls)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert inner_done.is_set()
        assert len(library.calls) == opened
    assert library.calls[-1] == "trim"
    assert library.calls.count("trim") == 1


def test_an_error_restores_the_setting(library):
    with pytest.raises(RuntimeError, match="within"), freed_memory_kept():
        raise RuntimeError("within")
    assert library.calls[-1] == "trim"


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(_memory, "_glibc", lambda: None)
    with freed_memory_kept():
        pass
