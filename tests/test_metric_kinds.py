"""One number for each sample is a scalar, in whichever form it comes."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV

from skop.exceptions import FieldDataError
from skop.metrics import h1_error, neg_relative_l2_scorer, relative_l2_error, relative_l2_score, root_mean_squared_error

U, V = np.random.default_rng(0).normal(1.0, 1.0, (2, 8))


def test_one_number_for_each_sample_is_a_scalar_in_either_order():
    expected = np.linalg.norm(V - U) / np.linalg.norm(U)
    # As fields of one point they would have another error.
    assert relative_l2_error(U[:, None], V[:, None]) != pytest.approx(expected, rel=0.1)
    for true, predicted in (
        (U, V),
        (U, V[:, None]),
        (U[:, None], V),
        (U[:, None, None], V),
        (list(U[:, None]), list(V)),
    ):
        assert relative_l2_error(true, predicted) == pytest.approx(expected)
        assert relative_l2_score(true, predicted) == pytest.approx(1 - expected)
        assert root_mean_squared_error(true, predicted) == pytest.approx(np.sqrt(((V - U) ** 2).mean()))


def test_scalars_are_no_fields():
    for true, predicted, name in ((U, V[:, None], "y_true"), (U[:, None], V, "y_pred")):
        with pytest.raises(FieldDataError, match=f"kind is 'field', but {name} is 1-D.*leave kind out"):
            relative_l2_error(true, predicted, kind="field")
    fields = np.ones((8, 5, 4, 1))
    for pair in ((fields, V), (V, fields)):
        with pytest.raises(FieldDataError, match="expected the same"):
            relative_l2_error(*pair)
        with pytest.raises(FieldDataError, match="expected the same"):
            h1_error(*pair)


def test_searches_score_models_that_drop_the_axis_of_one_target():
    X = np.random.default_rng(1).normal(size=(30, 2))
    y = X[:, :1] * X[:, 1:]
    model = RandomForestRegressor(5, random_state=0).fit(X, y[:, 0])
    assert model.predict(X).ndim == 1
    assert neg_relative_l2_scorer(model, X, y) == pytest.approx(neg_relative_l2_scorer(model, X, y[:, 0]))
    search = GridSearchCV(
        RandomForestRegressor(5, random_state=0), {"max_depth": [1, 8]}, scoring=neg_relative_l2_scorer
    )
    # The forest warns of an axis that it takes off.
    with pytest.warns(UserWarning, match="column-vector"):
        search.fit(X, y)
    expected = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(search.fit(X, y[:, 0]).cv_results_["mean_test_score"], expected)
    assert search.best_params_ == {"max_depth": 8}
