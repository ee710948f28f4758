"""What the CPU kernels share: packed states, tables of arguments, scratch memory, compiled code that stays."""

import ctypes
import gc
import os
import pickle
import warnings
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
import torch
from numba import float64, int64, njit
from numba.core.caching import CompileResultCacheImpl

from skop.exceptions import KernelWarning
from skop.ops import _cpu_tools
from skop.ops._cpu_tools import pack_states, run_kernel, unpack_states
from skop.ops._simd import LANES, address, claim, inlined, offset, pointer
from skop.ops._simd_compiler import compile_kernel

NEXT, SLOT, ITEMS, SCRATCH, SCRATCH_BYTES, NUMBERS, NOTHING, SIZE, TAKEN, N_ARGUMENTS = range(10)
PLACES = SimpleNamespace(
    NEXT=NEXT, SLOT=SLOT, ITEMS=ITEMS, SCRATCH=SCRATCH, SCRATCH_BYTES=SCRATCH_BYTES, NUMBERS=NUMBERS, NOTHING=NOTHING,
    SIZE=SIZE, TAKEN=TAKEN, N_ARGUMENTS=N_ARGUMENTS,
)  # fmt: skip


@njit
def note(numbers):
    """Note who takes each item: slot, address of the scratch memory, and what else the table says."""
    table = pointer(address(numbers), int64)
    slot = claim(offset(table, SLOT))
    scratch = table[SCRATCH] + slot * table[SCRATCH_BYTES]
    memory, taken = pointer(scratch, int64), pointer(table[TAKEN], int64)
    for place in range(table[SCRATCH_BYTES] // 8):
        memory[place] = slot
    item = claim(offset(table, NEXT))
    while item < table[ITEMS]:
        taken[4 * item] += 1
        taken[4 * item + 1] = slot
        taken[4 * item + 2] = scratch
        taken[4 * item + 3] = table[SIZE] + table[NOTHING]
        item = claim(offset(table, NEXT))
    for place in range(table[SCRATCH_BYTES] // 8):  # nobody else was there
        if memory[place] != slot:
            taken[0] = -1


@njit
def double(numbers):
    """Double the first number."""
    own = pointer(pointer(address(numbers), int64)[NUMBERS], numbers)
    own[0] = own[0] + own[0]


@njit
def forget_me(numbers):
    """Set the first number to 7."""
    pointer(pointer(address(numbers), int64)[NUMBERS], numbers)[0] = 7


@pytest.fixture(autouse=True)
def _threads():
    """Give back torch's number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_items_are_taken_once_with_scratch_memory_of_ones_own():
    for threads in [1, 2, 5]:
        for items in [1, 3, 100]:
            torch.set_num_threads(threads)
            taken = torch.zeros(items, 4, dtype=torch.int64)
            values = {"TAKEN": taken, "SIZE": 42, "NOTHING": None}
            run_kernel(note, torch.float32, PLACES, values, n_items=items, scratch_bytes=1000)
            counts, slots, scratch, rest = taken.T
            assert counts.tolist() == [1] * items
            assert slots.max() < min(threads, items)
            assert (scratch % 64 == 0).all()
            for slot in slots.unique():
                assert len(scratch[slots == slot].unique()) == 1
            places = scratch.unique().sort().values
            assert (places.diff() >= 1000).all()
            assert rest.tolist() == [42] * items


def test_kernels_are_compiled_for_the_dtype():
    for dtype in [torch.float32, torch.float64]:
        numbers = torch.tensor([1.5, 2.5], dtype=dtype)
        run_kernel(double, dtype, PLACES, {"NUMBERS": numbers}, n_items=1, scratch_bytes=0)
        assert numbers.tolist() == [3.0, 2.5]


def test_compiled_code_stays():
    numbers = torch.zeros(1)
    for _ in range(3):
        run_kernel(forget_me, torch.float32, PLACES, {"NUMBERS": numbers}, n_items=1, scratch_bytes=0)
        gc.collect()
        assert numbers.item() == 7
        numbers.zero_()


@inlined
def halve(numbers):
    """Halve a number."""
    numbers[0] = numbers[0] / 2


def halve_twice(numbers):
    """Halve a number twice."""
    halve(numbers)
    halve(numbers)


def test_what_a_kernel_calls_gets_no_machine_code_of_its_own():
    kernel, numbers = compile_kernel(halve_twice, float64, cache=False), np.array([3.0])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(numbers.ctypes.data)
    assert numbers[0] == 0.75
    (compiled,) = halve.overloads.values()
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0


def test_without_a_place_for_the_cache_kernels_are_compiled_all_the_same(monkeypatch):
    _cpu_tools._compiled.cache_clear()
    _cpu_tools._warn_of_cache.cache_clear()
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    with pytest.warns(KernelWarning, match="no folder for compiled kernels can be written to.*NUMBA_CACHE_DIR"):
        assert doubled() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doubled() == 2  # said once


def doubled():
    """Compile the kernel, as in another process, and run it."""
    _cpu_tools._compiled.cache_clear()
    numbers = torch.ones(1, dtype=torch.float64)
    run_kernel(double, torch.float64, PLACES, {"NUMBERS": numbers}, n_items=1, scratch_bytes=0)
    return numbers.item()


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """A folder for compiled kernels that nobody else can write to."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kernels"))
    _cpu_tools._warn_of_cache.cache_clear()
    assert doubled() == 2
    (index,) = (tmp_path / "kernels").rglob("*.nbi")
    yield index.parent
    _cpu_tools._compiled.cache_clear()


