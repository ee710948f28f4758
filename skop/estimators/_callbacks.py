"""Epoch by epoch: the progress line, and scikit-learn's callbacks where the installed version has them."""

import copy
from typing import Any, Self

from skop.training import History, ProgressLine

__all__ = ["EpochCallbacks"]


class EpochCallbacks:
    """Called by the trainer after each epoch, within the block that opens and closes it.

    Parameters
    ----------
    estimator : OperatorRegressor
        The estimator being fitted.
    X, y, sample_weight
        What it is fitted on, for callbacks that score.
    """

    def __init__(self, estimator: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> None:
        self.estimator, self.X, self.y = estimator, X, y
        self.metadata = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.progress = ProgressLine(type(estimator).__name__, estimator.verbose)
        self.context: Any = None

    def __enter__(self) -> Self:
        """Tell the callbacks that the fit begins."""
        estimator = self.estimator
        if hasattr(estimator, "_init_callback_context"):
            self.context = estimator._init_callback_context(max_subtasks=estimator.max_iter)
            self.context.call_on_fit_task_begin(estimator=estimator)
        return self

    def __call__(self, history: History, part: float) -> bool:
        """Show progress and run the callbacks; true asks the trainer to stop."""
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
        """End the progress line, and tell the callbacks that the fit is over if it is."""
        self.progress.close()
        if self.context is not None and kind is None:
            self.context.call_on_fit_task_end(estimator=self.estimator)
