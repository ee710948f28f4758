"""`skop.load`: which names a model file may hold."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import skop
from skop import losses
from skop.estimators.files import _persistence


def test_every_estimator_and_option_object_can_be_loaded():
    public = {
        name: item for name, item in vars(skop).items() if inspect.isclass(item) and issubclass(item, BaseEstimator)
    }
    assert {name: _persistence._find_class(name) for name in public} == public


def test_every_public_loss_can_be_loaded():
    public = {
        name: getattr(losses, name)
        for name in losses.__all__
        if inspect.isclass(getattr(losses, name)) and not inspect.isabstract(getattr(losses, name))
    }
    assert {name: _persistence._find_class(name) for name in public} == public


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
def test_paths_of_both_kinds(tmp_path, kind):
    X, y = np.random.default_rng(0).random((6, 3)), np.arange(6.0)
    estimator = skop.LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, y)
    estimator.save(kind(tmp_path / "model.skop"))
    np.testing.assert_array_equal(skop.load(kind(tmp_path / "model.skop")).predict(X), estimator.predict(X))


def test_another_process_predicts_the_same(tmp_path):
    X = np.random.default_rng(0).normal(size=(3, 4, 4, 1))
    estimator = skop.LaMORegressor(width=8, depth=1, max_iter=1, random_state=0, device="cpu").fit(X, X)
    estimator.save(tmp_path / "model.skop")
    np.save(tmp_path / "X.npy", X)
    program = (
        "import numpy as np, skop, sys; folder = sys.argv[1]; "
        "np.save(folder + '/y.npy', skop.load(folder + '/model.skop').predict(np.load(folder + '/X.npy')))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), estimator.predict(X), rtol=1e-6)
