"""Data in time: rollouts, and time as a parameter."""

__all__: list[str] = []