@pytest.mark.parametrize("ending", [".nbi", ".nbc", ".sha256"])
@pytest.mark.parametrize("damage", ["empty", "zeros"])
def test_damaged_code_is_compiled_anew(cache_folder, ending, damage):
    (path,) = cache_folder.glob(f"*{ending}")
    content = path.read_bytes()
    path.write_bytes(b"" if damage == "empty" else content[:20] + bytes(40) + content[60:])
    assert doubled() == 2
    kept = {file.name: file.read_bytes() for file in cache_folder.iterdir()}
    assert len(kept) == 3
    assert kept[path.name] != bytes(0)
    assert bytes(40) + content[60:] != kept[path.name][20:]
    times = {file: file.stat().st_mtime_ns for file in cache_folder.iterdir()}
    assert doubled() == 2  # from the disk
    assert {file: file.stat().st_mtime_ns for file in cache_folder.iterdir()} == times


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs permissions of POSIX")
@pytest.mark.parametrize(("levels", "mode"), [(0, 0o777), (0, 0o1777), (1, 0o777)])
def test_code_that_others_may_have_written_is_not_run(cache_folder, tmp_path, levels, mode):
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    (index,) = cache_folder.glob("*.nbi")
    index.write_bytes(pickle.dumps(Evil()))
    (cache_folder / f"{index.name.split('-')[0]}.sha256").write_text("")
    [cache_folder, *cache_folder.parents][levels].chmod(mode)
    with pytest.warns(KernelWarning, match="are not kept in .*: other users can write to"):
        assert doubled() == 2
    assert not (tmp_path / "ran").exists()


