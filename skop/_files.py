"""Files that are written as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["require_writable", "write_in_one_step"]

#: End of the name of a temporary file, and its age in seconds from which no process is still writing it.
_TEMPORARY, _ABANDONED = ".skop-part", 3600.0
#: Errors of a disk without room, or of a user who has used all of theirs.
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise an error if a file cannot be written, before the work on its content.

    Parameters
    ----------
    path : path-like
        File that will be written.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If its folder does not exist, or is a file.
    IsADirectoryError, FileExistsError
        If the path is a folder, or a pipe or a device.
    OSError
        If no file can be made in the folder; of the class that the system gives, such as PermissionError.
    """
    path, target = Path(path), Path(os.path.realpath(path))
    folder = target.parent if path.is_symlink() else path.parent
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(
            f"{str(path)!r} cannot be written, since {str(folder)!r} is no folder but a file; correct the path."
        )
    if not folder.exists():
        raise FileNotFoundError(
            f"there is no folder {str(folder)!r} to save {str(path)!r} in; make it first, or correct the path."
        )
    _mode_of_file(path, target)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        # The permissions alone do not tell: not of a file system that takes no files, and nothing to an administrator.
        raise type(error)(
            f"{str(path)!r} cannot be written, since no file can be made in the folder {str(folder)!r} "
            f"({error.strerror}); choose another folder."
        ) from error


def _mode_of_file(given: str | os.PathLike[str], target: Path) -> int | None:
    """Mode of a file, of which `target` is the path without links; None if there is none. Raise an error for others."""
    if target.is_symlink():
        raise FileExistsError(f"{str(given)!r} is a link that leads back to itself; remove it, or choose another path.")
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{str(given)!r} is a folder; pass the path of a file, such as one in this folder.")
    if mode is not None and not stat.S_ISREG(mode):
        raise FileExistsError(f"{str(given)!r} is a pipe or a device and no file; pass the path of a file.")
    return mode


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
    mode = _mode_of_file(given, path)
    try:
        _write_and_rename(path, content, mode)
    except OSError as error:
        if error.errno is None:
            raise
        # A full disk names no path, and other errors that of the temporary file. The number tells the class.
        remedy = "free some space, or choose" if error.errno in _FULL else "choose"
        words = f"{error.strerror}; an earlier file at this path, if any, is unchanged; {remedy} another folder"
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
