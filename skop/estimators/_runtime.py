"""Device, precision and randomness of a fit."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["isolated_randomness", "pick_device", "pick_dtype"]


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
