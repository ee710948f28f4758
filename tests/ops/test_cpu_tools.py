"""What the CPU kernels share: packed states, tables of arguments, scratch memory, compiled code that stays."""

import gc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numba import int64, njit
from numba.core.caching import CompileResultCacheImpl

from skop.ops import _cpu_tools
from skop.ops._cpu_tools import pack_states, run_kernel, unpack_states
from skop.ops._simd import LANES, address, bfloat16, claim, offset, pointer

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


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("items", [1, 3, 100])
def test_items_are_taken_once_with_scratch_memory_of_ones_own(threads, items):
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_are_compiled_for_the_dtype(dtype):
    numbers = torch.tensor([1.5, 2.5], dtype=dtype)
    run_kernel(double, dtype, PLACES, {"NUMBERS": numbers}, n_items=1, scratch_bytes=0)
    assert numbers.tolist() == [3.0, 2.5]


def test_bfloat16_is_stored_as_integers():
    assert _cpu_tools._NUMBERS[torch.bfloat16] is bfloat16


def test_compiled_code_stays():
    numbers = torch.zeros(1)
    for _ in range(3):
        run_kernel(forget_me, torch.float32, PLACES, {"NUMBERS": numbers}, n_items=1, scratch_bytes=0)
        gc.collect()
        assert numbers.item() == 7
        numbers.zero_()


def test_without_a_place_for_the_cache_kernels_are_compiled_all_the_same(monkeypatch):
    _cpu_tools._compiled.cache_clear()
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    numbers = torch.ones(1, dtype=torch.float64)
    run_kernel(double, torch.float64, PLACES, {"NUMBERS": numbers}, n_items=1, scratch_bytes=0)
    assert numbers.item() == 2


@pytest.mark.parametrize(("channels", "states"), [(1, 1), (16, 2), (17, 3), (40, 16), (32, 5)])
def test_packed_states(channels, states):
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


def test_every_file_that_numba_compiles_is_part_of_the_names_of_the_kernels():
    folder = Path(_cpu_tools.__file__).parent
    compiled = {path for path in folder.rglob("*.py") if "from numba import" in path.read_text()}
    assert len(compiled) > 8
    assert compiled <= set(_cpu_tools._sources())
