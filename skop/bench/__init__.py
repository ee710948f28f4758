"""Benchmarks of kernels, operators and data sets: ``python -m skop.bench``."""

import skop._openmp  # noqa: F401 - before anything that imports torch

__all__: list[str] = []
