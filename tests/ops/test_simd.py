"""The vector type that the CPU kernels are written in, against NumPy and torch, lane by lane."""

import ctypes
import mmap
import re
from functools import cache

import numpy as np
import pytest
from numba import cfunc, njit, types

from skop.ops import _simd
from skop.ops._simd import LANES

NUMBERS = {np.float32: types.float32, np.float64: types.float64}
FLOATS = [np.float32, np.float64]
SIGNS = {np.float32: np.uint32, np.float64: np.uint64}


@cache
def compiled(function, *kinds):
    """A C function of pointers to numbers of some kinds, and what keeps it alive."""
    return cfunc(types.void(*(types.CPointer(NUMBERS.get(kind, kind)) for kind in kinds)))(function)


def call(function, *arrays):
    """Call a function on the memory of arrays."""
    kernel = compiled(function, *(types.int64 if array.dtype == np.int64 else array.dtype.type for array in arrays))
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(kernel.address)(*(array.ctypes.data for array in arrays))


def apply(function, values):
    """Map a function of a vector over an array, filled up to whole vectors."""
    full = np.zeros(-(-len(values) // LANES) * LANES, values.dtype)
    full[: len(values)] = values
    result = np.empty_like(full)
    call(function, full, result, np.array([len(full)]))
    return result[: len(values)]


@njit
def exp2(source, target, count):
    for index in range(0, count[0], LANES):
        _simd.store(target, index, _simd.exp2(_simd.load(source, index)))


@njit
def softplus(source, target, count):
    for index in range(0, count[0], LANES):
        _simd.store(target, index, _simd.softplus(_simd.load(source, index)))


@njit
def sigmoid(source, target, count):
    for index in range(0, count[0], LANES):
        _simd.store(target, index, _simd.sigmoid(_simd.load(source, index)))


@njit
def arithmetic(source, target):
    a, b, c = _simd.load(source, 0), _simd.load(source, LANES), _simd.constant(source, 3)
    _simd.store(target, 0, a * b + c)
    _simd.store(target, LANES, (a - b) / c)
    _simd.store(target, 2 * LANES, _simd.splat(source[1]))


@njit
def maximum(source, target):
    _simd.store(target, 0, _simd.maximum(_simd.load(source, 0), _simd.load(source, LANES)))


@njit
def nan_beyond(source, target):
    _simd.store(target, 0, _simd.nan_beyond(_simd.load(source, 0), _simd.load(source, LANES)))


@njit
def widen(source, target):
    _simd.store(target, 0, _simd.widen(_simd.load(source, 0)))


@njit
def sum_lanes(source, target):
    _simd.store(target, 0, _simd.sum_lanes(source))


@njit
def load_first(source, target, counts):
    _simd.store(target, 0, _simd.load_first(source, 0, counts[0]))


@njit
def store_first(source, target, counts):
    _simd.store_first(target, 0, _simd.load(source, 0), counts[0])


@njit
def count_up(counter, values):
    for _ in range(1000):
        values[0] = _simd.claim(counter)


@njit
def through_addresses(source, target):
    there = _simd.pointer(_simd.address(source), source)
    also = _simd.pointer(_simd.address(source), source)
    _simd.prefetch(there, 10**12)
    _simd.store(target, 0, _simd.load(there, 0) + _simd.load(_simd.offset(also, LANES), -LANES))


def largest_error(values, true):
    """Largest relative error."""
    return float(np.max(np.abs(values / true - 1)))


def payloads(kind):
    """NaNs of both signs, with payloads in the lowest and the highest bits, R's missing value among them."""
    quiet = np.array(np.nan, kind).view(SIGNS[kind])
    sign = SIGNS[kind](1) << SIGNS[kind](quiet.itemsize * 8 - 1)
    bits = [quiet | SIGNS[kind](extra) for extra in (0, 1, 2, 0x7A2, 0xFFF, 0x3FFFFF)]
    return np.array([*bits, *(value | sign for value in bits)], SIGNS[kind]).view(kind)


@pytest.mark.parametrize(("kind", "least", "bound"), [(np.float32, -126, 3e-7), (np.float64, -1022, 2e-15)])
def test_exp2_over_the_normal_range(kind, least, bound):
    rng = np.random.default_rng(0)
    above = np.nextafter(kind(least), kind(0))
    halves = np.arange(least + 1, 1 - least, dtype=kind)[:-1] + kind(0.5)
    ties = [halves, np.nextafter(halves, kind(np.inf)), np.nextafter(halves, kind(-np.inf))]
    edges = [above, np.nextafter(kind(1 - least), kind(0)), -0.5, 0.5, 1e-30, -1e-30]
    values = np.concatenate([rng.uniform(least, 1 - least, 40_000), rng.uniform(-1, 1, 4000), *ties, edges])
    values = values.astype(kind)
    values = values[(values > least) & (values < 1 - least)]
    assert largest_error(apply(exp2, values), np.exp2(values.astype(np.longdouble))) <= bound
    whole = np.arange(least + 1, 1 - least, dtype=kind)
    np.testing.assert_array_equal(apply(exp2, whole), np.exp2(whole))


def test_exp2_at_zero_and_below_the_normal_range():
    for kind, least in [(np.float32, -126), (np.float64, -1022)]:
        np.testing.assert_array_equal(apply(exp2, np.array([0.0, -0.0], kind)), [1, 1])
        below = np.array([least - 0.5, least - 1, 1.2 * least, -1e4, -1e30, -np.finfo(kind).max, -np.inf], kind)
        np.testing.assert_array_equal(apply(exp2, below), np.zeros(len(below)))


def test_nan_passes_whatever_its_payload():
    for function in [exp2, softplus, sigmoid]:
        for kind in FLOATS:
            assert np.isnan(apply(function, payloads(kind))).all()


@pytest.mark.parametrize(("kind", "least", "units"), [(np.float32, -80, 8), (np.float64, -700, 24)])
def test_softplus_and_sigmoid_have_small_relative_errors(kind, least, units):
    rng = np.random.default_rng(0)
    spread = [rng.uniform(least, 100, 20_000), rng.uniform(-20, 2, 20_000), [0.0, -0.0, 1e-30, -1e-30]]
    values = np.concatenate(spread).astype(kind)
    exact = values.astype(np.longdouble)
    # v is divided by a rounded log 2, and rounded, before it becomes an exponent: two units times |v| at most.
    bound = (units + 2 * np.abs(values)) * np.finfo(kind).eps / 2
    for function, true in ((softplus, np.logaddexp(0, exact)), (sigmoid, 1 / (1 + np.exp(-exact)))):
        assert (np.abs(apply(function, values) / true - 1) <= bound).all()


def test_softplus_and_sigmoid_at_the_ends():
    for kind in FLOATS:
        ends = np.array([-np.inf, -1e30, -2000, 2000, 1e30, np.inf], kind)
        np.testing.assert_array_equal(apply(softplus, ends), [0, 0, 0, *ends[3:]])
        np.testing.assert_array_equal(apply(sigmoid, ends), [0, 0, 0, 1, 1, 1])
        assert (apply(softplus, np.linspace(-60, 60, 999).astype(kind)) > 0).all()


def test_arithmetic_constants_and_copies():
    for kind in FLOATS:
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, LANES)).astype(kind)
        target = np.empty(3 * LANES, kind)
        call(arithmetic, np.concatenate([a, b]), target)
        expected = np.concatenate([a * b + 3, (a - b) / 3, np.full(LANES, a[1])])
        np.testing.assert_allclose(target, expected, rtol=8 * np.finfo(kind).eps, atol=4 * np.finfo(kind).eps)
        call(through_addresses, np.concatenate([a, b]), target)
        np.testing.assert_array_equal(target[:LANES], a + a)


