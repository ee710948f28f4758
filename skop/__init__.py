"""scikit-learn estimators around state-space neural operators.

Packages such as `skop.data` and the public names are imported when they are first used, so that ``import skop`` alone
imports neither torch nor scikit-learn.
"""

import gc
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skop._version import __version__

if TYPE_CHECKING:
    from skop import data as data
    from skop import datasets as datasets
    from skop import estimators as estimators
    from skop import exceptions as exceptions
    from skop import inspection as inspection
    from skop import losses as losses
    from skop import metrics as metrics
    from skop import modules as modules
    from skop import networks as networks
    from skop import ops as ops
    from skop import parts as parts
    from skop import testing as testing
    from skop.data import FieldSet, ScalingOptions
    from skop.estimators import (
        AMORegressor,
        AutoRegressor,
        ConformalRegressor,
        DeepONetRegressor,
        EnsembleRegressor,
        FNORegressor,
        GeoMaNORegressor,
        LaMORegressor,
        LawRegressor,
        MeanFieldRegressor,
        MNORegressor,
        OperatorRegressor,
        PODRegressor,
        RolloutRegressor,
        SymmetryOptions,
        TimeConditionedRegressor,
        TrainingOptions,
        TransolverRegressor,
        UNetRegressor,
        leaderboard,
        load,
        predict_in_parts,
        save,
        suggest,
    )

__all__ = [
    "AMORegressor",
    "AutoRegressor",
    "ConformalRegressor",
    "DeepONetRegressor",
    "EnsembleRegressor",
    "FNORegressor",
    "FieldSet",
    "GeoMaNORegressor",
    "LaMORegressor",
    "LawRegressor",
    "MNORegressor",
    "MeanFieldRegressor",
    "OperatorRegressor",
    "PODRegressor",
    "RolloutRegressor",
    "ScalingOptions",
    "SymmetryOptions",
    "TimeConditionedRegressor",
    "TrainingOptions",
    "TransolverRegressor",
    "UNetRegressor",
    "__version__",
    "leaderboard",
    "load",
    "predict_in_parts",
    "save",
    "suggest",
]

#: Public packages and modules.
_PACKAGES = frozenset(
    (
        *("data", "datasets", "estimators", "exceptions", "inspection", "losses", "metrics", "modules", "networks"),
        *("ops", "parts", "testing"),
    )
)
#: Public names that are not in `skop.estimators`, with the package that they are in.
_ELSEWHERE = {"FieldSet": "skop.data", "ScalingOptions": "skop.data"}


def __getattr__(name: str) -> Any:
    """Import a package or a public name on its first use."""
    if name in _PACKAGES:
        return _imported(f"skop.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'skop' has no attribute {name!r}")
    # Stored, so that the next use does not come here.
    globals()[name] = found = getattr(_imported(_ELSEWHERE.get(name, "skop.estimators")), name)
    return found


def _imported(name: str) -> ModuleType:
    """Import a module; looks for garbage, of which imports leave next to none, would take a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_enabled:
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
