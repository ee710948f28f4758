"""Differentiable scans: the computational cores of the state-space networks."""

from skop.ops._dispatch import record_backends
from skop.ops._selective import CORRECTIONS
from skop.ops.selective_scan import selective_scan
from skop.ops.selective_scan_2d import selective_scan_2d
from skop.ops.selective_scan_3d import selective_scan_3d
from skop.ops.ssd_scan import ssd_scan

__all__ = ["CORRECTIONS", "record_backends", "selective_scan", "selective_scan_2d", "selective_scan_3d", "ssd_scan"]
