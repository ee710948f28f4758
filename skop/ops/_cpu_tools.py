"""What the CPU kernels of all scans share: compilation, tables of arguments, packed states.

Notation of the shapes: K paths, D channels, N states of a channel.
"""

import ast
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numba import types
from torch import Tensor
from torch.nn.functional import pad

from skop.ops._simd import LANES
from skop.ops._simd_checks import CHECKS, compiled, watched
from skop.ops._simd_compiler import compile_kernel
from skop.ops._threads import run_on_threads

__all__ = ["by_channel", "pack_states", "run_kernel", "run_parts", "sum_in_place", "unpack_states"]

_ALIGNMENT = 64
#: Bytes between regions of scratch memory, which keep them from lying a multiple of 4096 bytes apart, where the
#: processor takes a read of one for a read of what was just written to another.
_GAP = 5 * 64
_NUMBERS: dict[torch.dtype, Any] = {torch.float32: types.float32, torch.float64: types.float64}


def run_kernel(
    kernel: Any,
    dtype: torch.dtype,
    places: ModuleType,
    values: Mapping[str, int | Tensor | None],
    *,
    n_items: int,
    scratch_bytes: int,
    regions: Mapping[str, int] | None = None,
    outputs: Container[str] = (),
) -> None:
    """Run a Numba function that takes work items from a table of arguments, on torch's number of threads.

    The constants of the module `places` are the places in the table: of every value, by name (integers, and contiguous
    tensors, whose addresses are passed, 0 for None), of ``NEXT``, ``SLOT``, ``ITEMS``, ``SCRATCH`` and
    ``SCRATCH_BYTES``, and their number, ``N_ARGUMENTS``. The number of items must not depend on that of the threads.
    A thread has so many bytes of scratch memory; bounds checks (`skop.ops._simd_checks`) tell its regions apart, which
    lie at the distances in `values`, and let the kernel write to the outputs only.
    """
    n_threads = max(1, min(torch.get_num_threads(), n_items))
    size = _round_up(scratch_bytes)
    scratch = np.empty(n_threads * size + _ALIGNMENT, dtype=np.uint8)
    start = _round_up(scratch.ctypes.data)
    table = np.zeros(places.N_ARGUMENTS, dtype=np.int64)
    for name, value in {"ITEMS": n_items, "SCRATCH": start, "SCRATCH_BYTES": size, **values}.items():
        table[getattr(places, name)] = _as_integer(value)
    if not CHECKS:
        run_on_threads(_compiled(kernel, dtype), table.ctypes.data, n_threads)
        return
    buffers = [("the table", table.ctypes.data, table.nbytes, True)]
    for name, value in values.items():
        if isinstance(value, Tensor):
            buffers.append((name, value.data_ptr(), value.nbytes, name in outputs))
    for slot in range(n_threads):
        buffers.append(("the words", start + slot * size, 8 * places.N_ARGUMENTS if regions else size, True))
        for name, count in (regions or {}).items():
            buffers.append((name, start + slot * size + _as_integer(values[name]), count, True))
    with watched(buffers):
        run_on_threads(compiled(kernel, _NUMBERS[dtype]).address, table.ctypes.data, n_threads)


def run_parts(
    kernel: Any,
    dtype: torch.dtype,
    words: ModuleType,
    values: Mapping[str, int | Tensor | None],
    outputs: Mapping[str, Tensor | None],
    parts: Mapping[str, Any],
    regions: Mapping[str, int],
    *,
    n_items: int,
) -> None:
    """Run a kernel that has a workspace, see `skop.ops._cpu_workspace`, and is compiled in parts.

    As `run_kernel`, but the constants of `words` are places in the workspace, too, with the first region as
    ``FIRST_REGION``. By their words, `outputs` are further values, which the kernel may write to, `parts` functions
    whose addresses it calls, and `regions` bytes of scratch memory.
    """
    addresses = {
        name: int(compiled(part, _NUMBERS[dtype]).address) if CHECKS else _compiled(part, dtype)
        for name, part in parts.items()
    }
    size, places = 8 * words.N_ARGUMENTS, {}
    for name, count in regions.items():
        places[name] = size = _round_up(size + _GAP)
        size += count
    sizes = {"N_WORDS": words.N_ARGUMENTS, "REGIONS": words.FIRST_REGION}
    given = {**sizes, **values, **outputs, **addresses, **places}
    run_kernel(kernel, dtype, words, given, n_items=n_items, scratch_bytes=size, regions=regions, outputs=outputs)


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


#: Folder that holds the package.
_ROOT = Path(__file__).parents[2]


@cache
def _compiled(kernel: Any, dtype: torch.dtype) -> int:
    """Address of the kernel compiled for a dtype, from Numba's cache on disk where it has been compiled before."""
    function = kernel.py_func
    # Numba compiles anew when the kernel's own file has changed. What that file imports is compiled into the kernel
    # too, so a hash of the sources is made part of the name.
    function.__qualname__ = f"{function.__name__}_{_fingerprint(Path(function.__code__.co_filename))}"
    compiled: Any
    try:
        compiled = compile_kernel(function, _NUMBERS[dtype], cache=True)
    except (RuntimeError, OSError):  # no place on disk that can be written to
        compiled = compile_kernel(function, _NUMBERS[dtype], cache=False)
    else:
        if not compiled.cache_hits:
            _remove_stale(Path(compiled._cache.cache_path), Path(function.__code__.co_filename).stem, function)
    return int(compiled.address)


def _remove_stale(folder: Path, module: str, function: Any) -> None:
    """Remove what Numba keeps of a kernel compiled from other sources: index and code, known by their names."""
    ours = re.compile(rf"{re.escape(f'{module}.{function.__name__}')}_[0-9a-f]{{12}}-\d+\.py\d+\w*(\.\d+)?\.nb[ic]")
    for path in folder.iterdir():
        if ours.fullmatch(path.name) and not path.name.startswith(f"{module}.{function.__qualname__}-"):
            with suppress(OSError):  # another process was quicker, or still reads it
                path.unlink()


@cache
def _fingerprint(file: Path) -> str:
    """Letters that change with any source that is compiled into the kernels of a file."""
    return sha256(b"".join(path.read_bytes() for path in _sources(file))).hexdigest()[:12]


def _sources(file: Path) -> list[Path]:
    """The file and what it imports of `skop.ops`, directly or not."""
    found, left = set(), [file]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left.extend(_imported(path))
    return sorted(found)


def _imported(file: Path) -> Iterator[Path]:
    """Modules of `skop.ops` that a file names in its import statements; packages hold no compiled code themselves."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = _module(file).split(".")[: -node.level] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            path = _ROOT.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith("skop.ops.") and path.is_file():
                yield path


def _module(file: Path) -> str:
    """Name of the module in a file."""
    return ".".join(file.relative_to(_ROOT).with_suffix("").parts)
