"""Schedules against PyTorch's OneCycleLR and against laws."""

import warnings
from itertools import product

import numpy as np
import pytest
import torch

from skop.training._schedule import SCHEDULES, RateAndMomentum, schedule_at

PEAK = 5e-4


def one_cycle_of_torch(total_steps, **options):
    """Rate and first beta of Adam at every step."""
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, total_steps=total_steps, **options)
    rates, momenta = [], []
    with warnings.catch_warnings():
        # Stepping the schedule without the optimiser is on purpose here.
        warnings.simplefilter("ignore", UserWarning)
        for step in range(total_steps):
            rates.append(optimizer.param_groups[0]["lr"])
            momenta.append(optimizer.param_groups[0]["betas"][0])
            if step < total_steps - 1:
                schedule.step()
    return np.array(rates), np.array(momenta)


def sampled(name, total_steps, **options):
    return [schedule_at(name, step, total_steps, **options) for step in range(total_steps)]


def test_one_cycle_is_that_of_pytorch():
    for total_steps in [7, 10, 100, 333, 1000]:
        rates, momenta = one_cycle_of_torch(total_steps)
        ours = sampled("one_cycle", total_steps)
        np.testing.assert_allclose([PEAK * now.rate for now in ours], rates, rtol=1e-7, atol=1e-7 * PEAK / 250_000)
        np.testing.assert_allclose([now.momentum for now in ours], momenta, rtol=1e-7)


@pytest.mark.parametrize("shape", [(0.2, 1e4, 1e4), (0.2, 1e2, 1e5), (0.5, 1.0, 3.0)])
def test_one_cycle_of_another_shape_is_that_of_pytorch(shape):
    names = ("pct_start", "div_factor", "final_div_factor")
    rates, momenta = one_cycle_of_torch(100, **dict(zip(names, shape, strict=True)))
    ours = sampled("one_cycle", 100, one_cycle=shape)
    np.testing.assert_allclose([PEAK * now.rate for now in ours], rates, rtol=1e-6, atol=1e-12 * PEAK)
    np.testing.assert_allclose([now.momentum for now in ours], momenta, rtol=1e-7)


def test_a_one_cycle_without_a_shape_is_refused():
    for shape in [(0.3, 25.0), (0.0, 25.0, 1e4), (1.0, 25.0, 1e4), (0.3, 0.5, 1e4)]:
        with pytest.raises(ValueError, match="one_cycle is"):
            schedule_at("one_cycle", 0, 10, one_cycle=shape)


def test_one_cycle_starts_peaks_and_ends_where_the_published_scripts_do():
    start, end = schedule_at("one_cycle", 0, 1000), schedule_at("one_cycle", 999, 1000)
    top = schedule_at("one_cycle", 0.3 * 1000 - 1, 1000)
    assert (start.rate, start.momentum) == pytest.approx((1 / 25, 0.95))
    assert (top.rate, top.momentum) == pytest.approx((1.0, 0.85))
    assert (end.rate, end.momentum) == pytest.approx((1 / 250_000, 0.95))


def test_rates_stay_between_zero_and_the_peak():
    for total_steps, name in product([1, 2, 3, 50], SCHEDULES):
        for step in np.linspace(0, total_steps, 41):
            now = schedule_at(name, float(step), total_steps)
            assert 0 <= now.rate <= 1
            assert now.momentum is None or 0.85 <= now.momentum <= 0.95


def test_rates_rise_through_the_warm_up_and_then_fall():
    for name, warmup in [("one_cycle", 0.3), ("cosine", 0.05), ("cosine", 0.4), ("cosine", 0.0)]:
        rates = np.array([now.rate for now in sampled(name, 200, warmup_fraction=warmup)])
        top = int(rates.argmax())
        assert rates[top] == pytest.approx(1.0)
        assert top == pytest.approx(200 * warmup, abs=1)
        assert (np.diff(rates[: top + 1]) > 0).all()
        assert (np.diff(rates[top:]) < 0).all()


def test_momentum_mirrors_the_rate_of_one_cycle():
    ours = sampled("one_cycle", 200)
    rates, momenta = ([getattr(now, name) for now in ours] for name in ("rate", "momentum"))
    assert int(np.argmin(momenta)) == int(np.argmax(rates))


def test_cosine_ends_at_zero_and_has_half_the_rate_half_way():
    assert schedule_at("cosine", 100, 100, 0.0).rate == pytest.approx(0.0, abs=1e-12)
    assert schedule_at("cosine", 50, 100, 0.0).rate == pytest.approx(0.5)
    assert schedule_at("cosine", 60, 100, 0.2).rate == pytest.approx(0.5)


def test_constant_stays_at_the_peak_after_a_linear_warm_up():
    rates = [now.rate for now in sampled("constant", 100, warmup_fraction=0.1)]
    np.testing.assert_allclose(np.diff(rates[:10]), 1 / 11)
    assert set(rates[10:]) == {1.0}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_continuous_in_the_step(name):
    # Steps are real numbers, because progress may be measured in time.
    fine = [schedule_at(name, step, 100).rate for step in np.linspace(0, 99, 4001)]
    assert np.abs(np.diff(fine)).max() < 0.02


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_of_twice_the_steps_is_the_same_curve(name):
    short, long = (schedule_at(name, 0.6 * total, total).rate for total in (1000, 2000))
    assert short == pytest.approx(long, abs=2e-3)


def test_only_one_cycle_moves_the_momentum():
    assert schedule_at("cosine", 3, 10).momentum is None
    assert RateAndMomentum(1.0).momentum is None
