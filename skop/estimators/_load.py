"""Load a saved estimator: the list of what a model file may name."""

from typing import Any

from skop import losses
from skop._typing import PathOrStr
from skop.estimators._geomano import GeoMaNORegressor
from skop.estimators._lamo import LaMORegressor
from skop.estimators._persistence import read_model_file, restore_estimator

__all__ = ["load"]

_ESTIMATORS = {estimator.__name__: estimator for estimator in (GeoMaNORegressor, LaMORegressor)}
_LOSSES = {
    loss.__name__: loss
    for loss in (losses.GradientRelativeL2Loss, losses.H1Loss, losses.MSELoss, losses.RelativeL2Loss)
}


def load(path: PathOrStr) -> Any:
    """Load an estimator that ``est.save(path)`` wrote.

    Nothing in the file is executed: it holds numbers and names, and only the estimators of skop can
    be named. A model fitted on a GPU loads where there is none.

    Parameters
    ----------
    path : path-like
        Model file.

    Returns
    -------
    estimator
        Fitted, with the predictions that it had when it was saved.

    Raises
    ------
    ModelFileError
        If the file is no model file, damaged, of a later format, or does not fit this version.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile, numpy as np, skop
    >>> X, y = np.random.default_rng(0).random((8, 3)), np.arange(8.0)
    >>> estimator = skop.LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     estimator.save(f"{folder}/model.skop")
    ...     loaded = skop.load(f"{folder}/model.skop")
    >>> bool((loaded.predict(X) == estimator.predict(X)).all())
    True
    """
    header, tensors = read_model_file(path)
    return restore_estimator(header, tensors, _ESTIMATORS, _LOSSES)
