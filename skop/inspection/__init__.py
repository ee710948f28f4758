"""Plots of predictions, training curves and receptive fields, as Display classes in the style of scikit-learn.

Each class has a method ``from_estimator``, and stores the matplotlib objects in attributes that end in ``_``.
matplotlib is imported only when something is drawn; the extra ``plot`` installs it.
"""

from skop.inspection._curves import TrainingCurveDisplay
from skop.inspection._fields import FieldErrorDisplay
from skop.inspection._receptive_field import receptive_field
from skop.inspection._receptive_panels import ReceptiveFieldDisplay

__all__ = ["FieldErrorDisplay", "ReceptiveFieldDisplay", "TrainingCurveDisplay", "receptive_field"]
