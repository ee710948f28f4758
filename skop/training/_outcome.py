"""Warnings of a training that was too short, was interrupted, or has learned nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from skop.exceptions import warn
from skop.training._config import History, TrainerConfig

__all__ = ["warn_of_interrupt", "warn_of_little_training", "weights_dropped"]

#: Number of epochs below which a training that `max_time` ended gives a warning.
_FEW_EPOCHS = 5
#: Loss of the last epoch, in units of that of the first step, from which a training has hardly learned, or has diverged
#: if it is as far above that of the mean field.
_HARDLY_FALLEN, _DIVERGED = 0.5, 2.0
#: Whether the caller of a fit has no use of weights after an interrupt.
_are_dropped: ContextVar[bool] = ContextVar("are dropped", default=False)


@contextmanager
def weights_dropped() -> Iterator[None]:
    """Let interrupted trainings within the block not say that their weights are kept, where the caller drops them.

    Yields
    ------
    None
        The block runs.
    """
    token = _are_dropped.set(True)
    try:
        yield
    finally:
        _are_dropped.reset(token)


def warn_of_interrupt(kept: str = "the best weights so far") -> None:
    """Warn that a training was interrupted, and what of it is kept.

    Parameters
    ----------
    kept : str, default="the best weights so far"
        Words for what is kept, in the plural.
    """
    if not _are_dropped.get():
        warn(f"training was interrupted; {kept} are kept.")


def warn_of_little_training(
    history: History, options: TrainerConfig, compare: Callable[[], tuple[float, float]]
) -> None:
    """Warn about a training that was too short or did not learn.

    Where the loss has hardly fallen, `compare` returns that of the network, and that of predicting the mean field.
    """
    n_epochs = len(history.loss_curve)
    has_few_epochs = n_epochs < _FEW_EPOCHS
    if has_few_epochs and history.stopped == "max_time" and n_epochs < options.max_iter:
        warn(
            f"max_time left {options.max_time:.3g} s to the training and ended it after {n_epochs} "
            f"epoch{'s' * (n_epochs > 1)}, too few to learn much; raise max_time, or make an epoch cheaper by a "
            "smaller network or fewer points.",
        )
    rise = history.loss_curve[-1] / (history.first_loss or history.loss_curve[0] or 1.0)
    if history.stopped in ("callback", "interrupted") or rise < (_DIVERGED if has_few_epochs else _HARDLY_FALLEN):
        return
    reached, mean_field = compare()
    has_diverged = rise >= _DIVERGED and reached >= _DIVERGED * mean_field
    # A target that does not vary is predicted by its mean, up to rounding.
    if not torch.finfo(torch.float32).eps ** 2 < mean_field <= reached or (has_few_epochs and not has_diverged):
        return
    if has_diverged:
        found = "the training has diverged. Lower learning_rate_init, or set a lower training__max_grad_norm."
    else:
        found = "the network has learned nothing yet. Train longer (max_iter, max_time), change "
        found += "learning_rate_init, or check that y depends on X."
    warn(
        f"the training loss ({reached:.3g}) is no lower than that of predicting the mean field "
        f"({mean_field:.3g}): {found}"
    )
