"""Loaders of published data sets, from files that the user has downloaded.

Nothing is downloaded here: `fetch_published` does that. Errors state which files are missing and where they are
published.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.io import loadmat, whosmat
from sklearn.utils import Bunch

from skop._optional import import_optional
from skop._typing import FloatArray, PathOrStr
from skop.data._file_guards import check_matlab, check_regular_file, hdf5_array, is_hdf5
from skop.datasets._sampling import _check_integer
from skop.exceptions import FieldDataError

Subset = Literal["train", "test", "all"]


def _scaled(**programs: tuple[str | None, str | None]) -> dict[str, dict[str, str | None]]:
    """How the program of each network scales X and y."""
    return {program: dict(zip("Xy", kinds, strict=True)) for program, kinds in programs.items()}


_UNSCALED, _FULLY = (None, None), ("scalar", "scalar")
#: What was published on the use of each set. Split: numbers of the samples in their file, None where files hold it.
#: Scaling: by one mean and deviation of the training set ("scalar"), by those of each channel or point, by the range,
#: or not at all (None). The other networks of the papers follow LaMO's program, and PDEBench's sets are MNO's.
PROTOCOLS: dict[str, dict[str, Any]] = {
    name: {"split": None if rows is None else dict(zip(("train", "test"), rows, strict=True)), "scaling": scaling}
    for name, rows, scaling in (
        ("airfoil", (range(1000), range(1000, 1200)), _scaled(LaMO=_UNSCALED)),
        ("brusselator", None, _scaled(LNO=("range", "range"))),
        ("darcy", (range(1000), range(200)), _scaled(LaMO=_FULLY)),
        ("elasticity", (range(1000), range(1800, 2000)), _scaled(LaMO=(None, "scalar"))),
        ("navier_stokes", (range(1000), range(1000, 1200)), _scaled(LaMO=_UNSCALED)),
        ("pdebench_darcy", (range(9000), range(9000, 10000)),
         _scaled(GNOT=_UNSCALED, Galerkin=_UNSCALED, OFormer=("point", "point"))),
        *((f"pdebench_{name}", (range(900), range(900, 1000)),
           _scaled(GNOT=(None, "scalar"), Galerkin=_FULLY, OFormer=_FULLY))
          for name in ("diffusion_reaction", "shallow_water")),
        ("pipe", (range(1000), range(1000, 1200)), _scaled(LaMO=("channel", "scalar"))),
        ("plasticity", (range(900), range(907, 987)), _scaled(LaMO=("scalar", None))),
        ("tissue", None, _scaled(IFNO=("point", "point"))),
    )
}  # fmt: skip
_DARCY_FILES = {
    "train": "piececonst_r421_N1024_smooth1.mat",
    "test": "piececonst_r421_N1024_smooth2.mat",
}
_DARCY_SOURCE = (
    "The authors of arXiv:2010.08895 publish the files as Darcy_421 in "
    "https://drive.google.com/drive/folders/1UnbQh2WWc6knEHbLn-ZaXrKUZhp7pjt- ; "
    "skop.datasets.make_darcy generates samples of the same kind."
)
_DARCY_DESCR = """Darcy flow through a porous square (Li et al., Fourier Neural Operator, arXiv:2010.08895)

