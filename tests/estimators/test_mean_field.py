"""MeanFieldRegressor: scikit-learn's checks, the laws of field data, means at other points, scalars and meshes."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import skop
from skop import FieldSet, MeanFieldRegressor, PODRegressor
from skop.data import unit_grid
from skop.exceptions import FieldDataError
from skop.testing._suite import yield_field_checks

RANDOM = np.random.default_rng(0)
FIELDS = RANDOM.random((6, 5, 4, 2))


@pytest.mark.exhaustive
def test_scikit_learn_checks(subtests):
    for estimator, check in estimator_checks_generator(MeanFieldRegressor()):
        with subtests.test(str(check)):
            check(estimator)


def test_laws_of_field_data(subtests):
    for check in yield_field_checks(MeanFieldRegressor(), n_dims=[2], any_grid=True, point_sets=True):
        # It is the one law that a mean breaks: that the parameters make a difference.
        if check.name != "check_parameters_to_field":
            with subtests.test(str(check)):
                check(MeanFieldRegressor())


def test_it_is_the_mean_and_that_of_the_classical_model():
    found = MeanFieldRegressor().fit(FIELDS, FIELDS).predict(FIELDS[:2])
    np.testing.assert_allclose(found, np.broadcast_to(FIELDS.mean(axis=0), found.shape))
    np.testing.assert_allclose(found, PODRegressor(regressor="mean").fit(FIELDS, FIELDS).predict(FIELDS[:2]))


@pytest.mark.parametrize("y", [FIELDS, FIELDS[:, 0, 0], [field[: k + 1, 0] for k, field in enumerate(FIELDS)]])
def test_a_weight_is_a_number_of_copies(y):
    weight = np.array([0, 1, 3, 0, 2, 1])
    X = [(RANDOM.random((len(field), 2)), None) for field in y] if isinstance(y, list) else FIELDS
    copies = np.repeat(np.arange(6), weight)
    take = (lambda part: [part[k] for k in copies]) if isinstance(y, list) else (lambda part: part[copies])
    weighted, repeated = MeanFieldRegressor().fit(X, y, weight), MeanFieldRegressor().fit(take(X), take(y))
    for name in ("mean_field_", "mean_scalars_"):
        found, expected = getattr(weighted, name), getattr(repeated, name)
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_other_points_have_the_mean_field_interpolated():
    points = unit_grid((6, 6))
    X = FieldSet(points, RANDOM.random((4, 36, 1)), grid_shape=(6, 6))
    y = FieldSet(points, np.stack([scale * points[:, :1] for scale in (1.0, 2.0, 3.0, 6.0)]), grid_shape=(6, 6))
    model = MeanFieldRegressor().fit(X, y)
    places = RANDOM.random((7, 2))
    np.testing.assert_allclose(model.predict(X, coords=places).values[3], 3.0 * places[:, :1])
    own = RANDOM.random((4, 7, 2))
    np.testing.assert_allclose(model.predict(X, coords=own).values, 3.0 * own[..., :1])
    elsewhere = FieldSet(places, np.ones((4, 7, 1)))
    assert MeanFieldRegressor().fit(X, elsewhere).predict(X).values.shape == (4, 7, 1)


def test_samples_with_points_of_their_own_have_the_mean_of_each_channel():
    points = [RANDOM.random((count, 2)) for count in (3, 6)]
    y = FieldSet(points, [np.full((len(own), 2), [value, -value]) for own, value in zip(points, (1, 4), strict=True)])
    found = MeanFieldRegressor().fit(FieldSet(points), y).predict(FieldSet(points)).to_list()
    np.testing.assert_allclose(found[1], np.tile([3.0, -3.0], (6, 1)))


def test_scalars_files_and_refusals(tmp_path):
    model = MeanFieldRegressor().fit(FIELDS, np.arange(6.0))
    np.testing.assert_array_equal(model.predict(FIELDS), np.full(6, 2.5))
    with pytest.raises(FieldDataError, match="predicts scalars"):
        model.predict(FIELDS, coords=np.zeros((1, 2)))
    model = MeanFieldRegressor().fit(FIELDS, FIELDS)
    model.save(tmp_path / "mean.skop")
    np.testing.assert_array_equal(skop.load(tmp_path / "mean.skop").predict(FIELDS), model.predict(FIELDS))
