"""The training loop on a problem with a known answer, and everything that can go wrong in it."""

import warnings
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from skop.data import Batch
from skop.exceptions import SkopWarning, TrainingDivergedError
from skop.modules import (
    BidirectionalSSDMixer,
    GridSSDMixer,
    HydraMixer,
    LatentPooling,
    LearnedPositionalEncoding,
)
from skop.training import Monitor, Trainer, Validation
from skop.training._schedule import schedule_at

from .trainers import configured

N_SAMPLES = 12


class PointwiseLinear(nn.Module):
    """y = x W + b at every point; remembers nothing."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.linear = nn.Linear(2, 1, dtype=dtype)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.bias.zero_()

    def forward(self, coords, fields, params, grid_shape):
        return self.linear(fields)


class Loader:
    """The part of FieldLoader that training uses, over tensors."""

    device = torch.device("cpu")

    def __init__(self, dtype=torch.float64):
        generator = torch.Generator().manual_seed(0)
        self.fields = torch.randn(N_SAMPLES, 5, 2, generator=generator, dtype=dtype)
        self.target = self.fields @ torch.tensor([[2.0], [-1.0]], dtype=dtype) + 0.5
        self.orders = []

    def __len__(self):
        return N_SAMPLES

    def batches(self, batch_size, order):
        self.orders.append(list(order))
        for start in range(0, len(order), batch_size):
            rows = torch.as_tensor(order[start : start + batch_size])
            yield Batch(torch.zeros(5, 1), self.fields[rows], None, (5,), self.target[rows])


def squared(prediction, batch):
    return ((prediction - batch.target) ** 2).mean()


class Told(Monitor):
    """Calls functions: one that may stop the training, one that may change it."""

    def __init__(self, on_epoch_end, on_review):
        self.on_epoch_end, self.on_review = on_epoch_end, on_review

    def epoch(self, trainer):
        stops = self.on_epoch_end is not None and self.on_epoch_end(trainer.history, trainer.progress)
        return "callback" if stops else None

    def review(self, trainer):
        return None if self.on_review is None else self.on_review(trainer.progress)


def monitors_of(options):
    """Take the functions out of some options, as monitors."""
    validate = options.pop("validate", None)
    stopping = {name: options.pop(name) for name in ("n_iter_no_change", "tol") if name in options}
    stopping["at_start"] = options.pop("validate_first", False)
    told = Told(options.pop("on_epoch_end", None), options.pop("review", None))
    return [told] if validate is None else [Validation(validate, **stopping), told]


def make_trainer(loss=squared, seed=0, network=None, **options):
    chosen = {"max_iter": 5, "batch_size": 4, "learning_rate": 0.05, "schedule": "constant", "warmup_fraction": 0.0}
    network = PointwiseLinear() if network is None else network
    forward, after, monitors = options.pop("forward", None), options.pop("after", None), monitors_of(options)
    config, rng = configured(**(chosen | options)), np.random.RandomState(seed)
    return Trainer(network, loss, config, rng, forward=forward, monitors=monitors, after=after)


def rates_of(trainer, loader=None):
    """Learning rates of all steps of a run."""
    rates, step = [], trainer.optimizer.step

    def recorded_step():
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        step()

    trainer.optimizer.step = recorded_step
    trainer.run(Loader() if loader is None else loader)
    return rates


def weights_of(trainer):
    return torch.cat([parameter.detach().flatten().clone() for parameter in trainer.network.parameters()])


# ---------------------------------------------------------------- the plain loop
def test_a_linear_problem_is_solved():
    trainer = make_trainer(max_iter=150, schedule="cosine")
    history = trainer.run(Loader())
    assert history.loss_curve[-1] < 1e-4 * history.loss_curve[0]
    np.testing.assert_allclose(weights_of(trainer), [2.0, -1.0, 0.5], atol=1e-2)
    assert len(history.loss_curve) == len(history.seconds) == history.best_iter == 150
    assert history.stopped == "max_iter"
    assert np.all(np.diff(history.seconds) >= 0)
    assert not trainer.network.training


def test_the_loop_is_adamw_with_clipping_in_a_seeded_order():
    options = {"weight_decay": 0.1, "max_grad_norm": 0.5, "schedule": "one_cycle", "max_iter": 4, "batch_size": 5}
    trainer, loader = make_trainer(**options), Loader()
    history = trainer.run(loader)

    network, rng = PointwiseLinear(), np.random.RandomState(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1.0, weight_decay=0.1)
    total, step, curve = 4 * 3, 0, []
    for _ in range(4):
        losses = []
        for batch in loader.batches(5, rng.permutation(N_SAMPLES)):
            now = schedule_at("one_cycle", step, total)
            optimizer.param_groups[0].update(lr=0.05 * now.rate, betas=(now.momentum, 0.999))
            optimizer.zero_grad()
            loss = squared(network(**batch.inputs()), batch)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            optimizer.step()
            losses += [loss.item()] * len(batch)
            step += 1
        curve.append(np.mean(losses))
    expected = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    np.testing.assert_allclose(weights_of(trainer), expected, rtol=1e-10)
    np.testing.assert_allclose(history.loss_curve, curve, rtol=1e-10)


def test_no_gradients_are_left_behind():
    trainer = make_trainer()
    trainer.run(Loader())
    assert all(parameter.grad is None for parameter in trainer.network.parameters())


def test_every_sample_comes_once_an_epoch_in_an_order_that_changes():
    loader = Loader()
    make_trainer(max_iter=3).run(loader)
    epochs = np.concatenate(loader.orders).reshape(3, N_SAMPLES)
    assert [sorted(order) for order in epochs] == [list(range(N_SAMPLES))] * 3
    assert epochs[0].tolist() != epochs[1].tolist()


@pytest.mark.parametrize(("grouping", "sizes"), [("together", [8, 4]), ("spread", [2, 2, 2, 2, 1, 1, 1, 1])])
def test_batches_follow_the_groups(grouping, sizes):
    seen = []

    def spy(prediction, batch):
        seen.append(len(batch))
        return squared(prediction, batch)

    make_trainer(loss=spy, max_iter=1, batch_size=2, group_size=4, grouping=grouping).run(Loader())
    assert seen == sizes


@pytest.mark.parametrize(("grouping", "n_batches"), [("together", 1), ("spread", 4)])
def test_the_schedule_moves_once_a_round(grouping, n_batches):
    options = {"schedule": "one_cycle", "max_iter": 3, "batch_size": 2, "group_size": 4, "grouping": grouping}
    rates = rates_of(make_trainer(**options))
    expected = [0.05 * schedule_at("one_cycle", step, 3 * 2).rate for step in range(6)]
    np.testing.assert_allclose(rates, np.repeat(expected, n_batches))


def test_the_schedule_can_stay_through_an_epoch():
    rates = rates_of(make_trainer(schedule="cosine", max_iter=7, batch_size=5, schedule_interval="epoch"))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.05), 7)
    expected = []
    for _ in range(7):
        expected += [scheduler.get_last_lr()[0]] * 3
        scheduler.optimizer.step()
        scheduler.step()
    np.testing.assert_allclose(rates, expected, rtol=1e-12)


def test_forward_stands_in_for_the_call():
    def doubled(network, batch):
        return 2 * network(**batch.inputs())

    trainer = make_trainer(max_iter=150, schedule="cosine", forward=doubled)
    trainer.run(Loader())
    np.testing.assert_allclose(weights_of(trainer), [1.0, -0.5, 0.25], atol=1e-2)


class Pair(NamedTuple):
    """Outputs of a network, of which one may be missing."""

    field: torch.Tensor | None
    scalars: torch.Tensor | None


def test_outputs_of_mixed_precision_reach_the_loss_widened():
    kinds = []

    def both(network, batch):
        outputs = network(**batch.inputs())
        return Pair(outputs, outputs.mean(1, keepdim=True))

    def spy(outputs, batch):
        kinds.extend(part.dtype for part in outputs)
        return squared(outputs[0], batch)

    network = PointwiseLinear(torch.float32)
    options = {"max_iter": 1, "batch_size": 12, "autocast": "bfloat16", "forward": both}
    make_trainer(loss=spy, network=network, **options).run(Loader(torch.float32))
    assert kinds == [torch.float32, torch.float32]


def test_clipping_bounds_the_gradient():
    norms = []

    def spy(prediction, batch):
        return 1e6 * squared(prediction, batch)

    trainer = make_trainer(loss=spy, max_grad_norm=0.25, max_iter=2)
    step = trainer.optimizer.step

    def recorded_step():
        norms.append(torch.cat([p.grad.flatten() for p in trainer.network.parameters()]).norm().item())
        step()

    trainer.optimizer.step = recorded_step
    trainer.run(Loader())
    np.testing.assert_allclose(norms, 0.25, rtol=1e-5)


def test_a_summed_loss_with_a_clipped_gradient_moves_like_a_mean():
    def summed(prediction, batch):
        return len(batch) * squared(prediction, batch)

    mean, total = make_trainer(max_grad_norm=1e-3), make_trainer(loss=summed, max_grad_norm=1e-3)
    curves = [trainer.run(Loader()).loss_curve for trainer in (mean, total)]
    np.testing.assert_allclose(weights_of(total), weights_of(mean), rtol=1e-6)
    np.testing.assert_allclose(curves[1], 4 * np.array(curves[0]), rtol=1e-6)


def test_decay_shrinks_matrices_and_vectors_as_asked():
    def nothing(prediction, batch):
        return 0.0 * squared(prediction, batch)

    for decay_bias_and_norm, expected in ((True, [0.9, 0.9, 0.9]), (False, [0.9, 0.9, 1.0])):
        network = PointwiseLinear()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.fill_(1.0)
        options = {"weight_decay": 0.5, "learning_rate": 0.2, "max_iter": 1, "batch_size": N_SAMPLES}
        trainer = make_trainer(loss=nothing, network=network, decay_bias_and_norm=decay_bias_and_norm, **options)
        trainer.run(Loader())
        np.testing.assert_allclose(weights_of(trainer), expected, rtol=1e-6)


def test_a_module_names_what_does_not_decay():
    class Scaled(PointwiseLinear):
        no_weight_decay = ("rates",)

        def __init__(self):
            super().__init__()
            self.rates = nn.Parameter(torch.ones(2, 3, dtype=torch.float64))

    def nothing(prediction, batch):
        return 0.0 * (squared(prediction, batch) + trainer.network.rates.sum())

    for decay_all, expected in ((True, 0.9), (False, 1.0)):
        options = {"weight_decay": 0.5, "learning_rate": 0.2, "max_iter": 1, "batch_size": N_SAMPLES}
        trainer = make_trainer(loss=nothing, network=Scaled(), decay_bias_and_norm=decay_all, **options)
        trainer.run(Loader())
        np.testing.assert_allclose(trainer.network.rates.detach(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "mixer", [GridSSDMixer(16, 2, expand=2, n_heads=2, d_state=4), BidirectionalSSDMixer(32), HydraMixer(32)]
)
def test_decay_rates_steps_and_direct_paths_of_scans_do_not_decay(mixer):
    trainer = make_trainer(network=mixer, weight_decay=0.1, decay_bias_and_norm=False)
    names = {parameter: name for name, parameter in mixer.named_parameters()}
    held = {(names[one], group["weight_decay"]) for group in trainer.optimizer.param_groups for one in group["params"]}
    spared = {"step_bias", "log_decay", "direct"} | {name for name in names.values() if name == "initial_state"}
    decaying = {"in_projection.weight", "out_projection.weight"}
    assert {(name, 0.0) for name in spared} | {(name, 0.1) for name in decaying} <= held


@pytest.mark.parametrize(
    ("network", "places"),
    [
        (LatentPooling(16, 6, 2, n_centred_heads=1, n_dims=2), "centres"),
        (LearnedPositionalEncoding(6, 16), "table"),
    ],
)
def test_positions_decay_only_where_everything_does(network, places):
    for decays_all in (False, True):
        trainer = make_trainer(network=network, weight_decay=0.1, decay_bias_and_norm=decays_all)
        (rate,) = (
            group["weight_decay"]
            for group in trainer.optimizer.param_groups
            if any(parameter is getattr(network, places) for parameter in group["params"])
        )
        assert rate == (0.1 if decays_all else 0.0)


def test_autocast_runs_the_network_in_bfloat16_and_the_loss_in_full_precision():
    seen = []

    class Spy(PointwiseLinear):
        def forward(self, **inputs):
            output = super().forward(**inputs)
            seen.append(output.dtype)
            return output

    def loss(prediction, batch):
        seen.append(prediction.dtype)
        return squared(prediction, batch)

    make_trainer(loss=loss, network=Spy(torch.float32), autocast="bfloat16", max_iter=1).run(Loader(torch.float32))
    assert set(seen[::2]) == {torch.bfloat16}
    assert set(seen[1::2]) == {torch.float32}


# ---------------------------------------------------------------- best weights
def test_the_best_weights_are_kept():
    # Of two equal errors, the first counts.
    errors = iter([5.0, 3.0, 1.0, 1.0, 4.0])
    kept = []

    def validate():
        kept.append(weights_of(trainer))
        assert not trainer.network.training
        return next(errors)

    trainer = make_trainer(validate=validate)
    history = trainer.run(Loader())
    assert history.best_iter == 3
    assert history.validation_errors == [5.0, 3.0, 1.0, 1.0, 4.0]
    assert torch.equal(weights_of(trainer), kept[2])
    assert not torch.equal(kept[2], kept[4])


def test_the_validation_error_of_the_kept_weights_is_the_smallest():
    loader = Loader()

    def error():
        with torch.no_grad():
            return float((trainer.network(None, loader.fields, None, None) - loader.target).abs().max())

    # A rate this high goes up and down.
    trainer = make_trainer(validate=error, max_iter=30, learning_rate=1.0, batch_size=2)
    history = trainer.run(loader)
    assert error() == min(history.validation_errors) < history.validation_errors[-1]
    assert history.validation_errors[history.best_iter - 1] == min(history.validation_errors)


@pytest.mark.parametrize(
    ("errors", "tol", "epochs"),
    [
        ([5, 4, 3, 2, 1, 0.5, 0.2, 0.1], 0.0, 8),
        ([5, 4, 6, 6, 6, 6, 6, 6], 0.0, 5),
        ([5, 4.9, 4.8, 4.7, 4.6, 4.5, 4.4, 4.3], 1.0, 4),
        ([5, 6, 6, 4, 6, 6, 6, 1], 0.0, 7),
    ],
)
def test_patience(errors, tol, epochs):
    values = iter(errors)
    trainer = make_trainer(validate=lambda: next(values), max_iter=8, n_iter_no_change=3, tol=tol)
    history = trainer.run(Loader())
    assert len(history.loss_curve) == epochs
    assert history.stopped == ("early_stopping" if epochs < 8 else "max_iter")


def test_averaged_weights_validate_and_stay():
    seen = []

    def validate():
        seen.append(weights_of(trainer))
        return float(len(seen))

    trainer = make_trainer(validate=validate, ema_decay=0.9, max_iter=3)
    history = trainer.run(Loader())
    plain = make_trainer(max_iter=3)
    assert plain.run(Loader()).loss_curve == history.loss_curve  # averaging does not touch the training
    assert torch.equal(weights_of(trainer), seen[0])
    averaged = make_trainer(ema_decay=0.9, max_iter=3)
    averaged.run(Loader())
    assert torch.equal(weights_of(averaged), seen[2])
    assert not torch.equal(seen[2], weights_of(plain))


# ---------------------------------------------------------------- ending
class Clock:
    """Stands in for time.perf_counter."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("skop.training._distributed.time.perf_counter", lambda: self.now)

    def compiles_then_takes(self, first, later):
        """A forward pass whose first call takes as long as a compiler does."""
        calls = []

        def forward(network, batch):
            self.now += first if not calls else later
            calls.append(1)
            return network(**batch.inputs())

        return forward


