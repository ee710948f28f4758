"""Every read and write of the CPU kernels lies in its buffer: kernels compiled with bounds checks, in a process."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

SCANS = {
    "selective_scan": """
from skop.ops._selective import Arguments
from skop.ops.selective_scan._cpu import backward, forward
for channels, states, R, start in ((17, 3, None, normal(1, 2, 17, 3)), (40, 18, torch.rand(2, 40, 18), None)):
    x, dt = normal(1, 35, 1, channels), normal(1, 35, 2, channels)
    maps, rates, skips = normal(2, 1, 35, 2, states), -torch.rand(2, channels, states), normal(2, 2, channels)
    paths = torch.stack([torch.randperm(35) for _ in range(2)]).int()
    given = Arguments(x, dt, rates, *maps, *skips, R, start, paths, True)
    y, final, kept = forward(given, True)
    backward(given, kept, y, final)
""",
    "selective_scan_2d": """
from skop.ops._selective import Arguments
from skop.ops.selective_scan_2d._cpu import backward, forward
for height, width, channels, states, R in ((5, 50, 17, 3, None), (23, 2, 40, 2, torch.rand(2, 40, 2))):
    x, dt = normal(1, height, width, 1, channels), normal(1, height, width, 2, channels)
    maps, rates = normal(2, 1, height, width, 2, states), -torch.rand(2, channels, states)
    given = Arguments(x, dt, rates, *maps, *normal(2, 2, channels), R, None, ((2, 1), (-1, 2)), True)
    y, _, kept = forward(given, True)
    backward(given, kept, y, None)
""",
    "ssd_scan": """
from skop.ops.ssd_scan._cpu import backward, forward
from skop.ops.ssd_scan._operation import Arguments
for length, heads, channels, states, own in ((70, 2, 17, 3, True), (33, 1, 16, 17, False)):
    x, dt = normal(1, length, 1, heads, channels), torch.rand(1, length, 2, heads)
    maps, start = normal(2, 1, length, 2 if own else 1, states), normal(1, 2, heads, channels, states)
    paths = torch.stack([torch.randperm(length) for _ in range(2)]).int()
    given = Arguments(x, dt, -torch.rand(2, heads), *maps, normal(2, heads, 1), start, paths)
    y, final, kept = forward(given, True)
    backward(given, kept, y, final)
""",
}

#: A kernel that reads, or writes, sixteen numbers of fifteen, or to what it may only read.
OFFENDERS = """
from types import SimpleNamespace
from numba import njit
from skop.ops import _simd
from skop.ops._cpu_tools import run_kernel

@njit
def read_vector(f):
    _simd.store(_simd.matrix(f, 4), 0, _simd.load(_simd.matrix(f, 3), 0))

@njit
def read_element(f):
    _simd.matrix(f, 4)[0] = _simd.matrix(f, 3)[15]

@njit
def write_vector(f):
    _simd.store_first(_simd.matrix(f, 4), 1, _simd.load(_simd.matrix(f, 4), 0), 16)

@njit
def write_input(f):
    _simd.matrix(f, 3)[0] = _simd.matrix(f, 4)[0]

places = SimpleNamespace(ITEMS=0, SCRATCH=1, SCRATCH_BYTES=2, SOURCE=3, TARGET=4, N_ARGUMENTS=5)
for kernel, words in (
    (read_vector, "read 64 bytes at byte 0 of SOURCE, which has 60"),
    (read_element, "read 4 bytes at byte 60 of SOURCE, which has 60"),
    (write_vector, "wrote 64 bytes at byte 4 of TARGET, which has 64"),
    (write_input, "wrote 4 bytes at byte 0 of SOURCE, which has 60"),
):
    values = {"SOURCE": torch.ones(15), "TARGET": torch.ones(16)}
    try:
        run_kernel(kernel, torch.float32, places, values, n_items=1, scratch_bytes=0, outputs=("TARGET",))
    except RuntimeError as error:
        assert words in str(error), error
    else:
        raise AssertionError(kernel)
"""


def run_checked(code):
    """Run code in a process whose kernels are checked."""
    begin = """
import torch
from skop.ops._simd_checks import CHECKS
assert CHECKS
def normal(*shape):
    return torch.randn(*shape)
"""
    environment = os.environ | {"SKOP_KERNEL_CHECKS": "1"}
    done = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
def test_kernels_stay_in_their_buffers():
    """All scans in one process, a third of whose time goes into its imports; the last name on stderr is at fault."""
    run_checked("import sys\n" + "".join(f"print({name!r}, file=sys.stderr)\n{code}" for name, code in SCANS.items()))


@pytest.mark.exhaustive
def test_accesses_outside_are_found():
    run_checked(OFFENDERS)
