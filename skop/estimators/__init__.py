"""The estimators."""

from skop.estimators._baselines import PODRegressor
from skop.estimators._ensemble import EnsembleRegressor
from skop.estimators._geomano import GeoMaNORegressor
from skop.estimators._lamo import LaMORegressor
from skop.estimators._load import load
from skop.estimators._rollout import RolloutRegressor
from skop.estimators._time_conditioned import TimeConditionedRegressor

__all__ = [
    "EnsembleRegressor",
    "GeoMaNORegressor",
    "LaMORegressor",
    "PODRegressor",
    "RolloutRegressor",
    "TimeConditionedRegressor",
    "load",
]
