"""Loader of the published Brusselator file (Cao et al., Laplace neural operator).

Nothing is downloaded here. Objects in the file are never unpickled.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from sklearn.utils import Bunch

from skop._typing import FloatArray, PathOrStr
from skop.data import FieldSet
from skop.data._file_guards import check_npz
from skop.datasets._published import Subset, _check_selection, _find_files, described
from skop.datasets._published_arrays import LFS_START, as_fields
from skop.exceptions import FieldDataError

_FILE = "Brusselator_force_train.npz"
_SOURCE = (
    "The authors of arXiv:2303.10528 publish it in "
    "https://drive.google.com/drive/folders/1x8EYALKl2l9lxpMVy6rfj934kno4V0qB ; "
    "skop.datasets.make_brusselator generates samples of the same kind."
)
#: The program of the paper numbers the times from 0 to this one.
_LAST_TIME = 19.0
_COUNTS = {"train": "n_samples1", "test": "n_samples2"}
_DESCR = """Forced Brusselator (Cao et al., Laplace neural operator, arXiv:2303.10528)

X: forcing f(t) at 39 times, repeated over space. y: concentration at the same times and on 28 x 28 points, of which
every 2nd in each direction gives the 14 x 14 of the paper's program.
coords: positions (t, x, y), where 0 to 1 is the whole time and the whole side. times: 0, 0.5, ..., 19.
Split: that of the file.
"""


def load_brusselator(
    path: PathOrStr,
    *,
    subset: Subset = "all",
    subsample: int = 2,
    n_train: int | None = None,
    n_test: int | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Load the published Brusselator file of Cao et al. as forcing and concentration in space and time [1]_.

    Parameters
    ----------
    path : path
        Folder that holds ``Brusselator_force_train.npz``, directly or in a subfolder; or the file.
    subset : {"all", "train", "test"}, default="all"
        Subset to load. Arrays of the other one are not read.
    subsample : int, default=2
        Stride in both directions of space: every `subsample`-th point is kept; it must divide the number of
        points (28). The published program takes 2, which gives 14 x 14.
    n_train, n_test : int, default=None
        Number of training and test samples: the first ones of each set of the file. None: all of them.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` of one subset instead of a Bunch; not possible with ``subset="all"``.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys, where m is the number of points per side that are kept:

        X_train, X_test : FieldSet of n_train or n_test samples on a grid of (39, m, m), float32
            Forcing f(t), the same at all points of a time. Only for the selected subsets.
        y_train, y_test : ndarray of shape (n_train or n_test, 39, m, m, 1), float32
            Concentration. Which of the two substances it is, the file does not say.
        coords : ndarray of shape (39, m, m, 3), float32
            Positions (t, x, y) in the unit cube as the published program sets them: ``j / 38`` and ``i / 27``.
        times : ndarray of shape (39,), float32
            0, 0.5, ..., 19, as in the published program.
        filenames : list of str
            File that was read.
        protocol : dict
            Published split and scaling, as of `load_darcy`.
        DESCR : str
            Description of the data.
    (X, y) : tuple of a FieldSet and an ndarray if ``return_X_y=True``
        Inputs and targets of the subset.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FileNotFoundError
        If the file is missing; the message states what was searched for and where it is published.
    FieldDataError
        If the file is damaged, is a pointer of Git LFS, lacks an array, holds Python objects, does not have the
        published layout, or holds too few samples.

    See Also
    --------
    make_brusselator : Generate samples of the same kind.

    Notes
    -----
    As the published program does, arrays are reshaped to (samples, times) and (samples, times, points, points) in C
    order; the number of times is that of the forcing.

    References
    ----------
    .. [1] Cao, Goswami, Karniadakis, "Laplace neural operator for solving differential equations", Nature Machine
       Intelligence 6, 2024, arXiv:2303.10528.

    Examples
    --------
    A file of the same layout, here 3 and 2 samples of 4 x 4 points at 5 times:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from skop.datasets import load_brusselator
    >>> arrays = {"nx": 4, "ny": 4, "n_samples1": 3, "n_samples2": 2}
    >>> for name, count in {"train": 3, "test": 2}.items():
    ...     arrays |= {f"inputs_{name}": np.zeros((count, 5)), f"outputs_{name}": np.zeros((count, 5, 4, 4))}
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "Brusselator_force_train.npz", **arrays)
    ...     data = load_brusselator(folder)
    >>> data.X_train.grid_shape, data.X_train.shape, data.y_test.shape
    ((5, 2, 2), (3, 20, 1), (2, 5, 2, 2, 1))
    """
    sizes = {"train": n_train, "test": n_test}
    given = {f"n_{name}": size for name, size in sizes.items() if size is not None}
    _check_selection(subset, return_X_y, subsample=subsample, **given)
    file = _find_files(path, {"all": _FILE}, _SOURCE)["all"]
    data = described("brusselator", {"all": file}, _DESCR)
    with _open(file) as archive:
        n_x, n_y = (_read_count(archive, key, file) for key in ("nx", "ny"))
        if n_x % subsample or n_y % subsample:
            raise FieldDataError(f"{file}: subsample={subsample} must divide the numbers of points, {n_x} and {n_y}.")
        for name in (name for name in sizes if subset in ("all", name)):
            forcing, concentration = _read_set(archive, name, sizes[name], (n_x, n_y), file)
            # The coordinates follow from the published numbers of points; those that are kept start at the first.
            coords = _unit_cube(forcing.shape[1], n_x, n_y)[:, ::subsample, ::subsample]
            if "coords" in data and data["coords"].shape != coords.shape:
                raise FieldDataError(f"{file}: training and test samples differ in their number of times.")
            data["coords"] = np.ascontiguousarray(coords)
            y = as_fields(concentration[:, :, ::subsample, ::subsample, np.newaxis], file)
            fields = as_fields(np.broadcast_to(forcing[:, :, np.newaxis, np.newaxis, np.newaxis], y.shape), file)
            data[f"X_{name}"] = FieldSet(data["coords"], fields, channel_names=["forcing"])
            data[f"y_{name}"] = y
    data["times"] = np.linspace(0, _LAST_TIME, len(data["coords"]), dtype=np.float32)
    return (data[f"X_{subset}"], data[f"y_{subset}"]) if return_X_y else data


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    """Open an archive of arrays; whatever fails in reading it raises FieldDataError with its name."""
    with file.open("rb") as stream:
        is_pointer = stream.read(len(LFS_START)) == LFS_START
    if is_pointer:
        raise FieldDataError(
            f"{file} is a pointer of Git LFS, not the data: get them by 'git lfs pull', or download the file."
        )
    damaged = "It is damaged, or its download was interrupted: download it again."
    if not is_zipfile(file):
        raise FieldDataError(f"{file} ({file.stat().st_size:,} bytes) is not an .npz archive. {damaged}")
    check_npz(file)
    try:
        with np.load(file, allow_pickle=False) as archive:
            yield archive
    except (FieldDataError, MemoryError, PermissionError):
        raise
    # Cut and damaged archives answer with many unrelated exceptions, so all others count.
    except Exception as error:
        raise FieldDataError(
            f"{file} ({file.stat().st_size:,} bytes) cannot be read as an .npz archive: {error}. {damaged}"
        ) from error


