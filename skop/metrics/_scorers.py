"""Scorers for `scoring=` of scikit-learn's searches and cross-validation; higher is better.

They are called as ``scorer(estimator, X, y, sample_weight=None)``, return the negative of the error of
the same name, and accept every kind of y that the errors accept. For other settings, make your
own with `sklearn.metrics.make_scorer`.

Examples
--------
>>> from sklearn.metrics import make_scorer
>>> from skop.metrics import h1_error, neg_relative_l2_scorer, relative_l2_error
>>> search_settings = {"scoring": neg_relative_l2_scorer}
>>> on_a_line = make_scorer(h1_error, greater_is_better=False, grid_shape=(64,))
>>> of_scalars = make_scorer(relative_l2_error, greater_is_better=False, kind="scalar")
"""

from sklearn.metrics import make_scorer

from skop.metrics._errors import max_error, mean_absolute_error, relative_l2_error, root_mean_squared_error
from skop.metrics._grid import h1_error

__all__ = [
    "neg_h1_scorer",
    "neg_max_error_scorer",
    "neg_mean_absolute_scorer",
    "neg_relative_l2_scorer",
    "neg_root_mean_squared_scorer",
]

#: The negative of the number that the papers print.
neg_relative_l2_scorer = make_scorer(relative_l2_error, greater_is_better=False)

#: In the unit of the field, each sample counting the same.
neg_root_mean_squared_scorer = make_scorer(root_mean_squared_error, greater_is_better=False)

#: In the unit of the field, less sensitive to a few bad points.
neg_mean_absolute_scorer = make_scorer(mean_absolute_error, greater_is_better=False)

#: The worst point of the worst sample.
neg_max_error_scorer = make_scorer(max_error, greater_is_better=False)

#: Values and slopes, for fields whose grid shows: y (n, *grid, c) with two or three grid axes, or a FieldSet.
neg_h1_scorer = make_scorer(h1_error, greater_is_better=False)
