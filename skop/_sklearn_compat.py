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
    "final_regressor",
    "fit_context",
    "has_callbacks",
]

fit_context = _fit_context
check_sample_weight = _check_sample_weight


def final_regressor(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the regressor inside fitted pipelines and searches, and X as it gets it."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
            estimator = estimator.steps[-1][1]
        else:
            return estimator, X


def has_callbacks(estimator: Any) -> bool:
    """Whether callbacks were set, by the user or by an estimator that wraps this one."""
    return bool(getattr(estimator, "_skl_callbacks", ()))
