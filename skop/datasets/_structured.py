"""Loaders of the published files on flows in deformed domains: airfoil and pipe (Li et al., Geo-FNO).

Nothing is downloaded here. Errors state which files are missing and where they are published.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from skop._typing import FloatArray, PathOrStr
from skop.data import FieldSet
from skop.datasets._published import Subset, _find_files
from skop.datasets._published_arrays import GEO_FNO_SOURCE, Selection, as_fields, check_same, read_npy
from skop.exceptions import FieldDataError

AIRFOIL_VARIABLES = ("density", "velocity_x", "velocity_y", "pressure", "mach")
_PIPE_VARIABLES = ("velocity_x", "velocity_y", "pressure")
#: The papers test airfoil and pipe on samples from this number on, whatever they train on.
_FIRST_TEST = 1000

_AIRFOIL_DESCR = """Transonic flow about airfoils (Li et al., Geo-FNO, arXiv:2207.05209)

X: positions of the 221 x 51 points of a mesh about the airfoil; the second axis runs from the wall outwards.
y: the variables asked for; by default the Mach number.
Split: samples 0 to 999 for training, 1,000 to 1,199 for testing.
"""
_PIPE_DESCR = """Flow through bent pipes (Li et al., Geo-FNO, arXiv:2207.05209)

X: positions of the 129 x 129 points of a mesh of the pipe.
y: the variables asked for; by default the horizontal velocity.
Split: samples 0 to 999 for training, 1,000 to 1,199 for testing.
"""


def load_airfoil(
    path: PathOrStr | Sequence[PathOrStr],
    *,
    variables: Sequence[str] = ("mach",),
    subset: Subset = "all",
    n_train: int = 1000,
    n_test: int = 200,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Load the published airfoil files of Li et al. with the split that the papers use [1]_.

    Parameters
    ----------
    path : path, or three paths
        Folder that holds ``NACA_Cylinder_X.npy``, ``NACA_Cylinder_Y.npy`` and ``NACA_Cylinder_Q.npy``, directly or in
        a subfolder (``naca``); or the three files in this order.
    variables : sequence of str, default=("mach",)
        Channels of y, of ``"density"``, ``"velocity_x"``, ``"velocity_y"``, ``"pressure"`` and ``"mach"``. The papers
        predict the Mach number.
    subset : {"all", "train", "test"}, default="all"
        Subset to load.
    n_train : int, default=1000
        Number of training samples: the first ones, at most 1,000.
    n_test : int, default=200
        Number of test samples: those from number 1,000 on, whatever `n_train`.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` of one subset instead of a Bunch; not possible with ``subset="all"``.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the keys

        X_train, X_test : FieldSet of n_train or n_test samples, float32
            Coordinates of the points of each sample, on a curvilinear grid of 221 x 51, which are the only input.
            `coords` has the shape (n, 11271, 2). Only for the selected subsets.
        y_train, y_test : ndarray of shape (n_train or n_test, 221, 51, len(variables)), float32
            The variables.
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
    make_airfoil : Generate samples by the same recipe.
    load_pipe : Another flow on meshes that deform.

    References
    ----------
    .. [1] Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
       Geometries", JMLR 24, 2023, arXiv:2207.05209.

    Examples
    --------
    Files of the same layout, here 1,002 samples of 4 x 3 points:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from skop.datasets import load_airfoil
    >>> with TemporaryDirectory() as folder:
    ...     for name, shape in {"X": (1002, 4, 3), "Y": (1002, 4, 3), "Q": (1002, 5, 4, 3)}.items():
    ...         np.save(Path(folder) / f"NACA_Cylinder_{name}.npy", np.zeros(shape))
    ...     data = load_airfoil(folder, n_train=3, n_test=2, variables=("pressure", "mach"))
    >>> data.X_train.grid_shape, data.X_train.coords.shape, data.y_test.shape
    ((4, 3), (3, 12, 2), (2, 4, 3, 2))
    """
    selection = Selection(subset, n_train, n_test, return_X_y, _FIRST_TEST)
    files = _find_files(
        path, {name: f"NACA_Cylinder_{name}.npy" for name in "XYQ"}, GEO_FNO_SOURCE.format("make_airfoil")
    )
    data = _read_flow(files, selection, AIRFOIL_VARIABLES, variables)
    return selection.result("airfoil", data, files, _AIRFOIL_DESCR)


