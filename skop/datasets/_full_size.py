"""Data sets of the papers at full size, written to HDF5 files sample by sample.

A sample is seeded by its number alone, so that a run which was killed goes on with the next one, and no run holds more
than a few samples in memory.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from skop._files import write_in_one_step
from skop._jobs import workers_for
from skop._optional import import_optional
from skop._typing import FloatArray
from skop._version import __version__
from skop.data import FieldSet
from skop.datasets import (
    _advection,
    _airfoil,
    _brusselator,
    _darcy,
    _diffusion_reaction,
    _elasticity,
    _european_option,
    _navier_stokes,
    _pipe,
    _plasticity,
    _shallow_water,
)
from skop.datasets._sampling import _check_integer
from skop.exceptions import FieldDataError

#: Array with the number of samples that are in a file, and attribute with what they were made by.
_COUNT, _RECIPE = "samples_made", "recipe"
#: Arrays of a sample by the names under which they are read, and whether all samples share them.
Arrays = dict[str, tuple[FloatArray, bool]]


@dataclass(frozen=True)
class FullSize:
    """A data set as a paper uses it: generator, its options, and numbers of samples to train and to test."""

    make: Any
    n_train: int
    n_test: int
    options: dict[str, Any] = field(default_factory=dict)


_ON_GRID = {"return_coords": True}
#: The sets of the papers by the names of their cards.
FULL_SIZE = {
    "advection": FullSize(_advection.make_advection, 1000, 200, _ON_GRID),
    "airfoil": FullSize(_airfoil.make_airfoil, 1000, 200),
    "brusselator": FullSize(_brusselator.make_brusselator, 800, 200),
    "darcy": FullSize(
        _darcy.make_darcy, 1000, 200,
        {"resolution": 85, "solver_resolution": 421, "n_modes": 421, "placement": "cell_center"} | _ON_GRID,
    ),
    "diffusion_reaction": FullSize(
        _diffusion_reaction.make_diffusion_reaction, 900, 100, {"resolution": 128} | _ON_GRID
    ),
    "elasticity": FullSize(_elasticity.make_elasticity, 1000, 200, {"shuffle_points": True}),
    "european_option": FullSize(_european_option.make_european_option, 1000, 200),
    "fractal_darcy": FullSize(
        _darcy.make_darcy, 1000, 200, {"variant": "fractal", "resolution": 256, "n_points": 2000}
    ),
    "navier_stokes": FullSize(
        _navier_stokes.make_navier_stokes, 1000, 200,
        {"viscosity": 1e-5, "resolution": 64, "solver_resolution": 256} | _ON_GRID,
    ),
    "pdebench_darcy": FullSize(
        _darcy.make_darcy, 9000, 1000, {"variant": "pdebench", "resolution": 64, "solver_resolution": 128} | _ON_GRID
    ),
    "pipe": FullSize(_pipe.make_pipe, 1000, 200),
    "plasticity": FullSize(_plasticity.make_plasticity, 900, 80),
    "shallow_water": FullSize(_shallow_water.make_shallow_water, 900, 100, {"resolution": 128} | _ON_GRID),
}  # fmt: skip


@dataclass(frozen=True)
class SetFile:
    """A file with successive samples of a set: ``train.h5``, which is ``train.h5.part`` until all are made."""

    path: Path
    full: FullSize
    seed: int
    start: int
    count: int

    def write(self, n_jobs: int | None = None) -> Iterator[int]:
        """Make the samples that are missing in `n_jobs` threads, and yield how many there are, from the first on.

        Raises FieldDataError if the file is there and holds other samples, or if a sample cannot be made.
        """
        part = self.path.with_name(f"{self.path.name}.part")
        if self.path.exists():
            yield self._made(self.path)
            return
        made = self._made(part) if part.exists() else 0
        yield made
        n_workers = workers_for(n_jobs, self.count - made)
        # Where writing is slower than making, samples would otherwise fill the memory. Room is given in the order of
        # the samples: a count of free places could go to later ones alone, while all wait for the next.
        written, ahead = Condition(), 2 * effective_n_jobs(n_workers)

        def make_where_room(number: int) -> Arrays:
            with written:
                written.wait_for(lambda: number < made + ahead)
            return self._make(number)

        tasks = (delayed(make_where_room)(number) for number in range(made, self.count))
        try:
            for arrays in Parallel(n_workers, require="sharedmem", batch_size=1, return_as="generator")(tasks):
                if not made:
                    write_in_one_step(part, partial(self._allocate, arrays))
                _write_sample(part, made, arrays)
                with written:
                    made += 1
                    written.notify_all()
                yield made
        finally:
            with written:
                ahead = self.count  # no thread waits for a call that has ended
                written.notify_all()
        part.replace(self.path)

    @property
    def _recipe(self) -> str:
        """What decides on the samples, as text."""
        numbers = {"seed": self.seed, "first": self.start, "count": self.count}
        return json.dumps({"made_by": self.full.make.__name__, **numbers, **self.full.options, "skop": __version__})

    def _made(self, path: Path) -> int:
        """Number of samples in a file of this set."""
        try:
            with _h5py().File(path, "r") as file:
                recipe, made = file.attrs[_RECIPE], int(file[_COUNT][()])
        except (OSError, KeyError) as error:
            raise FieldDataError(f"{path} is no file of such a set: {error}. Remove it, or write elsewhere.") from error
        if recipe != self._recipe:
            raise FieldDataError(
                f"{path} holds other samples, made by {recipe}; asked for are {self._recipe}. Remove it, or write "
                "elsewhere."
            )
        return made

    def _make(self, number: int) -> Arrays:
        """Make one sample."""
        # A root that has spawned so many seeds before goes on with the seed of this sample.
        root: Any = np.random.SeedSequence(self.seed, n_children_spawned=self.start + number)
        try:
            return arrays_of(*self.full.make(1, random_state=root, **self.full.options))
        except FieldDataError as error:
            reason = str(error).removeprefix("Sample 0: ")
            raise FieldDataError(f"{self.path}, sample {number}: {reason}") from error

    def _allocate(self, arrays: Arrays, path: Path) -> None:
        """Write a file with room for all samples."""
        h5py = _h5py()
        with h5py.File(path, "w") as file:
            file.attrs[_RECIPE] = self._recipe
            file[_COUNT] = 0
            for name, (array, is_shared) in arrays.items():
                if is_shared:
                    file[name] = array
                    continue
                # All room now, so that later only numbers are written, and a kill leaves a file that can be read.
                plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                plan.set_obj_track_times(False)
                space = h5py.h5s.create_simple((self.count, *array.shape[1:]))
                h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(array.dtype), space, plan)


def parts_of_set(full: FullSize, folder: Path, n_samples: int | None = None, seed: int = 0) -> list[SetFile]:
    """The two files of a set, of which each holds at most `n_samples`; sample i of a file does not depend on that.

    Samples to test are those that follow after all samples to train, whether these are made or not.
    """
    # Before a folder or a sample is made.
    _h5py()
    counts = {"train": full.n_train, "test": full.n_test}
    if n_samples is not None:
        _check_integer("n_samples", n_samples, 1)
    starts = {"train": 0, "test": full.n_train}
    return [
        SetFile(folder / f"{name}.h5", full, seed, starts[name], count if n_samples is None else min(count, n_samples))
        for name, count in counts.items()
    ]


def _write_sample(path: Path, number: int, arrays: Arrays) -> None:
    """Write one sample, and after that that it is there."""
    with _h5py().File(path, "r+") as file:
        for name, (array, is_shared) in arrays.items():
            if not is_shared:
                file[name][number] = array[0]
        file.flush()
        file[_COUNT][()] = number + 1


def arrays_of(X: Any, y: Any) -> Arrays:
    """Arrays of what a generator returns for one sample."""
    coords, X = X if isinstance(X, tuple) else (None, X)
    found: Arrays = {} if coords is None else {"coords": (coords.reshape(-1, coords.shape[-1]), True)}
    for name, item in (("X", X), ("y", y)):
        if isinstance(item, FieldSet):
            grid = item.grid_shape or (item.coords.shape[-2],)
            # Shared points stay in a row: on a grid, they could be taken for those of as many samples.
            own = item.coords if item.shared_coords else item.coords.reshape(1, *grid, -1)
            found["coords"] = own, item.shared_coords
            if item.params is not None:
                found["params"] = item.params, False
            if item.values is not None:
                found[name] = item.values.reshape(1, *grid, -1), False
        else:
            found["params" if name == "X" and item.ndim == 2 else name] = item, False
    return found


def _h5py() -> Any:
    """Import h5py."""
    return import_optional("h5py", purpose="write data sets, which are HDF5 files")
