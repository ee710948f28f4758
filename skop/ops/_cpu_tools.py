"""What the CPU kernels of all scans share: compilation, tables of arguments, packed states.

Notation of the shapes: K paths, D channels, N states of a channel.
"""

import ast
import os
import re
import stat
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import sleep
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numba import types
from numba.core.caching import FunctionCache
from torch import Tensor
from torch.nn.functional import pad

from skop.exceptions import KernelWarning, warn
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


#: Looks at files that another process may be writing, and seconds between two.
_TRIALS, _PAUSE = 4, 0.1
#: Folder that holds the package.
_ROOT = Path(__file__).parents[2]


@cache
def _compiled(kernel: Any, dtype: torch.dtype) -> int:
    """Address of the kernel compiled for a dtype, from Numba's cache on disk where it has been compiled before."""
    function = kernel.py_func
    # Numba compiles anew when the kernel's own file has changed. What that file imports is compiled into the kernel
    # too, so a hash of the sources is made part of the name.
    function.__qualname__ = f"{function.__name__}_{_fingerprint(Path(function.__code__.co_filename))}"
    kept = _kept_files(function)
    if kept is None:
        return int(compile_kernel(function, _NUMBERS[dtype], cache=False).address)
    kept.remove_damaged()
    try:
        compiled = compile_kernel(function, _NUMBERS[dtype], cache=True)
    except Exception:  # whatever reading what is kept may raise, or a disk that is full
        kept.remove()
        compiled = compile_kernel(function, _NUMBERS[dtype], cache=False)
    else:
        if not compiled.cache_hits:
            kept.seal()
            kept.remove_stale()
    return int(compiled.address)


class _Kept:
    """What Numba keeps on disk of a kernel: index and code, with a digest of both, since damaged code would run."""

    def __init__(self, folder: Path, module: str, function: Any) -> None:
        self.folder, self.module = folder, module
        self.name, self.own = function.__name__, f"{self.module}.{function.__qualname__}"
        self.seal_file = folder / f"{self.own}.sha256"

    def digests(self) -> str:
        """Names and digests of the files."""
        files = sorted(path for path in self.folder.glob(f"{self.own}-*.nb[ic]"))
        return "".join(f"{sha256(path.read_bytes()).hexdigest()} {path.name}\n" for path in files)

    def remove_damaged(self) -> None:
        """Remove files that are not as they were written, or that others may have written."""
        for trial in range(_TRIALS):
            try:
                found = self.digests()
                if not found:
                    return
                if found == self.seal_file.read_text() and _written_by_others(self.seal_file) is None:
                    return
            except (OSError, ValueError):
                pass  # another process is about to write or to remove them, or there is no digest
            if trial < _TRIALS - 1:
                sleep(_PAUSE)
        self.remove()

    def seal(self) -> None:
        """Write the digest, at once for other processes."""
        with suppress(OSError):
            part = self.seal_file.with_suffix(f".{os.getpid()}.part")
            part.write_text(self.digests())
            part.replace(self.seal_file)

    def remove(self) -> None:
        """Remove all of this kernel."""
        for path in [*self.folder.glob(f"{self.own}-*.nb[ic]"), self.seal_file]:
            with suppress(OSError):  # another process was quicker, or still reads it
                path.unlink()

    def remove_stale(self) -> None:
        """Remove what was compiled from other sources, known by the names."""
        ending = r"(-\d+\.py\d+\w*(\.\d+)?\.nb[ic]|\.sha256)"
        ours = re.compile(rf"{re.escape(f'{self.module}.{self.name}')}_[0-9a-f]{{12}}{ending}")
        for path in self.folder.iterdir():
            if ours.fullmatch(path.name) and not path.name.startswith(self.own):
                with suppress(OSError):
                    path.unlink()


def _kept_files(function: Any) -> _Kept | None:
    """What Numba keeps of a kernel, or None where it must not be kept, with one warning."""
    try:
        folder = Path(FunctionCache(function).cache_path)
        # In a folder with the sticky bit, such as /tmp, nobody else can replace the folders of a user.
        above = [part for part in folder.resolve().parents if not part.stat().st_mode & stat.S_ISVTX]
        place = next(filter(None, map(_written_by_others, (folder, *above))), None)
        if place is None and hasattr(os, "getuid") and folder.stat().st_uid not in _trusted_owners():
            place = folder
    except (RuntimeError, OSError):
        _warn_of_cache("no folder for compiled kernels can be written to")
        return None
    if place is not None:
        _warn_of_cache(f"compiled kernels are not kept in {folder}: other users can write to {place}, and so run code")
        return None
    return _Kept(folder, Path(function.__code__.co_filename).stem, function)


def _written_by_others(place: Path) -> Path | None:
    """The place, if its permissions let other users write to it."""
    if not hasattr(os, "getuid"):  # Windows, whose modes say nothing about other users
        return None
    status = place.stat()
    is_open = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid))
    return place if is_open else None


def _trusted_owners() -> set[int]:
    """Root, the user of the process, and who owns the package, whose code runs anyhow."""
    return {0, os.getuid(), Path(__file__).stat().st_uid}


def _is_own_group(number: int) -> bool:
    """Whether this user is alone in a group, as in the one that many systems make for each user."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user and set(group.gr_mem) <= {user}


@cache
def _warn_of_cache(reason: str) -> None:
    """Warn that each process compiles anew."""
    warn(
        f"{reason}; every process compiles them anew, which can take half a minute. Set NUMBA_CACHE_DIR to a folder "
        "that only you can write to.",
        KernelWarning,
    )


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
