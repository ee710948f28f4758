"""
Point clouds: every sample has different points
===============================================

A sheet of rubber with a void of random shape is clamped at the bottom and pulled at the top. A model predicts the
stress. Every sample has its own mesh, with a different number of points in random order, and the positions of these
points are the only input.
"""

# %%
# The data
# --------
# `X` is a FieldSet that holds positions, and `y` a list of arrays (points, 1): stress in Pa. This needs
# `pip install scikit-fem`.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from skop import LaMORegressor
from skop.datasets import make_elasticity
from skop.metrics import relative_l2_error
from skop.parts import LatentTokens

coarse = {"n_points": (40, 9), "vary_points": True, "shuffle_points": True}
X_train, y_train = make_elasticity(100, **coarse, random_state=0)
X_test, y_test = make_elasticity(20, **coarse, random_state=1)
print(f"{len(X_train)} training samples of {X_train.n_points.min()} to {X_train.n_points.max()} points")

# %%
# Simple predictions
# ------------------
# For comparison: the mean stress, which is the same everywhere, and the mean stress of the 100 nearest training points,
# which depends on the position but not on the void.

mean_stress = np.concatenate(y_train).mean()
mean_error = relative_l2_error(y_test, [np.full_like(stress, mean_stress) for stress in y_test])
nearest = KNeighborsRegressor(n_neighbors=100).fit(X_train.coords, np.concatenate(y_train))
nearest_error = relative_l2_error(y_test, [nearest.predict(points) for points in X_test.coords_list()])
print(f"relative L2 error of the mean stress: {mean_error:.4f}")
print(f"relative L2 error of the nearest training points: {nearest_error:.4f}")

# %%
# Fit and score
# -------------
# There is no grid, and samples are not padded to one length. Learned weighted means over the points are the tokens of
# the network (latent tokens); 16 of them and a single block keep this fit short.

model = LaMORegressor(
    width=32,
    depth=1,
    max_iter=30,
    batch_size=4,
    learning_rate_init=8e-3,
    random_state=0,
    latents=LatentTokens(n_tokens=16, n_frequencies=3),
)
model.fit(X_train, y_train)
error = 1 - model.score(X_test, y_test)
print(f"relative L2 error of LaMO: {error:.4f}")

# %%
# The order of the points has no influence
# ----------------------------------------
# The points of a sample may be listed in any order, and a sample may be predicted alone.

first = X_test[:1]
order = np.random.default_rng(0).permutation(first.n_points[0])
(listed,) = model.predict(first)
(relisted,) = model.predict([first.coords_list()[0][order]])
difference = np.abs(relisted - listed[order]).max() / np.abs(listed).max()
print(f"largest change by another order: {difference:.1e}")

# %%
# Predict at other points
# -----------------------
# The same voids have three times as many points here. `coords` states the points at which the stress is predicted. The
# shape of the void is still given only by the coarse points of `X_test`.

X_fine, y_fine = make_elasticity(20, n_points=(80, 13), random_state=1)
predicted = model.predict(X_test, coords=X_fine)
fine_error = relative_l2_error(y_fine, predicted)
print(f"relative L2 error at {X_fine.n_points[0]} other points: {fine_error:.4f}")

# %%
# Pictures
# --------
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
