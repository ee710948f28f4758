"""The 2-D selective scan as an operation with several implementations; see `skop.ops.selective_scan_2d`."""

import torch

from skop.ops._dispatch import Operation
from skop.ops.selective_scan_2d._naive import selective_scan_2d_naive
from skop.ops.selective_scan_2d._torch import selective_scan_2d_torch

__all__ = ["SELECTIVE_SCAN_2D"]


def _example() -> tuple[object, ...]:
    """A problem of two directions with everything in it, on a grid larger than a chunk of any kernel."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    grid, channels, states = (1, 23, 49), 18, 3
    x, dt, rates = normal(*grid, channels), normal(*grid, 2, channels), normal(2, channels, states)
    maps = [normal(*grid, 2, states) for _ in range(2)]
    skip, bias, correction = normal(2, channels), normal(2, channels), normal(2, channels, states)
    return x, dt, -rates.exp(), *maps, skip, bias, correction, ((2, 1), (-1, -2)), True


SELECTIVE_SCAN_2D = Operation(
    "selective_scan_2d",
    {"naive": selective_scan_2d_naive, "torch": selective_scan_2d_torch},
    n_tensors=8,
    example=_example,
    small=2**12,
)
