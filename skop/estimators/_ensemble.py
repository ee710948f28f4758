"""EnsembleRegressor: the mean of several fits of one estimator, and their spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import check_random_state, get_tags

from skop._sklearn_compat import HasMethods, Interval, fit_context
from skop.data import FieldSet, Predictions
from skop.estimators._field import FieldRegressor

__all__ = ["EnsembleRegressor"]


class EnsembleRegressor(MetaEstimatorMixin, FieldRegressor):
    """Fit an estimator several times from different random states and average the predictions.

    On small sets a longer training of one network overfits, while the mean of several short trainings
    improves; their spread says where they disagree.

    Parameters
    ----------
    estimator : estimator
        Regressor on fields with a parameter `random_state`, such as `LaMORegressor`. Its time budget
        `max_time` is that of one member.
    n_members : int, default=5
        Fits.
    n_jobs : int or None, default=None
        Members fitted at a time, each in a process of its own; None means one after the other.
    random_state : int, RandomState instance or None, default=None
        Seed from which the members' seeds are drawn.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted members.
    n_features_in_ : int
        Columns of a table X, or channels of fields.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a DataFrame.
    spec_ : skop.data.DataSpec
        Kinds and sizes of X and y in the fit.

    See Also
    --------
    LaMORegressor : The usual member.

    Notes
    -----
    Parameters of the member are reached as ``estimator__width`` in searches.

    References
    ----------
    B. Lakshminarayanan, A. Pritzel, C. Blundell, "Simple and scalable predictive uncertainty estimation
    using deep ensembles", NeurIPS 2017.

    Examples
    --------
    >>> from skop import EnsembleRegressor, LaMORegressor
    >>> from skop.datasets import make_darcy
    >>> X, y = make_darcy(24, resolution=16, random_state=0)
    >>> member = LaMORegressor(width=16, depth=1, max_iter=5)
    >>> model = EnsembleRegressor(member, n_members=2, random_state=0).fit(X[:20], y[:20])
    >>> mean, spread = model.predict(X[20:], return_std=True)
    >>> mean.shape, spread.shape
    ((4, 16, 16, 1), (4, 16, 16, 1))
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"])],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self, estimator: Any, *, n_members: int = 5, n_jobs: int | None = None, random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit all members on the same samples.

        Parameters
        ----------
        X, y : as the member's fit takes them
            Samples.
        sample_weight : array-like of shape (n,) or None, default=None
            Weights, passed on to the members.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        FieldDataError
            If X or y cannot be used; a ValueError.
        """
        rng = check_random_state(self.random_state)
        seeds = rng.randint(np.iinfo(np.int32).max, size=self.n_members)
        members = [clone(self.estimator).set_params(random_state=int(seed)) for seed in seeds]
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.estimators_ = Parallel(n_jobs=self.n_jobs)(delayed(member.fit)(X, y, **options) for member in members)
        first = self.estimators_[0]
        self.spec_, self.coords_, self.n_features_in_ = first.spec_, first.coords_, first.n_features_in_
        if hasattr(first, "feature_names_in_"):
            self.feature_names_in_ = first.feature_names_in_
        return self

    def predict(self, X: Any, coords: Any = None, return_std: bool = False) -> Any:
        """Predict the mean of the members.

        Parameters
        ----------
        X : as in `fit`
            Inputs.
        coords : as the member's predict takes them, or None, default=None
            Points where fields are wanted; None is the points of X.
        return_std : bool, default=False
            Return the members' standard deviation too. It says where they disagree; it is no error bar.

        Returns
        -------
        mean : ndarray, list, FieldSet, (coords, fields), or list of meshes
            The kind of thing that y was in the fit.
        spread : same kind
            Standard deviation over the members, only with `return_std`.
        """
        inputs, meshes = self._read_inputs(X)
        points = inputs
        found: Sequence[Predictions]
        if coords is None:
            found = [member._predict_values(inputs) for member in self.estimators_]
        else:
            meshes = None
            found, places = zip(*(member._predict_at(inputs, coords) for member in self.estimators_), strict=True)
            points = places[0]
        form = self.spec_.target_form
        mean = form.restore(_over_members(found, np.mean), points, meshes)
        return (mean, form.restore(_over_members(found, np.std), points, meshes)) if return_std else mean

    def _predict_values(self, inputs: FieldSet) -> Predictions:
        """Mean of the members in physical units."""
        return _over_members([member._predict_values(inputs) for member in self.estimators_], np.mean)

    @property
    def _n_components(self) -> int | None:
        """Channels of a frame, where the members predict frames."""
        return self.estimators_[0]._n_components

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _over_members(predictions: Sequence[Predictions], statistic: Callable[..., Any]) -> Predictions:
    """A statistic of the members' predictions."""
    parts: list[Any] = []
    for name in ("fields", "scalars"):
        held = [getattr(prediction, name) for prediction in predictions]
        parts.append(None if held[0] is None else statistic(np.stack(held), axis=0, dtype=np.float64))
    return Predictions(*parts)
