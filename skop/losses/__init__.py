"""Training losses on batches of fields.

Every loss is a small immutable object that is called as
``loss(prediction, target, mask=..., sample_weight=..., grid_shape=..., neighbours=...)`` and returns a
scalar tensor. All of them first give one number per sample and then take the mean or the sum over
the batch, so a sample's share does not depend on how many points its batch mates have.
"""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.losses._losses import GradientRelativeL2Loss, MSELoss, RelativeL2Loss, SobolevLoss
from skop.losses._losses import get_loss as get_loss
from skop.losses._training_loss import TrainingLoss

__all__ = [
    "GradientRelativeL2Loss",
    "MSELoss",
    "RelativeL2Loss",
    "SobolevLoss",
    "TrainingLoss",
]
