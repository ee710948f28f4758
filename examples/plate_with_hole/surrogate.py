"""From a table of loads and a folder of meshes to a model, to predictions with errors for ParaView, and to a report."""

import sys
from pathlib import Path

import pandas as pd
from sklearn.model_selection import train_test_split

from skop import LaMORegressor
from skop.inspection import write_report

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0  # of training

doe = pd.read_csv("doe.csv")  # columns file, tension_x, tension_y
doe["file"] = "runs/" + doe["file"]
train, test = train_test_split(doe, test_size=0.2, random_state=0)

model = LaMORegressor(target_fields=["mises"], max_time=seconds, max_iter=1000, random_state=0).fit(train)
print(f"mean relative L2 error of {len(test)} runs: {1 - model.score(test):.1%}")
model.save("model.skop")

Path("predicted").mkdir(exist_ok=True)
for file, mesh in zip(test["file"], model.predict(test), strict=True):
    mesh.write(f"predicted/{Path(file).name}")  # with mises, mises_true and mises_error
write_report("report.html", model, test, train=(train, None), model_path="model.skop")
