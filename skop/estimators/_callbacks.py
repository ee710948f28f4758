"""Actions after each epoch: the progress bar, and scikit-learn's callbacks if the installed version has them."""

import copy
from typing import Any, Self

from skop._sklearn_compat import has_callbacks
from skop.estimators._runtime import give_way
from skop.training import History, ProgressLine

__all__ = ["EpochCallbacks"]


class EpochCallbacks:
    """Context manager that the trainer calls after each epoch.

    Parameters
    ----------
    estimator : OperatorRegressor
        Estimator that is being fitted.
    X, y, sample_weight, params
        Training data, for callbacks that compute scores.
    """

    def __init__(
        self, estimator: Any, X: Any = None, y: Any = None, sample_weight: Any = None, params: Any = None
    ) -> None:
        self.estimator, self.X, self.y = estimator, X, y
        given = {"sample_weight": sample_weight, "params": params}
        self.metadata = {name: value for name, value in given.items() if value is not None}
        self.progress = ProgressLine(type(estimator).__name__, estimator.verbose)
        self.context: Any = None

    @property
    def watches(self) -> bool:
        """Whether there is anyone to tell of an epoch."""
        return self.progress.shows or has_callbacks(self.estimator)

    def __enter__(self) -> Self:
        """Tell the callbacks that the fit begins."""
        estimator = self.estimator
        if hasattr(estimator, "_init_callback_context"):
            self.context = estimator._init_callback_context(max_subtasks=estimator.max_iter)
            self.context.call_on_fit_task_begin(estimator=estimator)
        return self

    def __call__(self, history: History, part: float) -> bool:
        """Show progress and run the callbacks; true asks the trainer to stop."""
        # Fits in other threads go on now, and callbacks may fit something themselves.
        with give_way():
            return self._end_epoch(history, part)

    def _end_epoch(self, history: History, part: float) -> bool:
        """What is to be done after an epoch."""
        words = f"epoch {len(history.loss_curve)}  loss {history.loss_curve[-1]:.4g}"
        if history.validation_errors:
            words += f"  validation {history.validation_errors[-1]:.4g}"
        self.progress.update(part, words)
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
        self.progress.close()
        if self.context is not None and kind is None:
            self.context.call_on_fit_task_end(estimator=self.estimator)
