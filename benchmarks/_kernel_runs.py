"""Measurement of the implementations, each in a separate process: first call, memory, errors, times."""

import ctypes
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import skop.ops
from benchmarks._kernel_peers import Implementation
from benchmarks._kernel_shapes import Case, Problem, Rates, function_name, make_problem

__all__ = [
    "Settings",
    "in_new_process",
    "interleaved_times",
    "machine_rates",
    "peak_memory",
    "probe",
    "start_peak",
    "write_reference",
]

#: Most states (of all tokens) that the reference keeps: about 16 GB with its gradients, and under a minute.
_REFERENCE_STATES = {"selective_scan": 2**26, "selective_path_scan": 2**26, "selective_scan_2d": 2**26}
_REFERENCE_SSD_STATES = 2**28
#: Tokens of a sequence that the reference treats at once.
_SEGMENT = 2**16
#: Seconds that a process has to end by itself.
_FAREWELL = 5
#: Bytes of a copy: beyond all caches.
_COPIED = 2**28
#: Share of the memory that a process may take, so that a peer that needs more fails alone.
_MEMORY_SHARE = 0.8


class Settings(NamedTuple):
    """Settings of the run.

    Parameters
    ----------
    device : str
        ``"cpu"`` or ``"cuda"``.
    dtype : torch.dtype
        Precision of x.
    threads : int
        Number of threads of torch.
    repeats : int
        Number of timed calls.
    limit : float
        Time limit in seconds.
    """

    device: str
    dtype: torch.dtype
    threads: int
    repeats: int
    limit: float


class _Run(NamedTuple):
    """Seconds of both passes and what they gave: y, and gradients by the names of the tensors."""

    forward: float
    backward: float
    results: dict[str, Tensor]


