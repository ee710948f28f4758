"""Device, precision, threading and random numbers of a fit."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from skop._threads import considerate_waiting
from skop.training import local_rank

__all__ = ["converted", "give_way", "isolated_randomness", "pick_device", "pick_dtype", "thread_limit"]

#: Size of a layer's output per thread above which another thread saves more time than its synchronisation costs.
_NUMBERS_A_THREAD = 2**19

T = TypeVar("T", bound=torch.nn.Module)

_lock = threading.Lock()
#: The user's number of threads, in threads that are within a limit.
_users = threading.local()


def pick_device(name: str) -> torch.device:
    """Return the PyTorch device of this name; ``"auto"`` is CUDA if available, else the CPU.

    Each process of torchrun takes the GPU with its number.
    """
    if name == "auto":
        if local_rank() is None or not torch.cuda.is_available():
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        name = "cuda"
    rank = local_rank()
    if name == "cuda" and rank is not None and torch.cuda.is_available():
        if rank >= (count := torch.cuda.device_count()):
            raise ValueError(
                f"process {rank} of this machine has no GPU of its own, since torch sees {count}; start as many "
                "processes as there are GPUs, or set device='cpu'."
            )
        name = f"cuda:{rank}"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device {name!r} is unknown to torch; use 'auto', 'cpu' or 'cuda'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name!r} was asked for, but torch sees no CUDA device; use device='auto' or 'cpu'.")
    if device.type == "meta":
        raise ValueError("device 'meta' holds no numbers to compute with; use device='auto' or 'cpu'.")
    if device.type != "cpu":
        try:
            torch.zeros(1, device=device)
        except Exception as error:  # each kind of device has errors of its own where it is missing
            raise ValueError(f"device {name!r} is not available here ({error}); use device='auto' or 'cpu'.") from error
    return device


def pick_dtype(name: str, role: str) -> str:
    """Return the precision of a fit; with ``"auto"``, float64 for tables of plain features, as in scikit-learn."""
    if name != "auto":
        return name
    return "float64" if role == "features" else "float32"


class _Turns:
    """A lock that a thread may take several times, and whose waiters go in the order in which they came."""

    def __init__(self) -> None:
        self.condition, self.waiting = threading.Condition(), deque[object]()
        self.owner: int | None = None
        self.depth = 0

    def take(self) -> None:
        """Wait for the turn of this thread."""
        me, ticket = threading.get_ident(), object()
        with self.condition:
            if self.owner != me:
                self.waiting.append(ticket)
                try:
                    self.condition.wait_for(lambda: self.owner is None and self.waiting[0] is ticket)
                finally:
                    self.waiting.remove(ticket)
                    self.condition.notify_all()
                self.owner = me
            self.depth += 1

    def is_mine_once(self) -> bool:
        """Whether this thread has the turn, and has taken it once."""
        return self.owner == threading.get_ident() and self.depth == 1

    def give(self) -> None:
        """End the turn of this thread, if it was taken once."""
        with self.condition:
            self.depth -= 1
            if self.depth == 0:
                self.owner = None
                self.condition.notify_all()


_turns = _Turns()


def _forget_threads() -> None:
    """Start anew in a forked process, where the threads that had or wanted a turn or computed for torch do not exist.

    OpenMP would wait for its threads for ever, in the first large operation.
    """
    global _turns, _lock, _users
    _turns, _lock, _users = _Turns(), threading.Lock(), threading.local()
    _outside.clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@dataclass
class _TorchState:
    """What a fit changes of torch for the whole process."""

    generators: list[tuple[torch.device, torch.Tensor]]
    deterministic: bool
    warn_only: bool

    @property
    def devices(self) -> list[torch.device]:
        """Devices beside the CPU."""
        return [device for device, _ in self.generators[1:]]

    @classmethod
    def read(cls, devices: list[torch.device]) -> _TorchState:
        """The state as it is."""
        generators = [(torch.device("cpu"), torch.get_rng_state())]
        generators += [(device, torch.cuda.get_rng_state(device)) for device in devices]
        return cls(generators, *_determinism())

    def write(self) -> None:
        """Make it the state again."""
        for device, state in self.generators:
            if device.type == "cuda":
                torch.cuda.set_rng_state(state, device)
            else:
                torch.set_rng_state(state)
        # Even to set what is set already imports PyTorch's compiler, which takes longer than a small fit.
        if (self.deterministic, self.warn_only) != _determinism():
            torch.use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)


def _determinism() -> tuple[bool, bool]:
    """Whether torch is to use deterministic algorithms, and whether it only warns where it has none."""
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


#: States outside of the blocks of the thread whose turn it is, the innermost block last.
_outside: list[_TorchState] = []


@contextmanager
def isolated_randomness(rng: np.random.RandomState, device: torch.device, deterministic: bool) -> Iterator[None]:
    """Context in which PyTorch is seeded from `rng`; its global random state is restored afterwards.

    Torch draws initial weights and dropout from generators of the process, so that fits in several threads take
    turns: a block waits until no other thread is in one, or until that gives way.
    """
    devices = [device] if device.type == "cuda" else []
    _turns.take()
    _outside.append(_TorchState.read(devices))
    try:
        torch.manual_seed(int(rng.randint(2**31)))
        if deterministic:
            torch.use_deterministic_algorithms(True)
        yield
    finally:
        _outside.pop().write()
        _turns.give()


@contextmanager
def give_way() -> Iterator[None]:
    """Let other threads have their turn of `isolated_randomness`, with torch's state as it is outside of it.

    The block may fit estimators itself or wait for threads that do. Within blocks in each other, and outside of them,
    nothing changes.
    """
    if not _turns.is_mine_once():
        yield
        return
    inside = _TorchState.read(_outside[-1].devices)
    _outside.pop().write()
    _turns.give()
    try:
        yield
    finally:
        _turns.take()
        _outside.append(_TorchState.read(inside.devices))
        inside.write()


def converted(network: T, device: torch.device | None, dtype: torch.dtype) -> T:
    """Bring a network to a device and a precision: its complex numbers too, which ``network.to`` would make real."""

    def convert(held: torch.Tensor) -> torch.Tensor:
        """A weight or buffer there."""
        kind = dtype.to_complex() if held.is_complex() else dtype if held.is_floating_point() else None
        return held.to(device, kind)

    return network._apply(convert)


@contextmanager
def thread_limit(n_points: int, width: int) -> Iterator[int]:
    """Context in which PyTorch uses a number of CPU threads that suits the size of the problem (multithreading).

    Small operations gain little from several threads. If another program uses one of the cores they even become much
    slower, because the threads wait for each other after every operation. One thread is used for each 2**19 numbers of
    a layer's output on all points of a batch, but at least one, and never more than set by `torch.set_num_threads` or
    ``OMP_NUM_THREADS``. The number of threads depends on the problem only and not on the load of the machine, because
    the last bits of sums depend on it. Other Python threads keep theirs.
    """
    before, process = torch.get_num_threads(), os.getpid()
    outer = getattr(_users, "threads", None)
    usual = before if outer is None else outer
    n_threads = max(1, min(usual, n_points * width // _NUMBERS_A_THREAD))
    _users.threads = usual
    _set_threads_here(n_threads)
    try:
        with considerate_waiting(n_threads):
            yield n_threads
    finally:
        _users.threads = outer
        # A number that was set within the block, as by a callback, is the user's; a fork within it leaves one thread.
        if torch.get_num_threads() == n_threads and os.getpid() == process:
            _set_threads_here(before)


def _set_threads_here(count: int) -> None:
    """Set torch's number of threads for this thread alone."""
    if torch.get_num_threads() == count:
        return
    read, done = threading.Event(), threading.Event()

    def keep() -> None:
        """Keep the number that new threads start with, which torch.set_num_threads changes too."""
        usual = torch.get_num_threads()
        read.set()
        done.wait()
        torch.set_num_threads(usual)

    keeper = threading.Thread(target=keep, daemon=True)
    with _lock:
        keeper.start()
        read.wait()
        try:
            torch.set_num_threads(count)
        finally:
            done.set()
            keeper.join()
