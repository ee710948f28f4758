"""Models of the outputs of PODRegressor: laws of powers, outputs of different kind, and both as a base."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import skop
from skop import FieldSet, LaMORegressor, PODRegressor
from skop.data import Targets
from skop.estimators.classical._output_models import logarithms_of
from skop.estimators.classical._target_rows import TargetRows
from skop.exceptions import FieldDataError
from skop.metrics import relative_l2_error

X = np.exp(np.random.default_rng(0).uniform(-1, 1, (40, 3)))
NEW = np.exp(np.random.default_rng(1).uniform(-1, 1, (30, 3)))


def power_law(params):
    """A stress and a displacement."""
    return np.stack([params[:, 0] / params[:, 1] ** 2, 1e-6 * params[:, 0] ** 3 / params[:, 2]], axis=1)


def wave(params):
    return np.sin(params.sum(axis=1))


def with_noise(n_noise=3):
    return np.concatenate([wave(X)[:, None], np.random.default_rng(2).normal(size=(40, n_noise))], axis=1)


OUTPUTS = {"a law of powers": power_law(X), "beside noise": with_noise(), "a stress": power_law(X)[:, 0]}


@cache
def fitted(outputs, dtype=None):
    """A fit that tests only read: to scalars, or to fields of one point of a type."""
    y = OUTPUTS[outputs]
    return PODRegressor().fit(X, y if dtype is None else y[..., np.newaxis].astype(dtype))


def test_a_law_of_powers_is_found_and_its_logarithms_are_told():
    y = power_law(X)
    found = fitted("a law of powers")
    np.testing.assert_allclose(found.predict(NEW), power_law(NEW), rtol=1e-6)
    assert all(model.learns_logarithms for model in found.models_)
    found = fitted("a stress")
    np.testing.assert_allclose(found.predict(NEW), power_law(NEW)[:, 0], rtol=1e-6)
    assert found.leave_one_out_errors_["logarithms"] == found.leave_one_out_error_ < 1e-6
    (model,) = found.models_
    assert model.learns_logarithms
    assert model.reads_logarithms.all()
    plain = PODRegressor(param_transform=None, target_transform=None).fit(X, y)
    assert relative_l2_error(power_law(NEW), plain.predict(NEW), kind="scalar") > 0.01


def test_each_logarithm_is_taken_where_it_alone_helps():
    for y, learns in ((np.log(X) @ [[1.0], [2.0], [-1.0]], False), (np.exp(X @ [[2.0], [1.0], [-2.0]]), True)):
        (model,) = PODRegressor().fit(X, y).models_
        assert model.learns_logarithms == learns
        assert model.reads_logarithms.all() != learns


def test_logarithms_are_taken_of_parameters_over_decades_beside_others():
    def creep(params, decade):
        return 0.3 * decade + np.exp(params[:, 0]) * params[:, 1]

    rng = np.random.default_rng(3)
    params, new = (np.column_stack([rng.random((n, 2)), rng.uniform(-6, 0, n)]) for n in (40, 200))
    model = PODRegressor().fit(np.column_stack([params[:, :2], 10 ** params[:, 2]]), creep(params, params[:, 2]))
    found = model.predict(np.column_stack([new[:, :2], 10 ** new[:, 2]]))
    assert relative_l2_error(creep(new, new[:, 2]), found, kind="scalar") < 1e-3
    assert model.models_[0].reads_logarithms.tolist() == [False, False, True]


def test_a_law_of_powers_of_numbers_that_hardly_differ_is_found():
    params, new = (1.0 + 0.1 * np.log(part) for part in (X, NEW))
    found = PODRegressor().fit(params, power_law(params)[:, 0])
    np.testing.assert_allclose(found.predict(new), power_law(new)[:, 0], rtol=1e-9)
    assert found.models_[0].learns_logarithms
    assert found.models_[0].reads_logarithms.all()


def noisy_product(rng, n_samples):
    """Uniform numbers, a product of their powers, and it with 2 % of noise."""
    table = rng.uniform([100, 0.002, 5], [900, 0.01, 50], (n_samples, 3))
    true = table[:, 0] / table[:, 1] ** 2 * table[:, 2] ** 0.5
    return table, true, true * np.exp(0.02 * rng.normal(size=n_samples))


def deflections(rng, n_samples):
    """Length, width, height, modulus and load of beams, and deflections, which shear makes no exact powers."""
    lower, upper = np.log([[0.5, 0.02, 0.02, 5e10, 10.0], [3.0, 0.1, 0.2, 2.2e11, 1e4]])
    table = np.exp(rng.uniform(lower, upper, (n_samples, 5)))
    length, width, height, modulus, load = table.T
    true = load * length / (modulus * width * height) * (4 * (length / height) ** 2 + 3)
    return table, true, true


@pytest.mark.parametrize(("law", "n_samples", "seed"), [(noisy_product, 60, 10), (deflections, 16, 3)])
def test_a_few_large_numbers_do_not_hide_a_law_of_powers(law, n_samples, seed):
    """They decide about errors, by chance, where the logarithms of all samples tell which model is right."""
    table, true, y = law(np.random.default_rng(seed), 200 + n_samples)
    new, table, true, y = table[:200], table[200:], true[:200], y[200:]
    plane = np.linalg.lstsq(np.log(np.c_[np.full(n_samples, np.e), table]), np.log(y))[0]
    by_hand = np.exp(np.log(np.c_[np.full(200, np.e), new]) @ plane)
    found = PODRegressor().fit(table, y).predict(new)
    assert relative_l2_error(true, found, kind="scalar") < 2 * relative_l2_error(true, by_hand, kind="scalar")


def test_a_function_that_is_no_law_of_powers_is_learnt_as_it_is():
    (model,) = PODRegressor().fit(X, X.sum(axis=1)).models_
    assert not model.learns_logarithms
    assert not model.reads_logarithms.any()


def test_an_output_beside_noise_is_predicted_as_alone():
    alone = PODRegressor().fit(X, wave(X))
    beside = fitted("beside noise")
    np.testing.assert_allclose(beside.predict(NEW)[:, 0], alone.predict(NEW), rtol=1e-10)
    assert [model.scalars.tolist() for model in beside.models_] == [[0], [1, 2, 3]]
    assert beside.leave_one_out_errors_["apart"] == beside.leave_one_out_error_


def test_outputs_of_different_kinds_are_predicted_as_alone():
    """A wave, a front and a law of powers ask for length scales of their own, and none is noise to another."""
    rows = np.random.default_rng(1).random((250, 4))
    first, second, third, fourth = rows.T
    wave, front = np.sin(8 * first) + np.cos(5 * third * fourth), np.tanh(20 * (third - 0.5))
    y = np.stack([first + 2 * second - fourth, 10 ** (2 * first - 3 * second + third), front, wave], axis=1)
    X, y, new = rows[200:], y[200:], rows[:200]
    beside = PODRegressor().fit(X, y).predict(new)
    for number in range(4):
        alone = PODRegressor().fit(X, y[:, number]).predict(new)
        np.testing.assert_allclose(beside[:, number], alone, rtol=1e-6, atol=1e-6)


def test_a_channel_beside_noise_is_predicted_as_alone():
    places = np.linspace(0, 1, 9)
    smooth = np.sin(X[:, :1] + X[:, 1:2] * places)
    noise = np.random.default_rng(3).normal(size=smooth.shape)
    fields = lambda *channels: FieldSet(places[:, None], np.stack(channels, axis=-1))  # noqa: E731
    alone = PODRegressor().fit(X, fields(smooth)).predict(NEW).values[..., 0]
    beside = PODRegressor().fit(X, fields(1e-4 * noise, 1e8 * smooth)).predict(NEW).values[..., 1]
    np.testing.assert_allclose(beside, 1e8 * alone, rtol=1e-4, atol=1e3)


def outputs_of_many_kinds(seed):
    """Few samples of outputs of different kinds: fronts, waves, parabolas, kinks, jumps and noise."""
    random = np.random.default_rng(seed)
    n, p = int(random.integers(8, 40)), int(random.integers(1, 4))
    rows, outputs = random.random((n, p)) - 0.5, []
    for _ in range(int(random.integers(3, 7))):
        t, kind = rows @ random.normal(size=p), random.integers(7)
        noise, more = random.normal(size=n), random.normal(size=n)
        kinds = [np.tanh(8 * t), np.sin(4 * t), t**2, np.abs(t - 0.2), noise, np.sign(t), t + 0.3 * more]
        outputs.append(10 ** random.uniform(-2, 2) * kinds[kind])
    return rows, np.stack(outputs, axis=1)


def left_out_error(model, rows, y):
    """Leave-one-out error of scalars, where each model has the factor of its own search for length scales."""
    residuals = model._leave_one_out(model._read(rows, y)).scalars - y
    for part in model.models_:
        residuals[:, part.scalars] *= part.handicap
    return np.linalg.norm(residuals / np.sqrt((y**2).mean(axis=0))) / y.size**0.5


#: Cases in which outputs are left over for which a search without the others ends with a worse model.
LEFT_OVER = (1, 40, 61)


@pytest.mark.parametrize("seed", LEFT_OVER)
def test_no_output_is_worse_than_in_one_model_for_all_and_one_that_is_better_alone_is_alone(seed, monkeypatch):
    X, y = outputs_of_many_kinds(seed)

    def errors(y):
        model = PODRegressor(param_transform=None, target_transform=None).fit(X, y)
        left_out = model._leave_one_out(model._read(X, y)).scalars
        return np.linalg.norm(left_out - y, axis=0) / np.linalg.norm(y, axis=0)

    apart = errors(y)
    alone = np.array([errors(column)[0] for column in y.T[..., np.newaxis]])
    # Then nothing is better by enough to be apart.
    monkeypatch.setattr("skop.estimators.classical._model_search._BETTER", 0.0)
    together, slack = errors(y), 1e-9
    assert (0.8 * apart <= together + slack).all()
    assert (0.8 * apart <= np.maximum(alone, 0.8 * together) / 0.8 + slack).all()
    is_better = alone < 0.5 * together
    np.testing.assert_allclose(apart[is_better], alone[is_better])
    assert is_better.any()


def test_order_and_units_of_the_outputs_do_not_matter():
    y = np.concatenate([with_noise(), power_law(X)], axis=1)
    order, units = np.array([4, 2, 0, 5, 1, 3]), np.array([1e3, 1e-3, 2.0, 1e6, 0.5, 1.0])
    first, second = PODRegressor().fit(X, y), PODRegressor().fit(X, y[:, order] * units)
    np.testing.assert_allclose(first.predict(NEW)[:, order] * units, second.predict(NEW), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("exponent", "dtype"), [(-300, np.float64), (-80, np.float32), (70, np.float32)])
def test_a_unit_of_all_outputs_does_not_matter(exponent, dtype):
    for outputs in ("beside noise", "a law of powers"):
        first, fields = fitted(outputs, dtype), OUTPUTS[outputs][..., np.newaxis].astype(dtype)
        second = PODRegressor().fit(X, np.ldexp(fields, exponent))
        assert [model.learns_logarithms for model in second.models_] == [
            model.learns_logarithms for model in first.models_
        ]
        # Powers of two change no digit, but logarithms do.
        found = np.ldexp(second.predict(NEW).astype(np.float64), -exponent)
        np.testing.assert_allclose(found, first.predict(NEW), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["logarithms", "apart", "left over"])
def test_files_gradients_and_leave_one_out_are_those_of_the_predictions(kind, tmp_path):
    outputs = "a law of powers" if kind == "logarithms" else "beside noise"
    rows, y, new, model = X, OUTPUTS[outputs], NEW, fitted(outputs)
    if kind == "left over":
        # Which of the cases have such a model depends on how the machine rounds.
        for rows, y in map(outputs_of_many_kinds, LEFT_OVER):
            model, new = PODRegressor().fit(rows, y), rows[:10] + 0.01
            if any(part.among for part in model.models_):
                break
    assert any(part.among for part in model.models_) == (kind == "left over")
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(skop.load(tmp_path / "model.skop").predict(new), model.predict(new))
    params = torch.tensor(new, requires_grad=True)
    found = model._predict_tensor(params)
    np.testing.assert_allclose(found.detach().numpy(), model.predict(new), rtol=1e-6, atol=1e-12)
    found[:, 0].sum().backward()
    steps = 1e-5 * np.eye(new.shape[1])
    slopes = np.stack([(model.predict(new + s)[:, 0] - model.predict(new - s)[:, 0]) / 2e-5 for s in steps], axis=1)
    # Where predictions have the rounding of a system that is nearly singular, differences have 1e5 times as much.
    np.testing.assert_allclose(params.grad.numpy(), slopes, rtol=1e-3, atol=1e-4)
    assert model.leave_one_out_error_ == pytest.approx(left_out_error(model, rows, y), rel=0.05)


@pytest.mark.parametrize("seed", [47, 93, 247])
def test_the_error_of_several_models_has_the_factor_of_each(seed):
    rows, y = outputs_of_many_kinds(seed)
    model = PODRegressor(param_transform=None, target_transform=None).fit(rows, y)
    assert len(model.models_) > 1
    assert model.leave_one_out_error_ == pytest.approx(left_out_error(model, rows, y), rel=0.05)
    # An output that is known well beside others, and whose length scales were searched for, makes no other worse.
    assert model.leave_one_out_error_ < model.leave_one_out_errors_["mean"]


def test_the_spread_of_a_logarithm_is_relative():
    noisy = power_law(X)[:, 0] * np.exp(0.1 * np.random.default_rng(4).normal(size=40))
    model = PODRegressor(param_transform="log", target_transform="log").fit(X, noisy)
    mean, spread = model.predict(NEW, return_std=True)
    assert 0.05 < np.median(spread / mean) < 0.2
    assert np.mean(np.abs(mean - power_law(NEW)[:, 0]) < 2 * spread) > 0.9


def test_a_value_grows_beyond_the_largest_as_far_as_its_error_supports():
    rng = np.random.default_rng(7)
    values = np.exp(rng.normal(size=(20, 3)) * [1.0, 4.0, 30.0])
    targets = TargetRows(Targets(scalars=values), is_log=True)
    whole = targets.bounds()
    # Known exactly, a law goes on as far as its range; where all are wrong by a factor of 1.5, the error is a half.
    np.testing.assert_array_equal(targets.bounds(targets.rows), whole)
    for factor, error in ((1.5, 0.5), (1.1, 0.1), (0.0, 1.0)):
        with np.errstate(divide="ignore"):
            low, high = targets.bounds(targets.rows + np.log(factor) / targets.scalar_unit)
        np.testing.assert_array_equal(low, whole[0])
        reach = np.minimum(np.log(1 + 1 / error), np.ptp(np.log(values), axis=0))
        np.testing.assert_allclose(high * targets.scalar_unit, np.log(values.max(axis=0)) + reach)
    # A sample without which the law goes astray beyond all bounds leaves next to nothing beyond the largest.
    astray = targets.rows.copy()
    astray[0] += 1e30
    found = targets.bounds(astray)[1] * targets.scalar_unit
    np.testing.assert_allclose(found, np.log(values.max(axis=0)), atol=1.0)


def test_laws_go_on_below_and_what_a_bound_cuts_off_above_is_a_part_of_the_spread():
    y = power_law(X)[:, 0]
    model, new = fitted("a stress"), np.array([[0.01, 20.0, 1.0], [100.0, 0.05, 1.0]])
    low, high = power_law(new)[:, 0]
    assert low < y.min() ** 2 / y.max()
    assert high > y.max() ** 2 / y.min()
    found, spread = model.predict(new, return_std=True)
    assert found[0] == pytest.approx(low, rel=1e-6)
    assert spread[0] < 1e-6 * low
    # Of a logarithm that is too small by d, the relative error is d to first order.
    assert spread[1] == pytest.approx(found[1] * np.log(high / found[1]), rel=1e-6)
    # What is small stays a positive number.
    assert model.predict([[1e-140, 1e140, 1.0]])[0] > 0


def test_a_law_with_noise_over_many_decades_is_not_extrapolated_over_as_many():
    rng = np.random.default_rng(8)
    decades, noise = 30 * rng.random(40), 0.1 * rng.normal(size=40)
    y = 10**decades * np.exp(noise)
    model = PODRegressor(regressor="ridge", param_transform=None, target_transform="log").fit(decades[:, np.newaxis], y)
    (found,) = model.predict([[60.0]])
    # The largest values have the error of the noise, and ten times them is as far as this supports.
    assert 2 < found / y.max() < 100


def test_a_law_of_powers_goes_on_in_the_ranges_of_its_parameters():
    """The largest value of the ranges is hundreds of times that of the samples, whose noise is 2 %."""
    rng = np.random.default_rng(0)
    params = 10 ** rng.uniform(0, 2, (80, 4))
    y = params.prod(axis=1)
    rows = np.argsort(y)[:60]
    model = PODRegressor(regressor="ridge", param_transform="log", target_transform="log")
    model.fit(params[rows], y[rows] * np.exp(0.02 * rng.normal(size=60)))
    corner = params[rows].max(axis=0)
    (found,) = model.predict([corner])
    assert corner.prod() > 200 * y[rows].max()
    assert 0.9 < found / corner.prod() < 1.1


def test_logarithms_go_on_by_their_tangents():
    rows = np.concatenate([X, np.zeros((1, 3))])
    (model,) = PODRegressor(regressor="ridge", param_transform="log").fit(rows, wave(rows)).models_
    low, slopes = model.turns, 1 / model.turns
    np.testing.assert_array_less(low, X.min(axis=0))
    np.testing.assert_allclose(model.scaled(X) * model.scale + model.shift, np.log(X), rtol=1e-12)
    for values in (low * 1.0, 0.5 * low, 0.0 * low, -low):
        expected = np.log(low) + slopes * (values - low)
        np.testing.assert_allclose(model.scaled(values[None])[0] * model.scale + model.shift, expected, rtol=1e-12)
        held = [torch.tensor(part) for part in (values, model.reads_logarithms, low, model.least)]
        held[0].requires_grad_()
        np.testing.assert_allclose(logarithms_of(*held).detach().numpy(), expected, rtol=1e-12)
        logarithms_of(*held).sum().backward()
        np.testing.assert_allclose(held[0].grad.numpy(), slopes, rtol=1e-12)


def test_laws_of_powers_go_on_below_parameters_that_are_not_near_zero():
    rows, new = X + 1.0, np.array([[1.0, 1.0, 1.0], [2.0, 0.8, 0.7]])
    model = PODRegressor().fit(rows, power_law(rows))
    np.testing.assert_allclose(model.predict(new), power_law(new), rtol=1e-6)
    with pytest.raises(FieldDataError, match=r"parameter 1 of X is -2 in sample 1, .* param_transform=None"):
        model.predict([[1.0, 1.0, 1.0], [1.0, -2.0, 1.0]])
    # The smallest number of all may be hardly one.
    rows[0, 1] = 1e-300
    assert np.isfinite(PODRegressor(param_transform="log").fit(rows, wave(rows)).predict(rows)).all()


def test_models_of_earlier_versions_refuse_what_has_no_logarithm():
    model = PODRegressor(param_transform="log", regressor="ridge").fit(X, wave(X))
    model.models_[0].lowest = None
    with pytest.raises(FieldDataError, match=r"parameter 1 of X is -2 in sample 1, .* param_transform=None"):
        model.predict([[1.0, 1.0, 1.0], [1.0, -2.0, 1.0]])


def test_a_parameter_over_decades_may_be_zero_in_some_samples():
    rng = np.random.default_rng(0)
    rows, new = (np.c_[rng.random((n, 2)), 10 ** rng.uniform(-3, 3, n)] for n in (60, 300))
    law = lambda x: np.sin(3 * x[:, 0]) + x[:, 1] + x[:, 2] / (1 + x[:, 2])  # noqa: E731
    rows[:4, 2] = new[:20, 2] = 0.0
    model = PODRegressor().fit(rows, law(rows))
    assert model.models_[0].reads_logarithms.tolist() == [False, False, True]
    # Without logarithms it is 0.3.
    assert relative_l2_error(law(new), model.predict(new), kind="scalar") < 0.05


def test_near_zero_a_uniform_parameter_is_no_law_of_powers():
    """Of a new value near 0 the logarithm is far from all others, and a law of powers has no bound there."""
    for seed in range(4):
        rng = np.random.default_rng(500 + seed)
        law = lambda x: (x[:, 0] + 0.2) ** 2 / (x[:, 1] + 0.1) * (x[:, 2] + 0.3) ** 0.5  # noqa: E731
        rows, new = rng.random((48, 3)), rng.random((2000, 3))
        assert np.abs(PODRegressor().fit(rows, law(rows)).predict(new)).max() < 2 * law(new).max()


def test_a_uniform_parameter_whose_samples_happen_to_stay_away_from_zero_is_no_law_of_powers():
    """Of one draw in fifty the least of 50 values is above four spacings; the logarithm then went on: 0.25."""
    rng = np.random.default_rng(101)
    rows, new = rng.random((50, 4)), rng.random((2000, 4))
    law = lambda x: np.prod(x + 0.2, axis=1)  # noqa: E731
    assert rows[:, 3].min() > 0.08
    model = PODRegressor().fit(rows, law(rows))
    assert model.models_[0].reads_logarithms.all()
    assert relative_l2_error(law(new), model.predict(new), kind="scalar") < 0.03


@pytest.mark.filterwarnings("ignore:X is outside", "ignore:a prediction of")
@pytest.mark.parametrize("seed", range(3))
def test_near_zero_exact_laws_of_powers_go_on(seed):
    """What tangents would make of them is 0.4 to 0.9 of the targets, also where the two least values are close."""
    rng = np.random.default_rng([seed, 40, 3])
    rows, new = rng.random((40, 3)), rng.random((1000, 3))
    law = lambda x: x[:, 0] * x[:, 1] ** 3 / x[:, 2] ** 0.5  # noqa: E731
    assert (new < rows.min(axis=0)).any(axis=0).all()
    model = PODRegressor().fit(rows, law(rows))
    np.testing.assert_allclose(model.predict(new), law(new), rtol=1e-6)
    # A load of 0 has an answer, and one below 0 has no logarithm.
    assert abs(model.predict([[0.0, 0.5, 0.5]])) < 1e-100
    with pytest.raises(FieldDataError, match=r"parameter 1 of X is -0\.5 in sample 0"):
        model.predict([[0.5, -0.5, 0.5]])


@pytest.mark.filterwarnings("ignore:X is outside", "ignore:.*factorial|.*two values|.*levels")
def test_exact_laws_of_powers_go_on_below_the_least_level_of_a_design():
    """Several samples share the least value, so that no single one tells whether the law goes on below it."""
    levels = np.arange(1.0, 5.0)
    rows = np.array([(a, b) for a in levels for b in levels])
    law = lambda x: x[:, 0] ** 0.5 * x[:, 1] ** 2.5  # noqa: E731
    new = np.array([[0.5, 1.0], [2.5, 0.4], [0.5, 0.5]])
    np.testing.assert_allclose(PODRegressor().fit(rows, law(rows)).predict(new), law(new), rtol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.003])
@pytest.mark.parametrize("seed", range(3))
def test_a_law_of_powers_of_a_number_with_three_values_is_found(noise, seed):
    """As with four values; the error of the mean in logarithms is no reason against these."""
    rng = np.random.default_rng(seed)
    rows, new = (
        np.column_stack([rng.choice([1.0, 2.0, 3.0], n), rng.uniform([1, 0.2], [5, 1], (n, 2))]) for n in (60, 500)
    )
    law = lambda x: x[:, 1] ** 2 * x[:, 2] / x[:, 0]  # noqa: E731
    found = PODRegressor().fit(rows, law(rows) * np.exp(noise * rng.normal(size=60))).predict(new)
    assert relative_l2_error(law(new), found, kind="scalar") < max(noise, 1e-6)


@pytest.mark.parametrize("regressor", ["auto", "ridge"])
def test_zeros_beside_an_exact_law_of_powers_stay_readable(regressor):
    """The sample of the least number of a law may be 0 in a parameter over decades: the fit refused it."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.random(30), 10 ** rng.uniform(-3, 0, 30)])
    rows[[rows[:, 0].argmin(), 5], 1] = 0.0
    y = rows[:, 0] ** 2.5
    options = {} if regressor == "auto" else {"param_transform": "log", "target_transform": "log"}
    model = PODRegressor(regressor=regressor, **options).fit(rows, y)
    assert regressor == "auto" or (model.models_[0].lowest < 1e-12).tolist() == [True, False]
    np.testing.assert_allclose(model.predict(rows), y, rtol=1e-6)