def test_packed_states():
    for channels, states in [(1, 1), (16, 2), (17, 3), (40, 16), (32, 5)]:
        generator = torch.Generator().manual_seed(0)
        values = torch.randn(2, 3, channels, states, generator=generator)
        packed = pack_states(values)
        blocks, even = -(-channels // LANES), states + states % 2
        assert packed.shape == (2, 3, blocks, even, LANES)
        assert packed.is_contiguous()
        for channel in range(channels):
            block, lane = divmod(channel, LANES)
            torch.testing.assert_close(packed[:, :, block, :states, lane], values[:, :, channel])
        assert packed.count_nonzero() == values.numel()
        torch.testing.assert_close(unpack_states(packed, channels, states), values, rtol=0, atol=0)


def test_packing_takes_any_strides():
    values = torch.randn(3, 17, 2, dtype=torch.float64).mT.flip(0).mT[:1].expand(4, -1, -1)
    torch.testing.assert_close(unpack_states(pack_states(values), 17, 2), values, rtol=0, atol=0)
    assert not np.shares_memory(pack_states(values).numpy(), values.numpy())


FOLDER = Path(_cpu_tools.__file__).parent
#: Files of kernels and of what they share.
KERNEL_FILES = sorted(
    path
    for path in FOLDER.rglob("_*.py")
    if path.name.startswith(("_cpu_", "_simd")) and path.name != Path(_cpu_tools.__file__).name
)


def compiled_functions(path):
    """Functions for Numba's compiler that the code of a file can name, and its intrinsics."""
    values = vars(import_module(_cpu_tools._module(path))).values()
    found = (getattr(value, "py_func", getattr(value, "_defn", None)) for value in values)
    return [unwrap(function) for function in found if function is not None]


def test_every_function_that_a_kernel_may_call_is_part_of_its_name():
    counts = []
    for path in KERNEL_FILES:
        sources, functions = _cpu_tools._sources(path), compiled_functions(path)
        assert {path, *(Path(function.__code__.co_filename) for function in functions)} <= set(sources)
        counts.append(len(functions))
    assert sum(counts) > 50


def test_kernels_of_one_scan_do_not_depend_on_the_files_of_another():
    """But for shared files."""
    kernels = [path for path in KERNEL_FILES if path.parent != FOLDER and compiled_functions(path)]
    assert kernels
    for kernel in kernels:
        sources = _cpu_tools._sources(kernel)
        assert {path.parent for path in sources} <= {FOLDER, kernel.parent}
        assert not [path.name for path in sources if path.name in ("__init__.py", "_dispatch.py", "_cpu.py")]


def test_sources_are_found_by_every_kind_of_import(tmp_path, monkeypatch):
    folder = tmp_path / "skop" / "ops" / "one"
    folder.mkdir(parents=True)
    texts = {
        "one/_a.py": "import skop.ops._b\nfrom . import _c\nfrom skop.ops.one import _d, missing\nimport numpy",
        "one/_c.py": "from .. import _e\nfrom ._a import something\nfrom skop.other import _f",
        "one/_d.py": "def late():\n    from .._g import anything",
    }
    for name in ("_b.py", "_e.py", "_f.py", "_g.py", "__init__.py", "one/__init__.py"):
        texts[name] = ""
    for name, text in texts.items():
        (folder.parent / name).write_text(text)
    monkeypatch.setattr(_cpu_tools, "_ROOT", tmp_path)
    found = {str(path.relative_to(folder.parent)) for path in _cpu_tools._sources(folder / "_a.py")}
    assert found == {"one/_a.py", "_b.py", "one/_c.py", "one/_d.py", "_e.py", "_g.py"}


def test_only_stale_code_of_the_same_kernel_is_removed(tmp_path):
    def forward(numbers):
        """Stand for a kernel."""

    forward.__qualname__ = "forward_0123456789ab"
    old = "_cpu.forward_ba9876543210"
    stale = [f"{old}-12.py311.nbi", f"{old}-12.py311.3.nbc", f"{old}.sha256"]
    others = [
        "_cpu.forward_0123456789ab-12.py311.nbi",
        "_cpu.forward_0123456789ab-12.py312.1.nbc",
        "_cpu.forward_0123456789ab.sha256",
        "_cpu.backward_ba9876543210-12.py311.nbi",
        "_other.forward_ba9876543210-12.py311.nbi",
        "_cpu.forward-12.py311.nbi",
        "_cpu.forward_new-12.py311.nbi",
        "_cpu.forward_ba9876543210-12.py311.txt",
        "_cpu.cpython-311.pyc",
    ]
    for name in stale + others:
        (tmp_path / name).touch()
    _cpu_tools._Kept(tmp_path, "_cpu", forward).remove_stale()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
