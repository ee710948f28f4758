"""Plot of the training curve: loss and validation error of each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from skop._optional import import_optional
from skop.inspection._display import Display

__all__ = ["TrainingCurveDisplay"]


class TrainingCurveDisplay(Display):
    """Loss and validation error over the epochs of a fit, on a logarithmic axis.

    Parameters
    ----------
    loss_curve : sequence of float
        Training loss of each epoch.
    validation_errors : sequence of float or None, default=None
        Validation error (1 minus the validation score) of each epoch; the relative L2 error for the estimators of skop.
    best_iter : int or None, default=None
        Epoch, counted from 1, whose weights were kept; it is marked if there is a validation error.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    lines_ : list of matplotlib Line2D
        The loss, and the validation error if there is one.

    Examples
    --------
    >>> from skop.inspection import TrainingCurveDisplay
    >>> display = TrainingCurveDisplay([1.0, 0.3, 0.1], [1.0, 0.4, 0.2]).plot()
    >>> display.ax_.get_yscale(), len(display.lines_)
    ('log', 2)
    """

    def __init__(
        self,
        loss_curve: Sequence[float],
        validation_errors: Sequence[float] | None = None,
        best_iter: int | None = None,
    ) -> None:
        self.loss_curve = loss_curve
        self.validation_errors = validation_errors
        self.best_iter = best_iter

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the training curve of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with `loss_curve_`, and `validation_scores_` if it was fitted with ``early_stopping=True``.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None opens a new figure.

        Returns
        -------
        TrainingCurveDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        ValueError
            If the estimator has no `loss_curve_`.
        OptionalDependencyError
            If matplotlib is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> from skop.inspection import TrainingCurveDisplay
        >>> X = np.random.default_rng(0).random((8, 6, 6, 1))
        >>> estimator = LaMORegressor(width=8, depth=1, max_iter=3, random_state=0).fit(X, X)
        >>> len(TrainingCurveDisplay.from_estimator(estimator).lines_[0].get_xdata())
        3
        """
        loss_curve = getattr(estimator, "loss_curve_", None)
        if not loss_curve:
            raise ValueError(
                f"{type(estimator).__name__} has no loss_curve_; fit it first, and of a Pipeline or a search pass the "
                "fitted regressor inside, such as search.best_estimator_[-1]."
            )
        scores = getattr(estimator, "validation_scores_", None)
        errors = [1.0 - score for score in scores] if scores else None
        return cls(loss_curve, errors, getattr(estimator, "best_iter_", None)).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None opens a new figure.

        Returns
        -------
        TrainingCurveDisplay
            The display itself.

        Raises
        ------
        OptionalDependencyError
            If matplotlib is not installed.
        """
        (ax,) = self._panels(ax, size=(5.6, 3.6))
        self.ax_ = ax
        self.lines_ = ax.plot(np.arange(1, len(self.loss_curve) + 1), self.loss_curve, label="training loss")
        if self.validation_errors is not None:
            errors = np.asarray(self.validation_errors, dtype=float)
            self.lines_ += ax.plot(np.arange(1, len(errors) + 1), errors, label="validation error (1 − score)")
            if self.best_iter is not None:
                best = errors[self.best_iter - 1]
                kept = f"kept: epoch {self.best_iter}, {100 * best:.3g} %"
                ax.plot(self.best_iter, best, "o", color=self.lines_[1].get_color(), label=kept)
        ax.set(yscale="log", xlabel="epoch", ylabel="loss and error")
        ticker = import_optional("matplotlib.ticker", purpose="draw figures")
        # Losses usually span one or two decades, where ticks at powers of ten only would leave the axis almost empty.
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(ticker.NullFormatter())
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.grid(which="both", alpha=0.25, linewidth=0.6)
        ax.legend(frameon=False)
        return self
