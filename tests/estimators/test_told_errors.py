"""The error that a PODRegressor tells of few samples: that of the whole choice without some of them."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skop import ConformalRegressor, FieldSet, PODRegressor, RolloutRegressor, TimeConditionedRegressor
from skop.estimators.classical import _few_samples
from skop.exceptions import FieldDataError
from skop.metrics import relative_l2_error, relative_l2_score

pytestmark = pytest.mark.usefixtures("choice_repeated")

#: Without logarithms, the choice takes a quarter of the time.
PLAIN = PODRegressor(param_transform=None, target_transform=None)


def test_groups_of_samples_are_left_out_as_a_whole():
    """Samples beside a left-out one tell it; without its group, noise is predicted as by the mean."""
    generator = np.random.default_rng(0)
    X, y = np.repeat(generator.normal(size=(20, 3)), 3, axis=0), np.repeat(generator.normal(size=20), 3)
    X = X + 0.02 * generator.normal(size=X.shape)
    labels = np.array([f"run {number // 3}" for number in range(60)])
    assert PODRegressor().fit(X, y).leave_one_out_error_ < 0.1
    assert PODRegressor().fit(X, y, groups=labels).leave_one_out_error_ > 0.9
    with pytest.raises(FieldDataError, match="groups has 1 group, and 2 or more"):
        PODRegressor().fit(X, y, groups=np.zeros(60))
    with pytest.raises(FieldDataError, match=r"groups has shape \(59,\), expected \(60,\)"):
        PODRegressor().fit(X, y, groups=labels[1:])


def test_repeated_runs_do_not_tell_of_new_inputs():
    """The error is that of the same inputs left out together, also with few of them and noise of their own."""
    told = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        places, new = rng.random((9, 2)), rng.random((400, 2))
        law = lambda x: np.sin(3 * x[:, 0]) + x[:, 1]  # noqa: E731
        rows = np.repeat(places, 4, axis=0)
        model = clone(PLAIN).fit(rows, law(rows) + 0.02 * rng.normal(size=36))
        error = np.linalg.norm(model.predict(new) - law(new)) / np.linalg.norm(law(new))
        told.append(model.leave_one_out_error_ / error)
    # A repeated run left alone told 0.06 to 0.9 of the error.
    assert 0.6 < np.exp(np.mean(np.log(told))) < 3


@pytest.mark.parametrize("kind", ["samples", "groups", "weights and a field", "fields", "points of one's own"])
def test_of_few_samples_the_error_of_the_whole_choice_without_each_is_told(monkeypatch, kind):
    """The choice, the penalty, is repeated without each sample, or group; predictions are the same to the bit.

    Told is the error of the choice times the geometric mean of the factors by which others have larger errors, or the
    error by the others if it is smaller.
    """
    rng, size = np.random.default_rng(3), 12 if kind == "groups" else 7
    X, new, options = rng.random((size, 2)), rng.random((5, 2)), {}
    y = (0.5 + X[:, 0]) * (0.5 + X[:, 1]) + 0.2 * rng.normal(size=size)
    labels = np.arange(size) % 5 if kind == "groups" else np.arange(size)
    if kind == "groups":
        options = {"groups": labels}
    elif kind == "fields":
        X, new = np.sin(X[:, :1] + X[:, 1:] * np.linspace(0, 3, 6))[..., np.newaxis], np.ones((2, 6, 1))
    elif kind == "points of one's own":
        y = y[:, np.newaxis, np.newaxis] * np.ones((6, 1))
        X = FieldSet(np.linspace(1, 2, 6)[:, np.newaxis] * (1 + X[:, :1, np.newaxis]), params=X)
        new = X[:2]
    elif kind != "samples":
        y, options = y[:, np.newaxis, np.newaxis] * np.ones((3, 1)), {"sample_weight": np.linspace(1, 2, 7)}
    model = PODRegressor(regressor="rbf").fit(X, y, **options)
    monkeypatch.setattr(_few_samples, "_MOST_ROWS", 0)
    closed, factors, direct = PODRegressor(regressor="rbf").fit(X, y, **options), [], np.empty_like(y)
    alone = closed._leave_one_out(closed._read(X, y), options.get("sample_weight"), options.get("groups"))
    alone = (alone.scalars if y.ndim == 1 else alone.fields).reshape(y.shape)
    for label in set(labels):
        out = labels == label
        others = {name: held[~out] for name, held in options.items()}
        direct[out] = PODRegressor(regressor="rbf").fit(X[~out], y[~out], **others).predict(X[out])
        factors.append(np.linalg.norm(direct[out] - y[out]) / np.linalg.norm(alone[out] - y[out]))
    error = np.linalg.norm(direct - y) / np.linalg.norm(y)
    if y.ndim > 1:
        error = 1 - relative_l2_score(y, direct, **options)
    error = min(error, closed.leave_one_out_error_ * np.exp(np.mean(np.log(factors))))
    assert model.leave_one_out_error_ == pytest.approx(error, rel=1e-8)
    assert model.leave_one_out_errors_["rbf"] == model.leave_one_out_error_ > 1.01 * closed.leave_one_out_error_
    (mean, spread), (before, smaller) = (each.predict(new, return_std=True) for each in (model, closed))
    np.testing.assert_array_equal(mean, before)
    np.testing.assert_allclose(spread / smaller, model.leave_one_out_error_ / closed.leave_one_out_error_, rtol=1e-8)


@pytest.mark.parametrize("change", [0.0, 1e-8])
def test_copies_and_weights_tell_the_same_where_the_choice_is_repeated(monkeypatch, change):
    rng = np.random.default_rng(0)
    X, weight = rng.random((12, 2)), np.tile([1, 2, 3], 4)
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=12)
    rows = rng.permutation(np.repeat(np.arange(12), weight))
    near = X[rows] * (1 + change * rng.random((len(rows), 1)))
    weighted = clone(PLAIN).fit(X, y, sample_weight=weight)
    copied = clone(PLAIN).fit(near, y[rows])
    # Searches for length scales amplify rounding.
    assert copied.leave_one_out_error_ == pytest.approx(weighted.leave_one_out_error_, rel=1e-4)
    monkeypatch.setattr(_few_samples, "_MOST_ROWS", 0)
    assert weighted.leave_one_out_error_ > 1.01 * clone(PLAIN).fit(X, y, sample_weight=weight).leave_one_out_error_


def test_the_repeated_choice_warns_of_nothing(monkeypatch):
    """Of noise, a process is no better than the mean, which the fit to all samples says once."""
    X, y = np.random.default_rng(0).random((7, 2)), np.random.default_rng(1).normal(size=7)

    def messages():
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            told.append(PODRegressor(regressor="gaussian_process").fit(X, y).leave_one_out_error_)
        return [str(item.message) for item in record]

    told = []
    found = messages()
    assert len([text for text in found if "no better than the mean" in text]) == 1
    monkeypatch.setattr(_few_samples, "_MOST_ROWS", 0)
    assert messages() == found
    assert told[0] > told[1]


@pytest.mark.parametrize("kind", ["times", "changes"])
def test_the_choice_is_repeated_without_whole_runs(monkeypatch, kind):
    """Of frames, and of their changes; predictions are the same to the bit."""
    rng, told, found = np.random.default_rng(0), [], []
    runs, times = rng.random((7, 2)) + 0.5, np.linspace(0, 1, 4)
    waves = runs[:, :1] * np.sin(np.linspace(0, 3, 6) * runs[:, 1:]) + 0.02 * rng.normal(size=(7, 6))
    frames = waves[..., np.newaxis] * np.exp(-times * runs[:, :1, np.newaxis])
    nodes, inner = np.linspace(0, 1, 6)[:, np.newaxis], PODRegressor(regressor="rbf")
    model, X, y = TimeConditionedRegressor(inner, times=times), runs, frames
    if kind == "changes":
        model, X, y = RolloutRegressor(inner, window=1, increments=True), frames[..., :1], frames[..., 1:]
        X = FieldSet(nodes, X, params=runs)
    fit, are_changes = PODRegressor._fit, []

    def spied(self, *given, last_frame=None, **options):
        are_changes.append(last_frame is not None)
        return fit(self, *given, last_frame=last_frame, **options)

    monkeypatch.setattr(PODRegressor, "_fit", spied)
    for most in (_few_samples._MOST_ROWS, 0):
        monkeypatch.setattr(_few_samples, "_MOST_ROWS", most)
        fitted = clone(model).fit(X, FieldSet(nodes, y))
        assert (fitted.estimator_.last_frame_ is not None) == (kind == "changes")
        told.append(fitted.estimator_.leave_one_out_error_)
        found.append(fitted.predict(X).values)
    assert told[0] > told[1]
    assert are_changes == [kind == "changes"] * 9
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("n_groups", "n_rows", "power", "n_parts"),
    [(8, 32, 2, 8), (8, 33, 2, 0), (9, 28, 2, 8), (24, 10, 2, 8), (25, 10, 2, 0), (24, 10, 1, 0), (24, 10, 0, 0)],
)
def test_the_choice_is_repeated_for_few_groups_of_not_too_many_rows(monkeypatch, n_groups, n_rows, power, n_parts):
    """With over eight groups, only if the model is of use and its error matters: not of a line, nor of the mean."""
    asked = []
    monkeypatch.setattr(_few_samples, "_predicted_by_others", lambda *given, **_: asked.append(given[2]))
    monkeypatch.setattr(_few_samples, "_error_of_choices", lambda *_: 0.0)
    X, groups = np.random.default_rng(0).random((n_groups * n_rows, 2)), np.arange(n_groups * n_rows) % n_groups
    y = X[:, 0] ** power if power else np.random.default_rng(1).normal(size=len(X))
    PODRegressor(regressor="ridge").fit(X, y, groups=groups)
    assert [len(set(labels)) for labels in asked] == [n_parts] * bool(n_parts)
    # Parts leave out whole groups.
    assert all(len(set(zip(labels, groups, strict=True))) == n_groups for labels in asked)


@pytest.mark.parametrize(("n_samples", "n_parts"), [(48, 8), (49, 0)])
def test_the_choice_is_repeated_for_few_samples(monkeypatch, n_samples, n_parts):
    asked = []
    monkeypatch.setattr(_few_samples, "_predicted_by_others", lambda *given, **_: asked.append(given[2]))
    monkeypatch.setattr(_few_samples, "_error_of_choices", lambda *_: 0.0)
    X = np.random.default_rng(0).random((n_samples, 2))
    PODRegressor(regressor="ridge").fit(X, X[:, 0] ** 2)
    assert [len(set(labels)) for labels in asked] == [n_parts] * bool(n_parts)


@pytest.mark.parametrize(
    ("method", "scale", "n_fits"), [("cv+", "constant", 1), ("cv+", "spread", 4), ("split", "constant", 1)]
)
def test_folds_of_a_band_repeat_the_choice_only_where_they_need_it(monkeypatch, method, scale, n_fits):
    """Nothing reads what a fold tells of its error but for its standard deviations."""
    asked = []
    monkeypatch.setattr(_few_samples, "_predicted_by_others", lambda *given, **_: asked.append(given[2]))
    monkeypatch.setattr(_few_samples, "_error_of_choices", lambda *_: 0.0)
    X = np.random.default_rng(0).random((30, 2))
    band = ConformalRegressor(
        PODRegressor(regressor="ridge"), method=method, scale=scale, cv=3, coverage=0.8, random_state=0
    )
    band.fit(X, X[:, 0] ** 2)
    assert len(asked) == n_fits


def test_repeated_inputs_are_one_where_the_choice_is_repeated(monkeypatch):
    asked = []
    monkeypatch.setattr(_few_samples, "_predicted_by_others", lambda *given, **_: asked.append(given[2]))
    monkeypatch.setattr(_few_samples, "_error_of_choices", lambda *_: 0.0)
    places, rows = np.random.default_rng(0).random((8, 2)), np.random.default_rng(1).permutation(40) % 8
    PODRegressor(regressor="ridge").fit(places[rows], places[rows, 0] ** 2 + 0.01 * np.arange(40))
    (labels,) = asked
    assert len(set(zip(labels, rows, strict=True))) == len(set(labels)) == 8


@pytest.mark.parametrize("regressor", ["auto", "akima"])
@pytest.mark.parametrize("n_samples", [7, 8, 9, 12])
def test_errors_of_few_samples_of_a_ramp_are_told_in_its_size(regressor, n_samples):
    """Single errors of the choice are zero by chance, beside which any other is infinitely larger."""
    x = np.linspace(0, 1, n_samples)[:, None]
    model = PODRegressor(regressor=regressor).fit(x, np.clip((x[:, 0] - 0.4) * 3, 0, 1))
    assert model.leave_one_out_error_ < 0.5


@pytest.mark.filterwarnings("ignore:X is outside")
@pytest.mark.parametrize(
    ("shape", "noise", "law"),
    [
        ((5, 2), 0.05, lambda a, b: (0.5 + a) * (0.5 + b)),
        ((12, 2), 0.2, lambda a, b: (0.5 + a) * (0.5 + b)),
        ((30, 3), 0.1, lambda a, b, c: 1 + np.sin(3 * a + 2 * b) + c**2 / 2),
    ],
)
def test_few_samples_with_noise_tell_the_size_of_the_error_of_new_ones(shape, noise, law):
    told = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, new = rng.random(shape), rng.random((400, shape[1]))
        model = PODRegressor().fit(X, law(*X.T) * (1 + noise * rng.normal(size=len(X))))
        true = law(*new.T) * (1 + noise * rng.normal(size=400))
        told.append(model.leave_one_out_error_ * np.linalg.norm(true) / np.linalg.norm(model.predict(new) - true))
    # The least of the errors of all models told half of it of five samples, and 0.6 of twelve and of thirty.
    assert 0.7 < np.exp(np.mean(np.log(told))) < 3


def test_copies_of_samples_tell_nothing_of_their_errors():
    """Noise that is there twice is still noise."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(20, 3)), generator.normal(size=20)
    once, twice = PODRegressor().fit(X, y), PODRegressor().fit(np.tile(X, (2, 1)), np.tile(y, 2))
    assert once.leave_one_out_error_ == twice.leave_one_out_error_ > 0.9
    np.testing.assert_array_equal(once.predict(X), twice.predict(X))
    # Another value of the same inputs is no copy, but tells nothing of other inputs either.
    again = PODRegressor().fit(np.tile(X, (2, 1)), np.append(y, y + 1))
    assert len(again.models_[0].regressor.points) == 40
    assert again.leave_one_out_error_ > 0.9 * again.leave_one_out_errors_["mean"]
    # Groups of the same samples are left out together.
    grouped = PODRegressor().fit(X, y, groups=np.repeat([0, 1, 2, 3], 5))
    twice = PODRegressor().fit(np.tile(X, (2, 1)), np.tile(y, 2), groups=np.repeat([*"abcdefgh"], 5))
    assert grouped.leave_one_out_error_ == twice.leave_one_out_error_ > 0.9
    # A sample that several groups have in common stays in each.
    rows, labels = np.append(np.arange(20), [0, 0]), np.append(np.repeat([0, 1, 2, 3], 5), [2, 3])
    assert len(PODRegressor().fit(X[rows], y[rows], groups=labels).models_[0].regressor.points) == 22
    with pytest.raises(FieldDataError, match="all 2 groups hold the same or nearly the same samples"):
        PODRegressor().fit(np.tile(X, (2, 1)), np.tile(y, 2), groups=np.repeat([0, 1], 20))


