"""From a table of loads and a folder of meshes to a model, to predictions with errors for ParaView, and to a report."""

import sys

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from skop import LaMORegressor
from skop.data import attach_predictions, read_meshes
from skop.inspection import write_report

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0  # of training

doe = pd.read_csv("doe.csv")
runs = read_meshes([f"runs/{name}" for name in doe["file"]], ["mises"])
X = runs.select(None).with_params(doe[["tension_x", "tension_y"]])
y = runs.select("mises")
train, test = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)

model = LaMORegressor(max_time=seconds, max_iter=1000, random_state=0).fit(X[train], y[train])
print(f"mean relative L2 error of {len(test)} runs: {1 - model.score(X[test], y[test]):.1%}")
model.save("model.skop")

mises = model.predict(X[test])
columns = np.concatenate([mises.values, y[test].values, mises.values - y[test].values], axis=-1)
meshes = [runs.meshes[row] for row in test]
fields = X[test].with_values(columns, ["mises", "mises_true", "mises_error"])
for row, mesh in zip(test, attach_predictions(meshes, fields), strict=True):
    mesh.write(f"predicted_{doe['file'][row]}")
write_report("report.html", model, X[test], y[test], train=(X[train], y[train]), meshes=meshes, model_path="model.skop")
