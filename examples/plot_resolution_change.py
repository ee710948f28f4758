"""
Predict on a finer grid than the training grid
==============================================

A model trained on 16 x 16 points is asked for the pressure on 31 x 31, where the spacing is half as wide. Is the
answer worth more than the coarse prediction, interpolated?
"""

# %%
# The data
# --------
# The solver works on 91 x 91 points. Every third of them is the fine grid, every sixth the coarse one, so both
# show the same simulations.

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import RegularGridInterpolator

from skop import LaMORegressor
from skop.datasets import make_darcy
from skop.inspection import FieldErrorDisplay
from skop.metrics import relative_l2_error

X_fine, y_fine = make_darcy(250, resolution=31, solver_resolution=91, random_state=0)
X_coarse, y_coarse = X_fine[:, ::2, ::2], y_fine[:, ::2, ::2]
train, test = slice(None, 200), slice(200, None)

# %%
# Train on the coarse grid
# ------------------------

model = LaMORegressor(
    width=32,
    depth=2,
    patch_size=2,
    max_iter=30,
    batch_size=8,
    learning_rate_init=3e-3,
    symmetries=["flip_x", "transpose"],
    random_state=0,
)
model.fit(X_coarse[train], y_coarse[train])
predicted_coarse = model.predict(X_coarse[test])
coarse_error = relative_l2_error(y_coarse[test], predicted_coarse)

# %%
# Interpolate the coarse prediction
# ---------------------------------
# This is what can be done with any model. Interpolating the true coarse field shows what a perfect model would
# reach in this way.

coarse_axis, fine_axis = np.linspace(0, 1, 16), np.linspace(0, 1, 31)
fine_points = np.stack(np.meshgrid(fine_axis, fine_axis, indexing="ij"), axis=-1)


def interpolate(fields):
    """Carry fields (n, 16, 16, 1) to the fine grid, (n, 31, 31, 1)."""
    values = np.moveaxis(fields, 0, -1)
    spline = RegularGridInterpolator((coarse_axis, coarse_axis), values, method="cubic")
    return np.moveaxis(spline(fine_points), -1, 0)


predicted_interpolated = interpolate(predicted_coarse)
interpolated_error = relative_l2_error(y_fine[test], predicted_interpolated)
floor = relative_l2_error(y_fine[test], interpolate(y_coarse[test]))

# %%
# Predict on the fine grid
# ------------------------
# `predict` takes the fine grid as it is. By default it reads the fine permeability at the coarse points and at the
# points around them, averages the predictions from these readings, and interpolates. So detail of the input
# between the coarse points counts.

predicted_fine = model.predict(X_fine[test])
fine_error = relative_l2_error(y_fine[test], predicted_fine)
FieldErrorDisplay.from_predictions(X_fine[test], y_fine[test], predicted_fine)

# %%
# With `refinement="native"` the network itself sees the fine grid, and skop warns. The network works on patches of
# 2 x 2 points. On the fine grid a patch covers a quarter of the area that it covered in training, and the
# prediction fails.

predicted_natively = model.set_params(refinement="native").predict(X_fine[test])
native_error = relative_l2_error(y_fine[test], predicted_natively)
FieldErrorDisplay.from_predictions(X_fine[test], y_fine[test], predicted_natively)

# %%
# The comparison
# --------------
# The default gains about a tenth on plain interpolation: it is a convenience with a small profit, and no substitute
# for training on the fine grid.

print(f"coarse grid, as trained:               {coarse_error:.4f}")
print(f"fine grid, network on the fine grid:   {native_error:.4f}")
print(f"fine grid, coarse prediction + spline: {interpolated_error:.4f}  (of the true coarse field: {floor:.4f})")
print(f"fine grid, predict:                    {fine_error:.4f}")
plt.show()
