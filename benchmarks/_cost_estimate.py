"""Estimated and measured cost of fits: seconds of an epoch and memory, with default and with cheaper settings.

`estimate_cost` times a few steps before a fit. Here its numbers are compared with fits of some epochs on six kinds of
data, each in a process of its own: fields on a grid, functions on a line, point clouds of one size, meshes of unlike
size, fields from parameters (with early stopping, whose validation is part of an epoch), and scalars from a table.
Every setting that the estimate suggests is fitted too. Memory is the increase of the peak memory of the process by the
estimate and the fit.
"""

import argparse
import resource
import sys
from typing import Any

import numpy as np
import torch
from joblib.externals.loky import ProcessPoolExecutor

from benchmarks._function_maps import make_map
from benchmarks._models import OPERATORS, add_mno_options, estimator_names, make_operator, operator_name
from benchmarks._report import Report
from skop.datasets import make_cantilever, make_darcy, make_elasticity
from skop.estimators import CostEstimate
from skop.training import TrainingOptions

__all__ = ["add_command"]

#: Problems, with the number of their samples and parameters of the operators that differ from the defaults.
_PROBLEMS: dict[str, tuple[int, dict[str, Any]]] = {
    "fields on a grid": (200, {}),
    "functions on a line": (400, {}),
    "point clouds": (100, {}),
    "meshes of unlike size": (100, {}),
    "fields from parameters": (100, {"early_stopping": True, "training": TrainingOptions(n_iter_no_change=10**6)}),
    "scalars from a table": (1000, {}),
}
#: Bytes of the unit in which the system counts peak memory.
_UNIT = 1 if sys.platform == "darwin" else 1024


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("cost-estimate", help=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=_PROBLEMS, default=list(_PROBLEMS))
    parser.add_argument("--model", choices=OPERATORS, default="lamo", help="operator with default parameters")
    add_mno_options(parser)
    parser.add_argument("--samples", type=float, default=1.0, help="factor on the number of samples of each problem")
    parser.add_argument("--resolution", type=int, default=32, help="points per side of the grid")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each fit by its estimate")
    parser.add_argument("--threads", type=int, default=1, help="threads of each fit at most")
    parser.add_argument("--data-seed", type=int, default=0)
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    report = Report("Cost of a fit: estimated and measured", options.output, estimator_names([options.model]))
    rows, off = [], []
    for problem in options.problems:
        with ProcessPoolExecutor(1) as pool:
            fits = pool.submit(_measure, problem, options).result()
        for setting, numbers in fits.items():
            report.record(f"{problem}, {setting}", numbers)
            rows.append([problem, setting, *_row(numbers)])
            off.append(abs(numbers["estimated"] / numbers["measured"] - 1))
    columns = ["data", "setting", "epochs", "estimated", "measured", "estimated / measured"]
    columns += ["memory, estimated", "memory, measured"]
    title = f"Seconds of an epoch, {operator_name(options.model, options)} with default parameters"
    report.table(title, columns, rows)
    close = sum(part <= 0.3 for part in off)
    report.record("summary", {"fits": len(off), "within 30 %": close, "largest difference": max(off)})
    summary = [str(len(off)), str(close), f"{max(off):.0%}"]
    report.table("Differences", ["fits", "within 30 %", "largest difference"], [summary])


def _row(numbers: dict[str, Any]) -> list[str]:
    """Cells of one fit."""
    ratio = numbers["estimated"] / numbers["measured"]
    memory = [f"{numbers[name]:.0f} MB" if name in numbers else "" for name in ("megabytes", "measured megabytes")]
    seconds = [f"{numbers[name]:.3g} s" for name in ("estimated", "measured")]
    return [str(numbers["epochs"]), *seconds, f"{ratio:.2f}", *memory]


def _data(problem: str, options: argparse.Namespace) -> tuple[Any, Any]:
    """Samples of a problem."""
    count, seed = max(8, round(options.samples * _PROBLEMS[problem][0])), options.data_seed
    if problem == "fields on a grid":
        return make_darcy(count, resolution=options.resolution, random_state=seed)
    if problem == "functions on a line":
        return make_map("antiderivative", count, 8 * options.resolution, seed)
    if problem == "fields from parameters":
        beams = make_cantilever(count, geometry="fixed", random_state=seed)
        return beams.params, (beams.coords, beams.stress)
    if problem == "scalars from a table":
        table = np.random.default_rng(seed).random((count, 6))
        return table, np.sin(table @ np.arange(6))
    return make_elasticity(count, vary_points=problem == "meshes of unlike size", random_state=seed)


def _measure(problem: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Estimate and fit with default settings, and fit with those that the estimate suggests; the work of a process."""
    torch.set_num_threads(options.threads)
    X, y = _data(problem, options)
    model = make_operator(options.model, options, random_state=0, verbose=False).set_params(**_PROBLEMS[problem][1])
    before = _peak()
    cost: CostEstimate = model.estimate_cost(X, y)
    found = {"default": _fitted(model, X, y, cost.seconds_per_epoch, options.seconds)}
    found["default"] |= {"megabytes": cost.memory / 1e6, "measured megabytes": _peak() - before}
    for words, seconds in cost.savings.items():
        name, _, value = words.partition("=")
        if name != "max_time":
            cheaper = model.set_params(**{name: int(value)})
            found[words] = _fitted(cheaper, X, y, seconds / cost.n_epochs, options.seconds)
            model.set_params(**{name: type(model)().get_params()[name]})
    return found


def _fitted(model: Any, X: Any, y: Any, expected: float, seconds: float) -> dict[str, Any]:
    """Fit for about some seconds, as expected, and take the mean time of an epoch."""
    model.set_params(max_iter=max(2, min(round(seconds / expected), 1000))).fit(X, y)
    return {"estimated": expected, "measured": model.fit_seconds_ / model.n_iter_, "epochs": model.n_iter_}


def _peak() -> float:
    """Peak memory of the process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / 1e6
