"""Tables: features, global parameters and scalars, one row for each sample; designs of experiments beside runs.

Notation: n samples or runs, P points of a sample, p parameters, s scalars.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import PurePath
from typing import Any

import numpy as np

from skop._optional import import_optional
from skop._typing import FloatArray, GridShape, IntArray
from skop.data._fieldset import FieldSet
from skop.data._mesh_files import is_mesh_input, is_on_mesh, is_path
from skop.data._pairing import (
    Labels,
    check_index,
    counts_rows,
    index_labels,
    is_index,
    is_missing,
    pair_rows,
    rows_by_number,
    some_of,
)
from skop.data._spec import TargetForm, Targets
from skop.data._storage import as_storage, is_lazy, read_rows, refuse_mask, refuse_repeated_names
from skop.data.forms._interface import Form
from skop.exceptions import FieldDataError, OptionalDependencyError, warn

__all__ = [
    "TABLE",
    "Design",
    "as_runs",
    "check_table",
    "column_names",
    "form_of_scalars",
    "has_runs",
    "named_scalars",
    "read_design",
    "read_scalars",
    "refuse_containers",
    "refuse_params",
    "refuse_sparse",
    "refuse_strangers",
    "split_params",
    "split_runs",
    "table_inputs",
    "with_params",
]

#: Types of items that are times, whose numbers would be counts of the unit in which they are stored.
_TIMES = (date, timedelta, np.datetime64, np.timedelta64)


class _Table(Form):
    """Tables with two axes, or something invalid for which scikit-learn raises the error."""

    name = "table"
    is_table = lacks_points = True

    def matches(self, given: Any) -> bool:
        """Whether an argument has at most two axes."""
        if isinstance(given, FieldSet | tuple):
            return False
        if is_lazy(given):
            return len(given.shape) <= 2
        if isinstance(given, list):
            return not given or _axes_of(given[0]) < 2
        return getattr(given, "ndim", 2) <= 2


def _axes_of(sample: Any) -> int:
    """Number of axes of one item of a list; a tuple of (coords, fields) counts as a field."""
    if isinstance(sample, FieldSet) or (isinstance(sample, tuple) and any(_axes_of(part) > 1 for part in sample)):
        return 2
    try:
        return int(sample.ndim) if hasattr(sample, "ndim") else np.ndim(sample)
    except ValueError:
        # For rows of different lengths, scikit-learn raises an error that explains the problem.
        return 1


TABLE = _Table()


# ---------------------------------------------------------------------- tables of numbers
def check_table(X: Any) -> Any:
    """Return a table whose columns have text as names, if any.

    Raise an error for a table that scikit-learn would take, or refuse without a remedy.
    """
    if X is None:
        raise FieldDataError("X is None; expected fields, meshes, or a table with one row for each sample.")
    refuse_mask(X, "X")
    refuse_repeated_names([*getattr(X, "columns", ())], "X has {} columns")
    refuse_strangers(X, "X")
    refuse_sparse(X, "X")
    index = [name for name in X.columns if is_index(X, name)] if hasattr(X, "iloc") and X.ndim > 1 else []
    if index:
        warn(
            f"column {index[0]!r} of X has no name and only numbers the rows, but is an input. Read the table by "
            f"pandas.read_csv(path, index_col=0), or pass X.drop(columns={index[0]!r})."
        )
    names = column_names(X)
    # scikit-learn compares text alone, and would take columns with other labels by their order.
    return X.set_axis(list(names), axis=1) if names and hasattr(X, "iloc") else X


def column_names(table: Any) -> tuple[str, ...] | None:
    """Names of the columns of a DataFrame; None where they only count the columns, or there are none."""
    return _as_text([*getattr(table, "columns", ())])


def _as_text(labels: Sequence[Any] | None) -> tuple[str, ...] | None:
    """Labels of columns as text; None where they only count the columns, or there are none."""
    if not labels or labels == list(range(len(labels))):
        return None
    return tuple(" ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in labels)


def form_of_scalars(y: Any, form: TargetForm) -> TargetForm:
    """Add the names of the columns of a DataFrame, or the name of a Series, to the form of scalars."""
    if hasattr(y, "iloc") and y.ndim == 1:
        labels = [] if y.name is None else [y.name]
    else:
        labels = [*getattr(y, "columns", ())]
    return replace(form, scalar_names=_as_text(labels), has_text=all(isinstance(label, str) for label in labels))


def table_inputs(X: FloatArray, coords: FloatArray | None, grid_shape: GridShape | None) -> FieldSet:
    """Convert a table to global parameters of samples on given points, or on a single point."""
    return FieldSet(np.zeros((1, 1)) if coords is None else coords, params=X, grid_shape=grid_shape)


def read_scalars(y: Any) -> tuple[Targets, TargetForm]:
    """Scalars alone."""
    y = as_storage(y, "y")
    y = read_rows(y, slice(None)) if is_lazy(y) else y
    if y.ndim not in (1, 2) or 0 in y.shape[1:]:
        raise FieldDataError(f"y has shape {y.shape}; expected (n_samples,) or (n_samples, n_scalars).")
    return Targets(scalars=y.reshape(len(y), -1)), TargetForm("array", squeezes_channel=y.ndim == 1)


def named_scalars(target: TargetForm, scalars: FloatArray, labels: Any) -> Any:
    """Convert scalars ``(n, s)`` to the form of y: an array, or a DataFrame or Series if there are labels."""
    if target.scalar_names is not None and target.has_text and labels is not None:
        # Without labels an index would be made up, and pandas would align other data with it.
        try:
            pandas = import_optional("pandas", purpose="name the columns of a prediction")
        except OptionalDependencyError:
            pass
        else:
            frame = pandas.DataFrame(scalars, index=labels, columns=list(target.scalar_names))
            return frame.iloc[:, 0] if target.squeezes_channel else frame
    return scalars[:, 0] if target.squeezes_channel else scalars


# ---------------------------------------------------------------------- designs of experiments
@dataclass(frozen=True)
class Design:
    """Table of parameters, one row for each run."""

    #: Parameters (n, p).
    values: FloatArray
    #: Names of the columns.
    names: tuple[str, ...] | None = None
    #: Names of the rows, by which they are matched with files.
    labels: Labels = field(default_factory=Labels)
    #: Name of the argument, for messages.
    what: str = "params"

    def for_runs(self, runs: Any, names: Sequence[str], *, weighted: bool = False, fitting: bool = False) -> Design:
        """Return the rows in the order of the runs."""
        rows = self._rows_of(runs, names, weighted=weighted)
        if fitting and rows is not None and len(rows) < len(self.values):
            unused = np.setdiff1d(np.arange(len(self.values)), rows)
            first = "" if self.labels.files is None else f", the first of them {self.labels.files[unused[0]]!r},"
            warn(f"{len(unused)} of {len(self.values)} rows of {self.what}{first} have no file and are not used.")
        run = next(iter(runs), None) if isinstance(runs, list | tuple | np.ndarray) else runs
        if rows is None and self.what == "params" and is_path(run):
            self._warn_of_numbers(names, fitting)
        return replace(self, values=self.values if rows is None else self.values[rows], labels=Labels())

    def order_of(self, runs: Any, names: Sequence[str]) -> IntArray | None:
        """Return the order of the runs in which they belong to the rows, which are the samples."""
        rows = self._rows_of(runs, names, needs_all=True)
        return None if rows is None else np.argsort(rows)

    def _rows_of(self, runs: Any, names: Sequence[str], **options: Any) -> IntArray | None:
        """Row of each run; None if they are in order."""
        parameters = "" if self.names is None else f", with the parameters {', '.join(self.names)}"
        options |= {"what": self.what, "remark": parameters, "says_pairs": True}
        return pair_rows(self.labels, len(self.values), runs, names, **options)

    def _warn_of_numbers(self, names: Sequence[str], fitting: bool) -> None:
        """Warn of columns that number the files, if the rows are taken in the order of the files."""
        for name, column in zip(self.names or (), self.values.T, strict=False):
            rows = rows_by_number(column.tolist(), names)
            if rows is not None and (np.diff(rows) < 0).any():
                warn(
                    f"column {name!r} of {self.what} holds the numbers in the names of the files in another order, but "
                    f"the rows were taken in the order of the files: row 0 for {names[0]}. If {name!r} numbers the "
                    f"files, give {self.what} a column of file names in its place, to match by name."
                )
            elif fitting and self.values.shape[1] > 1 and counts_rows(column):
                warn(
                    f"column {name!r} of {self.what} only counts the rows, and is taken as a parameter; leave it out "
                    "if it is none."
                )

    def check_names(self, fitted: Sequence[str] | None) -> None:
        """Raise an error if the parameters are others than in the fit, or in another order."""
        if fitted is None or self.names == tuple(fitted):
            return
        if self.names is None:
            warn(
                f"{self.what} has no column names, but that of the fit had {', '.join(fitted)}; its columns are taken "
                "in this order."
            )
            return
        missing = [name for name in fitted if name not in self.names]
        unseen = [name for name in self.names if name not in fitted]
        problems = [f"{words} {some_of(found)}" for words, found in (("lacks", missing), ("has also", unseen)) if found]
        raise FieldDataError(
            f"the columns of {self.what} are {list(self.names)}, but those of the fit were {list(fitted)}: "
            f"{' and '.join(['it ' + words for words in problems]) or 'they are in another order'}. Pass "
            f"{self.what} with the columns of the fit, in their order."
        )


def read_design(params: Any, what: str = "params") -> Design:
    """Read a table of parameters, of which one column may hold file names."""
    if isinstance(params, Design):
        return params
    refuse_containers(params, what)
    names, columns, index = _columns_of(params, what)
    refuse_repeated_names(names or (), what + " has {} columns")
    texts = [number for number, column in enumerate(columns) if _is_text(column)]
    if len(texts) > 1:
        raise FieldDataError(_many_texts(names, columns, texts, what))
    kept = [number for number in range(len(columns)) if number not in texts]
    if not kept:
        raise FieldDataError(f"{what} has no column of numbers; pass at least one parameter, or leave {what} out.")
    values = np.stack([_as_numbers(columns[number], _column_name(names, number), what) for number in kept], axis=1)
    labels = Labels()
    if texts:
        labels = Labels(tuple(map(os.fspath, columns[texts[0]])), place=_column_name(names, texts[0]))
    elif index is not None:
        labels = index_labels(index)
    return Design(values, None if names is None else _as_text([names[number] for number in kept]), labels, what)


def has_runs(table: Any) -> bool:
    """Whether a table has a column that is meant to hold mesh files or meshes."""
    is_objects = isinstance(table, np.ndarray) and table.dtype.kind in "OU"
    if not (hasattr(table, "iloc") or is_objects) or table.ndim not in (1, 2) or 0 in table.shape:
        return False
    columns = [list(table)] if is_objects and table.ndim == 1 else _columns_of(table, "X", only_objects=True)[1]
    return any(column is not None and _is_runs(column) for column in columns)


def split_runs(X: Any) -> tuple[Any, Design | None]:
    """Split a table with a column of mesh files, or of meshes, into the runs and their parameters."""
    is_frame = hasattr(X, "iloc") and hasattr(X, "dtypes")
    is_objects = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OU"
    if is_frame and getattr(X, "ndim", 2) == 1:
        return as_runs(X, "X"), None
    if not (is_frame or is_objects) or 0 in X.shape:
        return X, None
    names, columns, _ = _columns_of(X, "X", only_objects=True)
    runs = [number for number, column in enumerate(columns) if column is not None and _is_runs(column)]
    if not runs:
        return X, None
    if len(runs) > 1:
        raise FieldDataError(_many_texts(names, columns, runs, "X"))
    paths = _whole(columns[runs[0]], _column_name(names, runs[0]), "X")
    others = np.delete(np.arange(X.shape[1]), runs)
    if not len(others):
        return paths, None
    return paths, replace(read_design(X.iloc[:, others] if is_frame else X[:, others], "X"), labels=Labels())


def as_runs(y: Any, what: str = "y") -> Any:
    """Convert a column of paths or meshes, as a Series or a table with one column, to a list."""
    is_column = hasattr(y, "iloc") or (isinstance(y, np.ndarray) and y.dtype.kind in "OU")
    if not is_column or y.ndim not in (1, 2) or not len(y):
        return y
    if y.ndim == 2:
        names, columns, _ = _columns_of(y, what, only_objects=True)
        held = [number for number, column in enumerate(columns) if column is not None and _is_runs(column)]
        if held and len(columns) > 1:
            _whole(columns[held[0]], _column_name(names, held[0]), what)
            raise FieldDataError(
                f"{what} has mesh files in {_column_name(names, held[0])}, and other columns; pass the files alone, or "
                "the numbers alone."
            )
        return _whole(columns[0], _column_name(names, 0), what) if held else y
    if getattr(y.dtype, "kind", "O") not in "OSU":
        return y
    items = list(y)
    return _whole(items, "the column", what) if _is_runs(items) else y


# ---------------------------------------------------------------------- parameters beside other arguments
def split_params(X: Any, params: Any) -> tuple[Any, Design | None]:
    """Return X without its columns of numbers, if it has a column of mesh files, and the global parameters."""
    refuse_containers(X, "X")
    if is_on_mesh(X):
        raise FieldDataError(
            "X is (mesh, values), which is a form of y; pass the mesh with the values in its point data, or a FieldSet."
        )
    given, (X, design) = X, split_runs(X)
    if params is None:
        return X, design
    if design is not None:
        raise FieldDataError(
            "X has columns of parameters beside that of mesh files, and params is given too; pass one."
        )
    design = read_design(params)
    if design.labels.place == Labels.place:
        check_index(params, "params", X=given)
    return X, design


def with_params(fields: FieldSet, design: Design | None) -> FieldSet:
    """Add the parameters of a table to fields."""
    if design is None:
        return fields
    if fields.n_params:
        raise FieldDataError(f"X is a FieldSet with {fields.n_params} params, and params is given too; pass one.")
    if len(design.values) != len(fields):
        raise FieldDataError(
            f"{design.what} has {len(design.values)} rows, but X has {len(fields)} samples; pass one row for each."
        )
    return fields.with_params(design.values)


def refuse_params(design: Design | None) -> None:
    """Raise an error if there are parameters beside a table."""
    if design is not None:
        raise FieldDataError("X is a table of parameters, and params is given too; add its columns to X.")


# ---------------------------------------------------------------------- columns
def refuse_containers(given: Any, what: str) -> None:
    """Raise an error for tables that are not in memory, and for arrays under names, which offer a conversion."""
    # The class is asked, since some tables would be computed for their attributes.
    kind = type(given)
    conversion = next((name for name in ("to_dataframe", "collect", "compute") if hasattr(kind, name)), None)
    if hasattr(kind, "to_pandas") and hasattr(kind, "schema") and not hasattr(kind, "dtypes"):
        # Tables of pyarrow, whose columns have no names of their own.
        conversion = "to_pandas"
    elif conversion is None or not hasattr(kind, "dtypes"):
        return
    code = f"{conversion}()"
    if conversion == "to_dataframe" and len(given.dims) > 1:
        code = "to_dataarray().transpose(..., 'variable')"
    origin = kind.__module__.partition(".")[0]
    raise FieldDataError(
        f"{what} came as {kind.__name__} of {origin}; expected arrays, or a DataFrame in memory. Pass {what}.{code}."
    )


def refuse_strangers(table: Any, what: str) -> None:
    """Raise an error for a table of another kind, or for the first column that holds no numbers."""
    # Some sparse arrays of SciPy are dicts too; records are rows with names.
    dtype = getattr(table, "dtype", None)
    came = None
    if getattr(dtype, "names", None) is not None:
        came = "structured array"
    elif isinstance(table, list) and table and isinstance(table[0], Mapping):
        came = f"list of {type(table[0]).__name__}"
    elif isinstance(table, Mapping) and not hasattr(table, "shape"):
        came = type(table).__name__
    if came is not None:
        raise FieldDataError(
            f"{what} is a {came}; expected a table with one row for each sample. Pass pandas.DataFrame({what})."
        )
    if "complex" in str(dtype):
        raise FieldDataError(
            f"{what}: Complex data not supported (dtype {dtype}); pass real and imaginary parts, or magnitude and "
            "phase, as columns of their own."
        )
    if hasattr(table, "iloc") or _of_polars(table) is not None:
        names, columns, _ = _columns_of(table, what, only_objects=True)
        for number, column in enumerate(columns):
            if column is not None:
                _as_numbers(column, _column_name(names, number), what)
    elif isinstance(table, list) or getattr(dtype, "kind", "") in ("O", "m", "M") or _is_of_pyarrow(table):
        _refuse_category(dtype, table, "", what)
        _refuse_odd_items(table, what)


def _refuse_odd_items(table: Any, what: str) -> None:
    """Raise an error for times, complex and missing numbers in a list or an array, which NumPy does not name."""
    try:
        array = np.asarray(table)
    except (RuntimeError, TypeError, ValueError):
        # Rows of several lengths, of which scikit-learn tells.
        return
    if array.dtype.kind == "c":
        refuse_strangers(array, what)
    if array.dtype.kind not in "OmM" or array.ndim not in (1, 2):
        return
    for number, column in enumerate(array.T if array.ndim == 2 else [array]):
        if any(isinstance(item, (complex, np.complexfloating, *_TIMES)) or _is_na(item) for item in column):
            raise FieldDataError(_stranger(column, _column_name(None, number) if array.ndim == 2 else "", what))


def refuse_sparse(table: Any, what: str) -> None:
    """Raise an error for a DataFrame all of whose columns are sparse, which scikit-learn does not convert."""
    dtypes = list(table.dtypes) if hasattr(table, "iloc") and table.ndim > 1 else []
    if dtypes and all(hasattr(dtype, "fill_value") for dtype in dtypes):
        raise FieldDataError(f"{what} has sparse columns; pass dense ones: {what}.sparse.to_dense().")


def _of_polars(table: Any) -> list[Any] | None:
    """Columns of a DataFrame or a Series of polars; None for other objects."""
    if hasattr(table, "get_columns"):
        return list(table.get_columns())
    return [table] if hasattr(table, "to_physical") else None


def _is_of_pyarrow(table: Any) -> bool:
    """Whether an object is an array without a NumPy type, as those of pyarrow are."""
    return hasattr(table, "__array__") and not hasattr(table, "dtype")


def _refuse_category(dtype: Any, column: Iterable[Any], place: str, what: str) -> None:
    """Raise an error for categories without an order, unless they are names, which other messages are about."""
    is_category = getattr(dtype, "ordered", None) is False or type(dtype).__name__ in ("Categorical", "Enum")
    if is_category and not _is_runs(column):
        raise FieldDataError(
            f"{f'{place} of ' if place else ''}{what} is categorical without an order, and its labels would be read as "
            "numbers; encode it by pandas.get_dummies, or to_dummies of polars, or pass it as type float if its labels "
            "are numbers that have an order."
        )


def _columns_of(
    table: Any, what: str, *, only_objects: bool = False
) -> tuple[list[Any] | None, list[Any], Sequence[Any] | None]:
    """Names, columns and index of a table; with `only_objects` None stands for the columns of numbers."""
    held = _of_polars(table)
    if held is not None or hasattr(table, "iloc"):
        index = None
        if held is None:
            frame = table.to_frame() if table.ndim == 1 else table
            held, index = [frame.iloc[:, i] for i in range(frame.shape[1])], list(frame.index)
        columns = [_held_in(column, what, only_objects) for column in held]
        return [column.name for column in held], columns, index
    if isinstance(table, dict) or getattr(getattr(table, "dtype", None), "names", None):
        names = list(table) if isinstance(table, dict) else list(table.dtype.names)
        for name in names:
            refuse_mask(table[name], f"{what}[{name!r}]")
        arrays = [np.atleast_1d(np.asarray(table[name])) for name in names]
        if len({array.shape for array in arrays}) != 1 or arrays[0].ndim != 1:
            raise FieldDataError(
                f"the columns of {what} have shapes {[array.shape for array in arrays]}; expected one length for all, "
                "the number of runs."
            )
        return names, [array.tolist() if array.dtype.kind in "OSU" else array for array in arrays], None
    refuse_mask(table, what)
    array = np.asarray(table)
    if array.ndim != 2:
        raise FieldDataError(
            f"{what} has shape {array.shape}; expected (n_runs, n_parameters), or a DataFrame with a row for each run."
        )
    return None, [column.tolist() if array.dtype.kind in "OSU" else column for column in array.T], None


def _held_in(column: Any, what: str, only_objects: bool) -> Any:
    """A column of pandas or polars, as a list if it holds objects; with `only_objects` None if it holds numbers."""
    # The types of polars are none of NumPy.
    held = column if hasattr(column, "iloc") else column.to_numpy()
    kind = getattr(held.dtype, "kind", "O")
    if only_objects and kind in "biuf":
        return None
    items = list(held) if kind in "OSU" else held
    _refuse_category(column.dtype, items, f"column {column.name!r}", what)
    return items


def _is_text(column: Any) -> bool:
    """Whether a column holds text or paths; numbers with a decimal comma are none."""
    is_text = isinstance(column, list) and bool(column) and all(is_path(item) for item in column)
    return is_text and not any("," in item and _is_number(item) for item in column if isinstance(item, str))


def _is_runs(column: Iterable[Any]) -> bool:
    """Whether a column holds paths or meshes, some of which may be missing; numbers written as text are none."""
    first = next((item for item in column if is_mesh_input([item]) or not is_missing(item)), None)
    return is_mesh_input([first]) and not (isinstance(first, str) and _is_number(first))


def _is_number(text: str) -> bool:
    """Whether a text is a number, which may have a decimal comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _whole(column: list[Any], place: str, what: str) -> list[Any]:
    """Return the paths or meshes of a column, or raise an error if one is missing or none looks like a file."""
    if any(isinstance(item, str) for item in column) and not _names_files(column):
        raise FieldDataError(_stranger(column, place, what))
    missing = [row for row, item in enumerate(column) if not is_mesh_input([item])]
    if missing:
        raise FieldDataError(
            f"row {missing[0]} in {place} of {what} is {column[missing[0]]!r}; expected the path of a mesh file in "
            f"each of the {len(column)} rows."
        )
    return column


