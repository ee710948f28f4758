"""ConformalRegressor: coverage against its laws, bounds against their definitions, and every form of X and y."""

import warnings
from functools import partial

import meshio
import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skop
from skop import (
    AutoRegressor,
    ConformalRegressor,
    EnsembleRegressor,
    FieldSet,
    LaMORegressor,
    LawRegressor,
    MeanFieldRegressor,
    PODRegressor,
    RolloutRegressor,
    TimeConditionedRegressor,
)
from skop.estimators.uncertainty._scores import masses
from skop.exceptions import FieldDataError, SkopWarning
from skop.inspection import evaluate

from . import pod

pytestmark = pytest.mark.filterwarnings("ignore::skop.exceptions.ExtrapolationWarning")

#: For cases that say the same at another size.
MORE = pytest.mark.exhaustive
POINTS = np.linspace(0, 1, 6)[:, None]
#: Size of the errors at each node and in each channel, which differ.
SIZES = np.outer([0.1, 0.5, 1, 2, 5, 0.2], [1.0, 30.0])


def runs(rng, count, sizes=SIZES):
    """Samples with parameters that say nothing, and fields whose nodes are correlated."""
    common = rng.standard_normal((count, 1, sizes.shape[1]))
    values = sizes * (common + rng.standard_normal((count, *sizes.shape)))
    return FieldSet(POINTS[: len(sizes)], None, params=rng.random((count, 2))), values


def as_fields(inputs, values):
    return inputs.with_values(values)


def clouds(sizes):
    """Samples with points of their own and no fields."""
    rng = np.random.default_rng(0)
    return FieldSet([rng.random((int(size), 2)) for size in sizes])


def frozen(sizes=SIZES):
    """A fitted model of these samples."""
    inputs, values = runs(np.random.default_rng(0), 20, sizes)
    return FrozenEstimator(MeanFieldRegressor().fit(inputs, as_fields(inputs, values)))


def is_inside(bounds, values):
    _, lower, upper = (np.asarray(part.values if isinstance(part, FieldSet) else part) for part in bounds)
    return (lower <= values) & (values <= upper)


def noise(rng, count):
    """Scalars that a table does not explain."""
    return rng.random((count, 2)), rng.standard_normal(count)


def expect_law(hits, n, coverage, n_new):
    """Numbers of covered samples are beta-binomial, by the bound of Dvoretzky, Kiefer and Wolfowitz at 1e-4."""
    k = int(np.ceil((n + 1) * coverage - 1e-9))
    law = betabinom(n_new, k, n + 1 - k)
    counts = np.arange(n_new + 1)
    found = (hits[:, None] <= counts).mean(axis=0)
    assert abs(found - law.cdf(counts)).max() < np.sqrt(np.log(2e4) / (2 * len(hits)))
    assert abs(hits.mean() - law.mean()) < 4 * law.std() / np.sqrt(len(hits))


