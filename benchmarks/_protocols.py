"""Protocols of the tables of the four papers: read from ``benchmarks/papers``, and turned into runs.

A file of this folder declares one table or figure before anything is run: its columns with their data sets and
metrics, its rows with an estimator and its parameters, and the published numbers. ``data_sets.toml`` declares the data
sets with their sizes. A run is one fit; its protocol holds all that its result depends on, so that the same fit in two
tables is one run, and a result is only taken for the protocol that it was measured with.
"""

import hashlib
import inspect
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import skop.datasets
import skop.estimators
import skop.parts
from benchmarks._models import mno_parts, until_epoch, until_time
from benchmarks._problems import Problem
from skop._typing import FloatArray, PathOrStr
from skop.data import FieldSet, iterate_coords, iterate_rows
from skop.exceptions import FieldDataError
from skop.metrics import (
    mean_absolute_error,
    mean_pointwise_relative_error,
    pdebench_nrmse,
    pdebench_rmse,
    relative_l2_error,
)

__all__ = ["METRICS", "SIZES", "Run", "Table", "errors_of", "read_samples", "read_tables", "split_of"]

_FOLDER = Path(__file__).parent / "papers"
SIZES = ("full", "reduced")
#: Numbers of a run that columns of the papers' tables show.
METRICS = (
    *("relative L2", "mean absolute error", "point-wise relative error"),
    *("RMSE of all frames", "nRMSE of all frames", "relative L2 of all frames"),
    *("seconds an epoch", "seconds to predict", "million parameters", "gigabytes"),
)
#: What of a configuration is no network, so that a model to compare with can be trained in the same way.
_TRAINING = (
    *("max_iter", "batch_size", "learning_rate_init", "weight_decay", "early_stopping", "loss", "training"),
    "scaling",
)
#: What a row of a file can state.
_ROW = {
    *("name", "estimator", "preset", "has_preset", "parameters", "network", "training_of", "columns", "published"),
    *("full", "reduced", "why"),
}
#: Frames that are known and as many that follow, and times of a sample where time is a parameter.
_KNOWN, _TIMES = 10, 20


