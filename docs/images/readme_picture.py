"""Draw the picture of the README: `python docs/images/readme_picture.py` writes readme.png beside this file."""

from pathlib import Path

import matplotlib as mpl

from skop import LaMORegressor
from skop.datasets import make_darcy
from skop.inspection import FieldErrorDisplay
from skop.parts import Patches

mpl.use("Agg")
X, y = make_darcy(250, resolution=31, solver_resolution=91, random_state=0)
model = LaMORegressor(
    width=32,
    depth=2,
    patches=Patches(size=3),
    max_iter=25,
    batch_size=8,
    learning_rate_init=3e-3,
    symmetries=["flip_x", "transpose"],
    random_state=0,
)
model.fit(X[:200], y[:200])
print(f"relative L2 error on the test set: {1 - model.score(X[200:], y[200:]):.4f}")
display = FieldErrorDisplay.from_estimator(model, X[200:], y[200:], sample="median")
display.figure_.savefig(Path(__file__).with_name("readme.png"), dpi=90)