@pytest.mark.parametrize(
    ("n", "coverage"), [(20, 0.9), pytest.param(100, 0.8, marks=MORE), pytest.param(500, 0.95, marks=MORE)]
)
def test_simultaneous_bands_cover_whole_fields_as_often_as_the_exact_law_says(n, coverage):
    """100 splits; a third of the held-out samples is for the scale, and n calibrate."""
    rng, hits, model = np.random.default_rng(n), [], frozen()
    for split in range(100):
        inputs, values = runs(rng, n * 3 // 2 + 300)
        held, new = slice(None, -300), slice(-300, None)
        band = ConformalRegressor(model, coverage=coverage, guarantee="simultaneous", random_state=split)
        band.fit(inputs[held], as_fields(inputs[held], values[held]))
        assert band.n_calibration_ == n
        hits.append(is_inside(band.predict_interval(inputs[new]), values[new]).all(axis=1).sum(axis=0))
    for of_channel in np.array(hits).T:
        expect_law(of_channel, n, coverage, 300)


@pytest.mark.parametrize("n", [20, pytest.param(500, marks=MORE)])
def test_bands_of_scalars_follow_the_exact_law(n):
    rng, hits = np.random.default_rng(n), []
    fitted = FrozenEstimator(LinearRegression().fit(*noise(rng, 30)))
    for split in range(100):
        X, y = noise(rng, n + 300)
        band = ConformalRegressor(fitted, random_state=split).fit(X[:n], y[:n])
        _, lower, upper = band.predict_interval(X[n:])
        hits.append(((lower <= y[n:]) & (y[n:] <= upper)).sum())
    expect_law(np.array(hits), n, 0.9, 300)


@MORE
def test_each_step_is_covered_as_often_as_the_exact_law_says():
    """Errors grow with the step, and each has a band of its own; two of three steps are asked for."""
    rng, points, n, n_new = np.random.default_rng(1), np.linspace(0, 1, 3)[:, None], 19, 100
    zero = FieldSet(points, np.zeros((4, 3, 1)))
    fitted = RolloutRegressor(MeanFieldRegressor(), window=1).fit(zero, FieldSet(points, np.zeros((4, 3, 3))))
    options = {"coverage": 0.8, "guarantee": "simultaneous", "scale": "constant", "random_state": 0}
    band, hits = ConformalRegressor(FrozenEstimator(fitted), **options), []
    for _ in range(200):
        values = [0.1, 1.0, 7.0] * rng.standard_normal((n + n_new, 3, 3))
        X = FieldSet(points, rng.standard_normal((n + n_new, 3, 1)))
        band.fit(X[:n], FieldSet(points, values[:n]))
        hits.append(is_inside(band.predict_interval(X[n:], n_steps=2), values[n:, :, :2]).all(axis=1).sum(axis=0))
    for of_step in np.array(hits).T:
        expect_law(of_step, n, 0.8, n_new)


@pytest.mark.parametrize("scale", ["residuals", pytest.param("constant", marks=MORE)])
def test_the_mean_share_of_nodes_in_pointwise_bands(scale):
    """At least the coverage, and no more than one calibration sample's mass above it."""
    rng, shares, model, n = np.random.default_rng(5), [], frozen(), 30
    for split in range(100):
        inputs, values = runs(rng, 45 + 100)
        band = ConformalRegressor(model, coverage=0.8, scale=scale, random_state=split)
        held = slice(0, 45 if scale == "residuals" else n)
        band.fit(inputs[held], as_fields(inputs[held], values[held]))
        assert band.n_calibration_ == n
        shares.append(is_inside(band.predict_interval(inputs[45:]), values[45:]).mean(axis=(0, 1)))
    mean, error = np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(100)
    assert (mean > 0.8 - 4 * error).all()
    assert (mean < 0.8 + 1 / (n + 1) + 4 * error).all()


def test_a_pointwise_band_of_one_node_is_the_simultaneous_one():
    inputs, values = runs(np.random.default_rng(1), 40, SIZES[2:3])
    model = frozen(SIZES[2:3])
    found = [
        ConformalRegressor(model, guarantee=name, random_state=0).fit(inputs, as_fields(inputs, values)).quantiles_
        for name in ("pointwise", "simultaneous")
    ]
    np.testing.assert_array_equal(found[0]["fields"], found[1]["fields"])


# ---------------------------------------------------------------------- CV+ and jackknife+
@pytest.mark.parametrize(("method", "folds"), [("cv+", 4), ("jackknife+", 24)])
def test_bounds_of_cv_plus_are_the_order_statistics_of_barber_and_others(method, folds):
    rng = np.random.default_rng(2)
    X, y = rng.random((24, 2)), rng.standard_normal(24)
    new, splitter = rng.random((7, 2)), KFold(folds)
    band = ConformalRegressor(Ridge(), method=method, cv=splitter, coverage=0.8).fit(X, y)
    mean, lower, upper = band.predict_interval(new)
    ends = []
    for train, held in splitter.split(X):
        model = Ridge().fit(X[train], y[train])
        for error in abs(y[held] - model.predict(X[held])):
            ends.append(model.predict(new) + error * np.array([[-1], [1]]))
    ends = np.sort(ends, axis=0)
    # floor(alpha (n + 1)) = 5 and ceil((1 - alpha) (n + 1)) = 20.
    np.testing.assert_allclose(lower, ends[4, 0], rtol=1e-8)
    np.testing.assert_allclose(upper, ends[19, 1], rtol=1e-8)
    np.testing.assert_array_equal(mean, Ridge().fit(X, y).predict(new))


@pytest.mark.exhaustive
@pytest.mark.parametrize("guarantee", ["pointwise", "simultaneous"])
def test_cv_plus_covers_fields_by_its_law(guarantee):
    """At least 1 - 2 alpha - sqrt(2 / n), and in fact about 1 - alpha."""
    rng, hits = np.random.default_rng(3), []
    for split in range(60):
        inputs, values = runs(rng, 40 + 50)
        band = ConformalRegressor(
            MeanFieldRegressor(), coverage=0.8, guarantee=guarantee, method="cv+", cv=4, random_state=split
        )
        band.fit(inputs[:40], as_fields(inputs[:40], values[:40]))
        inside = is_inside(band.predict_interval(inputs[40:]), values[40:])
        hits.append((inside.all(axis=1) if guarantee == "simultaneous" else inside).mean())
    assert 0.6 - np.sqrt(2 / 36) < 0.76 < np.mean(hits) < 0.88


# ---------------------------------------------------------------------- groups, weights, sizes
@pytest.mark.exhaustive
def test_the_law_of_groups_is_for_a_sample_of_a_new_group():
    """Samples of a group have nearly the same error: counted one by one they would be too many."""
    rng, hits = np.random.default_rng(6), []
    model = FrozenEstimator(LinearRegression().fit(*noise(rng, 30)))
    for split in range(200):
        X, error = rng.random((25 * 8 + 300, 2)), rng.standard_normal(25 + 300)
        y = np.concatenate([np.repeat(error[:25], 8), error[25:]])
        band = ConformalRegressor(model, coverage=0.9, random_state=split)
        band.fit(X[:200], y[:200], groups=np.repeat(np.arange(25), 8))
        assert band.n_calibration_ == 25
        _, lower, upper = band.predict_interval(X[200:])
        hits.append(((lower <= y[200:]) & (y[200:] <= upper)).sum())
    expect_law(np.array(hits), 25, 0.9, 300)


@pytest.mark.parametrize("step", [0.0, 1e-7])
@pytest.mark.parametrize("method", ["split", "cv+", "jackknife+"])
def test_bands_of_repeated_designs_are_for_a_new_design(method, step):
    # The nearest sample predicts its own repeat without an error, and a new design with one.
    covered = []
    for seed in range(8):
        X = np.random.default_rng(seed).random((24, 1))
        y = np.sin(40 * X[:, 0])
        model = ConformalRegressor(KNeighborsRegressor(1), method=method, coverage=0.6, random_state=seed)
        # Steps for finite differences are repeats too.
        model.fit(np.concatenate([X[:12] + number * step for number in range(4)]), np.tile(y[:12], 4))
        covered.append(model.score_coverage(X[12:], y[12:])["scalar 0"])
    assert np.mean(covered) > 0.5


@pytest.mark.exhaustive
def test_bands_of_a_factorial_design_are_not_for_values_between():
    design = np.array(np.meshgrid(*[np.linspace(0, 1, 5)] * 2)).reshape(2, -1).T
    with pytest.warns(SkopWarning, match="factorial design of 5 x 5 values"):
        ConformalRegressor(pod(), coverage=0.8, random_state=0).fit(design, design.sum(axis=1))
    rounded = np.round(np.random.default_rng(0).random((40, 2)), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConformalRegressor(pod(), coverage=0.8, random_state=0).fit(rounded, np.sin(rounded @ [3.0, 5.0]))


def test_weights_make_up_for_a_shift_of_the_inputs():
    """Errors grow with x, and new samples have larger x; the weights are the ratio of the densities."""
    rng, shares = np.random.default_rng(7), {True: [], False: []}
    model = FrozenEstimator(LinearRegression().fit([[0.0], [1.0]], [0.0, 0.0]))
    for split in range(100):
        x, new = rng.random(400), np.sqrt(rng.random(300))
        y, true = x * rng.standard_normal(400), new * rng.standard_normal(300)
        for weighted in shares:
            band = ConformalRegressor(model, random_state=split)
            band.fit(x[:, None], y, sample_weight=2 * x if weighted else None)
            _, lower, upper = band.predict_interval(new[:, None])
            shares[weighted].append(((lower <= true) & (true <= upper)).mean())
    assert 0.9 < np.mean(shares[True]) < 0.91
    assert np.mean(shares[False]) < 0.88


def test_samples_of_a_group_share_the_mass_of_one():
    """A new group counts as the heaviest; weights of a group are those of its samples in the mean."""
    weight = np.array([1.0, 3.0, 2.0, 5.0, 5.0, 5.0])
    mass, rest, heaviest = masses(6, weight, np.array([0, 0, 1, 2, 2, 2]))
    np.testing.assert_allclose(mass, np.array([0.5, 1.5, 2.0, 5 / 3, 5 / 3, 5 / 3]) / 14)
    assert (rest, heaviest) == (pytest.approx(5 / 14), 5.0)
    np.testing.assert_allclose(masses(3, None, None)[0], 1 / 4)


def test_samples_of_weight_zero_are_not_used():
    rng = np.random.default_rng(8)
    X, y = rng.random((60, 2)), rng.standard_normal(60)
    weight = (np.arange(60) % 3 > 0) * 1.0
    band = ConformalRegressor(Ridge(), method="cv+", random_state=0)
    found = clone(band).fit(X, y, sample_weight=weight).predict_interval(X)
    expected = clone(band).fit(X[weight > 0], y[weight > 0], np.ones(40)).predict_interval(X)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.5, 1)])
