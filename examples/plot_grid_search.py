"""
Choose a model by grid search
=============================

The estimators of skop work in pipelines and searches like those of scikit-learn. Here, LaMORegressor is the last step
of a Pipeline, and GridSearchCV chooses its width and its learning rate by cross-validation.
"""

# %%
# The data
# --------
# The permeability is lognormal: it varies over orders of magnitude, smoothly.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skop import LaMORegressor
from skop.datasets import make_darcy
from skop.metrics import neg_relative_l2_scorer, relative_l2_error
from skop.parts import Patches

X, y = make_darcy(120, resolution=12, solver_resolution=34, coefficient="lognormal", random_state=0)
X_train, X_test, y_train, y_test = X[:80], X[80:], y[:80], y[80:]

# %%
# The search
# ----------
# The first step of the pipeline takes the logarithm of the permeability, from which the pressure is easier to learn.
# The second step learns the pressure. As always in scikit-learn, two underscores separate a step from its parameter.

pipeline = make_pipeline(
    FunctionTransformer(np.log),
    LaMORegressor(depth=1, patches=Patches(size=2), base=None, max_iter=12, batch_size=8, random_state=0),
)
search = GridSearchCV(
    pipeline,
    {"lamoregressor__width": [8, 32], "lamoregressor__learning_rate_init": [1e-3, 4e-3]},
    scoring=neg_relative_l2_scorer,
    cv=2,
)
search.fit(X_train, y_train)

# %%
# The result
# ----------
# `neg_relative_l2_scorer` is the negative of the relative L2 error: for searches, higher is better.

cv_errors = -search.cv_results_["mean_test_score"]
for settings, cv_error in zip(search.cv_results_["params"], cv_errors, strict=True):
    width, rate = settings["lamoregressor__width"], settings["lamoregressor__learning_rate_init"]
    print(f"width {width:2d}, learning rate {rate:.0e}: relative L2 error {cv_error:.3f}")

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
labels = [", ".join(f"{value:g}" for value in settings.values()) for settings in search.cv_results_["params"]]
axes.barh(labels, cv_errors)
axes.set(xlabel="relative L2 error in cross-validation", ylabel="learning rate, width")

# %%
# The search has fitted the best setting again on all training samples. On the test samples:

error = relative_l2_error(y_test, search.predict(X_test))
print(f"relative L2 error of the best model on the test set: {error:.4f}")
plt.show()
