"""The container of a model file: safetensors with a JSON header, versions and a checksum of everything."""

from __future__ import annotations

import hashlib
import json
import platform
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from skop._files import write_in_one_step
from skop._typing import PathOrStr
from skop._version import __version__
from skop.data._file_guards import free_memory
from skop.data._mesh_files import nearby
from skop.exceptions import ModelFileError

__all__ = ["digest", "read_container", "write_container"]

#: Version of the file format, incremented when the layout changes.
_FORMAT = 2
#: Ending of the states of a training, which a fit writes and no user.
_CHECKPOINT = ".checkpoint"


def write_container(path: PathOrStr, header: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a header of JSON types, with the versions of the packages, and tensors; a file is replaced in one step."""
    versions = {
        "skop": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
    }
    text, seen = json.dumps({"format": _FORMAT, "versions": versions} | dict(header), sort_keys=True), set[int]()
    apart: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        # An object that two attributes hold, such as that in a FrozenEstimator, is written twice.
        apart[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    content = save_tensors(apart, {"skop": text, "sha256": digest(text, apart)})
    write_in_one_step(Path(path), _with_sorted_header(content))


def _with_sorted_header(content: bytes) -> bytes:
    """Sort the names in the header of a safetensors file, whose metadata come in a random order."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    # Tensors start at a multiple of eight bytes, as the writer of the format has them.
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[end:]


def digest(text: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """Checksum of the header and of every tensor with its name, type and shape."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.numpy().tobytes())
    return total.hexdigest()


def _content(path: PathOrStr) -> bytes:
    """Bytes of a file; a pipe or device, which would never end, is refused."""
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}; {nearby(file)}.")
    mode = file.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(
            f"{str(path)!r} is a folder; pass the path of a model file, such as one in this folder."
        )
    if not stat.S_ISREG(mode):
        raise ModelFileError(f"{path} is no file but a pipe or a device; pass the path of a model file.")
    if (size := file.stat().st_size) > (free := free_memory()):
        raise ModelFileError(
            f"{path} has {size:,} bytes, and {free:,} bytes of memory are free; free some, or check the path."
        )
    return file.read_bytes()


def _remedies(path: PathOrStr, key: str | None) -> tuple[str, str]:
    """What to do about a file that is none of skop, and about one whose content has changed."""
    if key is None and Path(path).suffix != _CHECKPOINT:
        return "save it again with est.save(path)", "take a fresh copy"
    # Nobody saves a checkpoint, or has a copy of one.
    return ("remove it: the fit then takes an earlier one, or starts anew",) * 2


def read_container(path: PathOrStr, key: str | None = None) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Read header and tensors of a model file, and check that it is complete and of a readable format."""
    content, (again, copy) = _content(path), _remedies(path, key)
    try:
        tensors = load_tensors(content)
        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        text, expected = metadata["skop"], metadata["sha256"]
        found = digest(text, tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(
            f"{path} is not a skop model file, or is damaged ({type(error).__name__}: {error}); {again}."
        ) from error
    if found != expected:
        raise ModelFileError(f"{path} is damaged: its checksum does not match its content; {copy}.")
    try:
        header = json.loads(text)
        written, theirs = (header["versions"][name] for name in ("skop", "scikit-learn"))
        is_whole = type(header["format"]) is int and isinstance(written, str) and isinstance(theirs, str)
        is_whole &= isinstance(header["estimator"], dict)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path} has an invalid header ({type(error).__name__}); {again}.") from error
    if not is_whole:
        raise ModelFileError(f"{path} has a header without format, versions or estimator; {again}.")
    if header["format"] != _FORMAT:
        raise ModelFileError(
            f"{path} has format {header['format']}, written by skop {written[:80]}; this skop "
            f"{__version__} reads format {_FORMAT}. {'Upgrade skop' if header['format'] > _FORMAT else 'Fit again'}."
        )
    if key is not None and header.get("key") != key:
        raise ModelFileError(f"{path} was written in another place, or by another fit; remove it.")
    return header, tensors
