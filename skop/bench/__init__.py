"""Measurements: ``python -m skop.bench``."""

__all__: list[str] = []
