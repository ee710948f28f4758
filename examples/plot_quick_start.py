"""
Quick start: from simulations to a surrogate
============================================

A porous square is fed with fluid everywhere and drained at its border. Its permeability is one of two
values in random patches, and a solver gives the pressure. Here 200 such simulations train a surrogate that
predicts the pressure of squares that it has not seen.
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

X, y = make_darcy(250, resolution=16, solver_resolution=46, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=50, random_state=0)
print("permeability", X.shape, "pressure", y.shape)

# %%
# Fit and score
# -------------
# The estimator is used as any of scikit-learn. The square looks the same from all sides, and so does the
# equation: `symmetries` turns each sample into eight. `early_stopping` holds a tenth of the samples out and
# records the error on them after each epoch.

model = skop.LaMORegressor(
    width=32,
    depth=2,
    patch_size=2,
    max_iter=30,
    batch_size=8,
    learning_rate_init=3e-3,
    symmetries=["flip_x", "transpose"],
    early_stopping=True,
    random_state=0,
)
model.fit(X_train, y_train)
TrainingCurveDisplay.from_estimator(model)

# %%
# `score` is 1 minus the relative L2 error. A model that always answers with the mean field of the training set
# shows what an error is worth.

mean_field = np.broadcast_to(y_train.mean(axis=0), y_test.shape)
mean_field_error = relative_l2_error(y_test, mean_field)
print(f"score of LaMO on the test set: {model.score(X_test, y_test):.3f}")
print(f"error of the mean field: {mean_field_error:.1%}")

# %%
# A look at a prediction
# ----------------------
# Of the 50 test samples this is the one with the largest error.

FieldErrorDisplay.from_estimator(model, X_test, y_test, sample="worst")

# %%
# Save and load
# -------------
# The file holds numbers and names only, so loading it runs nothing.

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "pressure.skop")
    loaded = skop.load(Path(folder) / "pressure.skop")

error = relative_l2_error(y_test, loaded.predict(X_test))
print(f"relative L2 error of the loaded model: {error:.4f}")
plt.show()
