"""Scorers for `scoring=` of scikit-learn's searches and cross-validation; higher is better.

They are called as ``scorer(estimator, X, y, sample_weight=None)``, return the negative of the error of
the same name, and accept every kind of y that the errors accept. For other settings, make your
own with `sklearn.metrics.make_scorer`. y may be None if the meshes of X hold the true fields. The estimators of skop
tell whether the rows of y are fields or scalars; for other estimators, relative errors of scalars need
``kind="scalar"``.

Examples
--------
>>> from sklearn.metrics import make_scorer
>>> from skop.metrics import h1_error, neg_relative_l2_scorer, relative_l2_error
>>> search_settings = {"scoring": neg_relative_l2_scorer}
>>> on_a_line = make_scorer(h1_error, greater_is_better=False, grid_shape=(64,))
>>> of_scalars = make_scorer(relative_l2_error, greater_is_better=False, kind="scalar")
"""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from skop._sklearn_compat import final_regressor
from skop.exceptions import FieldDataError
from skop.metrics._errors import max_error, mean_absolute_error, relative_l2_error, root_mean_squared_error
from skop.metrics._grid import h1_error

__all__ = [
    "neg_h1_scorer",
    "neg_max_error_scorer",
    "neg_mean_absolute_scorer",
    "neg_relative_l2_scorer",
    "neg_root_mean_squared_scorer",
]

_Scorer: Any = type(make_scorer(relative_l2_error))


class FieldScorer(_Scorer):
    """Scorer of scikit-learn that also takes meshes, by path or as objects, and y=None for those of X."""

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y_true: Any = None,
        sample_weight: Any = None,
        params: Any = None,
        **kwargs: Any,
    ) -> float:
        """Predict for X and return the score.

        Parameters
        ----------
        estimator : estimator
            Fitted regressor, pipeline or search.
        X : as in `fit` of the estimator
            Inputs.
        y_true : as in `fit` of the estimator, or None, default=None
            True targets; None if the meshes of X hold them.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights of the samples.
        params : as in `fit` of the estimator, or None, default=None
            Global parameters of the runs.
        **kwargs
            Arguments of the metric, where metadata routing is enabled.

        Returns
        -------
        float
            Score; higher is better. For a field and scalars it is the mean of the two relative scores; of other errors
            there is none.
        """
        if params is not None or not _are_numbers(y_true) or all(_predicts(estimator)):
            return self._score_read(estimator, X, y_true, params, sample_weight=sample_weight, **kwargs)
        return float(super().__call__(estimator, X, y_true, sample_weight=sample_weight, **kwargs))

    def _score(self, method_caller: Any, estimator: Any, X: Any, y_true: Any = None, **kwargs: Any) -> Any:
        """Score in a dictionary of several scorers, which share their predictions unless they are meshes."""
        if not _are_numbers(y_true) or all(_predicts(estimator)):
            return self._score_read(estimator, X, y_true, **kwargs)
        if _predicts(estimator) == (False, True) and "kind" not in self._kwargs:
            kwargs = self._words_of("scalar") | kwargs
        return super()._score(method_caller, estimator, X, y_true, **kwargs)

    def _score_read(self, estimator: Any, X: Any, y_true: Any, params: Any = None, **kwargs: Any) -> float:
        """Score of fields that the estimator reads from meshes."""
        regressor, X = final_regressor(estimator, X)
        if not hasattr(regressor, "_scored_parts"):
            raise FieldDataError(
                f"y is {'None' if y_true is None else 'meshes'} or params is given, which only the estimators of skop "
                f"take; {type(regressor).__name__} needs y as numbers."
            )
        options = {name: value for name, value in kwargs.items() if value is not None}
        parts = regressor._scored_parts(X, y_true, params, options.get("sample_weight"))
        if len(parts) > 1 and self._score_func is not relative_l2_error:
            raise FieldDataError(
                f"{type(regressor).__name__} predicts a field and scalars, whose errors in two units have no mean; "
                "score by neg_relative_l2_scorer, or predict and call the metric for each."
            )
        options = self._kwargs | options
        scores = [
            self._sign * self._score_func(true, found, **(self._words_of(kind) | options))
            for kind, true, found in parts
        ]
        return float(np.mean(scores))

    def _words_of(self, kind: str) -> dict[str, str]:
        """Arguments that tell the metric what the rows of y are, if it makes a difference."""
        return {"kind": kind} if self._score_func is relative_l2_error else {}


def _predicts(estimator: Any) -> tuple[bool, bool]:
    """Whether an estimator of skop, maybe in a pipeline or a search, predicts a field, and whether scalars."""
    regressor, _ = final_regressor(estimator)
    # A TransformedTargetRegressor fits scalars to scalars, and fields to fields.
    spec = getattr(final_regressor(getattr(regressor, "regressor_", regressor))[0], "spec_", None)
    return bool(getattr(spec, "n_outputs", 0)), bool(getattr(spec, "n_scalars", 0))


def _are_numbers(y: Any) -> bool:
    """Whether y holds numbers, and no meshes or paths."""
    y = y.to_numpy() if hasattr(y, "iloc") else y
    if isinstance(y, np.ndarray):
        y = list(y.ravel()[:1]) if y.dtype.kind in "OSU" else 0.0
    first = next(iter(y), None) if isinstance(y, list | tuple) else y
    return first is not None and not isinstance(first, str | PathLike) and not hasattr(first, "point_data")


def _negative(error: Callable[..., Any]) -> Any:
    """Scorer of an error."""
    scorer = make_scorer(error, greater_is_better=False)
    scorer.__class__ = FieldScorer
    # The displays of scikit-learn name their axes by it.
    scorer.__name__ = f"neg_{error.__name__}"
    return scorer


#: The negative of the number that the papers print.
neg_relative_l2_scorer = _negative(relative_l2_error)

#: In the unit of the field, each sample counting the same.
neg_root_mean_squared_scorer = _negative(root_mean_squared_error)

#: In the unit of the field, less sensitive to a few bad points.
neg_mean_absolute_scorer = _negative(mean_absolute_error)

#: The worst point of the worst sample.
neg_max_error_scorer = _negative(max_error)

#: Values and slopes, for fields whose grid shows: y (n, *grid, c) with two or three grid axes, or a FieldSet.
neg_h1_scorer = _negative(h1_error)