def load_pipe(
    path: PathOrStr | Sequence[PathOrStr],
    *,
    variables: Sequence[str] = ("velocity_x",),
    subset: Subset = "all",
    n_train: int = 1000,
    n_test: int = 200,
    return_X_y: bool = False,
) -> Bunch | tuple[FieldSet, FloatArray]:
    """Load the published pipe files of Li et al. with the split that the papers use [1]_.

    Parameters
    ----------
    path : path, or three paths
        Folder that holds ``Pipe_X.npy``, ``Pipe_Y.npy`` and ``Pipe_Q.npy``, directly or in a subfolder
        (``pipe``); or the three files in this order.
    variables : sequence of str, default=("velocity_x",)
        Channels of y, of ``"velocity_x"``, ``"velocity_y"`` and ``"pressure"``. The papers predict the horizontal
        velocity. Only its place in the file is documented; the other two are in the usual order.
    subset, n_train, n_test, return_X_y : as in `load_airfoil`
        Subset, numbers of samples and form of the result, with the same defaults.

    Returns
    -------
    data or (X, y) : as of `load_airfoil`
        Positions on a curvilinear grid of 129 x 129 points, and the variables there.

    Raises
    ------
    ValueError, FileNotFoundError, FieldDataError
        As `load_airfoil`.

    See Also
    --------
    make_pipe : Samples of the same kind without a download.
    load_airfoil : Another flow on meshes that deform.

    References
    ----------
    .. [1] Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
       Geometries", JMLR 24, 2023, arXiv:2207.05209.

    Examples
    --------
    Files of the same layout, here 1,002 samples of 4 x 3 points:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from skop.datasets import load_pipe
    >>> with TemporaryDirectory() as folder:
    ...     for name, shape in {"X": (1002, 4, 3), "Y": (1002, 4, 3), "Q": (1002, 3, 4, 3)}.items():
    ...         np.save(Path(folder) / f"Pipe_{name}.npy", np.zeros(shape))
    ...     X, y = load_pipe(folder, subset="test", n_test=2, return_X_y=True)
    >>> X.grid_shape, X.coords.shape, y.shape
    ((4, 3), (2, 12, 2), (2, 4, 3, 1))
    """
    selection = Selection(subset, n_train, n_test, return_X_y, _FIRST_TEST)
    files = _find_files(path, {name: f"Pipe_{name}.npy" for name in "XYQ"}, GEO_FNO_SOURCE.format("make_pipe"))
    data = _read_flow(files, selection, _PIPE_VARIABLES, variables)
    return selection.result("pipe", data, files, _PIPE_DESCR)


def check_variables(published: tuple[str, ...], variables: Sequence[str]) -> list[int]:
    """Return the channels of variables; raise ValueError unless all are published."""
    if isinstance(variables, str) or not len(variables) or not set(variables) <= set(published):
        raise ValueError(f"variables must be a sequence of {', '.join(published)}, got {variables!r}.")
    return [published.index(name) for name in variables]


def _read_flow(
    files: dict[str, Path], selection: Selection, published: tuple[str, ...], variables: Sequence[str]
) -> Bunch:
    """Read positions and variables of the samples selected."""
    channels = check_variables(published, variables)
    x, y, q = read_npy(files["X"], 3), read_npy(files["Y"], 3), read_npy(files["Q"], 4)
    if q.shape[1] != len(published):
        raise FieldDataError(f"{files['Q']} must hold {len(published)} variables on axis 1, got the shape {q.shape}.")
    check_same({"X": x.shape, "Y": y.shape, "Q": q.shape[:1] + q.shape[2:]})

    def inputs(samples: slice) -> FieldSet:
        """Positions of some samples."""
        return FieldSet(np.stack([as_fields(x[samples], files["X"]), as_fields(y[samples], files["Y"])], axis=-1))

    def targets(samples: slice) -> FloatArray:
        """Variables of some samples."""
        return np.stack([as_fields(q[samples, channel], files["Q"]) for channel in channels], axis=-1)

    return selection.read(selection.slices(len(x), files["X"]), inputs, targets)
