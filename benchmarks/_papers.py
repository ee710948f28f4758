"""The tables and figures of the four papers, by protocols that were declared before the runs.

``benchmarks/papers`` holds a file for each table, see `benchmarks._protocols`. Each run writes one JSON file below the
output folder when it has ended, and checkpoints before: a command that was cut and is given again goes on. Published
files are read where ``--data`` has them; otherwise samples of the same kind are made, once for each data set and size.
"""

import argparse
import json
import multiprocessing
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import torch

from benchmarks._kernel_runs import peak_memory, start_peak
from benchmarks._problems import Problem
from benchmarks._protocols import SIZES, Run, Table, errors_of, read_samples, read_tables, split_of
from benchmarks._report import Report, versions
from skop._files import write_in_one_step
from skop.exceptions import FieldDataError, NonFinitePredictionError, TrainingDivergedError

__all__ = ["Cell", "Runs", "add_command", "cells_of", "write_page"]

#: Samples with which a step is timed for the plan.
_TIMED = 8
_COLUMNS = ("row", "column", "paper", "here", "here / paper", "seeds")


class Cell(NamedTuple):
    """A row and a column of a table, and the runs that fill it, one for each seed."""

    table: Table
    row: dict[str, Any]
    column: str
    runs: list[Run]

    @property
    def metric(self) -> str:
        """Which number of a run the column shows."""
        return str(self.table.columns[self.column]["metric"])


