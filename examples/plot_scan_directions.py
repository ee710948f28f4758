"""
Which part of the domain does a scan see?
=========================================

GeoMaNO crosses the grid from two opposite corners. A cell then hears from the quadrant above and to the left of it,
and from the one below and to the right, but not from the other two. What does that cost, and what mends it?
"""

# %%
# The data
# --------
# Flow through a porous square: the pressure at a point depends on the permeability everywhere around it.

import matplotlib.pyplot as plt

from skop import GeoMaNORegressor
from skop.datasets import make_darcy
from skop.inspection import ReceptiveFieldDisplay
from skop.metrics import relative_l2_error

X, y = make_darcy(200, resolution=16, solver_resolution=91, random_state=0)
train, test = slice(None, 160), slice(160, None)

# %%
# Three networks
# --------------
# One block with the four-way cross-scan of the paper, one block with a scan from every corner, which costs the same,
# and two blocks with the cross-scan. Convolutions are left out, so that scans alone carry anything between patches.


def fit(crossing, depth):
    """Train a small network whose tokens meet in its scans only."""
    model = GeoMaNORegressor(
        recurrence="grid",
        crossing=crossing,
        depth=depth,
        width=32,
        patch_size=2,
        d_state=8,
        step_range=(0.1, 0.5),
        decay_range=None,
        kernel_size=1,
        local_features=0,
        max_iter=25,
        batch_size=8,
        random_state=0,
    )
    return model.fit(X[train], y[train])


models = {
    "one block, two corners": fit("cross", 1),
    "one block, four corners": fit("corners", 1),
    "two blocks, two corners": fit("cross", 2),
}
errors = {name: relative_l2_error(y[test], model.predict(X[test])) for name, model in models.items()}

# %%
# Where each of them looks
# ------------------------
# The effective receptive field of the token in the middle, after the last block: how much its features change with
# the permeability at each point. After one block with the cross-scan two quadrants are empty. Four corners fill them,
# and so does a second block.

shares = {}
for name, model in models.items():
    display = ReceptiveFieldDisplay.from_estimator(model, X[test], point=(8, 8), layer=-1)
    display.figure_.suptitle(name)
    field = display.field / display.field.sum()
    # The patch of the middle point has rows and columns 8 and 9.
    shares[name] = field[:8, 10:].sum() + field[10:, :8].sum()

# %%
# What it costs
# -------------
# A pressure depends on all four quadrants, and a block that sees only two of them does worse. A second block helps,
# too, but it sees the other two at second hand. Try `crossing="corners"` before a deeper network.

for name, error in errors.items():
    print(f"{name}: upper right and lower left {shares[name]:.1%} of the field, relative L2 error {error:.4f}")
plt.show()
