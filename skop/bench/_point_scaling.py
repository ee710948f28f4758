"""Time and memory of a prediction on 10,000 to 1,000,000 points.

Every size is predicted in a separate process. Memory is the increase of the peak memory of the process by the
prediction.
"""

import argparse
import resource
import sys
import time
from typing import Any

import numpy as np
import torch
from joblib.externals.loky import ProcessPoolExecutor

from skop.bench._report import Report
from skop.data import FieldSet
from skop.estimators import LaMORegressor

__all__ = ["add_command"]

#: Bytes of the unit in which the system counts peak memory.
_UNIT = 1 if sys.platform == "darwin" else 1024


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("point-scaling", help=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--dimensions", type=int, default=3, help="space dimensions")
    parser.add_argument("--repeats", type=int, default=3, help="predictions, of which the median counts")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    report = Report("LaMO on many points", options.output)
    rows, previous = [], None
    for size in options.sizes:
        with ProcessPoolExecutor(1) as pool:
            numbers = pool.submit(_measure, size, options.dimensions, options.repeats).result()
        report.record(f"{size} points", numbers)
        slope = ""
        if previous is not None:
            slope = f"{np.log(numbers['seconds'] / previous[1]) / np.log(size / previous[0]):.2f}"
        previous = size, numbers["seconds"]
        per_point = f"{1e6 * numbers['seconds'] / size:.2f}"
        rows.append([f"{size:,}", f"{numbers['seconds']:.2f} s", per_point, slope, f"{numbers['megabytes']:.0f} MB"])
    columns = ["points", "time", "µs a point", "slope from the row above", "memory above that before"]
    report.table("One sample, default network, float32", columns, rows)


def _measure(n_points: int, n_dims: int, repeats: int) -> dict[str, Any]:
    """Median time and peak additional memory of predicting one sample; the work of one process."""
    generator = np.random.default_rng(0)
    small = FieldSet(generator.random((4, 50, n_dims)).astype(np.float32))
    # Untrained weights cost as much as trained ones.
    model = LaMORegressor(max_iter=1, random_state=0).fit(small, np.sin(small.coords.sum(axis=-1, keepdims=True)))
    sample = FieldSet(generator.random((1, n_points, n_dims)).astype(np.float32))
    before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for _ in range(repeats):
        start = time.perf_counter()
        model.predict(sample)
        seconds.append(time.perf_counter() - start)
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * _UNIT
    return {"seconds": float(np.median(seconds)), "megabytes": added / 1e6, "threads": torch.get_num_threads()}
