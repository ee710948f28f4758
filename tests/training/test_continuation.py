"""Two trainings, the second of which continues the first, against a single one that is as long as both."""

import numpy as np
import pytest
import torch

from skop.exceptions import SkopWarning
from skop.training import EarlierTraining, Trainer, fingerprint

from .test_loop import Loader, PointwiseLinear, monitors_of, rates_of, squared, weights_of
from .trainers import configured

SCHEDULES = {
    "cosine": {"schedule": "cosine", "warmup_fraction": 0.1},
    "one cycle": {"schedule": "one_cycle"},
    "constant": {"schedule": "constant"},
    "by epochs": {"schedule": "cosine", "schedule_interval": "epoch"},
}


def trainer_for(network, epochs, rng, earlier=None, loss=squared, **options):
    hooks = {"forward": options.pop("forward", None), "monitors": monitors_of(options)}
    chosen = {"batch_size": 4, "learning_rate": 0.05, "keep_end": True, **options}
    config = configured(max_iter=epochs, **chosen)
    return Trainer(network, loss, config, rng, earlier=earlier or EarlierTraining(), **hooks)


def continued(first, epochs, **options):
    """A trainer that continues another one that has run."""
    before = first.earlier.epochs + len(first.history.loss_curve)
    earlier = EarlierTraining(before, first.earlier.seconds + first.clock.elapsed, first.end)
    return trainer_for(first.network, epochs, first.rng, earlier, **options)


def test_the_rate_is_that_of_one_long_training_at_its_present_place():
    for name in SCHEDULES:
        options = SCHEDULES[name]
        whole = rates_of(trainer_for(PointwiseLinear(), 10, np.random.RandomState(0), **options))
        first = trainer_for(PointwiseLinear(), 4, np.random.RandomState(0), **options)
        first.run(Loader())
        # Three steps an epoch.
        assert rates_of(continued(first, 6, **options)) == whole[12:]
        assert len(set(whole)) > 5 or name == "constant"


@pytest.mark.parametrize("decay", [None, 0.9])
def test_two_trainings_at_a_constant_rate_are_one(decay):
    options = {"schedule": "constant", "warmup_fraction": 0.0, "ema_decay": decay, "weight_decay": 0.1}
    whole = trainer_for(PointwiseLinear(), 5, np.random.RandomState(0), **options)
    whole.run(Loader())
    first = trainer_for(PointwiseLinear(), 2, np.random.RandomState(0), **options)
    first.run(Loader())
    second = continued(first, 2, **options)
    second.run(Loader())
    third = continued(second, 1, **options)
    third.run(Loader())
    assert torch.equal(weights_of(third), weights_of(whole))
    assert third.end.fingerprint == whole.end.fingerprint != first.end.fingerprint


def test_the_end_of_a_training_is_no_part_of_the_network():
    trainer = trainer_for(PointwiseLinear(), 2, np.random.RandomState(0), ema_decay=0.9)
    trainer.run(Loader())
    held = {name: value.clone() for name, value in trainer.end.weights.items()}
    continued(trainer, 2, ema_decay=0.9).run(Loader())
    assert all(torch.equal(trainer.end.weights[name], value) for name, value in held.items())
    assert trainer_for(PointwiseLinear(), 1, np.random.RandomState(0), keep_end=False).end is None


def test_weights_that_were_changed_by_hand_are_the_start():
    first = trainer_for(PointwiseLinear(), 2, np.random.RandomState(0), ema_decay=0.9)
    first.run(Loader())
    with torch.no_grad():
        first.network.linear.bias += 1
    chosen = weights_of(first)
    second = continued(first, 1, learning_rate=0.0, ema_decay=0.9)
    second.run(Loader())
    np.testing.assert_allclose(weights_of(second), chosen, rtol=1e-12)