def test_maximum_takes_the_right_one_at_nan():
    for kind in FLOATS:
        left = np.array([1, -1, np.nan, 3, np.nan, np.inf, -np.inf, 0] * 2, kind)
        right = np.array([0, 2, 5, np.nan, np.nan, 1, 1, 0] * 2, kind)
        target = np.empty(LANES, kind)
        call(maximum, np.concatenate([left, right]), target)
        np.testing.assert_array_equal(target, np.array([1, 2, 5, np.nan, np.nan, np.inf, 1, 0] * 2, kind))


def test_nan_beyond_what_exp2_reaches():
    for kind, most in [(np.float32, 127), (np.float64, 1023)]:
        exponents = np.array(
            [0, -np.inf, np.nextafter(kind(most), kind(0)), most, 2 * most, np.inf, np.nan, 5] * 2, kind
        )
        target = np.empty(LANES, kind)
        call(nan_beyond, np.concatenate([np.full(LANES, 7, kind), exponents]), target)
        np.testing.assert_array_equal(target, np.array([7, 7, 7, np.nan, np.nan, np.nan, np.nan, 7] * 2, kind))


def test_widen_and_sum_lanes():
    for kind in FLOATS:
        rows = np.random.default_rng(0).normal(size=(LANES, LANES)).astype(kind)
        wide, sums = np.empty(LANES), np.empty(LANES, kind)
        call(widen, rows, wide)
        np.testing.assert_array_equal(wide, rows[0].astype(np.float64))
        call(sum_lanes, rows, sums)
        np.testing.assert_allclose(sums, rows.astype(np.float64).sum(1), rtol=0, atol=16 * np.finfo(kind).eps)
        rows[3, 5] = np.nan
        call(sum_lanes, rows, sums)
        np.testing.assert_array_equal(np.isnan(sums), np.arange(LANES) == 3)


