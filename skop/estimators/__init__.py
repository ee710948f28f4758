"""The estimators, and `OperatorRegressor`, the base class for further operators."""

import skop._openmp  # noqa: F401 - before anything that imports torch
from skop.estimators._amo import AMOArchitecture, AMORegressor
from skop.estimators._auto import AutoRegressor, compare
from skop.estimators._base import OperatorRegressor
from skop.estimators._baselines import PODRegressor
from skop.estimators._conformal import ConformalRegressor
from skop.estimators._cost import CostEstimate
from skop.estimators._deeponet import DeepONetRegressor
from skop.estimators._ensemble import EnsembleRegressor
from skop.estimators._fno import FNORegressor
from skop.estimators._geomano import GeoMaNOArchitecture, GeoMaNORegressor
from skop.estimators._lamo import LaMOArchitecture, LaMORegressor
from skop.estimators._law import LawRegressor
from skop.estimators._mean_field import MeanFieldRegressor
from skop.estimators._mno import MNOArchitecture, MNORegressor
from skop.estimators._novelty import Novelty
from skop.estimators._options import SymmetryOptions, TrainingOptions
from skop.estimators._parts import predict_in_parts
from skop.estimators._persistence import load, save
from skop.estimators._rollout import RolloutRegressor
from skop.estimators._suggest import suggest
from skop.estimators._time_conditioned import TimeConditionedRegressor
from skop.estimators._transolver import TransolverRegressor
from skop.estimators._unet import UNetRegressor

__all__ = [
    "AMOArchitecture",
    "AMORegressor",
    "AutoRegressor",
    "ConformalRegressor",
    "CostEstimate",
    "DeepONetRegressor",
    "EnsembleRegressor",
    "FNORegressor",
    "GeoMaNOArchitecture",
    "GeoMaNORegressor",
    "LaMOArchitecture",
    "LaMORegressor",
    "LawRegressor",
    "MNOArchitecture",
    "MNORegressor",
    "MeanFieldRegressor",
    "Novelty",
    "OperatorRegressor",
    "PODRegressor",
    "RolloutRegressor",
    "SymmetryOptions",
    "TimeConditionedRegressor",
    "TrainingOptions",
    "TransolverRegressor",
    "UNetRegressor",
    "compare",
    "load",
    "predict_in_parts",
    "save",
    "suggest",
]
