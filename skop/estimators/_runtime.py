"""Device, precision, threads and randomness of a fit."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["isolated_randomness", "pick_device", "pick_dtype", "thread_limit"]

#: Numbers of a layer's output that keep a thread busy for long enough to be worth waking it.
_NUMBERS_A_THREAD = 2**19

_lock = threading.Lock()
_depth = threading.local()
_n_limits = 0
_usual_threads = 1


def pick_device(name: str) -> torch.device:
    """Return the device of a name.

    Parameters
    ----------
    name : str
        ``"auto"`` is CUDA where there is one and the CPU otherwise; anything else is a torch device.

    Returns
    -------
    torch.device
        Where to compute.

    Raises
    ------
    ValueError
        If torch does not know the name, or the device is not there.

    Examples
    --------
    >>> from skop.estimators._runtime import pick_device
    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device {name!r} is unknown to torch; use 'auto', 'cpu' or 'cuda'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name!r} was asked for, but torch sees no CUDA device; use device='auto' or 'cpu'.")
    return device


def pick_dtype(name: str, role: str) -> str:
    """Return the precision of a fit: a plain feature table is computed in float64, as scikit-learn does.

    Parameters
    ----------
    name : {"auto", "float32", "float64"}
        What was asked for.
    role : str
        What X means.

    Returns
    -------
    str
        ``"float32"`` or ``"float64"``.

    Examples
    --------
    >>> from skop.estimators._runtime import pick_dtype
    >>> pick_dtype("auto", "features"), pick_dtype("auto", "fields")
    ('float64', 'float32')
    """
    if name != "auto":
        return name
    return "float64" if role == "features" else "float32"


@contextmanager
def isolated_randomness(rng: np.random.RandomState, device: torch.device, deterministic: bool) -> Iterator[None]:
    """Seed torch from `rng` within the block and leave its global state as it was.

    Parameters
    ----------
    rng : numpy.random.RandomState
        Source of the seed.
    device : torch.device
        Device whose generator is guarded beside the CPU's.
    deterministic : bool
        Ask torch for deterministic algorithms within the block.

    Yields
    ------
    None
        The block runs.
    """
    devices = [device] if device.type == "cuda" else []
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(rng.randint(2**31)))
        try:
            if deterministic:
                torch.use_deterministic_algorithms(True)
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warn_only)


@contextmanager
def thread_limit(n_points: int, width: int) -> Iterator[int]:
    """Let torch use as many CPU threads within the block as a problem of this size keeps busy.

    Small operations gain little from several threads, and are much slower where another program takes one of
    the cores: the threads wait for each other after every operation. One thread is used for each 2**19 numbers that a
    layer gives, at least one, and never more than torch was set to by `torch.set_num_threads` or ``OMP_NUM_THREADS``.
    The number depends on the problem alone and not on what else is running, since the last bits of torch's sums
    depend on it.

    Parameters
    ----------
    n_points : int
        Points of a batch, over all its samples.
    width : int
        Channels of a layer.

    Yields
    ------
    int
        Threads within the block; afterwards torch has as many as before.

    Examples
    --------
    >>> from skop.estimators._runtime import thread_limit
    >>> with thread_limit(8 * 16 * 16, 64) as n_threads:
    ...     n_threads
    1
    """
    global _n_limits, _usual_threads
    with _lock:
        # Threads that begin while another one's limit holds would take that for the user's number.
        if _n_limits == 0:
            _usual_threads = torch.get_num_threads()
        _n_limits += 1
        usual = _usual_threads
    depth = getattr(_depth, "value", 0)
    before = torch.get_num_threads() if depth else usual
    n_threads = max(1, min(usual, n_points * width // _NUMBERS_A_THREAD))
    _depth.value = depth + 1
    torch.set_num_threads(n_threads)
    try:
        yield n_threads
    finally:
        _depth.value = depth
        torch.set_num_threads(before)
        with _lock:
            _n_limits -= 1
