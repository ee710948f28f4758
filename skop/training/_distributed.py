"""Processes that train one network together, each with its part of every batch (data-parallel training).

Every process ("rank") holds all samples, draws the same random numbers, and gathers the same batches. It computes the
loss and the gradients of its part of a batch, and the gradients of all are added up. What depends on the clock, on
files or on a classical model comes from rank 0.

Gradients are added by an `all_reduce`, and not by `DistributedDataParallel`: this takes the mean over processes, but
parts of different size or weight have to be added with their shares in the loss; and it cannot go on where a process
has no part of a small batch, has run out of memory, or has failed. Each exchange begins with a few numbers, in which
every process says how it is doing, so that all of them take the same decision.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from skop.exceptions import DistributedError

__all__ = ["Group", "join_group", "local_rank"]

T = TypeVar("T")

#: Environment of a process that torchrun, or another launcher, has started as one of several.
_LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
#: Variable by which processes that one of them starts, such as workers of joblib, know that they are not it.
_OWNER = "SKOP_RANK_PROCESS"
#: Seconds before the end of the process in which other threads give up the last exchange.
_LAST_EXCHANGE = 0.1
#: Process that has imported this file; a fork of it cannot use its connections.
_IMPORTED_BY = os.getpid()
#: Whether the code that runs is that of a single process, such as a fit of a base model on rank 0.
_alone: ContextVar[bool] = ContextVar("alone", default=False)

if all(name in os.environ for name in _LAUNCHED):
    os.environ.setdefault(_OWNER, str(_IMPORTED_BY))


class Group:
    """Processes that train together. This class is a single process; each method does what is left to do then.

    Attributes
    ----------
    rank, size : int
        Number of this process, and number of processes.
    """

    rank, size = 0, 1

    def __init__(self) -> None:
        self._asked: Callable[[], bool] = lambda: False

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and messages, and takes the decisions."""
        return self.rank == 0

    @property
    def is_called_off(self) -> bool:
        """Whether a process was asked to end."""
        return self._asked()

    def listen(self, asked: Callable[[], bool]) -> None:
        """Set the function that tells whether this process was asked to end."""
        self._asked = asked

    def time(self) -> float:
        """Clock of rank 0 in seconds, as it was when the processes last met."""
        return time.perf_counter()

    def once(self, compute: Callable[[], T]) -> T:
        """Return what a function returns on rank 0, on all ranks."""
        return compute()

    def generator(self, rng: np.random.RandomState) -> np.random.RandomState:
        """Return a random number generator that draws the same on all ranks."""
        return rng

    def add_up(self, weights: list[torch.Tensor], loss: torch.Tensor | None) -> torch.Tensor | None:
        """Add up losses and gradients over all ranks.

        Parameters
        ----------
        weights : list of Tensor
            Parameters, whose gradients are replaced by their sums.
        loss : Tensor of shape () or None
            Loss on the part of this process; None if its memory was too small.

        Returns
        -------
        Tensor of shape () or None
            Sum of the losses; None if the memory of any process was too small.
        """
        return loss

    def make_alike(self, network: torch.nn.Module) -> None:
        """Give all ranks the weights and buffers of rank 0."""

    def draw_alike(self, network: torch.nn.Module) -> None:
        """Give torch's random number generators of all ranks the states of those of rank 0."""

    def require_same(self, described: Callable[[], Mapping[str, str]]) -> None:
        """Raise an error on all ranks if checksums by name differ between them."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Context of all that the processes do together: where one of them fails, the others learn of it."""
        yield

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Context in which an interrupt of one process is raised on all of them, when they meet."""
        yield


class _Processes(Group):
    """Several processes, connected by torch's default process group."""

    def __init__(self) -> None:
        super().__init__()
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # Such as "cpu:gloo,cuda:nccl".
        self.kinds = [pair.partition(":")[0] for pair in str(dist.get_backend_config()).split(",")]
        self.device = torch.device("cpu") if "cpu" in self.kinds else torch.device("cuda", torch.cuda.current_device())
        self.now, self.is_interrupted, self.leaves, self.is_lost = 0.0, False, False, False

    @property
    def is_called_off(self) -> bool:
        return self.leaves

    def time(self) -> float:
        return self.now

    def once(self, compute: Callable[[], T]) -> T:
        content = b""
        if self.is_main:
            token = _alone.set(True)
            try:
                value = compute()
            finally:
                _alone.reset(token)
            content = pickle.dumps(value)
        self._meet(f"result of {getattr(compute, '__qualname__', 'a function')}")
        sent = self._broadcast(content)
        # What one process of this program has written, another one reads.
        return value if self.is_main else pickle.loads(sent)

    def generator(self, rng: np.random.RandomState) -> np.random.RandomState:
        return np.random.RandomState(self.once(lambda: int(rng.randint(2**31 - 1))))

    @torch.no_grad()
    def add_up(self, weights: list[torch.Tensor], loss: torch.Tensor | None) -> torch.Tensor | None:
        there = bytes(loss is not None and weight.grad is not None for weight in weights)
        is_short, differ = self._meet("step", is_short=loss is None, code=zlib.crc32(there))
        if is_short or loss is None:
            return None
        if differ:
            # A parameter that another process has used gets a gradient of zero here.
            used = torch.tensor(list(there), dtype=torch.uint8, device=self.device)
            self._call(dist.all_reduce, used, op=dist.ReduceOp.MAX)
            there = bytes(used.tolist())
        total = loss.detach().clone().reshape(1)
        alike: dict[torch.dtype, list[torch.Tensor]] = {total.dtype: [total]}
        for weight, is_used in zip(weights, there, strict=True):
            if not is_used:
                continue
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            held = torch.view_as_real(weight.grad) if weight.grad.is_complex() else weight.grad
            alike.setdefault(held.dtype, []).append(held)
        for tensors in alike.values():
            flat = torch.cat([held.reshape(-1) for held in tensors])
            flat = self._summed(flat)
            for held, part in zip(tensors, flat.split([held.numel() for held in tensors]), strict=True):
                held.copy_(part.view_as(held))
        return total[0]

    def make_alike(self, network: torch.nn.Module) -> None:
        held = self.once(lambda: {name: value.detach().cpu() for name, value in network.state_dict().items()})
        if not self.is_main:
            network.load_state_dict(held)

    def draw_alike(self, network: torch.nn.Module) -> None:
        device = next((held.device for held in network.parameters()), torch.device("cpu"))
        on_gpu = device.type == "cuda"
        random, of_gpu = self.once(
            lambda: (torch.get_rng_state(), torch.cuda.get_rng_state(device) if on_gpu else None)
        )
        torch.set_rng_state(random)
        if of_gpu is not None:
            torch.cuda.set_rng_state(of_gpu, device)

    def require_same(self, described: Callable[[], Mapping[str, str]]) -> None:
        own = dict(described())
        self._meet("comparison")
        found = self._gathered(own)
        others = {
            number: [name for name in {**found[0], **other} if found[0].get(name) != other.get(name)]
            for number, other in enumerate(found)
        }
        words = [f"rank {number} has another {' and '.join(names)}" for number, names in others.items() if names]
        if words:
            raise DistributedError(
                f"the {self.size} processes cannot train together, since {'; '.join(words)} than rank 0. Give each "
                "process all samples, in the same order, and the same parameters with the same random_state (an "
                "integer); the samples of each batch are shared out in the fit. For a fit of each process by itself, "
                "set training__distributed=False."
            )

    @contextmanager
    def together(self) -> Iterator[None]:
        try:
            yield
            self._meet("end")
        except DistributedError:
            # The others know, or cannot be reached.
            raise
        except BaseException as error:
            self._tell(error)
            raise

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def note(*_: Any) -> None:
            """Note an interrupt; a second one is raised at once, should the processes not meet any more."""
            if self.is_interrupted:
                raise KeyboardInterrupt
            self.is_interrupted = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    # ------------------------------------------------------------------ exchange
    def _meet(self, place: str, *, failure: str = "", is_short: bool = False, code: int = 0) -> tuple[bool, bool]:
        """Wait for all ranks at a place; return whether any is short of memory, and whether their codes differ."""
        # Raises DistributedError if another process has failed, has ended or is at another place, and KeyboardInterrupt
        # if one was interrupted.
        own, clock = zlib.crc32(place.encode()), time.perf_counter() if self.is_main else -np.inf
        state = [clock, bool(failure), is_short, self._asked(), self.is_interrupted, own, -own, code, -code]
        told = torch.tensor(state, dtype=torch.float64, device=self.device)
        self._call(dist.all_reduce, told, op=dist.ReduceOp.MAX)
        clock, has_failed, any_short, leaves, is_interrupted, high, low, code_high, code_low = told.tolist()
        self.now, self.leaves = clock, bool(leaves)
        if has_failed:
            found = self._gathered(failure)
            words = [f"rank {number} of {self.size} has failed: {text}" for number, text in enumerate(found) if text]
            if failure:
                return False, False
            raise DistributedError(f"{'; '.join(words).rstrip('.')}. This process ends the fit too.")
        if high != -low:
            places = ", ".join(f"rank {number} at {at!r}" for number, at in enumerate(self._gathered(place)))
            raise DistributedError(
                f"the processes are at different places of their fits ({places}). All of them have to call the same "
                "fits in the same order; for a fit of one process alone, set training__distributed=False."
            )
        if is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt("a process of the training was interrupted")
        return bool(any_short), code_high != -code_low

    def _tell(self, error: BaseException) -> None:
        """Tell the others that this process has failed; they have raised an error already if they cannot be reached."""
        if self.is_lost:
            return
        reason = (str(error).strip().splitlines() or [""])[0]
        try:
            self._meet("failure", failure=f"{type(error).__name__}: {reason}")
        except DistributedError:
            return

    def _call(self, collective: Callable[..., Any], *tensors: Any, **options: Any) -> None:
        """Run an exchange of torch; a connection that is lost is an error with words."""
        try:
            collective(*tensors, **options)
        except RuntimeError as error:
            self.is_lost = True
            reason = str(error).strip().partition(". ")[0] or type(error).__name__
            raise DistributedError(
                f"rank {self.rank} of {self.size} cannot reach the other processes of the training any more: one of "
                f"them has ended, or was killed ({reason[:300]}). See its own messages, and start all of them again; "
                "with checkpoint_dir a fit goes on from its last checkpoint."
            ) from error

    def _summed(self, flat: torch.Tensor) -> torch.Tensor:
        """Sum of a tensor over all ranks, computed where their connection works."""
        sent = flat if flat.device.type in self.kinds else flat.to(self.device)
        self._call(dist.all_reduce, sent)
        return sent.to(flat.device)

    def _gathered(self, value: T) -> list[T]:
        """What each rank has passed."""
        found: list[Any] = [None] * self.size
        self._call(dist.all_gather_object, found, value)
        return found

    def _broadcast(self, content: bytes) -> bytes:
        """Bytes of rank 0."""
        size = torch.tensor([len(content)], device=self.device)
        self._call(dist.broadcast, size, src=0)
        if self.is_main:
            held = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(self.device)
        else:
            held = torch.empty(int(size), dtype=torch.uint8, device=self.device)
        self._call(dist.broadcast, held, src=0)
        return content if self.is_main else held.cpu().numpy().tobytes()


