"""Time and memory of a training step on grids: presets or defaults, with and without the fused scans, by size.

Every row is a fit in a separate process on random fields, with one batch per epoch, so that the time of an epoch is
that of a step with all overhead. Memory is the increase of the peak memory of the process by the fit. The growth is how
often longer a step takes on four times as many points, from the row with the next smaller grid: about 4 where the time
is linear in the number of points, and 16 where it grows with its square, as that of softmax attention. Its memory is
linear too. What would take too long or too much memory is left out, and the table says so.

Shares are those of the time from the end of the first update of the weights to that of the last, by torch's profiler:
the time of each operator without that of others within it. A scan is counted with the Python code that calls its
kernel. The rest is other Python code, autograd, the loader and the profiler itself.
"""

import argparse
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import isqrt, log
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib.externals.loky import ProcessPoolExecutor
from torch.autograd.profiler_util import FunctionEvent
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from benchmarks._models import HOSTS, MIXERS, OPERATORS, mno_parts
from benchmarks._report import Report
from skop.exceptions import FieldDataError

__all__ = ["add_command"]

#: Points along an axis and input channels of the presets on grids, by operator.
_SIZES = {
    "lamo": {"darcy": (85, 1), "navier_stokes": (64, 10)},
    "geomano": {"darcy": (85, 1), "navier_stokes": (64, 10)},
    "mno": {"darcy": (64, 1)},
    "amo": {"darcy": (85, 1), "navier_stokes": (64, 10)},
}
#: Kinds of operators by parts of their names in torch's profiler; the first that fits counts.
#: What is within an update of the weights is the optimiser's.
_KINDS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"),
    "scans": ("_Kernel",),
    "convolutions": ("convolution",),
    "normalisation": ("layer_norm", "rms_norm"),
    "other passes": ("aten::",),
}
_UPDATE = "Optimizer.step"
#: Bytes of the unit in which the system counts peak memory.
_UNIT = 1 if sys.platform == "darwin" else 1024