@pytest.mark.parametrize(("before", "now"), [(None, 0.9), (0.9, None)])
def test_without_an_average_before_or_now_the_final_weights_are_the_start(before, now):
    first = trainer_for(PointwiseLinear(), 2, np.random.RandomState(0), ema_decay=before)
    first.run(Loader())
    final = weights_of(first)
    second = continued(first, 1, learning_rate=0.0, ema_decay=now)
    second.run(Loader())
    np.testing.assert_allclose(weights_of(second), final, rtol=1e-12)
    # The moments went on all the same: two epochs and one of three steps each.
    assert second.end.moments["linear.weight"]["step"] == 9


def test_a_break_in_the_first_epoch_goes_back_to_the_end_of_the_earlier_training():
    calls = []

    def breaks(prediction, batch):
        calls.append(weights_of(second))
        return squared(prediction, batch) * (np.nan if len(calls) == 2 else 1.0)

    first = trainer_for(PointwiseLinear(), 2, np.random.RandomState(0), ema_decay=0.9)
    first.run(Loader())
    last = torch.cat([value.flatten() for value in first.end.weights.values()])
    second = continued(first, 1, loss=breaks, ema_decay=0.9)
    with pytest.warns(SkopWarning, match="half the learning rate"):
        second.run(Loader())
    # Three steps an epoch; the fourth call is the first of the second try.
    assert torch.equal(calls[0], last)
    assert torch.equal(calls[3], last)
    assert second.end.moments["linear.weight"]["step"] == 9
    # The halved rate is that of further trainings too.
    third = continued(second, 1, ema_decay=0.9, schedule="constant", warmup_fraction=0.0)
    np.testing.assert_allclose(rates_of(third), [0.025] * 3)


def test_an_error_leaves_the_final_weights_of_the_earlier_training():
    def broken(prediction, batch):
        raise RuntimeError("broken loss")

    first = trainer_for(PointwiseLinear(), 2, np.random.RandomState(0), ema_decay=0.9)
    first.run(Loader())
    with pytest.raises(RuntimeError, match="broken loss"):
        continued(first, 1, loss=broken, ema_decay=0.9).run(Loader())
    assert fingerprint(first.network) == first.end.fingerprint


def test_the_weights_at_the_start_are_kept_unless_an_epoch_is_better():
    errors = iter([3.0, 1.0, 2.0])
    first = trainer_for(PointwiseLinear(), 3, np.random.RandomState(0), validate=lambda: next(errors))
    first.run(Loader())
    best = weights_of(first)
    errors = iter([1.0, 1.5, 1.2])
    options = {"validate": lambda: next(errors), "validate_first": True}
    second = continued(first, 2, **options)
    history = second.run(Loader())
    assert torch.equal(weights_of(second), best)
    assert (history.best_iter, history.validation_errors) == (0, [1.5, 1.2])
    # The training went on from the last epoch all the same, not from the best one.
    assert second.end.moments["linear.weight"]["step"] == 15
    errors = iter([1.0, 0.5])
    third = continued(second, 1, **options)
    assert third.run(Loader()).best_iter == 1
    assert not torch.equal(weights_of(third), best)


@pytest.mark.filterwarnings("ignore:max_time:skop.exceptions.SkopWarning")
def test_with_a_time_limit_the_place_is_that_of_all_seconds(monkeypatch):
    now, rates = [0.0], []
    monkeypatch.setattr("skop.training._distributed.time.perf_counter", lambda: now[0])

    def takes_a_second(prediction, batch):
        now[0] += 1.0
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        return squared(prediction, batch)

    options = {"loss": takes_a_second, "schedule": "cosine", "warmup_fraction": 0.0}
    trainer = trainer_for(PointwiseLinear(), 10**6, np.random.RandomState(0), max_time=12.0, **options)
    trainer.run(Loader())
    rates.clear()
    trainer = continued(trainer, 10**6, max_time=6.0, **options)
    assert trainer.run(Loader()).stopped == "max_time"
    # The first call of `takes_a_second` is that of the untimed pass, which counts with the first step; before that, 12
    # of 18 seconds are over.
    place = (12.0 + np.array([0.0, 2.0, 3.0, 4.0, 5.0])) / 18.0
    np.testing.assert_allclose(rates[1:], 0.05 * 0.5 * (1 + np.cos(np.pi * place)), rtol=1e-6)
    assert len(rates) == 6