# ---------------------------------------------------------------------- which processes there are
def join_group(distributed: Literal["auto"] | bool = "auto") -> Group:
    """Return the processes that take part in the fits of this one.

    Parameters
    ----------
    distributed : {"auto", False}, default="auto"
        ``"auto"``: those of torch's default process group, which is made if a launcher such as torchrun has started
        this process; a single one without either, in other threads than the main one, and in processes that one of them
        has started, such as the workers of joblib. False: a single one.

    Returns
    -------
    Group
        The processes.

    Raises
    ------
    DistributedError
        If the other processes cannot be reached.

    Examples
    --------
    >>> from skop.training import join_group
    >>> join_group().size
    1
    """
    is_own = os.getpid() == _IMPORTED_BY and threading.current_thread() is threading.main_thread()
    if distributed is False or _alone.get() or not is_own or not dist.is_available():
        return Group()
    if not dist.is_initialized():
        if not _is_launched():
            return Group()
        _connect()
    return _Processes() if dist.get_world_size() > 1 else Group()


def local_rank() -> int | None:
    """Return the number of this process on its machine, by which it takes a GPU; None if there is only one process.

    Examples
    --------
    >>> from skop.training import local_rank
    >>> local_rank() is None
    True
    """
    rank = os.environ.get("LOCAL_RANK", "")
    return int(rank) if rank.isdigit() and os.environ.get("WORLD_SIZE", "1") != "1" else None


