"""Loaders of the published files on solids: elasticity and plasticity (Li et al., Geo-FNO).

Nothing is downloaded here. Errors state which files are missing and where they are published.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skop._typing import FloatArray, PathOrStr
from skop.data import FieldSet
from skop.datasets._published import Subset, _find_files, _read_mat_variable
from skop.datasets._published_arrays import GEO_FNO_SOURCE, Selection, as_fields, check_same, read_npy
from skop.exceptions import FieldDataError

_ELASTICITY_DESCR = """Stress around a void in a stretched sheet (Li et al., Geo-FNO, arXiv:2207.05209)

X: positions of 972 points of the unit cell. y: one stress at each.
Split: the first 1,000 of 2,000 samples for training, the last 200 for testing.
"""
_PLASTICITY_DESCR = """A block forged by a die (Li et al., Geo-FNO, arXiv:2207.05209)

X: profile of the die over the 101 points along the block, repeated over the 31 points across.
y: four quantities at 20 times, channel 4 t + k holds quantity k at time t.
coords: positions of the points of the block, in units of its sides. times: from 0 to 1.
Split: the first 900 of 987 samples for training, the last 80 for testing.
"""


def load_elasticity(
    path: PathOrStr | Sequence[PathOrStr],
    *,
    subset: Subset = "all",
    n_train: int = 1000,
    n_test: int = 200,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Load the published elasticity files of Li et al. with the split that the papers use [1]_.

    Parameters
    ----------
    path : path, or pair of paths
        Folder that holds ``Random_UnitCell_XY_10.npy`` and ``Random_UnitCell_sigma_10.npy``, directly or in a
        subfolder (``Meshes``); or the two files in this order.
    subset : {"all", "train", "test"}, default="all"
        Subset to load.
    n_train : int, default=1000
        Number of training samples: the first ones.
    n_test : int, default=200
        Number of test samples: the last ones (of 2,000).
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` of one subset instead of a Bunch; not possible with ``subset="all"``.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys

        X_train, X_test : FieldSet of n_train or n_test samples, float32
            Coordinates of the points of each sample, which are the only input. `coords` has the shape (n, 972, 2).
            Only for the selected subsets.
        y_train, y_test : ndarray of shape (n_train or n_test, 972, 1), float32
            Stress.
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
        If an argument is outside its range.
    FileNotFoundError
        If a file is missing; the message states what was searched for and where it is published.
    FieldDataError
        If a file is damaged, does not have the published layout, or holds too few samples.

    See Also
    --------
    make_elasticity : Generate samples by the same recipe.

    References
    ----------
    .. [1] Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
       Geometries", JMLR 24, 2023, arXiv:2207.05209.

    Examples
    --------
    Files of the same layout, here 5 samples of 7 points in place of 2,000 of 972:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from skop.datasets import load_elasticity
    >>> with TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "Random_UnitCell_XY_10.npy", np.zeros((7, 2, 5)))
    ...     np.save(Path(folder) / "Random_UnitCell_sigma_10.npy", np.zeros((7, 5)))
    ...     data = load_elasticity(folder, n_train=3, n_test=2)
    >>> data.X_train.coords.shape, data.y_test.shape
    ((3, 7, 2), (2, 7, 1))
    """
    selection = Selection(subset, n_train, n_test, return_X_y)
    wanted = {"XY": "Random_UnitCell_XY_10.npy", "sigma": "Random_UnitCell_sigma_10.npy"}
    files = _find_files(path, wanted, GEO_FNO_SOURCE.format("make_elasticity"))
    coords = np.moveaxis(read_npy(files["XY"], 3), -1, 0)
    stress = read_npy(files["sigma"], 2).T
    if coords.shape[2] != 2:
        published = (*coords.shape[1:], coords.shape[0])
        raise FieldDataError(f"{files['XY']} must hold an array (points, 2, samples), got the shape {published}.")
    check_same({"XY": coords.shape[:2], "sigma": stress.shape})
    data = selection.read(
        selection.slices(len(coords), files["XY"]),
        lambda samples: FieldSet(as_fields(coords[samples], files["XY"])),
        lambda samples: as_fields(stress[samples, :, np.newaxis], files["sigma"]),
    )
    return selection.result("elasticity", data, files, _ELASTICITY_DESCR)


