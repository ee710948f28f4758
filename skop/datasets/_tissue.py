"""Loader of the published measurements of a stretched tissue (You et al.): displacement fields of a sheet.

Nothing is downloaded here. Errors state which files are missing and where they are published.
"""

from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.utils import Bunch

from skop._typing import FloatArray, IntArray, PathOrStr
from skop.data import FieldSet
from skop.datasets._published import Subset, _check_selection, _find_files, _read_mat_variable, described
from skop.datasets._published_arrays import as_fields
from skop.exceptions import FieldDataError

_FILE = "TVAL001_noave_byset.mat"
_INDEX_FILES = {"train": "train_indexes_tissue.txt", "test": "test_indexes_tissue.txt"}
_SOURCE = (
    "The authors of arXiv:2204.00205 publish the measurements in "
    "https://drive.google.com/drive/folders/1BQjPEDYRJv5VjZ_bTyK9OScPKVkcdt3y , and the two lists of samples in "
    "https://github.com/fishmoon1234/IFNO-tissue ."
)
#: Side of the square, as the published program sets it, without a unit.
_SIDE = 5.5
_N_SAMPLES = 26523
#: Samples that train in the studies 2 to 4 of the published program, as (start, stop); all others test.
_TRAINING = {
    2: ((0, 7718), (11257, 15270)),
    3: ((0, 3921), (19445, _N_SAMPLES)),
    4: ((3921, _N_SAMPLES),),
}
_CHANNELS = ("boundary_x", "boundary_y")
_PREVIOUS_CHANNELS = ("previous_x", "previous_y")
_DESCR = """Measured displacement of a stretched tissue (You et al., arXiv:2204.00205)

X: displacement on the outermost points, 0 in the interior; with previous=True also the displacement one step earlier.
y: displacement, two components. Digital image correlation on 21 x 21 points of a square with side 5.5.
index_train, index_test: numbers of the samples in the file, from 0 on.
Split: that of a study of the published program.
"""