def test_a_time_budget_ends_the_training_and_the_schedule(monkeypatch):
    clock, rates = Clock(monkeypatch), []

    def slow(prediction, batch):
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        clock.now += 0.01
        return squared(prediction, batch)

    trainer = make_trainer(loss=slow, max_iter=10**6, max_time=0.3, schedule="cosine")
    history = trainer.run(Loader())
    assert history.stopped == "max_time"
    # The rate follows the time: it has fallen to almost nothing although a million epochs were allowed.
    assert rates[-1] < 0.1 * max(rates)


def test_the_compiler_does_not_count_in_a_time_budget_but_the_untimed_pass_does(monkeypatch):
    clock = Clock(monkeypatch)
    forward = clock.compiles_then_takes(100.0, 0.25)
    trainer = make_trainer(forward=forward, max_iter=10**6, max_time=6.25)
    history = trainer.run(Loader())
    # An epoch is three steps; the untimed pass takes one more.
    assert history.stopped == "max_time"
    np.testing.assert_allclose(history.seconds, 0.25 + 0.75 * np.arange(1, 9))


@pytest.mark.parametrize("after", [0.0, 1.5, 4.0])
def test_a_time_budget_holds_the_last_step_and_validation_and_what_follows(after, monkeypatch):
    clock = Clock(monkeypatch)

    def validate():
        clock.now += 0.5
        return 1.0

    forward = clock.compiles_then_takes(1.0, 1.0)
    trainer = make_trainer(forward=forward, validate=validate, max_iter=10**6, max_time=20.25, after=lambda: after)
    history = trainer.run(Loader())
    assert history.stopped == "max_time"
    # Less than another step with its validation is left of it.
    assert 18.75 < clock.now + after <= 20.25


