"""Data sets of the papers, written sample by sample: small ones by the same rules."""

import errno
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import h5py
import joblib
import numpy as np
import pytest
from joblib._parallel_backends import ThreadingBackend

from skop import FieldSet
from skop.cli import main
from skop.cli._sets import SETS
from skop.data.forms.files import read_arrays
from skop.datasets._full_size import FULL_SIZE, parts_of_set
from skop.exceptions import FieldDataError

FRAMES = {"resolution": 16, "n_input": 2, "n_output": 3}
#: Options that make the samples of each set small.
SMALL = {
    "advection": {},
    "airfoil": {"n_cells": (16, 40, 16), "mach": 0.4},
    "brusselator": {"resolution": 8, "n_times": 4},
    "darcy": {"resolution": 5, "solver_resolution": 21, "n_modes": 21},
    "diffusion_reaction": FRAMES,
    "elasticity": {"n_points": (40, 7)},
    "european_option": {"resolution": 5},
    "fractal_darcy": {"resolution": 16, "n_points": 30},
    "navier_stokes": FRAMES | {"solver_resolution": 16},
    "pdebench_darcy": {"resolution": 8, "solver_resolution": 16},
    "pipe": {"n_points": (33, 17), "viscosity": 0.02},
    "plasticity": {"n_points": (11, 4), "n_times": 3, "duration": 2e-4},
    "shallow_water": FRAMES | {"frame_interval": 0.1},
}


def small(name, n_train=3, n_test=2):
    full = FULL_SIZE[name]
    return replace(full, n_train=n_train, n_test=n_test, options=full.options | SMALL[name])


def write(full, folder, n_samples=None, n_jobs=None, seed=0):
    folder.mkdir(exist_ok=True)
    files = parts_of_set(full, folder, n_samples, seed)
    for file in files:
        assert list(file.write(n_jobs))[-1] == file.count
    return [file.path for file in files]


def arrays_of(path):
    with h5py.File(path, "r") as file:
        return {name: item[()] for name, item in file.items() if item.shape}


def same(first, second, rows=slice(None)):
    """Whether two files hold the same arrays, or the same rows of those with a sample axis."""
    ours, theirs = arrays_of(first), arrays_of(second)
    assert ours.keys() == theirs.keys()
    is_shared = {name: ours[name].ndim == 2 and name == "coords" for name in ours}
    return all(np.array_equal(ours[name][() if is_shared[name] else rows],
                              theirs[name][() if is_shared[name] else rows]) for name in ours)  # fmt: skip


#: Takes ten seconds, and is arranged like "pipe".
SLOW = pytest.param("airfoil", marks=pytest.mark.exhaustive)


@pytest.mark.parametrize("name", [SLOW if name == "airfoil" else name for name in FULL_SIZE])
def test_files_are_read_as_what_the_generator_returns(name, tmp_path):
    full = small(name, 2, 1)
    X, y = full.make(3, random_state=0, **full.options)
    coords, X = X if isinstance(X, tuple) else (None, X)
    for path, rows in zip(write(full, tmp_path), (slice(0, 2), slice(2, 3)), strict=True):
        for found, made in zip(read_arrays(path, {}, needs_targets=True), (X, y), strict=True):
            if isinstance(made, FieldSet):
                np.testing.assert_array_equal(found.coords, made[rows].coords)
                assert (found.grid_shape, found.shared_coords) == (made.grid_shape, made.shared_coords)
                assert (made.values is None) == (found.values is None)
                if made.values is not None:
                    np.testing.assert_array_equal(found.values, made[rows].values)
            elif made.ndim == 2:
                np.testing.assert_array_equal(found, made[rows])
            else:
                # Flows are transformed in batches.
                tolerance = 1e-5 if name == "navier_stokes" else 0
                values = found.to_grid() if found.grid_shape else found.values
                np.testing.assert_allclose(values, made[rows].reshape(values.shape), rtol=0, atol=tolerance)
                if coords is not None:
                    np.testing.assert_array_equal(found.coords, coords.reshape(found.coords.shape))


@pytest.mark.parametrize("name", ["darcy", "navier_stokes", "elasticity"])
def test_samples_depend_on_neither_their_number_nor_jobs(name, tmp_path):
    full = small(name)
    whole = write(full, tmp_path / "whole")
    for folder, options, rows in (
        ("fewer", {"n_samples": 2}, slice(0, 2)),
        ("jobs", {"n_jobs": 2}, slice(None)),
        ("more", {"n_samples": 9}, slice(None)),
    ):
        for ours, theirs in zip(write(full, tmp_path / folder, **options), whole, strict=True):
            kept = {key: array[rows] if len(array) == 3 else array for key, array in arrays_of(theirs).items()}
            for key, array in arrays_of(ours).items():
                np.testing.assert_array_equal(array, kept[key][: len(array)])
    assert not same(write(full, tmp_path / "seed", seed=1)[0], whole[0])


def test_a_run_that_ends_early_goes_on_where_it_stopped(tmp_path):
    full, made = small("darcy", 5), []

    def counting(n_samples, random_state, **options):
        made.append(random_state.n_children_spawned)
        return full.make(n_samples, random_state=random_state, **options)

    counted = replace(full, make=counting)
    counting.__name__ = full.make.__name__
    whole, _ = write(full, tmp_path / "whole")
    file, _ = parts_of_set(counted, tmp_path)
    writing = file.write()
    assert [next(writing) for _ in range(4)] == [0, 1, 2, 3]
    assert made == [0, 1, 2], "samples are made before they are written, and held in memory"
    writing.close()
    assert not file.path.exists()
    assert list(file.write()) == [3, 4, 5]
    assert made == [0, 1, 2, 3, 4]
    assert whole.read_bytes() == file.path.read_bytes()
    assert list(file.write()) == [5]
    assert [path.name for path in tmp_path.glob("*.h5*")] == ["train.h5"]


