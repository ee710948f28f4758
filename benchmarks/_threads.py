"""Time of an epoch by the number of threads, on an idle machine and beside a program that keeps a core busy.

Every row is a fit in a process of its own. "by size" is what a fit does by default: threads by the size of the problem,
which sleep while they wait as long as other programs need the cores. "all" takes as many threads as there are cores for
every problem, "all, asleep" lets them sleep always, and "all, spinning" is torch without skop: they spin always.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from joblib.externals.loky import ProcessPoolExecutor

from benchmarks._report import Report
from skop.estimators import LaMORegressor
from skop.training import _runtime

__all__ = ["add_command"]

#: Samples, points and forms of the problems.
_PROBLEMS = {
    "grids": ("60 fields of 32 x 32", 60, (32, 32)),
    "points": ("24 sets of 500 points", 24, (500,)),
    "large": ("16 fields of 128 x 128", 16, (128, 128)),
}
#: Environment of each way. What is set keeps skop from adapting; the number of spins is GNU OpenMP's own.
_WAYS: dict[str, dict[str, str]] = {
    "one thread": {},
    "by size": {},
    "all": {},
    "all, asleep": {"OMP_WAIT_POLICY": "PASSIVE"},
    "all, spinning": {"GOMP_SPINCOUNT": "300000"},
}


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Where to add it.
    """
    parser = commands.add_parser("threads", help=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=_PROBLEMS, default=list(_PROBLEMS))
    parser.add_argument("--ways", nargs="+", choices=_WAYS, default=list(_WAYS), help="ways to use threads")
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1], help="other programs that keep a core busy")
    parser.add_argument("--epochs", type=int, default=5, help="epochs, of which the mean counts")
    parser.add_argument("--output", help="Markdown file to write, with a JSON file beside it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        The command's options.
    """
    report, rows = Report("Threads of a fit", options.output, ["LaMORegressor"]), []
    for problem in options.problems:
        for n_busy in options.busy:
            times = {}
            for way in options.ways:
                with _busy_programs(n_busy), ProcessPoolExecutor(1, env=_WAYS[way]) as pool:
                    numbers = pool.submit(_measure, problem, way, options.epochs).result()
                report.record(f"{problem}, {n_busy} busy, {way}", numbers)
                times[way] = numbers["seconds"]
                ratio = f"{times[way] / times['one thread']:.2f}" if "one thread" in times else ""
                cells = [_PROBLEMS[problem][0], str(n_busy), way, str(numbers["threads"])]
                rows.append([*cells, f"{times[way]:.3f} s", ratio])
    columns = ["problem", "busy programs", "threads", "number", "epoch", "to one thread"]
    report.table(f"Mean time of an epoch of LaMO's defaults, {os.cpu_count()} cores", columns, rows)


@contextmanager
def _busy_programs(count: int) -> Iterator[None]:
    """Programs beside this one that compute without end."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def _measure(problem: str, way: str, epochs: int) -> dict[str, Any]:
    """Mean time of an epoch; the work of one process."""
    _, n_samples, shape = _PROBLEMS[problem]
    if way == "one thread":
        torch.set_num_threads(1)
    elif way != "by size":
        _runtime._NUMBERS_A_THREAD = 1
    generator = np.random.default_rng(0)
    fields = generator.normal(size=(n_samples, *shape, 1))
    X: Any = fields
    if len(shape) == 1:
        X = (generator.random((n_samples, *shape, 2)), fields)
    model = LaMORegressor(base=None, max_iter=1, warm_start=True, random_state=0)
    model.fit(X, fields)  # looks for the kernels, and compiles them where they are new
    threads: list[int] = []
    model.module_.register_forward_pre_hook(lambda *_: threads.append(torch.get_num_threads()))
    model.set_params(max_iter=epochs).fit(X, fields)
    return {"seconds": model.fit_seconds_ / epochs, "threads": threads[0], "backend": model.backend_}