def test_too_few_calibration_samples_are_refused(coverage, needed):
    X, y = np.random.default_rng(0).random((needed, 2)), np.arange(float(needed))
    model = FrozenEstimator(LinearRegression().fit(np.eye(2), [0.0, 1.0]))
    band = ConformalRegressor(model, coverage=coverage).fit(X, y)
    assert np.isfinite(band.quantiles_["scalars"]).all()
    if needed > 1:
        with pytest.raises(FieldDataError, match=f"needs at least {needed} calibration samples, but there are"):
            band.fit(X[:-1], y[:-1])
        with pytest.raises(FieldDataError, match=f"needs at least {needed} calibration groups, but there are 2"):
            band.fit(X, y, groups=np.arange(needed) % 2)


def test_weights_that_are_too_unequal_are_refused():
    X, y = np.random.default_rng(0).random((30, 2)), np.arange(30.0)
    with pytest.raises(FieldDataError, match="too high for these sample weights"):
        ConformalRegressor(Ridge(), method="cv+").fit(X, y, sample_weight=[100.0, *np.ones(29)])


def test_the_weight_of_a_new_sample_enters_the_quantile(tmp_path):
    """The factor is the definition's: the lowest score with sum of w_i up to it >= coverage (sum w_i + w)."""
    rng = np.random.default_rng(23)
    X, y, weight = rng.random((60, 2)), rng.standard_normal(60), rng.uniform(0.5, 2, 60)
    model = LinearRegression().fit(*noise(rng, 30))
    band = ConformalRegressor(FrozenEstimator(model), coverage=0.8).fit(X, y, sample_weight=weight)
    new = np.array([0.0, 0.3, 1.0, 2.0, 5.0, weight.max()])
    mean, lower, upper = band.predict_interval(X[:6], sample_weight=new)
    scores = np.abs(y - model.predict(X))
    order = np.argsort(scores)
    sums = np.cumsum(weight[order])
    expected = [scores[order][np.flatnonzero(sums >= 0.8 * (sums[-1] + one))[0]] for one in new]
    np.testing.assert_allclose((upper - lower) / 2, expected)
    band.save(tmp_path / "band.skop")
    loaded = skop.load(tmp_path / "band.skop").predict_interval(X[:6], sample_weight=new)
    np.testing.assert_array_equal(loaded, (mean, lower, upper))
    # A new sample that counts as the heaviest one is what no weights mean.
    np.testing.assert_array_equal([part[5] for part in band.predict_interval(X[:6])], [mean[5], lower[5], upper[5]])


