"""The 3-D selective scan as an operation with several implementations; see `skop.ops.selective_scan_3d`."""

from skop.ops._dispatch import Operation
from skop.ops.selective_scan_2d._operation import SELECTIVE_SCAN_2D

__all__ = ["SELECTIVE_SCAN_3D"]


def _example() -> tuple[object, ...]:
    """The problem of the 2-D scan, each of its rows folded into a plane."""
    x, dt, A, B, C, *weights, _, softplus = SELECTIVE_SCAN_2D.example()
    x, dt, B, C = (values.unflatten(2, (7, 7)) for values in (x, dt, B, C))
    return x, dt, A, B, C, *weights, ((3, 2, 1), (-1, -3, -2)), softplus


# The plain forms of the 2-D scan take grids of any number of axes.
SELECTIVE_SCAN_3D = Operation("selective_scan_3d", SELECTIVE_SCAN_2D.plain, n_tensors=8, example=_example, kernels=())
