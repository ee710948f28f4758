"""Bounds checks of the CPU kernels, switched on by the environment variable ``SKOP_KERNEL_CHECKS=1``.

Kernels are then compiled anew, not kept on disk, and hundreds of times slower: each read and write is compared with
the buffers of the call (tensors, each region of each thread's scratch memory), and inputs must not be written to. What
lies outside is sent to memory of no importance, and the call ends with an error that names the nearest buffer.
"""

import ctypes
import operator
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin

from skop.ops._simd_compiler import compile_kernel

__all__ = ["CHECKS", "checked", "compiled", "watched"]

#: Whether kernels are compiled with checks.
CHECKS = os.environ.get("SKOP_KERNEL_CHECKS", "0") not in ("", "0")

_INT64 = ir.IntType(64)
_Buffer = tuple[int, int, str, bool]
_buffers: list[_Buffer] = []
_faults: list[str] = []
_elsewhere = (ctypes.c_byte * 4096)()


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
def _check(address: int, size: int, is_write: int) -> int:
    """Address to use: the one given where it lies in a buffer, else that of memory of no importance."""
    place = bisect_right(_buffers, address, key=operator.itemgetter(0)) - 1
    start, stop, name, can_write = _buffers[max(place, 0)]
    if start <= address and address + size <= stop and (can_write or not is_write):
        return address
    word = "wrote" if is_write else "read"
    _faults.append(f"{word} {size} bytes at byte {address - start} of {name}, which has {stop - start}")
    return ctypes.addressof(_elsewhere)


def checked(builder: ir.IRBuilder, place: ir.Value, size: int | ir.Value, *, is_write: bool) -> ir.Value:
    """Emit the check of an access to so many bytes, where kernels are checked; returns the pointer to use instead."""
    if not CHECKS:
        return place
    kind = ir.FunctionType(_INT64, [_INT64] * 3)
    address = ir.Constant(_INT64, ctypes.cast(_check, ctypes.c_void_p).value)
    size = ir.Constant(_INT64, size) if isinstance(size, int) else size
    values = [builder.ptrtoint(place, _INT64), size, ir.Constant(_INT64, int(is_write))]
    return builder.inttoptr(builder.call(builder.inttoptr(address, kind.as_pointer()), values), place.type)


@contextmanager
def watched(buffers: Iterable[tuple[str, int, int, bool]]) -> Iterator[None]:
    """Watch checked kernels, in one call at a time; RuntimeError if one accessed other memory than the buffers.

    A buffer is a name, an address, a number of bytes, and whether kernels may write there.
    """
    _faults.clear()
    _buffers[:] = sorted((start, start + size, name, can_write) for name, start, size, can_write in buffers)
    yield
    if _faults:
        raise RuntimeError(f"A kernel {_faults[0]}; {len(_faults)} such accesses in all.")


@cache
def compiled(kernel: Any, number: types.Type) -> Any:
    """Compile a kernel as `compile_kernel` does, in this process only."""
    return compile_kernel(kernel.py_func, number, cache=False)


def _check_elements(number: Any, index: types.Type) -> None:
    """Check the elements that kernels read and write by an index."""
    pointer, size = types.CPointer(number), number.bitwidth // 8

    @lower_builtin(operator.getitem, pointer, index)
    def _get(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.load(checked(builder, builder.gep(args[0], args[1:2]), size, is_write=False))

    @lower_builtin(operator.setitem, pointer, index, number)
    def _set(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        builder.store(args[2], checked(builder, builder.gep(args[0], args[1:2]), size, is_write=True))
        return context.get_dummy_value()


if CHECKS:
    for _number in (types.float32, types.float64, types.int32, types.int64):
        for _index in (types.intp, types.uintp):
            _check_elements(_number, _index)
