"""Random parts of the points in training, and the scaling of coordinates, parameters and scalars."""

import numpy as np
import pytest

import skop
from skop import EnsembleRegressor, FieldSet, LaMORegressor, MNORegressor
from skop.data import unit_grid
from skop.exceptions import FieldDataError

SIZES = (40, 7, 1, 60, 9, 40)


def small(**params):
    tiny = {"width": 8, "depth": 1, "latents__n_tokens": 4, "batch_size": 4, "max_iter": 2, "random_state": 0}
    return LaMORegressor().set_params(**(tiny | params))


def samples(sizes=SIZES):
    generator = np.random.default_rng(0)
    points = [generator.random((size, 2)) for size in sizes]
    return [(place, np.sin(place[:, :1])) for place in points], [2.0 + np.sin(3 * place[:, 1:]) for place in points]


def flat(prediction):
    return np.concatenate([np.ravel(item) for item in prediction])


class Recorder:
    """A loss that notes the sizes of what it was given."""

    def __init__(self):
        self.sizes, self.targets = [], []

    def __call__(self, prediction, target, *, sample_weight=None, grid_shape=None, spacing=None, mask=None):
        shape = prediction.shape
        counts = [shape[1]] * shape[0] if mask is None else mask.sum(dim=1).tolist()
        self.sizes.append(sorted(counts))
        self.targets.append(target.detach().clone())
        return ((prediction - target) ** 2).mean()

    def __sklearn_clone__(self):
        return self


def test_every_step_sees_another_part():
    X, y = samples()
    loss = Recorder()
    small(training__subsample_points=10, batch_size=6, max_iter=4, loss=loss).fit(X, y)
    assert loss.sizes == [[1, 7, 9, 10, 10, 10]] * 4
    assert len({target.sum().item() for target in loss.targets}) == 4


