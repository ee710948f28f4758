"""Samples with 1 to 1,000 points in one set: independence of mates, order and packing; containers; weights; tools."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from skop import AMORegressor, FieldSet, LaMORegressor, MNORegressor, PODRegressor
from skop.exceptions import FieldDataError, SkopWarning
from skop.metrics import relative_l2_score
from skop.parts import GNOT, GalerkinTransformer, LatentAttention, LatentTokens, OFormer

SIZES = (40, 1, 7, 1000, 2, 19, 7, 300)
SMALL = (12, 7, 1, 20, 9, 12)
TOLERANCES = {"float32": 1e-6, "float64": 1e-12}


def small(**params):
    tiny = {
        "width": 8,
        "depth": 1,
        "latents__n_tokens": 4,
        "latents__n_heads": 2,
        "batch_size": 4,
        "max_iter": 1,
        "random_state": 0,
    }
    return LaMORegressor().set_params(**(tiny | params))


def amo(latents, **params):
    tiny = {"width": 8, "depth": 1, "latents__n_heads": 2, "mixer__n_poles": 3, "random_state": 0}
    return AMORegressor(latents=latents(n_tokens=4)).set_params(**(tiny | params))


def mno(host, **params):
    return MNORegressor(host=host(), width=8, depth=1, random_state=0).set_params(**params)


def samples(sizes=SMALL, n_channels=2, seed=0):
    """Points, input fields, parameters and target fields of each sample."""
    generator = np.random.default_rng(seed)
    points = [generator.random((size, 2)) for size in sizes]
    fields = [generator.normal(size=(size, n_channels)) for size in sizes]
    params = generator.normal(size=(len(sizes), 3))
    targets = [
        2.0 + np.sin(3 * place.sum(axis=1, keepdims=True)) + field[:, :1]
        for place, field in zip(points, fields, strict=True)
    ]
    return points, fields, params, targets


def flat(prediction):
    if isinstance(prediction, FieldSet):
        return np.ravel(prediction.values)
    return np.concatenate([np.ravel(item[1] if isinstance(item, tuple) else item) for item in prediction])


def assert_near(actual, expected, tolerance):
    actual, expected = np.ravel(actual), np.ravel(expected)
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


# ---------------------------------------------------------------------- independence
CASES = [
    *((small, *case) for case in (("float32", False), ("float64", False), ("float32", True), ("float64", True))),
    *((partial(mno, host), "float64", False) for host in (GNOT, GalerkinTransformer, OFormer)),
    (partial(mno, GNOT), "float32", True),
    (partial(amo, LatentTokens), "float64", False),
    (partial(amo, LatentAttention), "float32", True),
]


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    """A model of fields and parameters on samples of very different sizes."""
    make, dtype, deterministic = request.param
    points, fields, params, targets = samples(SIZES)
    model = make(dtype=dtype, training__deterministic=deterministic, max_iter=1)
    return model.fit(FieldSet(points, fields, params=params), FieldSet(points, targets)), dtype, deterministic


def test_mates_do_not_matter(fitted):
    model, dtype, deterministic = fitted
    points, fields, params, _ = samples(SIZES)
    whole = model.predict(FieldSet(points, fields, params=params)).to_list()
    assert [len(values) for values in whole] == list(SIZES)
    assert np.isfinite(np.concatenate(whole)).all()
    scale = np.where(np.arange(len(SIZES)) == 0, 1.0, 1e3)
    louder = FieldSet(
        points, [field * by for field, by in zip(fields, scale, strict=True)], params=params * scale[:, None]
    )
    beside_loud = model.predict(louder).to_list()[0]
    reversed_order = model.predict(FieldSet(points, fields, params=params)[::-1]).to_list()[::-1]
    for i, expected in enumerate(whole):
        alone = model.predict(FieldSet([points[i]], [fields[i]], params=params[[i]])).values
        for actual in (alone, reversed_order[i]):
            if deterministic:
                np.testing.assert_array_equal(np.ravel(actual), np.ravel(expected))
            assert_near(actual, expected, TOLERANCES[dtype])
    if deterministic:
        np.testing.assert_array_equal(beside_loud, whole[0])
    assert_near(beside_loud, whole[0], TOLERANCES[dtype])


def test_batch_size_does_not_change_predictions(fitted):
    model, dtype, deterministic = fitted
    points, fields, params, _ = samples(SIZES)
    inputs = FieldSet(points, fields, params=params)
    before = model.predict(inputs).values
    other = pickle.loads(pickle.dumps(model)).set_params(batch_size=1)
    after = other.predict(inputs).values
    if deterministic:
        np.testing.assert_array_equal(after, before)
    assert_near(after, before, TOLERANCES[dtype])


def test_order_of_points_is_followed_bit_by_bit(fitted):
    model, _, _ = fitted
    points, fields, params, _ = samples(SIZES)
    generator = np.random.default_rng(1)
    orders = [generator.permutation(size) for size in SIZES]
    mixed_points, mixed_fields = (
        [item[order] for item, order in zip(part, orders, strict=True)] for part in (points, fields)
    )
    expected = model.predict(FieldSet(points, fields, params=params)).to_list()
    actual = model.predict(FieldSet(mixed_points, mixed_fields, params=params)).to_list()
    for found, right, order in zip(actual, expected, orders, strict=True):
        np.testing.assert_array_equal(found, right[order])


@pytest.mark.parametrize("sizes", [SMALL, (9, 9, 9, 9)])
def test_fit_does_not_depend_on_the_order_of_points(sizes):
    points, fields, _, targets = samples(sizes)
    generator = np.random.default_rng(1)
    orders = [generator.permutation(size) for size in sizes]
    mixed = [[item[order] for item, order in zip(part, orders, strict=True)] for part in (points, fields, targets)]
    model = small(dtype="float64").fit(list(zip(points, fields, strict=True)), targets)
    other = small(dtype="float64").fit(list(zip(*mixed[:2], strict=True)), mixed[2])
    expected = flat(model.predict(list(zip(points, fields, strict=True))))
    assert_near(flat(other.predict(list(zip(points, fields, strict=True)))), expected, 1e-9)


def test_order_of_points_at_equal_places():
    """Points may repeat, with other fields; their order must not matter either."""
    points, fields, _, targets = samples()
    points[0][:6] = points[0][6:]
    pairs = list(zip(points, fields, strict=True))
    model = small(max_iter=1).fit(pairs, targets)
    order = np.random.default_rng(1).permutation(12)
    mixed = [(points[0][order], fields[0][order]), *pairs[1:]]
    np.testing.assert_array_equal(model.predict(mixed)[0], model.predict(pairs)[0][order])


def test_order_of_shared_points():
    generator = np.random.default_rng(0)
    points, fields = generator.random((15, 2)), generator.normal(size=(5, 15, 2))
    model = small(max_iter=1).fit((points, fields), fields[..., :1])
    order = generator.permutation(15)
    expected = model.predict((points, fields))
    np.testing.assert_array_equal(model.predict((points[order], fields[:, order])), expected[:, order])


# ---------------------------------------------------------------------- containers


@pytest.mark.parametrize("single", [False, True])
def test_score_is_the_mean_relative_error_of_samples(single):
    points, _, _, targets = samples()
    y = [item[:, 0] for item in targets] if single else targets
    model = small(max_iter=1).fit(points, y)
    errors = [
        np.linalg.norm(found - true) / np.linalg.norm(true)
        for found, true in zip(model.predict(points), y, strict=True)
    ]
    assert model.score(points, y) == pytest.approx(1 - np.mean(errors), rel=1e-6)
    assert model.score_channels(points, y) == {"channel 0": pytest.approx(1 - np.mean(errors), rel=1e-6)}
    weight = np.arange(1.0, 7)
    expected = 1 - np.average(errors, weights=weight)
    assert model.score(points, y, sample_weight=weight) == pytest.approx(expected, rel=1e-6)
    assert relative_l2_score(y, model.predict(points)) == pytest.approx(1 - np.mean(errors), rel=1e-6)


@pytest.mark.parametrize("n_channels", [1, 2])
def test_metrics_take_every_form_of_predictions(n_channels, subtests):
    """Points that come with the fields are no values, even if there are as many coordinates as channels."""
    for form, wrap in {
        "pairs": lambda points, fields: list(zip(points, fields, strict=True)),
        "tuple of lists": lambda points, fields: (points, fields),
        "tuple": lambda points, fields: (np.stack(points), np.stack(fields)),
        "FieldSet": FieldSet,
    }.items():
        points, _, _, _ = samples((12, 12, 12) if form == "tuple" else SMALL)
        truth, found = ([k + np.repeat(item[:, :1], n_channels, axis=1) for item in points] for k in (1, 2))
        with subtests.test(form):
            score = relative_l2_score(wrap(points, truth), wrap(points, found))
            assert score == pytest.approx(relative_l2_score(truth, found), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scalars_have_the_type_of_the_field(dtype):
    points, _, params, targets = samples()
    y = FieldSet(points, [item.astype(dtype) for item in targets], params=params.astype(dtype))
    found = small(max_iter=1).fit(points, y).predict(points)
    assert (found.values.dtype, found.params.dtype) == (dtype, dtype)


def test_equal_sizes_warn_in_the_fit_only():
    points, _, _, targets = samples((9, 9, 9))
    with pytest.warns(SkopWarning, match=r"list of arrays of shape \(9, 2\)"):
        model = small(max_iter=1).fit(points, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(points)
        model.score(points, targets)
        small(max_iter=1, base=None).fit([(item, None) for item in points], targets)


def test_a_fold_of_equal_sizes_is_still_ragged_data():
    """X as a list and y as a ragged FieldSet may be cut so that all samples have as many points."""
    points, fields, _, targets = samples((12, 12, 12, 7))
    pairs = list(zip(points, fields, strict=True))
    y = FieldSet(points, targets)
    model = small(max_iter=1).fit(pairs[:3], y[:3])
    assert np.isfinite(model.score(pairs[3:], y[3:]))
    other = small(max_iter=1).fit(FieldSet(points, fields)[:3], list(zip(points, targets, strict=True))[:3])
    np.testing.assert_array_equal(flat(other.predict(pairs)), flat(model.predict(pairs)))


# ---------------------------------------------------------------------- scikit-learn's tools


def test_warm_start_continues_on_other_ragged_samples():
    points, _, _, targets = samples()
    model = small(warm_start=True).fit(points, targets)
    model.fit(points[:4], targets[:4])
    assert model.n_iter_ == 2
    with pytest.raises(FieldDataError, match="warm_start"):
        model.fit(points, np.arange(6.0))


def test_early_stopping_validates_by_the_score():
    points, fields, _, targets = samples(SMALL * 2)
    pairs = list(zip(points, fields, strict=True))
    model = small(early_stopping=True, training__validation_fraction=0.25, max_iter=3, training__ema_decay=None).fit(
        pairs, targets
    )
    assert len(model.validation_scores_) == 3
    assert np.isfinite(model.validation_scores_).all()


def test_weight_zero_is_left_out(subtests):
    for n_samples in [6, 17]:
        for early_stopping in [False, True]:
            with subtests.test(n_samples=n_samples, early_stopping=early_stopping):
                points, fields, _, targets = samples((SMALL * 3)[:n_samples])
                pairs = list(zip(points, fields, strict=True))
                weight = np.ones(n_samples)
                weight[[0, 3]] = 0.0
                kept = np.flatnonzero(weight)
                model = small(early_stopping=early_stopping)
                weighted = clone(model).fit(pairs, targets, sample_weight=weight)
                without = clone(model).fit([pairs[i] for i in kept], [targets[i] for i in kept])
                np.testing.assert_array_equal(flat(weighted.predict(pairs)), flat(without.predict(pairs)))


def test_pod_names_the_way_out():
    points, _, _, targets = samples()
    with pytest.raises(FieldDataError, match=r"same points in every sample.*grid='auto'"):
        PODRegressor(grid=None).fit(points, targets)
