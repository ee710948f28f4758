"""Files of arrays (.npz, .npy, .mat, .h5) and tables (.csv), which hold X, and most of them y too.

Notation: n samples, P points of a sample, d space dimensions, c channels, p parameters.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from skop._optional import import_optional
from skop.data._fieldset import FieldSet
from skop.data._file_guards import (
    check_hdf5,
    check_matlab,
    check_npz,
    check_regular_file,
    hdf5_array,
    is_hdf5,
)
from skop.data._mesh_files import existing_file, is_path
from skop.data._pairing import counts_rows, is_index
from skop.data.forms._interface import Form
from skop.exceptions import FieldDataError, OptionalDependencyError, warn

__all__ = ["FILES", "ChoiceError", "counting_columns", "listed", "numbers_of", "read_arrays", "read_csv", "unit_of"]

#: Names under which arrays are looked for, in this order.
_ARRAY_NAMES = {
    "x": ("X", "x", "inputs", "input", "a", "coeff"),
    "y": ("Y", "y", "outputs", "output", "targets", "target", "u", "sol"),
    "coords": ("coords", "coordinates", "points"),
    "params": ("params", "parameters", "theta", "mu"),
}
#: How the array of a role, and the columns of a table, are chosen in Python.
_CHOSEN_BY = {
    "x": "input_fields",
    "y": "target_fields",
    "columns": "input_fields",
    "coords": "keeping one of them",
    "params": "keeping one of them",
    "points": "an array 'coords'",
}
#: Begin of a number with decimals, thousands or an exponent in any notation.
_BEGIN_OF_NUMBER = re.compile(r"[\s<>~≈±]*[+-]?\d*([.,'’\s]|(?<=\d)[eEdD][+-]?)\d")
#: Begin of a date, with the year first or last, or of a time of day.
_BEGIN_OF_DATE = re.compile(r"\s*(\d{4}([-/.])\d\d?\2\d|\d\d?([-/.])\d\d?\3\d\d|\d\d?:\d\d)")
#: A number as tables write it, also with a decimal comma.
_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")
#: A number, and its unit or percent sign if there is one; names such as 3.vtu and 03a are none.
_QUANTITY = re.compile(
    r"\s*[+-]?(?!0\d)(?:\d+(?:[.,]\d+)?|[.,]\d+)(?:[eE][+-]?\d+)?\s*((?:[^\W\d_]|[%‰°])(?:[^\W_]|[%‰°*/·^.-])*)?\s*"
)
#: Characters between the columns of a table; of equal ones, the first.
_SEPARATORS = (",", ";", "\t", "|")
#: Largest number of channels that the last axis of an array on a grid is taken for.
_MOST_CHANNELS = 16
#: Largest number of arrays that a message lists.
_MOST_SHOWN = 20


class ChoiceError(FieldDataError):
    """What was asked for is not in a file, or it holds several candidates."""


class _Files(Form):
    """Paths of a file of arrays, or of a table; estimators read what the file holds as if it had been passed."""

    def matches(self, given: Any) -> bool:
        """Whether an argument is a path with the ending of such a file."""
        return is_path(given) and Path(given).suffix.lower() in {*_LOADERS, ".csv"}

    def unpack(self, X: Any, inputs: Sequence[str], targets: Sequence[str], *, needs_targets: bool) -> tuple[Any, Any]:
        """X and y by their names: columns of a table, or one array each."""
        path = existing_file(Path(X).expanduser())
        if path.suffix.lower() == ".csv":
            table = read_csv(path)
            if needs_targets and not targets:
                raise ChoiceError(f"target_fields is missing; the columns of {path} are: {listed(table.columns)}.")
            y = numbers_of(table, targets, path) if needs_targets else None
            return numbers_of(table, inputs, path, leave_out=targets), y
        if several := [names for names in (inputs, targets) if len(names) > 1]:
            raise ChoiceError(f"{path} holds one array of X and one of y, but these were named: {listed(several[0])}.")
        names = {"x": next(iter(inputs), None), "y": next(iter(targets), None) if needs_targets else None}
        return read_arrays(path, names, needs_targets=needs_targets)

    def unpack_targets(self, y: Any, targets: Sequence[str]) -> Any:
        """Columns of a table, or an array: the one that is named, the only one, or that with a usual name."""
        path = existing_file(Path(y).expanduser())
        if path.suffix.lower() == ".csv":
            return numbers_of(read_csv(path), targets, path)
        arrays = _load(path)
        outer = [name for name in arrays if "/" not in name] or list(arrays)
        name = next(iter(targets), outer[0] if len(outer) == 1 else None)
        return _with_channels(_find_array(arrays, "y", name, path, _CHOSEN_BY), "auto")

    def listed(self, X: Any, design: Any) -> tuple[Any, Any]:
        """Raise an error, since a file is read whole."""
        raise FieldDataError(f"X is {str(X)!r}, which is read whole, and not in parts; pass the arrays in it.")


# ---------------------------------------------------------------------- arrays
def read_arrays(
    path: Path,
    names: Mapping[str, str | None],
    channels: str = "auto",
    *,
    n_axes: Mapping[str, int] | None = None,
    needs_targets: bool,
    chosen_by: Mapping[str, str] = _CHOSEN_BY,
    say: Callable[[str], None] | None = None,
) -> tuple[Any, Any]:
    """Read X and y from a file by the names of the arrays ``"x"``, ``"y"``, ``"coords"`` and ``"params"``.

    Without a name, an array is looked for by usual names, which `say` is told. The last axis of arrays holds channels,
    by `channels`, or none; `n_axes` has the numbers of axes of X and y in the fit of a model, which decide where
    `channels` is "auto". `chosen_by` says in messages how the caller names arrays.
    """
    arrays = _load(path)
    found = {role: _find_array(arrays, role, names.get(role), path, chosen_by, say) for role in _ARRAY_NAMES}
    if single := [role for role, array in found.items() if array is not None and array.ndim == 0]:
        raise ChoiceError(f"{single[0]} is a single number; the first axis of arrays is that of the samples")
    sides = {"x": ("inputs", found["x"] is None and found["coords"] is None and found["params"] is None)}
    sides["y"] = ("targets", found["y"] is None and needs_targets)
    for role, (what, is_missing) in sides.items():
        if is_missing:
            raise ChoiceError(
                f"{path} has no array of {what} by a known name; choose by {chosen_by[role]} from: {_shapes(arrays)}"
            )
    X, y = _arranged(found, channels, n_axes or {}, chosen_by)
    if y is not None and len(y) != len(X):
        raise ChoiceError(
            f"the first axis of arrays is that of the samples, but X has {len(X)} and y {len(y)}: {_shapes(arrays)}"
        )
    return X, y


def _load(path: Path, member: str | None = None) -> Any:
    """Arrays of a file by their names, or one in a group; damage ends in an error that names the file."""
    check_regular_file(path)
    ending = path.suffix.lower()
    try:
        return _LOADERS[ending](path) if member is None else _load_member(path, member)
    except (FieldDataError, OptionalDependencyError):
        raise
    # Damage ends in errors of many packages, a size that no memory holds, and a password, in others.
    except Exception as error:
        remedy = "it is no MATLAB file, or damaged" if ending == ".mat" else "write it by numpy.savez(path, X=X, y=y)"
        raise FieldDataError(f"cannot read {path}: {str(error) or type(error).__name__}; {remedy}.") from error


def _load_npz(path: Path) -> dict[str, Any]:
    """Arrays of a NumPy file, without unpickling anything."""
    check_npz(path)
    with np.load(path, allow_pickle=False) as file:
        content = {name: file[name] for name in file.files}
    # Other members, such as notes, come as bytes.
    return {name: value for name, value in content.items() if isinstance(value, np.ndarray)}


def _load_npy(path: Path) -> dict[str, Any]:
    """The array of a NumPy file, of which a fit reads batches."""
    return {"X": np.load(path, mmap_mode="r", allow_pickle=False)}


def _load_mat(path: Path) -> dict[str, Any]:
    """Arrays of numbers in a MATLAB file."""
    from scipy.io import loadmat

    check_matlab(path)
    # MATLAB stores by columns, so that HDF5, which files of version 7.3 are, shows the axes in reverse.
    if is_hdf5(path):
        content = {name: held.T for name, held in _load_hdf5(path).items() if not isinstance(held, _InGroup)}
    else:
        content = loadmat(path)
    arrays = {name: value for name, value in content.items() if not name.startswith("_")}
    return {name: value for name, value in arrays.items() if getattr(value, "dtype", np.dtype("O")).kind in "fiub"}


def _load_hdf5(path: Path) -> dict[str, Any]:
    """Arrays of an HDF5 file, and the shapes of those in its groups."""
    h5py = import_optional("h5py", purpose="read HDF5 files, as those of MATLAB from version 7.3 on are")
    found: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        # A null data set has no shape, and texts are no fields.
        if "/" in name and getattr(item, "shape", None) is not None and item.dtype.kind in "fiub":
            found[name] = _InGroup(name, item.shape)

    with h5py.File(path, "r") as file:
        check_hdf5(file, path)
        held = {name: item for name, item in file.items() if isinstance(item, h5py.Dataset)}
        found |= {name: np.asarray(item) for name, item in held.items() if item.shape is not None}
        file.visititems(note)
    return found


@dataclass(frozen=True)
class _InGroup:
    """An array in a group, read only if it is chosen: files with groups may hold thousands."""

    name: str
    shape: tuple[int, ...]


def _load_member(path: Path, name: str) -> Any:
    """One array of an HDF5 file, by its name with those of its groups."""
    h5py = import_optional("h5py", purpose="read HDF5 files")
    with h5py.File(path, "r") as file:
        return np.asarray(hdf5_array(file, name, path))


#: Readers of files of arrays by their endings.
_LOADERS = {".npz": _load_npz, ".npy": _load_npy, ".mat": _load_mat, ".h5": _load_hdf5, ".hdf5": _load_hdf5}


def _find_array(
    arrays: Mapping[str, Any], role: str, name: str | None, path: Path, chosen_by: Mapping[str, str], say: Any = None
) -> Any:
    """Array of a role, by the name that was given or by the usual ones; None if there is none of these."""
    name = None if name is None else name.strip("/")
    if name is not None and name not in arrays:
        raise ChoiceError(f"{path} has no array {name!r}; it holds: {_shapes(arrays)}")
    usual = [known for known in _ARRAY_NAMES[role] if known in arrays]
    if name is None and len(usual) > 1:
        raise ChoiceError(f"{path} holds {' and '.join(usual)}; say which by {chosen_by[role]} from: {_shapes(arrays)}")
    found = name if name is not None else next(iter(usual), None)
    if found is not None and name is None and say is not None:
        say(f"{path}: {role} = {found} {arrays[found].shape}")
    array = None if found is None else arrays[found]
    return _load(path, array.name) if isinstance(array, _InGroup) else array


def _shapes(arrays: Mapping[str, Any]) -> str:
    """Names and shapes of arrays, of many the first ones."""
    words = [f"{name} {tuple(array.shape)}" for name, array in islice(arrays.items(), _MOST_SHOWN)]
    more = [f"and {len(arrays) - _MOST_SHOWN} more"] if len(arrays) > _MOST_SHOWN else []
    return ", ".join([*words, *more]) or "nothing"


def _arranged(
    arrays: Mapping[str, Any], channels: str, n_axes: Mapping[str, int], chosen_by: Mapping[str, str]
) -> tuple[Any, Any]:
    """X and y in a form that estimators take."""
    x, y, coords, params = (arrays[role] for role in ("x", "y", "coords", "params"))
    # MATLAB makes a row of a vector.
    y = y.reshape(-1) if y is not None and y.ndim == 2 and y.shape[0] == 1 < y.shape[1] else y
    # One parameter needs no axis of its own.
    params = params[:, None] if params is not None and params.ndim == 1 else params
    if coords is None:
        if params is not None and x is not None:
            raise ChoiceError(f"parameters beside fields need the points of the fields: {chosen_by['points']}")
        x = _with_channels(params if x is None else x, channels, n_axes.get("x"))
        # On the points of X, what is left is channels, such as frames, however many.
        has_channels = channels == "auto" and y is not None and 2 < y.ndim == x.ndim and y.shape[:-1] == x.shape[:-1]
        return x, y if has_channels else _with_channels(y, channels, n_axes.get("y"))
    x = _on_points(x, coords)
    y = y if y is None or y.ndim == 1 else _on_points(y, coords)
    if y is not None and y.ndim > 2:
        y = FieldSet(coords, y)
    if x is None and params is not None and coords.ndim == 2:
        return params, y
    return FieldSet(coords, x, params=params), y


def _with_channels(array: Any, channels: str, n_axes: int | None = None) -> Any:
    """Array with an axis of channels, which a model has been fitted on with so many axes if it is known."""
    if n_axes is not None and channels == "auto" and array is not None and array.ndim in (n_axes - 1, n_axes):
        channels = "last" if array.ndim == n_axes else "none"
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
    """Read a table with pandas, whose first row has the names of the columns."""
    check_regular_file(Path(path))
    pandas = import_optional("pandas", purpose="read CSV files")
    try:
        # Spreadsheets write a byte order mark, which would be a part of the first name.
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = file.read().splitlines()
        separator = _separator(lines)
        rows = [row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if any(row)]
        written = [name.strip() for name in rows[0]] if rows else []
        _check_rows(rows, written)
        table = pandas.read_csv(
            path, sep=separator, engine="python", skipinitialspace=True, encoding="utf-8-sig",
            # Else fields of which there are more than names would make the first column an index, and shift the others.
            index_col=False, usecols=range(len(written)),
        )  # fmt: skip
    except UnicodeDecodeError as error:
        raise FieldDataError(
            f"cannot read {path} as a table: it is no text in UTF-8 ({error.reason} at byte {error.start}); save it as "
            "CSV UTF-8."
        ) from error
    except Exception as error:
        raise FieldDataError(f"cannot read {path} as a table: {error}") from error
    kept = [place for place, name in enumerate(written) if name or table.iloc[:, place].notna().any()]
    return table.set_axis([str(name).strip() for name in table.columns], axis=1).iloc[:, kept]


def _separator(lines: Sequence[str]) -> str:
    """The character between columns: of those that divide the first row, the one that makes most of it."""

    def count(line: str, character: str) -> int:
        return len(next(csv.reader([line], delimiter=character, skipinitialspace=True), ()))

    head = [line.strip(" ") for line in lines if line.strip()][:2] or [""]
    best = max(_SEPARATORS, key=lambda character: count(head[0], character))
    # Names may hold spaces, which then are in no row of numbers.
    divided = [count(line, " ") for line in head]
    return " " if count(head[0], best) == 1 and len(head) > 1 and divided[0] == divided[1] > 1 else best


def _check_rows(rows: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """Raise an error if the first row cannot name the columns of the others."""
    repeated = sorted(name for name in set(names) - {""} if names.count(name) > 1)
    if repeated:
        raise ValueError(
            f"its header has {repeated[0]!r} {names.count(repeated[0])} times; give each column a name of its own."
        )
    # pandas writes the numbers of columns that have no names.
    if names and all(map(_NUMBER.fullmatch, names)) and list(names) != [str(place) for place in range(len(names))]:
        raise ValueError(
            f"its first row holds numbers ({', '.join(names[:3])}) where names of columns are expected; add a first "
            "row with a name for each column."
        )
    for number, row in enumerate(rows):
        if any(field.strip() for field in row[len(names) :]):
            raise ValueError(
                f"row {number - 1}, counted from 0 after the header, has {len(row)} fields, but the header has "
                f"{len(names)} names; name every column, or put text that holds the separator between quotes."
            )


def numbers_of(
    table: Any,
    columns: Sequence[str],
    source: Any,
    leave_out: Sequence[str] = (),
    files: Sequence[str] = (),
    chosen_by: str = _CHOSEN_BY["columns"],
) -> Any:
    """Named columns, or all columns of numbers other than some; `files` are the names of the rows."""
    unknown = [name for name in columns if name not in table.columns]
    if unknown:
        raise ChoiceError(f"{source} has no column {unknown[0]!r}; its columns are: {listed(table.columns)}")
    others = [name for name in table.columns if name not in leave_out]
    for name in columns or others:
        _refuse_text_among_numbers(table[name], source, None if columns else chosen_by)
    names = list(columns) or _inputs_among(table[others], source, chosen_by)
    if not names:
        raise ChoiceError(f"{source} has no columns of numbers; its columns are: {listed(table.columns)}")
    for name in names:
        missing = np.flatnonzero(~np.isfinite(table[name].to_numpy(float)))
        if len(missing):
            where = f"for {files[missing[0]]}" if files else f"in row {missing[0]}, counted from 0"
            raise FieldDataError(f"column {name!r} of {source} has no number {where}; fill it in.")
    return table[names]


def _refuse_text_among_numbers(column: Any, source: Any, chosen_by: str | None) -> None:
    """Raise an error for a column with text if it mostly holds numbers, or was chosen and has to."""
    texts = [value for value in column if isinstance(value, str)]
    if column.dtype.kind in "fiub" or not texts:
        return
    strange = [text for text in texts if not _NUMBER.fullmatch(text)]
    if (unit := unit_of(column)) is not None:
        raise FieldDataError(
            f"column {column.name!r} of {source} holds numbers with the unit {unit!r}, such as {strange[0]!r}; "
            "expected numbers. Write plain numbers, and the unit in the name of the column."
        )
    # Left out in silence, a column in which one number is mistyped would be an input less.
    if chosen_by is None or len(strange) < len(texts) / 2:
        found = (strange or [text for text in texts if "," in text] or texts)[0]
        if not strange and "," not in found:
            # Rows that were left out, as those without a file, had held text.
            raise FieldDataError(
                f"column {column.name!r} of {source} holds numbers beside text in rows that are not used, such as a "
                "row of units; remove these rows."
            )
        advice = "" if chosen_by is None else f" Correct it, or name the columns to use by {chosen_by}."
        if not strange:
            advice += (
                " If the comma is a decimal one, write points in the file, or pass the table of pandas.read_csv(path, "
                "decimal=',', sep=';') in Python."
            )
        raise FieldDataError(
            f"column {column.name!r} of {source} holds text, such as {found!r}; expected numbers.{advice}"
        )


def unit_of(column: Any) -> str | None:
    """The one unit, or percent sign, of numbers that are written as text; None of other columns."""
    texts = {value for value in column if isinstance(value, str)}
    quantities = [_QUANTITY.fullmatch(text) for text in texts]
    units = {quantity[1] for quantity in quantities if quantity} - {None}
    # The same text in all rows says nothing, and is no input.
    return units.pop() if len(texts) > 1 and all(quantities) and len(units) == 1 else None


def _inputs_among(table: Any, source: Any, chosen_by: str) -> list[str]:
    """Names of the columns of numbers other than an index; warns of columns that may be meant otherwise."""
    index = [name for name in table.columns if is_index(table, name)]
    names = [name for name in table.columns if table[name].dtype.kind in "fiub" and name not in index]
    # Names of runs are another text in each row, as numbers in the notation of some program are (1.5D+03). Text that is
    # the same in all rows says nothing.
    texts = [name for name in table.columns if table[name].dtype.kind not in "fiub"]
    varied = {name: [text for text in table[name] if isinstance(text, str)] for name in texts}
    texts = [name for name, held in varied.items() if len({*held}) > 1 and _are_no_names(held)]
    if index:
        warn(f"{source}: {index[0]!r}, a column without a name, only numbers the rows, and is left out.")
    if texts:
        warn(
            f"{source}: columns of text are left out: {listed(texts)} (such as {varied[texts[0]][0]!r}). If they "
            "matter, write numbers as 1500.0 or 1.5e3, dates as numbers of days, and encode categories as numbers, for "
            "example by pandas.get_dummies."
        )
    if len(names) > 1 and (counting := counting_columns(table[names])):
        warn(
            f"{source}: {counting[0]!r} only counts the rows, but is an input; name the columns to use by {chosen_by} "
            "if it is none."
        )
    return names


def _are_no_names(texts: Sequence[str]) -> bool:
    """Whether texts that differ are no names of rows: some are the same, or all begin with numbers, or with dates."""
    begins = (_BEGIN_OF_NUMBER, _BEGIN_OF_DATE)
    return len({*texts}) < len(texts) or any(all(map(begin.match, texts)) for begin in begins)


def counting_columns(table: Any) -> list[str]:
    """Names of the columns that only count the rows, which are no parameters."""
    return [name for name in table.columns if table[name].dtype.kind in "iu" and counts_rows(table[name].to_numpy())]


def listed(names: Sequence[str]) -> str:
    """Names between commas."""
    return ", ".join(map(str, names)) or "none"


FILES = _Files()
