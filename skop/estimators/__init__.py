"""The estimators."""

from skop.estimators._baselines import PODRegressor
from skop.estimators._ensemble import EnsembleRegressor
from skop.estimators._lamo import LaMORegressor
from skop.estimators._load import load

__all__ = ["EnsembleRegressor", "LaMORegressor", "PODRegressor", "load"]