def test_weights_of_new_samples_on_fields(subtests):
    """Each sample has the band it would have if all had its weight, and heavier ones are wider."""
    for guarantee in ["pointwise", "simultaneous"]:
        for ragged in [False, True]:
            for method in ["split", "cv+"]:
                with subtests.test(guarantee=guarantee, ragged=ragged, method=method):
                    rng = np.random.default_rng(24)
                    inputs = clouds(rng.integers(3, 6, 60)) if ragged else runs(rng, 60)[0]
                    targets = as_fields(
                        inputs, rng.standard_normal((len(inputs.coords), 2)) if ragged else runs(rng, 60)[1]
                    )
                    options = {
                        "method": method,
                        "cv": 3,
                        "coverage": 0.6,
                        "guarantee": guarantee,
                        "calibration_size": 0.5,
                    }
                    band = ConformalRegressor(MeanFieldRegressor(), random_state=0, **options).fit(inputs, targets)
                    weight = np.array([0.0, 2.0, 6.0])
                    found = [part.to_list() for part in band.predict_interval(inputs[:3], sample_weight=weight)]
                    for row, one in enumerate(weight):
                        alone = [
                            part.to_list()[row]
                            for part in band.predict_interval(inputs[:3], sample_weight=np.full(3, one))
                        ]
                        np.testing.assert_array_equal([part[row] for part in found], alone)
                    usual = [part.to_list() for part in band.predict_interval(inputs[:3])]
                    same = [part.to_list() for part in band.predict_interval(inputs[:3], sample_weight=np.ones(3))]
                    np.testing.assert_allclose(np.concatenate(same[2]), np.concatenate(usual[2]), rtol=1e-6)
                    assert (found[2][0] < usual[2][0]).any()
                    assert (found[2][2] > usual[2][2]).any()


@pytest.mark.exhaustive
def test_weights_of_new_samples_make_up_for_a_shift_by_the_definition():
    """With the weights of new samples the coverage holds where it is only bounded without: few calibration samples."""
    rng, shares, splits = np.random.default_rng(25), {True: [], False: []}, 120
    model = FrozenEstimator(LinearRegression().fit([[0.0], [1.0]], [0.0, 0.0]))
    for split in range(splits):
        x, new = rng.random(60), np.sqrt(rng.random(200))
        y, true = x * rng.standard_normal(60), new * rng.standard_normal(200)
        band = ConformalRegressor(model, coverage=0.8, random_state=split).fit(x[:, None], y, sample_weight=2 * x)
        for own in shares:
            _, lower, upper = band.predict_interval(new[:, None], sample_weight=2 * new if own else None)
            shares[own].append(((lower <= true) & (true <= upper)).mean())
    error = np.std(shares[True]) / np.sqrt(splits)
    assert 0.8 - 4 * error < np.mean(shares[True]) <= np.mean(shares[False])
    # At most the mean mass of one sample above it.
    assert np.mean(shares[True]) < 0.8 + 2 / 60 + 4 * error


def test_weights_of_new_samples_that_cannot_be_used_are_refused():
    X, y = np.random.default_rng(26).random((19, 2)), np.arange(19.0)
    band = ConformalRegressor(FrozenEstimator(LinearRegression().fit(X, y)), coverage=0.9).fit(X, y + X[:, 0])
    with pytest.raises(FieldDataError, match=r"sample_weight\[1\] is 3, but .* a weight above 2.11 needs an infinite"):
        band.predict_interval(X[:2], sample_weight=[1, 3])
    for weight in ([1.0], [1.0, -1.0], [1.0, np.nan], np.ones((2, 1))):
        with pytest.raises(FieldDataError, match="expected one finite number of at least 0"):
            band.predict_interval(X[:2], sample_weight=weight)


# ---------------------------------------------------------------------- scales
def test_scales_follow_the_size_of_the_errors():
    rng = np.random.default_rng(9)
    inputs, values = runs(rng, 300)
    values = values * (1 + 9 * np.asarray(inputs.params)[:, :1, None])
    targets = as_fields(inputs, values)
    quiet = FieldSet(POINTS, None, params=np.array([[0.0, 0.5], [1.0, 0.5]]))

    def widths(scale):
        band = ConformalRegressor(MeanFieldRegressor(), scale=scale, calibration_size=0.6, random_state=0)
        _, lower, upper = band.fit(inputs, targets).predict_interval(quiet)
        return np.asarray(upper.values - lower.values)

    constant, residuals, learned = map(widths, ("constant", "residuals", PODRegressor(regressor="ridge")))
    assert np.ptp(constant, axis=(0, 1)).max() < 1e-9 * constant.max()
    # Twice as large errors, twice as wide; the factor of a channel is its own.
    np.testing.assert_allclose(residuals[0, 4] / residuals[0, 1], 10, rtol=0.5)
    np.testing.assert_allclose(residuals[0], residuals[1])
    assert (learned[1] > 2 * learned[0]).all()


def test_samples_of_the_scale_do_not_calibrate():
    """Another error in one of 12 samples changes either the scale, for a third of them, or nothing but the factor."""
    inputs, values = runs(np.random.default_rng(21), 12)
    model, bands = frozen(), []
    for changed in range(13):
        other = values * np.where(np.arange(12) == changed, 2.0, 1.0)[:, None, None]
        band = ConformalRegressor(model, coverage=0.8, guarantee="simultaneous", random_state=0)
        bands.append(band.fit(inputs, as_fields(inputs, other)))
    scales = [not np.array_equal(band.scales_[0], bands[-1].scales_[0]) for band in bands[:-1]]
    assert sum(scales) == 4
    assert bands[-1].n_calibration_ == 8