class Runs:
    """Runs with their results in a folder.

    Parameters
    ----------
    folder : path-like
        Where results, samples, checkpoints and measured steps are.
    data : path-like or None, default=None
        Folder of published files.
    processor_time : bool, default=False
        Whether fits have one thread, and limits of the time are those of the processor.

    Raises
    ------
    FieldDataError
        If the folder of published files does not exist.
    """

    def __init__(self, folder: Any, data: Any = None, *, processor_time: bool = False) -> None:
        self.folder, self.data = Path(folder), None if data is None else Path(data)
        if self.data is not None and not self.data.is_dir():
            raise FieldDataError(f"--data={data} is no folder; expected that of the published files, or no --data.")
        self.processor_time = processor_time
        self.folder.mkdir(parents=True, exist_ok=True)

    def has_files(self, names: Iterable[str]) -> bool:
        """Whether all files of a published data set are there."""
        wanted = list(names)
        return bool(wanted) and self.data is not None and all(any(self.data.rglob(name)) for name in wanted)

    def path(self, run: Run) -> Path:
        """Where the result of a run is."""
        return self.folder / f"{run.hash}.json"

    def result(self, run: Run) -> dict[str, Any] | None:
        """Result of a run, None if there is none of its protocol and clock; results of before may name no clock."""
        if not self.path(run).exists():
            return None
        found: dict[str, Any] = json.loads(self.path(run).read_text(encoding="utf-8"))
        is_own = found["protocol"] == run.protocol and found.get("clock", self.clock) == self.clock
        return found if is_own else None

    @property
    def clock(self) -> str:
        """Clock of the limits of the time."""
        return "processor" if self.processor_time else "wall"

    def samples(self, run: Run) -> Problem:
        """Published samples, or such as were made once and kept."""
        if run.protocol["samples"]["function"].startswith("load_"):
            return read_samples(run, self.data)
        kept: Problem = joblib.Memory(self.folder / "samples", verbose=0).cache(_make_samples)(run.protocol["samples"])
        return kept

    def fit(self, run: Run, until: float | None = None) -> bool:
        """Fit in a process of its own and write the result; False if the time was over before, and it goes on later."""
        process = multiprocessing.get_context("spawn").Process(target=_work, args=(self, run))
        process.start()
        try:
            process.join(None if until is None else max(0.0, until - time.monotonic()))
        finally:
            # The training goes on from its last checkpoint when the command is given again.
            in_time = not process.is_alive()
            process.terminate()
            process.join()
        if in_time and process.exitcode:
            raise FieldDataError(f"The run {run.hash} ended with status {process.exitcode}; its process said why.")
        return in_time

    def fit_here(self, run: Run) -> None:
        """Fit in this process, take the errors and write them."""
        samples, model = self.samples(run), run.estimator
        found: dict[str, Any] = {"protocol": run.protocol, "clock": self.clock, "split": split_of(samples)}
        device = "cuda" if torch.cuda.is_available() else "cpu"
        name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, {os.cpu_count()} cores"
        found |= {"versions": versions(), "hardware": f"{name}, {torch.get_num_threads()} threads"}
        # Of the models with which the operators are compared, some are no networks and need no checkpoints.
        # Limits of the time by another clock make another fit.
        kept = "checkpoints-processor" if self.processor_time else "checkpoints"
        options = {"checkpoint_dir": self.folder / kept} if _is_network(model) else {}
        start_peak(device)
        start = time.perf_counter()
        try:
            model.fit(samples.X_train, samples.y_train, **options)
            found["seconds"] = time.perf_counter() - start
            start = time.perf_counter()
            predicted = model.predict(samples.X_test)
            found["errors"] = errors_of(run, samples, predicted) | {
                "seconds to predict": time.perf_counter() - start,
                "gigabytes": peak_memory(device) / 1e9,
            }
            if _is_network(model):
                network = getattr(model, "estimator_", model)
                found["errors"] |= {
                    "seconds an epoch": network.fit_seconds_ / network.n_iter_,
                    "million parameters": sum(weights.numel() for weights in network.module_.parameters()) / 1e6,
                }
                losses = list(network.loss_curve_)
                found |= {"seconds": network.fit_seconds_, "epochs": network.n_iter_, "losses": losses}
        except (TrainingDivergedError, NonFinitePredictionError) as error:
            found["diverged"] = str(error)
        write_in_one_step(self.path(run), json.dumps(found, indent=1).encode())

    @cached_property
    def steps(self) -> dict[str, dict[str, float]]:
        """Measured steps by the checksums of runs."""
        path = self.folder / "steps.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def step(self, run: Run) -> dict[str, float]:
        """Seconds of a sample in an epoch and memory of a step on this machine, measured once."""
        if run.hash not in self.steps:
            few = run.protocol["samples"] | {"train": _TIMED, "test": 1}
            samples = self.samples(replace(run, protocol=run.protocol | {"samples": few}))
            cost = run.estimator.estimate_cost(samples.X_train, samples.y_train)
            found = {"seconds": cost.seconds_per_epoch / _TIMED, "gigabytes": cost.memory / 1e9}
            self.steps[run.hash] = found
            write_in_one_step(self.folder / "steps.json", json.dumps(self.steps, indent=1).encode())
        return self.steps[run.hash]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("papers", help=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="files of benchmarks/papers; all by default")
    parser.add_argument("--size", choices=SIZES, default="reduced", help="the papers' sizes, or those for two cores")
    parser.add_argument("--data", help="folder of published files; samples are made where they are missing")
    parser.add_argument("--output", default="papers", help="folder of the results and of the page")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=_positive(float), help="length of every training, in place of the protocols'")
    length.add_argument(
        "--epochs", type=_positive(int), help="epochs of every training, in place of the protocols' length"
    )
    parser.add_argument("--rows", nargs="+", help="rows with these names alone")
    parser.add_argument("--seeds", type=_positive(int), help="fits of each row, in place of the protocols'")
    parser.add_argument(
        "--processor-time", action="store_true", help="limits are time of the processor, and a fit has one thread"
    )
    parser.add_argument("--plan", action="store_true", help="print the runs in order, with estimates; run none")
    parser.add_argument("--budget", type=float, help="hours after which to stop; given again, the command goes on")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run what has no result yet, and write the page.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    end = None if options.budget is None else time.monotonic() + 3600 * options.budget
    runs = Runs(options.output, options.data, processor_time=options.processor_time)
    tables = read_tables(options.tables)
    cells = cells_of(tables, runs, options)
    if options.plan:
        _plan(cells, runs, options)
        return
    for one in _in_order(cells):
        if runs.result(one) is None:
            if end is not None and time.monotonic() >= end:
                break
            print(f"{one.data}: {type(_model_in(one.estimator)).__name__}, run {one.hash}", file=sys.stderr, flush=True)
            if not runs.fit(one, end):
                break
    write_page(Path(options.output) / "papers.md", tables, cells, runs)