def test_first_lanes_leave_the_rest_alone():
    for kind in FLOATS:
        for count in [0, 1, 7, 15, 16]:
            values, counts = np.arange(1, LANES + 1).astype(kind), np.array([count])
            guarded = np.append(values[:count], kind(np.nan))  # NaN beyond is neither read nor written
            loaded = np.empty(LANES, kind)
            call(load_first, guarded, loaded, counts)
            np.testing.assert_array_equal(loaded, np.where(np.arange(LANES) < count, values, 0))
            target = np.full(2 * LANES, 55).astype(kind)
            call(store_first, values, target, counts)
            np.testing.assert_array_equal(target[:count], values[:count])
            np.testing.assert_array_equal(target[count:], np.full(2 * LANES - count, 55).astype(kind))


def test_first_lanes_touch_no_memory_beyond():
    """The page behind the numbers may not be read or written: the process would not survive."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    libc, start = ctypes.CDLL(None), ctypes.addressof(ctypes.c_byte.from_buffer(memory))
    if libc.mprotect(ctypes.c_void_p(start + page), page, 0) != 0:
        pytest.skip("memory cannot be protected here")
    try:
        numbers = np.frombuffer(memory, np.float32, 3, page - 12)
        numbers[:], loaded = [1, 2, 3], np.empty(LANES, np.float32)
        call(load_first, numbers, loaded, np.array([3]))
        np.testing.assert_array_equal(loaded[:4], [1, 2, 3, 0])
        call(store_first, loaded + 1, numbers, np.array([3]))
        np.testing.assert_array_equal(numbers, [2, 3, 4])
    finally:
        libc.mprotect(ctypes.c_void_p(start + page), page, mmap.PROT_READ | mmap.PROT_WRITE)


def test_claim_counts():
    counter, last = np.array([5]), np.zeros(1, np.int64)
    call(count_up, counter, last)
    assert (counter[0], last[0]) == (1005, 1004)


def test_vectors_are_vectors_and_no_instruction_is_named():
    kernel = compiled(exp2, np.float32, np.float32, types.int64)
    code = kernel.inspect_llvm()
    assert "<16 x float>" in code
    assert not re.findall(r"llvm\.(x86|aarch64|arm)\.[\w.]+", code)
