"""Laws of estimators whose targets are a field and scalars beside it."""

import pickle

import meshio
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import skop
from skop import ConformalRegressor, FieldSet, LaMORegressor
from skop.data import read_meshes
from skop.estimators import EnsembleRegressor, PODRegressor
from skop.exceptions import FieldDataError
from skop.metrics import neg_max_error_scorer, neg_relative_l2_scorer


def tiny(**changes):
    """An estimator that fits in a moment."""
    options = {"width": 8, "depth": 1, "latents__n_tokens": 4, "latents__n_heads": 2, "max_iter": 3}
    return LaMORegressor().set_params(**(options | {"batch_size": 4, "random_state": 0} | changes))


def samples(ragged=True, n_samples=8, factor=1.0):
    """Inputs, and targets with two scalars beside a field of two named channels."""
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 12, n_samples) if ragged else np.full(n_samples, 9)
    points = [generator.random((size, 2)) for size in sizes]
    params = generator.random((n_samples, 1))
    fields = [1 + np.concatenate([item, item * p], axis=1)[:, [0, 2]] for item, p in zip(points, params, strict=True)]
    scalars = np.concatenate([3 + params, factor * (1 + params**2)], axis=1)
    coords, values = (points, fields) if ragged else (points[0], np.stack(fields))
    X = FieldSet(coords, values, params=params)
    return X, FieldSet(coords, values, params=scalars, channel_names=["u", "v"])


def test_both_are_learnt():
    X, y = samples()
    start = tiny(max_iter=1).fit(X, y)
    fitted = tiny(max_iter=40, learning_rate_init=2e-2, training__ema_decay=None).fit(X, y)
    before, after = start.score_channels(X, y), fitted.score_channels(X, y)
    assert set(after) == {"u", "v", "scalar 0", "scalar 1"}
    spread = np.std(y.params, axis=0)
    error = np.sqrt(np.mean((fitted.predict(X).params - y.params) ** 2, axis=0))
    assert (error < 0.5 * spread).all()
    assert after["u"] > before["u"]


@pytest.mark.parametrize("estimator", [tiny(), PODRegressor(n_components=2), EnsembleRegressor(tiny(), n_members=2)])
def test_the_score_is_the_mean_of_both(estimator):
    X, y = samples(ragged=False)
    X = X if not isinstance(estimator, PODRegressor) else np.asarray(X.params)
    fitted = estimator.fit(X, y)
    prediction = fitted.predict(X)
    difference = np.linalg.norm((prediction.values - y.values).reshape(8, -1), axis=1)
    field = 1 - np.mean(difference / np.linalg.norm(y.values.reshape(8, -1), axis=1))
    scalars = 1 - np.linalg.norm(prediction.params - y.params) / np.linalg.norm(y.params)
    assert fitted.score_physical(X, y) == pytest.approx((field + scalars) / 2, rel=1e-5)
    assert neg_relative_l2_scorer(fitted, X, y) == pytest.approx((field + scalars) / 2 - 1, rel=1e-5)
    with pytest.raises(FieldDataError, match="predicts a field and scalars, whose errors in two units have no mean"):
        neg_max_error_scorer(fitted, X, y)
    sizes = np.sqrt(np.mean(y.values**2, axis=(0, 1)))
    errors = np.linalg.norm(((prediction.values - y.values) / sizes).reshape(8, -1), axis=1)
    field = 1 - np.mean(errors / np.linalg.norm((y.values / sizes).reshape(8, -1), axis=1))
    columns = np.linalg.norm(prediction.params - y.params, axis=0) / np.linalg.norm(y.params, axis=0)
    scalars = 1 - np.sqrt(np.mean(columns**2))
    assert fitted.score(X, y) == pytest.approx((field + scalars) / 2, rel=1e-5)
    assert set(fitted.score_channels(X, y)) == {"u", "v", "scalar 0", "scalar 1"}


