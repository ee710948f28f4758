"""Private names of scikit-learn that skop uses, and replacements for those that earlier versions do not have.

scikit-learn may move or rename them between versions; only this file has to be adapted then.
"""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import Options as AllowedValues
from sklearn.utils.validation import _check_sample_weight

try:
    from sklearn.callback import CallbackSupportMixin
except ModuleNotFoundError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replacement for versions of scikit-learn without callbacks."""


__all__ = [
    "AllowedValues",
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "SequenceOf",
    "StrOptions",
    "check_sample_weight",
    "final_regressor",
    "fit_context",
    "has_callbacks",
    "has_steps",
    "last_step",
]

fit_context = _fit_context
check_sample_weight = _check_sample_weight


class Interval(_Interval):
    """Interval of numbers that True and False are not in, though Python counts them as integers."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is a number of the interval."""
        return not isinstance(val, bool | np.bool_) and bool(super().is_satisfied_by(val))


class SequenceOf(HasMethods):
    """Sequence of values of one type, such as names or numbers.

    Parameters
    ----------
    kind : type
        Type of the values, such as str or numbers.Real; object is anything, sequences too.
    length : int or None, default=None
        Their number; None is any.
    """

    def __init__(self, kind: type, length: int | None = None) -> None:
        # scikit-learn takes constraints of its own classes only.
        super().__init__(["__len__"])
        self.kind, self.length = kind, length

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is such a sequence."""
        if isinstance(val, str | bytes | dict | set | frozenset) or not hasattr(val, "__len__"):
            return False
        if self.kind is object:
            return np.ndim(val) > 0 if isinstance(val, np.ndarray) else True
        try:
            items = np.asarray(val, dtype=object)
        except (TypeError, ValueError):
            return False
        return (
            items.ndim == 1
            and self.length in (None, len(items))
            and all(isinstance(item, self.kind) and not isinstance(item, bool | np.bool_) for item in items)
        )

    def __str__(self) -> str:
        kind = "numbers" if self.kind is Real else f"values of type {self.kind.__name__}"
        return f"a sequence of {kind}" if self.length is None else f"a sequence of {self.length} {kind}"


def final_regressor(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the regressor inside fitted pipelines and searches, and X, if it is given, as it gets it."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            X = estimator[:-1].transform(X) if X is not None and len(estimator.steps) > 1 else X
            estimator = estimator.steps[-1][1]
        else:
            return estimator, X


def has_steps(estimator: Any) -> bool:
    """Whether an estimator is a Pipeline, or one around it, such as a search or a FrozenEstimator."""
    return isinstance(getattr(estimator, "estimator", estimator), Pipeline)


def last_step(estimator: Any) -> Any:
    """Return the estimator itself, or the last step of a Pipeline, also where these are nested."""
    while isinstance(estimator, Pipeline) and estimator.steps:
        estimator = estimator.steps[-1][1]
    return estimator


def has_callbacks(estimator: Any) -> bool:
    """Whether callbacks were set, by the user or by an estimator that wraps this one."""
    return bool(getattr(estimator, "_skl_callbacks", ()))