def load_plasticity(
    path: PathOrStr,
    *,
    subset: Subset = "all",
    n_train: int = 900,
    n_test: int = 80,
    published_coords: bool = False,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Load the published plasticity file of Li et al. with the split that the papers use [1]_.

    Parameters
    ----------
    path : path
        Folder that holds ``plas_N987_T20.mat``, directly or in a subfolder; or the file. MATLAB files of any
        version; 7.3 needs h5py. Reading the file takes about 3 GB of memory.
    subset, return_X_y : as in `load_elasticity`
        Subset and form of the result, with the same defaults.
    n_train : int, default=900
        Number of training samples: the first ones.
    n_test : int, default=80
        Number of test samples: the last ones (of 987).
    published_coords : bool, default=False
        Whether to use the coordinates of the papers' programs. There, positions are numbered along the first axis and
        values along the second, so that on this grid of 101 x 31 points nearly every value has the position of another
        point. The published errors include this. The default uses the correct positions.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys

        X_train, X_test : FieldSet of n_train or n_test samples, float32
            Profile of the die along the first axis, the same for all points of the second, on the positions `coords`.
            `values` has the shape (n, 3131, 1). Only for the selected subsets.
        y_train, y_test : ndarray of shape (n_train or n_test, 101, 31, 80), float32
            Position x and y and displacement along x and y at 20 times, mm: channel ``4 t + k`` is quantity k at time
            t. Points run from right to left and down, profiles from left to right.
        coords : ndarray of shape (101, 31, 2), float32
            ``coords[i, j] = (i / 100, j / 30)``, positions in units of the block's sides, 50 mm and 15 mm.
        times : ndarray of shape (20,), float32
            ``j / 19``.
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
    ValueError, FileNotFoundError, FieldDataError
        As `load_elasticity`.

    See Also
    --------
    make_plasticity : Generate samples by the same recipe.

    References
    ----------
    .. [1] Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
       Geometries", JMLR 24, 2023, arXiv:2207.05209.

    Examples
    --------
    A file of the same layout, here 5 samples of 6 x 3 points and 2 times:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from scipy.io import savemat
    >>> from skop.datasets import load_plasticity
    >>> with TemporaryDirectory() as folder:
    ...     arrays = {"input": np.zeros((5, 6)), "output": np.zeros((5, 6, 3, 2, 4))}
    ...     savemat(Path(folder) / "plas_N987_T20.mat", arrays)
    ...     data = load_plasticity(folder, n_train=3, n_test=2)
    >>> data.X_train.grid_shape, data.X_train.shape, data.y_train.shape, data.coords.shape
    ((6, 3), (3, 18, 1), (3, 6, 3, 8), (6, 3, 2))
    """
    selection = Selection(subset, n_train, n_test, return_X_y)
    files = _find_files(
        path,
        {"data": "plas_N987_T20.mat"},
        GEO_FNO_SOURCE.format("make_plasticity"),
    )
    file = files["data"]
    profile, response = _read_mat_array(file, "input", 2), _read_mat_array(file, "output", 5)
    check_same({"input": profile.shape, "output": response.shape[:2]})
    n_along, n_across, n_times, n_quantities = response.shape[1:]
    coords = _unit_grid(n_along, n_across, published_coords)

    def inputs(samples: slice) -> FieldSet:
        """Profiles of some samples on the points."""
        fields = as_fields(profile[samples], file)[:, :, np.newaxis, np.newaxis]
        return FieldSet(coords, np.repeat(fields, n_across, axis=2))

    def targets(samples: slice) -> FloatArray:
        """Responses of some samples, time in the channels."""
        return as_fields(response[samples], file).reshape(-1, n_along, n_across, n_times * n_quantities)

    data = selection.read(selection.slices(len(profile), file), inputs, targets)
    data["coords"] = coords
    data["times"] = np.linspace(0, 1, n_times, dtype=np.float32)
    return selection.result("plasticity", data, files, _PLASTICITY_DESCR)


def _read_mat_array(file: Path, key: str, n_dims: int) -> np.ndarray[Any, Any]:
    """Read an array of real numbers with `n_dims` axes from a MATLAB file."""
    array = _read_mat_variable(file, key)
    if array.ndim != n_dims or array.dtype.kind not in "fiu":
        raise FieldDataError(
            f"{file}: {key!r} must hold real numbers on {n_dims} axes, got {array.dtype} of shape {array.shape}."
        )
    return array


def _unit_grid(n_along: int, n_across: int, first_axis_fastest: bool) -> FloatArray:
    """Positions of a grid on the unit square, (n_along, n_across, 2), or those positions out of their order."""
    along, across = (np.linspace(0, 1, count, dtype=np.float32) for count in (n_along, n_across))
    grid = np.stack(np.meshgrid(along, across, indexing="ij"), axis=-1)
    return np.swapaxes(grid, 0, 1).reshape(grid.shape) if first_axis_fastest else grid
