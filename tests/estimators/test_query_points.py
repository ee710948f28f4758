"""Laws of predictions at points other than the samples' own."""

import meshio
import numpy as np
import pytest
from sklearn.base import clone

from skop import ConformalRegressor, FieldSet, LaMORegressor
from skop.data import unit_grid
from skop.estimators import PODRegressor
from skop.exceptions import FieldDataError


def tiny(**changes):
    """An estimator that fits in a moment."""
    options = {"width": 8, "depth": 1, "latents__n_tokens": 4, "latents__n_heads": 2, "max_iter": 2}
    return LaMORegressor().set_params(**(options | {"batch_size": 2, "random_state": 0, "dtype": "float64"} | changes))


def ragged(n_dims=2):
    """Points and a smooth field on them."""
    generator = np.random.default_rng(0)
    points = [generator.random((size, n_dims)) for size in (12, 30, 9)]
    return points, [1.0 + item.sum(axis=1, keepdims=True) for item in points]


def shared(n_points=25):
    """One set of points for all samples, with fields."""
    generator = np.random.default_rng(0)
    points = generator.random((n_points, 2))
    return points, generator.random((4, n_points, 1))


def assert_close(found, expected, tolerance=1e-6):
    """Arrays or lists of arrays agree."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_own_points_give_the_prediction(subtests):
    for with_fields in [False, True]:
        for decoder in ["encoder_weights", "own_softmax"]:
            with subtests.test(with_fields=with_fields, decoder=decoder):
                points, y = ragged()
                X = list(zip(points, y, strict=True)) if with_fields else points
                fitted = tiny(latents__decoder=decoder).fit(X, y)
                expected = fitted.predict(X)
                for coords in (points, FieldSet(points), FieldSet(points, y)):
                    assert_close(fitted.predict(X, coords=coords), expected)
                assert_close(
                    fitted.predict(X, coords=[item[::-3] for item in points]), [item[::-3] for item in expected]
                )


def test_own_shared_points_give_the_prediction():
    points, fields = shared()
    X = FieldSet(points, fields)
    fitted = tiny().fit(X, FieldSet(points, 1 + fields))
    expected = fitted.predict(X).values
    for coords in (points, np.stack([points] * 4), [points] * 4, FieldSet(points, fields)):
        assert_close(fitted.predict(X, coords=coords).values, expected)
    tuple_form = tiny().fit((points, fields), (points, 1 + fields))
    places, found = tuple_form.predict((points, fields), coords=points[:3])
    np.testing.assert_array_equal(places, points[:3])
    assert_close(found, expected[:, :3])


def test_values_at_a_query_point_do_not_depend_on_other_query_points():
    points, y = ragged()
    fitted = tiny().fit(points, y)
    places = [0.3 + 0.4 * np.random.default_rng(3).random((size, 2)) for size in (6, 2, 9)]
    together = fitted.predict(points, coords=places)
    alone = fitted.predict(points, coords=[item[:1] for item in places])
    assert_close([item[:1] for item in together], alone, 1e-12)


def test_samples_do_not_depend_on_their_mates_at_query_points():
    points, y = ragged()
    fitted = tiny().fit(points, y)
    places = np.full((4, 2), 0.5)
    together = fitted.predict(points, coords=places)
    alone = [fitted.predict([item], coords=places)[0] for item in points]
    assert_close(together, alone, 1e-12)


def test_permuted_query_points_permute_the_prediction():
    points, y = ragged()
    fitted = tiny().fit(points, y)
    places = 0.3 + 0.4 * np.random.default_rng(3).random((6, 2))
    order = np.random.default_rng(4).permutation(6)
    expected = [item[order] for item in fitted.predict(points, coords=places)]
    assert_close(fitted.predict(points, coords=places[order]), expected, 1e-12)


def test_tables_of_parameters_are_predicted_at_other_points():
    points, fields = shared()
    X = np.random.default_rng(1).random((4, 2))
    fitted = tiny().fit(X, FieldSet(points, fields))
    assert_close(fitted.predict(X, coords=points).values, fitted.predict(X).values)
    assert fitted.predict(X, coords=points[:2]).shape == (4, 2, 1)


def test_grids_are_predicted_at_points_by_splines():
    generator = np.random.default_rng(0)
    X = generator.random((4, 8, 8, 1))
    fitted = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, X + 1)
    expected = fitted.predict(X)
    found = fitted.predict(X, coords=unit_grid((8, 8)))
    np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=1e-6)
    some = fitted.predict(X, coords=np.array([[0.5, 0.5], [0.21, 0.77], [1.0, 0.0]]))
    assert some.shape == (4, 3, 1)
    np.testing.assert_allclose(some[:, 2], expected[:, -1, 0], rtol=1e-6)


def test_targets_without_a_channel_axis_stay_so():
    X = np.random.default_rng(0).random((4, 8, 8, 1))
    fitted = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, X[..., 0])
    assert fitted.predict(X, coords=np.array([[0.5, 0.5], [0.2, 0.7]])).shape == (4, 2)
    assert fitted.predict(X, coords=np.full((4, 3, 2), 0.5)).shape == (4, 3)


def test_other_estimators_interpolate_their_fields():
    points, fields = shared()
    X = np.random.default_rng(1).random((4, 2))
    fitted = PODRegressor(n_components=2).fit(X, FieldSet(points, fields))
    assert_close(fitted.predict(X, coords=points).values, fitted.predict(X).values)


def crack():
    """Points of which ten coincide with others, on the other side of a crack, where the fields are higher."""
    generator = np.random.default_rng(0)
    points = generator.random((40, 2))
    side = np.repeat([0.0, 1.0], [40, 10])
    points, table = np.concatenate([points, points[:10]]), generator.uniform(1, 2, (20, 1))
    fields = (table * (np.sin(2 * points[:, 0]) + side))[..., None]
    return points, side, table, fields


def orders(points):
    """Rows of all points; of all in another order, in which copies come as before; of a part; and a mesh of all."""
    mesh = meshio.Mesh(np.pad(points, [(0, 0), (0, 1)]), [("vertex", np.arange(len(points))[:, None])])
    part = np.r_[3:25, 43:50]
    rows = [np.arange(len(points)), np.lexsort(points.T), part]
    return [(points[each], each) for each in rows] + [(mesh, rows[0])]


CRACKED = {
    "POD": PODRegressor(),
    "LaMO": tiny(),
    "LaMO without a base": tiny(base=None),
    "bands": ConformalRegressor(PODRegressor(), coverage=0.5, random_state=0),
}


@pytest.mark.parametrize("with_fields", [False, True], ids=["table", "fields"])
@pytest.mark.parametrize("model", CRACKED.values(), ids=CRACKED)
def test_both_sides_of_a_crack_keep_their_own_values(model, with_fields):
    points, side, table, fields = crack()
    X = FieldSet(points, np.repeat(side[None, :, None], 20, axis=0), params=table) if with_fields else table
    model = clone(model).fit(X, FieldSet(points, fields))
    ask = getattr(model, "predict_interval", lambda *given, **options: [model.predict(*given, **options)])
    expected = [part.values for part in ask(X[:3])]
    for coords, rows in orders(points):
        for found, own in zip(ask(X[:3], coords=coords), expected, strict=True):
            np.testing.assert_allclose(found.values, own[:, rows], rtol=0, atol=1e-12)


def test_both_sides_of_a_crack_keep_their_own_values_on_the_mesh_of_the_fit():
    points, _, table, fields = crack()
    mesh = orders(points)[-1][0]
    model = PODRegressor().fit(table, (mesh, fields))
    for found, own in zip(model.predict(table, coords=mesh), fields, strict=True):
        np.testing.assert_allclose(found.point_data["prediction"], own[:, 0], atol=1e-12)


def bad_coords():
    """Query points that cannot be used, and what the message says."""
    inside = np.full((4, 2), 0.5)
    return {
        "outside": (np.vstack([inside, [[3.0, 0.5]]]), "query point 4 of sample 0 has coordinate 0 = 3"),
        "NaN": (np.vstack([inside, [[0.5, np.nan]]]), "NaN|finite|nan"),
        "dimensions": (np.full((4, 3), 0.5), "space dimensions"),
        "count": ([inside, inside], "2 samples, X has 3"),
        "empty": (np.zeros((0, 2)), "no points"),
        "empty sample": ([inside, np.zeros((0, 2)), inside], "no points"),
        "one axis": (np.array([0.5, 0.5]), "shape"),
        "empty list": ([], "shape|no points"),
        "text": ("middle", "no file 'middle'"),
        "ragged rows": ([[0.5, 0.5], [0.5]], "coords"),
        "mixed": ([inside, None, inside], "coords"),
        "mixed axes": ([inside, np.array([0.5, 0.5]), inside], "coords"),
    }


def test_bad_query_points_are_named(subtests):
    points, y = ragged()
    fitted = tiny(max_iter=1).fit(points, y)
    for case, (coords, message) in bad_coords().items():
        with subtests.test(case), pytest.raises(FieldDataError, match=message):
            fitted.predict(points, coords=coords)


def test_scalars_have_no_points():
    points, _ = ragged()
    fitted = tiny(max_iter=1).fit(points, np.arange(3.0))
    with pytest.raises(FieldDataError, match="scalars"):
        fitted.predict(points, coords=points)
