"""scikit-learn estimators around state-space neural operators."""

from skop.data import FieldSet
from skop.estimators import LaMORegressor, PODRegressor, load

__version__ = "0.1.0.dev0"

__all__ = ["FieldSet", "LaMORegressor", "PODRegressor", "__version__", "load"]
