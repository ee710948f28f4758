"""Designs of experiments beside runs: tables of parameters, columns of paths, and the matching of rows with files.

Notation: n runs, p parameters.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np

from skop._typing import FloatArray, IntArray
from skop.data._fieldset import FieldSet
from skop.data._mesh_files import find_sources, is_mesh_input, is_on_mesh, is_path
from skop.exceptions import FieldDataError, warn

__all__ = [
    "Design",
    "Labels",
    "as_runs",
    "check_order",
    "index_labels",
    "name_runs",
    "order_of_rows",
    "pair_rows",
    "read_design",
    "refuse_params",
    "row_labels",
    "sample_files",
    "split_params",
    "split_runs",
    "with_params",
]

#: Number of names shown in an error message.
_SHOWN = 3


@dataclass(frozen=True)
class Labels:
    """What the rows of a table are called, apart from their order.

    Attributes
    ----------
    files : tuple of str or None, default=None
        Paths, file names or stems, one for each row.
    numbers : tuple of int or None, default=None
        Numbers of the rows in the index of a DataFrame, if these are not 0 to n - 1.
    place : str, default="its index"
        Where the labels come from, for messages.
    """

    files: tuple[str, ...] | None = None
    numbers: tuple[Any, ...] | None = None
    place: str = "its index"


@dataclass(frozen=True)
class Design:
    """Table of parameters, one row for each run.

    Attributes
    ----------
    values : ndarray of shape (n, p)
        Parameters.
    names : tuple of str or None, default=None
        Names of the columns.
    labels : Labels
        Names of the rows, by which they are matched with files.
    what : str, default="params"
        Name of the argument, for messages.
    """

    values: FloatArray
    names: tuple[str, ...] | None = None
    labels: Labels = Labels()
    what: str = "params"

    def for_runs(self, runs: Any, names: Sequence[str], *, weighted: bool = False, fitting: bool = False) -> Design:
        """Return the rows in the order of the runs.

        Parameters
        ----------
        runs : meshes, paths or a pattern, or fields of any form
            Runs as the caller passed them.
        names : sequence of str
            Names of the runs, which are their paths if they came as such.
        weighted : bool, default=False
            Whether samples have weights, whose order would be in doubt if rows change theirs.
        fitting : bool, default=False
            Whether to warn of rows that have no file.

        Returns
        -------
        Design
            One row for each run, without labels.

        Raises
        ------
        FieldDataError
            If rows and runs do not match.

        Warns
        -----
        SkopWarning
            If the files of a pattern are paired with rows by their order.
        """
        rows = self._rows_of(runs, names, weighted=weighted)
        if fitting and rows is not None and len(rows) < len(self.values):
            unused = np.setdiff1d(np.arange(len(self.values)), rows)
            first = "" if self.labels.files is None else f", the first of them {self.labels.files[unused[0]]!r},"
            warn(f"{len(unused)} of {len(self.values)} rows of {self.what}{first} have no file and are not used.")
        return replace(self, values=self.values if rows is None else self.values[rows], labels=Labels())

    def order_of(self, runs: Any, names: Sequence[str]) -> IntArray | None:
        """Return the order of the runs in which they belong to the rows, which are the samples.

        Parameters
        ----------
        runs, names : as in `for_runs`
            Runs and their names.

        Returns
        -------
        ndarray of shape (n,) or None
            Index of the run of each row; None if both are in one order.

        Raises
        ------
        FieldDataError
            If rows and runs do not match, or a row has no run.
        """
        rows = self._rows_of(runs, names, needs_all=True)
        return None if rows is None else np.argsort(rows)

    def _rows_of(self, runs: Any, names: Sequence[str], **options: Any) -> IntArray | None:
        """Row of each run; None if they are in order."""
        parameters = "" if self.names is None else f", with the parameters {', '.join(self.names)}"
        options |= {"what": self.what, "remark": parameters, "says_pairs": True}
        return pair_rows(self.labels, len(self.values), runs, names, **options)

    def check_names(self, fitted: Sequence[str] | None) -> None:
        """Raise an error if the parameters are others than in the fit, or in another order.

        Parameters
        ----------
        fitted : sequence of str or None
            Names of the parameters in the fit; None if they had none.

        Raises
        ------
        FieldDataError
            If a parameter is missing, was not seen in the fit, or is at another place.

        Warns
        -----
        SkopWarning
            If the parameters had names in the fit and have none now.
        """
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
        problems = [f"{words} {_some(found)}" for words, found in (("lacks", missing), ("has also", unseen)) if found]
        raise FieldDataError(
            f"the columns of {self.what} are {list(self.names)}, but those of the fit were {list(fitted)}: "
            f"{' and '.join(['it ' + words for words in problems]) or 'they are in another order'}. Pass "
            f"{self.what} with the columns of the fit, in their order."
        )


# ---------------------------------------------------------------------- tables of parameters
def read_design(params: Any, what: str = "params") -> Design:
    """Read a table of parameters, of which one column may hold file names.

    Parameters
    ----------
    params : DataFrame, Series, dict of columns, structured array or array-like of shape (n, p)
        Parameters, one row for each run. A column of text, or else an index of text, holds the files of the runs: their
        paths, names or stems.
    what : str, default="params"
        Name of the argument, for messages.

    Returns
    -------
    Design
        Parameters with the labels of their rows.

    Raises
    ------
    FieldDataError
        If there are no numbers, columns of different lengths, a column that is neither numbers nor file names, or
        several columns of text.

    Examples
    --------
    >>> from skop.data._designs import read_design
    >>> design = read_design({"file": ["run_0.vtu", "run_1.vtu"], "load": [1.0, 2.0]})
    >>> design.values.tolist(), design.names, design.labels.files
    ([[1.0], [2.0]], ('load',), ('run_0.vtu', 'run_1.vtu'))
    """
    if isinstance(params, Design):
        return params
    names, columns, index = _columns_of(params, what)
    texts = [number for number, column in enumerate(columns) if _is_text(column)]
    if len(texts) > 1:
        raise FieldDataError(_many_texts(names, texts, what))
    kept = [number for number in range(len(columns)) if number not in texts]
    if not kept:
        raise FieldDataError(f"{what} has no column of numbers; pass at least one parameter, or leave {what} out.")
    values = np.stack([_as_numbers(columns[number], _column_name(names, number), what) for number in kept], axis=1)
    labels = Labels()
    if texts:
        labels = Labels(tuple(map(os.fspath, columns[texts[0]])), place=_column_name(names, texts[0]))
    elif index is not None:
        labels = index_labels(index)
    kept_names = None if names is None else tuple(names[number] for number in kept)
    is_named = kept_names is not None and all(isinstance(name, str) for name in kept_names)
    return Design(values, kept_names if is_named else None, labels, what)


def split_runs(X: Any) -> tuple[Any, Design | None]:
    """Split a table with a column of mesh files, or of meshes, into the runs and their parameters.

    Parameters
    ----------
    X : object
        Argument of a caller.

    Returns
    -------
    runs : list or object
        Paths or meshes of the column; X itself if it is no such table.
    design : Design or None
        The other columns, one row for each run; None if there are none.

    Raises
    ------
    FieldDataError
        If several columns hold text, or a path is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data._designs import split_runs
    >>> runs, design = split_runs(np.array([["a.vtu", 3.0], ["b.vtu", 4.0]], dtype=object))
    >>> runs, design.values.tolist()
    (['a.vtu', 'b.vtu'], [[3.0], [4.0]])
    """
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
        raise FieldDataError(_many_texts(names, runs, "X"))
    paths = _whole(columns[runs[0]], _column_name(names, runs[0]), "X")
    others = np.delete(np.arange(X.shape[1]), runs)
    if not len(others):
        return paths, None
    return paths, replace(read_design(X.iloc[:, others] if is_frame else X[:, others], "X"), labels=Labels())


def as_runs(y: Any, what: str = "y") -> Any:
    """Convert a column of paths or meshes, as a Series or a table with one column, to a list.

    Parameters
    ----------
    y : object
        Argument of a caller.
    what : str, default="y"
        Name of the argument, for messages.

    Returns
    -------
    object
        List of paths or meshes; anything else as it is.

    Raises
    ------
    FieldDataError
        If there are other columns beside them, or a path is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.data._designs import as_runs
    >>> as_runs(np.array([["a.vtu"], ["b.vtu"]], dtype=object))
    ['a.vtu', 'b.vtu']
    """
    is_column = hasattr(y, "iloc") or (isinstance(y, np.ndarray) and y.dtype.kind in "OU")
    if not is_column or y.ndim not in (1, 2) or not len(y):
        return y
    if y.ndim == 2:
        names, columns, _ = _columns_of(y, what, only_objects=True)
        held = [number for number, column in enumerate(columns) if column is not None and _is_runs(column)]
        if held and len(columns) > 1:
            raise FieldDataError(
                f"{what} has mesh files in {_column_name(names, held[0])}, and other columns; pass the files alone, or "
                "the numbers alone."
            )
        return _whole(columns[0], _column_name(names, 0), what) if held else y
    if getattr(y.dtype, "kind", "O") not in "OSU":
        return y
    items = list(y)
    return _whole(items, "the column", what) if _is_runs(items) else y


def index_labels(index: Any) -> Labels:
    """Return the labels in the index of a DataFrame: file names, or numbers that do not merely count the rows.

    Parameters
    ----------
    index : sequence
        Index.

    Returns
    -------
    Labels
        Labels; empty ones if the index is 0 to n - 1.

    Examples
    --------
    >>> from skop.data._designs import index_labels
    >>> index_labels([0, 1]), index_labels([4, 2]).numbers
    (Labels(files=None, numbers=None, place='its index'), (4, 2))
    """
    labels = list(index)
    if any(is_path(label) for label in labels) and all(is_path(label) or _is_missing(label) for label in labels):
        # A row without a name belongs to no file.
        return Labels(tuple(os.fspath(label) if is_path(label) else "" for label in labels))
    return Labels() if labels == list(range(len(labels))) else Labels(numbers=tuple(labels))


def row_labels(X: Any) -> Any:
    """Return the labels that X gives to its samples: the index of a DataFrame or Series, or the paths of files.

    Parameters
    ----------
    X : object
        Argument of a caller.

    Returns
    -------
    index, list of str or None
        Labels; None if X is an array or meshes.

    Examples
    --------
    >>> from skop.data._designs import row_labels
    >>> row_labels(["a.vtu", "b.vtu"])
    ['a.vtu', 'b.vtu']
    """
    if hasattr(X, "iloc"):
        return X.index
    if is_path(X):
        return [name for name, _ in find_sources(X)]
    is_list = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1)
    if is_list and all(is_path(item) for item in X):
        return [os.fspath(item) for item in X]
    return None


def sample_files(X: Any) -> list[str] | None:
    """Return the files of samples on meshes.

    Parameters
    ----------
    X : object
        Argument of a caller.

    Returns
    -------
    list of str or None
        Path of each sample; None if X is no files, or a table without a column of files.

    Examples
    --------
    >>> import pandas as pd
    >>> from skop.data._designs import sample_files
    >>> sample_files(pd.DataFrame({"run": ["a.vtu", "b.vtu"], "load": [1.0, 2.0]}))
    ['a.vtu', 'b.vtu']
    """
    runs, _ = split_runs(X)
    return row_labels(runs) if is_mesh_input(runs) else None


# ---------------------------------------------------------------------- parameters beside other arguments
def split_params(X: Any, params: Any) -> tuple[Any, Design | None]:
    """Return X without its columns of numbers, if it has a column of mesh files, and the global parameters."""
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
    labels = [list(part.index) for part in (given, params) if hasattr(part, "iloc")]
    is_moved = len(labels) > 1 and labels[0] != labels[1] and Counter(labels[0]) == Counter(labels[1])
    if is_moved and design.labels.place == Labels.place:
        raise FieldDataError(
            "X and params have the same labels in their index, in different order; pass params.loc[X.index]."
        )
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


# ---------------------------------------------------------------------- rows and files
def pair_rows(
    labels: Labels,
    n_rows: int,
    runs: Any,
    names: Sequence[str],
    *,
    what: str,
    remark: str = "",
    weighted: bool = False,
    says_pairs: bool = False,
    needs_all: bool = False,
) -> IntArray | None:
    """Return the row of each run, by file name where the rows have such labels, otherwise by their order.

    Parameters
    ----------
    labels : Labels
        Names of the rows.
    n_rows : int
        Number of rows.
    runs : meshes, paths or a pattern, or fields of any form
        Runs as the caller passed them.
    names : sequence of str
        Names of the runs.
    what : str
        Name of the table, for messages.
    remark : str, default=""
        Words that follow the pairs in the warning.
    weighted : bool, default=False
        Whether samples have weights, whose order would be in doubt if rows change theirs.
    says_pairs : bool, default=False
        Whether to warn of how rows and files were paired, if not by name.
    needs_all : bool, default=False
        Whether a row without a file is an error.

    Returns
    -------
    ndarray of shape (n,) or None
        Index of the row of each run; None if they are in order.

    Raises
    ------
    FieldDataError
        If rows and runs do not match.

    Examples
    --------
    >>> from skop.data._designs import Labels, pair_rows
    >>> pair_rows(Labels(("b", "a")), 2, "runs/*.vtu", ["runs/a.vtu", "runs/b.vtu"], what="params").tolist()
    [1, 0]
    """
    first = next(iter(runs), None) if isinstance(runs, list | tuple | np.ndarray) else runs
    rows = None
    if labels.files is not None and is_path(first):
        rows = _rows_by_name(labels, names, what, needs_all=needs_all)
    elif labels.files is not None and labels.place != Labels.place:
        raise FieldDataError(
            f"{labels.place} of {what} holds text, but the samples of X are no files that it could be matched with; "
            f"pass paths as X, or leave this column out if the rows of {what} are in the order of X."
        )
    elif is_path(runs) and max(n_rows, len(names)) > 1:
        rows = _rows_of_pattern(labels.numbers, n_rows, names, what, remark if says_pairs else None)
    elif n_rows != len(names):
        raise FieldDataError(_other_count(n_rows, names, what))
    if rows is not None and weighted and (np.diff(rows) < 0).any():
        raise FieldDataError(
            f"the rows of {what} were brought into the order of the files, but sample_weight has no names that tell "
            f"its order. Sort {what} and the weights like the files ({_some(names)}), or pass the files as a list in "
            f"the order of {what}."
        )
    return rows


def order_of_rows(X: Any, runs: Any, names: Sequence[str]) -> IntArray | None:
    """Return the order of runs in which they belong to the rows of a table, whose index may name them.

    Parameters
    ----------
    X : table of shape (n, p)
        Table, as a DataFrame or an array.
    runs : meshes, paths or a pattern
        Runs as the caller passed them.
    names : sequence of str
        Names of the runs.

    Returns
    -------
    ndarray of shape (n,) or None
        Index of the run of each row; None if rows and runs are in one order.

    Raises
    ------
    FieldDataError
        If rows and runs do not match.

    Examples
    --------
    >>> import pandas as pd
    >>> from skop.data._designs import order_of_rows
    >>> order_of_rows(pd.DataFrame({"load": [2.0, 1.0]}, index=["b", "a"]), "*.vtu", ["a.vtu", "b.vtu"]).tolist()
    [1, 0]
    """
    labels = index_labels(X.index) if hasattr(X, "iloc") else Labels()
    rows = pair_rows(labels, len(X), runs, names, what="X", says_pairs=True, needs_all=True)
    return None if rows is None else np.argsort(rows)


def name_runs(labels: Labels, names: Sequence[str]) -> bool:
    """Tell whether labels are names of runs, some of which are at other places.

    Parameters
    ----------
    labels : Labels
        Names of rows.
    names : sequence of str
        Names of the runs.

    Returns
    -------
    bool
        False if no label is the name of a run, or rows and runs are in one order.
    """
    files = _by_spelling(names)
    places = [files.get(_parts(label), set()) for label in labels.files or ()]
    are_in_order = len(places) == len(names) and all(number in found for number, found in enumerate(places))
    return any(places) and not are_in_order


def check_order(names: Sequence[str], others: Sequence[str], what: str = "y") -> None:
    """Raise an error if X and y are the same runs in different order, by the names of their files or folders.

    Parameters
    ----------
    names, others : sequence of str
        Names of the runs in X and in y.
    what : str, default="y"
        Name of the argument y, for messages.

    Raises
    ------
    FieldDataError
        If both have the same names, which are all different, at other places.
    """
    keys = [_distinct_names(part) for part in (names, others)]
    if keys[0] is None or keys[1] is None or keys[0] == keys[1] or set(keys[0]) != set(keys[1]):
        return
    place = next(i for i, pair in enumerate(zip(*keys, strict=True)) if pair[0] != pair[1])
    raise FieldDataError(
        f"sample {place} is {names[place]} in X and {others[place]} in {what}: both hold the same runs in different "
        "order; bring them into one order."
    )


def _distinct_names(names: Sequence[str]) -> list[str] | None:
    """Stems of files, or else the names of their folders, if these are all different."""
    paths = [PurePath(name) for name in names]
    for found in ([path.stem for path in paths], [path.parent.name for path in paths]):
        if len(set(found)) == len(found):
            return found
    return None


def _rows_of_pattern(
    numbers: Sequence[Any] | None, n_rows: int, names: Sequence[str], what: str, remark: str | None
) -> IntArray | None:
    """Row of each file of a pattern, if rows have no names; a remark of None warns of nothing."""
    rows = None if numbers is None else _rows_by_number(numbers, names)
    if rows is None and n_rows != len(names):
        raise FieldDataError(_other_count(n_rows, names, what))
    if rows is None and numbers is not None:
        raise FieldDataError(
            f"the rows of {what} have the index {_some(numbers)}, which is neither file names nor 0 to {n_rows - 1}, "
            f"as after a selection or a sort, while the files of a pattern are in natural order ({_some(names)}). "
            f"{_advice(what)} Or call {what}.reset_index(drop=True) if its rows are in this order."
        )
    if remark is None:
        return rows
    if rows is not None and numbers is not None:
        words = [f"{numbers[rows[place]]} for {names[place]}" for place in (0, -1)]
        how = "matched with files by the numbers in its index and in their names"
    else:
        words = [f"{place % n_rows} for {names[place]}" for place in (0, -1)]
        how = "taken in the natural order of the files, since it has no column or index of file names"
    warn(f"the rows of {what} were {how}: row {words[0]}, ..., row {words[1]}{remark}. {_advice(what)}")
    return rows


def _other_count(n_rows: int, names: Sequence[str], what: str) -> str:
    """Error message about a number of rows that is not that of the runs."""
    remedy = _advice(what)
    if len(names) == 1 and what == "params":
        remedy += " For many designs on one mesh call predict(params, coords=mesh)."
    return (
        f"{what} has {n_rows} rows, but there {'is 1 run' if len(names) == 1 else f'are {len(names)} runs'} "
        f"({_some(names)}): one row is needed for each. {remedy}"
    )


def _advice(what: str) -> str:
    """How to match rows with files by name."""
    return f"Give {what} {'a column or ' * (what == 'params')}an index of file names to match by name."


def _rows_by_name(labels: Labels, names: Sequence[str], what: str, *, needs_all: bool) -> IntArray:
    """Row of each file, found by the end of its path, with or without the suffix."""
    files = _by_spelling(names)
    rows: dict[int, int] = {}
    strangers = []
    for row, label in enumerate(labels.files or ()):
        found = files.get(_parts(label)) or files.get(_parts(os.path.abspath(os.path.expanduser(label))), set())
        if len(found) > 1:
            raise FieldDataError(
                f"{label!r} in row {row} of {what} may be {_some([names[i] for i in sorted(found)])}; write more of "
                "the path."
            )
        if not found:
            strangers.append(label or f"row {row}, without a name")
            continue
        (number,) = found
        if number in rows:
            raise FieldDataError(
                f"{what} has two rows for {names[number]}: {rows[number]} and {row}; keep one of them."
            )
        rows[number] = row
    missing = [name for number, name in enumerate(names) if number not in rows]
    if missing or (needs_all and strangers):
        sides = (
            (missing, f"of {len(names)} files have no row in {what}"),
            (strangers, f"of {len(labels.files or ())} rows of {what} have no file"),
        )
        words = " and ".join(f"{len(items)} {kind} ({_some(items)})" for items, kind in sides if items)
        remedy = ""
        if labels.place == Labels.place:
            remedy = " If the index holds other labels, drop it: rows then go by the natural order of the files."
        raise FieldDataError(
            f"{words}, by the names in {labels.place}. Correct these, which may be paths, file names, stems or the "
            f"names of folders with one file each; or leave out what has no partner.{remedy}"
        )
    return np.array([rows[number] for number in range(len(names))])


def _by_spelling(names: Sequence[str]) -> dict[tuple[str, ...], set[int]]:
    """Files by the ways to write them: ends of the path with and without suffix, and folders that hold one file."""
    whole = [PurePath(os.path.abspath(name)) for name in names]
    own_folders = len({path.parent for path in whole}) == len(whole) > 1
    files: dict[tuple[str, ...], set[int]] = {}
    for number, path in enumerate(whole):
        stems = [path.with_suffix("")]
        if path.suffix == ".series":
            # The file run_1.vtu.series lists the files of run_1.
            stems.append(stems[0].with_suffix(""))
        for form in (path, *stems, *([path.parent] if own_folders else [])):
            for start in range(len(form.parts)):
                files.setdefault(form.parts[start:], set()).add(number)
    return files


def _parts(label: str) -> tuple[str, ...]:
    """Parts of a path as it is written in a table, where Windows' separators may occur."""
    return PurePath(os.path.normpath(label.strip().replace("\\", "/"))).parts


