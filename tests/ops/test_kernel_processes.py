"""CPU kernels in several processes and threads, from the cache on disk, and built for other processors."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import skop
from skop import _threads, exceptions
from skop.ops import _cpu_tools, _dispatch

#: A problem, as text since other processes run it as well: outputs and gradients from the seed alone.
PROBLEM = """
import torch
from skop.ops import selective_scan

def work(seed, backend="numba", dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    def normal(*shape):
        return torch.randn(shape, generator=generator).to(dtype)
    x, dt, rates, share = normal(2, 70, 40), normal(2, 70, 40), -normal(40, 3).square() - 0.1, normal(40, 3)
    leaves = [value.requires_grad_() for value in (x, dt, rates, *normal(2, 2, 70, 2, 3), normal(40), share)]
    y = selective_scan(*leaves[:-1], R=leaves[-1], dt_softplus=True, backend=backend)
    return [y.detach(), *torch.autograd.grad(y, leaves, normal(*y.shape))]
"""

#: What another processor would run: worst difference from the recurrence in float64, wide registers, kernels.
BUILD = (
    PROBLEM
    + """
from skop.ops import _cpu_tools

libraries, compile_kernel = [], _cpu_tools.compile_kernel

def keep(*arguments, **options):
    compiled = compile_kernel(*arguments, **options)
    libraries.append(compiled._library)
    return compiled

_cpu_tools.compile_kernel = keep
pairs = zip(work(0), work(0, "naive", torch.float64), strict=True)
print(max(float((value - true).norm() / true.norm()) for value, true in pairs))
print("zmm" in "".join(library.get_asm_str() for library in libraries), len(libraries))
"""
)

#: Passes of Numba's compiler that a process needs.
PASSES = (
    PROBLEM
    + """
from numba.core import event

with event.install_recorder("numba:run_pass") as recorder:
    work(0)
print(len(recorder.buffer))
"""
)

#: A kernel that is soon compiled, and a process that runs it.
TINY = """
from numba import int64, njit
from skop.ops._simd import address, exp2, load, pointer, store

@njit
def halve(numbers):
    own = pointer(pointer(address(numbers), int64)[0], numbers)
    store(own, 0, exp2(load(own, 0)))
"""
RUN_TINY = """
from types import SimpleNamespace
import torch
from skop.ops._cpu_tools import run_kernel
from skop.ops.tiny._cpu_tiny import halve
values, places = -torch.ones(16), SimpleNamespace(NUMBERS=0, ITEMS=1, SCRATCH=1, SCRATCH_BYTES=1, N_ARGUMENTS=2)
run_kernel(halve, torch.float32, places, {"NUMBERS": values}, n_items=1, scratch_bytes=0)
print(values.unique().item())
"""

#: The problem in workers of several kinds and in their parent: bits, and torch's number of threads before and after.
PARALLEL = (
    PROBLEM
    + """
import json
import multiprocessing

from joblib import Parallel, delayed

SEEDS = [0, 1, 2]

def report(seed):
    before = torch.get_num_threads()
    values = work(seed)
    return [[value.view(torch.int32).flatten().tolist() for value in values], before, torch.get_num_threads()]

def in_processes(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map_async(report, SEEDS).get(timeout=100)

def in_joblib(backend):
    return Parallel(n_jobs=2, backend=backend, timeout=100)(delayed(report)(seed) for seed in SEEDS)

if __name__ == "__main__":
    torch.set_num_threads(2)
    results = {"parent": [report(seed) for seed in SEEDS]}
    results |= {method: in_processes(method) for method in ("fork", "spawn")}
    results |= {backend: in_joblib(backend) for backend in ("loky", "threading")}
    results["parent afterwards"] = [report(seed) for seed in SEEDS]
    print(json.dumps(results))
"""
)


def run(code, *, script=None, folder=None, **environment):
    """Output of another process, in lines."""
    command = [sys.executable, "-c", code]
    if script is not None:
        script.write_text(code)
        command = [sys.executable, str(script)]
    path = str(folder or Path(skop.__file__).parents[1])
    everything = os.environ | {"PYTHONPATH": path} | environment
    done = subprocess.run(command, capture_output=True, text=True, env=everything, cwd=path, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def work(*arguments):
    """The problem, here."""
    names = {}
    exec(PROBLEM, names)
    return names["work"](*arguments)


def expect_same(actual, expected):
    """Fail unless all bits are the same."""
    for value, true in zip(actual, expected, strict=True):
        torch.testing.assert_close(value, true, rtol=0, atol=0)


def test_kernels_are_compiled_once_for_all_processes():
    work(0)
    assert run(PASSES) == ["0"]


def tiny_package(root):
    """A copy of what kernels share, and one kernel; and how to run it with a cache of its own."""
    folder = root / "skop" / "ops"
    (folder / "tiny").mkdir(parents=True)
    for path in Path(_cpu_tools.__file__).parent.glob("_*.py"):
        if path.name.startswith(("_simd", "_cpu")) or path.name == "_threads.py":
            shutil.copy(path, folder)
    shutil.copy(_threads.__file__, folder.parent)
    shutil.copy(exceptions.__file__, folder.parent)
    for package in (folder.parent, folder, folder / "tiny"):
        (package / "__init__.py").touch()
    (folder / "tiny" / "_cpu_tiny.py").write_text(TINY)
    return folder, {"folder": root, "NUMBA_CACHE_DIR": str(root / "cache")}


@pytest.mark.exhaustive
def test_compiled_code_goes_out_of_use_when_a_source_changes(tmp_path):
    """Also a source that the kernel imports, which Numba does not look at."""
    folder, options = tiny_package(tmp_path)
    assert run(RUN_TINY, **options) == ["0.5"]
    assert list((tmp_path / "cache").rglob("*.nbc"))
    source = (folder / "_simd.py").read_text()
    doubled = source.replace("[*kind.power, 1.0]", "[*kind.power, 2.0]")  # of exp2
    assert doubled != source
    (folder / "_simd.py").write_text(doubled)
    (before,) = (tmp_path / "cache").rglob("*.nbi")
    assert run(RUN_TINY, **options) == ["1.0"]
    (after,) = (tmp_path / "cache").rglob("*.nbi")  # nothing stays behind
    assert before.name != after.name
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 1
    (folder / "tiny" / "_cpu_other.py").write_text("unused = 1")  # not compiled into this kernel
    times = [path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.nb?")]
    assert run(RUN_TINY, **options) == ["1.0"]
    assert [path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.nb?")] == times


#: A processor without the widest vectors.
HASWELL = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+sse4.2,+popcnt,-avx512f",
}


@pytest.mark.exhaustive
def test_a_small_kernel_for_a_processor_without_the_widest_vectors(tmp_path):
    _, options = tiny_package(tmp_path)
    assert run(RUN_TINY, **options, **HASWELL) == ["0.5"]


@pytest.mark.exhaustive
def test_code_for_a_processor_without_the_widest_vectors(tmp_path):
    difference, kernels = run(BUILD, **HASWELL, NUMBA_CACHE_DIR=str(tmp_path))
    assert float(difference) < 1e-6
    wide, count = kernels.split()
    assert wide == "False"
    assert int(count) == 9  # parts of the forward and the backward pass


@pytest.fixture(scope="module")
def parallel(tmp_path_factory):
    """Results of the same problems in several kinds of workers, and in their parent."""
    script = tmp_path_factory.mktemp("parallel") / "parallel.py"
    (line,) = run(PARALLEL, script=script)
    return json.loads(line)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["fork", "spawn", "loky", "threading", "parent afterwards"])
def test_workers_of_every_kind_agree_bit_by_bit(parallel, kind):
    for (value, before, after), (true, *_) in zip(parallel[kind], parallel["parent"], strict=True):
        assert value == true
        assert before == after
    if kind == "parent afterwards":
        assert {after for _, _, after in parallel[kind]} == {2}


def in_threads(count, function):
    """Results of a function of numbers that threads of Python call at the same time."""
    results, barrier = {}, threading.Barrier(count)

    def call(number):
        barrier.wait()
        results[number] = function(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in range(count)]


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
def test_threads_of_python_may_scan_at_once(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        expected = [work(seed) for seed in range(3)]
        for _ in range(5):
            for values, true in zip(in_threads(3, work), expected, strict=True):
                expect_same(values, true)
    finally:
        torch.set_num_threads(before)


def test_threads_of_python_may_be_the_first_to_scan():
    expected = work(0)
    for cached in (_cpu_tools._compiled, _dispatch._problem, _dispatch._kernels):
        cached.cache_clear()
    for values in in_threads(4, lambda _: work(0)):
        expect_same(values, expected)
