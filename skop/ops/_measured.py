"""Choices between kernels by measurement, made once for each kind of problem in a process."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

__all__ = ["Measurement", "Problem", "known_choice", "measured_backends", "problem_of", "quickest"]

#: How often a scan is timed; the shortest time counts.
_REPEATS = 3
#: Part of the time of ours that another kernel may take at most: a choice is not to hang on noise.
_WORTH_IT = 0.9


@dataclass(frozen=True)
class Problem:
    """What a choice is made for.

    Parameters
    ----------
    operation : str
        Scan.
    device : torch.device
        Where it runs.
    dtype : torch.dtype
        Precision of x.
    gradients : bool
        Whether gradients are wanted.
    sizes : tuple of tuple of int
        Shape of x, with batch and length rounded up to powers of two; then sizes of a token of the steps and
        of the maps.
    given : tuple of bool
        Which of the tensors are given.
    """

    operation: str
    device: torch.device
    dtype: torch.dtype
    gradients: bool
    sizes: tuple[tuple[int, ...], ...]
    given: tuple[bool, ...]


@dataclass(frozen=True)
class Measurement:
    """Times of the kernels for a problem, and the choice.

    Parameters
    ----------
    problem : Problem
        What was measured.
    seconds : mapping of str to float
        Time of each kernel: a forward pass, and a backward pass where gradients are wanted; infinite for one
        that failed or whose results differ from ours.
    """

    problem: Problem
    seconds: Mapping[str, float]

    @property
    def backend(self) -> str:
        """The kernel with the shortest time; the first of them, ours, where none is faster by a tenth."""
        own, best = next(iter(self.seconds)), min(self.seconds, key=self.seconds.__getitem__)
        return best if self.seconds[best] < _WORTH_IT * self.seconds[own] else own


_measurements: dict[Problem, Measurement] = {}


def measured_backends() -> list[Measurement]:
    """Return what was measured in this process to choose between kernels.

    Nothing is measured where a device has one kernel only: see the page on kernels.

    Returns
    -------
    list of Measurement
        One for each kind of problem, with ``problem``, ``seconds`` of each kernel, and ``backend``, the
        choice.

    Examples
    --------
    >>> from skop.ops import measured_backends
    >>> for measurement in measured_backends():
    ...     print(measurement.problem, measurement.seconds, measurement.backend)
    """
    return list(_measurements.values())


def problem_of(operation: str, arguments: Sequence[Any], n_tensors: int) -> Problem:
    """Describe a scan so that similar ones are the same problem.

    Parameters
    ----------
    operation : str
        Name of the operation.
    arguments : sequence
        Its arguments.
    n_tensors : int
        How many of them have gradients.

    Returns
    -------
    Problem
        The problem.

    Examples
    --------
    >>> import torch
    >>> from skop.ops._measured import problem_of
    >>> one = torch.ones(3, 100, 1, 2)
    >>> problem_of("some_scan", [one, one, one, one, None], 5).sizes
    ((4, 128, 1, 2), (1, 2), (1, 2))
    """
    tensors = arguments[:n_tensors]
    x, dt, _, maps = tensors[:4]
    rounded = (1 << (size - 1).bit_length() for size in x.shape[:2])
    sizes = (*rounded, *x.shape[2:]), tuple(dt.shape[2:]), tuple(maps.shape[2:])
    gradients = torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in tensors)
    return Problem(operation, x.device, x.dtype, gradients, sizes, tuple(value is not None for value in tensors))


def known_choice(problem: Problem) -> str | None:
    """Return the choice for a problem, if it has been measured.

    Parameters
    ----------
    problem : Problem
        What to scan.

    Returns
    -------
    str or None
        The kernel that was quickest.
    """
    known = _measurements.get(problem)
    return None if known is None else known.backend


def quickest(
    problem: Problem,
    kernels: Mapping[str, Callable[..., Any]],
    arguments: Sequence[Any],
    n_tensors: int,
    tolerance: float,
) -> str:
    """Measure which kernel is the quickest, and remember it.

    Parameters
    ----------
    problem : Problem
        What to scan.
    kernels : mapping of str to callable
        Scans; the first is the one that the others have to agree with.
    arguments : sequence
        Their arguments.
    n_tensors : int
        How many of them have gradients.
    tolerance : float
        Most that results may differ, relative to their norm.

    Returns
    -------
    str
        Name of the kernel.
    """
    stream = torch.cuda.current_stream(problem.device) if problem.device.type == "cuda" else None
    # Torch's modes and transforms, and the hooks of a checkpoint, belong to a thread: none is to take part.
    with ThreadPoolExecutor(1) as thread:
        scan = partial(_results, arguments=arguments, n_tensors=n_tensors, gradients=problem.gradients)
        seconds = thread.submit(_measure, stream, problem, kernels, scan, tolerance).result()
    return _measurements.setdefault(problem, Measurement(problem, seconds)).backend


def _measure(
    stream: Any, problem: Problem, kernels: Mapping[str, Callable[..., Any]], scan: Callable[..., Any], tolerance: float
) -> dict[str, float]:
    """Shortest times of the first kernel and of those that agree with it; infinite for the others."""
    seconds = dict.fromkeys(kernels, float("inf"))
    own, *others = kernels
    with nullcontext() if stream is None else torch.cuda.stream(stream), torch.set_grad_enabled(problem.gradients):
        expected = scan(kernels[own])
        agreeing = [own, *(name for name in others if _agrees(scan, kernels[name], expected, tolerance))]
        del expected
        for name in agreeing * _REPEATS:
            seconds[name] = min(seconds[name], _seconds(partial(scan, kernels[name]), problem.device))
    return seconds


def _results(
    kernel: Callable[..., Any], arguments: Sequence[Any], n_tensors: int, gradients: bool
) -> list[Tensor | None]:
    """The outputs of a scan, or y and the gradients where these are wanted."""
    leaves = [
        None if value is None else value.detach().requires_grad_(gradients and value.requires_grad)
        for value in arguments[:n_tensors]
    ]
    outputs = kernel(*leaves, *arguments[n_tensors:])
    outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
    if not gradients:
        return list(outputs)
    needed = [value for value in leaves if value is not None and value.requires_grad]
    # x itself is a cotangent as good as any, and takes no more memory.
    y, cotangent = outputs[0], arguments[0].detach()
    return [y.detach(), *torch.autograd.grad(y, needed, cotangent, allow_unused=True)]


def _agrees(
    scan: Callable[..., Any], kernel: Callable[..., Any], expected: Sequence[Tensor | None], tolerance: float
) -> bool:
    """Whether a kernel gives the expected results; the first call also compiles and tunes it."""
    try:
        results = scan(kernel)
    except Exception:  # whatever a compiler or a driver may raise, for want of memory too
        return False
    pairs = zip(results, expected, strict=True)
    return all(
        value is None or true is None or bool((value.float() - true.float()).norm() <= tolerance * true.float().norm())
        for value, true in pairs
    )


def _seconds(run: Callable[[], Any], device: torch.device) -> float:
    """Time of a call, until the device has done its work."""
    _wait(device)
    start = time.perf_counter()
    run()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    """Wait until a device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
