"""Estimator checks for field data, in addition to those of scikit-learn.

The checks of scikit-learn use tables. These use fields on grids in 1, 2 and 3 dimensions, in all forms that the
estimators of skop accept. They are for anybody who writes an estimator of fields with the same interface.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.testing._suite import check_field_estimator, parametrize_with_field_checks

__all__ = ["check_field_estimator", "parametrize_with_field_checks"]
