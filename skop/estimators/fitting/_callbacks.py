"""Actions in a fit: its expected duration, its progress, and scikit-learn's callbacks if installed."""

import copy
import sys
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Self

import torch

from skop._sklearn_compat import fit_context, has_callbacks
from skop.training import History, Monitor, ProgressLine, Trainer, in_words
from skop.training._runtime import give_way

__all__ = ["EpochCallbacks", "FitSeries", "is_called_by_another_tool"]

#: Packages that must receive an interrupt when they have called `fit`, so that they stop too.
_TOOLS = {"dask", "hyperopt", "joblib", "optuna", "ray", "scipy", "sklearn", "skopt"}

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
    is_alone : bool, default=True
        Whether the user's own code, or a `FitSeries`, has called the fit, and not another tool.
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
        is_alone: bool = True,
        cheaper: Mapping[str, Any] = MappingProxyType({}),
        is_told: bool = True,
    ) -> None:
        self.estimator, self.X, self.y = estimator, X, y
        given = {"sample_weight": sample_weight, "params": params}
        self.metadata = {name: value for name, value in given.items() if value is not None}
        verbose, self.epochs, self.is_told = estimator.verbose if is_told else 0, 0, is_told
        self.progress = ProgressLine(type(estimator).__name__, 0 if verbose == "auto" else verbose)
        # The duration of a fit with a time limit is known.
        self.notice: _Notice | None = None
        if verbose == "auto" and is_alone and estimator.max_time is None:
            series = _series.get()
            self.notice = _Notice(estimator, cheaper) if series is None else series.notice_of(estimator, cheaper)
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


class FitSeries:
    """Several fits for one call of the user, one after the other, and the one line about all of them.

    Parameters
    ----------
    caller : str
        Name of the class that the user has called.
    n_fits : int
        Number of fits.
    n_together : int, default=1
        Number of fits at the same time.
    is_alone : bool, default=True
        Whether the user's own code has called, and not another tool; otherwise there is no message.
    """

    def __init__(self, caller: str, n_fits: int, n_together: int = 1, *, is_alone: bool = True) -> None:
        self.caller, self.n_fits, self.n_rounds = caller, n_fits, -(-n_fits // n_together)
        self.is_alone, self.n_done = is_alone, 0
        self.notice: _Notice | None = None

    def run(self, fit: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Make one of the fits, by a function and its arguments."""
        token = _series.set(self)
        try:
            return fit(*args, **options)
        finally:
            _series.reset(token)
            self.n_done += 1

    def notice_of(self, estimator: Any, cheaper: Mapping[str, Any]) -> "_Notice | None":
        """Return the line about all fits, given the present one and what would make it cheaper."""
        if self.notice is None and self.is_alone:
            self.notice = _Notice(estimator, cheaper, self)
        return self.notice


#: The series to which the fits of this thread belong.
_series: ContextVar[FitSeries | None] = ContextVar("series", default=None)


class _Notice:
    """One line on standard error about a fit, or a series of fits, that will take long.

    The duration is extrapolated from the first steps.
    """

    def __init__(self, estimator: Any, cheaper: Mapping[str, Any], series: FitSeries | None = None) -> None:
        self.estimator, self.cheaper, self.series = estimator, cheaper, series
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
        if self.series is not None:
            part = (self.series.n_done + part) / self.series.n_rounds
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
        if seconds < _LONG or sys.stderr is None:
            return
        kind, n_epochs, n_rounds = type(self.estimator).__name__, self.estimator.max_iter, 1
        epochs, who, each = f"{n_epochs} epoch{'s' * (n_epochs > 1)}", kind, "each"
        if self.series is not None and self.series.n_fits > 1:
            n_rounds, who, each = self.series.n_rounds, self.series.caller, "an epoch"
            epochs = f"{self.series.n_fits} fits of {kind} with {epochs} each"
        # A training over a base can end early too.
        most = "up to " * (self.estimator.early_stopping or getattr(self.estimator, "base_", None) is not None)
        # The time limit is that of a single fit.
        limit = {"max_time": max(1, round(_LONG / n_rounds))}
        shorter = ", ".join(f"{name}={value}" for name, value in (limit | dict(self.cheaper)).items())
        print(
            f"{who}: {epochs} will take {most}about {in_words(round(seconds))} "
            f"({in_words(without_start / (n_rounds * n_epochs))} {each}). Shorter with {shorter}; "
            "estimate_cost(X, y) measures by how much. verbose=1 shows progress, verbose=False hides this line.",
            file=sys.stderr,
            flush=True,
        )


def is_called_by_another_tool(within: Callable[..., Any] | None = None) -> bool:
    """Whether `fit` was called by a tool such as a search or a cross-validation, not by the user's own code.

    Callers of the function `within` are not looked at.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if within is not None and frame.f_code is within.__code__:
            return False
        name = str(frame.f_globals.get("__name__"))
        # Skip the frame of scikit-learn's decorator of `fit`, which is there for every caller.
        if name.partition(".")[0] in _TOOLS and name != fit_context.__module__:
            return True
    return False