def test_what_follows_takes_half_of_a_time_budget_at_most(monkeypatch):
    clock = Clock(monkeypatch)
    forward = clock.compiles_then_takes(1.0, 1.0)
    make_trainer(forward=forward, max_iter=10**6, max_time=20.0, after=lambda: 50.0).run(Loader())
    assert clock.now == 10.0


def test_the_loss_of_an_epoch_that_the_clock_cuts_is_the_mean_of_its_steps(monkeypatch):
    options = {"forward": Clock(monkeypatch).compiles_then_takes(1.0, 1.0), "max_iter": 100, "max_time": 5.0}
    trainer = make_trainer(loss=lambda prediction, batch: 0 * prediction.sum() + 2, **options)
    with pytest.warns(SkopWarning, match="too few to learn"):
        history = trainer.run(Loader())
    # The untimed pass is a step, an epoch is three, and the last one has a part of these.
    assert history.loss_curve == [2.0, 2.0]
    assert history.seconds == [4.0, 5.0]


def test_validation_compiles_before_the_clock_starts_too(monkeypatch):
    clock = Clock(monkeypatch)
    calls = []

    def validate():
        clock.now += 0.5 if calls else 100.0
        calls.append(trainer.network.training)
        return 1.0

    trainer = make_trainer(validate=validate, max_iter=10**6, max_time=5.5)
    history = trainer.run(Loader())
    assert len(history.loss_curve) == len(history.validation_errors) == 10
    assert not any(calls)


