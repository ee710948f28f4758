"""The estimators, and `OperatorRegressor`, the base class for further operators."""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.estimators._law import LawRegressor
from skop.estimators._options import SymmetryOptions
from skop.estimators._parts import predict_in_parts
from skop.estimators.classical._mean_field import MeanFieldRegressor
from skop.estimators.classical._pod import PODRegressor
from skop.estimators.files._persistence import load, save
from skop.estimators.fitting._cost import CostEstimate as CostEstimate
from skop.estimators.operators._amo import AMORegressor
from skop.estimators.operators._deeponet import DeepONetRegressor
from skop.estimators.operators._fno import FNORegressor
from skop.estimators.operators._geomano import GeoMaNORegressor
from skop.estimators.operators._lamo import LaMORegressor
from skop.estimators.operators._mno import MNORegressor
from skop.estimators.operators._operator import OperatorRegressor
from skop.estimators.operators._transolver import TransolverRegressor
from skop.estimators.operators._unet import UNetRegressor
from skop.estimators.selection._auto import AutoRegressor, leaderboard
from skop.estimators.temporal._rollout import RolloutRegressor
from skop.estimators.temporal._time_conditioned import TimeConditionedRegressor
from skop.estimators.uncertainty._conformal import ConformalRegressor
from skop.estimators.uncertainty._ensemble import EnsembleRegressor
from skop.estimators.uncertainty._suggest import suggest
from skop.training import TrainingOptions

__all__ = [
    "AMORegressor",
    "AutoRegressor",
    "ConformalRegressor",
    "DeepONetRegressor",
    "EnsembleRegressor",
    "FNORegressor",
    "GeoMaNORegressor",
    "LaMORegressor",
    "LawRegressor",
    "MNORegressor",
    "MeanFieldRegressor",
    "OperatorRegressor",
    "PODRegressor",
    "RolloutRegressor",
    "SymmetryOptions",
    "TimeConditionedRegressor",
    "TrainingOptions",
    "TransolverRegressor",
    "UNetRegressor",
    "leaderboard",
    "load",
    "predict_in_parts",
    "save",
    "suggest",
]