def test_the_spread_of_an_estimator_is_the_scale():
    rng = np.random.default_rng(10)
    X = rng.random((60, 2))
    y = np.sin(3 * X @ rng.random((2, 5))) + 0.1 * rng.random((60, 5))
    fields = (POINTS[:5], y[..., None])
    model = PODRegressor(regressor="gaussian_process").fit(X[:30], (POINTS[:5], y[:30, :, None]))
    band = ConformalRegressor(FrozenEstimator(model), scale="spread").fit(X[30:], (fields[0], fields[1][30:]))
    (_, mean), (_, lower), (_, upper) = band.predict_interval(X[:4])
    expected, spread = (part[1] for part in model.predict(X[:4], return_std=True))
    np.testing.assert_allclose(mean, expected)
    np.testing.assert_allclose((upper - lower) / 2, band.quantiles_["fields"] * spread)


def test_a_learned_scale_is_never_zero(tmp_path):
    rng = np.random.default_rng(0)
    for seed in range(3):
        X = rng.random((100, 1))
        # Errors that fall in a line, which the scale continues below zero.
        errors = np.maximum(0.5 - X, 0.01) * rng.normal(size=(100, 10))
        options = {"scale": PODRegressor(regressor="ridge"), "calibration_size": 0.6, "random_state": seed}
        band = ConformalRegressor(PODRegressor(regressor="mean"), coverage=0.8, **options).fit(X, errors[..., None])
        (lowest,) = band.lowest_scales_
        np.testing.assert_allclose(lowest["fields"], 0.01 / 24**0.5, rtol=0.4)
        _, lower, upper = band.predict_interval([[2.0]])
        np.testing.assert_allclose(
            (upper - lower)[0], np.full((10, 1), 2 * band.quantiles_["fields"] * lowest["fields"])
        )
        band.save(tmp_path / "band.skop")
        np.testing.assert_array_equal(skop.load(tmp_path / "band.skop").predict_interval([[2.0]])[2], upper)


def test_scales_that_do_not_exist_are_refused():
    ragged = clouds([4 + i % 2 for i in range(20)])
    targets = ragged.with_values(np.ones((len(ragged.coords), 1)))
    with pytest.raises(FieldDataError, match="nodes that all samples of y share"):
        ConformalRegressor(MeanFieldRegressor(), scale="residuals").fit(ragged, targets)
    with pytest.raises(FieldDataError, match="whose predict has return_std, which MeanFieldRegressor has not"):
        ConformalRegressor(MeanFieldRegressor(), scale="spread").fit(np.ones((9, 4, 1)), np.ones((9, 4, 1)))
    with pytest.raises(FieldDataError, match=r"method='cv\+' fits the estimator on folds, but it is a FrozenEstimator"):
        ConformalRegressor(frozen(), method="cv+").fit(np.ones((9, 4, 1)), np.ones((9, 4, 1)))


@pytest.mark.parametrize(
    "wrap", [partial(ConformalRegressor, coverage=0.5), LawRegressor, partial(RolloutRegressor, window=1)]
)
def test_fields_in_a_regressor_of_tables_are_refused(wrap):
    with pytest.raises(FieldDataError, match=r"fields, to which Ridge could not .* PODRegressor\(regressor=Ridge"):
        wrap(Ridge()).fit(GRIDS, GRIDS)
    wrap(PODRegressor(regressor=Ridge())).fit(GRIDS, GRIDS)


def test_a_spread_of_zero_is_refused():
    ensemble = EnsembleRegressor(small(), n_members=1)
    with pytest.raises(FieldDataError, match="the scale by the spread is zero in a whole sample"):
        ConformalRegressor(ensemble, scale="spread", coverage=0.5).fit(GRIDS, GRIDS)


# ---------------------------------------------------------------------- forms of X and y
def small(**params):
    return LaMORegressor(
        **({"width": 8, "depth": 1, "batch_size": 12, "max_iter": 1, "base": None, "random_state": 0} | params)
    )


GRIDS = np.random.default_rng(11).random((24, 4, 4, 1))


def test_estimators_on_grids(tmp_path, subtests):
    for estimator, options in [
        (small(), {}),
        (EnsembleRegressor(small(), n_members=2), {"scale": "spread"}),
        (AutoRegressor(candidates=[("POD", pod())], max_time=None, cv=2), {"method": "cv+", "cv": 2}),
        (RolloutRegressor(PODRegressor(regressor="ridge"), window=1), {"guarantee": "simultaneous"}),
    ]:
        with subtests.test(estimator=estimator, options=options):
            band = ConformalRegressor(estimator, coverage=0.6, random_state=0, **options).fit(GRIDS, GRIDS[..., 0])
            mean, lower, upper = band.predict_interval(GRIDS[:3])
            assert mean.shape == lower.shape == upper.shape == (3, 4, 4)
            assert (lower <= upper).all()
            np.testing.assert_array_equal(mean, band.predict(GRIDS[:3]))
            again = clone(band).fit(GRIDS, GRIDS[..., 0]).predict_interval(GRIDS[:3])
            np.testing.assert_array_equal(again, (mean, lower, upper))
            band.save(tmp_path / "band.skop")
            np.testing.assert_array_equal(skop.load(tmp_path / "band.skop").predict_interval(GRIDS[:3]), again)


def models_to_freeze():
    inputs = np.random.default_rng(12).random((24, 2))
    return {
        "grids": (small(), GRIDS, GRIDS),
        "ensemble": (EnsembleRegressor(small(), n_members=2, random_state=0), GRIDS, GRIDS),
        "parameters": (pod(), inputs, (POINTS, np.sin(inputs @ np.ones((2, 6)) * POINTS[:, 0])[..., None])),
        "table": (pod(), inputs, inputs.sum(axis=1)),
        "choice": (
            AutoRegressor(candidates=[("POD", pod())], max_time=None, cv=2, random_state=0), GRIDS, GRIDS
        ),
    }  # fmt: skip


