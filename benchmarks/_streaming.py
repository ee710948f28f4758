"""Time of a fit whose data are in memory, in memory maps, in HDF5 files and in Zarr arrays.

Every row has the same samples: inputs of three channels and targets of one, in single precision. "batches" are the
seconds in which all batches of an epoch are made in shuffled order, without a network; "fit" is a whole fit of one
epoch, with the checks and statistics before it. Both are times of the processor, which depend less on other programs.
The files have just been written, so that the system still has them in memory: the disk itself is not measured.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._report import Report
from skop._optional import import_optional
from skop._typing import FloatArray
from skop.data import FieldLoader, FieldSet, Scalers, ScalingOptions, Targets, unit_grid
from skop.estimators import LaMORegressor

__all__ = ["add_command"]

#: Opened arrays of inputs and targets.
_Arrays = dict[str, Any]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Where to add it.
    """
    parser = commands.add_parser("streaming", help=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--resolution", type=int, default=64, help="points per side of the grid")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--chunks", type=int, nargs="+", default=[1, 16], help="samples in a chunk of a file")
    parser.add_argument("--repeats", type=int, default=3, help="epochs of batches, of which the fastest counts")
    parser.add_argument("--no-fit", action="store_true", help="measure the batches alone")
    parser.add_argument("--folder", help="where the files are written, and removed; by default that of the system")
    parser.add_argument("--output", help="Markdown file to write, with a JSON file beside it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        The command's options.
    """
    torch.set_num_threads(1)
    report, rows = Report("Data in memory and in files", options.output, ["LaMORegressor"]), []
    arrays = _made(options)
    first: dict[str, float] = {}
    weights: dict[str, FloatArray] = {}
    if not options.no_fit:
        # Compiles the kernels, where they are new.
        _fit({name: array[:16] for name, array in arrays.items()}, options)
    for name, opened in _stores(options.chunks).items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, opened(Path(folder), arrays) as stored:
            numbers = {"batches": _batches(stored, options)}
            if not options.no_fit:
                numbers["fit"], weights[name] = _fit(stored, options)
        same = name not in weights or bool(np.array_equal(weights[name], weights["memory"]))
        report.record(name, numbers | {"same weights": same})
        first = first or numbers
        cells = [cell for key, value in numbers.items() for cell in (f"{value:.2f} s", f"{value / first[key]:.2f}")]
        rows.append([name, *cells, *([] if options.no_fit else ["yes" if same else "no"])])
    megabytes = sum(array.nbytes for array in arrays.values()) / 1e6
    columns = ["data in", "batches", "to memory"]
    columns += [] if options.no_fit else ["fit", "to memory", "weights of memory"]
    grid = f"{options.resolution} x {options.resolution}"
    title = (
        f"{options.samples} samples of {grid} points, {megabytes:.0f} MB, {options.batch_size} in a batch, one thread"
    )
    report.table(title, columns, rows)


def _made(options: argparse.Namespace) -> dict[str, FloatArray]:
    """Random inputs, and targets that depend on them."""
    side, rng = options.resolution, np.random.default_rng(0)
    x = rng.normal(size=(options.samples, side * side, 3)).astype(np.float32)
    y = np.cumsum(x, axis=1).sum(axis=-1, keepdims=True, dtype=np.float32) / side
    return {"x": x, "y": y}


def _stores(chunks: list[int]) -> dict[str, Callable[[Path, dict[str, FloatArray]], Any]]:
    """Ways to keep the data, by their names."""
    stores: dict[str, Any] = {"memory": _in_memory, "memory map": _memory_map}
    for count in chunks:
        words = f"{count} sample{'s' * (count > 1)} in a chunk"
        stores[f"HDF5, {words}"] = lambda folder, arrays, count=count: _hdf5(folder, arrays, count)
        stores[f"HDF5 with gzip, {words}"] = lambda folder, arrays, count=count: _hdf5(folder, arrays, count, "gzip")
        stores[f"Zarr, {words}"] = lambda folder, arrays, count=count: _zarr(folder, arrays, count)
    return stores


@contextmanager
def _in_memory(_: Path, arrays: dict[str, FloatArray]) -> Iterator[_Arrays]:
    """The arrays themselves."""
    yield dict(arrays)


@contextmanager
def _memory_map(folder: Path, arrays: dict[str, FloatArray]) -> Iterator[_Arrays]:
    """Memory maps."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    yield {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays}


@contextmanager
def _hdf5(folder: Path, arrays: dict[str, FloatArray], count: int, compression: str | None = None) -> Iterator[_Arrays]:
    """Data sets of an HDF5 file."""
    h5py = import_optional("h5py", purpose="measure HDF5 files")
    with ExitStack() as stack:
        with h5py.File(folder / "data.h5", "w") as file:
            for name, array in arrays.items():
                shape = (count, *array.shape[1:])
                file.create_dataset(name, data=array, chunks=shape, compression=compression)
        file = stack.enter_context(h5py.File(folder / "data.h5", "r"))
        yield {name: file[name] for name in arrays}


@contextmanager
def _zarr(folder: Path, arrays: dict[str, FloatArray], count: int) -> Iterator[_Arrays]:
    """Zarr arrays, compressed as Zarr does by default."""
    zarr = import_optional("zarr", purpose="measure Zarr arrays")
    for name, array in arrays.items():
        zarr.create_array(folder / f"{name}.zarr", data=array, chunks=(count, *array.shape[1:]))
    yield {name: zarr.open_array(folder / f"{name}.zarr", mode="r") for name in arrays}


def _sets(arrays: _Arrays, options: argparse.Namespace) -> tuple[FieldSet, FieldSet]:
    """Inputs and targets."""
    grid = (options.resolution, options.resolution)
    X, y = (FieldSet(unit_grid(grid), arrays[name], grid_shape=grid) for name in "xy")
    return X, y


def _batches(arrays: _Arrays, options: argparse.Namespace) -> float:
    """Seconds in which all batches of an epoch are made, in shuffled order."""
    X, y = _sets(arrays, options)
    scalers = Scalers.fit(X[:16], Targets(y[:16]), np.ones(len(X[:16])), ScalingOptions())
    loader = FieldLoader(X, scalers, targets=Targets(y), device=torch.device("cpu"), dtype=torch.float32)
    seconds = []
    for seed in range(options.repeats):
        order, start = np.random.default_rng(seed).permutation(len(X)), time.process_time()
        for _ in loader.batches(options.batch_size, order):
            pass
        seconds.append(time.process_time() - start)
    return min(seconds)


def _fit(arrays: _Arrays, options: argparse.Namespace) -> tuple[float, FloatArray]:
    """Seconds of a fit of one epoch, and its weights."""
    settings: dict[str, Any] = {"width": 16, "depth": 1, "base": None, "random_state": 0, "max_iter": 1}
    start = time.process_time()
    model = LaMORegressor(batch_size=options.batch_size, **settings).fit(*_sets(arrays, options))
    seconds = time.process_time() - start
    weights = [parameter.detach().numpy().ravel() for parameter in model.module_.parameters()]
    return seconds, np.concatenate(weights)