def test_a_rescaled_scalar_rescales_its_prediction_alone():
    X, y = samples()
    _, large = samples(factor=1e6)
    base, scaled = (tiny(dtype="float64").fit(X, target).predict(X) for target in (y, large))
    np.testing.assert_allclose(scaled.params, base.params * [1.0, 1e6], rtol=1e-6)
    np.testing.assert_allclose(scaled.values, base.values, rtol=1e-6)


def test_weight_zero_leaves_the_scalars_out_of_the_loss():
    X, y = samples()
    other = y.with_params(y.params[::-1])
    first, second = (
        tiny(training__scalar_weight=0.0, weight_decay=0.0).fit(X, target).predict(X) for target in (y, other)
    )
    np.testing.assert_allclose(first.values, second.values, rtol=1e-5)
    weighted = tiny(training__scalar_weight=10.0).fit(X, y).predict(X)
    assert not np.allclose(weighted.values, first.values, rtol=1e-5)


def test_scalars_do_not_depend_on_point_order_or_mates():
    X, y = samples()
    fitted = tiny(dtype="float64").fit(X, y)
    expected = fitted.predict(X)
    alone = np.concatenate([fitted.predict(X[i : i + 1]).params for i in range(len(X))])
    np.testing.assert_allclose(alone, expected.params, rtol=1e-12)
    moved = FieldSet([c[::-1] for c in X.coords_list()], [v[::-1] for v in X.to_list()], params=X.params)
    np.testing.assert_array_equal(fitted.predict(moved).params, expected.params)


def test_files_and_pickles_keep_both(tmp_path):
    X, y = samples()
    fitted = tiny().fit(X, y)
    expected = fitted.predict(X)
    fitted.save(tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(fitted)), skop.load(tmp_path / "model")):
        np.testing.assert_array_equal(other.predict(X).params, expected.params)
        np.testing.assert_array_equal(other.predict(X).values, expected.values)


def test_early_stopping_and_query_points_carry_both():
    X, y = samples(ragged=False)
    fitted = tiny(early_stopping=True, training__validation_fraction=0.3).fit(X, y)
    assert np.isfinite(fitted.validation_scores_).all()
    elsewhere = fitted.predict(X, coords=X.coords[:4])
    np.testing.assert_allclose(elsewhere.params, fitted.predict(X).params, rtol=1e-5)
    np.testing.assert_allclose(elsewhere.values, fitted.predict(X).values[:, :4], rtol=1e-4)


def test_grids_carry_scalars_too():
    generator = np.random.default_rng(0)
    X = generator.random((4, 8, 8, 1))
    grid = FieldSet(skop.data.unit_grid((8, 8)), X, params=generator.random((4, 2)), grid_shape=(8, 8))
    prediction = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, grid).predict(X)
    assert prediction.params.shape == (4, 2)
    assert prediction.to_grid().shape == (4, 8, 8, 1)


def test_numbers_that_are_not_finite_are_named():
    X, y = samples()
    params = y.params.copy()
    params[2, 1] = np.nan
    with pytest.raises(FieldDataError, match="y"):
        tiny().fit(X, y.with_params(params))


def test_scoring_without_the_scalars_is_refused():
    X, y = samples()
    fitted = tiny().fit(X, y)
    for truth in (FieldSet(y.coords_list(), y.to_list()), y.to_list()):
        with pytest.raises(FieldDataError, match=r"scalar|params"):
            fitted.score(X, truth)


# ---------------------------------------------------------------------- fields of meshes, and a table beside them
@pytest.fixture
def runs(tmp_path):
    """Files of meshes with points of their own, and a table of two scalars."""
    pandas = pytest.importorskip("pandas")
    X, y = samples()
    for number in range(8):
        points = np.pad(X.coords_list()[number], ((0, 0), (0, 1)))
        meshio.Mesh(points, [], {"load": X.to_list()[number][:, 0], "u": y.to_list()[number]}).write(
            tmp_path / f"run_{number}.vtu"
        )
    files = [str(tmp_path / f"run_{number}.vtu") for number in range(8)]
    return files, pandas.DataFrame(y.params, columns=["peak", "mass"])


