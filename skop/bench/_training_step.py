"""Time and memory of a training step of the presets on grids, with and without the fused scans.

Every row is a fit in a separate process on random fields of the published size, with one batch per epoch, so that the
time of an epoch is that of a step with all overhead. Memory is the increase of the peak memory of the process by the
fit.
"""

import argparse
import resource
import sys
from itertools import product
from typing import Any

import numpy as np
import torch
from joblib.externals.loky import ProcessPoolExecutor

from skop.bench._report import Report
from skop.estimators import GeoMaNORegressor, LaMORegressor

__all__ = ["add_command"]

_OPERATORS: dict[str, Any] = {"lamo": LaMORegressor, "geomano": GeoMaNORegressor}
#: Points along an axis and input channels of the presets on grids.
_SIZES = {"darcy": (85, 1), "navier_stokes": (64, 10)}
#: Bytes of the unit in which the system counts peak memory.
_UNIT = 1 if sys.platform == "darwin" else 1024


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("training-step", help=__doc__.splitlines()[0])
    parser.add_argument("--operators", nargs="+", choices=_OPERATORS, default=["lamo"])
    parser.add_argument("--presets", nargs="+", choices=_SIZES, default=["darcy"], help="configurations")
    parser.add_argument("--backends", nargs="+", default=["torch", "numba"], help="implementations of the scans")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of torch")
    parser.add_argument("--batch", type=int, default=4, help="samples of a step")
    parser.add_argument("--repeats", type=int, default=5, help="steps, of which the mean counts")
    parser.add_argument("--resolution", type=int, nargs="+", help="points along an axis in place of the published ones")
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.
    """
    report, rows = Report("A training step", options.output), []
    for operator, preset, threads in product(options.operators, options.presets, options.threads):
        for resolution, backend in product(options.resolution or [_SIZES[preset][0]], options.backends):
            with ProcessPoolExecutor(1, env={"SKOP_BACKEND": backend}) as pool:
                task = pool.submit(_measure, operator, preset, resolution, options.batch, threads, options.repeats)
                numbers = task.result()
            name = f"{operator}, {preset}, {options.batch} x {resolution} x {resolution}"
            report.record(f"{name}, {backend}, {threads} threads", numbers)
            sizes = [operator, preset, f"{options.batch} x {resolution} x {resolution}", str(threads)]
            rows.append([*sizes, numbers["backend"], f"{numbers['seconds']:.2f} s", f"{numbers['megabytes']:.0f} MB"])
    columns = ["operator", "preset", "batch", "threads", "scans", "step", "memory above that before"]
    report.table("Mean time of a step, and peak memory of the fit, float32", columns, rows)


def _measure(operator: str, preset: str, resolution: int, batch: int, threads: int, repeats: int) -> dict[str, Any]:
    """Mean time of a step, and peak additional memory of the fit; the work of one process."""
    torch.set_num_threads(threads)
    generator = np.random.default_rng(0)
    channels = _SIZES[preset][1]
    X = generator.random((batch, resolution, resolution, channels)).astype(np.float32)
    y = generator.random((batch, resolution, resolution, 1)).astype(np.float32)
    model = _OPERATORS[operator].from_preset(preset, batch_size=batch, max_iter=1, warm_start=True, random_state=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.fit(X, y)  # looks for the kernels, and compiles them where they are new
    model.set_params(max_iter=repeats).fit(X, y)
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * _UNIT
    return {"seconds": model.fit_seconds_ / repeats, "megabytes": added / 1e6, "backend": model.backend_}
