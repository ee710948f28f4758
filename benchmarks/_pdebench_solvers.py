"""The solvers behind `make_shallow_water` and `make_diffusion_reaction`: time and error of a sample.

Dam breaks are compared with the same ones on a grid twice as fine as the finest one, all as means over the cells of
the coarsest grid, at time 1; the outline of the dam is made of whole cells and so differs too. Patterns are compared
with those of a tolerance of 1e-11 at all frames, beside an explicit Runge-Kutta method: RK45 of SciPy, whose default
tolerances (1e-3, and 1e-6 absolute) are those of the published data. Times are those of the processor.
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks._report import Report
from skop._typing import FloatArray
from skop.datasets import make_diffusion_reaction, make_shallow_water
from skop.metrics import relative_l2_error

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Where to add it.
    """
    parser = commands.add_parser("pdebench-solvers", help=__doc__.splitlines()[0])
    parser.add_argument("--dam-sizes", type=int, nargs="+", default=[32, 64, 128], help="cells a side")
    parser.add_argument("--pattern-sizes", type=int, nargs="+", default=[64, 128, 256], help="cells a side")
    parser.add_argument("--samples", type=int, default=2, help="samples of each kind")
    parser.add_argument("--output", help="Markdown file to write, with a JSON file beside it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        The command's options.
    """
    report = Report("Solvers of the PDEBench recipes", options.output)
    common, finest = min(options.dam_sizes), 2 * max(options.dam_sizes)
    reference, _ = _break_dams(options.samples, common, finest)
    rows = []
    for size in options.dam_sizes:
        depth, seconds = _break_dams(options.samples, common, size)
        # The waves, not the still water, are what counts.
        error = float(relative_l2_error(reference - 1, depth - 1))
        report.record(f"dam, {size} cells", {"seconds": seconds, "error": error})
        rows.append([f"{size} x {size}", f"{seconds:.2f} s", f"{100 * error:.2f} %"])
    columns = ["grid", "processor time of a sample", f"difference of the waves from {finest} x {finest} at time 1"]
    report.table("Dam breaks", columns, rows)
    rows = []
    for size in options.pattern_sizes:
        exact, _ = _react(options.samples, size, 1e-11)
        ways = {"tolerance 1e-7 (default)": _react(options.samples, size, 1e-7)}
        for tolerance in (1e-3, 1e-6):
            ways[f"RK45, relative tolerance {tolerance:g}"] = _react_explicitly(exact[:, 0], size, tolerance)
        for name, (frames, seconds) in ways.items():
            error = max(float(relative_l2_error(exact[:, t], frames[:, t])) for t in range(1, exact.shape[1]))
            report.record(f"pattern, {size} cells, {name}", {"seconds": seconds, "error": error})
            rows.append([f"{size} x {size}", name, f"{seconds:.2f} s", f"{error:.1e}"])
    columns = ["grid", "method", "processor time of a sample", "largest error of a frame"]
    report.table("Patterns of diffusion and reaction", columns, rows)


def _break_dams(n_samples: int, resolution: int, size: int) -> tuple[FloatArray, float]:
    """Depth at time 1 on a common grid, and the processor time for one sample."""
    start = time.process_time()
    _, depth = make_shallow_water(
        n_samples,
        resolution=resolution,
        solver_resolution=size,
        coarsening="average",
        n_input=1,
        n_output=1,
        frame_interval=1.0,
        random_state=0,
        dtype=np.float64,
    )
    return depth, (time.process_time() - start) / n_samples


def _react(n_samples: int, size: int, tolerance: float) -> tuple[FloatArray, float]:
    """All frames, (n, 101, N, N, 2), and the processor time for one sample."""
    start = time.process_time()
    X, y = make_diffusion_reaction(n_samples, resolution=size, tolerance=tolerance, random_state=0, dtype=np.float64)
    seconds = (time.process_time() - start) / n_samples
    frames = np.concatenate([X, y], axis=-1)
    return np.moveaxis(frames.reshape(*frames.shape[:3], -1, 2), 3, 1), seconds


def _react_explicitly(starts: FloatArray, size: int, tolerance: float) -> tuple[FloatArray, float]:
    """Solve the same samples by an explicit method, from their first frames (n, N, N, 2)."""
    diffusion, spacing = np.array([1e-3, 5e-3]), 2 / size

    def rate(_: float, flat: FloatArray) -> FloatArray:
        state = flat.reshape(size, size, 2)
        padded = np.pad(state, ((1, 1), (1, 1), (0, 0)), mode="edge")
        neighbours = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
        u, v = state[..., 0], state[..., 1]
        reaction = np.stack([u - u**3 - 5e-3 - v, u - v], axis=-1)
        return (diffusion * (neighbours - 4 * state) / spacing**2 + reaction).ravel()

    begin = time.process_time()
    times = np.linspace(0, 5, 101)
    solved = [
        solve_ivp(rate, (0, 5), start.ravel(), t_eval=times, rtol=tolerance, atol=tolerance * 1e-3).y.T
        for start in starts
    ]
    return np.stack(solved).reshape(len(starts), -1, size, size, 2), (time.process_time() - begin) / len(starts)
