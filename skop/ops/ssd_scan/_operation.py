"""The SSD scan as an operation with several implementations; see `skop.ops.ssd_scan`."""

import torch

from skop.ops._dispatch import Operation
from skop.ops.ssd_scan._along_paths import path_scan_naive, path_scan_torch

__all__ = ["SSD_SCAN"]


def _example() -> tuple[object, ...]:
    """A problem of two paths with everything in it, longer than a chunk of any kernel."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    length, paths, heads, channels, states = 150, 2, 2, 18, 5
    x, dt = normal(1, length, 1, heads, channels), normal(1, length, paths, heads)
    maps = [normal(1, length, paths, states) for _ in range(2)]
    skip, start = normal(paths, heads, channels), normal(1, paths, heads, channels, states)
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(paths)]).int()
    return x, dt.exp(), -normal(paths, heads).exp(), *maps, skip, start, order


SSD_SCAN = Operation(
    "ssd_scan",
    {"naive": path_scan_naive, "torch": path_scan_torch},
    n_tensors=7,
    example=_example,
    small=2**17,
)
