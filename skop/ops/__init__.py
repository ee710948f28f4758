"""Differentiable scans and rational bases: the computational cores of the state-space networks."""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.ops._dispatch import record_backends
from skop.ops._dispatch import traceable_scans as traceable_scans
from skop.ops._selective import CORRECTIONS as CORRECTIONS
from skop.ops.selective_scan import selective_scan
from skop.ops.selective_scan_2d import selective_scan_2d
from skop.ops.selective_scan_3d import selective_scan_3d
from skop.ops.ssd_scan import ssd_scan
from skop.ops.takenaka_malmquist import (
    adaptive_fourier_decomposition,
    takenaka_malmquist_basis,
    takenaka_malmquist_coefficients,
    takenaka_malmquist_synthesis,
    takenaka_malmquist_transfer_function,
)
from skop.ops.takenaka_malmquist import takenaka_malmquist_responses as takenaka_malmquist_responses

__all__ = [
    "adaptive_fourier_decomposition",
    "record_backends",
    "selective_scan",
    "selective_scan_2d",
    "selective_scan_3d",
    "ssd_scan",
    "takenaka_malmquist_basis",
    "takenaka_malmquist_coefficients",
    "takenaka_malmquist_synthesis",
    "takenaka_malmquist_transfer_function",
]
