"""Errors and scores of predicted fields, on arrays, and scorers for scikit-learn's searches.

Every ``*_error`` is better when lower; `relative_l2_score` is better when higher. All of them take
``(y_true, y_pred)`` as an array with the sample axis first and the channel axis last, as a list of
arrays (samples with different numbers of points), or as a `skop.FieldSet`, and compute in
float64.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.metrics._errors import (
    channel_sizes,
    max_error,
    mean_absolute_error,
    mean_pointwise_relative_error,
    relative_l2_error,
    relative_l2_score,
    root_mean_squared_error,
)
from skop.metrics._grid import h1_error, phase_error, spectral_error
from skop.metrics._pdebench import pdebench_nrmse, pdebench_rl2, pdebench_rmse
from skop.metrics._scorers import (
    neg_h1_scorer,
    neg_max_error_scorer,
    neg_mean_absolute_scorer,
    neg_relative_l2_scorer,
    neg_root_mean_squared_scorer,
)

__all__ = [
    "channel_sizes",
    "h1_error",
    "max_error",
    "mean_absolute_error",
    "mean_pointwise_relative_error",
    "neg_h1_scorer",
    "neg_max_error_scorer",
    "neg_mean_absolute_scorer",
    "neg_relative_l2_scorer",
    "neg_root_mean_squared_scorer",
    "pdebench_nrmse",
    "pdebench_rl2",
    "pdebench_rmse",
    "phase_error",
    "relative_l2_error",
    "relative_l2_score",
    "root_mean_squared_error",
    "spectral_error",
]
