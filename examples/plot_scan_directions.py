"""
Which part of the domain does a scan see?
=========================================

GeoMaNO scans the grid from two opposite corners. A cell then receives information from two of the four quadrants
around it, and none from the other two. This example shows the effect on the error, and two remedies.
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
from skop.parts import GeometricScan, Patches

X, y = make_darcy(140, resolution=12, solver_resolution=45, random_state=0)
train, test = slice(None, 100), slice(100, None)

# %%
# Three networks
# --------------
# One block with the four-way cross-scan of the paper, one block with a scan from every corner (at the same cost), and
# two blocks with the cross-scan. Convolutions are left out, so that only the scans exchange information between
# patches.


def fit(scan_directions, depth):
    """Train a small network in which only the scans mix tokens."""
    model = GeoMaNORegressor(
        base=None,
        depth=depth,
        width=24,
        max_iter=25,
        batch_size=8,
        random_state=0,
        patches=Patches(size=3, conv_channels=0),
        mixer=GeometricScan(
            d_state=4,
            recurrence="grid",
            scan_directions=scan_directions,
            step_range=(0.1, 0.5),
            decay_range=None,
            kernel_size=1,
        ),
    )
    return model.fit(X[train], y[train])


models = {
    "one block, two corners": fit("cross", 1),
    "one block, four corners": fit("corners", 1),
    "two blocks, two corners": fit("cross", 2),
}
errors = {name: relative_l2_error(y[test], model.predict(X[test])) for name, model in models.items()}

# %%
# Receptive fields
# ----------------
# The effective receptive field of a token near the middle, after the last block: how much its features change with
# the permeability at each point. After one block with the cross-scan two quadrants are empty. Scans from four corners
# fill them, and so does a second block.

shares = {}
for name, model in models.items():
    display = ReceptiveFieldDisplay.from_estimator(model, X[test], point=(7, 7), layer=-1)
    display.figure_.suptitle(name)
    field = display.field / display.field.sum()
    # The patch of the middle point has rows and columns 6 to 8.
    shares[name] = field[:6, 9:].sum() + field[9:, :6].sum()

# %%
# Errors
# ------
# The pressure depends on all four quadrants, and a block that receives only two of them has a larger error. A second
# block helps too, through other tokens. Try `scan_directions="corners"` before a deeper network.

for name, error in errors.items():
    print(f"{name}: upper right and lower left {shares[name]:.1%} of the field, relative L2 error {error:.4f}")
plt.show()