def test_the_untimed_pass_changes_nothing():
    def noisy(network, batch):
        inputs = batch.inputs()
        return network(**inputs | {"fields": inputs["fields"] + torch.randn_like(inputs["fields"])})

    class Counting(PointwiseLinear):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, **inputs):
            self.calls += self.training
            return super().forward(**inputs)

    curves, states = [], []
    for max_time in (None, 1e9):
        torch.manual_seed(0)
        trainer = make_trainer(network=Counting(), forward=noisy, max_time=max_time, ema_decay=0.9, schedule="cosine")
        loader = JitteredLoader()
        curves.append(trainer.run(loader).loss_curve)
        states.append(trainer.state_dict())
    assert curves[0] == curves[1]
    assert states[0]["network"]["calls"] == states[1]["network"]["calls"]
    assert_same({name: held for name, held in states[0].items() if name not in ("elapsed", "history")}, states[1])


def test_a_time_budget_of_few_epochs_warns(monkeypatch):
    clock = Clock(monkeypatch)
    trainer = make_trainer(forward=clock.compiles_then_takes(1.0, 1.0), max_iter=100, max_time=8.012345)
    with pytest.warns(
        SkopWarning, match=r"max_time left 8\.01 s to the training and ended it after 3 .*raise max_time"
    ):
        trainer.run(Loader())


