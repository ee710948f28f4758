"""Time, memory and errors of the scans, compared with other implementations and with the limits of the machine.

Every number is of one forward and one backward pass through the public function, with gradients of all its
tensors. Implementations are timed in turns, in one process, and the medians count. Peak memory is that of a
first call in a process of its own, beyond the arguments, y and all gradients included. Errors are relative
L2 errors against float64; where one of them is over the bound, the error stands in the place of the time.
"""

import argparse
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

import torch

from benchmarks import _kernel_peers
from benchmarks._kernel_peers import Implementation
from benchmarks._kernel_runs import (
    Settings,
    in_new_process,
    interleaved_times,
    machine_rates,
    probe,
    write_reference,
)
from benchmarks._kernel_shapes import CASES, OPERATIONS, Case, Rates, bound, scaling_case
from benchmarks._report import Report
from skop.exceptions import SkopError

__all__ = ["add_command"]

Numbers = dict[str, Any]
_DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
_BOUNDS = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2e-2}
_PACKAGES = ("torch", "numba", "triton", "mambapy", "mamba-ssm")
_LENGTHS, _SHORT_LENGTHS = [4**power for power in range(5, 11)], [16, 64]
_SCALING_OPS = ("selective_scan", "ssd_scan")
#: Of a length, only these are timed: the others need the memory of all states.
_SCALING_NAMES = ("skop numba", "skop triton", "skop torch")
#: A first call may take so many times the limit, and the reference so many seconds.
_PATIENCE, _REFERENCE_SECONDS = 10, 1800.0


