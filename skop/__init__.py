"""scikit-learn estimators around state-space neural operators."""

from skop.data import FieldSet
from skop.estimators import (
    EnsembleRegressor,
    GeoMaNORegressor,
    LaMORegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
    load,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "EnsembleRegressor",
    "FieldSet",
    "GeoMaNORegressor",
    "LaMORegressor",
    "PODRegressor",
    "RolloutRegressor",
    "TimeConditionedRegressor",
    "__version__",
    "load",
]