def _rows_by_number(numbers: Sequence[Any], names: Sequence[str]) -> IntArray | None:
    """Row of each file by the last number in its name, if these are the numbers of the rows; None otherwise."""
    found = [re.findall(r"\d+", PurePath(name).stem) for name in names]
    if not all(found):
        return None
    in_names = [int(parts[-1]) for parts in found]
    if Counter(in_names) != Counter(numbers) or len(set(in_names)) < len(in_names):
        return None
    rows = {number: row for row, number in enumerate(numbers)}
    return np.array([rows[number] for number in in_names])


# ---------------------------------------------------------------------- columns
def _columns_of(
    table: Any, what: str, *, only_objects: bool = False
) -> tuple[list[Any] | None, list[Any], Sequence[Any] | None]:
    """Names, columns and index of a table; with `only_objects` None stands for the columns of numbers."""
    if hasattr(table, "iloc"):
        frame = table.to_frame() if table.ndim == 1 else table
        kinds = [getattr(dtype, "kind", "O") for dtype in frame.dtypes]
        columns: list[Any] = [
            None
            if only_objects and kind in "biufcmM"
            else list(frame.iloc[:, i])
            if kind in "OSU"
            else frame.iloc[:, i]
            for i, kind in enumerate(kinds)
        ]
        return list(frame.columns), columns, list(frame.index)
    if isinstance(table, dict) or getattr(getattr(table, "dtype", None), "names", None):
        names = list(table) if isinstance(table, dict) else list(table.dtype.names)
        arrays = [np.atleast_1d(np.asarray(table[name])) for name in names]
        if len({array.shape for array in arrays}) != 1 or arrays[0].ndim != 1:
            raise FieldDataError(
                f"the columns of {what} have shapes {[array.shape for array in arrays]}; expected one length for all, "
                "the number of runs."
            )
        return names, [array.tolist() if array.dtype.kind in "OSU" else array for array in arrays], None
    array = np.asarray(table)
    if array.ndim != 2:
        raise FieldDataError(
            f"{what} has shape {array.shape}; expected (n_runs, n_parameters), or a DataFrame with a row for each run."
        )
    return None, [column.tolist() if array.dtype.kind in "OSU" else column for column in array.T], None


