"""From a table of loads and a folder of meshes to a model, to predictions with errors for ParaView, and to a report."""

import sys
from pathlib import Path

import pandas as pd
from sklearn.model_selection import train_test_split

from skop import LaMORegressor
from skop.data import attach_predictions, read_meshes
from skop.inspection import write_report

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0  # of training

doe = pd.read_csv("doe.csv")  # columns file, tension_x, tension_y
runs = read_meshes(["runs/" + file for file in doe["file"]], "mises", keep_data=True)
X, y = runs.select(None).with_params(doe[["tension_x", "tension_y"]]), runs.select("mises")
train, test = train_test_split(doe.index, test_size=0.2, random_state=0)

model = LaMORegressor(max_time=seconds, max_iter=1000, random_state=0).fit(X[train], y[train])
print(f"mean relative L2 error of {len(test)} runs: {1 - model.score(X[test], y[test]):.1%}")
model.save("model.skop")

meshes = attach_predictions([runs.meshes[row] for row in test], model.predict(X[test]))
Path("predicted").mkdir(exist_ok=True)
for file, mesh in zip(doe["file"][test], meshes, strict=True):
    mesh.write(f"predicted/{file}")  # with mises, mises_true and mises_error
write_report("report.html", model, X[test], y[test], train=(X[train], y[train]), meshes=meshes, model_path="model.skop")
