"""What the CPU kernels of all scans share: compilation, tables of arguments, packed states.

Letters of the shapes: K paths, D channels, N states of a channel.
"""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numba import cfunc, types
from torch import Tensor
from torch.nn.functional import pad

from skop.ops._simd import LANES, bfloat16
from skop.ops._threads import run_on_threads

__all__ = ["by_channel", "pack_states", "run_kernel", "sum_in_place", "unpack_states"]

_ALIGNMENT = 64
_NUMBERS = {torch.float32: types.float32, torch.float64: types.float64, torch.bfloat16: bfloat16}


def run_kernel(
    kernel: Any,
    dtype: torch.dtype,
    places: ModuleType,
    values: Mapping[str, int | Tensor | None],
    *,
    n_items: int,
    scratch_bytes: int,
) -> None:
    """Run a kernel on torch's number of threads.

    Parameters
    ----------
    kernel : Numba function
        Takes the table of arguments, as a pointer to numbers of a dtype, and work items from it until none are left.
    dtype : torch.dtype
        float32, float64 or bfloat16.
    places : module
        Its constants are the places in the table: of every value, by name, of the counters ``NEXT`` and ``SLOT``, of
        ``ITEMS``, ``SCRATCH`` and ``SCRATCH_BYTES``, and their number ``N_ARGUMENTS``.
    values : mapping from str to int, Tensor or None
        Sizes, and contiguous tensors, whose addresses are passed, 0 for None.
    n_items : int
        Work items, which must not depend on the number of threads.
    scratch_bytes : int
        Memory of a thread.
    """
    n_threads = max(1, min(torch.get_num_threads(), n_items))
    size = _round_up(scratch_bytes)
    scratch = np.empty(n_threads * size + _ALIGNMENT, dtype=np.uint8)
    start = _round_up(scratch.ctypes.data)
    table = np.zeros(places.N_ARGUMENTS, dtype=np.int64)
    for name, value in {"ITEMS": n_items, "SCRATCH": start, "SCRATCH_BYTES": size, **values}.items():
        table[getattr(places, name)] = _as_integer(value)
    run_on_threads(_compiled(kernel, dtype), table.ctypes.data, n_threads)


def pack_states(values: Tensor) -> Tensor:
    """Order states ``(..., D, N)`` as (..., blocks of 16 channels, N made even, 16), filled up with zeros."""
    channels, states = values.shape[-2:]
    full = pad(values, (0, states % 2, 0, -channels % LANES))
    return full.unflatten(-2, (-1, LANES)).mT.contiguous()


def unpack_states(packed: Tensor, channels: int, states: int) -> Tensor:
    """Undo `pack_states`, for so many channels and states."""
    return packed.mT.flatten(-3, -2)[..., :channels, :states]


def by_channel(values: Tensor | None, n_paths: int, channels: int, like: Tensor) -> Tensor:
    """Fill parameters (K, D) up to whole blocks of channels; zeros where there are none."""
    full = like.new_zeros(n_paths, -(-channels // LANES) * LANES)
    if values is not None:
        full[:, :channels] = values
    return full


def sum_in_place(parts: Tensor) -> Tensor:
    """Sum over the first axis, always in the same order, in the memory of the first part."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def _round_up(count: int) -> int:
    """Round up to whole cache lines."""
    return -(-count // _ALIGNMENT) * _ALIGNMENT


def _as_integer(value: Any) -> int:
    """Size, or address of a tensor, 0 for None."""
    if value is None:
        return 0
    return value.data_ptr() if isinstance(value, Tensor) else int(value)


@cache
def _compiled(kernel: Any, dtype: torch.dtype) -> int:
    """Address of the kernel compiled for a dtype, from Numba's cache on disk where it has been compiled before."""
    function = kernel.py_func
    # Numba compiles anew when the kernel's own file has changed. What that file imports is compiled into the kernel
    # too, so the sources are made part of the name.
    function.__qualname__ = f"{function.__name__}_{_fingerprint()}"
    kind = types.void(types.CPointer(_NUMBERS[dtype]))
    compiled: Any
    try:
        compiled = cfunc(kind, cache=True)(function)
    except (RuntimeError, OSError):  # no place on disk that can be written to
        compiled = cfunc(kind)(function)
    return int(compiled.address)


@cache
def _fingerprint() -> str:
    """Letters that change with any source of the CPU kernels."""
    return sha256(b"".join(path.read_bytes() for path in _sources())).hexdigest()[:12]


def _sources() -> list[Path]:
    """Files whose code may be compiled into a kernel."""
    folder = Path(__file__).parent
    return sorted(path for pattern in ("_simd*.py", "_cpu*.py") for path in folder.rglob(pattern))
