"""Loaders of PDEBench files, which stay on disk: a FieldSet reads the samples that are asked for, and no others.

A file holds either flat arrays with a sample axis (Darcy flow), or a group for each sample (shallow water,
diffusion-reaction) with its trajectory and grid.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skop._optional import import_optional
from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data import FieldSet
from skop.data._file_guards import check_hdf5_link, hdf5_array
from skop.datasets._published import Subset, _find_files
from skop.datasets._published_arrays import LFS_START, Selection
from skop.datasets._sampling import _check_integer
from skop.exceptions import FieldDataError

_DARCY_FILE = "2D_DarcyFlow_beta1.0_Train.hdf5"
_WATER_FILE = "2D_rdb_NA_NA.h5"
_REACTION_FILE = "2D_diff-react_NA_NA.h5"
_SOURCE = (
    "The authors of arXiv:2210.07182 publish it as data file {number} of https://doi.org/10.18419/darus-2986 ; "
    "skop.datasets.{generator} generates samples of the same kind."
)
_DARCY_SOURCE = _SOURCE.format(number=133219, generator="make_darcy(variant='pdebench')")
_WATER_SOURCE = _SOURCE.format(number=133021, generator="make_shallow_water")
_REACTION_SOURCE = _SOURCE.format(number=133017, generator="make_diffusion_reaction")

_DARCY_DESCR = """Darcy flow through a porous square (Takamoto et al., PDEBench, arXiv:2210.07182)

X: permeability nu, 0.1 or 1, from sums of Gaussian bumps.
y: pressure u of -div(nu grad u) = beta, with u = 0 half a cell outside the unit square.
Solved on the centres of 128 x 128 cells; every 2nd in each direction gives the 64 x 64 of MNO.
Split: the first 9,000 samples for training, the last 1,000 of the file for testing.
"""
_WATER_DESCR = """Radial dam breaks in shallow water (Takamoto et al., PDEBench, arXiv:2210.07182)

X: depth h at the first frames, one channel a frame; y: the frames that follow, one channel a frame.
Solved on 128 x 128 cells of [-2.5, 2.5]^2; 101 frames from time 0 to 1.
Split: the first 900 samples for training, the last 100 of the file for testing. On 128 x 128 cells the radii of the
dam give 81 different samples at most: tests are copies of training samples.
"""
_REACTION_DESCR = """Diffusion and reaction of FitzHugh-Nagumo (Takamoto et al., PDEBench, arXiv:2210.07182)

