"""Matching of the rows of tables with runs, by the names of files, by numbers, or by their order.

Notation: n runs, p columns of a table.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from skop._typing import IntArray
from skop.data._mesh_files import is_path
from skop.exceptions import FieldDataError, warn

__all__ = [
    "Labels",
    "check_index",
    "check_order",
    "check_order_of_files",
    "counts_rows",
    "index_labels",
    "is_index",
    "is_missing",
    "name_runs",
    "order_of_rows",
    "pair_rows",
    "rows_by_number",
    "some_of",
]

#: Number of names shown in an error message.
_SHOWN = 3
#: Names that pandas makes up for columns without one.
_NAMELESS = re.compile(r"Unnamed: \d+(\.\d+)?")
#: Number of rows whose numbers are consecutive by chance.
_TOO_FEW = 2


@dataclass(frozen=True)
class Labels:
    """What the rows of a table are called, apart from their order."""

    #: Paths, file names or stems, one for each row.
    files: tuple[str, ...] | None = None
    #: Numbers of the rows in the index of a DataFrame, if these are not 0 to n - 1.
    numbers: tuple[Any, ...] | None = None
    #: Source of the labels, for messages.
    place: str = "its index"


def index_labels(index: Any) -> Labels:
    """Return the labels in the index of a DataFrame: file names, or numbers that do not merely count the rows."""
    labels = list(index)
    if any(is_path(label) for label in labels) and all(is_path(label) or is_missing(label) for label in labels):
        # A row without a name belongs to no file.
        return Labels(tuple(os.fspath(label) if is_path(label) else "" for label in labels))
    return Labels() if labels == list(range(len(labels))) else Labels(numbers=tuple(labels))


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
    """Return the row of each run, by file name where the rows have such labels, otherwise by their order."""
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
            f"the rows of {what} were brought into the order of the files, in which sample_weight or groups must be, "
            f"too. Sort {what} and these like the files ({some_of(names)}), or pass the files as a list in the order "
            f"of {what}."
        )
    return rows


def order_of_rows(X: Any, runs: Any, names: Sequence[str]) -> IntArray | None:
    """Return the order of runs in which they belong to the rows of a table, whose index may name them."""
    labels = index_labels(X.index) if hasattr(X, "iloc") else Labels()
    rows = pair_rows(labels, len(X), runs, names, what="X", says_pairs=True, needs_all=True)
    return None if rows is None else np.argsort(rows)


def name_runs(labels: Labels, names: Sequence[str]) -> bool:
    """Tell whether labels are names of runs, some of which are at other places."""
    files = _by_spelling(names)
    places = [files.get(_parts(label), set()) for label in labels.files or ()]
    are_in_order = len(places) == len(names) and all(number in found for number, found in enumerate(places))
    return any(places) and not are_in_order


def check_order(names: Sequence[str], others: Sequence[str], what: str = "y") -> None:
    """Raise an error if X and y are the same runs in different order, by the names of their files or folders."""
    keys = [_distinct_names(part) for part in (names, others)]
    if keys[0] is None or keys[1] is None or keys[0] == keys[1] or set(keys[0]) != set(keys[1]):
        return
    place = next(i for i, pair in enumerate(zip(*keys, strict=True)) if pair[0] != pair[1])
    raise FieldDataError(
        f"sample {place} is {names[place]} in X and {others[place]} in {what}: both hold the same runs in different "
        "order; bring them into one order."
    )


def check_index(other: Any, what: str, **tables: Any) -> None:
    """Raise an error if a table and the first of others that has an index hold labels at different rows.

    Labels that all lie on one side of the others, in the same order, may be shifted on purpose, as where y is the next
    step, and whole numbers that are not the same may be a default of pandas in one of both: these are warnings. What
    stands beside files is matched with these.
    """
    X = tables["X"]
    name, held = next(((key, table) for key, table in tables.items() if hasattr(table, "iloc")), ("X", None))
    items = X if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim > 0) else [X]
    if held is None or not hasattr(other, "iloc") or any(is_path(item) for item in items[:1]):
        return
    if held.index.equals(other.index):
        return
    lost, also = (table.index.to_frame().isna().to_numpy().any(axis=1) for table in (held, other))
    # A label that is missing tells nothing of its row.
    known = zip(held.index, other.index, lost, also, strict=False)
    pairs = [(None, None) if is_lost or is_also else (one, two) for one, two, is_lost, is_also in known]
    labels, others = ({pair[side] for pair in pairs} for side in (0, 1))
    shared = labels & others
    moved = [i for i, pair in enumerate(pairs) if pair[0] != pair[1] and shared & {*pair}]
    is_same = Counter(list(held.index)) == Counter(list(other.index))
    if len(held) != len(other) or not moved or (labels != others and _merely_counts(held.index, other.index)):
        return
    if _are_shifted(pairs):
        warn(
            f"all labels in the index of {what} lie {_lag(pairs)} those of {name}. Rows are paired by their order, as "
            f"is meant where {what} is the next step or counts from another number: {what}.to_numpy() then says so. If "
            f"rows were left out at different ends, join {name} and {what} by label."
        )
        return
    remedy = f"Pass {what}.loc[{name}.index] to match them by label"
    are_unique = len(labels) == len(others) == len(pairs)
    if not are_unique:
        remedy = f"Labels that repeat cannot be matched: sort {name} and {what} alike by labels that are unique"
    elif not is_same:
        remedy = f"Take the labels of both: rows = {name}.index.intersection({what}.index), and .loc[rows] of each"
    one, two = pairs[moved[0]]
    words = (
        f"row {moved[0]} is {one} in the index of {name} and {two} in that of {what}: both hold the same labels "
        f"{'in different order' if is_same else 'at different rows'}. {remedy}, or pass {what}.to_numpy() if its rows "
        f"are in the order of {name}."
    )
    if is_same or not are_unique or any(table.index.dtype.kind not in "iu" for table in (held, other)):
        raise FieldDataError(words)
    warn(f"{words} They are paired by their order here.")


def _merely_counts(*indexes: Any) -> bool:
    """Whether one index of two is the default of pandas, 0 to n - 1, which tells nothing beside labels."""
    steps = {getattr(index, "step", None) for index in indexes}
    return len(steps) == 2 and any(getattr(index, "step", None) == 1 and index[0] == 0 for index in indexes)


def _are_shifted(pairs: list[tuple[Any, Any]]) -> bool:
    """Whether the second labels all lie on one side of the first, in the same order; names have no order."""
    if any(_words(one) != _words(two) for one, two in pairs):
        return False
    try:
        are_above = {bool(one < two) for one, two in pairs}
        ordered = [two for _, two in sorted(pairs)]
        return len(are_above) == 1 and all(one != two for one, two in pairs) and ordered == sorted(ordered)
    except TypeError:  # labels of different kinds
        return False


def _words(label: Any) -> list[str]:
    """The text in a label, which may have several parts."""
    return [part for part in (label if isinstance(label, tuple) else [label]) if isinstance(part, str)]


def _lag(pairs: list[tuple[Any, Any]]) -> str:
    """By how much, and to which side, the second labels are shifted, in words."""
    side = "after" if pairs[0][0] < pairs[0][1] else "before"
    try:
        steps = [two - one if side == "after" else one - two for one, two in pairs]
        low, high = (f"{step:g}" if isinstance(step, float) else step for step in (min(steps), max(steps)))
    except TypeError:  # labels of several parts have no differences
        return side
    return f"{low} {side}" if low == high else f"{low} to {high} {side}"


def check_order_of_files(X: Any, names: Sequence[str] | None, other: Any, what: str) -> None:
    """Raise an error if a column beside files, read in their order, has their names in another as its index.

    Numbers in the index are those of the files of a pattern, or of rows that were shuffled; a list has its own order.
    """
    labels = list(other.index) if hasattr(other, "iloc") else []
    if names is None or len(labels) != len(names) or labels == [*range(len(names))]:
        return
    order, rows = np.arange(len(names)), None
    if not all(isinstance(label, str) for label in labels):
        rows = rows_by_number(labels, names) if is_path(X) else None
        if rows is None and is_path(X) and set(labels) == {*order}:
            rows = np.argsort(labels)
    else:
        files = _by_spelling(names)
        found = [files.get(_parts(label), set()) for label in labels]
        rows = np.argsort([min(one) for one in found]) if all(len(one) == 1 for one in found) else None
        if rows is None and is_path(X) and all(re.fullmatch(r"\D*\d+", label) for label in labels):
            rows = rows_by_number([int(re.findall(r"\d+", label)[0]) for label in labels], names)
    if rows is None or np.array_equal(rows, order):
        return
    place = int(np.flatnonzero(rows != order)[0])
    raise FieldDataError(
        f"row {place} of {what} is {labels[place]} by its index, but file {place} of X is {names[place]}; bring "
        f"{what} into the order of the files, or pass {what}.to_numpy() if its rows are in this order."
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
    rows = None if numbers is None else rows_by_number(numbers, names)
    if rows is None and n_rows != len(names):
        raise FieldDataError(_other_count(n_rows, names, what))
    if rows is None and numbers is not None:
        raise FieldDataError(
            f"the rows of {what} have the index {some_of(numbers)}, which is neither file names nor 0 to {n_rows - 1}, "
            f"as after a selection or a sort, while the files of a pattern are in natural order ({some_of(names)}). "
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
        f"({some_of(names)}): one row is needed for each. {remedy}"
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
                f"{label!r} in row {row} of {what} may be {some_of([names[i] for i in sorted(found)])}; write more of "
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
        words = " and ".join(f"{len(items)} {kind} ({some_of(items)})" for items, kind in sides if items)
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


def rows_by_number(numbers: Sequence[Any], names: Sequence[str], *, needs_all: bool = True) -> IntArray | None:
    """Row of each file by the number in its name, if these are the numbers of the rows; None otherwise.

    Without `needs_all`, less than half of the rows may have no file.
    """
    found = [re.findall(r"\d+", name) for name in _distinct_names(names) or ()]
    rows = {number: row for row, number in enumerate(numbers)}
    if not found or not all(found) or len(rows) < len(numbers):
        return None
    # A name may hold other numbers too, such as a version; names of several forms end in the number of the run.
    is_regular = len({len(parts) for parts in found}) == 1
    in_names = {tuple(int(parts[place]) for parts in found) for place in (range(len(found[0])) if is_regular else [-1])}
    least = len(numbers) if needs_all else len(numbers) // 2 + 1
    agreeing = [order for order in in_names if least <= len(order) == len({*order} & rows.keys())]
    return np.array([rows[number] for number in agreeing[0]]) if len(agreeing) == 1 else None


def is_index(table: Any, name: Any) -> bool:
    """Whether a column is the index of a table that pandas wrote to a file: different whole numbers without a name."""
    column = table[name]
    return _NAMELESS.fullmatch(str(name)) is not None and column.dtype.kind in "iu" and bool(column.is_unique)


def counts_rows(numbers: Any) -> bool:
    """Whether numbers are consecutive, in any order, as those of rows are; two are too few to tell."""
    return len(numbers) > _TOO_FEW and np.ptp(np.sort(numbers) - np.arange(len(numbers))) == 0


def is_missing(item: Any) -> bool:
    """Whether an item stands for nothing, or is a number."""
    return item is None or isinstance(item, float) or type(item).__name__ == "NAType"


def some_of(items: Sequence[Any]) -> str:
    """A few items in words."""
    return ", ".join(map(str, items[:_SHOWN])) + (f", ... {items[-1]}" if len(items) > _SHOWN else "")
