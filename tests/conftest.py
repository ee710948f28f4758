"""Settings that must be made before SciPy and torch are imported, in every worker, and a quiet collector of garbage."""

import gc
import os

import pytest

# Without it scikit-learn skips its check of the array API.
os.environ["SCIPY_ARRAY_API"] = "1"
# Tests run in parallel processes on tiny arrays; threads would only fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave what is imported and collected, millions of objects, out of each later search for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _choice_once():
    """Do not repeat the whole choice of a PODRegressor of few samples, which changes told errors and no prediction.

    A fit then takes up to a ninth of the time. `test_told_errors` has the laws of the repeated choice. Other processes
    that a test starts repeat it.
    """
    from skop.estimators.classical import _few_samples

    with pytest.MonkeyPatch.context() as patch:
        most = _few_samples._MOST_ROWS
        patch.setattr(_few_samples, "_MOST_ROWS", 0)
        yield most


@pytest.fixture
def choice_repeated(monkeypatch, _choice_once):
    """Repeat it, as a user's fit does."""
    monkeypatch.setattr("skop.estimators.classical._few_samples._MOST_ROWS", _choice_once)