@pytest.mark.parametrize("law", [lambda x: x[:, 0] ** 0.5 * (1 + x[:, 1]), lambda x: (1 + x[:, 1]) / (x[:, 0] + 0.03)])
def test_below_all_samples_near_zero_the_told_errors_grow(law):
    """Nothing tells there how a parameter goes on: the standard deviation is that of logarithms beside tangents."""
    told, inside = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows, new = rng.random((40, 2)), rng.random((4000, 2))
        model = PODRegressor().fit(rows, law(rows))
        found, spread = model.predict(new, return_std=True)
        error, below = np.abs(found - law(new)), (new < rows.min(axis=0)).any(axis=1)
        told.append(model.leave_one_out_error_ * np.linalg.norm(law(new)) / np.linalg.norm(error))
        inside.append(np.mean(error[below] < 2 * spread[below]))
    assert np.exp(np.mean(np.log(told))) > 0.2
    assert np.mean(inside) > 0.5


@pytest.mark.parametrize("counts", [(2, 2, 2), (2, 2, 2, 2), (3, 3), (3, 3, 3), (10, 3), (10, 2), (3, 4, 5)])
def test_standard_deviations_grow_between_the_values_of_a_design(counts):
    """Residuals on a design can be zero, since all other samples together know each one."""
    axes = [np.linspace(0.0, 1.0, count) for count in counts]
    rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(counts))
    new = np.random.default_rng(0).random((400, len(counts)))
    laws = [
        lambda x: np.sin(3 * x[:, 0]) + 2 * x[:, 1] * x[:, -1] + x[:, 1] ** 2,
        lambda x: np.exp(2 * x[:, 0] + x[:, 1]) / (1 + x[:, -1]),
        lambda x: np.maximum(x[:, 0] + x[:, 1] - 1.1, 0) + 0.3 * x[:, -1] ** 2,
    ]
    for law in laws:
        model = PODRegressor().fit(rows, law(rows))
        found, spread = model.predict(new, return_std=True)
        error = np.abs(found - law(new))
        assert np.mean((error < 2 * spread) | (error < 1e-9)) > 0.7
        # At the values themselves nothing is added.
        assert model.predict(rows, return_std=True)[1].mean() < 0.6 * spread.mean()


