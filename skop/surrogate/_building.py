"""Networks whose sizes come from a user or a file are tried without memory before they are built."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

__all__ = ["NetworkTooLargeError", "bounded_building", "refuse_too_large"]

#: Numbers that a training keeps for each weight: itself, its gradient, two moments of the optimiser.
_NUMBERS_A_WEIGHT = 4
#: Largest number of layers of a network.
_MOST_MODULES = 50_000
#: Functions of each number for itself, under the names that PyTorch gives them.
_POINTWISE = {
    *("__pow__", "__rdiv__", "__rpow__", "__rsub__", "add", "cos", "div", "exp", "expm1", "log", "mul", "neg", "pow"),
    *("remainder", "sin", "sqrt", "sub"),
}


class NetworkTooLargeError(ValueError):
    """A network is larger than it may be."""


class _ShapesAlone(TorchFunctionMode):
    """Tensors on the device "meta" by shapes and types: PyTorch's own ways there import its compiler, which takes long.

    What is not listed goes these ways, and so do tensors on other devices.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what a function gives."""
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if all(value.is_meta for value in args if isinstance(value, torch.Tensor)):
            with suppress(TypeError, ValueError, IndexError):
                if name in _INSTEAD:
                    return _INSTEAD[name](*args, **kwargs)
                if name in _POINTWISE and not kwargs:
                    return _pointwise(func, args)
        return func(*args, **kwargs)


def _pointwise(func: Callable[..., torch.Tensor], args: Sequence[Any]) -> torch.Tensor:
    """A pointwise function of tensors and numbers; its type is that for empty tensors with as many axes."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    empty = [
        torch.empty((0,) * value.ndim, dtype=value.dtype, device="cpu") if isinstance(value, torch.Tensor) else value
        for value in args
    ]
    return torch.empty(torch.broadcast_tensors(*tensors)[0].shape, dtype=func(*empty).dtype)


def _repeat(tensor: torch.Tensor, *times: int) -> torch.Tensor:
    """Tensor that is repeated along each axis, see `torch.Tensor.repeat`."""
    shape = (1,) * (len(times) - tensor.ndim) + tuple(tensor.shape)
    return torch.empty([count * size for count, size in zip(times, shape, strict=True)], dtype=tensor.dtype)


def _sum(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """Sum along an axis, of numbers whose sums have their type."""
    if not (tensor.dtype.is_floating_point or tensor.dtype == torch.int64):
        raise TypeError("sums of narrow numbers are wider")
    return torch.empty(tensor.select(axis, 0).shape, dtype=tensor.dtype)


#: Other functions, for the arguments that networks give them; with others they raise an error.
_INSTEAD: dict[str, Callable[..., torch.Tensor]] = {
    "arange": lambda *ends: torch.empty(len(range(*ends)), dtype=torch.int64),
    "argsort": lambda tensor: torch.empty(tensor.shape, dtype=torch.int64),
    "linspace": lambda low, high, count: torch.empty(count, dtype=(low + high + torch.empty(0, device="cpu")).dtype),
    "normal_": lambda tensor, *args, **kwargs: tensor,
    "randn": torch.rand,
    "repeat": _repeat,
    "sum": _sum,
}


@contextmanager
def bounded_building(*, weights: int, tables: int, modules: int) -> Iterator[None]:
    """Context in which networks are built without memory for their numbers, and not beyond a size.

    Parameters
    ----------
    weights, tables : int
        Largest number of weights, and of numbers in other tensors.
    modules : int
        Largest number of layers.

    Yields
    ------
    None
        The block builds a network on PyTorch's device ``"meta"``.

    Raises
    ------
    NetworkTooLargeError
        When the network becomes larger.
    """
    thread, left = threading.get_ident(), {"weights": weights, "tables": tables, "layers": modules}
    most = dict(left)

    def count(what: str, size: int) -> None:
        """Count what is added to a module of this thread."""
        if threading.get_ident() != thread:
            return
        left[what] -= size
        if left[what] < 0:
            words = "numbers in tables" if what == "tables" else what
            raise NetworkTooLargeError(f"the network has more than {most[what]} {words}")

    def count_numbers(what: str) -> Callable[..., None]:
        """Return a hook for tensors."""
        return lambda module, name, held: count(what, 0 if held is None else held.numel())

    handles = [
        hooks.register_module_parameter_registration_hook(count_numbers("weights")),
        hooks.register_module_buffer_registration_hook(count_numbers("tables")),
        hooks.register_module_module_registration_hook(lambda module, name, held: count("layers", 1)),
    ]
    try:
        with torch.device("meta"), _ShapesAlone():
            yield
    finally:
        for handle in handles:
            handle.remove()


def refuse_too_large(build: Callable[[], torch.nn.Module], item_size: int) -> None:
    """Raise an error if a network and its training need more memory than this machine has.

    Parameters
    ----------
    build : callable
        Function that builds the network.
    item_size : int
        Size of a number in bytes.

    Raises
    ------
    NetworkTooLargeError
        If it is too large; a ValueError.
    """
    most = _memory() // (item_size * _NUMBERS_A_WEIGHT)
    try:
        with bounded_building(weights=most, tables=most, modules=_MOST_MODULES):
            build()
    except NetworkTooLargeError as error:
        raise NetworkTooLargeError(
            f"the parameters describe a network that cannot be trained here: {error}; choose a smaller width, depth, "
            "or other size."
        ) from error
    except (RuntimeError, TypeError, OverflowError, MemoryError) as error:
        if isinstance(error, NotImplementedError):
            # Networks of other packages may need numbers to be built.
            return
        reason = str(error).strip().partition("\n")[0]
        raise NetworkTooLargeError(
            f"the parameters describe a network that cannot be built ({reason}); choose other sizes."
        ) from error


def _memory() -> int:
    """Memory of the machine in bytes; 64 GiB where it is not told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**36
