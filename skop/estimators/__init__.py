"""The estimators."""

from skop.estimators._lamo import LaMORegressor

__all__ = ["LaMORegressor"]
