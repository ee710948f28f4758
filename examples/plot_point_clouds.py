"""
Point clouds: every sample on points of its own
===============================================

A sheet of rubber with a void of random shape is clamped below and pulled above. Where is the stress? Every sample
has its own mesh, with its own number of points in an order of their own, and a model is given these points alone.
"""

# %%
# The data
# --------
# `X` is a FieldSet that holds positions, and `y` a list of arrays (points, 1): stress in Pa. This needs
# `pip install 'skop[fem]'`.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from skop import LaMORegressor
from skop.datasets import make_elasticity
from skop.metrics import relative_l2_error

coarse = {"n_points": (40, 9), "vary_points": True, "shuffle_points": True}
X_train, y_train = make_elasticity(120, **coarse, random_state=0)
X_test, y_test = make_elasticity(20, **coarse, random_state=1)
print(f"{len(X_train)} training samples of {X_train.n_points.min()} to {X_train.n_points.max()} points")

# %%
# What an error is worth
# ----------------------
# The mean stress says the same everywhere. The mean of the 100 nearest training points knows the place, but not
# the void.

mean_stress = np.concatenate(y_train).mean()
mean_error = relative_l2_error(y_test, [np.full_like(stress, mean_stress) for stress in y_test])
nearest = KNeighborsRegressor(n_neighbors=100).fit(X_train.coords, np.concatenate(y_train))
nearest_error = relative_l2_error(y_test, [nearest.predict(points) for points in X_test.coords_list()])
print(f"relative L2 error of the mean stress: {mean_error:.4f}")
print(f"relative L2 error of the nearest training points: {nearest_error:.4f}")

# %%
# Fit and score
# -------------
# Points are not sorted onto a grid, and samples are not padded to one length. Soft slices of the points become the
# tokens of the network; 16 of them and a single block keep this fit to half a minute on one core.

model = LaMORegressor(
    width=32,
    depth=1,
    n_latents=16,
    n_slice_heads=4,
    n_frequencies=3,
    max_iter=60,
    batch_size=4,
    learning_rate_init=8e-3,
    random_state=0,
)
model.fit(X_train, y_train)
error = 1 - model.score(X_test, y_test)
print(f"relative L2 error of LaMO: {error:.4f}")

# %%
# Order and company do not matter
# -------------------------------
# The points of a sample may be listed in any order, and a sample may come alone.

first = X_test[:1]
order = np.random.default_rng(0).permutation(first.n_points[0])
(listed,) = model.predict(first)
(relisted,) = model.predict([first.coords_list()[0][order]])
difference = np.abs(relisted - listed[order]).max() / np.abs(listed).max()
print(f"largest change by another order: {difference:.1e}")

# %%
# Predict at other points
# -----------------------
# The same voids, meshed three times as finely. `coords` asks for the stress at points that the sample does not
# have: the void is still known through the coarse points of `X_test` alone.

X_fine, y_fine = make_elasticity(20, n_points=(80, 13), random_state=1)
predicted = model.predict(X_test, coords=X_fine)
fine_error = relative_l2_error(y_fine, predicted)
print(f"relative L2 error at {X_fine.n_points[0]} other points: {fine_error:.4f}")

# %%
# A look at the predictions
# -------------------------
# The first test sample at the fine points.

points, true_stress, found = X_fine.coords[0], y_fine[0, :, 0], predicted[0][:, 0]
panels = {"truth (Pa)": true_stress, "prediction (Pa)": found, "prediction minus truth (Pa)": found - true_stress}
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
top = np.quantile(true_stress, 0.99)
for axis, (title, values) in zip(axes, panels.items(), strict=True):
    colours = {"vmin": -top, "vmax": top, "cmap": "RdBu_r"} if "minus" in title else {"vmin": 0, "vmax": top}
    drawn = axis.scatter(*points.T, c=values, s=8, **colours)
    axis.set(title=title, aspect="equal", xlabel="x", ylabel="y")
    figure.colorbar(drawn, ax=axis)
plt.show()