def cells_of(tables: Sequence[Table], runs: Runs, options: argparse.Namespace) -> list[Cell]:
    """Return what is to be run.

    Parameters
    ----------
    tables : sequence of Table
        The tables.
    runs : Runs
        Where published files are.
    options : argparse.Namespace
        Options of the command.

    Returns
    -------
    list of Cell
        In the order of the tables.

    Raises
    ------
    FieldDataError
        If a row that was asked for is in none of the tables.
    """
    named = {row["name"] for table in tables for row, _ in table.cells()}
    if unknown := sorted(set(options.rows or ()) - named):
        raise FieldDataError(f"No table has a row {unknown[0]!r} that can be run; choose from {sorted(named)}.")
    found = []
    for table in tables:
        for row, column in table.cells() if options.size in table.sizes else ():
            if options.rows and row["name"] not in options.rows:
                continue
            is_published = runs.has_files(table.data_sets[table.columns[column]["data"]].get("files", ()))
            seeds = options.seeds or table.size(row, column, options.size)["seeds"]
            settings: dict[str, Any] = {"published": is_published, "length": _length(options)}
            members = [table.run(row, column, options.size, seed, **settings) for seed in range(seeds)]
            found.append(Cell(table, row, column, members))
    return found


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """Function that reads a positive number of a kind from the command line."""

    def read(text: str) -> float:
        """The number."""
        try:
            number = kind(text)
        except ValueError:
            number = 0
        if not 0 < number < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is no positive {'number' if kind is float else 'whole number'}")
        return number

    return read


def _length(options: argparse.Namespace) -> dict[str, Any]:
    """Length of every training, if one was given."""
    return {name: given for name in ("seconds", "epochs") if (given := getattr(options, name)) is not None}


def _in_order(cells: Sequence[Cell]) -> list[Run]:
    """Each run once: those of the worthiest tables first, of equal worth the first seed, and then short trainings."""
    found = [
        (cell.table.content["worth"], seed, one.visits, number, one)
        for number, cell in enumerate(cells)
        for seed, one in enumerate(cell.runs)
    ]
    return list({one.hash: one for *_, one in sorted(found, key=lambda entry: entry[:4])}.values())


# ---------------------------------------------------------------------- runs
def _make_samples(samples: dict[str, Any]) -> Problem:
    """Samples by what a protocol says of them."""
    return read_samples(Run("", None, {"samples": samples}, 0), None)


def _work(runs: Runs, run: Run) -> None:
    """Fit one model; the work of a process."""
    # An interrupted fit would end as if it were whole; the command ends this process instead.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if runs.processor_time:
        torch.set_num_threads(1)
        # Limits of the training time are read by this clock.
        time.perf_counter = time.process_time
    runs.fit_here(run)


def _model_in(estimator: Any) -> Any:
    """Model in a wrapper for problems in time, or the model itself."""
    return getattr(estimator, "estimator", estimator)


def _is_network(estimator: Any) -> bool:
    """Whether an estimator, or the one in it, trains a network."""
    return "base" in _model_in(estimator).get_params(deep=False)


# ---------------------------------------------------------------------- page
def write_page(path: Path, tables: Sequence[Table], cells: Sequence[Cell], runs: Runs) -> None:
    """Write the published numbers, ours, and their ratio.

    Parameters
    ----------
    path : Path
        Markdown file to write; a JSON file of all results is written next to it.
    tables : sequence of Table
        The tables.
    cells : sequence of Cell
        Their cells.
    runs : Runs
        Where the results are.
    """
    presets = {f"{cell.row['estimator']} {cell.runs[0].preset or ''}".strip() for cell in cells}
    report = Report("Tables of the papers", path, sorted(presets))
    for one in _in_order(cells):
        if (found := runs.result(one)) is not None:
            report.numbers[one.hash] = found
    for table in tables:
        own = [cell for cell in cells if cell.table is table]
        title = f"{table.title} (`{table.name}`)"
        if own and any("published" in cell.row for cell in own):
            report.table(title, _COLUMNS, [_line(cell, runs) for cell in own], note=_note(table, own))
        elif own:
            report.table(title, ["", *table.columns], _matrix(own, table.columns, runs), note=_note(table, own))
        if missing := [row for row in table.rows if "estimator" not in row]:
            why = table.content.get("why", "skop has no such model")
            lines = [
                [row["name"], *(_published(table, row, column) for column in table.columns), row.get("why", why)]
                for row in missing
            ]
            subject = f"{table.content['paper']}, {table.content['table']}"
            report.table(f"{subject}: not run (`{table.name}`)", ["row", *table.columns, "why"], lines)


