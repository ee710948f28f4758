"""The Darcy solver behind `skop.datasets.make_darcy`: time and discretisation error of a sample.

Grids are nested in a reference grid of 841 points per side, on which the same random fields are solved; the
error is the relative L2 difference at the shared points.
"""

import argparse
import time
from typing import Any

from benchmarks._report import Report
from skop.datasets import make_darcy
from skop.metrics import relative_l2_error

__all__ = ["add_command"]

_REFERENCE = 841


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("darcy-solver", help=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[61, 85, 211, 421], help="points per side")
    parser.add_argument("--samples", type=int, default=6, help="samples of each size")
    parser.add_argument("--reference", type=int, default=_REFERENCE, help="points per side of the reference grid")
    parser.add_argument("--published-set", action="store_true", help="also time 1,200 samples at 85, solved at 421")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    report = Report("Darcy solver", options.output)
    rows = []
    for size in options.sizes:
        # Both calls draw the same fields: a sample depends on its seed and not on the grid.
        start = time.perf_counter()
        _, coarse = make_darcy(options.samples, resolution=size, random_state=0)
        seconds = (time.perf_counter() - start) / options.samples
        _, fine = make_darcy(options.samples, resolution=size, solver_resolution=options.reference, random_state=0)
        error = float(relative_l2_error(fine, coarse))
        report.record(f"{size} points", {"seconds": seconds, "error": error})
        rows.append([f"{size} x {size}", f"{1e3 * seconds:.1f} ms", f"{100 * error:.2f} %"])
    columns = ["grid", "time of a sample", f"difference from {options.reference} x {options.reference}"]
    report.table("One sample", columns, rows)
    if options.published_set:
        start = time.perf_counter()
        make_darcy(
            1200, resolution=85, solver_resolution=421, placement="cell_center", n_modes=421, random_state=0, n_jobs=-1
        )
        seconds = time.perf_counter() - start
        report.record("published set", {"seconds": seconds})
        report.table(
            "The size of the published set",
            ["samples", "time, all cores"],
            [["1,200 at 85 of 421", f"{seconds:.0f} s"]],
        )