def test_fitted_estimators_are_calibrated_as_they_are(tmp_path, subtests):
    for name in list(models_to_freeze()):
        with subtests.test(name):
            model, X, y = models_to_freeze()[name]
            model.fit(X, y)
            band = ConformalRegressor(FrozenEstimator(model), coverage=0.5, random_state=0).fit(X, y)
            found = band.predict_interval(X[:3])
            expected = model.predict(X[:3])
            last = (lambda part: part[1]) if isinstance(expected, tuple) else np.asarray
            np.testing.assert_allclose(last(found[0]), last(expected), rtol=1e-6)
            band.save(tmp_path / "band.skop")
            for part, loaded in zip(found, skop.load(tmp_path / "band.skop").predict_interval(X[:3]), strict=True):
                np.testing.assert_array_equal(last(part), last(loaded))


def test_fitted_estimators_get_the_names_of_columns():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(22).random((30, 2)), columns=["load", "angle"])
    scaling = make_column_transformer((StandardScaler(), ["load"]), remainder="passthrough")
    model = make_pipeline(scaling, Ridge()).fit(X, X["load"].rename("drag"))
    mean, lower, _ = ConformalRegressor(FrozenEstimator(model)).fit(X, X["load"].rename("drag")).predict_interval(X[:3])
    np.testing.assert_array_equal(mean, model.predict(X[:3]))
    assert (lower.name, list(lower.index)) == ("drag", [0, 1, 2])


def test_bands_of_time_series_widen_with_the_errors_of_the_steps():
    rng = np.random.default_rng(13)
    first = rng.standard_normal((300, 5, 1))
    steps = first + np.cumsum(rng.standard_normal((300, 5, 6)), axis=-1)
    rollout = RolloutRegressor(PODRegressor(regressor="ridge"), window=1)
    band = ConformalRegressor(rollout, calibration_size=0.6, random_state=0)
    _, lower, upper = band.fit(first, steps).predict_interval(first[:2])
    widths = (upper - lower).mean(axis=(0, 1))
    np.testing.assert_allclose(widths / widths[0], np.sqrt(np.arange(1, 7)), rtol=0.35)
    assert (np.diff(widths) > 0).all()


def shares_inside(bounds, true, guarantee, weight=None):
    """Share of the truth inside bounds, sample by sample: lists of arrays (P, q)."""
    shares = []
    for lower, upper, values in zip(*bounds, true, strict=True):
        inside = (lower <= values) & (values <= upper)
        shares.append(inside.all(axis=0) if guarantee == "simultaneous" else inside.mean(axis=0))
    return np.average(shares, axis=0, weights=weight)


@pytest.mark.parametrize("guarantee", ["pointwise", "simultaneous"])
def test_score_coverage_is_the_share_of_the_truth_inside(guarantee):
    rng = np.random.default_rng(24)
    inputs = clouds(rng.integers(3, 9, 200))
    targets = inputs.with_values(rng.standard_normal((len(inputs.coords), 2)), channel_names=["u", "v"])
    band = ConformalRegressor(MeanFieldRegressor(), coverage=0.6, guarantee=guarantee, random_state=0)
    band.fit(inputs[:100], targets[:100])
    new, true = inputs[100:], targets[100:]
    bounds = [part.to_list() for part in band.predict_interval(new)[1:]]
    found = band.score_coverage(new, true)
    assert list(found) == ["u", "v"]
    assert list(found.values()) == pytest.approx(shares_inside(bounds, true.to_list(), guarantee))
    weight = rng.uniform(0, 2, 100)
    weighted = list(band.score_coverage(new, true, sample_weight=weight).values())
    assert weighted == pytest.approx(shares_inside(bounds, true.to_list(), guarantee, weight))
    assert weighted != list(found.values())


def test_truth_that_is_no_finite_number_is_not_outside_of_a_band(subtests):
    """NaN counted as an error of the model, and an evaluation was NaN."""
    X = np.random.default_rng(34).random((50, 2))
    y = pd.Series(X.sum(axis=1), name="drag")
    band = ConformalRegressor(PODRegressor(regressor="ridge"), coverage=0.7, random_state=0).fit(X[:40], y[:40])
    for value in [np.nan, np.inf, pd.NA]:
        truth = y[40:].astype("Float64").reset_index(drop=True)
        truth[3] = value
        for score in [band.score, band.score_channels, band.score_coverage, partial(evaluate, band)]:
            with (
                subtests.test(value=value, score=score),
                pytest.raises(FieldDataError, match="y contains NaN or infinity, first in sample 3, scalar 'drag'"),
            ):
                score(X[40:], truth)
    # Numbers as text are numbers, as in a fit.
    text = y[40:].to_numpy().astype(str)
    for numbers in (text, text.astype(object), text.astype(np.dtypes.StringDType())):
        assert band.score_coverage(X[40:], numbers) == band.score_coverage(X[40:], y[40:])


def test_score_coverage_of_fields_and_scalars_at_other_points():
    rng = np.random.default_rng(25)
    X, other = rng.random((90, 3)), np.linspace(0.1, 0.9, 4)[:, None]
    fields = X[:, :1, None] + 0.1 * rng.standard_normal((90, 4, 1))
    y = FieldSet(other, fields, params=X[:, 1:] + 0.1 * rng.standard_normal((90, 2)))
    band = ConformalRegressor(pod(), coverage=0.7, random_state=0).fit(X[:50], y[:50])
    _, lower, upper = band.predict_interval(X[50:])
    found = list(band.score_coverage(X[50:], y[50:]).values())
    hits = (lower.params <= y.params[50:]) & (y.params[50:] <= upper.params)
    assert found == pytest.approx(
        [*shares_inside((lower.values, upper.values), fields[50:], "pointwise"), *hits.mean(axis=0)]
    )