def test_parameters_that_do_not_matter_are_left_out_as_by_the_likeliest_process():
    """With leave-one-out errors alone, and length scales of a limited size, it was five times the error and more."""
    law = lambda x: np.sin(4 * x[:, 0]) + x[:, 1] ** 2 * x[:, 2]  # noqa: E731
    kernel = ConstantKernel(1.0, (1e-4, 1e6)) * RBF(np.ones(6), (1e-2, 1e4)) + WhiteKernel(1e-6, (1e-10, 1.0))
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows, new = rng.random((120, 6)), rng.uniform(0.05, 0.95, (400, 6))
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(rows, law(rows))
        errors = [
            relative_l2_error(law(new), model.predict(new), kind="scalar")
            for model in (PODRegressor().fit(rows, law(rows)), process)
        ]
        assert errors[0] < 1.5 * errors[1]


def test_the_unit_of_the_targets_does_not_matter():
    """The search for length scales ended the earlier, the further the logarithm of the error was from 0."""
    rng = np.random.default_rng(2)
    rows, new = rng.random((60, 20)), rng.random((200, 20))
    law = lambda x: np.sin(3 * x[:, 0]) + 2 * x[:, 1]  # noqa: E731
    expected = PODRegressor().fit(rows, law(rows)).predict(new)
    for unit in (1e-6, 1e6):
        found = PODRegressor().fit(rows, unit * law(rows)).predict(new) / unit
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_number_of_a_material_is_no_place_on_a_line():
    """Nothing tells of a number by the others, so that errors without all samples of one must not decide."""
    strengths, errors = np.array([250.0, 350.0, 800.0, 160.0, 500.0, 50.0]), []
    law = lambda x: strengths[x[:, 0].astype(int)] - 100 * x[:, 1] * x[:, 2]  # noqa: E731
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows, new = (np.c_[rng.integers(0, 6, n), rng.uniform(1, 3, (n, 2))] for n in (40, 500))
        errors.append(relative_l2_error(law(new), PODRegressor().fit(rows, law(rows)).predict(new), kind="scalar"))
    # With these errors two of six have the error of the mean, 0.8 and 1.
    assert max(errors) < 0.2
    assert np.median(errors) < 0.05