def in_new_process(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process, which is ended after a time limit.

    Parameters
    ----------
    seconds : float
        Time limit.
    function : callable
        Function to call.
    *arguments
        Arguments of the function.

    Returns
    -------
    object
        Result of the function, or a dict with the reason of a failure under ``"failed"``.

    Examples
    --------
    >>> from benchmarks._kernel_runs import in_new_process
    >>> in_new_process(60.0, divmod, 7, 2)
    (3, 1)
    """
    context = _processes()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        found = receiver.recv() if receiver.poll(seconds) else {"failed": f"over {seconds:g} s"}
        process.join(0 if isinstance(found, dict) and "failed" in found else _FAREWELL)
    except EOFError:
        found = {"failed": "the process died"}
    process.kill()
    process.join()
    return found


def _answer(sender: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Send what a function returns; the work of a process."""
    try:
        found = function(*arguments)
    except Exception as error:  # whatever an implementation may raise
        found = {"failed": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}
    sender.send(found)


@cache
def _processes() -> Any:
    """Processes that start as copies of one which has imported what all need and done nothing else."""
    context = get_context("forkserver")
    # The second is what torch imports when it is first asked for gradients.
    context.set_forkserver_preload([__name__, "torch.fx.experimental.symbolic_shapes"])
    return context


def write_reference(case: Case, settings: Settings, path: Path) -> str:
    """Compute y and all gradients in float64 on the CPU and save them.

    Parameters
    ----------
    case : Case
        Problem.
    settings : Settings
        Settings, of which the precision determines the rounding of the arguments.
    path : Path
        File to write.

    Returns
    -------
    str
        Method of the computation: token by token, or in blocks if that would take too long.
    """
    _prepare(settings._replace(device="cpu"))
    given = make_problem(case, "cpu", settings.dtype)
    exact = Problem({name: value.double() for name, value in given.tensors.items()}, given.settings, given.cotangent)
    most = _REFERENCE_STATES.get(case.op, _REFERENCE_SSD_STATES)
    backend = "naive" if case.n_states <= most else "torch"
    function = partial(getattr(skop.ops, function_name(case.op)), backend=backend)
    run = _run_once(partial(_scan_by_segments, function) if case.length > _SEGMENT else function, exact)
    torch.save(run.results, path)
    return "token by token" if backend == "naive" else "blocked"


def probe(implementation: Implementation, case: Case, settings: Settings, reference: Path) -> dict[str, Any]:
    """Call an implementation once: time, peak memory, errors. For a process of its own.

    Parameters
    ----------
    implementation : Implementation
        Implementation to call.
    case : Case
        Problem.
    settings : Settings
        Settings of the run.
    reference : Path
        File of `write_reference`.

    Returns
    -------
    dict
        ``"start"``: seconds until it is compiled and has run on a small problem, ``"forward"`` and
        ``"backward"``: seconds of one call, ``"bytes"``: peak memory beyond the arguments, ``"errors"``:
        relative L2 error of y and of every gradient.
    """
    _prepare(settings)
    began = time.perf_counter()
    function = implementation.load(case.op)
    # What is compiled for its shape has to meet that shape first.
    _run_once(function, make_problem(case if implementation.compiles else case.small(), *settings[:2]))
    start = time.perf_counter() - began
    given = make_problem(case, *settings[:2])
    before = start_peak(settings.device)
    run = _run_once(function, given)
    added = peak_memory(settings.device) - before
    expected = torch.load(reference, mmap=True, weights_only=True)
    errors = {name: _relative_error(value, expected[name]) for name, value in run.results.items()}
    return {"start": start, "forward": run.forward, "backward": run.backward, "bytes": added, "errors": errors}


def interleaved_times(
    implementations: Sequence[Implementation], case: Case, settings: Settings
) -> dict[str, dict[str, float]]:
    """Time implementations in turns. For a process of its own.

    Parameters
    ----------
    implementations : sequence of Implementation
        Implementation to call.
    case : Case
        Problem.
    settings : Settings
        Settings of the run.

    Returns
    -------
    dict of str to dict
        Medians of the ``"seconds"`` of both passes, of ``"forward"`` and of ``"backward"``, by the names.
    """
    _prepare(settings)
    given = make_problem(case, *settings[:2])
    functions = {implementation.name: implementation.load(case.op) for implementation in implementations}
    for function in functions.values():
        _run_once(function, given)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for _ in range(settings.repeats):
        for name, function in functions.items():
            times[name].append(_run_once(function, given)[:2])
    return {name: _medians(np.array(pairs)) for name, pairs in times.items()}


def _scan_by_segments(function: Callable[..., Any], **arguments: Any) -> Tensor:
    """Scan segment after segment; what autograd needs of one is computed again in the backward pass."""
    parts = {name: arguments.pop(name).split(_SEGMENT, dim=1) for name in ("x", "dt", "B", "C")}
    outputs, state = [], None
    for segment in zip(*parts.values(), strict=True):
        given = dict(zip(parts, segment, strict=True)) | arguments
        # A lambda would see the state of a later segment when it is called again.
        scan = partial(function, **given, initial_state=state, return_final_state=True)
        y, state = checkpoint(scan, use_reentrant=False)
        outputs.append(y)
    return torch.cat(outputs, dim=1)


def machine_rates(settings: Settings) -> Rates:
    """Measure what the machine can do. For a process of its own.

    Parameters
    ----------
    settings : Settings
        Device and threads.

    Returns
    -------
    Rates
        On the CPU, multiply-adds on vectors in registers; on a GPU, those of a float32 matrix product.
    """
    _prepare(settings)
    source = torch.ones(_COPIED // 8, device=settings.device)
    target = torch.empty_like(source)
    copied = _COPIED / _best_time(lambda: target.copy_(source), settings.device)
    if settings.device == "cpu":
        return Rates(import_module("benchmarks._cpu_roofline").multiply_adds_per_second(settings.threads), copied)
    square = torch.ones(4096, 4096, device=settings.device)
    return Rates(4096**3 / _best_time(lambda: square @ square, settings.device), copied)


def _prepare(settings: Settings) -> None:
    """Set the threads, and let the process fail rather than the machine when memory runs out."""
    torch.set_num_threads(settings.threads)
    if settings.device == "cpu" and sys.platform == "linux":
        words = Path("/proc/meminfo").read_text().split()
        available = int(words[words.index("MemAvailable:") + 1]) * 1024
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (int(_MEMORY_SHARE * available), hard))


def _run_once(function: Callable[..., Tensor], problem: Problem) -> _Run:
    """Run both passes."""
    leaves = {name: value.detach().requires_grad_() for name, value in problem.tensors.items()}
    device = problem.cotangent.device.type
    times = [_now(device)]
    y = function(**leaves, **problem.settings)
    times.append(_now(device))
    grads = torch.autograd.grad(y, list(leaves.values()), problem.cotangent.to(y.dtype))
    times.append(_now(device))
    results = {"y": y.detach(), **dict(zip(leaves, grads, strict=True))}
    return _Run(times[1] - times[0], times[2] - times[1], results)


def _now(device: str) -> float:
    """Seconds, once the device has done all it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _best_time(action: Callable[[], object], device: str) -> float:
    """Shortest time of several."""
    times = []
    for _ in range(30):
        start = _now(device)
        action()
        times.append(_now(device) - start)
    return min(times)


def _medians(pairs: np.ndarray) -> dict[str, float]:
    """Medians of the sum, and of forward and backward by themselves."""
    forward, backward = np.median(pairs, axis=0)
    return {"seconds": float(np.median(pairs.sum(1))), "forward": float(forward), "backward": float(backward)}


def _relative_error(value: Tensor, expected: Tensor) -> float:
    """Relative L2 error."""
    return float((value.cpu().double() - expected).norm() / expected.norm())


def start_peak(device: str) -> int:
    """Start to watch the peak memory and return what it is now.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        Whose memory.

    Returns
    -------
    int
        Bytes.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    elif sys.platform == "linux":
        trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # glibc: memory that was freed would be taken again unnoticed
            trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory(device)


def peak_memory(device: str) -> int:
    """Return the peak memory since `start_peak`.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        Whose memory.

    Returns
    -------
    int
        Bytes.
    """
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    if sys.platform == "linux":
        # The system's ru_maxrss can only grow, and starts with what the parent process had.
        status: Mapping[str, str] = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line
        )
        return 1024 * int(status["VmHWM"].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