@pytest.mark.parametrize("guarantee", ["pointwise", "simultaneous"])
def test_samples_on_points_of_their_own(guarantee):
    rng = np.random.default_rng(14)
    inputs = clouds(rng.integers(3, 9, 400))
    targets = inputs.with_values(rng.standard_normal((len(inputs.coords), 1)))
    band = ConformalRegressor(MeanFieldRegressor(), coverage=0.8, guarantee=guarantee, calibration_size=0.5)
    band.set_params(random_state=0).fit(inputs[:300], targets[:300])
    _, lower, upper = band.predict_interval(inputs[300:])
    inside = [
        (low <= true) & (true <= high)
        for low, true, high in zip(lower.to_list(), targets[300:].to_list(), upper.to_list(), strict=True)
    ]
    found = np.sum([part.all() if guarantee == "simultaneous" else part.mean() for part in inside])
    # 150 calibrate: ceil(0.8 * 151) = 121. Shares of nodes vary less than whole fields.
    assert band.scale_kind_ == "constant"
    assert betabinom(100, 121, 30).ppf(1e-3) <= found <= betabinom(100, 121, 30).ppf(1 - 1e-3)


def test_a_scale_can_be_learned_on_points_of_their_own_and_groups_be_left_out():
    inputs = clouds(np.random.default_rng(18).integers(4, 8, 60))
    values = np.random.default_rng(19).standard_normal((int(inputs.n_points.sum()), 2))
    groups = np.arange(60) // 4
    for options in (
        {"scale": small(), "calibration_size": 0.6},
        {"method": "jackknife+", "guarantee": "simultaneous"},
    ):
        band = ConformalRegressor(MeanFieldRegressor(), coverage=0.6, random_state=0, **options)
        _, lower, upper = band.fit(inputs, inputs.with_values(values), groups=groups).predict_interval(inputs)
        assert (lower.values < upper.values).all()
    # 15 groups: each is left out as a whole.
    assert (band.n_calibration_, len(band.fold_estimators_)) == (15, 15)


def test_parameters_that_change_after_the_fit_do_not_change_the_band():
    X, y = np.random.default_rng(20).random((30, 2)), np.arange(30.0)
    band = ConformalRegressor(Ridge(), method="cv+", coverage=0.6, random_state=0).fit(X, y)
    before = band.predict_interval(X)
    np.testing.assert_array_equal(band.set_params(coverage=0.9, scale="spread").predict_interval(X), before)


def test_scalars_beside_fields():
    rng = np.random.default_rng(15)
    inputs, values = runs(rng, 80)
    targets = as_fields(inputs, values).with_params(rng.standard_normal((80, 3)))
    band = ConformalRegressor(PODRegressor(regressor="mean"), calibration_size=0.5, random_state=0)
    _, lower, upper = band.fit(inputs, targets).predict_interval(inputs)
    inside = (lower.params <= targets.params) & (targets.params <= upper.params)
    assert (inside.mean(axis=0) > 0.8).all()
    assert band.quantiles_["scalars"].shape == (3,)


def test_meshes_hold_the_prediction_and_its_bounds(tmp_path):
    rng = np.random.default_rng(16)
    cells = [("triangle", [[0, 1, 2], [1, 2, 3]])]
    points = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
    for i in range(24):
        data = {"load": rng.random(4), "u": rng.random((4, 2))}
        meshio.Mesh(points, cells, point_data=data).write(tmp_path / f"run_{i:02}.vtu")
    pattern = str(tmp_path / "run_*.vtu")
    model = PODRegressor(regressor="ridge", input_fields=["load"], target_fields=["u"])
    band = ConformalRegressor(model, coverage=0.6, random_state=0).fit(pattern)
    for mean, lower, upper in zip(*band.predict_interval(pattern), strict=True):
        assert {"u", "u_lower", "u_upper", "u_true", "u_error"} <= set(mean.point_data)
        assert set(lower.point_data) == {"u_lower"}
        assert set(upper.point_data) == {"u_upper"}
        assert (mean.point_data["u_lower"] < mean.point_data["u"]).all()
        assert (mean.point_data["u"] < mean.point_data["u_upper"]).all()
        np.testing.assert_array_equal(mean.point_data["u_upper"], upper.point_data["u_upper"])


def test_the_scale_of_nodes_is_interpolated_to_other_points():
    inputs, values = runs(np.random.default_rng(17), 80)
    band = ConformalRegressor(MeanFieldRegressor(), calibration_size=0.5, random_state=0)
    band.fit(inputs, as_fields(inputs, values))
    _, lower, upper = band.predict_interval(inputs[:1])
    between = np.array([[0.1], [0.5], [0.9]])
    _, low, high = band.predict_interval(inputs[:1], coords=between)
    expected = np.stack([(upper.values - lower.values)[0, 2:4].mean(axis=0)])
    np.testing.assert_allclose((high.values - low.values)[0, 1:2], expected, rtol=0.3)