def load_tissue(
    path: PathOrStr | Sequence[PathOrStr],
    *,
    subset: Subset = "all",
    study: Literal[1, 2, 3, 4] = 1,
    previous: bool = False,
    sequence_starts: Sequence[int] | None = None,
    n_train: int | None = None,
    n_test: int | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Load measured displacements of a stretched tissue: from those at the border to the whole field [1]_.

    The measurements are by digital image correlation (DIC). The inputs are those of the implicit Fourier neural
    operator (IFNO) on these data; `previous` adds the displacement of the step before, which the adaptive Mamba neural
    operator (AMO) takes on a related data set, a glove. The file of the glove cannot be loaded: its layout is
    published nowhere.

    Parameters
    ----------
    path : path, or sequence of paths
        Folder that holds ``TVAL001_noave_byset.mat`` and, for study 1, ``train_indexes_tissue.txt`` and
        ``test_indexes_tissue.txt``, directly or in a subfolder; or these files in this order. MATLAB files of any
        version; 7.3 needs h5py.
    subset : {"all", "train", "test"}, default="all"
        Subset to load.
    study : {1, 2, 3, 4}, default=1
        Split of the published program. 1: the two lists of samples, drawn from all seven measurements (22,000 and
        4,523); most samples to test then stand next to one to train in the file. 2: measurements 1, 2
        and 4 train, the others test. 3: 1, 6 and 7 train. 4: 2 to 7 train. The studies 2 to 4 need all 26,523
        samples.
    previous : bool, default=False
        Whether X also holds the displacement of the previous step. Needs `sequence_starts`. It assumes that the
        samples of a measurement follow each other in time, which the files do not state.
    sequence_starts : sequence of int, default=None
        Numbers, from 0 on and rising, of the samples that have no previous step. They are left out of both
        subsets. The published program shows that measurements start at 0, 3921, 7718, 11257, 15270 and 19445; the
        start of the seventh is not published. Only with ``previous=True``.
    n_train, n_test : int, default=None
        Number of training and test samples: the first ones of the split. None: all of them.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` of one subset instead of a Bunch; not possible with ``subset="all"``.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys

        X_train, X_test : FieldSet of samples on a grid of 21 x 21 points, float32
            Displacement along x and y on the outermost points and 0 in the interior; with ``previous=True`` two more
            channels, the whole displacement of the sample before. Only for the selected subsets.
        y_train, y_test : ndarray of shape (n, 21, 21, 2), float32
            Displacement along x and y.
        index_train, index_test : ndarray of shape (n,)
            Numbers of the samples in the file, from 0 on.
        coords : ndarray of shape (21, 21, 2), float32
            ``coords[i, j] = 5.5 * (i, j) / 20``, as in the published program, which does not state the unit.
        filenames : list of str
            Files that were read.
        protocol : dict
            Published split and scaling, as of `load_darcy`.
        DESCR : str
            Description of the data.
    (X, y) : tuple of a FieldSet and an ndarray if ``return_X_y=True``
        Inputs and targets of the subset.

    Raises
    ------
    ValueError
        If an argument is outside its range, or `previous` and `sequence_starts` do not come together.
    FileNotFoundError
        If a file is missing; the message states what was searched for and where it is published.
    FieldDataError
        If a file is damaged, does not have the published layout, or holds too few samples.

    See Also
    --------
    load_elasticity : Stress in a sheet with a void, computed.

    References
    ----------
    .. [1] You, Zhang, Ross, Lee, Hsu, Yu, "A physics-guided neural operator learning approach to model biological
       tissues from digital image correlation measurements", Journal of Biomechanical Engineering 144, 2022,
       arXiv:2204.00205.

    Examples
    --------
    Files of the same layout, here 6 samples of 4 x 4 points:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from scipy.io import savemat
    >>> from skop.datasets import load_tissue
    >>> with TemporaryDirectory() as folder:
    ...     savemat(Path(folder) / "TVAL001_noave_byset.mat", {"u": np.ones((6, 8, 4))})
    ...     for name, numbers in {"train": [1, 3, 4, 6], "test": [2, 5]}.items():
    ...         np.savetxt(Path(folder) / f"{name}_indexes_tissue.txt", numbers, fmt="%d")
    ...     data = load_tissue(folder)
    ...     X, y = load_tissue(folder, subset="train", previous=True, sequence_starts=[0, 3], return_X_y=True)
    >>> data.X_train.shape, data.y_test.shape, data.X_test.to_grid()[0, :, :, 0].tolist()[1]
    ((4, 16, 2), (2, 4, 4, 2), [1.0, 0.0, 0.0, 1.0])
    >>> X.shape, y.shape  # the samples 0 and 3 have no previous step
    ((2, 16, 4), (2, 4, 4, 2))
    """
    sizes = {"train": n_train, "test": n_test}
    _check_selection(subset, return_X_y, **{f"n_{name}": size for name, size in sizes.items() if size is not None})
    if study not in (1, 2, 3, 4):
        raise ValueError(f"study must be 1, 2, 3 or 4, got {study!r}.")
    if previous != (sequence_starts is not None):
        raise ValueError(
            "previous=True and sequence_starts need each other: the samples without a previous step are not published "
            f"in full, got previous={previous!r} and sequence_starts={sequence_starts!r}."
        )
    files = _find_files(path, {"u": _FILE} | (_INDEX_FILES if study == 1 else {}), _SOURCE)
    displacement = _read_displacement(files["u"])
    split = _read_lists(files, len(displacement)) if study == 1 else _study(study, len(displacement), files["u"])
    starts = _check_starts(sequence_starts, len(displacement))
    n_side = displacement.shape[2]
    axis = np.linspace(0, _SIDE, n_side, dtype=np.float32)
    coords = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    data = described("tissue", files, _DESCR, coords=coords)
    for name in (name for name in sizes if subset in ("all", name)):
        numbers, wanted = split[name], sizes[name]
        numbers = numbers[~np.isin(numbers, starts)]
        if not len(numbers) or (wanted is not None and wanted > len(numbers)):
            raise FieldDataError(
                f"{files['u']}: the split has {len(numbers)} samples to {name}, {wanted or 'at least 1'} "
                f"were asked for. Lower n_{name}, or name fewer sequence_starts."
            )
        numbers = numbers[:wanted]
        data[f"y_{name}"] = _components(displacement, numbers, files["u"])
        values = data[f"y_{name}"].copy()
        values[:, 1:-1, 1:-1] = 0
        if previous:
            values = np.concatenate([values, _components(displacement, numbers - 1, files["u"])], axis=-1)
        names = _CHANNELS + _PREVIOUS_CHANNELS if previous else _CHANNELS
        data[f"X_{name}"] = FieldSet(coords, values, channel_names=names)
        data[f"index_{name}"] = numbers
    return (data[f"X_{subset}"], data[f"y_{subset}"]) if return_X_y else data


def _read_displacement(file: Path) -> FloatArray:
    """Read the displacement of all samples, (n, 2, points, points)."""
    array = _read_mat_variable(file, "u")
    # The published program also reshapes a table with the values of a sample in a row.
    n_side = isqrt(int(np.prod(array.shape[1:])) // 2) if array.ndim in (2, 3) else 0
    fitting = {(2 * n_side, n_side), (2 * n_side**2,)} if n_side >= 3 else set()
    if array.shape[1:] not in fitting or array.dtype.kind not in "fiu":
        raise FieldDataError(
            f"{file}: 'u' must hold real numbers in the shape (samples, 2 * points, points), with 3 points a side or "
            f"more, got {array.dtype} of shape {array.shape}."
        )
    return array.reshape(len(array), 2, n_side, n_side)


def _components(displacement: FloatArray, numbers: IntArray, file: Path) -> FloatArray:
    """Displacement of some samples with components last, (n, points, points, 2)."""
    return as_fields(np.moveaxis(displacement[numbers], 1, -1), file)


def _read_lists(files: dict[str, Path], n_samples: int) -> dict[str, IntArray]:
    """Read the samples to train and to test, which the files number from 1 on."""
    split: dict[str, IntArray] = {}
    for name in _INDEX_FILES:
        file = files[name]
        try:
            numbers = np.loadtxt(file, ndmin=1)
        except (ValueError, UnicodeDecodeError) as error:
            raise FieldDataError(f"{file} must hold one number a line: {error}. Download it again.") from error
        is_number = np.isfinite(numbers) & (numbers >= 1) & (numbers <= n_samples) & (numbers % 1 == 0)
        if numbers.ndim != 1 or not is_number.all() or len(np.unique(numbers)) < len(numbers):
            raise FieldDataError(
                f"{file} must list different samples by whole numbers from 1 to {n_samples}, one a line. It is "
                "damaged, or belongs to another file of measurements."
            )
        split[name] = numbers.astype(np.int64) - 1
    shared = np.intersect1d(split["train"], split["test"])
    if len(shared):
        raise FieldDataError(
            f"{files['train']} and {files['test']} share {len(shared)} samples, the first number {shared[0] + 1}."
        )
    return split


def _study(study: int, n_samples: int, file: Path) -> dict[str, IntArray]:
    """Samples to train and to test of a study that splits by measurement."""
    if n_samples != _N_SAMPLES:
        raise FieldDataError(f"{file} holds {n_samples} samples; study={study} needs the published {_N_SAMPLES}.")
    train = np.concatenate([np.arange(start, stop) for start, stop in _TRAINING[study]])
    return {"train": train, "test": np.setdiff1d(np.arange(n_samples), train)}


def _check_starts(starts: Sequence[int] | None, n_samples: int) -> IntArray:
    """Samples without a previous step; raise ValueError unless they rise from 0."""
    if starts is None:
        return np.empty(0, dtype=np.int64)
    given = np.asarray(starts)
    is_valid = given.ndim == 1 and given.size > 0 and given.dtype.kind in "iu"
    numbers = given.astype(np.int64) if is_valid else np.empty(0, dtype=np.int64)
    if not is_valid or numbers[0] != 0 or (np.diff(numbers) < 1).any() or numbers[-1] >= n_samples:
        raise ValueError(
            f"sequence_starts must be rising integers from 0 to at most {n_samples - 1}, the first 0, got {starts!r}."
        )
    return numbers