def _read_array(archive: Any, key: str, file: Path) -> np.ndarray[Any, Any]:
    """Read an array of real numbers."""
    if key not in archive.files:
        raise FieldDataError(f"{file} has no array {key!r}; it holds {', '.join(sorted(archive.files)) or 'nothing'}.")
    try:
        array = archive[key]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise FieldDataError(
            f"{file}: {key!r} holds Python objects, which skop does not load, since they can run any program. Save it "
            "as an array of numbers, with a program that you trust."
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise FieldDataError(f"{file}: {key!r} must hold real numbers, got {getattr(array, 'dtype', type(array))}.")
    return array


def _read_count(archive: Any, key: str, file: Path) -> int:
    """Read a positive integer."""
    array = _read_array(archive, key, file)
    if array.size != 1 or array.item() < 1 or array.item() % 1:
        raise FieldDataError(f"{file}: {key!r} must be a positive integer, got {np.array2string(array, threshold=4)}.")
    return int(array.item())


def _read_set(
    archive: Any, name: str, wanted: int | None, points: tuple[int, int], file: Path
) -> tuple[FloatArray, FloatArray]:
    """Read forcing (n, times) and concentration (n, times, points, points) of the first samples of a set."""
    count = _read_count(archive, _COUNTS[name], file)
    if wanted is not None and wanted > count:
        raise FieldDataError(f"{file} holds {count} samples to {name}, {wanted} were asked for. Lower n_{name}.")
    forcing = _read_array(archive, f"inputs_{name}", file)
    if forcing.ndim == 0 or forcing.shape[0] % count or forcing.size // count < 2:
        raise FieldDataError(
            f"{file}: 'inputs_{name}' must hold {count} samples ({_COUNTS[name]}) at two times or more, samples first, "
            f"got the shape {forcing.shape}."
        )
    shape = (count, forcing.size // count, *points)
    concentration = _read_array(archive, f"outputs_{name}", file)
    # Axes may be merged, as the published program allows, but not in another order.
    if concentration.size != np.prod(shape) or (concentration.ndim == len(shape) and concentration.shape != shape):
        raise FieldDataError(f"{file}: 'outputs_{name}' must have the shape {shape}, got {concentration.shape}.")
    return forcing.reshape(shape[:2])[:wanted], concentration.reshape(shape)[:wanted]


def _unit_cube(n_times: int, n_x: int, n_y: int) -> FloatArray:
    """Positions (t, x, y) of a grid that includes the border of the unit cube, (n_times, n_x, n_y, 3)."""
    axes = [np.linspace(0, 1, count, dtype=np.float32) for count in (n_times, n_x, n_y)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