class _Step(NamedTuple):
    """What a step is taken with: an operator, words for parts of it, a preset or None for its defaults."""

    operator: str
    parts: dict[str, str]
    preset: str | None
    channels: int
    backend: str
    threads: int

    @property
    def name(self) -> str:
        """Words of the first column."""
        return " ".join([self.operator, *self.parts.values()])


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("training-step", help=__doc__.splitlines()[0])
    parser.add_argument("--operators", nargs="+", choices=OPERATORS, default=["lamo"])
    parser.add_argument("--hosts", nargs="+", choices=HOSTS, default=HOSTS, help="networks of mno")
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, default=MIXERS, help="mixers of mno")
    parser.add_argument("--presets", nargs="+", choices=_SIZES["lamo"], default=["darcy"], help="configurations")
    parser.add_argument(
        "--network", choices=("preset", "default"), default="preset", help="the presets', or that of default parameters"
    )
    parser.add_argument("--backends", nargs="+", default=["torch", "numba"], help="implementations of the scans")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of torch")
    parser.add_argument("--batch", type=int, default=4, help="samples of a step")
    parser.add_argument("--repeats", type=int, default=5, help="steps, of which the mean counts")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--resolution", type=int, nargs="+", help="points along an axis in place of the published ones")
    sizes.add_argument("--points", type=int, nargs="+", help="points of the square grids, such as 1024 4096")
    parser.add_argument(
        "--softmax-points", type=int, default=16384, help="largest grid for softmax attention; larger ones are left out"
    )
    parser.add_argument(
        "--gigabytes", type=float, default=16.0, help="memory; a grid that by the smaller one needs more is left out"
    )
    parser.add_argument("--output", help="Markdown file to write; a JSON file is written next to it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and report.

    Parameters
    ----------
    options : argparse.Namespace
        Options of the command.

    Raises
    ------
    FieldDataError
        If an operator has no such preset, or a number of points is not that of a square grid.
    """
    steps = _steps(options)  # before anything is measured: an option that cannot be used ends the command at once
    names = [OPERATORS[step.operator][0].__name__ + (f" {step.preset}" if step.preset else "") for _, step in steps]
    report, rows, shares = Report("A training step", options.output, names), [], []
    smaller: dict[str, tuple[int, dict[str, Any]]] = {}
    for resolution, step in steps:
        size = f"{options.batch} x {resolution} x {resolution}"
        cells = [step.name, step.preset or "default", size, str(step.threads)]
        name = f"{', '.join(cells[:3])}, {step.backend}, {step.threads} threads"
        before = smaller.get(str(step))
        reason = _reason_not_to_run(step, resolution, before, options)
        if reason:
            report.record(name, {"not run": reason})
            rows.append([*cells, "", f"not run: {reason}", "", "", ""])
            continue
        with ProcessPoolExecutor(1, env={"SKOP_BACKEND": step.backend}) as pool:
            numbers = pool.submit(_measure, step, resolution, options.batch, options.repeats).result()
        report.record(name, numbers)
        smaller[str(step)] = resolution, numbers
        taken, share = f"{numbers['seconds']:.3g} s", f"{100 * numbers['optimizer_share']:.1f} %"
        memory = f"{numbers['megabytes']:.0f} MB"
        rows.append([*cells, numbers["backend"], taken, share, _growth(resolution, numbers, before), memory])
        shares.append([*cells, numbers["backend"], *(f"{100 * part:.0f} %" for part in numbers["shares"].values())])
    columns = ["operator", "preset", "batch", "threads", "scans", "step", "optimiser", "growth"]
    columns += ["memory above that before"]
    report.table("Mean time of a step, and peak memory of the fit, float32", columns, rows)
    report.table("Shares of a step", [*columns[:5], *_KINDS, "optimiser", "rest"], shares)


def _steps(options: argparse.Namespace) -> list[tuple[int, _Step]]:
    """Sizes and steps that were asked for, in the order of the table."""
    found = []
    for operator, preset, threads in product(options.operators, options.presets, options.threads):
        if preset not in _SIZES[operator]:
            raise FieldDataError(f"{operator} has no preset {preset!r} here; choose from {list(_SIZES[operator])}.")
        side, channels = _SIZES[operator][preset]
        chosen: list[dict[str, str]] = [{}]
        if operator == "mno":
            chosen = [{"host": host, "mixer": mixer} for host, mixer in product(options.hosts, options.mixers)]
        name = preset if options.network == "preset" else None
        for parts, resolution in product(chosen, _resolutions(options) or [side]):
            # Attention and expansions scan nothing, so that all backends are one.
            scans = operator != "amo" and parts.get("mixer", "mamba") == "mamba"
            backends = options.backends if scans else options.backends[:1]
            found += [(resolution, _Step(operator, parts, name, channels, one, threads)) for one in backends]
    return found


def _resolutions(options: argparse.Namespace) -> list[int]:
    """Points along an axis, as they were asked for."""
    for n_points in options.points or ():
        if isqrt(n_points) ** 2 != n_points:
            raise FieldDataError(f"--points {n_points} are not those of a square grid; give squares, such as 1024.")
    return [isqrt(n_points) for n_points in options.points] if options.points else options.resolution


def _reason_not_to_run(
    step: _Step, resolution: int, before: tuple[int, dict[str, Any]] | None, options: argparse.Namespace
) -> str:
    """Why a step is left out; nothing if it is not."""
    if step.parts.get("mixer") == "softmax" and resolution**2 > options.softmax_points:
        return f"more than {options.softmax_points:,} points"
    expected = 0.0 if before is None else before[1]["megabytes"] / 1e3 * (resolution / before[0]) ** 2
    return f"about {expected:.0f} GB expected" if expected > options.gigabytes else ""


def _growth(resolution: int, numbers: dict[str, Any], before: tuple[int, dict[str, Any]] | None) -> str:
    """How often longer a step takes on four times as many points."""
    if before is None or before[0] == resolution:
        return ""
    power = log(numbers["seconds"] / before[1]["seconds"]) / log(resolution / before[0])
    return f"{2**power:.1f}"


def _measure(step: _Step, resolution: int, batch: int, repeats: int) -> dict[str, Any]:
    """Mean time of a step, and peak additional memory of the fit; the work of one process."""
    torch.set_num_threads(step.threads)
    generator = np.random.default_rng(0)
    X = generator.random((batch, resolution, resolution, step.channels)).astype(np.float32)
    y = generator.random((batch, resolution, resolution, 1)).astype(np.float32)
    kind = OPERATORS[step.operator][0]
    run: dict[str, Any] = {"base": None, "batch_size": batch, "max_iter": 1, "warm_start": True, "random_state": 0}
    if step.preset is None:
        model = kind(**(mno_parts(**step.parts) if step.parts else {}), **run)
    else:
        model = kind.from_preset(step.preset, **step.parts, **run)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.fit(X, y)  # looks for the kernels, and compiles them where they are new
    with _updates_timed() as updates:
        taken = model.set_params(max_iter=repeats).fit(X, y).fit_seconds_
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * _UNIT
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        model.set_params(max_iter=repeats + 1).fit(X, y)
    return {
        "seconds": taken / repeats,
        "optimizer_share": sum(updates) / taken,
        "shares": _shares(list(profiler.events() or ())),
        "megabytes": added / 1e6,
        "backend": model.backend_,
    }


def _shares(events: Sequence[FunctionEvent]) -> dict[str, float]:
    """Shares of kinds of operators in the time from the end of the first update of the weights to that of the last."""
    ends = [event.time_range.end for event in events if event.name.startswith(_UPDATE) and not _is_update(event)]
    start, end = min(ends), max(ends)
    found = dict.fromkeys([*_KINDS, "optimiser"], 0.0)
    for event in events:
        if not start <= event.time_range.start < end:
            continue
        is_update = event.name.startswith(_UPDATE) or _is_update(event)
        kinds = (kind for kind, parts in _KINDS.items() if any(part in event.name for part in parts))
        kind = "optimiser" if is_update else next(kinds, None)
        if kind is not None:
            found[kind] += event.self_cpu_time_total / (end - start)
    return found | {"rest": 1 - sum(found.values())}


def _is_update(event: FunctionEvent) -> bool:
    """Whether an event lies within an update of the weights."""
    parent = event.cpu_parent
    return parent is not None and (parent.name.startswith(_UPDATE) or _is_update(parent))


@contextmanager
def _updates_timed() -> Iterator[list[float]]:
    """Durations of the updates of the weights within the block; an optimiser within another one is a part of it."""
    started: list[float] = []
    durations: list[float] = []

    def start(*arguments: Any) -> None:
        """Note the time."""
        started.append(time.perf_counter())

    def end(*arguments: Any) -> None:
        """Note the time since the outermost start."""
        duration = time.perf_counter() - started.pop()
        if not started:
            durations.append(duration)

    hooks = [register_optimizer_step_pre_hook(start), register_optimizer_step_post_hook(end)]
    try:
        yield durations
    finally:
        for hook in hooks:
            hook.remove()
