"""Benchmarks of kernels, operators and data sets: ``python -m benchmarks``."""

import skop._threads  # noqa: F401 - before anything that imports torch

__all__: list[str] = []
