"""
Predict on a finer grid than the training grid
==============================================

A model trained on 16 x 16 points predicts the pressure on 31 x 31 points, at half the spacing (zero-shot
super-resolution). Is this better than interpolating the prediction on the coarse grid?
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
from skop.parts import Patches

X_fine, y_fine = make_darcy(190, resolution=31, solver_resolution=91, random_state=0)
X_coarse, y_coarse = X_fine[:, ::2, ::2], y_fine[:, ::2, ::2]
train, test = slice(None, 150), slice(150, None)

# %%
# Train on the coarse grid
# ------------------------

model = LaMORegressor(
    width=32,
    depth=1,
    patches=Patches(size=2),
    base=None,
    max_iter=20,
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
# This works with any model. Interpolating the true coarse field shows the error that a perfect model would have in
# this way.

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
# `predict` accepts the fine grid. By default it evaluates the network at the training spacing for several shifts of
# the fine permeability, averages these predictions, and interpolates. Detail of the input between the coarse points is
# used in this way.

predicted_fine = model.predict(X_fine[test])
fine_error = relative_l2_error(y_fine[test], predicted_fine)
FieldErrorDisplay.from_predictions(X_fine[test], y_fine[test], predicted_fine)

# %%
# With `refinement="native"` the network is applied to the fine grid itself, and skop warns. The network works on
# patches of 2 x 2 points. On the fine grid a patch covers a quarter of the area that it covered in training, and
# the prediction fails.

predicted_natively = model.set_params(refinement="native").predict(X_fine[test])
native_error = relative_l2_error(y_fine[test], predicted_natively)
FieldErrorDisplay.from_predictions(X_fine[test], y_fine[test], predicted_natively)

# %%
# The comparison
# --------------
# The default is a little better than plain interpolation. It is a convenience, and no substitute for training on the
# fine grid.

print(f"coarse grid, as trained:               {coarse_error:.4f}")
print(f"fine grid, network on the fine grid:   {native_error:.4f}")
print(f"fine grid, coarse prediction + spline: {interpolated_error:.4f}  (of the true coarse field: {floor:.4f})")
print(f"fine grid, predict:                    {fine_error:.4f}")
plt.show()
