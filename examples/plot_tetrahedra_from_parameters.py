"""
From parameters to fields on tetrahedra, and to ParaView
========================================================

A design study of a loaded beam: seven parameters, a mesh of tetrahedra that depends on them, and a solver that computes
displacement, stress and two scalars. 70 runs of the solver train a surrogate of all of these, whose predictions are
written as `.vtu` files.
"""

# %%
# The data
# --------
# The coordinates differ between the beams, while all share the same tetrahedra. Length and section vary little, the
# load and its position vary strongly. This needs `pip install scikit-fem`.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import meshio
import numpy as np
from sklearn.model_selection import train_test_split

from skop import FieldSet, LaMORegressor, PODRegressor
from skop.data import attach_predictions
from skop.datasets import make_cantilever
from skop.parts import LatentTokens

ranges = {"length": (0.5, 0.7), "width": (0.08, 0.1), "height": (0.08, 0.1), "taper": (0.6, 1.0), "angle": (-30, 30)}
data = make_cantilever(90, ranges=ranges, n_cells=(10, 1, 1), random_state=0)
print("parameters:", ", ".join(data.param_names))

# %%
# Inputs and targets as FieldSets
# -------------------------------
# `params` of X are the global parameters of a sample, `params` of y its scalars. Displacement is given in 0.1 mm and
# stress in MPa: principal components add up the channels of a field, so these should be numbers of similar size.

units = np.array([1e-4, 1e-4, 1e-4, 1e6])
fields = np.concatenate([data.displacement, data.stress], axis=-1) / units
names = ["displacement_0", "displacement_1", "displacement_2", "stress"]
X = FieldSet(data.coords, params=data.params, cells=[("tetra10", data.cells)])
y = FieldSet(data.coords, fields, params=data.scalars, channel_names=names)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=20, random_state=0)

# %%
# Fit and compare
# ---------------
# The classical alternative projects coordinates, parameters and fields on their principal components and maps the
# coefficients by a Gaussian process. This is possible because point 7 of one beam corresponds to point 7 of every
# other. The squared error as loss gives each channel the same weight. LaMO would start from this model by itself; with
# ``base=None`` the network is alone, so that the two are compared.

models = {
    "LaMO": LaMORegressor(
        width=32,
        depth=2,
        base=None,
        loss="mse",
        max_iter=30,
        batch_size=4,
        learning_rate_init=8e-3,
        random_state=0,
        latents=LatentTokens(n_tokens=16, n_frequencies=2),
    ),
    "POD + GPR": PODRegressor(regressor="gaussian_process"),
}
scores = {name: model.fit(X_train, y_train).score_channels(X_test, y_test) for name, model in models.items()}
labels = dict(zip(["scalar 0", "scalar 1"], data.scalar_names, strict=True))
print("relative L2 error  " + "".join(f"{name:>12}" for name in models))
for channel in scores["LaMO"]:
    print(f"{labels.get(channel, channel):<19}" + "".join(f"{1 - scores[name][channel]:12.4f}" for name in models))
errors = {name: 1 - model.score(X_test, y_test) for name, model in models.items()}
print(f"{'fields and scalars':<19}" + "".join(f"{errors[name]:12.4f}" for name in models))

# %%
# The Gaussian process is the more accurate one here and is fitted far sooner: the fields depend smoothly on seven
# parameters, and the points correspond from beam to beam. How far the network is behind varies from seed to seed. It
# does not need corresponding points, and gains from more runs and a longer training (`max_iter`).
#
# The scalars
# -----------
# The scalars of a prediction are its `params`: peak stress and tip deflection.

predictions = models["LaMO"].predict(X_test)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
titles = ("peak stress (Pa)", "tip deflection (m)")
for axis, title, true, found in zip(axes, titles, y_test.params.T, predictions.params.T, strict=True):
    axis.plot([true.min(), true.max()], [true.min(), true.max()], color="grey")
    axis.plot(true, found, "o")
    axis.set(xlabel=f"true {title}", ylabel=f"predicted {title}")

# %%
# Write files for ParaView
# ------------------------
# `attach_predictions` puts fields on meshes by the names of their channels: `displacement_0`, `displacement_1` and
# `displacement_2` become one vector. The numbers go back to metres and pascals.

in_si_units = predictions.with_values(predictions.values * units, names)
meshes = [meshio.Mesh(points, X_test.cells) for points in X_test.coords_list()]
with tempfile.TemporaryDirectory() as folder:
    for number, mesh in enumerate(attach_predictions(meshes, in_si_units)):
        mesh.write(Path(folder) / f"beam_{number}.vtu")
    beam = meshio.read(Path(folder) / "beam_0.vtu")

true_values = y_test[0].values[0] * units
largest = [np.linalg.norm(values, axis=1).max() for values in (beam.point_data["displacement"], true_values[:, :3])]
print(f"beam_0.vtu: {len(beam.points)} points, {len(beam.cells[0].data)} {beam.cells[0].type}")
print(f"its largest displacement: {1e3 * largest[0]:.4f} mm predicted, {1e3 * largest[1]:.4f} mm true")
plt.show()
