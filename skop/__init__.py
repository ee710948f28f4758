"""scikit-learn estimators around state-space neural operators."""

import skop._openmp  # noqa: F401 - before anything that imports torch
from skop._version import __version__
from skop.data import FieldSet, ScalingOptions
from skop.estimators import (
    AMOArchitecture,
    AMORegressor,
    EnsembleRegressor,
    GeoMaNOArchitecture,
    GeoMaNORegressor,
    LaMOArchitecture,
    LaMORegressor,
    MNOArchitecture,
    MNORegressor,
    OperatorRegressor,
    PODRegressor,
    RolloutRegressor,
    SymmetryOptions,
    TimeConditionedRegressor,
    TrainingOptions,
    load,
    save,
)

__all__ = [
    "AMOArchitecture",
    "AMORegressor",
    "EnsembleRegressor",
    "FieldSet",
    "GeoMaNOArchitecture",
    "GeoMaNORegressor",
    "LaMOArchitecture",
    "LaMORegressor",
    "MNOArchitecture",
    "MNORegressor",
    "OperatorRegressor",
    "PODRegressor",
    "RolloutRegressor",
    "ScalingOptions",
    "SymmetryOptions",
    "TimeConditionedRegressor",
    "TrainingOptions",
    "__version__",
    "load",
    "save",
]