def test_draws_are_reproducible():
    X, y = samples()
    model = small(training__subsample_points=10)
    first, second, other = (model.set_params(random_state=seed).fit(X, y).predict(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(flat(first), flat(second))
    assert not np.array_equal(flat(first), flat(other))


def test_draws_do_not_depend_on_the_order_of_points():
    X, y = samples()
    generator = np.random.default_rng(1)
    orders = [generator.permutation(size) for size in SIZES]
    mixed = [(place[order], field[order]) for (place, field), order in zip(X, orders, strict=True)]
    truth = [item[order] for item, order in zip(y, orders, strict=True)]
    model = small(training__subsample_points=10, dtype="float64")
    expected = flat(model.fit(X, y).predict(X))
    np.testing.assert_allclose(flat(model.fit(mixed, truth).predict(X)), expected, rtol=1e-9)


def test_more_points_than_there_are_change_nothing():
    X, y = samples()
    # One batch: the order of the samples, for which both draw other random numbers, does not count.
    model = small(batch_size=6, max_iter=1)
    losses = [model.set_params(training__subsample_points=n).fit(X, y).loss_curve_[0] for n in (None, 60)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_draws_of_all_kinds(subtests):
    for loss in ["relative_l2", "mse"]:
        for form in ["own", "shared", "scalars", "both", "grid", "weights", "early"]:
            with subtests.test(loss=loss, form=form):
                generator = np.random.default_rng(0)
                points, values = generator.random((5, 30, 2)), 1 + generator.random((5, 30, 1))
                options, fitting = {"training__subsample_points": 8, "loss": loss}, {}
                X, y = FieldSet(points, values), FieldSet(points, values)
                if form == "shared":
                    X = y = FieldSet(points[0], values)
                elif form == "scalars":
                    y = np.arange(5.0)
                elif form == "both":
                    y = y.with_params(np.arange(5.0)[:, None])
                elif form == "grid":
                    X = y = 1 + generator.random((5, 6, 5, 1))
                    options["geometry"] = "points"
                elif form == "weights":
                    fitting = {"sample_weight": [1, 0, 1, 2, 1]}
                elif form == "early":
                    options |= {"early_stopping": True, "training__validation_fraction": 0.4}
                model = small(**options).fit(X, y, **fitting)
                assert np.isfinite(model.loss_curve_).all()
                assert np.isfinite(model.score(X, y))


def test_draws_of_a_grid_are_refused():
    grid = np.ones((4, 5, 5, 1))
    bent = FieldSet(unit_grid((5, 5)) @ np.array([[1.0, 0.3], [0.2, 1.0]]), np.ones((4, 25, 1)), grid_shape=(5, 5))
    for X in (grid, bent):
        with pytest.raises(FieldDataError, match="training__subsample_points=5"):
            small(training__subsample_points=5).fit(X, X)
    model = small(training__subsample_points=5, geometry="points").fit(bent, bent)
    assert model.predict(bent).shape == (4, 25, 1)


def test_draws_without_latent_tokens_are_refused():
    with pytest.raises(ValueError, match=r"training__subsample_points=3 is for .*, and MNORegressor reads all"):
        MNORegressor(max_iter=1).set_params(training__subsample_points=3).fit(*samples())


def test_predictions_use_all_points():
    X, y = samples()
    model = small(training__subsample_points=3).fit(X, y)
    assert [item.shape for item in model.predict(X)] == [item.shape for item in y]
    np.testing.assert_array_equal(flat(model.predict(X)), flat(model.predict(X)))


def test_members_of_an_ensemble_draw_for_themselves():
    X, y = samples()
    model = EnsembleRegressor(small(training__subsample_points=5), n_members=2, random_state=0)
    _, spread = model.fit(X, y).predict(X, return_std=True)
    assert flat(spread).any()


# ---------------------------------------------------------------------- scaling
def test_units_of_inputs_and_parameters_do_not_matter():
    X, y = samples()
    points, fields = [place for place, _ in X], [field for _, field in X]
    params = np.random.default_rng(0).normal(size=(6, 2))

    def predicted(place, field, number, **modes):
        inputs = FieldSet([place * item for item in points], [field * item for item in fields], params=number * params)
        return flat(small(dtype="float64", **modes).fit(inputs, y).predict(inputs))

    for mode in ("box", "standard"):
        expected = predicted(1.0, 1.0, 1.0, scaling__coords=mode, latents__n_centred_heads=0)
        found = predicted(
            np.array([1e-3, 1e4]), 1e6, np.array([1e-5, 1e5]), scaling__coords=mode, latents__n_centred_heads=0
        )
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert not np.allclose(
        predicted(1.0, 1.0, 1.0, scaling__coords=None, latents__n_centred_heads=0),
        predicted(9.0, 1.0, 1.0, scaling__coords=None, latents__n_centred_heads=0),
    )
    assert not np.allclose(
        predicted(1.0, 1.0, 1.0, scaling__params=None), predicted(1.0, 1.0, 9.0, scaling__params=None)
    )


def test_modes_of_the_fitted_scalers():
    X, y = samples()
    points = np.concatenate([place for place, _ in X])
    box, standard, bare = (
        small(scaling__coords=mode, latents__n_centred_heads=0).fit(X, y).scalers_.coords
        for mode in ("box", "standard", None)
    )
    np.testing.assert_allclose([box.lower_, box.span_], [points.min(axis=0), np.ptp(points, axis=0)])
    np.testing.assert_allclose([standard.lower_, standard.span_], [points.mean(axis=0), points.std(axis=0)])
    np.testing.assert_array_equal([bare.lower_, bare.span_], [np.zeros(2), np.ones(2)])


@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
def test_scalars_are_weighted_against_the_field(weight):
    """The first loss is that of the untrained network, which does not depend on the weight."""
    X, y = samples()
    points = [place for place, _ in X]
    truth = FieldSet(points, y, params=np.arange(6.0)[:, None])
    options = {"batch_size": 6, "max_iter": 1}
    losses = {w: small(training__scalar_weight=w, **options).fit(X, truth).loss_curve_[0] for w in (0.0, 1.0, weight)}
    assert losses[weight] == pytest.approx(losses[0.0] + weight * (losses[1.0] - losses[0.0]), rel=1e-5)


@pytest.mark.parametrize("mode", ["box", "standard", None])
def test_scaling_is_saved(mode, tmp_path):
    X, y = samples()
    model = small(scaling__coords=mode, latents__n_centred_heads=0, scaling__params=None).fit(X, y)
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(flat(skop.load(tmp_path / "model.skop").predict(X)), flat(model.predict(X)))


def test_unknown_values_are_refused(subtests):
    for name in ["scaling__coords", "scaling__params", "training__scalar_weight", "training__subsample_points"]:
        with subtests.test(name):
            X, y = samples()
            with pytest.raises(ValueError, match=name.rpartition("__")[2]):
                small(**{name: -1}).fit(X, y)


@pytest.mark.parametrize("mode", ["standard", None])
def test_centres_in_space_need_the_box(mode):
    generator = np.random.default_rng(0)
    X = FieldSet(generator.random((4, 9, 2)))
    with pytest.raises(ValueError, match=r"n_centred_heads=2 needs coordinates.*scaling__coords='box' or"):
        small(scaling__coords=mode, latents__n_centred_heads=2).fit(X, generator.random((4, 9, 1)))


@pytest.mark.parametrize("role", ["scaling__inputs", "scaling__targets"])
def test_statistics_of_single_points_follow_the_order_of_the_points(role):
    generator = np.random.default_rng(0)
    points = generator.random((12, 2))
    level = 100.0 * np.arange(12.0)[:, None]
    fields, targets = level + generator.normal(size=(8, 12, 1)), level + generator.normal(size=(8, 12, 1))
    model = small(learning_rate_init=1e-9, scaling__inputs=None, scaling__targets=None).set_params(**{role: "point"})
    fitted = model.fit(FieldSet(points, fields), targets)
    if role == "scaling__targets":
        # Nothing is learned at this rate: what comes out is the statistics of the targets and a small remainder.
        assert np.abs(fitted.predict(FieldSet(points, fields)) - level).max() < 10
    order = generator.permutation(12)
    again = model.fit(FieldSet(points[order], fields[:, order]), targets[:, order])
    found = again.predict(FieldSet(points[order], fields[:, order]))
    model.fit(FieldSet(points, fields), targets)
    np.testing.assert_allclose(found, model.predict(FieldSet(points, fields))[:, order], rtol=1e-4, atol=1e-3)
    probe = model.predict(FieldSet(points, fields), coords=points[[3]])
    np.testing.assert_allclose(probe, model.predict(FieldSet(points, fields))[:, [3]], rtol=1e-5)
    with pytest.raises(FieldDataError, match="scaling of whole channels"):
        model.set_params(training__subsample_points=3).fit(FieldSet(points, fields), targets)
