"""Arrays of .npz and .mat files, and tables of .csv files, for the commands.

Notation: n samples, P points of a sample, d space dimensions, c channels, p parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

__all__ = ["counting_columns", "listed", "numbers_of", "read_arrays", "read_csv"]

#: Names under which arrays are looked for, in this order.
_ARRAY_NAMES = {
    "x": ("X", "x", "inputs", "input", "a", "coeff"),
    "y": ("Y", "y", "outputs", "output", "targets", "target", "u", "sol"),
    "coords": ("coords", "coordinates", "points"),
    "params": ("params", "parameters", "theta", "mu"),
}
#: Options that name arrays, where they differ from the roles.
_ARRAY_OPTIONS = {"params": "array-params"}
#: A number as tables write it, also with a decimal comma.
_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")
#: Largest number of channels that the last axis of an array on a grid is taken for.
_MOST_CHANNELS = 16


# ---------------------------------------------------------------------- arrays
def read_arrays(path: Path, names: dict[str, str | None], channels: str, *, needs_targets: bool) -> tuple[Any, Any]:
    """Read the arrays of a .npz or .mat file in a form that estimators take.

    Parameters
    ----------
    path : Path
        File.
    names : dict of str to str or None
        Name of the array in each of the roles ``"x"``, ``"y"``, ``"coords"`` and ``"params"``; None takes a usual name.
    channels : {"auto", "last", "none"}
        Whether the last axis of arrays holds channels.
    needs_targets : bool
        Whether a file without targets is an error.

    Returns
    -------
    tuple of (FieldSet or ndarray, FieldSet, ndarray or None)
        X and y.

    Raises
    ------
    FieldDataError
        If the file cannot be read.
    click.UsageError
        If arrays are missing, ambiguous, or do not belong together.
    """
    arrays = _load_npz(path) if path.suffix.lower() == ".npz" else _load_mat(path)
    found = {role: _find_array(arrays, role, name, path) for role, name in names.items()}
    if single := [role for role, array in found.items() if array is not None and array.ndim == 0]:
        raise click.UsageError(f"{single[0]} is a single number; the first axis of arrays is that of the samples")
    if found["x"] is None and found["coords"] is None and found["params"] is None:
        raise click.UsageError(f"{path} has no array of inputs by a known name; choose by --x from: {_shapes(arrays)}")
    if found["y"] is None and needs_targets:
        raise click.UsageError(f"{path} has no array of targets by a known name; choose by --y from: {_shapes(arrays)}")
    X, y = _arranged(found, channels)
    if y is not None and len(y) != len(X):
        raise click.UsageError(
            f"the first axis of arrays is that of the samples, but X has {len(X)} and y {len(y)}: {_shapes(arrays)}"
        )
    return X, y


def _load_npz(path: Path) -> dict[str, Any]:
    """Arrays of a NumPy file, without unpickling anything."""
    import numpy as np

    from skop.data._file_guards import check_npz, check_regular_file
    from skop.exceptions import FieldDataError

    check_regular_file(path)
    check_npz(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            content = {name: file[name] for name in file.files}
    # Damage ends in errors of zlib, zipfile and NumPy; a stated size that no memory holds, and a password, in others.
    except Exception as error:
        what = str(error) or type(error).__name__
        raise FieldDataError(f"cannot read {path}: {what}; write it by numpy.savez(path, X=X, y=y).") from error
    # Other members, such as notes, come as bytes.
    return {name: value for name, value in content.items() if isinstance(value, np.ndarray)}


def _load_mat(path: Path) -> dict[str, Any]:
    """Arrays of a MATLAB file."""
    import numpy as np
    from scipy.io import loadmat

    from skop.data._file_guards import check_matlab, check_regular_file, is_hdf5
    from skop.exceptions import FieldDataError, OptionalDependencyError

    check_regular_file(path)
    try:
        check_matlab(path)
        content = _load_hdf5(path) if is_hdf5(path) else loadmat(path)
    except (FieldDataError, OptionalDependencyError):
        raise
    except Exception as error:
        what = str(error) or type(error).__name__
        raise FieldDataError(f"cannot read {path}: {what}; it is no MATLAB file, or damaged.") from error
    arrays = {name: value for name, value in content.items() if not name.startswith("_")}
    return {name: value for name, value in arrays.items() if getattr(value, "dtype", np.dtype("O")).kind in "fiub"}


def _load_hdf5(path: Path) -> dict[str, Any]:
    """Arrays of a MATLAB file of version 7.3."""
    import numpy as np

    from skop._optional import import_optional
    from skop.data._file_guards import check_hdf5

    h5py = import_optional("h5py", purpose="read MATLAB files of version 7.3")
    with h5py.File(path, "r") as file:
        check_hdf5(file, path)
        held = {name: item for name, item in file.items() if isinstance(item, h5py.Dataset)}
        # MATLAB stores by columns, so that HDF5 shows the axes in reverse; a null data set has no shape.
        return {name: np.asarray(item).T for name, item in held.items() if item.shape is not None}


def _find_array(arrays: dict[str, Any], role: str, name: str | None, path: Path) -> Any:
    """Array of a role, by the name that was given or by the usual ones; None if there is none of these."""
    if name is not None and name not in arrays:
        raise click.UsageError(f"{path} has no array {name!r}; it holds: {_shapes(arrays)}")
    usual = [known for known in _ARRAY_NAMES[role] if known in arrays]
    if name is None and len(usual) > 1:
        option = f"--{_ARRAY_OPTIONS.get(role, role)}"
        raise click.UsageError(f"{path} holds {' and '.join(usual)}; say which by {option} from: {_shapes(arrays)}")
    found = name if name is not None else next(iter(usual), None)
    if found is None:
        return None
    if name is None:
        click.echo(f"{path}: {role} = {found} {arrays[found].shape}", err=True)
    return arrays[found]


def _shapes(arrays: dict[str, Any]) -> str:
    """Names and shapes of arrays."""
    return ", ".join(f"{name} {tuple(array.shape)}" for name, array in arrays.items()) or "nothing"


def _arranged(arrays: dict[str, Any], channels: str) -> tuple[Any, Any]:
    """X and y in a form that estimators take."""
    from skop.data import FieldSet

    x, y, coords, params = (arrays[role] for role in ("x", "y", "coords", "params"))
    # MATLAB makes a row of a vector.
    y = y.reshape(-1) if y is not None and y.ndim == 2 and y.shape[0] == 1 < y.shape[1] else y
    # One parameter needs no axis of its own.
    params = params[:, None] if params is not None and params.ndim == 1 else params
    if coords is None:
        if params is not None and x is not None:
            raise click.UsageError("parameters beside fields need the points of the fields: --coords ARRAY")
        return _with_channels(params if x is None else x, channels), _with_channels(y, channels)
    x = _on_points(x, coords)
    y = y if y is None or y.ndim == 1 else _on_points(y, coords)
    if y is not None and y.ndim > 2:
        y = FieldSet(coords, y)
    if x is None and params is not None and coords.ndim == 2:
        return params, y
    return FieldSet(coords, x, params=params), y


def _with_channels(array: Any, channels: str) -> Any:
    """Array with an axis of channels."""
    if array is None or array.ndim == 1 or channels == "last":
        return array
    is_bare = array.ndim > 2 and array.shape[-1] > _MOST_CHANNELS
    return array[..., None] if channels == "none" or is_bare else array


def _on_points(array: Any, coords: Any) -> Any:
    """Fields on points with an axis of channels, (n, P, c)."""
    if array is None or array.ndim < 2:
        return array
    axes = coords.shape[:-1] if coords.shape[0] != array.shape[0] or coords.ndim == 2 else coords.shape[1:-1]
    return array[..., None] if array.shape[1:] == axes else array


# ---------------------------------------------------------------------- tables
def read_csv(path: str | Path) -> Any:
    """Read a table with pandas.

    Parameters
    ----------
    path : str or Path
        CSV file with a header.

    Returns
    -------
    DataFrame
        The table, with names of columns without spaces around them.

    Raises
    ------
    FieldDataError
        If the file cannot be read.
    """
    from skop._optional import import_optional
    from skop.data._file_guards import check_regular_file
    from skop.exceptions import FieldDataError

    check_regular_file(Path(path))
    pandas = import_optional("pandas", purpose="read CSV files")
    try:
        # The engine "python" finds out whether columns are separated by commas, semicolons or tabs.
        table = pandas.read_csv(path, sep=None, engine="python", skipinitialspace=True)
        names = [str(name).strip() for name in table.columns]
        # A name that is repeated gets a number. Without a header, names are as they are in the file.
        first = pandas.read_csv(path, sep=None, engine="python", skipinitialspace=True, header=None, dtype=str, nrows=1)
        written = [str(name).strip() for name in first.iloc[0].dropna()]
    except Exception as error:
        raise FieldDataError(f"cannot read {path} as a table: {error}") from error
    repeated = sorted(name for name in set(written) - {""} if written.count(name) > 1)
    if repeated:
        raise FieldDataError(
            f"cannot read {path} as a table: its header has {repeated[0]!r} {written.count(repeated[0])} times; give "
            "each column a name of its own."
        )
    return table.set_axis(names, axis=1)


def numbers_of(
    table: Any, columns: Sequence[str], source: str | None, leave_out: Sequence[str] = (), files: Sequence[str] = ()
) -> Any:
    """Named columns, or all columns of numbers other than some.

    Parameters
    ----------
    table : DataFrame
        Table.
    columns : sequence of str
        Names of the columns; none takes all columns of numbers.
    source : str or None
        Name of the file, for messages.
    leave_out : sequence of str, default=()
        Columns that are not taken where none are named.
    files : sequence of str, default=()
        Name of each row, for messages.

    Returns
    -------
    DataFrame
        The columns.

    Raises
    ------
    FieldDataError
        If columns hold text or miss numbers.
    click.UsageError
        If a column does not exist, or none holds numbers.
    """
    import numpy as np

    from skop.exceptions import FieldDataError

    unknown = [name for name in columns if name not in table.columns]
    if unknown:
        raise click.UsageError(f"{source} has no column {unknown[0]!r}; its columns are: {listed(table.columns)}")
    names = list(columns) or [
        name for name in table.columns if table[name].dtype.kind in "fiub" and name not in leave_out
    ]
    for name in columns or [name for name in table.columns if name not in leave_out]:
        _refuse_text_among_numbers(table[name], source, all_numbers=bool(columns))
    if not names:
        raise click.UsageError(f"{source} has no columns of numbers; its columns are: {listed(table.columns)}")
    for name in names:
        missing = np.flatnonzero(~np.isfinite(table[name].to_numpy(float)))
        if len(missing):
            where = f"for {files[missing[0]]}" if files else f"in row {missing[0] + 1}"
            raise FieldDataError(f"column {name!r} of {source} has no number {where}; fill it in.")
    return table[names]


def _refuse_text_among_numbers(column: Any, source: str | None, *, all_numbers: bool) -> None:
    """Raise an error for a column with text if it has to hold numbers, or mostly does."""
    from skop.exceptions import FieldDataError

    texts = [value for value in column if isinstance(value, str)]
    if column.dtype.kind in "fiub" or not texts:
        return
    strange = [text for text in texts if not _NUMBER.fullmatch(text)]
    # Left out in silence, a column in which one number is mistyped would be an input less.
    if all_numbers or len(strange) < len(texts) / 2:
        found = (strange or [text for text in texts if "," in text] or texts)[0]
        advice = "" if all_numbers else " Correct it, or name the columns to use by --input or --param."
        raise FieldDataError(
            f"column {column.name!r} of {source} holds text, such as {found!r}; expected numbers.{advice}"
        )


def counting_columns(table: Any) -> list[str]:
    """Names of the columns that only count the rows, which are no parameters.

    Parameters
    ----------
    table : DataFrame
        Table.

    Returns
    -------
    list of str
        Columns of successive integers, in any order.
    """
    import numpy as np

    rows = np.arange(len(table))
    return [
        name
        for name in table.columns
        if table[name].dtype.kind in "iu" and len(rows) > 2 and np.ptp(np.sort(table[name]) - rows) == 0
    ]


def listed(names: Sequence[str]) -> str:
    """Names between commas.

    Parameters
    ----------
    names : sequence of str
        Names.

    Returns
    -------
    str
        The names, or "none".
    """
    return ", ".join(map(str, names)) or "none"
