"""Plots of predictions, training curves and what networks do inside, and reports on data, errors and models.

Each Display class has a method ``from_estimator``, and stores the matplotlib objects in attributes that end in ``_``.
matplotlib is imported only when something is drawn.

`__all__` lists the names for users of skop; the other names are for the other packages of skop.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.inspection._comparison import ModelResult as ModelResult
from skop.inspection._comparison import compare_models
from skop.inspection._curves import TrainingCurveDisplay
from skop.inspection._description import DataDescription as DataDescription
from skop.inspection._description import Finding as Finding
from skop.inspection._description import describe_data
from skop.inspection._description import describe_runs as describe_runs
from skop.inspection._evaluation import Evaluation as Evaluation
from skop.inspection._evaluation import evaluate
from skop.inspection._fields import FieldErrorDisplay
from skop.inspection._frequency_response import FrequencyResponseDisplay, frequency_response
from skop.inspection._mixing import MixingDisplay, mixing_matrices, token_similarity
from skop.inspection._phase_error import PhaseErrorDisplay
from skop.inspection._poles import PoleDisplay, learned_poles
from skop.inspection._receptive_field import ReceptiveFieldDisplay, receptive_field
from skop.inspection._report import write_report
from skop.inspection._singular_features import SingularFeatureDisplay

__all__ = [
    "FieldErrorDisplay",
    "FrequencyResponseDisplay",
    "MixingDisplay",
    "PhaseErrorDisplay",
    "PoleDisplay",
    "ReceptiveFieldDisplay",
    "SingularFeatureDisplay",
    "TrainingCurveDisplay",
    "compare_models",
    "describe_data",
    "evaluate",
    "frequency_response",
    "learned_poles",
    "mixing_matrices",
    "receptive_field",
    "token_similarity",
    "write_report",
]
