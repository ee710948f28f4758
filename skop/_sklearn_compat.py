"""scikit-learn's private names that skop needs, and stand-ins for what earlier versions lack.

scikit-learn may move or rename these between versions; this is the one file to mend then.
"""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight

try:
    from sklearn.callback import CallbackSupportMixin
except ModuleNotFoundError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


__all__ = ["CallbackSupportMixin", "HasMethods", "Interval", "StrOptions", "check_sample_weight", "fit_context"]

fit_context = _fit_context
check_sample_weight = _check_sample_weight
