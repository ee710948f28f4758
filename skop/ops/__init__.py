"""Differentiable scans: the computational cores of the state-space networks."""

from skop.ops.ssd_path_scan import ssd_path_scan
from skop.ops.ssd_scan import ssd_scan

__all__ = ["ssd_path_scan", "ssd_scan"]
