"""The cost of an epoch from a few steps, against a clock that knows what each batch takes."""

import numpy as np
import pytest
import torch
from torch import nn

from skop.data import Batch
from skop.training import Trainer, Validation, measure_epoch
from skop.training._timing import _SavedTensors, _spread

from .trainers import configured

SIZES = np.random.default_rng(0).integers(5, 400, size=61)


class Inputs:
    """The part of a FieldSet that tells the number of points."""

    n_points = SIZES


class RaggedLoader:
    """Loads samples of unlike size, one at a time or several, and takes a time that is linear in the points."""

    device = torch.device("cpu")
    inputs, queries, subsample_points, n_bytes = Inputs(), None, None, 1000

    def __init__(self, clock, seconds_of=lambda n_points: 0.25 + 0.001 * n_points):
        self.clock, self.loaded, self.seconds_of = clock, [], seconds_of

    def __len__(self):
        return len(SIZES)

    def batches(self, batch_size, order):
        for start in range(0, len(order), batch_size):
            counts = SIZES[order[start : start + batch_size]]
            if self.subsample_points is not None:
                counts = np.minimum(counts, self.subsample_points)
            self.loaded.append(int(counts.sum()))
            # The first step compiles.
            self.clock.now += self.seconds_of(counts.sum()) + (100.0 if len(self.loaded) == 1 else 0.0)
            fields = torch.ones(len(counts), 4, 2)
            yield Batch(torch.zeros(4, 1), fields, None, (4,), fields[..., :1])


class Network(nn.Linear):
    def forward(self, coords, fields, params, grid_shape):
        return super().forward(fields)


class Clock:
    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("skop.training._timing.time.perf_counter", lambda: self.now)


def trainer_for(batch_size, network=None, **options):
    validate = options.pop("validate", None)
    config = configured(max_iter=5, batch_size=batch_size, learning_rate=0.1, **options)
    loss = lambda outputs, batch: ((outputs - batch.target) ** 2).mean()  # noqa: E731
    return Trainer(
        network or Network(2, 1),
        loss,
        config,
        np.random.RandomState(0),
        monitors=[] if validate is None else [Validation(validate)],
    )


@pytest.mark.parametrize("batch_size", [1, 4, 7, 61, 200])
@pytest.mark.parametrize("drawn", [None, 100])
def test_a_time_that_is_linear_in_the_points_is_found_exactly(monkeypatch, batch_size, drawn):
    clock = Clock(monkeypatch)
    loader = RaggedLoader(clock)
    loader.subsample_points = drawn
    cost = measure_epoch(trainer_for(batch_size), loader, seconds=0.0)
    counts = np.minimum(SIZES, drawn or np.inf)
    n_steps = -(-len(SIZES) // batch_size)
    # The time of compilation is not in it.
    np.testing.assert_allclose(cost.seconds, 0.25 * n_steps + 0.001 * counts.sum(), rtol=1e-9)
    assert cost.n_steps == n_steps
    # One untimed step, and a few that are timed.
    assert len(loader.loaded) <= 1 + max(5, 3)


def test_validation_is_part_of_an_epoch(monkeypatch):
    clock = Clock(monkeypatch)

    def validate():
        clock.now += 3.0
        return 1.0

    plain = measure_epoch(trainer_for(10), RaggedLoader(clock), seconds=0.0).seconds
    validated = measure_epoch(trainer_for(10, validate=validate), RaggedLoader(clock), seconds=0.0).seconds
    np.testing.assert_allclose(validated - plain, 3.0, rtol=1e-9)


def test_long_steps_are_timed_three_times_at_most(monkeypatch):
    clock = Clock(monkeypatch)
    loader = RaggedLoader(clock, lambda n_points: 20.0)
    assert measure_epoch(trainer_for(1), loader).seconds == pytest.approx(20.0 * 61)
    assert len(loader.loaded) == 4
    # The middle one, the largest and the smallest.
    assert loader.loaded[1:] == [np.sort(SIZES)[30], SIZES.max(), SIZES.min()]


def test_batches_are_spread_over_all_sizes():
    for count in [1, 2, 3, 4, 5, 6, 100]:
        ranks = _spread(count)
        assert len(ranks) == len(set(ranks)) == min(count, 5)
        assert {0, count - 1} <= set(ranks)


# ---------------------------------------------------------------- memory
def saved_by(function, weights=()):
    saved = _SavedTensors(list(weights))
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
        function().sum().backward()
    return saved


def test_a_tensor_counts_once_however_often_it_is_saved():
    inputs = torch.randn(1000, requires_grad=True)
    # The exponential saves its result, which the sine saves as its argument.
    assert sum(saved_by(lambda: inputs.exp().sin()).sizes.values()) == 4000
    assert sum(saved_by(lambda: inputs.exp().sin().tanh()).sizes.values()) == 8000
    # Views of one tensor.
    assert sum(saved_by(lambda: torch.cat([part.sin() for part in inputs.exp().split(10)])).sizes.values()) == 4000


def test_weights_are_not_counted_as_saved():
    layer = nn.Linear(30, 40)
    inputs = torch.randn(50, 30, requires_grad=True)
    assert sum(saved_by(lambda: layer(inputs), layer.parameters()).sizes.values()) == 4 * 50 * 30
    assert saved_by(lambda: layer(inputs), layer.parameters()).peak == 3 * 4 * 50 * 30


def test_memory_is_that_of_samples_state_and_saved_tensors(monkeypatch):
    def memory(**options):
        return measure_epoch(trainer_for(1, **options), RaggedLoader(Clock(monkeypatch)), seconds=0.0).memory

    plain, weights = memory(), 3 * 4
    assert plain > 1000 + 6 * weights
    # The average itself, its copy of the last good epoch and that of the start.
    assert memory(ema_decay=0.9) - plain == 3 * weights
    # Weights and moments, of which the two counters of steps are part.
    assert memory(keep_end=True) - plain == 3 * weights + 2 * 4
