"""Spread, bands, and the next simulations."""

__all__: list[str] = []
