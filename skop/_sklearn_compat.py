"""Private names of scikit-learn that skop uses, and replacements for those that earlier versions do not have.

scikit-learn may move or rename them between versions; only this file has to be adapted then.
"""

from typing import Any

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight

try:
    from sklearn.callback import CallbackSupportMixin
except ModuleNotFoundError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replacement for versions of scikit-learn without callbacks."""


__all__ = [
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "has_callbacks",
]

fit_context = _fit_context
check_sample_weight = _check_sample_weight


def has_callbacks(estimator: Any) -> bool:
    """Whether callbacks were set, by the user or by an estimator that wraps this one."""
    return bool(getattr(estimator, "_skl_callbacks", ()))
