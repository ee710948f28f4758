"""
Quick start: from simulations to a surrogate
============================================

Fluid enters a porous square everywhere and leaves it at the border. The permeability takes one of two values
in random patches, and a solver computes the pressure. Here 150 such simulations train a surrogate that predicts
the pressure for new permeabilities.
"""

# %%
# The data
# --------
# `X` holds the permeabilities and `y` the pressures, as arrays (samples, points in x, points in y, channels).

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import skop
from skop.datasets import make_darcy
from skop.inspection import FieldErrorDisplay, TrainingCurveDisplay
from skop.metrics import relative_l2_error
from skop.parts import Patches

X, y = make_darcy(200, resolution=16, solver_resolution=46, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=50, random_state=0)
print("permeability", X.shape, "pressure", y.shape)

# %%
# Fit and score
# -------------
# The estimator is used like any other of scikit-learn. The problem does not change when the square is mirrored or
# rotated. With `symmetries` the samples are transformed in this way during training (data augmentation).
# `early_stopping` holds out a tenth of the samples and records the error on them after each epoch.

model = skop.LaMORegressor(
    width=32,
    depth=1,
    patches=Patches(size=2),
    max_iter=20,
    batch_size=8,
    learning_rate_init=3e-3,
    symmetries=["flip_x", "transpose"],
    early_stopping=True,
    random_state=0,
)
model.fit(X_train, y_train)
TrainingCurveDisplay.from_estimator(model)

# %%
# `score` is 1 minus the relative L2 error. The error of a model that always predicts the mean field of the training
# set gives a scale for it.

mean_field = np.broadcast_to(y_train.mean(axis=0), y_test.shape)
mean_field_error = relative_l2_error(y_test, mean_field)
print(f"score of LaMO on the test set: {model.score(X_test, y_test):.3f}")
print(f"error of the mean field: {mean_field_error:.1%}")

# %%
# Plot a prediction
# -----------------
# This is the sample with the largest error of the 50 test samples.

FieldErrorDisplay.from_estimator(model, X_test, y_test, sample="worst")

# %%
# Save and load
# -------------
# The file holds numbers and names only; loading it executes no code.

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "pressure.skop")
    loaded = skop.load(Path(folder) / "pressure.skop")

error = relative_l2_error(y_test, loaded.predict(X_test))
print(f"relative L2 error of the loaded model: {error:.4f}")
plt.show()