def test_a_killed_command_goes_on_to_the_same_bytes(tmp_path):
    command = [sys.executable, "-m", "skop", "data", "make", "pdebench_darcy", "--samples", "15", "-q", "-o"]
    run = subprocess.Popen([*command, tmp_path / "killed"])
    part = tmp_path / "killed" / "train.h5.part"
    end = time.monotonic() + 120
    while not part.exists() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert part.exists()
    with h5py.File(part, "r") as file:
        assert 0 <= file["samples_made"][()] < 15
    for folder in ("killed", "whole"):
        assert main(["data", "make", "pdebench_darcy", "--samples", "15", "-q", "-o", str(tmp_path / folder)]) == 0
    for name in ("train.h5", "test.h5"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_few_samples_are_held_in_memory_while_threads_make_more(tmp_path):
    lock, making = threading.Lock(), []

    def make(n_samples, random_state):
        with lock:
            making.append(random_state.n_children_spawned)
        time.sleep(0.002)
        return np.zeros((1, 4, 1)), np.zeros((1, 4, 1))

    file, _ = parts_of_set(replace(small("darcy", 60), make=make, options={}), tmp_path)
    ahead = [len(making) - made for made in file.write(2)]
    assert max(ahead) <= 4


class OneLate(ThreadingBackend):
    """Threads of joblib in which the first task starts long after those that follow it."""

    n_submitted = 0

    def submit(self, func, callback=None):
        delay, self.n_submitted = 0 if self.n_submitted else 0.1, self.n_submitted + 1
        return super().submit(lambda: (time.sleep(delay), func())[1], callback)


def test_a_thread_that_starts_late_holds_nothing_up(tmp_path):
    def make(n_samples, random_state):
        return np.zeros((1, 4, 1)), np.zeros((1, 4, 1))

    file, _ = parts_of_set(replace(small("darcy", 20), make=make, options={}), tmp_path)
    with joblib.parallel_config(OneLate()):
        assert list(file.write(2))[-1] == 20


def test_what_is_there_is_never_overwritten(tmp_path):
    full = small("darcy")
    paths = write(full, tmp_path)
    before = paths[0].read_bytes()
    for other, seed in ((full, 1), (small("darcy", 4), 0), (replace(full, options=full.options | {"tau": 2.0}), 0)):
        with pytest.raises(FieldDataError, match=r"train\.h5 holds other samples, made by .*Remove it, or write else"):
            write(other, tmp_path, seed=seed)
    assert paths[0].read_bytes() == before
    for content in (b"something else", before[: len(before) // 2]):
        paths[0].write_bytes(content)
        with pytest.raises(FieldDataError, match=r"train\.h5 is no file of such a set"):
            write(full, tmp_path)
        assert paths[0].read_bytes() == content


def test_a_sample_that_cannot_be_made_is_named_by_its_file_and_number(tmp_path):
    full = small("darcy")

    def make(n_samples, random_state, **options):
        if random_state.n_children_spawned == 4:
            raise FieldDataError("Sample 0: the permeability is not finite.")
        return full.make(n_samples, random_state=random_state, **options)

    with pytest.raises(FieldDataError, match=r"test\.h5, sample 1: the permeability is not finite"):
        write(replace(full, make=make), tmp_path)
    assert (tmp_path / "train.h5").exists()
    assert not (tmp_path / "test.h5").exists()


def test_the_command_names_the_sets_and_each_card_names_the_command(tmp_path, capsys):
    assert set(SETS) == set(FULL_SIZE)
    for name in SETS:
        card = Path(__file__).parents[2] / "datasets" / {"fractal_darcy": "darcy"}.get(name, name) / "README.md"
        assert f"skop data make {name} --full" in card.read_text()
    assert main(["data"]) == 2
    assert capsys.readouterr().err.splitlines() == ["skop data: error: Missing command. See: skop data --help"]
    assert main(["data", "make", "advection", "-o", str(tmp_path)]) == 2
    assert "say --full for as many samples as the paper has, or --samples N" in capsys.readouterr().err
    for _ in range(2):
        assert main(["data", "make", "advection", "--samples", "2", "-o", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        f"{tmp_path / name}.h5: 2 samples" for name in ("train", "test")
    ] * 2
    assert "all made before" in lines[-1]
    assert "made before" not in lines[0]


def test_a_folder_that_takes_no_files_is_named_before_a_sample_is_made(tmp_path, monkeypatch, capsys):
    def refuse(**_):
        raise PermissionError(errno.EACCES, "as the system says")

    monkeypatch.setattr("skop._files.tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("skop.datasets._full_size.SetFile._make", lambda *_: pytest.fail("a sample was made"))
    assert main(["data", "make", "advection", "--samples", "2", "-o", str(tmp_path / "sets")]) == 2
    assert "train.h5' cannot be written, " in (said := capsys.readouterr().err)
    assert "(as the system says); choose another folder" in said


def test_without_h5py_the_command_fails_before_anything_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert main(["data", "make", "advection", "--samples", "2", "-o", str(tmp_path / "sets")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("skop data: error: h5py is needed to write data sets")
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "sets").exists()