def _is_launched() -> bool:
    """Whether a launcher has started this process as one of several."""
    is_told = os.environ.keys() >= set(_LAUNCHED) and os.environ["WORLD_SIZE"] != "1"
    is_owner = os.environ.get(_OWNER, str(os.getpid())) == str(os.getpid())
    return is_told and is_owner and multiprocessing.parent_process() is None


def _connect() -> None:
    """Make torch's default process group from the environment; it is destroyed at the end of the process."""
    backend = "gloo"
    if torch.cuda.is_available() and dist.is_nccl_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device((local_rank() or 0) % torch.cuda.device_count())
    try:
        dist.init_process_group(backend)
    except (RuntimeError, ValueError) as error:
        where = ", ".join(f"{name}={os.environ[name]}" for name in _LAUNCHED)
        raise DistributedError(
            f"the processes of the training cannot be connected with {where} ({error}). Start them by torchrun, or set "
            "training__distributed=False."
        ) from error
    atexit.register(_disconnect, os.getpid())


def _disconnect(process: int) -> None:
    """Destroy the process group, in the process that has made it."""
    if os.getpid() == process and dist.is_initialized():
        dist.destroy_process_group()
        # A thread of gloo takes Python's lock to give up the tensors of the last exchange. It has to have it before
        # Python ends: a thread that asks for it later aborts the process (torch 2.13).
        time.sleep(_LAST_EXCHANGE)