def _is_text(column: Any) -> bool:
    """Whether a column holds text or paths."""
    return isinstance(column, list) and bool(column) and all(is_path(item) for item in column)


def _is_runs(column: list[Any]) -> bool:
    """Whether a column holds paths or meshes, some of which may be missing; numbers written as text are none."""
    first = next((item for item in column if is_mesh_input([item]) or not _is_missing(item)), None)
    return is_mesh_input([first]) and not (isinstance(first, str) and _is_number(first))


def _is_missing(item: Any) -> bool:
    """Whether an item stands for nothing, or is a number."""
    return item is None or isinstance(item, float) or type(item).__name__ == "NAType"


def _is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole(column: list[Any], place: str, what: str) -> list[Any]:
    """Return the paths or meshes of a column, or raise an error if one is missing or looks like no file."""
    missing = [row for row, item in enumerate(column) if not is_mesh_input([item])]
    if missing:
        raise FieldDataError(
            f"row {missing[0]} in {place} of {what} is {column[missing[0]]!r}; expected the path of a mesh file in "
            f"each of the {len(column)} rows."
        )
    if all(isinstance(item, str) and not PurePath(item).suffix and not os.path.exists(item) for item in column):
        raise FieldDataError(
            f"{place} of {what} is text, such as {str(column[0])!r}. Text is read as paths of mesh files, and none of "
            "these is one: write the paths with their ending, such as .vtu, or encode categories as numbers, for "
            "example by sklearn.preprocessing.OneHotEncoder."
        )
    return column


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
        stranger = next((item for item in column if not isinstance(item, int | float | np.number)), column[0])
        raise FieldDataError(
            f"{place} of {what} holds {stranger!r}; expected numbers, or file names in every row. Encode categories "
            "and dates as numbers."
        ) from None


def _column_name(names: Sequence[Any] | None, number: int) -> str:
    """A column in words."""
    return f"column {number}" if names is None else f"column {names[number]!r}"


def _many_texts(names: Sequence[Any] | None, texts: Sequence[int], what: str) -> str:
    """Error message about several columns of text."""
    words = ", ".join(_column_name(names, number) for number in texts)
    return (
        f"{what} has {len(texts)} columns of text or meshes: {words}. One may hold the mesh files; leave the others "
        "out, or encode them as numbers, for example by sklearn.preprocessing.OneHotEncoder."
    )


def _some(items: Sequence[Any]) -> str:
    """A few items in words."""
    return ", ".join(map(str, items[:_SHOWN])) + (f", ... {items[-1]}" if len(items) > _SHOWN else "")
