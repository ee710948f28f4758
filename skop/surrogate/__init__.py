"""Surrogate: a fitted operator without its estimator, made of stages, scalers, base and network.

All names are for the other packages of skop.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.surrogate._surrogate import Surrogate as Surrogate

__all__: list[str] = []
