"""Classical models: POD with regressors, kernels, the mean field."""

__all__: list[str] = []