def _note(table: Table, cells: Sequence[Cell]) -> str:
    """What the columns of a table show, and where the samples come from."""
    said: dict[str, list[str]] = {}
    is_made = False
    for cell in cells:
        one = cell.runs[0]
        samples = one.protocol["samples"]
        epochs, limit = one.protocol["epochs"], getattr(_model_in(one.estimator), "max_time", None)
        if epochs is None and limit is None:
            continue  # no network: it takes the time that it needs
        ends = f"{limit:g} s" if epochs is None else f"{epochs} epochs"
        source = "published files" if samples["function"].startswith("load_") else "generated samples"
        is_made = is_made or source == "generated samples"
        words = f"{cell.metric}; {source}, {samples['train']} to train and {samples['test']} to test"
        said.setdefault(f"{words}, {one.points} points, {ends}", []).append(cell.column)
    lines = [f"{', '.join(dict.fromkeys(columns))}: {words}." for words, columns in said.items()]
    if is_made:
        lines.append("Errors on generated samples cannot be compared one to one with those on the published files.")
    return " ".join([*lines, *([table.content["note"]] if "note" in table.content else [])])


def _line(cell: Cell, runs: Runs) -> list[str]:
    """Line of a cell: published, ours, and their ratio."""
    published, _ = cell.table.published(cell.row, cell.column)
    values, n_results, ours = _ours(cell, runs)
    ratio = f"{np.mean(values) / published:.2f}" if values and published else ""
    shown = _published(cell.table, cell.row, cell.column)
    return [cell.row["name"], cell.column, shown, ours, ratio, str(n_results or "")]


def _matrix(cells: Sequence[Cell], columns: Iterable[str], runs: Runs) -> list[list[str]]:
    """Lines of a table without published numbers: a model and its errors."""
    found: dict[str, dict[str, str]] = {}
    for cell in cells:
        found.setdefault(cell.row["name"], {})[cell.column] = _ours(cell, runs)[-1]
    return [[name, *(numbers.get(column, "") for column in columns)] for name, numbers in found.items()]


def _ours(cell: Cell, runs: Runs) -> tuple[list[float], int, str]:
    """Numbers of the runs of a cell, how many runs there are, and mean and spread in words."""
    results = [found for one in cell.runs if (found := runs.result(one)) is not None]
    values = [found["errors"][cell.metric] for found in results if "errors" in found]
    words = _spread(float(np.mean(values)), np.std(values, ddof=1) if len(values) > 1 else None) if values else ""
    if len(values) < len(results):
        words = f"{words} ({len(results) - len(values)} of {len(results)} diverged)".strip()
    return values, len(results), words or "not run yet"


def _published(table: Table, row: dict[str, Any], column: str) -> str:
    """Published number with its spread."""
    value, spread = table.published(row, column)
    return "" if value is None else _spread(value, spread)


def _spread(value: float, spread: float | None) -> str:
    """A number with its spread, with enough digits for errors of all sizes."""
    return f"{value:.4g}" + ("" if spread is None else f" ± {spread:.2g}")


# ---------------------------------------------------------------------- plan
def _plan(cells: Sequence[Cell], runs: Runs, options: argparse.Namespace) -> None:
    """Print the runs in their order with estimated hours and memory."""
    places = {one.hash: (cell, one) for cell in reversed(cells) for one in cell.runs}
    costs, how = _costs([*places.values()], runs, options)
    rows, total = [], 0.0
    for number, one in enumerate(_in_order(cells), start=1):
        cell, (hours, memory, source) = places[one.hash][0], costs[one.hash]
        total += 0.0 if source == "done" else hours
        words = [cell.table.name, cell.row["name"], cell.column, str([run.hash for run in cell.runs].index(one.hash))]
        rows.append([str(number), *words, f"{hours:.2g}", f"{total:.3g}"])
        rows[-1] += ["" if memory is None else f"{memory:.2g}", source]
    columns = ["", "table", "row", "column", "seed", "hours", "hours until then", "GB", "estimate from"]
    Report("Plan", None).table(f"{len(rows)} runs of the {options.size} size", columns, rows, note=how)