def _names_files(column: Iterable[Any]) -> bool:
    """Whether an item is a mesh, or a path that exists or has an ending."""
    return any(
        is_mesh_input([item])
        and (not isinstance(item, str) or PurePath(item).suffix[1:2].isalpha() or os.path.exists(item))
        for item in column
    )


def _as_numbers(column: Any, place: str, what: str) -> FloatArray:
    """Convert a column to float64."""
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    try:
        if kind in "cmM":
            raise TypeError
        if hasattr(column, "to_numpy"):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise FieldDataError(_stranger(column, place, what)) from None


def _is_na(item: Any) -> bool:
    """Whether an item is a missing value of pandas, which is no number as NaN is one."""
    return is_missing(item) and not (item is None or isinstance(item, float))


def _stranger(column: Iterable[Any], place: str, what: str) -> str:
    """Error message about the first item of a column, or of an array without columns, that is no number."""
    items = list(column)
    is_number = [isinstance(item, int | float | np.number) or item is None for item in items]
    row = next((i for i, item in enumerate(items) if not (is_number[i] or _is_plain_number(item))), 0)
    words = f"{f'{place} of ' if place else ''}{what} holds {_shown(items[row])} in row {row}; expected numbers"
    if _is_na(items[row]):
        return f"{words}. Fill in the missing values, or leave these rows out."
    if isinstance(items[row], _TIMES):
        return f"{words}. Pass times as numbers, such as days: (time - time.min()) / pandas.Timedelta(days=1)."
    if isinstance(items[row], complex | np.complexfloating):
        return f"{words}. Pass real and imaginary parts, or magnitude and phase, as columns of their own."
    if isinstance(items[row], str) and _is_number(items[row]):
        return f"{words} with a decimal point. Read the table by pandas.read_csv(path, decimal=',')."
    return (
        f"{words}, or the paths of mesh files with their ending, such as .vtu. Encode categories as numbers, for "
        "example by pandas.get_dummies or sklearn.preprocessing.OneHotEncoder."
    )


