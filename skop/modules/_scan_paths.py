"""Orders in which a scan visits the tokens of a grid."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import torch

from skop._typing import GridShape

__all__ = ["SCANS", "scan_paths"]

#: Names of the sets of paths.
SCANS = ("unidirectional", "bidirectional", "multidirectional", "corner")


def scan_paths(grid_shape: Sequence[int], scan: str, device: torch.device | None = None) -> torch.Tensor:
    """Return the paths of a named scan over a token grid.

    Parameters
    ----------
    grid_shape : sequence of int
        Tokens along each axis, 1 to 3 axes.
    scan : {"unidirectional", "bidirectional", "multidirectional", "corner"}
        ``"unidirectional"``: C order. ``"bidirectional"``: C order and its reverse.
        ``"multidirectional"``: each axis in turn runs fastest, and the reverse of each: 2, 4 or 6
        paths in 1, 2 or 3 dimensions; in 2-D these are the row and column scans of LaMO's public
        code. ``"corner"``: C order from each pair of opposite corners that the flips of the last
        axis give, which is how the paper's Remark 3.2 words its four paths.
    device : torch.device or None, default=None
        Where the result goes.

    Returns
    -------
    Tensor of shape (n_paths, prod(grid_shape)), int64
        Row k lists the tokens, numbered in C order, as path k visits them.

    References
    ----------
    Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025, Remark 3.2.

    Examples
    --------
    >>> from skop.modules import scan_paths
    >>> scan_paths((2, 2), "multidirectional").tolist()
    [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [3, 1, 2, 0]]
    """
    return _paths(tuple(grid_shape), scan, torch.device(device or "cpu"))


@lru_cache(maxsize=256)
def _paths(grid_shape: GridShape, scan: str, device: torch.device) -> torch.Tensor:
    """Paths of a grid, kept on their device because every batch asks for them."""
    # What is made in inference mode could not take part in a later training.
    with torch.inference_mode(False):
        index = torch.arange(prod(grid_shape)).reshape(grid_shape)
        rows = [order.reshape(-1) for order in _orders(index, scan)]
        if scan == "unidirectional":
            return torch.stack(rows).to(device)
        return torch.stack([path for row in rows for path in (row, row.flip(0))]).to(device)


def _orders(index: torch.Tensor, scan: str) -> list[torch.Tensor]:
    """Token numbers of a grid, arranged so that C order is the order of a path."""
    if scan in ("unidirectional", "bidirectional"):
        return [index]
    axes = range(index.ndim)
    if scan == "multidirectional":
        # Rotating the axes makes each of them the fastest one once.
        return [index.permute(*((axis - turn) % index.ndim for axis in axes)) for turn in axes]
    if scan == "corner":
        return [index] if index.ndim == 1 else [index, index.flip(-1)]
    raise ValueError(f"scan is {scan!r}; expected one of {SCANS}.")
