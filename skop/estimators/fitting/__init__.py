"""A fit of an operator: its session, the base, monitors, checkpoints, and what it costs."""

__all__: list[str] = []
