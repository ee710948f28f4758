"""Mesh files of every format that meshio writes, cut off or changed: a mesh or a clear error, in bounded time."""

import contextlib
import io
import signal
import warnings
from pathlib import Path

import meshio
import numpy as np
import pytest
from scipy.spatial import Delaunay

from skop.data import read_meshes
from skop.exceptions import FieldDataError

RNG = np.random.default_rng(0)
POINTS = RNG.random((12, 3))
TETRA = meshio.Mesh(POINTS, [("tetra", Delaunay(POINTS).simplices)], point_data={"u": np.arange(12.0)})
PLANE = meshio.Mesh(
    np.column_stack([POINTS[:, :2], np.zeros(12)]),
    [("triangle", Delaunay(POINTS[:, :2]).simplices)],
    point_data={"u": np.arange(12.0)},
)
#: Most seconds for one small file. Those that are not read for ever take milliseconds.
LIMIT = 20


class Late(BaseException):
    """A file took too long; no handler of errors catches it."""


@pytest.fixture
def watch():
    """Function that limits the time of a block; a warning about the damage is not looked at."""

    def ring(number, frame):
        raise Late

    @contextlib.contextmanager
    def limited():
        signal.alarm(LIMIT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        signal.alarm(0)

    before = signal.signal(signal.SIGALRM, ring)
    yield limited
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def written(folder, ending):
    """A mesh in a format, as the name of its file, or None where meshio cannot write one that it reads."""
    for name, mesh in (("tetra", TETRA), ("plane", PLANE)):
        path = folder / f"{name}{ending}"
        said = io.StringIO()
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            contextlib.suppress(Exception, SystemExit),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            meshio.write(path, mesh)
            read_meshes([path])
            return path
        path.unlink(missing_ok=True)
    return None


def damaged(content, n_each, rng):
    """Cut versions of a file, and versions with a few other digits or bits."""
    yield from (content[:length] for length in rng.integers(1, len(content), n_each))
    yield from (content[:-length] for length in (1, 2, 3, 7))
    for _ in range(n_each):
        changed = bytearray(content)
        for place in rng.integers(0, len(content), rng.integers(1, 5)):
            is_digit = 48 <= changed[place] < 58
            changed[place] = 48 + rng.integers(10) if is_digit else changed[place] ^ (1 << rng.integers(8))
        yield bytes(changed)


def check_damage(folder, ending, n_each, watch):
    """Read damaged versions of a file; return their number, and how many were refused."""
    path = written(folder, ending)
    if path is None:
        return 0, 0
    rng, count, refused = np.random.default_rng(len(ending)), 0, 0
    for content in damaged(path.read_bytes(), n_each, rng):
        Path(path).write_bytes(content)
        count += 1
        with watch():
            try:
                fields = read_meshes([path]).fields
            except FieldDataError:
                refused += 1
            else:
                assert np.isfinite(fields.coords).all()
    return count, refused


@pytest.mark.parametrize("n_each", [2, pytest.param(25, marks=pytest.mark.exhaustive)])
def test_damaged_files_are_read_or_refused(tmp_path, watch, n_each):
    """No other error, and no file that is read for ever; damage that leaves a valid file is read."""
    found = {ending: check_damage(tmp_path, ending, n_each, watch) for ending in meshio.extension_to_filetypes}
    known = {ending: count for ending, count in found.items() if count[0]}
    assert len(known) > 20
    assert sum(refused for _, refused in known.values()) > 0.5 * sum(count for count, _ in known.values())


def test_reading_many_cuts_of_text(tmp_path, watch):
    """A format that was read for ever, at every length."""
    path = written(tmp_path, ".wkt")
    content = path.read_bytes()
    for length in range(1, len(content) - 2, 7):
        path.write_bytes(content[:length])
        with watch(), pytest.raises(FieldDataError):
            read_meshes([path])