X: activator u and inhibitor v at the first frames: both of the first frame, then both of the second, and so on;
y: the frames that follow. Solved on 128 x 128 cells of [-1, 1]^2; 101 frames from time 0 (white noise) to 5.
Split: the first 900 samples for training, the last 100 of the file for testing.
"""


def load_pdebench_darcy(
    path: PathOrStr,
    *,
    subset: Subset = "all",
    subsample: int = 2,
    n_train: int = 9000,
    n_test: int = 1000,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FieldSet]:
    """Load a Darcy flow file of PDEBench with the papers' split [1]_ [2]_, without reading it whole.

    Needs h5py.

    Parameters
    ----------
    path : path
        Folder that holds ``2D_DarcyFlow_beta1.0_Train.hdf5``, itself or in a folder right below; or the file, which
        may then be another one of the same authors, such as that for a beta of 0.1.
    subset : {"all", "train", "test"}, default="all"
        What to load.
    subsample : int, default=2
        Keep every `subsample`-th cell in each direction; it must divide the numbers of cells (128). MNO's 2 gives
        64 x 64; 1 gives all.
    n_train : int, default=9000
        Number of training samples: the first ones of the file.
    n_test : int, default=1000
        Number of test samples: the last ones of the file.
    return_X_y : bool, default=False
        Return ``(X, y)`` of one subset in place of a Bunch; not with ``subset="all"``, whose split would
        be lost.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys, where m is the number of cells a side that are kept:

        X_train, X_test : FieldSet of n_train or n_test samples on m x m points, 1 channel
            Permeability. Only of the subsets asked for. The file is read when samples are;
            ``X_train.read(slice(None))`` brings all of them to memory.
        y_train, y_test : FieldSet of as many samples on the same points, 1 channel
            Pressure.
        coords : ndarray of shape (m, m, 2), float32
            Centres of the cells, as the file gives them.
        filenames : list of str
            The file.
        protocol : dict
            Published split and scaling, as of `load_darcy`.
        DESCR : str
            What the data are.
    (X, y) : tuple of two FieldSets if ``return_X_y=True``
        Those of the one subset.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FileNotFoundError
        If the file is missing; the message says what was looked for and where it is published.
    FieldDataError
        If the file is damaged, is another one, or has too few samples; and when samples are read, if they
        are damaged or not finite.
    OptionalDependencyError
        If h5py is not installed.

    See Also
    --------
    make_darcy : Generate samples of the same distribution with ``variant="pdebench"``.

    References
    ----------
    .. [1] Takamoto, Praditia, Leiteritz, MacKinlay, Alesiani, Pflüger, Niepert, "PDEBench: An Extensive Benchmark for
       Scientific Machine Learning", NeurIPS 2022 Datasets and Benchmarks, arXiv:2210.07182.
    .. [2] Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for PDEs".

    Examples
    --------
    A file of the same layout, here 3 samples of 8 x 8 cells in place of 10,000 of 128 x 128:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import h5py
    >>> from skop.datasets import load_pdebench_darcy, make_darcy
    >>> (coords, a), u = make_darcy(3, variant="pdebench", resolution=8, random_state=0, return_coords=True)
    >>> with TemporaryDirectory() as folder:
    ...     with h5py.File(Path(folder) / "2D_DarcyFlow_beta1.0_Train.hdf5", "w") as file:
    ...         file["nu"], file["tensor"] = a[..., 0], u[:, None, ..., 0]
    ...         file["x-coordinate"], file["y-coordinate"] = coords[:, 0, 0], coords[0, :, 1]
    ...     data = load_pdebench_darcy(folder, n_train=2, n_test=1)
    ...     print(data.X_train, data.y_train.values.shape)
    FieldSet(2 samples, 16 points in 2-D, grid 4x4, 1 channels) (2, 16, 1)
    """
    selection = Selection(subset, n_train, n_test, return_X_y)
    _check_integer("subsample", subsample, 1)
    file = _find_files(path, {"all": _DARCY_FILE}, _DARCY_SOURCE)["all"]
    with _open(file) as opened:
        keys = ("nu", "tensor", "x-coordinate", "y-coordinate")
        nu, tensor, x, y = (_dataset(opened, key, file) for key in keys)
        if nu.ndim != 3 or tensor.shape != (len(nu), 1, *nu.shape[1:]):
            raise FieldDataError(
                f"{file}: 'nu' and 'tensor' must have the shapes (samples, points, points) and (samples, 1, points, "
                f"points), got {nu.shape} and {tensor.shape}."
            )
        coords = _read_coords((x, y), nu.shape[1:], subsample, file)
        n_samples = len(nu)
    slices = selection.slices(n_samples, file)
    data = Bunch(coords=coords)
    for name, samples in slices.items():
        for letter, key in (("X", "nu"), ("y", "tensor")):
            data[f"{letter}_{name}"] = FieldSet(
                coords, _StoredFields(file, key, range(n_samples)[samples], coords.shape[:2], subsample)
            )
    return selection.result("pdebench_darcy", data, {"all": file}, _DARCY_DESCR)


def load_pdebench_shallow_water(
    path: PathOrStr,
    *,
    subset: Subset = "all",
    n_input: int = 10,
    n_output: int = 91,
    subsample: int = 1,
    n_train: int = 900,
    n_test: int = 100,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FieldSet]:
    """Load the radial dam breaks of PDEBench with the papers' split [1]_ [2]_, without reading them whole.

    Needs h5py.

    Parameters
    ----------
    path : path
        Folder that holds ``2D_rdb_NA_NA.h5``, itself or in a folder right below; or the file.
    subset : {"all", "train", "test"}, default="all"
        What to load.
    n_input, n_output : int, default=10 and 91
        Frames in X, from the first on, and frames that follow in y.
    subsample : int, default=1
        Keep every `subsample`-th cell in each direction; it must divide the numbers of cells (128).
    n_train : int, default=900
        Number of training samples: the first ones of the file.
    n_test : int, default=100
        Number of test samples: the last ones of the file.
    return_X_y : bool, default=False
        Return ``(X, y)`` of one subset in place of a Bunch; not with ``subset="all"``, whose split would
        be lost.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys, where m is the number of cells a side that are kept:

        X_train, X_test : FieldSet of n_train or n_test samples on m x m points, n_input channels
            Depth at the first times, one channel a frame. Only of the subsets asked for. The file is read when
            samples are; ``X_train.read(slice(None))`` brings all of them to memory.
        y_train, y_test : FieldSet of as many samples on the same points, n_output channels
            The frames that follow.
        coords : ndarray of shape (m, m, 2), float32
            Centres of the cells, as the file gives them.
        times : ndarray of shape (n_input + n_output,), float32
            Times of the frames, as the file gives them.
        filenames : list of str
            The file.
        protocol : dict
            Published split and scaling, as of `load_darcy`.
        DESCR : str
            What the data are.
    (X, y) : tuple of two FieldSets if ``return_X_y=True``
        Those of the one subset.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FileNotFoundError
        If the file is missing; the message says what was looked for and where it is published.
    FieldDataError
        If the file is damaged, is another one, or has too few samples or frames; and when samples are read, if they
        are damaged or not finite.
    OptionalDependencyError
        If h5py is not installed.

    See Also
    --------
    make_shallow_water : Generate samples of the same distribution.
    load_pdebench_diffusion_reaction : Read the trajectories of two components.

    References
    ----------
    .. [1] Takamoto, Praditia, Leiteritz, MacKinlay, Alesiani, Pflüger, Niepert, "PDEBench: An Extensive Benchmark for
       Scientific Machine Learning", NeurIPS 2022 Datasets and Benchmarks, arXiv:2210.07182.
    .. [2] Cheng et al., "Mamba Neural Operator: Who Wins? Transformers vs. State-Space Models for PDEs".

    Examples
    --------
    A file of the same layout, here 3 samples of 8 x 8 cells and 5 frames in place of 1,000 of 128 x 128 and 101:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import h5py
    >>> import numpy as np
    >>> from skop.datasets import load_pdebench_shallow_water
    >>> axis = np.linspace(-2.1875, 2.1875, 8)
    >>> with TemporaryDirectory() as folder:
    ...     with h5py.File(Path(folder) / "2D_rdb_NA_NA.h5", "w") as file:
    ...         for sample in ("0000", "0001", "0002"):
    ...             file[f"{sample}/data"] = np.ones((5, 8, 8, 1))
    ...             file[f"{sample}/grid/x"], file[f"{sample}/grid/y"] = axis, axis
    ...             file[f"{sample}/grid/t"] = np.linspace(0, 0.04, 5)
    ...     data = load_pdebench_shallow_water(folder, n_input=2, n_output=3, n_train=2, n_test=1)
    ...     print(data.X_train.to_grid().shape, data.y_train.to_grid().shape)
    (2, 8, 8, 2) (2, 8, 8, 3)
    """
    selection = Selection(subset, n_train, n_test, return_X_y)
    file = _find_files(path, {"all": _WATER_FILE}, _WATER_SOURCE)["all"]
    data = _load_trajectories(file, selection, _Frames(n_input, n_output, subsample, 1))
    return selection.result("pdebench_shallow_water", data, {"all": file}, _WATER_DESCR)


def load_pdebench_diffusion_reaction(
    path: PathOrStr,
    *,
    subset: Subset = "all",
    n_input: int = 10,
    n_output: int = 91,
    subsample: int = 1,
    n_train: int = 900,
    n_test: int = 100,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FieldSet]:
    """Load the diffusion-reaction file of PDEBench with the papers' split, without reading it whole.

    Differs from `load_pdebench_shallow_water`, where the papers are named too, in the file and in the channels: two a
    frame.

    Parameters
    ----------
    path : path
        Folder that holds ``2D_diff-react_NA_NA.h5``, itself or in a folder right below; or the file.
    subset, n_input, n_output, subsample, n_train, n_test, return_X_y : as in `load_pdebench_shallow_water`
        Subset, numbers of frames, cells and samples, and form of the result, with the same defaults.

    Returns
    -------
    data or (X, y) : as of `load_pdebench_shallow_water`
        Activator and inhibitor at the times: ``2 * n_input`` channels in X_train and X_test and ``2 * n_output`` in
        y_train and y_test, of which ``2 * t`` is the activator of frame t, and ``2 * t + 1`` the inhibitor.

    Raises
    ------
    ValueError, FileNotFoundError, FieldDataError, OptionalDependencyError
        As `load_pdebench_shallow_water`.

    See Also
    --------
    make_diffusion_reaction : Generate samples of the same distribution.

    Examples
    --------
    A file of the same layout, here 3 samples of 8 x 8 cells and 5 frames in place of 1,000 of 128 x 128 and 101:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import h5py
    >>> import numpy as np
    >>> from skop.datasets import load_pdebench_diffusion_reaction
    >>> axis = np.linspace(-0.875, 0.875, 8)
    >>> with TemporaryDirectory() as folder:
    ...     with h5py.File(Path(folder) / "2D_diff-react_NA_NA.h5", "w") as file:
    ...         for sample in ("0000", "0001", "0002"):
    ...             file[f"{sample}/data"] = np.zeros((5, 8, 8, 2))
    ...             file[f"{sample}/grid/x"], file[f"{sample}/grid/y"] = axis, axis
    ...             file[f"{sample}/grid/t"] = np.linspace(0, 0.2, 5)
    ...     data = load_pdebench_diffusion_reaction(folder, n_input=2, n_output=3, n_train=2, n_test=1)
    ...     print(data.X_train.to_grid().shape, data.y_train.to_grid().shape)
    (2, 8, 8, 4) (2, 8, 8, 6)
    """
    selection = Selection(subset, n_train, n_test, return_X_y)
    file = _find_files(path, {"all": _REACTION_FILE}, _REACTION_SOURCE)["all"]
    data = _load_trajectories(file, selection, _Frames(n_input, n_output, subsample, 2))
    return selection.result("pdebench_diffusion_reaction", data, {"all": file}, _REACTION_DESCR)


@dataclass(frozen=True)
class _Frames:
    """What is kept of each trajectory, and its number of components. Raises ValueError if an option is wrong."""

    n_input: int
    n_output: int
    subsample: int
    n_components: int

    def __post_init__(self) -> None:
        for name in ("n_input", "n_output", "subsample"):
            _check_integer(name, getattr(self, name), 1)

    @property
    def slices(self) -> Mapping[str, slice]:
        """Frames of X and of y."""
        return {"X": slice(0, self.n_input), "y": slice(self.n_input, self.n_input + self.n_output)}


def _load_trajectories(file: Path, selection: Selection, frames: _Frames) -> Bunch:
    """Check a file with a group for each sample, and make FieldSets of the subsets asked for."""
    with _open(file) as opened:
        for name in opened:
            check_hdf5_link(opened, name, file)
        names = sorted(name for name in opened if hasattr(opened[name], "keys"))
        if not names:
            raise FieldDataError(
                f"{file} must hold a group for each sample ('0000', '0001', ...), got {_listing(opened)}."
            )
        shape = _dataset(opened, f"{names[0]}/data", file).shape
        if len(shape) != 4 or shape[3] != frames.n_components:
            raise FieldDataError(
                f"{file}: '{names[0]}/data' must have the shape (frames, points, points, {frames.n_components}), got "
                f"{shape}."
            )
        for name in names:
            if (other := _dataset(opened, f"{name}/data", file).shape) != shape:
                raise FieldDataError(
                    f"{file}: the samples must have the same shape, got {shape} for {names[0]!r} and {other} for "
                    f"{name!r}."
                )
        n_frames = frames.n_input + frames.n_output
        if shape[0] < n_frames:
            raise FieldDataError(
                f"{file}: the samples hold {shape[0]} frames, {n_frames} were asked for. Lower n_input or n_output."
            )
        x, y, t = (_dataset(opened, f"{names[0]}/grid/{axis}", file) for axis in "xyt")
        coords = _read_coords((x, y), shape[1:3], frames.subsample, file)
        if t.shape != shape[:1]:
            raise FieldDataError(f"{file}: 'grid/t' must hold the {shape[0]} times of the frames, got {t.shape}.")
        times = np.asarray(t[:n_frames], dtype=np.float32)
    data = Bunch(coords=coords, times=times)
    for name, samples in selection.slices(len(names), file).items():
        for letter, kept in frames.slices.items():
            stored = _StoredFields(
                file, names[samples], range(len(names))[samples], coords.shape[:2], frames.subsample, kept,
                (kept.stop - kept.start) * frames.n_components,
            )  # fmt: skip
            data[f"{letter}_{name}"] = FieldSet(coords, stored)
    return data


class _StoredFields:
    """Fields of samples in a file, which are read when rows are asked for.

    A lazy array (n, m_x, m_y, c) for a FieldSet. It holds no open file, so that it can be pickled and read in
    other processes.

    Parameters
    ----------
    file : Path
        HDF5 file.
    places : str, or list of str
        Name of an array with a sample axis, or of the group of each sample.
    samples : range
        Numbers of the samples along that axis, or in the list of all groups.
    grid : tuple of int
        Points that are kept along each axis.
    subsample : int
        Stride between them.
    frames : slice, default=slice(None)
        Frames of a group that are kept.
    n_channels : int, default=1
        Channels: frames times components.
    """

    #: Tells a FieldSet that rows are read from somewhere else.
    chunks = None
    ndim = 4

    def __init__(
        self,
        file: Path,
        places: str | list[str],
        samples: range,
        grid: tuple[int, ...],
        subsample: int,
        frames: slice = slice(None),
        n_channels: int = 1,
    ) -> None:
        self._file, self._places, self._samples = file, places, samples
        self._subsample, self._frames = subsample, frames
        self.shape = (len(samples), *grid, n_channels)
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        selected = np.arange(len(self))[rows]
        fields = np.empty((len(selected), *self.shape[1:]), dtype=self.dtype)
        with _open(self._file) as opened:
            for field, row in zip(fields, selected, strict=True):
                # The whole area is read: HDF5 reads every second number far more slowly than all of them.
                frames = self._read(opened, int(row))[:, :: self._subsample, :: self._subsample]
                field[...] = np.moveaxis(frames, 0, 2).reshape(field.shape)
                if not np.isfinite(field).all():
                    raise FieldDataError(
                        f"{self._file}: sample {self._samples[row]} holds values that are not finite. Download the "
                        "file again."
                    )
        return fields

    def _read(self, opened: Any, row: int) -> FloatArray:
        """All points of a sample, (frames, n_x, n_y, components)."""
        if isinstance(self._places, list):
            return np.asarray(opened[f"{self._places[row]}/data"][self._frames])
        sample = np.asarray(opened[self._places][self._samples[row]])
        return sample.reshape(1, *sample.shape[-2:], 1)


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    """Open an HDF5 file for reading; whatever fails in it raises FieldDataError with its name."""
    h5py = import_optional("h5py", purpose=f"read {file.name}, an HDF5 file")
    try:
        with h5py.File(file, "r") as opened:
            yield opened
    except (FieldDataError, MemoryError, PermissionError, FileNotFoundError):
        raise
    # h5py answers cut and damaged files with many unrelated exceptions, so all others count.
    except Exception as error:
        with file.open("rb") as stream:
            is_pointer = stream.read(len(LFS_START)) == LFS_START
        if is_pointer:
            raise FieldDataError(
                f"{file} is a pointer of Git LFS, not the data: get them by 'git lfs pull', or download the file."
            ) from error
        raise FieldDataError(
            f"{file} ({file.stat().st_size:,} bytes) cannot be read as an HDF5 file: {error}. "
            "It is damaged or its download was cut off: download it again."
        ) from error


def _dataset(opened: Any, key: str, file: Path) -> Any:
    """Give an array of real numbers; raise FieldDataError if it is not there or holds something else."""
    item = hdf5_array(opened, key, file)
    if item is None:
        raise FieldDataError(f"{file} has no array {key!r}; it holds {_listing(opened)}.")
    if item.dtype.kind not in "fiu":
        raise FieldDataError(f"{file}: {key!r} must hold real numbers, got {item.dtype}.")
    return item


def _listing(opened: Any) -> str:
    """List what a file holds, the first few names only."""
    names = sorted(opened)
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "") if names else "nothing"


def _read_coords(axes: tuple[Any, Any], n_points: tuple[int, ...], subsample: int, file: Path) -> FloatArray:
    """Positions of the points that are kept, (m_x, m_y, 2)."""
    kept = []
    for axis, count in zip(axes, n_points, strict=True):
        if axis.shape != (count,):
            raise FieldDataError(
                f"{file}: {axis.name!r} must hold the positions of {count} points, got the shape {axis.shape}."
            )
        if count % subsample:
            raise FieldDataError(f"{file}: subsample={subsample} must divide the number of points a side, {count}.")
        kept.append(np.asarray(axis[:], dtype=np.float32)[::subsample])
    return np.stack(np.meshgrid(*kept, indexing="ij"), axis=-1)
