"""Surrogate: a fitted operator without its estimator, made of stages, scalers, base and network."""

import skop._openmp  # noqa: F401 - before anything that imports torch
from skop.surrogate._surrogate import Surrogate

__all__ = ["Surrogate"]