@dataclass(frozen=True)
class Run:
    """One fit.

    Parameters
    ----------
    data : str
        Name of the data set.
    estimator : estimator
        Unfitted.
    protocol : dict
        All that the result depends on, as JSON holds it.
    points : int
        Number of points of a sample.
    frames : int, default=1
        Number of frames of a sample that are learned one by one.
    preset : str or None, default=None
        Configuration of a paper from which the estimator was made; None for the defaults of skop.
    """

    data: str
    estimator: Any
    protocol: dict[str, Any]
    points: int
    frames: int = 1
    preset: str | None = None

    @cached_property
    def hash(self) -> str:
        """Checksum of the protocol."""
        return hashlib.sha256(json.dumps(self.protocol, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def visits(self) -> int:
        """Number of points that the training reads in all epochs, or in one where only the time is limited."""
        return int(self.protocol["samples"]["train"] * self.points * self.frames * (self.protocol["epochs"] or 1))


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper.

    Parameters
    ----------
    name : str
        Name of its file.
    content : dict
        The file.
    data_sets : dict
        ``data_sets.toml``.
    """

    name: str
    content: dict[str, Any]
    data_sets: dict[str, Any]

    @property
    def title(self) -> str:
        """Paper, number and subject."""
        return f"{self.content['paper']}, {self.content['table']}: {self.content['title']}"

    @property
    def sizes(self) -> Sequence[str]:
        """In which sizes it can be run."""
        found: Sequence[str] = self.content.get("sizes", SIZES)
        return found

    @property
    def columns(self) -> dict[str, dict[str, Any]]:
        """Columns by name, with `data` and `metric`."""
        found: dict[str, dict[str, Any]] = self.content["columns"]
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows; those with an estimator can be run."""
        found: list[dict[str, Any]] = self.content["rows"]
        return found

    def cells(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Rows that can be run, with each of their columns: all if they name none and have no published numbers."""
        for row in self.rows:
            if "estimator" in row:
                for column in row.get("columns", row.get("published", self.columns)):
                    yield row, column

    def published(self, row: Mapping[str, Any], column: str) -> tuple[float | None, float | None]:
        """Published number of a cell and its spread, None where there is none."""
        found = row.get("published", {}).get(column)
        value, spread = found if isinstance(found, list) else (found, None)
        return value, spread

    def size(self, row: Mapping[str, Any], column: str, size: str) -> dict[str, Any]:
        """Samples, points, epochs and seeds of a cell: those of the data set with the changes of column and row."""
        found: dict[str, Any] = dict(self.data_sets[self.columns[column]["data"]][size])
        for changes in (self.columns[column].get(size, {}), row.get(size, {})):
            for name, value in changes.items():
                found[name] = found.get(name, {}) | value if isinstance(value, dict) else value
        return found

    def run(
        self,
        row: Mapping[str, Any],
        column: str,
        size: str,
        seed: int,
        *,
        published: bool,
        length: Mapping[str, Any] | None = None,
    ) -> Run:
        """Return the run of a cell.

        Parameters
        ----------
        row : dict
            One of `rows`.
        column : str
            One of `columns`.
        size : {"full", "reduced"}
            Size of the data and length of the training.
        seed : int
            Seed of the training.
        published : bool
            Whether the published files are read, and no samples are made.
        length : dict or None, default=None
            Length of the training, ``"seconds"`` or ``"epochs"``, in place of that of the protocol.

        Returns
        -------
        Run
            What to fit on which data.
        """
        name = self.columns[column]["data"]
        data, sizes = self.data_sets[name], self.size(row, column, size)
        is_default = "seconds" in sizes
        length = length or {name: sizes[name] for name in ("seconds", "epochs") if name in sizes}
        epochs = None if "seconds" in length else length["epochs"]
        ends = until_epoch(epochs) if epochs else until_time(length["seconds"])
        model = _default(row) if is_default else _published(row, data["preset"])
        model.set_params(**{name: _value(value) for name, value in row.get("parameters", {}).items()})
        if "max_time" in model.get_params(deep=False):
            model.set_params(random_state=seed, **ends)
        frames = {None: 1, "rollout": _KNOWN, "times": _TIMES}[data.get("form")]
        if data.get("form") == "rollout":
            # All papers learn the next frame.
            model = skop.estimators.RolloutRegressor(model, window=_KNOWN, increments=False)
        elif data.get("form") == "times":
            model = skop.estimators.TimeConditionedRegressor(model, times=_TIMES)
        kind = "load" if published else "make"
        samples = {"function": data[kind], "arguments": sizes[kind], "train": sizes["train"], "test": sizes["test"]}
        # Names of parts stand for them; their parameters have entries of their own.
        parameters = json.dumps(model.get_params(deep=True), default=lambda part: type(part).__name__)
        protocol = {"estimator": type(model).__name__, "parameters": json.loads(parameters), "samples": samples}
        # Runs that were made before there was such a parameter are the same.
        protocol["parameters"].pop("increments", None)
        protocol |= {"epochs": epochs, "components": data.get("components")}
        preset = data["preset"] if row.get("has_preset", True) and not is_default else None
        return Run(name, model, protocol, sizes["points"], frames, preset)


def _published(row: Mapping[str, Any], preset: str) -> Any:
    """Model of a row with the network and the training of its paper, as far as they are known."""
    kind = getattr(skop.estimators, row["estimator"])
    if row.get("has_preset", True):
        return kind.from_preset(preset, **row.get("preset", {}))
    model = kind(base=None)
    if "training_of" in row:
        other = getattr(skop.estimators, row["training_of"]).from_preset(preset)
        model.set_params(**{name: getattr(other, name) for name in _TRAINING})
    return model.set_params(**row.get("network", {}))


def _default(row: Mapping[str, Any]) -> Any:
    """Model of a row with the defaults of skop, a network without a base."""
    model = getattr(skop.estimators, row["estimator"])()
    if "base" in model.get_params(deep=False):
        model.set_params(base=None)
    return model.set_params(**mno_parts(**row["preset"])) if "preset" in row else model


def _value(value: Any) -> Any:
    """A value of a file: "None" stands for None, a table with `part` for a part with these parameters."""
    if isinstance(value, dict):
        return getattr(skop.parts, value["part"])(**{name: _value(v) for name, v in value.items() if name != "part"})
    return None if value == "None" else value


def read_tables(names: Sequence[str] = (), folder: PathOrStr = _FOLDER) -> list[Table]:
    """Read the protocols.

    Parameters
    ----------
    names : sequence of str, default=()
        Tables by the names of their files; none stands for all.
    folder : path-like, default=``benchmarks/papers``
        Where the files are.

    Returns
    -------
    list of Table
        In the order of their worth, which the files state.

    Raises
    ------
    FieldDataError
        If there is no such table, or a row states what none has.
    """
    found = {file.stem: tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(Path(folder).glob("*.toml"))}
    data_sets = found.pop("data_sets")
    if unknown := [name for name in names if name not in found]:
        raise FieldDataError(f"There is no table {unknown[0]!r}; choose from {', '.join(found)}.")
    tables = [Table(name, found[name], data_sets) for name in names or found]
    for table in tables:
        for row in table.rows:
            if unknown := sorted(row.keys() - _ROW):
                raise FieldDataError(f"{table.name}: a row states {unknown[0]!r}; expected one of {sorted(_ROW)}.")
    return sorted(tables, key=lambda table: int(table.content["worth"]))


def read_samples(run: Run, folder: PathOrStr | None) -> Problem:
    """Read the published samples of a run, or make samples of the same kind.

    Parameters
    ----------
    run : Run
        The run.
    folder : path-like or None
        Folder of the published files, if they are to be read.

    Returns
    -------
    Problem
        Training and test samples.
    """
    samples = run.protocol["samples"]
    function = getattr(skop.datasets, samples["function"])
    n_train, n_test = samples["train"], samples["test"]
    if folder is not None:
        data = function(folder, n_train=n_train, n_test=n_test, **samples["arguments"])
        return Problem(data.X_train, data.y_train, data.X_test, data.y_test)
    jobs = {"n_jobs": -1} if "n_jobs" in inspect.signature(function).parameters else {}
    X, y = function(n_test + n_train, random_state=0, **jobs, **samples["arguments"])
    # Test samples come first, so that they do not depend on the number of training samples.
    return Problem(X[n_test:], y[n_test:], X[:n_test], y[:n_test])


def split_of(samples: Problem) -> dict[str, str]:
    """Return checksums of the training and of the test samples.

    Parameters
    ----------
    samples : Problem
        The samples.

    Returns
    -------
    dict of str
        By ``"train"`` and ``"test"``.
    """
    pairs = {"train": (samples.X_train, samples.y_train), "test": (samples.X_test, samples.y_test)}
    return {name: _digest(pair) for name, pair in pairs.items()}


def _digest(pair: tuple[Any, Any]) -> str:
    """Checksum of the numbers of X and y, of which no more than a piece is in memory."""
    found = hashlib.sha256()
    for part in pair:
        pieces: Iterator[Any] = iter([part])
        if isinstance(part, FieldSet):
            given = [] if part.params is None else [part.params]
            coords = [part.coords] if part.shared_coords else (piece for _, piece in iterate_coords(part))
            values = () if part.n_channels == 0 else (piece for _, piece in iterate_rows(part))
            pieces = (piece for group in (given, coords, values) for piece in group)
        for piece in pieces:
            found.update(np.ascontiguousarray(piece).tobytes())
    return found.hexdigest()[:16]


def errors_of(run: Run, samples: Problem, predicted: Any) -> dict[str, float]:
    """Return the errors of a prediction, as the papers compute them.

    Parameters
    ----------
    run : Run
        The run.
    samples : Problem
        Its samples.
    predicted : array or FieldSet
        What was predicted for the test samples.

    Returns
    -------
    dict of float
        By the names of `METRICS`. Those of all frames count the known frames as free of error, as MNO's tables do.
    """
    true, found = _fields(samples.y_test), _fields(predicted)
    errors = {
        "relative L2": relative_l2_error(true, found),
        "mean absolute error": mean_absolute_error(true, found),
        "point-wise relative error": mean_pointwise_relative_error(true, found),
    }
    if components := run.protocol["components"]:
        known = _fields(samples.X_test)
        true, found = (np.concatenate([known, part], axis=-1) for part in (true, found))
        errors["relative L2 of all frames"] = relative_l2_error(true, found)
        true, found = (part.reshape(*part.shape[:-1], -1, components) for part in (true, found))
        errors["RMSE of all frames"] = pdebench_rmse(true, found, time_axis=-2)
        errors["nRMSE of all frames"] = pdebench_nrmse(true, found, time_axis=-2)
    return {name: float(error) for name, error in errors.items()}


def _fields(fields: Any) -> FloatArray:
    """Values of fields as one array."""
    values: FloatArray = np.asarray(fields.read(slice(None)).values if isinstance(fields, FieldSet) else fields)
    return values