def _is_plain_number(item: Any) -> bool:
    """Whether an item is a number as text, with a decimal point."""
    return isinstance(item, str) and "," not in item and _is_number(item)


def _shown(item: Any) -> str:
    """An item of a column in words: text in quotes, meshes by their type."""
    if is_path(item):
        return repr(str(os.fspath(item)))
    return f"a {type(item).__name__}" if is_mesh_input([item]) else str(item)


def _column_name(names: Sequence[Any] | None, number: int) -> str:
    """A column in words."""
    return f"column {number}" if names is None else f"column {names[number]!r}"


def _many_texts(names: Sequence[Any] | None, columns: Sequence[list[Any]], texts: Sequence[int], what: str) -> str:
    """Error message about several columns of text."""
    kinds = {}
    for number in texts:
        repeats = len(set(map(_shown, columns[number]))) < len(columns[number])
        kinds[number] = "mesh files" if _names_files(columns[number]) else "categories" if repeats else "names"
    words = [f"{_column_name(names, number)} ({kind}, {_shown(columns[number][0])})" for number, kind in kinds.items()]
    files = [_column_name(names, number) for number, kind in kinds.items() if kind == "mesh files"]
    return (
        f"{what} has {len(texts)} columns of text or meshes: {', '.join(words)}. "
        f"{f'Keep {files[0]}' if len(files) == 1 else 'Keep the one that holds the mesh files, if any'}; encode "
        "categories as numbers, for example by pandas.get_dummies or sklearn.preprocessing.OneHotEncoder, and leave "
        "other text out."
    )