@pytest.mark.parametrize(("max_iter", "max_time"), [(3, None), (3, 1e9), (100, 30.0)])
def test_other_ends_do_not_warn_of_few_epochs(monkeypatch, max_iter, max_time):
    clock = Clock(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_trainer(forward=clock.compiles_then_takes(1.0, 1.0), max_iter=max_iter, max_time=max_time).run(Loader())


@pytest.mark.parametrize(("learning_rate", "warned"), [(1e-9, True), (0.05, False)])
def test_a_training_no_better_than_the_mean_field_warns(learning_rate, warned):
    network = PointwiseLinear()
    with torch.no_grad():
        network.linear.bias.fill_(5.0)
    trainer = make_trainer(network=network, learning_rate=learning_rate, max_iter=20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.run(Loader())
    loader = Loader()
    reached = squared(network(None, loader.fields, None, None), Batch(None, None, None, None, loader.target))
    assert (reached >= (loader.target**2).mean()) == warned
    assert [str(warning.message).startswith("the training loss") for warning in caught] == [True] * warned


@pytest.mark.parametrize(("n_epochs", "learning_rate"), [(1, 100.0), (8, 100.0), (1, 0.05)])
def test_a_training_whose_loss_has_risen_above_that_of_the_mean_field_has_diverged(n_epochs, learning_rate):
    trainer = make_trainer(learning_rate=learning_rate, max_iter=n_epochs, schedule="constant")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.run(Loader())
    said = [str(warning.message).count("the training has diverged. Lower learning_rate_init") for warning in caught]
    assert said == [1] * (learning_rate > 1)


def test_a_loss_that_rose_and_fell_can_be_no_lower_than_that_of_the_mean_field():
    trainer = make_trainer(learning_rate=10.0, max_iter=6)
    with pytest.warns(SkopWarning, match="no lower than that of predicting the mean field"):
        curve = trainer.run(Loader()).loss_curve
    assert curve[-1] < curve[0] / 2


def test_a_loss_may_differentiate_the_outputs():
    def smooth(outputs, batch):
        (slope,) = torch.autograd.grad((outputs**2).sum(), outputs, create_graph=True)
        return squared(outputs, batch) + 1e-3 * (slope**2).mean()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(make_trainer(loss=smooth, max_iter=6, learning_rate=0.05).run(Loader()).loss_curve) == 6


def test_targets_without_a_field_to_learn_do_not_warn():
    loader = Loader()
    loader.target.zero_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_trainer(max_iter=6, learning_rate=1e-9).run(loader)


def test_a_callback_ends_the_training():
    parts = []

    def stop_in_third(history, part):
        parts.append(part)
        return len(history.loss_curve) == 3

    history = make_trainer(on_epoch_end=stop_in_third, max_iter=10).run(Loader())
    assert history.stopped == "callback"
    assert len(history.loss_curve) == 3
    np.testing.assert_allclose(parts, [0.1, 0.2, 0.3])


@pytest.mark.parametrize("validated", [False, True])
def test_an_interruption_keeps_the_weights_of_the_last_or_the_best_epoch(validated):
    calls, after = [], []

    def interrupted(prediction, batch):
        calls.append(1)
        if len(calls) == 3 * 3 + 2:  # in the middle of the fourth epoch
            raise KeyboardInterrupt
        return squared(prediction, batch)

    def note(history, part):
        after.append(weights_of(trainer))

    errors = iter([3.0, 1.0, 2.0])
    hooks = {"validate": lambda: next(errors)} if validated else {}
    trainer = make_trainer(loss=interrupted, on_epoch_end=note, **hooks)
    with pytest.warns(SkopWarning, match="best weights so far are kept"):
        history = trainer.run(Loader())
    assert history.stopped == "interrupted"
    assert len(history.loss_curve) == 3
    assert history.best_iter == (2 if validated else 3)
    assert torch.equal(weights_of(trainer), after[1 if validated else 2])


def test_an_interruption_of_the_first_epoch_is_raised_and_leaves_the_first_weights():
    calls = []

    def interrupted(prediction, batch):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return squared(prediction, batch)

    trainer = make_trainer(loss=interrupted, ema_decay=0.9)
    before = weights_of(trainer)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(Loader())
    assert trainer.history.loss_curve == []
    assert torch.equal(weights_of(trainer), before)
    assert all(parameter.grad is None for parameter in trainer.network.parameters())


# ---------------------------------------------------------------- divergence
class BreaksAt:
    """A squared error that is not finite at the given calls, and notes rates and weights."""

    def __init__(self, bad_calls, value=np.nan):
        self.bad_calls, self.value, self.rates, self.weights, self.trainer = set(bad_calls), value, [], [], None

    def __call__(self, prediction, batch):
        self.rates.append(self.trainer.optimizer.param_groups[0]["lr"])
        self.weights.append(weights_of(self.trainer))
        bad = len(self.rates) in self.bad_calls
        return squared(prediction, batch) * (self.value if bad else 1.0)


def broken_trainer(bad_calls, value=np.nan, **options):
    loss = BreaksAt(bad_calls, value)
    loss.trainer = make_trainer(loss=loss, **({"max_iter": 4} | options))
    return loss, loss.trainer


def test_a_loss_that_is_not_finite_takes_the_weights_back_and_halves_the_rate():
    for value, averaging in product([np.nan, np.inf], [None, 0.9]):
        # Three steps an epoch; the sixth is in the second epoch.
        loss, trainer = broken_trainer({6}, value, ema_decay=averaging)
        with pytest.warns(SkopWarning, match="in epoch 2; back to the last good epoch at half the learning rate"):
            history = trainer.run(Loader())
        assert torch.equal(loss.weights[6], loss.weights[3])
        np.testing.assert_allclose(loss.rates, [0.05] * 6 + [0.025] * 9)
        assert len(history.loss_curve) == 4
        assert np.isfinite(history.loss_curve).all()
        assert torch.isfinite(weights_of(trainer)).all()


def test_a_rollback_in_the_first_epoch_goes_back_to_the_start_and_forgets_the_moments():
    # Three steps an epoch; the fourth call is the first of the second try.
    loss, trainer = broken_trainer({2})
    with pytest.warns(SkopWarning):
        trainer.run(Loader())
    assert torch.equal(loss.weights[3], loss.weights[0])
    # Adam's first step has the size of the rate in every weight if and only if its moments are fresh.
    moved = (loss.weights[4] - loss.weights[3]).abs()
    np.testing.assert_allclose(moved, 0.025, rtol=1e-4)


def test_the_moments_of_the_optimiser_go_back_too():
    # The second epoch breaks in its last step and is run again.
    _, trainer = broken_trainer({6}, max_iter=2)
    with pytest.warns(SkopWarning):
        trainer.run(Loader())
    # Six good steps were counted: the three of the second epoch's first try are undone.
    assert trainer.optimizer.state[trainer.network.linear.weight]["step"].item() == 6


def test_the_third_break_is_an_error_that_says_what_to_do():
    loss, trainer = broken_trainer({4, 7, 10})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(TrainingDivergedError, match=r"nan in epoch 2.*halved 2 times.*\(now 0.05\)"):
            trainer.run(Loader())
    assert sum(issubclass(warning.category, SkopWarning) for warning in caught) == 2
    assert loss.rates[-1] == pytest.approx(0.05 / 4)
    assert torch.isfinite(weights_of(trainer)).all()


def test_the_schedule_goes_back_with_the_weights():
    plain, broken = (broken_trainer(calls, schedule="cosine", max_iter=3)[0] for calls in (set(), {6}))
    plain.trainer.run(Loader())
    with pytest.warns(SkopWarning):
        broken.trainer.run(Loader())
    np.testing.assert_allclose(broken.rates[6:], np.array(plain.rates[3:]) / 2)


def test_weights_that_overflow_while_the_loss_is_finite_are_not_called_good():
    # The gradient of the last step of the second epoch is not finite, its loss is.
    class BadGradient(torch.autograd.Function):
        @staticmethod
        def forward(context, value):
            return value.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient * np.nan

    calls = []

    def loss(prediction, batch):
        calls.append(1)
        return squared(BadGradient.apply(prediction) if len(calls) == 6 else prediction, batch)

    trainer = make_trainer(loss=loss)
    with pytest.warns(SkopWarning, match="last good epoch"):
        history = trainer.run(Loader())
    assert np.isfinite(history.loss_curve).all()
    assert torch.isfinite(weights_of(trainer)).all()


def test_large_weights_are_good_although_their_squares_overflow():
    network = PointwiseLinear()
    with torch.no_grad():
        network.linear.weight.fill_(1e200)
    trainer = make_trainer(lambda prediction, batch: 0.0 * prediction.sum(), network=network, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history = trainer.run(Loader())
    assert history.loss_curve == [0.0]
    assert network.linear.weight.min() == 1e200


def test_buffers_and_averages_go_back_too():
    _, trainer = broken_trainer({6}, network=Dropped(), max_iter=2, ema_decay=0.9)
    with pytest.warns(SkopWarning, match="last good epoch"):
        trainer.run(Loader())
    assert trainer.network.norm.num_batches_tracked.item() == 6
    assert trainer.average.steps == 6


def test_a_weight_whose_gradient_comes_late_forgets_its_moments():
    class Late(PointwiseLinear):
        def __init__(self):
            super().__init__()
            self.late = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    calls = []

    def loss(prediction, batch):
        # Three steps an epoch; the second parameter joins in the second epoch, which breaks and is run again.
        calls.append(1)
        joined = squared(prediction, batch) + (trainer.network.late.sum() if len(calls) > 3 else 0.0)
        return joined * (np.nan if len(calls) == 6 else 1.0)

    trainer = make_trainer(loss=loss, network=Late(), max_iter=3)
    with pytest.warns(SkopWarning, match="last good epoch"):
        trainer.run(Loader())
    steps = [trainer.optimizer.state[parameter]["step"].item() for parameter in trainer.network.parameters()]
    assert sorted(steps) == [6, 9, 9]


# ---------------------------------------------------------------- states
class JitteredLoader(Loader):
    """Moves the samples at random, as symmetries do, by a generator of its own."""

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)

    def batches(self, batch_size, order):
        for batch in super().batches(batch_size, order):
            batch.fields = batch.fields + 0.1 * torch.randn(batch.fields.shape, generator=self.generator).double()
            yield batch


class Dropped(PointwiseLinear):
    """Has dropout, which draws from torch's generator, and a buffer that training changes."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(5, dtype=torch.float64)

    def forward(self, coords, fields, params, grid_shape):
        return super().forward(coords, nn.functional.dropout(self.norm(fields), 0.3, self.training), params, grid_shape)


def assert_same(first, second):
    """Nested states are equal to the bit."""
    for name, held in first.items():
        if isinstance(held, dict):
            assert_same(held, second[name])
        else:
            assert torch.equal(held, second[name]) if torch.is_tensor(held) else held == second[name], name


def resumable(on_epoch_end=None, **options):
    """A training that uses everything that has a state."""

    def error():
        loader = Loader()
        with torch.no_grad():
            return float((trainer.network(None, loader.fields, None, None) - loader.target).abs().max())

    chosen = {"max_iter": 12, "batch_size": 5, "schedule": "one_cycle", "ema_decay": 0.9, "n_iter_no_change": 4}
    hooks = {"validate": error, "on_epoch_end": on_epoch_end}
    trainer = make_trainer(network=Dropped(), learning_rate=0.3, **(chosen | hooks | options))
    return trainer


@pytest.mark.parametrize("options", [{}, {"ema_decay": None, "validate": None, "schedule": "cosine"}])
@pytest.mark.parametrize("stop", [1, 6])
def test_a_saved_training_goes_on_bit_for_bit(tmp_path, options, stop):
    torch.manual_seed(0)
    whole = resumable(**options)
    expected = whole.run(JitteredLoader())

    def save(history, part):
        if len(history.loss_curve) == stop:
            torch.save(first.state_dict(), tmp_path / "state.pt")
            return True
        return False

    torch.manual_seed(0)
    first = resumable(save, **options)
    first.run(JitteredLoader())
    torch.manual_seed(99)
    second, loader = resumable(seed=7, **options), JitteredLoader()
    loader.generator.manual_seed(8)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    history = second.run(loader)
    assert len(history.loss_curve) > stop
    assert history.loss_curve == expected.loss_curve
    assert history.validation_errors == expected.validation_errors
    assert (history.best_iter, history.stopped) == (expected.best_iter, expected.stopped)
    assert_same(second.network.state_dict(), whole.network.state_dict())
    assert len(history.seconds) == len(history.loss_curve)
    assert np.all(np.diff(history.seconds) >= 0)


def test_a_training_that_had_stopped_early_does_not_go_on():
    states, errors = [], iter([1.0, *[2.0] * 9])
    options = {"max_iter": 10, "n_iter_no_change": 3, "validate": lambda: next(errors)}
    trainer = make_trainer(on_epoch_end=lambda history, part: states.append(trainer.state_dict()), **options)
    trainer.run(Loader())
    again = make_trainer(**options)
    again.load_state_dict(states[-1])
    history = again.run(Loader())
    assert len(history.loss_curve) == 4
    assert history.stopped == "early_stopping"
    assert torch.equal(weights_of(again), weights_of(trainer))


def test_a_time_budget_counts_earlier_runs(monkeypatch):
    clock, states = Clock(monkeypatch), []
    options = {"forward": clock.compiles_then_takes(0.25, 0.25), "max_iter": 1000, "max_time": 6.0}
    first = make_trainer(on_epoch_end=lambda history, part: states.append(first.state_dict()), **options)
    curve = first.run(Loader()).loss_curve
    clock.now += 1000.0
    second = make_trainer(**options)
    second.load_state_dict(states[4])
    assert second.run(Loader()).loss_curve == curve


def test_a_state_is_a_copy_and_stays_as_it_is():
    states = []
    first = resumable(lambda history, part: states.append((first.state_dict(), first.state_dict())))
    first.run(JitteredLoader())
    second = resumable()
    second.load_state_dict(states[0][0])
    second.run(JitteredLoader())
    assert_same({name: held for name, held in states[0][0].items() if name != "elapsed"}, states[0][1])


def test_a_state_names_weights_averages_and_moments():
    trainer = make_trainer(ema_decay=0.9)
    trainer.run(Loader())
    state = trainer.state_dict()
    names = {"linear.weight", "linear.bias"}
    assert set(state["network"]) == set(state["optimizer"]) == set(state["average"]["mean"]) == names
    # When the run is over the network holds the average; the state has both where they belong.
    assert not torch.equal(state["network"]["linear.bias"], trainer.network.linear.bias)
    assert torch.equal(state["average"]["mean"]["linear.bias"], trainer.network.linear.bias)


def test_a_state_that_does_not_fit_is_an_error():
    state = make_trainer(ema_decay=0.9).state_dict()
    with pytest.raises(ValueError, match="ema_decay=None"):
        make_trainer().load_state_dict(state)
    with pytest.raises(ValueError, match=r"\['optimizer'\]"):
        make_trainer().load_state_dict({name: held for name, held in state.items() if name != "optimizer"})
    with pytest.raises(RuntimeError, match="weight"):
        make_trainer(network=nn.Linear(3, 1), ema_decay=0.9).load_state_dict(state)


# ---------------------------------------------------------------------- reviews
def test_a_review_ends_the_training_for_its_reason():
    parts = []
    trainer = make_trainer(max_iter=8, review=lambda part: parts.append(part) or ("base" if part >= 0.5 else None))
    history = trainer.run(Loader())
    assert (history.stopped, len(history.loss_curve)) == ("base", 4)
    assert parts == [1 / 8, 2 / 8, 3 / 8, 4 / 8]


def test_a_review_sees_the_averaged_weights():
    seen = []
    trainer = make_trainer(max_iter=2, ema_decay=0.9, review=lambda part: seen.append(trainer.average.is_swapped))
    trainer.run(Loader())
    assert seen == [True]


def test_a_training_goes_on_with_the_samples_of_a_review():
    fewer, options = Loader(), {"max_iter": 8, "schedule": "cosine", "schedule_interval": "epoch"}
    fewer.__class__ = type("Fewer", (Loader,), {"__len__": lambda self: 8})
    trainer = make_trainer(review=lambda part: Loader() if part == 0.5 else None, **options)
    rates, expected = rates_of(trainer, fewer), rates_of(make_trainer(**options))
    # Two steps of each of the first epochs, three of the others; the rates are those of the epochs.
    assert rates == [rate for epoch in range(8) for rate in [expected[3 * epoch]] * (2 if epoch < 4 else 3)]
    assert len(trainer.loader) == N_SAMPLES


def test_a_training_that_diverges_after_a_review_goes_back_to_it():
    losses = []

    def loss(prediction, batch):
        losses.append(1)
        return squared(prediction, batch) * (float("nan") if len(losses) == 2 * 2 + 1 else 1.0)

    fewer = Loader()
    fewer.__class__ = type("Fewer", (Loader,), {"__len__": lambda self: 8})
    trainer = make_trainer(loss, max_iter=4, review=lambda part: Loader() if part == 0.5 else None)
    with pytest.warns(SkopWarning, match="in epoch 3"):
        history = trainer.run(fewer)
    assert (trainer.state.step, len(history.loss_curve)) == (4 * 3, 4)
