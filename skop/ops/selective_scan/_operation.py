"""The selective scan as an operation with several implementations; see `skop.ops.selective_scan`."""

import torch

from skop.ops._dispatch import Operation
from skop.ops.selective_scan._naive import selective_scan_naive
from skop.ops.selective_scan._torch import selective_scan_torch

__all__ = ["SELECTIVE_SCAN"]


def _example() -> tuple[object, ...]:
    """A problem of two paths with everything in it, longer than a chunk of any kernel."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    length, paths, channels, states = 70, 2, 18, 3
    x, dt, rates = normal(1, length, 1, channels), normal(1, length, paths, channels), normal(paths, channels, states)
    maps = [normal(1, length, paths, states) for _ in range(2)]
    skip, bias = normal(paths, channels), normal(paths, channels)
    correction, start = normal(paths, channels, states), normal(1, paths, channels, states)
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(paths)]).int()
    return x, dt, -rates.exp(), *maps, skip, bias, correction, start, order, True


SELECTIVE_SCAN = Operation(
    "selective_scan",
    {"naive": selective_scan_naive, "torch": selective_scan_torch},
    n_tensors=9,
    example=_example,
    small=2**12,
)
