"""The Navier-Stokes solver behind `skop.datasets.make_navier_stokes`: time and error of a sample.

The error of the last frame is its relative L2 difference from the same flow, the same random field included,
solved on a grid of twice as many points per side; that of the published scheme is its difference from the
default method on the same grid.
"""

import argparse
import time
from typing import Any

import numpy as np

from benchmarks._report import Report
from skop._typing import FloatArray
from skop.datasets import make_navier_stokes

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("flow-solver", help=__doc__.splitlines()[0])
    parser.add_argument("--viscosities", type=float, nargs="+", default=[1e-3, 1e-4, 1e-5])
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 128], help="points per side of the solver")
    parser.add_argument("--samples", type=int, default=2, help="flows of each kind")
    parser.add_argument(
        "--euler-step", type=float, help="also time the published scheme with this step, on the first case"
    )
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    report = Report("Navier-Stokes solver", options.output)
    rows = []
    # All solutions are compared on the coarsest grid.
    common, sizes = min(options.sizes), sorted({*options.sizes, *(2 * size for size in options.sizes)})
    for viscosity in options.viscosities:
        solved = {size: _solve(viscosity, size, common, options.samples) for size in sizes}
        for size in options.sizes:
            finer = solved[2 * size]
            error, seconds = _difference(solved[size][0], finer[0]), solved[size][1]
            report.record(f"{viscosity:g}, {size} points", {"error": error, "seconds": seconds})
            rows.append([f"{viscosity:g}", f"{size} x {size}", f"{seconds:.2f} s", f"{error:.1e}"])
    columns = ["viscosity", "solver grid", "time of a sample", "difference from twice the grid at time 20"]
    report.table("Default method", columns, rows)
    if options.euler_step:
        viscosity, size = options.viscosities[0], options.sizes[0]
        ours = _solve(viscosity, size, size, options.samples)
        theirs = _solve(viscosity, size, size, options.samples, method="euler", time_step=options.euler_step)
        error = _difference(theirs[0], ours[0])
        report.record("published scheme", {"error": error, "seconds": theirs[1], "default": ours[1]})
        row = [
            f"{viscosity:g}",
            f"{size} x {size}",
            f"{options.euler_step:g}",
            f"{theirs[1] / ours[1]:.0f}",
            f"{error:.1e}",
        ]
        columns = ["viscosity", "solver grid", "step", "time over that of the default", "difference from the default"]
        report.table("The published scheme", columns, [row])


def _solve(viscosity: float, size: int, resolution: int, n_samples: int, **options: Any) -> tuple[FloatArray, float]:
    """Vorticity at time 20 on the common grid, and the time for one sample."""
    start = time.perf_counter()
    _, frames = make_navier_stokes(
        n_samples,
        viscosity=viscosity,
        resolution=resolution,
        solver_resolution=size,
        n_input=1,
        n_output=1,
        frame_interval=10.0,
        first_time=10.0,
        random_state=0,
        dtype=np.float64,
        **options,
    )
    return frames, (time.perf_counter() - start) / n_samples


def _difference(found: FloatArray, reference: FloatArray) -> float:
    """Relative L2 difference, averaged over the samples."""
    squares = [(part.reshape(len(part), -1) ** 2).sum(axis=1) for part in (found - reference, reference)]
    return float(np.sqrt(squares[0] / squares[1]).mean())
