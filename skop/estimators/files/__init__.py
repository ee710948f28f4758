"""Model files, and the checks of what comes out of them."""

__all__: list[str] = []
