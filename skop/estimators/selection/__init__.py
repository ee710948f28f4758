"""The choice of a model: AutoRegressor and comparisons."""

__all__: list[str] = []
