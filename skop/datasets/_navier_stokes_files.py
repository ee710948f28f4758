"""Loader of the published Navier-Stokes files."""

from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from skop._typing import FloatArray, PathOrStr
from skop.datasets._published import Subset, _check_selection, _find_files, _read_mat_variable, described
from skop.exceptions import FieldDataError

_FILE = "NavierStokes_V1e-5_N1200_T20.mat"
_SOURCE = (
    "The authors of arXiv:2010.08895 publish it in "
    "https://drive.google.com/drive/folders/1UnbQh2WWc6knEHbLn-ZaXrKUZhp7pjt- ; "
    "skop.datasets.make_navier_stokes generates samples of the same kind."
)
_DESCR = """Vorticity of turbulent flow in a periodic square (Li et al., Fourier Neural Operator, arXiv:2010.08895)

X: the first frames, one channel per frame; y: the frames that follow, one channel per frame.
Solved with viscosity 1e-5 on 256 x 256 points, kept on 64 x 64 at the times 1, 2, ..., 20.
Split: the first 1,000 samples for training, the last 200 of the file for testing.
coords: positions i / m of the m points on each axis of the periodic unit square.
"""


def load_navier_stokes(
    path: PathOrStr,
    *,
    subset: Subset = "all",
    n_input: int = 10,
    n_output: int = 10,
    subsample: int = 1,
    n_train: int = 1000,
    n_test: int = 200,
    return_X_y: bool = False,
) -> Bunch | tuple[FloatArray, FloatArray]:
    """Load the published Navier-Stokes file of Li et al. with the split that the papers use [1]_.

    Parameters
    ----------
    path : path
        Folder that holds ``NavierStokes_V1e-5_N1200_T20.mat``, directly or in a subfolder; or the file, which
        may then be another one of the same authors, such as that for a viscosity of 1e-3. MATLAB files of any
        version; 7.3 needs h5py.
    subset : {"all", "train", "test"}, default="all"
        Subset to load.
    n_input, n_output : int, default=10
        Number of frames in X, from the first on, and of the following frames in y.
    subsample : int, default=1
        Stride in each direction: every `subsample`-th point is kept; it must divide the number of points (64).
    n_train : int, default=1000
        Number of training samples: the first ones of the file.
    n_test : int, default=200
        Number of test samples: the last ones of the file.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` of one subset instead of a Bunch; not possible with ``subset="all"``.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys, where m is the number of points per side that are kept:

        X_train, X_test : ndarray of shape (n_train or n_test, m, m, n_input), float32
            Vorticity, one channel per frame. Only for the selected subsets.
        y_train, y_test : ndarray of shape (n_train or n_test, m, m, n_output), float32
            The frames that follow.
        coords : ndarray of shape (m, m, 2), float32
            ``coords[i, j] = (i, j) / m``, positions in the periodic unit square.
        filenames : list of str
            File that was read.
        protocol : dict
            Published split and scaling, as of `load_darcy`.
        DESCR : str
            Description of the data.
    (X, y) : tuple of two ndarrays if ``return_X_y=True``
        Arrays of the subset.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    FileNotFoundError
        If the file is missing; the message states what was searched for and where it is published.
    FieldDataError
        If the file is damaged or lacks the variable, or has too few samples or frames.

    See Also
    --------
    make_navier_stokes : Generate samples of the same distribution.

    References
    ----------
    .. [1] Li, Kovachki, Azizzadenesheli, Liu, Bhattacharya, Stuart, Anandkumar, "Fourier Neural Operator
       for Parametric Partial Differential Equations", ICLR 2021, arXiv:2010.08895.

    Examples
    --------
    A file of the same layout, here 3 samples of 8 x 8 points and 5 frames in place of 1,200 of 64 x 64 and 20:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from scipy.io import savemat
    >>> from skop.datasets import load_navier_stokes
    >>> with TemporaryDirectory() as folder:
    ...     savemat(Path(folder) / "NavierStokes_V1e-5_N1200_T20.mat", {"u": np.zeros((3, 8, 8, 5))})
    ...     data = load_navier_stokes(folder, n_input=3, n_output=2, n_train=2, n_test=1)
    >>> data.X_train.shape, data.y_train.shape, data.X_test.shape
    ((2, 8, 8, 3), (2, 8, 8, 2), (1, 8, 8, 3))
    """
    counts = {"subsample": subsample, "n_input": n_input, "n_output": n_output, "n_train": n_train, "n_test": n_test}
    _check_selection(subset, return_X_y, **counts)
    file = _find_files(path, {"all": _FILE}, _SOURCE)["all"]
    vorticity = _read_vorticity(file, n_input + n_output, subsample)
    wanted = {name: (n_train, n_test)[name == "test"] for name in ("train", "test") if subset in ("all", name)}
    if sum(wanted.values()) > len(vorticity):
        asked = " and ".join(f"{count} to {name}" for name, count in wanted.items())
        raise FieldDataError(f"{file} holds {len(vorticity)} samples; asked for {asked}. Lower n_train or n_test.")
    data = described("navier_stokes", {"all": file}, _DESCR, coords=_periodic_square(vorticity.shape[1]))
    for name, count in wanted.items():
        part = vorticity[:count] if name == "train" else vorticity[-count:]
        fields = np.ascontiguousarray(part, dtype=np.float32)
        if not np.isfinite(fields).all():
            raise FieldDataError(f"{file}: 'u' holds values that are not finite. Download the file again.")
        data[f"X_{name}"], data[f"y_{name}"] = fields[..., :n_input], fields[..., n_input:]
    return (data[f"X_{subset}"], data[f"y_{subset}"]) if return_X_y else data


def _read_vorticity(file: Path, n_frames: int, subsample: int) -> FloatArray:
    """Read the first frames of all samples, every `subsample`-th point, (samples, m, m, n_frames)."""
    array = _read_mat_variable(file, "u")
    if array.ndim != 4 or array.shape[1] != array.shape[2]:
        raise FieldDataError(f"{file}: 'u' must have the shape (samples, points, points, frames), got {array.shape}.")
    if array.dtype.kind not in "fiu":
        raise FieldDataError(f"{file}: 'u' must hold real numbers, got {array.dtype}.")
    if array.shape[3] < n_frames:
        raise FieldDataError(
            f"{file}: 'u' holds {array.shape[3]} frames, {n_frames} were asked for. Lower n_input or n_output."
        )
    if array.shape[1] % subsample:
        raise FieldDataError(
            f"{file}: subsample={subsample} must divide the number of points per side, {array.shape[1]}."
        )
    return array[:, ::subsample, ::subsample, :n_frames]


def _periodic_square(n_points: int) -> FloatArray:
    """Positions (i, j) / m of a periodic grid on the unit square, (m, m, 2)."""
    axis = np.arange(n_points, dtype=np.float32) / n_points
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