@pytest.mark.parametrize("scale", ["residuals", "constant"])
def test_bands_at_other_points_than_the_calibrated_ones_are_named(scale):
    fine = np.random.default_rng(27).random((36, 7, 7, 1))
    X, axis = fine[:, ::2, ::2], np.linspace(0, 1, 4)
    nodes = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    band = ConformalRegressor(small(), coverage=0.6, scale=scale, random_state=0).fit(X[:24], X[:24])
    again = ConformalRegressor(FrozenEstimator(band.estimator_), coverage=0.6, random_state=0).fit(fine[24:], fine[24:])

    def said(model, X, coords=None):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.predict_interval(X, coords=coords)
            assert coords is not None or model.score_coverage(X, X)
        return [str(item.message) for item in caught if str(item.message).startswith("bands are calibrated")]

    own = [nodes[:5] + 1e-9 * index for index in range(36)]
    for model, *places in [(band, X), (band, X, nodes[3:]), (band, X, own), (again, fine), (again, fine, nodes)]:
        assert not said(model, *places)
    words = "bands are calibrated on samples at 16 points, but fields are predicted here at 49, some of which"
    assert [message.startswith(words) for message in said(band, fine)] == [True, True]
    for places in (nodes[:5] * 0.99, [points * 0.99 for points in own]):
        (message,) = said(band, X, places)
        assert "predicted here at 5, some of which are others" in message
        assert "coverage may be far below 0.6" in message
    # All of these are nodes, but errors of fields from fewer points are others.
    assert "X has 4 here" in said(band, X[:, ::3, ::3])[0]


def test_folds_that_leave_samples_out_or_train_on_them_are_refused():
    X, y = np.random.default_rng(0).random((30, 2)), np.arange(30.0)
    with pytest.raises(FieldDataError, match="must hold out each sample once"):
        ConformalRegressor(Ridge(), method="cv+", cv=ShuffleSplit(3)).fit(X, y)
    rows = np.arange(30)
    with pytest.raises(FieldDataError, match="train on samples which they hold out"):
        ConformalRegressor(Ridge(), method="cv+", cv=[(rows, rows[:15]), (rows, rows[15:])]).fit(X, y)


def test_what_is_not_fitted_or_no_label_is_named():
    X, y = np.random.default_rng(0).random((30, 2)), np.arange(30.0)
    with pytest.raises(NotFittedError):
        ConformalRegressor(FrozenEstimator(pod())).fit(X, y)
    days = np.arange(30).astype("datetime64[D]").astype("datetime64[ns]")
    days[3] = "NaT"
    for groups in (["a", None] * 15, [np.nan, *range(29)], np.array([1, "a"] * 15, dtype=object), days):
        with pytest.raises(FieldDataError, match="groups has missing labels"):
            ConformalRegressor(pod()).fit(X, y, groups=groups)


@pytest.mark.parametrize("kind", ["pipeline", "search", "both"])
@pytest.mark.parametrize("time", ["parameter", "rollout"])
def test_pipelines_and_searches_that_end_in_frames_have_bands_of_some_frames(kind, time):
    """The band of some frames is the part of that of all."""
    X = np.random.default_rng(0).random((60, 2))
    y = np.exp(-X[:, :1] * np.repeat(np.arange(3), 2)) * np.tile(X, 3)
    model, asked = TimeConditionedRegressor(PODRegressor(regressor="ridge"), times=3), {"times": [0.0, 0.5]}
    if time == "rollout":
        model, asked = RolloutRegressor(PODRegressor(regressor="ridge"), window=1), {"n_steps": 2}
    model = make_pipeline(StandardScaler(), model) if kind != "search" else model
    if kind != "pipeline":
        name = "" if kind == "search" else f"{model.steps[-1][0]}__"
        model = GridSearchCV(model, {f"{name}estimator__n_components": [1]}, cv=3)
    band = ConformalRegressor(model, coverage=0.8, random_state=0).fit(X, y)
    for found, expected in zip(band.predict_interval(X, **asked), band.predict_interval(X), strict=True):
        np.testing.assert_array_equal(found, expected[:, :4])
    # Around the bands, the estimator of frames would have none.
    with pytest.raises(FieldDataError, match=rf"call predict_interval\(X, {next(iter(asked))}=\.\.\.\)"):
        band.predict(X, **asked)


@pytest.mark.parametrize("kind", ["pipeline", "search", "both"])
@pytest.mark.parametrize("form", ["scalars", "fields"])
def test_samples_that_the_last_step_of_a_frozen_model_has_seen_are_counted(kind, form):
    X, new = np.random.default_rng(0).random((2, 30, 2))
    model = PODRegressor(regressor="ridge")
    model = make_pipeline(StandardScaler(), model) if kind != "search" else model
    if kind != "pipeline":
        name = "regressor" if kind == "search" else "podregressor__regressor"
        model = GridSearchCV(model, {name: ["ridge"]}, cv=2)
    y = lambda rows: rows.sum(axis=1) if form == "scalars" else (rows[:, :1] * np.arange(1.0, 5.0))[..., None]  # noqa: E731
    band = ConformalRegressor(FrozenEstimator(model.fit(X, y(X))), coverage=0.8)
    samples = np.concatenate([new, X[:7]])
    with pytest.warns(SkopWarning, match="7 of the 37 samples were in the fit"):
        band.fit(samples, y(samples))


def test_samples_that_a_frozen_model_has_seen_are_counted():
    rng = np.random.default_rng(0)
    X, new = rng.random((2, 30, 2))
    model = FrozenEstimator(PODRegressor(regressor="ridge").fit(X, X.sum(axis=1) + rng.normal(size=30)))
    for n_seen in (0, 7):
        samples = np.concatenate([new, X[:n_seen]])
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            ConformalRegressor(model, coverage=0.8).fit(samples, samples.sum(axis=1))
        said = [str(each.message) for each in found if "in the fit of PODRegressor" in str(each.message)]
        assert [words.split(" in the fit")[0] for words in said] == (["7 of the 37 samples were"] if n_seen else [])
