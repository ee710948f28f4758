"""Pictures of predictions and of trainings, as scikit-learn's Display classes.

Each class has ``from_estimator``; all that is drawn stays in attributes that end in ``_``. matplotlib is
imported when something is drawn; the extra ``plot`` installs it.
"""

from skop.inspection._curves import TrainingCurveDisplay
from skop.inspection._fields import FieldErrorDisplay

__all__ = ["FieldErrorDisplay", "TrainingCurveDisplay"]
