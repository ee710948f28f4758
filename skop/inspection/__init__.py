"""Pictures of predictions, of trainings and of receptive fields, as scikit-learn's Display classes.

Each class has ``from_estimator``; all that is drawn stays in attributes that end in ``_``. matplotlib is
imported when something is drawn; the extra ``plot`` installs it.
"""

from skop.inspection._curves import TrainingCurveDisplay
from skop.inspection._fields import FieldErrorDisplay
from skop.inspection._receptive_field import receptive_field
from skop.inspection._receptive_panels import ReceptiveFieldDisplay

__all__ = ["FieldErrorDisplay", "ReceptiveFieldDisplay", "TrainingCurveDisplay", "receptive_field"]
