"""Actions in a fit: its expected duration, its progress, and scikit-learn's callbacks if installed."""

import copy
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

import torch

from skop._sklearn_compat import has_callbacks
from skop.training import History, Monitor, ProgressLine, Trainer, in_words, is_watched
from skop.training._runtime import give_way

__all__ = ["EpochCallbacks"]

#: Announce the duration of a fit if it is expected to exceed this number of seconds.
_LONG = 60.0
#: Extrapolate the duration after these numbers of steps and seconds, or after one step of this number of seconds.
_STEPS, _SECONDS, _ENOUGH = 3, 2.0, 10.0


class EpochCallbacks(Monitor):
    """Monitor that shows progress and runs scikit-learn's callbacks; the fit is a block in its context.

    Parameters
    ----------
    estimator : OperatorRegressor
        Estimator that is being fitted.
    X, y, sample_weight, params
        Training data, for callbacks that compute scores.
    cheaper : mapping of str to object, default={}
        Settings that would make the fit cheaper, for the line about a long fit.
    is_told : bool, default=True
        Whether there is anything to do at all; of several processes that train together, one tells the user.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        params: Any = None,
        *,
        cheaper: Mapping[str, Any] = MappingProxyType({}),
        is_told: bool = True,
    ) -> None:
        self.estimator, self.X, self.y = estimator, X, y
        given = {"sample_weight": sample_weight, "params": params}
        self.metadata = {name: value for name, value in given.items() if value is not None}
        verbose, self.epochs, self.is_told = estimator.verbose if is_told else 0, 0, is_told
        self.progress = ProgressLine(type(estimator).__name__, 0 if verbose == "auto" else verbose)
        # The duration of a fit with a time limit is known.
        is_asked = verbose == "auto" and estimator.max_time is None and is_watched(sys.stderr)
        self.notice = _Notice(estimator, cheaper) if is_asked else None
        self.words = ""
        self.context: Any = None

    @property
    def watches(self) -> bool:
        """Whether there is anyone to tell of an epoch."""
        return self.progress.shows or (self.is_told and has_callbacks(self.estimator))

    @property
    def watches_steps(self) -> bool:  # type: ignore[override]
        """Whether there is anyone to tell of a step."""
        return self.progress.shows_steps or self.notice is not None

    def __enter__(self) -> Self:
        """Tell the callbacks that the fit begins."""
        estimator = self.estimator
        if self.is_told and hasattr(estimator, "_init_callback_context"):
            self.context = estimator._init_callback_context(max_subtasks=estimator.max_iter)
            self.context.call_on_fit_task_begin(estimator=estimator)
        return self

    def step(self, part: float) -> None:
        """Show progress within an epoch, and say how long the fit will take when this is known."""
        if self.notice is not None:
            self.notice.on_step(part)
        if self.progress.shows_steps:
            self.progress.update(part, f"epoch {self.epochs + 1}{self.words}", ends_epoch=False)

    def epoch(self, trainer: Trainer) -> str | None:
        """Show progress and run the callbacks, which may end the training."""
        return "callback" if trainer.group.once(lambda: self.watches and self.told(trainer)) else None

    def told(self, trainer: Trainer) -> bool:
        """Tell of an epoch, and return whether the training is to end."""
        # Fits in other threads go on now, and callbacks may fit something themselves.
        with give_way():
            return self._end_epoch(trainer.history, trainer.progress)

    def _end_epoch(self, history: History, part: float) -> bool:
        """What is to be done after an epoch."""
        self.epochs = len(history.loss_curve)
        self.words = f"  loss {history.loss_curve[-1]:.4g}"
        if history.validation_errors:
            self.words += f"  validation {history.validation_errors[-1]:.4g}"
        self.progress.update(part, f"epoch {self.epochs}{self.words}")
        if self.context is None:
            return False
        task = self.context.subcontext(task_name="epoch")
        task.call_on_fit_task_begin(estimator=self.estimator)
        return bool(
            task.call_on_fit_task_end(
                estimator=self.estimator,
                X=self.X,
                y=self.y,
                metadata=self.metadata,
                reconstruction_attributes=lambda: {"module_": copy.deepcopy(self.estimator.module_).eval()},
            )
        )

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Finish the progress bar, and tell the callbacks that the fit has ended."""
        self.progress.close(failed=kind is not None)
        if self.context is not None and kind is None:
            self.context.call_on_fit_task_end(estimator=self.estimator)


class _Notice:
    """One line on standard error about a fit that will take long.

    The duration is extrapolated from the first steps.
    """

    def __init__(self, estimator: Any, cheaper: Mapping[str, Any]) -> None:
        self.estimator, self.cheaper = estimator, cheaper
        self.is_due, self.steps, self.start = True, 0, time.perf_counter()
        self.first = (self.start, 0.0)

    def on_step(self, part: float) -> None:
        """Look at the clock after a step, and speak once."""
        if not self.is_due:
            return
        if self.estimator.device_.type == "cuda":
            # A GPU still computes when the step has been given to it.
            torch.cuda.synchronize(self.estimator.device_)
        now = time.perf_counter()
        if self.steps == 0:
            # Kernels are compiled in the first step.
            self.first = (now, part)
        self.steps += 1
        passed, done = now - self.first[0], part - self.first[1]
        if done > 0 and ((self.steps > _STEPS and passed >= _SECONDS) or passed >= _ENOUGH):
            self.is_due = False
            self._say(self.first[0] - self.start + passed * (1 - self.first[1]) / done, passed / done)

    def _say(self, seconds: float, without_start: float) -> None:
        """Write the line if the fit takes long; the second number leaves the time before the first step out."""
        if seconds < _LONG:
            return
        who, n_epochs = type(self.estimator).__name__, self.estimator.max_iter
        # A training over a base can end early too.
        most = "up to " * (self.estimator.early_stopping or getattr(self.estimator, "base_", None) is not None)
        limit = {"max_time": round(_LONG)}
        shorter = ", ".join(f"{name}={value}" for name, value in (limit | dict(self.cheaper)).items())
        print(
            f"{who}: {n_epochs} epoch{'s' * (n_epochs > 1)} will take {most}about {in_words(round(seconds))} "
            f"({in_words(without_start / n_epochs)} each). Shorter with {shorter}; "
            "estimate_cost(X, y) measures by how much. verbose=1 shows progress, verbose=False hides this line.",
            file=sys.stderr,
            flush=True,
        )
