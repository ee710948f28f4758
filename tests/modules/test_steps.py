"""Steps at the start: in their range, even on a logarithmic scale, and what is refused."""

import math

import numpy as np
import pytest
import torch

from skop.modules._steps import STEP_RANGE, initial_step_bias


def steps_of(biases):
    return torch.nn.functional.softplus(biases.double())


@pytest.mark.parametrize("step_range", [STEP_RANGE, (0.5, 2.0), (1e-7, 30.0)])
def test_steps_are_even_on_a_logarithmic_scale(step_range):
    torch.manual_seed(0)
    steps = steps_of(initial_step_bias(20_000, step_range))
    low, high = step_range
    assert steps.min() >= low * (1 - 1e-3)
    assert steps.max() <= high * (1 + 1e-3)
    places = (steps.log() - math.log(low)) / math.log(high / low)
    shares, _ = np.histogram(places, bins=5, range=(-0.01, 1.01))
    np.testing.assert_allclose(shares / len(steps), 0.2, atol=0.02)


def test_mamba_s_range():
    assert STEP_RANGE == (0.001, 0.1)
    torch.manual_seed(0)
    first = initial_step_bias(5)
    torch.manual_seed(0)
    assert torch.equal(first, initial_step_bias(5, (0.001, 0.1)))


def test_equal_ends_give_one_step():
    np.testing.assert_allclose(steps_of(initial_step_bias(3, (0.25, 0.25))), 0.25, rtol=1e-5)


def test_the_ends_may_come_in_either_order_and_as_a_list():
    torch.manual_seed(0)
    first = initial_step_bias(5, (0.01, 0.5))
    torch.manual_seed(0)
    assert torch.equal(first, initial_step_bias(5, [0.5, 0.01]))


def test_other_than_two_positive_steps_are_refused():
    for step_range in [
        (0.0, 0.1),
        (-0.1, 0.1),
        (0.1,),
        (0.1, 0.2, 0.3),
        (),
        (math.nan, 0.1),
        (0.1, math.nan),
        (0.1, math.inf),
    ]:
        with pytest.raises(ValueError, match=r"step_range is .*two positive numbers"):
            initial_step_bias(3, step_range)
