"""Benchmarks of kernels, operators and data sets: ``python -m skop.bench``."""

__all__: list[str] = []