def test_standard_deviations_of_an_exact_law_of_few_samples_are_rounding():
    for seed in (1, 9):
        x = np.random.default_rng(seed).random((6, 1))
        spread = PODRegressor().fit(x, np.exp(3 * x[:, 0])).predict(x, return_std=True)[1]
        assert (spread < 1e-9).all()


@pytest.mark.parametrize("n_samples", [8, 20])
def test_repeated_choices_of_more_than_eight_samples_keep_outputs_and_logarithms(monkeypatch, n_samples):
    """A clean power law beside noise has a model of its own, and logarithms, which takes most of a choice to find."""
    rng, fit, found = np.random.default_rng(0), PODRegressor._fit, []
    X = 10 ** rng.uniform(-1, 1, (n_samples, 2))
    y = np.column_stack([X[:, 0] ** 2 * X[:, 1] * (1 + 0.3 * rng.normal(size=n_samples)), rng.normal(size=n_samples)])

    def recorded(model, *given, **options):
        fit(model, *given, **options)
        found.append((model._like, [(*part.scalars, part.learns_logarithms) for part in model.models_]))

    monkeypatch.setattr(PODRegressor, "_fit", recorded)
    PODRegressor().fit(X, y)
    (_, first), *others = found
    assert len(others) == 8
    assert len(first) == 2
    if n_samples == 20:
        assert all(parts == first for _, parts in others)
    else:
        assert all(like is None for like, _ in others)


