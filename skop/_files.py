"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["require_folder", "write_in_one_step"]

#: End of the name of a temporary file, and its age in seconds from which no process is still writing it.
_TEMPORARY, _ABANDONED = ".skop-part", 3600.0


def require_folder(path: str | os.PathLike[str]) -> None:
    """Raise an error if the folder of a file that is to be written does not exist, before the work on its content.

    Parameters
    ----------
    path : path-like
        File that will be written.

    Raises
    ------
    FileNotFoundError
        If its folder does not exist.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(folder)!r} to save {str(path)!r} in; make it first, or correct the path."
        )


def write_in_one_step(path: Path, content: bytes | Callable[[Path], object]) -> None:
    """Write a temporary file and rename it, so that a crash leaves either the old or the new file.

    Parameters
    ----------
    path : Path
        File to write.
    content : bytes or callable
        What it will hold, which is flushed to disk; or a function that writes a file of the same ending, such as one of
        thousands that need no flush each.

    Raises
    ------
    OSError
        If the file cannot be written, of which the message has the path, or is a folder, a pipe or a device.
    """
    # A link stays one, and its target is written.
    given, path = path, Path(os.path.realpath(path))
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{str(given)!r} is a folder; pass the path of a file, such as one in this folder.")
    if mode is not None and not stat.S_ISREG(mode):
        raise FileExistsError(f"{str(path)!r} is a pipe or a device and no file; pass the path of a file.")
    try:
        _write_and_rename(path, content, mode)
    except OSError as error:
        if error.errno is None:
            raise
        # A full disk names no path, and other errors that of the temporary file. The number tells the class.
        words = f"{error.strerror}; an earlier file at this path, if any, is unchanged"
        raise OSError(error.errno, words, str(given)) from error


def _write_and_rename(path: Path, content: bytes | Callable[[Path], object], mode: int | None) -> None:
    """Write a temporary file, and rename it when it is complete; `mode` is that of the earlier file."""
    # The name of a file may be as long as the system allows, and that of the temporary one not longer.
    prefix = f".{path.name[:40]}."
    if not callable(content):
        # Among thousands of meshes, to look for them each time would take longer than to write.
        _remove_abandoned(path.parent, prefix)
    ending = path.suffix if callable(content) else ""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=_TEMPORARY + ending)
    try:
        with os.fdopen(handle, "wb") as file:
            if not callable(content):
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        if callable(content):
            content(Path(name))
        # mkstemp creates private files; set the permissions of the old file, or those that an ordinary open would give.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask if mode is None else stat.S_IMODE(mode))
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove temporary files of this name that a killed process has left behind."""
    for left in folder.iterdir():
        if left.name.startswith(prefix) and _TEMPORARY in left.name:
            try:
                if time.time() - left.stat().st_mtime > _ABANDONED:
                    left.unlink()
            except OSError:
                # Another process has removed it.
                continue