def test_nothing_lies_between_the_values_of_a_flag():
    """Columns of a table of zeros and ones are judged by their values alone, beside parameters of many."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        rows, new = (np.c_[rng.random((n, 3)), rng.integers(0, 2, n)] for n in (40, 300))
        law = lambda x: (np.sin(3 * x[:, 0]) + x[:, 1] ** 2 + 0.5 * x[:, 2] * x[:, 0]) * (1 + x[:, 3])  # noqa: E731
        model = PODRegressor().fit(rows, law(rows))
        errors.append(relative_l2_error(law(new), model.predict(new), kind="scalar"))
    # With what predictions bend half-way between 0 and 1 it is 0.01.
    assert np.exp(np.mean(np.log(errors))) < 0.005


def test_where_no_input_varies_the_mean_is_predicted():
    y = np.random.default_rng(0).random(60)
    for value in (0.1, 1.0):
        model = PODRegressor().fit(np.full((60, 1), value), y)
        np.testing.assert_allclose(model.predict([[value], [1.01 * value]]), y.mean(), rtol=1e-9)


def test_numbers_without_logarithms_are_named():
    with pytest.raises(FieldDataError, match=r"target_transform='log' needs positive values, .* is -0\.99"):
        PODRegressor(target_transform="log").fit(X, np.cos(np.arange(40.0) * 0.1 + 3.0))
    PODRegressor(param_transform="log").fit(X - X.min(axis=0) + [[0.0, 1.0, 1.0]], wave(X))


def test_a_given_base_takes_logarithms_of_physical_targets():
    base = PODRegressor(param_transform="log", target_transform="log")
    model = LaMORegressor(width=8, depth=1, max_iter=3, random_state=0, base=base).fit(X, power_law(X))
    np.testing.assert_allclose(model.predict(NEW), power_law(NEW), rtol=1e-5)


def test_a_base_has_the_logarithms_of_physical_targets(tmp_path):
    model = LaMORegressor(width=8, depth=1, max_iter=3, random_state=0).fit(X, power_law(X))
    assert model.base_.estimator.models_[0].learns_logarithms
    np.testing.assert_allclose(model.predict(NEW), power_law(NEW), rtol=1e-5)
    model.save(tmp_path / "model.skop")
    np.testing.assert_array_equal(skop.load(tmp_path / "model.skop").predict(NEW), model.predict(NEW))


def test_gradients_of_a_base_of_several_models_are_the_limits_of_differences():
    """One model has no channels, and others have no scalars."""
    points = np.random.default_rng(3).random((6, 2))
    fields, scalars = np.sin(X.sum(axis=1)[:, None] + 3 * points[:, 0]), np.stack([power_law(X)[:, 0], wave(X)], 1)
    y = FieldSet(points, fields[..., np.newaxis], params=scalars)
    model = LaMORegressor(width=8, depth=1, max_iter=2, random_state=0).fit(X, y)
    assert {len(part.channels) for part in model.base_.estimator.models_} == {0, 1}
    rows, steps = 1.01 * X[:4], 1e-3 * np.eye(3)
    for output, value in (
        (0, lambda found: found.params[:, 0]),
        (1, lambda found: found.params[:, 1]),
        (lambda field: (field[..., 0] ** 2).sum(dim=1), lambda found: (found.values[..., 0] ** 2).sum(axis=1)),
    ):
        ends = [[value(model.predict(rows + sign * step)) for step in steps] for sign in (1, -1)]
        slopes = (np.stack(ends[0], axis=1) - np.stack(ends[1], axis=1)) / 2e-3
        found = model.gradient(rows, output)
        assert np.abs(found).max() > 0.1
        np.testing.assert_allclose(found, slopes, rtol=1e-3, atol=1e-3)


def test_gradients_are_the_derivatives_of_known_laws():
    rows = NEW[:5]
    stress = power_law(rows)[:, :1] * np.array([1.0, -2.0, 0.0]) / rows
    found = fitted("a law of powers")
    np.testing.assert_allclose(found.gradient(rows, 0), stress, rtol=1e-5, atol=1e-6)
    displacement = power_law(rows)[:, 1:] * np.array([3.0, 0.0, -1.0]) / rows
    np.testing.assert_allclose(found.gradient(rows, 1), displacement, rtol=1e-5, atol=1e-11)
    polynomial = PODRegressor(regressor="polynomial").fit(X, (X**2).sum(axis=1) + X[:, 0] * X[:, 1])
    np.testing.assert_allclose(polynomial.gradient(rows), 2 * rows + rows[:, [1, 0, 2]] * [1, 1, 0], rtol=1e-8)


def test_the_mean_has_no_slope():
    np.testing.assert_array_equal(PODRegressor(regressor="mean").fit(X, wave(X)).gradient(NEW), np.zeros((30, 3)))


def test_an_output_of_noise_is_not_left_to_a_model_of_the_others():
    """Beside six outputs that want models of their own, it had 1.2 to 1.7 times the error of their common one."""
    for seed in (1, 6):
        rng = np.random.default_rng(seed)
        X, new = rng.random((40, 2)), rng.random((300, 2))
        smooth = [np.sin(5 * X[:, 0]) + X[:, 1], np.exp(3 * X[:, 0]) * X[:, 1] ** 2, 1.0 * (X[:, 0] > 0.5)]
        noisy = [rng.normal(size=40), 3 * X[:, 0] - X[:, 1] + 0.05 * rng.normal(size=40)]
        y = np.stack([*smooth, np.maximum(X[:, 1] - 0.7, 0), (X[:, 0] + 1) ** 1.5 / (X[:, 1] + 0.2), *noisy], axis=1)
        found, alone = PODRegressor().fit(X, y).predict(new), PODRegressor().fit(X, y[:, 5]).predict(new)
        assert np.sqrt(np.mean(found[:, 5] ** 2)) < 1.1 * np.sqrt(np.mean(alone**2)) + 0.1