def add_command(commands: Any) -> None:
    """Add this measurement to the command line.

    Parameters
    ----------
    commands : argparse sub-parsers
        Sub-parsers to which the command is added.
    """
    parser = commands.add_parser("kernels", help=__doc__.splitlines()[0])
    shapes = list(dict.fromkeys(case.name for case in CASES))
    names = list(dict.fromkeys(implementation.name for implementation in _kernel_peers.IMPLEMENTATIONS))
    parser.add_argument("--ops", nargs="+", default=list(OPERATIONS), choices=list(OPERATIONS), help="scans")
    parser.add_argument("--shapes", nargs="*", default=shapes, choices=shapes, help="problems; none with no name")
    parser.add_argument("--scaling", action="store_true", help="time over the length, 1,024 to 1,048,576 tokens")
    parser.add_argument("--only", nargs="+", default=names, choices=names, help="implementations", metavar="NAME")
    parser.add_argument("--compile", action="store_true", help="torch.compile of a chunked form, too")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=list(_DTYPES), help="of x and of the maps")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of torch; a table for each number")
    parser.add_argument("--repeats", type=int, default=7, help="calls, of which the median counts")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds; a first call over it is the only one")
    parser.add_argument("--bound", type=float, help="largest error of what is timed; 1e-5 for float32")
    parser.add_argument("--quick", action="store_true", help="tiny problems, to see that everything runs")
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
    SkopError
        If nothing is left to measure, a number cannot be meant, or there is no such device.
    """
    cases = [case for case in CASES if case.op in options.ops and case.name in options.shapes]
    followed = [op for op in _SCALING_OPS if op in options.ops and options.scaling]
    if not cases and not followed:
        raise SkopError(f"None of {', '.join(options.ops)} has a problem named {' or '.join(options.shapes)}.")
    if min(*options.threads, options.repeats) < 1:
        raise SkopError("--threads and --repeats have to be at least 1.")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SkopError("--device cuda needs a CUDA device, but torch finds none; use --device cpu.")
    report = Report("The scans: time, memory, errors", options.output)
    rates = {threads: _rates(_settings(options, threads)) for threads in options.threads}
    _describe_machine(report, options, rates)
    for case in cases:
        _report_case(report, case.small() if options.quick else case, options, rates)
    for op in followed:
        _report_scaling(report, op, options)


def _settings(options: argparse.Namespace, threads: int) -> Settings:
    """How to run."""
    return Settings(options.device, _DTYPES[options.dtype], threads, options.repeats, options.limit)


def _largest_error(options: argparse.Namespace) -> float:
    """The bound that was asked for, or that of the precision."""
    chosen: float = _BOUNDS[options.dtype] if options.bound is None else options.bound
    return chosen


def _rates(settings: Settings) -> Rates:
    """Rates of the machine."""
    found = in_new_process(_REFERENCE_SECONDS, machine_rates, settings)
    if not isinstance(found, Rates):
        raise SkopError(f"The machine's own speed could not be measured: {found['failed']}.")
    return found


def _describe_machine(report: Report, options: argparse.Namespace, rates: Mapping[int, Rates]) -> None:
    """Table of all that the numbers depend on."""
    rows = [["processor", _processor(options.device)], ["memory allocator", _allocator()]]
    rows += [[name, found] for name in _PACKAGES if (found := _version(name))]
    for threads, rate in rates.items():
        speed = f"{rate.operations / 1e9:.1f} billion multiply-adds a second, copies at {rate.copied / 1e9:.1f} GB/s"
        rows.append([f"float32, {_threads(threads)}", speed])
    rows.append(["largest error", f"{_largest_error(options):g}; otherwise no time is given"])
    rows.append(["timed", f"median of {options.repeats} calls in turns; forward, backward and their sum"])
    report.record("machine", dict(rows))
    report.table("Machine and rules", ["", ""], rows)


def _report_case(report: Report, case: Case, options: argparse.Namespace, rates: Mapping[int, Rates]) -> None:
    """Table of a problem for each number of threads."""
    implementations = [
        implementation
        for implementation in _kernel_peers.IMPLEMENTATIONS
        if implementation.name in options.only
        and implementation.takes(case, options.device)
        and (options.compile or not implementation.compiles)
    ]
    largest, dtype = _largest_error(options), _DTYPES[options.dtype]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "reference.pt"
        how = in_new_process(_REFERENCE_SECONDS, write_reference, case, _settings(options, max(rates)), path)
        for threads, rate in rates.items():
            settings = _settings(options, threads)
            found = _missing(implementations, how) or _measure(implementations, case, settings, path, largest)
            least = sum(bound(case, dtype, rate))
            for name, numbers in found.items():
                report.record(f"{case.op}, {case.name}, {_threads(threads)}, {name}", numbers)
            rows = [_row(name, found, case, dtype, least, largest) for name in found]
            heading = f"{case.op}, {case.name}: {case.words()}; {options.dtype}, {_threads(threads)}"
            report.table(heading, _columns(found, case, how), rows)


def _missing(implementations: Sequence[Implementation], how: Any) -> dict[str, Numbers]:
    """Numbers where there is no reference to compare with; none where there is one."""
    if isinstance(how, str):
        return {}
    return {implementation.name: {"failed": f"no reference, {how['failed']}"} for implementation in implementations}


def _measure(
    implementations: Sequence[Implementation], case: Case, settings: Settings, reference: Path, largest: float
) -> dict[str, Numbers]:
    """Numbers of every implementation: of its first call, and medians where it is right and quick enough."""
    found: dict[str, Numbers] = {}
    for implementation in implementations:
        found[implementation.name] = in_new_process(
            _PATIENCE * settings.limit, probe, implementation, case, settings, reference
        )
    timed = []
    for implementation in implementations:
        numbers = found[implementation.name]
        if _refusal(numbers, largest) is None:
            numbers |= {"seconds": numbers["forward"] + numbers["backward"], "calls": 1}
            timed += [implementation] * (numbers["seconds"] <= settings.limit)
    if timed:
        patience = (len(timed) * (settings.repeats + 1) + _PATIENCE) * settings.limit
        times = in_new_process(patience, interleaved_times, timed, case, settings)
        for implementation in timed:
            found[implementation.name] |= times.get(implementation.name, times) | {"calls": settings.repeats}
    return found


def _refusal(numbers: Mapping[str, Any], largest: float) -> str | None:
    """Why there is no time, or None."""
    if "failed" in numbers:
        return shorten(str(numbers["failed"]).replace("|", "/"), 80)
    worst = numbers["errors"][_worst(numbers["errors"])]
    return None if worst <= largest else f"error {worst:.0e}"


def _worst(errors: Mapping[str, float]) -> str:
    """Name of the largest error; NaN is larger than any."""
    return max(errors, key=lambda name: float("inf") if isnan(errors[name]) else errors[name])


def _columns(found: Mapping[str, Numbers], case: Case, how: Any) -> list[str]:
    """Heads of a table; `how` is what the reference was computed with."""
    first = next(iter(found), "the first")
    counted = f"x, which counts for each of {case.paths} paths" if case.shared > 1 else "x"
    against = how if isinstance(how, str) else "none"
    names = ["implementation", "ms", "forward", "backward", f"time / {first}", "of the roofline", f"memory / {counted}"]
    return [*names, f"error of y (reference: float64, {against})", "largest error of a gradient", "start, s"]


def _row(
    name: str, found: Mapping[str, Numbers], case: Case, dtype: torch.dtype, least: float, largest: float
) -> list[str]:
    """One implementation, in words."""
    numbers, refusal = found[name], _refusal(found[name], largest)
    if "failed" in numbers:
        return [name, str(refusal), *[""] * 8]
    gradients = {key: error for key, error in numbers["errors"].items() if key != "y"}
    worst = _worst(gradients)
    elements = case.batch * case.length * max(case.heads, 1) * case.channels
    times = [str(refusal), "", "", "", ""] if refusal else _times(numbers, next(iter(found.values())), least)
    return [
        name,
        *times,
        f"{numbers['bytes'] / (case.shared * elements * dtype.itemsize):.1f}",
        f"{numbers['errors']['y']:.0e}",
        f"{gradients[worst]:.0e} ({worst})",
        f"{numbers['start']:.1f}",
    ]


def _times(numbers: Numbers, first: Numbers, least: float) -> list[str]:
    """Times in ms, beside the first implementation's and beside the bound."""
    note = " (one call)" if numbers["calls"] == 1 else ""
    ratio = f"{numbers['seconds'] / first['seconds']:.1f}" if "seconds" in first else ""
    milliseconds = [f"{1e3 * numbers[key]:.3g}" for key in ("seconds", "forward", "backward")]
    return [milliseconds[0] + note, *milliseconds[1:], ratio, f"{100 * least / numbers['seconds']:.0f} %"]