X: permeability a, 3 or 12, from a thresholded Gaussian random field.
y: pressure u of -div(a grad u) = 1 with u = 0 on the border of the unit square.
Solved on 421 x 421 points; every 5th in each direction gives the 85 x 85 of the papers.
Split: the first 1,000 samples of smooth1 for training, the first 200 of smooth2 for testing.
coords: positions as the papers place them, point i of m at i / (m - 1) on each axis.
"""


def load_darcy(
    path: PathOrStr | Sequence[PathOrStr],
    *,
    subset: Subset = "all",
    subsample: int = 5,
    n_train: int = 1000,
    n_test: int = 200,
    return_X_y: bool = False,
) -> Bunch | tuple[FloatArray, FloatArray]:
    """Load the published Darcy flow files of Li et al. with the split that the papers use [1]_.

    Parameters
    ----------
    path : path, or pair of paths
        Folder that holds ``piececonst_r421_N1024_smooth1.mat`` (training) and
        ``piececonst_r421_N1024_smooth2.mat`` (test), directly or in a subfolder; or the two files,
        training first; or, with one `subset`, its one file. MATLAB files of any version; 7.3 needs
        h5py.
    subset : {"all", "train", "test"}, default="all"
        Subset to load. The file of the other subset need not exist.
    subsample : int, default=5
        Stride in each direction: every `subsample`-th point is kept; it must divide the number of intervals (420).
        The papers' 5 gives 85 x 85; 1 gives all 421 x 421 points.
    n_train : int, default=1000
        Number of training samples: the first ones of the training file.
    n_test : int, default=200
        Number of test samples: the first ones of the test file.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` of one subset instead of a Bunch; not possible with ``subset="all"``.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys, where m is the number of points per side that are kept:

        X_train, X_test : ndarray of shape (n_train or n_test, m, m, 1), float32
            Permeability. Only for the selected subsets.
        y_train, y_test : ndarray of shape (n_train or n_test, m, m, 1), float32
            Pressure.
        coords : ndarray of shape (m, m, 2), float32
            ``coords[i, j] = (i, j) / (m - 1)``, positions in the unit square as the papers set them. (The
            published generator places the values half a cell off, at ``(i + 1/2) / 421``.)
        filenames : list of str
            Files that were read.
        protocol : dict
            Published use of the data. ``"split"``: numbers of the samples in their file by subset, as ranges, or None
            where the files hold the split. ``"scaling"``: by the name of a published program, how it scales X and y:
            ``"scalar"`` by one mean and deviation of the training set, ``"channel"`` or ``"point"`` by those of each
            channel or point, ``"range"`` to [-1, 1], None not at all. It does not depend on the other parameters.
        DESCR : str
            Description of the data.
    (X, y) : tuple of two ndarrays if ``return_X_y=True``
        Arrays of the subset.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FileNotFoundError
        If a file is missing; the message states what was searched for and where it is published.
    FieldDataError
        If a file is damaged or lacks a variable, or its arrays do not have the published layout.

    See Also
    --------
    make_darcy : Generate samples of the same distribution.

    References
    ----------
    .. [1] Li, Kovachki, Azizzadenesheli, Liu, Bhattacharya, Stuart, Anandkumar, "Fourier Neural Operator
       for Parametric Partial Differential Equations", ICLR 2021, arXiv:2010.08895.

    Examples
    --------
    Files of the same layout, here 3 samples of 11 x 11 points in place of 1,024 of 421 x 421:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from scipy.io import savemat
    >>> from skop.datasets import load_darcy, make_darcy
    >>> a, u = make_darcy(n_samples=3, resolution=11, random_state=0)
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "piececonst_r421_N1024_smooth1.mat"
    ...     savemat(file, {"coeff": a[..., 0], "sol": u[..., 0]})
    ...     data = load_darcy(folder, subset="train", n_train=2)
    >>> data.X_train.shape, data.y_train.shape, data.coords.shape
    ((2, 3, 3, 1), (2, 3, 3, 1), (3, 3, 2))
    """
    _check_selection(subset, return_X_y, subsample=subsample, n_train=n_train, n_test=n_test)
    sizes = {"train": n_train, "test": n_test}
    wanted = {name: _DARCY_FILES[name] for name in sizes if subset in ("all", name)}
    files = _find_files(path, wanted, _DARCY_SOURCE)
    data = described("darcy", files, _DARCY_DESCR)
    for name, file in files.items():
        data[f"X_{name}"], data[f"y_{name}"] = _read_darcy(file, sizes[name], subsample, f"n_{name}")
    if return_X_y:
        return data[f"X_{subset}"], data[f"y_{subset}"]
    first, *others = (data[f"X_{name}"].shape[1:] for name in files)
    if any(shape != first for shape in others):
        raise FieldDataError(f"The training and test files differ in grid: {first[:2]} and {others[0][:2]} points.")
    data["coords"] = _unit_square(first[0])
    return data


def _read_darcy(file: Path, n_samples: int, subsample: int, count_name: str) -> tuple[FloatArray, FloatArray]:
    """Read permeability and pressure of the first samples of one file, (n, m, m, 1)."""
    # One variable at a time: at full size each takes 0.7 GB before it is cut down.
    fields = [_read_mat_fields(file, key, n_samples, subsample, count_name) for key in ("coeff", "sol")]
    permeability, pressure = fields
    if permeability.shape != pressure.shape:
        raise FieldDataError(
            f"{file}: 'coeff' and 'sol' must have the same shape, got grids of {permeability.shape[1:3]} and "
            f"{pressure.shape[1:3]} points. The file is not the published one: download it again."
        )
    return permeability, pressure


def _read_mat_fields(file: Path, key: str, n_samples: int, subsample: int, count_name: str) -> FloatArray:
    """Read the first samples of a square field, every `subsample`-th point, as (n, m, m, 1) float32."""
    array = _read_mat_variable(file, key)
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        raise FieldDataError(f"{file}: {key!r} must have the shape (samples, points, points), got {array.shape}.")
    available, n_points = array.shape[:2]
    if available < n_samples:
        raise FieldDataError(
            f"{file}: {key!r} holds {available} samples, {n_samples} were asked for. Lower {count_name}."
        )
    if n_points < 2 or (n_points - 1) % subsample:
        raise FieldDataError(
            f"{file}: subsample={subsample} must divide the number of intervals per side, {n_points - 1} "
            f"between the {n_points} points of {key!r}."
        )
    if array.dtype.kind not in "fiu":
        raise FieldDataError(f"{file}: {key!r} must hold real numbers, got {array.dtype}.")
    fields = np.ascontiguousarray(array[:n_samples, ::subsample, ::subsample, np.newaxis], dtype=np.float32)
    if not np.isfinite(fields).all():
        raise FieldDataError(f"{file}: {key!r} holds values that are not finite. Download the file again.")
    return fields


def _unit_square(n_points: int) -> FloatArray:
    """Positions (i, j) / (m - 1) of a grid that includes the border of the unit square, (m, m, 2)."""
    axis = np.linspace(0, 1, n_points, dtype=np.float32)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)


def described(name: str, files: Mapping[str, Path], description: str, **arrays: Any) -> Bunch:
    """Arrays of a published set with its files, its protocol and its description."""
    paths = [str(file) for file in files.values()]
    return Bunch(**arrays, filenames=paths, protocol=deepcopy(PROTOCOLS[name]), DESCR=description)


def _check_selection(subset: Any, return_X_y: bool, **counts: Any) -> None:
    """Raise ValueError at the first option of a loader that is wrong; counts are integers of at least 1."""
    if subset not in ("all", "train", "test"):
        raise ValueError(f"subset must be 'all', 'train' or 'test', got {subset!r}.")
    if return_X_y and subset == "all":
        raise ValueError("return_X_y=True needs subset='train' or 'test': (X, y) of both would lose the split.")
    for name, number in counts.items():
        _check_integer(name, number, 1)


def _find_files(path: PathOrStr | Sequence[PathOrStr], wanted: dict[str, str], source: str) -> dict[str, Path]:
    """Locate the file of each role (`wanted`: its published name), in a folder or among as many files in this order."""
    given = [Path(path)] if isinstance(path, str) or not isinstance(path, Sequence) else [Path(p) for p in path]
    if len(given) == 1 and given[0].is_dir():
        folders = [given[0], *sorted(entry for entry in given[0].iterdir() if entry.is_dir())]
        candidates = {role: [folder / name for folder in folders] for role, name in wanted.items()}
    elif len(given) == 1 and not given[0].exists():
        raise FileNotFoundError(f"{given[0]} does not exist; looked for {', '.join(wanted.values())}. {source}")
    elif len(given) == len(wanted):
        candidates = {role: [file] for role, file in zip(wanted, given, strict=True)}
    else:
        raise ValueError(
            f"path must be a folder or {len(wanted)} file(s) ({', '.join(wanted)}), got {len(given)} path(s)."
        )
    found = {role: next((f for f in files if f.is_file()), None) for role, files in candidates.items()}
    missing = [str(candidates[role][0]) for role, file in found.items() if file is None]
    if missing:
        raise FileNotFoundError(f"Looked for {' and '.join(missing)}, not found. {source}")
    return {role: file for role, file in found.items() if file is not None}


def _read_mat_variable(file: Path, key: str) -> np.ndarray[Any, Any]:
    """Read one array of a MATLAB file of any version, with the axes in MATLAB's order.

    Raises FieldDataError if the file is damaged, is not a MATLAB file, or lacks the variable.
    """
    h5py = None
    check_regular_file(file)
    if is_hdf5(file):
        h5py = import_optional("h5py", purpose=f"read {file.name}, a MATLAB 7.3 file")
    try:
        check_matlab(file)
        names = _hdf5_names(h5py, file) if h5py else [name for name, _, _ in whosmat(file)]
        if key in names:
            if h5py:
                with h5py.File(file, "r") as opened:
                    # MATLAB writes column-major data, which HDF5 sees with its axes reversed.
                    return np.asarray(hdf5_array(opened, key, file)).T
            return np.asarray(loadmat(file, variable_names=[key])[key])
    except (FieldDataError, MemoryError, PermissionError):
        raise
    # scipy and zlib answer a damaged file with many unrelated exceptions, so all others count.
    except Exception as error:
        raise FieldDataError(
            f"{file} ({file.stat().st_size:,} bytes) cannot be read as a MATLAB file: {error}. "
            "It is damaged, or its download was interrupted: download it again."
        ) from error
    raise FieldDataError(f"{file} has no variable {key!r}; it holds {', '.join(names) or 'nothing'}.")


def _hdf5_names(h5py: Any, file: Path) -> list[str]:
    """List the arrays at the root of an HDF5 file."""
    with h5py.File(file, "r") as opened:
        return [name for name in opened if hdf5_array(opened, name, file) is not None]