def _costs(
    places: Sequence[tuple[Cell, Run]], runs: Runs, options: argparse.Namespace
) -> tuple[dict[str, tuple[float, float | None, str]], str]:
    """Hours and gigabytes of runs with what the estimate is from, by their checksums; and how it comes about."""
    limits, steps = _lengths(places, runs, options)
    stated, faster = _stated(runs, options), 1.0
    how = "Estimates, not measurements. Hours: a step of the reduced size that was timed here, times the samples"
    if options.size == "full" and steps:
        known = [steps[key][0] / seconds for key, seconds in stated.items() if key in steps]
        if not known:
            raise FieldDataError(
                "The plan of the full size needs a run whose seconds an epoch are published, to compare this machine "
                f"with a GPU: name one of these tables too, or none for all: {', '.join(_timed_tables())}."
            )
        faster = float(np.median(known))
        how += (
            f" and points, divided by {faster:.3g}: so much longer than on the papers' own GPUs (Quadro RTX 8000, "
            f"GeForce RTX 4090) this machine takes for the {len(known)} runs whose seconds an epoch are published, in "
            "the median. Where they are published they are the estimate. An H100 should be faster than both"
        )
    found: dict[str, tuple[float, float | None, str]] = {}
    for cell, one in places:
        result, key, memory = runs.result(one), cell.runs[0].hash, None
        if one.hash in limits:
            seconds, source = limits[one.hash], "a limit of the time"
        else:
            epoch, memory = steps[one.hash]
            seconds, source = epoch / faster, "a step here"
            if key in stated and options.size == "full":
                seconds, source = stated[key], "the paper"
            seconds *= one.protocol["epochs"]
        if result is not None:
            seconds, source = result.get("seconds", 0.0), "done"
        found[one.hash] = seconds / 3600, memory, source
    return found, f"{how}. Memory: of a step, proportional to the points."


def _lengths(
    places: Sequence[tuple[Cell, Run]], runs: Runs, options: argparse.Namespace
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Limits of runs in seconds; of others, the seconds of an epoch and gigabytes, by a step that is timed here."""
    limits: dict[str, float] = {}
    timed: dict[str, tuple[Cell, Run, Run, float]] = {}
    for cell, one in places:
        length = _length(options) or cell.table.size(cell.row, cell.column, options.size)
        if "seconds" in length:
            limits[one.hash] = length["seconds"]
            continue
        # The network that is to be trained, on few and small samples.
        few = cell.table.run(cell.row, cell.column, "reduced", 0, published=False, length=_length(options))
        small = replace(cell.runs[0], protocol=cell.runs[0].protocol | {"samples": few.protocol["samples"]})
        timed[one.hash] = cell, one, small, one.points / few.points
    steps: dict[str, tuple[float, float]] = {}
    left = {small.hash for _, _, small, _ in timed.values()} - set(runs.steps)
    for key, (cell, one, small, growth) in timed.items():
        if small.hash in left:
            left.remove(small.hash)
            row = f"{cell.table.name}, {cell.row['name']}, {cell.column}"
            print(f"timing a step of {row}; {len(left)} more to time", file=sys.stderr, flush=True)
        step = runs.step(small)
        steps[key] = step["seconds"] * growth * one.protocol["samples"]["train"], step["gigabytes"] * growth
    return limits, steps


def _stated(runs: Runs, options: argparse.Namespace) -> dict[str, float]:
    """Published seconds of an epoch by the checksums of runs of the first seed."""
    every = argparse.Namespace(**{**vars(options), "rows": None})
    found = {}
    for cell in cells_of(read_tables(), runs, every):
        seconds, _ = cell.table.published(cell.row, cell.column)
        if cell.metric == "seconds an epoch" and seconds is not None:
            found[cell.runs[0].hash] = seconds
    return found


def _timed_tables() -> list[str]:
    """Tables with published seconds of an epoch."""
    return [
        table.name
        for table in read_tables()
        if any(column["metric"] == "seconds an epoch" for column in table.columns.values())
    ]
