"""Throughput of a training by one process and by several that share each batch, with the difference of their results.

Every row is a fit by so many processes of this machine, with one thread each, in the environment that torchrun gives
them. The time is the mean of an epoch of a second fit, after one that compiles the kernels. All are fits in float64
with the same batches, so that weights differ by rounding alone. Beside other programs the processes wait for the
slowest.
"""

import argparse
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._report import Report
from skop.estimators import LaMORegressor
from skop.exceptions import SkopError

__all__ = ["add_command"]

#: Samples, points and form of the problems, and the size of a batch.
_PROBLEMS: dict[str, tuple[str, int, tuple[int, ...], int]] = {
    "grids": ("48 fields of 32 x 32", 48, (32, 32), 16),
    "points": ("24 sets of 500 points", 24, (500,), 8),
    "large": ("16 fields of 64 x 64", 16, (64, 64), 8),
}


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Where to add it.
    """
    parser = commands.add_parser("distributed", help=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=_PROBLEMS, default=list(_PROBLEMS))
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="numbers of processes")
    parser.add_argument("--epochs", type=int, default=6, help="epochs, of which the mean counts")
    parser.add_argument("--repeats", type=int, default=3, help="fits of each row, of which the fastest counts")
    parser.add_argument("--output", help="Markdown file to write, with a JSON file beside it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        The command's options.
    """
    report, rows = Report("Data-parallel training", options.output, ["LaMORegressor"]), []
    for problem in options.problems:
        name, n_samples, _, batch_size = _PROBLEMS[problem]
        first: dict[str, Any] | None = None
        for n_processes in options.processes:
            found = [_fit_by(n_processes, problem, options.epochs) for _ in range(options.repeats)]
            best = min(found, key=lambda one: float(one["seconds"]))
            first = first or best
            pairs = zip(best["weights"], first["weights"], strict=True)
            numbers = {
                "seconds": best["seconds"],
                "samples per second": n_samples / best["seconds"],
                "largest difference of a weight": max(float(np.abs(own - other).max()) for own, other in pairs),
                "load": os.getloadavg()[0],
            }
            report.record(f"{problem}, {n_processes}", numbers)
            cells = [name, str(batch_size), str(n_processes), f"{numbers['seconds']:.3f} s"]
            cells += [f"{numbers['samples per second']:.1f}", f"{first['seconds'] / best['seconds']:.2f}"]
            rows.append([*cells, f"{numbers['largest difference of a weight']:.1e}", f"{numbers['load']:.1f}"])
    columns = ["problem", "batch", "processes", "epoch", "samples a second", "speed-up", "weights differ by", "load"]
    report.table(f"Epochs of LaMO's defaults in float64, {os.cpu_count()} cores", columns, rows)


def _fit_by(n_processes: int, problem: str, epochs: int) -> dict[str, Any]:
    """Fit by several processes; return what the first one has measured."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
        held.close()
        further = {"WORLD_SIZE": str(n_processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-m", __name__, problem, str(epochs), folder]
        processes = [
            subprocess.Popen(command, env=os.environ | further | {"RANK": str(rank), "OMP_NUM_THREADS": "1"})
            for rank in range(n_processes)
        ]
        if any(process.wait() for process in processes):
            raise SkopError(f"a fit by {n_processes} processes has failed; see its messages.")
        result: dict[str, Any] = pickle.loads((Path(folder) / "result.pkl").read_bytes())
    return result


def _measure(problem: str, epochs: int, folder: str) -> None:
    """Fit as one of the processes; the first one writes the result."""
    _, n_samples, shape, batch_size = _PROBLEMS[problem]
    generator = np.random.default_rng(0)
    fields = generator.normal(size=(n_samples, *shape, 1))
    X: Any = fields
    if len(shape) == 1:
        X = (generator.random((n_samples, *shape, 2)), fields)
    model = LaMORegressor(base=None, batch_size=batch_size, max_iter=1, dtype="float64", device="cpu", random_state=0)
    model.fit(X, fields)  # looks for the kernels, and compiles them where they are new
    model.set_params(max_iter=epochs).fit(X, fields)
    if os.environ["RANK"] == "0":
        weights = [value.numpy() for value in model.module_.state_dict().values() if value.numel()]
        result = {"seconds": model.fit_seconds_ / epochs, "weights": weights}
        (Path(folder) / "result.pkl").write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]), sys.argv[3])
