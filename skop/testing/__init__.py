"""Checks that an estimator keeps the laws of field data: the counterpart of scikit-learn's estimator checks.

scikit-learn's checks feed tables. These feed fields on grids in 1, 2 and 3 dimensions, in every container
that skop's estimators accept, and are meant for anybody who writes an operator behind the same contract.
"""

from skop.testing._suite import FieldCheck, check_field_estimator, parametrize_with_field_checks, yield_field_checks

__all__ = ["FieldCheck", "check_field_estimator", "parametrize_with_field_checks", "yield_field_checks"]