def _report_scaling(report: Report, op: str, options: argparse.Namespace) -> None:
    """Tables of the time over the length, with the ratio to the length before."""
    lengths = _SHORT_LENGTHS if options.quick else _LENGTHS
    case = scaling_case(op, lengths[0])
    chosen = [one for one in _kernel_peers.IMPLEMENTATIONS if one.name in _SCALING_NAMES and one.name in options.only]
    chosen = [one for one in chosen if one.takes(case, options.device)]
    columns = ["tokens", *(word for one in chosen for word in (f"{one.name}, ms", "ratio to the row above"))]
    for threads in options.threads:
        rows = _scaling_rows(report, op, lengths, chosen, _settings(options, threads), _largest_error(options))
        words = case.words().replace(f", {lengths[0]:,} tokens", "")
        report.table(f"{op} over the length: {words}; {options.dtype}, {_threads(threads)}", columns, rows)


def _scaling_rows(
    report: Report,
    op: str,
    lengths: Sequence[int],
    chosen: Sequence[Implementation],
    settings: Settings,
    largest: float,
) -> list[list[str]]:
    """Rows of a table; what took too long is left out of longer ones."""
    rows, before, left = [], dict[str, Numbers](), list(chosen)
    for length in lengths:
        case = scaling_case(op, length)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "reference.pt"
            how = in_new_process(_REFERENCE_SECONDS, write_reference, case, settings, path)
            found = _missing(left, how) or _measure(left, case, settings, path, largest)
        row = [f"{length:,}"]
        for implementation in chosen:
            numbers = found.get(implementation.name)
            row += ["", ""] if numbers is None else _scaling_words(numbers, before.get(implementation.name), largest)
        for name, numbers in found.items():
            report.record(f"{op}, {length}, {_threads(settings.threads)}, {name}", {**numbers, "reference": how})
        rows.append(row)
        before = found
        left = [one for one in left if found[one.name].get("seconds", float("inf")) <= settings.limit]
    return rows


def _scaling_words(numbers: Numbers, before: Numbers | None, largest: float) -> list[str]:
    """Time, and its ratio to that of the length before."""
    refusal = _refusal(numbers, largest)
    if refusal is not None:
        return [refusal, ""]
    ratio = "" if before is None or "seconds" not in before else f"{numbers['seconds'] / before['seconds']:.2f}"
    return [f"{1e3 * numbers['seconds']:.3g}", ratio]


def _threads(count: int) -> str:
    """Number of threads in words."""
    return f"{count} thread{'s' * (count > 1)}"


def _processor(device: str) -> str:
    """Name of the processor, and of the GPU where it is used."""
    path, name = Path("/proc/cpuinfo"), platform.processor() or platform.machine()
    if path.exists():
        lines = (line for line in path.read_text().splitlines() if line.startswith("model name"))
        name = next(lines, f":{name}").partition(":")[2].strip()
    return f"{name}; {torch.cuda.get_device_name()}" if device == "cuda" else name


def _allocator() -> str:
    """What the environment says about the memory allocator."""
    names = [name for name in os.environ if name.startswith("MALLOC_") or name in ("LD_PRELOAD", "GLIBC_TUNABLES")]
    return ", ".join(f"{name}={os.environ[name]}" for name in sorted(names)) or "default malloc"


def _version(package: str) -> str | None:
    """Version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