def arrhenius(n_samples, seed):
    """Rates of reactions, over more than ten decades."""
    rng = np.random.default_rng(seed)
    temperature, energy, factor = (rng.uniform(*ends, n_samples) for ends in ((300, 1200), (4e4, 1.2e5), (8, 10)))
    rates = 10**factor * np.exp(-energy / (8.314 * temperature))
    return np.column_stack([temperature, energy, 10**factor]), rates


def test_an_error_of_a_few_large_values_is_named():
    X, y = arrhenius(25, seed=1)
    with pytest.warns(UserWarning, match=r"scalar 0 are 4.2e-06 to 1.8e\+07.*of about 2 of 25 samples. Relative"):
        model = PODRegressor().fit(X, y)
    new, true = arrhenius(1000, seed=2)
    assert relative_l2_error(true, model.predict(new), kind="scalar") > 3 * model.leave_one_out_error_


@pytest.mark.parametrize("is_exact", [True, False])
def test_an_error_of_all_samples_is_not_named(recwarn, is_exact):
    """Logarithms are even, and where a law is learned exactly no error is larger than another."""
    X, y = arrhenius(25, seed=1)
    PODRegressor().fit(X, X[:, 2] ** 3 / X[:, 1] if is_exact else 20 + np.log(y))
    assert not [str(w.message) for w in recwarn if "of np.log(y)" in str(w.message)]
