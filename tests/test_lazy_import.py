"""`import skop` is quick, and yet everything public is there after it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skop

#: A model of each operator and of each of its parts.
FILES = Path(__file__).with_name("estimators") / "files"
ALONE = """
import json, sys
import skop
given = json.loads(sys.argv[2])
slow = [name for name in ("torch", "sklearn", "scipy", "numpy") if name in sys.modules]
names = set(dir(skop))
are_listed = names >= skop._PACKAGES | set(skop.__all__)
for name in ("muon", "adamw"):
    model = skop.LaMORegressor(max_iter=1, width=8, verbose=False).set_params(training__optimizer=name)
    model.fit(given, given)
loaded, *others = [skop.load(path) for path in (sys.argv[1], *sys.argv[3:])]
# PyTorch's compiler and its algebra, whose import takes longer than many fits, and than any of these loads.
slow += [name for name in ("torch._dynamo", "sympy") if name in sys.modules]
slow += [name for name in ("dask", "distributed", "ray") if name in sys.modules]
packages = [hasattr(getattr(skop, name), "__all__") for name in sorted(skop._PACKAGES)]
found = loaded.predict(given).tolist()
print(json.dumps([slow, are_listed, found, packages, skop.metrics.relative_l2_error.__name__]))
"""


def test_the_import_alone_is_light_and_gives_everything(tmp_path):
    """So are a first fit and loads of each operator; and a model that is loaded elsewhere predicts the same."""
    X = np.random.default_rng(0).normal(size=(3, 4, 4, 1))
    model = skop.LaMORegressor(width=8, depth=1, max_iter=1, random_state=0, device="cpu").fit(X, X)
    model.save(tmp_path / "model.skop")
    command = [sys.executable, "-W", "ignore", "-c", ALONE, str(tmp_path / "model.skop"), json.dumps(X.tolist())]
    files = sorted(map(str, FILES.rglob("*.skop")))
    assert len(files) > 40
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=True)
    slow, are_listed, found, packages, name = json.loads(done.stdout)
    assert slow == []
    assert are_listed
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-6)
    assert packages
    assert all(packages)
    assert name == "relative_l2_error"


def test_a_star_import_gives_the_public_names():
    names = {}
    exec("from skop import *", names)
    assert set(skop.__all__) <= set(names)
    assert names["LaMORegressor"] is skop.estimators.LaMORegressor


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'skop' has no attribute 'LamoRegressor'"):
        skop.LamoRegressor  # noqa: B018
    with pytest.raises(ImportError, match="LamoRegressor"):
        exec("from skop import LamoRegressor")
