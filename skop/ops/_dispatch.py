"""Which implementation of a scan runs: the plain ones, or a kernel for the device at hand.

Every operation has a plain form in torch, which runs anywhere, and kernels: Numba's on CPUs, Triton's on
CUDA. The choice is a fixed rule of the device, the precision and the shapes, so that all processes of one
training choose alike:

0. Within `traceable_scans`, which exports need, the plain form that can be traced runs.
1. What the caller or the environment variable SKOP_BACKEND names, runs, or an error says why it cannot.
2. On a CPU, a scan of few states (`Operation.small`; tokens x paths x channels x states of one sample) runs
   in plain torch. The kernel would hardly be faster, and compiling it takes longer than many such scans.
   The batch does not count: a sample is treated alike in any company.
3. Otherwise the kernel of the device runs. Before its first use for a device and precision it has to agree
   with the float64 reference on a small problem; one that is missing or fails is named in a warning, once,
   and the plain form runs instead. The backward pass is compiled and checked when gradients are first
   wanted, so a process that only predicts does without.

The kernels of the package mamba_ssm run only where they are asked for by name.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from math import prod
from typing import Any

import torch
from torch import Tensor

from skop.exceptions import KernelWarning, OptionalDependencyError, warn
from skop.ops._arguments import cast
from skop.ops._autograd import complete_derivatives, differentiable_gradients

__all__ = ["BACKENDS", "Operation", "is_traced", "n_states", "record_backends", "traceable_scans", "wants_gradients"]

#: Names that `backend` arguments and the environment variable take.
BACKENDS = ("naive", "torch", "numba", "triton", "mamba_ssm")
_VARIABLE = "SKOP_BACKEND"
_KERNEL_FILES = {"numba": "_cpu", "triton": "_triton"}
_INSTALL = {"numba": "pip install numba", "triton": "pip install triton", "mamba_ssm": "pip install mamba-ssm"}
#: Kernels of other packages, differentiable by themselves, and the precisions that they take.
_FOREIGN = {"mamba_ssm": (torch.float32, torch.bfloat16)}
#: The kernel that a device runs unless another one is asked for.
_USUAL = {"cpu": "numba", "cuda": "triton"}
#: The kind of device that each kernel is for.
_DEVICES = {"numba": "cpu", "triton": "cuda", "mamba_ssm": "cuda"}

#: Most that a kernel may differ from the reference in the self-check, relative to the norm.
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 3e-2}

_recorders: ContextVar[tuple[set[str], ...]] = ContextVar("recorders", default=())
_traced: ContextVar[bool] = ContextVar("traced", default=False)


@contextmanager
def traceable_scans() -> Iterator[None]:
    """Run the scans within the block in the plain form that `torch.export` can trace, whatever else is asked for.

    Yields
    ------
    None
        The block runs.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import record_backends, selective_scan, traceable_scans
    >>> one = torch.ones(1, 3, 1)
    >>> with traceable_scans(), record_backends() as used:
    ...     _ = selective_scan(one, one, -one[0, :1], one[..., None], one[..., None], backend="torch")
    >>> used
    {'torch'}
    """
    token = _traced.set(True)
    try:
        yield
    finally:
        _traced.reset(token)


@contextmanager
def record_backends() -> Iterator[set[str]]:
    """Note which implementations the scans within the block run.

    Yields
    ------
    set of str
        Names from `BACKENDS`, filled as scans run.

    Examples
    --------
    >>> import torch
    >>> from skop.ops import record_backends, ssd_scan
    >>> one = torch.ones(1, 3, 1, 1)
    >>> with record_backends() as used:
    ...     _ = ssd_scan(one, one[..., 0], -one[0, 0, 0], one, one, backend="naive")
    >>> used
    {'naive'}
    """
    used: set[str] = set()
    token = _recorders.set((*_recorders.get(), used))
    try:
        yield used
    finally:
        _recorders.reset(token)


def is_traced() -> bool:
    """Tell whether the call is within `traceable_scans`."""
    return _traced.get()


@dataclass(frozen=True, eq=False)
class Operation:
    """A scan and its implementations.

    All take the arguments as one NamedTuple: first the tensors that have gradients, some of them None, then what else
    there is; ``dt`` is in the precision of the computation. All return y and the final state, or None.
    """

    name: str  # also of the folder with its kernels
    plain: Mapping[str, Callable[..., Any]]  # "naive" and "torch", which need all tensors in one precision
    n_tensors: int  # arguments that have gradients
    example: Callable[[], Any]  # makes the arguments of a small problem in float64 on the CPU
    #: Our kernels that there are. Where that of the device is missing here, plain torch runs without a warning.
    kernels: tuple[str, ...] = tuple(_KERNEL_FILES)
    small: int = 0  # states of one sample up to which plain torch runs on a CPU: see `n_states`
    #: Plain form without writes in place and without blocks whose number depends on the batch.
    traceable: str = "naive"

    def choose(
        self,
        backend: str | None,
        device: torch.device,
        dtype: torch.dtype,
        *,
        states: int | None = None,
        gradients: bool = True,
    ) -> str:
        """Choose the implementation for a device, the dtype of x and the size of a scan, or raise ValueError.

        `backend` is what was asked for; None leaves it to the environment variable ``SKOP_BACKEND`` and the device.
        `states` of one sample are counted by `n_states`; None is more than a few. Without `gradients`, the backward
        pass is not checked. Plain forms are noted for `record_backends`, kernels are by `run`.
        """
        asked, source = (self.traceable, "traceable_scans") if _traced.get() else _asked(backend)
        name = asked or self._usual(device, states)
        problem = None if name in self.plain else _problem(self, name, device, dtype, gradients)
        if problem is not None and asked is not None:
            raise ValueError(f"{source} is {name!r}, but {self.name} cannot run so: {problem}.")
        if problem is not None:
            _warn_once(f"{self.name} runs in plain torch, which is much slower: {problem}.")
            name = "torch"
        if name in self.plain:
            _note(name)
        return name

    def run(self, backend: str | None, given: Any) -> Any:
        """Scan with the implementation that `choose` chooses, or raise ValueError if it does not take the arguments.

        Where x and the maps are bfloat16, the others are float32; plain forms then return float32.
        """
        return self._run(backend, given) if _traced.get() else _uncompiled(self._run, backend, given)

    def _run(self, backend: str | None, given: Any) -> Any:
        """Scan."""
        states, gradients = n_states(given.x, given.dt, given.B), wants_gradients(given[: self.n_tensors])
        name = self.choose(backend, given.x.device, given.x.dtype, states=states, gradients=gradients)
        if name in self.plain:
            return self.plain[name](cast(given, given.dt.dtype))
        if (refusal := _refusal(self, name, given)) is not None:  # ours take all, so the name was asked for
            raise ValueError(f"{_asked(backend)[1]} is {name!r}, but {self.name} cannot run so: {refusal}.")
        _note(name)
        # Kernels read memory, in which a lazy negation is not done yet.
        given = given._make(value.resolve_neg() if isinstance(value, Tensor) else value for value in given)
        return _kernel(self, name)(given)

    def _usual(self, device: torch.device, states: int | None) -> str:
        """What runs where nothing is asked for."""
        name = _USUAL.get(device.type)
        if name not in self.kernels or (name == "numba" and states is not None and states <= self.small):
            return "torch"
        return name


def n_states(x: Tensor, dt: Tensor, B: Tensor) -> int:
    """Count the states of one sample: tokens x paths x channels x states of a channel.

    x has one axis more than dt (batch, ..., n_paths, channels or heads) where there are heads; B is (..., d_state).
    """
    channels = x.shape[-1] if x.ndim > dt.ndim else 1
    return prod(dt.shape[1:]) * channels * B.shape[-1]


def _asked(backend: str | None) -> tuple[str | None, str]:
    """What was asked for, if anything, and by what."""
    source = "backend"
    if backend is None and os.environ.get(_VARIABLE):
        backend, source = os.environ[_VARIABLE], _VARIABLE
    if backend not in (None, *BACKENDS):
        raise ValueError(f"{source} is {backend!r}; expected None or one of {BACKENDS}.")
    return backend, source


def _note(name: str) -> None:
    """Tell all that record."""
    for used in _recorders.get():
        used.add(name)


def _kernel(operation: Operation, name: str) -> Callable[..., Any]:
    """A kernel as a differentiable function of the arguments."""
    return partial(_run_foreign if name in _FOREIGN else _run_kernel, operation, _kernels(operation.name, name))


def _run_kernel(operation: Operation, kernels: Any, given: Any) -> Any:
    """Call a kernel, by way of autograd where gradients are wanted."""
    if wants_gradients(given[: operation.n_tensors]):
        return _Kernel.apply(operation, kernels, given._make, *given)
    return kernels.forward(given, False)[:2]


def _run_foreign(operation: Operation, adapter: Any, given: Any) -> Any:
    """Call the kernel of another package, and complete its derivatives."""
    tensors, rest = given[: operation.n_tensors], given[operation.n_tensors :]
    outputs = adapter.scan(given)
    if not wants_gradients(tensors):
        return outputs

    def plain(form: str, *values: Any) -> Any:
        return operation.plain[form](cast(given._make((*values, *rest)), values[1].dtype))

    return complete_derivatives(outputs, tensors, partial(plain, "naive"), partial(plain, "torch"), adapter.constant)


def _uncompiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that torch.compile leaves alone: kernels hold addresses of memory that it would let go of."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled yet, and the import takes longer than many fits
        return function(*arguments)
    return _uncompiled_caller()(function, *arguments)


@cache
def _uncompiled_caller() -> Callable[..., Any]:
    """Function that calls another one, which is not compiled."""
    return torch.compiler.disable(lambda function, *arguments: function(*arguments))


def wants_gradients(tensors: Sequence[Tensor | None]) -> bool:
    """Tell whether autograd is to take part: gradients are enabled, and a tensor needs them."""
    return torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in tensors)


class _Kernel(torch.autograd.Function):
    """A kernel with its own backward pass; second derivatives go through the reference."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, kernels: Any, make: Callable[..., Any], *arguments: Any) -> Any:
        """Scan, and keep the arguments and the checkpoints."""
        *outputs, checkpoints = kernels.forward(make(arguments), True)
        tensors = [value for value in arguments if isinstance(value, Tensor)]
        ctx.save_for_backward(checkpoints, *tensors)
        ctx.places = [None if isinstance(value, Tensor) else (value,) for value in arguments]
        ctx.operation, ctx.kernels, ctx.make = operation, kernels, make
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of all tensors."""
        checkpoints, *tensors = ctx.saved_tensors
        saved = iter(tensors)
        given = ctx.make([next(saved) if value is None else value[0] for value in ctx.places])
        count = ctx.operation.n_tensors
        if torch.is_grad_enabled():  # only where a second derivative will be asked for

            def plain(*values: Tensor | None) -> tuple[Tensor | None, ...]:
                return ctx.operation.plain["naive"](cast(ctx.make((*values, *given[count:])), given.dt.dtype))

            results = differentiable_gradients(plain, given[:count], grads)
        else:
            grad_y = torch.zeros_like(given.x) if grads[0] is None else grads[0].resolve_neg()
            grad_final = None if grads[1] is None else grads[1].resolve_neg()
            results = _uncompiled(ctx.kernels.backward, given, checkpoints, grad_y, grad_final)
        return (None, None, None, *results, *(None for _ in given[count:]))


@cache
def _kernels(operation: str, name: str) -> Any:
    """Module of the kernels of an operation, or the adapter to those of another package."""
    if name in _FOREIGN:
        return import_module(f"skop.ops._{name}").adapter(operation)
    return import_module(f"skop.ops.{operation}.{_KERNEL_FILES[name]}")


def _refusal(operation: Operation, name: str, given: Any) -> str | None:
    """Why a kernel does not take some arguments, or None; ours take all."""
    if name not in _FOREIGN:
        return None
    if torch.are_deterministic_algorithms_enabled():
        return f"{name} adds up gradients in no fixed order, and torch is to use deterministic algorithms"
    reason: str | None = _kernels(operation.name, name).refusal(given)
    return reason


@cache
def _problem(operation: Operation, name: str, device: torch.device, dtype: torch.dtype, gradients: bool) -> str | None:
    """Why a kernel cannot be used, or None; without gradients, its forward pass."""
    if name in _KERNEL_FILES and name not in operation.kernels:
        return f"it has no {name} kernels"
    where = _DEVICES[name]
    if device.type != where and not (name == "triton" and os.environ.get("TRITON_INTERPRET") == "1"):
        return f"the {name} kernels are for {where} tensors, and these are on {device.type}"
    if dtype not in _FOREIGN.get(name, (dtype,)):
        return f"the {name} kernels take no {dtype}"
    try:
        _kernels(operation.name, name)
    except (OptionalDependencyError, NotImplementedError) as error:
        return str(error)
    except Exception as error:  # whatever the import of compiled code may raise
        return f"the {name} kernels cannot be loaded ({error}); install what they need with: {_INSTALL[name]}"
    try:
        # In a fresh thread the caller's autocast, inference mode and transforms do not apply.
        with ThreadPoolExecutor(1) as thread:
            difference = thread.submit(_largest_difference, operation, name, device, dtype, gradients).result()
    except Exception as error:  # whatever a compiler or a driver may raise
        return f"the {name} kernel failed its self-check on {device} in {dtype} ({type(error).__name__}: {error})"
    if not difference <= _TOLERANCE[dtype]:
        return f"the {name} kernel is off by {difference:.1e} in its self-check on {device} in {dtype}"
    return None


def _largest_difference(
    operation: Operation, name: str, device: torch.device, dtype: torch.dtype, gradients: bool
) -> float:
    """Largest relative difference between a kernel and the reference, over outputs and, if wanted, gradients."""
    example = operation.example()
    if name in _FOREIGN:
        example = _kernels(operation.name, name).reduced(example)
    rounded = cast(example, torch.promote_types(dtype, torch.float32), dtype)
    there = rounded._make(value.to(device) if isinstance(value, Tensor) else value for value in rounded)
    count = operation.n_tensors if gradients else 0
    expected = _outputs_and_gradients(operation.plain["naive"], count, cast(rounded, torch.float64))
    pairs = zip(_outputs_and_gradients(_kernel(operation, name), count, there), expected, strict=True)
    differences = [(value.to("cpu", torch.float64) - true).norm() / true.norm() for value, true in pairs]
    return float(torch.stack(differences).max())  # NaN, where there is one, which Python's max would pass over


def _outputs_and_gradients(function: Callable[..., Any], n_tensors: int, given: Any) -> list[Tensor]:
    """Outputs, and gradients of the first tensors, if any, for cotangents that depend on the outputs' places."""
    leaves = [None if value is None else value.clone().requires_grad_() for value in given[:n_tensors]]
    outputs = [value for value in function(given._make((*leaves, *given[n_tensors:]))) if value is not None]
    if not leaves:
        return outputs
    weights = [torch.arange(1, value.numel() + 1, device=value.device).cos().view_as(value) for value in outputs]
    # A scalar, because torch imports a lot to check cotangents of other shapes.
    total = sum(((w * value).sum() for w, value in zip(weights, outputs, strict=True)), start=torch.zeros(()))
    grads = torch.autograd.grad(total, [leaf for leaf in leaves if leaf is not None])
    return [*(value.detach() for value in outputs), *grads]


@cache
def _warn_once(message: str) -> None:
    """Warn; what has been said is not said again."""
    warn(message, KernelWarning)
