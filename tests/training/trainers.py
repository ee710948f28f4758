"""Trainers of the tests."""

from skop.training import TrainerConfig, TrainingOptions


def configured(**options):
    """Settings of a trainer; those of `TrainingOptions` begin as plain as they can be."""
    plain = {"max_grad_norm": None, "ema_decay": None, "beta_2": 0.999, "decay_bias_and_norm": True}
    names = [name for name in options if name in TrainingOptions().get_params() and name != "weight_decay"]
    return TrainerConfig(training=TrainingOptions(**plain | {name: options.pop(name) for name in names}), **options)
