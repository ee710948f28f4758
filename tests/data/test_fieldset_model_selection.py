"""FieldSets through scikit-learn's splitters, searches and curves."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    train_test_split,
)

from skop import FieldSet
from skop.data import unit_grid


class NeighbourRegressor(RegressorMixin, BaseEstimator):
    """Predict the target of the training sample whose fields are nearest; a stand-in for an operator."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, y):
        assert type(X) is FieldSet
        assert type(y) is FieldSet
        self.X_, self.y_ = X, y
        return self

    def predict(self, X):
        assert type(X) is FieldSet
        means = [np.array([values.mean() for values in fields.to_list()]) for fields in (X, self.X_)]
        nearest = np.abs(means[0][:, None] - means[1][None]).argmin(axis=1)
        found = self.y_[nearest]
        return found.with_values(found.values * self.scale)

    def score(self, X, y):
        truth = np.array([values.mean() for values in y.to_list()])
        return -float(np.abs(truth - [values.mean() for values in self.predict(X).to_list()]).mean())


def data_of(kind):
    """Inputs and targets of twelve samples; the target is twice the input."""
    numbers = np.arange(12.0)
    if kind == "ragged":
        rng = np.random.default_rng(0)
        coords = [rng.random((2 + i % 3, 2)) for i in range(12)]
        fields = [np.full((len(points), 1), value) for points, value in zip(coords, numbers, strict=True)]
        return FieldSet(coords, fields), FieldSet(coords, [2 * field for field in fields])
    coords = unit_grid((5,)) if kind == "shared" else np.stack([unit_grid((5,))] * 12) * (1 + numbers[:, None, None])
    values = np.broadcast_to(numbers[:, None, None], (12, 5, 1)).copy()
    return FieldSet(coords, values), FieldSet(coords, 2 * values)


@pytest.fixture(params=["shared", "own", "ragged"])
def samples(request):
    return data_of(request.param)


def numbers_in(fields):
    return [float(values[0, 0]) for values in fields.to_list()]


def test_train_test_split_keeps_the_class(samples):
    X_train, X_test, y_train, y_test, numbers, _ = train_test_split(*samples, np.arange(12.0), random_state=0)
    for part in (X_train, X_test, y_train, y_test):
        assert type(part) is FieldSet
    assert (len(X_train), len(X_test)) == (9, 3)
    assert numbers_in(X_train) == numbers.tolist()
    assert numbers_in(y_test) == [2 * number for number in numbers_in(X_test)]


def test_splitters_take_the_samples(samples):
    X, y = samples
    groups = np.arange(12) // 4
    for train, test in GroupKFold(3).split(X, y, groups):
        assert not set(groups[train]) & set(groups[test])
        assert numbers_in(X[test]) == test.tolist()
    held_out = np.concatenate([test for _, test in KFold(4, shuffle=True, random_state=0).split(X)])
    assert sorted(held_out) == list(range(12))


def test_cross_validation_keeps_class_and_order(samples):
    X, y = samples
    folds = KFold(4, shuffle=True, random_state=0)
    scores = cross_val_score(NeighbourRegressor(), X, y, cv=folds)
    by_hand = [NeighbourRegressor().fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds.split(X)]
    np.testing.assert_allclose(scores, by_hand)
    predicted = cross_val_predict(NeighbourRegressor(), X, y, cv=folds)
    assert type(predicted) is FieldSet
    expected = np.zeros(12)
    for a, b in folds.split(X):
        expected[b] = numbers_in(NeighbourRegressor().fit(X[a], y[a]).predict(X[b]))
    assert numbers_in(predicted) == expected.tolist()


def test_searches_and_curves_run(samples):
    X, y = samples
    search = GridSearchCV(NeighbourRegressor(), {"scale": [3.0, 1.0, 0.1]}, cv=3).fit(X, y)
    assert search.best_params_ == {"scale": 1.0}
    assert type(search.predict(X[:2])) is FieldSet
    halving = HalvingGridSearchCV(NeighbourRegressor(), {"scale": [3.0, 1.0]}, cv=2, min_resources=4, random_state=0)
    assert halving.fit(X, y).best_params_ == {"scale": 1.0}
    sizes, _, scores = learning_curve(NeighbourRegressor(), X, y, cv=3, train_sizes=[4, 8])
    assert sizes.tolist() == [4, 8]
    assert np.isfinite(scores).all()


@pytest.mark.exhaustive
def test_parallel_search_equals_serial_search():
    X, y = data_of("ragged")
    grid = {"scale": [3.0, 1.0]}
    results = [GridSearchCV(NeighbourRegressor(), grid, cv=3, n_jobs=jobs).fit(X, y).cv_results_ for jobs in (1, 2)]
    np.testing.assert_array_equal(results[0]["mean_test_score"], results[1]["mean_test_score"])


def test_numpy_is_told_what_a_field_set_is():
    fields = FieldSet(np.zeros((5, 2)), np.zeros((3, 5, 1)))
    with pytest.raises(TypeError, match=r"FieldSet\(3 samples, 5 points .* came where an array is expected"):
        np.asarray(fields)