def on_meshes():
    return tiny(input_fields=["load"], target_fields=["u"])


def test_a_table_beside_meshes_is_the_fit_on_their_fields_and_scalars(runs, tmp_path):
    files, table = runs
    fitted = on_meshes().fit(files, table)
    read = read_meshes(files, ["load", "u"])
    X, y = read.select("load"), read.select("u").with_params(table.to_numpy())
    by_hand = tiny().fit(X, y)
    expected = by_hand.predict(X)
    fitted.save(tmp_path / "model.skop")
    for model in (fitted, skop.load(tmp_path / "model.skop")):
        meshes, scalars = model.predict(files)
        assert list(scalars.index) == files
        assert list(scalars.columns) == ["peak", "mass"]
        np.testing.assert_array_equal(scalars, expected.params)
        for mesh, values in zip(meshes, expected.to_list(), strict=True):
            np.testing.assert_array_equal(mesh.point_data["u"], values)
        assert model.score(files, table) == by_hand.score(X, y)
        assert list(model.score_channels(files, table)) == ["u_0", "u_1", "peak", "mass"]
    np.testing.assert_array_equal(
        on_meshes().fit(files, table.to_numpy()[:, 0]).predict(files)[1],
        tiny().fit(X, y.with_params(y.params[:, :1])).predict(X).params[:, 0],
    )


def test_rows_of_a_table_go_with_their_meshes(runs):
    files, table = runs
    fitted = on_meshes().fit(files, table)
    moved = table.set_axis([file.rpartition("/")[2] for file in files]).iloc[[3, 0, 7, 1, 2, 6, 5, 4]]
    pattern = files[0].replace("run_0", "run_*")
    assert on_meshes().fit(pattern, moved).score(pattern, moved) == fitted.score(files, table)
    halves = [(files[:4], table[:4]), (files[4:], table[4:])]
    scores = [on_meshes().fit(*train).score(*test) for train, test in (halves[::-1], halves)]
    assert cross_val_score(on_meshes(), files, table, cv=2).tolist() == scores
    scored = cross_val_score(on_meshes(), files, table, cv=2, scoring=neg_relative_l2_scorer, error_score="raise")
    expected = [on_meshes().fit(*train).score_physical(*test) - 1 for train, test in (halves[::-1], halves)]
    np.testing.assert_allclose(scored, expected)


def test_spreads_bands_and_parts_hold_both(runs):
    files, table = runs
    ensemble = EnsembleRegressor(on_meshes(), n_members=2, random_state=0).fit(files, table)
    mean, spread = ensemble.predict(files, return_std=True)
    assert {"u", "u_spread"} <= set(mean[0][0].point_data)
    assert spread[1].shape == mean[1].shape == table.shape
    band = ConformalRegressor(on_meshes(), coverage=0.5, random_state=0).fit(files, table)
    mean, lower, upper = band.predict_interval(files)
    assert {"u", "u_lower", "u_upper"} <= set(mean[0][0].point_data)
    assert ((lower[1] <= mean[1]) & (mean[1] <= upper[1])).all(axis=None)
    parts = skop.predict_in_parts(band, files, method="predict_interval", part_size=3)
    np.testing.assert_allclose(parts[2][1], upper[1], rtol=1e-5)
    assert len(parts[2][0]) == 8
    with pytest.raises(FieldDataError, match="no list of meshes: they came as tuple"):
        skop.predict_in_parts(band, files, method="predict_interval", output=[f"{file}.out.vtu" for file in files])


def test_tables_that_do_not_fit_meshes_are_refused(runs):
    files, table = runs
    fitted = on_meshes().fit(files, table)
    for y, words in (
        (None, "y has 0 scalars; pass the scalars as y"),
        (table[["mass", "peak"]], "bring them into this order"),
        (table["peak"], "y has 1 scalars"),
        (table[:5], "X has 8 samples and y has 5"),
    ):
        with pytest.raises(FieldDataError, match=words):
            fitted.score(files, y)
