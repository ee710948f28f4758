"""Fit and use a model on files three times larger than the memory that the process may add.

``python limited_memory.py FOLDER SAMPLES SIDE CHANNELS PIECE BATCH KIND...`` writes one set of samples as
memory maps, as an HDF5 file and as Zarr arrays, fits some samples of each kind, so that all code is loaded and all
threads run, and then limits the memory of the process. PIECE is the number of values that are read at once where all
are looked at: with a small one a small set shows it. The first kind is also scored and predicted from, which reads
samples by the code of a fit. RLIMIT_DATA counts private writable memory, that is, heap and arrays but not maps of
files, which the kernel can drop and read again. It prints what happened as JSON. `test_streaming.py` runs it.
"""

import ctypes
import gc
import json
import resource
import sys
from pathlib import Path

import h5py
import numpy as np
import torch
import zarr
from sklearn.frozen import FrozenEstimator

from skop import ConformalRegressor, FieldSet, LaMORegressor
from skop.data import _fieldset, unit_grid

KINDS = ("memory map", "HDF5", "Zarr")


def write(folder, n_samples, side, n_channels):
    """Write inputs with many channels, and targets with one, a few samples at a time."""
    rng, shapes = np.random.default_rng(0), {"x": (n_samples, side, side, n_channels), "y": (n_samples, side, side, 1)}
    with h5py.File(folder / "both.h5", "w") as file:
        stores = {
            name: (
                np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float32, shape=shape),
                file.create_dataset(name, shape, np.float32, chunks=(2, *shape[1:])),
                zarr.create_array(folder / f"{name}.zarr", shape=shape, dtype=np.float32, chunks=(2, *shape[1:])),
            )
            for name, shape in shapes.items()
        }
        for start in range(0, n_samples, 8):
            count = min(8, n_samples - start)
            # Small whole numbers can be compressed, so that the files are written quickly.
            own = rng.integers(0, 4, (count, side, side, 1)) * np.linspace(-1, 1, n_channels, dtype=np.float32)
            for name, part in (("x", own), ("y", np.cumsum(own[..., :1], axis=1) / side)):
                for store in stores[name]:
                    store[start : start + count] = part


def stored(folder, kind):
    """The arrays of inputs and targets as they are stored."""
    if kind == "memory map":
        return [np.load(folder / f"{name}.npy", mmap_mode="r") for name in "xy"]
    if kind == "HDF5":
        file = h5py.File(folder / "both.h5", "r")
        return [file[name] for name in "xy"]
    return [zarr.open_array(folder / f"{name}.zarr", mode="r") for name in "xy"]


def use(arrays, batch_size, rows=slice(None), *, is_whole):
    """Fit, and perhaps do all else that reads samples; return the numbers."""
    grid = arrays[0].shape[1:3]
    X, y = (FieldSet(unit_grid(grid), array, grid_shape=grid)[rows] for array in arrays)
    options = {"base": None, "early_stopping": True, "random_state": 0}
    model = LaMORegressor(width=8, depth=1, max_iter=1, batch_size=batch_size, **options).fit(X, y)
    numbers = [model.loss_curve_, model.validation_scores_]
    if is_whole:
        band = ConformalRegressor(FrozenEstimator(model), coverage=0.8, random_state=0).fit(X, y)
        numbers += [model.score(X, y), float(model.predict(X[:2]).values.sum()), band.quantiles_["fields"].tolist()]
    return numbers


def private_bytes():
    """Memory that RLIMIT_DATA limits, after giving back what is not used."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData:"))
    return 1024 * int(line.split()[1])


def main():
    """Run all of it."""
    torch.set_num_threads(1)
    folder, (n_samples, side, n_channels, piece, batch_size) = Path(sys.argv[1]), map(int, sys.argv[2:7])
    kinds = sys.argv[7:]
    _fieldset._CHUNK_VALUES = piece
    write(folder, n_samples, side, n_channels)
    for kind in kinds:
        use(stored(folder, kind), batch_size, slice(0, 12), is_whole=kind == kinds[0])
    size, before = sum(array.nbytes for array in stored(folder, KINDS[0])), private_bytes()
    # What is refused below must be refused for want of memory, and not because the limit is below the present use.
    limit = before + size // 3
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    found = {"size": size, "room": limit - before}
    for kind in kinds:
        arrays = stored(folder, kind)
        try:
            whole = np.array(arrays[0][:])
        except MemoryError:
            whole = None
        numbers = use(arrays, batch_size, is_whole=kind == kinds[0])
        found[kind] = {"refused": whole is None, "numbers": numbers[:2], "left": limit - private_bytes()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
