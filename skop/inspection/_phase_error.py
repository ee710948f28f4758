"""Plot of the phase error over the wave number.

Notation: K wave numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from skop._typing import FloatArray
from skop.inspection._display import Display
from skop.inspection._fields import read_fields
from skop.metrics import phase_error

__all__ = ["PhaseErrorDisplay"]


class PhaseErrorDisplay(Display):
    """Plot of the phase error over the wave number, for one model or for several on the same axes.

    Parameters
    ----------
    errors : ndarray of shape (K,)
        Phase error in radians at the wave numbers 0 to K - 1: result of `skop.metrics.phase_error`.
    name : str or None, default=None
        Name of the model, for the legend.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.
    line_ : matplotlib Line2D
        The curve. It has gaps at wave numbers that the truth does not contain.

    References
    ----------
    Z. Song and Z. Jiang, "Adaptive Mamba Neural Operators", 2025, Fig. 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.inspection import PhaseErrorDisplay
    >>> first = PhaseErrorDisplay(np.array([0.0, 0.1, 1.5]), name="one").plot()
    >>> second = PhaseErrorDisplay(np.array([0.0, 0.2, 0.4]), name="other").plot(ax=first.ax_)
    >>> [text.get_text() for text in first.ax_.get_legend().get_texts()]
    ['one', 'other']
    """

    def __init__(self, errors: FloatArray, *, name: str | None = None) -> None:
        self.errors = errors
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, threshold: float = 1e-6, name: str | None = None, ax: Any = None
    ) -> Self:
        """Predict all samples and draw the phase error.

        Parameters
        ----------
        estimator : estimator
            Estimator, Pipeline or search that was fitted on fields on a grid.
        X, y : as in `fit` of the estimator
            Inputs and true fields.
        threshold : float, default=1e-6
            Amplitude up to which modes are left out, as in `skop.metrics.phase_error`.
        name, ax : as in the constructor and in `plot`
            Name of the model, and axes.

        Returns
        -------
        PhaseErrorDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError, OptionalDependencyError
            Same errors as `from_predictions`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop import LaMORegressor
        >>> from skop.inspection import PhaseErrorDisplay
        >>> X = np.random.default_rng(0).random((8, 12, 1))
        >>> model = LaMORegressor(width=8, depth=1, max_iter=1, random_state=0).fit(X, np.roll(X, 1, axis=1))
        >>> PhaseErrorDisplay.from_estimator(model, X, np.roll(X, 1, axis=1), name="LaMO").errors.shape
        (7,)
        """
        # Read with X, which tells the grid of fields on a line.
        truth, predicted = read_fields(X, y), read_fields(X, estimator.predict(X))
        return cls.from_predictions(truth, predicted, threshold=threshold, name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        grid_shape: Sequence[int] | None = None,
        threshold: float = 1e-6,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the phase error of given predictions.

        Parameters
        ----------
        y_true, y_pred, grid_shape, threshold : as in `skop.metrics.phase_error`
            True and predicted fields, their grid, and the amplitude up to which modes are left out.
        name, ax : as in the constructor and in `plot`
            Name of the model, and axes.

        Returns
        -------
        PhaseErrorDisplay
            The display, with the figure in `figure_`.

        Raises
        ------
        FieldDataError, ValueError, OptionalDependencyError
            Same errors as `skop.metrics.phase_error` and `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> from skop.inspection import PhaseErrorDisplay
        >>> y = np.random.default_rng(0).random((3, 6, 6, 1))
        >>> PhaseErrorDisplay.from_predictions(y, -y).errors.round(3).tolist()
        [3.142, 3.142, 3.142, 3.142]
        """
        errors = phase_error(y_true, y_pred, grid_shape=grid_shape, threshold=threshold)
        return cls(errors, name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on, such as those of another model; None opens a new figure.

        Returns
        -------
        PhaseErrorDisplay
            The display itself.

        Raises
        ------
        OptionalDependencyError
            If matplotlib is not installed.
        """
        (ax,) = self._panels(ax, size=(4.8, 3.4))
        self.ax_ = ax
        # The error of phases that are drawn at random.
        ax.axhline(np.pi / 2, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        # With markers, a wave number between two gaps is visible, too.
        (self.line_,) = ax.plot(np.arange(len(self.errors)), self.errors, "o-", markersize=3, label=self.name)
        ax.set(xlabel="wave number (cycles per box)", ylabel="phase error (rad)", ylim=(-0.05, np.pi + 0.05))
        ax.set_yticks([0.0, np.pi / 4, np.pi / 2, 3 * np.pi / 4, np.pi], ["0", "π/4", "π/2", "3π/4", "π"])
        if self.name is not None:
            ax.legend(frameon=False)
        return self
